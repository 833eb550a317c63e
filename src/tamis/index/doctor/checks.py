"""Checks of an index: `tamis doctor`.

A check is a function from an `Exam` (one generation of the index, held still) to findings. Each
finding names the repair that would mend it; `repair.py` does the repairs. A check takes no lock and
changes nothing, and a writer may be at work meanwhile.
"""

import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

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
from tamis.index.embedded import database, words
from tamis.index.embedded.arrays import Array, Truncated, map_arrays, spoiled
from tamis.index.embedded.concepts import vocabulary_files
from tamis.index.embedded.database import SegmentRecord
from tamis.index.embedded.folder import misshapen, unfit
from tamis.index.embedded.lock import holder
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
from tamis.model import INDEX_FOLDER, Finding, Link, Repair, Severity, under_trail
from tamis.models.embedders import Embedder, check_model, model_facts, model_name
from tamis.settings import Settings
from tamis.text.linking import key_of, names_of

Arrays = Mapping[str, Mapping[str, Array]]
Load = Callable[[str], Embedder | None]
Rows = NDArray[np.int64]

# A quick check should take seconds for an index of any size, so it reads samples.
_TEXTS: Final = 2_000
_VECTORS: Final = 4_000
_POSTINGS: Final = 300
_LINKS: Final = 500
_EMBEDDED: Final = 8  # passages embedded again: a tenth of a second or two
_EMBEDDED_FULL: Final = 32
_SEED: Final = (
    7  # the same sample for the same index, so that a finding can be seen twice
)
_PORTION: Final = 8_192  # rows compared together: some hundred megabytes
_DOCUMENTS: Final = 900  # documents in one SQL statement
_RACES: Final = 20  # how often a merge may remove segments while we open them
_NAMED: Final = 3  # documents that a finding names

_LENGTH: Final = 1e-3  # how far from 1 the length of a vector may be: models round
_RESIDUAL: Final = 1e-5  # float32
_WEIGHT: Final = 1e-5
_SAME_COSINE: Final = (
    0.98  # lower than this, a vector is not its text's; machines round
)
_DIFFERENT: Final = 8  # texts that cannot all have one vector by chance

_OTHERS: Final = 0o077  # permissions of the group and of everybody else
_RUN_INDEX: Final = "run: tamis index"
_LEFTOVER: Final = re.compile(r"index\.db\.partial.*|anew")
_BEFORE_REPAIR: Final = ("root", "settings", "folder")  # faults that block any repair


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
        if self._faults:
            return "fault"
        problems = [
            each for each in self.findings if each.severity in ("warning", "fault")
        ]
        if any(not each.repair for each in problems):
            return "attention"
        if problems:
            return "repairable"
        return "healthy"

    @property
    def exit_code(self) -> int:
        return {"healthy": 0, "repairable": 1, "attention": 1, "fault": 2}[self.verdict]

    @property
    def repairs(self) -> list[Repair]:
        """The repairs to do; none while a person must put something right first."""
        if any(finding.check in _BEFORE_REPAIR for finding in self._faults):
            return []
        return [finding.repair for finding in self.findings if finding.repair]

    @property
    def _faults(self) -> list[Finding]:
        return [
            each
            for each in self.findings
            if each.severity == "fault" and not each.repair
        ]

    def to_dict(self) -> dict[str, Any]:
        return {
            "root": self.root,
            "directory": self.directory,
            "full": self.full,
            "verdict": self.verdict,
            "findings": [finding.to_dict() for finding in self.findings],
            "repaired": list(self.repaired),
        }


