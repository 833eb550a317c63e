"""The points of a collection on a server, and the requests that the engine makes of it.

A collection holds points of four kinds, told apart by `kind`: chunks, which have the vectors; one
point for each document; one for each root, which says what is current; and one with the files that
the last run skipped. docs/cluster.md lists their fields.
"""

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.index.embedded.segment import Lanes
from tamis.index.embedded.words import names_of as term_names
from tamis.index.protocol import AS_USUAL, Layout, Prepared
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
from tamis.query import filters as f
from tamis.text.linking import key_of as link_key
from tamis.text.linking import names_of
from tamis.text.words import storable, text_hash

Native = dict[str, Any]  # a filter as the server's JSON has it
Payload = dict[str, Any]
Listed = Callable[[], Sequence[Facts]]  # every document of a generation
Sparse = Mapping[int, float]  # weights by the numbers of terms

# The vectors of a chunk.
MEANING, WORDS, CODE = "meaning", "words", "code"
# Our ids are derived from this one.
_OURS = uuid.UUID("1f0a9b6e-74d2-5c55-9f3a-74616d697300")
# The number of no term: a chunk without words still counts as a passage.
_FILLER = 0

# Properties with one value, and the fields that keep them as they were written. A field named like
# the property has the form that a filter compares.
PROPERTIES = {"author": "writtenAuthor", "category": "writtenCategory"}

# Fields that filters and readers ask for, by the kind of index they need. The indexes are made
# before there is any data.
KEYWORDS = (
    "kind", "filePath", "document", "fileNames", "parentDirectories", "tagTree", *PROPERTIES,
    "chunk_type", "language", "linkKeys", "looksFor", "owner",
)  # fmt: skip
NUMBERS = ("born", "gone", "archived", "chunks", "generation", "beat")
FLOATS = ("modified", "goneAt")
TENANT = "root"

# A search brings these along with each passage, so that showing it needs no second request.
PASSAGE = (
    "filePath", "chunkId", "content", "header_path", "start_line", "end_line", "chunk_type", "language",
    "modified", "tags", "symbols", "parent", "title",
)  # fmt: skip
FACTS = ("filePath", "tags", *PROPERTIES.values(), "modified")


@dataclass(frozen=True, slots=True)
class Point:
    """A point, or as much of it as was asked for, with its score if it was searched."""

    id: str
    payload: Payload = field(default_factory=dict)
    meaning: NDArray[np.float32] | None = None
    terms: Mapping[str, Sparse] = field(default_factory=dict)  # by lane
    score: float = 0.0

    @property
    def key(self) -> int:
        return uuid.UUID(self.id).int

    @property
    def path(self) -> str:
        return str(self.payload["filePath"])

    @property
    def ordinal(self) -> int:
        return int(self.payload["chunkId"])

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(self.payload["aliases"])


@dataclass(frozen=True, slots=True)
class Ask:
    """A search: the points nearest to a vector, among those that a filter allows.

    The rarity of terms is counted over those points, never over the collection.
    """

    using: str
    query: NDArray[np.float32] | Sparse
    filter: Native
    limit: int
    fields: Sequence[str] = ()
    vectors: tuple[str, ...] = ()


class Points(Protocol):
    """A collection of points. Every change can be made twice without harm, so a failed one is retried."""

    def dimension(self) -> int | None:
        """The width of the meaning vectors, 0 without any; None if there is no collection."""

    def prepare(self, dimension: int, layout: Layout = AS_USUAL) -> None:
        """Create the collection, unless it exists; raise if it exists with other values."""

    def get(
        self,
        ids: Sequence[str],
        fields: Sequence[str] = (),
        vectors: tuple[str, ...] = (),
    ) -> list[Point]:
        """Points by id, as far as they exist. Without names of fields, all fields."""

    def find(
        self,
        filter: Native,
        fields: Sequence[str] = (),
        vectors: tuple[str, ...] = (),
    ) -> Iterator[Point]: ...
    def nearest(self, asks: Sequence[Ask]) -> list[list[Point]]:
        """The answers to several searches, in one request."""

    def count(self, filter: Native) -> int: ...
    def distinct(
        self,
        name: str,
        filter: Native,
        most: int,
    ) -> list[str]:
        """The values of a field."""

    def put(self, points: Sequence[Point], *, only_new: bool = False) -> None: ...
    def change(self, filter: Native, values: Payload) -> None: ...
    def clear(self, filter: Native, names: Sequence[str]) -> None:
        """Remove fields from points."""

    def delete(self, filter: Native) -> None: ...
    def close(self) -> None: ...


