"""The index of a root on a server: snapshots of its newest generation, and the way to write it."""

import math
import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tamis.errors import (
    BadSetting,
    EngineFault,
    EngineMissing,
    IndexMismatch,
    IndexMissing,
)
from tamis.index.embedded import words as bm25f
from tamis.index.embedded.database import SCHEMA_VERSION
from tamis.index.links import Written, degrees, each_once, edges_of
from tamis.index.protocol import (
    Allowed,
    Capabilities,
    Concept,
    Edge,
    Hit,
    LaneAsk,
    Layout,
    Prepared,
)
from tamis.index.qdrant import lanes
from tamis.index.qdrant.lanes import Rows
from tamis.index.qdrant.lease import Sightings
from tamis.index.qdrant.native import native
from tamis.index.qdrant.points import (
    MEANING,
    WORDS,
    Ask,
    Native,
    Payload,
    Points,
    Row,
    any_of,
    id_of,
    key_of,
    term_number,
    visible,
    with_ids,
)
from tamis.index.qdrant.records import (
    FACTS,
    PASSAGE,
    read_facts,
    read_links,
    read_parents,
    read_passage,
    read_prepared,
    read_state,
    stamps_of,
)
from tamis.index.qdrant.writer import (
    QdrantWriter,
    new_record,
    open_writer,
    record_id,
    skipped_id,
)
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
from tamis.query.filters import EVERYTHING, Filter, Language, Tag, Type, allows, atoms
from tamis.query.filters import NOTHING as NO_ROW
from tamis.settings import API_KEY_VARIABLE, Settings

_FIELDS: Final = ("filePath", "aliases", "links", "linkKeys")


@dataclass(frozen=True, slots=True)
class LinkedDocument:
    path: str
    aliases: tuple[str, ...]
    payload: Payload = field(compare=False)


@dataclass(frozen=True, slots=True)
class PointLinks:
    """Documents by what they are called and by what their links look for.

    `look_ahead` hears of the documents that come up, so that their allowed chunks are asked for together.
    """

    points: Points
    conditions: Sequence[Native]  # for the documents of a generation
    look_ahead: Callable[[Sequence[str]], object]

    def documents_at(self, paths: Sequence[str]) -> list[LinkedDocument]:
        return self._documents("filePath", paths)

    def documents_named(self, names: Sequence[str]) -> list[LinkedDocument]:
        return self._documents("linkKeys", names)

    def names(self, documents: Sequence[LinkedDocument]) -> list[str]:
        return sorted(
            {name for document in documents for name in document.payload["linkKeys"]}
        )

    def links_from(
        self, documents: Sequence[LinkedDocument]
    ) -> list[Written[LinkedDocument]]:
        return [
            (each, link, name)
            for each in documents
            for link, name in read_links(each.payload)
        ]

    def links_to(self, names: Sequence[str]) -> list[Written[LinkedDocument]]:
        wanted = set(names)
        written = self.links_from(self._documents("looksFor", names))
        return [each for each in written if each[2] in wanted]

    def _documents(self, field: str, values: Sequence[str]) -> list[LinkedDocument]:
        if not values:
            return []
        rows = self.points.find(
            {"must": [*self.conditions, any_of(field, values)]}, _FIELDS
        )
        found = [
            LinkedDocument(
                row.payload["filePath"], tuple(row.payload["aliases"]), row.payload
            )
            for row in rows
        ]
        self.look_ahead([document.path for document in found])
        return found


_CACHED_FILTERS: Final = 32
_REMEMBERED: Final = (
    4_096  # documents whose chunks and links are kept with a filter's rows
)
_PORTION: Final = 64  # documents that are copied at a time
_KINDS: Final = 1000  # more types or languages than there are


@dataclass(frozen=True, slots=True)
class View:
    """One generation of a root, for all threads; nothing in it changes but caches."""

    record: Payload
    allowed: dict[Filter, Allowed] = field(default_factory=dict)
    listed: list[Facts] = field(
        default_factory=list
    )  # every document, when a filter first asks

    @property
    def generation(self) -> int:
        return int(self.record["generation"])


