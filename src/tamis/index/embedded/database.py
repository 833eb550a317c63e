"""`index.db`: the only source of truth, and the only commit point. SQLite lives behind this file.

What is not recorded here does not exist: segment folders are registered by the transaction that
brings their documents, so a crash at any moment leaves the last generation complete.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import sqlite3
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

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
from tamis.index.embedded.arrays import private, sync_folder
from tamis.model import (
    INDEX_FOLDER,
    Chunk,
    Document,
    Facts,
    FileState,
    FrontMatter,
    Link,
    Parent,
    Passage,
    Skipped,
    Stamps,
)

Connection = sqlite3.Connection
DatabaseError = sqlite3.DatabaseError

SCHEMA_VERSION: Final = 4
_APPLICATION_ID: Final = 0x74616D73  # "tams"
_BUSY_MS: Final = (
    5_000  # SQLite's own short waits (a checkpoint); writers queue at our lock before
)
_SHARED_MEMORY: Final = (
    65_536  # bytes; what SQLite maps beside a database comes in halves of this
)
BESIDE: Final = ("-journal", "-wal", "-shm")  # SQLite's files beside a database
OF_DOCUMENTS: Final = ("chunks", "parents", "links", "names")
_FACTS: Final = (
    "generation",
    "pending",
    "built_at",
    "identity",
)  # that every index has
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
    """Open a connection that may write; create the database if needed. The caller holds the lock."""
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
    """Refuse an index with links: a checkout may bring one that leads to another index."""
    places = [
        directory / name
        for name in ("index.db", "index.db-wal", "segments", "concepts")
    ]
    places += [directory] if directory.name == INDEX_FOLDER else []
    hint = "remove it, or choose another place with --index-dir or TAMIS_INDEX_DIR"
    for place in places:
        if place.is_symlink():
            raise StorageFault(f"{place} is a link", hint=hint)
    if (directory / "index.db").exists() and not (directory / "index.db").is_file():
        raise StorageFault(f"{directory / 'index.db'} is no file", hint=hint)


def exists(directory: Path) -> bool:
    """Return True if there is an index, as far as permissions let us see."""
    with storage_faults(directory):
        return (directory / "index.db").exists()


def missing(directory: Path) -> IndexMissing:
    return IndexMissing(
        directory.parent if directory.name == INDEX_FOLDER else directory
    )


def open_reader(directory: Path) -> Connection:
    """Open a connection that only reads; any number of processes and threads may."""
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
    """Return True if the folder is read-only and no writer was at work in it.

    SQLite could not create the files that its readers and writers share there, and would refuse to
    open a complete database.
    """
    if os.access(directory, os.W_OK):
        return False
    return not any((directory / f"index.db{end}").exists() for end in BESIDE)


def model_of(directory: Path) -> str:
    """The model an index was made or begun with, as far as even a damaged one can be read."""
    told = facts_of(directory)
    return str(told.get("model", told.get("chosen", "")))


def facts_of(directory: Path) -> dict[str, Any]:
    """The facts of an index; empty if there is none, or one that cannot be read."""
    try:
        with closing(sqlite3.connect(_read_only(directory), uri=True)) as connection:
            return facts(connection)
    except (OSError, sqlite3.Error, UnicodeDecodeError):
        return {}


def format_of(directory: Path) -> int:
    """The format of an index; 0 if it cannot be read."""
    try:
        with closing(sqlite3.connect(_read_only(directory), uri=True)) as connection:
            return _version(connection)[1]
    except sqlite3.Error:
        return 0


def flaws(connection: Connection, *, full: bool) -> list[str]:
    """Damage of index.db itself; `full` also lets SQLite compare every index with its table."""
    check = "integrity_check" if full else "quick_check"
    found = []
    for (message,) in connection.execute(f"PRAGMA {check}(10)"):
        if message != "ok":
            found.append(" ".join(message.split()))
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    wanted = re.findall(r"CREATE \w+ (\w+)", _SCHEMA)
    missing = [name for name in wanted if name not in there]
    if not missing:
        known = facts(connection)
        missing = [name for name in _FACTS if name not in known]
    return [*found, *(f"it has no {name}" for name in missing)]


def _create(file: Path) -> None:
    """Make the database aside and give it its name when it is whole: a reader may look at any moment.

    What a database that was here before has left goes first: SQLite would take its log for ours.
    """
    partial = file.with_name("index.db.partial")
    for name in (
        partial.name,
        *(f"{name}{end}" for name in (file.name, partial.name) for end in BESIDE),
    ):
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
            set_facts(
                connection,
                dict(zip(_FACTS, (0, 0, 0.0, uuid.uuid4().hex), strict=True)),
            )
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
    if (application, version) == (0, 0) and not connection.execute(
        "PRAGMA schema_version"
    ).fetchone()[0]:
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
    """Commit the block as a whole, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        if (
            connection.in_transaction
        ):  # SQLite has rolled back by itself when the disk is full
            connection.execute("ROLLBACK")
        raise
    reached("commit.before")
    connection.execute("COMMIT")
    reached("commit.after")


