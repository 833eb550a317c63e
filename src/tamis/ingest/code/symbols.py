"""Definitions of a source file: functions, methods, classes and constants, with their places.

`grammars` says what a definition is, `child` asks it where it can do no harm;
this makes symbols of the answer: the name with the names around it, the comment and the decorators that
belong to it, the signature on one line. A text that mostly does not parse has none.
"""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from tamis.ingest.code.child import CHILD
from tamis.ingest.code.grammars import ABOVE, CONSTANT, ERROR, IMPORT, WRAP, Capture
from tamis.ingest.documents.sections import SEPARATOR, Lines, Span, is_small, pieces
from tamis.model import Chunk, Parent
from tamis.settings import ChunkingSettings
from tamis.text.languages import ChunkType

# Above this share of the text in errors, the tree is a guess and windows of lines serve better.
_MAX_ERRORS: Final = 0.5
# Definitions nested deeper are part of the one around them. Bounds what a scope can hold.
_MAX_DEPTH: Final = 12
_MAX_NAME: Final = 200
_MAX_SIGNATURE: Final = 200
_MAX_INDENT: Final = 200
# A header that says `.h` may be C++, and JavaScript may have types (Flow): tried when there are errors.
_SECOND_READING: Final = {"c": "cpp", "javascript": "tsx"}

TYPES: Final = frozenset(
    {
        "class",
        "struct",
        "interface",
        "trait",
        "impl",
        "enum",
        "object",
        "record",
        "union",
        "extension",
    }
)
_FUNCTIONS: Final = frozenset({"function", "method"})
_SPACES: Final = frozenset({"namespace", "module"})
_NO_DEFINITION: Final = frozenset({ABOVE, WRAP, ERROR, IMPORT})
# Where a dot or a colon in a name is part of it.
_UNQUALIFIED: Final = frozenset({"bash", "kotlin", "python", "scala"})
_UNNAMED: Final = {"companion": "Companion"}  # what Kotlin calls it
# `Foo.prototype.bar = function` defines `Foo > bar`, `module.exports.bar = function` defines `bar`.
_NO_SCOPE: Final = frozenset({"prototype", "exports", "module", "this", "self"})

