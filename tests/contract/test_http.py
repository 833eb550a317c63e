"""The HTTP API: the same answers as every door, the law, strict arguments, tags, guards."""

import gzip
import json
import os
import threading
import time
from contextlib import closing
from urllib.parse import quote

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mcp import Client

from support.corpora import write_files
from support.packages import not_installed
from support.served import FILES, state_of
from support.sites import API, Site, site_of, site_over
from tamis.corpus import Corpus
from tamis.errors import TamisError
from tamis.server.http import application
from tamis.server.mcp import make_server
from tamis.server.run import Agents, problem
from tamis.server.schema import OPERATIONS, openapi

HIDDEN = {"archive/old.md"}
SHOWN = {
    path for path in FILES if path not in {*HIDDEN, "tamis.toml", ".graphragignore"}
}
FILTERS = [
    {},
    {"excluded_files": ["refunds.md"]},
    {"exclude_patterns": ["docs/**"]},
    {"include_patterns": ["docs/**", "archive/"]},
    {"workspace": "api"},
    {"under": ["src"]},
    {"tags": ["money"]},
    {"languages": ["python", "go"]},
    {"author": "bob"},
    {"category": "policy"},
    {"modified_after": "2026-03"},
    {"modified_before": "2025"},
    {"exclude_archived": False},
    {"filter": "tag:money -author:ann"},
    {"filter": "nothing"},
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    site = site_of(tmp_path_factory.mktemp("http") / "shop")
    yield site
    site.close()


# --- Searching ------------------------------------------------------------------------------


def told(found):
    """An answer without what differs from one time to the next."""
    apart = {"timings_ms", "freshness", "next_cursor", "funnel"}
    index = {
        name: value for name, value in found["index"].items() if name != "built_at"
    }
    return {name: value for name, value in found.items() if name not in apart} | {
        "index": index
    }


@pytest.mark.parametrize(
    "question",
    [
        {"query": "grass"},
        {"query": "refund_order", "limit": 3, "explain": True},
        {"query": "billing tag:money", "unique": True},
        {
            "query": "grass",
            "excluded_files": ["README.md"],
            "exclude_archived": False,
            "limit": 20,
        },
        {"query": "grass", "include_graph_context": True, "max_hops": 2},
        {
            "query": "refund",
            "workspace": "api",
            "under": ["docs"],
            "filter": "-tag:draft",
        },
        {
            "query": "refund",
            "use_rrf": False,
            "rerank_with_recency": False,
            "mmr": True,
        },
        {"query": "grass", "quick": True, "max_chunks_per_doc": 1},
        {"query": "zebra", "min_score": 0.9, "why_not": "README.md"},
    ],
    ids=str,
)
def test_the_answer_is_that_of_python(question, shop):
    """The contract of the design, word for word; by body and by address. Other doors: test_mcp_tools."""
    root = shop.state.folders[0].path
    with Corpus(root, root / ".tamis", shop.state.folders[0].settings) as corpus:
        expected = json.loads(json.dumps(corpus.search(**question).to_dict()))
    # A hint is the same, in the words of its door.
    hints = [hint.replace("--min-score ", "min_score=") for hint in expected["hints"]]
    expected["hints"] = hints
    by_body = shop.post("/search", question)
    flags = {
        name: str(v).lower() if isinstance(v, bool) else v
        for name, v in question.items()
    }
    by_address = shop.get("/search", **flags)
    assert told(by_body) == told(by_address) == told(expected)
    if question.get("explain"):
        for found in (by_body, by_address):
            assert [s["left"] for s in found["funnel"]] == [
                s["left"] for s in expected["funnel"]
            ]


def test_quick_asks_no_model(tmp_path, monkeypatch):
    """It is the answer of an index that is searched without the meaning lane, and loads nothing."""
    site, other = (
        site_of(tmp_path / "a"),
        site_of(tmp_path / "b", search__semantic_weight=0.0),
    )
    with monkeypatch.context() as patch:
        loaded = []
        patch.setattr("tamis.models.embedders.load_embedder", loaded.append)
        quick = site.get("/search", q="grass refund", quick=True)
        assert loaded == []
    plain = other.get("/search", q="grass refund")
    assert [r["chunk_id"] for r in quick["results"]] == [
        r["chunk_id"] for r in plain["results"]
    ]
    assert [r["score"] for r in quick["results"]] == [
        r["score"] for r in plain["results"]
    ]
    assert not {e["lane"] for r in quick["results"] for e in r["evidence"]} & {
        "meaning"
    }
    assert {
        e["lane"]
        for r in site.get("/search", q="grass")["results"]
        for e in r["evidence"]
    } >= {"meaning"}
    site.close()
    other.close()


def test_pages_are_parts_of_one_answer(shop):
    whole = shop.get("/search", q="grass", limit=20)
    assert "next_cursor" not in whole
    shown, cursor = [], {}
    while True:
        page = shop.get("/search", q="grass", limit=2, **cursor)
        shown += page["results"]
        if "next_cursor" not in page:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert shown == whole["results"]
    assert (
        "another question"
        in shop.fault("/search", 400, params={"q": "hay", **cursor})["detail"]
    )


def test_marks(shop):
    for result in shop.get("/search", q="refunds take days", marks=True, limit=20)[
        "results"
    ]:
        content, marks = result["content"], result["marks"]
        words = {content[start:end].lower() for start, end in marks["words"]}
        assert words <= {"refund", "refunds", "take", "takes", "days"}
        if result["path"] == "docs/refunds.md":
            start, end = marks["sentence"]
            assert content[start:end] == "A refund of grass takes three days."
    assert "marks" not in shop.get("/search", q="refunds")["results"][0]
    money = shop.get("/search", q="refund tag:money", marks=True)["results"][
        0
    ]  # a filter is no word
    assert {
        money["content"][start:end].lower() for start, end in money["marks"]["words"]
    } <= {
        "refund",
        "refunds",
    }


# --- The law --------------------------------------------------------------------------------


@pytest.mark.parametrize("narrowing", FILTERS, ids=str)
def test_counts_and_lists_are_those_of_an_index_of_the_rest(narrowing, shop, tmp_path):
    """Facets, documents and links under a filter: an independent count over the files that are left."""
    kept = {each["path"] for each in shop.get("/documents", **narrowing)["documents"]}
    apart = {"tamis.toml", ".graphragignore"}
    root = write_files(
        tmp_path / "shop", {path: FILES[path] for path in FILES if path in kept | apart}
    )
    for file in kept:
        times = os.stat(shop.state.folders[0].path / file)
        os.utime(root / file, ns=(times.st_atime_ns, times.st_mtime_ns))
    other = site_over(root)
    one, two = (
        shop.get("/facets", **narrowing),
        other.get("/facets", exclude_archived=False),
    )
    if not any(
        name in narrowing for name in ("languages", "tags")
    ):  # these let parts of documents through
        assert (one["documents"], one["chunks"]) == (two["documents"], two["chunks"])
        assert one["facets"] == two["facets"]
    assert one["documents"] == len(kept)
    for path in sorted(kept):
        here = shop.get(f"/documents/{path}", **narrowing)
        there = other.get(f"/documents/{path}", exclude_archived=False)
        assert (here["links"], here["backlinks"]) == (
            there["links"],
            there["backlinks"],
        )
        picture = shop.get("/graph", around=path, **narrowing)
        assert picture == other.get("/graph", around=path, exclude_archived=False)
    other.close()


def test_counts_by_hand(shop):
    counts = shop.get("/facets")["facets"]
    assert counts["tags"] == [
        {"value": "money", "documents": 2},
        {"value": "draft", "documents": 1},
    ]
    assert counts["folders"] == [
        {"value": "docs", "documents": 2},
        {"value": "src", "documents": 2},
    ]
    assert counts["workspaces"] == [{"value": "api", "documents": 1}]
    assert {"value": "2025", "documents": 1} in counts["years"]
    assert {each["value"] for each in counts["authors"]} == {"Ann", "Bob"}
    assert {each["value"]: each["documents"] for each in counts["languages"]} == {
        "python": 1,
        "go": 1,
    }
    types = {each["value"]: each["documents"] for each in counts["types"]}
    assert types["documentation"] == 3
    below = shop.get("/facets", under="docs")
    assert below["facets"]["folders"] == [{"value": "docs/api", "documents": 1}]
    assert shop.get("/facets", q="anything tag:draft")["documents"] == 1


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.sets(st.sampled_from(sorted(SHOWN | HIDDEN))),
    st.sampled_from(["", "grass", "refund tag:money"]),
)
def test_excluding_counts_as_never_having_been_there(shop, excluded, query):
    """Against a plain count over what the index says of every document."""
    everything = shop.get("/documents", exclude_archived=False)["documents"]
    left = [each for each in everything if each["path"] not in excluded]
    left = (
        [each for each in left if "money" in each["tags"]]
        if "tag:money" in query
        else left
    )
    found = shop.get(
        "/facets", q=query, exclude_archived=False, excluded_files=sorted(excluded)
    )
    assert found["documents"] == len(left)
    tags = sorted({tag for each in left for tag in each["tags"]})
    expected = {tag: sum(tag in each["tags"] for each in left) for tag in tags}
    assert {
        each["value"]: each["documents"] for each in found["facets"]["tags"]
    } == expected


