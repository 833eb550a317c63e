"""The filter algebra: which documents and chunks a search may see.

A filter is `And`, `Or` or `Not` over atoms, and means one thing everywhere. `And(())` lets
everything through and `Or(())` nothing. An atom is complete in itself (a workspace carries its
folders, `archived` its patterns), so that reading a filter needs nothing else. Atoms are about a
document, except `Type` and `Language`, which are about a chunk, and `Tag`, which is about both.
`str(filter)` is its text in the query language; `tamis.query.language.parse_filter` reads it back.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Final

from tamis.errors import BadSetting
from tamis.gitignore.patterns import PatternList
from tamis.model import Facts
from tamis.settings import Settings
from tamis.text.languages import (
    CHUNK_TYPES,
    KNOWN_EXTENSIONS,
    LANGUAGES,
    extension,
    without_known_extension,
)

_BARE: Final = re.compile(r'[^\s"()\[\]\\|:-][^\s"()\[\]\\|]*')


class Filter:
    """Anything that lets some rows through."""

    __slots__ = ()

    def __and__(self, other: "Filter") -> "Filter":
        return all_of((self, other))

    def __or__(self, other: "Filter") -> "Filter":
        return any_of((self, other))

    def __invert__(self) -> "Filter":
        return none_of(self)


@dataclass(frozen=True, slots=True)
class And(Filter):
    terms: tuple[Filter, ...]

    def __str__(self) -> str:
        return " ".join(_operand(term) for term in self.terms) or "everything"


@dataclass(frozen=True, slots=True)
class Or(Filter):
    terms: tuple[Filter, ...]

    def __str__(self) -> str:
        return " | ".join(_operand(term) for term in self.terms) or "nothing"


@dataclass(frozen=True, slots=True)
class Not(Filter):
    term: Filter

    def __str__(self) -> str:
        return f"-{_operand(self.term)}"


EVERYTHING: Final = And(())
NOTHING: Final = Or(())


class Atom(Filter):
    """A question about one document."""

    __slots__ = ()

    def matches(self, facts: Facts) -> bool:
        raise TypeError(f"{type(self).__name__} is no question about {facts.path}")


class ChunkAtom(Filter):
    """A question about one chunk: its type or its language."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class File(Atom):
    """Any of some files, each by its name (at any depth) or, with a leading `/`, by its path (C09, C10).

    With a known extension it is that file alone; without one, any file of that name. `//` begins the
    path of a file outside the root, which no file here has.
    """

    names: tuple[str, ...]
    _wanted: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_wanted", frozenset(map(nfc, self.names)))

    def matches(self, facts: Facts) -> bool:
        return not self._wanted.isdisjoint(file_names(facts.path))

    def __str__(self) -> str:
        return f"file:{_quoted_list(tuple(map(_typed, self.names)))}"


def _typed(name: str) -> str:
    """A file's name as one would type it: `./` for a path below the root, `/` for one outside."""
    return (
        name[1:]
        if name.startswith("//")
        else f".{name}"
        if name.startswith("/")
        else name
    )


@lru_cache(
    maxsize=1 << 17
)  # exclusion lists come anew with every question, paths do not
def file_names(path: str) -> tuple[str, ...]:
    """Everything a file is called by: its name and its path, and both without a known extension."""
    whole = plain(path)
    stem = without_known_extension(whole)
    # `api.md.txt` is not called `api.md`: a name with a known extension means that extension.
    forms = (
        (whole,)
        if stem == whole or extension(stem) in KNOWN_EXTENSIONS
        else (whole, stem)
    )
    return tuple(
        name for form in forms for name in (form.rsplit("/", 1)[-1], f"/{form}")
    )


@dataclass(frozen=True, slots=True)
class Path(Atom):
    """What a list of gitignore patterns, read from the root, selects."""

    patterns: tuple[str, ...]
    _list: PatternList = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_list", PatternList.of(map(nfc, self.patterns)))

    def matches(self, facts: Facts) -> bool:
        return self._list.selects(nfc(facts.path))

    def __str__(self) -> str:
        return f"path:{_quoted_list(self.patterns)}"


