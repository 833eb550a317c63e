"""Embed passages: those of new documents, and those of documents that were committed without vectors.

The newest and the most linked of the pending documents come first. Vectors are committed every few
seconds, so a run that is interrupted, or that yields to something more urgent, continues later.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tamis.failpoints import reached
from tamis.index.protocol import PendingDocument, Prepared, Writing
from tamis.model import Document, FileState, embedding_text, under_trail
from tamis.models.embedders import Embedder
from tamis.progress import Progress

PORTION = 32  # passages embedded at a time: enough to keep all threads busy
_SECONDS = 10.0  # between two commits
_PER_ROW = 10_000  # bytes of memory for a row that is moved, besides its vector
# The share of time that may go into commits. Each one moves rows: the more, the more are pending.
_SHARE = 0.1

Item = TypeVar("Item")
Load = Callable[[], Embedder | None]
Read = tuple[Document, FileState]


def embed_now(documents: Iterable[Read], load: Load) -> Iterator[Prepared]:
    """Yield documents with their vectors, embedded some passages at a time."""
    for portion in in_portions(documents, lambda read: len(read[0].chunks), PORTION):
        embedder = load()
        texts = []
        for document, _ in portion:
            title = document.title
            texts += [embedding_text(title, chunk) for chunk in document.chunks]
        dimension = embedder.dimension if embedder else 0
        vectors = np.empty((len(texts), dimension), np.float32)
        if embedder and texts:
            vectors = embedder.embed_passages(texts)
        start = 0
        for document, state in portion:
            end = start + len(document.chunks)
            yield Prepared(document, state, vectors[start:end])
            start = end


def without_vectors(read: Read) -> Prepared:
    document, state = read
    vectors = np.empty((len(document.chunks), 0), np.float32)
    return Prepared(document, state, vectors)


def embed_pending(
    writer: Writing,
    load: Load,
    progress: Progress,
    yields: Callable[[], bool],
) -> None:
    """Embed the documents without vectors, of this run or earlier ones, until `yields` stops it."""
    late = writer.late_vectors
    pending = late.pending_documents() if late else []
    embedder = load() if pending else None
    if late is None or embedder is None:
        return
    progress.start(sum(document.chunks for document in pending), "passages")
    made: dict[str, NDArray[np.float32]] = {}
    size = 0.0
    committed = time.monotonic()
    patience = _SECONDS
    try:
        for portion in in_portions(
            wanted_first(pending), lambda each: each.chunks, PORTION
        ):
            texts_of = late.texts_of([document.path for document in portion])
            texts = []
            for own in texts_of.values():
                texts += [under_trail(*each) for each in own]
            vectors = embedder.embed_passages(texts)
            start = 0
            for path, own in texts_of.items():
                end = start + len(own)
                made[path] = vectors[start:end]
                size += _PER_ROW * len(own) + 5 * made[path].nbytes
                progress.advance(path, len(own))
                start = end
            reached("embed.portion")
            began = time.monotonic()
            if size > late.memory or began - committed > patience:
                done = made
                made = {}
                size = 0.0
                late.embed(done)
                committed = time.monotonic()
                patience = max(_SECONDS, (committed - began) / _SHARE)
            if yields():
                break
    finally:
        if made:
            late.embed(made)
    late.tidy()


def wanted_first(pending: Sequence[PendingDocument]) -> list[PendingDocument]:
    """Take the newest and the most linked documents in turns."""
    by_path = sorted(pending, key=lambda document: document.path)
    newest = sorted(by_path, key=lambda document: -document.modified)
    linked = sorted(by_path, key=lambda document: -document.linked)
    in_turns = chain.from_iterable(zip(newest, linked, strict=True))
    return list(dict.fromkeys(in_turns))


def in_portions(
    items: Iterable[Item],
    chunks: Callable[[Item], int],
    most: int,
) -> Iterator[list[Item]]:
    """Group items until each group has `most` passages; an item without any counts as one."""
    portion: list[Item] = []
    total = 0
    for item in items:
        portion.append(item)
        total += max(1, chunks(item))
        if total >= most:
            yield portion
            portion = []
            total = 0
    if portion:
        yield portion
