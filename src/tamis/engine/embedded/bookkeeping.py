"""Checks of what an index says of itself: files, documents and their rows, and what belongs to nobody."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tamis.engine.embedded import store, stored_segments
from tamis.engine.embedded.arrays import Truncated, spoiled
from tamis.engine.embedded.concepts import vocabulary_files
from tamis.engine.embedded.exam import Exam, Opened, Placed, counted, problem, rewriting
from tamis.engine.embedded.lock import holder
from tamis.engine.embedded.segment import dead_documents, file_of, is_ours, row_codes
from tamis.model import Finding, Repair

_INDEX: Final = "run: tamis index"
_LEFTOVER: Final = re.compile(r"index\.db\.partial.*|anew")
_CHUNK: Final = np.dtype(
    [("key", np.int64), ("document", np.int64), ("ordinal", np.int64), ("codes", np.int64, 2)]
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
    strange = [each.record.id for each in exam.sound if each.record.dimension not in (0, dimension)]
    if strange:
        yield problem(
            f"{len(strange)} segments have vectors that are not of {dimension} numbers",
            repair=Repair("rewrite", segments=frozenset(strange)),
        )


def rows(exam: Exam) -> Iterator[Finding]:
    """Documents, chunks and the living rows of segments are the same, one to one and in order."""
    chunks = _chunks(exam.connection)
    numbers = np.searchsorted(chunks["document"], [document.key for document in exam.documents])
    ends = np.searchsorted(chunks["document"], [document.key for document in exam.documents], side="right")
    own = {
        document.key: chunks[start:end]
        for document, start, end in zip(exam.documents, numbers, ends, strict=True)
    }
    incomplete = [
        document.path
        for document in exam.documents
        if document.chunks != len(own[document.key]) or not _counts_up(own[document.key]["ordinal"])
    ]
    if incomplete:
        yield problem(f"{counted(incomplete)} without exactly their passages", repair=rewriting(incomplete))
    homeless = [path for (path,) in exam.connection.execute(_WITHOUT_SECTION)]
    if homeless:
        yield problem(
            f"{counted(homeless)} with passages whose section is not there", repair=rewriting(homeless)
        )
    for segment in exam.sound:
        here = [document for document in exam.documents if document.segment == segment.record.id]
        yield from _rows_of(segment, here, own, {*incomplete, *homeless})


_WITHOUT_SECTION: Final = """
    SELECT DISTINCT d.path FROM chunks c JOIN documents d ON d.id = c.document
    LEFT JOIN parents p ON p.document = c.document AND p.number = c.parent
    WHERE c.parent IS NOT NULL AND p.number IS NULL
"""


def _rows_of(
    segment: Opened, here: list[Placed], own: Mapping[int, Chunks], known: set[str]
) -> Iterator[Finding]:
    dead = dead_documents(segment.record)
    places = Counter(document.place for document in here)
    misplaced = [
        document.path
        for document in here
        if not 0 <= document.place < len(dead) or dead[document.place] or places[document.place] > 1
    ]
    if misplaced:
        yield problem(f"{counted(misplaced)} in a place that is not theirs", repair=rewriting(misplaced))
    ghosts = sum(not gone and place not in places for place, gone in enumerate(dead.tolist()))
    if ghosts:
        yield problem(
            f"segment {segment.record.folder} has rows of {ghosts} documents that are gone",
            repair=Repair("sweep"),
        )
    fine = [document for document in here if document.path not in known.union(misplaced)]
    if [document.path for document in fine] != sorted(document.path for document in fine):
        yield problem(
            f"the rows of segment {segment.record.folder} are not in the order of their paths",
            repair=Repair("rewrite", segments=frozenset({segment.record.id})),
        )
    starts = np.searchsorted(segment.arrays["rows"]["document"], np.arange(len(dead) + 1))
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
        yield problem(f"{counted(other)} with rows that are not their passages", repair=rewriting(other))


def _chunks(connection: store.Connection) -> Chunks:
    """Every chunk, by document and ordinal."""
    rows = connection.execute(
        "SELECT id, document, ordinal, type, language FROM chunks ORDER BY document, ordinal"
    )
    return np.fromiter(
        ((key, document, ordinal, _codes(kind, language)) for key, document, ordinal, kind, language in rows),
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
    lost = [document.path for document in exam.documents if document.segment not in known]
    if lost:
        yield problem(f"{counted(lost)} in segments that are not there", repair=rewriting(lost))
    for table in store.OF_DOCUMENTS:
        alone = exam.connection.execute(
            f"SELECT count(*) FROM {table} WHERE document NOT IN (SELECT id FROM documents)"
        ).fetchone()[0]
        if alone:
            yield problem(f"{alone} {table} of documents that are not there", repair=Repair("sweep"))
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
    known = stored_segments.folders(directory)
    return [
        path.relative_to(directory).as_posix() for path in listed if path.name not in known and path.exists()
    ]


def _perhaps_left(directory: Path) -> Iterator[Path]:
    yield from (path for path in _listed(directory) if _LEFTOVER.fullmatch(path.name))
    for folder in _listed(directory / "segments"):
        if is_ours(folder):
            yield folder
            yield from (file for file in _listed(folder) if file.name.startswith("partial-"))
    yield from (file for file in vocabulary_files(directory) if file.suffix == ".partial")


def _listed(folder: Path) -> list[Path]:
    """What is in a folder; nothing, if it goes while we look, or is gone already."""
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def concepts(exam: Exam) -> Iterator[Finding]:
    """The files of the concept vocabulary; nothing is lost with one that is damaged, it is made again."""
    terms = [file_of(exam.directory, segment.record, "terms") for segment in exam.segments]
    files = [*terms, *(file for file in vocabulary_files(exam.directory) if file.suffix == ".bin")]
    broken = [file.relative_to(exam.directory).as_posix() for file in files if is_spoiled(file)]
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
    waiting = stored_segments.pending_chunks(exam.connection, exam.facts)
    never = not exam.facts["built_at"]
    writing = holder(exam.directory)
    parts = (
        [f"{files} files are not indexed yet"] if files else ["the first run did not finish"] if never else []
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
