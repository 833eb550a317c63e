"""The tools that agents call, as values: one table of parameters makes the schemas and the strict reading.

What a caller meant wrongly is an error that says what is allowed; nothing is dropped, nothing guessed. Three
things that agents do are taken as meant: `null` for "not given", one text for a list of one, and a list that
was written as JSON text (`"[\\"a.md\\"]"`).
"""

import difflib
import json
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from tamis.errors import UsageError
from tamis.text.languages import CHUNK_TYPES

Kind = Literal["text", "texts", "integer", "number", "flag"]

LARGEST_ANSWER: Final = 100_000  # tokens: more than any client shows
SMALLEST_ANSWER: Final = 200  # tokens: one place, and a line of it
MOST_RESULTS: Final = 100  # of one question, over all its pages
_LONGEST_VALUE: Final = 80  # characters of a wrong value that an error repeats


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool."""

    name: str
    kind: Kind
    doc: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    default: object = (
        None  # what the schema says; the door leaves out what is not given
    )
    required: bool = False
    also: tuple[str, ...] = ()  # other names that are taken for it (X4, X6)
    is_brief: bool = False

    @property
    def brief(self) -> "Parameter":
        """The same, with a schema that says no more than its kind: another tool's schema says the rest."""
        return replace(self, is_brief=True)

    def schema(self) -> dict[str, Any]:
        if self.is_brief:
            return dict(_SCHEMAS[self.kind])
        limits = {
            "minimum": self.low,
            "maximum": self.high,
            "default": self.default,
            "description": self.doc,
        }
        return self._typed() | {
            name: value for name, value in limits.items() if value not in (None, "")
        }

    def _typed(self) -> dict[str, Any]:
        plain, choices = (
            _SCHEMAS[self.kind],
            {"enum": list(self.choices)} if self.choices else {},
        )
        return plain | (
            {"items": plain["items"] | choices} if self.kind == "texts" else choices
        )


_SCHEMAS: Final[Mapping[Kind, dict[str, Any]]] = {
    "text": {"type": "string"},
    "texts": {"type": "array", "items": {"type": "string"}},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
}


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    description: str
    parameters: tuple[Parameter, ...]
    output: Mapping[str, Any]

    def input_schema(self) -> dict[str, Any]:
        required = [each.name for each in self.parameters if each.required]
        return {
            "type": "object",
            "properties": {each.name: each.schema() for each in self.parameters},
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }


# --- The table ------------------------------------------------------------------------------

QUERY: Final = Parameter(
    "query", "text", "Words, a question or a symbol.", required=True
)
LIMIT: Final = Parameter(
    "limit", "integer", low=1, high=MOST_RESULTS, default=5, also=("top_n",)
)
MAX_TOKENS: Final = Parameter(
    "max_tokens", "integer", low=SMALLEST_ANSWER, high=LARGEST_ANSWER
)
CURSOR: Final = Parameter("cursor", "text", "next_cursor of the answer before.")

