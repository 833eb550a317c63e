"""Checks of an index: `tamis doctor`.

A check is a function from an `Exam` (one generation of the index, held still) to findings. Each
finding names the repair that would mend it; `repair.py` does the repairs. A check takes no lock and
changes nothing, and a writer may be at work meanwhile.

The bytes of every file have checksums, and so has what index.db stores for each document. The rest
is derived again and compared: rows, postings, the codes of vectors, names and links. Whatever
differs is written again from the files.
"""

import os
import random
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tamis.errors import (
    BadSetting,
    IndexDamaged,
    IndexMismatch,
    IndexMissing,
    TamisError,
    rebuild_command,
)
from tamis.index.embedded import database, vectors, words
from tamis.index.embedded.arrays import Arrays, Truncated, map_arrays, spoiled
from tamis.index.embedded.concepts import vocabulary_files
from tamis.index.embedded.database import SegmentRecord
from tamis.index.embedded.folder import holder, misshapen, unfit
from tamis.index.embedded.reader import Reader
from tamis.index.embedded.segment import (
    FILES,
    Lanes,
    dead_documents,
    file_of,
    is_ours,
    row_codes,
)
from tamis.index.plan import Known, count_changes, recipe
from tamis.model import (
    INDEX_FOLDER,
    Chunk,
    Document,
    Finding,
    Repair,
    embedding_text,
)
from tamis.models.embedders import Embedder, check_model, model_facts, model_name
from tamis.settings import Settings
from tamis.text.linking import key_of, names_of

Load = Callable[[str], Embedder | None]
Rows = NDArray[np.int64]
Item = TypeVar("Item")

# A quick check should take seconds for an index of any size, so it reads samples: the same ones of
# the same index, so that a finding can be seen twice.
_SEED = 7
_TEXTS = 2_000  # documents
_LINKS = 500
_DERIVED = 100  # passages of a segment
_FEW = 2  # passages of a segment that are embedded again
_FEW_FULL = 8
_PORTION = 8_192  # passages compared together: some hundred megabytes
_RACES = 20  # how often a merge may remove segments while we open them
_NAMED = 3  # documents that a finding names

_TOLERANCE = 1e-5  # of weights and lengths, which are float32
# Vectors of one text differ a little between machines; a lower cosine is another text's.
_SAME_COSINE = 0.98

_OTHERS = 0o077  # permissions of the group and of everybody else
_PERMISSIONS = "check its permissions and its owner"
_LEFTOVER = re.compile(r"index\.db\.partial.*|anew")
_BEFORE_REPAIR = ("root", "settings", "folder")  # faults that block any repair


@dataclass(frozen=True, slots=True)
class Health:
    """The findings of every check of an index, in order."""

    root: str
    directory: str
    full: bool  # everything was read, not a sample
    findings: tuple[Finding, ...]
    repaired: tuple[str, ...] = ()  # what was done about earlier findings

    @property
    def verdict(self) -> str:
        """One of healthy, repairable (`tamis doctor --repair`), attention (a person must act), fault."""
        lasting = {each.severity for each in self.findings if not each.repair}
        if "fault" in lasting:
            return "fault"
        if "warning" in lasting:
            return "attention"
        if any(each.repair for each in self.findings):
            return "repairable"
        return "healthy"

    @property
    def exit_code(self) -> int:
        return {"healthy": 0, "fault": 2}.get(self.verdict, 1)

    @property
    def repairs(self) -> list[Repair]:
        """The repairs to do; none while a person must put something right first."""
        repairs = []
        for each in self.findings:
            if each.repair:
                repairs.append(each.repair)
            elif each.severity == "fault" and each.check in _BEFORE_REPAIR:
                return []
        return repairs

    def to_dict(self) -> dict[str, Any]:
        return {
            "root": self.root,
            "directory": self.directory,
            "full": self.full,
            "verdict": self.verdict,
            "findings": [finding.to_dict() for finding in self.findings],
            "repaired": list(self.repaired),
        }


class Placed(NamedTuple):
    """A document, and the place of its rows."""

    id: int
    path: str
    segment: int
    place: int
    chunks: int
    recipe: str


@dataclass(frozen=True, slots=True)
class Opened:
    """A segment; `fault` says why its arrays cannot be read."""

    record: SegmentRecord
    arrays: dict[str, Arrays]
    fault: str = ""


