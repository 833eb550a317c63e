"""The MCP door as a client sees it, in both eras: lists, resources, prompts, progress, HTTP."""

import threading
import time

import anyio
import pytest
from jsonschema import Draft202012Validator
from mcp import MCPError
from mcp_types import INVALID_PARAMS, PromptReference, ResourceTemplateReference

from support.corpora import write_files
from support.served import (
    ERAS,
    FILES,
    HELLO,
    LOCAL,
    answer,
    call,
    post,
    state_of,
    state_over,
    with_client,
)
from tamis.errors import UsageError
from tamis.server.mcp import http_application, make_server
from tamis.server.run import (
    Address,
    check_token,
    in_time,
    read_address,
    with_names,
    with_token,
)
from tamis.server.schema import TOOLS, tools_for

MOST_BYTES = 6 * 1024


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    state = state_of(tmp_path_factory.mktemp("served") / "shop")
    answer(state, query="grass")
    yield state
    state.close()


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    write_files(folder / "one", FILES)
    state = state_over(
        folder / "one",
        write_files(folder / "two words", {"lab/Bäume & co.md": "trees"}),
    )
    answer(state, query="grass")
    yield state
    state.close()


def test_both_revisions_are_spoken(shop):
    async def version(client):
        return client.protocol_version

    assert [with_client(shop, version, mode) for mode in ERAS] == [
        "2026-07-28",
        "2025-11-25",
    ]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    names = [f"a project with a name of its own {number}" for number in range(12)]
    state = state_over(
        *(write_files(folder / name, {"a.md": "grass"}) for name in names),
        indexed=False,
    )
    yield state
    state.close()


# --- The list of tools ----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("which", ["shop", "both", "many"])
def test_the_list_of_tools_is_short(which, mode, request):
    """As it is sent: at most six kilobytes for five tools with what goes in and what comes out."""
    listed = with_client(
        request.getfixturevalue(which), lambda client: client.list_tools(), mode
    )
    assert (
        len(listed.model_dump_json(by_alias=True, exclude_none=True).encode())
        <= MOST_BYTES
    )
    assert [tool.name for tool in listed.tools] == [tool.name for tool in TOOLS]


@pytest.mark.rows("R000-027", "R001-050")
def test_tools_say_what_they_are(shop):
    """Read-only, idempotent, of a closed world; schemas refuse the unknown."""
    for tool in with_client(shop, lambda client: client.list_tools()).tools:
        assert tool.annotations.read_only_hint and tool.annotations.idempotent_hint
        assert tool.annotations.open_world_hint is False
        for schema in (tool.input_schema, tool.output_schema):
            Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        assert "root" not in tool.input_schema["properties"]
    hybrid = next(
        tool for tool in TOOLS if tool.name == "graphrag_hybrid_search"
    ).input_schema()["properties"]
    defaults = {
        name: hybrid[name]["default"] for name in hybrid if "default" in hybrid[name]
    }
    assert defaults == {
        "include_graph_context": True,
        "max_hops": 2,
        "use_rrf": True,
        "rerank_with_recency": True,
    }
    assert "include_patterns" in hybrid


def test_what_is_read_is_what_the_schema_allows(shop):
    """The schema and the strict reading come from one table; a validator of JSON Schema agrees with it."""
    samples = [
        "x",
        "",
        ["x"],
        [1],
        [],
        0,
        1,
        5,
        200,
        101,
        2.5,
        -1,
        0.5,
        True,
        False,
        {"a": 1},
    ]
    more_is_taken = {"texts": str}  # one text for a list of one
    for tool in TOOLS:
        for parameter in tool.arguments:
            validator = Draft202012Validator(parameter.schema())
            for value in samples:
                arguments = {"query": "x", "path": "README.md"}
                arguments = {
                    each: arguments[each]
                    for each in arguments
                    if each in tool.input_schema()["properties"]
                }
                told = (
                    call(shop, tool.name, arguments | {parameter.name: value})
                    .content[0]
                    .text
                )
                refused = told.startswith(
                    (f"error: {parameter.name} is ", "error: there is no chunk type")
                )
                if not validator.is_valid(value) and not parameter.is_brief:
                    assert refused or isinstance(
                        value, more_is_taken.get(parameter.kind, ())
                    ), (
                        parameter,
                        value,
                    )
                elif validator.is_valid(value) and not parameter.is_brief:
                    assert not refused, (parameter, value)


