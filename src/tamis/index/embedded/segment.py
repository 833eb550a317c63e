"""A segment: an immutable folder of mapped arrays. Rows are in the order of path and position.

rows.bin     for each row its chunk's key, its document's place, and codes for filters
words.bin    postings of the words lane
code.bin     postings of the code lane
vectors.bin  vectors; of width 0 when the index has no model
"""

import re
import shutil
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from tamis.errors import IndexDamaged, StorageFault
from tamis.failpoints import reached
from tamis.index.embedded import vectors, words
from tamis.index.embedded.arrays import (
    Array,
    Arrays,
    Truncated,
    map_arrays,
    spoiled,
    sync_folder,
    write_arrays,
)
from tamis.index.embedded.database import SegmentRecord
from tamis.index.embedded.words import Mask
from tamis.index.protocol import Prepared
from tamis.model import Chunk, Document, Facts
from tamis.query.filters import And, Atom, Filter, Language, Not, Or, Tag, Type
from tamis.text.identifiers import code_in, definitions, identifier_numbers, spoken
from tamis.text.languages import file_name, without_known_extension
from tamis.text.words import word_numbers

FILES = ("rows", "words", "code", "vectors")
_PARTIAL = "partial-"
_OURS = re.compile(rf"(?:{_PARTIAL})?[0-9a-f]{{32}}")
_CACHED_FILTERS = 64
# Codes are written into files: these tables only ever grow at their end.
TYPES_IN_ORDER = (
    "documentation",
    "code_block",
    "symbols",
    "definitions",
    "data",
)
LANGUAGES_IN_ORDER = (
    "bash",
    "c",
    "cpp",
    "csharp",
    "css",
    "csv",
    "elixir",
    "go",
    "haskell",
    "html",
    "ini",
    "java",
    "javascript",
    "json",
    "kotlin",
    "lua",
    "perl",
    "php",
    "python",
    "r",
    "ruby",
    "rust",
    "scala",
    "sql",
    "swift",
    "toml",
    "typescript",
    "vue",
    "xml",
    "yaml",
    "zig",
)
_TYPE_CODE = {name: code for code, name in enumerate(TYPES_IN_ORDER)}
_LANGUAGE_CODE = {name: code for code, name in enumerate(LANGUAGES_IN_ORDER, start=1)}


def row_codes(chunk_type: str, language: str | None) -> tuple[int, int]:
    return _TYPE_CODE[chunk_type], _LANGUAGE_CODE.get(language or "", 0)


def write_segment(home: Path, files: Mapping[str, Arrays]) -> str:
    """Write a folder under another name, sync it and rename it; return its name, which no commit has yet."""
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
        # On a full disk, an unfinished folder is in the way.
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sync_folder(home)
    return name


def sweep(home: Path, known: set[str]) -> None:
    """Remove the folders of a writer that died, which no commit has registered.

    Other names are left alone: the folder that we were given may hold things of its owner.
    """
    for entry in home.iterdir():
        if entry.name not in known and is_ours(entry):
            shutil.rmtree(entry, ignore_errors=True)
            reached("sweep.removed")


def is_ours(entry: Path) -> bool:
    return bool(_OURS.fullmatch(entry.name)) and not entry.is_symlink()


