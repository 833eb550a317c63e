"""Calibration: what a score says by itself, by hand and for any candidates."""

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.stages import lookups
from tamis.model import Candidate, Evidence, Passage
from tamis.search.question import Question
from tamis.search.scores import COVERED, Logistic, calibrate
from tamis.text.words import text_hash
from tamis.weights import Weights

RELATED = Logistic(0.7, 40.0)
ANY = settings(deadline=None, derandomize=True)


def calibrated(candidates, coverage, related, reach=50):
    found = lookups(coverage=lambda _: coverage, related=related)
    question = Question("x", weights=Weights(candidate_depth=reach))
    return calibrate(candidates, question, found)


def grounds(candidate, coverage, related):
    """The score of a candidate whose share is 1."""
    (found,) = calibrated([replace(candidate, score=1.0)], [coverage], related)
    return found.score


def candidate(
    path: str, share: float, cosine: float | None = None, raw: float | None = None
) -> Candidate:
    passage = Passage(
        path, 0, path, text_hash(path), "", 1, 1, "documentation", None, 0.0, ()
    )
    meaning = () if cosine is None else (Evidence("meaning", 1, cosine),)
    return Candidate(
        passage,
        share if raw is None else raw,
        share,
        (*meaning, Evidence("words", 2, 7.0)),
    )


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


@pytest.mark.rows("R002-020")
def test_a_curve():
    """One half at the midpoint, and symmetric around it."""
    assert RELATED(0.7) == 0.5
    assert RELATED(0.75) == pytest.approx(sigmoid(2))
    assert RELATED(0.65) == pytest.approx(1 - sigmoid(2))
    assert (RELATED(1e6), RELATED(-1e6)) == (1.0, 0.0)


@pytest.mark.rows("C50")
@pytest.mark.parametrize(
    ("cosine", "coverage", "related", "expected"),
    [
        pytest.param(0.75, 0.0, RELATED, sigmoid(2), id="meaning alone"),
        pytest.param(None, 1.0, RELATED, sigmoid(2.5), id="words alone"),
        pytest.param(None, 0.5, RELATED, sigmoid(-2.5), id="half of the words"),
        pytest.param(0.7, 0.75, RELATED, 0.75, id="either is even: three quarters"),
        pytest.param(None, 0.0, RELATED, 0.0, id="nothing"),
        pytest.param(0.99, 0.0, None, 0.0, id="a cosine without a model says nothing"),
        pytest.param(-1.0, 0.0, RELATED, 0.0, id="the opposite"),
    ],
)
def test_grounds_by_hand(cosine, coverage, related, expected):
    """1 - (1 - related) · (1 - covered)."""
    found = grounds(candidate("a", 1.0, cosine), coverage, related)
    assert found == pytest.approx(expected, abs=1e-15)


def test_a_lanes_score_is_no_cosine():
    """Only the meaning lane's is."""
    words = replace(
        candidate("a", 1.0),
        evidence=(Evidence("words", 1, 0.99), Evidence("links", 1, 0.99)),
    )
    assert grounds(words, 0.0, RELATED) == 0.0


@pytest.mark.rows("C50", "R002-020")
def test_calibration_by_hand():
    """The best grounds at or below, times (1 + share) / 2."""
    fused = [
        candidate("a", 0.9, 0.7),
        candidate("b", 0.5, 0.75),
        candidate("c", 0.2, 0.65),
    ]
    found = calibrated(fused, [0.0, 0.0, 0.0], RELATED)
    assert [each.passage.path for each in found] == ["a", "b", "c"]
    assert [each.score for each in found] == pytest.approx(
        [sigmoid(2) * 1.9 / 2, sigmoid(2) * 1.5 / 2, (1 - sigmoid(2)) * 1.2 / 2]
    )
    assert [each.raw_score for each in found] == [0.9, 0.5, 0.2]
    assert [each.evidence for each in found] == [each.evidence for each in fused]
    assert calibrated([], [], RELATED) == []


def test_more_than_all_there_is_counts_as_all():
    """A boost may lift a share above 1."""
    (found,) = calibrated([candidate("a", 2.5)], [1.0], RELATED)
    assert found.score == pytest.approx(sigmoid(2.5))


@pytest.mark.rows("C50")
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_one_lane_alone_can_pass_the_usual_threshold(share):
    """Whatever the number of lanes, their weights and k make of the share."""
    (by_words,) = calibrated([candidate("a", share)], [1.0], RELATED)
    (by_meaning,) = calibrated([candidate("a", share, 0.85)], [0.0], RELATED)
    (neither,) = calibrated([candidate("a", share, 0.6)], [0.2], RELATED)
    assert min(by_words.score, by_meaning.score) > 0.3 > 0.05 > neither.score


UNIT = st.floats(0, 1)
ROWS = st.lists(
    st.tuples(st.floats(0, 3), st.none() | st.floats(-1, 1), UNIT), max_size=20
)


@pytest.mark.rows("C50", "R002-186", "R002-187")
@ANY
@given(ROWS, st.none() | st.builds(Logistic, UNIT, st.floats(1, 60)))
def test_scores_are_bounded_never_rise_and_leave_the_order_alone(rows, related):
    rows = sorted(rows, key=lambda row: -row[0])
    fused = [
        candidate(f"{at:03}", share, cosine)
        for at, (share, cosine, _) in enumerate(rows)
    ]
    found = calibrated(fused, [coverage for _, _, coverage in rows], related)
    assert [replace(each, score=0.0) for each in found] == [
        replace(each, score=0.0) for each in fused
    ]
    assert all(0.0 <= each.score <= 1.0 for each in found)
    assert all(one.score >= two.score for one, two in itertools.pairwise(found))


@ANY
@given(UNIT, UNIT, UNIT, UNIT, UNIT)
def test_more_evidence_is_never_less(share, one, two, low, high):
    """Of two that differ in one thing alone, the better has at least the other's score."""
    one, two = sorted((one, two))
    low, high = sorted((low, high))
    weaker = calibrated([candidate("a", share, one)], [low], RELATED)[0].score
    assert calibrated([candidate("a", share, two)], [low], RELATED)[0].score >= weaker
    assert calibrated([candidate("a", share, one)], [high], RELATED)[0].score >= weaker
    assert COVERED(high) >= COVERED(low)


def test_what_is_beyond_reach_lifts_nobody():
    """It is there or not by how deep the lanes were asked."""
    weak, far = candidate("a", 0.9, 0.6), candidate("b", 0.1, 0.9)
    far = replace(far, evidence=tuple(replace(each, rank=60) for each in far.evidence))
    alone = calibrated([weak], [0.0], RELATED)[0].score
    first, second = calibrated([weak, far], [0.0, 1.0], RELATED)
    assert first.score == alone
    assert second.score == alone
    assert calibrated([weak, far], [0.0, 1.0], RELATED, reach=60)[0].score > 0.9
