"""Disks, clocks and folders that fail while we are at it: a message that says what to do, and nothing lost.

Full and read-only disks, files that vanish and damaged pages are in test_bad_input.py; killed processes and
their locks in test_processes.py and test_crash.py.
"""

import errno
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.corpora import open_corpus, test_settings, write_files
from tamis.corpus import Corpus
from tamis.errors import IndexMissing, StorageFault
from tamis.index.embedded import database
from tamis.ingest import read as reading
from tamis.ingest import walk as walking

FILES = {
    f"d{number % 3}/f{number}.md": f"# F{number}\n\nalpha number{number} beta\n"
    for number in range(12)
}
QUESTIONS = ("alpha", "number7 beta", "number3")


@pytest.fixture
def corpus(tmp_path) -> Iterator[Corpus]:
    with open_corpus(write_files(tmp_path / "root", FILES)) as opened:
        yield opened


def answers(corpus: Corpus) -> list[Any]:
    return [
        [each.to_dict() for each in corpus.search(asked, limit=50).results]
        for asked in QUESTIONS
    ]


def rebuilt(corpus: Corpus, aside: Path) -> list[Any]:
    with Corpus(corpus.root, aside, corpus.settings) as anew:
        anew.refresh()
        return answers(anew)


def failing(
    real: Callable[..., Any], code: int, when: Callable[[int], bool]
) -> Callable[..., Any]:
    """A call of the system that fails at some of the times that it is made."""
    calls = [0]

    def call(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if when(calls[0]):
            raise OSError(code, os.strerror(code))
        return real(*arguments, **options)

    return call


def test_an_index_that_is_thrown_away_while_it_is_opened(corpus, monkeypatch):
    """Whoever looked a moment too early is told that there is none, and not to check permissions."""
    directory = corpus.directory
    corpus.close()

    def too_late(place: Path) -> None:
        (place / "index.db").unlink()

    monkeypatch.setattr(database, "_check_links", too_late)
    with pytest.raises(IndexMissing):
        database.open_reader(directory)


@pytest.mark.parametrize("at", range(1, 7))
@pytest.mark.parametrize("again", ["refresh", "rebuild"])
def test_a_disk_that_fails_while_it_is_written(
    corpus, tmp_path, monkeypatch, at, again
):
    before = answers(corpus)
    write_files(
        corpus.root,
        {"d0/f0.md": "# F0\n\nalpha otherwise", "new.md": "# New\n\nalpha new"},
    )
    with monkeypatch.context() as patch:
        patch.setattr(
            os, "fsync", failing(os.fsync, errno.EIO, lambda call: call == at)
        )
        with pytest.raises(StorageFault, match="the disk reported an error") as fault:
            getattr(corpus, again)()
    assert "check the disk" in fault.value.hint
    assert answers(corpus) == before
    getattr(corpus, again)()
    assert corpus.check(full=True).verdict == "healthy"
    assert answers(corpus) == rebuilt(corpus, tmp_path / "aside")


def test_a_disk_that_fails_while_the_index_is_read(corpus, monkeypatch):
    before = answers(corpus)
    with Corpus(corpus.root, corpus.directory, corpus.settings) as other:
        with monkeypatch.context() as patch:
            broken = failing(lambda file: None, errno.EIO, lambda call: True)
            patch.setattr("tamis.index.embedded.segment.map_arrays", broken)
            with pytest.raises(StorageFault, match="cannot read the index") as fault:
                other.search("alpha")
            assert "your files are untouched" in fault.value.hint
        assert answers(other) == before, "the next question is answered"


def test_a_file_that_the_disk_does_not_give(corpus, tmp_path, monkeypatch):
    """It is named among what was skipped, the rest goes on, and it is back when the disk is."""
    before = answers(corpus)
    with monkeypatch.context() as patch:
        real = reading.load

        def broken(root: str, path: str, most: int) -> Any:
            if path == "d1/f7.md":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(root, path, most)

        patch.setattr(reading, "load", broken)
        report = corpus.rebuild()
    assert [(each.path, each.reason) for each in report.skipped] == [
        ("d1/f7.md", "unreadable")
    ]
    assert report.indexed == len(FILES) - 1
    corpus.refresh()
    assert answers(corpus) == before == rebuilt(corpus, tmp_path / "aside")


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ENOENT])
def test_a_folder_that_closes_in_mid_walk(corpus, tmp_path, monkeypatch, code):
    """Permissions may change between two folders. What is not seen leaves, is named, and comes back."""
    before = answers(corpus)
    with monkeypatch.context() as patch:
        real = os.scandir

        def scandir(folder: Any) -> Any:
            if str(folder).endswith("/d1"):
                raise OSError(code, os.strerror(code))
            return real(folder)

        patch.setattr(walking.os, "scandir", scandir)
        report = corpus.refresh()
    assert [(each.path, each.reason) for each in report.skipped] == [
        ("d1/", "unreadable")
    ]
    assert {
        each.path.split("/")[0] for each in corpus.search("alpha", limit=50).results
    } == {"d0", "d2"}
    corpus.refresh()
    assert answers(corpus) == before == rebuilt(corpus, tmp_path / "aside")


