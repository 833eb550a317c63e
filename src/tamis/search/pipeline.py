"""The query path, top to bottom.

`STAGES` is the chain after fusion, in order. A stage takes candidates, best first, the question, and
what it may call on, and returns candidates; the loop that runs them counts and times, so a stage
knows nothing of either and any stage can be left out by name.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tamis.engine import Allowed, Snapshot
from tamis.filters import CHUNK_ATOMS, EVERYTHING, Filter, Workspace, atoms
from tamis.identifiers import asked, wanted_names
from tamis.model import Candidate, Lane, Parent
from tamis.search.boost import NO_PENALTY, ArchivePenalty, Names, boosted
from tamis.search.classify import query_type
from tamis.search.diverse import diversified, same_meaning
from tamis.search.expand import Expansion, Wording, worded
from tamis.search.fuse import REACH, Ranking, Sources, best_possible, confidence, fuse
from tamis.search.near import near_texts
from tamis.search.recency import most_for_recency, recency
from tamis.search.rerank import Rerank, Watched, no_reranker, reranked
from tamis.search.retrieve import Reached, Retrieved, linked, retrieve
from tamis.search.select import (
    above_threshold,
    collapsed,
    limited_per_document,
    one_per_parent,
    without_overlap,
    without_same_text,
)
from tamis.search.synonyms import NO_SYNONYMS, Synonyms
from tamis.settings import SearchSettings

Stage = Callable[[Sequence[Candidate], "Question", "Means"], Sequence[Candidate]]
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
    now: float | None = None  # when it is asked, in seconds since the epoch; None: age does not count
    settings: SearchSettings = SearchSettings()
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
    def named_factor(self) -> Callable[[Candidate], float]:
        """What it is worth to define or to be what the question names."""
        factor, names = self.settings.named_boost, Names.of(wanted_names(self.text))
        return lambda candidate: factor if names.fit(candidate.passage) else 1.0

    @property
    def recency_factor(self) -> Callable[[Candidate], float]:
        """What it is worth to be recent."""
        now, profile, bias = self.now, self.settings.recency_profile, self.settings.recency_bias
        if now is None:
            return lambda _: 1.0
        return lambda candidate: recency(profile, bias, candidate.passage.modified, now)

    @property
    def largest_factor(self) -> float:
        """The most that boosts can make of a passage's score."""
        named = max(1.0, self.settings.named_boost) if wanted_names(self.text) else 1.0
        young = most_for_recency(self.settings.recency_profile, self.settings.recency_bias)
        return named * (1.0 if self.now is None else young)


@dataclass(frozen=True, slots=True)
class Means:
    """What a stage may call on besides the candidates and the question: facts of the same snapshot."""

    vectors: Callable[[Sequence[Candidate]], NDArray[np.float32]]  # one row each; of width 0 without a model
    rerank: Rerank = no_reranker


def _without_near_text(candidates: Sequence[Candidate], ask: Question, _: Means) -> Sequence[Candidate]:
    if not ask.settings.ngram_dedup_enabled:
        return candidates
    texts = [candidate.passage.content for candidate in candidates]
    return collapsed(candidates, near_texts(texts, ask.settings.ngram_dedup_threshold))


def _without_same_meaning(
    candidates: Sequence[Candidate], ask: Question, means: Means
) -> Sequence[Candidate]:
    if not ask.settings.dedup_enabled or ask.mmr or not candidates:
        return candidates
    threshold = ask.settings.dedup_similarity_threshold
    return collapsed(candidates, same_meaning(means.vectors(candidates), threshold))


def _by_mmr(candidates: Sequence[Candidate], ask: Question, means: Means) -> Sequence[Candidate]:
    """Of the first so many; what ranks lower could rise only for being off the point."""
    if not ask.mmr or not candidates:
        return candidates
    first = candidates[: max(_LEAST_DIVERSIFIED, 4 * ask.limit)]
    return diversified(candidates, means.vectors(first), ask.settings.mmr_lambda)


_LEAST_DIVERSIFIED: Final = 50

