"""THE QUERY PATH: from a question to its answer, over one snapshot of an index."""

from collections.abc import Mapping
from typing import Final

from tamis.index.protocol import Allowed, Snapshot
from tamis.model import Lane, Parent
from tamis.search.fuse import Position
from tamis.search.question import (
    Answer,
    Candidates,
    Inquiry,
    Lookups,
    Models,
    QueryType,
    Question,
    Trace,
    query_type,
)
from tamis.search.retrieve import retrieve
from tamis.search.stages import Clock, run_stages
from tamis.text.identifiers import asked


def search(snapshot: Snapshot, question: Question, models: Models) -> Answer:
    """Answer a question from one snapshot."""
    clock = Clock()
    inquiry = inquire(snapshot, question, models, clock)
    gathered, trace, scanned = retrieve(inquiry, clock)
    if question.is_reranked:
        trace = run_stages(gathered.fused, question, inquiry.lookups, clock)
    parents: Mapping[tuple[str, int], Parent] = {}
    if question.parents:
        passages = [candidate.passage for candidate in trace["limit"]]
        keys = [
            (each.path, each.parent) for each in passages if each.parent is not None
        ]
        parents = snapshot.parents(keys)
    return Answer(
        query_type=query_type(question.text),
        trace=trace,
        parents=parents,
        timings_ms=clock.milliseconds(),
        allowed=inquiry.allowed,
        scanned=scanned,
        depth=gathered.depth,
        neighbours=gathered.reached,
        reranked=_reranked(question, trace),
        wording=inquiry.wording,
    )


def inquire(
    snapshot: Snapshot, question: Question, models: Models, clock: Clock
) -> Inquiry:
    """Decide which rows and lanes to ask, with which vector and words."""
    allowed = snapshot.allow(question.filter)
    lanes = lane_weights(question, allowed.known if models.embed else 0.0)
    clock.lap("filter")
    vector = None
    if models.embed and "meaning" in lanes and allowed.chunks:
        vector = models.embed(question.text)
    clock.lap("embed")
    lookups = _lookups(snapshot, question, models, allowed)
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
_BY_TYPE: Final[Mapping[QueryType, tuple[Lane, float]]] = {
    "factual": ("words", 1.5),
    "navigational": ("links", 1.5),
    "exploratory": ("meaning", 1.3),
}


def _lookups(
    snapshot: Snapshot, question: Question, models: Models, allowed: Allowed
) -> Lookups:
    terms = tuple(question.terms)

    def positions(candidates: Candidates) -> list[Position]:
        return [candidate.passage.position for candidate in candidates]

    return Lookups(
        lambda candidates: snapshot.vectors(positions(candidates)),
        lambda candidates: snapshot.coverage(terms, positions(candidates), allowed),
        models,
    )


def _reranked(question: Question, trace: Trace) -> tuple[int, int]:
    """Count the candidates that were reranked, and those that should be."""
    if not question.is_reranked:
        return (0, 0)
    done = sum(each.score_source == "rerank" for each in trace["rerank"])
    return (done, min(len(trace["per document"]), question.settings.rerank_top_n))
