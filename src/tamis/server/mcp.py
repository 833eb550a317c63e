"""The Model Context Protocol: agents ask here. The SDK lives behind this file.

A client waits for the list of tools, so nothing that reads an index is imported before the first
call.
"""

import json
import os
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import quote, unquote

import anyio
import anyio.from_thread
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
from tamis.request import SearchRequest, read
from tamis.server.run import AGENTS_PATH, Application
from tamis.server.schema import Tool, tools_for
from tamis.server.state import ServerState, read_cursor
from tamis.settings import ServerSettings
from tamis.text.printable import visible

if TYPE_CHECKING:
    from tamis.live.corpus import Watch
    from tamis.server.mcp_text import Reply

Context = ServerRequestContext[Any, Any]

SCHEME = "tamis://doc/"
_MEDIA_TYPES = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".json": "application/json",
}
_HOUR = 3_600_000
_SOON = 0.5  # seconds: the list of tools goes out first
_SECONDS_BETWEEN = 0.2  # progress notifications
_PER_PAGE = 100  # resources in a list, values of a completion
_LONGEST_ERROR = 2_000
_INSTRUCTIONS = (
    "tamis searches the documents and code in folders of this machine. Search first (query_documents), read "
    "what looks right (get_passage), search again narrower with filters. Cite path:lines. When "
    "freshness.complete is false, indexing goes on: ask again for more."
)


def make_server(state: ServerState) -> Server[Any]:
    """Return a server of the protocol over these roots."""
    agents = _Requests(state)
    still = CacheHint(_HOUR, "public")
    soon = CacheHint(5_000, "private")
    schemas = {name: tool.input_schema() for name, tool in agents.tools.items()}
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
        get_tool_input_schema=schemas.get,
        on_list_tools=agents.list_tools,
        on_call_tool=agents.call_tool,
        on_list_resources=agents.list_resources,
        on_list_resource_templates=agents.list_templates,
        on_read_resource=agents.read_resource,
        on_list_prompts=agents.list_prompts,
        on_get_prompt=agents.get_prompt,
        on_completion=agents.complete,
    )


