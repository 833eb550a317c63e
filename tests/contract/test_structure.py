"""What a user gets from structure: fields, names, links and sections, asked through a corpus."""

import pytest

from tamis.settings import SearchSettings
from tamis.weights import FIELD_WEIGHTS

FILLER = (
    "Plain text about nothing in particular, written to be as long as the others are. "
    * 3
)


def paths(found) -> list[str]:
    return [result.path for result in found.results]


def lanes(result) -> dict[str, int]:
    return {evidence.lane: evidence.rank for evidence in result.evidence}


# --- Fields ---------------------------------------------------------------------------------------


@pytest.mark.rows("C47", "R002-055..057", "R002-111", "R002-113..116", "R002-120")
def test_the_weights_of_fields():
    """The later list of the seed holds."""
    assert FIELD_WEIGHTS == {
        "title": 3.0, "headers": 2.5, "keywords": 2.5, "description": 2.0, "tags": 2.0, "aliases": 1.5,
        "author": 1.0, "category": 1.0, "body": 1.0, "symbols": 5.0, "path": 2.0, "code": 1.0,
    }  # fmt: skip


@pytest.mark.rows(
    "R002-014", "R002-015", "R002-059", "R002-123", "R002-132", "R002-134"
)
@pytest.mark.parametrize(
    "strong",
    [
        "---\ntitle: Zeppelin\n---\nx " + FILLER,
        "# Zeppelin\n\n" + FILLER,
        "---\nkeywords: [zeppelin]\n---\nx " + FILLER,
        "---\ndescription: of a zeppelin\n---\nx " + FILLER,
        "---\ntags: [zeppelin]\n---\nx " + FILLER,
        "---\naliases: [zeppelin]\n---\nx " + FILLER,
        "x #zeppelin " + FILLER,
    ],
    ids=[
        "title",
        "header",
        "keywords",
        "description",
        "tags",
        "aliases",
        "tag in the text",
    ],
)
def test_a_field_counts_more_than_the_text(strong, corpus_of):
    """What it says about itself comes first."""
    weak = {
        f"b{number}.md": f"{FILLER} zeppelin {number} {FILLER}" for number in range(6)
    }
    found = corpus_of({"z.md": strong} | weak, search__semantic_weight=0).search(
        "zeppelin"
    )
    assert paths(found)[0] == "z.md"


# --- Code in documents and files --------------------------------------------------------------------

GUIDE = """# Tokens

How a client gets its token, in prose, with enough words around it to be a passage of its own.

```python
def getAuthToken(session):
    return session.token
```

Then more prose about other matters.

```cpp
std::vector<Token> all_tokens = C::load(p->next);
```
"""


@pytest.mark.rows("R002-077", "R002-078", "R002-086", "X7")
def test_code_blocks_are_passages_of_their_own(corpus_of):
    """Each block with its language, found by the names in it."""
    corpus = corpus_of({"guide.md": GUIDE})
    found = corpus.search("getAuthToken", chunk_types=["code_block"])
    best = found.results[0]
    assert (best.chunk_type, best.language, best.start_line, best.end_line) == (
        "code_block",
        "python",
        6,
        7,
    )
    assert best.content == "def getAuthToken(session):\n    return session.token"
    assert best.header_path == "Tokens"
    assert lanes(best)["code"] == 1
    assert {result.language for result in corpus.search("token", chunk_types=["code_block"]).results} == {
        "python", "cpp",
    }  # fmt: skip


@pytest.mark.rows("R002-090")
@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("get_auth_token", "python"),
        ("std::vector", "cpp"),
        ("all_tokens", "cpp"),
        ("p->next", "cpp"),
    ],
)
def test_names_are_found_however_they_are_written(query, language, corpus_of):
    """Camel case, punctuation, snake case; and by language."""
    corpus = corpus_of({"guide.md": GUIDE, "other.md": FILLER})
    found = corpus.search(query, chunk_types=["code_block"]).results
    assert [result.language for result in found if lanes(result).get("code") == 1] == [
        language
    ]
    assert paths(corpus.search(query, languages=["rust"])) == []


