"""Stages that look at a document's passages together: coherence and saturation, by hand."""

import math
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.stages import staged
from tamis.model import Candidate, Evidence, Passage
from tamis.search.scores import coherence, saturation
from tamis.text.words import text_hash

ANY = settings(deadline=None, derandomize=True)


def coherent(candidates, share, reach=50):
    return staged(coherence, candidates, coherence=share, candidate_depth=reach)


def saturated(candidates, factor):
    return staged(saturation, candidates, saturation=factor)


def candidate(path: str, ordinal: int, raw: float, rank: int = 1) -> Candidate:
    text = f"{path} {ordinal}"
    passage = Passage(
        path, ordinal, text, text_hash(text), "", 1, 1, "documentation", None, 0.0, ()
    )
    return Candidate(passage, raw, raw * 10, (Evidence("words", rank, 1.0),))


def document(path: str, *scores: float) -> list[Candidate]:
    return [candidate(path, at, score) for at, score in enumerate(scores)]


def best_first(*candidates: Candidate) -> list[Candidate]:
    return sorted(candidates, key=lambda each: (-each.raw_score, each.passage.position))


def raw(candidates: list[Candidate]) -> dict[tuple[str, int], float]:
    return {each.passage.position: each.raw_score for each in candidates}


def test_many_good_passages_lift_the_best_one_and_no_other():
    """Its third to its ninth, a share of them; the first and the second say nothing, nor does the tenth."""
    scores = [0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.09, 0.08, 0.07, 0.06]
    found = coherent(document("a", *scores), 0.2)
    support = 0.2 * (0.3 + 0.25 + 0.2 + 0.15 + 0.1 + 0.09 + 0.08)
    assert found[0].raw_score == pytest.approx(0.5 + support)
    assert found[0].score == pytest.approx(10 * (0.5 + support))
    assert dict(found[0].boosts) == {"coherence": pytest.approx(1 + support / 0.5)}
    assert [each.raw_score for each in found[1:]] == scores[1:]
    assert all(each.boosts == () for each in found[1:])


def test_one_or_two_passages_are_no_more_than_that():
    fused = best_first(*document("a", 0.5, 0.45), *document("b", 0.4))
    assert coherent(fused, 5.0) == fused


def test_a_document_that_is_about_it_overtakes():
    fused = best_first(*document("a", 0.5), *document("b", 0.45, 0.4, 0.4, 0.4))
    found = coherent(fused, 0.1)
    assert [each.passage.position for each in found[:2]] == [("b", 0), ("a", 0)]
    assert found[0].raw_score == pytest.approx(0.45 + 0.1 * 0.8)


def test_no_share_and_no_score():
    fused = best_first(*document("a", 0.5, 0.4, 0.3))
    assert coherent(fused, 0.0) == fused
    nothing = document("a", 0.0, 0.0, 0.0)
    assert coherent(nothing, 0.2) == nothing
    assert coherent([], 0.2) == saturated([], 0.9) == []


def test_each_further_passage_counts_less():
    fused = best_first(*document("a", 0.5, 0.49, 0.48), *document("b", 0.46, 0.2))
    found = saturated(fused, 0.9)
    assert raw(found) == pytest.approx(
        {
            ("a", 0): 0.5,
            ("b", 0): 0.46,
            ("a", 1): 0.441,
            ("a", 2): 0.48 * 0.81,
            ("b", 1): 0.18,
        }
    )
    assert [each.passage.position for each in found] == [
        ("a", 0),
        ("b", 0),
        ("a", 1),
        ("a", 2),
        ("b", 1),
    ]
    assert [each.boosts for each in found] == [
        (), (), (("saturation", 0.9),), (("saturation", pytest.approx(0.81)),), (("saturation", 0.9),),
    ]  # fmt: skip


def test_a_factor_of_one_and_of_none():
    fused = best_first(*document("a", 0.5, 0.4), *document("b", 0.3))
    assert saturated(fused, 1.0) == fused
    assert raw(saturated(fused, 0.0)) == {("a", 0): 0.5, ("b", 0): 0.3, ("a", 1): 0.0}


def test_passages_beyond_reach_say_nothing_about_their_document():
    """How many of them are seen depends on the limit, and the order of the first must not."""
    far = [candidate("a", at, 0.1, rank=51) for at in range(2, 6)]
    near = document("a", 0.5, 0.4)
    assert coherent([*near, *far], 0.5) == [*near, *far]
    assert coherent([*near, *far], 0.5, reach=60)[0].raw_score == pytest.approx(
        0.5 + 0.5 * 0.4
    )


ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1)), max_size=25)


@ANY
@given(ROWS, st.floats(0, 2), st.floats(0, 1))
def test_against_a_plain_second_reading(rows, share, factor):
    """Document by document, from the scores alone; what either leaves is sorted again."""
    fused = best_first(
        *(candidate(path, at, score) for at, (path, score) in enumerate(rows))
    )
    own = defaultdict(list)
    for each in fused:
        own[each.passage.path].append(each)
    lifted, thinned = {}, {}
    for passages in own.values():
        for place, each in enumerate(passages):
            more = (
                math.fsum(other.raw_score for other in passages[2:9])
                if place == 0
                else 0.0
            )
            lifted[each.passage.position] = each.raw_score + share * more
            thinned[each.passage.position] = each.raw_score * factor**place
    for found, expected in (
        (coherent(fused, share), lifted),
        (saturated(fused, factor), thinned),
    ):
        assert raw(found) == pytest.approx(expected, rel=1e-9, abs=1e-300)
        assert found == best_first(*found)
        assert all(
            each.score == pytest.approx(each.raw_score * 10, rel=1e-9, abs=1e-300)
            for each in found
        )
