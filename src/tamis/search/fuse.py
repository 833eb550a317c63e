"""Fusion: the lanes' rankings become one list of candidates, by weighted reciprocal rank.

A lane's scores are on a scale of their own, so they are never added up. They say one thing more than the
ranks do, though: how far a hit is behind the lane's best. So a hit adds

    weight · trust · standing / (k + rank)

where trust is measured for each lane, beside the meaning lane (`Trust`), and standing is 1 for the lane's
best and falls with the score to a fifth at its fiftieth; behind that, ranks alone decide.

The trust in the words lane depends on the question, and two things tell: how far its tenth document is
behind its first (a word that few documents have says more than one that is everywhere), and where the
meaning lane has its first three. And a hit of the meaning lane counts more where a document begins: there
it says what it is about. docs/ranking.md has what each of these gains over ranks alone.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Self

from tamis.model import Candidate, Evidence, Lane, Passage
from tamis.weights import Weights

Ranking = Sequence[tuple[Passage, float]]  # best first
# The path of a document, and the number of a passage in it.
Position = tuple[str, int]

REACH = 50  # the rank at which the trust in a lane reaches its minimum
_LEAST = 0.2
_NEAR = 0.9  # a cosine that means nearly the same
# Scores that differ less than this are not pulled apart: cosines, and others as a share of the best.
_COSINES_APART = 0.1
_SHARES_APART = 0.1
# The usual gap and agreement (`trust_in_words`), and how much a difference from them counts.
_USUAL_GAP = 0.4
_PER_GAP = 1.6
_USUAL_AGREEMENT = 0.5
_PER_AGREEMENT = 0.8
_MOST_FOR_WORDS = 2.0


@dataclass(frozen=True, slots=True)
class Trust:
    """The trust in each lane for a question, besides its weight."""

    by_score: bool = False
    adaptive: bool = False  # the words and code lanes' trust depends on the question
    lanes: Mapping[Lane, float] = field(default_factory=dict)  # 1 unless named here
    near: float = 1.0  # factor for cosines that mean nearly the same
    inner: float = 1.0  # factor for the meaning lane after a document's beginning
    openings: frozenset[Position] = frozenset()  # where documents begin

    @classmethod
    def of(cls, weights: Weights) -> Self:
        return cls(
            weights.score_trust,
            weights.adaptive_trust,
            {
                "words": weights.keyword_trust,
                "code": weights.code_trust,
                "links": weights.graph_trust,
            },
            weights.similarity_trust,
            weights.inner_trust,
        )

    def of_hits(self, lane: Lane, scores: Sequence[float]) -> list[float]:
        """Return the trust in each hit of a lane, from their scores, best first."""
        trust = self.lanes.get(lane, 1.0)
        if lane == "links":
            # A link counts as far as the score that it passed on.
            return [trust * min(score, 1.0) for score in scores]
        near = self.near if lane == "meaning" else 1.0
        trusts = [trust] * len(scores)
        if self.by_score:
            trusts = [trust * each for each in standings(lane, scores)]
        for at, score in enumerate(scores):
            if score > _NEAR:
                trusts[at] *= near
        return trusts


RANKS_ALONE = Trust()


def fuse(
    rankings: Mapping[Lane, Ranking],
    weights: Mapping[Lane, float],
    k: int,
    trust: Trust = RANKS_ALONE,
    reach: int = REACH,
) -> list[Candidate]:
    """Merge the lanes' rankings, best first; ties go to the earlier path and position.

    Candidates within `reach` of any lane are scored by those ranks alone; the others by their best one.
    So asking the lanes for more appends candidates and never reorders them.

    `score` is the share of the highest score that the lanes could have given, so it does not depend on
    their number.
    """
    passages: dict[Position, Passage] = {}
    found: defaultdict[Position, list[tuple[float, Evidence]]] = defaultdict(list)
    for lane, ranking in rankings.items():
        scores = [score for _, score in ranking]
        trusts = trust.of_hits(lane, scores)
        for at, (passage, score) in enumerate(ranking):
            position = passage.position
            passages[position] = passage
            rank = at + 1
            trusted = trusts[at]
            # Code has no opening: a file begins with its imports.
            if lane == "meaning" and not passage.is_code:
                trusted *= 1.0 if position in trust.openings else trust.inner
            evidence = Evidence(lane, rank, score, trusted)
            added = weights[lane] * trusted / (k + rank)
            found[position].append((added, evidence))
    # The code lane comes on top: a name that is found elsewhere makes no passage less trustworthy.
    others: list[Lane] = [lane for lane in rankings if lane != "code"]
    counting = others or list(rankings)
    most = sum(weights[lane] * trust.lanes.get(lane, 1.0) for lane in counting)
    most /= k + 1
    fused = []
    for position, hits in found.items():
        counted = [hit for hit in hits if hit[1].rank <= reach]
        if not counted:
            counted = [max(hits, key=itemgetter(0))]
        raw = sum(added for added, _ in counted)
        share = raw / most if most else 0.0
        reasons = tuple(evidence for _, evidence in counted)
        fused.append(Candidate(passages[position], raw, share, reasons))
    return best_first(fused)


def best_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Sort candidates by score; ties go to the earlier path and position."""
    return sorted(candidates, key=lambda each: (-each.raw_score, each.passage.position))


