"""How far the files have gone from the index: one count, for status, doctor, searches and servers."""

import os
from dataclasses import replace

import pytest

from support.corpora import open_corpus, test_settings, write_files
from tamis.corpus import Corpus
from tamis.index.plan import Changes
from tamis.model import Skipped

NONE = Changes(changed=0, touched=0, gone=0, outdated=0, unsure=0, warnings=())
LATER = 4_000_000_000  # seconds


@pytest.fixture(autouse=True)
def fine_clocks(monkeypatch):
    """Times are trusted at once: the tests would have to wait for two seconds."""
    monkeypatch.setattr("tamis.index.plan.RACY_NS", 0)


@pytest.fixture
def root(tmp_path):
    files = {
        "a.md": "alpha",
        "b.md": "beta",
        "c.md": "gamma",
        "picture.png": b"\0\1",
        "big.md": "x" * 5_000,
    }
    return write_files(tmp_path / "root", files).resolve()


def test_nothing(root):
    with open_corpus(root, index__max_file_bytes=4_000) as corpus:
        assert [item.reason for item in corpus.status().skipped] == [
            "too large",
            "binary",
        ]
        assert corpus.changes() == NONE


def test_every_kind(root):
    with open_corpus(root, index__max_file_bytes=4_000) as corpus:
        write_files(root, {"new.md": "new", "a.md": "alpha and more"})
        (root / "b.md").unlink()
        (root / ".gitignore").write_bytes(b"\0")
        now = corpus.changes()
        assert now == replace(
            NONE, changed=2, gone=1, warnings=(".gitignore is binary",)
        )
        assert (now.sure, now.possible, corpus.changes().possible) == (3, 3, 3)
        status = corpus.status()
        assert (status.changed_files, status.removed_files) == (2, 1)
        assert status.to_dict()["ignore_warnings"] == [".gitignore is binary"]


def test_other_settings(root):
    open_corpus(root, index__max_file_bytes=4_000).close()
    other = test_settings(root, index__max_file_bytes=4_000, chunking__min_chars=9)
    with Corpus(root, root / ".tamis", other) as corpus:
        write_files(root, {"c.md": "gamma too"})
        now = corpus.changes()
        assert (now.changed, now.outdated, now.sure, now.possible) == (1, 2, 1, 3)
        assert corpus.status().changed_files == 3
        corpus.refresh()
        assert corpus.changes() == NONE


def test_what_was_left_out_counts_when_it_has_changed(root):
    """A picture that has become a text since would otherwise be missing without a word."""
    with open_corpus(root, index__max_file_bytes=4_000) as corpus:
        write_files(root, {"picture.png": "a text now", "big.md": "small now"})
        os.utime(root / "picture.png", (LATER, LATER))
        assert corpus.changes().changed == corpus.status().changed_files == 2
        assert corpus.refresh().indexed == 2


def test_a_moment_before_it_was_read(root, monkeypatch):
    """Nobody can tell without reading: no fault of the index, and nothing to be told of."""
    with open_corpus(root, index__max_file_bytes=4_000) as corpus:
        monkeypatch.setattr("tamis.index.plan.RACY_NS", 10**15)
        now = corpus.changes()
        assert (now.sure, now.unsure, now.possible) == (0, 5, 5)
        assert corpus.status().changed_files == 0


def test_the_doctor_tells_of_ignore_files(root):
    with open_corpus(root) as corpus:
        assert corpus.check().verdict == "healthy"
        (root / ".ignore").write_bytes(b"\0")
        health = corpus.check()
        told = [
            (each.severity, each.what)
            for each in health.findings
            if each.check == "files"
        ]
        assert told == [("warning", ".ignore is binary")]
        assert health.exit_code == 1


