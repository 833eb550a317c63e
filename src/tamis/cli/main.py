"""The command line. Exit codes: 0 found or done, 1 nothing found or something to look at, 2 fault.

A command's module is imported when the command is named, and loads the rest of what it needs when
it runs.
"""

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from tamis.cli.terminal import colour
from tamis.errors import TamisError
from tamis.text.printable import visible, visible_lines

# Module and function of each command.
_COMMANDS = {
    "doctor": "index.doctor",
    "eval": "evaluate.evaluate",
    "explain-ignore": "index.explain_ignore",
    "index": "index.index",
    "init": "index.init",
    "install": "install.install",
    "mcp": "serve.mcp",
    "migrate": "index.migrate",
    "rebuild-index": "index.rebuild_index",
    "search": "search.search",
    "serve": "serve.serve",
    "status": "index.status",
    "watch": "serve.watch",
}


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command; turn every ending into its exit code."""
    for stream in (sys.stdout, sys.stderr):
        # Characters that the terminal cannot show are printed as escapes.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(args=arguments, prog_name="tamis", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        code = end.exit_code
    except click.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = 2
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:  # noqa: BLE001 - exit code 1 means "nothing found"
        code = _show_fault(error)
    sys.exit(code or 0)


def _show_fault(error: Exception) -> int:
    """Print a fault, with its hint or its traceback; return its exit code."""
    if isinstance(error, TamisError):
        label = click.style("error: ", fg="red", bold=True)
        click.echo(label + visible(error.message), err=True, color=colour())
        if error.hint:
            click.echo(f"hint: {visible(error.hint)}", err=True)
        return error.exit_code
    import traceback

    lines = "".join(traceback.format_exception(error))
    click.echo(visible_lines(lines), err=True, nl=False)
    click.echo(
        "error: this is a fault in tamis itself; the index and your files are as they were",
        err=True,
    )
    return 2


class _Group(click.Group):
    """A group that imports its commands when they are named."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, function = _COMMANDS[cmd_name].partition(".")
        command: click.Command = getattr(import_module(f"tamis.cli.{module}"), function)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Exit with 0 when the reader of our output goes away; click's 1 would mean "nothing found"."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise click.exceptions.Exit(0) from None


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="tamis", prog_name="tamis")
def cli() -> None:
    """Search Markdown, notes and code on this machine, with exact filters."""


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script of a shell: eval "$(tamis completion bash)"."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(cli, {}, "tamis", "_TAMIS_COMPLETE").source())
    return 0


# Placeholders, for the list of names; `get_command` imports the command itself.
cli.commands.update({name: click.Command(name) for name in _COMMANDS})
