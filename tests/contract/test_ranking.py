"""The stages of ranking through an index: what an answer keeps, how it is filled, and what its scores mean."""

import math
import os

import pytest

from support.corpora import RANKS_ALONE, open_corpus, write_files
from tamis.models.hashing import HashingEmbedder
from tamis.search.extras.recency import age_factor
from tamis.settings import SearchSettings

# --- Stages ------------------------------------------------------------------------------------


@pytest.mark.rows("R001-056", "X2")
@pytest.mark.parametrize("limit", [5, 20, 40])
def test_first_many_then_the_best_of_them(limit, corpus_of):
    """Each lane gives three times the limit and more; fusion by rank and boosts decide then."""
    files = {f"{n:03}.md": f"alpha {'beta ' * n}" for n in range(200)}
    found = corpus_of(files, **RANKS_ALONE, search__recency_profile="code").search(
        "alpha beta", limit=limit
    )
    assert len(found.results) == limit
    assert found.stats["original_count"] >= 3 * limit
    for result in found.results:
        lanes = {evidence.lane: evidence.rank for evidence in result.evidence}
        assert set(result.boosts) <= {"recency"}
        sums = sum(1 / (60 + rank) for rank in lanes.values()) * result.boosts.get(
            "recency", 1.0
        )
        assert result.raw_score == pytest.approx(sums)


@pytest.mark.rows("C04", "C26", "C83")
def test_the_limit_is_filled_however_many_copies_stand_above(corpus_of):
    """Asking deeper until the answer is full or nothing is left."""
    copies = {f"copy{number:03}.md": "alpha alpha alpha" for number in range(150)}
    others = {
        f"other{number}.md": f"alpha number{number} and some more words of its own"
        for number in range(4)
    }
    found = corpus_of(copies | others).search("alpha", limit=5)
    assert len(found.results) == 5
    assert len({result.content for result in found.results}) == 5
    assert found.stats["after_content_dedup"] == 5


@pytest.mark.rows("R004-004")
def test_no_lane_is_asked_again_once_the_answer_is_full(corpus_of):
    """What the stages left is counted after each look, and it ends where there is enough."""
    copies = {f"copy{number:03}.md": "alpha alpha alpha" for number in range(150)}
    others = {
        f"other{number}.md": f"alpha number{number} and some words of its own"
        for number in range(4)
    }
    corpus = corpus_of(copies | others)
    few, more = corpus.search("alpha", limit=1), corpus.search("alpha", limit=5)
    assert (len(few.results), few.stats["scanned_chunks"]) == (1, 154), "one look"
    assert len(more.results) == 5
    assert more.stats["scanned_chunks"] == 2 * 154, (
        "another, because the first was full of copies"
    )


@pytest.mark.rows("R000-054", "C15", "C83")
def test_one_per_document_fills_the_limit(corpus_of):
    """A long document that takes all the first places does not shorten the answer."""
    book = "".join(
        f"# Alpha {number}\n\n{'alpha ' * 40}{number}\n\n" for number in range(120)
    )
    notes = {f"note{number}.md": f"alpha once in note {number}" for number in range(4)}
    found = corpus_of({"book.md": book} | notes).search("alpha", limit=5, unique=True)
    assert sorted(result.path for result in found.results) == [
        "book.md",
        *sorted(notes),
    ]


@pytest.mark.rows("R002-139")
def test_an_answer_that_the_threshold_cut_is_final(corpus_of):
    """It is what it would be with all ranks looked at."""
    corpus = corpus_of(
        {f"f{number:03}.md": f"alpha {'beta ' * number}" for number in range(100)}
    )
    full = corpus.search("alpha", limit=100)
    assert len(full.results) == full.stats["scanned_chunks"] == 100
    for place in (0, 3, 9):
        least = full.results[place].score
        found = corpus.search("alpha", limit=12, min_score=least)
        expected = [result.path for result in full.results if result.score >= least]
        assert [result.path for result in found.results] == expected[:12]
        assert found.stats["scanned_chunks"] == 100, "the lanes were asked once"
    assert corpus.search("alpha", limit=12, min_score=1.0).results == ()


@pytest.mark.rows("R000-037", "R000-058", "R002-101", "R002-102", "C44")
def test_the_funnel_of_an_answer(corpus_of):
    """The counts only fall, and kept out is not counted."""
    files = {f"f{number}.md": "alpha same" for number in range(6)} | {
        "g.md": "alpha",
        "h.md": "alpha too",
    }
    stats = (
        corpus_of(files)
        .search("alpha", excluded_files=["f0.md"], min_score=0.1, limit=2)
        .stats
    )
    assert (
        stats["original_count"],
        stats["eligible_documents"],
        stats["excluded_documents"],
    ) == (7, 7, 1)
    falling = [
        "original_count",
        "after_threshold",
        "after_content_dedup",
        "after_ngram_dedup",
        "after_dedup",
    ]
    counts = [stats[name] for name in (*falling, "after_doc_limit")]
    assert counts == sorted(counts, reverse=True)
    assert stats["after_content_dedup"] == 3
    assert stats["clusters_merged"] == 0


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


# --- Calibration -------------------------------------------------------------------------------

