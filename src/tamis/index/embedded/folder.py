"""The folder of an index: made, seen to be one, and cleared of what does not belong there."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tamis.errors import BadFolder, StorageFault, storage_faults
from tamis.failpoints import reached
from tamis.index.embedded import concepts
from tamis.index.embedded.arrays import private, sync_folder
from tamis.index.embedded.database import SegmentRecord
from tamis.index.embedded.segment import sweep
from tamis.model import INDEX_FOLDER

ASIDE: Final = (
    "anew"  # where an index is made that is to take the place of a damaged one
)
_FOLDERS: Final = frozenset({"segments", "concepts", ASIDE})
_VERSION_CONTROL: Final = frozenset({".git", ".hg", ".svn", ".jj", ".bzr"})
_OURS: Final = re.compile(
    r"\.gitignore|(?:writer|watch|concepts)\.lock|segments|concepts|anew"
    r"|index\.db(?:\.partial)?(?:-journal|-wal|-shm)?"
)


def make_folder(directory: Path) -> None:
    """Make the index's folder, or check that the one that is there can be it."""
    with storage_faults(directory):
        fault = unfit(directory)
        if fault:
            hint = "move it away, or choose another place with --index-dir or TAMIS_INDEX_DIR"
            raise StorageFault(f"{directory} {fault}", hint=hint)
        if (directory / "segments").is_dir():  # made last
            return
        inside = directory.name == INDEX_FOLDER
        if (
            inside and not directory.parent.is_dir()
        ):  # a folder that was deleted must not come back by us
            raise BadFolder(
                f"{directory.parent} does not exist", hint="give the folder to search"
            )
        directory.mkdir(mode=0o700, parents=not inside, exist_ok=True)
        if not any(directory.iterdir()):
            write_ignore_file(directory)
        (directory / "segments").mkdir(mode=0o700, exist_ok=True)
        sync_folder(directory)


def unfit(directory: Path) -> str:
    """Why a folder cannot hold an index. A checkout may come with links that lead elsewhere."""
    if directory.name in _VERSION_CONTROL:
        return "is where version control keeps its own"
    if directory.name == INDEX_FOLDER and directory.is_symlink():
        return "is a link"
    if directory.exists() and not directory.is_dir():
        return misshapen(directory)
    if (directory / "segments").is_symlink():
        return "has a link for its segments"
    if (directory / "concepts").is_symlink():
        return "has a link for its concepts"
    if (directory / ASIDE).is_symlink():
        return "has a link for what is made anew"
    if any(
        (directory / f"{name}.lock").is_symlink()
        for name in ("writer", "watch", "concepts")
    ):
        return "has a link for a lock"
    names = os.listdir(directory) if directory.exists() else []
    if linked := [name for name in names if os.path.islink(directory / name)]:
        return f"has a link ({linked[0]})"
    if strange := [name for name in names if not _OURS.fullmatch(name)]:
        return f"holds other things ({strange[0]})"
    return misshapen(directory)


def misshapen(directory: Path) -> str:
    """What is a file where a folder should be, or the other way round, or neither."""
    if directory.exists() and not directory.is_dir():
        return "is a file, not a folder for an index"
    for name in os.listdir(directory) if directory.exists() else []:
        place, kind = directory / name, "folder" if name in _FOLDERS else "file"
        fits = place.is_dir() if kind == "folder" else place.is_file()
        if (
            not fits and _OURS.fullmatch(name) and place.exists()
        ):  # else it has just gone
            return f"has {name}, which is no {kind}"
    return ""


def write_ignore_file(directory: Path) -> None:
    """So that git does not see an index inside a work tree."""
    with open(directory / ".gitignore", "w", encoding="ascii", opener=private) as file:
        file.write("*\n")


def clear_up(directory: Path, records: Sequence[SegmentRecord]) -> None:
    """Remove what a writer that died has left, whatever it was doing."""
    sweep(directory / "segments", {record.folder for record in records})
    for file in directory.glob("index.db.partial*"):
        file.unlink(missing_ok=True)
    shutil.rmtree(directory / ASIDE, ignore_errors=True)


def throw_away(directory: Path) -> None:
    for name in ("index.db", "index.db-wal", "index.db-shm"):
        (directory / name).unlink(missing_ok=True)
        reached("discard.file")
    sweep(directory / "segments", set())
    concepts.sweep(directory, "")
