"""Stages that drop candidates. Each is a pure function of a list that is best first, and keeps its order."""

import sys
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise, takewhile
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tamis.model import Candidate

_OVERLAPPING: Final = {"documentation": "code_block", "code_block": "documentation"}
# An answer has at most 100 results. What ranks below this many different passages is not held against
# those that come after them as well, where each is compared with all: that takes the square of the time.
MOST_COMPARED: Final = 500
_SHARED: Final = 8  # how many passages before the nearest may still reach into a line


def above_threshold(candidates: Sequence[Candidate], least: float) -> list[Candidate]:
    """Those with at least this score (P10)."""
    return [candidate for candidate in candidates if candidate.score >= least]


def without_same_text(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best of each group whose texts differ in white space alone (P8, C73)."""
    best: dict[bytes, int] = {}
    hashes = (candidate.passage.content_hash for candidate in candidates)
    return collapsed(
        candidates, [best.setdefault(each, at) for at, each in enumerate(hashes)]
    )


def collapsed(candidates: Sequence[Candidate], best: Sequence[int]) -> list[Candidate]:
    """One for each group; `best` tells for each candidate which one stands for it, maybe itself.

    What it stands for goes along with it, with all that those stood for themselves.
    """
    groups: dict[int, list[Candidate]] = {}
    for at, candidate in zip(best, candidates, strict=True):
        groups.setdefault(at, []).append(candidate)
    return [_standing(candidates[at], group) for at, group in groups.items()]


def _standing(best: Candidate, group: Sequence[Candidate]) -> Candidate:
    if len(group) == 1:
        return best
    alone = (
        each.standing_for(()) if each.also else each
        for each in group
        if each is not best
    )
    others = [*alone, *(each for candidate in group for each in candidate.also)]
    others.sort(key=lambda each: (-each.raw_score, each.passage.position))
    return best.standing_for(tuple(others))


def without_overlap(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The better of a passage and a code block that stands in it: the block is a chunk of its own as well."""
    kept: list[Candidate] = []
    seen: dict[
        tuple[str, str], list[tuple[int, int]]
    ] = {}  # lines of what is kept, by path and type
    for candidate in candidates:
        passage = candidate.passage
        lines = (passage.start_line, passage.end_line)
        other = _OVERLAPPING.get(passage.chunk_type, "")
        if not _overlaps(lines, seen.get((passage.path, other), [])):
            kept.append(candidate)
            insort(seen.setdefault((passage.path, passage.chunk_type), []), lines)
    return kept


def _overlaps(lines: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    """Whether the lines are all in another run of lines, or have one in them.

    Runs of one type begin and end in the same order, or nearly so: pieces share a few lines.
    """
    start, end = lines
    around = others[max(0, bisect_right(others, (start, sys.maxsize)) - _SHARED) :]
    near = takewhile(lambda other: other[0] <= end, around)
    return any((a <= start and end <= b) or (start <= a and b <= end) for a, b in near)


def one_per_parent(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best of those that lie in the same section, which is shown in their place (P13)."""
    best: dict[tuple[str, int, bool], Candidate] = {}
    for candidate in candidates:
        passage = candidate.passage
        alone = passage.parent is None
        best.setdefault(
            (passage.path, passage.ordinal if alone else passage.parent or 0, alone),
            candidate,
        )
    return list(best.values())


def limited_per_document(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """The best `most` of each document; 0 is no limit."""
    if most <= 0:
        return list(candidates)
    seen: Counter[str] = Counter()
    kept = []
    for candidate in candidates:
        seen[candidate.passage.path] += 1
        if seen[candidate.passage.path] <= most:
            kept.append(candidate)
    return kept


Trigrams = NDArray[np.uint64]  # sorted, each once

_BITS: Final = 11  # 2,048 bits: few passages have as many as 1,000 trigrams
_MIX: Final = (
    np.uint32(0x9E3779B1),
    np.uint32(0x85EBCA77),
    np.uint32(0xC2B2AE3D),
)  # odd, bits all over
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
    found: Trigrams = runs[
        np.append(True, runs[1:] != runs[:-1])
    ]  # a sixth of the time of np.unique
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
        for at, possible in zip(
            block, looked.possible(block, [*kept, *block]), strict=True
        ):
            near = (
                other
                for other, alone in possible
                if other in kept and looked.near(at, other, alone)
            )
            best[at] = next(near, at)
            if best[at] == at and len(kept) < MOST_COMPARED:
                kept[at] = None
    return best


class _Looked:
    """Texts with their fields, and the trigrams of those that had to be looked at closely."""

    def __init__(self, texts: Sequence[str], threshold: float) -> None:
        plain = [_plain(text).ljust(3, "\0") for text in texts]
        self.texts, self.threshold = texts, threshold
        self.lengths = np.array(
            [len(text) - 2 for text in plain], np.int64
        )  # in runs, repeated or not
        self.fields = _fields(plain)
        self.runs: dict[int, Trigrams] = {}

    def possible(
        self, some: Sequence[int], others: Sequence[int]
    ) -> Iterator[Iterator[tuple[int, int]]]:
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
        found, bits = (
            np.array(others, np.int64)[columns].tolist(),
            alone[rows, columns].tolist(),
        )
        ends = np.searchsorted(rows, np.arange(len(some) + 1)).tolist()
        return (
            zip(found[start:end], bits[start:end], strict=True)
            for start, end in pairwise(ends)
        )

    def near(self, one: int, two: int, alone: int) -> bool:
        """Once more by the bound, now with how many different runs there are; then by the runs themselves."""
        first, second = self._runs(one), self._runs(two)
        sizes = len(first) + len(second)
        common = min(len(first), len(second), (sizes - alone) // 2)
        return (
            common / (sizes - common) >= self.threshold
            and jaccard(first, second) >= self.threshold
        )

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
    hashes = (
        codes[:-2] * first + codes[1:-1] * second + codes[2:] * third
    ) >> np.uint32(32 - _BITS)
    places = np.repeat(np.arange(len(plain)) << _BITS, lengths)
    places[:-2] += hashes
    for last in (
        1,
        2,
    ):  # there no run begins: the text's first one counts twice instead
        places[ends - last] = places[ends - lengths]
    bits = np.zeros(len(plain) << _BITS, np.uint8)
    bits[places] = 1
    rows = np.packbits(bits).view(np.uint64).reshape(len(plain), -1)
    return np.ascontiguousarray(rows.T)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
