"""Texts for agents: answers within a budget, and prompts.

An answer has two forms, an object and a text that reads well. Its budget is in tokens of four
characters. Every result is shown if a few lines of each fit; long ones are cut so that short ones
stay whole. A cursor leads to the rest, and a cut passage says how to read all of it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tamis.model import Advice
from tamis.request import Argument, read
from tamis.server.state import Paged
from tamis.text.printable import also_in, visible

if TYPE_CHECKING:
    from tamis.live.browse import Excerpt
    from tamis.live.corpus import Freshness
    from tamis.live.roots import Located, RootStatus

CHARACTERS = 4  # in a token, about: enough to bound what an answer costs
_LEAST = 160  # characters of a passage that are worth showing
_MOST_TAGS = 10
_LONGEST_HEADER = 200
_CURSOR = 160  # characters of a cursor and the words around it
_FOR_RELATED = 0.25  # of the budget
_LINKED = "more linked documents are not shown: raise max_tokens"
_CUT = "cut passages: read them with get_passage (chunk_id, or path and lines), or raise max_tokens"
_ADVICE = {
    Advice.STATUS: "see: index_status",
    Advice.SHOW_MORE: "min_score 0 shows more",
    Advice.SHOW_LIKELY: "min_score 0.3 leaves such results out",
    Advice.READ_ON: "raise max_tokens, or go on with path and start_line",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer in both forms."""

    structured: dict[str, Any]
    text: str


# --- A page of results --------------------------------------------------------------------


def page_reply(paged: Paged, max_tokens: int, *, has_several: bool) -> Reply:
    """Show as many results as the budget allows; several roots are named."""
    page = paged.page
    hints = [hint.worded(_ADVICE) for hint in paged.hints]
    reply: dict[str, Any] = {"results": [], "freshness": page.freshness.to_dict()}
    budget = max_tokens * CHARACTERS - _CURSOR
    budget -= _size(reply | {"hints": [*hints, _LINKED, _CUT]})
    related = []
    for_related = int(budget * _FOR_RELATED)
    for root, each in page.related or ():
        plain = each.to_dict() | {"score": round(each.score, 4)}
        if has_several:
            plain["root"] = root
        for_related -= _size(plain)
        if for_related < 0:
            break
        related.append(plain)
        budget -= _size(plain)
    results = [_without_content(each, has_several) for each in page.results]
    contents = [each.result.content for each in page.results]
    shown, share = _portion(results, contents, budget)
    results = results[:shown]
    for plain, content in zip(results, contents, strict=False):
        plain["content"] = cut_to(content, share)
        if len(plain["content"]) < len(content):
            plain["cut"] = True
    left_out = len(page.related or ()) - len(related)
    if left_out:
        hints.append(f"{left_out} {_LINKED}")
    if any("cut" in plain for plain in results):
        hints.append(_CUT)
    reply |= {"results": results, "hints": hints}
    if page.related is not None:
        reply["graph_context"] = related
    lines = [*_results(results)]
    for plain in related:
        way = f"to {plain['target']}"
        if plain["path"] == plain["target"]:
            way = f"from {plain['source']}"
        lines.append(visible(f"linked: {_place(plain)}  {plain['link']} {way}"))
    lines += _notes(reply)
    cursor = paged.next_cursor(shown)
    if cursor is not None:
        reply["next_cursor"] = cursor
        lines.append(f"more: the same question with cursor {cursor}")
    return Reply(reply, "\n".join(lines))


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False)) + 1


def _without_content(located: "Located", has_several: bool) -> dict[str, Any]:
    """Return a result without its text. Empty and usual values are left out."""
    result = located.result
    header = result.header_path
    if len(header) > _LONGEST_HEADER:
        header = f"...{header[-_LONGEST_HEADER:]}"
    plain = {
        "chunk_id": result.chunk_id,
        "path": result.path,
        "start_line": result.start_line,
        "end_line": result.end_line,
        "header_path": header,
        "score": round(result.score, 4),
        "chunk_type": result.chunk_type,
        "modified": result.modified,
    }
    at_times = {
        "root": has_several and located.root,
        "language": result.language,
        "tags": list(result.tags[:_MOST_TAGS]),
        "is_archived": result.is_archived,
        "also_in": [f"{each.path}:{each.start_line}" for each in result.also_in[:3]],
        "also_in_count": len(result.also_in),
    }
    return plain | {name: value for name, value in at_times.items() if value}


