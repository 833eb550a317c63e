"""Markdown becomes chunks: sections by heading, nothing lost, nothing too long, line numbers exact."""

import re
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from support.chunks import ALONE, DEFAULT, SIZES, SMALL, check_law
from tamis.ingest.documents.markdown import markdown_outline
from tamis.ingest.documents.sections import passages
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.model import Chunk, Document
from tamis.settings import ChunkingSettings

LAW = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a noisy machine is no fault

FILLER = "Some words that fill a section so that it may stand alone. " * 5


def chunks_of(
    text: str, sizes: ChunkingSettings = ALONE, start: int = 0
) -> list[Chunk]:
    return passages(
        text, markdown_outline(text, start, sizes.smallest), sizes, start=start
    ).chunks


def document_of(
    text: str, sizes: ChunkingSettings = DEFAULT, path: str = "notes/a.md"
) -> Document:
    return parse(Source(path, text, b"", len(text), 0, 0, 0, 0), sizes)[0]


def trails(text: str, sizes: ChunkingSettings = ALONE) -> list[str]:
    """Of all chunks but the code that is part of another."""
    chunks = chunks_of(text, sizes)
    prose = [chunk for chunk in chunks if chunk.chunk_type == "documentation"]
    seen = {
        line for chunk in prose for line in range(chunk.start_line, chunk.end_line + 1)
    }
    alone = [
        c for c in chunks if c.chunk_type == "documentation" or c.start_line not in seen
    ]
    return [chunk.header_path for chunk in alone]


# --- Headings ------------------------------------------------------------------------


@pytest.mark.rows("R002-021", "C58", "R002-058")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "# One\na\n## Two\nb\n### Three\nc",
            ["One", "One > Two", "One > Two > Three"],
            id="atx",
        ),
        pytest.param(
            "# One\na\n## Two\nb\n# Three\nc",
            ["One", "One > Two", "Three"],
            id="back up",
        ),
        pytest.param(
            "### Deep\na\n## Higher\nb",
            ["Deep", "Higher"],
            id="levels may begin anywhere",
        ),
        pytest.param(
            "# One\na\n### Three\nb", ["One", "One > Three"], id="levels may be skipped"
        ),
        pytest.param("One\n===\na\n\nTwo\n---\nb", ["One", "One > Two"], id="setext"),
        pytest.param(
            "One\n=\na\n\nTwo\n-\nb", ["One", "One > Two"], id="setext with one sign"
        ),
        pytest.param("a\n\n---\n\nb", [""], id="a rule is no heading"),
        pytest.param("a\n\n---\n---\nb", [""], id="two rules are none either"),
        pytest.param("One\n===\n---\nb", ["One"], id="a rule below a setext heading"),
        pytest.param("- item\n---\nb", [""], id="a rule below a list"),
        pytest.param("> quote\n---\nb", [""], id="a rule below a quotation"),
        pytest.param(
            "| a | b |\n---\nb",
            ["| a | b |"],
            id="no table, as its columns are not counted",
        ),
        pytest.param("| a | b |\n|---|---|\n---\nb", [""], id="a rule below a table"),
        pytest.param("a\nb\n===\nc", ["a b"], id="setext over two lines"),
        pytest.param(
            "> # no\n\n- # no\n\n1. a\n\n   # no\n",
            [""],
            id="in a quotation, in a list",
        ),
        pytest.param("# One {#one .x}\na", ["One"], id="an id behind the name"),
        pytest.param(
            "# a &amp; \\*b\\* <br> [[c|d]] [[e]]\na", ["a & *b* d e"], id="more markup"
        ),
        pytest.param("<div>\n# no\n</div>\n\n# Yes\na", ["", "Yes"], id="in HTML"),
        pytest.param("#hashtag\ntext", [""], id="a hashtag is no heading"),
        pytest.param("####### seven\ntext", [""], id="seven are too many"),
        pytest.param("    # code\ntext", [""], id="indented code"),
        pytest.param(
            "   # Three blanks\ntext", ["Three blanks"], id="up to three blanks"
        ),
        pytest.param("# Closed ##\ntext", ["Closed"], id="closing hashes"),
        pytest.param("# C#\ntext", ["C#"], id="a hash that belongs to the name"),
        pytest.param("#\ttab\ntext", ["tab"], id="a tab after the hashes"),
        pytest.param("#\ntext", [""], id="an empty heading"),
        pytest.param("# One\n#\ntext", ["One", ""], id="an empty heading below none"),
        pytest.param(
            "# **Bold** and `code` [link](x)\ntext", ["Bold and code link"], id="markup"
        ),
        pytest.param(
            "# snake_case_name\ntext",
            ["snake_case_name"],
            id="underscores inside words",
        ),
        pytest.param("```\n# comment\n```\ntext", [""], id="inside a fence"),
        pytest.param(
            "~~~\n# comment\n```\n# too\n~~~\ntext",
            [""],
            id="another fence inside a fence",
        ),
        pytest.param(
            "````\n```\n# no\n```\n````\n# Yes\na",
            ["", "Yes"],
            id="a shorter fence inside",
        ),
        pytest.param(
            "```sh\n# no\n``` sh\n# no\n```\n# Yes\na",
            ["", "Yes"],
            id="info does not close",
        ),
        pytest.param(
            "``` a`b\n# Yes\na", ["", "Yes"], id="a backtick in the info opens nothing"
        ),
        pytest.param("```\n# never closed", [""], id="a fence that is never closed"),
        pytest.param(
            "before\n# One\na", ["", "One"], id="what stands before the first heading"
        ),
        pytest.param(
            "\n\n# One\na", ["One"], id="blank lines before the first heading"
        ),
        pytest.param("only text", [""], id="no heading"),
    ],
)
def test_headings(text, expected):
    """Header path as breadcrumb, text before the first heading kept."""
    assert trails(text) == expected


