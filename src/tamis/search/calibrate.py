"""Calibration: a score that means something by itself, whatever the lanes, their weights and k.

Ranks cannot say if anything was found: something is always first. Each lane's own evidence can, on an
absolute scale: the cosine between question and passage, and the share of the question's words, by their
rarity, that the passage has. Either gives grounds through a logistic curve, and so does either alone:

    grounds = 1 - (1 - related(cosine)) · (1 - covered(coverage))

Scores may not rise down the list, so a passage has the best grounds at or below it (of those within
reach of some lane). Its score is that, times (1 + share) / 2, where the share is its fused score over
the highest that the lanes could have given. The cosines of unrelated texts depend on the model, which
therefore brings its own curve (docs/ranking.md).
"""

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from tamis.model import Candidate
from tamis.search.fuse import within
from tamis.search.question import Candidates, Lookups, Question


@dataclass(frozen=True, slots=True)
class Logistic:
    """A curve from a measure to a probability: its midpoint, at one half, and its slope there."""

    midpoint: float
    steepness: float

    def __call__(self, value: float) -> float:
        return logistic(self.steepness * (value - self.midpoint))


def logistic(value: float) -> float:
    """1 / (1 + e^-value), for values of any size."""
    grown = math.exp(-abs(value))
    return 1 / (1 + grown) if value >= 0 else grown / (1 + grown)


COVERED: Final = Logistic(0.75, 10.0)


def calibrate(
    candidates: Candidates, question: Question, lookups: Lookups
) -> Candidates:
    """Give the candidates scores from 0 to 1 that never rise, and leave their order."""
    coverage = lookups.coverage(candidates)
    own = []
    near = []
    for candidate, covered in zip(candidates, coverage, strict=True):
        value = _grounds(candidate, covered, lookups)
        own.append(value)
        is_near = within(candidate, question.weights.candidate_depth)
        near.append(value if is_near else 0.0)
    lifted = list(accumulate(reversed(near), max))[::-1]
    scored: list[Candidate] = []
    most = 1.0
    for candidate, value in zip(candidates, map(max, own, lifted), strict=True):
        share = min(candidate.score, 1.0)
        most = min(value * (1 + share) / 2, most)
        scored.append(candidate.scored(most))
    return scored


def _grounds(candidate: Candidate, coverage: float, lookups: Lookups) -> float:
    """Return the probability that the passage is about the question, by its own evidence."""
    related = lookups.models.related
    by_meaning = 0.0
    for each in candidate.evidence:
        if related and each.lane == "meaning":
            by_meaning = related(each.score)
    by_words = COVERED(coverage) if coverage > 0 else 0.0
    return 1 - (1 - by_meaning) * (1 - by_words)
