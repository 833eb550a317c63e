"""The lanes: one request for all of them, and what it found scored as the embedded engine would.

The server ranks by the nearest vectors and by BM25F whose rarity it counts over the allowed rows. It computes
in single precision, so a little more than the depth is asked for, until the edge is clear of ties. In exact
mode the hits' own vectors and weights come along, and scores are worked out from them in double precision.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tamis.index.embedded import words as bm25f
from tamis.index.embedded.vectors import score
from tamis.index.links import LinkCache
from tamis.index.protocol import Allowed, Hit, LaneAsk
from tamis.index.qdrant.points import (
    MEANING,
    Ask,
    Native,
    Points,
    Row,
    Sparse,
    key_of,
    term_number,
)
from tamis.index.qdrant.records import PASSAGE
from tamis.model import Lane

_BEYOND: Final = 16  # asked for besides the depth: the edge is seldom clear without
_SLACK: Final = (
    2e-5  # two scores nearer than this share of them may be in the wrong order
)


@dataclass(frozen=True, slots=True)
class Rows:
    """The allowed rows as a filter of the server's, and what was worked out about them."""

    native: Native
    frequencies: dict[tuple[str, str], int] = field(
        default_factory=dict
    )  # by lane and term
    chunks: dict[str, tuple[tuple[int, int], ...]] = field(
        default_factory=dict
    )  # ordinals and keys by path
    links: LinkCache = field(default_factory=LinkCache)


def search(
    points: Points,
    asks: Sequence[LaneAsk],
    allowed: Allowed,
    depth: int,
    *,
    exact: bool,
) -> dict[Lane, list[Row]]:
    """What each lane finds: every row that can be among its `depth` best."""
    found: dict[Lane, list[Row]] = {ask.lane: [] for ask in asks}
    waiting = [
        ask
        for ask in asks
        if allowed.chunks and (ask.vector is not None or query_of(ask))
    ]
    new = list(uncounted(waiting, allowed.rows)) if exact else []
    limit = min(depth + _BEYOND, allowed.chunks)
    while waiting:
        counting = [counting_ask(allowed.rows, lane, term) for lane, term in new]
        searching = [_request(ask, allowed.rows, limit, exact=exact) for ask in waiting]
        answers = points.nearest([*searching, *counting])
        remember(allowed, new, answers[len(waiting) :])
        found |= {ask.lane: rows for ask, rows in zip(waiting, answers, strict=False)}
        new = []
        unclear = (
            ask for ask in waiting if not _is_clear(found[ask.lane], depth, limit)
        )
        waiting = list(unclear) if limit < allowed.chunks else []
        limit = min(4 * limit, allowed.chunks)
    return found


def _is_clear(rows: Sequence[Row], depth: int, limit: int) -> bool:
    """Whether whoever did not come cannot be among the best."""
    if len(rows) < limit:
        return True
    edge, last = rows[depth - 1].score, rows[-1].score
    return last < edge - _SLACK * max(1.0, abs(edge))


def _request(ask: LaneAsk, rows: Rows, limit: int, *, exact: bool) -> Ask:
    query = ask.vector if ask.vector is not None else query_of(ask)
    along = (ask.lane,) if exact else ()
    return Ask(ask.lane, query, rows.native, limit, rows.native, PASSAGE, along)


def query_of(ask: LaneAsk) -> Sparse:
    """The terms as a sparse vector; rarity is the server's to add."""
    query: dict[int, float] = {}
    for term in ask.terms:
        weight = ask.weights.get(term, 1.0)
        if weight:
            number = term_number(term)
            query[number] = query.get(number, 0.0) + weight
    return query


def uncounted(asks: Sequence[LaneAsk], rows: Rows) -> Iterator[tuple[str, str]]:
    """The terms of which it is not known how many rows have them."""
    for ask in asks:
        yield from (
            (ask.lane, term)
            for term in dict.fromkeys(ask.terms)
            if (ask.lane, term) not in rows.frequencies
        )


def counting_ask(rows: Rows, lane: str, term: str) -> Ask:
    """The best row of one term: by its weight and its score it tells how rare the term is."""
    return Ask(
        lane, {term_number(term): 1.0}, rows.native, 1, rows.native, vectors=(lane,)
    )


def remember(
    allowed: Allowed, terms: Sequence[tuple[str, str]], answers: Sequence[Sequence[Row]]
) -> None:
    for (lane, term), answer in zip(terms, answers, strict=True):
        allowed.rows.frequencies[lane, term] = _frequency(
            answer, lane, term, allowed.chunks
        )


def _frequency(answer: Sequence[Row], lane: str, term: str, chunks: int) -> int:
    """Solve score = weight · ln((N + 1) / (n + 0.5)) for n: how many of N rows have the term."""
    if not answer:
        return 0
    weight = answer[0].sparse(lane)[term_number(term)]
    having = (chunks + 1) / math.exp(answer[0].score / weight) - 0.5
    return min(max(round(having), 1), chunks)


def hits(
    ask: LaneAsk, rows: Sequence[Row], allowed: Allowed, *, exact: bool
) -> list[Hit]:
    """The rows with their scores: the server's, or, in exact mode, those of the embedded engine."""
    if not exact or not rows:
        return [Hit(key_of(row.id), row.score) for row in rows]
    scores = (
        _by_meaning(ask, rows) if ask.lane == MEANING else _by_terms(ask, rows, allowed)
    )
    return [
        Hit(key_of(row.id), own)
        for row, own in zip(rows, scores, strict=True)
        if own or ask.terms == ()
    ]


def _by_meaning(ask: LaneAsk, rows: Sequence[Row]) -> list[float]:
    if ask.vector is None:
        return []
    full = np.array([row.meaning for row in rows], np.float32)
    scores: list[float] = score(full, np.arange(len(rows)), ask.vector).tolist()
    return scores


def _by_terms(ask: LaneAsk, rows: Sequence[Row], allowed: Allowed) -> list[float]:
    """Weights times rarity, summed term by term in the given order."""
    known: Mapping[tuple[str, str], int] = allowed.rows.frequencies
    factors = [
        (
            term_number(term),
            bm25f.rarity(allowed.chunks, known[ask.lane, term])
            * ask.weights.get(term, 1.0),
        )
        for term in ask.terms
    ]
    scores: list[float] = []
    for row in rows:
        weights, total = row.sparse(ask.lane), 0.0
        for number, factor in factors:
            if number in weights:
                total += float(np.float32(weights[number])) * factor
        scores.append(total)
    return scores