# --- Documents ------------------------------------------------------------------------------


def test_a_document(shop):
    found = shop.get("/documents/docs/api/billing.md", html=True)
    assert found["title"] == "Billing"
    assert found["text"].startswith("# Billing")
    assert found["start_line"] == 7
    assert [(h["level"], h["name"], h["line"]) for h in found["outline"]] == [
        (1, "Billing", 7), (2, "Invoices", 11),
    ]  # fmt: skip
    assert found["backlinks"] == [
        {"path": "docs/refunds.md", "type": "markdown", "anchor": ""}
    ]
    assert (found["author"], found["tags"], found["category"]) == (
        "Bob",
        ["money"],
        "guide",
    )
    assert '<h2 data-line="11">Invoices</h2>' in found["html"]
    linked = shop.get("/documents/docs/refunds.md", html=True)
    assert (
        '<a href="/?doc=docs/api/billing.md" rel="noopener noreferrer">billing</a>'
        in linked["html"]
    )
    assert linked["links"] == [
        {"path": "docs/api/billing.md", "type": "markdown", "anchor": ""}
    ]


def test_code_is_a_document_too(shop):
    found = shop.get("/documents/src/refund.py", html=True)
    assert found["text"] == FILES["src/refund.py"].rstrip("\n")
    assert "html" not in found
    assert [each["name"] for each in found["outline"]] == ["refund_order"]
    assert found["language"] == "python"


