"""After indexing: the concept vocabulary (P1, C49), from the texts that the index holds.

A step of its own, after the commit and outside the writer's lock, so that neither indexing nor
searching waits for it. It goes segment by segment and then batch by batch, and keeps what it has done:
an interrupted run goes on where it stopped, and a term that was embedded once is not embedded again.
Until the vocabulary is whole, searches go without expansion, never with a part of it.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tamis.errors import IndexLocked, storage_faults
from tamis.failpoints import reached
from tamis.index.build import check_model, model_facts, model_name, waiting_for
from tamis.index.embedded import concepts, database
from tamis.index.embedded.lock import writer_lock
from tamis.index.embedded.reader import Reader
from tamis.index.embedded.segment import Segment
from tamis.index.embedded.snapshot import EmbeddedSnapshot
from tamis.models.embedders import Embedder
from tamis.progress import Progress
from tamis.settings import Settings

_BATCH: Final = 512  # terms embedded between two files: a second or two, what an interrupted run loses
_ROWS: Final = 500  # texts read at a time
_TELL_EVERY: Final = 5.0  # seconds
_ROUNDS: Final = 5  # others may index while we work; beyond that, it is for a later run
_LOCK: Final = "concepts.lock"

Load = Callable[[str], Embedder | None]
Terms = list[tuple[Segment, dict[str, NDArray[Any]]]]


def make_vocabulary(
    directory: Path, settings: Settings, load: Load, progress: Progress
) -> int:
    """Bring the vocabulary up to date with the index; returns how many terms it has.

    One process does it; another leaves it at that. Whoever did it looks once more after letting go, so
    that what the other one indexed meanwhile is in it, too.
    """
    with closing(Reader(directory)) as reader:
        for _ in range(_ROUNDS):
            size = _size_of_whole(reader, settings)
            if size is not None:
                return size
            try:
                with (
                    writer_lock(directory, 0, lambda _: None, _LOCK),
                    storage_faults(directory),
                ):
                    _make(reader, settings, load, progress)
            except IndexLocked:
                break
    progress.note(
        "the concept vocabulary is not ready: others are at work on the index"
    )
    return 0


def make_if_used(
    directory: Path, settings: Settings, load: Load, progress: Progress
) -> None:
    """The same where questions are expanded."""
    if settings.search.query_expansion_enabled:
        make_vocabulary(directory, settings, load, progress)


def _size_of_whole(reader: Reader, settings: Settings) -> int | None:
    """How many terms there are, if nothing is missing."""
    with reader.snapshot() as snapshot:
        if not snapshot.view.segments or not snapshot.view.facts.get("dimension"):
            return 0  # nothing to read, or no model to read it with
        vocabulary = snapshot.vocabulary()
    whole = (
        vocabulary is not None
        and vocabulary.floor <= settings.weights.query_expansion_min_frequency
    )
    return len(vocabulary) if vocabulary is not None and whole else None


def _make(reader: Reader, settings: Settings, load: Load, progress: Progress) -> None:
    """One round: terms, vectors, the vocabulary, its name in index.db."""
    try:
        with reader.snapshot() as snapshot:
            facts = snapshot.view.facts
            terms = _terms(snapshot)
    except (
        FileNotFoundError
    ):  # a segment was merged away while we wrote beside it: there is a newer one
        return
    floor, fingerprint = (
        settings.weights.query_expansion_min_frequency,
        facts["fingerprint"],
    )
    names = concepts.frequent(terms, floor)
    known = concepts.known_vectors(reader.directory, fingerprint)
    new = [name for name in names if name not in known]
    if new:
        known |= _embedded(
            reader.directory,
            new,
            _embedder(reader.directory, settings, facts, load),
            progress,
        )
    vectors = _stacked((known[name] for name in names), len(names), facts["dimension"])
    name = concepts.write_vocabulary(
        reader.directory, terms, names, vectors, fingerprint, floor
    )
    _publish(reader.directory, name, settings.index.lock_timeout, progress)
    reached("concepts.published")
    concepts.sweep(reader.directory, name)
    progress.note(f"the concept vocabulary has {len(names):,} terms")


def _embedder(
    directory: Path, settings: Settings, facts: Mapping[str, Any], load: Load
) -> Embedder:
    """The model that the index was made with."""
    name = model_name(settings, facts)
    embedder = load(name)
    check_model(directory, facts, name, model_facts(embedder)[1])
    assert embedder is not None  # an index with vectors was made with a model
    return embedder


def _terms(snapshot: EmbeddedSnapshot) -> Terms:
    """The terms of every segment; those that are not there yet are written."""
    terms: Terms = []
    for segment in snapshot.view.segments:
        if concepts.open_terms(segment) is None:
            concepts.write_terms(segment, _texts(snapshot, segment))
        arrays = concepts.open_terms(segment)
        if arrays is None:
            raise FileNotFoundError(concepts.terms_file(segment))
        terms.append((segment, arrays))
    return terms


def _texts(snapshot: EmbeddedSnapshot, segment: Segment) -> Iterator[tuple[int, str]]:
    """The living rows of a segment with their texts. The key of a dead one may be another's by now."""
    living = segment.living()
    rows = np.arange(segment.size) if living is None else np.flatnonzero(living)
    for start in range(0, len(rows), _ROWS):
        some = rows[start : start + _ROWS].tolist()
        keys = segment.rows["chunk"][some].tolist()
        texts = database.contents(snapshot.connection, keys)
        yield from ((row, texts[key]) for row, key in zip(some, keys, strict=True))


def _embedded(
    directory: Path, new: Sequence[bytes], embedder: Embedder, progress: Progress
) -> Iterator[tuple[bytes, NDArray[np.float16]]]:
    """Terms with their vectors, kept batch by batch.

    A term is embedded as a passage, which is what questions are compared with: a model's prefix for
    questions would be most of so short a text, and make all terms alike.
    """
    told = time.monotonic()
    for start in range(0, len(new), _BATCH):
        some = new[start : start + _BATCH]
        texts = [name.decode("utf-8", "surrogatepass") for name in some]
        vectors = embedder.embed_passages(texts).astype(np.float16)
        concepts.write_part(directory, some, vectors, embedder.fingerprint)
        yield from zip(some, vectors, strict=True)
        if time.monotonic() - told >= _TELL_EVERY:
            told = time.monotonic()
            progress.note(
                f"concept vocabulary: {start + len(some):,} of {len(new):,} new terms"
            )


def _stacked(
    rows: Iterable[NDArray[Any]], count: int, width: int
) -> NDArray[np.float16]:
    stacked = np.empty((count, width), np.float16)
    for at, row in enumerate(rows):
        stacked[at] = row
    return stacked


def _publish(directory: Path, name: str, timeout: float, progress: Progress) -> None:
    """Name the vocabulary in index.db, the one place that says what is in use."""
    with (
        writer_lock(directory, timeout, waiting_for(progress)),
        database.database_faults(directory),
    ):
        connection = database.open_writer(directory)
        try:
            with database.transaction(connection):
                database.set_facts(connection, {"concepts": name})
        finally:
            connection.close()
