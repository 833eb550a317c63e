"""`index.db`: the only source of truth, and the only commit point. SQLite is used through this file.

A segment exists if it is recorded here: the transaction that adds documents registers their segment,
so a crash at any moment leaves the last generation complete.
"""

import errno
import hashlib
import json
import os
import re
import shutil
import sqlite3
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

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
from tamis.index.protocol import IndexFacts, Paths, Prepared
from tamis.model import (
    INDEX_FOLDER,
    Chunk,
    Document,
    FileState,
    FrontMatter,
    Link,
    Parent,
    Skipped,
    Stamps,
)
from tamis.text.linking import key_of, names_of
from tamis.text.words import storable, text_hash

Connection = sqlite3.Connection
DatabaseError = sqlite3.DatabaseError
Values = Sequence[Any]  # of a row, or of a column

SCHEMA_VERSION = 4
_APPLICATION_ID = 0x74616D73  # "tams"
_BUSY_MS = (
    5_000  # SQLite's own short waits (a checkpoint); writers queue at our lock before
)
_SHARED_MEMORY = (
    65_536  # bytes; what SQLite maps beside a database comes in halves of this
)
BESIDE = ("-journal", "-wal", "-shm")  # SQLite's files beside a database
# The columns of a document that come from its text, in the order that the checksums have. Each is
# named like its field: `_OWN` are fields of the document, the others of its front matter. One more
# belongs into `_SCHEMA` too, and makes a new `SCHEMA_VERSION`.
WRITTEN = (
    "title",
    "author",
    "category",
    "modified",
    "tags",
    "aliases",
    "keywords",
    "description",
    "warning",
)
_OWN = ("title", "modified", "warning")
_LISTS = ("tags", "aliases", "keywords")
OF_DOCUMENTS = ("chunks", "parents", "links", "names")
# The facts that every index has.
_FACTS = {
    "generation": 0,
    "pending": 0,
    "built_at": 0.0,
    "identity": "",
}
_VARIABLES = 900  # below the 999 that old SQLite builds allow in one statement

