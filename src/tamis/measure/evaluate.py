"""THE MEASURING PATH: from judged sets and ways of asking to scores by question.

    judged set -> files -> index (one for each recipe) -> every question, every way -> scores

Documents are ranked by their best passage, ten for each question, as a user would get them. What was
written and indexed stays in the working folder, so that a second run with the same folder embeds
nothing again. The first question is asked once before the clock counts: loading a model is no search.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tamis.arguments import LONGEST_QUERY, query_text
from tamis.corpus import Corpus
from tamis.errors import BadFilter, BadJudgedSet
from tamis.measure.judged import Asked, JudgedSet, open_judged
from tamis.measure.metrics import DEPTH, scores
from tamis.measure.ways import Way
from tamis.model import Found
from tamis.plan import recipe
from tamis.progress import Progress
from tamis.query import parse_filter


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question, asked one way."""

    id: str
    type: str  # what tamis takes it for
    label: str  # what the set calls it
    ranked: tuple[str, ...]
    scores: Mapping[str, float]
    timings_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Measured:
    """One set, asked one way."""

    judged: JudgedSet
    way: str
    documents: int  # that the index holds
    skipped: int  # files that it does not hold, for whatever reason
    outcomes: tuple[Outcome, ...]


def evaluate(
    sets: Sequence[tuple[Path, Path | None]],
    ways: Sequence[Way],
    work: Path,
    progress: Progress,
    *,
    model: str = "",
    most: int = 0,
) -> Iterator[Measured]:
    """Measure every set (with the tree of its documents) every way, set by set.

    Wrong settings and unreadable sets come to light first.
    """
    for way in ways:
        way.settings(model)
    opened = [open_judged(given, work, tree, most) for given, tree in sets]
    for name, times in Counter(judged.name for judged, _ in opened).items():
        if times > 1:
            raise BadJudgedSet(f"{times} sets are called {name}", hint="measure them one after the other")
    for judged, place in opened:
        for way in ways:
            progress.note(f"{judged.name}: {way.name}, {len(judged.questions)} questions")
            yield measure(judged, place, way, model, progress)


def measure(judged: JudgedSet, place: Path, way: Way, model: str, progress: Progress) -> Measured:
    """Index the documents of a set, where that is still to be done, and ask its questions."""
    settings = way.settings(model)
    kind = re.sub(r"[^\w.-]+", "_", settings.model.name)
    with Corpus(judged.root, place / f"index-{kind}-{recipe(settings)}", settings) as corpus:
        _check_filters(corpus, judged)
        report = corpus.refresh(progress)
        for asked in judged.questions[:1]:
            _ask(corpus, asked, way)
        outcomes = tuple(_outcome(corpus, judged, asked, way) for asked in judged.questions)
    documents = report.indexed + report.unchanged
    return Measured(judged, way.name, documents, len(report.skipped), outcomes)


def _check_filters(corpus: Corpus, judged: JudgedSet) -> None:
    """A filter that cannot be read is told with its question, before anything is indexed."""
    for asked in judged.questions:
        try:
            parse_filter(asked.filter, corpus.names)
        except BadFilter as error:
            what = f"{judged.name}, question {asked.id}: {error.message}"
            raise BadJudgedSet(what, hint=error.hint) from error


def _outcome(corpus: Corpus, judged: JudgedSet, asked: Asked, way: Way) -> Outcome:
    found = _ask(corpus, asked, way)
    ranked = tuple(judged.ids.get(path, path) for path in _documents(found))
    return Outcome(
        asked.id, found.query_type, asked.label, ranked, scores(ranked, asked.grades), found.timings_ms
    )


def _documents(found: Found) -> list[str]:
    """The documents in order. A result stands for every place that its text is in."""
    places = ((result.path, *(place.path for place in result.also_in)) for result in found.results)
    return list(dict.fromkeys(path for of_result in places for path in of_result))[:DEPTH]


def _ask(corpus: Corpus, asked: Asked, way: Way) -> Found:
    """Whole issues are asked, too: what is longer than a question may be is cut."""
    text = query_text(asked.text.strip()[:LONGEST_QUERY])
    usual = corpus.question(text, parse_filter(asked.filter, corpus.names))
    question = replace(usual, limit=DEPTH, max_chunks_per_doc=1, without=way.without)
    return corpus.ask(text, question)
