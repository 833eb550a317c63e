"""The links lane: from the documents that the other lanes found to those that are linked with them.

A document passes half of what it got on to its neighbours, less with every hop, by the kind of the
link, and shared out among all that a neighbour is linked with, so that a page that links to everything
(or that everything links to) gains little. Both ends of a link count: what refers to a hit is about it,
too. What a hit got itself it has from the other lanes; here it counts for what others pass to it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from math import sqrt
from typing import Final

from tamis.index.protocol import Edge
from tamis.model import LinkType

Look = Callable[[Sequence[str]], Sequence[Edge]]
Steps = dict[
    tuple[str, str], tuple[float, Edge]
]  # from one document to another: how strong, over what
Count = Callable[[Sequence[str]], Mapping[str, int]]

SEEDS: Final = 10  # documents to start from: hits beyond them are too uncertain to vouch for others
_PER_DOCUMENT: Final = 20  # neighbours that one document passes on to (C31: bounded)
_LOOKED_AT: Final = 60  # neighbours of one document whose own links are counted
_MOST: Final = 50
_DECAY: Final = 0.5  # for each hop
_BACKWARD: Final = 0.8  # a link to a hit says a little less than a link from one
# What an author states about two documents counts most; an import is often only plumbing.
_WEIGHT: Final[Mapping[LinkType, float]] = {
    "related": 1.2, "embed": 1.1, "wikilink": 1.0, "markdown": 0.9, "import": 0.7,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A document that the lane reached, and the link that led there."""

    path: str
    score: float
    hops: int
    edge: Edge


def neighbours(
    seeds: Mapping[str, float], hops: int, look: Look, count: Count
) -> list[Neighbour]:
    """What is linked with the seeds (they themselves included), best first, ties by path.

    `look` tells the edges that touch some documents, `count` with how many each is linked.
    """
    found: dict[str, Neighbour] = {}
    frontier, reached = dict(seeds), set(seeds)
    for hop in range(1, hops + 1):
        gains = _gains(frontier, look, count)
        frontier = {
            path: gain for path, (gain, _) in gains.items() if path not in reached
        }
        reached |= frontier.keys()
        for path, (gain, edge) in gains.items():
            if (
                hop == 1 or path in frontier
            ):  # later, what comes back to where it came from says nothing
                found[path] = Neighbour(path, gain, hop, edge)
    return sorted(found.values(), key=lambda each: (-each.score, each.path))[:_MOST]


def _gains(
    frontier: Mapping[str, float], look: Look, count: Count
) -> dict[str, tuple[float, Edge]]:
    """What each neighbour of the frontier gets, and the strongest link that brings it."""
    steps = _nearest(_steps(frontier, look(sorted(frontier))))
    degree = count(sorted({path for _, path in steps}))
    passed: dict[str, list[tuple[float, str]]] = {}
    for (start, path), (weight, _) in steps.items():
        gain = frontier[start] * _DECAY * weight / sqrt(degree[path])
        passed.setdefault(start, []).append((-gain, path))
    gains: dict[str, tuple[float, Edge]] = {}
    best: dict[str, float] = {}
    for start in sorted(passed):
        for loss, path in sorted(passed[start])[:_PER_DOCUMENT]:
            total, edge = gains.get(path, (0.0, steps[start, path][1]))
            if -loss > best.get(path, 0.0):
                best[path], edge = -loss, steps[start, path][1]
            gains[path] = (total - loss, edge)
    return gains


def _nearest(steps: Steps) -> Steps:
    """The strongest of each document's: one that links to thousands is not asked about all of them."""
    by_start: dict[str, list[tuple[float, str]]] = {}
    for (start, path), (weight, _) in steps.items():
        by_start.setdefault(start, []).append((-weight, path))
    chosen = (
        (start, path)
        for start, own in by_start.items()
        for _, path in nsmallest(_LOOKED_AT, own)
    )
    return {key: steps[key] for key in chosen}


def _steps(frontier: Mapping[str, float], edges: Sequence[Edge]) -> Steps:
    """From each document of the frontier to each neighbour, over the best of the links between them."""
    steps: Steps = {}
    for edge in edges:
        forward = (edge.source, edge.target, _WEIGHT[edge.type])
        backward = (edge.target, edge.source, _WEIGHT[edge.type] * _BACKWARD)
        for start, path, weight in (forward, backward):
            if start in frontier and weight > steps.get((start, path), (0.0, edge))[0]:
                steps[start, path] = (weight, edge)
    return steps
