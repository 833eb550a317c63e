"""Embedding: vectors for new documents, and for documents that were committed without theirs.

Of the pending documents, the newest and the most linked come first. Vectors are committed every few
seconds, so a run that is interrupted, or that gives way to something more urgent, continues later.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from tamis.failpoints import reached
from tamis.index.protocol import LateVectors, PendingDocument, Prepared, Writing
from tamis.model import Document, FileState, embedding_text, under_trail
from tamis.models.embedders import Embedder
from tamis.progress import Progress

PORTION: Final = 32  # passages embedded at a time: enough to keep all threads busy
_SECONDS: Final = 10.0  # between two commits
_PER_ROW: Final = 10_000  # bytes of memory for a row that is moved, besides its vector
# The share of time that may go into commits. Each one moves rows: the more, the more are pending.
_SHARE: Final = 0.1

Item = TypeVar("Item")
Load = Callable[[], Embedder | None]
Read = tuple[Document, FileState]


def embed_now(documents: Iterable[Read], load: Load) -> Iterator[Prepared]:
    """Yield documents with their vectors, embedded some passages at a time."""
    for portion in in_portions(documents, lambda read: len(read[0].chunks), PORTION):
        embedder = load()
        texts = []
        for document, _ in portion:
            texts += [
                embedding_text(document.title, chunk) for chunk in document.chunks
            ]
        if embedder is None:
            vectors = np.empty((len(texts), 0), np.float32)
        elif not texts:
            vectors = np.empty((0, embedder.dimension), np.float32)
        else:
            vectors = embedder.embed_passages(texts)
        start = 0
        for document, state in portion:
            end = start + len(document.chunks)
            yield Prepared(document, state, vectors[start:end])
            start = end


def without_vectors(read: Read) -> Prepared:
    document, state = read
    return Prepared(document, state, np.empty((len(document.chunks), 0), np.float32))


def embed_pending(
    writer: Writing, load: Load, progress: Progress, yields: Callable[[], bool]
) -> None:
    """Embed the documents without vectors, of this run or earlier ones, until `yields` stops it."""
    late = writer.late_vectors
    pending = late.pending_documents() if late else []
    embedder = load() if pending else None
    if late is None or embedder is None:
        return
    progress.start(sum(document.chunks for document in pending), "passages")
    made = _Made(late)
    ordered = wanted_first(pending)
    try:
        for portion in in_portions(ordered, lambda pending: pending.chunks, PORTION):
            texts_of = late.texts_of([document.path for document in portion])
            texts = [under_trail(*each) for own in texts_of.values() for each in own]
            vectors = embedder.embed_passages(texts)
            start = 0
            for path, own in texts_of.items():
                end = start + len(own)
                made.add(path, vectors[start:end])
                progress.advance(path, len(own))
                start = end
            reached("embed.portion")
            made.commit_if_due()
            if yields():
                break
    finally:
        made.commit()
    late.tidy()


def wanted_first(pending: Sequence[PendingDocument]) -> list[PendingDocument]:
    """Take the newest and the most linked documents in turns."""
    newest = sorted(pending, key=lambda document: (-document.modified, document.path))
    linked = sorted(pending, key=lambda document: (-document.linked, document.path))
    in_turns = chain.from_iterable(zip(newest, linked, strict=True))
    return list(dict.fromkeys(in_turns))


def in_portions(
    items: Iterable[Item], chunks: Callable[[Item], int], most: int
) -> Iterator[list[Item]]:
    """Group items until each group has `most` passages; an item without any counts as one."""
    portion: list[Item] = []
    total = 0
    for item in items:
        portion.append(item)
        total += max(1, chunks(item))
        if total >= most:
            yield portion
            portion, total = [], 0
    if portion:
        yield portion


class _Made:
    """Vectors that wait for the next commit."""

    def __init__(self, late: LateVectors) -> None:
        self._late = late
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._size = 0.0
        self._last, self._patience = time.monotonic(), _SECONDS

    def add(self, path: str, vectors: NDArray[np.float32]) -> None:
        self._vectors[path] = vectors
        self._size += _PER_ROW * len(vectors) + 5 * vectors.nbytes

    def commit_if_due(self) -> None:
        began = time.monotonic()
        if self._size > self._late.memory or began - self._last > self._patience:
            self.commit()
            self._last = time.monotonic()
            self._patience = max(_SECONDS, (self._last - began) / _SHARE)

    def commit(self) -> None:
        vectors, self._vectors, self._size = self._vectors, {}, 0.0
        if vectors:
            self._late.embed(vectors)
