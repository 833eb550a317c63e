"""Reading what a search has found: a passage by its id, or lines of a document, with what stands around.

Lines come from the file as it is now, of documents that the index holds and of no others.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from tamis.corpus import Corpus
from tamis.engine import Holding
from tamis.errors import NotIndexed, UsageError
from tamis.filters import EVERYTHING
from tamis.ingest.read import read_inside
from tamis.model import Parent, Passage, Plain, Skipped
from tamis.query import atom

_SHOWN: Final = 5  # documents that an error names
_PARENT: Final = "parent-"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which passage: a chunk with so many neighbours on either side, or lines of a document."""

    chunk_id: str | None = None
    path: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    neighbours: int = 0


@dataclass(frozen=True, slots=True)
class Excerpt(Plain):
    path: str
    start_line: int
    end_line: int
    content: str
    header_path: str = ""
    next_line: int | None = None  # where to go on: the text was too long, or the document goes on
    hints: tuple[str, ...] = ()


def excerpt(corpus: Corpus, wanted: Wanted, most: int) -> Excerpt:
    """At most so many characters of it, whole lines where one fits."""
    _check(wanted)
    with corpus.snapshot() as snapshot:
        if wanted.chunk_id is not None:
            return _chunk(corpus, snapshot, wanted.chunk_id, wanted.neighbours, most)
        path = find_document(corpus, snapshot, wanted.path or "")
        passages = passages_of(snapshot, path)
    return _between(corpus, path, wanted.start_line or 1, wanted.end_line, most, passages)


def _check(wanted: Wanted) -> None:
    if wanted.chunk_id is not None and wanted.path is not None:
        raise UsageError("chunk_id and path are given", hint="give chunk_id or path, not both")
    if wanted.chunk_id is None and wanted.path is None:
        raise UsageError("which passage?", hint="give chunk_id, or path with start_line and end_line")
    lines = (wanted.start_line, wanted.end_line)
    if wanted.chunk_id is not None and lines != (None, None):
        raise UsageError("a chunk has its own lines", hint="leave start_line and end_line out, or give path")
    if wanted.path is not None and wanted.neighbours:
        raise UsageError("neighbours are those of a chunk", hint="give chunk_id, or more lines")
    if wanted.start_line and wanted.end_line and wanted.end_line < wanted.start_line:
        raise UsageError(
            f"end_line {wanted.end_line} is before start_line {wanted.start_line}", hint="swap them"
        )


def find_document(corpus: Corpus, snapshot: Holding, path: str) -> str:
    """The one document that a path or a name stands for."""
    found = snapshot.documents(atom("file", (path,), corpus.names))
    if path in found:
        return path
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{len(found)} documents are called {path}", hint=f"one of {_some(found)}")
    near = difflib.get_close_matches(path, snapshot.documents(EVERYTHING), n=_SHOWN)
    hint = f"did you mean {_some(near)}?" if near else "index_status tells what is skipped, and why"
    raise NotIndexed(f"no document {path} is indexed", hint=hint)


def _some(paths: list[str]) -> str:
    return ", ".join(paths[:_SHOWN]) + (", ..." if len(paths) > _SHOWN else "")


def document_text(corpus: Corpus, path: str) -> str:
    """The whole text of a document that the index holds, as it is now."""
    text = read_inside(corpus.root, path, corpus.settings.index.max_file_bytes)
    if isinstance(text, Skipped):
        raise UsageError(f"{path} cannot be read: {text.reason} {text.detail}".rstrip(), hint="search again")
    return text


def passages_of(snapshot: Holding, path: str) -> dict[int, Passage]:
    """Of a document, in order."""
    keys = snapshot.keys([path], snapshot.allow(EVERYTHING)).get(path, ())
    found = snapshot.passages(keys)
    return {found[key].ordinal: found[key] for key in keys}


