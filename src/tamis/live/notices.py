"""Being told by the system that something below some folders has changed. watchfiles lives behind this file.

A thread takes notices off the system as they come and hands them on at once, so that nothing queues up.
Changes may still be missed: the system's own queue overflows without watchfiles saying so, a name that is
not UTF-8 ends its reading, a process that was stopped for a while sees only the end. What can be noticed of
that is handed on as `LOST`: whoever listens then looks at everything, and now and then in any case.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from tamis.gitignore.rules import Rules

Paths = frozenset[str]

LOST: Final[Paths] = frozenset()  # something may have changed that we were not told of
# One watch for each folder on Linux, so that ignored trees cost none; elsewhere the system watches trees.
RECURSIVE: Final = not sys.platform.startswith("linux")
_STEP_MS: Final = 50  # between two looks at what has come: what idling costs, and how late a notice may be
QUIET: Final = (
    _STEP_MS / 1000
)  # seconds that were quiet already when a notice is handed on, in general
_FLOOD: Final = 1_000  # paths at once: the system's queue (16,384 events on Linux) may have been full
_STALLED: Final = 5.0  # seconds without a look: the machine slept, or we were stopped
_FAREWELL: Final = 1.0


class NoNotices(Exception):
    """The system will not tell us: too many watches, or a file system that it knows nothing of."""


class Notices:
    """Open until closed. `hear` is called in a thread of its own, with absolute paths."""

    def __init__(self, folders: Sequence[str], hear: Callable[[Paths], None]) -> None:
        """A folder that has gone is a `FileNotFoundError`, one that may not be read a `PermissionError`."""
        from watchfiles._rust_notify import RustNotify, WatchfilesRustInternalError

        self._fault = WatchfilesRustInternalError
        try:
            self._source = RustNotify(list(folders), False, False, 0, RECURSIVE, False)
        except (FileNotFoundError, PermissionError):
            raise
        except (OSError, WatchfilesRustInternalError) as error:
            raise NoNotices(_reason(str(error))) from error
        self._hear = hear
        self._pulse = _Pulse()
        self._thread = threading.Thread(
            target=self._listen, name="notices", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._pulse.stopped = True
        self._thread.join(_FAREWELL)
        self._source.close()

    @property
    def is_deaf(self) -> bool:
        """Whether nothing will be heard any more."""
        return not self._thread.is_alive()

    @property
    def complete_until(self) -> float:
        """Whatever changed before this (seconds since 1970) has been handed on; 0 when that is unknown."""
        return 0.0 if self.is_deaf else self._pulse.before

    def _listen(self) -> None:
        while not self._pulse.stopped:
            try:
                # Without a timeout, which would throw away what comes while it ends.
                came = self._source.watch(0, _STEP_MS, 0, self._pulse)
            except self._fault:  # it fails again and again from here on
                self._hear(LOST)
                return
            if self._pulse.stalled:
                self._pulse.stalled = False
                self._hear(LOST)
            elif isinstance(came, set):
                flood = len(came) >= _FLOOD and not RECURSIVE
                self._hear(LOST if flood else frozenset(path for _, path in came))


class _Pulse:
    """What watchfiles asks at each step whether to stop; so it knows when the last steps were.

    What has come before a step is seen there, and handed on at the end of the next one.
    """

    def __init__(self) -> None:
        self.stopped = False
        self.stalled = False
        self._steps = (0.0, 0.0, 0.0)
        self._at = time.monotonic()

    @property
    def before(self) -> float:
        return self._steps[0]

    def is_set(self) -> bool:
        now = time.monotonic()
        self.stalled = self.stalled or now - self._at > _STALLED
        self._at = now
        self._steps = (*self._steps[1:], time.time())
        return self.stopped or self.stalled


def _reason(said: str) -> str:
    """What watchfiles says, in words that help."""
    if "limit reached" in said:
        return "the system's limit of watched folders is reached (fs.inotify.max_user_watches)"
    if "os error 24" in said:
        return (
            "the system's limit of watchers is reached (fs.inotify.max_user_instances)"
        )
    return said.partition(" about [")[0]


_RULES: Final = frozenset({".gitignore", ".ignore"})  # hidden, and yet they matter
_PROJECT: Final = frozenset({"tamis.toml", "pyproject.toml"})


class Signs:
    """The rules as they are now: made anew for each portion of changes, since these may change them."""

    def __init__(
        self, root: Path, rules: Rules, index: Path, known: Iterable[str]
    ) -> None:
        """`known` are files that count wherever they are, as do their folders: settings, git's own."""
        self._root = str(root)
        self._index = str(index)
        here = (os.path.join(root, source) for source in rules.sources)
        project = (os.path.join(root, name) for name in _PROJECT)
        files = frozenset((*known, *here, *project))
        self._known = files | frozenset(map(os.path.dirname, files))
        self._folders: dict[str, Rules | None] = {
            self._root: rules
        }  # None: ignored, with all below

    def among(self, paths: Iterable[str]) -> bool:
        return any(map(self._is_sign, paths))

    def _is_sign(self, path: str) -> bool:
        if path in self._known or path == self._root:
            return True
        if _is_below(path, self._index) or not _is_below(path, self._root):
            return False
        folder, name = os.path.split(path)
        rules = self._rules(folder)
        return rules is not None and (
            name in _RULES or _may_be_indexed(path, name, rules)
        )

    def _rules(self, folder: str) -> Rules | None:
        if folder not in self._folders:
            above, name = os.path.split(folder)
            outer = self._rules(above)
            ignored = outer is None or outer.verdict(name, is_dir=True).ignored
            self._folders[folder] = (
                None if ignored or outer is None else outer.enter(name)
            )
        return self._folders[folder]


def _may_be_indexed(path: str, name: str, rules: Rules) -> bool:
    """Of what is gone it is not known what it was."""
    kinds = (
        (os.path.isdir(path) and not os.path.islink(path),)
        if os.path.lexists(path)
        else (True, False)
    )
    return any(not rules.verdict(name, is_dir).ignored for is_dir in kinds)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))
