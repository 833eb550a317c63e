"""The meaning lane's arithmetic: an exact nearest-neighbour search that reads 8 bits a number.

A row x is stored twice: as float32, and as codes c (8 bits) with a scale s, so that x = s·c + r
with a known residual norm |r|. With the question q coded likewise as t·d + e,

    |x·q - s·t·(c·d)|  <=  |r|·|q| + |s·c|·|e|

and c·d is a whole number that any machine computes exactly. So the scan over the codes rules out
every row that cannot be among the best, by proof; the few that remain are scored in full. A
full score is a sum over one row alone, never a matrix product, whose last bits could depend on
the rows beside it.
"""

import numpy as np
import simsimd

from tamis.index.embedded.arrays import Arrays
from tamis.index.embedded.words import Mask, Rows, Scores, best
from tamis.index.protocol import Vectors

# Rounding in float32 residuals and scales, and unit vectors that are a little longer than one.
_SLACK = 1e-5
# With fewer allowed rows than this share, copying their codes out first is cheaper than scanning all.
_SPARSE = 0.35


def encode(vectors: Vectors) -> Arrays:
    """Make the arrays of a vector file."""
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    largest[~(largest > 0)] = 1.0
    scale = (largest / 127.0).astype(np.float32)
    column = scale[:, np.newaxis]
    codes = np.rint(vectors / column).astype(np.int8)
    coded = codes * column.astype(np.float64)
    residual = _lengths(vectors.astype(np.float64) - coded)
    return {
        "full": vectors,
        "codes": codes,
        "scale": scale,
        "residual": residual.astype(np.float32),
    }


def _lengths(rows: Scores) -> Scores:
    lengths: Scores = np.sqrt((rows * rows).sum(axis=-1))
    return lengths


def nearest(
    arrays: Arrays,
    query: Vectors,
    mask: Mask | None,
    depth: int,
) -> tuple[Rows, Scores]:
    """Find the `depth` allowed rows nearest to the query, with their scores; rows ascend."""
    codes = arrays["codes"]
    scale = arrays["scale"]
    rows = None
    if mask is not None and mask.sum() <= _SPARSE * len(mask):
        rows = np.flatnonzero(mask)
        codes = codes[rows]
        scale = scale[rows]
        mask = None
    if not len(codes):
        return np.empty(0, np.int64), np.empty(0)

    query_scale = float(np.abs(query).max()) / 127.0 or 1.0
    query_codes = np.rint(query / query_scale).astype(np.int8)
    exact = query.astype(np.float64)
    query_rest = float(_lengths(exact - query_codes * query_scale))
    worst_residual = float(arrays["residual"].max())
    by_rows = worst_residual * float(_lengths(exact))
    by_query = (1.0 + worst_residual) * query_rest
    error = by_rows + by_query + _SLACK
    # Whole numbers, which are exact on every machine.
    products = simsimd.cdist(query_codes[np.newaxis], codes, metric="dot")
    estimate = np.asarray(products)[0] * (scale * query_scale)
    if mask is not None:
        estimate[~mask] = -np.inf
    is_possible = np.isfinite(estimate)
    if len(estimate) > depth:
        place = len(estimate) - depth
        edge = np.partition(estimate, place)[place]
        is_possible = estimate >= max(edge - 2 * error, -3.0)
    chosen = np.flatnonzero(is_possible)
    if rows is not None:
        chosen = rows[chosen]
    return best(chosen, score(arrays["full"], chosen, query), depth)


def nearest_then_masked(
    arrays: Arrays,
    query: Vectors,
    mask: Mask | None,
    depth: int,
) -> tuple[Rows, Scores]:
    """Find the same rows by scanning all and dropping the others, deeper until enough are left."""
    size = len(arrays["codes"])
    reach = 2 * depth
    while True:
        rows, scores = nearest(arrays, query, None, reach)
        kept = np.ones(len(rows), np.bool_)
        if mask is not None:
            kept = mask[rows]
        if int(kept.sum()) >= depth or reach >= size:
            return best(rows[kept], scores[kept], depth)
        reach *= 4


def score(
    full: Vectors,
    rows: Rows,
    query: Vectors,
) -> Scores:
    """Compute the score of each row by itself."""
    products = full[rows].astype(np.float64) * query.astype(np.float64)
    scores: Scores = products.sum(axis=1)
    return scores