@dataclass(frozen=True, slots=True)
class Settled:
    """The part of the settings that decides what is written for a file."""

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
    """One generation of an index, as far as it can be opened."""

    directory: Path
    connection: database.Connection
    facts: Mapping[str, Any]
    segments: tuple[Opened, ...]
    documents: tuple[Placed, ...]
    settled: Settled | None  # None if the settings cannot be read
    full: bool  # read everything instead of a sample
    damaged: frozenset[str] = frozenset()  # paths that an earlier check reported

    @property
    def sound(self) -> list[Opened]:
        return [segment for segment in self.segments if not segment.fault]

    @property
    def undamaged(self) -> list[Placed]:
        return [each for each in self.documents if each.path not in self.damaged]

    @property
    def current(self) -> list[Placed]:
        """Undamaged documents of the current recipe: they can be derived again and compared."""
        wanted = self.settled.recipe if self.settled else None
        return [each for each in self.undamaged if each.recipe == wanted]

    def sample(self, documents: Sequence[Placed], most: int) -> list[Placed]:
        if self.full or len(documents) <= most:
            return list(documents)
        random = np.random.default_rng(_SEED)
        chosen = random.choice(len(documents), most, replace=False)
        return [documents[at] for at in sorted(chosen.tolist())]

    def sampled_rows(
        self, documents: Iterable[Placed], most: int
    ) -> Iterator[tuple[Opened, Rows]]:
        """Yield rows of the documents in portions, by sound segment, at most so many altogether."""
        places: dict[int, list[int]] = {}
        for document in documents:
            places.setdefault(document.segment, []).append(document.place)
        rows = []
        for segment in self.sound:
            rows.append(
                (segment, _live_rows(segment, places.get(segment.record.id, [])))
            )
        total = sum(len(own) for _, own in rows)
        if self.full or total <= most:
            chosen = np.arange(total)
        else:
            random = np.random.default_rng(_SEED)
            chosen = np.sort(random.choice(total, most, replace=False))
        start = 0
        for segment, own in rows:
            end = start + len(own)
            mine = own[chosen[(chosen >= start) & (chosen < end)] - start]
            start = end
            for first in range(0, len(mine), _PORTION):
                yield segment, mine[first : first + _PORTION]


def _live_rows(segment: Opened, places: Sequence[int]) -> Rows:
    wanted = np.zeros(segment.record.documents, np.bool_)
    wanted[[place for place in places if 0 <= place < len(wanted)]] = True
    wanted &= ~dead_documents(segment.record)
    return np.flatnonzero(wanted[segment.arrays["rows"]["document"]])


def check(
    root: Path,
    directory: Path,
    settings: Settings | BadSetting,
    load: Load,
    *,
    full: bool,
) -> Health:
    """Run every check of an index and its surroundings."""
    settled = None
    if not isinstance(settings, BadSetting):
        settled = Settled(recipe(settings), dict(settings.weights.fields))
    outside = {
        "settings": (_settings(settings), "the settings can be read"),
        "folder": (_folder(directory), "the folder of the index is as it should be"),
        "disk": (
            _disk(directory),
            "there is room for the index to be written once more",
        ),
    }
    no_vectors = "the index has no vectors, and wants none"
    no_change = "no file is new, changed or gone since then"
    inside = {
        "root": Check(partial(_root, root), "the index is this root's"),
        "model": Check(partial(_model, settings, load), no_vectors, settled=True),
        "files": Check(partial(_files, root, settings), no_change, settled=True),
    }
    findings: list[Finding] = []
    for name, (found, sound) in outside.items():
        own = [replace(finding, check=name) for finding in found]
        findings += own or [Finding(name, "ok", sound)]
    if not misshapen(directory):  # else nothing in it can be opened
        findings.append(_lock(directory))
        findings += _examine(directory, settled, full=full, more=inside)
    return Health(str(root), str(directory), full, tuple(findings))


def problem(
    what: str,
    hint: str = "",
    repair: Repair | None = None,
    severity: Severity = "fault",
) -> Finding:
    """Make a finding of the check that is running; its name is added by the caller."""
    return Finding("", severity, what, hint, repair)


def rewriting(paths: Iterable[str], what: str) -> Finding:
    """Report documents that have to be written again."""
    repair = Repair("rewrite", documents=frozenset(paths))
    return problem(f"{counted(paths)} {what}", repair=repair)


def counted(paths: Iterable[str], what: str = "document") -> str:
    """Return `2 documents (a.md, b.md)`."""
    names = sorted(paths)
    shown = names[:_NAMED]
    if len(names) > _NAMED:
        shown.append("...")
    if len(names) != 1:
        what = f"{what}s"
    return f"{len(names)} {what} ({', '.join(shown)})"


# --- Around the index ---------------------------------------------------------


def _settings(settings: Settings | BadSetting) -> Iterator[Finding]:
    if isinstance(settings, BadSetting):
        yield problem(settings.message, settings.hint)


