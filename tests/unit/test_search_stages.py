"""The stages of a search, each against arithmetic by hand or a plain second implementation."""

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.stages import lookups, staged
from tamis.model import Candidate, Evidence, Passage
from tamis.search.dedup import per_document, same_text, threshold
from tamis.search.fuse import Trust, fuse, standings, trust_in_words
from tamis.search.pipeline import (
    Clock,
    first_depth,
    lane_weights,
    largest_boost,
    run_stages,
)
from tamis.search.question import STAGE_NAMES, Question
from tamis.search.scores import archive, archive_factor
from tamis.settings import ArchiveSettings, SearchSettings
from tamis.text.words import text_hash
from tamis.weights import Weights

LAW = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a noisy machine is no fault

BOTH = {"meaning": 1.0, "words": 1.0}


def passage(path: str, ordinal: int = 0, content: str = "") -> Passage:
    text = content or f"{path} {ordinal}"
    return Passage(
        path, ordinal, text, text_hash(text), "", 1, 1, "documentation", None, 0.0, ()
    )


def ranking(*paths: str) -> list[tuple[Passage, float]]:
    return [(passage(path), 100.0 - at) for at, path in enumerate(paths)]


def candidate(
    path: str, score: float, ordinal: int = 0, content: str = ""
) -> Candidate:
    return Candidate(passage(path, ordinal, content), score, score, ())


def order(candidates: list[Candidate]) -> list[str]:
    return [each.passage.path for each in candidates]


# --- Fusion ------------------------------------------------------------------------------


@pytest.mark.rows("R001-037", "R001-038", "R001-039", "R001-052", "R002-017")
def test_fusion_by_hand():
    """The sum of 1 / (k + rank), k = 60, best first."""
    fused = fuse(
        {"meaning": ranking("a", "b", "c"), "words": ranking("b", "d")}, BOTH, 60
    )
    assert order(fused) == ["b", "a", "d", "c"]
    expected = {"b": 1 / 62 + 1 / 61, "a": 1 / 61, "d": 1 / 62, "c": 1 / 63}
    for each in fused:
        assert each.raw_score == pytest.approx(expected[each.passage.path], rel=1e-15)
        assert each.score == pytest.approx(
            expected[each.passage.path] / (2 / 61), rel=1e-15
        )


@pytest.mark.rows("R001-037", "C25")
def test_evidence_says_which_lane_where_and_how_much():
    """Sources are kept, a lane's own scores are carried along and never added up."""
    fused = fuse({"meaning": ranking("a", "b"), "words": ranking("b")}, BOTH, 60)
    evidence = {each.passage.path: each.evidence for each in fused}
    assert evidence["b"] == (Evidence("meaning", 2, 99.0), Evidence("words", 1, 100.0))
    assert evidence["a"] == (Evidence("meaning", 1, 100.0),)


@pytest.mark.rows("C25")
def test_a_lanes_own_scores_do_not_matter():
    """Ranks alone."""
    small = {
        "meaning": [(passage("a"), 0.9), (passage("b"), 0.8)],
        "words": [(passage("b"), 1.0)],
    }
    large = {
        "meaning": [(passage("a"), 900.0), (passage("b"), 1e-9)],
        "words": [(passage("b"), -5.0)],
    }
    assert [each.raw_score for each in fuse(small, BOTH, 60)] == [
        each.raw_score for each in fuse(large, BOTH, 60)
    ]


@pytest.mark.rows("R002-018", "R002-177", "R002-178", "R002-180")
def test_weights_and_k():
    rankings = {"meaning": ranking("a", "b"), "words": ranking("b", "a")}
    assert order(fuse(rankings, {"meaning": 2.0, "words": 1.0}, 60)) == ["a", "b"]
    assert order(fuse(rankings, {"meaning": 1.0, "words": 2.0}, 60)) == ["b", "a"]
    best = fuse(rankings, {"meaning": 2.0, "words": 1.0}, 1)[0]
    assert best.raw_score == pytest.approx(2 / 2 + 1 / 3)
    assert best.score == pytest.approx((2 / 2 + 1 / 3) / (3 / 2))


