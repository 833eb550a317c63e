"""Why an indexed document is not in an answer: the first thing on the way that kept it out."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tamis.index.protocol import Snapshot
from tamis.model import Candidate, Plain, WhyNot
from tamis.query.filters import And, Archived, DocumentIs, Filter, Not, all_of
from tamis.search.extras.rerank import Watched
from tamis.search.pipeline import active_lanes, gather, means_of, word
from tamis.search.question import Means, Models, Question
from tamis.search.stages import STAGES
from tamis.text.words import words

_DEEPEST: Final = (
    5_000  # candidates looked through; below that, "ranked lower" says enough
)


def why_not(
    snapshot: Snapshot, question: Question, models: Models, path: str, depth: int
) -> WhyNot:
    """Follow a document through the filter, the lanes and the stages, as the answer went (at `depth`)."""
    if not snapshot.allow(DocumentIs(path)).chunks:
        return WhyNot(path, "empty", "it has no text")
    keeping_out = list(_keeping_out(snapshot, question.filter, path))
    if any(
        isinstance(term, Not) and isinstance(term.term, Archived)
        for term in keeping_out
    ):
        return WhyNot(
            path, "archived", "archived documents are hidden (--archived shows them)"
        )
    if keeping_out:
        return WhyNot(path, "filtered", str(all_of(keeping_out)))
    fused = _candidates(snapshot, question, models, depth)
    if any(candidate.passage.path == path for candidate in fused):
        watched = replace(models, rerank=Watched(models.rerank))
        means = means_of(snapshot, question, snapshot.allow(question.filter), watched)
        return _lost_at(means, question, fused, path)
    deeper = [
        candidate.passage.path
        for candidate in _candidates(snapshot, question, models, _DEEPEST)
    ]
    if path not in deeper:
        return WhyNot(
            path, "ranked lower", f"not among the best {len(deeper):,} passages"
        )
    place = deeper.index(path) + 1
    return WhyNot(
        path,
        "ranked lower",
        f"its best passage is number {place}, the limit is {question.limit}",
    )


def _keeping_out(snapshot: Snapshot, filter: Filter, path: str) -> Iterator[Filter]:
    """The terms of a filter that let none of a document's passages through."""
    document = DocumentIs(path)
    if snapshot.allow(all_of((filter, document))).chunks:
        return
    terms = filter.terms if isinstance(filter, And) else (filter,)
    alone = [
        term for term in terms if not snapshot.allow(all_of((term, document))).chunks
    ]
    yield from (
        alone or terms
    )  # each passage may fail at another term: then it is all of them together


def _candidates(
    snapshot: Snapshot, question: Question, models: Models, depth: int
) -> list[Candidate]:
    embed, allowed = models.embed, snapshot.allow(question.filter)
    lanes = active_lanes(question, allowed.known if embed else 0.0)
    vector = embed(question.text) if embed and "meaning" in lanes else None
    wording = word(snapshot, question, vector, embed, allowed)
    _, fused = gather(snapshot, question, wording, lanes, allowed, depth)
    return fused


def _lost_at(
    means: Means, question: Question, fused: Sequence[Candidate], path: str
) -> WhyNot:
    before = fused
    for name, stage in STAGES.items():
        after = before if name in question.without else stage(before, question, means)
        if not any(candidate.passage.path == path for candidate in after):
            return WhyNot(path, *_reason(name, question, before, after, path))
        before = after
    place = next(
        at
        for at, candidate in enumerate(before, start=1)
        if candidate.passage.path == path
    )
    return WhyNot(path, "shown", f"it is result {place}")


def _reason(
    stage: str,
    question: Question,
    before: Sequence[Candidate],
    after: Sequence[Candidate],
    path: str,
) -> tuple[str, str]:
    best = next(candidate for candidate in before if candidate.passage.path == path)
    if stage == "threshold":
        return (
            "below the threshold",
            f"its best score is {best.score:.3f}, below {question.min_score:g}",
        )
    for candidate in after:
        if any(
            each.passage.position == best.passage.position for each in candidate.also
        ):
            return stage, f"shown from {candidate.passage.path} instead"
    place = next(
        at
        for at, candidate in enumerate(before, start=1)
        if candidate.passage.path == path
    )
    return (
        "ranked lower",
        f"its best passage is number {place}, the limit is {question.limit}",
    )


Span = tuple[int, int]

_WORD: Final = re.compile(r"[^\W_]+")
_SENTENCE: Final = re.compile(r"[^\s][^\n]*?(?:[.!?](?=\s)|$)", re.MULTILINE)
_MOST: Final = 200  # marks in one passage: more would mark everything


@dataclass(frozen=True, slots=True)
class Marks(Plain):
    words: tuple[Span, ...]
    sentence: Span | None  # None: no sentence has more of the words than others would


def marks(question: str, content: str) -> Marks:
    """Words count as the words lane counts them: by their stems, without those that say nothing."""
    wanted = frozenset(words(question))
    found = list(_found(wanted, content))
    spans = tuple((start, end) for start, end, _ in found)[:_MOST]
    return Marks(spans, _best(content, found) if len(wanted) > 1 else None)


def _found(
    wanted: frozenset[str], content: str
) -> Iterator[tuple[int, int, frozenset[str]]]:
    for match in _WORD.finditer(content):
        terms = wanted.intersection(words(match[0]))
        if terms:
            yield match.start(), match.end(), terms


def _best(content: str, found: list[tuple[int, int, frozenset[str]]]) -> Span | None:
    """The first of the sentences with the most different words of the question, if that is two or more."""
    most, best = 1, None
    for sentence in _SENTENCE.finditer(content):
        inside = [
            terms
            for start, _, terms in found
            if sentence.start() <= start < sentence.end()
        ]
        count = len(frozenset().union(*inside))
        if count > most:
            most, best = count, sentence.span()
    return best
