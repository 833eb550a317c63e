"""Explanations: the reason why a document is not in an answer, the words of a question in a passage."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tamis.index.protocol import Snapshot
from tamis.model import Plain, WhyNot
from tamis.query.filters import And, Archived, DocumentIs, Filter, Not, all_of
from tamis.search.pipeline import Clock, gather, inquire, run_stages
from tamis.search.question import Candidates, Inquiry, Models, Question
from tamis.text.words import words

_DEEPEST = 5_000  # candidates looked through: below, "ranked lower" is enough


def why_not(
    snapshot: Snapshot, question: Question, models: Models, path: str, depth: int
) -> WhyNot:
    """Follow a document through filter, lanes and stages, as the answer went (at `depth`).

    The reason is the first step that kept it out.
    """
    if not snapshot.allow(DocumentIs(path)).chunks:
        return WhyNot(path, "empty", "it has no text")
    terms = _terms_against(snapshot, question.filter, path)
    for each in terms:
        if isinstance(each, Not) and isinstance(each.term, Archived):
            hidden = "archived documents are hidden (--archived shows them)"
            return WhyNot(path, "archived", hidden)
    if terms:
        return WhyNot(path, "filtered", str(all_of(terms)))
    inquiry = inquire(snapshot, question, models, Clock())
    fused = gather(inquiry, inquiry.allowed, depth).fused
    if _place(fused, path):
        return _lost_at(inquiry, fused, path)
    deeper = gather(inquiry, inquiry.allowed, _DEEPEST).fused
    place = _place(deeper, path)
    if not place:
        below = f"not among the best {len(deeper):,} passages"
        return WhyNot(path, "ranked lower", below)
    return _ranked_lower(path, place, question)


def _terms_against(snapshot: Snapshot, filter: Filter, path: str) -> Sequence[Filter]:
    """Return the terms of a filter that let none of a document's passages through."""
    document = DocumentIs(path)
    if snapshot.allow(filter & document).chunks:
        return ()
    terms = filter.terms if isinstance(filter, And) else (filter,)
    alone = []
    for term in terms:
        if not snapshot.allow(term & document).chunks:
            alone.append(term)
    # Each passage may fail at another term: then it is all of them together.
    return alone or terms


def _lost_at(inquiry: Inquiry, fused: Candidates, path: str) -> WhyNot:
    """Find the stage that dropped a document."""
    question = inquiry.question
    trace = run_stages(fused, question, inquiry.lookups, Clock())
    for (_, before), (stage, after) in pairwise(trace.items()):
        if _place(after, path):
            continue
        place = _place(before, path)
        best = before[place - 1]
        if stage == "threshold":
            below = f"its best score is {best.score:.3f}, below {question.min_score:g}"
            return WhyNot(path, "below the threshold", below)
        for candidate in after:
            duplicates = [each.passage.position for each in candidate.duplicates]
            if best.passage.position in duplicates:
                shown = f"shown from {candidate.passage.path} instead"
                return WhyNot(path, stage, shown)
        return _ranked_lower(path, place, question)
    return WhyNot(path, "shown", f"it is result {_place(trace['limit'], path)}")


def _place(candidates: Candidates, path: str) -> int:
    """Return the place of a document's best candidate, from 1; 0 if there is none."""
    for place, candidate in enumerate(candidates, start=1):
        if candidate.passage.path == path:
            return place
    return 0


def _ranked_lower(path: str, place: int, question: Question) -> WhyNot:
    detail = f"its best passage is number {place}, the limit is {question.limit}"
    return WhyNot(path, "ranked lower", detail)


Span = tuple[int, int]
Found = tuple[re.Match[str], frozenset[str]]  # with the words of the question

_WORD = re.compile(r"[^\W_]+")
_SENTENCE = re.compile(r"[^\s][^\n]*?(?:[.!?](?=\s)|$)", re.MULTILINE)
_MOST = 200  # marks in one passage: more would mark everything


@dataclass(frozen=True, slots=True)
class Marks(Plain):
    words: tuple[Span, ...]
    sentence: Span | None  # None: no sentence has more of the words than others


def marks(question: str, content: str) -> Marks:
    """Mark the words of a question as the words lane counts them: by their stems, without stop words."""
    wanted = frozenset(words(question))
    found: list[Found] = []
    for match in _WORD.finditer(content):
        terms = wanted.intersection(words(match[0]))
        if terms:
            found.append((match, terms))
    sentence = None
    if len(wanted) > 1:
        sentence = _best(content, found)
    spans = [match.span() for match, _ in found[:_MOST]]
    return Marks(tuple(spans), sentence)


def _best(content: str, found: list[Found]) -> Span | None:
    """Return the first sentence with the most different words of the question, if it has two or more."""
    most = 1
    best = None
    for sentence in _SENTENCE.finditer(content):
        inside: set[str] = set()
        for match, terms in found:
            if sentence.start() <= match.start() < sentence.end():
                inside |= terms
        if len(inside) > most:
            most = len(inside)
            best = sentence.span()
    return best
