"""Writing: new segments, tombstones and merges, each made final by one SQLite transaction."""

import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tamis.engine import Prepared
from tamis.engine.embedded import (
    checksums,
    concepts,
    store,
    stored_documents,
    stored_links,
    stored_segments,
    vectors,
    words,
)
from tamis.engine.embedded.arrays import private, sync_folder
from tamis.engine.embedded.lock import writer_lock
from tamis.engine.embedded.merging import merged_files, merging_cost, segments_to_merge
from tamis.engine.embedded.segment import (
    Segment,
    pack_dead,
    row_codes,
    sweep,
    with_dead,
    write_segment,
)
from tamis.engine.embedded.stored_segments import SegmentRecord
from tamis.errors import BadFolder, IndexDamaged, StorageFault, storage_faults
from tamis.failpoints import reached
from tamis.identifiers import code_in, definitions, identifier_numbers, spoken
from tamis.languages import without_known_extension
from tamis.links import key_of, names_of
from tamis.model import INDEX_FOLDER, Chunk, Document, FileState, Skipped, Stamps
from tamis.text import storable, text_hash, word_numbers

# More segments than this make a search noticeably slower (10 cost half a millisecond, 30 twice the time).
_MOST_SEGMENTS: Final = 20
_MOST_AFTER_RUN: Final = 8


@dataclass(frozen=True, slots=True)
class Waiting:
    """A document that can be found by its words and still waits for its vectors."""

    path: str
    chunks: int
    modified: float
    linked: int  # how many links look for a name of its


ASIDE: Final = "anew"  # where an index is made that is to take the place of a damaged one
_FOLDERS: Final = frozenset({"segments", "concepts", ASIDE})
_OURS: Final = re.compile(
    r"\.gitignore|(?:writer|watch|concepts)\.lock|segments|concepts|anew"
    r"|index\.db(?:\.partial)?(?:-journal|-wal|-shm)?"
)


