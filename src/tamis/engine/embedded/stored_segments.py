"""Which segments an index has, and where in them its documents lie.

A segment that is not recorded here does not exist: its folder is removed by the next writer.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tamis.engine.embedded.store import (
    Connection,
    DatabaseError,
    database_faults,
    marks,
    open_reader,
    select,
    texts_of,
)
from tamis.model import Facts

_FOLDER: Final = re.compile(r"[0-9a-f]{32}")
_WITHOUT_VECTORS: Final = (
    "FROM documents d JOIN segments s ON s.id = d.segment WHERE s.dimension = 0 AND d.chunks > 0"
)
_PLACE: Final = "path, id, segment, place FROM documents"


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    id: int
    folder: str
    rows: int
    documents: int
    dead: bytes  # a bit for each document of the segment that is gone
    dimension: int = 0  # of its vectors; 0 for one that has none, or none yet
    revision: int = 0  # counts changes to what filters ask of its documents


def segments(connection: Connection) -> list[SegmentRecord]:
    rows = connection.execute(
        "SELECT id, folder, rows, documents, dead, dimension, revision FROM segments ORDER BY id"
    )
    records = [SegmentRecord(*row) for row in rows]
    if not all(_FOLDER.fullmatch(record.folder) for record in records):
        # Folders are removed by these names: an index.db from a stranger must not lead anywhere else.
        raise DatabaseError("a segment has an impossible name")
    return records


def folders(directory: Path) -> set[str]:
    """The folders of the segments that the newest generation has."""
    with closing(open_reader(directory)) as connection, database_faults(directory):
        return {record.folder for record in segments(connection)}


def add_segment(
    connection: Connection, folder: str, rows: int, documents: int, dead: bytes, dimension: int
) -> int:
    made = connection.execute(
        "INSERT INTO segments (folder, rows, documents, dead, dimension) VALUES (?, ?, ?, ?, ?)",
        (folder, rows, documents, dead, dimension),
    )
    return int(made.lastrowid or 0)


def set_dead(connection: Connection, segment: int, dead: bytes) -> None:
    connection.execute("UPDATE segments SET dead = ? WHERE id = ?", (dead, segment))


def drop_segments(connection: Connection, ids: Sequence[int]) -> None:
    connection.execute(f"DELETE FROM segments WHERE id IN ({marks(ids)})", ids)


def segment_facts(connection: Connection, segment: int) -> dict[int, Facts]:
    """What filters may ask of a segment's living documents, by their place in it."""
    rows = connection.execute(
        "SELECT place, path, tags, author, category, modified FROM documents WHERE segment = ?", (segment,)
    )
    return {
        place: Facts(path, frozenset(texts_of(tags)), author, category, modified)
        for place, path, tags, author, category, modified in rows
    }


def segment_paths(connection: Connection, ids: Sequence[int]) -> list[tuple[str, int, int, int]]:
    """Path, key, segment and place of the living documents of some segments."""
    return list(select(connection, _PLACE, "segment", ids))


def document_places(connection: Connection, paths: Sequence[str]) -> list[tuple[str, int, int, int]]:
    """The same of some documents."""
    return list(select(connection, _PLACE, "path", paths))


def places_at(connection: Connection, paths: Sequence[str]) -> dict[str, tuple[int, int]]:
    """The segment of documents, and their place in it."""
    rows = select(connection, "d.path, d.segment, d.place FROM documents d", "d.path", paths)
    return {path: (segment, place) for path, segment, place in rows}


def move_documents(connection: Connection, moves: Iterable[tuple[int, int, int]]) -> None:
    """Give documents their new (segment, place); the last of each triple is the document's key."""
    connection.executemany("UPDATE documents SET segment = ?, place = ? WHERE id = ?", moves)


def pending_chunks(connection: Connection, facts: Mapping[str, Any]) -> int:
    """Chunks that have no vector yet. An index that knows its model and has no dimension wants none."""
    if "model" in facts and not facts.get("dimension"):
        return 0
    row = connection.execute(f"SELECT total(d.chunks) {_WITHOUT_VECTORS}").fetchone()
    return int(row[0])


def pending_documents(connection: Connection) -> list[tuple[str, int, float, int]]:
    """The documents without vectors: path, chunks, date, and how many links look for a name of theirs.

    Links are counted by name and not resolved: this only decides who is embedded first.
    """
    rows = connection.execute(f"SELECT d.id, d.path, d.chunks, d.modified {_WITHOUT_VECTORS}").fetchall()
    wanted = dict(connection.execute("SELECT name, count(*) FROM links GROUP BY name"))
    linked: dict[int, int] = {}
    for name, document in connection.execute("SELECT name, document FROM names"):
        if name in wanted:
            linked[document] = linked.get(document, 0) + wanted[name]
    return [(path, chunks, modified, linked.get(key, 0)) for key, path, chunks, modified in rows]
