"""`tamis watch`, `mcp` and `serve`: commands that keep running."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import click

from tamis.cli.terminal import (
    FOLDER,
    PlainProgress,
    asks,
    flags_of,
    root_argument,
    shared_options,
    shown_progress,
    with_all_files,
    yes_option,
)
from tamis.errors import TamisError
from tamis.text.printable import LogLines, visible

if TYPE_CHECKING:
    from tamis.live.corpus import Event
    from tamis.live.folders import Folder
    from tamis.live.watcher import Said
    from tamis.model import Report

_WORTH_A_BAR = 50  # files or passages: fewer are done before a bar is seen
_CLOSING = 0.3  # seconds for the work under way when a signal ends it
_WATCH = "tamis watch "  # how the command takes a folder


_token = click.option(
    "--token",
    metavar="T",
    envvar="TAMIS_TOKEN",
    help="Over HTTP: the token that clients must send (better: TAMIS_TOKEN).",
)
_allow_host = click.option(
    "--allow-host",
    multiple=True,
    metavar="NAME",
    help="Over HTTP: another name of this machine; repeatable.",
)
_log_file = click.option(
    "--log-file", metavar="FILE", help="Write the log here (default: standard error)."
)


@click.command()
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=FOLDER,
    help="A folder to serve (default: this one); repeatable.",
)
@click.option(
    "--http",
    "address",
    metavar="HOST:PORT",
    help="Serve over HTTP at /mcp instead of stdin and stdout.",
)
@_token
@_allow_host
@_log_file
@shared_options
def mcp(
    roots: Sequence[str],
    *,
    address: str | None,
    log_file: str | None,
    **options: Any,
) -> int:
    """Serve AI agents with the Model Context Protocol, over stdin and stdout or HTTP.

    A client starts this command itself; see docs/mcp.md. Nothing is indexed before the first
    question. After it, files are watched.
    """
    folders = _folders(roots, options, "--root ")
    _log_to(log_file)
    from tamis.server.run import serve_http, serve_stdio

    if address is None:
        return serve_stdio(folders)
    return serve_http(folders, address, options["token"], options["allow_host"])


@click.command()
@click.argument("roots", nargs=-1, type=FOLDER, metavar="[ROOT]...")
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="H",
    help="The address to listen on; other machines need a token.",
)
@click.option(
    "--port",
    default=7171,
    type=click.IntRange(0, 65_535),
    metavar="P",
    help="The port; 0 is any free one.",
)
@click.option("--open", "shown", is_flag=True, help="Open the page in a browser.")
@_token
@_allow_host
@_log_file
@shared_options
def serve(
    roots: Sequence[str],
    *,
    host: str,
    port: int,
    shown: bool,
    log_file: str | None,
    **options: Any,
) -> int:
    """Serve a search page for ROOT (default: this folder), a JSON API, and AI agents at /mcp.

    Files are indexed as they change. See docs/web.md and docs/http.md.
    """
    folders = _folders(roots, options, "tamis serve ")
    _log_to(log_file)
    from tamis.server.run import Address, serve_pages

    return serve_pages(
        folders,
        Address(host, port),
        options["token"],
        options["allow_host"],
        shown=shown,
    )


def _folders(
    roots: Sequence[str], options: dict[str, Any], option: str
) -> "tuple[Folder, ...]":
    from tamis.live.folders import served

    places = {name: options[name] for name in ("config", "index_dir")}
    return served(roots, flags_of(options), **places, option=option)


def _log_to(file: str | None) -> None:
    import logging

    lines: logging.Handler = logging.StreamHandler(sys.stderr)
    if file:
        try:
            # Only for its owner: questions may be in it.
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            os.close(os.open(file, flags, 0o600))
            lines = logging.FileHandler(file, encoding="utf-8")
        except OSError as error:
            message = f"{file}: {error.strerror}"
            raise click.BadParameter(message, param_hint="--log-file") from error
    lines.setFormatter(LogLines())
    logging.basicConfig(level=logging.WARNING, handlers=[lines])


@click.command()
@root_argument
@click.option(
    "--poll",
    is_flag=True,
    help="Look every 2 seconds: for network file systems and the like.",
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
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Keep the index of ROOT up to date while its files change.

    Ends with Ctrl-C or SIGTERM (exit code 0). Exits with 1 if another process watches ROOT
    already. ROOT may disappear and come back.
    """
    from tamis.live.corpus import LiveCorpus
    from tamis.live.folders import chosen_roots

    (path,) = chosen_roots((root,), _WATCH)
    if asks():  # before it begins: later it runs unattended
        with_all_files(
            str(path),
            options,
            quiet,
            lambda corpus: corpus.exists() or corpus.count_files(),
        )
    (folder,) = _folders((root,), options, _WATCH)
    progress = None
    if not quiet:
        progress = shown_progress()
    commentary = Commentary(progress, as_json=as_json)
    live = LiveCorpus(folder, commentary.tell, commentary)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: commentary.ending.put(0))
    live.watch()
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

    def __init__(self, progress: PlainProgress | None, *, as_json: bool) -> None:
        # The reason to end: an exit code, or a fault.
        self.ending: SimpleQueue[int | TamisError] = SimpleQueue()
        self._progress = progress
        self._drawn: PlainProgress | None = None  # of a run that is worth a bar
        self._as_json = as_json
        self._ran = False
        self._fault = ""
        self._lock = threading.Lock()

    def start(self, total: int, what: str = "files") -> None:
        """Draw a bar, if there is enough to do."""
        self._drawn = None
        if self._progress is not None and total >= _WORTH_A_BAR:
            self._drawn = self._progress
            self._drawn.start(total, what)

    def advance(self, path: str, by: int = 1) -> None:
        """Move the bar on."""
        if self._drawn is not None:
            self._drawn.advance(path, by)

    def note(self, message: str) -> None:
        """Print a message."""
        self._print("note", message, message=message)

    def _say(self, said: "Said") -> None:
        """Print the state of the watcher. End if another process watches, or if none can."""
        if said.state == "failing" and not self._ran:
            self.ending.put(TamisError(said.message, hint=said.hint))
            return
        self._print_with_hint(said.state, said.message, said.hint)
        if said.state == "following":
            self.ending.put(1)

    def tell(self, outcome: "Event") -> None:
        """Print the outcome of a run, or a state. A fault of the first run is the end."""
        from tamis.live.watcher import Said

        if isinstance(outcome, Said):
            self._say(outcome)
            return
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
        text = f"{counts}, unchanged {done.unchanged} in {done.seconds:.1f} s"
        fields = done.to_dict() | {"skipped": done.skipped_by_reason}
        del fields["seen"], fields["skipped_by_reason"]
        self._print("indexed", text, **fields)

    def _print_with_hint(self, event: str, message: str, hint: str) -> None:
        text = message
        if event == "fault":
            text = f"error: {message}"
        if hint:
            text += f" ({hint})"
        self._print(event, text, message=message, hint=hint)

    def _print(self, event: str, text: str, **fields: Any) -> None:
        if self._as_json:
            line = json.dumps({"event": event, "time": time.time(), **fields})
        else:
            line = visible(f"{time.strftime('%H:%M:%S')} {text}")
        try:
            with self._lock:
                click.echo(line)
        except BrokenPipeError:  # the reader of our output has seen enough
            self.ending.put(0)
