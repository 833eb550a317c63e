"""The seam between the pipeline and what stores rows: what an engine must answer.

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
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

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

EVENLY: Final[Mapping[str, float]] = MappingProxyType(
    {}
)  # no term counts more or less than another


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that a lane found, by the engine's own key, with its score there."""

    key: int
    score: float


@dataclass(frozen=True, slots=True)
class Concept:
    """A term of the vocabulary, and the cosine between it and a question."""

    term: str
    score: float


@dataclass(frozen=True, slots=True)
class Allowed:
    """The rows a search may see, in whatever form the engine likes, and how much that is."""

    rows: Any
    chunks: int
    documents: int
    known: float = 1.0  # the share of the chunks that the meaning lane knows: less while vectors are made
    late: bool = False  # let lanes score every row and drop the others afterwards: same hits, more work


@dataclass(frozen=True, slots=True)
class Edge:
    """A link that leads somewhere."""

    source: str  # paths
    target: str
    type: LinkType
    anchor: str
    ordinal: (
        int | None
    )  # the chunk of the source that it stands in, unless the whole document has it


@dataclass(frozen=True, slots=True)
class LaneAsk:
    """A question as one lane is asked it: by a vector, or by terms and what some of them count."""

    lane: Lane
    vector: NDArray[np.float32] | None = None
    terms: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=lambda: EVENLY)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document that is ready to be written."""

    document: Document
    state: FileState
    vectors: NDArray[np.float32]  # one row for each chunk; of width 0 without a model


class Snapshot(Protocol):
    """One generation of an index, unchanging while it is held.

    A lane returns every chunk that can be among the `depth` best by score, then path, then
    position; it may return more, in any order. A score depends on the chunk, the question and the
    allowed rows alone, to the last bit.

    Links are resolved among the documents that have an allowed chunk (`tamis.text.linking`), and a link in
    a chunk that is not allowed does not exist.
    """

    @property
    def state(self) -> IndexState: ...
    def allow(self, filter: Filter) -> Allowed: ...
    def meaning(
        self, query: NDArray[np.float32], allowed: Allowed, depth: int
    ) -> Sequence[Hit]: ...
    def words(
        self,
        terms: Sequence[str],
        allowed: Allowed,
        depth: int,
        weights: Mapping[str, float] = EVENLY,
    ) -> Sequence[Hit]:
        """`weights` say how much some of the terms count; the others count 1."""

    def code(
        self, terms: Sequence[str], allowed: Allowed, depth: int
    ) -> Sequence[Hit]: ...
    def concepts(
        self,
        query: NDArray[np.float32],
        allowed: Allowed,
        depth: int,
        floor: int,
        most: int,
    ) -> Sequence[Concept] | None:
        """The `depth` terms nearest to a question, best first, ties by term; None without a whole vocabulary.

        A term takes part if `floor` allowed chunks have it, and it is one of the `most` that the most have.
        """

    def links(self, paths: Sequence[str], allowed: Allowed) -> Sequence[Edge]:
        """Every link from or to one of the documents."""

    def degrees(self, paths: Sequence[str], allowed: Allowed) -> Mapping[str, int]:
        """With how many documents each one is linked."""

    def keys(
        self, paths: Sequence[str], allowed: Allowed
    ) -> Mapping[str, Sequence[int]]:
        """The allowed chunks of documents, in order."""

    def within(self, paths: Sequence[str], allowed: Allowed) -> Allowed:
        """Of the allowed rows, those of some documents."""

    def vectors(self, positions: Sequence[tuple[str, int]]) -> NDArray[np.float32]:
        """The vectors of chunks by path and ordinal, one row each; of width 0 without a model.

        One that has no vector yet has zeros: it is like nothing, and the meaning lane does not know it.
        """

    def coverage(
        self,
        terms: Sequence[str],
        positions: Sequence[tuple[str, int]],
        allowed: Allowed,
    ) -> Sequence[float]:
        """How much of the terms, by their rarity among the allowed rows, each chunk has in its words."""

    def passages(self, keys: Sequence[int]) -> Mapping[int, Passage]: ...
    def parents(
        self, wanted: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], Parent]:
        """Sections by their document's path and their number there."""


@runtime_checkable
class Batching(Protocol):
    """A snapshot for which one request is cheaper than one for each lane."""

    def lanes(
        self, asks: Sequence[LaneAsk], allowed: Allowed, depth: int
    ) -> Mapping[Lane, Sequence[Hit]]: ...


class Holding(Snapshot, Protocol):
    """A snapshot with what its index keeps besides rows."""

    @property
    def about(self) -> Mapping[str, Any]:
        """Facts of the index: its model, when it was built..."""

    @property
    def segments(self) -> int: ...
    def documents(self, filter: Filter) -> list[str]:
        """The paths of the documents that a filter about documents lets through, in order."""

    def facts(self) -> Iterator[Facts]: ...
    def facts_of(self, allowed: Allowed) -> Iterator[Facts]:
        """What filters may ask of the documents that have an allowed chunk."""

    def kinds(self, allowed: Allowed) -> tuple[Counter[str], Counter[str]]:
        """How many documents have allowed chunks of each type, and of each language."""

    def aliases(self, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """What else these documents are called."""

    def file_states(self) -> dict[str, FileState]: ...
    def stamps(self, recipe: str) -> dict[str, Stamps]:
        """What a look compares, by path."""

    def skipped(self) -> tuple[Skipped, ...]: ...
    def warnings(self) -> dict[str, str]:
        """What was odd about reading documents, by path."""

    def prepared(self) -> Iterator[Prepared]:
        """Every document as it was written, in the order of paths: to be copied to another index."""


class Writing(Protocol):
    """The one writer of an index. What it writes shows batch by batch, or, in `all_or_nothing`, at once."""

    @property
    def directory(self) -> Path | Address: ...
    @property
    def facts(self) -> dict[str, Any]: ...
    @property
    def generation(self) -> int: ...
    def file_states(self) -> dict[str, FileState]: ...
    def stamps(self, recipe: str) -> dict[str, Stamps]:
        """What a look compares, by path."""

    def dates(self) -> dict[str, float]: ...
    def describe(self, values: Mapping[str, Any]) -> None: ...
    def all_or_nothing(self) -> AbstractContextManager[None]: ...
    def clear(self) -> None: ...
    def put(self, batch: Sequence[Prepared], pending: int) -> None: ...
    def remove(self, paths: Sequence[str]) -> None: ...
    def touch(self, files: Sequence[tuple[str, FileState, float]]) -> None: ...
    def finish(self, skipped: Sequence[Skipped], facts: Mapping[str, Any]) -> None:
        """Every file is in. `facts` are what the next run wants to know."""


class Index(Protocol):
    """An index, wherever it is: opened for reading by any number, for writing by one."""

    @property
    def place(self) -> Path | Address: ...
    def exists(self) -> bool: ...
    def snapshot(self) -> AbstractContextManager[Holding]: ...
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