@contextmanager
def database_faults(directory: Path) -> Iterator[None]:
    """Turn SQLite's errors into our own."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise IndexLocked(directory, "another process", _BUSY_MS / 1000) from error
        if code == sqlite3.SQLITE_FULL:
            raise disk_fault(directory, errno.ENOSPC) from error
        if (
            code == sqlite3.SQLITE_IOERR
            and error.sqlite_errorcode != sqlite3.SQLITE_IOERR_SHORT_READ
        ):
            # SQLite does not say what the disk said; for the memory it shares, not even that it is full.
            full = shutil.disk_usage(directory).free < _SHARED_MEMORY
            raise disk_fault(directory, errno.ENOSPC if full else errno.EIO) from error
        if code in (
            sqlite3.SQLITE_READONLY,
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_PERM,
        ):
            raise StorageFault(
                f"cannot open the index in {directory}: {error}",
                hint="check its permissions, or choose another place with --index-dir",
            ) from error
        raise IndexDamaged(directory, str(error)) from error
    except (
        UnicodeDecodeError
    ) as error:  # of what SQLite says, too: it quotes what it found
        raise IndexDamaged(directory, "index.db holds text that is none") from error


def facts(connection: Connection) -> dict[str, Any]:
    return dict(connection.execute("SELECT name, value FROM facts"))


def set_facts(connection: Connection, values: Mapping[str, Any]) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO facts VALUES (?, ?)", list(values.items())
    )


def generation(connection: Connection) -> int:
    value: int = connection.execute(
        "SELECT value FROM facts WHERE name = 'generation'"
    ).fetchone()[0]
    return value


def clear(connection: Connection) -> None:
    for table in (*OF_DOCUMENTS, "documents", "segments", "skipped"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute(
        "DELETE FROM facts WHERE name IN ('model', 'fingerprint', 'dimension', 'root')"
    )


def select(
    connection: Connection, what: str, column: str, values: Sequence[Any]
) -> Iterator[Any]:
    """Yield the rows whose column has one of these values, however many there are."""
    for some in portions(values):
        yield from connection.execute(
            f"SELECT {what} WHERE {column} IN ({marks(some)})", some
        )


def marks(values: Sequence[Any]) -> str:
    """A question mark for each value."""
    return ", ".join("?" * len(values))


def portions(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Cut values into portions that one statement takes."""
    for start in range(0, len(values), _VARIABLES):
        yield values[start : start + _VARIABLES]


def texts_of(stored: str) -> tuple[str, ...]:
    """Read a list of texts from a column; most are empty."""
    return tuple(json.loads(stored)) if stored else ()


def stored_texts(texts: Sequence[str]) -> str:
    return json.dumps(texts) if texts else ""


def count(connection: Connection) -> tuple[int, int]:
    """Documents that have text, and chunks."""
    counted = connection.execute(
        "SELECT count(*), total(chunks) FROM documents WHERE chunks > 0"
    ).fetchone()
    return counted[0], int(counted[1])


def file_states(connection: Connection) -> dict[str, FileState]:
    columns = "path, size, mtime_ns, ctime_ns, inode, read_ns, hash, recipe"
    rows = connection.execute(f"SELECT {columns} FROM documents")
    return {row[0]: FileState._make(row[1:]) for row in rows}


def stamps(connection: Connection, recipe: str) -> dict[str, Stamps]:
    """Times and sizes by path, as far as a walk compares them."""
    columns = "path, size, mtime_ns, ctime_ns, inode, CASE WHEN recipe = ? THEN read_ns ELSE 0 END"
    return {
        row[0]: row
        for row in connection.execute(f"SELECT {columns} FROM documents", [recipe])
    }