@pytest.mark.rows("C50")
def test_first_in_every_lane_is_one_whatever_the_lanes():
    """Confidence does not depend on the number of lanes, their weights or k."""
    for weights in (BOTH, {"meaning": 3.0, "words": 0.1}):
        for k in (1, 60, 1000):
            for lanes in (("meaning",), ("words",), ("meaning", "words")):
                fused = fuse({lane: ranking("a", "b") for lane in lanes}, weights, k)
                assert fused[0].score == pytest.approx(1.0)
                assert fused[0].score <= 1.0


def test_ties_go_to_the_earlier_path_and_position():
    rows = [passage("b", 0), passage("a", 2), passage("a", 10), passage("a", 1)]
    for shift in range(4):
        turned = rows[shift:] + rows[:shift]
        rankings = {"meaning": [(turned[0], 1.0)], "words": [(turned[1], 1.0)]}
        first, second = fuse(rankings, BOTH, 60)
        assert first.raw_score == second.raw_score
        assert first.passage.position < second.passage.position


def test_no_lane_no_candidates():
    assert fuse({}, {}, 60) == []
    assert fuse({"words": []}, BOTH, 60) == []


def scored(*scores: float) -> list[tuple[Passage, float]]:
    return [(passage(f"{at:03}"), score) for at, score in enumerate(scores)]


@pytest.mark.rows("C28")
def test_a_standing_by_hand():
    """The best of a lane is 1, its fiftieth a fifth, halfway is the root of that; so is what
    follows."""
    cosines = [0.8, 0.7, *[0.6] * 47, 0.4, 0.3, 0.2]
    assert len(cosines) == 52
    expected = [1.0, 0.2**0.25, *[0.2**0.5] * 47, 0.2, 0.2, 0.2]
    assert standings("meaning", cosines) == pytest.approx(expected)
    words = [20.0, 15.0, *[12.0] * 47, 10.0]
    assert standings("words", words) == pytest.approx(
        [1.0, 0.2**0.5, *[0.2**0.8] * 47, 0.2]
    )


def test_a_lane_that_has_shown_all_it_has():
    """Words that are not there score 0; every passage has a cosine, so the last one is the end."""
    assert standings("words", [8.0, 4.0, 2.0]) == pytest.approx(
        [1.0, 0.2**0.5, 0.2**0.75]
    )
    assert standings("code", [8.0, 4.0]) == pytest.approx([1.0, 0.2**0.5])
    assert standings("meaning", [0.9, 0.8, 0.5]) == pytest.approx([1.0, 0.2**0.25, 0.2])
    assert standings("meaning", [0.9]) == [1.0]
    assert standings("words", []) == standings("meaning", []) == []


def test_scores_that_hardly_differ_are_not_pulled_apart():
    assert standings("meaning", [0.80, 0.79, 0.78]) == pytest.approx(
        [1.0, 0.2**0.1, 0.2**0.2]
    )
    flat = [10.0] * 49 + [9.9]
    assert standings("words", flat) == pytest.approx([1.0] * 49 + [0.2**0.1])
    assert standings("words", [0.0, 0.0]) == [1.0, 1.0]


@pytest.mark.rows("C25", "C28")
def test_fusion_with_standings_by_hand():
    """Weight x worth x standing / (k + rank)."""
    sources = Trust(by_score=True, lanes={"words": 0.5})
    rankings = {
        "meaning": scored(0.9, 0.8, 0.5),
        "words": [(passage("001"), 8.0), (passage("000"), 2.0)],
    }
    first, second, third = fuse(rankings, {"meaning": 1.0, "words": 2.0}, 60, sources)
    assert [each.passage.path for each in (first, second, third)] == [
        "001",
        "000",
        "002",
    ]
    assert first.raw_score == pytest.approx(0.2**0.25 / 62 + 2 * 0.5 * 1 / 61)
    assert second.raw_score == pytest.approx(1 / 61 + 2 * 0.5 * 0.2**0.75 / 62)
    assert third.raw_score == pytest.approx(0.2 / 63)
    assert first.score == pytest.approx(first.raw_score / (2 / 61))
    assert [evidence.confidence for evidence in second.evidence] == pytest.approx(
        [1.0, 0.5 * 0.2**0.75]
    )


