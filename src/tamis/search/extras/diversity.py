"""Same meaning and MMR: which passages say the same, by the cosines of their vectors.

A cosine that decides is a sum over two vectors alone, in float64, never a part of a matrix product,
whose last bits could depend on the rows beside it: a filter must not tip the scales.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tamis.search.dedup import MOST_COMPARED, collapsed
from tamis.search.question import Candidates, Lookups, Question, Vector

Units = NDArray[np.float64]  # vectors of length 1 each, or 0

_LEAST_DIVERSIFIED = 50
_ROUGH = 1e-3  # far more than a product in float32 can be off
_ROUNDING = 1e-9  # a vector's cosine with itself may be this much below 1


def same_meaning(
    candidates: Candidates, question: Question, lookups: Lookups
) -> Candidates:
    """Keep the best of candidates whose vectors are near each other."""
    if not candidates:
        return candidates
    vectors = lookups.vectors([each.passage.position for each in candidates])
    threshold = question.settings.dedup_similarity_threshold
    return collapsed(candidates, nearest_kept(vectors, threshold))


def nearest_kept(vectors: Vector, threshold: float) -> list[int]:
    """Return for each vector, best first, the first kept one that is near it, or itself.

    A vector without a direction is near to none.
    """
    units = _units(vectors)
    rough = units.astype(np.float32)
    best = list(range(len(units)))
    kept: list[int] = []
    size = min(len(units), MOST_COMPARED)
    of_kept = np.empty((size, units.shape[1]), np.float32)
    for at in np.flatnonzero(units.any(axis=1)).tolist():
        # A product in float32 finds the kept ones that may be near; each of these is then compared.
        products = of_kept[: len(kept)] @ rough[at]
        for place in np.flatnonzero(products >= threshold - _ROUGH).tolist():
            other = kept[place]
            alone = units[other : other + 1]
            cosine = _cosines(alone, units[at])[0]
            if cosine >= threshold - _ROUNDING:
                best[at] = other
                break
        if best[at] == at and len(kept) < size:
            of_kept[len(kept)] = rough[at]
            kept.append(at)
    return best


def mmr(candidates: Candidates, question: Question, lookups: Lookups) -> Candidates:
    """Put the first candidates in the order of MMR; lower ones could rise only by being off the point.

    `raw_score` stays. `score` is cut to that of the candidate before, so that it still falls from first
    to last: a passage that rises for being different is not called a better match for it.
    """
    if not candidates:
        return candidates
    first = candidates[: max(_LEAST_DIVERSIFIED, 4 * question.limit)]
    scores = [each.raw_score for each in first]
    vectors = lookups.vectors([each.passage.position for each in first])
    order = mmr_order(scores, vectors, question.settings.mmr_lambda)
    order.extend(range(len(first), len(candidates)))
    moved = []
    least = math.inf
    for at in order:
        candidate = candidates[at]
        if candidate.score > least:
            candidate = candidate.scored(least)
        least = candidate.score
        moved.append(candidate)
    return moved


def mmr_order(scores: Sequence[float], vectors: Vector, weight: float) -> list[int]:
    """Order by maximal marginal relevance: next comes always the one with the highest

        weight * relevance - (1 - weight) * cosine with the nearest of those chosen before

    where relevance is the score, rescaled to 0..1, and a negative cosine counts as 0. Of equals the
    better ranked comes first. Vectors without a direction are appended, in their order.
    """
    units = _units(vectors)
    relevance = np.array(scores, np.float64)
    if len(scores):
        lowest = relevance.min()
        spread = relevance.max() - lowest
        if spread:
            relevance = (relevance - lowest) / spread
        else:
            relevance = np.ones(len(scores))
    left = np.flatnonzero(units.any(axis=1))
    nearest = np.zeros(len(units))
    order = []
    while len(left):
        repeated = (1 - weight) * nearest[left]
        gains = weight * relevance[left] - repeated
        chosen = int(left[np.argmax(gains)])  # the first of the largest
        order.append(chosen)
        left = left[left != chosen]
        cosines = _cosines(units[left], units[chosen])
        nearest[left] = np.maximum(nearest[left], cosines)
    without = set(range(len(units))).difference(order)
    return order + sorted(without)


def _units(vectors: Vector) -> Units:
    """Return the same directions with length 1; a vector without one stays 0."""
    wide = vectors.astype(np.float64)
    lengths = np.sqrt((wide * wide).sum(axis=1))
    divisors = np.where(lengths > 0, lengths, 1.0)
    found: Units = wide / divisors[:, np.newaxis]
    return found


def _cosines(rows: Units, one: Units) -> Units:
    """Return the cosine with each row by itself."""
    found: Units = (rows * one).sum(axis=1)
    return found
