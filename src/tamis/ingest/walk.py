"""Walk a root: every entry is either a file to read or a `Skipped` value with its reason.

The walk never leaves the root and never follows a symbolic link: a link to something inside the
root would only show it twice, a link to something outside would leave. So loops cannot happen.
"""

import os
import stat
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from tamis.errors import BadFolder
from tamis.gitignore.rules import Rules, Verdict
from tamis.model import INDEX_FOLDER, Skipped

FARTHEST = 2**63 - 1  # SQLite's integers end there, in nanoseconds the year 2262


class Entry(NamedTuple):
    """A regular file that the rules let through. A tuple of plain values: thousands are made at each look."""

    path: str  # posix, relative to the root
    file: str  # where it is
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


def checked_root(path: str | os.PathLike[str]) -> Path:
    """Return the folder without symbolic links, or raise a fault that says what is wrong with it."""
    if not os.fspath(path):
        raise BadFolder(
            "no folder was given", hint="give the folder to search; . is this one"
        )
    # A `~name` without such a user stays as it is, and does not exist.
    given = Path(os.path.expanduser(path))
    try:
        if not given.exists():
            raise BadFolder(f"{given} does not exist", hint="give the folder to search")
        if not given.is_dir():
            hint = f"give its folder: {given.parent}"
            raise BadFolder(f"{given} is a file", hint=hint)
        if not os.access(given, os.R_OK | os.X_OK):
            raise BadFolder(
                f"{given} cannot be read: permission denied",
                hint="check its permissions",
            )
        root = given.resolve()
    except OSError as error:
        why = error.strerror or str(error)
        if isinstance(error, PermissionError):
            why = "permission denied"
        hint = "check its permissions, and those of the folders above it"
        raise BadFolder(f"{given} cannot be reached: {why}", hint=hint) from error
    if not _storable(str(root)):
        name = shown(str(root))
        raise BadFolder(f"{name} is no valid UTF-8", hint="rename the folder")
    return root


class _Folder(NamedTuple):
    """A folder on the way down, with what of it is still to be visited."""

    prefix: str  # the beginning of its entries' paths: empty, or `docs/api/`
    rules: Rules
    entries: Iterator[os.DirEntry[str]]


def walk(
    root: Path, rules: Rules, warn: Callable[[str], None]
) -> Iterator[Entry | Skipped]:
    """Yield everything below the root, folders in the order of their names; an ignored folder is one entry.

    `warn` is called for ignore files that could not be used. Depth first, on a stack of its own:
    folders may be nested deeper than calls.
    """
    for message in rules.warnings:
        warn(message)
    found = _opened(str(root), "", rules)
    if isinstance(found, Skipped):
        # It is not empty: an empty folder would drop a whole index.
        message = f"{shown(str(root))} cannot be read: {found.detail}"
        raise BadFolder(message, hint="is it still there?")
    folders = [found]
    while folders:
        folder = folders[-1]
        for entry in folder.entries:
            if entry.name == INDEX_FOLDER:
                continue  # our own: nobody would look for it
            visited = _visit(root, entry, folder, warn)
            if isinstance(visited, _Folder):
                folders.append(visited)
                break
            yield visited
        else:
            folders.pop()


def folders(root: Path, rules: Rules) -> Iterator[str]:
    """Yield the root and every folder below it that a walk would enter, as absolute paths."""
    waiting = [(str(root), rules)]
    while waiting:
        place, here = waiting.pop()
        try:
            with os.scandir(place) as listing:
                inner = [
                    entry for entry in listing if entry.is_dir(follow_symlinks=False)
                ]
        except OSError:  # the walk has it among what it skips
            continue
        yield place
        for entry in inner:
            name = entry.name
            if name == INDEX_FOLDER or not _storable(name):
                continue
            if not here.verdict(name, is_dir=True).ignored:
                waiting.append((entry.path, here.enter(name)))


def _opened(folder: str, prefix: str, rules: Rules) -> _Folder | Skipped:
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=attrgetter("name"))
    except OSError as error:
        return Skipped(prefix, "unreadable", error.strerror or str(error))
    return _Folder(prefix, rules, iter(entries))


def _visit(
    root: Path, entry: os.DirEntry[str], folder: _Folder, warn: Callable[[str], None]
) -> Entry | Skipped | _Folder:
    path = folder.prefix + entry.name
    try:
        is_folder = entry.is_dir(follow_symlinks=False)
        verdict = folder.rules.verdict(entry.name, is_folder)
        if verdict.ignored:
            return Skipped(shown(path) + "/" * is_folder, "ignored", describe(verdict))
        if not path.isascii() and not _storable(path):
            return Skipped(shown(path), "unreadable", "its name is not valid UTF-8")
        if is_folder:
            inner = folder.rules.enter(entry.name)
            for message in inner.warnings[len(folder.rules.warnings) :]:
                warn(message)
            return _opened(entry.path, f"{path}/", inner)
        status = entry.stat(follow_symlinks=False)
        if stat.S_ISREG(status.st_mode):
            return Entry(path, entry.path, *stamps(status))
        if stat.S_ISLNK(status.st_mode):
            return _link(root, entry, path)
        return Skipped(path, "not a regular file")
    except OSError as error:  # it vanished, or its folder may be listed but not entered
        return Skipped(shown(path), "unreadable", error.strerror or str(error))


def stamps(status: os.stat_result) -> tuple[int, int, int, int]:
    """Return a file's size, its two times and its number, as the store can hold them.

    A file may say that it is of the year 9999, or of 1600, and some file systems number them with 64 bits.
    """
    modified = max(-FARTHEST, min(status.st_mtime_ns, FARTHEST))
    changed = max(-FARTHEST, min(status.st_ctime_ns, FARTHEST))
    number = status.st_ino
    if number > FARTHEST:
        number &= FARTHEST
    return status.st_size, modified, changed, number


def _link(root: Path, entry: os.DirEntry[str], path: str) -> Skipped:
    target = os.path.realpath(entry.path)
    if target != str(root) and not target.startswith(f"{root}{os.sep}"):
        return Skipped(path, "outside the root", f"a link to {shown(target)}")
    inside = shown(os.path.relpath(target, root))
    if os.path.exists(target):
        detail = f"to {inside}, which is indexed under its own path"
    else:
        detail = f"to {inside}, which is not there"
    return Skipped(path, "link", detail)


def describe(verdict: Verdict) -> str:
    """Name the rule behind a verdict: `node_modules/ (built-in)` or `*.log (docs/.gitignore:3)`."""
    rule = verdict.rule
    if rule is None:
        return ""
    place = "built-in"
    if rule.line:
        place = f"{rule.source}:{rule.line}"
    return f"{rule.pattern} ({place})"


def _storable(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def shown(path: str) -> str:
    """Return a path as text that can be stored and printed, whatever bytes it is made of."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")
