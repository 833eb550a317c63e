"""The MCP server as a process: what it writes where, and when it ends."""

import http.client
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from support.corpora import open_corpus, write_files
from support.served import ERAS, FILES, HELLO, LOCAL

TAMIS = [sys.executable, "-c", "from tamis.cli.main import main; main()"]
PATIENCE = 60  # seconds: machines that test are busy
MANY = {
    f"{n}.md": f"# {n}\n\n" + f"grass number {n} grows in the field {n}\n" * 40
    for n in range(1500)
}


def environment(**more):
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TAMIS_")
    } | more


STARTED: list[subprocess.Popen] = []


def start(*arguments, script=TAMIS):
    pipe, command = subprocess.PIPE, [*script, "mcp", *map(str, arguments)]
    STARTED.append(
        subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment()
        )
    )
    return STARTED[-1]


@pytest.fixture(autouse=True)
def none_left():
    """A test that failed leaves its server running, and its pipes open: the next one would hear of it."""
    yield
    while STARTED:
        server = STARTED.pop()
        server.kill()
        server.wait(PATIENCE)
        close(server)


def say(server, *messages):
    for message in messages:
        server.stdin.write(json.dumps(message).encode() + b"\n")
    server.stdin.flush()


def listen(server, wanted):
    """What the server says, up to the answer to a request."""
    heard = []
    while not heard or heard[-1].get("id") != wanted:
        line = server.stdout.readline()
        assert line, server.stderr.read().decode()
        heard.append(json.loads(line))
    return heard


def request(number, method, **params):
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def query(number, text="grass"):
    return request(
        number, "tools/call", name="query_documents", arguments={"query": text}
    )


@pytest.fixture
def shop(tmp_path):
    return write_files(tmp_path / "shop", FILES)


def inside(client_of, use):
    async def run():
        async with client_of() as client:
            return await use(client)

    return anyio.run(run)


async def work(client):
    tools = await client.list_tools()
    found = await client.call_tool(
        "query_documents", {"query": "refund of grass", "limit": 2}
    )
    wrong = await client.call_tool("query_documents", {"query": "x", "limt": 2})
    read = await client.read_resource("tamis://doc/README.md")
    return client.protocol_version, len(tools.tools), found, wrong, read


def check_work(done, mode):
    version, tools, found, wrong, read = done
    assert version == {"auto": "2026-07-28", "legacy": "2025-11-25"}[mode]
    assert tools == 5
    assert len(found.structured_content["results"]) == 2
    assert wrong.is_error
    assert "did you mean limit?" in wrong.content[0].text
    assert read.contents[0].text == FILES["README.md"]


@pytest.mark.parametrize("mode", ERAS)
def test_over_stdio(mode, shop):
    arguments = [*TAMIS[1:], "mcp", "--root", str(shop), "--model", "hashing"]
    server = StdioServerParameters(command=TAMIS[0], args=arguments)
    check_work(inside(lambda: Client(server, mode=mode), work), mode)


NOISE = """
import os, subprocess, threading, time
def noise():
    while True:
        print("noise", flush=True)
        os.write(1, b"noise\\n")
        subprocess.run(["echo", "noise"])
        time.sleep(0.01)
import tamis.server.run as door
state = door.ServerState
def loud(*args):
    threading.Thread(target=noise, daemon=True).start()
    return state(*args)
door.ServerState = loud
from tamis.cli.main import main
main()
"""


def test_nothing_but_the_protocol_is_written_to_stdout(shop):
    """Whatever libraries and children print, and whenever: while it starts, serves and ends."""
    server = start(
        "--root", shop, "--model", "hashing", script=[sys.executable, "-c", NOISE]
    )
    say(server, HELLO, READY)
    heard = listen(server, 1)
    for number in range(2, 22):
        say(server, query(number))
        heard += listen(server, number)
        time.sleep(0.05)
    server.stdin.close()
    rest = server.stdout.read()
    assert all(each["jsonrpc"] == "2.0" for each in heard)
    assert rest == b""
    assert b"noise" in server.stderr.read()
    assert server.wait(PATIENCE) == 0


def close(server):
    for stream in (server.stdin, server.stdout, server.stderr):
        stream.close()


