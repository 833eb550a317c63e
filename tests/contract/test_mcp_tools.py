"""The tools of the MCP door: every parameter does what it says, and nothing else is accepted."""

import json
import os
import time
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.corpora import write_files
from support.served import (
    FILES,
    answer,
    call,
    fault,
    ids,
    paths,
    state_of,
    state_over,
    text,
)
from support.sites import Site
from tamis.cli.main import cli
from tamis.corpus import Corpus, index_directory
from tamis.request import ARGUMENTS
from tamis.server.schema import TOOLS

QUERY_TOOLS = ("query_documents", "query_unique_documents", "graphrag_hybrid_search")
HIDDEN = {"archive/old.md"}
SHOWN = {
    path for path in FILES if path not in {*HIDDEN, "tamis.toml", ".graphragignore"}
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    state = state_of(tmp_path_factory.mktemp("served") / "shop")
    yield state
    state.close()


def found(state, tool, **arguments):
    return set(
        paths(answer(state, tool, query="grass refund billing", limit=50, **arguments))
    )


# --- Filters: the same in all three ---------------------------------------------------------

EFFECTS = {
    "excluded_files": (["refunds.md"], SHOWN - {"docs/refunds.md"}),
    "exclude_patterns": (["docs/**"], {"README.md", "src/refund.py", "src/refund.go"}),
    "include_patterns": (
        ["docs/**", "archive/"],
        {"docs/refunds.md", "docs/api/billing.md", "archive/old.md"},
    ),
    "workspace": ("API", {"docs/api/billing.md"}),
    "under": (["src"], {"src/refund.py", "src/refund.go"}),
    "tags": (["money", "draft"], {"docs/refunds.md"}),
    "chunk_types": (["symbols", "definitions"], {"src/refund.py", "src/refund.go"}),
    "languages": (["python"], {"src/refund.py"}),
    "author": ("bob", {"docs/api/billing.md"}),
    "category": ("policy", {"docs/refunds.md"}),
    "modified_after": ("2026-03", None),
    "modified_before": ("2025", {"docs/api/billing.md"}),
    "exclude_archived": (False, SHOWN | HIDDEN),
    "min_score": (1.0, set()),
    "filter": ("tag:money -author:ann", {"docs/api/billing.md"}),
}


def test_every_filter_has_its_effect_below():
    narrowing = {each.name for each in ARGUMENTS if each.narrows}
    assert set(EFFECTS) == {*narrowing, "min_score"}


@pytest.mark.rows(
    "R000-001", "R000-009", "R000-059", "R000-067", "R001-050", "R001-051", "R001-064"
)
@pytest.mark.parametrize("name", EFFECTS)
@pytest.mark.parametrize("tool", QUERY_TOOLS)
def test_a_filter_does_what_it_says(tool, name, shop):
    """The same in all three tools."""
    value, expected = EFFECTS[name]
    everything = found(shop, tool)
    assert everything == SHOWN
    left = found(shop, tool, **{name: value})
    assert left == (
        everything - {"docs/api/billing.md"} if expected is None else expected
    )


@pytest.mark.rows("R000-005", "R000-007", "R000-027")
@pytest.mark.parametrize(
    "form", ["refunds.md", "docs/refunds.md", "docs/refunds", "ABSOLUTE"]
)
@pytest.mark.parametrize("tool", QUERY_TOOLS[:2])
def test_a_file_is_excluded_in_all_its_forms(tool, form, shop):
    """Names, relative and absolute paths, with and without an extension."""
    given = (
        str(shop.folders[0].path / "docs/refunds.md") if form == "ABSOLUTE" else form
    )
    assert found(shop, tool, excluded_files=[given]) == SHOWN - {"docs/refunds.md"}


@pytest.mark.rows("R000-004", "R000-008", "R000-028")
@pytest.mark.parametrize("nothing", [[], None])
@pytest.mark.parametrize(
    "name", ["excluded_files", "exclude_patterns", "include_patterns", "under", "tags"]
)
def test_nothing_given_is_no_filter(name, nothing, shop):
    """Omitted, null and an empty list are the same."""
    plain = answer(shop, query="grass", limit=20)
    given = answer(shop, query="grass", limit=20, **{name: nothing})
    assert given["results"] == plain["results"]


@pytest.mark.rows("R000-002", "R000-006", "R000-029", "R000-031", "R000-077")
def test_excluding_equals_never_having_indexed(tmp_path, shop):
    """Scores and order too, through the protocol."""
    without = {
        path: content for path, content in FILES.items() if path != "docs/refunds.md"
    }
    other = state_of(tmp_path / "shop", without)
    for tool in QUERY_TOOLS:
        one = answer(
            shop,
            tool,
            query="grass refund",
            limit=9,
            excluded_files=["docs/refunds.md"],
        )
        two = answer(other, tool, query="grass refund", limit=9)
        strip = [
            [{k: v for k, v in r.items() if k != "modified"} for r in each["results"]]
            for each in (one, two)
        ]
        assert strip[0] == strip[1]
    other.close()


# --- The other parameters -------------------------------------------------------------------


def test_limit(shop):
    for most in (1, 3):
        assert len(answer(shop, query="grass", limit=most)["results"]) == most
    assert len(answer(shop, query="grass")["results"]) == 5


@pytest.mark.rows("X4", "X6")
@pytest.mark.parametrize("tool", QUERY_TOOLS)
@pytest.mark.parametrize(
    ("other", "value"), [("top_n", 2), ("min_confidence", 1.0), ("threshold", 1.0)]
)
def test_other_names_are_taken(tool, other, value, shop):
    assert len(answer(shop, tool, query="grass", **{other: value})["results"]) == (
        2 if other == "top_n" else 0
    )


@pytest.mark.rows("C15")
def test_one_passage_per_document(tmp_path):
    """Many passages of one document, and one."""
    sections = "\n".join(
        f"## Part {n}\n\ngrass grows here, kind {n} " + "word " * 60 for n in range(6)
    )
    state = state_of(
        tmp_path / "r", {"a.md": f"# A\n\n{sections}", "b.md": "# B\n\ngrass"}
    )
    assert len(answer(state, query="grass", limit=20)["results"]) > 2
    assert sorted(
        paths(answer(state, "query_unique_documents", query="grass", limit=20))
    ) == ["a.md", "b.md"]
    state.close()


@pytest.mark.rows("R002-092")
def test_one_tool_finds_documents_and_code(shop):
    """A name leads to its definition, a question to the document; nobody has to choose."""
    assert paths(answer(shop, query="refund_order"))[0] == "src/refund.py"
    assert (
        paths(answer(shop, query="how long does a refund take"))[0] == "docs/refunds.md"
    )


@pytest.mark.rows("R001-030")
def test_a_lane_that_is_off_is_not_missed(tmp_path):
    """Without words, the others answer."""
    state = state_of(tmp_path / "r", search__keyword_weight=0.0)
    assert hybrid(state)["results"]
    state.close()


def hybrid(state, **arguments):
    return answer(state, "graphrag_hybrid_search", query="refund of grass", **arguments)


@pytest.mark.rows("R001-028", "R001-031")
def test_graph_context(shop):
    """What the hits are linked with, and how; or not."""
    linked = hybrid(shop)["graph_context"]
    assert {"docs/refunds.md", "docs/api/billing.md"} <= {
        each["path"] for each in linked
    }
    assert "graph_context" not in hybrid(shop, include_graph_context=False)
    assert "linked: docs/refunds.md" in text(
        shop, "graphrag_hybrid_search", query="refund of grass"
    )


@pytest.mark.rows("C31")
def test_hops(tmp_path):
    """Two by default here, and one for the plain tools."""
    chain = {f"{n}.md": f"# {n}\n\nsee [next]({n + 1}.md)\n" for n in range(4)} | {
        "start.md": "zebra [a](0.md)\n"
    }
    state = state_of(tmp_path / "r", chain, search__semantic_weight=0.0)
    for hops, reached in ((0, 0), (1, 1), (2, 2), (3, 3)):
        shown = answer(state, "graphrag_hybrid_search", query="zebra", max_hops=hops)
        assert len(paths(shown)) == 1 + reached
        assert len(shown["graph_context"]) >= reached
    assert len(answer(state, "graphrag_hybrid_search", query="zebra")["results"]) == 3
    assert len(answer(state, query="zebra")["results"]) == 2
    state.close()


@pytest.mark.rows("R001-032", "C30")
def test_without_fusion_the_order_is_that_of_the_meaning_lane(tmp_path):
    """No words, no code, no links, and none of the boosts that a fused list gets."""
    files = FILES | {
        f"n{n}.md": f"# Note {n}\n\nrefund_order {'grass ' * n} and more text\n"
        for n in range(8)
    }
    root = write_files(tmp_path / "r", files)
    state = state_over(root)
    arguments = {
        "query": "refund_order grass",
        "limit": 30,
        "rerank_with_recency": False,
    }
    alone = answer(state, "graphrag_hybrid_search", use_rrf=False, **arguments)
    fused = answer(state, "graphrag_hybrid_search", **arguments)
    assert ids(alone["results"]) != ids(fused["results"])
    with Corpus(
        root,
        index_directory(root, state.folders[0].settings, None),
        state.folders[0].settings,
    ) as corpus:
        results = corpus.search("refund_order grass", limit=30, use_rrf=False).results
    assert [result.chunk_id for result in results] == ids(alone["results"])
    assert {evidence.lane for result in results for evidence in result.evidence} == {
        "meaning"
    }
    cosines = [result.evidence[0].score for result in results]
    assert cosines == sorted(cosines, reverse=True)
    state.close()


def test_without_fusion_a_model_is_needed(tmp_path):
    state = state_of(tmp_path / "r", model__name="none")
    assert "use a model" in fault(
        state, "graphrag_hybrid_search", {"query": "grass", "use_rrf": False}
    )
    state.close()


@pytest.mark.rows("R001-034", "R001-040..043")
def test_recency(tmp_path):
    """Of equals the younger one, in the tool that asks for it."""
    today, old = time.strftime("%Y-%m-%d"), "2019-01-01"
    page = "---\nmodified: {}\n---\n# {}\n\nzebra stripes\n"
    state = state_of(
        tmp_path / "r", {"a.md": page.format(old, "A"), "b.md": page.format(today, "B")}
    )
    assert paths(answer(state, "graphrag_hybrid_search", query="zebra")) == [
        "b.md",
        "a.md",
    ]
    off = answer(
        state, "graphrag_hybrid_search", query="zebra", rerank_with_recency=False
    )
    assert paths(off) == paths(answer(state, query="zebra")) == ["a.md", "b.md"]
    state.close()


def test_a_configured_profile_is_kept(tmp_path):
    page = "---\nmodified: 2019-01-01\n---\n# A\n\nzebra\n"
    for profile, factor in (("docs", None), ("off", 0.5)):
        root = write_files(tmp_path / profile, {"a.md": page})
        state = state_over(root, search__recency_profile=profile)
        answer(state, query="zebra")
        with Corpus(root, root / ".tamis", state.folders[0].settings) as corpus:
            boosts = corpus.search("zebra", rerank_with_recency=True).results[0].boosts
            assert boosts.get("recency") == factor
            assert (
                "recency"
                not in corpus.search("zebra", rerank_with_recency=False)
                .results[0]
                .boosts
            )
        state.close()


# --- Size -----------------------------------------------------------------------------------

LONG = {
    f"{n}.md": f"---\ntags: [a, b]\n---\n# Page {n}\n\n"
    + f'grass is green, says "page" {n}.\n' * (3 * n + 1)
    for n in range(12)
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    state = state_of(tmp_path_factory.mktemp("served") / "pages", LONG)
    yield state
    state.close()


@pytest.mark.parametrize("most", [200, 300, 500, 1000, 3000, 20_000])
@pytest.mark.parametrize("tool", QUERY_TOOLS)
def test_an_answer_keeps_its_budget(tool, most, pages):
    """Both forms; and as many results are shown as fit with something of their text."""
    result = call(pages, tool, {"query": "grass", "limit": 12, "max_tokens": most})
    told = result.structured_content
    assert told["results"]
    assert len(json.dumps(told, ensure_ascii=False)) <= most * 4
    assert len(result.content[0].text) <= most * 4
    assert all(each["content"] for each in told["results"])
    if len(told["results"]) < 12 or any(each.get("cut") for each in told["results"]):
        assert told.get("next_cursor") or any(
            "get_passage" in hint for hint in told["hints"]
        )
    if most == 20_000:
        assert not any(each.get("cut") for each in told["results"])


def test_the_configured_size_is_the_usual_one(tmp_path):
    small = state_of(tmp_path / "r", LONG, server__max_tokens=300)
    assert len(json.dumps(answer(small, query="grass", limit=12))) < 1200
    small.close()


def test_a_larger_budget_cuts_less(pages):
    sizes = [
        sum(
            len(each["content"])
            for each in answer(pages, query="grass", limit=8, max_tokens=most)[
                "results"
            ]
        )
        for most in (400, 1500, 6000)
    ]
    assert sizes == sorted(sizes) and len(set(sizes)) == 3


# --- Cursors --------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 4])
@pytest.mark.parametrize("tool", QUERY_TOOLS)
def test_pages_are_parts_of_one_answer(tool, step, pages):
    whole = answer(pages, tool, query="grass", limit=100, max_tokens=50_000)["results"]
    shown, cursor = [], None
    while True:
        page = answer(
            pages, tool, query="grass", limit=step, max_tokens=50_000, cursor=cursor
        )
        shown += page["results"]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    assert shown == whole
    assert len(whole) > 8


def test_what_did_not_fit_comes_next(pages):
    first = answer(pages, query="grass", limit=6, max_tokens=300)
    assert len(first["results"]) < 6
    rest = answer(
        pages, query="grass", limit=6, max_tokens=5000, cursor=first["next_cursor"]
    )
    whole = answer(pages, query="grass", limit=12, max_tokens=50_000)["results"]
    both = ids([*first["results"], *rest["results"]])
    assert both == ids(whole)[: len(both)]


def test_a_cursor_belongs_to_its_question(pages):
    cursor = answer(pages, query="grass", limit=1)["next_cursor"]
    for other in ({"query": "green"}, {"query": "grass", "tags": ["a"]}):
        assert "another question" in fault(
            pages, "query_documents", other | {"cursor": cursor}
        )
    assert "another question" in fault(
        pages, "query_unique_documents", {"query": "grass", "cursor": cursor}
    )
    for wrong in ("", "x", "WzFd", cursor[:-3], "é", "A" * 10_000):
        assert "cursor" in fault(
            pages, "query_documents", {"query": "grass", "cursor": wrong}
        )


def test_a_cursor_knows_that_the_index_has_changed(tmp_path):
    state = state_of(tmp_path / "r", LONG)
    cursor = answer(state, query="grass", limit=1)["next_cursor"]
    assert not any(
        "changed" in hint
        for hint in answer(state, query="grass", limit=1, cursor=cursor)["hints"]
    )
    write_files(tmp_path / "r", {"new.md": "grass"})
    hints = until(lambda: answer(state, query="grass", limit=1, cursor=cursor)["hints"])
    assert any("the index has changed" in hint for hint in hints)
    state.close()


def until(look, patience=30.0):
    """The first thing that is there: indexing goes on in the background."""
    end = time.monotonic() + patience
    while not (seen := look()) and time.monotonic() < end:
        time.sleep(0.1)
    return seen


# --- Reading --------------------------------------------------------------------------------


def test_a_passage_by_its_id(shop):
    result = answer(shop, query="invoices are sent by mail", limit=1)["results"][0]
    read = answer(shop, "get_passage", chunk_id=result["chunk_id"])
    assert (read["path"], read["content"]) == (result["path"], result["content"])
    assert (read["start_line"], read["end_line"]) == (
        result["start_line"],
        result["end_line"],
    )
    assert read["header_path"] == result["header_path"]


PARTS = "# Book\n\n" + "\n".join(
    f"## Part {n}\n\n" + f"Line of part {n}, about it.\n" * 12 for n in range(9)
)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    root = tmp_path_factory.mktemp("served") / "book"
    state = state_of(
        root,
        {
            "book.md": PARTS,
            "same/a.md": "one",
            "other/a.md": "two",
            "b#1.md": "# odd\n\nname",
        },
    )
    answer(state, query="part")
    yield state
    state.close()


def test_neighbours(book):
    middle = answer(book, query="part 4", limit=1)["results"][0]["chunk_id"]
    sizes = [
        len(answer(book, "get_passage", chunk_id=middle, neighbours=n)["content"])
        for n in (0, 1, 2, 20)
    ]
    assert sizes == sorted(sizes) and len(set(sizes)) == 4
    whole = answer(book, "get_passage", chunk_id=middle, neighbours=20)
    assert whole["content"] == PARTS.rstrip("\n")
    assert "hints" not in whole


def test_lines(book):
    lines = PARTS.split("\n")
    for first, last in ((1, 1), (3, 9), (20, 30)):
        read = answer(
            book, "get_passage", path="book.md", start_line=first, end_line=last
        )
        assert read["content"].split("\n") == lines[first - 1 : last]
        assert (read["start_line"], read["end_line"], read["next_line"]) == (
            first,
            last,
            last + 1,
        )
    assert (
        answer(book, "get_passage", path="book.md", start_line=100)["content"].split(
            "\n"
        )
        == lines[99:-1]
    )
    assert answer(book, "get_passage", path="./book.md", end_line=10_000)[
        "content"
    ] == PARTS.rstrip("\n")


def test_a_long_passage_is_cut_and_says_where_to_go_on(book):
    shown, line = [], 1
    while line:
        read = answer(
            book, "get_passage", path="book.md", start_line=line, max_tokens=200
        )
        assert len(read["content"]) <= 800
        shown.append(read["content"])
        line = read.get("next_line")
    assert "\n".join(shown) == PARTS.rstrip("\n")
    assert "raise max_tokens" in text(
        book, "get_passage", path="book.md", max_tokens=200
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "give chunk_id, or path"),
        ({"chunk_id": "book.md#1", "path": "book.md"}, "not both"),
        ({"chunk_id": "book.md#1", "start_line": 1}, "its own lines"),
        ({"path": "book.md", "neighbours": 1}, "give chunk_id"),
        ({"path": "book.md", "start_line": 5, "end_line": 4}, "before start_line"),
        ({"path": "book.md", "start_line": 5000}, "start_line from 1 to"),
        ({"path": "bok.md"}, "did you mean book.md"),
        ({"path": "a.md"}, "one of other/a.md, same/a.md"),
        ({"path": "../../etc/passwd"}, "no document"),
        ({"path": "/etc/passwd"}, "no document"),
        ({"chunk_id": "book.md"}, "no chunk_id"),
        ({"chunk_id": "book.md#99"}, "search again"),
        ({"chunk_id": "book.md#parent-0"}, "search again"),
        ({"chunk_id": "book.md#x"}, "search again"),
        ({"chunk_id": "book.md#-1"}, "search again"),
    ],
)
def test_what_cannot_be_read_says_why(arguments, said, book):
    assert said in fault(book, "get_passage", arguments)