def point_id(*parts: object) -> str:
    """Return the same id for the same parts, on every machine."""
    return str(uuid.uuid5(_OURS, "\0".join(map(str, parts))))


def id_of(key: int) -> str:
    return str(uuid.UUID(int=key))


@lru_cache(maxsize=1 << 17)
def term_number(term: str) -> int:
    """The dimension of a term in a sparse vector. Of a million terms, some hundred pairs share theirs."""
    encoded = term.encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(encoded, digest_size=4).digest()
    return int.from_bytes(digest) or 1


def sparse(weights: Iterable[tuple[str, float]]) -> Sparse:
    """Number weighted terms; the weights of terms that share a number are added up."""
    numbered: dict[int, float] = {}
    for term, weight in weights:
        number = term_number(term)
        numbered[number] = numbered.get(number, 0.0) + weight
    return numbered


# --- Conditions ---------------------------------------------------------------


def equals(name: str, value: str | int) -> Native:
    return {"key": name, "match": {"value": value}}


NOTHING = equals("kind", "nothing")


def any_of(name: str, values: Sequence[str]) -> Native:
    if not values:
        return NOTHING
    return {"key": name, "match": {"any": list(values)}}


def bounded(name: str, **bounds: float) -> Native:
    """A condition on a number, such as `lte=7`."""
    return {"key": name, "range": bounds}


def every(*conditions: Native) -> Native:
    return {"must": list(conditions)}


def visible(
    root: str,
    generation: int,
    kind: str,
    *also: Native,
) -> Native:
    """Select what a reader of a generation sees: written by then, and not gone by then."""
    return every(
        equals(TENANT, root),
        equals("kind", kind),
        bounded("born", lte=generation),
        {"must_not": [bounded("gone", lte=generation)]},
        *also,
    )


def native(
    filter: f.Filter,
    listed: Listed,
    archive: Sequence[str],
) -> Native:
    """Return a condition for the points that a filter allows.

    Every atom is a condition on an indexed field. A server cannot match gitignore patterns: they are
    matched here against the list of documents, and sent as a set of paths. `archive` are the patterns
    that the stored field `archived` was computed with.
    """

    def each(*terms: f.Filter) -> list[Native]:
        return [native(term, listed, archive) for term in terms]

    match filter:
        case f.And(terms):
            return every(*each(*terms))
        case f.Or(()):
            return NOTHING
        case f.Or(terms):
            return {"should": each(*terms)}
        case f.Not(term):
            return {"must_not": each(term)}
        case f.Tag(name):
            tagged = equals("tagTree", f.nfc(name))
            if filter.implied == f.NOTHING:
                return tagged
            return {"should": [tagged, *each(filter.implied)]}
        case f.Archived(patterns) if patterns == tuple(archive):
            return equals("archived", 1)
        case f.Path() | f.Archived():
            return _matching(filter, listed())
        case f.File(names):
            return any_of("fileNames", [f.nfc(name) for name in names])
        case f.Under(folder):
            return _below([folder])
        case f.Workspace(_, folders):
            return _below(folders)
        case f.Property(name):
            return equals(filter.key, f.folded(name))
        case f.After(_, moment):
            return bounded("modified", gte=moment)
        case f.Before(_, moment):
            return bounded("modified", lt=moment)
        case f.DocumentIs(path):
            return equals("document", f.nfc(path))
        case f.Type(name):
            return equals("chunk_type", name)
        case f.Language(name):
            return equals("language", name)
    raise TypeError(f"{filter!r} is no filter")