class QdrantSnapshot:
    """A view, and what this search has seen of it."""

    def __init__(
        self, points: Points, address: Address, view: View, *, exact: bool
    ) -> None:
        self._points, self._address, self._view, self._exact = (
            points,
            address,
            view,
            exact,
        )
        self._seen: dict[int, Row] = {}
        self._ids: dict[tuple[str, int], str] = {}

    @property
    def state(self) -> IndexState:
        record, facts = self._view.record, self.about
        return IndexState(
            self._view.generation,
            record["documents"],
            record["chunkCount"],
            facts.get("pending", 0),
            iso_time(facts.get("built_at", 0.0)),
        )

    @property
    def about(self) -> Mapping[str, Any]:
        facts: dict[str, Any] = self._view.record["facts"]
        return facts

    @property
    def segments(self) -> int:
        """Those are the server's own."""
        return 0

    def allow(self, filter: Filter) -> Allowed:
        known = self._view.allowed.get(filter)
        if known is None:
            if len(self._view.allowed) >= _CACHED_FILTERS:
                self._view.allowed.clear()
            known = self._view.allowed[filter] = self._allow(filter)
        return known

    def _allow(self, filter: Filter) -> Allowed:
        state = self.state
        condition = native(filter, self._listed, self.about.get("archive", ()))
        rows = Rows({"must": [*self._visible("chunk"), condition]})
        if filter == EVERYTHING:
            return Allowed(rows, state.chunks, state.documents)
        chunks = self._points.count(rows.native)
        if not chunks or not _cuts(filter):
            with_text = {"key": "chunks", "range": {"gt": 0}}
            whole = {"must": [*self._visible("document"), with_text, condition]}
            return Allowed(rows, chunks, self._points.count(whole) if chunks else 0)
        return Allowed(rows, chunks, len(self._paths(rows.native)))

    def _paths(self, native: Native) -> list[str]:
        """The documents that such chunks are of."""
        return self._points.distinct("filePath", native, max(self.state.documents, 1))

    def _visible(self, kind: str) -> list[Native]:
        return visible(self._address.root, self._view.generation, kind)

    def _listed(self) -> list[Facts]:
        if not self._view.listed:
            rows = self._points.find({"must": self._visible("document")}, FACTS)
            self._view.listed[:] = sorted(
                (read_facts(row.payload) for row in rows), key=lambda each: each.path
            )
        return self._view.listed

    def documents(self, filter: Filter) -> list[str]:
        return [
            facts.path for facts in self._listed() if allows(filter, facts, "", None)
        ]

    def facts(self) -> Iterator[Facts]:
        return iter(self._listed())

    def facts_of(self, allowed: Allowed) -> Iterator[Facts]:
        paths = set(self._paths(allowed.rows.native))
        return (facts for facts in self._listed() if facts.path in paths)

    def kinds(self, allowed: Allowed) -> tuple[Counter[str], Counter[str]]:
        native: Native = allowed.rows.native
        types, languages = (
            self._documents_by(name, native) for name in ("chunk_type", "language")
        )
        return types, languages

    def _documents_by(self, name: str, native: Native) -> Counter[str]:
        values = self._points.distinct(name, native, _KINDS)
        having = {value: {"must": [native, any_of(name, [value])]} for value in values}
        return Counter(
            {value: len(self._paths(these)) for value, these in having.items()}
        )

    def aliases(self, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
        which = {"must": [*self._visible("document"), any_of("filePath", paths)]}
        rows = self._points.find(which, ("filePath", "aliases")) if paths else []
        return {row.payload["filePath"]: tuple(row.payload["aliases"]) for row in rows}

    def file_states(self) -> dict[str, FileState]:
        rows = self._points.find(
            {"must": self._visible("document")}, ("filePath", "state")
        )
        return {
            row.payload["filePath"]: read_state(row.payload["state"]) for row in rows
        }

    def stamps(self, recipe: str) -> dict[str, Stamps]:
        return stamps_of(self.file_states(), recipe)

    def skipped(self) -> tuple[Skipped, ...]:
        rows = self._points.get([skipped_id(self._address.root)])
        return tuple(
            sorted(
                (Skipped(*item) for row in rows for item in row.payload["skipped"]),
                key=_path,
            )
        )

    def warnings(self) -> dict[str, str]:
        rows = self._points.find(
            {"must": self._visible("document")}, ("filePath", "warning")
        )
        odd = {row.payload["filePath"]: row.payload["warning"] for row in rows}
        return {path: odd[path] for path in sorted(odd) if odd[path]}

    def prepared(self) -> Iterator[Prepared]:
        paths = [facts.path for facts in self._listed()]
        for at in range(0, len(paths), _PORTION):
            yield from self._prepared(paths[at : at + _PORTION])

    def _prepared(self, paths: Sequence[str]) -> Iterator[Prepared]:
        which = any_of("filePath", paths)
        chunks: dict[str, list[Row]] = {path: [] for path in paths}
        for row in self._points.find(
            {"must": [*self._visible("chunk"), which]}, (), (MEANING,)
        ):
            chunks[row.payload["filePath"]].append(row)
        rows = self._points.find({"must": [*self._visible("document"), which]})
        documents = {row.payload["filePath"]: row for row in rows}
        dimension = int(self.about.get("dimension", 0))
        yield from (
            read_prepared(documents[path], chunks[path], dimension) for path in paths
        )

    def lanes(
        self, asks: Sequence[LaneAsk], allowed: Allowed, depth: int
    ) -> Mapping[Lane, Sequence[Hit]]:
        found = lanes.search(self._points, asks, allowed, depth, exact=self._exact)
        for rows in found.values():
            self._note(rows)
        return {
            ask.lane: lanes.hits(ask, found[ask.lane], allowed, exact=self._exact)
            for ask in asks
        }

    def _note(self, rows: Sequence[Row]) -> None:
        """Remember what came along: showing it, or comparing it, then needs no request."""
        for row in rows:
            key, known = key_of(row.id), self._seen.get(key_of(row.id))
            self._seen[key] = (
                replace(row, meaning=known.meaning)
                if known and row.meaning is None
                else row
            )
            self._ids[row.payload["filePath"], int(row.payload["chunkId"])] = row.id

    def concepts(self, *_: object) -> Sequence[Concept] | None:
        """There is no vocabulary on a server."""
        return None

    def links(self, paths: Sequence[str], allowed: Allowed) -> Sequence[Edge]:
        return each_once(self._edges_of(paths, allowed))

    def degrees(self, paths: Sequence[str], allowed: Allowed) -> Mapping[str, int]:
        return degrees(self._edges_of(paths, allowed))

    def _edges_of(
        self, paths: Sequence[str], allowed: Allowed
    ) -> dict[str, tuple[Edge, ...]]:
        library = PointLinks(
            self._points,
            self._visible("document"),
            partial(self._chunks, allowed=allowed),
        )
        is_allowed = partial(self._is_allowed, allowed)
        return edges_of(library, paths, is_allowed, allowed.rows.links)

    def _is_allowed(
        self, allowed: Allowed, document: LinkedDocument, ordinal: int | None
    ) -> bool:
        own = self._chunks([document.path], allowed)[document.path]
        return bool(own) if ordinal is None else any(each == ordinal for each, _ in own)

    def _chunks(
        self, paths: Sequence[str], allowed: Allowed
    ) -> Mapping[str, tuple[tuple[int, int], ...]]:
        """The allowed chunks of documents, ordinal and key, in order."""
        known: dict[str, tuple[tuple[int, int], ...]] = allowed.rows.chunks
        if len(known) > _REMEMBERED:
            known.clear()
        new = list(dict.fromkeys(path for path in paths if path not in known))
        if new:
            found: dict[str, list[tuple[int, int]]] = {path: [] for path in new}
            which = {"must": [allowed.rows.native, any_of("filePath", new)]}
            for row in self._points.find(which, ("filePath", "chunkId")):
                path, ordinal = row.payload["filePath"], int(row.payload["chunkId"])
                self._ids[path, ordinal] = row.id
                found[path].append((ordinal, key_of(row.id)))
            known.update({path: tuple(sorted(own)) for path, own in found.items()})
        return known

    def keys(
        self, paths: Sequence[str], allowed: Allowed
    ) -> Mapping[str, Sequence[int]]:
        chunks = self._chunks(paths, allowed)
        return {
            path: [key for _, key in chunks[path]] for path in paths if chunks[path]
        }

    def within(self, paths: Sequence[str], allowed: Allowed) -> Allowed:
        """A part of the rows; terms are counted anew among them."""
        keys = self.keys(paths, allowed)
        native = {"must": [allowed.rows.native, any_of("filePath", list(keys))]}
        return Allowed(
            Rows(native), sum(map(len, keys.values())), len(keys), late=allowed.late
        )

    def vectors(self, positions: Sequence[tuple[str, int]]) -> NDArray[np.float32]:
        found = np.zeros(
            (len(positions), int(self.about.get("dimension", 0))), np.float32
        )
        if not found.size:
            return found
        ids = self._ids_of(positions)
        seen = {each: self._seen.get(key_of(each)) for each in ids}
        known = {
            each: row.meaning
            for each, row in seen.items()
            if row and row.meaning is not None
        }
        new = [each for each in seen if each not in known]
        rows = self._points.get(new, ("chunkId",), (MEANING,)) if new else []
        known |= {row.id: row.meaning for row in rows if row.meaning is not None}
        for number, each in enumerate(ids):
            if each in known:
                found[number] = known[each]
        return found

    def coverage(
        self,
        terms: Sequence[str],
        positions: Sequence[tuple[str, int]],
        allowed: Allowed,
    ) -> Sequence[float]:
        rows: Rows = allowed.rows
        ids = self._ids_of(positions)
        new = list(lanes.uncounted([LaneAsk("words", None, tuple(terms))], rows))
        having = [self._having(term, ids) for term in terms] if ids else []
        answers = self._points.nearest(
            [*having, *(lanes.counting_ask(rows, *each) for each in new)]
        )
        lanes.remember(allowed, new, answers[len(having) :])
        has = np.zeros((len(terms), len(ids)), np.bool_)
        for number, answer in enumerate(answers[: len(having)]):
            with_term = {row.id for row in answer}
            has[number] = [each in with_term for each in ids]
        counts = [rows.frequencies[WORDS, term] for term in terms]
        return bm25f.coverage(
            has, [bm25f.rarity(allowed.chunks, count) for count in counts]
        )

    def _having(self, term: str, ids: Sequence[str]) -> Ask:
        """Which of some rows have a term: a search for it alone finds no others."""
        among = {"must": [with_ids(list(dict.fromkeys(ids)))]}
        return Ask(WORDS, {term_number(term): 1.0}, among, len(ids), among)

    def _ids_of(self, positions: Sequence[tuple[str, int]]) -> list[str]:
        missing = [
            path for path, ordinal in positions if (path, ordinal) not in self._ids
        ]
        if missing:
            self._chunks(missing, self.allow(EVERYTHING))
            for path in missing:
                self._ids |= {
                    (path, at): id_of(key)
                    for at, key in self.allow(EVERYTHING).rows.chunks[path]
                }
        return [self._ids[position] for position in positions]

    def passages(self, keys: Sequence[int]) -> Mapping[int, Passage]:
        new = [key for key in dict.fromkeys(keys) if key not in self._seen]
        self._note(
            self._points.get([id_of(key) for key in new], PASSAGE) if new else []
        )
        if any(key not in self._seen for key in new):
            hint = "a run has replaced what this search had found: ask again"
            raise EngineFault(f"passages of {self._address} are gone", hint=hint)
        return {key: read_passage(self._seen[key].payload) for key in keys}

    def parents(
        self, wanted: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], Parent]:
        if not wanted:
            return {}
        paths = sorted({path for path, _ in wanted})
        which = {"must": [*self._visible("document"), any_of("filePath", paths)]}
        rows = self._points.find(which, ("filePath", "parents"))
        sections = {row.payload["filePath"]: read_parents(row.payload) for row in rows}
        return {
            (path, number): sections[path][number]
            for path, number in wanted
            if path in sections and 0 <= number < len(sections[path])
        }


