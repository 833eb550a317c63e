"""One writer at a time, and one watcher: locks that the operating system drops when their holder dies."""

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
_GLANCE: Final = 0.002  # seconds; whoever only looks has let go by then


@contextmanager
def writer_lock(
    directory: Path,
    timeout: float,
    waiting: Callable[[str], None],
    name: str = "writer.lock",
) -> Iterator[Callable[[], bool]]:
    """Hold the lock of an index. While somebody else has it, say who (once) and wait.

    Gives a way to ask whether it still is the index's: the folder may be replaced under us.
    """
    handle = _acquire(directory, timeout, waiting, name)
    try:
        reached("lock.held")
        with storage_faults(directory):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()}".encode(), 0)
        yield lambda: _is_file(handle, directory / name)
    finally:
        os.close(handle)


def _acquire(
    directory: Path, timeout: float, waiting: Callable[[str], None], name: str
) -> int:
    """The lock file, open and locked."""
    deadline = time.monotonic() + timeout
    told = False
    while True:
        with storage_faults(directory):
            handle = os.open(
                directory / name,
                os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
            )
        if _lock(handle, directory / name) or _lock_after_a_glance(
            handle, directory / name
        ):
            return handle
        holder = os.pread(handle, 80, 0).decode("utf-8", "replace") or "another process"
        os.close(handle)
        if time.monotonic() >= deadline:
            raise IndexLocked(directory, holder, timeout)
        if not told:
            waiting(holder)
            told = True
        time.sleep(_PAUSE)


def holder(directory: Path, name: str = "writer.lock") -> str:
    """Who holds the lock of an index; empty when nobody does. A file without a lock keeps nobody out.

    There is no asking without touching: for an instant we share the lock, and whoever wants it just then
    tries twice.
    """
    try:
        handle = os.open(
            directory / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        )  # no pipe holds us up
    except (FileNotFoundError, NotADirectoryError):
        return ""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(handle, 80, 0).decode("utf-8", "replace") or "another process"
    finally:
        os.close(handle)
    return ""


def _lock_after_a_glance(handle: int, file: Path) -> bool:
    time.sleep(_GLANCE)
    return _lock(handle, file)


def _lock(handle: int, file: Path) -> bool:
    """Lock it, and see that it still is the file of that name: a lock on a deleted file keeps nobody out."""
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
