"""How soon a saved file is found under `tamis watch`, and what watching costs while nothing happens.

    python benchmarks/watch.py [--files 5000] [--model hashing] [--edits 20] [--idle 20] [--json]

The files are generated Markdown, the watcher is a process of its own, and the one who asks is another: an
edit counts as found when a search in this process has it, words and vector. `first` edits one file while the
watcher still embeds (only where that takes long enough), `burst` changes every file at once. Endings are
measured from SIGINT to the end of the process. All in seconds; `edit_computing` is the watcher's CPU time.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from tamis.configuration import load
from tamis.corpus import Corpus, index_directory
from tamis.index.protocol import LaneAsk
from tamis.query.filters import EVERYTHING
from tamis.settings import Settings
from tamis.text.words import words

WORDS = [
    "river",
    "stone",
    "paper",
    "queue",
    "lamp",
    "token",
    "cache",
    "retry",
    "alpha",
    "beta",
    "gamma",
    "delta",
    "cloud",
    "branch",
    "merge",
    "build",
]
LONG = 3600.0
CLI = "import sys; from tamis.cli.main import main; main(sys.argv[1:])"


class Watching:
    """`tamis watch` and the events that it has printed."""

    def __init__(self, root: Path, model: str, home: Path) -> None:
        command = [
            sys.executable,
            "-c",
            CLI,
            "watch",
            str(root),
            "--model",
            model,
            "--json",
            "-q",
        ]
        environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, env=environment
        )
        self.events: list[dict[str, Any]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def runs(self) -> int:
        return sum(event["event"] == "indexed" for event in list(self.events))

    def cpu(self) -> float:
        fields = (
            Path(f"/proc/{self.process.pid}/stat")
            .read_text("ascii")
            .rpartition(")")[2]
            .split()
        )
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self, name: str = "VmRSS") -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text("ascii").splitlines()
        return (
            next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1000
        )

    def end(self) -> float:
        began = time.perf_counter()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(LONG)
        return time.perf_counter() - began


def wait(condition: Any, watching: Watching) -> float:
    began = time.perf_counter()
    while not condition():
        if watching.process.poll() is not None or time.perf_counter() - began > LONG:
            sys.exit(f"the watcher ended or hangs: {watching.events[-3:]}")
        time.sleep(0.02)
    return time.perf_counter() - began


def note(number: int, dice: random.Random, word: str = "") -> str:
    return f"# Note {number}\n\n{word} " + " ".join(dice.choices(WORDS, k=40)) + "\n"


def file_of(root: Path, number: int) -> Path:
    return root / f"area{number % 50}" / f"note{number}.md"


def words_only(root: Path) -> Settings:
    """The one who asks has no model to load and to run beside the watcher's."""
    settings = load(root, {}, environment={"HOME": "/nonexistent"})
    return replace(settings, search=replace(settings.search, semantic_weight=0.0))


def edit(
    root: Path,
    corpus: Corpus,
    watching: Watching,
    number: int,
    word: str,
    dice: random.Random,
) -> float:
    """Seconds from the end of an atomic save until the file is found."""
    file = file_of(root, number)
    aside = file.with_suffix(".tmp")
    aside.write_text(note(number, dice, word), encoding="utf-8")
    os.replace(aside, file)

    seen: set[int] = set()

    def is_found() -> bool:
        generation = corpus.state().generation
        if generation in seen:  # asking all the time would slow the watcher down
            return False
        seen.add(generation)
        results = corpus.search(word, limit=1).results
        return bool(results) and results[0].path == file.relative_to(root).as_posix()

    return wait(is_found, watching)


def _have(corpus: Corpus, word: str) -> int:
    """How many documents have a word."""
    with corpus._reader.snapshot() as snapshot:
        allowed = snapshot.allow(EVERYTHING)
        ask = LaneAsk("words", terms=tuple(words(word)))
        return len(snapshot.lanes([ask], allowed, 1_000_000)["words"])


def measure(root: Path, home: Path, options: argparse.Namespace) -> dict[str, Any]:
    dice = random.Random(1)
    for number in range(options.files):
        file_of(root, number).parent.mkdir(exist_ok=True)
        file_of(root, number).write_text(note(number, dice), encoding="utf-8")
    figures: dict[str, Any] = {"files": options.files, "model": options.model}
    began = time.perf_counter()
    watching = Watching(root, options.model, home)
    directory = index_directory(root, words_only(root), None)
    wait(lambda: (directory / "index.db").exists(), watching)
    with Corpus(root, directory, words_only(root)) as corpus:
        wait(lambda: corpus.state().documents == options.files, watching)
        figures["words_of_all"] = time.perf_counter() - began
        waiting = corpus.state().pending_chunks
        if waiting > options.files / 2:
            figures["first"] = edit(root, corpus, watching, 7, "okapi", dice)
            figures["first_while_waiting"] = corpus.state().pending_chunks
        wait(lambda: watching.runs() and not corpus.state().pending_chunks, watching)
        figures["vectors_of_all"] = time.perf_counter() - began
        edits, computed = [], []
        for _ in range(options.edits):
            time.sleep(dice.uniform(1.0, 2.0))
            word = "zebra" + "".join(dice.choices("bcdfghklmnprstvw", k=8))
            before = watching.cpu()
            edits.append(
                edit(root, corpus, watching, dice.randrange(options.files), word, dice)
            )
            time.sleep(0.3)  # what comes after the commit counts, too
            computed.append(watching.cpu() - before)
            assert not corpus.state().pending_chunks, "its vector is there, too"
        figures |= {"edit_median": statistics.median(edits), "edit_largest": max(edits)}
        figures["edit_computing"] = statistics.median(computed)
        figures["load"] = os.getloadavg()[0]
        time.sleep(3)
        before = watching.cpu()
        time.sleep(options.idle)
        figures["idle_cpu_percent"] = 100 * (watching.cpu() - before) / options.idle
        figures["idle_megabytes"] = watching.megabytes()
        runs, before = watching.runs(), time.perf_counter()
        for number in range(options.files):
            file_of(root, number).write_text(
                note(number, dice, "giraffe"), encoding="utf-8"
            )
        figures["burst_writing"] = time.perf_counter() - before
        figures["burst_until_words"] = wait(
            lambda: _have(corpus, "giraffe") == options.files, watching
        )
        figures["burst_runs"] = watching.runs() - runs
        figures["peak_megabytes"] = watching.megabytes("VmHWM")
        figures["ending"] = watching.end()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--model", default="hashing")
    parser.add_argument("--edits", type=int, default=20)
    parser.add_argument("--idle", type=float, default=20.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tamis-watch-") as folder:
        place = Path(folder).resolve()
        (place / "root").mkdir()
        (place / "home").mkdir()
        figures = measure(place / "root", place / "home", options)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(
            f"{name:20} {value:.2f}"
            if isinstance(value, float)
            else f"{name:20} {value}"
        )


if __name__ == "__main__":
    main()
