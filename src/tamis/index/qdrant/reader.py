"""The index of a root on a server: snapshots of its newest generation, and the way to write it."""

import math
import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import numpy as np

from tamis.errors import (
    BadSetting,
    EngineFault,
    EngineMissing,
    IndexMismatch,
    IndexMissing,
)
from tamis.index.embedded import words as bm25f
from tamis.index.embedded.database import SCHEMA_VERSION
from tamis.index.links import EdgesOf, LinkedSnapshot, Written, edges_of
from tamis.index.protocol import (
    Allowed,
    Capabilities,
    Concept,
    Hit,
    IndexFacts,
    LaneAsk,
    Layout,
    Paths,
    Positions,
    Prepared,
    Vectors,
)
from tamis.index.qdrant import lanes
from tamis.index.qdrant.lanes import Rows
from tamis.index.qdrant.points import (
    FACTS,
    MEANING,
    PASSAGE,
    WORDS,
    Native,
    Payload,
    Point,
    Points,
    any_of,
    bounded,
    equals,
    every,
    id_of,
    native,
    point_id,
    read_facts,
    read_links,
    read_parents,
    read_passage,
    read_prepared,
    read_state,
    stamps_of,
    term_number,
    visible,
)
from tamis.index.qdrant.writer import Lease, QdrantWriter, Sightings
from tamis.model import (
    Address,
    Facts,
    FileState,
    IndexState,
    Lane,
    Parent,
    Passage,
    Skipped,
    Stamps,
    iso_time,
)
from tamis.query.filters import (
    EVERYTHING,
    NOTHING,
    Filter,
    Language,
    Tag,
    Type,
    allows,
    atoms,
)
from tamis.settings import API_KEY_VARIABLE, Settings

_CACHED_FILTERS = 32
_CACHED_DOCUMENTS = 4_096  # whose chunks and links are kept for a filter
_PORTION = 64  # documents that are copied at a time
_KINDS = 1000  # more types or languages than there are

Chunks = Mapping[str, tuple[tuple[int, int], ...]]  # ordinals and keys, by path


@dataclass(frozen=True, slots=True)
class View:
    """One generation of a root, for all threads; only its caches change."""

    record: Payload
    allowed: dict[Filter, Allowed] = field(default_factory=dict)
    listed: list[Facts] = field(default_factory=list)  # of every document, once needed


