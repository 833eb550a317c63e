"""Count the files and functions of tamis that a search, an indexing run and a server call cross.

    .venv/bin/python tools/walks.py

Each walk runs `python -m tamis` in a process of its own, with a profiler in all of its threads.
A function counts once, however often it is called; methods and lambdas are functions, while
comprehensions and class bodies are not. A file counts if one of its functions counts. Calls that a
module makes while it is imported do not count.

The command line is measured from start to end; a server only during the second of two equal calls.

The package is the one that this interpreter imports, so `PYTHONPATH` chooses the tree.
"""

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

CHILD = "--child"  # the option that makes this script the process that is measured
PATIENCE = 120  # seconds until a process that does not answer is given up
SETTLE = 0.5  # seconds that a server gets to finish what follows an answer
COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}
QUESTION = "how often is a failed payment tried again"
FILES = {
    "payments.md": """\
# Payments

A card is charged when an order ships, never before. A refund goes back to the same card.

## When a charge fails

The order waits. We try again as [retries](retries.md) says, then write to the customer.
""",
    "retries.md": """\
---
tags: [operations]
---
# Retries

Calls to the payment provider are retried five times, with a pause that doubles each time.
Only timeouts and status 503 are retried: a card that was declined stays declined.
""",
    "shipping.md": """\
# Shipping

Parcels leave on the day of the order, see [payments](payments.md).
""",
}
MORE = """\
# Returns

A parcel may be sent back within thirty days. The [payment](payments.md) is refunded.
"""


@dataclass(frozen=True, slots=True)
class Walk:
    """What one use of tamis crossed: files, functions and loaded modules."""

    name: str
    files: int
    functions: int
    modules: int


class Recorder:
    """A profiler that keeps each function of a package that is called."""

    def __init__(self, package: str) -> None:
        self.package = os.path.join(package, "")
        self.called: set[tuple[str, str, int]] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not self.is_ours(frame.f_code):
            return
        code = frame.f_code
        function = (code.co_filename, code.co_qualname, code.co_firstlineno)
        if function in self.called or not is_function(code):
            return
        if not self.is_importing(frame):
            self.called.add(function)

    def is_ours(self, code: CodeType) -> bool:
        """Return True if code belongs to the package."""
        return code.co_filename.startswith(self.package)

    def is_importing(self, frame: FrameType) -> bool:
        """Return True if one of our modules, which is being imported, has led to this call."""
        caller = frame.f_back
        while caller is not None:
            is_module = caller.f_code.co_name == "<module>"
            is_program = caller.f_globals["__name__"] == "__main__"
            if is_module and not is_program and self.is_ours(caller.f_code):
                return True
            caller = caller.f_back
        return False

    def write(self, file: Path) -> None:
        """Write what was called, and which modules are loaded; the file appears complete."""
        names = list(sys.modules)
        modules = [name for name in names if name.split(".")[0] == "tamis"]
        record = {"called": list(self.called), "modules": modules}
        draft = file.with_suffix(".draft")
        draft.write_text(json.dumps(record))
        draft.replace(file)


def is_function(code: CodeType) -> bool:
    """Return True for functions and lambdas; False for modules, classes and comprehensions."""
    is_class_or_module = not code.co_flags & CO_OPTIMIZED
    return not is_class_or_module and code.co_name not in COMPREHENSIONS


def package_folder() -> str:
    """Return the folder of the package, which is not imported."""
    spec = find_spec("tamis")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("tamis cannot be imported by this Python")
    return os.path.abspath(spec.submodule_search_locations[0])


def run_child(out: Path, arguments: list[str]) -> None:
    """Run `python -m tamis` with a profiler; write its record to a file in the end.

    SIGUSR1 forgets what was called so far. SIGUSR2 writes the record at once.
    """
    recorder = Recorder(package_folder())

    def forget(*_: object) -> None:
        recorder.called.clear()
        ready_file(out).touch()

    signal.signal(signal.SIGUSR1, forget)
    signal.signal(signal.SIGUSR2, lambda *_: recorder.write(out))
    sys.argv = ["tamis", *arguments]
    threading.setprofile(recorder)
    sys.setprofile(recorder)
    try:
        runpy.run_module("tamis", run_name="__main__")
    finally:
        sys.setprofile(None)
        recorder.write(out)


def ready_file(out: Path) -> Path:
    """Return the file that appears once a child has forgotten what was called before."""
    return out.with_suffix(".ready")


def command(out: Path, *arguments: str) -> list[str]:
    """Return the command that runs tamis as a measured child."""
    script = str(Path(__file__).resolve())
    return [sys.executable, script, CHILD, str(out), *arguments]


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a user who has set nothing, with a cache of its own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("TAMIS_")
    }
    kept["XDG_CACHE_HOME"] = str(folder / "cache")
    kept["XDG_CONFIG_HOME"] = str(folder / "config")
    return kept


def wait_for(file: Path) -> None:
    """Wait until a file is there."""
    end = time.monotonic() + PATIENCE
    while not file.exists():
        if time.monotonic() > end:
            raise TimeoutError(f"{file} did not appear")
        time.sleep(0.01)


def read_walk(name: str, out: Path) -> Walk:
    """Count what a record holds."""
    record = json.loads(out.read_text())
    files = {file for file, _, _ in record["called"]}
    return Walk(name, len(files), len(record["called"]), len(record["modules"]))


