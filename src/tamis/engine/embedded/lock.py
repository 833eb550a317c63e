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
def writer_lock(directory: Path, timeout: float, waiting: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of an index. While somebody else has it, say who (once) and wait."""
    with storage_faults(directory):
        handle = os.open(directory / "writer.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _acquire(handle, directory, timeout, waiting)
        with storage_faults(directory):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()}".encode(), 0)
        yield
    finally:
        os.close(handle)


def _acquire(handle: int, directory: Path, timeout: float, waiting: Callable[[str], None]) -> None:
    deadline = time.monotonic() + timeout
    told = False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 80, 0).decode("utf-8", "replace") or "another process"
            if time.monotonic() >= deadline:
                raise IndexLocked(directory, holder, timeout) from None
            if not told:
                waiting(holder)
                told = True
            time.sleep(_PAUSE)
        else:
            return