def _folder(directory: Path) -> Iterator[Finding]:
    """Check that the folder is private and can be read and written."""
    wrong = misshapen(directory)
    if wrong:
        hint = f"remove it, and run: {rebuild_command(directory)}"
        yield problem(f"{directory} {wrong}", hint)
        return
    permissions = "check its permissions and its owner"
    if not os.access(directory, os.R_OK | os.X_OK):
        yield problem(f"{directory} may not be read", permissions)
        return
    strange = unfit(directory)
    if strange:
        hint = "move it away, or choose another place with --index-dir"
        yield problem(f"{directory} {strange}", hint)
    for place in (directory, directory / "segments", directory / "index.db"):
        if place.exists() and not os.access(place, os.W_OK):
            what = f"{place} may not be written: it can be searched, but not brought up to date"
            yield problem(what, permissions, severity="warning")
            break
    if directory.name == INDEX_FOLDER and directory.stat().st_mode & _OTHERS:
        what = f"{directory} may be read by others, and holds the text of your files"
        yield problem(what, f"run: chmod 700 {directory}", Repair("protect"), "warning")
    if not (directory / ".gitignore").exists():
        what = f"{directory} has no .gitignore of its own: git would take the index in"
        yield problem(what, "", Repair("protect"), "warning")


def _disk(directory: Path) -> Iterator[Finding]:
    """Check for room: a merge or a rebuild writes the new index before it removes the old one."""
    free = shutil.disk_usage(directory).free
    needed = sum(Reader(directory).sizes().values())
    if free < needed:
        what = f"{free / 1e6:.0f} MB are free, and the index has {needed / 1e6:.0f} MB"
        hint = "free some space: bringing it up to date may need as much again"
        yield problem(what, hint, severity="warning")


def _lock(directory: Path) -> Finding:
    """Report who writes. A lock file always stays behind; the lock ends with its process."""
    try:
        writing, watching = holder(directory), holder(directory, "watch.lock")
    except PermissionError:
        hint = "check its permissions and its owner"
        return Finding("lock", "warning", "writer.lock may not be read", hint)
    what = "nobody is writing"
    if writing:
        what = f"{writing} is writing now"
    if watching:
        what = f"{what}, {watching} watches the files"
    return Finding("lock", "ok", what)


def _root(root: Path, exam: Exam) -> Iterator[Finding]:
    try:
        Reader(exam.directory).check_owner(root, exam.facts)
    except IndexMismatch as error:
        yield problem(error.message, error.hint)


def _files(
    root: Path, settings: Settings | BadSetting, exam: Exam
) -> Iterator[Finding]:
    """Check for changed files. Files that a run found and left are reported by `pending`."""
    assert not isinstance(settings, BadSetting)
    if exam.facts["pending"] or not exam.facts["built_at"] or any(_root(root, exam)):
        return
    records = database.Records(exam.connection)
    known = Known(
        records.stamps(recipe(settings)),
        records.skipped(),
        float(exam.facts.get("began", 0.0)),
    )
    now = count_changes(root, settings, known)
    for warning in now.warnings:
        yield problem(warning, "mend that file, or remove it", severity="warning")
    count = now.sure
    files = f"{count} files are"
    if count == 1:
        files = "1 file is"
    what = f"{files} new, changed or gone since the last run"
    writing = holder(exam.directory)
    if count and writing:
        yield problem(f"{what}; {writing} is at it", severity="ok")
    elif count:
        yield problem(what, f"run: tamis index {root}", Repair("refresh"), "warning")
    elif now.touched:
        what = "files have been touched or copied since the last run; the next one reads them"
        yield problem(what, severity="ok")


def _model(
    settings: Settings | BadSetting, load: Load, exam: Exam
) -> Iterator[Finding]:
    """Check that the model loads, made the vectors, and would make them again."""
    assert not isinstance(settings, BadSetting)
    if "model" not in exam.facts:  # nothing was ever written
        return
    name = model_name(settings, exam.facts)
    try:
        check_model(exam.directory, exam.facts, name)
        embedder = load(name)
        check_model(exam.directory, exam.facts, name, model_facts(embedder)[1])
    except TamisError as error:
        yield problem(error.message, error.hint)
        return
    if embedder is None:
        return
    with_vectors = {each.record.id for each in exam.sound if each.record.dimension}
    documents = [each for each in exam.undamaged if each.segment in with_vectors]
    most = _EMBEDDED_FULL if exam.full else _EMBEDDED
    compared = 0
    wrong: list[str] = []
    segments: set[int] = set()
    for segment, rows in replace(exam, full=False).sampled_rows(documents, most):
        keys = segment.arrays["rows"]["chunk"][rows].tolist()
        written = database.as_written(exam.connection, keys)
        texts = []
        for key in keys:
            document, chunk = written[key]
            texts.append(under_trail(document.title, chunk.header_path, chunk.content))
        made = embedder.embed_passages(texts)
        for row, key, vector in zip(rows.tolist(), keys, made, strict=True):
            compared += 1
            stored = segment.arrays["vectors"]["full"][row]
            if not float(np.dot(vector, stored)) >= _SAME_COSINE:
                wrong.append(written[key][0].path)
                segments.add(segment.record.id)
    if wrong:
        where = f"{len(wrong)} of {compared} passages ({wrong[0]})"
        what = f"{where} have vectors that the model {name} does not give"
        yield problem(what, repair=Repair("reembed", segments=frozenset(segments)))
    else:
        yield problem(f"{name} is the model that made the vectors", severity="ok")


