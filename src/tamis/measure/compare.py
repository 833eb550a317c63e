"""Two ways of asking, compared question by question.

The same questions were asked both ways, so what counts is each question's difference. The interval
comes from a bootstrap: questions are drawn again and again within each set, and the middle 95 % of
the means is what the difference may well be. It is seeded: equal input gives equal figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_DRAWS: Final = 10_000  # the ends of the interval move by some hundredths of its width from seed to seed
_SEED: Final = 20_260_501
_CONFIDENCE: Final = 0.95
_HELD: Final = 1_000_000  # drawn questions in memory at a time
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
        return {name: getattr(self, name) for name in self.__slots__} | {"clear": self.is_clear}


def compare(first: Mapping[str, float], second: Mapping[str, float]) -> Difference:
    """Compare two ways by the score of each question; only questions that both were asked count."""
    return compare_sets([(first, second)])


def compare_sets(pairs: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]) -> Difference:
    """Compare over several sets: each set counts alike in the mean, however many questions it has."""
    gains = [gain for first, second in pairs if (gain := _gains(first, second)).size]
    if not gains:
        return Difference(0.0, 0.0, 0.0, 0, 0, 0)
    low, high = _interval(gains)
    every = np.concatenate(gains)
    wins, losses = int((every > _EQUAL).sum()), int((every < -_EQUAL).sum())
    mean = float(np.mean([gain.mean() for gain in gains]))
    return Difference(mean, low, high, wins, every.size - wins - losses, losses)


def _gains(first: Mapping[str, float], second: Mapping[str, float]) -> NDArray[np.float64]:
    both = sorted(first.keys() & second.keys())
    return np.array([second[one] - first[one] for one in both], np.float64)


def _interval(gains: Sequence[NDArray[np.float64]]) -> tuple[float, float]:
    random = np.random.default_rng(_SEED)
    means = np.mean([_drawn_means(gain, random) for gain in gains], axis=0)
    outside = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(means, (outside, 1 - outside))
    return float(low), float(high)


def _drawn_means(gains: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    """Means of samples as large as the set, some draws at a time: large sets must not fill the memory."""
    at_once = max(1, min(_DRAWS, _HELD // gains.size))
    portions = [min(at_once, _DRAWS - done) for done in range(0, _DRAWS, at_once)]
    drawn = (gains[random.integers(0, gains.size, (draws, gains.size))] for draws in portions)
    return np.concatenate([sample.mean(axis=1) for sample in drawn])
