"""The JSON API and the page. Starlette lives behind this file.

Answers are made in threads, within a deadline. The only long one is the stream of events,
and those are counted.
"""

import hmac
import json
import logging
from collections.abc import (
    AsyncIterator,
    Callable,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from html import escape
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

import tamis
from tamis.errors import InternalFault, TamisError, UsageError
from tamis.model import Advice
from tamis.request import SearchRequest, read
from tamis.server.run import (
    AGENTS_PATH,
    COOKIE,
    PROBLEM,
    Application,
    has_session,
    in_time,
    problem,
    refuse,
    session_of,
    with_names,
    with_token,
)
from tamis.server.schema import (
    LARGEST_PASSAGE,
    PREFIX,
    Operation,
    from_query,
    openapi,
    operations_for,
)
from tamis.server.state import ServerState, read_cursor
from tamis.settings import EDITORS

if TYPE_CHECKING:
    from tamis.live.corpus import Freshness

Given = dict[str, Any]
Reply = tuple[Any, str]  # a body and its tag, empty if it has none

log = logging.getLogger("tamis.server")

WEB = Path(__file__).with_name("web")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# The page runs, shows and asks only what this server sends, and no other page frames it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_EDITOR = '<meta name="editor" content="">'
# Streams of events: each keeps a connection, and looks a few times a second.
_MOST_STREAMS = 16
_LOOK = 0.25  # seconds between two looks at how indexing stands
# Seconds until a comment is sent, which shows if a connection is gone.
_SILENCE = 15.0
_LEVEL = 4  # of gzip: a third of the size for a tenth of the time of the best
_SMALL = 1_000  # bytes: not worth packing
_ADVICE = {
    Advice.STATUS: f"see: {PREFIX}/status",
    Advice.SHOW_MORE: "min_score=0 shows more",
    Advice.SHOW_LIKELY: "min_score=0.3 leaves such results out",
    Advice.READ_ON: "ask for fewer neighbours",
}


class Api:
    """The operations of the API, answered from the state of a server."""

    def __init__(self, state: ServerState, token: str | None = None) -> None:
        """Prepare the operations; clients need the token if there is one."""
        self.state = state
        self.token = token
        self.operations = operations_for(state.names)
        self.ending = Event()  # ends the streams of events
        self._streams = 0
        self._replies: dict[str, Callable[[Given, str | None], Reply]] = {
            "search": self._search,
            "search_by_body": self._search,
            "documents": self._documents,
            "document": self._document,
            "passage": self._passage,
            "facets": self._facets,
            "graph": self._graph,
            "status": self._status,
            "refresh": lambda _, root: (self.state.roots.fresh(root)[0].to_dict(), ""),
            "health": lambda _, __: ({"status": "ok"}, ""),
            "openapi": lambda _, __: (openapi(self.operations, token is not None), ""),
        }

    def warm(self) -> None:
        """Open the roots before the first question, so that their files are watched."""
        try:
            self.state.roots.fresh(None)
        except TamisError as error:
            log.warning("%s (%s)", error.message, error.hint)

    async def respond(
        self, operations: Mapping[str, Operation], request: Request
    ) -> Response:
        """Answer a request with the operation of its method."""
        operation = operations["GET" if request.method == "HEAD" else request.method]
        if operation.takes_body:
            arguments = await self._body(request)
        else:
            arguments = from_query(operation, request.query_params.multi_items())
        given = read(operation.arguments, arguments, operation.name)
        given |= request.path_params
        if operation.name == "events":
            return self._events()
        if operation.path == "/session":
            return self._session(given.get("token"), request.url.scheme == "https")
        known_tag = ""
        if operation.has_tag:
            known_tag = request.headers.get("if-none-match", "")
        return await self.state.answer(
            operation.name, partial(self._respond, operation, given, known_tag)
        )

    async def _body(self, request: Request) -> dict[str, Any]:
        if request.query_params:
            raise UsageError(
                "arguments are in the body here", hint="leave the query string out"
            )
        kind = request.headers.get("content-type", "").partition(";")[0]
        if kind.strip().lower() != "application/json":
            raise HTTPException(
                415, "send JSON, and say so: Content-Type: application/json"
            )
        most = self.state.settings.max_body_bytes
        data = bytearray()
        async for part in request.stream():
            data += part
            if len(data) > most:
                raise HTTPException(413, f"a body has at most {most:,} bytes")
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

    # --- replies, made in threads ---------------------------------------------------------------

    def _respond(self, operation: Operation, given: Given, known_tag: str) -> Response:
        """Return the reply, or 304 if the client knows it by its tag."""
        root = given.pop("root", None)
        body = None
        tag = known_tag
        if not known_tag or known_tag != _tag(*self.state.roots.fresh(root)):
            body, tag = self._replies[operation.name](given, root)
        headers = {"cache-control": "no-store"}
        if tag:
            headers = {"cache-control": "no-cache", "etag": tag}
        if tag and tag == known_tag:
            return Response(status_code=304, headers=headers)
        return _json(body, headers=headers)

    def _search(self, given: Given, root: str | None) -> Reply:
        from tamis.search.explain import marks

        cursor = given.pop("cursor", None)
        has_marks = given.pop("marks", False)
        request = SearchRequest(**given)
        paged = self.state.search(request, root, cursor)
        words = self.state.roots.words(request.query) if has_marks else ""
        page = paged.page
        results = []
        for each in page.results:
            plain = each.result.to_dict()
            if self.state.has_several:
                plain["root"] = each.root
            if words:
                plain["marks"] = marks(words, each.result.content).to_dict()
            results.append(plain)
        body = page.found.to_dict() | {
            "results": results,
            "freshness": page.freshness.to_dict(),
            "hints": [hint.worded(_ADVICE) for hint in paged.hints],
        }
        next_cursor = paged.next_cursor(len(results))
        if next_cursor is not None:
            body["next_cursor"] = next_cursor
        return body, _tag(page.freshness, page.generations)

    def _documents(self, given: Given, root: str | None) -> Reply:
        from tamis.live.browse import listed

        text = given.pop("cursor", None)
        limit = given.pop("limit", 100)
        cursor = read_cursor(text, given | {"root": root})
        freshness, generations = self.state.roots.fresh(root)
        request = _narrowing(given)
        listings = self.state.roots.each(
            root, request.workspace, lambda corpus: listed(corpus, request)
        )
        found = [(name, each) for name, own in listings.items() for each in own]
        following = cursor.after(limit, generations)
        documents = []
        for name, each in found[cursor.offset : following.offset]:
            plain = each.to_dict()
            if self.state.has_several:
                plain["root"] = name
            documents.append(plain)
        body = {
            "documents": documents,
            "total": len(found),
            "freshness": freshness.to_dict(),
        }
        if following.offset < len(found):
            body["next_cursor"] = str(following)
        return body, _tag(freshness, generations)

    def _document(self, given: Given, root: str | None) -> Reply:
        """Return a document as it is now: the file may be newer than the index, so its text is in the tag."""
        from tamis.live.browse import reading
        from tamis.server.html import document_html

        path = given.pop("path")
        as_html = given.pop("html", False)
        freshness, generations = self.state.roots.fresh(root)
        request = _narrowing(given)
        name, found = self.state.roots.first(
            root, lambda corpus: reading(corpus, path, request)
        )
        document, directory = found
        folder = self.state.folders[self.state.names.index(name)].path
        body = document.to_dict() | {
            "root": name,
            "file_path": str(folder / document.path),
        }
        if as_html and document.is_markdown:
            linked = name if self.state.has_several else None
            body["html"] = document_html(document, directory, linked)
        return body, _tag(freshness, generations, document.text)

    def _passage(self, given: Given, root: str | None) -> Reply:
        from tamis.live.browse import Wanted, excerpt

        wanted = Wanted(**given)
        freshness, generations = self.state.roots.fresh(root)
        name, found = self.state.roots.first(
            root,
            lambda corpus: excerpt(corpus, wanted, LARGEST_PASSAGE),
            freshness.note,
        )
        body = found.to_dict() | {
            "root": name,
            "hints": [hint.worded(_ADVICE) for hint in found.hints],
            "freshness": freshness.to_dict(),
        }
        return body, _tag(freshness, generations)

    def _facets(self, given: Given, root: str | None) -> Reply:
        from tamis.live.browse import added, facets

        freshness, generations = self.state.roots.fresh(root)
        request = _narrowing(given)
        found = self.state.roots.each(
            root, request.workspace, lambda corpus: facets(corpus, request)
        )
        body = added(found.values()).to_dict() | {"freshness": freshness.to_dict()}
        return body, _tag(freshness, generations)

    def _graph(self, given: Given, root: str | None) -> Reply:
        from tamis.live.browse import graph

        around = given.pop("around")
        hops = given.pop("hops", 2)
        request = _narrowing(given)
        fresh = self.state.roots.fresh(root)
        name, found = self.state.roots.first(
            root, lambda corpus: graph(corpus, around, hops, request)
        )
        return found.to_dict() | {"root": name}, _tag(*fresh)

    def _status(self, _: Given, root: str | None) -> Reply:
        roots = self.state.roots
        found, freshness = roots.status(root)
        body = {
            "roots": [each.to_dict() for each in found],
            "freshness": freshness.to_dict(),
            "now": [each.to_dict() for each in roots.now()],
            "server": {
                "version": tamis.__version__,
                "editor": EDITORS[self.state.settings.editor],
            },
        }
        return body, ""

    # --- sessions and events --------------------------------------------------------------------

    def _session(self, given: str | None, is_https: bool) -> Response:
        """Sign a browser in with the token, or out without one."""
        if given is None or self.token is None:
            response = _json({"signed_in": self.token is None})
            response.delete_cookie(COOKIE, httponly=True, samesite="strict")
            return response
        sent = given.encode("utf-8", "replace")
        if not hmac.compare_digest(sent, self.token.encode()):
            raise HTTPException(401, "this is not the token")
        response = _json({"signed_in": True})
        response.set_cookie(
            COOKIE,
            session_of(self.token),
            httponly=True,
            samesite="strict",
            secure=is_https,
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
        """Yield the state of the roots whenever it changes, until the client or the server ends."""
        self._streams += 1
        try:
            last: Any = None
            silent = 0.0
            while not self.ending.is_set():
                now = await run_in_threadpool(self.state.roots.now)
                silent += _LOOK
                if now != last:
                    data = json.dumps([each.to_dict() for each in now])
                    yield f"event: state\ndata: {data}\n\n".encode()
                    silent = 0.0
                elif silent >= _SILENCE:
                    yield b": still here\n\n"
                    silent = 0.0
                last = now
                await run_in_threadpool(self.ending.wait, _LOOK)
        finally:
            self._streams -= 1


def _narrowing(given: Given) -> SearchRequest:
    """Return a request for its filters alone, and those in a query."""
    return SearchRequest(given.pop("query", ""), **given)


def _tag(freshness: "Freshness", generations: Sequence[int], text: str = "") -> str:
    """Return the tag of an answer: what it depends on besides the question, which is the address."""
    parts = (generations, replace(freshness, as_of=None), tamis.__version__, text)
    digest = blake2b(repr(parts).encode("utf-8", "replace"), digest_size=12)
    return f'W/"{digest.hexdigest()}"'


def _json(
    body: Any,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    media_type: str = "application/json",
) -> Response:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), status, headers, media_type)


