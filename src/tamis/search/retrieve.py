"""Retrieval: ask the lanes as deep as the answer needs, and fuse what they found."""

import logging
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from tamis.index.protocol import Allowed, LaneAsk
from tamis.model import Candidate, Lane
from tamis.query.filters import CHUNK_ATOMS, EVERYTHING, Workspace, atoms
from tamis.search.boosts import trust_in_code
from tamis.search.fuse import (
    Ranking,
    Trust,
    fuse,
    trust_in_words,
    within,
)
from tamis.search.links import Reached, linked
from tamis.search.question import Inquiry, Question, Trace
from tamis.search.stages import Clock, run_stages
from tamis.text.identifiers import asked, wanted_names

log = logging.getLogger("tamis.search")


@dataclass(frozen=True, slots=True)
class Gathered:
    """The finds of all lanes at one depth."""

    rankings: Mapping[Lane, Ranking]
    trust: Trust
    fused: Sequence[Candidate]
    reached: Sequence[Reached]  # by the links lane
    depth: int


def retrieve(inquiry: Inquiry, clock: Clock) -> tuple[Gathered, Trace, int]:
    """Ask the lanes until the answer is full, or nothing that they have left belongs in it.

    Return what they found at last, what each stage but the reranker left of it, and the number of rows
    that they looked at in all.
    """
    question = inquiry.question.before_reranking
    depth = first_depth(question)
    scanned = 0
    ways = _ways(inquiry)
    for rows in ways:
        while True:
            scanned += inquiry.snapshot.state.chunks if rows.late else rows.chunks
            gathered = gather(inquiry, rows, depth)
            clock.lap("lanes")
            trace = run_stages(gathered.fused, question, inquiry.lookups, clock)
            if not _wants_more(gathered, trace, inquiry.lanes, question):
                break
            depth *= 4
        count = len(trace["limit"])
        limit = inquiry.question.limit
        is_enough = count >= question.settings.fallback_threshold * limit
        if is_enough or rows is ways[-1]:
            break
        log.debug("%d results of %d wanted: asked again, filtered after", count, limit)
    return gathered, trace, scanned


def first_depth(question: Question) -> int:
    """Return how deep the lanes are asked at first: with room for what the stages will drop."""
    return max(question.weights.candidate_depth, 4 * question.limit)


def _ways(inquiry: Inquiry) -> list[Allowed]:
    """Return the rows to ask for: filtered before scoring, or, for a workspace, as configured.

    Both ways give the same hits; `post` and `hybrid` are there to measure what `native` saves.
    """
    allowed = inquiry.allowed
    terms = atoms(inquiry.question.filter)
    if any(isinstance(each, Workspace) for each in terms):
        late = replace(allowed, late=True)
        match inquiry.question.settings.workspace_filtering:
            case "post":
                return [late]
            case "hybrid":
                return [allowed, late]
    return [allowed]


def _wants_more(
    gathered: Gathered, trace: Trace, weights: Mapping[Lane, float], question: Question
) -> bool:
    """Return True if what the lanes have not shown yet could belong in the answer.

    A short answer is filled up, unless the threshold ended it: what comes later has no higher score. A
    full one is not final while its last candidate, penalised, scores less than the next one of a single
    lane would. Both depend on the allowed rows alone, so the law holds; and without a threshold an answer
    has `min(limit, eligible)` results.
    """
    depth = gathered.depth
    rankings = {
        lane: ranking for lane, ranking in gathered.rankings.items() if lane != "links"
    }
    if all(len(ranking) < depth for ranking in rankings.values()):
        return False
    candidates = trace["limit"]
    if len(candidates) < question.limit:
        return len(trace["threshold"]) == len(trace["fused"])
    boost = largest_boost(question)
    most = 0.0
    for lane, ranking in rankings.items():
        if ranking:
            trusts = gathered.trust.of_hits(lane, [score for _, score in ranking])
            next_rank = question.settings.rrf_k_constant + depth + 1
            most = max(most, boost * weights[lane] * trusts[-1] / next_rank)
    return min(each.raw_score for each in candidates) < most


