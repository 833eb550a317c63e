"""Understand a request: the meaning of names in filters, the passages it allows, the question it asks."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from tamis.errors import BadFilter, BadSetting
from tamis.query import filters
from tamis.query.filters import Filter
from tamis.query.language import Names, atom, directory, parse_filter
from tamis.request import SearchRequest
from tamis.search.question import Question
from tamis.settings import Settings


def names_for(root: Path, settings: Settings) -> Names:
    """Return what the names in a filter refer to below this root."""
    names = Names(root=str(root), resolve=os.path.realpath)
    workspaces: dict[str, tuple[str, ...]] = {}
    for name, folders in settings.workspaces.items():
        try:
            workspaces[name] = tuple(directory(folder, names) for folder in folders)
        except BadFilter as error:
            message = f"workspace {name}: {error.message}"
            raise BadSetting(message, hint=error.hint) from error
    archived = filters.archived_by(settings)
    return replace(names, workspaces=workspaces, archived=archived)


def filter_of(
    request: SearchRequest, typed: Filter, names: Names, settings: Settings
) -> Filter:
    """Combine the filters of a request with the one that was typed in its query.

    Archived documents are hidden as configured, unless a filter or a pattern may name them.
    """
    stated = typed & parse_filter(request.filter, names)
    hidden = request.exclude_archived
    if hidden is None:
        by_default = hides_archived(stated, names, settings)
        hidden = by_default and not request.include_patterns
    terms = [stated, *_terms(request, names)]
    if hidden:
        terms.append(~names.archived)
    return filters.all_of(terms)


def hides_archived(stated: Filter, names: Names, settings: Settings) -> bool:
    """Return the setting, or False for a filter that names archived documents."""
    if names.archived in filters.atoms(stated):
        return False
    return settings.search.exclude_archived


def _terms(request: SearchRequest, names: Names) -> list[Filter]:
    terms = []
    if request.excluded_files:
        by_folder = replace(names, resolve=_resolver())
        terms.append(~atom("file", tuple(request.excluded_files), by_folder))
    if request.include_patterns:
        terms.append(atom("path", tuple(request.include_patterns), names))
    if request.exclude_patterns:
        terms.append(~atom("path", tuple(request.exclude_patterns), names))
    terms += _any_of("under", request.under, names)
    terms += [atom("tag", (tag,), names) for tag in request.tags]
    terms += _any_of("type", request.chunk_types, names)
    terms += _any_of("lang", request.languages, names)
    single = {
        "workspace": request.workspace,
        "author": request.author,
        "category": request.category,
        "after": request.modified_after,
        "before": request.modified_before,
    }
    for key, value in single.items():
        if value is not None:
            terms.append(atom(key, (value,), names))
    return terms


def _any_of(key: str, values: Sequence[str], names: Names) -> list[Filter]:
    if not values:
        return []
    return [filters.any_of(atom(key, (value,), names) for value in values)]


def _resolver() -> Callable[[str], str]:
    """Return a function for real paths that looks up each folder once, however many files are in it."""
    folder_of = cache(os.path.realpath)

    def resolve(path: str) -> str:
        folder, name = os.path.split(path)
        if name in ("", "..") or os.path.islink(path):
            return os.path.realpath(path)
        return os.path.normpath(os.path.join(folder_of(folder), name))

    return resolve


def applied(request: SearchRequest, usual: Question) -> Question:
    """Return the question that is asked as configured, changed as the request says."""
    wanted = {
        "limit": request.limit,
        "min_score": request.min_score,
        "max_chunks_per_doc": request.max_chunks_per_doc,
        "max_hops": request.max_hops,
        "parents": request.expand_parents,
        "rerank": request.rerank,
        "mmr": request.mmr,
    }
    changes: dict[str, Any] = {}
    for name, value in wanted.items():
        if value is not None:
            changes[name] = value
    if request.unique:
        changes["max_chunks_per_doc"] = 1
    if not request.use_rrf:
        usual = usual.by_meaning_alone
    if request.quick:
        usual = usual.without_meaning
        changes["rerank"] = False
    if request.rerank_with_recency is not None:
        usual = usual.with_recency(request.rerank_with_recency)
    return replace(
        usual,
        graph_context=request.include_graph_context,
        explain=request.explain,
        **changes,
    )