def test_a_name_with_a_sharp(book):
    assert answer(book, "get_passage", chunk_id="b#1.md#0")["content"].endswith("name")


def test_a_section_is_read_by_its_id(tmp_path):
    state = state_of(tmp_path / "r", {"book.md": PARTS}, chunking__parents=True)
    result = answer(state, query="part 4", limit=1)["results"][0]
    assert "#parent-" in result["chunk_id"]
    assert answer(state, "get_passage", chunk_id=result["chunk_id"])[
        "content"
    ].startswith(result["content"][:50])
    state.close()


def test_a_notebook_is_read_as_its_cells(tmp_path):
    cell = {"metadata": {}, "cell_type": "markdown"}
    cells = [cell | {"source": [f"# Cell {n}\n", "zebra " * 60]} for n in range(4)]
    state = state_of(
        tmp_path / "r",
        {"a.ipynb": json.dumps({"cells": cells, "metadata": {}}, indent=1)},
    )
    result = answer(state, query="cell 2", limit=1)["results"][0]
    read = answer(state, "get_passage", chunk_id=result["chunk_id"], neighbours=20)
    assert '"cell_type"' not in read["content"]
    assert all(f"# Cell {n}" in read["content"] for n in range(4))
    lines = answer(
        state,
        "get_passage",
        path="a.ipynb",
        start_line=result["start_line"],
        end_line=result["end_line"],
    )
    assert "# Cell" in lines["content"]
    assert "nothing to read" in fault(
        state, "get_passage", {"path": "a.ipynb", "start_line": 9999}
    )
    state.close()


