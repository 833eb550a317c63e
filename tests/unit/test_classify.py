"""What kind of question it is."""

from typing import get_args

import pytest

from tamis.search.question import QueryType, query_type


@pytest.mark.rows("R002-052")
def test_there_are_three_types():
    assert get_args(QueryType) == ("factual", "navigational", "exploratory")


@pytest.mark.rows("R002-048", "C56")
@pytest.mark.parametrize(
    "query",
    [
        "getUserById", "what does getUserById do", "HTTPResponse class", "parse_json_data", "_private_name",
        "`config`", "the `retry` flag", '"exact phrase"', "version 2.1", "v1.2.3 changes", "python 3.11",
        "MAX_RETRIES", "what is the TIMEOUT", "std::vector", "obj->field", "main()", "parse() in the parser",
    ],
)  # fmt: skip
def test_factual(query):
    """Humps, underscores, backticks, versions, quotations, capitals."""
    assert query_type(query) == "factual"


@pytest.mark.rows("R002-049", "C56")
@pytest.mark.parametrize(
    "query",
    [
        "installation guide", "section about tokens", "chapter two", "the Guide to setup", "start page",
        "in the introduction", "what is said in the appendix", "[[Daily note]]", "see [[projects/tamis]]",
    ],
)  # fmt: skip
def test_navigational(query):
    """Section, chapter, guide, "in the X", wiki links."""
    assert query_type(query) == "navigational"


@pytest.mark.rows("R002-050", "R002-054", "C56")
@pytest.mark.parametrize(
    "query",
    [
        "how do retries work", "what is authentication", "why is it slow", "when to use caching",
        "deployment",
        "intersection of two sets", "guidelines for reviews", "sectional sofa", "pagerank explained",
        "GitHub integration", "login with OAuth", "install on macOS", "GitLab runners", "JavaScript closures",
        "TypeScript generics", "DevOps culture", "join the team", "", "   ", "?", "東京", "I am a cow",
    ],
)  # fmt: skip
def test_exploratory(query):
    """The default; whole words only, and names in mixed case are no code."""
    assert query_type(query) == "exploratory"


@pytest.mark.rows("R002-051")
@pytest.mark.parametrize(
    "query", ["guide to parse_json", "section 2.1", "getUserById in the API guide"]
)
def test_the_first_that_fits_wins(query):
    """Factual, then navigational."""
    assert query_type(query) == "factual"


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("[[" * 10_000, "exploratory"),
        ("[[a" * 6_000, "exploratory"),
        ("[[a" * 6_000 + "]]", "navigational"),
        ("[[a] " * 4_000, "exploratory"),
        ("[[[Daily note]]]", "navigational"),
    ],
    ids=lambda value: value[:16],
)
def test_a_hostile_query_has_a_type(query, kind):
    """Open links once took time with the square of their number."""
    assert query_type(query) == kind
