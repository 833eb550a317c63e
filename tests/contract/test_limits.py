"""What tamis does not take more of than it may: files, memory, disk. Sizes of files: test_bad_input.py."""

import json
import math
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from support.corpora import open_corpus, test_settings, words_first, write_files
from support.served import answer, state_of
from tamis.configuration import load
from tamis.corpus import Corpus
from tamis.errors import BadSetting, TooManyFiles
from tamis.index.embedded.database import SegmentRecord
from tamis.index.embedded.segment import pack_dead
from tamis.index.embedded.writer import Writer, segments_to_merge
from tamis.index.plan import dry_run

FILES = {f"{number}.md": f"# {number}\n\nalpha word{number}\n" for number in range(12)}
CLI = [sys.executable, "-c", "from tamis.cli.main import main; main()"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_files(tmp_path / "root", FILES).resolve()


def run(*arguments: object, most: int = 10) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {
        "TAMIS_INDEX_MAX_FILES": str(most),
        "TAMIS_MODEL_NAME": "none",
    }
    command = [*CLI, *map(str, arguments)]
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def corpus_in(root: Path, most: int) -> Corpus:
    return Corpus(root, root / ".tamis", test_settings(root, index__max_files=most))


def test_too_many_files_are_a_question_and_never_half_an_index(root):
    """Without a terminal, an error that says what to do; `--yes` lets them through, for good."""
    for command in (("index",), ("search", "alpha")):
        refused = run(*command, root)
        assert refused.returncode == 2, refused
        assert "more than 10 files" in refused.stderr
        assert "--yes" in refused.stderr
        assert "index.max_files" in refused.stderr
    assert run("index", root, "--yes").returncode == 0
    found = run("search", "alpha", root, "--json", "-n", "20")
    assert json.loads(found.stdout)["index"]["documents"] == len(FILES)


def test_an_index_that_was_let_through_may_grow(root):
    with corpus_in(root, 12) as corpus:
        assert corpus.refresh().indexed == 12
    write_files(root, {"more.md": "alpha"})
    with corpus_in(root, 12) as corpus:
        with pytest.raises(TooManyFiles):
            corpus.refresh()
        assert len(corpus.search("alpha", limit=20).results) == 12, (
            "what is there stays"
        )
    with corpus_in(root, 0) as corpus:
        assert corpus.refresh().indexed == 1
    with corpus_in(root, 12) as corpus:
        write_files(root, {"even more.md": "alpha"})
        assert corpus.refresh().indexed == 1
        assert corpus.rebuild().indexed == 14, "also when it is made anew"
        write_files(root, {f"many/{number}.md": "alpha" for number in range(20)})
        with pytest.raises(TooManyFiles, match=r"more than 2[68] files"):
            corpus.refresh()
    with corpus_in(root, 3) as corpus:
        (root / "0.md").unlink()
        for number in range(20):
            (root / f"many/{number}.md").unlink()
        assert corpus.refresh().removed == 1, (
            "a limit that is lowered takes nothing away"
        )


def test_a_server_says_so_and_answers_from_what_it_has(tmp_path):
    state = state_of(tmp_path / "root", FILES)
    write_files(tmp_path / "root", {"new.md": "alpha"})
    state.close()
    state = state_of(tmp_path / "root", {}, indexed=False, index__max_files=12)
    found = answer(state, query="alpha", limit=20)
    assert len(found["results"]) == 12
    assert "more than 12 files" in found["freshness"]["note"]
    assert "index.max_files" in found["freshness"]["note"]
    state.close()


@pytest.mark.parametrize(("said", "code"), [("y\n", 0), ("\n", 2)])
def test_on_a_terminal_it_asks(root, said, code):
    environment = os.environ | {
        "TAMIS_INDEX_MAX_FILES": "10",
        "TAMIS_MODEL_NAME": "none",
    }
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*CLI, "index", str(root), "-q"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
    ) as process:
        os.close(theirs)
        heard = b""
        while b"[y/N]" not in heard:
            heard += os.read(ours, 1000)
        os.write(ours, said.encode())
        try:
            while more := os.read(ours, 1000):
                heard += more
        except (
            OSError
        ):  # how a terminal whose other end is closed says that there is no more
            pass
        assert process.wait() == code, heard
    os.close(ours)
    assert b"more than 10 files to index. Index all of them?" in heard
    assert (b"hint: " in heard) == bool(code)


@pytest.mark.parametrize(
    ("name", "usual", "more", "less"),
    [
        ("index.max_files", "100", 101, 99),
        ("index.max_files", "100", 0, 1),
        ("index.max_file_bytes", "5000", 5001, 4000),
        ("index.memory_mb", "200", 201, 100),
        ("model.cache_mb", "100", 101, 0),
    ],
)
def test_a_projects_configuration_may_ask_for_less_and_not_for_more(
    tmp_path, name, usual, more, less
):
    section, key = name.split(".")
    user = (
        write_files(tmp_path, {"user.toml": f"[{section}]\n{key} = {usual}\n"})
        / "user.toml"
    )
    environment = {"HOME": str(tmp_path), "TAMIS_USER_CONFIG": str(user)}
    root = write_files(
        tmp_path / "root", {"tamis.toml": f"[{section}]\n{key} = {more}\n"}
    )
    with pytest.raises(BadSetting, match="may not raise it"):
        load(root, environment=environment)
    flagged = load(root, {}, environment=environment, config=root / "tamis.toml")
    assert getattr(getattr(flagged, section), key) == more, (
        "whoever starts it may name the file, and mean it"
    )
    write_files(root, {"tamis.toml": f"[{section}]\n{key} = {less}\n"})
    settings = load(root, environment=environment)
    assert getattr(getattr(settings, section), key) == less


