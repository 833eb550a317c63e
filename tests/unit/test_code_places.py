"""What the place of code says about it: names of files, and tests, examples and vendored code aside."""

import pytest

from support.stages import staged
from tamis.model import Candidate, Passage
from tamis.search.scores import aside, file_name, is_test_or_vendored


def candidate(path: str, chunk_type: str = "definitions") -> Candidate:
    return Candidate(
        Passage(path, 0, "", b"", "", 1, 1, chunk_type, None, 0.0, ()), 1.0, 1.0, ()
    )


def factor(stage, found: Candidate, text: str, **weights: float) -> float:
    (changed,) = staged(stage, [found], text, **weights)
    return changed.raw_score


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_api.py", "src/pkg/tests/api.py", "test_api.py", "pkg/api_test.go", "web/api.test.ts",
        "web/api.spec.js", "conftest.py", "examples/basic.py", "vendor/lib/a.c", "third_party/x.cc",
        "a/__tests__/b.tsx", "Tests/ApiTests.swift", "node_modules/x/index.js", "samples/one.kt",
    ],
)  # fmt: skip
def test_what_is_test_or_vendored(path):
    assert is_test_or_vendored(path)


@pytest.mark.parametrize(
    "path",
    ["src/api.py", "contest.py", "latest/a.py", "src/testament.py", "attest.go", "inspect.py", "spectrum.c",
     "pkg/protest.py", "tested.rs", "exampled/a.py"],
)  # fmt: skip
def test_what_does_not(path):
    assert not is_test_or_vendored(path)


def test_tests_count_less_unless_they_are_asked_for():
    code, prose = (
        candidate("tests/test_api.py"),
        candidate("tests/README.md", "documentation"),
    )
    text = "how are retries limited"
    assert factor(aside, code, text, test_code_penalty=0.5) == 0.5
    assert factor(aside, prose, text, test_code_penalty=0.5) == 1.0
    for asked in (
        "tests of the retries",
        "an example of a session",
        "how is it tested",
        "mocks",
    ):
        assert factor(aside, code, asked, test_code_penalty=0.5) == 1.0, asked


@pytest.mark.parametrize(
    ("path", "text", "named"),
    [
        ("src/sessions.py", "how do sessions keep cookies", True),
        ("src/sessions.py", "session cookies", True),  # by their stems
        ("src/http_client.py", "retries of the http client", True),
        ("src/HttpClient.java", "client for HTTP", True),
        (
            "src/http_client.py",
            "client retries",
            False,
        ),  # the whole name, not a part of it
        ("src/utils.py", "utils", False),  # every project has one
        ("src/__init__.py", "init", False),
        ("docs/sessions.md", "sessions", False),
    ],
)
def test_a_file_whose_whole_name_is_in_the_question(path, text, named):
    kind = "documentation" if path.endswith(".md") else "definitions"
    found = factor(file_name, candidate(path, kind), text, path_boost=1.5)
    assert found == (1.5 if named else 1.0)