_SCHEMA = """
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


# --- Connections and transactions ---------------------------------------------


def open_writer(directory: Path) -> Connection:
    """Open a connection that may write; create the database if needed. The caller holds the lock."""
    file = directory / "index.db"
    if not file.exists():
        _create(file)
    return _connect(directory, f"{file.absolute().as_uri()}?mode=rw")


def open_reader(directory: Path) -> Connection:
    """Open a connection that only reads. Any number of processes and threads may have one."""
    if not exists(directory):
        raise missing(directory)
    _check_links(directory)
    try:
        with database_faults(directory):
            return _connect(directory, _read_only(directory))
    except StorageFault:
        if exists(directory):
            raise
        raise missing(directory) from None  # removed since we looked


def exists(directory: Path) -> bool:
    """Return True if there is an index, as far as permissions let us see."""
    with storage_faults(directory):
        return (directory / "index.db").exists()


def missing(directory: Path) -> IndexMissing:
    root = directory
    if directory.name == INDEX_FOLDER:
        root = directory.parent
    return IndexMissing(root)


def is_frozen(directory: Path) -> bool:
    """Return True if the folder is read-only and no writer was at work in it.

    SQLite could not create the files that its readers and writers share there, and would refuse to
    open a complete database.
    """
    if os.access(directory, os.W_OK):
        return False
    return not any((directory / f"index.db{end}").exists() for end in BESIDE)


def facts_of(directory: Path) -> dict[str, Any]:
    """Return the facts of an index; none if there is no index or it cannot be read."""
    try:
        with closing(sqlite3.connect(_read_only(directory), uri=True)) as connection:
            return facts(connection)
    except (OSError, sqlite3.Error, UnicodeDecodeError):
        return {}


def format_of(directory: Path) -> int:
    """Return the format of an index; 0 if it cannot be read."""
    try:
        with closing(sqlite3.connect(_read_only(directory), uri=True)) as connection:
            return _version(connection)[1]
    except sqlite3.Error:
        return 0


def _read_only(directory: Path) -> str:
    """Return the SQLite address of index.db for readers."""
    file = directory / "index.db"
    address = f"{file.absolute().as_uri()}?mode=ro"
    if is_frozen(directory):
        address += "&immutable=1"
    return address


def _connect(directory: Path, address: str) -> Connection:
    """Connect to index.db by a SQLite address, and check its format."""
    connection = sqlite3.connect(
        address, uri=True, isolation_level=None, check_same_thread=False
    )
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
    database = directory / "index.db"
    places = [database]
    for name in ("index.db-wal", "segments", "concepts"):
        places.append(directory / name)
    if directory.name == INDEX_FOLDER:
        places.append(directory)
    hint = "remove it, or choose another place with --index-dir or TAMIS_INDEX_DIR"
    for place in places:
        if place.is_symlink():
            raise StorageFault(f"{place} is a link", hint=hint)
    if database.exists() and not database.is_file():
        raise StorageFault(f"{database} is no file", hint=hint)


def _check_version(connection: Connection, directory: Path) -> None:
    application, version = _version(connection)
    if (application, version) == (0, 0):
        (schema,) = connection.execute("PRAGMA schema_version").fetchone()
        if not schema:
            raise IndexDamaged(directory, "index.db is empty")
    if application != _APPLICATION_ID:
        raise IndexForeign(
            f"{directory / 'index.db'} is the database of another program",
            hint="it was left as it is; choose another place with --index-dir or TAMIS_INDEX_DIR",
        )
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


def _version(connection: Connection) -> tuple[int, int]:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return application, version


def _create(file: Path) -> None:
    """Make the database under another name and rename it when it is whole: a reader may look at any moment.

    Files that an earlier database left are removed first: SQLite would take its log for ours.
    """
    partial = file.with_name("index.db.partial")
    partial.unlink(missing_ok=True)
    for end in BESIDE:
        file.with_name(f"{file.name}{end}").unlink(missing_ok=True)
        file.with_name(f"{partial.name}{end}").unlink(missing_ok=True)
    # SQLite gives its logs the same mode.
    os.close(private(str(partial), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    with closing(sqlite3.connect(partial, isolation_level=None)) as connection:
        with transaction(connection):
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            set_facts(connection, _FACTS | {"identity": uuid.uuid4().hex})
        # Last: the log would have to be emptied on closing, which fails silently on a full disk.
        connection.execute("PRAGMA journal_mode = WAL")
    reached("database.made")
    partial.replace(file)
    reached("database.named")
    sync_folder(file.parent)


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Commit the block as a whole, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        # On a full disk, SQLite has rolled back by itself.
        if connection.in_transaction:
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
    except UnicodeDecodeError as error:  # also from SQLite's messages: they quote data
        raise IndexDamaged(directory, "index.db holds text that is none") from error


# --- Facts and statements -----------------------------------------------------


def facts(connection: Connection) -> dict[str, Any]:
    return dict(connection.execute("SELECT name, value FROM facts"))


def set_facts(connection: Connection, values: IndexFacts) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO facts VALUES (?, ?)", list(values.items())
    )


def generation(connection: Connection) -> int:
    return int(facts(connection)["generation"])


def select(
    connection: Connection, what: str, column: str, values: Values
) -> Iterator[Any]:
    """Yield the rows whose column has one of these values, however many there are."""
    for some in portions(values):
        yield from connection.execute(
            f"SELECT {what} WHERE {column} IN ({marks(some)})", some
        )


def marks(values: Collection[Any]) -> str:
    """A question mark for each value."""
    return ", ".join("?" * len(values))


def portions(values: Values) -> Iterator[Values]:
    """Cut values into portions that one statement takes."""
    for start in range(0, len(values), _VARIABLES):
        yield values[start : start + _VARIABLES]


def texts_of(stored: str) -> tuple[str, ...]:
    """Read a list of texts from a column; most are empty."""
    return tuple(json.loads(stored)) if stored else ()


# --- Documents ----------------------------------------------------------------


class DocumentRecord(NamedTuple):
    """The place of a document's rows, and its other names."""

    path: str
    id: int
    segment: int
    place: int
    stored_aliases: str = ""  # read by the links lane only

    @property
    def aliases(self) -> tuple[str, ...]:
        return texts_of(self.stored_aliases)


