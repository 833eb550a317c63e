"""Recency: how much the age of a document counts.

The age is counted from `modified`, the date that filters see: the front matter's, else the last
commit's, else the file's. A date in the future is of today. Days are counted whole: the same question
gets the same scores from one moment to the next.
"""

import math

from tamis.search.question import Candidates, Lookups, Question
from tamis.search.scores import boosted
from tamis.settings import SearchSettings

_DAY = 86_400.0


def recency(candidates: Candidates, question: Question, _: Lookups) -> Candidates:
    """Raise recent documents, and with the profile `code` lower old ones."""
    now = question.now or 0.0
    factors = []
    for candidate in candidates:
        days = max(0.0, now - candidate.passage.modified) // _DAY
        factors.append(age_factor(days, question.settings))
    return boosted(candidates, "recency", factors)


def age_factor(days: float, settings: SearchSettings) -> float:
    """Return the factor for an age: with a bias of 0.5 its tier, with 0 always 1, with 1 twice as far from 1."""
    tier = docs_tier if settings.recency_profile == "docs" else code_tier
    return 1 + settings.recency_bias * 2 * (tier(days) - 1)


def docs_tier(days: float) -> float:
    """Written this week, this month, before."""
    if days < 7:
        return 1.2
    return 1.1 if days < 30 else 1.0


def code_tier(days: float) -> float:
    """Written today, this week, this month; then less by the day, without a step, down to a half."""
    if days < 1:
        return 1.5
    if days < 7:
        return 1.2
    late = max(0.0, days - 30)
    return max(0.5, math.exp(-late / 365))
