"""Links between the documents of one index: what touches some of them, looked up when it is asked for.

A link is found by the last part of the path that it means (`tamis.links.key_of`), so a look at a
neighbourhood costs what the neighbourhood has, however large the index is.
"""

from collections.abc import Callable, Sequence

from tamis import links
from tamis.engine import Edge
from tamis.engine.embedded import store
from tamis.engine.embedded.store import DocumentRecord

IsAllowed = Callable[[DocumentRecord, int | None], bool]


def edges(
    connection: store.Connection, paths: Sequence[str], is_allowed: IsAllowed
) -> dict[str, tuple[Edge, ...]]:
    """The edges that touch each of the documents, among those that are allowed."""
    here = [document.id for document in store.documents_at(connection, paths)]
    called = store.names(connection, here)
    written = [*store.links_from(connection, here), *store.links_to(connection, called)]
    directory = _directory(connection, sorted({name for _, _, name in written}), is_allowed)
    found: dict[str, dict[Edge, None]] = {path: {} for path in paths}
    for source, link, _ in written:
        if not is_allowed(source, link.ordinal):
            continue
        target = directory.resolve(link, source.path)
        if target is not None and target != source.path:
            edge = Edge(source.path, target, link.type, link.anchor, link.ordinal)
            for path in {source.path, target} & found.keys():
                found[path][edge] = None
    return {path: tuple(sorted(of_path, key=_order)) for path, of_path in found.items()}


def _directory(connection: store.Connection, names: Sequence[str], is_allowed: IsAllowed) -> links.Directory:
    """The allowed documents that have one of the names."""
    documents = {document.id: document for _, document in store.documents_named(connection, names)}
    allowed = (document for document in documents.values() if is_allowed(document, None))
    return links.Directory(links.named(document.path, document.aliases) for document in allowed)


def _order(edge: Edge) -> tuple[str, str, str, str, int]:
    return (edge.source, edge.target, edge.type, edge.anchor, -1 if edge.ordinal is None else edge.ordinal)
