"""Jupyter notebooks: their cells as one text, with the lines that each has in the file.

Cells of Markdown and raw text are prose, and a heading holds for the cells after it; cells of code are
code in the language of the kernel. What running them gave is not read. A passage's lines are those of
the `.ipynb` file, because that is what one opens: they are told by a second look at the file's text,
since a JSON reader keeps no places. Where the two looks disagree, all cells have the whole file's lines.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

from tamis.ingest.documents.markdown import markdown_outline
from tamis.ingest.documents.sections import (
    Code,
    Lines,
    Outline,
    Passages,
    Span,
    passages,
    trimmed,
)
from tamis.settings import ChunkingSettings
from tamis.text.languages import language_named
from tamis.text.words import storable

_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"(\s*:)?|[{}\[\]]', re.DOTALL)
_BETWEEN: Final = "\n\n"


@dataclass(frozen=True, slots=True)
class Cell:
    kind: str
    text: str
    lines: tuple[
        Span, ...
    ]  # in the file: the first and the last, for each line of the text


@dataclass(frozen=True, slots=True)
class Notebook:
    title: str
    language: str | None
    cells: tuple[Cell, ...]


def read_notebook(text: str) -> Notebook:
    """The notebook in a file's text; a `ValueError` says why it is none."""
    try:
        book = json.loads(text, parse_int=float)  # which takes any number of digits
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    cells = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(cells, list):
        raise ValueError("it has no cells")
    about = _table(book.get("metadata"))
    return Notebook(_title(about), _kernel_language(about), tuple(_cells(text, cells)))


def notebook_passages(
    book: Notebook, sizes: ChunkingSettings
) -> tuple[Passages, Outline]:
    """The passages of all cells, and the outline of the text that they make together."""
    text = _BETWEEN.join(cell.text for cell in book.cells)
    outline = _outline(text, book, sizes.smallest)
    found = passages(text, outline, sizes)
    lines = [line for cell in book.cells for line in (*cell.lines, cell.lines[-1])]
    return _in_file(found, lines), outline


# --- What is in the file --------------------------------------------------------------------


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _title(about: dict[str, Any]) -> str:
    title = about.get("title")
    return storable(title.strip()) if isinstance(title, str) else ""


def _kernel_language(about: dict[str, Any]) -> str | None:
    for name in (
        _table(about.get("kernelspec")).get("language"),
        _table(about.get("language_info")).get("name"),
    ):
        if isinstance(name, str) and name:
            return language_named(name)
    return None


def _cells(text: str, cells: Sequence[Any]) -> Iterator[Cell]:
    sources = [_strings(_table(cell).get("source")) for cell in cells]
    places = _places(text)
    known = [len(found) for found in places] == [len(source) for source in sources]
    everywhere = (1, text.count("\n") + 1)
    for number, (cell, source) in enumerate(zip(cells, sources, strict=True)):
        content = "".join(source)
        if content.strip():
            starts = list(accumulate(map(len, source), initial=0))
            lines = [bisect_right(starts, at) - 1 for at in _line_starts(content)]
            found = places[number] if known else []
            spans = [
                (found[min(line, len(found) - 1)],) * 2 if found else everywhere
                for line in lines
            ]
            yield Cell(str(_table(cell).get("cell_type")), content, tuple(spans))


def _strings(source: object) -> list[str]:
    """A cell's text: one string, or one for each line."""
    items = source if isinstance(source, list) else [source]
    texts = [storable(item) for item in items if isinstance(item, str)]
    return [
        item.replace("\r\n", "\n").replace("\r", "\n") if "\r" in item else item
        for item in texts
    ]


def _line_starts(text: str) -> list[int]:
    return [0, *(newline.end() for newline in re.finditer("\n", text))]


def _places(text: str) -> list[list[int]]:
    """Return the lines on which the strings of each cell's source begin."""
    found: list[list[int]] = []
    keys: list[str] = []  # of the objects and lists around, the one that was read last
    lines = Lines(text)
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign in "{[":
            keys.append("")
            if len(keys) == 3 and keys[0] == '"cells"':
                found.append([])
        elif sign in "}]":
            del keys[-1:]
        elif token[1]:
            keys[-1:] = [sign[: -len(token[1])]]
        elif (
            found
            and keys[0] == '"cells"'
            and len(keys) in (3, 4)
            and keys[2] == '"source"'
        ):
            found[-1].append(lines.at(token.start()))
    return found


# --- What becomes of it ---------------------------------------------------------------------


def _outline(text: str, book: Notebook, fits: int) -> Outline:
    parts = []
    start = 0
    for cell in book.cells:
        end = start + len(cell.text)
        parts.append(_cell_outline(text, (start, end), cell, book.language, fits))
        start = end + len(_BETWEEN)
    return Outline(
        headings=[heading for part in parts for heading in part.headings],
        blocks=[block for part in parts for block in part.blocks],
        codes=[code for part in parts for code in part.codes],
        references=[reference for part in parts for reference in part.references],
        tags=[tag for part in parts for tag in part.tags],
    )


def _cell_outline(
    text: str, span: Span, cell: Cell, language: str | None, fits: int
) -> Outline:
    if cell.kind == "markdown":
        return markdown_outline(text, span[0], fits, span[1])
    if cell.kind == "code":
        spans = list(trimmed(text, span))
        return Outline(
            blocks=spans,
            codes=[Code(inside, inside, language, apart=True) for inside in spans],
        )
    return Outline()


def _in_file(found: Passages, lines: Sequence[Span]) -> Passages:
    """The passages with the lines of the file in place of those of the text."""
    chunks = [
        replace(
            chunk,
            start_line=lines[chunk.start_line - 1][0],
            end_line=lines[chunk.end_line - 1][1],
        )
        for chunk in found.chunks
    ]
    parents = [
        replace(
            parent,
            start_line=lines[parent.start_line - 1][0],
            end_line=lines[parent.end_line - 1][1],
        )
        for parent in found.parents
    ]
    return Passages(chunks, parents, found.links)
