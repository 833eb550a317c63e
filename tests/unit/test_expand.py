"""Which terms a question is expanded with, and what they count: the pure part of P1."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.index.protocol import Concept
from tamis.search.extras.expansion import expansion, weighted
from tamis.text.words import STOP_WORDS, concepts, words
from tamis.weights import Weights


def as_printed(text: str) -> set[str]:
    """The design's own extraction, as it stands there."""
    terms = re.findall(r"\b[a-zA-Z][a-zA-Z0-9_-]*\b", text.lower())
    return {term for term in terms if term not in STOP_WORDS and len(term) >= 3}


@pytest.mark.rows("R002-026", "R002-035")
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.text(st.sampled_from("abAB09_-. \n/'the"), max_size=60))
def test_terms_of_plain_text_are_those_of_the_design(text):
    """Test_concept_vocabulary_extraction."""
    assert concepts(text) == as_printed(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Parser parses", {"parser", "parses"}),
        ("retry_count, re-try; x86 2fa", {"retry_count", "re-try", "x86"}),
        ("an ox is at it", set()),
        ("Über-Größe Straße", {"über-größe", "straße"}),
        ("cafe\u0301 café", {"café"}),
        ("a" * 64 + " " + "b" * 65, {"a" * 64}),
        ("trailing- -leading ---", {"trailing", "leading"}),
        ("", set()),
    ],
)
def test_what_a_term_is(text, expected):
    assert concepts(text) == expected


def test_a_long_run_of_hyphens_costs_no_time():
    """Would take for ever if the pattern looked at every part of it from every place."""
    assert concepts("a" + "-" * 200_000 + " " + "b-" * 100_000) == set()


@pytest.mark.rows("R002-025", "R002-035", "C49")
def test_stop_words_are_no_terms():
    """Test_stopword_filtering; the list has 92 words."""
    assert len(STOP_WORDS) == 92
    assert concepts(" ".join(STOP_WORDS)) == set()
    assert concepts("could also configure") == {"configure"}


def near(*found: tuple[str, float]):
    """A vocabulary in order, and how deep it was asked."""
    asked: list[int] = []

    def nearest(depth: int) -> Sequence[Concept]:
        asked.append(depth)
        return [Concept(*each) for each in found[:depth]]

    return nearest, asked


def chosen(
    text: str, *found: tuple[str, float], **usual: object
) -> tuple[str, ...] | None:
    flags = {f"query_expansion_{name}": value for name, value in usual.items()}
    return expansion(text, Weights(**flags), near(*found)[0])


@pytest.mark.rows("R002-023", "R002-024", "R002-032", "R002-035", "R002-036")
def test_the_nearest_terms_are_taken():
    """Test_query_expansion_synonyms; at most three."""
    terms = (
        ("authentication", 0.8),
        ("authorization", 0.7),
        ("login", 0.6),
        ("password", 0.55),
    )
    assert chosen("auth", *terms) == ("authentication", "authorization", "login")
    assert chosen("auth", *terms, top_k=1) == ("authentication",)
    assert chosen("auth", *terms, threshold=0.65) == ("authentication", "authorization")
    assert chosen("auth", ("at the edge", 0.5), ("beyond", 0.4999)) == ("at the edge",)
    assert chosen("auth") == ()


@pytest.mark.rows("C49")
def test_a_term_that_says_nothing_new_is_passed_over():
    """No term that is in the question, nor another form of it, nor of a term that was taken."""
    terms = (
        ("retries", 0.9),
        ("retry", 0.9),
        ("retrying-policy", 0.8),
        ("backoff", 0.7),
        ("backoffs", 0.6),
    )
    assert chosen("Retry", *terms) == ("retrying-policy", "backoff")
    assert chosen("retry policies", *terms) == ("backoff",)


def test_more_terms_are_asked_for_while_the_near_ones_say_nothing_new():
    many = [(f"retry{'-retry' * n}", 0.9) for n in range(100)]
    nearest, asked = near(*many, ("backoff", 0.8))
    assert expansion("retry", Weights(), nearest) == ("backoff",)
    assert len(asked) > 1
    nearest, asked = near(*many[:50], *(("far", 0.1),) * 500)
    assert expansion("retry", Weights(), nearest) == ()
    assert len(asked) == 2, "what is too far away is no reason to go deeper"


def test_without_a_vocabulary_there_is_no_expansion():
    assert expansion("auth", Weights(), lambda depth: None) is None


@pytest.mark.rows("R002-033", "C49")
def test_what_is_added_counts_less_and_shares_its_weight():
    """Optional for the words lane, with a low weight."""
    assert weighted("delete a repo", ["repository", "remove", "pull request"], 0.3) == {
        **dict.fromkeys(words("repository remove"), 0.3),
        **dict.fromkeys(words("pull request"), 0.15),
    }
    assert weighted("deleting", ["delete", "delete row"], 0.3) == {"row": 0.15}
    assert weighted("x", ["pull request", "request"], 0.3) == {
        "pull": 0.15,
        "request": 0.3,
    }
    assert weighted("x", ["request"], 0.0) == {}
