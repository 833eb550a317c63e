"""The HTTP API as values: one table of operations makes the strict reading and the OpenAPI document.

Parameters are those of the tools for agents (`tools.py`): the same names, kinds and ranges, read alike.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from tamis.errors import UsageError
from tamis.request import ARGUMENTS, Argument
from tamis.server.schema import SCHEMAS
from tamis.server.tools import CURSOR, Tool

PREFIX: Final = "/api/v1"
LARGEST_PAGE: Final = 1_000  # documents in a list
LARGEST_PASSAGE: Final = 400_000  # characters, with its neighbours
_WHOLE: Final = re.compile(r"[+-]?\d{1,40}")
_NUMBER: Final = re.compile(
    r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,3})?"
)
_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing to ask for."""

    name: str
    method: Literal["GET", "POST", "DELETE"]
    path: str  # below the prefix; a part in braces may hold slashes
    summary: str
    answer: str  # the schema of what comes back
    parameters: tuple[Argument, ...] = ()
    in_path: Argument | None = None
    faults: tuple[int, ...] = ()  # statuses besides those that every operation may have
    media_type: str = "application/json"
    success: int = 200
    has_tag: bool = False  # an ETag, and so 304
    is_open: bool = False  # asks for no token

    @property
    def takes_body(self) -> bool:
        return self.method == "POST" and bool(self.parameters)

    @property
    def tool(self) -> Tool:
        """What reads its arguments."""
        return Tool(self.name, self.summary, self.parameters, {})


_Q: Final = replace(ARGUMENTS[0], also=("q",))
_MARKS: Final = Argument(
    "marks",
    "flag",
    "Tell where the question's words are in each passage, and its best sentence.",
)
_SEARCH: Final = (_Q, CURSOR, *ARGUMENTS[1:], _MARKS)
_NARROWING: Final = tuple(each for each in ARGUMENTS if each.narrows)
_PATH: Final = Argument(
    "path", "text", "A document's path below its root.", required=True
)
_CHUNK: Final = Argument(
    "chunk_id",
    "text",
    "From a result: docs/api.md#3, with # written %23.",
    required=True,
)
_TYPED: Final = Argument(
    "query", "text", "Filters that were typed with a question count.", also=("q",)
)

OPERATIONS: Final = (
    Operation(
        "search", "GET", "/search", "Find passages.", "Found", _SEARCH, faults=(404, 409), has_tag=True
    ),
    Operation(
        "search_by_body", "POST", "/search", "Find passages; arguments as JSON.", "Found", _SEARCH,
        faults=(404, 409, 408, 413, 415),
    ),
    Operation(
        "documents", "GET", "/documents", "List the documents that a filter lets through, by path.",
        "Documents",
        (Argument("limit", "integer", low=1, high=LARGEST_PAGE, default=100), CURSOR, *_NARROWING),
        faults=(404, 409), has_tag=True,
    ),
    Operation(
        "document", "GET", "/documents/{path}",
        "Read a document as it is now, with its outline, links and backlinks. Filters are about those links.",
        "Document", (Argument("html", "flag", "Markdown as HTML too, made safe."), *_NARROWING), _PATH,
        faults=(404, 409), has_tag=True,
    ),
    Operation(
        "passage", "GET", "/passages/{chunk_id}", "Read a passage.", "Excerpt",
        (Argument("neighbours", "integer", "Passages before and after it.", low=0, high=20),), _CHUNK,
        faults=(404, 409), has_tag=True,
    ),
    Operation(
        "facets", "GET", "/facets", "Count the documents that a filter lets through, by what they have.",
        "Facets", (_TYPED, *_NARROWING), faults=(404, 409), has_tag=True,
    ),
    Operation(
        "graph", "GET", "/graph", "The links round a document, among those that a filter lets through.",
        "Graph",
        (
            Argument("around", "text", "A document's path.", required=True),
            Argument("hops", "integer", low=1, high=3, default=2),
            *_NARROWING,
        ),
        faults=(404, 409), has_tag=True,
    ),
    Operation(
        "status", "GET", "/status", "What is indexed, how fresh it is, what was skipped.", "Status",
        faults=(409,),
    ),
    Operation(
        "events", "GET", "/events",
        "Server-sent events: `state` whenever indexing gets on or a new generation is there.", "Event",
        media_type="text/event-stream", faults=(429,),
    ),
    Operation("refresh", "POST", "/refresh", "Look for changed files now.", "Freshness", faults=(408, 409)),
    Operation("health", "GET", "/health", "Whether the server answers.", "Health", is_open=True),
    Operation(
        "sign_in", "POST", "/session", "Send the token once, and be known by a cookie from then on.",
        "Session", (Argument("token", "text", "The server's token.", required=True),),
        faults=(408, 413, 415), is_open=True,
    ),
    Operation("sign_out", "DELETE", "/session", "Be known no longer.", "Session", is_open=True),
    Operation("openapi", "GET", "/openapi.json", "This document.", "OpenAPI", is_open=True),
)  # fmt: skip


