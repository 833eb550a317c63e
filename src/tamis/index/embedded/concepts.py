"""The concept vocabulary's files: which terms stand in which rows, and the vectors of the terms.

    segments/<folder>/terms.bin   the terms of one segment, each with its rows; written after the segment
    concepts/<id>.bin             a vocabulary: the terms that enough rows have, their vectors, and for
                                  each segment where its terms stand here. index.db names the one in use
    concepts/part-<id>.bin        terms and vectors that a run has made so far

A term counts by the allowed rows that have it, so the vocabulary holds every term that any filter could
make frequent enough: whatever `floor` living rows have. Which of them take part in a search is worked
out for its rows alone. Nothing here is needed to search: what is missing or damaged is made again by the
next indexing run (`tamis.index.vocabulary`), and until then there is no expansion.
"""

import re
import uuid
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tamis.failpoints import reached
from tamis.index.embedded import vectors, words
from tamis.index.embedded.arrays import Truncated, map_arrays, sync_folder, write_arrays
from tamis.index.embedded.segment import Mask, Segment
from tamis.index.embedded.words import best
from tamis.index.protocol import Concept
from tamis.text.words import CONCEPTS_VERSION, concepts

Array = NDArray[Any]
Vectors = NDArray[np.float32]

_OURS: Final = re.compile(r"(?:part-)?[0-9a-f]{32}\.bin(?:\.partial)?")
_NAME: Final = re.compile(r"[0-9a-f]{32}")
_FOLDER_LENGTH: Final = 32
_HALF: Final = 5e-4  # what rounding to 16 bits may add to the length of a vector: the bound must know of it


def terms_file(segment: Segment) -> Path:
    return segment.directory / "segments" / segment.record.folder / "terms.bin"


def write_terms(segment: Segment, texts: Iterable[tuple[int, str]]) -> None:
    """Write the terms of a segment's rows beside its other files, whole or not at all."""
    file = terms_file(segment)
    for left in file.parent.glob(
        "partial-*"
    ):  # by a run that died here: we hold the lock
        left.unlink(missing_ok=True)
    partial = file.with_name(f"partial-{uuid.uuid4().hex}")
    try:
        write_arrays(partial, collected(texts))
        reached("concepts.written")
        partial.replace(file)
        reached("concepts.named")
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(file.parent)


def collected(texts: Iterable[tuple[int, str]]) -> dict[str, Array]:
    """The arrays of a segment's terms, from its rows' texts."""
    numbers: dict[str, int] = {}
    term, row = array("q"), array("q")
    for at, text in texts:
        own = [numbers.setdefault(name, len(numbers)) for name in concepts(text)]
        term.extend(own)
        row.extend(repeat(at, len(own)))
    names = sorted(numbers)
    place = np.empty(len(names), np.int64)
    place[[numbers[name] for name in names]] = np.arange(len(names))
    terms, rows = place[np.array(term, np.int64)], np.array(row, np.int64)
    order = np.lexsort((rows, terms))
    stored = [words.stored(name) for name in names]
    arrays = words.pack(stored, terms[order], rows[order], np.empty(0))
    del arrays["weights"]
    return {**arrays, "version": np.array([CONCEPTS_VERSION])}


def open_terms(segment: Segment) -> dict[str, Array] | None:
    """The terms of a segment; None where they are not there, or not whole, or of another version."""
    try:
        arrays = map_arrays(terms_file(segment))
        same = arrays["version"].tolist() == [CONCEPTS_VERSION]
    except (Truncated, FileNotFoundError, KeyError):
        return None
    return arrays if same and _fits(arrays, segment.size) else None


def _fits(terms: Mapping[str, Array], size: int) -> bool:
    """Whether the numbers lead nowhere else, whatever wrote them."""
    ends, rows = terms["ends"], terms["rows"]
    counted = int(ends[-1]) if len(ends) else 0
    inside = not len(rows) or (rows.min() >= 0 and rows.max() < size)
    return bool(
        counted == len(rows) and len(ends) == len(terms["name_ends"]) and inside
    )


def frequencies(terms: Mapping[str, Array], mask: Mask | None) -> Array:
    """How many allowed rows have each term."""
    if mask is None:
        return np.diff(terms["ends"], prepend=0)
    before = np.concatenate(([0], np.cumsum(mask[terms["rows"]])))
    return np.diff(before[terms["ends"]], prepend=0)


def frequent(
    segments: Sequence[tuple[Segment, dict[str, Array]]], floor: int
) -> list[bytes]:
    """The terms that at least `floor` living rows of the segments have, in order."""
    counted: Counter[bytes] = Counter()
    for segment, terms in segments:
        own = frequencies(terms, segment.living()).tolist()
        for name, count in zip(words.names_of(terms), own, strict=True):
            counted[name] += count
    return sorted(name for name, count in counted.items() if count >= floor)


def most_common(counts: Array, floor: int, most: int) -> Mask:
    """Which terms take part: in `floor` rows or more, the `most` most frequent; ties go by the term."""
    common = np.zeros(len(counts), np.bool_)
    often = np.flatnonzero(counts >= floor)
    common[best(often, counts[often].astype(np.float64), most)[0]] = True
    return common


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """An open vocabulary, for the segments of one generation."""

    arrays: dict[str, Array]
    terms: tuple[dict[str, Array], ...]  # of each segment
    places: tuple[
        Array, ...
    ]  # of each segment's terms in here; -1 for one that is too rare

    @property
    def floor(self) -> int:
        """What is in fewer rows than this is not in here."""
        return int(self.arrays["floor"][0])

    def __len__(self) -> int:
        return len(self.arrays["name_ends"])

    def frequencies(self, masks: Sequence[Mask | None]) -> Array:
        """How many of the allowed rows have each term."""
        counts = np.zeros(len(self), np.int64)
        for terms, places, mask in zip(self.terms, self.places, masks, strict=True):
            known = places >= 0
            counts[places[known]] += frequencies(terms, mask)[known]
        return counts

    def nearest(self, query: Vectors, common: Mask, depth: int) -> list[Concept]:
        rows, scores = vectors.nearest(self.arrays, query, common, depth)
        found = []
        for row in np.lexsort((rows, -scores)).tolist():
            name = words.name_at(self.arrays, int(rows[row]))
            term = name.decode("utf-8", "surrogatepass")
            found.append(Concept(term, float(scores[row])))
        return found


