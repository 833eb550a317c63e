"""Several roots, asked as one by a server. Nothing is opened before it is asked for."""

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeVar

from tamis.corpus import Corpus
from tamis.errors import BadFilter, IndexMissing, NotIndexed, UsageError
from tamis.live.browse import document_text
from tamis.live.corpus import Event, Freshness, LiveCorpus, Watch
from tamis.live.folders import Folder
from tamis.model import NO_INDEX, Found, Plain, Related, Result, Step
from tamis.query.filters import EVERYTHING
from tamis.query.language import parse_query
from tamis.request import LARGEST_LIMIT, SearchRequest
from tamis.response import hints_of_all
from tamis.text.languages import CHUNK_TYPES, LANGUAGES

Answer = TypeVar("Answer")

# Fields of an index's state that several roots add up.
_SUMMED = (
    "generation",
    "documents",
    "chunks",
    "pending_files",
    "pending_chunks",
)
# Reasons of a root that does not know the file.
_UNKNOWN = ("no such file", "not indexed", "outside the root")


@dataclass(frozen=True, slots=True)
class Located:
    """A result and the root that it is below."""

    root: str
    result: Result


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the results of a question, in order, and what to know about them."""

    results: tuple[Located, ...]
    has_more: bool
    freshness: Freshness
    generations: tuple[int, ...]  # of the indexes that answered
    related: tuple[tuple[str, Related], ...] | None  # None if not asked for
    found: Found  # the whole answer of all roots as one, without their results


@dataclass(frozen=True, slots=True)
class Now(Plain):
    """The state of a root at this moment."""

    root: str
    generation: int
    documents: int
    chunks: int
    pending_chunks: int
    what: str  # is being done in the background; empty if nothing is
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class RootStatus(Plain):
    """The contents of the index of a root."""

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
    """The roots of a server. Safe to use from several threads."""

    def __init__(
        self,
        folders: Sequence[Folder],
        say: Callable[[str, Event], None] = lambda _, __: None,
    ) -> None:
        """Prepare the roots. `say` gets a root's name and what happens there in the background.

        The settings of the first root say how the server answers. The files of a root are watched
        once it has been asked something.
        """
        settings = folders[0].settings
        self._watches = settings.server.watch
        self._budget = settings.server.budget_ms / 1000
        self._usual_limit = settings.search.limit
        self._live: dict[str, LiveCorpus] = {}
        for folder in folders:
            tell = partial(say, folder.name)
            self._live[folder.name] = LiveCorpus(folder, tell)

    def close(self) -> None:
        """Stop the background of all roots."""
        for live in self._live.values():
            live.close()

    # --- questions ------------------------------------------------------------------------------

    def search(
        self,
        request: SearchRequest,
        root: str | None,
        offset: int = 0,
        watch: Watch | None = None,
    ) -> Page:
        """Return the results from `offset` on; a larger limit adds results and moves none."""
        chosen = self._chosen(root, request.workspace)
        freshness = self._bring_up_to_date(chosen, watch)
        limit = request.limit or self._usual_limit
        end = min(offset + limit, LARGEST_LIMIT)
        # One more shows whether there are more; but an explained answer is the one asked for.
        explained = request.explain or request.why_not is not None
        most = min(end + (not explained), LARGEST_LIMIT)
        asked = replace(request, limit=most)
        found = self.each(root, request.workspace, lambda corpus: corpus.answer(asked))
        merged = merge(found)
        total = len(merged)
        if explained:
            stats = [one.stats for one in found.values()]
            total = sum(counts["after_parent_expansion"] for counts in stats)
        related = None
        if all(one.graph_context is not None for one in found.values()):
            related = _related(found)
        return Page(
            results=tuple(merged[offset:end]),
            has_more=total > end and end < LARGEST_LIMIT,
            freshness=freshness,
            generations=tuple(one.index.generation for one in found.values()),
            related=related,
            found=as_one(found),
        )

    def status(
        self,
        root: str | None,
        watch: Watch | None = None,
    ) -> tuple[list[RootStatus], Freshness]:
        """Return what the indexes hold."""
        chosen = self._chosen(root)
        freshness = self._bring_up_to_date(chosen, watch)
        found = []
        for name, live in chosen.items():
            corpus = live.corpus
            state = NO_INDEX
            built_at = ""
            age = 0
            skipped: Counter[str] = Counter()
            model = ""
            if corpus.exists():
                with corpus.snapshot() as snapshot:
                    state = snapshot.state
                    skipped.update(item.reason for item in snapshot.skipped())
                    model = str(snapshot.about.get("model", ""))
                built_at = state.built_at
                built = datetime.fromisoformat(built_at).timestamp()
                age = max(0, int(time.time() - built))
            status = RootStatus(
                root=name,
                path=str(corpus.root),
                documents=state.documents,
                chunks=state.chunks,
                generation=state.generation,
                built_at=built_at,
                age_seconds=age,
                pending_files=freshness.pending_files,
                skipped=dict(sorted(skipped.items())),
                model=model,
                workspaces=tuple(sorted(corpus.names.workspaces)),
            )
            found.append(status)
        return found, freshness

    def fresh(
        self,
        root: str | None,
        watch: Watch | None = None,
    ) -> tuple[Freshness, tuple[int, ...]]:
        """Return how fresh an answer would be, and the generations that would give it."""
        chosen = self._chosen(root)
        freshness = self._bring_up_to_date(chosen, watch)
        states = [live.corpus.state() for live in chosen.values()]
        return freshness, tuple(state.generation for state in states)

    def words(self, query: str) -> str:
        """Return the words of a question, without the filters in it."""
        corpus = next(iter(self._live.values())).corpus
        try:
            return parse_query(query, corpus.names)[0]
        except BadFilter:  # another root may know the name
            return query

    def first(
        self,
        root: str | None,
        ask: Callable[[Corpus], Answer],
        hint: str = "",
    ) -> tuple[str, Answer]:
        """Return the answer of the first root that has one, with the root's name."""
        fault = None
        for name, live in self._chosen(root).items():
            try:
                return name, ask(live.corpus)
            except IndexMissing:
                wait = hint or "ask again in some seconds"
                fault = fault or UsageError("nothing is indexed yet", hint=wait)
            except UsageError as error:
                fault = fault or error
        raise fault or UsageError("there is no root", hint="start the server with one")

    def each(
        self,
        root: str | None,
        workspace: str | None,
        ask: Callable[[Corpus], Answer],
    ) -> dict[str, Answer]:
        """Return the answers of all roots, or of one.

        A filter that no root understands is an error.
        """
        found: dict[str, Answer] = {}
        fault = None
        for name, live in self._chosen(root, workspace).items():
            try:
                found[name] = ask(live.corpus)
            except BadFilter as error:
                fault = fault or error
        if fault is not None and not found:
            raise fault
        return found

    # --- without looking for changes: asked for when a client connects ---------------------------

    def now(self) -> tuple[Now, ...]:
        """Return the state of each root."""
        found = []
        for name, live in self._live.items():
            state = live.corpus.state()
            doing = live.doing()
            now = Now(
                root=name,
                generation=state.generation,
                documents=state.documents,
                chunks=state.chunks,
                pending_chunks=state.pending_chunks,
                what=doing.what,
                done=doing.done,
                total=doing.total,
            )
            found.append(now)
        return tuple(found)

    def documents(self) -> list[tuple[str, str]]:
        """Return root and path of every indexed document, in order."""
        found = []
        for name, live in self._live.items():
            found += [(name, path) for path in _paths(live.corpus)]
        return found

    def text(self, root: str, path: str) -> str:
        """Return the text of an indexed document as it is now."""
        corpus = self._chosen(root)[root].corpus
        if path not in _paths(corpus):
            raise NotIndexed(f"no document {path} is indexed", hint="search again")
        return document_text(corpus, path)

    def values(self, of: str) -> list[str]:
        """Return the values of a workspace, tag, chunk_type, language, root or path argument."""
        if of == "chunk_type":
            return list(CHUNK_TYPES)
        if of == "language":
            return list(LANGUAGES)
        if of == "root":
            return list(self._live)
        found: list[str] = []
        for live in self._live.values():
            if of == "workspace":
                found += sorted(live.corpus.names.workspaces)
            elif of == "tag":
                found += _tags(live.corpus)
            else:
                found += _paths(live.corpus)
        return list(dict.fromkeys(found))

    # --- choosing and asking roots ---------------------------------------------------------------

    def _chosen(
        self,
        root: str | None,
        workspace: str | None = None,
    ) -> dict[str, LiveCorpus]:
        """Return one root or all; of several, those that have the workspace, and at least one has."""
        if root is not None:
            if root not in self._live:
                hint = f"one of {', '.join(self._live)}"
                raise UsageError(f"there is no root {root}", hint=hint)
            return {root: self._live[root]}
        if workspace is None or len(self._live) == 1:
            return self._live
        wanted = workspace.casefold()
        having = {}
        known: set[str] = set()
        for name, live in self._live.items():
            own = live.corpus.names.workspaces
            known.update(own)
            if wanted in [each.casefold() for each in own]:
                having[name] = live
        if having:
            return having
        hint = "none is configured"
        if known:
            hint = f"known: {', '.join(sorted(known))}"
        raise BadFilter(f"there is no workspace {workspace!r}", hint=hint)

    def _bring_up_to_date(
        self,
        chosen: Mapping[str, LiveCorpus],
        watch: Watch | None = None,
    ) -> Freshness:
        """Wait for changed files to be indexed, for as long as the budget of a question allows."""
        until = time.monotonic() + self._budget
        found = []
        for live in chosen.values():
            left = max(0.0, until - time.monotonic())
            found.append(live.fresh(left, watch))
        for live in chosen.values():
            # A shared index is kept up to date by the program that writes it.
            if self._watches and live.corpus.capabilities.updated_by_search:
                live.watch()
        return together(found)


