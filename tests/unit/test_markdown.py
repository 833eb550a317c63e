"""Markdown becomes chunks: sections by heading, nothing lost, nothing too long, line numbers exact."""

import re
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tamis.ingest.markdown import markdown_chunks
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.model import Chunk, Document
from tamis.settings import ChunkingSettings

LAW = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a noisy machine is no fault

DEFAULT = ChunkingSettings()
SMALL = ChunkingSettings(min_chars=20, max_chars=120, overlap_chars=20)
ALONE = ChunkingSettings(min_chars=0, max_chars=1500, overlap_chars=0)
FILLER = "Some words that fill a section so that it may stand alone. " * 5


def chunks_of(text: str, sizes: ChunkingSettings = ALONE, start: int = 0) -> list[Chunk]:
    return markdown_chunks(text, start, sizes)[0]


def document_of(text: str, sizes: ChunkingSettings = DEFAULT, path: str = "notes/a.md") -> Document:
    return parse(Source(path, text, b"", len(text), 0, 0, 0, 0), sizes)[0]


def trails(text: str, sizes: ChunkingSettings = ALONE) -> list[str]:
    return [chunk.header_path for chunk in chunks_of(text, sizes)]


# --- Headings ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "# One\na\n## Two\nb\n### Three\nc", ["One", "One > Two", "One > Two > Three"], id="atx"
        ),
        pytest.param("# One\na\n## Two\nb\n# Three\nc", ["One", "One > Two", "Three"], id="back up"),
        pytest.param("### Deep\na\n## Higher\nb", ["Deep", "Higher"], id="levels may begin anywhere"),
        pytest.param("# One\na\n### Three\nb", ["One", "One > Three"], id="levels may be skipped"),
        pytest.param("One\n===\na\n\nTwo\n---\nb", ["One", "One > Two"], id="setext"),
        pytest.param("One\n=\na\n\nTwo\n-\nb", ["One", "One > Two"], id="setext with one sign"),
        pytest.param("a\n\n---\n\nb", [""], id="a rule is no heading"),
        pytest.param("a\n\n---\n---\nb", [""], id="two rules are none either"),
        pytest.param("One\n===\n---\nb", ["One"], id="a rule below a setext heading"),
        pytest.param("- item\n---\nb", [""], id="a rule below a list"),
        pytest.param("> quote\n---\nb", [""], id="a rule below a quotation"),
        pytest.param("| a | b |\n---\nb", [""], id="a rule below a table"),
        pytest.param("#hashtag\ntext", [""], id="a hashtag is no heading"),
        pytest.param("####### seven\ntext", [""], id="seven are too many"),
        pytest.param("    # code\ntext", [""], id="indented code"),
        pytest.param("   # Three blanks\ntext", ["Three blanks"], id="up to three blanks"),
        pytest.param("# Closed ##\ntext", ["Closed"], id="closing hashes"),
        pytest.param("# C#\ntext", ["C#"], id="a hash that belongs to the name"),
        pytest.param("#\ttab\ntext", ["tab"], id="a tab after the hashes"),
        pytest.param("#\ntext", [""], id="an empty heading"),
        pytest.param("# One\n#\ntext", ["One", ""], id="an empty heading below none"),
        pytest.param("# **Bold** and `code` [link](x)\ntext", ["Bold and code link"], id="markup"),
        pytest.param("# snake_case_name\ntext", ["snake_case_name"], id="underscores inside words"),
        pytest.param("```\n# comment\n```\ntext", [""], id="inside a fence"),
        pytest.param("~~~\n# comment\n```\n# too\n~~~\ntext", [""], id="another fence inside a fence"),
        pytest.param("````\n```\n# no\n```\n````\n# Yes\na", ["", "Yes"], id="a shorter fence inside"),
        pytest.param("```sh\n# no\n``` sh\n# no\n```\n# Yes\na", ["", "Yes"], id="info does not close"),
        pytest.param("``` a`b\n# Yes\na", ["", "Yes"], id="a backtick in the info opens nothing"),
        pytest.param("```\n# never closed", [""], id="a fence that is never closed"),
        pytest.param("before\n# One\na", ["", "One"], id="what stands before the first heading"),
        pytest.param("\n\n# One\na", ["One"], id="blank lines before the first heading"),
        pytest.param("only text", [""], id="no heading"),
    ],
)
def test_headings(text, expected):
    """R002-021, C58, R002-058: header path as breadcrumb, text before the first heading kept."""
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
    seen = [token.map[0] + 1 for token in tokens if token.type == "heading_open"]
    begun = [chunk.start_line for chunk in chunks_of(text)]
    lines = text.split("\n")
    first = next((number for number, line in enumerate(lines, 1) if line.strip()), None)
    assert begun == sorted({*seen, *([first] if first else [])})


