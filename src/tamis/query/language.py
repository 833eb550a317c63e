"""The query language: words to look for, and terms that filter.

    retry policy path:docs/** -tag:draft type:definitions after:2026-01-01

In a query, a term is `key:value` with a known key (a `-` before it negates); everything else is
text to search for, so `std::path`, `error: x` and `"type:int"` stay words. A filter by itself
(`--filter`, logs) has the same terms plus `|`, parentheses, and the constants `archived`,
`everything` and `nothing`. Terms side by side must all hold.
"""

import re
from calendar import isleap, monthrange
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tamis.errors import BadFilter, nearest
from tamis.query import filters as f
from tamis.text.languages import CHUNK_TYPES, LANGUAGES
from tamis.text.words import tag_name

_KEYS = "path|file|under|workspace|tag|type|lang|author|category|after|before|doc"
_TERM = re.compile(rf"-?(?:(?:{_KEYS}):(?=[^\s:])|is:archived(?=\s|$))")
_QUOTED = r'"(?:[^"\\]|\\[\s\S])*+"'
_VALUE = rf'{_QUOTED}|[^\s"()\[\]|]++'
_TOKEN = re.compile(rf"\s*(?:[-()|]|(?P<key>\w+):(?=\S)|(?P<word>{_VALUE}))")
# Possessive throughout: a list that is never closed must not be tried in every possible split.
_LIST = rf"\[\s*+(?:(?:{_VALUE})\s*+)*+\]"
_VALUES = re.compile(f"{_LIST}|{_VALUE}")
_PIECE = re.compile(rf'(?:[^\s"\[]|{_QUOTED}|{_LIST}|["\[])++')
_CLOSED = re.compile(rf'(?:[^"]++|{_QUOTED})*+')
_DAY_ALONE = re.compile(r"[\dW-]{1,10}")
_DAY = 86_400.0  # seconds; in UTC every day has as many
_DEEPEST = 60  # nested parentheses: recursion has a limit


@dataclass(frozen=True, slots=True)
class Names:
    """Meanings of the names in a filter: the root, configured workspaces and archive patterns."""

    root: str = "/"
    workspaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    archived: f.Archived = f.Archived(())
    resolve: Callable[[str], str] = str  # an absolute path without its symbolic links


def parse_query(
    text: str,
    names: Names,
) -> tuple[str, f.Filter]:
    """Split a query into the words to look for and the filter."""
    # After a quote that is never closed none is: a scan to the end for each of them would be
    # quadratic. A parenthesis takes their place there, since it may be in a piece and in no list.
    rest = _CLOSED.sub("", text, count=1)
    readable = text.removesuffix(rest) + rest.replace('"', "(")
    words: list[str] = []
    terms: list[f.Filter] = []
    at = 0
    for piece in _PIECE.finditer(readable):
        start = piece.start()
        if _TERM.match(text, start):
            words.append(text[at:start].strip())
            at = piece.end()
            terms.append(parse_filter(text[start:at], names))
    words.append(text[at:].strip())
    kept = " ".join(filter(None, words))
    # Quotes around something that looks like a term only protected it from being read as one.
    unquoted = re.sub(r'"([^"\s][^"\s:]*+:[^"]*+)"', r"\1", kept)
    return unquoted, f.all_of(terms)


def parse_filter(text: str, names: Names) -> f.Filter:
    """Read a filter. Empty text is `everything`."""
    if not text.strip():
        return f.EVERYTHING
    reader = _Reader(text, names)
    result = reader.alternatives(0)
    if reader.next():
        raise reader.fault(f"unexpected {text[reader.at :].strip()[:20]!r}")
    return result


@dataclass
class _Reader:
    """A recursive descent over the tokens of one filter."""

    text: str
    names: Names
    at: int = 0

    def alternatives(self, depth: int) -> f.Filter:
        """Read terms separated by `|`."""
        if depth > _DEEPEST:
            raise self.fault(f"more than {_DEEPEST} nested parentheses")
        options = [self.terms(depth)]
        while self.skip("|"):
            options.append(self.terms(depth))
        return f.any_of(options)

    def terms(self, depth: int) -> f.Filter:
        """Read terms side by side."""
        found: list[f.Filter] = []
        while self.next() not in ("", "|", ")"):
            found.append(self.term(depth))
        if not found:
            raise self.fault("a term is missing")
        return f.all_of(found)

    def term(self, depth: int) -> f.Filter:
        """Read one term, or a group in parentheses, with the `-` before it."""
        negated = False
        while self.skip("-"):
            negated = not negated
        if self.skip("("):
            inner = self.alternatives(depth + 1)
            if not self.skip(")"):
                raise self.fault("a parenthesis is not closed")
        else:
            inner = self.atom()
        if negated:
            return f.none_of(inner)
        return inner

    def atom(self) -> f.Filter:
        """Read `key:value` or a constant."""
        token = _TOKEN.match(self.text, self.at)
        if token is None or not (token["key"] or token["word"]):
            raise self.fault("a term is missing")
        self.at = token.end()
        if token["key"]:
            return atom(token["key"], self.values(), self.names)
        match token["word"]:
            case "archived":
                return self.names.archived
            case "everything":
                return f.EVERYTHING
            case "nothing":
                return f.NOTHING
        raise self.fault(f"{token['word']!r} is no term")

    def values(self) -> tuple[str, ...]:
        """Read a value, or a list of values in brackets."""
        found = _VALUES.match(self.text, self.at)
        if found is None:
            raise self.fault("a value is missing")
        self.at = found.end()
        values = []
        for value in re.findall(_VALUE, found.group()):
            if value.startswith('"'):
                value = re.sub(r"\\([\s\S])", r"\1", value[1:-1])
            values.append(value)
        return tuple(values)

    def next(self) -> str:
        """Return the next character that is not blank; an empty text at the end."""
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1
        return self.text[self.at : self.at + 1]

    def skip(self, mark: str) -> bool:
        """Step over a mark; return False if it does not come next."""
        if self.next() != mark:
            return False
        self.at += 1
        return True

    def fault(self, problem: str) -> BadFilter:
        """Make the error for this filter."""
        shown = self.text
        if len(shown) > 80:
            shown = f"{shown[:77]}..."
        keys = _KEYS.replace("|", ", ")
        return BadFilter(
            f"cannot read the filter {shown!r}: {problem}",
            hint=f"terms are key:value with one of {keys}; or archived; combine with -, | and ()",
        )