def _chunk(corpus: Corpus, snapshot: Holding, chunk_id: str, neighbours: int, most: int) -> Excerpt:
    path, _, number = chunk_id.rpartition("#")
    if not path:
        raise UsageError(f"{chunk_id} is no chunk_id", hint="one looks like docs/api.md#3; or give path")
    path = find_document(corpus, snapshot, path)
    passages = passages_of(snapshot, path)
    found = _numbered(snapshot, path, number, passages)
    if found is None:
        hint = "its document has changed: search again, or give path and lines"
        raise NotIndexed(f"there is no passage {chunk_id}", hint=hint)
    if not neighbours:
        return _alone(path, found, most)
    made = _between(corpus, path, *_around(found, passages, neighbours), most, passages)
    moved = _first_line(found.content) not in made.content and made.next_line is None
    hints = (*made.hints, *((_MOVED,) if moved else ()))
    return replace(made, header_path=found.header_path, hints=hints)


_MOVED: Final = "the file has changed since it was indexed: lines may have moved"


def _first_line(content: str) -> str:
    return content.strip().split("\n", 1)[0].strip()


def _numbered(
    snapshot: Holding, path: str, number: str, passages: Mapping[int, Passage]
) -> Passage | Parent | None:
    digits = number.removeprefix(_PARENT)
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        return None
    if number.startswith(_PARENT):
        return snapshot.parents([(path, int(digits))]).get((path, int(digits)))
    return passages.get(int(digits))


def _around(found: Passage | Parent, passages: Mapping[int, Passage], neighbours: int) -> tuple[int, int]:
    before = [each.start_line for each in passages.values() if each.start_line < found.start_line]
    after = [each.end_line for each in passages.values() if each.end_line > found.end_line]
    first = sorted(before)[-neighbours:]
    last = sorted(after)[:neighbours]
    return (first or [found.start_line])[0], (last or [found.end_line])[-1]


def _alone(path: str, found: Passage | Parent, most: int) -> Excerpt:
    """As it is in the index, to the letter."""
    if len(found.content) <= most:
        return Excerpt(path, found.start_line, found.end_line, found.content, found.header_path)
    lines = found.content.split("\n")
    count = _fitting(lines, most)
    last = min(found.start_line + count - 1, found.end_line)
    following = last + 1 if last < found.end_line else None
    return Excerpt(
        path, found.start_line, last, "\n".join(lines[:count])[:most], found.header_path, following, _TOO_LONG
    )


_TOO_LONG: Final = ("cut: raise max_tokens, or go on with path and start_line",)


def _between(
    corpus: Corpus, path: str, first: int, last: int | None, most: int, passages: Mapping[int, Passage]
) -> Excerpt:
    """These lines of a document; of a notebook the cells in them, since its own lines are JSON."""
    if path.endswith(".ipynb"):
        return _cells(path, [*passages.values()], first, last, most)
    lines = document_text(corpus, path).removesuffix("\n").split("\n")
    if first > len(lines):
        hint = f"give a start_line from 1 to {len(lines)}"
        raise UsageError(f"{path} has {len(lines)} lines, not {first}", hint=hint)
    wanted = lines[first - 1 : last]
    count = _fitting(wanted, most)
    text, end = "\n".join(wanted[:count]), first + count - 1
    header = next((p.header_path for p in passages.values() if p.start_line <= first <= p.end_line), "")
    is_cut = count < len(wanted) or len(text) > most
    following = end + 1 if end < len(lines) else None
    return Excerpt(path, first, end, text[:most], header, following, _TOO_LONG if is_cut else ())


def _cells(path: str, passages: list[Passage], first: int, last: int | None, most: int) -> Excerpt:
    inside = [p for p in passages if p.end_line >= first and (last is None or p.start_line <= last)]
    if not inside:
        raise UsageError(f"{path} has nothing to read in these lines", hint="give chunk_id, or other lines")
    count = _fitting([f"{each.content}\n" for each in inside], most)
    shown = inside[:count]
    text = "\n\n".join(each.content for each in shown)
    is_cut = count < len(inside) or len(text) > most
    after = [each.start_line for each in passages if each.start_line > shown[-1].end_line]
    lines = shown[0].start_line, shown[-1].end_line
    following, hints = min(after, default=None), _TOO_LONG if is_cut else ()
    return Excerpt(path, *lines, text[:most], shown[0].header_path, following, hints)


def _fitting(texts: Sequence[str], most: int) -> int:
    """How many of them fit, a line each; the first does always, if only with its beginning."""
    sizes = accumulate(len(text) + 1 for text in texts)
    return max(1, sum(size <= most + 1 for size in sizes))