def _below(folders: Sequence[str]) -> Native:
    if "" in folders:  # the root itself
        return every()
    return any_of("parentDirectories", [f"/{f.plain(folder)}/" for folder in folders])


def _matching(atom: f.Path | f.Archived, listed: Sequence[Facts]) -> Native:
    """Name the documents that match, or those that do not: the shorter list."""
    inside = [facts.path for facts in listed if atom.matches(facts)]
    if 2 * len(inside) <= len(listed):
        return any_of("filePath", inside)
    if len(inside) == len(listed):
        return every()
    known = set(inside)
    outside = [facts.path for facts in listed if facts.path not in known]
    return {"must_not": [any_of("filePath", outside)]}


# --- Documents as points ------------------------------------------------------


def points_of(
    root: str,
    born: int,
    batch: Sequence[Prepared],
    boosts: Mapping[str, float],
    archive: f.Archived,
) -> Iterator[Point]:
    """Yield the points of documents, the chunks of each first, all of one generation."""
    lanes = _postings(batch, boosts)
    row = 0
    for prepared in batch:
        document = prepared.document
        shared = searchable(document, archive) | {
            "root": root,
            "born": born,
            "tags": list(document.front.tags),
            "title": document.title,
            "fileHash": prepared.state.hash.hex(),
        }
        for chunk in document.chunks:
            vector = None
            if prepared.vectors.shape[1]:
                vector = prepared.vectors[chunk.ordinal]
            yield Point(
                point_id(root, document.path, chunk.ordinal, born),
                shared | _chunk_fields(chunk),
                vector,
                {name: own[row] for name, own in lanes.items()},
            )
            row += 1
        own = point_id(root, document.path, "document", born)
        yield Point(own, shared | _document_fields(prepared))


def searchable(document: Document, archive: f.Archived) -> Payload:
    """The fields of a document that the conditions of `native` look at."""
    path = document.path
    front = document.front
    folders = f.plain(path).split("/")[:-1]
    tags: set[str] = set()
    for tag in front.tags:
        tags.update(_prefixes(tag.split("/")))
    return {
        "filePath": path,
        "document": f.nfc(path),
        "fileNames": list(dict.fromkeys(f.file_names(path))),
        "parentDirectories": [f"/{above}/" for above in _prefixes(folders)],
        "tagTree": sorted(tags),
        **{name: f.folded(getattr(front, name)) for name in PROPERTIES},
        "modified": document.modified,
        "archived": int(archive.matches(Facts(path))),
    }


def _prefixes(parts: Sequence[str]) -> list[str]:
    """`area`, `web` -> `area`, `area/web`."""
    return list(accumulate(parts, "{}/{}".format))


def _chunk_fields(chunk: Chunk) -> Payload:
    fields = {
        "kind": "chunk",
        "chunkId": str(chunk.ordinal),
        "content": chunk.content,
        "header_path": chunk.header_path,
        "start_line": chunk.start_line,
        "end_line": chunk.end_line,
        "chunk_type": chunk.chunk_type,
        "symbols": list(chunk.names),
    }
    if chunk.language is not None:
        fields["language"] = chunk.language
    if chunk.parent is not None:
        fields["parent"] = chunk.parent
    return fields


def _document_fields(prepared: Prepared) -> Payload:
    document, front = prepared.document, prepared.document.front
    links = []
    for link in document.links:
        name = link_key(link, document.path)
        if name:
            links.append([link.type, link.target, link.anchor, link.ordinal, name])
    parents = []
    for each in document.parents:
        parents.append(list(astuple(each)))
    return {
        "kind": "document",
        "chunks": len(document.chunks),
        "state": stored_state(prepared.state),
        **{key: getattr(front, name) for name, key in PROPERTIES.items()},
        "aliases": list(front.aliases),
        "keywords": list(front.keywords),
        "description": front.description,
        "warning": storable(document.warning),
        "links": links,
        "looksFor": sorted({link[-1] for link in links}),
        "linkKeys": sorted(names_of(document.path, front.aliases)),
        "parents": parents,
    }


