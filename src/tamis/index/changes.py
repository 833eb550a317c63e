"""How far the files have gone from what the index has of them. Reads none."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tamis.index.plan import is_racy, largest_file, make_plan, recipe
from tamis.index.protocol import Holding
from tamis.ingest.walk import Entry
from tamis.model import Skipped, Stamps
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

    changed: int  # new, or of another size or time
    touched: int  # only another number, or another time of change: copied, or its time was set back
    gone: int  # or kept out now
    otherwise: int  # as they were, but written by other settings or another version
    unsure: (
        int  # written so shortly before they were read that only reading again tells
    )
    warnings: tuple[str, ...]  # about ignore files

    @property
    def sure(self) -> int:
        return self.changed + self.gone

    @property
    def possible(self) -> int:
        return self.sure + self.touched + self.otherwise + self.unsure


def known_to(snapshot: Holding, settings: Settings) -> Known:
    """What an index says of the files."""
    began = float(snapshot.about.get("began", 0.0))
    return Known(snapshot.stamps(recipe(settings)), snapshot.skipped(), began)


def drift(root: Path, settings: Settings, known: Known) -> Drift:
    """Walk the root, and count."""
    plan = make_plan(root, settings, known.stamps)
    counts = _counted(plan.changed, known, settings)
    return Drift(**counts, gone=len(plan.gone(known.stamps)), warnings=plan.warnings)


def _counted(
    entries: Iterable[Entry], known: Known, settings: Settings
) -> dict[str, int]:
    left_out, largest = (
        {item.path: item for item in known.skipped},
        largest_file(settings),
    )
    counts = {"changed": 0, "touched": 0, "otherwise": 0, "unsure": 0}
    for entry in entries:
        before = known.stamps.get(entry.path)
        if before is not None:
            counts[_how(entry, before, largest)] += 1
        elif not _is_left_out(entry, left_out.get(entry.path), largest):
            counts["changed"] += 1
        else:
            touched, read = (
                entry.ctime_ns,
                known.began * 1e9,
            )  # the other time may be of any year
            counts["changed"] += touched > read
            counts["unsure"] += touched <= read and is_racy(touched, read)
    return counts


def _how(entry: Entry, before: Stamps, largest: float) -> str:
    _, size, mtime_ns, ctime_ns, inode, read_ns = before
    if entry.size > largest or (entry.size, entry.mtime_ns) != (size, mtime_ns):
        return "changed"
    if not read_ns:
        return "otherwise"
    return "unsure" if (entry.ctime_ns, entry.inode) == (ctime_ns, inode) else "touched"


def _is_left_out(entry: Entry, before: Skipped | None, largest: float) -> bool:
    """Whether the last run left a file out for what would leave it out again, unless it has changed.

    Rules and links leave out nothing that a walk gives; and what could not be read may have been let go.
    """
    match before.reason if before else "":
        case "binary":
            return True
        case "too large":
            return entry.size > largest
        case "unreadable":
            return not os.access(entry.file, os.R_OK)
        case _:
            return False
