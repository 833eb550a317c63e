"""Jupyter notebooks: their cells as one text, with the lines that each has in the file.

Cells of Markdown and raw text are prose, and a heading holds for the cells after it; cells of code are
code in the language of the kernel. What running them gave is not read. A passage's lines are those of
the `.ipynb` file, because that is what one opens: they are told by a second look at the file's text,
since a JSON reader keeps no places. Where the two looks disagree, all cells have the whole file's lines.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

from tamis.ingest.documents.markdown import markdown_outline
from tamis.ingest.documents.sections import (
    Code,
    Lines,
    Outline,
    Parsed,
    Span,
    parse_plain,
    passages,
    trimmed,
)
from tamis.ingest.read import with_newlines
from tamis.model import Chunk, FrontMatter, Parent
from tamis.settings import ChunkingSettings
from tamis.text.languages import language_named
from tamis.text.words import storable

_TOKEN = re.compile(
    r'(?P<string>"[^"\\]*+(?:\\.[^"\\]*+)*+")(?P<colon>\s*:)?|[{}\[\]]',
    re.DOTALL,
)
_BETWEEN = "\n\n"

_Placed = TypeVar("_Placed", Chunk, Parent)


class Cell(NamedTuple):
    """A cell that is not blank."""

    kind: str
    text: str
    lines: list[Span]  # in the file: the first and the last, for each line of the text


def parse_notebook(path: str, text: str, sizes: ChunkingSettings) -> Parsed:
    """Cut the text that the cells make together."""
    try:
        book = _load(text)
    except ValueError as error:
        warning = f"no notebook, read as text: {error}"
        return replace(parse_plain(path, text, sizes), warning=warning)
    about = _table(book.get("metadata"))
    title = about.get("title")
    cells = list(_cells(text, book["cells"]))
    lines = []
    for cell in cells:
        lines += [*cell.lines, cell.lines[-1]]
    joined = _BETWEEN.join(cell.text for cell in cells)
    outline = _outline(joined, cells, _kernel_language(about), sizes.smallest)
    found = passages(joined, outline, sizes)
    front = FrontMatter()
    if isinstance(title, str):
        front = FrontMatter(title=storable(title.strip()))
    return replace(
        found,
        chunks=_in_file(found.chunks, lines),
        parents=_in_file(found.parents, lines),
        front=front,
    )


# --- What is in the file --------------------------------------------------------------------


def _load(text: str) -> dict[str, Any]:
    """Return the notebook as JSON has it; a `ValueError` says why it is none."""
    try:
        # A float takes any number of digits.
        book = _table(json.loads(text, parse_int=float))
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(book.get("cells"), list):
        raise ValueError("it has no cells")
    return book


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _kernel_language(about: dict[str, Any]) -> str | None:
    kernel = _table(about.get("kernelspec")).get("language")
    info = _table(about.get("language_info")).get("name")
    for name in (kernel, info):
        if isinstance(name, str) and name:
            return language_named(name)
    return None


def _cells(text: str, values: Sequence[Any]) -> Iterator[Cell]:
    cells = list(map(_table, values))
    sources = [_strings(cell.get("source")) for cell in cells]
    places = _places(text)
    is_known = list(map(len, places)) == list(map(len, sources))
    everywhere = (1, text.count("\n") + 1)
    for number, source in enumerate(sources):
        content = "".join(source)
        if not content.strip():
            continue
        ends = list(accumulate(map(len, source[:-1])))
        lines = []
        start = 0
        for line in content.split("\n"):
            place = everywhere
            if is_known:
                found = places[number][bisect_right(ends, start)]
                place = (found, found)
            lines.append(place)
            start += len(line) + 1
        kind = str(cells[number].get("cell_type"))
        yield Cell(kind, content, lines)


def _strings(source: object) -> list[str]:
    """Return a cell's text: one string, or one for each line."""
    items = source if isinstance(source, list) else [source]
    texts = [storable(item) for item in items if isinstance(item, str)]
    return list(map(with_newlines, texts))


def _places(text: str) -> list[list[int]]:
    """Return the lines on which the strings of each cell's source begin."""
    found: list[list[int]] = []
    keys: list[str] = []  # of the objects and lists around, the one that was read last
    lines = Lines(text)
    for token in _TOKEN.finditer(text):
        sign = token[0]
        in_cells = keys[:1] == ['"cells"']
        in_source = keys[2:3] == ['"source"'] and len(keys) < 5
        if sign in "{[":
            keys.append("")
            if in_cells and len(keys) == 3:
                found.append([])
        elif sign in "}]":
            del keys[-1:]
        elif token["colon"]:
            keys[-1:] = [token["string"]]
        elif found and in_cells and in_source:
            found[-1].append(lines.at(token.start()))
    return found


# --- What becomes of it ---------------------------------------------------------------------


def _outline(
    text: str,
    cells: Iterable[Cell],
    language: str | None,
    fits: int,
) -> Outline:
    parts = []
    start = 0
    for cell in cells:
        end = start + len(cell.text)
        if cell.kind == "markdown":
            parts.append(markdown_outline(text, start, fits, end))
        elif cell.kind == "code":
            spans = list(trimmed(text, (start, end)))
            codes = []
            for span in spans:
                codes.append(Code(span, span, language, apart=True))
            parts.append(Outline(blocks=spans, codes=codes))
        start = end + len(_BETWEEN)
    return Outline(
        headings=[heading for part in parts for heading in part.headings],
        blocks=[block for part in parts for block in part.blocks],
        codes=[code for part in parts for code in part.codes],
        references=[reference for part in parts for reference in part.references],
        tags=[tag for part in parts for tag in part.tags],
    )


def _in_file(
    found: Iterable[_Placed],
    lines: Sequence[Span],
) -> list[_Placed]:
    """Return chunks or parents with the lines of the file in place of those of the text."""
    placed = []
    for each in found:
        first, _ = lines[each.start_line - 1]
        _, last = lines[each.end_line - 1]
        placed.append(replace(each, start_line=first, end_line=last))
    return placed
