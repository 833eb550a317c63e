"""Who watches an indexing run: a bar on a terminal, plain lines elsewhere. rich lives behind this file."""

import sys
import time
from typing import Any, Final, Self

from tamis.text.printable import visible

_LINE_EVERY: Final = (
    5.0  # seconds between plain lines: a log should say that it goes on, not more
)


class PlainProgress:
    """A line now and then, on standard error."""

    def __init__(self) -> None:
        self._total = self._done = 0
        self._told = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def start(self, total: int, what: str = "files") -> None:
        self._total, self._done = total, 0
        self.note(
            f"indexing {total} files"
            if what == "files"
            else f"embedding {total} {what}"
        )

    def advance(self, path: str, by: int = 1) -> None:
        self._done += by
        if time.monotonic() - self._told >= _LINE_EVERY:
            self._told = time.monotonic()
            self.note(f"{self._done}/{self._total} {path}")

    def note(self, message: str) -> None:
        print(visible(message), file=sys.stderr, flush=True)

    def done(self) -> None:
        """A run has ended; another may come."""


class BarProgress:
    """A bar with the time left, on standard error; gone when the run ends. Costs nothing until it starts."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.done()

    def done(self) -> None:
        """A run has ended; another may come."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def start(self, total: int, what: str = "files") -> None:
        """Draw a bar; one that is there from an earlier run goes."""
        self.done()
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        path = TextColumn("{task.fields[path]}", markup=False)
        title = "indexing" if what == "files" else "embedding"
        columns = (
            TextColumn(title),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            path,
        )
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=total, path="")
        self._bar.start()

    def advance(self, path: str, by: int = 1) -> None:
        self._bar.update(self._task, advance=by, path=visible(path[-60:]))

    def note(self, message: str) -> None:
        if self._bar is not None and self._bar.finished:
            self.done()
        print(visible(message), file=sys.stderr, flush=True)


def progress_for(stream_is_terminal: bool) -> PlainProgress | BarProgress:
    return BarProgress() if stream_is_terminal else PlainProgress()