class Writer:
    """The one writer of an index. Each `put`, `remove` and `finish` is a generation of its own,
    unless the whole run is one transaction."""

    def __init__(
        self, directory: Path, connection: store.Connection, boosts: Mapping[str, float], memory: float
    ) -> None:
        """`memory` is how many bytes a merge may take, about: what does not fit stays in several segments."""
        self.directory = directory
        self.connection = connection
        self.boosts = boosts
        self.memory = memory
        self._obsolete: list[str] = []
        self._has_written = False

    @property
    def facts(self) -> dict[str, Any]:
        return store.facts(self.connection)

    def file_states(self) -> dict[str, FileState]:
        return stored_documents.file_states(self.connection)

    def stamps(self, recipe: str) -> dict[str, Stamps]:
        return stored_documents.stamps(self.connection, recipe)

    def dates(self) -> dict[str, float]:
        return stored_documents.dates(self.connection)

    def describe(self, values: Mapping[str, Any]) -> None:
        """Record facts about the index that are no generation of their own."""
        with self._transaction():
            store.set_facts(self.connection, values)

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Make everything in the block one generation: a rebuild shows when it is whole, or not at all."""
        self._has_written = True
        with store.transaction(self.connection):
            yield
        self._remove_obsolete()

    def clear(self) -> None:
        with self._transaction():
            self._obsolete += [record.folder for record in stored_segments.segments(self.connection)]
            store.clear(self.connection)

    def put(self, batch: Sequence[Prepared], pending: int) -> None:
        """Add documents, in place of those with the same paths."""
        ordered = sorted(batch, key=lambda prepared: prepared.document.path)
        first = stored_documents.next_chunk(self.connection)
        folder = write_segment(self.directory / "segments", _segment_files(ordered, first, self.boosts))
        reached("put.written")
        with self._generation(pending=pending):
            self._bury([prepared.document.path for prepared in ordered])
            rows = sum(len(prepared.document.chunks) for prepared in ordered)
            segment = self._register(folder, rows, len(ordered), ordered[0].vectors.shape[1])
            for place, prepared in enumerate(ordered):
                first = self._insert(prepared, segment, place, first)
                reached("put.document")
            self._sum_up([prepared.document.path for prepared in ordered])
        self._merge(_MOST_SEGMENTS)

    def waiting(self) -> list[Waiting]:
        """The documents that have no vectors yet."""
        return [Waiting(*row) for row in stored_segments.pending_documents(self.connection)]

    def texts_of(self, paths: Sequence[str]) -> dict[str, list[tuple[str, str, str]]]:
        return stored_documents.texts_to_embed(self.connection, paths)

    def embed(self, vectors_of: Mapping[str, NDArray[np.float32]]) -> None:
        """Give documents their vectors: their rows move, as they are, to a segment that has some."""
        documents = sorted(stored_segments.document_places(self.connection, list(vectors_of)))
        held = {segment for _, _, segment, _ in documents}
        records = [record for record in stored_segments.segments(self.connection) if record.id in held]
        files = merged_files([Segment(self.directory, record) for record in records], documents)
        together = np.concatenate([vectors_of[path] for path, *_ in documents])
        files["vectors"] = vectors.encode(together)
        folder = write_segment(self.directory / "segments", files)
        reached("embed.written")
        with self._generation():
            self._mark_dead([(segment, place) for _, _, segment, place in documents])
            new = self._register(folder, len(together), len(documents), together.shape[1])
            self._move(new, documents)
        self._merge(_MOST_SEGMENTS)

    def remove(self, paths: Sequence[str]) -> None:
        if paths:
            with self._generation():
                self._bury(paths)

    def touch(self, files: Sequence[tuple[str, FileState, float]]) -> None:
        """Record new times of files whose content is as it was."""
        with self._transaction():
            moved = [stored_documents.update_state(self.connection, *file) for file in files]
            self._sum_up([path for path, _, _ in files])
            if any(moved):
                self._count_generation()

    def finish(self, skipped: Sequence[Skipped], facts: Mapping[str, Any]) -> None:
        """Every file is in: nothing is pending but vectors. `facts` are what the next run wants to know.

        A run that has found everything as it was writes nothing: a commit costs more than the look.
        """
        self.tidy()
        if self._is_told(skipped, facts):
            return
        with self._transaction():
            stored_documents.replace_skipped(self.connection, skipped)
            store.set_facts(self.connection, {**facts, "pending": 0, "built_at": time.time()})

    def _is_told(self, skipped: Sequence[Skipped], facts: Mapping[str, Any]) -> bool:
        """Whether the index says all this already, of a run that began earlier."""
        known = self.facts
        if self._has_written or known["pending"] or not known["built_at"]:
            return False
        same = all(known.get(name) == value for name, value in facts.items() if name != "began")
        return same and set(stored_documents.skipped(self.connection)) == set(skipped)

    def tidy(self) -> None:
        """Leave few segments for searches to meet."""
        self._merge(_MOST_AFTER_RUN)

    @property
    def generation(self) -> int:
        return store.generation(self.connection)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._has_written = True
        with nullcontext() if self.connection.in_transaction else store.transaction(self.connection):
            yield

    @contextmanager
    def _generation(self, **changed: Any) -> Iterator[None]:
        with self._transaction():
            yield
            self._count_generation()
            store.set_facts(self.connection, changed)

    def _count_generation(self) -> None:
        store.set_facts(self.connection, {"generation": store.generation(self.connection) + 1})

    def _insert(self, prepared: Prepared, segment: int, place: int, first: int) -> int:
        document = prepared.document
        columns = {
            "path": document.path,
            "segment": segment,
            "place": place,
            "chunks": len(document.chunks),
            "title": document.title,
            "author": document.front.author,
            "category": document.front.category,
            "modified": document.modified,
            "tags": store.stored_texts(document.front.tags),
            "aliases": store.stored_texts(document.front.aliases),
            "keywords": store.stored_texts(document.front.keywords),
            "description": document.front.description,
            "warning": storable(document.warning),
            **prepared.state._asdict(),
        }
        key = stored_documents.add_document(self.connection, columns)
        chunks = [(first + at, chunk, text_hash(chunk.content)) for at, chunk in enumerate(document.chunks)]
        stored_documents.add_chunks(self.connection, key, chunks)
        if document.parents:
            stored_documents.add_parents(self.connection, key, document.parents)
        if document.links:
            links = [(link, key_of(link, document.path)) for link in document.links]
            stored_links.add_links(self.connection, key, [(link, name) for link, name in links if name])
        stored_links.add_names(self.connection, key, names_of(document.path, document.front.aliases))
        return first + len(chunks)

    def _sum_up(self, paths: Sequence[str]) -> None:
        keys = [key for _, key, _, _ in stored_segments.document_places(self.connection, paths)]
        checksums.set_sums(self.connection, keys)

    def _bury(self, paths: Sequence[str]) -> None:
        self._mark_dead(stored_documents.remove_documents(self.connection, paths))

    def _mark_dead(self, gone: Sequence[tuple[int, int]]) -> None:
        places: dict[int, list[int]] = {}
        for segment, place in gone:
            places.setdefault(segment, []).append(place)
        for record in stored_segments.segments(self.connection):
            if record.id in places:
                stored_segments.set_dead(self.connection, record.id, with_dead(record, places[record.id]))

    def _register(self, folder: str, rows: int, documents: int, dimension: int) -> int:
        none_dead = pack_dead(np.zeros(documents, np.bool_))
        return stored_segments.add_segment(self.connection, folder, rows, documents, none_dead, dimension)

    def _move(self, segment: int, documents: Sequence[tuple[str, int, int, int]]) -> None:
        moves = ((segment, place, key) for place, (_, key, _, _) in enumerate(documents))
        stored_segments.move_documents(self.connection, moves)

    def _merge(self, most: int) -> None:
        """Rows with vectors and rows that still wait for theirs stay apart."""
        records = stored_segments.segments(self.connection)
        for dimension in {record.dimension for record in records}:
            alike = [record for record in records if record.dimension == dimension]
            costs = {record.id: merging_cost(self.directory, record) for record in alike}
            self._merge_all(segments_to_merge(alike, most, costs, self.memory), dimension)

    def _merge_all(self, chosen: Sequence[SegmentRecord], dimension: int) -> None:
        if not chosen:
            return
        documents = sorted(stored_segments.segment_paths(self.connection, [record.id for record in chosen]))
        merged = merged_files([Segment(self.directory, record) for record in chosen], documents)
        folder = write_segment(self.directory / "segments", merged) if documents else ""
        reached("merge.written")
        with self._generation():
            stored_segments.drop_segments(self.connection, [record.id for record in chosen])
            if documents:
                rows = len(merged["rows"]["chunk"])
                self._move(self._register(folder, rows, len(documents), dimension), documents)
        self._obsolete += [record.folder for record in chosen]
        reached("merge.committed")
        if not self.connection.in_transaction:
            self._remove_obsolete()

    def _remove_obsolete(self) -> None:
        """Readers that have these mapped keep them; readers that come too late look again."""
        for folder in self._obsolete:
            shutil.rmtree(self.directory / "segments" / folder, ignore_errors=True)
            reached("obsolete.removed")
        self._obsolete.clear()


@contextmanager
def open_for_writing(
    directory: Path,
    timeout: float,
    waiting: Callable[[str], None],
    boosts: Mapping[str, float],
    memory: float = math.inf,
    *,
    discard: bool = False,
) -> Iterator[Writer]:
    """Lock the index, make it where there is none, clear up after a writer that died.

    With `discard`, what is there is thrown away unread: the way out of a damaged index.
    """
    make_folder(directory)
    with (
        writer_lock(directory, timeout, waiting),
        store.database_faults(directory),
        storage_faults(directory),
    ):
        if discard:
            _discard(directory)
        connection = store.open_writer(directory)
        try:
            records = stored_segments.segments(connection)
            _clear_up(directory, records)
            _check_segments(directory, records)
            yield Writer(directory, connection, boosts, memory)
        finally:
            connection.close()


@contextmanager
def sole_watcher(directory: Path) -> Iterator[Callable[[], bool]]:
    """Be the one who watches the files of an index, which need not be there yet.

    Gives a way to ask whether we still are. Where another process is, that is an `IndexLocked`.
    """
    make_folder(directory)
    with writer_lock(directory, 0, lambda _: None, "watch.lock") as held:
        yield held


def _clear_up(directory: Path, records: Sequence[SegmentRecord]) -> None:
    """Remove what a writer that died has left, whatever it was doing."""
    sweep(directory / "segments", {record.folder for record in records})
    for file in directory.glob("index.db.partial*"):
        file.unlink(missing_ok=True)
    shutil.rmtree(directory / ASIDE, ignore_errors=True)


def _check_segments(directory: Path, records: Sequence[SegmentRecord]) -> None:
    """See that every segment opens: adding to an index that cannot be searched would only hide it."""
    try:
        for record in records:
            Segment(directory, record)
    except FileNotFoundError as error:
        raise IndexDamaged(directory, f"{error.filename} is missing") from error


def make_folder(directory: Path) -> None:
    """Make the index's folder, or check that the one that is there can be it."""
    with storage_faults(directory):
        fault = unfit(directory)
        if fault:
            hint = "move it away, or choose another place with --index-dir or TAMIS_INDEX_DIR"
            raise StorageFault(f"{directory} {fault}", hint=hint)
        if (directory / "segments").is_dir():  # made last
            return
        inside = directory.name == INDEX_FOLDER
        if inside and not directory.parent.is_dir():  # a folder that was deleted must not come back by us
            raise BadFolder(f"{directory.parent} does not exist", hint="give the folder to search")
        directory.mkdir(mode=0o700, parents=not inside, exist_ok=True)
        if not any(directory.iterdir()):
            write_ignore_file(directory)
        (directory / "segments").mkdir(mode=0o700, exist_ok=True)
        sync_folder(directory)