def test_title():
    """R002-133: front matter first, then the first top heading, then the file's name."""
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


def test_default_sizes():
    """R002-021, C58: at least 200 characters, at most 1500, overlap 100."""
    assert (DEFAULT.min_chars, DEFAULT.max_chars, DEFAULT.overlap_chars) == (200, 1500, 100)


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
    body = "".join(f"code{number} = {number}{end}" for number in range(200))[: length - 8].rstrip("\n")
    fence = f"```\n{body}\n```"
    between = "\n" if blank_lines else " "
    above, below = (between.join(f"{word}{n}" for n in range(300)) for word in ("above", "below"))
    text = f"# Top\n\n{above[:before].strip()}\n\n{fence}\n{below}\n"
    assert len(fence) <= 1500
    chunks = chunks_of(text, DEFAULT)
    assert any(fence in chunk.content for chunk in chunks)
    for one, two in pairwise(chunks):
        assert two.content not in one.content, "a chunk of nothing but overlap"


# --- The law ----------------------------------------------------------------------------

LINES = st.lists(
    st.sampled_from(
        ["", " ", "# H", "## Sub", "Title", "===", "---", "```", "~~~", "```py", "    indented", "-"]
    )
    | st.text(alphabet="ab #`~=-\t\x0b\u2028é", max_size=40)
    | st.integers(1, 400).map(lambda count: ("word " * count)[:count]),
    max_size=30,
)
SIZES = st.sampled_from([DEFAULT, SMALL, ALONE, ChunkingSettings(0, 100, 50), ChunkingSettings(100, 100, 0)])


def check_law(text: str, chunks: list[Chunk], sizes: ChunkingSettings, first_line: int = 1) -> None:
    """Nothing lost, nothing invented, nothing too long, every number right."""
    lines = text.split("\n")
    covered: set[int] = set()
    for ordinal, chunk in enumerate(chunks):
        assert chunk.ordinal == ordinal
        assert 0 < len(chunk.content) <= sizes.max_chars
        assert chunk.content == chunk.content.rstrip()
        assert chunk.content.split("\n")[0].strip()
        own = lines[chunk.start_line - 1 : chunk.end_line]
        inner = chunk.content.split("\n")
        assert len(own) == len(inner)
        assert own[0].endswith(inner[0]) if len(own) > 1 else inner[0] in own[0]
        assert inner[1:-1] == own[1:-1]
        assert own[-1].startswith(inner[-1]) if len(own) > 1 else True
        covered |= set(range(chunk.start_line, chunk.end_line + 1))
    wanted = {number for number, line in enumerate(lines, 1) if line.strip() and number >= first_line}
    assert wanted <= covered
    for one, two in pairwise(chunks):
        assert (one.start_line, one.end_line) <= (two.start_line, two.end_line)


@LAW
@given(LINES, SIZES)
@example(["```", *["x" * 30] * 10, "```"], SMALL)
@example(["# H", "", "word " * 60], SMALL)
def test_the_law_for_arbitrary_text(lines, sizes):
    text = "\n".join(lines)
    chunks = chunks_of(text, sizes)
    check_law(text, chunks, sizes)


@LAW
@given(LINES, SIZES, st.sampled_from(["---\ntitle: x\n---\n", "+++\ntitle = 'x'\n+++\n\n"]))
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
        pytest.param("a `b`" + " " * 200_000 + "#", "a b", id="blanks before the closing sign"),
        pytest.param("a `b`" + " #" * 100_000 + " c", "a b" + " #" * 100_000 + " c", id="signs"),
        pytest.param("a" + "_" * 200_000 + "b", "a" + "_" * 200_000 + "b", id="underscores in a word"),
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
