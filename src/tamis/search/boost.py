"""Stages that change scores. Each multiplies, says so in the candidate's boosts, and sorts again."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tamis.model import Candidate


def boosted(
    candidates: Sequence[Candidate], name: str, factor: Callable[[Candidate], float]
) -> list[Candidate]:
    """Multiply each score by the candidate's factor; best first again, ties by path and position."""
    changed = [_multiplied(candidate, name, factor(candidate)) for candidate in candidates]
    return sorted(changed, key=lambda candidate: (-candidate.raw_score, candidate.passage.position))


def _multiplied(candidate: Candidate, name: str, factor: float) -> Candidate:
    if factor == 1.0:
        return candidate
    return replace(
        candidate,
        raw_score=candidate.raw_score * factor,
        score=min(candidate.score * factor, 1.0),
        boosts=(*candidate.boosts, (name, factor)),
    )
