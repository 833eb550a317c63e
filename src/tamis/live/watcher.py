"""Whoever watches the files of an index, and calls when some have changed.

The system tells of changes (`ingest/notices.py`), or else we look every few seconds. A burst of changes is
one call: it comes when there has been quiet for a moment, or when there is none for 25 such moments. What is
ignored is not watched, and where it is told of all the same, nobody is called. Nothing is queued: that
something has changed is one bit, because whoever is called looks at everything.

One process watches an index, holding `watch.lock`; the others wait in case it goes. A root that goes is
waited for, and one that comes back, or is another folder by now, is taken up anew.
"""

import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from tamis.errors import IndexLocked, TamisError
from tamis.gitignore.repository import outer_rules, repository_files
from tamis.index.embedded.writer import sole_watcher
from tamis.index.plan import rules_of
from tamis.ingest.walk import folders, shown
from tamis.live.notices import LOST, QUIET, RECURSIVE, NoNotices, Notices, Paths, Signs
from tamis.model import Plain
from tamis.settings import Settings

_TICK: Final = 0.5  # seconds between two looks at the root itself, the lock, the index
_SUCCESSION: Final = 2.0  # seconds between two looks whether whoever watches has gone
_MOMENTS: Final = 25  # how many times the quiet that is waited for a burst may take: 5 seconds, by default
_RETRY: Final = 10.0  # seconds until what has failed is tried again
_REST: Final = (
    4.0  # seconds of rest for each second of computing, where files change all the time
)
_CREDIT: Final = (
    3.0  # seconds of computing before that counts: people save a few times in a row
)
_LONGEST_REST: Final = 5.0
_FAREWELL: Final = 1.0  # seconds that closing waits
_ATTEMPTS: Final = 10  # to watch folders that come and go while we do

State = Literal["watching", "polling", "waiting", "following", "failing"]


@dataclass(frozen=True, slots=True)
class Said(Plain):
    """How it stands with the watching, when that changes."""

    state: State
    message: str
    hint: str = ""


