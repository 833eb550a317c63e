"""The embedded engine's index: its newest generation for any number of readers, and for one writer.

A snapshot is one unchanging generation with its rows, lanes, links and texts, for any number of threads.
"""

import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tamis.errors import (
    IndexDamaged,
    IndexFault,
    IndexForeign,
    IndexMismatch,
    IndexMissing,
    StorageFault,
    UsageError,
    storage_faults,
)
from tamis.index.embedded import database, vectors, words
from tamis.index.embedded.database import DocumentRecord, Records, texts_of
from tamis.index.embedded.segment import Segment, dead_documents
from tamis.index.embedded.words import Mask, Rows, Scores
from tamis.index.links import EdgesOf, LinkCache, LinkedSnapshot, edges_of
from tamis.index.protocol import (
    Allowed,
    Capabilities,
    Concept,
    Hit,
    IndexFacts,
    LaneAsk,
    Layout,
    Paths,
    Positions,
    Prepared,
    Vectors,
)
from tamis.model import Facts, IndexState, Lane, Parent, Passage, iso_time
from tamis.query.filters import EVERYTHING, Filter, allows

if TYPE_CHECKING:
    from tamis.index.embedded.writer import Writer

_CACHED_FILTERS = 32
_THREADS = 8  # for the lanes of several searches; they start when first needed
# A merge may remove segments this many times while they are opened; then it is damage.
_RACES = 20
_MOST_IDLE = 8  # connections kept for the next searches


class _Pool:
    """Threads for lanes. They do not survive a fork, so a child gets a pool of its own."""

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.threads = ThreadPoolExecutor(_THREADS, "lane")


_pool = _Pool()


@dataclass(frozen=True, slots=True)
class View:
    """The open segments of one generation, shared by all threads; only its caches change."""

    state: IndexState
    facts: IndexFacts
    segments: tuple[Segment, ...]
    # Facts of documents by segment folder and place, read when a filter first asks.
    documents: dict[str, dict[int, Facts]]
    allowed: dict[Filter, Allowed] = field(default_factory=dict)
    vocabulary: dict[str, Any] = field(default_factory=dict)  # of query expansion


@dataclass(frozen=True, slots=True)
class AllowedRows:
    """The allowed rows of each segment (None: all), with caches of what was computed for them."""

    masks: tuple[Mask | None, ...]
    links: LinkCache = field(default_factory=LinkCache)
    common: dict[tuple[int, int], Mask] = field(default_factory=dict)  # of expansion