# --- Opening the index ----------------------------------------------------------


@contextmanager
def _whatever_it_holds(directory: Path) -> Iterator[None]:
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
        what = f"index.db holds what was never written ({error})"
        raise IndexDamaged(directory, what) from error


@contextmanager
def _open_exam(
    directory: Path, settled: Settled | None, *, full: bool
) -> Iterator[Exam]:
    """Open a read transaction, and the segments that it lists."""
    with closing(database.open_reader(directory)) as connection:
        with _whatever_it_holds(directory):
            connection.execute("BEGIN")
            flaws = database.flaws(connection, full=full)
            if flaws:
                raise IndexDamaged(directory, f"index.db: {flaws[0]}")
            segments = _open_segments(directory, connection)
            facts = database.facts(connection)
            columns = "id, path, segment, place, chunks, recipe"
            order = "ORDER BY segment, place, id"
            rows = connection.execute(f"SELECT {columns} FROM documents {order}")
            documents = tuple(Placed(*row) for row in rows)
        yield Exam(directory, connection, facts, segments, documents, settled, full)


def _open_segments(
    directory: Path, connection: database.Connection
) -> tuple[Opened, ...]:
    """Open the segments of the transaction.

    A writer removes merged segments after its commit. So if files are missing, look at the next
    generation; if there is none, they are lost.
    """
    for _ in range(_RACES):
        generation = database.generation(connection)
        opened = [_open(directory, each) for each in database.segments(connection)]
        if None not in opened:
            break
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
        if database.generation(connection) == generation:
            break
    found = []
    for record, segment in zip(database.segments(connection), opened, strict=True):
        found.append(segment or Opened(record, {}, "its files are missing"))
    return tuple(found)


def _open(directory: Path, record: SegmentRecord) -> Opened | None:
    """Map a segment and read every byte of it once; None if a file is missing."""
    arrays = {}
    try:
        for name in FILES:
            arrays[name] = map_arrays(file_of(directory, record, name))
        for name in FILES:
            wrong = spoiled(file_of(directory, record, name))
            if wrong:
                what = f"{name}.bin is not as it was written ({', '.join(wrong)})"
                return Opened(record, {}, what)
    except FileNotFoundError:
        return None
    except Truncated as error:
        return Opened(record, {}, str(error))
    except OSError as error:
        return Opened(record, {}, f"its files cannot be read: {error.strerror}")
    return Opened(record, arrays, _misfit(arrays, record))


def _misfit(arrays: Arrays, record: SegmentRecord) -> str:
    """Describe arrays that contradict each other though every byte is as written, or return ""."""
    rows = record.rows
    try:
        table, vectors = arrays["rows"], arrays["vectors"]
        document = table["document"]
        columns = [table[name] for name in ("chunk", "document", "type", "language")]
        wide = [vectors[name] for name in ("full", "codes")]
        narrow = [vectors[name] for name in ("scale", "residual")]
        fits = {
            "rows": all(each.shape == (rows,) for each in columns)
            and _within(document, record.documents)
            and bool((np.diff(document) >= 0).all()),
            "vectors": all(each.shape == (rows, record.dimension) for each in wide)
            and all(each.shape == (rows,) for each in narrow),
            "words": _postings_fit(arrays["words"], rows),
            "code": _postings_fit(arrays["code"], rows),
        }
    except KeyError as error:
        return f"its files lack {error}"
    if len(record.dead) != -(-record.documents // 8):
        return "it does not say which of its documents are gone"
    for name, fit in fits.items():
        if not fit:
            return f"{name}.bin does not fit its {rows} rows"
    return ""


def _postings_fit(arrays: Mapping[str, Array], rows: int) -> bool:
    """Return True if all numbers are within bounds, and terms and rows ascend."""
    ends, name_ends = arrays["ends"], arrays["name_ends"]
    last_posting = int(ends[-1]) if len(ends) else 0
    last_name = int(name_ends[-1]) if len(name_ends) else 0
    return (
        len(ends) == len(name_ends)
        and last_posting == len(arrays["rows"]) == len(arrays["weights"])
        and last_name == len(arrays["names"])
        and bool((np.diff(ends, prepend=0) >= 0).all())
        and bool((np.diff(name_ends, prepend=0) > 0).all())
        and _within(arrays["rows"], rows)
    )


def _within(numbers: Array, end: int) -> bool:
    return not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < end)


