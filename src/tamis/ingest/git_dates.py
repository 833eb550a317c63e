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
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO, Final

from tamis.gitignore.repository import repository_files
from tamis.ingest.walk import Entry

_SECONDS: Final = 10.0  # for the whole history: some 100,000 commits
_MOST_BYTES: Final = 512 * 2**20  # of what git says
_PORTION: Final = 2**16
_LATEST: Final = 2**40  # seconds; a commit may claim any time
_GIT: Final = (
    "git", "--no-pager", "--no-replace-objects",
    "-c", "core.fsmonitor=false",
    "-c", f"core.hooksPath={os.devnull}",
    "-c", "protocol.allow=never",
    "-c", "log.showSignature=false",
    "-c", "log.follow=false",
    "-c", "submodule.recurse=false",
)  # fmt: skip
# What a commit made of each file, by its content; of a merge, what is in none of its parents (-c).
_LOG: Final = (
    "log", "-z", "--raw", "-c", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv",
    "--no-show-signature", "--no-color", "--full-history", "--relative", "--format=tformat:%x01%ct",
)  # fmt: skip
# The list against the last commit, without a look at the files themselves.
_STAGED: Final = (
    "diff-index", "--cached", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=all",
    "--relative", "HEAD", "--", ".",
)  # fmt: skip
_LATE: Final = (
    "late "  # before an edition whose history took too long: it is not read again
)
_TRACKED: Final = re.compile(
    rb"(?P<mode>\d+) (?P<content>[0-9a-f]+) 0\t(?P<path>[^\0]+)\0\s+ctime: \S+\n"
    rb"\s+mtime: (?P<seconds>\d+):(?P<nanoseconds>\d+)\n[^\n]+\n[^\n]+\n\s+size: (?P<size>\d+)\t[^\n]*\n"
)


@dataclass(frozen=True, slots=True)
class Dates:
    """The commit dates of the files of a root."""

    times: Mapping[
        str, float
    ]  # of the last commit, in seconds, by path; of those that may need it
    moved: frozenset[str]  # unchanged files whose date in the index is no longer right
    edition: str = ""  # of what git knows: hand it in the next time
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Tracked:
    """The committed files of a folder, from git's own list."""

    files: Mapping[
        str, tuple[str, int, int]
    ]  # committed: content, size and mtime in nanoseconds, by path
    head: str
    edition: str  # the head, and what the list looks like

    def unmodified(self, entries: Iterable[Entry]) -> dict[str, str]:
        """The contents of files that are as git last saw them, by path."""
        known = ((entry, self.files.get(entry.path)) for entry in entries)
        return {
            entry.path: file[0]
            for entry, file in known
            if file and file[1:] == (entry.size, entry.mtime_ns)
        }


def commit_dates(
    root: Path,
    changed: Sequence[Entry],
    unchanged: Sequence[Entry],
    known: Callable[[], Mapping[str, float]],
    before: str,
) -> Dates:
    """The commit times of changed files, and of unchanged ones that have moved since the edition `before`.

    `known` reads the dates that the index has: thousands, and seldom needed.
    """
    git = tracked(root)
    if git is None:
        # Also those that had git's date before.
        return Dates({}, _moved(unchanged, known(), {}) if before else frozenset())
    late = before == f"{_LATE}{git.edition}"
    is_seen = late or before == git.edition
    dates = {} if is_seen else known()
    again = [] if is_seen else _again(root, git, unchanged, dates, before)
    wanted = {} if late else git.unmodified([*changed, *again])
    times = commit_times(root, wanted) if wanted else {}
    if times is None:
        warning = (
            "git's history took too long to read: files are dated by their own times"
        )
        return Dates({}, _moved(again, dates, {}), f"{_LATE}{git.edition}", warning)
    return Dates(times, _moved(again, dates, times), before if late else git.edition)


def _again(
    root: Path,
    git: Tracked,
    unchanged: Sequence[Entry],
    known: Mapping[str, float],
    before: str,
) -> list[Entry]:
    """Unchanged files whose date may not be right any more.

    Git may have come to see a file as it is, or no longer do so; for one that it saw all the time the
    date can only have moved with a commit that one of the two heads has and the other has not. (A
    document that states its own date would otherwise be read again after every commit.)
    """
    clean = git.unmodified(unchanged)
    between = _touched_between(root, before.partition(" ")[0], git.head)
    return [
        entry
        for entry in unchanged
        if (known.get(entry.path) == _own_time(entry)) == (entry.path in clean)
        or (entry.path in clean and (between is None or entry.path in between))
    ]


def _moved(
    again: Sequence[Entry], known: Mapping[str, float], times: Mapping[str, float]
) -> frozenset[str]:
    return frozenset(
        entry.path
        for entry in again
        if known.get(entry.path) != times.get(entry.path, _own_time(entry))
    )


