"""THE INDEXING PATH: from a folder to a generation of the index.

    walk -> ignore rules -> read -> parse -> commit -> embed -> commit

An unchanged file (by its times and size, or else by its content) is left alone; a file that is
gone, or that the rules now keep out, leaves the index. Words, names and links come first: they can be
searched within seconds, and the vectors, which take minutes, are filled in afterwards. Work is
committed in batches, so an interrupted run loses the last few seconds and the next run goes on from
there. A rebuild is one transaction: it shows when it is whole.
"""

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from tamis.configuration import DEFAULT_MODEL, NO_MODEL
from tamis.errors import IndexMismatch, rebuild_command
from tamis.index.embed_pending import PORTION, fill_in
from tamis.index.embedded.reader import Reader
from tamis.index.embedded.writer import Writer
from tamis.index.plan import Plan, largest_file, make_plan, recipe
from tamis.index.protocol import Index, Prepared, Writing
from tamis.ingest.git_dates import Dates, commit_dates, file_dates
from tamis.ingest.parse import parse
from tamis.ingest.read import Source, read
from tamis.ingest.walk import Entry
from tamis.model import (
    Address,
    Document,
    FileState,
    Report,
    Skipped,
    Stamps,
    embedding_text,
)
from tamis.models.embedders import Embedder
from tamis.progress import Progress
from tamis.settings import Settings

_BATCH_CHUNKS: Final = (
    8_192  # a segment of this size is held in memory (some 40 MB) before it is written
)
# Bytes of memory for each chunk that waits to be written, and for each character of it: texts, terms, rows.
_PER_CHUNK: Final = 2_000
_PER_CHARACTER: Final = 8
# Shares of index.memory_mb. Batch and merge are in memory at once, and so is the file that is being read,
# whose share is in `tamis.index.plan`.
_FOR_BATCH: Final = 0.25
_FOR_MERGE: Final = 0.5
_GROWTH: Final = 2  # times as many files as somebody said yes to are fine, too
_BATCH_SECONDS: Final = 10.0  # what an interrupted run may lose
_FIRST_SECONDS: Final = (
    0.25  # of reading, then something can be found; the next may take twice as long
)
_AT_ONCE: Final = (
    32_768  # bytes of changed files that are embedded before they show: a second or two
)


