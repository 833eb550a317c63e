"""Options and arguments that several commands have, and the corpus that they name."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from tamis.cli.terminal import agrees, asks, watching
from tamis.request import Argument

if TYPE_CHECKING:
    from tamis.corpus import Corpus
    from tamis.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])
Done = TypeVar("Done")

# Not checked by click: our own message says what to do.
FOLDER: Final = click.Path(path_type=str, readable=False)
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
