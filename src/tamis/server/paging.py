"""Pages of an answer: a cursor says where the next one begins."""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tamis.errors import UsageError
from tamis.model import Hint

if TYPE_CHECKING:
    from tamis.live.roots import Page

_CHANGED: Final = Hint(
    "the index has changed since the page before: results may be missing or come twice"
)


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
    cursor = _parsed(text)
    if cursor is None:
        raise UsageError(
            "this is no cursor of ours", hint="give next_cursor of an answer, as it is"
        )
    if cursor.question != digest:
        hint = "give the same arguments as before (limit and max_tokens may differ), or leave cursor out"
        raise UsageError("this cursor belongs to another question", hint=hint)
    return cursor


def _parsed(text: str) -> Cursor | None:
    try:
        data = base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        offset, question, generations = json.loads(data)
        numbers = (offset, *generations)
    except (ValueError, TypeError, RecursionError):
        return None
    if any(type(number) is not int for number in numbers):
        return None
    if not 0 <= offset < 2**31 or not isinstance(question, str):
        return None
    return Cursor(offset, question, numbers[1:])


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
            return (*self.page.hints, _CHANGED)
        return self.page.hints

    def next_cursor(self, shown: int) -> str | None:
        """Return the cursor of the next page if so many results of this one are shown."""
        if shown == len(self.page.results) and not self.page.has_more:
            return None
        return str(self.cursor.after(shown, self.page.generations))
