"""The values of a search: its question, what its steps share, its answer.

`applied` and `filter_of` turn a request into the question and its filter.
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tamis.errors import BadFilter, BadSetting
from tamis.index.protocol import Allowed, Positions, Snapshot
from tamis.model import Candidate, Lane, Parent
from tamis.query import filters
from tamis.query.filters import EVERYTHING, Filter
from tamis.query.language import Names, atom, directory, parse_filter
from tamis.request import SearchRequest
from tamis.search.links import Reached
from tamis.settings import SearchSettings, Settings
from tamis.text.words import words
from tamis.weights import Weights

if TYPE_CHECKING:
    from tamis.search.extras.synonyms import Synonyms

Candidates = Sequence[Candidate]  # best first
Vector = NDArray[np.float32]
Embed = Callable[[str], Vector]
# A question, passages and seconds (0: no limit) -> the scores of all passages, or of the first that fit.
Rerank = Callable[[str, Sequence[str], float], Sequence[float]]

# The stages between fusion and answer, in their order. A name with a blank is the function with that
# name and `_`; scripts read it in the funnel of an explained answer, so it stays.
StageName = Literal[
    "named",
    "file name",
    "aside",
    "coherence",
    "recency",
    "archive",
    "saturation",
    "calibrate",
    "threshold",
    "same text",
    "overlap",
    "near text",
    "same meaning",
    "mmr",
    "per document",
    "rerank",
    "parents",
    "limit",
]
STAGE_NAMES: tuple[StageName, ...] = get_args(StageName)
# The candidates after the fusion and after each stage.
Trace = Mapping[StageName | Literal["fused"], Candidates]


@dataclass(frozen=True, slots=True)
class Question:
    """A question with everything that decides its answer."""

    text: str
    filter: Filter = EVERYTHING
    limit: int = 5
    min_score: float = 0.0
    max_chunks_per_doc: int = 0
    max_hops: int = 0
    graph_context: bool = False  # list what the links lane reached
    parents: bool = False  # show the sections around passages
    rerank: bool = False
    mmr: bool = False
    explain: bool = False
    now: float | None = None  # seconds since the epoch; None: age does not count
    settings: SearchSettings = SearchSettings()
    weights: Weights = Weights()
    archive: Callable[[str], float] | None = None  # the factor for a path
    synonyms: "Synonyms | None" = None
    without: frozenset[StageName] = frozenset()  # stages to leave out

    @property
    def terms(self) -> dict[str, float]:
        """The words of the question, each with its weight.

        A repeated word counts more, and never twice as much (BM25's k3 = 1).
        """
        counts = Counter(words(self.text))
        return {term: 2.0 * count / (1 + count) for term, count in counts.items()}

    @property
    def counts_age(self) -> bool:
        return self.now is not None and self.settings.recency_profile != "off"

    @property
    def is_reranked(self) -> bool:
        return self.rerank and "rerank" not in self.without

    @property
    def before_reranking(self) -> "Question":
        """The question that finds the candidates for the reranker."""
        if not self.is_reranked:
            return self
        most = max(self.limit, self.settings.rerank_top_n)
        return replace(self, limit=most, without=self.without | {"rerank"})

    @property
    def by_meaning_alone(self) -> "Question":
        """The same question without fusion: in the meaning lane's order, but for recency and archive."""
        alone = replace(
            self.settings,
            keyword_weight=0.0,
            code_search_enabled=False,
            graph_weight=0.0,
        )
        reordering: frozenset[StageName] = frozenset(
            ("named", "file name", "aside", "coherence", "saturation")
        )
        return replace(
            self,
            settings=alone,
            weights=replace(self.weights, inner_trust=1.0),
            without=self.without | reordering,
        )


@dataclass(frozen=True, slots=True)
class Models:
    """The models that a search may use."""

    embed: Embed | None = None
    # From a cosine of this model to the probability that two texts are related.
    related: Callable[[float], float] | None = None
    rerank: Rerank | None = None


@dataclass(frozen=True, slots=True)
class Lookups:
    """Facts that a stage may look up, besides candidates and question."""

    # By position of passages: a row each, of width 0 without a model.
    vectors: Callable[[Positions], Vector]
    # The share of the question's words that each passage has.
    coverage: Callable[[Positions], Sequence[float]]
    models: Models = Models()


@dataclass(frozen=True, slots=True)
class Wording:
    """Additions to a question."""

    further: Mapping[str, float] = field(
        default_factory=dict
    )  # terms for the words lane, with weights
    expansion: tuple[str, ...] = ()  # terms of the vocabulary, nearest first
    synonyms: tuple[str, ...] = ()
    has_vocabulary: bool = True  # False: there is no complete one to expand from


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A question with what its lanes are asked, in one snapshot."""

    snapshot: Snapshot
    question: Question
    allowed: Allowed
    lanes: Mapping[Lane, float]  # those that take part, with their weights
    vector: Vector | None
    lookups: Lookups
    wording: Wording = Wording()


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of the query path, and how it came about."""

    query_type: str
    trace: Trace
    timings_ms: Mapping[str, float]
    allowed: Allowed
    scanned: int  # rows that the lanes looked at
    depth: int  # passages that each lane was asked for
    neighbours: Sequence[Reached]  # what the links lane reached
    parents: Mapping[tuple[str, int], Parent]  # the candidates' sections, if asked for
    reranked: tuple[int, int]  # candidates that were reranked, and that should be
    wording: Wording

    @property
    def candidates(self) -> Candidates:
        return self.trace["limit"]

    @property
    def funnel(self) -> dict[StageName | Literal["fused"], int]:
        """The number of candidates that each stage left; `fused` is how many entered."""
        return {name: len(left) for name, left in self.trace.items()}


QueryType = Literal["factual", "navigational", "exploratory"]

_MIXED_CASE_WORDS = frozenset(
    {"github", "gitlab", "macos", "oauth", "javascript", "typescript", "devops"}
)
_FACTUAL = re.compile(
    r"`[^`]+`|\"[^\"]+\"|\bv?\d+\.\d+(?:\.\d+)*\b|\b\w+_\w+\b|\b[A-Z][A-Z0-9]{2,}_?\w*\b|::|->|\b\w+\(\)"
)
_MIXED_CASE = re.compile(r"\b[A-Za-z][a-z0-9]*(?:[A-Z][a-z0-9]+)+\b")
_NAVIGATIONAL = re.compile(
    r"\[\[[^\]\[]++\]\]|\b(?:section|chapter|guide|page)\b|\bin the \w+", re.IGNORECASE
)


def query_type(text: str) -> QueryType:
    """Classify a question: about a fact, a place, or anything else."""
    mixed = (word.lower() for word in _MIXED_CASE.findall(text))
    if _FACTUAL.search(text) or any(word not in _MIXED_CASE_WORDS for word in mixed):
        return "factual"
    if _NAVIGATIONAL.search(text):
        return "navigational"
    return "exploratory"


def names_for(root: Path, settings: Settings) -> Names:
    """Return what the names in a filter refer to below this root."""
    names = Names(root=str(root), resolve=os.path.realpath)
    workspaces: dict[str, tuple[str, ...]] = {}
    for name, folders in settings.workspaces.items():
        try:
            workspaces[name] = tuple(directory(folder, names) for folder in folders)
        except BadFilter as error:
            message = f"workspace {name}: {error.message}"
            raise BadSetting(message, hint=error.hint) from error
    archived = filters.archived_by(settings)
    return replace(names, workspaces=workspaces, archived=archived)


def filter_of(
    request: SearchRequest, typed: Filter, names: Names, settings: Settings
) -> Filter:
    """Combine the filters of a request with the one that was typed in its query.

    Archived documents are hidden as configured, unless a filter or a pattern may name them.
    """
    stated = typed & parse_filter(request.filter, names)
    hidden = request.exclude_archived
    if hidden is None:
        by_default = hides_archived(stated, names, settings)
        hidden = by_default and not request.include_patterns
    terms = [stated]
    if request.excluded_files:
        by_folder = replace(names, resolve=_resolver())
        terms.append(~atom("file", tuple(request.excluded_files), by_folder))
    if request.include_patterns:
        terms.append(atom("path", tuple(request.include_patterns), names))
    if request.exclude_patterns:
        terms.append(~atom("path", tuple(request.exclude_patterns), names))
    # One of the values is enough for each key; of tags, all must be there.
    alternatives: list[tuple[str, Sequence[str | None]]] = [("under", request.under)]
    alternatives += [("tag", (tag,)) for tag in request.tags]
    alternatives += [
        ("type", request.chunk_types),
        ("lang", request.languages),
        ("workspace", (request.workspace,)),
        ("author", (request.author,)),
        ("category", (request.category,)),
        ("after", (request.modified_after,)),
        ("before", (request.modified_before,)),
    ]
    for key, values in alternatives:
        allowed = [atom(key, (value,), names) for value in values if value is not None]
        if allowed:
            terms.append(filters.any_of(allowed))
    if hidden:
        terms.append(~names.archived)
    return filters.all_of(terms)


def hides_archived(stated: Filter, names: Names, settings: Settings) -> bool:
    """Return the setting, or False for a filter that names archived documents."""
    if names.archived in filters.atoms(stated):
        return False
    return settings.search.exclude_archived


def _resolver() -> Callable[[str], str]:
    """Return a function for real paths that looks up each folder once, however many files are in it."""
    folder_of = cache(os.path.realpath)

    def resolve(path: str) -> str:
        folder, name = os.path.split(path)
        if name in ("", "..") or os.path.islink(path):
            return os.path.realpath(path)
        return os.path.normpath(os.path.join(folder_of(folder), name))

    return resolve


def applied(request: SearchRequest, usual: Question) -> Question:
    """Return the question that is asked as configured, changed as the request says."""
    wanted = {
        "limit": request.limit,
        "min_score": request.min_score,
        "max_chunks_per_doc": request.max_chunks_per_doc,
        "max_hops": request.max_hops,
        "parents": request.expand_parents,
        "rerank": request.rerank,
        "mmr": request.mmr,
    }
    changes: dict[str, Any] = {}
    for name, value in wanted.items():
        if value is not None:
            changes[name] = value
    if request.unique:
        changes["max_chunks_per_doc"] = 1
    if not request.use_rrf:
        usual = usual.by_meaning_alone
    settings = usual.settings
    if request.quick:
        # Without the meaning lane no model is asked.
        settings = replace(settings, semantic_weight=0.0)
        changes["rerank"] = False
    if request.rerank_with_recency is False:
        settings = replace(settings, recency_profile="off")
    elif request.rerank_with_recency and settings.recency_profile == "off":
        settings = replace(settings, recency_profile="code")
    return replace(
        usual,
        settings=settings,
        graph_context=request.include_graph_context,
        explain=request.explain,
        **changes,
    )
