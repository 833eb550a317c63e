"""Where the words of a question are in a passage."""

import pytest

from tamis.search.explain import marks


def marked(question, content):
    return [content[start:end] for start, end in marks(question, content).words]


@pytest.mark.parametrize(
    ("question", "content", "expected"),
    [
        (
            "refunds",
            "A refund, refunded; not a fund? REFUNDS!",
            ["refund", "refunded", "REFUNDS"],
        ),
        ("how is the", "how is the weather", []),
        ("café", "Cafe and CAFÉ", ["Cafe", "CAFÉ"]),
        ("snake_case", "a snake_case b", ["snake", "case"]),
        ("x" * 100, "x" * 100, []),
        ("", "nothing", []),
    ],
)
def test_words_count_as_the_words_lane_counts_them(question, content, expected):
    assert marked(question, content) == expected


def test_places_are_characters():
    content = "😀 grass 😀 grass"
    assert marks("grass", content).words == ((2, 7), (10, 15))


def test_the_best_sentence_has_the_most_words():
    content = "Grass is green. Green grass grows. Hay is dry.\nGrass grows green."
    start, end = marks("green grass grows", content).sentence
    assert content[start:end] == "Green grass grows."


def test_one_word_makes_no_sentence():
    assert marks("grass", "Grass. Grass.").sentence is None
    assert marks("grass hay", "Grass. Straw.").sentence is None


def test_not_everything_is_marked():
    assert len(marks("grass", "grass " * 1000).words) == 200
