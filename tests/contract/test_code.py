"""Source by its structure: a table of languages, and what becomes a chunk, a name, a link and a parent."""

from itertools import pairwise

import pytest

from support.sources import EXTENSION, SOURCES, TABLE, symbols
from tamis.ingest.code.chunks import parse_code
from tamis.ingest.code.grammars import GRAMMARS
from tamis.ingest.code.symbols import Symbol
from tamis.ingest.documents.sections import parse_plain
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.model import Chunk, Document, Link
from tamis.settings import ChunkingSettings
from tamis.text.languages import CODE_LANGUAGE, LANGUAGES

DEFAULT = ChunkingSettings()
EACH = ChunkingSettings(
    min_chars=0, max_chars=100, overlap_chars=0
)  # nothing is joined


def code_chunks(path: str, text: str, sizes: ChunkingSettings) -> list[Chunk]:
    return parse_code(path, text, sizes).chunks


def where(symbol: Symbol) -> str:
    return " > ".join((*symbol.scope, symbol.name))


@pytest.mark.parametrize(("language", "source", "expected"), TABLE, ids=list(SOURCES))
def test_what_a_language_defines(language, source, expected):
    found = symbols(source, language)
    assert [
        (where(each), each.kind, each.line, each.signature) for each in found
    ] == expected


def test_every_grammar_is_in_the_table():
    assert set(SOURCES) == set(GRAMMARS)
    assert set(GRAMMARS) - {"tsx"} <= set(LANGUAGES)


@pytest.mark.parametrize("language", sorted(set(SOURCES) - {"tsx"}))
def test_the_first_definition_brings_its_comment(language):
    text = SOURCES[language]
    marks = ("Doc.", "Retries.", "Client retries.", "@Injectable")
    documented = [
        each
        for each in symbols(text, language)
        if any(mark in text[each.start :][:30] for mark in marks)
    ]
    assert documented


# Symbols


def test_places_are_characters():
    text = "# été 🌍\ndef ñandú(x):\n    return '🌍'\n\nclass Ünï:\n    def straße(self): pass\n"
    found = symbols(text, "python")
    assert [each.name for each in found] == ["ñandú", "Ünï", "straße"]
    assert (
        text[found[0].start : found[0].end]
        == "# été 🌍\ndef ñandú(x):\n    return '🌍'"
    )
    assert (
        text[found[1].start : found[1].end] == "class Ünï:\n    def straße(self): pass"
    )
    assert text[found[2].start : found[2].end] == "def straße(self): pass"
    assert [each.line for each in found] == [2, 5, 6]


def test_a_comment_belongs_to_what_is_right_below_it():
    text = "x = 1  # not this\ndef a(): pass\n\n# nor this\n\n# this\n# and this\n"
    text += "@one\n@two(\n    1)\ndef b(): pass\n"
    a, b = symbols(text, "python")
    assert text[a.start : a.end] == "def a(): pass"
    assert text[b.start : b.end].startswith("# this\n# and this\n@one\n@two(")


def test_a_decorated_class_does_not_lend_its_decorator_to_its_last_method():
    text = "@one\nclass A:\n    def first(self): pass\n    def last(self): pass\n"
    _, first, last = symbols(text, "python")
    assert text[first.start : first.end] == "def first(self): pass"
    assert text[last.start : last.end] == "def last(self): pass"


def test_spans_nest_and_follow_each_other():
    for language, text in SOURCES.items():
        found = symbols(text, language)
        for one, two in pairwise(found):
            assert one.start <= two.start
            assert two.start >= one.end or two.end <= one.end, (language, one, two)


def test_a_header_may_be_cpp_and_javascript_may_have_types():
    (method, *_) = [
        each
        for each in symbols("class A {\n public:\n  int go() { return 1; }\n};\n", "c")
        if each.name == "go"
    ]
    assert where(method) == "A > go"
    flow = "// @flow\ntype A = {| x: number |};\nexport function go(a: number, b: ?string): void {}\n"
    assert "go" in [each.name for each in symbols(flow, "javascript")]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("def f(): pass\n", "haskell"),
        ("def f(): pass\n", "no such language"),
        ("}{)( not : a :: program ?? " * 20, "python"),
        (
            "Dear reader: this is a letter? It has no end (nor a beginning. " * 20,
            "java",
        ),
    ],
)
def test_no_grammar_and_no_program(text, language):
    assert symbols(text, language) is None
    path = f"a{EXTENSION.get(language, '.x')}"
    made, _ = parse(Source(path, text, b"", 1, 0, 0, 0, 0), DEFAULT)
    assert list(made.chunks) == parse_plain(path, text, DEFAULT).chunks


