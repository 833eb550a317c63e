"""Same meaning and MMR against plain implementations, and their formulas by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.stages import lookups
from tamis.model import Candidate, Passage
from tamis.search.extras.diversity import mmr, mmr_order, nearest_kept
from tamis.search.pipeline import Clock, run_stages
from tamis.search.question import Question
from tamis.settings import SearchSettings
from tamis.text.words import text_hash

LAW = settings(deadline=None, derandomize=True, database=None, max_examples=300)


def candidate(number: int, score: float) -> Candidate:
    text = f"text {number}"
    row = Passage(
        f"f{number}.md",
        0,
        text,
        text_hash(text),
        "",
        1,
        2,
        "documentation",
        None,
        0.0,
        (),
    )
    return Candidate(row, score / 50, score, ())


def at_angles(*degrees):
    return np.array(
        [[math.cos(math.radians(d)), math.sin(math.radians(d))] for d in degrees],
        np.float32,
    )


def cosine(one, two):
    lengths = math.hypot(*map(float, one)) * math.hypot(*map(float, two))
    products = (float(a) * float(b) for a, b in zip(one, two, strict=True))
    return math.fsum(products) / lengths if lengths else 0.0


# --- Same meaning --------------------------------------------------------------------------------------


@pytest.mark.rows("R002-095", "C40")
def test_greedy_against_what_is_kept():
    """30 degrees are 0.87, 40 are 0.77. The third is near the second, which is not kept."""
    assert nearest_kept(at_angles(0, 30, 60, 90, 61), 0.85) == [0, 0, 2, 2, 2]
    assert nearest_kept(at_angles(0, 40, 80), 0.85) == [0, 1, 2]


@pytest.mark.rows("C40", "R002-096")
def test_at_the_threshold_counts():
    """`>=`, and 0.85 unless somebody says otherwise (0.80 was the earlier word)."""
    assert SearchSettings().dedup_similarity_threshold == 0.85
    exact = np.array([[1, 0], [0.6, 0.8], [0.8, 0.6]], np.float64)
    assert nearest_kept(exact, 0.8) == [0, 1, 0]
    assert nearest_kept(exact, 0.81) == [0, 1, 1]
    same = np.array([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]], np.float32)
    assert nearest_kept(same, 1.0) == [0, 0]


@pytest.mark.rows("R002-095")
def test_without_a_vector_it_stays():
    """No model (rows of width 0), or nothing to embed (zeros)."""
    assert nearest_kept(np.zeros((3, 0), np.float32), 0.85) == [0, 1, 2]
    assert nearest_kept(
        np.array([[0, 0], [1, 0], [0, 0], [1, 0]], np.float32), 0.0
    ) == [0, 1, 2, 1]


rows = st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), max_size=12)


@pytest.mark.rows("R002-095")
@LAW
@given(rows, st.sampled_from([0.0, 0.3, 0.51, 0.85, 0.97]))
def test_same_meaning_against_the_naive_way(vectors, threshold):
    """With sums that lose nothing; thresholds that no cosine of these vectors comes near."""
    kept, expected = [], []
    for at, vector in enumerate(vectors):
        cosines = {k: cosine(vectors[k], vector) for k in kept}
        if any(abs(value - threshold) < 1e-6 for value in cosines.values()):
            return
        near = (k for k in kept if any(vector) and cosines[k] >= threshold)
        expected.append(next(near, at))
        kept += [at] if expected[-1] == at and any(vector) else []
    assert (
        nearest_kept(np.array(vectors, np.float32).reshape(-1, 3), threshold)
        == expected
    )


def test_a_decision_does_not_depend_on_the_rows_beside():
    """The law: the same pair is decided alike among others, to the last bit."""
    dice = np.random.default_rng(1)
    vectors = dice.normal(size=(200, 384)).astype(np.float32)
    for _ in range(50):
        one, two = dice.choice(200, 2, replace=False)
        pair = vectors[[one, two]]
        exact = float((pair[0].astype(float) * pair[1].astype(float)).sum())
        exact /= math.sqrt(
            float((pair[0].astype(float) ** 2).sum())
            * float((pair[1].astype(float) ** 2).sum())
        )
        threshold = max(exact, 0.0)
        far = dice.normal(size=(30, 384)).astype(np.float32)
        far -= (
            (far @ pair[1])[:, None] * pair[1] / float(pair[1] @ pair[1])
        )  # at right angles to the second
        alone = nearest_kept(pair, threshold)[1]
        beside = nearest_kept(
            np.vstack([pair[:1], far - 2 * pair[1], pair[1:]]), threshold
        )[-1]
        assert (alone == 0) == (beside == 0)


# --- MMR -------------------------------------------------------------------------------------------------


def naive_mmr(scores, vectors, weight):
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    relevance = [
        (score - low) / (high - low) if high > low else 1.0 for score in scores
    ]
    left = [at for at, vector in enumerate(vectors) if any(vector)]
    order = []
    while left:
        gains = [
            weight * relevance[at]
            - (1 - weight)
            * max(
                (max(0.0, cosine(vectors[at], vectors[o])) for o in order), default=0.0
            )
            for at in left
        ]
        best = max(gains)
        if sum(best - gain < 1e-9 for gain in gains) > 1 and len(set(gains)) > 1:
            return None  # too close to call by another arithmetic
        order.append(left.pop(gains.index(best)))
    return order + [at for at in range(len(vectors)) if at not in order]


@pytest.mark.rows("R002-146", "R002-147", "C63")
@LAW
@given(
    st.lists(
        st.tuples(
            st.floats(0, 1), st.lists(st.integers(-3, 3), min_size=3, max_size=3)
        ),
        max_size=9,
    ),
    st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]),
)
def test_mmr_against_the_naive_way(candidates, weight):
    scores = sorted((score for score, _ in candidates), reverse=True)
    vectors = [vector for _, vector in candidates]
    expected = naive_mmr(scores, vectors, weight)
    if expected is not None:
        assert (
            mmr_order(scores, np.array(vectors, np.float32).reshape(-1, 3), weight)
            == expected
        )


@pytest.mark.rows("R002-146")
def test_mmr_by_hand():
    """Relevance 1, 5/6, 0; cosines with the first 0.98 and 0: the second has -0.08, or 0.47."""
    vectors = at_angles(0, 10, 90)
    assert mmr_order([1.0, 0.9, 0.4], vectors, 0.5) == [0, 2, 1]
    assert mmr_order([1.0, 0.9, 0.4], vectors, 0.8) == [0, 1, 2]
    assert mmr_order(
        [1.0, 0.9, 0.4, 0.0], np.vstack([vectors, at_angles(180)]), 0.5
    ) == [0, 2, 3, 1]
    assert mmr_order(
        [1.0, 0.9, 0.4, 0.0], np.vstack([vectors, at_angles(180)]), 1.0
    ) == [0, 1, 2, 3]


@pytest.mark.rows("C63")
def test_relevance_is_rescaled():
    """Fused scores of some 0.02 weigh as much as scores of 20; otherwise lambda would do
    nothing."""
    vectors = at_angles(0, 5, 80, 90)
    orders = {
        tuple(mmr_order([s * factor for s in (1.0, 0.9, 0.5, 0.4)], vectors, 0.5))
        for factor in (0.02, 1, 64)
    }
    assert len(orders) == 1 and orders != {(0, 1, 2, 3)}


@pytest.mark.rows("C63")
def test_opposites_are_not_preferred():
    """A negative cosine counts as none."""
    assert mmr_order([1.0, 0.5, 0.4], at_angles(0, 90, 180), 0.5) == [0, 1, 2]


@pytest.mark.rows("R002-150")
def test_respects_lambda():
    """With 1, relevance alone; with 0, difference alone (after the first)."""
    vectors = at_angles(0, 1, 2, 45, 90)
    scores = [0.9, 0.8, 0.7, 0.6, 0.5]
    assert mmr_order(scores, vectors, 1.0) == [0, 1, 2, 3, 4]
    assert mmr_order(scores, vectors, 0.0)[:3] == [0, 4, 3]


@pytest.mark.rows("C63", "R002-150")
def test_what_has_no_vector_is_appended():
    """Nothing comes of nothing."""
    vectors = np.array([[0, 0], [1, 0], [0, 0], [0, 1]], np.float32)
    assert mmr_order([4.0, 3.0, 2.0, 1.0], vectors, 0.7) == [1, 3, 0, 2]
    assert mmr_order([2.0, 1.0], np.zeros((2, 0), np.float32), 0.7) == [0, 1]
    assert mmr_order([], np.zeros((0, 0), np.float32), 0.7) == []


@pytest.mark.rows("R002-150", "R002-151")
def test_more_diverse_than_a_threshold():
    """With lambda 0.5 the first three lie wider apart than what dedup leaves first."""
    angles = (0, 33, 66, 40, 120, 20)
    vectors, scores = at_angles(*angles), [1.0, 0.98, 0.96, 0.94, 0.92, 0.9]

    def spread(order):
        return max(
            cosine(vectors[a], vectors[b]) for a in order for b in order if a != b
        )

    kept = [at for at, best in enumerate(nearest_kept(vectors, 0.85)) if at == best][:3]
    assert spread(mmr_order(scores, vectors, 0.5)[:3]) < spread(kept)


@pytest.mark.rows("C51")
def test_scores_fall_and_raw_scores_stay():
    """A passage that rises is not called a better match; one after it is called no better than
    it."""
    rows = [candidate(at, score) for at, score in enumerate((1.0, 0.9, 0.4, 0.2, 0.1))]
    vectors = np.vstack([at_angles(0, 10, 90, 180), np.zeros((1, 2), np.float32)])
    directions = lookups(lambda some: vectors)
    question = Question("x", mmr=True, settings=SearchSettings(mmr_lambda=0.5))
    found = mmr(rows, question, directions)
    assert [each.passage.path for each in found] == [
        "f0.md",
        "f2.md",
        "f3.md",
        "f1.md",
        "f4.md",
    ]
    assert [each.score for each in found] == [1.0, 0.4, 0.2, 0.2, 0.1]
    assert {each.passage.path: each.raw_score for each in found} == {
        e.passage.path: e.raw_score for e in rows
    }


# --- As stages ----------------------------------------------------------------------------------------------

ON = SearchSettings(dedup_enabled=True, mmr_enabled=True)


@pytest.mark.rows("R002-145", "C63")
def test_mmr_takes_the_place_of_same_meaning():
    rows = [candidate(at, 1 - at / 10) for at in range(3)]
    directions = lookups(lambda some: at_angles(0, 1, 90)[: len(some)])
    for is_asked, left, order in ((False, 2, [0, 2]), (True, 3, [0, 2, 1])):
        settings = replace(ON, mmr_lambda=0.5, ngram_dedup_enabled=False)
        ask = Question("x", settings=settings, mmr=is_asked)
        trace = run_stages(rows, ask, directions, Clock())
        assert len(trace["same meaning"]) == left
        assert [int(each.passage.path[1]) for each in trace["mmr"]] == order


@pytest.mark.parametrize("name", ["same meaning", "mmr"])
def test_without_a_model_nothing_happens(name):
    rows = [candidate(at, 1 - at / 10) for at in range(3)]
    for some in (rows, []):
        settings = replace(ON, ngram_dedup_enabled=False)
        ask = Question("x", settings=settings, mmr=name == "mmr")
        trace = run_stages(some, ask, lookups(), Clock())
        assert list(trace[name]) == list(trace["near text"])
        assert len(trace[name]) == len(some)


@pytest.mark.parametrize(("limit", "asked"), [(5, 50), (12, 50), (13, 52), (100, 300)])
def test_mmr_looks_at_a_bounded_number(limit, asked):
    """The first max(50, 4 * limit); the rest follows as it was."""
    rows = [candidate(at, 1 - at / 1000) for at in range(300)]
    sizes = []

    def vectors(some):
        sizes.append(len(some))
        return np.tile(at_angles(0, 90), (150, 1))[: len(some)]

    question = Question("x", limit=limit, settings=ON, mmr=True)
    found = mmr(rows, question, lookups(vectors))
    assert sizes == [asked]
    assert [each.passage.path for each in found[asked:]] == [
        each.passage.path for each in rows[asked:]
    ]
    assert {each.passage.path for each in found} == {each.passage.path for each in rows}
