"""The folder of an index: create it, check it, clear it up, and lock it for one writer or watcher.

The operating system drops a lock when its holder dies.
"""

import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tamis.errors import BadFolder, IndexLocked, StorageFault, storage_faults
from tamis.failpoints import reached
from tamis.index.embedded.arrays import private, sync_folder
from tamis.index.embedded.database import SegmentRecord
from tamis.index.embedded.segment import sweep
from tamis.model import INDEX_FOLDER

ASIDE = "anew"  # a new index that will replace a damaged one is made here
_FOLDERS = frozenset({"segments", "concepts", ASIDE})
_VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".jj", ".bzr"})
_OURS = re.compile(
    r"\.gitignore|(?:writer|watch|concepts)\.lock|segments|concepts|anew"
    r"|index\.db(?:\.partial)?(?:-journal|-wal|-shm)?"
)
_PAUSE = 0.05
_GLANCE = 0.002  # seconds for which `holder` may share a lock, at most


def make_folder(directory: Path) -> None:
    """Create the folder of an index, or check that an existing one can be it."""
    with storage_faults(directory):
        fault = unfit(directory)
        if fault:
            hint = "move it away, or choose another place with --index-dir or TAMIS_INDEX_DIR"
            raise StorageFault(f"{directory} {fault}", hint=hint)
        if (directory / "segments").is_dir():  # made last
            return
        inside = directory.name == INDEX_FOLDER
        if inside and not directory.parent.is_dir():
            # A root that was deleted must not come back because of its index.
            what = f"{directory.parent} does not exist"
            raise BadFolder(what, hint="give the folder to search")
        directory.mkdir(mode=0o700, parents=not inside, exist_ok=True)
        if not any(directory.iterdir()):
            write_ignore_file(directory)
        (directory / "segments").mkdir(mode=0o700, exist_ok=True)
        sync_folder(directory)


def unfit(directory: Path) -> str:
    """Say why a folder cannot hold an index. A checkout may bring links that lead elsewhere."""
    if directory.name in _VERSION_CONTROL:
        return "is where version control keeps its own"
    if directory.name == INDEX_FOLDER and directory.is_symlink():
        return "is a link"
    if not directory.is_dir():
        return misshapen(directory)
    names = os.listdir(directory)
    for name in names:
        if os.path.islink(directory / name):
            return f"has a link ({name})"
    for name in names:
        if not _OURS.fullmatch(name):
            return f"holds other things ({name})"
    return misshapen(directory)


def misshapen(directory: Path) -> str:
    """Name a file where a folder should be, or the other way round."""
    if not directory.is_dir():
        return "is a file, not a folder for an index" if directory.exists() else ""
    for name in os.listdir(directory):
        place = directory / name
        kind, fits = "file", place.is_file()
        if name in _FOLDERS:
            kind, fits = "folder", place.is_dir()
        # It may have been removed just now.
        if not fits and _OURS.fullmatch(name) and place.exists():
            return f"has {name}, which is no {kind}"
    return ""


def write_ignore_file(directory: Path) -> None:
    """Hide an index inside a work tree from git."""
    with open(directory / ".gitignore", "w", encoding="ascii", opener=private) as file:
        file.write("*\n")


def clear_up(directory: Path, records: Sequence[SegmentRecord]) -> None:
    """Remove what a writer that died has left."""
    sweep(directory / "segments", {record.folder for record in records})
    for file in directory.glob("index.db.partial*"):
        file.unlink(missing_ok=True)
    shutil.rmtree(directory / ASIDE, ignore_errors=True)


def throw_away(directory: Path) -> None:
    """Remove an index unread."""
    from tamis.index.embedded import concepts  # a search does not need it

    for name in ("index.db", "index.db-wal", "index.db-shm"):
        (directory / name).unlink(missing_ok=True)
        reached("discard.file")
    sweep(directory / "segments", set())
    concepts.sweep(directory, "")


# --- Locks --------------------------------------------------------------------


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


def _acquire(
    file: Path,
    timeout: float,
    waiting: Callable[[str], None],
) -> int:
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