def _portion(
    results: Sequence[Mapping[str, Any]], contents: Sequence[str], budget: int
) -> tuple[int, int]:
    """Return how many results are shown, and how many characters of each at most."""
    sizes = [_weight(content) for content in contents]
    places = [_size(each) + len('"cut": true, "content": ') for each in results]
    for count in range(len(results), 1, -1):
        left = budget - sum(places[:count])
        if left >= sum(min(size, _LEAST) for size in sizes[:count]):
            return count, fair_share(sizes[:count], left)
    if not results:
        return 0, 0
    return 1, max(0, budget - places[0])


def _weight(text: str) -> int:
    """Return the number of characters of a text within JSON."""
    return len(json.dumps(text, ensure_ascii=False))


def fair_share(sizes: Sequence[int], budget: int) -> int:
    """Return the largest size that all can be cut to and still fit together.

    Sizes below it leave room for the others.
    """
    ordered = sorted(sizes)
    for at, size in enumerate(ordered):
        share = budget // (len(ordered) - at)
        if size > share:
            return share
        budget -= size
    return max(sizes, default=0)


def cut_to(text: str, weight: int) -> str:
    """Return the start of a text that weighs at most so much, up to a line end if one is near."""
    if _weight(text) <= weight:
        return text
    shown = text[: max(0, weight)]
    while shown and _weight(shown) > weight - 3:
        excess = _weight(shown) - weight + 3
        shown = shown[: len(shown) - max(1, excess)]
    if not shown:
        return ""
    line = shown.rfind("\n")
    if line > len(shown) // 2:
        shown = shown[:line]
    return f"{shown.rstrip()}..."


