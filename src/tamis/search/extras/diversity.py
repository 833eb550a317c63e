"""Same meaning (P8) and MMR (P11, C63): which passages say the same, by the cosines of their vectors.

A cosine that decides is a sum over two vectors alone, in float64, never a part of a matrix product,
whose last bits could depend on the rows beside it: a filter must not tip the scales.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tamis.model import Candidate
from tamis.search.dedup import MOST_COMPARED

Vectors = NDArray[np.float64]  # of length 1 each, or 0

_ROUGH: Final = 1e-3  # far more than a product in float32 can be off
_ROUNDING: Final = 1e-9  # a vector's cosine with itself may be this much below 1


def unit(vectors: NDArray[np.float32]) -> Vectors:
    """The same directions with length 1; what has none stays 0, and so are its cosines."""
    wide = vectors.astype(np.float64)
    lengths = np.sqrt((wide * wide).sum(axis=1))
    found: Vectors = wide / np.where(lengths > 0, lengths, 1.0)[:, np.newaxis]
    return found


def cosines(rows: Vectors, one: Vectors) -> Vectors:
    """With each row by itself."""
    found: Vectors = (rows * one).sum(axis=1)
    return found


def same_meaning(vectors: NDArray[np.float32], threshold: float) -> list[int]:
    """For each vector, best first, which one stands for it: the first kept that is near it, or itself.

    What has no direction stands for itself alone.
    """
    units = unit(vectors)
    rough = units.astype(np.float32)
    best, kept = list(range(len(units))), list[int]()
    roughly = np.empty(
        (min(len(units), MOST_COMPARED), units.shape[1]), np.float32
    )  # of the kept
    for at in np.flatnonzero(units.any(axis=1)).tolist():
        # A product in float32 says which of the kept may be near enough; each of these is then looked at.
        products = roughly[: len(kept)] @ rough[at]
        possible = (
            kept[number]
            for number in np.flatnonzero(products >= threshold - _ROUGH).tolist()
        )
        best[at] = next(
            (other for other in possible if _near(units, at, other, threshold)), at
        )
        if best[at] == at and len(kept) < len(roughly):
            roughly[len(kept)] = rough[at]
            kept.append(at)
    return best


def _near(units: Vectors, one: int, two: int, threshold: float) -> bool:
    return bool(cosines(units[two : two + 1], units[one])[0] >= threshold - _ROUNDING)


def diversified(
    candidates: Sequence[Candidate], vectors: NDArray[np.float32], weight: float
) -> list[Candidate]:
    """The candidates that have a row in `vectors` (the first so many) in the order of MMR, then the rest.

    `raw_score` stays what it was. `score` is cut to that of the candidate before, so that it still
    falls from first to last: a passage that rises for being different is not called a better match for it.
    """
    order = mmr_order(
        [each.raw_score for each in candidates[: len(vectors)]], vectors, weight
    )
    moved = [*(candidates[at] for at in order), *candidates[len(vectors) :]]
    falling = accumulate((each.score for each in moved), min)
    return [
        each if each.score == score else each.scored(score)
        for each, score in zip(moved, falling, strict=True)
    ]


def mmr_order(
    scores: Sequence[float], vectors: NDArray[np.float32], weight: float
) -> list[int]:
    """Maximal marginal relevance: next is always who has most of

        weight * relevance - (1 - weight) * cosine with the nearest of those chosen before

    where relevance is the score, rescaled to 0..1, and a negative cosine counts as 0. Of equals the
    better ranked comes first. What has no direction is appended, in its order.
    """
    units, relevance = unit(vectors), _rescaled(np.array(scores, np.float64))
    left = np.flatnonzero(units.any(axis=1))
    nearest = np.zeros(len(units))
    order = []
    while len(left):
        gains = weight * relevance[left] - (1 - weight) * nearest[left]
        chosen = int(left[np.argmax(gains)])  # the first of the largest
        order.append(chosen)
        left = left[left != chosen]
        nearest[left] = np.maximum(nearest[left], cosines(units[left], units[chosen]))
    return order + sorted(set(range(len(units))) - set(order))


def _rescaled(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """From 0 for the lowest to 1 for the highest; where all are equal, all are 1."""
    if not len(scores) or scores.max() == scores.min():
        return np.ones(len(scores))
    found: NDArray[np.float64] = (scores - scores.min()) / (scores.max() - scores.min())
    return found
