"""Repairs of an index, under the writer's lock: `tamis doctor --repair`.

Damaged documents are taken out in one transaction; the next run reads their files and writes them
again, as it would new ones, with vectors from the cache. Until then they are pending. An index.db
that cannot be read is replaced by an index that was built in another folder first.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from tamis.configuration import DEFAULT_MODEL
from tamis.errors import (
    StorageFault,
    TamisError,
    storage_faults,
)
from tamis.failpoints import reached
from tamis.index.build import build, waiting_for
from tamis.index.doctor.checks import Health, check, is_spoiled
from tamis.index.embedded import concepts, database
from tamis.index.embedded.arrays import sync_folder
from tamis.index.embedded.folder import ASIDE, make_folder, write_ignore_file
from tamis.index.embedded.lock import writer_lock
from tamis.index.embedded.reader import Reader
from tamis.index.embedded.segment import dead_documents, file_of, pack_dead, sweep
from tamis.index.vocabulary import make_if_used
from tamis.model import INDEX_FOLDER, Finding, Repair
from tamis.models.embedders import LoadedModels
from tamis.progress import Progress
from tamis.settings import Settings

Waiting = Callable[[str], None]

_PRIVATE: Final = 0o700


def repaired(
    root: Path,
    directory: Path,
    settings: Settings,
    models: LoadedModels,
    progress: Progress,
) -> Health:
    """Check the index, repair what can be repaired, and check it again."""

    def examine() -> Health:
        return check(root, directory, settings, models.embedder_itself, full=True)

    before = examine()
    if not before.repairs:
        return before
    done: list[str] = []
    faults: list[Finding] = []
    steps = _repair(root, directory, settings, models, progress, before.repairs)
    try:
        for step in steps:
            done.append(step)  # one by one: a later fault does not undo earlier steps
    except TamisError as error:
        faults.append(Finding("repair", "fault", error.message, error.hint))
    after = examine()
    return replace(after, repaired=tuple(done), findings=(*after.findings, *faults))


def _repair(
    root: Path,
    directory: Path,
    settings: Settings,
    models: LoadedModels,
    progress: Progress,
    repairs: Sequence[Repair],
) -> Iterator[str]:
    """Do the repairs, and yield what was done."""
    kinds = {repair.kind for repair in repairs}
    timeout, waiting = settings.index.lock_timeout, waiting_for(progress)
    if "protect" in kinds:
        if directory.name == INDEX_FOLDER:
            directory.chmod(_PRIVATE)
        if not (directory / ".gitignore").exists():
            write_ignore_file(directory)
        yield "made the folder of the index private"
    if "rebuild" in kinds:
        progress.note(
            "the index is made anew from your files; the old one stays until that is whole"
        )
        with _replacing(directory, timeout, waiting) as aside:
            chosen = with_model(settings, partial(database.facts_of, directory))
            build(root, Reader(aside), chosen, models.embedder, progress)
        make_if_used(directory, settings, models.embedder, progress)
        yield f"made the index anew, with {chosen.model.name or DEFAULT_MODEL}"
        return
    if kinds & {"rewrite", "reembed", "sweep"}:
        lost = _take_out(directory, timeout, waiting, repairs)
        if lost:
            yield f"took out {lost} damaged documents"
        else:
            yield "removed what belonged to nobody"
    if kinds - {"protect"}:
        load = models.embedder
        if "reembed" in kinds:
            load = partial(models.embedder, afresh=True)
        done = build(root, Reader(directory), settings, load, progress)
        make_if_used(directory, settings, models.embedder, progress)
        yield f"brought the index up to date: {done.indexed} documents written"


def _take_out(
    directory: Path, timeout: float, waiting: Waiting, repairs: Sequence[Repair]
) -> int:
    """Remove damaged documents and leftovers; return how many documents will be written again."""
    named = sorted(frozenset().union(*(repair.documents for repair in repairs)))
    held = sorted(frozenset().union(*(repair.segments for repair in repairs)))
    make_folder(directory)
    with (
        writer_lock(directory, timeout, waiting),
        database.database_faults(directory),
        storage_faults(directory),
        closing(database.open_writer(directory)) as connection,
    ):
        with database.transaction(connection):
            damaged = database.documents(connection, "d.path", named)
            damaged += database.documents(connection, "d.segment", held)
            lost = sorted({document.path for document in damaged})
            database.remove_documents(connection, lost)
            database.drop_segments(connection, held)
            database.remove_orphans(connection)
            _mark_dead(connection)
            facts = {"generation": database.generation(connection) + 1}
            if lost:
                facts["pending"] = len(lost)
            database.set_facts(connection, facts)
        reached("mend.committed")
        _remove_leftovers(directory, connection)
    return len(lost)


def _mark_dead(connection: database.Connection) -> None:
    """Mark every place without a document as dead. Dead places stay dead, for open readers."""
    for record in database.segments(connection):
        dead = np.ones(record.documents, np.bool_)
        for document in database.documents(connection, "d.segment", [record.id]):
            if 0 <= document.place < len(dead):
                dead[document.place] = False
        if len(record.dead) == -(-record.documents // 8):
            dead |= dead_documents(record)
        else:  # the record is damaged
            dead[:] = True
        database.set_dead(connection, record.id, pack_dead(dead))


def _remove_leftovers(directory: Path, connection: database.Connection) -> None:
    """Remove files that no commit registered, and damaged files of the vocabulary."""
    records = database.segments(connection)
    segments = directory / "segments"
    sweep(segments, {record.folder for record in records})
    left = list(directory.glob("index.db.partial*"))
    for record in records:
        left += (segments / record.folder).glob("partial-*")
        terms = file_of(directory, record, "terms")
        if is_spoiled(terms):
            left.append(terms)
    for file in concepts.vocabulary_files(directory):
        if file.suffix == ".partial" or is_spoiled(file):
            left.append(file)
    for file in left:
        file.unlink(missing_ok=True)
    shutil.rmtree(directory / ASIDE, ignore_errors=True)


@contextmanager
def _replacing(directory: Path, timeout: float, waiting: Waiting) -> Iterator[Path]:
    """Give a folder for a new index, which replaces the old one when the block ends well.

    The old index is left alone until then, and what can be read of it is still searched.
    """
    make_folder(directory)
    with writer_lock(directory, timeout, waiting), storage_faults(directory):
        aside = directory / ASIDE
        shutil.rmtree(aside, ignore_errors=True)
        try:
            yield aside
            reached("aside.made")
            _replace(directory, aside)
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def _replace(directory: Path, aside: Path) -> None:
    """Move the segments first, then index.db, which registers them.

    The old log is removed before, because SQLite would take it for the log of the new file.
    """
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


def with_model(settings: Settings, facts: Callable[[], Mapping[str, Any]]) -> Settings:
    """Return the settings with the model that an index was made or begun with, unless they name one."""
    name = settings.model.name
    if not name:
        known = facts()
        name = str(known.get("model", known.get("chosen", "")))
    return replace(settings, model=replace(settings.model, name=name))
