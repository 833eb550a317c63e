"""Serving an application on an address of this machine. uvicorn lives behind this file.

Only this machine can ask, unless an address that others reach was chosen; that takes a token.
"""

import hmac
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

import uvicorn

from tamis.errors import UsageError

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

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
            f"{text!r} is no address", hint="write HOST:PORT, such as 127.0.0.1:8808; 0 is any port"
        )
    return Address(host, int(port))


def check_token(address: Address, token: str | None) -> None:
    if not address.is_local and not token:
        raise UsageError(
            f"{address.host} can be reached from elsewhere",
            hint="give a --token (or TAMIS_TOKEN) that clients must send",
        )
    if token is not None and (not token.isascii() or not token.strip() or len(token) < 8):
        raise UsageError("the token is too short, or not plain text", hint="take 8 letters or more")


def with_token(application: Application, token: str) -> Application:
    """The application, for those who send `Authorization: Bearer TOKEN`."""
    wanted = f"Bearer {token}".encode()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not hmac.compare_digest(_authorization(scope), wanted):
            headers = [(b"www-authenticate", b"Bearer"), (b"content-type", b"text/plain")]
            await refuse(send, 401, "a token is needed: Authorization: Bearer TOKEN", headers)
        else:
            await application(scope, receive, send)

    return guarded


def _authorization(scope: Scope) -> bytes:
    return next((bytes(value) for name, value in scope["headers"] if name == b"authorization"), b"")


async def refuse(
    send: Send, status: int, text: str, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers or []})
    await send({"type": "http.response.body", "body": text.encode()})


def listen(application: Application, address: Address, path: str) -> None:
    """Serve until SIGTERM or SIGINT. Says on standard error where."""
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
        socket = config.bind_socket()
    except SystemExit:  # uvicorn has logged why
        raise UsageError(
            f"cannot listen on {address}", hint="choose another port; 0 is any that is free"
        ) from None
    socket.listen(config.backlog)  # who reads the line below may call at once
    chosen = Address(address.host, socket.getsockname()[1])
    print(f"listening on http://{chosen}{path}", file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn stops at it, and then sends it on to us
    with socket:
        uvicorn.Server(config).run(sockets=[socket])