# --- Inside the index -------------------------------------------------------------


def files(exam: Exam) -> Iterator[Finding]:
    """Check that every file of every segment holds the bytes that were written."""
    held = Counter(document.segment for document in exam.documents)
    strange = []
    dimension = exam.facts.get("dimension", 0)
    for segment in exam.segments:
        key = segment.record.id
        if segment.fault:
            what = f"segment {segment.record.folder}: {segment.fault} ({held[key]} documents)"
            yield problem(what, repair=Repair("rewrite", segments=frozenset({key})))
        elif segment.record.dimension not in (0, dimension):
            strange.append(key)
    if strange:
        what = (
            f"{len(strange)} segments have vectors that are not of {dimension} numbers"
        )
        yield problem(what, repair=Repair("rewrite", segments=frozenset(strange)))


_CHUNK: Final = np.dtype(
    [
        ("key", np.int64),
        ("document", np.int64),
        ("ordinal", np.int64),
        ("codes", np.int64, 2),
    ]
)
_WITHOUT_SECTION: Final = """
    SELECT DISTINCT d.path FROM chunks c JOIN documents d ON d.id = c.document
    LEFT JOIN parents p ON p.document = c.document AND p.number = c.parent
    WHERE c.parent IS NOT NULL AND p.number IS NULL
"""


def rows(exam: Exam) -> Iterator[Finding]:
    """Check that documents, passages and live rows of segments match one to one, in order."""
    chunks = _chunks(exam.connection)
    keys = [document.key for document in exam.documents]
    starts = np.searchsorted(chunks["document"], keys)
    ends = np.searchsorted(chunks["document"], keys, side="right")
    own = {}
    incomplete = []
    for document, start, end in zip(exam.documents, starts, ends, strict=True):
        passages = chunks[start:end]
        own[document.key] = passages
        if not np.array_equal(passages["ordinal"], np.arange(document.chunks)):
            incomplete.append(document.path)
    if incomplete:
        yield rewriting(incomplete, "without exactly their passages")
    homeless = [path for (path,) in exam.connection.execute(_WITHOUT_SECTION)]
    if homeless:
        yield rewriting(homeless, "with passages whose section is not there")
    known = {*incomplete, *homeless}
    for segment in exam.sound:
        here = [each for each in exam.documents if each.segment == segment.record.id]
        yield from _segment_rows(segment, here, own, known)


def _segment_rows(
    segment: Opened,
    here: list[Placed],
    own: Mapping[int, NDArray[np.void]],
    known: set[str],
) -> Iterator[Finding]:
    dead = dead_documents(segment.record)
    places = Counter(document.place for document in here)
    misplaced = []
    for document in here:
        inside = 0 <= document.place < len(dead)
        if not inside or dead[document.place] or places[document.place] > 1:
            misplaced.append(document.path)
    if misplaced:
        yield rewriting(misplaced, "in a place that is not theirs")
    ghosts = [place for place in np.flatnonzero(~dead) if place not in places]
    folder = segment.record.folder
    if ghosts:
        what = f"segment {folder} has rows of {len(ghosts)} documents that are gone"
        yield problem(what, repair=Repair("sweep"))
    known = known.union(misplaced)
    fine = [document for document in here if document.path not in known]
    paths = [document.path for document in fine]
    if paths != sorted(paths):
        what = f"the rows of segment {folder} are not in the order of their paths"
        repair = Repair("rewrite", segments=frozenset({segment.record.id}))
        yield problem(what, repair=repair)
    table = segment.arrays["rows"]
    starts = np.searchsorted(table["document"], np.arange(len(dead) + 1))
    codes = np.stack([table["type"], table["language"]], axis=1)
    other = []
    for document in fine:
        run = slice(starts[document.place], starts[document.place + 1])
        passages = own[document.key]
        same_keys = np.array_equal(table["chunk"][run], passages["key"])
        if not same_keys or not np.array_equal(codes[run], passages["codes"]):
            other.append(document.path)
    if other:
        yield rewriting(other, "with rows that are not their passages")