class QdrantSnapshot(LinkedSnapshot):
    """A view, and the points that this search has seen of it."""

    segments = 0  # they are the server's own

    def __init__(
        self,
        points: Points,
        address: Address,
        view: View,
        *,
        exact: bool,
    ) -> None:
        self._points = points
        self._address = address
        self._view = view
        self._exact = exact
        self._seen: dict[int, Point] = {}
        self._ids: dict[tuple[str, int], str] = {}  # by path and ordinal

    @property
    def state(self) -> IndexState:
        return IndexState(
            self._view.record["generation"],
            self._view.record["documents"],
            self._view.record["chunkCount"],
            self.about.get("pending", 0),
            iso_time(self.about.get("built_at", 0.0)),
        )

    @property
    def about(self) -> IndexFacts:
        return dict(self._view.record["facts"])

    # --- Filters ---

    def allow(self, filter: Filter) -> Allowed:
        known = self._view.allowed
        allowed = known.get(filter)
        if allowed is not None:
            return allowed
        condition = native(filter, self._listed, self.about.get("archive", ()))
        rows = Rows(self._visible("chunk", condition))
        documents = 0
        if filter == EVERYTHING:
            chunks = self.state.chunks
            documents = self.state.documents
        elif chunks := self._points.count(rows.native):
            if _cuts(filter):
                documents = len(self._paths(rows.native))
            else:
                with_text = bounded("chunks", gt=0)
                whole = self._visible("document", with_text, condition)
                documents = self._points.count(whole)
        if len(known) >= _CACHED_FILTERS:
            known.clear()
        return known.setdefault(filter, Allowed(rows, chunks, documents))

    def within(self, paths: Paths, allowed: Allowed) -> Allowed:
        keys = self.keys(paths, allowed)
        at_paths = any_of("filePath", list(keys))
        rows = Rows(every(allowed.rows.native, at_paths))
        chunks = sum(map(len, keys.values()))
        return Allowed(rows, chunks, len(keys), late=allowed.late)

    def _visible(self, kind: str, *also: Native) -> Native:
        generation = self._view.record["generation"]
        return visible(self._address.root, generation, kind, *also)

    def _paths(self, native: Native) -> list[str]:
        """The paths of some chunks."""
        most = max(self.state.documents, 1)
        return self._points.distinct("filePath", native, most)

    # --- Documents ---

    def _documents(self, *fields: str, paths: Paths | None = None) -> list[Point]:
        """All documents or those at some paths; without names of fields, with all of them."""
        which = self._visible("document")
        if paths is not None:
            which = self._visible("document", any_of("filePath", paths))
        if fields:
            fields = ("filePath", *fields)
        return list(self._points.find(which, fields))

    def _listed(self) -> list[Facts]:
        if not self._view.listed:
            documents = self._documents(*FACTS)
            listed = [read_facts(document.payload) for document in documents]
            self._view.listed[:] = sorted(listed, key=lambda facts: facts.path)
        return self._view.listed

    def documents(self, filter: Filter) -> list[str]:
        listed = self._listed()
        return [facts.path for facts in listed if allows(filter, facts, "", None)]

    def facts(self) -> Iterator[Facts]:
        return iter(self._listed())

    def facts_of(self, allowed: Allowed) -> Iterator[Facts]:
        paths = set(self._paths(allowed.rows.native))
        return (facts for facts in self._listed() if facts.path in paths)

    def kinds(self, allowed: Allowed) -> tuple[Counter[str], Counter[str]]:
        condition = allowed.rows.native
        types: Counter[str] = Counter()
        languages: Counter[str] = Counter()
        for name, counts in (("chunk_type", types), ("language", languages)):
            for value in self._points.distinct(name, condition, _KINDS):
                having = every(condition, equals(name, value))
                counts[value] = len(self._paths(having))
        return types, languages

    def aliases(self, paths: Paths) -> dict[str, tuple[str, ...]]:
        found = self._documents("aliases", paths=paths)
        return {each.path: each.aliases for each in found}

    def file_states(self) -> dict[str, FileState]:
        found = self._documents("state")
        return {each.path: read_state(each.payload) for each in found}

    def stamps(self, recipe: str) -> dict[str, Stamps]:
        return stamps_of(self.file_states(), recipe)

    def skipped(self) -> tuple[Skipped, ...]:
        found = []
        for point in self._points.get([point_id(self._address.root, "skipped")]):
            found += [Skipped(*item) for item in point.payload["skipped"]]
        return tuple(sorted(found, key=lambda item: item.path))

    def warnings(self) -> dict[str, str]:
        found = self._documents("warning")
        warnings = {each.path: each.payload["warning"] for each in found}
        return {path: text for path, text in sorted(warnings.items()) if text}

    def prepared(self) -> Iterator[Prepared]:
        every = [facts.path for facts in self._listed()]
        dimension = int(self.about.get("dimension", 0))
        for start in range(0, len(every), _PORTION):
            paths = every[start : start + _PORTION]
            chunks: dict[str, list[Point]] = {path: [] for path in paths}
            which = self._visible("chunk", any_of("filePath", paths))
            for chunk in self._points.find(which, (), (MEANING,)):
                chunks[chunk.path].append(chunk)
            documents = {each.path: each for each in self._documents(paths=paths)}
            for path in paths:
                yield read_prepared(documents[path], chunks[path], dimension)

    def parents(self, wanted: Positions) -> Mapping[tuple[str, int], Parent]:
        if not wanted:
            return {}
        paths = sorted({path for path, _ in wanted})
        found = {}
        for document in self._documents("parents", paths=paths):
            for number, parent in enumerate(read_parents(document.payload)):
                found[document.path, number] = parent
        return {each: found[each] for each in wanted if each in found}

    # --- Lanes ---

    def lanes(
        self,
        asks: Sequence[LaneAsk],
        allowed: Allowed,
        depth: int,
    ) -> Mapping[Lane, Sequence[Hit]]:
        exact = self._exact
        found = lanes.search(self._points, asks, allowed, depth, exact=exact)
        hits = {}
        for ask in asks:
            rows = found[ask.lane]
            self._note(rows)
            hits[ask.lane] = lanes.hits(ask, rows, allowed, exact=exact)
        return hits

    def concepts(self, *_: object) -> Sequence[Concept] | None:
        """There is no vocabulary on a server."""
        return None

    def coverage(
        self,
        terms: Sequence[str],
        positions: Positions,
        allowed: Allowed,
    ) -> Sequence[float]:
        rows: Rows = allowed.rows
        new = lanes.uncounted(LaneAsk("words", None, tuple(terms)), rows)
        asks = [lanes.counting(rows, term) for term in new]
        answers = self._points.nearest(asks)
        lanes.remember(allowed, new, answers)
        ids = self._ids_of(positions)
        found = {}
        for row in self._points.get(list(set(ids)), ("chunkId",), (WORDS,)):
            found[row.id] = row.terms[WORDS]
        has = np.zeros((len(terms), len(ids)), np.bool_)
        rarities = []
        for number, term in enumerate(terms):
            has[number] = [term_number(term) in found[each] for each in ids]
            frequency = rows.frequencies[WORDS, term]
            rarities.append(bm25f.rarity(allowed.chunks, frequency))
        return bm25f.coverage(has, rarities)

    # --- Passages ---

    def _note(self, rows: Sequence[Point]) -> None:
        """Keep what came along: showing it, or comparing it, then needs no request."""
        for row in rows:
            known = self._seen.get(row.key)
            if known is not None and row.meaning is None:
                row = replace(row, meaning=known.meaning)
            self._seen[row.key] = row
            self._ids[row.path, row.ordinal] = row.id

    def passages(self, keys: Sequence[int]) -> Mapping[int, Passage]:
        wanted = dict.fromkeys(keys)
        new = [id_of(key) for key in wanted if key not in self._seen]
        found = self._points.get(new, PASSAGE)
        self._note(found)
        if len(found) < len(new):
            hint = "a run has replaced what this search had found: ask again"
            raise EngineFault(f"passages of {self._address} are gone", hint=hint)
        return {key: read_passage(self._seen[key].payload) for key in keys}

    def vectors(self, positions: Positions) -> Vectors:
        dimension = int(self.about.get("dimension", 0))
        vectors = np.zeros((len(positions), dimension), np.float32)
        if not vectors.size:
            return vectors
        ids = self._ids_of(positions)
        known = {}
        for row in self._seen.values():
            if row.meaning is not None:
                known[row.id] = row.meaning
        new = [each for each in set(ids) if each not in known]
        for row in self._points.get(new, ("chunkId",), (MEANING,)):
            if row.meaning is not None:
                known[row.id] = row.meaning
        for number, each in enumerate(ids):
            if each in known:
                vectors[number] = known[each]
        return vectors

    def _ids_of(self, positions: Positions) -> list[str]:
        missing = [each[0] for each in positions if each not in self._ids]
        chunks = self._chunks(missing, self.allow(EVERYTHING))
        for path in missing:
            for ordinal, key in chunks[path]:
                self._ids[path, ordinal] = id_of(key)
        return [self._ids[position] for position in positions]

    def keys(self, paths: Paths, allowed: Allowed) -> Mapping[str, Sequence[int]]:
        chunks = self._chunks(paths, allowed)
        found = {}
        for path in paths:
            if chunks[path]:
                found[path] = [key for _, key in chunks[path]]
        return found

    def _chunks(self, paths: Paths, allowed: Allowed) -> Chunks:
        """The allowed chunks of documents, in order."""
        rows: Rows = allowed.rows
        known = rows.chunks
        if len(known) > _CACHED_DOCUMENTS:
            known.clear()
        new = [path for path in dict.fromkeys(paths) if path not in known]
        if new:
            found: dict[str, list[tuple[int, int]]] = {path: [] for path in new}
            which = every(rows.native, any_of("filePath", new))
            for row in self._points.find(which, ("filePath", "chunkId")):
                found[row.path].append((row.ordinal, row.key))
            for path, own in found.items():
                known[path] = tuple(sorted(own))
        return known

    # --- Links ---

    def touching(self, paths: Paths, allowed: Allowed) -> EdgesOf:
        library = PointLinks(
            self._points,
            self._visible("document"),
            lambda some: self._chunks(some, allowed),
        )
        return edges_of(library, paths, library.is_allowed, allowed.rows.links)


