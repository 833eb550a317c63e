"""The last step of indexing: vectors for the documents that can be found by their words already.

The newest and the most linked come first. What is done is committed every few seconds, so an interrupted
run, or one that gives way to something more urgent, goes on where it stopped.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tamis.failpoints import reached
from tamis.index.embedded.writer import Waiting, Writer
from tamis.model import under_trail
from tamis.models.embedders import Embedder
from tamis.progress import Progress

PORTION: Final = 32  # chunks embedded at a time: enough to keep all threads busy
_SECONDS: Final = 10.0  # between two commits
_PER_ROW: Final = (
    10_000  # bytes of memory that a row takes while it moves, besides its vector
)
_SHARE: Final = 0.1  # of the time goes into commits at most: moving rows costs by how many still wait


def fill_in(
    writer: Writer,
    load: Callable[[], Embedder | None],
    progress: Progress,
    yields: Callable[[], bool],
) -> None:
    """Embed what has no vectors yet, of this run or of an earlier one, until `yields` says to stop."""
    waiting = writer.waiting()
    embedder = load() if waiting else None
    if embedder is None:
        return
    progress.start(sum(document.chunks for document in waiting), "passages")
    with _Commits(writer) as commits:
        for portion in _portions(wanted_first(waiting)):
            for path, vectors in _vectors(embedder, writer.texts_of(portion)):
                commits.add(path, vectors)
                progress.advance(path, len(vectors))
            reached("fill.portion")
            commits.now_and_then()
            if yields():
                break
    writer.tidy()


def wanted_first(waiting: Sequence[Waiting]) -> list[Waiting]:
    """The newest and the most linked documents, in turns: what is asked about first."""
    newest = sorted(waiting, key=lambda document: (-document.modified, document.path))
    linked = sorted(waiting, key=lambda document: (-document.linked, document.path))
    return list(dict.fromkeys(chain.from_iterable(zip(newest, linked, strict=True))))


class _Commits:
    """Vectors on their way into the index. What was made before an interruption is kept, too."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._made: dict[str, NDArray[np.float32]] = {}
        self._size = 0.0
        self._last, self._patience = time.monotonic(), _SECONDS

    def __enter__(self) -> "_Commits":
        return self

    def __exit__(self, *_: object) -> None:
        self._commit()

    def add(self, path: str, vectors: NDArray[np.float32]) -> None:
        self._made[path] = vectors
        self._size += _PER_ROW * len(vectors) + 5 * vectors.nbytes

    def now_and_then(self) -> None:
        if (
            self._size > self._writer.memory
            or time.monotonic() - self._last > self._patience
        ):
            began = time.monotonic()
            self._commit()
            self._last = time.monotonic()
            self._patience = max(_SECONDS, (self._last - began) / _SHARE)

    def _commit(self) -> None:
        made, self._made, self._size = self._made, {}, 0.0
        if made:
            self._writer.embed(made)


def _portions(waiting: Sequence[Waiting]) -> Iterator[list[str]]:
    """Paths of documents that together have enough chunks to keep all threads busy."""
    portion: list[str] = []
    chunks = 0
    for document in waiting:
        portion.append(document.path)
        chunks += document.chunks
        if chunks >= PORTION:
            yield portion
            portion, chunks = [], 0
    if portion:
        yield portion


def _vectors(
    embedder: Embedder, texts_of: Mapping[str, Sequence[tuple[str, str, str]]]
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """The vectors of some documents, by path, embedded together."""
    together = embedder.embed_passages(
        [under_trail(*text) for texts in texts_of.values() for text in texts]
    )
    at = 0
    for path, texts in texts_of.items():
        yield path, together[at : at + len(texts)]
        at += len(texts)
