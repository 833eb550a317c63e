"""How much memory indexing takes: the peak, over what the process had before, against the budget.

python benchmarks/memory.py [--mb 200] [--budget 200] [--model hashing]

Text of that size in Markdown is made and indexed in a child process, then all of it is changed and indexed
again. Memory is the process's own (RssAnon): pages of mapped files are the system's to take back.
"""

import argparse
import itertools
import random
import subprocess
import sys
import tempfile
from pathlib import Path

INDEX = """
import sys, threading, time
from pathlib import Path
from tamis.corpus import Corpus
from tamis.configuration import load

def own():
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1000

def look():
    while not done.wait(0.005):
        peak[0] = max(peak[0], own())

root, budget, model = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
settings = load(root, {"model.name": model, "index.memory_mb": budget}, environment={"HOME": "/nonexistent"})
warm = root.parent / "warm"
warm.mkdir()
(warm / "a.md").write_text("alpha")
with Corpus(warm, warm / ".tamis", settings) as corpus:
    corpus.refresh()
before, peak, done = own(), [0.0], threading.Event()
thread = threading.Thread(target=look)
thread.start()
with Corpus(root, root / ".tamis", settings) as corpus:
    for run in ("first", "again"):
        began = time.process_time()
        report = corpus.refresh()
        took = time.process_time() - began
        done_so_far = f"{report.indexed} files, {report.chunks} passages, {took:.0f} s of CPU"
        segments = corpus.status().segments
        more = peak[0] - before
        print(f"{run}: {done_so_far}, {segments} segments; {before:.0f} MB, at the peak {more:.0f} more")
        for file in root.rglob("*.md"):
            with file.open("a") as end:
                end.write("\\nmore\\n")
done.set()
thread.join()
print(peak[0] - before)
"""


def write_corpus(root: Path, megabytes: float) -> None:
    """Documents of 60 sections, with words as often as words are."""
    chance = random.Random(1)
    vocabulary = [
        "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 10)))
        for _ in range(60_000)
    ]
    weights = list(itertools.accumulate(1 / (at + 3) for at in range(len(vocabulary))))

    def text(chance: random.Random) -> str:
        return " ".join(chance.choices(vocabulary, cum_weights=weights, k=150))

    written = number = 0
    while written < megabytes * 1e6:
        sections = (
            f"## Section {at} of {number}\n\n{text(chance)}\n\n" for at in range(60)
        )
        folder = root / f"d{number // 100}"
        folder.mkdir(parents=True, exist_ok=True)
        written += (folder / f"f{number}.md").write_text(
            f"# Document {number}\n\n{''.join(sections)}", encoding="utf-8"
        )
        number += 1


def peak(megabytes: float, budget: int, model: str) -> float:
    """Megabytes that indexing took over what was there before."""
    with tempfile.TemporaryDirectory(prefix="tamis-memory-") as folder:
        root = Path(folder).resolve() / "root"
        write_corpus(root, megabytes)
        command = [sys.executable, "-c", INDEX, str(root), str(budget), model]
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    *told, taken = ran.stdout.splitlines()
    print("\n".join(told))
    return float(taken)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mb", type=float, default=200)
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument("--model", default="hashing")
    given = parser.parse_args()
    taken = peak(given.mb, given.budget, given.model)
    print(f"{taken:.0f} MB of {given.budget}")
    return int(taken > given.budget)


if __name__ == "__main__":
    sys.exit(main())