def test_nothing_is_defined():
    assert symbols("", "python") == []
    assert code_chunks("a.py", "", DEFAULT) == []
    assert code_chunks("a.py", " \n\t\n", DEFAULT) == []
    (chunk,) = code_chunks("a.py", "\nimport os\n", DEFAULT)
    assert chunk == Chunk(0, "import os", "", 2, 2, "definitions", "python")


def test_one_error_does_not_cost_the_rest():
    text = SOURCES["python"] + "\ndef broken(:\n    pass\n\n\ndef after(): pass\n"
    assert {"Client", "retry", "go", "after"} <= {
        each.name for each in symbols(text, "python")
    }


def test_comments_in_an_error_are_read():
    """A long licence and a brace that is missing are no file that mostly does not parse."""
    licence = (
        "/*\n"
        + " * Permission is hereby granted, free of charge, to any person.\n" * 40
        + " */\n"
    )
    text = (
        "namespace x {\nclass A {\n" + licence + "int f() { return 1; }\n"
    )  # the braces never close
    assert [each.name for each in symbols(text, "cpp")] == ["f"]
    assert symbols("}} class ( {{ ]]] : x ) y ;\n" * 9, "java") is None


def test_names_and_signatures_are_bounded():
    text = f"def {'n' * 5000}({', '.join(f'a{i}' for i in range(2000))}): pass\n"
    (symbol,) = symbols(text, "python")
    assert len(symbol.name) == len(symbol.signature) == 200


# Chunks

CLASS = """\
import os

LIMIT = 3


class Client:
    \"\"\"Retries.\"\"\"

    times = 1

    # Once more.
    @property
    def retry(self):
        return self.times + LIMIT

    def forget(self):
        del self.times


def main():
    print(Client().retry, os.name)
"""


def headers(chunks: list[Chunk]) -> list[str]:
    return [chunk.header_path for chunk in chunks]


def test_a_large_class_is_its_head_and_its_members():
    chunks = code_chunks("src/client.py", CLASS, EACH)
    members = ["Client", "Client > retry", "Client > forget"]
    assert headers(chunks) == ["", "LIMIT", *members, "main", "client.py"]
    contents = [chunk.content for chunk in chunks]
    assert contents[2] == 'class Client:\n    """Retries."""\n\n    times = 1'
    assert contents[3].startswith(
        "    # Once more.\n    @property\n    def retry(self):"
    )
    assert [(chunk.start_line, chunk.end_line) for chunk in chunks[:4]] == [
        (1, 1),
        (3, 3),
        (6, 9),
        (11, 14),
    ]
    types = [chunk.chunk_type for chunk in chunks]
    assert types == ["definitions", "data", *["definitions"] * 4, "symbols"]
    assert {chunk.language for chunk in chunks} == {"python"}


@pytest.mark.rows("R004-031")
def test_the_outline_is_last():
    """`symbols` is what a file defines."""
    *_, outline = code_chunks("src/client.py", CLASS, DEFAULT)
    assert (outline.chunk_type, outline.header_path) == ("symbols", "client.py")
    assert (outline.start_line, outline.end_line) == (1, 21)
    assert (
        outline.content
        == "class Client\n  def retry(self)\n  def forget(self)\ndef main()"
    )


def test_one_symbol_needs_no_outline():
    assert [
        chunk.chunk_type for chunk in code_chunks("a.py", "def f(): pass\n", DEFAULT)
    ] == ["definitions"]


def test_a_small_class_is_one_chunk():
    chunks = code_chunks("a.py", CLASS, ChunkingSettings(min_chars=0))
    assert headers(chunks) == ["", "LIMIT", "Client", "main", "a.py"]
    assert chunks[2].content.startswith("class Client:")
    assert chunks[2].content.endswith("del self.times")


def test_small_neighbours_share_a_chunk_and_are_all_named():
    text = "".join(
        f"def {name}(x):\n    return x\n\n\n" for name in ("one", "two", "three")
    )
    chunks = code_chunks("a.py", text, ChunkingSettings(min_chars=60, max_chars=100))
    assert headers(chunks) == ["one, two, three", "a.py"]
    text = f"class A:\n    {'x = 1; ' * 12}\n\n" + "".join(
        f"    def {name}(x): return x\n\n" for name in "bcd"
    )
    chunks = code_chunks(
        "a.py", text, ChunkingSettings(min_chars=60, max_chars=100, overlap_chars=0)
    )
    assert headers(chunks)[-2:] == ["A > b, c, d", "a.py"]