@dataclass(frozen=True, slots=True)
class PointLinks:
    """Documents of a snapshot by their names, and by the names that their links look for."""

    points: Points
    documents: Native  # selects those of a generation
    chunks: Callable[[Paths], Chunks]  # the allowed ones of some documents

    def documents_at(self, paths: Paths) -> list[Point]:
        return self._documents("filePath", paths)

    def documents_named(self, names: Sequence[str]) -> list[Point]:
        return self._documents("linkKeys", names)

    def names(self, documents: Sequence[Point]) -> list[str]:
        names: set[str] = set()
        for document in documents:
            names.update(document.payload["linkKeys"])
        return sorted(names)

    def links_from(self, documents: Sequence[Point]) -> list[Written]:
        found = []
        for each in documents:
            for link, name in read_links(each.payload):
                found.append((each, link, name))
        return found

    def links_to(self, names: Sequence[str]) -> list[Written]:
        wanted = set(names)
        written = self.links_from(self._documents("looksFor", names))
        return [each for each in written if each[2] in wanted]

    def is_allowed(self, document: Point, ordinal: int | None) -> bool:
        own = self.chunks([document.path])[document.path]
        if ordinal is None:
            return bool(own)
        return any(each == ordinal for each, _ in own)

    def _documents(self, field: str, values: Sequence[str]) -> list[Point]:
        if not values:
            return []
        which = every(self.documents, any_of(field, values))
        fields = ("filePath", "aliases", "links", "linkKeys")
        found = list(self.points.find(which, fields))
        # Ask for the chunks of all of them together; `is_allowed` then needs no request.
        self.chunks([document.path for document in found])
        return found


