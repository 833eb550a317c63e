"""Recency: what the age of a document is worth (C29, C62).

The age is counted from `modified`, the date that filters see: the front matter's, else the last
commit's, else the file's. A date in the future is of today. Days are counted whole: the same question
gets the same scores from one moment to the next.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final

_DAY: Final = 86_400.0


def docs_tier(days: float) -> float:
    """Written this week, this month, before."""
    return 1.2 if days < 7 else 1.1 if days < 30 else 1.0


def code_tier(days: float) -> float:
    """Written today, this week, this month; then less by the day, without a step, down to a half."""
    if days < 30:
        return 1.5 if days < 1 else 1.2 if days < 7 else 1.0
    return max(0.5, math.exp(-(days - 30) / 365))


_TIERS: Final[Mapping[str, Callable[[float], float]]] = {
    "docs": docs_tier,
    "code": code_tier,
    "off": lambda _: 1.0,
}


def recency(profile: str, bias: float, modified: float, now: float) -> float:
    """The factor for a document: with a bias of 0.5 its tier, with 0 always 1, with 1 twice as far from 1."""
    days = max(0.0, now - modified) // _DAY
    return 1 + bias * 2 * (_TIERS[profile](days) - 1)


def most_for_recency(profile: str, bias: float) -> float:
    """The largest factor there is: that of a document from this very moment."""
    return recency(profile, bias, 0.0, 0.0)
