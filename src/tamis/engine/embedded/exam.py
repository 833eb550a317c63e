"""What the checks of an index look at: one generation, held still, as far as it can be opened."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tamis.engine.embedded import store, stored_segments
from tamis.engine.embedded.arrays import Array, Truncated, map_arrays, spoiled
from tamis.engine.embedded.segment import FILES, dead_documents, file_of
from tamis.engine.embedded.stored_segments import SegmentRecord
from tamis.errors import IndexDamaged
from tamis.model import Finding, Repair, Severity

_RACES: Final = 20  # how often a merge may pull segments away while we open them
_SEED: Final = 7  # the same sample for the same index, so that a finding can be looked at twice
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
    connection: store.Connection
    facts: Mapping[str, Any]
    segments: tuple[Opened, ...]
    documents: tuple[Placed, ...]
    settled: Settled | None  # None where the settings cannot be read
    full: bool  # look at everything instead of a sample
    damaged: frozenset[str] = frozenset()  # documents that an earlier check found, by path

    @property
    def sound(self) -> list[Opened]:
        return [segment for segment in self.segments if not segment.fault]

    @property
    def usual(self) -> list[Placed]:
        """Documents that can be written again in thought: of our recipe, and not damaged already."""
        wanted = self.settled.recipe if self.settled else None
        return [each for each in self.documents if each.recipe == wanted and each.path not in self.damaged]

    def sample(self, documents: Sequence[Placed], most: int) -> list[Placed]:
        if self.full or len(documents) <= most:
            return list(documents)
        chosen = np.random.default_rng(_SEED).choice(len(documents), most, replace=False)
        return [documents[at] for at in sorted(chosen.tolist())]

    def sampled_rows(self, documents: Iterable[Placed], most: int) -> list[tuple[Opened, NDArray[np.int64]]]:
        """Rows of documents, of each sound segment that has some; at most so many of them altogether."""
        places: dict[int, list[int]] = {}
        for document in documents:
            places.setdefault(document.segment, []).append(document.place)
        rows = [(segment, _rows_of(segment, places.get(segment.record.id, []))) for segment in self.sound]
        total = sum(len(own) for _, own in rows)
        if self.full or total <= most:
            return [(segment, own) for segment, own in rows if len(own)]
        chosen = np.sort(np.random.default_rng(_SEED).choice(total, most, replace=False))
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


def problem(what: str, hint: str = "", repair: Repair | None = None, severity: Severity = "fault") -> Finding:
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
        with store.database_faults(directory):
            yield
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        raise IndexDamaged(directory, f"index.db holds what was never written ({error})") from error


@contextmanager
def open_exam(directory: Path, settled: Settled | None, *, full: bool) -> Iterator[Exam]:
    """A reading transaction over an index.db that SQLite finds sound, and the segments that it lists."""
    with closing(store.open_reader(directory)) as connection:
        with whatever_it_holds(directory):
            connection.execute("BEGIN")
            flaws = store.flaws(connection, full=full)
            if flaws:
                raise IndexDamaged(directory, f"index.db: {flaws[0]}")
            segments = _open_all(directory, connection)
            facts = store.facts(connection)
            columns = "id, path, segment, place, chunks, recipe"
            rows = connection.execute(f"SELECT {columns} FROM documents ORDER BY segment, place, id")
            documents = tuple(Placed(*row) for row in rows)
        yield Exam(directory, connection, facts, segments, documents, settled, full)


def _open_all(directory: Path, connection: store.Connection) -> tuple[Opened, ...]:
    """The segments of the transaction. One whose files are gone is looked for in the next generation:
    a writer merges segments away after the commit that says so."""
    for _ in range(_RACES):
        generation = store.generation(connection)
        opened = tuple(_open(directory, record) for record in stored_segments.segments(connection))
        if all(segment.arrays or segment.fault for segment in opened):
            break
        connection.execute("ROLLBACK")
        connection.execute("BEGIN")
        if store.generation(connection) == generation:
            break
    return tuple(
        segment if segment.arrays or segment.fault else Opened(segment.record, {}, "its files are missing")
        for segment in opened
    )


def _open(directory: Path, record: SegmentRecord) -> Opened:
    """Map a segment and read every byte of it once; without arrays and without a fault, it is not there."""
    try:
        arrays = {name: map_arrays(file_of(directory, record, name)) for name in FILES}
        for name in FILES:
            wrong = spoiled(file_of(directory, record, name))
            if wrong:
                return Opened(record, {}, f"{name}.bin is not as it was written ({', '.join(wrong)})")
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
                arrays["rows"][name].shape == (rows,) for name in ("chunk", "document", "type", "language")
            )
            and _within(arrays["rows"]["document"], record.documents)
            and bool((np.diff(arrays["rows"]["document"]) >= 0).all()),
            "vectors": all(arrays["vectors"][name].shape == (rows, width) for name in ("full", "codes"))
            and all(arrays["vectors"][name].shape == (rows,) for name in ("scale", "residual")),
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
    ascending = bool((np.diff(ends, prepend=0) >= 0).all() and (np.diff(name_ends, prepend=0) > 0).all())
    return whole and named and ascending and len(ends) == len(name_ends) and _within(arrays["rows"], rows)


def _within(numbers: Array, end: int) -> bool:
    return not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < end)
