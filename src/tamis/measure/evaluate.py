"""From judged sets and ways of asking to scores by question.

    judged set -> files -> index (one for each recipe) -> every question, every way -> scores

Documents are ranked by their best passage, ten for each question, as a user would get them. Files
and indexes stay in the working folder, so a second run with the same folder embeds nothing again.
The first question is asked once before the clock counts: loading a model is no search.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from tamis.configuration import DEFAULT_MODEL, NO_MODEL, load, read_config
from tamis.corpus import Corpus
from tamis.errors import BadFilter, BadJudgedSet, BadSetting, UsageError
from tamis.index.plan import recipe
from tamis.measure.judged import Asked, JudgedSet, open_judged
from tamis.measure.metrics import DEPTH, scores
from tamis.model import Found
from tamis.progress import Progress
from tamis.query.language import parse_filter
from tamis.request import LONGEST_QUERY, query_text
from tamis.search.pipeline import lane_weights
from tamis.search.question import STAGE_NAMES, Question, StageName
from tamis.settings import USER_FILE_VARIABLE, Settings
from tamis.weights import Weights

_WEIGHTS: Final = frozenset(each.name for each in fields(Weights))
DEFAULT_WAY: Final = "default"
_WITHOUT: Final = "without"
# Nothing is archived and nothing ignored: a judged document that is not indexed could not be found.
_OPEN: Final[Mapping[str, Any]] = {
    "ignore.default_exclusions": False,
    "archive.patterns": [],
}
_EVERYTHING: Final = ("!*",)
_LANES_OFF: Final[Mapping[str, Mapping[str, Any]]] = {
    "meaning": {"search.semantic_weight": 0},
    "words": {"search.keyword_weight": 0},
    "code": {"search.code_search_enabled": False},
    "links": {"search.max_hops": 0},
}


@dataclass(frozen=True, slots=True)
class Way:
    """A way of asking: settings, and the stages that are left out."""

    name: str
    flags: Mapping[str, Any] = field(default_factory=dict)
    without: frozenset[StageName] = frozenset()

    def settings(self, model: str) -> Settings:
        """Return the settings, with this model unless the way names one."""
        nobody = {USER_FILE_VARIABLE: os.devnull}
        flags = {**_OPEN, "model.name": model or DEFAULT_MODEL, **self.flags}
        settings = load(Path(os.devnull), flags, environment=nobody)
        return replace(settings, ignore=replace(settings.ignore, patterns=_EVERYTHING))


def parse_way(text: str) -> Way:
    """Parse `FILE.toml` or `NAME=key=value,key=value`.

    A comma without a key after it belongs to the value before.
    """
    if text.endswith(".toml") and "=" not in text:
        file = Path(text)
        return Way(file.stem, read_config(file, measuring=True))
    hint = "write: --config NAME=key=value,key=value"
    name, _, rest = text.partition("=")
    if not name.strip():
        raise UsageError(f"{text!r} has no name", hint=hint)
    values: dict[str, str] = {}
    last = ""
    for part in rest.split(",") if rest else []:
        key, equals, value = part.partition("=")
        if equals:
            last = key.strip()
            values[last] = value
        elif last:
            values[last] += f",{part}"
        else:
            raise UsageError(f"{part!r} sets nothing, in {text!r}", hint=hint)
    stages = values.pop(_WITHOUT, "").split("+")
    named = {stage.strip() for stage in stages if stage.strip()}
    for stage in sorted(named.difference(STAGE_NAMES)):
        raise UsageError(
            f"there is no stage {stage!r}", hint=f"stages: {', '.join(STAGE_NAMES)}"
        )
    without = frozenset(stage for stage in STAGE_NAMES if stage in named)
    flags: dict[str, Any] = {}
    for key, value in values.items():
        section, dot, last = key.partition(".")
        if section == "fields":
            flags.setdefault("weights.fields", {})[last] = value
        elif dot:
            flags[key] = value
        elif key in _WEIGHTS:
            flags[f"weights.{key}"] = value
        else:
            flags[f"search.{key}"] = value
    return Way(name.strip(), flags, without)


def ablations(way: Way, model: str) -> Iterator[Way]:
    """Yield the way without each stage, then without each lane, if that changes anything."""
    for stage in STAGE_NAMES:
        if stage not in way.without:
            yield replace(way, name=f"without {stage}", without=way.without | {stage})
    for lane, off in _LANES_OFF.items():
        flags = {**way.flags, **off}
        less = replace(way, name=f"without the {lane} lane", flags=flags)
        left = _lanes(less, model)
        if left and left != _lanes(way, model):
            yield less


def _lanes(way: Way, model: str) -> frozenset[str]:
    """Return the lanes that may take part; none if nothing would be left to search."""
    try:
        settings = way.settings(model)
    except BadSetting:
        return frozenset()
    question = Question(
        "name_of", max_hops=settings.search.max_hops, settings=settings.search
    )
    has_vectors = float(settings.model.name != NO_MODEL)
    lanes = frozenset[str](lane_weights(question, has_vectors))
    return lanes if lanes & {"meaning", "words"} else frozenset()


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question, asked in one way."""

    id: str
    type: str  # what tamis takes it for
    label: str  # what the set calls it
    ranked: tuple[str, ...]
    scores: Mapping[str, float]
    timings_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Measured:
    """One set, asked in one way."""

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
    """Measure every set (with the tree of its documents) in every way, set by set.

    Wrong settings and unreadable sets come to light first.
    """
    for way in ways:
        way.settings(model)
    opened = [open_judged(given, work, tree, most) for given, tree in sets]
    for name, times in Counter(judged.name for judged, _ in opened).items():
        if times > 1:
            raise BadJudgedSet(
                f"{times} sets are called {name}",
                hint="measure them one after the other",
            )
    for judged, place in opened:
        for way in ways:
            progress.note(
                f"{judged.name}: {way.name}, {len(judged.questions)} questions"
            )
            yield _measure(judged, place, way, model, progress)


