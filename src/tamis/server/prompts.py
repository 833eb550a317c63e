"""Prompts: ways of working that a person can start by name. And what completes their arguments."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tamis.errors import UsageError


@dataclass(frozen=True, slots=True)
class Prompt:
    name: str
    description: str
    arguments: Mapping[str, str]
    required: frozenset[str]
    text: str


_NARROWER: Final = {
    "workspace": "Only in this workspace",
    "tag": "Only documents with this tag",
    "chunk_type": "Only passages of this type",
    "language": "Only this language",
    "path": "Only this document",
}

FIND_AND_CITE: Final = Prompt(
    "find_and_cite",
    "Answer a question from the documents here, with citations.",
    {"question": "What you want to know", **_NARROWER},
    frozenset({"question"}),
    """Answer this question from the documents that tamis has indexed: {question}

1. Search with query_documents{filters}. Try other words, or a narrower filter, when scores stay below 0.3.
2. Read what looks right with get_passage, with neighbours where a passage breaks off.
3. Answer from what you have read and from nothing else. Cite each statement as path:start-end.
4. Where the documents do not say, or say different things, tell so. If freshness.complete is false, say that
   files were still being indexed.""",
)

WHAT_IS_OUT_OF_DATE: Final = Prompt(
    "what_is_out_of_date",
    "Find what the documents say about a topic that no longer holds.",
    {"topic": "What to check", **_NARROWER},
    frozenset({"topic"}),
    """Find out what is out of date in what the documents say about: {topic}

1. Search with query_unique_documents{filters} for everything that speaks of it, then with
   graphrag_hybrid_search for what these documents are linked with. Look at `modified` of each result.
2. Read the passages with get_passage. Compare documents with each other, and with the code they describe
   (chunk_types symbols and definitions): names, defaults, commands, versions, links.
3. List what no longer holds: the passage (path:start-end, modified), what contradicts it (path:start-end,
   modified), and what it should say. Newer is not always right: say why.
4. Name what you could not check.""",
)

PROMPTS: Final = {
    prompt.name: prompt for prompt in (FIND_AND_CITE, WHAT_IS_OUT_OF_DATE)
}

# Which argument of a prompt, or part of an address, is completed with which values.
COMPLETED: Final = {
    name: name
    for name in ("workspace", "tag", "chunk_type", "language", "path", "root")
}
_FILTERS: Final = {
    "workspace": "workspace",
    "tag": "tags",
    "chunk_type": "chunk_types",
    "language": "languages",
}


def fill(prompt: Prompt, given: Mapping[str, str]) -> str:
    """The text of a prompt with its arguments in it."""
    for name in given:
        if name not in prompt.arguments:
            near = difflib.get_close_matches(name[:80], prompt.arguments, n=1)
            guess = f"did you mean {near[0]}? " if near else ""
            hint = f"{guess}allowed: {', '.join(prompt.arguments)}"
            raise UsageError(f"{prompt.name} has no argument {name[:80]}", hint=hint)
    missing = [
        name for name in sorted(prompt.required) if not given.get(name, "").strip()
    ]
    if missing:
        raise UsageError(f"{missing[0]} is missing", hint=prompt.arguments[missing[0]])
    filters = [
        f"{_FILTERS[name]}: {value}"
        for name, value in given.items()
        if name in _FILTERS and value
    ]
    filters += [f"include_patterns: /{given['path']}"] if given.get("path") else []
    (main,) = prompt.required
    # The text first: what a person wrote may hold braces.
    return prompt.text.replace(
        "{filters}", f" ({', '.join(filters)})" if filters else ""
    ).replace(f"{{{main}}}", given[main])


def matching(values: Sequence[str], typed: str) -> list[str]:
    """Those that begin with what was typed, then those that have it inside; upper and lower case are one."""
    wanted = typed.casefold()
    first = [value for value in values if value.casefold().startswith(wanted)]
    then = [
        value
        for value in values
        if wanted in value.casefold() and value not in set(first)
    ]
    return first + then
