"""The index of a root on a server: snapshots of its newest generation, and the way to write it."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from tamis.engine.qdrant.lease import Sightings
from tamis.engine.qdrant.points import Payload, Points
from tamis.engine.qdrant.snapshot import QdrantSnapshot, View
from tamis.engine.qdrant.writer import QdrantWriter, new_record, open_writer, record_id
from tamis.errors import IndexMissing
from tamis.model import Address


class QdrantIndex:
    """Notices new generations by itself; for any number of threads."""

    def __init__(
        self,
        points: Points,
        address: Address,
        *,
        exact: bool,
        archive: Sequence[str],
        dimension: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`archive` are the patterns that a new index marks documents by; `dimension` is the model's, asked
        for when there is no collection yet."""
        self.address, self._points = address, points
        self._exact, self._archive, self._dimension = exact, archive, dimension
        self.sightings = Sightings(clock)
        self._lock = threading.Lock()
        self._view: View | None = None

    @property
    def place(self) -> Address:
        return self.address

    def exists(self) -> bool:
        record = self._record()
        return record is not None and bool(record["generation"] or record["facts"].get("built_at"))

    @contextmanager
    def snapshot(self) -> Iterator[QdrantSnapshot]:
        record = self._record()
        if record is None or not (record["generation"] or record["facts"].get("built_at")):
            raise IndexMissing(self.address)
        with self._lock:
            if self._view is None or self._view.record != record:
                self._view = _renewed(self._view, record)
            view = self._view
        yield QdrantSnapshot(self._points, self.address, view, exact=self._exact)

    def open_for_writing(
        self,
        timeout: float,
        waiting: Callable[[str], None],
        boosts: Mapping[str, float],
        memory: float = math.inf,  # noqa: ARG002
        *,
        discard: bool = False,
    ) -> AbstractContextManager[QdrantWriter]:
        """Nothing is merged here, so `memory` is not needed."""
        if self._points.dimension() is None:
            self._points.prepare(self._dimension())
        if self._record() is None:
            self._points.put([new_record(self.address.root)], only_new=True)
        opened = (self._points, self.address, self._archive, timeout, waiting, boosts)
        return open_writer(*opened, discard=discard, sightings=self.sightings)

    def close(self) -> None:
        self._points.close()

    def _record(self) -> Payload | None:
        rows = self._points.get([record_id(self.address.root)])
        return rows[0].payload if rows else None


def _renewed(view: View | None, record: Payload) -> View:
    """A generation keeps what was worked out about it, while facts beside it change."""
    if view is None or view.generation != record["generation"]:
        return View(record)
    return View(record, view.allowed, view.listed)
