"""Watching: real files, real notices, and for what ends a process, real processes.

Nothing is timed: `caught_up` waits until everything that happened before it has been handed on and indexed.
"""

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.corpora import test_settings, words_first, write_files
from tamis.corpus import Corpus
from tamis.errors import (
    BadSetting,
    IndexMismatch,
    IndexMissing,
    StorageFault,
    TamisError,
)
from tamis.index.build import build
from tamis.index.embedded.reader import _edition
from tamis.index.engines import sole_watcher
from tamis.live.corpus import LiveCorpus
from tamis.live.folders import Folder
from tamis.live.notices import LOST, NoNotices, Notices, Paths
from tamis.live.watcher import Said, Watcher
from tamis.model import Report
from tamis.models.hashing import HashingEmbedder
from tamis.settings import Settings

FILES = {
    f"docs/note{number}.md": f"# Note {number}\n\nabout the token number{number}"
    for number in range(5)
}
LONG = (
    120.0  # seconds: far more than anything here takes, so that it is never the reason
)


class Watched:
    """A live corpus that is watched, and what it said."""

    def __init__(
        self, root: Path, index_dir: Path | None = None, **flags: object
    ) -> None:
        self.root = root
        self.flags = {"watch__debounce_ms": 50} | flags
        self.outcomes: list[Report | TamisError] = []
        self.said: list[Said] = []
        self.calls: list[bool] = []
        folder = Folder("root", root, self.settings(), index_dir, self.settings)
        self.live = LiveCorpus(folder, self.tell)

    def tell(self, event: Said | Report | TamisError) -> None:
        if isinstance(event, Said):
            self.said.append(event)
        else:
            self.outcomes.append(event)

    def settings(self) -> Settings:
        return test_settings(self.root, **self.flags)

    def watch(self) -> None:
        """Watch, and keep the watcher and its calls."""

        class Observed(Watcher):
            def __init__(observed, *arguments: Any, **options: Any) -> None:
                *before, changed = arguments

                def call(sure: bool) -> float:
                    self.calls.append(sure)
                    return changed(sure)

                super().__init__(*before, call, **options)
                self.watcher = observed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tamis.live.corpus.Watcher", Observed)
            self.live.watch()

    def start(self) -> "Watched":
        self.watch()
        self.caught_up()
        return self

    def caught_up(self) -> None:
        now = time.time()
        until(
            lambda: self.watcher.told_until > now and not self.live.doing().what,
            self,
        )

    def found(self, question: str) -> list[str]:
        """By its words: the meaning lane has something to say of every file."""
        results = self.live.corpus.search(question, limit=50).results
        return [
            result.path
            for result in results
            if any(each.lane == "words" for each in result.evidence)
        ]

    def states(self) -> list[str]:
        return [said.state for said in self.said]

    def runs(self) -> list[Report]:
        """Those that did something."""
        reports = [each for each in self.outcomes if isinstance(each, Report)]
        return [each for each in reports if each.indexed or each.removed]

    def __repr__(self) -> str:
        return f"said {self.said}, outcomes {self.outcomes[-3:]}"


def until(condition: Callable[[], object], about: object = "") -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, about
        time.sleep(0.02)


class Heard(Notices):
    """Notices that are kept, with the function that takes them."""

    def __init__(self, folders: Sequence[str], hear: Callable[[Paths], None]) -> None:
        super().__init__(folders, hear)
        self.hear = hear
        heard.append(self)


heard: list[Heard] = []  # of the test that runs


@pytest.fixture(autouse=True)
def listening(monkeypatch: pytest.MonkeyPatch) -> None:
    heard.clear()
    monkeypatch.setattr("tamis.live.watcher.Notices", Heard)


