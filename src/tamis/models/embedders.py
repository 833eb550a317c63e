"""The embedder protocol, and the one place that turns a configured name into an embedder.

An embedder gives equal text an equal vector, whatever else is embedded beside it, in every
process on one machine: the law needs that. Vectors are float32 of length one.
"""

import os
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.configuration import NO_MODEL, check_name

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Turns text into vectors. A question and a passage are different calls: models may treat them apart."""

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    @property
    def related(self) -> tuple[float, float]:
        """The cosine at which a passage has as likely as not to do with the question, and how sharply
        that turns: the midpoint and the steepness of a logistic curve, measured (`docs/ranking.md`)."""

    def embed_query(self, text: str) -> Vectors: ...
    def embed_passages(self, texts: Sequence[str]) -> Vectors: ...


def _granite(threads: int) -> Embedder:
    from tamis.models.granite import load

    return load(threads)


def _bge(threads: int) -> Embedder:
    from tamis.models.bge import load

    return load(threads)


def _hashing(threads: int) -> Embedder:  # noqa: ARG001
    from tamis.models.hashing import HashingEmbedder

    return HashingEmbedder()


def worker_threads(configured: int) -> int:
    """How many threads embed: as many as are configured, or else one for each core that we may use."""
    if configured:
        return configured
    return (
        len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count() or 1
    )


_LOADERS: Final[dict[str, Callable[[int], Embedder]]] = {
    "granite": _granite,
    "bge": _bge,
    "hashing": _hashing,
}


def load_embedder(name: str, threads: int = 0) -> Embedder | None:
    """The embedder of that name, or None for `none`."""
    check_name(name)
    return None if name == NO_MODEL else _LOADERS[name](threads)