STAGES: Final[Mapping[str, Stage]] = {
    "named": lambda candidates, ask, _: boosted(candidates, "named", ask.named_factor),
    "recency": lambda candidates, ask, _: boosted(candidates, "recency", ask.recency_factor),
    "archive": lambda candidates, ask, _: boosted(candidates, "archive", ask.archive.factor),
    "threshold": lambda candidates, ask, _: above_threshold(candidates, ask.min_score),
    "same text": lambda candidates, ask, _: (
        without_same_text(candidates) if ask.settings.content_dedup_enabled else candidates
    ),
    "overlap": lambda candidates, ask, _: (
        without_overlap(candidates) if ask.settings.content_dedup_enabled else candidates
    ),
    "near text": _without_near_text,
    "same meaning": _without_same_meaning,
    "mmr": _by_mmr,
    "per document": lambda candidates, ask, _: limited_per_document(candidates, ask.max_chunks_per_doc),
    "rerank": lambda candidates, ask, means: (
        reranked(candidates, ask.text, ask.settings, means.rerank) if ask.rerank else candidates
    ),
    "parents": lambda candidates, ask, _: one_per_parent(candidates) if ask.parents else candidates,
    "limit": lambda candidates, ask, _: candidates[: ask.limit],
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the pipeline hands to a door's side of the house."""

    candidates: tuple[Candidate, ...]
    query_type: str
    funnel: Mapping[str, int]  # how many candidates left each stage; "fused" is how many entered
    timings_ms: Mapping[str, float]
    allowed: Allowed
    scanned: int  # rows that the lanes looked at
    depth: int  # how many each lane was asked for
    neighbours: tuple[Reached, ...] = ()  # what the links lane came to
    parents: Mapping[tuple[str, int], Parent] = field(default_factory=dict)  # of the candidates, if asked
    reranked: tuple[int, int] = (0, 0)  # how many candidates were reranked, of how many that should be
    expansion: Expansion = Expansion()
    synonyms: tuple[str, ...] = ()


def search(
    snapshot: Snapshot, question: Question, embed: Embed | None, rerank: Rerank = no_reranker
) -> Answer:
    """Answer a question from one snapshot."""
    clock, reranker = _Clock(), Watched(rerank)
    means, wide = means_of(snapshot, reranker), question.without_reranking
    allowed = snapshot.allow(question.filter)
    lanes = active_lanes(question, embed is not None)
    clock.lap("filter")
    vector = embed(question.text) if embed and "meaning" in lanes and allowed.chunks else None
    clock.lap("embed")
    wording = word(snapshot, question, vector, embed, allowed)
    clock.lap("expand")
    depth = first_depth(wide.limit, question.settings.candidate_depth)
    scanned = 0
    for rows in _ways(allowed, question):
        while True:
            scanned += snapshot.state.chunks if rows.late else rows.chunks
            retrieved, fused = gather(snapshot, question, wording, lanes, rows, depth)
            clock.lap("lanes")
            funnel = {"fused": len(fused)}
            candidates = run_stages(fused, wide, means, funnel, clock.spent)
            clock.lap("stages")
            if not _wants_more(candidates, fused, retrieved, wide, lanes, depth):
                break
            depth *= 4
        if len(candidates) >= question.settings.fallback_threshold * question.limit:
            break
    if wide is not question:
        candidates = run_stages(fused, question, means, funnel, clock.spent)
        clock.lap("stages")
    kind, parents = query_type(question.text), _parents(snapshot, candidates) if question.parents else {}
    times = clock.milliseconds()
    return Answer(
        tuple(candidates), kind, funnel, times, allowed, scanned, depth, retrieved.reached, parents,
        (reranker.done, reranker.of), wording.expansion, wording.synonyms,
    )  # fmt: skip


def word(
    snapshot: Snapshot,
    question: Question,
    vector: NDArray[np.float32] | None,
    embed: Embed | None,
    allowed: Allowed,
) -> Wording:
    """The question as the lanes are asked it: with what is added to it."""
    return worded(snapshot, question.text, vector, embed, allowed, question.settings, question.synonyms)


def means_of(snapshot: Snapshot, rerank: Rerank = no_reranker) -> Means:
    return Means(lambda candidates: snapshot.vectors([each.passage.position for each in candidates]), rerank)


def gather(
    snapshot: Snapshot,
    question: Question,
    wording: Wording,
    lanes: Mapping[Lane, float],
    rows: Allowed,
    depth: int,
) -> tuple[Retrieved, list[Candidate]]:
    """Ask the lanes and fuse what they found; the links lane starts from what the others agree on."""
    k, sources, vector = question.settings.rrf_k_constant, Sources.of(question.settings), wording.vector
    retrieved = retrieve(snapshot, question.text, vector, tuple(lanes), rows, depth, wording.further)
    fused = fuse(retrieved.rankings, lanes, k, sources)
    if fused and question.max_hops and ("links" in lanes or question.graph_context):
        reached = linked(snapshot, fused, question.text, vector, question.max_hops, rows)
        retrieved = replace(retrieved, reached=tuple(reached))
    if retrieved.reached and "links" in lanes:
        ranking = [(each.passage, each.neighbour.score) for each in retrieved.reached]
        retrieved = replace(retrieved, rankings={**retrieved.rankings, "links": ranking})
        fused = fuse(retrieved.rankings, lanes, k, sources)
    return retrieved, _in_sections(snapshot, fused, question.filter, rows)


def _in_sections(
    snapshot: Snapshot, fused: list[Candidate], filter: Filter, rows: Allowed
) -> list[Candidate]:
    """Without sections where the filter cuts through a document: they hold what it keeps out."""
    paths = sorted({each.passage.path for each in fused if each.passage.parent is not None})
    if not paths or not any(isinstance(atom, CHUNK_ATOMS) for atom in atoms(filter)):
        return fused
    whole, left = snapshot.keys(paths, snapshot.allow(EVERYTHING)), snapshot.keys(paths, rows)
    cut = {path for path in paths if len(left[path]) < len(whole[path])}
    return [_alone(each) if each.passage.path in cut else each for each in fused]


def _alone(candidate: Candidate) -> Candidate:
    return replace(candidate, passage=replace(candidate.passage, parent=None))


def _parents(snapshot: Snapshot, candidates: Sequence[Candidate]) -> Mapping[tuple[str, int], Parent]:
    passages = (candidate.passage for candidate in candidates)
    return snapshot.parents([(each.path, each.parent) for each in passages if each.parent is not None])


def _ways(allowed: Allowed, question: Question) -> list[Allowed]:
    """How the lanes meet the allowed rows: filtered before scoring, or, for a workspace, as configured.

    Both ways give the same hits; `post` and `hybrid` are there to measure what `native` saves (C82, C84).
    """
    if not any(isinstance(atom, Workspace) for atom in atoms(question.filter)):
        return [allowed]
    late = replace(allowed, late=True)
    return {"post": [late], "hybrid": [allowed, late]}.get(question.settings.workspace_filtering, [allowed])


def active_lanes(question: Question, has_model: bool) -> dict[Lane, float]:
    """The lanes that take part, with their weights. The code lane has nothing to say to plain words."""
    settings, named = question.settings, asked(question.text)
    weights: dict[Lane, float] = {
        "meaning": settings.semantic_weight if has_model else 0.0,
        "words": settings.keyword_weight,
        "code": settings.code_search_weight if settings.code_search_enabled and named else 0.0,
        "links": settings.graph_weight if question.max_hops else 0.0,
    }
    return {lane: weight for lane, weight in weights.items() if weight > 0}


def first_depth(limit: int, least: int = REACH) -> int:
    """How deep the lanes are asked at first: room for what the stages will drop (X2)."""
    return max(least, 4 * limit)


def run_stages(
    fused: Sequence[Candidate],
    question: Question,
    means: Means,
    funnel: dict[str, int],
    spent: dict[str, float],
) -> Sequence[Candidate]:
    """The chain. How many candidates left each stage goes to `funnel`, the seconds it took are added up."""
    candidates = fused
    for name, stage in STAGES.items():
        began = time.perf_counter()
        if name not in question.without:
            candidates = stage(candidates, question, means)
        funnel[name] = len(candidates)
        spent[name] = spent.get(name, 0.0) + time.perf_counter() - began
    return candidates


def _wants_more(
    candidates: Sequence[Candidate],
    fused: Sequence[Candidate],
    retrieved: Retrieved,
    question: Question,
    lanes: Mapping[Lane, float],
    depth: int,
) -> bool:
    """Whether to ask the lanes for more, because what they have not shown yet could belong in the answer.

    A short answer is filled up as long as a passage could still pass the threshold: one that no lane
    has shown, or one that a lane may yet show. A full one is not final while its last passage,
    penalised, scores less than the next one of a single lane would. Both depend on the allowed rows
    alone, so the law holds; and an answer has `min(limit, eligible)` results.
    """
    if retrieved.exhausted:
        return False
    k, sources = question.settings.rrf_k_constant, Sources.of(question.settings)
    # What has not been seen yet may turn out to be what the question names, or written today.
    factor = question.largest_factor
    deeper: dict[Lane, float] = {
        lane: factor * lanes[lane] * _last_word(lane, ranking, sources) / (k + depth + 1)
        for lane, ranking in retrieved.rankings.items()
        if lane != "links"
    }
    if len(candidates) >= question.limit:
        return min(each.raw_score for each in candidates) < max(deeper.values())
    least = question.min_score * best_possible(retrieved.rankings, lanes, k, sources)
    if "threshold" in question.without or sum(deeper.values()) >= least:
        return True
    return any(_could_reach(candidate, deeper) >= least > candidate.raw_score for candidate in fused)


def _last_word(lane: Lane, ranking: Ranking, sources: Sources) -> float:
    """What the lane's word is worth for what comes after its last hit, at most."""
    return confidence(lane, [score for _, score in ranking], sources)[-1] if ranking else 0.0


def _could_reach(candidate: Candidate, deeper: Mapping[Lane, float]) -> float:
    shown = {evidence.lane for evidence in candidate.evidence}
    return candidate.raw_score + sum(gain for lane, gain in deeper.items() if lane not in shown)


class _Clock:
    """Time spent, by name; laps of the same name add up. A stage's time is also part of the stages' lap."""

    def __init__(self) -> None:
        self._began = self._last = time.perf_counter()
        self.spent: dict[str, float] = {}

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.spent[name] = self.spent.get(name, 0.0) + now - self._last
        self._last = now

    def milliseconds(self) -> dict[str, float]:
        spent = self.spent | {"total": time.perf_counter() - self._began}
        return {name: round(seconds * 1000, 3) for name, seconds in spent.items()}
