"""Front matter: read where it is well made, left in the text where it is not, harmless in any case."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.corpora import SHARED
from tamis.ingest.documents.frontmatter import front_matter
from tamis.model import FrontMatter

LAW = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a noisy machine is no fault

CASES = SHARED / "data" / "conformance" / "frontmatter" / "python_frontmatter.json"


def fields_of(block: str, fence: str = "---") -> FrontMatter:
    found, start, warning = front_matter(f"{fence}\n{block}\n{fence}\nbody\n")
    assert warning == ""
    assert start == len(f"{fence}\n{block}\n{fence}\n")
    return found


def refused(text: str) -> str:
    found, start, warning = front_matter(text)
    assert found == FrontMatter()
    assert start == 0, "what is not understood stays part of the text"
    return warning


FULL = FrontMatter(
    title="A title",
    description="What it says",
    keywords=("one", "two"),
    tags=("draft", "area/work"),
    aliases=("other name",),
    author="Anna Smith",
    category="guide",
    modified=datetime(2026, 5, 1, tzinfo=UTC).timestamp(),
    related=("[[Other note]]", "docs/api.md"),
)


@pytest.mark.rows("R002-112", "R002-117", "R002-121", "R002-131")
@pytest.mark.parametrize(
    ("fence", "block"),
    [
        pytest.param(
            "---",
            "title: A title\ndescription: What it says\nkeywords: one, two\ntags: [Draft, area/Work]\n"
            "aliases:\n  - other name\nauthor: Anna Smith\ncategory: guide\nmodified: 2026-05-01\n"
            "related: ['[[Other note]]', docs/api.md]",
            id="YAML",
        ),
        pytest.param(
            "+++",
            'title = "A title"\ndescription = "What it says"\nkeywords = ["one", "two"]\n'
            'tags = "#draft, area/work"\naliases = ["other name"]\nauthor = "Anna Smith"\n'
            'category = "guide"\nmodified = 2026-05-01\nrelated = ["[[Other note]]", "docs/api.md"]',
            id="TOML",
        ),
        pytest.param(
            "---",
            "TITLE: A title\nSummary: What it says\nkeywords: [one, two]\ntags: ['#draft', area/work, Draft]"
            "\nalias: other name\nauthors: [Anna Smith]\ntype: guide\ndate: 2026-05-01T00:00:00Z\n"
            "related:\n- '[[Other note]]'\n- docs/api.md",
            id="other names and cases",
        ),
    ],
)
def test_fields(fence, block):
    """Names, fallbacks, lists and texts with commas."""
    assert fields_of(block, fence) == FULL


def test_fields_in_json():
    """The braces are part of the block; a blank line or the end of the file comes after it."""
    block = (
        '{\n "title": "A title", "description": "What it says", "keywords": ["one", "two"],\n'
        '"tags": "draft, area/work", "aliases": ["other name"], "author": "Anna Smith",\n'
        '"category": "guide", "modified": "2026-05-01", "related": ["[[Other note]]", "docs/api.md"]\n}'
    )
    for after in ("", "\n", "\n\nbody", "  \n \nbody"):
        found, start, warning = front_matter(block + after)
        assert (found, warning) == (FULL, "")
        assert (block + after)[start:].strip() == after.strip()


@pytest.mark.parametrize(
    "text",
    [
        "{{ template }}\n\n",
        "{% include x %}\n\n",
        "{/* comment */}\n\n",
        '{\n"a": 1\n}\ntext',
        '{"a": 1}\n\n',
        "{\n}\n",
    ],
)
def test_braces_that_are_no_front_matter(text):
    assert refused(text) == ""


def test_broken_json_stays_text_with_a_warning():
    for text in (
        '{\n"a": 1,\n}\n\nbody',
        '{\n"a": ' + "[" * 30_000 + "\n}\n",
        '{\n"a": ' + "9" * 9_000 + "\n}\n",
    ):
        assert refused(text).startswith("front matter not understood: ")


def test_half_a_character_spelled_in_json():
    found, _, _ = front_matter('{\n"title": "a\\ud800b", "up": "[[\\udfff]]"\n}\n')
    assert (found.title, found.links) == ("a?b", ("[[?]]",))


@pytest.mark.rows("R002-112")
@pytest.mark.parametrize(
    ("block", "tags"),
    [
        ("tags: one two", ("one", "two")),
        ("tags: '#one #two/three'", ("one", "two/three")),
        ("tags: one two, three", ("one two", "three")),
        ("tags: [one two, three]", ("one two", "three")),
        ("tag: one", ("one",)),
        ("tags: []\ntag: [one]", ("one",)),
        ("tags: one\ntag: two", ("one",)),
        ("draft: true\ntags: one", ("one", "draft")),
        ("draft: 'True'", ("draft",)),
        ("draft: false\ntags: one", ("one",)),
        ("draft: true\ntags: Draft", ("draft",)),
        ("draft: [true]", ()),
    ],
)
def test_tags_and_drafts(block, tags):
    """Tags as lists, with commas, with blanks; nested ones stay as written."""
    assert fields_of(block).tags == tags


@pytest.mark.parametrize(
    ("block", "related"),
    [
        ("related: [[Note]]", ("Note",)),
        ("related: [[Note]], [[Other]]", None),
        ("related:\n- [[Note]]\n- [[Two|text]]", ("Note", "Two|text")),
        (
            "related: '[[Note, with comma]], [[Other]]'",
            ("[[Note, with comma]], [[Other]]",),
        ),
        ("related: a.md, b.md", ("a.md", "b.md")),
        ("related: [a.md, {b: c}, 3]", ("a.md", "3")),
        ("related:", ()),
    ],
)
def test_related(block, related):
    text = f"---\n{block}\n---\n"
    if related is None:
        refused(text)
    else:
        assert fields_of(block).related == related


def test_values_that_hold_wiki_links():
    found = fields_of(
        "up: '[[A]]'\nlist: [x, '[[B#C|d]] and [[E]]']\ndeep: {er: '[[F]]'}\nrelated: '[[G]]'"
    )
    assert found.links == ("[[A]]", "[[B#C|d]] and [[E]]", "[[F]]")


@pytest.mark.rows("R002-128")
def test_without_front_matter_everything_is_empty():
    for text in (
        "",
        "text",
        "# Heading\n",
        " ---\ntitle: x\n---\n",
        "text\n---\ntitle: x\n---\n",
    ):
        assert front_matter(text) == (FrontMatter(), 0, "")
    assert FrontMatter() == FrontMatter(
        title="",
        description="",
        keywords=(),
        tags=(),
        aliases=(),
        author="",
        category="",
        modified=None,
    )


@pytest.mark.parametrize(
    ("text", "start"),
    [
        pytest.param("---\n---\nbody", 8, id="empty"),
        pytest.param("---\n# only a comment\n---\nbody", 25, id="a comment"),
        pytest.param("--- \ntitle: x\n---  \nbody", 20, id="blanks after the marks"),
        pytest.param("---\ntitle: x\n...\nbody", 17, id="dots end it"),
        pytest.param("---\ntitle: x\n---", 16, id="nothing after it"),
        pytest.param("+++\n+++\nbody", 8, id="empty TOML"),
    ],
)
def test_where_the_text_begins(text, start):
    assert front_matter(text)[1:] == (start, "")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("---\ntitle: x\nno end\n", id="no end"),
        pytest.param("----\ntitle: x\n----\n", id="four dashes"),
        pytest.param("---title: x\n---\n", id="no line of its own"),
        pytest.param("+++\ntitle: x\n---\n", id="ends that do not match"),
        pytest.param(
            "---\n" + "x: y\n" * 20_000 + "---\n", id="longer than front matter is"
        ),
    ],
)
def test_what_is_no_block_is_text_without_a_warning(text):
    assert refused(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("---\ntitle: [unclosed\n---\n", id="broken YAML"),
        pytest.param("---\na: b: c\n---\n", id="a colon too many"),
        pytest.param("---\n\ttitle: tab\n---\n", id="a tab"),
        pytest.param("---\n- a\n- b\n---\n", id="a list"),
        pytest.param("---\njust a sentence\n---\n", id="a sentence between rules"),
        pytest.param("---\n? [a]\n: b\n---\n", id="a key that is a list"),
        pytest.param(
            "---\na: !!python/object:os.system x\n---\n", id="a tag that makes objects"
        ),
        pytest.param("---\nx: \x00\n---\n", id="a character YAML forbids"),
        pytest.param("---\n%YAML 9.9\n---\n", id="a directive"),
        pytest.param("+++\ntitle = \n+++\n", id="broken TOML"),
        pytest.param("+++\na = 1\na = 2\n+++\n", id="a TOML key twice"),
    ],
)
def test_a_broken_block_stays_text_with_a_warning(text):
    assert refused(text).startswith("front matter not understood: ")


@pytest.mark.rows("R002-121")
@pytest.mark.parametrize(
    ("block", "found"),
    [
        ("title: 42", FrontMatter(title="42")),
        ("title: 2026-05-01", FrontMatter(title="2026-05-01")),
        ("title: [a, b]", FrontMatter()),
        ("title: {a: b}", FrontMatter()),
        ("title:", FrontMatter()),
        ("title: '  '", FrontMatter()),
        ("tags: 2026", FrontMatter(tags=("2026",))),
        (
            "tags: [1, 2.5, a, [nested], {b: c}, null, '']",
            FrontMatter(tags=("1", "2.5", "a")),
        ),
        ("tags: {a: b}", FrontMatter()),
        ("tags: a,, b ,", FrontMatter(tags=("a", "b"))),
        ("tags: ['#', '#x', X]", FrontMatter(tags=("x",))),
        ("keywords: {a: b}", FrontMatter()),
        ("author: {a: b}", FrontMatter()),
        ("author: ''\nauthors: a, b", FrontMatter(author="a, b")),
        ("date: soon", FrontMatter()),
        ("date: 5", FrontMatter()),
        ("1: 2\ntitle: x", FrontMatter(title="x")),
        ("unknown: {deep: [1, 2]}", FrontMatter()),
    ],
)
def test_values_of_a_kind_we_do_not_know_are_left_out(block, found):
    """A wrong type costs its own field and nothing else."""
    assert fields_of(block) == found


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()


@pytest.mark.rows("R002-118")
@pytest.mark.parametrize(
    ("block", "moment"),
    [
        ("created: 2024-01-01\ndate: 2025-01-01\nmodified: 2026-01-01", at(2026, 1, 1)),
        ("created: 2024-01-01\ndate: 2025-01-01", at(2025, 1, 1)),
        ("created: 2024-01-01", at(2024, 1, 1)),
        ("modified: soon\ndate: 2025-01-01", at(2025, 1, 1)),
        ("modified: 2026-05-01 12:30:00", at(2026, 5, 1, 12, 30)),
        ("modified: 2026-05-01T12:30:00+02:00", at(2026, 5, 1, 10, 30)),
        ("modified: '2026-05-01T12:30:00Z'", at(2026, 5, 1, 12, 30)),
        ("modified: 0001-01-01T00:00:00+12:00", at(1, 1, 1) - 12 * 3600),
        ("modified: 9999-12-31", at(9999, 12, 31)),
    ],
)
def test_dates(block, moment):
    """Modified before date before created; without a zone it is UTC."""
    assert fields_of(block).modified == moment


# --- Blocks that mean harm --------------------------------------------------------------


def bomb(mark: str, merge: bool) -> str:
    """Nine floors of nine: some 400 million keys or values when they are unfolded."""
    lines = [f"{mark}0: &{mark}0 {{k: v}}" if merge else f"{mark}0: &{mark}0 [v, v]"]
    for floor in range(1, 10):
        below = ", ".join([f"*{mark}{floor - 1}"] * 9)
        inner = f"{{<<: [{below}]}}" if merge else f"[{below}]"
        lines.append(f"{mark}{floor}: &{mark}{floor} {inner}")
    return "\n".join(lines)


@pytest.mark.parametrize("mark", ["a", "-", "_", "9"])
@pytest.mark.parametrize("merge", [False, True], ids=["aliases", "merge keys"])
def test_alias_bombs_are_refused_before_they_unfold(mark, merge):
    """Every sign that may begin an anchor's name: one that slips through would never come back."""
    block = (
        bomb(mark, merge).replace(f"\n{mark}", "\nk").replace(f"{mark}0: &", "k0: &", 1)
    )
    assert "aliases are not supported" in refused(f"---\n{block}\n---\n")


