"""A study as a picture. matplotlib lives behind this file and comes with `tamis[plot]`.

It shows differences with their intervals if ways are compared or taken apart, else the figures set by
set. No display is needed, and equal figures give an equal file.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.errors import UsageError, storage_faults
from tamis.measure.metrics import MAIN
from tamis.measure.study import ALL_SETS, Compared, Measured, Study, means, ways_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".svg", ".png")
# Inches.
_WIDTH = 8.0
_ROW = 0.32
_MARGIN = 1.4


def check_plot(file: Path) -> None:
    """Refuse a picture that cannot be drawn, before hours are spent on its figures."""
    if file.suffix.lower() not in FORMATS:
        raise UsageError(
            f"{file} is neither SVG nor PNG", hint="name it out.svg or out.png"
        )
    if not file.absolute().parent.is_dir():
        raise UsageError(
            f"there is no folder {file.absolute().parent}", hint="make it first"
        )
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError(
            "a picture needs matplotlib, which is not installed",
            hint='run: pip install "tamis[plot]"',
        ) from error


def draw(done: Study, file: Path) -> None:
    """Draw the results of a study into a file that `check_plot` allowed."""
    import matplotlib
    from matplotlib.figure import Figure

    rows = [(row.set, row) for row in done.comparisons]
    if not rows:
        # Ablations, for all sets together.
        lost = [row for row in done.ablations if row.set == ALL_SETS]
        rows = [(row.second, row) for row in lost or done.ablations]
    shown = len(rows) or len(done.measured)
    height = _MARGIN + _ROW * max(3, shown)
    with matplotlib.rc_context({"svg.hashsalt": "tamis", "svg.fonttype": "none"}):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        if rows:
            _differences(axes, rows)
        else:
            _figures(axes, done.measured)
        axes.invert_yaxis()
        metadata: dict[str, Any] = {}
        if file.suffix.lower() == ".svg":
            metadata = {"Date": None}
        with storage_faults(file.absolute().parent):
            figure.savefig(file, metadata=metadata)


def _differences(axes: "Axes", rows: Sequence[tuple[str, Compared]]) -> None:
    """Draw a point and its interval for each row, beside the line of no difference."""
    axes.axvline(0.0, color="0.6", linewidth=1)
    for place, (_, row) in enumerate(rows):
        one = row.difference
        colour = "0.35"
        if one.is_clear:
            colour = "tab:green" if one.mean > 0 else "tab:red"
        ends = [one.low, one.high]
        axes.plot(
            ends,
            [place, place],
            color=colour,
            linewidth=2,
        )
        axes.plot(
            [one.mean],
            [place],
            marker="o",
            color=colour,
        )
    names = [_label(name) for name, _ in rows]
    axes.set_yticks(range(len(rows)), names)
    against = rows[0][1]
    what = f"against {against.first}"
    if len({row.second for _, row in rows}) == 1:
        what = f"{against.second} {what}"
    axes.set_xlabel(_label(f"difference in {MAIN}: {what} (95 % interval)"))


def _figures(axes: "Axes", measured: Sequence[Measured]) -> None:
    """Draw a bar for each set and way; the ways of a set lie together."""
    ways = ways_of(measured)
    for way in ways:
        places = []
        lengths = []
        for place, one in enumerate(measured):
            if one.way == way:
                places.append(place)
                lengths.append(means(one.outcomes).get(MAIN, 0.0))
        axes.barh(
            places,
            lengths,
            label=_label(way),
            height=0.8,
        )
    names = [_label(one.judged.name) for one in measured]
    axes.set_yticks(range(len(measured)), names)
    axes.set_xlim(0, 1)
    axes.set_xlabel(MAIN)
    if len(ways) > 1:
        axes.legend()


def _label(text: str) -> str:
    """Shorten a long name, and keep it from being read as a formula."""
    short = text if len(text) <= 60 else f"{text[:57]}..."
    return short.replace("$", r"\$")