# --- the application ----------------------------------------------------------------------------


def application(api: Api, agents: Application, names: Sequence[str]) -> Application:
    """Return the API, the page and the protocol for agents behind the guards that all have."""
    refusals = {HTTPException: _refused, TamisError: _refused, 500: _refused}
    by_path: dict[str, dict[str, Operation]] = {}
    for each in api.operations:
        by_path.setdefault(each.path, {})[each.method] = each
    routes = _files(EDITORS[api.state.settings.editor])
    for path, own in by_path.items():
        address = f"{PREFIX}{path.replace('}', ':path}')}"
        endpoint = partial(api.respond, own)
        routes.append(Route(address, endpoint, methods=list(own)))
    site = Starlette(
        routes=routes,
        middleware=[
            Middleware(GZipMiddleware, minimum_size=_SMALL, compresslevel=_LEVEL)
        ],
        exception_handlers=refusals,
    )
    pages = _shielded(site)

    async def served(scope: Any, receive: Any, send: Any) -> None:
        is_page = scope["type"] == "http" and scope["path"].rstrip("/") != AGENTS_PATH
        await (pages if is_page else agents)(scope, receive, send)

    guarded = in_time(served, api.state.settings.deadline)
    token = api.token
    if token is not None:
        opened = {f"{PREFIX}{each.path}" for each in api.operations if each.is_open}

        def passes(scope: Any) -> bool:
            path = scope["path"]
            is_private = path.startswith((PREFIX, AGENTS_PATH)) and path not in opened
            return not is_private or has_session(scope, token)

        guarded = with_token(guarded, token, passes)
    return with_names(guarded, names)


