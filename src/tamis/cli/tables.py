"""A study as text: tables that a terminal shows and a Markdown page can hold."""

from collections.abc import Iterator, Sequence

import click

from tamis.measure.evaluate import Measured
from tamis.measure.metrics import MAIN, METRICS, Difference
from tamis.measure.study import (
    ALL_SETS,
    Compared,
    Study,
    grouped,
    latencies,
    mean_of_sets,
    means,
    ways_of,
)
from tamis.text.printable import visible

_TITLES = {
    "ndcg@5": "nDCG@5",
    "ndcg@10": "nDCG@10",
    "mrr@10": "MRR@10",
    "recall@10": "Recall@10",
}


def study(done: Study) -> Iterator[str]:
    """The figures, the groups, the times, the comparisons, and what had to be left out."""
    yield from _figures(done.measured)
    yield from _groups("type", done.measured)
    yield from _groups("label", done.measured)
    yield from _times(done.measured)
    if done.comparisons:
        yield from _comparison(done.comparisons)
    if done.ablations:
        yield from _ablation(done.ablations)
    yield from _left_out(done.measured)


def _figures(measured: Sequence[Measured]) -> Iterator[str]:
    rows = [_figure(one) for one in measured]
    if len({one.judged.name for one in measured}) > 1:
        for way in ways_of(measured):
            mean = mean_of_sets(measured, way)
            rows.append(("mean of sets", way, "", *_metrics(mean), "", ""))
    yield from _table(
        ("set", "config", "questions", *_TITLES.values(), "p50 ms", "p95 ms"), rows
    )


def _figure(one: Measured) -> tuple[str, ...]:
    times = latencies(one.outcomes).get("total", {})
    spent = (f"{times[name]:.1f}" if times else "" for name in ("p50", "p95"))
    return (
        one.judged.name,
        one.way,
        str(len(one.outcomes)),
        *_metrics(means(one.outcomes)),
        *spent,
    )


def _metrics(values: dict[str, float]) -> Iterator[str]:
    return (f"{values[name]:.3f}" if values else "" for name in METRICS)


def _groups(title: str, measured: Sequence[Measured]) -> Iterator[str]:
    rows = [
        (one.judged.name, one.way, name, str(len(some)), *_metrics(means(some)))
        for one in measured
        for name, some in grouped(one.outcomes, title).items()
    ]
    if rows:
        yield ""
        yield from _table(
            ("set", "config", title, "questions", *_TITLES.values()), rows
        )


def _times(measured: Sequence[Measured]) -> Iterator[str]:
    """Over all sets: which part of a search takes how long."""
    ways = ways_of(measured)
    asked = {
        way: [each for one in measured if one.way == way for each in one.outcomes]
        for way in ways
    }
    spent = {way: latencies(outcomes) for way, outcomes in asked.items()}
    parts = dict.fromkeys(part for times in spent.values() for part in times)
    rows = [(part, *(_both(spent[way].get(part)) for way in ways)) for part in parts]
    if rows:
        yield ""
        yield from _table(("p50 / p95 ms", *ways), rows)


def _both(times: dict[str, float] | None) -> str:
    return f"{times['p50']:.2f} / {times['p95']:.2f}" if times else ""


def _comparison(rows: Sequence[Compared]) -> Iterator[str]:
    yield ""
    yield visible(f"{rows[0].second} against {rows[0].first}, {_TITLES[MAIN]}:")
    yield from _table(
        ("set", "difference", "95 % interval", "better / same / worse"),
        [(row.set, *_difference(row.difference)) for row in rows],
    )


def _ablation(rows: Sequence[Compared]) -> Iterator[str]:
    """One row for each thing left out, one column for each set; the interval is that of all sets."""
    sets = [name for name in dict.fromkeys(row.set for row in rows) if name != ALL_SETS]
    lost = {(row.second, row.set): row.difference for row in rows}
    total = ALL_SETS if len(sets) > 1 else sets[0]
    yield ""
    yield visible(f"what {rows[0].first} has without..., {_TITLES[MAIN]}, difference:")
    single = sets if len(sets) > 1 else []
    heads = ("", *single, total, "95 % interval", "better / same / worse")
    names = dict.fromkeys(row.second for row in rows)
    yield from _table(
        heads,
        [
            (
                name,
                *(f"{lost[name, one].mean:+.3f}" for one in single),
                *_difference(lost[name, total]),
            )
            for name in names
        ],
    )


def _difference(one: Difference) -> tuple[str, str, str]:
    mark = " *" if one.is_clear else ""
    counts = f"{one.wins} / {one.ties} / {one.losses}"
    return f"{one.mean:+.3f}{mark}", f"{one.low:+.3f} to {one.high:+.3f}", counts


def _left_out(measured: Sequence[Measured]) -> Iterator[str]:
    notes = list(dict.fromkeys(note for one in measured for note in _notes(one)))
    if notes:
        yield ""
    yield from (click.style(visible(note), fg="yellow") for note in notes)


def _notes(one: Measured) -> Iterator[str]:
    name, judged = one.judged.name, one.judged
    if not judged.questions:
        yield f"{name}: no question is left to ask"
    if judged.missing:
        yield f"{name}: {judged.missing} judgements are of documents that are not there"
    if judged.orphaned:
        yield f"{name}: {judged.orphaned} questions were dropped with them"
    if judged.unjudged:
        yield f"{name}: {judged.unjudged} questions have no relevant document and were not asked"
    if one.skipped:
        yield f"{name}: {one.skipped} of {one.skipped + one.documents} files were not indexed"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A Markdown table with columns of even width; figures to the right."""
    cells = [
        tuple(visible(cell).replace("|", "/") for cell in row) for row in (heads, *rows)
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [
        all(row[at][:1] in "0123456789+-" for row in cells[1:])
        for at in range(len(heads))
    ]
    for at, row in enumerate(cells):
        padded = (_padded(*each) for each in zip(row, widths, right, strict=True))
        yield "| " + " | ".join(padded) + " |"
        if at == 0:
            lines = (
                f"{'-' * (width + 1)}{':' if r else '-'}"
                for width, r in zip(widths, right, strict=True)
            )
            yield "|" + "|".join(lines) + "|"


def _padded(cell: str, width: int, right: bool) -> str:
    return cell.rjust(width) if right else cell.ljust(width)
