"""Whether a score says that something was found: questions asked where the answer is, and where it is not.

    python benchmarks/confidence.py SET... [--work DIR] [--model granite] [--queries 40] [--least 0.3]

Sets are given as to `tamis eval` (at least two). Each set's documents are asked that set's own questions and
as many of the other sets'. The table says how many of its own have a best score of `--least` or more
(the rest would be left unanswered by `--min-score`), and how many of the others' do (which would be
answered although nothing is there; some are there, where sets are about similar things). The best
cosines of both, at the 5th, 50th and 95th percentile, are what a model's curve is read from
(`Embedder.related`).
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tamis.corpus import Corpus
from tamis.errors import TamisError
from tamis.index.plan import recipe
from tamis.measure.judged import JudgedSet, open_judged
from tamis.measure.study import Way, plan
from tamis.request import LONGEST_QUERY, query_text
from tamis.settings import DEFAULT_MODEL

SEED = 1


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    arguments.add_argument("sets", nargs="+", metavar="SET")
    arguments.add_argument("--model", default=DEFAULT_MODEL)
    arguments.add_argument(
        "--queries", type=int, default=40, help="questions of each kind for a set"
    )
    arguments.add_argument("--least", type=float, default=0.3)
    arguments.add_argument("--work", type=Path, help="keep files and indexes here")
    given = arguments.parse_args()
    if len(given.sets) < 2:
        arguments.error(
            "give two sets or more: the questions of the others are the unrelated ones"
        )
    try:
        with tempfile.TemporaryDirectory() as scratch:
            _report(given, given.work or Path(scratch))
    except TamisError as error:
        arguments.error(f"{error.message}; {error.hint}")
    return 0


def _report(given: argparse.Namespace, work: Path) -> None:
    opened = [
        open_judged(folder, work, tree) for folder, tree in plan(given.sets, ()).sets
    ]
    print(
        f"{'set':<24}{'own answered':>14}{'others answered':>17}   cosines of own and of others, 5/50/95 %"
    )
    rows = [
        _measured(judged, place, [other for other, _ in opened], given)
        for judged, place in opened
    ]
    for (judged, _), (own, others) in zip(opened, rows, strict=True):
        print(_line(judged.name, own, others, given.least))
    print(
        _line(
            "all",
            np.vstack([own for own, _ in rows]),
            np.vstack([o for _, o in rows]),
            given.least,
        )
    )


def _measured(
    judged: JudgedSet, place: Path, sets: Sequence[JudgedSet], given: argparse.Namespace
) -> tuple[np.ndarray, np.ndarray]:
    """Best score and best cosine for the set's own questions, and for those of the others."""
    chosen = random.Random(SEED)
    foreign = [
        asked.text
        for other in sets
        if other.name != judged.name
        for asked in other.questions
    ]
    own = [asked.text for asked in judged.questions]
    settings = Way("default").settings(given.model)
    with Corpus(
        judged.root, place / f"index-{settings.model.name}-{recipe(settings)}", settings
    ) as corpus:
        corpus.refresh()
        print(f"{judged.name}: indexed", file=sys.stderr)
        return tuple(
            np.array(
                [
                    _best(corpus, text)
                    for text in chosen.sample(texts, min(given.queries, len(texts)))
                ]
            )
            for texts in (own, foreign)
        )  # type: ignore[return-value]


def _best(corpus: Corpus, text: str) -> tuple[float, float]:
    question = corpus.question(query_text(text.strip()[:LONGEST_QUERY]))
    results = corpus.ask(text, question).results
    cosines = [
        each.score
        for result in results
        for each in result.evidence
        if each.lane == "meaning"
    ]
    return max((result.score for result in results), default=0.0), max(
        cosines, default=0.0
    )


def _line(name: str, own: np.ndarray, others: np.ndarray, least: float) -> str:
    def answered(found: np.ndarray) -> str:
        return f"{int((found[:, 0] >= least).sum())} of {len(found)}"

    def cosines(found: np.ndarray) -> str:
        return "/".join(
            f"{value:.2f}" for value in np.percentile(found[:, 1], [5, 50, 95])
        )

    return f"{name:<24}{answered(own):>14}{answered(others):>17}   {cosines(own)}  {cosines(others)}"


if __name__ == "__main__":
    sys.exit(main())
