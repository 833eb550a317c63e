"""How soon words answer over 5,000 pages, against all vectors; and what a run over unchanged files costs.

    python benchmarks/words_first.py [--files 5000] [--model granite] [--seconds 480] [--rounds 15] [--json]

The pages are generated Markdown of a hundred words. One run indexes them with the default model; a reader in
this process asks while it goes on, and notes when words first answer at all, and when they answer over all
pages. Should vectors take longer than `--seconds`, the run is stopped there, and the time of all is worked
out from the rate so far: `vectors_measured` is the share that was made. Then runs that find nothing changed
are timed in turns with a bare `os.walk` with a `stat` for each file, with words alone (`--model none`), where
no vectors are waited for. At last our own walk with the default ignore rules and the file that `tamis init`
writes, in turns with the same walk without any.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from material import alternate
from tamis.configuration import load
from tamis.corpus import Corpus, index_directory
from tamis.gitignore.rules import IgnoreOptions, open_rules
from tamis.gitignore.template import write_template
from tamis.index.protocol import LaneAsk
from tamis.ingest.walk import Entry, walk

WORDS = (
    "river", "stone", "paper", "queue", "lamp", "token", "cache", "retry", "alpha", "beta", "gamma", "delta",
    "cloud", "branch", "merge", "build", "harbour", "signal", "winter", "ledger", "copper", "needle",
)  # fmt: skip


def corpus_over(root: Path, model: str) -> Corpus:
    flags = {"model.name": model, "model.cache_mb": 0}
    settings = load(root, flags, environment={"HOME": "/nonexistent"})
    return Corpus(root, index_directory(root, settings, None), settings)


def write_pages(root: Path, files: int) -> None:
    dice = random.Random(1)
    for number in range(files):
        page = root / f"area{number % 50}" / f"page{number}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        text = " ".join(dice.choices(WORDS, k=100))
        page.write_text(
            f"# Page {number}\n\n{text}\n\n[[page{dice.randrange(files)}]]\n",
            encoding="utf-8",
        )


def first_run(root: Path, files: int, model: str, most: float) -> dict[str, Any]:
    """One run over everything, watched from beside it."""
    figures: dict[str, Any] = {}
    stop, faults = threading.Event(), []

    def index() -> None:
        try:
            with corpus_over(root, model) as corpus:
                corpus.refresh(yields=stop.is_set)
        except Exception as error:  # noqa: BLE001 - told by the thread that asks
            faults.append(error)

    began = time.perf_counter()
    run = threading.Thread(target=index)
    run.start()
    with corpus_over(root, model) as corpus:
        while run.is_alive():
            time.sleep(0.05)
            now = time.perf_counter() - began
            if corpus.exists():
                _note(corpus, files, now, figures)
            if now > most:
                stop.set()
        run.join()
        if faults:
            raise faults[0]
        state, took = corpus.state(), time.perf_counter() - began
    made = 1 - state.pending_chunks / state.chunks
    figures["vectors_measured"] = round(made, 3)
    words = figures["words_of_all_seconds"]
    figures["all_vectors_seconds"] = round(words + (took - words) / made, 1)
    for name in ("first_words", "words_of_all"):
        figures[f"{name}_share"] = round(
            figures[f"{name}_seconds"] / figures["all_vectors_seconds"], 4
        )
    return figures | {"passages": state.chunks}


def _note(corpus: Corpus, files: int, now: float, figures: dict[str, Any]) -> None:
    state = corpus.state()
    if "first_words_seconds" not in figures and state.documents:
        with corpus.snapshot() as snapshot:
            allowed = snapshot.allow(corpus.question("river").filter)
            ask = LaneAsk("words", terms=("river",))
            if snapshot.lanes([ask], allowed, 5)["words"]:
                figures["first_words_seconds"] = round(now, 2)
    if "words_of_all_seconds" not in figures and state.documents == files:
        figures["words_of_all_seconds"] = round(now, 2)


def bare_walk(root: Path) -> int:
    """What nobody who looks for changes can do without."""
    return sum(
        os.stat(os.path.join(place, name)).st_size
        for place, _, names in os.walk(root)
        for name in names
    )


def second_run(root: Path, rounds: int) -> dict[str, Any]:
    """Runs that find nothing changed, against a bare walk."""
    with corpus_over(root, "none") as corpus:
        corpus.refresh()
        time.sleep(2.5)  # a file that was stamped a moment ago is read once more
        corpus.refresh()
        ours, bare = alternate(corpus.refresh, lambda: bare_walk(root), rounds)
        looks, bare_again = alternate(corpus.changes, lambda: bare_walk(root), rounds)
    return {
        "unchanged_run_ms": round(1000 * ours, 1), "bare_walk_ms": round(1000 * bare, 1),
        "unchanged_run_ratio": round(ours / bare, 2), "look_ratio": round(looks / bare_again, 2),
    }  # fmt: skip


def ignore_rules(root: Path, rounds: int) -> dict[str, Any]:
    """What matching patterns adds to a walk over files that are all let through."""
    write_template(root, "general", ".graphragignore", replace=True)
    none = IgnoreOptions(default_exclusions=False, ignore_file="")

    def walked(options: IgnoreOptions) -> int:
        return sum(
            isinstance(each, Entry)
            for each in walk(root, open_rules(root, options), print)
        )

    files = walked(none) - 1  # without the ignore file itself, which is hidden
    assert walked(IgnoreOptions()) == files
    matched, plain = alternate(
        lambda: walked(IgnoreOptions()), lambda: walked(none), rounds
    )
    return {
        "walk_with_rules_ms": round(1000 * matched, 1), "walk_without_ms": round(1000 * plain, 1),
        "rules_us_a_file": round(1e6 * (matched - plain) / files, 1),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--model", default="granite")
    parser.add_argument("--seconds", type=float, default=480.0)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures: dict[str, Any] = {"files": options.files, "model": options.model}
    with tempfile.TemporaryDirectory(prefix="tamis-words-") as folder:
        root = Path(folder).resolve() / "root"
        write_pages(root, options.files)
        if options.model != "none":
            figures |= first_run(root, options.files, options.model, options.seconds)
        again = Path(folder).resolve() / "again"
        write_pages(again, options.files)
        figures |= second_run(again, options.rounds)
        figures |= ignore_rules(again, options.rounds)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:22} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
