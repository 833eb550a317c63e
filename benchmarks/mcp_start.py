"""How long an agent waits: for the list of tools, and for a first answer on a folder that nobody has indexed.

python benchmarks/mcp_start.py [--files 2000] [--rounds 5] [--model granite] [--json]

The list of tools is compared with a process that only imports the SDK, in turns, so that what else the
machine does counts for both. The first answer says that it is partial; then we ask until it is complete.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

TAMIS = Path(sys.executable).with_name("tamis")
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "b", "version": "1"},
    },
}
WORDS = (
    "account",
    "billing",
    "cache",
    "deploy",
    "error",
    "filter",
    "graph",
    "index",
    "journal",
    "merge",
    "order",
)


def bare_import() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import mcp.server"], check=True)
    return time.perf_counter() - began


def listing(root: Path) -> float:
    """From the start of the process to the list of tools in our hands."""
    began = time.perf_counter()
    server = subprocess.Popen(
        [TAMIS, "mcp", "--root", root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    wanted = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
    for message in (HELLO, ready, wanted):
        server.stdin.write(json.dumps(message).encode() + b"\n")
    server.stdin.flush()
    while json.loads(server.stdout.readline()).get("id") != 2:
        pass
    spent = time.perf_counter() - began
    server.stdin.close()
    server.wait()
    server.stdout.close()
    return spent


def write_notes(root: Path, count: int) -> None:
    """Markdown files of some two kilobytes, none like another."""
    choose = random.Random(1)
    for number in range(count):
        file = root / f"{number % 40}" / f"note-{number}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        sections = (
            f"## {choose.choice(WORDS).title()} {part}\n\n"
            + " ".join(choose.choices(WORDS, k=90))
            + f" {number}.\n"
            for part in range(3)
        )
        file.write_text(f"# Note {number}\n\n" + "\n".join(sections), encoding="utf-8")


async def first_answers(root: Path, model: str) -> dict[str, object]:
    arguments = ["mcp", "--root", str(root), "--model", model]
    async with Client(
        StdioServerParameters(command=str(TAMIS), args=arguments)
    ) as client:
        await client.list_tools()
        asked = {"query": "how is the order of a merge decided", "limit": 5}
        began = time.perf_counter()
        first = (await client.call_tool("query_documents", asked)).structured_content
        spent = time.perf_counter() - began
        fresh, times = first["freshness"], []
        print(f"first answer: {spent:.2f} s, {fresh}", file=sys.stderr)
        words = None
        while not fresh["complete"]:
            await anyio.sleep(1)
            again = time.perf_counter()
            fresh = (
                await client.call_tool("query_documents", asked)
            ).structured_content["freshness"]
            times.append(time.perf_counter() - again)
            if words is None and fresh["as_of"]:
                words = time.perf_counter() - began
        return {
            "first_answer_s": round(spent, 2),
            "first_results": len(first["results"]),
            "first_freshness": first["freshness"],
            "later_answers_median_s": round(statistics.median(times), 3)
            if times
            else None,
            "later_answers_worst_s": round(max(times), 3) if times else None,
            "all_words_s": words and round(words, 1),
            "complete_s": round(time.perf_counter() - began, 1),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", default="granite")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_notes(root, asked.files)
        pairs = [(bare_import(), listing(root)) for _ in range(asked.rounds)]
        ratios = sorted(listed / bare for bare, listed in pairs)
        print(f"ratios: {[round(ratio, 2) for ratio in ratios]}", file=sys.stderr)
        figures = {
            "import_median_s": round(statistics.median(bare for bare, _ in pairs), 2),
            "tools_list_median_s": round(
                statistics.median(listed for _, listed in pairs), 2
            ),
            "ratio_median": round(statistics.median(ratios), 2),
            "ratio_worst": round(ratios[-1], 2),
            "files": asked.files,
        } | anyio.run(first_answers, root, asked.model)
    print(
        json.dumps(figures, indent=2)
        if asked.json
        else "\n".join(f"{k}: {v}" for k, v in figures.items())
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
