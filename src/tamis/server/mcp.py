"""The Model Context Protocol: agents ask here. The SDK, and anyio with it, lives behind this file.

Nothing that reads an index is imported before the first call: a client waits for the list of tools, and for
nothing else. Calls run in threads; one that is cancelled, or out of time, is answered at once, and its thread
ends by itself. At most `_AT_ONCE` run side by side, unless the desk is told otherwise.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread
import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage

import tamis
from tamis.errors import TamisError, UsageError
from tamis.live.folders import Folder
from tamis.request import SearchRequest, read
from tamis.server.broken import is_blank, request_id
from tamis.server.paging import (
    SCHEME,
    Cursor,
    digest,
    document_address,
    document_path,
    media_type,
    read_cursor,
)
from tamis.server.tools import Tool, tools_for
from tamis.settings import ServerSettings
from tamis.text.printable import visible

if TYPE_CHECKING:
    from tamis.live.corpus import Watch
    from tamis.live.roots import Page, Roots
    from tamis.live.watcher import Said
    from tamis.model import Report
    from tamis.server.mcp_text import Told
    from tamis.server.run import Application


Context = ServerRequestContext[Any, Any]
Answer = TypeVar("Answer")

log = logging.getLogger("tamis.mcp")

_AT_ONCE: Final = 4  # searches side by side: each uses several threads itself
_HOUR: Final = 3_600_000
_SOON: Final = 0.5  # seconds: the list of tools goes out first
_SECONDS_BETWEEN: Final = 0.2  # progress notifications
_PER_PAGE: Final = 100  # resources in a list, values of a completion
_LONGEST_ERROR: Final = 2_000
_INSTRUCTIONS: Final = (
    "tamis searches the documents and code in folders of this machine. Search first (query_documents), read "
    "what looks right (get_passage), search again narrower with filters. Cite path:lines. When "
    "freshness.complete is false, indexing goes on: ask again for more."
)


class Desk:
    """Where the protocol's requests are answered, from roots that are opened when they are first asked."""

    def __init__(
        self,
        folders: Sequence[Folder],
        settings: ServerSettings,
        at_once: int = _AT_ONCE,
    ) -> None:
        self.folders = folders
        self.settings = settings
        self._at_once = at_once
        self.tools = tools_for([each.name for each in folders])
        self._several = len(folders) > 1
        self._lock = threading.Lock()
        self._roots: Roots | None = None
        self._limiter: anyio.CapacityLimiter | None = None
        self._faults: dict[str, str] = {}  # what was said last, by root

    # --- The protocol's requests --------------------------------------------------------------

    async def list_tools(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self._warm_soon()
        return types.ListToolsResult(
            tools=[_declared(tool) for tool in self.tools.values()]
        )

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = self.tools.get(params.name)
        if tool is None:
            known = ", ".join(self.tools)
            raise MCPError(
                types.INVALID_PARAMS,
                _clean(f"there is no tool {params.name}; known: {known}"),
            )
        try:
            arguments = read(tool.parameters, params.arguments or {}, tool.name)
            return await self.in_thread(
                partial(self._call, tool.name, arguments, _watcher(ctx))
            )
        except TimeoutError:
            return _failed(
                f"no answer within {self.settings.deadline:g} s",
                "ask for less, or raise server.deadline",
            )
        except TamisError as error:
            return _failed(error.message, error.hint)
        except Exception:
            log.exception("%s failed", tool.name)
            return _failed(
                "this is a fault in tamis itself", "the server's log has the details"
            )

    async def list_resources(
        self, _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = params.cursor if params else None
        try:
            start = read_cursor(cursor).offset if cursor else 0
        except UsageError as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from error
        documents = await self.in_thread(lambda: self.opened().documents())
        shown = documents[start : start + _PER_PAGE]
        following = start + _PER_PAGE
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=self._address(root, path), name=path, mime_type=media_type(path)
                )
                for root, path in shown
            ],
            next_cursor=str(Cursor(following)) if following < len(documents) else None,
        )

    async def list_templates(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        where = "{root}/{+path}" if self._several else "{+path}"
        template = types.ResourceTemplate(
            uri_template=f"{SCHEME}{where}",
            name="document",
            description="An indexed document as it is now.",
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(
        self, _: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        unknown = MCPError(
            types.INVALID_PARAMS, "Resource not found", data={"uri": _clean(uri)}
        )
        place = self._place(uri)
        if place is None:
            raise unknown
        try:
            text = await self.in_thread(lambda: self.opened().text(*place))
        except (KeyError, UsageError) as error:
            raise unknown from error
        except TamisError as error:
            raise MCPError(
                types.INTERNAL_ERROR, _clean(f"{error.message} ({error.hint})")
            ) from error
        contents = types.TextResourceContents(
            uri=uri, text=text, mime_type=media_type(place[1])
        )
        return types.ReadResourceResult(contents=[contents])

    async def list_prompts(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        from tamis.server.prompts import PROMPTS

        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=prompt.name,
                    description=prompt.description,
                    arguments=[
                        types.PromptArgument(
                            name=name, description=doc, required=name in prompt.required
                        )
                        for name, doc in prompt.arguments.items()
                    ],
                )
                for prompt in PROMPTS.values()
            ]
        )

    async def get_prompt(
        self, _: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        from tamis.server.prompts import PROMPTS, fill

        if params.name not in PROMPTS:
            known = ", ".join(PROMPTS)
            raise MCPError(
                types.INVALID_PARAMS,
                _clean(f"there is no prompt {params.name}; known: {known}"),
            )
        prompt = PROMPTS[params.name]
        try:
            text = fill(prompt, params.arguments or {})
        except UsageError as error:
            raise MCPError(
                types.INVALID_PARAMS, _clean(f"{error.message}: {error.hint}")
            ) from error
        message = types.PromptMessage(
            role="user", content=types.TextContent(text=_clean(text, None))
        )
        return types.GetPromptResult(description=prompt.description, messages=[message])

    async def complete(
        self, _: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        from tamis.server.prompts import COMPLETED, matching

        of = COMPLETED.get(params.argument.name)
        values = await self.in_thread(lambda: self.opened().values(of)) if of else []
        found = matching(values, params.argument.value)
        completion = types.Completion(
            values=found[:_PER_PAGE], total=len(found), has_more=len(found) > _PER_PAGE
        )
        return types.CompleteResult(completion=completion)

    # --- The calls, in a thread ---------------------------------------------------------------

    def _call(
        self, name: str, given: dict[str, Any], watch: "Watch"
    ) -> types.CallToolResult:
        from tamis.live.browse import Wanted
        from tamis.server.mcp_text import CHARACTERS, tell_excerpt, tell_status

        roots, root = self.opened(), given.pop("root", None)
        seconds = self.settings.budget_ms / 1000
        most = given.pop("max_tokens", self.settings.max_tokens)
        if name == "index_status":
            return _result(tell_status(*roots.status(root, seconds, watch)))
        if name == "get_passage":
            where, found, fresh = roots.passage(
                Wanted(**given), root, most * CHARACTERS, seconds, watch
            )
            told = tell_excerpt(found, where, fresh, several=self._several)
            return _result(told, [self._link(where, found.path)])
        return self._search(name, given, root, most, watch)

    def _search(
        self,
        name: str,
        given: dict[str, Any],
        root: str | None,
        most: int,
        watch: "Watch",
    ) -> types.CallToolResult:
        from tamis.server.mcp_text import tell_page, with_cursor

        cursor, limit = given.pop("cursor", None), given.pop("limit", None)
        question = digest(given | {"tool": name, "root": root})
        place = read_cursor(cursor, question) if cursor is not None else Cursor(0)
        request = SearchRequest(**_TOOL_DEFAULTS[name] | given, limit=limit)
        page = self.opened().search(
            request, root, place.offset, self.settings.budget_ms / 1000, watch
        )
        told = tell_page(_aware(page, place.generations), most, several=self._several)
        if page.has_more or told.shown < len(page.results):
            told = with_cursor(
                told, str(Cursor(place.offset + told.shown, question, page.generations))
            )
        paths = dict.fromkeys(
            (each.root, each.result.path) for each in page.results[: told.shown]
        )
        return _result(told, [self._link(*each) for each in paths])

    def opened(self) -> "Roots":
        from tamis.live.roots import Roots

        with self._lock:
            if self._roots is None:
                self._roots = Roots(self.folders, self._log)
            return self._roots

    def _log(self, root: str, said: "Said | Report | TamisError") -> None:
        """What happens without a question, once: a fault stays the same until a run has succeeded."""
        from tamis.model import Report

        if isinstance(said, Report):
            self._faults.pop(root, None)
            log.info(
                "%s: indexed %d, removed %d in %.1f s",
                root,
                said.indexed,
                said.removed,
                said.seconds,
            )
        elif isinstance(said, TamisError):
            if self._faults.get(root) != said.message:
                log.warning("%s: %s (%s)", root, said.message, said.hint)
            self._faults[root] = said.message
        else:
            level = (
                logging.INFO
                if said.state in ("watching", "following")
                else logging.WARNING
            )
            log.log(
                level,
                "%s: %s%s",
                root,
                said.message,
                f" ({said.hint})" if said.hint else "",
            )

    def _warm_soon(self) -> None:
        """Import what the first call will need, while the client thinks about what to ask."""
        if self._roots is None:
            soon = threading.Timer(_SOON, import_module, ["tamis.server.mcp_text"])
            soon.daemon = True
            soon.start()

    def close(self) -> None:
        with self._lock:
            if self._roots is not None:
                self._roots.close()

    async def in_thread(self, work: Callable[[], Answer]) -> Answer:
        self._limiter = self._limiter or anyio.CapacityLimiter(self._at_once)
        with anyio.fail_after(self.settings.deadline):
            return await anyio.to_thread.run_sync(
                work, limiter=self._limiter, abandon_on_cancel=True
            )

    # --- Addresses ----------------------------------------------------------------------------

    def _address(self, root: str, path: str) -> str:
        return document_address(f"{root}/{path}" if self._several else path)

    def _link(self, root: str, path: str) -> types.ResourceLink:
        return types.ResourceLink(
            uri=self._address(root, path), name=path, mime_type=media_type(path)
        )

    def _place(self, uri: str) -> tuple[str, str] | None:
        """Root and path of an address of ours. Whether there is such a document, the index knows."""
        path = document_path(uri)
        if path is None or not self._several:
            return None if path is None else (self.folders[0].name, path)
        root, _, path = path.partition("/")
        return (root, path) if root in {each.name for each in self.folders} else None


# What the tools differ in (C15, C31, R001-028).
_TOOL_DEFAULTS: Final[Mapping[str, dict[str, Any]]] = {
    "query_documents": {},
    "query_unique_documents": {"unique": True},
    "graphrag_hybrid_search": {
        "include_graph_context": True,
        "max_hops": 2,
        "use_rrf": True,
        "rerank_with_recency": True,
    },
}


def _declared(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema(),
        output_schema=dict(tool.output),
        annotations=types.ToolAnnotations(
            read_only_hint=True, idempotent_hint=True, open_world_hint=False
        ),
    )


def _result(
    told: "Told", links: Sequence[types.ResourceLink] = ()
) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=told.text), *links],
        structured_content=told.structured,
    )


