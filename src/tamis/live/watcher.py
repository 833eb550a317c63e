"""The watcher of an index: it calls when files have changed.

The system reports changes (`notices.py`), or we look every few seconds. A burst of changes is one
call, which comes after a moment of quiet, or after 25 such moments without quiet. Ignored folders
are not watched, and changes in them call nobody. Nothing is queued: the callee looks at all files,
so that a change is one bit.

One process watches an index, holding `watch.lock`; the others wait for it to end. A root that
disappears is waited for; when it is back, or is another folder by now, watching starts anew.
"""

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tamis.corpus import Corpus
from tamis.errors import IndexLocked, TamisError
from tamis.gitignore.repository import outer_rules, repository_files
from tamis.index.engines import sole_watcher
from tamis.index.plan import rules_of
from tamis.ingest.walk import folders, shown
from tamis.live.notices import LOST, QUIET, RECURSIVE, NoNotices, Notices, Paths, Signs
from tamis.model import Plain

_TICK = 0.5  # seconds between two looks at the root itself, the lock, the index
_SUCCESSION = 2.0  # seconds between two tries to become the watcher
# A burst takes at most so many times the quiet that is waited for: 5 seconds by default.
_MOMENTS = 25
RETRY = 10.0  # seconds until a failed run is tried again
# Seconds of rest for each second of computing, if files change all the time; only computing beyond
# the credit counts, since people save a few times in a row.
_REST = 4.0
_CREDIT = 3.0
_LONGEST_REST = 5.0
_CLOSING = 1.0  # seconds that closing waits
_ATTEMPTS = 10  # to watch folders that come and go meanwhile

State = Literal["watching", "polling", "waiting", "following", "failing"]


@dataclass(frozen=True, slots=True)
class Said(Plain):
    """The state of a watcher, reported when it changes."""

    state: State
    message: str
    hint: str = ""


