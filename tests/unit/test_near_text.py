"""Near text: trigrams and Jaccard by hand, the whole against plain sets, and what an answer has of it."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.model import Candidate, Passage
from tamis.search.dedup import collapsed, jaccard, near_texts, trigrams
from tamis.text.words import text_hash

LAW = settings(deadline=None, derandomize=True, database=None, max_examples=300)


def plain_trigrams(text):
    """Trigrams, written out with sets of strings."""
    plain = " ".join(text.lower().split())
    return {plain[at : at + 3] for at in range(len(plain) - 2)} or {plain}


def plain_jaccard(one, two):
    return len(one & two) / len(one | two)


def naive(texts, threshold):
    """Every text against every kept one before it."""
    kept, best = [], []
    for at, text in enumerate(texts):
        near = (
            k
            for k in kept
            if plain_jaccard(plain_trigrams(texts[k]), plain_trigrams(text))
            >= threshold
        )
        best.append(next(near, at))
        kept += [at] if best[-1] == at else []
    return best


def read_back(number):
    """A number as the run that it stands for."""
    parts = [(int(number) >> shift) & (2**21 - 1) for shift in (42, 21, 0)]
    return "".join(chr(part - 1) for part in parts if part)


@pytest.mark.rows("R002-152", "R002-155", "C45")
@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("abcd", {"abc", "bcd"}),
        ("aaaa", {"aaa"}),
        ("Ab  \n C", {"ab ", "b c"}),
        ("  ab ", {"ab"}),
        ("a", {"a"}),
        ("", {""}),
        (" \n", {""}),
        ("abc", {"abc"}),
        ("ÄÖÜ", {"äöü"}),
        ("x\U0010ffffy\0", {"x\U0010ffffy", "\U0010ffffy\0"}),
        ("\ud800ab", {"\ud800ab"}),
    ],
)
def test_runs_of_three(text, runs):
    """Lower case, white space as one blank, short texts as they are."""
    assert {read_back(number) for number in trigrams(text)} == runs


@pytest.mark.rows("R002-153", "R002-155")
@pytest.mark.parametrize(
    ("one", "two", "share"),
    [
        ("abcd", "abcd", 1.0),
        ("abcd", "bcde", 1 / 3),  # bcd of abc, bcd, cde
        ("abcd", "wxyz", 0.0),
        ("ab", "AB ", 1.0),
        ("ab", "abc", 0.0),
        ("", "", 1.0),
        ("abcdefghij", "abcdefghi", 7 / 8),
    ],
)
def test_jaccard_by_hand(one, two, share):
    assert jaccard(trigrams(one), trigrams(two)) == share


@pytest.mark.rows("R002-153")
def test_nothing_shares_nothing():
    """An empty set is near nothing."""
    assert jaccard(trigrams("abc")[:0], trigrams("abc")[:0]) == 0.0


WORDS = ("alpha", "beta", "gamma", "delta", "retry", "cache")
letters = st.text("abc é\n", max_size=12)
sentences = st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)
near_misses = st.builds(
    lambda base, cut, more: base[: len(base) - cut] + more,
    sentences,
    st.integers(0, 9),
    letters,
)


@pytest.mark.rows("R002-094", "R002-155", "C45")
@LAW
@given(
    st.lists(letters | sentences | near_misses | st.text(max_size=6), max_size=14),
    st.sampled_from([0.0, 0.2, 0.5, 0.7, 0.8, 1.0]) | st.floats(0, 1),
)
def test_near_texts_against_plain_sets(texts, threshold):
    """Greedy, the first that is near; exact, with `>=`."""
    assert near_texts(texts, threshold) == naive(texts, threshold)


@pytest.mark.parametrize("seed", range(4))
def test_long_texts_against_plain_sets(seed):
    """As long as passages are, on either side of the threshold: the bound on bits is put to the test."""
    dice = random.Random(seed)
    words = [
        "".join(dice.choices("etaoinshrdlu", k=dice.randint(2, 9))) for _ in range(2000)
    ]
    base = dice.choices(words, k=240)
    texts = [
        " ".join(word if dice.random() > share else dice.choice(words) for word in base)
        for share in [0.0, *(dice.uniform(0.0, 0.4) for _ in range(40))]
    ]
    expected = naive(texts, 0.7)
    assert near_texts(texts, 0.7) == expected
    assert 3 < len(set(expected)) < 38, "some are near and some are not"


def test_every_run_counts_however_many_there_are():
    """A text with far more runs than there are bits: the bound is loose, the answer exact."""
    dice = random.Random(1)
    texts = [
        "".join(chr(dice.randrange(0x4E00, 0x9FFF)) for _ in range(20_000))
        for _ in range(3)
    ]
    close = texts[0][:18_000] + texts[1][:2_000]
    assert (
        near_texts([*texts, close], 0.7) == naive([*texts, close], 0.7) == [0, 1, 2, 0]
    )


def candidate(number: int, text: str) -> Candidate:
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
    return Candidate(row, 1.0 - number / 100, 0.5, ())


def test_what_is_dropped_goes_along_in_the_order_of_rank():
    """Groups of groups: what stood for others brings them."""
    rows = [candidate(number, f"text {number}") for number in range(6)]
    once = collapsed(rows, [0, 1, 0, 1, 4, 0])
    assert [each.passage.path for each in once] == ["f0.md", "f1.md", "f4.md"]
    assert [[other.passage.path for other in each.duplicates] for each in once] == [
        ["f2.md", "f5.md"],
        ["f3.md"],
        [],
    ]
    (twice, alone) = collapsed(once, [0, 0, 2])
    assert [other.passage.path for other in twice.duplicates] == [
        "f1.md",
        "f2.md",
        "f3.md",
        "f5.md",
    ]
    assert all(other.duplicates == () for other in twice.duplicates)
    assert alone is rows[4]
