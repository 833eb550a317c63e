"""Stages that drop candidates. Each is a pure function of a list that is best first, and keeps its order."""

from collections import Counter
from collections.abc import Sequence

from tamis.model import Candidate


def above_threshold(candidates: Sequence[Candidate], least: float) -> list[Candidate]:
    """Those with at least this score (P10)."""
    return [candidate for candidate in candidates if candidate.score >= least]


def without_same_text(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best of each group whose texts differ in white space alone (P8, C73)."""
    best: dict[bytes, Candidate] = {}
    for candidate in candidates:
        best.setdefault(candidate.passage.content_hash, candidate)
    return list(best.values())


def limited_per_document(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """The best `most` of each document; 0 is no limit."""
    if most <= 0:
        return list(candidates)
    seen: Counter[str] = Counter()
    kept = []
    for candidate in candidates:
        seen[candidate.passage.path] += 1
        if seen[candidate.passage.path] <= most:
            kept.append(candidate)
    return kept
