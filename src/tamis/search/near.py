"""Near text: which texts are nearly the same, by the character trigrams that they share (P12, C45).

The measure is exact: the share of common trigrams among all of two texts (Jaccard), never an
estimate. What is estimated, and never too low, is how near two texts can be: each has a field of bits,
one set for every trigram, and a bit that one of them has alone is a trigram that it has alone. The fields
of all texts are made at once and compared many at a time, which is what makes it fast; only where they
leave it open are the trigrams of two texts sorted and compared.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tamis.search.select import MOST_COMPARED

Trigrams = NDArray[np.uint64]  # sorted, each once

_BITS: Final = 11  # 2,048 bits: few passages have as many as 1,000 trigrams
_MIX: Final = (np.uint32(0x9E3779B1), np.uint32(0x85EBCA77), np.uint32(0xC2B2AE3D))  # odd, bits all over
_BLOCK: Final = 64  # texts whose fields are compared with all others at a time


def trigrams(text: str) -> Trigrams:
    """The runs of three characters in the text, in lower case, with white space as single blanks.

    Each is one number, 21 bits to a character, so that equal numbers are equal runs. A text that is
    shorter is one run by itself.
    """
    codes = _codes(_plain(text)).astype(np.uint64) + np.uint64(1)  # 0 is "no character"
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
    if not texts:
        return []
    looked, kept = _Looked(texts, threshold), dict[int, None]()
    best = list(range(len(texts)))
    for start in range(0, len(texts), _BLOCK):
        block = range(start, min(start + _BLOCK, len(texts)))
        for at, possible in zip(block, looked.possible(block, [*kept, *block]), strict=True):
            near = (other for other, alone in possible if other in kept and looked.near(at, other, alone))
            best[at] = next(near, at)
            if best[at] == at and len(kept) < MOST_COMPARED:
                kept[at] = None
    return best


class _Looked:
    """Texts with their fields, and the trigrams of those that had to be looked at closely."""

    def __init__(self, texts: Sequence[str], threshold: float) -> None:
        plain = [_plain(text).ljust(3, "\0") for text in texts]
        self.texts, self.threshold = texts, threshold
        self.lengths = np.array([len(text) - 2 for text in plain], np.int64)  # in runs, repeated or not
        self.fields = _fields(plain)
        self.runs: dict[int, Trigrams] = {}

    def possible(self, some: Sequence[int], others: Sequence[int]) -> Iterator[Iterator[tuple[int, int]]]:
        """For each of some texts those of the others that may be near, and how many bits one has alone.

        For each of these bits there is a run that one of the two has alone, and they have at most as many in
        common as the shorter one has, repeated or not.
        """
        ours, theirs = self.fields[:, some], self.fields[:, others]
        alone = np.zeros((len(some), len(others)), np.uint16)  # 2,048 at most
        for own, other in zip(ours, theirs, strict=True):
            alone += np.bitwise_count(own[:, np.newaxis] ^ other)
        common = np.minimum(self.lengths[some][:, np.newaxis], self.lengths[others])
        rows, columns = np.nonzero(common / (common + alone) >= self.threshold)
        found, bits = np.array(others, np.int64)[columns].tolist(), alone[rows, columns].tolist()
        ends = np.searchsorted(rows, np.arange(len(some) + 1)).tolist()
        return (zip(found[start:end], bits[start:end], strict=True) for start, end in pairwise(ends))

    def near(self, one: int, two: int, alone: int) -> bool:
        """Once more by the bound, now with how many different runs there are; then by the runs themselves."""
        first, second = self._runs(one), self._runs(two)
        sizes = len(first) + len(second)
        common = min(len(first), len(second), (sizes - alone) // 2)
        return common / (sizes - common) >= self.threshold and jaccard(first, second) >= self.threshold

    def _runs(self, at: int) -> Trigrams:
        if at not in self.runs:
            self.runs[at] = trigrams(self.texts[at])
        return self.runs[at]


def _fields(plain: Sequence[str]) -> NDArray[np.uint64]:
    """The fields of bits, a column for each text (of three characters or more): bit h for a run of hash h."""
    lengths = np.array([len(text) for text in plain], np.int64)
    ends = lengths.cumsum()
    codes = _codes("".join(plain))
    first, second, third = _MIX
    hashes = (codes[:-2] * first + codes[1:-1] * second + codes[2:] * third) >> np.uint32(32 - _BITS)
    places = np.repeat(np.arange(len(plain)) << _BITS, lengths)
    places[:-2] += hashes
    for last in (1, 2):  # there no run begins: the text's first one counts twice instead
        places[ends - last] = places[ends - lengths]
    bits = np.zeros(len(plain) << _BITS, np.uint8)
    bits[places] = 1
    rows = np.packbits(bits).view(np.uint64).reshape(len(plain), -1)
    return np.ascontiguousarray(rows.T)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