def test_a_folder_that_goes_in_mid_walk(corpus, tmp_path, monkeypatch):
    real = walking.stamps

    def stamps(status: os.stat_result) -> Any:
        gone = corpus.root / "d1"  # listed already, and gone before it is looked at
        shutil.rmtree(gone, ignore_errors=True)
        return real(status)

    with monkeypatch.context() as patch:
        patch.setattr(walking, "stamps", stamps)
        report = corpus.refresh()
    assert report.removed == sum(path.startswith("d1/") for path in FILES)
    assert answers(corpus) == rebuilt(corpus, tmp_path / "aside")


# With -B: Python would leave half a compiled module behind, and trip over it ever after.
LIMITED = """
import resource, sys
from tamis.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
main(sys.argv[2:])
"""


@pytest.mark.parametrize("most", [2_000, 30_000])
def test_a_limit_on_the_size_of_files(corpus, tmp_path, most):
    """Which ends a write in the middle, with an error that is neither a full disk's nor a broken one's."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    before = answers(corpus)
    write_files(
        corpus.root,
        {f"more/m{n}.md": f"# M{n}\n\n" + "gamma delta " * 400 for n in range(30)},
    )
    command = [
        sys.executable,
        "-B",
        "-c",
        LIMITED,
        str(most),
        "index",
        str(corpus.root),
        "--model",
        "hashing",
        "-q",
    ]
    kept = {
        name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ
    }
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=kept | {"HOME": str(tmp_path)},
        timeout=120,
    )
    assert done.returncode == 2
    assert "hint: " in done.stderr and "Traceback" not in done.stderr
    assert answers(corpus) == before
    corpus.refresh()
    assert corpus.check(full=True).verdict == "healthy"
    assert answers(corpus) == rebuilt(corpus, tmp_path / "aside")


@pytest.mark.parametrize("jump", [-86_400, -1, 86_400 * 365])
def test_a_clock_that_jumps_in_mid_run(corpus, tmp_path, monkeypatch, jump):
    """A run begins at one time and ends at another; whatever changes afterwards is found all the same."""
    calls = [0]

    def shift() -> int:
        calls[0] += 1
        return jump if calls[0] > 5 else 0

    real, real_ns = time.time, time.time_ns
    write_files(corpus.root, {path: text + "gamma\n" for path, text in FILES.items()})
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: real() + shift())
        patch.setattr(time, "time_ns", lambda: real_ns() + shift() * 10**9)
        assert corpus.refresh().indexed == len(FILES)
    assert calls[0] > 5, "it jumped in the middle"
    assert answers(corpus) == rebuilt(corpus, tmp_path / "aside")
    write_files(
        corpus.root, {"d0/f3.md": FILES["d0/f3.md"] + "delta\n"}
    )  # as long as it was
    assert corpus.refresh().indexed == 1
    assert corpus.search("delta").results[0].path == "d0/f3.md"
    assert corpus.check(full=True).verdict == "healthy"


def test_files_from_the_future_and_from_before_all_time(corpus, tmp_path):
    """Times that cannot be trusted are not: content decides, also where nothing else tells of a change."""
    future, past = 4_102_444_800 * 10**9, -(10**18)
    for path, stamp in (("d0/f0.md", future), ("d1/f1.md", past)):
        os.utime(corpus.root / path, ns=(stamp, stamp))
    assert corpus.refresh().indexed == 0
    for path, stamp in (("d0/f0.md", future), ("d1/f1.md", past)):
        text = FILES[path].replace("beta", "zeta")
        (corpus.root / path).write_text(text, encoding="utf-8")
        os.utime(corpus.root / path, ns=(stamp, stamp))
    assert corpus.refresh().indexed == 2
    assert {each.path for each in corpus.search("zeta", limit=2).results} == {
        "d0/f0.md",
        "d1/f1.md",
    }
    assert answers(corpus) == rebuilt(corpus, tmp_path / "aside")


def test_a_lock_file_of_a_process_that_is_no_more(corpus):
    """A file keeps nobody out, whatever it says: a lock goes with its process."""
    for name in ("writer.lock", "watch.lock", "concepts.lock"):
        (corpus.directory / name).write_text("process 4194303", encoding="ascii")
    settings = test_settings(corpus.root, index__lock_timeout=0)
    write_files(corpus.root, {"new.md": "# New\n\nalpha new"})
    with Corpus(corpus.root, corpus.directory, settings) as other:
        assert other.refresh().indexed == 1
        (lock,) = [each for each in other.check().findings if each.check == "lock"]
    assert lock.what == "nobody is writing"


def test_two_processes_with_other_settings(corpus, tmp_path):
    """Each makes of the index what its own settings say; neither loses a document."""
    texts = {
        f"long{n}.md": f"# L{n}\n\n" + f"alpha sentence number{n}. " * 60
        for n in range(4)
    }
    write_files(corpus.root, texts)
    corpus.refresh()
    other_settings = test_settings(
        corpus.root, chunking__max_chars=300, chunking__overlap_chars=20
    )
    with Corpus(corpus.root, corpus.directory, other_settings) as other:
        for mine, theirs in ((corpus, other), (other, corpus)):
            found = [
                each for each in mine.check().findings if each.severity == "warning"
            ]
            assert [each.check for each in found] == (
                [] if mine is corpus else ["pending"]
            )
            theirs.refresh()
            (odd,) = [
                each for each in mine.check().findings if each.severity == "warning"
            ]
            assert odd.check == "pending" and "tamis index" in odd.hint
            assert mine.state().documents == len(FILES) + len(texts)
            mine.refresh()
            assert mine.check(full=True).verdict == "healthy"
            assert answers(mine) == rebuilt(mine, tmp_path / f"aside{id(mine)}")
