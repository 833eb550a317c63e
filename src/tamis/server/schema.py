"""What the HTTP API answers, as JSON Schema."""

from collections.abc import Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

_TEXT: Final = {"type": "string"}
_WHOLE: Final = {"type": "integer", "minimum": 0}
_NUMBER: Final = {"type": "number"}
_FLAG: Final = {"type": "boolean"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_SPAN: Final = {"type": "array", "items": _WHOLE, "minItems": 2, "maxItems": 2}
_COUNTS: Final = {"type": "object", "additionalProperties": _NUMBER}


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


_PLACE: Final = _object(path=_TEXT, start_line=_WHOLE, end_line=_WHOLE)
_EVIDENCE: Final = _object(lane=_TEXT, rank=_WHOLE, score=_NUMBER, confidence=_NUMBER)
_LINKED: Final = _object(path=_TEXT, type=_TEXT, anchor=_TEXT)
_RELATED: Final = _object(
    path=_TEXT, chunk_id=_TEXT, hops=_WHOLE, link=_TEXT, source=_TEXT, target=_TEXT
)

SCHEMAS: Final[Mapping[str, Schema]] = {
    "Found": _object(
        {
            "next_cursor": _TEXT,
            "why_not": _object(path=_TEXT, reason=_TEXT, detail=_TEXT),
            "funnel": _list(_object(stage=_TEXT, left=_WHOLE, ms=_NUMBER)),
            "graph_context": _list(_RELATED),
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
    "Result": _object(
        {
            "root": _TEXT,
            "matched_lines": _SPAN,
            "score_source": _TEXT,
            "also_in": _list(_PLACE),
            "also_in_count": _WHOLE,
            "places": _COUNTS,
            "marks": _object(words=_list(_SPAN), sentence=_maybe(_SPAN)),
        },
        chunk_id=_TEXT,
        doc_id=_TEXT,
        file_path=_TEXT,
        path=_TEXT,
        start_line=_WHOLE,
        end_line=_WHOLE,
        header_path=_TEXT,
        content=_TEXT,
        score=_NUMBER,
        raw_score=_NUMBER,
        chunk_type=_TEXT,
        language=_maybe(_TEXT),
        tags=_TEXTS,
        is_archived=_FLAG,
        parent_chunk_id=_maybe(_TEXT),
        modified=_TEXT,
        evidence=_list(_EVIDENCE),
        boosts=_COUNTS,
    ),
    "Index": _object(
        generation=_WHOLE,
        documents=_WHOLE,
        chunks=_WHOLE,
        pending_files=_WHOLE,
        pending_chunks=_WHOLE,
        built_at=_TEXT,
    ),
    "Freshness": _object(
        complete=_FLAG,
        pending_files=_WHOLE,
        embedded=_NUMBER,
        as_of=_maybe(_TEXT),
        note=_TEXT,
    ),
    "Documents": _object(
        {"next_cursor": _TEXT},
        documents=_list(
            _object(
                {"root": _TEXT},
                path=_TEXT,
                modified=_TEXT,
                tags=_TEXTS,
                author=_TEXT,
                category=_TEXT,
                language=_maybe(_TEXT),
                is_archived=_FLAG,
            )
        ),
        total=_WHOLE,
        freshness=_ref("Freshness"),
    ),
    "Document": _object(
        {"html": _TEXT},
        root=_TEXT,
        path=_TEXT,
        file_path=_TEXT,
        title=_TEXT,
        text=_TEXT,
        start_line=_WHOLE,
        language=_maybe(_TEXT),
        modified=_TEXT,
        tags=_TEXTS,
        author=_TEXT,
        category=_TEXT,
        description=_TEXT,
        is_archived=_FLAG,
        outline=_list(_object(level=_WHOLE, name=_TEXT, line=_WHOLE)),
        passages=_list(
            _object(
                chunk_id=_TEXT, start_line=_WHOLE, end_line=_WHOLE, header_path=_TEXT
            )
        ),
        links=_list(_LINKED),
        backlinks=_list(_LINKED),
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
    "Graph": _object(
        root=_TEXT,
        around=_TEXT,
        nodes=_list(_object(path=_TEXT, hops=_WHOLE, links=_WHOLE)),
        edges=_list(_object(source=_TEXT, target=_TEXT, type=_TEXT)),
        left_out=_WHOLE,
    ),
    "Status": _object(
        roots=_list(
            _object(
                root=_TEXT,
                path=_TEXT,
                documents=_WHOLE,
                chunks=_WHOLE,
                generation=_WHOLE,
                built_at=_TEXT,
                pending_files=_WHOLE,
                skipped=_COUNTS,
                model=_TEXT,
                workspaces=_TEXTS,
            )
        ),
        freshness=_ref("Freshness"),
        now=_list(_ref("Event")),
        server=_object(version=_TEXT, editor=_TEXT),
    ),
    "Event": _object(
        root=_TEXT,
        generation=_WHOLE,
        documents=_WHOLE,
        chunks=_WHOLE,
        pending_chunks=_WHOLE,
        what=_TEXT,
        done=_WHOLE,
        total=_WHOLE,
    ),
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
