"""Near duplicates and diversity through an index."""

import pytest

# --- Near text ---------------------------------------------------------------------------------

ON = {"search__ngram_dedup_enabled": True}
PLAIN = "Retries are limited to three, with a pause of one second between them."


@pytest.mark.rows("R002-156")
def test_exact_copies_are_gone_before_the_semantic_stage(corpus_of):
    """More than 90 % of exact duplicates, with the hash stage left out as well."""
    copies = {f"copy{number:02}.md": PLAIN for number in range(20)}
    others = {
        "a.md": "sheep eat grass",
        "b.md": "a meadow in summer",
        "c.md": "straw and hay",
    }
    for content_dedup in (True, False):
        stats = (
            corpus_of(
                copies | others, weights__content_dedup_enabled=content_dedup, **ON
            )
            .search("retries limited", limit=20)
            .stats
        )
        assert (stats["original_count"], stats["after_ngram_dedup"]) == (23, 4)


@pytest.mark.rows("R002-094", "R002-108")
def test_near_copies_are_gone_and_different_texts_stay(corpus_of):
    files = {
        "a.md": PLAIN,
        "b.md": PLAIN.replace("three", "four"),
        "c.md": PLAIN.upper(),
        "d.md": "Retries are limited elsewhere, too: by the budget of the caller, who pays for them.",
    }
    found = corpus_of(files, **ON).search("retries limited", limit=10)
    assert sorted(result.path[0] for result in found.results)[-1] == "d"
    assert len(found.results) == 2
    assert (
        found.stats["after_content_dedup"] == 4
        and found.stats["after_ngram_dedup"] == 2
    )


@pytest.mark.rows("C46")
def test_the_limit_is_filled_from_below_near_copies(corpus_of):
    """What is dropped makes room for what ranks lower, however deep it is."""
    copies = {
        f"copy{number:03}.md": f"alpha alpha alpha, edition {number:03}"
        for number in range(120)
    }
    others = {
        f"{word}.md": f"alpha and {word} {word}"
        for word in ("sheep", "grass", "hay", "meadow")
    }
    found = corpus_of(copies | others, **ON).search("alpha", limit=5)
    assert len(found.results) == 5
    assert sum(result.path.startswith("copy") for result in found.results) == 1


# --- Same meaning and MMR ----------------------------------------------------------------------

FILES = {
    "a.md": "sheep graze on the meadow all day",
    "b.md": "all day on the meadow graze sheep",
    "c.md": "sheep are shorn in spring",
    "d.md": "a sheep dog keeps the flock together",
}


@pytest.mark.rows("R002-109", "R002-195")
def test_same_meaning_through_a_corpus(corpus_of):
    """The same words in another order are one result, which says where the other is."""
    found = corpus_of(FILES, search__dedup_enabled=True).search("sheep meadow")
    first = found.results[0]
    assert (first.path, [place.path for place in first.also_in]) == ("a.md", ["b.md"])
    assert (found.stats["after_ngram_dedup"], found.stats["after_dedup"]) == (4, 3)
    assert found.stats["clusters_merged"] == 1


@pytest.mark.rows("R002-145")
def test_mmr_for_one_search(corpus_of):
    """Asked for or refused, whatever is configured."""
    for configured in (True, False):
        flags = {
            "search__mmr_enabled": configured,
            "search__mmr_lambda": 0.3,
            "search__ngram_dedup_enabled": False,
        }
        corpus = corpus_of(FILES, **flags)
        orders = {
            mmr: [
                result.path for result in corpus.search("sheep meadow", mmr=mmr).results
            ]
            for mmr in (None, True, False)
        }
        assert orders[None] == orders[configured]
        assert orders[True] != orders[False]
        assert orders[False][:2] == ["a.md", "b.md"]
        assert orders[True].index("b.md") > 1


def test_mmr_without_a_model(corpus_of):
    with_it, without = (
        corpus_of(FILES, model__name="none", search__mmr_enabled=flag).search("sheep")
        for flag in (True, False)
    )
    assert [r.path for r in with_it.results] == [r.path for r in without.results]