def _own_time(entry: Entry) -> float:
    return entry.mtime_ns / 1e9


def tracked(root: Path) -> Tracked | None:
    """The files below the root that git tracks; None where it tracks none, or cannot be asked."""
    if not repository_files(root):  # far cheaper than asking git
        return None
    listing = _said(root, ("ls-files", "-z", "--stage", "--debug"))
    found = (
        _said(root, ("rev-parse", "--verify", "--quiet", "HEAD")) if listing else None
    )
    if not listing or not found:
        return None
    head = found.decode("ascii", "replace").strip()
    staged = set(map(os.fsdecode, (_said(root, _STAGED) or b"").split(b"\0")))
    files = {path: file for path, file in _files(listing) if path not in staged}
    return Tracked(
        files, head, f"{head} {hashlib.blake2b(listing, digest_size=16).hexdigest()}"
    )


def _files(listing: bytes) -> Iterator[tuple[str, tuple[str, int, int]]]:
    for found in _TRACKED.finditer(listing):
        stamp = int(found["seconds"]) * 10**9 + int(found["nanoseconds"])
        if found["mode"].startswith(
            b"100"
        ):  # a regular file: neither a link nor another repository
            yield (
                os.fsdecode(found["path"]),
                (found["content"].decode(), int(found["size"]), stamp),
            )


def commit_times(
    root: Path, wanted: Mapping[str, str], seconds: float = _SECONDS
) -> dict[str, float] | None:
    """Return when each file got its content, as far as the history goes; None if that takes too long.

    Newest first, so that a file that got the same content twice has the later time, and files that
    were committed lately are found at once.
    """
    times: dict[str, float] = {}
    with _running(root, (*_LOG, "HEAD", "--", "."), seconds) as process:
        for path, content, time in _changes(_parts(process.stdout)):
            if wanted.get(path) == content:
                times.setdefault(path, time)
            if len(times) == len(wanted):
                return times
        return times if process.wait() == 0 else None


def _touched_between(root: Path, one: str, two: str) -> set[str] | None:
    """The files of all commits that one of the heads has and the other has not; None if that is unknown."""
    if not re.fullmatch(r"[0-9a-f]{40,64}", one):
        return None
    if one == two:
        return set()
    with _running(root, (*_LOG, f"{one}...{two}", "--", "."), _SECONDS) as process:
        paths = {path for path, _, _ in _changes(_parts(process.stdout))}
        return paths if process.wait() == 0 else None


def _changes(parts: Iterator[bytes]) -> Iterator[tuple[str, str, float]]:
    """`:100644 100644 1234 5678 M`, then a path; before them the time of their commit."""
    time = 0.0
    for part in parts:
        if part.startswith(b"\x01"):
            time = float(min(int(part[1:]), _LATEST)) if part[1:].isdigit() else 0.0
        elif fields := part.strip(b"\n").lstrip(b":").split(b" ")[-2:-1]:
            yield (
                os.fsdecode(next(parts, b"")),
                fields[0].decode("ascii", "replace"),
                time,
            )


def _parts(pipe: IO[bytes] | None) -> Iterator[bytes]:
    """Yield the parts between NULs."""
    rest = b""
    for portion in _portions(pipe):
        *whole, rest = (rest + portion).split(b"\0")
        yield from whole


def _portions(pipe: IO[bytes] | None) -> Iterator[bytes]:
    assert pipe is not None
    total = 0
    while total < _MOST_BYTES and (portion := pipe.read(_PORTION)):
        total += len(portion)
        yield portion


def _said(root: Path, arguments: Sequence[str]) -> bytes | None:
    """All that git says; None where it fails, takes too long, or is not there."""
    try:
        with _running(root, arguments, _SECONDS) as process:
            said = b"".join(_portions(process.stdout))
            return said if process.wait() == 0 else None
    except OSError:
        return None


@contextmanager
def _running(
    root: Path, arguments: Sequence[str], seconds: float
) -> Iterator[subprocess.Popen[bytes]]:
    """Git at work, in a process group of its own: Ctrl-C is for us to answer. Too slow, it is killed."""
    command = [*_GIT, "-C", str(root), *arguments]
    nothing, pipe = subprocess.DEVNULL, subprocess.PIPE
    process = subprocess.Popen(
        command,
        env=_environment(),
        stdin=nothing,
        stdout=pipe,
        stderr=nothing,
        process_group=0,
    )
    clock = Timer(seconds, process.kill)
    clock.daemon = True
    clock.start()
    try:
        yield process
    finally:
        clock.cancel()
        process.kill()
        if process.stdout is not None:
            process.stdout.close()
        process.wait()


def _environment() -> dict[str, str]:
    """Ours, without what would send git to another repository; no locks, no questions, no network."""
    ours = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_")
    }
    return ours | {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "LC_ALL": "C",
    }