def warnings(connection: Connection) -> dict[str, str]:
    """Warnings about reading documents, by path."""
    return dict(
        connection.execute(
            "SELECT path, warning FROM documents WHERE warning != '' ORDER BY path"
        )
    )


def passages(connection: Connection, keys: Sequence[int]) -> dict[int, Passage]:
    found: dict[int, Passage] = {}
    for some in portions(keys):
        rows = connection.execute(
            f"""SELECT c.id, d.tags, d.path, c.ordinal, c.content, c.text_hash, c.header_path, c.start_line,
                       c.end_line, c.type, c.language, d.modified, c.names, c.parent, d.title
                FROM chunks c JOIN documents d ON d.id = c.document WHERE c.id IN ({marks(some)})""",
            some,
        )
        for key, tags, *columns, names, parent, title in rows:
            found[key] = Passage(
                *columns, *[texts_of(tags), texts_of(names), parent, title]
            )
    return found


def contents(connection: Connection, keys: Sequence[int]) -> dict[int, str]:
    """The texts of chunks, alone."""
    return dict(select(connection, "c.id, c.content FROM chunks c", "c.id", keys))


def texts_to_embed(
    connection: Connection, paths: Sequence[str]
) -> dict[str, list[tuple[str, str, str]]]:
    """Title, headings and text of each passage of documents, in order, by path."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    columns = "d.path, c.ordinal, d.title, c.header_path, c.content"
    tables = f"{columns} FROM chunks c JOIN documents d ON d.id = c.document"
    for path, _, *texts in sorted(select(connection, tables, "d.path", paths)):
        found.setdefault(path, []).append((texts[0], texts[1], texts[2]))
    return found


def parents(
    connection: Connection, wanted: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], Parent]:
    found: dict[tuple[str, int], Parent] = {}
    for path, number in wanted:
        row = connection.execute(
            "SELECT p.content, p.header_path, p.start_line, p.end_line FROM parents p"
            " JOIN documents d ON d.id = p.document WHERE d.path = ? AND p.number = ?",
            (path, number),
        ).fetchone()
        if row:
            found[path, number] = Parent(*row)
    return found


_FRONT: Final = (
    "d.path, d.title, d.author, d.category, d.modified, d.tags, d.aliases, d.keywords,"
    " d.description"
)
_CHUNK: Final = (
    "c.ordinal, c.content, c.header_path, c.start_line, c.end_line, c.type, c.language,"
    " c.names, c.parent"
)


def as_written(
    connection: Connection, keys: Sequence[int]
) -> dict[int, tuple[Document, Chunk]]:
    """Passages as they were written, each with the part of its document that its row knows."""
    columns = f"c.id, {_FRONT}, {_CHUNK}"
    tables = f"{columns} FROM chunks c JOIN documents d ON d.id = c.document"
    found = {}
    for key, *row in select(connection, tables, "c.id", keys):
        found[key] = (_document_of(row[:9]), _chunk_of(row[9:]))
    return found


def document_as_written(connection: Connection, path: str) -> Document:
    """A document with all its passages, links and sections, as far as it is stored."""
    key, *front = connection.execute(
        f"SELECT d.id, {_FRONT} FROM documents d WHERE d.path = ?", (path,)
    ).fetchone()
    chunks = connection.execute(
        f"SELECT {_CHUNK} FROM chunks c WHERE c.document = ? ORDER BY c.ordinal",
        (key,),
    )
    sections = connection.execute(
        "SELECT content, header_path, start_line, end_line FROM parents"
        " WHERE document = ? ORDER BY number",
        (key,),
    )
    return replace(
        _document_of(front),
        chunks=tuple(_chunk_of(row) for row in chunks),
        links=tuple(link for _, link, _ in links_from(connection, [key])),
        parents=tuple(Parent(*section) for section in sections),
    )


def _document_of(row: Sequence[Any]) -> Document:
    path, title, author, category, modified, tags, aliases, keywords, description = row
    front = FrontMatter(
        description=description,
        keywords=texts_of(keywords),
        tags=texts_of(tags),
        aliases=texts_of(aliases),
        author=author,
        category=category,
    )
    return Document(path, title, front, modified, ())


def _chunk_of(row: Sequence[Any]) -> Chunk:
    *columns, names, parent = row
    return Chunk(*columns, *[texts_of(names), parent])


def next_chunk(connection: Connection) -> int:
    return int(
        connection.execute("SELECT coalesce(max(id), 0) + 1 FROM chunks").fetchone()[0]
    )


def add_document(connection: Connection, columns: Mapping[str, Any]) -> int:
    """Insert a document; returns its key."""
    names, values = ", ".join(columns), list(columns.values())
    made = connection.execute(
        f"INSERT INTO documents ({names}) VALUES ({marks(values)})", values
    )
    return int(made.lastrowid or 0)


def add_chunks(
    connection: Connection, document: int, chunks: Iterable[tuple[int, Chunk, bytes]]
) -> None:
    connection.executemany(
        "INSERT INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                key, document, chunk.ordinal, chunk.chunk_type, chunk.language, chunk.start_line,
                chunk.end_line, chunk.header_path, chunk.content, text_hash, stored_texts(chunk.names),
                chunk.parent,
            )
            for key, chunk, text_hash in chunks
        ),
    )  # fmt: skip


def add_parents(
    connection: Connection, document: int, parents: Iterable[Parent]
) -> None:
    connection.executemany(
        "INSERT INTO parents VALUES (?, ?, ?, ?, ?, ?)",
        (
            (
                document,
                number,
                parent.header_path,
                parent.start_line,
                parent.end_line,
                parent.content,
            )
            for number, parent in enumerate(parents)
        ),
    )


def update_state(
    connection: Connection, path: str, state: FileState, modified: float
) -> bool:
    """Record new times of an unchanged file; return True if the date that filters see moved."""
    segment, before = connection.execute(
        "SELECT segment, modified FROM documents WHERE path = ?", (path,)
    ).fetchone()
    connection.execute(
        "UPDATE documents SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, read_ns = ?, modified = ?"
        " WHERE path = ?",
        (
            state.size,
            state.mtime_ns,
            state.ctime_ns,
            state.inode,
            state.read_ns,
            modified,
            path,
        ),
    )
    if modified != before:
        connection.execute(
            "UPDATE segments SET revision = revision + 1 WHERE id = ?", (segment,)
        )
    return bool(modified != before)


def remove_documents(
    connection: Connection, paths: Sequence[str]
) -> list[tuple[int, int]]:
    """Delete documents with their chunks; returns the (segment, place) of each, to be marked dead."""
    places: list[tuple[int, int]] = []
    for some in portions(paths):
        rows = connection.execute(
            f"SELECT id, segment, place FROM documents WHERE path IN ({marks(some)})",
            some,
        ).fetchall()
        ids = [row[0] for row in rows]
        for table in OF_DOCUMENTS:
            connection.execute(
                f"DELETE FROM {table} WHERE document IN ({marks(ids)})", ids
            )
        connection.execute(f"DELETE FROM documents WHERE id IN ({marks(ids)})", ids)
        places += [(segment, place) for _, segment, place in rows]
    return places


def remove_orphans(connection: Connection) -> None:
    """Delete what belongs to documents that are not there."""
    for table in OF_DOCUMENTS:
        connection.execute(
            f"DELETE FROM {table} WHERE document NOT IN (SELECT id FROM documents)"
        )


def replace_skipped(connection: Connection, skipped: Iterable[Skipped]) -> None:
    connection.execute("DELETE FROM skipped")
    connection.executemany(
        "INSERT INTO skipped VALUES (?, ?, ?)",
        ((item.path, item.reason, item.detail) for item in skipped),
    )


def skipped(connection: Connection) -> tuple[Skipped, ...]:
    rows = connection.execute("SELECT path, reason, detail FROM skipped ORDER BY path")
    return tuple(Skipped(*row) for row in rows)


_DOCUMENT: Final = "d.id, d.path, d.segment, d.place, d.aliases"
_LINK: Final = "l.type, l.target, l.anchor, l.ordinal, l.name"


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """The place of a document's rows, and its other names."""

    id: int
    path: str
    segment: int
    place: int
    aliases: tuple[str, ...]