SOURCES = {
    "src/auth.js": "/** The token of a session. */\nexport function getAuthToken(session) {\n"
    "  return session.token;\n}\n",
    "src/client.js": 'import { getAuthToken } from "./auth";\n\nexport function call(session) {\n'
    "  return send(getAuthToken(session), getAuthToken(session));\n}\n",
    "src/test.js": 'import { getAuthToken } from "./auth";\n\ntest(() => getAuthToken({}));\n',
    "docs/auth.md": "# Auth\n\ngetAuthToken getAuthToken getAuthToken: call it once.\n",
    "docs/other.md": FILLER,
}


@pytest.mark.rows("R002-087", "R002-091", "R002-092")
def test_the_definition_comes_first_and_then_its_uses(corpus_of):
    """The code lane joins by itself, and `getAuthToken` is found exactly."""
    found = corpus_of(SOURCES).search("getAuthToken")
    assert paths(found)[0] == "src/auth.js"
    assert set(paths(found)[1:4]) == {"src/client.js", "src/test.js", "docs/auth.md"}
    assert set(lanes(found.results[0])) >= {"words", "code"}
    assert found.results[0].boosts == {"named": 2.0}
    assert found.results[0].tags == ("code", "javascript", "definitions")


@pytest.mark.rows("C28", "R001-055")
@pytest.mark.parametrize(
    "query", ["src/client.js", "client.js", "where is client.js used"]
)
def test_a_question_that_names_a_file_gets_it_first(query, corpus_of):
    """An exact path counts double."""
    assert paths(corpus_of(SOURCES).search(query))[0] == "src/client.js"


def test_plain_words_find_the_definitions_that_have_them(corpus_of):
    """Nobody remembers how a name is written."""
    files = {
        "a.py": "class HTTPResponse:\n    pass\n",
        "b.py": "class Other:\n    pass\n",
        "c.md": FILLER,
    }
    corpus = corpus_of(files, search__semantic_weight=0)
    assert paths(corpus.search("http response")) == ["a.py"]


@pytest.mark.rows("R002-084")
def test_a_language_whose_name_is_a_letter_and_signs(corpus_of):
    """In prose, too."""
    files = {
        "a.md": "We use C++ for the engine.\n",
        "b.md": "We use C# and C for the rest.\n",
    }
    corpus = corpus_of(files, search__semantic_weight=0)
    assert paths(corpus.search("C++")) == ["a.md"]
    assert paths(corpus.search("why C#")) == ["b.md"]


def test_names_in_backticks_are_code_too(corpus_of):
    """Prose that names a symbol says so; code that has a part of the name says less."""
    files = {
        "a.md": "# Tokens\n\nThe switch is `token_reuse`, off by default.\n",
        "b.md": "# Other\n\n```python\ntoken = reuse(token)\n```\n",
    }
    best = (
        corpus_of(files, search__semantic_weight=0)
        .search("what is token_reuse")
        .results[0]
    )
    assert (best.path, lanes(best)["code"]) == ("a.md", 1)


@pytest.mark.rows("R002-089")
def test_the_code_lane_by_default():
    assert (
        SearchSettings().code_search_enabled,
        SearchSettings().code_search_weight,
    ) == (True, 1.0)


# --- Links -------------------------------------------------------------------------------------------

NOTES = {
    "start.md": "Zeppelin travel. See [[Mast]] and [[Gone]].\n",
    "Mast.md": "Where ships of the air are moored.\n",
    "hangar.md": "---\nrelated: [start]\n---\nA very large building.\n",
    "alone.md": "Nothing to do with any of it.\n",
}


def linked(found) -> dict[str, tuple[str, str, str]]:
    return {
        each.path: (each.link, each.source, each.target) for each in found.graph_context
    }


