"""Output and questions on a terminal, and the progress of indexing. rich lives here."""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, Self

import click

from tamis.progress import Progress, Silent
from tamis.text.printable import escaped, visible

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
            TextColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as Bar

        columns = (
            TextColumn(_verb(what)),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[path]}", markup=False),
        )
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
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


def asks() -> bool:
    """Return True if a question would reach a person."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agrees(message: str) -> bool:
    """Ask whether all files are to be indexed."""
    question = f"{visible(message)}. Index all of them?"
    return click.confirm(question, default=False, err=True)


@contextmanager
def watching(quiet: bool) -> Iterator[Progress]:
    """Show progress until the block ends: as a bar on a terminal, as lines elsewhere, or not at all."""
    if quiet:
        yield Silent()
    else:
        with progress_for(sys.stderr.isatty()) as progress:
            yield progress


def print_json(value: Any) -> None:
    """Print a value as JSON, in ASCII if the output has another encoding than UTF-8."""
    encoding = getattr(sys.stdout, "encoding", None) or ""
    is_utf8 = encoding.lower().replace("-", "") == "utf8"
    click.echo(escaped(json.dumps(value, ensure_ascii=not is_utf8, indent=2)))


class _Value(Protocol):
    def to_dict(self) -> dict[str, Any]: ...


def show(value: _Value, lines: Iterable[str], *, as_json: bool) -> None:
    """Print a value as JSON, or the lines that say the same to people."""
    if as_json:
        print_json(value.to_dict())
    else:
        print_lines(lines)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, in colours where they are wanted."""
    wanted = colour()
    for line in lines:
        click.echo(line, color=wanted)


def colour() -> bool | None:
    """Return False where NO_COLOR is set; otherwise click decides: no colours in a pipe."""
    return False if os.environ.get("NO_COLOR") else None
