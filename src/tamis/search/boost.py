"""Stages that change scores. Each multiplies, says so in the candidate's boosts, and sorts again."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from tamis.filters import Archived
from tamis.identifiers import plain_name
from tamis.model import Candidate, Facts, Passage
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

    def factor(self, candidate: Candidate) -> float:
        facts = Facts(candidate.passage.path)
        in_folder = self.in_folder if self.folders.matches(facts) else 1.0
        return min(in_folder, self.as_file if self.files.matches(facts) else 1.0)


@dataclass(frozen=True, slots=True)
class Names:
    """What a question names: symbols, or files by the end of their paths."""

    symbols: frozenset[str]
    files: frozenset[str]

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        files = (name.casefold().removeprefix("./").lstrip("/") for name in names if "." in name)
        return cls(frozenset(map(plain_name, names)), frozenset(files))

    def fit(self, passage: Passage) -> bool:
        """Whether the passage defines one of the symbols, or is in one of the files."""
        if self.symbols and any(not self.symbols.isdisjoint(_ends(name, ".")) for name in passage.names):
            return True
        return bool(self.files) and not self.files.isdisjoint(_ends(passage.path.casefold(), "/"))


def _ends(name: str, joint: str) -> Iterator[str]:
    """`a.b.c` -> `a.b.c`, `b.c`, `c`."""
    name = plain_name(name) if joint == "." else name
    yield name
    while joint in name:
        name = name.partition(joint)[2]
        yield name


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
        score=candidate.score * factor,
        boosts=(*candidate.boosts, (name, factor)),
    )
