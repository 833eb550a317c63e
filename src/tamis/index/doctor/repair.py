"""Mending an index, under the writer's lock. What is damaged goes, in one transaction; the next run reads
the files of those documents and writes them again, as it would new ones. Until then they are pending.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from tamis.configuration import DEFAULT_MODEL
from tamis.errors import (
    StorageFault,
    TamisError,
    storage_faults,
)
from tamis.failpoints import reached
from tamis.index.build import build, waiting_for
from tamis.index.doctor import health
from tamis.index.doctor.checks import is_spoiled
from tamis.index.doctor.health import Health
from tamis.index.embedded import concepts, database
from tamis.index.embedded.arrays import sync_folder
from tamis.index.embedded.database import SegmentRecord
from tamis.index.embedded.folder import ASIDE, make_folder
from tamis.index.embedded.lock import writer_lock
from tamis.index.embedded.reader import Reader
from tamis.index.embedded.segment import dead_documents, file_of, pack_dead, sweep
from tamis.index.vocabulary import make_if_used
from tamis.model import Finding, Repair
from tamis.models.loading import LoadedModels
from tamis.progress import Progress
from tamis.settings import Settings

Waiting = Callable[[str], None]


def mend(
    directory: Path, timeout: float, waiting: Waiting, repairs: Sequence[Repair]
) -> int:
    """Take out what is damaged and what belongs to nobody; returns how many documents are to come again."""
    make_folder(directory)
    with (
        writer_lock(directory, timeout, waiting),
        database.database_faults(directory),
        storage_faults(directory),
        closing(database.open_writer(directory)) as connection,
    ):
        with database.transaction(connection):
            lost = _lost(connection, repairs)
            database.remove_documents(connection, lost)
            held = frozenset().union(*(repair.segments for repair in repairs))
            database.drop_segments(connection, sorted(held))
            database.remove_orphans(connection)
            _bury_all_but_the_living(connection)
            facts = {"generation": database.generation(connection) + 1}
            if lost:
                facts["pending"] = len(lost)
            database.set_facts(connection, facts)
        reached("mend.committed")
        _clear_away(directory, database.segments(connection))
    return len(lost)


def _lost(connection: database.Connection, repairs: Iterable[Repair]) -> list[str]:
    """The documents that are named, and those of segments that are."""
    named = frozenset().union(*(repair.documents for repair in repairs))
    held = frozenset().union(*(repair.segments for repair in repairs))
    inside = {path for path, *_ in database.segment_paths(connection, sorted(held))}
    return sorted(
        inside
        | {path for path, *_ in database.document_places(connection, sorted(named))}
    )


def _bury_all_but_the_living(connection: database.Connection) -> None:
    """Mark every place dead that no document has. None is revived: open readers know less of those."""
    for record in database.segments(connection):
        dead = np.ones(record.documents, np.bool_)
        places = [
            place for _, _, _, place in database.segment_paths(connection, [record.id])
        ]
        dead[[place for place in places if 0 <= place < len(dead)]] = False
        database.set_dead(connection, record.id, pack_dead(dead | _dead(record)))


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
    yield from (
        file
        for file in concepts.vocabulary_files(directory)
        if file.suffix == ".partial"
    )


def _spoiled_terms(directory: Path, records: Sequence[SegmentRecord]) -> Iterator[Path]:
    files = [file_of(directory, record, "terms") for record in records]
    yield from (
        file
        for file in (*files, *concepts.vocabulary_files(directory))
        if is_spoiled(file)
    )


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
        raise StorageFault(
            f"{aside} could not be completed", hint="free some space, then run it again"
        )
    new = list((aside / "segments").iterdir())
    for folder in new:
        folder.rename(directory / "segments" / folder.name)
        reached("aside.moved")
    for end in database.BESIDE:
        (directory / f"index.db{end}").unlink(missing_ok=True)
        reached("aside.unlogged")
    (aside / "index.db").replace(directory / "index.db")
    reached("aside.replaced")
    sync_folder(directory)
    sweep(directory / "segments", {folder.name for folder in new})
    reached("aside.swept")
    concepts.sweep(directory, "")


def repaired(
    root: Path,
    directory: Path,
    settings: Settings,
    models: LoadedModels,
    progress: Progress,
) -> Health:
    """How the index is after all that could be done for it."""

    def look() -> Health:
        return health.check(
            root, directory, settings, models.embedder_itself, full=True
        )

    before = look()
    if not before.repairs:
        return before
    done: list[str] = []
    faults: list[Finding] = []
    try:
        for each in _mend(root, directory, settings, models, progress, before.repairs):
            done.append(each)  # one by one: what was done before a fault was done
    except TamisError as error:
        faults.append(Finding("repair", "fault", error.message, error.hint))
    after = look()
    return replace(after, repaired=tuple(done), findings=(*after.findings, *faults))


def _mend(
    root: Path,
    directory: Path,
    settings: Settings,
    models: LoadedModels,
    progress: Progress,
    repairs: Sequence[Repair],
) -> Iterator[str]:
    """Do it, and say what was done."""
    kinds = {repair.kind for repair in repairs}
    timeout, waiting = settings.index.lock_timeout, waiting_for(progress)
    if "protect" in kinds:
        health.protect(directory)
        yield "made the folder of the index private"
    if "rebuild" in kinds:
        progress.note(
            "the index is made anew from your files; the old one stays until that is whole"
        )
        with made_aside(directory, timeout, waiting) as aside:
            chosen = with_model(settings, lambda: database.model_of(directory))
            build(root, Reader(aside), chosen, models.embedder, progress)
        make_if_used(directory, settings, models.embedder, progress)
        yield f"made the index anew, with {chosen.model.name or DEFAULT_MODEL}"
        return
    if kinds & {"rewrite", "reembed", "sweep"}:
        lost = mend(directory, timeout, waiting, repairs)
        yield (
            f"took out {lost} damaged documents"
            if lost
            else "removed what belonged to nobody"
        )
    if kinds - {"protect"}:
        load = models.embedder_afresh if "reembed" in kinds else models.embedder
        done = build(root, Reader(directory), settings, load, progress)
        make_if_used(directory, settings, models.embedder, progress)
        yield f"brought the index up to date: {done.indexed} documents written"


def with_model(settings: Settings, stored: Callable[[], str]) -> Settings:
    """The settings; where they name no model, with the one that even a damaged index tells."""
    return replace(
        settings, model=replace(settings.model, name=settings.model.name or stored())
    )