def largest_boost(question: Question) -> float:
    """Return the most that boosts can multiply a score by: it may be named, or written today."""
    weights = question.weights
    boost = weights.named_boost if wanted_names(question.text) else 1.0
    boost *= weights.path_boost
    if question.counts_age:
        from tamis.search.extras.recency import age_factor

        boost *= age_factor(0.0, question.settings)
    return boost


def gather(inquiry: Inquiry, rows: Allowed, depth: int) -> Gathered:
    """Ask each lane for its best `depth` and fuse them; the links lane starts from the result."""
    question = inquiry.question
    lanes = inquiry.lanes
    reach = question.weights.candidate_depth
    k = question.settings.rrf_k_constant
    rankings = _rankings(inquiry, rows, depth)
    found = {passage.path for ranking in rankings.values() for passage, _ in ranking}
    cut = _cut_documents(inquiry, found, rows)
    # Trust depends on what is within reach, however many were asked for.
    near = {lane: ranking[:reach] for lane, ranking in rankings.items()}
    trust = trust_in_words(Trust.of(question.weights), near, reach)
    trust = trust_in_code(trust, near, question.text)
    openings = frozenset((path, cut.get(path, 0)) for path in found)
    trust = replace(trust, openings=openings)
    fused = fuse(rankings, lanes, k, trust, reach)
    reached: list[Reached] = []
    if fused and question.max_hops and ("links" in lanes or question.graph_context):
        known = [candidate for candidate in fused if within(candidate, reach)]
        reached = linked(inquiry, known, rows)
    if reached and "links" in lanes:
        rankings["links"] = [(each.passage, each.neighbour.score) for each in reached]
        fused = fuse(rankings, lanes, k, trust, reach)
        new = {each.neighbour.path for each in reached} - found
        cut |= _cut_documents(inquiry, new, rows)
    if cut:
        # The section of a candidate would show what the filter keeps out.
        fused = [
            _without_section(each) if each.passage.path in cut else each
            for each in fused
        ]
    return Gathered(rankings, trust, fused, reached, depth)


def _rankings(inquiry: Inquiry, rows: Allowed, depth: int) -> dict[Lane, Ranking]:
    """Ask the lanes side by side. Order is by score, then path, then position."""
    asks: list[LaneAsk] = []
    if "meaning" in inquiry.lanes and inquiry.vector is not None:
        asks.append(LaneAsk("meaning", inquiry.vector))
    if "words" in inquiry.lanes:
        terms = {**inquiry.wording.further, **inquiry.question.terms}
        asks.append(LaneAsk("words", None, tuple(terms), terms))
    if "code" in inquiry.lanes:
        asks.append(LaneAsk("code", None, asked(inquiry.question.text)))
    hits = inquiry.snapshot.lanes(asks, rows, depth)
    keys = sorted({hit.key for found in hits.values() for hit in found})
    passages = inquiry.snapshot.passages(keys)
    rankings: dict[Lane, Ranking] = {}
    for lane, found in hits.items():
        ranking = [(passages[hit.key], hit.score) for hit in found]
        ranking.sort(key=lambda item: (-item[1], item[0].position))
        rankings[lane] = ranking[:depth]
    return rankings


def _cut_documents(inquiry: Inquiry, paths: Set[str], rows: Allowed) -> dict[str, int]:
    """Return the documents that the filter allows in part, each with its first allowed passage."""
    terms = atoms(inquiry.question.filter)
    if not paths or not any(isinstance(each, CHUNK_ATOMS) for each in terms):
        return {}
    snapshot = inquiry.snapshot
    whole = snapshot.keys(sorted(paths), snapshot.allow(EVERYTHING))
    allowed = snapshot.keys(sorted(paths), rows)
    return {
        path: whole[path].index(allowed[path][0])
        for path in paths
        if len(allowed[path]) < len(whole[path])
    }


def _without_section(candidate: Candidate) -> Candidate:
    return replace(candidate, passage=replace(candidate.passage, parent=None))