def test_with_several_roots_a_root_can_be_chosen(both):
    for tool in with_client(both, lambda client: client.list_tools()).tools:
        assert tool.input_schema["properties"]["root"]["type"] == "string"
    first = tools_for(both.names)["query_documents"].input_schema()["properties"][
        "root"
    ]
    assert first["enum"] == ["one", "two words"]


def test_of_many_roots_the_names_are_told_to_who_errs(many):
    told = (
        call(many, "query_documents", {"query": "grass", "root": "another"})
        .content[0]
        .text
    )
    assert "a project with a name of its own 11" in told


def test_results_hold_to_their_schema(shop):
    for tool, arguments in (
        ("query_documents", {"query": "grass"}),
        ("query_documents", {"query": "grass", "min_score": 1}),
        ("query_unique_documents", {"query": "grass"}),
        ("graphrag_hybrid_search", {"query": "grass"}),
        ("get_passage", {"path": "README.md"}),
        ("index_status", {}),
    ):
        Draft202012Validator(tools_for(shop.names)[tool].output).validate(
            answer(shop, tool, **arguments)
        )


def test_lists_may_be_cached(shop):
    async def hints(client):
        tools, resources = await client.list_tools(), await client.list_resources()
        return (tools.ttl_ms, tools.cache_scope), (
            resources.ttl_ms,
            resources.cache_scope,
        )

    (tools, scope), (resources, own) = with_client(shop, hints)
    assert (scope, own) == ("public", "private")
    assert tools >= 60_000 > resources


@pytest.mark.parametrize("mode", ERAS)
def test_an_unknown_tool(mode, shop):
    with pytest.raises(MCPError, match="known: query_documents"):
        call(shop, "query_document", {}, mode)


@pytest.mark.parametrize("mode", ERAS)
def test_text_comes_first_and_then_links(mode, shop):
    result = call(shop, "query_documents", {"query": "refund", "limit": 2}, mode)
    first, *links = result.content
    assert first.type == "text"
    for each in result.structured_content["results"]:
        place = f"{each['path']}:{each['start_line']}-{each['end_line']}  "
        assert place in first.text
        assert f"{each['score']:.2f}" in first.text
        assert each["content"] in first.text
    assert [link.uri for link in links] == [
        f"tamis://doc/{path}"
        for path in dict.fromkeys(
            each["path"] for each in result.structured_content["results"]
        )
    ]


# --- Resources ------------------------------------------------------------------------------


async def all_resources(client):
    shown, cursor = [], None
    while True:
        page = await client.list_resources(cursor=cursor)
        shown += page.resources
        cursor = page.next_cursor
        if cursor is None:
            return shown


@pytest.mark.parametrize("mode", ERAS)
def test_documents_are_resources(mode, shop):
    listed = with_client(shop, all_resources, mode)
    assert {each.name for each in listed} == set(FILES) - {
        "tamis.toml",
        ".graphragignore",
    }

    async def read(client):
        return {
            each.name: (await client.read_resource(each.uri)).contents[0]
            for each in listed
        }

    for name, contents in with_client(shop, read, mode).items():
        assert contents.text == FILES[name]
        assert contents.mime_type == (
            "text/markdown" if name.endswith(".md") else "text/plain"
        )


def test_resources_come_in_pages(tmp_path):
    state = state_of(
        tmp_path / "r", {f"{n:03}.md": f"grass {n}" for n in range(230)}, indexed=False
    )
    assert (
        with_client(state, all_resources) == []
    )  # nothing is indexed because a client connects
    assert not (tmp_path / "r/.tamis").exists()
    answer(state, query="grass")
    wait_for(state)
    assert [each.name for each in with_client(state, all_resources)] == [
        f"{n:03}.md" for n in range(230)
    ]
    first = with_client(state, lambda client: client.list_resources())
    assert len(first.resources) == 100
    with pytest.raises(MCPError, match="no cursor of ours"):
        with_client(state, lambda client: client.list_resources(cursor="nonsense"))
    state.close()