class EmbeddedSnapshot(Records, LinkedSnapshot):
    """A view with the transaction that keeps the texts at the same generation."""

    def __init__(self, view: View, connection: database.Connection) -> None:
        super().__init__(connection)
        self.view = view
        self.state = view.state
        self.about = view.facts
        self.segments = len(view.segments)
        keys = [segment.record.id for segment in view.segments]
        self._number = {key: at for at, key in enumerate(keys)}

    # --- Documents and their facts ----------------------------------------------

    def facts(self) -> Iterator[Facts]:
        """Yield the facts of every living document."""
        for segment in self.view.segments:
            dead = dead_documents(segment.record)
            for place, facts in self._facts(segment).items():
                if not dead[place]:
                    yield facts

    def _facts(self, segment: Segment) -> dict[int, Facts]:
        """Return the facts of a segment's documents by place, cached with the view."""
        cache = self.view.documents
        folder = segment.record.folder
        if folder not in cache:
            names = Facts.__slots__
            rows = self.execute(
                f"SELECT place, {', '.join(names)} FROM documents WHERE segment = ?",
                [segment.record.id],
            )
            found = {}
            for place, *values in rows:
                stored = dict(zip(names, values, strict=True))
                tags = frozenset(texts_of(stored.pop("tags")))
                found[place] = Facts(**stored, tags=tags)
            cache[folder] = found
        return cache[folder]

    def documents(self, filter: Filter) -> list[str]:
        listed = self.facts()
        found = [facts.path for facts in listed if allows(filter, facts, "", None)]
        return sorted(found)

    def facts_of(self, allowed: Allowed) -> Iterator[Facts]:
        for segment, mask in self._masked(allowed):
            known = self._facts(segment)
            for place in np.unique(segment.places(mask)).tolist():
                yield known[place]

    def kinds(self, allowed: Allowed) -> tuple[Counter[str], Counter[str]]:
        types: Counter[str] = Counter()
        languages: Counter[str] = Counter()
        for segment, mask in self._masked(allowed):
            types.update(segment.documents_by("type", mask))
            languages.update(segment.documents_by("language", mask))
        return types, languages

    def aliases(self, paths: Paths) -> dict[str, tuple[str, ...]]:
        documents = self.documents_at(paths)
        return {document.path: document.aliases for document in documents}

    def warnings(self) -> dict[str, str]:
        query = "SELECT path, warning FROM documents WHERE warning != '' ORDER BY path"
        return dict(self.execute(query))

    def prepared(self) -> Iterator[Prepared]:
        states = self.file_states()
        for path in sorted(states):
            document = self.document(path)
            places = [(path, chunk.ordinal) for chunk in document.chunks]
            yield Prepared(document, states[path], self.vectors(places))

    # --- Allowed rows -----------------------------------------------------------

    def allow(self, filter: Filter) -> Allowed:
        cache = self.view.allowed
        known = cache.get(filter)
        if known is None:
            masks = []
            for segment in self.view.segments:
                mask = segment.living()
                if filter != EVERYTHING:
                    fitting = segment.mask(filter, self._facts(segment))
                    mask = fitting if mask is None else fitting & mask
                masks.append(mask)
            known = self._counted(masks)
            if len(cache) >= _CACHED_FILTERS:
                cache.clear()
            cache[filter] = known
        return known

    def within(self, paths: Paths, allowed: Allowed) -> Allowed:
        sizes = [segment.record.rows for segment in self.view.segments]
        masks = [np.zeros(size, np.bool_) for size in sizes]
        for document in self.documents_at(paths):
            at, rows = self._rows_of(document, allowed)
            masks[at][rows] = True
        return self._counted(masks)

    def _counted(self, masks: Sequence[Mask | None]) -> Allowed:
        """Count the passages and documents of allowed rows."""
        chunks = 0
        documents = 0
        embedded = 0
        for segment, mask in zip(self.view.segments, masks, strict=True):
            places = segment.places(mask)
            chunks += len(places)
            if segment.record.dimension:
                embedded += len(places)
            is_first = np.diff(places, prepend=-1)  # places ascend with rows
            documents += int(np.count_nonzero(is_first))
        known = 1.0
        if chunks:
            known = embedded / chunks
        return Allowed(AllowedRows(tuple(masks)), chunks, documents, known)

    def _masked(self, allowed: Allowed) -> Iterator[tuple[Segment, Mask | None]]:
        """Pair each segment with its allowed rows."""
        return zip(self.view.segments, allowed.rows.masks, strict=True)

    def keys(self, paths: Paths, allowed: Allowed) -> Mapping[str, Sequence[int]]:
        found = {}
        for document in self.documents_at(paths):
            at, rows = self._rows_of(document, allowed)
            if len(rows):
                keys = self.view.segments[at].rows["chunk"]
                found[document.path] = keys[rows].tolist()
        return found

    def _rows_of(self, document: DocumentRecord, allowed: Allowed) -> tuple[int, Rows]:
        """Return the number of a document's segment, and its allowed rows there."""
        at = self._number[document.segment]
        start, end = self.view.segments[at].rows_of(document.place)
        rows = np.arange(start, end)
        return at, words.masked(rows, allowed.rows.masks[at])

    # --- Lanes ------------------------------------------------------------------

    def lanes(
        self,
        asks: Sequence[LaneAsk],
        allowed: Allowed,
        depth: int,
    ) -> Mapping[Lane, Sequence[Hit]]:
        """Ask the last lane on this thread and the others beside it."""
        if not asks:
            return {}
        *others, last = asks
        pending = {}
        for ask in others:
            pending[ask.lane] = _pool.threads.submit(self._lane, ask, allowed, depth)
        hits = self._lane(last, allowed, depth)
        found = {lane: future.result() for lane, future in pending.items()}
        found[last.lane] = hits
        return found

    def _lane(
        self,
        ask: LaneAsk,
        allowed: Allowed,
        depth: int,
    ) -> list[Hit]:
        if ask.vector is None:
            return self._ranked(ask, allowed, depth)
        nearest = vectors.nearest
        if allowed.late:
            nearest = vectors.nearest_then_masked
        hits: list[Hit] = []
        for segment, mask in self._masked(allowed):
            if segment.record.dimension:
                rows, scores = nearest(segment.vectors, ask.vector, mask, depth)
                hits += _hits(segment, rows, scores)
        return hits

    def _ranked(
        self,
        ask: LaneAsk,
        allowed: Allowed,
        depth: int,
    ) -> list[Hit]:
        """Count terms over the allowed rows of all segments, then score those of each."""
        stored = [words.stored(term) for term in ask.terms]
        counts = [0] * len(stored)
        found = []
        for segment, mask in self._masked(allowed):
            arrays = getattr(segment, ask.lane)
            postings = [words.postings(arrays, term, mask) for term in stored]
            for at, (rows, _) in enumerate(postings):
                counts[at] += len(rows)
            if allowed.late:
                postings = [words.postings(arrays, term, None) for term in stored]
            found.append(postings)
        factors = []
        for term, count in zip(ask.terms, counts, strict=True):
            rarity = words.rarity(allowed.chunks, count)
            factors.append(rarity * ask.weights.get(term, 1.0))
        hits: list[Hit] = []
        for at, (segment, mask) in enumerate(self._masked(allowed)):
            late_mask = mask if allowed.late else None
            size = segment.record.rows
            rows, scores = words.rank(size, found[at], factors, depth, late_mask)
            hits += _hits(segment, rows, scores)
        return hits

    def concepts(
        self,
        query: Vectors,
        allowed: Allowed,
        depth: int,
        floor: int,
        most: int,
    ) -> Sequence[Concept] | None:
        # Off by default.
        from tamis.index.embedded.concepts import nearest_terms

        return nearest_terms(self.view, query, allowed.rows, depth, floor, most)

    # --- Links ------------------------------------------------------------------

    def touching(self, paths: Paths, allowed: Allowed) -> EdgesOf:
        def is_allowed(document: DocumentRecord, ordinal: int | None) -> bool:
            """Return True if a passage of a document, or any (ordinal None), is allowed."""
            at = self._number[document.segment]
            start, end = self.view.segments[at].rows_of(document.place)
            if ordinal is not None:
                start += ordinal
                end = min(end, start + 1)
            mask = allowed.rows.masks[at]
            if mask is None:
                return bool(start < end)
            return bool(mask[start:end].any())

        return edges_of(self, paths, is_allowed, allowed.rows.links)

    # --- Passages ---------------------------------------------------------------

    def vectors(self, positions: Positions) -> Vectors:
        segments = self.view.segments
        widths = [segment.record.dimension for segment in segments]
        width = max(widths, default=0)
        found = np.zeros((len(positions), width), np.float32)
        for number, (at, row) in enumerate(self._places(positions)):
            if segments[at].record.dimension:
                found[number] = segments[at].vectors["full"][row]
        return found

    def coverage(
        self,
        terms: Sequence[str],
        positions: Positions,
        allowed: Allowed,
    ) -> Sequence[float]:
        places = self._places(positions)
        counts = [0] * len(terms)
        has = np.zeros((len(terms), len(places)), np.bool_)
        stored = [words.stored(term) for term in terms]
        for at, (segment, mask) in enumerate(self._masked(allowed)):
            own = [number for number, place in enumerate(places) if place[0] == at]
            rows = [places[number][1] for number in own]
            for number, term in enumerate(stored):
                with_term, _ = words.postings(segment.words, term, mask)
                counts[number] += len(with_term)
                if len(with_term):
                    # Whether each row is among the ascending ones.
                    near = np.searchsorted(with_term, rows)
                    near = np.minimum(near, len(with_term) - 1)
                    has[number, own] = with_term[near] == rows
        rarities = [words.rarity(allowed.chunks, count) for count in counts]
        return words.coverage(has, rarities)

    def _places(self, positions: Positions) -> list[tuple[int, int]]:
        """Return the number of the segment and the row of each passage."""
        paths = sorted({path for path, _ in positions})
        first = {}
        for document in self.documents_at(paths):
            at = self._number[document.segment]
            start, _ = self.view.segments[at].rows_of(document.place)
            first[document.path] = (at, start)
        places = []
        for path, ordinal in positions:
            at, row = first[path]
            places.append((at, row + ordinal))
        return places

    def passages(self, keys: Sequence[int]) -> Mapping[int, Passage]:
        columns = (
            "c.id, d.path, c.ordinal, c.content, c.text_hash, c.header_path, c.start_line, c.end_line,"
            " c.type, c.language, d.modified, d.tags, c.names, c.parent, d.title"
        )
        tables = f"{columns} FROM chunks c JOIN documents d ON d.id = c.document"
        found = {}
        for row in database.select(self.connection, tables, "c.id", keys):
            key, *shown, tags, names, parent, title = row
            rest = [texts_of(tags), texts_of(names), parent, title]
            found[key] = Passage(*shown, *rest)
        if len(found) < len(set(keys)):
            directory = self.view.segments[0].directory
            raise IndexDamaged(directory, "passages without a text")
        return found

    def parents(self, wanted: Positions) -> Mapping[tuple[str, int], Parent]:
        query = (
            "SELECT p.content, p.header_path, p.start_line, p.end_line FROM parents p"
            " JOIN documents d ON d.id = p.document WHERE d.path = ? AND p.number = ?"
        )
        found = {}
        for place in wanted:
            for row in self.execute(query, place):
                found[place] = Parent(*row)
        return found


