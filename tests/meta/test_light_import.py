"""What is loaded when, and that nothing needs a network: each in a process of its own."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.corpora import write_files

HEAVY = (
    "numpy", "onnxruntime", "sqlite3", "tokenizers", "Stemmer", "simsimd", "yaml", "pyromark", "rich",
    "tree_sitter", "matplotlib", "mcp", "mcp_types", "anyio", "pydantic", "uvicorn", "watchfiles",
    "qdrant_client", "starlette", "nh3", "tomlkit",
)  # fmt: skip
SPY = """
import json, sys
sys.argv = {arguments!r}
from tamis.cli.main import main
code = None
try:
    main()
except SystemExit as end:
    code = end.code
print(json.dumps([code, [name for name in {heavy!r} if name in sys.modules]]), file=sys.stderr)
"""
# Any way to a network ends the process; a Unix socket would too.
WALL = """
import socket, sys
def wall(*_, **__):
    sys.exit("the network was asked for")
class Wall(socket.socket):
    __init__ = wall
socket.socket = Wall
socket.create_connection = socket.getaddrinfo = wall
sys.addaudithook(lambda event, _: wall() if event.startswith("socket.") else None)
from tamis.cli.main import main
main()
"""


def python(
    script: str, *arguments: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TAMIS_")
    }
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def loaded(folder: Path, *arguments: str) -> tuple[int, list[str]]:
    script = SPY.format(arguments=["tamis", *arguments], heavy=HEAVY)
    ran = python(script, folder=folder)
    code, modules = json.loads(ran.stderr.splitlines()[-1])
    return code, modules


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["search", "--help"],
        ["index", "--help"],
        ["eval", "--help"],
        ["install", "--help"],
        ["watch", "--help"],
        ["mcp", "--help"],
        ["serve", "--help"],
        ["completion", "bash"],
        [],
    ],
    ids=" ".join,
)
def test_help_is_light(arguments, tmp_path):
    _, modules = loaded(tmp_path, *arguments)
    assert modules == []


def test_importing_tamis_is_light(tmp_path):
    script = (
        f"import sys, tamis; print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert python(script, folder=tmp_path).stdout.strip() == "[]"


def test_a_search_without_a_model_loads_none(tmp_path):
    write_files(tmp_path, {"a.md": "alpha"})
    code, modules = loaded(tmp_path, "search", "alpha", "--model", "none", "-q")
    assert code == 0
    assert "onnxruntime" not in modules
    assert "tokenizers" not in modules
    assert "sqlite3" in modules, "the spy sees what is loaded"


OWN = """
import sys
from tamis.cli.main import main
try:
    main()
finally:
    own = [module for name, module in sys.modules.items() if name.split(".")[0] == "tamis"]
    print(*(module.__file__ for module in own), sep="\\n", file=sys.stderr)
"""


def test_a_search_by_words_loads_few_modules(tmp_path):
    """As `tools/house` counts them: without packages that are only a docstring."""
    write_files(tmp_path, {"a.md": "alpha"})
    arguments = ["search", "alpha", "--model", "none", "-q"]
    assert python(OWN, *arguments, folder=tmp_path).returncode == 0  # builds the index
    ran = python(OWN, *arguments, folder=tmp_path)
    assert ran.returncode == 0
    files = [Path(line) for line in ran.stderr.splitlines() if line.endswith(".py")]
    loaded = [
        file for file in files if len(ast.parse(file.read_text("utf-8")).body) > 1
    ]
    assert 20 < len(loaded) <= 60, sorted(file.stem for file in loaded)


def test_a_default_search_imports_no_optional_stage(tmp_path):
    write_files(tmp_path, {"a.md": "alpha"})
    script = (
        "import sys; from tamis.cli.main import main\n"
        "sys.argv = ['tamis', 'search', 'alpha', '--model', 'hashing', '-q', *sys.argv[1:]]\n"
        "try:\n    main()\n"
        "finally:\n    print([name for name in sys.modules if 'search.extras.' in name])"
    )
    for arguments, expected in (
        ([], "[]"),
        (["--mmr"], "['tamis.search.extras.diversity']"),
    ):
        ran = python(script, *arguments, folder=tmp_path)
        assert ran.stdout.splitlines()[-1] == expected


@pytest.mark.rows("R002-001", "R002-005", "C54")
@pytest.mark.parametrize("model", ["hashing", "granite"])
def test_no_command_needs_a_network(model, tmp_path):
    """Index and search behind a wall."""
    write_files(tmp_path, {"a.md": "# Alpha\n\nalpha and beta", "b.md": "gamma"})
    for arguments in (
        ["index"],
        ["search", "alpha", "--json"],
        ["rebuild-index"],
        ["status"],
    ):
        ran = python(WALL, *arguments, "--model", model, folder=tmp_path)
        assert ran.returncode == 0, ran.stderr
        assert "Traceback" not in ran.stderr


def test_nothing_is_left_for_a_later_report(tmp_path, monkeypatch):
    """A library that counts its uses keeps them in the home folder until it can send them: none may."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in (
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_STATE_HOME",
    ):
        monkeypatch.delenv(name, raising=False)
    folder = write_files(tmp_path / "notes", {"a.md": "# Alpha\n\nalpha and beta"})
    ran = python(WALL, "search", "alpha", "--model", "granite", "--json", folder=folder)
    assert ran.returncode == 0, ran.stderr
    left = {
        str(file.relative_to(home).parent) for file in home.rglob("*") if file.is_file()
    }
    assert left == {".cache/tamis"}