def test_a_closing_brace_is_no_chunk():
    text = (
        "class A {\n"
        + "".join(f"  {name}() {{ return '{name * 60}'; }}\n" for name in "abc")
        + "}\n\nlet x = 1;\n"
    )
    contents = [chunk.content for chunk in code_chunks("a.js", text, EACH)]
    assert any(content.endswith("}\n}") for content in contents)
    assert "}" not in contents


@pytest.mark.parametrize(
    "line",
    ["#endif", "#else", "# elif defined(X)", "#if X", "#endif  // X", "#ifdef A"],
)
def test_a_condition_of_the_preprocessor_is_no_chunk(line):
    functions = [f'int {name}(void) {{ return "{name * 20}"; }}\n' for name in "abc"]
    text = f"#ifdef X\n{line}\n".join(functions) + f"{line}\n"
    for chunk in code_chunks("a.c", f"{line}\n{text}", EACH):
        assert chunk.names or chunk.chunk_type == "symbols", chunk.content


def test_a_long_function_is_split_and_keeps_its_name():
    text = "def f():\n" + "".join(
        f"    x{number} = {number}\n" for number in range(100)
    )
    chunks = code_chunks("a.py", text, ChunkingSettings(max_chars=200))
    assert len(chunks) > 5
    assert set(headers(chunks)) == {"f"}


def test_tsx_is_known_by_its_file():
    text = SOURCES["tsx"]
    assert "Button, Row" in headers(code_chunks("a.tsx", text, DEFAULT))
    assert code_chunks("a.tsx", text, DEFAULT)[0].language == "typescript"


def test_a_long_outline_is_cut_between_lines():
    text = "".join(f"def function_{number}(): pass\n" for number in range(100))
    chunks = [
        chunk
        for chunk in code_chunks("a.py", text, EACH)
        if chunk.chunk_type == "symbols"
    ]
    assert len(chunks) > 10
    assert all(len(chunk.content) <= 100 for chunk in chunks)
    assert "\n".join(chunk.content for chunk in chunks).split("\n") == [
        f"def function_{number}()" for number in range(100)
    ]


def test_a_later_page_of_an_outline_repeats_what_is_around_it():
    methods = "".join(
        f"        def method_{number}(self): pass\n" for number in range(40)
    )
    text = f"class Outer:\n    class Inner(Base):\n{methods}    def last(self): pass\ndef after(): pass\n"
    pages = [
        chunk.content
        for chunk in code_chunks("a.py", text, EACH)
        if chunk.chunk_type == "symbols"
    ]
    assert len(pages) > 10
    assert all(len(page) <= 100 for page in pages)
    around = ["class Outer", "  class Inner(Base)"]
    inner = [page.split("\n") for page in pages if "    def method_" in page]
    assert all(page[:2] == around for page in inner)
    shown = [line for page in inner for line in page[2:] if line.startswith("    ")]
    assert shown == [f"    def method_{number}(self)" for number in range(40)]
    assert pages[-1].endswith("\ndef after()")
    assert sum(page.count("def last") for page in pages) == 1


def document(path: str, text: str, **sizes: object) -> Document:
    return parse(
        Source(path, text, b"", len(text), 0, 0, 0, 0), ChunkingSettings(**sizes)
    )[0]


# Names


@pytest.mark.rows("R004-031")
def test_a_chunk_names_what_it_defines():
    """Qualified, with dots; the head of a large class names the class."""
    chunks = code_chunks("src/client.py", CLASS, EACH)
    names = [chunk.names for chunk in chunks]
    assert names == [
        (),
        ("LIMIT",),
        ("Client",),
        ("Client.retry",),
        ("Client.forget",),
        ("main",),
        (),
    ]


def test_a_chunk_that_joins_definitions_names_them_all():
    first, outline = code_chunks("src/client.py", CLASS, DEFAULT)
    assert first.names == ("LIMIT", "Client", "Client.retry", "Client.forget", "main")
    assert outline.names == ()


def test_only_the_first_piece_of_a_long_function_defines_it():
    text = "def f():\n" + "".join(
        f"    x{number} = {number}\n" for number in range(100)
    )
    chunks = code_chunks(
        "a.py", text, ChunkingSettings(max_chars=200, overlap_chars=50)
    )
    assert [chunk.names for chunk in chunks] == [("f",)] + [()] * (len(chunks) - 1)