@pytest.fixture
def watched_over(tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    opened: list[Watched] = []

    def make(
        files: dict[str, str] | None = None,
        index_dir: Path | None = None,
        **flags: object,
    ) -> Watched:
        root = write_files(
            tmp_path / "root", FILES if files is None else files
        ).resolve()
        opened.append(Watched(root, index_dir, **flags))
        return opened[-1].start()

    yield make
    for watched in opened:
        watched.live.close()


def as_rebuilt(watched: Watched, tmp_path: Path) -> bool:
    """Whether the index answers as a new one does."""
    with Corpus(watched.root, tmp_path / "anew", watched.live.corpus.settings) as anew:
        anew.rebuild()
        return answers(watched.live.corpus) == answers(anew)


def answers(corpus: Corpus) -> list[object]:
    questions = ("number1", "token", "zebra")
    return [
        result.to_dict()
        for each in questions
        for result in corpus.search(each, limit=50).results
    ]


def test_files_come_change_move_and_go(watched_over, tmp_path):
    watched = watched_over()
    assert watched.states() == ["watching"]
    assert [(run.indexed, run.removed) for run in watched.runs()] == [(5, 0)]
    write_files(watched.root, {"new.md": "# New\n\nzebra"})
    watched.caught_up()
    assert watched.found("zebra")[0] == "new.md"
    write_files(watched.root, {"docs/note1.md": "# Note 1\n\nokapi"})
    watched.caught_up()
    assert watched.found("okapi")[0] == "docs/note1.md"
    (watched.root / "new.md").rename(watched.root / "docs" / "moved.md")
    watched.caught_up()
    assert "docs/moved.md" in watched.found("zebra")
    assert "new.md" not in watched.found("zebra")
    (watched.root / "docs" / "note2.md").unlink()
    watched.caught_up()
    assert "docs/note2.md" not in watched.found("number2")
    assert as_rebuilt(watched, tmp_path)


def test_an_editors_atomic_save(watched_over):
    watched = watched_over()
    for turn in range(3):
        aside = watched.root / "docs" / f".note0.md.{turn}.tmp"
        aside.write_text(f"# Note 0\n\nzebra{turn}", encoding="utf-8")
        os.replace(aside, watched.root / "docs" / "note0.md")
        watched.caught_up()
        assert watched.found(f"zebra{turn}")[0] == "docs/note0.md"


def test_new_folders_with_files_and_what_happens_in_them_later(watched_over, tmp_path):
    watched = watched_over()
    write_files(
        watched.root,
        {"a/b/c/deep.md": "# Deep\n\nzebra", "a/b/other.md": "# Other\n\nokapi"},
    )
    watched.caught_up()
    assert watched.found("zebra")[0] == "a/b/c/deep.md"
    write_files(watched.root, {"a/b/c/deep.md": "# Deep\n\ngiraffe"})
    watched.caught_up()
    assert watched.found("giraffe")[0] == "a/b/c/deep.md"
    (watched.root / "a").rename(watched.root / "z")
    watched.caught_up()
    write_files(watched.root, {"z/b/c/deep.md": "# Deep\n\ngnu"})
    watched.caught_up()
    assert watched.found("gnu")[0] == "z/b/c/deep.md"
    assert not [path for path in watched.found("okapi") if path.startswith("a/")]
    shutil.copytree(watched.root / "z", tmp_path / "whole")
    (tmp_path / "whole").rename(watched.root / "brought")
    watched.caught_up()
    assert "brought/b/c/deep.md" in watched.found("gnu")


def test_a_folder_that_goes_and_comes_between_two_looks(watched_over):
    """It has the same name, and its watch went with the old one."""
    watched = watched_over(watch__debounce_ms=1000)
    shutil.rmtree(watched.root / "docs")
    write_files(watched.root, {"docs/note0.md": "# Note 0\n\nzebra"})
    watched.caught_up()
    assert watched.found("zebra")[0] == "docs/note0.md"
    write_files(watched.root, {"docs/note0.md": "# Note 0\n\nokapi"})
    watched.caught_up()
    assert watched.found("okapi")[0] == "docs/note0.md"


def test_ignored_trees_wake_nobody(watched_over):
    files = {
        **FILES,
        "node_modules/old/a.md": "x",
        ".gitignore": "*.log\nout/\n",
        ".git/HEAD": "x",
    }
    watched = watched_over(files)
    calls = len(watched.calls)
    modules = {f"node_modules/p{n % 40}/lib/f{n}.md": "zebra" for n in range(600)}
    logs = {f"docs/{n}.log": "zebra" for n in range(50)} | {
        "docs/.note0.md.swp": "zebra",
        "docs/a.md~": "x",
    }
    write_files(watched.root, modules | logs)
    write_files(
        watched.root,
        {".git/index": "x", ".git/objects/ab/cdef": "x", ".tamis/index.db-wal2": "x"},
    )
    for name in ("docs/1.log", "docs/.note0.md.swp"):
        (watched.root / name).unlink()
    watched.caught_up()
    assert len(watched.calls) == calls
    assert watched.found("zebra") == []
    (watched.root / ".tamis/index.db-wal2").unlink()


@pytest.mark.skipif(
    not os.path.exists("/proc/self/fdinfo"), reason="counted where Linux lists them"
)
def test_ignored_trees_are_not_even_watched(watched_over):
    files = {
        **FILES,
        **{f"node_modules/p{n}/a.md": "x" for n in range(50)},
        ".git/objects/ab/c": "x",
    }
    before = _inotify_watches()
    watched_over(files)
    assert 2 <= _inotify_watches() - before < 10


def _inotify_watches() -> int:
    total = 0
    for name in os.listdir("/proc/self/fdinfo"):
        try:
            total += (
                Path("/proc/self/fdinfo", name).read_text("ascii").count("inotify wd:")
            )
        except OSError:
            continue
    return total


def test_ignore_files_and_settings_take_effect(watched_over):
    watched = watched_over(
        {**FILES, "drafts/d.md": "# D\n\nzebra", "sub/x.md": "# X\n\nokapi"}
    )
    write_files(watched.root, {".gitignore": "drafts/\n"})
    watched.caught_up()
    assert watched.found("zebra") == []
    write_files(watched.root, {"sub/.ignore": "x.md\n"})
    watched.caught_up()
    assert "sub/x.md" not in watched.found("okapi")
    write_files(watched.root, {"drafts/d.md": "# D\n\nstill ignored"})
    (watched.root / ".gitignore").unlink()
    watched.caught_up()
    assert "drafts/d.md" in watched.found("still ignored")
    write_files(watched.root, {"drafts/d.md": "# D\n\nzebra again"})
    watched.caught_up()
    assert "drafts/d.md" in watched.found("zebra")
    write_files(watched.root, {".graphragignore": "docs/\n"})
    watched.caught_up()
    assert not [path for path in watched.found("number1") if path.startswith("docs/")]
    (watched.root / ".graphragignore").unlink()
    watched.caught_up()
    assert watched.found("number1") == ["docs/note1.md"]
    write_files(
        watched.root,
        {
            "tamis.toml": "[archive]\nindex = false\npatterns = ['drafts/']\n[search]\nlimit = 3\n"
        },
    )
    watched.caught_up()
    assert "drafts/d.md" not in watched.found("zebra")
    assert watched.live.corpus.settings.search.limit == 3


def test_ignore_files_outside_the_root_take_effect(watched_over, tmp_path, monkeypatch):
    """Those of the folders above it in its work tree, and the user's own, which need not be there yet."""
    home = write_files(tmp_path / "home", {"config": "[core]\nexcludesFile = ~/mine\n"})
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "config"))
    (tmp_path / ".git").mkdir()
    watched = watched_over()
    write_files(tmp_path, {".gitignore": "note1.md\n"})
    watched.caught_up()
    assert watched.found("number1") == []
    write_files(home, {"mine": "note2.md\n"})
    watched.caught_up()
    assert watched.found("number2") == []
    (tmp_path / ".gitignore").unlink()
    watched.caught_up()
    assert watched.found("number1") == ["docs/note1.md"]