def test_nothing_gives_no_chunk():
    for text in ("", " ", "\n\n\n", "---\ntitle: x\n---\n", "---\ntitle: x\n---\n\n\n"):
        assert document_of(text).chunks == ()


BLOCKS = st.sampled_from(
    [
        "plain words here", "two\nlines", "# First", "## Second ##", "###### Sixth", "Under\n=====",
        "Lined\n---",
        "```\n# not me\n```", "~~~py\nUnder\n=====\n~~~", "    # code", "* * *", "---", "#no", "\\# no",
        "```\n\n## blank inside\n\n```", "a `# b` c", "word -- word",
    ]
)  # fmt: skip


@LAW
@given(st.lists(BLOCKS, max_size=8))
def test_the_headings_are_those_that_commonmark_sees(blocks):
    """Held to an independent reader of CommonMark: each heading begins a chunk on its own line."""
    text = "\n\n".join(blocks)
    tokens = MarkdownIt().parse(text)
    seen = {token.map[0] + 1 for token in tokens if token.type == "heading_open"}
    chunks = chunks_of(text)
    begun = {
        chunk.start_line for chunk in chunks if chunk.chunk_type == "documentation"
    }
    assert seen <= begun
    trail_begins = {number for number in begun if number not in seen}
    assert len(trail_begins) <= 1, "what stands before the first heading"


@pytest.mark.parametrize("path", ["a.md", "a.markdown", "a.mdx", "A.MD"])
def test_all_kinds_of_markdown(path):
    text = 'import X from "./x"\n\n# One\n\n<X a={1}>\n\ntext\n\n</X>\n'
    assert document_of(text, path=path).title == "One"


@pytest.mark.rows("R002-133")
def test_title():
    """Front matter first, then the first top heading, then the file's name."""
    assert document_of("---\ntitle: From front\n---\n# Heading\n").title == "From front"
    assert document_of("## Lower\n# *Top*\n# Later\n").title == "Top"
    assert document_of("## Lower only\n").title == "a"
    assert document_of("text", path="x/release-1.2.md").title == "release-1.2"


def test_front_matter_lines_count():
    text = "---\ntitle: x\ntags: [a]\n---\n\n# Heading\ntext\n"
    (chunk,) = document_of(text).chunks
    assert (chunk.start_line, chunk.end_line) == (6, 7)
    assert chunk.content == "# Heading\ntext"
    assert chunk.chunk_type == "documentation"
    assert chunk.language is None


# --- Sizes ----------------------------------------------------------------------------


@pytest.mark.rows("R002-021", "C58")
def test_default_sizes():
    """At least 200 characters, at most 1500, overlap 100."""
    assert (DEFAULT.min_chars, DEFAULT.max_chars, DEFAULT.overlap_chars) == (
        200,
        1500,
        100,
    )


