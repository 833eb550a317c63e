"""Every measured constant of ranking does something: one test for each, with its name."""

import math
from dataclasses import fields

import pytest

from support.corpora import RANKS_ALONE
from tamis.model import Evidence, Found
from tamis.weights import FIELD_WEIGHTS, Weights

ANIMALS = {
    f"{name}.md": f"The {name} eats grass and {name} hay.\n"
    for name in ("cow", "horse", "sheep")
}
BOOK = {
    "book.md": "".join(
        f"# Part {part}\n\n{'grass ' * 60}{part}\n" for part in range(5)
    ),
    "a.md": "grass",
}
CODE = {"a.py": "def getUserById(key):\n    return key\n"}
NO_CODE = {"search__code_search_enabled": False}


def test_each_constant_has_a_test():
    tests = {name for name in globals() if name.startswith("test_")}
    assert {f"test_{each.name}" for each in fields(Weights)} <= tests


def paths(found: Found) -> list[str]:
    return [result.path for result in found.results]


def evidence(found: Found, lane: str) -> list[Evidence]:
    return [e for result in found.results for e in result.evidence if e.lane == lane]


def best_score(found: Found, lane: str = "words") -> float:
    return max((each.score for each in evidence(found, lane)), default=0.0)


# --- trust ----------------------------------------------------------------------------------


@pytest.mark.rows("C28")
def test_score_trust(corpus_of):
    """Behind the best of its lane, a hit counts less, down to a fifth."""
    for switch, least in ((False, 1.0), (True, 0.2)):
        found = corpus_of(ANIMALS, weights__score_trust=switch, **NO_CODE).search("cow")
        trusts = [each.confidence for each in evidence(found, "meaning")]
        assert max(trusts) == 1.0
        assert min(trusts) == pytest.approx(least, abs=0.005)


@pytest.mark.rows("C28")
def test_adaptive_trust(corpus_of):
    """One passage has the word, and the meaning lane has it first, too: the most there can be."""
    grown = 0.2 * math.exp(1.6 * 0.6 + 0.8 * 0.5)
    for switch, trust, expected in (
        (False, 0.8, 0.8),
        (True, 0.8, 2.0),
        (True, 0.2, grown),
    ):
        flags = {"weights__adaptive_trust": switch, "weights__keyword_trust": trust}
        found = corpus_of(ANIMALS, **flags, **NO_CODE).search("cow")
        assert evidence(found, "words")[0].confidence == pytest.approx(expected)


def trusts_of(corpus_of, lane: str, **flags: float) -> dict[str, float]:
    files = {**CODE, "b.md": "See [[a.py]] for getUserById.\n"}
    found = corpus_of(files, weights__adaptive_trust=False, **flags)
    return {
        result.path: each.confidence
        for result in found.search("getUserById").results
        for each in result.evidence
        if each.lane == lane
    }


def is_halved(corpus_of, lane: str, name: str) -> bool:
    whole = trusts_of(corpus_of, lane, **{name: 1.0})
    half = trusts_of(corpus_of, lane, **{name: 0.5})
    expected = {path: pytest.approx(trust / 2) for path, trust in whole.items()}
    return bool(whole) and half == expected


@pytest.mark.rows("C28", "R001-055")
def test_keyword_trust(corpus_of):
    assert is_halved(corpus_of, "words", "weights__keyword_trust")


@pytest.mark.rows("C28", "R001-055")
def test_code_trust(corpus_of):
    assert is_halved(corpus_of, "code", "weights__code_trust")


@pytest.mark.rows("C28", "R001-055")
def test_graph_trust(corpus_of):
    assert is_halved(corpus_of, "links", "weights__graph_trust")


@pytest.mark.rows("C28", "R001-055")
def test_similarity_trust(corpus_of):
    """Where the cosine is above 0.9, and nowhere else."""
    for factor in (1.0, 1.5):
        flags = {"weights__similarity_trust": factor, **RANKS_ALONE}
        found = corpus_of(ANIMALS, **flags).search("The cow eats grass and cow hay.")
        best, second, *_ = evidence(found, "meaning")
        assert best.score > 0.9 > second.score
        assert (best.confidence, second.confidence) == (factor, 1.0)


def test_inner_trust(corpus_of):
    """The meaning lane counts less behind a document's beginning, but not in code."""
    files = {
        "a.md": "# Grass\n\nAbout grass.\n\n## Cows\n\nCows eat grass.\n",
        "src/a.py": "import grass\n\n\ndef eat():\n    return grass\n",
    }
    for trust in (0.3, 1.0):
        flags = {**RANKS_ALONE, "weights__inner_trust": trust}
        found = corpus_of(files, chunking__min_chars=0, **flags).search("grass")
        assert len(found.results) > 2
        for result in found.results:
            is_inner = (result.path, result.start_line) == ("a.md", 5)
            for each in result.evidence:
                is_less = is_inner and each.lane == "meaning"
                assert each.confidence == (trust if is_less else 1.0)