def _failed(message: str, hint: str) -> types.CallToolResult:
    text = f"error: {visible(message)}" + (f"\nhint: {visible(hint)}" if hint else "")
    return types.CallToolResult(
        content=[types.TextContent(text=_clean(text))], is_error=True
    )


def _clean(text: str, most: int | None = _LONGEST_ERROR) -> str:
    """Text that any client can read: not too much of it, and no half characters."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return whole if most is None or len(whole) <= most else f"{whole[:most]}..."


def _watcher(ctx: Context) -> "Watch":
    """Tells the client how far indexing is, now and then, if it has asked for that. Called in a thread."""
    last = [0.0, -1.0]

    def watch(done: int, total: int, message: str) -> None:
        now = time.monotonic()
        if done <= last[1] or (now - last[0] < _SECONDS_BETWEEN and done < total):
            return
        last[:] = [now, float(done)]
        with suppress(RuntimeError):  # the call was cancelled, and nobody listens
            anyio.from_thread.run(
                ctx.session.report_progress, float(done), float(total), message
            )

    return watch


def _aware(page: "Page", before: Sequence[int]) -> "Page":
    """With a word of warning where the index is another than the one that gave the cursor."""
    if not before or tuple(before) == page.generations:
        return page
    from tamis.model import Hint

    changed = "the index has changed since the page before: results may be missing or come twice"
    return replace(page, hints=(*page.hints, Hint(changed)))


# --- The server -----------------------------------------------------------------------------


def make_server(desk: Desk) -> Server[Any]:
    still, soon = CacheHint(_HOUR, "public"), CacheHint(5_000, "private")
    tools = desk.tools
    return Server(
        "tamis",
        version=tamis.__version__,
        title="tamis",
        instructions=_INSTRUCTIONS,
        cache_hints={
            "server/discover": still,
            "tools/list": still,
            "prompts/list": still,
            "resources/templates/list": still,
            "resources/list": soon,
            "resources/read": soon,
        },
        get_tool_input_schema=lambda name: (
            tools[name].input_schema() if name in tools else None
        ),
        on_list_tools=desk.list_tools,
        on_call_tool=desk.call_tool,
        on_list_resources=desk.list_resources,
        on_list_resource_templates=desk.list_templates,
        on_read_resource=desk.read_resource,
        on_list_prompts=desk.list_prompts,
        on_get_prompt=desk.get_prompt,
        on_completion=desk.complete,
    )


def run_stdio(desk: Desk, heard: TextIO, told: TextIO) -> None:
    """Until the client closes its end."""
    server = make_server(desk)

    async def serve() -> None:
        passed, messages = anyio.create_memory_object_stream[Any](0)
        pipes = stdio_server(anyio.wrap_file(heard), anyio.wrap_file(told))
        async with pipes as (incoming, outgoing), anyio.create_task_group() as group:
            group.start_soon(_pass_on, incoming, passed, outgoing)
            await server.run(messages, outgoing, server.create_initialization_options())
            group.cancel_scope.cancel()

    anyio.run(serve)


async def _pass_on(incoming: Any, passed: Any, outgoing: Any) -> None:
    """Messages go on to the server; a line that is none is answered here."""
    async with passed:
        async for item in incoming:
            if not isinstance(item, Exception):
                await passed.send(item)
            elif not is_blank(item):
                error = types.ErrorData(
                    code=types.PARSE_ERROR,
                    message="this is no message that can be read",
                )
                answer = types.JSONRPCError(
                    jsonrpc="2.0", id=request_id(item), error=error
                )
                await outgoing.send(SessionMessage(answer))


HTTP_PATH: Final = "/mcp"
_LOCAL_NAMES: Final = ("127.0.0.1", "localhost", "::1")
_SLACK: Final = 5.0  # seconds: a call that is out of time says so itself, before this


def http_application(desk: Desk, names: Sequence[str]) -> "Application":
    return over_http(make_server(desk), names, desk.settings)


def over_http(
    server: Server[Any], names: Sequence[str], settings: ServerSettings
) -> "Application":
    """The protocol over HTTP. Requests for other hosts, or from pages of other sites, are refused.

    A page that somebody visits could otherwise ask a server on their own machine (DNS rebinding).
    """
    known = [f"[{name}]" if ":" in name else name for name in (*_LOCAL_NAMES, *names)]
    origins = [f"{scheme}://{name}" for name in known for scheme in ("http", "https")]
    guard = TransportSecuritySettings(
        allowed_hosts=_any_port(known), allowed_origins=_any_port(origins)
    )
    served = server.streamable_http_app(
        streamable_http_path=HTTP_PATH,
        transport_security=guard,
        max_request_body_size=settings.max_body_bytes,
    )
    return in_time(served, settings.deadline)


def _any_port(names: Sequence[str]) -> list[str]:
    return [*names, *(f"{name}:*" for name in names)]


def in_time(
    application: "Application", deadline: float, slack: float = _SLACK
) -> "Application":
    """An end to requests whose body never comes. Only who listens (GET) may stay for long."""

    async def timed(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] == "GET":
            return await application(scope, receive, send)
        began = False

        async def watched(message: Any) -> None:
            nonlocal began
            began = True
            await send(message)

        with anyio.move_on_after(deadline + slack) as scope_of_time:
            await application(scope, receive, watched)
        if scope_of_time.cancelled_caught and not began:
            from tamis.server.run import refuse

            await refuse(send, 408, "the request took too long")
        return None

    return timed
