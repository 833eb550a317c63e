"""Sections of source and data: runs of whole lines that have names, joined until they are worth a chunk.

What the sections of a file are is said elsewhere (`tamis.ingest.code`, `tamis.ingest.data`); together they
are the whole file, so nothing is lost.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Final

from tamis.ingest.sections import SEPARATOR
from tamis.ingest.split import Lines, Span, is_small, pieces
from tamis.languages import ChunkType
from tamis.model import Chunk, Parent
from tamis.settings import ChunkingSettings

Mark = tuple[int, str]  # something said at a place of the text

# A line that says something: one with a word in it that is no condition of the preprocessor.
_TELLING: Final = re.compile(
    r"^(?![ \t]*+#[ \t]*+(?:if|ifdef|ifndef|elif|else|endif)\b)[^\w\n]*+\w", re.MULTILINE
)
# A breadcrumb is read with every passage: of many names it shows as many as fit.
_MAX_NAMES: Final = 100


@dataclass(frozen=True, slots=True)
class Section:
    start: int
    end: int
    scope: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # of what is in it, when all of it stands in the same scope
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
        return SEPARATOR.join((*self.scope, listed(self.names)) if self.names else self.scope)


def listed(names: Iterable[str]) -> str:
    """`one, two, three`, as many as fit; the first one always."""
    shown = ""
    for name in dict.fromkeys(names):
        if shown and len(shown) + len(name) > _MAX_NAMES:
            break
        shown = f"{shown}, {name}" if shown else name
    return shown


def joined(text: str, sections: Iterable[Section], sizes: ChunkingSettings) -> list[Section]:
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
        elif done and is_small(text, done[-1].span, sizes) and _match(text, done[-1], section, sizes):
            done[-1] = together(done[-1], section)
        else:
            done.append(section)
    if len(done) > 1 and is_small(text, done[-1].span, sizes) and _match(text, done[-2], done[-1], sizes):
        done[-2:] = [together(done[-2], done[-1])]
    return done


def together(first: Section, second: Section) -> Section:
    """Neighbours in one scope are both named; a head and its first member are about the member."""
    scope, names = _shared(first, second)
    return Section(first.start, second.end, scope, names, first.data and second.data)


def cut(
    text: str, sections: Iterable[Section], sizes: ChunkingSettings, language: str, names: Iterable[Mark] = ()
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
    text: str, sections: Iterable[Section], sizes: ChunkingSettings, language: str, names: Iterable[Mark] = ()
) -> tuple[list[tuple[Chunk, Span]], list[Parent]]:
    """Sections cut to the size of parents, and each of those to the size of children."""
    above, lines = sizes.of_parents(), Lines(text)
    parents: list[Parent] = []
    inner: list[Section] = []
    for section in joined(text, sections, above):
        for start, end in pieces(text, section.span, above):
            place = (lines.at(start), lines.at(end - 1))
            parents.append(Parent(text[start:end], section.header_path, *place))
            inner.append(replace(section, start=start, end=end, parent=len(parents) - 1))
    return list(cut(text, inner, sizes.of_children(), language, names)), parents


def _shared(first: Section, second: Section) -> tuple[tuple[str, ...], tuple[str, ...]]:
    long, short = sorted((first, second), key=lambda section: len(section.trail), reverse=True)
    if long.trail[: len(short.trail)] == short.trail:
        return long.scope, long.names
    if first.scope == second.scope:
        return first.scope, (*first.names, *second.names)
    pairs = takewhile(lambda pair: pair[0] == pair[1], zip(first.scope, second.scope, strict=False))
    return tuple(name for name, _ in pairs), ()


def _tells(text: str, section: Section) -> bool:
    return _TELLING.search(text[slice(*section.span)]) is not None


def _match(text: str, first: Section, second: Section, sizes: ChunkingSettings) -> bool:
    """They fit in one chunk, and are not data and code that could each stand alone."""
    if second.end - first.start > sizes.max_chars:
        return False
    return first.data == second.data or is_small(text, (first if first.data else second).span, sizes)
