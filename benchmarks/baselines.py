"""The plain baselines that a ranking is held against: BM25, dense, and RRF of both.

    python benchmarks/baselines.py SET... [--work DIR] [--json] [--model granite] [--queries N]

Sets are given as to `tamis eval` (docs/evaluation.md): a folder, a file of questions, or SET=ROOT where the
documents are a tree; the questions and the metrics are the same. Nothing of tamis ranks here:

- **BM25**: bm25s (in the extra `dev`), the Lucene variant, k1 1.5, b 0.75, English stop words, Snowball
  stems, whole documents with their titles (in a tree: their paths). Code is read twice, as it is and with
  its identifiers split.
- **dense**: the same embedder as tamis. One vector for each document of a set of abstracts or snippets; in a
  set of pages or source files the better of a document's first two pieces of 1000 characters.
- **RRF**: k = 60 over the first hundred documents of both.

Ties go to the document that comes first in the corpus. Filters of questions are not applied.
`--json` prints what `tamis eval` prints of single questions, so that

    tamis eval SET... --compare baselines.json:rrf default

gives the difference with its interval. `--work DIR` keeps the vectors: a run that was ended goes on there.
"""

import argparse
import gzip
import hashlib
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import bm25s
import numpy as np
import Stemmer
from numpy.typing import NDArray

from tamis.errors import BadJudgedSet, TamisError, UsageError
from tamis.index.plan import make_plan
from tamis.ingest.read import Source, read
from tamis.measure.judged import JudgedSet, open_judged
from tamis.measure.metrics import MAIN, scores
from tamis.measure.study import Way, plan
from tamis.models.embedders import Embedder, load_embedder
from tamis.settings import DEFAULT_MODEL
from tamis.text.languages import CODE_LANGUAGE, extension

K1, B = 1.5, 0.75  # 0.9 and 0.4 are worse on nearly all sets of long documents
RRF_K = 60
DEPTH = 100  # documents of each ranking that RRF reads
PIECE, PIECES = 1000, 2  # characters; how many of a page are embedded
PAGES = 2000  # characters of a document on average: sets of abstracts are below, sets of pages above
CODE_SETS = {
    "cosqa-dev",
    "conala-train",
    "anthropic-codebase",
}  # their documents have no file names
AT_ONCE = 256  # texts embedded between two writes of what is kept
WAYS = ("bm25", "dense", "rrf")