@pytest.mark.parametrize(
    "line",
    [
        "a." * 250 + "a = 1",
        "[" + "a . " * 250 + "a]",
        't = { x = "=", ' + "'=\"'." * 250 + "a = 1 }",
    ],
    ids=["key", "table", "inline"],
)
def test_toml_keys_of_many_parts_are_refused(line):
    assert "more than 200 dots" in refused(f"+++\n{line}\n+++\nbody\n")


def test_a_text_of_many_sentences_in_toml_is_none_of_those():
    text = "It says so. " * 150
    assert (
        fields_of(f'title = "A"\ndescription = "{text}"\na.b.c = 1', "+++").description
        == text.strip()
    )


def test_an_asterisk_and_an_ampersand_in_words_are_no_alias():
    assert (
        fields_of("title: 'R&D * and *more*'\ntags: [a&b, 'c*d']").title
        == "R&D * and *more*"
    )


def test_moderate_nesting_is_no_harm():
    deep = "[" * 40 + "]" * 40
    assert fields_of(f"title: x\nother: {deep}").title == "x"


@LAW
@given(
    st.text(max_size=80)
    | st.lists(
        st.sampled_from(["title", ": ", "- ", *"[]{}#1'\"\n", "&a ", "*a", "<<", "|\n  "])
    ).map("".join),
    st.sampled_from(["---", "+++"]),
)  # fmt: skip
def test_no_block_raises(block, fence):
    text = f"{fence}\n{block}\n{fence}\nbody"
    found, start, warning = front_matter(text)
    assert 0 <= start <= len(text)
    assert start == 0 or not warning
    assert start > 0 or found == FrontMatter()