def _chunks(connection: database.Connection) -> NDArray[np.void]:
    """Return every passage, by document and ordinal."""
    columns = "id, document, ordinal, type, language"
    rows = connection.execute(
        f"SELECT {columns} FROM chunks ORDER BY document, ordinal"
    )
    found = []
    for key, document, ordinal, kind, language in rows:
        try:
            codes = row_codes(kind, language)
        except KeyError:
            codes = (-1, -1)  # no row has these
        found.append((key, document, ordinal, codes))
    return np.array(found, _CHUNK)


def orphans(exam: Exam) -> Iterator[Finding]:
    """Check that nothing belongs to a document, a segment or a run that is gone."""
    known = {segment.record.id for segment in exam.segments}
    lost = [each.path for each in exam.documents if each.segment not in known]
    if lost:
        yield rewriting(lost, "in segments that are not there")
    for table in database.OF_DOCUMENTS:
        without = "document NOT IN (SELECT id FROM documents)"
        count = f"SELECT count(*) FROM {table} WHERE {without}"
        alone = exam.connection.execute(count).fetchone()[0]
        if alone:
            what = f"{alone} {table} of documents that are not there"
            yield problem(what, repair=Repair("sweep"))
    left = leftovers(exam.directory)
    if left:
        what = f"{counted(left, 'leftover')} of runs that were interrupted"
        yield problem(what, repair=Repair("sweep"), severity="warning")


def leftovers(directory: Path) -> list[str]:
    """Return files that no commit registered; none while a writer is at work.

    The order matters. Files are listed first. If nobody writes after that, their writer has
    committed them, and the segments that are listed then include them, or has left them for ever.
    """
    listed = list(_unregistered(directory))
    if not listed or holder(directory) or holder(directory, "concepts.lock"):
        return []
    known = database.folders(directory)
    found = []
    for path in listed:
        if path.name not in known and path.exists():
            found.append(path.relative_to(directory).as_posix())
    return found


def _unregistered(directory: Path) -> Iterator[Path]:
    """Yield what may be left of an interrupted run."""
    for path in _listed(directory):
        if _LEFTOVER.fullmatch(path.name):
            yield path
    for folder in _listed(directory / "segments"):
        if is_ours(folder):
            yield folder
            for file in _listed(folder):
                if file.name.startswith("partial-"):
                    yield file
    for file in vocabulary_files(directory):
        if file.suffix == ".partial":
            yield file


def _listed(folder: Path) -> list[Path]:
    """Return what is in a folder; nothing if it is gone."""
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def concepts(exam: Exam) -> Iterator[Finding]:
    """Check the files of the concept vocabulary; a damaged one is simply made again."""
    files = [file_of(exam.directory, each.record, "terms") for each in exam.segments]
    files += [
        each for each in vocabulary_files(exam.directory) if each.suffix == ".bin"
    ]
    broken = []
    for file in files:
        if is_spoiled(file):
            broken.append(file.relative_to(exam.directory).as_posix())
    if broken:
        what = f"{counted(broken, 'file')} of the concept vocabulary not as written"
        yield problem(what, repair=Repair("sweep"), severity="warning")


def is_spoiled(file: Path) -> bool:
    try:
        return bool(spoiled(file))
    except FileNotFoundError:
        return False
    except Truncated:
        return True


def pending(exam: Exam) -> Iterator[Finding]:
    """Check that every file that a run has found is indexed, and every passage embedded."""
    files = exam.facts["pending"]
    waiting = database.pending_chunks(exam.connection, exam.facts)
    parts = []
    if files:
        parts.append(f"{files} files are not indexed yet")
    elif not exam.facts["built_at"]:
        parts.append("the first run did not finish")
    if waiting:
        parts.append(f"{waiting} passages have no vectors yet")
    if not parts:
        return
    what = " and ".join(parts)
    writing = holder(exam.directory)
    if writing:
        yield problem(f"{what}; {writing} is at it", severity="ok")
    else:
        yield problem(what, _RUN_INDEX, Repair("refresh"), "warning")


def recipes(exam: Exam) -> Iterator[Finding]:
    """Check that every document was written with the current settings and version."""
    current = {document.path for document in exam.current}
    others = [each.path for each in exam.undamaged if each.path not in current]
    if others:
        what = f"{counted(others)} written with other settings or by another version"
        yield problem(what, _RUN_INDEX, Repair("refresh"), "warning")


def texts(exam: Exam) -> Iterator[Finding]:
    """Check the stored checksum of each document against what is stored for it."""
    wrong = []
    for some in _batches(exam.sample(exam.undamaged, _TEXTS)):
        stored = database.stored_sums(exam.connection, list(some))
        for key, own in database.sums(exam.connection, list(some)).items():
            if own != stored[key]:
                wrong.append(some[key].path)
    if wrong:
        yield rewriting(wrong, "with texts that are not as they were stored")