Ranking = list[int]
Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Documents:
    """What a set is asked about, in the order of its corpus."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    is_code: bool


# --- documents ------------------------------------------------------------------------------


def documents(judged: JudgedSet, given: Path) -> Documents:
    """The corpus as it was published, title and text; or the files of a tree that tamis would index."""
    packed = _packed(given if given.is_dir() else given.parent)
    pairs = list(_published(packed) if packed else _files(judged.root))
    ids, texts = zip(*pairs, strict=True)
    return Documents(
        ids, texts, judged.name in CODE_SETS if packed else _mostly_code(ids)
    )


def _packed(folder: Path) -> Path | None:
    names = ("corpus.jsonl", "corpus.jsonl.gz")
    places = (
        place / name for place in (folder, folder.absolute().parent) for name in names
    )
    return next((place for place in places if place.is_file()), None)


def _published(packed: Path) -> Iterator[tuple[str, str]]:
    opened = gzip.open if packed.suffix == ".gz" else open
    with opened(packed, "rt", encoding="utf-8") as lines:
        for record in map(json.loads, filter(str.strip, lines)):
            parts = (record.get("title"), record["text"])
            yield str(record["_id"]), "\n".join(part for part in parts if part)


def _files(root: Path) -> Iterator[tuple[str, str]]:
    settings = Way("plain").settings("none")
    for entry in make_plan(root, settings, {}).changed:
        source = read(entry, settings.index.max_file_bytes)
        if isinstance(source, Source):
            yield source.path, f"{source.path}\n{source.text}"


def _mostly_code(paths: Sequence[str]) -> bool:
    return sum(extension(path) in CODE_LANGUAGE for path in paths) * 2 > len(paths)


# --- the rankings ---------------------------------------------------------------------------


def by_words(found: Documents, questions: Sequence[str]) -> list[Ranking]:
    """BM25, best first; what shares no word with the question is not ranked."""
    prepared: Callable[[str], str] = with_split_identifiers if found.is_code else str
    stemmer = Stemmer.Stemmer("english")

    def words(texts: Sequence[str]) -> list[list[str]]:
        prose = [prepared(text) for text in texts]
        return bm25s.tokenize(
            prose,
            stopwords="en",
            stemmer=stemmer,
            return_ids=False,
            show_progress=False,
        )

    index = bm25s.BM25(method="lucene", k1=K1, b=B)
    index.index(words(found.texts), show_progress=False)
    known = index.vocab_dict
    asked = ([word for word in each if word in known] for each in words(questions))
    return [_best(index.get_scores(each)) if each else [] for each in asked]


def _best(points: NDArray[np.float32]) -> Ranking:
    order = np.argsort(-points, kind="stable")[:DEPTH]
    return [int(at) for at in order if points[at] > 0]


def with_split_identifiers(text: str) -> str:
    """The text, and once more with `parseHTTPHeader` and `max_bytes` as words."""
    humps = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text)
    words = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1 \2", humps).replace("_", " ")
    return f"{text} {words}"


def pieces(found: Documents) -> list[list[str]]:
    """The texts that stand for each document in the dense ranking."""
    average = sum(map(len, found.texts)) / len(found.texts)
    if average <= PAGES:
        return [[text] for text in found.texts]
    starts = range(0, PIECE * PIECES, PIECE)
    return [
        [text[at : at + PIECE] for at in starts if text[at:].strip() or not at]
        for text in found.texts
    ]


def by_meaning(
    parts: Sequence[Sequence[str]], asked: Vectors, vectors: Vectors
) -> list[Ranking]:
    """By the cosine of each document's best piece; vectors are of length one."""
    owners = np.repeat(np.arange(len(parts)), [len(each) for each in parts])
    rankings = []
    for question in asked:
        best = np.full(len(parts), -np.inf, np.float32)
        np.maximum.at(best, owners, vectors @ question)
        rankings.append([int(at) for at in np.argsort(-best, kind="stable")[:DEPTH]])
    return rankings


def fused(first: Ranking, second: Ranking) -> Ranking:
    """Reciprocal rank fusion; ties go to the document that comes first in the corpus."""
    points: dict[int, float] = {}
    for ranking in (first, second):
        for place, document in enumerate(ranking, start=1):
            points[document] = points.get(document, 0.0) + 1 / (RRF_K + place)
    return sorted(points, key=lambda document: (-points[document], document))


# --- vectors that are kept ------------------------------------------------------------------


def embedded(
    texts: Sequence[str], embed: Callable[[Sequence[str]], Vectors], kept: Path
) -> Vectors:
    """A vector for each text: from the file, or made now and written there every few hundred."""
    keys = [
        hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
        for text in texts
    ]
    known = _read(kept)
    wanted = {
        key: text for key, text in zip(keys, texts, strict=True) if key not in known
    }
    new = list(wanted)
    for start in range(0, len(new), AT_ONCE):
        some = new[start : start + AT_ONCE]
        known.update(zip(some, embed([wanted[key] for key in some]), strict=True))
        _write(kept, known)
        print(
            f"{kept.stem}: {start + len(some)} of {len(new)} embedded",
            file=sys.stderr,
            flush=True,
        )
    return np.array([known[key] for key in keys], np.float32)


def _read(kept: Path) -> dict[str, Vectors]:
    if not kept.is_file():
        return {}
    with np.load(kept) as held:
        return dict(zip(map(str, held["keys"]), held["vectors"], strict=True))


def _write(kept: Path, vectors: dict[str, Vectors]) -> None:
    unfinished = kept.with_suffix(".unfinished.npz")
    np.savez(
        unfinished,
        keys=np.array(list(vectors)),
        vectors=np.array(list(vectors.values()), np.float32),
    )
    unfinished.replace(kept)


