"""A corpus that keeps itself up to date: what a server holds.

Nothing is opened or loaded until the first question. Each question looks for changes (one walk, times and
sizes only), has them indexed in the background, and waits a moment for that, never longer than it is told
to; what the answer does not know yet is said with it. One process writes an index at a time: where another
one is at it, we look again later, and take over should it die. With a watcher (`watch`), changes are indexed
as they come, and questions look for none as long as it is told of all.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tamis.corpus import Corpus, index_directory
from tamis.errors import IndexLocked, TamisError
from tamis.live.watcher import Said, Watcher
from tamis.model import IndexState, Plain, Report, iso_time
from tamis.progress import Progress, Silent
from tamis.settings import Settings

_PATIENCE: Final = (
    1.0  # seconds that a search may wait for changes when older answers are there
)
_REST: Final = 10.0  # times as long as a look took passes before the next: large trees cost no more
_FIRST_PAUSE: Final = (
    0.1  # seconds between two looks while another process indexes; they double
)
_LONGEST_PAUSE: Final = 5.0
_TICK: Final = 0.1  # seconds between two words to whoever watches
_AS_INDEXED: Final = (
    "the index is on a server: files that changed since its last run wait for the next"
)
_FAREWELL: Final = (
    1.0  # seconds that closing waits for the background; nothing is lost without
)

_one_at_a_time: Final = (
    threading.Lock()
)  # two roots of one server are indexed one after the other

Watch = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Freshness(Plain):
    """How much an answer knows of the files as they are."""

    complete: bool  # it knows every file as it was at `as_of`, in every lane
    pending_files: int  # known to be new, changed or gone, and not in the answer yet
    embedded: float  # the share of the passages that the meaning lane knows
    as_of: (
        str | None
    )  # every change before it is in the answer; None before the first index is whole
    note: str = ""  # for whoever reads the answer; empty when it is complete


@dataclass(frozen=True, slots=True)
class Doing(Plain):
    """What is done in the background, and how far it is; nothing is when `what` is empty."""

    what: str = ""
    done: int = 0
    total: int = 0


class _Stopped(Exception):
    """The server goes: what has not been committed is for the next one."""


class LiveCorpus:
    """A corpus with whoever keeps it up to date. Safe to use from several threads."""

    def __init__(
        self,
        root: Path,
        settings: Settings,
        index_dir: Path | None = None,
        progress: Progress | None = None,
        tell: Callable[[Report | TamisError], None] = lambda _: None,
    ) -> None:
        """`tell` hears, in the background, of every run and of what went wrong."""
        directory = index_directory(root, settings, index_dir)
        self.corpus = Corpus(
            root, directory, _unhurried(settings), progress=self, is_live=True
        )
        self._progress = progress or Silent()
        self._tell = tell
        self._watcher: Watcher | None = None
        self._reload: Callable[[], Settings] | None = None
        self._misread = ""  # what is wrong with the settings as they are now
        self._signed = False  # since the last run: files have changed
        self._ran = 0.0  # seconds that the last run computed
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._pending = 0
        self._as_of: float | None = None
        self._began = 0.0  # when the last look began
        self._looked = float("-inf")  # when the last look ended, and how long it took
        self._took = 0.0
        self._asked = False  # since the last look
        self._done, self._total, self._doing = 0, 0, "looking for changes"
        self._fault: TamisError | None = None

    def fresh(self, seconds: float, watch: Watch | None = None) -> Freshness:
        """Look for changes, have them indexed, wait for that at most `seconds`; then say how far it is.

        Ask the corpus after this. Where there is no index and none can be made, that fault is raised.
        """
        if self.corpus.is_shared:
            return self._as_shared()
        first = not self.corpus.exists()
        self._begin()
        deadline = time.monotonic() + (seconds if first else min(seconds, _PATIENCE))
        while self._is_awaited() and (
            time.monotonic() < deadline or not self.corpus.exists()
        ):
            with self._changed:
                self._changed.wait(_TICK)
                told = self._done, self._total, self._doing
            if watch is not None:
                watch(*told)
        if self._fault is not None and not self.corpus.exists():
            raise self._fault
        return self._freshness(self.corpus.state())

    def _as_shared(self) -> Freshness:
        """What is on a server is kept up to date by whoever indexes there: it is as fresh as its last run."""
        state = self.corpus.state()
        pending = state.pending_files
        behind = (
            f"{pending} files are being indexed on the server"
            if pending
            else _AS_INDEXED
        )
        return Freshness(not pending, pending, 1.0, state.built_at, behind)

    def doing(self) -> Doing:
        with self._changed:
            return (
                Doing(self._doing, self._done, self._total)
                if self._thread is not None
                else Doing()
            )

    def watch(
        self,
        reload: Callable[[], Settings] | None = None,
        say: Callable[[Said], None] = lambda _: None,
        also: Iterable[Path] = (),
    ) -> None:
        """Index changes as they come from now on, without being asked. Once is enough.

        `reload` reads the settings again, which may have changed with the files; `also` are files elsewhere
        that they are read from. `say` hears how it stands with the watching.
        """
        with self._changed:
            if self._watcher is not None or self._closing.is_set():
                return
            self._reload = reload
            self._watcher = Watcher(
                self.corpus.root,
                self.corpus.directory,
                lambda: self.corpus.settings,
                self._hear,
                behind=lambda: self._fault is not None,
                say=say,
                also=also,
            )
            self._watcher.start()

    def close(self, seconds: float = _FAREWELL) -> bool:
        """Stop what is under way; the index keeps what was committed. False if that is still stopping."""
        self._closing.set()
        until = time.monotonic() + seconds
        stopped = self._watcher is None or self._watcher.close(seconds)
        with self._changed:  # where it is started
            thread = self._thread
        if thread is not None:
            thread.join(max(0.0, until - time.monotonic()))
        self.corpus.close()
        return stopped and (thread is None or not thread.is_alive())

    def start(self, total: int, what: str = "files") -> None:
        with self._changed:
            self._done, self._total = 0, total
            self._doing = "indexing" if what == "files" else "embedding"
            if what == "files":
                self._pending = total
            else:  # whatever the look found can be found by now
                self._pending, self._as_of = 0, self._began
            self._changed.notify_all()
        self._progress.start(total, what)

    def advance(self, path: str, by: int = 1) -> None:
        if self._closing.is_set():
            raise _Stopped
        self._done += by
        self._progress.advance(path, by)

    def note(self, message: str) -> None:
        self._progress.note(message)

    def _begin(self) -> None:
        """Have somebody look, unless that has just been done. Whoever embeds looks between two portions."""
        with self._changed:
            self._asked = True
            if self._is_told():
                return
            if self._watcher is not None and self._watcher.knows_more:
                self._signed = True  # a question does not wait for quiet
            self._start()

    def _start(self) -> None:
        if (
            self._thread is None
            and (self._signed or self._has_rested())
            and not self._closing.is_set()
        ):
            self._doing, self._done, self._total = "looking for changes", 0, 0
            self._thread = threading.Thread(target=self._tend, name="tend", daemon=True)
            self._thread.start()

    def _hear(self, sure: bool) -> float:
        """The watcher calls: something has changed, or it is time to look."""
        with self._changed:
            self._signed = self._signed or sure
            self._asked = True
            self._start()
            return self._ran

    def _is_told(self) -> bool:
        """Whether every change was told, and is in: then there is nothing to look for."""
        until = self._watcher.told_until if self._watcher is not None else 0.0
        if (
            not until
            or self._as_of is None
            or self._thread is not None
            or self._fault is not None
        ):
            return False
        self._as_of = max(self._as_of, until)
        return self.corpus.exists()

    def _has_rested(self) -> bool:
        return time.monotonic() - self._looked >= _REST * self._took

    def _is_awaited(self) -> bool:
        """Vectors take minutes and are not waited for: words answer meanwhile."""
        with self._changed:
            return self._thread is not None and self._doing != "embedding"

    def _tend(self) -> None:
        going = True
        while going:
            try:
                self._bring_up_to_date()
            except _Stopped:
                pass
            except TamisError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001 - or nobody would learn why the index stays behind
                what = f"{type(error).__name__}: {error}"
                self._fail(
                    TamisError(
                        what, hint="it is tried again; if it stays, run: tamis index"
                    )
                )
            with self._changed:
                going = self._signed and not self._closing.is_set()
                if not going:
                    self._thread = None
                    self._changed.notify_all()

    def _fail(self, fault: TamisError) -> None:
        """A root that has gone in the middle of a run is no news: the watcher says so, and waits for it."""
        self._fault = fault
        is_awaited = self._watcher is not None and not self.corpus.root.is_dir()
        if not self._closing.is_set() and not is_awaited:
            self._tell(fault)

    def _bring_up_to_date(self) -> None:
        """Look and index until everything that was found is in, vectors included."""
        pause = _FIRST_PAUSE
        while self._has_work() and not self._closing.is_set():
            if not self._refresh():
                self._closing.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            elif not self._signed and not self.corpus.state().pending_chunks:
                break
        with self._changed:
            self._pending, self._as_of, self._fault = 0, self._began, None

    def _has_work(self) -> bool:
        """Whoever was told of changes need not look first: indexing begins with a look."""
        self._reconfigure()
        if not self._signed:
            return self._look()
        with self._changed:
            self._signed, self._asked, self._began = False, False, time.time()
        return True

    def _reconfigure(self) -> None:
        """Settings may change with the files. What cannot be read leaves them as they were."""
        if self._reload is None:
            return
        try:
            settings, wrong = _unhurried(self._reload()), None
            if settings != self.corpus.settings:
                self.corpus.configure(settings)
        except TamisError as fault:
            wrong = fault
        if wrong is not None and wrong.message != self._misread:
            self._tell(wrong)
        self._misread = "" if wrong is None else wrong.message

    def _look(self) -> bool:
        """Whether something is to be done."""
        began, now = time.monotonic(), time.time()
        exists = self.corpus.exists()
        self._asked, self._pending = False, self.corpus.changes() if exists else 0
        state = self.corpus.state()
        with self._changed:
            self._began = now
            self._looked = time.monotonic()
            self._took = self._looked - began
            if exists and not self._pending and not state.pending_files:
                self._as_of = now
        return not exists or bool(
            self._pending or state.pending_files or state.pending_chunks
        )

    def _is_urgent(self) -> bool:
        """Whether files have changed while we embed: their words come first."""
        if self._signed:
            return True
        told = self._watcher is not None and self._watcher.told_until > 0
        if told or not self._asked or not self._has_rested():
            return False
        self._look()
        return self._pending > 0

    def _refresh(self) -> bool:
        """Whether we could do it; False while another process does."""
        began = time.thread_time()
        try:
            with _one_at_a_time:
                done = self.corpus.refresh(yields=self._is_urgent)
        except IndexLocked:
            with self._changed:
                self._doing = "waiting for another process that indexes"
            return False
        self._ran = time.thread_time() - began
        self._tell(done)
        return True

    def _freshness(self, state: IndexState) -> Freshness:
        with self._changed:
            known = (
                0 if self._doing == "indexing" else self._pending
            )  # a run counts down what it has found
            pending, as_of = max(known, state.pending_files), self._as_of
            fault, told = self._fault, (self._doing, self._done, self._total)
        embedded = (
            1 - state.pending_chunks / state.chunks
            if state.chunks
            else float(as_of is not None)
        )
        complete = (
            as_of is not None
            and not pending
            and not state.pending_chunks
            and fault is None
        )
        when = None if as_of is None else iso_time(as_of)
        note = "" if complete else _note(fault, pending, embedded, *told)
        return Freshness(complete, pending, round(embedded, 3), when, note)


def _unhurried(settings: Settings) -> Settings:
    """We never wait for another writer: there are questions to answer meanwhile."""
    return replace(settings, index=replace(settings.index, lock_timeout=0))


def _note(
    fault: TamisError | None,
    pending: int,
    embedded: float,
    doing: str,
    done: int,
    total: int,
) -> str:
    if fault is not None:
        return f"the index is not kept up to date: {fault.message} ({fault.hint})"
    if pending:
        read = f", {done} of {total} read" if total else ""
        return f"{pending} files are not in this answer yet ({doing}{read}): ask again in some seconds"
    if embedded < 1:
        return f"{embedded:.0%} of the passages are found by meaning so far, the others by their words alone"
    return f"{doing}: recent changes may be missing"
