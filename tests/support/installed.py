"""The MCP clients of other people: installed once, pinned by package-lock.json, and run against a server.

They live in a folder of the environment that runs the tests, outside git. Where they cannot be installed the
tests say so and skip; in CI (`CI` or `CLIENTS_REQUIRED` is set) that is a failure.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, NoReturn, TextIO

import pytest

from support.corpora import Files, write_files

HERE: Final = Path(__file__).resolve().parents[1] / "clients"
FOLDER: Final = Path(sys.prefix) / "clients"
_PINS: Final = ("package.json", "package-lock.json", ".npmrc")
_ENVIRONMENT: Final = dict(
    os.environ
)  # before a test gives itself a home: npm reads its settings from there
_TAMIS: Final = (sys.executable, "-m", "tamis")
_MODEL: Final = ("--model", "hashing")
_NODE: Final = (22, 19)  # the Inspector's
_PATIENCE: Final = 300  # seconds until something that hangs is an error


def run(client: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A client with its arguments, on the Node that was installed with it."""
    programs = _installed() / "node_modules" / ".bin"
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [programs / client, *arguments],
        env=os.environ
        | {"PATH": path, "NO_COLOR": "1", "MCP_INSPECTOR_SECRET_STORE": "memory"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=_PATIENCE,
    )


def package(name: str) -> Path:
    """The folder of one of the packages."""
    return _installed() / "node_modules" / name


def indexed(root: Path, files: Files) -> Path:
    """A folder that is indexed already: how one is served that is not, is tested elsewhere."""
    write_files(root, files)
    subprocess.run([*_TAMIS, "index", root, *_MODEL], check=True, capture_output=True)
    return root


def pages(*roots: Path) -> tuple[str, ...]:
    """The command that serves the page over folders."""
    return (*_TAMIS, "serve", *map(str, roots), "--port", "0", *_MODEL)


def mcp(root: Path) -> tuple[str, ...]:
    """The command that serves a folder."""
    return (*_TAMIS, "mcp", "--root", str(root), *_MODEL)


@contextmanager
def serving(*command: str | Path) -> Iterator[str]:
    """The address of a server that says on standard error where it listens, until the block ends."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)
        try:
            yield _address(server, log)
        finally:
            server.terminate()
            server.wait(_PATIENCE)


def _address(server: subprocess.Popen[bytes], log: TextIO) -> str:
    while True:
        ended = server.poll() is not None
        said = os.pread(log.fileno(), 10_000, 0).decode()
        if listening := re.search(r"listening on (\S+)\n", said):
            return listening[1]
        assert not ended, f"the server ended before it listened:\n{said}"
        time.sleep(0.05)


def _installed() -> Path:
    if why := _missing():
        unavailable(f"the MCP clients of tests/clients cannot run here: {why}")
    return FOLDER


def unavailable(text: str) -> NoReturn:
    """A test that needs what is not here: skipped, with the reason; in CI a failure."""
    if _ENVIRONMENT.get("CI") or _ENVIRONMENT.get("CLIENTS_REQUIRED"):
        pytest.fail(text, pytrace=False)
    pytest.skip(text)


@cache
def _missing() -> str | None:
    """Install what is not there, and say what is missing then. Several processes may ask; one installs."""
    with FOLDER.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return (None if _is_current() else _install()) or _old_node()


def _is_current() -> bool:
    return all(
        (FOLDER / name).is_file()
        and (FOLDER / name).read_bytes() == (HERE / name).read_bytes()
        for name in _PINS
    )


def _install() -> str | None:
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    unfinished = FOLDER.with_suffix(".unfinished")
    for folder in (FOLDER, unfinished):
        shutil.rmtree(folder, ignore_errors=True)
    unfinished.mkdir()
    for name in _PINS:
        shutil.copy(HERE / name, unfinished)
    # Its warnings are about the Node that runs npm, which is not the one that runs the clients.
    command = [npm, "ci", "--loglevel=error", "--fetch-retries=1"]
    said = subprocess.run(
        command, cwd=unfinished, env=_ENVIRONMENT, capture_output=True, encoding="utf-8"
    )
    if said.returncode:
        return "npm ci failed: " + " ".join(said.stderr.splitlines()[:4])
    unfinished.rename(FOLDER)
    return None


def _old_node() -> str | None:
    """Where no Node comes with the clients, the machine's own has to do."""
    programs = f"{FOLDER / 'node_modules' / '.bin'}{os.pathsep}{_ENVIRONMENT['PATH']}"
    node = shutil.which("node", path=programs)
    if node is None:
        return "there is no Node"
    said = subprocess.run(
        [node, "--version"], capture_output=True, encoding="utf-8", check=True
    ).stdout
    version = tuple(map(int, said.strip().removeprefix("v").split(".")))
    return f"Node {said.strip()} is too old" if version < _NODE else None
