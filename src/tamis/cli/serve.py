"""`tamis mcp` and `serve`: for agents, and for people and programs over HTTP."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from tamis.cli.options import FOLDER, shared_options

if TYPE_CHECKING:
    from tamis.live.folders import Folder


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
    question. After it, files are watched (server.watch).
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
    roots: Sequence[str],
    options: Mapping[str, Any],
    option: str,
) -> "tuple[Folder, ...]":
    from tamis.live.folders import served

    given = {name: options[name] for name in ("model", "config", "index_dir", "engine")}
    return served(roots, **given, option=option)


def _log_to(file: str | None) -> None:
    import logging

    from tamis.text.printable import LogLines

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