def test_a_link_out_of_the_root_is_not_followed(tmp_path):
    """The file was a file when it was indexed; a link in its place, or above it, is not opened."""
    secret = write_files(
        tmp_path / "outside", {"s.md": "the secret zebra", "a.md": "the secret zebra"}
    )
    root = tmp_path / "r"
    state = state_of(
        root, {"a.md": "grass", "deep/a.md": "grass too"}, server__budget_ms=0
    )
    with_index = answer(state, query="grass")
    assert len(with_index["results"]) == 2
    (root / "a.md").unlink()
    os.symlink(secret / "s.md", root / "a.md")
    (root / "deep/a.md").unlink()
    (root / "deep").rmdir()
    os.symlink(secret, root / "deep")
    for path in ("a.md", "deep/a.md"):
        for arguments in ({"path": path}, {"chunk_id": f"{path}#0", "neighbours": 1}):
            result = call(state, "get_passage", arguments)
            assert "zebra" not in result.model_dump_json()
    state.close()


def test_the_state_of_the_index(tmp_path):
    files = FILES | {"b.bin": b"\0\1\2" * 100, "node_modules/x.js": "1"}
    state = state_of(tmp_path / "shop", files)
    until(lambda: answer(state, "index_status")["freshness"]["complete"])
    status = answer(state, "index_status")
    (root,) = status["roots"]
    assert root["documents"] == len(SHOWN | HIDDEN)
    assert root["chunks"] >= root["documents"]
    assert root["model"] == "hashing"
    assert root["workspaces"] == ["api"]
    assert root["skipped"]["ignored"] >= 1
    assert root["path"] == str((tmp_path / "shop").resolve())
    assert 0 <= root["age_seconds"] < 600
    assert status["freshness"]["pending_files"] == root["pending_files"] == 0
    said = text(state, "index_status")
    assert (
        f"{root['documents']} documents" in said
        and "workspaces: api" in said
        and "ignored" in said
    )
    state.close()