def _path(item: Skipped) -> str:
    return item.path


def _cuts(filter: Filter) -> bool:
    """Whether a filter can let a part of a document through."""
    return any(
        isinstance(atom, Type | Language)
        or (isinstance(atom, Tag) and atom.implied != NO_ROW)
        for atom in atoms(filter)
    )


class QdrantIndex:
    """Notices new generations by itself; for any number of threads."""

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
        """`archive` are the patterns that a new index marks documents by; `dimension` is the model's, asked
        for when there is no collection yet."""
        self.address, self._points = address, points
        self._exact, self._archive, self._dimension = exact, archive, dimension
        self.sightings = Sightings(clock)
        self._lock = threading.Lock()
        self._view: View | None = None

    @property
    def place(self) -> Address:
        return self.address

    def is_usable(self) -> bool:
        """The server vouches for what it stores."""
        return True

    def missing(self, root: Path) -> IndexMissing:  # noqa: ARG002
        return IndexMissing(self.address)

    def owner_of(self, root: Path) -> str:
        """The root across machines."""
        return f"{platform.node()}:{root}"

    def check_owner(self, root: Path, facts: Mapping[str, Any]) -> None:
        owner = self.owner_of(root)
        if facts.get("root", owner) != owner:
            raise IndexMismatch(
                f"{self.address} is indexed from {facts['root']}",
                hint="give this folder a name of its own with engine.root, or take that one over: "
                f"tamis rebuild-index {root} --engine {self.address.url} --take-over",
            )

    def stored_facts(self) -> Mapping[str, Any]:
        record = self._record()
        if record is None:
            return {}
        facts: dict[str, Any] = record["facts"]
        return facts

    def sizes(self) -> dict[str, int]:
        """Nothing is stored on this machine."""
        return {}

    def exists(self) -> bool:
        record = self._record()
        return record is not None and bool(
            record["generation"] or record["facts"].get("built_at")
        )

    @contextmanager
    def snapshot(self) -> Iterator[QdrantSnapshot]:
        record = self._record()
        if record is None or not (
            record["generation"] or record["facts"].get("built_at")
        ):
            raise IndexMissing(self.address)
        with self._lock:
            if self._view is None or self._view.record != record:
                self._view = _renewed(self._view, record)
            view = self._view
        yield QdrantSnapshot(self._points, self.address, view, exact=self._exact)

    def create(self, layout: Layout) -> None:
        self._points.prepare(self._dimension(), layout)

    def open_for_writing(
        self,
        timeout: float,
        waiting: Callable[[str], None],
        boosts: Mapping[str, float],
        memory: float = math.inf,  # noqa: ARG002
        *,
        discard: bool = False,
    ) -> AbstractContextManager[QdrantWriter]:
        """Nothing is merged here, so `memory` is not needed."""
        if self._points.dimension() is None:
            self._points.prepare(self._dimension())
        if self._record() is None:
            self._points.put([new_record(self.address.root)], only_new=True)
        opened = (self._points, self.address, self._archive, timeout, waiting, boosts)
        return open_writer(*opened, discard=discard, sightings=self.sightings)

    def close(self) -> None:
        self._points.close()

    def _record(self) -> Payload | None:
        rows = self._points.get([record_id(self.address.root)])
        return rows[0].payload if rows else None


def _renewed(view: View | None, record: Payload) -> View:
    """A generation keeps what was worked out about it, while facts beside it change."""
    if view is None or view.generation != record["generation"]:
        return View(record)
    return View(record, view.allowed, view.listed)


def open_index(
    root: Path,
    settings: Settings,
    environment: Mapping[str, str],
    dimension: Callable[[], int],
) -> QdrantIndex:
    """The index that the settings name. Asks the server nothing yet."""
    address, key = address_of(root, settings), environment.get(API_KEY_VARIABLE) or None
    if key and not (key.isascii() and key.isprintable()):  # and none of it is shown
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
        raise EngineMissing from error
    points = connect(address, settings.engine, key)
    archive = settings.archive.globs
    return QdrantIndex(
        points, address, exact=settings.engine.exact, archive=archive, dimension=dimension
    )  # fmt: skip


def address_of(root: Path, settings: Settings) -> Address:
    engine = settings.engine
    return Address(
        engine.url.rstrip("/"), engine.collection, engine.root or root.name or "root"
    )


def _is_safe(url: str) -> bool:
    """Encrypted, or on this machine."""
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0]
    name = (
        host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    )
    return scheme == "https" or name in ("localhost", "::1") or name.startswith("127.")
