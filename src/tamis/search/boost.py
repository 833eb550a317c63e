"""Stages that change scores. Each multiplies, says so in the candidate's boosts, and sorts again."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from tamis.filters import Archived
from tamis.model import Candidate, Facts, Passage
from tamis.settings import ArchiveSettings

_JOINTS: Final = re.compile(r"::|->|#")


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


def names_it(passage: Passage, names: Sequence[str]) -> bool:
    """Whether one of the names is that of a symbol the passage defines, or of its file."""
    wanted = [_plain_name(name) for name in names]
    defined = [_plain_name(name) for name in passage.names]
    if any(own == name or own.endswith(f".{name}") for own in defined for name in wanted):
        return True
    path = passage.path.casefold()
    return any("." in name and f"/{path}".endswith(f"/{name.casefold()}") for name in names)


def _plain_name(name: str) -> str:
    """`Client::retry()` and `Client#retry` as `client.retry`."""
    return _JOINTS.sub(".", name.removesuffix("()")).casefold()


NO_PENALTY: Final = ArchivePenalty(Archived(()), Archived(()))


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
