"""BM25F whose scores do not depend on what a filter keeps out: the words lane and the code lane.

The textbook formula ties a score to the corpus in three places. Average field lengths become
constants; with them a posting's weight is fixed when it is written,

    w = sum over fields of  boost · tf / (1 - b + b · length / usual length)
    posting = w · (k1 + 1) / (w + k1)

and a search multiplies it by ln(1 + (N - n + 0.5) / (n + 0.5)), where N counts the allowed rows
and n the allowed rows with the term. So filtering equals never having indexed, exactly.

Terms lie sorted in one block of bytes; a term's postings are a run of ascending rows with their
weights.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tamis.text.words import TermNumbers

Rows = NDArray[np.int64]
Scores = NDArray[np.float64]


def best(rows: Rows, scores: Scores, depth: int) -> tuple[Rows, Scores]:
    """The `depth` best rows, which ascend.

    Rows of a segment are in the order of path and position, so of equal scores at the edge the
    earlier rows stay: the tie rule, without a look at any path.
    """
    if len(rows) <= depth:
        return rows, scores
    edge = np.partition(scores, len(scores) - depth)[len(scores) - depth]
    above = scores > edge
    level = np.flatnonzero(scores == edge)[: depth - int(above.sum())]
    above[level] = True
    return rows[above], scores[above]


def masked(rows: NDArray[Any], mask: NDArray[np.bool_] | None) -> NDArray[Any]:
    if mask is not None:
        rows = rows[mask[rows]]
    return rows


def stored(term: str) -> bytes:
    """A term as it is stored; text of files may hold single surrogates."""
    return term.encode("utf-8", "surrogatepass")


Array = NDArray[Any]

# k1 and b as usual for pages: b = 0.75 beat 0.4 on nearly all long-document sets.
K1: Final = 1.5
B: Final = 0.75
# The usual number of terms in each field: rounded means over eight public Markdown sets. Keywords,
# categories and the code lane are guesses. They only set where "long" begins; being constants matters.
WORD_FIELDS: Final = {
    "title": 3.0, "headers": 6.0, "keywords": 6.0, "description": 12.0, "tags": 2.0, "aliases": 4.0,
    "author": 3.0, "category": 1.0, "body": 80.0,
}  # fmt: skip
CODE_FIELDS: Final = {"symbols": 4.0, "path": 12.0, "code": 150.0}


class Postings:
    """Collects the terms of rows and makes a segment's arrays of a lane of them."""

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
        """A field's terms, to be added to any number of rows."""
        return self.fields[field], self.numbers.of(text)

    def add(self, row: int, field: int, terms: Sequence[int]) -> None:
        if terms:
            self.terms += terms
            self.runs.append((row, field, len(terms)))

    def arrays(self) -> dict[str, Array]:
        names = [stored(name) for name in self.numbers.names]
        order = sorted(range(len(names)), key=names.__getitem__)
        place = np.empty(len(names), np.int64)
        place[order] = np.arange(len(names))
        term, row, weight = self._weigh(place)
        return pack([names[number] for number in order], term, row, weight)

    def _weigh(self, place: NDArray[np.int64]) -> tuple[Array, Array, Array]:
        """Fold the fields of each (term, row) into one weight; sorted by term, then row."""
        runs = np.array(self.runs, np.int64).reshape(-1, 3)
        lengths = runs[:, 2]
        terms = np.empty(0, np.int64)
        if self.terms:
            terms = place[np.array(self.terms, np.int64)]
        rows = np.repeat(runs[:, 0], lengths)
        fields = np.repeat(runs[:, 1], lengths)
        by_length = 1.0 - B + B * lengths / self.usual[runs[:, 1]]
        once = self.boosts[runs[:, 1]] / by_length
        span = int(runs[:, 0].max(initial=0)) + 1
        occurrences = (terms * span + rows) * len(self.fields) + fields
        keys, counts = np.unique(occurrences, return_counts=True)
        by_field = np.zeros((span, len(self.fields)))
        by_field[runs[:, 0], runs[:, 1]] = once
        pairs, field = np.divmod(keys, len(self.fields))
        weights = counts * by_field[pairs % span, field]
        starts = np.flatnonzero(np.diff(pairs, prepend=-1))
        folded = np.empty(0)
        if len(starts):
            folded = np.add.reduceat(weights, starts)
        term, row = np.divmod(pairs[starts], span)
        kept = folded > 0  # a field whose boost is 0 leaves no posting
        term, row, folded = term[kept], row[kept], folded[kept]
        return term, row, folded * (K1 + 1.0) / (folded + K1)


