"""Writing: points of a generation that nobody sees yet, then one small change that makes it current.

A chunk and a document say in which generation they were `born`, and, once they are replaced or
removed, in which they are `gone`. A reader of generation G sees what was born by then and is not
gone by then. A run marks and writes everything for G + 1, and then changes the record of the root,
one point, from G to G + 1: that is the commit. A run that dies before it leaves points that no
reader sees; the next run takes them back. What is gone is deleted when no search can still need it.
"""

import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from tamis.errors import IndexLocked, TamisError
from tamis.index.protocol import IndexFacts, Paths, Prepared, Touched
from tamis.index.qdrant.points import (
    CODE,
    MEANING,
    TENANT,
    WORDS,
    Native,
    Payload,
    Point,
    Points,
    any_of,
    bounded,
    equals,
    every,
    point_id,
    points_of,
    read_state,
    stamps_of,
    stored_state,
    visible,
)
from tamis.model import Address, FileState, Skipped, Stamps
from tamis.query.filters import Archived

LINGER = 60.0  # seconds that what is gone stays, for searches that began before
STALE = 20.0  # seconds without a beat
_BEAT = 5.0  # seconds between two beats
_PAUSE = 0.25  # seconds between two tries to take the lease
FREE: Payload = {
    "owner": "",
    "holder": "",
    "host": "",
    "pid": 0,
    "beat": 0,
}
_OF_MODEL = ("model", "fingerprint", "dimension", "root", "archive")


class Sightings:
    """The last change of the owner's beat that was seen, remembered from one attempt to the next."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._last: Any = None
        self._since = 0.0

    def still_for(self, record: Payload) -> float:
        """Seconds since the owner or its beat last changed, by our own clock."""
        now = self.clock()
        latest = (record["owner"], record["beat"])
        if latest != self._last:
            self._last = latest
            self._since = now
        return now - self._since


class Lease:
    """The right of one writer to change the record of a root.

    The record names its owner, and the owner beats. Taking the lease, beating, committing and releasing
    are each one change of the record under a condition on it, which the server applies as a whole. So of
    two writers that try at once, one finds afterwards that it is not the owner. An owner without a beat
    for `STALE` seconds by *our* clock is taken for dead: clocks of two machines are never compared.
    """

    def __init__(
        self,
        points: Points,
        address: Address,
        sightings: Sightings,
    ) -> None:
        self._points = points
        self._address = address
        self._sightings = sightings
        self._id = point_id(address.root, "record")
        self._owner = uuid.uuid4().hex
        self._over = threading.Event()
        self._fault: TamisError | None = None

    def record(self) -> Payload:
        (point,) = self._points.get([self._id])
        return point.payload

    def change(self, values: Payload) -> None:
        """Change the record, or raise IndexLocked if the lease is lost."""
        if self._fault is not None:
            raise self._fault
        self._points.change(self._if(owner=self._owner), values)
        now = self.record()
        if now["owner"] != self._owner:
            raise IndexLocked(self._address, now["holder"] or "another indexer", 0)

    @contextmanager
    def held(self, timeout: float, waiting: Callable[[str], None]) -> Iterator[None]:
        """Be the owner, with a beating heart, until the block ends."""
        self._take(timeout, waiting)
        heart = threading.Thread(target=self._beat, name="beat", daemon=True)
        heart.start()
        try:
            yield
        finally:
            self._over.set()
            heart.join(_BEAT)
            self._points.change(self._if(owner=self._owner), dict(FREE))

    def _take(self, timeout: float, waiting: Callable[[str], None]) -> None:
        """Become the owner, or raise IndexLocked with the owner's name."""
        root = self._address.root
        if not self._points.get([self._id]):
            new = {"kind": "root", TENANT: root, "generation": 0, "facts": {}}
            counts = {"documents": 0, "chunkCount": 0}
            record = Point(self._id, new | counts | FREE)
            self._points.put([record], only_new=True)
        host = platform.node()
        mine = {
            "owner": self._owner,
            "holder": f"process {os.getpid()} on {host}",
            "host": host,
            "pid": os.getpid(),
            "beat": 0,
        }
        clock = self._sightings.clock
        began = clock()
        is_told = False
        while True:
            now = self.record()
            still = self._sightings.still_for(now)
            if not now["owner"] or _is_dead(now) or still >= STALE:
                unchanged = self._if(owner=now["owner"], beat=now["beat"])
                self._points.change(unchanged, mine)
                if self.record()["owner"] == self._owner:
                    return
                continue
            if clock() - began >= timeout:
                raise IndexLocked(self._address, now["holder"], timeout)
            if not is_told:
                waiting(now["holder"])
                is_told = True
            self._over.wait(_PAUSE)

    def _beat(self) -> None:
        beat = 0
        while not self._over.wait(_BEAT):
            beat += 1
            try:
                self._points.change(self._if(owner=self._owner), {"beat": beat})
            except TamisError as error:
                self._fault = error  # raised by the next commit
                return

    def _if(self, **expected: str | int) -> Native:
        conditions = [equals(name, value) for name, value in expected.items()]
        return every({"has_id": [self._id]}, *conditions)


