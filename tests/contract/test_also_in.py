"""Also in N places: what an answer drops because it says the same is named on what is shown instead."""

import json

import click
import pytest

from support.served import answer as answer_of
from support.served import text
from support.sites import site_of
from tamis.cli.main import main
from tamis.cli.render import answer
from tamis.model import Place

TEXT = "Retries are limited to three, with a pause of one second between them."
FILES = {
    "docs/a.md": f"# Retries\n\n{TEXT}\n",
    "docs/b.md": f"\n\n\n# Retries\n\n{TEXT}\n",
    "notes/c.md": f"# Retries\n\n{TEXT.replace('three', 'four')}\n",
    "notes/d.md": f"# Retries\n\n{TEXT.replace('three', 'four')}\n",
    "e.md": "Nothing about that here: a sheep on a meadow.\n",
}
ON = {"search__ngram_dedup_enabled": True}


def shown(result):
    return [(place.path, place.start_line) for place in result.also_in]


@pytest.mark.rows("R002-093", "R002-094")
def test_same_text_and_near_text_are_named(corpus_of):
    """The copies of a copy too, best first."""
    found = corpus_of(FILES, **ON).search("retries limited to three")
    best, *others = found.results
    assert (best.path, shown(best)) == (
        "docs/a.md",
        [("docs/b.md", 4), ("notes/c.md", 1), ("notes/d.md", 1)],
    )
    assert [result.path for result in others] == ["e.md"]
    stats = [
        found.stats[f"after_{name}"]
        for name in ("threshold", "content_dedup", "ngram_dedup", "dedup")
    ]
    assert stats == [5, 3, 2, 2]


def test_as_json_only_where_there_is_something_to_say(corpus_of):
    best, other = (
        corpus_of(FILES, **ON).search("retries limited to three").to_dict()["results"]
    )
    assert best["also_in"][0] == {"path": "docs/b.md", "start_line": 4, "end_line": 6}
    assert best["also_in_count"] == len(best["also_in"]) == 3
    assert not {"also_in", "also_in_count"} & set(other)
    json.dumps(best)


def test_as_text(corpus_of):
    def lines(files, **flags):
        found = corpus_of(files, **flags).search("retries limited to three")
        return [click.unstyle(line) for line in answer(found, explain=False)]

    assert "   also in 3 places: docs/b.md:4, notes/c.md:1, notes/d.md:1" in lines(
        FILES, **ON
    )
    assert "   also in 1 place: b.md:1" in lines({"a.md": TEXT, "b.md": TEXT})
    assert "   also in 8 places: 1.md:1, 2.md:1, 3.md:1, ..." in lines(
        {f"{n}.md": TEXT for n in range(9)}, model__name="none"
    )


def test_of_many_places_some_are_listed_and_all_are_counted(corpus_of):
    """The same twenty every time, the first by path and position; from Python all of them."""
    corpus = corpus_of({f"{n:02}.md": TEXT for n in range(70)}, model__name="none")
    best, *others = corpus.search("retries limited to three").results
    assert (best.path, others) == ("00.md", [])
    assert [place.path for place in best.also_in] == [
        f"{n:02}.md" for n in range(1, 70)
    ]
    plain = best.to_dict()
    assert [place["path"] for place in plain["also_in"]] == [
        f"{n:02}.md" for n in range(1, 21)
    ]
    assert plain["also_in_count"] == 69
    kept = (
        corpus.search("retries limited to three", excluded_files=["01.md", "30.md"])
        .results[0]
        .to_dict()
    )
    assert [place["path"] for place in kept["also_in"]] == [
        f"{n:02}.md" for n in range(2, 22)
    ]
    assert kept["also_in_count"] == 67


def test_for_agents_and_over_http(tmp_path):
    """Each door lists as many as it has room for, and counts them all."""
    files = {f"{n:02}.md": TEXT for n in range(30)} | {"e.md": FILES["e.md"]}
    site = site_of(tmp_path / "docs", files, model__name="none")
    try:
        said = site.get("/search", q="retries limited")["results"][0]
        (told,) = answer_of(site.state, query="retries limited")["results"]
        lines = text(site.state, query="retries limited").splitlines()
    finally:
        site.close()
    assert [place["path"] for place in said["also_in"]] == [
        f"{n:02}.md" for n in range(1, 21)
    ]
    assert said["also_in_count"] == told["also_in_count"] == 29
    assert told["also_in"] == ["01.md:1", "02.md:1", "03.md:1"]
    assert "also in 29 places: 01.md:1, 02.md:1, 03.md:1, ..." in lines