def test_lines_that_are_no_messages_are_answered_and_do_not_end_it(shop):
    """With the request's id, where there is one to be found."""
    server = start("--root", shop, "--model", "hashing")
    deep = "[" * 300 + "]" * 300
    for junk, number in (
        (b"{", None),
        (b"\xff\xfe", None),
        (b"[" * 100_000, None),
        (b'{"jsonrpc": "2.0"}', None),
        (b"null", None),
        (
            b'{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"x": "\\ud800"}}',
            5,
        ),
        (
            f'{{"jsonrpc": "2.0", "id": "six", "method": "tools/call", "params": {{"x": {deep}}}}}'.encode(),
            "six",
        ),
        (b'{"jsonrpc": "2.0", "id": 7, "method": 8}', 7),
    ):
        server.stdin.write(b"\n" + junk + b"\n")  # a blank line is nothing
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        assert answer["id"] == number
        assert answer["error"]["code"] == -32700
    say(server, HELLO, READY, query(2))
    assert listen(server, 2)[-1]["result"]["structuredContent"]["results"]
    server.stdin.close()
    assert server.wait(PATIENCE) == 0


def test_it_ends_with_its_input_even_while_it_indexes(tmp_path):
    """A first index of these files takes many times as long as we wait."""
    root = write_files(tmp_path / "many", MANY)
    server = start("--root", root, "--model", "granite")
    say(server, HELLO, READY, query(2))
    answer = listen(server, 2)[-1]["result"]["structuredContent"]
    assert answer["freshness"]["complete"] is False
    server.stdin.close()
    assert server.wait(PATIENCE) == 0


def test_it_ends_when_a_call_is_under_way(shop):
    server = start("--root", shop, "--model", "hashing")
    say(server, HELLO, READY, query(2), query(3))
    server.stdin.close()
    assert server.wait(PATIENCE) == 0


MIDDLE = """
import subprocess, sys, time
server = subprocess.Popen(sys.argv[1:], stdin=sys.stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(server.pid, flush=True)
time.sleep(600)
"""


def is_running(process):
    try:
        state = (
            Path(f"/proc/{process}/stat")
            .read_text("utf-8")
            .rpartition(")")[2]
            .split()[0]
        )
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="looks at processes in /proc"
)
def test_it_ends_when_its_client_is_killed(shop):
    """Though somebody else still holds the other end of its input."""
    reading, writing = os.pipe()
    command = [sys.executable, "-c", MIDDLE, *TAMIS, "mcp", "--root", str(shop)]
    client = subprocess.Popen(
        command, stdin=reading, stdout=subprocess.PIPE, env=environment()
    )
    os.close(reading)
    server = int(client.stdout.readline())
    time.sleep(2)
    assert is_running(server)
    client.kill()
    client.wait(PATIENCE)
    client.stdout.close()
    end = time.monotonic() + PATIENCE
    while is_running(server) and time.monotonic() < end:
        time.sleep(0.1)
    alive = is_running(server)
    os.close(writing)
    assert not alive


def refused(arguments, folder, command="mcp", **more):
    """A server that did not start, and said so where people look."""
    ran = subprocess.run(
        [*TAMIS, command, *arguments],
        cwd=folder,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr
    return ran


@pytest.mark.parametrize("where", ["home", "top"])
def test_a_home_folder_is_not_indexed_by_accident(where, tmp_path):
    folder = tmp_path if where == "home" else Path("/")
    ran = refused([], folder, HOME=str(tmp_path))
    assert "--root FOLDER" in ran.stderr
    ran = refused([], folder, "serve", HOME=str(tmp_path))
    assert "tamis serve FOLDER" in ran.stderr
    assert "--root" not in ran.stderr
    assert not (folder / ".tamis").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--root", "nowhere"], "does not exist"),
        (["--model", "foo"], "model.name is 'foo'"),
        (["--http", "nonsense"], "is no address"),
        (["--http", "0.0.0.0:0"], "--token"),
        (["--http", "127.0.0.1:0", "--token", "short"], "token"),
        (["--log-file", "no/such/folder/log"], "--log-file"),
        (["--root", ".", "--root", "/usr", "--index-dir", "x"], "--index-dir"),
    ],
)
def test_what_cannot_be_served_is_said_at_once(arguments, said, shop):
    assert said in refused(arguments, shop).stderr


def test_a_page_takes_no_unknown_model(shop):
    said = refused(["--port", "0", "--model", "foo"], shop, "serve").stderr
    assert said == refused(["x", "--model", "foo"], shop, "search").stderr


