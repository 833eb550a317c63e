"""The checksum of each document: over all that index.db stores for it."""

import hashlib
from collections.abc import Sequence
from typing import Final

from tamis.engine.embedded.store import Connection, marks, portions, select

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
    """The checksums that documents should have, by their keys. Reads texts as bytes: they may be none."""
    rows: dict[int, list[bytes]] = {key: [] for key in documents}
    connection.text_factory = bytes
    try:
        for number, table in enumerate(_SUMMED):
            for some in portions(documents):
                for key, *values in connection.execute(f"SELECT {table} IN ({marks(some)})", some):
                    rows[key].append(repr((number, values)).encode())
    finally:
        connection.text_factory = str
    return {key: hashlib.blake2b(b"".join(sorted(own)), digest_size=16).digest() for key, own in rows.items()}


def stored_sums(connection: Connection, documents: Sequence[int]) -> dict[int, bytes]:
    return dict(select(connection, "d.id, d.sum FROM documents d", "d.id", documents))


def set_sums(connection: Connection, documents: Sequence[int]) -> None:
    rows = ((own, key) for key, own in sums(connection, documents).items())
    connection.executemany("UPDATE documents SET sum = ? WHERE id = ?", rows)
