"""Source code by its structure: chunks that are whole definitions, an outline, and links to what is imported.

A chunk is a function, a method or a small class with its comment and decorators, and its header path
says where it is (`Client > retry`). What stands between definitions (imports, constants, code that
runs) is in chunks too, so no line is lost; a class that is too large for one chunk becomes its head and
its members. A run of constants that is long enough to stand alone is `data`.

With parents the chunks are cut smaller, and each has the largest definition around it that can be
shown whole, or the outline of its class or file.

A file that mostly does not parse is cut into windows of lines.
"""

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice, zip_longest
from operator import itemgetter
from typing import NamedTuple

from tamis.ingest.code.grammars import CONSTANT, GRAMMARS
from tamis.ingest.code.imports import import_targets
from tamis.ingest.code.symbols import TYPES, Reading, Symbol, reading
from tamis.ingest.documents.sections import (
    SEPARATOR,
    Lines,
    Parsed,
    Span,
    common_start,
    is_small,
    parse_plain,
    pieces,
    trimmed,
)
from tamis.model import Chunk, Link, Parent
from tamis.settings import ChunkingSettings
from tamis.text.languages import CODE_LANGUAGE, ChunkType, extension, file_name

_SHOWN = {
    "cpp": "C++",
    "csharp": "C#",
    "javascript": "JavaScript",
    "php": "PHP",
    "tsx": "TSX",
    "typescript": "TypeScript",
}
# No file that people wrote refers to more; a made one could to a million.
_MAX_LINKS = 2000
# A breadcrumb is read with every passage: of many names it shows as many as fit.
_MAX_NAMES = 100
# A line with a word in it that is no condition of the preprocessor.
_TELLING = re.compile(
    r"^(?![ \t]*+#[ \t]*+(?:if|ifdef|ifndef|elif|else|endif)\b)[^\w\n]*+\w",
    re.MULTILINE,
)

Mark = tuple[int, str]  # a place of the text, and a name that stands there
Placed = tuple[Chunk, Span]


def parse_code(path: str, text: str, sizes: ChunkingSettings) -> Parsed:
    """Cut source by its definitions; into windows of lines if no grammar can read it."""
    language = CODE_LANGUAGE[extension(path)]
    grammar = "tsx" if extension(path) == ".tsx" else language
    if grammar not in GRAMMARS:
        return parse_plain(path, text, sizes)
    found = reading(text, grammar)
    if found is None:
        shown = _SHOWN.get(grammar, grammar.capitalize())
        warning = f"not understood as {shown}: indexed as text"
        return replace(parse_plain(path, text, sizes), warning=warning)
    name = file_name(path)
    placed, parents = _placed(name, text, language, found, sizes)
    chunks = [chunk for chunk, _ in placed]
    if len(found.definitions) > 1:
        lines = Lines(text).of((0, len(text)))
        for _, page in outlines(found.definitions, sizes.max_chars):
            ordinal = len(chunks)
            chunk = Chunk(ordinal, page, name, *lines, "symbols", language)
            chunks.append(chunk)
    links = _links(path, text, language, found.imports, placed)
    return Parsed(chunks, parents, links)


def _placed(
    name: str, text: str, language: str, found: Reading, sizes: ChunkingSettings
) -> tuple[list[Placed], list[Parent]]:
    """Return the chunks with their places, and the parents that they name."""
    marks = sorted((each.place, ".".join(each.trail)) for each in found.symbols)
    if not sizes.parents or not found.definitions:
        level = sizes
        if sizes.parents:
            level = sizes.of_parents()
        sections = _definitions(text, found, level)
        return cut_sections(text, sections, sizes, language, marks)
    children = sizes.of_children()
    sections = joined(text, _definitions(text, found, children), children)
    cuts = _cut(text, sections, children, language, marks)
    spans = [span for _, span in cuts]
    above = _parents(name, text, found.definitions, spans, sizes.parent_max_chars)
    placed = []
    numbers: dict[Parent, int] = {}
    for (chunk, span), parent in zip(cuts, above, strict=True):
        if parent:
            number = numbers.setdefault(parent, len(numbers))
            chunk = replace(chunk, parent=number)
        placed.append((chunk, span))
    return placed, list(numbers)