_PLACE = "d.path, d.id, d.segment, d.place"
_DOCUMENT = f"{_PLACE}, d.aliases"


def documents(
    connection: Connection,
    column: str,
    values: Values,
    tables: str = "documents d",
    columns: str = _PLACE,
) -> list[DocumentRecord]:
    """Find documents by a column of theirs, or of a table that is joined with theirs."""
    rows = select(connection, f"{columns} FROM {tables}", column, values)
    return [DocumentRecord(*row) for row in rows]


StoredLink = tuple[DocumentRecord, Link, str]  # with the name that it looks for


class Records:
    """The documents of index.db as a snapshot and the writer read them.

    For the links lane they are a library (`tamis.index.links`).
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.execute = connection.execute

    def file_states(self) -> dict[str, FileState]:
        rows = self.execute(
            "SELECT path, size, mtime_ns, ctime_ns, inode, read_ns, hash, recipe FROM documents"
        )
        return {path: FileState._make(state) for path, *state in rows}

    def stamps(self, recipe: str) -> dict[str, Stamps]:
        """Times and sizes by path, as far as a walk compares them."""
        columns = "path, size, mtime_ns, ctime_ns, inode, CASE WHEN recipe = ? THEN read_ns ELSE 0 END"
        rows = self.execute(f"SELECT {columns} FROM documents", [recipe])
        return {row[0]: row for row in rows}

    def skipped(self) -> tuple[Skipped, ...]:
        rows = self.execute("SELECT path, reason, detail FROM skipped ORDER BY path")
        return tuple(Skipped(*row) for row in rows)

    def document(self, path: str) -> Document:
        """A document with all its passages, links and sections, as far as it is stored."""
        (found,) = self.documents_at([path])
        key = [found.id]
        query = f"SELECT {_WRITTEN_COLUMNS} FROM documents d WHERE d.id = ?"
        (written,) = self.execute(query, key)
        chunks = self.execute(
            f"SELECT {_CHUNK} FROM chunks c WHERE c.document = ? ORDER BY c.ordinal",
            key,
        )
        sections = self.execute(
            "SELECT content, header_path, start_line, end_line FROM parents"
            " WHERE document = ? ORDER BY number",
            key,
        )
        return replace(
            _document_of(path, written),
            chunks=tuple(_chunk_of(row) for row in chunks),
            links=tuple(link for _, link, _ in self.links_from([found])),
            parents=tuple(Parent(*section) for section in sections),
        )

    def documents_at(self, paths: Paths) -> list[DocumentRecord]:
        return documents(self.connection, "d.path", paths, columns=_DOCUMENT)

    def documents_named(self, names: Sequence[str]) -> list[DocumentRecord]:
        """Documents that have one of these names, once for each that they have."""
        tables = "names n JOIN documents d ON d.id = n.document"
        return documents(self.connection, "n.name", names, tables, _DOCUMENT)

    def names(self, documents: Sequence[DocumentRecord]) -> list[str]:
        """All names of these documents, in order."""
        keys = [document.id for document in documents]
        rows = select(self.connection, "n.name FROM names n", "n.document", keys)
        return sorted({name for (name,) in rows})

    def links_from(self, documents: Sequence[DocumentRecord]) -> list[StoredLink]:
        return self._links("l.document", [document.id for document in documents])

    def links_to(self, names: Sequence[str]) -> list[StoredLink]:
        """Links that look for one of these names."""
        return self._links("l.name", names)

    def _links(self, column: str, values: Values) -> list[StoredLink]:
        what = (
            "l.name, l.type, l.target, l.anchor, l.ordinal, "
            f"{_DOCUMENT} FROM links l JOIN documents d ON d.id = l.document"
        )
        found = []
        for row in select(self.connection, what, column, values):
            name, kind, target, anchor, ordinal, *document = row
            link = Link(kind, target, anchor, ordinal)
            found.append((DocumentRecord(*document), link, name))
        return found


# --- Passages as they were written --------------------------------------------


def contents(connection: Connection, keys: Sequence[int]) -> dict[int, str]:
    """Return the texts of passages by key."""
    return dict(select(connection, "c.id, c.content FROM chunks c", "c.id", keys))


_WRITTEN_COLUMNS = ", ".join(f"d.{name}" for name in WRITTEN)
_CHUNK = (
    "c.ordinal, c.content, c.header_path, c.start_line, c.end_line, c.type, c.language,"
    " c.names, c.parent"
)


def as_written(
    connection: Connection, keys: Sequence[int]
) -> dict[int, tuple[Document, Chunk]]:
    """Read passages as they were written, each with its document's front matter."""
    columns = f"c.id, d.path, {_WRITTEN_COLUMNS}, {_CHUNK}"
    tables = f"{columns} FROM chunks c JOIN documents d ON d.id = c.document"
    found = {}
    for key, path, *row in select(connection, tables, "c.id", keys):
        document = _document_of(path, row[: len(WRITTEN)])
        found[key] = (document, _chunk_of(row[len(WRITTEN) :]))
    return found


