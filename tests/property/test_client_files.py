"""Changing one entry in somebody else's file: all other data stays."""

import json
import tomllib
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

from tamis.clients.install import edit_entry, parse

JSON, TOML = Path("mcp.json"), Path("config.toml")
ENTRY = {
    "command": "/opt/tämis/bin/tamis",
    "args": ["mcp", "--root", '/a "b" \\ {c}, // d'],
}

words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), max_size=6)
keys = (
    st.sampled_from(["a", "b", 'q"', "mcp", "//", "/*", "}", ",", "mcpServers"]) | words
)
leaves = st.none() | st.booleans() | st.integers(-9, 9) | words


def objects_of(inner):
    return st.dictionaries(keys, inner, max_size=3)


values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | objects_of(inner), max_leaves=6
)

servers = objects_of(objects_of(leaves)).map(
    lambda found: {k: v for k, v in found.items() if k != "tamis"}
)
documents = st.builds(
    lambda others, mine: {k: v for k, v in others.items() if k != "mcpServers"} | mine,
    objects_of(values),
    st.just({}) | servers.map(lambda found: {"mcpServers": found}),
)


@st.composite
def written(draw, document):
    """A value as somebody may have written it: any layout, comments anywhere, commas at the end."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    spaces = ["", " ", newline, f"{newline}\t", f"{newline}    "]
    comments = [
        f'// }} , "x"{newline}',
        "/* , } ] */",
        f"/* two{newline}lines */",
        f"  // x{newline}",
    ]
    gaps = st.lists(st.sampled_from([*spaces, *comments]), max_size=2).map("".join)

    def put(value):
        if isinstance(value, dict):
            items = [
                f"{gap()}{json.dumps(k)}{gap()}:{gap()}{put(v)}{gap()}"
                for k, v in value.items()
            ]
            return "{" + listed(items) + gap() + "}"
        if isinstance(value, list):
            return (
                "["
                + listed([gap() + put(each) + gap() for each in value])
                + gap()
                + "]"
            )
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    def gap():
        return draw(gaps)

    def listed(items):
        return ",".join(items) + ("," if items and draw(st.booleans()) else "")

    return gap() + put(document) + gap()


texts = documents.flatmap(
    lambda document: st.tuples(st.just(document), written(document))
)
indents = st.sampled_from([None, 2, 4, "\t"])


def put_json(text):
    return edit_entry(JSON, text, "mcpServers", "tamis", ENTRY)


def without_empty(document):
    return {k: v for k, v in document.items() if (k, v) != ("mcpServers", {})}


def with_entry(document):
    return document | {"mcpServers": document.get("mcpServers", {}) | {"tamis": ENTRY}}


@given(documents, indents)
def test_an_entry_is_put_in_and_taken_out_with_the_same_layout(document, indent):
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    changed = put_json(text)
    assert parse(JSON, changed) == with_entry(document)
    if document:
        expected = json.dumps(with_entry(document), indent=indent, ensure_ascii=False)
        assert changed == expected
    assert put_json(changed) == changed, "the second run changes nothing"
    back = edit_entry(JSON, changed, "mcpServers", "tamis", None)
    assert parse(JSON, back) == without_empty(document)
    if document and document.get("mcpServers") != {}:
        assert back == text, "where something else was there, not a byte differs"


@given(texts)
def test_comments_are_read_and_never_rewritten(case):
    document, text = case
    assert parse(JSON, text) == document
    changed = put_json(text)
    try:
        json.loads(text)
    except json.JSONDecodeError:
        assert changed is None
    else:
        assert parse(JSON, changed) == with_entry(document)


lines = st.sampled_from(
    [
        'model = "x" # why',
        "# a comment",
        "",
        "[tui]",
        "a.b = 1",
        "[mcp_servers.other]",
        'command = "other"  # keep',
        "args = [\n  'x', # first\n]",
        "[mcp_servers.other.env]",
        "[[list]]",
        "[mcp_servers]",
        "[profiles.tamis]",
    ]
)


@given(st.lists(lines, max_size=8), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_a_table_is_put_in_and_taken_out_again(parts, newline, ended):
    text = "\n".join(parts).replace("\n", newline) + newline * (ended and bool(parts))
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        assume(False)
    changed = edit_entry(TOML, text, "mcp_servers", "tamis", ENTRY)
    expected = document | {
        "mcp_servers": document.get("mcp_servers", {}) | {"tamis": ENTRY}
    }
    assert tomllib.loads(changed) == expected
    assert changed.startswith(text)
    back = edit_entry(TOML, changed, "mcp_servers", "tamis", None)
    if back is not None:
        assert back.strip() == text.strip()
