"""What goes into a search and what comes out of it: the question, what may be called on, the answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tamis.index.protocol import Allowed
from tamis.model import Candidate, Parent
from tamis.query.filters import EVERYTHING, Filter
from tamis.search.boosts import NO_PENALTY, ArchivePenalty, CodePlaces
from tamis.search.calibrate import Logistic
from tamis.search.extras.expansion import Expansion
from tamis.search.extras.recency import most_for_recency, recency
from tamis.search.extras.rerank import Rerank, no_reranker
from tamis.search.extras.synonyms import NO_SYNONYMS, Synonyms
from tamis.search.retrieve import Reached
from tamis.settings import SearchSettings
from tamis.text.identifiers import wanted_names
from tamis.weights import Weights

_OF_FUSED = frozenset(
    {"named", "file name", "aside", "coherence", "saturation"}
)  # they would reorder a lane
Embed = Callable[[str], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, complete: nothing further is looked up on the way."""

    text: str
    filter: Filter = EVERYTHING
    limit: int = 5
    min_score: float = 0.0
    max_chunks_per_doc: int = 0
    max_hops: int = 0
    graph_context: bool = False  # tell what the links lane reached
    parents: bool = False  # show the sections around what was found
    rerank: bool = False  # put the best in the order of a cross-encoder
    mmr: bool = False  # prefer what differs, instead of dropping what means the same
    explain: bool = False  # keep what every stage left
    now: float | None = (
        None  # when it is asked, in seconds since the epoch; None: age does not count
    )
    settings: SearchSettings = SearchSettings()
    weights: Weights = Weights()
    archive: ArchivePenalty = NO_PENALTY
    synonyms: Synonyms = NO_SYNONYMS
    without: frozenset[str] = field(default_factory=frozenset)  # stages to leave out

    @property
    def without_reranking(self) -> "Question":
        """The same as the lanes are asked it: reranking comes once, at the end, and wants its candidates."""
        if not self.rerank or "rerank" in self.without:
            return self
        most = max(self.limit, self.settings.rerank_top_n)
        return replace(self, limit=most, without=self.without | {"rerank"})

    @property
    def by_meaning_alone(self) -> "Question":
        """The same without fusion: the meaning lane's order, but for recency and the archive (C30)."""
        alone = replace(
            self.settings,
            keyword_weight=0.0,
            code_search_enabled=False,
            graph_weight=0.0,
        )
        return replace(
            self,
            settings=alone,
            weights=replace(self.weights, inner_trust=1.0),
            without=self.without | _OF_FUSED,
        )

    @property
    def without_meaning(self) -> "Question":
        """The same without the meaning lane, and so without a model."""
        return replace(self, settings=replace(self.settings, semantic_weight=0.0))

    def with_recency(self, wanted: bool) -> "Question":
        """The same with what is recent raised, or without that."""
        configured = self.settings.recency_profile
        profile = "off" if not wanted else "code" if configured == "off" else configured
        return replace(self, settings=replace(self.settings, recency_profile=profile))

    @property
    def code_places(self) -> CodePlaces:
        return CodePlaces.of(self.text, self.weights)

    @property
    def recency_factor(self) -> Callable[[Candidate], float]:
        """What it is worth to be recent."""
        now, profile, bias = (
            self.now,
            self.settings.recency_profile,
            self.settings.recency_bias,
        )
        if now is None:
            return lambda _: 1.0
        return lambda candidate: recency(profile, bias, candidate.passage.modified, now)

    @property
    def largest_factor(self) -> float:
        """The most that boosts can make of a passage's score."""
        named = self.weights.named_boost if wanted_names(self.text) else 1.0
        young = most_for_recency(
            self.settings.recency_profile, self.settings.recency_bias
        )
        return named * self.weights.path_boost * (1.0 if self.now is None else young)


@dataclass(frozen=True, slots=True)
class Models:
    """What a search may compute with."""

    embed: Embed | None = None
    related: Logistic | None = None  # what a cosine of this model says
    rerank: Rerank = no_reranker


@dataclass(frozen=True, slots=True)
class Means:
    """What a stage may call on besides the candidates and the question: facts of the same snapshot."""

    vectors: Callable[
        [Sequence[Candidate]], NDArray[np.float32]
    ]  # one row each; of width 0 without a model
    # How much of the question's words each has; unless something can tell, all of them.
    coverage: Callable[[Sequence[Candidate]], Sequence[float]] = lambda candidates: (
        [1.0] * len(candidates)
    )
    related: Logistic | None = None
    rerank: Rerank = no_reranker


@dataclass(frozen=True, slots=True)
class Answer:
    """What the pipeline hands to a door's side of the house."""

    candidates: tuple[Candidate, ...]
    query_type: str
    funnel: Mapping[
        str, int
    ]  # how many candidates left each stage; "fused" is how many entered
    timings_ms: Mapping[str, float]
    allowed: Allowed
    scanned: int  # rows that the lanes looked at
    depth: int  # how many each lane was asked for
    neighbours: tuple[Reached, ...] = ()  # what the links lane came to
    parents: Mapping[tuple[str, int], Parent] = field(
        default_factory=dict
    )  # of the candidates, if asked
    reranked: tuple[int, int] = (
        0,
        0,
    )  # how many candidates were reranked, of how many that should be
    expansion: Expansion = Expansion()
    synonyms: tuple[str, ...] = ()
    trace: Mapping[str, Sequence[Candidate]] = field(
        default_factory=dict
    )  # what every stage left, if asked