def wait_for(state, patience=60.0):
    end = time.monotonic() + patience
    while (
        not answer(state, "index_status")["freshness"]["complete"]
        and time.monotonic() < end
    ):
        time.sleep(0.1)


@pytest.mark.parametrize(
    "uri",
    [
        "tamis://doc/nothing.md",
        "tamis://doc/../shop/README.md",
        "tamis://doc//etc/passwd",
        "tamis://doc/%2Fetc%2Fpasswd",
        "tamis://doc/..%2F..%2Fetc%2Fpasswd",
        "tamis://doc/tamis.toml",
        "tamis://doc/docs",
        "tamis://doc/",
        "tamis://doc/%FF",
        "file:///etc/passwd",
        "nonsense",
    ],
)
@pytest.mark.parametrize("mode", ERAS)
def test_nothing_else_is_a_resource(mode, uri, shop):
    with pytest.raises(MCPError, match="Resource not found") as caught:
        with_client(shop, lambda client: client.read_resource(uri), mode)
    assert caught.value.code == INVALID_PARAMS


def test_a_document_that_is_gone_or_no_text_any_more(tmp_path):
    state = state_of(tmp_path / "r", {"a.md": "grass", "b.md": "hay"})
    answer(state, query="grass")
    wait_for(state)
    (tmp_path / "r/a.md").unlink()
    (tmp_path / "r/b.md").write_bytes(b"\0\1" * 50)
    for name in ("a.md", "b.md"):
        with pytest.raises(MCPError, match="Resource not found"):
            with_client(
                state,
                lambda client, name=name: client.read_resource(f"tamis://doc/{name}"),
            )
    state.close()


def test_resources_of_several_roots(both):
    listed = {each.name: each.uri for each in with_client(both, all_resources)}
    assert listed["README.md"] == "tamis://doc/one/README.md"
    odd = listed["lab/Bäume & co.md"]
    assert odd == "tamis://doc/two%20words/lab/B%C3%A4ume%20%26%20co.md"
    assert (
        with_client(both, lambda client: client.read_resource(odd)).contents[0].text
        == "trees"
    )
    with pytest.raises(MCPError, match="Resource not found"):
        with_client(
            both, lambda client: client.read_resource("tamis://doc/three/README.md")
        )
    template = with_client(
        both, lambda client: client.list_resource_templates()
    ).resource_templates[0]
    assert template.uri_template == "tamis://doc/{root}/{+path}"


def test_the_template(shop):
    template = with_client(
        shop, lambda client: client.list_resource_templates()
    ).resource_templates[0]
    assert template.uri_template == "tamis://doc/{+path}"


# --- Prompts and completions ----------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
def test_prompts(mode, shop):
    listed = with_client(shop, lambda client: client.list_prompts(), mode).prompts
    assert [each.name for each in listed] == ["find_and_cite", "what_is_out_of_date"]

    async def get(client):
        return await client.get_prompt(
            "find_and_cite",
            {"question": "how {long}?", "workspace": "api", "tag": "money"},
        )

    told = with_client(shop, get, mode).messages[0].content.text
    assert "how {long}?" in told
    assert "workspace: api, tags: money" in told
    assert "{" not in told.replace("{long}", "")


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("find_and_site", {}, "known: find_and_cite"),
        ("find_and_cite", {}, "question is missing"),
        ("find_and_cite", {"question": " "}, "question is missing"),
        ("find_and_cite", {"question": "x", "qestion": "y"}, "did you mean question?"),
        ("what_is_out_of_date", {"question": "x"}, "allowed: topic"),
    ],
)
def test_a_prompt_asked_wrongly(name, arguments, said, shop):
    with pytest.raises(MCPError, match=said.replace("?", "\\?")) as caught:
        with_client(shop, lambda client: client.get_prompt(name, arguments))
    assert caught.value.code == INVALID_PARAMS


def completed(state, argument, typed, mode="auto", reference=None):
    reference = reference or PromptReference(name="find_and_cite")
    use = lambda client: client.complete(reference, {"name": argument, "value": typed})  # noqa: E731
    return with_client(state, use, mode).completion


