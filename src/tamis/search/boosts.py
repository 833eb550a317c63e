"""Stages that change scores. Each multiplies, says so in the candidate's boosts, and sorts again."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, Self

from tamis.model import Candidate, Facts, Lane, Passage
from tamis.query.filters import Archived
from tamis.search.fuse import REACH, Ranking, Sources, within
from tamis.settings import ArchiveSettings
from tamis.text.identifiers import in_sentence, names_in, plain_name, wanted_names
from tamis.text.words import words
from tamis.weights import Weights


@dataclass(frozen=True, slots=True)
class ArchivePenalty:
    """How archived passages count when they are shown: one factor, the smallest that applies (C24)."""

    folders: Archived
    files: Archived
    in_folder: float = 1.0
    as_file: float = 1.0

    @classmethod
    def of(cls, settings: ArchiveSettings, weights: Weights) -> Self:
        folders = tuple(pattern for pattern in settings.globs if pattern.endswith("/"))
        files = tuple(
            pattern for pattern in settings.globs if not pattern.endswith("/")
        )
        return cls(
            Archived(folders),
            Archived(files),
            weights.archive_folder_penalty,
            weights.archive_file_penalty,
        )

    def factor(self, path: str) -> float:
        facts = Facts(path)
        in_folder = self.in_folder if self.folders.matches(facts) else 1.0
        return min(in_folder, self.as_file if self.files.matches(facts) else 1.0)


_COUNTED: Final = 9  # passages of a document that say whether it is about the question
NO_PENALTY: Final = ArchivePenalty(Archived(()), Archived(()))


def coherent(
    candidates: Sequence[Candidate], share: float, reach: int = REACH
) -> list[Candidate]:
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
            1 + support.get(each.passage.path, 0.0) / each.raw_score
            if place == 0 and each.raw_score
            else 1.0
        ),
    )


def saturated(candidates: Sequence[Candidate], factor: float) -> list[Candidate]:
    """So that no document fills the page: each passage counts less for those of it that stand above."""
    return _first_and_further(candidates, "saturation", lambda _, place: factor**place)


def _first_and_further(
    candidates: Sequence[Candidate],
    name: str,
    factor: Callable[[Candidate, int], float],
) -> list[Candidate]:
    """Boost by the candidate and how many of its document stand above it."""
    seen: Counter[str] = Counter()
    places = {}
    for candidate in candidates:
        places[candidate.passage.position] = seen[candidate.passage.path]
        seen[candidate.passage.path] += 1
    return boosted(
        candidates, name, lambda each: factor(each, places[each.passage.position])
    )


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
        each if by == 1.0 else each.boosted(name, by)
        for each, by in zip(candidates, factors, strict=True)
    ]
    return sorted(
        changed,
        key=lambda candidate: (-candidate.raw_score, candidate.passage.position),
    )


_MANY: Final = 8  # documents that define a name: with more it points nowhere
_POINTS_NOWHERE: Final = 1 / 3  # what is left of the code lane's worth


@dataclass(frozen=True, slots=True)
class Names:
    """Symbols, or files by the end of their paths."""

    symbols: frozenset[str]
    files: frozenset[str]

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        files = (
            name.casefold().removeprefix("./").lstrip("/")
            for name in names
            if "." in name
        )
        return cls(frozenset(map(plain_name, names)), frozenset(files))

    def fit(self, passage: Passage) -> bool:
        """Whether the passage defines one of the symbols, or is in one of the files."""
        if self.symbols and any(
            not self.symbols.isdisjoint(_ends(name, ".")) for name in passage.names
        ):
            return True
        return bool(self.files) and not self.files.isdisjoint(
            _ends(passage.path.casefold(), "/")
        )

    def documents(self, passages: Iterable[Passage]) -> int:
        """How many documents the passages that fit are in."""
        return len({passage.path for passage in passages if self.fit(passage)})


def _ends(name: str, joint: str) -> Iterator[str]:
    """`a.b.c` -> `a.b.c`, `b.c`, `c`."""
    name = plain_name(name) if joint == "." else name
    yield name
    while joint in name:
        name = name.partition(joint)[2]
        yield name


def pointed(sources: Sources, rankings: Mapping[Lane, Ranking], text: str) -> Sources:
    """With what the code lane is worth for this question: less where names in a sentence point nowhere.

    Who writes `caplog.clear` may have an instance in mind, so the last part of a name is looked for as well.
    """
    if not sources.adaptive or not rankings.get("code") or not in_sentence(text):
        return sources
    written = names_in(text)
    names = Names.of(
        [
            *written,
            *filter(None, (plain_name(name).rpartition(".")[2] for name in written)),
        ]
    )
    if 0 < names.documents(passage for passage, _ in rankings["code"][:REACH]) <= _MANY:
        return sources
    code = sources.worth.get("code", 1.0) * _POINTS_NOWHERE
    return replace(sources, worth={**sources.worth, "code": code})


def with_named(
    candidates: Sequence[Candidate], text: str, factor: float, reach: int = REACH
) -> Sequence[Candidate]:
    """More for what defines or is what the question names; in a sentence, documents of one name share that.

    They are counted within reach of the lanes: how many others are seen depends on the limit.
    """
    wanted = [Names.of([name]) for name in wanted_names(text)]
    if not wanted:
        return candidates
    near = (
        [each.passage for each in candidates if within(each, reach)]
        if in_sentence(text)
        else []
    )
    shares = [(names, 1 / max(names.documents(near), 1)) for names in wanted]

    def of(candidate: Candidate) -> float:
        own = [part for names, part in shares if names.fit(candidate.passage)]
        return 1 + (factor - 1) * max(own, default=0.0)

    return boosted(candidates, "named", of)


_ASIDE_FOLDERS: Final = frozenset({
    "test", "tests", "testing", "__tests__", "spec", "specs", "testdata", "fixtures", "__fixtures__", "mocks",
    "__mocks__", "e2e", "example", "examples", "sample", "samples", "demo", "demos", "tutorial", "tutorials",
    "vendor", "vendored", "third_party", "third-party", "thirdparty", "external", "node_modules",
    "site-packages",
})  # fmt: skip
_ASIDE_FILE: Final = re.compile(
    r"^test_|^conftest\.py$|[._-](?:test|tests|spec)\.[a-z0-9]+$"
)
_ASIDE_WORDS: Final = frozenset(
    words(
        "test testing tests unittest spec fixture mock example sample demo tutorial vendored"
    )
)
_GENERIC_NAMES: Final = frozenset({
    "index", "main", "init", "__init__", "mod", "lib", "util", "utils", "common", "base", "core", "types",
    "helpers", "app", "setup",
})  # fmt: skip
_NAME_PARTS: Final = re.compile(
    r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+"
)  # `HTTPServer2` -> HTTP, Server, 2


@dataclass(frozen=True, slots=True)
class CodePlaces:
    """What that is worth to a question.

    A file whose name is in the question counts more. Tests, examples and vendored code count less, unless
    the question asks for them. Documents are left alone: their names are titles, and words already.
    """

    asked: frozenset[str]  # the stems of the question
    named: float = 1.0
    aside: float = 1.0

    @classmethod
    def of(cls, text: str, weights: Weights) -> Self:
        stems = frozenset(words(text))
        wanted = not _ASIDE_WORDS.isdisjoint(stems)
        return cls(
            stems, weights.path_boost, 1.0 if wanted else weights.test_code_penalty
        )

    def name_factor(self, candidate: Candidate) -> float:
        if not candidate.passage.is_code:
            return 1.0
        stem = candidate.passage.path.rpartition("/")[2].split(".")[0]
        if stem.lower() in _GENERIC_NAMES:
            return 1.0
        parts = words(" ".join(_NAME_PARTS.findall(stem)))
        return self.named if parts and self.asked.issuperset(parts) else 1.0

    def aside_factor(self, candidate: Candidate) -> float:
        return (
            self.aside
            if candidate.passage.is_code and stands_aside(candidate.passage.path)
            else 1.0
        )


def stands_aside(path: str) -> bool:
    """Whether a path is one of a test, an example, or code that somebody else wrote."""
    *folders, file = path.lower().split("/")
    return not _ASIDE_FOLDERS.isdisjoint(folders) or bool(_ASIDE_FILE.search(file))
