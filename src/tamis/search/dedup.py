"""Stages that drop candidates and keep the order of the others. Duplicates go along with the best one."""

import sys
from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tamis.model import Candidate
from tamis.search.fuse import best_first
from tamis.search.question import Candidates, Lookups, Question

Lines = tuple[int, int]  # of a passage: its first and its last

_OVERLAPPING = {"documentation": "code_block", "code_block": "documentation"}
# An answer has at most 100 results. Candidates after this many different ones are not compared with each
# other: comparing each with all takes the square of the time.
MOST_COMPARED = 500
_SHARED = 8  # passages before the nearest that may still reach into a line


def threshold(candidates: Candidates, question: Question, _: Lookups) -> Candidates:
    """Drop candidates below the lowest score that was asked for."""
    return [each for each in candidates if each.score >= question.min_score]


def same_text(candidates: Candidates, question: Question, _: Lookups) -> Candidates:
    """Keep the best of candidates whose texts differ in white space alone."""
    if not question.weights.content_dedup_enabled:
        return candidates
    first: dict[bytes, int] = {}
    best = []
    for at, candidate in enumerate(candidates):
        best.append(first.setdefault(candidate.passage.content_hash, at))
    return collapsed(candidates, best)


def collapsed(candidates: Candidates, best: Sequence[int]) -> list[Candidate]:
    """Keep one of each group; `best` has for each candidate the place of the one to keep.

    That one lists the others as its duplicates, with theirs.
    """
    groups: dict[int, list[Candidate]] = {}
    for at, candidate in zip(best, candidates, strict=True):
        groups.setdefault(at, []).append(candidate)
    kept = []
    for at, group in groups.items():
        first = candidates[at]
        if len(group) > 1:
            others: list[Candidate] = []
            for each in group:
                others.extend(each.duplicates)
                if each is not first:
                    others.append(each.with_duplicates(()))
            first = first.with_duplicates(tuple(best_first(others)))
        kept.append(first)
    return kept


def overlap(candidates: Candidates, question: Question, _: Lookups) -> Candidates:
    """Keep the better of a passage and a code block in it, which is a passage of its own as well."""
    if not question.weights.content_dedup_enabled:
        return candidates
    kept: list[Candidate] = []
    # The lines of what is kept, by path and type.
    seen: defaultdict[tuple[str, str], list[Lines]] = defaultdict(list)
    for candidate in candidates:
        passage = candidate.passage
        lines = (passage.start_line, passage.end_line)
        other = _OVERLAPPING.get(passage.chunk_type, "")
        if not _overlaps(lines, seen[passage.path, other]):
            kept.append(candidate)
            insort(seen[passage.path, passage.chunk_type], lines)
    return kept


def _overlaps(lines: Lines, others: Sequence[Lines]) -> bool:
    """Return True if the lines are all in another run of lines, or have one in them.

    Runs of one type begin and end in the same order, or nearly so: pieces share a few lines.
    """
    start, end = lines
    after = bisect_right(others, (start, sys.maxsize))
    for first, last in others[max(0, after - _SHARED) :]:
        if first > end:
            return False
        if first <= start and end <= last:
            return True
        if start <= first and last <= end:
            return True
    return False


def near_text(candidates: Candidates, question: Question, _: Lookups) -> Candidates:
    """Keep the best of candidates with nearly the same text."""
    settings = question.settings
    if not settings.ngram_dedup_enabled:
        return candidates
    texts = [candidate.passage.content for candidate in candidates]
    return collapsed(candidates, near_texts(texts, settings.ngram_dedup_threshold))


def per_document(candidates: Candidates, question: Question, _: Lookups) -> Candidates:
    """Keep the best few of each document; 0 is no limit."""
    most = question.max_chunks_per_doc
    if most <= 0:
        return candidates
    kept = []
    above: Counter[str] = Counter()
    for candidate in candidates:
        path = candidate.passage.path
        if above[path] < most:
            kept.append(candidate)
        above[path] += 1
    return kept


def parents(candidates: Candidates, question: Question, _: Lookups) -> Candidates:
    """Keep the best of candidates in the same section, which is shown in their place."""
    if not question.parents:
        return candidates
    kept = []
    shown = set()
    for candidate in candidates:
        passage = candidate.passage
        section = (passage.path, passage.parent)
        if section not in shown:
            kept.append(candidate)
        if passage.parent is not None:
            shown.add(section)
    return kept


def limit(candidates: Candidates, question: Question, _: Lookups) -> Candidates:
    return candidates[: question.limit]


Trigrams = NDArray[np.uint64]  # sorted, each once

