"""The models of a corpus, each loaded when it is first asked for, with the cache of vectors before it."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path

from tamis.configuration import QUICK_MODEL
from tamis.models.cache import CachedEmbedder, VectorCache, cache_folder
from tamis.models.embedders import Embedder, load_embedder, worker_threads
from tamis.models.rerankers import Reranker, load_reranker
from tamis.settings import Settings


class LoadedModels:
    """What has been loaded, once for all threads."""

    def __init__(self, root: Path, settings: Settings) -> None:
        self._root = root
        self._settings = settings
        self._embedders: dict[str, Embedder | None] = {}
        self._vectors: VectorCache | None = None
        self._reranker: Reranker | None = (
            None  # loaded by the first search that reranks
        )
        self._lock = threading.Lock()

    def configure(self, settings: Settings) -> None:
        """Load by these settings from now on."""
        with self._lock:
            if settings.model != self._settings.model:
                self._embedders = {}
            self._settings, self._reranker = settings, None

    def close(self) -> None:
        if self._vectors is not None:
            self._vectors.close()

    @property
    def fault(self) -> str:
        """What went wrong with the cache, which costs time and no vector."""
        return self._vectors.fault if self._vectors else ""

    def embedder(self, name: str) -> Embedder | None:
        with self._lock:
            if name not in self._embedders:
                self._embedders[name] = self._cached(
                    load_embedder(name, self._settings.model.threads)
                )
            return self._embedders[name]

    def embedder_itself(self, name: str) -> Embedder | None:
        """The model without its cache, to hold what is there against what it gives."""
        loaded = self.embedder(name)
        return loaded.embedder if isinstance(loaded, CachedEmbedder) else loaded

    def embedder_afresh(self, name: str) -> Embedder | None:
        """The model with a cache that is written and not asked: what it holds may be what is wrong."""
        loaded = self.embedder(name)
        if not isinstance(loaded, CachedEmbedder):
            return loaded
        return CachedEmbedder(
            loaded.embedder, loaded.cache, loaded.threads, afresh=True
        )

    def _cached(self, embedder: Embedder | None) -> Embedder | None:
        """With the cache before it, if there is one and the model takes longer than looking there."""
        chosen = self._settings.model
        if embedder is None or embedder.name == QUICK_MODEL or not chosen.cache_mb:
            return embedder
        if self._vectors is not None:  # of a model that the settings named before
            self._vectors.close()
        self._vectors = VectorCache(
            cache_folder(os.environ), chosen.cache_mb * 1_000_000
        )
        return CachedEmbedder(embedder, self._vectors, worker_threads(chosen.threads))

    def rerank(
        self, query: str, passages: Sequence[str], seconds: float
    ) -> Sequence[float]:
        with self._lock:
            if self._reranker is None:
                name, threads = (
                    self._settings.search.rerank_model,
                    self._settings.model.threads,
                )
                self._reranker = load_reranker(name, threads, self._root)
            reranker = self._reranker
        return reranker.scores(query, passages, seconds)