class Exam:
    """One generation of an index, as far as it can be opened."""

    connection: database.Connection
    facts: dict[str, Any]
    segments: list[Opened]

    def __init__(
        self,
        root: Path,
        directory: Path,
        settings: Settings | BadSetting,
        load: Load,
        *,
        full: bool,
    ) -> None:
        """With `full`, everything is read instead of a sample."""
        self.root = root
        self.directory = directory
        self.given = settings
        self.load = load
        self.full = full
        self.documents: list[Placed] = []  # in the order of their paths
        self.damaged: set[str] = set()  # paths that a check reported

    @property
    def settings(self) -> Settings:
        if isinstance(self.given, BadSetting):
            raise self.given
        return self.given

    @property
    def undamaged(self) -> list[Placed]:
        return [each for each in self.documents if each.path not in self.damaged]

    def current(self) -> list[Placed]:
        """Undamaged documents of the current recipe: they can be derived again and compared."""
        wanted = recipe(self.settings)
        return [each for each in self.undamaged if each.recipe == wanted]

    def most(self, number: int) -> int:
        """The size of a sample: everything if everything is read."""
        return sys.maxsize if self.full else number

    def portions(
        self, documents: Sequence[Placed], most: int
    ) -> Iterator[dict[int, Placed]]:
        """Yield documents by key, in portions, at most so many."""
        for some in database.portions(_sample(documents, most)):
            yield {document.id: document for document in some}

    def rows(
        self, documents: Sequence[Placed], most: int
    ) -> Iterator[tuple[Opened, Rows]]:
        """Yield rows of documents, in portions, at most so many of a segment."""
        for segment in self.segments:
            if segment.fault:
                continue
            key = segment.record.id
            places = [each.place for each in documents if each.segment == key]
            wanted = np.isin(segment.arrays["rows"]["document"], places)
            rows = _sample(np.flatnonzero(wanted).tolist(), most)
            for start in range(0, len(rows), _PORTION):
                yield segment, np.array(rows[start : start + _PORTION])


Look = Callable[[Exam], Iterator[Finding]]
Checks = Sequence[tuple[str, Look, str]]  # names, and what a sound index is said to be


def _sample(items: Sequence[Item], most: int) -> Sequence[Item]:
    if len(items) <= most:
        return items
    return random.Random(_SEED).sample(items, most)


def check(
    root: Path,
    directory: Path,
    settings: Settings | BadSetting,
    load: Load,
    *,
    full: bool,
) -> Health:
    """Run every check of an index and its surroundings."""
    exam = Exam(root, directory, settings, load, full=full)
    findings = []
    for each in AROUND:
        findings += _run(exam, *each)
    if not misshapen(directory):  # else nothing in it can be opened
        findings += _inside(exam)
    return Health(str(root), str(directory), full, tuple(findings))


def _inside(exam: Exam) -> list[Finding]:
    """Run the checks of the index itself on one generation."""
    found: list[Finding] = []
    try:
        with closing(database.open_reader(exam.directory)) as connection:
            exam.connection = connection
            with _any_content(exam.directory):
                _open(exam)
            sound = f"index.db is sound, of format {database.SCHEMA_VERSION}"
            found.append(Finding("database", "ok", sound))
            for each in INSIDE:
                found += _run(exam, *each)
    except TamisError as error:
        done = {finding.check for finding in found}
        found.append(_database(exam.directory, error))
        what = "not looked at: index.db cannot be read"
        for name, *_ in INSIDE:
            if name not in done:
                found.append(Finding(name, "skipped", what))
    return found


def _run(
    exam: Exam,
    name: str,
    look: Look,
    sound: str,
) -> list[Finding]:
    """Run a check; later checks leave out the documents that are written again because of it."""
    try:
        with _any_content(exam.directory):
            found = [replace(finding, check=name) for finding in look(exam)]
    except BadSetting:
        return [Finding(name, "skipped", "not looked at: the settings cannot be read")]
    except IndexDamaged as error:
        return [Finding(name, "fault", error.message, error.hint, Repair("rebuild"))]
    for repair in filter(None, (finding.repair for finding in found)):
        exam.damaged |= repair.documents
        for document in exam.documents:
            if document.segment in repair.segments:
                exam.damaged.add(document.path)
    return found or [Finding(name, "ok", sound)]


# Findings of the check that is running, which adds its name.
_fault = partial(Finding, "", "fault")
_warning = partial(Finding, "", "warning")
_note = partial(Finding, "", "ok")


