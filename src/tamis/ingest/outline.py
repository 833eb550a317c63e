"""The outline of a source file, and the parents of its chunks: what is shown around a small passage (P13).

The parent of a passage is the largest thing around it that can be shown whole: the file, its class, the
function it is a piece of. Where even its class is too large, it is the outline of the class, and outside
of classes that of the file, as much of it as fits around the passage.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from tamis.ingest.sections import SEPARATOR
from tamis.ingest.split import Lines, Span, trimmed
from tamis.ingest.symbols import TYPES, Symbol
from tamis.model import Parent

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
        while around and (around[-1].end <= symbol.start or len(around[-1].scope) >= len(symbol.scope)):
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
    """Which parent each of the spans has (in their order), and the parents, each of them once."""
    lines, starts = Lines(text), [symbol.start for symbol in defined]
    file = next(trimmed(text, (0, len(text))), (0, 0))

    @cache
    def pages(start: int, end: int) -> list[Page]:
        first, last = bisect_left(starts, start), bisect_left(starts, end)
        return [(first + number, page) for number, page in outlines(defined[first:last], size)]

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
                return _parent(text[slice(*outer.span)], _trail(outer.symbol), outer.span, lines)
        types = [each for each in around if each.symbol.kind in TYPES and each.span != span]
        if types:
            return outline(types[-1].span, _trail(types[-1].symbol), span)
        return outline((0, len(text)), name, span)

    known: dict[Parent, int] = {}
    made = (parent(*each) for each in zip(spans, _around(text, defined, spans), strict=True))
    numbers = [None if each is None else known.setdefault(each, len(known)) for each in made]
    return numbers, list(known)


def _parent(content: str, header_path: str, span: Span, lines: Lines) -> Parent:
    return Parent(content, header_path, lines.at(span[0]), lines.at(max(span[0], span[1] - 1)))


def _trail(symbol: Symbol) -> str:
    return SEPARATOR.join((*symbol.scope, symbol.name))


def _around(text: str, defined: Iterable[Symbol], spans: Iterable[Span]) -> Iterator[list[_Whole]]:
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
    lines = (text.rfind("\n", 0, symbol.start) + 1, line_end if line_end >= 0 else len(text))
    return _Whole(symbol, next(trimmed(text, lines), lines))
