"""The two engines side by side, on the documents and questions of a judged set.

The same documents are written to the embedded engine and to the cluster engine, whose points are kept by the
server's own core in this process (`qdrant-edge-py`). Then:

- random filters: the passages that each allows, its answers, and the rank correlation of their order;
- the set's own questions: nDCG@10 by each;
- filters that keep a tenth, a hundredth and a thousandth of the documents: results that came, of how many;
- what a point takes on disk, and CPU time for a question.

    python benchmarks/engines.py FOLDER [--model hashing] [--filters 300] [--approximate]
    python benchmarks/engines.py --points 20000

The second measures what points like those of the first take, on disk and in the memory of a process that has
them open and has been asked.
"""

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import kendalltau

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support import clusters
from support.corpora import test_settings
from tamis.corpus import Corpus
from tamis.index.engines import copy
from tamis.index.qdrant import points as p
from tamis.measure.judged import JudgedSet, open_judged
from tamis.measure.metrics import ndcg
from tamis.model import Document, Facts, Found, FrontMatter
from tamis.progress import Silent
from tamis.query import filters as f

ANSWER = 10


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument(
        "--points", type=int, default=0, help="measure the size of this many points"
    )
    parser.add_argument("--model", default="hashing")
    parser.add_argument("--filters", type=int, default=300)
    parser.add_argument(
        "--questions", type=int, default=100, help="of the set, at most"
    )
    parser.add_argument(
        "--approximate",
        action="store_true",
        help="the cluster's own scores, engine.exact=false",
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tamis-engines-") as work:
        if given.points:
            sizes(Path(work), given.points)
            return
        judged, place = open_judged(given.folder, Path(work), most=given.questions)
        compare(judged, place, given)


def compare(judged: JudgedSet, place: Path, given: argparse.Namespace) -> None:
    settings = test_settings(judged.root, model__name=given.model)
    began = time.process_time()
    points = clusters.points_at("qdrant-edge", place, indexed=True)
    with Corpus(judged.root, place / "index", settings) as here:
        here.refresh()
        print(f"{here.state().documents} documents, {here.state().chunks} chunks, model {given.model}; "
              f"indexed in {time.process_time() - began:.1f} CPU s")  # fmt: skip
        began = time.process_time()
        index = clusters.index_on(
            points, exact=not given.approximate, dimension=lambda: _width(here)
        )
        copy(here._reader, index, judged.root, settings, Silent())
        points.shard.flush()
        spent, chunks = time.process_time() - began, here.state().chunks
        there_bytes, here_bytes = (
            _bytes(points._folder) / chunks,
            _bytes(place / "index") / chunks,
        )
        print(
            f"copied in {spent:.1f} CPU s; {there_bytes:.0f} bytes a chunk there, {here_bytes:.0f} here"
        )
        print("; ".join(_terms(points)))
        with Corpus(judged.root, place / "index", settings, index=index) as there:
            random_filters(here, there, judged, given.filters)
            quality(here, there, judged)
            selective(here, there, judged)


def random_filters(here: Corpus, there: Corpus, judged: JudgedSet, count: int) -> None:
    dice = random.Random(8)
    with here.snapshot() as snapshot:
        documents = list(snapshot.facts())
    same_rows = same_sets = same_order = same_scores = answered = 0
    taus: list[float] = []
    times = [0.0, 0.0]
    for number in range(count):
        chosen, asked = (
            random_filter(dice, documents),
            judged.questions[number % len(judged.questions)],
        )
        counts, found = [], []
        for at, corpus in enumerate((here, there)):
            with corpus.snapshot() as snapshot:
                allowed = snapshot.allow(chosen)
                counts.append((allowed.chunks, allowed.documents))
            began = time.process_time()
            found.append(ask(corpus, asked.text, chosen))
            times[at] += time.process_time() - began
        one, two = map(places, found)
        same_rows += counts[0] == counts[1]
        same_sets += set(one) == set(two)
        same_order += one == two
        same_scores += [r.score for r in found[0].results] == [
            r.score for r in found[1].results
        ]
        answered += bool(one)
        if len(one) > 1 and set(one) == set(two):
            taus.append(
                kendalltau(range(len(one)), [two.index(each) for each in one]).statistic
            )
    print(f"{count} random filters ({answered} with an answer): allowed rows equal {same_rows}, "
          f"the same {ANSWER} best {same_sets}, in the same order {same_order}, "
          f"with the same scores to the last bit {same_scores}")  # fmt: skip
    mean, (ours, theirs) = (
        sum(taus) / len(taus),
        (1000 * spent / count for spent in times),
    )
    print(f"Kendall's tau of the order: mean {mean:.4f}, least {min(taus):.4f}")
    print(f"CPU ms a question: {ours:.1f} here, {theirs:.1f} there")


def quality(here: Corpus, there: Corpus, judged: JudgedSet) -> None:
    means = []
    for corpus in (here, there):
        scores = []
        for asked in judged.questions:
            found = ask(corpus, asked.text, f.EVERYTHING, per_document=1)
            ranked = [
                judged.ids.get(result.path, result.path) for result in found.results
            ]
            scores.append(ndcg(ranked, asked.grades, ANSWER))
        means.append(sum(scores) / len(scores))
    print(
        f"nDCG@10 over {len(judged.questions)} questions: {means[0]:.4f} here, {means[1]:.4f} there"
    )


def selective(here: Corpus, there: Corpus, judged: JudgedSet) -> None:
    with here.snapshot() as snapshot:
        paths = [facts.path for facts in snapshot.facts()]
    dice = random.Random(9)
    for share in (0.1, 0.01, 0.001):
        short = asked = 0
        for question in judged.questions[:30]:
            kept = dice.sample(paths, max(1, round(share * len(paths))))
            chosen = f.any_of(map(f.DocumentIs, kept))
            with there.snapshot() as snapshot:
                eligible = snapshot.allow(chosen).documents
            found = ask(there, question.text, chosen, per_document=1)
            short += len(found.results) < min(ANSWER, eligible)
            asked += 1
        print(
            f"filters that keep {share:.1%} of the documents: {asked - short} of {asked} answers are full"
        )


def ask(corpus: Corpus, text: str, filter: f.Filter, per_document: int = 0) -> Found:
    question = replace(
        corpus.question(text),
        filter=filter,
        limit=ANSWER,
        max_chunks_per_doc=per_document,
    )
    every_copy = question.without | {"same text", "overlap", "near text"}
    return corpus.ask(text, replace(question, without=every_copy))


def places(found: Found) -> list[str]:
    return [result.chunk_id for result in found.results]


def random_filter(
    dice: random.Random, documents: Sequence[Facts], depth: int = 2
) -> f.Filter:
    if depth and dice.random() < 0.5:
        inner = tuple(
            random_filter(dice, documents, depth - 1) for _ in range(dice.randint(1, 3))
        )
        return dice.choice((f.And(inner), f.Or(inner), f.Not(inner[0])))
    one = dice.choice(documents)
    folder, _, name = one.path.rpartition("/")
    letter = dice.choice("abcdefghijklmnopqrstuvw")
    atoms = [
        f.Under(folder), f.Workspace("two", (folder, dice.choice(documents).path.rpartition("/")[0])),
        f.File((name,)), f.File(tuple(each.path.rpartition("/")[2] for each in dice.choices(documents, k=9))),
        f.Path((f"*{letter}*.md",)), f.Path((f"/{folder}/**" if folder else "/*", f"!*{letter}*")),
        f.Type(dice.choice(("documentation", "code_block"))), f.After("", one.modified),
        f.Before("", one.modified), f.DocumentIs(one.path), f.Archived(("archive/", f"*{letter}/")),
        f.Tag(next(iter(one.tags), "none")),
    ]  # fmt: skip
    return ~dice.choice(atoms) if dice.random() < 0.4 else dice.choice(atoms)


DIMENSION, WORD_TERMS, CODE_TERMS, CHARACTERS = (
    384,
    33,
    13,
    700,
)  # as measured on a vault of notes


def sizes(work: Path, count: int) -> None:
    dice = np.random.default_rng(5)
    points = clusters.points_at("qdrant-edge", work, indexed=True)
    points.prepare(DIMENSION)
    for at in range(0, count, 500):
        points.put([_point(dice, number) for number in range(at, at + 500)])
    points.shard.flush()
    points.close()
    (folder,) = work.iterdir()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        before, opened, asked, spent = pool.apply(_resident, (str(folder),))
    print(f"{count} points: {_bytes(folder) / count:.0f} bytes on disk each")
    own, then = (opened - before) / 1e6, (asked - before) / 1e6
    print(f"memory of the process, MB: {own:.1f} when opened, {then:.1f} when asked")
    print(f"exact search over all of them: {1000 * spent:.1f} CPU ms")


def _point(dice: np.random.Generator, number: int) -> p.Point:
    path, words = (
        f"folder{number // 400}/file{number // 10}.md",
        dice.zipf(1.3, CHARACTERS // 7) % 50_000,
    )
    payload = {
        "kind": "chunk",
        "root": "notes",
        "born": 1,
        "fileHash": f"{number:064x}",
        "chunkId": str(number % 10),
    }
    front = FrontMatter(tags=("notes",))
    document = Document(path, "", front, float(number), ())
    payload |= p.searchable(document, f.Archived(()))
    payload |= {
        "content": " ".join(f"w{word:05}" for word in words),
        "chunk_type": "documentation",
    }
    payload |= {
        "header_path": "Some > Headings > Above",
        "start_line": 1,
        "end_line": 20,
        "title": f"file {number // 10}",
    }
    vector = dice.standard_normal(DIMENSION).astype(np.float32)
    terms = {
        lane: {int(each): 1.5 for each in dice.zipf(1.2, size) % 2**31}
        for lane, size in ((p.WORDS, WORD_TERMS), (p.CODE, CODE_TERMS))
    }
    unit = vector / np.linalg.norm(vector)
    return p.Point(p.point_id(number), payload, unit, terms)


def _resident(folder: str) -> tuple[int, int, int, float]:
    """Bytes in memory: before the shard is opened, after, and when it was asked; CPU seconds of a search."""
    taken = [_now()]
    shard = clusters.edge.EdgeShard.load(folder)
    taken.append(_now())
    points = clusters.EdgePoints(Path(folder), indexed=True)
    points._shard, points._dimension = shard, DIMENSION
    chunks = p.visible("notes", 1, "chunk")
    dense = np.ones(DIMENSION, np.float32)
    points.nearest(
        [
            p.Ask("meaning", dense, chunks, 75),
            p.Ask("words", {1: 1.0, 2: 1.0}, chunks, 75),
        ]
    )
    taken.append(_now())
    began = time.process_time()
    for _ in range(5):
        points.nearest([p.Ask("meaning", dense, chunks, 75)])
    spent = (time.process_time() - began) / 5
    points.close()
    return taken[0], taken[1], taken[2], spent


def _now() -> int:
    """Memory of the process's own: pages of mapped files are the system's to drop."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(
        int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")
    )


def _width(corpus: Corpus) -> int:
    with corpus.snapshot() as snapshot:
        return int(snapshot.about["dimension"])


def _terms(points: clusters.EdgePoints) -> list[str]:
    """How many numbers the sparse vectors have."""
    chunks = {"must": [{"key": "kind", "match": {"value": "chunk"}}]}
    rows = list(points.find(chunks, ("kind",), ("words", "code")))
    means = {
        name: sum(len(row.sparse(name)) for row in rows) / len(rows)
        for name in ("words", "code")
    }
    return [f"terms in a {name} vector: {mean:.0f}" for name, mean in means.items()]


def _bytes(folder: Path) -> int:
    return sum(
        file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file()
    )


if __name__ == "__main__":
    main()