def rewriting(paths: Iterable[str], what: str) -> Iterator[Finding]:
    """Report documents that have to be written again, if there are any."""
    documents = frozenset(paths)
    if documents:
        repair = Repair("rewrite", documents=documents)
        yield _fault(f"{counted(documents)} {what}", repair=repair)


def counted(paths: Iterable[str], what: str = "document") -> str:
    """Return `2 documents (a.md, b.md)`."""
    names = sorted(paths)
    shown = names[:_NAMED]
    if len(names) > _NAMED:
        shown.append("...")
    if len(names) != 1:
        what = f"{what}s"
    return f"{len(names)} {what} ({', '.join(shown)})"


def settings(exam: Exam) -> Iterator[Finding]:
    if isinstance(exam.given, BadSetting):
        yield _fault(exam.given.message, exam.given.hint)


# --- Around the index ---------------------------------------------------------


def folder(exam: Exam) -> Iterator[Finding]:
    """Check that the folder is private and can be read and written."""
    directory = exam.directory
    wrong = misshapen(directory)
    if wrong:
        hint = f"remove it, and run: {rebuild_command(directory)}"
        yield _fault(f"{directory} {wrong}", hint)
        return
    if not os.access(directory, os.R_OK | os.X_OK):
        yield _fault(f"{directory} may not be read", _PERMISSIONS)
        return
    strange = unfit(directory)
    if strange:
        hint = "move it away, or choose another place with --index-dir"
        yield _fault(f"{directory} {strange}", hint)
    for place in (directory, directory / "segments", directory / "index.db"):
        if place.exists() and not os.access(place, os.W_OK):
            what = f"{place} may not be written: it can be searched, but not brought up to date"
            yield _warning(what, _PERMISSIONS)
            break
    if directory.name == INDEX_FOLDER and directory.stat().st_mode & _OTHERS:
        what = f"{directory} may be read by others, and holds the text of your files"
        yield _warning(what, f"run: chmod 700 {directory}", Repair("protect"))
    if not (directory / ".gitignore").exists():
        what = f"{directory} has no .gitignore of its own: git would take the index in"
        yield _warning(what, "", Repair("protect"))


def disk(exam: Exam) -> Iterator[Finding]:
    """Check for room: a merge or a rebuild writes the new index before it removes the old one."""
    free = shutil.disk_usage(exam.directory).free
    needed = sum(Reader(exam.directory).sizes().values())
    if free < needed:
        what = f"{free / 1e6:.0f} MB are free, and the index has {needed / 1e6:.0f} MB"
        hint = "free some space: bringing it up to date may need as much again"
        yield _warning(what, hint)


def lock(exam: Exam) -> Iterator[Finding]:
    """Report who writes. A lock file always stays behind; the lock ends with its process."""
    if misshapen(exam.directory):
        return
    try:
        writing = holder(exam.directory)
        watching = holder(exam.directory, "watch.lock")
    except PermissionError:
        yield _warning("writer.lock may not be read", _PERMISSIONS)
        return
    what = "nobody is writing"
    if writing:
        what = f"{writing} is writing now"
    if watching:
        what += f", {watching} watches the files"
    yield _note(what)


# --- Opening the index ----------------------------------------------------------


def _open(exam: Exam) -> None:
    """Begin a read transaction, and open the segments that it lists.

    A writer removes merged segments after its commit. So if files are missing, look at the next
    generation; if there is none, they are lost.
    """
    connection = exam.connection
    flaws = database.flaws(connection, full=exam.full)
    if flaws:
        raise IndexDamaged(exam.directory, f"index.db: {flaws[0]}")
    seen = None
    for _ in range(_RACES):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("BEGIN")
        records = database.segments(connection)
        exam.segments = [_open_segment(exam.directory, record) for record in records]
        generation = database.generation(connection)
        is_missing = any(each.fault == _MISSING for each in exam.segments)
        if generation == seen or not is_missing:
            break
        seen = generation
    exam.facts = database.facts(connection)
    columns = ", ".join(Placed._fields)
    rows = connection.execute(f"SELECT {columns} FROM documents ORDER BY path")
    exam.documents = [Placed(*row) for row in rows]


_MISSING = "its files are missing"


def _open_segment(directory: Path, record: SegmentRecord) -> Opened:
    """Map a segment and read every byte of it once."""
    arrays: dict[str, Arrays] = {}
    try:
        for name in FILES:
            file = file_of(directory, record, name)
            arrays[name] = map_arrays(file)
            wrong = spoiled(file)
            if wrong:
                what = f"{name}.bin is not as it was written ({', '.join(wrong)})"
                return Opened(record, {}, what)
    except FileNotFoundError:
        return Opened(record, {}, _MISSING)
    except Truncated as error:
        return Opened(record, {}, str(error))
    except OSError as error:
        return Opened(record, {}, f"its files cannot be read: {error.strerror}")
    return Opened(record, arrays)


