"""The filter algebra: which documents and passages a search may see.

A filter is `And`, `Or` or `Not` over terms and has one meaning everywhere. `And(())` allows
everything, `Or(())` nothing. A term is complete in itself (a workspace carries its folders,
`archived` its patterns), so reading a filter needs nothing else. Most terms are about a document;
`Type` and `Language` are about a passage, and `Tag` is about both. `str(filter)` is the filter in
the query language, and `tamis.query.language.parse_filter` reads it back.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import ClassVar

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

_BARE = re.compile(r'[^\s"()\[\]\\|:-][^\s"()\[\]\\|]*')
_MARKDOWN = (
    "*.[mM][dD]",
    "*.[mM][dD][xX]",
    "*.[mM][aA][rR][kK][dD][oO][wW][nN]",
)


class Filter:
    """A condition on passages."""

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
        return " ".join(map(_operand, self.terms)) or "everything"


@dataclass(frozen=True, slots=True)
class Or(Filter):
    terms: tuple[Filter, ...]

    def __str__(self) -> str:
        return " | ".join(map(_operand, self.terms)) or "nothing"


@dataclass(frozen=True, slots=True)
class Not(Filter):
    term: Filter

    def __str__(self) -> str:
        return f"-{_operand(self.term)}"


def _operand(term: Filter) -> str:
    if isinstance(term, And | Or) and term.terms:
        return f"({term})"
    return str(term)


EVERYTHING = And(())
NOTHING = Or(())


class Term(Filter):
    """A filter without parts. It is written `key:value`, where the value is its first field."""

    __slots__ = ()
    __match_args__: tuple[str, ...]
    key: ClassVar[str]

    def __str__(self) -> str:
        value = getattr(self, self.__match_args__[0])
        return f"{self.key}:{quoted(value)}"


class Atom(Term):
    """A term about one document."""

    __slots__ = ()

    def matches(self, facts: Facts) -> bool:
        raise TypeError(f"{type(self).__name__} is not about {facts.path}")


@dataclass(frozen=True, slots=True)
class File(Atom):
    """Any of some files, each by its name (at any depth) or, with a leading `/`, by its path.

    A name with a known extension means that file alone; without one, any file of that name. `//`
    begins the path of a file outside the root, which no document has.
    """

    names: tuple[str, ...]
    _wanted: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_wanted", frozenset(map(nfc, self.names)))

    def matches(self, facts: Facts) -> bool:
        return not self._wanted.isdisjoint(file_names(facts.path))

    def __str__(self) -> str:
        typed = []
        for name in self.names:
            if name.startswith("//"):
                name = name[1:]
            elif name.startswith("/"):
                name = f".{name}"
            typed.append(name)
        return f"file:{_quoted_list(typed)}"


# Exclusion lists come anew with every question; paths do not.
@lru_cache(maxsize=1 << 17)
def file_names(path: str) -> tuple[str, ...]:
    """Return all names of a file: its name and its path, each also without a known extension."""
    whole = plain(path)
    forms = [whole]
    stem = without_known_extension(whole)
    # `api.md.txt` is not called `api.md`: a name with a known extension means that extension.
    if stem != whole and extension(stem) not in KNOWN_EXTENSIONS:
        forms.append(stem)
    names = []
    for form in forms:
        names.append(form.rsplit("/", 1)[-1])
        names.append(f"/{form}")
    return tuple(names)


@dataclass(frozen=True, slots=True)
class _Patterns(Atom):
    """Documents that a list of gitignore patterns, read from the root, selects."""

    patterns: tuple[str, ...]
    _list: PatternList = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_list", PatternList.of(map(nfc, self.patterns)))

    def matches(self, facts: Facts) -> bool:
        return self._list.selects(nfc(facts.path))


class Path(_Patterns):
    """Documents whose path the patterns select."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"path:{_quoted_list(self.patterns)}"


class Archived(_Patterns):
    """Documents that the archive patterns select: hidden by default, but not ignored."""

    __slots__ = ()

    def __str__(self) -> str:
        return "archived"


@dataclass(frozen=True, slots=True)
class Under(Atom):
    """Documents below a folder; every document if the folder is the root, which has no name."""

    directory: str

    def matches(self, facts: Facts) -> bool:
        if not self.directory:
            return True
        return plain(facts.path).startswith(f"{plain(self.directory)}/")

    def __str__(self) -> str:
        return f"under:{quoted(self.directory or '.')}"


@dataclass(frozen=True, slots=True)
class Workspace(Atom):
    """Documents below one of the folders of a configured workspace."""

    key = "workspace"
    name: str
    directories: tuple[str, ...]

    def matches(self, facts: Facts) -> bool:
        return any(Under(folder).matches(facts) for folder in self.directories)


@dataclass(frozen=True, slots=True)
class Tag(Atom):
    """Documents with a tag or one nested in it, in any case, and passages that imply the tag."""

    key = "tag"
    name: str

    def matches(self, facts: Facts) -> bool:
        name = nfc(self.name)
        if name in facts.tags:
            return True
        return any(tag.startswith(f"{name}/") for tag in facts.tags)

    @property
    def implied(self) -> Filter:
        """Passages that have the tag by their type or language: `code`, `python`..."""
        return _implied(self.name)


