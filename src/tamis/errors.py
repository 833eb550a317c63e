"""Every fault that tamis raises, in one tree.

    TamisError
    ├── UsageError                 a question that cannot be answered as it was asked
    │   ├── BadQuery               empty, too long, or not text
    │   ├── BadFilter              a filter that does not parse, or a value that cannot exist
    │   ├── NotIndexed             no document, or no passage, has that name here
    │   ├── BadSetting             an unknown key, a wrong type, a value out of range
    │   ├── BadJudgedSet           questions, judgements or documents that cannot be read
    │   └── BadClientFile          an agent's configuration that cannot be read or changed
    ├── BadFolder                  the root does not exist, is a file, or cannot be read
    │   ├── RootTooWide            a home folder, or one with homes in it, that nobody named
    │   └── TooManyFiles           more than are indexed without a question
    ├── IndexFault
    │   ├── IndexMissing           there is no index here yet
    │   ├── IndexLocked            another process is writing
    │   ├── IndexDamaged           index.db or a segment is not what was written
    │   ├── IndexForeign           index.db belongs to another program
    │   └── IndexMismatch          written by another version or with another model
    ├── EngineFault                a fault of the server of a shared index
    │   ├── EngineMissing          the library for it is not installed
    │   ├── EngineUnreachable      no answer, or not in time
    │   ├── EngineRefused          the key is wrong, or does not allow this
    │   └── EngineTooOld           the server's version lacks something we need
    ├── ModelFault                 the model is not installed, or its file is another one
    ├── StorageFault               the disk is full, read-only or failing
    ├── OutOfTime                  a server has no answer within its deadline
    └── InternalFault              a fault in tamis itself

Each has a message, a hint that says what to do, an exit code and an HTTP status. A file that
cannot be indexed is no fault: it is a `Skipped` value (see `tamis.model`).
"""

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from tamis.model import Address


def nearest(name: str, known: Iterable[str], alike: float = 0.6) -> str:
    """Ask whether the known name that looks most like a wrong one was meant; empty for none."""
    import difflib

    near = difflib.get_close_matches(name, known, n=1, cutoff=alike)
    return f"did you mean {near[0]}?" if near else ""


class TamisError(Exception):
    """A fault with a message, and a hint of what to do about it."""

    exit_code: ClassVar[int] = 2
    http_status: ClassVar[int] = 500

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(TamisError):
    http_status = 400


class BadQuery(UsageError):
    pass


class BadFilter(UsageError):
    pass


class NotIndexed(UsageError):
    http_status = 404


class BadSetting(UsageError):
    pass


class BadJudgedSet(UsageError):
    pass


class BadClientFile(UsageError):
    http_status = 409

    def __init__(self, path: Path, line: int, why: str, *, hint: str = "") -> None:
        super().__init__(
            f"{path}, line {line}: {why}",
            hint=hint or "nothing was changed; mend the file, then run this again",
        )


class BadFolder(TamisError):
    http_status = 404


class RootTooWide(BadFolder):
    http_status = 400


class TooManyFiles(BadFolder):
    http_status = 413


class IndexFault(TamisError):
    pass


class IndexMissing(IndexFault):
    http_status = 404

    def __init__(self, root: Path | Address) -> None:
        super().__init__(f"{root} has no index", hint=f"run: tamis index {_root(root)}")


class IndexLocked(IndexFault):
    http_status = 423

    def __init__(self, directory: Path | Address, holder: str, waited: float) -> None:
        self.holder = holder
        super().__init__(
            f"{directory} is being written by {holder} (waited {waited:g} s)",
            hint="wait for it to finish, or stop it",
        )


class IndexDamaged(IndexFault):
    def __init__(self, directory: Path, detail: str) -> None:
        repair = f"tamis doctor --repair {_root_of(directory)}".rstrip()
        super().__init__(
            f"the index in {directory} is damaged: {detail}",
            hint=f"your files are untouched; run: {repair}; "
            f"or make it anew: {rebuild_command(directory)}",
        )


class IndexForeign(IndexFault):
    http_status = 409


class IndexMismatch(IndexFault):
    http_status = 409


def rebuild_command(directory: Path | Address) -> str:
    """Return the command that makes an index anew, ready to be pasted."""
    return f"tamis rebuild-index {_root_of(directory)}".rstrip()


def _root_of(directory: Path | Address) -> str:
    """Return the root argument for an index; empty if its folder does not tell the root."""
    if isinstance(directory, Path) and directory.name != ".tamis":
        return ""
    if isinstance(directory, Path):
        return str(directory.parent)
    return _root(directory)


def _root(root: Path | Address) -> str:
    if isinstance(root, Address):
        return f"ROOT --engine {root.url}"
    return str(root)


class EngineFault(TamisError):
    http_status = 502


class EngineMissing(EngineFault):
    pass


class EngineUnreachable(EngineFault):
    http_status = 503


class EngineRefused(EngineFault):
    pass


class EngineTooOld(EngineFault):
    pass


class ModelFault(TamisError):
    http_status = 501


class StorageFault(TamisError):
    http_status = 507


class OutOfTime(TamisError):
    http_status = 504


class InternalFault(TamisError):
    def __init__(self) -> None:
        super().__init__(
            "this is a fault in tamis itself", hint="the server's log has the details"
        )


_FREE_SPACE = "free some space, then run the command again; nothing was lost"
_OTHER_PLACE = "choose a place you may write with --index-dir or TAMIS_INDEX_DIR"
_DISK_ERRORS = {
    errno.ENOSPC: ("the disk is full", _FREE_SPACE),
    errno.EDQUOT: ("the disk quota is used up", _FREE_SPACE),
    errno.EROFS: ("the disk is read-only", _OTHER_PLACE),
    errno.EACCES: ("permission denied", _OTHER_PLACE),
    errno.EPERM: ("permission denied", _OTHER_PLACE),
    errno.EFBIG: (
        "a file would be larger than this process may write",
        "raise the limit (ulimit -f), then run the command again; nothing was lost",
    ),
    errno.EIO: (
        "the disk reported an error",
        "check the disk; the last complete index is still in place",
    ),
}


@contextmanager
def storage_faults(directory: Path) -> Iterator[None]:
    """Turn the system's write errors below a folder into a `StorageFault` with a hint."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_ERRORS:
            raise
        raise disk_fault(directory, error.errno) from error


def disk_fault(directory: Path, code: int) -> StorageFault:
    """Return the fault of an error that a disk may report."""
    what, hint = _DISK_ERRORS[code]
    return StorageFault(f"cannot write the index in {directory}: {what}", hint=hint)
