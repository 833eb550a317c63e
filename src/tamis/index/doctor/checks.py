"""What the checks of an index look at: one generation, held still, as far as it can be opened."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from tamis.errors import IndexDamaged, IndexMismatch, IndexMissing, TamisError
from tamis.index.embedded import database, words
from tamis.index.embedded.arrays import Array, Truncated, map_arrays, spoiled
from tamis.index.embedded.concepts import vocabulary_files
from tamis.index.embedded.database import SegmentRecord
from tamis.index.embedded.lock import holder
from tamis.index.embedded.segment import (
    FILES,
    Lanes,
    dead_documents,
    file_of,
    is_ours,
    row_codes,
)
from tamis.model import Finding, Link, Repair, Severity
from tamis.text.linking import key_of, names_of

_RACES: Final = 20  # how often a merge may pull segments away while we open them
_SEED: Final = (
    7  # the same sample for the same index, so that a finding can be looked at twice
)
_NAMED: Final = 3  # documents that a finding names

Arrays = Mapping[str, Mapping[str, Array]]


@dataclass(frozen=True, slots=True)
class Settled:
    """What the settings decide of what is written for a file."""

    recipe: str
    boosts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Placed:
    """A document, and where its rows should be."""

    key: int
    path: str
    segment: int
    place: int
    chunks: int
    recipe: str


@dataclass(frozen=True, slots=True)
class Opened:
    """A segment; `fault` says why its arrays cannot be trusted."""

    record: SegmentRecord
    arrays: Arrays
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Exam:
    directory: Path
    connection: database.Connection
    facts: Mapping[str, Any]
    segments: tuple[Opened, ...]
    documents: tuple[Placed, ...]
    settled: Settled | None  # None where the settings cannot be read
    full: bool  # look at everything instead of a sample
    damaged: frozenset[str] = (
        frozenset()
    )  # documents that an earlier check found, by path

    @property
    def sound(self) -> list[Opened]:
        return [segment for segment in self.segments if not segment.fault]

    @property
    def usual(self) -> list[Placed]:
        """Documents that can be written again in thought: of our recipe, and not damaged already."""
        wanted = self.settled.recipe if self.settled else None
        return [
            each
            for each in self.documents
            if each.recipe == wanted and each.path not in self.damaged
        ]

    def sample(self, documents: Sequence[Placed], most: int) -> list[Placed]:
        if self.full or len(documents) <= most:
            return list(documents)
        chosen = np.random.default_rng(_SEED).choice(
            len(documents), most, replace=False
        )
        return [documents[at] for at in sorted(chosen.tolist())]

    def sampled_rows(
        self, documents: Iterable[Placed], most: int
    ) -> list[tuple[Opened, NDArray[np.int64]]]:
        """Rows of documents, of each sound segment that has some; at most so many of them altogether."""
        places: dict[int, list[int]] = {}
        for document in documents:
            places.setdefault(document.segment, []).append(document.place)
        rows = [
            (segment, _rows_of(segment, places.get(segment.record.id, [])))
            for segment in self.sound
        ]
        total = sum(len(own) for _, own in rows)
        if self.full or total <= most:
            return [(segment, own) for segment, own in rows if len(own)]
        chosen = np.sort(
            np.random.default_rng(_SEED).choice(total, most, replace=False)
        )
        found, start = [], 0
        for segment, own in rows:
            mine = chosen[(chosen >= start) & (chosen < start + len(own))] - start
            start += len(own)
            if len(mine):
                found.append((segment, own[mine]))
        return found


def _rows_of(segment: Opened, places: Sequence[int]) -> NDArray[np.int64]:
    wanted = np.zeros(segment.record.documents, np.bool_)
    wanted[[place for place in places if 0 <= place < len(wanted)]] = True
    wanted &= ~dead_documents(segment.record)
    return np.flatnonzero(wanted[segment.arrays["rows"]["document"]])


def problem(
    what: str,
    hint: str = "",
    repair: Repair | None = None,
    severity: Severity = "fault",
) -> Finding:
    """A finding of the check that is running; whoever runs it puts its name in."""
    return Finding("", severity, what, hint, repair)


def rewriting(paths: Iterable[str]) -> Repair:
    return Repair("rewrite", documents=frozenset(paths))


def counted(paths: Iterable[str], what: str = "document") -> str:
    """`2 documents (a.md, b.md)`."""
    names = sorted(paths)
    shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return f"{len(names)} {what}{'' if len(names) == 1 else 's'} ({shown})"


@contextmanager
def whatever_it_holds(directory: Path) -> Iterator[None]:
    """Call it damage when values are of a kind that was never written: numbers for texts, texts for lists.

    Only for checks, which meet every value of a database that may hold anything.
    """
    try:
        with database.database_faults(directory):
            yield
    except (
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        AttributeError,
    ) as error:
        raise IndexDamaged(
            directory, f"index.db holds what was never written ({error})"
        ) from error


@contextmanager
def open_exam(
    directory: Path, settled: Settled | None, *, full: bool
) -> Iterator[Exam]:
    """A reading transaction over an index.db that SQLite finds sound, and the segments that it lists."""
    with closing(database.open_reader(directory)) as connection:
        with whatever_it_holds(directory):
            connection.execute("BEGIN")
            flaws = database.flaws(connection, full=full)
            if flaws:
                raise IndexDamaged(directory, f"index.db: {flaws[0]}")
            segments = _open_all(directory, connection)
            facts = database.facts(connection)
            columns = "id, path, segment, place, chunks, recipe"
            rows = connection.execute(
                f"SELECT {columns} FROM documents ORDER BY segment, place, id"
            )
            documents = tuple(Placed(*row) for row in rows)
        yield Exam(directory, connection, facts, segments, documents, settled, full)


def _open_all(directory: Path, connection: database.Connection) -> tuple[Opened, ...]:
    """The segments of the transaction. One whose files are gone is looked for in the next generation:
    a writer merges segments away after the commit that says so."""
    for _ in range(_RACES):
        generation = database.generation(connection)
        opened = tuple(
            _open(directory, record) for record in database.segments(connection)
        )
        if all(segment.arrays or segment.fault for segment in opened):
            break
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
        if database.generation(connection) == generation:
            break
    return tuple(
        segment
        if segment.arrays or segment.fault
        else Opened(segment.record, {}, "its files are missing")
        for segment in opened
    )


def _open(directory: Path, record: SegmentRecord) -> Opened:
    """Map a segment and read every byte of it once; without arrays and without a fault, it is not there."""
    try:
        arrays = {name: map_arrays(file_of(directory, record, name)) for name in FILES}
        for name in FILES:
            wrong = spoiled(file_of(directory, record, name))
            if wrong:
                return Opened(
                    record,
                    {},
                    f"{name}.bin is not as it was written ({', '.join(wrong)})",
                )
    except FileNotFoundError:
        return Opened(record, {})
    except Truncated as error:
        return Opened(record, {}, str(error))
    except OSError as error:
        return Opened(record, {}, f"its files cannot be read: {error.strerror}")
    return Opened(record, arrays, _misfit(arrays, record))


def _misfit(arrays: Arrays, record: SegmentRecord) -> str:
    """What does not fit together, though every byte is as it was written; mostly empty."""
    rows, width = record.rows, record.dimension
    try:
        fits = {
            "rows": all(
                arrays["rows"][name].shape == (rows,)
                for name in ("chunk", "document", "type", "language")
            )
            and _within(arrays["rows"]["document"], record.documents)
            and bool((np.diff(arrays["rows"]["document"]) >= 0).all()),
            "vectors": all(
                arrays["vectors"][name].shape == (rows, width)
                for name in ("full", "codes")
            )
            and all(
                arrays["vectors"][name].shape == (rows,)
                for name in ("scale", "residual")
            ),
            "words": _postings_fit(arrays["words"], rows),
            "code": _postings_fit(arrays["code"], rows),
        }
    except KeyError as error:
        return f"its files lack {error}"
    if len(record.dead) != -(-record.documents // 8):
        return "it does not say which of its documents are gone"
    wrong = [name for name, fit in fits.items() if not fit]
    return f"{wrong[0]}.bin does not fit its {rows} rows" if wrong else ""


def _postings_fit(arrays: Mapping[str, Array], rows: int) -> bool:
    """Whether the numbers lead nowhere else, and terms and rows ascend, which looking them up relies on."""
    ends, name_ends = arrays["ends"], arrays["name_ends"]
    postings = len(arrays["rows"])
    whole = (int(ends[-1]) if len(ends) else 0) == postings == len(arrays["weights"])
    named = (int(name_ends[-1]) if len(name_ends) else 0) == len(arrays["names"])
    ascending = bool(
        (np.diff(ends, prepend=0) >= 0).all()
        and (np.diff(name_ends, prepend=0) > 0).all()
    )
    return (
        whole
        and named
        and ascending
        and len(ends) == len(name_ends)
        and _within(arrays["rows"], rows)
    )


def _within(numbers: Array, end: int) -> bool:
    return not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < end)


_INDEX: Final = "run: tamis index"
_LEFTOVER: Final = re.compile(r"index\.db\.partial.*|anew")
_CHUNK: Final = np.dtype(
    [
        ("key", np.int64),
        ("document", np.int64),
        ("ordinal", np.int64),
        ("codes", np.int64, 2),
    ]
)

Chunks = NDArray[np.void]


def files(exam: Exam) -> Iterator[Finding]:
    """Every file of every segment is there, of its size, and holds the bytes that were written."""
    held = Counter(document.segment for document in exam.documents)
    for segment in exam.segments:
        if segment.fault:
            lost = held[segment.record.id]
            yield problem(
                f"segment {segment.record.folder}: {segment.fault} ({lost} documents)",
                repair=Repair("rewrite", segments=frozenset({segment.record.id})),
            )
    dimension = exam.facts.get("dimension", 0)
    strange = [
        each.record.id
        for each in exam.sound
        if each.record.dimension not in (0, dimension)
    ]
    if strange:
        yield problem(
            f"{len(strange)} segments have vectors that are not of {dimension} numbers",
            repair=Repair("rewrite", segments=frozenset(strange)),
        )


def rows(exam: Exam) -> Iterator[Finding]:
    """Documents, chunks and the living rows of segments are the same, one to one and in order."""
    chunks = _chunks(exam.connection)
    numbers = np.searchsorted(
        chunks["document"], [document.key for document in exam.documents]
    )
    ends = np.searchsorted(
        chunks["document"], [document.key for document in exam.documents], side="right"
    )
    own = {
        document.key: chunks[start:end]
        for document, start, end in zip(exam.documents, numbers, ends, strict=True)
    }
    incomplete = [
        document.path
        for document in exam.documents
        if document.chunks != len(own[document.key])
        or not _counts_up(own[document.key]["ordinal"])
    ]
    if incomplete:
        yield problem(
            f"{counted(incomplete)} without exactly their passages",
            repair=rewriting(incomplete),
        )
    homeless = [path for (path,) in exam.connection.execute(_WITHOUT_SECTION)]
    if homeless:
        yield problem(
            f"{counted(homeless)} with passages whose section is not there",
            repair=rewriting(homeless),
        )
    for segment in exam.sound:
        here = [
            document
            for document in exam.documents
            if document.segment == segment.record.id
        ]
        yield from _rows_of_bookkeeping(segment, here, own, {*incomplete, *homeless})


_WITHOUT_SECTION: Final = """
    SELECT DISTINCT d.path FROM chunks c JOIN documents d ON d.id = c.document
    LEFT JOIN parents p ON p.document = c.document AND p.number = c.parent
    WHERE c.parent IS NOT NULL AND p.number IS NULL
