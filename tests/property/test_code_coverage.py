"""The law for source: its chunks cover every character that is not blank, in order, with exact lines.

For source in every language, for the same with parts taken out, doubled and moved, and for any text.
"""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from support.sources import EXTENSION, SOURCES
from tamis.ingest.code import chunks
from tamis.ingest.code.chunks import parse_code
from tamis.ingest.code.grammars import GRAMMARS
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.model import Chunk, Document
from tamis.settings import ChunkingSettings
from tamis.text.languages import CODE_LANGUAGE

LAW = settings(
    deadline=None,
    derandomize=True,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow],
)
DEFAULT = ChunkingSettings()
EACH = ChunkingSettings(
    min_chars=0, max_chars=100, overlap_chars=0
)  # nothing is joined
PARENTS = ChunkingSettings(parents=True)
SMALL_PARENTS = ChunkingSettings(
    parents=True,
    parent_min_chars=100,
    parent_max_chars=200,
    child_min_chars=20,
    child_max_chars=100,
)
SIZES = st.sampled_from(
    [DEFAULT, EACH, ChunkingSettings(100, 100, 50), PARENTS, SMALL_PARENTS]
)
_TEXT = re.compile(r"\S")


def document(text: str, language: str, sizes: ChunkingSettings) -> Document:
    return parse(Source(f"a/b{EXTENSION[language]}", text, b"", 1, 0, 0, 0, 0), sizes)[
        0
    ]


def line_starts(text: str) -> list[int]:
    return [0, *(found.end() for found in re.finditer("\n", text))]


def check_coverage(text: str, chunks: list[Chunk]) -> None:
    """Each chunk is found where it says it is, and begins no later than where the last one ended."""
    starts, covered = line_starts(text), 0
    for chunk in chunks:
        following = _TEXT.search(text, covered)
        limit = following.start() if following else len(text)
        first = starts[chunk.start_line - 1]
        place = text.rfind(chunk.content, first, limit + len(chunk.content))
        assert place >= 0, (chunk, text[covered:limit])
        assert text.count("\n", first, place) == 0
        assert chunk.end_line == chunk.start_line + chunk.content.count("\n")
        covered = max(covered, place + len(chunk.content))
    assert not text[covered:].strip()


def check(text: str, language: str, sizes: ChunkingSettings) -> None:
    made = document(text, language, sizes)
    assert made == document(text, language, sizes)
    own = [chunk for chunk in made.chunks if chunk.chunk_type != "symbols"]
    assert list(made.chunks[: len(own)]) == own  # outlines are last
    check_coverage(text, own)
    understood = not parse_code(made.path, text, sizes).warning
    longest = sizes.child_max_chars if sizes.parents and understood else sizes.max_chars
    for ordinal, chunk in enumerate(made.chunks):
        assert chunk.ordinal == ordinal
        assert chunk.content.strip()
        assert chunk.chunk_type == "symbols" or len(chunk.content) <= longest
        assert 1 <= chunk.start_line <= chunk.end_line <= text.count("\n") + 1
    check_names(text, own)
    check_parents(made, text, sizes)
    assert {link.ordinal for link in made.links} <= {chunk.ordinal for chunk in own}


def check_names(text: str, chunks: list[Chunk]) -> None:
    """What a chunk defines stands in it: the last part of the name, unless it was cut or is made up."""
    for chunk in chunks:
        for name in chunk.names:
            last = re.split(r"\W+", name.strip())[-1][:20]
            assert last in chunk.content or last in {"Companion", "n"}, (name, chunk)


def check_parents(made: Document, text: str, sizes: ChunkingSettings) -> None:
    lines = text.split("\n")
    used = {chunk.parent for chunk in made.chunks} - {None}
    assert used == set(range(len(made.parents)))
    for parent in made.parents:
        assert sizes.parents
        assert 0 < len(parent.content) <= sizes.parent_max_chars
        assert 1 <= parent.start_line <= parent.end_line <= len(lines)


@pytest.mark.parametrize("sizes", [DEFAULT, EACH, PARENTS, SMALL_PARENTS], ids=range(4))
@pytest.mark.parametrize("language", sorted(SOURCES))
def test_the_law_for_the_table(language, sizes):
    check(SOURCES[language] * 3, language, sizes)


REAL = [
    path.read_text("utf-8")
    for path in sorted(Path(chunks.__file__).parent.glob("*.py"))
]


@pytest.mark.parametrize("sizes", [DEFAULT, PARENTS], ids=range(2))
def test_the_law_for_our_own_source(sizes):
    for text in REAL:
        check(text, "python", sizes)


# Source that is made of whole definitions, and so parses

