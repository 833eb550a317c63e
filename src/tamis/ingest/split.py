"""Cutting a run of text into pieces of bounded size that overlap a little."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from tamis.settings import ChunkingSettings

Span = tuple[int, int]

_SPACE: Final = re.compile(r"\s")
_NON_SPACE: Final = re.compile(r"\S")


class Lines:
    """Line numbers of places in a text, counted on from the place that was asked for last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place, self._line = 0, 1

    def at(self, place: int) -> int:
        """The line, counted from 1, that the character at `place` is in."""
        if place >= self._place:
            self._line += self._text.count("\n", self._place, place)
        else:
            self._line -= self._text.count("\n", place, self._place)
        self._place = place
        return self._line


def whole_blocks(blocks: Iterable[Span], max_chars: int) -> list[Span]:
    """Of blocks within blocks, outer ones first: the outermost that fit, and innermost that do not.

    So a list that fits stays whole; of one that does not, each item that fits does. What is too long
    and has nothing inside is kept too: a piece had better end before it than a little way into it.
    """
    kept: list[Span] = []
    for begin, end in blocks:
        if kept and kept[-1][1] - kept[-1][0] > max_chars and begin < kept[-1][1]:
            kept.pop()
        if not kept or begin >= kept[-1][1]:
            kept.append((begin, end))
    return kept


def pieces(text: str, span: Span, sizes: ChunkingSettings, whole: Sequence[Span] = ()) -> Iterator[Span]:
    """Cut a span into pieces of at most `max_chars`, trimmed, each sharing `overlap_chars` with the last.

    `whole` are spans of whole lines, in order and apart, that are cut only when one alone is too long;
    nor does a piece begin inside one.
    """
    start, end = span
    while end - start > sizes.max_chars:
        cut = _cut(text, start, start + sizes.max_chars, whole)
        yield from trimmed(text, (start, cut))
        start = _overlap_start(text, start, cut, sizes, whole)
    yield from trimmed(text, (start, end))


def is_small(text: str, span: Span, sizes: ChunkingSettings) -> bool:
    """Too short to stand alone."""
    return len(text[slice(*span)].strip()) < sizes.min_chars


def trimmed(text: str, span: Span) -> Iterator[Span]:
    """The span without blank lines at its ends and blanks at its very end; nothing, if nothing is left."""
    start, end = span
    first = _NON_SPACE.search(text, start, end)
    if first is None:
        return
    while text[end - 1].isspace():
        end -= 1
    line_start = text.rfind("\n", start, first.start()) + 1
    yield (max(start, line_start), end)


def _cut(text: str, start: int, limit: int, whole: Sequence[Span]) -> int:
    """Where to end a piece: before a block that would be broken, else after a paragraph, a line, a word."""
    inside = whole[_first_from(whole, start) : _first_from(whole, limit)]
    if inside and inside[-1][1] > limit and inside[-1][0] > start:
        begin, end = inside[-1]
        if end - begin <= limit - start or begin - start >= (limit - start) // 4:
            return begin
    cut = _natural_cut(text, start, limit)
    return next((end for begin, end in inside if begin < cut < end <= limit), cut)


def _first_from(whole: Sequence[Span], place: int) -> int:
    """Which of the spans is the first that begins at the place or after it."""
    return bisect_left(whole, (place, place))


def _natural_cut(text: str, start: int, limit: int) -> int:
    half = (start + limit) // 2
    for mark in ("\n\n", "\n", " "):
        at = text.rfind(mark, half, limit)
        if at > start:
            return at + len(mark)
    return limit


def _overlap_start(text: str, start: int, cut: int, sizes: ChunkingSettings, whole: Sequence[Span]) -> int:
    """Where the next piece begins: at the start of a line or word, at most `overlap_chars` before the cut.

    At the cut itself where a block follows that would not fit with the overlap.
    """
    earliest = cut - sizes.overlap_chars
    if sizes.overlap_chars == 0 or earliest <= start or _needs_room(cut, sizes, whole):
        return cut
    line = text.find("\n", earliest, cut)
    if 0 <= line < cut - 1:
        return _outside(line + 1, cut, sizes.max_chars, whole)
    space = _SPACE.search(text, earliest, cut)
    return _outside(space.end(), cut, sizes.max_chars, whole) if space and space.end() < cut else cut


def _needs_room(cut: int, sizes: ChunkingSettings, whole: Sequence[Span]) -> bool:
    following = whole[(first := _first_from(whole, cut)) : first + 1]
    latest = cut + sizes.max_chars
    return any(
        begin < cut + sizes.overlap_chars and latest - sizes.overlap_chars < end <= latest
        for begin, end in following
    )


def _outside(place: int, cut: int, max_chars: int, whole: Sequence[Span]) -> int:
    """The place, or the end of the block that it lies in."""
    at = _first_from(whole, place) - 1
    if at < 0 or whole[at][1] <= place or whole[at][1] - whole[at][0] > max_chars:
        return place
    return min(whole[at][1], cut)