def _document_of(path: str, written: Values) -> Document:
    front = dict(zip(WRITTEN, written, strict=True))
    own = {name: front.pop(name) for name in _OWN}
    for name in _LISTS:
        front[name] = texts_of(front[name])
    return Document(path, front=FrontMatter(**front), chunks=(), **own)


def _chunk_of(row: Values) -> Chunk:
    *columns, names, parent = row
    return Chunk(*columns, *[texts_of(names), parent])


# --- Changes of documents -----------------------------------------------------


def add_document(
    connection: Connection,
    prepared: Prepared,
    segment: int,
    place: int,
    first: int,
) -> None:
    """Insert a document with all that belongs to it; its passages have keys from `first` on."""
    document = prepared.document
    columns = {
        "path": document.path,
        "segment": segment,
        "place": place,
        "chunks": len(document.chunks),
        **prepared.state._asdict(),
    }
    for name in WRITTEN:
        source = document if name in _OWN else document.front
        columns[name] = getattr(source, name)
    for name in _LISTS:
        columns[name] = _stored_texts(columns[name])
    columns["warning"] = storable(document.warning)
    made = connection.execute(
        f"INSERT INTO documents ({', '.join(columns)}) VALUES ({marks(columns)})",
        list(columns.values()),
    )
    own = made.lastrowid
    chunks = []
    for key, chunk in enumerate(document.chunks, start=first):
        row = (
            key,
            own,
            chunk.ordinal,
            chunk.chunk_type,
            chunk.language,
            chunk.start_line,
            chunk.end_line,
            chunk.header_path,
            chunk.content,
            text_hash(chunk.content),
            _stored_texts(chunk.names),
            chunk.parent,
        )
        chunks.append(row)
    _insert(connection, "chunks", chunks)
    parents = []
    for number, each in enumerate(document.parents):
        lines = (each.start_line, each.end_line)
        parents.append((own, number, each.header_path, *lines, each.content))
    _insert(connection, "parents", parents)
    links = []
    for link in document.links:
        name = key_of(link, document.path)
        if name:
            written = (link.type, link.target, link.anchor)
            links.append((own, link.ordinal, *written, name))
    _insert(connection, "links", links)
    names = names_of(document.path, document.front.aliases)
    _insert(connection, "names", [(name, own) for name in names])


def _stored_texts(texts: Sequence[str]) -> str:
    return json.dumps(texts) if texts else ""


def _insert(
    connection: Connection,
    table: str,
    rows: Sequence[Values],
) -> None:
    if rows:
        connection.executemany(f"INSERT INTO {table} VALUES ({marks(rows[0])})", rows)


def remove_documents(connection: Connection, paths: Paths) -> list[DocumentRecord]:
    """Delete documents with all that belongs to them; return them: their places are dead now."""
    gone = documents(connection, "d.path", paths)
    for keys in portions([document.id for document in gone]):
        some = marks(keys)
        for table in OF_DOCUMENTS:
            connection.execute(f"DELETE FROM {table} WHERE document IN ({some})", keys)
        connection.execute(f"DELETE FROM documents WHERE id IN ({some})", keys)
    return gone


