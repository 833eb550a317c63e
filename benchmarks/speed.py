"""Speed, as ratios against the bare parts measured in the same run.

    python benchmarks/speed.py [--corpus FOLDER] [--only a,b,c,d,e,r,s,p] [--chunks 100000] [--json]

Machines differ and are noisy; ratios of things measured alternately in one process hold. FOLDER is
any folder of text (default: the GitHub docs of ../shared/data when they are there, else the Python
standard library). Nothing here is a test: the figures are for docs/benchmarks.md and for eyes.

a  indexing with the default model         / embedding the same chunk texts with the bare embedder
b  words-only indexing                     / bm25s tokenising and indexing the same chunks
c  warm search at 100k chunks, no embedding / the bare exact scan of the vectors; and with 1 % allowed
d  tamis --help                            / python -c pass
e  cold tamis search at 5k chunks          / a process that imports the libraries and loads the model
r  reranking ten candidates, no time limit / the bare forward passes of the same windows on as many threads;
   and the time it takes with its budget   / that budget
s  all stages but reranking, as everybody has them and with all of them on, in the index of c / 50 ms
p  a warm search with each preset in the index of c, no embedding / the same as balanced
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from material import (
    MixedEmbedder,
    alternate,
    documents,
    large_root,
    seconds,
    settings_for,
    some_of,
    write_corpus,
)
from tamis.corpus import Corpus
from tamis.index.build import build
from tamis.index.embedded import vectors
from tamis.index.embedded.reader import EmbeddedSnapshot, Reader
from tamis.model import Candidate, Chunk, Document, Passage, embedding_text
from tamis.models.embedders import load_embedder
from tamis.models.rerankers import load_reranker
from tamis.progress import Silent
from tamis.query.filters import Under
from tamis.search.extras.rerank import rerank
from tamis.search.pipeline import search
from tamis.search.question import STAGE_NAMES, Lookups, Models, Question
from tamis.search.scores import Logistic
from tamis.settings import PRESETS, SearchSettings, Settings
from tamis.weights import Weights


def index_with_model(corpus: Path, work: Path) -> dict[str, float]:
    root = some_of(corpus, work / "a", 60)
    settings = settings_for(root, "granite")
    embedder = load_embedder("granite")
    texts = [
        embedding_text(d.title, chunk)
        for d in documents(root, settings)
        for chunk in d.chunks
    ]

    def ours() -> None:
        shutil.rmtree(root / ".tamis", ignore_errors=True)
        build(root, Reader(root / ".tamis"), settings, lambda _: embedder, Silent())

    embedder.embed_passages(texts[:8])
    took, bare = alternate(ours, lambda: embedder.embed_passages(texts), 3)
    return {
        "chunks": len(texts),
        "index_s": took,
        "bare_s": bare,
        "ratio": took / bare,
        "allowed": 1.25,
    }


def index_words(corpus: Path, work: Path) -> dict[str, float]:
    import bm25s
    import Stemmer

    root = some_of(corpus, work / "b", 4000)
    settings = settings_for(root, "none")
    texts = [
        chunk.content
        for document in documents(root, settings)
        for chunk in document.chunks
    ]

    def ours() -> None:
        shutil.rmtree(root / ".tamis", ignore_errors=True)
        build(root, Reader(root / ".tamis"), settings, lambda _: None, Silent())

    def theirs() -> None:
        tokens = bm25s.tokenize(
            texts,
            stopwords="en",
            stemmer=Stemmer.Stemmer("english"),
            show_progress=False,
        )
        bm25s.BM25().index(tokens, show_progress=False)

    took, bare = alternate(ours, theirs, 3)
    return {
        "chunks": len(texts),
        "index_s": took,
        "bm25s_s": bare,
        "ratio": took / bare,
        "allowed": 1.5,
    }


QUERIES = (
    "how do I configure a runner", "delete a repository", "authentication token", "billing for teams",
    "protect a branch from force pushes", "workflow syntax", "webhook events", "two factor",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Large:
    """An index of many chunks, and the vectors of the questions that it is asked."""

    snapshot: EmbeddedSnapshot
    vectors_of: Mapping[str, np.ndarray]
    related: Logistic


@contextmanager
def large_index(corpus: Path, work: Path, chunks: int) -> Iterator[Large]:
    """Made by the first part that wants it."""
    real = load_embedder("granite")
    root = work / "c"
    if not (root / ".tamis").exists():
        large_root(corpus, work, chunks)
        settings = settings_for(root, "")
        small = some_of(corpus, work / "seeds", 60)
        texts = [
            embedding_text(d.title, c)
            for d in documents(small, settings)
            for c in d.chunks
        ][:400]
        embedder = MixedEmbedder(real.embed_passages(texts))
        build(root, Reader(root / ".tamis"), settings, lambda _: embedder, Silent())
    vectors_of = {query: real.embed_query(query) for query in QUERIES}
    with Reader(root / ".tamis").snapshot() as snapshot:
        yield Large(snapshot, vectors_of, Logistic(*real.related))


def search_large(corpus: Path, work: Path, chunks: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    with large_index(corpus, work, chunks) as large:
        snapshot, vectors_of = large.snapshot, large.vectors_of
        figures["chunks"] = snapshot.state.chunks
        figures["segments"] = len(snapshot.view.segments)
        one_percent = Under("part07")
        narrow = Question(text="", filter=one_percent, max_hops=1)
        figures["allowed_share"] = (
            snapshot.allow(one_percent).chunks / snapshot.state.chunks
        )

        def ask(query: str, question: Question) -> None:
            asked = Question(
                text=query, filter=question.filter, max_hops=question.max_hops
            )
            search(snapshot, asked, Models(lambda text: vectors_of[text]))

        # A segment of empty documents has no passage, and so no vector.
        segments = [
            each for each in snapshot.view.segments if len(each.vectors["full"])
        ]

        def scan(query: str) -> None:
            for segment in segments:
                vectors.nearest(segment.vectors, vectors_of[query], None, 20)

        def plain(query: str) -> None:
            for segment in segments:
                scores = segment.vectors["full"] @ vectors_of[query]
                np.argpartition(scores, -20)[-20:]

        times: dict[str, list[float]] = {
            "all": [],
            "narrow": [],
            "scan": [],
            "float32": [],
        }
        for _ in range(12):
            for query in QUERIES:
                times["all"].append(
                    seconds(lambda q=query: ask(q, Question(text=q, max_hops=1)))
                )
                times["scan"].append(seconds(lambda q=query: scan(q)))
                times["narrow"].append(seconds(lambda q=query: ask(q, narrow)))
                times["float32"].append(seconds(lambda q=query: plain(q)))
    for name, values in times.items():
        figures[f"{name}_ms"] = statistics.median(values[len(QUERIES) :]) * 1000
    figures["ratio"] = figures["all_ms"] / figures["scan_ms"]
    figures["allowed"] = 3.0
    figures["narrow_ratio"] = figures["narrow_ms"] / figures["all_ms"]
    figures["narrow_allowed"] = 0.5
    return figures


def ask_in_turn(
    large: Large,
    ways: Mapping[str, Question],
    rounds: int,
    told: Callable[[Mapping[str, float]], float],
) -> dict[str, list[float]]:
    """What is told of the times of each search: every question in every way, one after the other."""
    models = Models(lambda text: large.vectors_of[text], large.related)
    values: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(rounds + 1):
        for query in QUERIES:
            for way, question in ways.items():
                answer = search(large.snapshot, replace(question, text=query), models)
                if number:  # the first round warms up
                    values[way].append(told(answer.timings_ms))
    return values


def all_stages(corpus: Path, work: Path, chunks: int) -> dict[str, float]:
    on = Settings(SearchSettings(dedup_enabled=True, recency_profile="code"))
    ways = {
        "balanced": asked_as(PRESETS["balanced"]),
        "all_on": asked_as(on),
        "with_mmr": replace(asked_as(on), mmr=True),
    }
    stages = [name for name in STAGE_NAMES if name != "rerank"]
    with large_index(corpus, work, chunks) as large:
        figures: dict[str, float] = {"chunks": large.snapshot.state.chunks}
        took = ask_in_turn(
            large, ways, 10, lambda times: sum(times[name] for name in stages)
        )
    for way, values in took.items():
        figures[f"{way}_ms"] = statistics.median(values)
        figures[f"{way}_p95_ms"] = statistics.quantiles(values, n=20)[-1]
    return figures | {
        "ratio": figures["balanced_ms"] / STAGES_MS,
        "allowed": 1.0,
        "limit_ms": STAGES_MS,
    }


STAGES_MS = 50.0  # what the design allows for all changes but reranking (R002-006)


def all_presets(corpus: Path, work: Path, chunks: int) -> dict[str, float]:
    ways = {name: asked_as(settings) for name, settings in PRESETS.items()}
    with large_index(corpus, work, chunks) as large:
        figures: dict[str, float] = {"chunks": large.snapshot.state.chunks}
        took = ask_in_turn(large, ways, 10, lambda times: times["total"])
    figures |= {
        f"{name}_ms": statistics.median(values) for name, values in took.items()
    }
    for name in ways.keys() - {"balanced"}:
        figures[f"{name}_ratio"] = figures[f"{name}_ms"] / figures["balanced_ms"]
    return figures


def asked_as(settings: Settings) -> Question:
    """As an open corpus asks with these settings."""
    return Question(
        text="",
        max_hops=settings.search.max_hops,
        mmr=settings.search.mmr_enabled,
        now=time.time(),
        settings=settings.search,
        weights=settings.weights,
    )


def help_text() -> dict[str, float]:
    run = lambda *command: subprocess.run(command, check=True, capture_output=True)  # noqa: E731
    script = shutil.which("tamis", path=str(Path(sys.executable).parent)) or "tamis"
    took, bare = alternate(
        lambda: run(script, "--help"), lambda: run(sys.executable, "-c", "pass"), 15
    )
    return {
        "help_ms": took * 1000,
        "python_ms": bare * 1000,
        "limit_ms": 2 * bare * 1000 + 60,
    }


BARE_PROCESS = """
import numpy, onnxruntime, tokenizers
from tamis.models.embedders import load_embedder
load_embedder("granite")
"""


def cold_search(corpus: Path, work: Path) -> dict[str, float]:
    root = some_of(corpus, work / "cold", 600)
    settings = settings_for(root, "")
    total = 0
    for document in documents(root, settings):
        total += len(document.chunks)
        if total > 5000:
            (root / document.path).unlink()
    real = load_embedder("granite")
    seeds = real.embed_passages(["alpha", "beta", "gamma", "delta"])
    fake = MixedEmbedder(seeds)
    fake.name, fake.fingerprint = (
        real.name,
        real.fingerprint,
    )  # vectors of the real model's shape
    build(root, Reader(root / ".tamis"), settings, lambda _: fake, Silent())
    run = lambda *command: subprocess.run(command, check=False, capture_output=True)  # noqa: E731
    script = shutil.which("tamis", path=str(Path(sys.executable).parent)) or "tamis"
    took, bare = alternate(
        lambda: run(script, "search", "configure a runner", str(root)),
        lambda: run(sys.executable, "-c", BARE_PROCESS),
        9,
    )
    chunks = Corpus(root, root / ".tamis", settings).status().index.chunks
    return {
        "chunks": chunks,
        "search_s": took,
        "bare_s": bare,
        "ratio": took / bare,
        "allowed": 2.0,
    }


def rerank_candidates(
    corpus: Path, work: Path, budget_ms: int = 150
) -> dict[str, float]:
    root = some_of(corpus, work / "r", 60)
    found = documents(root, settings_for(root, "none"))
    chunks = [(document, chunk) for document in found for chunk in document.chunks][
        :200
    ]
    model = load_reranker("minilm")
    picks = [
        [_candidate(*chunks[(at * 10 + n) % len(chunks)]) for n in range(10)]
        for at in range(8)
    ]
    query = "how do I configure a runner"
    lookups = Lookups(
        lambda _: np.zeros((0, 0)), lambda _: (), Models(rerank=model.scores)
    )
    ratios, passes, bounded, done = [], 0, [], []
    for candidates in picks:
        texts = [
            embedding_text(each.passage.title, each.passage) for each in candidates
        ]
        windows = [(ids, types) for _, ids, types in model.windows(query, texts)]
        passes += len(windows)

        def bare(windows=windows) -> None:
            with ThreadPoolExecutor(model.threads) as pool:
                list(pool.map(lambda window: model.forward(*window), windows))

        def ours(candidates=candidates, budget_ms=0) -> int:
            question = Question(query, weights=Weights(rerank_budget_ms=budget_ms))
            found = rerank(candidates, question, lookups)
            return sum(each.score_source == "rerank" for each in found)

        took, alone = alternate(ours, bare, 3)
        ratios.append(took / alone)
        for _ in range(4):
            bounded.append(
                seconds(lambda: done.append(ours(budget_ms=budget_ms))) * 1000
            )
    return {
        "windows": passes / len(picks),
        "ratio": statistics.median(ratios),
        "allowed": 1.2,
        "budget_ms": budget_ms,
        "longest_ms": max(bounded),
        "median_ms": statistics.median(bounded),
        "budget_ratio": max(bounded) / budget_ms,
        "budget_allowed": 1.0,
        "reranked": statistics.mean(done),
    }


def _candidate(document: Document, chunk: Chunk) -> Candidate:
    passage = Passage(
        document.path, chunk.ordinal, chunk.content, b"", chunk.header_path, chunk.start_line, chunk.end_line,
        chunk.chunk_type, chunk.language, document.modified, (), title=document.title,
    )  # fmt: skip
    return Candidate(passage, 0.0, 0.0, ())


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    arguments.add_argument("--corpus", type=Path)
    arguments.add_argument("--only", default="a,b,c,d,e,r,s,p")
    arguments.add_argument(
        "--chunks",
        type=int,
        default=100_000,
        help="how large the index of c, s and p is",
    )
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    wanted = given.only.split(",")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        corpus = write_corpus(work / "corpus", given.corpus)
        parts = {
            "a": lambda: index_with_model(corpus, work),
            "b": lambda: index_words(corpus, work),
            "c": lambda: search_large(corpus, work, given.chunks),
            "d": help_text,
            "e": lambda: cold_search(corpus, work),
            "r": lambda: rerank_candidates(corpus, work),
            "s": lambda: all_stages(corpus, work, given.chunks),
            "p": lambda: all_presets(corpus, work, given.chunks),
        }
        for name in wanted:
            figures = {key: round(value, 3) for key, value in parts[name]().items()}
            print(
                json.dumps({name: figures}) if given.json else f"{name}: {figures}",
                flush=True,
            )


if __name__ == "__main__":
    main()
