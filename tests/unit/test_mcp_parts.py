"""The parts of the MCP door that need no server: names of roots, cutting, addresses, cursors, merging."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import jsonrpc_message_adapter

from tamis.errors import UsageError
from tamis.live.corpus import Freshness
from tamis.live.folders import names_of
from tamis.live.roots import together
from tamis.request import said
from tamis.server.mcp import (
    document_address,
    document_path,
    is_blank,
    media_type,
    request_id,
)
from tamis.server.mcp_text import cut_to, fair_share, matching
from tamis.server.state import read_cursor


@given(st.lists(st.sampled_from(["a", "a-2", "a-3", "b", "b-2"]), max_size=8))
def test_no_two_roots_have_one_name(folders):
    paths = [Path(f"/{number}/{name}") for number, name in enumerate(folders)]
    names = names_of(paths)
    assert len(set(names)) == len(paths)
    assert all("/" not in name and name for name in names)
    for path, name in zip(paths, names, strict=True):
        assert name == path.name or name.startswith(f"{path.name}-")
    assert names_of([Path("/")]) == ["root"]


@given(st.text(max_size=300), st.integers(0, 300))
def test_a_text_is_cut_to_its_weight(text, weight):
    shown = cut_to(text, weight)
    whole = len(json.dumps(text, ensure_ascii=False)) <= weight
    assert (
        (shown == text)
        if whole
        else len(json.dumps(shown, ensure_ascii=False)) <= max(weight, 2)
    )
    assert text.startswith(shown.removesuffix("...").rstrip())


@given(st.lists(st.integers(0, 100), min_size=1), st.integers(0, 2000))
def test_what_short_ones_leave_the_long_ones_get(sizes, budget):
    share = fair_share(sizes, budget)
    assert sum(min(size, share) for size in sizes) <= budget or share == 0
    if share < max(sizes):  # not one character more would fit
        assert sum(min(size, share + 1) for size in sizes) > budget


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_an_address_leads_back(path):
    address = document_address(path)
    assert address.isascii()
    assert document_path(address) == path


def test_addresses_of_others():
    assert document_path("file:///etc/passwd") is None
    assert document_path("tamis://doc/a%FF.md") == "a\ufffd.md"
    assert [media_type(name) for name in ("a.MD", "a.json", "a.py", "a")] == [
        "text/markdown",
        "application/json",
        "text/plain",
        "text/plain",
    ]


@given(
    st.integers(0, 99),
    st.text("0123456789abcdef", max_size=16),
    st.lists(st.integers(0), max_size=3),
)
def test_a_cursor_leads_back(offset, question, generations):
    asked = {"query": question}
    cursor = read_cursor(None, asked).after(offset, tuple(generations))
    assert read_cursor(str(cursor), asked) == cursor


@given(st.text(max_size=40))
def test_whatever_else_is_no_cursor(text):
    with pytest.raises(UsageError):
        read_cursor(text, {"query": "grass"})


def test_completions_that_begin_so_come_first():
    assert matching(["xab", "abc", "b", "AB"], "ab") == ["abc", "AB", "xab"]
    assert matching(["b", "a"], "") == ["b", "a"]


@given(
    st.recursive(
        st.integers() | st.text() | st.floats() | st.none(), st.lists, max_leaves=20
    )
)
def test_a_wrong_value_is_repeated_briefly(value):
    assert 0 < len(said(value)) <= 80
    assert said(10**5000) == "a huge number"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"jsonrpc": "2.0", "id": 5, "params": {"x": "\\ud800"}}', 5),
        ('{"jsonrpc": "2.0", "id": "a", "method": 7}', "a"),
        ('{"jsonrpc": "2.0", "id": true, "method": 7}', None),
        ('{"jsonrpc": "2.0", "id": {"a": 1}, "method": 7}', None),
        ('{"jsonrpc": "2.0", "id": "\\ud800"}', None),
        ("[" * 100_000, None),
        ("null", None),
        ("", None),
    ],
)
def test_who_sent_a_line_that_is_no_message(line, expected):
    with pytest.raises(ValueError) as caught:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    assert request_id(caught.value) == expected
    assert is_blank(caught.value) == (line == "")


def test_freshness_of_several():
    whole = Freshness(True, 0, 1.0, "2026-01-02T00:00:00Z")
    other = Freshness(True, 0, 1.0, "2026-01-01T00:00:00Z")
    part = Freshness(False, 3, 0.5, None, "indexing")
    assert together([whole, other]) == other
    assert together([whole, part]) == part
    assert together([part, part]) == Freshness(False, 6, 0.5, None, "indexing")
