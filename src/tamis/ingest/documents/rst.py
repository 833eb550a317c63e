"""reStructuredText: its sections, its code and its links, line by line.

A title is underlined, or over- and underlined, by a run of one sign; which sign means which level is the
order in which they come. Blocks after `::` and of the code directives are code. Nothing else of the
markup is understood, and nothing is refused: what is no title here is text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from tamis.ingest.documents.sections import (
    Code,
    Heading,
    Outline,
    Parsed,
    Reference,
    passages,
)
from tamis.model import FrontMatter
from tamis.settings import ChunkingSettings
from tamis.text.languages import language_named
from tamis.text.linking import document_target

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1*+\s*$")
# An underline may be shorter than its title from here on, as docutils has it.
_SHORTEST = 4
_CODE = re.compile(
    r"( *)\.\. (?:code-block|code|sourcecode|parsed-literal|ipython)::[ \t]*(\S*)"
)
_OPTION = re.compile(r"\s+:[\w-]+:")
_DIRECTIVE = re.compile(r"\s*\.\. ")
_LITERAL = re.compile(r"``.+?``")
_MARKUP = re.compile(r":[\w+.:-]{1,60}:(?=`)|[`*]+| <[^<>]*>(?=`)")
_ROLE = r":doc:`(?:[^`<]*<(?P<titled>[^`<>]+)>|(?P<doc>[^`<>]+))`"
_EMBEDDED = r"`[^`<]+<(?P<url>[^`<>]+)>`__?"
_TARGET = r"^[ \t]*\.\. _[^:\n]+: +(?P<target>\S[^\n]*)"
_LINK = re.compile(f"{_ROLE}|{_EMBEDDED}|{_TARGET}", re.MULTILINE)


Style = tuple[str, bool]  # the sign, and whether it is above the title too


class _Line(NamedTuple):
    start: int
    text: str  # without blanks at its end

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())


def parse_rst(_path: str, text: str, sizes: ChunkingSettings) -> Parsed:
    """Cut reStructuredText by its titles."""
    lines = []
    start = 0
    for line in text.split("\n"):
        lines.append(_Line(start, line.rstrip()))
        start += len(line) + 1
    codes = list(_codes(lines))
    outline = Outline(
        headings=list(_headings(lines)),
        blocks=[code.outer for code in codes],
        codes=codes,
        references=list(_references(text, codes)),
    )
    return replace(passages(text, outline, sizes), front=FrontMatter())


# --- Titles -----------------------------------------------------------------------------


def _headings(lines: Sequence[_Line]) -> Iterator[Heading]:
    levels: dict[Style, int] = {}
    at = 0
    while at < len(lines):
        found = _title(lines, at)
        if found is None:
            at += 1
            continue
        name, style, length = found
        plain = " ".join(_MARKUP.sub("", name).split())
        level = levels.setdefault(style, len(levels) + 1)
        yield Heading(lines[at].start, level, plain)
        at += length


def _title(
    lines: Sequence[_Line],
    at: int,
) -> tuple[str, Style, int] | None:
    """Return the title that begins on a line: its name, its style, and how many lines it takes."""
    if at and lines[at - 1].text:
        return None
    texts = [line.text for line in lines[at : at + 3]]
    first, second, third = (*texts, "", "")[:3]
    if first == third and _ADORNMENT.match(first):
        if _underlines(first, second):
            return second.strip(), (first[0], True), 3
    elif not first[:1].isspace() and _underlines(second, first):
        return first, (second[0], False), 2
    return None


def _underlines(adornment: str, title: str) -> bool:
    title = title.strip()
    if not title or _ADORNMENT.match(title) or not _ADORNMENT.match(adornment):
        return False
    return len(adornment) >= min(len(title), _SHORTEST)


# --- Code -------------------------------------------------------------------------------


def _codes(lines: Sequence[_Line]) -> Iterator[Code]:
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if "::" not in line.text:
            continue
        directive = _CODE.match(line.text)
        if directive:
            while at < len(lines) and _OPTION.match(lines[at].text):
                at += 1
        elif not line.text.endswith("::") or _DIRECTIVE.match(line.text):
            continue
        body = []  # the lines further in
        while at < len(lines):
            below = lines[at]
            if below.text:
                if below.indent <= line.indent:
                    break
                body.append(below)
            at += 1
        if body:
            inner = (body[0].start, body[-1].end)
            outer = inner
            language = None
            if directive:
                outer = (line.start, body[-1].end)
                language = language_named(directive[2])
            yield Code(outer, inner, language)


# --- Links ------------------------------------------------------------------------------


def _references(text: str, codes: Sequence[Code]) -> Iterator[Reference]:
    """Yield links to documents: `:doc:`, a path in angle brackets, a named target. In code they mean nothing."""
    parts = []
    at = 0
    for code in codes:  # blank, so that every place stays where it is
        start, end = code.inner
        parts += [text[at:start], " " * (end - start)]
        at = end
    shown = "".join((*parts, text[at:]))
    shown = _LITERAL.sub(lambda found: " " * len(found[0]), shown)
    for link in _LINK.finditer(shown):
        target = document_target(link[link.lastindex or 0].strip())
        if target:
            yield Reference(link.start(), "markdown", *target)
