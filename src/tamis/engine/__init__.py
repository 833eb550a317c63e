"""The seam between the pipeline and what stores rows: what an engine must answer.

An engine turns a filter into the rows it allows, once; its lanes see those rows and nothing
else, statistics included. That is the whole of the law, so a lane takes no filter, only rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.filters import Filter
from tamis.model import IndexState, LinkType, Parent, Passage

EVENLY: Final[Mapping[str, float]] = MappingProxyType({})  # no term counts more or less than another


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
    ordinal: int | None  # the chunk of the source that it stands in, unless the whole document has it


class Snapshot(Protocol):
    """One generation of an index, unchanging while it is held.

    A lane returns every chunk that can be among the `depth` best by score, then path, then
    position; it may return more, in any order. A score depends on the chunk, the question and the
    allowed rows alone, to the last bit.

    Links are resolved among the documents that have an allowed chunk (`tamis.links`), and a link in
    a chunk that is not allowed does not exist.
    """

    @property
    def state(self) -> IndexState: ...
    def allow(self, filter: Filter) -> Allowed: ...
    def meaning(self, query: NDArray[np.float32], allowed: Allowed, depth: int) -> Sequence[Hit]: ...
    def words(
        self, terms: Sequence[str], allowed: Allowed, depth: int, weights: Mapping[str, float] = EVENLY
    ) -> Sequence[Hit]:
        """`weights` say how much some of the terms count; the others count 1."""

    def code(self, terms: Sequence[str], allowed: Allowed, depth: int) -> Sequence[Hit]: ...
    def concepts(
        self, query: NDArray[np.float32], allowed: Allowed, depth: int, floor: int, most: int
    ) -> Sequence[Concept] | None:
        """The `depth` terms nearest to a question, best first, ties by term; None without a whole vocabulary.

        A term takes part if `floor` allowed chunks have it, and it is one of the `most` that the most have.
        """

    def links(self, paths: Sequence[str], allowed: Allowed) -> Sequence[Edge]:
        """Every link from or to one of the documents."""

    def degrees(self, paths: Sequence[str], allowed: Allowed) -> Mapping[str, int]:
        """With how many documents each one is linked."""

    def keys(self, paths: Sequence[str], allowed: Allowed) -> Mapping[str, Sequence[int]]:
        """The allowed chunks of documents, in order."""

    def within(self, paths: Sequence[str], allowed: Allowed) -> Allowed:
        """Of the allowed rows, those of some documents."""

    def vectors(self, positions: Sequence[tuple[str, int]]) -> NDArray[np.float32]:
        """The vectors of chunks by path and ordinal, one row each; of width 0 without a model.

        One that has no vector yet has zeros: it is like nothing, and the meaning lane does not know it.
        """

    def coverage(
        self, terms: Sequence[str], positions: Sequence[tuple[str, int]], allowed: Allowed
    ) -> Sequence[float]:
        """How much of the terms, by their rarity among the allowed rows, each chunk has in its words."""

    def passages(self, keys: Sequence[int]) -> Mapping[int, Passage]: ...
    def parents(self, wanted: Sequence[tuple[str, int]]) -> Mapping[tuple[str, int], Parent]:
        """Sections by their document's path and their number there."""