def test_settings_that_cannot_be_read_are_said_and_the_old_ones_hold(watched_over):
    watched = watched_over()
    write_files(watched.root, {"tamis.toml": "[serch]\n"})
    watched.caught_up()
    faults = [each for each in watched.outcomes if isinstance(each, TamisError)]
    assert [type(fault) for fault in faults] == [BadSetting], (
        "once, though it was read more than once"
    )
    write_files(watched.root, {"new.md": "# New\n\nzebra"})
    watched.caught_up()
    assert watched.found("zebra")[0] == "new.md"
    write_files(watched.root, {"tamis.toml": "[search]\nlimit = 2\n"})
    watched.caught_up()
    assert watched.live.corpus.settings.search.limit == 2


def test_a_configured_model_that_the_index_does_not_have(watched_over):
    watched = watched_over()
    watched.flags["model__name"] = "none"
    write_files(watched.root, {"tamis.toml": "# read again"})
    until(
        lambda: any(isinstance(each, IndexMismatch) for each in watched.outcomes),
        watched,
    )
    watched.flags["model__name"] = "hashing"
    write_files(watched.root, {"tamis.toml": "", "new.md": "# New\n\nzebra"})
    watched.caught_up()
    assert watched.found("zebra")[0] == "new.md"


def test_two_thousand_files_at_once(watched_over, tmp_path):
    watched = watched_over(watch__debounce_ms=3000)
    runs = len(watched.runs())
    write_files(
        watched.root,
        {f"many/f{n % 20}/n{n}.md": f"# N{n}\n\nword{n} zebra" for n in range(2000)},
    )
    watched.caught_up()
    assert watched.live.corpus.state().documents == 2005
    assert len(watched.runs()) - runs <= 3
    assert watched.found("word1234")[0] == "many/f14/n1234.md"
    shutil.rmtree(watched.root / "many")
    watched.caught_up()
    assert watched.live.corpus.state().documents == 5
    assert as_rebuilt(watched, tmp_path)