GARDEN = {
    "pruning.md": "# Pruning apple trees\n\nCut in winter, before the buds open.\n",
    "watering.md": "# Watering\n\nIn the evening, and never the leaves.\n",
    "soil.md": "# Soil\n\nLoam holds water; sand does not. See [[watering]].\n",
}


@pytest.mark.rows("C50", "R002-139", "R002-142")
@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"model__name": "none"},
        {"search__semantic_weight": 0},
        {"search__max_hops": 0},
        {"search__semantic_weight": 7, "search__rrf_k_constant": 1},
        {"search__keyword_weight": 0.1, "search__rrf_k_constant": 900},
    ],
    ids=str,
)
def test_an_exact_title_is_kept_and_what_has_nothing_to_do_is_not(flags, corpus_of):
    """At 0.3, for any lanes, weights and k."""
    corpus = corpus_of(GARDEN, **flags)
    assert (
        corpus.search("Pruning apple trees", min_score=0.3).results[0].path
        == "pruning.md"
    )
    assert corpus.search("quantum chromodynamics lattice", min_score=0.3).results == ()


@pytest.mark.rows("C50")
def test_words_that_are_rarer_count_for_more(corpus_of):
    """Of two questions of two words, the one whose rare word is there is better answered."""
    files = {f"{n}.md": f"common text number{n}" for n in range(9)} | {
        "rare.md": "zebra only"
    }
    corpus = corpus_of(files, model__name="none")
    rare, common = (
        corpus.search(text).results[0].score
        for text in ("zebra missing", "common missing")
    )
    assert rare > common


@pytest.mark.rows("C50")
def test_the_curve_is_the_models(corpus_of, monkeypatch):
    """What a cosine says depends on the model."""
    corpus = corpus_of(GARDEN, search__keyword_weight=0, search__max_hops=0)
    scores = []
    for related in ((0.9, 20.0), (0.1, 20.0)):
        monkeypatch.setattr(HashingEmbedder, "related", related)
        (best, *_) = corpus.search("evening").results
        cosine = next(each.score for each in best.evidence if each.lane == "meaning")
        by_words = sigmoid(2.5)  # the only word is there
        grounded = 1 - (1 - sigmoid(related[1] * (cosine - related[0]))) * (
            1 - by_words
        )
        assert (best.path, best.score) == ("watering.md", pytest.approx(grounded))
        scores.append(best.score)
    assert scores[0] < scores[1]


NOW = 1_790_000_000.0
DAY = 86_400.0


# --- Recency -----------------------------------------------------------------------------------


def corpus_at(tmp_path, ages, **flags):
    """Files that are so many days old, all alike but for a word of their own."""
    root = write_files(
        tmp_path / "root", {f"{name}.md": f"grass {name * 9}" for name in ages}
    )
    for name, days in ages.items():
        os.utime(root / f"{name}.md", (NOW - days * DAY, NOW - days * DAY))
    return open_corpus(root, **flags)


@pytest.fixture
def stopped(monkeypatch):
    monkeypatch.setattr("tamis.corpus.time.time", lambda: NOW)


@pytest.mark.rows("R001-034", "R001-044..046", "R001-053")
@pytest.mark.parametrize(
    ("profile", "order"), [("off", "abc"), ("docs", "cba"), ("code", "cba")]
)
def test_recent_documents_rise(tmp_path, stopped, profile, order):
    """Ties by path become an order by age; the factor is in the boosts."""
    flags = {
        "model__name": "none",
        "search__recency_profile": profile,
        "search__code_search_enabled": False,
    }
    with corpus_at(tmp_path, {"a": 400, "b": 20, "c": 2}, **flags) as corpus:
        found = corpus.search("grass")
        assert [result.path[0] for result in found.results] == list(order)
        for result in found.results:
            days = {"a": 400, "b": 20, "c": 2}[result.path[0]]
            aged = age_factor(days, SearchSettings(recency_profile=profile))
            expected = 1.0 if profile == "off" else aged
            assert result.boosts.get("recency", 1.0) == expected
            assert [result.score for result in found.results] == sorted(
                (result.score for result in found.results), reverse=True
            )


def test_what_has_not_been_seen_may_be_new(tmp_path, stopped):
    """The lanes are asked deeper while something unseen could rise above the last result."""
    ages = {f"{number:03}": 4000 for number in range(100)}
    root = write_files(
        tmp_path / "root",
        {
            **{f"{name}.md": f"grass grass grass {name} {name}" for name in ages},
            "new.md": "grass " + "hay straw " * 30,
        },
    )
    for name in ages:
        os.utime(root / f"{name}.md", (NOW - 4000 * DAY, NOW - 4000 * DAY))
    os.utime(root / "new.md", (NOW, NOW))
    flags = {
        "model__name": "none",
        "search__recency_profile": "code",
        "search__recency_bias": 1.0,
    }
    with open_corpus(root, **flags) as corpus:
        best = corpus.search("grass", limit=1).results[0]
    assert (best.path, best.boosts["recency"]) == ("new.md", 2.0)


@pytest.mark.rows("R002-064")
@pytest.mark.parametrize(
    "flags",
    [{}, {"search__synonyms": "software", "weights__synonym_weight": 0.0}],
    ids=["off", "without weight"],
)
def test_synonyms_that_are_off_add_nothing(flags, corpus_of):
    found = corpus_of({"a.md": "the repository"}, model__name="none", **flags)
    assert found.search("repo").synonyms == ()