class Watcher:
    """Watches in a thread of its own from `start` to `close`."""

    def __init__(
        self,
        root: Path,
        directory: Path,
        settings: Callable[[], Settings],
        changed: Callable[[bool], float],
        *,
        behind: Callable[[], bool] = lambda: False,
        say: Callable[[Said], None] = lambda _: None,
        also: Iterable[Path] = (),
    ) -> None:
        """`changed` is called with whether something has (True), or whether it is time to look.

        It has somebody else do the work, and says how many seconds of computing that took the last time.
        It is called again every few seconds while `behind` says that it failed. `also` are files elsewhere
        that matter.
        """
        self._root = root
        self._directory = directory
        self._settings = settings
        self._changed = changed
        self._behind = behind
        self._say = say
        self._also = tuple(str(file.absolute()) for file in also)
        self._said: Said | None = None
        self._closing = threading.Event()
        self._woken = threading.Event()
        self._lock = threading.Lock()
        self._signs = 0  # since the last call
        self._first = self._last = 0.0
        self._stale = (
            False  # notices may be missing, or be of folders that are others by now
        )
        self._notices: Notices | None = None
        self._watched: frozenset[str] = frozenset()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, seconds: float = _FAREWELL) -> bool:
        """False if it is still stopping; it calls nobody any more."""
        self._closing.set()
        self._woken.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def told_until(self) -> float:
        """Whatever changed before this (seconds since 1970) led to a call; 0 when that cannot be said."""
        with self._lock:
            notices = None if self._signs or self._stale else self._notices
        return 0.0 if notices is None else notices.complete_until

    @property
    def knows_more(self) -> bool:
        """Whether something has changed that nobody was called for yet."""
        return self._signs > 0

    def _run(self) -> None:
        while not self._closing.is_set():
            if _identity(self._root) is None:
                self._tell(
                    "waiting",
                    f"{shown(str(self._root))} is not there: waiting for it to come back",
                )
            else:
                self._try_to_watch()
            following = self._said is not None and self._said.state == "following"
            self._closing.wait(_SUCCESSION if following else _TICK)

    def _try_to_watch(self) -> None:
        try:
            with sole_watcher(self._directory) as held:
                self._watch(held)
        except IndexLocked as other:
            self._tell(
                "following", f"{other.holder} watches {shown(str(self._root))} already"
            )
        except TamisError as fault:
            self._tell("failing", fault.message, fault.hint)
        except OSError as error:  # a root that goes takes the lock's folder with it
            if _identity(self._root) is not None:
                self._tell(
                    "failing",
                    f"cannot watch {shown(str(self._root))}: {error}",
                    "check the folder",
                )

    def _watch(self, held: Callable[[], bool]) -> None:
        """Watch until the root or the lock is another one."""
        identity = _identity(self._root)
        with self._listening():
            self._follow_folders()
            self._call(True)
            clock = _Clock()
            while not self._closing.is_set():
                self._woken.wait(self._pause(clock))
                self._woken.clear()
                if _identity(self._root) != identity or not held():
                    return
                if (
                    self._notices is not None
                    and self._notices.is_deaf
                    and not self._stale
                ):
                    self._hear(LOST)
                self._attend(clock)

    def _attend(self, clock: "_Clock") -> None:
        """Call whoever is to be called, if it is time."""
        options, now = self._settings().watch, time.monotonic()
        swept = (
            bool(options.sweep_seconds) and now - clock.swept >= options.sweep_seconds
        )
        behind = self._behind() or not (self._directory / "index.db").exists()
        if (
            self._is_quiet(clock, now)
            or swept
            or (behind and now - clock.called >= _RETRY)
        ):
            self._follow_folders()
            clock.call(self._call(True))
            clock.swept = clock.called if swept else clock.swept
        elif self._notices is None and now - clock.polled >= options.poll_ms / 1000:
            self._changed(False)
            clock.polled = time.monotonic()

    def _pause(self, clock: "_Clock") -> float:
        now = time.monotonic()
        pauses = [_TICK]
        if self._signs:
            pauses.append(self._due(clock) - now)
        if self._notices is None:
            pauses.append(clock.polled + self._settings().watch.poll_ms / 1000 - now)
        return max(0.0, min(pauses))

    def _is_quiet(self, clock: "_Clock", now: float) -> bool:
        return self._signs > 0 and now >= self._due(clock)

    def _due(self, clock: "_Clock") -> float:
        """When to call for the signs there are: files that change all the time must not keep us busy."""
        quiet = self._settings().watch.debounce_ms / 1000
        with self._lock:
            return max(
                clock.rested, min(self._last + quiet, self._first + _MOMENTS * quiet)
            )

    def _call(self, sure: bool) -> float:
        """Signs that come meanwhile stay: `told_until` must not run ahead of the call."""
        signs = self._signs
        took = self._changed(sure)
        with self._lock:
            self._signs -= signs
            self._first = time.monotonic()
        return took

    def _hear(self, paths: Paths) -> None:
        """Called by the notices' thread."""
        if paths and not self._signs_now().among(paths):
            return
        with self._lock:
            self._last = time.monotonic() - QUIET
            self._first = self._first if self._signs else self._last
            self._signs += 1
            # A folder that goes and comes has the same name, and is no longer watched.
            self._stale = (
                self._stale or not paths or not self._watched.isdisjoint(paths)
            )
        self._woken.set()

    def _signs_now(self) -> Signs:
        settings = self._settings()
        ignoring = os.path.join(
            self._root, settings.ignore.file
        )  # which may have gone, and its rules with it
        known = (
            ignoring,
            *self._also,
            *repository_files(self._root),
            *outer_rules(self._root),
        )
        return Signs(self._root, rules_of(self._root, settings), self._directory, known)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._replace(None, frozenset())

    def _follow_folders(self) -> None:
        """Watch the folders that there are now, before anybody looks what is in them.

        What appears while we are at it may be in a folder that was listed and not watched yet, so the list
        must come out the same once all of it is watched.
        """
        if self._settings().watch.poll:
            self._replace(None, frozenset())
            self._tell(
                "polling",
                f"looking at {shown(str(self._root))} every {self._interval()}",
            )
            return
        with self._lock:
            stale, self._stale = self._stale, False
        for _ in range(_ATTEMPTS):
            wanted = frozenset(self._folders())
            if wanted == self._watched and not stale:
                return
            stale = False
            try:
                self._replace(Notices(sorted(wanted), self._hear), wanted)
                self._tell("watching", f"watching {shown(str(self._root))}")
            except (FileNotFoundError, PermissionError):
                continue
            except NoNotices as error:
                self._replace(None, frozenset())
                every = f"looking every {self._interval()} instead (watch.poll_ms)"
                self._tell("polling", f"cannot be told of changes: {error}; {every}")
                return

    def _folders(self) -> Iterable[str]:
        if RECURSIVE:
            return (str(self._root),)
        rules = rules_of(self._root, self._settings())
        outside = (*self._also, *repository_files(self._root), *outer_rules(self._root))
        around = {os.path.dirname(file) for file in outside}
        index = str(self._directory)
        inside = (place for place in folders(self._root, rules) if place != index)
        return (*inside, *filter(os.path.isdir, around))

    def _replace(self, notices: Notices | None, watched: frozenset[str]) -> None:
        """The new ones listen already when the old ones stop."""
        with self._lock:
            before, self._notices = self._notices, notices
            self._watched = watched
        if before is not None:
            before.close()

    def _interval(self) -> str:
        return f"{self._settings().watch.poll_ms / 1000:g} s"

    def _tell(self, state: State, message: str, hint: str = "") -> None:
        said = Said(state, message, hint)
        if said != self._said:
            self._said = said
            self._say(said)


@dataclass(slots=True)
class _Clock:
    """When what was done last, and how much work that made lately."""

    called: float = field(default_factory=time.monotonic)
    swept: float = field(default_factory=time.monotonic)
    polled: float = field(default_factory=time.monotonic)
    work: float = 0.0  # seconds, less what was rested since

    @property
    def rested(self) -> float:
        """When we may call again."""
        return self.called + min(_REST * max(0.0, self.work - _CREDIT), _LONGEST_REST)

    def call(self, took: float) -> None:
        """What `took` so long began with the call before."""
        now = time.monotonic()
        self.work = max(0.0, self.work + took - (now - self.called) / _REST)
        self.called = now


def _identity(folder: Path) -> tuple[int, int] | None:
    """Which folder it is that has this name; None while there is none."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None
