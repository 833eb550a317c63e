"""`tamis watch`: keep an index up to date, and print what happens."""

import json
import os
import signal
import sys
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import click

from tamis.cli.options import (
    asks,
    root_argument,
    settings_of,
    shared_options,
    with_all_files,
    yes_option,
)

if TYPE_CHECKING:
    from tamis.cli.terminal import PlainProgress
    from tamis.errors import TamisError
    from tamis.live.watcher import Said
    from tamis.model import Report

_WORTH_A_BAR: Final = 50  # files or passages: fewer are done before a bar is seen
_CLOSING: Final = 0.3  # seconds for the work under way when we are told to stop


@click.command()
@root_argument
@click.option(
    "--poll",
    is_flag=True,
    help="Look every watch.poll_ms: for network file systems and the like.",
)
@click.option(
    "--debounce",
    type=int,
    metavar="MS",
    help="Index after MS milliseconds of quiet (default 200).",
)
@yes_option
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print a line of JSON for each event.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@shared_options
def watch(
    root: str,
    *,
    poll: bool,
    debounce: int | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Keep the index of ROOT up to date while its files change.

    Ends with Ctrl-C or SIGTERM (exit code 0). Exits with 1 if another process watches ROOT
    already. ROOT may disappear and come back.
    """
    from pathlib import Path

    from tamis.cli.terminal import progress_for
    from tamis.configuration import user_file
    from tamis.errors import TamisError
    from tamis.live.corpus import LiveCorpus
    from tamis.live.folders import chosen_roots

    (folder,) = chosen_roots((root,), "tamis watch ")
    if asks():  # before it begins: later nobody is there to be asked
        with_all_files(
            str(folder),
            options,
            quiet,
            lambda corpus: corpus.exists() or corpus.count_files(),
        )
    flags = options | {"watch.poll": poll or None, "watch.debounce_ms": debounce}
    progress = None
    if not quiet:
        progress = progress_for(sys.stderr.isatty())
    commentary = Commentary(progress, as_json=as_json)
    place = None
    if options["index_dir"]:
        place = Path(options["index_dir"])
    settings_files = [user_file(os.environ)]
    if options["config"]:
        settings_files.append(Path(options["config"]))
    settings = settings_of(str(folder), flags)
    live = LiveCorpus(folder, settings, place, commentary, commentary.tell)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: commentary.ending.put(0))
    live.watch(lambda: settings_of(str(folder), flags), commentary.say, settings_files)
    ending = commentary.ending.get()
    has_stopped = live.close(_CLOSING)
    if isinstance(ending, TamisError):
        raise ending
    if not has_stopped:
        # In the middle of a long step, which loses nothing by being cut.
        sys.stdout.flush()
        os._exit(ending)
    return ending


class Commentary:
    """Prints a line for each run that did something and each change of state, from any thread."""

    def __init__(self, progress: "PlainProgress | None", *, as_json: bool) -> None:
        # Why to end: an exit code, or a fault.
        self.ending: SimpleQueue[int | TamisError] = SimpleQueue()
        self._progress = progress
        self._as_json = as_json
        self._drawing = False
        self._ran = False
        self._fault = ""
        self._lock = threading.Lock()

    def start(self, total: int, what: str = "files") -> None:
        """Draw a bar, if there is enough to do."""
        self._drawing = self._progress is not None and total >= _WORTH_A_BAR
        if self._drawing and self._progress is not None:
            self._progress.start(total, what)

    def advance(self, path: str, by: int = 1) -> None:
        """Move the bar on."""
        if self._drawing and self._progress is not None:
            self._progress.advance(path, by)

    def note(self, message: str) -> None:
        """Print a message."""
        self._print("note", message, message=message)

    def say(self, said: "Said") -> None:
        """Print the state of the watcher. End if another process watches, or if none can."""
        from tamis.errors import TamisError

        if said.state == "failing" and not self._ran:
            self.ending.put(TamisError(said.message, hint=said.hint))
            return
        self._print_with_hint(said.state, said.message, said.hint)
        if said.state == "following":
            self.ending.put(1)

    def tell(self, outcome: "Report | TamisError") -> None:
        """Print the outcome of a run. A fault of the first run is the end."""
        from tamis.errors import TamisError

        if self._progress is not None:
            self._progress.done()
        if not isinstance(outcome, TamisError):
            self._print_run(outcome)
        elif not self._ran:
            self.ending.put(outcome)
        elif outcome.message != self._fault:
            self._fault = outcome.message
            self._print_with_hint("fault", outcome.message, outcome.hint)

    def _print_run(self, done: "Report") -> None:
        is_first = not self._ran
        self._ran = True
        self._fault = ""
        if not (is_first or done.indexed or done.removed):
            return
        counts = f"indexed {done.indexed}, removed {done.removed}"
        self._print(
            "indexed",
            f"{counts}, unchanged {done.unchanged} in {done.seconds:.1f} s",
            indexed=done.indexed,
            removed=done.removed,
            unchanged=done.unchanged,
            chunks=done.chunks,
            generation=done.generation,
            seconds=done.seconds,
            skipped=done.skipped_by_reason,
            warnings=list(done.warnings),
        )

    def _print_with_hint(self, event: str, message: str, hint: str) -> None:
        text = message
        if event == "fault":
            text = f"error: {message}"
        if hint:
            text += f" ({hint})"
        self._print(event, text, message=message, hint=hint)

    def _print(self, event: str, text: str, **fields: Any) -> None:
        from tamis.text.printable import visible

        if self._as_json:
            line = json.dumps({"event": event, "time": time.time(), **fields})
        else:
            line = visible(f"{time.strftime('%H:%M:%S')} {text}")
        try:
            with self._lock:
                click.echo(line)
        except BrokenPipeError:  # the reader of our output has seen enough
            self.ending.put(0)
