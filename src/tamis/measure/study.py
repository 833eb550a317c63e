"""A study: sets that are measured in several ways, and what one way gains over another.

Two ways are compared by name. Instead of a name, an earlier run's `--json` output can be given
(`before.json`, or `before.json:NAME` if it holds several ways), to compare the code before a change
with the code after it.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tamis.errors import BadJudgedSet, UsageError
from tamis.measure.evaluate import (
    DEFAULT_WAY,
    Measured,
    Outcome,
    Way,
    ablations,
    evaluate,
    parse_way,
)
from tamis.measure.metrics import MAIN, METRICS, Difference, Scores, compare_sets
from tamis.progress import Progress

ALL_SETS: Final = "all sets"
_OF_QUESTION: Final = ("id", "type", "label", "ranked", "scores")

Scored = dict[str, Scores]  # by set and question


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured and compared."""

    # Each set with the tree of its documents, if one is named.
    sets: tuple[tuple[Path, Path | None], ...]
    ways: tuple[Way, ...]
    less: tuple[Way, ...] = ()  # the first way without a stage or a lane
    compare: tuple[str, str] | None = None
    model: str = ""
    most: int = 0


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
        """Everything, with single questions, so that a later run can be compared with it."""
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
            "results": [_result(one) for one in measured],
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
    names = {way.name for way in ways}
    if len(names) < len(ways):
        raise UsageError(
            "two configurations have the same name",
            hint="give each its own: NAME=key=value",
        )
    if DEFAULT_WAY not in names and (not ways or DEFAULT_WAY in (compare or ())):
        ways.append(Way(DEFAULT_WAY))
    for name in compare or ():
        _saved_unless_way(name, ways)
    model = model or ""
    less = tuple(ablations(ways[0], model)) if ablate else ()
    named = []
    for text in sets:
        # `DATASET`, or `DATASET=ROOT` for one that has a tree of its own.
        folder, _, root = text.rpartition("=")
        if Path(text).exists() or not folder:
            folder, root = text, tree or ""
        own = Path(root).expanduser() if root else None
        named.append((Path(folder), own))
    return Plan(tuple(named), tuple(ways), less, compare, model, most)


def study(plan: Plan, work: Path, progress: Progress) -> Study:
    """Measure what is planned in a working folder, and compare."""
    ways = (*plan.ways, *plan.less)
    measured = evaluate(
        plan.sets, ways, work, progress, model=plan.model, most=plan.most
    )
    found = list(measured)
    comparisons: list[Compared] = []
    if plan.compare:
        first, second = (
            _saved_unless_way(name, plan.ways) or _scored(found, name)
            for name in plan.compare
        )
        comparisons = _compared(first, second, plan.compare)
    lost: list[Compared] = []
    whole = plan.ways[0].name
    before = _scored(found, whole)
    for way in plan.less:
        lost += _compared(before, _scored(found, way.name), (whole, way.name))
    apart = {way.name for way in plan.less}
    return Study(
        tuple(one for one in found if one.way not in apart),
        tuple(one for one in found if one.way in apart),
        tuple(comparisons),
        tuple(lost),
    )


def _scored(measured: Iterable[Measured], way: str) -> Scored:
    """Return what the questions of each set got in one way."""
    return {
        one.judged.name: {each.id: each.scores[MAIN] for each in one.outcomes}
        for one in measured
        if one.way == way
    }


def _compared(first: Scored, second: Scored, names: tuple[str, str]) -> list[Compared]:
    """Compare set by set, and over all if there are several."""
    pairs = {name: (first[name], second[name]) for name in first if name in second}
    if not pairs:
        raise UsageError(
            f"{names[0]} and {names[1]} have no set in common",
            hint="measure the same sets",
        )
    rows = []
    for name, pair in pairs.items():
        rows.append(Compared(name, *names, compare_sets([pair])))
    if len(pairs) > 1:
        total = compare_sets(pairs.values())
        rows.append(Compared(ALL_SETS, *names, total))
    return rows


# --- earlier runs ---------------------------------------------------------------------------


def _saved_unless_way(name: str, ways: Sequence[Way]) -> Scored | None:
    names = [way.name for way in ways]
    return None if name in names else read_saved(name, names)


def read_saved(text: str, known: Sequence[str] = ()) -> Scored:
    """Read the scores of an earlier run: `FILE`, or `FILE:NAME` for one of several ways."""
    file, name = text, ""
    if not Path(file).is_file():
        file, _, name = text.rpartition(":")
    if not Path(file).is_file():
        hint = f"known here: {', '.join(known)}; or an earlier run's --json output"
        raise UsageError(f"there is no configuration or file {text}", hint=hint)
    by_way: dict[str, Scored] = {}
    faults = OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError
    try:
        for one in json.loads(Path(file).read_text("utf-8"))["results"]:
            points = {
                str(each["id"]): float(each["scores"][MAIN]) for each in one["asked"]
            }
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
    some = [one.outcomes for one in measured if one.way == way]
    return _mean([means(outcomes) for outcomes in some if outcomes])


def _mean(all_scores: Sequence[Scores]) -> dict[str, float]:
    if not all_scores:
        return {}
    return {
        name: float(np.mean([each[name] for each in all_scores])) for name in METRICS
    }


def grouped(outcomes: Iterable[Outcome], by: str) -> dict[str, list[Outcome]]:
    """Return outcomes by `type` or `label`, without those that have none."""
    groups: dict[str, list[Outcome]] = {}
    for each in outcomes:
        if name := getattr(each, by):
            groups.setdefault(name, []).append(each)
    return dict(sorted(groups.items()))


def latencies(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """Return two percentiles of each part of a search, in milliseconds: the total first."""
    found = {}
    for name in dict.fromkeys(
        part for each in outcomes for part in ("total", *each.timings_ms)
    ):
        times = [each.timings_ms.get(name, 0.0) for each in outcomes]
        p50, p95 = np.percentile(times, (50, 95))
        found[name] = {"p50": float(p50), "p95": float(p95)}
    return found


def _result(one: Measured) -> dict[str, Any]:
    return {
        "set": one.judged.name,
        "config": one.way,
        "documents": one.documents,
        "skipped": one.skipped,
        "questions": len(one.outcomes),
        "metrics": means(one.outcomes),
        "by_type": _groups(one.outcomes, "type"),
        "by_label": _groups(one.outcomes, "label"),
        "latency_ms": latencies(one.outcomes),
        "asked": [
            {name: getattr(each, name) for name in _OF_QUESTION}
            for each in one.outcomes
        ],
    }


def _groups(outcomes: Sequence[Outcome], by: str) -> dict[str, Any]:
    return {
        name: {"questions": len(some), "metrics": means(some)}
        for name, some in grouped(outcomes, by).items()
    }