def test_a_passage(shop):
    result = shop.get("/search", q="invoices are sent by mail", limit=1)["results"][0]
    read = shop.get(f"/passages/{quote(result['chunk_id'])}")
    assert (read["path"], read["content"]) == (result["path"], result["content"])
    more = shop.get(f"/passages/{quote(result['chunk_id'])}", neighbours=3)
    assert len(more["content"]) >= len(read["content"])


def test_the_graph_goes_as_far_as_asked(shop):
    near, far = (shop.get("/graph", around="README.md", hops=hops) for hops in (1, 2))
    assert {node["path"] for node in near["nodes"]} == {"README.md", "docs/refunds.md"}
    assert {node["path"] for node in far["nodes"]} == {
        "README.md",
        "docs/refunds.md",
        "docs/api/billing.md",
    }
    without = shop.get(
        "/graph", around="README.md", hops=3, excluded_files=["docs/refunds.md"]
    )
    assert [node["path"] for node in without["nodes"]] == ["README.md"]


@pytest.mark.parametrize(
    "path",
    ["nothing.md", "../other/README.md", "/etc/passwd", "%2Fetc%2Fpasswd", "..%2F..%2Fetc%2Fpasswd",
     "docs/%2e%2e/%2e%2e/etc/passwd", "tamis.toml", "docs", "%FF", "%00"],
)  # fmt: skip
def test_no_path_leaves_the_root(path, shop):
    for where in (
        f"/documents/{path}",
        f"/passages/{path}%230",
        f"/graph?around={path}",
    ):
        said = shop.request("GET", where)
        assert said.status_code in (400, 404), said.text
        assert "root:" not in said.text and "workspaces]" not in said.text