@dataclass(frozen=True, slots=True)
class Under(Atom):
    """Files below a directory; below the root, which has no name, is every file."""

    directory: str

    def matches(self, facts: Facts) -> bool:
        return not self.directory or plain(facts.path).startswith(
            f"{plain(self.directory)}/"
        )

    def __str__(self) -> str:
        return f"under:{quoted(self.directory or '.')}"


@dataclass(frozen=True, slots=True)
class Workspace(Atom):
    """Files below one of the directories that a configured name stands for."""

    name: str
    directories: tuple[str, ...]

    def matches(self, facts: Facts) -> bool:
        return any(Under(folder).matches(facts) for folder in self.directories)

    def __str__(self) -> str:
        return f"workspace:{quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class Tag(Atom):
    """Documents that carry a tag, or one nested in it, in whatever case; and rows that imply it."""

    name: str

    def matches(self, facts: Facts) -> bool:
        name = nfc(self.name)
        return name in facts.tags or any(
            tag.startswith(f"{name}/") for tag in facts.tags
        )

    @property
    def implied(self) -> "Filter":
        """The rows that have the tag by being what they are: `code`, `python`, `definitions`..."""
        return _implied(self.name)

    def __str__(self) -> str:
        return f"tag:{quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class Archived(Atom):
    """Documents that the archive patterns call archived: hidden by default, not ignored (C17)."""

    patterns: tuple[str, ...]
    _list: PatternList = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_list", PatternList.of(map(nfc, self.patterns)))

    def matches(self, facts: Facts) -> bool:
        return self._list.selects(nfc(facts.path))

    def __str__(self) -> str:
        return "archived"


@dataclass(frozen=True, slots=True)
class Author(Atom):
    name: str

    def matches(self, facts: Facts) -> bool:
        return folded(facts.author) == folded(self.name)

    def __str__(self) -> str:
        return f"author:{quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class Category(Atom):
    name: str

    def matches(self, facts: Facts) -> bool:
        return folded(facts.category) == folded(self.name)

    def __str__(self) -> str:
        return f"category:{quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class After(Atom):
    """Modified at this moment or later. The text is what was typed; the moment is what it means."""

    text: str
    moment: float

    def matches(self, facts: Facts) -> bool:
        return facts.modified >= self.moment

    def __str__(self) -> str:
        return f"after:{quoted(self.text)}"


@dataclass(frozen=True, slots=True)
class Before(Atom):
    """Modified before this moment; a day without a time counts whole, so the moment is its end."""

    text: str
    moment: float

    def matches(self, facts: Facts) -> bool:
        return facts.modified < self.moment

    def __str__(self) -> str:
        return f"before:{quoted(self.text)}"


@dataclass(frozen=True, slots=True)
class DocumentIs(Atom):
    """One document, by its whole path."""

    path: str

    def matches(self, facts: Facts) -> bool:
        return nfc(facts.path) == nfc(self.path)

    def __str__(self) -> str:
        return f"doc:{quoted(self.path)}"


@dataclass(frozen=True, slots=True)
class Type(ChunkAtom):
    """Chunks of a type."""

    name: str

    def __str__(self) -> str:
        return f"type:{self.name}"


@dataclass(frozen=True, slots=True)
class Language(ChunkAtom):
    """Chunks in a programming or data language."""

    name: str

    def __str__(self) -> str:
        return f"lang:{self.name}"


CHUNK_ATOMS: Final = (Type, Language, Tag)  # what can let a part of a document through


def all_of(terms: Iterable[Filter]) -> Filter:
    """`And` with its identities applied: flat, without repetitions, `nothing` wins, one term is itself."""
    flat = _flatten(terms, And)
    if NOTHING in flat:
        return NOTHING
    return flat[0] if len(flat) == 1 else And(flat)


