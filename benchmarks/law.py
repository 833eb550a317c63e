"""The law on a real corpus: searching with a filter equals searching an index that never held the rest.

    python benchmarks/law.py FOLDER [--filters 200] [--queries 10] [--model granite] [--seed 1] [--parents]
                             [--preset fast,balanced,best] [--everything]

FOLDER is a folder of documents and code, or a judged set with a corpus.jsonl, which is written out as
files first. For each random filter (every atom of the algebra, nested with and, or, not) a second index
is built from the allowed passages alone, and every query is asked both, following links for 0 to 3
hops in turn. Results, order, scores (to 1e-6) and neighbours must agree. Exits with 1 on a difference.

Every query is asked once for each preset that is named (balanced where none is), and with --everything
once more with every stage on that is off by default: near text, same meaning, MMR, recency, expansion,
synonyms, weights by the type of the question, and a stand-in for the cross-encoder whose scores have
nothing to do with the order before.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from zlib import crc32

import numpy as np

from material import write_out
from tamis.configuration import load
from tamis.corpus import Corpus
from tamis.index.build import build
from tamis.index.embedded.reader import Reader
from tamis.index.vocabulary import make_vocabulary
from tamis.ingest.parse import parse
from tamis.model import Document, Facts, Found, chunk_id
from tamis.models.embedders import load_embedder
from tamis.progress import Silent
from tamis.query import filters as f
from tamis.settings import PRESETS, Settings
from tamis.text.languages import CHUNK_TYPES, LANGUAGES

TOLERANCE = 1e-6
FIRST_DAY = 1_700_000_000  # files are dated from here, an hour apart
EVERYTHING_ON = {
    "search.dedup_enabled": True,
    "search.recency_profile": "code",
    "search.recency_bias": 0.8,
    "search.query_expansion_enabled": True,
    "weights.query_expansion_threshold": 0.3,
    "weights.query_expansion_keywords": 0.3,
    "search.synonyms": "software",
    "search.adaptive_weights_enabled": True,
    "search.rerank_enabled": True,
    "weights.rerank_budget_ms": 0,  # with a limit, what fits is up to the machine
}
Kept = Mapping[str, Sequence[int]]  # by path, the passages that a filter leaves


class Remembering:
    """An embedder that computes each text once."""

    def __init__(self, inner) -> None:
        self.inner = inner
        self.name, self.fingerprint, self.dimension = (
            inner.name,
            inner.fingerprint,
            inner.dimension,
        )
        self.related = inner.related
        self.known: dict[str, np.ndarray] = {}

    def embed_query(self, text):
        return self.inner.embed_query(text)

    def embed_passages(self, texts):
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known.update(
            zip(new, self.inner.embed_passages(new) if new else [], strict=True)
        )
        return np.array([self.known[text] for text in texts], np.float32).reshape(
            len(texts), self.dimension
        )


class Noise:
    """A cross-encoder's stand-in: a number of its own for each question and text."""

    name = "noise"

    def scores(self, query: str, passages: Sequence[str], *_: float) -> list[float]:
        return [crc32(f"{query}\0{passage}".encode()) % 7 - 3.0 for passage in passages]


def ways_of(presets: Sequence[str], everything: bool) -> dict[str, dict[str, Any]]:
    """The settings of each way of asking, by name."""
    named = [name for given in presets for name in given.split(",")]
    chosen = named or ([] if everything else ["balanced"])
    ways: dict[str, dict[str, Any]] = {name: {"search.preset": name} for name in chosen}
    if everything:
        ways |= {
            "everything": EVERYTHING_ON,
            "everything with mmr": {
                **EVERYTHING_ON,
                "search.mmr_enabled": True,
                "search.mmr_lambda": 0.5,
            },
        }
    return ways


