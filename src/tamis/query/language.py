"""The query language: words to look for, and terms that say where.

    retry policy path:docs/** -tag:draft type:definitions after:2026-01-01

In a query, a term is `key:value` with a key that we know (a `-` before it negates); all else is
text to search for, so `std::path`, `error: x` and `"type:int"` stay words. A filter by itself
(`--filter`, logs) has the same terms plus `|`, parentheses, and the constants `archived`,
`everything` and `nothing`. Terms side by side must all hold.
"""

import difflib
import re
from calendar import monthrange
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from tamis.errors import BadFilter
from tamis.query import filters as f
from tamis.text.languages import CHUNK_TYPES, LANGUAGES
from tamis.text.words import tag_name

_KEYS: Final = (
    "path", "file", "under", "workspace", "tag", "type", "lang", "author", "category", "after", "before",
    "doc",
)  # fmt: skip
_CONSTANTS: Final = {"everything": f.EVERYTHING, "nothing": f.NOTHING}
_TERM: Final = re.compile(
    rf"-?(?:(?:{'|'.join(_KEYS)}):(?=[^\s:])|is:archived(?=\s|$))"
)
_QUOTED: Final = r'"(?:[^"\\]|\\[\s\S])*+"'
_VALUE: Final = rf'{_QUOTED}|[^\s"()\[\]|]++'
_TOKEN: Final = re.compile(
    rf"\s*(?:(?P<sign>-)|(?P<mark>[()|])|(?P<key>[\w]+):(?=\S)|(?P<word>{_VALUE}))"
)
# Possessive throughout: a list that is never closed must not be tried in every possible split.
_LIST: Final = re.compile(rf"\[\s*+(?:(?:{_VALUE})\s*+)*+\]")
_PIECE: Final = re.compile(rf'(?:[^\s"\[]|{_QUOTED}|{_LIST.pattern}|["\[])++')
_CLOSED: Final = re.compile(rf'(?:[^"]++|{_QUOTED})*+')
_DAY_ALONE: Final = re.compile(r"[\dW-]{1,10}")
_DAY: Final = 86_400.0  # seconds; in UTC every day has as many
_DEEPEST: Final = (
    60  # nested parentheses: beyond this it is noise, and recursion has a limit
)


@dataclass(frozen=True, slots=True)
class Names:
    """What the names in a filter stand for: the root, the configured workspaces and archive patterns."""

    root: str = "/"
    workspaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    archived: f.Archived = f.Archived(())
    resolve: Callable[[str], str] = str  # an absolute path without its symbolic links