@pytest.mark.rows("R000-014", "R002-016", "R002-119")
def test_neighbours_come_with_the_link_that_led_there(corpus_of):
    """Both directions, and the kind of the link."""
    corpus = corpus_of(NOTES, search__semantic_weight=0)
    found = corpus.search("zeppelin", include_graph_context=True)
    assert paths(found) == ["start.md", "Mast.md", "hangar.md"]
    assert {
        path: where for path, where in linked(found).items() if path != "start.md"
    } == {
        "Mast.md": ("wikilink", "start.md", "Mast.md"),
        "hangar.md": ("related", "hangar.md", "start.md"),
    }
    assert corpus.search("zeppelin").graph_context is None
    assert (
        corpus.search("zeppelin", max_hops=0, include_graph_context=True).graph_context
        == ()
    )


@pytest.mark.rows("R002-129", "C70")
def test_a_related_document_that_is_not_there(corpus_of):
    """No edge to nowhere; it comes with its target."""
    files = {"a.md": "---\nrelated: [later]\n---\nzeppelin\n"}
    corpus = corpus_of(files, search__semantic_weight=0)
    assert corpus.search("zeppelin", include_graph_context=True).graph_context == ()
    (corpus.root / "later.md").write_text("something else\n", encoding="utf-8")
    corpus.refresh()
    assert (
        linked(corpus.search("zeppelin", include_graph_context=True))["later.md"][0]
        == "related"
    )


@pytest.mark.rows("R000-065")
def test_exclusion_holds_for_every_lane(corpus_of):
    """By meaning, by words, along links, and fused."""
    corpus = corpus_of(NOTES)
    for question in ("zeppelin", "ships of the air", "Mast.md"):
        for hops in (0, 1, 2):
            found = corpus.search(
                question,
                excluded_files=["Mast.md"],
                max_hops=hops,
                include_graph_context=True,
            )
            assert "Mast.md" not in {*paths(found), *linked(found)}


# --- Sections ------------------------------------------------------------------------------------------

LONG = "# Airships\n\n" + "".join(
    f"## Part {number}\n\n" + f"Sentence number {number} of many. " * 20 + "\n\n"
    for number in range(8)
)


@pytest.mark.rows("R002-163..167")
def test_sections_are_shown_for_the_passages_in_them(corpus_of):
    """Found by a small passage, shown as the section around it, each section once."""
    corpus = corpus_of({"a.md": LONG}, chunking__parents=True)
    sections = corpus.search("sentence", limit=50).results
    passages = corpus.search("sentence", limit=50, expand_parents=False).results
    assert (
        len({result.chunk_id for result in sections}) == len(sections) < len(passages)
    )
    by_id = {result.chunk_id: result for result in sections}
    lines = {(passage.start_line, passage.end_line) for passage in passages}
    assert {section.matched_lines for section in sections} <= lines
    assert {passage.matched_lines for passage in passages} == {None}
    for passage in passages:
        section = by_id[passage.parent_chunk_id]
        assert passage.content in section.content
        assert (
            section.start_line
            <= passage.start_line
            <= passage.end_line
            <= section.end_line
        )
        assert len(passage.content) <= 600 < len(section.content) <= 2000


@pytest.mark.rows("R002-165")
def test_sections_that_are_not_there(corpus_of):
    """An index on one level says how to get the other."""
    found = corpus_of({"a.md": LONG}).search("sentence", expand_parents=True)
    assert found.results[0].parent_chunk_id is None
    assert any("chunking.parents" in hint for hint in map(str, found.hints))


def test_a_filter_that_cuts_through_a_document_shows_no_sections(corpus_of):
    """The section would hold what the filter keeps out."""
    text = LONG + "```python\nsecret_code = 1\n```\n"
    corpus = corpus_of({"a.md": text, "b.md": LONG}, chunking__parents=True)
    found = corpus.search("sentence secret_code", limit=50, filter="-type:code_block")
    assert all(
        result.parent_chunk_id is None
        for result in found.results
        if result.path == "a.md"
    )
    assert all(
        result.parent_chunk_id for result in found.results if result.path == "b.md"
    )
