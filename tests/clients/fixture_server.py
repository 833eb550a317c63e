"""What the conformance suite asks a server to carry, served the way `tamis mcp` serves its own.

Most scenarios of the suite call tools, resources and prompts of its own invention
(`test_simple_text`, `test://static-text`, ...). A search server has no reason to have them, so here
they are, on a server of their own: same SDK, same HTTP application, same checks on Host and Origin.
It says on standard error where it listens.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types as t
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from tamis.server.mcp import http_application
from tamis.server.run import AGENTS_PATH, Address, listen, with_names
from tamis.settings import ServerSettings

Context = ServerRequestContext[Any, Any]
Answer = t.CallToolResult | t.InputRequiredResult
Tool = Callable[[Context, t.CallToolRequestParams], Awaitable[Answer]]

# One red pixel, and a WAV file of two samples.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
WAV = "UklGRigAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQQAAAAAAAAA"

BUS = InMemorySubscriptionBus()
TOOLS: dict[str, Tool] = {}
SCHEMAS: dict[str, dict[str, Any]] = {}


def tool(name: str, schema: dict[str, Any] | None = None) -> Callable[[Tool], Tool]:
    def add(function: Tool) -> Tool:
        TOOLS[name], SCHEMAS[name] = function, schema or {"type": "object"}
        return function

    return add


def strings(*names: str) -> dict[str, Any]:
    """The schema of an object of strings, all required."""
    return {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": [*names],
    }


def text(words: str) -> t.TextContent:
    return t.TextContent(text=words)


def image() -> t.ImageContent:
    return t.ImageContent(data=PNG, mime_type="image/png")


def embedded(uri: str, mime_type: str, words: str) -> t.EmbeddedResource:
    return t.EmbeddedResource(
        resource=t.TextResourceContents(uri=uri, mime_type=mime_type, text=words)
    )


def done(*content: t.ContentBlock | str) -> t.CallToolResult:
    return t.CallToolResult(
        content=[text(each) if isinstance(each, str) else each for each in content]
    )


# Content of every kind


def always(name: str, *content: t.ContentBlock | str) -> None:
    @tool(name)
    async def answer(ctx: Context, params: t.CallToolRequestParams) -> Answer:
        return done(*content)


always("test_simple_text", "This is a simple text response for testing.")
always("test_image_content", image())
always("test_audio_content", t.AudioContent(data=WAV, mime_type="audio/wav"))
always(
    "test_embedded_resource",
    embedded(
        "test://embedded-resource",
        "text/plain",
        "This is an embedded resource content.",
    ),
)
always(
    "test_multiple_content_types",
    "Multiple content types test:",
    image(),
    embedded(
        "test://mixed-content-resource",
        "application/json",
        '{"test":"data","value":123}',
    ),
)


@tool("test_error_handling")
async def error_handling(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    words = "This tool intentionally returns an error for testing"
    return t.CallToolResult(content=[text(words)], is_error=True)


# Notifications while a call runs


@tool("test_tool_with_logging")
async def with_logging(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    for step in ("started", "processing data", "completed"):
        words = (
            f"Tool {step}" if step == "processing data" else f"Tool execution {step}"
        )
        await ctx.session.send_log_message(
            "info", words, related_request_id=ctx.request_id
        )
    return done("logged")


TOOLS["test_logging_tool"], SCHEMAS["test_logging_tool"] = (
    with_logging,
    {"type": "object"},
)


@tool("test_tool_with_progress")
async def with_progress(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    for progress in (0, 50, 100):
        await ctx.session.report_progress(progress, 100)
    return done("progressed")


@tool("test_reconnection")
async def reconnection(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    if ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
    return done("reconnected")


@tool("test_trigger_tool_change")
async def trigger_tool_change(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    await BUS.publish(ToolsListChanged())
    return done("tools changed")


@tool("test_trigger_prompt_change")
async def trigger_prompt_change(
    ctx: Context, params: t.CallToolRequestParams
) -> Answer:
    await BUS.publish(PromptsListChanged())
    return done("prompts changed")


# Questions back to the client, as 2025-11-25 asks them: requests on the stream of the call


@tool("test_sampling", strings("prompt"))
async def sampling(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    question = t.SamplingMessage(
        role="user", content=text((params.arguments or {})["prompt"])
    )
    answer = await ctx.session.create_message(
        [question], max_tokens=100, related_request_id=ctx.request_id
    )
    return done(f"LLM response: {answer.content.text}")


async def elicited(
    ctx: Context, message: str, schema: dict[str, Any]
) -> t.CallToolResult:
    answer = await ctx.session.elicit_form(
        message, schema, related_request_id=ctx.request_id
    )
    return done(
        f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content)}"
    )


@tool("test_elicitation", strings("message"))
async def elicitation(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    return await elicited(
        ctx, (params.arguments or {})["message"], strings("username", "email")
    )


@tool("test_elicitation_sep1034_defaults")
async def elicitation_defaults(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {
            "type": "string",
            "enum": ["active", "inactive", "pending"],
            "default": "active",
        },
        "verified": {"type": "boolean", "default": True},
    }
    return await elicited(
        ctx, "Who are you?", {"type": "object", "properties": properties}
    )


@tool("test_elicitation_sep1330_enums")
async def elicitation_enums(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    plain = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
    properties = {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {
            "type": "string",
            "enum": plain,
            "enumNames": ["One", "Two", "Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await elicited(ctx, "Which?", {"type": "object", "properties": properties})


# Questions back to the client, as 2026-07-28 asks them: an answer that says what is missing


def elicit(message: str, schema: dict[str, Any]) -> t.ElicitRequest:
    return t.ElicitRequest(
        params=t.ElicitRequestFormParams(message=message, requested_schema=schema)
    )


def sample(words: str) -> t.CreateMessageRequest:
    question = t.SamplingMessage(role="user", content=text(words))
    return t.CreateMessageRequest(
        params=t.CreateMessageRequestParams(messages=[question], max_tokens=100)
    )


OK = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
NAME = elicit("What is your name?", strings("name"))
CAPITAL = sample("What is the capital of France?")
ROOTS = t.ListRootsRequest(params=t.RequestParams())
CONFIRM = elicit("Please confirm", OK)


def answered(
    params: t.InputResponseRequestParams, asked: Mapping[str, t.InputRequest]
) -> bool:
    return set(asked) <= set(params.input_responses or {})


def asking(
    name: str, asked: Mapping[str, t.InputRequest], state: str | None = None
) -> None:
    """A tool that is done when all that it asks for is answered, and its state came back with that."""

    @tool(name)
    async def ask(ctx: Context, params: t.CallToolRequestParams) -> Answer:
        if not answered(params, asked) or params.request_state != state:
            return t.InputRequiredResult(
                input_requests=dict(asked), request_state=state
            )
        replies = {
            key: value.model_dump(mode="json")
            for key, value in (params.input_responses or {}).items()
        }
        return done(f"state-ok {json.dumps(replies)}" if state else json.dumps(replies))


asking("test_input_required_result_elicitation", {"user_name": NAME})
asking("test_streaming_elicitation", {"user_name": NAME})
asking("test_input_required_result_sampling", {"capital_question": CAPITAL})
asking("test_input_required_result_list_roots", {"client_roots": ROOTS})
asking("test_input_required_result_request_state", {"confirm": CONFIRM}, "confirming")
asking("test_input_required_result_tampered_state", {"confirm": CONFIRM}, "confirming")
asking(
    "test_input_required_result_multiple_inputs",
    {
        "user_name": NAME,
        "greeting": sample("Generate a greeting"),
        "client_roots": ROOTS,
    },
    "all three",
)


@tool("test_input_required_result_multi_round")
async def multi_round(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    rounds = (
        ("one", {"step1": elicit("Step 1: What is your name?", strings("name"))}),
        (
            "two",
            {"step2": elicit("Step 2: What is your favorite color?", strings("color"))},
        ),
    )
    states = [None, *(state for state, _ in rounds)]
    at = states.index(params.request_state)
    if at and not answered(params, rounds[at - 1][1]):
        at -= 1
    if at == len(rounds):
        return done("both rounds done")
    state, asked = rounds[at]
    return t.InputRequiredResult(input_requests=asked, request_state=state)


@tool("test_input_required_result_capabilities")
async def capabilities(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    able = ctx.session.client_capabilities or t.ClientCapabilities()
    asked: dict[str, t.InputRequest] = {}
    if able.elicitation is not None:
        asked["user_name"] = NAME
    if able.sampling is not None:
        asked["capital_question"] = CAPITAL
    return (
        t.InputRequiredResult(input_requests=asked)
        if asked
        else done("the client can answer nothing")
    )


@tool("test_missing_capability")
async def missing_capability(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    able = ctx.session.client_capabilities
    if able is None or able.sampling is None:
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(
            t.MISSING_REQUIRED_CLIENT_CAPABILITY, "this tool needs sampling", needed
        )
    return done("the client can sample")


# Schemas that must come through as they are


@tool(
    "json_schema_2020_12_tool",
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", **strings("street", "city")}},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {
            "properties": {"contactMethod": {"const": "phone"}},
            "required": ["contactMethod"],
        },
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
async def json_schema(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    return done("listed, never called")


@tool(
    "test_custom_header",
    {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
)
async def custom_header(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    return done(f"region {(params.arguments or {}).get('region')}")


# Handlers


async def list_tools(
    ctx: Context, params: t.PaginatedRequestParams | None
) -> t.ListToolsResult:
    return t.ListToolsResult(
        tools=[
            t.Tool(name=name, description=f"The suite's {name}.", input_schema=schema)
            for name, schema in SCHEMAS.items()
        ]
    )


async def call_tool(ctx: Context, params: t.CallToolRequestParams) -> Answer:
    if params.name not in TOOLS:
        raise MCPError(t.INVALID_PARAMS, f"no tool {params.name}")
    return await TOOLS[params.name](ctx, params)


RESOURCES: dict[str, t.TextResourceContents | t.BlobResourceContents] = {
    "test://static-text": t.TextResourceContents(
        uri="test://static-text",
        mime_type="text/plain",
        text="This is the content of the static text resource.",
    ),
    "test://static-binary": t.BlobResourceContents(
        uri="test://static-binary", mime_type="image/png", blob=PNG
    ),
    "test://watched-resource": t.TextResourceContents(
        uri="test://watched-resource", mime_type="text/plain", text="Watched."
    ),
}


async def list_resources(
    ctx: Context, params: t.PaginatedRequestParams | None
) -> t.ListResourcesResult:
    return t.ListResourcesResult(
        resources=[
            t.Resource(
                uri=uri,
                name=uri,
                description=f"The suite's {uri}.",
                mime_type=contents.mime_type,
            )
            for uri, contents in RESOURCES.items()
        ]
    )


async def list_templates(
    ctx: Context, params: t.PaginatedRequestParams | None
) -> t.ListResourceTemplatesResult:
    template = t.ResourceTemplate(
        uri_template="test://template/{id}/data",
        name="template",
        mime_type="application/json",
    )
    return t.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(
    ctx: Context, params: t.ReadResourceRequestParams
) -> t.ReadResourceResult:
    uri = params.uri
    if uri in RESOURCES:
        return t.ReadResourceResult(contents=[RESOURCES[uri]])
    key = uri.removeprefix("test://template/").removesuffix("/data")
    if uri != f"test://template/{key}/data":
        raise MCPError(t.INVALID_PARAMS, "Resource not found", {"uri": uri})
    words = json.dumps({"id": key, "templateTest": True, "data": f"Data for ID: {key}"})
    contents = t.TextResourceContents(uri=uri, mime_type="application/json", text=words)
    return t.ReadResourceResult(contents=[contents])


async def nothing(ctx: Context, params: Any) -> t.EmptyResult:
    return t.EmptyResult()


PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def list_prompts(
    ctx: Context, params: t.PaginatedRequestParams | None
) -> t.ListPromptsResult:
    return t.ListPromptsResult(
        prompts=[
            t.Prompt(
                name=name,
                description=f"The suite's {name}.",
                arguments=[
                    t.PromptArgument(name=argument, required=True)
                    for argument in arguments
                ],
            )
            for name, arguments in PROMPTS.items()
        ]
    )


async def get_prompt(
    ctx: Context, params: t.GetPromptRequestParams
) -> t.GetPromptResult | t.InputRequiredResult:
    given = params.arguments or {}
    content: list[t.ContentBlock]
    match params.name:
        case "test_simple_prompt":
            content = [text("This is a simple prompt for testing.")]
        case "test_prompt_with_arguments":
            content = [
                text(
                    f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
                )
            ]
        case "test_prompt_with_embedded_resource":
            words = "Embedded resource content for testing."
            content = [
                embedded(given["resourceUri"], "text/plain", words),
                text("Please process the embedded resource above."),
            ]
        case "test_prompt_with_image":
            content = [image(), text("Please analyze the image above.")]
        case "test_input_required_result_prompt":
            asked = {
                "user_context": elicit(
                    "What context should the prompt use?", strings("context")
                )
            }
            if not answered(params, asked):
                return t.InputRequiredResult(input_requests=asked)
            content = [text("With context.")]
        case _:
            raise MCPError(t.INVALID_PARAMS, f"no prompt {params.name}")
    return t.GetPromptResult(
        messages=[t.PromptMessage(role="user", content=each) for each in content]
    )


async def complete(ctx: Context, params: t.CompleteRequestParams) -> t.CompleteResult:
    values = [
        each
        for each in ("paris", "park", "party")
        if each.startswith(params.argument.value)
    ]
    return t.CompleteResult(
        completion=t.Completion(values=values, total=len(values), has_more=False)
    )


def fixture() -> Server[Any]:
    warnings.simplefilter(
        "ignore", MCPDeprecationWarning
    )  # the suite asks for what 2026-07-28 deprecates
    server: Server[Any] = Server(
        "tamis-conformance-fixture",
        version="1",
        get_tool_input_schema=SCHEMAS.get,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_subscribe_resource=nothing,
        on_unsubscribe_resource=nothing,
        on_subscriptions_listen=ListenHandler(BUS),
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_set_logging_level=nothing,
    )
    server.middleware.append(
        RequestStateBoundary(
            RequestStateSecurity.ephemeral(), default_audience="fixture"
        )
    )
    return server


if __name__ == "__main__":
    listen(
        with_names(http_application(fixture(), ServerSettings()), (), any_port=True),
        Address("127.0.0.1", 0),
        AGENTS_PATH,
        "nothing",
    )