@pytest.mark.rows("R001-055", "C28")
def test_a_link_vouches_as_far_as_it_got_whatever_the_lane_is_worth():
    """The graph's factor."""
    rankings = {"links": scored(1.4, 0.5)}
    sources = Trust(by_score=True, lanes={"links": 1.2})
    assert [
        each.evidence[0].confidence
        for each in fuse(rankings, {"links": 1.0}, 60, sources)
    ] == [
        pytest.approx(1.2),
        pytest.approx(0.6),
    ]


def test_within_reach_of_a_lane_that_alone_counts():
    """Asking the lanes for more adds candidates and moves none."""
    words = ranking(*(f"w{at:03}" for at in range(50)), "m", "late")
    meaning = ranking("m", *(f"x{at:03}" for at in range(60)))
    shallow = fuse({"meaning": meaning[:50], "words": words[:50]}, BOTH, 60)
    deep = fuse({"meaning": meaning, "words": words}, BOTH, 60)
    known = {each.passage.path: each for each in shallow}
    assert [each for each in deep if each.passage.path in known] == shallow
    late = next(each for each in deep if each.passage.path == "late")
    assert late.evidence == (Evidence("words", 52, words[51][1]),)
    assert (
        len(fuse({"meaning": meaning, "words": words}, BOTH, 60, reach=60)[0].evidence)
        == 2
    )


