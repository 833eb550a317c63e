"""Recency: the tiers at their edges, the bias, and what it does to an answer."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.stages import lookups
from tamis.model import Candidate, Passage
from tamis.search.extras.recency import (
    age_factor,
    code_tier,
    docs_tier,
)
from tamis.search.pipeline import Clock, largest_boost, run_stages
from tamis.search.question import Question
from tamis.settings import SearchSettings
from tamis.weights import Weights

NOW = 1_790_000_000.0
DAY = 86_400.0
SECOND = 1 / DAY
PROFILES = st.sampled_from(["docs", "code", "off"])


def settings_of(profile: str, bias: float) -> SearchSettings:
    return SearchSettings(recency_profile=profile, recency_bias=bias)


def recency(profile: str, bias: float, modified: float, now: float) -> float:
    """The factor that the stage gives to a document."""
    passage = Passage("a.md", 0, "", b"", "", 1, 1, "documentation", None, modified, ())
    question = Question("x", now=now, settings=settings_of(profile, bias))
    candidates = [Candidate(passage, 1.0, 1.0, ())]
    (found,) = run_stages(candidates, question, lookups(), Clock())["recency"]
    return found.raw_score


@pytest.mark.rows("R002-019", "C29")
@pytest.mark.parametrize(
    ("days", "tier"),
    [
        (0, 1.2),
        (6.99, 1.2),
        (7 - SECOND, 1.2),
        (7, 1.1),
        (29.9, 1.1),
        (30 - SECOND, 1.1),
        (30, 1.0),
        (4000, 1.0),
    ],
)
def test_tiers_for_documents(days, tier):
    assert docs_tier(days) == tier


@pytest.mark.rows("R001-040..043", "R001-053", "C29")
@pytest.mark.parametrize(
    ("days", "tier"),
    [
        (0, 1.5), (1 - SECOND, 1.5), (1, 1.2), (7 - SECOND, 1.2), (7, 1.0), (30 - SECOND, 1.0), (30, 1.0),
        (395, 1 / math.e), (30 + 365 / 2, math.exp(-0.5)), (30 + 365 * math.log(2), 0.5), (4000, 0.5),
    ],
)  # fmt: skip
def test_tiers_for_code(days, tier):
    """No step at day 30; never less than a half."""
    assert code_tier(days) == pytest.approx(max(tier, 0.5), rel=1e-12)


@pytest.mark.rows("C29")
def test_no_step_at_day_thirty():
    """The seed's formula fell from 1 to 0.92 overnight."""
    assert code_tier(30) == 1.0
    assert 1.0 - code_tier(30 + SECOND) < 1e-6


@pytest.mark.rows("R002-179", "C62")
@pytest.mark.parametrize(
    ("profile", "bias", "days", "factor"),
    [
        ("docs", 0.5, 1, 1.2), ("docs", 0.0, 1, 1.0), ("docs", 1.0, 1, 1.4), ("docs", 0.25, 10, 1.05),
        ("code", 0.5, 0.5, 1.5), ("code", 1.0, 0.5, 2.0), ("code", 1.0, 4000, 0.0), ("code", 0.5, 4000, 0.5),
        ("code", 0.0, 4000, 1.0), ("off", 1.0, 0, 1.0), ("off", 1.0, 4000, 1.0),
    ],
)  # fmt: skip
def test_the_bias(profile, bias, days, factor):
    """0.5 gives the tiers, 0 nothing, 1 the double."""
    assert recency(profile, bias, NOW - days * DAY, NOW) == pytest.approx(factor)


@pytest.mark.rows("C29")
def test_a_date_in_the_future_is_of_today():
    assert (
        recency("code", 0.5, NOW + 900 * DAY, NOW)
        == recency("code", 0.5, NOW, NOW)
        == 1.5
    )


@settings(deadline=None, derandomize=True, database=None)
@given(PROFILES, st.floats(0, 1), st.floats(-1e12, 1e12), st.floats(-1e12, 1e12))
def test_older_is_never_worth_more(profile, bias, one, two):
    young, old = sorted(
        (recency(profile, bias, time, NOW) for time in (one, two)), reverse=True
    )
    if one > two:
        young, old = (recency(profile, bias, time, NOW) for time in (one, two))
        assert young >= old
    assert 0.0 <= old <= young <= age_factor(0.0, settings_of(profile, bias))


def test_the_same_question_a_moment_later_has_the_same_scores():
    written = NOW - 100.3 * DAY
    assert recency("code", 0.5, written, NOW) == recency(
        "code", 0.5, written, NOW + 3600
    )
    assert recency("code", 0.5, written, NOW) > recency("code", 0.5, written, NOW + DAY)


def test_without_a_time_age_does_not_count():
    ask = Question(
        "plain words",
        settings=SearchSettings(recency_profile="code"),
        weights=Weights(path_boost=1.0),
    )
    assert (ask.counts_age, largest_boost(ask)) == (False, 1.0)
    now = replace(ask, now=NOW)
    assert (now.counts_age, largest_boost(now)) == (True, 1.5)
