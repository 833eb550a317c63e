"""Dates of the last commit, for tracked files that are as they were committed.

A checkout stamps every file with the time of the checkout; what says something about a document's
age is its last commit. A file that has changed since, or whose commit is not found in time, keeps
its own time. What the index has already is looked at again only where git has moved on.

The folder may be somebody else's, with a `.git` that wants to run programs: so git is asked for what
is in its own files only. Nothing here makes it compare, refresh or fetch anything (which could run
filters, monitors, hooks, helpers), and what could name a program is overruled on the command line.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import NamedTuple

from tamis.gitignore.repository import repository_files
from tamis.ingest.walk import Entry

_SECONDS = 10.0  # for the whole history: some 100,000 commits
_MOST_BYTES = 512 * 2**20  # of what git says
_PORTION = 2**16
_LATEST = 2**40  # seconds; a commit may claim any time
_GIT = (
    "git", "--no-pager", "--no-replace-objects",
    "-c", "core.fsmonitor=false",
    "-c", f"core.hooksPath={os.devnull}",
    "-c", "protocol.allow=never",
    "-c", "log.showSignature=false",
    "-c", "log.follow=false",
    "-c", "submodule.recurse=false",
)  # fmt: skip
# What a commit made of each file, by its content; of a merge, what is in none of its parents (-c).
_LOG = (
    "log", "-z", "--raw", "-c", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv",
    "--no-show-signature", "--no-color", "--full-history", "--relative", "--format=tformat:%x01%ct",
)  # fmt: skip
# The list against the last commit, without a look at the files themselves.
_STAGED = (
    "diff-index", "--cached", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=all",
    "--relative", "HEAD", "--", ".",
)  # fmt: skip
# Before an edition whose history took too long: it is not read again.
_LATE = "late "
# No locks, no questions, no network.
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "LC_ALL": "C",
}
_TRACKED = re.compile(
    rb"(?P<mode>\d+) (?P<content>[0-9a-f]+) 0\t(?P<path>[^\0]+)\0\s+ctime: \S+\n"
    rb"\s+mtime: (?P<seconds>\d+):(?P<nanoseconds>\d+)\n[^\n]+\n[^\n]+\n\s+size: (?P<size>\d+)\t[^\n]*\n"
)


class Dates(NamedTuple):
    """The commit dates of the files of a root."""

    # Of the last commit, in seconds, by path; of those that may need it.
    times: Mapping[str, float]
    moved: frozenset[str]  # unchanged files whose date in the index is no longer right
    edition: str = ""  # of what git knows: hand it in the next time
    warning: str = ""


class Tracked(NamedTuple):
    """The committed files of a folder, from git's own list."""

    # Content, size and mtime in nanoseconds, by path.
    files: Mapping[str, tuple[str, int, int]]
    head: str
    edition: str  # the head, and what the list looks like

    def unmodified(self, entries: Iterable[Entry]) -> dict[str, str]:
        """Return the contents of files that are as git last saw them, by path."""
        contents = {}
        for entry in entries:
            file = self.files.get(entry.path)
            if file and file[1:] == (entry.size, entry.mtime_ns):
                contents[entry.path] = file[0]
        return contents


def commit_dates(
    root: Path,
    changed: Sequence[Entry],
    unchanged: Sequence[Entry],
    known: Callable[[], Mapping[str, float]],
    before: str,
) -> Dates:
    """Return the commit times of changed files, and of unchanged ones that have moved since the edition `before`.

    `known` reads the dates that the index has: thousands, and seldom needed.
    """
    git = tracked(root)
    if git is None:
        moved: frozenset[str] = frozenset()
        if before:  # also those that had git's date before
            moved = _moved(unchanged, known(), {})
        return Dates({}, moved)
    late = f"{_LATE}{git.edition}"
    if before == late:
        return Dates({}, frozenset(), late)
    dates: Mapping[str, float] = {}
    again: list[Entry] = []
    if before != git.edition:
        dates = known()
        again = _again(root, git, unchanged, dates, before)
    wanted = git.unmodified([*changed, *again])
    times = commit_times(root, wanted) if wanted else {}
    if times is None:
        warning = (
            "git's history took too long to read: files are dated by their own times"
        )
        own = _moved(again, dates, {})
        return Dates({}, own, late, warning)
    return Dates(times, _moved(again, dates, times), git.edition)


def _again(
    root: Path,
    git: Tracked,
    unchanged: Sequence[Entry],
    known: Mapping[str, float],
    before: str,
) -> list[Entry]:
    """Return the unchanged files whose date may not be right any more.

    Git may have come to see a file as it is, or no longer do so; for one that it saw all the time the
    date can only have moved with a commit that one of the two heads has and the other has not. (A
    document that states its own date would otherwise be read again after every commit.)
    """
    clean = git.unmodified(unchanged)
    head, _, _ = before.partition(" ")
    between = _touched_between(root, head, git.head)
    again = []
    for entry in unchanged:
        is_clean = entry.path in clean
        has_own_date = known.get(entry.path) == entry.mtime_ns / 1e9
        is_touched = between is None or entry.path in between
        if has_own_date == is_clean or (is_clean and is_touched):
            again.append(entry)
    return again