# --- Segments -----------------------------------------------------------------


_FOLDER = re.compile(r"[0-9a-f]{32}")


WITHOUT_VECTORS = "FROM documents d JOIN segments s ON s.id = d.segment WHERE s.dimension = 0 AND d.chunks > 0"


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
    """Return the folders of the segments of the newest generation."""
    with closing(open_reader(directory)) as connection, database_faults(directory):
        return {record.folder for record in segments(connection)}


def set_dead(
    connection: Connection,
    segment: int,
    dead: bytes,
) -> None:
    connection.execute("UPDATE segments SET dead = ? WHERE id = ?", (dead, segment))


def drop_segments(connection: Connection, ids: Sequence[int]) -> None:
    connection.execute(f"DELETE FROM segments WHERE id IN ({marks(ids)})", ids)


def pending_chunks(connection: Connection, facts: IndexFacts) -> int:
    """The number of passages without a vector; 0 for an index whose model makes none."""
    if "model" in facts and not facts.get("dimension"):
        return 0
    row = connection.execute(f"SELECT total(d.chunks) {WITHOUT_VECTORS}").fetchone()
    return int(row[0])


# --- Damage -------------------------------------------------------------------


def flaws(connection: Connection, *, full: bool) -> list[str]:
    """Find damage of index.db itself; `full` also lets SQLite compare every index with its table."""
    check = "quick_check"
    if full:
        check = "integrity_check"
    found = []
    for (message,) in connection.execute(f"PRAGMA {check}(10)"):
        if message != "ok":
            found.append(" ".join(message.split()))
    tables = connection.execute("SELECT name FROM sqlite_master")
    there = {name for (name,) in tables}
    wanted = re.findall(r"CREATE \w+ (\w+)", _SCHEMA)
    if there.issuperset(wanted):
        there = set(facts(connection))
        wanted = list(_FACTS)
    found += [f"it has no {name}" for name in wanted if name not in there]
    return found


# The columns that a checksum covers: all but the place of a document's rows, which is stored elsewhere too.
_SUMMED = (
    (
        "d.id, d.path, d.chunks, d.size, d.mtime_ns, d.ctime_ns, d.inode, d.read_ns, d.hash,"
        f" {_WRITTEN_COLUMNS}, d.recipe FROM documents d",
        "d.id",
    ),
    (
        "c.document, c.ordinal, c.type, c.language, c.start_line, c.end_line, c.header_path, c.content,"
        " c.text_hash, c.names, c.parent FROM chunks c",
        "c.document",
    ),
    (
        "p.document, p.number, p.header_path, p.start_line, p.end_line, p.content FROM parents p",
        "p.document",
    ),
    (
        "l.document, l.ordinal, l.type, l.target, l.anchor, l.name FROM links l",
        "l.document",
    ),
    ("n.document, n.name FROM names n", "n.document"),
)


def sums(connection: Connection, documents: Sequence[int]) -> dict[int, bytes]:
    """The checksums that documents should have, by key. Reads bytes: damaged texts may not decode."""
    rows: dict[int, list[bytes]] = {key: [] for key in documents}
    connection.text_factory = bytes
    try:
        for number, (what, column) in enumerate(_SUMMED):
            for key, *values in select(connection, what, column, documents):
                rows[key].append(repr((number, values)).encode())
    finally:
        connection.text_factory = str
    found = {}
    for key, own in rows.items():
        joined = b"".join(sorted(own))
        found[key] = hashlib.blake2b(joined, digest_size=16).digest()
    return found


def set_sums(connection: Connection, paths: Paths) -> None:
    """Record the checksums of documents as they are stored now."""
    keys = [document.id for document in documents(connection, "d.path", paths)]
    made = sums(connection, keys)
    rows = [(own, key) for key, own in made.items()]
    connection.executemany("UPDATE documents SET sum = ? WHERE id = ?", rows)
