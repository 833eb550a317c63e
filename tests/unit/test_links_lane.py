"""The links lane's arithmetic: who is reached, what it gets, in which order."""

from collections.abc import Sequence
from math import sqrt

import pytest

from tamis.index.protocol import Edge
from tamis.search.links import Neighbour, neighbours


def graph(*edges: Edge):
    """What an engine would answer: the edges that touch documents, and with how many each is linked."""

    def look(paths: Sequence[str]) -> list[Edge]:
        return [edge for edge in edges if {edge.source, edge.target} & set(paths)]

    def count(paths: Sequence[str]) -> dict[str, int]:
        ends = {
            path: {end for e in look([path]) for end in (e.source, e.target)}
            for path in paths
        }
        return {path: len(linked - {path}) for path, linked in ends.items()}

    return look, count


def edge(source: str, target: str, kind: str = "wikilink") -> Edge:
    return Edge(source, target, kind, "", 0)


def scores(found: list[Neighbour]) -> dict[str, float]:
    return {each.path: each.score for each in found}


@pytest.mark.rows("R002-016", "R000-076")
def test_a_neighbour_gets_half_of_what_the_hit_has():
    """Over a link from the hit and, a little less, over one to it."""
    found = neighbours({"hit": 1.0}, 1, *graph(edge("hit", "out"), edge("in", "hit")))
    assert [(each.path, each.score, each.hops) for each in found] == [
        ("out", 0.5, 1), ("in", 0.4, 1),
    ]  # fmt: skip
    assert [each.edge for each in found] == [edge("hit", "out"), edge("in", "hit")]


@pytest.mark.rows("C31")
@pytest.mark.parametrize("hops", [1, 2, 3])
def test_each_hop_halves(hops):
    """As far as max_hops, and no farther."""
    chain = graph(edge("hit", "a"), edge("a", "b"), edge("b", "c"), edge("c", "d"))
    first = 0.5 / sqrt(2)  # `a` is linked with two documents
    second = first * 0.5 / sqrt(2)
    expected = {"a": first, "b": second, "c": second * 0.5 / sqrt(2)}
    assert scores(neighbours({"hit": 1.0}, hops, *chain)) == pytest.approx(
        dict(list(expected.items())[:hops])
    )


@pytest.mark.rows("R002-022", "R002-119")
@pytest.mark.parametrize(
    ("stronger", "weaker"),
    [
        ("related", "embed"),
        ("embed", "wikilink"),
        ("wikilink", "markdown"),
        ("markdown", "import"),
    ],
)
def test_kinds_of_links_count_differently(stronger, weaker):
    links = graph(edge("hit", "z", stronger), edge("hit", "a", weaker))
    assert [each.path for each in neighbours({"hit": 1.0}, 1, *links)] == ["z", "a"]


def test_the_best_of_several_links_counts_once():
    links = graph(
        edge("hit", "a", "markdown"), edge("hit", "a", "related"), edge("a", "hit")
    )
    (found,) = neighbours({"hit": 1.0}, 1, *links)
    assert (found.score, found.edge.type) == (0.6, "related")


def test_two_hits_add_up():
    links = graph(edge("one", "both"), edge("two", "both"), edge("one", "alone"))
    found = scores(neighbours({"one": 1.0, "two": 0.5}, 1, *links))
    assert found == pytest.approx({"both": 0.75 / sqrt(2), "alone": 0.5})


def test_a_page_that_everything_links_to_gains_little():
    """A hub is shared out among all that it is linked with."""
    crowd = [edge(f"page{number}", "hub") for number in range(99)]
    links = graph(*crowd, edge("hit", "hub"), edge("hit", "x"))
    assert scores(neighbours({"hit": 1.0}, 1, *links)) == {"x": 0.5, "hub": 0.05}


@pytest.mark.rows("R002-016")
def test_hits_vouch_for_each_other():
    """Each has what the other passes on, and nothing of its own; a hit alone is not in the
    lane."""
    found = neighbours({"a": 1.0, "b": 0.5, "c": 0.4}, 2, *graph(edge("a", "b")))
    assert scores(found) == {"b": 0.5, "a": 0.5 * 0.5 * 0.8}
    assert {each.edge for each in found} == {edge("a", "b")}


def test_what_comes_back_over_two_hops_does_not_count():
    found = neighbours({"a": 1.0}, 3, *graph(edge("a", "b")))
    assert scores(found) == {"b": 0.5}
    assert found[0].hops == 1


def test_one_document_passes_on_to_a_bounded_number():
    many = graph(*(edge("hit", f"page{number:03}") for number in range(300)))
    found = [each.path for each in neighbours({"hit": 1.0}, 1, *many)]
    assert found == [f"page{number:03}" for number in range(20)]
    spread = graph(*(edge(f"hit{n % 9}", f"page{n:03}") for n in range(300)))
    assert len(neighbours({f"hit{n}": 1.0 for n in range(9)}, 1, *spread)) == 50


def test_nothing_is_linked():
    assert neighbours({"hit": 1.0}, 3, *graph()) == []
    assert neighbours({"hit": 1.0}, 0, *graph(edge("hit", "b"))) == []
    assert neighbours({}, 3, *graph(edge("a", "b"))) == []
