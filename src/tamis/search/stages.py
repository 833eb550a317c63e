"""The chain after fusion, in order.

A stage takes candidates, best first, the question, and what it may call on, and returns candidates;
the loop that runs them counts and times, so a stage knows nothing of either and any stage can be left
out by name.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tamis.model import Candidate
from tamis.search.boosts import boosted, by_path, coherent, saturated, with_named
from tamis.search.calibrate import calibrated
from tamis.search.dedup import (
    above_threshold,
    collapsed,
    limited_per_document,
    near_texts,
    one_per_parent,
    without_overlap,
    without_same_text,
)
from tamis.search.extras.diversity import diversified, same_meaning
from tamis.search.extras.rerank import reranked
from tamis.search.question import Means, Question

Stage = Callable[[Sequence[Candidate], Question, Means], Sequence[Candidate]]


def _without_near_text(
    candidates: Sequence[Candidate], ask: Question, _: Means
) -> Sequence[Candidate]:
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


def _by_mmr(
    candidates: Sequence[Candidate], ask: Question, means: Means
) -> Sequence[Candidate]:
    """Of the first so many; what ranks lower could rise only for being off the point."""
    if not ask.mmr or not candidates:
        return candidates
    first = candidates[: max(_LEAST_DIVERSIFIED, 4 * ask.limit)]
    return diversified(candidates, means.vectors(first), ask.settings.mmr_lambda)


_LEAST_DIVERSIFIED: Final = 50

STAGES: Final[Mapping[str, Stage]] = {
    "named": lambda candidates, ask, _: with_named(
        candidates, ask.text, ask.weights.named_boost, ask.weights.candidate_depth
    ),
    "file name": lambda candidates, ask, _: boosted(
        candidates, "file name", ask.code_places.name_factor
    ),
    "aside": lambda candidates, ask, _: boosted(
        candidates, "aside", ask.code_places.aside_factor
    ),
    "coherence": lambda candidates, ask, _: coherent(
        candidates, ask.weights.coherence, ask.weights.candidate_depth
    ),
    "recency": lambda candidates, ask, _: boosted(
        candidates, "recency", ask.recency_factor
    ),
    "archive": lambda candidates, ask, _: boosted(
        candidates, "archive", by_path(ask.archive.factor)
    ),
    "saturation": lambda candidates, ask, _: saturated(
        candidates, ask.weights.saturation
    ),
    "calibrate": lambda candidates, ask, means: calibrated(
        candidates,
        means.coverage(candidates),
        means.related,
        ask.weights.candidate_depth,
    ),
    "threshold": lambda candidates, ask, _: above_threshold(candidates, ask.min_score),
    "same text": lambda candidates, ask, _: (
        without_same_text(candidates)
        if ask.weights.content_dedup_enabled
        else candidates
    ),
    "overlap": lambda candidates, ask, _: (
        without_overlap(candidates) if ask.weights.content_dedup_enabled else candidates
    ),
    "near text": _without_near_text,
    "same meaning": _without_same_meaning,
    "mmr": _by_mmr,
    "per document": lambda candidates, ask, _: limited_per_document(
        candidates, ask.max_chunks_per_doc
    ),
    "rerank": lambda candidates, ask, means: (
        reranked(
            candidates,
            ask.text,
            ask.settings.rerank_top_n,
            ask.weights.rerank_budget_ms,
            means.rerank,
        )
        if ask.rerank
        else candidates
    ),
    "parents": lambda candidates, ask, _: (
        one_per_parent(candidates) if ask.parents else candidates
    ),
    "limit": lambda candidates, ask, _: candidates[: ask.limit],
}


def run_stages(
    fused: Sequence[Candidate],
    question: Question,
    means: Means,
    funnel: dict[str, int],
    spent: dict[str, float],
    trace: dict[str, Sequence[Candidate]] | None = None,
) -> Sequence[Candidate]:
    """The chain. How many candidates left each stage goes to `funnel`, the seconds it took are added up.

    `trace`, where one is given, gets what every stage left.
    """
    candidates = fused
    for name, stage in STAGES.items():
        began = time.perf_counter()
        if name not in question.without:
            candidates = stage(candidates, question, means)
        funnel[name] = len(candidates)
        if trace is not None:
            trace[name] = candidates
        spent[name] = spent.get(name, 0.0) + time.perf_counter() - began
    return candidates
