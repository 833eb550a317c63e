"""Mending an index, under the writer's lock. What is damaged goes, in one transaction; the next run reads
the files of those documents and writes them again, as it would new ones. Until then they are pending.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from tamis.engine.embedded import concepts, store, stored_documents, stored_segments
from tamis.engine.embedded.arrays import sync_folder
from tamis.engine.embedded.bookkeeping import is_spoiled
from tamis.engine.embedded.folder import ASIDE, make_folder
from tamis.engine.embedded.lock import writer_lock
from tamis.engine.embedded.segment import dead_documents, file_of, pack_dead, sweep
from tamis.engine.embedded.stored_segments import SegmentRecord
from tamis.errors import StorageFault, storage_faults
from tamis.failpoints import reached
from tamis.model import Repair

Waiting = Callable[[str], None]


def mend(directory: Path, timeout: float, waiting: Waiting, repairs: Sequence[Repair]) -> int:
    """Take out what is damaged and what belongs to nobody; returns how many documents are to come again."""
    make_folder(directory)
    with (
        writer_lock(directory, timeout, waiting),
        store.database_faults(directory),
        storage_faults(directory),
        closing(store.open_writer(directory)) as connection,
    ):
        with store.transaction(connection):
            lost = _lost(connection, repairs)
            stored_documents.remove_documents(connection, lost)
            held = frozenset().union(*(repair.segments for repair in repairs))
            stored_segments.drop_segments(connection, sorted(held))
            stored_documents.remove_orphans(connection)
            _bury_all_but_the_living(connection)
            facts = {"generation": store.generation(connection) + 1}
            if lost:
                facts["pending"] = len(lost)
            store.set_facts(connection, facts)
        reached("mend.committed")
        _clear_away(directory, stored_segments.segments(connection))
    return len(lost)


def _lost(connection: store.Connection, repairs: Iterable[Repair]) -> list[str]:
    """The documents that are named, and those of segments that are."""
    named = frozenset().union(*(repair.documents for repair in repairs))
    held = frozenset().union(*(repair.segments for repair in repairs))
    inside = {path for path, *_ in stored_segments.segment_paths(connection, sorted(held))}
    return sorted(inside | {path for path, *_ in stored_segments.document_places(connection, sorted(named))})


def _bury_all_but_the_living(connection: store.Connection) -> None:
    """Mark every place dead that no document has. None is revived: open readers know less of those."""
    for record in stored_segments.segments(connection):
        dead = np.ones(record.documents, np.bool_)
        places = [place for _, _, _, place in stored_segments.segment_paths(connection, [record.id])]
        dead[[place for place in places if 0 <= place < len(dead)]] = False
        stored_segments.set_dead(connection, record.id, pack_dead(dead | _dead(record)))


def _dead(record: SegmentRecord) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    whole = len(record.dead) == -(-record.documents // 8)
    return dead_documents(record) if whole else np.ones(record.documents, np.bool_)


def _clear_away(directory: Path, records: Sequence[SegmentRecord]) -> None:
    """Folders and files that nobody knows of, and those of the vocabulary that cannot be used."""
    sweep(directory / "segments", {record.folder for record in records})
    for path in (*_partials(directory, records), *_spoiled_terms(directory, records)):
        path.unlink(missing_ok=True)
    shutil.rmtree(directory / ASIDE, ignore_errors=True)


def _partials(directory: Path, records: Sequence[SegmentRecord]) -> Iterator[Path]:
    yield from directory.glob("index.db.partial*")
    for record in records:
        yield from (directory / "segments" / record.folder).glob("partial-*")
    yield from (file for file in concepts.vocabulary_files(directory) if file.suffix == ".partial")


def _spoiled_terms(directory: Path, records: Sequence[SegmentRecord]) -> Iterator[Path]:
    files = [file_of(directory, record, "terms") for record in records]
    yield from (file for file in (*files, *concepts.vocabulary_files(directory)) if is_spoiled(file))


@contextmanager
def made_aside(directory: Path, timeout: float, waiting: Waiting) -> Iterator[Path]:
    """A folder for a new index, within the old one's, which it replaces when the block ends well.

    The old one is left alone until then: what can be read of it is searched meanwhile.
    """
    make_folder(directory)
    with writer_lock(directory, timeout, waiting), storage_faults(directory):
        aside = directory / ASIDE
        shutil.rmtree(aside, ignore_errors=True)
        try:
            yield aside
            reached("aside.made")
            _take_over(directory, aside)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _take_over(directory: Path, aside: Path) -> None:
    """Segments first, then index.db, which makes them count. The old log goes before: SQLite would take it
    for the new file's."""
    if (aside / "index.db-wal").exists():
        raise StorageFault(f"{aside} could not be completed", hint="free some space, then run it again")
    new = list((aside / "segments").iterdir())
    for folder in new:
        folder.rename(directory / "segments" / folder.name)
        reached("aside.moved")
    for end in store.BESIDE:
        (directory / f"index.db{end}").unlink(missing_ok=True)
        reached("aside.unlogged")
    (aside / "index.db").replace(directory / "index.db")
    reached("aside.replaced")
    sync_folder(directory)
    sweep(directory / "segments", {folder.name for folder in new})
    reached("aside.swept")
    concepts.sweep(directory, "")
