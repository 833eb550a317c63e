"""What an index holds, and how it compares with the files as they are now. Reads none of them."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tamis import health
from tamis.build import check_belongs
from tamis.drift import drift, known_to
from tamis.engine import Index
from tamis.engine.embedded.store import SCHEMA_VERSION
from tamis.model import IndexState, Skipped
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
    changed_files: int  # new or changed since they were indexed, or indexed by other settings
    touched_files: int  # of the size and time that they had, and yet touched: reading tells
    removed_files: int  # indexed, but gone or now kept out
    skipped: tuple[Skipped, ...]
    warnings: Mapping[str, str]  # what was odd about reading a document, by its path
    ignore_warnings: tuple[str, ...]  # what is wrong with ignore files
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
            "ignore_warnings": list(self.ignore_warnings),
            "sizes": dict(self.sizes),
        }


def status_of(root: Path, index: Index, settings: Settings) -> Status:
    """The status of a root's index."""
    with index.snapshot() as snapshot:
        known, warnings = known_to(snapshot, settings), snapshot.warnings()
        state, facts, segments = snapshot.state, snapshot.about, snapshot.segments
    sizes: dict[str, int] = {}
    if isinstance(index.place, Path):  # else it is on a server, where anybody's folder of that name may ask
        check_belongs(root, index.place, facts)
        sizes = health.sizes(index.place)
    now = drift(root, settings, known)
    return Status(
        root=str(root),
        directory=str(index.place),
        index=state,
        model=str(facts.get("model", "")),
        segments=segments,
        bytes_on_disk=sum(sizes.values()),
        changed_files=now.changed + now.otherwise,
        touched_files=now.touched,
        removed_files=now.gone,
        skipped=known.skipped,
        warnings=warnings,
        ignore_warnings=now.warnings,
        sizes=sizes,
        fingerprint=str(facts.get("fingerprint", "")),
        dimension=int(facts.get("dimension", 0)),
        tamis_version=version("tamis"),
        format=SCHEMA_VERSION,
    )