# --- Strictness -----------------------------------------------------------------------------

WRONG = [
    ({}, "query is missing"),
    ({"query": None}, "query is missing"),
    ({"query": 5}, "query is 5\nhint: it must be a text"),
    ({"query": ""}, "the query is empty"),
    ({"query": "   "}, "the query is empty"),
    ({"query": "x" * 20_001}, "at most 20,000"),
    ({"query": "tag:x"}, "nothing to search for"),
    ({"query": "x", "exclude_files": ["a"]}, "did you mean excluded_files?"),
    ({"query": "x", "nonsense": 1}, "allowed: query, limit"),
    ({"query": "x", "limit": 0}, "a whole number from 1 to 100"),
    ({"query": "x", "limit": 101}, "a whole number from 1 to 100"),
    ({"query": "x", "limit": "5"}, "a whole number from 1 to 100"),
    ({"query": "x", "limit": True}, "a whole number from 1 to 100"),
    ({"query": "x", "limit": 2.5}, "a whole number from 1 to 100"),
    ({"query": "x", "limit": 10**500}, "limit is a huge number"),
    ({"query": "x", "limit": [5]}, "a whole number from 1 to 100"),
    (
        {"query": "x", "limit": 5, "top_n": 5},
        "limit is given twice, as limit and as top_n",
    ),
    ({"query": "x", "filter": "nonsense:x"}, ", is"),
    ({"query": "x", "max_tokens": 199}, "from 200 to 100000"),
    ({"query": "x", "min_score": -0.1}, "a number from 0 to 1"),
    ({"query": "x", "min_score": "0.5"}, "a number from 0 to 1"),
    ({"query": "x", "min_score": 1.5}, "a number from 0 to 1"),
    ({"query": "x", "exclude_archived": "false"}, "true or false"),
    ({"query": "x", "exclude_archived": 0}, "true or false"),
    ({"query": "x", "excluded_files": [1]}, "a list of texts"),
    ({"query": "x", "excluded_files": {"a": 1}}, "a list of texts"),
    ({"query": "x", "excluded_files": ["a", ["b"]]}, "a list of texts"),
    ({"query": "x", "excluded_files": [""]}, "names no file"),
    ({"query": "x", "workspace": "apo"}, "api"),
    ({"query": "x", "workspace": ["api"]}, "it must be a text"),
    ({"query": "x", "chunk_types": ["symbol"]}, "symbols"),
    ({"query": "x", "languages": ["pyhton"]}, "python"),
    ({"query": "x", "modified_after": "yesterday"}, "2026-05-01"),
    ({"query": "x", "modified_after": 2026}, "it must be a text"),
    ({"query": "x", "under": ["/etc"]}, "outside"),
    ({"query": "x", "filter": "path:("}, "hint:"),
    ({"query": "x", "filter": "tga:x"}, "tag"),
    ({"query": "x", "cursor": 1}, "it must be a text"),
    ({"query": "x", "root": "shop"}, "has no argument 'root'"),
]


