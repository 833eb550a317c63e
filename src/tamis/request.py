"""The arguments of a search, declared once in `SearchRequest`, from which every door derives its own.

The command line, the tools for agents, the HTTP API, `Corpus.search` and the reference pages read
`ARGUMENTS`. A door converts what it is given into Python values; `Argument.check` is the one
place that checks types and ranges; the filter language checks the values of filters.
"""

import functools
import inspect
import json
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass, field, fields, replace
from types import UnionType
from typing import (
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    TypeVar,
    get_args,
)

from tamis.errors import BadQuery, UsageError, nearest
from tamis.text.languages import CHUNK_TYPES

# In characters. A model reads some two thousand, and the words lane gains nothing from more.
LONGEST_QUERY = 20_000
LARGEST_LIMIT = 100  # results of one question, over all its pages
_MOST_VALUES = 10_000  # in one list of files, patterns or tags
_LARGEST_NUMBER = 2**31 - 1
_LONGEST_VALUE = 80  # characters of a wrong value that an error repeats

Kind = Literal["text", "texts", "integer", "number", "flag"]
_KINDS: Mapping[object, Kind] = {
    str: "text",
    Sequence[str]: "texts",
    int: "integer",
    float: "number",
    bool: "flag",
}
_SCHEMAS: Mapping[Kind, dict[str, Any]] = {
    "text": {"type": "string"},
    "texts": {"type": "array", "items": {"type": "string"}},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
}


# --- Arguments ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument that can be given from outside: its name, its allowed values and its help."""

    name: str
    kind: Kind
    help: str = ""
    default: object = None
    required: bool = False
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    also: tuple[str, ...] = ()  # other names that agents and programs may use
    option: str = ""  # on the command line, such as "-n --limit N"
    narrows: bool = False  # a filter
    is_brief: bool = False

    @property
    def brief(self) -> "Argument":
        """Return the same with a schema that has its type alone, to save an agent's tokens."""
        return replace(self, is_brief=True)

    def check(self, value: object) -> Any:
        """Return an allowed value; None gives the default. Raise UsageError for others."""
        if value is None and not self.required:
            return self.default
        match self.kind:
            case "text":
                allowed = isinstance(value, str)
                if self.choices:
                    allowed = value in self.choices
            case "texts":
                return self._check_texts(value)
            case "flag":
                allowed = isinstance(value, bool)
            case "integer":
                allowed = isinstance(value, int) and self._is_within(value)
            case "number":
                if isinstance(value, int | float) and self._is_within(value):
                    return float(value)
                allowed = False
        if not allowed:
            raise self._wrong(value)
        return value

    def _is_within(self, value: float) -> bool:
        low = -_LARGEST_NUMBER if self.low is None else self.low
        high = _LARGEST_NUMBER if self.high is None else self.high
        return not isinstance(value, bool) and low <= value <= high

    def _check_texts(self, value: object) -> tuple[str, ...]:
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, list | tuple | set | frozenset):
            raise self._wrong(value)
        if not all(isinstance(item, str) for item in value):
            raise self._wrong(value)
        if len(value) > _MOST_VALUES:
            raise UsageError(
                f"{self.name} has {len(value):,} entries",
                hint=f"at most {_MOST_VALUES:,} are allowed",
            )
        return tuple(value)

    def _wrong(self, value: object) -> UsageError:
        match self.kind:
            case "text" if self.choices:
                wanted = f"one of {', '.join(self.choices)}"
            case "text":
                wanted = "a text"
            case "texts":
                example = (*self.choices, "a", "b")[0]
                wanted = f'a list of texts, such as ["{example}"]'
            case "flag":
                wanted = "true or false"
            case "integer":
                wanted = f"a whole number {self._range}"
            case "number":
                wanted = f"a number {self._range}"
        return UsageError(f"{self.name} is {said(value)}", hint=f"it must be {wanted}")

    @property
    def _range(self) -> str:
        if self.high is None:
            return f"of at least {self.low}"
        return f"from {self.low:g} to {self.high:g}"

    def from_json(self, value: object) -> Any:
        """Return the checked value, and accept two things that agents write: 3.0, and a list as text."""
        if self.kind == "integer" and isinstance(value, float) and value.is_integer():
            value = int(value)
        if self.kind == "texts" and isinstance(value, str):
            value = _json_list(value)
        return self.check(value)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the values."""
        schema = dict(_SCHEMAS[self.kind])
        if self.is_brief:
            return schema
        if self.choices:
            choices = {"enum": list(self.choices)}
            if self.kind == "texts":
                schema["items"] = schema["items"] | choices
            else:
                schema |= choices
        limits = {
            "minimum": self.low,
            "maximum": self.high,
            "default": self.default,
            "description": self.help,
        }
        for name, value in limits.items():
            if value not in (None, "", ()):
                schema[name] = value
        return schema


def input_schema(arguments: Sequence[Argument]) -> dict[str, Any]:
    """Return the JSON schema of an object with these arguments and no others."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {each.name: each.schema() for each in arguments},
    }
    required = [each.name for each in arguments if each.required]
    if required:
        schema["required"] = required
    return schema | {"additionalProperties": False}