def any_of(terms: Iterable[Filter]) -> Filter:
    """`Or` with its identities applied: flat, without repetitions, `everything` wins, one term is itself."""
    flat = _flatten(terms, Or)
    if EVERYTHING in flat:
        return EVERYTHING
    return flat[0] if len(flat) == 1 else Or(flat)


def none_of(term: Filter) -> Filter:
    """`Not` with its identities applied: a double negation is none, constants turn over."""
    if isinstance(term, Not):
        return term.term
    if term == EVERYTHING:
        return NOTHING
    return EVERYTHING if term == NOTHING else Not(term)


def _flatten(terms: Iterable[Filter], kind: type[And] | type[Or]) -> tuple[Filter, ...]:
    flat: dict[Filter, None] = {}
    for term in terms:
        flat |= dict.fromkeys(term.terms if isinstance(term, kind) else (term,))
    return tuple(flat)


def allows(filter: Filter, facts: Facts, chunk_type: str, language: str | None) -> bool:
    """What the algebra means, read for one row. Engines compute the same for all rows at once."""
    match filter:
        case And(terms):
            return all(allows(term, facts, chunk_type, language) for term in terms)
        case Or(terms):
            return any(allows(term, facts, chunk_type, language) for term in terms)
        case Not(term):
            return not allows(term, facts, chunk_type, language)
        case Type(name):
            return chunk_type == name
        case Language(name):
            return language == name
        case Tag():
            return filter.matches(facts) or allows(
                filter.implied, facts, chunk_type, language
            )
        case Atom():
            return filter.matches(facts)
    raise TypeError(f"{filter!r} is no filter")


@cache
def _implied(tag: str) -> Filter:
    if tag in CHUNK_TYPES:
        return Type(tag)
    if tag in LANGUAGES:
        return Language(tag)
    if tag == "code":
        return any_of(map(Type, ("definitions", "symbols", "code_block")))
    if tag == "markdown":
        return Type("documentation") & Path(
            ("*.[mM][dD]", "*.[mM][dD][xX]", "*.[mM][aA][rR][kK][dD][oO][wW][nN]")
        )
    return NOTHING


def nfc(path: str) -> str:
    """One spelling of accented letters for paths from the disk and paths that people type (C12)."""
    return path if path.isascii() else unicodedata.normalize("NFC", path)


def folded(name: str) -> str:
    """A name in the one form in which names are compared: case, accents' spelling and outer blanks aside."""
    return nfc(nfc(name).strip().casefold())


@lru_cache(maxsize=1 << 17)
def plain(path: str) -> str:
    """A relative path in the one form in which files and what people type are compared (C12, C80).

    No `.`, `..`, empty parts and backslashes, and no blanks around a part: people type those by accident.
    A file whose name really has them is meant by that form as well, so that an exclusion never misses it.
    """
    parts: list[str] = []
    for part in map(str.strip, nfc(path).replace("\\", "/").split("/")):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def quoted(value: str) -> str:
    """A value as the query language writes it: bare where that is unambiguous, in quotes elsewhere."""
    if _BARE.fullmatch(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quoted_list(values: tuple[str, ...]) -> str:
    return (
        quoted(values[0])
        if len(values) == 1
        else "[" + " ".join(map(quoted, values)) + "]"
    )


def _operand(term: Filter) -> str:
    compound = isinstance(term, And | Or) and bool(term.terms)
    return f"({term})" if compound else str(term)


def atoms(filter: Filter) -> Iterator[Filter]:
    """Every atom in a filter, in order."""
    match filter:
        case And(terms) | Or(terms):
            for term in terms:
                yield from atoms(term)
        case Not(term):
            yield from atoms(term)
        case _:
            yield filter


def archived_by(settings: Settings) -> Archived:
    try:
        return Archived(settings.archive.globs)
    except ValueError as error:
        raise BadSetting(
            f"archive.patterns: {error}", hint="write them as in a .gitignore file"
        ) from error
