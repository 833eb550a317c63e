"""Gitignore patterns: the meaning of a line, and which of many lines decides.

Pure: text in, verdicts out, nothing is read from disk. Patterns behave as in git (`dir.c`, and
`wildmatch.c` with WM_PATHNAME), oddities included; a differential test against
`git check-ignore` holds that. However many stars a pattern has, matching takes no exponential
time. `tamis.gitignore.rules` knows which files hold patterns, and in which order they count.

Git matches bytes, so `?` matches one byte of a UTF-8 name, not one character. Here a byte is one
character of a Latin-1 string, so `re` can be used, and names that are not UTF-8 (surrogates from
`os.fsdecode`) match like any other.
"""

import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import accumulate, groupby
from typing import NamedTuple

SPECIAL = re.compile(r"[*?\[\\]")
_ANYWHERE = re.compile(r"\*{2,}/([^/]*)", re.DOTALL)


class Pattern(NamedTuple):
    """One line of an ignore file."""

    text: str  # as written, without the line end and the spaces that git drops
    negated: bool
    directory_only: bool
    anchored: bool  # matched against the whole path, not against its last name
    glob: str  # the rest, one character a byte


def parse_line(line: str) -> Pattern | None:
    """Return the pattern on a line; None for a blank line, a comment, and `!` or `/` alone."""
    # Git keeps patterns as C strings: a NUL ends one.
    line = line.removesuffix("\n").removesuffix("\r")
    text = line.split("\0")[0]
    # Git drops spaces (no tabs) from the end, up to the last escaped one.
    bare = text.rstrip(" ")
    backslashes = len(bare) - len(bare.rstrip("\\"))
    text = text[: len(bare) + backslashes % 2]
    body = text.removeprefix("!")
    glob = body.removesuffix("/")
    if not glob or text.startswith("#"):
        return None
    anchored = "/" in glob
    glob = as_bytes(glob).removeprefix("/")
    if anywhere := _ANYWHERE.fullmatch(glob):
        # `**/name` is `name`, and a bare name can be looked up without matching.
        anchored = False
        glob = anywhere[1]
    return Pattern(text, text.startswith("!"), body.endswith("/"), anchored, glob)


def parse_lines(text: str) -> Iterator[tuple[int, Pattern]]:
    """Yield the patterns of an ignore file with their line numbers, from 1."""
    # Not splitlines(): git knows one line end, and a name may hold the others.
    lines = text.removeprefix("\ufeff").split("\n")
    for number, line in enumerate(lines, start=1):
        pattern = parse_line(line)
        if pattern is not None:
            yield number, pattern


def as_bytes(text: str) -> str:
    """Return the bytes of a name, one character each."""
    if text.isascii():
        return text
    try:
        return text.encode("utf-8", "surrogateescape").decode("latin-1")
    except UnicodeEncodeError:  # half a pair: no name on a POSIX disk decodes to that
        return text.encode("utf-8", "surrogatepass").decode("latin-1")