def read_queries(source: Path, corpus: Corpus, choose: random.Random) -> list[str]:
    file = source / "queries.jsonl"
    if file.exists():
        return [
            json.loads(line)["text"]
            for line in file.read_text(encoding="utf-8").splitlines()
        ]
    with corpus._reader.snapshot() as snapshot:
        texts = [
            row[0]
            for row in snapshot.connection.execute(
                "SELECT content FROM chunks LIMIT 5000"
            )
        ]
    return [
        " ".join(choose.choices(choose.choice(texts).split() or ["x"], k=4))
        for _ in range(200)
    ]


@dataclass(frozen=True, slots=True)
class Indexed:
    """A document as filters see it: its facts, and its passages' types and languages in order."""

    facts: Facts
    passages: tuple[tuple[str, str | None], ...]


def all_documents(corpus: Corpus) -> list[Indexed]:
    with corpus._reader.snapshot() as snapshot:
        facts = [
            facts
            for segment in snapshot.view.segments
            for facts in snapshot._facts(segment).values()
        ]
        passages: dict[str, list[tuple[str, str | None]]] = {}
        for path, kind, language in snapshot.connection.execute(
            "SELECT d.path, c.type, c.language FROM chunks c JOIN documents d ON d.id = c.document"
            " ORDER BY d.path, c.ordinal"
        ):
            passages.setdefault(path, []).append((kind, language))
    return [Indexed(each, tuple(passages.get(each.path, ()))) for each in facts]


def kept_by(wanted: f.Filter, documents: Sequence[Indexed]) -> Kept:
    """The passages that a filter lets through; documents without any are not there."""
    kept = {
        each.facts.path: [
            at
            for at, row in enumerate(each.passages)
            if f.allows(wanted, each.facts, *row)
        ]
        for each in documents
    }
    return {path: numbers for path, numbers in kept.items() if numbers}


def pruned(document: Document, kept: Sequence[int]) -> Document:
    """A document of some of its passages, numbered anew, with the links that stand in them.

    A section holds what the filter keeps out, so a document that is cut has none.
    """
    if len(kept) < len(document.chunks):
        alone = tuple(replace(chunk, parent=None) for chunk in document.chunks)
        document = replace(document, chunks=alone, parents=())
    place = {None: None, **{old: new for new, old in enumerate(kept)}}
    chunks = (
        replace(document.chunks[old], ordinal=new) for new, old in enumerate(kept)
    )
    links = (
        replace(link, ordinal=place[link.ordinal])
        for link in document.links
        if link.ordinal in place
    )
    return replace(document, chunks=tuple(chunks), links=tuple(links))


def random_atom(choose: random.Random, documents: list[Facts]) -> f.Filter:
    path = choose.choice(documents).path
    folder, _, name = path.rpartition("/")
    tags = sorted({tag for facts in documents for tag in facts.tags}) or ["none-here"]
    makers = (
        lambda: f.File((choose.choice([name, f"/{path}", name.rsplit(".", 1)[0]]),)),
        lambda: f.Path(
            (
                choose.choice(
                    [
                        f"{folder}/**",
                        f"*{name[-7:]}",
                        f"/{path}",
                        f"{name[:2]}*",
                        "*.md",
                        "**/a*",
                    ]
                ),
            )
        ),
        lambda: f.Path((f"{folder or '*'}/" if folder else "*", f"!{name}")),
        lambda: f.Under(folder.split("/")[0] if choose.random() < 0.5 else folder),
        lambda: f.Tag(choose.choice([*tags, "absent"])),
        lambda: f.Type(choose.choice(CHUNK_TYPES)),
        lambda: f.Language(choose.choice(LANGUAGES)),
        lambda: f.DocumentIs(path),
        lambda: f.Workspace(
            "some", (folder, choose.choice(documents).path.split("/")[0])
        ),
        lambda: f.Archived(
            ("archive/", "*.old", f"/{folder}/" if folder else f"/{name[0]}*")
        ),
        lambda: f.Author(choose.choice(documents).author or "nobody"),
        lambda: f.Category(choose.choice(documents).category or "none"),
        lambda: f.After("x", choose.choice(documents).modified),
        lambda: f.Before("x", choose.choice(documents).modified),
    )
    return choose.choice(makers)()