BODIES = {
    "python": (
        "def {}(a):\n    return a\n\n",
        "class {}:\n    x = 1\n    def f(self): pass\n",
        "{} = 1\n",
    ),
    "javascript": (
        "function {}(a) {{ return a; }}\n",
        "class {} {{\n  f() {{}}\n}}\n",
        "const {} = 1;\n",
    ),
    "go": (
        "func {}(a int) int {{\n\treturn a\n}}\n\n",
        "type {} struct {{\n\ta int\n}}\n",
        "const {} = 1\n",
    ),
    "rust": ("fn {}() {{}}\n\n", "struct {} {{ a: i32 }}\n", "const {}: i32 = 1;\n"),
    "java": (
        "class {} {{\n  int f() {{ return 1; }}\n}}\n",
        "interface {} {{ void g(); }}\n",
        "// {}\n",
    ),
    "c": (
        "int {}(int a) {{ return a; }}\n",
        "struct {} {{ int a; }};\n",
        "#define {} 1\n",
    ),
    "ruby": ("def {}(a)\n  a\nend\n", "class {}\n  def f; end\nend\n", "{} = 1\n"),
    "bash": ("{}() {{\n  echo\n}}\n", "# {}\n", "{}=1\n"),
}


@st.composite
def programs(draw) -> tuple[str, str, list[str]]:
    """A program, and the names that it defines, in their order."""
    language = draw(st.sampled_from(sorted(BODIES)))
    function, type_, constant = BODIES[language]
    parts, names = [], []
    for number in range(draw(st.integers(1, 40))):
        kind = draw(st.sampled_from([function, type_, constant]))
        name = f"NAME_{number}"
        comment = draw(st.sampled_from(["", "\n", "\n\n\n"]))
        parts.append(comment + kind.format(name))
        if not kind.startswith(("#", "//")) or kind.startswith("#define"):
            names.append(name)
    return language, "".join(parts), names


@LAW
@given(programs(), SIZES)
def test_the_law_for_programs_and_every_name_once(program, sizes):
    language, text, names = program
    check(text, language, sizes)
    found = [
        name for chunk in document(text, language, sizes).chunks for name in chunk.names
    ]
    assert [
        name for name in found if name.startswith("NAME_") and "." not in name
    ] == names


@st.composite
def mutations(draw) -> tuple[str, str]:
    """Source with parts taken out, doubled and moved."""
    language = draw(st.sampled_from(sorted(SOURCES)))
    text = (
        draw(st.sampled_from([SOURCES[language], *REAL]))
        if language == "python"
        else SOURCES[language]
    )
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 80)))
        place = draw(st.integers(0, len(text)))
        part = draw(
            st.sampled_from(
                ["", text[start:end], text[start:end] * 2, "{", ")", '"', "\n", "é🌍"]
            )
        )
        text = (
            text[:start] + text[end:]
            if part == ""
            else text[:place] + part + text[place:]
        )
    return language, text


@LAW
@given(mutations(), SIZES)
def test_the_law_for_broken_source(mutation, sizes):
    language, text = mutation
    check(text, language, sizes)


WORDS = st.sampled_from(
    ["def f():", "class A", "{", "}", "(", ")", "\n", "    ", "\t", "=>", "function g() {", "// c", "# c",
     "/*", "*/", ";", "end", "'", '"', "é", "🌍", "\0", "<", ">", "fn x() {}", "@", "<?php", "::",
     "struct s {", "A = 1\n", "#define A 1\n", "import a\n", "const (", "const A = 1;", "\u2028",
     "\x0b", "\ud800"]
)  # fmt: skip


@LAW
@given(
    st.text() | st.lists(WORDS, max_size=40).map("".join),
    st.sampled_from(sorted(GRAMMARS)),
    SIZES,
)
@example("# c\n" * 100, "python", PARENTS)
@example("", "python", PARENTS)
@example("\t\n \n", "go", DEFAULT)
def test_the_law_for_any_text(text, language, sizes):
    check(text, language, sizes)


# Text that means harm


NESTED = [
    *((language, "(", ")") for language in sorted(GRAMMARS)),
    *(
        (language, "class A { int f() {", "}}")
        for language in ("cpp", "csharp", "java")
    ),
    *(
        (language, "function f() {", "}")
        for language in ("javascript", "tsx", "php", "bash")
    ),
]


@pytest.mark.parametrize(("language", "opening", "closing"), NESTED)
def test_ten_thousand_deep(language, opening, closing):
    """Whether it is understood or not: nothing is lost, and nothing falls over."""
    start = "<?php " if language == "php" else ""
    text = f"{start}{opening * 10_000}{closing * 10_000}"
    made = document(text, language, DEFAULT)
    check_coverage(
        text, [chunk for chunk in made.chunks if chunk.chunk_type != "symbols"]
    )


def test_ten_thousand_of_everything():
    check(
        "".join(f"# c\ndef f{number}(): pass\n" for number in range(10_000)),
        "python",
        PARENTS,
    )
    check("var f=function(){};" * 10_000, "javascript", DEFAULT)


@pytest.mark.parametrize("suffix", sorted(CODE_LANGUAGE))
def test_comments_alone_and_nothing(suffix):
    for text in (
        "",
        "\n\n",
        "# only\n# comments\n",
        "// only\n// comments\n",
        "/* only */",
        "\ufeff",
    ):
        made, _ = parse(Source(f"a{suffix}", text, b"", 1, 0, 0, 0, 0), DEFAULT)
        check_coverage(text, list(made.chunks))
        assert bool(made.chunks) == bool(text.strip())
