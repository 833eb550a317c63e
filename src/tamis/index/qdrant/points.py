"""Points: what is stored on the server, as plain values, and what the engine asks of whoever stores them.

A collection holds points of four kinds, told apart by `kind`: chunks, which have the vectors; one point for
each document; one for each root, which says what of it is current; one with what the last run skipped.
"""

import hashlib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.index.protocol import AS_USUAL, Layout

Native = dict[str, Any]  # a filter as the server's JSON has it
Payload = dict[str, Any]
Sparse = Mapping[int, float]  # weights by the numbers of terms

MEANING, WORDS, CODE = "meaning", "words", "code"  # the vectors of a chunk
_OURS: Final = uuid.UUID(
    "1f0a9b6e-74d2-5c55-9f3a-74616d697300"
)  # what our ids are derived from
_FILLER: Final = 0  # the number of no term: what has no words at all counts as a passage all the same

# What filters and readers ask for, by the kind of index that it needs. Made before there is any data.
KEYWORDS: Final = (
    "kind", "filePath", "document", "fileNames", "parentDirectories", "tagTree", "author", "category",
    "chunk_type", "language", "linkKeys", "looksFor", "owner",
)  # fmt: skip
NUMBERS: Final = ("born", "gone", "archived", "chunks", "generation", "beat")
FLOATS: Final = ("modified", "goneAt")
TENANT: Final = "root"
NOTHING: Final[Native] = {"key": "kind", "match": {"value": "nothing"}}


@dataclass(frozen=True, slots=True)
class Point:
    """What is written."""

    id: str
    payload: Payload
    meaning: NDArray[np.float32] | None = None
    words: Sparse | None = None
    code: Sparse | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """What comes back: as much of a point as was asked for, and its score where it was searched."""

    id: str
    payload: Payload = field(default_factory=dict)
    score: float = 0.0
    meaning: NDArray[np.float32] | None = None
    words: Sparse | None = None
    code: Sparse | None = None

    def sparse(self, name: str) -> Sparse:
        return (self.words if name == WORDS else self.code) or {}


@dataclass(frozen=True, slots=True)
class Ask:
    """A search: the nearest to a vector, among the points that a filter allows.

    Rarity of terms is counted over `corpus`, never over the collection.
    """

    using: str
    query: NDArray[np.float32] | Sparse
    filter: Native
    limit: int
    corpus: Native
    fields: Sequence[str] = ()
    vectors: tuple[str, ...] = ()


class Points(Protocol):
    """A collection of points. Every change can be made twice without harm: what fails is tried again."""

    def dimension(self) -> int | None:
        """Of the meaning vectors; 0 for a collection without; None where there is no collection."""

    def prepare(self, dimension: int, layout: Layout = AS_USUAL) -> None:
        """Create the collection, unless it exists; raise if it exists with other values."""

    def get(
        self,
        ids: Sequence[str],
        fields: Sequence[str] = (),
        vectors: tuple[str, ...] = (),
    ) -> list[Row]:
        """Points by id, without those that are not there; no fields named are all."""

    def find(
        self, filter: Native, fields: Sequence[str] = (), vectors: tuple[str, ...] = ()
    ) -> Iterator[Row]: ...
    def nearest(self, asks: Sequence[Ask]) -> list[list[Row]]:
        """The answers to several searches, in one request."""

    def count(self, filter: Native) -> int: ...
    def distinct(self, name: str, filter: Native, most: int) -> list[str]:
        """How many values a field has."""

    def put(self, points: Sequence[Point], *, only_new: bool = False) -> None: ...
    def change(self, filter: Native, values: Payload) -> None: ...
    def clear(self, filter: Native, names: Sequence[str]) -> None:
        """Take fields from points."""

    def delete(self, filter: Native) -> None: ...
    def close(self) -> None: ...


def point_id(*parts: object) -> str:
    """The same parts have the same id, wherever and whenever."""
    return str(uuid.uuid5(_OURS, "\0".join(map(str, parts))))


def key_of(id: str) -> int:
    return uuid.UUID(id).int


def id_of(key: int) -> str:
    return str(uuid.UUID(int=key))


@lru_cache(maxsize=1 << 17)
def term_number(term: str) -> int:
    """A term as a dimension of a sparse vector. Of a million terms, some hundred pairs share theirs."""
    digest = hashlib.blake2b(
        term.encode("utf-8", "surrogatepass"), digest_size=4
    ).digest()
    return int.from_bytes(digest) or 1


def sparse(weights: Mapping[str, float]) -> Sparse:
    """A lane's postings of one passage. What has none still counts among the passages."""
    numbered: dict[int, float] = {}
    for term, weight in weights.items():
        number = term_number(term)
        numbered[number] = numbered.get(number, 0.0) + weight
    return numbered or {_FILLER: 1.0}


def visible(root: str, generation: int, kind: str) -> list[Native]:
    """The conditions for what a reader of a generation sees: written by then, and not gone by then."""
    return [
        {"key": TENANT, "match": {"value": root}},
        {"key": "kind", "match": {"value": kind}},
        {"key": "born", "range": {"lte": generation}},
        {"must_not": [{"key": "gone", "range": {"lte": generation}}]},
    ]


def any_of(name: str, values: Sequence[str]) -> Native:
    return {"key": name, "match": {"any": list(values)}} if values else NOTHING


def with_ids(ids: Sequence[str]) -> Native:
    return {"has_id": list(ids)}


# What a search brings along of each passage, so that showing it needs no second request.