def atom(
    key: str,
    values: tuple[str, ...],
    names: Names,
) -> f.Filter:
    """Return the term for a key and its values; only `path` and `file` take more than one."""
    if key == "path":
        try:
            return f.Path(values)
        except ValueError as error:
            hint = "patterns are written as in a .gitignore file"
            raise BadFilter(str(error), hint=hint) from error
    if key == "file":
        return f.File(tuple(_file_name(value, names) for value in values))
    if len(values) != 1 or not values[0].strip():
        raise BadFilter(
            f"{key}: needs one value", hint=f"write {key}:VALUE, or leave the term out"
        )
    value = values[0]
    match key:
        case "under":
            folder = directory(value, names)
            if not folder:
                return f.EVERYTHING
            return f.Under(folder)
        case "workspace":
            for name, folders in names.workspaces.items():
                if f.folded(name) == f.folded(value):
                    return f.Workspace(name, folders)
            raise BadFilter(
                f"there is no workspace {value!r}",
                hint=_nearest(value, tuple(names.workspaces)),
            )
        case "tag":
            tag = tag_name(value)
            if not tag:
                raise BadFilter(
                    f"{value!r} names no tag",
                    hint="write tag:NAME, or leave the term out",
                )
            return f.Tag(tag)
        case "type":
            return f.Type(_one_of("chunk type", value, CHUNK_TYPES))
        case "lang":
            return f.Language(_one_of("language", value.lower(), LANGUAGES))
        case "author":
            return f.Author(value)
        case "category":
            return f.Category(value)
        case "after":
            return f.After(value, _period(value)[0])
        case "before":
            return f.Before(value, _period(value)[1])
        case "doc":
            return f.DocumentIs(value)
        case "is" if value == "archived":
            return names.archived
        case "is":
            raise BadFilter(
                f"there is no filter is:{value}", hint="the only one is is:archived"
            )
    raise BadFilter(
        f"there is no filter {key}:", hint=_nearest(key, (*_KEYS.split("|"), "is"))
    )


def _file_name(value: str, names: Names) -> str:
    """Return a file, as people and agents write it, in the form that `File` takes."""
    path = value.strip().replace("\\", "/")
    is_path = "/" in path
    inside: str | None = path
    if is_path:
        inside = _below_root(path, names)
    if inside is not None:
        name = f.plain(inside)
    elif path.startswith("/"):
        name = f.nfc(path)
    else:
        name = f.nfc(f.plain(path))
    if not name.strip("./"):
        raise BadFilter(f"{value!r} names no file", hint="give a file name or a path")
    if is_path:
        return f"/{name}"
    return name


def directory(value: str, names: Names) -> str:
    """Return a folder as a path from the root; it must not be outside."""
    inside = _below_root(value.strip().replace("\\", "/"), names)
    if inside is not None:
        folder = f.plain(inside)
        if folder.split("/")[0] != "..":
            return folder
    raise BadFilter(
        f"{value} is outside {names.root}", hint="give a folder below the root"
    )


def _below_root(path: str, names: Names) -> str | None:
    """Return a path as seen from the root, links resolved; None if it leads elsewhere."""
    if not path.startswith("/"):
        path = f"{names.root}/{path}"
    try:
        resolved = f.nfc(names.resolve(path))
    except ValueError:  # a character that no path can have
        return None
    root = f.nfc(names.root).rstrip("/")
    if resolved == root:
        return ""
    if resolved.startswith(f"{root}/"):
        return resolved[len(root) + 1 :]
    return None


def _one_of(
    what: str,
    value: str,
    allowed: tuple[str, ...],
) -> str:
    if value not in allowed:
        raise BadFilter(f"there is no {what} {value!r}", hint=_nearest(value, allowed))
    return value


def _nearest(value: str, allowed: tuple[str, ...]) -> str:
    if not allowed:
        return "none are configured"
    return f"{nearest(value, allowed)} allowed: {', '.join(allowed)}".lstrip()


def _period(text: str) -> tuple[float, float]:
    """Return start and end of a date, in UTC; a day, week, month or year counts whole."""
    written = text.strip()
    days = 0
    try:
        if re.fullmatch(r"\d{4}", written):
            start = datetime(int(written), 1, 1)
            days = 365 + isleap(start.year)
        elif re.fullmatch(r"\d{4}-\d{2}", written):
            start = datetime.strptime(written, "%Y-%m")
            days = monthrange(start.year, start.month)[1]
        else:
            start = datetime.fromisoformat(written)
            if re.fullmatch(r"\d{4}-?W\d{2}", written):
                days = 7
            elif _DAY_ALONE.fullmatch(written):
                days = 1
        if start.tzinfo is None:
            start = start.replace(tzinfo=UTC)
        seconds = start.timestamp()
    except ValueError as error:
        raise BadFilter(
            f"{text!r} is no date",
            hint="write 2026-05-01, 2026-W18, 2026-05, 2026 or 2026-05-01T12:30:00Z",
        ) from error
    return seconds, seconds + days * _DAY
