"""Several servers over one index, each asked hundreds of times while files change and one server is killed.

python benchmarks/mcp_together.py [--servers 4] [--calls 500] [--files 300] [--model hashing]

Every answer must be an answer: no error, no word of a lock. And none may be older than it says: every change
that was made before `freshness.as_of` is in it. A writer changes files all the time; each file says which
version it is, and the writer remembers when each version was whole on disk.
"""

import argparse
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError

TAMIS = Path(sys.executable).with_name("tamis")
VERSION = re.compile(r"version (\d+)")


class Writer(threading.Thread):
    """Changes one file after another, and knows when each version was written."""

    def __init__(self, root: Path, files: int, pause: float) -> None:
        super().__init__(daemon=True)
        self.root, self.files, self.pause = root, files, pause
        self.stopped = threading.Event()
        self.written: dict[int, list[float]] = {
            number: [] for number in range(files)
        }  # by version
        self.changes = 0

    def write(self, number: int) -> None:
        version = len(self.written[number])
        file = self.root / f"{number}.md"
        aside = self.root / f".{number}.new"
        aside.write_text(
            f"# Note zebra{number}\n\nThis is version {version} of zebra{number}.\n",
            encoding="utf-8",
        )
        aside.replace(file)
        self.written[number].append(time.time())

    def run(self) -> None:
        chance = random.Random(2)
        while not self.stopped.wait(self.pause):
            self.write(chance.randrange(self.files))
            self.changes += 1

    def age(self, number: int, version: int, as_of: str) -> float | None:
        """By how many seconds an answer is older than it says: a later version was there before `as_of`."""
        moment = datetime.fromisoformat(
            as_of
        ).timestamp()  # whole seconds, rounded down
        later = self.written[number][version + 1 : version + 2]
        return moment - later[0] if later and later[0] < moment else None


async def hammer(
    client: Client, calls: int, writer: Writer, seed: int, counts: Counter[str]
) -> None:
    chance = random.Random(seed)
    for _ in range(calls):
        number = chance.randrange(writer.files)
        asked = {"query": f"zebra{number}", "limit": 3}
        result = await client.call_tool("query_documents", asked)
        counts["calls"] += 1
        if result.is_error:
            counts[f"ERROR {result.content[0].text[:200]}"] += 1
            continue
        judge(result.structured_content, number, writer, counts)


def judge(
    told: dict[str, Any], number: int, writer: Writer, counts: Counter[str]
) -> None:
    counts["complete" if told["freshness"]["complete"] else "partial, and says so"] += 1
    if "lock" in told["freshness"]["note"]:
        counts[f"LOCK {told['freshness']['note'][:200]}"] += 1
    as_of = told["freshness"]["as_of"]
    if as_of is None:
        return
    shown = [each for each in told["results"] if each["path"] == f"{number}.md"]
    if not shown:
        counts["MISSING, though said to be known"] += 1
        return
    found = VERSION.search(shown[0]["content"])
    late = writer.age(number, int(found[1]), as_of) if found else None
    if late is not None:
        counts["STALE"] += 1
        counts["worst staleness in ms"] = max(
            counts["worst staleness in ms"], int(late * 1000)
        )


async def serve_and_ask(
    root: Path, model: str, calls: int, writer: Writer, seed: int, counts: Counter[str]
) -> None:
    command = StdioServerParameters(
        command=str(TAMIS), args=["mcp", "--root", str(root), "--model", model]
    )
    async with Client(command) as client:
        await hammer(client, calls, writer, seed, counts)


async def serve_and_die(
    root: Path, model: str, calls: int, writer: Writer, seed: int, counts: Counter[str]
) -> None:
    """Asked like the others, and killed with a call under way."""
    command = f"echo $$ > {root}/.pid; exec {TAMIS} mcp --root {root} --model {model}"
    arguments = StdioServerParameters(command="/bin/sh", args=["-c", command])
    try:
        async with (
            stdio_client(arguments) as streams,
            Client(_Streams(streams)) as client,
        ):
            await hammer(client, calls, writer, seed, counts)
            kill = threading.Timer(
                0.02, _kill, [int((root / ".pid").read_text("utf-8"))]
            )
            kill.start()
            while True:
                await client.call_tool("query_documents", {"query": "zebra"})
    except* (MCPError, OSError, anyio.ClosedResourceError, anyio.BrokenResourceError):
        counts["killed servers"] += 1


class _Streams:
    """An open pair of streams as the transport that a client opens."""

    def __init__(self, streams: Any) -> None:
        self.streams = streams

    async def __aenter__(self) -> Any:
        return self.streams

    async def __aexit__(self, *_: object) -> None:
        return None


def _kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)


def together(
    root: Path, servers: int, calls: int, files: int, model: str, pause: float = 0.05
) -> Counter[str]:
    """What happened. Capitals are what must not."""
    writer = Writer(root, files, pause)
    for number in range(files):
        writer.write(number)
    counts: Counter[str] = Counter()

    async def run() -> None:
        async with anyio.create_task_group() as group:
            for seed in range(servers - 1):
                group.start_soon(
                    serve_and_ask, root, model, calls, writer, seed, counts
                )
            group.start_soon(
                serve_and_die, root, model, calls // 2, writer, servers, counts
            )

    writer.start()
    anyio.run(run)
    writer.stopped.set()
    writer.join()
    counts["changes of files"] = writer.changes
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--model", default="hashing")
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counts = together(
            Path(folder).resolve(), asked.servers, asked.calls, asked.files, asked.model
        )
    print(f"{asked.servers} servers, {time.monotonic() - began:.0f} s")
    print("\n".join(f"  {count:6} {what}" for what, count in sorted(counts.items())))
    return 1 if any(what[:4].isupper() for what in counts) else 0


if __name__ == "__main__":
    sys.exit(main())
