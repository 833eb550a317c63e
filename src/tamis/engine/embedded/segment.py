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

from tamis.engine.embedded import words
from tamis.engine.embedded.arrays import Truncated, map_arrays, spoiled, sync_folder, write_arrays
from tamis.engine.embedded.stored_segments import SegmentRecord
from tamis.errors import IndexDamaged, read_fault
from tamis.failpoints import reached
from tamis.filters import And, Atom, Filter, Language, Not, Or, Tag, Type
from tamis.model import Facts

Array = NDArray[Any]
Mask = NDArray[np.bool_]

FILES: Final = ("rows", "words", "code", "vectors")
_PARTIAL: Final = "partial-"
_OURS: Final = re.compile(rf"(?:{_PARTIAL})?[0-9a-f]{{32}}")
_CACHED_FILTERS: Final = 64
# Codes are written into files: these tables only ever grow at their end.
TYPES_IN_ORDER: Final = ("documentation", "code_block", "symbols", "definitions", "data")
LANGUAGES_IN_ORDER: Final = (
    "bash", "c", "cpp", "csharp", "css", "csv", "elixir", "go", "haskell", "html", "ini", "java",
    "javascript", "json", "kotlin", "lua", "perl", "php", "python", "r", "ruby", "rust", "scala", "sql",
    "swift", "toml", "typescript", "vue", "xml", "yaml", "zig",
)  # fmt: skip
_TYPE_CODE: Final = {name: code for code, name in enumerate(TYPES_IN_ORDER)}
_LANGUAGE_CODE: Final = {name: code for code, name in enumerate(LANGUAGES_IN_ORDER, start=1)}


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
        shutil.rmtree(partial, ignore_errors=True)  # on a full disk, what is half written is in the way
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
        self.words = words.WordIndex(self._map("words"))
        self.code = words.WordIndex(self._map("code"))
        self.vectors = self._map("vectors")
        self._masks: dict[Filter, Mask] = {}

    def with_record(self, record: SegmentRecord) -> "Segment":
        """The same segment after some of its documents went: files and filter masks still hold."""
        same = copy(self)
        same.record = record
        same._masks = dict(self._masks)  # not shared: later masks know less of the documents that went
        return same

    @property
    def size(self) -> int:
        return self.record.rows

    @cached_property
    def starts(self) -> Array:
        """Where each document's rows begin; one more than there are documents."""
        return np.searchsorted(self.rows["document"], np.arange(self.record.documents + 1))

    def _map(self, name: str) -> dict[str, Array]:
        try:
            return map_arrays(file_of(self.directory, self.record, name))
        except Truncated as error:
            raise IndexDamaged(self.directory, f"{self.record.folder}/{error}") from error
        except FileNotFoundError:  # merged away meanwhile, or damage: whoever asked knows
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
                return self._of_documents(filter, documents) | self.mask(filter.implied, documents)
            case Atom():
                return self._of_documents(filter, documents)
        raise TypeError(f"{filter!r} is no filter")

    def _combine(
        self, join: np.ufunc, start: bool, terms: Sequence[Filter], documents: Mapping[int, Facts]
    ) -> Mask:
        result = np.full(self.size, start)
        for term in terms:
            join(result, self.mask(term, documents), out=result)
        return result

    def _of_documents(self, atom: Atom, documents: Mapping[int, Facts]) -> Mask:
        allowed = np.zeros(self.record.documents, np.bool_)
        allowed[[place for place, facts in documents.items() if atom.matches(facts)]] = True
        mask: Mask = allowed[self.rows["document"]]
        return mask

    def documents_by(self, column: Literal["type", "language"], mask: Mask | None) -> dict[str, int]:
        """How many documents have rows of each type, or each language, among those of a mask."""
        rows = slice(None) if mask is None else mask
        pairs = np.stack(
            (self.rows["document"][rows].astype(np.int64), self.rows[column][rows].astype(np.int64))
        )
        codes, counts = np.unique(np.unique(pairs, axis=1)[1], return_counts=True)
        names = dict(zip(codes.tolist(), counts.tolist(), strict=True))
        table = _TYPE_CODE if column == "type" else _LANGUAGE_CODE
        return {name: names[code] for name, code in table.items() if code in names}

    def living(self) -> Mask | None:
        """Rows whose document is still there; None when all are."""
        dead = dead_documents(self.record)
        return ~dead[self.rows["document"]] if dead.any() else None


def dead_documents(record: SegmentRecord) -> Mask:
    bits = np.unpackbits(np.frombuffer(record.dead, np.uint8), count=record.documents, bitorder="little")
    return bits.astype(np.bool_)


def with_dead(record: SegmentRecord, places: Sequence[int]) -> bytes:
    dead = dead_documents(record)
    dead[list(places)] = True
    return pack_dead(dead)


def pack_dead(dead: Mask) -> bytes:
    return np.packbits(dead, bitorder="little").tobytes()
