"""Where code stands: in a file that the question names, or aside from the real thing."""

import re
from dataclasses import dataclass
from typing import Final, Self

from tamis.model import Candidate, Passage
from tamis.settings import SearchSettings
from tamis.text import words

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
    def of(cls, text: str, settings: SearchSettings) -> Self:
        stems = frozenset(words(text))
        wanted = not _ASIDE_WORDS.isdisjoint(stems)
        return cls(stems, settings.path_boost, 1.0 if wanted else settings.aside_penalty)

    def name_factor(self, candidate: Candidate) -> float:
        if not is_code(candidate.passage):
            return 1.0
        stem = candidate.passage.path.rpartition("/")[2].split(".")[0]
        if stem.lower() in _GENERIC_NAMES:
            return 1.0
        parts = words(" ".join(_NAME_PARTS.findall(stem)))
        return self.named if parts and self.asked.issuperset(parts) else 1.0

    def aside_factor(self, candidate: Candidate) -> float:
        return self.aside if is_code(candidate.passage) and stands_aside(candidate.passage.path) else 1.0


def stands_aside(path: str) -> bool:
    """Whether a path is one of a test, an example, or code that somebody else wrote."""
    *folders, file = path.lower().split("/")
    return not _ASIDE_FOLDERS.isdisjoint(folders) or bool(_ASIDE_FILE.search(file))


def is_code(passage: Passage) -> bool:
    return passage.chunk_type in ("definitions", "symbols")
