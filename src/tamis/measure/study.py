"""A study: sets that are measured in several ways, and what the ways have over each other.

Two ways are compared by name. In the place of a name may stand an earlier run's `--json` output
(`before.json`, or `before.json:NAME` where it holds several ways), so that a change of the code can be
held against what was there before it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tamis.errors import BadJudgedSet, UsageError
from tamis.measure.compare import Compared, Scored, compared, scored, to_dict
from tamis.measure.evaluate import (
    DEFAULT_WAY,
    Measured,
    Way,
    ablations,
    evaluate,
    parse_way,
)
from tamis.measure.metrics import MAIN
from tamis.progress import Progress


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be measured, and compared."""

    sets: tuple[
        tuple[Path, Path | None], ...
    ]  # each with the tree of its documents, where one is named
    ways: tuple[Way, ...]  # the first is the one that is taken apart
    less: tuple[Way, ...] = ()  # the first without a stage or a lane
    compare: tuple[str, str] | None = None
    model: str = ""
    most: int = 0


@dataclass(frozen=True, slots=True)
class Study:
    """What came of it."""

    measured: tuple[Measured, ...]  # the ways that were asked for
    taken_apart: tuple[Measured, ...]  # the same without a stage or a lane
    comparisons: tuple[Compared, ...]
    ablations: tuple[Compared, ...]

    def to_dict(self) -> dict[str, Any]:
        return to_dict(
            (*self.measured, *self.taken_apart), self.comparisons, self.ablations
        )


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
    """Raw arguments become a plan; what is wrong with them is said before anything is indexed."""
    ways = tuple(parse_way(text) for text in configs)
    names = {way.name for way in ways}
    if len(names) < len(ways):
        raise UsageError(
            "two configurations have the same name",
            hint="give each its own: NAME=key=value",
        )
    if DEFAULT_WAY not in names and (not ways or DEFAULT_WAY in (compare or ())):
        ways = (*ways, Way(DEFAULT_WAY))
    for name in compare or ():
        _check_side(name, ways)
    less = tuple(ablations(ways[0], model or "")) if ablate else ()
    named = tuple(_with_tree(text, Path(tree) if tree else None) for text in sets)
    return Plan(named, ways, less, compare, model or "", most)


def _with_tree(text: str, tree: Path | None) -> tuple[Path, Path | None]:
    """`DATASET`, or `DATASET=ROOT` for one that has a tree of its own."""
    if Path(text).exists() or "=" not in text:
        return Path(text), tree
    folder, _, root = text.rpartition("=")
    return Path(folder), Path(root).expanduser()


def study(plan: Plan, work: Path, progress: Progress) -> Study:
    """Measure what is planned in a working folder, and compare."""
    found = list(
        evaluate(
            plan.sets,
            (*plan.ways, *plan.less),
            work,
            progress,
            model=plan.model,
            most=plan.most,
        )
    )
    apart = {way.name for way in plan.less}
    whole = plan.ways[0].name
    lost = [
        row
        for way in plan.less
        for row in compared(
            scored(found, whole), scored(found, way.name), (whole, way.name)
        )
    ]
    return Study(
        tuple(one for one in found if one.way not in apart),
        tuple(one for one in found if one.way in apart),
        tuple(_compared(plan, found)),
        tuple(lost),
    )


def _compared(plan: Plan, found: Sequence[Measured]) -> list[Compared]:
    if plan.compare is None:
        return []
    first, second = (_side(name, plan.ways, found) for name in plan.compare)
    return compared(first, second, plan.compare)


def _check_side(name: str, ways: Sequence[Way]) -> None:
    if not any(way.name == name for way in ways):
        read_saved(name, [way.name for way in ways])


def _side(name: str, ways: Sequence[Way], found: Sequence[Measured]) -> Scored:
    names = [way.name for way in ways]
    return scored(found, name) if name in names else read_saved(name, names)


def read_saved(text: str, known: Sequence[str] = ()) -> Scored:
    """The scores of an earlier run: `FILE`, or `FILE:NAME` for one of several ways."""
    file, name = (text, "") if Path(text).is_file() else text.rpartition(":")[::2]
    if not file or not Path(file).is_file():
        hint = f"known here: {', '.join(known)}; or an earlier run's --json output"
        raise UsageError(f"there is no configuration or file {text}", hint=hint)
    try:
        results = json.loads(Path(file).read_text("utf-8"))["results"]
        by_way: dict[str, dict[str, dict[str, float]]] = {}
        for one in results:
            points = {
                str(each["id"]): float(each["scores"][MAIN]) for each in one["asked"]
            }
            by_way.setdefault(one["config"], {})[one["set"]] = points
    except (
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
    ) as error:
        raise BadJudgedSet(
            f"{file} holds no results", hint="write it with: tamis eval --json"
        ) from error
    return _one_way(by_way, file, name)


def _one_way(
    by_way: dict[str, dict[str, dict[str, float]]], file: str, name: str
) -> Scored:
    if not name and len(by_way) == 1:
        return next(iter(by_way.values()))
    if name not in by_way:
        raise UsageError(
            f"{file} has results of {', '.join(by_way) or 'nothing'}",
            hint=f"say which: {file}:NAME",
        )
    return by_way[name]