def read(
    arguments: Sequence[Argument], given: Mapping[str, object], where: str
) -> dict[str, Any]:
    """Check JSON values; return those that are given, by the arguments' own names.

    An unknown or repeated name is an error, and `null` is the same as not given.
    """
    names = {name: each for each in arguments for name in (each.name, *each.also)}
    found: dict[str, Any] = {}
    called: dict[str, str] = {}  # the name that each was given by
    for name, value in given.items():
        if name not in names:
            raise _unknown(name, arguments, list(names), where)
        argument = names[name]
        if value is None:
            continue
        if argument.name in found:
            both = f"as {called[argument.name]} and as {name}"
            message = f"{argument.name} is given twice, {both}"
            raise UsageError(message, hint="leave one out")
        called[argument.name] = name
        found[argument.name] = argument.from_json(value)
    for argument in arguments:
        if argument.required and argument.name not in found:
            hint = f"{where} needs it: {argument.help}".strip(": ")
            raise UsageError(f"{argument.name} is missing", hint=hint)
    return found


def _unknown(
    name: str, arguments: Sequence[Argument], names: Sequence[str], where: str
) -> UsageError:
    hint = f"{where} takes no arguments"
    if arguments:
        hint = f"allowed: {', '.join(each.name for each in arguments)}"
    hint = f"{nearest(name[:_LONGEST_VALUE], names)} {hint}".lstrip()
    return UsageError(f"{where} has no argument {said(name)}", hint=hint)


def _json_list(value: str) -> list[str]:
    """Return the texts of a JSON list that was written as text; any other text is a list of one."""
    if value.lstrip().startswith("["):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return [value]  # a pattern may begin so: [ab].md
        if isinstance(parsed, list) and all(isinstance(item, str) for item in parsed):
            return parsed
    return [value]


def said(value: object) -> str:
    """Return a value as an error repeats it: short, whatever it is."""
    shown = _SHORT.repr(value)
    if len(shown) <= _LONGEST_VALUE:
        return shown
    return f"{shown[: _LONGEST_VALUE - 3]}..."


