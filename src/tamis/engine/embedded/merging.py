"""Several segments as one: which are chosen, what that takes of memory, and what comes out."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tamis.engine.embedded import words
from tamis.engine.embedded.segment import Segment, dead_documents, file_of
from tamis.engine.embedded.stored_segments import SegmentRecord

_TOO_DEAD: Final = 0.5  # a segment with more dead than living rows is merged for its space
# Bytes of memory for each byte on disk. Postings are sorted anew, in wider numbers; other arrays are copied.
_COSTS: Final = {"words": 10.0, "code": 10.0, "vectors": 3.0, "rows": 5.0}


def segments_to_merge(
    records: Sequence[SegmentRecord],
    most: int,
    costs: Mapping[int, float] | None = None,
    memory: float = math.inf,
) -> list[SegmentRecord]:
    """Which segments to make one: mostly dead ones always; when there are too many, all small ones.

    A segment larger than everything smaller together stays out, so that a row is rewritten a
    number of times that grows with the logarithm of the index only. Together they cost no more than there
    is memory: a large index has more segments instead, which costs searches a little time.
    """
    mostly_dead = [r for r in records if r.documents and dead_documents(r).mean() > _TOO_DEAD]
    if len(records) <= most:
        return _fitting(mostly_dead, costs, memory)
    by_size = sorted(records, key=lambda record: record.rows)
    chosen, total = [], 0
    for at, record in enumerate(by_size):
        if at > len(records) - most and record.rows > total:
            break
        chosen.append(record)
        total += record.rows
    chosen = _fitting(chosen, costs, memory)
    if len(chosen) == 1 and chosen[0] not in mostly_dead:  # which would only write it again
        chosen = []
    return _fitting(chosen + [record for record in mostly_dead if record not in chosen], costs, memory)


def _fitting(
    records: Sequence[SegmentRecord], costs: Mapping[int, float] | None, memory: float
) -> list[SegmentRecord]:
    """As many of them, from the first on, as fit."""
    if costs is None:
        return list(records)
    sums = np.cumsum([costs[record.id] for record in records])
    return [record for record, total in zip(records, sums, strict=True) if total <= memory]


def merging_cost(directory: Path, record: SegmentRecord) -> float:
    """Bytes of memory that it takes to merge a segment with others, about."""
    sizes = {name: file_of(directory, record, name).stat().st_size for name in _COSTS}
    living = 1.0 - float(dead_documents(record).mean()) if record.documents else 1.0
    return living * sum(_COSTS[name] * size for name, size in sizes.items())


def merged_files(
    segments: Sequence[Segment], documents: Sequence[tuple[str, int, int, int]]
) -> dict[str, dict[str, Any]]:
    """The arrays of some segments as one, living rows only. `documents` are in the order of paths.

    Of each segment only what is taken over is held: a few documents may be moved out of many segments.
    """
    for segment in segments:
        segment.check_sums()
    new_place = {segment.record.id: np.full(segment.record.documents, -1, np.int64) for segment in segments}
    for place, (_, _, segment_id, old) in enumerate(documents):
        new_place[segment_id][old] = place
    places = [new_place[segment.record.id][segment.rows["document"]] for segment in segments]
    starts = np.cumsum([0, *(len(part) for part in places)])
    joined = np.concatenate(places)
    order = np.argsort(joined, kind="stable")  # stable: a document's rows keep their order
    order = order[joined[order] >= 0]
    renumber = np.full(len(joined), -1, np.int64)
    renumber[order] = np.arange(len(order))
    own = [renumber[start:end] for start, end in pairwise(starts)]
    lanes = {
        name: words.merge(
            [(getattr(segment, name).arrays, new) for segment, new in zip(segments, own, strict=True)]
        )
        for name in ("words", "code")
    }
    size = len(order)
    rows = {
        name: _joined([segment.rows[name] for segment in segments], own, size) for name in segments[0].rows
    }
    rows["document"] = joined[order].astype(np.int32)
    stored = {name: _joined([s.vectors[name] for s in segments], own, size) for name in segments[0].vectors}
    return {"rows": rows, **lanes, "vectors": stored}


def _joined(parts: Sequence[NDArray[Any]], own: Sequence[NDArray[np.int64]], size: int) -> NDArray[Any]:
    """Rows of several arrays as one array, each at its new number."""
    result = np.empty((size, *parts[0].shape[1:]), parts[0].dtype)
    for part, new in zip(parts, own, strict=True):
        kept = np.flatnonzero(new >= 0)
        result[new[kept]] = part[kept]
    return result
