"""Links between the documents of one index: what touches some of them, looked up when it is asked for.

A link is found by the last part of the path that it means (`tamis.text.linking.key_of`), so a look at a
neighbourhood costs what the neighbourhood has, and what else goes by the same names.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from tamis.index.protocol import Edge
from tamis.model import Link
from tamis.text import linking


class Linked(Protocol):
    """A document, by its path and by what else it is called."""

    @property
    def path(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...


Record = TypeVar("Record", bound=Linked)
IsAllowed = Callable[[Record, int | None], bool]
Written = tuple[
    Record, Link, str
]  # a link in its document, and the name that it looks for
Called = dict[str, dict[str, list[Edge]]]  # by name, then by the document that is meant


class Library(Protocol[Record]):
    """The documents of an index and the links in them, as they are stored."""

    def documents_at(self, paths: Sequence[str]) -> list[Record]: ...
    def documents_named(self, names: Sequence[str]) -> list[Record]:
        """Those that have one of these names, once for each that they have."""

    def names(self, documents: Sequence[Record]) -> list[str]:
        """What these documents are called, in order."""

    def links_from(self, documents: Sequence[Record]) -> list[Written[Record]]: ...
    def links_to(self, names: Sequence[str]) -> list[Written[Record]]:
        """The links that look for one of these names."""


def edges(
    library: Library[Record],
    paths: Sequence[str],
    is_allowed: IsAllowed[Record],
    called: Called,
) -> dict[str, tuple[Edge, ...]]:
    """The edges that touch each of the documents, among those that are allowed.

    `called` remembers what leads to whom under a name: many documents may have the same one.
    """
    here = library.documents_at(paths)
    names = library.names(here)
    new = [name for name in names if name not in called]
    out, into = library.links_from(here), library.links_to(new)
    directory = _directory(
        library, sorted({name for _, _, name in (*out, *into)}), is_allowed
    )
    called.update({name: {} for name in new})
    for edge, name in _resolved(into, directory, is_allowed):
        called[name].setdefault(edge.target, []).append(edge)
    found: dict[str, dict[Edge, None]] = {path: {} for path in paths}
    for edge, _ in _resolved(out, directory, is_allowed):
        found[edge.source][edge] = None
        if edge.target in found:
            found[edge.target][edge] = None
    for path, own in found.items():
        own.update(
            dict.fromkeys(edge for name in names for edge in called[name].get(path, ()))
        )
    return {path: tuple(sorted(own, key=_order)) for path, own in found.items()}


def each_once(
    paths: Sequence[str], touching: Mapping[str, Sequence[Edge]]
) -> list[Edge]:
    """What touches some documents, in their order; a link between two of them touches both."""
    return list(dict.fromkeys(edge for path in paths for edge in touching[path]))


def degrees(touching: Mapping[str, Sequence[Edge]]) -> dict[str, int]:
    """With how many other documents each one is linked."""
    ends = {
        path: {end for edge in own for end in (edge.source, edge.target)}
        for path, own in touching.items()
    }
    return {path: len(linked - {path}) for path, linked in ends.items()}


def _resolved(
    written: Sequence[Written[Record]],
    directory: linking.Directory,
    is_allowed: IsAllowed[Record],
) -> Iterator[tuple[Edge, str]]:
    for source, link, name in written:
        if is_allowed(source, link.ordinal):
            target = directory.resolve(link, source.path)
            if target is not None and target != source.path:
                yield (
                    Edge(source.path, target, link.type, link.anchor, link.ordinal),
                    name,
                )


def _directory(
    library: Library[Record], names: Sequence[str], is_allowed: IsAllowed[Record]
) -> linking.Directory:
    """The allowed documents that have one of the names."""
    documents = {document.path: document for document in library.documents_named(names)}
    allowed = (
        document for document in documents.values() if is_allowed(document, None)
    )
    return linking.Directory(
        linking.named(document.path, document.aliases) for document in allowed
    )


def _order(edge: Edge) -> tuple[str, str, str, str, int]:
    return (
        edge.source,
        edge.target,
        edge.type,
        edge.anchor,
        -1 if edge.ordinal is None else edge.ordinal,
    )