@pytest.mark.parametrize(
    ("arguments", "said"), WRONG, ids=[str(each)[:60] for each, _ in WRONG]
)
@pytest.mark.parametrize("tool", QUERY_TOOLS)
def test_what_is_wrong_is_an_error_that_says_what_is_allowed(
    tool, arguments, said, shop
):
    told = fault(shop, tool, arguments)
    assert said in told
    assert told.startswith("error: ")
    assert len(told) < 3000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"max_hops": 4}, "from 0 to 3"),
        ({"max_hops": -1}, "from 0 to 3"),
        ({"use_rrf": "yes"}, "true or false"),
        ({"rerank_with_recency": 1}, "true or false"),
        ({"include_graph_context": []}, "true or false"),
    ],
)
def test_what_only_the_hybrid_search_takes(arguments, said, shop):
    assert said in fault(shop, "graphrag_hybrid_search", {"query": "x"} | arguments)
    assert "has no argument" in fault(
        shop, "query_documents", {"query": "x"} | arguments
    )


def test_the_state_takes_nothing(shop):
    assert "takes no arguments" in fault(shop, "index_status", {"query": "x"})


@pytest.mark.parametrize(
    "value", ["refunds.md", ["refunds.md"], '["refunds.md"]', ' [ "refunds.md" ] ']
)
def test_one_text_and_a_list_written_as_text_are_taken_for_lists(value, shop):
    assert found(shop, "query_documents", excluded_files=value) == SHOWN - {
        "docs/refunds.md"
    }


