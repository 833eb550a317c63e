"""The embedder protocol, and the models of a corpus, each loaded when it is first used.

An embedder gives equal text an equal vector, whatever else is embedded beside it, in every
process on one machine: search results must not depend on excluded files, to the last bit.
Vectors are float32 of length one.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tamis.errors import BadSetting, IndexMismatch, rebuild_command
from tamis.model import Address
from tamis.settings import DEFAULT_MODEL, MODELS, NO_MODEL, QUICK_MODEL, Settings

if TYPE_CHECKING:
    from tamis.models.cache import VectorCache
    from tamis.models.rerankers import CrossEncoder

Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """Turns text into vectors; models may treat a question differently from a passage."""

    @property
    def name(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    @property
    def related(self) -> tuple[float, float]:
        """Midpoint and steepness of a logistic curve from a cosine to a probability.

        It is the probability that a passage has to do with the question, as measured
        (docs/ranking.md).
        """

    def embed_query(self, text: str) -> Vectors: ...
    def embed_passages(self, texts: Sequence[str]) -> Vectors: ...


def load_embedder(name: str, threads: int = 0) -> Embedder | None:
    """Load the embedder of that name; None for `none`. Only its own libraries are imported."""
    if name == NO_MODEL:
        return None
    if name == "hashing":
        from tamis.models.hashing import HashingEmbedder

        return HashingEmbedder()
    if name not in MODELS:
        hint = f"allowed: {', '.join(MODELS)}"
        raise BadSetting(f"there is no model {name!r}", hint=hint)
    from tamis.models import encoder

    load = encoder.load_bge if name == "bge" else encoder.load_granite
    return load(threads)


def model_name(settings: Settings, facts: Mapping[str, Any]) -> str:
    """Return the configured model, else that of the index or of its first run, else the default."""
    named = settings.model.name or facts.get("model") or facts.get("chosen")
    return named or DEFAULT_MODEL


def model_facts(embedder: Embedder | None) -> tuple[str, str, int]:
    """Return the name, fingerprint and dimension of a model."""
    if embedder is None:
        return NO_MODEL, "", 0
    return embedder.name, embedder.fingerprint, embedder.dimension


def check_model(
    place: Path | Address,
    facts: Mapping[str, Any],
    name: str,
    fingerprint: str | None = None,
) -> None:
    """Refuse a model other than that of the index: its vectors cannot be compared."""
    if facts.get("model", name) != name:
        what = f"the model {facts['model']}, not {name}"
    elif (
        fingerprint is not None and facts.get("fingerprint", fingerprint) != fingerprint
    ):
        what = f"another edition of the model {name}"
    else:
        return
    raise IndexMismatch(
        f"the index in {place} was made with {what}",
        hint=f"run: {rebuild_command(place)} --model {name}; or use --model {facts['model']}",
    )


def worker_threads(configured: int) -> int:
    """Return the number of threads that embed; 0 stands for one per usable core."""
    if configured:
        return configured
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LoadedModels:
    """The embedders and the reranker of a corpus, loaded once for all threads."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self._root = root
        self._settings = settings
        self._embedders: dict[str, Embedder | None] = {}
        self._cache: VectorCache | None = None
        self._reranker: CrossEncoder | None = None
        self._lock = threading.Lock()

    def configure(self, settings: Settings) -> None:
        """Load by these settings from now on."""
        with self._lock:
            if settings.model != self._settings.model:
                self._embedders = {}
                self.close()
            self._settings = settings
            self._reranker = None

    def close(self) -> None:
        """Close the cache of vectors; a later use opens it again."""
        if self._cache is not None:
            self._cache.close()

    @property
    def fault(self) -> str:
        """The reason why vectors are not cached; empty if they are. It costs time, no vector."""
        if self._cache is None:
            return ""
        return self._cache.fault

    def embedder_itself(self, name: str) -> Embedder | None:
        """Return the model without its cache."""
        with self._lock:
            if name not in self._embedders:
                threads = self._settings.model.threads
                self._embedders[name] = load_embedder(name, threads)
            return self._embedders[name]

    def embedder(
        self,
        name: str,
        *,
        afresh: bool = False,
    ) -> Embedder | None:
        """Return the model behind the cache of vectors, unless it is as fast as the cache.

        With `afresh` the cache is written and not read, because it may hold wrong vectors.
        """
        model = self.embedder_itself(name)
        megabytes = self._settings.model.cache_mb
        if model is None or model.name == QUICK_MODEL or not megabytes:
            return model
        from tamis.models.cache import CachedEmbedder, VectorCache, cache_folder

        with self._lock:
            size = megabytes * 1_000_000
            if self._cache is None or self._cache.most_bytes != size:
                self._cache = VectorCache(cache_folder(os.environ), size)
        threads = worker_threads(self._settings.model.threads)
        return CachedEmbedder(model, self._cache, threads, afresh=afresh)

    def rerank(
        self, query: str, passages: Sequence[str], seconds: float
    ) -> Sequence[float]:
        """Score passages with the configured reranker; see `CrossEncoder.scores`."""
        from tamis.models import rerankers

        with self._lock:
            if self._reranker is None:
                name = self._settings.search.rerank_model
                threads = self._settings.model.threads
                self._reranker = rerankers.load_reranker(name, threads, self._root)
            reranker = self._reranker
        return reranker.scores(query, passages, seconds)
