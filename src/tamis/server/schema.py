"""The tools for agents and the operations of the HTTP API: their arguments, answers and schemas.

The arguments of a search come from `tamis.request`; this module says which of them each tool and
operation takes, and writes the OpenAPI document.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, get_args, get_origin

import tamis
from tamis.errors import UsageError
from tamis.model import IndexState, Place, Related, Result, Step, WhyNot
from tamis.request import ARGUMENTS, Argument, input_schema

Schema = Mapping[str, Any]

PREFIX = "/api/v1"
LARGEST_ANSWER = 100_000  # tokens: more than any client shows
SMALLEST_ANSWER = 200  # tokens: one place, and a line of it
LARGEST_PAGE = 1_000  # documents in a list
LARGEST_PASSAGE = 400_000  # characters, with its neighbours
_ROOM = 80  # characters of names of roots that the list of tools spells out
_CURSOR = Argument("cursor", "text", "next_cursor of the answer before.")


# --- tools for agents ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that agents call."""

    name: str
    description: str
    arguments: tuple[Argument, ...]
    output: Schema
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of its search

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        return input_schema(self.arguments)


# The list of tools describes few arguments, since every word costs an agent's context.
_BRIEFLY = {
    "query": "Words, a question or a symbol.",
    "excluded_files": "File names or paths.",
    "exclude_patterns": "As in .gitignore.",
    "include_patterns": "Only these; archived too.",
    "under": "Folders; any of them.",
    "tags": "All of them.",
    "languages": "Such as python.",
    "modified_after": "2026-05-01, 2026-05 or 2026.",
    "filter": "path:docs/** -tag:draft (lang:go | lang:rust)",
    "use_rrf": "false: order by meaning alone.",
    "rerank_with_recency": "Recent documents rank higher.",
}
_NOT_FOR_AGENTS = {
    "unique", "max_chunks_per_doc", "rerank", "mmr", "expand_parents", "quick", "explain", "why_not",
}  # fmt: skip
# The arguments of the search along links, with the defaults that it has.
_ALONG_LINKS = {
    "include_graph_context": True,
    "max_hops": 2,
    "use_rrf": True,
    "rerank_with_recency": True,
}
_USUAL = {"limit": 5, "exclude_archived": True, **_ALONG_LINKS}


_MAX_TOKENS = Argument(
    "max_tokens", "integer", low=SMALLEST_ANSWER, high=LARGEST_ANSWER
)
_FOUND = {
    "type": "object",
    "properties": {
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [
                    "chunk_id",
                    "path",
                    "start_line",
                    "end_line",
                    "content",
                    "score",
                ],
            },
        },
        "freshness": {"type": "object"},
        "next_cursor": {"type": "string"},
    },
    "required": ["results", "freshness"],
}
# The same, as the first tool has described it.
_FOUND_BRIEF = {"type": "object", "required": _FOUND["required"]}


def tools_of(arguments: Sequence[Argument]) -> tuple[Tool, ...]:
    """Return the tools, for these arguments of a search."""
    along_links: list[Argument] = []
    others: list[Argument] = []
    for each in arguments:
        if each.name in _NOT_FOR_AGENTS:
            continue
        default = _USUAL.get(each.name, each.default)
        shown = replace(each, help=_BRIEFLY.get(each.name, ""), default=default)
        (along_links if each.name in _ALONG_LINKS else others).append(shown)
    query, limit, *narrower = others
    search = (query, limit, _MAX_TOKENS, _CURSOR, *narrower)
    brief = tuple(each.brief for each in search)
    return (
        Tool(
            "query_documents",
            "Find passages in the documents and code here, by meaning, words, names and links. Gives path, "
            "lines, text and a score (0 to 1; below 0.3 is hardly an answer). Filters are exact; all must hold.",
            search,
            _FOUND,
        ),
        Tool(
            "query_unique_documents",
            "query_documents with one passage per document: which documents are about it.",
            brief,
            _FOUND_BRIEF,
            {"unique": True},
        ),
        Tool(
            "graphrag_hybrid_search",
            "query_documents along links and imports: what is related, and how.",
            (*brief[:4], *along_links, *brief[4:]),
            _FOUND_BRIEF,
            _ALONG_LINKS,
        ),
        Tool(
            "get_passage",
            "Read a passage by chunk_id, or lines of a document.",
            (
                Argument("chunk_id", "text", "From a result; or give path."),
                Argument("path", "text", "A document."),
                Argument("start_line", "integer", low=1),
                Argument("end_line", "integer", low=1),
                Argument(
                    "neighbours",
                    "integer",
                    "Passages before and after the chunk.",
                    low=0,
                    high=20,
                ),
                _MAX_TOKENS.brief,
            ),
            {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "content": {"type": "string"},
                },
                "required": ["path", "start_line", "end_line", "content"],
            },
        ),
        Tool(
            "index_status",
            "What is indexed: documents, age, pending and skipped files, model, workspaces.",
            (),
            {"type": "object", "required": ["roots", "freshness"]},
        ),
    )


