"""Documents as points, and back: what is stored of each, under which name (docs/cluster.md lists it)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tamis.index.embedded.segment import Lanes
from tamis.index.embedded.words import names_of as term_names
from tamis.index.protocol import Prepared
from tamis.index.qdrant.native import searchable
from tamis.index.qdrant.points import Payload, Point, Row, Sparse, point_id, sparse
from tamis.model import (
    Chunk,
    Document,
    Facts,
    FileState,
    FrontMatter,
    Link,
    Parent,
    Passage,
    Stamps,
)
from tamis.query.filters import Archived
from tamis.text.linking import key_of as link_key
from tamis.text.linking import names_of
from tamis.text.words import storable, text_hash

# What a search brings along of each passage, so that showing it needs no second request.
PASSAGE: Final = (
    "filePath", "chunkId", "content", "header_path", "start_line", "end_line", "chunk_type", "language",
    "modified", "tags", "symbols", "parent", "title",
)  # fmt: skip
FACTS: Final = ("filePath", "tags", "writtenAuthor", "writtenCategory", "modified")


def points_of(
    root: str,
    born: int,
    batch: Sequence[Prepared],
    boosts: Mapping[str, float],
    archive: Archived,
) -> Iterator[Point]:
    """The points of some documents, chunks first; all of a generation that is not current yet."""
    words, code = postings(batch, boosts)
    row = 0
    for prepared in batch:
        document = prepared.document
        shared = {"root": root, "born": born} | searchable(facts_of(document), archive)
        shared |= {"tags": list(document.front.tags), "title": document.title}
        shared["fileHash"] = prepared.state.hash.hex()
        for chunk in document.chunks:
            vector = (
                prepared.vectors[chunk.ordinal] if prepared.vectors.shape[1] else None
            )
            own = point_id(root, document.path, chunk.ordinal, born)
            yield Point(own, shared | _chunk(chunk), vector, words[row], code[row])
            row += 1
        yield Point(
            point_id(root, document.path, "document", born),
            shared | _document(prepared),
        )


def facts_of(document: Document) -> Facts:
    front = document.front
    return Facts(
        document.path, frozenset(front.tags), front.author, front.category, document.modified
    )  # fmt: skip


def _chunk(chunk: Chunk) -> Payload:
    """A chunk's own fields. `chunkId` is its number in the document."""
    own = {
        "kind": "chunk",
        "chunkId": str(chunk.ordinal),
        "content": chunk.content,
        "header_path": chunk.header_path,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "chunk_type": chunk.chunk_type,
        "symbols": list(chunk.names),
    }
    own |= {} if chunk.language is None else {"language": chunk.language}
    return own if chunk.parent is None else own | {"parent": chunk.parent}


def _document(prepared: Prepared) -> Payload:
    document, front = prepared.document, prepared.document.front
    links = [(link, link_key(link, document.path)) for link in document.links]
    return {
        "kind": "document",
        "chunks": len(document.chunks),
        "state": stored_state(prepared.state),
        "writtenAuthor": front.author,
        "writtenCategory": front.category,
        "aliases": list(front.aliases),
        "keywords": list(front.keywords),
        "description": front.description,
        "warning": storable(document.warning),
        "links": [
            [each.type, each.target, each.anchor, each.ordinal, name]
            for each, name in links
            if name
        ],
        "looksFor": sorted({name for _, name in links if name}),
        "linkKeys": sorted(names_of(document.path, front.aliases)),
        "parents": [
            [each.content, each.header_path, each.start_line, each.end_line]
            for each in document.parents
        ],
    }


def postings(
    batch: Sequence[Prepared], boosts: Mapping[str, float]
) -> tuple[list[Sparse], list[Sparse]]:
    """The weights of every chunk's terms: those that the embedded engine writes, number for number."""
    lanes = Lanes(boosts)
    size = 0
    for prepared in batch:
        lanes.begin(prepared.document)
        for chunk in prepared.document.chunks:
            lanes.add(size, chunk)
            size += 1
    files = lanes.files()
    return _by_row(files["words"], size), _by_row(files["code"], size)


def _by_row(arrays: Mapping[str, NDArray[Any]], size: int) -> list[Sparse]:
    names = [name.decode("utf-8", "surrogatepass") for name in term_names(dict(arrays))]
    terms = np.repeat(np.arange(len(names)), np.diff(arrays["ends"], prepend=0))
    weights: list[dict[str, float]] = [{} for _ in range(size)]
    columns = (terms.tolist(), arrays["rows"].tolist(), arrays["weights"].tolist())
    for term, row, weight in zip(*columns, strict=True):
        weights[row][names[term]] = weight
    return [sparse(own) for own in weights]


def stored_state(state: FileState) -> Payload:
    return state._asdict() | {"hash": state.hash.hex()}


def read_state(stored: Payload) -> FileState:
    return FileState(**(stored | {"hash": bytes.fromhex(stored["hash"])}))


def stamps_of(states: Mapping[str, FileState], recipe: str) -> dict[str, Stamps]:
    return {
        path: (path, *state[:4], state.read_ns if state.recipe == recipe else 0)
        for path, state in states.items()
    }


def read_facts(payload: Payload) -> Facts:
    """What filters ask, as the document wrote it."""
    author, category = payload["writtenAuthor"], payload["writtenCategory"]
    return Facts(
        payload["filePath"],
        frozenset(payload["tags"]),
        author,
        category,
        payload["modified"],
    )


def read_passage(payload: Payload) -> Passage:
    content = payload["content"]
    return Passage(
        payload["filePath"], int(payload["chunkId"]), content, text_hash(content), payload["header_path"],
        payload["start_line"], payload["end_line"], payload["chunk_type"], payload.get("language"),
        payload["modified"], tuple(payload["tags"]), tuple(payload["symbols"]), payload.get("parent"),
        payload["title"],
    )  # fmt: skip


def read_links(payload: Payload) -> list[tuple[Link, str]]:
    return [(Link(*link), name) for *link, name in payload["links"]]


def read_parents(payload: Payload) -> list[Parent]:
    return [Parent(*parent) for parent in payload["parents"]]


def read_prepared(document: Row, chunks: Iterable[Row], dimension: int) -> Prepared:
    """A document as it was written, from its points."""
    payload = document.payload
    ordered = sorted(chunks, key=lambda row: int(row.payload["chunkId"]))
    front = FrontMatter(
        description=payload["description"],
        keywords=tuple(payload["keywords"]),
        tags=tuple(payload["tags"]),
        aliases=tuple(payload["aliases"]),
        author=payload["writtenAuthor"],
        category=payload["writtenCategory"],
    )
    made = Document(
        payload["filePath"], payload["title"], front, payload["modified"],
        tuple(_read_chunk(row.payload) for row in ordered),
        tuple(link for link, _ in read_links(payload)), tuple(read_parents(payload)), payload["warning"],
    )  # fmt: skip
    vectors = np.zeros((len(ordered), dimension), np.float32)
    for at, row in enumerate(ordered):
        if row.meaning is not None:
            vectors[at] = row.meaning
    return Prepared(made, read_state(payload["state"]), vectors)


def _read_chunk(payload: Payload) -> Chunk:
    return Chunk(
        int(payload["chunkId"]), payload["content"], payload["header_path"], payload["start_line"],
        payload["end_line"], payload["chunk_type"], payload.get("language"), tuple(payload["symbols"]),
        payload.get("parent"),
    )  # fmt: skip