StoredLink = tuple[DocumentRecord, Link, str]  # with the name that it looks for


def add_links(
    connection: Connection, document: int, links: Iterable[tuple[Link, str]]
) -> None:
    """Insert links, each with the name that it looks for."""
    connection.executemany(
        "INSERT INTO links VALUES (?, ?, ?, ?, ?, ?)",
        (
            (document, link.ordinal, link.type, link.target, link.anchor, name)
            for link, name in links
        ),
    )


def add_names(connection: Connection, document: int, names: Iterable[str]) -> None:
    connection.executemany(
        "INSERT INTO names VALUES (?, ?)", ((name, document) for name in names)
    )


class StoredLinks:
    """The documents and links of index.db as the links lane asks for them (`tamis.index.links`)."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def documents_at(self, paths: Sequence[str]) -> list[DocumentRecord]:
        return documents_at(self.connection, paths)

    def documents_named(self, names: Sequence[str]) -> list[DocumentRecord]:
        """Documents that have one of these names, once for each that they have."""
        tables = f"{_DOCUMENT} FROM names n JOIN documents d ON d.id = n.document"
        rows = select(self.connection, tables, "n.name", names)
        return [_document(row) for row in rows]

    def names(self, documents: Sequence[DocumentRecord]) -> list[str]:
        keys = [document.id for document in documents]
        rows = names_by_document(self.connection, keys)
        return sorted({name for _, name in rows})

    def links_from(self, documents: Sequence[DocumentRecord]) -> list[StoredLink]:
        return links_from(self.connection, [document.id for document in documents])

    def links_to(self, names: Sequence[str]) -> list[StoredLink]:
        """Links that look for one of these names."""
        return _links(self.connection, "l.name", names)


def documents_at(connection: Connection, paths: Sequence[str]) -> list[DocumentRecord]:
    rows = select(connection, f"{_DOCUMENT} FROM documents d", "d.path", paths)
    return [_document(row) for row in rows]


def names_by_document(
    connection: Connection, documents: Sequence[int]
) -> Iterator[tuple[int, str]]:
    tables = "n.document, n.name FROM names n"
    return select(connection, tables, "n.document", documents)


def links_from(connection: Connection, documents: Sequence[int]) -> list[StoredLink]:
    """The links of documents, each with the name that it looks for."""
    return _links(connection, "l.document", documents)


def _links(
    connection: Connection, column: str, values: Sequence[Any]
) -> list[StoredLink]:
    tables = f"{_LINK}, {_DOCUMENT} FROM links l JOIN documents d ON d.id = l.document"
    found = []
    for row in select(connection, tables, column, values):
        *link, name = row[:5]
        found.append((_document(row[5:]), Link(*link), name))
    return found


def _document(row: Sequence[Any]) -> DocumentRecord:
    key, path, segment, place, aliases = row
    return DocumentRecord(key, path, segment, place, texts_of(aliases))


_FOLDER: Final = re.compile(r"[0-9a-f]{32}")
_WITHOUT_VECTORS: Final = "FROM documents d JOIN segments s ON s.id = d.segment WHERE s.dimension = 0 AND d.chunks > 0"
_PLACE: Final = "path, id, segment, place FROM documents"


@dataclass(frozen=True, slots=True)
class SegmentRecord:
    id: int
    folder: str
    rows: int
    documents: int
    dead: bytes  # a bit for each document of the segment that is gone
    dimension: int = 0  # of its vectors; 0 for one that has none, or none yet
    revision: int = 0  # counts changes to what filters ask of its documents


def segments(connection: Connection) -> list[SegmentRecord]:
    rows = connection.execute(
        "SELECT id, folder, rows, documents, dead, dimension, revision FROM segments ORDER BY id"
    )
    records = [SegmentRecord(*row) for row in rows]
    if not all(_FOLDER.fullmatch(record.folder) for record in records):
        # Folders are removed by these names: an index.db from a stranger must not lead anywhere else.
        raise DatabaseError("a segment has an impossible name")
    return records


def folders(directory: Path) -> set[str]:
    """The folders of the segments that the newest generation has."""
    with closing(open_reader(directory)) as connection, database_faults(directory):
        return {record.folder for record in segments(connection)}


def add_segment(
    connection: Connection,
    folder: str,
    rows: int,
    documents: int,
    dead: bytes,
    dimension: int,
) -> int:
    made = connection.execute(
        "INSERT INTO segments (folder, rows, documents, dead, dimension) VALUES (?, ?, ?, ?, ?)",
        (folder, rows, documents, dead, dimension),
    )
    return int(made.lastrowid or 0)


def set_dead(connection: Connection, segment: int, dead: bytes) -> None:
    connection.execute("UPDATE segments SET dead = ? WHERE id = ?", (dead, segment))


def drop_segments(connection: Connection, ids: Sequence[int]) -> None:
    connection.execute(f"DELETE FROM segments WHERE id IN ({marks(ids)})", ids)


def segment_facts(connection: Connection, segment: int) -> dict[int, Facts]:
    """Facts of a segment's living documents, by their place in it."""
    rows = connection.execute(
        "SELECT place, path, tags, author, category, modified FROM documents WHERE segment = ?",
        (segment,),
    )
    return {
        place: Facts(path, frozenset(texts_of(tags)), author, category, modified)
        for place, path, tags, author, category, modified in rows
    }


