"""Stages that change scores. Each multiplies, says so in the candidate's boosts, and sorts again."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final, Self

from tamis.filters import Archived
from tamis.identifiers import plain_name
from tamis.model import Candidate, Facts, Passage
from tamis.search.fuse import REACH, within
from tamis.settings import ArchiveSettings, SearchSettings
from tamis.text import words


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


@dataclass(frozen=True, slots=True)
class CodePlaces:
    """What the place of code says about it: its file's name, and whether it stands aside from the real thing.

    A file whose name is in the question counts more. Tests, examples and vendored code count less, unless
    the question asks for them. Documents are left alone: their names are titles, and words already.
    """

    asked: frozenset[str]  # the stems of the question
    named: float = 1.0
    aside: float = 1.0

    @classmethod
    def of(cls, text: str, settings: SearchSettings) -> Self:
        stems = frozenset(words(text))
        wanted = not _ASIDE_WORDS.isdisjoint(stems)
        return cls(stems, settings.path_boost, 1.0 if wanted else settings.aside_penalty)

    def name_factor(self, candidate: Candidate) -> float:
        path = candidate.passage.path
        stem = PurePosixPath(path).name.split(".")[0]
        if not _is_code(candidate.passage) or stem.lower() in _GENERIC_NAMES:
            return 1.0
        parts = words(" ".join(_NAME_PARTS.findall(stem)))
        return self.named if parts and self.asked.issuperset(parts) else 1.0

    def aside_factor(self, candidate: Candidate) -> float:
        return self.aside if _is_code(candidate.passage) and stands_aside(candidate.passage.path) else 1.0


def stands_aside(path: str) -> bool:
    """Whether a path is one of a test, an example, or code that somebody else wrote."""
    *folders, file = path.lower().split("/")
    return not _ASIDE_FOLDERS.isdisjoint(folders) or bool(_ASIDE_FILE.search(file))


def _is_code(passage: Passage) -> bool:
    return passage.chunk_type in ("definitions", "symbols")


_ASIDE_FOLDERS: Final = frozenset({
    "test", "tests", "testing", "__tests__", "spec", "specs", "testdata", "fixtures", "__fixtures__", "mocks",
    "__mocks__", "e2e", "example", "examples", "sample", "samples", "demo", "demos", "tutorial", "tutorials",
    "vendor", "vendored", "third_party", "third-party", "thirdparty", "external", "node_modules",
    "site-packages",
})  # fmt: skip
_ASIDE_FILE: Final = re.compile(r"^test_|^conftest\.py$|[._-](?:test|tests|spec)\.[a-z0-9]+$")
_ASIDE_WORDS: Final = frozenset(
    words("test testing tests unittest spec fixture mock example sample demo tutorial vendored")
)
_GENERIC_NAMES: Final = frozenset({
    "index", "main", "init", "__init__", "mod", "lib", "util", "utils", "common", "base", "core", "types",
    "helpers", "app", "setup",
})  # fmt: skip
_NAME_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")  # `HTTPServer2` -> HTTP, Server, 2
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
