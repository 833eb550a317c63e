"""The seam between the two paths and the engines: what an engine must answer.

An engine turns a filter into the rows it allows, once; its lanes see those rows and nothing
else, statistics included. That is the whole of the law, so a lane takes no filter, only rows.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.errors import IndexMissing
from tamis.model import (
    Address,
    Document,
    Facts,
    FileState,
    IndexState,
    Lane,
    LinkType,
    Parent,
    Passage,
    Skipped,
    Stamps,
)
from tamis.query.filters import Filter

Vectors = NDArray[np.float32]  # one, or one in each row
Positions = Sequence[tuple[str, int]]  # of passages or sections: path and number

Paths = Sequence[str]  # of documents
Texts = tuple[str, str, str]  # title, headings and text of a passage
Touched = tuple[str, FileState, float]  # path, new state and date of an unchanged file
IndexFacts = Mapping[str, Any]  # by name: its model, its root, when it was built...

# Weights of terms by which every term counts the same.
EVENLY: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Operations that an index allows; callers ask for these, never for the engine."""

    # A search builds or updates it; otherwise only index, watch and migrate do.
    updated_by_search: bool
    # Any folder may search it; otherwise only the root that it was made from.
    any_root_may_search: bool
    examinable: bool  # doctor can check its files and repair them


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that a lane found, by the engine's own key, with its score there."""

    key: int
    score: float


@dataclass(frozen=True, slots=True)
class Concept:
    """A term of the vocabulary, and the cosine between it and a question."""

    term: str
    score: float


@dataclass(frozen=True, slots=True)
class Allowed:
    """The rows that a search may see, in the engine's own form, and their numbers."""

    rows: Any
    chunks: int
    documents: int
    known: float = 1.0  # share of the passages that have vectors
    late: bool = False  # lanes filter after they scored every row: same hits, more work


@dataclass(frozen=True, slots=True)
class Edge:
    """A link that leads to a document."""

    source: str  # paths
    target: str
    type: LinkType
    anchor: str
    ordinal: int | None  # the passage with the link; None: its whole document


@dataclass(frozen=True, slots=True)
class LaneAsk:
    """A question to one lane: a vector, or terms with the weights of some of them."""

    lane: Lane
    vector: Vectors | None = None
    terms: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=lambda: EVENLY)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document that is ready to be written."""

    document: Document
    state: FileState
    vectors: Vectors  # a row for each passage; of width 0 without a model


@dataclass(frozen=True, slots=True)
class PendingDocument:
    """A document that was committed without vectors."""

    path: str
    chunks: int
    modified: float
    linked: int  # links that look for a name of this document


class Snapshot(Protocol):
    """One generation of an index as a search sees it, unchanging while it is open.

    A lane returns every passage that can be among the `depth` best by score, then path, then
    position; it may return more, in any order. A score depends on the passage, the question and the
    allowed rows alone, to the last bit.

    Links are resolved among the documents that have an allowed passage (`tamis.text.linking`), and a
    link in a passage that is not allowed does not exist.
    """

    @property
    def state(self) -> IndexState: ...
    def allow(self, filter: Filter) -> Allowed: ...
    def lanes(
        self,
        asks: Sequence[LaneAsk],
        allowed: Allowed,
        depth: int,
    ) -> Mapping[Lane, Sequence[Hit]]:
        """Ask several lanes at once; terms without a weight count 1."""

    def concepts(
        self,
        query: Vectors,
        allowed: Allowed,
        depth: int,
        floor: int,
        most: int,
    ) -> Sequence[Concept] | None:
        """The `depth` terms nearest to a question, best first, ties by term.

        A term takes part if `floor` allowed passages have it and it is among the `most` most frequent
        ones. None if there is no complete vocabulary.
        """

    def links(self, paths: Paths, allowed: Allowed) -> Sequence[Edge]:
        """Every link from or to one of the documents."""

    def degrees(self, paths: Paths, allowed: Allowed) -> Mapping[str, int]:
        """The number of documents that each document is linked with."""

    def keys(self, paths: Paths, allowed: Allowed) -> Mapping[str, Sequence[int]]:
        """The allowed passages of documents, in order."""

    def within(self, paths: Paths, allowed: Allowed) -> Allowed:
        """The allowed rows that belong to some documents."""

    def vectors(self, positions: Positions) -> Vectors:
        """The vectors of passages by path and ordinal, one row each; of width 0 without a model.

        A passage that has no vector yet has zeros: it resembles nothing.
        """

    def coverage(
        self,
        terms: Sequence[str],
        positions: Positions,
        allowed: Allowed,
    ) -> Sequence[float]:
        """The share of the terms, by their rarity among the allowed rows, that each passage has."""

    def passages(self, keys: Sequence[int]) -> Mapping[int, Passage]: ...
    def parents(self, wanted: Positions) -> Mapping[tuple[str, int], Parent]:
        """Sections by their document's path and their number there."""


