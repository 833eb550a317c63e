"""A cache of vectors for all roots of this user: no text is embedded twice.

A vector depends on the model's fingerprint and the text alone. Those are its key, so a copied
folder, a branch that comes back or a rebuild costs no embedding. The file is private and bounded:
the vectors that were not used for the longest time are dropped first. It is never a reason to
fail: a vector that it cannot give is computed, and its fault appears once, in the run's report.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path

import numpy as np

from tamis.failpoints import reached
from tamis.models.embedders import Embedder, Vectors

_FILE = "vectors.db"
_ENDINGS = ("", "-wal", "-shm", "-journal")
BUSY_MS = 1_000  # waiting longer for another process costs more than embedding
# Bytes. Most models' vectors take 1,536; with two to a page a quarter would be wasted.
_PAGE = 16_384
_SPARE = 0.1  # share of the vectors dropped at once, so that it happens seldom
_DAY = 86_400
_SCHEMA = f"""
PRAGMA page_size = {_PAGE};
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS vectors
    (key BLOB PRIMARY KEY, vector BLOB NOT NULL, used INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS vectors_by_use ON vectors (used);
"""
_TAKEN = """
SELECT (page_count - freelist_count) * page_size
FROM pragma_page_count, pragma_freelist_count, pragma_page_size
"""
_DROP = """
DELETE FROM vectors WHERE key IN (SELECT key FROM vectors ORDER BY used, rowid LIMIT ?)
"""


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return the user's own cache folder, which no project can move."""
    home = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "tamis"


def key_of(fingerprint: str, text: str) -> bytes:
    digest = blake2b(fingerprint.encode(), digest_size=16)
    digest.update(b"\0")
    digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.digest()


def today() -> int:
    return int(time.time()) // _DAY


class VectorCache:
    """Vectors by key, in one file; safe to use from several threads and processes."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        """Prepare the cache; the first use opens its file."""
        self.folder = folder
        self.most_bytes = most_bytes
        self.fault = ""  # the reason why nothing is kept, once there is one
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def find(self, keys: Sequence[bytes], dimension: int) -> dict[bytes, Vectors]:
        """Return the known vectors of that length, and note that they were used today."""
        found: dict[bytes, Vectors] = {}
        used_before = []
        marks = ", ".join("?" * len(keys))
        select = f"SELECT key, vector, used FROM vectors WHERE key IN ({marks})"
        try:
            with self._transaction() as connection:
                for key, stored, used in connection.execute(select, keys):
                    if len(stored) != 4 * dimension:
                        continue
                    found[key] = np.frombuffer(stored, np.float32)
                    if used < today():
                        used_before.append((today(), key))
                update = "UPDATE vectors SET used = ? WHERE key = ?"
                connection.executemany(update, used_before)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)
        return found

    def keep(self, vectors: Mapping[bytes, Vectors]) -> None:
        """Store vectors, and drop old ones if there are too many."""
        rows = [(key, vector.tobytes(), today()) for key, vector in vectors.items()]
        try:
            with self._transaction() as connection:
                insert = "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)"
                connection.executemany(insert, rows)
                _drop_oldest(connection, self.most_bytes)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._connection is None:
                self._connection = self._open()
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection

    def _open(self) -> sqlite3.Connection:
        if self.fault:
            raise OSError(self.fault)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self.folder / _FILE
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(file, flags, 0o600))
        connection = sqlite3.connect(
            file, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_up(self, error: sqlite3.Error | OSError) -> None:
        """Use the cache no more; delete its file if that is no database.

        If another process is writing, only this one use is skipped.
        """
        if self.fault:
            return
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return
        self.fault = f"vectors are not kept in {self.folder}: {error}"
        self.close()
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            for ending in _ENDINGS:
                (self.folder / f"{_FILE}{ending}").unlink(missing_ok=True)


class CachedEmbedder:
    """An embedder that asks the cache first; the vectors are the same, to the last bit.

    Texts are embedded one at a time, on threads of its own, and a thread keeps each vector before
    it begins the next: after any interruption the next run embeds none of them again. Keeping a
    vector takes a third of a millisecond, making it some fifty.

    With `afresh` it does not ask, and new vectors replace the stored ones.
    """

    def __init__(
        self,
        embedder: Embedder,
        cache: VectorCache,
        threads: int = 1,
        *,
        afresh: bool = False,
    ) -> None:
        self.name = embedder.name
        self.fingerprint = embedder.fingerprint
        self.dimension = embedder.dimension
        self.related = embedder.related
        self._embedder = embedder
        self._cache = cache
        self._threads = threads
        self._afresh = afresh

    def embed_query(self, text: str) -> Vectors:
        return self._embedder.embed_query(text)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return self._embedder.embed_passages(texts)
        keys = [key_of(self.fingerprint, text) for text in texts]
        by_key = dict(zip(keys, texts, strict=True))
        vectors: dict[bytes, Vectors] = {}
        if not self._afresh:
            vectors = self._cache.find(list(by_key), self.dimension)
        new = {key: text for key, text in by_key.items() if key not in vectors}
        if len(new) < 2 or self._threads == 1:
            vectors.update(map(self._embed, new.items()))
        else:
            with ThreadPoolExecutor(self._threads, "embed") as pool:
                vectors.update(pool.map(self._embed, new.items()))
        return np.stack([vectors[key] for key in keys])

    def _embed(self, item: tuple[bytes, str]) -> tuple[bytes, Vectors]:
        key, text = item
        vector = self._embedder.embed_passages([text])[0]
        reached("cache.made")
        self._cache.keep({key: vector})
        reached("cache.kept")
        return key, vector


def _drop_oldest(connection: sqlite3.Connection, most_bytes: int) -> None:
    """Keep the file below its limit; pages that become free are used again."""
    (taken,) = connection.execute(_TAKEN).fetchone()
    if taken <= most_bytes:
        return
    (count,) = connection.execute("SELECT count(*) FROM vectors").fetchone()
    kept = count * (1 - _SPARE) * most_bytes / taken
    connection.execute(_DROP, (int(count - kept) + 1,))
    connection.execute("PRAGMA incremental_vacuum").fetchall()
