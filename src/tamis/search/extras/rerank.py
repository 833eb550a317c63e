"""Reranking: the best candidates in the order of a model that reads question and passage together.

It puts them in another order and drops none. A score becomes 1 / (1 + e^-score), which is in 0..1 and
keeps the order; what was not scored follows in its fused order with its own score, cut at the lowest
of those before it, so that scores never rise down the list. `raw_score` stays the fusion's.
"""

import math
from dataclasses import replace

from tamis.errors import UsageError
from tamis.model import embedding_text
from tamis.search.question import Candidates, Lookups, Question
from tamis.search.scores import Logistic

CURVE = Logistic(0.0, 1.0)


def rerank(candidates: Candidates, question: Question, lookups: Lookups) -> Candidates:
    """Put the first candidates that there are scores for in their order; the others follow."""
    head = candidates[: question.settings.rerank_top_n]
    if not head:
        return candidates
    if lookups.models.rerank is None:
        hint = "search without reranking"
        raise UsageError("there is no reranker to ask", hint=hint)
    texts = [embedding_text(each.passage.title, each.passage) for each in head]
    seconds = question.weights.rerank_budget_ms / 1000
    scores = lookups.models.rerank(question.text, texts, seconds)
    # A single score among several candidates orders nothing.
    if len(scores) < min(2, len(texts)):
        scores = ()
    ranked = []
    for each, given in zip(head, scores, strict=False):
        # What is not a number is worse than every number.
        score = -math.inf if math.isnan(given) else float(given)
        ranked.append((score, each))
    ranked.sort(key=lambda pair: -pair[0])
    least = math.inf
    reordered = []
    for score, each in ranked:
        least = CURVE(score)
        reordered.append(replace(each, score=least, score_source="rerank"))
    for each in candidates[len(ranked) :]:
        reordered.append(replace(each, score=min(each.score, least)))
    return reordered
