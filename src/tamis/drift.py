"""How far the files have gone from what the index has of them. Reads none."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tamis.engine import Holding
from tamis.ingest.walk import Entry
from tamis.model import Skipped, Stamps
from tamis.plan import is_left_out, is_touched, largest_file, make_plan, recipe
from tamis.settings import Settings


@dataclass(frozen=True, slots=True)
class Known:
    """What an index says of the files."""

    stamps: Mapping[str, Stamps]
    skipped: tuple[Skipped, ...]
    began: float  # when the last run that wrote something did


@dataclass(frozen=True, slots=True)
class Drift:
    """How many files are not what the index says they are."""

    changed: int  # new or changed, by times and sizes
    gone: int  # or kept out now
    otherwise: int  # as they were, but written by other settings or another version
    unsure: int  # written so shortly before they were read that only reading again tells
    warnings: tuple[str, ...]  # about ignore files

    @property
    def sure(self) -> int:
        return self.changed + self.gone

    @property
    def possible(self) -> int:
        return self.changed + self.gone + self.otherwise + self.unsure


def known_to(snapshot: Holding, settings: Settings) -> Known:
    """What an index says of the files."""
    began = float(snapshot.about.get("began", 0.0))
    return Known(snapshot.stamps(recipe(settings)), snapshot.skipped(), began)


def drift(root: Path, settings: Settings, known: Known) -> Drift:
    """Walk the root, and count."""
    plan = make_plan(root, settings, known.stamps)
    here = {entry.path for entry in (*plan.changed, *plan.unchanged)}
    return Drift(
        **_counted(plan.changed, known, settings),
        gone=sum(path not in here for path in known.stamps),
        warnings=plan.warnings,
    )


def _counted(entries: Iterable[Entry], known: Known, settings: Settings) -> dict[str, int]:
    left_out, largest = {item.path: item for item in known.skipped}, largest_file(settings)
    counts = {"changed": 0, "otherwise": 0, "unsure": 0}
    for entry in entries:
        before = known.stamps.get(entry.path)
        if before is None:
            stays = is_left_out(entry, left_out, settings) and entry.mtime_ns <= known.began * 1e9
            if not stays or is_touched(entry, known.began):
                counts["unsure" if stays else "changed"] += 1
        elif entry.size > largest or (entry.size, entry.mtime_ns) != before[1:3]:
            counts["changed"] += 1
        else:
            counts["unsure" if before[5] else "otherwise"] += 1
    return counts