@cache
def _implied(tag: str) -> Filter:
    if tag in CHUNK_TYPES:
        return Type(tag)
    if tag in LANGUAGES:
        return Language(tag)
    if tag == "code":
        return any_of(map(Type, ("definitions", "symbols", "code_block")))
    if tag == "markdown":
        return Type("documentation") & Path(_MARKDOWN)
    return NOTHING


@dataclass(frozen=True, slots=True)
class Property(Atom):
    """Documents with a property that has this value, in any case."""

    name: str

    def matches(self, facts: Facts) -> bool:
        return folded(getattr(facts, self.key)) == folded(self.name)


class Author(Property):
    __slots__ = ()
    key = "author"


class Category(Property):
    __slots__ = ()
    key = "category"


@dataclass(frozen=True, slots=True)
class After(Atom):
    """Documents modified at a moment or later; the text is the moment as it was typed."""

    key = "after"
    text: str
    moment: float

    def matches(self, facts: Facts) -> bool:
        return facts.modified >= self.moment


@dataclass(frozen=True, slots=True)
class Before(Atom):
    """Documents modified before a moment; of a day without a time, the moment is its end."""

    key = "before"
    text: str
    moment: float

    def matches(self, facts: Facts) -> bool:
        return facts.modified < self.moment


@dataclass(frozen=True, slots=True)
class DocumentIs(Atom):
    """One document, by its whole path."""

    key = "doc"
    path: str

    def matches(self, facts: Facts) -> bool:
        return nfc(facts.path) == nfc(self.path)


@dataclass(frozen=True, slots=True)
class Type(Term):
    """Passages of a type."""

    key = "type"
    name: str


@dataclass(frozen=True, slots=True)
class Language(Term):
    """Passages in a programming or data language."""

    key = "lang"
    name: str


CHUNK_ATOMS = (Type, Language, Tag)  # these may allow a part of a document


def all_of(terms: Iterable[Filter]) -> Filter:
    """Return `And` of the terms, simplified: flat, without repetitions, `nothing` wins."""
    return _simplified(terms, And, NOTHING)


def any_of(terms: Iterable[Filter]) -> Filter:
    """Return `Or` of the terms, simplified: flat, without repetitions, `everything` wins."""
    return _simplified(terms, Or, EVERYTHING)


def none_of(term: Filter) -> Filter:
    """Return `Not` of the term, simplified: double negations and constants are resolved."""
    if isinstance(term, Not):
        return term.term
    if term == EVERYTHING:
        return NOTHING
    if term == NOTHING:
        return EVERYTHING
    return Not(term)


def _simplified(
    terms: Iterable[Filter], kind: type[And | Or], winner: Filter
) -> Filter:
    flat: dict[Filter, None] = {}
    for term in terms:
        if isinstance(term, kind):
            flat |= dict.fromkeys(term.terms)
        else:
            flat[term] = None
    if winner in flat:
        return winner
    if len(flat) == 1:
        return next(iter(flat))
    return kind(tuple(flat))


def allows(
    filter: Filter,
    facts: Facts,
    chunk_type: str,
    language: str | None,
) -> bool:
    """Return True if the filter allows a passage. Engines compute the same for all at once."""
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
            implied = filter.implied
            is_implied = allows(implied, facts, chunk_type, language)
            return is_implied or filter.matches(facts)
        case Atom():
            return filter.matches(facts)
    raise TypeError(f"{filter!r} is no filter")


def atoms(filter: Filter) -> Iterator[Filter]:
    """Yield the terms of a filter, in order."""
    match filter:
        case And(terms) | Or(terms):
            for term in terms:
                yield from atoms(term)
        case Not(term):
            yield from atoms(term)
        case _:
            yield filter


def archived_by(settings: Settings) -> Archived:
    """Return the filter for archived documents, as configured."""
    try:
        return Archived(settings.archive.globs)
    except ValueError as error:
        raise BadSetting(
            f"archive.patterns: {error}", hint="write them as in a .gitignore file"
        ) from error


def nfc(path: str) -> str:
    """Return one spelling of accented letters, for paths on disk and paths that people type."""
    if path.isascii():
        return path
    return unicodedata.normalize("NFC", path)


def folded(name: str) -> str:
    """Return the form in which names are compared: without case and outer blanks."""
    return nfc(nfc(name).strip().casefold())


@lru_cache(maxsize=1 << 17)
def plain(path: str) -> str:
    """Return the form in which relative paths are compared, on disk and as people type them.

    It has no `.`, `..`, empty parts, backslashes, or blanks around a part: people type those by
    accident. A file whose name really has them is compared in that form as well, so an exclusion
    never misses it.
    """
    parts: list[str] = []
    for part in map(str.strip, nfc(path).replace("\\", "/").split("/")):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def quoted(value: str) -> str:
    """Return a value as the query language writes it: in quotes unless it is unambiguous."""
    if _BARE.fullmatch(value):
        return value
    escaped = re.sub(r'[\\"]', r"\\\g<0>", value)
    return f'"{escaped}"'


def _quoted_list(values: Iterable[str]) -> str:
    words = list(map(quoted, values))
    if len(words) == 1:
        return words[0]
    return f"[{' '.join(words)}]"