def test_a_pattern_may_begin_with_a_bracket(shop):
    assert found(shop, "query_documents", exclude_patterns="[R]EADME.md") == SHOWN - {
        "README.md"
    }


def test_a_whole_number_may_be_written_with_a_point(shop):
    assert len(answer(shop, query="grass", limit=2.0)["results"]) == 2


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = sorted({each.name for tool in TOOLS for each in tool.arguments})


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sampled_from([tool.name for tool in TOOLS]),
    st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=12), JUNK, max_size=5),
)
def test_whatever_is_sent_is_answered(shop, tool, arguments):
    """With an object, or with an error that says something; benchmarks/mcp_fuzz.py does more of this."""
    result = call(shop, tool, arguments)
    assert result.content[0].text
    assert result.is_error == (result.structured_content is None)
    assert "Traceback" not in result.content[0].text
    assert "a fault in tamis itself" not in result.content[0].text


# --- One question, one answer, whichever door -----------------------------------------------

QUESTIONS = [
    {"query": "grass"},
    {"query": "refund_order", "limit": 3},
    {"query": "billing tag:money"},
    {
        "query": "grass",
        "excluded_files": ["README.md"],
        "exclude_archived": False,
        "limit": 20,
    },
    {"query": "grass", "include_patterns": ["docs/"], "modified_after": "2026"},
    {
        "query": "grass",
        "chunk_types": ["symbols", "definitions"],
        "languages": ["python", "go"],
    },
    {"query": "refund", "workspace": "api", "under": ["docs"], "filter": "-tag:draft"},
    {"query": "zebra", "min_score": 0.9},
]
FLAGS = {
    "limit": "--limit", "excluded_files": "--exclude-file", "include_patterns": "--include",
    "modified_after": "--after", "chunk_types": "--type", "languages": "--lang", "workspace": "--workspace",
    "under": "--under", "filter": "--filter", "min_score": "--min-score",
}  # fmt: skip


