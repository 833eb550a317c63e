"""A snapshot: one unchanging generation with its rows, lanes, links and texts, for any number of threads."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tamis.errors import IndexDamaged
from tamis.index.embedded import database, vectors, words
from tamis.index.embedded.concepts import Vocabulary, most_common, open_vocabulary
from tamis.index.embedded.database import DocumentRecord, StoredLinks
from tamis.index.embedded.segment import Mask, Segment, dead_documents
from tamis.index.embedded.words import WordIndex
from tamis.index.links import Called, degrees, each_once, edges
from tamis.index.protocol import (
    EVENLY,
    Allowed,
    Concept,
    Edge,
    Hit,
    LaneAsk,
    Prepared,
)
from tamis.model import (
    Facts,
    FileState,
    IndexState,
    Lane,
    Parent,
    Passage,
    Skipped,
    Stamps,
)
from tamis.query.filters import EVERYTHING, Filter, allows

_CACHED_FILTERS: Final = 32
_THREADS: Final = 8  # for the lanes of several searches; they start when first needed
# Documents, and names, whose links are cached with the rows of a filter.
_REMEMBERED: Final = 4_096


class _Pool:
    """Threads for lanes. They do not survive a fork, so a child gets a pool of its own."""

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.threads = ThreadPoolExecutor(_THREADS, "lane")


_pool: Final = _Pool()


@dataclass(frozen=True, slots=True)
class View:
    """The open segments of one generation, shared by all threads; only its caches change."""

    state: IndexState
    facts: Mapping[str, Any]
    segments: tuple[Segment, ...]
    # Facts of documents by segment folder and place, read when a filter first asks.
    documents: dict[str, dict[int, Facts]]
    allowed: dict[Filter, Allowed]
    # Vocabularies by name, opened when first asked.
    vocabulary: dict[str, Vocabulary | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rows:
    """The allowed rows of each segment (None: all), with caches of what was computed for them."""

    masks: tuple[Mask | None, ...]
    edges: dict[str, tuple[Edge, ...]] = field(default_factory=dict)
    called: Called = field(default_factory=dict)
    # Terms that are frequent among these rows, by the bounds that were asked for.
    common: dict[tuple[int, int], Mask] = field(default_factory=dict)


class EmbeddedSnapshot:
    """A view with the transaction that keeps the texts at the same generation."""

    def __init__(self, view: View, connection: database.Connection) -> None:
        self.view = view
        self.connection = connection
        self._number = {
            segment.record.id: at for at, segment in enumerate(view.segments)
        }

    @property
    def state(self) -> IndexState:
        return self.view.state

    @property
    def about(self) -> Mapping[str, Any]:
        return self.view.facts

    @property
    def segments(self) -> int:
        return len(self.view.segments)

    def allow(self, filter: Filter) -> Allowed:
        known = self.view.allowed.get(filter)
        if known is None:
            if len(self.view.allowed) >= _CACHED_FILTERS:
                self.view.allowed.clear()
            masks = tuple(self._mask(each, filter) for each in self.view.segments)
            known = self.view.allowed[filter] = self._counted(masks)
        return known

    def _counted(self, masks: tuple[Mask | None, ...]) -> Allowed:
        """Count the passages and documents of allowed rows."""
        chunks = documents = embedded = 0
        for segment, mask in zip(self.view.segments, masks, strict=True):
            places = segment.places(mask)
            chunks += len(places)
            if segment.record.dimension:
                embedded += len(places)
            # Places ascend with rows.
            documents += int(np.count_nonzero(np.diff(places, prepend=-1)))
        known = 1.0
        if chunks:
            known = embedded / chunks
        return Allowed(Rows(masks), chunks, documents, known)

    def _mask(self, segment: Segment, filter: Filter) -> Mask | None:
        living = segment.living()
        if filter == EVERYTHING:
            return living
        mask = segment.mask(filter, self._facts(segment))
        if living is None:
            return mask
        return mask & living

    def _facts(self, segment: Segment) -> dict[int, Facts]:
        known, folder = self.view.documents, segment.record.folder
        if folder not in known:
            known[folder] = database.segment_facts(self.connection, segment.record.id)
        return known[folder]

    def documents(self, filter: Filter) -> list[str]:
        allowed = [each for each in self.facts() if allows(filter, each, "", None)]
        return sorted(facts.path for facts in allowed)

    def facts(self) -> Iterator[Facts]:
        """Yield the facts of every living document."""
        for segment in self.view.segments:
            dead = dead_documents(segment.record)
            for place, facts in self._facts(segment).items():
                if not dead[place]:
                    yield facts

    def file_states(self) -> dict[str, FileState]:
        return database.file_states(self.connection)

    def stamps(self, recipe: str) -> dict[str, Stamps]:
        return database.stamps(self.connection, recipe)

    def skipped(self) -> tuple[Skipped, ...]:
        return database.skipped(self.connection)

    def warnings(self) -> dict[str, str]:
        return database.warnings(self.connection)

    def prepared(self) -> Iterator[Prepared]:
        states, warnings = self.file_states(), self.warnings()
        everything = self.allow(EVERYTHING)
        for path in sorted(states):
            document = database.document_as_written(self.connection, path)
            document = replace(document, warning=warnings.get(path, ""))
            keys = self.keys([path], everything).get(path, ())
            vectors = self.vectors([(path, ordinal) for ordinal in range(len(keys))])
            yield Prepared(document, states[path], vectors)

    def facts_of(self, allowed: Allowed) -> Iterator[Facts]:
        for segment, mask in zip(self.view.segments, allowed.rows.masks, strict=True):
            known = self._facts(segment)
            for place in np.unique(segment.places(mask)).tolist():
                yield known[place]

    def kinds(self, allowed: Allowed) -> tuple[Counter[str], Counter[str]]:
        types: Counter[str] = Counter()
        languages: Counter[str] = Counter()
        for segment, mask in zip(self.view.segments, allowed.rows.masks, strict=True):
            types.update(segment.documents_by("type", mask))
            languages.update(segment.documents_by("language", mask))
        return types, languages

    def aliases(self, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
        documents = database.documents_at(self.connection, paths)
        return {document.path: document.aliases for document in documents}

    def lanes(
        self, asks: Sequence[LaneAsk], allowed: Allowed, depth: int
    ) -> Mapping[Lane, Sequence[Hit]]:
        """Ask the last lane on this thread and the others beside it."""
        one = partial(self._lane, allowed=allowed, depth=depth)
        pending = {ask.lane: _pool.threads.submit(one, ask) for ask in asks[:-1]}
        last = {ask.lane: one(ask) for ask in asks[-1:]}
        return {lane: future.result() for lane, future in pending.items()} | last

    def _lane(self, ask: LaneAsk, allowed: Allowed, depth: int) -> Sequence[Hit]:
        if ask.vector is not None:
            return self.meaning(ask.vector, allowed, depth)
        if ask.lane == "words":
            return self.words(ask.terms, allowed, depth, ask.weights)
        return self.code(ask.terms, allowed, depth)

    def meaning(
        self, query: NDArray[np.float32], allowed: Allowed, depth: int
    ) -> Sequence[Hit]:
        nearest = vectors.nearest
        if allowed.late:
            nearest = vectors.nearest_then_masked
        hits: list[Hit] = []
        for segment, mask in zip(self.view.segments, allowed.rows.masks, strict=True):
            if segment.record.dimension:
                hits += _hits(segment, *nearest(segment.vectors, query, mask, depth))
        return hits

    def words(
        self,
        terms: Sequence[str],
        allowed: Allowed,
        depth: int,
        weights: Mapping[str, float] = EVENLY,
    ) -> Sequence[Hit]:
        indexes = [segment.words for segment in self.view.segments]
        return self._ranked(indexes, terms, allowed, depth, weights)

    def code(self, terms: Sequence[str], allowed: Allowed, depth: int) -> Sequence[Hit]:
        indexes = [segment.code for segment in self.view.segments]
        return self._ranked(indexes, terms, allowed, depth, EVENLY)

    def _ranked(
        self,
        indexes: Sequence[WordIndex],
        terms: Sequence[str],
        allowed: Allowed,
        depth: int,
        weights: Mapping[str, float],
    ) -> Sequence[Hit]:
        """Count terms over the allowed rows of all segments, then score those of each."""
        stored = [words.stored(term) for term in terms]
        counts = [0] * len(terms)
        found = []
        for index, mask in zip(indexes, allowed.rows.masks, strict=True):
            postings = [index.postings(term, mask) for term in stored]
            found.append(postings)
            for at, (rows, _) in enumerate(postings):
                counts[at] += len(rows)
        factors = []
        for term, count in zip(terms, counts, strict=True):
            rarity = words.rarity(allowed.chunks, count)
            factors.append(rarity * weights.get(term, 1.0))
        hits: list[Hit] = []
        for at, segment in enumerate(self.view.segments):
            postings, late_mask = found[at], None
            if allowed.late:
                postings = [indexes[at].postings(term, None) for term in stored]
                late_mask = allowed.rows.masks[at]
            best = words.rank(segment.size, postings, factors, depth, late_mask)
            hits += _hits(segment, *best)
        return hits

    def concepts(
        self,
        query: NDArray[np.float32],
        allowed: Allowed,
        depth: int,
        floor: int,
        most: int,
    ) -> Sequence[Concept] | None:
        vocabulary = self.vocabulary()
        if vocabulary is None or floor < vocabulary.floor:
            return None
        rows: Rows = allowed.rows
        if (floor, most) not in rows.common:
            counts = vocabulary.frequencies(rows.masks)
            rows.common[floor, most] = most_common(counts, floor, most)
        return vocabulary.nearest(query, rows.common[floor, most], depth)

    def vocabulary(self) -> Vocabulary | None:
        """The concept vocabulary, if there is one that knows every segment."""
        opened, name = self.view.vocabulary, str(self.view.facts.get("concepts", ""))
        if name not in opened:
            fingerprint = str(self.view.facts.get("fingerprint", ""))
            opened[name] = open_vocabulary(name, self.view.segments, fingerprint)
        return opened[name]

    def links(self, paths: Sequence[str], allowed: Allowed) -> Sequence[Edge]:
        return each_once(paths, self._touching(paths, allowed))

    def degrees(self, paths: Sequence[str], allowed: Allowed) -> Mapping[str, int]:
        return degrees(self._touching(paths, allowed))

    def _touching(
        self, paths: Sequence[str], allowed: Allowed
    ) -> dict[str, tuple[Edge, ...]]:
        """The links from and to documents; cached with the allowed rows while that stays small."""
        rows: Rows = allowed.rows
        found = {path: rows.edges[path] for path in paths if path in rows.edges}
        new = [path for path in paths if path not in found]
        if new:
            library = StoredLinks(self.connection)
            called = dict(rows.called)
            found |= edges(library, new, partial(self._is_allowed, allowed), called)
            if len(rows.edges) < _REMEMBERED:
                rows.edges.update(found)
            if len(rows.called) < _REMEMBERED:
                rows.called.update(called)
        return found

    def _is_allowed(
        self, allowed: Allowed, document: DocumentRecord, ordinal: int | None
    ) -> bool:
        """Return True if a passage of a document, or any (ordinal None), is allowed."""
        at = self._number[document.segment]
        segment, mask = self.view.segments[at], allowed.rows.masks[at]
        start, end = segment.starts[document.place : document.place + 2].tolist()
        if ordinal is not None:
            start, end = start + ordinal, min(end, start + ordinal + 1)
        if mask is None:
            return bool(start < end)
        return bool(mask[start:end].any())

    def keys(
        self, paths: Sequence[str], allowed: Allowed
    ) -> Mapping[str, Sequence[int]]:
        found: dict[str, Sequence[int]] = {}
        for path, at, rows in self._rows_of(paths, allowed):
            if len(rows):
                found[path] = self.view.segments[at].rows["chunk"][rows].tolist()
        return found

    def within(self, paths: Sequence[str], allowed: Allowed) -> Allowed:
        masks = [np.zeros(segment.size, np.bool_) for segment in self.view.segments]
        for _, at, rows in self._rows_of(paths, allowed):
            masks[at][rows] = True
        return replace(self._counted(tuple(masks)), late=allowed.late)

    def _rows_of(
        self, paths: Sequence[str], allowed: Allowed
    ) -> Iterator[tuple[str, int, NDArray[np.int64]]]:
        """Yield path, number of the segment, and allowed rows of documents."""
        for document in database.documents_at(self.connection, paths):
            at = self._number[document.segment]
            segment, mask = self.view.segments[at], allowed.rows.masks[at]
            rows = np.arange(*segment.starts[document.place : document.place + 2])
            yield document.path, at, words.masked(rows, mask)

    def vectors(self, positions: Sequence[tuple[str, int]]) -> NDArray[np.float32]:
        segments = self.view.segments
        width = max((segment.record.dimension for segment in segments), default=0)
        found = np.zeros((len(positions), width), np.float32)
        for number, (at, row) in enumerate(self._places(positions)):
            if segments[at].record.dimension:
                found[number] = segments[at].vectors["full"][row]
        return found

    def coverage(
        self,
        terms: Sequence[str],
        positions: Sequence[tuple[str, int]],
        allowed: Allowed,
    ) -> Sequence[float]:
        places = self._places(positions)
        counts = [0] * len(terms)
        has = np.zeros((len(terms), len(places)), np.bool_)
        stored = [words.stored(term) for term in terms]
        for at, segment in enumerate(self.view.segments):
            mask = allowed.rows.masks[at]
            own = [number for number, (of, _) in enumerate(places) if of == at]
            rows = np.array([places[number][1] for number in own], np.int64)
            for number, term in enumerate(stored):
                with_term, _ = segment.words.postings(term, mask)
                counts[number] += len(with_term)
                has[number, own] = _are_in(rows, with_term)
        rarities = [words.rarity(allowed.chunks, count) for count in counts]
        return words.coverage(has, rarities)

    def _places(self, positions: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
        """The number of the segment and the row of each passage."""
        paths = sorted({path for path, _ in positions})
        first: dict[str, tuple[int, int]] = {}
        for document in database.documents_at(self.connection, paths):
            at = self._number[document.segment]
            row = int(self.view.segments[at].starts[document.place])
            first[document.path] = (at, row)
        places = []
        for path, ordinal in positions:
            at, row = first[path]
            places.append((at, row + ordinal))
        return places

    def parents(
        self, wanted: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], Parent]:
        return database.parents(self.connection, wanted)

    def passages(self, keys: Sequence[int]) -> Mapping[int, Passage]:
        found = database.passages(self.connection, keys)
        if len(found) < len(set(keys)):
            directory = self.view.segments[0].directory
            raise IndexDamaged(directory, "passages without a text")
        return found


def _are_in(rows: NDArray[np.int64], ascending: NDArray[Any]) -> NDArray[np.bool_]:
    """Say of each row whether it is among the ascending ones."""
    if not len(ascending):
        return np.zeros(len(rows), np.bool_)
    at = np.minimum(np.searchsorted(ascending, rows), len(ascending) - 1)
    return np.asarray(ascending[at] == rows)


def _hits(
    segment: Segment, rows: NDArray[np.int64], scores: NDArray[np.float64]
) -> list[Hit]:
    keys = segment.rows["chunk"][rows].tolist()
    return [Hit(key, score) for key, score in zip(keys, scores.tolist(), strict=True)]
