"""How good one ranking is, and how clearly one way of asking is better than another.

Pure arithmetic. A ranking lists documents, best first, each once. Grades are whole numbers by
document; one above 0 means relevant, and an unjudged document counts as not relevant. Without a
relevant document every metric is 0: leave such questions out of a mean.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_DRAWS = 10_000  # seeds move the ends of the interval by hundredths of its width
_SEED = 20_260_501
_CONFIDENCE = 0.95
AT_ONCE = 1_000_000  # drawn questions in memory
_EQUAL = 1e-9  # smaller differences come from the order of additions

Ranking = Sequence[str]
Grades = Mapping[str, int]
Scores = Mapping[str, float]  # by metric, or by question


def ndcg(
    ranked: Ranking,
    grades: Grades,
    k: int,
) -> float:
    """Return the discounted gain of the first k as a share of the best possible.

    The gain is linear in the grade, as in BEIR.
    """
    best = sorted(grades.values(), reverse=True)
    ideal = _discounted(best[:k])
    if not ideal:
        return 0.0
    found = [grades.get(one, 0) for one in ranked[:k]]
    return _discounted(found) / ideal


def _discounted(gains: Sequence[int]) -> float:
    return sum(
        max(gain, 0) / math.log2(place) for place, gain in enumerate(gains, start=2)
    )


def reciprocal_rank(
    ranked: Ranking,
    grades: Grades,
    k: int,
) -> float:
    """Return 1 over the place of the first relevant document among the first k, or 0."""
    for place, one in enumerate(ranked[:k], start=1):
        if grades.get(one, 0) > 0:
            return 1 / place
    return 0.0


def recall(
    ranked: Ranking,
    grades: Grades,
    k: int,
) -> float:
    """Return the share of the relevant documents that is among the first k."""
    relevant = {one for one, grade in grades.items() if grade > 0}
    if not relevant:
        return 0.0
    found = relevant.intersection(ranked[:k])
    return len(found) / len(relevant)


DEPTH = 10  # documents that the metrics look at
MAIN = "ndcg@10"  # the metric that is compared and drawn


def scores(ranked: Ranking, grades: Grades) -> dict[str, float]:
    """Return every metric of one ranking."""
    return {
        "ndcg@5": ndcg(ranked, grades, 5),
        MAIN: ndcg(ranked, grades, DEPTH),
        "mrr@10": reciprocal_rank(ranked, grades, DEPTH),
        "recall@10": recall(ranked, grades, DEPTH),
    }


@dataclass(frozen=True, slots=True)
class Difference:
    """The gain of a second way over a first: mean, interval, and questions it won and lost."""

    mean: float
    low: float
    high: float
    wins: int
    ties: int
    losses: int

    @property
    def is_clear(self) -> bool:
        """True if the whole interval lies on one side of 0."""
        return self.low > 0 or self.high < 0


def compare_sets(pairs: Iterable[tuple[Scores, Scores]]) -> Difference:
    """Compare two ways over sets: each set counts alike, however many questions it has.

    Both ways were asked the same questions, so each question gives a difference. The interval is a
    bootstrap of them within each set. It is seeded: equal input gives equal figures.
    """
    gains = []
    for first, second in pairs:
        gain = []
        for one in sorted(first.keys() & second.keys()):
            gain.append(second[one] - first[one])
        if gain:
            gains.append(np.array(gain))
    if not gains:
        return Difference(
            0.0,
            0.0,
            0.0,
            0,
            0,
            0,
        )
    random = np.random.default_rng(_SEED)
    drawn = [_drawn_means(each, random) for each in gains]
    outside = (1 - _CONFIDENCE) / 2
    means = np.mean(drawn, axis=0)
    low, high = np.quantile(means, (outside, 1 - outside))
    mean = np.mean([each.mean() for each in gains])
    every = np.concatenate(gains)
    wins = int((every > _EQUAL).sum())
    losses = int((every < -_EQUAL).sum())
    ties = every.size - wins - losses
    return Difference(
        float(mean),
        float(low),
        float(high),
        wins,
        ties,
        losses,
    )


def _drawn_means(
    gains: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.float64]:
    """Return the means of samples as large as the set, drawn in portions that fit the memory."""
    portion = max(1, min(_DRAWS, AT_ONCE // gains.size))
    found = []
    for done in range(0, _DRAWS, portion):
        shape = min(portion, _DRAWS - done), gains.size
        chosen = random.integers(0, gains.size, shape)
        found.append(gains[chosen].mean(axis=1))
    return np.concatenate(found)
