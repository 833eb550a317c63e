"""Writing: new segments, tombstones and merges, each made final by one SQLite transaction."""

import math
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tamis.errors import IndexDamaged, storage_faults
from tamis.failpoints import reached
from tamis.index.embedded import database, vectors, words
from tamis.index.embedded.database import SegmentRecord
from tamis.index.embedded.folder import clear_up, make_folder, throw_away
from tamis.index.embedded.lock import writer_lock
from tamis.index.embedded.segment import (
    Segment,
    dead_documents,
    file_of,
    pack_dead,
    segment_files,
    with_dead,
    write_segment,
)
from tamis.index.protocol import PendingDocument, Prepared
from tamis.model import FileState, Skipped, Stamps
from tamis.text.linking import key_of, names_of
from tamis.text.words import storable, text_hash

# More segments than this make a search noticeably slower (10 cost half a millisecond, 30 twice the time).
_MOST_SEGMENTS: Final = 20
_MOST_AFTER_RUN: Final = 8


class Writer:
    """The one writer of an index. Each `put`, `remove` and `finish` is a generation of its own,
    unless the whole run is one transaction."""

    def __init__(
        self,
        directory: Path,
        connection: database.Connection,
        boosts: Mapping[str, float],
        memory: float,
    ) -> None:
        """`memory` is how many bytes a merge may take, about: what does not fit stays in several segments."""
        self.directory = directory
        self.connection = connection
        self.boosts = boosts
        self.memory = memory
        self._obsolete: list[str] = []
        self._has_written = False

    @property
    def facts(self) -> dict[str, Any]:
        return database.facts(self.connection)

    def file_states(self) -> dict[str, FileState]:
        return database.file_states(self.connection)

    def stamps(self, recipe: str) -> dict[str, Stamps]:
        return database.stamps(self.connection, recipe)

    def dates(self) -> dict[str, float]:
        return dict(self.connection.execute("SELECT path, modified FROM documents"))

    def describe(self, values: Mapping[str, Any]) -> None:
        """Record facts about the index that are no generation of their own."""
        with self._transaction():
            database.set_facts(self.connection, values)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Make everything in the block one generation: a rebuild shows when it is whole, or not at all."""
        self._has_written = True
        with database.transaction(self.connection):
            yield
        self._remove_obsolete()

    def clear(self) -> None:
        with self._transaction():
            self._obsolete += [
                record.folder for record in database.segments(self.connection)
            ]
            database.clear(self.connection)

    def put(self, batch: Sequence[Prepared], pending: int) -> None:
        """Add documents, in place of those with the same paths."""
        ordered = sorted(batch, key=lambda prepared: prepared.document.path)
        first = database.next_chunk(self.connection)
        folder = write_segment(
            self.directory / "segments", segment_files(ordered, first, self.boosts)
        )
        reached("put.written")
        with self._generation(pending=pending):
            self._bury([prepared.document.path for prepared in ordered])
            rows = sum(len(prepared.document.chunks) for prepared in ordered)
            segment = self._register(
                folder, rows, len(ordered), ordered[0].vectors.shape[1]
            )
            for place, prepared in enumerate(ordered):
                first = self._insert(prepared, segment, place, first)
                reached("put.document")
            self._sum_up([prepared.document.path for prepared in ordered])
        self._merge(_MOST_SEGMENTS)

    @property
    def late_vectors(self) -> "Writer":
        """Documents can be committed without vectors, which follow later."""
        return self

    def pending_documents(self) -> list[PendingDocument]:
        """The documents that have no vectors yet."""
        rows = database.pending_documents(self.connection)
        return [PendingDocument(*row) for row in rows]

    def texts_of(self, paths: Sequence[str]) -> dict[str, list[tuple[str, str, str]]]:
        return database.texts_to_embed(self.connection, paths)

    def embed(self, vectors_of: Mapping[str, NDArray[np.float32]]) -> None:
        """Give documents their vectors: their rows move, as they are, to a segment that has some."""
        documents = sorted(database.document_places(self.connection, list(vectors_of)))
        held = {segment for _, _, segment, _ in documents}
        records = [
            record for record in database.segments(self.connection) if record.id in held
        ]
        files = merged_files(
            [Segment(self.directory, record) for record in records], documents
        )
        together = np.concatenate([vectors_of[path] for path, *_ in documents])
        files["vectors"] = vectors.encode(together)
        folder = write_segment(self.directory / "segments", files)
        reached("embed.written")
        with self._generation():
            self._mark_dead([(segment, place) for _, _, segment, place in documents])
            new = self._register(
                folder, len(together), len(documents), together.shape[1]
            )
            self._move(new, documents)
        self._merge(_MOST_SEGMENTS)

    def remove(self, paths: Sequence[str]) -> None:
        if paths:
            with self._generation():
                self._bury(paths)

    def touch(self, files: Sequence[tuple[str, FileState, float]]) -> None:
        """Record new times of files whose content is as it was."""
        with self._transaction():
            moved = [database.update_state(self.connection, *file) for file in files]
            self._sum_up([path for path, _, _ in files])
            if any(moved):
                self._count_generation()

    def finish(self, skipped: Sequence[Skipped], facts: Mapping[str, Any]) -> None:
        """Every file is in: nothing is pending but vectors. `facts` are what the next run wants to know.

        A run that has found everything as it was writes nothing: a commit costs more than the look.
        """
        self.tidy()
        if self._is_told(skipped, facts):
            return
        with self._transaction():
            database.replace_skipped(self.connection, skipped)
            database.set_facts(
                self.connection, {**facts, "pending": 0, "built_at": time.time()}
            )

    def _is_told(self, skipped: Sequence[Skipped], facts: Mapping[str, Any]) -> bool:
        """Whether the index says all this already, of a run that began earlier."""
        known = self.facts
        if self._has_written or known["pending"] or not known["built_at"]:
            return False
        same = all(
            known.get(name) == value for name, value in facts.items() if name != "began"
        )
        return same and set(database.skipped(self.connection)) == set(skipped)

    def tidy(self) -> None:
        """Leave few segments for searches to meet."""
        self._merge(_MOST_AFTER_RUN)

    @property
    def generation(self) -> int:
        return database.generation(self.connection)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._has_written = True
        with (
            nullcontext()
            if self.connection.in_transaction
            else database.transaction(self.connection)
        ):
            yield

    @contextmanager
    def _generation(self, **changed: Any) -> Iterator[None]:
        with self._transaction():
            yield
            self._count_generation()
            database.set_facts(self.connection, changed)

    def _count_generation(self) -> None:
        database.set_facts(
            self.connection, {"generation": database.generation(self.connection) + 1}
        )

    def _insert(self, prepared: Prepared, segment: int, place: int, first: int) -> int:
        document = prepared.document
        columns = {
            "path": document.path,
            "segment": segment,
            "place": place,
            "chunks": len(document.chunks),
            "title": document.title,
            "author": document.front.author,
            "category": document.front.category,
            "modified": document.modified,
            "tags": database.stored_texts(document.front.tags),
            "aliases": database.stored_texts(document.front.aliases),
            "keywords": database.stored_texts(document.front.keywords),
            "description": document.front.description,
            "warning": storable(document.warning),
            **prepared.state._asdict(),
        }
        key = database.add_document(self.connection, columns)
        chunks = [
            (first + at, chunk, text_hash(chunk.content))
            for at, chunk in enumerate(document.chunks)
        ]
        database.add_chunks(self.connection, key, chunks)
        if document.parents:
            database.add_parents(self.connection, key, document.parents)
        if document.links:
            links = [(link, key_of(link, document.path)) for link in document.links]
            database.add_links(
                self.connection, key, [(link, name) for link, name in links if name]
            )
        database.add_names(
            self.connection, key, names_of(document.path, document.front.aliases)
        )
        return first + len(chunks)

    def _sum_up(self, paths: Sequence[str]) -> None:
        keys = [
            key for _, key, _, _ in database.document_places(self.connection, paths)
        ]
        database.set_sums(self.connection, keys)

    def _bury(self, paths: Sequence[str]) -> None:
        self._mark_dead(database.remove_documents(self.connection, paths))

    def _mark_dead(self, gone: Sequence[tuple[int, int]]) -> None:
        places: dict[int, list[int]] = {}
        for segment, place in gone:
            places.setdefault(segment, []).append(place)
        for record in database.segments(self.connection):
            if record.id in places:
                database.set_dead(
                    self.connection, record.id, with_dead(record, places[record.id])
                )

    def _register(self, folder: str, rows: int, documents: int, dimension: int) -> int:
        none_dead = pack_dead(np.zeros(documents, np.bool_))
        return database.add_segment(
            self.connection, folder, rows, documents, none_dead, dimension
        )

    def _move(
        self, segment: int, documents: Sequence[tuple[str, int, int, int]]
    ) -> None:
        moves = (
            (segment, place, key) for place, (_, key, _, _) in enumerate(documents)
        )
        database.move_documents(self.connection, moves)

    def _merge(self, most: int) -> None:
        """Rows with vectors and rows that still wait for theirs stay apart."""
        records = database.segments(self.connection)
        for dimension in {record.dimension for record in records}:
            alike = [record for record in records if record.dimension == dimension]
            costs = {
                record.id: merging_cost(self.directory, record) for record in alike
            }
            self._merge_all(
                segments_to_merge(alike, most, costs, self.memory), dimension
            )

    def _merge_all(self, chosen: Sequence[SegmentRecord], dimension: int) -> None:
        if not chosen:
            return
        documents = sorted(
            database.segment_paths(self.connection, [record.id for record in chosen])
        )
        merged = merged_files(
            [Segment(self.directory, record) for record in chosen], documents
        )
        folder = write_segment(self.directory / "segments", merged) if documents else ""
        reached("merge.written")
        with self._generation():
            database.drop_segments(self.connection, [record.id for record in chosen])
            if documents:
                rows = len(merged["rows"]["chunk"])
                self._move(
                    self._register(folder, rows, len(documents), dimension), documents
                )
        self._obsolete += [record.folder for record in chosen]
        reached("merge.committed")
        if not self.connection.in_transaction:
            self._remove_obsolete()

    def _remove_obsolete(self) -> None:
        """Readers that have these mapped keep them; readers that come too late look again."""
        for folder in self._obsolete:
            shutil.rmtree(self.directory / "segments" / folder, ignore_errors=True)
            reached("obsolete.removed")
        self._obsolete.clear()


@contextmanager
def open_for_writing(
    directory: Path,
    timeout: float,
    waiting: Callable[[str], None],
    boosts: Mapping[str, float],
    memory: float = math.inf,
    *,
    discard: bool = False,
) -> Iterator[Writer]:
    """Lock the index, make it where there is none, clear up after a writer that died.

    With `discard`, what is there is thrown away unread: the way out of a damaged index.
    """
    make_folder(directory)
    with (
        writer_lock(directory, timeout, waiting),
        database.database_faults(directory),
        storage_faults(directory),
    ):
        if discard:
            throw_away(directory)
        connection = database.open_writer(directory)
        try:
            records = database.segments(connection)
            clear_up(directory, records)
            _check_segments(directory, records)
            yield Writer(directory, connection, boosts, memory)
        finally:
            connection.close()


def _check_segments(directory: Path, records: Sequence[SegmentRecord]) -> None:
    """See that every segment opens: adding to an index that cannot be searched would only hide it."""
    try:
        for record in records:
            Segment(directory, record)
    except FileNotFoundError as error:
        raise IndexDamaged(directory, f"{error.filename} is missing") from error


_TOO_DEAD: Final = (
    0.5  # a segment with more dead than living rows is merged for its space
)
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
    mostly_dead = [
        r for r in records if r.documents and dead_documents(r).mean() > _TOO_DEAD
    ]
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
    if (
        len(chosen) == 1 and chosen[0] not in mostly_dead
    ):  # which would only write it again
        chosen = []
    return _fitting(
        chosen + [record for record in mostly_dead if record not in chosen],
        costs,
        memory,
    )


def _fitting(
    records: Sequence[SegmentRecord], costs: Mapping[int, float] | None, memory: float
) -> list[SegmentRecord]:
    """As many of them, from the first on, as fit."""
    if costs is None:
        return list(records)
    sums = np.cumsum([costs[record.id] for record in records])
    return [
        record for record, total in zip(records, sums, strict=True) if total <= memory
    ]


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
    new_place = {
        segment.record.id: np.full(segment.record.documents, -1, np.int64)
        for segment in segments
    }
    for place, (_, _, segment_id, old) in enumerate(documents):
        new_place[segment_id][old] = place
    places = [
        new_place[segment.record.id][segment.rows["document"]] for segment in segments
    ]
    starts = np.cumsum([0, *(len(part) for part in places)])
    joined = np.concatenate(places)
    order = np.argsort(
        joined, kind="stable"
    )  # stable: a document's rows keep their order
    order = order[joined[order] >= 0]
    renumber = np.full(len(joined), -1, np.int64)
    renumber[order] = np.arange(len(order))
    own = [renumber[start:end] for start, end in pairwise(starts)]
    lanes = {
        name: words.merge(
            [
                (getattr(segment, name).arrays, new)
                for segment, new in zip(segments, own, strict=True)
            ]
        )
        for name in ("words", "code")
    }
    size = len(order)
    rows = {
        name: _joined([segment.rows[name] for segment in segments], own, size)
        for name in segments[0].rows
    }
    rows["document"] = joined[order].astype(np.int32)
    stored = {
        name: _joined([s.vectors[name] for s in segments], own, size)
        for name in segments[0].vectors
    }
    return {"rows": rows, **lanes, "vectors": stored}


def _joined(
    parts: Sequence[NDArray[Any]], own: Sequence[NDArray[np.int64]], size: int
) -> NDArray[Any]:
    """Rows of several arrays as one array, each at its new number."""
    result = np.empty((size, *parts[0].shape[1:]), parts[0].dtype)
    for part, new in zip(parts, own, strict=True):
        kept = np.flatnonzero(new >= 0)
        result[new[kept]] = part[kept]
    return result