# --- Held to another reader ---------------------------------------------------------------


# Where we differ: four dashes are a rule to Markdown, and no front matter to Jekyll, Hugo or Obsidian.
OTHERS = {"tests/yaml/extra-dash.txt"}


@pytest.mark.skipif(
    not CASES.exists(), reason="the conformance cases are not on this machine"
)
def test_the_cases_of_python_frontmatter():
    cases = [
        case
        for case in json.loads(CASES.read_text("utf-8"))
        if case["id"] not in OTHERS
    ]
    assert len(cases) >= 9
    for case in cases:
        text, expected = case["text"], case["expected"]
        found, start, warning = front_matter(text)
        assert warning == "", case["id"]
        assert text[start:].strip() == expected["content"].strip(), case["id"]
        for name in ("title", "author"):
            assert getattr(found, name) == expected.get(name, ""), case["id"]
        assert list(found.tags) == [
            str(tag).lower() for tag in expected.get("tags", [])
        ], case["id"]


@pytest.mark.parametrize(
    "value",
    [
        "!!bool maybe",
        '!!int ""',
        '!!int "-"',
        '!!float ""',
        "!!timestamp [a]",
        "!!int [1]",
        "!!bool {a: b}",
        "!!binary [a]",
        "!!omap {a: b}",
        "!!set [a]",
    ],
)
def test_a_tag_that_its_value_does_not_fit(value):
    assert refused(f"---\ntitle: {value}\n---\nbody\n").startswith(
        "front matter not understood: "
    )


@pytest.mark.parametrize(
    ("block", "author"),
    [
        ("author: Alice", "Alice"),
        ("author: [Alice, Bob]", "Alice, Bob"),
        ("authors: [Alice, Bob]", "Alice, Bob"),
        ("authors: Alice", "Alice"),
        ("author: Alice, Bob", "Alice, Bob"),
        ("author: []\nauthors: [Bob]", "Bob"),
        ("author: Alice\nauthors: [Bob]", "Alice"),
        ("author: {name: Alice}", ""),
    ],
)
def test_one_author_or_several(block, author):
    assert fields_of(block).author == author


def test_one_impossible_date_does_not_cost_the_other_values():
    front, _, warning = front_matter(
        "---\ndate: 2026-02-30\ntags: [draft]\ntitle: T\n---\ntext\n"
    )
    assert (front.title, front.tags, front.modified, warning) == (
        "T",
        ("draft",),
        None,
        "",
    )
