"""The lanes: one request for all of them, and what it found scored as the embedded engine would.

The server ranks by the nearest vectors and by BM25F, with rarity counted over the allowed rows. It
computes in single precision, so a little more than the depth is asked for, until the edge is clear
of ties. In exact mode the vectors and weights of the hits come along, and their scores are computed
again in double precision.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tamis.index.embedded import words as bm25f
from tamis.index.embedded.vectors import score
from tamis.index.links import LinkCache
from tamis.index.protocol import Allowed, Hit, LaneAsk
from tamis.index.qdrant.points import (
    PASSAGE,
    Ask,
    Native,
    Point,
    Points,
    Sparse,
    sparse,
    term_number,
)
from tamis.model import Lane

_BEYOND = 16  # asked for besides the depth: the edge is seldom clear without
# Two scores that differ by less than this share of them may be in the wrong order.
_SLACK = 2e-5

Term = tuple[str, str]  # a lane and a term of it


@dataclass(frozen=True, slots=True)
class Rows:
    """The allowed rows as a filter of the server's, and what was worked out about them."""

    native: Native
    frequencies: dict[Term, int] = field(default_factory=dict)
    # Ordinals and keys of the chunks of documents, by path.
    chunks: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    links: LinkCache = field(default_factory=LinkCache)


def search(
    points: Points,
    asks: Sequence[LaneAsk],
    allowed: Allowed,
    depth: int,
    *,
    exact: bool,
) -> dict[Lane, list[Point]]:
    """Find every row that can be among the `depth` best of each lane."""
    found: dict[Lane, list[Point]] = {ask.lane: [] for ask in asks}
    waiting = []
    new: list[Term] = []
    for ask in asks:
        if allowed.chunks and (ask.vector is not None or _weights(ask)):
            waiting.append(ask)
            if exact:
                new += uncounted(ask, allowed.rows)
    limit = min(depth + _BEYOND, allowed.chunks)
    while waiting:
        requests = []
        for ask in waiting:
            query = _weights(ask) if ask.vector is None else ask.vector
            along = (ask.lane,) if exact else ()
            native = allowed.rows.native
            requests.append(Ask(ask.lane, query, native, limit, PASSAGE, along))
        for term in new:
            requests.append(counting(allowed.rows, term))
        answers = points.nearest(requests)
        remember(allowed, new, answers[len(waiting) :])
        new = []
        unclear = []
        for ask, rows in zip(waiting, answers, strict=False):
            found[ask.lane] = rows
            if len(rows) < limit or limit == allowed.chunks:
                continue
            # Rows beyond the returned ones must not reach the top `depth`.
            edge = rows[depth - 1].score
            if rows[-1].score >= edge - _SLACK * max(1.0, abs(edge)):
                unclear.append(ask)
        waiting = unclear
        limit = min(4 * limit, allowed.chunks)
    return found


def _weights(ask: LaneAsk) -> Sparse:
    """The terms as a sparse vector; the server multiplies by their rarity."""
    weighted = []
    for term in ask.terms:
        weight = ask.weights.get(term, 1.0)
        if weight:
            weighted.append((term, weight))
    return sparse(weighted)


def uncounted(ask: LaneAsk, rows: Rows) -> list[Term]:
    """The terms of a question whose frequency is not known yet."""
    new: list[Term] = []
    for name in dict.fromkeys(ask.terms):
        term = (ask.lane, name)
        if term not in rows.frequencies:
            new.append(term)
    return new


def counting(rows: Rows, term: Term) -> Ask:
    """A search for the best row of one term: its weight and its score tell how rare the term is."""
    lane, name = term
    return Ask(
        lane,
        {term_number(name): 1.0},
        rows.native,
        1,
        vectors=(lane,),
    )


def remember(
    allowed: Allowed,
    terms: Sequence[Term],
    answers: Sequence[Sequence[Point]],
) -> None:
    """Store how many rows have each term.

    The score is weight * ln((N + 1) / (n + 0.5)), and is solved for n of N rows.
    """
    for term, answer in zip(terms, answers, strict=True):
        frequency = 0
        if answer:
            lane, name = term
            weight = answer[0].terms[lane][term_number(name)]
            rarity = math.exp(answer[0].score / weight)
            frequency = round((allowed.chunks + 1) / rarity - 0.5)
            frequency = min(max(frequency, 1), allowed.chunks)
        allowed.rows.frequencies[term] = frequency


def hits(
    ask: LaneAsk,
    rows: Sequence[Point],
    allowed: Allowed,
    *,
    exact: bool,
) -> list[Hit]:
    """The rows with the server's scores or, in exact mode, those of the embedded engine."""
    if not exact or not rows:
        return [Hit(row.key, row.score) for row in rows]
    if ask.vector is not None:
        full = np.array([row.meaning for row in rows], np.float32)
        places = np.arange(len(rows))
        scores = score(full, places, ask.vector).tolist()
        return [Hit(row.key, own) for row, own in zip(rows, scores, strict=True)]
    # Sum weights times rarity, term by term in the given order; leave out rows without any term.
    factors = []
    for term in ask.terms:
        frequency = allowed.rows.frequencies[ask.lane, term]
        rarity = bm25f.rarity(allowed.chunks, frequency)
        factor = rarity * ask.weights.get(term, 1.0)
        factors.append((term_number(term), factor))
    found = []
    for row in rows:
        weights = row.terms[ask.lane]
        total = 0.0
        for number, factor in factors:
            if number in weights:
                total += float(np.float32(weights[number])) * factor
        if total:
            found.append(Hit(row.key, total))
    return found
