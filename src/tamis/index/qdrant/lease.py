"""The lease of a root's one writer: the record of the root names its owner, and the owner beats.

Taking the lease, beating, committing and releasing are each one change of that record under a
condition on it, which the server applies as a whole. So of two writers that try at once, one finds
afterwards that it is not the owner. An owner without a beat for `STALE` seconds by *our* clock is
taken for dead: clocks of two machines are never compared.
"""

import os
import platform
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tamis.errors import IndexLocked, TamisError
from tamis.index.qdrant.points import (
    TENANT,
    Native,
    Payload,
    Point,
    Points,
    equals,
    record_id,
    with_ids,
)
from tamis.model import Address

STALE: Final = 20.0  # seconds
_BEAT: Final = 5.0  # seconds between two beats
_PAUSE: Final = 0.25
FREE: Final[Payload] = {"owner": "", "holder": "", "host": "", "pid": 0, "beat": 0}


def new_record(root: str) -> Point:
    """The record of a root that nobody has written yet."""
    payload = {"kind": "root", TENANT: root, "generation": 0, "facts": {}}
    counts = {"documents": 0, "chunkCount": 0}
    return Point(record_id(root), payload | counts | FREE)


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
    """The right to change the record; a change fails when another writer has taken the lease."""

    def __init__(self, points: Points, address: Address, sightings: Sightings) -> None:
        self._points = points
        self._address = address
        self._sightings = sightings
        self._id = record_id(address.root)
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

    def take(self, timeout: float, waiting: Callable[[str], None]) -> None:
        """Become the owner, or raise IndexLocked with the owner's name."""
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

    @contextmanager
    def beating(self) -> Iterator[None]:
        heart = threading.Thread(target=self._beat, name="beat", daemon=True)
        heart.start()
        try:
            yield
        finally:
            self._over.set()
            heart.join(_BEAT)

    def _beat(self) -> None:
        beat = 0
        while not self._over.wait(_BEAT):
            beat += 1
            try:
                self._points.change(self._if(owner=self._owner), {"beat": beat})
            except TamisError as error:
                self._fault = error  # raised by the next commit
                return

    def release(self) -> None:
        self._points.change(self._if(owner=self._owner), dict(FREE))

    def _if(self, **expected: str | int) -> Native:
        conditions = [equals(name, value) for name, value in expected.items()]
        return {"must": [with_ids([self._id]), *conditions]}


def _is_dead(record: Payload) -> bool:
    """Return True for a process of this machine that is gone; nothing is known of other machines."""
    if record["host"] != platform.node() or record["pid"] == os.getpid():
        return False
    try:
        os.kill(record["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