# --- Tags, packing --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/search?q=grass", "/documents", "/documents/README.md", "/facets", "/graph?around=README.md",
             "/passages/README.md%230"],
)  # fmt: skip
def test_what_has_not_changed_is_not_sent_again(path, tmp_path):
    site = site_of(tmp_path / "r")
    settle(site)
    tag = site.request("GET", path).headers["etag"]
    again = site.request("GET", path, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert (
        site.request("GET", path, headers={"If-None-Match": 'W/"other"'}).status_code
        == 200
    )
    generation = site.get("/search", q="grass")["index"]["generation"]
    write_files(tmp_path / "r", {"new.md": "grass is new"})
    until(lambda: site.get("/search", q="grass")["index"]["generation"] > generation)
    settle(site)
    assert site.request("GET", path, headers={"If-None-Match": tag}).status_code == 200
    site.close()


def settle(site):
    until(lambda: site.get("/status")["freshness"]["complete"])


def until(look, patience=60.0):
    end = time.monotonic() + patience
    while not (seen := look()) and time.monotonic() < end:
        time.sleep(0.05)
    assert seen
    return seen


def test_answers_are_packed_for_who_can_unpack(shop):
    with shop.client.stream(
        "GET", f"{API}/openapi.json", headers={"Accept-Encoding": "gzip"}
    ) as packed:
        assert packed.headers["content-encoding"] == "gzip"
        raw = b"".join(packed.iter_raw())
    plain = shop.request(
        "GET", "/openapi.json", headers={"Accept-Encoding": "identity"}
    )
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(raw) == plain.content
    assert len(raw) < len(plain.content) / 3


# --- What is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "query is missing"),
        ("q=", "the query is empty"),
        ("q=tag:x", "nothing to search for"),
        ("q=x&limt=3", "did you mean limit?"),
        ("q=x&limit=0", "a whole number from 1 to 100"),
        ("q=x&limit=five", "a whole number from 1 to 100"),
        ("q=x&limit=1e2", "a whole number from 1 to 100"),
        (f"q=x&limit={'9' * 5000}", "a whole number"),
        ("q=x&limit=3&limit=4", "limit is given twice"),
        ("q=x&query=y", "query is given twice"),
        ("q=x&min_score=2", "a number from 0 to 1"),
        ("q=x&min_score=nan", "a number from 0 to 1"),
        ("q=x&explain=yes", "true or false"),
        ("q=x&chunk_types=symbol", "symbols"),
        ("q=x&modified_after=yesterday", "2026-05-01"),
        ("q=x&under=/etc", "outside"),
        ("q=x&filter=tga:x", "tag"),
        ("q=x&cursor=zzz", "no cursor of ours"),
        ("q=x&root=shop", "has no argument 'root'"),
        ("q=%00%FF", ""),
    ],
)
def test_a_wrong_argument_is_a_problem_that_says_what_is_allowed(query, said, shop):
    if not said:
        assert shop.request("GET", f"/search?{query}").status_code == 200
        return
    told = shop.fault(f"/search?{query}", 400)
    assert said in f"{told['detail']} {told.get('hint')}"
    assert told["hint"]


@pytest.mark.parametrize(
    ("body", "type", "status"),
    [
        (b"{", "application/json", 400),
        (b"[1]", "application/json", 400),
        (b'{"query": "x", "nonsense": 1}', "application/json", 400),
        (b'{"query": 5}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"query": "x"}', "text/plain", 415),
        (b'{"query": "x"}', "application/x-www-form-urlencoded", 415),
        (b'{"query": "' + b"x" * 1_000_001 + b'"}', "application/json", 413),
    ],
)
def test_a_wrong_body(body, type, status, shop):
    shop.fault("/search", status, "POST", content=body, headers={"Content-Type": type})


def test_arguments_stand_in_one_place(shop):
    assert (
        "in the body"
        in shop.fault("/search?q=y", 400, "POST", json={"query": "x"})["detail"]
    )


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
def test_a_wrong_method(method, shop):
    shop.fault("/search", 405, method)
    shop.fault("/nothing", 404, method)


def test_what_takes_no_arguments_takes_none(shop):
    for operation in OPERATIONS:
        if (
            operation.method == "GET"
            and not operation.arguments
            and not operation.in_path
        ):
            assert (
                "takes no arguments" in shop.fault(f"{operation.path}?x=1", 400)["hint"]
            )


def test_a_call_that_takes_too_long(tmp_path):
    site = site_of(tmp_path / "r", server__deadline=0.1)
    released = threading.Event()
    site.state.roots.search = lambda *_: released.wait(600)
    assert "no answer within 0.1 s" in site.fault("/search?q=x", 504)["detail"]
    released.set()
    site.close()


