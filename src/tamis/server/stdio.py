"""How a server runs and, above all, how it ends: at once, whatever its threads are doing.

An index has one commit point, so nothing is lost when we go: what was being indexed is indexed next time.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TextIO

from tamis.errors import UsageError
from tamis.live.folders import Folder

if TYPE_CHECKING:
    from tamis.server.run import Address


log = logging.getLogger("tamis.mcp")


def serve_stdio(folders: Sequence[Folder]) -> NoReturn:
    """Until the client closes its end, or is gone, or we are interrupted."""
    signal.signal(
        signal.SIGINT, lambda *_: _leave()
    )  # asyncio's own would wait for the thread that reads
    heard, told = _take_pipes()
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    from tamis.server.mcp import Desk, run_stdio

    desk = Desk(folders, folders[0].settings.server)
    _run(lambda: run_stdio(desk, heard, told), desk.close)


def serve_http(
    folders: Sequence[Folder], where: str, token: str | None, others: Sequence[str]
) -> NoReturn:
    """Until we are told to stop."""
    from tamis.server.mcp import HTTP_PATH, Desk, http_application
    from tamis.server.run import check_token, listen, read_address, with_token

    address, settings = read_address(where), folders[0].settings.server
    check_token(address, token)
    desk = Desk(folders, settings)
    application = http_application(desk, (address.host, *others))
    application = with_token(application, token) if token else application
    _run(
        lambda: listen(application, address, HTTP_PATH, "--http HOST:PORT"), desk.close
    )


def serve_pages(
    folders: Sequence[Folder],
    address: "Address",
    token: str | None,
    others: Sequence[str],
    *,
    shown: bool,
) -> NoReturn:
    """The API, the page and the protocol for agents, until we are told to stop."""
    from tamis.server.http import AT_ONCE, Front, application
    from tamis.server.mcp import Desk
    from tamis.server.run import check_token, listen

    check_token(address, token)
    _check_models(folders)
    desk = Desk(folders, folders[0].settings.server, AT_ONCE)
    front = Front(desk, token)
    app = application(front, (address.host, *others), token)

    def ready(where: str) -> None:
        threading.Thread(target=front.warm, name="warm", daemon=True).start()
        if shown:
            threading.Thread(target=_show, args=(where,), daemon=True).start()

    _run(
        lambda: listen(app, address, "/", "--port P", ready=ready, ending=front.end),
        desk.close,
    )


def _check_models(folders: Sequence[Folder]) -> None:
    """A page that could answer no question is a fault of whoever starts it, not of whoever asks."""
    from tamis.corpus import index_directory
    from tamis.index.build import check_model
    from tamis.index.engines import open_index

    for folder in folders:
        named = folder.settings.model.name
        directory = index_directory(folder.path, folder.settings, folder.index_dir)
        index = open_index(folder.path, directory, folder.settings, lambda: 0)
        if named and index.capabilities.examinable:
            check_model(index.place, index.stored_facts(), named)


def _show(where: str) -> None:
    import webbrowser

    if not webbrowser.open(where):
        log.warning("no browser could be opened: go to %s", where)


def _take_pipes() -> tuple[TextIO, TextIO]:
    """The client's two pipes, for the protocol alone and for good; what anything else prints goes to stderr.

    The SDK would do so while it serves and give them back at the end, when threads may still be printing.
    """
    try:
        heard = os.fdopen(os.dup(0), encoding="utf-8", errors="replace")
        told = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
    except OSError as error:
        raise UsageError(
            "standard input, output and error must be open: a client talks to tamis mcp over them",
            hint="start it from a client (run: tamis install), or over HTTP: tamis mcp --http 127.0.0.1:7172",
        ) from error
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return heard, told


def _run(serve: Callable[[], None], close: Callable[[], None]) -> NoReturn:
    """Serve, then leave without waiting for threads that nobody waits for any more."""
    try:
        serve()
    except KeyboardInterrupt:
        log.info("interrupted")
    close()
    sys.stderr.flush()
    logging.shutdown()
    _leave()


def _leave() -> NoReturn:
    os._exit(0)


def _end_with(parent: int) -> None:
    """A client that was killed may have left its end of the pipe open in another process."""
    while os.getppid() == parent:
        time.sleep(0.5)
    log.warning("the client is gone")
    _leave()
