"""Half an hour of somebody's work: files change, a watcher follows, four readers ask, the watcher is killed.

    python benchmarks/soak.py [--minutes 30] [--files 300] [--seed 1] [--edits 3] [--json]

Pages are made, changed, saved as editors do, renamed and deleted, folders move, the ignore file changes.
Once a minute `tamis watch` is ended, by SIGKILL and by SIGTERM in turn, and started again. Each of the four
readers is a process that searches without end, and complains of half a document, of counts that do not fit,
and of any fault. In the end what the index says, and all results with their scores, must be what a new index
gives. Memory is the watchers' and the readers' own, the median of the last third against that of the first.
Exit code 1 if there was an error.
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
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tamis.configuration import load
from tamis.corpus import Corpus, index_directory
from tamis.settings import Settings
from wholeness import WORDS, Pages, answers, complaints, content_of, differences

READERS = 4
PAUSE = 0.25  # seconds between two questions of a reader: people and agents think, too
SETTLING = 120.0  # seconds that the watcher has in the end to come to rest
CLI = "import sys; from tamis.cli.main import main; main(sys.argv[1:])"


def settings_of(root: Path) -> Settings:
    return load(root, {"model.name": "hashing"}, environment={"HOME": "/nonexistent"})


def corpus_over(root: Path, directory: Path | None = None) -> Corpus:
    settings = settings_of(root)
    return Corpus(root, directory or index_directory(root, settings, None), settings)


def read(root: Path) -> None:
    """What a reader does until its standard input ends; then it tells what it has seen."""
    dice, counts, wrong = random.Random(os.getpid()), Counter[str](), []
    generations: set[int] = set()
    with corpus_over(root) as corpus:
        os.set_blocking(sys.stdin.fileno(), False)
        while sys.stdin.buffer.read(1) != b"":
            try:
                wrong += complaints(corpus)
                found = corpus.search(
                    " ".join(dice.choices(WORDS, k=2)), limit=dice.choice((5, 50))
                )
                generations.add(found.index.generation)
                counts["answers"] += 1
            except Exception as error:  # noqa: BLE001 - every fault is what this looks for
                wrong.append(f"{type(error).__name__}: {error}")
            time.sleep(PAUSE)
    told = {
        "answers": counts["answers"],
        "generations": len(generations),
        "wrong": wrong[:20],
    }
    print(json.dumps(told | {"errors": len(wrong)}), flush=True)


class Watching:
    """`tamis watch`, ended and started again."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root, self.home = root, home
        self.out, self.err = home / "events", home / "stderr"
        self.endings: Counter[str] = Counter()
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [
            sys.executable,
            "-c",
            CLI,
            "watch",
            str(self.root),
            "--model",
            "hashing",
            "--json",
            "-q",
        ]
        with self.out.open("ab") as out, self.err.open("ab") as err:
            return subprocess.Popen(
                command, stdout=out, stderr=err, env=environment(self.home)
            )

    def restart(self, number: int) -> None:
        self.end(number)
        self.process = self._start()

    def end(self, number: int) -> None:
        if self.process.poll() is not None:
            self.endings["ended by itself"] += 1
        self.process.send_signal(number)
        code = self.process.wait(60)
        self.endings[f"{signal.Signals(number).name}: {code}"] += 1

    def errors(self) -> list[str]:
        """What it said that it should not have: faults, and anything on standard error."""
        events = [
            line
            for line in self.out.read_text("utf-8").splitlines()
            if '"event": "' in line
        ]
        bad = [
            line for line in events if json.loads(line)["event"] in ("fault", "failing")
        ]
        return bad + self.err.read_text("utf-8").splitlines()


def environment(home: Path) -> dict[str, str]:
    kept = {
        name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ
    }
    return kept | {"HOME": str(home)}


