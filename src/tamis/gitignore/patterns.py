"""Gitignore patterns: what a line means and which of many lines decides.

Pure: text in, verdicts out, nothing is read from disk. The promise is git's own
behaviour (`dir.c` and `wildmatch.c` with WM_PATHNAME), oddities included, held
by a differential test against `git check-ignore`. No pattern, however many stars
it has, makes a match explode. Which files hold patterns, and in which order they
count, is left to `tamis.gitignore.rules`.

Git matches bytes, so `?` stands for one byte of a UTF-8 name, not one
character. Here a byte is one character of a Latin-1 string: `re` stays usable,
offsets are git's, and names that are no UTF-8 (surrogates from `os.fsdecode`)
match like any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import groupby

_WILD = re.compile(
    r"\\.|\[.*|[*?\\]", re.DOTALL
)  # an escape, a bracket and what follows, a star


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of an ignore file."""

    text: str  # as written, without the line end and the spaces git drops
    negated: bool
    directory_only: bool
    anchored: bool  # matched against the whole path, not against its last name
    glob: str  # what is left to match, one character a byte

    def matches(self, path: str, is_dir: bool) -> bool:
        """Return True if the pattern matches a path, relative to the pattern's own directory."""
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
    _selected: dict[str, bool] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        numbered = tuple(enumerate(self.patterns))
        for_files = [
            (at, pattern) for at, pattern in numbered if not pattern.directory_only
        ]
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
        """Return True if the list, read as an ignore file at the root, takes this file.

        As in git, a selected directory takes everything below it, and no
        negated pattern brings a file below it back.
        """
        return self._selects_directory(path.rpartition("/")[0]) or self._selects_entry(
            path, is_dir=False
        )

    def _selects_directory(self, directory: str) -> bool:
        known = self._selected.get(directory)
        if known is None:
            known = any(
                self._selects_entry(above, is_dir=True)
                for above in _directories_down_to(directory)
            )
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
    """Return True if a slash ties the pattern to its directory, and the glob without the leading one."""
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
    """Tables that find the last pattern that matches without trying them all.

    Literal names, literal paths and `*suffix` are table look-ups that hold the
    last position of each; only true globs whose literal start fits are matched.
    Every file of a tree comes through here at every look, and most match nothing.
    """

    names: dict[str, int]
    suffixes: dict[
        str, list[tuple[int, dict[str, int]]]
    ]  # by their last character, then by length
    name_globs: _Globs
    loose_names: list[_Glob]  # those of them that begin with a wildcard, last first
    paths: dict[str, int]
    path_globs: _Globs

    def last_match(self, folder: str, name: str) -> int | None:
        best = self.names.get(name, -1)
        for length, positions in self.suffixes.get(
            name[-1:], ()
        ):  # a name that is shorter equals none
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
        """The text in every name that matches: looking for it is far cheaper than matching."""
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
        if (
            glob.piece in subject
            and glob.regex is not None
            and glob.regex.fullmatch(subject)
        ):
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
            (path_globs if pattern.anchored else name_globs).append(
                _Glob(position, glob, folds)
            )
    by_start = _by_start(name_globs)
    loose = [glob for _, starts in by_start.get("", ()) for glob in starts[""]]
    return _Index(
        names, _by_end(suffixes), by_start, loose, paths, _by_start(path_globs)
    )


def _by_end(
    suffixes: dict[int, dict[str, int]],
) -> dict[str, list[tuple[int, dict[str, int]]]]:
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
        tables.setdefault(start[:1], {}).setdefault(len(start), {}).setdefault(
            start, []
        ).append(glob)
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
    """Return the end of a name, if that is all the glob asks (`*.py`)."""
    rest = glob.lstrip("*")
    return rest if rest != glob and SPECIAL.search(rest) is None else None


SPECIAL = re.compile(r"[*?\[\\]")

# Compiled patterns shared: many directories have the same few lines. What a list needs
# again, it keeps itself.
_SHARED = 1_024