"""


def _rows_of_bookkeeping(
    segment: Opened, here: list[Placed], own: Mapping[int, Chunks], known: set[str]
) -> Iterator[Finding]:
    dead = dead_documents(segment.record)
    places = Counter(document.place for document in here)
    misplaced = [
        document.path
        for document in here
        if not 0 <= document.place < len(dead)
        or dead[document.place]
        or places[document.place] > 1
    ]
    if misplaced:
        yield problem(
            f"{counted(misplaced)} in a place that is not theirs",
            repair=rewriting(misplaced),
        )
    ghosts = sum(
        not gone and place not in places for place, gone in enumerate(dead.tolist())
    )
    if ghosts:
        yield problem(
            f"segment {segment.record.folder} has rows of {ghosts} documents that are gone",
            repair=Repair("sweep"),
        )
    fine = [
        document for document in here if document.path not in known.union(misplaced)
    ]
    if [document.path for document in fine] != sorted(
        document.path for document in fine
    ):
        yield problem(
            f"the rows of segment {segment.record.folder} are not in the order of their paths",
            repair=Repair("rewrite", segments=frozenset({segment.record.id})),
        )
    starts = np.searchsorted(
        segment.arrays["rows"]["document"], np.arange(len(dead) + 1)
    )
    table = segment.arrays["rows"]
    codes = np.stack([table["type"], table["language"]], axis=1)
    other = [
        document.path
        for document in fine
        for run in [slice(starts[document.place], starts[document.place + 1])]
        if not np.array_equal(table["chunk"][run], own[document.key]["key"])
        or not np.array_equal(codes[run], own[document.key]["codes"])
    ]
    if other:
        yield problem(
            f"{counted(other)} with rows that are not their passages",
            repair=rewriting(other),
        )


def _chunks(connection: database.Connection) -> Chunks:
    """Every chunk, by document and ordinal."""
    rows = connection.execute(
        "SELECT id, document, ordinal, type, language FROM chunks ORDER BY document, ordinal"
    )
    return np.fromiter(
        (
            (key, document, ordinal, _codes(kind, language))
            for key, document, ordinal, kind, language in rows
        ),
        _CHUNK,
    )


def _codes(kind: str, language: str | None) -> tuple[int, int]:
    try:
        return row_codes(kind, language)
    except KeyError:
        return -1, -1  # no row has that


def _counts_up(ordinals: NDArray[np.int64]) -> bool:
    return np.array_equal(ordinals, np.arange(len(ordinals)))


def orphans(exam: Exam) -> Iterator[Finding]:
    """Nothing belongs to a document, a segment or a run that is not there any more."""
    known = {segment.record.id for segment in exam.segments}
    lost = [
        document.path for document in exam.documents if document.segment not in known
    ]
    if lost:
        yield problem(
            f"{counted(lost)} in segments that are not there", repair=rewriting(lost)
        )
    for table in database.OF_DOCUMENTS:
        alone = exam.connection.execute(
            f"SELECT count(*) FROM {table} WHERE document NOT IN (SELECT id FROM documents)"
        ).fetchone()[0]
        if alone:
            yield problem(
                f"{alone} {table} of documents that are not there",
                repair=Repair("sweep"),
            )
    left = leftovers(exam.directory)
    if left:
        yield problem(
            f"{counted(left, 'leftover')} of runs that were interrupted",
            repair=Repair("sweep"),
            severity="warning",
        )


def leftovers(directory: Path) -> list[str]:
    """What no commit knows of; nothing while somebody writes, who may be about to commit it.

    The order matters. What is there is listed first; if nobody writes after that, whoever wrote some of it
    has committed it, and a list of segments that is read then knows it, or has left it for ever.
    """
    listed = list(_perhaps_left(directory))
    if not listed or holder(directory) or holder(directory, "concepts.lock"):
        return []
    known = database.folders(directory)
    return [
        path.relative_to(directory).as_posix()
        for path in listed
        if path.name not in known and path.exists()
    ]


def _perhaps_left(directory: Path) -> Iterator[Path]:
    yield from (path for path in _listed(directory) if _LEFTOVER.fullmatch(path.name))
    for folder in _listed(directory / "segments"):
        if is_ours(folder):
            yield folder
            yield from (
                file for file in _listed(folder) if file.name.startswith("partial-")
            )
    yield from (
        file for file in vocabulary_files(directory) if file.suffix == ".partial"
    )


def _listed(folder: Path) -> list[Path]:
    """What is in a folder; nothing, if it goes while we look, or is gone already."""
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def concepts(exam: Exam) -> Iterator[Finding]:
    """The files of the concept vocabulary; nothing is lost with one that is damaged, it is made again."""
    terms = [
        file_of(exam.directory, segment.record, "terms") for segment in exam.segments
    ]
    files = [
        *terms,
        *(file for file in vocabulary_files(exam.directory) if file.suffix == ".bin"),
    ]
    broken = [
        file.relative_to(exam.directory).as_posix()
        for file in files
        if is_spoiled(file)
    ]
    if broken:
        yield problem(
            f"{counted(broken, 'file')} of the concept vocabulary not as written",
            repair=Repair("sweep"),
            severity="warning",
        )


def is_spoiled(file: Path) -> bool:
    try:
        return bool(spoiled(file))
    except FileNotFoundError:
        return False
    except Truncated:
        return True


def pending(exam: Exam) -> Iterator[Finding]:
    """Every file that a run has found is in, and every passage has its vector."""
    files = exam.facts["pending"]
    waiting = database.pending_chunks(exam.connection, exam.facts)
    never = not exam.facts["built_at"]
    writing = holder(exam.directory)
    parts = (
        [f"{files} files are not indexed yet"]
        if files
        else ["the first run did not finish"]
        if never
        else []
    )
    parts += [f"{waiting} passages have no vectors yet"] if waiting else []
    if parts and writing:
        yield problem(f"{' and '.join(parts)}; {writing} is at it", severity="ok")
    elif parts:
        yield problem(" and ".join(parts), _INDEX, Repair("refresh"), "warning")


def recipes(exam: Exam) -> Iterator[Finding]:
    """Every document was written as the settings and this version would write it now."""
    wanted = exam.settled.recipe if exam.settled else None
    others = [
        document.path
        for document in exam.documents
        if document.recipe != wanted and document.path not in exam.damaged
    ]
    if others:
        yield problem(
            f"{counted(others)} written with other settings or by another version",
            _INDEX,
            Repair("refresh"),
            "warning",
        )


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
        some = {
            document.key: document.path
            for document in chosen[start : start + _DOCUMENTS]
        }
        stored = database.stored_sums(exam.connection, list(some))
        for key, own in database.sums(exam.connection, list(some)).items():
            if own != stored[key]:
                wrong.append(some[key])
    if wrong:
        yield problem(
            f"{counted(wrong)} with texts that are not as they were stored",
            repair=rewriting(wrong),
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
            rest = (
                full
                - arrays["codes"][rows]
                * arrays["scale"][rows].astype(np.float64)[:, np.newaxis]
            )
            off = np.abs(np.sqrt((rest * rest).sum(axis=1)) - arrays["residual"][rows])
            near = off <= _RESIDUAL
        strange.append((segment, rows[~good]))
        coded.append((segment, rows[good & ~near]))
        firsts.append((segment, rows, arrays["full"][rows]))
    yield from _rewrite(exam, strange, "vectors that are no unit vectors", "reembed")
    yield from _rewrite(
        exam, coded, "vectors that their codes do not stand for", "reembed"
    )
    if _all_alike(exam, firsts):
        held = frozenset(segment.record.id for segment, *_ in firsts)
        yield problem(
            "all passages have the same vector", repair=Repair("reembed", segments=held)
        )


def _all_alike(exam: Exam, found: Sequence[tuple[Opened, Rows, Array]]) -> bool:
    if not found or any((full != found[0][2][0]).any() for _, _, full in found):
        return False
    keys = [
        key
        for segment, rows, _ in found
        for key in segment.arrays["rows"]["chunk"][rows].tolist()
    ]
    return (
        len(set(database.contents(exam.connection, keys[:_TEXTS]).values()))
        >= _DIFFERENT
    )


def postings(exam: Exam) -> Iterator[Finding]:
    """What the words lane and the code lane hold of a row is what its text gives."""
    assert exam.settled  # who cannot read the settings does not come here
    wrong: dict[str, list[tuple[Opened, Rows]]] = {"words": [], "code": []}
    for segment, rows in _portions(exam, _POSTINGS, usual=True):
        keys = segment.arrays["rows"]["chunk"][rows].tolist()
        written = database.as_written(exam.connection, keys)
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
        yield from _rewrite(
            exam, rows_of, f"postings of the {name} lane that their texts do not give"
        )


def _different(
    expected: dict[str, Array], found: dict[str, Array], size: int
) -> list[int]:
    """The rows whose terms or weights are others."""
    if all(
        np.array_equal(expected[name], found[name])
        for name in ("names", "name_ends", "ends", "rows")
    ) and (np.allclose(expected["weights"], found["weights"], _WEIGHT)):
        return []
    one, other = _by_row(expected, size), _by_row(found, size)
    return [
        row
        for row in range(size)
        if one[row].keys() != other[row].keys()
        or any(
            abs(one[row][term] - other[row][term]) > _WEIGHT * one[row][term]
            for term in one[row]
        )
    ]


def _by_row(arrays: dict[str, Array], size: int) -> list[dict[bytes, float]]:
    rows: list[dict[bytes, float]] = [{} for _ in range(size)]
    start = 0
    for name, end in zip(words.names_of(arrays), arrays["ends"].tolist(), strict=True):
        for row, weight in zip(
            arrays["rows"][start:end], arrays["weights"][start:end], strict=True
        ):
            rows[int(row)][name] = float(weight)
        start = end
    return rows


def links(exam: Exam) -> Iterator[Finding]:
    """Documents go by the names that their paths and aliases give, and links look for theirs."""
    wrong = set()
    chosen = exam.sample(exam.usual, _LINKS)
    for start in range(0, len(chosen), _DOCUMENTS):
        some = {
            document.key: document for document in chosen[start : start + _DOCUMENTS]
        }
        named: dict[int, set[str]] = {key: set() for key in some}
        for document, name in database.names_by_document(exam.connection, list(some)):
            named[document].add(name)
        paths = [document.path for document in some.values()]
        for record in database.documents_at(exam.connection, paths):
            if named[record.id] != names_of(record.path, record.aliases):
                wrong.add(record.path)
        for record, link, name in database.links_from(exam.connection, list(some)):
            if not _looks_for(link, name, some[record.id]):
                wrong.add(record.path)
    if wrong:
        yield problem(
            f"{counted(wrong)} with names or links that are not what they give",
            repair=rewriting(wrong),
        )


def _looks_for(link: Link, name: str, document: Placed) -> bool:
    inside = link.ordinal is None or 0 <= link.ordinal < document.chunks
    return inside and name == key_of(link, document.path)


def _portions(
    exam: Exam, most: int, *, usual: bool = False
) -> Iterator[tuple[Opened, Rows]]:
    documents = (
        exam.usual
        if usual
        else [each for each in exam.documents if each.path not in exam.damaged]
    )
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
    path = {
        (document.segment, document.place): document.path for document in exam.documents
    }
    paths = {
        path[segment.record.id, place]
        for segment, rows in found
        for place in segment.arrays["rows"]["document"][rows].tolist()
    }
    if paths:
        yield problem(
            f"{counted(paths)} with {what}",
            repair=Repair(kind, documents=frozenset(paths)),
        )


@dataclass(frozen=True, slots=True)
class Embedded:
    """A passage with its vector."""

    path: str
    segment: int
    read: tuple[
        str, str, str
    ]  # what a model reads: the title, the headings above, the text
    vector: NDArray[np.float32]


def embedded(exam: Exam, most: int) -> list[Embedded]:
    """Some passages that have vectors."""
    wide = {segment.record.id for segment in exam.sound if segment.record.dimension}
    documents = [
        each
        for each in exam.documents
        if each.segment in wide and each.path not in exam.damaged
    ]
    found: list[Embedded] = []
    for segment, rows in replace(exam, full=False).sampled_rows(documents, most):
        keys = segment.arrays["rows"]["chunk"][rows].tolist()
        written = database.as_written(exam.connection, keys)
        for row, key in zip(rows.tolist(), keys, strict=True):
            document, chunk = written[key]
            read = (document.title, chunk.header_path, chunk.content)
            vector = segment.arrays["vectors"]["full"][row]
            found.append(Embedded(document.path, segment.record.id, read, vector))
    return found


@dataclass(frozen=True, slots=True)
class Check:
    look: Callable[[Exam], Iterator[Finding]]
    sound: str  # what is true when nothing is found
    settled: bool = False  # needs settings that can be read
    arrays: bool = False  # looks into segments


CHECKS: Final = {
    "segments": Check(
        files, "every file of every segment holds the bytes that were written"
    ),
    "rows": Check(
        rows, "documents, passages and rows are the same, one to one", arrays=True
    ),
    "orphans": Check(orphans, "nothing belongs to what is gone"),
    "texts": Check(texts, "texts are as they were stored"),
    "vectors": Check(
        vectors, "vectors are unit vectors, and their codes stand for them", arrays=True
    ),
    "postings": Check(
        postings, "postings are what the texts give", settled=True, arrays=True
    ),
    "links": Check(links, "names and links are what the documents give", settled=True),
    "concepts": Check(concepts, "the concept vocabulary is whole, or not there"),
    "recipe": Check(
        recipes, "every document is written as it would be now", settled=True
    ),
    "pending": Check(pending, "the last run left nothing to be indexed or embedded"),
}


def examine(
    directory: Path, settled: Settled | None, *, full: bool, more: Mapping[str, Check]
) -> list[Finding]:
    """Run every check. `more` are checks of what lies above the engine, run on the same snapshot."""
    found: list[Finding] = []
    try:
        with open_exam(directory, settled, full=full) as exam:
            found.append(
                Finding(
                    "database",
                    "ok",
                    f"index.db is sound, of format {database.SCHEMA_VERSION}",
                )
            )
            for name, check in {**CHECKS, **more}.items():
                own = _run(exam, name, check)
                found += own
                exam = _without(exam, own)
    except TamisError as error:
        found.append(_database(directory, error))
        done = {finding.check for finding in found}
        names = [name for name in (*CHECKS, *more) if name not in done]
        found += [
            Finding(name, "skipped", "not looked at: index.db cannot be read")
            for name in names
        ]
    return found


def _run(exam: Exam, name: str, check: Check) -> list[Finding]:
    if check.settled and exam.settled is None:
        return [Finding(name, "skipped", "not looked at: the settings cannot be read")]
    try:
        with whatever_it_holds(exam.directory):
            found = [replace(finding, check=name) for finding in check.look(exam)]
    except IndexDamaged as error:
        return [Finding(name, "fault", error.message, error.hint, Repair("rebuild"))]
    closed = len(exam.segments) - len(exam.sound)
    if check.arrays and closed:
        what = f"not looked at in {closed} of {len(exam.segments)} segments, which cannot be read"
        return [*found, Finding(name, "skipped", what)]
    return found or [Finding(name, "ok", check.sound)]


def _without(exam: Exam, found: list[Finding]) -> Exam:
    """The exam without the documents that are found to be damaged: they are written again in any case."""
    repairs = [finding.repair for finding in found if finding.repair]
    paths = frozenset().union(*(repair.documents for repair in repairs))
    held = frozenset().union(*(repair.segments for repair in repairs))
    lost = {document.path for document in exam.documents if document.segment in held}
    return replace(exam, damaged=exam.damaged | paths | lost)


def _database(directory: Path, error: TamisError) -> Finding:
    """Why index.db cannot be looked at."""
    if isinstance(error, IndexMissing):
        return Finding(
            "database", "warning", "there is no index.db", error.hint, Repair("refresh")
        )
    older = (
        isinstance(error, IndexMismatch)
        and database.format_of(directory) < database.SCHEMA_VERSION
    )
    anew = isinstance(error, IndexDamaged) or older
    return Finding(
        "database",
        "fault",
        error.message,
        error.hint,
        Repair("rebuild") if anew else None,
    )
