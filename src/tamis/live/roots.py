"""Several roots, asked as one: what a server holds. Nothing is opened before it is asked for."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from tamis.corpus import Corpus
from tamis.errors import BadFilter, IndexMissing, TamisError, UsageError
from tamis.live.browse import (
    Excerpt,
    Facets,
    Graph,
    Listed,
    Reading,
    Wanted,
    added,
    document_text,
    excerpt,
    facets,
    filter_for,
    graph,
    listed,
    reading,
)
from tamis.live.corpus import Freshness, LiveCorpus, Watch
from tamis.live.folders import Folder
from tamis.live.watcher import Said
from tamis.model import Found, Plain, Related, Report, Result, Step, WhyNot
from tamis.query.filters import EVERYTHING
from tamis.query.language import parse_query
from tamis.request import Narrowing
from tamis.response import hints_of_all
from tamis.text.languages import CHUNK_TYPES, LANGUAGES

Answer = TypeVar("Answer")

_MOST: Final = 100  # results of one question


@dataclass(frozen=True, slots=True)
class Located:
    """A result, and the root that it is below."""

    root: str
    result: Result


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the results of a question, in order, and what to know about them."""

    results: tuple[Located, ...]
    has_more: bool
    freshness: Freshness
    generations: tuple[int, ...]  # of the indexes that answered
    hints: tuple[str, ...] = ()
    related: tuple[tuple[str, Related], ...] | None = None  # None: not asked for
    found: Mapping[str, Found] = field(default_factory=dict)  # each root's whole answer


@dataclass(frozen=True, slots=True)
class Now(Plain):
    """How it stands with a root at this moment."""

    root: str
    generation: int
    documents: int
    chunks: int
    pending_chunks: int
    what: str  # is being done in the background; empty: nothing
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class RootStatus(Plain):
    """What is indexed below a root."""

    root: str
    path: str
    documents: int
    chunks: int
    generation: int
    built_at: str
    age_seconds: int
    pending_files: int
    skipped: dict[str, int]  # how many by reason
    model: str
    workspaces: tuple[str, ...]