def _is_dead(record: Payload) -> bool:
    """Return True for a process of this machine that is gone; nothing is known of other machines."""
    is_ours = record["pid"] == os.getpid()
    if record["host"] != platform.node() or is_ours:
        return False
    try:
        os.kill(record["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


class QdrantWriter:
    """The one writer of a root. Each `put` and `remove` is a generation, unless the whole run is one."""

    late_vectors: Final = None  # documents are written with their vectors

    def __init__(
        self,
        points: Points,
        root: str,
        lease: Lease,
        boosts: Mapping[str, float],
        archive: Sequence[str],
    ) -> None:
        self._points = points
        self._root = root
        self._lease = lease
        self._boosts = boosts
        self._archive = archive
        record = lease.record()
        self._generation: int = record["generation"]
        self._facts: dict[str, Any] = dict(record["facts"])
        self._is_one_commit = False
        self._is_changed = False  # something is written and not committed yet

    @property
    def facts(self) -> dict[str, Any]:
        return dict(self._facts)

    @property
    def generation(self) -> int:
        return self._generation

    def file_states(self) -> dict[str, FileState]:
        found = self._documents("state")
        return {point.path: read_state(point.payload) for point in found}

    def stamps(self, recipe: str) -> dict[str, Stamps]:
        return stamps_of(self.file_states(), recipe)

    def dates(self) -> dict[str, float]:
        found = self._documents("modified")
        return {point.path: point.payload["modified"] for point in found}

    def describe(self, values: IndexFacts) -> None:
        """Record facts about the index, without a new generation.

        A model that is named for the first time decides the width of the collection's vectors.
        """
        if "dimension" in values:
            self._points.prepare(int(values["dimension"]))
            self._facts["archive"] = list(self._archive)
        self._facts |= values
        if not self._is_one_commit:
            self._lease.change({"facts": self._facts})

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        self._is_one_commit = True
        yield
        self._is_one_commit = False
        self._commit()

    def clear(self) -> None:
        self._bury()
        for name in _OF_MODEL:
            self._facts.pop(name, None)

    def put(self, batch: Sequence[Prepared], pending: int) -> None:
        """Add documents, in place of those with the same paths."""
        paths = [each.document.path for each in batch]
        self._bury(any_of("filePath", paths))
        archive = Archived(tuple(self._facts.get("archive", ())))
        born = self._generation + 1
        points = points_of(
            self._root,
            born,
            batch,
            self._boosts,
            archive,
        )
        self._points.put(list(points))
        self._facts["pending"] = pending
        self._commit()

    def remove(self, paths: Paths) -> None:
        if paths:
            self._bury(any_of("filePath", paths))
            self._commit()

    def touch(self, files: Sequence[Touched]) -> None:
        """Record new times of files with the same content. A document whose date moved is copied."""
        if not files:
            return
        new = {path: (state, modified) for path, state, modified in files}
        kept: list[Point] = []
        moved: list[Point] = []
        for point in self._points.find(self._at("document", list(new))):
            state, modified = new[point.path]
            payload = point.payload | {"state": stored_state(state)}
            is_moved = point.payload["modified"] != modified
            changed = replace(point, payload=payload)
            if is_moved:
                moved.append(changed)
            else:
                kept.append(changed)
        self._points.put(kept)
        if moved:
            self._redate(moved, {path: modified for path, _, modified in files})

    def _redate(self, documents: Sequence[Point], dates: Mapping[str, float]) -> None:
        paths = [point.path for point in documents]
        vectors = (MEANING, WORDS, CODE)
        chunks = list(self._points.find(self._at("chunk", paths), (), vectors))
        self._bury(any_of("filePath", paths))
        copies = []
        for point in (*chunks, *documents):
            born = self._generation + 1
            payload = point.payload | {"born": born, "modified": dates[point.path]}
            payload.pop("gone", None)
            payload.pop("goneAt", None)
            part = payload.get("chunkId", "document")
            own = point_id(self._root, point.path, part, born)
            copies.append(replace(point, id=own, payload=payload))
        self._points.put(copies)
        self._commit()

    def finish(self, skipped: Sequence[Skipped], facts: IndexFacts) -> None:
        kept = [[item.path, item.reason, item.detail] for item in skipped]
        payload = {"kind": "skipped", TENANT: self._root, "skipped": kept}
        own = point_id(self._root, "skipped")
        self._points.put([Point(own, payload)])
        self.describe({**facts, "pending": 0, "built_at": time.time()})
        self._sweep()

    def take_back(self) -> None:
        """Undo what a run that died has written for a generation that was never committed."""
        later = bounded("born", gt=self._generation)
        gone = bounded("gone", gt=self._generation)
        self._points.delete(self._ours(later))
        self._points.clear(self._ours(gone), ["gone", "goneAt"])
        self._sweep()

    def discard(self) -> None:
        """Delete everything, unread."""
        kinds = any_of("kind", ["chunk", "document", "skipped"])
        self._points.delete(self._ours(kinds))
        self._facts = {}
        self._commit()

    def _sweep(self) -> None:
        """Delete what is gone, and was so before any search that may still run."""
        by_now = bounded("gone", lte=self._generation)
        long_ago = bounded("goneAt", lt=time.time() - LINGER)
        self._points.delete(self._ours(by_now, long_ago))

    def _bury(self, *which: Native) -> None:
        """Mark documents and their chunks as gone with the next generation."""
        self._is_changed = True
        gone = {"gone": self._generation + 1, "goneAt": time.time()}
        for kind in ("chunk", "document"):
            buried = visible(self._root, self._generation, kind, *which)
            self._points.change(buried, gone)

    def _commit(self) -> None:
        """Make the next generation current, in one change, unless the whole run is one commit."""
        if self._is_one_commit:
            return
        new = self._generation + 1
        chunks = visible(self._root, new, "chunk")
        with_text = bounded("chunks", gt=0)
        documents = visible(self._root, new, "document", with_text)
        record = {
            "generation": new,
            "facts": self._facts,
            "chunkCount": self._points.count(chunks),
            "documents": self._points.count(documents),
        }
        self._lease.change(record)
        self._generation = new
        self._is_changed = False

    def _documents(self, field: str) -> Iterator[Point]:
        """The documents that this run would replace: none after `clear` in a run that is one commit."""
        now = self._generation
        if self._is_one_commit and self._is_changed:
            now += 1
        which = visible(self._root, now, "document")
        return self._points.find(which, ("filePath", field))

    def _at(self, kind: str, paths: Paths) -> Native:
        at_paths = any_of("filePath", paths)
        return visible(self._root, self._generation, kind, at_paths)

    def _ours(self, *conditions: Native) -> Native:
        return every(equals(TENANT, self._root), *conditions)