def on_the_command_line(question, root):
    words = [
        "search",
        question["query"],
        str(root),
        "--json",
        "-q",
        "--model",
        "hashing",
    ]
    for name, value in question.items():
        if name == "exclude_archived":
            words.append("--archived")
        elif name != "query":
            for one in value if isinstance(value, list) else [value]:
                words += [FLAGS[name], str(one)]
    return words


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_every_door_gives_the_same_answer(question, shop, capsys, monkeypatch):
    monkeypatch.setenv(
        "TAMIS_SEARCH_NGRAM_DEDUP_ENABLED", "false"
    )  # as the tests' settings have it
    told = answer(shop, max_tokens=50_000, **question)["results"]
    root = shop.folders[0].path
    with Corpus(root, root / ".tamis", shop.folders[0].settings) as corpus:
        found = [result.to_dict() for result in corpus.search(**question).results]
    cli.main(args=on_the_command_line(question, root), standalone_mode=False)
    printed = json.loads(capsys.readouterr().out)["results"]
    site = Site(shop)
    posted = site.post("/search", question)["results"]
    site.client.close()
    assert posted == found
    assert ids(found) == ids(printed) == ids(told)
    for one, two, three in zip(found, printed, told, strict=True):
        assert one["score"] == two["score"] == pytest.approx(three["score"], abs=1e-4)
        for name in set(three) - {"score"}:
            assert one[name] == two[name] == three[name], name


