"""Options and arguments that several commands have."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from tamis.corpus import Corpus
    from tamis.progress import Progress
    from tamis.request import Argument
    from tamis.settings import Settings
import json
import os

Command = TypeVar("Command", bound=Callable[..., Any])

FOLDER = click.Path(
    path_type=str, readable=False
)  # not checked by click: our message says what to do
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="No progress and no summary."
)
yes_option = click.option(
    "--yes", is_flag=True, help="Index however many files there are (index.max_files)."
)
root_argument = click.argument("root", default=".", type=FOLDER)


def shared_options(command: Command) -> Command:
    """Options that every command on an index has."""
    for option in (
        click.option(
            "--model",
            metavar="NAME",
            help="Embedder: granite, bge, hashing, or none for words only.",
        ),
        click.option(
            "--config",
            metavar="FILE",
            help="Read this instead of the root's tamis.toml.",
        ),
        click.option(
            "--engine",
            metavar="URL",
            help="The index is on this Qdrant server (docs/cluster.md).",
        ),
        click.option(
            "--index-dir",
            metavar="DIR",
            help="Where the index is kept (default: .tamis in ROOT).",
        ),
    ):
        command = option(command)
    return command


def search_options(arguments: "Sequence[Argument]") -> Callable[[Command], Command]:
    """Give a command an option for each argument of a search but the query."""

    def decorate(command: Command) -> Command:
        for each in reversed(arguments):
            if not each.required:
                command = option_of(each)(command)
        return command

    return decorate


def option_of(argument: "Argument") -> Callable[[Command], Command]:
    """Return the option of an argument, spelled as it says or else like its name."""
    name = argument.name.replace("_", "-")
    is_flag = argument.kind == "flag"
    usual = f"--{name}"
    if not is_flag:
        usual += f" {argument.kind.upper()}"
    elif argument.default is not False:
        usual += f"/--no-{name}"
    words = (argument.option or usual).split()
    is_list = argument.kind == "texts"
    return click.option(
        *[word for word in words if word.startswith("-")],
        argument.name,
        default=argument.default,
        type={"integer": int, "number": float, "flag": bool}.get(argument.kind, str),
        is_flag=is_flag,
        multiple=is_list,
        metavar=None if is_flag else words[-1],
        help=f"{argument.help[:-1]}; repeatable." if is_list else argument.help,
    )


Done = TypeVar("Done")


def settings_of(root: str, options: dict[str, Any]) -> "Settings":
    """All settings, with what the options say as the strongest."""
    from pathlib import Path

    from tamis.configuration import load
    from tamis.ingest.walk import checked_root

    given = {
        "model.name": options.get("model") or None,
        "search.preset": options.get("preset") or None,
    }
    given["index.max_files"] = "0" if options.get("yes") else None
    given["engine.url"] = options.get("engine") or None
    given |= {name: value for name, value in options.items() if "." in name}
    flags = {name: value for name, value in given.items() if value is not None}
    return load(
        checked_root(root),
        flags,
        config=Path(options["config"]) if options.get("config") else None,
    )


@contextmanager
def open_corpus(
    root: str, options: dict[str, Any], *, quiet: bool
) -> Iterator["Corpus"]:
    """The corpus that the options name, until the block ends; its index may not be there yet."""
    from tamis.corpus import Corpus, index_directory
    from tamis.ingest.walk import checked_root

    folder, settings = checked_root(root), settings_of(root, options)
    place = index_directory(folder, settings, options["index_dir"])
    with (
        watching(quiet) as progress,
        Corpus(folder, place, settings, progress) as corpus,
    ):
        yield corpus


def with_all_files(
    root: str, options: dict[str, Any], quiet: bool, work: "Callable[[Corpus], Done]"
) -> "Done":
    """Work on a corpus. Where there are too many files, whoever sits at a terminal is asked if all count."""
    from tamis.errors import TooManyFiles

    try:
        with open_corpus(root, options, quiet=quiet) as corpus:
            return work(corpus)
    except TooManyFiles as fault:
        if not asks() or not _agrees(fault.message):
            raise
    options["yes"] = True
    with open_corpus(root, options, quiet=quiet) as corpus:
        return work(corpus)


def asks() -> bool:
    """Whether somebody is there to be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _agrees(message: str) -> bool:
    from tamis.text.printable import visible

    return click.confirm(
        f"{visible(message)}. Index all of them?", default=False, err=True
    )


@contextmanager
def watching(quiet: bool) -> Iterator["Progress"]:
    """What shows how far a run is: a bar or lines; nothing when quiet."""
    from tamis.cli.terminal import progress_for
    from tamis.progress import Silent

    if quiet:
        yield Silent()
    else:
        with progress_for(sys.stderr.isatty()) as watcher:
            yield watcher


def print_json(value: Any) -> None:
    from tamis.text.printable import escaped

    click.echo(escaped(json.dumps(value, ensure_ascii=not _speaks_utf8(), indent=2)))


def _speaks_utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace(
        "-", ""
    ) == "utf8"


def print_lines(lines: Iterator[str]) -> None:
    wanted = colour()
    for line in lines:
        click.echo(line, color=wanted)


def colour() -> bool | None:
    """NO_COLOR is a promise to people who cannot use colours; click drops them by itself on a pipe."""
    return False if os.environ.get("NO_COLOR") else None