class _Requests:
    """Answers the protocol's requests from the state of a server."""

    def __init__(self, state: ServerState) -> None:
        self.tools = tools_for(state.names)
        self._state = state
        self._is_warm = False

    # --- tools ----------------------------------------------------------------------------------

    async def list_tools(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        if not self._is_warm:
            # Import what the first call needs while the client thinks about what to ask.
            self._is_warm = True
            soon = threading.Timer(_SOON, import_module, ["tamis.live.roots"])
            soon.daemon = True
            soon.start()
        annotations = types.ToolAnnotations(
            read_only_hint=True, idempotent_hint=True, open_world_hint=False
        )
        tools = []
        for tool in self.tools.values():
            declared = types.Tool(
                name=tool.name,
                description=tool.description,
                input_schema=tool.input_schema(),
                output_schema=dict(tool.output),
                annotations=annotations,
            )
            tools.append(declared)
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = self.tools.get(params.name)
        if tool is None:
            raise _unknown("tool", params.name, self.tools)
        arguments = params.arguments or {}
        watch = _watcher(ctx)
        try:
            return await self._state.answer(
                tool.name, lambda: self._call(tool, arguments, watch)
            )
        except TamisError as error:
            text = f"error: {visible(error.message)}"
            if error.hint:
                text += f"\nhint: {visible(error.hint)}"
            content = types.TextContent(text=_clean(text))
            return types.CallToolResult(content=[content], is_error=True)

    def _call(
        self, tool: Tool, arguments: dict[str, Any], watch: "Watch"
    ) -> types.CallToolResult:
        """Answer a call, in a thread."""
        from tamis.live.browse import Wanted, excerpt
        from tamis.server.mcp_text import (
            CHARACTERS,
            excerpt_reply,
            page_reply,
            status_reply,
        )

        state = self._state
        given = read(tool.arguments, arguments, tool.name)
        root = given.pop("root", None)
        most = given.pop("max_tokens", state.settings.max_tokens)
        if tool.name == "index_status":
            found = state.roots.status(root, watch)
            return self._result(status_reply(*found))
        if tool.name == "get_passage":
            wanted = Wanted(**given)
            freshness, _ = state.roots.fresh(root, watch)
            where, passage = state.roots.first(
                root,
                lambda corpus: excerpt(corpus, wanted, most * CHARACTERS),
                freshness.note,
            )
            reply = excerpt_reply(
                passage, where, freshness, has_several=state.has_several
            )
            return self._result(reply, [(where, passage.path)])
        cursor = given.pop("cursor", None)
        request = SearchRequest(**{**tool.defaults, **given})
        paged = state.search(request, root, cursor, watch)
        reply = page_reply(paged, most, has_several=state.has_several)
        shown = paged.page.results[: len(reply.structured["results"])]
        return self._result(reply, [(each.root, each.result.path) for each in shown])

    def _result(
        self, reply: "Reply", documents: Sequence[tuple[str, str]] = ()
    ) -> types.CallToolResult:
        links = []
        for root, path in dict.fromkeys(documents):
            uri = self._address(root, path)
            kind = media_type(path)
            link = types.ResourceLink(uri=uri, name=path, mime_type=kind)
            links.append(link)
        return types.CallToolResult(
            content=[types.TextContent(text=reply.text), *links],
            structured_content=reply.structured,
        )

    # --- documents as resources -----------------------------------------------------------------

    async def list_resources(
        self, _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        given = params.cursor if params else None
        try:
            cursor = read_cursor(given or None, {})
        except UsageError as error:
            raise MCPError(types.INVALID_PARAMS, error.message) from error
        documents = await self._state.answer(
            "resources/list", lambda: self._state.roots.documents()
        )
        following = cursor.after(_PER_PAGE)
        resources = []
        for root, path in documents[cursor.offset : following.offset]:
            uri = self._address(root, path)
            kind = media_type(path)
            resource = types.Resource(uri=uri, name=path, mime_type=kind)
            resources.append(resource)
        found = types.ListResourcesResult(resources=resources)
        if following.offset < len(documents):
            found.next_cursor = str(following)
        return found

    async def list_templates(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        path = "{root}/{+path}" if self._state.has_several else "{+path}"
        template = types.ResourceTemplate(
            uri_template=f"{SCHEME}{path}",
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
        path = document_path(uri)
        if path is None:
            raise unknown
        root = self._state.names[0]
        if self._state.has_several:
            root, _slash, path = path.partition("/")
        try:
            text = await self._state.answer(
                "resources/read", lambda: self._state.roots.text(root, path)
            )
        except UsageError as error:
            raise unknown from error
        except TamisError as error:
            message = _clean(f"{error.message} ({error.hint})")
            raise MCPError(types.INTERNAL_ERROR, message) from error
        contents = types.TextResourceContents(
            uri=uri, text=text, mime_type=media_type(path)
        )
        return types.ReadResourceResult(contents=[contents])

    def _address(self, root: str, path: str) -> str:
        if self._state.has_several:
            path = f"{root}/{path}"
        return document_address(path)

    # --- prompts, completion --------------------------------------------------------------------

    async def list_prompts(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        from tamis.server.mcp_text import PROMPTS

        prompts = []
        for prompt in PROMPTS.values():
            arguments = []
            for each in prompt.arguments:
                argument = types.PromptArgument(
                    name=each.name, description=each.help, required=each.required
                )
                arguments.append(argument)
            declared = types.Prompt(
                name=prompt.name, description=prompt.description, arguments=arguments
            )
            prompts.append(declared)
        return types.ListPromptsResult(prompts=prompts)

    async def get_prompt(
        self, _: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        from tamis.server.mcp_text import PROMPTS

        prompt = PROMPTS.get(params.name)
        if prompt is None:
            raise _unknown("prompt", params.name, PROMPTS)
        try:
            text = prompt.fill(params.arguments or {})
        except UsageError as error:
            fault = _clean(f"{error.message}: {error.hint}")
            raise MCPError(types.INVALID_PARAMS, fault) from error
        content = types.TextContent(text=text)
        message = types.PromptMessage(role="user", content=content)
        return types.GetPromptResult(description=prompt.description, messages=[message])

    async def complete(
        self, _: Context, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        from tamis.server.mcp_text import COMPLETED, matching

        name = params.argument.name
        values: list[str] = []
        if name in COMPLETED:
            values = await self._state.answer(
                "completion", lambda: self._state.roots.values(name)
            )
        found = matching(values, params.argument.value)
        completion = types.Completion(
            values=found[:_PER_PAGE], total=len(found), has_more=len(found) > _PER_PAGE
        )
        return types.CompleteResult(completion=completion)


def document_address(path: str) -> str:
    """Return the address of a document: `tamis://doc/docs/api.md`."""
    return SCHEME + quote(path)


def document_path(address: str) -> str | None:
    """Return the path in an address, None if it is not one of ours."""
    if not address.startswith(SCHEME):
        return None
    return unquote(address.removeprefix(SCHEME))


def media_type(path: str) -> str:
    """Return the media type of a document."""
    extension = os.path.splitext(path)[1].lower()
    return _MEDIA_TYPES.get(extension, "text/plain")


def _unknown(kind: str, name: str, known: Collection[str]) -> MCPError:
    message = f"there is no {kind} {name}; known: {', '.join(known)}"
    return MCPError(types.INVALID_PARAMS, _clean(message))


def _clean(text: str) -> str:
    """Return the text of an error as any client can read it: short, without half characters."""
    if len(text) > _LONGEST_ERROR:
        text = f"{text[:_LONGEST_ERROR]}..."
    return text.encode("utf-8", "replace").decode("utf-8")


def _watcher(ctx: Context) -> "Watch":
    """Return what reports the progress of indexing to the client, now and then, from a thread."""
    last_time = 0.0
    last_done = -1

    def watch(done: int, total: int, message: str) -> None:
        nonlocal last_time, last_done
        now = time.monotonic()
        is_early = now - last_time < _SECONDS_BETWEEN and done < total
        if done <= last_done or is_early:
            return
        last_time = now
        last_done = done
        report = ctx.session.report_progress
        with suppress(RuntimeError):  # the call was cancelled: nobody listens
            anyio.from_thread.run(report, float(done), float(total), message)

    return watch


# --- the transports -----------------------------------------------------------------------------


def http_application(server: Server[Any], settings: ServerSettings) -> Application:
    """Return a server of the protocol as an application, which leaves Host and Origin to others."""
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    return server.streamable_http_app(
        streamable_http_path=AGENTS_PATH,
        transport_security=unchecked,
        max_request_body_size=settings.max_body_bytes,
    )


def run_stdio(state: ServerState, requests: TextIO, answers: TextIO) -> None:
    """Serve a client over two pipes until it closes its end."""
    server = make_server(state)

    async def serve() -> None:
        passed, messages = anyio.create_memory_object_stream[Any](0)
        pipes = stdio_server(anyio.wrap_file(requests), anyio.wrap_file(answers))
        async with pipes as (incoming, outgoing), anyio.create_task_group() as group:
            group.start_soon(_pass_on, incoming, passed, outgoing)
            await server.run(messages, outgoing, server.create_initialization_options())
            group.cancel_scope.cancel()

    anyio.run(serve)


async def _pass_on(incoming: Any, passed: Any, outgoing: Any) -> None:
    """Pass messages on to the server, and answer lines that are none.

    The SDK would drop those lines. Its JSON reader is strict (no half characters, nesting of some
    two hundred levels), so a request that other readers understand may be among them.
    """
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


def is_blank(error: Exception) -> bool:
    """Return True if the line that could not be read is blank."""
    return all(isinstance(sent, str) and not sent.strip() for sent in _sent(error))


def request_id(error: Exception) -> int | str | None:
    """Return the id of the request that could not be read, None if it has none."""
    for sent in _sent(error):
        if isinstance(sent, str):
            try:
                sent = json.loads(sent)
            except (ValueError, RecursionError):
                continue
        found = sent.get("id") if isinstance(sent, Mapping) else None
        if type(found) is int and abs(found) < 2**53:
            return found
        if isinstance(found, str) and found.isprintable():
            return found
    return None


def _sent(error: Exception) -> Iterator[object]:
    """Yield what the reader was given: the line itself, or parts of what it had made of it."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        for each in errors(include_url=False):
            yield each.get("input")
