"""The HTTP API and the page. Starlette lives behind this file; the protocol for agents is served beside it.

Arguments are read in one place (`api.py`), answers are made in another (`replies.py`), in threads and within
`server.deadline`; the only one that takes long is a stream of events, and those are counted.
"""

import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping, Sequence
from functools import partial
from hashlib import blake2b
from html import escape
from pathlib import Path
from threading import Event
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

import tamis
from tamis.errors import TamisError, UsageError
from tamis.request import read
from tamis.server.api import PREFIX, Operation, from_query, openapi, operations_for
from tamis.server.mcp import HTTP_PATH, Desk, http_application, in_time
from tamis.server.replies import Given, Replies
from tamis.server.run import (
    COOKIE,
    PROBLEM,
    Application,
    has_session,
    is_token,
    problem,
    session_of,
    with_names,
    with_token,
)
from tamis.settings import EDITORS

log = logging.getLogger("tamis.http")

WEB: Final = Path(__file__).with_name("web")
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# Nothing but what this server sends runs, shows or is asked; nobody frames the page.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_EDITOR: Final = '<meta name="editor" content="">'
AT_ONCE: Final = (
    16  # searches side by side: more people ask a page than agents ask a server
)
_MOST_STREAMS: Final = (
    16  # of events: each keeps a connection, and looks a few times a second
)
_LOOK: Final = 0.25  # seconds between two looks at how indexing stands
_SILENCE: Final = 15.0  # seconds after which a word is sent, so that a connection that is gone is noticed
_LEVEL: Final = (
    4  # of gzip: a third of the size for a tenth of the time that the best takes
)
_SMALL: Final = 1_000  # bytes: not worth packing


class Front:
    """Answers requests from the roots of a desk, which agents are served from as well."""

    def __init__(self, desk: Desk, token: str | None = None) -> None:
        self.desk = desk
        self.operations = operations_for([each.name for each in desk.folders])
        self._token = token
        self._ending = Event()
        self._streams = 0
        self._replies = Replies(desk)

    def end(self) -> None:
        """Streams end; whatever else is asked still is answered."""
        self._ending.set()

    def warm(self) -> None:
        """Open the roots before somebody asks: what has changed is indexed, and what changes is followed."""
        try:
            self.desk.opened().fresh(None, 0.0)
        except TamisError as error:
            log.warning("%s (%s)", error.message, error.hint)

    # --- Requests -----------------------------------------------------------------------------

    async def answer(self, operation: Operation, request: Request) -> Response:
        if operation.name == "events":
            given = from_query(operation, request.query_params.multi_items())
            read(operation.parameters, given, operation.name)
            return self._events()
        if operation.path == "/session":
            return await self._session(operation, request)
        given = await self._given(operation, request)
        unless = request.headers.get("if-none-match", "") if operation.has_tag else ""
        return await self.desk.in_thread(
            partial(self._replied, operation, given, unless)
        )

    def _replied(self, operation: Operation, given: Given, unless: str) -> Response:
        if operation.name == "openapi":
            return _json(
                openapi(
                    self.operations, tamis.__version__, secured=self._token is not None
                )
            )
        reply = self._replies.to(operation.name, given, unless)
        caching = "no-cache" if reply.tag else "no-store"
        headers = {"cache-control": caching} | (
            {"etag": reply.tag} if reply.tag else {}
        )
        if reply.body is None:
            return Response(status_code=304, headers=headers)
        return _json(reply.body, headers=headers)

    async def _given(self, operation: Operation, request: Request) -> Given:
        if operation.takes_body:
            if request.query_params:
                raise UsageError(
                    "arguments are in the body here", hint="leave the query string out"
                )
            arguments = await self._body(request)
        else:
            arguments = from_query(operation, request.query_params.multi_items())
        given = read(operation.parameters, arguments, operation.name)
        return given | request.path_params

    async def _body(self, request: Request) -> dict[str, object]:
        if (
            request.headers.get("content-type", "").partition(";")[0].strip().lower()
            != "application/json"
        ):
            raise HTTPException(
                415, "send JSON, and say so: Content-Type: application/json"
            )
        most, data = self.desk.settings.max_body_bytes, bytearray()
        async for part in request.stream():
            data += part
            if len(data) > most:
                raise HTTPException(
                    413, f"a body has at most {most:,} bytes (server.max_body_bytes)"
                )
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise UsageError(
                f"the body is no JSON: {error}"[:200], hint="send an object"
            ) from error
        if not isinstance(found, dict):
            raise UsageError(
                "the body is no object", hint='send one, such as {"query": "..."}'
            )
        return found

    # --- Sessions and events ------------------------------------------------------------------

    async def _session(self, operation: Operation, request: Request) -> Response:
        given = await self._given(operation, request)
        wanted = self._token
        if operation.method == "DELETE" or wanted is None:
            response = _json({"signed_in": wanted is None})
            response.delete_cookie(COOKIE, httponly=True, samesite="strict")
            return response
        if not is_token(given["token"], wanted):
            raise HTTPException(401, "this is not the token")
        response = _json({"signed_in": True})
        secure = request.url.scheme == "https"
        response.set_cookie(
            COOKIE, session_of(wanted), httponly=True, samesite="strict", secure=secure
        )
        return response

    def _events(self) -> Response:
        if self._streams >= _MOST_STREAMS:
            raise HTTPException(429, f"{_MOST_STREAMS} listen already")
        return StreamingResponse(
            self._states(),
            media_type="text/event-stream",
            headers={"cache-control": "no-store"},
        )

    async def _states(self) -> AsyncIterator[bytes]:
        """How it stands with each root, whenever that changes, until somebody goes."""
        self._streams += 1
        try:
            last: Any = None
            silent = 0.0
            while not self._ending.is_set():
                now = await run_in_threadpool(self._next, last)
                silent = 0.0 if now != last else silent + _LOOK
                if now != last:
                    told = json.dumps([each.to_dict() for each in now])
                    yield f"event: state\ndata: {told}\n\n".encode()
                elif silent >= _SILENCE:
                    silent = 0.0
                    yield b": still here\n\n"
                last = now
        finally:
            self._streams -= 1

    def _next(self, last: Any) -> Any:
        """As it is, after a moment unless it is the first."""
        if last is not None:
            self._ending.wait(_LOOK)
        return self.desk.opened().now()


