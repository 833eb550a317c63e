"""One writer at a time: a lock that the operating system drops when its holder dies."""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tamis.errors import IndexLocked, storage_faults

_PAUSE: Final = 0.05


@contextmanager
def writer_lock(
    directory: Path, timeout: float, waiting: Callable[[str], None], name: str = "writer.lock"
) -> Iterator[None]:
    """Hold the lock of an index. While somebody else has it, say who (once) and wait."""
    handle = _acquire(directory, timeout, waiting, name)
    try:
        with storage_faults(directory):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()}".encode(), 0)
        yield
    finally:
        os.close(handle)


def _acquire(directory: Path, timeout: float, waiting: Callable[[str], None], name: str) -> int:
    """The lock file, open and locked."""
    deadline = time.monotonic() + timeout
    told = False
    while True:
        with storage_faults(directory):
            handle = os.open(directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if _lock(handle, directory / name):
            return handle
        holder = os.pread(handle, 80, 0).decode("utf-8", "replace") or "another process"
        os.close(handle)
        if time.monotonic() >= deadline:
            raise IndexLocked(directory, holder, timeout)
        if not told:
            waiting(holder)
            told = True
        time.sleep(_PAUSE)


def _lock(handle: int, file: Path) -> bool:
    """Lock it, and see that it still is the file of that name: a lock on a deleted file keeps nobody out."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(handle), file.stat())
    except (BlockingIOError, FileNotFoundError):
        return False