def test_candidate_depth(corpus_of):
    many = {f"{number}.md": f"grass {number}" for number in range(120)}
    for depth in (50, 80):
        flags = {"weights__candidate_depth": depth, "search__keyword_weight": 0}
        found = corpus_of(many, **flags).search("grass")
        assert found.stats["original_count"] == depth


# --- factors --------------------------------------------------------------------------------


@pytest.mark.rows("C28", "R001-055")
def test_named_boost(corpus_of):
    (once,) = corpus_of(CODE, weights__named_boost=1).search("getUserById").results
    (thrice,) = corpus_of(CODE, weights__named_boost=3).search("getUserById").results
    assert thrice.raw_score == pytest.approx(3 * once.raw_score)
    assert (once.boosts, thrice.boosts) == ({}, {"named": 3.0})


SOURCES = {
    "src/session.py": "def keep():\n    return 1\n",
    "tests/test_it.py": "def keep():\n    return 2\n",
}


def test_path_boost(corpus_of):
    for factor in (1.0, 1.7):
        corpus = corpus_of(SOURCES, weights__path_boost=factor)
        found = corpus.search("how does a session keep")
        boosts = {
            each.path: each.boosts.get("file name", 1.0) for each in found.results
        }
        assert boosts == {"src/session.py": factor, "tests/test_it.py": 1.0}


def test_test_code_penalty(corpus_of):
    for factor in (1.0, 0.3):
        corpus = corpus_of(SOURCES, weights__test_code_penalty=factor)
        found = corpus.search("how does a session keep")
        boosts = {each.path: each.boosts.get("aside", 1.0) for each in found.results}
        assert boosts == {"src/session.py": 1.0, "tests/test_it.py": factor}


def test_coherence(corpus_of):
    """The best passage of a document gets a share of the third and those after it."""
    plain = corpus_of(BOOK, **RANKS_ALONE).search("grass", limit=9).results
    scores = [result.raw_score for result in plain if result.path == "book.md"]
    flags = RANKS_ALONE | {"weights__coherence": 0.5}
    found = corpus_of(BOOK, **flags).search("grass", limit=9).results
    first, *others = [result.boosts for result in found if result.path == "book.md"]
    assert len(scores) == 5
    assert first["coherence"] == pytest.approx(1 + 0.5 * sum(scores[2:]) / scores[0])
    assert others == [{}] * 4


def test_saturation(corpus_of):
    for factor, expected in ((1, [None] * 5), (0.5, [None, 0.5, 0.25, 0.125, 0.0625])):
        flags = RANKS_ALONE | {"weights__saturation": factor}
        found = corpus_of(BOOK, **flags).search("grass", limit=9).results
        of_book = [result.boosts for result in found if result.path == "book.md"]
        assert [boosts.get("saturation") for boosts in of_book] == expected


ARCHIVED = {
    "archive/a.md": "grass",
    "b.md.old": "grass too",
    "archive/c.old": "grass three",
}


@pytest.mark.rows("R001-047", "C24")
def test_archive_folder_penalty(corpus_of):
    """A file of an archived kind in an archived folder gets the smaller factor."""
    flags = {
        "weights__archive_folder_penalty": 0.25,
        "weights__archive_file_penalty": 1,
    }
    found = corpus_of(ARCHIVED, **flags).search("grass", exclude_archived=False)
    assert {result.path: result.boosts for result in found.results} == {
        "archive/a.md": {"archive": 0.25},
        "b.md.old": {},
        "archive/c.old": {"archive": 0.25},
    }


@pytest.mark.rows("R001-048", "C24")
def test_archive_file_penalty(corpus_of):
    whole = {"weights__archive_folder_penalty": 1, "weights__archive_file_penalty": 1}
    plain = corpus_of(ARCHIVED, **whole).search("grass", exclude_archived=False)
    scores = {result.path: result.raw_score for result in plain.results}
    flags = whole | {"weights__archive_file_penalty": 0.75}
    found = corpus_of(ARCHIVED, **flags).search("grass", exclude_archived=False)
    for result in found.results:
        factor = 0.75 if result.path.endswith(".old") else 1.0
        assert result.boosts == ({} if factor == 1.0 else {"archive": factor})
        assert result.raw_score == pytest.approx(scores[result.path] * factor)


# --- stages ---------------------------------------------------------------------------------


def test_content_dedup_enabled(corpus_of):
    twins = {"a.md": "the same text", "b.md": "the  same\ntext"}
    for switch, shown in ((True, ["a.md"]), (False, ["a.md", "b.md"])):
        corpus = corpus_of(twins, weights__content_dedup_enabled=switch)
        assert paths(corpus.search("same")) == shown


@pytest.mark.rows("R002-071", "C65")
def test_rerank_budget_ms(corpus_of, monkeypatch):
    class Slow:
        """A reranker that takes ten milliseconds for a passage by its own account."""

        name = "slow"

        def scores(
            self, query: str, passages: list[str], seconds: float = 0.0
        ) -> list[float]:
            fit = round(seconds * 100) if seconds else len(passages)
            return [float(number) for number in range(len(passages))][:fit]

    monkeypatch.setattr("tamis.models.rerankers.load_reranker", lambda *_: Slow())
    for budget, reranked in ((150, 3), (20, 2), (10, 0), (0, 3)):
        flags = {"search__rerank_enabled": True, "weights__rerank_budget_ms": budget}
        found = corpus_of(ANIMALS, **flags).search("cow")
        assert found.stats["reranked"] == reranked


