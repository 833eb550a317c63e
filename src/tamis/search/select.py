"""Stages that drop candidates. Each is a pure function of a list that is best first, and keeps its order."""

from collections import Counter
from collections.abc import Sequence

from tamis.model import Candidate, Passage


def above_threshold(candidates: Sequence[Candidate], least: float) -> list[Candidate]:
    """Those with at least this score (P10)."""
    return [candidate for candidate in candidates if candidate.score >= least]


def without_same_text(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best of each group whose texts differ in white space alone (P8, C73)."""
    best: dict[bytes, Candidate] = {}
    for candidate in candidates:
        best.setdefault(candidate.passage.content_hash, candidate)
    return list(best.values())


def without_overlap(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The better of a passage and a code block that stands in it: the block is a chunk of its own as well."""
    kept: list[Candidate] = []
    blocks: dict[tuple[str, str], list[Passage]] = {}  # by path and kind, of what is kept
    for candidate in candidates:
        passage = candidate.passage
        other = {"documentation": "code_block", "code_block": "documentation"}.get(passage.chunk_type, "")
        if not any(_overlap(passage, each) for each in blocks.get((passage.path, other), ())):
            kept.append(candidate)
            blocks.setdefault((passage.path, passage.chunk_type), []).append(passage)
    return kept


def _overlap(one: Passage, other: Passage) -> bool:
    """Whether the lines of one are all in the other."""
    first, second = sorted((one, other), key=lambda each: each.end_line - each.start_line)
    return second.start_line <= first.start_line and first.end_line <= second.end_line


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
