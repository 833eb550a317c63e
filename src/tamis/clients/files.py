"""Somebody else's file, changed with care: a backup first, then all of it at once, with its permissions.

A symbolic link is followed and stays: people keep such files in a repository of their own.
"""

import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tamis.errors import BadClientFile, StorageFault


@dataclass(frozen=True, slots=True)
class Change:
    """A file, what it says, and what it is to say; None: there is no file."""

    path: Path
    before: str | None
    after: str | None


def read_text(path: Path) -> str | None:
    """What a file says, with its own line ends."""
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise BadClientFile(path, line, "this is no UTF-8 text") from error
    except OSError as error:
        raise StorageFault(
            f"cannot read {path}: {error.strerror}",
            hint="check what it is, and its permissions",
        ) from error


def apply(change: Change, *, backup: bool = True) -> Path | None:
    """Make a change, and say where the backup is; nothing is written where nothing changes."""
    if change.before == change.after:
        return None
    target = Path(os.path.realpath(change.path))
    try:
        if read_text(target) != change.before:
            raise StorageFault(
                f"{target} was changed by somebody else meanwhile",
                hint="it was left as it is; quit the agent that writes it, and run the command again",
            )
        saved = _saved(target) if backup and change.before is not None else None
        if change.after is None:
            change.path.unlink()
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            _replace(target, change.after.encode())
    except OSError as error:
        raise StorageFault(
            f"cannot write {target}: {error.strerror or error}",
            hint="the file is as it was; check the permissions of its folder, and the space that is left",
        ) from error
    return saved


def _saved(target: Path) -> Path:
    """A copy beside the file; earlier ones are kept, and the same is not kept twice."""
    content, number = target.read_bytes(), 1
    while True:
        copy = target.with_name(
            f"{target.name}.tamis-backup{number if number > 1 else ''}"
        )
        if not copy.exists():
            _replace(copy, content, like=target)
            return copy
        if copy.read_bytes() == content:
            return copy
        number += 1


def _replace(target: Path, content: bytes, like: Path | None = None) -> None:
    """Write aside and rename: a reader, or a crash, finds the old file or the new one."""
    handle, aside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            _adopt(
                file.fileno(), like or target
            )  # before there is anything in it that others might read
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(aside)
        raise


def _adopt(handle: int, like: Path) -> None:
    """The permissions and, where we may, the owner of the file that is replaced; of a new one, the usual."""
    try:
        status = like.stat()
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(handle, 0o666 & ~mask)
        return
    if os.geteuid() == 0:  # run with sudo, the file must stay its owner's
        os.fchown(handle, status.st_uid, status.st_gid)
    os.fchmod(handle, status.st_mode & 0o7777)
