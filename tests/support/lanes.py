"""Ask one lane of a snapshot."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tamis.index.protocol import EVENLY, Allowed, Hit, LaneAsk, Snapshot
from tamis.model import Lane


def by_meaning(
    snapshot: Snapshot, query: NDArray[np.float32], allowed: Allowed, depth: int
) -> Sequence[Hit]:
    return snapshot.lanes([LaneAsk("meaning", query)], allowed, depth)["meaning"]


def by_terms(
    snapshot: Snapshot,
    lane: Lane,
    terms: Sequence[str],
    allowed: Allowed,
    depth: int,
    weights: Mapping[str, float] = EVENLY,
) -> Sequence[Hit]:
    ask = LaneAsk(lane, None, tuple(terms), weights)
    return snapshot.lanes([ask], allowed, depth)[lane]