class Roots:
    """Safe to use from several threads."""

    def __init__(
        self,
        folders: Sequence[Folder],
        say: Callable[[str, Said | Report | TamisError], None] | None = None,
    ) -> None:
        """Whoever is to `say` what happens in the background hears it with the root's name.

        The files of a root are watched once it has been asked something (`server.watch` of the first root).
        """
        self._say = say or (lambda _, __: None)
        self._folders = {each.name: each for each in folders}
        self._live = {
            each.name: LiveCorpus(
                each.path,
                each.settings,
                each.index_dir,
                tell=partial(self._say, each.name),
            )
            for each in folders
        }
        self._watches = folders[0].settings.server.watch

    def close(self) -> None:
        for live in self._live.values():
            live.close()

    def _chosen(self, root: str | None) -> dict[str, LiveCorpus]:
        if root is None:
            return self._live
        if root not in self._live:
            raise UsageError(
                f"there is no root {root}", hint=f"one of {', '.join(self._live)}"
            )
        return {root: self._live[root]}

    def _fresh(
        self, chosen: Mapping[str, LiveCorpus], seconds: float, watch: Watch | None
    ) -> Freshness:
        until = time.monotonic() + seconds
        found = [
            live.fresh(max(0.0, until - time.monotonic()), watch)
            for live in chosen.values()
        ]
        own = [
            name for name, live in chosen.items() if not live.corpus.is_shared
        ]  # else its indexer does
        for name in own if self._watches else ():
            folder = self._folders[name]
            chosen[name].watch(
                folder.reload, partial(self._say, name), folder.settings_files
            )
        return together(found)

    def search(
        self,
        query: str,
        root: str | None,
        offset: int,
        limit: int,
        seconds: float,
        watch: Watch | None,
        **arguments: Any,
    ) -> Page:
        """The results from `offset` on: a larger limit adds results and moves none of the first."""
        chosen = self._knowing(self._chosen(root), arguments.get("workspace"))
        freshness = self._fresh(chosen, seconds, watch)
        # One more tells whether there is more; but what is explained is the answer that was asked for.
        explained = bool(arguments.get("explain") or arguments.get("why_not"))
        most = min(offset + limit + (not explained), _MOST)
        found = _from_each(
            chosen, lambda corpus: corpus.search(query, limit=most, **arguments)
        )
        merged = merge(found)
        context = [one.graph_context for one in found.values()]
        return Page(
            results=tuple(merged[offset : min(offset + limit, _MOST)]),
            has_more=(_candidates(found) if explained else len(merged))
            > offset + limit
            < _MOST,
            freshness=freshness,
            generations=tuple(one.index.generation for one in found.values()),
            hints=hints_of_all(found),
            related=None if None in context else tuple(_context(found)),
            found=found,
        )

    def _knowing(
        self, chosen: Mapping[str, LiveCorpus], workspace: str | None
    ) -> Mapping[str, LiveCorpus]:
        """Those that have a workspace; its name is an error only where no root knows it."""
        if workspace is None or len(chosen) == 1:
            return chosen
        wanted = workspace.casefold()
        knowing = {
            name: live
            for name, live in chosen.items()
            if wanted in {each.casefold() for each in live.corpus.names.workspaces}
        }
        if not knowing:
            names = sorted(
                {
                    each
                    for live in chosen.values()
                    for each in live.corpus.names.workspaces
                }
            )
            hint = f"known: {', '.join(names)}" if names else "none is configured"
            raise BadFilter(f"there is no workspace {workspace!r}", hint=hint)
        return knowing

    def passage(
        self,
        wanted: Wanted,
        root: str | None,
        most: int,
        seconds: float,
        watch: Watch | None,
    ) -> tuple[str, Excerpt, Freshness]:
        """A passage of the first root that has it."""
        chosen = self._chosen(root)
        freshness = self._fresh(chosen, seconds, watch)
        fault: UsageError | None = None
        for name, live in chosen.items():
            try:
                return name, excerpt(live.corpus, wanted, most), freshness
            except IndexMissing as error:
                fault = fault or UsageError(
                    "nothing is indexed yet", hint=f"{freshness.note or error.hint}"
                )
            except UsageError as error:
                fault = fault or error
        raise fault or UsageError(
            "there is no root", hint="start the server with --root"
        )

    def status(
        self, root: str | None, seconds: float, watch: Watch | None
    ) -> tuple[list[RootStatus], Freshness]:
        chosen = self._chosen(root)
        freshness = self._fresh(chosen, seconds, watch)
        return [
            _status(name, live.corpus, freshness) for name, live in chosen.items()
        ], freshness

    # --- Looking round ------------------------------------------------------------------------

    def fresh(
        self, root: str | None, seconds: float
    ) -> tuple[Freshness, tuple[int, ...]]:
        """How fresh an answer would be, and which generations would give it."""
        chosen = self._chosen(root)
        freshness = self._fresh(chosen, seconds, None)
        return freshness, tuple(
            live.corpus.state().generation for live in chosen.values()
        )

    def words(self, query: str) -> str:
        """The words of a question, without the filters in it."""
        corpus = next(iter(self._live.values())).corpus
        try:
            return parse_query(query, corpus.names)[0]
        except BadFilter:  # another root knows what this one does not
            return query

    def facets(self, narrowing: Narrowing, query: str, root: str | None) -> Facets:
        chosen = self._knowing(self._chosen(root), narrowing.workspace)
        return added(
            list(
                _from_each(
                    chosen, lambda c: facets(c, filter_for(c, narrowing, query))
                ).values()
            )
        )

    def listed(
        self, narrowing: Narrowing, root: str | None
    ) -> list[tuple[str, Listed]]:
        chosen = self._knowing(self._chosen(root), narrowing.workspace)
        found = _from_each(
            chosen, lambda corpus: listed(corpus, filter_for(corpus, narrowing))
        )
        return [(name, each) for name, own in found.items() for each in own]

    def reading(
        self, path: str, narrowing: Narrowing, root: str | None
    ) -> tuple[str, Reading]:
        return self._first(
            root, lambda corpus: reading(corpus, path, filter_for(corpus, narrowing))
        )

    def graph(
        self, path: str, hops: int, narrowing: Narrowing, root: str | None
    ) -> tuple[str, Graph]:
        return self._first(
            root,
            lambda corpus: graph(corpus, path, hops, filter_for(corpus, narrowing)),
        )

    def _first(
        self, root: str | None, ask: Callable[[Corpus], Answer]
    ) -> tuple[str, Answer]:
        """The answer of the first root that has one."""
        fault: UsageError | None = None
        for name, live in self._chosen(root).items():
            try:
                return name, ask(live.corpus)
            except IndexMissing:
                fault = fault or UsageError(
                    "nothing is indexed yet", hint="ask again in some seconds"
                )
            except UsageError as error:
                fault = fault or error
        raise fault or UsageError(
            "there is no root", hint="start the server with a folder"
        )

    def now(self) -> tuple[Now, ...]:
        return tuple(_now(name, live) for name, live in self._live.items())

    # --- What needs no indexing: it is asked for when a client connects -----------------------

    def documents(self, root: str | None = None) -> list[tuple[str, str]]:
        """Root and path of every document that is indexed, in order."""
        return [
            (name, path)
            for name, live in self._chosen(root).items()
            for path in _paths(live.corpus)
        ]

    def text(self, root: str, path: str) -> str:
        """The text of a document that is indexed, as it is now."""
        corpus = self._chosen(root)[root].corpus
        if path not in _paths(corpus):
            raise KeyError(path)
        return document_text(corpus, path)

    def values(self, of: str) -> list[str]:
        """What can be given for a workspace, a tag, a chunk type, a language, a root or a path."""
        if of in _FIXED:
            return list(_FIXED[of])
        if of == "root":
            return list(self._live)
        each = (
            value for live in self._live.values() for value in _LISTS[of](live.corpus)
        )
        return list(dict.fromkeys(each))