def test_a_checkout_of_another_branch(watched_over, tmp_path):
    root = write_files(tmp_path / "root", FILES)
    for arguments in (
        ["init", "-q"],
        ["add", "."],
        ["commit", "-qm", "one"],
        ["checkout", "-qb", "two"],
    ):
        _git(root, *arguments)
    write_files(
        root, {f"docs/note{n}.md": f"# Other {n}\n\nzebra{n}" for n in range(3, 300)}
    )
    _git(root, "add", ".")
    _git(root, "commit", "-qm", "two")
    watched = watched_over({})
    assert watched.live.corpus.state().documents == 300
    _git(root, "checkout", "-q", "-")
    watched.caught_up()
    assert watched.live.corpus.state().documents == 5
    assert watched.found("number4")[0] == "docs/note4.md"


def test_a_commit_moves_dates_without_touching_a_file(watched_over, tmp_path):
    root = write_files(tmp_path / "root", FILES)
    _git(root, "init", "-q")
    watched = watched_over({})
    _git(root, "add", ".")
    for year in (
        2020,
        2021,
    ):  # the first commit makes the folder that the second is seen in
        write_files(root, {"docs/note1.md": f"# Note 1\n\nnumber1 of {year}"})
        _git(root, "add", ".")
        watched.caught_up()
        _git(root, "commit", "-qm", "x", GIT_COMMITTER_DATE=f"{year}-01-01T00:00:00Z")
        watched.caught_up()
        dates = {
            each.path: each.modified
            for each in watched.live.corpus.search("number1").results
        }
        assert dates["docs/note1.md"] == f"{year}-01-01T00:00:00Z"


def _git(root: Path, *arguments: str, **more: str) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **more}
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(
        ["git", "-C", str(root), *identity, *arguments], check=True, env=environment
    )