def segment_paths(
    connection: Connection, ids: Sequence[int]
) -> list[tuple[str, int, int, int]]:
    """Path, key, segment and place of the living documents of some segments."""
    return list(select(connection, _PLACE, "segment", ids))


def document_places(
    connection: Connection, paths: Sequence[str]
) -> list[tuple[str, int, int, int]]:
    """The same of some documents."""
    return list(select(connection, _PLACE, "path", paths))


def move_documents(
    connection: Connection, moves: Iterable[tuple[int, int, int]]
) -> None:
    """Give documents their new (segment, place); the last of each triple is the document's key."""
    connection.executemany(
        "UPDATE documents SET segment = ?, place = ? WHERE id = ?", moves
    )


def pending_chunks(connection: Connection, facts: Mapping[str, Any]) -> int:
    """The number of passages without a vector; 0 for an index whose model makes none."""
    if "model" in facts and not facts.get("dimension"):
        return 0
    row = connection.execute(f"SELECT total(d.chunks) {_WITHOUT_VECTORS}").fetchone()
    return int(row[0])


def pending_documents(connection: Connection) -> list[tuple[str, int, float, int]]:
    """The documents without vectors: path, chunks, date, and how many links look for a name of theirs.

    Links are counted by name and not resolved: this only decides who is embedded first.
    """
    rows = connection.execute(
        f"SELECT d.id, d.path, d.chunks, d.modified {_WITHOUT_VECTORS}"
    ).fetchall()
    wanted = dict(connection.execute("SELECT name, count(*) FROM links GROUP BY name"))
    linked: dict[int, int] = {}
    for name, document in connection.execute("SELECT name, document FROM names"):
        if name in wanted:
            linked[document] = linked.get(document, 0) + wanted[name]
    return [
        (path, chunks, modified, linked.get(key, 0))
        for key, path, chunks, modified in rows
    ]