def within(candidate: Candidate, reach: int) -> bool:
    """Return True if some lane has the candidate among its first `reach`."""
    return any(each.rank <= reach for each in candidate.evidence)


def trust_in_words(
    trust: Trust, rankings: Mapping[Lane, Ranking], reach: int = REACH
) -> Trust:
    """Adapt the trust in the words lane to the question, if both it and the meaning lane found something.

    The rankings are the lanes' first `reach`, or all that they have.
    """
    words = rankings.get("words")
    meaning = rankings.get("meaning")
    if not trust.adaptive or not words or not meaning:
        return trust
    gap = _gap(words, reach) - _USUAL_GAP
    agreement = _agreement(words, meaning) - _USUAL_AGREEMENT
    usual = trust.lanes.get("words", 1.0)
    adapted = usual * math.exp(_PER_GAP * gap + _PER_AGREEMENT * agreement)
    most = max(usual, _MOST_FOR_WORDS)
    lanes = {**trust.lanes, "words": min(adapted, most)}
    return replace(trust, lanes=lanes)


def _gap(ranking: Ranking, reach: int) -> float:
    """Return how far the tenth document is behind the first, as a share of that.

    Where a few long documents fill the ranking, its last passage takes the tenth's place.
    """
    best: dict[str, float] = {}
    for passage, score in ranking:
        best.setdefault(passage.path, score)
    first, *others = best.values()
    if not first:
        return 0.0
    if len(others) > 8:
        tenth = others[8]
    elif len(ranking) >= reach:
        tenth = ranking[-1][1]
    else:
        tenth = 0.0  # there are no more hits
    return (first - tenth) / first


def _agreement(words: Ranking, meaning: Ranking) -> float:
    """Return where the meaning lane has the words lane's first three: 1 for its best, 0 for its fiftieth."""
    best = meaning[0][1]
    spread = _spread("meaning", [score for _, score in meaning])
    standing = {}
    for passage, score in meaning:
        behind = (best - score) / spread
        standing[passage.position] = 1 - min(behind, 1.0)
    first = words[:3]
    shared = sum(standing.get(passage.position, 0.0) for passage, _ in first)
    return shared / len(first)


def standings(lane: Lane, scores: Sequence[float]) -> list[float]:
    """Return where each score is between the lane's best, at 1, and its fiftieth, at a fifth.

    A lane with fewer hits has shown all it has. Without common words a score is 0; the meaning lane has
    a score for every passage, so there the last one counts.
    """
    if not scores:
        return []
    best = scores[0]
    spread = _spread(lane, scores)
    if not spread:
        return [1.0] * len(scores)
    return [_LEAST ** min((best - score) / spread, 1.0) for score in scores]


def _spread(lane: Lane, scores: Sequence[float]) -> float:
    """Return the distance between the best score and the fiftieth."""
    best = scores[0]
    last = scores[-1] if lane == "meaning" else 0.0
    if len(scores) >= REACH:
        last = scores[REACH - 1]
    least = _COSINES_APART if lane == "meaning" else _SHARES_APART * best
    return max(best - last, least)