def unfit(directory: Path) -> str:
    """Why a folder cannot hold an index. A checkout may come with links that lead elsewhere."""
    if directory.name == INDEX_FOLDER and directory.is_symlink():
        return "is a link"
    if directory.exists() and not directory.is_dir():
        return misshapen(directory)
    if (directory / "segments").is_symlink():
        return "has a link for its segments"
    if (directory / "concepts").is_symlink():
        return "has a link for its concepts"
    if (directory / ASIDE).is_symlink():
        return "has a link for what is made anew"
    if any((directory / f"{name}.lock").is_symlink() for name in ("writer", "watch", "concepts")):
        return "has a link for a lock"
    names = os.listdir(directory) if directory.exists() else []
    if linked := [name for name in names if os.path.islink(directory / name)]:
        return f"has a link ({linked[0]})"
    if strange := [name for name in names if not _OURS.fullmatch(name)]:
        return f"holds other things ({strange[0]})"
    return misshapen(directory)


def misshapen(directory: Path) -> str:
    """What is a file where a folder should be, or the other way round, or neither."""
    if directory.exists() and not directory.is_dir():
        return "is a file, not a folder for an index"
    for name in os.listdir(directory) if directory.exists() else []:
        place, kind = directory / name, "folder" if name in _FOLDERS else "file"
        fits = place.is_dir() if kind == "folder" else place.is_file()
        if not fits and _OURS.fullmatch(name) and place.exists():  # else it has just gone
            return f"has {name}, which is no {kind}"
    return ""