class Recorded(Protocol):
    """The states of files that an index recorded when it read them."""

    def file_states(self) -> dict[str, FileState]: ...
    def stamps(self, recipe: str) -> dict[str, Stamps]:
        """Times and sizes by path, as far as a walk compares them."""


class IndexSnapshot(Snapshot, Recorded, Protocol):
    """A snapshot with the facts of its index and the facts of its documents."""

    @property
    def about(self) -> IndexFacts:
        """Facts of the index."""

    @property
    def segments(self) -> int: ...
    def documents(self, filter: Filter) -> list[str]:
        """The paths of the documents that a filter about documents allows, in order."""

    def facts(self) -> Iterator[Facts]: ...
    def facts_of(self, allowed: Allowed) -> Iterator[Facts]:
        """The facts of the documents that have an allowed passage."""

    def kinds(self, allowed: Allowed) -> tuple[Counter[str], Counter[str]]:
        """Numbers of documents with allowed passages of each type, and of each language."""

    def aliases(self, paths: Paths) -> dict[str, tuple[str, ...]]:
        """Other names of documents."""

    def skipped(self) -> tuple[Skipped, ...]: ...
    def warnings(self) -> dict[str, str]:
        """Warnings about reading documents, by path."""

    def prepared(self) -> Iterator[Prepared]:
        """Every document as it was written, in the order of paths: to be copied to another index."""


class LateVectors(Protocol):
    """The part of a writer that gives vectors to documents that were committed without."""

    memory: float  # bytes that a commit may take

    def pending_documents(self) -> Sequence[PendingDocument]: ...
    def texts_of(self, paths: Paths) -> Mapping[str, Sequence[Texts]]:
        """Title, headings and text of each passage of documents, by path."""

    def embed(self, vectors_of: Mapping[str, Vectors]) -> None:
        """Commit the vectors of documents, by path."""

    def tidy(self) -> None: ...


class Writing(Recorded, Protocol):
    """The one writer of an index. Each batch is a commit; in `all_or_nothing`, everything is one."""

    @property
    def facts(self) -> dict[str, Any]: ...
    @property
    def generation(self) -> int: ...
    @property
    def late_vectors(self) -> LateVectors | None:
        """The way to add vectors later; None if documents are always written with theirs."""

    def dates(self) -> dict[str, float]: ...
    def describe(self, values: IndexFacts) -> None: ...
    def all_or_nothing(self) -> AbstractContextManager[None]: ...
    def clear(self) -> None: ...
    def put(self, batch: Sequence[Prepared], pending: int) -> None: ...
    def remove(self, paths: Paths) -> None: ...
    def touch(self, files: Sequence[Touched]) -> None: ...
    def finish(self, skipped: Sequence[Skipped], facts: IndexFacts) -> None:
        """End a run that has written every file. `facts` are for the next run."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The way a server stores a new collection; None is for "as usual"."""

    shards: int | None = None
    copies: int | None = None  # of each shard; a write waits for all of them
    quantization: str | None = None  # none, scalar (8 bits) or binary
    on_disk: bool | None = None  # vectors, postings and payload


AS_USUAL = Layout()


class Index(Protocol):
    """An index, wherever it is: opened for reading by any number, for writing by one."""

    @property
    def place(self) -> Path | Address: ...
    @property
    def capabilities(self) -> Capabilities: ...
    @property
    def format(self) -> int: ...
    def exists(self) -> bool: ...
    def is_usable(self) -> bool:
        """Return True if it can be opened, or does not exist yet."""

    def missing(self, root: Path) -> IndexMissing:
        """The error that says that there is no index."""

    def owner_of(self, root: Path) -> str:
        """The name of a root as the owner of an index."""

    def check_owner(self, root: Path, facts: IndexFacts) -> None:
        """Raise IndexMismatch if the index was made from another root."""

    def stored_facts(self) -> IndexFacts:
        """Facts of the index, as far as even a damaged one can be read."""

    def sizes(self) -> dict[str, int]:
        """Bytes on this machine's disk, by part."""

    def snapshot(self) -> AbstractContextManager[IndexSnapshot]: ...
    def create(self, layout: Layout) -> None:
        """Create the collection on a server; raise if there is one with another layout."""

    def open_for_writing(
        self,
        timeout: float,
        waiting: Callable[[str], None],
        boosts: Mapping[str, float],
        memory: float = math.inf,
        *,
        discard: bool = False,
    ) -> AbstractContextManager[Writing]: ...
    def close(self) -> None: ...
