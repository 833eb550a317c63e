"""Source code by its structure: chunks that are whole definitions, an outline, and links to what is imported.

A chunk is a function, a method or a small class with its comment and decorators, and says in its header
path where it stands (`Client > retry`). What stands between definitions (imports, constants, code that
runs) is in chunks too, so no line is lost; a class that is too large for one chunk becomes its head and
its members. A run of constants that is long enough to stand alone is `data`.

With parents (P13) the chunks are cut smaller, and each has the largest definition around it that can be
shown whole, or the outline of its class or file.

A file that mostly does not parse has no parts here: the caller takes windows of lines.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from tamis.ingest.grammars import CONSTANT, GRAMMARS
from tamis.ingest.imports import import_targets
from tamis.ingest.outline import code_parents, outlines
from tamis.ingest.scopes import Mark, Section, cut, joined, taken, together, two_levels
from tamis.ingest.sections import Passages
from tamis.ingest.split import Lines, Span
from tamis.ingest.symbols import Reading, Symbol, reading
from tamis.languages import CODE_LANGUAGE, extension, file_name
from tamis.model import Chunk, Link, Parent
from tamis.settings import ChunkingSettings

_SHOWN: Final = {
    "cpp": "C++", "csharp": "C#", "javascript": "JavaScript", "php": "PHP", "tsx": "TSX",
    "typescript": "TypeScript",
}  # fmt: skip
# No file that people wrote refers to more; a made one could to a million.
_MAX_LINKS: Final = 2000

Placed = tuple[Chunk, Span]


def code_parts(path: str, text: str, sizes: ChunkingSettings) -> tuple[Passages | None, str]:
    """The parts of a source file, and a warning; no parts where no grammar can read it."""
    language = CODE_LANGUAGE.get(extension(path), "")
    grammar = "tsx" if extension(path) == ".tsx" else language
    if grammar not in GRAMMARS:
        return None, ""
    found = reading(text, grammar)
    if found is None:
        return None, f"not understood as {_SHOWN.get(grammar, grammar.capitalize())}: indexed as text"
    return _parts(path, text, language, found, sizes), ""


def _parts(path: str, text: str, language: str, found: Reading, sizes: ChunkingSettings) -> Passages:
    defined = _defined(found)
    placed, parents = _placed(path, text, language, found, sizes)
    chunks = [chunk for chunk, _ in placed]
    if len(defined) > 1:
        name, last = file_name(path), Lines(text).at(len(text) - 1)
        for _, content in outlines(defined, sizes.max_chars):
            chunks.append(Chunk(len(chunks), content, name, 1, last, "symbols", language))
    return Passages(chunks, parents, list(_links(path, text, language, found, placed)))


def _placed(
    path: str, text: str, language: str, found: Reading, sizes: ChunkingSettings
) -> tuple[list[Placed], list[Parent]]:
    """The chunks with their places, and the parents that they name."""
    names = sorted((symbol.place, symbol.qualified) for symbol in found.symbols)
    if sizes.parents and not _defined(found):  # nothing to outline
        return two_levels(text, _sections(text, found, sizes.of_parents()), sizes, language, names)
    inner = sizes.of_children() if sizes.parents else sizes
    sections = joined(text, _sections(text, found, inner), inner)
    placed = list(cut(text, sections, inner, language, names))
    return _with_parents(file_name(path), text, found, placed, sizes) if sizes.parents else (placed, [])


def _with_parents(
    name: str, text: str, found: Reading, placed: Sequence[Placed], sizes: ChunkingSettings
) -> tuple[list[Placed], list[Parent]]:
    spans = [span for _, span in placed]
    numbers, parents = code_parents(name, text, _defined(found), spans, sizes.parent_max_chars)
    pairs = zip(placed, numbers, strict=True)
    return [(replace(chunk, parent=number), span) for (chunk, span), number in pairs], parents


def _defined(found: Reading) -> list[Symbol]:
    return [symbol for symbol in found.symbols if symbol.kind != CONSTANT]


# Links


def _links(path: str, text: str, language: str, found: Reading, placed: Sequence[Placed]) -> Iterator[Link]:
    marks = deque(_imported(path, text, language, found.imports))
    for chunk, (_, end) in placed:
        for target in dict.fromkeys(taken(marks, end)):
            yield Link("import", target, ordinal=chunk.ordinal)


def _imported(path: str, text: str, language: str, spans: Iterable[Span]) -> Iterator[Mark]:
    count = 0
    for start, end in spans:
        for target in import_targets(path, text[start:end], language):
            if (count := count + 1) > _MAX_LINKS:
                return
            yield start, target


# Sections


def _sections(text: str, found: Reading, sizes: ChunkingSettings) -> Iterator[Section]:
    return _constants_joined(_definitions(text, found, sizes), sizes)


def _definitions(text: str, found: Reading, sizes: ChunkingSettings) -> Iterator[Section]:
    """The whole text in sections of whole lines: definitions, and what stands between them.

    A definition that is too large gives way to those in it; what remains of it has its name.
    """
    place, done = 0, 0
    outer: list[Symbol] = []
    symbols = found.symbols
    data = _Data(text, found)

    def upto(end: int, scope: tuple[str, ...], *names: str) -> Iterator[Section]:
        """From the last section to the end of the line that `end` ends in."""
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
        yield from upto(begin, around.scope if around else (), *((around.name,) if around else ()))
        if symbol.end - symbol.start > sizes.max_chars and _holds_next(symbols, number):
            outer.append(symbol)
        else:
            done = symbol.end
            yield from upto(symbol.end, symbol.scope, symbol.name)
    yield from close(len(text))
    yield from upto(len(text), ())


def _holds_next(found: Sequence[Symbol], number: int) -> bool:
    """Whether the next symbol lies in this one; another name of the same declaration does not."""
    if number + 1 == len(found):
        return False
    this, following = found[number], found[number + 1]
    return following.end <= this.end and following.kind != CONSTANT


class _Data:
    """Where the text is nothing but constants, and what is said about them."""

    def __init__(self, text: str, found: Reading) -> None:
        self._text = text
        self._constants = [(each.start, each.end) for each in found.symbols if each.kind == CONSTANT]
        self._spans = sorted({*self._constants, *found.comments})
        self._definitions = [each.place for each in found.symbols if each.kind != CONSTANT]

    def alone(self, start: int, end: int) -> bool:
        if _any_within(self._definitions, start, end):
            return False
        place, first = start, max(0, bisect_left(self._spans, (start, 0)) - 1)
        for number in range(first, len(self._spans)):
            begin, close = self._spans[number]
            if begin >= end or (begin > place and self._text[place:begin].strip(" \t\n;")):
                break
            place = max(place, close)
        return not self._text[place:end].strip(" \t\n;")


def _any_within(places: Sequence[int], start: int, end: int) -> bool:
    first = bisect_left(places, start)
    return first < len(places) and places[first] < end


def _constants_joined(sections: Iterable[Section], sizes: ChunkingSettings) -> Iterator[Section]:
    """Constants that follow each other as one section, up to the size of a chunk.

    Comments among them belong to them; comments alone are no data.
    """
    last: Section | None = None
    for section in sections:
        if last and last.data and section.data and section.end - last.start <= sizes.max_chars:
            last = together(last, section)
        else:
            if last:
                yield replace(last, data=last.data and bool(last.names))
            last = section
    if last:
        yield replace(last, data=last.data and bool(last.names))