def _json(
    body: Any,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    type: str = "",
) -> Response:
    data = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "replace"
    )
    return Response(data, status, headers, type or "application/json")


def _problem(status: int, text: str, hint: str = "") -> Response:
    return _json(
        problem(status, text, hint), status, {"cache-control": "no-store"}, PROBLEM
    )


# --- The application ------------------------------------------------------------------------


def _endpoint(
    front: Front, operations: Mapping[str, Operation]
) -> Callable[[Request], Any]:
    async def endpoint(request: Request) -> Response:
        operation = operations["GET" if request.method == "HEAD" else request.method]
        try:
            return await front.answer(operation, request)
        except TimeoutError:
            seconds = front.desk.settings.deadline
            return _problem(
                504,
                f"no answer within {seconds:g} s",
                "ask for less, or raise server.deadline",
            )
        except TamisError as error:
            return _problem(error.http_status, error.message, error.hint)
        except (HTTPException, ClientDisconnect):
            raise
        except Exception:
            log.exception("%s failed", operation.name)
            return _problem(
                500,
                "this is a fault in tamis itself",
                "the server's log has the details",
            )

    return endpoint


def _routes(front: Front) -> list[Route]:
    by_path: dict[str, dict[str, Operation]] = {}
    for each in front.operations:
        by_path.setdefault(each.path, {})[each.method] = each
    return [
        Route(
            f"{PREFIX}{path.replace('}', ':path}')}",
            _endpoint(front, own),
            methods=list(own),
        )
        for path, own in by_path.items()
    ]


def _files(editor: str) -> list[Route]:
    """The page's files, read once: no path that is asked for reaches the disk."""
    page = (
        (WEB / "index.html")
        .read_text("utf-8")
        .replace(_EDITOR, f'{_EDITOR[:-2]}{escape(editor)}">')
    )
    others = sorted(file for file in WEB.iterdir() if file.name != "index.html")
    return [
        _file("/", ".html", page.encode()),
        *(_file(f"/{file.name}", file.suffix, file.read_bytes()) for file in others),
    ]


def _file(address: str, suffix: str, data: bytes) -> Route:
    tag = f'"{blake2b(data, digest_size=12).hexdigest()}"'
    headers = {"etag": tag, "cache-control": "no-cache"}

    async def endpoint(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(data, headers=headers, media_type=_TYPES[suffix])

    return Route(address, endpoint)


async def _refused(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    detail = (
        error.detail
        if isinstance(error, HTTPException)
        else "this is a fault in tamis itself"
    )
    response = _problem(status, detail)
    response.headers.update(getattr(error, "headers", None) or {})
    return response


def application(front: Front, names: Sequence[str], token: str | None) -> Application:
    """The API, the page and the protocol for agents, behind the guards that all of them have."""
    site = Starlette(
        routes=[*_routes(front), *_files(EDITORS[front.desk.settings.editor])],
        middleware=[
            Middleware(GZipMiddleware, minimum_size=_SMALL, compresslevel=_LEVEL)
        ],
        exception_handlers={HTTPException: _refused, 404: _refused, 405: _refused},
    )
    agents = http_application(front.desk, names)
    pages = in_time(_with_headers(_same_site(site)), front.desk.settings.deadline)

    async def served(scope: Any, receive: Any, send: Any) -> None:
        is_agents = scope["type"] != "http" or scope["path"].rstrip("/") == HTTP_PATH
        await (agents if is_agents else pages)(scope, receive, send)

    guarded: Application = served
    if token is not None:
        opened = {f"{PREFIX}{each.path}" for each in front.operations if each.is_open}
        private = (PREFIX, HTTP_PATH)
        guarded = with_token(
            guarded,
            token,
            lambda scope: (
                scope["path"] in opened
                or not scope["path"].startswith(private)
                or has_session(scope, token)
            ),
        )
    return with_names(guarded, names)


def _same_site(application: Application) -> Application:
    """A browser says where a request comes from: the API is not for other sites, not even blindly."""

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        foreign = any(
            name == b"sec-fetch-site" and value in (b"cross-site", b"same-site")
            for name, value in scope["headers"]
        )
        if foreign and scope["path"].startswith(PREFIX):
            await _problem(403, "asked by a page of another site")(scope, receive, send)
        else:
            await application(scope, receive, send)

    return guarded


def _with_headers(application: Application) -> Application:
    own = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]

    async def dressed(scope: Any, receive: Any, send: Any) -> None:
        async def said(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *own]
            await send(message)

        await application(scope, receive, said)

    return dressed