def _paths(corpus: Corpus) -> list[str]:
    if not corpus.exists():
        return []
    with corpus.snapshot() as snapshot:
        return snapshot.documents(EVERYTHING)


def _tags(corpus: Corpus) -> list[str]:
    """Return all tags, the most used first."""
    if not corpus.exists():
        return []
    counts: Counter[str] = Counter()
    with corpus.snapshot() as snapshot:
        for facts in snapshot.facts():
            counts.update(facts.tags)
    return sorted(sorted(counts), key=counts.__getitem__, reverse=True)


# --- several answers as one -------------------------------------------------------------------


def merge(found: Mapping[str, Found]) -> list[Located]:
    """Merge results by score, which is calibrated.

    The order within a root stays; of equal results, the one of the first root comes first.
    """
    located = []
    for name, one in found.items():
        located.append([Located(name, result) for result in one.results])
    return list(heapq.merge(*located, key=lambda each: -each.result.score))


def as_one(found: Mapping[str, Found]) -> Found:
    """Return several roots' answers as one without its results: counts and times are added up.

    Its generation rises when one of theirs does.
    """
    answers = list(found.values())
    first = answers[0]
    if len(answers) == 1:
        return first
    states = [one.index for one in answers]
    sums = {name: sum(getattr(state, name) for state in states) for name in _SUMMED}
    newest = max(states, key=lambda state: state.built_at)
    reasons = [one.why_not for one in answers if one.why_not is not None]
    # The reason of the root that knows the file.
    why_not = min(reasons, key=lambda why: why.reason in _UNKNOWN, default=None)
    context = None
    if first.graph_context is not None:
        context = tuple(related for _, related in _related(found))
    funnel = None
    if first.funnel is not None:
        summed = []
        for steps in zip(*(one.funnel or () for one in answers), strict=False):
            left = sum(step.left for step in steps)
            ms = sum(step.ms for step in steps)
            summed.append(Step(steps[0].stage, left, ms))
        funnel = tuple(summed)
    return replace(
        first,
        stats=dict(_sum(one.stats for one in answers)),
        timings_ms=dict(_sum(one.timings_ms for one in answers)),
        index=replace(newest, **sums),
        hints=hints_of_all(found),
        why_not=why_not,
        graph_context=context,
        funnel=funnel,
    )


def _sum(each: Iterable[Mapping[str, float]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for one in each:
        total.update(one)
    return total


def _related(found: Mapping[str, Found]) -> tuple[tuple[str, Related], ...]:
    context = []
    for name, one in found.items():
        context += [(name, related) for related in one.graph_context or ()]
    return tuple(context)


def together(each: Sequence[Freshness]) -> Freshness:
    """Return the freshness of several roots' answers as one."""
    times = [one.as_of for one in each if one.as_of is not None]
    as_of = None
    if len(times) == len(each):
        as_of = min(times, default=None)
    notes = [one.note for one in each if one.note]
    return Freshness(
        complete=all(one.complete for one in each),
        pending_files=sum(one.pending_files for one in each),
        embedded=min((one.embedded for one in each), default=1.0),
        as_of=as_of,
        note="; ".join(dict.fromkeys(notes)),
    )