# Twice the longest path: a longer glob is an attack on the compiler, not on a name.
_LONGEST = 8_192

_SLASH = ord("/")

# Git's own tables, ASCII whatever the locale; its white space has no \v and no \f.
_POSIX_CLASSES: dict[str, frozenset[int]] = {
    "alnum": frozenset(
        b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    ),
    "alpha": frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "blank": frozenset(b" \t"),
    "cntrl": frozenset([*range(0x20), 0x7F]),
    "digit": frozenset(b"0123456789"),
    "graph": frozenset(range(0x21, 0x7F)),
    "lower": frozenset(b"abcdefghijklmnopqrstuvwxyz"),
    "print": frozenset(range(0x20, 0x7F)),
    "punct": frozenset(b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    "space": frozenset(b" \t\n\r"),
    "upper": frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "xdigit": frozenset(b"0123456789abcdefABCDEF"),
}

_ANY = "[^/]"
_STAR = "*"
_DIRECTORIES = "**/"  # any number of directories, none included
_ANYTHING = "**"  # any bytes, slashes included
_SEPARATOR = "/"


@lru_cache(maxsize=_SHARED)
def regex_of(glob: str, *, folds: bool = False) -> re.Pattern[str] | None:
    """The glob as a regular expression, None if it never matches (to git, a malformed one does not)."""
    if len(glob) > _LONGEST:
        return None
    start = literal_length(glob)
    # Git compares the literal start by itself and matches only the rest, which therefore
    # begins like a pattern: in `lib/a**/b` the stars do cross slashes, though by the
    # manual they should not, and `lib/ab` matches as well.
    tokens = _tokens(glob[start:], folds)
    if tokens is None:
        return None
    return re.compile(re.escape(glob[:start]) + _expression(tokens), re.DOTALL)


_LOWER = {
    capital: capital + 32 for capital in range(65, 91)
}  # of ASCII alone: these are bytes


def lower(text: str) -> str:
    return text.translate(_LOWER)


def folded(glob: str) -> str:
    """The glob in lower case, but for brackets and what is escaped."""
    parts: list[str] = []
    at = 0
    while at < len(glob):
        end = at + 1
        if glob[at] in "[\\":
            token = _token(glob, at, True)
            if token is None:
                return glob  # malformed: it matches nothing
            end = token[1]
        parts.append(glob[at:end] if end > at + 1 else lower(glob[at]))
        at = end
    return "".join(parts)


def _tokens(glob: str, folds: bool) -> list[str] | None:
    """Stars and separators by the names above, every other token as an expression for one byte."""
    tokens: list[str] = []
    at = 0
    while at < len(glob):
        token_end = _token(glob, at, folds)
        if token_end is None:
            return None
        token, at = token_end
        tokens.append(token)
    return tokens


def _token(glob: str, at: int, folds: bool) -> tuple[str, int] | None:
    """The token that starts here and where it ends; None if it is malformed."""
    match glob[at]:
        case "*":
            return _stars(glob, at)
        case "?":
            return _ANY, at + 1
        case "[":
            return _bracket(glob, at + 1, folds)
        case "\\":
            return (_one(glob[at + 1]), at + 2) if at + 1 < len(glob) else None
        case character:
            return _one(character), at + 1


def _one(character: str) -> str:
    return _SEPARATOR if character == "/" else re.escape(character)


def _stars(glob: str, at: int) -> tuple[str, int]:
    end = at
    while glob.startswith("*", end):
        end += 1
    opens = at == 0 or glob[at - 1] == "/"
    if end - at == 1 or not opens:
        return _STAR, end
    if glob.startswith("/", end):
        return _DIRECTORIES, end + 1
    closes = end == len(glob) or glob.startswith("\\/", end)
    return (_ANYTHING if closes else _STAR), end


def _bracket(glob: str, at: int, folds: bool) -> tuple[str, int] | None:
    """A bracket expression from behind its `[`; None if it never ends or names an unknown class.

    Of one that folds, ranges and classes hold the small letters to their capitals, and a single capital
    stands for nothing: git compares a small letter with it.
    """
    negated = glob.startswith(("!", "^"), at)
    at += negated
    members: set[int] = set()
    low: int | None = None  # what a `-` that comes next would range from
    first = True
    while first or not glob.startswith("]", at):
        element = _element(glob, at, low)
        if element is None:
            return None
        found, low, at = element
        members.update(found)
        if folds and not isinstance(found, tuple):
            members.update(value + 32 for value in found if 65 <= value <= 90)
        first = False
    chosen = frozenset(range(256)) - members if negated else members
    return _one_of(chosen - {_SLASH}), at + 1


def _element(
    glob: str, at: int, low: int | None
) -> tuple[Iterable[int], int | None, int] | None:
    """One element of a bracket expression: its bytes, what may start a range, where it ends."""
    if at >= len(glob):
        return None
    if (
        glob[at] == "-"
        and low is not None
        and at + 1 < len(glob)
        and glob[at + 1] != "]"
    ):
        high = _member(glob, at + 1)
        return None if high is None else (range(low, high[0] + 1), None, high[1])
    if glob.startswith("[:", at):
        end = glob.find("]", at + 2)
        if end == -1:
            return None
        if end > at + 2 and glob[end - 1] == ":":
            named = _POSIX_CLASSES.get(glob[at + 2 : end - 1])
            return None if named is None else (named, None, end + 1)
    member = _member(glob, at)
    return None if member is None else ((member[0],), member[0], member[1])


def _member(glob: str, at: int) -> tuple[int, int] | None:
    """One byte of a bracket expression, escaped or not, and where it ends."""
    at += glob.startswith("\\", at)
    return (ord(glob[at]), at + 1) if at < len(glob) else None


def _one_of(members: Iterable[int]) -> str:
    """An expression for one of these bytes; one that never matches for none."""
    ranges = []
    for _, run in groupby(
        enumerate(sorted(members)), key=lambda pair: pair[1] - pair[0]
    ):
        values = [value for _, value in run]
        ranges.append(f"\\x{values[0]:02x}-\\x{values[-1]:02x}")
    return f"[{''.join(ranges)}]" if ranges else "(?!)"


def _expression(tokens: list[str]) -> str:
    """Runs of whole path segments, kept apart by what may cross slashes."""
    head, *runs = _split(tokens, (_DIRECTORIES, _ANYTHING))
    crossings = [token for token in tokens if token in (_DIRECTORIES, _ANYTHING)]
    pieces = [
        _crossing(crossing, run) for crossing, run in zip(crossings, runs, strict=True)
    ]
    return _hold(_segments(head), pieces)


def _crossing(crossing: str, run: list[str]) -> str:
    if crossing == _DIRECTORIES:
        return "(?:[^/]*/)*?" + _segments(run)
    return "(?:[^/]*/)*?[^/]*" + _segments(run) if run else ".*"


def _segments(tokens: list[str]) -> str:
    return _SEPARATOR.join(
        _segment(segment) for segment in _split(tokens, (_SEPARATOR,))
    )


def _segment(tokens: list[str]) -> str:
    head, *pieces = ("".join(piece) for piece in _split(tokens, (_STAR,)))
    return _hold(head, [f"[^/]*?{piece}" for piece in pieces])


def _hold(head: str, pieces: list[str]) -> str:
    """Each piece stays at its leftmost match but the last, which what follows ties to an end."""
    if not pieces:
        return head
    return head + "".join(f"(?>{piece})" for piece in pieces[:-1]) + pieces[-1]


def _split(tokens: list[str], separators: tuple[str, ...]) -> list[list[str]]:
    runs: list[list[str]] = [[]]
    for token in tokens:
        if token in separators:
            runs.append([])
        else:
            runs[-1].append(token)
    return runs


def literal_length(glob: str) -> int:
    special = SPECIAL.search(glob)
    return len(glob) if special is None else special.start()