def test_an_overflow_is_reconciled(watched_over, monkeypatch):
    watched = watched_over()
    with monkeypatch.context() as patch:
        patch.setattr(
            "tamis.live.notices.Signs.matters", lambda *_: False
        )  # as if we were not told
        write_files(
            watched.root, {"new.md": "# New\n\nzebra", "later/x.md": "# X\n\nokapi"}
        )
        watched.caught_up()
        assert watched.found("zebra") == []
    before = heard[-1]
    before.hear(LOST)
    watched.caught_up()
    assert watched.found("zebra")[0] == "new.md"
    assert heard[-1] is not before, "what it listened to may be gone"
    write_files(watched.root, {"later/x.md": "# X\n\ngiraffe"})
    watched.caught_up()
    assert watched.found("giraffe")[0] == "later/x.md"


def test_a_flood_of_ignored_files_may_hide_one_that_counts(watched_over):
    watched = watched_over()
    calls = len(watched.calls)
    heard[-1].hear(frozenset({str(watched.root / "docs/a.log.tmp")}))
    assert len(watched.calls) == calls
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tamis.live.notices.FLOOD", 20)
        write_files(watched.root, {f"docs/{n}.tmp": "x" for n in range(200)})
        until(lambda: len(watched.calls) > calls, watched)


def test_a_name_that_is_no_utf8_ends_no_watching(watched_over):
    watched = watched_over()
    try:
        Path(os.fsdecode(os.fsencode(watched.root) + b"/bad\xff.md")).write_text("x")
    except OSError:
        pytest.skip("this file system has no such names")
    watched.caught_up()
    write_files(watched.root, {"new.md": "# New\n\nzebra"})
    watched.caught_up()
    assert watched.found("zebra")[0] == "new.md"


def test_a_sweep_finds_what_nobody_told(watched_over, monkeypatch):
    watched = watched_over(watch__sweep_seconds=1)
    monkeypatch.setattr("tamis.live.notices.Signs.matters", lambda *_: False)
    write_files(watched.root, {"new.md": "# New\n\nzebra"})
    until(lambda: watched.found("zebra"), watched)


def test_a_root_that_goes_and_comes_back(watched_over):
    watched = watched_over()
    away = watched.root.with_name("away")
    watched.root.rename(away)
    until(lambda: watched.states()[-1] == "waiting", watched)
    assert not watched.root.exists(), "nobody makes it again"
    write_files(away, {"new.md": "# New\n\nzebra"})
    away.rename(watched.root)
    until(lambda: watched.states()[-1] == "watching", watched)
    watched.caught_up()
    assert watched.found("zebra")[0] == "new.md"
    assert not [each for each in watched.outcomes if isinstance(each, TamisError)]


def test_a_root_that_goes_while_its_index_is_opened(watched_over, monkeypatch):
    """What a run has just written is missing from its place: that is no damage, and no fault to be told."""
    watched = watched_over()
    away = watched.root.with_name("away")
    wrote = threading.Event()

    def build_and_tell(*arguments: object, **more: object) -> Report:
        done = build(*arguments, **more)
        wrote.set()
        return done

    def go(file: Path) -> object:
        if wrote.is_set() and watched.root.exists():
            watched.root.rename(away)
        return _edition(file)

    with monkeypatch.context() as patch:
        patch.setattr("tamis.index.build.build", build_and_tell)
        patch.setattr("tamis.index.embedded.reader._edition", go)
        write_files(watched.root, {"new.md": "# New\n\nzebra"})
        until(lambda: "waiting" in watched.states(), watched)
        until(lambda: not watched.live.doing().what, watched)
    assert isinstance(watched.live._fault, IndexMissing)
    away.rename(watched.root)
    watched.caught_up()
    assert watched.found("zebra")[0] == "new.md"
    assert not [each for each in watched.outcomes if isinstance(each, TamisError)]


def test_a_root_that_is_deleted_and_made_anew(watched_over):
    watched = watched_over()
    watched.root.rename(
        watched.root.with_name("away")
    )  # `rm -rf` and a writer may meet; this cannot fail
    shutil.rmtree(watched.root.with_name("away"))
    until(lambda: watched.states()[-1] == "waiting", watched)
    write_files(watched.root, {"other.md": "# Other\n\nzebra"})
    watched.caught_up()
    assert watched.found("zebra") == ["other.md"]
    assert watched.live.corpus.state().documents == 1


