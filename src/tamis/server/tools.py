"""The tools that agents call, as values: their arguments, their schemas and what they say of themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tamis.request import ARGUMENTS, Argument, input_schema

LARGEST_ANSWER: Final = 100_000  # tokens: more than any client shows
SMALLEST_ANSWER: Final = 200  # tokens: one place, and a line of it


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    parameters: tuple[Argument, ...]
    output: Mapping[str, Any]

    def input_schema(self) -> dict[str, Any]:
        return input_schema(self.parameters)


# --- The table ------------------------------------------------------------------------------

# Descriptions of arguments in the list of tools, of which every word costs an agent's context.
_BRIEFLY: Final = {
    "limit": "",
    "excluded_files": "File names or paths.",
    "exclude_patterns": "As in .gitignore.",
    "include_patterns": "Only these; archived too.",
    "workspace": "",
    "under": "Folders; any of them.",
    "tags": "All of them.",
    "chunk_types": "",
    "languages": "Such as python.",
    "author": "",
    "category": "",
    "modified_after": "2026-05-01, 2026-05 or 2026.",
    "modified_before": "",
    "exclude_archived": "",
    "filter": "path:docs/** -tag:draft (lang:go | lang:rust)",
    "min_score": "",
    "include_graph_context": "",
    "max_hops": "",
    "use_rrf": "false: order by meaning alone.",
    "rerank_with_recency": "Recent documents rank higher.",
}
_NOT_FOR_AGENTS: Final = {
    "unique", "max_chunks_per_doc", "rerank", "mmr", "expand_parents", "quick", "explain", "why_not",
}  # fmt: skip
# The arguments of the search along links, with the defaults that it has.
_ALONG_LINKS: Final = {
    "include_graph_context": True,
    "max_hops": 2,
    "use_rrf": True,
    "rerank_with_recency": True,
}


def _shown(argument: Argument) -> Argument:
    """Return an argument of a search as agents see it."""
    usual = {"limit": 5, "exclude_archived": True} | _ALONG_LINKS
    return replace(
        argument,
        help=_BRIEFLY.get(argument.name, argument.help),
        default=usual.get(argument.name, argument.default),
    )


_ARGUMENTS: Final = tuple(_shown(a) for a in ARGUMENTS if a.name not in _NOT_FOR_AGENTS)
GRAPH: Final = tuple(each for each in _ARGUMENTS if each.name in _ALONG_LINKS)
QUERY, LIMIT, *_others = (each for each in _ARGUMENTS if each not in GRAPH)
FILTERS: Final = tuple(_others)

MAX_TOKENS: Final = Argument(
    "max_tokens", "integer", low=SMALLEST_ANSWER, high=LARGEST_ANSWER
)
CURSOR: Final = Argument("cursor", "text", "next_cursor of the answer before.")

PLACE: Final = (
    Argument("chunk_id", "text", "From a result; or give path."),
    Argument("path", "text", "A document."),
    Argument("start_line", "integer", low=1),
    Argument("end_line", "integer", low=1),
    Argument(
        "neighbours", "integer", "Passages before and after the chunk.", low=0, high=20
    ),
    MAX_TOKENS.brief,
)


def _object(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
    }


_TEXT: Final = {"type": "string"}
_RESULT: Final = {
    "type": "object",
    "required": ["chunk_id", "path", "start_line", "end_line", "content", "score"],
}
_FOUND: Final = _object(
    {
        "results": {"type": "array", "items": _RESULT},
        "freshness": {"type": "object"},
        "next_cursor": _TEXT,
    },
    ("results", "freshness"),
)
_FOUND_TOO: Final = {
    "type": "object",
    "required": ["results", "freshness"],
}  # as above, said once
_EXCERPT: Final = _object(
    {"path": _TEXT, "content": _TEXT}, ("path", "start_line", "end_line", "content")
)
_STATUS: Final = {"type": "object", "required": ["roots", "freshness"]}

_BRIEF: Final = tuple(each.brief for each in FILTERS)
_PAGE: Final = (LIMIT, MAX_TOKENS, CURSOR)
_BRIEF_PAGE: Final = (LIMIT.brief, MAX_TOKENS.brief, CURSOR.brief)

TOOLS: Final = (
    Tool(
        "query_documents",
        "Find passages in the documents and code here, by meaning, words, names and links. Gives path, "
        "lines, text and a score (0 to 1; below 0.3 is hardly an answer). Filters are exact; all must hold.",
        (QUERY, *_PAGE, *FILTERS),
        _FOUND,
    ),
    Tool(
        "query_unique_documents",
        "query_documents with one passage per document: which documents are about it.",
        (QUERY.brief, *_BRIEF_PAGE, *_BRIEF),
        _FOUND_TOO,
    ),
    Tool(
        "graphrag_hybrid_search",
        "query_documents along links and imports: what is related, and how.",
        (QUERY.brief, *_BRIEF_PAGE, *GRAPH, *_BRIEF),
        _FOUND_TOO,
    ),
    Tool(
        "get_passage",
        "Read a passage by chunk_id, or lines of a document.",
        PLACE,
        _EXCERPT,
    ),
    Tool(
        "index_status",
        "What is indexed: documents, age, pending and skipped files, model, workspaces.",
        (),
        _STATUS,
    ),
)


_ROOM: Final = 80  # characters of names that the list of tools spells out


def tools_for(roots: Sequence[str]) -> dict[str, Tool]:
    """The tools by name; with several roots each can be asked about one of them."""
    if len(roots) < 2:
        return {tool.name: tool for tool in TOOLS}
    root = Argument("root", "text", choices=tuple(roots))
    first, *others = TOOLS
    shown = (
        root if sum(map(len, roots)) <= _ROOM else root.brief
    )  # a wrong name is told the right ones
    made = [replace(first, parameters=(*first.parameters, shown))]
    made += [
        replace(tool, parameters=(*tool.parameters, root.brief)) for tool in others
    ]
    return {tool.name: tool for tool in made}
