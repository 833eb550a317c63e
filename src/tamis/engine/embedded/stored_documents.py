"""What index.db has of documents: their files, chunks and sections; and which files were left out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tamis.engine.embedded.store import (
    OF_DOCUMENTS,
    Connection,
    marks,
    portions,
    select,
    stored_texts,
    texts_of,
)
from tamis.engine.embedded.stored_links import links_from
from tamis.model import Chunk, Document, FileState, FrontMatter, Parent, Passage, Skipped, Stamps


def count(connection: Connection) -> tuple[int, int]:
    """Documents that have text, and chunks."""
    counted = connection.execute("SELECT count(*), total(chunks) FROM documents WHERE chunks > 0").fetchone()
    return counted[0], int(counted[1])


def file_states(connection: Connection) -> dict[str, FileState]:
    columns = "path, size, mtime_ns, ctime_ns, inode, read_ns, hash, recipe"
    rows = connection.execute(f"SELECT {columns} FROM documents")
    return {row[0]: FileState._make(row[1:]) for row in rows}


def stamps(connection: Connection, recipe: str) -> dict[str, Stamps]:
    """What a look compares, by path."""
    columns = "path, size, mtime_ns, ctime_ns, inode, CASE WHEN recipe = ? THEN read_ns ELSE 0 END"
    return {row[0]: row for row in connection.execute(f"SELECT {columns} FROM documents", [recipe])}


def dates(connection: Connection) -> dict[str, float]:
    """The dates of documents, by path."""
    return dict(connection.execute("SELECT path, modified FROM documents"))


def warnings(connection: Connection) -> dict[str, str]:
    """What was odd about reading documents, by path."""
    return dict(connection.execute("SELECT path, warning FROM documents WHERE warning != '' ORDER BY path"))


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
            found[key] = Passage(*columns, *[texts_of(tags), texts_of(names), parent, title])
    return found


def contents(connection: Connection, keys: Sequence[int]) -> dict[int, str]:
    """The texts of chunks, alone."""
    return dict(select(connection, "c.id, c.content FROM chunks c", "c.id", keys))


def texts_to_embed(connection: Connection, paths: Sequence[str]) -> dict[str, list[tuple[str, str, str]]]:
    """Of documents, in the order of their chunks: the title, the headings above, the text."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    columns = "d.path, c.ordinal, d.title, c.header_path, c.content"
    tables = f"{columns} FROM chunks c JOIN documents d ON d.id = c.document"
    for path, _, *texts in sorted(select(connection, tables, "d.path", paths)):
        found.setdefault(path, []).append((texts[0], texts[1], texts[2]))
    return found


def parents(connection: Connection, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Parent]:
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


def as_written(connection: Connection, keys: Sequence[int]) -> dict[int, tuple[Document, Chunk]]:
    """Chunks as they were when they were written, each with as much of its document as its rows know of."""
    columns = (
        "c.id, d.path, d.title, d.author, d.category, d.modified, d.tags, d.aliases, d.keywords,"
        " d.description, c.ordinal, c.content, c.header_path, c.start_line, c.end_line, c.type, c.language,"
        " c.names, c.parent"
    )
    tables = f"{columns} FROM chunks c JOIN documents d ON d.id = c.document"
    return {row[0]: _as_written(row) for row in select(connection, tables, "c.id", keys)}


def _as_written(row: Sequence[Any]) -> tuple[Document, Chunk]:
    _, path, title, author, category, modified, tags, aliases, keywords, description, *chunk = row
    *columns, names, parent = chunk
    front = FrontMatter(
        description=description,
        keywords=texts_of(keywords),
        tags=texts_of(tags),
        aliases=texts_of(aliases),
        author=author,
        category=category,
    )
    return Document(path, title, front, modified, ()), Chunk(*columns, *[texts_of(names), parent])


