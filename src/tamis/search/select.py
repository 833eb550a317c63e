"""Stages that drop candidates. Each is a pure function of a list that is best first, and keeps its order."""

import sys
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from tamis.model import Candidate

_OVERLAPPING: Final = {"documentation": "code_block", "code_block": "documentation"}
# An answer has at most 100 results. What ranks below this many different passages is not held against
# those that come after them as well, where each is compared with all: that takes the square of the time.
MOST_COMPARED: Final = 500
_SHARED: Final = 8  # how many passages before the nearest may still reach into a line


def above_threshold(candidates: Sequence[Candidate], least: float) -> list[Candidate]:
    """Those with at least this score (P10)."""
    return [candidate for candidate in candidates if candidate.score >= least]


def without_same_text(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best of each group whose texts differ in white space alone (P8, C73)."""
    best: dict[bytes, int] = {}
    hashes = (candidate.passage.content_hash for candidate in candidates)
    return collapsed(candidates, [best.setdefault(each, at) for at, each in enumerate(hashes)])


def collapsed(candidates: Sequence[Candidate], best: Sequence[int]) -> list[Candidate]:
    """One for each group; `best` tells for each candidate which one stands for it, maybe itself.

    What it stands for goes along with it, with all that those stood for themselves.
    """
    groups: dict[int, list[Candidate]] = {}
    for at, candidate in zip(best, candidates, strict=True):
        groups.setdefault(at, []).append(candidate)
    return [_standing(candidates[at], group) for at, group in groups.items()]


def _standing(best: Candidate, group: Sequence[Candidate]) -> Candidate:
    if len(group) == 1:
        return best
    alone = (each.standing_for(()) if each.also else each for each in group if each is not best)
    others = [*alone, *(each for candidate in group for each in candidate.also)]
    others.sort(key=lambda each: (-each.raw_score, each.passage.position))
    return best.standing_for(tuple(others))


def without_overlap(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The better of a passage and a code block that stands in it: the block is a chunk of its own as well."""
    kept: list[Candidate] = []
    seen: dict[tuple[str, str], list[tuple[int, int]]] = {}  # lines of what is kept, by path and type
    for candidate in candidates:
        passage = candidate.passage
        lines = (passage.start_line, passage.end_line)
        other = _OVERLAPPING.get(passage.chunk_type, "")
        if not _overlaps(lines, seen.get((passage.path, other), [])):
            kept.append(candidate)
            insort(seen.setdefault((passage.path, passage.chunk_type), []), lines)
    return kept


def _overlaps(lines: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    """Whether the lines are all in another run of lines, or have one in them.

    Runs of one type begin and end in the same order, or nearly so: pieces share a few lines.
    """
    start, end = lines
    around = others[max(0, bisect_right(others, (start, sys.maxsize)) - _SHARED) :]
    near = takewhile(lambda other: other[0] <= end, around)
    return any((a <= start and end <= b) or (start <= a and b <= end) for a, b in near)


def one_per_parent(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best of those that lie in the same section, which is shown in their place (P13)."""
    best: dict[tuple[str, int, bool], Candidate] = {}
    for candidate in candidates:
        passage = candidate.passage
        alone = passage.parent is None
        best.setdefault((passage.path, passage.ordinal if alone else passage.parent or 0, alone), candidate)
    return list(best.values())


def limited_per_document(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """The best `most` of each document; 0 is no limit."""
    if most <= 0:
        return list(candidates)
    seen: Counter[str] = Counter()
    kept = []
    for candidate in candidates:
        seen[candidate.passage.path] += 1
        if seen[candidate.passage.path] <= most:
            kept.append(candidate)
    return kept
