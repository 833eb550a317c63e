"""Progress of an indexing run: a bar on a terminal, plain lines elsewhere. rich lives here."""

import sys
import time
from typing import Any, Final, Self

from tamis.text.printable import visible

_LINE_EVERY: Final = 5.0  # seconds between plain lines: enough for a log


class PlainProgress:
    """Prints a line now and then, on standard error."""

    def __init__(self) -> None:
        self._total = self._done = 0
        self._printed = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.done()

    def done(self) -> None:
        """End a run; another may come."""

    def start(self, total: int, what: str = "files") -> None:
        """Begin a run over so many files, or so many passages to embed."""
        self._total, self._done = total, 0
        self.note(f"{_verb(what)} {total} {what}")

    def advance(self, path: str, by: int = 1) -> None:
        """Count a file, and print a line if the last one was some time ago."""
        self._done += by
        if time.monotonic() - self._printed >= _LINE_EVERY:
            self._printed = time.monotonic()
            self.note(f"{self._done}/{self._total} {path}")

    def note(self, message: str) -> None:
        """Print a message."""
        print(visible(message), file=sys.stderr, flush=True)


class BarProgress(PlainProgress):
    """Draws a bar with the time left on standard error, which goes when the run ends."""

    def __init__(self) -> None:
        super().__init__()
        self._bar: Any = None  # nothing is loaded until it starts
        self._task: Any = None

    def done(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def start(self, total: int, what: str = "files") -> None:
        """Draw a bar in place of an earlier one."""
        self.done()
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn(_verb(what)),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[path]}", markup=False),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=total, path="")
        self._bar.start()

    def advance(self, path: str, by: int = 1) -> None:
        """Move the bar on."""
        self._bar.update(self._task, advance=by, path=visible(path[-60:]))

    def note(self, message: str) -> None:
        """Print a message, in place of a bar that is full."""
        if self._bar is not None and self._bar.finished:
            self.done()
        super().note(message)


def _verb(what: str) -> str:
    if what == "files":
        return "indexing"
    return "embedding"


def progress_for(stream_is_terminal: bool) -> PlainProgress:
    """Return a bar for a terminal, plain lines for anything else."""
    if stream_is_terminal:
        return BarProgress()
    return PlainProgress()
