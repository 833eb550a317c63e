"""Fusion: several lanes' rankings become one list of candidates."""

from collections.abc import Mapping, Sequence

from tamis.model import Candidate, Evidence, Lane, Passage

Ranking = Sequence[tuple[Passage, float]]  # best first


def fuse(rankings: Mapping[Lane, Ranking], weights: Mapping[Lane, float], k: int) -> list[Candidate]:
    """Merge the lanes' rankings by weighted reciprocal rank, best first.

    Only ranks count: a lane's scores are on a scale of their own, so they are carried along as
    evidence and never added up. `score` is the share of what the lanes together could have given
    (first in every lane is 1), so it does not depend on how many lanes there are. Ties go to the
    earlier path and position.
    """
    found: dict[tuple[str, int], list[Evidence]] = {}
    passages: dict[tuple[str, int], Passage] = {}
    for lane, ranking in rankings.items():
        for rank, (passage, score) in enumerate(ranking, start=1):
            passages[passage.position] = passage
            found.setdefault(passage.position, []).append(Evidence(lane, rank, score))
    most = best_possible(rankings, weights, k)
    fused = [
        _candidate(passages[position], tuple(evidence), weights, k, most)
        for position, evidence in found.items()
    ]
    return sorted(fused, key=lambda candidate: (-candidate.raw_score, candidate.passage.position))


def best_possible(rankings: Mapping[Lane, Ranking], weights: Mapping[Lane, float], k: int) -> float:
    """What a passage that is first in every lane would get.

    The code lane comes on top: that a name is found elsewhere is no reason to trust a passage less.
    """
    others = [lane for lane in rankings if lane != "code"]
    return sum(weights[lane] for lane in others or rankings) / (k + 1)


def confidence(evidence: Evidence) -> float:
    """How much a lane's word is worth. A link vouches for a passage as far as what it comes from got."""
    return min(evidence.score, 1.0) if evidence.lane == "links" else 1.0


def _candidate(
    passage: Passage, evidence: tuple[Evidence, ...], weights: Mapping[Lane, float], k: int, most: float
) -> Candidate:
    raw = sum(weights[item.lane] * confidence(item) / (k + item.rank) for item in evidence)
    return Candidate(passage, raw, raw / most if most else 0.0, evidence)
