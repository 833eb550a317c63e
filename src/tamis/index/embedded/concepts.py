"""The files of the concept vocabulary, for query expansion: which rows have a term, and its vector.

    segments/<folder>/terms.bin   the terms of one segment, each with its rows; written after the segment
    concepts/<id>.bin             a vocabulary: the terms that enough rows have, their vectors, and the
                                  places of each segment's terms in it. index.db names the one in use
    concepts/part-<id>.bin        terms and vectors that a run has made so far

A term counts by the allowed rows that have it, so the vocabulary holds every term that any filter could
make frequent enough: all that `floor` living rows have. The allowed rows decide which terms take part in
a search. No search needs these files: a missing or damaged one is made again by the next indexing run
(`tamis.index.vocabulary`), and until then there is no expansion.
"""

import re
import uuid
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from tamis.failpoints import reached
from tamis.index.embedded import vectors, words
from tamis.index.embedded.arrays import (
    Array,
    Truncated,
    map_arrays,
    sync_folder,
    write_arrays,
)
from tamis.index.embedded.reader import AllowedRows, View
from tamis.index.embedded.segment import Segment, file_of
from tamis.index.embedded.words import Mask
from tamis.index.protocol import Concept, Vectors
from tamis.text.words import CONCEPTS_VERSION, concepts

Arrays = Mapping[str, Array]
Terms = Sequence[tuple[Segment, Arrays]]

_OURS = re.compile(r"(?:part-)?[0-9a-f]{32}\.bin(?:\.partial)?")
_NAME = re.compile(r"[0-9a-f]{32}")
_FOLDER_LENGTH = 32
# Rounding to 16 bits may add this to the length of a vector; the bound of the search includes it.
_HALF = 5e-4


# --- The terms of a segment -----------------------------------------------------


def write_terms(segment: Segment, texts: Iterable[tuple[int, str]]) -> None:
    """Write the terms of a segment's rows beside its other files, whole or not at all."""
    file = _terms_file(segment)
    # A run that died may have left some. No other run writes: the caller holds the lock.
    for left in file.parent.glob("partial-*"):
        left.unlink(missing_ok=True)
    partial = file.with_name(f"partial-{uuid.uuid4().hex}")
    _write(file, partial, _collected(texts))


def _terms_file(segment: Segment) -> Path:
    return file_of(segment.directory, segment.record, "terms")


def _write(
    file: Path,
    partial: Path,
    arrays: Arrays,
) -> None:
    try:
        write_arrays(partial, arrays)
        reached("concepts.written")
        partial.replace(file)
        reached("concepts.named")
    finally:
        # On a full disk, an unfinished file is in the way.
        partial.unlink(missing_ok=True)
    sync_folder(file.parent)


def _collected(texts: Iterable[tuple[int, str]]) -> Arrays:
    """Make the arrays of a segment's terms from the texts of its rows, which ascend."""
    rows_of: dict[str, array[int]] = {}
    for row, text in texts:
        for name in concepts(text):
            rows_of.setdefault(name, array("q")).append(row)
    names = sorted(rows_of)
    counts = [len(rows_of[name]) for name in names]
    term = np.repeat(np.arange(len(names)), counts)
    rows = np.array(list(chain.from_iterable(rows_of[name] for name in names)))
    stored = [words.stored(name) for name in names]
    arrays = words.pack(stored, term, rows, np.empty(0))
    del arrays["weights"]
    arrays["version"] = np.array([CONCEPTS_VERSION])
    return arrays


def open_terms(segment: Segment) -> Arrays | None:
    """Open the terms of a segment; None if they are missing, damaged or of another version."""
    try:
        arrays = map_arrays(_terms_file(segment))
        if arrays["version"].tolist() != [CONCEPTS_VERSION]:
            return None
    except (Truncated, FileNotFoundError, KeyError):
        return None
    # Numbers that lead outside are damage, whatever wrote them.
    ends = arrays["ends"]
    rows = arrays["rows"]
    if len(ends) != len(arrays["name_ends"]) or not _inside(
        rows, 0, segment.record.rows
    ):
        return None
    counted = 0
    if len(ends):
        counted = int(ends[-1])
    if counted != len(rows):
        return None
    return arrays


