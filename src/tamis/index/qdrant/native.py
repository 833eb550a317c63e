"""Filters in the server's language: every atom becomes a condition on an indexed field.

A server cannot match gitignore patterns. They are matched here against the list of documents, and
sent as a set of paths; nothing is dropped after a search.
"""

from collections.abc import Callable, Sequence

from tamis.index.qdrant.points import NOTHING, Native, any_of, equals
from tamis.model import Facts
from tamis.query import filters as f
from tamis.query.filters import folded, nfc, plain

Listed = Callable[[], Sequence[Facts]]  # every document of the generation


def native(filter: f.Filter, listed: Listed, archive: Sequence[str]) -> Native:
    """Return a condition for the points that a filter allows.

    `archive` are the patterns that the stored field `archived` was computed with.
    """

    def each(*terms: f.Filter) -> list[Native]:
        return [native(term, listed, archive) for term in terms]

    match filter:
        case f.And(terms):
            return {"must": each(*terms)}
        case f.Or(()):
            return NOTHING
        case f.Or(terms):
            return {"should": each(*terms)}
        case f.Not(term):
            return {"must_not": each(term)}
        case f.Tag(name) if filter.implied != f.NOTHING:
            return {"should": [equals("tagTree", nfc(name)), *each(filter.implied)]}
        case f.Tag(name):
            return equals("tagTree", nfc(name))
        case f.Archived(patterns) if patterns == tuple(archive):
            return equals("archived", 1)
        case f.Path() | f.Archived():
            return _matching(filter, listed())
        case f.File(names):
            return any_of("fileNames", [nfc(name) for name in names])
        case f.Under(folder):
            return _below([folder])
        case f.Workspace(_, folders):
            return _below(folders)
        case f.Author(name):
            return equals("author", folded(name))
        case f.Category(name):
            return equals("category", folded(name))
        case f.After(_, moment):
            return {"key": "modified", "range": {"gte": moment}}
        case f.Before(_, moment):
            return {"key": "modified", "range": {"lt": moment}}
        case f.DocumentIs(path):
            return equals("document", nfc(path))
        case f.Type(name):
            return equals("chunk_type", name)
        case f.Language(name):
            return equals("language", name)
    raise TypeError(f"{filter!r} is no filter")


def _below(folders: Sequence[str]) -> Native:
    if "" in folders:  # the root itself
        return {"must": []}
    return any_of("parentDirectories", [f"/{plain(folder)}/" for folder in folders])


def _matching(atom: f.Path | f.Archived, listed: Sequence[Facts]) -> Native:
    """Name the documents that match, or those that do not: the shorter list."""
    inside: list[str] = []
    outside: list[str] = []
    for facts in listed:
        (inside if atom.matches(facts) else outside).append(facts.path)
    if len(inside) <= len(outside):
        return any_of("filePath", inside)
    if not outside:
        return {"must": []}
    return {"must_not": [any_of("filePath", outside)]}
