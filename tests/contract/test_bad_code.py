"""Source files that nobody should have written, among others: they are counted, and the rest goes on."""

import random

import pytest

from support.corpora import test_settings, write_files
from tamis.corpus import Corpus, index_directory
from tamis.model import Report

GOOD = "class Client:\n    def retry_request(self):\n        return 1\n"
# The grammar of TSX does not come to an end with this one.
PUNCTUATION = "".join(random.Random(7).choices("<>{}()[]/=;:,.'\"`?!&|*+-@#", k=10_000))

# A file, and what is said of it: nothing, a warning, or why it was skipped.
BAD = {
    "huge.py": (b"x = 1\n" * 9_000_000, "too large"),
    "nul.py": (b"def f():\n    return '\0'\n", "binary"),
    "bomb.tsx": (PUNCTUATION.encode(), "not understood as TSX: indexed as text"),
    "hours.java": (b"a<" * 20_000, "not understood as Java: indexed as text"),
    "deep.c": (b"int f(){" + b"(" * 10_000 + b"1" + b")" * 10_000 + b";}", None),
    "line.js": (b"var a=1;" * 150_000, ""),
    "mac.py": (GOOD.replace("Client", "Server").replace("\n", "\r").encode(), ""),
    "tabs.go": (b"package a\n\n\t\t\tfunc f() {\t}\n", ""),
    "empty.rs": (b"", ""),
    "comments.rb": (b"# only\n# comments\n", ""),
    "latin.php": (b"<?php // caf\xe9\nfunction f() {}\n", None),
    "broken.py": (b"def f(:\n    pass\n\n\ndef g(): pass\n", ""),
    "many.lua": (b"function f() end\n" * 20_000, ""),
}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory) -> tuple[Corpus, Report]:
    root = write_files(
        tmp_path_factory.mktemp("root"), {name: data for name, (data, _) in BAD.items()}
    )
    write_files(root, {"src/good.py": GOOD})
    settings = test_settings(root, model__name="none")
    corpus = Corpus(
        root.resolve(), index_directory(root.resolve(), settings, None), settings
    )
    yield corpus, corpus.refresh()
    corpus.close()


def test_everything_is_accounted_for(indexed):
    """Issue 4: a `Skipped` or a warning, and the rest goes on."""
    _, report = indexed
    assert report.seen == len(BAD) + 1
    assert {(each.path, each.reason) for each in report.skipped} == {
        ("huge.py", "too large"),
        ("nul.py", "binary"),
    }


@pytest.mark.parametrize("name", sorted(BAD))
def test_what_is_said_of_a_file(name, indexed):
    _, report = indexed
    said = [warning for warning in report.warnings if name in warning]
    expected = BAD[name][1]
    if expected is not None:
        is_warning = bool(expected) and expected not in {"too large", "binary"}
        assert [expected in warning for warning in said] == [True] * is_warning


def test_the_rest_is_found(indexed):
    corpus, _ = indexed
    found = corpus.search("retry_request", limit=10)
    assert {result.path for result in found.results} == {"src/good.py", "mac.py"}
    assert {(result.start_line, result.end_line) for result in found.results} == {
        (1, 3)
    }


def test_what_does_not_parse_is_found_as_text(indexed):
    corpus, _ = indexed
    assert [result.path for result in corpus.search("caf\u00e9", limit=1).results] == [
        "latin.php"
    ]