@LAW
@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=120),
    st.sampled_from(["meaning", "words", "code"]),
)
def test_a_standing_never_rises_and_deeper_lists_change_nothing(scores, lane):
    """Asking a lane for more may not change what was there: the order above depends on it."""
    ranked = sorted(scores, reverse=True)
    found = standings(lane, ranked)
    assert found[0] == 1.0
    assert all(0.2 <= low <= high <= 1.0 for high, low in itertools.pairwise(found))
    assert standings(lane, ranked[: max(50, len(ranked) // 2)])[:50] == found[:50]


# --- What the words lane is worth ----------------------------------------------------------

ADAPTIVE = Trust(adaptive=True, lanes={"words": 0.8, "code": 0.67})


def named(**scores: float) -> list[tuple[Passage, float]]:
    return [(passage(path), score) for path, score in scores.items()]


def worth_of_words(
    words: list[tuple[Passage, float]], meaning: list[tuple[Passage, float]]
) -> float:
    found = trust_in_words(ADAPTIVE, {"words": words, "meaning": meaning})
    assert found.lanes["code"] == 0.67
    assert replace(found, lanes={}) == replace(ADAPTIVE, lanes={})
    return found.lanes["words"]


@pytest.mark.rows("C28")
def test_the_worth_of_the_words_lane_by_hand():
    """E to the 1.6 x (gap - 0.4) + 0.8 x (agreement - 0.5), times what it is worth as it is."""
    words = scored(
        10.0, 10.0, 10.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 6.0, 1.0
    )  # the tenth is 0.4 behind
    last = [(passage("z"), 0.3)]
    assert worth_of_words(words, named(x=0.9) + last) == pytest.approx(
        0.8 * math.exp(-0.4)
    )
    # Cosines from 0.9 to 0.3: the first three are worth 1, 0.5 and 0, which is as usual.
    half = [(passage("000"), 0.9), (passage("001"), 0.6), *last, (passage("002"), 0.3)]
    assert worth_of_words(words, half) == pytest.approx(0.8)
    all_three = [(passage(f"{at:03}"), 0.9) for at in range(3)] + last
    assert worth_of_words(words, all_three) == pytest.approx(0.8 * math.exp(0.4))
    flat = scored(*[10.0] * 12)
    assert worth_of_words(flat, half) == pytest.approx(0.8 * math.exp(-0.64))
    steep = scored(10.0, 10.0, 10.0, *[1.0] * 9)  # 0.9 behind
    assert worth_of_words(steep, half) == pytest.approx(0.8 * math.exp(0.8))


def test_fewer_than_ten_and_fewer_than_three_hits():
    """What is not there scores 0, so the gap is all of it; agreement is of those that are there."""
    last = named(y=0.3)
    assert worth_of_words(scored(10.0, 9.0), named(x=0.9) + last) == pytest.approx(
        0.8 * math.exp(1.6 * 0.6 - 0.4)
    )
    quarter = [(passage("x"), 0.9), (passage("000"), 0.45), *last]
    assert worth_of_words(scored(10.0), quarter) == pytest.approx(
        0.8 * math.exp(1.6 * 0.6 - 0.8 * 0.25)
    )


def test_the_words_lane_is_never_worth_more_than_twice():
    """Unless it is told to be, and then not more than that."""
    rankings = {
        "words": scored(10.0),
        "meaning": [(passage("000"), 0.9), *named(y=0.3)],
    }
    assert 0.8 * math.exp(1.6 * 0.6 + 0.4) > 2.0
    assert trust_in_words(ADAPTIVE, rankings).lanes["words"] == 2.0
    told = replace(ADAPTIVE, lanes={"words": 3.0})
    assert trust_in_words(told, rankings).lanes["words"] == 3.0
    assert trust_in_words(Trust(adaptive=True), rankings).lanes["words"] == 2.0
    poor = {"words": scored(*[10.0] * 12), "meaning": named(x=0.9, y=0.3)}
    assert trust_in_words(told, poor).lanes["words"] == pytest.approx(
        3 * math.exp(-0.64 - 0.4)
    )


@pytest.mark.parametrize(
    "rankings",
    [
        {"words": scored(2.0, 1.0)},
        {"meaning": scored(0.9, 0.8)},
        {"words": [], "meaning": scored(0.9)},
        {"words": scored(2.0), "meaning": []},
        {"code": scored(2.0), "meaning": scored(0.9)},
        {},
    ],
    ids=[
        "no meaning",
        "no words",
        "none with the words",
        "nothing means it",
        "code",
        "no lane",
    ],
)
def test_without_both_lanes_there_is_nothing_to_balance(rankings):
    assert trust_in_words(ADAPTIVE, rankings) is ADAPTIVE


def test_balancing_can_be_turned_off():
    fixed = replace(ADAPTIVE, adaptive=False)
    assert (
        trust_in_words(fixed, {"words": scored(9.0), "meaning": scored(0.9, 0.2)})
        is fixed
    )
    assert Trust.of(Weights(adaptive_trust=False)).adaptive is False
    assert Trust.of(Weights()) == Trust(
        True, True, {"words": 0.72, "code": 0.67, "links": 1.0}, 1.0, 0.75
    )


@LAW
@given(
    st.lists(st.floats(0.1, 30), min_size=1, max_size=120),
    st.lists(st.floats(0, 1), min_size=1, max_size=120),
    st.randoms(use_true_random=False),
)
def test_what_the_words_are_worth_does_not_depend_on_the_depth(words, cosines, dice):
    """Asking the lanes for more than fifty changes nothing: the order above depends on it."""
    order = dice.sample(range(120), 120)
    deep = {
        "words": scored(*sorted(words, reverse=True)),
        "meaning": [
            (passage(f"{order[at]:03}"), score)
            for at, score in enumerate(sorted(cosines, reverse=True))
        ],
    }
    shallow = {lane: ranking[:50] for lane, ranking in deep.items()}
    assert trust_in_words(ADAPTIVE, shallow) == trust_in_words(ADAPTIVE, deep)
    assert 0 < trust_in_words(ADAPTIVE, deep).lanes["words"] <= 2.0


PATHS = st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=10)
WEIGHTS = st.sampled_from([0.25, 1.0, 2.0])


@pytest.mark.rows("R001-037")
@LAW
@given(PATHS, PATHS, WEIGHTS, WEIGHTS, st.integers(1, 100))
def test_fusion_against_exact_arithmetic(meaning, words, heavy, light, k):
    """With fractions, so that nothing is lost to rounding."""
    weights = {"meaning": heavy, "words": light}
    fused = fuse({"meaning": ranking(*meaning), "words": ranking(*words)}, weights, k)
    exact: Counter[str] = Counter()
    for weight, paths in ((heavy, meaning), (light, words)):
        for rank, path in enumerate(paths, start=1):
            exact[path] += Fraction(weight) / (k + rank)
    assert set(order(fused)) == set(exact)
    for each in fused:
        assert each.raw_score == pytest.approx(float(exact[each.passage.path]))
        most = (Fraction(heavy) + Fraction(light)) / (k + 1)
        assert each.score == pytest.approx(float(exact[each.passage.path] / most))
    for one, two in itertools.pairwise(fused):
        assert (
            exact[one.passage.path] >= exact[two.passage.path]
            or one.raw_score == two.raw_score
        )


# --- Threshold ----------------------------------------------------------------------------

SCORED = [
    candidate("a", 0.9),
    candidate("b", 0.5),
    candidate("c", 0.3),
    candidate("d", 0.1),
]


@pytest.mark.rows("R000-020", "R002-136..140", "R002-143")
@pytest.mark.parametrize(
    ("least", "kept"),
    [
        pytest.param(0.0, "abcd", id="zero lets everything through"),
        pytest.param(0.3, "abc", id="at the threshold counts"),
        pytest.param(0.30001, "ab", id="below does not"),
        pytest.param(0.8, "a", id="only the top"),
        pytest.param(0.95, "", id="none"),
    ],
)
def test_threshold(least, kept):
    """At least the score, and maybe nothing."""
    assert order(threshold(SCORED, Question("x", min_score=least), lookups())) == list(
        kept
    )


@pytest.mark.rows("R002-138")
def test_threshold_of_nothing():
    assert threshold([], Question("x", min_score=0.5), lookups()) == []


# --- Same text ---------------------------------------------------------------------------


@pytest.mark.rows("R002-093", "C73")
def test_the_best_of_equal_texts_stays():
    """White space does not make a difference, anything else does."""
    candidates = [
        candidate("a", 0.9, content="other"),
        candidate("b", 0.8, content="same text"),
        candidate("c", 0.7, content="same\n  text "),
        candidate("d", 0.6, content="Same text"),
        candidate("e", 0.5, content="same text"),
    ]
    assert order(staged(same_text, candidates)) == ["a", "b", "d"]
    assert staged(same_text, []) == []


@pytest.mark.rows("C73")
@LAW
@given(st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 3)), max_size=12))
def test_same_text_against_the_naive_way(rows):
    """Keep a candidate unless an earlier one has its words."""
    candidates = [
        candidate(f"p{at}", 1.0, content=" " * blanks + text)
        for at, (text, blanks) in enumerate(rows)
    ]
    naive = [
        at
        for at, (text, _) in enumerate(rows)
        if text not in [other for other, _ in rows[:at]]
    ]
    assert order(staged(same_text, candidates)) == [f"p{at}" for at in naive]


