"""`index.db`: the only source of truth, and the only commit point. SQLite lives behind this file.

What is not recorded here does not exist: segment folders are registered by the same transaction
that brings their documents, so that a crash at any instant leaves the last generation, whole. What is
said of documents, links and segments stands in `stored_documents.py`, `stored_links.py` and
`stored_segments.py`; the checksums over it in `checksums.py`.
"""

import errno
import json
import os
import re
import shutil
import sqlite3
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from tamis.engine.embedded.arrays import private, sync_folder
from tamis.errors import (
    IndexDamaged,
    IndexForeign,
    IndexLocked,
    IndexMismatch,
    IndexMissing,
    StorageFault,
    disk_fault,
    rebuild_command,
    storage_faults,
)
from tamis.failpoints import reached
from tamis.model import INDEX_FOLDER

Connection = sqlite3.Connection
DatabaseError = sqlite3.DatabaseError

SCHEMA_VERSION: Final = 4
_APPLICATION_ID: Final = 0x74616D73  # "tams"
_BUSY_MS: Final = 5_000  # SQLite's own short waits (a checkpoint); writers queue at our lock before
_SHARED_MEMORY: Final = 65_536  # bytes; what SQLite maps beside a database comes in halves of this
BESIDE: Final = ("-journal", "-wal", "-shm")  # SQLite's files beside a database
OF_DOCUMENTS: Final = ("chunks", "parents", "links", "names")
_FACTS: Final = ("generation", "pending", "built_at", "identity")  # that every index has
_VARIABLES: Final = 900  # below the 999 that old SQLite builds allow in one statement

_SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE segments (
    id INTEGER PRIMARY KEY, folder TEXT NOT NULL UNIQUE, rows INTEGER NOT NULL,
    documents INTEGER NOT NULL, dead BLOB NOT NULL, dimension INTEGER NOT NULL,
    revision INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, segment INTEGER NOT NULL, place INTEGER NOT NULL,
    chunks INTEGER NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, ctime_ns INTEGER NOT NULL,
    inode INTEGER NOT NULL, read_ns INTEGER NOT NULL, hash BLOB NOT NULL, title TEXT NOT NULL,
    author TEXT NOT NULL, category TEXT NOT NULL, modified REAL NOT NULL, tags TEXT NOT NULL,
    aliases TEXT NOT NULL, keywords TEXT NOT NULL, description TEXT NOT NULL, warning TEXT NOT NULL,
    recipe TEXT NOT NULL, sum BLOB NOT NULL DEFAULT x''
);
CREATE INDEX documents_by_segment ON documents (segment, place);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY, document INTEGER NOT NULL, ordinal INTEGER NOT NULL, type TEXT NOT NULL,
    language TEXT, start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, header_path TEXT NOT NULL,
    content TEXT NOT NULL, text_hash BLOB NOT NULL, names TEXT NOT NULL, parent INTEGER
);
CREATE INDEX chunks_by_document ON chunks (document);
CREATE TABLE parents (
    document INTEGER NOT NULL, number INTEGER NOT NULL, header_path TEXT NOT NULL,
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, content TEXT NOT NULL,
    PRIMARY KEY (document, number)
) WITHOUT ROWID;
CREATE TABLE links (
    document INTEGER NOT NULL, ordinal INTEGER, type TEXT NOT NULL, target TEXT NOT NULL,
    anchor TEXT NOT NULL, name TEXT NOT NULL
);
CREATE INDEX links_by_document ON links (document);
CREATE INDEX links_by_name ON links (name);
CREATE TABLE names (
    name TEXT NOT NULL, document INTEGER NOT NULL, PRIMARY KEY (name, document)
) WITHOUT ROWID;
CREATE INDEX names_by_document ON names (document);
CREATE TABLE skipped (path TEXT NOT NULL, reason TEXT NOT NULL, detail TEXT NOT NULL);
"""


def open_writer(directory: Path) -> Connection:
    """A connection that may write; makes the database when there is none. The caller holds the lock."""
    file = directory / "index.db"
    with database_faults(directory):
        if not file.exists():
            _create(file)
        connection = sqlite3.connect(file, isolation_level=None)
        try:
            connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
            _check_version(connection, directory)
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection


def _check_links(directory: Path) -> None:
    """A checkout may bring an index whose links lead to somebody's other one: it is not answered from."""
    places = [directory / name for name in ("index.db", "index.db-wal", "segments", "concepts")]
    places += [directory] if directory.name == INDEX_FOLDER else []
    hint = "remove it, or choose another place with --index-dir or TAMIS_INDEX_DIR"
    for place in places:
        if place.is_symlink():
            raise StorageFault(f"{place} is a link", hint=hint)
    if (directory / "index.db").exists() and not (directory / "index.db").is_file():
        raise StorageFault(f"{directory / 'index.db'} is no file", hint=hint)


