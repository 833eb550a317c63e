"""A segment: an immutable folder of mapped arrays. Rows stand in the order of path and position.

rows.bin     for each row its chunk's key, its document's place, and the codes that filters ask for
words.bin    postings of the words lane
code.bin     postings of the code lane
vectors.bin  vectors; of width 0 when the index has no model
"""

import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tamis.errors import IndexDamaged, read_fault
from tamis.failpoints import reached
from tamis.index.embedded import vectors, words
from tamis.index.embedded.arrays import (
    Truncated,
    map_arrays,
    spoiled,
    sync_folder,
    write_arrays,
)
from tamis.index.embedded.database import SegmentRecord
from tamis.index.protocol import Prepared
from tamis.model import Chunk, Document, Facts
from tamis.query.filters import And, Atom, Filter, Language, Not, Or, Tag, Type
from tamis.text.identifiers import code_in, definitions, identifier_numbers, spoken
from tamis.text.languages import without_known_extension
from tamis.text.words import word_numbers

Array = NDArray[Any]
Mask = NDArray[np.bool_]

FILES: Final = ("rows", "words", "code", "vectors")
_PARTIAL: Final = "partial-"
_OURS: Final = re.compile(rf"(?:{_PARTIAL})?[0-9a-f]{{32}}")
_CACHED_FILTERS: Final = 64
# Codes are written into files: these tables only ever grow at their end.
TYPES_IN_ORDER: Final = (
    "documentation",
    "code_block",
    "symbols",
    "definitions",
    "data",
)
LANGUAGES_IN_ORDER: Final = (
    "bash", "c", "cpp", "csharp", "css", "csv", "elixir", "go", "haskell", "html", "ini", "java",
    "javascript", "json", "kotlin", "lua", "perl", "php", "python", "r", "ruby", "rust", "scala", "sql",
    "swift", "toml", "typescript", "vue", "xml", "yaml", "zig",
)  # fmt: skip
_TYPE_CODE: Final = {name: code for code, name in enumerate(TYPES_IN_ORDER)}
_LANGUAGE_CODE: Final = {
    name: code for code, name in enumerate(LANGUAGES_IN_ORDER, start=1)
}


def row_codes(chunk_type: str, language: str | None) -> tuple[int, int]:
    return _TYPE_CODE[chunk_type], _LANGUAGE_CODE.get(language or "", 0)


def write_segment(home: Path, files: Mapping[str, Mapping[str, Array]]) -> str:
    """Write a folder aside, sync it, give it its name; returns the name. Nobody knows of it yet."""
    name = uuid.uuid4().hex
    partial = home / f"{_PARTIAL}{name}"
    partial.mkdir(parents=True, mode=0o700)
    try:
        for file, arrays in files.items():
            write_arrays(partial / f"{file}.bin", arrays)
            reached("segment.file")
        sync_folder(partial)
        reached("segment.synced")
        partial.rename(home / name)
        reached("segment.named")
    except BaseException:
        shutil.rmtree(
            partial, ignore_errors=True
        )  # on a full disk, what is half written is in the way
        raise
    sync_folder(home)
    return name


def sweep(home: Path, known: set[str]) -> None:
    """Remove folders that no commit knows of: the remains of a writer that died.

    Only what can be ours by its name: somebody may have given us a folder with things of their own.
    """
    for entry in home.iterdir():
        if entry.name not in known and is_ours(entry):
            shutil.rmtree(entry, ignore_errors=True)
            reached("sweep.removed")


def is_ours(entry: Path) -> bool:
    return bool(_OURS.fullmatch(entry.name)) and not entry.is_symlink()


def file_of(directory: Path, record: SegmentRecord, name: str) -> Path:
    return directory / "segments" / record.folder / f"{name}.bin"