# --- Per document --------------------------------------------------------------------------

CROWD = [candidate(path, 1.0 - at / 10, at) for at, path in enumerate("aabacb")]


def best_of_each(most: int) -> list[Candidate]:
    return list(per_document(CROWD, Question("x", max_chunks_per_doc=most), lookups()))


@pytest.mark.rows("R000-021", "R002-099", "R002-103", "R002-104", "C41")
@pytest.mark.parametrize(
    ("most", "kept"),
    [
        (0, "aabacb"),
        (-1, "aabacb"),
        (1, "abc"),
        (2, "aabcb"),
        (3, "aabacb"),
        (9, "aabacb"),
    ],
)
def test_per_document(most, kept):
    """The highest of each document; 0 is no limit."""
    assert "".join(order(best_of_each(most))) == kept


@pytest.mark.rows("R002-099")
def test_per_document_keeps_the_highest():
    kept = best_of_each(1)
    assert [each.passage.ordinal for each in kept] == [0, 2, 4]


# --- Archive ---------------------------------------------------------------------------------

ARCHIVE = archive_factor(ArchiveSettings(), Weights())


@pytest.mark.rows("R001-035", "R001-047", "R001-048", "R001-054", "C24")
@pytest.mark.parametrize(
    ("path", "factor"),
    [
        ("docs/a.md", 1.0),
        (".archive/a.md", 0.5),
        ("docs/.deprecated/a.md", 0.5),
        ("src_backup/a.md", 0.5),
        ("a.md.old", 0.7),
        ("x.deprecated", 0.7),
        ("archive/a.old", 0.5),
        ("x.older.py", 1.0),
        ("archived/a.md", 1.0),
    ],
)
def test_one_penalty_and_the_smallest(path, factor):
    """By path segment and suffix, never both at once."""
    assert ARCHIVE(path) == factor


