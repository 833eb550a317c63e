"""Definitions of a source file: functions, methods, classes and constants, with their places.

`grammars` says what a definition is, `child` asks it where it can do no harm;
this makes symbols of the answer: the name with the names around it, the comment and the decorators that
belong to it, the signature on one line. A text that mostly does not parse has none.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tamis.ingest.code.child import CHILD
from tamis.ingest.code.grammars import (
    ABOVE,
    CONSTANT,
    ERROR,
    IMPORT,
    WRAP,
    Capture,
)
from tamis.ingest.documents.sections import Lines, Span

# Above this share of the text in errors, the tree is a guess and windows of lines serve better.
_MAX_ERRORS = 0.5
# Definitions nested deeper are part of the one around them. Bounds what a scope can hold.
_MAX_DEPTH = 12
_MAX_NAME = 200
_MAX_SIGNATURE = 200
_MAX_INDENT = 200
# A header that says `.h` may be C++, and JavaScript may have types (Flow): tried when there are errors.
_SECOND_READING = {"c": "cpp", "javascript": "tsx"}

_TYPES = "class struct interface trait impl enum object record union extension"
TYPES = frozenset(_TYPES.split())
_FUNCTIONS = frozenset({"function", "method"})
_SPACES = frozenset({"namespace", "module"})
_NO_DEFINITION = frozenset({ABOVE, WRAP, ERROR, IMPORT})
# Where a dot or a colon in a name is part of it.
_UNQUALIFIED = frozenset({"bash", "kotlin", "python", "scala"})
_UNNAMED = {"companion": "Companion"}  # what Kotlin calls it
# `Foo.prototype.bar = function` defines `Foo > bar`, `module.exports.bar = function` defines `bar`.
_NO_SCOPE = frozenset({"prototype", "exports", "module", "this", "self"})

_ARGUMENTS = re.compile(r"(?<=\w)<[^<>]*>")
_OPERATOR = re.compile(r"\boperator\b\s*(?:\(\s*\)|[^(]*)")
_SEPARATORS = re.compile(r"::|[.:]")
_WORDS = re.compile(r"\w+")


class Symbol(NamedTuple):
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
    def trail(self) -> tuple[str, ...]:
        return (*self.scope, self.name)


class Reading(NamedTuple):
    """The result of parsing a text, in the order of the text."""

    symbols: tuple[Symbol, ...]  # outer before inner
    comments: tuple[Span, ...]  # and attributes: they describe what is below
    imports: tuple[Span, ...]

    @property
    def definitions(self) -> list[Symbol]:
        """The symbols without the constants."""
        return [symbol for symbol in self.symbols if symbol.kind != CONSTANT]


class _Open(NamedTuple):
    """A definition whose end has not been reached, or the whole file."""

    capture: Capture
    kind: str
    trail: tuple[str, ...]


def reading(text: str, language: str) -> Reading | None:
    """Parse source; None if there is no grammar for the language or the text does not parse.

    Besides the languages of `tamis.text.languages` there is `tsx`, for TypeScript with elements in it.
    """
    best = _read(text, language)
    if best and best[0] and language in _SECOND_READING:
        other = _read(text, _SECOND_READING[language])
        if other and other[0] < best[0]:
            best = other
    if best is None or best[0] > _MAX_ERRORS:
        return None
    _, captures = best
    comments = [capture.span for capture in captures if capture.kind == ABOVE]
    imports = [capture.span for capture in captures if capture.kind == IMPORT]
    symbols = _symbols(text, captures, language)
    return Reading(tuple(symbols), tuple(comments), tuple(imports))


def _read(
    text: str,
    language: str,
) -> tuple[float, list[Capture]] | None:
    """Return the captures, with the share of the text that the grammar could not read."""
    captures = CHILD.captures(text, language)
    if captures is None:
        return None
    outer: list[Capture] = []
    wrong = 0
    for capture in captures:
        if capture.kind == WRAP:
            continue
        while outer and outer[-1].end <= capture.start:
            outer.pop()
        # What a definition or a comment in an error covers was read, an error in a definition was not.
        if capture.kind == ERROR:
            wrong += capture.end - capture.start
        if outer and outer[-1].kind == ERROR:
            wrong -= capture.end - capture.start
        outer.append(capture)
    return wrong / max(1, len(text)), captures


def _symbols(
    text: str,
    captures: Sequence[Capture],
    language: str,
) -> Iterator[Symbol]:
    layout = _Layout(text, captures)
    wraps: list[Capture] = []
    nothing = (0, 0)
    file = Capture("", 0, len(text) + 1, nothing, nothing, -1)
    outer = [_Open(file, "module", ())]
    free = 0  # the end of the definition before this one
    for capture in captures:
        if capture.kind == WRAP:
            wraps.append(capture)
        if capture.kind in _NO_DEFINITION:
            continue
        around = outer[-1]
        while (
            around.capture.end <= capture.start or around.capture.span == capture.span
        ):
            free = outer.pop().capture.end
            around = outer[-1]
        # A wrap ends with its definition, or one semicolon later.
        start = capture.start
        for wrap in wraps:
            if wrap.end - capture.end in (0, 1):
                start = min(start, wrap.start)
        wraps.clear()
        names = _names(text, capture, language)
        if not names or len(outer) > _MAX_DEPTH:
            continue
        if _is_part(around, capture, names[-1]):
            continue
        kind = capture.kind
        in_type = around.kind in TYPES or len(names) > 1
        if kind == "typedef":
            kind = "type"
        elif kind == "function" and in_type:
            kind = "method"
        lowest = max(free, around.capture.start, layout.with_above(start))
        trail = (*around.trail, *names)
        place = capture.name[0]
        line_start = text.rfind("\n", start, capture.start) + 1
        signature = _signature(text, capture, max(start, line_start))
        yield Symbol(
            name=trail[-1],
            kind=kind,
            scope=trail[:-1],
            start=min(capture.start, lowest),
            end=capture.end,
            place=place,
            line=layout.at(place),
            signature=signature or trail[-1],
        )
        # The typedef of a struct has nothing in it: the struct has a name of its own.
        if capture.kind not in ("typedef", CONSTANT):
            outer.append(_Open(capture, kind, trail))


class _Layout(Lines):
    """The lines of a text, and which of them end comments or attributes that belong to what is below."""

    def __init__(self, text: str, captures: Sequence[Capture]) -> None:
        super().__init__(text)
        self._text = text
        self._above: dict[int, int] = {}  # the start of a comment, by its last line
        for capture in captures:
            if capture.kind == ABOVE and self._begins_line(capture.start):
                last = capture.end - 1
                if text.endswith("\n", capture.start, capture.end):
                    last -= 1
                self._above[self.at(last)] = capture.start

    def with_above(self, place: int) -> int:
        """Return the start of the comments and attributes right above a place."""
        while self._begins_line(place):
            above = self.at(place) - 1
            # A documentation comment may have a blank line between.
            comment = self._above.get(above - 1, -1)
            if self._text.startswith("/**", comment):
                start, end = self.starts[above - 1 : above + 1]
                if not self._text[start:end].strip():
                    above -= 1
            if above not in self._above:
                break
            place = self._above.pop(above)
        return place

    def _begins_line(self, place: int) -> bool:
        start = self.starts[self.at(place) - 1]
        if place - start > _MAX_INDENT:
            return False
        return not self._text[start:place].strip()


def _is_part(around: _Open, capture: Capture, name: str) -> bool:
    """Return True for what is no definition of its own.

    `f = function f() {}`, what looks like a prototype in a function, constants that are not the file's.
    """
    if capture.kind == CONSTANT:
        return around.kind not in _SPACES
    if capture.kind == "prototype":
        return around.kind in _FUNCTIONS
    if capture.body != around.capture.body:
        return False
    return name == around.trail[-1]


def _names(text: str, capture: Capture, language: str) -> list[str]:
    """Return the name of a definition and the names before it: `Client<T>::retry` -> `Client`, `retry`."""
    written = text[slice(*capture.name)][: 2 * _MAX_NAME]
    name = " ".join(written.split())
    operator = _OPERATOR.search(name)
    if capture.kind == "impl":
        names = _WORDS.findall(_without_arguments(name))[-1:]
    elif name.startswith(tuple("[\"'`")) and language != "ruby":
        names = [name.strip("[]\"'`")]  # a computed or quoted name
    elif language in _UNQUALIFIED:
        names = [_UNNAMED.get(name, name)]
    elif operator:
        names = _split(name[: operator.start()])
        names.append(operator[0].strip())
    else:
        names = _split(name)
    around = text[slice(*capture.within)][:_MAX_NAME]
    belongs = _WORDS.findall(around)[:1]
    return belongs + [part[:_MAX_NAME] for part in names[-_MAX_DEPTH:]]


def _split(name: str) -> list[str]:
    parts = _SEPARATORS.split(_without_arguments(name))
    *before, last = map(str.strip, parts)
    if not last:
        return []
    names = [part for part in before if part and part not in _NO_SCOPE]
    return [*names, last]


def _without_arguments(name: str) -> str:
    for _ in range(4):  # as deep as arguments of arguments go
        name = _ARGUMENTS.sub("", name)
    return name


def _signature(text: str, capture: Capture, start: int) -> str:
    """Return the text up to the body or the first brace: `def retry(self, n: int) -> bool`."""
    if capture.kind == CONSTANT:
        return ""  # one declaration may have thousands, and no outline shows them
    end = capture.body
    if end >= capture.end:
        brace = text.find("{", start, capture.end)
        if brace >= 0:
            end = brace
    limit = start + 4 * _MAX_SIGNATURE
    words = text[start : min(end, limit)].split()
    if end < capture.name[0]:  # typedef struct { ... } point
        words += text[slice(*capture.name)].split()
    line = " ".join(words).removesuffix("=>")
    return line.rstrip(" {:=;,")[:_MAX_SIGNATURE]