TOOLS = tools_of(ARGUMENTS)


def tools_for(roots: Sequence[str]) -> dict[str, Tool]:
    """Return the tools by name; with several roots each can be asked about one of them."""
    tools = {tool.name: tool for tool in TOOLS}
    if len(roots) < 2:
        return tools
    root = Argument("root", "text", choices=tuple(roots))
    shown = root
    if sum(map(len, roots)) > _ROOM:
        shown = root.brief  # an error names them
    for name, tool in tools.items():
        tools[name] = replace(tool, arguments=(*tool.arguments, shown))
        shown = root.brief
    return tools


# --- operations of the HTTP API -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of the HTTP API."""

    name: str
    method: Literal["GET", "POST", "DELETE"]
    path: str  # below the prefix; a part in braces may hold slashes
    summary: str
    answer: str  # the schema of the answer
    arguments: tuple[Argument, ...] = ()
    in_path: str = ""  # what the part in braces means
    faults: tuple[int, ...] = ()  # statuses besides those that follow from the rest
    media_type: str = "application/json"
    has_tag: bool = False  # an ETag, and so 304
    is_open: bool = False  # needs no token
    has_root: bool = False  # with several roots, one of them can be chosen

    @property
    def takes_body(self) -> bool:
        """True if the arguments are in the body."""
        return self.method == "POST" and bool(self.arguments)


def operations_of(arguments: Sequence[Argument]) -> tuple[Operation, ...]:
    """Return the operations, for these arguments of a search."""
    query, *others = arguments
    query = replace(query, also=("q",))
    marks = (
        "Tell where the question's words are in each passage, and its best sentence."
    )
    search = (query, _CURSOR, *others, Argument("marks", "flag", marks))
    typed = "Filters that were typed with a question count."
    filters = [each for each in arguments if each.narrows]
    return (
        Operation(
            "search",
            "GET",
            "/search",
            "Find passages.",
            "Found",
            search,
            has_tag=True,
            has_root=True,
        ),
        Operation(
            "search_by_body",
            "POST",
            "/search",
            "Find passages; arguments as JSON.",
            "Found",
            search,
            has_root=True,
        ),
        Operation(
            "documents",
            "GET",
            "/documents",
            "List the documents that a filter lets through, by path.",
            "Documents",
            (
                Argument("limit", "integer", low=1, high=LARGEST_PAGE, default=100),
                _CURSOR,
                *filters,
            ),
            has_tag=True,
            has_root=True,
        ),
        Operation(
            "document",
            "GET",
            "/documents/{path}",
            "Read a document as it is now, with its outline, links and backlinks. Filters are about those links.",
            "Document",
            (Argument("html", "flag", "Markdown as HTML too, made safe."), *filters),
            "A document's path below its root.",
            has_tag=True,
            has_root=True,
        ),
        Operation(
            "passage",
            "GET",
            "/passages/{chunk_id}",
            "Read a passage.",
            "Excerpt",
            (
                Argument(
                    "neighbours",
                    "integer",
                    "Passages before and after it.",
                    low=0,
                    high=20,
                ),
            ),
            "From a result: docs/api.md#3, with # written %23.",
            has_tag=True,
            has_root=True,
        ),
        Operation(
            "facets",
            "GET",
            "/facets",
            "Count the documents that a filter lets through, by what they have.",
            "Facets",
            (Argument("query", "text", typed, also=("q",)), *filters),
            has_tag=True,
            has_root=True,
        ),
        Operation(
            "graph",
            "GET",
            "/graph",
            "The links round a document, among those that a filter lets through.",
            "Graph",
            (
                Argument("around", "text", "A document's path.", required=True),
                Argument("hops", "integer", low=1, high=3, default=2),
                *filters,
            ),
            has_tag=True,
            has_root=True,
        ),
        Operation(
            "status",
            "GET",
            "/status",
            "What is indexed, how fresh it is, what was skipped.",
            "Status",
            has_root=True,
        ),
        Operation(
            "events",
            "GET",
            "/events",
            "Server-sent events: `state` whenever indexing gets on or a new generation is there.",
            "Event",
            media_type="text/event-stream",
            faults=(429,),
        ),
        Operation(
            "refresh",
            "POST",
            "/refresh",
            "Look for changed files now.",
            "Freshness",
            faults=(408, 409),
        ),
        Operation(
            "health",
            "GET",
            "/health",
            "Whether the server answers.",
            "Health",
            is_open=True,
        ),
        Operation(
            "sign_in",
            "POST",
            "/session",
            "Send the token once, and be known by a cookie from then on.",
            "Session",
            (Argument("token", "text", "The server's token.", required=True),),
            is_open=True,
        ),
        Operation(
            "sign_out",
            "DELETE",
            "/session",
            "Be known no longer.",
            "Session",
            is_open=True,
        ),
        Operation(
            "openapi", "GET", "/openapi.json", "This document.", "OpenAPI", is_open=True
        ),
    )


