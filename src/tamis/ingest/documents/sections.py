"""Make passages of a text and its outline: join, cut and number sections.

A reader (Markdown, reStructuredText, notebooks, none for plain text) gives an `Outline`: places in the
text, nothing about sizes. Everything about sizes is here, once for all formats: short sections join,
long ones are cut, blocks stay whole where they fit, code blocks are passages of their own as well,
and with `chunking.parents` the same is done on two levels. The passages together hold the whole text;
each is an exact run of it, with its lines.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from io import StringIO
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from tamis.model import Chunk, FrontMatter, Link, LinkType, Parent
from tamis.settings import ChunkingSettings
from tamis.text.languages import ChunkType, chunk_type_of, language_of

Span = tuple[int, int]
Trail = tuple[str, ...]  # headings or names, from the outside in

SEPARATOR = " > "
_SPACE = re.compile(r"\s")
_NON_SPACE = re.compile(r"\S")
_WORD = re.compile(r"\w")
_MARKING_WORD = re.compile(r"\w[\w-]*+(?:::)?+")


class Heading(NamedTuple):
    place: int  # where its line begins
    level: int
    name: str


class Code(NamedTuple):
    """A block of code: with what marks it as one, and the lines of code alone."""

    outer: Span
    inner: Span
    language: str | None
    apart: bool = False  # it is no part of the prose around it: the cell of a notebook


class Reference(NamedTuple):
    """A link, and where it stands."""

    place: int
    type: LinkType
    target: str
    anchor: str


class Outline(NamedTuple):
    """The parts of a text, in its order; a block comes before the blocks inside it."""

    headings: Sequence[Heading] = ()
    # Whole lines that are better not cut: code, tables and rows, lists and items.
    blocks: Sequence[Span] = ()
    codes: Sequence[Code] = ()
    references: Sequence[Reference] = ()
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Parsed:
    """The result of a parser: a text cut up, and what it says about itself."""

    chunks: list[Chunk]
    parents: list[Parent] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    front: FrontMatter | None = None  # of a format that can state its title
    title: str = ""  # its first heading of the highest level
    tags: Sequence[str] = ()  # in the text
    warning: str = ""


@dataclass(frozen=True, slots=True)
class _Section:
    """A part of the text between two headings, then a piece of it: a chunk to be."""

    start: int
    end: int
    trail: Trail  # the headings above and including its own
    is_bare: bool = False  # nothing but its heading
    code: Code | None = None  # the block that it is a piece of
    parent: int | None = None

    @property
    def span(self) -> Span:
        return self.start, self.end


class Lines:
    """The lines of a text, counted from 1."""

    def __init__(self, text: str) -> None:
        sizes = map(len, StringIO(text))
        self.starts = list(accumulate(sizes, initial=0))

    def at(self, place: int) -> int:
        """Return the line of the character at `place`."""
        return bisect_right(self.starts, place)

    def of(self, span: Span) -> Span:
        """Return the first and the last line of a span."""
        start, end = span
        last = max(start, end - 1)
        return self.at(start), self.at(last)


def passages(
    text: str,
    outline: Outline,
    sizes: ChunkingSettings,
    *,
    start: int = 0,
    kind: ChunkType = "documentation",
    language: str | None = None,
) -> Parsed:
    """Cut the text from `start` on into chunks, with the parents they lie in if those are wanted."""
    sections = list(_sections(text, start, outline.headings))
    above: list[_Section] = []
    if sizes.parents:
        above = _Cutter(text, outline, sizes.of_parents()).cut_up(sections)
        cutter = _Cutter(text, outline, sizes.of_children())
        found = cutter.in_parents(above, sections)
    else:
        found = _Cutter(text, outline, sizes).pieces(sections, sections)
    ordered = sorted(found, key=_reading_order)

    lines = Lines(text)
    chunks = []
    for ordinal, piece in enumerate(ordered):
        chunk = Chunk(
            ordinal,
            text[piece.start : piece.end],
            SEPARATOR.join(piece.trail),
            *lines.of(piece.span),
            kind,
            language,
            parent=piece.parent,
        )
        if piece.code:
            named = piece.code.language
            chunk = replace(chunk, chunk_type="code_block", language=named)
        chunks.append(chunk)
    parents = []
    for section in above:
        parent = Parent(
            text[section.start : section.end],
            SEPARATOR.join(section.trail),
            *lines.of(section.span),
        )
        parents.append(parent)
    titles = [heading.name for heading in outline.headings if heading.level == 1]
    return Parsed(
        chunks,
        parents,
        links=_links(outline.references, ordered),
        title=next(iter(titles), ""),
        tags=outline.tags,
    )


def _reading_order(piece: "_Section") -> tuple[int, bool, int]:
    """Code comes after the prose that it begins with."""
    is_code = piece.code is not None
    return piece.start, is_code, piece.end


def parse_plain(path: str, text: str, sizes: ChunkingSettings) -> Parsed:
    """Cut text into windows of whole lines; a line that is too long is cut."""
    return passages(
        text,
        Outline(),
        sizes,
        kind=chunk_type_of(path),
        language=language_of(path),
    )


# --- Sections ---------------------------------------------------------------------------


def _sections(
    text: str,
    start: int,
    headings: Sequence[Heading],
) -> Iterator[_Section]:
    places = [heading.place for heading in headings]
    places.append(len(text))
    if not headings or text[start : places[0]].strip():
        yield _Section(start, places[0], ())
    above: list[Heading] = []
    for heading, end in zip(headings, places[1:], strict=True):
        above = [higher for higher in above if higher.level < heading.level]
        above.append(heading)
        trail = tuple(higher.name for higher in above if higher.name)
        lines = text[heading.place : end].split("\n")
        worded = [line for line in lines if _WORD.search(line)]
        has_name = _WORD.search(heading.name) is not None
        is_bare = len(worded) <= has_name
        yield _Section(heading.place, end, trail, is_bare)


def _together(first: _Section, second: _Section) -> _Section:
    """A heading with its first subsection is about the subsection; two siblings are about what they share."""
    trail = second.trail
    shared = common_start(first.trail, trail)
    if not first.is_bare and shared != first.trail:
        trail = shared or first.trail
    is_bare = first.is_bare and second.is_bare
    return _Section(first.start, second.end, trail, is_bare)


def common_start(first: Trail, second: Trail) -> Trail:
    """Return the names that two trails begin with."""
    number = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        number += 1
    return first[:number]


def _within(sections: Sequence[_Section], span: Span) -> Iterator[_Section]:
    """Yield the parts of the sections that lie in a span."""
    start, end = span
    first = bisect_right(sections, start, key=attrgetter("end"))
    after = bisect_left(sections, end, key=attrgetter("start"))
    for section in sections[first:after]:
        low = max(section.start, start)
        high = min(section.end, end)
        yield replace(section, start=low, end=high)


# --- Pieces -----------------------------------------------------------------------------


class _Cutter:
    """Cuts parts of one text to one size."""

    def __init__(self, text: str, outline: Outline, sizes: ChunkingSettings) -> None:
        self._text = text
        self._codes = outline.codes
        self._sizes = sizes
        self._whole = _whole_blocks(outline.blocks, sizes.max_chars)

    def cut_up(self, sections: Iterable[_Section]) -> list[_Section]:
        """Return the sections joined and cut to size."""
        found = []
        for section in self._joined(sections):
            for start, end in pieces(
                self._text, section.span, self._sizes, self._whole
            ):
                found.append(_Section(start, end, section.trail))
        return found

    def _joined(self, sections: Iterable[_Section]) -> list[_Section]:
        """Join a section that is too short to stand alone with the next (the last one with the one before)."""
        joined: list[_Section] = []
        for section in sections:
            if joined and self._is_small(joined[-1]):
                last = joined[-1]
                # A heading alone goes with what follows, which is cut if that is too long.
                is_heading_of = last.is_bare and last.end == section.start
                if is_heading_of or self._fit(last, section):
                    joined[-1] = _together(last, section)
                    continue
            joined.append(section)
        if len(joined) > 1 and self._is_small(joined[-1]):
            first, last = joined[-2:]
            if self._fit(first, last):
                joined[-2:] = [_together(first, last)]
        return joined

    def _is_small(self, section: _Section) -> bool:
        return is_small(self._text, section.span, self._sizes)

    def _fit(self, first: _Section, second: _Section) -> bool:
        size = second.end - first.start
        return first.end == second.start and size <= self._sizes.max_chars

    def pieces(
        self, part: Sequence[_Section], sections: Sequence[_Section]
    ) -> Iterator[_Section]:
        """Yield the pieces of a part of the text: its prose, then the code in it."""
        first = part[0].start
        last = part[-1].end
        codes = _codes_between(self._codes, first, last)
        says_all = {code.outer for code in codes if self._says_all(code)}
        prose = self._prose(part, codes)
        for piece in self.cut_up(prose):
            if piece.span not in says_all:
                yield piece
        for code in codes:
            low, high = code.inner
            inner = (max(low, first), min(high, last))
            around = next(_within(sections, code.outer))
            for start, end in pieces(self._text, inner, self._sizes):
                yield _Section(start, end, around.trail, code=code)

    def in_parents(
        self, parents: Sequence[_Section], sections: Sequence[_Section]
    ) -> Iterable[_Section]:
        """Return the pieces of all parents; what lies in two parents belongs to the first."""
        found: dict[tuple[int, bool, int], _Section] = {}
        for number, parent in enumerate(parents):
            part = list(_within(sections, parent.span))
            for piece in self.pieces(part, sections):
                key = _reading_order(piece)
                found.setdefault(key, replace(piece, parent=number))
        return found.values()

    def _says_all(self, code: Code) -> bool:
        """Return True if there is no title, caption or option beside the code and its language."""
        start, end = code.inner
        if not self._text[start:end].strip():
            return False
        words = _MARKING_WORD.findall(self._text, code.outer[0], start)
        # A word with two colons is the name of a directive.
        others = [word for word in words if not word.endswith("::")]
        return len(others) <= 1

    def _prose(
        self, part: Sequence[_Section], codes: Sequence[Code]
    ) -> Iterable[_Section]:
        """Return the sections without the code that is apart."""
        apart = [code for code in codes if code.apart]
        if not apart:
            return part
        prose = []
        for section in part:
            start = section.start
            codes_inside = _codes_between(apart, *section.span)
            ends = [code.outer for code in codes_inside]
            ends.append((section.end, section.end))
            for end, after in ends:
                if self._text[start:end].strip():
                    prose.append(_Section(start, end, section.trail))
                start = after
        return prose


def _codes_between(codes: Sequence[Code], start: int, end: int) -> Sequence[Code]:
    """Return the code that lies between two places, or reaches in."""
    first = bisect_right(codes, start, key=lambda code: code.inner[1])
    after = bisect_left(codes, end, key=lambda code: code.inner[0])
    return codes[first:after]


def _whole_blocks(blocks: Iterable[Span], max_chars: int) -> list[Span]:
    """Select from nested blocks, outer first: the outermost that fit, the innermost that do not.

    So a list that fits stays whole; of one that does not, each item that fits does. What is too long
    and has nothing inside is kept too: a piece had better end before it than a little way into it.
    """
    kept: list[Span] = []
    outer = (0, 0)
    for start, end in blocks:
        if start < outer[1]:
            if outer[1] - outer[0] <= max_chars:
                continue
            kept.pop()
        outer = (start, end)
        kept.append(outer)
    return kept


# --- Cutting ----------------------------------------------------------------------------


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
    """Return True if a span is too short to stand alone."""
    return len(text[slice(*span)].strip()) < sizes.min_chars


def trimmed(text: str, span: Span) -> Iterator[Span]:
    """Yield the span without blank lines at its ends and blanks at its very end, unless all is blank."""
    start, end = span
    first = _NON_SPACE.search(text, start, end)
    if first is None:
        return
    while text[end - 1].isspace():
        end -= 1
    line_start = text.rfind("\n", start, first.start()) + 1
    yield max(start, line_start), end


def _cut(text: str, start: int, limit: int, whole: Sequence[Span]) -> int:
    """Return the end of a piece: before a block, else after a paragraph, a line or a word."""
    room = limit - start
    first = _first_from(whole, start)
    inside = whole[first : _first_from(whole, limit)]
    if inside:
        begin, end = inside[-1]
        is_cut = start < begin and limit < end
        would_fit = end - begin <= room
        if is_cut and (would_fit or begin - start >= room // 4):
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
    place = text.find("\n", earliest, cut) + 1
    if not 0 < place < cut:
        space = _SPACE.search(text, earliest, cut)
        if space is None or space.end() == cut:
            return cut
        place = space.end()
    before = _first_from(whole, place) - 1
    if before >= 0:
        begin, end = whole[before]
        if place < end and end - begin <= sizes.max_chars:  # not inside a block
            return min(end, cut)
    return place


def _first_from(whole: Sequence[Span], place: int) -> int:
    """Return the number of the first span that begins at the place or after it."""
    return bisect_left(whole, (place, place))


# --- Links ------------------------------------------------------------------------------


def _links(references: Iterable[Reference], found: Sequence[_Section]) -> list[Link]:
    """Give each link the first passage of prose that it stands in; drop repetitions in a passage."""
    prose = [number for number, piece in enumerate(found) if not piece.code]
    # The farthest end so far: it ascends, as the ends alone need not.
    ends = [found[number].end for number in prose]
    reach = list(accumulate(ends, max))
    links: dict[Link, None] = {}
    for place, kind, target, anchor in references:
        ordinal = None
        first = bisect_right(reach, place)
        if first < len(prose) and found[prose[first]].start <= place:
            ordinal = prose[first]
        links[Link(kind, target, anchor, ordinal)] = None
    return list(links)
