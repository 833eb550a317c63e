"""Two ways of asking, compared question by question.

The same questions were asked both ways, so what counts is each question's difference. The interval
comes from a bootstrap: questions are drawn again and again within each set, and the middle 95 % of
the means is what the difference may well be. It is seeded: equal input gives equal figures.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tamis.errors import UsageError
from tamis.measure.evaluate import Measured, Outcome
from tamis.measure.metrics import MAIN, METRICS

_DRAWS: Final = 10_000  # the ends of the interval move by some hundredths of its width from seed to seed
_SEED: Final = 20_260_501
_CONFIDENCE: Final = 0.95
HELD: Final = 1_000_000  # drawn questions in memory at a time
_EQUAL: Final = 1e-9  # differences below this come from the order of additions


@dataclass(frozen=True, slots=True)
class Difference:
    """What the second way gains over the first: the mean, its interval, and how single questions fared."""

    mean: float
    low: float
    high: float
    wins: int
    ties: int
    losses: int

    @property
    def is_clear(self) -> bool:
        """Whether the whole interval lies on one side of 0."""
        return self.low > 0 or self.high < 0

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__} | {
            "clear": self.is_clear
        }


def compare(first: Mapping[str, float], second: Mapping[str, float]) -> Difference:
    """Compare two ways by the score of each question; only questions that both were asked count."""
    return compare_sets([(first, second)])


def compare_sets(
    pairs: Sequence[tuple[Mapping[str, float], Mapping[str, float]]],
) -> Difference:
    """Compare over several sets: each set counts alike in the mean, however many questions it has."""
    gains = [gain for first, second in pairs if (gain := _gains(first, second)).size]
    if not gains:
        return Difference(0.0, 0.0, 0.0, 0, 0, 0)
    low, high = _interval(gains)
    every = np.concatenate(gains)
    wins, losses = int((every > _EQUAL).sum()), int((every < -_EQUAL).sum())
    mean = float(np.mean([gain.mean() for gain in gains]))
    return Difference(mean, low, high, wins, every.size - wins - losses, losses)


def _gains(
    first: Mapping[str, float], second: Mapping[str, float]
) -> NDArray[np.float64]:
    both = sorted(first.keys() & second.keys())
    return np.array([second[one] - first[one] for one in both], np.float64)


def _interval(gains: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    random = np.random.default_rng(_SEED)
    means = np.mean([_drawn_means(gain, random) for gain in gains], axis=0)
    outside = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(means, (outside, 1 - outside))
    return float(low), float(high)


def _drawn_means(
    gains: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.float64]:
    """Means of samples as large as the set, some draws at a time: large sets must not fill the memory."""
    at_once = max(1, min(_DRAWS, HELD // gains.size))
    portions = [min(at_once, _DRAWS - done) for done in range(0, _DRAWS, at_once)]
    drawn = (
        gains[random.integers(0, gains.size, (draws, gains.size))] for draws in portions
    )
    return np.concatenate([sample.mean(axis=1) for sample in drawn])


Scored = Mapping[str, Mapping[str, float]]  # by set and question
ALL_SETS = "all sets"


@dataclass(frozen=True, slots=True)
class Compared:
    """What `second` gains over `first` on one set, or on all."""

    set: str
    first: str
    second: str
    difference: Difference

    def to_dict(self) -> dict[str, Any]:
        names = {
            "set": self.set,
            "first": self.first,
            "second": self.second,
            "metric": MAIN,
        }
        return names | self.difference.to_dict()


def means(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Each metric's mean over questions; nothing for none."""
    if not outcomes:
        return {}
    return {
        name: float(np.mean([each.scores[name] for each in outcomes]))
        for name in METRICS
    }


def grouped(
    outcomes: Iterable[Outcome], group: Callable[[Outcome], str]
) -> dict[str, list[Outcome]]:
    """Outcomes by type or label, without those that have none."""
    groups: dict[str, list[Outcome]] = {}
    for each in outcomes:
        if name := group(each):
            groups.setdefault(name, []).append(each)
    return dict(sorted(groups.items()))


def latencies(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """The 50th and 95th percentile of each part of a search, in milliseconds: the total first."""
    names = dict.fromkeys(
        name for each in outcomes for name in ("total", *each.timings_ms)
    )
    spent = {
        name: [each.timings_ms.get(name, 0.0) for each in outcomes] for name in names
    }
    return {
        name: {
            "p50": float(np.percentile(times, 50)),
            "p95": float(np.percentile(times, 95)),
        }
        for name, times in spent.items()
    }


def mean_of_sets(measured: Sequence[Measured]) -> dict[str, float]:
    """The mean of the sets' means: each set counts alike."""
    each = [means(one.outcomes) for one in measured if one.outcomes]
    return (
        {name: float(np.mean([one[name] for one in each])) for name in METRICS}
        if each
        else {}
    )


def scored(measured: Iterable[Measured], way: str) -> Scored:
    """What the questions of each set got one way."""
    return {
        one.judged.name: {each.id: each.scores[MAIN] for each in one.outcomes}
        for one in measured
        if one.way == way
    }


def compared(first: Scored, second: Scored, names: tuple[str, str]) -> list[Compared]:
    """Set by set, and over all where there are several."""
    both = [name for name in first if name in second]
    if not both:
        raise UsageError(
            f"{names[0]} and {names[1]} have no set in common",
            hint="measure the same sets",
        )
    rows = [
        Compared(name, *names, compare_sets([(first[name], second[name])]))
        for name in both
    ]
    if len(both) > 1:
        pairs = [(first[name], second[name]) for name in both]
        rows.append(Compared(ALL_SETS, *names, compare_sets(pairs)))
    return rows


def to_dict(
    measured: Sequence[Measured],
    comparisons: Sequence[Compared] = (),
    ablations: Sequence[Compared] = (),
) -> dict[str, Any]:
    """Everything, for machines. Single questions are in it, so that a later run can be compared with it."""
    sets = {one.judged.name: one.judged for one in measured}
    by_way = {
        way: [one for one in measured if one.way == way] for way in _ways(measured)
    }
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
        "mean": {way: mean_of_sets(some) for way, some in by_way.items()},
        "comparison": [row.to_dict() for row in comparisons],
        "ablation": [row.to_dict() for row in ablations],
    }


def _ways(measured: Sequence[Measured]) -> list[str]:
    return list(dict.fromkeys(one.way for one in measured))


def _result(one: Measured) -> dict[str, Any]:
    return {
        "set": one.judged.name,
        "config": one.way,
        "documents": one.documents,
        "skipped": one.skipped,
        "questions": len(one.outcomes),
        "metrics": means(one.outcomes),
        "by_type": _groups(one.outcomes, lambda each: each.type),
        "by_label": _groups(one.outcomes, lambda each: each.label),
        "latency_ms": latencies(one.outcomes),
        "asked": [_asked(each) for each in one.outcomes],
    }


def _groups(
    outcomes: Sequence[Outcome], group: Callable[[Outcome], str]
) -> dict[str, Any]:
    return {
        name: {"questions": len(some), "metrics": means(some)}
        for name, some in grouped(outcomes, group).items()
    }


def _asked(each: Outcome) -> dict[str, Any]:
    return {
        "id": each.id,
        "type": each.type,
        "label": each.label,
        "ranked": list(each.ranked),
        "scores": dict(each.scores),
    }