async def _refused(_: Request, error: Exception) -> Response:
    headers = {"cache-control": "no-store"}
    if isinstance(error, HTTPException):
        headers |= error.headers or {}
        body = problem(error.status_code, error.detail)
    else:
        fault = error if isinstance(error, TamisError) else InternalFault()
        body = problem(fault.http_status, fault.message, fault.hint)
    return _json(body, body["status"], headers, PROBLEM)


def _files(editor: str) -> list[Route]:
    """Return the page's files, read once: no requested path reaches the disk."""
    meta = f'{_EDITOR[:-2]}{escape(editor)}">'
    routes = []
    for file in sorted(WEB.iterdir()):
        data = file.read_bytes()
        address = f"/{file.name}"
        if file.name == "index.html":
            data = data.replace(_EDITOR.encode(), meta.encode())
            address = "/"
        tag = f'"{blake2b(data, digest_size=12).hexdigest()}"'
        endpoint = partial(_file, data, tag, _TYPES[file.suffix])
        routes.append(Route(address, endpoint))
    return routes


async def _file(data: bytes, tag: str, media_type: str, request: Request) -> Response:
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type=media_type)


def _shielded(site: Application) -> Application:
    """Add the security headers, and refuse the API to other sites, which a browser names."""
    own = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]

    async def shielded(scope: Any, receive: Any, send: Any) -> None:
        async def with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *own]
            await send(message)

        from_site = dict(scope["headers"]).get(b"sec-fetch-site")
        is_foreign = from_site in (b"cross-site", b"same-site")
        if is_foreign and scope["path"].startswith(PREFIX):
            await refuse(with_headers, 403, "asked by a page of another site")
        else:
            await site(scope, receive, with_headers)

    return shielded
