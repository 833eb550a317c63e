"""Options and arguments that several commands have."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

FOLDER = click.Path(path_type=str, readable=False)  # not checked by click: our message says what to do
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
yes_option = click.option("--yes", is_flag=True, help="Index however many files there are (index.max_files).")
root_argument = click.argument("root", default=".", type=FOLDER)


def shared_options(command: Command) -> Command:
    """Options that every command on an index has."""
    for option in (
        click.option(
            "--model", metavar="NAME", help="Embedder: granite, bge, hashing, or none for words only."
        ),
        click.option("--config", metavar="FILE", help="Read this instead of the root's tamis.toml."),
        click.option("--engine", metavar="URL", help="The index is on this Qdrant server (docs/cluster.md)."),
        click.option("--index-dir", metavar="DIR", help="Where the index is kept (default: .tamis in ROOT)."),
    ):
        command = option(command)
    return command
