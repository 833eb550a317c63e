"""Answers for agents: the same in two forms, an object and a text that reads well, each within a budget.

A budget is in tokens of four characters. Every result is shown as long as a few lines of each fit, long ones
cut so that short ones stay whole; what is left over is a cursor away. What was cut says so, and says how to
get the rest.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tamis.live.browse import Excerpt
from tamis.live.corpus import Freshness
from tamis.live.roots import Located, Page, RootStatus
from tamis.model import Advice, Related
from tamis.text.printable import also_in, visible

CHARACTERS: Final = 4  # in a token, about: enough to bound what an answer costs
_LEAST: Final = 160  # characters of a passage that are worth showing
_MOST_TAGS: Final = 10
_LONGEST_HEADER: Final = 200
_CURSOR: Final = 160  # characters, with what stands around it
_FOR_RELATED: Final = 0.25  # of the budget


@dataclass(frozen=True, slots=True)
class Told:
    """An answer in both forms."""

    structured: dict[str, Any]
    text: str
    shown: int = 0  # how many of the results


def tell_page(page: Page, max_tokens: int, *, several: bool) -> Told:
    hints = [hint.worded(_ADVICE) for hint in page.hints]
    envelope = {
        "results": [],
        "freshness": page.freshness.to_dict(),
        "hints": [*hints, _LINKED, _CUT],
    }
    budget = max_tokens * CHARACTERS - _size(envelope) - _CURSOR
    related, left_out = _related(
        page.related or (), int(budget * _FOR_RELATED), several
    )
    budget -= sum(_size(each) for each in related)
    bare = [_bare(each, several) for each in page.results]
    count, share = _portion(
        bare, [_weight(each.result.content) for each in page.results], budget
    )
    results = [
        _with_content(of, each.result.content, share)
        for of, each in zip(bare[:count], page.results[:count], strict=True)
    ]
    hints += [f"{left_out} {_LINKED}"] if left_out else []
    hints += [_CUT] if any("cut" in each for each in results) else []
    structured: dict[str, Any] = envelope | {"results": results, "hints": hints}
    if page.related is not None:
        structured["graph_context"] = related
    return Told(structured, "\n".join(_lines(structured)), count)


_LINKED: Final = "more linked documents are not shown: raise max_tokens"
_CUT: Final = "cut passages: read them with get_passage (chunk_id, or path and lines), or raise max_tokens"


_ADVICE: Final = {
    Advice.STATUS: "see: index_status",
    Advice.SHOW_MORE: "min_score 0 shows more",
    Advice.SHOW_LIKELY: "min_score 0.3 leaves such results out",
    Advice.READ_ON: "raise max_tokens, or go on with path and start_line",
}


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False)) + 1


def _weight(text: str) -> int:
    """Characters of a text within JSON."""
    return len(json.dumps(text, ensure_ascii=False))


def _bare(located: Located, several: bool) -> dict[str, Any]:
    """A result without its text. What is empty or usual is left out."""
    result = located.result
    header = result.header_path
    plain = {
        "chunk_id": result.chunk_id,
        "path": result.path,
        "start_line": result.start_line,
        "end_line": result.end_line,
        "header_path": header
        if len(header) <= _LONGEST_HEADER
        else f"...{header[-_LONGEST_HEADER:]}",
        "score": round(result.score, 4),
        "chunk_type": result.chunk_type,
        "modified": result.modified,
    }
    at_times = {
        "root": located.root if several else None,
        "language": result.language,
        "tags": list(result.tags[:_MOST_TAGS]),
        "is_archived": result.is_archived,
        "also_in": [f"{each.path}:{each.start_line}" for each in result.also_in[:3]],
        "also_in_count": len(result.also_in),
    }
    return plain | {name: value for name, value in at_times.items() if value}


def _portion(
    bare: Sequence[Mapping[str, Any]], sizes: Sequence[int], budget: int
) -> tuple[int, int]:
    """How many results are shown, and how many characters each of them may have at most."""
    places = [_size(each) + len('"cut": true, "content": ') for each in bare]
    for count in range(len(bare), 1, -1):
        left = budget - sum(places[:count])
        if left >= sum(min(size, _LEAST) for size in sizes[:count]):
            return count, _share(sizes[:count], left)
    return (1, max(0, budget - places[0])) if bare else (0, 0)


def _share(sizes: Sequence[int], budget: int) -> int:
    """The largest size that all can be cut to and fit together: short ones leave room for the others."""
    left = budget
    for at, size in enumerate(ordered := sorted(sizes)):
        share = left // (len(ordered) - at)
        if size > share:
            return share
        left -= size
    return max(sizes, default=0)


def _with_content(bare: Mapping[str, Any], content: str, share: int) -> dict[str, Any]:
    shown = cut_to(content, share)
    return (
        dict(bare)
        | {"content": shown}
        | ({"cut": True} if len(shown) < len(content) else {})
    )


def cut_to(text: str, weight: int) -> str:
    """As much of a text as weighs so much, ending with a line where that costs little."""
    if _weight(text) <= weight:
        return text
    shown = text[: max(0, weight)]
    while shown and _weight(shown) > weight - 3:
        shown = shown[: len(shown) - max(1, _weight(shown) - weight + 3)]
    line = shown.rfind("\n")
    return (
        (shown[:line] if line > len(shown) // 2 else shown).rstrip() + "..."
        if shown
        else ""
    )


def _related(
    context: Sequence[tuple[str, Related]], budget: int, several: bool
) -> tuple[list[dict[str, Any]], int]:
    shown: list[dict[str, Any]] = []
    for root, each in context:
        plain = (
            each.to_dict()
            | {"score": round(each.score, 4)}
            | ({"root": root} if several else {})
        )
        budget -= _size(plain)
        if budget < 0:
            break
        shown.append(plain)
    return shown, len(context) - len(shown)


def _lines(told: Mapping[str, Any]) -> Iterator[str]:
    """`path:12-30  API > Authentication  0.87`, and the text below it."""
    for result in told["results"]:
        place = f"{_rooted(result)}:{result['start_line']}-{result['end_line']}"
        header = f"  {result['header_path']}" if result["header_path"] else ""
        archived = "  archived" if result.get("is_archived") else ""
        yield visible(f"{place}{header}  {result['score']:.2f}{archived}")
        yield from (visible(line) for line in result["content"].split("\n"))
        if "also_in" in result:
            yield also_in(result["also_in"], result["also_in_count"])
        yield ""
    if not told["results"]:
        yield "nothing found"
    for each in told.get("graph_context", ()):
        way = (
            f"from {each['source']}"
            if each["path"] == each["target"]
            else f"to {each['target']}"
        )
        yield visible(f"linked: {_rooted(each)}  {each['link']} {way}")
    yield from _notes(told)


def _rooted(plain: Mapping[str, Any]) -> str:
    return f"{plain['root']}:{plain['path']}" if "root" in plain else str(plain["path"])


def _notes(told: Mapping[str, Any]) -> Iterator[str]:
    yield from (visible(f"note: {hint}") for hint in told.get("hints", ()))
    freshness = told["freshness"]
    if not freshness["complete"]:
        yield visible(
            f"not complete: {freshness['note'] or 'some files are not indexed yet'}"
        )


def with_cursor(told: Told, cursor: str | None) -> Told:
    """The same, and how to get the results after these."""
    if cursor is None:
        return told
    return Told(
        told.structured | {"next_cursor": cursor},
        f"{told.text}\nmore: the same question with cursor {cursor}".lstrip("\n"),
        told.shown,
    )


def tell_excerpt(
    found: Excerpt, root: str, freshness: Freshness, *, several: bool
) -> Told:
    plain = {
        name: value
        for name, value in found.to_dict().items()
        if value not in (None, "", ())
    }
    structured = {"content": ""} | plain | {"freshness": freshness.to_dict()}
    structured |= {"root": root} if several else {}
    if found.hints:
        structured["hints"] = [hint.worded(_ADVICE) for hint in found.hints]
    header = f"  {found.header_path}" if found.header_path else ""
    place = visible(
        f"{_rooted(structured)}:{found.start_line}-{found.end_line}{header}"
    )
    more = [f"more: start_line {found.next_line}"] if found.next_line else []
    body = [visible(line) for line in found.content.split("\n")]
    return Told(structured, "\n".join([place, *body, *more, *_notes(structured)]))


def tell_status(roots: Sequence[RootStatus], freshness: Freshness) -> Told:
    each = [one.to_dict() | {"workspaces": list(one.workspaces)} for one in roots]
    structured = {"roots": each, "freshness": freshness.to_dict()}
    return Told(
        structured,
        "\n".join(
            [*(line for one in roots for line in _status(one)), *_notes(structured)]
        ),
    )


def _status(one: RootStatus) -> Iterator[str]:
    yield visible(f"{one.root}: {one.path}")
    yield f"  {one.documents} documents, {one.chunks} passages, {one.pending_files} files pending"
    if one.built_at:
        yield f"  indexed at {one.built_at} ({one.age_seconds} s ago) with the model {one.model or 'none'}"
    if one.skipped:
        yield "  skipped: " + ", ".join(
            f"{count} {reason}" for reason, count in one.skipped.items()
        )
    if one.workspaces:
        yield visible(f"  workspaces: {', '.join(one.workspaces)}")
