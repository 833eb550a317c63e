"""Retrieval: each lane's ranking over the allowed rows, the lanes side by side."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tamis.engine import Allowed, Hit, Snapshot
from tamis.model import Lane, Passage
from tamis.search.fuse import Ranking
from tamis.text import words

_lanes: Final = ThreadPoolExecutor(2, "lane")  # starts no thread before the first search


@dataclass(frozen=True, slots=True)
class Retrieved:
    rankings: Mapping[Lane, Ranking]
    exhausted: bool  # no lane has more to give


def retrieve(
    snapshot: Snapshot,
    text: str,
    vector: NDArray[np.float32] | None,
    lanes: Sequence[Lane],
    allowed: Allowed,
    depth: int,
) -> Retrieved:
    """Ask the lanes for their `depth` best. Order is by score, then path, then position."""
    terms = tuple(dict.fromkeys(words(text)))
    asked: dict[Lane, Callable[[], Sequence[Hit]]] = {}
    if "meaning" in lanes and vector is not None:
        query = vector
        asked["meaning"] = lambda: snapshot.meaning(query, allowed, depth)
    if "words" in lanes:
        asked["words"] = lambda: snapshot.words(terms, allowed, depth)
    pending = {lane: _lanes.submit(ask) for lane, ask in asked.items()}
    hits = {lane: future.result() for lane, future in pending.items()}
    passages = snapshot.passages(sorted({hit.key for found in hits.values() for hit in found}))
    rankings = {lane: ranked(found, passages, depth) for lane, found in hits.items()}
    return Retrieved(rankings, all(len(ranking) < depth for ranking in rankings.values()))


def ranked(hits: Sequence[Hit], passages: Mapping[int, Passage], depth: int) -> Ranking:
    found = [(passages[hit.key], hit.score) for hit in hits]
    return sorted(found, key=lambda item: (-item[1], item[0].position))[:depth]
