"""Kill -9 at every failpoint: a short version of benchmarks/crash.py, which says what is held."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.corpora import load_benchmark, open_corpus, write_files
from tamis.failpoints import POINTS

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
MOMENTS = 8  # kills from outside, besides one at each point


@pytest.mark.rows("R000-036")
@pytest.mark.slow
def test_no_kill_loses_anything(tmp_path):
    """The index opens and is whole, the doctor is content, the next run ends as a rebuild does."""
    command = [
        sys.executable,
        str(BENCHMARKS / "crash.py"),
        "--each-point",
        "--kills",
        str(MOMENTS),
        "--json",
    ]
    kept = {
        name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ
    }
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=kept | {"HOME": str(tmp_path)},
        timeout=600,
    )
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert told["losses"] == 0, told["loss_examples"]
    assert told["reader_errors"] == 0, told["reader_examples"]
    assert done.returncode == 0
    assert told["points_never_reached"] == []
    assert all(told["by_point"][point] for point in POINTS), told["by_point"]
    assert told["kills"] == len(POINTS) + MOMENTS
    assert told["readers"]["looks"] > 0, "somebody has looked"


@pytest.fixture
def wholeness():
    return load_benchmark("wholeness")


PAGE = "# A\n\n## One\n\nedition 1 part 0 of 2 alpha\n\n## Two\n\nedition 1 part 1 of 2 beta\n"
SMALL = {
    "chunking__min_chars": 0,
    "chunking__max_chars": 300,
    "chunking__overlap_chars": 0,
}


@pytest.mark.parametrize(
    "text",
    [
        PAGE.replace("part 1", "part 2"),
        PAGE.replace("edition 1 part 1", "edition 2 part 1"),
        PAGE[:40],
    ],
)
def test_half_a_document_would_be_noticed(tmp_path, wholeness, text):
    """The measure can fail: a missing part, parts of two editions."""
    with open_corpus(
        write_files(tmp_path / "whole", {"a.md": PAGE}), **SMALL
    ) as corpus:
        assert wholeness.complaints(corpus) == []
    with open_corpus(write_files(tmp_path / "half", {"a.md": text}), **SMALL) as corpus:
        assert "a.md is not one whole edition" in wholeness.complaints(corpus)[0]


def test_any_difference_would_be_noticed(tmp_path, wholeness):
    """A text, a link, a vector, a posting, a document: whatever two indexes do not share is told."""
    files = {"a.md": PAGE, "b.md": "# B\n\nedition 1 part 0 of 1 gamma\n"}
    first = open_corpus(write_files(tmp_path / "one", files), **SMALL)
    with first:
        one = wholeness.content_of(first.directory)
    changed = files | {"b.md": "# B\n\nedition 1 part 0 of 1 gamma zebra [[a]]\n"}
    for name, other, parts in (
        ("link", changed, {"document", "chunks", "links", "rows"}),
        ("less", {"a.md": PAGE}, set()),
    ):
        root = write_files(tmp_path / name, other)
        for file in other:
            os.utime(root / file, ns=(0, (tmp_path / "one" / file).stat().st_mtime_ns))
        with open_corpus(root, **SMALL) as corpus:
            found = wholeness.differences(one, wholeness.content_of(corpus.directory))
        if parts:
            assert {each.partition("other ")[2] for each in found} == parts
            assert all(each.startswith("b.md") for each in found)
        else:
            assert found == ["b.md is in one alone"]
