"""Paired differences: known cases, an independent bootstrap, and the same figures every time."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tamis.measure.metrics import AT_ONCE, Difference, Scores, compare_sets

LAW = settings(derandomize=True, max_examples=25, deadline=None)


def compare(first: Scores, second: Scores) -> Difference:
    return compare_sets([(first, second)])


def by_question(values) -> dict[str, float]:
    return {f"q{at:04}": float(value) for at, value in enumerate(values)}


def test_wins_ties_and_losses():
    found = compare(
        {"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.1},
        {"a": 0.7, "b": 0.5, "c": 0.4, "d": 0.3},
    )
    assert (found.wins, found.ties, found.losses) == (2, 1, 1)
    assert found.mean == pytest.approx((0.2 + 0 - 0.1 + 0.2) / 4)


def test_only_questions_of_both_count():
    found = compare({"a": 0.0, "b": 1.0}, {"b": 0.5, "c": 1.0})
    assert found.mean == -0.5
    assert (found.wins, found.ties, found.losses) == (0, 0, 1)


def test_a_difference_that_is_always_the_same_is_certain():
    found = compare(by_question([0.25] * 30), by_question([0.5] * 30))
    assert (found.mean, found.low, found.high) == (0.25, 0.25, 0.25)
    assert found.is_clear


def test_two_questions_that_disagree():
    """Of samples of two, a quarter has the one twice and a quarter the other: nothing is ruled out."""
    found = compare({"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 0.0})
    assert (found.mean, found.low, found.high) == (0.5, 0.0, 1.0)
    assert not found.is_clear


def test_the_interval_is_that_of_another_bootstrap():
    gains = np.random.default_rng(3).normal(0.02, 0.3, 240)
    ours = compare(by_question(np.zeros(240)), by_question(gains))
    theirs = stats.bootstrap(
        (gains,),
        np.mean,
        n_resamples=9_999,
        method="percentile",
        rng=np.random.default_rng(5),
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=width * 0.05)
    assert ours.high == pytest.approx(theirs.high, abs=width * 0.05)
    assert ours.mean == pytest.approx(gains.mean())


def test_each_set_counts_alike():
    small = (by_question([0.0] * 2), by_question([1.0] * 2))
    large = (by_question([0.0] * 98), by_question([0.0] * 98))
    found = compare_sets([small, large])
    assert found.mean == 0.5
    assert (found.wins, found.ties, found.losses) == (2, 98, 0)


def test_nothing_to_compare():
    assert compare({}, {}) == Difference(0.0, 0.0, 0.0, 0, 0, 0)
    assert not compare({"a": 1.0}, {"b": 1.0}).is_clear


def test_what_is_drawn_in_portions():
    """A large set is not drawn at once; its interval is that of the normal distribution."""
    many = 3_000
    assert AT_ONCE // many < 10_000, "drawn in portions"
    found = compare(by_question(np.zeros(many)), by_question(np.arange(many) % 2))
    assert found.low < found.mean == 0.5 < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.5 / many**0.5, rel=0.1)


@LAW
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
def test_equal_input_gives_equal_figures_and_sides_can_be_swapped(pairs):
    first, second = by_question(a for a, _ in pairs), by_question(b for _, b in pairs)
    found, other_way = compare(first, second), compare(second, first)
    assert found == compare(dict(reversed(first.items())), second)
    assert found.low <= found.mean + 1e-12
    assert found.mean <= found.high + 1e-12
    assert found.mean == pytest.approx(-other_way.mean)
    assert (found.wins, found.losses) == (other_way.losses, other_way.wins)
    assert found.low == pytest.approx(-other_way.high, abs=0.05)
