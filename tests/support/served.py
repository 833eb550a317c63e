"""A server in this process, and what a client of the SDK gets from it."""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import anyio
from mcp import Client

from support.corpora import Files, open_corpus, test_settings, write_files
from tamis.live.folders import Folder, names_of
from tamis.server.mcp import make_server
from tamis.server.run import Application
from tamis.server.state import ServerState

Given = TypeVar("Given")
ERAS = ("auto", "legacy")  # 2026-07-28, and the handshake of 2025-11-25

FILES = {
    "tamis.toml": '[workspaces]\napi = ["docs/api"]\n',
    ".graphragignore": "tamis.toml\n",
    "README.md": "# Shop\n\nA shop that sells grass. See [refunds](docs/refunds.md).\n",
    "docs/refunds.md": "---\ntags: [money, draft]\nauthor: Ann\ncategory: policy\nmodified: 2026-03-01\n---\n"
    "# Refunds\n\nA refund of grass takes three days. It goes to [billing](api/billing.md).\n",
    "docs/api/billing.md": "---\ntags: [money]\nauthor: Bob\ncategory: guide\nmodified: 2025-02-01\n---\n"
    "# Billing\n\nBilling charges a card for grass.\n\n## Invoices\n\nInvoices are sent by mail.\n",
    "src/refund.py": 'def refund_order(order):\n    """Give the money for grass back."""\n    return order\n',
    "src/refund.go": "package main\n\nfunc RefundGrass() int { return 1 }\n",
    "archive/old.md": "# Old\n\nRefunds of grass used to take a month.\n",
}


def state_over(*roots: Path, indexed: bool = True, **flags: Any) -> ServerState:
    """Over folders that are there, and indexed unless said otherwise. Nothing is watched: few close it."""
    flags = {"server__watch": False} | flags
    found = [root.resolve() for root in roots]
    settings = [test_settings(root, **flags) for root in found]
    for root in found if indexed else ():
        open_corpus(root, **flags).close()
    folders = [
        Folder(*each) for each in zip(names_of(found), found, settings, strict=True)
    ]
    return ServerState(folders)


def state_of(
    folder: Path, files: Files = FILES, *, indexed: bool = True, **flags: Any
) -> ServerState:
    return state_over(write_files(folder, files), indexed=indexed, **flags)


def with_client(
    state: ServerState,
    use: Callable[[Client], Awaitable[Given]],
    mode: str = "auto",
    **options: Any,
) -> Given:
    async def run() -> Given | Exception:
        async with Client(make_server(state), mode=mode, **options) as client:
            try:
                return await use(client)
            except Exception as error:  # noqa: BLE001 - raised below, without the client's task group around it
                return error

    done = anyio.run(run)
    if isinstance(done, Exception):
        raise done
    return done


def call(
    state: ServerState, tool: str, arguments: dict[str, Any], mode: str = "auto"
) -> Any:
    return with_client(state, lambda client: client.call_tool(tool, arguments), mode)


def answer(
    state: ServerState,
    tool: str = "query_documents",
    mode: str = "auto",
    **arguments: Any,
) -> dict[str, Any]:
    """What a tool answers, as an object; an error fails the test."""
    result = call(state, tool, arguments, mode)
    assert not result.is_error, result.content[0].text
    answered: dict[str, Any] = result.structured_content
    return answered


def text(state: ServerState, tool: str = "query_documents", **arguments: Any) -> str:
    result = call(state, tool, arguments)
    assert not result.is_error, result.content[0].text
    shown: str = result.content[0].text
    return shown


def fault(
    state: ServerState, tool: str, arguments: dict[str, Any], mode: str = "auto"
) -> str:
    """What a tool says to arguments that it refuses."""
    result = call(state, tool, arguments, mode)
    assert result.is_error
    assert result.structured_content is None
    assert "Traceback" not in result.content[0].text
    shown: str = result.content[0].text
    return shown


def paths(found: dict[str, Any]) -> list[str]:
    return [result["path"] for result in found["results"]]


def ids(results: Sequence[Any]) -> list[str]:
    return [result["chunk_id"] for result in results]


LOCAL = {
    "host": "127.0.0.1:8000",
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def post(
    make: Callable[[], Application], message: object, headers: Mapping[str, str] = LOCAL
) -> tuple[int, bytes]:
    """Status and body of what a new application answers to a request, without a socket."""
    application = make()
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    scope = {
        "type": "http", "method": "POST", "path": "/mcp", "raw_path": b"/mcp", "query_string": b"",
        "root_path": "", "scheme": "http", "http_version": "1.1", "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 1),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip

    async def run() -> tuple[int, bytes]:
        sent: list[MutableMapping[str, Any]] = []
        stop = anyio.Event()
        started = anyio.Event()
        waiting = [{"type": "lifespan.startup"}]

        async def lifespan_events() -> MutableMapping[str, Any]:
            if waiting:
                return waiting.pop()
            await stop.wait()
            return {"type": "lifespan.shutdown"}

        async def lifespan_said(message: MutableMapping[str, Any]) -> None:
            started.set()

        requests = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if requests:
                return requests.pop()
            await anyio.sleep_forever()
            raise AssertionError

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        async with anyio.create_task_group() as group:
            lifespan: dict[str, Any] = {"type": "lifespan", "state": {}}

            async def live() -> None:
                await application(lifespan, lifespan_events, lifespan_said)

            group.start_soon(live)
            await started.wait()
            with anyio.fail_after(300):
                await application(scope, receive, send)
            stop.set()
        return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])

    return anyio.run(run)
