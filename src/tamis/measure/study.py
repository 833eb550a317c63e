"""A study: judged sets, measured in several ways of asking, and what one way gains over another.

    judged set -> files -> index (one for each recipe) -> every question, every way -> scores

Documents are ranked by their best passage, ten for each question, as a user would get them. Files
and indexes stay in the working folder, so a second run with the same folder embeds nothing again.
The first question is asked once before the clock counts: loading a model is no search.

Two ways are compared by name. Instead of a name, an earlier run's `--json` output can be given
(`before.json`, or `before.json:NAME` if it holds several ways), to compare the code before a change
with the code after it.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tamis.configuration import load, read_config
from tamis.corpus import Corpus
from tamis.errors import BadFilter, BadJudgedSet, BadSetting, UsageError
from tamis.index.plan import recipe
from tamis.measure.judged import Asked, JudgedSet, open_judged
from tamis.measure.metrics import DEPTH, MAIN, Difference, Scores, compare_sets, scores
from tamis.progress import Progress
from tamis.query.language import parse_filter
from tamis.request import LONGEST_QUERY, query_text
from tamis.search.pipeline import lane_weights
from tamis.search.question import STAGE_NAMES, Question, StageName
from tamis.settings import DEFAULT_MODEL, NO_MODEL, USER_FILE_VARIABLE, Settings
from tamis.weights import Weights

ALL_SETS = "all sets"
_DEFAULT_WAY = "default"
_WEIGHTS = frozenset(each.name for each in fields(Weights))
# Nothing is archived and nothing ignored: a judged document that is not indexed could not be found.
_OPEN: Mapping[str, Any] = {
    "ignore.default_exclusions": False,
    "archive.patterns": [],
}
_EVERYTHING = ("!*",)
_LANES_OFF: Mapping[str, Mapping[str, Any]] = {
    "meaning": {"search.semantic_weight": 0},
    "words": {"search.keyword_weight": 0},
    "code": {"search.code_search_enabled": False},
    "links": {"search.max_hops": 0},
}
_OF_QUESTION = ("id", "type", "label", "ranked", "scores")

Scored = dict[str, Scores]  # by set and question


# --- ways of asking -------------------------------------------------------------------------


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
    stages = values.pop("without", "").split("+")
    named = {stage.strip() for stage in stages} - {""}
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
    search = settings.search
    question = Question("name_of", max_hops=search.max_hops, settings=search)
    has_vectors = float(settings.model.name != NO_MODEL)
    lanes = frozenset[str](lane_weights(question, has_vectors))
    return lanes if lanes & {"meaning", "words"} else frozenset()


# --- plan and results -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """The sets to measure, the ways to ask, and the two ways to compare."""

    # Each set with the tree of its documents, if one is named.
    sets: tuple[tuple[Path, Path | None], ...]
    ways: tuple[Way, ...]
    less: tuple[Way, ...] = ()  # the first way without a stage or a lane
    compare: tuple[str, str] | None = None
    saved: Mapping[str, Scored] = field(default_factory=dict)  # of earlier runs
    model: str = ""
    most: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question, asked in one way."""

    id: str
    type: str  # what tamis takes it for
    label: str  # what the set calls it
    ranked: tuple[str, ...]
    scores: Scores
    timings_ms: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Measured:
    """One set, asked in one way."""

    judged: JudgedSet
    way: str
    documents: int  # that the index holds
    skipped: int  # files that it does not hold, for whatever reason
    outcomes: tuple[Outcome, ...]

    def to_dict(self) -> dict[str, Any]:
        outcomes = self.outcomes
        return {
            "set": self.judged.name,
            "config": self.way,
            "documents": self.documents,
            "skipped": self.skipped,
            "questions": len(outcomes),
            "metrics": means(outcomes),
            "by_type": _groups(outcomes, "type"),
            "by_label": _groups(outcomes, "label"),
            "latency_ms": latencies(outcomes),
            "asked": [
                {name: getattr(each, name) for name in _OF_QUESTION}
                for each in outcomes
            ],
        }


@dataclass(frozen=True, slots=True)
class Compared:
    """The gain of `second` over `first` on one set, or on all."""

    set: str
    first: str
    second: str
    difference: Difference

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = asdict(self) | {"metric": MAIN}
        found |= found.pop("difference")
        return found | {"clear": self.difference.is_clear}


