"""Links between the documents of one index: what touches some of them, looked up when it is asked for.

A link is found by the last part of the path that it means (`tamis.links.key_of`), so a look at a
neighbourhood costs what the neighbourhood has, and what else goes by the same names.
"""

from collections.abc import Callable, Iterator, Sequence

from tamis import links
from tamis.engine import Edge
from tamis.engine.embedded import store
from tamis.engine.embedded.store import DocumentRecord
from tamis.model import Link

IsAllowed = Callable[[DocumentRecord, int | None], bool]
Written = tuple[DocumentRecord, Link, str]  # a link in its document, and the name that it looks for
Called = dict[str, dict[str, list[Edge]]]  # by name, then by the document that is meant


def edges(
    connection: store.Connection, paths: Sequence[str], is_allowed: IsAllowed, called: Called
) -> dict[str, tuple[Edge, ...]]:
    """The edges that touch each of the documents, among those that are allowed.

    `called` remembers what leads to whom under a name: many documents may have the same one.
    """
    here = store.documents_at(connection, paths)
    ids = [document.id for document in here]
    names = store.names(connection, ids)
    new = [name for name in names if name not in called]
    out, into = store.links_from(connection, ids), store.links_to(connection, new)
    directory = _directory(connection, sorted({name for _, _, name in (*out, *into)}), is_allowed)
    called.update({name: {} for name in new})
    for edge, name in _resolved(into, directory, is_allowed):
        called[name].setdefault(edge.target, []).append(edge)
    found: dict[str, dict[Edge, None]] = {path: {} for path in paths}
    for edge, _ in _resolved(out, directory, is_allowed):
        found[edge.source][edge] = None
        if edge.target in found:
            found[edge.target][edge] = None
    for path, own in found.items():
        own.update(dict.fromkeys(edge for name in names for edge in called[name].get(path, ())))
    return {path: tuple(sorted(own, key=_order)) for path, own in found.items()}


def _resolved(
    written: Sequence[Written], directory: links.Directory, is_allowed: IsAllowed
) -> Iterator[tuple[Edge, str]]:
    for source, link, name in written:
        if is_allowed(source, link.ordinal):
            target = directory.resolve(link, source.path)
            if target is not None and target != source.path:
                yield Edge(source.path, target, link.type, link.anchor, link.ordinal), name


def _directory(connection: store.Connection, names: Sequence[str], is_allowed: IsAllowed) -> links.Directory:
    """The allowed documents that have one of the names."""
    documents = {document.id: document for document in store.documents_named(connection, names)}
    allowed = (document for document in documents.values() if is_allowed(document, None))
    return links.Directory(links.named(document.path, document.aliases) for document in allowed)


def _order(edge: Edge) -> tuple[str, str, str, str, int]:
    return (edge.source, edge.target, edge.type, edge.anchor, -1 if edge.ordinal is None else edge.ordinal)
