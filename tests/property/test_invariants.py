"""What holds of every answer, whatever the settings: the invariants of the ranking design.

One index, many questions, and settings drawn together: every switch and weight that ranks, presets, a
deterministic stand-in for the cross-encoder. The oracle for "as many as there are" is the funnel's own
arithmetic and, where nothing is ever dropped, the count of allowed passages.
"""

import os
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.corpora import open_corpus, test_settings, write_files
from support.scripted import Noise
from tamis.corpus import Corpus
from tamis.model import Found
from tamis.search.question import STAGE_NAMES
from tamis.settings import PRESETS, SearchSettings
from tamis.weights import Weights

NOW = 1_782_777_600  # 2026-06-30
WORDS = (
    "alpha",
    "beta",
    "gamma",
    "delta",
    "retry",
    "cache",
    "token",
    "river",
    "stone",
    "paper",
    "queue",
    "lamp",
)
BUILT = {
    "chunking__parents": True,
    "chunking__parent_min_chars": 0,
    "chunking__parent_max_chars": 400,
    "chunking__parent_overlap_chars": 40,
    "chunking__child_min_chars": 0,
    "chunking__child_max_chars": 120,
    "chunking__child_overlap_chars": 20,
    "search__query_expansion_enabled": True,
}
# Every setting and weight that ranks or drops, with values of which some are extreme.
DRAWN: dict[str, tuple[Any, ...]] = {
    "path_boost": (1.0, 1.2, 3.0),
    "inner_trust": (0.0, 0.75, 1.0),
    "test_code_penalty": (0.0, 0.3, 0.8, 1.0),
    "preset": tuple(PRESETS),
    "semantic_weight": (0.0, 0.5, 1.0, 3.0),
    "keyword_weight": (0.2, 1.0, 5.0),
    "code_search_enabled": (True, False),
    "code_search_weight": (0.0, 1.0, 4.0),
    "score_trust": (True, False),
    "adaptive_trust": (True, False),
    "keyword_trust": (0.0, 0.8, 2.0),
    "code_trust": (0.0, 0.67, 2.0),
    "graph_trust": (0.0, 1.0, 2.0),
    "similarity_trust": (1.0, 1.5),
    "candidate_depth": (50, 200),
    "adaptive_weights_enabled": (True, False),
    "coherence": (0.0, 0.2, 3.0),
    "saturation": (0.0, 0.5, 0.9, 1.0),
    "named_boost": (1.0, 2.0, 50.0),
    "graph_weight": (0.0, 1.0, 3.0),
    "max_hops": (0, 1, 3),
    "rrf_k_constant": (1, 60, 1000),
    "content_dedup_enabled": (True, False),
    "ngram_dedup_enabled": (True, False),
    "ngram_dedup_threshold": (0.0, 0.5, 1.0),
    "dedup_enabled": (True, False),
    "dedup_similarity_threshold": (0.0, 0.6, 0.95),
    "mmr_enabled": (True, False),
    "mmr_lambda": (0.0, 0.5, 1.0),
    "rerank_top_n": (1, 4, 100),
    "recency_profile": ("off", "docs", "code"),
    "recency_bias": (0.0, 0.5, 1.0),
    "query_expansion_enabled": (True, False),
    "query_expansion_top_k": (1, 5),
    "query_expansion_threshold": (-1.0, 0.5),
    "query_expansion_keywords": (0.0, 0.5),
    "synonyms": ("off", "software"),
    "synonym_weight": (0.3, 2.0),
}
# What is drawn with the question, has its own tests, or says where things are.
NOT_DRAWN = {
    "limit", "min_confidence", "max_chunks_per_doc", "rerank_enabled", "rerank_budget_ms", "rerank_model",
    "exclude_archived", "workspace_filtering", "fallback_threshold", "query_expansion_min_frequency",
    "query_expansion_max_terms", "archive_folder_penalty", "archive_file_penalty", "fields",
}  # fmt: skip
WEIGHTS = {each.name for each in fields(Weights)}
FILTERS = {
    "": lambda path: True,
    "under:docs": lambda path: path.startswith("docs/"),
    "-under:docs": lambda path: not path.startswith("docs/"),
    "path:*.py | file:n3.md": lambda path: path.endswith(".py") or path == "docs/n3.md",
}
chosen = st.lists(
    st.sampled_from(sorted(DRAWN)).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(DRAWN[name]))
    ),
    max_size=12,
).map(dict)
asked = st.fixed_dictionaries(
    {
        "query": st.lists(
            st.sampled_from((*WORDS, "unheard", "retry_token", "n3.md")),
            min_size=1,
            max_size=4,
        ).map(" ".join),
        "limit": st.sampled_from((1, 3, 10, 100)),
        "filter": st.sampled_from(sorted(FILTERS)),
        "min_score": st.sampled_from((0.0, 0.0, 0.3, 0.8, 1.0)),
        "unique": st.booleans(),
        "max_chunks_per_doc": st.sampled_from((0, 2)),
        "rerank": st.booleans(),
        "expand_parents": st.booleans(),
    }
)