def test_small_sections_join_the_next():
    text = f"# Top\n\n## One\n\nshort\n\n## Two\n\n{FILLER}\n\n## Three\n\n{FILLER}\n"
    first, second = chunks_of(text, DEFAULT)
    assert first.content.startswith("# Top")
    assert "## One" in first.content
    assert "## Two" in first.content
    assert second.content.startswith("## Three")


def test_a_small_last_section_joins_the_one_before():
    text = f"# One\n\n{FILLER}\n\n# Two\n\nshort\n"
    (chunk,) = chunks_of(text, DEFAULT)
    assert chunk.content == text.strip()


def test_small_sections_do_not_join_beyond_the_maximum():
    long = "x" * 1490
    first, second = chunks_of(f"# One\n\nshort\n\n# Two\n\n{long}\n", DEFAULT)
    assert first.content == "# One\n\nshort"
    assert second.content.startswith("# Two")


@pytest.mark.parametrize(
    "heading", ["# One", "One\n===", "# One\n\n## Two", "# **One**\n\n---"]
)
def test_a_heading_alone_is_no_chunk(heading):
    """It goes with what follows, however long that is, and is about that."""
    first, *others = chunks_of(f"{heading}\n\n## Next\n\n{FILLER * 6}\n", DEFAULT)
    assert first.content.startswith(f"{heading}\n\n## Next\n\nSome words")
    assert others
    assert {chunk.header_path for chunk in (first, *others)} == {"One > Next"}


def test_a_heading_with_nothing_below_it_is_not_what_the_next_is_about():
    (chunk,) = chunks_of(f"# One\n\n# Two\n\n{FILLER}\n", DEFAULT)
    assert chunk.header_path == "Two"


@pytest.mark.parametrize("first", ["#\n\ntext", "# !\n\ntext", "# One\n\ntext", "text"])
def test_what_is_more_than_a_heading_stays_apart_from_what_is_long(first):
    chunks = chunks_of(f"{first}\n\n## Next\n\n{FILLER * 6}\n", DEFAULT)
    assert chunks[0].content == first


@pytest.mark.parametrize(
    ("text", "breadcrumb"),
    [
        ("# Top\n## Sub\nshort", "Top > Sub"),
        ("# Top\n## One\nshort\n## Two\nshort", "Top"),
        ("# One\nshort\n# Two\nshort", "One"),
        ("# A\n## Setup\nshort\n# B\n## Setup\nshort", "A > Setup"),
        ("before\n# One\nshort", "One"),
    ],
)
def test_the_breadcrumb_of_joined_sections(text, breadcrumb):
    """A heading with its subsection is about the subsection, siblings are about their parent."""
    assert trails(text, DEFAULT) == [breadcrumb]


def test_a_long_section_is_split_with_an_overlap_of_whole_words():
    text = "# Long\n\n" + " ".join(f"word{number:04}" for number in range(600))
    chunks = chunks_of(text, DEFAULT)
    assert len(chunks) == 4
    assert {chunk.header_path for chunk in chunks} == {"Long"}
    for before, after in pairwise(chunks):
        head = after.content.split()[0]
        at = before.content.rindex(head)
        shared = before.content[at:]
        assert after.content.startswith(shared)
        assert 50 <= len(shared) <= 100
        assert re.fullmatch(r"word\d{4}", head)


def test_a_long_section_is_split_after_a_paragraph_where_there_is_one():
    paragraph = "Sentence of some words. " * 30
    chunks = chunks_of(f"{paragraph}\n\n{paragraph}\n\n{paragraph}\n", DEFAULT)
    assert chunks[0].content == f"{paragraph.strip()} \n\n{paragraph.strip()}"


def test_a_line_without_any_blank_is_cut_all_the_same():
    chunks = chunks_of("x" * 4000, DEFAULT)
    assert max(len(chunk.content) for chunk in chunks) <= 1500
    assert sum(len(chunk.content) for chunk in chunks) >= 4000


