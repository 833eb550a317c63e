"""The law of chunks: they hold the whole text, in order, with exact lines, and cut no block that fits.

What is a block is told by another parser, markdown-it-py. The texts: a mixture of everything Markdown has,
the examples of the CommonMark specification, and whatever bytes decode to.
"""

import json
import re
from bisect import bisect_right
from itertools import accumulate, pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from support.corpora import SHARED
from tamis.ingest.documents.frontmatter import front_matter
from tamis.ingest.documents.markdown import markdown_outline
from tamis.ingest.parse import parse
from tamis.ingest.read import Source, decode
from tamis.model import Chunk, Document, Parent
from tamis.settings import ChunkingSettings

LAW = settings(
    deadline=None,
    derandomize=True,
    max_examples=300,
    suppress_health_check=[HealthCheck.too_slow],
)
SPEC = SHARED / "data" / "conformance" / "commonmark" / "spec.json"

ONE_LEVEL = [
    ChunkingSettings(),
    ChunkingSettings(min_chars=0, max_chars=100, overlap_chars=0),
    ChunkingSettings(min_chars=20, max_chars=120, overlap_chars=20),
    ChunkingSettings(min_chars=90, max_chars=150, overlap_chars=70),
]
TWO_LEVELS = [
    ChunkingSettings(parents=True),
    ChunkingSettings(
        parents=True,
        parent_min_chars=150,
        parent_max_chars=250,
        parent_overlap_chars=60,
        child_min_chars=30,
        child_max_chars=100,
        child_overlap_chars=20,
    ),
]
SIZES = st.sampled_from(ONE_LEVEL + TWO_LEVELS)


def parsed(text: str, sizes: ChunkingSettings, path: str = "a.md") -> Document:
    return parse(Source(path, text, b"", len(text), 0, 0, 0, 0), sizes)[0]


# --- Texts ------------------------------------------------------------------------------

# Long lines never repeat themselves: where a part of one stands can be told.
LONG, WIDE = "".join(f"x{n}" for n in range(30)), "".join(f"é{n}" for n in range(70))
WORDS = st.integers(1, 60).map(lambda count: " ".join(f"word{n}" for n in range(count)))
SHORT = st.sampled_from(
    [
        "a",
        "two words",
        "é ünï",
        LONG,
        "[[Note]] #tag",
        "`code` *b*",
        "<b>x</b>",
        "日本語",
    ]
)
CODE_LINES = st.lists(
    st.sampled_from(
        [
            "x = 1",
            "",
            "    indented",
            "# no heading",
            "| a | b |",
            "- no item",
            LONG,
            WIDE,
        ]
    ),
    max_size=12,
)
HEADINGS = st.tuples(st.sampled_from(["#", "##", "###", "######"]), SHORT).map(" ".join)
SETEXT = st.tuples(SHORT, st.sampled_from(["===", "---"])).map("\n".join)
FENCES = st.tuples(
    st.sampled_from(["```", "~~~", "```py", "~~~~ c++ x", "~~~js title='a.js'"]),
    CODE_LINES,
).map(lambda fence: "\n".join([fence[0], *fence[1], fence[0].split("p")[0].split()[0]]))
INDENTED = CODE_LINES.map(
    lambda lines: "\n".join(f"    {line}" for line in ["first", *lines])
)
TABLES = st.lists(SHORT.map(lambda cell: f"| {cell} | b |"), max_size=12).map(
    lambda rows: "\n".join(["| head | two |", "|---|:-:|", *rows, ""])
)
LISTS = st.lists(
    st.tuples(
        st.sampled_from(["- ", "  - ", "    - ", "1. ", "   "]), SHORT | WORDS
    ).map("".join),
    max_size=14,
).map("\n".join)
HTML = st.sampled_from(
    ["<div>\n# no\n</div>", "<!-- [[no]]\n\nno -->", "<details>\n\ntext\n\n</details>"]
)
# A blank line after a table and a reference: the parsers differ in what they take for a part of them.
OTHERS = st.sampled_from(
    [
        "[ref]: target.md\n",
        "[^1] a note",
        "***",
        "> quoted\nlazy",
        "\\# no",
        "\ttabs\ttabs",
        "```",
    ]
)
PLAIN = WORDS | HEADINGS | SETEXT | FENCES | INDENTED | TABLES | LISTS | HTML | OTHERS
QUOTED = PLAIN.map(lambda block: "\n".join(f"> {line}" for line in block.split("\n")))
IN_ITEM = PLAIN.map(
    lambda block: "- item\n\n" + "\n".join(f"  {line}" for line in block.split("\n"))
)
DOCUMENTS = st.lists(
    st.tuples(
        PLAIN | QUOTED | IN_ITEM, st.sampled_from(["\n", "\n\n", "\n\n\n", "\n \n"])
    ).map("".join),
    max_size=10,
).map("".join)
FRONTS = st.sampled_from(["", "---\ntitle: x\n---\n", "+++\ntitle = 'x'\n+++\n\n"])


