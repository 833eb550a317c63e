"""Near text: which texts are nearly the same, by the character trigrams that they share (P12, C45).

The measure is exact: the share of common trigrams among all of two texts (Jaccard), never an
estimate. What is estimated, and never too low, is how many two texts have in common: each has a
field of bits, one set for every trigram, so that comparing a text with hundreds of others takes a
few thousand words of memory each. Only where the bits leave it open are the trigrams compared.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tamis.search.select import MOST_COMPARED

Trigrams = NDArray[np.uint64]  # sorted, each once

_BITS: Final = 13  # 8,192 bits: a passage of 1,500 characters has some 800 trigrams, few share a bit
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio: spreads neighbours over all the bits


def trigrams(text: str) -> Trigrams:
    """The runs of three characters in the text, in lower case, with white space as single blanks.

    Each is one number, 21 bits to a character, so that equal numbers are equal runs. A text that is
    shorter is one run by itself.
    """
    plain = " ".join(text.lower().split())
    data = plain.encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(data, np.uint32).astype(np.uint64) + np.uint64(1)  # 0 is "no character"
    padded = np.concatenate([codes, np.zeros(max(0, 3 - len(codes)), np.uint64)])
    first, second, third = padded[:-2], padded[1:-1], padded[2:]
    runs = np.sort(first << np.uint64(42) | second << np.uint64(21) | third)
    found: Trigrams = runs[np.append(True, runs[1:] != runs[:-1])]  # a sixth of the time of np.unique
    return found


def jaccard(one: Trigrams, two: Trigrams) -> float:
    """The share of what both have in what either has; nothing shares nothing with nothing."""
    common = len(np.intersect1d(one, two, assume_unique=True))
    return common / max(len(one) + len(two) - common, 1)


def near_texts(texts: Sequence[str], threshold: float) -> list[int]:
    """For each text, best first, which one stands for it: the first kept that is near it, or itself."""
    kept = _Kept(min(len(texts), MOST_COMPARED), threshold)
    return [kept.place(at, trigrams(text)) for at, text in enumerate(texts)]


class _Kept:
    """The texts that stand for themselves so far."""

    def __init__(self, most: int, threshold: float) -> None:
        self.threshold = threshold
        self.at: list[int] = []
        self.runs: list[Trigrams] = []
        self.sizes = np.zeros(most, np.int64)
        self.bits = np.zeros((most, 2**_BITS // 64), np.uint64)

    def place(self, at: int, runs: Trigrams) -> int:
        bits = _bits(runs)
        for number in self._possible(runs, bits):
            if jaccard(runs, self.runs[number]) >= self.threshold:
                return self.at[number]
        if len(self.at) < len(self.sizes):
            self.sizes[len(self.at)], self.bits[len(self.at)] = len(runs), bits
            self.at.append(at)
            self.runs.append(runs)
        return at

    def _possible(self, runs: Trigrams, bits: NDArray[np.uint64]) -> list[int]:
        """Those of the kept that may be near, by an upper bound of what they have in common.

        It is all that the smaller one has, at most; and of this text's runs at most one for each
        common bit, and those that share their bit with another of its runs.
        """
        sizes, others = self.sizes[: len(self.at)], self.bits[: len(self.at)]
        crowded = len(runs) - int(np.bitwise_count(bits).sum())
        shared = np.bitwise_count(others & bits).sum(axis=1, dtype=np.uint16)  # of 8,192 at most
        common = np.minimum(np.minimum(sizes, len(runs)), shared.astype(np.int64) + crowded)
        near = common / (sizes + len(runs) - common) >= self.threshold
        return [int(number) for number in np.flatnonzero(near)]


def _bits(runs: Trigrams) -> NDArray[np.uint64]:
    """The field of bits: bit h for each run, h a hash of it."""
    bits = np.zeros(2**_BITS, np.uint8)
    bits[(runs * _MIX) >> np.uint64(64 - _BITS)] = 1
    return np.packbits(bits).view(np.uint64)
