"""What a question names: who has it, and what that is worth alone and in a sentence."""

from dataclasses import replace

import pytest

from support.stages import staged
from tamis.model import Candidate, Evidence, Passage
from tamis.search.fuse import Trust
from tamis.search.scores import Names, named, trust_in_code

USUAL = Trust(adaptive=True, lanes={"code": 0.6})


def passage(path: str, *names: str) -> Passage:
    return Passage(
        path, 0, path, b"", "", 1, 1, "definitions", "python", 0.0, (), names
    )


def candidate(path: str, *names: str, rank: int = 1) -> Candidate:
    return Candidate(
        passage(path, *names), 1.0, 0.5, (Evidence("words", rank, 1.0, 1.0),)
    )


def defining(documents: int) -> dict[str, list[tuple[Passage, float]]]:
    """A code lane with so many files that define `Shape.area`, and one that uses it."""
    paths = [f"{number}.py" for number in range(documents)]
    return {
        "code": [
            *((passage(path, "Shape.area"), 2.0) for path in paths),
            (passage("uses.py", "main"), 1.0),
        ]
    }


@pytest.mark.rows("C28")
@pytest.mark.parametrize(
    ("name", "fits"),
    [
        ("area", True),
        ("Shape.area", True),
        ("Shape::area()", True),
        ("Circle.area", False),
        ("are", False),
        ("shapes.py", True),
        ("src/shapes.py", True),
        ("./src/shapes.py", True),
        ("pes.py", False),
    ],
)
def test_what_has_a_name(name, fits):
    """A symbol by the end of what it is called, a file by the end of its path."""
    assert (
        Names.of([name]).fit(passage("lib/src/Shapes.py", "geometry.Shape.area"))
        is fits
    )


@pytest.mark.parametrize(
    ("documents", "worth"), [(0, 0.2), (1, 0.6), (8, 0.6), (9, 0.2)]
)
@pytest.mark.parametrize("name", ["Shape.area", "circle.area"])
def test_the_code_lane_is_worth_less_where_a_name_points_nowhere(
    documents, worth, name
):
    """None defines it, or many do; what it is called on may be an instance."""
    found = trust_in_code(USUAL, defining(documents), f"why is {name} negative")
    assert found.lanes["code"] == pytest.approx(worth)


@pytest.mark.parametrize("text", ["Shape.area", "Shape.area Shape.edge", "area"])
def test_where_there_is_nothing_but_names_they_are_what_is_asked(text):
    assert trust_in_code(USUAL, defining(0), text) is USUAL


def test_what_the_code_lane_is_worth_can_be_left_as_it_is():
    fixed = replace(USUAL, adaptive=False)
    assert trust_in_code(fixed, defining(0), "why is Shape.area negative") is fixed
    assert (
        trust_in_code(
            USUAL, {"words": defining(0)["code"]}, "why is Shape.area negative"
        )
        is USUAL
    )


def test_asking_the_code_lane_for_more_changes_nothing():
    """Its first fifty decide, so that a larger limit moves no result."""
    deep = [(passage(f"uses{number}.py"), 3.0) for number in range(50)] + defining(3)[
        "code"
    ]
    assert trust_in_code(USUAL, {"code": deep}, "why is Shape.area negative").lanes[
        "code"
    ] == pytest.approx(0.2)


def factors(candidates, text, reach=50):
    found = staged(named, candidates, text, named_boost=3.0, candidate_depth=reach)
    return {each.passage.path: dict(each.boosts).get("named", 1.0) for each in found}


def test_in_a_sentence_the_documents_of_a_name_share_its_boost():
    """A name that everybody has tells nobody apart; that of one document alone does."""
    candidates = [
        candidate("a.py", "Shape.area", "Shape.edge"),
        candidate("b.py", "Line.edge"),
        candidate("c.py", "main"),
        candidate("far.py", "Box.edge", rank=51),
    ]
    assert factors(candidates, "is edge() wrong") == {
        "a.py": 2.0,
        "b.py": 2.0,
        "c.py": 1.0,
        "far.py": 2.0,
    }
    assert factors(candidates, "is area() or edge() wrong")["a.py"] == 3.0
    assert factors(candidates, "is edge() wrong", reach=51)["a.py"] == pytest.approx(
        1 + 2 / 3
    )


@pytest.mark.rows("R001-055")
def test_a_name_alone_counts_in_full_for_all_that_have_it():
    """Definitions before uses, however many there are."""
    candidates = [
        candidate("a.py", "Shape.edge"),
        candidate("b.py", "Line.edge"),
        candidate("c.py", "main"),
    ]
    assert factors(candidates, "edge") == {"a.py": 3.0, "b.py": 3.0, "c.py": 1.0}
    assert staged(named, candidates, "how long is it") is candidates
