"""The query path, top to bottom: allowed rows, the question's wording, lanes, fusion, stages."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tamis.index.protocol import Allowed, Snapshot
from tamis.model import Candidate, Lane, Parent
from tamis.query.filters import CHUNK_ATOMS, EVERYTHING, Filter, Workspace, atoms
from tamis.search.boosts import pointed
from tamis.search.extras.adaptive import query_type, type_weights
from tamis.search.extras.expansion import Wording, worded
from tamis.search.extras.rerank import Watched
from tamis.search.fuse import (
    REACH,
    Position,
    Ranking,
    Sources,
    balanced,
    confidence,
    fuse,
    within,
)
from tamis.search.question import Answer, Embed, Means, Models, Question
from tamis.search.retrieve import Retrieved, linked, retrieve
from tamis.search.stages import run_stages
from tamis.text.identifiers import asked
from tamis.text.words import words

log = logging.getLogger("tamis.search")


def search(snapshot: Snapshot, question: Question, models: Models) -> Answer:
    """Answer a question from one snapshot."""
    clock, reranker = _Clock(), Watched(models.rerank)
    allowed, wide = snapshot.allow(question.filter), question.without_reranking
    means = means_of(snapshot, question, allowed, replace(models, rerank=reranker))
    lanes = active_lanes(question, allowed.known if models.embed else 0.0)
    clock.lap("filter")
    vector = (
        models.embed(question.text)
        if models.embed and "meaning" in lanes and allowed.chunks
        else None
    )
    clock.lap("embed")
    wording = word(snapshot, question, vector, models.embed, allowed)
    clock.lap("expand")
    depth = first_depth(wide.limit, question.weights.candidate_depth)
    candidates: Sequence[Candidate] = ()
    scanned = 0
    for again, rows in enumerate(_ways(allowed, question)):
        if again:
            log.debug(
                "%d results of %d wanted: asked again, filtered after",
                len(candidates),
                question.limit,
            )
        while True:
            scanned += snapshot.state.chunks if rows.late else rows.chunks
            retrieved, fused = gather(snapshot, question, wording, lanes, rows, depth)
            clock.lap("lanes")
            funnel = {"fused": len(fused)}
            trace: dict[str, Sequence[Candidate]] | None = (
                {"fused": fused} if question.explain else None
            )
            candidates = run_stages(fused, wide, means, funnel, clock.spent, trace)
            clock.lap("stages")
            if not _wants_more(candidates, funnel, retrieved, wide, lanes, depth):
                break
            depth *= 4
        if len(candidates) >= question.settings.fallback_threshold * question.limit:
            break
    if wide is not question:
        candidates = run_stages(fused, question, means, funnel, clock.spent, trace)
        clock.lap("stages")
    kind, parents = (
        query_type(question.text),
        _parents(snapshot, candidates) if question.parents else {},
    )
    times = clock.milliseconds()
    return Answer(
        tuple(candidates), kind, funnel, times, allowed, scanned, depth, retrieved.reached, parents,
        (reranker.done, reranker.of), wording.expansion, wording.synonyms, trace or {},
    )  # fmt: skip


def word(
    snapshot: Snapshot,
    question: Question,
    vector: NDArray[np.float32] | None,
    embed: Embed | None,
    allowed: Allowed,
) -> Wording:
    """The question as the lanes are asked it: with what is added to it."""
    return worded(
        snapshot,
        question.text,
        vector,
        embed,
        allowed,
        question.settings,
        question.weights,
        question.synonyms,
    )


def means_of(
    snapshot: Snapshot, question: Question, allowed: Allowed, models: Models
) -> Means:
    terms = tuple(dict.fromkeys(words(question.text)))
    return Means(
        lambda candidates: snapshot.vectors(_positions(candidates)),
        lambda candidates: snapshot.coverage(terms, _positions(candidates), allowed),
        models.related if models.embed else None,
        models.rerank,
    )


def _positions(candidates: Sequence[Candidate]) -> list[tuple[str, int]]:
    return [candidate.passage.position for candidate in candidates]


def gather(
    snapshot: Snapshot,
    question: Question,
    wording: Wording,
    lanes: Mapping[Lane, float],
    rows: Allowed,
    depth: int,
) -> tuple[Retrieved, list[Candidate]]:
    """Ask the lanes and fuse what they found; the links lane starts from what the others agree on."""
    k, reach, vector = (
        question.settings.rrf_k_constant,
        question.weights.candidate_depth,
        wording.vector,
    )
    retrieved = retrieve(
        snapshot, question.text, vector, tuple(lanes), rows, depth, wording.further
    )
    near = {
        lane: ranking[:reach] for lane, ranking in retrieved.rankings.items()
    }  # however many were wanted
    sources = pointed(
        balanced(Sources.of(question.weights), near, reach), near, question.text
    )
    if sources.inner != 1.0:
        found = {passage.path for passage, _ in retrieved.rankings.get("meaning", ())}
        sources = replace(
            sources, openings=_openings(snapshot, sorted(found), question.filter, rows)
        )
    retrieved = replace(retrieved, sources=sources)
    fused = fuse(retrieved.rankings, lanes, k, sources, reach)
    if fused and question.max_hops and ("links" in lanes or question.graph_context):
        known = [candidate for candidate in fused if within(candidate, reach)]
        reached = linked(
            snapshot, known, question.text, vector, question.max_hops, rows
        )
        retrieved = replace(retrieved, reached=tuple(reached))
    if retrieved.reached and "links" in lanes:
        ranking = [(each.passage, each.neighbour.score) for each in retrieved.reached]
        retrieved = replace(
            retrieved, rankings={**retrieved.rankings, "links": ranking}
        )
        fused = fuse(retrieved.rankings, lanes, k, sources, reach)
    return retrieved, _in_sections(snapshot, fused, question.filter, rows)


def _openings(
    snapshot: Snapshot, paths: Sequence[str], filter: Filter, rows: Allowed
) -> frozenset[Position]:
    """What documents begin with; where the filter cuts through them, of what it leaves."""
    if not paths or not _cuts(filter):
        return frozenset((path, 0) for path in paths)
    whole, left = (
        snapshot.keys(paths, snapshot.allow(EVERYTHING)),
        snapshot.keys(paths, rows),
    )
    return frozenset((path, whole[path].index(left[path][0])) for path in paths)


def _cuts(filter: Filter) -> bool:
    """Whether the filter may keep some passages of a document and not others."""
    return any(isinstance(atom, CHUNK_ATOMS) for atom in atoms(filter))


def _in_sections(
    snapshot: Snapshot, fused: list[Candidate], filter: Filter, rows: Allowed
) -> list[Candidate]:
    """Without sections where the filter cuts through a document: they hold what it keeps out."""
    paths = sorted(
        {each.passage.path for each in fused if each.passage.parent is not None}
    )
    if not paths or not _cuts(filter):
        return fused
    whole, left = (
        snapshot.keys(paths, snapshot.allow(EVERYTHING)),
        snapshot.keys(paths, rows),
    )
    cut = {path for path in paths if len(left[path]) < len(whole[path])}
    return [_alone(each) if each.passage.path in cut else each for each in fused]


def _alone(candidate: Candidate) -> Candidate:
    return replace(candidate, passage=replace(candidate.passage, parent=None))


def _parents(
    snapshot: Snapshot, candidates: Sequence[Candidate]
) -> Mapping[tuple[str, int], Parent]:
    passages = (candidate.passage for candidate in candidates)
    return snapshot.parents(
        [(each.path, each.parent) for each in passages if each.parent is not None]
    )


def _ways(allowed: Allowed, question: Question) -> list[Allowed]:
    """How the lanes meet the allowed rows: filtered before scoring, or, for a workspace, as configured.

    Both ways give the same hits; `post` and `hybrid` are there to measure what `native` saves (C82, C84).
    """
    if not any(isinstance(atom, Workspace) for atom in atoms(question.filter)):
        return [allowed]
    late = replace(allowed, late=True)
    return {"post": [late], "hybrid": [allowed, late]}.get(
        question.settings.workspace_filtering, [allowed]
    )


def active_lanes(question: Question, known: float) -> dict[Lane, float]:
    """The lanes that take part, with their weights. The code lane has nothing to say to plain words.

    The meaning lane counts as far as it knows the passages: while most have no vector yet, its best are
    the best of a few, and would stand above what words found among all.
    """
    settings, named = question.settings, asked(question.text)
    weights: dict[Lane, float] = {
        "meaning": settings.semantic_weight * known,
        "words": settings.keyword_weight,
        "code": settings.code_search_weight
        if settings.code_search_enabled and named
        else 0.0,
        "links": settings.graph_weight if question.max_hops else 0.0,
    }
    more = (
        type_weights(query_type(question.text))
        if settings.adaptive_weights_enabled
        else {}
    )
    return {
        lane: weight * more.get(lane, 1.0)
        for lane, weight in weights.items()
        if weight > 0
    }


def first_depth(limit: int, least: int = REACH) -> int:
    """How deep the lanes are asked at first: room for what the stages will drop (X2)."""
    return max(least, 4 * limit)


def _wants_more(
    candidates: Sequence[Candidate],
    funnel: Mapping[str, int],
    retrieved: Retrieved,
    question: Question,
    lanes: Mapping[Lane, float],
    depth: int,
) -> bool:
    """Whether to ask the lanes for more, because what they have not shown yet could belong in the answer.

    A short answer is filled up, unless the threshold ended it: what comes later lifts nobody above it. A
    full one is not final while its last passage, penalised, scores less than the next one of a single
    lane would. Both depend on the allowed rows alone, so the law holds; and without a threshold an answer
    has `min(limit, eligible)` results.
    """
    if retrieved.exhausted:
        return False
    if len(candidates) < question.limit:
        return funnel["threshold"] == funnel["fused"]
    k = question.settings.rrf_k_constant
    # What has not been seen yet may turn out to be what the question names, or written today.
    factor = question.largest_factor
    deeper = [
        factor
        * lanes[lane]
        * _last_word(lane, ranking, retrieved.sources)
        / (k + depth + 1)
        for lane, ranking in retrieved.rankings.items()
        if lane != "links"
    ]
    return min(each.raw_score for each in candidates) < max(deeper)


def _last_word(lane: Lane, ranking: Ranking, sources: Sources) -> float:
    """What the lane's word is worth for what comes after its last hit, at most."""
    return (
        confidence(lane, [score for _, score in ranking], sources)[-1]
        if ranking
        else 0.0
    )


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
