"""Stages that change scores.

A boost multiplies, records its factor in the candidate, and sorts again. Calibration then makes scores
that mean something by themselves, whatever the lanes, their weights and k. Ranks cannot say if anything
was found: something is always first. Each lane's own evidence can, on an absolute scale: the cosine
between question and passage, and the share of the question's words, by their rarity, that the passage
has. Either gives grounds through a logistic curve, and so does either alone:

    grounds = 1 - (1 - related(cosine)) · (1 - covered(coverage))

Scores may not rise down the list, so a passage has the best grounds at or below it (of those within
reach of some lane). Its score is that, times (1 + share) / 2, where the share is its fused score over
the highest that the lanes could have given. The cosines of unrelated texts depend on the model, which
therefore brings its own curve (docs/ranking.md).
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Self

from tamis.model import Candidate, Facts, Lane, Passage
from tamis.query.filters import Archived
from tamis.search.fuse import REACH, Ranking, Trust, best_first, within
from tamis.search.question import Candidates, Lookups, Question, StageName
from tamis.settings import ArchiveSettings
from tamis.text.identifiers import in_sentence, names_in, plain_name, wanted_names
from tamis.text.words import words
from tamis.weights import Weights

_COUNTED = 9  # passages of a document that say if it is about the question
_MANY = 8  # documents that define a name: with more it points nowhere
_POINTS_NOWHERE = 1 / 3  # what is left of the trust in the code lane

_TEST_FOLDERS = frozenset({
    "test", "tests", "testing", "__tests__", "spec", "specs", "testdata", "fixtures", "__fixtures__", "mocks",
    "__mocks__", "e2e", "example", "examples", "sample", "samples", "demo", "demos", "tutorial", "tutorials",
    "vendor", "vendored", "third_party", "third-party", "thirdparty", "external", "node_modules",
    "site-packages",
})  # fmt: skip
_TEST_FILE = re.compile(r"^test_|^conftest\.py$|[._-](?:test|tests|spec)\.[a-z0-9]+$")
_TEST_WORDS = frozenset(
    words(
        "test testing tests unittest spec fixture mock example sample demo tutorial vendored"
    )
)
_GENERIC_NAMES = frozenset({
    "index", "main", "init", "__init__", "mod", "lib", "util", "utils", "common", "base", "core", "types",
    "helpers", "app", "setup",
})  # fmt: skip
# `HTTPServer2` -> HTTP, Server, 2
_NAME_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def boosted(
    candidates: Candidates, name: StageName, factors: Iterable[float]
) -> list[Candidate]:
    """Multiply each candidate's scores by its factor; best first again, ties by path and position."""
    changed = []
    for candidate, factor in zip(candidates, factors, strict=True):
        if factor != 1.0:
            candidate = candidate.boosted(name, factor)
        changed.append(candidate)
    return best_first(changed)


@dataclass(frozen=True, slots=True)
class Names:
    """Symbols, or files by the end of their paths."""

    symbols: frozenset[str]
    files: frozenset[str]

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        files = {
            name.casefold().removeprefix("./").lstrip("/")
            for name in names
            if "." in name
        }
        return cls(frozenset(map(plain_name, names)), frozenset(files))

    def fit(self, passage: Passage) -> bool:
        """Return True if the passage defines one of the symbols, or is in one of the files."""
        for name in passage.names:
            if not self.symbols.isdisjoint(_ends(plain_name(name), ".")):
                return True
        ends = _ends(passage.path.casefold(), "/")
        return not self.files.isdisjoint(ends)

    def documents(self, passages: Iterable[Passage]) -> int:
        """Count the documents of the passages that fit."""
        paths = {passage.path for passage in passages if self.fit(passage)}
        return len(paths)


def _ends(name: str, joint: str) -> Iterator[str]:
    """Yield `a.b.c`, `b.c` and `c` for `a.b.c`."""
    yield name
    while joint in name:
        name = name.partition(joint)[2]
        yield name


def trust_in_code(trust: Trust, rankings: Mapping[Lane, Ranking], text: str) -> Trust:
    """Trust the code lane less where names in a sentence point nowhere.

    `caplog.clear` may be called on an instance, so the last part of a name is looked for as well.
    """
    if not trust.adaptive or not rankings.get("code") or not in_sentence(text):
        return trust
    wanted = [*names_in(text)]
    for name in names_in(text):
        end = plain_name(name).rpartition(".")[2]
        if end:
            wanted.append(end)
    found = [passage for passage, _ in rankings["code"][:REACH]]
    defining = Names.of(wanted).documents(found)
    if 0 < defining <= _MANY:
        return trust
    code = trust.lanes.get("code", 1.0) * _POINTS_NOWHERE
    return replace(trust, lanes={**trust.lanes, "code": code})


def named(candidates: Candidates, question: Question, _: Lookups) -> Candidates:
    """Raise passages that define a named symbol or are in a named file; documents of one name share it.

    They are counted within reach of the lanes: the number of others depends on the limit.
    """
    wanted = [Names.of([name]) for name in wanted_names(question.text)]
    if not wanted:
        return candidates
    near = []
    if in_sentence(question.text):
        reach = question.weights.candidate_depth
        near = [each.passage for each in candidates if within(each, reach)]
    shares = []
    for names in wanted:
        shares.append(1 / max(names.documents(near), 1))
    more = question.weights.named_boost - 1
    factors = []
    for candidate in candidates:
        most = 0.0
        for names, share in zip(wanted, shares, strict=True):
            if share > most and names.fit(candidate.passage):
                most = share
        factors.append(1 + more * most)
    return boosted(candidates, "named", factors)


