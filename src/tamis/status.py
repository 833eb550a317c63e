"""What an index holds, and how it compares with the files as they are now. Reads none of them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tamis import health
from tamis.build import check_belongs
from tamis.engine import Index
from tamis.engine.embedded.store import SCHEMA_VERSION
from tamis.ingest.walk import Entry
from tamis.model import IndexState, Skipped, Stamps
from tamis.plan import is_left_out, is_touched, largest_file, make_plan, recipe
from tamis.settings import Settings


@dataclass(frozen=True, slots=True)
class Status:
    """What an index holds, and how it compares with the files as they are now."""

    root: str
    directory: str
    index: IndexState
    model: str
    segments: int
    bytes_on_disk: int
    changed_files: int  # new or perhaps changed since they were indexed
    removed_files: int  # indexed, but gone or now kept out
    skipped: tuple[Skipped, ...]
    warnings: Mapping[str, str]  # what was odd about reading a document, by its path
    sizes: Mapping[str, int]  # bytes on disk, by what they are
    fingerprint: str  # of the model
    dimension: int  # of its vectors
    tamis_version: str
    format: int  # of the index

    @property
    def skipped_by_reason(self) -> dict[str, int]:
        return dict(sorted(Counter(item.reason for item in self.skipped).items()))

    def to_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__}
        return plain | {
            "index": self.index.to_dict(),
            "skipped": [item.to_dict() for item in self.skipped],
            "skipped_by_reason": self.skipped_by_reason,
            "warnings": dict(self.warnings),
            "sizes": dict(self.sizes),
        }


def status_of(root: Path, index: Index, settings: Settings) -> Status:
    """The status of a root's index."""
    with index.snapshot() as snapshot:
        known, skipped = snapshot.stamps(recipe(settings)), snapshot.skipped()
        warnings = snapshot.warnings()
        state, facts, segments = snapshot.state, snapshot.about, snapshot.segments
    sizes: dict[str, int] = {}
    if isinstance(index.place, Path):  # else it is on a server, where anybody's folder of that name may ask
        check_belongs(root, index.place, facts)
        sizes = health.sizes(index.place)
    plan = make_plan(root, settings, known)
    here = {entry.path for entry in (*plan.changed, *plan.unchanged)}
    left_out, largest = {item.path: item for item in skipped}, largest_file(settings)
    return Status(
        root=str(root),
        directory=str(index.place),
        index=state,
        model=str(facts.get("model", "")),
        segments=segments,
        bytes_on_disk=sum(sizes.values()),
        changed_files=sum(
            not is_left_out(entry, left_out, settings) and _differs(entry, known.get(entry.path), largest)
            for entry in plan.changed
        ),
        removed_files=sum(path not in here for path in known),
        skipped=skipped,
        warnings=warnings,
        sizes=sizes,
        fingerprint=str(facts.get("fingerprint", "")),
        dimension=int(facts.get("dimension", 0)),
        tamis_version=version("tamis"),
        format=SCHEMA_VERSION,
    )


def _differs(entry: Entry, before: Stamps | None, largest: float) -> bool:
    if before is None or entry.size > largest:
        return True
    _, size, mtime_ns, _, _, read_ns = before
    return (entry.size, entry.mtime_ns) != (size, mtime_ns) or not read_ns


def changes(root: Path, index: Index, settings: Settings) -> int:
    """How many files are new, perhaps changed or gone since they were indexed."""
    with index.snapshot() as snapshot:
        known = snapshot.stamps(recipe(settings))
        left_out = {item.path: item for item in snapshot.skipped()}
        since = float(snapshot.about.get("began", 0.0))
    plan = make_plan(root, settings, known)
    here = {entry.path for entry in (*plan.changed, *plan.unchanged)}
    new = sum(
        not is_left_out(entry, left_out, settings) or is_touched(entry, since) for entry in plan.changed
    )
    return new + sum(path not in here for path in known)
