"""Filters as the server knows them: every atom becomes a condition on an indexed field.

What gitignore patterns select cannot be said there. It is read off the list of documents and sent as a set
of them; nothing is dropped after a search.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tamis.index.qdrant.points import NOTHING, Native, any_of
from tamis.model import Facts
from tamis.query import filters as f
from tamis.query.filters import file_names, folded, nfc, plain

Listed = Callable[[], Sequence[Facts]]  # every document of the generation


def native(filter: f.Filter, listed: Listed, archive: Sequence[str]) -> Native:
    """A condition that lets through what the filter does.

    `archive` are the patterns that the stored `archived` was worked out with; others are read off the list.
    """
    match filter:
        case f.And(terms):
            return {"must": [native(term, listed, archive) for term in terms]}
        case f.Or(terms):
            return (
                {"should": [native(term, listed, archive) for term in terms]}
                if terms
                else NOTHING
            )
        case f.Not(term):
            return {"must_not": [native(term, listed, archive)]}
        case f.Tag(name) if filter.implied != f.NOTHING:
            return {"should": [_tag(name), native(filter.implied, listed, archive)]}
        case f.Archived(patterns) if patterns == tuple(archive):
            return _is("archived", 1)
        case f.Path() | f.Archived():
            return _documents(filter, listed())
    return _atom(filter)


def _atom(filter: f.Filter) -> Native:
    match filter:
        case f.File(names):
            return any_of("fileNames", [nfc(name) for name in names])
        case f.Under(folder):
            return below([folder])
        case f.Workspace(_, folders):
            return below(folders)
        case f.Tag(name):
            return _tag(name)
        case f.Author(name):
            return _is("author", folded(name))
        case f.Category(name):
            return _is("category", folded(name))
        case f.After(_, moment):
            return {"key": "modified", "range": {"gte": moment}}
        case f.Before(_, moment):
            return {"key": "modified", "range": {"lt": moment}}
        case f.DocumentIs(path):
            return _is("document", nfc(path))
        case f.Type(name):
            return _is("chunk_type", name)
        case f.Language(name):
            return _is("language", name)
    raise TypeError(f"{filter!r} is no filter")


def below(folders: Sequence[str]) -> Native:
    """What lies below one of the folders; the root's own name is empty."""
    if "" in folders:
        return {"must": []}
    return any_of("parentDirectories", [f"/{plain(folder)}/" for folder in folders])


def _documents(atom: f.Path | f.Archived, listed: Sequence[Facts]) -> Native:
    """The documents that match, or all but those that do not: whichever is the shorter list."""
    inside = [facts.path for facts in listed if atom.matches(facts)]
    if 2 * len(inside) <= len(listed):
        return any_of("filePath", inside)
    chosen = set(inside)
    outside = [facts.path for facts in listed if facts.path not in chosen]
    return {"must_not": [any_of("filePath", outside)]} if outside else {"must": []}


def _is(name: str, value: str | int) -> Native:
    return {"key": name, "match": {"value": value}}


def _tag(name: str) -> Native:
    return _is("tagTree", nfc(name))


def searchable(facts: Facts, archive: f.Archived) -> dict[str, Any]:
    """What filters ask of a document, as the fields that the conditions above look at."""
    return {
        "filePath": facts.path,
        "document": nfc(facts.path),
        "fileNames": list(dict.fromkeys(file_names(facts.path))),
        "parentDirectories": list(_folders(plain(facts.path))),
        "tagTree": sorted({part for tag in facts.tags for part in _tags_above(tag)}),
        "author": folded(facts.author),
        "category": folded(facts.category),
        "modified": facts.modified,
        "archived": int(archive.matches(facts)),
    }


def _folders(path: str) -> Iterator[str]:
    """`docs/api/a.md` -> `/docs/`, `/docs/api/`."""
    for at, sign in enumerate(path):
        if sign == "/":
            yield f"/{path[:at]}/"


def _tags_above(tag: str) -> Iterator[str]:
    """`area/web` -> `area`, `area/web`."""
    yield tag
    yield from (tag[:at] for at, sign in enumerate(tag) if sign == "/")