# --- one set after the other ----------------------------------------------------------------


def measure(
    given: Path, tree: Path | None, embedder: Embedder, work: Path, most: int
) -> list[dict]:
    """What `tamis eval --json` has of a set, for each of the three ways."""
    judged, place = open_judged(given, work, tree, most)
    if not judged.questions:
        raise BadJudgedSet(
            f"{judged.name} has no question left to ask",
            hint="are its documents there?",
        )
    place.mkdir(parents=True, exist_ok=True)
    found = documents(judged, given)
    questions = [asked.text for asked in judged.questions]
    parts = pieces(found)
    flat = [piece for each in parts for piece in each]
    mark = re.sub(r"\W+", "_", f"{embedder.name}-{embedder.fingerprint}")[:60]
    asked = embedded(
        questions, lambda some: _asked(embedder, some), place / f"questions-{mark}.npz"
    )
    vectors = embedded(flat, embedder.embed_passages, place / f"pieces-{mark}.npz")
    words, meaning = by_words(found, questions), by_meaning(parts, asked, vectors)
    both = [fused(*each) for each in zip(words, meaning, strict=True)]
    return [
        _result(judged, found, way, each)
        for way, each in zip(WAYS, (words, meaning, both), strict=True)
    ]


def _asked(embedder: Embedder, questions: Sequence[str]) -> Vectors:
    return np.array([embedder.embed_query(text) for text in questions], np.float32)


def _result(
    judged: JudgedSet, found: Documents, way: str, rankings: Sequence[Ranking]
) -> dict:
    asked = []
    for question, ranking in zip(judged.questions, rankings, strict=True):
        ranked = [found.ids[at] for at in ranking[:10]]
        asked.append(
            {
                "id": question.id,
                "ranked": ranked,
                "scores": scores(ranked, question.grades),
            }
        )
    mean = {
        name: float(np.mean([one["scores"][name] for one in asked]))
        for name in asked[0]["scores"]
    }
    return {
        "set": judged.name,
        "config": way,
        "documents": len(found.ids),
        "scores": mean,
        "asked": asked,
    }


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    arguments.add_argument("sets", nargs="+", metavar="SET")
    arguments.add_argument("--corpus", help="the documents of sets that come without")
    arguments.add_argument("--model", default=DEFAULT_MODEL)
    arguments.add_argument(
        "--queries", type=int, default=0, help="at most N questions of a set"
    )
    arguments.add_argument("--work", type=Path, help="keep vectors here")
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            results = _measured(given, given.work or Path(scratch))
    except TamisError as error:
        arguments.error(f"{error.message}; {error.hint}")
    if given.json:
        print(json.dumps({"model": given.model, "results": results}, indent=1))
    elif len(results) > len(WAYS):
        print(_means(results))
    return 0


def _measured(given: argparse.Namespace, work: Path) -> list[dict]:
    embedder = load_embedder(given.model)
    if embedder is None:
        raise UsageError(
            "the dense baseline needs a model",
            hint=f"without --model it is {DEFAULT_MODEL}",
        )
    results: list[dict] = []
    for each, tree in plan(given.sets, (), tree=given.corpus).sets:
        results += measure(each, tree, embedder, work, given.queries)
        print(
            _line(results[-3:]),
            file=sys.stderr if given.json else sys.stdout,
            flush=True,
        )
    return results


def _line(results: Sequence[dict]) -> str:
    figures = "  ".join(f"{one['config']} {one['scores'][MAIN]:.3f}" for one in results)
    first = results[0]
    sizes = f"{len(first['asked']):>4} questions{first['documents']:>6} documents"
    return f"{first['set']:<26}{sizes}  {figures}"


def _means(results: Sequence[dict]) -> str:
    means = {
        way: np.mean([one["scores"][MAIN] for one in results if one["config"] == way])
        for way in WAYS
    }
    return f"{'mean of sets':<26}{'':>32}" + "  ".join(
        f"{way} {mean:.3f}" for way, mean in means.items()
    )


if __name__ == "__main__":
    sys.exit(main())