def _now(name: str, live: LiveCorpus) -> Now:
    state, doing = live.corpus.state(), live.doing()
    counts = (state.generation, state.documents, state.chunks, state.pending_chunks)
    return Now(name, *counts, doing.what, doing.done, doing.total)


_FIXED: Final[Mapping[str, Sequence[str]]] = {
    "chunk_type": CHUNK_TYPES,
    "language": LANGUAGES,
}


def _paths(corpus: Corpus) -> list[str]:
    if not corpus.exists():
        return []
    with corpus.snapshot() as snapshot:
        return snapshot.documents(EVERYTHING)


def _tags(corpus: Corpus) -> list[str]:
    """The most used first."""
    if not corpus.exists():
        return []
    with corpus.snapshot() as snapshot:
        counts = Counter(tag for facts in snapshot.facts() for tag in facts.tags)
    return sorted(counts, key=lambda tag: (-counts[tag], tag))


_LISTS: Final[Mapping[str, Callable[[Corpus], list[str]]]] = {
    "workspace": lambda corpus: sorted(corpus.names.workspaces),
    "tag": _tags,
    "path": _paths,
}


def _from_each(
    chosen: Mapping[str, LiveCorpus], ask: Callable[[Corpus], Answer]
) -> dict[str, Answer]:
    """Every root's answer. A filter may name what one root does not have; it is an error when none has it."""
    found: dict[str, Answer] = {}
    faults: list[BadFilter] = []
    for name, live in chosen.items():
        try:
            found[name] = ask(live.corpus)
        except BadFilter as error:
            faults.append(error)
    if faults and not found:
        raise faults[0]
    return found