def document_as_written(connection: Connection, path: str) -> Document:
    """A document with all its chunks, links and sections, as far as it is stored."""
    row = connection.execute(
        "SELECT id, title, author, category, modified, tags, aliases, keywords, description"
        " FROM documents WHERE path = ?",
        (path,),
    ).fetchone()
    key, title, author, category, modified, tags, aliases, keywords, description = row
    front = FrontMatter(
        "", description, texts_of(keywords), texts_of(tags), texts_of(aliases), author, category
    )  # fmt: skip
    chunks = connection.execute(
        "SELECT ordinal, content, header_path, start_line, end_line, type, language, names, parent"
        " FROM chunks WHERE document = ? ORDER BY ordinal",
        (key,),
    )
    sections = connection.execute(
        "SELECT content, header_path, start_line, end_line FROM parents WHERE document = ? ORDER BY number",
        (key,),
    )
    return Document(
        path, title, front, modified,
        tuple(Chunk(*columns, *[texts_of(names), parent]) for *columns, names, parent in chunks),
        tuple(link for _, link, _ in links_from(connection, [key])),
        tuple(Parent(*section) for section in sections),
    )  # fmt: skip


def next_chunk(connection: Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(id), 0) + 1 FROM chunks").fetchone()[0])


def add_document(connection: Connection, columns: Mapping[str, Any]) -> int:
    """Insert a document; returns its key."""
    names, values = ", ".join(columns), list(columns.values())
    made = connection.execute(f"INSERT INTO documents ({names}) VALUES ({marks(values)})", values)
    return int(made.lastrowid or 0)


def add_chunks(connection: Connection, document: int, chunks: Iterable[tuple[int, Chunk, bytes]]) -> None:
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


def add_parents(connection: Connection, document: int, parents: Iterable[Parent]) -> None:
    connection.executemany(
        "INSERT INTO parents VALUES (?, ?, ?, ?, ?, ?)",
        (
            (document, number, parent.header_path, parent.start_line, parent.end_line, parent.content)
            for number, parent in enumerate(parents)
        ),
    )


def update_state(connection: Connection, path: str, state: FileState, modified: float) -> bool:
    """Record that a file was touched but not changed; True when that moved the date that filters see."""
    segment, before = connection.execute(
        "SELECT segment, modified FROM documents WHERE path = ?", (path,)
    ).fetchone()
    connection.execute(
        "UPDATE documents SET size = ?, mtime_ns = ?, ctime_ns = ?, inode = ?, read_ns = ?, modified = ?"
        " WHERE path = ?",
        (state.size, state.mtime_ns, state.ctime_ns, state.inode, state.read_ns, modified, path),
    )
    if modified != before:
        connection.execute("UPDATE segments SET revision = revision + 1 WHERE id = ?", (segment,))
    return bool(modified != before)


def remove_documents(connection: Connection, paths: Sequence[str]) -> list[tuple[int, int]]:
    """Delete documents with their chunks; returns the (segment, place) of each, to be marked dead."""
    places: list[tuple[int, int]] = []
    for some in portions(paths):
        rows = connection.execute(
            f"SELECT id, segment, place FROM documents WHERE path IN ({marks(some)})", some
        ).fetchall()
        ids = [row[0] for row in rows]
        for table in OF_DOCUMENTS:
            connection.execute(f"DELETE FROM {table} WHERE document IN ({marks(ids)})", ids)
        connection.execute(f"DELETE FROM documents WHERE id IN ({marks(ids)})", ids)
        places += [(segment, place) for _, segment, place in rows]
    return places


def remove_orphans(connection: Connection) -> None:
    """Delete what belongs to documents that are not there."""
    for table in OF_DOCUMENTS:
        connection.execute(f"DELETE FROM {table} WHERE document NOT IN (SELECT id FROM documents)")


def replace_skipped(connection: Connection, skipped: Iterable[Skipped]) -> None:
    connection.execute("DELETE FROM skipped")
    connection.executemany(
        "INSERT INTO skipped VALUES (?, ?, ?)", ((item.path, item.reason, item.detail) for item in skipped)
    )


def skipped(connection: Connection) -> tuple[Skipped, ...]:
    rows = connection.execute("SELECT path, reason, detail FROM skipped ORDER BY path")
    return tuple(Skipped(*row) for row in rows)
