"""Writing: new segments, tombstones and merges, each made final by one SQLite transaction."""

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tamis.failpoints import reached
from tamis.index.embedded import database, vectors, words
from tamis.index.embedded.arrays import Array, Arrays
from tamis.index.embedded.database import (
    DocumentRecord,
    Records,
    SegmentRecord,
)
from tamis.index.embedded.segment import (
    Segment,
    dead_documents,
    file_of,
    pack_dead,
    segment_files,
    write_segment,
)
from tamis.index.protocol import (
    IndexFacts,
    Paths,
    PendingDocument,
    Prepared,
    Texts,
    Touched,
    Vectors,
)
from tamis.model import Skipped

# More segments than this make a search noticeably slower (10 cost half a millisecond, 30 twice the time).
_MOST_SEGMENTS = 20
_MOST_AFTER_RUN = 8


class Writer(Records):
    """The one writer of an index. Each `put` and `remove` is a generation, unless the whole run is one."""

    def __init__(
        self,
        directory: Path,
        connection: database.Connection,
        boosts: Mapping[str, float],
        memory: float,
    ) -> None:
        """A merge takes at most some `memory` bytes: segments that do not fit stay apart."""
        super().__init__(connection)
        self.directory = directory
        self.boosts = boosts
        self.memory = memory
        self._obsolete: list[str] = []
        self._has_written = False

    @property
    def facts(self) -> dict[str, Any]:
        return database.facts(self.connection)

    @property
    def generation(self) -> int:
        return database.generation(self.connection)

    def dates(self) -> dict[str, float]:
        return dict(self.execute("SELECT path, modified FROM documents"))

    def describe(self, values: IndexFacts) -> None:
        """Record facts about the index without a new generation."""
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
        """Remove all documents, and the facts that depend on the model."""
        with self._transaction():
            for record in database.segments(self.connection):
                self._obsolete.append(record.folder)
            for table in (*database.OF_DOCUMENTS, "documents", "segments", "skipped"):
                self.execute(f"DELETE FROM {table}")
            self.execute(
                "DELETE FROM facts WHERE name IN ('model', 'fingerprint', 'dimension', 'root')"
            )

    def put(self, batch: Sequence[Prepared], pending: int) -> None:
        """Add documents, in place of those with the same paths."""
        ordered = sorted(batch, key=lambda prepared: prepared.document.path)
        paths = [prepared.document.path for prepared in ordered]
        next_key = "SELECT coalesce(max(id), 0) + 1 FROM chunks"
        (key,) = self.execute(next_key).fetchone()
        files = segment_files(ordered, key, self.boosts)
        folder = write_segment(self.directory / "segments", files)
        reached("put.written")
        with self._generation(pending=pending):
            self._mark_dead(database.remove_documents(self.connection, paths))
            segment = self._register(folder, files, len(ordered))
            for place, prepared in enumerate(ordered):
                database.add_document(self.connection, prepared, segment, place, key)
                key += len(prepared.document.chunks)
                reached("put.document")
            database.set_sums(self.connection, paths)
        self._merge(_MOST_SEGMENTS)

    @property
    def late_vectors(self) -> "Writer":
        """Documents can be committed without vectors, which follow later."""
        return self

    def pending_documents(self) -> list[PendingDocument]:
        """Find the documents without vectors, with the number of links that look for a name of theirs.

        Links are counted by name and not resolved: the number only decides what is embedded first.
        """
        rows = self.execute(
            "WITH wanted AS (SELECT name, count(*) AS links FROM links GROUP BY name)"
            " SELECT d.path, d.chunks, d.modified, coalesce(sum(wanted.links), 0)"
            " FROM documents d JOIN segments s ON s.id = d.segment"
            " LEFT JOIN names n ON n.document = d.id"
            " LEFT JOIN wanted ON wanted.name = n.name"
            " WHERE s.dimension = 0 AND d.chunks > 0 GROUP BY d.id"
        )
        return [PendingDocument(*row) for row in rows]

    def texts_of(self, paths: Paths) -> dict[str, list[Texts]]:
        """Return title, headings and text of each passage of documents, in order, by path."""
        found: dict[str, list[Texts]] = {}
        columns = "d.path, c.ordinal, d.title, c.header_path, c.content"
        tables = f"{columns} FROM chunks c JOIN documents d ON d.id = c.document"
        rows = database.select(self.connection, tables, "d.path", paths)
        for path, _, title, headings, text in sorted(rows):
            found.setdefault(path, []).append((title, headings, text))
        return found

    def embed(self, vectors_of: Mapping[str, Vectors]) -> None:
        """Give documents their vectors: their rows move, as they are, to a segment with vectors."""
        documents = sorted(self.documents_at(list(vectors_of)))
        held = {document.segment for document in documents}
        segments = []
        for record in database.segments(self.connection):
            if record.id in held:
                segments.append(Segment(self.directory, record))
        files = merged_files(segments, documents)
        together = np.concatenate([vectors_of[each.path] for each in documents])
        files["vectors"] = vectors.encode(together)
        folder = write_segment(self.directory / "segments", files)
        reached("embed.written")
        with self._generation():
            self._mark_dead(documents)
            self._move(folder, files, documents)
        self._merge(_MOST_SEGMENTS)

    def remove(self, paths: Paths) -> None:
        if paths:
            with self._generation():
                self._mark_dead(database.remove_documents(self.connection, paths))

    def touch(self, files: Sequence[Touched]) -> None:
        """Record new times of files whose content is as it was."""
        update = (
            "UPDATE documents SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, read_ns = ?,"
            " modified = ? WHERE path = ?"
        )
        moved = False
        with self._transaction():
            for path, state, modified in files:
                dated = "SELECT segment, modified FROM documents WHERE path = ?"
                segment, before = self.execute(dated, [path]).fetchone()
                self.execute(update, (*state[:5], modified, path))
                if modified != before:
                    # Filters see another date.
                    moved = True
                    revise = "UPDATE segments SET revision = revision + 1 WHERE id = ?"
                    self.execute(revise, [segment])
            database.set_sums(self.connection, [path for path, _, _ in files])
            if moved:
                self._count_generation()

    def finish(self, skipped: Sequence[Skipped], facts: IndexFacts) -> None:
        """End a run that has written every file; only vectors may be pending.

        A run that changed nothing writes nothing: a commit takes longer than the comparison.
        """
        self.tidy()
        if self._is_recorded(skipped, facts):
            return
        with self._transaction():
            self.execute("DELETE FROM skipped")
            rows = [(item.path, item.reason, item.detail) for item in skipped]
            insert = "INSERT INTO skipped VALUES (?, ?, ?)"
            self.connection.executemany(insert, rows)
            done = {**facts, "pending": 0, "built_at": time.time()}
            database.set_facts(self.connection, done)

    def _is_recorded(self, skipped: Sequence[Skipped], facts: IndexFacts) -> bool:
        """Return True if an earlier run recorded the same; the time when it began does not count."""
        known = self.facts
        if self._has_written or known["pending"] or not known["built_at"]:
            return False
        for name, value in facts.items():
            if name != "began" and known.get(name) != value:
                return False
        return set(self.skipped()) == set(skipped)

    def tidy(self) -> None:
        """Merge segments, so that a search reads few."""
        self._merge(_MOST_AFTER_RUN)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Use the transaction of the whole run, if there is one, or one for the block."""
        self._has_written = True
        if self.connection.in_transaction:
            yield
        else:
            with database.transaction(self.connection):
                yield

    @contextmanager
    def _generation(self, **facts: Any) -> Iterator[None]:
        """Make the block a generation of its own, and record facts with it."""
        with self._transaction():
            yield
            self._count_generation()
            database.set_facts(self.connection, facts)

    def _count_generation(self) -> None:
        database.set_facts(self.connection, {"generation": self.generation + 1})

    def _mark_dead(self, gone: Sequence[DocumentRecord]) -> None:
        places: dict[int, list[int]] = {}
        for document in gone:
            places.setdefault(document.segment, []).append(document.place)
        for record in database.segments(self.connection):
            if record.id in places:
                dead = dead_documents(record)
                dead[places[record.id]] = True
                database.set_dead(self.connection, record.id, pack_dead(dead))

    def _register(
        self,
        folder: str,
        files: Mapping[str, Arrays],
        documents: int,
    ) -> int:
        """Add a segment to the list; return its key."""
        rows, dimension = files["vectors"]["full"].shape
        none_dead = pack_dead(np.zeros(documents, np.bool_))
        made = self.execute(
            "INSERT INTO segments (folder, rows, documents, dead, dimension) VALUES (?, ?, ?, ?, ?)",
            (folder, rows, documents, none_dead, dimension),
        )
        return int(made.lastrowid or 0)

    def _move(
        self,
        folder: str,
        files: Mapping[str, Arrays],
        documents: Sequence[DocumentRecord],
    ) -> None:
        """Register a segment that holds the rows of documents, in this order."""
        segment = self._register(folder, files, len(documents))
        moved = [(segment, place, each.id) for place, each in enumerate(documents)]
        update = "UPDATE documents SET segment = ?, place = ? WHERE id = ?"
        self.connection.executemany(update, moved)

    def _merge(self, most: int) -> None:
        """Merge segments until there are few. Rows with and without vectors stay apart."""
        records = database.segments(self.connection)
        for dimension in {record.dimension for record in records}:
            alike = [record for record in records if record.dimension == dimension]
            costs = {}
            for record in alike:
                costs[record.id] = merging_cost(self.directory, record)
            chosen = segments_to_merge(alike, most, costs, self.memory)
            if chosen:
                self._merge_all(chosen)

    def _merge_all(self, chosen: Sequence[SegmentRecord]) -> None:
        keys = [record.id for record in chosen]
        documents = sorted(database.documents(self.connection, "d.segment", keys))
        segments = [Segment(self.directory, record) for record in chosen]
        files = merged_files(segments, documents)
        folder = ""
        if documents:
            folder = write_segment(self.directory / "segments", files)
        reached("merge.written")
        with self._generation():
            database.drop_segments(self.connection, keys)
            if documents:
                self._move(folder, files, documents)
        self._obsolete += [record.folder for record in chosen]
        reached("merge.committed")
        if not self.connection.in_transaction:
            self._remove_obsolete()

    def _remove_obsolete(self) -> None:
        """Remove merged segments. Readers that have them mapped keep them; others look again."""
        for folder in self._obsolete:
            shutil.rmtree(self.directory / "segments" / folder, ignore_errors=True)
            reached("obsolete.removed")
        self._obsolete.clear()


# A segment with a larger share of dead documents is merged for its space.
_TOO_DEAD = 0.5
# Bytes of memory for each byte on disk. Postings are sorted anew, in wider numbers; other arrays are copied.
_COSTS = {
    "words": 10.0,
    "code": 10.0,
    "vectors": 3.0,
    "rows": 5.0,
}


def segments_to_merge(
    records: Sequence[SegmentRecord],
    most: int,
    costs: Mapping[int, float],
    memory: float,
) -> list[SegmentRecord]:
    """Choose segments to merge into one: mostly dead ones, and all small ones if there are too many.

    A segment that is larger than all smaller ones together is left out, so a row is rewritten a number
    of times that grows with the logarithm of the index only. The sum of the costs is at most `memory`:
    a large index has more segments instead, which makes searches a little slower.
    """

    def fitting(records: Sequence[SegmentRecord]) -> list[SegmentRecord]:
        sums = np.cumsum([costs[record.id] for record in records])
        count = np.searchsorted(sums, memory, side="right")
        return list(records[: int(count)])

    mostly_dead = [each for each in records if _dead_share(each) > _TOO_DEAD]
    if len(records) <= most:
        return fitting(mostly_dead)
    chosen: list[SegmentRecord] = []
    total = 0
    by_size = sorted(records, key=lambda record: record.rows)
    for at, record in enumerate(by_size):
        if at > len(records) - most and record.rows > total:
            break
        chosen.append(record)
        total += record.rows
    chosen = fitting(chosen)
    if len(chosen) == 1 and chosen[0] not in mostly_dead:
        chosen = []  # alone, it would only be written again
    chosen += [record for record in mostly_dead if record not in chosen]
    return fitting(chosen)


def _dead_share(record: SegmentRecord) -> float:
    if not record.documents:
        return 0.0
    return float(dead_documents(record).mean())


def merging_cost(directory: Path, record: SegmentRecord) -> float:
    """Estimate the bytes of memory that a segment takes while it is merged."""
    total = 0.0
    for name, cost in _COSTS.items():
        total += cost * file_of(directory, record, name).stat().st_size
    return (1.0 - _dead_share(record)) * total


def merged_files(
    segments: Sequence[Segment], documents: Sequence[DocumentRecord]
) -> dict[str, Arrays]:
    """Make the arrays of one segment from documents of several, which are in the order of paths.

    Only what is copied is read: a few documents may be moved out of many segments.
    """
    for segment in segments:
        segment.check_sums()
    # The new place of the document of each row, segment by segment; -1 for rows that stay behind.
    new_places = {}
    for segment in segments:
        record = segment.record
        new_places[record.id] = np.full(record.documents, -1)
    for place, document in enumerate(documents):
        new_places[document.segment][document.place] = place
    parts = []
    for segment in segments:
        own = new_places[segment.record.id]
        parts.append(own[segment.rows["document"]])
    places = np.concatenate(parts)
    order = np.argsort(places, kind="stable")  # a document's rows keep their order
    order = order[places[order] >= 0]
    renumber = np.full(len(places), -1, np.int64)
    renumber[order] = np.arange(len(order))
    ends = np.cumsum([len(part) for part in parts])
    new_rows = np.split(renumber, ends[:-1])

    def joined(name: Literal["rows", "vectors"]) -> dict[str, Array]:
        owned = [getattr(segment, name) for segment in segments]
        files = {}
        for column, first in owned[0].items():
            shape = (len(order), *first.shape[1:])
            files[column] = np.empty(shape, first.dtype)
            for arrays, new in zip(owned, new_rows, strict=True):
                kept = np.flatnonzero(new >= 0)
                files[column][new[kept]] = arrays[column][kept]
        return files

    def merged(name: Literal["words", "code"]) -> Arrays:
        owned = [getattr(segment, name) for segment in segments]
        return words.merge(list(zip(owned, new_rows, strict=True)))

    rows = joined("rows")
    rows["document"] = places[order].astype(np.int32)
    return {
        "rows": rows,
        "words": merged("words"),
        "code": merged("code"),
        "vectors": joined("vectors"),
    }
