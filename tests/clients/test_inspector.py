"""MCP Inspector, the protocol's own client for people, against `tamis mcp`: both eras, both transports."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.installed import indexed, mcp, run, serving

ERAS = ("legacy", "modern")  # 2025-11-25 with its handshake, 2026-07-28 without
TOOLS = [
    "query_documents",
    "query_unique_documents",
    "graphrag_hybrid_search",
    "get_passage",
    "index_status",
]
FILES = {
    "billing/refunds.md": "# Refunds\n\nA refund is paid within five days.\n",
    "billing/invoices.md": "# Invoices\n\nAn invoice is sent every month.\n",
    "retry.py": 'def retry_policy():\n    """How often a payment is tried again."""\n',
}
TOKEN = "a-token-of-some-length"
Ask = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return indexed(tmp_path_factory.mktemp("inspector") / "notes", FILES)


@pytest.fixture(scope="module")
def guarded(root: Path) -> Iterator[Ask]:
    """Over HTTP, where clients must send a token. Without it the Inspector shall not look for another way."""
    with serving(*mcp(root), "--http", "127.0.0.1:0", "--token", TOKEN) as address:
        where = ("--server-url", address, "--transport", "http", "--stored-auth-only")
        yield lambda *rest, **how: ask(*where, *rest, **how)


@pytest.fixture(scope="module")
def http(guarded: Ask) -> Ask:
    return lambda *rest, **how: guarded(
        "--header", f"Authorization: Bearer {TOKEN}", *rest, **how
    )


@pytest.fixture(scope="module")
def stdio(root: Path) -> Ask:
    """As clients are told of it: a command in a configuration file."""
    command, *arguments = mcp(root)
    config = root.with_name("mcp.json")
    config.write_text(
        json.dumps({"mcpServers": {"tamis": {"command": command, "args": arguments}}})
    )
    return lambda *rest, **how: ask(
        "--config", str(config), "--server", "tamis", *rest, **how
    )


def ask(*arguments: str, era: str, method: str, code: int = 0) -> dict[str, Any]:
    """What the Inspector prints, when it ends as it should.

    3 is its code for a server that wants a token, 5 for an answer that is an error.
    """
    how = ("--protocol-era", era, "--method", method, "--format", "json")
    said = run("mcp-inspector", "--cli", *arguments, *how)
    assert said.returncode == code, said.stdout + said.stderr
    printed: dict[str, Any] = json.loads(said.stdout or said.stderr)
    return printed


def call(
    ask: Ask, era: str, tool: str, arguments: dict[str, Any], code: int = 0
) -> dict[str, Any]:
    named = ("--tool-name", tool, "--tool-args-json", json.dumps(arguments))
    result: dict[str, Any] = ask(*named, era=era, method="tools/call", code=code)[
        "result"
    ]
    return result


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_every_schema_is_portable(transport, era, request):
    """`--strict`: no model's tool format refuses or misreads a schema. Not even a warning."""
    printed = request.getfixturevalue(transport)(
        "--strict", era=era, method="tools/list"
    )
    assert printed.get("schemaFindings", []) == []
    assert [tool["name"] for tool in printed["result"]["tools"]] == TOOLS


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", TOOLS[:3])
def test_a_search_over_http(http, tool, era):
    result = call(http, era, tool, {"query": "when is a refund paid", "limit": 2})
    assert result["structuredContent"]["results"][0]["path"] == "billing/refunds.md"
    assert "billing/refunds.md" in result["content"][0]["text"]
    assert "tamis://doc/billing/refunds.md" in [
        each.get("uri") for each in result["content"]
    ]


@pytest.mark.parametrize("era", ERAS)
def test_a_passage_over_http(http, era):
    result = call(http, era, "get_passage", {"path": "retry.py"})
    assert "def retry_policy" in result["content"][0]["text"]


@pytest.mark.parametrize("era", ERAS)
def test_the_status_over_http(http, era):
    [status] = call(http, era, "index_status", {})["structuredContent"]["roots"]
    assert status["documents"] == len(FILES)


@pytest.mark.parametrize("era", ERAS)
def test_a_search_over_stdio(stdio, era):
    result = call(
        stdio,
        era,
        "query_documents",
        {"query": "when is a refund paid", "tags": ["markdown"]},
    )
    assert result["structuredContent"]["results"][0]["path"] == "billing/refunds.md"


@pytest.mark.parametrize("era", ERAS)
def test_a_misspelt_argument_is_an_error(http, era):
    result = call(http, era, "query_documents", {"query": "refund", "limt": 2}, code=5)
    assert result["isError"]
    assert "did you mean limit?" in result["content"][0]["text"]


@pytest.mark.parametrize("era", ERAS)
def test_without_the_token_there_is_no_answer(guarded, era):
    printed = guarded(era=era, method="tools/list", code=3)
    assert printed["error"]["code"] == "auth_required"


@pytest.mark.parametrize("era", ERAS)
def test_documents_are_resources(http, era):
    listed = http(era=era, method="resources/list")["result"]["resources"]
    assert {each["uri"] for each in listed} == {f"tamis://doc/{name}" for name in FILES}
    [template] = http(era=era, method="resources/templates/list")["result"][
        "resourceTemplates"
    ]
    assert template["uriTemplate"] == "tamis://doc/{+path}"
    read = http(
        "--uri", "tamis://doc/billing/refunds.md", era=era, method="resources/read"
    )
    assert read["result"]["contents"][0]["text"] == FILES["billing/refunds.md"]


@pytest.mark.parametrize("era", ERAS)
def test_prompts(http, era):
    listed = http(era=era, method="prompts/list")["result"]["prompts"]
    assert [each["name"] for each in listed] == ["find_and_cite", "what_is_out_of_date"]
    for prompt, argument in (
        ("find_and_cite", "question"),
        ("what_is_out_of_date", "topic"),
    ):
        given = ("--prompt-name", prompt, "--prompt-args", f"{argument}=late refunds")
        [message] = http(*given, era=era, method="prompts/get")["result"]["messages"]
        assert "late refunds" in message["content"]["text"]