def test_the_wall_holds(tmp_path):
    script = WALL.replace(
        "from tamis.cli.main import main\nmain()", "socket.getaddrinfo('localhost', 80)"
    )
    assert "the network was asked for" in python(script, folder=tmp_path).stderr


def test_threads_and_connections_are_closed(tmp_path):
    """A search leaves no warning behind: every file it opened is closed again."""
    write_files(tmp_path, {"a.md": "alpha"})
    script = (
        "import sys; from tamis.cli.main import main\n"
        "sys.argv = ['tamis', 'search', 'alpha', '--model', 'hashing', '-q']\n"
        "main()"
    )
    ran = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""


LISTING = """
import sys, anyio
from pathlib import Path
from mcp import Client
from tamis.live.folders import served
from tamis.server.mcp import make_server
from tamis.server.state import ServerState

async def run():
    folders = served([sys.argv[1]], {"model.name": "granite"})
    for mode in ("auto", "legacy"):
        async with Client(make_server(ServerState(folders)), mode=mode) as client:
            assert len((await client.list_tools()).tools) == 5
            assert (await client.list_prompts()).prompts
            assert (await client.list_resource_templates()).resource_templates

anyio.run(run)
print([name for name in {heavy!r} if name in sys.modules])
"""


def test_a_server_lists_its_tools_before_it_loads_an_index(tmp_path):
    brought = {
        "mcp",
        "mcp_types",
        "anyio",
        "pydantic",
        "uvicorn",
        "starlette",
        "rich",
        "watchfiles",
    }  # by the protocol's SDK
    heavy = tuple(name for name in HEAVY if name not in brought)
    ran = python(
        LISTING.replace("{heavy!r}", repr(heavy)), str(tmp_path), folder=tmp_path
    )
    assert ran.stdout.strip() == "[]", ran.stderr


LATE = """
import sys
from starlette.testclient import TestClient
from tamis.live.folders import served
from tamis.server.http import Api, application
from tamis.server.run import Agents
from tamis.server.state import ServerState

def loaded():
    return [name for name in ("mcp", "mcp_types") if name in sys.modules]

state = ServerState(served([sys.argv[1]], {"model.name": "hashing"}))
site = application(Api(state), Agents(state), ())
hello = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
with TestClient(site, base_url="http://127.0.0.1:7171") as client:
    assert client.get("/").status_code == 200
    assert client.get("/api/v1/search?q=alpha").json()["results"]
    print(loaded())
    accept = {"accept": "application/json, text/event-stream"}
    for _ in range(2):
        answer = client.post("/mcp", json=hello, headers=accept)
        assert answer.status_code == 200 and "2025-11-25" in answer.text
    print(loaded())
state.close()
"""


def test_a_page_and_an_api_load_no_protocol_for_agents(tmp_path):
    """Its SDK takes half a second to load: it is loaded when somebody asks for it."""
    write_files(tmp_path, {"a.md": "alpha"})
    ran = python(LATE, str(tmp_path), folder=tmp_path)
    assert ran.stdout.split("\n")[:2] == ["[]", "['mcp', 'mcp_types']"], ran.stderr