def _cuts(filter: Filter) -> bool:
    """Return True if the filter can let a part of a document through."""
    for atom in atoms(filter):
        if isinstance(atom, Type | Language):
            return True
        if isinstance(atom, Tag) and atom.implied != NOTHING:
            return True
    return False


class QdrantIndex:
    """The index of a root on a server, for any number of threads."""

    capabilities: Final = Capabilities(
        updated_by_search=False, any_root_may_search=True, examinable=False
    )
    format: Final = SCHEMA_VERSION

    def __init__(
        self,
        points: Points,
        address: Address,
        *,
        exact: bool,
        archive: Sequence[str],
        dimension: Callable[[], int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A new index marks documents by the patterns `archive`.

        `dimension` is asked for the width of the model's vectors if there is no collection yet.
        """
        self.place = address
        self.sightings = Sightings(clock)
        self._points = points
        self._exact = exact
        self._archive = archive
        self._dimension = dimension
        self._lock = threading.Lock()
        self._view: View | None = None

    def is_usable(self) -> bool:
        """The server vouches for what it stores."""
        return True

    def missing(self, root: Path) -> IndexMissing:  # noqa: ARG002
        return IndexMissing(self.place)

    def owner_of(self, root: Path) -> str:
        """The root across machines."""
        return f"{platform.node()}:{root}"

    def check_owner(self, root: Path, facts: IndexFacts) -> None:
        owner = self.owner_of(root)
        if facts.get("root", owner) != owner:
            raise IndexMismatch(
                f"{self.place} is indexed from {facts['root']}",
                hint="give this folder a name of its own with engine.root, or take that one over: "
                f"tamis rebuild-index {root} --engine {self.place.url} --take-over",
            )

    def stored_facts(self) -> IndexFacts:
        record = self._record()
        return dict(record["facts"]) if record else {}

    def sizes(self) -> dict[str, int]:
        """Nothing is stored on this machine."""
        return {}

    def exists(self) -> bool:
        return self._written_record() is not None

    @contextmanager
    def snapshot(self) -> Iterator[QdrantSnapshot]:
        record = self._written_record()
        if record is None:
            raise IndexMissing(self.place)
        with self._lock:
            view = self._view
            if view is None or view.record["generation"] != record["generation"]:
                view = View(record)
            elif view.record != record:
                # Facts beside the generation have changed, so its caches still hold.
                view = View(record, view.allowed, view.listed)
            self._view = view
        yield QdrantSnapshot(self._points, self.place, view, exact=self._exact)

    def create(self, layout: Layout) -> None:
        self._points.prepare(self._dimension(), layout)

    @contextmanager
    def open_for_writing(
        self,
        timeout: float,
        waiting: Callable[[str], None],
        boosts: Mapping[str, float],
        memory: float = math.inf,  # noqa: ARG002
        *,
        discard: bool = False,
    ) -> Iterator[QdrantWriter]:
        """Become the writer, and clear up after one that died. Nothing is merged, so `memory` is unused."""
        if self._points.dimension() is None:
            self._points.prepare(self._dimension())
        lease = Lease(self._points, self.place, self.sightings)
        with lease.held(timeout, waiting):
            writer = QdrantWriter(
                self._points,
                self.place.root,
                lease,
                boosts,
                self._archive,
            )
            writer.take_back()
            if discard:
                writer.discard()
            yield writer

    def close(self) -> None:
        self._points.close()

    def _record(self) -> Payload | None:
        found = self._points.get([point_id(self.place.root, "record")])
        return found[0].payload if found else None

    def _written_record(self) -> Payload | None:
        """The record of the root, if a run has written anything."""
        record = self._record()
        if record is None:
            return None
        is_written = record["generation"] or record["facts"].get("built_at")
        return record if is_written else None


def open_index(
    root: Path,
    settings: Settings,
    environment: Mapping[str, str],
    dimension: Callable[[], int],
) -> QdrantIndex:
    """Open the index that the settings name. Nothing is sent to the server yet."""
    engine = settings.engine
    name = engine.root or root.name or "root"
    address = Address(engine.url.rstrip("/"), engine.collection, name)
    key = environment.get(API_KEY_VARIABLE) or None
    if key and not (key.isascii() and key.isprintable()):
        # The message shows no part of the key.
        raise BadSetting(
            f"{API_KEY_VARIABLE} has a character that no key can have",
            hint="set it again; one that was read from a file may end in a line end",
        )
    if key and not _is_safe(address.url):
        raise BadSetting(
            f"{API_KEY_VARIABLE} would go to {address.url} in the clear",
            hint="use an address with https://",
        )
    try:
        from tamis.index.qdrant.client import connect
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "qdrant_client":
            raise
        raise EngineMissing(
            "engine.url is set, and the library for Qdrant servers is not installed",
            hint='run: pip install "tamis[qdrant]"',
        ) from error
    return QdrantIndex(
        connect(address, key, exact=engine.exact),
        address,
        exact=engine.exact,
        archive=settings.archive.globs,
        dimension=dimension,
    )


def _is_safe(url: str) -> bool:
    """Return True for an address that is encrypted or on this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme == "https" or host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
