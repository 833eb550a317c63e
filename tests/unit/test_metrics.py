"""Metrics against arithmetic by hand and against trec_eval's own."""

import math

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import RR, R, ScoredDoc, nDCG

from tamis.measure.metrics import DEPTH, ndcg, recall, reciprocal_rank, scores

LAW = settings(derandomize=True, max_examples=150, deadline=None)
TREC = {
    "ndcg@5": nDCG @ 5,
    "ndcg@10": nDCG @ 10,
    "mrr@10": RR @ 10,
    "recall@10": R @ 10,
}


@pytest.mark.rows("R002-196")
def test_ndcg_by_hand():
    """Linear gain, the logarithm of the place plus one, the best order beneath."""
    grades = {"a": 3, "b": 2, "c": 1}
    gained = 2 / math.log2(2) + 3 / math.log2(
        4
    )  # b first, something else second, a third
    best = 3 / math.log2(2) + 2 / math.log2(3) + 1 / math.log2(4)
    assert ndcg(["b", "x", "a"], grades, 10) == pytest.approx(gained / best)
    assert ndcg(["b", "x", "a"], grades, 2) == pytest.approx(2 / (3 + 2 / math.log2(3)))
    assert ndcg(["a", "b", "c"], grades, 10) == 1.0
    assert ndcg([], grades, 10) == 0.0


def test_gain_is_linear_in_the_grade():
    """As BEIR has it; with 2 ** grade - 1 it would be 7 to 1."""
    grades = {"a": 3, "b": 1}
    assert ndcg(["b"], grades, 1) == pytest.approx(1 / 3)


@pytest.mark.rows("R002-196")
def test_reciprocal_rank_by_hand():
    assert reciprocal_rank(["x", "y", "a"], {"a": 1, "y": 0}, 10) == pytest.approx(
        1 / 3
    )
    assert reciprocal_rank(["x", "y", "a"], {"a": 1}, 2) == 0.0
    assert reciprocal_rank(["a"], {"a": 1}, 10) == 1.0


@pytest.mark.rows("R002-196")
def test_recall_by_hand():
    grades = {"a": 1, "b": 3, "c": 2, "d": 0}
    assert recall(["a", "d", "c"], grades, 10) == pytest.approx(2 / 3)
    assert recall(["x", "a", "b", "c"], grades, 2) == pytest.approx(1 / 3)


@pytest.mark.parametrize("grades", [{}, {"a": 0}, {"a": -1}])
def test_without_a_relevant_document_all_is_0(grades):
    assert set(scores(["a", "b"], grades).values()) == {0.0}


def test_a_negative_grade_costs_nothing():
    assert ndcg(["bad", "a"], {"bad": -2, "a": 1}, 10) == ndcg(["x", "a"], {"a": 1}, 10)


NAMES = st.sampled_from([f"d{number}" for number in range(25)])


@pytest.mark.rows("R002-196")
@LAW
@given(
    st.lists(NAMES, unique=True, max_size=20),
    st.dictionaries(NAMES, st.integers(0, 4), max_size=20),
    NAMES,
)
def test_metrics_are_those_of_trec_eval(ranked, grades, relevant):
    """On random rankings, with more documents and more relevant ones than the metrics look at."""
    grades = grades | {relevant: 1}
    run = [ScoredDoc("q", name, float(-place)) for place, name in enumerate(ranked)]
    qrels = [ir_measures.Qrel("q", name, grade) for name, grade in grades.items()]
    theirs = {
        m.measure: m.value
        for m in ir_measures.iter_calc(list(TREC.values()), qrels, run)
    }
    ours = scores(ranked, grades)
    assert set(ours) == set(TREC)
    for name, measure in TREC.items():
        assert ours[name] == pytest.approx(theirs.get(measure, 0.0), abs=1e-9), name


@LAW
@given(
    st.lists(NAMES, unique=True, max_size=20), st.dictionaries(NAMES, st.integers(0, 4))
)
def test_metrics_lie_between_0_and_1_and_look_no_deeper(ranked, grades):
    ours = scores(ranked, grades)
    assert list(ours) == list(TREC)
    assert all(0.0 <= value <= 1.0 + 1e-12 for value in ours.values())
    assert scores(ranked[:DEPTH], grades) == ours
