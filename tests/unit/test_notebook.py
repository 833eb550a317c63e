"""Notebooks: cells, their kinds, and the lines they have in the file."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.model import Document
from tamis.settings import ChunkingSettings

LAW = settings(
    deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
ALONE = ChunkingSettings(min_chars=0, max_chars=1500, overlap_chars=0)
PARENTS = ChunkingSettings(parents=True)


def cell(kind: str, *lines: str, **more: object) -> dict[str, object]:
    return {
        "cell_type": kind,
        "metadata": {},
        "source": [*(f"{line}\n" for line in lines[:-1]), lines[-1]],
        **more,
    }


def book(*cells: object, language: str = "python", **about: object) -> str:
    kernel = {"kernelspec": {"language": language, "name": "x"}}
    return json.dumps(
        {
            "cells": cells,
            "metadata": kernel | about,
            "nbformat": 4,
            "nbformat_minor": 5,
        },
        indent=1,
    )


def parsed(text: str, sizes: ChunkingSettings = ALONE) -> tuple[Document, str]:
    return parse(Source("notes/b.ipynb", text, b"", len(text), 0, 0, 0, 0), sizes)


SAMPLE = book(
    cell(
        "markdown", "# Analysis", "", "See [[Other]] and [data](data.md#rows). #stats"
    ),
    cell(
        "code",
        "import pandas",
        "",
        'print("[[no]]")',
        outputs=[{"text": ["source", "no output"]}],
        execution_count=1,
    ),
    cell("markdown", "## Second", "text"),
    cell("code", "x = 1"),
    cell("raw", "raw *text*"),
    cell("code", ""),
)


@pytest.mark.rows("R002-086")
def test_cells():
    """Markdown and raw text are documentation, code is code; the trail goes on."""
    document, warning = parsed(SAMPLE)
    assert warning == ""
    assert [
        (chunk.chunk_type, chunk.language, chunk.header_path, chunk.content)
        for chunk in document.chunks
    ] == [
        (
            "documentation",
            None,
            "Analysis",
            "# Analysis\n\nSee [[Other]] and [data](data.md#rows). #stats",
        ),
        ("code_block", "python", "Analysis", 'import pandas\n\nprint("[[no]]")'),
        ("documentation", None, "Analysis > Second", "## Second\ntext"),
        ("code_block", "python", "Analysis > Second", "x = 1"),
        ("documentation", None, "Analysis > Second", "raw *text*"),
    ]
    assert document.title == "Analysis"
    assert document.front.tags == ("stats",)
    assert [
        (link.type, link.target, link.anchor, link.ordinal) for link in document.links
    ] == [
        ("wikilink", "Other", "", 0),
        ("markdown", "data.md", "rows", 0),
    ]


@pytest.mark.parametrize(
    "sizes", [ALONE, ChunkingSettings(), PARENTS], ids=["alone", "default", "parents"]
)
def test_lines_are_those_of_the_file(sizes):
    """In the file, a passage's first and last line are those that it begins and ends with."""
    document, _ = parsed(SAMPLE, sizes)
    lines = SAMPLE.split("\n")
    for chunk in document.chunks:
        first, last = chunk.content.split("\n")[0], chunk.content.split("\n")[-1]
        assert json.dumps(first)[:-1] in lines[chunk.start_line - 1]
        assert json.dumps(last)[1:-1] in lines[chunk.end_line - 1]


def test_a_source_that_is_one_string_is_on_one_line():
    prose, code = (
        '{"source": "a\\nb",\n "cell_type": "raw"}',
        '{"cell_type": "code",\n "source":\n"c\\nd"}',
    )
    text = f'{{"cells": [\n{prose},\n{code}]}}'
    document, _ = parsed(text)
    assert [
        (chunk.content, chunk.start_line, chunk.end_line) for chunk in document.chunks
    ] == [
        ("a\nb", 2, 2),
        ("c\nd", 6, 6),
    ]


def test_a_file_whose_lines_cannot_be_told():
    """A key twice: the reader takes the last, and nobody knows which of them the lines are of."""
    text = '{"cells": [\n{"cell_type": "code", "source": "a",\n"source": "b"}\n]}'
    (chunk,) = parsed(text)[0].chunks
    assert (chunk.content, chunk.start_line, chunk.end_line) == ("b", 1, 4)