def test_an_index_elsewhere_survives_a_root_that_is_away(watched_over, tmp_path):
    """A drive that is unplugged for a while must not cost its index."""
    watched = watched_over(index_dir=tmp_path / "elsewhere")
    away = watched.root.with_name("away")
    watched.root.rename(away)
    until(lambda: watched.states()[-1] == "waiting", watched)
    assert watched.found("number1")[0] == "docs/note1.md"
    with pytest.raises(TamisError):
        watched.live.corpus.refresh()
    assert watched.live.corpus.state().documents == 5
    away.rename(watched.root)
    watched.caught_up()
    assert [run.removed for run in watched.runs()] == [0], (
        "nothing was thrown away, and nothing done again"
    )


def test_a_root_that_is_another_folder_by_now(watched_over, tmp_path):
    watched = watched_over(index_dir=tmp_path / "elsewhere")
    other = write_files(tmp_path / "other", {"x.md": "# X\n\nzebra"})
    watched.root.rename(tmp_path / "old")
    other.rename(watched.root)
    until(lambda: watched.found("zebra") == ["x.md"], watched)
    watched.caught_up()
    write_files(watched.root, {"y.md": "# Y\n\nokapi"})
    watched.caught_up()
    assert watched.found("okapi")[0] == "y.md"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permissions_that_come_and_go(watched_over):
    watched = watched_over()
    (watched.root / "docs").chmod(0)
    watched.caught_up()
    assert watched.live.corpus.state().documents == 0
    (watched.root / "docs").chmod(0o700)
    watched.caught_up()
    write_files(watched.root, {"docs/note1.md": "# Note 1\n\nzebra"})
    watched.caught_up()
    assert watched.found("zebra")[0] == "docs/note1.md"


def test_an_index_that_is_deleted_is_made_again(watched_over, monkeypatch):
    monkeypatch.setattr("tamis.live.watcher.RETRY", 0.5)
    watched = watched_over()
    (watched.root / ".tamis").rename(watched.root.with_name("gone"))
    until(lambda: (watched.root / ".tamis" / "watch.lock").exists(), watched)
    until(
        lambda: (
            watched.live.corpus.exists() and watched.live.corpus.state().documents == 5
        ),
        watched,
    )


def test_a_full_disk_is_said_once_and_tried_again(watched_over, monkeypatch):
    monkeypatch.setattr("tamis.live.watcher.RETRY", 0.2)
    watched = watched_over()
    tries: list[int] = []

    def full(*_, **__):
        tries.append(1)
        raise StorageFault("the disk is full", hint="free some space")

    with monkeypatch.context() as patch:
        patch.setattr("tamis.index.build.build", full)
        write_files(watched.root, {"new.md": "# New\n\nzebra"})
        until(lambda: len(tries) > 2, watched)
    until(lambda: "new.md" in watched.found("zebra"), watched)


def test_a_fault_of_our_own_ends_nothing(watched_over, monkeypatch):
    monkeypatch.setattr("tamis.live.watcher.RETRY", 0.2)
    watched = watched_over()
    with monkeypatch.context() as patch:
        patch.setattr("tamis.index.build.build", lambda *_, **__: 1 / 0)
        write_files(watched.root, {"new.md": "# New\n\nzebra"})
        until(
            lambda: any("ZeroDivision" in str(each) for each in watched.outcomes),
            watched,
        )
    until(lambda: "new.md" in watched.found("zebra"), watched)


def test_files_that_change_while_they_are_indexed(watched_over, monkeypatch):
    monkeypatch.setattr("tamis.index.embed_pending.PORTION", 1)
    watched = watched_over()
    file = watched.root / "docs" / "note0.md"
    import tamis.ingest.read

    turns, read = list(range(5)), tamis.ingest.read.read

    def restless(entry, most):
        source = read(entry, most)
        if turns and entry.path == "docs/note0.md":
            file.write_text(f"# Note 0\n\nzebra{turns.pop(0)}", encoding="utf-8")
        return source

    monkeypatch.setattr("tamis.ingest.read.read", restless)
    file.write_text("# Note 0\n\nokapi", encoding="utf-8")
    until(lambda: not turns, watched)
    watched.caught_up()
    assert watched.found("zebra4") == ["docs/note0.md"]