def _batches(documents: Sequence[Placed]) -> Iterator[dict[int, Placed]]:
    """Yield documents by key, as many as one SQL statement takes."""
    for start in range(0, len(documents), _DOCUMENTS):
        some = documents[start : start + _DOCUMENTS]
        yield {document.key: document for document in some}


def vectors(exam: Exam) -> Iterator[Finding]:
    """Check that vectors are of length one, differ, and match their codes."""
    no_units: list[tuple[Opened, Rows]] = []
    miscoded: list[tuple[Opened, Rows]] = []
    seen: list[tuple[Opened, Rows]] = []
    for segment, rows in exam.sampled_rows(exam.undamaged, _VECTORS):
        if not segment.record.dimension:
            continue
        arrays = segment.arrays["vectors"]
        full = arrays["full"][rows].astype(np.float64)
        scale = arrays["scale"][rows].astype(np.float64)[:, np.newaxis]
        with np.errstate(over="ignore", invalid="ignore"):
            length = np.sqrt((full * full).sum(axis=1))
            good = np.abs(length - 1.0) <= _LENGTH  # False for what is not a number
            rest = full - arrays["codes"][rows] * scale
            residual = np.sqrt((rest * rest).sum(axis=1))
            near = np.abs(residual - arrays["residual"][rows]) <= _RESIDUAL
        no_units.append((segment, rows[~good]))
        miscoded.append((segment, rows[good & ~near]))
        seen.append((segment, rows))
    yield from _of_rows(exam, no_units, "vectors that are no unit vectors", "reembed")
    what = "vectors that their codes do not stand for"
    yield from _of_rows(exam, miscoded, what, "reembed")
    if _all_alike(exam, seen):
        held = frozenset(segment.record.id for segment, _ in seen)
        repair = Repair("reembed", segments=held)
        yield problem("all passages have the same vector", repair=repair)


def _all_alike(exam: Exam, seen: Sequence[tuple[Opened, Rows]]) -> bool:
    """Return True if different texts all have one vector."""
    keys: list[int] = []
    first = None
    for segment, rows in seen:
        full = segment.arrays["vectors"]["full"][rows]
        if first is None:
            first = full[0]
        if (full != first).any():
            return False
        keys += segment.arrays["rows"]["chunk"][rows].tolist()
    contents = database.contents(exam.connection, keys[:_TEXTS])
    return len(set(contents.values())) >= _DIFFERENT


def postings(exam: Exam) -> Iterator[Finding]:
    """Check that the words and code lanes hold of a passage what its text gives."""
    assert exam.settled  # this check does not run without settings
    wrong: dict[str, list[tuple[Opened, Rows]]] = {"words": [], "code": []}
    for segment, rows in exam.sampled_rows(exam.current, _POSTINGS):
        keys = segment.arrays["rows"]["chunk"][rows].tolist()
        written = database.as_written(exam.connection, keys)
        lanes = Lanes(exam.settled.boosts)
        for row, key in enumerate(keys):
            document, chunk = written[key]
            lanes.begin(document)
            lanes.add(row, chunk)
        numbers = np.full(segment.record.rows, -1, np.int64)
        numbers[rows] = np.arange(len(rows))
        for name, expected in lanes.files().items():
            wanted = _terms_by_row(expected, np.arange(len(rows)), len(rows))
            found = _terms_by_row(segment.arrays[name], numbers, len(rows))
            differs = [
                not _same_terms(*both) for both in zip(wanted, found, strict=True)
            ]
            wrong[name].append((segment, rows[np.array(differs, np.bool_)]))
    for name, found_in in wrong.items():
        what = f"postings of the {name} lane that their texts do not give"
        yield from _of_rows(exam, found_in, what, "rewrite")


def _terms_by_row(
    arrays: Mapping[str, Array], numbers: Rows, size: int
) -> list[dict[bytes, float]]:
    """Return the terms and weights of each row that gets a number."""
    merged = words.merge([(arrays, numbers)])
    found: list[dict[bytes, float]] = [{} for _ in range(size)]
    start = 0
    for name, end in zip(words.names_of(merged), merged["ends"].tolist(), strict=True):
        rows = merged["rows"][start:end].tolist()
        weights = merged["weights"][start:end].tolist()
        for row, weight in zip(rows, weights, strict=True):
            found[row][name] = weight
        start = end
    return found


