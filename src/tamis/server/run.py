"""The start, the guards and the end of a server. uvicorn lives behind this file.

Only this machine can ask, unless an address that others reach was chosen; that takes a token. A
server ends at once, whatever its threads are doing: an index has one commit point, so nothing is
lost, and unfinished files are indexed the next time.
"""

import hmac
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn, TextIO

import anyio
import anyio.abc
import anyio.to_thread

from tamis.errors import UsageError
from tamis.live.folders import Folder
from tamis.server.state import ServerState

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("tamis.server")

AGENTS_PATH = "/mcp"
COOKIE = "tamis"
PROBLEM = "application/problem+json"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PEOPLE_AT_ONCE = 16  # more people ask a page than agents ask a server
_GRACE = 2  # seconds for calls that are under way when the server ends
_SLACK = 5.0  # seconds: a call that is out of time says so itself, before this


# --- starting and ending ------------------------------------------------------------------------


def serve_stdio(folders: Sequence[Folder]) -> NoReturn:
    """Serve an agent over stdin and stdout until it closes its end, is gone, or we are interrupted."""
    # asyncio's own handler would wait for the thread that reads.
    signal.signal(signal.SIGINT, lambda *_: _leave())
    requests, answers = _take_pipes()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    from tamis.server.mcp import run_stdio

    state = ServerState(folders)
    _run(state, lambda: run_stdio(state, requests, answers))


def serve_http(
    folders: Sequence[Folder], where: str, token: str | None, others: Sequence[str]
) -> NoReturn:
    """Serve agents over HTTP until SIGTERM or SIGINT."""
    from tamis.server.mcp import http_application, make_server

    address = read_address(where)
    check_token(address, token)
    state = ServerState(folders)
    application = http_application(make_server(state), state.settings)
    application = in_time(application, state.settings.deadline)
    if token:
        application = with_token(application, token)
    application = with_names(application, (address.host, *others), any_port=True)
    _run(state, lambda: listen(application, address, AGENTS_PATH, "--http HOST:PORT"))


def serve_pages(
    folders: Sequence[Folder],
    address: "Address",
    token: str | None,
    others: Sequence[str],
    *,
    shown: bool,
) -> NoReturn:
    """Serve the page, the API and agents until SIGTERM or SIGINT."""
    from tamis.server.http import Api, application

    check_token(address, token)
    _check_models(folders)
    state = ServerState(folders, _PEOPLE_AT_ONCE)
    api = Api(state, token)
    whole = application(api, Agents(state), (address.host, *others))

    def ready(where: str) -> None:
        threading.Thread(target=api.warm, name="warm", daemon=True).start()
        if shown:
            threading.Thread(target=_show, args=(where,), daemon=True).start()

    _run(
        state,
        lambda: listen(
            whole, address, "/", "--port P", ready=ready, ending=api.ending.set
        ),
    )


def _check_models(folders: Sequence[Folder]) -> None:
    """Raise the fault of an index that could answer no question, before anybody asks one."""
    from tamis.corpus import index_directory
    from tamis.index.engines import open_index
    from tamis.models.embedders import check_model

    for folder in folders:
        named = folder.settings.model.name
        directory = index_directory(folder.path, folder.settings, folder.index_dir)
        index = open_index(folder.path, directory, folder.settings, lambda: 0)
        if named and index.capabilities.examinable:
            check_model(index.place, index.stored_facts(), named)


def _show(where: str) -> None:
    import webbrowser

    if not webbrowser.open(where):
        log.warning("no browser could be opened: go to %s", where)


def _take_pipes() -> tuple[TextIO, TextIO]:
    """Return the client's two pipes; anything that others print goes to stderr from now on.

    The SDK would do so while it serves and give them back at the end, when threads may still be
    printing.
    """
    try:
        requests = os.fdopen(os.dup(0), encoding="utf-8", errors="replace")
        answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
    except OSError as error:
        raise UsageError(
            "standard input, output and error must be open: a client talks to tamis mcp over them",
            hint="start it from a client (run: tamis install), or over HTTP: tamis mcp --http 127.0.0.1:7172",
        ) from error
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return requests, answers


