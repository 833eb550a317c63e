"""reStructuredText: sections, code, links."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.chunks import SIZES, check_law
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.model import Document
from tamis.settings import ChunkingSettings

ALONE = ChunkingSettings(min_chars=0, max_chars=1500, overlap_chars=0)
LAW = settings(
    deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


def document_of(text: str, sizes: ChunkingSettings = ALONE) -> Document:
    return parse(Source("docs/a.rst", text, b"", len(text), 0, 0, 0, 0), sizes)[0]


def trails(text: str) -> list[str]:
    return [
        chunk.header_path
        for chunk in document_of(text).chunks
        if chunk.chunk_type == "documentation"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "One\n===\n\na\n\nTwo\n---\n\nb",
            ["One", "One > Two"],
            id="by order of appearance",
        ),
        pytest.param(
            "One\n---\n\na\n\nTwo\n===\n\nb",
            ["One", "One > Two"],
            id="whatever the sign",
        ),
        pytest.param(
            "===\nOne\n===\n\na\n\nTwo\n===\n\nb",
            ["One", "One > Two"],
            id="an overline is a style of its own",
        ),
        pytest.param("=====\n One\n=====\n\na", ["One"], id="set in"),
        pytest.param(
            "A\n=\n\nx\n\nB\n-\n\nx\n\nC\n=\n\nx",
            ["A", "A > B", "C"],
            id="back up again",
        ),
        pytest.param("a\n\n----\n\nb", [""], id="a transition"),
        pytest.param(
            "Title too long\n====\n\na", ["Title too long"], id="short, but four"
        ),
        pytest.param("Title too long\n===\n\na", [""], id="too short"),
        pytest.param("two\nlines\n=====\n", [""], id="a paragraph of two lines"),
        pytest.param("  set in\n  ======\n", [""], id="a quotation"),
        pytest.param("One\n===\n", ["One"], id="nothing else"),
        pytest.param("====\n====\n====\n", [""], id="adornment alone"),
        pytest.param("::\n\n  One\n  ===\n", [""], id="in a literal block"),
        pytest.param("text", [""], id="no title"),
        pytest.param(
            ":mod:`email` and ``x`` **b**\n=====\n", ["email and x b"], id="markup"
        ),
    ],
)
def test_sections(text, expected):
    assert trails(text) == expected


def test_title():
    assert document_of("One\n===\n\nTwo\n---\n").title == "One"
    assert document_of("no title").title == "a"


@pytest.mark.rows("R002-086")
@pytest.mark.parametrize(
    ("text", "code", "language", "lines"),
    [
        pytest.param(
            "a::\n\n    b = 1\n\n    c\n\nd",
            "    b = 1\n\n    c",
            None,
            (3, 5),
            id="after two colons",
        ),
        pytest.param(
            ".. code-block:: python\n\n   x = 1\n\nd",
            "   x = 1",
            "python",
            (3, 3),
            id="a directive",
        ),
        pytest.param(
            ".. code:: js\n   :number-lines:\n\n   x\n",
            "   x",
            "javascript",
            (4, 4),
            id="options",
        ),
        pytest.param(
            ".. sourcecode:: c++\n\n   x\n", "   x", "cpp", (3, 3), id="its older name"
        ),
        pytest.param(
            "- a::\n\n      b\n\n- c", "      b", None, (3, 3), id="in a list"
        ),
    ],
)
def test_code(text, code, language, lines):
    """Code in documentation, on its own and with the text around it."""
    chunks = document_of(text).chunks
    (block,) = [chunk for chunk in chunks if chunk.chunk_type == "code_block"]
    assert (block.content, block.language, (block.start_line, block.end_line)) == (
        code,
        language,
        lines,
    )
    assert (
        any(
            code in chunk.content
            for chunk in chunks
            if chunk.chunk_type == "documentation"
        )
        or len(chunks) == 1
    )


@pytest.mark.parametrize(
    "text",
    [".. note::\n\n   a note\n", "a::\n", "std::vector\n\n  x", ".. code::\n\nno body"],
)
def test_no_code(text):
    assert [chunk.chunk_type for chunk in document_of(text).chunks] == ["documentation"]


def test_what_a_directive_says_besides_its_language_is_kept():
    """A caption is text; a language alone is not."""
    captioned = ".. code-block:: python\n   :caption: the retry policy\n\n   x = 1"
    assert [chunk.content for chunk in document_of(captioned).chunks] == [
        captioned,
        "   x = 1",
    ]
    assert [
        chunk.content for chunk in document_of(".. code-block:: python\n\n   x").chunks
    ] == ["   x"]


def test_code_that_fits_is_never_cut():
    code = "\n".join(f"    line {number}" for number in range(30))
    text = "words " * 40 + f"\n\nSo::\n\n{code}\n\n" + "words " * 40
    sizes = ChunkingSettings(min_chars=0, max_chars=600, overlap_chars=50)
    document = document_of(text, sizes)
    assert len(document.chunks) > 2
    assert any(code in chunk.content for chunk in document.chunks)
    assert all(
        "line 5\n" not in chunk.content or code in chunk.content
        for chunk in document.chunks
    )


def test_links():
    text = (
        "See :doc:`guide/start` and :doc:`the api <../api>`, `this page <other.rst>`_,\n"
        "`home <https://example.org>`_, ``:doc:`no```, :ref:`no`.\n\n"
        ".. _target: more.rst#part\n.. _internal:\n\n::\n\n  :doc:`no`\n"
    )
    links = [
        (link.type, link.target, link.anchor, link.ordinal)
        for link in document_of(text).links
    ]
    assert links == [
        ("markdown", "guide/start", "", 0),
        ("markdown", "../api", "", 0),
        ("markdown", "other.rst", "", 0),
        ("markdown", "more.rst", "part", 0),
    ]


@LAW
@given(
    st.lists(
        st.sampled_from(
            [
                "",
                "Title",
                "=====",
                "-----",
                "a::",
                ".. code:: py",
                "   in",
                "      deeper",
                "::",
                "word " * 40,
            ]
        )
        | st.text(alphabet="ab=-~:`<> .\té", max_size=20),
        max_size=25,
    ),
    SIZES,
)
def test_the_law_for_arbitrary_text(lines, sizes):
    text = "\n".join(lines)
    check_law(text, list(document_of(text, sizes).chunks), sizes)