@pytest.mark.parametrize("before", [10, 100, 300, 700, 1000, 1400])
@pytest.mark.parametrize("length", [200, 700, 1380, 1420, 1495])
@pytest.mark.parametrize("blank_lines", [False, True])
def test_a_fence_that_fits_is_never_cut(before, length, blank_lines):
    """Every fenced block that is not longer than the maximum is whole in some chunk."""
    end = "\n\n" if blank_lines else "\n"
    body = "".join(f"code{number} = {number}{end}" for number in range(200))[
        : length - 8
    ].rstrip("\n")
    fence = f"```\n{body}\n```"
    between = "\n" if blank_lines else " "
    above, below = (
        between.join(f"{word}{n}" for n in range(300)) for word in ("above", "below")
    )
    text = f"# Top\n\n{above[:before].strip()}\n\n{fence}\n{below}\n"
    assert len(fence) <= 1500
    chunks = chunks_of(text, DEFAULT)
    (code,) = [chunk for chunk in chunks if chunk.chunk_type == "code_block"]
    assert code.content == body.strip()
    prose = [chunk for chunk in chunks if chunk.chunk_type == "documentation"]
    assert all(chunk.content.count("```") in (0, 2) for chunk in prose), (
        "a part of a fence"
    )
    for one, two in pairwise(prose):
        assert two.content not in one.content, "a chunk of nothing but overlap"


# --- Blocks -------------------------------------------------------------------------------


def code_of(text: str, sizes: ChunkingSettings = ALONE) -> list[Chunk]:
    return [
        chunk for chunk in chunks_of(text, sizes) if chunk.chunk_type == "code_block"
    ]


def prose_of(text: str, sizes: ChunkingSettings = ALONE) -> list[Chunk]:
    return [
        chunk for chunk in chunks_of(text, sizes) if chunk.chunk_type == "documentation"
    ]


@pytest.mark.rows("R002-086", "X7")
def test_a_fence_is_a_chunk_of_its_own_as_well():
    """With its language, its lines and the trail of its section; the text around keeps it."""
    text = "# Top\n\n## Use\n\nRun it:\n\n```py\nx = 1\n\ny\n```\n\nDone.\n"
    prose, code = chunks_of(text, DEFAULT)
    assert "```py\nx = 1\n\ny\n```" in prose.content
    assert (code.content, code.chunk_type, code.language) == (
        "x = 1\n\ny",
        "code_block",
        "python",
    )
    assert (code.header_path, code.start_line, code.end_line) == ("Top > Use", 8, 10)
    assert (prose.ordinal, code.ordinal) == (0, 1)


def test_the_trail_of_code_in_sections_that_were_joined():
    text = "# A\n\n## One\n\n```\na\n```\n\n## Two\n\n```\nb\n```\n"
    assert [chunk.header_path for chunk in chunks_of(text, DEFAULT)] == [
        "A",
        "A > One",
        "A > Two",
    ]


@pytest.mark.rows("R002-086")
@pytest.mark.parametrize(
    ("info", "language"),
    [
        ("py", "python"), ("Python3", "python"), ("js", "javascript"), ("jsx", "javascript"),
        ("ts", "typescript"), ("tsx", "typescript"), ("sh", "bash"), ("shell", "bash"), ("console", "bash"),
        ("c++", "cpp"), ("c#", "csharp"), ("cs", "csharp"), ("yml", "yaml"), ("rs", "rust"), ("rb", "ruby"),
        ("kt", "kotlin"), ("golang", "go"), ("jsonc", "json"), ("postgresql", "sql"),
        ("{.python .x}", "python"), ("js title='a'", "javascript"), ("js{1,3}", "javascript"),
        ("rust,ignore", "rust"), (" go ", "go"), ("", None), ("text", None), ("mermaid", None),
    ],
)  # fmt: skip
def test_the_language_of_a_fence(info, language):
    (code,) = code_of(f"a\n\n~~~{info}\nx\n~~~\n")
    assert code.language == language


def test_a_fence_alone_is_only_code():
    (chunk,) = chunks_of("\n```js\nx\n```\n\n")
    assert (chunk.chunk_type, chunk.content, chunk.start_line, chunk.ordinal) == (
        "code_block",
        "x",
        3,
        0,
    )


@pytest.mark.parametrize(
    "info",
    [
        'js title="vite.config.js"',
        "{1,3} src/x.js",
        "js{1,3}",
        "js showLineNumbers",
        "{.python .x}",
    ],
)
def test_what_a_fence_says_besides_its_language_is_kept(info):
    text = f"```{info}\nx\n```"
    assert [
        (chunk.chunk_type, chunk.content) for chunk in chunks_of(f"\n{text}\n")
    ] == [
        ("documentation", text),
        ("code_block", "x"),
    ]


