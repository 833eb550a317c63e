"""The state of a server, behind all its doors: its roots, its limits, its deadline and its pages.

Nothing that reads an index is imported before the first question.
"""

import base64
import hashlib
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from tamis.errors import InternalFault, OutOfTime, TamisError, UsageError
from tamis.live.folders import Folder
from tamis.model import Hint, Report
from tamis.request import SearchRequest

if TYPE_CHECKING:
    from tamis.live.corpus import Event, Watch
    from tamis.live.roots import Page, Roots

Answer = TypeVar("Answer")

log = logging.getLogger("tamis.server")

_CHANGED = Hint(
    "the index has changed since the page before: results may be missing or come twice"
)


# --- pages of an answer -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place in an answer where a page begins, and what the answer depends on."""

    offset: int
    question: str  # its digest
    generations: tuple[int, ...] = ()  # of the indexes that gave the page before

    def after(self, shown: int, generations: tuple[int, ...] = ()) -> "Cursor":
        """Return the place after so many results."""
        return Cursor(self.offset + shown, self.question, generations)

    def __str__(self) -> str:
        """Return the cursor as a client gets it."""
        parts = [self.offset, self.question, self.generations]
        plain = json.dumps(parts, separators=(",", ":"))
        return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")


def read_cursor(text: str | None, question: Mapping[str, Any]) -> Cursor:
    """Return the cursor that a client gives back with the same question; without one, the start."""
    plain = json.dumps(question, sort_keys=True)
    digest = hashlib.blake2b(plain.encode(), digest_size=8).hexdigest()
    if text is None:
        return Cursor(0, digest)
    try:
        padding = "=" * (-len(text) % 4)
        data = base64.urlsafe_b64decode((text + padding).encode("ascii"))
        offset, given, generations = json.loads(data)
        numbers = (offset, *generations)
        is_ours = all(type(number) is int for number in numbers)
        is_ours = is_ours and isinstance(given, str) and 0 <= offset < 2**31
    except (ValueError, TypeError, RecursionError):
        is_ours = False
    if not is_ours:
        hint = "give next_cursor of an answer, as it is"
        raise UsageError("this is no cursor of ours", hint=hint)
    if given != digest:
        hint = "give the same arguments as before (limit and max_tokens may differ), or leave cursor out"
        raise UsageError("this cursor belongs to another question", hint=hint)
    return Cursor(offset, digest, numbers[1:])


@dataclass(frozen=True, slots=True)
class Paged:
    """A page of results and the place where it begins."""

    page: "Page"
    cursor: Cursor

    @property
    def hints(self) -> tuple[Hint, ...]:
        """The hints of the page, and a warning if the index is not that of the page before."""
        before = self.cursor.generations
        if before and before != self.page.generations:
            return (*self.page.found.hints, _CHANGED)
        return self.page.found.hints

    def next_cursor(self, shown: int) -> str | None:
        """Return the cursor of the next page if so many results of this one are shown."""
        if shown == len(self.page.results) and not self.page.has_more:
            return None
        return str(self.cursor.after(shown, self.page.generations))


# --- the state ----------------------------------------------------------------------------------


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
            seconds = self.settings.deadline
            raise OutOfTime(
                f"no answer within {seconds:g} s", hint="ask for less"
            ) from None
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

    def _log(self, root: str, event: "Event") -> None:
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