@pytest.mark.parametrize("mode", ERAS)
def test_completions(mode, shop):
    for argument, typed, expected in (
        ("workspace", "", ["api"]),
        ("workspace", "x", []),
        ("tag", "", ["money", "draft"]),
        ("tag", "DR", ["draft"]),
        ("chunk_type", "d", ["documentation", "definitions", "data", "code_block"]),
        ("language", "pyt", ["python"]),
        ("path", "ref", ["docs/refunds.md", "src/refund.go", "src/refund.py"]),
        ("path", "src/", ["src/refund.go", "src/refund.py"]),
        ("question", "x", []),
        ("nonsense", "x", []),
    ):
        found = completed(shop, argument, typed, mode)
        assert found.values == expected, argument
        assert found.has_more is False
    template = ResourceTemplateReference(uri="tamis://doc/{+path}")
    assert completed(shop, "path", "READ", mode, template).values == ["README.md"]


def test_completions_are_bounded(tmp_path):
    state = state_of(
        tmp_path / "r", {f"{n:03}.md": f"grass {n}" for n in range(130)}, indexed=False
    )
    assert (
        completed(state, "path", "").values == []
    )  # no index yet, and none is made for this
    answer(state, query="grass")
    wait_for(state)
    found = completed(state, "path", "")
    assert (len(found.values), found.total, found.has_more) == (100, 130, True)
    state.close()


def test_roots_are_completed(both):
    assert completed(both, "root", "t").values == ["two words"]


# --- Progress, cancellation -----------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
def test_progress_is_told_while_the_first_index_is_made(mode, tmp_path):
    state = state_of(
        tmp_path / mode,
        {f"{n}.md": f"# {n}\n\ngrass {n}\n" * 20 for n in range(300)},
        indexed=False,
        server__budget_ms=60_000,
    )
    told = []

    async def watch(progress, total, message):
        told.append((progress, total, message))

    async def ask(client):
        return await client.call_tool(
            "query_documents", {"query": "grass"}, progress_callback=watch
        )

    assert not with_client(state, ask, mode).is_error
    assert told
    steps = [progress for progress, _, _ in told]
    assert steps == sorted(set(steps)), "progress goes on"
    assert all(progress <= total for progress, total, _ in told)
    state.close()


def test_a_cancelled_call_lets_go_at_once(tmp_path, monkeypatch):
    """Its thread goes on; the client does not wait for it, and the next call is answered."""
    state = state_of(tmp_path / "r", {"a.md": "grass"})
    for mode in ERAS:
        begun, released, ended = (threading.Event() for _ in range(3))

        def search(*_, begun=begun, released=released, ended=ended, **__):
            begun.set()
            released.wait()
            ended.set()
            raise UsageError("nobody waits for this")

        async def ask(client, begun=begun, released=released, ended=ended):
            try:
                async with anyio.create_task_group() as group:
                    call = ("query_documents", {"query": "grass"})
                    group.start_soon(client.call_tool, *call)
                    await anyio.to_thread.run_sync(begun.wait)
                    group.cancel_scope.cancel()
                listed = await client.list_tools()
                assert not ended.is_set(), "the thread of the call is still at it"
                return listed
            finally:
                released.set()

        with monkeypatch.context() as patch:
            patch.setattr("tamis.live.roots.Roots.search", search)
            assert with_client(state, ask, mode).tools
            assert ended.wait(60)
    state.close()


def test_many_calls_at_once(shop):
    async def ask(client):
        results = []

        async def one(number):
            results.append(
                await client.call_tool(
                    "query_documents", {"query": f"grass {number % 5}"}
                )
            )

        async with anyio.create_task_group() as group:
            for number in range(40):
                group.start_soon(one, number)
        return results

    before = threading.active_count()
    for mode in ERAS:
        results = with_client(shop, ask, mode)
        assert len(results) == 40
        assert not any(result.is_error for result in results)
    assert threading.active_count() < before + 20


def test_a_damaged_index_is_an_error_that_says_what_to_do(tmp_path):
    state = state_of(tmp_path / "r", {"a.md": "grass"})
    segment = next((tmp_path / "r/.tamis/segments").iterdir())
    (segment / "words.bin").write_bytes(b"")
    other = state_over(tmp_path / "r", indexed=False)
    result = call(other, "query_documents", {"query": "grass"})
    assert result.is_error
    assert "tamis rebuild-index" in result.content[0].text
    state.close()
    other.close()