@dataclass(frozen=True, slots=True)
class Study:
    """The results."""

    measured: tuple[Measured, ...]  # the ways that were asked for
    taken_apart: tuple[Measured, ...]  # the first one without a stage or a lane
    comparisons: tuple[Compared, ...]
    ablations: tuple[Compared, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return everything, with single questions, so that a later run can be compared with it."""
        measured = (*self.measured, *self.taken_apart)
        sets = {one.judged.name: one.judged for one in measured}
        return {
            "sets": [
                {
                    "name": judged.name,
                    "questions": len(judged.questions),
                    "unjudged": judged.unjudged,
                    "orphaned": judged.orphaned,
                    "missing_judgements": judged.missing,
                }
                for judged in sets.values()
            ],
            "results": [one.to_dict() for one in measured],
            "mean": {way: mean_of_sets(measured, way) for way in ways_of(measured)},
            "comparison": [row.to_dict() for row in self.comparisons],
            "ablation": [row.to_dict() for row in self.ablations],
        }


def plan(
    sets: Sequence[str],
    configs: Sequence[str],
    compare: tuple[str, str] | None = None,
    *,
    ablate: bool = False,
    tree: str | None = None,
    model: str | None = None,
    most: int = 0,
) -> Plan:
    """Make a plan from raw arguments; refuse wrong ones before anything is indexed."""
    ways = [parse_way(text) for text in configs]
    names = [way.name for way in ways]
    if len(set(names)) < len(names):
        raise UsageError(
            "two configurations have the same name",
            hint="give each its own: NAME=key=value",
        )
    asked = compare or ()
    if _DEFAULT_WAY not in names and (not ways or _DEFAULT_WAY in asked):
        ways.append(Way(_DEFAULT_WAY))
        names.append(_DEFAULT_WAY)
    saved = {}
    for name in asked:
        if name not in names:
            saved[name] = read_saved(name, names)
    model = model or ""
    less = tuple(ablations(ways[0], model)) if ablate else ()
    named = []
    for text in sets:
        # `DATASET`, or `DATASET=ROOT` for one that has a tree of its own.
        folder, _, root = text.rpartition("=")
        if Path(text).exists() or not folder:
            folder = text
            root = tree or ""
        own = Path(root).expanduser() if root else None
        named.append((Path(folder), own))
    return Plan(
        tuple(named),
        tuple(ways),
        less,
        compare,
        saved,
        model,
        most,
    )


# --- measuring ------------------------------------------------------------------------------


def study(
    plan: Plan,
    work: Path,
    progress: Progress,
) -> Study:
    """Measure what is planned in a working folder, and compare.

    Wrong settings and unreadable sets come to light before anything is indexed.
    """
    ways = (*plan.ways, *plan.less)
    for way in ways:
        way.settings(plan.model)
    opened = []
    for given, tree in plan.sets:
        opened.append(
            open_judged(
                given,
                work,
                tree,
                plan.most,
            )
        )
    names = Counter(judged.name for judged, _ in opened)
    for name, times in names.items():
        if times > 1:
            raise BadJudgedSet(
                f"{times} sets are called {name}",
                hint="measure them one after the other",
            )
    found = []
    for judged, place in opened:
        for way in ways:
            count = len(judged.questions)
            progress.note(f"{judged.name}: {way.name}, {count} questions")
            found.append(
                _measure(
                    judged,
                    place,
                    way,
                    plan.model,
                    progress,
                )
            )
    by_way = dict(plan.saved)
    for one in found:
        points = {each.id: each.scores[MAIN] for each in one.outcomes}
        by_way.setdefault(one.way, {})[one.judged.name] = points
    comparisons: list[Compared] = []
    if plan.compare:
        comparisons = _compared(by_way, *plan.compare)
    lost: list[Compared] = []
    for way in plan.less:
        lost += _compared(by_way, plan.ways[0].name, way.name)
    apart = {way.name for way in plan.less}
    return Study(
        tuple(one for one in found if one.way not in apart),
        tuple(one for one in found if one.way in apart),
        tuple(comparisons),
        tuple(lost),
    )


def _measure(
    judged: JudgedSet,
    place: Path,
    way: Way,
    model: str,
    progress: Progress,
) -> Measured:
    """Index the documents of a set, unless that is done, and ask its questions."""
    settings = way.settings(model)
    kind = re.sub(r"[^\w.-]+", "_", settings.model.name)
    directory = place / f"index-{kind}-{recipe(settings)}"
    with Corpus(judged.root, directory, settings) as corpus:
        for asked in judged.questions:
            try:
                parse_filter(asked.filter, corpus.names)
            except BadFilter as error:
                what = f"{judged.name}, question {asked.id}: {error.message}"
                raise BadJudgedSet(what, hint=error.hint) from error
        report = corpus.refresh(progress)
        for asked in judged.questions[:1]:
            _ask(
                corpus,
                asked,
                way,
                judged.ids,
            )
        outcomes = tuple(
            _ask(
                corpus,
                asked,
                way,
                judged.ids,
            )
            for asked in judged.questions
        )
    documents = report.indexed + report.unchanged
    return Measured(
        judged,
        way.name,
        documents,
        len(report.skipped),
        outcomes,
    )


def _ask(
    corpus: Corpus,
    asked: Asked,
    way: Way,
    ids: Mapping[str, str],
) -> Outcome:
    """Ask a question, cut to the longest that is allowed: some are whole issues.

    The other places that a result's text is in count as found, too.
    """
    text = query_text(asked.text.strip()[:LONGEST_QUERY])
    usual = corpus.question(text, parse_filter(asked.filter, corpus.names))
    question = replace(
        usual,
        limit=DEPTH,
        max_chunks_per_doc=1,
        without=way.without,
    )
    found = corpus.ask(text, question)
    paths: list[str] = []
    for result in found.results:
        paths.append(result.path)
        paths += (place.path for place in result.also_in)
    first = list(dict.fromkeys(paths))[:DEPTH]
    ranked = tuple(ids.get(path, path) for path in first)
    points = scores(ranked, asked.grades)
    return Outcome(
        asked.id,
        found.query_type,
        asked.label,
        ranked,
        points,
        found.timings_ms,
    )


def _compared(
    by_way: Mapping[str, Scored],
    first: str,
    second: str,
) -> list[Compared]:
    """Compare set by set, and over all if there are several."""
    pairs = {}
    after = by_way[second]
    for name, points in by_way[first].items():
        if name in after:
            pairs[name] = points, after[name]
    if not pairs:
        raise UsageError(
            f"{first} and {second} have no set in common",
            hint="measure the same sets",
        )
    rows = []
    for name, pair in pairs.items():
        rows.append(
            Compared(
                name,
                first,
                second,
                compare_sets([pair]),
            )
        )
    if len(pairs) > 1:
        total = compare_sets(pairs.values())
        rows.append(
            Compared(
                ALL_SETS,
                first,
                second,
                total,
            )
        )
    return rows


def read_saved(text: str, known: Sequence[str] = ()) -> Scored:
    """Read the scores of an earlier run: `FILE`, or `FILE:NAME` for one of several ways."""
    file = text
    name = ""
    if not Path(file).is_file():
        file, _, name = text.rpartition(":")
    if not Path(file).is_file():
        hint = f"known here: {', '.join(known)}; or an earlier run's --json output"
        raise UsageError(f"there is no configuration or file {text}", hint=hint)
    by_way: dict[str, Scored] = {}
    faults = OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError
    try:
        data = json.loads(Path(file).read_text("utf-8"))
        for one in data["results"]:
            points = {}
            for each in one["asked"]:
                points[str(each["id"])] = float(each["scores"][MAIN])
            by_way.setdefault(one["config"], {})[one["set"]] = points
    except faults as error:
        raise BadJudgedSet(
            f"{file} holds no results", hint="write it with: tamis eval --json"
        ) from error
    if not name and len(by_way) == 1:
        (name,) = by_way
    if name not in by_way:
        raise UsageError(
            f"{file} has results of {', '.join(by_way) or 'nothing'}",
            hint=f"say which: {file}:NAME",
        )
    return by_way[name]


# --- figures --------------------------------------------------------------------------------


def ways_of(measured: Iterable[Measured]) -> list[str]:
    return list(dict.fromkeys(one.way for one in measured))


def means(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the mean of each metric over the questions; empty without any."""
    return _mean([each.scores for each in outcomes])


def mean_of_sets(measured: Iterable[Measured], way: str) -> dict[str, float]:
    """Return the mean of the sets' means in one way: each set counts alike."""
    found = []
    for one in measured:
        if one.way == way and one.outcomes:
            found.append(means(one.outcomes))
    return _mean(found)


def _mean(all_scores: Sequence[Scores]) -> dict[str, float]:
    found = {}
    for name in all_scores[0] if all_scores else ():
        values = [each[name] for each in all_scores]
        found[name] = float(np.mean(values))
    return found


def grouped(outcomes: Iterable[Outcome], by: str) -> dict[str, list[Outcome]]:
    """Return outcomes by `type` or `label`, without those that have none."""
    groups: dict[str, list[Outcome]] = {}
    for each in outcomes:
        if name := getattr(each, by):
            groups.setdefault(name, []).append(each)
    return dict(sorted(groups.items()))


def latencies(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """Return two percentiles of each part of a search, in milliseconds: the total first."""
    parts: dict[str, None] = {}
    for each in outcomes:
        parts |= dict.fromkeys(("total", *each.timings_ms))
    found = {}
    for name in parts:
        times = [each.timings_ms.get(name, 0.0) for each in outcomes]
        p50, p95 = np.percentile(times, (50, 95))
        found[name] = {"p50": float(p50), "p95": float(p95)}
    return found


def _groups(outcomes: Sequence[Outcome], by: str) -> dict[str, Any]:
    return {
        name: {"questions": len(some), "metrics": means(some)}
        for name, some in grouped(outcomes, by).items()
    }
