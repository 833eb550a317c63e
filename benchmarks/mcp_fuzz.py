"""Ten thousand calls that no sane client makes; every one must be answered, and the server must not grow.

python benchmarks/mcp_fuzz.py [--calls 10000] [--seed 1] [--root FOLDER]

Wrong types, huge texts, unknown names, deep nesting, broken JSON, half characters, over stdin and stdout with
JSON of our own making: no SDK on this side that would mend it. Memory is that of the server process
(VmRSS), after it has settled and at the end.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tamis.server.schema import TOOLS, tools_for

TAMIS = Path(sys.executable).with_name("tamis")
NAMES = sorted(
    {
        parameter.name
        for tool in tools_for(("one", "two")).values()
        for parameter in tool.arguments
    }
)
TEXTS = (
    "grass", "", " ", "x" * 100_000, "é\u0000\u2028", "../../etc/passwd", "tag:", "((((", "path:**", "[[",
    "\\ud800", "-" * 500, "a.md#0", "a.md#99999999999999", "2026-13-45", '["a"]', "%", "is:archived",
    "zebra " * 3000, "*" * 300,
)  # fmt: skip
BROKEN = (
    "{",
    "[]",
    "null",
    "\x00",
    '{"jsonrpc": "2.0"}',
    '{"jsonrpc": "2.0", "id": null, "method": 5}',
    "[" * 20_000,
)


def junk(chance: random.Random, depth: int = 0) -> str:
    """A JSON value, as text: so that it may be one which no JSON writer would write."""
    kind = chance.randrange(12 if depth < 4 else 8)
    if kind < 3:
        text = chance.choice(TEXTS)
        return '"\\ud800"' if text == "\\ud800" else json.dumps(text)
    if kind < 6:
        return chance.choice(
            (
                "0",
                "1",
                "-1",
                "5",
                "1e308",
                "-0.0",
                "9" * 400,
                "2.5",
                "200",
                "100000",
                "1E400",
            )
        )
    if kind < 8:
        return chance.choice(("true", "false", "null", "[]", "{}"))
    if kind == 8:
        deep = chance.choice((10, 100, 400))
        return "[" * deep + "]" * deep
    values = [junk(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind < 11:
        return f"[{', '.join(values)}]"
    return (
        "{"
        + ", ".join(f"{json.dumps(chance.choice(NAMES))}: {value}" for value in values)
        + "}"
    )


def arguments(chance: random.Random) -> str:
    if (
        chance.random() < 0.1
    ):  # a sane one now and then: the server must still give answers
        return json.dumps(
            {
                "query": f"grass of zebra {chance.randrange(50)}",
                "limit": chance.randrange(1, 30),
            }
        )
    names = [
        chance.choice((*NAMES, "quary", "", "__proto__", "x" * 1000))
        for _ in range(chance.randrange(5))
    ]
    given = {name: junk(chance) for name in names}
    if chance.random() < 0.6:
        given["query"] = json.dumps(
            chance.choice(("grass", "refund of zebra", "tag:x grass", *TEXTS[:3]))
        )
    return (
        "{"
        + ", ".join(f"{json.dumps(name)}: {value}" for name, value in given.items())
        + "}"
    )


def request(chance: random.Random, number: int) -> str:
    tool = json.dumps(
        chance.choice(
            (
                *(tool.name for tool in TOOLS),
                *(tool.name for tool in TOOLS),
                "nonsense",
                "",
            )
        )
    )
    params = f'{{"name": {tool}, "arguments": {arguments(chance)}}}'
    return f'{{"jsonrpc": "2.0", "id": {number}, "method": "tools/call", "params": {params}}}'


class Server:
    def __init__(self, root: Path) -> None:
        pipe = subprocess.PIPE
        command = [TAMIS, "mcp", "--root", root, "--model", "hashing"]
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        )

    def send(self, line: str) -> None:
        self.process.stdin.write(line.encode("utf-8", "surrogatepass") + b"\n")
        self.process.stdin.flush()

    def answer(self, number: int) -> dict[str, object]:
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"the server ended at call {number}")
            said = json.loads(line)
            if said.get("id") == number:
                return said

    def memory(self) -> int:
        """Kilobytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text("utf-8")
        return int(
            next(
                line for line in status.splitlines() if line.startswith("VmRSS")
            ).split()[1]
        )


def kind_of(answer: dict[str, object]) -> str:
    if "error" in answer:
        return f"protocol error {answer['error']['code']}"
    result = answer["result"]
    text = result["content"][0]["text"]
    if not result.get("isError"):
        return "answer"
    if "a fault in tamis itself" in text or "Traceback" in text:
        return f"FAULT: {text[:200]}"
    return "tool error"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--root", type=Path)
    asked = parser.parse_args()
    chance = random.Random(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        root = asked.root or Path(folder)
        for number in range(0 if asked.root else 200):
            (root / f"{number}.md").write_text(
                f"# Note {number}\n\nThe zebra of {number} eats grass.\n" * 5, "utf-8"
            )
        (root / "a.md").write_text(
            "# A\n\ngrass\n", "utf-8"
        ) if not asked.root else None
        server = Server(root)
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "f", "version": "1"},
        }
        server.send(
            json.dumps(
                {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}
            )
        )
        server.answer(0)
        server.send('{"jsonrpc": "2.0", "method": "notifications/initialized"}')
        counts: Counter[str] = Counter()
        settled = before = 0
        began = time.monotonic()
        for number in range(1, asked.calls + 1):
            if chance.random() < 0.02:
                server.send(
                    chance.choice(BROKEN)
                )  # no id to answer to: it must only not end the server
            server.send(request(chance, number))
            counts[kind_of(server.answer(number))] += 1
            settled = max(500, asked.calls // 10)
            if number == settled:
                before = server.memory()
        after = server.memory()
        server.process.stdin.close()
        code = server.process.wait(30)
    seconds = time.monotonic() - began
    print(
        f"{asked.calls} calls, every one answered, in {seconds:.0f} s; the server ended with {code}"
    )
    print("\n".join(f"  {count:6} {kind}" for kind, count in counts.most_common()))
    grown = f"{after / 1000:.1f} MB at the end ({after / before:.3f})"
    print(f"memory: {before / 1000:.1f} MB after {settled} calls, {grown}")
    return (
        1
        if any(kind.startswith("FAULT") for kind in counts) or after > 1.1 * before
        else 0
    )


if __name__ == "__main__":
    sys.exit(main())
