"""Repairs of an index, under the writer's lock: `tamis doctor --repair`.

Damaged documents are taken out in one transaction; the next run reads their files and writes them
again, as it would new ones, with vectors from the cache. Until then they are pending. An index.db
that cannot be read is replaced by an index that was built in another folder first.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tamis.errors import StorageFault, TamisError, storage_faults
from tamis.failpoints import reached
from tamis.index.build import build, waiting_for
from tamis.index.doctor.checks import Health, check, unusable_terms
from tamis.index.embedded import concepts, database
from tamis.index.embedded.arrays import sync_folder
from tamis.index.embedded.folder import (
    ASIDE,
    clear_up,
    make_folder,
    write_ignore_file,
    writer_lock,
)
from tamis.index.embedded.reader import Reader
from tamis.index.embedded.segment import dead_documents, pack_dead, sweep
from tamis.index.vocabulary import make_if_used
from tamis.model import INDEX_FOLDER, Finding, Repair
from tamis.models.embedders import LoadedModels
from tamis.progress import Progress
from tamis.settings import DEFAULT_MODEL, Settings

_PRIVATE = 0o700


def repaired(
    root: Path,
    directory: Path,
    settings: Settings,
    models: LoadedModels,
    progress: Progress,
) -> Health:
    """Check the index, repair what can be repaired, and check it again."""
    load = models.embedder_itself
    examine = partial(check, root, directory, settings, load, full=True)
    before = examine()
    if not before.repairs:
        return before
    done: list[str] = []  # a later fault does not undo earlier steps
    faults: list[Finding] = []
    try:
        for step in _repair(
            root, directory, settings, models, progress, before.repairs
        ):
            done.append(step)
    except TamisError as error:
        faults.append(Finding("repair", "fault", error.message, error.hint))
    after = examine()
    findings = (*after.findings, *faults)
    return replace(after, repaired=tuple(done), findings=findings)


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
    if "protect" in kinds:
        if directory.name == INDEX_FOLDER:
            directory.chmod(_PRIVATE)
        if not (directory / ".gitignore").exists():
            write_ignore_file(directory)
        yield "made the folder of the index private"
    if kinds == {"protect"}:
        return
    make_folder(directory)
    lock = writer_lock(directory, settings.index.lock_timeout, waiting_for(progress))
    if "rebuild" in kinds:
        progress.note(
            "the index is made anew from your files; the old one stays until that is whole"
        )
        settings = with_model(settings, database.facts_of(directory))
        with lock, _replacing(directory) as aside:
            build(root, Reader(aside), settings, models.embedder, progress)
        done = f"made the index anew, with {settings.model.name or DEFAULT_MODEL}"
    else:
        if kinds & {"rewrite", "reembed", "sweep"}:
            with lock:
                yield _take_out(directory, repairs)
        # Vectors that the model does not give may be in the cache as well.
        load = partial(models.embedder, afresh="reembed" in kinds)
        report = build(root, Reader(directory), settings, load, progress)
        done = f"brought the index up to date: {report.indexed} documents written"
    make_if_used(directory, settings, models.embedder, progress)
    yield done


def _take_out(directory: Path, repairs: Sequence[Repair]) -> str:
    """Remove damaged documents and segments, and what belongs to nobody."""
    named: set[str] = set()
    held: set[int] = set()
    for repair in repairs:
        named |= repair.documents
        held |= repair.segments
    with (
        database.database_faults(directory),
        storage_faults(directory),
        closing(database.open_writer(directory)) as connection,
    ):
        with database.transaction(connection):
            for document in database.documents(connection, "d.segment", list(held)):
                named.add(document.path)
            lost = database.remove_documents(connection, sorted(named))
            database.drop_segments(connection, list(held))
            for table in database.OF_DOCUMENTS:
                known = "SELECT id FROM documents"
                connection.execute(
                    f"DELETE FROM {table} WHERE document NOT IN ({known})"
                )
            records = database.segments(connection)
            for record in records:
                dead = dead_documents(record)
                for each in lost:
                    if each.segment == record.id:
                        dead[each.place] = True
                database.set_dead(connection, record.id, pack_dead(dead))
            facts = {"generation": database.generation(connection) + 1}
            if lost:
                facts["pending"] = len(lost)
            database.set_facts(connection, facts)
        reached("mend.committed")
        clear_up(directory, records)
        for file in unusable_terms(directory):
            file.unlink(missing_ok=True)
    if lost:
        return f"took out {len(lost)} damaged documents"
    return "removed what belonged to nobody"


@contextmanager
def _replacing(directory: Path) -> Iterator[Path]:
    """Give a folder for a new index, which replaces the old one when the block ends well.

    The old index is left alone until then, and what can be read of it is still searched.
    """
    aside = directory / ASIDE
    with storage_faults(directory):
        shutil.rmtree(aside, ignore_errors=True)
        try:
            yield aside
            reached("aside.made")
            if (aside / "index.db-wal").exists():
                hint = "free some space, then run it again"
                raise StorageFault(f"{aside} could not be completed", hint=hint)
            # The segments come first, then index.db, which registers them.
            new = list((aside / "segments").iterdir())
            for folder in new:
                folder.rename(directory / "segments" / folder.name)
                reached("aside.moved")
            # SQLite would take the old log for the log of the new file.
            for end in database.BESIDE:
                (directory / f"index.db{end}").unlink(missing_ok=True)
                reached("aside.unlogged")
            (aside / "index.db").replace(directory / "index.db")
            reached("aside.replaced")
            sync_folder(directory)
            sweep(directory / "segments", {folder.name for folder in new})
            reached("aside.swept")
            concepts.sweep(directory, "")
        finally:
            shutil.rmtree(aside, ignore_errors=True)


def with_model(settings: Settings, facts: Mapping[str, Any]) -> Settings:
    """Return the settings with the model that an index was made or begun with, unless they name one."""
    name = settings.model.name or facts.get("model") or facts.get("chosen") or ""
    return replace(settings, model=replace(settings.model, name=str(name)))