@dataclass(slots=True)
class _Tally:
    """What a run has done so far."""

    indexed: int = 0
    unchanged: int = 0
    removed: int = 0
    chunks: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def build(
    root: Path,
    index: Path | Index,
    settings: Settings,
    load: Callable[[str], Embedder | None],
    progress: Progress,
    *,
    rebuild: bool = False,
    discard: bool = False,
    yields: Callable[[], bool] = lambda: False,
) -> Report:
    """Bring the index of a root up to date, or make it anew: the one in a folder, or any other.

    When `yields` says so, embedding stops between two portions, and the next run goes on.
    """
    started, began = time.monotonic(), time.time()
    tally = _Tally()
    boosts = asdict(settings.fields)
    waiting = waiting_for(progress)
    opened = Reader(index) if isinstance(index, Path) else index
    # Before anything is made: a refusal would leave an empty index that answers.
    first = (
        None
        if opened.exists()
        else make_plan(root, settings, {}, settings.index.max_files)
    )
    timeout, memory = settings.index.lock_timeout, _FOR_MERGE * _memory(settings)
    with (
        opened.open_for_writing(
            timeout, waiting, boosts, memory, discard=discard
        ) as writer,
        writer.all_or_nothing() if rebuild else nullcontext(),
    ):
        name = model_name(settings, writer.facts)
        later = (
            writer if isinstance(writer, Writer) else None
        )  # who can be given vectors afterwards
        if rebuild:
            writer.clear()
        check_belongs(root, writer.directory, writer.facts)
        check_model(writer.directory, writer.facts, name)
        known = writer.stamps(recipe(settings))
        most = _most_files(settings, writer.facts, len(known))
        found = first if first and not known else make_plan(root, settings, known, most)
        plan, dates = _dated_plan(root, settings, found, writer, is_new=not known)
        if not most:  # somebody has said that all of these are meant
            writer.describe(
                {"files": _GROWTH * (len(plan.changed) + len(plan.unchanged))}
            )
        _drop_vanished(writer, plan, known, tally)
        tally.skipped += plan.skipped
        tally.warnings += plan.warnings
        tally.unchanged = len(plan.unchanged)
        embedder = _described(writer, root, lambda: load(name))
        few = sum(entry.size for entry in plan.changed) <= _AT_ONCE
        at_once = rebuild or name == NO_MODEL or few or later is None
        if plan.changed:
            again = any(entry.path in known for entry in plan.changed)
            states = writer.file_states() if again else {}
            source = _read(
                writer, plan.changed, states, dates, settings, progress, tally
            )
            prepared = (
                _embedded(source, embedder)
                if at_once
                else map(_without_vectors, source)
            )
            # Words come long before the model is loaded; the run after a kill is to be of the same model.
            writer.describe({"pending": len(plan.changed), "chosen": name})
            _write(
                writer,
                plan.changed,
                prepared,
                progress,
                tally,
                _FOR_BATCH * _memory(settings),
            )
        writer.finish(tally.skipped, {"git": dates.edition, "began": began})
        if name != NO_MODEL and later is not None:
            fill_in(later, embedder, progress, yields)
        generation = writer.generation
    return Report(
        tally.indexed,
        tally.unchanged,
        tally.removed,
        tally.chunks,
        tuple(sorted(tally.skipped, key=lambda item: item.path)),
        tuple(tally.warnings),
        generation,
        time.monotonic() - started,
    )


def waiting_for(progress: Progress) -> Callable[[str], None]:
    """What is said to whoever watches while another process holds the lock."""
    return lambda holder: progress.note(
        f"waiting for {holder}, which is writing this index"
    )


def _most_files(settings: Settings, facts: Mapping[str, Any], held: int) -> int:
    """How many files the index may have without a question; 0 is any number.

    One that is larger already was let through once: that is asked for again when it has doubled.
    """
    usual = settings.index.max_files
    grown = _GROWTH * held if held > usual else 0
    return max(usual, grown, int(facts.get("files", 0))) if usual else 0


def _memory(settings: Settings) -> float:
    return settings.index.memory_mb * 1e6


def _dated_plan(
    root: Path, settings: Settings, plan: Plan, writer: Writing, *, is_new: bool
) -> tuple[Plan, Dates]:
    """The plan with files to look at again because git dates them otherwise now; their text stays."""
    before = "" if is_new else str(writer.facts.get("git", ""))
    if settings.index.git_times:
        dates = commit_dates(root, plan.changed, plan.unchanged, writer.dates, before)
    else:
        dates = file_dates(plan.unchanged, writer.dates, before)
    if dates.moved:
        moved = tuple(entry for entry in plan.unchanged if entry.path in dates.moved)
        stay = tuple(entry for entry in plan.unchanged if entry.path not in dates.moved)
        plan = replace(plan, changed=(*plan.changed, *moved), unchanged=stay)
    warnings = (*plan.warnings, dates.warning) if dates.warning else plan.warnings
    return replace(plan, warnings=warnings), dates


def model_name(settings: Settings, facts: Mapping[str, Any]) -> str:
    """The configured model; where none is, the one that the index has or waits for; else the default."""
    return (
        settings.model.name
        or facts.get("model")
        or facts.get("chosen")
        or DEFAULT_MODEL
    )


def model_facts(embedder: Embedder | None) -> tuple[str, str, int]:
    return (
        (embedder.name, embedder.fingerprint, embedder.dimension)
        if embedder
        else (NO_MODEL, "", 0)
    )