def test_a_page_is_not_served_over_an_index_of_another_model(tmp_path):
    """Every question would be refused; agents are told with each answer what to do."""
    root = write_files(tmp_path / "root", {"a.md": "alpha"})
    open_corpus(root).close()
    said = refused(["--port", "0", "--model", "granite"], root, "serve").stderr
    assert "was made with the model hashing, not granite" in said
    assert "tamis rebuild-index" in said


def test_the_log_goes_to_a_file(shop, tmp_path):
    server = start("--root", shop, "--model", "hashing", "--log-file", tmp_path / "log")
    say(server, HELLO, READY, {"jsonrpc": "2.0", "nonsense": True}, query(2))
    listen(server, 2)
    server.stdin.close()
    assert server.wait(PATIENCE) == 0
    assert server.stderr.read() == b""
    assert (tmp_path / "log").exists()


def test_an_interrupt_ends_it_at_once(shop):
    """The first one, though the client's pipe stays open and a thread waits for what comes through it."""
    server = start("--root", shop, "--model", "hashing")
    say(server, HELLO, READY)
    listen(server, 1)
    server.send_signal(signal.SIGINT)
    assert server.wait(PATIENCE) == 0
    assert server.stderr.read() == b""


def test_without_pipes_there_is_no_server(shop):
    command = " ".join(map(shlex.quote, [*TAMIS, "mcp", "--root", str(shop)]))
    ran = subprocess.run(
        f"{command} <&-", shell=True, env=environment(), capture_output=True, text=True
    )
    assert ran.returncode == 2
    assert "must be open" in ran.stderr


# --- HTTP -----------------------------------------------------------------------------------


@contextmanager
def over_http(root, *more):
    server = start("--root", root, "--model", "hashing", "--http", "127.0.0.1:0", *more)
    try:
        said = server.stderr.readline().decode()
        found = re.fullmatch(r"listening on (http://127\.0\.0\.1:(\d+)/mcp)\n", said)
        assert found, said + server.stderr.read().decode()
        yield found[1], int(found[2]), server
    finally:
        server.terminate()
        server.wait(PATIENCE)


@pytest.mark.parametrize("mode", ERAS)
def test_over_http(mode, shop):
    with over_http(shop) as (url, _, server):
        check_work(inside(lambda: Client(url, mode=mode), work), mode)
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0
        assert server.stdout.read() == b""


@pytest.mark.parametrize("mode", ERAS)
def test_over_http_with_a_token(mode, shop):
    with over_http(shop, "--token", "long enough") as (url, port, _):
        assert status(port, LOCAL | {"host": f"127.0.0.1:{port}"}) == 401

        async def run():
            headers = {"Authorization": "Bearer long enough"}
            async with (
                create_mcp_http_client(headers=headers) as plain,
                Client(
                    streamable_http_client(url, http_client=plain), mode=mode
                ) as client,
            ):
                return await work(client)

        check_work(anyio.run(run), mode)


def status(port, headers, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.putrequest("POST", "/mcp", skip_host=True, skip_accept_encoding=True)
        body = json.dumps(HELLO).encode() if body is None else body
        for name, value in (headers | {"content-length": str(len(body))}).items():
            connection.putheader(name, value)
        connection.endheaders(body)
        return connection.getresponse().status
    finally:
        connection.close()


def test_over_http_others_are_refused(shop):
    with over_http(shop, "--allow-host", "shop.example") as (_, port, _):
        assert status(port, LOCAL) == 200
        assert status(port, LOCAL | {"host": "shop.example"}) == 200
        assert status(port, LOCAL | {"host": "evil.example"}) == 403
        assert status(port, LOCAL | {"origin": "https://evil.example"}) == 403
        assert status(port, LOCAL, b"x" * 1_100_000) == 413


def test_a_port_that_is_taken(shop):
    with over_http(shop) as (_, port, _):
        said = refused(["--http", f"127.0.0.1:{port}"], shop).stderr
        assert "choose another port with --http HOST:PORT" in said
        assert "ERROR" not in said
        said = refused(["--port", str(port)], shop, "serve").stderr
        assert "choose another port with --port" in said
        assert "already in use" in said
        assert "ERROR" not in said


def test_it_stops_while_it_indexes(tmp_path):
    root = write_files(tmp_path / "many", MANY)
    with over_http(root) as (url, _, server):

        async def ask(client):
            return await client.call_tool("query_documents", {"query": "grass"})

        assert inside(lambda: Client(url), ask).structured_content["freshness"]
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0
