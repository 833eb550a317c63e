"""Walking a root: every entry is either a file to read or a `Skipped` value with its reason.

The walk never leaves the root and never follows a symbolic link: a link to something inside the
root would only show it twice, a link to something outside would leave. So loops cannot happen.
"""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tamis.errors import BadFolder
from tamis.ingest.ignore import Rules, Verdict
from tamis.model import Skipped

INDEX_FOLDER: Final = ".tamis"


@dataclass(frozen=True, slots=True)
class Entry:
    """A regular file that the rules let through."""

    path: str  # posix, relative to the root
    file: Path
    size: int
    mtime_ns: int
    ctime_ns: int


def checked_root(path: str | os.PathLike[str]) -> Path:
    """The folder itself, without symbolic links, or a fault that says what is wrong with it."""
    given = Path(path).expanduser()
    if not given.exists():
        raise BadFolder(f"{given} does not exist", hint="give the folder to search")
    if not given.is_dir():
        raise BadFolder(f"{given} is a file", hint=f"give its folder: {given.parent}")
    if not os.access(given, os.R_OK | os.X_OK):
        raise BadFolder(f"{given} cannot be read: permission denied", hint="check its permissions")
    root = given.resolve()
    if not _storable(str(root)):
        raise BadFolder(f"{_shown(str(root))} is no valid UTF-8", hint="rename the folder")
    return root


def walk(root: Path, rules: Rules, warn: Callable[[str], None]) -> Iterator[Entry | Skipped]:
    """Everything below the root, folders in the order of their names; an ignored folder is one entry.

    `warn` hears of ignore files that could not be used.
    """
    for message in rules.warnings:
        warn(message)
    return _walk(root, str(root), "", rules, warn)


def _walk(
    root: Path, folder: str, prefix: str, rules: Rules, warn: Callable[[str], None]
) -> Iterator[Entry | Skipped]:
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        yield Skipped(f"{prefix}", "unreadable", error.strerror or str(error))
        return
    for entry in entries:
        if entry.name == INDEX_FOLDER:  # ours: not a file that anybody would look for
            continue
        yield from _visit(root, entry, f"{prefix}{entry.name}", rules, warn)


def _visit(
    root: Path, entry: os.DirEntry[str], path: str, rules: Rules, warn: Callable[[str], None]
) -> Iterator[Entry | Skipped]:
    try:
        is_folder = entry.is_dir(follow_symlinks=False)
        verdict = rules.verdict(entry.name, is_folder)
        if verdict.ignored:
            yield Skipped(_shown(path) + "/" * is_folder, "ignored", describe(verdict))
        elif not _storable(path):
            yield Skipped(_shown(path), "unreadable", "its name is not valid UTF-8")
        elif entry.is_symlink():
            yield _link(root, entry, path)
        elif is_folder:
            inner = rules.enter(entry.name)
            for message in inner.warnings[len(rules.warnings) :]:
                warn(message)
            yield from _walk(root, entry.path, f"{path}/", inner, warn)
        else:
            yield _file(entry, path)
    except OSError as error:  # it vanished, or its folder may be listed but not entered
        yield Skipped(_shown(path), "unreadable", error.strerror or str(error))


def _file(entry: os.DirEntry[str], path: str) -> Entry | Skipped:
    status = entry.stat(follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode):
        return Skipped(path, "not a regular file")
    return Entry(path, Path(entry.path), status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _link(root: Path, entry: os.DirEntry[str], path: str) -> Skipped:
    target = os.path.realpath(entry.path)
    if target == str(root) or target.startswith(f"{root}{os.sep}"):
        inside = os.path.relpath(target, root)
        return Skipped(path, "link", f"to {_shown(inside)}, which is indexed under its own path")
    return Skipped(path, "outside the root", f"a link to {_shown(target)}")


def describe(verdict: Verdict) -> str:
    """`node_modules/ (defaults)` or `*.log (docs/.gitignore:3)`."""
    rule = verdict.rule
    if rule is None:
        return ""
    place = f"{rule.source}:{rule.line}" if rule.line else rule.source
    return f"{rule.pattern} ({place})"


def _storable(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _shown(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode("utf-8")
