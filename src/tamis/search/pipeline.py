"""THE QUERY PATH: from a question to its answer, over one snapshot of an index.

`search` reads top to bottom. `inquire` decides what to ask, `retrieve` asks the lanes as deep as the
answer needs and fuses what they found, `run_stages` leads from there to the answer.

A stage takes the candidates, best first, the question, and what it may look up, and returns candidates.
The loop that runs the stages counts and times them, so a stage knows nothing of either, and any can be
left out by name.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from tamis.index.protocol import Allowed, LaneAsk, Snapshot
from tamis.model import Candidate, Lane, Parent
from tamis.query.filters import CHUNK_ATOMS, EVERYTHING, Workspace, atoms
from tamis.search.dedup import (
    limit,
    near_text,
    overlap,
    parents,
    per_document,
    same_text,
    threshold,
)
from tamis.search.fuse import Ranking, Trust, fuse, trust_in_words, within
from tamis.search.links import Reached, linked
from tamis.search.question import (
    STAGE_NAMES,
    Answer,
    Candidates,
    Inquiry,
    Lookups,
    Models,
    QueryType,
    Question,
    StageName,
    Trace,
    query_type,
)
from tamis.search.scores import (
    archive,
    aside,
    calibrate,
    coherence,
    file_name,
    named,
    saturation,
    trust_in_code,
)
from tamis.text.identifiers import asked, wanted_names

log = logging.getLogger("tamis.search")

Stage = Callable[[Candidates, Question, Lookups], Candidates]

STAGES: Mapping[StageName, Stage] = {
    "named": named,
    "file name": file_name,
    "aside": aside,
    "coherence": coherence,
    "archive": archive,
    "saturation": saturation,
    "calibrate": calibrate,
    "threshold": threshold,
    "same text": same_text,
    "overlap": overlap,
    "near text": near_text,
    "per document": per_document,
    "parents": parents,
    "limit": limit,
}


class Clock:
    """The time that a search has spent, by name; times of the same name add up."""

    def __init__(self) -> None:
        self.began = self._last = time.perf_counter()
        self._spent: defaultdict[str, float] = defaultdict(float)

    def lap(self, name: str, since: float | None = None) -> None:
        """Count the time since the last lap, or since a moment."""
        if since is None:
            since = self._last
        now = time.perf_counter()
        self._spent[name] += now - since
        self._last = now

    def milliseconds(self) -> dict[str, float]:
        self.lap("total", self.began)
        spent = self._spent.items()
        return {name: round(seconds * 1000, 3) for name, seconds in spent}


@dataclass(frozen=True, slots=True)
class Gathered:
    """The finds of all lanes at one depth."""

    rankings: Mapping[Lane, Ranking]
    trust: Trust
    fused: Sequence[Candidate]
    reached: Sequence[Reached]  # by the links lane
    depth: int


def search(snapshot: Snapshot, question: Question, models: Models) -> Answer:
    """Answer a question from one snapshot."""
    clock = Clock()
    inquiry = inquire(snapshot, question, models, clock)
    gathered, trace, scanned = retrieve(inquiry, clock)
    reranked = (0, 0)
    if question.is_reranked:
        trace = run_stages(gathered.fused, question, inquiry.lookups, clock)
        done = sum(each.score_source == "rerank" for each in trace["rerank"])
        wanted = min(len(trace["per document"]), question.settings.rerank_top_n)
        reranked = (done, wanted)
    sections: Mapping[tuple[str, int], Parent] = {}
    if question.parents:
        keys = []
        for candidate in trace["limit"]:
            passage = candidate.passage
            if passage.parent is not None:
                keys.append((passage.path, passage.parent))
        sections = snapshot.parents(keys)
    return Answer(
        query_type=query_type(question.text),
        trace=trace,
        parents=sections,
        timings_ms=clock.milliseconds(),
        allowed=inquiry.allowed,
        scanned=scanned,
        depth=gathered.depth,
        neighbours=gathered.reached,
        reranked=reranked,
        wording=inquiry.wording,
    )


def inquire(
    snapshot: Snapshot, question: Question, models: Models, clock: Clock
) -> Inquiry:
    """Decide which rows and lanes to ask, with which vector and words."""
    allowed = snapshot.allow(question.filter)
    known = allowed.known if models.embed else 0.0
    lanes = lane_weights(question, known)
    clock.lap("filter")
    vector = None
    if models.embed and "meaning" in lanes and allowed.chunks:
        vector = models.embed(question.text)
    clock.lap("embed")
    terms = tuple(question.terms)
    coverage = partial(snapshot.coverage, terms, allowed=allowed)
    lookups = Lookups(snapshot.vectors, coverage, models)
    inquiry = Inquiry(snapshot, question, allowed, lanes, vector, lookups)
    if question.settings.query_expansion_enabled or question.synonyms:
        from tamis.search.extras.expansion import reworded

        inquiry = reworded(inquiry)
    clock.lap("expand")
    return inquiry


def lane_weights(question: Question, known: float) -> dict[Lane, float]:
    """Return the lanes that take part, with their weights; the code lane takes none but names.

    `known` is the share of the allowed passages that have vectors. The meaning lane counts that much:
    while most have none yet, its best are the best of a few, and would rank above what words found
    among all.
    """
    settings = question.settings
    weights: dict[Lane, float] = {
        "meaning": settings.semantic_weight * known,
        "words": settings.keyword_weight,
    }
    if settings.code_search_enabled and asked(question.text):
        weights["code"] = settings.code_search_weight
    if question.max_hops:
        weights["links"] = settings.graph_weight
    if settings.adaptive_weights_enabled:
        lane, factor = _BY_TYPE[query_type(question.text)]
        weights[lane] = weights.get(lane, 0.0) * factor
    return {lane: weight for lane, weight in weights.items() if weight > 0}


# The lane that counts more for each type of question, if `adaptive_weights_enabled`.
_BY_TYPE: Mapping[QueryType, tuple[Lane, float]] = {
    "factual": ("words", 1.5),
    "navigational": ("links", 1.5),
    "exploratory": ("meaning", 1.3),
}


def retrieve(inquiry: Inquiry, clock: Clock) -> tuple[Gathered, Trace, int]:
    """Ask the lanes until the answer is full, or nothing that they have left belongs in it.

    Return what they found at last, what each stage but the reranker left of it, and the number of rows
    that they looked at in all.
    """
    question = inquiry.question.before_reranking
    depth = first_depth(question)
    scanned = 0
    ways = [inquiry.allowed]
    terms = atoms(inquiry.question.filter)
    if any(isinstance(each, Workspace) for each in terms):
        # Other ways give the same hits; they are there to measure what filtering first saves.
        late = replace(inquiry.allowed, late=True)
        match question.settings.workspace_filtering:
            case "post":
                ways = [late]
            case "hybrid":
                ways = [inquiry.allowed, late]
    for rows in ways:
        while True:
            if rows.late:
                scanned += inquiry.snapshot.state.chunks
            else:
                scanned += rows.chunks
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
    rankings = dict(gathered.rankings)
    rankings.pop("links", None)
    if all(len(ranking) < depth for ranking in rankings.values()):
        return False
    candidates = trace["limit"]
    if len(candidates) < question.limit:
        return len(trace["threshold"]) == len(trace["fused"])
    boost = largest_boost(question)
    next_rank = question.settings.rrf_k_constant + depth + 1
    most = 0.0
    for lane, ranking in rankings.items():
        if ranking:
            scores = [score for _, score in ranking]
            last = gathered.trust.of_hits(lane, scores)[-1]
            most = max(most, boost * weights[lane] * last / next_rank)
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
    found: set[str] = set()
    for ranking in rankings.values():
        found.update(passage.path for passage, _ in ranking)
    cut = _cut_documents(inquiry, found, rows)
    # Trust depends on what is within reach, however many were asked for.
    near = {lane: ranking[:reach] for lane, ranking in rankings.items()}
    trust = trust_in_words(Trust.of(question.weights), near, reach)
    trust = trust_in_code(trust, near, question.text)
    openings = [(path, cut.get(path, 0)) for path in found]
    trust = replace(trust, openings=frozenset(openings))
    fused = fuse(rankings, lanes, k, trust, reach)
    reached: list[Reached] = []
    is_wanted = "links" in lanes or question.graph_context
    if fused and question.max_hops and is_wanted:
        known = [candidate for candidate in fused if within(candidate, reach)]
        reached = linked(inquiry, known, rows)
    if reached and "links" in lanes:
        rankings["links"] = [(each.passage, each.neighbour.score) for each in reached]
        fused = fuse(rankings, lanes, k, trust, reach)
        new = {each.neighbour.path for each in reached} - found
        cut |= _cut_documents(inquiry, new, rows)
    for at, each in enumerate(fused):
        if each.passage.path in cut:
            # The section around it would show what the filter keeps out.
            alone = replace(each.passage, parent=None)
            fused[at] = replace(each, passage=alone)
    return Gathered(rankings, trust, fused, reached, depth)


def _rankings(inquiry: Inquiry, rows: Allowed, depth: int) -> dict[Lane, Ranking]:
    """Ask the lanes side by side. Order is by score, then path, then position."""
    question = inquiry.question
    asks: list[LaneAsk] = []
    if "meaning" in inquiry.lanes and inquiry.vector is not None:
        asks.append(LaneAsk("meaning", inquiry.vector))
    if "words" in inquiry.lanes:
        terms = {**inquiry.wording.further, **question.terms}
        asks.append(LaneAsk("words", None, tuple(terms), terms))
    if "code" in inquiry.lanes:
        asks.append(LaneAsk("code", None, asked(question.text)))
    hits = inquiry.snapshot.lanes(asks, rows, depth)
    keys: set[int] = set()
    for found in hits.values():
        keys.update(hit.key for hit in found)
    passages = inquiry.snapshot.passages(sorted(keys))
    rankings: dict[Lane, Ranking] = {}
    for lane, found in hits.items():
        ranking = [(passages[hit.key], hit.score) for hit in found]
        ranking.sort(key=lambda item: (-item[1], item[0].position))
        rankings[lane] = ranking[:depth]
    return rankings


def _cut_documents(inquiry: Inquiry, paths: Set[str], rows: Allowed) -> dict[str, int]:
    """Return the documents that the filter allows in part, each with its first allowed passage."""
    terms = atoms(inquiry.question.filter)
    is_by_passage = any(isinstance(each, CHUNK_ATOMS) for each in terms)
    if not paths or not is_by_passage:
        return {}
    snapshot = inquiry.snapshot
    everything = snapshot.allow(EVERYTHING)
    all_keys = snapshot.keys(sorted(paths), everything)
    allowed_keys = snapshot.keys(sorted(paths), rows)
    cut = {}
    for path in paths:
        own = all_keys[path]
        allowed = allowed_keys[path]
        if len(allowed) < len(own):
            cut[path] = own.index(allowed[0])
    return cut


def run_stages(
    fused: Candidates, question: Question, lookups: Lookups, clock: Clock
) -> Trace:
    """Pass candidates through the stages; return what each left."""
    stages = {**STAGES, **optional_stages(question)}
    trace: dict[StageName | Literal["fused"], Candidates] = {"fused": fused}
    candidates = fused
    began = time.perf_counter()
    for name in STAGE_NAMES:
        if name in stages and name not in question.without:
            candidates = stages[name](candidates, question, lookups)
        trace[name] = candidates
        clock.lap(name)
    clock.lap("stages", began)
    return trace


def optional_stages(question: Question) -> dict[StageName, Stage]:
    """Import the stages that are off by default and that a question asks for."""
    stages: dict[StageName, Stage] = {}
    if question.counts_age:
        from tamis.search.extras.recency import recency

        stages["recency"] = recency
    if question.mmr:
        from tamis.search.extras.diversity import mmr

        stages["mmr"] = mmr
    elif question.settings.dedup_enabled:
        from tamis.search.extras.diversity import same_meaning

        stages["same meaning"] = same_meaning
    if question.rerank:
        from tamis.search.extras.rerank import rerank

        stages["rerank"] = rerank
    return stages
