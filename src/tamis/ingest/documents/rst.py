"""reStructuredText: its sections, its code and its links, line by line.

A title is underlined, or over- and underlined, by a run of one sign; which sign means which level is the
order in which they come. Blocks after `::` and of the code directives are code. Nothing else of the
markup is understood, and nothing is refused: what is no title here is text.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tamis.ingest.documents.sections import Code, Heading, Outline, Reference, Span
from tamis.text.languages import language_named
from tamis.text.linking import document_target

_ADORNMENT: Final = re.compile(r"([!-/:-@\[-`{-~])\1*+\s*$")
_SHORTEST: Final = (
    4  # an underline may be shorter than its title, as docutils has it, from here on
)
_CODE: Final = re.compile(
    r"( *)\.\. (?:code-block|code|sourcecode|parsed-literal|ipython)::[ \t]*(\S*)"
)
_OPTION: Final = re.compile(r"\s+:[\w-]+:")
_DIRECTIVE: Final = re.compile(r"\s*\.\. ")
_LITERAL: Final = re.compile(r"``.+?``")
_MARKUP: Final = re.compile(r":[\w+.:-]{1,60}:(?=`)|[`*]+| <[^<>]*>(?=`)")
_ROLE: Final = r":doc:`(?:[^`<]*<(?P<titled>[^`<>]+)>|(?P<doc>[^`<>]+))`"
_EMBEDDED: Final = r"`[^`<]+<(?P<url>[^`<>]+)>`__?"
_TARGET: Final = r"^[ \t]*\.\. _[^:\n]+: +(?P<target>\S[^\n]*)"
_LINK: Final = re.compile(f"{_ROLE}|{_EMBEDDED}|{_TARGET}", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text.rstrip())

    @property
    def indent(self) -> int:
        return len(self.text) - len(self.text.lstrip())

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()


def rst_outline(text: str) -> Outline:
    lines = list(_lines(text))
    codes = list(_codes(lines))
    return Outline(
        headings=list(_headings(lines)),
        blocks=[code.outer for code in codes],
        codes=codes,
        references=list(_references(text, codes)),
    )


def _lines(text: str) -> Iterator[_Line]:
    start = 0
    for line in text.split("\n"):
        yield _Line(start, line)
        start += len(line) + 1


# --- Titles -----------------------------------------------------------------------------


def _headings(lines: Sequence[_Line]) -> Iterator[Heading]:
    levels: dict[tuple[str, bool], int] = {}
    at = 0
    while at < len(lines):
        found = _title(lines, at)
        if found is None:
            at += 1
            continue
        name, style, length = found
        plain = " ".join(_MARKUP.sub("", name).split())
        yield Heading(lines[at].start, levels.setdefault(style, len(levels) + 1), plain)
        at += length


def _title(lines: Sequence[_Line], at: int) -> tuple[str, tuple[str, bool], int] | None:
    """The title that begins on a line: its name, its style, and how many lines it takes."""
    if at and not lines[at - 1].is_blank:
        return None
    first, *rest = (line.text for line in lines[at : at + 3])
    if len(rest) == 2 and _is_adornment(first) and first.rstrip() == rest[1].rstrip():
        return (
            (rest[0].strip(), (first[0], True), 3)
            if _underlines(first, rest[0].strip())
            else None
        )
    if rest and not first[:1].isspace() and _underlines(rest[0], first):
        return first.strip(), (rest[0][0], False), 2
    return None


def _underlines(adornment: str, title: str) -> bool:
    width = min(len(title.rstrip()), _SHORTEST)
    is_title = bool(title.strip()) and not _is_adornment(title)
    return is_title and _is_adornment(adornment) and len(adornment.rstrip()) >= width


def _is_adornment(text: str) -> bool:
    return _ADORNMENT.match(text) is not None


# --- Code -------------------------------------------------------------------------------


def _codes(lines: Sequence[_Line]) -> Iterator[Code]:
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if "::" not in line.text:
            continue
        directive = _CODE.match(line.text)
        if directive is None and (
            not line.text.rstrip().endswith("::") or _DIRECTIVE.match(line.text)
        ):
            continue
        first = _after_options(lines, at) if directive else at
        body, at = _indented(lines, first, line.indent)
        if body:
            yield Code(
                (line.start if directive else body[0], body[1]),
                body,
                _language(directive),
            )


def _language(directive: re.Match[str] | None) -> str | None:
    return language_named(directive[2]) if directive else None


def _after_options(lines: Sequence[_Line], at: int) -> int:
    while at < len(lines) and _OPTION.match(lines[at].text):
        at += 1
    return at


def _indented(lines: Sequence[_Line], at: int, indent: int) -> tuple[Span | None, int]:
    """The run of lines further in than `indent`, without blank ones at its ends, and the line after it."""
    first = last = None
    while at < len(lines) and (lines[at].is_blank or lines[at].indent > indent):
        if not lines[at].is_blank:
            first, last = first or lines[at], lines[at]
        at += 1
    return ((first.start, last.end) if first and last else None), at


# --- Links ------------------------------------------------------------------------------


def _references(text: str, codes: Sequence[Code]) -> Iterator[Reference]:
    """Links to documents: `:doc:`, a path in angle brackets, a named target. In code they mean nothing."""
    shown = _without(text, [code.inner for code in codes])
    shown = _LITERAL.sub(lambda found: " " * len(found[0]), shown)
    for link in _LINK.finditer(shown):
        target = document_target(
            next(value for value in link.groups() if value).strip()
        )
        if target:
            yield Reference(link.start(), "markdown", *target)


def _without(text: str, spans: Sequence[Span]) -> str:
    """The text with these parts blank: every place stays where it is."""
    parts, at = [], 0
    for start, end in spans:
        parts += [text[at:start], " " * (end - start)]
        at = end
    return "".join((*parts, text[at:]))