def pack(
    names: Sequence[bytes], term: Array, row: Array, weight: Array
) -> dict[str, Array]:
    """Word arrays from sorted names and postings sorted by (term, row)."""
    ends = np.cumsum([len(name) for name in names], dtype=np.int64)
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


def names_of(arrays: dict[str, Array]) -> list[bytes]:
    block = arrays["names"].tobytes()
    ends = arrays["name_ends"].tolist()
    return [block[start:end] for start, end in pairwise([0, *ends])]


def name_at(arrays: dict[str, Array], at: int) -> bytes:
    """The term at a place among the sorted ones."""
    ends = arrays["name_ends"]
    start = int(ends[at - 1]) if at else 0
    name: bytes = arrays["names"][start : int(ends[at])].tobytes()
    return name


def merge(parts: Sequence[tuple[dict[str, Array], Array]]) -> dict[str, Array]:
    """Merge the word arrays of segments, each with the new numbers of its rows (-1: dropped)."""
    taken = [_taken(arrays, renumber) for arrays, renumber in parts]
    names = sorted({name for own, *_ in taken for name in own})
    number = {name: at for at, name in enumerate(names)}
    terms = []
    for own, places, _, _ in taken:
        numbers = np.array([number[name] for name in own], np.int32)
        terms.append(numbers[places])
    term = np.concatenate(terms)
    row = np.concatenate([rows for _, _, rows, _ in taken])
    weight = np.concatenate([weights for *_, weights in taken])
    order = np.lexsort((row, term))
    return pack(names, term[order], row[order], weight[order])


def _taken(
    arrays: dict[str, Array], renumber: Array
) -> tuple[list[bytes], Array, Array, Array]:
    """The part of a segment that a merge keeps: names, and places of names, new rows and weights."""
    new = renumber.astype(np.int32)[arrays["rows"]]
    kept = np.flatnonzero(new >= 0)
    places = np.searchsorted(arrays["ends"], kept, side="right")
    used, term = np.unique(places, return_inverse=True)
    block, ends = arrays["names"].tobytes(), arrays["name_ends"]
    starts = ends
    if len(ends):
        starts = np.where(used > 0, ends[used - 1], 0)
    bounds = zip(starts.tolist(), ends[used].tolist(), strict=True)
    names = [block[start:end] for start, end in bounds]
    return names, term.astype(np.int32), new[kept], arrays["weights"][kept]


class WordIndex:
    """The word arrays of one segment, ready to be asked."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.arrays = arrays

    def postings(
        self, term: bytes, mask: NDArray[np.bool_] | None
    ) -> tuple[Array, Array]:
        """The allowed rows that have the term, with their weights."""
        size = len(self.arrays["name_ends"])
        at = bisect_left(range(size), term, key=partial(name_at, self.arrays))
        if at == size or name_at(self.arrays, at) != term:
            return np.empty(0, np.int32), np.empty(0, np.float32)
        ends = self.arrays["ends"]
        start = int(ends[at - 1]) if at else 0
        run = slice(start, int(ends[at]))
        rows, weights = self.arrays["rows"][run], self.arrays["weights"][run]
        if mask is None:
            return rows, weights
        kept = mask[rows]
        return rows[kept], weights[kept]


def rarity(rows: int, with_term: int) -> float:
    """The inverse document frequency, over the allowed rows."""
    return float(np.log1p((rows - with_term + 0.5) / (with_term + 0.5)))


def coverage(has: NDArray[np.bool_], rarities: Sequence[float]) -> list[float]:
    """The share of the rarities whose terms a row has, for each row (terms down, rows across)."""
    total = sum(rarities)
    if not total:
        return [0.0] * has.shape[1]
    return [sum(np.compress(column, rarities).tolist()) / total for column in has.T]


def rank(
    size: int,
    found: Sequence[tuple[Array, Array]],
    factors: Sequence[float],
    depth: int,
    late_mask: NDArray[np.bool_] | None = None,
) -> tuple[Rows, Scores]:
    """The best rows of one segment: postings times factors, summed term by term in the given order."""
    scores = np.zeros(size)
    for (rows, weights), factor in zip(found, factors, strict=True):
        scores[rows] += weights * np.float64(factor)
    hit = masked(np.flatnonzero(scores), late_mask)
    return best(hit, scores[hit], depth)