def parse_query(text: str, names: Names) -> tuple[str, f.Filter]:
    """Split what a person typed into the words to look for and the filter."""
    words: list[str] = []
    terms: list[f.Filter] = []
    at = 0
    for start, end in _spans(text):
        if _TERM.match(text, start):
            words.append(text[at:start])
            terms.append(parse_filter(text[start:end], names))
            at = end
    words.append(text[at:])
    kept = " ".join(part.strip() for part in words if part.strip())
    return _unquoted(kept), f.all_of(terms)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Where the blank-separated pieces are; a quoted value and a list belong to their piece."""
    # After a quote that is never closed none is: a scan to the end for each of them would be quadratic.
    # A parenthesis has their place there, since it may be in a piece and in no list either.
    closed = _CLOSED.match(text)
    end = closed.end() if closed else 0
    for piece in _PIECE.finditer(text[:end] + text[end:].replace('"', "(")):
        yield piece.span()


def _unquoted(text: str) -> str:
    """Quotes around something that looks like a term only protected it from being read as one."""
    return re.sub(r'"([^"\s][^"\s:]*+:[^"]*+)"', r"\1", text)


def parse_filter(text: str, names: Names) -> f.Filter:
    """Read a filter. Empty text is `everything`."""
    return _Reader(text, names).read() if text.strip() else f.EVERYTHING


class _Reader:
    """A recursive descent over the tokens of one filter."""

    def __init__(self, text: str, names: Names) -> None:
        self.text = text
        self.names = names
        self.at = 0

    def read(self) -> f.Filter:
        result = self.alternatives(0)
        if self.next():
            raise self.fault(f"unexpected {self.text[self.at :].strip()[:20]!r}")
        return result

    def alternatives(self, depth: int) -> f.Filter:
        if depth > _DEEPEST:
            raise self.fault(f"more than {_DEEPEST} nested parentheses")
        options = [self.terms(depth)]
        while self.skip("|"):
            options.append(self.terms(depth))
        return f.any_of(options)

    def terms(self, depth: int) -> f.Filter:
        found: list[f.Filter] = []
        while self.next() not in ("", "|", ")"):
            found.append(self.term(depth))
        if not found:
            raise self.fault("a term is missing")
        return f.all_of(found)

    def term(self, depth: int) -> f.Filter:
        negated = False
        while self.skip("-"):
            negated = not negated
        inner = self.group(depth) if self.skip("(") else self.atom()
        return f.none_of(inner) if negated else inner

    def group(self, depth: int) -> f.Filter:
        inner = self.alternatives(depth + 1)
        if not self.skip(")"):
            raise self.fault("a parenthesis is not closed")
        return inner

    def atom(self) -> f.Filter:
        token = _TOKEN.match(self.text, self.at)
        if token is None or not (token["key"] or token["word"]):
            raise self.fault("a term is missing")
        self.at = token.end()
        if token["key"]:
            return atom(token["key"], self.values(), self.names)
        return self.constant(token["word"])

    def constant(self, word: str) -> f.Filter:
        if word == "archived":
            return self.names.archived
        if word in _CONSTANTS:
            return _CONSTANTS[word]
        raise self.fault(f"{word!r} is no term")

    def values(self) -> tuple[str, ...]:
        if several := _LIST.match(self.text, self.at):
            self.at = several.end()
            return tuple(
                _literal(value) for value in re.findall(_VALUE, several.group()[1:-1])
            )
        single = re.compile(_VALUE).match(self.text, self.at)
        if single is None:
            raise self.fault("a value is missing")
        self.at = single.end()
        return (_literal(single.group()),)

    def next(self) -> str:
        """The next character that is no blank; empty at the end."""
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def skip(self, mark: str) -> bool:
        if self.next() != mark:
            return False
        self.at += 1
        return True

    def fault(self, what: str) -> BadFilter:
        shown = self.text if len(self.text) <= 80 else f"{self.text[:77]}..."
        return BadFilter(
            f"cannot read the filter {shown!r}: {what}",
            hint=f"terms are key:value with one of {', '.join(_KEYS)}; or archived; combine with -, | and ()",
        )


def _literal(value: str) -> str:
    return re.sub(r"\\([\s\S])", r"\1", value[1:-1]) if value.startswith('"') else value


def atom(key: str, values: tuple[str, ...], names: Names) -> f.Filter:
    """The atom for a key and its values; only `path` and `file` take more than one."""
    if key == "path":
        return path_atom(values)
    if key == "file":
        return f.File(tuple(file_name(value, names) for value in values))
    value = values[0] if len(values) == 1 else ""
    if not value.strip():
        raise BadFilter(
            f"{key}: needs one value", hint=f"write {key}:VALUE, or leave the term out"
        )
    makers: dict[str, Callable[[], f.Filter]] = {
        "under": lambda: under(value, names),
        "workspace": lambda: workspace_atom(value, names),
        "tag": lambda: tag_atom(value),
        "type": lambda: f.Type(_one_of("chunk type", value, CHUNK_TYPES)),
        "lang": lambda: f.Language(_one_of("language", value.lower(), LANGUAGES)),
        "author": lambda: f.Author(value),
        "category": lambda: f.Category(value),
        "after": lambda: f.After(value, _day_range(value)[0]),
        "before": lambda: f.Before(value, _day_range(value)[1]),
        "doc": lambda: f.DocumentIs(value),
        "is": lambda: _archived(value, names),
    }
    if key not in makers:
        raise BadFilter(
            f"there is no filter {key}:", hint=_nearest(key, (*_KEYS, "is"))
        )
    return makers[key]()


def tag_atom(value: str) -> f.Tag:
    name = tag_name(value)
    if not name:
        raise BadFilter(
            f"{value!r} names no tag", hint="write tag:NAME, or leave the term out"
        )
    return f.Tag(name)


def path_atom(patterns: tuple[str, ...]) -> f.Path:
    try:
        return f.Path(patterns)
    except ValueError as error:
        raise BadFilter(
            str(error), hint="patterns are written as in a .gitignore file"
        ) from error


def file_name(value: str, names: Names) -> str:
    """A file as people and agents write it, in the one form that `File` knows (C09-C12, C16)."""
    path = value.strip().replace("\\", "/")
    inside = _below_root(path, names) if "/" in path else path
    outside = path if path.startswith("/") else f.plain(path)
    clean = f.nfc(outside) if inside is None else f.plain(inside)
    if not clean.strip("./"):
        raise BadFilter(f"{value!r} names no file", hint="give a file name or a path")
    return f"/{clean}" if "/" in path else clean


def under(value: str, names: Names) -> f.Filter:
    """Files below a folder; below the root itself is everything."""
    folder = directory(value, names)
    return f.Under(folder) if folder else f.EVERYTHING


def directory(value: str, names: Names) -> str:
    inside = _below_root(value.strip().replace("\\", "/"), names)
    clean = ".." if inside is None else f.plain(inside)
    if clean.split("/")[0] == "..":
        raise BadFilter(
            f"{value} is outside {names.root}", hint="give a folder below the root"
        )
    return clean


def workspace_atom(name: str, names: Names) -> f.Workspace:
    by_name = {f.folded(known): known for known in names.workspaces}
    known = by_name.get(f.folded(name))
    if known is None:
        raise BadFilter(
            f"there is no workspace {name!r}",
            hint=_nearest(name, tuple(names.workspaces)),
        )
    return f.Workspace(known, names.workspaces[known])


def _archived(value: str, names: Names) -> f.Filter:
    if value != "archived":
        raise BadFilter(
            f"there is no filter is:{value}", hint="the only one is is:archived"
        )
    return names.archived


def _below_root(path: str, names: Names) -> str | None:
    """A path as seen from the root, without the links on its way; None if it leads elsewhere."""
    try:
        resolved = f.nfc(
            names.resolve(path if path.startswith("/") else f"{names.root}/{path}")
        )
    except (
        ValueError
    ):  # a character that no path can have: whatever it means, it is not here
        return None
    root = f.nfc(names.root).rstrip("/")
    if resolved == root:
        return ""
    return resolved[len(root) + 1 :] if resolved.startswith(f"{root}/") else None


def _one_of(what: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise BadFilter(f"there is no {what} {value!r}", hint=_nearest(value, allowed))
    return value


def _nearest(value: str, allowed: tuple[str, ...]) -> str:
    if not allowed:
        return "none are configured"
    near = difflib.get_close_matches(value, allowed, n=1)
    guess = f"did you mean {near[0]}? " if near else ""
    return f"{guess}allowed: {', '.join(allowed)}"


def _day_range(text: str) -> tuple[float, float]:
    """When a date begins and ends, in UTC. A day, week, month or year without a time counts whole."""
    try:
        return _parse_date(text.strip())
    except ValueError as error:
        raise BadFilter(
            f"{text!r} is no date",
            hint="write 2026-05-01, 2026-W18, 2026-05, 2026 or 2026-05-01T12:30:00Z",
        ) from error


def _parse_date(text: str) -> tuple[float, float]:
    if re.fullmatch(r"\d{4}", text):
        year = int(text)
        return _utc(datetime(year, 1, 1)), _utc(datetime(year, 12, 31)) + _DAY
    if re.fullmatch(r"\d{4}-\d{2}", text):
        first = datetime.strptime(text, "%Y-%m")
        last = monthrange(first.year, first.month)[1]
        return _utc(first), _utc(first.replace(day=last)) + _DAY
    moment = datetime.fromisoformat(text)
    if re.fullmatch(r"\d{4}-?W\d{2}", text):
        return _utc(moment), _utc(moment) + 7 * _DAY
    if _DAY_ALONE.fullmatch(text):
        return _utc(moment), _utc(moment) + _DAY
    return _utc(moment), _utc(moment)


def _utc(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
