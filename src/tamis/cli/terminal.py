"""The parts of commands: their options and the corpus that these name, output, questions, progress.

rich lives here.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from tamis.progress import Progress, Silent
from tamis.request import Argument
from tamis.text.printable import escaped, visible

if TYPE_CHECKING:
    from tamis.corpus import Corpus
    from tamis.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])
Done = TypeVar("Done")

_LINE_EVERY = 5.0  # seconds between plain lines: enough for a log

# --- options --------------------------------------------------------------------------------

# Not checked by click: our own message says what to do.
FOLDER = click.Path(path_type=str, readable=False)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="No progress and no summary."
)
yes_option = click.option(
    "--yes", is_flag=True, help="Index however many files there are (index.max_files)."
)
root_argument = click.argument("root", default=".", type=FOLDER)
config_option = click.option(
    "--config", metavar="FILE", help="Read this instead of the root's tamis.toml."
)
index_dir_option = click.option(
    "--index-dir",
    metavar="DIR",
    help="Where the index is kept (default: .tamis in ROOT).",
)
_engine_option = click.option(
    "--engine",
    metavar="URL",
    help="The index is on this Qdrant server (docs/cluster.md).",
)
_model_option = click.option(
    "--model",
    metavar="NAME",
    help="Embedder: granite, bge, hashing, or none for words only.",
)


def shared_options(command: Command) -> Command:
    """Add the options that every command on an index has."""
    for option in (_model_option, config_option, _engine_option, index_dir_option):
        command = option(command)
    return command


def search_options(arguments: Sequence[Argument]) -> Callable[[Command], Command]:
    """Add an option for each argument of a search but the query."""

    def decorate(command: Command) -> Command:
        for each in reversed(arguments):
            if not each.required:
                command = _option_of(each)(command)
        return command

    return decorate


def _option_of(argument: Argument) -> Callable[[Command], Command]:
    """Return the option of an argument, spelled as it says or else like its name."""
    name = argument.name.replace("_", "-")
    is_flag = argument.kind == "flag"
    is_list = argument.kind == "texts"
    if argument.option:
        words = argument.option.split()
    elif not is_flag:
        is_number = argument.kind in ("integer", "number")
        words = [f"--{name}", "N" if is_number else name[0].upper()]
    elif argument.default is False:
        words = [f"--{name}"]
    else:
        words = [f"--{name}/--no-{name}"]
    types: dict[str, type] = {"integer": int, "number": float, "flag": bool}
    return click.option(
        *[word for word in words if word.startswith("-")],
        argument.name,
        default=argument.default,
        type=types.get(argument.kind, str),
        is_flag=is_flag,
        multiple=is_list,
        metavar=None if is_flag else words[-1],
        help=f"{argument.help[:-1]}; repeatable." if is_list else argument.help,
    )


def flags_of(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that options give, by key."""
    named = {
        "model.name": options.get("model"),
        "search.preset": options.get("preset"),
        "engine.url": options.get("engine"),
        "watch.poll": options.get("poll"),
    }
    flags = {key: value for key, value in named.items() if value}
    if options.get("yes"):
        flags["index.max_files"] = "0"
    return flags


def settings_of(root: str, options: dict[str, Any]) -> "Settings":
    """Return all settings; options are stronger than any other source."""
    from pathlib import Path

    from tamis.configuration import load
    from tamis.ingest.walk import checked_root

    file = options.get("config")
    config = Path(file) if file else None
    return load(checked_root(root), flags_of(options), config=config)


@contextmanager
def open_corpus(
    root: str, options: dict[str, Any], *, quiet: bool
) -> Iterator["Corpus"]:
    """Open the corpus that the options name; its index may not exist yet."""
    from tamis.corpus import Corpus, index_directory
    from tamis.ingest.walk import checked_root

    folder = checked_root(root)
    settings = settings_of(root, options)
    place = index_directory(folder, settings, options["index_dir"])
    with (
        watching(quiet) as progress,
        Corpus(folder, place, settings, progress) as corpus,
    ):
        yield corpus


def with_all_files(
    root: str, options: dict[str, Any], quiet: bool, work: "Callable[[Corpus], Done]"
) -> Done:
    """Work on a corpus. If it has too many files, ask on a terminal whether to index all of them."""
    from tamis.errors import TooManyFiles

    try:
        with open_corpus(root, options, quiet=quiet) as corpus:
            return work(corpus)
    except TooManyFiles as fault:
        if not asks() or not agrees(fault.message):
            raise
    options["yes"] = True
    with open_corpus(root, options, quiet=quiet) as corpus:
        return work(corpus)


# --- output, questions, progress ------------------------------------------------------------


class PlainProgress:
    """Prints a line now and then, on standard error."""

    def __init__(self) -> None:
        self._total = self._done = 0
        self._printed = time.monotonic()

    def done(self) -> None:
        """End a run; another may come."""

    def start(self, total: int, what: str = "files") -> None:
        """Begin a run over so many files, or so many passages to embed."""
        self._total = total
        self._done = 0
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


def shown_progress() -> PlainProgress:
    """Return a bar for a terminal, plain lines for anything else."""
    if sys.stderr.isatty():
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
        return
    progress = shown_progress()
    try:
        yield progress
    finally:
        progress.done()


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