def _candidates(found: Mapping[str, Found]) -> int:
    """How many results there are before the limit."""
    return sum(one.stats["after_parent_expansion"] for one in found.values())


def merge(found: Mapping[str, Found]) -> list[Located]:
    """By score, which is calibrated. A root's own order stays; between equals the first root goes first."""
    waiting = [
        [Located(name, result) for result in one.results] for name, one in found.items()
    ]
    merged: list[Located] = []
    while waiting := [each for each in waiting if each]:
        best = max(waiting, key=lambda each: each[0].result.score)
        merged.append(best.pop(0))
    return merged


def as_one(found: Mapping[str, Found]) -> Found:
    """What several roots answered, as one answer without its results: counts and times are added up.

    Its generation rises when one of theirs does.
    """
    first, *others = found.values()
    if not others:
        return first
    each = [first, *others]
    steps = zip(*(one.funnel or () for one in each), strict=False)
    states = [one.index for one in each]
    return replace(
        first,
        stats=dict(_added(one.stats for one in each)),
        timings_ms=dict(_added(one.timings_ms for one in each)),
        index=replace(
            max(states, key=lambda state: state.built_at),
            **{name: sum(getattr(state, name) for state in states) for name in _SUMMED},
        ),
        hints=hints_of_all(found),
        why_not=_likeliest([one.why_not for one in each if one.why_not is not None]),
        graph_context=None
        if first.graph_context is None
        else tuple(r for _, r in _context(found)),
        funnel=None if first.funnel is None else tuple(_step(at) for at in steps),
    )


_SUMMED: Final = (
    "generation",
    "documents",
    "chunks",
    "pending_files",
    "pending_chunks",
)
_ELSEWHERE: Final = ("no such file", "not indexed", "outside the root")


def _added(each: Iterable[Mapping[str, float]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in each:
        total.update(one)
    return total


def _step(same: Sequence[Step]) -> Step:
    return Step(
        same[0].stage, sum(step.left for step in same), sum(step.ms for step in same)
    )


def _likeliest(reasons: Sequence[WhyNot]) -> WhyNot | None:
    """The word of the root that knows the file."""
    return min(reasons, key=lambda why: why.reason in _ELSEWHERE, default=None)


def _context(found: Mapping[str, Found]) -> Iterator[tuple[str, Related]]:
    for name, one in found.items():
        yield from ((name, related) for related in one.graph_context or ())


def together(each: Sequence[Freshness]) -> Freshness:
    """What can be said of all of them."""
    times = [one.as_of for one in each]
    return Freshness(
        complete=all(one.complete for one in each),
        pending_files=sum(one.pending_files for one in each),
        embedded=min((one.embedded for one in each), default=1.0),
        as_of=None
        if None in times
        else min((time for time in times if time), default=None),
        note="; ".join(dict.fromkeys(one.note for one in each if one.note)),
    )


def _status(name: str, corpus: Corpus, freshness: Freshness) -> RootStatus:
    workspaces = tuple(sorted(corpus.names.workspaces))
    if not corpus.exists():
        return RootStatus(
            name,
            str(corpus.root),
            0,
            0,
            0,
            "",
            0,
            freshness.pending_files,
            {},
            "",
            workspaces,
        )
    with corpus.snapshot() as snapshot:
        skipped = Counter(item.reason for item in snapshot.skipped())
        state, facts = snapshot.state, snapshot.about
    return RootStatus(
        root=name,
        path=str(corpus.root),
        documents=state.documents,
        chunks=state.chunks,
        generation=state.generation,
        built_at=state.built_at,
        age_seconds=_age(state.built_at),
        pending_files=freshness.pending_files,
        skipped={str(reason): count for reason, count in sorted(skipped.items())},
        model=str(facts.get("model", "")),
        workspaces=workspaces,
    )


def _age(built_at: str) -> int:
    return max(0, int(time.time() - datetime.fromisoformat(built_at).timestamp()))