@pytest.mark.rows("R004-031", "X7")
@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        ("a.py", "A = 1\n# why\nB_C: int = {\n  2: 3}\n_D = (4)\n", ("A", "B_C", "_D")),
        ("a.ts", "export const MAX = 3;\nconst A = 1, B = 2;\n", ("MAX", "A", "B")),
        ("a.go", "const A = 1\n\nconst (\n\tb = 2\n\tC = 3 // c\n)\n", ("A", "b", "C")),
        (
            "a.rs",
            '/// Doc.\npub const A: i32 = 1;\nstatic B: &str = "x";\n',
            ("A", "B"),
        ),
        ("a.c", "#define N 3\nstatic const int t[] = {1, 2};\n", ("N", "t")),
        ("a.rb", "A_B = [1].freeze\n", ("A_B",)),
        ("a.sh", "A_B=3\nreadonly C=4\n", ("A_B", "C")),
        ("a.kt", "const val A = 1\nval B_C = 2\n", ("A", "B_C")),
        ("a.lua", "local A_B = 3\n", ("A_B",)),
        ("a.swift", "let A_B = 3\n", ("A_B",)),
        ("a.scala", "val A_B = 3\n", ("A_B",)),
    ],
)
def test_constants_alone_are_data(path, text, names):
    """`data` is constants as well as configuration."""
    (chunk,) = code_chunks(path, text, DEFAULT)
    assert (chunk.chunk_type, chunk.language, chunk.names) == (
        "data",
        CODE_LANGUAGE[path[1:]],
        names,
    )
    assert chunk.header_path.startswith(names[0])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "A = 1\nrun(A)\n"),
        ("a.py", "limit = 1\n"),
        ("a.py", "# only a comment\n"),
        ("a.py", "def f():\n    A = 1\n"),
        ("a.js", "const API = {\n  list() {},\n};\n"),
        ("a.js", "const app = express();\n"),
    ],
)
def test_what_is_no_data(path, text):
    assert [chunk.chunk_type for chunk in code_chunks(path, text, DEFAULT)] == [
        "definitions"
    ]


def test_a_run_of_constants_stands_alone_when_it_is_long_enough():
    constants = "".join(f"CONSTANT_{number} = {number}\n" for number in range(60))
    text = f"import os\n\n{constants}\n\ndef f():\n    return os\n"
    kinds = [
        (chunk.chunk_type, len(chunk.names))
        for chunk in code_chunks("a.py", text, DEFAULT)
    ]
    assert kinds == [("definitions", 0), ("data", 60), ("definitions", 1)]
    assert len(code_chunks("a.py", text, DEFAULT)[1].header_path) <= 100


# Warnings


@pytest.mark.parametrize(
    ("path", "warning"),
    [
        ("a.tsx", "not understood as TSX: indexed as text"),
        ("a.py", "not understood as Python: indexed as text"),
        ("a.cs", "not understood as C#: indexed as text"),
        ("a.hs", ""),
        ("a.vue", ""),
    ],
)
def test_what_does_not_parse_is_text_with_a_warning(path, warning):
    """Issue 4: a file that does not parse is indexed as text and counted."""
    text = "}{)( not : a :: program ?? \n" * 100
    made, said = parse(Source(path, text, b"", len(text), 0, 0, 0, 0), DEFAULT)
    assert said == warning
    assert len(made.chunks) > 1
    assert {(chunk.chunk_type, chunk.header_path) for chunk in made.chunks} == {
        ("definitions", "")
    }


def test_a_title_is_the_name_of_the_file():
    made = document("src/client.py", CLASS)
    assert (made.title, made.front.tags, made.parents) == ("client.py", (), ())


# Links


def test_imports_are_links_of_the_chunk_they_stand_in():
    text = f"import os\nfrom .b import c\n{CLASS}\n\ndef late():\n    import a.b\n    import os\n    import os\n"
    made = document("pkg/a.py", text, min_chars=0, max_chars=100, overlap_chars=0)
    late = next(chunk.ordinal for chunk in made.chunks if chunk.names == ("late",))
    assert made.links == (
        Link("import", "os", ordinal=0),
        Link("import", "/pkg/b/c", ordinal=0),
        Link("import", "/pkg/b", ordinal=0),
        Link("import", "a/b", ordinal=late),
        Link("import", "os", ordinal=late),
    )


def test_what_looks_like_an_import_is_none():
    text = '# import a\nx = \'import b\'\n"""\nfrom c import d\n"""\n'
    assert document("a.py", text).links == ()
    assert (
        document("a.js", "// require('./a')\nconst x = \"require('./b')\";\n").links
        == ()
    )


def test_links_are_bounded():
    text = "".join(f"import m{number}\n" for number in range(5000))
    assert len(document("a.py", text).links) == 2000


# Parents

METHODS = "".join(
    f"    def m{number}(self):\n        {'x = 1; ' * 40}\n\n" for number in range(10)
)
FILLER = "".join(
    f"def f{number}():\n    {'y = 2; ' * 60}\n\n\n" for number in range(10)
)


