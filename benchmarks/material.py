"""What the benchmarks are made of: corpora as files, vectors that lie as real ones do, and a stopwatch."""

import gzip
import json
import re
import shutil
import statistics
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from tamis.configuration import load
from tamis.index.plan import make_plan, read_within
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.model import Document
from tamis.settings import Settings

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


def seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def alternate(
    first: Callable[[], object], second: Callable[[], object], rounds: int
) -> tuple[float, float]:
    """Median seconds of two actions, run in turns."""
    pairs = [(seconds(first), seconds(second)) for _ in range(rounds)]
    return statistics.median(p[0] for p in pairs), statistics.median(
        p[1] for p in pairs
    )


def documents(root: Path, settings: Settings) -> Iterator[Document]:
    """Yield the documents that a run would index, cut into passages."""
    for entry in make_plan(root, settings, {}).changed:
        source = read_within(entry, settings)
        if isinstance(source, Source):
            yield parse(source, settings.chunking)[0]


def write_out(source: Path, target: Path) -> Path:
    """A judged set's corpus as files; any other folder is copied as it is."""
    packed = next(
        (
            p
            for p in (source / "corpus.jsonl", source / "corpus.jsonl.gz")
            if p.exists()
        ),
        None,
    )
    if packed is None:
        shutil.copytree(source, target, ignore=shutil.ignore_patterns(".tamis", ".git"))
        return target
    with (
        gzip.open(packed, "rt", encoding="utf-8")
        if packed.suffix == ".gz"
        else packed.open() as lines
    ):
        for line in lines:
            document = json.loads(line)
            name = (
                document.get("path")
                or re.sub(r"[^\w.-]+", "_", document["_id"])[:150] + ".md"
            )
            file = target / name
            file.parent.mkdir(parents=True, exist_ok=True)
            title = (
                f"# {document['title']}\n\n"
                if document.get("title") and not document.get("path")
                else ""
            )
            file.write_text(title + document["text"], encoding="utf-8", newline="")
    return target


def write_corpus(target: Path, source: Path | None) -> Path:
    """The corpus to measure on: the one given, the GitHub docs, or else the standard library's sources."""
    if source or not (SHARED / "ghdocs").exists():
        return source or Path(sysconfig.get_paths()["stdlib"])
    return write_out(SHARED / "ghdocs", target)


def some_of(source: Path, target: Path, files: int) -> Path:
    """The first files of a corpus, as a root of their own."""
    for file in sorted(
        p for p in source.rglob("*") if p.suffix in {".md", ".py"} and p.is_file()
    )[:files]:
        copy = target / file.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, copy)
    return target


def settings_for(root: Path, model: str) -> Settings:
    return load(
        root,
        {"model.name": model, "ignore.default_exclusions": False},
        environment={"HOME": str(root)},
    )


class MixedEmbedder:
    """Real vectors for a few texts; mixtures of them, which lie as real ones do, for all others."""

    name, fingerprint, dimension = "mixed", "mixed:1", 384

    def __init__(self, seeds: np.ndarray) -> None:
        self.seeds = seeds
        self.random = np.random.default_rng(7)

    def embed_passages(self, texts):
        pick = self.random.integers(0, len(self.seeds), (2, len(texts)))
        mixed = 0.7 * self.seeds[pick[0]] + 0.3 * self.seeds[pick[1]]
        mixed += self.random.normal(0, 0.01, mixed.shape)
        return (mixed / np.linalg.norm(mixed, axis=1, keepdims=True)).astype(np.float32)

    def embed_query(self, text):
        return self.seeds[len(text) % len(self.seeds)]


def large_root(corpus: Path, work: Path, chunks: int) -> Path:
    """A root of about so many chunks: the corpus, several times over, below numbered folders."""
    root = work / "c"
    files = sorted(
        p for p in corpus.rglob("*") if p.suffix in {".md", ".py"} and p.is_file()
    )
    size = sum(p.stat().st_size for p in files)
    copies = max(1, round(chunks * 700 / size) + 1)
    for copy in range(copies):
        for at, file in enumerate(files):
            target = (
                root
                / f"part{(copy * len(files) + at) % 100:02}"
                / f"copy{copy}"
                / f"{at}{file.suffix}"
            )
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)
    return root
