"""Reading: the newest generation, for any number of threads and processes."""

import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

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
from tamis.index.embedded.database import SegmentRecord
from tamis.index.embedded.segment import Segment
from tamis.index.embedded.snapshot import EmbeddedSnapshot, View
from tamis.index.embedded.writer import Writer, open_for_writing
from tamis.index.protocol import Capabilities, Layout
from tamis.model import IndexState, iso_time

_RACES: Final = 20  # how often a merge may pull segments away while we open them before we call it damage
_MOST_IDLE: Final = 8  # connections kept for the next searches


@dataclass(frozen=True, slots=True)
class _Edition:
    """Which file index.db is. One that is read without locks is another when it was written."""

    number: tuple[int, int]
    unlocked: tuple[int, int] | None = None


def _edition(file: Path) -> _Edition | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    number = (status.st_dev, status.st_ino)
    is_locked = not database.is_frozen(file.parent)
    return (
        _Edition(number)
        if is_locked
        else _Edition(number, (status.st_mtime_ns, status.st_size))
    )


@contextmanager
def _damage_told(view: View) -> Iterator[None]:
    """Where working with what was read fails, look whether it is what was written: if not, that is why."""
    try:
        yield
    except (LookupError, ValueError, ArithmeticError, MemoryError):
        for segment in view.segments:
            with suppress(FileNotFoundError):  # merged away meanwhile
                segment.check_sums()
        raise


def check_owner(root: Path, directory: Path, facts: Mapping[str, Any]) -> None:
    """Refuse the index of another root. One inside its root moves with it and belongs there."""
    if directory.parent != root and facts.get("root", str(root)) != str(root):
        raise IndexMismatch(
            f"the index in {directory} belongs to {facts['root']}",
            hint=f"give each root an index folder of its own, or run: tamis rebuild-index {root}",
        )


class Reader:
    """An index opened for reading. Notices new generations by itself; for any number of threads."""

    capabilities: Final = Capabilities(
        updated_by_search=True, any_root_may_search=False, examinable=True
    )
    format: Final = database.SCHEMA_VERSION

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.Lock()
        self._view: View | None = None
        self._idle: list[tuple[database.Connection, _Edition | None]] = []
        self._closed = False

    @contextmanager
    def snapshot(self) -> Iterator[EmbeddedSnapshot]:
        """The newest generation, held still until the block ends."""
        connection, file = self._take()
        try:
            with database.database_faults(self.directory):
                view = self._begin(connection)
                try:
                    with _damage_told(view):
                        yield EmbeddedSnapshot(view, connection)
                finally:
                    connection.execute("COMMIT")
            self._check_still(file)
        finally:
            self._give_back(connection, file)

    def _check_still(self, file: _Edition | None) -> None:
        """What is read without locks must not have been written meanwhile."""
        now = _edition(self.directory / "index.db")
        if now and file and file.unlocked and now != file:
            what = f"the index in {self.directory} was written while it was read, and may only be read here"
            raise StorageFault(what, hint="ask again")

    @property
    def place(self) -> Path:
        return self.directory

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

    def check_owner(self, root: Path, facts: Mapping[str, Any]) -> None:
        check_owner(root, self.directory, facts)

    def stored_facts(self) -> Mapping[str, Any]:
        return database.facts_of(self.directory)

    def sizes(self) -> dict[str, int]:
        """Bytes on disk, by part. Files that a writer deletes meanwhile do not count."""
        found = {"database": 0, "segments": 0, "concepts": 0, "other": 0}
        for place, _, names in os.walk(self.directory):
            top = Path(place).relative_to(self.directory).parts[:1]
            for name in names:
                part = "other"
                if top in (("segments",), ("concepts",)):
                    part = top[0]
                elif not top and name.startswith("index.db"):
                    part = "database"
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
    ) -> AbstractContextManager[Writer]:
        return open_for_writing(
            self.directory, timeout, waiting, boosts, memory, discard=discard
        )

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def _take(self) -> tuple[database.Connection, _Edition | None]:
        """A connection for one snapshot; a new one when none is idle or index.db itself was replaced.

        While the old file is open its number cannot be given to another, so the comparison is safe.
        """
        file = _edition(self.directory / "index.db")
        with self._lock:
            if self._closed:
                raise UsageError("the corpus is closed", hint="open it again")
            known = self._idle.pop() if self._idle else None
        if known is not None and file in (None, known[1]):
            return known
        if known is not None:
            known[0].close()
        return database.open_reader(self.directory), file

    def _give_back(
        self, connection: database.Connection, file: _Edition | None
    ) -> None:
        with self._lock:
            keep = not self._closed and len(self._idle) < _MOST_IDLE
            if keep:
                self._idle.append((connection, file))
        if not keep:
            connection.close()

    def _begin(self, connection: database.Connection) -> View:
        """Start a reading transaction and open its generation's segments.

        A writer may merge segments away between our look at the list and our opening of the
        files; then there is a newer generation, and we look again.
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
        if (
            not self.exists()
        ):  # the whole folder was moved away while its database is open
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

    def _load(self, connection: database.Connection, facts: Mapping[str, Any]) -> View:
        """Open a generation with what an earlier one has open already.

        Only an earlier one: a thread that began before another may come here after it, and what
        was read of a later generation knows nothing of documents that are gone by then. Segments
        are known by their folders, whose names are never used again (their keys are).
        """
        documents, chunks = database.count(connection)
        state = IndexState(
            facts["generation"],
            documents,
            chunks,
            facts["pending"],
            iso_time(facts["built_at"]),
            database.pending_chunks(connection, facts),
        )
        view = self._view
        earlier = view if view and view.state.generation <= state.generation else None
        before = (
            {segment.record.folder: segment for segment in earlier.segments}
            if earlier
            else {}
        )
        records = database.segments(connection)
        segments = tuple(
            self._open(record, before.get(record.folder)) for record in records
        )
        kept = {
            record.folder: earlier.documents[record.folder]
            for record in records
            if earlier
            and record.folder in earlier.documents
            and before[record.folder].record.revision == record.revision
        }
        return View(state, facts, segments, kept, {})

    def _open(self, record: SegmentRecord, known: Segment | None) -> Segment:
        if known is not None and known.record.revision == record.revision:
            return known if known.record == record else known.with_record(record)
        return Segment(self.directory, record)
