"""Locks for one writer and one watcher at a time; the operating system drops them when their holder dies."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tamis.errors import IndexLocked, storage_faults
from tamis.failpoints import reached

_PAUSE: Final = 0.05
_GLANCE: Final = 0.002  # seconds for which `holder` may share a lock, at most


@contextmanager
def writer_lock(
    directory: Path,
    timeout: float,
    waiting: Callable[[str], None],
    name: str = "writer.lock",
) -> Iterator[Callable[[], bool]]:
    """Hold the lock of an index. While another process has it, report that once and wait.

    Yields a function that says whether the lock is still the index's: its folder may be replaced.
    """
    file = directory / name
    handle = _acquire(file, timeout, waiting)
    try:
        reached("lock.held")
        with storage_faults(directory):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()}".encode(), 0)
        yield lambda: _is_file(handle, file)
    finally:
        os.close(handle)


def _acquire(file: Path, timeout: float, waiting: Callable[[str], None]) -> int:
    """Open and lock the lock file."""
    deadline = time.monotonic() + timeout
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    reported = False
    while True:
        with storage_faults(file.parent):
            handle = os.open(file, flags, 0o600)
        if _lock(handle, file):
            return handle
        time.sleep(_GLANCE)
        if _lock(handle, file):
            return handle
        other = _written(handle)
        os.close(handle)
        if time.monotonic() >= deadline:
            raise IndexLocked(file.parent, other, timeout)
        if not reported:
            waiting(other)
            reported = True
        time.sleep(_PAUSE)


def _lock(handle: int, file: Path) -> bool:
    """Try to lock a file that must still have its name: a lock on a deleted file stops nobody."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return _is_file(handle, file)


def _is_file(handle: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), file.stat())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _written(handle: int) -> str:
    return os.pread(handle, 80, 0).decode("utf-8", "replace") or "another process"


def holder(directory: Path, name: str = "writer.lock") -> str:
    """Return the process that holds a lock of an index; empty if there is none.

    The only way to see a lock is to share it for an instant; a writer that wants it then tries twice.
    """
    # A pipe of this name must not block.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        handle = os.open(directory / name, flags)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _written(handle)
    finally:
        os.close(handle)
    return ""
