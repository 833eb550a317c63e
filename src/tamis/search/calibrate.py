"""Calibration: a score that means something by itself, whatever the lanes, their weights and k (C50).

Ranks cannot say whether anything was found: something is always first. What can is each lane's own
evidence on an absolute scale: the cosine between question and passage, and how much of the question's
words, by their rarity, the passage has. Either gives grounds through a logistic curve, and so does
either alone:

    grounds = 1 - (1 - related(cosine)) · (1 - covered(coverage))

Scores may not rise down the list, so a passage counts as well grounded as the best at or below it (of
those that are within reach of some lane: the others lift nobody). Its score is that, times
(1 + share) / 2, where the share is how much of what the lanes could have given it got. The cosines of
unrelated texts depend on the model, which therefore brings its own curve; how the curves were found is
in `docs/ranking.md`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from tamis.model import Candidate
from tamis.search.fuse import REACH, within


@dataclass(frozen=True, slots=True)
class Logistic:
    """From a measure to a probability: one half at the midpoint, and how sharply it turns there."""

    midpoint: float
    steepness: float

    def __call__(self, value: float) -> float:
        return logistic(self.steepness * (value - self.midpoint))


def logistic(value: float) -> float:
    """1 / (1 + e^-value), for values of any size."""
    grown = math.exp(-abs(value))
    return 1 / (1 + grown) if value >= 0 else grown / (1 + grown)


COVERED: Final = Logistic(0.75, 10.0)


def calibrated(
    candidates: Sequence[Candidate],
    coverage: Sequence[float],
    related: Logistic | None,
    reach: int = REACH,
) -> list[Candidate]:
    """The same candidates in the same order, with scores from 0 to 1 that never rise."""
    own = [
        grounds(each, covered, related)
        for each, covered in zip(candidates, coverage, strict=True)
    ]
    near = [
        value if within(each, reach) else 0.0
        for each, value in zip(candidates, own, strict=True)
    ]
    lifted = list(accumulate(reversed(near), max))[::-1]
    scored: list[Candidate] = []
    most = 1.0
    for candidate, value in zip(candidates, map(max, own, lifted), strict=True):
        most = min(value * (1 + min(candidate.score, 1.0)) / 2, most)
        scored.append(candidate.scored(most))
    return scored


def grounds(candidate: Candidate, coverage: float, related: Logistic | None) -> float:
    """How likely the passage has to do with the question, by its own evidence."""
    cosine = max(
        (each.score for each in candidate.evidence if each.lane == "meaning"),
        default=None,
    )
    by_meaning = related(cosine) if related and cosine is not None else 0.0
    by_words = COVERED(coverage) if coverage > 0 else 0.0
    return 1 - (1 - by_meaning) * (1 - by_words)
