"""Checks of what the rows of an index hold, against the texts that they were made from.

On a sample, unless everything is asked for. What can be computed is computed again, by the functions
that wrote it, and compared.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tamis.engine.embedded import checksums, stored_documents, stored_links, words
from tamis.engine.embedded.exam import Exam, Opened, Placed, counted, problem, rewriting
from tamis.engine.embedded.rows import Lanes
from tamis.links import key_of, names_of
from tamis.model import Finding, Link, Repair

Array = NDArray[Any]
Rows = NDArray[np.int64]

# A look should take seconds, whatever the size of the index: most of it goes into the checksums.
_TEXTS: Final = 2_000
_VECTORS: Final = 4_000
_POSTINGS: Final = 300
_LINKS: Final = 500
_PORTION: Final = 8_192  # rows looked at together; some hundred megabytes
_DOCUMENTS: Final = 900  # asked for in one statement
_LENGTH: Final = 1e-3  # how far from one the length of a vector may be: models round
_RESIDUAL: Final = 1e-5  # float32
_WEIGHT: Final = 1e-5
_DIFFERENT: Final = 8  # texts that cannot all have the same vector by chance


def texts(exam: Exam) -> Iterator[Finding]:
    """All that is stored for a document in index.db has the checksum that was stored with it."""
    documents = [each for each in exam.documents if each.path not in exam.damaged]
    wrong = []
    chosen = exam.sample(documents, _TEXTS)
    for start in range(0, len(chosen), _DOCUMENTS):
        some = {document.key: document.path for document in chosen[start : start + _DOCUMENTS]}
        stored = checksums.stored_sums(exam.connection, list(some))
        for key, own in checksums.sums(exam.connection, list(some)).items():
            if own != stored[key]:
                wrong.append(some[key])
    if wrong:
        yield problem(
            f"{counted(wrong)} with texts that are not as they were stored", repair=rewriting(wrong)
        )


def vectors(exam: Exam) -> Iterator[Finding]:
    """Vectors are finite, of length one, not all the same, and their codes stand for them."""
    strange: list[tuple[Opened, Rows]] = []
    coded: list[tuple[Opened, Rows]] = []
    firsts: list[tuple[Opened, Rows, Array]] = []
    for segment, rows in _portions(exam, _VECTORS):
        if not segment.record.dimension:
            continue
        arrays = segment.arrays["vectors"]
        full = arrays["full"][rows].astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            length = np.sqrt((full * full).sum(axis=1))
            good = np.abs(length - 1.0) <= _LENGTH  # False for what is not a number
            rest = full - arrays["codes"][rows] * arrays["scale"][rows].astype(np.float64)[:, np.newaxis]
            off = np.abs(np.sqrt((rest * rest).sum(axis=1)) - arrays["residual"][rows])
            near = off <= _RESIDUAL
        strange.append((segment, rows[~good]))
        coded.append((segment, rows[good & ~near]))
        firsts.append((segment, rows, arrays["full"][rows]))
    yield from _rewrite(exam, strange, "vectors that are no unit vectors", "reembed")
    yield from _rewrite(exam, coded, "vectors that their codes do not stand for", "reembed")
    if _all_alike(exam, firsts):
        held = frozenset(segment.record.id for segment, *_ in firsts)
        yield problem("all passages have the same vector", repair=Repair("reembed", segments=held))


def _all_alike(exam: Exam, found: Sequence[tuple[Opened, Rows, Array]]) -> bool:
    if not found or any((full != found[0][2][0]).any() for _, _, full in found):
        return False
    keys = [key for segment, rows, _ in found for key in segment.arrays["rows"]["chunk"][rows].tolist()]
    return len(set(stored_documents.contents(exam.connection, keys[:_TEXTS]).values())) >= _DIFFERENT


def postings(exam: Exam) -> Iterator[Finding]:
    """What the words lane and the code lane hold of a row is what its text gives."""
    assert exam.settled  # who cannot read the settings does not come here
    wrong: dict[str, list[tuple[Opened, Rows]]] = {"words": [], "code": []}
    for segment, rows in _portions(exam, _POSTINGS, usual=True):
        keys = segment.arrays["rows"]["chunk"][rows].tolist()
        written = stored_documents.as_written(exam.connection, keys)
        lanes = Lanes(exam.settled.boosts)
        for row, key in enumerate(keys):
            document, chunk = written[key]
            lanes.begin(document)
            lanes.add(row, chunk)
        for name, expected in lanes.files().items():
            new = np.full(segment.record.rows, -1, np.int64)
            new[rows] = np.arange(len(rows))
            found = words.merge([(dict(segment.arrays[name]), new)])
            own = words.merge([(expected, np.arange(len(rows)))])
            wrong[name].append((segment, rows[_different(own, found, len(rows))]))
    for name, rows_of in wrong.items():
        yield from _rewrite(exam, rows_of, f"postings of the {name} lane that their texts do not give")


def _different(expected: dict[str, Array], found: dict[str, Array], size: int) -> list[int]:
    """The rows whose terms or weights are others."""
    if all(
        np.array_equal(expected[name], found[name]) for name in ("names", "name_ends", "ends", "rows")
    ) and (np.allclose(expected["weights"], found["weights"], _WEIGHT)):
        return []
    one, other = _by_row(expected, size), _by_row(found, size)
    return [
        row
        for row in range(size)
        if one[row].keys() != other[row].keys()
        or any(abs(one[row][term] - other[row][term]) > _WEIGHT * one[row][term] for term in one[row])
    ]


def _by_row(arrays: dict[str, Array], size: int) -> list[dict[bytes, float]]:
    rows: list[dict[bytes, float]] = [{} for _ in range(size)]
    start = 0
    for name, end in zip(words.names_of(arrays), arrays["ends"].tolist(), strict=True):
        for row, weight in zip(arrays["rows"][start:end], arrays["weights"][start:end], strict=True):
            rows[int(row)][name] = float(weight)
        start = end
    return rows


def links(exam: Exam) -> Iterator[Finding]:
    """Documents go by the names that their paths and aliases give, and links look for theirs."""
    wrong = set()
    chosen = exam.sample(exam.usual, _LINKS)
    for start in range(0, len(chosen), _DOCUMENTS):
        some = {document.key: document for document in chosen[start : start + _DOCUMENTS]}
        named: dict[int, set[str]] = {key: set() for key in some}
        for document, name in stored_links.names_by_document(exam.connection, list(some)):
            named[document].add(name)
        paths = [document.path for document in some.values()]
        for record in stored_links.documents_at(exam.connection, paths):
            if named[record.id] != names_of(record.path, record.aliases):
                wrong.add(record.path)
        for record, link, name in stored_links.links_from(exam.connection, list(some)):
            if not _looks_for(link, name, some[record.id]):
                wrong.add(record.path)
    if wrong:
        yield problem(
            f"{counted(wrong)} with names or links that are not what they give", repair=rewriting(wrong)
        )


def _looks_for(link: Link, name: str, document: Placed) -> bool:
    inside = link.ordinal is None or 0 <= link.ordinal < document.chunks
    return inside and name == key_of(link, document.path)


def _portions(exam: Exam, most: int, *, usual: bool = False) -> Iterator[tuple[Opened, Rows]]:
    documents = exam.usual if usual else [each for each in exam.documents if each.path not in exam.damaged]
    for segment, rows in exam.sampled_rows(documents, most):
        for start in range(0, len(rows), _PORTION):
            yield segment, rows[start : start + _PORTION]


def _rewrite(
    exam: Exam,
    found: Sequence[tuple[Opened, Rows]],
    what: str,
    kind: Literal["rewrite", "reembed"] = "rewrite",
) -> Iterator[Finding]:
    """The documents of some rows, if there are any, have something wrong."""
    path = {(document.segment, document.place): document.path for document in exam.documents}
    paths = {
        path[segment.record.id, place]
        for segment, rows in found
        for place in segment.arrays["rows"]["document"][rows].tolist()
    }
    if paths:
        yield problem(f"{counted(paths)} with {what}", repair=Repair(kind, documents=frozenset(paths)))


@dataclass(frozen=True, slots=True)
class Embedded:
    """A passage with its vector."""

    path: str
    segment: int
    read: tuple[str, str, str]  # what a model reads: the title, the headings above, the text
    vector: NDArray[np.float32]


def embedded(exam: Exam, most: int) -> list[Embedded]:
    """Some passages that have vectors."""
    wide = {segment.record.id for segment in exam.sound if segment.record.dimension}
    documents = [each for each in exam.documents if each.segment in wide and each.path not in exam.damaged]
    found: list[Embedded] = []
    for segment, rows in replace(exam, full=False).sampled_rows(documents, most):
        keys = segment.arrays["rows"]["chunk"][rows].tolist()
        written = stored_documents.as_written(exam.connection, keys)
        for row, key in zip(rows.tolist(), keys, strict=True):
            document, chunk = written[key]
            read = (document.title, chunk.header_path, chunk.content)
            vector = segment.arrays["vectors"]["full"][row]
            found.append(Embedded(document.path, segment.record.id, read, vector))
    return found