def test_a_fault_of_our_own_is_an_error_and_its_details_are_in_the_log(
    shop, monkeypatch, caplog
):
    def fail(*_):
        raise ZeroDivisionError("a secret of ours")

    monkeypatch.setattr("tamis.live.roots.Roots.status", fail)
    for mode in ERAS:
        result = call(shop, "index_status", {}, mode)
        assert result.is_error
        assert "a fault in tamis itself" in result.content[0].text
        assert "secret" not in result.content[0].text
    assert "ZeroDivisionError: a secret of ours" in caplog.text


# --- HTTP -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def over_http(shop):
    def make():
        application = http_application(make_server(shop), shop.settings)
        return with_names(application, ("shop.example",), any_port=True)

    return make


def test_a_request_is_answered(over_http):
    status, body = post(over_http, HELLO)
    assert status == 200
    assert b"2025-11-25" in body


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "",
        "shop.example.evil:1",
    ],
)
def test_another_host_is_refused(host, over_http):
    assert post(over_http, HELLO, LOCAL | {"host": host})[0] == 403


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:1", "[::1]:8000", "shop.example", "shop.example:443"],
)
def test_our_own_names_are_known(host, over_http):
    assert post(over_http, HELLO, LOCAL | {"host": host})[0] == 200


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://localhost.evil.example", "file://"],
)
def test_a_page_of_another_site_is_refused(origin, over_http):
    assert post(over_http, HELLO, LOCAL | {"origin": origin})[0] == 403
    assert post(over_http, HELLO, LOCAL | {"origin": "http://localhost:3000"})[0] == 200


def test_what_is_no_json_is_refused(over_http):
    for body in (b"", b"{", b"[" * 10_000, b"\xff"):
        assert 400 <= post(over_http, body)[0] < 500
    assert (
        400 <= post(over_http, HELLO, LOCAL | {"content-type": "text/plain"})[0] < 500
    )


def test_a_token_must_be_the_right_one(over_http):
    guarded = lambda: with_token(over_http(), "a secret of ours")  # noqa: E731
    for wrong in (
        {},
        *(
            {"authorization": each}
            for each in ("", "Bearer", "Bearer a secret", "a secret of ours")
        ),
    ):
        status, body = post(guarded, HELLO, LOCAL | wrong)
        assert status == 401
        assert b"Bearer" in body
    assert (
        post(guarded, HELLO, LOCAL | {"authorization": "Bearer a secret of ours"})[0]
        == 200
    )


def test_a_body_that_never_comes_is_not_waited_for():
    """Nor an answer; who listens, with GET, may stay."""
    ended = {}

    async def stalled(scope, receive, send):
        if scope["method"] == "POST":
            await anyio.sleep_forever()
        await anyio.sleep(0.3)  # longer than the limit
        ended[scope["method"]] = True

    async def request(method):
        sent = []

        async def send(message):
            sent.append(message)

        await in_time(stalled, 0.0, slack=0.1)(
            {"type": "http", "method": method}, None, send
        )
        return sent

    assert anyio.run(request, "POST")[0]["status"] == 408
    assert anyio.run(request, "GET") == []
    assert ended == {"GET": True}


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8808", Address("127.0.0.1", 8808)),
        ("8808", Address("127.0.0.1", 8808)),
        (":0", Address("127.0.0.1", 0)),
        ("[::1]:1", Address("::1", 1)),
        ("shop.example:80", Address("shop.example", 80)),
    ],
)
def test_addresses(text, address):
    assert read_address(text) == address
    assert read_address(str(address)) == address


@pytest.mark.parametrize(
    "text", ["", "localhost", "x:y", "1.2.3.4:70000", "1.2.3.4:-1", "x:" + "9" * 5000]
)
def test_what_is_no_address(text):
    with pytest.raises(UsageError, match="is no address"):
        read_address(text)


def test_an_address_that_others_reach_takes_a_token():
    check_token(Address("127.0.0.1", 1), None)
    check_token(Address("0.0.0.0", 1), "long enough")
    for host, token in (
        ("0.0.0.0", None),
        ("10.0.0.1", ""),
        ("127.0.0.1", "short"),
        ("127.0.0.1", "nöt plain text"),
    ):
        with pytest.raises(UsageError):
            check_token(Address(host, 1), token)
