"""The engines: which one holds the index of a root, and how an index is copied between two."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tamis.errors import IndexMismatch
from tamis.index.embedded.reader import Reader
from tamis.index.plan import recipe
from tamis.index.protocol import Index, Layout, Prepared
from tamis.model import Report
from tamis.progress import Progress
from tamis.settings import Settings

_CHUNKS = 2_048  # passages written at a time
_OF_MODEL = ("model", "fingerprint", "dimension")
_OF_RUN = ("git", "began")


def open_index(
    root: Path,
    directory: Path,
    settings: Settings,
    dimension: Callable[[], int],
) -> Index:
    """Open the index that the settings name. `dimension` is asked when a collection is created."""
    if not settings.engine.url:
        return Reader(directory)
    # The library for servers is optional.
    from tamis.index.qdrant.reader import open_index as open_shared

    return open_shared(root, settings, os.environ, dimension)


@contextmanager
def sole_watcher(directory: Path) -> Iterator[Callable[[], bool]]:
    """Be the only process that watches the files of an index, which need not exist yet.

    Yields a function that tells whether this still holds. Raises IndexLocked if another one watches.
    """
    from tamis.index.embedded.folder import make_folder, writer_lock

    make_folder(directory)
    with writer_lock(directory, 0, lambda _: None, "watch.lock") as held:
        yield held


def migrate(
    root: Path,
    directory: Path,
    settings: Settings,
    progress: Progress,
    *,
    to_server: bool,
    layout: Layout | None = None,
) -> Report:
    """Copy the index in the directory to the server that the settings name, or back."""
    here = Reader(directory)

    def dimension() -> int:
        with here.snapshot() as snapshot:
            return int(snapshot.about.get("dimension", 0))

    there = open_index(root, directory, settings, dimension)
    with closing(here), closing(there):
        old: Index = here
        new: Index = there
        if not to_server:
            old, new = new, old
        if layout:
            new.create(layout)
        return copy(old, new, root, settings, progress)


def copy(
    old: Index,
    new: Index,
    root: Path,
    settings: Settings,
    progress: Progress,
) -> Report:
    """Replace the content of one index by that of another; no file is read, nothing embedded."""
    from tamis.index.build import waiting_for
    from tamis.index.embed_pending import in_portions

    started = time.monotonic()
    if not old.exists():
        raise old.missing(root)
    timeout = settings.index.lock_timeout
    boosts = dict(settings.weights.fields)
    with (
        old.snapshot() as snapshot,
        new.open_for_writing(timeout, waiting_for(progress), boosts) as writer,
    ):
        # Refuse an index that is incomplete, or that the settings would make otherwise.
        hint = "run tamis index first, then this again"
        state = snapshot.state
        if state.pending_files or state.pending_chunks:
            raise IndexMismatch("the index is not whole yet", hint=hint)
        recipes = {known.recipe for known in snapshot.file_states().values()}
        if recipes - {recipe(settings)}:
            raise IndexMismatch(
                "the index was made with other settings than these, or by another version",
                hint=hint,
            )
        new.check_owner(root, writer.facts)
        documents = 0
        chunks = 0
        about = snapshot.about
        progress.start(snapshot.state.documents)
        with writer.all_or_nothing():
            writer.clear()
            model = {name: about[name] for name in _OF_MODEL if name in about}
            writer.describe(model | {"root": new.owner_of(root)})
            for batch in in_portions(snapshot.prepared(), _passages, _CHUNKS):
                writer.put(batch, pending=0)
                for prepared in batch:
                    documents += 1
                    chunks += _passages(prepared)
                    progress.advance(prepared.document.path)
            run = {name: about[name] for name in _OF_RUN if name in about}
            writer.finish(snapshot.skipped(), run)
        generation = writer.generation
    return Report(
        indexed=documents,
        chunks=chunks,
        generation=generation,
        seconds=time.monotonic() - started,
    )


def _passages(prepared: Prepared) -> int:
    return len(prepared.document.chunks)