def _links(
    path: str,
    text: str,
    language: str,
    spans: Iterable[Span],
    placed: Iterable[Placed],
) -> list[Link]:
    """Return what the import statements refer to, each with the chunk that it stands in."""
    marks = (
        (start, target)
        for start, end in spans
        for target in import_targets(path, text[start:end], language)
    )
    ends = [end for _, (_, end) in placed]
    links: dict[Link, None] = {}
    for place, target in islice(marks, _MAX_LINKS):
        ordinal = bisect_right(ends, place)
        if ordinal < len(ends):
            links[Link("import", target, ordinal=ordinal)] = None
    return list(links)


# --- Sections ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a file in whole lines."""

    start: int
    end: int
    scope: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # of its parts, when all are in the same scope
    data: bool = False  # constants or configuration
    parent: int | None = None  # the number of the parent that it is, or lies in

    @property
    def span(self) -> Span:
        return self.start, self.end

    @property
    def header_path(self) -> str:
        if not self.names:
            return SEPARATOR.join(self.scope)
        shown, *others = dict.fromkeys(self.names)
        for name in others:
            if len(shown) + len(name) > _MAX_NAMES:
                break
            shown = f"{shown}, {name}"
        return SEPARATOR.join((*self.scope, shown))


def _definitions(
    text: str,
    found: Reading,
    sizes: ChunkingSettings,
) -> list[Section]:
    """Return the whole text in sections of whole lines: definitions, and what stands between them.

    A definition that is too large gives way to those in it; what remains of it has its name.
    Constants that follow each other are one section, up to the size of a chunk; comments among
    them belong to them, comments alone are no data.
    """
    sections: list[Section] = []
    place = 0
    data = _Data(text, found)

    def add(end: int, symbol: Symbol | None) -> None:
        """Add the section from the last one to the end of the line of `end`."""
        nonlocal place
        if end <= place:
            return
        start = place
        place = text.find("\n", end - 1) + 1 or len(text)
        section = Section(start, place, data=data.alone(start, place))
        if symbol:
            own = (symbol.name,)
            section = replace(section, scope=symbol.scope, names=own)
        if sections and sections[-1].data and section.data:
            size = place - sections[-1].start
            if size <= sizes.max_chars:
                section = _together(sections.pop(), section)
        sections.append(section)

    outer: list[Symbol] = []
    done = 0
    others = found.symbols[1:]
    for symbol, following in zip_longest(found.symbols, others):
        if symbol.end <= done:
            continue
        while outer and outer[-1].end <= symbol.start:
            inner = outer.pop()
            add(inner.end, inner)
        line_start = text.rfind("\n", place, symbol.start) + 1
        add(line_start, outer[-1] if outer else None)
        is_large = symbol.end - symbol.start > sizes.max_chars
        holds_next = following and following.end <= symbol.end
        # A constant inside is another name of the same declaration, not a part of it.
        if is_large and holds_next and following.kind != CONSTANT:
            outer.append(symbol)
        else:
            done = symbol.end
            add(symbol.end, symbol)
    for symbol in reversed(outer):
        add(symbol.end, symbol)
    add(len(text), None)
    for number, section in enumerate(sections):
        if not section.names:
            sections[number] = replace(section, data=False)
    return sections


class _Data:
    """The parts of a text that are nothing but constants and their comments."""

    def __init__(self, text: str, found: Reading) -> None:
        self._text = text
        constants = [each for each in found.symbols if each.kind == CONSTANT]
        spans = {(constant.start, constant.end) for constant in constants}
        self._spans = sorted(spans.union(found.comments))
        self._definitions = [each.place for each in found.definitions]

    def alone(self, start: int, end: int) -> bool:
        """Return True if a span has neither a definition nor other text."""
        first = bisect_left(self._definitions, start)
        if first < bisect_left(self._definitions, end):
            return False
        place = start
        first = bisect_left(self._spans, (start, 0))
        after = bisect_left(self._spans, (end, 0))
        # The one before may reach in.
        for begin, close in self._spans[max(0, first - 1) : after]:
            if self._text[place:begin].strip(" \t\n;"):
                break
            place = max(place, close)
        return not self._text[place:end].strip(" \t\n;")


