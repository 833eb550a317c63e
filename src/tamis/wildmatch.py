"""One glob of an ignore file as a regular expression: git's `wildmatch.c` with WM_PATHNAME, oddities and all.

Plain translation (`*` to `[^/]*`) takes n to the power of k steps for k stars. But what stands between two
stars has a fixed length, so its leftmost match is as good as any, and need not be given up once found: an
atomic group holds it. The same is true one floor up of the directories between two `**`. Nothing backtracks
but the last piece of each, so a match is a bounded number of scans.

A byte is one character here, as in `tamis.gitignore`. Where git does not regard the case (`core.ignoreCase`),
a name is matched in lower case against the glob that `folded` gives.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import groupby

SPECIAL = re.compile(r"[*?\[\\]")

# Compiled patterns shared: many directories have the same few lines. What a list needs
# again, it keeps itself.
_SHARED = 1_024

# Twice the longest path: a longer glob is an attack on the compiler, not on a name.
_LONGEST = 8_192

_SLASH = ord("/")

# Git's own tables, ASCII whatever the locale; its white space has no \v and no \f.
_POSIX_CLASSES: dict[str, frozenset[int]] = {
    "alnum": frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
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


_LOWER = {capital: capital + 32 for capital in range(65, 91)}  # of ASCII alone: these are bytes


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


def _element(glob: str, at: int, low: int | None) -> tuple[Iterable[int], int | None, int] | None:
    """One element of a bracket expression: its bytes, what may start a range, where it ends."""
    if at >= len(glob):
        return None
    if glob[at] == "-" and low is not None and at + 1 < len(glob) and glob[at + 1] != "]":
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
    for _, run in groupby(enumerate(sorted(members)), key=lambda pair: pair[1] - pair[0]):
        values = [value for _, value in run]
        ranges.append(f"\\x{values[0]:02x}-\\x{values[-1]:02x}")
    return f"[{''.join(ranges)}]" if ranges else "(?!)"


def _expression(tokens: list[str]) -> str:
    """Runs of whole path segments, kept apart by what may cross slashes."""
    head, *runs = _split(tokens, (_DIRECTORIES, _ANYTHING))
    crossings = [token for token in tokens if token in (_DIRECTORIES, _ANYTHING)]
    pieces = [_crossing(crossing, run) for crossing, run in zip(crossings, runs, strict=True)]
    return _hold(_segments(head), pieces)


def _crossing(crossing: str, run: list[str]) -> str:
    if crossing == _DIRECTORIES:
        return "(?:[^/]*/)*?" + _segments(run)
    return "(?:[^/]*/)*?[^/]*" + _segments(run) if run else ".*"


def _segments(tokens: list[str]) -> str:
    return _SEPARATOR.join(_segment(segment) for segment in _split(tokens, (_SEPARATOR,)))


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
