"""THE LAW for every preset, and with everything on that can be on.

The corpora, filters, questions and the reference are those of `test_law.py`; the stand-in for the
cross-encoder is that of `test_rerank_law.py`. Beside results, scores and counts, what was added to a
question and what the hints say must be the same.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_law import (
    NOW,
    OTHER_WORDS,
    SMALL_CHUNKS,
    STAGES_ON,
    _large_corpus,
    _stages_of,
    cases,
    comparable,
    corpus_of,
    examples,
    pairs,
    questions,
)

from support.corpora import test_settings
from support.scripted import Noise
from tamis.corpus import Corpus
from tamis.model import Found
from tamis.settings import PRESETS

EVERYTHING_ON = {
    **SMALL_CHUNKS,
    **OTHER_WORDS,
    **STAGES_ON,
    "search__adaptive_weights_enabled": True,
    "search__recency_profile": "code",
    "search__rerank_enabled": True,
    "weights__rerank_budget_ms": 0,
    "search__rerank_top_n": 4,
    "weights__coherence": 0.5,
    "weights__saturation": 0.7,
    "weights__similarity_trust": 1.3,
}


def preset(name: str) -> dict[str, Any]:
    """As everybody has it: the settings of the tests would keep near texts."""
    near = PRESETS[name].search.ngram_dedup_enabled
    return {**SMALL_CHUNKS, "search__preset": name, "search__ngram_dedup_enabled": near}


WAYS = {
    **{name: preset(name) for name in PRESETS},
    "everything": EVERYTHING_ON | {"search__mmr_enabled": False},
    "everything, by mmr": EVERYTHING_ON
    | {"search__mmr_enabled": True, "search__mmr_lambda": 0.4},
}


def said(found: Found, names: Mapping[str, str] | None = None) -> dict[str, Any]:
    """All that an answer says, but what names the index. Of the hints, those on what was found."""
    hints = [
        hint
        for hint in map(str, found.hints)
        if "likely" in hint or "left out" in hint or "reranked" in hint
    ]
    more = {"hints": hints, "expansion": found.expansion, "synonyms": found.synonyms}
    return comparable(found, names or {}) | more


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    monkeypatch.setattr("tamis.models.rerankers.load_reranker", lambda *_: Noise())
    monkeypatch.setattr("tamis.corpus.time.time", lambda: NOW)


def in_every_way(corpus: Corpus) -> dict[str, Corpus]:
    """The same index, asked as each way has it."""
    settings = {way: test_settings(corpus.root, **flags) for way, flags in WAYS.items()}
    return {
        way: Corpus(corpus.root, corpus.directory, each)
        for way, each in settings.items()
    }


@pytest.mark.slow
@pytest.mark.rows("R000-035", "R000-036", "R000-037", "R002-001")
def test_filtering_equals_never_having_indexed():
    """For the presets, and for what nobody will turn on at once."""
    shown: dict[str, Counter[str]] = {way: Counter() for way in WAYS}

    @examples(10)
    @given(cases(), st.lists(questions, min_size=2, max_size=2))
    def check(case, asked):
        for pair in pairs(case, EVERYTHING_ON):
            compare(pair.whole, pair.part, pair.filter, pair.names, asked, shown)

    check()
    presets = sum((shown[way] for way in PRESETS), Counter())
    everything = sum((shown[way] for way in WAYS.keys() - PRESETS.keys()), Counter())
    every = {"results", "meaning", "words", "code", "links", "left out"}
    assert often(presets) >= every | {"unlikely"}, presets
    assert often(everything) >= every | {
        "expanded",
        "synonyms",
        "reranked",
        "recency",
        "near text",
    }, everything


def often(kinds: Counter[str]) -> set[str]:
    return {kind for kind, count in kinds.items() if count > 5}


def compare(
    whole: Corpus,
    part: Corpus,
    filter: str,
    names: Mapping[str, str],
    asked: list[dict[str, Any]],
    shown: Mapping[str, Counter[str]],
) -> None:
    pairs = zip(in_every_way(whole).items(), in_every_way(part).values(), strict=True)
    for (way, all_of_it), kept in pairs:
        with all_of_it, kept:
            for question in asked:
                found = all_of_it.search(
                    **question, filter=filter, exclude_archived=False
                )
                alone = kept.search(**question, exclude_archived=False)
                assert said(found) == said(alone, names), (way, filter)
                shown[way].update(worth(found))


def worth(found: Found) -> Iterator[str]:
    """What an answer is worth as an example."""
    yield from _stages_of(found)
    yield from {
        evidence.lane for result in found.results for evidence in result.evidence
    }
    if found.results:
        yield "results"
    if found.expansion:
        yield "expanded"
    if found.synonyms:
        yield "synonyms"
    if found.stats["reranked"] > 1:
        yield "reranked"
    if any("likely" in hint for hint in map(str, found.hints)):
        yield "unlikely"
    if any("left out" in hint for hint in map(str, found.hints)):
        yield "left out"


@pytest.fixture(scope="module")
def large() -> Mapping[str, Any]:
    return _large_corpus()


@pytest.mark.rows("R000-025", "R000-036")
@pytest.mark.parametrize("way", WAYS)
def test_the_law_where_lanes_are_asked_again(way, large):
    """Three hundred files, of which half say the same: what the lanes give first will not do,
    and how deep they are asked depends on the allowed passages alone."""
    flags = WAYS[way]
    kept = sorted(large)[::2]
    excluded = sorted(large)[1::2]
    with (
        corpus_of(large, sizes=flags) as whole,
        corpus_of({path: large[path] for path in kept}, sizes=flags) as part,
    ):
        for query in ("alpha", "beta own0", "own12 token gamma", "unheard of"):
            for limit in (1, 5, 60):
                assert_same(whole, part, {"query": query, "limit": limit}, excluded)


def assert_same(
    whole: Corpus, part: Corpus, question: Mapping[str, Any], excluded: list[str]
) -> None:
    found = whole.search(**question, excluded_files=excluded)
    assert found.results
    assert said(found) == said(part.search(**question))