@pytest.mark.parametrize("info", ["", " ", "js", " c++ ", "objective-c", "{.python}"])
def test_a_fence_that_says_nothing_else_is_only_code(info):
    assert [chunk.content for chunk in chunks_of(f"> ~~~{info}\n> x\n> ~~~\n")] == [
        "> x"
    ]


def test_fences_that_give_no_code():
    for text in ("```\n```", "~~~\n\n \n~~~\n", "    indented", "`inline`"):
        assert code_of(text) == []
        assert [chunk.content.strip() for chunk in prose_of(text)] == [text.strip()]


def test_fences_in_lists_and_quotations():
    """The exact lines, with what the list or the quotation puts before them."""
    assert code_of("- a\n\n  ```py\n  x\n   y\n  ```\n")[0].content == "  x\n   y"
    assert code_of("> ```py\n> x\n> y\n> ```\n")[0].content == "> x\n> y"


def test_a_long_fence_is_several_chunks_of_whole_lines():
    body = "\n".join(f"line{number} = {number}" for number in range(60))
    code = code_of(f"# H\n\n```py\n{body}\n```\n", SMALL)
    assert len(code) > 5
    assert {line for chunk in code for line in chunk.content.split("\n")} == set(
        body.split("\n")
    )
    assert {(chunk.language, chunk.header_path) for chunk in code} == {("python", "H")}


