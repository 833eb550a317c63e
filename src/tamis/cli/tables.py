"""A study as text: tables that a terminal shows and a Markdown page can hold."""

from collections.abc import Iterator, Sequence

import click

from tamis.measure.metrics import MAIN, Difference
from tamis.measure.study import (
    ALL_SETS,
    Compared,
    Measured,
    Outcome,
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


_HEADS = ("95 % interval", "better / same / worse")


def study(done: Study) -> Iterator[str]:
    """Yield the figures, the groups, the times, the comparisons, and what was left out."""
    yield from _figures(done.measured)
    for title in ("type", "label"):
        yield from _groups(title, done.measured)
    yield from _times(done.measured)
    if done.comparisons:
        yield from _comparison(done.comparisons)
    if done.ablations:
        yield from _ablation(done.ablations)
    notes: list[str] = []
    for one in done.measured:
        notes += _notes(one)
    if notes:
        yield ""
    for note in dict.fromkeys(notes):
        yield click.style(visible(note), fg="yellow")


def _figures(measured: Sequence[Measured]) -> Iterator[str]:
    rows = []
    for one in measured:
        times = latencies(one.outcomes).get("total", {})
        spent = [f"{ms:.1f}" for ms in times.values()] or ["", ""]
        metrics = _metrics(means(one.outcomes))
        count = str(len(one.outcomes))
        rows.append([one.judged.name, one.way, count, *metrics, *spent])
    if len({one.judged.name for one in measured}) > 1:
        for way in ways_of(measured):
            metrics = _metrics(mean_of_sets(measured, way))
            rows.append(["mean of sets", way, "", *metrics, "", ""])
    heads = ("set", "config", "questions", *_TITLES.values(), "p50 ms", "p95 ms")
    yield from _table(heads, rows)


def _metrics(values: dict[str, float]) -> list[str]:
    return [f"{values[name]:.3f}" if values else "" for name in _TITLES]


def _groups(title: str, measured: Sequence[Measured]) -> Iterator[str]:
    rows = []
    for one in measured:
        for name, some in grouped(one.outcomes, title).items():
            metrics = _metrics(means(some))
            rows.append([one.judged.name, one.way, name, str(len(some)), *metrics])
    if rows:
        yield ""
        heads = ("set", "config", title, "questions", *_TITLES.values())
        yield from _table(heads, rows)


def _times(measured: Sequence[Measured]) -> Iterator[str]:
    """Yield how long each part of a search takes, over all sets."""
    rows: dict[str, list[str]] = {}  # a column for each way
    ways = ways_of(measured)
    for column, way in enumerate(ways):
        outcomes: list[Outcome] = []
        for one in measured:
            if one.way == way:
                outcomes += one.outcomes
        for part, times in latencies(outcomes).items():
            row = rows.setdefault(part, [""] * len(ways))
            row[column] = f"{times['p50']:.2f} / {times['p95']:.2f}"
    if rows:
        yield ""
        cells = [[part, *row] for part, row in rows.items()]
        yield from _table(("p50 / p95 ms", *ways), cells)


def _comparison(rows: Sequence[Compared]) -> Iterator[str]:
    yield ""
    yield visible(f"{rows[0].second} against {rows[0].first}, {_TITLES[MAIN]}:")
    heads = ("set", "difference", *_HEADS)
    yield from _table(heads, [[row.set, *_difference(row.difference)] for row in rows])


def _ablation(compared: Sequence[Compared]) -> Iterator[str]:
    """Yield a row for each thing left out and a column for each set; the interval is that of all sets."""
    sets = list(dict.fromkeys(row.set for row in compared))
    total = ALL_SETS if ALL_SETS in sets else sets[0]
    sets.remove(total)
    lost = {(row.second, row.set): row.difference for row in compared}
    rows = []
    for name in dict.fromkeys(row.second for row in compared):
        single = [f"{lost[name, one].mean:+.3f}" for one in sets]
        rows.append([name, *single, *_difference(lost[name, total])])
    yield ""
    first = compared[0].first
    yield visible(f"what {first} has without..., {_TITLES[MAIN]}, difference:")
    yield from _table(("", *sets, total, *_HEADS), rows)


def _difference(one: Difference) -> tuple[str, str, str]:
    mark = " *" if one.is_clear else ""
    counts = f"{one.wins} / {one.ties} / {one.losses}"
    return f"{one.mean:+.3f}{mark}", f"{one.low:+.3f} to {one.high:+.3f}", counts


def _notes(one: Measured) -> Iterator[str]:
    name = one.judged.name
    judged = one.judged
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
    """Yield a Markdown table with columns of even width; figures are aligned to the right."""
    columns = []
    for head, *values in zip(heads, *rows, strict=True):
        cells = [visible(cell).replace("|", "/") for cell in (head, *values)]
        width = max(map(len, cells))
        pad, rule = str.ljust, "-" * (width + 2)
        if all(cell[:1] in "0123456789+-" for cell in cells[1:]):
            pad, rule = str.rjust, "-" * (width + 1) + ":"
        padded = [f" {pad(cell, width)} " for cell in cells]
        columns.append([padded[0], rule, *padded[1:]])
    for line in zip(*columns, strict=True):
        yield f"|{'|'.join(line)}|"
