"""Source code by its structure: chunks that are whole definitions, an outline, and links to what is imported.

A chunk is a function, a method or a small class with its comment and decorators, and says in its header
path where it stands (`Client > retry`). What stands between definitions (imports, constants, code that
runs) is in chunks too, so no line is lost; a class that is too large for one chunk becomes its head and
its members. A run of constants that is long enough to stand alone is `data`.

With parents the chunks are cut smaller, and each has the largest definition around it that can be
shown whole, or the outline of its class or file.

A file that mostly does not parse has no parts here: the caller takes windows of lines.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from tamis.ingest.code.grammars import CONSTANT, GRAMMARS
from tamis.ingest.code.imports import import_targets
from tamis.ingest.code.symbols import (
    TYPES,
    Mark,
    Reading,
    Section,
    Symbol,
    cut,
    joined,
    reading,
    taken,
    together,
    two_levels,
)
from tamis.ingest.documents.sections import SEPARATOR, Lines, Passages, Span, trimmed
from tamis.model import Chunk, Link, Parent
from tamis.settings import ChunkingSettings
from tamis.text.languages import CODE_LANGUAGE, extension, file_name

_SHOWN: Final = {
    "cpp": "C++", "csharp": "C#", "javascript": "JavaScript", "php": "PHP", "tsx": "TSX",
    "typescript": "TypeScript",
}  # fmt: skip
# No file that people wrote refers to more; a made one could to a million.
_MAX_LINKS: Final = 2000

Placed = tuple[Chunk, Span]


def code_parts(
    path: str, text: str, sizes: ChunkingSettings
) -> tuple[Passages | None, str]:
    """The parts of a source file, and a warning; no parts where no grammar can read it."""
    language = CODE_LANGUAGE.get(extension(path), "")
    grammar = "tsx" if extension(path) == ".tsx" else language
    if grammar not in GRAMMARS:
        return None, ""
    found = reading(text, grammar)
    if found is None:
        return (
            None,
            f"not understood as {_SHOWN.get(grammar, grammar.capitalize())}: indexed as text",
        )
    return _parts(path, text, language, found, sizes), ""


def _parts(
    path: str, text: str, language: str, found: Reading, sizes: ChunkingSettings
) -> Passages:
    defined = _defined(found)
    placed, parents = _placed(path, text, language, found, sizes)
    chunks = [chunk for chunk, _ in placed]
    if len(defined) > 1:
        name, last = file_name(path), Lines(text).at(len(text) - 1)
        for _, content in outlines(defined, sizes.max_chars):
            chunks.append(
                Chunk(len(chunks), content, name, 1, last, "symbols", language)
            )
    return Passages(chunks, parents, list(_links(path, text, language, found, placed)))


def _placed(
    path: str, text: str, language: str, found: Reading, sizes: ChunkingSettings
) -> tuple[list[Placed], list[Parent]]:
    """The chunks with their places, and the parents that they name."""
    names = sorted((symbol.place, symbol.qualified) for symbol in found.symbols)
    if sizes.parents and not _defined(found):  # nothing to outline
        return two_levels(
            text, _sections(text, found, sizes.of_parents()), sizes, language, names
        )
    inner = sizes.of_children() if sizes.parents else sizes
    sections = joined(text, _sections(text, found, inner), inner)
    placed = list(cut(text, sections, inner, language, names))
    return (
        _with_parents(file_name(path), text, found, placed, sizes)
        if sizes.parents
        else (placed, [])
    )


def _with_parents(
    name: str,
    text: str,
    found: Reading,
    placed: Sequence[Placed],
    sizes: ChunkingSettings,
) -> tuple[list[Placed], list[Parent]]:
    spans = [span for _, span in placed]
    numbers, parents = code_parents(
        name, text, _defined(found), spans, sizes.parent_max_chars
    )
    pairs = zip(placed, numbers, strict=True)
    return [
        (replace(chunk, parent=number), span) for (chunk, span), number in pairs
    ], parents


def _defined(found: Reading) -> list[Symbol]:
    return [symbol for symbol in found.symbols if symbol.kind != CONSTANT]


# Links


def _links(
    path: str, text: str, language: str, found: Reading, placed: Sequence[Placed]
) -> Iterator[Link]:
    marks = deque(_imported(path, text, language, found.imports))
    for chunk, (_, end) in placed:
        for target in dict.fromkeys(taken(marks, end)):
            yield Link("import", target, ordinal=chunk.ordinal)


def _imported(
    path: str, text: str, language: str, spans: Iterable[Span]
) -> Iterator[Mark]:
    count = 0
    for start, end in spans:
        for target in import_targets(path, text[start:end], language):
            if (count := count + 1) > _MAX_LINKS:
                return
            yield start, target


# Sections


def _sections(text: str, found: Reading, sizes: ChunkingSettings) -> Iterator[Section]:
    return _constants_joined(_definitions(text, found, sizes), sizes)


def _definitions(
    text: str, found: Reading, sizes: ChunkingSettings
) -> Iterator[Section]:
    """The whole text in sections of whole lines: definitions, and what stands between them.

    A definition that is too large gives way to those in it; what remains of it has its name.
    """
    place, done = 0, 0
    outer: list[Symbol] = []
    symbols = found.symbols
    data = _Data(text, found)

    def upto(end: int, scope: tuple[str, ...], *names: str) -> Iterator[Section]:
        """Yield the section from the last one to the end of the line of `end`."""
        nonlocal place
        if end > place:
            begin, place = place, (text.find("\n", end - 1) + 1) or len(text)
            yield Section(begin, place, scope, names, data.alone(begin, place))

    def close(start: int) -> Iterator[Section]:
        while outer and outer[-1].end <= start:
            inner = outer.pop()
            yield from upto(inner.end, inner.scope, inner.name)

    for number, symbol in enumerate(symbols):
        if symbol.end <= done:
            continue
        yield from close(symbol.start)
        around = outer[-1] if outer else None
        begin = max(place, text.rfind("\n", place, symbol.start) + 1)
        yield from upto(
            begin, around.scope if around else (), *((around.name,) if around else ())
        )
        if symbol.end - symbol.start > sizes.max_chars and _holds_next(symbols, number):
            outer.append(symbol)
        else:
            done = symbol.end
            yield from upto(symbol.end, symbol.scope, symbol.name)
    yield from close(len(text))
    yield from upto(len(text), ())


def _holds_next(found: Sequence[Symbol], number: int) -> bool:
    """Return True if the next symbol lies in this one; another name of it does not count."""
    if number + 1 == len(found):
        return False
    this, following = found[number], found[number + 1]
    return following.end <= this.end and following.kind != CONSTANT


class _Data:
    """The parts of a text that are nothing but constants and their comments."""

    def __init__(self, text: str, found: Reading) -> None:
        self._text = text
        self._constants = [
            (each.start, each.end) for each in found.symbols if each.kind == CONSTANT
        ]
        self._spans = sorted({*self._constants, *found.comments})
        self._definitions = [
            each.place for each in found.symbols if each.kind != CONSTANT
        ]

    def alone(self, start: int, end: int) -> bool:
        if _any_within(self._definitions, start, end):
            return False
        place, first = start, max(0, bisect_left(self._spans, (start, 0)) - 1)
        for number in range(first, len(self._spans)):
            begin, close = self._spans[number]
            if begin >= end or (
                begin > place and self._text[place:begin].strip(" \t\n;")
            ):
                break
            place = max(place, close)
        return not self._text[place:end].strip(" \t\n;")


def _any_within(places: Sequence[int], start: int, end: int) -> bool:
    first = bisect_left(places, start)
    return first < len(places) and places[first] < end


def _constants_joined(
    sections: Iterable[Section], sizes: ChunkingSettings
) -> Iterator[Section]:
    """Constants that follow each other as one section, up to the size of a chunk.

    Comments among them belong to them; comments alone are no data.
    """
    last: Section | None = None
    for section in sections:
        if (
            last
            and last.data
            and section.data
            and section.end - last.start <= sizes.max_chars
        ):
            last = together(last, section)
        else:
            if last:
                yield replace(last, data=last.data and bool(last.names))
            last = section
    if last:
        yield replace(last, data=last.data and bool(last.names))


Page = tuple[int, str]  # the number of its first symbol, and its text


@dataclass(frozen=True, slots=True)
class _Whole:
    """A definition in whole lines."""

    symbol: Symbol
    span: Span


def outlines(found: Sequence[Symbol], size: int) -> Iterator[Page]:
    """The signatures of what a file defines, a line each, indented by scope, in pages of a size.

    Each page with the number of its first symbol; above that, a later page repeats what is around it. Made
    from the file, not a run of its text: these lines stand nowhere together.
    """
    page: list[str] = []
    around: list[Symbol] = []
    first = length = 0
    for number, symbol in enumerate(found):
        while around and (
            around[-1].end <= symbol.start or len(around[-1].scope) >= len(symbol.scope)
        ):
            around.pop()
        line = _line(symbol, size)
        if page and length + len(line) > size:
            yield first, "\n".join(page)
            page, first = _heads(around, size, size - len(line)), number
            length = sum(len(head) + 1 for head in page)
        page.append(line)
        length += len(line) + 1
        around.append(symbol)
    if page:
        yield first, "\n".join(page)


def _line(symbol: Symbol, size: int) -> str:
    return f"{'  ' * len(symbol.scope)}{symbol.signature}"[:size].rstrip()


def _heads(around: Sequence[Symbol], size: int, room: int) -> list[str]:
    """The innermost of them that fit, in no more than half a page: the rest is for what is new."""
    room = min(room, size // 2)
    heads: list[str] = []
    for symbol in reversed(around):
        line = _line(symbol, size)
        room -= len(line) + 1
        if room < 0:
            break
        heads.insert(0, line)
    return heads


def code_parents(
    name: str, text: str, defined: Sequence[Symbol], spans: Sequence[Span], size: int
) -> tuple[list[int | None], list[Parent]]:
    """Return the number of each span's parent, and the parents, each of them once."""
    lines, starts = Lines(text), [symbol.start for symbol in defined]
    file = next(trimmed(text, (0, len(text))), (0, 0))

    @cache
    def pages(start: int, end: int) -> list[Page]:
        first, last = bisect_left(starts, start), bisect_left(starts, end)
        return [
            (first + number, page)
            for number, page in outlines(defined[first:last], size)
        ]

    @cache
    def page(span: Span, title: str, number: int) -> Parent:
        return _parent(pages(*span)[number][1], title, span, lines)

    def outline(span: Span, title: str, inner: Span) -> Parent | None:
        """The page of an outline that has the first definition in a span, or the one it lies in."""
        first, after = bisect_left(starts, inner[0]), bisect_left(starts, inner[1])
        at = first if first < after else first - 1
        number = bisect_right(pages(*span), at, key=lambda each: each[0]) - 1
        return page(span, title, max(0, number)) if pages(*span) else None

    def parent(span: Span, around: Sequence[_Whole]) -> Parent | None:
        if file[1] - file[0] <= size:
            return _parent(text[slice(*file)], name, file, lines)
        for outer in around:
            if outer.span != span and outer.span[1] - outer.span[0] <= size:
                return _parent(
                    text[slice(*outer.span)], _trail(outer.symbol), outer.span, lines
                )
        types = [
            each for each in around if each.symbol.kind in TYPES and each.span != span
        ]
        if types:
            return outline(types[-1].span, _trail(types[-1].symbol), span)
        return outline((0, len(text)), name, span)

    known: dict[Parent, int] = {}
    made = (
        parent(*each) for each in zip(spans, _around(text, defined, spans), strict=True)
    )
    numbers = [
        None if each is None else known.setdefault(each, len(known)) for each in made
    ]
    return numbers, list(known)


def _parent(content: str, header_path: str, span: Span, lines: Lines) -> Parent:
    return Parent(
        content, header_path, lines.at(span[0]), lines.at(max(span[0], span[1] - 1))
    )


def _trail(symbol: Symbol) -> str:
    return SEPARATOR.join((*symbol.scope, symbol.name))


def _around(
    text: str, defined: Iterable[Symbol], spans: Iterable[Span]
) -> Iterator[list[_Whole]]:
    """The definitions around each span, from the outside in; both come in the order of the text."""
    opened: list[_Whole] = []
    waiting = iter([_whole(text, symbol) for symbol in defined])
    following = next(waiting, None)
    for start, end in spans:
        while following and following.span[0] <= start:
            opened = [each for each in opened if each.span[1] > following.span[0]]
            opened.append(following)
            following = next(waiting, None)
        yield [each for each in opened if each.span[1] >= end]


def _whole(text: str, symbol: Symbol) -> _Whole:
    line_end = text.find("\n", max(0, symbol.end - 1))
    lines = (
        text.rfind("\n", 0, symbol.start) + 1,
        line_end if line_end >= 0 else len(text),
    )
    return _Whole(symbol, next(trimmed(text, lines), lines))