def test_a_fence_in_a_cell_of_markdown_stays_with_its_text():
    """As in any Markdown, and it ends with its cell at the latest."""
    text = book(
        cell("markdown", "Run:", "", "```sh", "make"),
        cell("code", "x"),
        cell("markdown", "# Next"),
    )
    document, _ = parsed(text)
    assert [
        (chunk.chunk_type, chunk.content, chunk.language) for chunk in document.chunks
    ] == [
        ("documentation", "Run:\n\n```sh\nmake", None),
        ("code_block", "make", "bash"),
        ("code_block", "x", "python"),
        ("documentation", "# Next", None),
    ]


def test_the_title():
    assert parsed(book(cell("markdown", "# H"), title="Own"))[0].title == "Own"
    assert parsed(book(cell("markdown", "text")))[0].title == "b"


@pytest.mark.parametrize(
    ("name", "language"),
    [("python", "python"), ("R", "r"), ("Julia", None), ("", None)],
)
def test_the_language_of_the_kernel(name, language):
    (chunk,) = parsed(book(cell("code", "x"), language=name))[0].chunks
    assert chunk.language == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON\n",
        "[]",
        "{}",
        '{"cells": {}}',
        '{"cells": [',
        "1",
        '{"worksheets": []}',
        "[" * 100_000,
    ],
)
def test_what_is_no_notebook_is_text_with_a_warning(text):
    document, warning = parsed(text)
    assert warning.startswith("no notebook, read as text: ")
    assert (
        "".join(chunk.content for chunk in document.chunks).split() == text.split()
        or len(text) > 1500
    )
    assert document.title == "b.ipynb"


@pytest.mark.parametrize(
    "cells",
    [
        [1, None, "x", []],
        [{"source": 5}],
        [{"source": [1, {}]}],
        [{"cell_type": "code"}],
        [{"cell_type": {}, "source": ""}],
    ],
)
def test_cells_that_are_none(cells):
    document, warning = parsed(json.dumps({"cells": cells}))
    assert (document.chunks, warning) == ((), "")


def test_cells_of_unknown_kinds_are_text():
    (chunk,) = parsed(
        json.dumps({"cells": [{"cell_type": ["?"], "source": ["a", 1, "b"]}]})
    )[0].chunks
    assert (chunk.content, chunk.chunk_type) == ("ab", "documentation")


def test_half_a_character():
    (chunk,) = parsed('{"cells": [{"cell_type": "raw", "source": "a\\ud800b"}]}')[
        0
    ].chunks
    assert chunk.content == "a?b"


def test_parents_hold_prose_and_code():
    document, _ = parsed(SAMPLE, PARENTS)
    (parent,) = document.parents
    assert all(
        chunk.parent == 0 and chunk.content in parent.content
        for chunk in document.chunks
    )
    assert {chunk.chunk_type for chunk in document.chunks} == {
        "documentation",
        "code_block",
    }


CELLS = st.lists(
    st.tuples(
        st.sampled_from(["markdown", "code", "raw"]),
        st.lists(
            st.sampled_from(
                ["", "# H", "## S", "```", "- a", "x = 1", "é", '"', "word " * 30, "\\"]
            ),
            min_size=1,
        ),
    ),
    max_size=8,
)


@LAW
@given(
    CELLS,
    st.sampled_from([ALONE, ChunkingSettings(20, 120, 20), PARENTS]),
    st.sampled_from([None, 1]),
)
def test_the_law(cells, sizes, indent):
    """Every word of every cell is in a passage of its kind; lines rise, and are lines of the file."""
    text = json.dumps(
        {"cells": [cell(kind, *lines) for kind, lines in cells], "metadata": {}},
        indent=indent,
    )
    document, warning = parsed(text, sizes)
    assert warning == ""
    for kinds, chunk_type in (
        (("markdown", "raw"), "documentation"),
        (("code",), "code_block"),
    ):
        wanted = {
            word
            for kind, lines in cells
            if kind in kinds
            for line in lines
            for word in line.split()
        }
        held = {word for chunk in document.chunks for word in chunk.content.split()}
        own = {
            word
            for c in document.chunks
            if c.chunk_type == chunk_type
            for word in c.content.split()
        }
        fences = {"```"} if chunk_type == "documentation" else set()
        assert wanted - fences <= (held if fences else own)
    last = text.count("\n") + 1
    starts = [chunk.start_line for chunk in document.chunks]
    assert starts == sorted(starts)
    assert all(
        1 <= chunk.start_line <= chunk.end_line <= last for chunk in document.chunks
    )
    if indent is None:
        assert all(chunk.end_line == 1 for chunk in document.chunks)