def start_reader(root: Path, home: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--read", str(root)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment(home))


def megabytes(process: subprocess.Popen[bytes]) -> float | None:
    """What it has in memory of its own. Mapped files are the system's to keep or to drop."""
    try:
        lines = Path(f"/proc/{process.pid}/status").read_text("ascii").splitlines()
    except FileNotFoundError:
        return None
    return next(
        (int(line.split()[1]) / 1000 for line in lines if line.startswith("RssAnon")),
        None,
    )


class Memory:
    """Samples of memory, by who it is, over the time of a run."""

    def __init__(self) -> None:
        self.samples: dict[str, list[tuple[float, float]]] = {
            "watcher": [],
            "reader": [],
        }

    def look(
        self, now: float, watcher: subprocess.Popen[bytes], readers: list[Any]
    ) -> None:
        for who, process in [
            ("watcher", watcher),
            *(("reader", each) for each in readers),
        ]:
            taken = megabytes(process)
            if taken is not None:
                self.samples[who].append((now, taken))

    def figures(self, long: float) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for who, samples in self.samples.items():
            first = [taken for now, taken in samples if long / 10 < now <= long / 3]
            last = [taken for now, taken in samples if now > 2 * long / 3]
            if first and last:
                told[f"{who}_mb_first"] = round(statistics.median(first), 1)
                told[f"{who}_mb_last"] = round(statistics.median(last), 1)
                told[f"{who}_mb_most"] = round(max(taken for _, taken in samples), 1)
        return told


def settle(corpus: Corpus) -> float:
    """Seconds until nothing is left to be indexed."""
    began = time.monotonic()
    while time.monotonic() - began < SETTLING:
        status = corpus.status()
        waiting = status.index.pending_files + status.index.pending_chunks
        if not waiting and not status.changed_files and not status.removed_files:
            return time.monotonic() - began
        time.sleep(0.2)
    return float("inf")


def soak(
    place: Path, minutes: float, files: int, seed: int, edits: float
) -> dict[str, Any]:
    """`edits` is how many there are in a second, on average."""
    root, home = place / "root", place / "home"
    home.mkdir()
    pages = Pages(root, random.Random(seed), files)
    readers: list[subprocess.Popen[bytes]] = []
    watching = Watching(root, home)
    try:
        with corpus_over(root) as corpus:
            while not corpus.exists():
                time.sleep(0.05)
            readers += [start_reader(root, home) for _ in range(READERS)]
            figures = _work(pages, watching, readers, minutes * 60, edits)
            settled = settle(corpus)
            told = [json.loads(reader.communicate(timeout=60)[0]) for reader in readers]
            watching.end(signal.SIGTERM)
            errors = [
                each for reader in told for each in reader["wrong"]
            ] + watching.errors()
            errors += [] if settled < SETTLING else ["the watcher did not come to rest"]
            errors += [
                f"a reader ended with {each.returncode}"
                for each in readers
                if each.returncode
            ]
            with corpus_over(root, place / "aside") as anew:
                anew.refresh()
                compared = _compared(corpus, anew)
    finally:
        for process in (watching.process, *readers):
            process.kill()
            process.wait()
    seen = [each["generations"] for each in told]
    return {
        "minutes": minutes, "seed": seed, **figures, "endings": dict(watching.endings),
        "answers": sum(each["answers"] for each in told), "generations_seen": seen,
        "settled_after": round(settled, 1), "errors": len(errors), "error_examples": errors[:10], **compared,
    }  # fmt: skip


def _work(
    pages: Pages,
    watching: Watching,
    readers: list[subprocess.Popen[bytes]],
    long: float,
    edits: float,
) -> dict[str, Any]:
    """Change files for so many seconds, and end the watcher once in every minute of them."""
    done, memory, restarts, looked = Counter[str](), Memory(), 0, 0.0
    began = time.monotonic()
    while (now := time.monotonic() - began) < long:
        done[pages.step()] += 1
        if now - looked > min(5.0, long / 60):
            memory.look(now, watching.process, readers)
            looked = now
        if now > (restarts + 0.5) * min(60.0, long):
            watching.restart((signal.SIGKILL, signal.SIGTERM)[restarts % 2])
            restarts += 1
        time.sleep(pages.dice.expovariate(edits))
    counts = {
        "edits": sum(done.values()),
        "edits_by_kind": dict(done),
        "restarts": restarts,
    }
    return counts | memory.figures(long)


def _compared(corpus: Corpus, anew: Corpus) -> dict[str, Any]:
    """What the index says against what a new one does, and what the doctor says of it."""
    other = differences(content_of(corpus.directory), content_of(anew.directory))
    pairs = list(zip(answers(corpus), answers(anew), strict=True))
    state = corpus.state()
    return {
        "documents": state.documents, "passages": state.chunks, "generations": state.generation,
        "doctor": corpus.check(full=True).verdict, "differences_to_rebuild": len(other),
        "difference_examples": other[:10], "questions_compared": len(pairs),
        "answers_that_differ": sum(ours != theirs for ours, theirs in pairs),
    }  # fmt: skip


def is_lost(figures: dict[str, Any]) -> bool:
    wrong = ("errors", "differences_to_rebuild", "answers_that_differ")
    return figures["doctor"] != "healthy" or any(figures[name] for name in wrong)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--edits", type=float, default=3.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read(options.read)
        return 0
    with tempfile.TemporaryDirectory(prefix="tamis-soak-") as folder:
        place = Path(folder).resolve()
        figures = soak(
            place, options.minutes, options.files, options.seed, options.edits
        )
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:24} {value}")
    return int(is_lost(figures))


if __name__ == "__main__":
    sys.exit(main())