def exists(directory: Path) -> bool:
    """Whether there is an index, as far as we may look."""
    with storage_faults(directory):
        return (directory / "index.db").exists()


def missing(directory: Path) -> IndexMissing:
    return IndexMissing(directory.parent if directory.name == INDEX_FOLDER else directory)


def open_reader(directory: Path) -> Connection:
    """A connection that only reads, in any number of processes and threads."""
    if not exists(directory):
        raise missing(directory)
    _check_links(directory)
    try:
        with database_faults(directory):
            return _connected(directory)
    except StorageFault:
        if exists(directory):
            raise
        raise missing(directory) from None  # thrown away since we looked


def _connected(directory: Path) -> Connection:
    connection = sqlite3.connect(
        _read_only(directory), uri=True, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        _check_version(connection, directory)
    except BaseException:
        connection.close()
        raise
    return connection


def _read_only(directory: Path) -> str:
    alone = "&immutable=1" if is_frozen(directory) else ""
    return f"{(directory / 'index.db').absolute().as_uri()}?mode=ro{alone}"


def is_frozen(directory: Path) -> bool:
    """Whether we cannot write there, and nobody was about to: SQLite could not make the files that its
    readers and writers share, and would not open a database that is whole."""
    if os.access(directory, os.W_OK):
        return False
    return not any((directory / f"index.db{end}").exists() for end in BESIDE)


def model_of(directory: Path) -> str:
    """The model an index was made with or waits for, as far as even a damaged one tells."""
    told = facts_of(directory)
    return str(told.get("model", told.get("chosen", "")))


def facts_of(directory: Path) -> dict[str, Any]:
    """What an index says of itself; nothing where there is none, or one that cannot be read."""
    try:
        with closing(sqlite3.connect(_read_only(directory), uri=True)) as connection:
            return facts(connection)
    except (OSError, sqlite3.Error, UnicodeDecodeError):
        return {}


def format_of(directory: Path) -> int:
    """The format that an index says it has; 0 where it cannot be read."""
    try:
        with closing(sqlite3.connect(_read_only(directory), uri=True)) as connection:
            return _version(connection)[1]
    except sqlite3.Error:
        return 0


def flaws(connection: Connection, *, full: bool) -> list[str]:
    """What is wrong with index.db itself; `full` has SQLite compare every index with its table as well."""
    check = "integrity_check" if full else "quick_check"
    told = (" ".join(message.split()) for (message,) in connection.execute(f"PRAGMA {check}(10)"))
    found = [message for message in told if message != "ok"]
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    missing = [name for name in re.findall(r"CREATE \w+ (\w+)", _SCHEMA) if name not in there]
    facts_missing = [] if missing else [name for name in _FACTS if name not in facts(connection)]
    return [*found, *(f"it has no {name}" for name in (*missing, *facts_missing))]


def _create(file: Path) -> None:
    """Make the database aside and give it its name when it is whole: a reader may look at any moment.

    What a database that was here before has left goes first: SQLite would take its log for ours.
    """
    partial = file.with_name("index.db.partial")
    for name in (partial.name, *(f"{name}{end}" for name in (file.name, partial.name) for end in BESIDE)):
        file.with_name(name).unlink(missing_ok=True)
    os.close(
        private(str(partial), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    )  # SQLite gives its logs the same mode
    with closing(sqlite3.connect(partial, isolation_level=None)) as connection:
        with transaction(connection):
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            set_facts(connection, dict(zip(_FACTS, (0, 0, 0.0, uuid.uuid4().hex), strict=True)))
        # Last: the log would have to be emptied on closing, and on a full disk that fails without a word.
        connection.execute("PRAGMA journal_mode = WAL")
    reached("database.made")
    partial.replace(file)
    reached("database.named")
    sync_folder(file.parent)


def _version(connection: Connection) -> tuple[int, int]:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    return application, connection.execute("PRAGMA user_version").fetchone()[0]


def _check_version(connection: Connection, directory: Path) -> None:
    application, version = _version(connection)
    if (application, version) == (0, 0) and not connection.execute("PRAGMA schema_version").fetchone()[0]:
        raise IndexDamaged(directory, "index.db is empty")
    if application != _APPLICATION_ID:
        raise IndexForeign(directory)
    if version > SCHEMA_VERSION:
        raise IndexMismatch(
            f"the index in {directory} was written by a newer tamis "
            f"(format {version}, this one knows {SCHEMA_VERSION})",
            hint=f"upgrade tamis, or write it anew with this version: {rebuild_command(directory)}",
        )
    if version < SCHEMA_VERSION:
        raise IndexMismatch(
            f"the index in {directory} was written by an older tamis "
            f"(format {version}, this one needs {SCHEMA_VERSION})",
            hint=f"run: {rebuild_command(directory)}",
        )


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """All or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # SQLite has rolled back by itself when the disk is full
            connection.execute("ROLLBACK")
        raise
    reached("commit.before")
    connection.execute("COMMIT")
    reached("commit.after")


@contextmanager
def database_faults(directory: Path) -> Iterator[None]:
    """Turn what SQLite says into our own faults."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise IndexLocked(directory, "another process", _BUSY_MS / 1000) from error
        if code == sqlite3.SQLITE_FULL:
            raise disk_fault(directory, errno.ENOSPC) from error
        if code == sqlite3.SQLITE_IOERR and error.sqlite_errorcode != sqlite3.SQLITE_IOERR_SHORT_READ:
            # SQLite does not say what the disk said; for the memory it shares, not even that it is full.
            full = shutil.disk_usage(directory).free < _SHARED_MEMORY
            raise disk_fault(directory, errno.ENOSPC if full else errno.EIO) from error
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            raise StorageFault(
                f"cannot open the index in {directory}: {error}",
                hint="check its permissions, or choose another place with --index-dir",
            ) from error
        raise IndexDamaged(directory, str(error)) from error
    except UnicodeDecodeError as error:  # of what SQLite says, too: it quotes what it found
        raise IndexDamaged(directory, "index.db holds text that is none") from error


def facts(connection: Connection) -> dict[str, Any]:
    return dict(connection.execute("SELECT name, value FROM facts"))


def set_facts(connection: Connection, values: Mapping[str, Any]) -> None:
    connection.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", list(values.items()))


def generation(connection: Connection) -> int:
    value: int = connection.execute("SELECT value FROM facts WHERE name = 'generation'").fetchone()[0]
    return value


def clear(connection: Connection) -> None:
    for table in (*OF_DOCUMENTS, "documents", "segments", "skipped"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("DELETE FROM facts WHERE name IN ('model', 'fingerprint', 'dimension', 'root')")


def select(connection: Connection, what: str, column: str, values: Sequence[Any]) -> Iterator[Any]:
    """The rows whose column has one of these values, however many there are."""
    for some in portions(values):
        yield from connection.execute(f"SELECT {what} WHERE {column} IN ({marks(some)})", some)


def marks(values: Sequence[Any]) -> str:
    """A question mark for each value."""
    return ", ".join("?" * len(values))


def portions(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """As many values at a time as a statement takes."""
    for start in range(0, len(values), _VARIABLES):
        yield values[start : start + _VARIABLES]


def texts_of(stored: str) -> tuple[str, ...]:
    """A list of texts as it is kept in a column; most are empty."""
    return tuple(json.loads(stored)) if stored else ()


def stored_texts(texts: Sequence[str]) -> str:
    return json.dumps(texts) if texts else ""
