"""Markdown: where its headings, blocks, code, links and tags are. pyromark (pulldown-cmark) lives here.

CommonMark with tables, footnotes, wiki links and `{#id}` behind headings. Only a heading that stands by
itself begins a section: one in a quotation or a list item belongs to what it is quoted or listed in.
The parser reports events in order; we look at where things begin, and remember how far they reach.
It counts in bytes, an outline in characters.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from operator import itemgetter
from typing import Any

import pyromark

from tamis.ingest.code.grammars import characters
from tamis.ingest.documents.frontmatter import front_matter
from tamis.ingest.documents.sections import (
    Code,
    Heading,
    Outline,
    Parsed,
    Reference,
    Span,
    passages,
)
from tamis.model import LinkType
from tamis.settings import ChunkingSettings
from tamis.text.languages import KNOWN_EXTENSIONS, extension, language_named
from tamis.text.linking import Target, document_target, wiki_target

_OPTIONS = (
    pyromark.Options.ENABLE_TABLES
    | pyromark.Options.ENABLE_FOOTNOTES
    | pyromark.Options.ENABLE_WIKILINKS
    | pyromark.Options.ENABLE_HEADING_ATTRIBUTES
    | pyromark.Options.ENABLE_GFM
)
# Events whose lines are better not cut.
_BLOCKS = frozenset({"List", "Item", "HtmlBlock", "CodeBlock", "Table", "TableRow"})
_SHOWN = _OPTIONS | pyromark.Options.ENABLE_STRIKETHROUGH  # in HTML
LINE_MARK = '<hr data-line="{}">'

_SURROGATES = re.compile("[\ud800-\udfff]")
_REST_IS_BLANK = re.compile(r"[ \t]*$", re.MULTILINE)
_INFO = re.compile(r"[\w+#.-]+")  # `py`, `{.python}`, `js title="x"`
# As in Obsidian: letters, digits, `_`, `-` and `/`, at least one of them no digit, after a blank.
_TAG = re.compile(r"#(?<!\S#)(\d*(?:[^\W\d]|[/-])[\w/-]*)")


def parse_markdown(_path: str, text: str, sizes: ChunkingSettings) -> Parsed:
    """Cut Markdown by its headings, below its front matter."""
    front, start, warning = front_matter(text)
    outline = markdown_outline(text, start, sizes.smallest)
    found = passages(text, outline, sizes, start=start)
    return replace(found, front=front, warning=warning)


def markdown_outline(
    text: str,
    start: int = 0,
    fits: int = 0,
    end: int | None = None,
) -> Outline:
    """Return the outline of the text between two places.

    The contents of a block of up to `fits` bytes are left out.
    """
    body = _parsable(text[start:end])
    return _Scan(body, start, fits).read()


def markdown_html(text: str, line: int = 1) -> str:
    """Return the text as HTML, unsafe as it is: raw HTML passes through. It begins in `line`.

    Before each outermost block stands `LINE_MARK` with the line that the block begins in.
    """
    body = _parsable(text)
    source = body.encode()
    parts = []
    done = end = 0
    for event, where in _events(body, _SHOWN):
        is_block = event == "Rule" or "Start" in event
        if not is_block or where["start"] < end:
            continue
        end = where["end"]
        start = source.rfind(b"\n", 0, where["start"]) + 1
        line += source.count(b"\n", done, start)
        mark = f"\n\n{LINE_MARK.format(line)}\n\n"
        parts += [source[done:start], mark.encode()]
        done = start
    parts.append(source[done:])
    marked = b"".join(parts).decode()
    return pyromark.html(marked, options=_SHOWN)


def _parsable(text: str) -> str:
    """Replace halves of pairs of characters, which are no text to the parser."""
    if text.isascii():
        return text
    return _SURROGATES.sub("?", text)


def _events(
    body: str,
    options: pyromark.Options,
) -> Iterable[tuple[Any, Any]]:
    return pyromark.events_with_range(body, options=options, merge_text=True)


class _Scan:
    """One pass over the events. Their places are bytes; what is kept for the outline is characters."""

    def __init__(
        self,
        body: str,
        shift: int,
        fits: int,
    ) -> None:
        self._body = body
        self._shift = shift
        self._fits = fits
        self._character = characters(body.encode())
        self._headings: list[tuple[int, int, list[str]]] = []
        self._blocks: list[Span] = []
        self._codes: list[Code] = []
        self._references: list[Reference] = []
        self._texts: list[Span] = []  # where tags may be
        # The end of the last container, heading, and so on; of the last block that is kept whole.
        self._container = 0
        self._heading = 0
        self._code = 0
        self._link = 0
        self._whole = 0
        self._fence = (0, 0)  # the last one
        self._info = ""  # what is written behind its mark
        self._table: int | None = None  # the start of a table without a row so far
        # The last place whose line was asked for, and the start of that line.
        self._place = 0
        self._line = 0
        # Blocks in blocks end together, at times before many blank lines.
        self._ends: dict[int, int] = {}

    def read(self) -> Outline:
        """Take in all events; return the outline."""
        for event, where in _events(self._body, _OPTIONS):
            start = where["start"]
            if type(event) is str:  # the end of a line, a rule
                if start < self._heading:
                    self._headings[-1][2].append(" ")
            elif "Start" in event:
                kind = event["Start"]
                value = None
                if type(kind) is dict:
                    [(kind, value)] = kind.items()
                self._begin(kind, value, start, where["end"])
            elif "End" not in event:
                self._add_inline(event, start, where["end"])
        headings = []
        for place, level, words in self._headings:
            name = " ".join("".join(words).split())
            headings.append(Heading(place, level, name))
        return Outline(
            headings,
            self._blocks,
            self._codes,
            self._references,
            self._tags(),
        )

    def _add_inline(
        self,
        event: dict[str, str],
        start: int,
        end: int,
    ) -> None:
        text = event.get("Text")
        if start < self._code:
            if text is not None and start < self._fence[1]:
                name = _INFO.search(self._info)
                language = language_named(name[0]) if name else None
                outer = self._span(*self._fence)
                inner = self._span(start, end)
                self._codes.append(Code(outer, inner, language))
            return
        if start < self._heading:
            words = self._headings[-1][2]
            words.append(text or event.get("Code") or "")
        if text is not None and "#" in text and start >= self._link:
            span = (self._character(start), self._character(end))
            self._texts.append(span)

    def _begin(
        self,
        kind: str,
        value: Any,
        start: int,
        end: int,
    ) -> None:
        if kind == "TableRow" and self._table is not None:
            # The head, and the line that rules it off.
            self._add_block(self._table, start)
            self._table = None
        if kind in _BLOCKS:
            self._add_block(start, end)
        match kind:
            case "Heading" if start >= self._container:
                place = self._line_start(self._character(start))
                level = int(value["level"][1])  # `H2`
                self._headings.append((place, level, []))
                self._heading = end
            case "BlockQuote" | "FootnoteDefinition" | "List":
                self._container = max(self._container, end)
            case "CodeBlock":
                self._code = end
                if type(value) is dict:
                    self._fence = (start, end)
                    self._info = value["Fenced"]
            case "Table":
                self._table = start
            case "Link" | "Image":
                self._link = max(self._link, end)
                self._add_link(kind == "Image", value, start)

    def _add_block(self, start: int, end: int) -> None:
        if start >= self._whole:
            self._blocks.append(self._span(start, end))
            if end - start <= self._fits:
                self._whole = end

    def _add_link(
        self,
        is_image: bool,
        value: dict[str, Any],
        start: int,
    ) -> None:
        kind: LinkType = "markdown"
        target: Target | None = None
        if type(value["link_type"]) is dict:
            kind = "embed" if is_image else "wikilink"
            target = wiki_target(value["dest_url"])
        elif value["link_type"] not in ("Autolink", "Email"):
            target = document_target(value["dest_url"])
            if is_image and target and extension(target[0]) not in KNOWN_EXTENSIONS:
                return
        if target:
            place = self._character(start) + self._shift
            self._references.append(Reference(place, kind, *target))

    def _span(self, start: int, end: int) -> Span:
        """Widen a span to whole lines."""
        body = self._body
        first = self._character(start)
        last = self._character(end)
        if end not in self._ends:
            ends_line = body[last - 1 : last] == "\n" or _REST_IS_BLANK.match(
                body, last
            )
            if not ends_line:
                # Behind the `> ` of a line that is another block's.
                last = body.rfind("\n", first, last)
            content = body[first:last].rstrip()
            self._ends[end] = first + len(content) + self._shift
        return self._line_start(first), self._ends[end]

    def _line_start(self, place: int) -> int:
        """Places come mostly in order: so no line is gone over twice."""
        if place < self._place:
            self._place = 0
            self._line = 0
        newline = self._body.rfind("\n", self._place, place)
        if newline >= 0:
            self._line = newline + 1
        self._place = place
        return self._line + self._shift

    def _tags(self) -> list[str]:
        tags: list[str] = []
        if not self._texts:
            return tags
        for tag in _TAG.finditer(self._body):
            place = tag.start()
            following = bisect_right(self._texts, place, key=itemgetter(0))
            if following and place < self._texts[following - 1][1]:
                tags.append(tag[1].strip("/"))
        return tags