def test_merges_keep_within_memory():
    """Whatever is chosen costs no more than there is; what costs more stays as it is."""
    records = [
        SegmentRecord(
            number, f"{number:032x}", rows=10, documents=1, dead=pack_dead_of(False)
        )
        for number in range(12)
    ]
    costs = {record.id: 10.0 for record in records}
    assert len(segments_to_merge(records, 4, costs, 1_000)) > 5
    few = segments_to_merge(records, 4, costs, 55)
    assert 2 <= len(few) <= 5
    assert segments_to_merge(records, 4, costs, 15) == [], (
        "one alone would only be written again"
    )
    dead = [
        *records[:-1],
        SegmentRecord(99, "f" * 32, rows=10, documents=1, dead=pack_dead_of(True)),
    ]
    assert [each.id for each in segments_to_merge(dead, 20, costs | {99: 0.0}, 15)] == [
        99
    ]


def pack_dead_of(is_dead: bool) -> bytes:
    return pack_dead(np.array([is_dead]))


def test_batches_and_commits_keep_within_memory(root, monkeypatch):
    """Less memory is more writes. How much it really takes is measured by benchmarks/memory.py."""
    writes: list[str] = []

    def counted(name: str) -> Callable[..., None]:
        write = getattr(Writer, name)

        def spy(*given: object, **named: object) -> None:
            writes.append(name)
            write(*given, **named)

        return spy

    for name in ("put", "embed"):
        monkeypatch.setattr(Writer, name, counted(name))
    monkeypatch.setattr("tamis.index.build.BATCH_SECONDS", 1e9)
    monkeypatch.setattr("tamis.index.build.FIRST_SECONDS", 1e9)
    counts = []
    for memory in (1e9, 3e4):
        monkeypatch.setattr(
            "tamis.index.build._memory", lambda _, memory=memory: memory
        )
        monkeypatch.setattr("tamis.index.plan.largest_file", lambda _: math.inf)
        writes.clear()
        with words_first(), corpus_in(root, 0) as corpus:
            assert corpus.rebuild().indexed == 12
            write_files(root, {name: f"{text}{memory}" for name, text in FILES.items()})
            assert corpus.refresh().indexed == 12
            assert corpus.check(full=True).exit_code == 0
        counts.append(len(writes))
    assert counts[0] <= 4
    assert counts[1] > 3 * counts[0]


def test_a_file_that_no_memory_is_left_for_is_skipped_and_said(tmp_path):
    """index.memory_mb: also the largest file must fit."""
    root = write_files(
        tmp_path / "root",
        {"a.md": "alpha", "large.md": "alpha " * 20 + "\n" + "\n" * 1_700_000},
    )
    with open_corpus(root, index__memory_mb=64) as corpus:
        (skipped,) = corpus.status().skipped
        assert (skipped.path, skipped.reason) == ("large.md", "too large")
        assert "index.memory_mb" in skipped.detail
    with open_corpus(root, index__memory_mb=200) as corpus:
        assert corpus.status().skipped == ()


def test_another_limit_counts_for_what_is_indexed_already(tmp_path, monkeypatch):
    """An index kept up to date answers as a new one does; until then, status says that a run is due."""
    monkeypatch.setattr("tamis.index.plan.RACY_NS", 0)
    root = write_files(
        tmp_path / "root", {"small.md": "alpha", "big.md": "alpha beta " * 100}
    ).resolve()
    open_corpus(root).close()
    for most, gone, found in (
        (100, 1, ["small.md"]),
        (5_000, 0, ["big.md", "small.md"]),
    ):
        with Corpus(
            root, root / ".tamis", test_settings(root, index__max_file_bytes=most)
        ) as corpus:
            assert (
                corpus.changes().possible
                == corpus.changes().sure
                == corpus.status().changed_files
                == 1
            )
            report = corpus.refresh()
            assert (report.removed, report.indexed) == (gone, 1 - gone)
            assert sorted(each.path for each in corpus.search("alpha").results) == found
            assert (
                corpus.changes().possible
                == corpus.changes().sure
                == corpus.status().changed_files
                == 0
            )


def test_a_dry_run_knows_the_limits(tmp_path):
    root = write_files(
        tmp_path / "root", {"large.md": "alpha " * 20 + "\n" + "\n" * 1_700_000}
    )
    (skipped,) = dry_run(root, test_settings(root, index__memory_mb=64))[1]
    assert "index.memory_mb" in skipped.detail
