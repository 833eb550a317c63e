"""The cross-encoder stage (P6): the best candidates in the order of a model that reads question and passage.

It puts them in another order and drops none. A score becomes 1 / (1 + e^-score), which is in 0..1 and
keeps the order; what was not scored follows in its fused order with its own score, cut at the lowest
of those before it, so that scores never rise down the list. `raw_score` stays what the fusion gave.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from tamis.errors import UsageError
from tamis.model import Candidate, embedding_text
from tamis.search.calibrate import logistic

# Question, passages, seconds (0 is no limit) to scores: of all passages, or of the first, as many as fit.
Rerank = Callable[[str, Sequence[str], float], Sequence[float]]


def no_reranker(*_: object) -> NoReturn:
    raise UsageError("there is no reranker to ask", hint="search without reranking")


class Watched:
    """A reranker for one search, which remembers how far it came.

    A single score among several candidates orders nothing: then none counts.
    """

    def __init__(self, rerank: Rerank) -> None:
        self._rerank = rerank
        self.done = self.of = 0

    def __call__(
        self, query: str, passages: Sequence[str], seconds: float
    ) -> Sequence[float]:
        scores = self._rerank(query, passages, seconds)
        usable = scores if len(scores) >= min(2, len(passages)) else ()
        self.done, self.of = len(usable), len(passages)
        return usable


def reranked(
    candidates: Sequence[Candidate],
    query: str,
    most: int,
    budget_ms: int,
    rerank: Rerank,
) -> list[Candidate]:
    """The first few, as many of them as there are scores for, best first; then the others as they were."""
    head = candidates[:most]
    if not head:
        return list(candidates)
    texts = [embedding_text(each.passage.title, each.passage) for each in head]
    scores = rerank(query, texts, budget_ms / 1000)
    pairs = [
        (each, _comparable(score)) for each, score in zip(head, scores, strict=False)
    ]
    best = [
        _scored(each, score) for each, score in sorted(pairs, key=lambda pair: -pair[1])
    ]
    least = best[-1].score if best else math.inf
    return [*best, *(_at_most(each, least) for each in candidates[len(best) :])]


def _comparable(score: float) -> float:
    """What is not a number is worse than every number."""
    return -math.inf if math.isnan(score) else float(score)


def _scored(candidate: Candidate, score: float) -> Candidate:
    return replace(candidate, score=logistic(score), score_source="rerank")


def _at_most(candidate: Candidate, most: float) -> Candidate:
    return candidate if candidate.score <= most else replace(candidate, score=most)