_ARGUMENTS: Final = re.compile(r"(?<=\w)<[^<>]*>")
_OPERATOR: Final = re.compile(r"\boperator\b\s*(?:\(\s*\)|[^(]*)")
_SEPARATORS: Final = re.compile(r"::|[.:]")
_WORDS: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Symbol:
    """Something that a file defines."""

    name: str
    kind: str
    scope: tuple[str, ...]  # the names around it, from the outside in
    start: int  # of its comment and decorators, where it has them
    end: int
    place: int  # of its name
    line: int  # of its name
    signature: str  # on one line, without its body

    @property
    def qualified(self) -> str:
        return ".".join((*self.scope, self.name))


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of parsing a text, in the order of the text."""

    symbols: tuple[Symbol, ...]  # outer before inner
    comments: tuple[
        Span, ...
    ]  # and attributes: what says something about what is below
    imports: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class _Open:
    """A definition whose end has not been reached."""

    capture: Capture
    symbol: Symbol


def reading(text: str, language: str) -> Reading | None:
    """Parse source; None if there is no grammar for the language or the text does not parse.

    Besides the languages of `tamis.text.languages` there is `tsx`, for TypeScript with elements in it.
    """
    best = _read(text, language)
    if best and best[0] and (second := _SECOND_READING.get(language)):
        best = min(best, _read(text, second) or best, key=lambda each: each[0])
    if best is None or best[0] > _MAX_ERRORS:
        return None
    captures = best[1]
    found = tuple(_symbols(text, captures, language))
    return Reading(found, _spans(captures, ABOVE), _spans(captures, IMPORT))


def symbols(text: str, language: str) -> list[Symbol] | None:
    """Return the definitions without constants; None as for `reading`."""
    found = reading(text, language)
    return (
        None
        if found is None
        else [symbol for symbol in found.symbols if symbol.kind != CONSTANT]
    )


def _spans(captures: Sequence[Capture], kind: str) -> tuple[Span, ...]:
    return tuple(
        (capture.start, capture.end) for capture in captures if capture.kind == kind
    )


def _read(text: str, language: str) -> tuple[float, list[Capture]] | None:
    """The share of the text that the grammar could not read, and what was caught."""
    captures = CHILD.captures(text, language)
    if captures is None:
        return None
    wrong, outer = 0, [Capture("", 0, len(text), (0, 0), (0, 0), 0)]
    for capture in captures:
        if capture.kind == WRAP:
            continue
        while outer[-1].end <= capture.start and len(outer) > 1:
            outer.pop()
        size = capture.end - capture.start
        # What a definition or a comment in an error covers was read, an error in a definition was not.
        wrong += size * ((capture.kind == ERROR) - (outer[-1].kind == ERROR))
        outer.append(capture)
    return wrong / max(1, len(text)), captures


def _symbols(text: str, captures: Sequence[Capture], language: str) -> Iterator[Symbol]:
    layout = _Layout(text, captures)
    wraps: list[Capture] = []
    outer: list[_Open] = []
    free = 0  # where the definition before this one ended
    for capture in captures:
        if capture.kind == WRAP:
            wraps.append(capture)
        if capture.kind in _NO_DEFINITION:
            continue
        while outer and (
            outer[-1].capture.end <= capture.start
            or _same_span(outer[-1].capture, capture)
        ):
            free = outer.pop().symbol.end
        around = outer[-1] if outer else None
        start = _with_wraps(capture, wraps)
        wraps.clear()
        names = _names(text, capture, language)
        if (
            not names
            or len(outer) == _MAX_DEPTH
            or _is_within(around, capture, names[-1])
        ):
            continue
        lowest = max(free, around.capture.start if around else 0)
        symbol = Symbol(
            name=names[-1],
            kind=_kind(capture, around, names),
            scope=((*around.symbol.scope, around.symbol.name) if around else ())
            + names[:-1],
            start=min(capture.start, max(lowest, layout.with_above(start))),
            end=capture.end,
            place=capture.name[0],
            line=layout.line(capture.name[0]) + 1,
            signature=_signature(
                text, capture, max(start, layout.line_start(capture.start))
            )
            or names[-1],
        )
        yield symbol
        if capture.kind not in (
            "typedef",
            CONSTANT,
        ):  # of a struct, which has a name of its own
            outer.append(_Open(capture, symbol))


class _Layout:
    """The lines of a text, and which of them end comments or attributes that belong to what is below."""

    def __init__(self, text: str, captures: Sequence[Capture]) -> None:
        self._text = text
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._above: dict[
            int, int
        ] = {}  # from the line that it ends in to where it begins
        for capture in captures:
            if capture.kind == ABOVE and self._begins_line(capture.start):
                ends_line = text.endswith("\n", capture.start, capture.end)
                self._above[self.line(capture.end - 1 - ends_line)] = capture.start

    def line(self, place: int) -> int:
        """Counted from 0."""
        return bisect_right(self._starts, place) - 1

    def line_start(self, place: int) -> int:
        return self._starts[self.line(place)]

    def with_above(self, place: int) -> int:
        """Return the start of the comments and attributes right above a place."""
        while (
            self._begins_line(place)
            and (line := self._line_above(place)) in self._above
        ):
            place = self._above.pop(line)
        return place

    def _line_above(self, place: int) -> int:
        """The line before; a documentation comment may have a blank line between."""
        line = self.line(place) - 1
        if (
            line > 0
            and not self._text[self._starts[line] : self._starts[line + 1]].strip()
        ):
            start = self._above.get(line - 1)
            if start is not None and self._text.startswith("/**", start):
                return line - 1
        return line

    def _begins_line(self, place: int) -> bool:
        start = self.line_start(place)
        return place - start <= _MAX_INDENT and not self._text[start:place].strip()


def _with_wraps(capture: Capture, wraps: Sequence[Capture]) -> int:
    """Return the start of a definition with its wraps, which end with it or one semicolon later."""
    return min(
        (wrap.start for wrap in wraps if 0 <= wrap.end - capture.end <= 1),
        default=capture.start,
    )


def _same_span(first: Capture, second: Capture) -> bool:
    return (first.start, first.end) == (second.start, second.end)


def _is_within(around: _Open | None, capture: Capture, name: str) -> bool:
    """Not a definition of its own.

    `f = function f() {}`, what looks like a prototype in a function, constants that are not the file's.
    """
    if around is None:
        return False
    if capture.kind == CONSTANT:
        return around.symbol.kind not in _SPACES
    if capture.kind == "prototype":
        return around.symbol.kind in _FUNCTIONS
    return capture.body == around.capture.body and name == around.symbol.name


def _kind(capture: Capture, around: _Open | None, names: tuple[str, ...]) -> str:
    if capture.kind == "function" and (
        len(names) > 1 or (around and around.symbol.kind in TYPES)
    ):
        return "method"
    return "type" if capture.kind == "typedef" else capture.kind


def _names(text: str, capture: Capture, language: str) -> tuple[str, ...]:
    """The name of a definition with the names before it: `Client<T>::retry` -> `Client`, `retry`."""
    name = " ".join(text[slice(*capture.name)][: 2 * _MAX_NAME].split())
    if capture.kind == "impl":
        names: tuple[str, ...] = tuple(_WORDS.findall(_without_arguments(name))[-1:])
    elif (
        name[:1] in {"[", '"', "'", "`"} and language != "ruby"
    ):  # a computed or quoted name
        names = (name.strip("[]\"'`"),)
    elif language in _UNQUALIFIED:
        names = (_UNNAMED.get(name, name),)
    elif operator := _OPERATOR.search(name):
        names = (*_split(name[: operator.start()]), operator[0].strip())
    else:
        names = _split(name)
    belongs = _WORDS.findall(text[slice(*capture.within)][:_MAX_NAME])[:1]
    return (*belongs, *(part[:_MAX_NAME] for part in names[-_MAX_DEPTH:]))


def _split(name: str) -> tuple[str, ...]:
    *before, last = [
        part.strip() for part in _SEPARATORS.split(_without_arguments(name))
    ]
    return (
        (*(part for part in before if part and part not in _NO_SCOPE), last)
        if last
        else ()
    )


def _without_arguments(name: str) -> str:
    for _ in range(4):  # as deep as arguments of arguments go
        name = _ARGUMENTS.sub("", name)
    return name


def _signature(text: str, capture: Capture, start: int) -> str:
    """Return the text up to the body or the first brace: `def retry(self, n: int) -> bool`."""
    if (
        capture.kind == CONSTANT
    ):  # of which one declaration may have thousands, and no outline shows it
        return ""
    brace = text.find("{", start, capture.end)
    end = capture.body if capture.body < capture.end or brace < 0 else brace
    words = text[start : min(end, start + 4 * _MAX_SIGNATURE)].split()
    if 0 <= end < capture.name[0]:  # typedef struct { ... } point
        words += text[slice(*capture.name)].split()
    return " ".join(words).removesuffix("=>").rstrip(" {:=;,")[:_MAX_SIGNATURE]


Mark = tuple[int, str]  # something said at a place of the text

# A line that says something: one with a word in it that is no condition of the preprocessor.
_TELLING: Final = re.compile(
    r"^(?![ \t]*+#[ \t]*+(?:if|ifdef|ifndef|elif|else|endif)\b)[^\w\n]*+\w",
    re.MULTILINE,
)
# A breadcrumb is read with every passage: of many names it shows as many as fit.
_MAX_NAMES: Final = 100


@dataclass(frozen=True, slots=True)
class Section:
    start: int
    end: int
    scope: tuple[str, ...] = ()
    names: tuple[
        str, ...
    ] = ()  # of what is in it, when all of it stands in the same scope
    data: bool = False  # constants or configuration
    parent: int | None = None  # which of the parents it is, or lies in

    @property
    def span(self) -> Span:
        return self.start, self.end

    @property
    def trail(self) -> tuple[str, ...]:
        return (*self.scope, *self.names)

    @property
    def header_path(self) -> str:
        return SEPARATOR.join(
            (*self.scope, listed(self.names)) if self.names else self.scope
        )


def listed(names: Iterable[str]) -> str:
    """`one, two, three`, as many as fit; the first one always."""
    shown = ""
    for name in dict.fromkeys(names):
        if shown and len(shown) + len(name) > _MAX_NAMES:
            break
        shown = f"{shown}, {name}" if shown else name
    return shown


def joined(
    text: str, sections: Iterable[Section], sizes: ChunkingSettings
) -> list[Section]:
    """Sections that are too short to stand alone joined with the next (the last with the one before).

    What tells nothing goes with what stands before it (the brace that closes a class, `#endif`), or after
    it when it is the first.
    """
    done: list[Section] = []
    for section in sections:
        if done and not _tells(text, section):
            done[-1] = replace(done[-1], end=section.end)
        elif len(done) == 1 and not _tells(text, done[0]):
            done = [replace(section, start=done[0].start)]
        elif (
            done
            and is_small(text, done[-1].span, sizes)
            and _match(text, done[-1], section, sizes)
        ):
            done[-1] = together(done[-1], section)
        else:
            done.append(section)
    if (
        len(done) > 1
        and is_small(text, done[-1].span, sizes)
        and _match(text, done[-2], done[-1], sizes)
    ):
        done[-2:] = [together(done[-2], done[-1])]
    return done


def together(first: Section, second: Section) -> Section:
    """Neighbours in one scope are both named; a head and its first member are about the member."""
    scope, names = _shared(first, second)
    return Section(first.start, second.end, scope, names, first.data and second.data)


def cut(
    text: str,
    sections: Iterable[Section],
    sizes: ChunkingSettings,
    language: str,
    names: Iterable[Mark] = (),
) -> Iterator[tuple[Chunk, Span]]:
    """The chunks of sections that are joined already, and where each lies.

    A name goes to the first chunk that it stands in.
    """
    lines, left, ordinal = Lines(text), deque(names), 0
    for section in sections:
        kind: ChunkType = "data" if section.data else "definitions"
        for start, end in pieces(text, section.span, sizes):
            yield (
                Chunk(
                    ordinal,
                    text[start:end],
                    section.header_path,
                    lines.at(start),
                    lines.at(end - 1),
                    kind,
                    language,
                    names=tuple(dict.fromkeys(taken(left, end))),
                    parent=section.parent,
                ),
                (start, end),
            )
            ordinal += 1


def taken(marks: deque[Mark], end: int) -> Iterator[str]:
    """Take those that stand before `end`."""
    while marks and marks[0][0] < end:
        yield marks.popleft()[1]


def two_levels(
    text: str,
    sections: Iterable[Section],
    sizes: ChunkingSettings,
    language: str,
    names: Iterable[Mark] = (),
) -> tuple[list[tuple[Chunk, Span]], list[Parent]]:
    """Sections cut to the size of parents, and each of those to the size of children."""
    above, lines = sizes.of_parents(), Lines(text)
    parents: list[Parent] = []
    inner: list[Section] = []
    for section in joined(text, sections, above):
        for start, end in pieces(text, section.span, above):
            place = (lines.at(start), lines.at(end - 1))
            parents.append(Parent(text[start:end], section.header_path, *place))
            inner.append(
                replace(section, start=start, end=end, parent=len(parents) - 1)
            )
    return list(cut(text, inner, sizes.of_children(), language, names)), parents


def _shared(first: Section, second: Section) -> tuple[tuple[str, ...], tuple[str, ...]]:
    long, short = sorted(
        (first, second), key=lambda section: len(section.trail), reverse=True
    )
    if long.trail[: len(short.trail)] == short.trail:
        return long.scope, long.names
    if first.scope == second.scope:
        return first.scope, (*first.names, *second.names)
    pairs = takewhile(
        lambda pair: pair[0] == pair[1], zip(first.scope, second.scope, strict=False)
    )
    return tuple(name for name, _ in pairs), ()


def _tells(text: str, section: Section) -> bool:
    return _TELLING.search(text[slice(*section.span)]) is not None


def _match(text: str, first: Section, second: Section, sizes: ChunkingSettings) -> bool:
    """They fit in one chunk, and are not data and code that could each stand alone."""
    if second.end - first.start > sizes.max_chars:
        return False
    return first.data == second.data or is_small(
        text, (first if first.data else second).span, sizes
    )