@pytest.mark.parametrize(
    "block",
    [
        pytest.param("\n".join(f"- item {n} of a list" for n in range(5)), id="a list"),
        pytest.param(
            "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | cell |" for n in range(5)),
            id="a table",
        ),
        pytest.param(
            "<div>\n" + "\n".join(f"<p>{n}</p>" for n in range(6)) + "\n</div>",
            id="HTML",
        ),
        pytest.param("\n".join(f"    code {n}" for n in range(8)), id="indented code"),
        pytest.param("1. one\n\n   two\n\n   - three\n\n     four", id="loose items"),
    ],
)
@pytest.mark.parametrize("before", range(10, 120, 11))
def test_blocks_that_fit_are_whole(block, before):
    text = ("a" * 9 + " ") * (before // 10) + f"\n\n{block}\n\n" + "after words " * 8
    chunks = prose_of(text, SMALL)
    assert any(block in chunk.content for chunk in chunks)
    marks = [line for line in block.split("\n") if line.strip()]
    for chunk in chunks:
        assert block in chunk.content or not any(
            line in chunk.content.split("\n") for line in marks
        )


def test_a_long_table_is_cut_between_rows():
    rows = [f"| {number} | {'cell ' * 5}|" for number in range(30)]
    text = "\n".join(["intro", "", "| a | b |", "|---|---|", *rows])
    chunks = prose_of(text, SMALL)
    assert len(chunks) > 5
    for chunk in chunks:
        assert all(line in text.split("\n") for line in chunk.content.split("\n"))
        assert ("| a | b |" in chunk.content) == ("|---|---|" in chunk.content)


def test_a_long_list_is_cut_between_items():
    items = [f"- item {number}\n  goes on\n  and on" for number in range(20)]
    for chunk in prose_of("\n".join(items), SMALL):
        assert chunk.content.startswith("- item")
        assert chunk.content.endswith("and on")


# --- Parents ------------------------------------------------------------------------------

TWO_LEVELS = ChunkingSettings(parents=True)


@pytest.mark.rows("R002-157", "R002-161", "R002-162", "R002-166")
def test_parents_and_children():
    """Sections of up to 2000 characters, passages of up to 600."""
    section = "".join(f"## S{n}\n\n{FILLER}\n\n" for n in range(12))
    document = document_of(f"# Top\n\n{section}", TWO_LEVELS)
    assert len(document.parents) > 1
    assert all(1500 <= len(parent.content) <= 2000 for parent in document.parents[:-1])
    assert all(len(chunk.content) <= 600 for chunk in document.chunks)
    for chunk in document.chunks:
        parent = document.parents[chunk.parent]
        assert chunk.content in parent.content
        assert (
            parent.start_line <= chunk.start_line <= chunk.end_line <= parent.end_line
        )
    assert document.chunks[0].header_path == "Top > S0"


def test_a_small_document_is_its_own_parent():
    document = document_of("# A\n\nb\n", TWO_LEVELS)
    assert [(parent.content, parent.header_path) for parent in document.parents] == [
        ("# A\n\nb", "A")
    ]
    assert [chunk.parent for chunk in document.chunks] == [0]


def test_code_has_the_parent_of_its_section():
    text = "".join(
        f"# H{n}\n\n{FILLER * 5}\n\n```py\ncode{n}\n```\n\n" for n in range(3)
    )
    document = document_of(text, TWO_LEVELS)
    for number, code in enumerate(
        chunk for chunk in document.chunks if chunk.chunk_type == "code_block"
    ):
        assert code.content == f"code{number}"
        assert document.parents[code.parent].header_path == f"H{number}"


@pytest.mark.parametrize("path", ["a.txt", "a.md", "a.rst", "a.unknown"])
def test_parents_in_every_kind_of_text(path):
    document = document_of(FILLER * 20, TWO_LEVELS, path)
    assert len(document.parents) > 2
    assert {chunk.parent for chunk in document.chunks} == set(
        range(len(document.parents))
    )
    assert document_of(FILLER * 20, DEFAULT, path).parents == ()


# --- The law ----------------------------------------------------------------------------

LINES = st.lists(
    st.sampled_from(
        [
            "",
            " ",
            "# H",
            "## Sub",
            "Title",
            "===",
            "---",
            "```",
            "~~~",
            "```py",
            "    indented",
            "-",
        ]
    )
    | st.text(alphabet="ab #`~=-\t\x0b\u2028é", max_size=40)
    | st.integers(1, 400).map(lambda count: ("word " * count)[:count]),
    max_size=30,
)


@LAW
@given(LINES, SIZES)
@example(["```", *["x" * 30] * 10, "```"], SMALL)
@example(["# H", "", "word " * 60], SMALL)
def test_the_law_for_arbitrary_text(lines, sizes):
    text = "\n".join(lines)
    chunks = chunks_of(text, sizes)
    check_law(text, chunks, sizes)


@LAW
@given(
    LINES, SIZES, st.sampled_from(["---\ntitle: x\n---\n", "+++\ntitle = 'x'\n+++\n\n"])
)
def test_the_law_below_front_matter(lines, sizes, front):
    body = "\n".join(lines)
    chunks = list(document_of(front + body, sizes).chunks)
    check_law(front + body, chunks, sizes, first_line=front.count("\n") + 1)
    assert all(chunk.start_line > front.rstrip().count("\n") + 1 for chunk in chunks)


@LAW
@given(st.lists(st.integers(0, 10**6).map(str), min_size=0, max_size=300), SIZES)
def test_no_word_is_lost(numbers, sizes):
    """Words that are all different: each is somewhere, and in the order of the text."""
    words = [f"w{at}x{number}" for at, number in enumerate(numbers)]
    text = "# Top\n\n" + " ".join(words)
    seen: dict[str, None] = {}
    for chunk in chunks_of(text, sizes):
        seen |= dict.fromkeys(chunk.content.split())
    assert list(seen) == ["#", "Top", *words]


# --- Made to take long ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        pytest.param("a" + " " * 200_000 + "`b`", "a b", id="blanks"),
        pytest.param(
            "a `b`" + " " * 200_000 + "#", "a b", id="blanks before the closing sign"
        ),
        pytest.param(
            "a `b`" + " #" * 100_000 + " c", "a b" + " #" * 100_000 + " c", id="signs"
        ),
        pytest.param(
            "a" + "_" * 200_000 + "b",
            "a" + "_" * 200_000 + "b",
            id="underscores in a word",
        ),
    ],
)
def test_a_heading_that_goes_on(heading, name):
    assert chunks_of(f"# {heading}\ntext")[0].header_path == name


def test_fences_without_end():
    """A long run of small blocks: no piece cuts one, and nothing is lost."""
    text = "```\n```\n" * 100_000
    chunks = chunks_of(text, ALONE)
    assert all(chunk.content.count("```") % 2 == 0 for chunk in chunks)
    assert sum(chunk.content.count("```") for chunk in chunks) == 200_000
