"""What excluding costs: searches with 0 to 99 % of the files left out, against none; tags; and workspaces.

    python benchmarks/exclusion.py [--corpus FOLDER] [--chunks 100000] [--rounds 12]

Exclusion lists name single files (`excluded_files`), the form that other engines suffer from most. Times
are medians of searches without the question's embedding, run in turns; `first` is the first search with a
list, which also evaluates it. Results and rows looked at are counted. Every page has one tag that all have,
and one that a tenth has.
"""

import argparse
import random
import statistics
import tempfile
from pathlib import Path

from material import (
    MixedEmbedder,
    documents,
    large_root,
    seconds,
    settings_for,
    some_of,
    write_corpus,
)
from tamis.index.build import build
from tamis.index.embedded.reader import Reader
from tamis.model import embedding_text
from tamis.models.embedders import load_embedder
from tamis.progress import Silent
from tamis.query.filters import EVERYTHING, File, Filter, Tag, Workspace
from tamis.search.pipeline import search
from tamis.search.question import Models, Question
from tamis.settings import SearchSettings

SHARES = (0, 10, 20, 50, 90, 99)
TAGS: dict[str, Filter] = {
    "none": EVERYTHING,
    "all's tag": Tag("everywhere"),
    "a tenth's": Tag("tenth0"),
    "both tags": Tag("everywhere") & Tag("tenth0"),
}
QUERIES = (
    "configure a runner",
    "delete a repository",
    "authentication token",
    "billing for teams",
)


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    arguments.add_argument("--corpus", type=Path)
    arguments.add_argument("--chunks", type=int, default=100_000)
    arguments.add_argument("--rounds", type=int, default=12)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        corpus = write_corpus(work / "corpus", given.corpus)
        root = tagged(large_root(corpus, work, given.chunks))
        settings = settings_for(root, "")
        small = some_of(corpus, work / "seeds", 40)
        texts = [
            embedding_text(d.title, c)
            for d in documents(small, settings)
            for c in d.chunks
        ][:300]
        real = load_embedder("granite")
        build(
            root,
            Reader(root / ".tamis"),
            settings,
            lambda _: MixedEmbedder(real.embed_passages(texts)),
            Silent(),
        )
        vectors = {query: real.embed_query(query) for query in QUERIES}
        with Reader(root / ".tamis").snapshot() as snapshot:
            paths = snapshot.documents(EVERYTHING)
            random.Random(3).shuffle(paths)
            print(f"{snapshot.state.chunks} chunks in {len(paths)} files")
            measure(snapshot, vectors, exclusions(paths), given.rounds)
            measure(snapshot, vectors, TAGS, given.rounds)
            workspaces(snapshot, vectors, given.rounds)


def tagged(root: Path) -> Path:
    for number, file in enumerate(sorted(root.rglob("*.md"))):
        with file.open("a", encoding="utf-8") as page:
            page.write(f"\n\n#everywhere #tenth{number % 10}\n")
    return root


def exclusions(paths: list[str]) -> dict[str, Filter]:
    lists = {share: paths[: len(paths) * share // 100] for share in SHARES}
    made: dict[str, Filter] = {"none": EVERYTHING}
    for share, files in lists.items():
        names = tuple(f"/{path}" for path in files) or ("/no/such/file.md",)
        made[f"{share} %"] = ~File(names)
    return made


def measure(snapshot, vectors, filters: dict[str, Filter], rounds: int) -> None:
    first, times, counts, scanned = {}, {name: [] for name in filters}, {}, {}

    def ask(query: str, filter: Filter):
        return search(
            snapshot,
            Question(query, filter, limit=10),
            Models(lambda text: vectors[text]),
        )

    for name, wanted in filters.items():
        first[name] = seconds(lambda f=wanted: ask(QUERIES[0], f))
    for _ in range(rounds):
        for query in QUERIES:
            for name, wanted in filters.items():
                times[name].append(seconds(lambda q=query, f=wanted: ask(q, f)))
    for name, wanted in filters.items():
        answer = ask(QUERIES[0], wanted)
        counts[name], scanned[name] = len(answer.candidates), answer.scanned
    bare = statistics.median(times["none"])
    print(
        f"{'excluded':>9} {'ms':>8} {'ratio':>6} {'first ms':>9} {'results':>8} {'rows looked at':>15}"
    )
    for name in filters:
        took = statistics.median(times[name])
        print(
            f"{name:>9} {took * 1000:8.2f} {took / bare:6.2f} {first[name] * 1000:9.1f} "
            f"{counts[name]:8} {scanned[name]:15}"
        )


def workspaces(snapshot, vectors, rounds: int) -> None:
    """A workspace of a tenth and of two fifths of the folders, filtered before and after scoring."""
    print(f"{'workspace':>9} {'way':>7} {'ms':>8} {'rows looked at':>15} {'less':>6}")
    for folders in (10, 40):
        wanted = Workspace("w", tuple(f"part{number:02}" for number in range(folders)))
        for way in ("native", "post"):
            settings = SearchSettings(workspace_filtering=way)

            def ask(query: str, filter=wanted, settings=settings):
                question = Question(query, filter, limit=10, settings=settings)
                return search(snapshot, question, Models(lambda text: vectors[text]))

            times = [
                seconds(lambda q=q: ask(q)) for _ in range(rounds) for q in QUERIES
            ]
            scanned = ask(QUERIES[0]).scanned
            less = 1 - scanned / snapshot.state.chunks
            took = statistics.median(times) * 1000
            print(f"{folders:>8}% {way:>7} {took:8.2f} {scanned:15} {less * 100:5.0f}%")


if __name__ == "__main__":
    main()
