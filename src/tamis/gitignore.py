"""Gitignore patterns: what a line means and which of many lines decides.

Pure: text in, verdicts out, nothing is read from disk. The promise is git's own
behaviour (`dir.c` and `wildmatch.c` with WM_PATHNAME), oddities included, held
by a differential test against `git check-ignore`. No pattern, however many stars
it has, makes a match explode. Which files hold patterns, and in which order they
count, is left to `tamis.ingest.ignore`.

Git matches bytes, so `?` stands for one byte of a UTF-8 name, not one
character. Here a byte is one character of a Latin-1 string: `re` stays usable,
offsets are git's, and names that are no UTF-8 (surrogates from `os.fsdecode`)
match like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tamis.wildmatch import SPECIAL, folded, literal_length, lower, regex_of

_WILD = re.compile(r"\\.|\[.*|[*?\\]", re.DOTALL)  # an escape, a bracket and what follows, a star


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an ignore file."""

    text: str  # as written, without the line end and the spaces git drops
    negated: bool
    directory_only: bool
    anchored: bool  # matched against the whole path, not against its last name
    glob: str  # what is left to match, one character a byte

    def matches(self, path: str, is_dir: bool) -> bool:
        """Whether the pattern names this path, relative to the pattern's own directory."""
        if self.directory_only and not is_dir:
            return False
        subject = _as_bytes(path)
        if not self.anchored:
            subject = _last_name(subject)
        regex = regex_of(self.glob)
        return regex is not None and regex.fullmatch(subject) is not None


def parse_line(line: str) -> Pattern | None:
    """The pattern on a line, or None where git sees none that could match (blank, comment, `!`, `/`)."""
    text = _without_trailing_spaces(_without_line_end(line))
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    body = text[1:] if negated else text
    directory_only = body.endswith("/")
    glob = body[:-1] if directory_only else body
    if not glob:
        return None
    anchored, glob = _anchoring(_as_bytes(glob))
    return Pattern(text, negated, directory_only, anchored, glob)


def parse_lines(text: str) -> Iterator[tuple[int, Pattern]]:
    """The patterns of an ignore file with their line numbers, from 1."""
    # Not splitlines(): git knows one line end, and a name may hold the others.
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        pattern = parse_line(line)
        if pattern is not None:
            yield number, pattern


@dataclass(frozen=True, slots=True)
class PatternList:
    """Patterns of one directory, in the order of their lines; the last that matches decides."""

    patterns: tuple[Pattern, ...]
    folds: bool = False  # the case of names does not count
    _for_files: _Index = field(init=False, repr=False, compare=False)
    _for_directories: _Index = field(init=False, repr=False, compare=False)
    # Directory -> whether it or a directory above it is selected.
    _selected: dict[str, bool] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        numbered = tuple(enumerate(self.patterns))
        for_files = [(at, pattern) for at, pattern in numbered if not pattern.directory_only]
        object.__setattr__(self, "_for_directories", _index(numbered, self.folds))
        object.__setattr__(self, "_for_files", _index(for_files, self.folds))

    @classmethod
    def of(cls, lines: Iterable[str]) -> PatternList:
        """The list a user gave; ValueError where an entry holds no pattern."""
        return cls(tuple(_user_pattern(line) for line in lines))

    def decide(self, path: str, is_dir: bool) -> int | None:
        """The position of the pattern that decides on this path, None when none speaks.

        The path alone is judged, not the directories above it.
        """
        folder, slash, name = path.rpartition("/")
        return self.decide_entry(folder + slash, name, is_dir)

    def decide_entry(self, folder: str, name: str, is_dir: bool) -> int | None:
        """The same for what has this name in a directory: empty, or `docs/api/`."""
        index = self._for_directories if is_dir else self._for_files
        if self.folds:
            folder, name = lower(folder), lower(name)
        return index.last_match(folder, name if name.isascii() else _as_bytes(name))

    def selects(self, path: str) -> bool:
        """Whether the list, read as an ignore file at the root, takes this file.

        As in git, a selected directory takes everything below it, and no
        negated pattern brings a file below it back.
        """
        return self._selects_directory(path.rpartition("/")[0]) or self._selects_entry(path, is_dir=False)

    def _selects_directory(self, directory: str) -> bool:
        known = self._selected.get(directory)
        if known is None:
            known = any(self._selects_entry(above, is_dir=True) for above in _directories_down_to(directory))
            self._selected[directory] = known
        return known

    def _selects_entry(self, path: str, is_dir: bool) -> bool:
        position = self.decide(path, is_dir)
        return position is not None and not self.patterns[position].negated


def _user_pattern(line: str) -> Pattern:
    if "\n" in line:
        raise ValueError(f"a pattern is one line, and this one has several: {line!r}")
    pattern = parse_line(line)
    if pattern is None:
        raise ValueError(f"not a pattern (empty, blank or a comment): {line!r}")
    return pattern


def _directories_down_to(directory: str) -> Iterator[str]:
    """`a`, `a/b`, `a/b/c` for `a/b/c`; nothing for the root."""
    end = directory.find("/")
    while end != -1:
        yield directory[:end]
        end = directory.find("/", end + 1)
    if directory:
        yield directory


# --- Lines -------------------------------------------------------------------


def _without_line_end(line: str) -> str:
    # Git keeps patterns as C strings: a NUL ends one.
    return line.removesuffix("\n").removesuffix("\r").partition("\0")[0]


def _without_trailing_spaces(line: str) -> str:
    """Git drops trailing spaces (no tabs) up to the last escaped one."""
    bare = line.rstrip(" ")
    backslashes = len(bare) - len(bare.rstrip("\\"))
    escaped = backslashes % 2 == 1
    return line[: len(bare) + escaped]


