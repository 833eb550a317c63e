"""How good one ranking is, held against graded judgements.

Pure arithmetic. A ranking lists documents, best first, each once; grades are whole numbers by
document, and one above 0 means relevant. What nobody judged counts as not relevant. Without a
relevant document every metric is 0: leave such questions out of a mean.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

Grades = Mapping[str, int]
Metric = Callable[[Sequence[str], Grades], float]


def ndcg(ranked: Sequence[str], grades: Grades, k: int) -> float:
    """Discounted gain of the first k, as a share of the best possible. Linear in the grade, as in BEIR."""
    best = sorted(grades.values(), reverse=True)
    ideal = _discounted(best[:k])
    return (
        _discounted([grades.get(one, 0) for one in ranked[:k]]) / ideal
        if ideal
        else 0.0
    )


def reciprocal_rank(ranked: Sequence[str], grades: Grades, k: int) -> float:
    """1 over the place of the first relevant document; 0 when none is among the first k."""
    places = (
        place for place, one in enumerate(ranked[:k], start=1) if grades.get(one, 0) > 0
    )
    return 1 / next(places, math.inf)


def recall(ranked: Sequence[str], grades: Grades, k: int) -> float:
    """Which share of the relevant documents is among the first k."""
    relevant = {one for one, grade in grades.items() if grade > 0}
    return len(relevant & set(ranked[:k])) / len(relevant) if relevant else 0.0


def _discounted(gains: Sequence[int]) -> float:
    return sum(
        max(gain, 0) / math.log2(place + 1) for place, gain in enumerate(gains, start=1)
    )


METRICS: Final[Mapping[str, Metric]] = {
    "ndcg@5": lambda ranked, grades: ndcg(ranked, grades, 5),
    "ndcg@10": lambda ranked, grades: ndcg(ranked, grades, 10),
    "mrr@10": lambda ranked, grades: reciprocal_rank(ranked, grades, 10),
    "recall@10": lambda ranked, grades: recall(ranked, grades, 10),
}
DEPTH: Final = 10  # how many documents the metrics look at
MAIN: Final = "ndcg@10"  # what is compared and drawn


def scores(ranked: Sequence[str], grades: Grades) -> dict[str, float]:
    """Every metric of one ranking."""
    return {name: metric(ranked, grades) for name, metric in METRICS.items()}