@pytest.mark.rows("R001-049", "C25")
def test_the_penalty_changes_the_order_and_says_so():
    """Applied to the fused score, sorted again."""
    candidates = [candidate("archive/a.md", 0.9), candidate("b.md", 0.6)]
    found = archive(candidates, Question("x", archive=ARCHIVE), lookups())
    assert order(list(found)) == ["b.md", "archive/a.md"]
    assert found[1].score == pytest.approx(0.45)
    assert found[1].boosts == (("archive", 0.5),)
    assert found[0].boosts == ()


# --- All together ----------------------------------------------------------------------------

QUESTIONS = st.builds(
    Question,
    text=st.just("x"),
    limit=st.integers(1, 12),
    min_score=st.sampled_from([0.0, 0.3, 0.5, 0.9, 1.0]),
    max_chunks_per_doc=st.integers(0, 3),
    settings=st.builds(
        SearchSettings,
        ngram_dedup_enabled=st.booleans(),
        ngram_dedup_threshold=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
        dedup_enabled=st.booleans(),
        dedup_similarity_threshold=st.sampled_from([0.0, 0.85, 1.0]),
        mmr_lambda=st.sampled_from([0.0, 0.5, 0.7, 1.0]),
        recency_profile=st.sampled_from(["docs", "code", "off"]),
        recency_bias=st.sampled_from([0.0, 0.5, 1.0]),
    ),
    weights=st.builds(
        Weights,
        coherence=st.sampled_from([0.0, 0.2, 3.0]),
        saturation=st.sampled_from([0.0, 0.9, 1.0]),
        content_dedup_enabled=st.booleans(),
    ),
    mmr=st.booleans(),
    now=st.none() | st.sampled_from([0.0, 3e6, 1e9]),
    archive=st.just(ARCHIVE),
    without=st.frozensets(st.sampled_from(STAGE_NAMES)),
)
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a.md", "b.md", "archive/c.md", "d.old"]),
        st.integers(0, 5),
        st.sampled_from("xyz"),
    ),
    unique_by=lambda row: row[:2],
    max_size=15,
)


def assert_nothing_is_counted_twice(fused, results):
    """A passage is a result, or goes along with one, or neither; never both, and never with two."""
    stands = [
        each.passage.position
        for result in results
        for each in (result, *result.duplicates)
    ]
    assert len(stands) == len(set(stands))
    assert set(stands) <= {each.passage.position for each in fused}


VECTORS = {"x": (1.0, 0.0), "y": (0.9, 0.4), "z": (0.0, 0.0)}


@pytest.mark.rows("R002-186..188")
@LAW
@given(ROWS, ROWS, QUESTIONS)
def test_invariants(meaning, words, question):
    """.188, requirements part 2, suite 5: for every combination of stages and settings."""
    texts = {row[:2]: row[2] for row in (*words, *meaning)}
    rankings = {
        lane: [
            (passage(path, ordinal, texts[path, ordinal]), 1.0)
            for path, ordinal, _ in rows
        ]
        for lane, rows in (("meaning", meaning), ("words", words))
    }
    by_letters = lookups(
        lambda positions: np.array([VECTORS[texts[at]] for at in positions], np.float32)
    )
    fused = fuse(rankings, BOTH, 60)
    clock = Clock()
    trace = run_stages(fused, question, by_letters, clock)
    funnel = {name: len(left) for name, left in trace.items()}
    results = trace["limit"]
    scores = [each.score for each in results]
    seven = (
        1 + 7 * question.weights.coherence
    )  # the third to the ninth, none better than the first
    most = largest_boost(question) * seven if "calibrate" in question.without else 1.0
    assert all(0.0 <= score <= most for score in scores)
    assert scores == sorted(scores, reverse=True)
    if not question.mmr:
        raw = [each.raw_score for each in results]
        assert raw == sorted(raw, reverse=True)
    assert_nothing_is_counted_twice(fused, results)
    assert list(funnel) == ["fused", *STAGE_NAMES]
    assert list(clock.milliseconds()) == [*STAGE_NAMES, "stages", "total"]
    assert list(funnel.values()) == sorted(funnel.values(), reverse=True)
    assert {each.passage.position for each in results} <= {
        each.passage.position for each in fused
    }
    if "limit" not in question.without:
        assert len(results) <= question.limit
    if "threshold" not in question.without:
        assert all(score >= question.min_score for score in scores)
    if "per document" not in question.without and question.max_chunks_per_doc:
        assert (
            max(Counter(order(list(results))).values(), default=0)
            <= question.max_chunks_per_doc
        )
    if "same text" not in question.without and question.weights.content_dedup_enabled:
        kept = [each.passage.content_hash for each in results]
        assert len(kept) == len(set(kept))


