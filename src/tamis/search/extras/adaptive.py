"""What kind of question it is (P3, C56): a fact, a place, or anything else."""

import re
from collections.abc import Mapping
from typing import Final, Literal

from tamis.model import Lane

QueryType = Literal["factual", "navigational", "exploratory"]

_NAMES_IN_MIXED_CASE: Final = frozenset(
    {"github", "gitlab", "macos", "oauth", "javascript", "typescript", "devops"}
)
_WEIGHTS: Final[Mapping[QueryType, Mapping[Lane, float]]] = {
    "factual": {"words": 1.5},
    "navigational": {"links": 1.5},
    "exploratory": {"meaning": 1.3},
}
_FACTUAL: Final = re.compile(
    r"`[^`]+`|\"[^\"]+\"|\bv?\d+\.\d+(?:\.\d+)*\b|\b\w+_\w+\b|\b[A-Z][A-Z0-9]{2,}_?\w*\b|::|->|\b\w+\(\)"
)
_MIXED_CASE: Final = re.compile(r"\b[A-Za-z][a-z0-9]*(?:[A-Z][a-z0-9]+)+\b")
_NAVIGATIONAL: Final = re.compile(
    r"\[\[[^\]\[]++\]\]|\b(?:section|chapter|guide|page)\b|\bin the \w+", re.IGNORECASE
)


def type_weights(kind: QueryType) -> Mapping[Lane, float]:
    """What a type of question makes of the lanes' weights (P3)."""
    return _WEIGHTS[kind]


def query_type(text: str) -> QueryType:
    """The first that fits of factual, navigational; exploratory where nothing speaks for either."""
    mixed = (
        word
        for word in _MIXED_CASE.findall(text)
        if word.lower() not in _NAMES_IN_MIXED_CASE
    )
    if _FACTUAL.search(text) or any(mixed):
        return "factual"
    return "navigational" if _NAVIGATIONAL.search(text) else "exploratory"
