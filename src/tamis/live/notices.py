"""Notices from the system that something in some folders has changed, and which of them matter.

A thread takes notices from the system as they come and passes them on at once, so that nothing
queues up. Changes may still be missed: the system's queue overflows without watchfiles saying so,
a name that is not UTF-8 ends its reading, a process that was stopped sees only the end. When that
can be noticed, `LOST` is passed on, and the watcher looks at everything. watchfiles lives here.
"""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from tamis.gitignore.repository import is_inside
from tamis.gitignore.rules import Rules

Paths = frozenset[str]

LOST: Paths = frozenset()  # something may have changed without a notice
# One watch per folder on Linux, so that ignored trees cost none; elsewhere one per tree.
RECURSIVE = not sys.platform.startswith("linux")
# Between two looks at what has come: the cost of idling, and how late a notice may be.
_STEP_MS = 50
# Seconds without changes that have usually passed when a notice is passed on.
QUIET = _STEP_MS / 1000
# Paths at once: the system's queue (16,384 events on Linux) may have been full.
FLOOD = 1_000
_STALLED = 5.0  # seconds without a look: the machine slept, or we were stopped
_CLOSING = 1.0  # seconds that closing waits
_RULES = frozenset({".gitignore", ".ignore"})  # hidden, and yet they matter
_PROJECT = frozenset({"tamis.toml", "pyproject.toml"})


class NoNotices(Exception):
    """The system gives no notices: too many watches, or a file system it knows nothing of."""


class Notices:
    """Notices about some folders until `close`. `hear` gets absolute paths, in another thread."""

    def __init__(
        self,
        folders: Sequence[str],
        hear: Callable[[Paths], None],
    ) -> None:
        """Start to listen.

        Raises FileNotFoundError for a folder that is gone, PermissionError for one that may not
        be read, and NoNotices if the system refuses.
        """
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
            target=self._listen,
            name="notices",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening."""
        self._pulse.stopped = True
        self._thread.join(_CLOSING)
        self._source.close()

    @property
    def is_deaf(self) -> bool:
        """True if no notice will come any more."""
        return not self._thread.is_alive()

    @property
    def complete_until(self) -> float:
        """Time (seconds since 1970) before which all changes were passed on; 0 if unknown."""
        if self.is_deaf:
            return 0.0
        return self._pulse.steps[0]

    def _listen(self) -> None:
        while not self._pulse.stopped:
            try:
                # Without a timeout, which would lose the changes that come while it ends.
                came = self._source.watch(0, _STEP_MS, 0, self._pulse)
            except self._fault:  # it fails again and again from here on
                self._hear(LOST)
                return
            if self._pulse.stalled:
                self._pulse.stalled = False
                self._hear(LOST)
            elif isinstance(came, set):
                paths = frozenset(path for _, path in came)
                if len(paths) >= FLOOD and not RECURSIVE:
                    paths = LOST
                self._hear(paths)


class _Pulse:
    """The stop signal that watchfiles checks at each step; it remembers the last steps.

    Changes that came before a step are seen there and passed on at the end of the next one.
    """

    def __init__(self) -> None:
        self.stopped = False
        self.stalled = False
        self.steps = (0.0, 0.0, 0.0)
        self._at = time.monotonic()

    def is_set(self) -> bool:
        now = time.monotonic()
        self.stalled = self.stalled or now - self._at > _STALLED
        self._at = now
        self.steps = (*self.steps[1:], time.time())
        return self.stopped or self.stalled


def _reason(message: str) -> str:
    """Explain a message of watchfiles."""
    if "limit reached" in message:
        return "the system's limit of watched folders is reached (fs.inotify.max_user_watches)"
    if "os error 24" in message:
        return (
            "the system's limit of watchers is reached (fs.inotify.max_user_instances)"
        )
    return message.partition(" about [")[0]


class Signs:
    """Decides which changed paths matter. Made anew for each notice: rules may have changed."""

    def __init__(
        self,
        root: Path,
        rules: Rules,
        index: Path,
        known: Iterable[str],
    ) -> None:
        """Collect the rules. `known` files (settings, git's own) matter wherever they are."""
        self._root = str(root)
        self._index = str(index)
        files = set(known)
        for name in (*rules.sources, *_PROJECT):
            files.add(os.path.join(root, name))
        self._known = files | {os.path.dirname(file) for file in files}
        # Rules by folder; None for a folder that is ignored, with everything below.
        self._folders: dict[str, Rules | None] = {self._root: rules}

    def matters(self, path: str) -> bool:
        """Return True if a change of this path calls for a look at the files."""
        if path in self._known or path == self._root:
            return True
        if is_inside(path, self._index) or not is_inside(path, self._root):
            return False
        folder, name = os.path.split(path)
        rules = self._rules(folder)
        if rules is None:
            return False
        if name in _RULES:
            return True
        if os.path.lexists(path):
            is_folder = os.path.isdir(path) and not os.path.islink(path)
            return not rules.verdict(name, is_folder).ignored
        # A deleted path may have been a file or a folder, so try both.
        as_folder = rules.verdict(name, is_dir=True)
        as_file = rules.verdict(name, is_dir=False)
        return not (as_folder.ignored and as_file.ignored)

    def _rules(self, folder: str) -> Rules | None:
        if folder not in self._folders:
            above, name = os.path.split(folder)
            rules = self._rules(above)
            if rules is not None:
                if rules.verdict(name, is_dir=True).ignored:
                    rules = None
                else:
                    rules = rules.enter(name)
            self._folders[folder] = rules
        return self._folders[folder]
