"""The meaning lane's arithmetic: an exact nearest-neighbour search that reads 8 bits a number.

A row x is stored twice: as float32, and as codes c (8 bits) with a scale s, so that x = s·c + r
with a known residual norm |r|. With the question q coded likewise as t·d + e,

    |x·q - s·t·(c·d)|  <=  |r|·|q| + |s·c|·|e|

and c·d is a whole number that any machine computes exactly. So the scan over the codes rules out
every row that cannot be among the best, by proof; the few that remain are scored in full. A
full score is a sum over one row alone, never a matrix product, whose last bits could depend on
the rows beside it.
"""

from typing import Any, Final

import numpy as np
import simsimd
from numpy.typing import NDArray

from tamis.index.embedded.words import Rows, Scores, best

Array = NDArray[Any]

# Rounding in float32 residuals and scales, and unit vectors that are a little longer than one.
_SLACK: Final = 1e-5
# With fewer allowed rows than this share, copying their codes out first is cheaper than scanning all.
_SPARSE: Final = 0.35


def encode(vectors: NDArray[np.float32]) -> dict[str, Array]:
    """The arrays of a vector file."""
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    scale = (np.where(largest > 0, largest, 1.0) / 127.0).astype(np.float32)
    codes = np.rint(vectors / scale[:, np.newaxis]).astype(np.int8)
    rest = vectors.astype(np.float64) - codes * scale.astype(np.float64)[:, np.newaxis]
    residual = np.sqrt((rest * rest).sum(axis=1)).astype(np.float32)
    return {"full": vectors, "codes": codes, "scale": scale, "residual": residual}


def nearest(
    arrays: dict[str, Array],
    query: NDArray[np.float32],
    mask: NDArray[np.bool_] | None,
    depth: int,
) -> tuple[Rows, Scores]:
    """The `depth` allowed rows nearest to the query, with their scores; rows ascend."""
    rows, codes, scale = _allowed(arrays, mask)
    if not len(codes):
        return np.empty(0, np.int64), np.empty(0)
    near = _possible(
        codes,
        scale,
        float(arrays["residual"].max()),
        query,
        mask if rows is None else None,
        depth,
    )
    chosen = near if rows is None else rows[near]
    return best(chosen, score(arrays["full"], chosen, query), depth)


def nearest_then_masked(
    arrays: dict[str, Array],
    query: NDArray[np.float32],
    mask: NDArray[np.bool_] | None,
    depth: int,
) -> tuple[Rows, Scores]:
    """The same, by scanning all rows and dropping the others afterwards, deeper until enough is left."""
    size = len(arrays["codes"])
    reach = 2 * depth
    while True:
        rows, scores = nearest(arrays, query, None, reach)
        kept = np.ones(len(rows), np.bool_) if mask is None else mask[rows]
        if int(kept.sum()) >= depth or reach >= size:
            return best(rows[kept], scores[kept], depth)
        reach *= 4


def score(full: NDArray[np.float32], rows: Rows, query: NDArray[np.float32]) -> Scores:
    """The scores of some rows, each computed by itself."""
    scores: Scores = (full[rows].astype(np.float64) * query.astype(np.float64)).sum(
        axis=1
    )
    return scores


def _allowed(
    arrays: dict[str, Array], mask: NDArray[np.bool_] | None
) -> tuple[Rows | None, Array, Array]:
    codes, scale = arrays["codes"], arrays["scale"]
    if mask is None or mask.sum() > _SPARSE * len(mask):
        return None, codes, scale
    rows = np.flatnonzero(mask)
    return rows, codes[rows], scale[rows]


def _possible(
    codes: Array,
    scale: Array,
    worst_residual: float,
    query: NDArray[np.float32],
    mask: NDArray[np.bool_] | None,
    depth: int,
) -> Rows:
    """The rows that the bound cannot rule out."""
    query_scale = float(np.abs(query).max()) / 127.0 or 1.0
    query_codes = np.rint(query / query_scale).astype(np.int8)
    rest = query.astype(np.float64) - query_codes * query_scale
    query_rest = float(np.sqrt((rest * rest).sum()))
    query_norm = float(np.sqrt((query.astype(np.float64) ** 2).sum()))
    error = worst_residual * query_norm + (1.0 + worst_residual) * query_rest + _SLACK
    estimate = dot_products(query_codes, codes) * (scale * query_scale)
    if mask is not None:
        estimate[~mask] = -np.inf
    if len(estimate) <= depth:
        return np.flatnonzero(np.isfinite(estimate))
    edge = np.partition(estimate, len(estimate) - depth)[len(estimate) - depth]
    return np.flatnonzero(estimate >= max(edge - 2 * error, -3.0))


def dot_products(query: NDArray[np.int8], codes: NDArray[np.int8]) -> Scores:
    """Whole numbers, exact whatever computes them."""
    products: Scores = np.asarray(
        simsimd.cdist(query[np.newaxis], codes, metric="dot")
    )[0]
    return products