def _results(results: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield `path:12-30  API > Authentication  0.87` and the text, for each result."""
    for result in results:
        archived = "  archived" if "is_archived" in result else ""
        yield visible(f"{_span(result)}  {result['score']:.2f}{archived}")
        yield from map(visible, result["content"].split("\n"))
        if "also_in" in result:
            yield also_in(result["also_in"], result["also_in_count"])
        yield ""
    if not results:
        yield "nothing found"


def _span(plain: Mapping[str, Any]) -> str:
    span = f"{_place(plain)}:{plain['start_line']}-{plain['end_line']}"
    if plain.get("header_path"):
        span += f"  {plain['header_path']}"
    return span


def _place(plain: Mapping[str, Any]) -> str:
    if "root" in plain:
        return f"{plain['root']}:{plain['path']}"
    return str(plain["path"])


def _notes(reply: Mapping[str, Any]) -> Iterator[str]:
    for hint in reply.get("hints", ()):
        yield visible(f"note: {hint}")
    freshness = reply["freshness"]
    if not freshness["complete"]:
        note = freshness["note"] or "some files are not indexed yet"
        yield visible(f"not complete: {note}")


# --- A passage, the status ------------------------------------------------------------------


def excerpt_reply(
    excerpt: "Excerpt", root: str, freshness: "Freshness", *, has_several: bool
) -> Reply:
    """Show lines of a document."""
    reply: dict[str, Any] = {"content": ""}
    for name, value in excerpt.to_dict().items():
        if value not in (None, "", []):
            reply[name] = value
    reply["freshness"] = freshness.to_dict()
    if has_several:
        reply["root"] = root
    if excerpt.hints:
        reply["hints"] = [hint.worded(_ADVICE) for hint in excerpt.hints]
    lines = [_span(reply), *excerpt.content.split("\n")]
    if excerpt.next_line:
        lines.append(f"more: start_line {excerpt.next_line}")
    lines += _notes(reply)
    return Reply(reply, "\n".join(map(visible, lines)))


def status_reply(roots: "Sequence[RootStatus]", freshness: "Freshness") -> Reply:
    """Show what the indexes hold."""
    plain = [one.to_dict() for one in roots]
    reply = {"roots": plain, "freshness": freshness.to_dict()}
    lines = []
    for one in roots:
        lines.append(f"{one.root}: {one.path}")
        held = f"{one.documents} documents, {one.chunks} passages"
        lines.append(f"  {held}, {one.pending_files} files pending")
        if one.built_at:
            built = f"indexed at {one.built_at} ({one.age_seconds} s ago)"
            lines.append(f"  {built} with the model {one.model or 'none'}")
        if one.skipped:
            skipped = [f"{count} {reason}" for reason, count in one.skipped.items()]
            lines.append(f"  skipped: {', '.join(skipped)}")
        if one.workspaces:
            lines.append(f"  workspaces: {', '.join(one.workspaces)}")
    lines += _notes(reply)
    return Reply(reply, "\n".join(map(visible, lines)))


# --- Prompts ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prompt:
    """A way of working that a person can start by name."""

    name: str
    description: str
    subject: Argument
    text: str

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """The arguments: the subject, and what narrows the search."""
        return (self.subject, *_NARROWER)

    def fill(self, given: Mapping[str, str]) -> str:
        """Return the text with these arguments in it."""
        written = {name: value.strip() or None for name, value in given.items()}
        read(self.arguments, written, self.name)
        filters = []
        for name, filter_as in _FILTERS.items():
            if written.get(name):
                filters.append(filter_as.format(given[name]))
        narrowed = f" ({', '.join(filters)})" if filters else ""
        # The subject comes last: a person wrote it, and it may hold braces.
        text = self.text.replace("{filters}", narrowed)
        return text.replace("{subject}", given[self.subject.name])


_NARROWER = (
    Argument("workspace", "text", "Only in this workspace"),
    Argument("tag", "text", "Only documents with this tag"),
    Argument("chunk_type", "text", "Only passages of this type"),
    Argument("language", "text", "Only this language"),
    Argument("path", "text", "Only this document"),
)
_FILTERS = {
    "workspace": "workspace: {}",
    "tag": "tags: {}",
    "chunk_type": "chunk_types: {}",
    "language": "languages: {}",
    "path": "include_patterns: /{}",
}
# Arguments of a prompt, or parts of an address, that are completed.
COMPLETED = (*_FILTERS, "root")

FIND_AND_CITE = Prompt(
    "find_and_cite",
    "Answer a question from the documents here, with citations.",
    Argument("question", "text", "What you want to know", required=True),
    """Answer this question from the documents that tamis has indexed: {subject}

1. Search with query_documents{filters}. Try other words, or a narrower filter, when scores stay below 0.3.
2. Read what looks right with get_passage, with neighbours where a passage breaks off.
3. Answer from what you have read and from nothing else. Cite each statement as path:start-end.
4. Where the documents do not say, or say different things, tell so. If freshness.complete is false, say that
   files were still being indexed.""",
)

WHAT_IS_OUT_OF_DATE = Prompt(
    "what_is_out_of_date",
    "Find what the documents say about a topic that no longer holds.",
    Argument("topic", "text", "What to check", required=True),
    """Find out what is out of date in what the documents say about: {subject}

1. Search with query_unique_documents{filters} for everything that speaks of it, then with
   graphrag_hybrid_search for what these documents are linked with. Look at `modified` of each result.
2. Read the passages with get_passage. Compare documents with each other, and with the code they describe
   (chunk_types symbols and definitions): names, defaults, commands, versions, links.
3. List what no longer holds: the passage (path:start-end, modified), what contradicts it (path:start-end,
   modified), and what it should say. Newer is not always right: say why.
4. Name what you could not check.""",
)

PROMPTS = {prompt.name: prompt for prompt in (FIND_AND_CITE, WHAT_IS_OUT_OF_DATE)}


def matching(values: Sequence[str], typed: str) -> list[str]:
    """Return the values that begin with the typed text, then those that contain it, in any case."""
    wanted = typed.casefold()
    first = []
    then = []
    for value in values:
        if value.casefold().startswith(wanted):
            first.append(value)
        elif wanted in value.casefold():
            then.append(value)
    return first + then
