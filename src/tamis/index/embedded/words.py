"""BM25F for the words lane and the code lane; a score does not depend on passages that a filter excludes.

The textbook formula ties a score to the corpus in three places. Average field lengths become
constants; with them a posting's weight is fixed when it is written,

    w = sum over fields of  boost · tf / (1 - b + b · length / usual length)
    posting = w · (k1 + 1) / (w + k1)

and a search multiplies it by ln(1 + (N - n + 0.5) / (n + 0.5)), where N counts the allowed rows
and n the allowed rows with the term. So filtering equals never having indexed, exactly.

Terms are sorted in one block of bytes; the postings of a term are a run of ascending rows with their
weights.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.index.embedded.arrays import Array, Arrays
from tamis.text.words import TermNumbers

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]
Mask = NDArray[np.bool_]  # of rows; None instead of a mask allows all


def best(
    rows: Rows,
    scores: Scores,
    depth: int,
) -> tuple[Rows, Scores]:
    """Return the `depth` best of ascending rows.

    Rows of a segment are in the order of path and position, so of equal scores at the edge the
    earlier rows stay: the rule for ties, without comparing paths.
    """
    if len(rows) <= depth:
        return rows, scores
    place = len(scores) - depth
    edge = np.partition(scores, place)[place]
    chosen = scores > edge
    level = np.flatnonzero(scores == edge)
    chosen[level[: depth - int(chosen.sum())]] = True
    return rows[chosen], scores[chosen]


def masked(rows: NDArray[Any], mask: Mask | None) -> NDArray[Any]:
    if mask is not None:
        rows = rows[mask[rows]]
    return rows


def stored(term: str) -> bytes:
    """Encode a term as it is stored; text of files may hold single surrogates."""
    return term.encode("utf-8", "surrogatepass")


# k1 and b as usual for pages: b = 0.75 beat 0.4 on nearly all long-document sets.
K1 = 1.5
B = 0.75
# The usual number of terms in each field: rounded means over eight public Markdown sets. Keywords,
# categories and the code lane are guesses. They only set where "long" begins; being constants matters.
WORD_FIELDS = {
    "title": 3.0,
    "headers": 6.0,
    "keywords": 6.0,
    "description": 12.0,
    "tags": 2.0,
    "aliases": 4.0,
    "author": 3.0,
    "category": 1.0,
    "body": 80.0,
}
CODE_FIELDS = {
    "symbols": 4.0,
    "path": 12.0,
    "code": 150.0,
}


class Postings:
    """Collects the terms of rows, and makes a segment's arrays of a lane from them."""

    def __init__(
        self,
        usual_lengths: Mapping[str, float],
        boosts: Mapping[str, float],
        numbers: TermNumbers,
    ) -> None:
        self.fields = {name: at for at, name in enumerate(usual_lengths)}
        self.usual = np.array(list(usual_lengths.values()))
        self.boosts = np.array([boosts[name] for name in usual_lengths])
        self.numbers = numbers
        self.terms: list[int] = []  # term numbers, run after run
        self.runs: list[tuple[int, int, int]] = []  # row, field, length

    def read(self, field: str, text: str) -> tuple[int, list[int]]:
        """Read the terms of a field, to be added to any number of rows."""
        return self.fields[field], self.numbers.of(text)

    def add(
        self,
        row: int,
        field: int,
        terms: Sequence[int],
    ) -> None:
        if terms:
            self.terms += terms
            self.runs.append((row, field, len(terms)))

    def arrays(self) -> Arrays:
        """Fold the fields of each term and row into one weight; sort by term, then row."""
        names = [stored(name) for name in self.numbers.names]
        order = sorted(range(len(names)), key=names.__getitem__)
        place = np.empty(len(names), np.int64)
        place[order] = np.arange(len(names))
        terms = place[np.array(self.terms, np.int64)]

        runs = np.array(self.runs, np.int64).reshape(-1, 3)
        row, field, length = runs.T
        by_length = 1.0 - B + B * length / self.usual[field]
        size = int(row.max(initial=0)) + 1
        once = np.zeros((size, len(self.fields)))  # the weight of one occurrence
        once[row, field] = self.boosts[field] / by_length

        rows = np.repeat(row, length)
        occurrences = (terms * size + rows) * len(self.fields)
        occurrences += np.repeat(field, length)
        keys, counts = np.unique(occurrences, return_counts=True)
        pairs, field = np.divmod(keys, len(self.fields))
        weights = counts * once[pairs % size, field]
        starts = np.flatnonzero(np.diff(pairs, prepend=-1))
        folded = np.empty(0)
        if len(starts):
            folded = np.add.reduceat(weights, starts)
        term, row = np.divmod(pairs[starts], size)
        kept = folded > 0  # a field whose boost is 0 leaves no posting
        folded = folded[kept]
        weight = folded * (K1 + 1.0) / (folded + K1)
        ordered = [names[at] for at in order]
        return pack(ordered, term[kept], row[kept], weight)