OPERATIONS = operations_of(ARGUMENTS)


def operations_for(roots: Sequence[str]) -> tuple[Operation, ...]:
    """Return the operations; with several roots each can be asked about one of them."""
    if len(roots) < 2:
        return OPERATIONS
    root = Argument("root", "text", "One of the roots.", choices=tuple(roots))
    operations = []
    for each in OPERATIONS:
        if each.has_root:
            each = replace(each, arguments=(*each.arguments, root))
        operations.append(each)
    return tuple(operations)


# Numbers and flags as a query string has them.
_INTEGER = re.compile(r"[+-]?\d{1,40}")
_DECIMAL = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,3})?")
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


def from_query(
    operation: Operation, given: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """Return the arguments in a query string as JSON has them; a repeated name is a list.

    Text that is no number where one is wanted stays text, and is refused with the others.
    """
    names: dict[str, str] = {}
    for argument in operation.arguments:
        names |= dict.fromkeys((argument.name, *argument.also), argument.kind)
    found: dict[str, Any] = {}
    for name, text in given:
        kind = names.get(name)
        value: Any = text
        if kind == "texts":
            value = [*found.get(name, ()), text]
        elif name in found:
            raise UsageError(f"{name} is given twice", hint="leave one out")
        elif kind == "integer" and _INTEGER.fullmatch(text):
            value = int(text)
        elif kind == "number" and _DECIMAL.fullmatch(text):
            value = float(text)
        elif kind == "flag":
            value = _FLAGS.get(text.lower(), text)
        found[name] = value
    return found


# --- OpenAPI ------------------------------------------------------------------------------------

_ALWAYS = (400, 401, 403, 404, 405, 423, 500, 501, 502, 503, 504, 507)
_STATUSES = {
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
    504: "No answer within 60 seconds.",
    507: "The disk is full, read-only or failing.",
}


def openapi(operations: Sequence[Operation], secured: bool) -> dict[str, Any]:
    """Return the document that describes the API, in the terms of OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        methods = paths.setdefault(f"{PREFIX}{each.path}", {})
        methods[each.method.lower()] = _described(each, secured)
    components: dict[str, Any] = {"schemas": answer_schemas()}
    if secured:
        components["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "tamis"},
        }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tamis",
            "version": tamis.__version__,
            "description": "Search with filters that are exact.",
        },
        "paths": paths,
        "components": components,
    }


def _described(operation: Operation, secured: bool) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [],
        "responses": _responses(operation),
    }
    if operation.takes_body:
        content = {"application/json": {"schema": input_schema(operation.arguments)}}
        described["requestBody"] = {"required": True, "content": content}
    else:
        for argument in operation.arguments:
            schema = argument.schema()
            schema.pop("description", None)
            parameter = {
                "name": "q" if "q" in argument.also else argument.name,
                "in": "query",
                "required": argument.required,
                "schema": schema,
            }
            if argument.help:
                parameter["description"] = argument.help
            described["parameters"].append(parameter)
    if operation.in_path:
        place = {
            "name": operation.path.partition("{")[2].rstrip("}"),
            "in": "path",
            "required": True,
            "description": operation.in_path,
            "schema": {"type": "string", "minLength": 1},
        }
        described["parameters"].append(place)
    if secured and not operation.is_open:
        described["security"] = [{"token": []}, {"cookie": []}]
    return described


def _responses(operation: Operation) -> dict[str, Any]:
    content = {operation.media_type: {"schema": _ref(operation.answer)}}
    success: dict[str, Any] = {"description": operation.summary, "content": content}
    responses: dict[str, Any] = {"200": success}
    if operation.has_tag:
        success["headers"] = {"ETag": {"schema": {"type": "string"}}}
        responses["304"] = {"description": _STATUSES[304]}
    problem = {"application/problem+json": {"schema": _ref("Problem")}}
    faults = {*_ALWAYS, *operation.faults}
    if operation.has_root:
        faults.add(409)
    if operation.takes_body:
        faults |= {408, 413, 415}
    for status in sorted(faults):
        description = _STATUSES[status]
        responses[str(status)] = {"description": description, "content": problem}
    return responses


# --- answers of the HTTP API --------------------------------------------------------------------

_TEXT = {"type": "string"}
_WHOLE = {"type": "integer", "minimum": 0}
_NUMBER = {"type": "number"}
_FLAG = {"type": "boolean"}
_TEXTS = {"type": "array", "items": _TEXT}
_SPAN = {"type": "array", "items": _WHOLE, "minItems": 2, "maxItems": 2}
_COUNTS = {"type": "object", "additionalProperties": _NUMBER}


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(optional: Mapping[str, Schema] | None = None, **always: Schema) -> Schema:
    return {
        "type": "object",
        "properties": always | dict(optional or {}),
        "required": list(always),
    }


_JSON_TYPES: Mapping[object, Schema] = {
    int: _WHOLE,
    float: _NUMBER,
    bool: _FLAG,
    str | None: _maybe(_TEXT),
    dict[str, int]: _COUNTS,
    dict[str, float]: _COUNTS,
}


def _value(
    value: Any,
    optional: Mapping[str, Schema] | None = None,
    **always: Schema,
) -> Schema:
    """Return the schema of a class of values whose JSON has all of their other fields."""
    for each in fields(value):
        if each.name not in (optional or {}):
            always[each.name] = _schema_of(each.type)
    return _object(optional, **always)


def _schema_of(kind: Any) -> Schema:
    if get_origin(kind) in (list, tuple):
        return _list(_schema_of(get_args(kind)[0]))
    if is_dataclass(kind):
        return _value(kind)
    return _JSON_TYPES.get(kind, _TEXT)


def answer_schemas() -> dict[str, Schema]:
    """Return the schemas of the answers, by name."""
    from tamis.live.browse import Graph, Listed, Reading
    from tamis.live.corpus import Freshness
    from tamis.live.roots import Now, RootStatus

    return {
        "Found": _object(
            {
                "next_cursor": _TEXT,
                "why_not": _value(WhyNot),
                "funnel": _list(_value(Step)),
                "graph_context": _list(_value(Related)),
                "expanded_with": _TEXTS,
                "synonyms": _TEXTS,
            },
            query=_TEXT,
            filter=_TEXT,
            query_type=_TEXT,
            results=_list(_ref("Result")),
            stats=_COUNTS,
            timings_ms=_COUNTS,
            index=_ref("Index"),
            hints=_TEXTS,
            freshness=_ref("Freshness"),
        ),
        "Result": _value(
            Result,
            {
                "root": _TEXT,
                "matched_lines": _SPAN,
                "score_source": _TEXT,
                "also_in": _list(_value(Place)),
                "also_in_count": _WHOLE,
                "places": _COUNTS,
                "marks": _object(words=_list(_SPAN), sentence=_maybe(_SPAN)),
            },
        ),
        "Index": _value(IndexState),
        "Freshness": _value(Freshness),
        "Documents": _object(
            {"next_cursor": _TEXT},
            documents=_list(_value(Listed, {"root": _TEXT})),
            total=_WHOLE,
            freshness=_ref("Freshness"),
        ),
        "Document": _value(
            Reading, {"html": _TEXT}, root=_TEXT, path=_TEXT, file_path=_TEXT
        ),
        "Excerpt": _object(
            {"header_path": _TEXT, "next_line": _maybe(_WHOLE), "hints": _TEXTS},
            root=_TEXT,
            path=_TEXT,
            start_line=_WHOLE,
            end_line=_WHOLE,
            content=_TEXT,
            freshness=_ref("Freshness"),
        ),
        "Facets": _object(
            documents=_WHOLE,
            chunks=_WHOLE,
            facets={
                "type": "object",
                "additionalProperties": _list(_object(value=_TEXT, documents=_WHOLE)),
            },
            freshness=_ref("Freshness"),
        ),
        "Graph": _value(Graph, root=_TEXT),
        "Status": _object(
            roots=_list(_value(RootStatus)),
            freshness=_ref("Freshness"),
            now=_list(_ref("Event")),
            server=_object(version=_TEXT, editor=_TEXT),
        ),
        "Event": _value(Now),
        "Health": _object(status={"const": "ok"}),
        "Session": _object(signed_in=_FLAG),
        "OpenAPI": _object(
            openapi=_TEXT, info={"type": "object"}, paths={"type": "object"}
        ),
        "Problem": _object(
            {"hint": _TEXT},
            type=_TEXT,
            title=_TEXT,
            status={"type": "integer"},
            detail=_TEXT,
        ),
    }