class _Short(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        """Python refuses to write out very long numbers."""
        if abs(x) < 10**40:
            return super().repr_int(x, level)
        return "a huge number"


_SHORT = _Short()
_SHORT.maxstring = _SHORT.maxother = _LONGEST_VALUE


# --- The arguments of a search --------------------------------------------------------------


def argument(default: object, help: str, **about: Any) -> Any:
    """Declare a field of a dataclass as an argument; `about` are further fields of `Argument`."""
    return field(default=default, metadata={"help": help, **about})


@functools.cache
def arguments_of(cls: Any) -> tuple[Argument, ...]:
    """Return the arguments that the fields of a dataclass declare; one without a default is required."""
    found = []
    for each in fields(cls):
        annotation: Any = each.type
        if isinstance(annotation, UnionType):  # with None
            annotation = get_args(annotation)[0]
        required = each.default is MISSING
        default = None if required else each.default
        found.append(
            Argument(
                name=each.name,
                kind=_KINDS[annotation],
                default=default,
                required=required,
                **each.metadata,
            )
        )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """A question and the way to answer it. `None` means "as configured"; an empty list narrows nothing."""

    query: str = field(metadata={"help": "Words, a question or a symbol."})
    _: KW_ONLY
    limit: int | None = argument(
        None,
        "At most this many results (default 5).",
        low=1,
        high=LARGEST_LIMIT,
        also=("top_n",),
        option="-n --limit N",
    )
    excluded_files: Sequence[str] = argument(
        (),
        "Leave out these files, by name or path.",
        option="--exclude-file F",
        narrows=True,
    )
    exclude_patterns: Sequence[str] = argument(
        (),
        "Leave out what these gitignore patterns match.",
        option="--exclude P",
        narrows=True,
    )
    include_patterns: Sequence[str] = argument(
        (),
        "Only what these gitignore patterns match, archived too.",
        option="--include P",
        narrows=True,
    )
    workspace: str | None = argument(
        None,
        "Only the folders of a configured workspace.",
        narrows=True,
    )
    under: Sequence[str] = argument(
        (), "Only what is below one of these folders.", option="--under D", narrows=True
    )
    tags: Sequence[str] = argument(
        (), "Only documents with all of these tags.", option="--tag T", narrows=True
    )
    chunk_types: Sequence[str] = argument(
        (),
        "Only chunks of one of these types.",
        choices=CHUNK_TYPES,
        option="--type T",
        narrows=True,
    )
    languages: Sequence[str] = argument(
        (),
        "Only these languages, such as python.",
        option="--lang L",
        narrows=True,
    )
    author: str | None = argument(None, "Only documents by this author.", narrows=True)
    category: str | None = argument(
        None, "Only documents of this category.", narrows=True
    )
    modified_after: str | None = argument(
        None,
        "Modified on this day or later (2026-05-01, 2026-05, 2026).",
        option="--after D",
        narrows=True,
    )
    modified_before: str | None = argument(
        None,
        "Modified on this day or earlier.",
        option="--before D",
        narrows=True,
    )
    exclude_archived: bool | None = argument(
        None,
        "Leave out archived documents (search.exclude_archived).",
        option="--no-archived/--archived",
        narrows=True,
    )
    min_score: float | None = argument(
        None,
        "Only results with this score or a higher one.",
        low=0,
        high=1,
        also=("min_confidence", "threshold"),
        option="--min-score S",
    )
    filter: str = argument(
        "",
        "A filter: path:docs/** -tag:draft (lang:go | lang:rust).",
        narrows=True,
    )
    max_chunks_per_doc: int | None = argument(
        None,
        "At most this many passages of one document; 0 for all.",
        low=0,
        high=10_000,
    )
    unique: bool = argument(False, "One passage per document.")
    rerank: bool | None = argument(
        None, "Put the best in a cross-encoder's order (search.rerank_*)."
    )
    mmr: bool | None = argument(
        None, "Prefer passages that differ from those above them."
    )
    expand_parents: bool | None = argument(
        None,
        "Show the section around each passage (chunking.parents).",
        option="--parents/--no-parents",
    )
    include_graph_context: bool = argument(
        False, "List what the best hits are linked with, and how.", option="--related"
    )
    max_hops: int | None = argument(
        None,
        "Follow links from the best hits this far (default 1).",
        low=0,
        high=3,
        option="--hops N",
    )
    use_rrf: bool = argument(
        True,
        "Fuse all lanes, or order by meaning alone.",
        option="--rrf/--no-rrf",
    )
    rerank_with_recency: bool | None = argument(
        None,
        "Rank recent documents higher (search.recency_profile).",
        option="--recency/--no-recency",
    )
    quick: bool = argument(False, "Ask no model: words, names and links answer.")
    why_not: str | None = argument(
        None, "Say why this file is not in the answer.", option="--why-not FILE"
    )
    explain: bool = argument(
        False, "Show why: lanes, ranks, the stages and their times."
    )

    def __post_init__(self) -> None:
        """Check every value; a text in place of a list is a list of one."""
        cls: Any = type(self)
        for each in arguments_of(cls):
            value = each.check(getattr(self, each.name))
            object.__setattr__(self, each.name, value)


ARGUMENTS = arguments_of(SearchRequest)

Owner = TypeVar("Owner")
Request = TypeVar("Request")
Answer = TypeVar("Answer")
P = ParamSpec("P")


def with_arguments_of(
    make: Callable[P, Request],
) -> Callable[
    [Callable[[Owner, Request], Answer]], Callable[Concatenate[Owner, P], Answer]
]:
    """Let a method that takes a request be called with the arguments of the request instead."""

    def decorate(
        method: Callable[[Owner, Request], Answer],
    ) -> Callable[Concatenate[Owner, P], Answer]:
        own = inspect.signature(method)
        parameters = [own.parameters["self"]]
        parameters += inspect.signature(make).parameters.values()
        signature = own.replace(parameters=parameters)

        @functools.wraps(method)
        def call(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> Answer:
            signature.bind(self, *args, **kwargs)  # its errors do not name the class
            return method(self, make(*args, **kwargs))

        call.__signature__ = signature  # type: ignore[attr-defined]
        return call

    return decorate


def query_text(query: str) -> str:
    """Return a query that is neither empty nor too long, without half characters."""
    if len(query) > LONGEST_QUERY:
        raise BadQuery(
            f"the query has {len(query):,} characters, at most {LONGEST_QUERY:,} are allowed",
            hint="shorten it to what you are looking for",
        )
    if not query.strip():
        raise BadQuery("the query is empty", hint="give some words to search for")
    return query.encode("utf-8", "replace").decode("utf-8")
