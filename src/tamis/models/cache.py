"""Vectors of texts that were embedded before, for every root of this user: no text is embedded twice.

A vector depends on the model's fingerprint and the text alone, so that is what it is kept by, bit for bit;
a copied folder, a branch that comes back, a rebuild cost no embedding. The file is private, bounded (the
vectors that were not used for the longest time go first), and never a reason to fail: what it cannot
give is computed, and what is wrong with it is said once, with the report of the run.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np

from tamis.failpoints import reached
from tamis.models.embedders import Embedder, Vectors

_FILE: Final = "vectors.db"
_BESIDE: Final = ("", "-wal", "-shm", "-journal")
_BUSY_MS: Final = (
    1_000  # then it is computed: waiting for another process may take longer than that
)
_PAGE: Final = 16_384  # bytes: a vector takes 1,536 with most models, and two to a page would waste a quarter
_SPARE: Final = (
    0.1  # of the vectors go at once when there are too many, so that it is seldom
)
_DAY: Final = 86_400
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL, used INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS vectors_by_use ON vectors (used);
"""


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The user's own; what a checkout configures cannot move it."""
    home = environment.get("XDG_CACHE_HOME") or os.path.join(
        os.path.expanduser("~"), ".cache"
    )
    return Path(home) / "tamis"


class VectorCache:
    """Safe to use from several threads and processes."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        """Opens nothing yet."""
        self.folder = folder
        self.fault = ""  # why nothing is kept, once that is known
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def find(self, keys: Sequence[bytes], dimension: int) -> dict[bytes, Vectors]:
        """The vectors that are known."""
        found: dict[bytes, Vectors] = {}

        def look(connection: sqlite3.Connection) -> None:
            marks = ", ".join("?" * len(keys))
            rows = connection.execute(
                f"SELECT key, vector, used FROM vectors WHERE key IN ({marks})", keys
            )
            known = [
                (key, vector, used)
                for key, vector, used in rows
                if len(vector) == 4 * dimension
            ]
            found.update(
                (key, np.frombuffer(vector, np.float32)) for key, vector, _ in known
            )
            old = [(today(), key) for key, _, used in known if used < today()]
            connection.executemany("UPDATE vectors SET used = ? WHERE key = ?", old)

        self._use(look)
        return found

    def keep(self, vectors: Mapping[bytes, Vectors]) -> None:
        rows = [(key, vector.tobytes(), today()) for key, vector in vectors.items()]

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows
            )
            _drop_oldest(connection, self._most_bytes)

        if rows:
            self._use(write)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _use(self, work: Callable[[sqlite3.Connection], None]) -> None:
        with self._lock:
            if self.fault:
                return
            try:
                self._connection = self._connection or self._open()
                with _transaction(self._connection):
                    work(self._connection)
            except (sqlite3.Error, OSError) as error:
                self._give_up(error)

    def _open(self) -> sqlite3.Connection:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self.folder / _FILE
        os.close(
            os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        )
        connection = sqlite3.connect(
            file, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def _give_up(self, error: sqlite3.Error | OSError) -> None:
        """A file that is no database is thrown away; anything else is left, and not tried again."""
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return  # another process writes: this once, nothing is kept
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self.fault = f"vectors are not kept in {self.folder}: {error}"
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            for end in _BESIDE:
                (self.folder / f"{_FILE}{end}").unlink(missing_ok=True)


class CachedEmbedder:
    """An embedder that asks the cache first. The vectors are the same, to the last bit.

    Texts are embedded one at a time, on threads of its own, and the thread that made a vector keeps it before
    it begins the next: whatever ends a run, and however, the next run embeds none of them again. Keeping one
    takes a third of a millisecond, making it some fifty.

    With `afresh`, it does not ask, and what it makes takes the place of what is there.
    """

    def __init__(
        self,
        embedder: Embedder,
        cache: VectorCache,
        threads: int = 1,
        *,
        afresh: bool = False,
    ) -> None:
        self.embedder = embedder
        self.cache = cache
        self.threads = threads
        self._afresh = afresh
        self.name, self.fingerprint = embedder.name, embedder.fingerprint
        self.dimension, self.related = embedder.dimension, embedder.related

    def embed_query(self, text: str) -> Vectors:
        return self.embedder.embed_query(text)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return self.embedder.embed_passages(texts)
        keys = [key_of(self.fingerprint, text) for text in texts]
        known = (
            {}
            if self._afresh
            else self.cache.find(list(dict.fromkeys(keys)), self.dimension)
        )
        new = {
            key: text for key, text in zip(keys, texts, strict=True) if key not in known
        }
        if len(new) < 2 or self.threads == 1:
            known |= map(self._made, new.items())
        else:
            with ThreadPoolExecutor(self.threads, "embed") as pool:
                known |= pool.map(self._made, new.items())
        return np.stack([known[key] for key in keys])

    def _made(self, text: tuple[bytes, str]) -> tuple[bytes, Vectors]:
        vector = self.embedder.embed_passages([text[1]])[0]
        reached("cache.made")
        self.cache.keep({text[0]: vector})
        reached("cache.kept")
        return text[0], vector


def key_of(fingerprint: str, text: str) -> bytes:
    digest = blake2b(fingerprint.encode(), digest_size=16)
    digest.update(b"\0")
    digest.update(text.encode("utf-8", "surrogatepass"))
    return digest.digest()


def today() -> int:
    return int(time.time()) // _DAY


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _drop_oldest(connection: sqlite3.Connection, most_bytes: int) -> None:
    """Keep the file below what it may take. What is free in it by then is used again."""
    pages, free, size = (
        _pragma(connection, name)
        for name in ("page_count", "freelist_count", "page_size")
    )
    taken = (pages - free) * size
    if taken > most_bytes:
        count = connection.execute("SELECT count(*) FROM vectors").fetchone()[0]
        excess = int(count * (1 - (1 - _SPARE) * most_bytes / taken)) + 1
        connection.execute(
            "DELETE FROM vectors WHERE key IN (SELECT key FROM vectors ORDER BY used, rowid LIMIT ?)",
            (excess,),
        )
        connection.execute("PRAGMA incremental_vacuum").fetchall()


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