def file_of(
    directory: Path,
    record: SegmentRecord,
    name: str,
) -> Path:
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
        """Return the same segment after some of its documents went: files and masks still hold."""
        same = copy(self)
        same.record = record
        # Not shared: later masks leave out the documents that went.
        same._masks = dict(self._masks)
        return same

    def rows_of(self, place: int) -> tuple[int, int]:
        """Return the first row of a document, and the row after its last."""
        start, end = self._starts[place : place + 2].tolist()
        return start, end

    @cached_property
    def _starts(self) -> Array:
        """The first row of each document; one more than there are documents."""
        places = np.arange(self.record.documents + 1)
        return np.searchsorted(self.rows["document"], places)

    def _map(self, name: str) -> Arrays:
        try:
            return map_arrays(file_of(self.directory, self.record, name))
        except Truncated as error:
            what = f"{self.record.folder}/{error}"
            raise IndexDamaged(self.directory, what) from error
        except FileNotFoundError:
            # Merged away meanwhile, or damage: the caller decides.
            raise
        except OSError as error:
            raise StorageFault(
                f"cannot read the index in {self.directory}: {error.strerror or error}",
                hint="check the disk, and the permissions of that folder; your files are untouched",
            ) from error

    def check_sums(self) -> None:
        """Check every byte before rows are copied: the checksums of a copy prove nothing."""
        for name in FILES:
            if spoiled(file_of(self.directory, self.record, name)):
                detail = f"{self.record.folder}/{name}.bin is not as it was written"
                raise IndexDamaged(self.directory, detail)

    def mask(self, filter: Filter, documents: Mapping[int, Facts]) -> Mask:
        """Return the rows that a filter allows. `documents` are the living ones, by place."""
        known = self._masks.get(filter)
        if known is not None:
            return known
        if len(self._masks) >= _CACHED_FILTERS:
            self._masks.clear()
        made = self._evaluate(filter, documents)
        self._masks[filter] = made
        return made

    def _evaluate(self, filter: Filter, documents: Mapping[int, Facts]) -> Mask:
        match filter:
            case And(terms):
                result = np.ones(self.record.rows, np.bool_)
                for term in terms:
                    result &= self.mask(term, documents)
                return result
            case Or(terms):
                result = np.zeros(self.record.rows, np.bool_)
                for term in terms:
                    result |= self.mask(term, documents)
                return result
            case Not(term):
                return ~self.mask(term, documents)
            case Type(name):
                return np.equal(self.rows["type"], _TYPE_CODE[name])
            case Language(name):
                return np.equal(self.rows["language"], _LANGUAGE_CODE[name])
            case Tag():
                implied = self.mask(filter.implied, documents)
                return self._of_documents(filter, documents) | implied
            case Atom():
                return self._of_documents(filter, documents)
        raise TypeError(f"{filter!r} is no filter")

    def _of_documents(self, atom: Atom, documents: Mapping[int, Facts]) -> Mask:
        allowed = np.zeros(self.record.documents, np.bool_)
        for place, facts in documents.items():
            allowed[place] = atom.matches(facts)
        mask: Mask = allowed[self.rows["document"]]
        return mask

    def documents_by(
        self, column: Literal["type", "language"], mask: Mask | None
    ) -> dict[str, int]:
        """Count the documents that have allowed rows of each type, or each language."""
        codes = self.rows[column].astype(np.int32)
        pairs = np.stack((self.rows["document"], codes))
        if mask is not None:
            pairs = pairs[:, mask]
        _, each_once = np.unique(pairs, axis=1)
        counts = Counter(each_once.tolist())
        table = _TYPE_CODE if column == "type" else _LANGUAGE_CODE
        found = {}
        for name, code in table.items():
            if code in counts:
                found[name] = counts[code]
        return found

    def living(self) -> Mask | None:
        """Return the rows of documents that were not removed; None if all are."""
        dead = dead_documents(self.record)
        if not dead.any():
            return None
        return ~dead[self.rows["document"]]

    def places(self, mask: Mask | None) -> Array:
        """Return the place of the document of each allowed row."""
        places = self.rows["document"]
        if mask is None:
            return places
        return places[mask]


def dead_documents(record: SegmentRecord) -> Mask:
    dead = np.frombuffer(record.dead, np.uint8)
    bits = np.unpackbits(dead, count=record.documents, bitorder="little")
    return bits.astype(np.bool_)


def pack_dead(dead: Mask) -> bytes:
    return np.packbits(dead, bitorder="little").tobytes()


def segment_files(
    batch: Sequence[Prepared],
    first: int,
    boosts: Mapping[str, float],
) -> dict[str, Arrays]:
    """Make the arrays of a new segment; `batch` is in the order of paths."""
    lanes = Lanes(boosts)
    places: list[int] = []
    codes = []
    for place, prepared in enumerate(batch):
        lanes.begin(prepared.document)
        for chunk in prepared.document.chunks:
            lanes.add(len(places), chunk)
            places.append(place)
            codes.append(row_codes(chunk.chunk_type, chunk.language))
    kinds = np.array(codes, np.uint16).reshape(-1, 2)
    rows: Arrays = {
        "chunk": np.arange(first, first + len(places), dtype=np.int64),
        "document": np.array(places, np.int32),
        "type": kinds[:, 0],
        "language": kinds[:, 1],
    }
    together = np.concatenate([prepared.vectors for prepared in batch])
    return {
        "rows": rows,
        **lanes.files(),
        "vectors": vectors.encode(together),
    }


class Lanes:
    """The postings of the words lane and of the code lane, filled row by row."""

    def __init__(self, boosts: Mapping[str, float]) -> None:
        self.words = words.Postings(words.WORD_FIELDS, boosts, word_numbers())
        self.code = words.Postings(words.CODE_FIELDS, boosts, identifier_numbers())
        # Neighbours have the same headings, so the last ones are kept.
        self._trail = ""
        self._headers = self.words.read("headers", "")

    def begin(self, document: Document) -> None:
        """Read the fields that all chunks of a document share: title, front matter and path."""
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
        self._shared = []
        for field, text in texts.items():
            if text:
                self._shared.append(self.words.read(field, text))
        name = file_name(path)
        names = f"{path} {name} {without_known_extension(name)}"
        self._path = self.code.read("path", names)

    def add(self, row: int, chunk: Chunk) -> None:
        """Add a chunk of the document. Its definitions also count by the words in their names."""
        trail = chunk.header_path
        if chunk.names:
            headers = self.words.read("headers", f"{trail} {spoken(chunk.names)}")
        else:
            if trail != self._trail:
                self._trail = trail
                self._headers = self.words.read("headers", trail)
            headers = self._headers
        for field, terms in (*self._shared, headers):
            self.words.add(row, field, terms)
        self.words.add(row, *self.words.read("body", chunk.content))

        self.code.add(row, *self._path)
        if chunk.names:
            field, terms = self.code.read("symbols", " ".join(chunk.names))
            terms += self.code.numbers.of_terms(definitions(chunk.names))
            self.code.add(row, field, terms)
        code = code_in(chunk)
        if code:
            self.code.add(row, *self.code.read("code", code))

    def files(self) -> dict[str, Arrays]:
        return {
            "words": self.words.arrays(),
            "code": self.code.arrays(),
        }