def _inside(
    numbers: Array,
    first: int,
    end: int,
) -> bool:
    """Return True if no number leads outside a range."""
    if not len(numbers):
        return True
    return bool(numbers.min() >= first and numbers.max() < end)


def _frequencies(terms: Arrays, mask: Mask | None) -> Array:
    """Count the allowed rows that have each term."""
    if mask is None:
        return np.diff(terms["ends"], prepend=0)
    allowed = np.cumsum(mask[terms["rows"]])
    before = np.concatenate(([0], allowed))
    return np.diff(before[terms["ends"]], prepend=0)


def frequent(segments: Terms, floor: int) -> list[bytes]:
    """Return the terms that at least `floor` living rows of the segments have, in order."""
    counted: Counter[bytes] = Counter()
    for segment, terms in segments:
        names = words.names_of(terms)
        own = _frequencies(terms, segment.living()).tolist()
        counted.update(dict(zip(names, own, strict=True)))
    return sorted(name for name, count in counted.items() if count >= floor)


# --- A vocabulary as a search uses it -------------------------------------------


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """An open vocabulary, for the segments of one generation."""

    arrays: Arrays
    terms: tuple[Arrays, ...]  # of each segment
    places: tuple[Array, ...]  # of each segment's terms in here; -1: too rare

    @property
    def floor(self) -> int:
        """The number of rows that a term in here has at least."""
        return int(self.arrays["floor"][0])

    def __len__(self) -> int:
        return len(self.arrays["name_ends"])

    def common(
        self,
        masks: Sequence[Mask | None],
        floor: int,
        most: int,
    ) -> Mask:
        """Choose the `most` most frequent terms of those that `floor` allowed rows have; ties by term."""
        counts = np.zeros(len(self), np.int64)
        for terms, places, mask in zip(self.terms, self.places, masks, strict=True):
            known = places >= 0
            counts[places[known]] += _frequencies(terms, mask)[known]
        often = np.flatnonzero(counts >= floor)
        scores = counts[often].astype(np.float64)
        chosen, _ = words.best(often, scores, most)
        common = np.zeros(len(self), np.bool_)
        common[chosen] = True
        return common


def nearest_terms(
    view: View,
    query: Vectors,
    rows: AllowedRows,
    depth: int,
    floor: int,
    most: int,
) -> list[Concept] | None:
    """Find the terms nearest to a question, best first; None if there is no complete vocabulary."""
    vocabulary = vocabulary_of(view)
    if vocabulary is None or floor < vocabulary.floor:
        return None
    bounds = (floor, most)
    if bounds not in rows.common:
        rows.common[bounds] = vocabulary.common(rows.masks, floor, most)
    arrays = vocabulary.arrays
    numbers, scores = vectors.nearest(arrays, query, rows.common[bounds], depth)
    found = []
    for at in np.lexsort((numbers, -scores)).tolist():
        name = words.name_at(arrays, int(numbers[at]))
        term = name.decode("utf-8", "surrogatepass")
        found.append(Concept(term, float(scores[at])))
    return found


def vocabulary_of(view: View) -> Vocabulary | None:
    """Open the vocabulary in use, if it knows every segment."""
    name = str(view.facts.get("concepts", ""))
    if name not in view.vocabulary:
        fingerprint = str(view.facts.get("fingerprint", ""))
        view.vocabulary[name] = _open(name, view.segments, fingerprint)
    found: Vocabulary | None = view.vocabulary[name]
    return found


