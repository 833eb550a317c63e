"""Git's own files, read without git: where those of a work tree are, and what the user's configuration says.

Unlike git, we ask only the user's own configuration for `core.excludesFile`: a repository may come from
anywhere, and its configuration could name any file. Of that we ask for `core.ignoreCase` alone, and its
`gitdir:` and `commondir` are followed for `info/exclude`, and for what tells of another commit.
"""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MAX_DEPTH: Final = 10  # git's own limit for includes of configuration files
_MAX_FILES: Final = 256
_TRUE: Final = frozenset({"true", "yes", "on", "1"})


@dataclass(frozen=True, slots=True)
class Repository:
    """A git work tree and where its files are (worktrees share some with others)."""

    top: str
    own: str
    common: str

    @property
    def ignores_case(self) -> bool:
        """True if git ignores the case of names here, as on the usual disks of macOS."""
        users = (
            entry for file in _user_configurations() for entry in _configured(file)
        )
        own = _settings(
            read_text(os.path.join(self.common, "config"), within=None).text or ""
        )
        said = [value for key, value in (*users, *own) if key == "core.ignorecase"]
        return bool(said) and said[-1].lower() in _TRUE


def find_repository(directory: str) -> Repository | None:
    """The work tree that holds a directory: the nearest `.git` going up."""
    for top in (directory, *map(str, Path(directory).parents)):
        git = os.path.join(top, ".git")
        if os.path.isfile(git):
            git = os.path.join(top, _pointer(git, "gitdir:") or ".git")
        if os.path.isdir(git):
            return Repository(
                top, git, os.path.join(git, _pointer(os.path.join(git, "commondir")))
            )
    return None


def _pointer(path: str, label: str = "") -> str:
    """The path that a one-line file of git names; empty if it names none."""
    line = (read_text(path, within=None).text or "").rstrip("\r\n")
    return line.removeprefix(label).strip() if line.startswith(label) else ""


def repository_files(root: Path) -> tuple[str, ...]:
    """Git's own files that tell of another commit, or of other rules."""
    repository = find_repository(os.path.realpath(root))
    if repository is None:
        return ()
    heads = (
        os.path.join(repository.own, name)
        for name in ("HEAD", os.path.join("logs", "HEAD"))
    )
    return (*heads, os.path.join(repository.common, "info", "exclude"))


def outer_rules(root: Path) -> tuple[str, ...]:
    """The ignore files outside the root that count in it, or would if they were there."""
    real = os.path.realpath(root)
    repository = find_repository(real)
    excludes = users_excludes(repository.top if repository else real)
    above = [] if repository is None else _down_to(repository.top, real)
    return (
        *(os.path.join(folder, ".gitignore") for folder in above),
        *([excludes] if excludes else []),
    )


def _down_to(top: str, below: str) -> list[str]:
    """The folders from the top of a work tree to above one of its folders."""
    names = [] if top == below else os.path.relpath(below, top).split(os.sep)
    return [os.path.join(top, *names[:depth]) for depth in range(len(names))]


def users_excludes(top: str) -> str:
    """The file with the user's own excludes for all repositories; empty where it is switched off."""
    path = _user_path("git", "ignore")
    for key, value in (
        entry for file in _user_configurations() for entry in _configured(file)
    ):
        if key == "core.excludesfile":
            path = os.path.expanduser(value)
    return os.path.join(top, path) if path else ""


def _user_configurations() -> Iterator[str]:
    if "GIT_CONFIG_GLOBAL" in os.environ:
        yield os.environ["GIT_CONFIG_GLOBAL"]
        return
    yield _user_path("git", "config")
    yield os.path.expanduser("~/.gitconfig")


def _user_path(*names: str) -> str:
    return os.path.join(
        os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), *names
    )


_SECTION = re.compile(r'\s*\[\s*([\w.-]+)\s*("(?:[^"\\]|\\.)*")?\s*\](.*)')
_SETTING = re.compile(r"\s*([A-Za-z][\w-]*)\s*=\s*(.*)")
_VALUE = re.compile(r'"((?:[^"\\]|\\.)*)"?|\\(.)|([#;].*)|([^"\\#;]+)')
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b"}


def _configured(path: str) -> Iterator[tuple[str, str]]:
    """The settings of a git configuration file and of the files it includes, as `section.key`.

    Lenient: lines that are no settings are passed over, and so are conditional includes and
    those beyond the limits.
    """
    return _unfolded(path, 0, iter(range(_MAX_FILES)))


def _unfolded(
    path: str, depth: int, allowance: Iterator[int]
) -> Iterator[tuple[str, str]]:
    """Yield the settings as `_configured` does; the allowance is one for all, and each file takes one from it."""
    if depth > _MAX_DEPTH or next(allowance, None) is None:
        return
    text = read_text(path, within=None).text
    if text is None:
        return
    for key, value in _settings(text):
        yield key, value
        if key == "include.path":
            included = os.path.join(os.path.dirname(path), os.path.expanduser(value))
            yield from _unfolded(included, depth + 1, allowance)


def _settings(text: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in text.removeprefix("\ufeff").replace("\\\n", "").splitlines():
        header = _SECTION.match(line)
        if header:
            section = header[1].lower() + (header[2] or "")
            line = header[3]
        setting = _SETTING.match(line)
        if setting:
            yield f"{section}.{setting[1].lower()}", _value(setting[2])


def _value(raw: str) -> str:
    """A value without its quotes, escapes and comment; blanks at its end count only in quotes."""
    value = ""
    kept = 0  # how much of the value no trimming may touch
    for quoted, escaped, comment, plain in _VALUE.findall(raw):
        if comment:
            break
        value += plain or _ESCAPES.get(escaped, escaped) or _unescaped(quoted)
        kept = kept if plain else len(value)
    return value[:kept] + value[kept:].rstrip()


def _unescaped(quoted: str) -> str:
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted)


# People write these; a bigger one was generated by accident or malice.
_MAX_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Content:
    """The text of a file; None if there is no such file, or one that cannot be used and why."""

    text: str | None = None
    problem: str = ""


_ABSENT = Content()


def read_text(path: str, within: str | None, *, follow: bool = True) -> Content:
    """Read a small text file; `within` is the real directory that a link must not lead out of."""
    if not os.path.lexists(path):  # as in most directories: not worth resolving links
        return _ABSENT
    if not follow and os.path.islink(path):
        return Content(problem="is a link, which git does not follow")
    try:
        real = os.path.realpath(path, strict=True)
        if within is not None and not is_inside(real, within):
            return Content(problem="leads out of the root")
        if not stat.S_ISREG(os.stat(real).st_mode):
            return _ABSENT
        with open(real, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return Content(problem="is a broken link")
    except OSError as error:
        return Content(problem=f"cannot be read: {error.strerror}")
    return _decoded(data)


def _decoded(data: bytes) -> Content:
    if len(data) > _MAX_BYTES:
        return Content(problem=f"is larger than {_MAX_BYTES:,} bytes")
    if b"\0" in data:
        return Content(problem="is binary")
    # As os.fsdecode decodes names, so that a pattern in another encoding still meets its file.
    return Content(data.decode("utf-8", "surrogateescape"))


def is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(os.path.join(directory, ""))