def pack(
    names: Sequence[bytes],
    term: Array,
    row: Array,
    weight: Array,
) -> dict[str, Array]:
    """Make word arrays from sorted names and postings sorted by (term, row)."""
    lengths = [len(name) for name in names]
    ends = np.cumsum(lengths, dtype=np.int64)
    counts = np.empty(0, np.int64)
    if len(names):
        counts = np.bincount(term, minlength=len(names))
    return {
        "names": np.frombuffer(b"".join(names), np.uint8),
        "name_ends": ends,
        "ends": np.cumsum(counts, dtype=np.int64),
        "rows": row.astype(np.int32),
        "weights": weight.astype(np.float32),
    }


def names_of(arrays: Arrays) -> list[bytes]:
    """Return all terms, in order."""
    block = arrays["names"].tobytes()
    bounds = [0, *arrays["name_ends"].tolist()]
    return [block[start:end] for start, end in pairwise(bounds)]


def name_at(arrays: Arrays, at: int) -> bytes:
    """Return the term at a place among the sorted ones."""
    start, end = _run(arrays["name_ends"], at)
    name: bytes = arrays["names"][start:end].tobytes()
    return name


def _run(ends: Array, at: int) -> tuple[int, int]:
    """Return the bounds of a run, from the ends of all runs."""
    start = 0
    if at:
        start = int(ends[at - 1])
    return start, int(ends[at])


def merge(parts: Sequence[tuple[Arrays, Array]]) -> Arrays:
    """Merge the word arrays of segments, each with the new numbers of its rows (-1: dropped)."""
    names: set[bytes] = set()
    owned = []  # the terms of each part, and for each posting its term's place there
    rows = []
    weights = []
    for arrays, new_rows in parts:
        moved = new_rows.astype(np.int32)[arrays["rows"]]
        kept = np.flatnonzero(moved >= 0)
        places = np.searchsorted(arrays["ends"], kept, side="right")
        used, within = np.unique(places, return_inverse=True)
        # Only the names in use: a few documents may be moved out of a large segment.
        block = arrays["names"].tobytes()
        bounds = np.concatenate(([0], arrays["name_ends"]))
        starts = bounds[used].tolist()
        ends = bounds[used + 1].tolist()
        runs = zip(starts, ends, strict=True)
        own = [block[start:end] for start, end in runs]
        names.update(own)
        owned.append((own, within.astype(np.int32)))
        rows.append(moved[kept])
        weights.append(arrays["weights"][kept])
    ordered = sorted(names)
    number = {name: at for at, name in enumerate(ordered)}
    terms = []
    for own, place in owned:
        numbers = np.array([number[name] for name in own], np.int32)
        terms.append(numbers[place])
    term = np.concatenate(terms)
    row = np.concatenate(rows)
    weight = np.concatenate(weights)
    order = np.lexsort((row, term))
    return pack(ordered, term[order], row[order], weight[order])


def postings(
    arrays: Arrays,
    term: bytes,
    mask: Mask | None,
) -> tuple[Array, Array]:
    """Return the allowed rows that have the term, with their weights."""
    size = len(arrays["name_ends"])
    at = bisect_left(range(size), term, key=partial(name_at, arrays))
    if at == size or name_at(arrays, at) != term:
        return np.empty(0, np.int32), np.empty(0, np.float32)
    start, end = _run(arrays["ends"], at)
    rows = arrays["rows"][start:end]
    weights = arrays["weights"][start:end]
    if mask is None:
        return rows, weights
    kept = mask[rows]
    return rows[kept], weights[kept]


def rarity(rows: int, with_term: int) -> float:
    """Compute the inverse document frequency, over the allowed rows."""
    odds = (rows - with_term + 0.5) / (with_term + 0.5)
    return float(np.log1p(odds))


def coverage(has: NDArray[np.bool_], rarities: Sequence[float]) -> list[float]:
    """Compute the share of the rarities whose terms a row has, for each row (terms down, rows across)."""
    total = sum(rarities)
    if not total:
        return [0.0] * has.shape[1]
    shares = []
    for column in has.T:
        own = np.compress(column, rarities).tolist()
        shares.append(sum(own) / total)
    return shares


def rank(
    size: int,
    found: Sequence[tuple[Array, Array]],
    factors: Sequence[float],
    depth: int,
    late_mask: Mask | None,
) -> tuple[Rows, Scores]:
    """Find the best rows of one segment: postings times factors, summed term by term in the given order."""
    scores = np.zeros(size)
    for (rows, weights), factor in zip(found, factors, strict=True):
        scores[rows] += weights * np.float64(factor)
    hit = masked(np.flatnonzero(scores), late_mask)
    return best(hit, scores[hit], depth)