def _open(
    name: str, segments: Sequence[Segment], fingerprint: str
) -> Vocabulary | None:
    if not segments or not _NAME.fullmatch(name):
        return None
    arrays = _read(_home(segments[0].directory) / f"{name}.bin", fingerprint)
    if arrays is None or "floor" not in arrays:
        return None
    size = len(arrays["name_ends"])
    listed = arrays["folders"].tobytes().decode("ascii", "replace")
    starts = range(0, len(listed), _FOLDER_LENGTH)
    folders = [listed[start : start + _FOLDER_LENGTH] for start in starts]
    opened = []
    found = []
    for segment in segments:
        terms = open_terms(segment)
        if terms is None or segment.record.folder not in folders:
            return None
        number = folders.index(segment.record.folder)
        places = arrays.get(f"places-{number}", np.empty(0, np.int32))
        if len(places) != len(terms["name_ends"]):
            return None
        if not _inside(places, -1, size):
            return None
        opened.append(terms)
        found.append(places)
    return Vocabulary(arrays, tuple(opened), tuple(found))


def _read(file: Path, fingerprint: str) -> Arrays | None:
    """Read terms and vectors; None if the file is damaged or its vectors are of another model."""
    try:
        arrays = map_arrays(file)
        size = len(arrays["name_ends"])
        if arrays["fingerprint"].tobytes() != fingerprint.encode():
            return None
        for name in ("full", "codes", "scale", "residual"):
            if len(arrays[name]) != size:
                return None
    except (Truncated, FileNotFoundError, KeyError):
        return None
    return arrays


# --- Making a vocabulary --------------------------------------------------------


def places_of(
    segments: Terms,
    names: Sequence[bytes],
    floor: int,
) -> Arrays:
    """Make the arrays that a vocabulary has beside its terms and their vectors."""
    folders = [segment.record.folder for segment, _ in segments]
    listed = "".join(folders).encode()
    arrays = {
        "folders": np.frombuffer(listed, np.uint8),
        "floor": np.array([floor]),
    }
    number = {name: at for at, name in enumerate(names)}
    for at, (_, terms) in enumerate(segments):
        places = [number.get(name, -1) for name in words.names_of(terms)]
        arrays[f"places-{at}"] = np.array(places, np.int32)
    return arrays


def write_vectors(
    directory: Path,
    name: str,
    names: Sequence[bytes],
    full: Array,
    fingerprint: str,
    more: Arrays,
) -> None:
    """Write a vocabulary, which is in use when index.db names it, or a part of one."""
    coded = vectors.encode(full.astype(np.float32))
    lengths = [len(name) for name in names]
    arrays: Arrays = {
        "names": np.frombuffer(b"".join(names), np.uint8),
        "name_ends": np.cumsum(lengths, dtype=np.int64),
        "fingerprint": np.frombuffer(fingerprint.encode(), np.uint8),
        **coded,
        "full": full,
        "residual": coded["residual"] + np.float32(_HALF),
        **more,
    }
    home = _home(directory)
    home.mkdir(mode=0o700, exist_ok=True)
    file = home / f"{name}.bin"
    _write(file, file.with_name(f"{name}.bin.partial"), arrays)


def known_vectors(directory: Path, fingerprint: str) -> dict[bytes, Array]:
    """Collect the vectors of terms that any run has made, with 16 bits a number."""
    known: dict[bytes, Array] = {}
    for file in sorted(vocabulary_files(directory)):
        arrays = _read(file, fingerprint)
        if arrays is not None:
            known |= zip(words.names_of(arrays), arrays["full"], strict=True)
    return known


def sweep(directory: Path, name: str) -> None:
    """Remove every vocabulary but the named one; a reader that has one mapped keeps it."""
    for file in vocabulary_files(directory):
        if file.name != f"{name}.bin":
            file.unlink(missing_ok=True)


def vocabulary_files(directory: Path) -> Iterator[Path]:
    home = _home(directory)
    if home.is_dir():
        for file in home.iterdir():
            if _OURS.fullmatch(file.name):
                yield file


def _home(directory: Path) -> Path:
    return directory / "concepts"
