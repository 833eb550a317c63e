"""Configuration by its keys, tables and statements; hostile data in windows."""

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from support.chunks import SIZES, check_law
from tamis.ingest.code.data import parse_data
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.model import Chunk
from tamis.settings import ChunkingSettings
from tamis.text.languages import DATA_LANGUAGE

LAW = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=200,
)
EACH = ChunkingSettings(min_chars=0)  # nothing is joined


def chunks_of(path: str, text: str, sizes: ChunkingSettings = EACH) -> list[Chunk]:
    return list(parse_data(path, text, sizes).chunks)


def headers(path: str, text: str) -> list[str]:
    return [chunk.header_path for chunk in chunks_of(path, text)]


PACKAGE = json.dumps(
    {"name": "a", "scripts": {"build": "x", "name": "y"}, 'a "b"': [1, 2]}, indent=2
)


@pytest.mark.rows("R004-031", "X7")
@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        pytest.param("a.json", PACKAGE, ["name", "scripts", 'a \\"b\\"'], id="json"),
        pytest.param("a.json", '{\n\t"a": 1,\n\t"b": {\n\t\t"a": 2\n\t}\n}\n', ["a", "b"], id="tabs"),
        pytest.param("a.json", '{"a": 1, "b": 2}', [""], id="minified"),
        pytest.param("a.json", '[\n  {"a": 1},\n  {"a": 2}\n]', [""], id="a list"),
        pytest.param("a.json", '{\n"a": {\n"b": 1\n}}', [""], id="json that is not indented"),
        pytest.param("a.yml", "a: 1\nb:\n  c: 2\n'd e':\n  - f: 3\n", ["a", "b", "d e"], id="yaml"),
        pytest.param("a.yml", "# a\na: |\n  b: 1\n\n# c\nc: http://x:80\n", ["a", "c"], id="comments"),
        pytest.param("a.yml", "- a: 1\n- b: 2\n", [""], id="a yaml list"),
        pytest.param("a.toml", "a = 1\n[b]\nc = 2\n[[d.e]]\nf = 3\n", ["a", "b", "d.e"], id="toml"),
        pytest.param("a.toml", 'a = """\n[no]\n"""\n[b] # [c]\nx = "[d]"\n', ["a", "b"], id="toml strings"),
        pytest.param("a.ini", "; c\n[one]\na=1\n[two]\n", ["one", "two"], id="ini"),
        pytest.param("a.csv", "a,b\n1,2\n", [""], id="csv"),
    ],
)  # fmt: skip
def test_the_parts_of_data(path, text, expected):
    """`data` is configuration too, cut by what it is made of."""
    found = chunks_of(path, text)
    assert [chunk.header_path for chunk in found] == expected
    assert {(chunk.chunk_type, chunk.language) for chunk in found} == {
        ("data", DATA_LANGUAGE[path[1:]])
    }
    assert {chunk.names for chunk in found} == {()}


SQL = """\
-- Who there is.
CREATE TABLE IF NOT EXISTS "public".users (id int); -- not; here

create unique index by_name on users (name);
INSERT INTO users VALUES ('a;b', 'it''s;');
/* ; */ ALTER TABLE users ADD x int;
CREATE OR REPLACE FUNCTION f() RETURNS int AS $body$ BEGIN; SELECT 1; END $body$ LANGUAGE sql;
CREATE TRIGGER t AFTER INSERT ON users BEGIN
  UPDATE users SET x = CASE WHEN 1 THEN 2 END;
  IF y THEN DELETE FROM z; END IF;
END;
SELECT 1
"""


def test_sql_by_statements():
    found = chunks_of("a.sql", SQL)
    names = ["public.users", "by_name", "users", "users", "f", "t", ""]
    assert [chunk.header_path for chunk in found] == names
    defined = [("public.users",), ("by_name",), (), (), ("f",), ("t",), ()]
    assert [chunk.names for chunk in found] == defined
    assert found[0].content.startswith("-- Who there is.\nCREATE TABLE")
    assert found[5].content.endswith("END;")
    assert (found[5].start_line, found[5].end_line) == (8, 11)


def test_small_parts_share_a_chunk():
    (chunk,) = chunks_of(
        "a.sql",
        "CREATE TABLE a (x int);\nCREATE TABLE b (y int);\n",
        ChunkingSettings(),
    )
    assert (chunk.header_path, chunk.names) == ("a, b", ("a", "b"))
    text = "".join(f"key_{number}: value\n" for number in range(30))
    assert all(
        len(header) <= 100
        for header in (
            c.header_path for c in chunks_of("a.yml", text, ChunkingSettings())
        )
    )


def test_a_large_part_keeps_its_name():
    text = (
        "services:\n"
        + "".join(f"  service_{number}: {{image: x}}\n" for number in range(200))
        + "version: 3\n"
    )
    found = chunks_of("a.yml", text)
    assert len(found) > 4
    assert {chunk.header_path for chunk in found[:-1]} == {"services"}
    assert found[-1].header_path == "version"


@pytest.mark.rows("R002-157", "R002-166")
def test_data_has_parents_too():
    text = "".join(
        f"table_{number}:\n" + f"  column: {'x' * 60}\n" * 20 for number in range(5)
    )
    made, _ = parse(
        Source("a.yml", text, b"", 1, 0, 0, 0, 0), ChunkingSettings(parents=True)
    )
    assert [parent.header_path for parent in made.parents] == [
        f"table_{number}" for number in range(5)
    ]
    for chunk in made.chunks:
        assert len(chunk.content) <= 600
        assert chunk.content in made.parents[chunk.parent].content
        assert chunk.header_path == made.parents[chunk.parent].header_path


WORDS = st.sampled_from(
    ["{\n", '  "a": 1,\n', "}", "a: 1\n", "[t]\n", "a = 1\n", '"""', "'''", "$$", "$x$", ";", "--", "/*",
     "*/", "'", '"', "CREATE TABLE a", "CREATE FUNCTION f", " BEGIN ", " END ", " CASE ", "END IF;", "\n",
     "# c\n", "é\n", "  "]
)  # fmt: skip


@LAW
@given(
    st.text() | st.lists(WORDS, max_size=40).map("".join),
    st.sampled_from(sorted(DATA_LANGUAGE)),
    SIZES,
)
@example("a: 1\n# c\n" * 20, ".yml", EACH)
def test_the_law_for_any_text(text, suffix, sizes):
    check_law(text, chunks_of(f"a{suffix}", text, sizes), sizes)


@pytest.mark.parametrize("suffix", [".json", ".yml", ".toml", ".ini", ".sql"])
@pytest.mark.parametrize(
    "part",
    ['"', "'", '"""', "'''\n", "$$", "$a", "/*", "--\n", "[", "{\n", " ", "\n", "a: ", "a:\n", "\\",
     "CREATE ", ";", "CREATE TABLE a;", "CREATE FUNCTION f BEGIN ", "DEFINER=", "&a [*a,*a]\n", '{"a":',
     "# c\n", "a" * 50, "a . "],
)  # fmt: skip
def test_two_megabytes_of_anything(suffix, part):
    """A bomb is text like any other. What would be quadratic would not end."""
    text = (part * (2_000_000 // len(part)))[:2_000_000]
    chunks = parse_data(f"a{suffix}", text, ChunkingSettings()).chunks
    assert (
        sum(len(chunk.content) for chunk in chunks)
        >= len(text.strip()) - 5 * len(chunks)
        or not text.strip()
    )
