"""A corpus that keeps itself up to date: answers in time, and what they say of how fresh they are."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.corpora import test_settings, words_first, write_files
from tamis import failpoints
from tamis.corpus import Corpus
from tamis.errors import StorageFault
from tamis.index.embedded.folder import writer_lock
from tamis.live.corpus import LiveCorpus
from tamis.live.folders import Folder
from tamis.models.hashing import HashingEmbedder

FILES = {
    f"note{number}.md": f"# Note {number}\n\nabout the token number{number}"
    for number in range(8)
}
LONG = (
    60.0  # seconds: far more than anything here takes, so that it is never the reason
)


@pytest.fixture
def live_over(tmp_path: Path, monkeypatch) -> Iterator[Callable[..., LiveCorpus]]:
    monkeypatch.setattr("tamis.live.corpus.PATIENCE", LONG)
    monkeypatch.setattr("tamis.live.corpus.REST", 0.0)
    opened: list[LiveCorpus] = []

    def make(files: dict[str, str] | None = None, **flags: object) -> LiveCorpus:
        root = write_files(tmp_path / "root", FILES if files is None else files)
        settings = test_settings(root, **flags)
        opened.append(LiveCorpus(Folder("root", root.resolve(), settings)))
        return opened[-1]

    yield make
    for live in opened:
        live.close()


def settled(live: LiveCorpus) -> None:
    """Wait until nothing goes on in the background."""
    while live.doing().what:
        time.sleep(0.01)


def paths(live: LiveCorpus, question: str) -> list[str]:
    return [result.path for result in live.corpus.search(question, limit=20).results]


@contextmanager
def slow_model(monkeypatch) -> Iterator[threading.Event]:
    """Vectors come when the event is set."""
    go, embed = threading.Event(), HashingEmbedder.embed_passages

    def wait(self, texts):
        if threading.current_thread().name == "tend":
            go.wait(LONG)
        return embed(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed_passages", wait)
    yield go
    go.set()


def test_nothing_is_opened_until_somebody_asks(live_over):
    live = live_over()
    assert not live.corpus.exists()
    assert not live.doing().what


def test_the_first_question_makes_the_index(live_over):
    live = live_over()
    freshness = live.fresh(LONG)
    settled(live)
    assert paths(live, "number3")[0] == "note3.md"
    assert live.fresh(LONG).complete
    assert freshness.pending_files == 0
    again = live.fresh(LONG)
    assert (again.complete, again.embedded, again.note) == (True, 1.0, "")
    assert again.as_of is not None


def test_words_answer_while_vectors_are_made(live_over, monkeypatch):
    live = live_over()
    with words_first(), slow_model(monkeypatch) as go:
        freshness = live.fresh(LONG)
        assert not freshness.complete
        assert (freshness.pending_files, freshness.embedded) == (0, 0.0)
        assert "by their words alone" in freshness.note
        assert freshness.as_of is not None, "every file is in the answer"
        assert paths(live, "number5") == ["note5.md"]
        go.set()
        settled(live)
    assert live.fresh(LONG).complete


def test_no_time_is_no_reason_for_no_answer(live_over):
    live = live_over()
    with held():
        freshness = live.fresh(0.0)
        assert not freshness.complete
        assert freshness.as_of is None
        assert freshness.note
        assert live.corpus.search("token").results == ()
    settled(live)
    assert live.fresh(LONG).complete


@contextmanager
def held() -> Iterator[threading.Event]:
    """The indexing path waits for the event after it has made an empty index."""
    go = threading.Event()

    def wait(point: str) -> None:
        if point == "database.named":
            go.wait(LONG)

    failpoints.arm(wait)
    try:
        yield go
    finally:
        go.set()
        failpoints.arm(None)


def test_changes_are_noticed_at_the_next_question(live_over):
    live = live_over()
    live.fresh(LONG)
    settled(live)
    write_files(
        live.corpus.root, {"new.md": "# New\n\nzebra", "note1.md": "# Note 1\n\nokapi"}
    )
    (live.corpus.root / "note2.md").unlink()
    assert live.fresh(LONG).complete
    assert paths(live, "zebra")[0] == "new.md"
    assert paths(live, "okapi")[0] == "note1.md"
    assert "note2.md" not in paths(live, "number2")


def test_what_an_answer_does_not_know_is_counted(live_over, monkeypatch):
    live = live_over()
    live.fresh(LONG)
    settled(live)
    monkeypatch.setattr("tamis.index.plan.RACY_NS", 0)
    before = live.fresh(LONG).as_of
    settled(live)
    with writer_lock(live.corpus.directory, 0, lambda _: None):
        write_files(live.corpus.root, {"a.md": "# A\n\nzebra", "b.md": "# B\n\nokapi"})
        monkeypatch.setattr("tamis.live.corpus.PATIENCE", 0.3)
        freshness = live.fresh(LONG)
        assert (freshness.complete, freshness.pending_files) == (False, 2)
        assert freshness.as_of is not None and freshness.as_of >= before
        assert "another process" in freshness.note
        assert paths(live, "number5")[0] == "note5.md", "it still answers"
    settled(live)  # the other one has gone: we take over without being asked
    assert paths(live, "zebra")[0] == "a.md"


def test_another_process_that_does_it_for_us(live_over):
    ours = live_over()
    ours.fresh(LONG)
    settled(ours)
    root = ours.corpus.root
    theirs = LiveCorpus(Folder("root", root, test_settings(root)))
    write_files(ours.corpus.root, {"new.md": "# New\n\nzebra"})
    theirs.fresh(LONG)
    settled(theirs)
    theirs.close()
    assert paths(ours, "zebra")[0] == "new.md"
    assert ours.fresh(LONG).complete


def test_files_that_change_while_vectors_are_made(live_over, monkeypatch):
    """Their words come first: embedding gives way between two portions."""
    monkeypatch.setattr("tamis.index.embed_pending.PORTION", 1)
    live = live_over()
    steps = threading.Semaphore(0)
    embed = HashingEmbedder.embed_passages

    def step(self, texts):
        if threading.current_thread().name == "tend":
            steps.acquire(timeout=LONG)
        return embed(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed_passages", step)
    with words_first():
        live.fresh(LONG)
        write_files(live.corpus.root, {"new.md": "# New\n\nzebra"})
        live.fresh(0.0)
        steps.release()
        while "new.md" not in paths(live, "zebra"):
            time.sleep(0.01)
        assert live.corpus.state().pending_chunks > 5, "most of the others still wait"
        for _ in range(50):
            steps.release()
        settled(live)
    assert live.fresh(LONG).complete


def test_a_file_that_cannot_be_indexed_is_not_pending_for_ever(live_over, monkeypatch):
    live = live_over({**FILES, "image.md": "\0\0\0"})
    live.fresh(LONG)
    settled(live)
    monkeypatch.setattr("tamis.index.plan.RACY_NS", 0)
    assert live.corpus.changes().possible == 0
    write_files(live.corpus.root, {"image.md": "# No image\n\nzebra"})
    assert live.corpus.changes().possible == 1
    live.fresh(LONG)
    assert paths(live, "zebra")[0] == "image.md"


def test_whoever_watches_is_told(live_over):
    live = live_over()
    told: list[tuple[int, int, str]] = []
    with held() as go:

        def watch(*words):
            told.append(words)
            go.set()

        live.fresh(LONG, watch)
    assert told
    assert all(done <= total and doing for done, total, doing in told)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(live_over):
    live = live_over()
    live.corpus.root.chmod(0o500)
    try:
        with pytest.raises(StorageFault):
            live.fresh(LONG)
    finally:
        live.corpus.root.chmod(0o700)


def test_no_index_can_be_made(live_over):
    live = live_over()
    write_files(live.corpus.root, {".tamis": "a file where the index should be"})
    for _ in range(2):
        with pytest.raises(StorageFault) as caught:
            live.fresh(LONG)
        assert "is a file" in caught.value.message


def test_a_fault_later_on_is_said_and_the_answer_is_given(live_over, monkeypatch):
    live = live_over()
    live.fresh(LONG)
    settled(live)

    def full(*_, **__):
        raise StorageFault("the disk is full", hint="free some space")

    with monkeypatch.context() as patch:
        patch.setattr("tamis.index.build.build", full)
        write_files(live.corpus.root, {"new.md": "# New\n\nzebra"})
        freshness = live.fresh(LONG)
        assert not freshness.complete
        assert "the disk is full" in freshness.note
        assert "free some space" in freshness.note
        assert paths(live, "number5")[0] == "note5.md"
    live.fresh(LONG)
    assert paths(live, "zebra")[0] == "new.md"
    assert live.fresh(LONG).complete


def test_closing_stops_what_is_under_way_and_loses_nothing(live_over, monkeypatch):
    monkeypatch.setattr("tamis.index.embed_pending.PORTION", 1)
    live = live_over()
    with words_first(), slow_model(monkeypatch) as go:
        live.fresh(LONG)
        assert not live.close(0.0), "it is still stopping"
        go.set()
        settled(live)
    closed = live.corpus
    with Corpus(closed.root, closed.directory, closed.settings) as corpus:
        assert corpus.state().pending_chunks == len(FILES) - 1
    assert live.fresh is not None
    again = live_over()
    again.fresh(LONG)
    settled(again)
    assert again.fresh(LONG).complete


def test_many_threads_ask_at_once(live_over):
    live = live_over()
    answers: list[bool] = []

    def ask() -> None:
        live.fresh(LONG)
        answers.append(paths(live, "number3")[:1] == ["note3.md"])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 8


def test_a_walk_is_not_made_for_every_question(live_over, monkeypatch):
    live = live_over()
    live.fresh(LONG)
    settled(live)
    looks: list[int] = []
    changes = live.corpus.changes
    monkeypatch.setattr(live.corpus, "changes", lambda: looks.append(1) or changes())
    monkeypatch.setattr("tamis.live.corpus.REST", 1e9)
    assert live.fresh(LONG).complete
    assert not looks
    monkeypatch.setattr("tamis.live.corpus.REST", 0.0)
    live.fresh(LONG)
    assert looks


def test_the_index_may_be_elsewhere(tmp_path):
    root = write_files(tmp_path / "root", FILES).resolve()
    place = tmp_path / "elsewhere"
    live = LiveCorpus(Folder("root", root, test_settings(root), place))
    live.fresh(LONG)
    settled(live)
    assert (tmp_path / "elsewhere" / "index.db").exists()
    assert not (root / ".tamis").exists()
    live.close()
    assert "tamis.live.corpus" in sys.modules