class Bench:
    """A folder of documents with an index, and the walks through it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "documents"
        self.log = folder / "server.log"
        self.environment = environment(folder)
        self.root.mkdir()
        for name, text in FILES.items():
            (self.root / name).write_text(text)
        self.run("first index", "index", str(self.root))

    def run(self, name: str, *arguments: str) -> Walk:
        """Measure one run of the command line, from its start to its end."""
        out = self.record(name)
        ran = subprocess.run(
            command(out, *arguments),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if ran.returncode:
            raise RuntimeError(f"tamis {' '.join(arguments)} failed:\n{ran.stderr}")
        return read_walk(name, out)

    def record(self, name: str) -> Path:
        """Return the file for the record of a walk."""
        return self.folder / f"{name.replace(' ', '-')}.json"

    def search(self, name: str, *options: str) -> Walk:
        """Measure a search by the command line over the index that is there."""
        return self.run(name, "search", QUESTION, str(self.root), *options)

    def index_one(self, name: str) -> Walk:
        """Measure a run that indexes one new Markdown file."""
        (self.root / "returns.md").write_text(MORE)
        return self.run(name, "index", str(self.root))

    def mcp_call(self, name: str) -> Walk:
        """Measure a call of `query_documents` by a client that has called before."""
        out = self.record(name)
        with self.started(out, "mcp", "--root", str(self.root)) as server:
            client = McpClient(server)
            client.greet()
            return self.second_of(name, server, out, client.search)

    def http_call(self, name: str) -> Walk:
        """Measure a search over HTTP by a client that has searched before."""
        out = self.record(name)
        with self.started(out, "serve", str(self.root), "--port", "0") as server:
            address = self.listening()
            query = urlencode({"q": QUESTION})

            def search() -> None:
                with urlopen(
                    f"{address}api/v1/search?{query}", timeout=PATIENCE
                ) as answer:
                    found = json.load(answer)
                if not found["results"]:
                    raise RuntimeError("the HTTP search found nothing")

            return self.second_of(name, server, out, search)

    @contextmanager
    def started(self, out: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Start a server as a measured child, and end it afterwards."""
        with self.log.open("w") as errors:
            server = subprocess.Popen(
                command(out, *arguments),
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        limit = threading.Timer(PATIENCE, server.kill)
        limit.start()
        try:
            yield server
        except Exception:
            print(self.log.read_text(), file=sys.stderr)
            raise
        finally:
            limit.cancel()
            server.kill()
            server.communicate()

    def listening(self) -> str:
        """Wait until the server has printed its address, and return that."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            found = re.search(r"http://\S+/", self.log.read_text())
            if found:
                return found[0]
            time.sleep(0.05)
        raise TimeoutError("the server printed no address")

    def second_of(
        self,
        name: str,
        server: subprocess.Popen[str],
        out: Path,
        call: Callable[[], None],
    ) -> Walk:
        """Measure the second of two equal calls: the first one opens the index."""
        call()
        time.sleep(SETTLE)
        server.send_signal(signal.SIGUSR1)
        wait_for(ready_file(out))
        call()
        time.sleep(SETTLE)
        server.send_signal(signal.SIGUSR2)
        wait_for(out)
        return read_walk(name, out)


class McpClient:
    """A client of the Model Context Protocol that speaks to a server's stdin and stdout."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        assert server.stdin is not None
        assert server.stdout is not None
        self.requests = server.stdin
        self.answers = server.stdout
        self.number = 0

    def greet(self) -> None:
        """Open the session."""
        self.ask(
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "walks", "version": "1"},
            },
        )
        self.send({"method": "notifications/initialized"})

    def search(self) -> None:
        """Call `query_documents`."""
        arguments = {"query": QUESTION}
        answer = self.ask(
            "tools/call", {"name": "query_documents", "arguments": arguments}
        )
        if answer.get("isError"):
            raise RuntimeError(f"query_documents failed: {answer}")

    def ask(self, method: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a request and return the result of its answer."""
        self.number += 1
        self.send({"id": self.number, "method": method, "params": parameters})
        for line in self.answers:
            answer = json.loads(line)
            if answer.get("id") == self.number:
                return answer["result"]
        raise RuntimeError(f"the server ended before it answered {method}")

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message."""
        self.requests.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.requests.flush()


def walks() -> Iterator[Walk]:
    """Measure all walks, one after the other."""
    with tempfile.TemporaryDirectory(prefix="tamis-walks.") as folder:
        bench = Bench(Path(folder))
        yield bench.search("command line, words only", "--quick")
        yield bench.search("command line, default")
        yield bench.index_one("index one Markdown file")
        yield bench.mcp_call("MCP call")
        yield bench.http_call("HTTP call")


def main() -> None:
    """Print the table, or run as the measured child."""
    if sys.argv[1:2] == [CHILD]:
        out, *arguments = sys.argv[2:]
        run_child(Path(out), arguments)
        return
    print(f"{'':28}{'files':>8}{'functions':>12}{'modules loaded':>17}")
    for walk in walks():
        print(
            f"{walk.name:28}{walk.files:8}{walk.functions:12}{walk.modules:17}",
            flush=True,
        )


if __name__ == "__main__":
    main()
