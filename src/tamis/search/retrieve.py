"""Retrieval: each lane's ranking over the allowed rows, the lanes side by side, then the links lane."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tamis.index.protocol import EVENLY, Allowed, Hit, LaneAsk, Snapshot
from tamis.model import Candidate, Lane, Passage
from tamis.query.filters import folded
from tamis.search.fuse import RANKS_ALONE, Ranking, Sources
from tamis.search.links import SEEDS, Neighbour, neighbours
from tamis.text import identifiers
from tamis.text.words import words

_NO_SLUG: Final = re.compile(r"[^\w\- ]")


@dataclass(frozen=True, slots=True)
class Retrieved:
    rankings: Mapping[Lane, Ranking]
    exhausted: bool  # no lane has more to give
    sources: Sources = RANKS_ALONE  # what each lane's word is worth for this question
    reached: tuple["Reached", ...] = ()  # what the links lane came to


@dataclass(frozen=True, slots=True)
class Reached:
    """A document that links led to, and the passage of it that is meant."""

    neighbour: Neighbour
    passage: Passage


def retrieve(
    snapshot: Snapshot,
    text: str,
    vector: NDArray[np.float32] | None,
    lanes: Sequence[Lane],
    allowed: Allowed,
    depth: int,
    further: Mapping[str, float] = EVENLY,
) -> Retrieved:
    """Ask the lanes for their `depth` best. Order is by score, then path, then position.

    `further` are terms for the words lane besides the text's own, with what each counts.
    """
    asks: list[LaneAsk] = []
    if "meaning" in lanes and vector is not None:
        asks.append(LaneAsk("meaning", vector))
    if "words" in lanes:
        terms = {**further, **_counted(text)}
        asks.append(LaneAsk("words", None, tuple(terms), terms))
    if "code" in lanes:
        asks.append(LaneAsk("code", None, tuple(identifiers.asked(text))))
    hits = snapshot.lanes(asks, allowed, depth)
    passages = snapshot.passages(
        sorted({hit.key for found in hits.values() for hit in found})
    )
    rankings = {lane: ranked(found, passages, depth) for lane, found in hits.items()}
    return Retrieved(
        rankings, all(len(ranking) < depth for ranking in rankings.values())
    )


def _counted(text: str) -> dict[str, float]:
    """The words of a question; one that it says again counts more, and never twice (BM25's k3 = 1)."""
    return {
        term: 2.0 * count / (1 + count) for term, count in Counter(words(text)).items()
    }


def linked(
    snapshot: Snapshot,
    fused: Sequence[Candidate],
    text: str,
    vector: NDArray[np.float32] | None,
    hops: int,
    allowed: Allowed,
) -> list[Reached]:
    """The links lane: what the best candidates lead to, best first, one passage for each document."""
    look, count = (
        partial(snapshot.links, allowed=allowed),
        partial(snapshot.degrees, allowed=allowed),
    )
    reached = neighbours(_seeds(fused), hops, look, count)
    if not reached:
        return []
    best = {candidate.passage.path: candidate.passage for candidate in reversed(fused)}
    new = [each for each in reached if each.path not in best]
    chosen = _best_passages(snapshot, new, text, vector, allowed)
    passages = snapshot.passages(sorted(chosen.values()))
    best |= {path: passages[key] for path, key in chosen.items()}
    return [Reached(each, best[each.path]) for each in reached]


def _seeds(fused: Sequence[Candidate]) -> dict[str, float]:
    """The best documents. Fused scores are nearly level, and only the first few can vouch for others."""
    best = list(dict.fromkeys(candidate.passage.path for candidate in fused))[:SEEDS]
    return {path: 1 / place for place, path in enumerate(best, start=1)}


def _best_passages(
    snapshot: Snapshot,
    reached: Sequence[Neighbour],
    text: str,
    vector: NDArray[np.float32] | None,
    allowed: Allowed,
) -> dict[str, int]:
    """Of each document the passage that a link names, else the nearest to the question, else the first."""
    if not reached:
        return {}
    paths = [each.path for each in reached]
    keys = snapshot.keys(paths, allowed)
    inside = snapshot.within(paths, allowed)
    if vector is not None:
        ask = LaneAsk("meaning", vector)
    else:
        terms = _counted(text)
        ask = LaneAsk("words", None, tuple(terms), terms)
    hits = snapshot.lanes([ask], inside, inside.chunks)[ask.lane]
    score = {hit.key: hit.score for hit in hits}
    best = {
        path: max(own, key=lambda key: score.get(key, 0.0))
        for path, own in keys.items()
    }
    return best | _named_passages(snapshot, reached, keys)


def _named_passages(
    snapshot: Snapshot, reached: Sequence[Neighbour], keys: Mapping[str, Sequence[int]]
) -> dict[str, int]:
    """The passages under the headings that links point at."""
    led = (each.edge for each in reached if each.path == each.edge.target)
    anchors = {edge.target: folded(edge.anchor.rpartition("#")[2]) for edge in led}
    wanted = {path: anchor for path, anchor in anchors.items() if anchor}
    passages = snapshot.passages([key for path in wanted for key in keys[path]])
    found: dict[str, int] = {}
    for path, anchor in wanted.items():
        under = [key for key in keys[path] if anchor in _headings(passages[key])]
        if under:
            found[path] = under[0]
    return found


def _headings(passage: Passage) -> list[str]:
    """The headings above a passage, each as it is written and as a web address has it."""
    names = [folded(name) for name in passage.header_path.split(" > ")]
    return [*names, *(_NO_SLUG.sub("", name).replace(" ", "-") for name in names)]


def ranked(hits: Sequence[Hit], passages: Mapping[int, Passage], depth: int) -> Ranking:
    found = [(passages[hit.key], hit.score) for hit in hits]
    return sorted(found, key=lambda item: (-item[1], item[0].position))[:depth]
