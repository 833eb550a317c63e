"""Markdown: where its headings, blocks, code, links and tags are. pyromark (pulldown-cmark) lives here.

CommonMark with tables, footnotes, wiki links and `{#id}` behind headings. Only a heading that stands by
itself begins a section: one in a quotation or a list item belongs to what it is quoted or listed in.
The parser reports everything in order; we look at where things begin, and remember how far they reach.
It counts in bytes: places become characters at the end, all at once.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pyromark

from tamis.ingest.documents.links import Target, document_target, wiki_target
from tamis.ingest.documents.sections import Code, Heading, Outline, Reference, Span
from tamis.model import LinkType
from tamis.text.languages import KNOWN_EXTENSIONS, extension, language_named

_OPTIONS: Final = (
    pyromark.Options.ENABLE_TABLES
    | pyromark.Options.ENABLE_FOOTNOTES
    | pyromark.Options.ENABLE_WIKILINKS
    | pyromark.Options.ENABLE_HEADING_ATTRIBUTES
    | pyromark.Options.ENABLE_GFM
)
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_REST_IS_BLANK: Final = re.compile(r"[ \t]*$", re.MULTILINE)
_INFO: Final = re.compile(r"[\w+#.-]+")
# As in Obsidian: letters, digits, `_`, `-` and `/`, at least one of them no digit, after a blank.
_TAG: Final = re.compile(r"#(?<!\S#)(\d*(?:[^\W\d]|[/-])[\w/-]*)")


def markdown_outline(
    text: str, start: int = 0, fits: int = 0, end: int | None = None
) -> Outline:
    """The outline of the text between two places. What is in a block of up to `fits` bytes is left out."""
    body = text[start:end]
    if not body.isascii():  # halves of a pair of characters are no text to the parser
        body = _SURROGATES.sub("?", body)
    scan = _Scan(fits, tagged=_TAG.search(body) is not None)
    scan.read(body)
    return _outline(body, scan, start)


class _Scan:
    """One pass over what the parser reports. Places are bytes."""

    def __init__(self, fits: int, *, tagged: bool) -> None:
        self.headings: list[tuple[int, int, list[str]]] = []
        self.blocks: list[Span] = []
        self.codes: list[tuple[Span, Span, str]] = []
        self.links: list[tuple[int, LinkType, Target]] = []
        self.texts: list[Span] = []  # where tags may be
        self._fits, self._tagged = fits, tagged
        # How far the thing that began last reaches, of each kind; `_read` is where text is looked at.
        self._container = self._heading = self._code = self._link = self._whole = (
            self._read
        ) = 0
        self._table: int | None = (
            None  # where one began whose first row is still to come
        )
        self._begin: dict[str, Callable[[Any, int, int], None]] = {
            "BlockQuote": self._begin_container,
            "CodeBlock": self._begin_code,
            "FootnoteDefinition": self._begin_container,
            "Heading": self._begin_heading,
            "HtmlBlock": self._begin_block,
            "Image": self._begin_image,
            "Item": self._begin_block,
            "Link": self._begin_link,
            "List": self._begin_list,
            "Table": self._begin_table,
            "TableRow": self._begin_row,
        }

    def read(self, body: str) -> None:
        begin = self._begin
        events: Iterable[tuple[Any, Any]] = pyromark.events_with_range(
            body, options=_OPTIONS, merge_text=True
        )
        for event, where in events:
            if type(event) is str:  # the end of a line, a rule
                if where["start"] < self._heading:
                    self.headings[-1][2].append(" ")
            elif (started := event.get("Start")) is None:
                if where["start"] < self._read or self._tagged:
                    self._inline(event, where["start"], where["end"])
            elif type(started) is str:
                if started in begin:
                    begin[started](None, where["start"], where["end"])
            else:
                for kind, value in started.items():
                    if kind in begin:
                        begin[kind](value, where["start"], where["end"])

    def _inline(self, event: Any, start: int, end: int) -> None:
        text = event.get("Text")
        if start < self._code:
            if text is not None:
                self._code_text(start, end)
            return
        if start < self._heading and (
            word := event.get("Code") if text is None else text
        ):
            self.headings[-1][2].append(word)
        if text is not None and "#" in text and start >= self._link:
            self.texts.append((start, end))

    def _code_text(self, start: int, end: int) -> None:
        if self.codes and start < self.codes[-1][0][1]:
            outer, inner, info = self.codes[-1]
            self.codes[-1] = (outer, (min(inner[0], start), max(inner[1], end)), info)

    def _begin_heading(self, value: Any, start: int, end: int) -> None:
        if start >= self._container:
            self.headings.append((start, int(value["level"][1]), []))
            self._heading = self._read = end

    def _begin_container(self, _: Any, __: int, end: int) -> None:
        self._container = max(self._container, end)

    def _begin_list(self, _: Any, start: int, end: int) -> None:
        self._container = max(self._container, end)
        self._begin_block(None, start, end)

    def _begin_block(self, _: Any, start: int, end: int) -> None:
        if start >= self._whole:
            self.blocks.append((start, end))
            if end - start <= self._fits:
                self._whole = end

    def _begin_table(self, _: Any, start: int, end: int) -> None:
        self._begin_block(None, start, end)
        self._table = start

    def _begin_row(self, _: Any, start: int, end: int) -> None:
        if self._table is not None:  # the head, and the line that rules it off
            self._begin_block(None, self._table, start)
            self._table = None
        self._begin_block(None, start, end)

    def _begin_code(self, value: Any, start: int, end: int) -> None:
        self._begin_block(None, start, end)
        self._code = end
        if type(value) is dict:
            self.codes.append(((start, end), (end, start), value["Fenced"]))
            self._read = end

    def _begin_link(self, value: Any, start: int, end: int) -> None:
        self._link = max(self._link, end)
        kind, url = value["link_type"], value["dest_url"]
        if type(kind) is dict:
            self._refer(start, "wikilink", wiki_target(url))
        elif kind not in ("Autolink", "Email"):
            self._refer(start, "markdown", document_target(url))

    def _begin_image(self, value: Any, start: int, end: int) -> None:
        self._link = max(self._link, end)
        if type(value["link_type"]) is dict:
            self._refer(start, "embed", wiki_target(value["dest_url"]))
        elif (target := document_target(value["dest_url"])) and extension(
            target[0]
        ) in KNOWN_EXTENSIONS:
            self._refer(start, "markdown", target)

    def _refer(self, place: int, kind: LinkType, target: Target | None) -> None:
        if target:
            self.links.append((place, kind, target))


# --- As HTML ------------------------------------------------------------------------------

LINE_MARK: Final = '<hr data-line="{}">'


def markdown_html(text: str, line: int = 1) -> str:
    """The text as HTML, unsafe as it is: raw HTML passes through. `line` is that of its beginning.

    Before each block that is in no other stands `LINE_MARK` with the line it begins in.
    """
    body = _SURROGATES.sub("?", text).encode()
    parts, last = [], 0
    for start in _outer_blocks(body.decode()):
        start = body.rfind(b"\n", 0, start) + 1
        line += body.count(b"\n", last, start)
        parts += [body[last:start], f"\n\n{LINE_MARK.format(line)}\n\n".encode()]
        last = start
    return pyromark.html(b"".join((*parts, body[last:])).decode(), options=_SHOWN)


_SHOWN: Final = _OPTIONS | pyromark.Options.ENABLE_STRIKETHROUGH


def _outer_blocks(body: str) -> Iterator[int]:
    """Yield the places, in bytes, where they begin."""
    events: Iterable[tuple[Any, Any]] = pyromark.events_with_range(
        body, options=_SHOWN, merge_text=True
    )
    end = 0
    for event, where in events:
        if where["start"] >= end and (
            event == "Rule" or (type(event) is dict and "Start" in event)
        ):
            yield where["start"]
            end = where["end"]


# --- From bytes to characters -------------------------------------------------------------


def _outline(body: str, scan: _Scan, shift: int) -> Outline:
    """Make the outline of a scan, `shift` characters further on."""
    place = _characters(body, scan)
    lines = _WholeLines(body, shift)
    return Outline(
        headings=[
            Heading(lines.start(place(start)), level, " ".join("".join(words).split()))
            for start, level, words in scan.headings
        ],
        blocks=[lines.span(place(start), place(end)) for start, end in scan.blocks],
        codes=[
            Code(
                lines.span(place(outer[0]), place(outer[1])),
                lines.span(place(inner[0]), place(inner[1])),
                _language(info),
            )
            for outer, inner, info in scan.codes
            if inner[0] < inner[1]
        ],
        references=[
            Reference(place(at) + shift, kind, *target)
            for at, kind, target in scan.links
        ],
        tags=list(
            _tags(body, [(place(start), place(end)) for start, end in scan.texts])
        ),
    )


def _characters(body: str, scan: _Scan) -> Callable[[int], int]:
    """Return a function from bytes to characters, for the places of a scan."""
    if body.isascii():
        return int
    data, found = body.encode(), {}
    last = count = 0
    for place in sorted(set(_places(scan))):
        count += len(data[last:place].decode())
        found[place] = count
        last = place
    return found.__getitem__


def _places(scan: _Scan) -> Iterator[int]:
    for spans in (scan.blocks, scan.texts):
        for span in spans:
            yield from span
    for outer, inner, _ in scan.codes:
        yield from (*outer, *inner)
    yield from (heading[0] for heading in scan.headings)
    yield from (link[0] for link in scan.links)


class _WholeLines:
    """Widens spans to whole lines. They come mostly in order: so no line is gone over twice."""

    def __init__(self, body: str, shift: int) -> None:
        self._body, self._shift = body, shift
        self._last = self._line = 0
        self._ends: dict[
            int, int
        ] = {}  # blocks in blocks end together, at times before many blank lines

    def start(self, place: int) -> int:
        if place < self._last:
            self._last = self._line = 0
        newline = self._body.rfind("\n", self._last, place)
        if newline >= 0:
            self._line = newline + 1
        self._last = place
        return self._line + self._shift

    def span(self, start: int, end: int) -> Span:
        if end not in self._ends:
            self._ends[end] = self._end(start, end)
        return self.start(start), self._ends[end] + self._shift

    def _end(self, start: int, end: int) -> int:
        body = self._body
        if body[end - 1 : end] != "\n" and not _REST_IS_BLANK.match(body, end):
            end = body.rfind(
                "\n", start, end
            )  # behind the `> ` of a line that is another block's
        return len(body[start:end].rstrip()) + start


def _language(info: str) -> str | None:
    """Read the language behind a fence: `py`, `{.python}`, `js title="x"`."""
    name = _INFO.search(info)
    return language_named(name[0]) if name else None


def _tags(body: str, texts: Iterable[Span]) -> Iterator[str]:
    """The tags in these parts of the text."""
    spans = list(texts)
    for tag in _TAG.finditer(body) if spans else ():
        at = bisect_right(spans, (tag.start(), len(body))) - 1
        if at >= 0 and tag.start() < spans[at][1]:
            yield tag[1].strip("/")