@pytest.mark.rows(
    "C46",
    "C53",
    "R000-015",
    "R002-098",
    "R002-100",
    "R002-141",
    "R002-154",
    "R002-159",
    "R002-160",
    "R002-168",
    "R002-170",
    "R002-171",
)
def test_the_order_of_the_stages():
    """Boosts, calibration, threshold, the same said twice (the cheap stages first), limits,
    parents, cut."""
    assert list(STAGE_NAMES) == [
        "named", "file name", "aside", "coherence", "recency", "archive", "saturation", "calibrate",
        "threshold", "same text", "overlap", "near text", "same meaning", "mmr",
        "per document", "rerank", "parents", "limit",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("semantic", "keyword", "has_model", "lanes"),
    [
        (1.0, 1.0, True, {"meaning": 1.0, "words": 1.0}),
        (2.0, 0.5, True, {"meaning": 2.0, "words": 0.5}),
        (0.0, 1.0, True, {"words": 1.0}),
        (1.0, 0.0, True, {"meaning": 1.0}),
        (1.0, 1.0, False, {"words": 1.0}),
        (0.0, 0.0, True, {}),
    ],
)
def test_lanes_that_take_part(semantic, keyword, has_model, lanes):
    settings = SearchSettings(semantic_weight=semantic, keyword_weight=keyword)
    question = Question("plain words", settings=settings)
    assert lane_weights(question, has_model) == lanes
    assert lane_weights(replace(question, text="getUser"), has_model) == lanes | {
        "code": 1.0
    }
    assert lane_weights(replace(question, max_hops=1), has_model) == lanes | {
        "links": 1.0
    }


@pytest.mark.rows("R002-044", "R002-045", "R002-046", "R002-047")
@pytest.mark.parametrize(
    ("text", "lane", "factor"),
    [
        pytest.param("what is `retry`", "words", 1.5, id="factual"),
        pytest.param("the installation guide", "links", 1.5, id="navigational"),
        pytest.param("how do retries work", "meaning", 1.3, id="exploratory"),
    ],
)
def test_the_type_of_a_question_weighs_its_lane(text, lane, factor):
    """Times what was configured, and only where it is asked for."""
    own = {"meaning": 2.0, "words": 3.0, "code": 4.0, "links": 5.0}
    plain = SearchSettings(
        semantic_weight=2, keyword_weight=3, code_search_weight=4, graph_weight=5
    )
    before = lane_weights(Question(text, max_hops=1, settings=plain), True)
    assert before.items() <= own.items()
    assert before.keys() >= {"meaning", "words", "links"}
    weighed = replace(plain, adaptive_weights_enabled=True)
    after = lane_weights(Question(text, max_hops=1, settings=weighed), True)
    assert after == before | {lane: before[lane] * factor}


@pytest.mark.rows("R002-046")
def test_a_lane_that_is_off_stays_off():
    weighed = SearchSettings(adaptive_weights_enabled=True, graph_weight=0)
    assert lane_weights(Question("the guide", max_hops=1, settings=weighed), False) == {
        "words": 1.0
    }


@pytest.mark.rows("X2")
@pytest.mark.parametrize(("limit", "depth"), [(1, 50), (5, 50), (13, 52), (100, 400)])
def test_how_deep_at_first(limit, depth):
    """Four times the limit, and at least as many as configured."""
    question = Question("x", limit=limit, weights=Weights(candidate_depth=50))
    assert first_depth(question) == depth