def _measure(
    judged: JudgedSet, place: Path, way: Way, model: str, progress: Progress
) -> Measured:
    """Index the documents of a set, unless that is done, and ask its questions."""
    settings = way.settings(model)
    kind = re.sub(r"[^\w.-]+", "_", settings.model.name)
    with Corpus(
        judged.root, place / f"index-{kind}-{recipe(settings)}", settings
    ) as corpus:
        for asked in judged.questions:
            try:
                parse_filter(asked.filter, corpus.names)
            except BadFilter as error:
                what = f"{judged.name}, question {asked.id}: {error.message}"
                raise BadJudgedSet(what, hint=error.hint) from error
        report = corpus.refresh(progress)
        for asked in judged.questions[:1]:
            _ask(corpus, asked, way)
        outcomes = []
        for asked in judged.questions:
            found = _ask(corpus, asked, way)
            ranked = _ranked(found, judged.ids)
            points = scores(ranked, asked.grades)
            outcomes.append(
                Outcome(
                    asked.id,
                    found.query_type,
                    asked.label,
                    ranked,
                    points,
                    found.timings_ms,
                )
            )
    documents = report.indexed + report.unchanged
    return Measured(judged, way.name, documents, len(report.skipped), tuple(outcomes))


def _ask(corpus: Corpus, asked: Asked, way: Way) -> Found:
    """Ask a question, cut to the longest that is allowed: some are whole issues."""
    text = query_text(asked.text.strip()[:LONGEST_QUERY])
    usual = corpus.question(text, parse_filter(asked.filter, corpus.names))
    question = replace(usual, limit=DEPTH, max_chunks_per_doc=1, without=way.without)
    return corpus.ask(text, question)


def _ranked(found: Found, ids: Mapping[str, str]) -> tuple[str, ...]:
    """Return the documents in order, with the other places that a result's text is in."""
    paths: list[str] = []
    for result in found.results:
        paths.append(result.path)
        paths += (place.path for place in result.also_in)
    first = list(dict.fromkeys(paths))[:DEPTH]
    return tuple(ids.get(path, path) for path in first)