def _moved(
    entries: Sequence[Entry], known: Mapping[str, float], times: Mapping[str, float]
) -> frozenset[str]:
    """Return the files whose date differs from the known one; without a commit it is their own time."""
    moved = set()
    for entry in entries:
        date = times.get(entry.path, entry.mtime_ns / 1e9)
        if known.get(entry.path) != date:
            moved.add(entry.path)
    return frozenset(moved)


def tracked(root: Path) -> Tracked | None:
    """Return the files below the root that git tracks; None where it tracks none, or cannot be asked."""
    if not repository_files(root):  # far cheaper than asking git
        return None
    listing = _said(root, ("ls-files", "-z", "--stage", "--debug"))
    head = ""
    if listing:
        said = _said(root, ("rev-parse", "--verify", "--quiet", "HEAD"))
        head = said.decode("ascii", "replace").strip()
    if not head:
        return None
    staged = set(_said(root, _STAGED).split(b"\0"))
    files = {}
    for found in _TRACKED.finditer(listing):
        is_regular = found["mode"].startswith(b"100")  # no link, no other repository
        if is_regular and found["path"] not in staged:
            seconds = int(found["seconds"])
            stamp = seconds * 10**9 + int(found["nanoseconds"])
            content = found["content"].decode()
            path = os.fsdecode(found["path"])
            files[path] = (content, int(found["size"]), stamp)
    digest = hashlib.blake2b(listing, digest_size=16).hexdigest()
    return Tracked(files, head, f"{head} {digest}")


# --- Asking git -------------------------------------------------------------------------


def commit_times(
    root: Path, wanted: Mapping[str, str], seconds: float = _SECONDS
) -> dict[str, float] | None:
    """Return when each file got its content, as far as the history goes; None if that takes too long.

    Newest first, so that a file that got the same content twice has the later time, and files that
    were committed lately are found at once.
    """
    times: dict[str, float] = {}
    try:
        for path, content, time in _log(root, "HEAD", seconds):
            if wanted.get(path) == content:
                times.setdefault(path, time)
            if len(times) == len(wanted):
                break
    except subprocess.CalledProcessError:
        return None
    return times


def _touched_between(root: Path, one: str, two: str) -> set[str] | None:
    """Return the files of all commits that one of the heads has and the other has not; None if unknown."""
    if not re.fullmatch(r"[0-9a-f]{40,64}", one):
        return None
    if one == two:
        return set()
    try:
        return {path for path, _, _ in _log(root, f"{one}...{two}", _SECONDS)}
    except subprocess.CalledProcessError:
        return None


def _log(
    root: Path, revisions: str, seconds: float
) -> Iterator[tuple[str, str, float]]:
    """Yield what commits made of files: path, content and time of the commit."""
    time = 0.0
    with _running(root, (*_LOG, revisions, "--", "."), seconds) as process:
        parts = _parts(process)
        for part in parts:
            fields = part.strip(b"\n").split(b" ")
            if part.startswith(b"\x01"):  # a commit
                stated = part[1:]
                time = 0.0
                if stated.isdigit():
                    time = float(min(int(stated), _LATEST))
            elif len(fields) > 1:  # `:100644 100644 1234 5678 M`, then a path
                path = os.fsdecode(next(parts, b""))
                content = fields[-2].lstrip(b":").decode("ascii", "replace")
                yield path, content, time
        if process.wait():
            raise subprocess.CalledProcessError(process.returncode, "git log")


def _parts(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield the parts between NULs."""
    rest = b""
    for portion in _portions(process):
        *whole, rest = (rest + portion).split(b"\0")
        yield from whole


def _portions(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    assert process.stdout is not None
    total = 0
    while total < _MOST_BYTES and (portion := process.stdout.read(_PORTION)):
        total += len(portion)
        yield portion


def _said(root: Path, arguments: Sequence[str]) -> bytes:
    """Return all that git says; nothing where it fails, takes too long, or is not there."""
    try:
        with _running(root, arguments, _SECONDS) as process:
            said = b"".join(_portions(process))
            return b"" if process.wait() else said
    except OSError:
        return b""


@contextmanager
def _running(
    root: Path, arguments: Sequence[str], seconds: float
) -> Iterator[subprocess.Popen[bytes]]:
    """Run git in a process group of its own: Ctrl-C is for us to answer. Too slow, it is killed."""
    ours = os.environ.items()
    # Without what would send git to another repository.
    plain = {name: value for name, value in ours if not name.startswith("GIT_")}
    with subprocess.Popen(
        [*_GIT, "-C", str(root), *arguments],
        env=plain | _ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,
    ) as process:
        clock = Timer(seconds, process.kill)
        clock.daemon = True
        clock.start()
        try:
            yield process
        finally:
            clock.cancel()
            process.kill()