def random_filter(
    choose: random.Random, documents: list[Facts], depth: int = 3
) -> f.Filter:
    kind = choose.random()
    if depth == 0 or kind < 0.35:
        return random_atom(choose, documents)
    if kind < 0.6:
        return f.none_of(random_filter(choose, documents, depth - 1))
    terms = [
        random_filter(choose, documents, depth - 1) for _ in range(choose.randint(2, 3))
    ]
    return f.all_of(terms) if kind < 0.75 else f.any_of(terms)


def interesting_filter(
    choose: random.Random, documents: Sequence[Indexed]
) -> tuple[f.Filter, Kept]:
    """A filter that keeps something and something out; every tenth may be extreme."""
    facts, passages = (
        [each.facts for each in documents],
        sum(len(each.passages) for each in documents),
    )
    while True:
        made = random_filter(choose, facts)
        kept = kept_by(made, documents)
        if 0 < sum(map(len, kept.values())) < passages or choose.random() < 0.02:
            return made, kept


def opened(
    root: Path, settings: Settings, embedder, kept: Kept | None = None
) -> Corpus:
    def parse_some(source, sizes):
        document, warning = parse(source, sizes)
        return pruned(document, kept[source.path]), warning

    with patch("tamis.index.build.parse", parse if kept is None else parse_some):
        build(root, Reader(root / ".tamis"), settings, lambda _: embedder, Silent())
    if settings.search.query_expansion_enabled:
        make_vocabulary(root / ".tamis", settings, lambda _: embedder, Silent())
    return asked_as(root, settings, embedder)


def asked_as(root: Path, settings: Settings, embedder) -> Corpus:
    """An index that is there, with the settings of one way of asking."""
    corpus = Corpus(root, root / ".tamis", settings)
    corpus._models._embedders[settings.model.name] = embedder
    corpus._models._reranker = Noise()
    return corpus


def differences(with_filter: Found, without: Found, kept: Kept) -> list[str]:
    """What two answers say differently. The smaller index numbers its passages anew."""
    names = {
        chunk_id(p, new): chunk_id(p, old)
        for p, numbers in kept.items()
        for new, old in enumerate(numbers)
    }
    found = []
    if _named(with_filter, {}) != _named(without, names):
        found.append("results, neighbours or their order")
    for a, b in zip(with_filter.results, without.results, strict=False):
        scores = [(a.score, b.score), (a.raw_score, b.raw_score)]
        scores += [
            (x.score, y.score) for x, y in zip(a.evidence, b.evidence, strict=False)
        ]
        if any(abs(x - y) > TOLERANCE for x, y in scores):
            found.append(f"scores of {a.chunk_id}")
    if with_filter.stats["original_count"] != without.stats["original_count"]:
        found.append("counts")
    if (with_filter.expansion, with_filter.synonyms) != (
        without.expansion,
        without.synonyms,
    ):
        found.append("terms that were added")
    return found


def exercised(found: Found) -> Counter[str]:
    """What an answer is worth as a comparison: results by lane, sections in place of passages, neighbours."""
    counts = Counter(
        evidence.lane for result in found.results for evidence in result.evidence
    )
    counts["sections"] = sum("#parent-" in result.chunk_id for result in found.results)
    counts["neighbours"] = len(found.graph_context or ())
    counts["reranked"] = found.stats["reranked"]
    counts["added terms"] = len(found.expansion) + len(found.synonyms)
    return counts


