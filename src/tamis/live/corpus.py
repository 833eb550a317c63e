"""A corpus that keeps itself up to date while a server runs.

Nothing is opened or loaded until the first question. Each question looks for changes (one walk,
times and sizes only), has them indexed in the background and waits a moment for that. The answer
says what it does not know yet. One process writes an index at a time: while another one does, we
look again later, and take over if it dies. With a watcher (`watch`), changes are indexed as they
come, and questions need not look as long as the watcher hears of all changes.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from tamis.corpus import Corpus, index_directory
from tamis.errors import IndexLocked, TamisError
from tamis.live.folders import Folder
from tamis.live.watcher import Said, Watcher
from tamis.model import Plain, Report, iso_time
from tamis.progress import Progress, Silent
from tamis.settings import Settings

# Seconds that a search may wait for changes if older answers are there.
PATIENCE = 1.0
# A look is followed by a rest of this many times its length: large trees cost no more.
REST = 10.0
# Seconds between two looks while another process indexes; they double.
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_TICK = 0.1  # seconds between two reports of progress
_CLOSING = 1.0  # seconds that closing waits for the background; nothing is lost

# Roots of one server are indexed one after the other.
_one_at_a_time = threading.Lock()

Watch = Callable[[int, int, str], None]
Event = Said | Report | TamisError


@dataclass(frozen=True, slots=True)
class Freshness(Plain):
    """The state of the files that an answer knows."""

    complete: bool  # it knows every file as it was at `as_of`, in every lane
    pending_files: int  # known to be new, changed or gone, and not in the answer yet
    embedded: float  # the share of the passages that the meaning lane knows
    # Every change before it is in the answer; None before the first index is whole.
    as_of: str | None
    note: str = ""  # for the reader of the answer; empty when it is complete


@dataclass(frozen=True, slots=True)
class Doing(Plain):
    """The work in the background and its progress; `what` is empty if there is none."""

    what: str = ""
    done: int = 0
    total: int = 0


class _Stopped(Exception):
    """The server ends: anything that is not committed is left to the next one."""


class LiveCorpus:
    """A corpus and the thread that keeps it up to date. Safe to use from several threads."""

    def __init__(
        self,
        folder: Folder,
        tell: Callable[[Event], None] = lambda _: None,
        progress: Progress | None = None,
    ) -> None:
        """Prepare a corpus.

        `tell` is called in the background, with every run, every fault and every new state of the
        watcher.
        """
        directory = index_directory(folder.path, folder.settings, folder.index_dir)
        settings = _without_waiting(folder.settings)
        self.corpus = Corpus(
            folder.path, directory, settings, progress=self, is_live=True
        )
        self._folder = folder
        self._progress = progress or Silent()
        self._tell = tell
        self._watcher: Watcher | None = None
        self._misread = ""  # what is wrong with the settings as they are now
        self._reported = False  # since the last run: files have changed
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
        self._doing = Doing("looking for changes")
        self._fault: TamisError | None = None

    def fresh(self, seconds: float, watch: Watch | None = None) -> Freshness:
        """Look for changes, wait at most `seconds` until they are indexed, return the freshness.

        Ask the corpus after this. If there is no index and none can be made, raise that fault.
        """
        if not self.corpus.capabilities.updated_by_search:
            return self._shared_freshness()
        if self.corpus.exists():
            seconds = min(seconds, PATIENCE)
        with self._changed:
            self._asked = True
            if not self._knows_all_changes():
                if self._watcher is not None and self._watcher.knows_more:
                    self._reported = True  # a question does not wait for quiet
                self._start_thread()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline or not self.corpus.exists():
            with self._changed:
                # Vectors take minutes and are not waited for: words answer meanwhile.
                if self._thread is None or self._doing.what == "embedding":
                    break
                self._changed.wait(_TICK)
                doing = self._doing
            if watch is not None:
                watch(doing.done, doing.total, doing.what)
        if self._fault is not None and not self.corpus.exists():
            raise self._fault
        return self._freshness()

    def _shared_freshness(self) -> Freshness:
        """Return the freshness of an index on a server: only the program that indexes writes it."""
        state = self.corpus.state()
        pending = state.pending_files
        note = "the index is on a server: files changed since its last run wait for the next"
        if pending:
            note = f"{pending} files are being indexed on the server"
        return Freshness(not pending, pending, 1.0, state.built_at, note)

    def doing(self) -> Doing:
        """Return what is done in the background."""
        with self._changed:
            if self._thread is None:
                return Doing()
            return self._doing

    def watch(self) -> None:
        """Index changes as they come from now on. Calling it again does nothing.

        The settings are read again with the files, in which they may have changed.
        """
        with self._changed:
            if self._watcher is not None or self._closing.is_set():
                return
            self._watcher = Watcher(
                self.corpus,
                self._on_change,
                behind=lambda: self._fault is not None,
                say=self._tell,
                also=self._folder.settings_files,
            )
            self._watcher.start()

    def close(self, seconds: float = _CLOSING) -> bool:
        """Stop the background; return False if it is still stopping. No commit is lost."""
        self._closing.set()
        until = time.monotonic() + seconds
        stopped = True
        if self._watcher is not None:
            stopped = self._watcher.close(seconds)
        with self._changed:
            thread = self._thread
        if thread is not None:
            thread.join(max(0.0, until - time.monotonic()))
            stopped = stopped and not thread.is_alive()
        self.corpus.close()
        return stopped

    # --- progress of the corpus -----------------------------------------------------------------

    def start(self, total: int, what: str = "files") -> None:
        """Note that so many files are indexed now, or so many passages embedded."""
        with self._changed:
            if what == "files":
                self._doing = Doing("indexing", 0, total)
                self._pending = total
            else:
                # Everything that the last look found can be found by its words now.
                self._doing = Doing("embedding", 0, total)
                self._pending = 0
                self._as_of = self._began
            self._changed.notify_all()
        self._progress.start(total, what)

    def advance(self, path: str, by: int = 1) -> None:
        """Note that a file is done."""
        if self._closing.is_set():
            raise _Stopped
        self._doing = replace(self._doing, done=self._doing.done + by)
        self._progress.advance(path, by)

    def note(self, message: str) -> None:
        """Pass a message on."""
        self._progress.note(message)

    # --- the background -------------------------------------------------------------------------

    def _on_change(self, sure: bool) -> float:
        """Answer the watcher: files have changed, or (not `sure`) it is time to look."""
        with self._changed:
            self._reported = self._reported or sure
            self._asked = True
            self._start_thread()
            return self._ran

    def _knows_all_changes(self) -> bool:
        """Return True if the watcher has reported every change and all of them are indexed."""
        if self._watcher is None or self._as_of is None:
            return False
        until = self._watcher.told_until
        if not until or self._thread is not None or self._fault is not None:
            return False
        self._as_of = max(self._as_of, until)
        return self.corpus.exists()

    def _start_thread(self) -> None:
        if self._thread is not None or self._closing.is_set():
            return
        if self._reported or self._has_rested():
            self._doing = Doing("looking for changes")
            self._thread = threading.Thread(target=self._run, name="tend", daemon=True)
            self._thread.start()

    def _has_rested(self) -> bool:
        return time.monotonic() - self._looked >= REST * self._took

    def _run(self) -> None:
        going = True
        while going:
            try:
                self._bring_up_to_date()
            except _Stopped:
                pass
            except TamisError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001 - the index stays behind: say why
                what = f"{type(error).__name__}: {error}"
                hint = "it is tried again; if it stays, run: tamis index"
                self._fail(TamisError(what, hint=hint))
            with self._changed:
                going = self._reported and not self._closing.is_set()
                if not going:
                    self._thread = None
                    self._changed.notify_all()

    def _fail(self, fault: TamisError) -> None:
        """Keep a fault and report it, unless the watcher says already that the root is gone."""
        self._fault = fault
        root_is_gone = self._watcher is not None and not self.corpus.root.is_dir()
        if not self._closing.is_set() and not root_is_gone:
            self._tell(fault)

    def _bring_up_to_date(self) -> None:
        """Look and index until everything that was found is indexed, vectors included."""
        pause = _FIRST_PAUSE
        while not self._closing.is_set():
            self._reconfigure()
            if self._reported:
                # Indexing begins with a look of its own.
                with self._changed:
                    self._reported = False
                    self._asked = False
                    self._began = time.time()
            elif not self._look():
                break
            if not self._refresh():
                self._closing.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            elif not self._reported and not self.corpus.state().pending_chunks:
                break
        with self._changed:
            self._pending = 0
            self._as_of = self._began
            self._fault = None

    def _reconfigure(self) -> None:
        """Read the settings again. Those that cannot be read stay as they were."""
        if self._watcher is None or self._folder.reload is None:
            return
        message = ""
        try:
            settings = _without_waiting(self._folder.reload())
            if settings != self.corpus.settings:
                self.corpus.configure(settings)
        except TamisError as wrong:
            message = wrong.message
            if message != self._misread:
                self._tell(wrong)
        self._misread = message

    def _look(self) -> bool:
        """Compare the files with the index; return True if there is work."""
        began = time.monotonic()
        now = time.time()
        exists = self.corpus.exists()
        self._asked = False
        self._pending = 0
        if exists:
            self._pending = self.corpus.changes().possible
        state = self.corpus.state()
        files_pending = bool(self._pending or state.pending_files)
        with self._changed:
            self._began = now
            self._looked = time.monotonic()
            self._took = self._looked - began
            if exists and not files_pending:
                self._as_of = now
        return not exists or files_pending or state.pending_chunks > 0

    def _is_urgent(self) -> bool:
        """Return True if files have changed while we embed: their words come first."""
        if self._reported:
            return True
        if self._watcher is not None and self._watcher.told_until > 0:
            return False
        if not self._asked or not self._has_rested():
            return False
        self._look()
        return self._pending > 0

    def _refresh(self) -> bool:
        """Index once; return False if another process does."""
        began = time.thread_time()
        try:
            with _one_at_a_time:
                done = self.corpus.refresh(yields=self._is_urgent)
        except IndexLocked:
            with self._changed:
                what = "waiting for another process that indexes"
                self._doing = replace(self._doing, what=what)
            return False
        self._ran = time.thread_time() - began
        self._tell(done)
        return True

    def _freshness(self) -> Freshness:
        state = self.corpus.state()
        with self._changed:
            doing = self._doing
            fault = self._fault
            as_of = self._as_of
            pending = state.pending_files
            if doing.what != "indexing":  # a run counts its files down in the state
                pending = max(self._pending, pending)
        embedded = float(as_of is not None)
        if state.chunks:
            embedded = 1 - state.pending_chunks / state.chunks
        note = ""
        if fault is not None:
            note = f"the index is not kept up to date: {fault.message} ({fault.hint})"
        elif pending:
            read = f", {doing.done} of {doing.total} read" if doing.total else ""
            waiting = f"{pending} files are not in this answer yet ({doing.what}{read})"
            note = f"{waiting}: ask again in some seconds"
        elif embedded < 1:
            share = f"{embedded:.0%} of the passages are found by meaning so far"
            note = f"{share}, the others by their words alone"
        elif as_of is None or state.pending_chunks:
            note = f"{doing.what}: recent changes may be missing"
        when = None
        if as_of is not None:
            when = iso_time(as_of)
        return Freshness(not note, pending, round(embedded, 3), when, note)


def _without_waiting(settings: Settings) -> Settings:
    """Return the settings with no wait for another writer: there are questions to answer."""
    return replace(settings, index=replace(settings.index, lock_timeout=0))
