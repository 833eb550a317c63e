"""`tamis watch`: what it says, and how it ends."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

import click

from tamis.cli.terminal import BarProgress, PlainProgress
from tamis.errors import TamisError
from tamis.live.corpus import LiveCorpus
from tamis.live.watcher import Said
from tamis.model import Report
from tamis.settings import Settings
from tamis.text.printable import visible

_WORTH_A_BAR: Final = 50  # files or passages: fewer are done before a bar is seen
_FAREWELL: Final = 0.3  # seconds for what is under way when we are told to stop

Ending = int | TamisError


class Commentary:
    """A line for each run that did something and each change of state, from whichever thread."""

    def __init__(
        self, progress: PlainProgress | BarProgress | None, *, as_json: bool
    ) -> None:
        self.ending: SimpleQueue[Ending] = SimpleQueue()
        self._progress = progress
        self._as_json = as_json
        self._drawing = False
        self._ran = False
        self._fault = ""
        self._lock = threading.Lock()

    def start(self, total: int, what: str = "files") -> None:
        self._drawing = self._progress is not None and total >= _WORTH_A_BAR
        if self._drawing and self._progress is not None:
            self._progress.start(total, what)

    def advance(self, path: str, by: int = 1) -> None:
        if self._drawing and self._progress is not None:
            self._progress.advance(path, by)

    def note(self, message: str) -> None:
        self._print("note", message, {"message": message})

    def say(self, said: Said) -> None:
        """How it stands with the watching. Where another process watches, or nobody can, we end."""
        if said.state == "failing" and not self._ran:
            self.ending.put(TamisError(said.message, hint=said.hint))
            return
        hint = f" ({said.hint})" if said.hint else ""
        self._print(
            said.state,
            f"{said.message}{hint}",
            {"message": said.message, "hint": said.hint},
        )
        if said.state == "following":
            self.ending.put(1)

    def tell(self, outcome: Report | TamisError) -> None:
        """What a run did, or why it could not. The first is told in any case."""
        if self._progress is not None:
            self._progress.done()
        if isinstance(outcome, Report):
            self._tell_run(outcome)
        elif not self._ran:
            self.ending.put(outcome)
        elif outcome.message != self._fault:
            self._fault = outcome.message
            text = f"error: {outcome.message}" + (
                f" ({outcome.hint})" if outcome.hint else ""
            )
            self._print(
                "fault", text, {"message": outcome.message, "hint": outcome.hint}
            )

    def _tell_run(self, done: Report) -> None:
        first, self._ran, self._fault = not self._ran, True, ""
        if not first and not done.indexed and not done.removed:
            return
        counts = f"indexed {done.indexed}, removed {done.removed}, unchanged {done.unchanged}"
        names = ("indexed", "removed", "unchanged", "chunks", "generation", "seconds")
        told: dict[str, Any] = {name: getattr(done, name) for name in names}
        told |= {"skipped": done.skipped_by_reason, "warnings": list(done.warnings)}
        self._print("indexed", f"{counts} in {done.seconds:.1f} s", told)

    def _print(self, event: str, text: str, told: dict[str, Any]) -> None:
        now = time.strftime("%H:%M:%S")
        line = (
            json.dumps({"event": event, "time": time.time()} | told)
            if self._as_json
            else f"{now} {text}"
        )
        try:
            with self._lock:
                click.echo(line if self._as_json else visible(line))
        except BrokenPipeError:  # whoever reads this has seen enough
            self.ending.put(0)


def keep_watch(
    live: LiveCorpus,
    commentary: Commentary,
    reload: Callable[[], Settings],
    also: Sequence[Path],
) -> int:
    """Watch until told to stop, which is how a watch ends: 0. What cannot even begin is raised."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: commentary.ending.put(0))
    live.watch(reload, commentary.say, also)
    ending = commentary.ending.get()
    if not live.close(_FAREWELL):
        _leave(ending)
    if isinstance(ending, TamisError):
        raise ending
    return ending


def _leave(ending: Ending) -> None:
    """End now: what is still under way is in the middle of a long step, and loses nothing by it."""
    sys.stdout.flush()
    if isinstance(ending, int):
        os._exit(ending)
