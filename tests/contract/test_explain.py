"""An explained answer: what each stage left, and where each result stood, in Python and as JSON."""

import itertools
import json
import math

import pytest

from tamis.errors import UsageError
from tamis.search.question import STAGE_NAMES

FILES = {
    "book.md": "".join(f"# Part {n}\n\n{'alpha ' * 60}{n}\n" for n in range(6)),
    "api.py": "def alpha():\n    return 1\n",
    "a.md": "alpha beta, see [[b]]\n",
    "b.md": "beta\n",
    "archive/old.md": "alpha of old\n",
    "twin.md": "alpha beta, see [[b]]\n",
}


class Late:
    """A reranker that likes late ones best."""

    name = "late"

    def scores(self, query, passages, seconds=0.0):
        return [float(at) for at, _ in enumerate(passages)]


@pytest.fixture
def corpus(corpus_of, monkeypatch):
    monkeypatch.setattr("tamis.models.rerankers.load_reranker", lambda *_: Late())
    return corpus_of(FILES)


@pytest.mark.rows("R002-101", "C44")
def test_the_funnel(corpus):
    """Every stage in order, with what it left and how long it took."""
    found = corpus.search("alpha", limit=4, exclude_archived=False, explain=True)
    assert [step.stage for step in found.funnel] == ["fused", *STAGE_NAMES]
    left = {step.stage: step.left for step in found.funnel}
    assert list(left.values()) == sorted(left.values(), reverse=True)
    assert (left["fused"], left["limit"]) == (found.stats["original_count"], 4)
    assert (
        left["overlap"] == found.stats["after_content_dedup"] == left["threshold"] - 1
    ), "twins"
    assert all(
        step.ms == found.timings_ms.get(step.stage, 0.0) >= 0.0 for step in found.funnel
    )


@pytest.mark.parametrize(
    "more", [{}, {"max_chunks_per_doc": 1}, {"rerank": True}, {"mmr": True}], ids=str
)
def test_places_lead_from_the_fusion_to_where_a_result_is(corpus, more):
    found = corpus.search(
        "alpha", limit=50, exclude_archived=False, explain=True, **more
    )
    order = ["fused", *STAGE_NAMES]
    assert len(found.results) >= 4
    for number, result in enumerate(found.results, start=1):
        stages, places = list(result.places), list(result.places.values())
        assert stages == sorted(stages, key=order.index)
        assert stages[0] == "fused"
        assert places[-1] == number
        assert all(one != two for one, two in itertools.pairwise(places)), (
            "only where it moved"
        )


def test_the_first_place_is_that_of_the_fusion(corpus_of):
    """Boosts multiply, so without them the scores are those of the fusion."""
    texts = {name: text for name, text in FILES.items() if name != "twin.md"}
    found = corpus_of(texts).search(
        "alpha", limit=50, exclude_archived=False, explain=True
    )
    assert found.stats["original_count"] == len(found.results)
    fused = sorted(
        found.results,
        key=lambda each: (
            -each.raw_score / math.prod(each.boosts.values()),
            each.path,
            each.start_line,
        ),
    )
    assert [result.places["fused"] for result in fused] == list(
        range(1, len(fused) + 1)
    )
    moved = {stage for result in found.results for stage in result.places}
    assert moved >= {"fused", "named", "saturation"}


def test_nothing_is_told_that_was_not_asked(corpus):
    found = corpus.search("alpha")
    assert found.funnel is None
    assert {result.places for result in found.results} == {None}
    plain = found.to_dict()
    assert "funnel" not in plain
    assert not any("places" in result for result in plain["results"])
    with pytest.raises(UsageError, match="explain"):
        corpus.search("alpha", explain="yes")


def test_the_answer_is_the_same(corpus):
    """To ask why changes nothing."""
    plain, explained = (
        corpus.search("alpha", explain=flag).to_dict() for flag in (False, True)
    )
    told = [result.pop("places") for result in explained["results"]]
    assert all(told)
    assert plain["results"] == explained["results"]
    assert plain["stats"] == explained["stats"]


def test_an_explained_answer_as_json(corpus):
    found = corpus.search("alpha", explain=True)
    told = json.loads(json.dumps(found.to_dict()))
    assert told["funnel"] == [
        {"stage": step.stage, "left": step.left, "ms": step.ms} for step in found.funnel
    ]
    assert [result["places"] for result in told["results"]] == [
        result.places for result in found.results
    ]


@pytest.mark.rows("C46", "C49", "C64", "R002-175", "R002-185")
def test_every_step_of_a_question_with_everything_on(corpus_of, monkeypatch):
    """Classified, expanded, asked of four lanes, fused with the weights of its type,
    calibrated, cut by confidence, made diverse, reranked; and asked by the same `search`.
    """
    monkeypatch.setattr("tamis.models.rerankers.load_reranker", lambda *_: Late())
    files = {
        "auth.md": "Authentication by password asks getAuthToken for a token, see [[login]].\n",
        "login.md": "A password of every user begins here.\n",
        "token.py": "def getAuthToken():\n    return 1\n",
        "other.md": "Sheep eat grass on a meadow.\n",
    }
    everything = {
        "search__query_expansion_enabled": True,
        "search__adaptive_weights_enabled": True,
        "search__rerank_enabled": True,
        "search__dedup_enabled": True,
        "search__min_confidence": 0.01,
        "weights__query_expansion_threshold": -1.0,
        "weights__rerank_budget_ms": 0,
    }
    corpus = corpus_of(files, **everything)
    found = corpus.search("getAuthToken authentication", explain=True)
    assert found.query_type == "factual"
    assert "password" in found.expansion
    steps = ["filter", "embed", "expand", "lanes", "stages"]
    assert [name for name in found.timings_ms if name in steps] == steps
    lanes = {evidence.lane for result in found.results for evidence in result.evidence}
    assert lanes == {"meaning", "words", "code", "links"}
    order = [step.stage for step in found.funnel]
    named = [
        "fused",
        "calibrate",
        "threshold",
        "same meaning",
        "per document",
        "rerank",
        "limit",
    ]
    assert [stage for stage in order if stage in named] == named
    assert found.stats["reranked"] == found.stats["after_doc_limit"] > 1
    assert {result.score_source for result in found.results} == {"rerank"}


@pytest.mark.rows("R002-138")
def test_an_answer_without_candidates(corpus):
    """Each stage was there, and had nothing."""
    found = corpus.search("alpha path:nowhere/**", explain=True)
    assert found.results == ()
    assert {step.left for step in found.funnel} == {0}