def text(number: int) -> str:
    """Words in an order of its own; every seventh file says what another says."""
    start = number - 1 if number % 7 == 6 else number
    sentences = [
        " ".join(
            WORDS[(start * 5 + at * (start % 5 + 1) + line) % len(WORDS)]
            for at in range(9)
        )
        + f" n{start * 31 + line}"
        for line in range(start % 6 + 1)
    ]
    return (
        f"# {WORDS[start % 12]} {start}\n\n"
        + ". ".join(sentences)
        + f". [[n{(number * 3) % 20}]]\n"
    )


def files() -> dict[str, str]:
    found = {
        f"{'docs' if number % 2 else 'notes'}/n{number}.md": text(number)
        for number in range(36)
    }
    found |= {
        f"src/c{at}.py": f"def retry_token_{at}(cache):\n    return cache + {at}\n"
        for at in range(6)
    }
    # So many say the same, and it is the best for some questions, that lanes have to be asked again.
    found |= {
        f"docs/same{at}.md": "# alpha beta lamp\n\nalpha beta lamp alpha beta lamp\n"
        for at in range(60)
    }
    return found | {"archive/old.md": text(3) + "once more\n"}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Iterator[Corpus]:
    root = write_files(tmp_path_factory.mktemp("invariants"), files())
    for at, file in enumerate(
        sorted(path for path in root.rglob("*") if path.is_file())
    ):
        os.utime(file, (NOW - at * 40_000, NOW - at * 40_000))
    with open_corpus(root, **BUILT) as corpus:
        yield corpus


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    monkeypatch.setattr("tamis.models.rerankers.load_reranker", lambda *_: Noise())
    monkeypatch.setattr("tamis.corpus.time.time", lambda: float(NOW))


def section_of(name: str) -> str:
    return "weights" if name in WEIGHTS else "search"


def configured(built: Corpus, drawn: dict[str, Any]) -> Corpus:
    flags = (
        BUILT
        | {"weights__rerank_budget_ms": 0}
        | {f"{section_of(name)}__{name}": value for name, value in drawn.items()}
    )
    return Corpus(built.root, built.directory, test_settings(built.root, **flags))


def examples(count: int) -> settings:
    every = list(HealthCheck)
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=every,
    )


def said(found: Found) -> dict[str, Any]:
    answer = found.to_dict()
    for step in answer.get("funnel", ()):
        del step["ms"]
    return {name: value for name, value in answer.items() if name != "timings_ms"}


def test_every_key_is_drawn_or_accounted_for():
    """A new key of [search] joins the combinations, or somebody says why not."""
    assert {
        each.name for each in fields(SearchSettings)
    } | WEIGHTS == DRAWN.keys() | NOT_DRAWN


@pytest.mark.slow
@pytest.mark.rows("R002-186", "R002-187", "R002-188", "R002-001")
@examples(150)
@given(chosen, st.lists(asked, min_size=2, max_size=4))
def test_invariants_of_an_answer(built, drawn, questions):
    """Bounded, scored in 0..1, falling, the same when asked again and whatever was asked in
    between."""
    with configured(built, drawn) as corpus:
        first = [corpus.search(**question, explain=True) for question in questions]
        again = [
            corpus.search(**question, explain=True) for question in reversed(questions)
        ]
    with configured(built, drawn) as other:
        anew = [other.search(**question, explain=True) for question in questions]
    assert [said(found) for found in first] == [
        said(found) for found in reversed(again)
    ]
    assert [said(found) for found in first] == [said(found) for found in anew]
    for question, found in zip(questions, first, strict=True):
        check_scores(found, question)
        check_funnel(found, question)
        check_places(found)


