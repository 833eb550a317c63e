"""Who may write: the record of a root names its owner, and the owner's heart must beat.

Taking, beating, committing and letting go are each one change of that record under a condition on it, which
the server makes whole; so of two that try, one finds afterwards that it is not the owner. An owner whose beat
stands still for `STALE` seconds by *our* clock is taken for dead: clocks of two machines are never compared.
"""

import os
import platform
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tamis.errors import IndexLocked, TamisError
from tamis.index.qdrant.points import Native, Payload, Points, with_ids
from tamis.model import Address

STALE: Final = 20.0  # seconds
_BEAT: Final = 5.0  # seconds between two beats
_PAUSE: Final = 0.25
FREE: Final[Payload] = {"owner": "", "holder": "", "host": "", "pid": 0, "beat": 0}


class Sightings:
    """When the owner's heart was last seen to move: remembered from one attempt to the next."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._last: tuple[Any, Any] | None = None
        self._since = 0.0

    def still_for(self, record: Payload) -> float:
        """Seconds since the record last looked otherwise, by our own clock."""
        now, looks = self.clock(), (record["owner"], record["beat"])
        if looks != self._last:
            self._last, self._since = looks, now
        return now - self._since


class Lease:
    """What the owner holds: a way to change the record that fails when somebody else has it."""

    def __init__(
        self, points: Points, id: str, address: Address, sightings: Sightings
    ) -> None:
        self._points, self.id, self._address, self._sightings = (
            points,
            id,
            address,
            sightings,
        )
        self.owner = uuid.uuid4().hex
        self._over = threading.Event()
        self._fault: TamisError | None = None
        self._beats = 0

    def record(self) -> Payload:
        (row,) = self._points.get([self.id])
        return row.payload

    def change(self, values: Payload) -> None:
        """Change the record, and see that it was ours to change."""
        if self._fault is not None:
            raise self._fault
        self._points.change(self._if(owner=self.owner), values)
        now = self.record()
        if now["owner"] != self.owner:
            raise IndexLocked(self._address, now["holder"] or "another indexer", 0)

    def take(self, timeout: float, waiting: Callable[[str], None]) -> None:
        """Become the owner, or say who is."""
        clock = self._sightings.clock
        began, told = clock(), False
        while True:
            now = self.record()
            still = self._sightings.still_for(now)
            if not now["owner"] or _is_dead(now) or still >= STALE:
                mine = {
                    "owner": self.owner,
                    "holder": _name(),
                    "host": platform.node(),
                    "pid": os.getpid(),
                }
                self._points.change(
                    self._if(owner=now["owner"], beat=now["beat"]), mine | {"beat": 0}
                )
                if self.record()["owner"] == self.owner:
                    return
                continue
            if clock() - began >= timeout:
                raise IndexLocked(self._address, now["holder"], timeout)
            if not told:
                waiting(now["holder"])
                told = True
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

    def release(self) -> None:
        self._points.change(self._if(owner=self.owner), dict(FREE))

    def _beat(self) -> None:
        while not self._over.wait(_BEAT):
            try:
                self._beats += 1
                self._points.change(self._if(owner=self.owner), {"beat": self._beats})
            except (
                TamisError
            ) as error:  # for whoever commits next: this thread has nobody to tell
                self._fault = error
                return

    def _if(self, **expected: str | int) -> Native:
        conditions = [
            {"key": name, "match": {"value": value}} for name, value in expected.items()
        ]
        return {"must": [with_ids([self.id]), *conditions]}


def _name() -> str:
    return f"process {os.getpid()} on {platform.node()}"


def _is_dead(record: Payload) -> bool:
    """An owner on this machine whose process is gone; of another machine's we know nothing."""
    if record["host"] != platform.node() or record["pid"] == os.getpid():
        return False
    try:
        os.kill(record["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
