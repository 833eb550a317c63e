"""Choosing the best rows of one segment."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]


def best(rows: Rows, scores: Scores, depth: int) -> tuple[Rows, Scores]:
    """The `depth` best rows. `rows` ascend, and rows of a segment stand in the order of path and
    position, so of equal scores at the edge the earlier rows stay: the tie rule, without looking
    at a single path."""
    if len(rows) <= depth:
        return rows, scores
    edge = np.partition(scores, len(scores) - depth)[len(scores) - depth]
    above = scores > edge
    level = np.flatnonzero(scores == edge)[: depth - int(above.sum())]
    above[level] = True
    return rows[above], scores[above]


def masked(rows: NDArray[Any], mask: NDArray[np.bool_] | None) -> NDArray[Any]:
    return rows if mask is None else rows[mask[rows]]