def test_at_the_command_line(corpus_of, capsys):
    """With the settings that everybody has."""
    root = str(corpus_of(FILES).root)
    with pytest.raises(SystemExit) as ended:
        main(
            ["search", "retries limited to three", root, "--model", "hashing", "--mmr"]
        )
    assert ended.value.code == 0
    assert (
        "also in 3 places: docs/b.md:4, notes/c.md:1, notes/d.md:1"
        in capsys.readouterr().out
    )


@pytest.mark.rows("R000-035")
def test_what_a_filter_keeps_out_is_no_place(corpus_of):
    """The law."""
    corpus = corpus_of(FILES, **ON)
    best = corpus.search(
        "retries limited to three", excluded_files=["docs/b.md", "notes/d.md"]
    ).results[0]
    assert shown(best) == [("notes/c.md", 1)]
    best = corpus.search("retries limited to three", under=["notes"]).results[0]
    assert (best.path, shown(best)) == ("notes/c.md", [("notes/d.md", 1)])


def test_a_limit_per_document_adds_nothing(corpus_of):
    parts = "".join(
        f"# Part {word}\n\nretries and {word * 9}\n\n" for word in ("one", "two", "six")
    )
    found = corpus_of({"a.md": parts}, chunking__min_chars=0).search(
        "retries", unique=True
    )
    assert [shown(result) for result in found.results] == [[]]


def test_two_places_in_one_document(corpus_of):
    twice = (
        f"# One\n\n{TEXT}\n\n# Two\n\n{'a sheep on a meadow ' * 9}\n\n# One\n\n{TEXT}\n"
    )
    best = (
        corpus_of({"a.md": twice}, chunking__min_chars=0)
        .search("retries limited")
        .results[0]
    )
    assert (best.start_line, shown(best)) == (1, [("a.md", 9)])


def test_a_code_block_in_its_passage_is_no_other_place(corpus_of):
    """The block is a chunk of its own; one of the two is shown, the other is not elsewhere."""
    text = "About retries.\n\n```python\ndef retry(times):\n    return times - 1\n```\n"
    found = corpus_of({"a.md": text}, **ON, search__ngram_dedup_threshold=0.3).search(
        "retry times"
    )
    assert found.stats["original_count"] == 2
    assert [shown(result) for result in found.results] == [[]]


def test_what_lies_in_the_section_that_is_shown_is_no_other_place(corpus_of):
    flags = {
        "chunking__parents": True, "chunking__parent_min_chars": 0, "chunking__child_min_chars": 0,
        "chunking__child_max_chars": 100, "chunking__child_overlap_chars": 0,
    }  # fmt: skip
    text = f"{TEXT}\n\n{'A sheep on a meadow eats grass. ' * 5}\n\n{TEXT}\n"
    corpus = corpus_of({"a.md": text}, **flags)
    (section,) = corpus.search("retries limited pause").results
    assert shown(section) == []
    passages = corpus.search("retries limited pause", expand_parents=False).results
    assert [place.path for place in passages[0].also_in] == ["a.md"]


@pytest.mark.rows("R002-093..095")
@pytest.mark.parametrize(
    ("file", "flags", "reason"),
    [
        ("docs/b.md", {}, "same text"),
        ("notes/c.md", ON, "near text"),
        ("notes/d.md", ON, "same text"),
        (
            "notes/c.md",
            {"search__dedup_enabled": True, "search__dedup_similarity_threshold": 0.8},
            "same meaning",
        ),
    ],
)
def test_why_not(file, flags, reason, corpus_of):
    """By which stage, and what is shown instead."""
    said = (
        corpus_of(FILES, **flags)
        .search("retries limited to three", why_not=file)
        .why_not
    )
    instead = "notes/c.md" if file == "notes/d.md" else "docs/a.md"
    assert (said.reason, said.detail) == (reason, f"shown from {instead} instead")


def test_a_place_is_a_plain_value():
    assert Place("a.md", 1, 2).to_dict() == {
        "path": "a.md",
        "start_line": 1,
        "end_line": 2,
    }
