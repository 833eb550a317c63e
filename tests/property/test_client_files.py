"""Changing one value in somebody else's file: the rest stays, byte for byte."""

import json
import tomllib

from hypothesis import assume, given
from hypothesis import strategies as st

from tamis.clients import jsonc, toml

PLACE = ("mcpServers", "tamis")
ENTRY = {
    "command": "/opt/tämis/bin/tamis",
    "args": ["mcp", "--root", '/a "b" \\ {c}, // d'],
}
OTHER = {"command": "tamis", "args": ["mcp"]}

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

    return draw(st.sampled_from(["", "\ufeff"])) + gap() + put(document) + gap()


texts = documents.flatmap(
    lambda document: st.tuples(st.just(document), written(document))
)
laid_out = documents.flatmap(
    lambda document: st.tuples(
        st.just(document),
        st.sampled_from([None, 2, "\t"]).map(
            lambda indent: json.dumps(document, indent=indent)
        ),
    )
)


def is_within(small, large):
    """Whether the large text is the small one with insertions."""
    rest = iter(large)
    return all(each in rest for each in small)


@given(texts | laid_out)
def test_an_entry_is_put_in_and_nothing_else_changes(case):
    document, text = case
    assert jsonc.read(text) == document
    changed = jsonc.put(text, PLACE, ENTRY)
    expected = document | {
        "mcpServers": document.get("mcpServers", {}) | {"tamis": ENTRY}
    }
    assert jsonc.read(changed) == expected
    assert is_within(text, changed), "only insertions"
    assert comments_of(changed) == comments_of(text)
    assert jsonc.put(changed, PLACE, ENTRY) == changed, "the second run changes nothing"


def comments_of(text):
    return [
        match[0]
        for match in jsonc._STRINGS_AND_COMMENTS.finditer(text)
        if match[0][0] == "/"
    ]


@given(texts | laid_out)
def test_an_entry_is_taken_out_again(case):
    document, text = case
    back = jsonc.remove(jsonc.put(text, PLACE, ENTRY), PLACE)
    expected = {k: v for k, v in document.items() if (k, v) != ("mcpServers", {})}
    got = jsonc.read(back)
    assert {k: v for k, v in got.items() if (k, v) != ("mcpServers", {})} == expected
    assert comments_of(back) == comments_of(text)
    assert jsonc.remove(back, PLACE) == back
    if document and document.get("mcpServers") != {}:
        assert back == text, "where something else was there, not a byte differs"


@given(texts | laid_out)
def test_removing_what_is_not_there_changes_nothing(case):
    assert jsonc.remove(case[1], PLACE) == case[1]


@given(texts | laid_out, st.data())
def test_any_member_can_be_replaced_or_removed(case, data):
    document, text = case
    assume(document)
    key = data.draw(st.sampled_from(sorted(document)))
    assert jsonc.read(jsonc.put(text, (key,), OTHER)) == document | {key: OTHER}
    removed = jsonc.remove(text, (key,))
    assert jsonc.read(removed) == {k: v for k, v in document.items() if k != key}
    assert is_within(removed, text), "only deletions"


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
    changed = toml.put(text, "mcp_servers", "tamis", ENTRY)
    expected = document | {
        "mcp_servers": document.get("mcp_servers", {}) | {"tamis": ENTRY}
    }
    assert tomllib.loads(changed) == expected
    assert changed.startswith(text)
    assert toml.put(changed, "mcp_servers", "tamis", ENTRY) == changed
    back = toml.remove(changed, "mcp_servers", "tamis")
    assert back == text or (
        not text.endswith("\n") and back.removesuffix("\n").removesuffix("\r") == text
    )
