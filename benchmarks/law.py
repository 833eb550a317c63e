"""The law on a real corpus: searching with a filter equals searching an index that never held the rest.

    python benchmarks/law.py FOLDER [--filters 200] [--queries 10] [--model granite] [--seed 1]

FOLDER is a folder of documents, or a judged set with a corpus.jsonl, which is written out as files
first. For each random filter (every atom of the algebra, nested with and, or, not) a second index is
built from the allowed files alone, and every query is asked both. Results, order and scores (to
1e-6) must agree. Exits with 1 on a difference.

The same text gets the same vector in both indexes because the model says so (a test shows that);
here each text is embedded once and remembered, so that 200 indexes take minutes and not hours.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from material import write_out
from tamis import filters as f
from tamis.build import build
from tamis.corpus import Corpus, Silent
from tamis.languages import CHUNK_TYPES, LANGUAGES, chunk_type_of, language_of
from tamis.model import Facts
from tamis.models.embed import load_embedder
from tamis.search.pipeline import Question
from tamis.settings import Settings, load

TOLERANCE = 1e-6


class Remembering:
    """An embedder that computes each text once."""

    def __init__(self, inner) -> None:
        self.inner = inner
        self.name, self.fingerprint, self.dimension = inner.name, inner.fingerprint, inner.dimension
        self.known: dict[str, np.ndarray] = {}

    def embed_query(self, text):
        return self.inner.embed_query(text)

    def embed_passages(self, texts):
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known.update(zip(new, self.inner.embed_passages(new) if new else [], strict=True))
        return np.array([self.known[text] for text in texts], np.float32).reshape(len(texts), self.dimension)


def read_queries(source: Path, corpus: Corpus, choose: random.Random) -> list[str]:
    file = source / "queries.jsonl"
    if file.exists():
        return [json.loads(line)["text"] for line in file.read_text(encoding="utf-8").splitlines()]
    with corpus._reader.snapshot() as snapshot:
        texts = [row[0] for row in snapshot.connection.execute("SELECT content FROM chunks LIMIT 5000")]
    return [" ".join(choose.choices(choose.choice(texts).split() or ["x"], k=4)) for _ in range(200)]


def all_facts(corpus: Corpus) -> list[Facts]:
    with corpus._reader.snapshot() as snapshot:
        return [facts for segment in snapshot.view.segments for facts in snapshot._facts(segment).values()]


def random_atom(choose: random.Random, documents: list[Facts]) -> f.Filter:
    path = choose.choice(documents).path
    folder, _, name = path.rpartition("/")
    tags = sorted({tag for facts in documents for tag in facts.tags}) or ["none-here"]
    makers = (
        lambda: f.File((choose.choice([name, f"/{path}", name.rsplit(".", 1)[0]]),)),
        lambda: f.Path(
            (choose.choice([f"{folder}/**", f"*{name[-7:]}", f"/{path}", f"{name[:2]}*", "*.md", "**/a*"]),)
        ),
        lambda: f.Path((f"{folder or '*'}/" if folder else "*", f"!{name}")),
        lambda: f.Under(folder.split("/")[0] if choose.random() < 0.5 else folder),
        lambda: f.Tag(choose.choice([*tags, "absent"])),
        lambda: f.Type(choose.choice(CHUNK_TYPES)),
        lambda: f.Language(choose.choice(LANGUAGES)),
        lambda: f.DocumentIs(path),
        lambda: f.Workspace("some", (folder, choose.choice(documents).path.split("/")[0])),
        lambda: f.Archived(("archive/", "*.old", f"/{folder}/" if folder else f"/{name[0]}*")),
        lambda: f.Author(choose.choice(documents).author or "nobody"),
        lambda: f.Category(choose.choice(documents).category or "none"),
        lambda: f.After("x", choose.choice(documents).modified),
        lambda: f.Before("x", choose.choice(documents).modified),
    )
    return choose.choice(makers)()


def random_filter(choose: random.Random, documents: list[Facts], depth: int = 3) -> f.Filter:
    kind = choose.random()
    if depth == 0 or kind < 0.35:
        return random_atom(choose, documents)
    if kind < 0.6:
        return f.none_of(random_filter(choose, documents, depth - 1))
    terms = [random_filter(choose, documents, depth - 1) for _ in range(choose.randint(2, 3))]
    return f.all_of(terms) if kind < 0.75 else f.any_of(terms)


def interesting_filter(choose: random.Random, documents: list[Facts]) -> tuple[f.Filter, list[str]]:
    """A filter that keeps something and something out; every tenth may be extreme."""
    while True:
        made = random_filter(choose, documents)
        kept = [d.path for d in documents if f.allows(made, d, chunk_type_of(d.path), language_of(d.path))]
        if 0 < len(kept) < len(documents) or choose.random() < 0.02:
            return made, kept


def opened(root: Path, settings: Settings, embedder) -> Corpus:
    build(root, root / ".tamis", settings, lambda _: embedder, Silent())
    corpus = Corpus(root, root / ".tamis", settings)
    corpus._embedders[settings.model.name] = embedder
    return corpus


def differences(full: Corpus, rest: Corpus, wanted: f.Filter, query: str) -> list[str]:
    with_filter = full.ask(query, Question(text=query, filter=wanted, limit=10))
    without = rest.ask(query, Question(text=query, limit=10))
    found = []
    if [r.chunk_id for r in with_filter.results] != [r.chunk_id for r in without.results]:
        found.append("results or their order")
    for a, b in zip(with_filter.results, without.results, strict=False):
        scores = [(a.score, b.score), (a.raw_score, b.raw_score)]
        scores += [(x.score, y.score) for x, y in zip(a.evidence, b.evidence, strict=False)]
        if any(abs(x - y) > TOLERANCE for x, y in scores):
            found.append(f"scores of {a.chunk_id}")
    if with_filter.stats["original_count"] != without.stats["original_count"]:
        found.append("counts")
    return found


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--filters", type=int, default=200)
    arguments.add_argument("--queries", type=int, default=10)
    arguments.add_argument("--model", default="granite")
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    choose = random.Random(given.seed)
    embedder = Remembering(load_embedder(given.model))
    started, compared, kinds, failed = time.monotonic(), 0, Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        root = write_out(given.folder, Path(folder).resolve() / "full")
        for at, file in enumerate(sorted(p for p in root.rglob("*") if p.is_file())):
            stamp = 1_700_000_000 + at * 3600  # dates that filters can tell apart
            os.utime(file, (stamp, stamp))
        settings = load(root, {"model.name": given.model}, environment={"HOME": folder})
        full = opened(root, settings, embedder)
        documents, queries = all_facts(full), read_queries(given.folder, full, choose)
        for number in range(given.filters):
            wanted, kept = interesting_filter(choose, documents)
            part = Path(folder).resolve() / "part"
            for path in kept:
                (part / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / path, part / path)
            part.mkdir(exist_ok=True)
            with opened(part, settings, embedder) as rest:
                for query in choose.sample(queries, min(given.queries, len(queries))):
                    compared += 1
                    for what in differences(full, rest, wanted, query):
                        failed += 1
                        print(f"DIFFERENT {what}: filter {wanted} query {query!r}")
            shutil.rmtree(part)
            kinds[f"{len(kept) * 10 // len(documents) * 10:3d}%"] += 1
            if number % 50 == 49:
                print(f"{number + 1} filters, {compared} comparisons, {failed} differences", flush=True)
    print(f"documents kept by the filters: {dict(sorted(kinds.items()))}")
    print(
        f"{given.filters} filters x {given.queries} queries, {len(documents)} documents, model {given.model}:"
    )
    print(f"{failed} differences in {compared} comparisons, {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