def _hits(
    segment: Segment,
    rows: Rows,
    scores: Scores,
) -> list[Hit]:
    keys = segment.rows["chunk"][rows].tolist()
    return list(map(Hit, keys, scores.tolist()))


# --- The index ---------------------------------------------------------------


# The file that index.db is, by device and number; for one that is read without locks, also its time
# and size. None: there is none.
_Edition = tuple[int, ...] | None


def _edition(file: Path) -> _Edition:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    number = (status.st_dev, status.st_ino)
    if database.is_frozen(file.parent):
        return (*number, status.st_mtime_ns, status.st_size)
    return number


class Reader:
    """An index opened for reading. Notices new generations by itself; for any number of threads."""

    capabilities: Final = Capabilities(
        updated_by_search=True, any_root_may_search=False, examinable=True
    )
    format: Final = database.SCHEMA_VERSION

    def __init__(self, directory: Path) -> None:
        self.directory = self.place = directory
        self._file = directory / "index.db"
        self._lock = threading.Lock()
        self._view: View | None = None
        self._idle: list[tuple[database.Connection, _Edition]] = []
        self._closed = False

    @contextmanager
    def snapshot(self) -> Iterator[EmbeddedSnapshot]:
        """Open the newest generation, which does not change until the block ends."""
        connection, edition = self._take()
        try:
            with database.database_faults(self.directory):
                view = self._begin(connection)
                try:
                    yield EmbeddedSnapshot(view, connection)
                except (LookupError, ValueError, ArithmeticError, MemoryError):
                    # Perhaps the bytes that were read are not as they were written.
                    for segment in view.segments:
                        with suppress(FileNotFoundError):  # merged away meanwhile
                            segment.check_sums()
                    raise
                finally:
                    connection.execute("COMMIT")
            is_unlocked = edition is not None and len(edition) > 2
            if is_unlocked and _edition(self._file) not in (None, edition):
                what = f"the index in {self.directory} was written while it was read, and may only be read here"
                raise StorageFault(what, hint="ask again")
        finally:
            with self._lock:
                is_kept = not self._closed and len(self._idle) < _MOST_IDLE
                if is_kept:
                    self._idle.append((connection, edition))
            if not is_kept:
                connection.close()

    def exists(self) -> bool:
        return database.exists(self.directory)

    def is_usable(self) -> bool:
        if not self.exists():
            return True
        try:
            with self.snapshot():
                return True
        except IndexForeign:
            raise
        except IndexFault:
            return False

    def missing(self, root: Path) -> IndexMissing:
        return IndexMissing(root)

    def owner_of(self, root: Path) -> str:
        return str(root)

    def check_owner(self, root: Path, facts: IndexFacts) -> None:
        """Refuse the index of another root. An index inside its root moves with it and belongs there."""
        is_inside = self.directory.parent == root
        if not is_inside and facts.get("root", str(root)) != str(root):
            raise IndexMismatch(
                f"the index in {self.directory} belongs to {facts['root']}",
                hint=f"give each root an index folder of its own, or run: tamis rebuild-index {root}",
            )

    def stored_facts(self) -> IndexFacts:
        return database.facts_of(self.directory)

    def sizes(self) -> dict[str, int]:
        """Count bytes on disk, by part. Files that a writer deletes meanwhile do not count."""
        found = {"database": 0, "segments": 0, "concepts": 0, "other": 0}
        for place, _, names in os.walk(self.directory):
            inside = os.path.relpath(place, self.directory)
            for name in names:
                part = inside.split(os.sep)[0]
                if inside == os.curdir and name.startswith("index.db"):
                    part = "database"
                if part not in found:
                    part = "other"
                with suppress(FileNotFoundError):
                    found[part] += os.stat(os.path.join(place, name)).st_size
        return found

    def create(self, layout: Layout) -> None:  # noqa: ARG002
        raise UsageError(
            "shards, copies, quantization and on-disk are for an index on a server",
            hint="give --engine URL as well, or leave them out",
        )

    @contextmanager
    def open_for_writing(
        self,
        timeout: float,
        waiting: Callable[[str], None],
        boosts: Mapping[str, float],
        memory: float = math.inf,
        *,
        discard: bool = False,
    ) -> Iterator["Writer"]:
        """Lock the index, create it if there is none, and clear up after a writer that died.

        `discard` removes the old index unread: it may be damaged.
        """
        # A search does not need these.
        from tamis.index.embedded import folder
        from tamis.index.embedded.writer import Writer

        directory = self.directory
        folder.make_folder(directory)
        with (
            folder.writer_lock(directory, timeout, waiting),
            database.database_faults(directory),
            storage_faults(directory),
        ):
            if discard:
                folder.throw_away(directory)
            with closing(database.open_writer(directory)) as connection:
                records = database.segments(connection)
                folder.clear_up(directory, records)
                try:
                    # Adding to an index that cannot be searched would only hide that.
                    for record in records:
                        Segment(directory, record)
                except FileNotFoundError as error:
                    what = f"{error.filename} is missing"
                    raise IndexDamaged(directory, what) from error
                yield Writer(directory, connection, boosts, memory)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle = self._idle
            self._idle = []
        for connection, _ in idle:
            connection.close()

    def _take(self) -> tuple[database.Connection, _Edition]:
        """Take an idle connection, or open one if there is none or index.db was replaced.

        While the old file is open its number cannot be given to another, so the comparison is safe.
        """
        edition = _edition(self._file)
        with self._lock:
            if self._closed:
                raise UsageError("the corpus is closed", hint="open it again")
            idle = self._idle.pop() if self._idle else None
        if idle is not None:
            if edition in (None, idle[1]):
                return idle
            idle[0].close()
        return database.open_reader(self.directory), edition

    def _begin(self, connection: database.Connection) -> View:
        """Start a reading transaction and open its generation's segments.

        A writer may merge segments away between the transaction and the opening of their files; then
        there is a newer generation, so try again.
        """
        for _ in range(_RACES):
            connection.execute("BEGIN")
            try:
                facts = database.facts(connection)
                view = self._view
                if view is None or view.facts != facts:
                    with self._lock:
                        view = self._view = self._load(connection, facts)
                return view
            except FileNotFoundError as error:
                lost = error
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("ROLLBACK")
        if not self.exists():  # the whole folder was moved while its database is open
            raise database.missing(self.directory) from lost
        raise IndexDamaged(self.directory, f"{lost.filename} is missing") from lost

    def _load(self, connection: database.Connection, facts: IndexFacts) -> View:
        """Open a generation, with the segments and facts that an earlier one has open already.

        Only an earlier one: a thread with an older transaction may come here after one with a newer,
        and a later generation does not know the documents that it removed. Segments are compared by
        folder, whose names are never used again, as their keys are.
        """
        documents, chunks = connection.execute(
            "SELECT count(*), total(chunks) FROM documents WHERE chunks > 0"
        ).fetchone()
        state = IndexState(
            facts["generation"],
            documents,
            int(chunks),
            facts["pending"],
            iso_time(facts["built_at"]),
            database.pending_chunks(connection, facts),
        )
        earlier = self._view
        if earlier is None or earlier.state.generation > state.generation:
            earlier = View(state, facts, (), {})
        before = {segment.record.folder: segment for segment in earlier.segments}
        segments = []
        known: dict[str, dict[int, Facts]] = {}
        for record in database.segments(connection):
            folder = record.folder
            segment = before.get(folder)
            if segment is None or segment.record.revision != record.revision:
                segment = Segment(self.directory, record)
            else:
                if segment.record != record:
                    segment = segment.with_record(record)
                if folder in earlier.documents:
                    known[folder] = earlier.documents[folder]
            segments.append(segment)
        return View(state, facts, tuple(segments), known)