def open_vocabulary(
    name: str, segments: Sequence[Segment], fingerprint: str
) -> Vocabulary | None:
    """The vocabulary of that name, if it was made with this model and knows all of these segments."""
    if not segments or not _NAME.fullmatch(name):
        return None
    arrays = _known(_home(segments[0].directory) / f"{name}.bin", fingerprint)
    terms = [open_terms(segment) for segment in segments]
    if arrays is None or "floor" not in arrays or None in terms:
        return None
    folders = arrays["folders"].tobytes().decode("ascii", "replace")
    at = {
        folders[i : i + _FOLDER_LENGTH]: i // _FOLDER_LENGTH
        for i in range(0, len(folders), _FOLDER_LENGTH)
    }
    numbers = [at.get(segment.record.folder, -1) for segment in segments]
    places = tuple(
        arrays.get(f"places-{number}", np.empty(0, np.int32)) for number in numbers
    )
    own = tuple(each for each in terms if each is not None)
    fit = all(
        _leads(each, place, len(arrays["name_ends"]))
        for each, place in zip(own, places, strict=True)
    )
    return Vocabulary(arrays, own, places) if fit and min(numbers) >= 0 else None


def _leads(terms: Mapping[str, Array], places: Array, size: int) -> bool:
    if len(places) != len(terms["name_ends"]):
        return False
    return not len(places) or bool(places.min() >= -1 and places.max() < size)


def _known(file: Path, fingerprint: str) -> dict[str, Array] | None:
    """The terms and vectors of a file, if it is whole and its vectors are this model's."""
    try:
        arrays = map_arrays(file)
        size = len(arrays["name_ends"])
        same = arrays["fingerprint"].tobytes() == fingerprint.encode()
        fit = all(
            len(arrays[name]) == size for name in ("full", "codes", "scale", "residual")
        )
    except (Truncated, FileNotFoundError, KeyError):
        return None
    return arrays if same and fit else None


def write_part(
    directory: Path, names: Sequence[bytes], full: Array, fingerprint: str
) -> None:
    """Keep what a run has embedded so far."""
    _write(
        directory, f"part-{uuid.uuid4().hex}", _vector_arrays(names, full, fingerprint)
    )


def write_vocabulary(
    directory: Path,
    segments: Sequence[tuple[Segment, dict[str, Array]]],
    names: Sequence[bytes],
    full: Array,
    fingerprint: str,
    floor: int,
) -> str:
    """Write a vocabulary; returns its name. It is in use when index.db names it."""
    number = {name: at for at, name in enumerate(names)}
    places = {
        f"places-{at}": np.array(
            [number.get(name, -1) for name in words.names_of(terms)], np.int32
        )
        for at, (_, terms) in enumerate(segments)
    }
    folders = "".join(segment.record.folder for segment, _ in segments).encode()
    own = {"folders": np.frombuffer(folders, np.uint8), "floor": np.array([floor])}
    name = uuid.uuid4().hex
    _write(directory, name, _vector_arrays(names, full, fingerprint) | own | places)
    return name


def _vector_arrays(
    names: Sequence[bytes], full: Array, fingerprint: str
) -> dict[str, Array]:
    coded = vectors.encode(full.astype(np.float32))
    return {
        "names": np.frombuffer(b"".join(names), np.uint8),
        "name_ends": np.cumsum([len(name) for name in names], dtype=np.int64),
        "fingerprint": np.frombuffer(fingerprint.encode(), np.uint8),
        **coded,
        "full": full,
        "residual": coded["residual"] + np.float32(_HALF),
    }


def _write(directory: Path, name: str, arrays: Mapping[str, Array]) -> None:
    home = _home(directory)
    home.mkdir(mode=0o700, exist_ok=True)
    partial = home / f"{name}.bin.partial"
    try:
        write_arrays(partial, arrays)
        reached("concepts.written")
        partial.replace(home / f"{name}.bin")
        reached("concepts.named")
    finally:
        partial.unlink(
            missing_ok=True
        )  # on a full disk, what is half written is in the way
    sync_folder(home)


def known_vectors(directory: Path, fingerprint: str) -> dict[bytes, Array]:
    """The vectors that are there for terms, whichever run made them, in 16 bits a number."""
    known: dict[bytes, Array] = {}
    for file in sorted(vocabulary_files(directory)):
        arrays = _known(file, fingerprint)
        if arrays is not None:
            known |= zip(words.names_of(arrays), arrays["full"], strict=True)
    return known


def sweep(directory: Path, name: str) -> None:
    """Remove every vocabulary but the named one; what is mapped stays readable for whoever has it."""
    for file in vocabulary_files(directory):
        if file.name != f"{name}.bin":
            file.unlink(missing_ok=True)


def vocabulary_files(directory: Path) -> Iterator[Path]:
    home = _home(directory)
    if home.is_dir():
        yield from (file for file in home.iterdir() if _OURS.fullmatch(file.name))


def _home(directory: Path) -> Path:
    return directory / "concepts"
