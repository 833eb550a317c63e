"""A study as a picture. matplotlib lives behind this file and comes with `tamis[plot]`.

Differences with their intervals where ways are compared or taken apart; otherwise the figures, set by
set. Drawn without a display, and equal figures give an equal file.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tamis.errors import UsageError, storage_faults
from tamis.measure.compare import ALL_SETS, Compared, means
from tamis.measure.evaluate import Measured
from tamis.measure.metrics import MAIN
from tamis.measure.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS: Final = (".svg", ".png")
_WIDTH, _ROW, _MARGIN = 8.0, 0.32, 1.4  # inches


def check_plot(file: Path) -> None:
    """Whether a picture can be drawn there, before hours are spent on what it would show."""
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
        hint = 'run: pip install "tamis[plot]"'
        raise UsageError(
            "a picture needs matplotlib, which is not installed", hint=hint
        ) from error


def draw(done: Study, file: Path) -> None:
    """Draw what the study found."""
    check_plot(file)
    import matplotlib
    from matplotlib.figure import Figure

    rows = _rows(done)
    height = _MARGIN + _ROW * max(3, len(rows) or len(done.measured))
    with matplotlib.rc_context({"svg.hashsalt": "tamis", "svg.fonttype": "none"}):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.add_subplot()
        if rows:
            _differences(axes, rows)
        else:
            _figures(axes, done.measured)
        axes.invert_yaxis()
        metadata: dict[str, Any] = (
            {"Date": None} if file.suffix.lower() == ".svg" else {}
        )
        with storage_faults(file.absolute().parent):
            figure.savefig(file, metadata=metadata)


def _rows(done: Study) -> list[tuple[str, Compared]]:
    """What is drawn, with its name. What was taken apart is drawn for all sets together."""
    if done.comparisons:
        return [(row.set, row) for row in done.comparisons]
    total = ALL_SETS if any(row.set == ALL_SETS for row in done.ablations) else None
    return [
        (row.second, row) for row in done.ablations if total is None or row.set == total
    ]


def _differences(axes: "Axes", rows: Sequence[tuple[str, Compared]]) -> None:
    """A point and its interval for each row, beside the line of no difference."""
    axes.axvline(0.0, color="0.6", linewidth=1)
    for place, (_, row) in enumerate(rows):
        one = row.difference
        colour = (
            ("tab:green" if one.mean > 0 else "tab:red") if one.is_clear else "0.35"
        )
        axes.plot([one.low, one.high], [place, place], color=colour, linewidth=2)
        axes.plot([one.mean], [place], marker="o", color=colour)
    axes.set_yticks(range(len(rows)), [_label(name) for name, _ in rows])
    against = rows[0][1]
    sets = {row.second for _, row in rows}
    what = (
        f"{against.second} against {against.first}"
        if len(sets) == 1
        else f"against {against.first}"
    )
    axes.set_xlabel(_label(f"difference in {MAIN}: {what} (95 % interval)"))


def _figures(axes: "Axes", measured: Sequence[Measured]) -> None:
    """A bar for each set and way; the ways of a set lie together."""
    ways = list(dict.fromkeys(one.way for one in measured))
    for way in ways:
        some = [(at, one) for at, one in enumerate(measured) if one.way == way]
        heights = [means(one.outcomes).get(MAIN, 0.0) for _, one in some]
        axes.barh([at for at, _ in some], heights, label=_label(way), height=0.8)
    axes.set_yticks(range(len(measured)), [_label(one.judged.name) for one in measured])
    axes.set_xlim(0, 1)
    axes.set_xlabel(MAIN)
    if len(ways) > 1:
        axes.legend()


def _label(text: str) -> str:
    """Names are text, never formulas, and a long one must not squeeze the picture."""
    short = text if len(text) <= 60 else f"{text[:57]}..."
    return short.replace("$", r"\$")