@contextmanager
def _any_content(directory: Path) -> Iterator[None]:
    """Report values of a kind that was never written as damage.

    Only for checks, which read every value of a database that may hold anything.
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
        what = f"it holds what was never written ({error})"
        raise IndexDamaged(directory, what) from error


def _database(directory: Path, error: TamisError) -> Finding:
    """Report why index.db cannot be checked."""
    if isinstance(error, IndexMissing):
        refresh = Repair("refresh")
        what = "there is no index.db"
        return Finding("database", "warning", what, error.hint, refresh)
    is_older = (
        isinstance(error, IndexMismatch)
        and database.format_of(directory) < database.SCHEMA_VERSION
    )
    repair = None
    if is_older or isinstance(error, IndexDamaged):
        repair = Repair("rebuild")
    return Finding("database", "fault", error.message, error.hint, repair)


# --- Inside the index -------------------------------------------------------------


def segments(exam: Exam) -> Iterator[Finding]:
    """Check that every segment holds the bytes that were written, and its documents' rows in order."""
    for opened in exam.segments:
        key = opened.record.id
        here = [each for each in exam.documents if each.segment == key]
        fault = opened.fault or _misfit(exam, opened, here)
        if fault:
            what = f"segment {opened.record.folder}: {fault} ({len(here)} documents)"
            yield _fault(what, repair=Repair("rewrite", segments=frozenset({key})))


_PASSAGES = """
    SELECT d.place, c.id, c.type, c.language
    FROM documents d JOIN chunks c ON c.document = d.id
    WHERE d.segment = ? ORDER BY d.path, c.ordinal
"""


def _misfit(exam: Exam, segment: Opened, documents: list[Placed]) -> str:
    """Describe arrays that are not what index.db says though every byte is as written, or return ""."""
    record = segment.record
    table, stored = segment.arrays["rows"], segment.arrays["vectors"]
    lengths = set(map(len, (*table.values(), *stored.values())))
    widths = {
        stored["full"].shape[1],
        stored["codes"].shape[1],
        record.dimension,
    }
    if lengths != {record.rows} or len(widths) > 1:
        return f"its files do not fit its {record.rows} rows"
    if record.dimension not in (0, exam.facts.get("dimension", 0)):
        return f"its vectors have {record.dimension} numbers"
    living = ~dead_documents(record)
    places = [document.place for document in documents]
    if not np.array_equal(places, np.flatnonzero(living)):
        return "its documents are not in their places"
    rows = []
    passages = exam.connection.execute(_PASSAGES, [record.id])
    for place, key, kind, language in passages:
        rows.append((place, key, *row_codes(kind, language)))
    names = ("document", "chunk", "type", "language")
    columns = [table[name].astype(np.int64) for name in names]
    found = np.stack(columns, axis=1)
    expected = np.array(rows, np.int64).reshape(-1, len(names))
    is_living = living[table["document"]]
    if not np.array_equal(found[is_living], expected):
        return "its rows are not the passages of its documents"
    return ""


def orphans(exam: Exam) -> Iterator[Finding]:
    """Check that nothing belongs to a document, a segment or a run that is gone."""
    known = {segment.record.id for segment in exam.segments}
    lost = [each.path for each in exam.documents if each.segment not in known]
    yield from rewriting(lost, "in segments that are not there")
    for table in database.OF_DOCUMENTS:
        without = "document NOT IN (SELECT id FROM documents)"
        count = f"SELECT count(*) FROM {table} WHERE {without}"
        (alone,) = exam.connection.execute(count).fetchone()
        if alone:
            what = f"{alone} {table} of documents that are not there"
            yield _fault(what, repair=Repair("sweep"))
    # The order matters. Files are listed first. If nobody writes after that, their writer has
    # committed them, and the segments that are listed then include them, or has left them for ever.
    directory = exam.directory
    listed = []
    for path in directory.glob("*"):
        if _LEFTOVER.fullmatch(path.name):
            listed.append(path)
    for path in directory.glob("segments/*"):
        if is_ours(path):
            listed.append(path)
    if not listed or holder(directory):
        return
    folders = database.folders(directory)
    left = []
    for path in listed:
        if path.name not in folders and path.exists():
            left.append(path.relative_to(directory).as_posix())
    if left:
        what = f"{counted(left, 'leftover')} of runs that were interrupted"
        yield _warning(what, repair=Repair("sweep"))