def check_scores(found: Found, question: dict[str, Any]) -> None:
    scores = [result.score for result in found.results]
    assert len(scores) <= question["limit"]
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert scores == sorted(scores, reverse=True)
    if not question["rerank"]:
        assert all(score >= question["min_score"] for score in scores)
    assert all(result.raw_score >= 0.0 for result in found.results)
    allowed = FILTERS[question["filter"]]
    shown = {result.path for result in found.results}
    shown |= {place.path for result in found.results for place in result.also_in}
    assert all(allowed(path) for path in shown)
    assert not any(path.startswith("archive/") for path in shown)
    assert len({result.chunk_id for result in found.results}) == len(found.results)
    if question["unique"]:
        assert len({result.path for result in found.results}) == len(found.results)


def check_funnel(found: Found, question: dict[str, Any]) -> None:
    """Counts never rise, and nothing is lost between the last stage that drops and the limit."""
    left = {step.stage: step.left for step in found.funnel}
    assert list(left) == ["fused", *STAGE_NAMES]
    assert all(after <= before for before, after in pairwise(left.values()))
    assert (
        len(found.results) == left["limit"] == min(question["limit"], left["parents"])
    )
    for stage in (
        "named",
        "file name",
        "aside",
        "coherence",
        "recency",
        "archive",
        "saturation",
        "calibrate",
    ):
        assert left[stage] == left["fused"]
    assert left["mmr"] == left["same meaning"]
    assert left["rerank"] == left["per document"]


def check_places(found: Found) -> None:
    """Where a result stands at the end is its place in the answer."""
    for number, result in enumerate(found.results, start=1):
        assert list(result.places.values())[-1] == number
        assert next(iter(result.places)) == "fused"


KEEPING = {
    "content_dedup_enabled": False,
    "ngram_dedup_enabled": False,
    "dedup_enabled": False,
}


@pytest.mark.rows("R002-186", "R000-025", "R000-038")
@examples(60)
@given(chosen, asked)
def test_as_many_as_there_are(built, drawn, question):
    """Without a threshold and nothing that drops, `min(limit, eligible)`."""
    drawn = {
        name: value for name, value in drawn.items() if name != "semantic_weight"
    } | KEEPING
    question = question | {
        "min_score": 0.0,
        "unique": False,
        "max_chunks_per_doc": 0,
        "expand_parents": False,
    }
    with configured(built, drawn) as corpus:
        found = corpus.search(**question)
    assert len(found.results) == min(
        question["limit"], eligible(built, question["filter"])
    )


def eligible(built: Corpus, chosen: str) -> int:
    """How many passages a filter lets through."""
    return len(passages(built, chosen))


def passages(built: Corpus, chosen: str) -> list[str]:
    """The texts that a filter lets through: those in the index, by their paths, white space aside."""
    with built.snapshot() as snapshot:
        rows = snapshot.connection.execute(
            "SELECT d.path, c.content FROM chunks c JOIN documents d ON d.id = c.document"
        ).fetchall()
    shown = (
        row
        for row in rows
        if FILTERS[chosen](row[0]) and not row[0].startswith("archive/")
    )
    return [" ".join(content.split()) for _, content in shown]


@pytest.mark.rows("R002-186", "R000-025", "R002-093")
@examples(40)
@given(chosen, asked, st.sampled_from(("alpha beta lamp", "lamp beta alpha")))
def test_as_many_as_there_are_texts(built, drawn, question, query):
    """What is said often counts once, and does not take the others' places."""
    drawn = {
        name: value for name, value in drawn.items() if name != "semantic_weight"
    } | KEEPING
    question = question | {
        "min_score": 0.0,
        "unique": False,
        "max_chunks_per_doc": 0,
        "query": query,
    }
    question["expand_parents"] = False
    with configured(built, drawn | {"content_dedup_enabled": True}) as corpus:
        found = corpus.search(**question)
    assert len(found.results) == min(
        question["limit"], len(set(passages(built, question["filter"])))
    )


@pytest.mark.rows("R002-099", "R000-025")
@examples(40)
@given(chosen, asked)
def test_one_of_each_document_where_that_is_wanted(built, drawn, question):
    """A full answer where there are documents enough, however often one is best."""
    drawn = {
        name: value for name, value in drawn.items() if name != "semantic_weight"
    } | KEEPING
    question = question | {"min_score": 0.0, "unique": True}
    with configured(built, drawn) as corpus:
        found = corpus.search(**question)
    documents = sum(
        FILTERS[question["filter"]](path) for path in files() if "archive" not in path
    )
    assert len(found.results) == min(question["limit"], documents)