class Watcher:
    """Watches in a thread of its own from `start` to `close`."""

    def __init__(
        self,
        corpus: Corpus,
        changed: Callable[[bool], float],
        *,
        behind: Callable[[], bool],
        say: Callable[[Said], None],
        also: Iterable[Path] = (),
    ) -> None:
        """Prepare to watch the root of a corpus.

        `changed` gets True if files have changed, False if it is time to look. It starts the work
        elsewhere and returns the seconds of computing that the last run took. It is called again
        after some seconds while `behind` returns True. `also` are files elsewhere that matter.
        """
        self._corpus = corpus
        self._root = corpus.root
        self._directory = corpus.directory
        self._changed = changed
        self._behind = behind
        self._say = say
        self._also = tuple(str(file.absolute()) for file in also)
        self._said: Said | None = None
        self._closing = threading.Event()
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._signs = 0  # notices since the last call
        self._first = self._last = 0.0  # when the first and the last of them came
        self._stale = False  # notices may be missing, or folders have been replaced
        self._notices: Notices | None = None
        self._watched: frozenset[str] = frozenset()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def close(self, seconds: float = _CLOSING) -> bool:
        """Stop calling; return False if the thread is still stopping after so many seconds."""
        self._closing.set()
        self._woken.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def told_until(self) -> float:
        """Time (seconds since 1970) before which all changes led to a call; 0 if unknown."""
        with self._lock:
            if self._signs or self._stale or self._notices is None:
                return 0.0
            notices = self._notices
        return notices.complete_until

    @property
    def knows_more(self) -> bool:
        """True if files have changed since the last call."""
        return self._signs > 0

    def _run(self) -> None:
        root = shown(str(self._root))
        while not self._closing.is_set():
            pause = _TICK
            try:
                if _identity(self._root) is None:
                    message = f"{root} is not there: waiting for it to come back"
                    self._tell("waiting", message)
                else:
                    with sole_watcher(self._directory) as held:
                        self._watch(held)
            except IndexLocked as other:
                self._tell("following", f"{other.holder} watches {root} already")
                pause = _SUCCESSION
            except TamisError as fault:
                self._tell("failing", fault.message, fault.hint)
            except OSError as error:
                # A root that disappears takes the folder of the lock with it.
                if _identity(self._root) is not None:
                    message = f"cannot watch {root}: {error}"
                    self._tell("failing", message, "check the folder")
            self._closing.wait(pause)

    def _watch(self, held: Callable[[], bool]) -> None:
        """Watch until the root or the lock is another one."""
        identity = _identity(self._root)
        try:
            self._follow_folders()
            self._call()
            clock = _Clock()
            while not self._closing.is_set():
                self._woken.wait(self._pause(clock))
                self._woken.clear()
                if _identity(self._root) != identity or not held():
                    return
                is_deaf = self._notices is not None and self._notices.is_deaf
                if is_deaf and not self._stale:
                    self._hear(LOST)
                self._call_if_due(clock)
        finally:
            self._replace_notices()

    def _call_if_due(self, clock: "_Clock") -> None:
        options = self._corpus.settings.watch
        now = time.monotonic()
        sweep = options.sweep_seconds
        sweeps = bool(sweep) and now - clock.swept >= sweep
        is_behind = self._behind() or not (self._directory / "index.db").exists()
        retries = is_behind and now - clock.called >= RETRY
        is_quiet = self._signs > 0 and now >= self._due(clock)
        if is_quiet or sweeps or retries:
            self._follow_folders()
            took = self._call()
            called = time.monotonic()
            rested = (called - clock.called) / _REST
            clock.work = max(0.0, clock.work + took - rested)
            clock.called = called
            if sweeps:
                clock.swept = clock.called
        elif self._notices is None and now - clock.polled >= options.poll_ms / 1000:
            self._changed(False)
            clock.polled = time.monotonic()

    def _pause(self, clock: "_Clock") -> float:
        """Return the seconds until there may be something to do."""
        until = time.monotonic() + _TICK
        if self._signs:
            until = min(until, self._due(clock))
        if self._notices is None:
            until = min(
                until, clock.polled + self._corpus.settings.watch.poll_ms / 1000
            )
        return max(0.0, until - time.monotonic())

    def _due(self, clock: "_Clock") -> float:
        """Return when to call for the notices so far: constant changes must not keep us busy."""
        quiet = self._corpus.settings.watch.debounce_ms / 1000
        with self._lock:
            ended = min(self._last + quiet, self._first + _MOMENTS * quiet)
        return max(clock.rested, ended)

    def _call(self) -> float:
        """Call. Notices that come meanwhile stay: `told_until` must not run ahead of the call."""
        signs = self._signs
        took = self._changed(True)
        with self._lock:
            self._signs -= signs
            self._first = time.monotonic()
        return took

    def _hear(self, paths: Paths) -> None:
        """Take a notice. Called by the thread of the notices."""
        if paths:
            settings = self._corpus.settings
            rules = rules_of(self._root, settings)
            # The ignore file may be gone, and its rules with it.
            ignore_file = os.path.join(self._root, settings.ignore.file)
            known = (ignore_file, *self._files_outside())
            signs = Signs(self._root, rules, self._directory, known)
            if not any(map(signs.matters, paths)):
                return
        with self._lock:
            self._last = time.monotonic() - QUIET
            if not self._signs:
                self._first = self._last
            self._signs += 1
            # A folder that is deleted and made again has the same name and no watch.
            if not paths or not self._watched.isdisjoint(paths):
                self._stale = True
        self._woken.set()

    def _files_outside(self) -> tuple[str, ...]:
        """Return the files outside the root that decide what is indexed."""
        return (*self._also, *repository_files(self._root), *outer_rules(self._root))

    def _follow_folders(self) -> None:
        """Watch the folders that there are now, before anybody looks into them.

        A file that appears meanwhile may be in a folder that was listed and not watched yet, so
        the list must come out the same once all of it is watched.
        """
        root = shown(str(self._root))
        options = self._corpus.settings.watch
        interval = f"{options.poll_ms / 1000:g} s"
        if options.poll:
            self._replace_notices()
            self._tell("polling", f"looking at {root} every {interval}")
            return
        with self._lock:
            stale, self._stale = self._stale, False
        for _ in range(_ATTEMPTS):
            wanted = self._folders()
            if wanted == self._watched and not stale:
                return
            stale = False
            try:
                self._replace_notices(Notices(sorted(wanted), self._hear), wanted)
                self._tell("watching", f"watching {root}")
            except (FileNotFoundError, PermissionError):
                continue
            except NoNotices as error:
                self._replace_notices()
                every = f"looking every {interval} instead"
                self._tell("polling", f"cannot be told of changes: {error}; {every}")
                return

    def _folders(self) -> frozenset[str]:
        if RECURSIVE:
            return frozenset([str(self._root)])
        found = set(folders(self._root, rules_of(self._root, self._corpus.settings)))
        found.discard(str(self._directory))
        for file in self._files_outside():
            folder = os.path.dirname(file)
            if os.path.isdir(folder):
                found.add(folder)
        return frozenset(found)

    def _replace_notices(
        self,
        notices: Notices | None = None,
        watched: frozenset[str] = frozenset(),
    ) -> None:
        """Stop the old notices; the new ones, if there are any, have begun already."""
        with self._lock:
            before, self._notices = self._notices, notices
            self._watched = watched
        if before is not None:
            before.close()

    def _tell(
        self,
        state: State,
        message: str,
        hint: str = "",
    ) -> None:
        said = Said(state, message, hint)
        if said != self._said:
            self._said = said
            self._say(said)


@dataclass(slots=True)
class _Clock:
    """The times of the last call, sweep and poll, and the recent work of calls."""

    called: float = field(default_factory=time.monotonic)
    swept: float = field(default_factory=time.monotonic)
    polled: float = field(default_factory=time.monotonic)
    work: float = 0.0  # seconds, less the rest since

    @property
    def rested(self) -> float:
        """Time from which the next call is allowed."""
        rest = _REST * max(0.0, self.work - _CREDIT)
        return self.called + min(rest, _LONGEST_REST)


def _identity(folder: Path) -> tuple[int, int] | None:
    """Return device and inode of the folder of this name, None if there is none."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    if not stat.S_ISDIR(status.st_mode):
        return None
    return status.st_dev, status.st_ino
