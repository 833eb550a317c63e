"""Links between the documents of an index, looked up when a search asks for them.

A link is found by the last part of the path that it points to (`tamis.text.linking.key_of`), so the
cost of a lookup depends on the documents, their links, and other documents with the same names only.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tamis.index.protocol import Allowed, Edge, Paths
from tamis.model import Link
from tamis.text import linking

_REMEMBERED = 4_096  # documents whose links are cached with the rows of a filter


# A link in its document, and the name that it looks for. Documents are in the engine's own form, and
# have a path and aliases.
Written = tuple[Any, Link, str]
# Whether a passage of a document, or any of them (None), is allowed.
IsAllowed = Callable[[Any, int | None], bool]
EdgesOf = dict[str, tuple[Edge, ...]]  # by document
# By the name that links look for, then by the document that they lead to.
ByName = dict[str, dict[str, list[Edge]]]


class Library(Protocol):
    """The documents of an index and their links, as they are stored."""

    def documents_at(self, paths: Paths) -> Sequence[Any]: ...
    def documents_named(self, names: Sequence[str]) -> Sequence[Any]:
        """Find documents that have one of these names, once for each that they have."""

    def names(self, documents: Sequence[Any]) -> list[str]:
        """Return all names of these documents, in order."""

    def links_from(self, documents: Sequence[Any]) -> Sequence[Written]: ...
    def links_to(self, names: Sequence[str]) -> Sequence[Written]:
        """Find the links that look for one of these names."""


@dataclass(frozen=True, slots=True)
class LinkCache:
    """Edges among the allowed documents of one filter, as far as they were looked up."""

    touching: EdgesOf = field(default_factory=dict)
    named: ByName = field(default_factory=dict)  # many documents may share a name


def edges_of(
    library: Library,
    paths: Paths,
    is_allowed: IsAllowed,
    cache: LinkCache,
) -> EdgesOf:
    """Return the allowed edges from and to each of the documents."""
    if len(cache.touching) > _REMEMBERED:
        cache.touching.clear()
        cache.named.clear()
    found = {}
    for path in paths:
        known = cache.touching.get(path)
        if known is not None:
            found[path] = known
    new = [path for path in paths if path not in found]
    if new:
        named = dict(cache.named)  # a copy: another thread may clear the cache
        found |= _look_up(library, new, is_allowed, named)
        cache.touching.update(found)
        cache.named.update(named)
    return {path: found[path] for path in paths}


def _look_up(
    library: Library,
    paths: Paths,
    is_allowed: IsAllowed,
    named: ByName,
) -> EdgesOf:
    here = library.documents_at(paths)
    names = library.names(here)
    new = [name for name in names if name not in named]
    outgoing = library.links_from(here)
    incoming = library.links_to(new)
    wanted = {name for _, _, name in (*outgoing, *incoming)}
    found_by_name = library.documents_named(sorted(wanted))
    targets = {document.path: document for document in found_by_name}
    directory = linking.Directory(
        linking.named(document.path, document.aliases)
        for document in targets.values()
        if is_allowed(document, None)
    )

    def resolved(written: Sequence[Written]) -> Iterator[tuple[Edge, str]]:
        for source, link, name in written:
            if not is_allowed(source, link.ordinal):
                continue
            target = directory.resolve(link, source.path)
            if target is not None and target != source.path:
                edge = Edge(source.path, target, link.type, link.anchor, link.ordinal)
                yield edge, name

    for name in new:
        named[name] = {}
    for edge, name in resolved(incoming):
        named[name].setdefault(edge.target, []).append(edge)
    found: dict[str, set[Edge]] = {path: set() for path in paths}
    for edge, _ in resolved(outgoing):
        found[edge.source].add(edge)
        if edge.target in found:
            found[edge.target].add(edge)
    for path, own in found.items():
        for name in names:
            own.update(named[name].get(path, ()))
    return {path: tuple(sorted(own, key=_order)) for path, own in found.items()}


def _order(edge: Edge) -> tuple[str, str, str, str, int]:
    ordinal = -1
    if edge.ordinal is not None:
        ordinal = edge.ordinal
    return edge.source, edge.target, edge.type, edge.anchor, ordinal


class LinkedSnapshot(ABC):
    """The links and degrees of a snapshot, from the edges that its engine looks up."""

    @abstractmethod
    def touching(self, paths: Paths, allowed: Allowed) -> EdgesOf:
        """Return the allowed edges from and to each of the documents."""

    def links(self, paths: Paths, allowed: Allowed) -> Sequence[Edge]:
        """List the edges of documents in order, once also if they lead between two of them."""
        found: dict[Edge, None] = {}
        for own in self.touching(paths, allowed).values():
            found |= dict.fromkeys(own)
        return list(found)

    def degrees(self, paths: Paths, allowed: Allowed) -> Mapping[str, int]:
        """Count the other documents that each document is linked with."""
        counts = {}
        for path, own in self.touching(paths, allowed).items():
            ends = {path}
            for edge in own:
                ends |= {edge.source, edge.target}
            counts[path] = len(ends) - 1
        return counts
