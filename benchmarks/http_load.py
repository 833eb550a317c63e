"""The HTTP API under load on this machine, beside `Corpus.search` in a process with as many threads.

    python benchmarks/http_load.py [--clients 16] [--seconds 60] [--chunks 20000] [--model hashing]

Questions are asked as people do, few of them often (Zipf), half of them with a filter, while a file changes
every second and is indexed. No answer may be an error. They take turns: in process, over HTTP, in process.
"""

import argparse
import http.client
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from tamis.configuration import load
from tamis.live.corpus import LiveCorpus

LIMIT = 10
FILTERS = (
    {},
    {},
    {},
    {"tags": ["even"]},
    {"under": ["part3", "part4"]},
    {"excluded_files": ["part0/f0.md"]},
)
Question = dict[str, object]


def write_corpus(root: Path, chunks: int) -> None:
    """Ten sections in each file, of words of which few are frequent."""
    draw = random.Random(1)
    words = [_word(draw) for _ in range(4_000)]
    weights = [1 / (rank + 10) for rank in range(len(words))]
    for number in range(chunks // 10):
        sections = [
            f"## {draw.choice(words)} {at}\n\n{_text(draw, words, weights)}\n"
            for at in range(10)
        ]
        tag = "even" if number % 2 else "odd"
        file = root / f"part{number % 10}" / f"f{number}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        linked = f"[next](f{number + 10}.md)"
        file.write_text(
            f"---\ntags: [{tag}]\n---\n# File {number}\n\n{linked}\n\n"
            + "\n".join(sections)
        )


def _word(draw: random.Random) -> str:
    return "".join(
        draw.choice("bdfgklmnprstv") + draw.choice("aeiou")
        for _ in range(draw.randint(2, 4))
    )


def _text(draw: random.Random, words: Sequence[str], weights: Sequence[float]) -> str:
    return " ".join(draw.choices(words, weights, k=60))


def questions(seed: int) -> Callable[[], Question]:
    """A way to draw them: 300 there are, the first the most often."""
    known = random.Random(2)
    words = [_word(known) for _ in range(4_000)]
    there = [
        " ".join(known.choices(words[:1500], k=known.randint(1, 4))) for _ in range(300)
    ]
    weights = [1 / (rank + 1) for rank in range(len(there))]
    draw = random.Random(seed)
    return lambda: {
        "query": draw.choices(there, weights)[0],
        "limit": LIMIT,
        **draw.choice(FILTERS),
    }


@dataclass(frozen=True, slots=True)
class Took:
    """What a phase took: milliseconds of each call, and how many failed."""

    times: list[float]
    errors: int
    seconds: float

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds

    def at(self, share: float) -> float:
        return sorted(self.times)[int(share * (len(self.times) - 1))]

    def __str__(self) -> str:
        figures = f"p50 {self.at(0.5):.1f} ms, p99 {self.at(0.99):.1f} ms"
        return f"{self.rate:.1f} a second, {figures}, {len(self.times)} calls, {self.errors} errors"


def together(
    ask_with: Callable[[int], Callable[[], None]],
    clients: int,
    seconds: float,
    root: Path,
) -> Took:
    """So many threads that each ask one question after the other, while files change."""
    stop = threading.Event()
    times: list[list[float]] = [[] for _ in range(clients)]
    errors = [0] * clients

    def client(number: int) -> None:
        ask = ask_with(number)
        while not stop.is_set():
            began = time.perf_counter()
            try:
                ask()
            except Exception as error:  # noqa: BLE001 - counted, and told
                errors[number] += 1
                print(f"error: {error!r}"[:300], file=sys.stderr)
            times[number].append((time.perf_counter() - began) * 1000)

    def change() -> None:
        number = 0
        while not stop.wait(1.0):
            number += 1
            (root / "part9" / f"changing{number % 5}.md").write_text(
                f"# Changed\n\nversion {number} bada\n"
            )

    threads = [
        threading.Thread(target=client, args=(number,)) for number in range(clients)
    ]
    threads.append(threading.Thread(target=change))
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    return Took(
        [each for own in times for each in own],
        sum(errors),
        time.perf_counter() - began,
    )


def inside(root: Path, model: str, clients: int, seconds: float) -> Took:
    """In a process of its own: see `main`."""
    command = [sys.executable, __file__, "--inside", str(root), "--model", model]
    command += ["--clients", str(clients), "--seconds", str(seconds)]
    said = subprocess.run(command, check=True, capture_output=True, encoding="utf-8")
    return Took(**json.loads(said.stdout))


def run_inside(root: Path, model: str, clients: int, seconds: float) -> Took:
    live = LiveCorpus(root, load(root, {"model.name": model}))
    live.fresh(60.0)
    live.watch()
    draw_one = questions(0)
    for _ in range(10):
        live.corpus.search(**draw_one())  # type: ignore[arg-type]

    def ask_with(number: int) -> Callable[[], None]:
        draw = questions(number)
        return lambda: live.corpus.search(**draw()) and None  # type: ignore[arg-type]

    took = together(ask_with, clients, seconds, root)
    live.close()
    return took


def over_http(root: Path, model: str, clients: int, seconds: float) -> Took:
    command = [
        sys.executable,
        "-m",
        "tamis",
        "serve",
        str(root),
        "--model",
        model,
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") as server:
        assert server.stderr
        said = re.search(
            r"listening on http://(\S+)/$", server.stderr.readline().strip()
        )
        assert said
        try:
            for _ in range(10):
                _client(said[1], 0)()
            return together(
                lambda number: _client(said[1], number), clients, seconds, root
            )
        finally:
            server.terminate()


def _client(address: str, number: int) -> Callable[[], None]:
    draw, connection = (
        questions(number),
        http.client.HTTPConnection(address, timeout=60),
    )

    def ask() -> None:
        connection.request("GET", "/api/v1/search?" + urlencode(draw(), doseq=True))
        response = connection.getresponse()
        body = response.read()
        if response.status != 200 or not body.startswith(b"{"):
            raise RuntimeError(f"{response.status}: {body[:200]!r}")

    return ask


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--model", default="hashing")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.inside:
        took = run_inside(given.inside, given.model, given.clients, given.seconds)
        print(
            json.dumps(
                {"times": took.times, "errors": took.errors, "seconds": took.seconds}
            )
        )
        return
    with tempfile.TemporaryDirectory(prefix="tamis-load-") as folder:
        root = Path(folder).resolve()
        write_corpus(root, given.chunks)
        subprocess.run(
            [
                sys.executable,
                "-m",
                "tamis",
                "index",
                "-q",
                root,
                "--model",
                given.model,
            ],
            check=True,
        )
        first = inside(root, given.model, given.clients, given.seconds / 2)
        http_took = over_http(root, given.model, given.clients, given.seconds)
        second = inside(root, given.model, given.clients, given.seconds / 2)
    plain = Took(
        [*first.times, *second.times],
        first.errors + second.errors,
        first.seconds + second.seconds,
    )
    print(f"in process: {plain} ({first.rate:.1f} and {second.rate:.1f} a second)")
    print(f"over HTTP:  {http_took}")
    ratios = [
        http_took.rate / plain.rate,
        *(http_took.at(p) / plain.at(p) for p in (0.5, 0.99)),
    ]
    print(
        "HTTP / in process: throughput {:.2f}, p50 {:.2f}, p99 {:.2f}".format(*ratios)
    )
    print(
        f"median of all: {statistics.median(plain.times):.1f} and {statistics.median(http_took.times):.1f} ms"
    )


if __name__ == "__main__":
    main()