def joined(
    text: str, sections: Iterable[Section], sizes: ChunkingSettings
) -> list[Section]:
    """Join sections that are too short to stand alone with the next (the last with the one before).

    What tells nothing goes with what stands before it (the brace that closes a class, `#endif`), or after
    it when it is the first.
    """

    def tells(section: Section) -> bool:
        content = text[section.start : section.end]
        return _TELLING.search(content) is not None

    def small(section: Section) -> bool:
        return is_small(text, section.span, sizes)

    def match(first: Section, second: Section) -> bool:
        """They fit in one chunk, and are not data and code that could each stand alone."""
        if second.end - first.start > sizes.max_chars:
            return False
        if first.data == second.data:
            return True
        return small(first if first.data else second)

    done: list[Section] = []
    for section in sections:
        last = done[-1] if done else None
        if last and not tells(section):
            done[-1] = replace(last, end=section.end)
        elif last and len(done) == 1 and not tells(last):
            done[-1] = replace(section, start=last.start)
        elif last and small(last) and match(last, section):
            done[-1] = _together(last, section)
        else:
            done.append(section)
    if len(done) > 1:
        first, second = done[-2:]
        if small(second) and match(first, second):
            done[-2:] = [_together(first, second)]
    return done


def _together(first: Section, second: Section) -> Section:
    """Neighbours in one scope are both named; a head and its first member are about the member."""
    long = (*first.scope, *first.names)
    short = (*second.scope, *second.names)
    inner = first
    if len(short) > len(long):
        long, short = short, long
        inner = second
    scope = inner.scope
    names = inner.names
    if long[: len(short)] != short:
        scope = common_start(first.scope, second.scope)
        names = ()
        if first.scope == second.scope:
            names = first.names + second.names
    data = first.data and second.data
    return Section(first.start, second.end, scope, names, data)


# --- Cutting ----------------------------------------------------------------------------


def cut_sections(
    text: str,
    sections: Iterable[Section],
    sizes: ChunkingSettings,
    language: str,
    names: Iterable[Mark],
) -> tuple[list[Placed], list[Parent]]:
    """Join sections and cut them to chunks, with parents first to their size and then to that of children.

    A name goes to the first chunk that it stands in.
    """
    if not sizes.parents:
        sections = joined(text, sections, sizes)
        return _cut(text, sections, sizes, language, names), []
    above = sizes.of_parents()
    lines = Lines(text)
    parents: list[Parent] = []
    inner = []
    for section in joined(text, sections, above):
        for start, end in pieces(text, section.span, above):
            number = len(parents)
            part = replace(section, start=start, end=end, parent=number)
            inner.append(part)
            first, last = lines.of(part.span)
            parent = Parent(text[start:end], part.header_path, first, last)
            parents.append(parent)
    return _cut(text, inner, sizes.of_children(), language, names), parents


def _cut(
    text: str,
    sections: Iterable[Section],
    sizes: ChunkingSettings,
    language: str,
    names: Iterable[Mark],
) -> list[Placed]:
    lines = Lines(text)
    left = deque(names)
    placed: list[Placed] = []
    for section in sections:
        kind: ChunkType = "data" if section.data else "definitions"
        for start, end in pieces(text, section.span, sizes):
            own = []
            while left and left[0][0] < end:
                own.append(left.popleft()[1])
            chunk = Chunk(
                len(placed),
                text[start:end],
                section.header_path,
                *lines.of((start, end)),
                kind,
                language,
                names=tuple(dict.fromkeys(own)),
                parent=section.parent,
            )
            placed.append((chunk, (start, end)))
    return placed


