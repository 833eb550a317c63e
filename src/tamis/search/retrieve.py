"""Retrieval: each lane's ranking over the allowed rows, the lanes side by side."""

import os
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

_THREADS: Final = 8  # lanes of several searches at once; they start when first needed


class _Pool:
    """Threads for lanes. Threads do not survive a fork, so a child gets a pool of its own."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.threads = ThreadPoolExecutor(_THREADS, "lane")


_pool: Final = _Pool()


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
    hits = _ask(asked)
    passages = snapshot.passages(sorted({hit.key for found in hits.values() for hit in found}))
    rankings = {lane: ranked(found, passages, depth) for lane, found in hits.items()}
    return Retrieved(rankings, all(len(ranking) < depth for ranking in rankings.values()))


def _ask(lanes: Mapping[Lane, Callable[[], Sequence[Hit]]]) -> dict[Lane, Sequence[Hit]]:
    """Ask all lanes at once: the last on this thread, the others beside it."""
    *beside, here = lanes or [None]
    pending = {lane: _pool.threads.submit(lanes[lane]) for lane in beside if lane}
    last = {here: lanes[here]()} if here else {}
    return {lane: future.result() for lane, future in pending.items()} | last


def ranked(hits: Sequence[Hit], passages: Mapping[int, Passage], depth: int) -> Ranking:
    found = [(passages[hit.key], hit.score) for hit in hits]
    return sorted(found, key=lambda item: (-item[1], item[0].position))[:depth]
