"""A snapshot: one unchanging generation with its rows, lanes, links and texts, for any number of threads."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from tamis.errors import IndexDamaged
from tamis.index.embedded import database, vectors, words
from tamis.index.embedded.database import DocumentRecord, Records, texts_of
from tamis.index.embedded.segment import Segment, dead_documents
from tamis.index.embedded.words import Mask, Rows, Scores
from tamis.index.links import EdgesOf, LinkCache, degrees, each_once, edges_of
from tamis.index.protocol import (
    Allowed,
    Concept,
    Edge,
    Hit,
    IndexFacts,
    LaneAsk,
    Paths,
    Positions,
    Prepared,
    Vectors,
)
from tamis.model import Facts, IndexState, Lane, Parent, Passage
from tamis.query.filters import EVERYTHING, Filter, allows

_CACHED_FILTERS: Final = 32
_THREADS: Final = 8  # for the lanes of several searches; they start when first needed


class _Pool:
    """Threads for lanes. They do not survive a fork, so a child gets a pool of its own."""

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        self.threads = ThreadPoolExecutor(_THREADS, "lane")


_pool: Final = _Pool()


@dataclass(frozen=True, slots=True)
class View:
    """The open segments of one generation, shared by all threads; only its caches change."""

    state: IndexState
    facts: IndexFacts
    segments: tuple[Segment, ...]
    # Facts of documents by segment folder and place, read when a filter first asks.
    documents: dict[str, dict[int, Facts]]
    allowed: dict[Filter, Allowed] = field(default_factory=dict)
    vocabulary: dict[str, Any] = field(default_factory=dict)  # of query expansion


@dataclass(frozen=True, slots=True)
class AllowedRows:
    """The allowed rows of each segment (None: all), with caches of what was computed for them."""

    masks: tuple[Mask | None, ...]
    links: LinkCache = field(default_factory=LinkCache)
    common: dict[tuple[int, int], Mask] = field(default_factory=dict)  # of expansion


class EmbeddedSnapshot(Records):
    """A view with the transaction that keeps the texts at the same generation."""

    def __init__(self, view: View, connection: database.Connection) -> None:
        super().__init__(connection)
        self.view = view
        self.state = view.state
        self.about = view.facts
        self.segments = len(view.segments)
        keys = [segment.record.id for segment in view.segments]
        self._number = {key: at for at, key in enumerate(keys)}

    # --- Documents and their facts ----------------------------------------------

    def facts(self) -> Iterator[Facts]:
        """Yield the facts of every living document."""
        for segment in self.view.segments:
            dead = dead_documents(segment.record)
            for place, facts in self._facts(segment).items():
                if not dead[place]:
                    yield facts

    def _facts(self, segment: Segment) -> dict[int, Facts]:
        """Return the facts of a segment's documents by place, cached with the view."""
        cache, folder = self.view.documents, segment.record.folder
        if folder not in cache:
            found = {}
            columns = "place, path, tags, author, category, modified"
            for place, path, tags, *others in self.connection.execute(
                f"SELECT {columns} FROM documents WHERE segment = ?",
                [segment.record.id],
            ):
                own_tags = frozenset(texts_of(tags))
                found[place] = Facts(path, own_tags, *others)
            cache[folder] = found
        return cache[folder]

    def documents(self, filter: Filter) -> list[str]:
        found = []
        for facts in self.facts():
            if allows(filter, facts, "", None):
                found.append(facts.path)
        return sorted(found)

    def facts_of(self, allowed: Allowed) -> Iterator[Facts]:
        for segment, mask in self._masked(allowed):
            known = self._facts(segment)
            for place in np.unique(segment.places(mask)).tolist():
                yield known[place]

    def kinds(self, allowed: Allowed) -> tuple[Counter[str], Counter[str]]:
        types: Counter[str] = Counter()
        languages: Counter[str] = Counter()
        for segment, mask in self._masked(allowed):
            types.update(segment.documents_by("type", mask))
            languages.update(segment.documents_by("language", mask))
        return types, languages

    def aliases(self, paths: Paths) -> dict[str, tuple[str, ...]]:
        return {each.path: each.aliases for each in self.documents_at(paths)}

    def warnings(self) -> dict[str, str]:
        wanted = "warning != '' ORDER BY path"
        query = f"SELECT path, warning FROM documents WHERE {wanted}"
        return dict(self.connection.execute(query))

    def prepared(self) -> Iterator[Prepared]:
        states = self.file_states()
        for path in sorted(states):
            document = self.document(path)
            places = [(path, chunk.ordinal) for chunk in document.chunks]
            yield Prepared(document, states[path], self.vectors(places))

    # --- Allowed rows -----------------------------------------------------------

    def allow(self, filter: Filter) -> Allowed:
        cache = self.view.allowed
        known = cache.get(filter)
        if known is None:
            masks = [self._mask(segment, filter) for segment in self.view.segments]
            known = self._counted(masks)
            if len(cache) >= _CACHED_FILTERS:
                cache.clear()
            cache[filter] = known
        return known

    def _mask(self, segment: Segment, filter: Filter) -> Mask | None:
        living = segment.living()
        if filter == EVERYTHING:
            return living
        mask = segment.mask(filter, self._facts(segment))
        if living is None:
            return mask
        return mask & living

    def within(self, paths: Paths, allowed: Allowed) -> Allowed:
        masks = []
        for segment in self.view.segments:
            masks.append(np.zeros(segment.size, np.bool_))
        for document in self.documents_at(paths):
            at, rows = self._rows_of(document, allowed)
            masks[at][rows] = True
        return self._counted(masks)

    def _counted(self, masks: Sequence[Mask | None]) -> Allowed:
        """Count the passages and documents of allowed rows."""
        chunks = documents = embedded = 0
        for segment, mask in zip(self.view.segments, masks, strict=True):
            places = segment.places(mask)
            chunks += len(places)
            if segment.record.dimension:
                embedded += len(places)
            is_first = np.diff(places, prepend=-1)  # places ascend with rows
            documents += int(np.count_nonzero(is_first))
        known = 1.0
        if chunks:
            known = embedded / chunks
        return Allowed(AllowedRows(tuple(masks)), chunks, documents, known)

    def _masked(self, allowed: Allowed) -> Iterator[tuple[Segment, Mask | None]]:
        """Pair each segment with its allowed rows."""
        return zip(self.view.segments, allowed.rows.masks, strict=True)

    def keys(self, paths: Paths, allowed: Allowed) -> Mapping[str, Sequence[int]]:
        found = {}
        for document in self.documents_at(paths):
            at, rows = self._rows_of(document, allowed)
            if len(rows):
                keys = self.view.segments[at].rows["chunk"]
                found[document.path] = keys[rows].tolist()
        return found

    def _rows_of(self, document: DocumentRecord, allowed: Allowed) -> tuple[int, Rows]:
        """Return the number of a document's segment, and its allowed rows there."""
        at = self._number[document.segment]
        start, end = self.view.segments[at].rows_of(document.place)
        return at, words.masked(np.arange(start, end), allowed.rows.masks[at])

    # --- Lanes ------------------------------------------------------------------

    def lanes(
        self, asks: Sequence[LaneAsk], allowed: Allowed, depth: int
    ) -> Mapping[Lane, Sequence[Hit]]:
        """Ask the last lane on this thread and the others beside it."""
        one = partial(self._lane, allowed=allowed, depth=depth)
        pending = [_pool.threads.submit(one, ask) for ask in asks[:-1]]
        last = [one(ask) for ask in asks[-1:]]
        found = [future.result() for future in pending] + last
        return {ask.lane: hits for ask, hits in zip(asks, found, strict=True)}

    def _lane(self, ask: LaneAsk, allowed: Allowed, depth: int) -> list[Hit]:
        if ask.vector is None:
            return self._ranked(ask, allowed, depth)
        nearest = vectors.nearest
        if allowed.late:
            nearest = vectors.nearest_then_masked
        hits: list[Hit] = []
        for segment, mask in self._masked(allowed):
            if segment.record.dimension:
                best = nearest(segment.vectors, ask.vector, mask, depth)
                hits += _hits(segment, *best)
        return hits

    def _ranked(self, ask: LaneAsk, allowed: Allowed, depth: int) -> list[Hit]:
        """Count terms over the allowed rows of all segments, then score those of each."""
        stored = [words.stored(term) for term in ask.terms]
        counts = [0] * len(stored)
        found = []
        for segment, mask in self._masked(allowed):
            arrays = getattr(segment, ask.lane)
            postings = [words.postings(arrays, term, mask) for term in stored]
            for at, (rows, _) in enumerate(postings):
                counts[at] += len(rows)
            if allowed.late:
                postings = [words.postings(arrays, term, None) for term in stored]
            found.append(postings)
        factors = []
        for term, count in zip(ask.terms, counts, strict=True):
            rarity = words.rarity(allowed.chunks, count)
            factors.append(rarity * ask.weights.get(term, 1.0))
        hits: list[Hit] = []
        for at, (segment, mask) in enumerate(self._masked(allowed)):
            late_mask = mask if allowed.late else None
            best = words.rank(segment.size, found[at], factors, depth, late_mask)
            hits += _hits(segment, *best)
        return hits

    def concepts(
        self,
        query: Vectors,
        allowed: Allowed,
        depth: int,
        floor: int,
        most: int,
    ) -> Sequence[Concept] | None:
        # Only query expansion needs this module, and it is off by default.
        from tamis.index.embedded.concepts import nearest_terms

        return nearest_terms(self.view, query, allowed.rows, depth, floor, most)

    # --- Links ------------------------------------------------------------------

    def links(self, paths: Paths, allowed: Allowed) -> Sequence[Edge]:
        return each_once(self._edges_of(paths, allowed))

    def degrees(self, paths: Paths, allowed: Allowed) -> Mapping[str, int]:
        return degrees(self._edges_of(paths, allowed))

    def _edges_of(self, paths: Paths, allowed: Allowed) -> EdgesOf:
        is_allowed = partial(self._is_allowed, allowed)
        return edges_of(self, paths, is_allowed, allowed.rows.links)

    def _is_allowed(
        self, allowed: Allowed, document: DocumentRecord, ordinal: int | None
    ) -> bool:
        """Return True if a passage of a document, or any (ordinal None), is allowed."""
        at = self._number[document.segment]
        start, end = self.view.segments[at].rows_of(document.place)
        if ordinal is not None:
            start += ordinal
            end = min(end, start + 1)
        mask = allowed.rows.masks[at]
        if mask is None:
            return bool(start < end)
        return bool(mask[start:end].any())

    # --- Passages ---------------------------------------------------------------

    def vectors(self, positions: Positions) -> Vectors:
        segments = self.view.segments
        width = max((segment.record.dimension for segment in segments), default=0)
        found = np.zeros((len(positions), width), np.float32)
        for number, (at, row) in enumerate(self._places(positions)):
            if segments[at].record.dimension:
                found[number] = segments[at].vectors["full"][row]
        return found

    def coverage(
        self, terms: Sequence[str], positions: Positions, allowed: Allowed
    ) -> Sequence[float]:
        places = self._places(positions)
        counts = [0] * len(terms)
        has = np.zeros((len(terms), len(places)), np.bool_)
        stored = [words.stored(term) for term in terms]
        for at, (segment, mask) in enumerate(self._masked(allowed)):
            own = [number for number, place in enumerate(places) if place[0] == at]
            rows = [places[number][1] for number in own]
            for number, term in enumerate(stored):
                with_term, _ = words.postings(segment.words, term, mask)
                counts[number] += len(with_term)
                if len(with_term):
                    # Whether each row is among the ascending ones.
                    near = np.searchsorted(with_term, rows)
                    near = np.minimum(near, len(with_term) - 1)
                    has[number, own] = with_term[near] == rows
        rarities = [words.rarity(allowed.chunks, count) for count in counts]
        return words.coverage(has, rarities)

    def _places(self, positions: Positions) -> list[tuple[int, int]]:
        """Return the number of the segment and the row of each passage."""
        paths = sorted({path for path, _ in positions})
        first = {}
        for document in self.documents_at(paths):
            at = self._number[document.segment]
            first[document.path] = (
                at,
                self.view.segments[at].rows_of(document.place)[0],
            )
        places = []
        for path, ordinal in positions:
            at, row = first[path]
            places.append((at, row + ordinal))
        return places

    def passages(self, keys: Sequence[int]) -> Mapping[int, Passage]:
        columns = (
            "c.id, d.path, c.ordinal, c.content, c.text_hash, c.header_path, c.start_line, c.end_line,"
            " c.type, c.language, d.modified, d.tags, c.names, c.parent, d.title"
        )
        tables = f"{columns} FROM chunks c JOIN documents d ON d.id = c.document"
        found = {}
        for row in database.select(self.connection, tables, "c.id", keys):
            key, *shown, tags, names, parent, title = row
            rest = [texts_of(tags), texts_of(names), parent, title]
            found[key] = Passage(*shown, *rest)
        if len(found) < len(set(keys)):
            directory = self.view.segments[0].directory
            raise IndexDamaged(directory, "passages without a text")
        return found

    def parents(self, wanted: Positions) -> Mapping[tuple[str, int], Parent]:
        found = {}
        for path, number in wanted:
            rows = self.connection.execute(
                "SELECT p.content, p.header_path, p.start_line, p.end_line FROM parents p"
                " JOIN documents d ON d.id = p.document WHERE d.path = ? AND p.number = ?",
                (path, number),
            )
            for row in rows:
                found[path, number] = Parent(*row)
        return found


def _hits(segment: Segment, rows: Rows, scores: Scores) -> list[Hit]:
    keys = segment.rows["chunk"][rows].tolist()
    return list(map(Hit, keys, scores.tolist()))