def check_model(
    directory: Path | Address,
    facts: Mapping[str, Any],
    name: str,
    fingerprint: str | None = None,
) -> None:
    """An index holds vectors of one model; another one's cannot be compared with them."""
    if facts.get("model", name) != name:
        what = f"the model {facts['model']}, not {name}"
    elif (
        fingerprint is not None and facts.get("fingerprint", fingerprint) != fingerprint
    ):
        what = f"another edition of the model {name}"
    else:
        return
    raise IndexMismatch(
        f"the index in {directory} was made with {what}",
        hint=f"run: {rebuild_command(directory)} --model {name}; or use --model {facts['model']}",
    )


def source_of(root: Path, directory: Path | Address) -> str:
    """Whose index it is; on a server, across machines."""
    return f"{platform.node()}:{root}" if isinstance(directory, Address) else str(root)


def check_belongs(
    root: Path, directory: Path | Address, facts: Mapping[str, Any]
) -> None:
    """An index outside its root remembers whose it is. One inside moves with its folder."""
    if isinstance(directory, Address):
        if facts.get("root", source_of(root, directory)) != source_of(root, directory):
            raise IndexMismatch(
                f"{directory} is indexed from {facts['root']}",
                hint="give this folder a name of its own with engine.root, or take that one over: "
                f"tamis rebuild-index {root} --engine {directory.url} --take-over",
            )
        return
    if directory.parent != root and facts.get("root", str(root)) != str(root):
        raise IndexMismatch(
            f"the index in {directory} belongs to {facts['root']}",
            hint=f"give each root an index folder of its own, or run: tamis rebuild-index {root}",
        )


def _drop_vanished(
    writer: Writing, plan: Plan, known: Mapping[str, Stamps], tally: _Tally
) -> None:
    gone = plan.gone(known)
    if gone:
        writer.remove(gone)
        tally.removed += len(gone)


def _described(
    writer: Writing, root: Path, load: Callable[[], Embedder | None]
) -> Callable[[], Embedder | None]:
    """The model, loaded when there is something to embed: files that are never indexed need none."""

    @cache
    def embedder() -> Embedder | None:
        loaded = load()
        name, fingerprint, dimension = model_facts(loaded)
        check_model(writer.directory, writer.facts, name, fingerprint)
        facts = {"model": name, "fingerprint": fingerprint, "dimension": dimension}
        writer.describe(facts | {"root": source_of(root, writer.directory)})
        return loaded

    return embedder


def _write(
    writer: Writing,
    entries: Sequence[Entry],
    prepared: Iterator[Prepared],
    progress: Progress,
    tally: _Tally,
    room: float,
) -> None:
    """Write the files that may have changed, in batches that take as much memory as there is room, about."""
    progress.start(len(entries))
    done = 0
    for batch in _batches(prepared, room):
        done += len(batch)
        writer.put(batch, pending=len(entries) - done)
        tally.indexed += len(batch)
        tally.chunks += sum(len(prepared.document.chunks) for prepared in batch)


def _read(
    writer: Writing,
    entries: Sequence[Entry],
    known: Mapping[str, FileState],
    dates: Dates,
    settings: Settings,
    progress: Progress,
    tally: _Tally,
) -> Iterator[tuple[Document, FileState]]:
    """The documents that are new or changed; what turns out unchanged or unusable is tallied."""
    wanted = recipe(settings)
    touched: list[tuple[str, FileState, float]] = []
    lost: list[str] = []
    for entry in entries:
        source = read_within(entry, settings)
        progress.advance(entry.path)
        if isinstance(source, Skipped):
            tally.skipped.append(source)
            lost += [entry.path] if entry.path in known else []
            continue
        document, warning = parse(source, settings.chunking)
        document = _dated(replace(document, warning=warning), source, entry, dates)
        tally.warnings += [f"{entry.path}: {warning}"] if warning else []
        before, state = known.get(entry.path), _state(source, wanted)
        if before is not None and (before.hash, before.recipe) == (state.hash, wanted):
            touched.append((entry.path, state, document.modified))
        else:
            yield document, state
    tally.unchanged += len(touched)
    tally.removed += len(lost)
    writer.touch(touched)
    writer.remove(lost)