# What it covers: all but where a document's rows are, which others know too.
_SUMMED: Final = (
    "d.id, d.path, d.chunks, d.size, d.mtime_ns, d.ctime_ns, d.inode, d.read_ns, d.hash, d.title, d.author,"
    " d.category, d.modified, d.tags, d.aliases, d.keywords, d.description, d.warning, d.recipe"
    " FROM documents d WHERE d.id",
    "c.document, c.ordinal, c.type, c.language, c.start_line, c.end_line, c.header_path, c.content,"
    " c.text_hash, c.names, c.parent FROM chunks c WHERE c.document",
    "p.document, p.number, p.header_path, p.start_line, p.end_line, p.content FROM parents p"
    " WHERE p.document",
    "l.document, l.ordinal, l.type, l.target, l.anchor, l.name FROM links l WHERE l.document",
    "n.document, n.name FROM names n WHERE n.document",
)


def sums(connection: Connection, documents: Sequence[int]) -> dict[int, bytes]:
    """The checksums that documents should have, by key. Reads bytes: damaged texts may not decode."""
    rows: dict[int, list[bytes]] = {key: [] for key in documents}
    connection.text_factory = bytes
    try:
        for number, table in enumerate(_SUMMED):
            for some in portions(documents):
                for key, *values in connection.execute(
                    f"SELECT {table} IN ({marks(some)})", some
                ):
                    rows[key].append(repr((number, values)).encode())
    finally:
        connection.text_factory = str
    return {
        key: hashlib.blake2b(b"".join(sorted(own)), digest_size=16).digest()
        for key, own in rows.items()
    }


def stored_sums(connection: Connection, documents: Sequence[int]) -> dict[int, bytes]:
    return dict(select(connection, "d.id, d.sum FROM documents d", "d.id", documents))


def set_sums(connection: Connection, documents: Sequence[int]) -> None:
    rows = ((own, key) for key, own in sums(connection, documents).items())
    connection.executemany("UPDATE documents SET sum = ? WHERE id = ?", rows)