def _postings(
    batch: Sequence[Prepared], boosts: Mapping[str, float]
) -> dict[str, list[Sparse]]:
    """The terms of every chunk by lane, with the same weights as in the embedded engine."""
    lanes = Lanes(boosts)
    size = 0
    for prepared in batch:
        lanes.begin(prepared.document)
        for chunk in prepared.document.chunks:
            lanes.add(size, chunk)
            size += 1
    postings = {}
    for lane, arrays in lanes.files().items():
        weights: list[list[tuple[str, float]]] = [[] for _ in range(size)]
        start = 0
        for name, end in zip(term_names(arrays), arrays["ends"].tolist(), strict=True):
            term = name.decode("utf-8", "surrogatepass")
            rows = arrays["rows"][start:end].tolist()
            own = arrays["weights"][start:end].tolist()
            for row, weight in zip(rows, own, strict=True):
                weights[row].append((term, weight))
            start = end
        postings[lane] = [sparse(each) or {_FILLER: 1.0} for each in weights]
    return postings


def stored_state(state: FileState) -> Payload:
    return state._asdict() | {"hash": state.hash.hex()}


# --- Points as documents ------------------------------------------------------


def read_state(payload: Payload) -> FileState:
    stored = payload["state"]
    return FileState(**(stored | {"hash": bytes.fromhex(stored["hash"])}))


def stamps_of(states: Mapping[str, FileState], recipe: str) -> dict[str, Stamps]:
    stamps = {}
    for path, state in states.items():
        read_ns = state.read_ns if state.recipe == recipe else 0
        stamps[path] = (path, *state[:4], read_ns)
    return stamps


def read_facts(payload: Payload) -> Facts:
    return Facts(
        payload["filePath"],
        tags=frozenset(payload["tags"]),
        modified=payload["modified"],
        **_properties(payload),
    )


def _properties(payload: Payload) -> dict[str, Any]:
    return {name: payload[key] for name, key in PROPERTIES.items()}


def read_passage(payload: Payload) -> Passage:
    return Passage(
        path=payload["filePath"],
        content_hash=text_hash(payload["content"]),
        modified=payload["modified"],
        tags=tuple(payload["tags"]),
        title=payload["title"],
        **asdict(_read_chunk(payload)),
    )


def read_links(payload: Payload) -> list[tuple[Link, str]]:
    return [(Link(*link), name) for *link, name in payload["links"]]


def read_parents(payload: Payload) -> list[Parent]:
    return [Parent(*parent) for parent in payload["parents"]]


def read_prepared(
    document: Point,
    chunks: Iterable[Point],
    dimension: int,
) -> Prepared:
    """A document as it was written."""
    payload = document.payload
    ordered = sorted(chunks, key=lambda point: point.ordinal)
    front = FrontMatter(
        description=payload["description"],
        keywords=tuple(payload["keywords"]),
        tags=tuple(payload["tags"]),
        aliases=document.aliases,
        **_properties(payload),
    )
    made = Document(
        document.path,
        payload["title"],
        front,
        payload["modified"],
        tuple(_read_chunk(point.payload) for point in ordered),
        tuple(link for link, _ in read_links(payload)),
        tuple(read_parents(payload)),
        payload["warning"],
    )
    vectors = np.zeros((len(ordered), dimension), np.float32)
    for row, point in enumerate(ordered):
        if point.meaning is not None:
            vectors[row] = point.meaning
    return Prepared(made, read_state(payload), vectors)


def _read_chunk(payload: Payload) -> Chunk:
    return Chunk(
        int(payload["chunkId"]),
        payload["content"],
        payload["header_path"],
        payload["start_line"],
        payload["end_line"],
        payload["chunk_type"],
        payload.get("language"),
        tuple(payload["symbols"]),
        payload.get("parent"),
    )