def concepts(exam: Exam) -> Iterator[Finding]:
    """Check the files of the concept vocabulary; a damaged one is simply made again."""
    broken = unusable_terms(exam.directory)
    if not broken or holder(exam.directory, "concepts.lock"):
        return
    names = []
    for file in broken:
        if file.exists():
            names.append(file.relative_to(exam.directory).as_posix())
    if names:
        what = f"{counted(names, 'file')} of the concept vocabulary not as written"
        yield _warning(what, repair=Repair("sweep"))


def unusable_terms(directory: Path) -> list[Path]:
    """List files of the concept vocabulary that are damaged or were never completed."""
    files = [*directory.glob("segments/*/terms.bin"), *vocabulary_files(directory)]
    # Not with `Path.glob`: it fails if a merge removes a segment meanwhile.
    partial_files = glob("segments/*/partial-*", root_dir=directory)
    found = [directory / name for name in partial_files]
    for file in files:
        try:
            if file.suffix == ".partial" or spoiled(file):
                found.append(file)
        except Truncated:
            found.append(file)
        except FileNotFoundError:
            pass
    return found


def texts(exam: Exam) -> Iterator[Finding]:
    """Check the stored checksum of each document against what is stored for it."""
    wrong = set()
    for some in exam.portions(exam.undamaged, exam.most(_TEXTS)):
        keys = list(some)
        what = "d.id, d.sum FROM documents d"
        stored = dict(database.select(exam.connection, what, "d.id", keys))
        found = database.sums(exam.connection, keys)
        for key, own in found.items():
            if own != stored[key]:
                wrong.add(some[key].path)
    yield from rewriting(wrong, "with texts that are not as they were stored")


def lanes(exam: Exam) -> Iterator[Finding]:
    """Check that postings and codes are what texts and vectors give."""
    wrong = set()
    for segment, rows in exam.rows(exam.current(), exam.most(_DERIVED)):
        written = _written(exam, segment, rows)
        postings = Lanes(dict(exam.settings.weights.fields))
        for number, (document, chunk) in enumerate(written):
            postings.begin(document)
            postings.add(number, chunk)
        numbers = np.full(segment.record.rows, -1, np.int64)
        numbers[rows] = np.arange(len(rows))
        for name, arrays in postings.files().items():
            stored = words.merge([(segment.arrays[name], numbers)])
            if not _are_close(arrays, stored):
                wrong |= {document.path for document, _ in written}
        stored = {
            name: array[rows] for name, array in segment.arrays["vectors"].items()
        }
        with np.errstate(all="ignore"):  # a damaged vector may hold anything
            coded = vectors.encode(stored["full"])
        if not _are_close(coded, stored):
            wrong |= {document.path for document, _ in written}
    yield from rewriting(
        wrong, "of which some have postings or codes that they do not give"
    )


def _written(exam: Exam, segment: Opened, rows: Rows) -> list[tuple[Document, Chunk]]:
    """Read the passages of rows as index.db has them."""
    keys = segment.arrays["rows"]["chunk"][rows].tolist()
    passages = database.as_written(exam.connection, keys)
    return [passages[key] for key in keys]


def _are_close(expected: Arrays, stored: Arrays) -> bool:
    """Compare numbers; what is no number is never close."""
    for name, array in expected.items():
        other = stored[name]
        if array.shape != other.shape:
            return False
        if not np.allclose(array, other, rtol=_TOLERANCE, atol=_TOLERANCE):
            return False
    return True


def links(exam: Exam) -> Iterator[Finding]:
    """Check that names and links are stored as paths, aliases and texts give them."""
    wrong = set()
    stored = database.Records(exam.connection)
    for some in exam.portions(exam.current(), exam.most(_LINKS)):
        records = stored.documents_at([document.path for document in some.values()])
        for record in records:
            names = names_of(record.path, record.aliases)
            if set(stored.names([record])) != names:
                wrong.add(record.path)
        for record, link, name in stored.links_from(records):
            passages = some[record.id].chunks
            is_inside = link.ordinal is None or 0 <= link.ordinal < passages
            if not is_inside or name != key_of(link, record.path):
                wrong.add(record.path)
    yield from rewriting(wrong, "with names or links that are not what they give")