def _named(found: Found, names: Mapping[str, str]) -> list[object]:
    """What is shown, by name: results with their lanes and texts, and where links led."""
    results = [
        (
            names.get(r.chunk_id, r.chunk_id),
            r.content,
            [(e.lane, e.rank) for e in r.evidence],
        )
        for r in found.results
    ]
    context = [
        (n.path, names.get(n.chunk_id, n.chunk_id), n.hops, n.link, n.source, n.target)
        for n in found.graph_context or ()
    ]
    return [results, context]


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--filters", type=int, default=200)
    arguments.add_argument("--queries", type=int, default=10)
    arguments.add_argument("--model", default="granite")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument(
        "--parents",
        action="store_true",
        help="index on two levels and show the sections",
    )
    arguments.add_argument(
        "--preset",
        action="append",
        default=[],
        help="ask as this preset; several: a,b,c",
    )
    arguments.add_argument(
        "--everything", action="store_true", help="ask with every stage on"
    )
    given = arguments.parse_args()
    ways = ways_of(given.preset, given.everything)
    if unknown := ways.keys() - PRESETS.keys() - {"everything", "everything with mmr"}:
        arguments.error(f"no preset is called {', '.join(sorted(unknown))}")
    choose = random.Random(given.seed)
    embedder = Remembering(load_embedder(given.model))
    started, compared, kinds, seen, cutting, failed = (
        time.monotonic(),
        0,
        Counter(),
        Counter(),
        0,
        0,
    )
    with tempfile.TemporaryDirectory() as folder:
        root = write_out(given.folder, Path(folder).resolve() / "full")
        files = sorted(p for p in root.rglob("*") if p.is_file())
        for at, file in enumerate(files):
            stamp = FIRST_DAY + at * 3600  # dates that filters can tell apart
            os.utime(file, (stamp, stamp))
        now = float(FIRST_DAY + len(files) * 3600)
        flags = {"model.name": given.model, "chunking.parents": given.parents}
        settings = {
            way: load(root, flags | more, environment={"HOME": folder})
            for way, more in ways.items()
        }
        to_build = settings[
            list(ways)[-1]
        ]  # with a vocabulary, where one of them wants it
        full = opened(root, to_build, embedder)
        whole = {way: asked_as(root, each, embedder) for way, each in settings.items()}
        documents, queries = (
            all_documents(full),
            read_queries(given.folder, full, choose),
        )
        for number in range(given.filters):
            wanted, kept = interesting_filter(choose, documents)
            cutting += any(
                len(kept.get(d.facts.path, d.passages)) < len(d.passages)
                for d in documents
            )
            part = Path(folder).resolve() / "part"
            for path in kept:
                (part / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / path, part / path)
            part.mkdir(exist_ok=True)
            opened(part, to_build, embedder, kept).close()
            chosen = choose.sample(queries, min(given.queries, len(queries)))
            for way, each in settings.items():
                with asked_as(part, each, embedder) as rest:
                    for at, query in enumerate(chosen):
                        hops = (number * len(chosen) + at) % 4
                        compared += 1
                        question = replace(
                            whole[way].question(query),
                            filter=wanted,
                            limit=10,
                            max_hops=hops,
                            graph_context=True,
                            parents=given.parents,
                            now=now,
                        )
                        found = whole[way].ask(query, question)
                        alone = rest.ask(query, replace(question, filter=f.EVERYTHING))
                        seen += exercised(found)
                        for what in differences(found, alone, kept):
                            failed += 1
                            print(
                                f"DIFFERENT {what}: {way}: filter {wanted} query {query!r} hops {hops}"
                            )
            shutil.rmtree(part)
            kinds[f"{len(kept) * 10 // len(documents) * 10:3d}%"] += 1
            if number % 50 == 49:
                print(
                    f"{number + 1} filters, {compared} comparisons, {failed} differences",
                    flush=True,
                )
    print(f"documents kept by the filters: {dict(sorted(kinds.items()))}")
    print(
        f"filters that cut through documents: {cutting}; results compared: {dict(sorted(seen.items()))}"
    )
    passages = sum(len(each.passages) for each in documents)
    size = f"{len(documents)} documents, {passages} passages"
    asked = f"{given.filters} filters x {given.queries} queries x {len(ways)} ways ({', '.join(ways)})"
    print(f"{asked}, {size}, model {given.model}:")
    print(
        f"{failed} differences in {compared} comparisons, {time.monotonic() - started:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