def _same_terms(one: Mapping[bytes, float], other: Mapping[bytes, float]) -> bool:
    if one.keys() != other.keys():
        return False
    return all(abs(one[term] - other[term]) <= _WEIGHT * one[term] for term in one)


def links(exam: Exam) -> Iterator[Finding]:
    """Check that names and links are stored as paths, aliases and texts give them."""
    wrong = set()
    stored = database.Records(exam.connection)
    for some in _batches(exam.sample(exam.current, _LINKS)):
        paths = [document.path for document in some.values()]
        records = stored.documents_at(paths)
        for record in records:
            if set(stored.names([record])) != names_of(record.path, record.aliases):
                wrong.add(record.path)
        for record, link, name in stored.links_from(records):
            if not _link_fits(link, name, some[record.id]):
                wrong.add(record.path)
    if wrong:
        yield rewriting(wrong, "with names or links that are not what they give")


def _link_fits(link: Link, name: str, document: Placed) -> bool:
    inside = link.ordinal is None or 0 <= link.ordinal < document.chunks
    return inside and name == key_of(link, document.path)


def _of_rows(
    exam: Exam,
    found: Sequence[tuple[Opened, Rows]],
    what: str,
    kind: Literal["rewrite", "reembed"],
) -> Iterator[Finding]:
    """Report the documents of some rows, if there are any."""
    path = {(each.segment, each.place): each.path for each in exam.documents}
    paths = set()
    for segment, rows in found:
        for place in segment.arrays["rows"]["document"][rows].tolist():
            paths.add(path[segment.record.id, place])
    if paths:
        repair = Repair(kind, documents=frozenset(paths))
        yield problem(f"{counted(paths)} with {what}", repair=repair)


@dataclass(frozen=True, slots=True)
class Check:
    look: Callable[[Exam], Iterator[Finding]]
    sound: str  # what is true when nothing is found
    settled: bool = False  # needs settings that can be read
    arrays: bool = False  # reads segments


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


def _examine(
    directory: Path, settled: Settled | None, *, full: bool, more: Mapping[str, Check]
) -> list[Finding]:
    """Run every check, and then `more`, on one generation."""
    found: list[Finding] = []
    checks = {**CHECKS, **more}
    try:
        with _open_exam(directory, settled, full=full) as exam:
            what = f"index.db is sound, of format {database.SCHEMA_VERSION}"
            found.append(Finding("database", "ok", what))
            for name, each in checks.items():
                own = _run(exam, name, each)
                found += own
                exam = replace(exam, damaged=exam.damaged | _damaged(exam, own))
    except TamisError as error:
        found.append(_database(directory, error))
        done = {finding.check for finding in found}
        for name in checks:
            if name not in done:
                what = "not looked at: index.db cannot be read"
                found.append(Finding(name, "skipped", what))
    return found


def _run(exam: Exam, name: str, check: Check) -> list[Finding]:
    if check.settled and exam.settled is None:
        return [Finding(name, "skipped", "not looked at: the settings cannot be read")]
    try:
        with _whatever_it_holds(exam.directory):
            found = [replace(finding, check=name) for finding in check.look(exam)]
    except IndexDamaged as error:
        return [Finding(name, "fault", error.message, error.hint, Repair("rebuild"))]
    closed = len(exam.segments) - len(exam.sound)
    if check.arrays and closed:
        where = f"{closed} of {len(exam.segments)} segments"
        what = f"not looked at in {where}, which cannot be read"
        return [*found, Finding(name, "skipped", what)]
    return found or [Finding(name, "ok", check.sound)]


def _damaged(exam: Exam, found: list[Finding]) -> set[str]:
    """Return the documents that a repair will write again; later checks leave them out."""
    paths: set[str] = set()
    for finding in found:
        if finding.repair:
            paths |= finding.repair.documents
            for document in exam.documents:
                if document.segment in finding.repair.segments:
                    paths.add(document.path)
    return paths


def _database(directory: Path, error: TamisError) -> Finding:
    """Report why index.db cannot be checked."""
    if isinstance(error, IndexMissing):
        what = "there is no index.db"
        return Finding("database", "warning", what, error.hint, Repair("refresh"))
    is_older = (
        isinstance(error, IndexMismatch)
        and database.format_of(directory) < database.SCHEMA_VERSION
    )
    repair = None
    if is_older or isinstance(error, IndexDamaged):
        repair = Repair("rebuild")
    return Finding("database", "fault", error.message, error.hint, repair)
