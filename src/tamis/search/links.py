"""The links lane: from the documents that the other lanes found to those that are linked with them.

A document passes half of its score on to its neighbours: less with every hop, by the kind of the link,
and shared among all that a neighbour is linked with, so that a page that links to everything (or that
everything links to) gains little. Both ends of a link count: what refers to a hit is about it, too. The
lane's score of a hit is only what others pass on to it; its own score it has from the other lanes.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from itertools import islice
from math import sqrt
from typing import TYPE_CHECKING

from tamis.index.protocol import Allowed, Edge, LaneAsk
from tamis.model import Candidate, LinkType, Passage
from tamis.query.filters import folded

if TYPE_CHECKING:
    from tamis.search.question import Inquiry

Look = Callable[[Sequence[str]], Sequence[Edge]]
Count = Callable[[Sequence[str]], Mapping[str, int]]
# From one document to another: how strong, over which link.
Steps = dict[tuple[str, str], tuple[float, Edge]]
# By start: the steps to other documents, each by its strength below zero.
ByStart = defaultdict[str, list[tuple[float, str]]]

_SEEDS = 10  # documents to start from: further hits are too uncertain
_PER_DOCUMENT = 20  # neighbours that one document passes on to
_LOOKED_AT = 60  # neighbours of one document whose own links are counted
_MOST = 50
_DECAY = 0.5  # for each hop
_BACKWARD = 0.8  # a link to a hit says a little less than a link from one
# What an author states about two documents counts most; an import is often only plumbing.
_WEIGHT: Mapping[LinkType, float] = {
    "related": 1.2,
    "embed": 1.1,
    "wikilink": 1.0,
    "markdown": 0.9,
    "import": 0.7,
}
_NO_SLUG = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A document that the lane reached, and the link that led there."""

    path: str
    score: float
    hops: int
    edge: Edge


@dataclass(frozen=True, slots=True)
class Reached:
    """A neighbour with the passage of it that is meant."""

    neighbour: Neighbour
    passage: Passage


def linked(
    inquiry: "Inquiry", fused: Sequence[Candidate], allowed: Allowed
) -> list[Reached]:
    """Return what the best candidates lead to, best first, one passage for each document."""
    snapshot = inquiry.snapshot
    best: dict[str, Passage] = {}
    for candidate in fused:
        best.setdefault(candidate.passage.path, candidate.passage)
    # Fused scores are nearly level, so ranks decide what the first few pass on.
    seeds = {}
    for rank, path in enumerate(islice(best, _SEEDS), start=1):
        seeds[path] = 1 / rank
    look = partial(snapshot.links, allowed=allowed)
    count = partial(snapshot.degrees, allowed=allowed)
    reached = neighbours(seeds, inquiry.question.max_hops, look, count)
    new = [each for each in reached if each.path not in best]
    if new:
        best |= _best_passages(inquiry, new, allowed)
    return [Reached(each, best[each.path]) for each in reached]


def _best_passages(
    inquiry: "Inquiry", reached: Sequence[Neighbour], allowed: Allowed
) -> dict[str, Passage]:
    """Choose from each document the passage that a link names, else the nearest to the question."""
    snapshot = inquiry.snapshot
    paths = [each.path for each in reached]
    keys = snapshot.keys(paths, allowed)
    inside = snapshot.within(paths, allowed)
    if inquiry.vector is not None:
        ask = LaneAsk("meaning", inquiry.vector)
    else:
        terms = inquiry.question.terms
        ask = LaneAsk("words", None, tuple(terms), terms)
    hits = snapshot.lanes([ask], inside, inside.chunks)
    scores = {hit.key: hit.score for hit in hits[ask.lane]}
    chosen = {}
    for path, own in keys.items():
        chosen[path] = max(own, key=lambda key: scores.get(key, 0.0))
    wanted = {}
    looked_at: list[int] = []
    for each in reached:
        edge = each.edge
        anchor = folded(edge.anchor.rpartition("#")[2])
        if anchor and each.path == edge.target:
            wanted[each.path] = anchor
            looked_at += keys[each.path]
    passages = snapshot.passages(looked_at)
    for path, anchor in wanted.items():
        under = [key for key in keys[path] if anchor in _headings(passages[key])]
        if under:
            chosen[path] = under[0]
    passages = snapshot.passages(sorted(chosen.values()))
    return {path: passages[key] for path, key in chosen.items()}


def _headings(passage: Passage) -> list[str]:
    """Return the headings above a passage, as written and as a web address has them."""
    found = []
    for heading in passage.header_path.split(" > "):
        name = folded(heading)
        slug = _NO_SLUG.sub("", name).replace(" ", "-")
        found += [name, slug]
    return found


def neighbours(
    seeds: Mapping[str, float], hops: int, look: Look, count: Count
) -> list[Neighbour]:
    """Return what is linked with the seeds (they themselves included), best first, ties by path.

    `look` gives the edges that touch documents, `count` the number that each is linked with.
    """
    found: dict[str, Neighbour] = {}
    frontier = dict(seeds)
    reached = set(seeds)
    for hop in range(1, hops + 1):
        gains = _gains(frontier, look, count)
        frontier = {}
        for path, (gain, edge) in gains.items():
            if path not in reached:
                frontier[path] = gain
            # After the first hop, a way back to where it came from says nothing.
            if hop == 1 or path not in reached:
                found[path] = Neighbour(path, gain, hop, edge)
        reached |= frontier.keys()
    ranked = sorted(found.values(), key=lambda each: (-each.score, each.path))
    return ranked[:_MOST]


def _gains(
    frontier: Mapping[str, float], look: Look, count: Count
) -> dict[str, tuple[float, Edge]]:
    """Return what each neighbour of the frontier gets, and the strongest link that brings it."""
    steps = _steps(frontier, look(sorted(frontier)))
    ends = {path for _, path in steps}
    degree = count(sorted(ends))
    passed: ByStart = defaultdict(list)
    for (start, path), (weight, _) in steps.items():
        gain = frontier[start] * _DECAY * weight / sqrt(degree[path])
        passed[start].append((-gain, path))
    gains: dict[str, tuple[float, Edge]] = {}
    best: dict[str, float] = {}
    for start in sorted(passed):
        for loss, path in nsmallest(_PER_DOCUMENT, passed[start]):
            _, link = steps[start, path]
            total, edge = gains.get(path, (0.0, link))
            if -loss > best.get(path, 0.0):
                best[path] = -loss
                edge = link
            gains[path] = (total - loss, edge)
    return gains


def _steps(frontier: Mapping[str, float], edges: Sequence[Edge]) -> Steps:
    """Return the steps from the frontier, over the best link between two documents.

    A document that links to thousands takes its strongest only: the links of each are counted.
    """
    steps: Steps = {}
    for edge in edges:
        forward = (edge.source, edge.target, _WEIGHT[edge.type])
        backward = (edge.target, edge.source, _WEIGHT[edge.type] * _BACKWARD)
        for start, path, weight in (forward, backward):
            known = steps.get((start, path), (0.0, edge))
            if start in frontier and weight > known[0]:
                steps[start, path] = (weight, edge)
    by_start: ByStart = defaultdict(list)
    for (start, path), (weight, _) in steps.items():
        by_start[start].append((-weight, path))
    nearest: Steps = {}
    for start, own in by_start.items():
        for _, path in nsmallest(_LOOKED_AT, own):
            nearest[start, path] = steps[start, path]
    return nearest