EXPANDING = {
    "search__query_expansion_enabled": True,
    "weights__query_expansion_threshold": -1.0,
    "weights__query_expansion_top_k": 10,
}
POLICIES = {
    **{
        f"{n}.md": f"retry policy and backoff {'jitter' if n < 3 else 'delays'} {n}\n"
        for n in range(5)
    },
    "once.md": "retried zigzag\n",
}


def added(corpus_of, **flags: float) -> tuple[str, ...]:
    found = corpus_of(POLICIES, **EXPANDING | flags).search("retry")
    return tuple(found.expansion)


@pytest.mark.rows("R002-036")
def test_query_expansion_top_k(corpus_of):
    for most in (1, 2):
        assert len(added(corpus_of, weights__query_expansion_top_k=most)) == most


@pytest.mark.rows("R002-036")
def test_query_expansion_threshold(corpus_of):
    assert added(corpus_of, weights__query_expansion_threshold=-1.0)
    assert added(corpus_of, weights__query_expansion_threshold=0.999) == ()


@pytest.mark.rows("R002-027")
def test_query_expansion_min_frequency(corpus_of):
    for least, terms in (
        (1, {"policy", "backoff", "jitter", "delays", "zigzag"}),
        (2, {"policy", "backoff", "jitter", "delays"}),
        (3, {"policy", "backoff", "jitter"}),
    ):
        found = added(corpus_of, weights__query_expansion_min_frequency=least)
        assert set(found) == terms


@pytest.mark.rows("R002-037")
def test_query_expansion_max_terms(corpus_of):
    """The third of the most frequent terms is the word of the question."""
    found = added(corpus_of, weights__query_expansion_max_terms=3)
    assert set(found) == {"policy", "backoff"}


@pytest.mark.rows("R002-033")
def test_query_expansion_keywords(corpus_of):
    """The words lane may have the terms, too."""
    files = POLICIES | {"other.md": "backoff alone, backoff again\n"}
    for weight in (0, 0.5):
        flags = EXPANDING | {"weights__query_expansion_keywords": weight}
        found = corpus_of(files, **flags).search("retry", limit=20)
        assert "backoff" in found.expansion
        (other,) = [result for result in found.results if result.path == "other.md"]
        assert ("words" in {each.lane for each in other.evidence}) is bool(weight)


def test_synonym_weight(corpus_of):
    files = {"a.md": "the repository\n", "b.md": "grass\n"}
    flags = {"search__synonyms": "software", "search__semantic_weight": 0.0}
    some = corpus_of(files, weights__synonym_weight=0.3, **flags).search("repo")
    more = corpus_of(files, weights__synonym_weight=0.6, **flags).search("repo")
    assert best_score(more) == pytest.approx(2 * best_score(some)) != 0


# --- fields ---------------------------------------------------------------------------------

IN_FIELD = {
    "title": ("a.md", "---\ntitle: zebra\n---\ntext\n"),
    "headers": ("a.md", "# Zebra\n\ntext\n"),
    "keywords": ("a.md", "---\nkeywords: [zebra]\n---\ntext\n"),
    "description": ("a.md", "---\ndescription: zebra\n---\ntext\n"),
    "tags": ("a.md", "---\ntags: [zebra]\n---\ntext\n"),
    "aliases": ("a.md", "---\naliases: [zebra]\n---\ntext\n"),
    "author": ("a.md", "---\nauthor: zebra\n---\ntext\n"),
    "category": ("a.md", "---\ncategory: zebra\n---\ntext\n"),
    "body": ("a.md", "zebra\n"),
    "symbols": ("a.py", "def zebra_skin():\n    pass\n"),
    "path": ("zebra_skin.md", "text\n"),
    "code": ("a.py", "print(zebra_skin)\n"),
}
OF_CODE = ("symbols", "path", "code")


@pytest.mark.rows("R002-130", "C47", "C55")
@pytest.mark.parametrize("field", FIELD_WEIGHTS)
def test_fields(corpus_of, field):
    """A word counts nothing at 0, and more with a larger weight."""
    path, text = IN_FIELD[field]
    files = {path: text, "b.md": "something else"}
    lane, question, others = "words", "zebra", {}
    if field in OF_CODE:
        lane, question = "code", "zebra_skin"
        others = {f"fields__{name}": 0.0 for name in OF_CODE if name != field}
    scores = []
    for weight in (0.0, 1.0, 9.0):
        corpus = corpus_of(files, **others | {f"fields__{field}": weight})
        scores.append(best_score(corpus.search(question), lane))
    assert scores[0] < scores[1] < scores[2]
    if field != "headers":  # the words of a heading are in other fields as well
        assert scores[0] == 0
