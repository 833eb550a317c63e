"""The embedded engine's index: its newest generation for any number of readers, and for one writer."""

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tamis.errors import (
    IndexDamaged,
    IndexFault,
    IndexForeign,
    IndexMismatch,
    IndexMissing,
    StorageFault,
    UsageError,
)
from tamis.index.embedded import database
from tamis.index.embedded.segment import Segment
from tamis.index.embedded.snapshot import EmbeddedSnapshot, View
from tamis.index.protocol import Capabilities, IndexFacts, Layout
from tamis.model import Facts, IndexState, iso_time

if TYPE_CHECKING:
    from tamis.index.embedded.writer import Writer

# A merge may remove segments this many times while they are opened; then it is damage.
_RACES: Final = 20
_MOST_IDLE: Final = 8  # connections kept for the next searches


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
            self._check_unchanged(edition)
        finally:
            self._give_back(connection, edition)

    def _check_unchanged(self, edition: _Edition) -> None:
        """Refuse an answer from an index that was written while it was read without locks."""
        is_unlocked = edition is not None and len(edition) > 2
        if is_unlocked and _edition(self._file) not in (None, edition):
            what = f"the index in {self.directory} was written while it was read, and may only be read here"
            raise StorageFault(what, hint="ask again")

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

    def open_for_writing(
        self,
        timeout: float,
        waiting: Callable[[str], None],
        boosts: Mapping[str, float],
        memory: float = math.inf,
        *,
        discard: bool = False,
    ) -> "AbstractContextManager[Writer]":
        from tamis.index.embedded.writer import open_for_writing

        return open_for_writing(
            self.directory, timeout, waiting, boosts, memory, discard=discard
        )

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
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

    def _give_back(self, connection: database.Connection, edition: _Edition) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _MOST_IDLE:
                self._idle.append((connection, edition))
                return
        connection.close()

    def _begin(self, connection: database.Connection) -> View:
        """Start a reading transaction and open its generation's segments.

        A writer may merge segments away between the transaction and the opening of their files; then
        there is a newer generation, so try again.
        """
        for _ in range(_RACES):
            connection.execute("BEGIN")
            try:
                return self._current(connection)
            except FileNotFoundError as error:
                lost = error
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("ROLLBACK")
        if not self.exists():  # the whole folder was moved while its database is open
            raise database.missing(self.directory) from lost
        raise IndexDamaged(self.directory, f"{lost.filename} is missing") from lost

    def _current(self, connection: database.Connection) -> View:
        facts = database.facts(connection)
        view = self._view
        if view is not None and view.facts == facts:
            return view
        with self._lock:
            self._view = self._load(connection, facts)
            return self._view

    def _load(self, connection: database.Connection, facts: IndexFacts) -> View:
        """Open a generation, with the segments and facts that an earlier one has open already.

        Only an earlier one: a thread with an older transaction may come here after one with a newer,
        and a later generation does not know the documents that it removed. Segments are compared by
        folder, whose names are never used again, as their keys are.
        """
        (documents, chunks) = connection.execute(
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