_BITS = 11  # 2,048 bits: few passages have as many as 1,000 trigrams
# Odd numbers, bits all over.
_MIX = np.array([0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D], np.uint32)
_BLOCK = 64  # texts that are compared with all others at a time


def near_texts(texts: Sequence[str], threshold: float) -> list[int]:
    """Return for each text, best first, the first kept one that is nearly the same, or itself."""
    if not texts:
        return []
    fields = _Fields.of(texts)
    runs = cache(lambda at: trigrams(texts[at]))
    kept: dict[int, None] = {}
    best = list(range(len(texts)))
    for start in range(0, len(texts), _BLOCK):
        end = min(start + _BLOCK, len(texts))
        block = range(start, end)
        possible = fields.possible(block, [*kept, *block], threshold)
        for at, others in zip(block, possible, strict=True):
            for other, alone in others:
                if other not in kept:
                    continue
                # The bound once more, now with the number of different runs; then the runs.
                one = runs(at)
                two = runs(other)
                sizes = len(one) + len(two)
                common = min(len(one), len(two), (sizes - alone) // 2)
                if common / (sizes - common) < threshold:
                    continue
                if jaccard(one, two) >= threshold:
                    best[at] = other
                    break
            if best[at] == at and len(kept) < MOST_COMPARED:
                kept[at] = None
    return best


def jaccard(one: Trigrams, two: Trigrams) -> float:
    """Return the share of what either has that both have; of nothing and nothing it is 0."""
    common = len(np.intersect1d(one, two, assume_unique=True))
    either = len(one) + len(two) - common
    return common / max(either, 1)


def trigrams(text: str) -> Trigrams:
    """Return the runs of three characters in the text, in lower case, white space as single blanks.

    Each is one number, 21 bits to a character, so that equal numbers are equal runs. A shorter text is
    one run by itself.
    """
    codes = _codes(_plain(text)).astype(np.uint64)
    codes += np.uint64(1)  # 0 is "no character"
    missing = max(0, 3 - len(codes))
    padded = np.pad(codes, (0, missing))
    first = padded[:-2] << np.uint64(42)
    second = padded[1:-1] << np.uint64(21)
    runs = np.sort(first | second | padded[2:])
    # In a sixth of the time of np.unique.
    is_new = np.append(True, runs[1:] != runs[:-1])
    found: Trigrams = runs[is_new]
    return found


@dataclass(frozen=True, slots=True)
class _Fields:
    """Fields of bits, a column for each text: bit h for a run of hash h."""

    columns: NDArray[np.uint64]
    lengths: NDArray[np.int64]  # in runs, repeated or not

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        plain = [_plain(text).ljust(3, "\0") for text in texts]
        lengths = np.array(list(map(len, plain)), np.int64)
        ends = lengths.cumsum()
        codes = _codes("".join(plain))
        first, second, third = _MIX
        mixed = codes[:-2] * first
        mixed += codes[1:-1] * second
        mixed += codes[2:] * third
        starts = np.arange(len(plain)) << _BITS
        places = np.repeat(starts, lengths)
        places[:-2] += mixed >> np.uint32(32 - _BITS)
        # At the last two characters no run begins: the text's first one counts there again.
        for last in (1, 2):
            places[ends - last] = places[ends - lengths]
        bits = np.zeros(len(plain) << _BITS, np.uint8)
        bits[places] = 1
        packed = np.packbits(bits).view(np.uint64)
        rows = packed.reshape(len(plain), -1)
        return cls(np.ascontiguousarray(rows.T), lengths - 2)

    def possible(
        self, some: Sequence[int], others: Sequence[int], threshold: float
    ) -> Iterator[Iterator[tuple[int, int]]]:
        """Yield for each of some texts the others that may be near, and the bits that one has alone.

        For each of these bits there is a run that one of the two has alone, and they have at most as many
        in common as the shorter one has, repeated or not.
        """
        shape = (len(some), len(others))
        alone = np.zeros(shape, np.uint16)  # 2,048 at most
        for own, other in zip(
            self.columns[:, some], self.columns[:, others], strict=True
        ):
            alone += np.bitwise_count(own[:, np.newaxis] ^ other)
        own_lengths = self.lengths[some][:, np.newaxis]
        common = np.minimum(own_lengths, self.lengths[others])
        shares = common / (common + alone)
        rows, columns = np.nonzero(shares >= threshold)
        found = np.array(others, np.int64)[columns].tolist()
        bits = alone[rows, columns].tolist()
        ends = np.searchsorted(rows, np.arange(len(some) + 1))
        for start, end in pairwise(ends.tolist()):
            yield zip(found[start:end], bits[start:end], strict=True)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _codes(text: str) -> NDArray[np.uint32]:
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