def pending(exam: Exam) -> Iterator[Finding]:
    """Check that every file is indexed, with the current settings, and every passage embedded."""
    files = exam.facts["pending"]
    waiting = database.pending_chunks(exam.connection, exam.facts)
    parts = []
    if files:
        parts.append(f"{files} files are not indexed yet")
    elif not exam.facts["built_at"]:
        parts.append("the first run did not finish")
    if waiting:
        parts.append(f"{waiting} passages have no vectors yet")
    if isinstance(exam.given, Settings):
        current = {document.path for document in exam.current()}
        others = [each.path for each in exam.undamaged if each.path not in current]
        if others:
            what = "written with other settings or by another version"
            parts.append(f"{counted(others)} {what}")
    yield from _refresh(exam, " and ".join(parts), "run: tamis index")


def _refresh(exam: Exam, what: str, hint: str) -> Iterator[Finding]:
    """Report what the next run does; it is no problem while a run is at work."""
    if not what:
        return
    writing = holder(exam.directory)
    if writing:
        yield _note(f"{what}; {writing} is at it")
    else:
        yield _warning(what, hint, Repair("refresh"))


def root(exam: Exam) -> Iterator[Finding]:
    try:
        Reader(exam.directory).check_owner(exam.root, exam.facts)
    except IndexMismatch as error:
        yield _fault(error.message, error.hint)


def files(exam: Exam) -> Iterator[Finding]:
    """Check for changed files. Files that a run found and left are reported by `pending`."""
    if exam.facts["pending"] or not exam.facts["built_at"] or any(root(exam)):
        return
    records = database.Records(exam.connection)
    known = Known(
        records.stamps(recipe(exam.settings)),
        records.skipped(),
        float(exam.facts.get("began", 0.0)),
    )
    now = count_changes(exam.root, exam.settings, known)
    for fault in now.warnings:
        yield _warning(fault, "mend that file, or remove it")
    count = now.sure
    if count:
        subject = "1 file is" if count == 1 else f"{count} files are"
        what = f"{subject} new, changed or gone since the last run"
        yield from _refresh(exam, what, f"run: tamis index {exam.root}")
    elif now.touched:
        what = "files have been touched or copied since the last run; the next one reads them"
        yield _note(what)


def model(exam: Exam) -> Iterator[Finding]:
    """Check that the model loads, made the vectors, and would make them again."""
    if "model" not in exam.facts:  # nothing was ever written
        return
    name = model_name(exam.settings, exam.facts)
    try:
        check_model(exam.directory, exam.facts, name)
        embedder = exam.load(name)
        check_model(exam.directory, exam.facts, name, model_facts(embedder)[1])
    except TamisError as error:
        yield _fault(error.message, error.hint)
        return
    if embedder is None:
        return
    wrong: set[str] = set()
    held: set[int] = set()
    most = _FEW_FULL if exam.full else _FEW
    for segment, rows in exam.rows(exam.undamaged, most):
        if not segment.record.dimension:
            continue
        written = _written(exam, segment, rows)
        texts = [embedding_text(document.title, chunk) for document, chunk in written]
        made = embedder.embed_passages(texts)
        stored = segment.arrays["vectors"]["full"][rows]
        cosines = (made * stored).sum(axis=1)
        for (document, _), cosine in zip(written, cosines, strict=True):
            if not cosine >= _SAME_COSINE:
                wrong.add(document.path)
                held.add(segment.record.id)
    if wrong:
        what = f"{counted(wrong)} with vectors that the model {name} does not give"
        yield _fault(what, "", Repair("reembed", segments=frozenset(held)))
    else:
        yield _note(f"{name} is the model that made the vectors")


AROUND: Checks = (
    ("settings", settings, "the settings can be read"),
    ("folder", folder, "the folder of the index is as it should be"),
    ("disk", disk, "there is room for the index to be written once more"),
    ("lock", lock, "nobody is writing"),
)
INSIDE: Checks = (
    ("segments", segments, "segments hold the rows of their documents, as written"),
    ("orphans", orphans, "nothing belongs to what is gone"),
    ("texts", texts, "texts are as they were stored"),
    ("lanes", lanes, "postings and codes are what texts and vectors give"),
    ("links", links, "names and links are what the documents give"),
    ("concepts", concepts, "the concept vocabulary is whole, or not there"),
    ("pending", pending, "nothing waits to be indexed or embedded"),
    ("root", root, "the index is this root's"),
    ("model", model, "the index has no vectors, and wants none"),
    ("files", files, "no file is new, changed or gone since then"),
)
