"""Writing: points of a generation that nobody sees yet, then one small change that makes it current.

A chunk and a document say in which generation they were `born`, and, once they are replaced or removed, in
which they are `gone`. A reader of generation G sees what was born by then and is not gone by then. A run
marks and writes everything for G + 1, and then changes the record of the root, one point, from G to G + 1:
that is the commit. Until then readers see G, whole; a run that dies leaves what no reader sees, and the next
one takes it back. What is gone is deleted when no search can still be looking at it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from tamis.index.protocol import Prepared
from tamis.index.qdrant.lease import FREE, Lease, Sightings
from tamis.index.qdrant.points import (
    CODE,
    MEANING,
    TENANT,
    WORDS,
    Native,
    Payload,
    Point,
    Points,
    Row,
    any_of,
    point_id,
    visible,
)
from tamis.index.qdrant.records import points_of, read_state, stamps_of, stored_state
from tamis.model import Address, FileState, Skipped, Stamps
from tamis.query.filters import Archived

LINGER: Final = 60.0  # seconds that what is gone stays, for searches that began before
_OF_MODEL: Final = ("model", "fingerprint", "dimension", "root", "archive")
_ALL_VECTORS: Final = (MEANING, WORDS, CODE)


def record_id(root: str) -> str:
    return point_id(root, "record")


def skipped_id(root: str) -> str:
    return point_id(root, "skipped")


class QdrantWriter:
    """The one writer of a root. Each `put` and `remove` is a generation, unless the whole run is one."""

    def __init__(
        self,
        points: Points,
        address: Address,
        lease: Lease,
        boosts: Mapping[str, float],
        archive: Sequence[str],
    ) -> None:
        self._points, self._address, self._lease, self._boosts = (
            points,
            address,
            lease,
            boosts,
        )
        record = lease.record()
        self._generation: int = record["generation"]
        self._facts: dict[str, Any] = dict(record["facts"])
        self._archive = tuple(archive)
        self._is_held = False  # everything shows at the end
        self._is_changed = False  # what is written waits for its commit

    late_vectors: Final = None  # documents are written with their vectors

    @property
    def facts(self) -> dict[str, Any]:
        return dict(self._facts)

    @property
    def generation(self) -> int:
        return self._generation

    def file_states(self) -> dict[str, FileState]:
        rows = self._documents(("filePath", "state"))
        return {
            row.payload["filePath"]: read_state(row.payload["state"]) for row in rows
        }

    def stamps(self, recipe: str) -> dict[str, Stamps]:
        return stamps_of(self.file_states(), recipe)

    def dates(self) -> dict[str, float]:
        rows = self._documents(("filePath", "modified"))
        return {row.payload["filePath"]: row.payload["modified"] for row in rows}

    def describe(self, values: Mapping[str, Any]) -> None:
        """Record facts about the index that are no generation of their own.

        A model that is named for the first time decides what the collection can hold.
        """
        if "dimension" in values:
            self._points.prepare(int(values["dimension"]))
            values = {"archive": list(self._archive)} | dict(values)
        self._facts |= values
        if not self._is_held:
            self._lease.change({"facts": self._facts})

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        self._is_held = True
        yield
        self._is_held = False
        self._commit()

    def clear(self) -> None:
        self._bury([])
        self._facts = {
            name: value for name, value in self._facts.items() if name not in _OF_MODEL
        }

    def put(self, batch: Sequence[Prepared], pending: int) -> None:
        """Add documents, in place of those with the same paths."""
        self._bury([prepared.document.path for prepared in batch], some=True)
        archive = Archived(tuple(self._facts.get("archive", ())))
        born = self._generation + 1
        self._points.put(
            list(points_of(self._address.root, born, batch, self._boosts, archive))
        )
        self._facts["pending"] = pending
        self._commit_unless_held()

    def remove(self, paths: Sequence[str]) -> None:
        if paths:
            self._bury(paths, some=True)
            self._commit_unless_held()

    def touch(self, files: Sequence[tuple[str, FileState, float]]) -> None:
        """Record new times of files whose content is as it was. One whose date moved is written anew."""
        if not files:
            return
        new = {path: (state, modified) for path, state, modified in files}
        rows = list(self._points.find(self._at(list(new), "document")))
        moved = [
            row
            for row in rows
            if row.payload["modified"] != new[row.payload["filePath"]][1]
        ]
        ids = {row.id for row in moved}
        still = [row for row in rows if row.id not in ids]
        self._points.put(
            [_with_state(row, new[row.payload["filePath"]][0]) for row in still]
        )
        if moved:
            self._redate(moved, new)

    def _redate(
        self, moved: Sequence[Row], new: Mapping[str, tuple[FileState, float]]
    ) -> None:
        paths = [row.payload["filePath"] for row in moved]
        chunks = list(self._points.find(self._at(paths, "chunk"), (), _ALL_VECTORS))
        self._bury(paths, some=True)
        documents = [_with_state(row, new[row.payload["filePath"]][0]) for row in moved]
        copies = [*map(_as_point, chunks), *documents]
        born = self._generation + 1
        self._points.put(
            [
                self._copied(each, born, new[each.payload["filePath"]][1])
                for each in copies
            ]
        )
        self._commit_unless_held()

    def _copied(self, point: Point, born: int, modified: float) -> Point:
        payload = point.payload | {"born": born, "modified": modified}
        payload = {
            name: value
            for name, value in payload.items()
            if name not in ("gone", "goneAt")
        }
        part = payload.get("chunkId", "document")
        return replace(
            point,
            id=point_id(self._address.root, payload["filePath"], part, born),
            payload=payload,
        )

    def finish(self, skipped: Sequence[Skipped], facts: Mapping[str, Any]) -> None:
        """Every file is in: nothing is pending."""
        kept = [[item.path, item.reason, item.detail] for item in skipped]
        payload = {"kind": "skipped", TENANT: self._address.root, "skipped": kept}
        self._points.put([Point(skipped_id(self._address.root), payload)])
        self.describe({**facts, "pending": 0, "built_at": time.time()})
        self._sweep()

    def take_back(self) -> None:
        """Undo what a run that died had written for a generation that never came."""
        later = {"key": "born", "range": {"gt": self._generation}}
        gone = {"key": "gone", "range": {"gt": self._generation}}
        self._points.delete({"must": [self._ours(), later]})
        self._points.clear({"must": [self._ours(), gone]}, ["gone", "goneAt"])
        self._sweep()

    def discard(self) -> None:
        """Throw everything away, unread."""
        kinds = any_of("kind", ["chunk", "document", "skipped"])
        self._points.delete({"must": [self._ours(), kinds]})
        self._facts = {}
        self._commit()

    def _sweep(self) -> None:
        by_now = {"key": "gone", "range": {"lte": self._generation}}
        long_ago = {"key": "goneAt", "range": {"lt": time.time() - LINGER}}
        self._points.delete({"must": [self._ours(), by_now, long_ago]})

    def _bury(self, paths: Sequence[str], *, some: bool = False) -> None:
        """Mark documents as gone with the next generation: some, or all there are."""
        self._is_changed = True
        gone = {"gone": self._generation + 1, "goneAt": time.time()}
        for kind in ("chunk", "document"):
            conditions = visible(self._address.root, self._generation, kind)
            which = [any_of("filePath", paths)] if some else []
            self._points.change({"must": [*conditions, *which]}, gone)

    def _commit_unless_held(self) -> None:
        if not self._is_held:
            self._commit()

    def _commit(self) -> None:
        """The one change that makes a generation current."""
        new = self._generation + 1
        chunks = self._points.count({"must": visible(self._address.root, new, "chunk")})
        has_text = {"key": "chunks", "range": {"gt": 0}}
        documents = self._points.count(
            {"must": [*visible(self._address.root, new, "document"), has_text]}
        )
        counts = {"documents": documents, "chunkCount": chunks}
        self._lease.change({"generation": new, "facts": self._facts} | counts)
        self._generation, self._is_changed = new, False

    def _documents(self, fields: Sequence[str]) -> Iterator[Row]:
        """Those that this run would replace: in a run that shows at the end, none once it has cleared."""
        now = self._generation + (1 if self._is_held and self._is_changed else 0)
        return self._points.find(
            {"must": visible(self._address.root, now, "document")}, fields
        )

    def _at(self, paths: Sequence[str], kind: str) -> Native:
        conditions = visible(self._address.root, self._generation, kind)
        return {"must": [*conditions, any_of("filePath", paths)]}

    def _ours(self) -> Native:
        return {"key": TENANT, "match": {"value": self._address.root}}


def _with_state(row: Row, state: FileState) -> Point:
    return Point(row.id, row.payload | {"state": stored_state(state)})


def _as_point(row: Row) -> Point:
    return Point(row.id, row.payload, row.meaning, row.words, row.code)


@contextmanager
def open_writer(
    points: Points,
    address: Address,
    archive: Sequence[str],
    timeout: float,
    waiting: Callable[[str], None],
    boosts: Mapping[str, float],
    *,
    discard: bool,
    sightings: Sightings,
) -> Iterator[QdrantWriter]:
    """Become the writer of a root, and clear up after one that died."""
    lease = Lease(points, record_id(address.root), address, sightings)
    lease.take(timeout, waiting)
    try:
        with lease.beating():
            writer = QdrantWriter(points, address, lease, boosts, archive)
            writer.take_back()
            if discard:
                writer.discard()
            yield writer
    finally:
        lease.release()


def new_record(root: str) -> Point:
    """The record of a root that nobody has written yet."""
    payload: Payload = {
        "kind": "root",
        TENANT: root,
        "generation": 0,
        "facts": {},
        "documents": 0,
    }
    return Point(record_id(root), payload | {"chunkCount": 0} | FREE)