FILTERS: Final = (
    Parameter("excluded_files", "texts", "File names or paths."),
    Parameter("exclude_patterns", "texts", "As in .gitignore."),
    Parameter("include_patterns", "texts", "Only these; archived too."),
    Parameter("workspace", "text"),
    Parameter("under", "texts", "Folders; any of them."),
    Parameter("tags", "texts", "All of them."),
    Parameter("chunk_types", "texts", choices=CHUNK_TYPES),
    Parameter("languages", "texts", "Such as python."),
    Parameter("author", "text"),
    Parameter("category", "text"),
    Parameter("modified_after", "text", "2026-05-01, 2026-05 or 2026."),
    Parameter("modified_before", "text"),
    Parameter("exclude_archived", "flag", default=True),
    Parameter(
        "min_score", "number", low=0, high=1, also=("min_confidence", "threshold")
    ),
    Parameter("filter", "text", "path:docs/** -tag:draft (lang:go | lang:rust)"),
)
GRAPH: Final = (
    Parameter("include_graph_context", "flag", default=True),
    Parameter("max_hops", "integer", low=0, high=3, default=2),
    Parameter("use_rrf", "flag", "false: order by meaning alone.", default=True),
    Parameter(
        "rerank_with_recency", "flag", "Recent documents rank higher.", default=True
    ),
)
PLACE: Final = (
    Parameter("chunk_id", "text", "From a result; or give path."),
    Parameter("path", "text", "A document."),
    Parameter("start_line", "integer", low=1),
    Parameter("end_line", "integer", low=1),
    Parameter(
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
    root = Parameter("root", "text", choices=tuple(roots))
    first, *others = TOOLS
    shown = (
        root if sum(map(len, roots)) <= _ROOM else root.brief
    )  # a wrong name is told the right ones
    made = [replace(first, parameters=(*first.parameters, shown))]
    made += [
        replace(tool, parameters=(*tool.parameters, root.brief)) for tool in others
    ]
    return {tool.name: tool for tool in made}


# --- Reading --------------------------------------------------------------------------------


def read(tool: Tool, arguments: Mapping[str, object]) -> dict[str, Any]:
    """What was given, checked, by the parameters' own names. What was not given is not there."""
    names = {name: each for each in tool.parameters for name in (each.name, *each.also)}
    given: dict[str, Any] = {}
    called: dict[str, str] = {}  # what each was given as
    for name, value in arguments.items():
        if name not in names:
            raise _unknown(tool, str(name), names)
        parameter = names[name]
        if value is None:
            continue
        if parameter.name in given:
            both = f"as {called[parameter.name]} and as {name}"
            raise UsageError(
                f"{parameter.name} is given twice, {both}", hint="leave one out"
            )
        called[parameter.name] = name
        given[parameter.name] = _READERS[parameter.kind](parameter, value)
    for parameter in tool.parameters:
        if parameter.required and parameter.name not in given:
            raise UsageError(
                f"{parameter.name} is missing",
                hint=f"{tool.name} needs it: {parameter.doc}".strip(": "),
            )
    return given


def _unknown(tool: Tool, name: str, names: Iterable[str]) -> UsageError:
    allowed = [each.name for each in tool.parameters]
    near = difflib.get_close_matches(name[:_LONGEST_VALUE], list(names), n=1)
    guess = f"did you mean {near[0]}? " if near else ""
    hint = (
        f"{guess}allowed: {', '.join(allowed)}"
        if allowed
        else f"{tool.name} takes no arguments"
    )
    return UsageError(f"{tool.name} has no argument {said(name)}", hint=hint)


def said(value: object) -> str:
    """A value as an error repeats it: short, whatever it is."""
    shown = _REPR.repr(value)
    return (
        shown if len(shown) <= _LONGEST_VALUE else f"{shown[: _LONGEST_VALUE - 3]}..."
    )


class _Short(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        """Python refuses to write out very long numbers."""
        return super().repr_int(x, level) if abs(x) < 10**40 else "a huge number"


_REPR: Final = _Short()
_REPR.maxstring = _REPR.maxother = _LONGEST_VALUE


def _wrong(parameter: Parameter, value: object, wanted: str) -> UsageError:
    return UsageError(f"{parameter.name} is {said(value)}", hint=f"it must be {wanted}")


def _text(parameter: Parameter, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(parameter, value, "a text")
    return _chosen(parameter, value)


def _chosen(parameter: Parameter, value: str) -> str:
    if (
        parameter.kind == "text"
        and parameter.choices
        and value not in parameter.choices
    ):
        raise _wrong(parameter, value, f"one of {', '.join(parameter.choices)}")
    return value


def _texts(parameter: Parameter, value: object) -> tuple[str, ...]:
    items = _as_list(value) if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(
        isinstance(item, str) for item in items
    ):
        raise _wrong(
            parameter,
            value,
            f'a list of texts, such as ["{(*parameter.choices, "a", "b")[0]}"]',
        )
    return tuple(items)


def _as_list(value: str) -> list[str]:
    """One text is a list of one, unless it is a JSON list of texts, written as text."""
    if value.lstrip().startswith("["):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return [value]  # a pattern may begin so: [ab].md
        if isinstance(parsed, list) and all(isinstance(item, str) for item in parsed):
            return parsed
    return [value]


def _integer(parameter: Parameter, value: object) -> int:
    wanted = f"a whole number {_range(parameter)}"
    if isinstance(value, float) and value.is_integer():  # JSON has one kind of number
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(parameter, value, wanted)
    return int(_within(parameter, value, wanted))


def _number(parameter: Parameter, value: object) -> float:
    wanted = f"a number {_range(parameter)}"
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong(parameter, value, wanted)
    return float(_within(parameter, value, wanted))


def _within(parameter: Parameter, value: float, wanted: str) -> float:
    low = parameter.low if parameter.low is not None else value
    high = parameter.high if parameter.high is not None else _LARGEST_NUMBER
    if not low <= value <= high:  # also what is not a number at all
        raise _wrong(parameter, value, wanted)
    return value


_LARGEST_NUMBER: Final = 2**31 - 1


def _range(parameter: Parameter) -> str:
    if parameter.high is None:
        return f"of at least {parameter.low}"
    return f"from {parameter.low:g} to {parameter.high:g}"


def _flag(parameter: Parameter, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(parameter, value, "true or false")
    return value


_READERS: Final[Mapping[Kind, Callable[[Parameter, object], object]]] = {
    "text": _text,
    "texts": _texts,
    "integer": _integer,
    "number": _number,
    "flag": _flag,
}