def file_name(candidates: Candidates, question: Question, _: Lookups) -> Candidates:
    """Raise code in a file whose whole name is in the question. A document's name is its title."""
    asked = frozenset(words(question.text))
    factors = []
    for candidate in candidates:
        passage = candidate.passage
        factor = 1.0
        stem = passage.path.rpartition("/")[2].split(".")[0]
        if passage.is_code and stem.lower() not in _GENERIC_NAMES:
            parts = words(" ".join(_NAME_PARTS.findall(stem)))
            if parts and asked.issuperset(parts):
                factor = question.weights.path_boost
        factors.append(factor)
    return boosted(candidates, "file name", factors)


def aside(candidates: Candidates, question: Question, _: Lookups) -> Candidates:
    """Lower tests, examples and vendored code, unless the question asks for them."""
    if not _TEST_WORDS.isdisjoint(words(question.text)):
        return candidates

    factors = []
    for candidate in candidates:
        passage = candidate.passage
        is_lower = passage.is_code and is_test_or_vendored(passage.path)
        factors.append(question.weights.test_code_penalty if is_lower else 1.0)
    return boosted(candidates, "aside", factors)


def is_test_or_vendored(path: str) -> bool:
    """Return True for the path of a test, an example, or code of others."""
    *folders, file = path.lower().split("/")
    return not _TEST_FOLDERS.isdisjoint(folders) or bool(_TEST_FILE.search(file))


def coherence(candidates: Candidates, question: Question, _: Lookups) -> Candidates:
    """Raise the best passage of a document by a share of its third to its ninth.

    Two that stand side by side often say the same thing; from the third on, the document is about it. Only
    passages within reach of some lane count: the number of others depends on the limit.
    """
    weights = question.weights
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for candidate in candidates:
        if within(candidate, weights.candidate_depth):
            scores[candidate.passage.path].append(candidate.raw_score)
    factors = []
    raised = set()
    for candidate in candidates:
        path = candidate.passage.path
        factor = 1.0
        if path not in raised and candidate.raw_score:
            further = sum(scores[path][2:_COUNTED])
            factor = 1 + weights.coherence * further / candidate.raw_score
        raised.add(path)
        factors.append(factor)
    return boosted(candidates, "coherence", factors)


def saturation(candidates: Candidates, question: Question, _: Lookups) -> Candidates:
    """Lower each passage by the number of its document's above it, so that none fills the page."""
    factors = []
    above: Counter[str] = Counter()
    for candidate in candidates:
        path = candidate.passage.path
        factors.append(question.weights.saturation ** above[path])
        above[path] += 1
    return boosted(candidates, "saturation", factors)


def archive(candidates: Candidates, question: Question, _: Lookups) -> Candidates:
    """Lower archived documents where they are shown."""
    if question.archive is None:
        return candidates
    factor = cache(question.archive)
    factors = [factor(candidate.passage.path) for candidate in candidates]
    return boosted(candidates, "archive", factors)


def archive_factor(
    settings: ArchiveSettings, weights: Weights
) -> Callable[[str], float]:
    """Return the function from a path to its factor: the smallest one that applies."""
    of_folders = []
    of_files = []
    for glob in settings.globs:
        if glob.endswith("/"):
            of_folders.append(glob)
        else:
            of_files.append(glob)
    folders = Archived(tuple(of_folders))
    files = Archived(tuple(of_files))

    def factor(path: str) -> float:
        facts = Facts(path)
        penalty = 1.0
        if folders.matches(facts):
            penalty = min(penalty, weights.archive_folder_penalty)
        if files.matches(facts):
            penalty = min(penalty, weights.archive_file_penalty)
        return penalty

    return factor


@dataclass(frozen=True, slots=True)
class Logistic:
    """A curve from a measure to a probability: its midpoint, at one half, and its slope there."""

    midpoint: float
    steepness: float

    def __call__(self, value: float) -> float:
        """1 / (1 + e^-exponent), for exponents of any size."""
        exponent = self.steepness * (value - self.midpoint)
        grown = math.exp(-abs(exponent))
        if exponent >= 0:
            return 1 / (1 + grown)
        return grown / (1 + grown)


COVERED = Logistic(0.75, 10.0)


def calibrate(
    candidates: Candidates, question: Question, lookups: Lookups
) -> Candidates:
    """Give the candidates scores from 0 to 1 that never rise, and leave their order."""
    related = lookups.models.related
    coverage = lookups.coverage([each.passage.position for each in candidates])
    own = []
    near = []
    for candidate, covered in zip(candidates, coverage, strict=True):
        by_meaning = 0.0
        for each in candidate.evidence:
            if related and each.lane == "meaning":
                by_meaning = related(each.score)
        by_words = COVERED(covered) if covered > 0 else 0.0
        grounds = 1 - (1 - by_meaning) * (1 - by_words)
        own.append(grounds)
        is_near = within(candidate, question.weights.candidate_depth)
        near.append(grounds if is_near else 0.0)
    lifted = list(accumulate(reversed(near), max))
    lifted.reverse()
    scored: list[Candidate] = []
    most = 1.0
    for candidate, grounds, below in zip(candidates, own, lifted, strict=True):
        share = min(candidate.score, 1.0)
        score = max(grounds, below) * (1 + share) / 2
        most = min(score, most)
        scored.append(candidate.scored(most))
    return scored