def read_within(entry: Entry, settings: Settings) -> Source | Skipped:
    """A file's text, unless it is too large: as such, or for the memory there is."""
    if largest_file(settings) < entry.size <= settings.index.max_file_bytes:
        most = f"index.memory_mb is {settings.index.memory_mb}, for {largest_file(settings):,.0f}"
        return Skipped(entry.path, "too large", f"{entry.size:,} bytes; {most}")
    return read(entry, settings.index.max_file_bytes)


def _dated(document: Document, source: Source, entry: Entry, dates: Dates) -> Document:
    """With the time of its last commit, unless it states a date, or changed while we looked."""
    time = dates.times.get(entry.path)
    same = (source.size, source.mtime_ns) == (entry.size, entry.mtime_ns)
    if time is None or document.front.modified is not None or not same:
        return document
    return replace(document, modified=time)


def _embedded(
    documents: Iterator[tuple[Document, FileState]],
    embedder: Callable[[], Embedder | None],
) -> Iterator[Prepared]:
    """Documents with their vectors, embedded some chunks at a time."""
    portion: list[tuple[Document, FileState]] = []
    chunks = 0
    for document, state in documents:
        portion.append((document, state))
        chunks += len(document.chunks)
        if chunks >= PORTION or len(portion) >= PORTION:
            yield from _embed(portion, embedder())
            portion, chunks = [], 0
    if portion:
        yield from _embed(portion, embedder())


def _embed(
    portion: Sequence[tuple[Document, FileState]], embedder: Embedder | None
) -> Iterator[Prepared]:
    texts = [
        embedding_text(document.title, chunk)
        for document, _ in portion
        for chunk in document.chunks
    ]
    if embedder is None or not texts:
        vectors = np.empty(
            (len(texts), embedder.dimension if embedder else 0), np.float32
        )
    else:
        vectors = embedder.embed_passages(texts)
    at = 0
    for document, state in portion:
        yield Prepared(document, state, vectors[at : at + len(document.chunks)])
        at += len(document.chunks)


def _without_vectors(read: tuple[Document, FileState]) -> Prepared:
    document, state = read
    return Prepared(document, state, np.empty((len(document.chunks), 0), np.float32))


def _batches(prepared: Iterator[Prepared], room: float) -> Iterator[list[Prepared]]:
    batch: list[Prepared] = []
    chunks, size, started, patience = 0, 0, time.monotonic(), _FIRST_SECONDS
    for item in prepared:
        batch.append(item)
        chunks += len(item.document.chunks)
        size += _size(item)
        if (
            chunks >= _BATCH_CHUNKS
            or size >= room
            or time.monotonic() - started > patience
        ):
            yield batch
            batch, chunks, size, started = [], 0, 0, time.monotonic()
            patience = min(2 * patience, _BATCH_SECONDS)
    if batch:
        yield batch


def _size(prepared: Prepared) -> int:
    """Bytes of memory that a document takes until it is written, about."""
    chunks = prepared.document.chunks
    texts = (
        *(chunk.content for chunk in chunks),
        *(parent.content for parent in prepared.document.parents),
    )
    characters = sum(map(len, texts))
    return (
        _PER_CHUNK * len(chunks)
        + _PER_CHARACTER * characters
        + 4 * prepared.vectors.nbytes
    )


def _state(source: Source, wanted: str) -> FileState:
    return FileState(
        size=source.size,
        mtime_ns=source.mtime_ns,
        ctime_ns=source.ctime_ns,
        inode=source.inode,
        read_ns=source.read_ns,
        hash=source.hash,
        recipe=wanted,
    )