def _anchoring(glob: str) -> tuple[bool, str]:
    """Whether a slash ties the pattern to its directory, and the glob without the leading one."""
    if "/" not in glob:
        return False, glob
    glob = glob.removeprefix("/")
    stars, slash, name = glob.partition("/")
    if slash and len(stars) > 1 and not stars.strip("*") and "/" not in name:
        # `**/name` is `name`, and a bare name can be looked up without matching.
        return False, name
    return True, glob


def _as_bytes(text: str) -> str:
    """The bytes of a name, one character each."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("latin-1")
    except UnicodeEncodeError:  # half a pair, which no name on a POSIX disk decodes to
        return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _last_name(path: str) -> str:
    return path[path.rfind("/") + 1 :]


# --- Many patterns: tables for what needs no matching ---------------------------


@dataclass(frozen=True, slots=True)
class _Index:
    """Where to look for the last pattern that matches, without trying them all.

    Literal names, literal paths and `*suffix` are table look-ups that hold the
    last position of each; only true globs whose literal start fits are matched.
    Every file of a tree comes through here at every look, and most match nothing.
    """

    names: dict[str, int]
    suffixes: dict[str, list[tuple[int, dict[str, int]]]]  # by their last character, then by length
    name_globs: _Globs
    loose_names: list[_Glob]  # those of them that begin with a wildcard, last first
    paths: dict[str, int]
    path_globs: _Globs

    def last_match(self, folder: str, name: str) -> int | None:
        best = self.names.get(name, -1)
        for length, positions in self.suffixes.get(name[-1:], ()):  # a name that is shorter equals none
            best = max(best, positions.get(name[-length:], -1))
        for length, starts in self.name_globs.get(name[:1], ()):
            best = _last_glob(starts.get(name[:length], ()), name, best)
        for glob in self.loose_names:
            if glob.piece in name:
                best = _last_glob(self.loose_names, name, best)
                break
        if self.paths or self.path_globs:
            best = self._last_path(_as_bytes(folder) + name, best)
        return None if best < 0 else best

    def _last_path(self, path: str, best: int) -> int:
        best = max(best, self.paths.get(path, -1))
        for first in ("", path[:1]):
            for length, starts in self.path_globs.get(first, ()):
                best = _last_glob(starts.get(path[:length], ()), path, best)
        return best


@dataclass(frozen=True)
class _Glob:
    """A glob at its position, compiled when the first name gets as far."""

    position: int
    text: str
    folds: bool

    @cached_property
    def piece(self) -> str:
        """What is in every name that matches: looking for it is far cheaper than matching."""
        if "/" in self.text:  # `**/x` matches `x`, where its slash is not
            return ""
        return max(_WILD.split(self.text), key=len)

    @cached_property
    def regex(self) -> re.Pattern[str] | None:
        return regex_of(self.text, folds=self.folds)


# The first character of a glob, empty where it is a wildcard -> length of its literal start -> the start
# -> the globs that have it, last first.
_Globs = dict[str, list[tuple[int, dict[str, list[_Glob]]]]]


def _last_glob(globs: Sequence[_Glob], subject: str, best: int) -> int:
    """The last position above `best` whose glob matches, or `best`."""
    for glob in globs:
        if glob.position <= best:
            break
        if glob.piece in subject and glob.regex is not None and glob.regex.fullmatch(subject):
            return glob.position
    return best


def _index(patterns: Iterable[tuple[int, Pattern]], folds: bool) -> _Index:
    names: dict[str, int] = {}
    paths: dict[str, int] = {}
    suffixes: dict[int, dict[str, int]] = {}
    name_globs: list[_Glob] = []
    path_globs: list[_Glob] = []
    for position, pattern in patterns:
        glob = folded(pattern.glob) if folds else pattern.glob
        literal = _literal(glob)
        suffix = None if pattern.anchored else _suffix(glob)
        if literal is not None:
            (paths if pattern.anchored else names)[literal] = position
        elif suffix:
            suffixes.setdefault(len(suffix), {})[suffix] = position
        else:
            (path_globs if pattern.anchored else name_globs).append(_Glob(position, glob, folds))
    by_start = _by_start(name_globs)
    loose = [glob for _, starts in by_start.get("", ()) for glob in starts[""]]
    return _Index(names, _by_end(suffixes), by_start, loose, paths, _by_start(path_globs))


def _by_end(suffixes: dict[int, dict[str, int]]) -> dict[str, list[tuple[int, dict[str, int]]]]:
    """Most names end in a character that few suffixes, or none, have."""
    tables: dict[str, dict[int, dict[str, int]]] = {}
    for length, positions in suffixes.items():
        for suffix, position in positions.items():
            tables.setdefault(suffix[-1], {}).setdefault(length, {})[suffix] = position
    return {end: list(by_length.items()) for end, by_length in tables.items()}


def _by_start(globs: list[_Glob]) -> _Globs:
    tables: dict[str, dict[int, dict[str, list[_Glob]]]] = {}
    for glob in reversed(globs):
        start = glob.text[: literal_length(glob.text)]
        tables.setdefault(start[:1], {}).setdefault(len(start), {}).setdefault(start, []).append(glob)
    return {first: list(by_length.items()) for first, by_length in tables.items()}


def _literal(glob: str) -> str | None:
    """The one string the glob stands for, if it has no wildcard."""
    if SPECIAL.search(glob) is None:
        return glob
    characters = re.findall(r"\\.|[^*?\[\\]", glob, re.DOTALL)
    if sum(map(len, characters)) != len(glob):
        return None
    return "".join(character[-1] for character in characters)


def _suffix(glob: str) -> str | None:
    """What a name ends with, if that is all the glob asks (`*.py`)."""
    rest = glob.lstrip("*")
    return rest if rest != glob and SPECIAL.search(rest) is None else None
