"""Make passages of a text and its outline: join, cut and number sections.

A reader (Markdown, reStructuredText, notebooks, none for plain text) tells an `Outline`: places in the
text, nothing about sizes. Everything about sizes is here, once for all formats: short sections join,
long ones are cut, blocks stay whole where they fit, code blocks are passages of their own as well,
and with `chunking.parents` the same is done on two levels. The passages together hold the whole text;
each is an exact run of it, with its lines.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, takewhile
from operator import attrgetter
from typing import Final

from tamis.model import Chunk, Link, LinkType, Parent
from tamis.settings import ChunkingSettings
from tamis.text.languages import ChunkType

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
    """Select from nested blocks, outer first: the outermost that fit, the innermost that do not.

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


def pieces(
    text: str, span: Span, sizes: ChunkingSettings, whole: Sequence[Span] = ()
) -> Iterator[Span]:
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
    """Return the end of a piece: before a block, else after a paragraph, a line or a word."""
    inside = whole[_first_from(whole, start) : _first_from(whole, limit)]
    if inside and inside[-1][1] > limit and inside[-1][0] > start:
        begin, end = inside[-1]
        if end - begin <= limit - start or begin - start >= (limit - start) // 4:
            return begin
    cut = limit
    for mark in ("\n\n", "\n", " "):
        at = text.rfind(mark, (start + limit) // 2, limit)
        if at > start:
            cut = at + len(mark)
            break
    for begin, end in inside:
        if begin < cut < end <= limit:
            return end
    return cut


def _first_from(whole: Sequence[Span], place: int) -> int:
    """Return the number of the first span that begins at the place or after it."""
    return bisect_left(whole, (place, place))


def _overlap_start(
    text: str, start: int, cut: int, sizes: ChunkingSettings, whole: Sequence[Span]
) -> int:
    """Return the start of the next piece: a line or word, at most `overlap_chars` before the cut.

    At the cut itself where a block follows that would not fit with the overlap.
    """
    overlap = sizes.overlap_chars
    earliest = cut - overlap
    if overlap == 0 or earliest <= start:
        return cut
    following = _first_from(whole, cut)
    if following < len(whole):
        begin, end = whole[following]
        latest = cut + sizes.max_chars
        if begin < cut + overlap and latest - overlap < end <= latest:
            return cut
    line = text.find("\n", earliest, cut)
    if 0 <= line < cut - 1:
        return _outside(line + 1, cut, sizes.max_chars, whole)
    space = _SPACE.search(text, earliest, cut)
    if space and space.end() < cut:
        return _outside(space.end(), cut, sizes.max_chars, whole)
    return cut


def _outside(place: int, cut: int, max_chars: int, whole: Sequence[Span]) -> int:
    """The place, or the end of the block that it lies in."""
    at = _first_from(whole, place) - 1
    if at < 0 or whole[at][1] <= place or whole[at][1] - whole[at][0] > max_chars:
        return place
    return min(whole[at][1], cut)


SEPARATOR: Final = " > "
_WORD: Final = re.compile(r"\w")
_MARKING_WORD: Final = re.compile(r"\w[\w-]*+(?:::)?+")


@dataclass(frozen=True, slots=True)
class Heading:
    place: int  # where its line begins
    level: int
    name: str


@dataclass(frozen=True, slots=True)
class Code:
    """A block of code: with what marks it as one, and the lines of code alone."""

    outer: Span
    inner: Span
    language: str | None
    apart: bool = False  # it is no part of the prose around it: the cell of a notebook


@dataclass(frozen=True, slots=True)
class Reference:
    """A link, and where it stands."""

    place: int
    type: LinkType
    target: str
    anchor: str


@dataclass(frozen=True, slots=True)
class Outline:
    """The parts of a text, in its order; a block comes before the blocks inside it."""

    headings: Sequence[Heading] = ()
    blocks: Sequence[
        Span
    ] = ()  # of whole lines, better not cut: code, tables and rows, lists and items
    codes: Sequence[Code] = ()
    references: Sequence[Reference] = ()
    tags: Sequence[str] = ()

    @property
    def title(self) -> str:
        return next(
            (heading.name for heading in self.headings if heading.level == 1), ""
        )


@dataclass(frozen=True, slots=True)
class Section:
    start: int
    end: int
    trail: tuple[str, ...]  # the headings above and including its own
    is_bare: bool = False  # nothing but its heading

    @property
    def span(self) -> Span:
        return self.start, self.end


@dataclass(frozen=True, slots=True)
class Passages:
    """A text cut up."""

    chunks: list[Chunk]
    parents: list[Parent]
    links: list[Link]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A chunk to be."""

    start: int
    end: int
    is_code: bool
    trail: tuple[str, ...]
    parent: int | None
    language: str | None = None


_IN_ORDER: Final = attrgetter(
    "start", "is_code", "end"
)  # code comes after the prose it begins with


def passages(
    text: str,
    outline: Outline,
    sizes: ChunkingSettings,
    *,
    start: int = 0,
    kind: ChunkType = "documentation",
    language: str | None = None,
) -> Passages:
    """The chunks of the text from `start` on, the parents they lie in if asked for, and the links."""
    sections = list(_sections(text, start, outline.headings))
    if sizes.parents:
        parents = _Cutter(text, outline, sizes.of_parents()).cut_up(sections)
        found = _Cutter(text, outline, sizes.of_children()).in_parents(
            parents, sections
        )
    else:
        parents = []
        found = sorted(
            _Cutter(text, outline, sizes).pieces(sections, sections, None),
            key=_IN_ORDER,
        )
    lines = Lines(text)
    chunks = []
    for ordinal, piece in enumerate(found):
        chunk = Chunk(
            ordinal=ordinal,
            content=text[piece.start : piece.end],
            header_path=SEPARATOR.join(piece.trail),
            start_line=lines.at(piece.start),
            end_line=lines.at(piece.end - 1),
            chunk_type=kind,
            language=language,
            parent=piece.parent,
        )
        if piece.is_code:
            chunk = replace(chunk, chunk_type="code_block", language=piece.language)
        chunks.append(chunk)
    shown = []
    for parent in parents:
        content = text[parent.start : parent.end]
        trail = SEPARATOR.join(parent.trail)
        first = lines.at(parent.start)
        last = lines.at(parent.end - 1)
        shown.append(Parent(content, trail, first, last))
    return Passages(chunks, shown, _links(outline.references, found))


# --- Sections ---------------------------------------------------------------------------


def _sections(text: str, start: int, headings: Sequence[Heading]) -> Iterator[Section]:
    if not headings:
        yield Section(start, len(text), ())
        return
    if text[start : headings[0].place].strip():
        yield Section(start, headings[0].place, ())
    above: list[Heading] = []
    ends = [heading.place for heading in headings[1:]] + [len(text)]
    for heading, end in zip(headings, ends, strict=True):
        above = [higher for higher in above if higher.level < heading.level] + [heading]
        trail = tuple(higher.name for higher in above if higher.name)
        lines = text[heading.place : end].split("\n")
        worded = sum(_WORD.search(line) is not None for line in lines)
        is_bare = worded <= bool(_WORD.search(heading.name))
        yield Section(heading.place, end, trail, is_bare)


def _join_small(
    text: str, sections: Iterable[Section], sizes: ChunkingSettings
) -> list[Section]:
    """Join a section that is too short to stand alone with the next (the last one with the one before)."""
    joined: list[Section] = []
    for section in sections:
        if joined and is_small(text, joined[-1].span, sizes):
            last = joined[-1]
            # A heading alone goes with what follows, which is cut if that is too long.
            is_heading_of = last.is_bare and last.end == section.start
            if is_heading_of or _room(last, section, sizes):
                joined[-1] = _together(last, section)
                continue
        joined.append(section)
    if len(joined) > 1 and is_small(text, joined[-1].span, sizes):
        first, last = joined[-2:]
        if _room(first, last, sizes):
            joined[-2:] = [_together(first, last)]
    return joined


def _room(first: Section, second: Section, sizes: ChunkingSettings) -> bool:
    return first.end == second.start and second.end - first.start <= sizes.max_chars


def _together(first: Section, second: Section) -> Section:
    """A heading with its first subsection is about the subsection; two siblings are about what they share."""
    if first.is_bare or second.trail[: len(first.trail)] == first.trail:
        trail = second.trail
    else:
        pairs = takewhile(
            lambda pair: pair[0] == pair[1],
            zip(first.trail, second.trail, strict=False),
        )
        trail = tuple(name for name, _ in pairs) or first.trail
    return Section(first.start, second.end, trail, first.is_bare and second.is_bare)


def _within(sections: Sequence[Section], start: int, end: int) -> Iterator[Section]:
    """The parts of the sections that lie between two places."""
    first = bisect_right(sections, start, key=lambda section: section.end)
    for section in takewhile(
        lambda section: section.start < end, islice(sections, first, None)
    ):
        yield replace(
            section, start=max(section.start, start), end=min(section.end, end)
        )


# --- Pieces -----------------------------------------------------------------------------


class _Cutter:
    """Cuts parts of one text to one size."""

    def __init__(self, text: str, outline: Outline, sizes: ChunkingSettings) -> None:
        self._text, self._outline, self._sizes = text, outline, sizes
        self._whole = whole_blocks(outline.blocks, sizes.max_chars)

    def cut_up(self, sections: Iterable[Section]) -> list[Section]:
        """Sections joined and cut to size."""
        return [
            Section(begin, end, section.trail)
            for section in _join_small(self._text, sections, self._sizes)
            for begin, end in pieces(self._text, section.span, self._sizes, self._whole)
        ]

    def pieces(
        self, part: Sequence[Section], sections: Sequence[Section], parent: int | None
    ) -> Iterator[_Piece]:
        """Yield the pieces of a part of the text: its prose, then the code in it."""
        codes = _codes_of(part, self._outline.codes)
        prose = _without(self._text, part, [code for code in codes if code.apart])
        alone = {code.outer for code in codes if _says_all(self._text, code)}
        for piece in self.cut_up(prose):
            if piece.span not in alone:
                yield _Piece(piece.start, piece.end, False, piece.trail, parent)
        for code in codes:
            span = (max(code.inner[0], part[0].start), min(code.inner[1], part[-1].end))
            trail = next(_within(sections, *code.outer)).trail
            for begin, end in pieces(self._text, span, self._sizes):
                yield _Piece(begin, end, True, trail, parent, code.language)

    def in_parents(
        self, parents: Sequence[Section], sections: Sequence[Section]
    ) -> list[_Piece]:
        """The pieces of all parents. Where parents overlap, what both would have belongs to the first."""
        found: dict[tuple[int, int, bool], _Piece] = {}
        for number, parent in enumerate(parents):
            part = list(_within(sections, parent.start, parent.end))
            for piece in self.pieces(part, sections, number):
                found.setdefault((piece.start, piece.end, piece.is_code), piece)
        return sorted(found.values(), key=_IN_ORDER)


def _says_all(text: str, code: Code) -> bool:
    """Return True if there is no title, caption or option beside the code and its language."""
    if not text[slice(*code.inner)].strip():
        return False
    words = _MARKING_WORD.findall(text, code.outer[0], code.inner[0])
    return (
        sum(1 for word in words if not word.endswith("::")) <= 1
    )  # that is the name of a directive


def _codes_of(part: Sequence[Section], codes: Sequence[Code]) -> Sequence[Code]:
    """The code that lies in a part of the text, or reaches into it."""
    first = bisect_right(codes, part[0].start, key=lambda code: code.inner[1])
    after = bisect_right(codes, part[-1].end - 1, key=lambda code: code.inner[0])
    return codes[first:after]


def _without(
    text: str, part: Sequence[Section], codes: Sequence[Code]
) -> Iterable[Section]:
    """Yield the sections without this code."""
    if not codes:
        yield from part
        return
    for section in part:
        inside = _codes_of([section], codes)
        starts = [section.start, *(code.outer[1] for code in inside)]
        ends = [*(code.outer[0] for code in inside), section.end]
        for start, end in zip(starts, ends, strict=True):
            if text[start:end].strip():
                yield Section(start, end, section.trail)


# --- Links ------------------------------------------------------------------------------


def _links(references: Iterable[Reference], found: Sequence[_Piece]) -> list[Link]:
    """Each with the first passage it stands in; the same link once in a passage."""
    prose = [(piece, at) for at, piece in enumerate(found) if not piece.is_code]
    reach = list(
        accumulate((piece.end for piece, _ in prose), max)
    )  # ascending, as the ends need not be
    links: dict[Link, None] = {}
    for reference in references:
        first = bisect_right(reach, reference.place)
        stands = first < len(prose) and prose[first][0].start <= reference.place
        ordinal = prose[first][1] if stands else None
        links[Link(reference.type, reference.target, reference.anchor, ordinal)] = None
    return list(links)