def shown(made: Document, name: str) -> str:
    """What is shown around the chunk that defines this."""
    (chunk,) = [chunk for chunk in made.chunks if name in chunk.names]
    return made.parents[chunk.parent].content


@pytest.mark.rows("R002-157", "R002-166")
def test_the_parent_is_the_class_where_it_fits():
    """For code the parent is the enclosing class or the outline."""
    small = f"class Small:\n{METHODS}"[:1500].rsplit("\n", 2)[0]
    made = document(
        "src/a.py", f"{FILLER}{small}\n\n\n{FILLER.replace('f', 'g')}", parents=True
    )
    assert shown(made, "Small.m1") == small.rstrip()
    parent = next(each for each in made.parents if each.header_path == "Small")
    first = FILLER.count("\n") + 1
    assert (parent.start_line, parent.end_line) == (
        first,
        first + small.rstrip().count("\n"),
    )


def test_the_parent_is_the_outline_of_a_large_class():
    made = document("src/a.py", f"{FILLER}class Large(Base):\n{METHODS}", parents=True)
    assert shown(made, "Large.m7") == "class Large(Base)\n" + "\n".join(
        f"  def m{n}(self)" for n in range(10)
    )
    parent = next(each for each in made.parents if each.header_path == "Large")
    lines = FILLER.count("\n")
    assert (parent.start_line, parent.end_line) == (
        lines + 1,
        lines + 1 + METHODS.rstrip().count("\n") + 1,
    )


def test_the_parent_is_the_outline_of_the_file_outside_of_classes():
    made = document("src/a.py", FILLER, parents=True)
    assert shown(made, "f3") == "\n".join(f"def f{number}()" for number in range(10))
    assert {each.header_path for each in made.parents} == {"a.py"}
    assert (made.parents[0].start_line, made.parents[0].end_line) == (
        1,
        FILLER.count("\n"),
    )


def test_a_small_file_is_shown_whole_and_a_long_function_too():
    made = document("a.py", CLASS, parents=True)
    assert [parent.content for parent in made.parents] == [CLASS.strip()]
    long = "def long():\n" + "    x = 1\n" * 150
    made = document("a.py", f"{FILLER}{long}", parents=True)
    pieces = [chunk for chunk in made.chunks if chunk.header_path == "long"]
    assert len(pieces) > 2
    assert {made.parents[chunk.parent].content for chunk in pieces} == {long.rstrip()}


@pytest.mark.rows("R002-161", "R002-162", "R002-166")
def test_children_are_small_and_every_definition_has_a_parent():
    """Two levels, the reference stored."""
    made = document(
        "src/a.py",
        f"{FILLER}class Large(Base):\n{METHODS}\nX = 1\nprint(X)\n",
        parents=True,
    )
    for chunk in made.chunks:
        if chunk.chunk_type == "symbols":
            assert chunk.parent is None
        else:
            assert len(chunk.content) <= 600
            assert len(made.parents[chunk.parent].content) <= 2000
    assert {chunk.parent for chunk in made.chunks} - {None} == set(
        range(len(made.parents))
    )


def test_code_that_defines_nothing_has_windows_for_parents():
    text = "".join(f"print({number})\n" for number in range(1000))
    made = document("a.py", text, parents=True)
    assert len(made.parents) > 3
    for chunk in made.chunks:
        assert chunk.content in made.parents[chunk.parent].content


def test_an_outline_around_a_passage_shows_the_passage():
    """The outline of a file may be longer than a parent: then it is the page that names the passage."""
    many = "".join(
        f"def function_{number}():\n    {'y = 2; ' * 60}\n\n\n" for number in range(300)
    )
    made = document("a.py", many, parents=True)
    for number in range(300):
        assert f"def function_{number}()" in shown(made, f"function_{number}").split(
            "\n"
        )
    members = "    " + many.replace("\n", "\n    ")
    made = document("a.py", f"class A:\n{members}", parents=True)
    for number in range(300):
        assert f"  def function_{number}()" in shown(
            made, f"A.function_{number}"
        ).split("\n")


@pytest.mark.parametrize(
    "code", ["app.two = function (a) {", "const two = (a) => {", "function two(a) {"]
)
def test_a_documentation_comment_may_stand_a_line_apart(code):
    text = f"let x = 1;\n\n/**\n * Says two.\n */\n\n{code}\n  return a;\n}};\n"
    found = [symbol for symbol in symbols(text, "javascript") if symbol.name == "two"]
    assert [text[symbol.start :].startswith("/**") for symbol in found] == [True]
