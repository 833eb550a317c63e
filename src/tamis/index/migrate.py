"""Copying an index, vectors and all, to a server or from one: no file is read, and nothing embedded again."""

import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tamis.errors import IndexMismatch, IndexMissing
from tamis.index.build import check_belongs, source_of, waiting_for
from tamis.index.embedded.reader import Reader
from tamis.index.plan import recipe
from tamis.index.protocol import Holding, Index, Prepared
from tamis.model import Report
from tamis.progress import Progress
from tamis.settings import Settings

_CHUNKS: Final = 2_048  # written at a time
_KEPT: Final = ("model", "fingerprint", "dimension")


def migrate(
    root: Path,
    directory: Path,
    settings: Settings,
    progress: Progress,
    *,
    to_server: bool,
) -> Report:
    """Copy the index in the directory to the server that the settings name, or the other way."""
    from tamis.index.qdrant.reader import (
        open_index,
    )  # who has no server needs no library for one

    here = Reader(directory)
    there = open_index(root, settings, os.environ, lambda: _width(here))
    old, new = (here, there) if to_server else (there, here)
    try:
        return copy(old, new, root, settings, progress)
    finally:
        here.close()
        there.close()


def _width(index: Index) -> int:
    """How wide the vectors of an index are: asked when a collection is made for them."""
    with index.snapshot() as snapshot:
        return int(snapshot.about.get("dimension", 0))


def copy(
    old: Index, new: Index, root: Path, settings: Settings, progress: Progress
) -> Report:
    """Replace what one index holds by what another does."""
    started = time.monotonic()
    if not old.exists():
        raise IndexMissing(root if isinstance(old.place, Path) else old.place)
    timeout, boosts = settings.index.lock_timeout, asdict(settings.fields)
    with (
        old.snapshot() as snapshot,
        new.open_for_writing(timeout, waiting_for(progress), boosts) as writer,
    ):
        _check(snapshot, settings)
        check_belongs(root, writer.directory, writer.facts)
        documents = chunks = 0
        progress.start(snapshot.state.documents)
        with writer.all_or_nothing():
            writer.clear()
            writer.describe(
                _facts(snapshot) | {"root": source_of(root, writer.directory)}
            )
            for batch in _batches(snapshot.prepared()):
                writer.put(batch, pending=0)
                documents += len(batch)
                chunks += sum(len(prepared.document.chunks) for prepared in batch)
                for prepared in batch:
                    progress.advance(prepared.document.path)
            kept = {
                name: snapshot.about[name]
                for name in ("git", "began")
                if name in snapshot.about
            }
            writer.finish(snapshot.skipped(), kept)
        generation = writer.generation
    seconds = time.monotonic() - started
    return Report(
        indexed=documents, chunks=chunks, generation=generation, seconds=seconds
    )


def _facts(snapshot: Holding) -> dict[str, Any]:
    return {name: snapshot.about[name] for name in _KEPT if name in snapshot.about}


def _check(snapshot: Holding, settings: Settings) -> None:
    """What is copied must be whole, and must be what the settings would make."""
    state, wanted = snapshot.state, recipe(settings)
    if state.pending_files or state.pending_chunks:
        raise IndexMismatch(
            "the index is not whole yet", hint="run tamis index first, then this again"
        )
    if any(each.recipe != wanted for each in snapshot.file_states().values()):
        raise IndexMismatch(
            "the index was made with other settings than these, or by another version",
            hint="run tamis index first, then this again",
        )


def _batches(documents: Iterator[Prepared]) -> Iterator[list[Prepared]]:
    batch: list[Prepared] = []
    chunks = 0
    for prepared in documents:
        batch.append(prepared)
        chunks += len(prepared.document.chunks)
        if chunks >= _CHUNKS:
            yield batch
            batch, chunks = [], 0
    if batch:
        yield batch
