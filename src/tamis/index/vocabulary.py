"""The concept vocabulary, for query expansion: made after indexing, from the texts that the index holds.

It is made after the commit and without the writer's lock, so neither indexing nor searching waits for it.
Each segment and each batch of terms is written when it is done: an interrupted run continues there, and no
term is embedded twice. Until the vocabulary is complete, searches do without expansion.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tamis.errors import IndexLocked, storage_faults
from tamis.failpoints import reached
from tamis.index.build import waiting_for
from tamis.index.embedded import concepts, database
from tamis.index.embedded.folder import writer_lock
from tamis.index.embedded.reader import EmbeddedSnapshot, Reader
from tamis.index.embedded.segment import Segment
from tamis.models.embedders import Embedder, check_model, model_facts, model_name
from tamis.progress import Progress
from tamis.settings import Settings

BATCH = 512  # terms embedded between two files: a second or two of work
_ROWS = 500  # texts read at a time
_REPORT_EVERY = 5.0  # seconds
_ROUNDS = 5  # others may index meanwhile; after these rounds, a later run continues
_LOCK = "concepts.lock"

Load = Callable[[str], Embedder | None]


def make_vocabulary(
    directory: Path, settings: Settings, load: Load, progress: Progress
) -> int:
    """Bring the vocabulary up to date with the index; return the number of its terms.

    Only one process does so. It checks again after each round, to include what others have indexed.
    """
    with closing(Reader(directory)) as reader:
        for _ in range(_ROUNDS):
            size = _complete_size(reader, settings)
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
    if settings.search.query_expansion_enabled:
        make_vocabulary(directory, settings, load, progress)


def _complete_size(reader: Reader, settings: Settings) -> int | None:
    """Return the number of terms, or None if the vocabulary is incomplete."""
    with reader.snapshot() as snapshot:
        view = snapshot.view
        if not view.segments or not view.facts.get("dimension"):
            return 0  # there are no texts, or there is no model to embed terms
        vocabulary = concepts.vocabulary_of(view)
    floor = settings.weights.query_expansion_min_frequency
    if vocabulary is None or vocabulary.floor > floor:
        return None
    return len(vocabulary)


def _make(
    reader: Reader,
    settings: Settings,
    load: Load,
    progress: Progress,
) -> None:
    """Do one round: write the terms of segments, their vectors and the vocabulary, and name it in index.db."""
    directory = reader.directory
    try:
        with reader.snapshot() as snapshot:
            facts = snapshot.view.facts
            terms = _terms(snapshot)
    except FileNotFoundError:
        return  # a merge has removed a segment: the next round reads a newer generation
    floor = settings.weights.query_expansion_min_frequency
    fingerprint = facts["fingerprint"]
    names = concepts.frequent(terms, floor)
    known = concepts.known_vectors(directory, fingerprint)
    new = [name for name in names if name not in known]
    if new:
        name = model_name(settings, facts)
        embedder = load(name)
        check_model(directory, facts, name, model_facts(embedder)[1])
        assert embedder is not None  # an index with vectors was made with a model
        known |= _embedded(directory, new, embedder, progress)
    vectors = np.empty((len(names), facts["dimension"]), np.float16)
    for at, term in enumerate(names):
        vectors[at] = known[term]
    made = uuid.uuid4().hex
    places = concepts.places_of(terms, names, floor)
    concepts.write_vectors(directory, made, names, vectors, fingerprint, places)
    with (
        writer_lock(directory, settings.index.lock_timeout, waiting_for(progress)),
        database.database_faults(directory),
        closing(database.open_writer(directory)) as connection,
        database.transaction(connection),
    ):
        database.set_facts(connection, {"concepts": made})
    reached("concepts.published")
    concepts.sweep(directory, made)
    progress.note(f"the concept vocabulary has {len(names):,} terms")


def _terms(snapshot: EmbeddedSnapshot) -> list[tuple[Segment, concepts.Arrays]]:
    """Open the terms of every segment; write those that are missing."""
    found = []
    for segment in snapshot.view.segments:
        arrays = concepts.open_terms(segment)
        if arrays is None:
            concepts.write_terms(segment, _texts(snapshot, segment))
            arrays = concepts.open_terms(segment)
        if arrays is None:
            raise FileNotFoundError(segment.record.folder)
        found.append((segment, arrays))
    return found


def _texts(snapshot: EmbeddedSnapshot, segment: Segment) -> Iterator[tuple[int, str]]:
    """Yield the living rows of a segment with their texts. The key of a dead row may be used again."""
    rows = np.arange(segment.record.rows)
    living = segment.living()
    if living is not None:
        rows = rows[living]
    for start in range(0, len(rows), _ROWS):
        some = rows[start : start + _ROWS].tolist()
        keys = segment.rows["chunk"][some].tolist()
        texts = database.contents(snapshot.connection, keys)
        for row, key in zip(some, keys, strict=True):
            yield row, texts[key]


def _embedded(
    directory: Path,
    new: Sequence[bytes],
    embedder: Embedder,
    progress: Progress,
) -> Iterator[tuple[bytes, NDArray[np.float16]]]:
    """Yield terms with their vectors; write each batch to a file.

    A term is embedded as a passage, because a model's prefix for questions would be most of so short a
    text, and make all terms alike.
    """
    reported = time.monotonic()
    for start in range(0, len(new), BATCH):
        some = new[start : start + BATCH]
        texts = [name.decode("utf-8", "surrogatepass") for name in some]
        vectors = embedder.embed_passages(texts).astype(np.float16)
        part = f"part-{uuid.uuid4().hex}"
        fingerprint = embedder.fingerprint
        concepts.write_vectors(directory, part, some, vectors, fingerprint, {})
        yield from zip(some, vectors, strict=True)
        if time.monotonic() - reported >= _REPORT_EVERY:
            reported = time.monotonic()
            done = f"{start + len(some):,} of {len(new):,} new terms"
            progress.note(f"concept vocabulary: {done}")
