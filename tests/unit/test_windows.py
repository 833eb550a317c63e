"""Code and plain text in windows: the same law as for Markdown."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.chunks import SIZES, check_law
from tamis.ingest.documents.sections import parse_plain
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.settings import ChunkingSettings

LAW = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a noisy machine is no fault

DEFAULT = ChunkingSettings()
CODE = "".join(
    f"def function_{number}(argument):\n    return argument + {number}\n\n\n"
    for number in range(80)
)


@pytest.mark.rows("X7")
@pytest.mark.parametrize(
    ("path", "kind", "language"),
    [
        ("src/a.py", "definitions", "python"),
        ("src/A.PY", "definitions", "python"),
        ("a.tsx", "definitions", "typescript"),
        ("a.h", "definitions", "c"),
        ("a.json", "data", "json"),
        ("a.yml", "data", "yaml"),
        ("a.sql", "data", "sql"),
        ("a.txt", "documentation", None),
        ("a.rst", "documentation", None),
        ("Makefile", "documentation", None),
        (".gitignore", "documentation", None),
        ("a.unknown", "documentation", None),
    ],
)
def test_kind_and_language(path, kind, language):
    """The chunk types, by the file's kind."""
    (chunk,) = parse_plain(path, "text\n", DEFAULT).chunks
    assert (chunk.chunk_type, chunk.language, chunk.header_path) == (kind, language, "")


def test_code_is_cut_between_blank_lines():
    chunks = parse_plain("a.py", CODE, DEFAULT).chunks
    assert len(chunks) > 2
    for chunk in chunks[1:]:
        assert "def " in chunk.content
    for chunk in chunks[:-1]:
        assert chunk.content.endswith(tuple(f"+ {number}" for number in range(80)))
    check_law(CODE, chunks, DEFAULT)


def test_indentation_of_the_first_line_is_kept():
    (chunk,) = parse_plain("a.py", "\n\n    indented\nnot\n\n", DEFAULT).chunks
    assert chunk.content == "    indented\nnot"
    assert (chunk.start_line, chunk.end_line) == (3, 4)


def test_fences_and_headings_mean_nothing_here():
    text = "# comment\n```\n# more\n"
    (chunk,) = parse_plain("a.pl", text, DEFAULT).chunks
    assert chunk.content == text.strip()
    document, _ = parse(
        Source("a.pl", "---\ntitle: x\n---\n", b"", 1, 5_000_000_000, 0, 0, 0), DEFAULT
    )
    assert document.title == "a.pl"
    assert document.modified == 5.0
    assert document.chunks[0].content.startswith("---")


@pytest.mark.parametrize("text", ["", "\n", " \t\n\n"])
def test_nothing_gives_no_chunk(text):
    assert parse_plain("a.py", text, DEFAULT).chunks == []


@LAW
@given(
    st.lists(
        st.text(alphabet="ab(){}= \t\x0b\u2028é", max_size=40)
        | st.integers(1, 2000).map(lambda size: ("x = y; " * size)[:size])
        | st.integers(1, 2000).map(lambda size: "z" * size),
        max_size=30,
    ),
    SIZES,
)
def test_the_law_for_arbitrary_text(lines, sizes):
    text = "\n".join(lines)
    check_law(text, parse_plain("a.py", text, sizes).chunks, sizes)


@LAW
@given(st.text(max_size=300), SIZES)
def test_the_law_for_any_characters(text, sizes):
    check_law(text, parse_plain("a.txt", text, sizes).chunks, sizes)
