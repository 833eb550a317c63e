"""Why an indexed document is not in an answer: the first thing on the way that kept it out."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tamis.engine import Snapshot
from tamis.filters import And, Archived, DocumentIs, Filter, Not, all_of
from tamis.model import Candidate, WhyNot
from tamis.search.pipeline import active_lanes, gather, means_of, word
from tamis.search.question import Means, Models, Question
from tamis.search.rerank import Watched
from tamis.search.stages import STAGES

_DEEPEST: Final = 5_000  # candidates looked through; below that, "ranked lower" says enough


def why_not(snapshot: Snapshot, question: Question, models: Models, path: str, depth: int) -> WhyNot:
    """Follow a document through the filter, the lanes and the stages, as the answer went (at `depth`)."""
    if not snapshot.allow(DocumentIs(path)).chunks:
        return WhyNot(path, "empty", "it has no text")
    keeping_out = list(_keeping_out(snapshot, question.filter, path))
    if any(isinstance(term, Not) and isinstance(term.term, Archived) for term in keeping_out):
        return WhyNot(path, "archived", "archived documents are hidden (--archived shows them)")
    if keeping_out:
        return WhyNot(path, "filtered", str(all_of(keeping_out)))
    fused = _candidates(snapshot, question, models, depth)
    if any(candidate.passage.path == path for candidate in fused):
        watched = replace(models, rerank=Watched(models.rerank))
        means = means_of(snapshot, question, snapshot.allow(question.filter), watched)
        return _lost_at(means, question, fused, path)
    deeper = [candidate.passage.path for candidate in _candidates(snapshot, question, models, _DEEPEST)]
    if path not in deeper:
        return WhyNot(path, "ranked lower", f"not among the best {len(deeper):,} passages")
    place = deeper.index(path) + 1
    return WhyNot(path, "ranked lower", f"its best passage is number {place}, the limit is {question.limit}")


def _keeping_out(snapshot: Snapshot, filter: Filter, path: str) -> Iterator[Filter]:
    """The terms of a filter that let none of a document's passages through."""
    document = DocumentIs(path)
    if snapshot.allow(all_of((filter, document))).chunks:
        return
    terms = filter.terms if isinstance(filter, And) else (filter,)
    alone = [term for term in terms if not snapshot.allow(all_of((term, document))).chunks]
    yield from alone or terms  # each passage may fail at another term: then it is all of them together


def _candidates(snapshot: Snapshot, question: Question, models: Models, depth: int) -> list[Candidate]:
    embed, allowed = models.embed, snapshot.allow(question.filter)
    lanes = active_lanes(question, allowed.known if embed else 0.0)
    vector = embed(question.text) if embed and "meaning" in lanes else None
    wording = word(snapshot, question, vector, embed, allowed)
    _, fused = gather(snapshot, question, wording, lanes, allowed, depth)
    return fused


def _lost_at(means: Means, question: Question, fused: Sequence[Candidate], path: str) -> WhyNot:
    before = fused
    for name, stage in STAGES.items():
        after = before if name in question.without else stage(before, question, means)
        if not any(candidate.passage.path == path for candidate in after):
            return WhyNot(path, *_reason(name, question, before, after, path))
        before = after
    place = next(at for at, candidate in enumerate(before, start=1) if candidate.passage.path == path)
    return WhyNot(path, "shown", f"it is result {place}")


def _reason(
    stage: str, question: Question, before: Sequence[Candidate], after: Sequence[Candidate], path: str
) -> tuple[str, str]:
    best = next(candidate for candidate in before if candidate.passage.path == path)
    if stage == "threshold":
        return (
            "below the threshold",
            f"its best score is {best.score:.3f}, below {question.min_score:g}",
        )
    for candidate in after:
        if any(each.passage.position == best.passage.position for each in candidate.also):
            return stage, f"shown from {candidate.passage.path} instead"
    place = next(at for at, candidate in enumerate(before, start=1) if candidate.passage.path == path)
    return "ranked lower", f"its best passage is number {place}, the limit is {question.limit}"
