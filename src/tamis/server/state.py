"""The state of a server, behind all its doors: its roots, its limits and its deadline.

Nothing that reads an index is imported before the first question.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread

from tamis.errors import InternalFault, OutOfTime, TamisError
from tamis.live.folders import Folder
from tamis.model import Report
from tamis.request import SearchRequest
from tamis.server.paging import Paged, read_cursor

if TYPE_CHECKING:
    from tamis.live.corpus import Watch
    from tamis.live.roots import Roots
    from tamis.live.watcher import Said

Answer = TypeVar("Answer")

log = logging.getLogger("tamis.server")


class ServerState:
    """The roots of a server, opened when they are first asked. Safe to use from several threads."""

    def __init__(self, folders: Sequence[Folder], at_once: int = 4) -> None:
        """Prepare a server of these folders.

        At most `at_once` questions are answered side by side: each uses several threads itself.
        """
        self.folders = folders
        self.settings = folders[0].settings.server
        self.names = [folder.name for folder in folders]
        self.has_several = len(folders) > 1
        self._at_once = at_once
        self._limiter: anyio.CapacityLimiter | None = None
        self._lock = threading.Lock()
        self._roots: Roots | None = None
        self._faults: dict[str, str] = {}  # the last one of each root

    @property
    def roots(self) -> "Roots":
        """The open roots."""
        from tamis.live.roots import Roots

        with self._lock:
            if self._roots is None:
                self._roots = Roots(self.folders, self._log)
            return self._roots

    def close(self) -> None:
        """Stop the background of all roots."""
        with self._lock:
            if self._roots is not None:
                self._roots.close()

    async def answer(self, what: str, work: Callable[[], Answer]) -> Answer:
        """Do the work in a thread and return its result; every failure is a TamisError.

        Work that is cancelled or out of time is answered at once, and its thread ends by itself.
        """
        self._limiter = self._limiter or anyio.CapacityLimiter(self._at_once)
        try:
            with anyio.fail_after(self.settings.deadline):
                return await anyio.to_thread.run_sync(
                    work, limiter=self._limiter, abandon_on_cancel=True
                )
        except TimeoutError:
            raise OutOfTime(self.settings.deadline) from None
        except TamisError:
            raise
        except Exception as error:
            log.exception("%s failed", what)
            raise InternalFault from error

    def search(
        self,
        request: SearchRequest,
        root: str | None,
        cursor: str | None,
        watch: "Watch | None" = None,
    ) -> Paged:
        """Answer a search from the place that a cursor names."""
        question = asdict(replace(request, limit=None))
        start = read_cursor(cursor, question | {"root": root})
        page = self.roots.search(request, root, start.offset, watch)
        return Paged(page, start)

    def _log(self, root: str, event: "Said | Report | TamisError") -> None:
        """Log what happens in the background; a fault once, until a run has succeeded."""
        if isinstance(event, Report):
            self._faults.pop(root, None)
            log.info(
                "%s: indexed %d, removed %d in %.1f s",
                root,
                event.indexed,
                event.removed,
                event.seconds,
            )
            return
        text = f"{root}: {event.message}"
        if event.hint:
            text += f" ({event.hint})"
        level = logging.WARNING
        if isinstance(event, TamisError):
            if self._faults.get(root) == event.message:
                return
            self._faults[root] = event.message
        elif event.state in ("watching", "following"):
            level = logging.INFO
        log.log(level, "%s", text)
