"""`tamis eval`: how good the answers are."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from tamis.cli.terminal import json_option, show, watching

if TYPE_CHECKING:
    from pathlib import Path


@click.command("eval")
@click.argument("datasets", nargs=-1, required=True, metavar="DATASET...")
@click.option(
    "--corpus",
    metavar="ROOT",
    help="The documents of sets that come without: ids are paths here.",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="C",
    help="A way of asking: NAME=key=value,key=value or NAME.toml; repeatable. Else the defaults alone, named default.",
)
@click.option(
    "--compare",
    nargs=2,
    metavar="A B",
    help="What B gains over A; each a NAME or an earlier --json output.",
)
@click.option(
    "--ablate",
    is_flag=True,
    help="Leave each stage and each lane of the first way out in turn.",
)
@click.option(
    "--queries",
    type=click.IntRange(min=1),
    metavar="N",
    help="At most N questions of a set, spread over it.",
)
@click.option(
    "--model",
    metavar="NAME",
    help="Embedder: granite, bge, hashing, or none for words only.",
)
@click.option(
    "--work",
    metavar="DIR",
    help="Keep files and indexes here, so that the next run is quick.",
)
@click.option(
    "--plot",
    metavar="FILE",
    help="Draw the comparison, or else the figures: out.svg or out.png.",
)
@json_option
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def evaluate(
    datasets: Sequence[str], *, as_json: bool, quiet: bool, **options: Any
) -> int:
    """Measure how good the answers are, on sets of judged questions.

    A DATASET is a folder with queries.jsonl, qrels.tsv and a corpus (docs/evaluation.md), or
    FOLDER=ROOT where the documents are a tree. Only what is given here counts: no configuration
    file, no environment. Exits with 1 when a set has no question that can be asked.
    """
    from pathlib import Path

    from tamis.cli.tables import study as lines
    from tamis.measure.plot import check_plot, draw
    from tamis.measure.study import plan, study

    picture = Path(options["plot"]) if options["plot"] else None
    if picture:
        check_plot(picture)
    planned = plan(
        datasets,
        options["configs"],
        options["compare"],
        ablate=options["ablate"],
        tree=options["corpus"],
        model=options["model"],
        most=options["queries"] or 0,
    )
    with _working(options["work"]) as work, watching(quiet) as progress:
        done = study(planned, work, progress)
    if picture:
        draw(done, picture)
    show(done, lines(done), as_json=as_json)
    return 0 if all(one.outcomes for one in done.measured) else 1


@contextmanager
def _working(kept: str | None) -> Iterator["Path"]:
    """The folder that is named, or one that is gone afterwards."""
    import tempfile
    from pathlib import Path

    if kept:
        yield Path(kept).expanduser().resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="tamis-eval-") as folder:
            yield Path(folder).resolve()
