"""Who links to whom, by name: links as they were written, and the names that documents go by."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tamis.engine.embedded.store import Connection, select, texts_of
from tamis.model import Link

_DOCUMENT: Final = "d.id, d.path, d.segment, d.place, d.aliases"
_LINK: Final = "l.type, l.target, l.anchor, l.ordinal, l.name"


@dataclass(frozen=True, slots=True)
class DocumentRecord:
    """Where a document's rows are, and what else it is called."""

    id: int
    path: str
    segment: int
    place: int
    aliases: tuple[str, ...]


def add_links(connection: Connection, document: int, links: Iterable[tuple[Link, str]]) -> None:
    """Links, each with the name that it looks for."""
    connection.executemany(
        "INSERT INTO links VALUES (?, ?, ?, ?, ?, ?)",
        ((document, link.ordinal, link.type, link.target, link.anchor, name) for link, name in links),
    )


def add_names(connection: Connection, document: int, names: Iterable[str]) -> None:
    connection.executemany("INSERT INTO names VALUES (?, ?)", ((name, document) for name in names))


def documents_at(connection: Connection, paths: Sequence[str]) -> list[DocumentRecord]:
    return [_document(row) for row in select(connection, f"{_DOCUMENT} FROM documents d", "d.path", paths)]


def documents_named(connection: Connection, names: Sequence[str]) -> list[DocumentRecord]:
    """The documents that have one of these names, once for each that they have."""
    tables = f"{_DOCUMENT} FROM names n JOIN documents d ON d.id = n.document"
    return [_document(row) for row in select(connection, tables, "n.name", names)]


def names(connection: Connection, documents: Sequence[int]) -> list[str]:
    """What these documents are called."""
    return sorted({name for (name,) in select(connection, "n.name FROM names n", "n.document", documents)})


def names_by_document(connection: Connection, documents: Sequence[int]) -> Iterator[tuple[int, str]]:
    return select(connection, "n.document, n.name FROM names n", "n.document", documents)


def links_from(connection: Connection, documents: Sequence[int]) -> list[tuple[DocumentRecord, Link, str]]:
    """The links of documents, with the name that each looks for."""
    return _links(connection, "l.document", documents)


def links_to(connection: Connection, names: Sequence[str]) -> list[tuple[DocumentRecord, Link, str]]:
    """The links that look for one of these names."""
    return _links(connection, "l.name", names)


def _links(
    connection: Connection, column: str, values: Sequence[Any]
) -> list[tuple[DocumentRecord, Link, str]]:
    tables = f"{_LINK}, {_DOCUMENT} FROM links l JOIN documents d ON d.id = l.document"
    rows = select(connection, tables, column, values)
    return [(_document(row), Link(kind, *link), name) for kind, *link, name, row in map(_apart, rows)]


def _apart(row: Sequence[Any]) -> list[Any]:
    return [*row[:5], row[5:]]


def _document(row: Sequence[Any]) -> DocumentRecord:
    key, path, segment, place, aliases = row
    return DocumentRecord(key, path, segment, place, texts_of(aliases))
