"""Raw arguments become typed values here, once, whatever door they came through."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tamis.errors import BadFilter, BadQuery, BadSetting, UsageError
from tamis.query import filters
from tamis.query.filters import Filter
from tamis.query.language import Names, atom, directory, path_atom
from tamis.settings import Settings

if TYPE_CHECKING:
    from tamis.search.question import Question


LONGEST_QUERY: Final = 20_000  # characters: models read some two thousand, and words gain nothing from more
_LARGEST_LIMIT: Final = 100
_MOST_VALUES: Final = 10_000  # in one list of files, patterns or tags


@dataclass(frozen=True, slots=True)
class Narrowing:
    """The filters of a question as they were given; an empty list is the same as none."""

    excluded_files: Sequence[str] = ()
    exclude_patterns: Sequence[str] = ()
    include_patterns: Sequence[str] = ()
    workspace: str | None = None
    under: Sequence[str] = ()
    tags: Sequence[str] = ()
    chunk_types: Sequence[str] = ()
    languages: Sequence[str] = ()
    author: str | None = None
    category: str | None = None
    modified_after: str | None = None
    modified_before: str | None = None
    exclude_archived: bool | None = None
    filter: str = ""

    def terms(self, names: Names) -> Filter:
        """What they say together, but for the archive, which others decide as well, and `filter`."""
        return filters.all_of(
            (
                files_filter(names, self.excluded_files),
                patterns_filter(self.include_patterns, self.exclude_patterns),
                any_value(names, "under", self.under, "under"),
                all_values(names, "tag", self.tags, "tags"),
                any_value(names, "type", self.chunk_types, "chunk_types"),
                any_value(names, "lang", self.languages, "languages"),
                one_value(names, "workspace", self.workspace),
                one_value(names, "author", self.author),
                one_value(names, "category", self.category),
                one_value(names, "after", self.modified_after),
                one_value(names, "before", self.modified_before),
            )
        )


@dataclass(frozen=True, slots=True)
class Asking:
    """How a question is to be answered, as it was given; `None` is as configured."""

    limit: int | None = None
    min_score: float | None = None
    max_chunks_per_doc: int | None = None
    unique: bool = False
    rerank: bool | None = None
    mmr: bool | None = None
    expand_parents: bool | None = None
    max_hops: int | None = None
    include_graph_context: bool = False
    use_rrf: bool = True
    rerank_with_recency: bool | None = None
    quick: bool = False
    explain: bool = False

    def instead_of(self, usual: "Question") -> "Question":
        """The question that is usually asked, with what was given instead."""
        rerank = self.rerank
        if not of_kind(self.use_rrf, "use_rrf", bool):
            usual = usual.by_meaning_alone
        if of_kind(self.quick, "quick", bool):
            usual, rerank = usual.without_meaning, False
        if self.rerank_with_recency is not None:
            usual = usual.with_recency(
                of_kind(self.rerank_with_recency, "rerank_with_recency", bool)
            )
        most = _given(self.max_chunks_per_doc, usual.max_chunks_per_doc)
        return replace(
            usual,
            limit=result_limit(_given(self.limit, usual.limit)),
            min_score=score(_given(self.min_score, usual.min_score)),
            max_chunks_per_doc=1
            if of_kind(self.unique, "unique", bool)
            else per_document(most),
            max_hops=hops(_given(self.max_hops, usual.max_hops)),
            graph_context=of_kind(
                self.include_graph_context, "include_graph_context", bool
            ),
            parents=of_kind(
                _given(self.expand_parents, usual.parents), "expand_parents", bool
            ),
            rerank=of_kind(_given(rerank, usual.rerank), "rerank", bool),
            explain=of_kind(self.explain, "explain", bool),
            mmr=of_kind(_given(self.mmr, usual.mmr), "mmr", bool),
        )


def _given(value: object, usual: object) -> object:
    return usual if value is None else value


def names_for(root: Path, settings: Settings) -> Names:
    """What the names in a filter stand for below this root."""
    return Names(
        root=str(root),
        workspaces=_workspace_folders(root, settings),
        archived=filters.archived_by(settings),
        resolve=os.path.realpath,
    )


def _workspace_folders(root: Path, settings: Settings) -> dict[str, tuple[str, ...]]:
    names = Names(root=str(root), resolve=os.path.realpath)
    workspaces: dict[str, tuple[str, ...]] = {}
    for name, folders in settings.workspaces.items():
        try:
            workspaces[name] = tuple(directory(folder, names) for folder in folders)
        except BadFilter as error:
            raise BadSetting(
                f"workspace {name}: {error.message}", hint=error.hint
            ) from error
    return workspaces


def files_filter(names: Names, excluded: Sequence[str]) -> Filter:
    """Everything but these files."""
    values = texts(excluded, "excluded_files")
    each = replace(names, resolve=_resolver())
    return ~atom("file", values, each) if values else filters.EVERYTHING


def _resolver() -> Callable[[str], str]:
    """Real paths of many files in few folders: each folder is looked up once, not for every file in it."""
    folder_of = lru_cache(maxsize=None)(os.path.realpath)

    def resolve(path: str) -> str:
        folder, name = os.path.split(path)
        if name in ("", "..") or os.path.islink(path):
            return os.path.realpath(path)
        return os.path.normpath(os.path.join(folder_of(folder), name))

    return resolve


def patterns_filter(include: Sequence[str], exclude: Sequence[str]) -> Filter:
    included, excluded = (
        texts(include, "include_patterns"),
        texts(exclude, "exclude_patterns"),
    )
    return filters.all_of(
        (
            path_atom(included) if included else filters.EVERYTHING,
            ~path_atom(excluded) if excluded else filters.EVERYTHING,
        )
    )


def all_values(names: Names, key: str, values: Sequence[str], argument: str) -> Filter:
    """Every one of the values must hold; no values, no filter."""
    return filters.all_of(
        atom(key, (value,), names) for value in texts(values, argument)
    )


def any_value(names: Names, key: str, values: Sequence[str], argument: str) -> Filter:
    """One of the values must hold; no values, no filter."""
    alternatives = [atom(key, (value,), names) for value in texts(values, argument)]
    return filters.any_of(alternatives) if alternatives else filters.EVERYTHING


def one_value(names: Names, key: str, value: str | None) -> Filter:
    return (
        filters.EVERYTHING
        if value is None
        else atom(key, (of_kind(value, key, str),), names)
    )


def of_kind(value: object, argument: str, kind: type) -> Any:
    if not isinstance(value, kind):
        what = f"{argument} must be {kind.__name__}, not {type(value).__name__}"
        raise UsageError(what, hint="check the argument")
    return value


def query_text(query: object) -> str:
    text: str = of_kind(query, "query", str)
    if len(text) > LONGEST_QUERY:
        raise BadQuery(
            f"the query has {len(text):,} characters, at most {LONGEST_QUERY:,} are allowed",
            hint="shorten it to what you are looking for",
        )
    if not text.strip():
        raise BadQuery("the query is empty", hint="give some words to search for")
    return text.encode("utf-8", "replace").decode("utf-8")


def texts(values: object, argument: str) -> tuple[str, ...]:
    """A list of texts. One text alone is taken for a list of one: agents send both."""
    if values is None:
        return ()
    items = (values,) if isinstance(values, str) else values
    if not isinstance(items, list | tuple | set | frozenset) or not all(
        isinstance(i, str) for i in items
    ):
        raise UsageError(
            f"{argument} must be a list of texts",
            hint=f'for example: {argument}=["docs/api.md"]',
        )
    if len(items) > _MOST_VALUES:
        raise UsageError(
            f"{argument} has {len(items):,} entries",
            hint=f"at most {_MOST_VALUES:,} are allowed",
        )
    return tuple(items)


def result_limit(limit: object) -> int:
    return _whole_number(limit, "limit", 1, _LARGEST_LIMIT)


def per_document(most: object) -> int:
    return _whole_number(most, "max_chunks_per_doc", 0, _MOST_VALUES)


def hops(value: object) -> int:
    return _whole_number(value, "max_hops", 0, 3)


def _whole_number(value: object, argument: str, low: int, high: int) -> int:
    if (
        not isinstance(value, int)
        or isinstance(value, bool)
        or not low <= value <= high
    ):
        raise UsageError(f"{argument} is {value!r}", hint=f"allowed: {low} to {high}")
    return value


def score(value: object) -> float:
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not 0 <= value <= 1
    ):
        raise UsageError(f"min_score is {value!r}", hint="allowed: 0 to 1")
    return float(value)