def _run(state: ServerState, serve: Callable[[], None]) -> NoReturn:
    """Serve, then leave without waiting for threads whose answers nobody waits for."""
    try:
        serve()
    except KeyboardInterrupt:
        log.info("interrupted")
    state.close()
    sys.stderr.flush()
    logging.shutdown()
    _leave()


def _leave() -> NoReturn:
    os._exit(0)


def _end_with(parent: int) -> None:
    """End with the client: if it was killed, another process may hold its end of the pipe open."""
    while os.getppid() == parent:
        time.sleep(0.5)
    log.warning("the client is gone")
    _leave()


# --- listening ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Address:
    """An address of this machine to listen on."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return `HOST:PORT`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def read_address(text: str) -> Address:
    """Read `HOST:PORT`, `[::1]:PORT`, `:PORT` or `PORT`; without a host it is this machine."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or LOOPBACK[0]
    if not (port.isascii() and port.isdigit() and int(port[:6]) <= 65_535):
        raise UsageError(
            f"{text!r} is no address",
            hint="write HOST:PORT, such as 127.0.0.1:8808; 0 is any port",
        )
    return Address(host, int(port))


def listen(
    application: Application,
    address: Address,
    path: str,
    option: str,
    *,
    ready: Callable[[str], None] = lambda _: None,
    ending: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT; say on standard error where, then call `ready`.

    `option` is how a port is chosen. `ending` is called first when the server ends: long answers
    would hold it up.
    """
    import uvicorn

    class EndingServer(uvicorn.Server):
        def handle_exit(self, *signal: Any) -> None:
            ending()
            super().handle_exit(*signal)

    config = uvicorn.Config(
        application,
        host=address.host,
        port=address.port,
        log_config=None,
        log_level=logging.WARNING,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=30,
    )
    logger = logging.getLogger("uvicorn.error")
    logger.disabled = True  # the error is reported below
    try:
        socket = config.bind_socket()
    except SystemExit as end:  # how uvicorn reports an error of the system
        why = end.__context__
        reason = ""
        if isinstance(why, OSError) and why.strerror:
            reason = f": {why.strerror}"
        raise UsageError(
            f"cannot listen on {address}{reason}",
            hint=f"choose another port with {option}; 0 is any that is free",
        ) from None
    finally:
        logger.disabled = False
    socket.listen(config.backlog)  # a reader of the line below may call at once
    chosen = Address(address.host, socket.getsockname()[1])
    print(f"listening on http://{chosen}{path}", file=sys.stderr, flush=True)
    ready(f"http://{chosen}{path}")
    # uvicorn stops at this signal and then raises it again.
    signal.signal(signal.SIGTERM, lambda *_: None)
    with socket:
        EndingServer(config).run(sockets=[socket])


class Agents:
    """The protocol for agents as an application that loads the SDK when it is first asked."""

    def __init__(self, state: ServerState) -> None:
        """Load nothing yet."""
        self._state = state
        self._loading = anyio.Lock()
        self._loaded: Application | None = None
        self._sessions: anyio.abc.TaskGroup | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; the sessions of agents end with the server."""
        if scope["type"] != "lifespan":
            application = await self._application()
            return await application(scope, receive, send)
        await receive()
        async with anyio.create_task_group() as self._sessions:
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self._sessions.cancel_scope.cancel()
        return await send({"type": "lifespan.shutdown.complete"})

    async def _application(self) -> Application:
        async with self._loading:
            if self._loaded is None:
                name = "tamis.server.mcp"
                mcp = await anyio.to_thread.run_sync(import_module, name)
                server = mcp.make_server(self._state)
                loaded = mcp.http_application(server, self._state.settings)
                if self._sessions is not None:
                    await self._sessions.start(_keep_alive, loaded)
                self._loaded = loaded
        return self._loaded


async def _keep_alive(
    application: Any, task_status: anyio.abc.TaskStatus[None]
) -> None:
    async with application.router.lifespan_context(application):
        task_status.started()
        await anyio.sleep_forever()


# --- guards -------------------------------------------------------------------------------------


def check_token(address: Address, token: str | None) -> None:
    """Raise UsageError if others reach the address without a token, or the token is a weak one."""
    if address.host not in LOOPBACK and not token:
        raise UsageError(
            f"{address.host} can be reached from elsewhere",
            hint="give a --token (or TAMIS_TOKEN) that clients must send",
        )
    if token is None:
        return
    if not token.isascii() or not token.strip() or len(token) < 8:
        raise UsageError(
            "the token is too short, or not plain text", hint="take 8 letters or more"
        )


def with_token(
    application: Application,
    token: str,
    passes: Callable[[Scope], bool] = lambda _: False,
) -> Application:
    """Guard an application with `Authorization: Bearer TOKEN`, except for requests that `passes`."""
    wanted = f"Bearer {token}".encode()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        is_known = scope["type"] != "http" or hmac.compare_digest(
            _header(scope, b"authorization"), wanted
        )
        if is_known or passes(scope):
            await application(scope, receive, send)
            return
        await refuse(send, 401, "a token is needed: Authorization: Bearer TOKEN")

    return guarded


def session_of(token: str) -> str:
    """Return the cookie of a browser that has sent the token, which cannot be derived from it."""
    return hmac.new(token.encode(), b"a session of the page", "sha256").hexdigest()


def has_session(scope: Scope, token: str) -> bool:
    """Return True if a request has the cookie of a session."""
    wanted = f"{COOKIE}={session_of(token)}".encode()
    cookies = _header(scope, b"cookie").split(b";")
    return any(hmac.compare_digest(cookie.strip(), wanted) for cookie in cookies)


def _header(scope: Scope, wanted: bytes) -> bytes:
    for name, value in scope["headers"]:
        if name == wanted:
            return bytes(value)
    return b""


def with_names(
    application: Application, names: Sequence[str], *, any_port: bool = False
) -> Application:
    """Guard an application against requests for other hosts, and from pages of other sites.

    A page that somebody visits could otherwise ask a server on their own machine (DNS rebinding).
    With `any_port`, pages of any server on this machine may ask; otherwise only our own.
    """
    known = {name.lower() for name in (*LOOPBACK, *names)}

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        fault = ""
        if scope["type"] == "http":
            fault = _fault_of(scope, known, any_port)
        if fault:
            await refuse(send, 403, fault, hint="see --allow-host")
        else:
            await application(scope, receive, send)

    return guarded


def _fault_of(scope: Scope, known: Collection[str], any_port: bool) -> str:
    host = _header(scope, b"host").decode("latin-1").lower()
    if _name(host) not in known:
        return "this host is not known here"
    origin = _header(scope, b"origin").decode("latin-1").lower()
    if not origin:
        return ""
    scheme, _, site = origin.partition("://")
    is_ours = _name(site) in known if any_port else site == host
    if scheme in ("http", "https") and is_ours:
        return ""
    return "asked by a page of another site"


def _name(host: str) -> str:
    """Return the name of a host, without its port: `[::1]:7171` -> `::1`."""
    name, _, port = host.rpartition(":")
    if not name or not port.isdigit():
        name = host
    return name.removeprefix("[").removesuffix("]")


def in_time(
    application: Application, deadline: float, slack: float = _SLACK
) -> Application:
    """End requests whose body never comes; only a listener (GET) may stay for long."""

    async def timed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] == "GET":
            return await application(scope, receive, send)
        has_begun = False

        async def watched(message: MutableMapping[str, Any]) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        with anyio.move_on_after(deadline + slack) as limit:
            await application(scope, receive, watched)
        if limit.cancelled_caught and not has_begun:
            await refuse(send, 408, "the request took too long")
        return None

    return timed


async def refuse(send: Send, status: int, text: str, hint: str = "") -> None:
    """Answer a request with a problem."""
    body = json.dumps(problem(status, text, hint)).encode()
    headers = [(b"content-type", PROBLEM.encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


_TITLES = {
    400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    408: "Request Timeout", 409: "Conflict", 413: "Content Too Large", 415: "Unsupported Media Type",
    423: "Locked", 429: "Too Many Requests", 500: "Internal Server Error", 501: "Not Implemented",
    502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout", 507: "Insufficient Storage",
}  # fmt: skip


def problem(status: int, text: str, hint: str = "") -> dict[str, Any]:
    """Return what went wrong, in the form that HTTP has for it (RFC 9457)."""
    found: dict[str, Any] = {
        "type": "about:blank",
        "title": _TITLES[status],
        "status": status,
        "detail": text,
    }
    if hint:
        found["hint"] = hint
    return found