@dataclass(frozen=True, slots=True)
class PatternList:
    """Patterns of one directory, in the order of their lines; the last that matches decides."""

    patterns: tuple[Pattern, ...]
    folds: bool = False  # True if the case of names does not count
    _for_files: "_Index" = field(init=False, repr=False, compare=False)
    _for_folders: "_Index" = field(init=False, repr=False, compare=False)
    # Known folders; True if the folder or one above it is selected.
    _selected: dict[str, bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        numbered = list(enumerate(self.patterns))
        for_files = [(at, each) for at, each in numbered if not each.directory_only]
        object.__setattr__(self, "_for_files", _Index(for_files, self.folds))
        object.__setattr__(self, "_for_folders", _Index(numbered, self.folds))
        object.__setattr__(self, "_selected", {"": False})

    @classmethod
    def of(cls, lines: Iterable[str]) -> "PatternList":
        """Return the list that a user gave; ValueError for an entry that is no pattern."""
        patterns = []
        for line in lines:
            pattern = parse_line(line)
            if "\n" in line:
                raise ValueError(f"a pattern is one line, not several: {line!r}")
            if pattern is None:
                raise ValueError(f"not a pattern (empty, blank or a comment): {line!r}")
            patterns.append(pattern)
        return cls(tuple(patterns))

    def decide(self, path: str, is_dir: bool) -> int | None:
        """Return the position of the last pattern that matches a path, None if none does.

        The folders above the path are not looked at.
        """
        folder, slash, name = path.rpartition("/")
        return self.decide_entry(folder + slash, name, is_dir)

    def decide_entry(
        self,
        folder: str,
        name: str,
        is_dir: bool,
    ) -> int | None:
        """Decide on a name in a folder, which is empty or ends in a slash."""
        index = self._for_folders if is_dir else self._for_files
        if self.folds:
            folder = folder.translate(_LOWER)
            name = name.translate(_LOWER)
        if not name.isascii():
            name = as_bytes(name)
        position = index.last_match(folder, name)
        if position < 0:
            return None
        return position

    def selects(self, path: str) -> bool:
        """Return True if the list, read as an ignore file at the root, matches this file.

        As in git, a selected folder takes everything below it, and no negated pattern brings a
        file below it back.
        """
        folder = path.rpartition("/")[0]
        if folder and folder not in self._selected:
            above = accumulate(folder.split("/"), "{}/{}".format)
            self._selected[folder] = any(self._takes(each, True) for each in above)
        return self._selected[folder] or self._takes(path, False)

    def _takes(self, path: str, is_dir: bool) -> bool:
        position = self.decide(path, is_dir)
        return position is not None and not self.patterns[position].negated


@dataclass
class _Glob:
    """A glob at its position, compiled when the first name gets that far."""

    position: int
    text: str
    folds: bool

    @cached_property
    def piece(self) -> str:
        """A text in every name that matches: searching for it is far cheaper than matching."""
        if "/" in self.text:  # `**/x` matches `x`, which has no slash
            return ""
        return max(_NOT_LITERAL.split(self.text), key=len)

    @cached_property
    def regex(self) -> re.Pattern[str] | None:
        return regex_of(self.text, self.folds)


# First character of a literal start (empty if a wildcard is first) -> its length -> the start ->
# its globs, last first.
_Globs = dict[str, dict[int, dict[str, list[_Glob]]]]
# An escape, a bracket and the rest after it, a wildcard.
_NOT_LITERAL = re.compile(r"\\.|\[.*|[*?\\]", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class _Index:
    """Tables that find the last pattern that matches without trying all of them.

    Literal names, literal paths and `*suffix` are looked up; only other globs whose literal start
    fits are matched. Every file of a tree comes through here whenever the tree is walked, and most
    match nothing.
    """

    def __init__(
        self,
        patterns: Sequence[tuple[int, Pattern]],
        folds: bool,
    ) -> None:
        self._names: dict[str, int] = {}
        self._paths: dict[str, int] = {}
        # Last character -> length -> suffix -> position.
        self._suffixes: dict[str, dict[int, dict[str, int]]] = {}
        # Globs of names that begin with a wildcard: no name can be ruled out by its start.
        self._loose: list[_Glob] = []
        self._name_globs: _Globs = {"": {0: {"": self._loose}}}
        self._path_globs: _Globs = {}
        for position, pattern in reversed(patterns):
            glob = pattern.glob
            if folds:
                glob = folded(glob)
            literals = self._names
            globs = self._name_globs
            if pattern.anchored:
                literals = self._paths
                globs = self._path_globs
            suffix = glob.lstrip("*")
            is_suffix = suffix not in ("", glob) and not SPECIAL.search(suffix)
            if not SPECIAL.search(_ESCAPED.sub("", glob)):
                literals.setdefault(_ESCAPED.sub(r"\1", glob), position)
            elif is_suffix and not pattern.anchored:
                suffixes = self._suffixes.setdefault(suffix[-1], {})
                suffixes.setdefault(len(suffix), {}).setdefault(suffix, position)
            else:
                start = literal_start(glob)
                by_length = globs.setdefault(start[:1], {})
                starts = by_length.setdefault(len(start), {})
                starts.setdefault(start, []).append(_Glob(position, glob, folds))

    def last_match(self, folder: str, name: str) -> int:
        """Return the position of the last pattern that matches, -1 if none does."""
        best = self._names.get(name, -1)
        if by_length := self._suffixes.get(name[-1:]):
            for length, positions in by_length.items():
                best = max(best, positions.get(name[-length:], -1))
        may_match = name[:1] in self._name_globs
        for glob in self._loose:
            may_match = may_match or glob.piece in name
        if may_match:
            best = _last_glob(self._name_globs, name, best)
        if self._paths or self._path_globs:
            path = as_bytes(folder) + name
            best = max(best, self._paths.get(path, -1))
            best = _last_glob(self._path_globs, path, best)
        return best


def _last_glob(globs: _Globs, subject: str, best: int) -> int:
    """Return the position of the last glob that matches, if it is above `best`, or `best`."""
    for first in ("", subject[:1]):
        if first not in globs:
            continue
        for length, starts in globs[first].items():
            for glob in starts.get(subject[:length], ()):
                if glob.position <= best:
                    break
                if glob.piece not in subject or glob.regex is None:
                    continue
                if glob.regex.fullmatch(subject):
                    best = glob.position
                    break
    return best


# --- globs as regular expressions ---------------------------------------------------------------

# Twice the longest path: a longer glob is an attack on the compiler, not a name.
_LONGEST = 8_192

# Git's own tables, ASCII whatever the locale; its white space has no \v and no \f.
_CLASSES: Mapping[str, Iterable[int]] = {
    "alnum": (string.ascii_letters + string.digits).encode(),
    "alpha": string.ascii_letters.encode(),
    "blank": b" \t",
    "cntrl": (*range(0x20), 0x7F),
    "digit": string.digits.encode(),
    "graph": range(0x21, 0x7F),
    "lower": string.ascii_lowercase.encode(),
    "print": range(0x20, 0x7F),
    "punct": string.punctuation.encode(),
    "space": b" \t\n\r",
    "upper": string.ascii_uppercase.encode(),
    "xdigit": string.hexdigits.encode(),
}
_CAPITALS = frozenset(string.ascii_uppercase.encode())
# Git knows the case of ASCII alone.
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

# Part of a bracket expression: a named class, or a byte, which may begin a range.
_PART = r"\[:([^\]]++)\](?<=:\])|(\\?.)(?:-(\\.|[^\]\\]))?"
_PARTS = re.compile(_PART, re.DOTALL)
_TOKEN = re.compile(
    rf"""
      (?P<folders> (?<![^/])\*{{2,}}/ )
    | (?P<anything> (?<![^/])\*{{2,}}(?=\\/|\Z) )
    | (?P<star> \*+ )
    | (?P<any> \? )
    | (?P<bracket> \[[!^]?+(?>{_PART})(?:(?!\])(?>{_PART}))*+\] )
    | (?P<byte> \\.|[^\\\[] )
    | (?P<malformed> . )
    """,
    re.DOTALL | re.VERBOSE,
)
# Tokens that are expanded later, as characters that are no bytes.
_STAR = "\u0100"
_FOLDERS = "\u0101"  # any number of folders, none included
_ANYTHING = "\u0102"  # any bytes, slashes included
_CROSSING = re.compile(f"([{_FOLDERS}{_ANYTHING}])")
_EXPRESSIONS = {
    "folders": _FOLDERS,
    "anything": _ANYTHING,
    "star": _STAR,
    "any": r"[^\x2f]",
}


def literal_start(glob: str) -> str:
    """Return the glob up to its first wildcard or escape."""
    return SPECIAL.split(glob, maxsplit=1)[0]


def folded(glob: str) -> str:
    """Return the glob in lower case, but for brackets and escaped bytes."""
    parts = []
    for token in _TOKEN.finditer(glob):
        text = token[0]
        if token.lastgroup == "malformed":
            return glob  # it matches nothing
        if text[0] not in "[\\":
            text = text.translate(_LOWER)
        parts.append(text)
    return "".join(parts)


@lru_cache(maxsize=1_024)  # many folders have the same few lines
def regex_of(glob: str, folds: bool = False) -> re.Pattern[str] | None:
    """Return the glob as a regular expression; None if it never matches: git ignores malformed ones."""
    if len(glob) > _LONGEST:
        return None
    start = literal_start(glob)
    tokens = []
    # Git compares the literal start by itself and matches only the rest, which therefore begins
    # like a pattern: in `lib/a**/b` the stars do cross slashes, though by the manual they should
    # not, and `lib/ab` matches as well.
    for token in _TOKEN.finditer(glob[len(start) :]):
        kind = token.lastgroup or ""
        if kind == "bracket":
            expression = _bracket(token[0], folds)
        elif kind == "byte":
            expression = re.escape(token[0][-1])
        else:
            expression = _EXPRESSIONS.get(kind)
        if expression is None:
            return None
        tokens.append(expression)
    # What may cross slashes keeps runs of whole path segments apart.
    head, *rest = _CROSSING.split("".join(tokens))
    crossings = rest[::2]
    runs = rest[1::2]
    pieces = []
    for crossing, run in zip(crossings, runs, strict=True):
        if crossing == _FOLDERS:
            pieces.append("(?:[^/]*/)*?" + _segments(run))
        elif run:
            pieces.append("(?:[^/]*/)*?[^/]*" + _segments(run))
        else:
            pieces.append(".*")
    matched = _hold(_segments(head), pieces)
    return re.compile(re.escape(start) + matched, re.DOTALL)


def _bracket(text: str, folds: bool) -> str | None:
    """Return the expression for a bracket, None if it names an unknown class.

    If case is folded, ranges and classes hold the small letters to their capitals, and a single
    capital matches nothing: git compares a small letter with it.
    """
    members: set[int] = set()
    negated = text[1] in "!^"
    parts = text[1 + negated : -1]
    for named, low, high in _PARTS.findall(parts):
        several: Iterable[int] = ()
        if named:
            several = _CLASSES.get(named[:-1], ())
            if not several:
                return None
        if low:
            members.add(ord(low[-1]))
        if high:
            last = ord(high[-1])
            several = range(ord(low[-1]), last + 1)
        members.update(several)
        if folds:
            members.update(byte + 32 for byte in _CAPITALS.intersection(several))
    if negated:
        members = set(range(256)) - members
    members.discard(ord("/"))
    if not members:
        return "(?!)"
    ranges = []
    # Neighbours differ from their positions by the same number.
    numbered = enumerate(sorted(members))
    for _, run in groupby(numbered, key=lambda pair: pair[1] - pair[0]):
        values = [value for _, value in run]
        ranges.append(f"\\x{values[0]:02x}-\\x{values[-1]:02x}")
    return f"[{''.join(ranges)}]"


def _segments(run: str) -> str:
    """Return the expression for path segments with stars."""
    segments = []
    for segment in run.split("/"):
        head, *pieces = segment.split(_STAR)
        segments.append(_hold(head, [f"[^/]*?{piece}" for piece in pieces]))
    return "/".join(segments)


def _hold(head: str, pieces: list[str]) -> str:
    """Join pieces: each stays at its leftmost match, but the last, which the rest ties to an end."""
    held = [f"(?>{piece})" for piece in pieces[:-1]]
    return "".join([head, *held, *pieces[-1:]])