# --- Outlines and parents ---------------------------------------------------------------


def outlines(found: Sequence[Symbol], size: int) -> Iterator[tuple[int, str]]:
    """Yield the signatures of what a file defines, a line each, indented by scope, in pages of a size.

    Each page with the number of its first symbol; above that, a later page repeats what is around it. Made
    from the file, not a run of its text: these lines stand nowhere together.
    """
    page: list[str] = []
    around: list[tuple[Symbol, str]] = []
    first = 0
    length = 0
    for number, symbol in enumerate(found):
        depth = len(symbol.scope)
        while around:
            last, _ = around[-1]
            if last.end > symbol.start and len(last.scope) < depth:
                break
            around.pop()
        line = f"{'  ' * depth}{symbol.signature}"[:size].rstrip()
        if page and length + len(line) > size:
            yield first, "\n".join(page)
            first = number
            # The innermost that fit, in no more than half a page: the rest is for what is new.
            room = min(size - len(line), size // 2)
            page = []
            for _, head in reversed(around):
                room -= len(head) + 1
                if room < 0:
                    break
                page.insert(0, head)
            length = sum(len(head) + 1 for head in page)
        page.append(line)
        length += len(line) + 1
        around.append((symbol, line))
    if page:
        yield first, "\n".join(page)


class _Whole(NamedTuple):
    """A definition in whole lines, or the file."""

    span: Span
    title: str
    is_type: bool = False


def _parents(
    name: str,
    text: str,
    defined: Sequence[Symbol],
    spans: Sequence[Span],
    size: int,
) -> Iterator[Parent | None]:
    """Yield the parent of each span."""
    lines = Lines(text)
    starts = [symbol.start for symbol in defined]
    everything = (0, len(text))
    content = next(trimmed(text, everything), everything)

    @cache
    def pages(whole: _Whole) -> list[tuple[int, Parent]]:
        """The outline of a span; each page with the number of its first definition."""
        start, end = whole.span
        first = bisect_left(starts, start)
        inside = defined[first : bisect_left(starts, end)]
        place = lines.of(whole.span)
        found = []
        for number, page in outlines(inside, size):
            parent = Parent(page, whole.title, *place)
            found.append((first + number, parent))
        return found

    wholes = _around(text, defined, spans)
    for span, around in zip(spans, wholes, strict=True):
        others = [whole for whole in around if whole.span != span]
        shown = [_Whole(content, name), *others]
        fitting = [each for each in shown if each.span[1] - each.span[0] <= size]
        if fitting:
            start, end = fitting[0].span
            yield Parent(text[start:end], fitting[0].title, *lines.of((start, end)))
            continue
        types = [whole for whole in others if whole.is_type]
        outer = [_Whole(everything, name), *types]
        found = pages(outer[-1])
        # The page with the first definition in the span, or with the one that it lies in.
        start, end = span
        first = bisect_left(starts, start)
        if first == bisect_left(starts, end):
            first -= 1
        number = bisect_right(found, first, key=itemgetter(0)) - 1
        yield found[max(0, number)][1] if found else None


def _around(
    text: str, defined: Iterable[Symbol], spans: Iterable[Span]
) -> Iterator[list[_Whole]]:
    """Yield the definitions around each span, from the outside in; both come in the order of the text."""
    waiting: deque[_Whole] = deque()
    for symbol in defined:
        start = text.rfind("\n", 0, symbol.start) + 1
        end = text.find("\n", symbol.end - 1) + 1 or len(text)
        title = SEPARATOR.join(symbol.trail)
        for span in trimmed(text, (start, end)):
            waiting.append(_Whole(span, title, symbol.kind in TYPES))
    opened: list[_Whole] = []
    for start, end in spans:
        while waiting and waiting[0].span[0] <= start:
            new = waiting.popleft()
            begin, _ = new.span
            opened = [whole for whole in opened if whole.span[1] > begin]
            opened.append(new)
        yield [whole for whole in opened if whole.span[1] >= end]
