"""Markdown by its headings: sections with their breadcrumb, small ones joined, long ones split.

One pass over the lines that can be headings or code fences. Text before the first heading is a
section too. What a section contains is its exact text, heading included, so nothing is lost.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from tamis.ingest.split import Lines, Span, pieces
from tamis.model import Chunk
from tamis.settings import ChunkingSettings

_MARKS: Final = re.compile(
    r"^ {0,3}(?:(?P<hashes>\#{1,6})(?=[ \t\n]|\Z)(?P<title>[^\n]*)|(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)"
    r"|(?P<under>=+|-+)[ \t]*$)",
    re.MULTILINE,
)
_CLOSING_HASHES: Final = re.compile(r"(?<![^ \t])#+[ \t]*$")
_INLINE_LINK: Final = re.compile(r"!?\[([^\]\[]*)\](?:\([^()\s]*(?:\s[^()]*)?\))?")
_DECORATION: Final = re.compile(r"[*`]+|(?<!\w)_+|(?<!_)_++(?!\w)")
_NO_PARAGRAPH: Final = re.compile(
    r"\s*$| {4}|\t| {0,3}(?:[>#|]|[-*+] |\d+[.)] |```|~~~|</?\w|(?:=+|-+|([-*_])(?:[ \t]*\1){2,})[ \t]*$)",
    re.MULTILINE,
)
_MARKUP: Final = frozenset("#[]*`_\t")
_SEPARATOR: Final = " > "


@dataclass(frozen=True, slots=True)
class Section:
    start: int
    end: int
    trail: tuple[str, ...]  # the headings above and including its own


def markdown_chunks(text: str, start: int, sizes: ChunkingSettings) -> tuple[list[Chunk], str]:
    """The chunks of a document whose text begins at `start`, and its first top-level heading."""
    headings, fences = _scan(text, start)
    title = next((name for _, level, name in headings if level == 1), "")
    lines = Lines(text)
    chunks: list[Chunk] = []
    for section in _join_small(text, _sections(text, start, headings), sizes):
        for begin, end in pieces(text, (section.start, section.end), sizes, fences):
            chunks.append(
                Chunk(
                    ordinal=len(chunks),
                    content=text[begin:end],
                    header_path=_SEPARATOR.join(section.trail),
                    start_line=lines.at(begin),
                    end_line=lines.at(end - 1),
                    chunk_type="documentation",
                )
            )
    return chunks, title


def _scan(text: str, start: int) -> tuple[list[tuple[int, int, str]], list[Span]]:
    """Headings as (place, level, name), and the spans of fenced code."""
    headings: list[tuple[int, int, str]] = []
    fences: list[Span] = []
    opened: tuple[int, str] | None = None
    for mark in _MARKS.finditer(text, start):
        if opened is not None:
            if _closes(mark, opened[1]):
                fences.append((opened[0], mark.end()))
                opened = None
        elif mark["fence"]:
            if not (mark["fence"][0] == "`" and "`" in mark["info"]):
                opened = (mark.start(), mark["fence"])
        elif mark["hashes"]:
            headings.append((mark.start(), len(mark["hashes"]), _plain(mark["title"])))
        elif (above := _paragraph_above(text, start, mark.start())) is not None:
            level = 1 if mark["under"][0] == "=" else 2
            headings.append((above, level, _plain(text[above : mark.start()])))
    if opened is not None:
        fences.append((opened[0], len(text)))
    return headings, fences


def _closes(mark: re.Match[str], fence: str) -> bool:
    found = mark["fence"]
    return bool(found) and found[0] == fence[0] and len(found) >= len(fence) and not mark["info"].strip()


def _paragraph_above(text: str, start: int, place: int) -> int | None:
    """Where the line above begins, when it is a paragraph's (so that the mark underlines it)."""
    if place <= start:
        return None
    line = max(text.rfind("\n", start, place - 1) + 1, start)
    return None if _NO_PARAGRAPH.match(text, line, place) else line


def _plain(title: str) -> str:
    """A heading's words without their markup."""
    name = title.strip()
    if _MARKUP.isdisjoint(name):  # most headings; what follows costs three searches
        return " ".join(name.split())
    name = _CLOSING_HASHES.sub("", name)
    return " ".join(_DECORATION.sub("", _INLINE_LINK.sub(r"\1", name)).split())


def _sections(text: str, start: int, headings: list[tuple[int, int, str]]) -> Iterator[Section]:
    if not headings:
        yield Section(start, len(text), ())
        return
    if text[start : headings[0][0]].strip():
        yield Section(start, headings[0][0], ())
    above: list[tuple[int, str]] = []
    ends = [place for place, _, _ in headings[1:]] + [len(text)]
    for (place, level, name), end in zip(headings, ends, strict=True):
        above = [heading for heading in above if heading[0] < level] + [(level, name)]
        yield Section(place, end, tuple(heading for _, heading in above if heading))


def _join_small(text: str, sections: Iterator[Section], sizes: ChunkingSettings) -> list[Section]:
    """Join a section that is too short to stand alone with the next (the last one with the one before)."""
    joined: list[Section] = []
    for section in sections:
        if joined and _fits(text, joined[-1], section, sizes):
            joined[-1] = _together(joined[-1], section)
        else:
            joined.append(section)
    if len(joined) > 1 and _is_small(text, joined[-1], sizes) and _room(joined[-2], joined[-1], sizes):
        joined[-2:] = [_together(joined[-2], joined[-1])]
    return joined


def _fits(text: str, first: Section, second: Section, sizes: ChunkingSettings) -> bool:
    return _is_small(text, first, sizes) and _room(first, second, sizes)


def _is_small(text: str, section: Section, sizes: ChunkingSettings) -> bool:
    return len(text[section.start : section.end].strip()) < sizes.min_chars


def _room(first: Section, second: Section, sizes: ChunkingSettings) -> bool:
    return second.end - first.start <= sizes.max_chars


def _together(first: Section, second: Section) -> Section:
    """A heading with its first subsection is about the subsection; two siblings are about what they share."""
    if second.trail[: len(first.trail)] == first.trail:
        trail = second.trail
    else:
        pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first.trail, second.trail, strict=False))
        trail = tuple(name for name, _ in pairs) or first.trail
    return Section(first.start, second.end, trail)