class Segment:
    """One open segment."""

    def __init__(self, directory: Path, record: SegmentRecord) -> None:
        """Map the files. They stay readable from here on, even when a merge removes the folder."""
        self.directory = directory
        self.record = record
        self.rows = self._map("rows")
        self.words = self._map("words")
        self.code = self._map("code")
        self.vectors = self._map("vectors")
        self._masks: dict[Filter, Mask] = {}

    def with_record(self, record: SegmentRecord) -> "Segment":
        """The same segment after some of its documents went: files and filter masks still hold."""
        same = copy(self)
        same.record = record
        same._masks = dict(
            self._masks
        )  # not shared: later masks know less of the documents that went
        return same

    @property
    def size(self) -> int:
        return self.record.rows

    @cached_property
    def starts(self) -> Array:
        """Where each document's rows begin; one more than there are documents."""
        return np.searchsorted(
            self.rows["document"], np.arange(self.record.documents + 1)
        )

    def _map(self, name: str) -> dict[str, Array]:
        try:
            return map_arrays(file_of(self.directory, self.record, name))
        except Truncated as error:
            raise IndexDamaged(
                self.directory, f"{self.record.folder}/{error}"
            ) from error
        except (
            FileNotFoundError
        ):  # merged away meanwhile, or damage: whoever asked knows
            raise
        except OSError as error:
            raise read_fault(self.directory, error) from error

    def check_sums(self) -> None:
        """See that every byte is as it was written, before rows are copied on: a copy's sums are right."""
        for name in FILES:
            if spoiled(file_of(self.directory, self.record, name)):
                detail = f"{self.record.folder}/{name}.bin is not as it was written"
                raise IndexDamaged(self.directory, detail)

    def mask(self, filter: Filter, documents: Mapping[int, Facts]) -> Mask:
        """Which rows the filter allows. `documents` are the living ones by place; the rest do not matter."""
        known = self._masks.get(filter)
        if known is None:
            if len(self._masks) >= _CACHED_FILTERS:
                self._masks.clear()
            known = self._masks[filter] = self._evaluate(filter, documents)
        return known

    def _evaluate(self, filter: Filter, documents: Mapping[int, Facts]) -> Mask:
        match filter:
            case And(terms):
                return self._combine(np.logical_and, True, terms, documents)
            case Or(terms):
                return self._combine(np.logical_or, False, terms, documents)
            case Not(term):
                return ~self.mask(term, documents)
            case Type(name):
                return np.equal(self.rows["type"], _TYPE_CODE[name])
            case Language(name):
                return np.equal(self.rows["language"], _LANGUAGE_CODE[name])
            case Tag():
                return self._of_documents(filter, documents) | self.mask(
                    filter.implied, documents
                )
            case Atom():
                return self._of_documents(filter, documents)
        raise TypeError(f"{filter!r} is no filter")

    def _combine(
        self,
        join: np.ufunc,
        start: bool,
        terms: Sequence[Filter],
        documents: Mapping[int, Facts],
    ) -> Mask:
        result = np.full(self.size, start)
        for term in terms:
            join(result, self.mask(term, documents), out=result)
        return result

    def _of_documents(self, atom: Atom, documents: Mapping[int, Facts]) -> Mask:
        allowed = np.zeros(self.record.documents, np.bool_)
        allowed[
            [place for place, facts in documents.items() if atom.matches(facts)]
        ] = True
        mask: Mask = allowed[self.rows["document"]]
        return mask

    def documents_by(
        self, column: Literal["type", "language"], mask: Mask | None
    ) -> dict[str, int]:
        """How many documents have rows of each type, or each language, among those of a mask."""
        rows = slice(None) if mask is None else mask
        pairs = np.stack(
            (
                self.rows["document"][rows].astype(np.int64),
                self.rows[column][rows].astype(np.int64),
            )
        )
        codes, counts = np.unique(np.unique(pairs, axis=1)[1], return_counts=True)
        names = dict(zip(codes.tolist(), counts.tolist(), strict=True))
        table = _TYPE_CODE if column == "type" else _LANGUAGE_CODE
        return {name: names[code] for name, code in table.items() if code in names}

    def living(self) -> Mask | None:
        """Rows of documents that were not removed; None when all are."""
        dead = dead_documents(self.record)
        if not dead.any():
            return None
        return ~dead[self.rows["document"]]

    def places(self, mask: Mask | None) -> Array:
        """The places of the documents of allowed rows, row by row."""
        places = self.rows["document"]
        if mask is None:
            return places
        return places[mask]


def dead_documents(record: SegmentRecord) -> Mask:
    bits = np.unpackbits(
        np.frombuffer(record.dead, np.uint8), count=record.documents, bitorder="little"
    )
    return bits.astype(np.bool_)


def with_dead(record: SegmentRecord, places: Sequence[int]) -> bytes:
    dead = dead_documents(record)
    dead[list(places)] = True
    return pack_dead(dead)


def pack_dead(dead: Mask) -> bytes:
    return np.packbits(dead, bitorder="little").tobytes()


def segment_files(
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
        self._words = [
            self.words.read(field, text) for field, text in texts.items() if text
        ]
        name = path.rsplit("/", 1)[-1]
        self._code = [
            self.code.read("path", f"{path} {name} {without_known_extension(name)}")
        ]

    def add(self, row: int, chunk: Chunk) -> None:
        for field, terms in (
            *self._words,
            self._headers(chunk),
            self.words.read("body", chunk.content),
        ):
            self.words.add(row, field, terms)
        for field, terms in self._code:
            self.code.add(row, field, terms)
        if chunk.names:
            field, terms = self.code.read("symbols", " ".join(chunk.names))
            self.code.add(
                row, field, terms + self.code.numbers.of_terms(definitions(chunk.names))
            )
        if code := code_in(chunk):
            self.code.add(row, *self.code.read("code", code))

    def _headers(self, chunk: Chunk) -> tuple[int, list[int]]:
        """Neighbours have the same headings above them. What is defined counts by the words in its name."""
        if chunk.names:
            return self.words.read(
                "headers", f"{chunk.header_path} {spoken(chunk.names)}"
            )
        if chunk.header_path != self._last[0]:
            self._last = (
                chunk.header_path,
                self.words.read("headers", chunk.header_path),
            )
        return self._last[1]

    def files(self) -> dict[str, dict[str, Any]]:
        return {"words": self.words.arrays(), "code": self.code.arrays()}
