"""Stages that change scores. Each multiplies, says so in the candidate's boosts, and sorts again."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Self

from tamis.filters import Archived
from tamis.model import Candidate, Facts
from tamis.search.fuse import REACH, within
from tamis.settings import ArchiveSettings


@dataclass(frozen=True, slots=True)
class ArchivePenalty:
    """How archived passages count when they are shown: one factor, the smallest that applies (C24)."""

    folders: Archived
    files: Archived
    in_folder: float = 1.0
    as_file: float = 1.0

    @classmethod
    def of(cls, settings: ArchiveSettings) -> Self:
        folders = tuple(pattern for pattern in settings.globs if pattern.endswith("/"))
        files = tuple(pattern for pattern in settings.globs if not pattern.endswith("/"))
        return cls(Archived(folders), Archived(files), settings.folder_penalty, settings.file_penalty)

    def factor(self, path: str) -> float:
        facts = Facts(path)
        in_folder = self.in_folder if self.folders.matches(facts) else 1.0
        return min(in_folder, self.as_file if self.files.matches(facts) else 1.0)


_COUNTED: Final = 9  # passages of a document that say whether it is about the question
NO_PENALTY: Final = ArchivePenalty(Archived(()), Archived(()))


def coherent(candidates: Sequence[Candidate], share: float, reach: int = REACH) -> list[Candidate]:
    """A document that has many good passages: its best one moves up, by a share of the third to the ninth.

    Two that stand side by side often say the same thing; from the third on, the document is about it. Only
    passages within reach of some lane count: how many others are seen depends on the limit.
    """
    scores: dict[str, list[float]] = {}
    for candidate in candidates:
        if within(candidate, reach):
            scores.setdefault(candidate.passage.path, []).append(candidate.raw_score)
    support = {path: share * sum(own[2:_COUNTED]) for path, own in scores.items()}
    return _first_and_further(
        candidates,
        "coherence",
        lambda each, place: (
            1 + support.get(each.passage.path, 0.0) / each.raw_score if place == 0 and each.raw_score else 1.0
        ),
    )


def saturated(candidates: Sequence[Candidate], factor: float) -> list[Candidate]:
    """So that no document fills the page: each passage counts less for those of it that stand above."""
    return _first_and_further(candidates, "saturation", lambda _, place: factor**place)


def _first_and_further(
    candidates: Sequence[Candidate], name: str, factor: Callable[[Candidate, int], float]
) -> list[Candidate]:
    """Boost by the candidate and how many of its document stand above it."""
    seen: Counter[str] = Counter()
    places = {}
    for candidate in candidates:
        places[candidate.passage.position] = seen[candidate.passage.path]
        seen[candidate.passage.path] += 1
    return boosted(candidates, name, lambda each: factor(each, places[each.passage.position]))


def by_path(factor: Callable[[str], float]) -> Callable[[Candidate], float]:
    """A factor that all passages of a document have, found once for each document."""
    once = cache(factor)
    return lambda candidate: once(candidate.passage.path)


def boosted(
    candidates: Sequence[Candidate], name: str, factor: Callable[[Candidate], float]
) -> list[Candidate]:
    """Multiply each score by the candidate's factor; best first again, ties by path and position."""
    factors = [factor(candidate) for candidate in candidates]
    changed = [
        each if by == 1.0 else each.boosted(name, by) for each, by in zip(candidates, factors, strict=True)
    ]
    return sorted(changed, key=lambda candidate: (-candidate.raw_score, candidate.passage.position))