@pytest.mark.parametrize(
    "rules", [".gitignore", ".ignore", ".graphragignore", "deeper", "settings"]
)
def test_what_is_no_longer_ignored_is_new(rules, tmp_path):
    """However old it is: the walk gives it, and the index has never seen it."""
    root = write_files(
        tmp_path / "root", {"a.md": "alpha", "sub/notes.log": "beta"}
    ).resolve()
    os.utime(root / "sub/notes.log", (1_600_000_000, 1_600_000_000))
    where = rules if rules.startswith(".") else ".gitignore"
    ignored = {}
    if rules == "settings":
        ignored = {"archive__patterns": ["*.log"], "archive__index": False}
    if rules != "settings":
        write_files(root, {where: "*.log\n"})
    open_corpus(root, **ignored).close()
    with Corpus(root, root / ".tamis", test_settings(root)) as corpus:
        if rules == "deeper":
            write_files(root, {"sub/.gitignore": "!*.log\n"})
        elif rules != "settings":
            write_files(root, {where: ""})
        assert (
            corpus.changes().changed
            == corpus.changes().possible
            == corpus.status().changed_files
            == 1
        )
        assert (
            corpus.search("beta", why_not="sub/notes.log").why_not.reason
            == "not indexed"
        )
        assert corpus.refresh().indexed == 1
        assert corpus.changes().sure == 0


def test_a_change_that_keeps_size_and_time(root):
    """Only the time of the change itself tells, or the number of the file."""
    with open_corpus(root, index__max_file_bytes=4_000) as corpus:
        before = (root / "a.md").stat()
        write_files(root, {"a.md": "omega"})
        os.utime(root / "a.md", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert corpus.changes() == replace(NONE, touched=1)
        assert corpus.changes().possible == corpus.status().touched_files == 1
        assert corpus.refresh().indexed == 1
        write_files(root, {"b.md": "sigma"})
        for name in ("a.md", "b.md"):
            os.utime(root / name, (1_600_000_000, 1_600_000_000))
        corpus.refresh()
        for before, after in (("a.md", "x"), ("b.md", "a.md"), ("x", "b.md")):
            (root / before).rename(root / after)
        assert corpus.changes() == replace(NONE, touched=2)
        files = [each for each in corpus.check().findings if each.check == "files"]
        assert [
            (each.severity, "touched or copied" in each.what) for each in files
        ] == [("ok", True)]


def test_what_was_left_out_may_be_of_any_year(root):
    """A picture from the future is not new for ever."""
    os.utime(root / "picture.png", (LATER, LATER))
    with open_corpus(root, index__max_file_bytes=4_000) as corpus:
        assert corpus.changes() == NONE


def test_a_link_that_has_become_a_file(root):
    (root / "link.md").symlink_to("a.md")
    with open_corpus(root) as corpus:
        (root / "link.md").unlink()
        write_files(root, {"link.md": "a file now"})
        os.utime(root / "link.md", (1_600_000_000, 1_600_000_000))
        assert corpus.changes().changed == 1


def test_a_text_that_has_taken_the_place_of_a_picture(root):
    """With its old time, as a copy or an archive brings it."""
    with open_corpus(root, index__max_file_bytes=4_000) as corpus:
        write_files(root, {"picture.png": "a text"})
        os.utime(root / "picture.png", (1_600_000_000, 1_600_000_000))
        assert corpus.changes().changed == 1


def test_what_can_be_read_again(root, monkeypatch):
    """Nothing of the file itself need have changed: a folder above it may have been opened."""
    with monkeypatch.context() as patch:
        patch.setattr(
            "tamis.ingest.read.read",
            lambda entry, _: Skipped(entry.path, "unreadable", "Permission denied"),
        )
        corpus = open_corpus(root)
    with corpus:
        assert corpus.changes().changed == 5
        monkeypatch.setattr("tamis.index.plan.os.access", lambda *_: False)
        assert corpus.changes().sure == 0


def test_what_still_cannot_be_used_is_told_once(root):
    """It was touched, read again, and left out again."""
    with open_corpus(root, index__max_file_bytes=4_000) as corpus:
        write_files(root, {"picture.png": b"\0\1\2"})
        assert corpus.changes().changed == 1
        corpus.refresh()
        assert corpus.changes() == NONE