# --- Several roots --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    write_files(folder / "one/notes", FILES)
    write_files(
        folder / "two/notes",
        {
            "tamis.toml": '[workspaces]\nlab = ["lab"]\n',
            "lab/b.md": "# Zebra\n\nzebra grass",
            "c.md": "grass and hay",
        },
    )
    state = state_over(folder / "one/notes", folder / "two/notes")
    yield state
    state.close()


def test_several_roots_are_asked_as_one(both):
    told = answer(both, query="grass", limit=50, max_tokens=50_000)["results"]
    assert {each["root"] for each in told} == {"notes", "notes-2"}
    assert [each["score"] for each in told] == sorted(
        (each["score"] for each in told), reverse=True
    )
    for root in ("notes", "notes-2"):
        alone = answer(both, query="grass", limit=50, max_tokens=50_000, root=root)[
            "results"
        ]
        assert alone == [each for each in told if each["root"] == root]
    assert text(both, query="zebra", limit=1).startswith("notes-2:lab/b.md:1-3")


def test_pages_over_several_roots(both):
    whole = answer(both, query="grass", limit=50, max_tokens=50_000)["results"]
    first = answer(both, query="grass", limit=3, max_tokens=50_000)
    rest = answer(
        both, query="grass", limit=50, max_tokens=50_000, cursor=first["next_cursor"]
    )
    assert first["results"] + rest["results"] == whole


def test_a_workspace_of_one_root_is_enough(both):
    assert {
        each["root"] for each in answer(both, query="grass", workspace="lab")["results"]
    } == {"notes-2"}
    assert {
        each["root"]
        for each in answer(both, query="grass", filter="workspace:api")["results"]
    } == {"notes"}
    assert "known: api, lab" in fault(
        both, "query_documents", {"query": "grass", "workspace": "x"}
    )
    assert "no workspace" in fault(
        both, "query_documents", {"query": "x", "workspace": "lab", "root": "notes"}
    )


def test_a_root_must_be_one_of_them(both):
    assert "one of notes, notes-2" in fault(
        both, "query_documents", {"query": "x", "root": "other"}
    )


def test_reading_over_several_roots(both):
    read = answer(both, "get_passage", path="lab/b.md")
    assert (read["root"], read["content"]) == ("notes-2", "# Zebra\n\nzebra grass")
    assert "no document" in fault(
        both, "get_passage", {"path": "lab/b.md", "root": "notes"}
    )
    assert [each["root"] for each in answer(both, "index_status")["roots"]] == [
        "notes",
        "notes-2",
    ]
    assert len(answer(both, "index_status", root="notes")["roots"]) == 1


def test_hints_are_true_of_all_roots_together(tmp_path):
    """What one root says of itself is no word on the answer of all."""
    write_files(
        tmp_path / "a",
        {
            "todo.md": "---\ntags: [to do]\n---\n# Queue\n\nA queue keeps jobs in order.\n"
        },
    )
    write_files(tmp_path / "b", {"lamp.md": "# Lamp\n\nA lamp glows.\n"})
    with closing(state_over(tmp_path / "a", tmp_path / "b")) as state:

        def hints(**asked):
            return answer(state, **asked)["hints"]

        [unsure] = hints(query="queue", root="b")
        assert "nothing here is likely" in unsure
        assert hints(query="queue", limit=1) == []
        assert (
            sum("nothing here is likely" in hint for hint in hints(query="zebra")) == 1
        )

        assert "no document has the tag to do" in hints(
            query="queue", tags=["to do"], root="b"
        )
        assert hints(query="queue", tags=["to do"]) == []
        nowhere = [
            "the filter lets no document through",
            "no document has the tag gone",
        ]
        assert hints(query="queue", tags=["gone"]) == nowhere

        (tmp_path / "b" / "lamp.md").unlink()
        assert (
            "the index is empty"
            in until(
                lambda: [h for h in hints(query="queue", root="b") if "empty" in h]
            )[0]
        )
        assert hints(query="queue")[0].startswith("b: the index is empty")
        assert hints(query="queue", tags=["gone"])[:2] == nowhere
