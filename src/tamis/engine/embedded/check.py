"""Is an index what it should be? Looked at on a snapshot, without a lock, changing nothing.

A check is a function from an `Exam` to what it finds wrong. They stand in the order in which one relies
on another; a document that one has found is left out by those after it. Whatever is damaged, the answer
is findings, never a fault.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tamis.engine.embedded import bookkeeping, contents, store
from tamis.engine.embedded.exam import Exam, Settled, open_exam, whatever_it_holds
from tamis.errors import IndexDamaged, IndexMismatch, IndexMissing, TamisError
from tamis.model import Finding, Repair


@dataclass(frozen=True, slots=True)
class Check:
    look: Callable[[Exam], Iterator[Finding]]
    sound: str  # what is true when nothing is found
    settled: bool = False  # needs settings that can be read
    arrays: bool = False  # looks into segments


CHECKS: Final = {
    "segments": Check(bookkeeping.files, "every file of every segment holds the bytes that were written"),
    "rows": Check(bookkeeping.rows, "documents, passages and rows are the same, one to one", arrays=True),
    "orphans": Check(bookkeeping.orphans, "nothing belongs to what is gone"),
    "texts": Check(contents.texts, "texts are as they were stored"),
    "vectors": Check(
        contents.vectors, "vectors are unit vectors, and their codes stand for them", arrays=True
    ),
    "postings": Check(contents.postings, "postings are what the texts give", settled=True, arrays=True),
    "links": Check(contents.links, "names and links are what the documents give", settled=True),
    "concepts": Check(bookkeeping.concepts, "the concept vocabulary is whole, or not there"),
    "recipe": Check(bookkeeping.recipes, "every document is written as it would be now", settled=True),
    "pending": Check(bookkeeping.pending, "the last run left nothing to be indexed or embedded"),
}


def examine(
    directory: Path, settled: Settled | None, *, full: bool, more: Mapping[str, Check]
) -> list[Finding]:
    """Run every check. `more` are checks of what lies above the engine, run on the same snapshot."""
    found: list[Finding] = []
    try:
        with open_exam(directory, settled, full=full) as exam:
            found.append(Finding("database", "ok", f"index.db is sound, of format {store.SCHEMA_VERSION}"))
            for name, check in {**CHECKS, **more}.items():
                own = _run(exam, name, check)
                found += own
                exam = _without(exam, own)
    except TamisError as error:
        found.append(_database(directory, error))
        done = {finding.check for finding in found}
        names = [name for name in (*CHECKS, *more) if name not in done]
        found += [Finding(name, "skipped", "not looked at: index.db cannot be read") for name in names]
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
        return Finding("database", "warning", "there is no index.db", error.hint, Repair("refresh"))
    older = isinstance(error, IndexMismatch) and store.format_of(directory) < store.SCHEMA_VERSION
    anew = isinstance(error, IndexDamaged) or older
    return Finding("database", "fault", error.message, error.hint, Repair("rebuild") if anew else None)