def operations_for(roots: Sequence[str]) -> tuple[Operation, ...]:
    """With several roots each can be asked about one of them."""
    if len(roots) < 2:
        return OPERATIONS
    root = Argument("root", "text", "One of the roots.", choices=tuple(roots))
    asked = {
        "search",
        "search_by_body",
        "documents",
        "document",
        "passage",
        "facets",
        "graph",
        "status",
    }
    return tuple(
        replace(each, parameters=(*each.parameters, root))
        if each.name in asked
        else each
        for each in OPERATIONS
    )


# --- Reading what a URL has -----------------------------------------------------------------


def from_query(
    operation: Operation, given: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """The arguments in a query string, as JSON would have them. A list is a name that comes several times."""
    names = {
        name: each for each in operation.parameters for name in (each.name, *each.also)
    }
    found: dict[str, Any] = {}
    for name, text in given:
        parameter = names.get(name)
        if parameter is not None and parameter.kind == "texts":
            found.setdefault(name, []).append(text)
        elif name in found:
            raise UsageError(f"{name} is given twice", hint="leave one out")
        else:
            found[name] = text if parameter is None else _value(parameter, text)
    return found


def _value(parameter: Argument, text: str) -> Any:
    """A text that is no number where one is wanted stays text: whoever reads it says what is wrong."""
    if parameter.kind == "integer" and _WHOLE.fullmatch(text):
        return int(text)
    if parameter.kind == "number" and _NUMBER.fullmatch(text):
        return float(text)
    return _FLAGS.get(text.lower(), text) if parameter.kind == "flag" else text


# --- OpenAPI --------------------------------------------------------------------------------

_ALWAYS: Final = (400, 401, 403, 404, 405, 423, 500, 501, 502, 503, 504, 507)
_SAID: Final = {
    304: "As it was when the ETag was given.",
    400: "What was asked cannot be answered as asked.",
    401: "A token is needed.",
    403: "Asked by another site, or for another host.",
    404: "There is no such document, passage or index.",
    405: "Not with this method.",
    408: "The request took too long to come.",
    409: "The index is another program's, or was made with another model or version.",
    413: "The body is too large.",
    415: "The body must be JSON.",
    423: "Another process is writing the index.",
    429: "Too many listen already.",
    500: "A fault in tamis, or a damaged index.",
    501: "What was asked for needs a model that is not installed.",
    502: "The server that the index is on refuses, or is too old.",
    503: "The server is about to end.",
    504: "No answer within server.deadline.",
    507: "The disk is full, read-only or failing.",
}


def openapi(
    operations: Sequence[Operation], version: str, secured: bool
) -> dict[str, Any]:
    """The API in the terms of OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(f"{PREFIX}{each.path}", {})[each.method.lower()] = _operation(
            each, secured
        )
    schemes = {
        "token": {"type": "http", "scheme": "bearer"},
        "cookie": {"type": "apiKey", "in": "cookie", "name": "tamis"},
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tamis",
            "version": version,
            "description": "Search with filters that are exact.",
        },
        "paths": paths,
        "components": {
            "schemas": dict(SCHEMAS),
            **({"securitySchemes": schemes} if secured else {}),
        },
    }


def _operation(each: Operation, secured: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "parameters": list(map(_parameter, [] if each.takes_body else each.parameters)),
        "responses": _responses(each),
    }
    if each.in_path:
        described["parameters"].append(
            {
                "name": each.in_path.name, "in": "path", "required": True,
                "description": each.in_path.help, "schema": {"type": "string", "minLength": 1},
            }
        )  # fmt: skip
    if each.takes_body:
        schema = each.tool.input_schema()
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schema}},
        }
    if secured and not each.is_open:
        described["security"] = [{"token": []}, {"cookie": []}]
    return described


def _parameter(each: Argument) -> dict[str, Any]:
    schema = {
        name: value for name, value in each.schema().items() if name != "description"
    }
    name = "q" if "q" in each.also else each.name
    told = {"name": name, "in": "query", "required": each.required, "schema": schema}
    return told | ({"description": each.help} if each.help else {})


def _responses(each: Operation) -> dict[str, Any]:
    content = {each.media_type: {"schema": _of(each.answer)}}
    good: dict[str, Any] = {"description": each.summary, "content": content}
    responses: dict[str, Any] = {str(each.success): good}
    if each.has_tag:
        good["headers"] = {"ETag": {"schema": {"type": "string"}}}
        responses["304"] = {"description": _SAID[304]}
    problem = {"application/problem+json": {"schema": _of("Problem")}}
    for status in sorted({*_ALWAYS, *each.faults}):
        responses[str(status)] = {"description": _SAID[status], "content": problem}
    return responses


def _of(schema: str) -> Mapping[str, str]:
    return {"$ref": f"#/components/schemas/{schema}"}