# --- The law ----------------------------------------------------------------------------


class Text:
    """A text by its lines, as an editor counts them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.starts = list(
            accumulate((len(line) + 1 for line in self.lines), initial=0)
        )

    def line_of(self, place: int) -> int:
        return bisect_right(self.starts, place)

    def span(
        self, chunk: Chunk | Parent, before: tuple[int, int] = (0, 0)
    ) -> tuple[int, int]:
        """Where a chunk stands, from its lines: its first and its last may be a part of theirs.

        One that is a part of a single line goes on where the one before ended, or else shares its end.
        """
        inner, first, last = chunk.content.split("\n"), chunk.start_line, chunk.end_line
        assert last - first == len(inner) - 1
        begin = self.starts[first - 1] + len(self.lines[first - 1]) - len(inner[0])
        if first == last and not self.text.startswith(
            chunk.content, begin := before[1]
        ):
            begin = self.text.find(
                chunk.content,
                max(before[0], self.starts[first - 1]),
                self.starts[first],
            )
        assert begin >= 0
        assert self.text.startswith(chunk.content, begin)
        return begin, begin + len(chunk.content)


def check(
    text: str, document: Document, sizes: ChunkingSettings, start: int = 0
) -> None:
    seen = Text(text)
    check_numbers(document, sizes)
    tokens = MarkdownIt("commonmark").enable("table").parse(text[start:])
    shift = text.count("\n", 0, start)
    blocks = [(t.type, t.map[0] + 1 + shift, t.map[1] + shift) for t in tokens if t.map]
    prose = in_order(
        seen,
        [c for c in document.chunks if c.chunk_type == "documentation"],
        sizes.parents,
    )
    code = in_order(
        seen,
        [c for c in document.chunks if c.chunk_type == "code_block"],
        sizes.parents,
    )
    check_cover(seen, start, prose, code, blocks)
    check_whole(seen, prose, blocks, sizes.of_children() if sizes.parents else sizes)
    check_parents(seen, start, document, sizes)


def check_numbers(document: Document, sizes: ChunkingSettings) -> None:
    most = sizes.child_max_chars if sizes.parents else sizes.max_chars
    assert [chunk.ordinal for chunk in document.chunks] == list(
        range(len(document.chunks))
    )
    for chunk in document.chunks:
        assert 0 < len(chunk.content) <= most
        assert chunk.content == chunk.content.rstrip()
        assert chunk.content.split("\n")[0].strip()
    for one, two in pairwise(document.chunks):
        assert one.start_line <= two.start_line


def in_order(seen: Text, chunks: list[Chunk], parents: bool) -> list[tuple[int, int]]:
    spans, last = [], (0, 0)
    for chunk in chunks:
        spans.append(seen.span(chunk, last))
        assert spans[-1][0] >= last[0]
        last = spans[-1]
    if not parents:  # passages of two parents that overlap may end as they like
        assert all(one[1] <= two[1] for one, two in pairwise(spans))
    return spans


def check_cover(seen: Text, start: int, prose, code, blocks) -> None:
    """Every character that is not blank is in prose, or in code that stands alone, or is its fence.

    A fence that says more than a language is in prose.
    """
    missing = uncovered(seen.text, start, prose)
    fences = [(first, last) for kind, first, last in blocks if kind == "fence"]
    for place in missing:
        line = seen.line_of(place)
        around = [fence for fence in fences if fence[0] <= line <= fence[1]]
        assert around, f"line {line} is in no chunk"
        (first, last) = around[-1]
        if not any(begin <= place < end for begin, end in code):
            words = re.findall(r"\w[\w-]*", seen.lines[line - 1])
            assert line in (first, last), f"line {line} is in no chunk"
            assert len(words) <= (line == first), (
                f"what line {line} says is in no chunk"
            )


def uncovered(text: str, start: int, spans) -> list[int]:
    covered = bytearray(len(text))
    for begin, end in spans:
        covered[begin:end] = b"\1" * (end - begin)
    return [
        place
        for place in range(start, len(text))
        if not covered[place] and not text[place].isspace()
    ]


def check_whole(seen: Text, prose, blocks, sizes: ChunkingSettings) -> None:
    """A fence, a row or an item that fits is in a chunk with all its lines or with none of them."""
    for kind, first, last in blocks:
        while last > first and not seen.lines[last - 1].strip():
            last -= 1
        begin, end = (
            seen.starts[first - 1],
            seen.starts[last - 1] + len(seen.lines[last - 1].rstrip()),
        )
        if (
            kind not in ("fence", "code_block", "tr_open", "list_item_open")
            or end - begin > sizes.max_chars
        ):
            continue
        for chunk in prose:
            assert (
                chunk[1] <= begin
                or end <= chunk[0]
                or (chunk[0] <= begin and end <= chunk[1])
            ), f"{kind} in lines {first} to {last} is cut"


def check_parents(
    seen: Text, start: int, document: Document, sizes: ChunkingSettings
) -> None:
    if not sizes.parents:
        assert document.parents == ()
        assert all(chunk.parent is None for chunk in document.chunks)
        return
    spans, last = [], (0, 0)
    for parent in document.parents:
        assert 0 < len(parent.content) <= sizes.parent_max_chars
        spans.append(last := seen.span(parent, last))
    assert uncovered(seen.text, start, spans) == []
    for chunk in document.chunks:
        parent = document.parents[chunk.parent]
        assert chunk.content in parent.content
        assert (
            parent.start_line <= chunk.start_line <= chunk.end_line <= parent.end_line
        )
    assert {chunk.parent for chunk in document.chunks} == set(
        range(len(document.parents))
    )


@pytest.mark.rows("R002-021", "R002-086")
@LAW
@given(DOCUMENTS, SIZES, FRONTS)
@example("```py\n" + "x = 1\n" * 60 + "```\n", ONE_LEVEL[2], "")
@example("- a\n\n  ```\n  b\n  ```\n" * 12, TWO_LEVELS[1], "")
def test_markdown(body, sizes, front):
    """Nothing lost, nothing invented, no block cut that fits, one level or two."""
    check(front + body, parsed(front + body, sizes), sizes, len(front))


@pytest.mark.skipif(
    not SPEC.exists(), reason="the CommonMark examples are not on this machine"
)
@pytest.mark.parametrize("sizes", ONE_LEVEL + TWO_LEVELS, ids=str)
def test_every_example_of_the_specification(sizes):
    examples = [case["markdown"] for case in json.loads(SPEC.read_text("utf-8"))]
    assert len(examples) > 600
    for text in [*examples, "\n\n".join(examples)]:
        start = front_matter(text)[1]
        check(text, parsed(text, sizes), sizes, start)


@LAW
@given(st.binary(max_size=400) | st.lists(st.sampled_from([b"# ", b"```", b"- ", b"|", b"\n", b"\xc3\xa9", b"\x00", b"\r", b"> ", b"\t", b"    ", b"[["])).map(b"".join), SIZES)  # fmt: skip # noqa: E501
def test_any_bytes(data, sizes):
    read = decode(data)
    if read is not None:
        start = front_matter(read[0])[1]
        check(read[0], parsed(read[0], sizes), sizes, start)


# --- The same blocks as another parser ----------------------------------------------------


def blocks_by_us(text: str) -> tuple[list[tuple[int, int]], list[tuple[int, str]]]:
    """Headings as (line, level), and fences that are not empty as (line, language as written)."""
    outline, seen = markdown_outline(text), Text(text)
    headings = [
        (seen.line_of(heading.place), heading.level) for heading in outline.headings
    ]
    return headings, [seen.line_of(code.outer[0]) for code in outline.codes]


def blocks_by_them(text: str) -> tuple[list[tuple[int, int]], list[tuple[int, str]]]:
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    headings = [
        (token.map[0] + 1, int(token.tag[1]))
        for token in tokens
        if token.type == "heading_open" and not token.level
    ]
    return headings, [
        token.map[0] + 1 for token in tokens if token.type == "fence" and token.content
    ]


@LAW
@given(DOCUMENTS)
def test_headings_and_fences(text):
    assert blocks_by_us(text) == blocks_by_them(text)


@pytest.mark.skipif(
    not SPEC.exists(), reason="the CommonMark examples are not on this machine"
)
def test_headings_and_fences_of_the_specification():
    for case in json.loads(SPEC.read_text("utf-8")):
        assert blocks_by_us(case["markdown"]) == blocks_by_them(case["markdown"]), case[
            "example"
        ]
