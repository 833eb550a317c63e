"""Fusion: several lanes' rankings become one list of candidates, by weighted reciprocal rank.

A lane's scores are on a scale of their own, so they are never added up. They say one thing more than
the ranks do, though: how far a hit stands behind the lane's best. So what a rank is worth,

    weight · worth · standing / (k + rank)

is scaled by what the lane's word is worth beside the others' (`Sources`, measured), and by the hit's
standing: 1 for the lane's best, falling with the score to a fifth at its fiftieth; behind that,
ranks alone decide.

How much the words lane is worth beside the meaning lane depends on the question, and two things tell:
how far its tenth document stands behind its first (a word that is in a few documents alone says more
than one that is everywhere), and whether the meaning lane thinks something of its first three. `balanced`
turns both into a factor. And what the meaning lane finds where a document begins counts more than what it
finds further down: there a document says what it is about. `docs/ranking.md` has what each of these gains
over ranks alone.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

from tamis.model import Candidate, Evidence, Lane, Passage
from tamis.weights import Weights

Ranking = Sequence[tuple[Passage, float]]  # best first
Position = tuple[
    str, int
]  # of a passage: the document's path, and which of its passages

REACH: Final = 50  # the hit at which a lane's standing has come down to its least
_LEAST: Final = 0.2
_NEAR: Final = 0.9  # a cosine that means nearly the same (C28)
# Scores that differ less than this have little between them: of cosines, and of the others as a share.
_COSINES_APART: Final = 0.1
_SHARES_APART: Final = 0.1
# What tells how much the words lane is worth: how it is usually, and how much a difference from that counts.
_USUAL_GAP: Final = 0.4
_PER_GAP: Final = 1.6
_USUAL_AGREEMENT: Final = 0.5
_PER_AGREEMENT: Final = 0.8
_MOST_FOR_WORDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Sources:
    """What a lane's word is worth, besides its weight (C28)."""

    by_score: bool = False
    adaptive: bool = False  # the words lane's worth is found out for each question
    worth: Mapping[Lane, float] = field(default_factory=dict)  # 1 unless named here
    near: float = 1.0  # a factor for passages that mean nearly the same as the question
    inner: float = 1.0  # what the meaning lane's word is worth where a document goes on
    openings: frozenset[Position] = frozenset()  # and where it begins, in that lane

    @classmethod
    def of(cls, weights: Weights) -> Self:
        worth: dict[Lane, float] = {
            "words": weights.keyword_trust,
            "code": weights.code_trust,
            "links": weights.graph_trust,
        }
        adaptive = weights.adaptive_trust
        near, inner = weights.similarity_trust, weights.inner_trust
        return cls(weights.score_trust, adaptive, worth, near, inner)

    def of_place(self, lane: Lane, passage: Passage) -> float:
        """A document says at its beginning what it is about; code begins with its imports."""
        begins = (
            lane != "meaning" or passage.position in self.openings or passage.is_code
        )
        return 1.0 if begins else self.inner


RANKS_ALONE: Final = Sources()


def fuse(
    rankings: Mapping[Lane, Ranking],
    weights: Mapping[Lane, float],
    k: int,
    sources: Sources = RANKS_ALONE,
    reach: int = REACH,
) -> list[Candidate]:
    """Merge the lanes' rankings, best first; ties go to the earlier path and position.

    Who stands within `reach` of some lane is judged by that alone, and who stands behind by the best that one
    lane says of it, so that asking the lanes for more adds candidates and moves none.

    `score` is the share of what the lanes together could have given (first in every lane is 1), so it
    does not depend on how many lanes there are.
    """
    found: dict[tuple[str, int], list[Evidence]] = {}
    passages: dict[tuple[str, int], Passage] = {}
    for lane, ranking in rankings.items():
        confidences = confidence(lane, [score for _, score in ranking], sources)
        for rank, ((passage, score), sure) in enumerate(
            zip(ranking, confidences, strict=True), start=1
        ):
            passages[passage.position] = passage
            worth = sure * sources.of_place(lane, passage)
            found.setdefault(passage.position, []).append(
                Evidence(lane, rank, score, worth)
            )
    most = best_possible(rankings, weights, k, sources)
    fused = [
        _candidate(
            passages[position], _counted(evidence, weights, k, reach), weights, k, most
        )
        for position, evidence in found.items()
    ]
    return sorted(
        fused, key=lambda candidate: (-candidate.raw_score, candidate.passage.position)
    )