def test_a_fault_says_no_more_than_that(tmp_path, caplog):
    site = site_of(tmp_path / "r")
    site.state.roots.search = lambda *_: 1 / 0
    assert "secret" not in str(site.fault("/search?q=secret", 500))
    assert "ZeroDivisionError" in caplog.text
    assert "secret" not in caplog.text
    site.close()


def test_what_needs_a_package_that_is_not_installed_says_which(tmp_path, monkeypatch):
    monkeypatch.setattr("tamis.models.encoder.distribution", not_installed)
    with closing(site_of(tmp_path / "shop")) as site:
        assert "tamis[rerank]" in site.fault("/search?q=grass&rerank=true", 501)["hint"]


def test_every_fault_has_a_title():
    def below(kind):
        return {kind, *(each for own in kind.__subclasses__() for each in below(own))}

    for fault in below(TamisError):
        assert problem(fault.http_status, "what")["title"], fault


# --- Who may ask ----------------------------------------------------------------------------

TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7171", "127.0.0.1.evil.example", "", "[::2]"]
)
@pytest.mark.parametrize("path", [f"{API}/health", f"{API}/search?q=x", "/", "/mcp"])
def test_another_host_is_refused(host, path, shop):
    """DNS rebinding: a page's own name, that leads to this machine."""
    assert shop.client.get(path, headers={"Host": host}).status_code == 403


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://127.0.0.1",
        "null",
        "http://127.0.0.1:8000",
        "file://",
        "x",
    ],
)
def test_pages_of_other_sites_are_refused(origin, shop):
    for method, path in (
        ("GET", "/search?q=x"),
        ("POST", "/search"),
        ("POST", "/refresh"),
    ):
        assert shop.request(method, path, headers={"Origin": origin}).status_code == 403
    assert (
        shop.request(
            "GET", "/search?q=grass", headers={"Sec-Fetch-Site": "cross-site"}
        ).status_code
        == 403
    )


def test_the_page_itself_may_ask(shop):
    for host in ("127.0.0.1:7171", "localhost:7171", "[::1]:7171"):
        headers = {
            "Host": host,
            "Origin": f"http://{host}",
            "Sec-Fetch-Site": "same-origin",
        }
        assert (
            shop.request("GET", "/search?q=grass", headers=headers).status_code == 200
        )
    assert "access-control-allow-origin" not in shop.request("GET", "/health").headers


def test_another_name_of_this_machine(tmp_path):
    site = Site(state_of(tmp_path / "r"), names=("search.example",))
    assert (
        site.request("GET", "/health", headers={"Host": "search.example"}).status_code
        == 200
    )
    site.close()


@pytest.fixture
def guarded(tmp_path):
    site = Site(state_of(tmp_path / "shop"), TOKEN)
    yield site
    site.close()


def test_without_the_token_nothing_is_told(guarded):
    for operation in OPERATIONS:
        path = operation.path.replace("{path}", "README.md").replace(
            "{chunk_id}", "README.md%230"
        )
        said = guarded.request(operation.method, path)
        assert (said.status_code == 401) == (
            operation.name not in {"health", "openapi", "sign_in", "sign_out"}
        )
        if said.status_code == 401:
            assert said.headers["content-type"] == "application/problem+json"
            assert "grass" not in said.text
    assert guarded.client.post("/mcp", json={}).status_code == 401


@pytest.mark.parametrize(
    "wrong",
    ["", "Bearer ", "Bearer wrong", f"bearer {TOKEN}", f"Bearer {TOKEN}x", TOKEN],
)
def test_a_wrong_token(wrong, guarded):
    assert (
        guarded.request("GET", "/status", headers={"Authorization": wrong}).status_code
        == 401
    )


def test_the_token_in_a_header(guarded):
    how = {"headers": {"Authorization": f"Bearer {TOKEN}"}}
    assert guarded.request("GET", "/search?q=grass", **how).json()["results"]