def test_edits_come_before_vectors(watched_over, monkeypatch):
    """While thousands of passages are embedded, a saved file is found by its words."""
    monkeypatch.setattr("tamis.index.embed_pending.PORTION", 1)
    watched = watched_over()
    steps, embed = threading.Semaphore(0), HashingEmbedder.embed_passages

    def step(self, texts):
        if threading.current_thread().name == "tend":
            steps.acquire(timeout=LONG)
        return embed(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed_passages", step)
    with words_first():
        write_files(
            watched.root, {f"many/n{n}.md": f"# N{n}\n\nword{n}" for n in range(30)}
        )
        until(lambda: watched.live.corpus.state().pending_chunks == 30, watched)
        calls = len(watched.calls)
        write_files(watched.root, {"new.md": "# New\n\nzebra"})
        until(lambda: True in watched.calls[calls:], watched)
        steps.release()
        until(lambda: "new.md" in watched.found("zebra"), watched)
        assert watched.live.corpus.state().pending_chunks > 20
        for _ in range(100):
            steps.release()
        watched.caught_up()
    assert watched.live.corpus.state().pending_chunks == 0


def test_polling(watched_over, monkeypatch):
    monkeypatch.setattr(Watched, "caught_up", lambda self: None)
    watched = watched_over(watch__poll=True, watch__poll_ms=100)
    until(lambda: watched.live.corpus.exists() and watched.found("number1"), watched)
    assert watched.states() == ["polling"]
    write_files(watched.root, {"a/new.md": "# New\n\nzebra"})
    until(lambda: watched.found("zebra")[:1] == ["a/new.md"], watched)
    (watched.root / "a" / "new.md").unlink()
    until(lambda: "a/new.md" not in watched.found("zebra"), watched)
    write_files(watched.root, {"tamis.toml": "[index]\nmax_file_bytes = 1\n"})
    until(lambda: watched.found("number1") == [], watched)


def test_no_notices_are_no_end(watched_over, monkeypatch):
    """Too many watches for the system: we look instead, say so, and try again at the next sweep."""

    class Refused:
        def __init__(self, *_: object) -> None:
            raise NoNotices("the limit is reached")

    monkeypatch.setattr(Watched, "caught_up", lambda self: None)
    with monkeypatch.context() as patch:
        patch.setattr("tamis.live.watcher.Notices", Refused)
        watched = watched_over(watch__poll_ms=100, watch__sweep_seconds=1)
        until(lambda: watched.states() == ["polling"], watched)
        assert "the limit is reached" in watched.said[0].message
        assert "looking every 0.1 s instead" in watched.said[0].message
        write_files(watched.root, {"new.md": "# New\n\nzebra"})
        until(
            lambda: watched.live.corpus.exists() and "new.md" in watched.found("zebra"),
            watched,
        )
    until(lambda: watched.states()[-1] == "watching", watched)


def test_where_the_system_watches_trees(watched_over, monkeypatch):
    """As on macOS: one watch for all, and what is ignored is told of and passed over."""
    for module in ("tamis.live.watcher", "tamis.live.notices"):
        monkeypatch.setattr(f"{module}.RECURSIVE", True)
    watched = watched_over({**FILES, "node_modules/a/b.md": "x"})
    calls = len(watched.calls)
    write_files(watched.root, {f"node_modules/a/n{n}.md": "zebra" for n in range(1500)})
    watched.caught_up()
    assert len(watched.calls) == calls
    write_files(watched.root, {"x/y/new.md": "# New\n\nzebra"})
    watched.caught_up()
    assert watched.found("zebra")[0] == "x/y/new.md"


# --- What a server has of it ---------------------------------------------------------


def test_questions_need_no_look_while_changes_are_told(watched_over, monkeypatch):
    watched = watched_over()
    looks: list[int] = []
    monkeypatch.setattr(watched.live.corpus, "changes", lambda: looks.append(1) or 0)
    before = watched.live.fresh(LONG)
    assert before.complete
    write_files(watched.root, {"new.md": "# New\n\nzebra"})
    watched.caught_up()
    after = watched.live.fresh(LONG)
    assert after.complete
    assert after.as_of >= before.as_of
    assert watched.found("zebra")[0] == "new.md"
    assert not looks


def test_a_question_does_not_wait_for_quiet(watched_over, monkeypatch):
    monkeypatch.setattr("tamis.live.corpus.PATIENCE", LONG)
    watched = watched_over(watch__debounce_ms=60_000)
    write_files(watched.root, {"new.md": "# New\n\nzebra"})
    until(lambda: watched.watcher.knows_more, watched)
    assert watched.live.fresh(LONG).complete
    assert watched.found("zebra")[0] == "new.md"


def test_whoever_does_not_watch_looks_as_before(watched_over, monkeypatch):
    first = watched_over()
    second = Watched(first.root)
    try:
        second.watch()
        until(lambda: second.states() == ["following"], second)
        assert f"process {os.getpid()} watches" in second.said[0].message
        assert second.watcher.told_until == 0
        write_files(first.root, {"new.md": "# New\n\nzebra"})
        first.caught_up()
        assert second.found("zebra")[0] == "new.md", (
            "generations are noticed by themselves"
        )
        monkeypatch.setattr("tamis.live.corpus.PATIENCE", LONG)
        assert second.live.fresh(LONG).complete
        first.live.close()
        until(lambda: second.states()[-1] == "watching", second)
        second.caught_up()
        write_files(first.root, {"newer.md": "# Newer\n\nokapi"})
        second.caught_up()
        assert second.found("okapi")[0] == "newer.md"
    finally:
        second.live.close()


def test_the_lock_says_when_it_is_no_longer_the_indexs(tmp_path):
    directory = tmp_path / "index"
    with sole_watcher(directory) as held:
        assert held()
        directory.rename(tmp_path / "away")
        assert not held()
        with sole_watcher(directory) as other:
            assert other()
            assert not held()


@pytest.mark.parametrize("name", ["writer.lock", "watch.lock"])
def test_a_lock_that_leads_elsewhere_is_no_lock(tmp_path, name):
    """A checkout may come with an index's folder in it, and locks are written to."""
    treasure = tmp_path / "treasure"
    treasure.write_text("gold", encoding="ascii")
    root = write_files(tmp_path / "root", {"a.md": "x"})
    (root / ".tamis").mkdir()
    (root / ".tamis" / name).symlink_to(treasure)
    with pytest.raises(StorageFault, match="has a link"), sole_watcher(root / ".tamis"):
        pass
    with pytest.raises(StorageFault, match="has a link"):
        Corpus(root, root / ".tamis", test_settings(root)).refresh()
    assert treasure.read_text("ascii") == "gold"


def test_notices_that_end_without_a_word(watched_over):
    watched = watched_over()
    deaf = heard[-1]
    deaf.close()
    until(lambda: heard[-1] is not deaf, watched)
    write_files(watched.root, {"new.md": "# New\n\nzebra"})
    watched.caught_up()
    assert watched.found("zebra") == ["new.md"]


def test_no_folder_comes_back_by_us(tmp_path):
    with pytest.raises(TamisError), sole_watcher(tmp_path / "gone" / ".tamis"):
        pass
    assert not (tmp_path / "gone").exists()
    settings = test_settings(tmp_path)
    with (
        pytest.raises(TamisError),
        Corpus(tmp_path / "gone", tmp_path / "index", settings) as corpus,
    ):
        corpus.refresh()


def test_closing_leaves_no_thread(watched_over):
    watched = watched_over()
    assert watched.live.close()
    names = {thread.name for thread in threading.enumerate()}
    assert not names & {"watch", "notices", "tend"}
    watched.live.close()
