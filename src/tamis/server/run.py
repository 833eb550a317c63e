"""Serving an application on an address of this machine. uvicorn lives behind this file.

Only this machine can ask, unless an address that others reach was chosen; that takes a token.
"""

import hmac
import json
import logging
import signal
import sys
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterator,
    MutableMapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

import uvicorn

from tamis.errors import UsageError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE: Final = "tamis"
PROBLEM: Final = "application/problem+json"
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_GRACE: Final = 2  # seconds for calls that are under way when we are told to stop
_LOG_LEVEL: Final = logging.WARNING


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    @property
    def is_local(self) -> bool:
        return self.host in LOOPBACK

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def read_address(text: str) -> Address:
    """`HOST:PORT`, `[::1]:PORT`, `:PORT` or `PORT`; without a host, this machine."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or LOOPBACK[0]
    if not (port.isascii() and port.isdigit() and int(port[:6]) <= 65_535):
        raise UsageError(
            f"{text!r} is no address",
            hint="write HOST:PORT, such as 127.0.0.1:8808; 0 is any port",
        )
    return Address(host, int(port))


def check_token(address: Address, token: str | None) -> None:
    if not address.is_local and not token:
        raise UsageError(
            f"{address.host} can be reached from elsewhere",
            hint="give a --token (or TAMIS_TOKEN) that clients must send",
        )
    if token is not None and (
        not token.isascii() or not token.strip() or len(token) < 8
    ):
        raise UsageError(
            "the token is too short, or not plain text", hint="take 8 letters or more"
        )


def with_token(
    application: Application,
    token: str,
    passes: Callable[[Scope], bool] = lambda _: False,
) -> Application:
    """The application, for those who send `Authorization: Bearer TOKEN`, and for what `passes` without."""
    wanted = f"Bearer {token}".encode()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        is_known = scope["type"] != "http" or hmac.compare_digest(
            header(scope, b"authorization"), wanted
        )
        if not is_known and not passes(scope):
            headers = [(b"www-authenticate", b"Bearer")]
            await refuse(
                send, 401, "a token is needed: Authorization: Bearer TOKEN", headers
            )
        else:
            await application(scope, receive, send)

    return guarded


def is_token(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def session_of(token: str) -> str:
    """What a browser that has sent the token is known by: the token cannot be worked out from it."""
    return hmac.new(token.encode(), b"a session of the page", "sha256").hexdigest()


def has_session(scope: Scope, token: str) -> bool:
    """Whether a request has the cookie that `session_of` was given out as."""
    wanted = f"{COOKIE}={session_of(token)}".encode()
    return any(
        hmac.compare_digest(each.strip(), wanted)
        for each in header(scope, b"cookie").split(b";")
    )


def header(scope: Scope, wanted: bytes) -> bytes:
    return next(
        (bytes(value) for name, value in scope["headers"] if name == wanted), b""
    )


def with_names(application: Application, names: Sequence[str]) -> Application:
    """The application, for requests that name this machine and come from no other site's page.

    A page that somebody visits could otherwise ask a server on their own machine (DNS rebinding).
    """
    known = {name.lower() for name in (*LOOPBACK, *names)}

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not (why := _foreign(scope, known)):
            await application(scope, receive, send)
        else:
            await refuse(send, 403, why, hint="see --allow-host")

    return guarded


def _foreign(scope: Scope, known: Collection[str]) -> str:
    """Why a request is none of ours; empty for one that is."""
    host, origin = (
        header(scope, b"host").decode("latin-1"),
        header(scope, b"origin").decode("latin-1"),
    )
    if _name(host) not in known:
        return "this host is not known here"
    scheme, _, where = origin.partition("://")
    if origin and (scheme not in ("http", "https") or where.lower() != host.lower()):
        return "asked by a page of another site"
    return ""


def _name(host: str) -> str:
    """`[::1]:7171` -> `::1`."""
    name, _, rest = host.lower().rpartition(":")
    bare = name if name and rest.isdigit() else host.lower()
    return bare.removeprefix("[").removesuffix("]")


async def refuse(
    send: Send,
    status: int,
    text: str,
    headers: Sequence[tuple[bytes, bytes]] = (),
    hint: str = "",
) -> None:
    told = problem(status, text, hint)
    own = [(b"content-type", PROBLEM.encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": own})
    await send({"type": "http.response.body", "body": json.dumps(told).encode()})


_TITLES: Final = {
    400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    408: "Request Timeout", 409: "Conflict", 413: "Content Too Large", 415: "Unsupported Media Type",
    423: "Locked", 429: "Too Many Requests", 500: "Internal Server Error", 501: "Not Implemented",
    502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout", 507: "Insufficient Storage",
}  # fmt: skip


def problem(status: int, text: str, hint: str = "") -> dict[str, Any]:
    """What went wrong, in the form that HTTP has for it (RFC 9457)."""
    told = {
        "type": "about:blank",
        "title": _TITLES[status],
        "status": status,
        "detail": text,
    }
    return told | ({"hint": hint} if hint else {})


def listen(
    application: Application,
    address: Address,
    path: str,
    option: str,
    *,
    ready: Callable[[str], None] = lambda _: None,
    ending: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGTERM or SIGINT. Says on standard error where, and tells `ready`.

    `option` is how a port is chosen. `ending` is called first: whoever answers for long holds the end up,
    and is to be told.
    """
    config = uvicorn.Config(
        application,
        host=address.host,
        port=address.port,
        log_config=None,
        log_level=_LOG_LEVEL,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=30,
    )
    try:
        with _unlogged():
            socket = config.bind_socket()
    except SystemExit as end:  # uvicorn's word for what the system said
        why = end.__context__
        reason = (
            f": {why.strerror}" if isinstance(why, OSError) and why.strerror else ""
        )
        raise UsageError(
            f"cannot listen on {address}{reason}",
            hint=f"choose another port with {option}; 0 is any that is free",
        ) from None
    socket.listen(config.backlog)  # who reads the line below may call at once
    chosen = Address(address.host, socket.getsockname()[1])
    print(f"listening on http://{chosen}{path}", file=sys.stderr, flush=True)
    ready(f"http://{chosen}{path}")
    signal.signal(
        signal.SIGTERM, lambda *_: None
    )  # uvicorn stops at it, and then sends it on to us
    with socket:
        _Server(config, ending).run(sockets=[socket])


@contextmanager
def _unlogged() -> Iterator[None]:
    """What uvicorn would log is raised instead."""
    logger = logging.getLogger("uvicorn.error")
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = False


class _Server(uvicorn.Server):
    """Tells whoever wants to know that it is about to end."""

    def __init__(self, config: uvicorn.Config, ending: Callable[[], None]) -> None:
        super().__init__(config)
        self._ending = ending

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._ending()
        super().handle_exit(sig, frame)