def test_the_token_for_a_cookie(guarded):
    assert (
        guarded.request("POST", "/session", json={"token": "wrong"}).status_code == 401
    )
    said = guarded.request("POST", "/session", json={"token": TOKEN})
    cookie = said.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert (
        guarded.request("GET", "/search?q=grass").status_code == 200
    )  # the client keeps cookies
    other = {"headers": {"Origin": "http://evil.example"}}
    assert (
        guarded.request("POST", "/search", json={"query": "x"}, **other).status_code
        == 403
    )
    guarded.request("DELETE", "/session")
    assert guarded.request("GET", "/search?q=grass").status_code == 401
    guarded.client.cookies.set("tamis", "0" * 64)
    assert guarded.request("GET", "/search?q=grass").status_code == 401


def test_every_answer_has_the_policy(shop):
    for path in (
        "/",
        f"{API}/health",
        f"{API}/search?q=grass",
        f"{API}/nothing",
        "/style.css",
    ):
        headers = shop.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "frame-ancestors 'none'" in policy


# --- Beside the API -------------------------------------------------------------------------


def test_agents_are_served_from_the_same_roots(tmp_path):
    site = site_of(tmp_path / "shop")

    async def ask():
        async with Client(make_server(site.state)) as client:
            return (
                await client.call_tool("query_documents", {"query": "grass"})
            ).structured_content

    assert [r["chunk_id"] for r in anyio.run(ask)["results"]] == [
        r["chunk_id"] for r in site.get("/search", q="grass")["results"]
    ]
    site.close()


def test_several_roots(tmp_path):
    write_files(tmp_path / "one", FILES)
    write_files(
        tmp_path / "two", {"c.md": "grass and hay [d](d.md)", "d.md": "# D\n\ngrass"}
    )
    site = site_over(tmp_path / "one", tmp_path / "two")
    found = site.get("/search", q="grass", limit=50, explain=True)
    assert {each["root"] for each in found["results"]} == {"one", "two"}
    scores = [each["score"] for each in found["results"]]
    assert scores == sorted(scores, reverse=True)
    assert found["index"]["documents"] == len(SHOWN | HIDDEN) + 2
    alone = site.get("/search", q="grass", root="two")
    assert {each["path"] for each in alone["results"]} == {"c.md", "d.md"}
    assert site.get("/facets")["documents"] == len(SHOWN) + 2
    assert (
        site.get("/documents/c.md", html=True)["html"].count(
            'href="/?doc=d.md&amp;root=two"'
        )
        == 1
    )
    assert site.get("/graph", around="c.md")["root"] == "two"
    assert len(site.get("/status")["roots"]) == 2
    assert "one of one, two" in site.fault("/search?q=x&root=three", 400)["hint"]
    site.close()


def test_events_tell_of_a_new_generation(tmp_path):
    site = site_of(tmp_path / "r")
    settle(site)
    heard = []

    def listen():
        with site.client.stream("GET", f"{API}/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    heard.append(json.loads(line[6:])[0])

    listener = threading.Thread(target=listen)
    listener.start()
    until(lambda: len(heard) >= 0)
    before = site.get("/status")["now"][0]["generation"]
    write_files(tmp_path / "r", {"new.md": "grass is new"})
    until(lambda: site.get("/search", q="grass")["index"]["generation"] > before)
    site.api.ending.set()
    listener.join(30)
    assert not listener.is_alive(), "a stream ends when the server does"
    site.close()


def test_the_document_describes_the_api(shop):
    document = shop.get("/openapi.json")
    assert document == openapi(shop.api.operations, secured=False)
    assert document["openapi"] == "3.1.0"
    schemas = document["components"]["schemas"]
    for path, schema in (
        (
            "/search?q=grass&explain=1&why_not=README.md&include_graph_context=1&marks=1",
            "Found",
        ),
        ("/documents?limit=1", "Documents"),
        ("/documents/README.md?html=1", "Document"),
        ("/passages/README.md%230", "Excerpt"),
        ("/facets", "Facets"),
        ("/graph?around=README.md", "Graph"),
        ("/status", "Status"),
        ("/health", "Health"),
    ):
        whole = {
            "$ref": f"#/components/schemas/{schema}",
            "components": {"schemas": schemas},
        }
        Draft202012Validator(whole).validate(shop.request("GET", path).json())


def test_a_token_is_in_the_document_where_there_is_one(guarded):
    document = guarded.request("GET", "/openapi.json").json()
    assert document["paths"][f"{API}/search"]["get"]["security"]
    assert "security" not in document["paths"][f"{API}/health"]["get"]
    assert application(guarded.api, Agents(guarded.state), ())