def balanced(
    sources: Sources, rankings: Mapping[Lane, Ranking], reach: int = REACH
) -> Sources:
    """With what the words lane is worth for this question, where both it and the meaning lane found some.

    The rankings are the lanes' first `reach`, or all that they have.
    """
    if not sources.adaptive or not rankings.get("words") or not rankings.get("meaning"):
        return sources
    gap, agreement = (
        _gap(rankings["words"], reach),
        _agreement(rankings["words"], rankings["meaning"]),
    )
    swing = math.exp(
        _PER_GAP * (gap - _USUAL_GAP) + _PER_AGREEMENT * (agreement - _USUAL_AGREEMENT)
    )
    words = sources.worth.get("words", 1.0)
    return replace(
        sources,
        worth={
            **sources.worth,
            "words": min(words * swing, max(words, _MOST_FOR_WORDS)),
        },
    )


def _gap(ranking: Ranking, reach: int) -> float:
    """How far the tenth document stands behind the first, as a share of that.

    Where a few long documents fill the ranking, the tenth comes after its last passage.
    """
    best: dict[str, float] = {}
    for passage, score in ranking:
        best.setdefault(passage.path, score)
    scores = list(best.values())
    last = (
        ranking[-1][1] if len(ranking) >= reach else 0.0
    )  # there is more, or there is nothing
    first, tenth = scores[0], scores[9] if len(scores) > 9 else last
    return (first - tenth) / first if first else 0.0


def _agreement(words: Ranking, meaning: Ranking) -> float:
    """Where the first three stand with the meaning lane, from 1 for its best to 0 for its fiftieth."""
    scores = [score for _, score in meaning]
    spread = _spread("meaning", scores)
    standing = {
        passage.position: 1 - min((scores[0] - score) / spread, 1.0)
        for passage, score in meaning
    }
    first = [standing.get(passage.position, 0.0) for passage, _ in words[:3]]
    return sum(first) / len(first)


def best_possible(
    rankings: Mapping[Lane, Ranking],
    weights: Mapping[Lane, float],
    k: int,
    sources: Sources = RANKS_ALONE,
) -> float:
    """What a passage that is first in every lane would get.

    The code lane comes on top: that a name is found elsewhere is no reason to trust a passage less.
    """
    others = [lane for lane in rankings if lane != "code"]
    return sum(
        weights[lane] * sources.worth.get(lane, 1.0) for lane in others or rankings
    ) / (k + 1)


def confidence(lane: Lane, scores: Sequence[float], sources: Sources) -> list[float]:
    """How much the lane's word is worth for each of its hits (scores, best first)."""
    worth = sources.worth.get(lane, 1.0)
    if lane == "links":  # a link vouches for a passage as far as what it comes from got
        return [worth * min(score, 1.0) for score in scores]
    near = sources.near if lane == "meaning" else 1.0
    standing = standings(lane, scores) if sources.by_score else [1.0] * len(scores)
    return [
        worth * each * (near if score > _NEAR else 1.0)
        for each, score in zip(standing, scores, strict=True)
    ]


def standings(lane: Lane, scores: Sequence[float]) -> list[float]:
    """Where each score stands between the lane's best, at 1, and its fiftieth, at a fifth.

    A lane with fewer hits has shown all it has. No words in common is a score of 0; the meaning lane
    has a score for every passage, so there it is the last.
    """
    if not scores:
        return []
    best, spread = scores[0], _spread(lane, scores)
    return [
        _LEAST ** min((best - score) / spread, 1.0) if spread else 1.0
        for score in scores
    ]


def _spread(lane: Lane, scores: Sequence[float]) -> float:
    """Between the best score and the fiftieth."""
    best, whole = scores[0], len(scores) >= REACH
    if lane == "meaning":
        return max(best - (scores[REACH - 1] if whole else scores[-1]), _COSINES_APART)
    return max(best - (scores[REACH - 1] if whole else 0.0), _SHARES_APART * best)


def within(candidate: Candidate, reach: int) -> bool:
    """Whether some lane has the candidate among its first so many."""
    return any(each.rank <= reach for each in candidate.evidence)


def _counted(
    evidence: Sequence[Evidence], weights: Mapping[Lane, float], k: int, reach: int
) -> tuple[Evidence, ...]:
    near = tuple(each for each in evidence if each.rank <= reach)
    return near or (max(evidence, key=lambda each: _added(each, weights, k)),)


def _added(evidence: Evidence, weights: Mapping[Lane, float], k: int) -> float:
    return weights[evidence.lane] * evidence.confidence / (k + evidence.rank)


def _candidate(
    passage: Passage,
    evidence: tuple[Evidence, ...],
    weights: Mapping[Lane, float],
    k: int,
    most: float,
) -> Candidate:
    raw = sum(_added(item, weights, k) for item in evidence)
    return Candidate(passage, raw, raw / most if most else 0.0, evidence)
