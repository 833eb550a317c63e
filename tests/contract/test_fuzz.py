"""Files that nobody wrote, a few hundred of them; at length in benchmarks/fuzz.py."""

import pytest

from support.corpora import load_benchmark


@pytest.fixture(scope="module")
def fuzz():
    return load_benchmark("fuzz")


def test_no_file_breaks_indexing(fuzz):
    """Every kind of file, mutated: no exception, no broken promise, nothing over a second, a sound index."""
    outcome = fuzz.campaign(cases=300, seed=20_261_117)
    assert outcome.failures == []
    assert sum(outcome.cases.values()) == 300
    assert outcome.binary < 100, "most must get as far as a parser"
    assert outcome.indexed > 10


@pytest.mark.parametrize("kind", ["markdown", "front matter", "notebook", "ignore"])
def test_no_document_breaks_reading(fuzz, kind):
    assert fuzz.campaign(cases=60, seed=7, kinds=[kind]).failures == []


def test_a_failure_would_be_noticed(fuzz, monkeypatch, tmp_path):
    """The measure can fail: by an exception, and by a passage that is longer than passages are."""

    def fail(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(fuzz, "parse", fail)
    outcome = fuzz.campaign(cases=5, seed=1, kinds=["markdown"], keep=tmp_path)
    assert len(outcome.failures) == 5 - outcome.binary > 2
    assert "RecursionError" in outcome.failures[0]
    assert len(list(tmp_path.glob("*/a.md"))) == len(outcome.failures)
    monkeypatch.undo()
    monkeypatch.setattr(fuzz, "LONGEST", -1.0)
    assert "took" in fuzz.campaign(cases=2, seed=1, kinds=["markdown"]).failures[0]