def write_ignore_file(directory: Path) -> None:
    """So that git does not see an index inside a work tree."""
    with open(directory / ".gitignore", "w", encoding="ascii", opener=private) as file:
        file.write("*\n")


def _discard(directory: Path) -> None:
    for name in ("index.db", "index.db-wal", "index.db-shm"):
        (directory / name).unlink(missing_ok=True)
        reached("discard.file")
    sweep(directory / "segments", set())
    concepts.sweep(directory, "")


def _segment_files(
    batch: Sequence[Prepared], first: int, boosts: Mapping[str, float]
) -> dict[str, dict[str, Any]]:
    """The arrays of a new segment; `batch` is in the order of paths."""
    lanes = Lanes(boosts)
    place_of_row: list[int] = []
    codes: list[tuple[int, int]] = []
    for place, prepared in enumerate(batch):
        lanes.begin(prepared.document)
        for chunk in prepared.document.chunks:
            lanes.add(len(place_of_row), chunk)
            place_of_row.append(place)
            codes.append(row_codes(chunk.chunk_type, chunk.language))
    kinds = np.array(codes, np.uint16).reshape(-1, 2)
    rows = {
        "chunk": np.arange(first, first + len(place_of_row), dtype=np.int64),
        "document": np.array(place_of_row, np.int32),
        "type": kinds[:, 0],
        "language": kinds[:, 1],
    }
    together = np.concatenate([prepared.vectors for prepared in batch])
    return {"rows": rows, **lanes.files(), "vectors": vectors.encode(together)}


class Lanes:
    """The postings of the words lane and of the code lane, filled row by row."""

    def __init__(self, boosts: Mapping[str, float]) -> None:
        self.words = words.Postings(words.WORD_FIELDS, boosts, word_numbers())
        self.code = words.Postings(words.CODE_FIELDS, boosts, identifier_numbers())
        self._last = ("", self.words.read("headers", ""))

    def begin(self, document: Document) -> None:
        """Read what every chunk of a document has: its title, what its front matter says, its path."""
        front, path = document.front, document.path
        texts = {
            "title": document.title,
            "keywords": " ".join(front.keywords),
            "description": front.description,
            "tags": " ".join(front.tags),
            "aliases": " ".join(front.aliases),
            "author": front.author,
            "category": front.category,
        }
        self._words = [self.words.read(field, text) for field, text in texts.items() if text]
        name = path.rsplit("/", 1)[-1]
        self._code = [self.code.read("path", f"{path} {name} {without_known_extension(name)}")]

    def add(self, row: int, chunk: Chunk) -> None:
        for field, terms in (*self._words, self._headers(chunk), self.words.read("body", chunk.content)):
            self.words.add(row, field, terms)
        for field, terms in self._code:
            self.code.add(row, field, terms)
        if chunk.names:
            field, terms = self.code.read("symbols", " ".join(chunk.names))
            self.code.add(row, field, terms + self.code.numbers.of_terms(definitions(chunk.names)))
        if code := code_in(chunk):
            self.code.add(row, *self.code.read("code", code))

    def _headers(self, chunk: Chunk) -> tuple[int, list[int]]:
        """Neighbours have the same headings above them. What is defined counts by the words in its name."""
        if chunk.names:
            return self.words.read("headers", f"{chunk.header_path} {spoken(chunk.names)}")
        if chunk.header_path != self._last[0]:
            self._last = (chunk.header_path, self.words.read("headers", chunk.header_path))
        return self._last[1]

    def files(self) -> dict[str, dict[str, Any]]:
        return {"words": self.words.arrays(), "code": self.code.arrays()}
