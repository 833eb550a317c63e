"""THE INDEXING PATH: bring the index of a root up to date with its files.

    walk -> ignore rules -> read -> parse -> commit -> embed -> commit

A file that is unchanged (by its times and size, or else by its content) is left alone. A file that was
deleted, or that the rules now exclude, leaves the index. Words, names and links are committed first
and can be searched within seconds; vectors, which take minutes, follow. Work is committed in
batches, so an interrupted run loses a few seconds and the next run continues. A rebuild is one
transaction: it becomes visible when it is complete.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from tamis.index.embed_pending import Load, embed_now, embed_pending, without_vectors
from tamis.index.plan import Plan, make_plan, read_within, recipe
from tamis.index.protocol import Index, Paths, Prepared, Touched, Writing
from tamis.ingest.git_dates import Dates, commit_dates
from tamis.ingest.parse import parse
from tamis.ingest.walk import Entry
from tamis.model import Document, FileState, Report, Skipped, Stamps
from tamis.models.embedders import Embedder, check_model, model_facts, model_name
from tamis.progress import Progress
from tamis.settings import NO_MODEL, Settings

# A segment of this many passages takes some 40 MB of memory before it is written.
BATCH_CHUNKS = 8_192
# Bytes of memory for each passage that waits to be written, and for each of its characters.
_PER_CHUNK = 2_000
_PER_CHARACTER = 8
# Shares of index.memory_mb. A batch and a merge are in memory at once, and so is the file that is
# being read, whose share is in `tamis.index.plan`.
_FOR_BATCH = 0.25
_FOR_MERGE = 0.5
_GROWTH = 2  # an index may grow to this many times the files that were agreed to
BATCH_SECONDS = 10.0  # of work that an interrupted run may lose
# Seconds until the first files can be found; each further batch may take twice as long.
FIRST_SECONDS = 0.25
# Bytes of changed files that are embedded before they are committed: a second or two.
AT_ONCE = 32_768


def build(
    root: Path,
    index: Index,
    settings: Settings,
    load: Callable[[str], Embedder | None],
    progress: Progress,
    *,
    rebuild: bool = False,
    discard: bool = False,
    yields: Callable[[], bool] = lambda: False,
) -> Report:
    """Bring the index of a root up to date, or rebuild it.

    `discard` deletes the old index unread. When `yields` returns True, embedding stops between two
    portions, and the next run continues there.
    """
    run = _Run(settings, progress)
    first_plan = None
    if not index.exists():
        # Refuse too many files before there is an index: an empty one would answer searches.
        first_plan = make_plan(root, settings, {}, settings.index.max_files)
    with (
        index.open_for_writing(
            settings.index.lock_timeout,
            waiting_for(progress),
            dict(settings.weights.fields),
            _FOR_MERGE * _memory(settings),
            discard=discard,
        ) as writer,
        writer.all_or_nothing() if rebuild else nullcontext(),
    ):
        model = model_name(settings, writer.facts)
        if rebuild:
            writer.clear()
        index.check_owner(root, writer.facts)
        check_model(index.place, writer.facts, model)
        known = writer.stamps(recipe(settings))
        plan = _agreed_plan(root, settings, writer, known, first_plan)
        plan, dates = _dated_plan(root, plan, writer, is_new=not known)
        run.unchanged = len(plan.unchanged)
        run.skipped += plan.skipped
        run.warnings += plan.warnings
        run.remove(writer, plan.gone(known))
        embedder = _loader(index, writer, root, lambda: load(model))
        if plan.changed:
            # Words are committed before the model is loaded: a run after a kill must use the same one.
            writer.describe({"pending": len(plan.changed), "chosen": model})
            states: Mapping[str, FileState] = {}
            if any(entry.path in known for entry in plan.changed):
                states = writer.file_states()
            documents = run.read(plan.changed, states, dates)
            is_small = sum(entry.size for entry in plan.changed) <= AT_ONCE
            late = writer.late_vectors
            if is_small or rebuild or model == NO_MODEL or late is None:
                prepared = embed_now(documents, embedder)
            else:
                prepared = map(without_vectors, documents)
            run.write(writer, prepared, len(plan.changed))
            writer.touch(run.touched)
            run.remove(writer, run.unusable)
        writer.finish(run.skipped, {"git": dates.edition, "began": run.began})
        if model != NO_MODEL:
            embed_pending(writer, embedder, progress, yields)
        generation = writer.generation
    return run.report(generation)


@dataclass(slots=True)
class _Run:
    """An indexing run, with what it has done so far."""

    settings: Settings
    progress: Progress
    started: float = field(default_factory=time.monotonic)
    began: float = field(default_factory=time.time)
    indexed: int = 0
    unchanged: int = 0
    removed: int = 0
    chunks: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    # Files with new times and their old content, and indexed files that cannot be used any more.
    touched: list[Touched] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)

    def remove(self, writer: Writing, paths: Paths) -> None:
        writer.remove(paths)
        self.removed += len(paths)

    def read(
        self,
        entries: Sequence[Entry],
        known: Mapping[str, FileState],
        dates: Dates,
    ) -> Iterator[tuple[Document, FileState]]:
        """Yield the new and changed documents; note files that are unchanged or unusable."""
        wanted = recipe(self.settings)
        for entry in entries:
            source = read_within(entry, self.settings)
            self.progress.advance(entry.path)
            before = known.get(entry.path)
            if isinstance(source, Skipped):
                self.skipped.append(source)
                if before:
                    self.unusable.append(entry.path)
                continue
            document, warning = parse(source, self.settings.chunking)
            document = replace(document, warning=warning)
            if warning:
                self.warnings.append(f"{entry.path}: {warning}")
            committed = dates.times.get(entry.path)
            times = (source.size, source.mtime_ns)
            is_same = times == (entry.size, entry.mtime_ns)
            if is_same and committed is not None and document.front.modified is None:
                # Neither its front matter nor an edit after the last commit dates it.
                document = replace(document, modified=committed)
            state = FileState(
                size=source.size,
                mtime_ns=source.mtime_ns,
                ctime_ns=source.ctime_ns,
                inode=source.inode,
                read_ns=source.read_ns,
                hash=source.hash,
                recipe=wanted,
            )
            if before and (before.hash, before.recipe) == (state.hash, wanted):
                self.touched.append((entry.path, state, document.modified))
                self.unchanged += 1
            else:
                yield document, state

    def write(
        self,
        writer: Writing,
        prepared: Iterator[Prepared],
        pending: int,
    ) -> None:
        """Commit documents in batches that fit into memory."""
        self.progress.start(pending)
        for batch in _batches(prepared, _FOR_BATCH * _memory(self.settings)):
            pending -= len(batch)
            writer.put(batch, pending)
            self.indexed += len(batch)
            self.chunks += sum(len(each.document.chunks) for each in batch)

    def report(self, generation: int) -> Report:
        return Report(
            indexed=self.indexed,
            unchanged=self.unchanged,
            removed=self.removed,
            chunks=self.chunks,
            skipped=tuple(sorted(self.skipped, key=lambda item: item.path)),
            warnings=tuple(self.warnings),
            generation=generation,
            seconds=time.monotonic() - self.started,
        )


def waiting_for(progress: Progress) -> Callable[[str], None]:
    """Return a function that reports which process holds the lock."""
    message = "waiting for {}, which is writing this index"
    return lambda holder: progress.note(message.format(holder))


def _memory(settings: Settings) -> float:
    return settings.index.memory_mb * 1e6


def _agreed_plan(
    root: Path,
    settings: Settings,
    writer: Writing,
    known: Mapping[str, Stamps],
    first_plan: Plan | None,
) -> Plan:
    """Walk the root, unless that was done already; raise TooManyFiles beyond what was agreed to.

    An index that is larger than the limit was agreed to once; it may double before the next question.
    """
    most = settings.index.max_files
    if most:
        agreed = int(writer.facts.get("files", 0))
        if len(known) > most:
            agreed = max(agreed, _GROWTH * len(known))
        most = max(most, agreed)
    plan = first_plan
    if plan is None or known:
        plan = make_plan(root, settings, known, most)
    if not most:
        files = len(plan.changed) + len(plan.unchanged)
        writer.describe({"files": _GROWTH * files})
    return plan


def _dated_plan(
    root: Path,
    plan: Plan,
    writer: Writing,
    *,
    is_new: bool,
) -> tuple[Plan, Dates]:
    """Add the unchanged files whose date in git has moved to those that are read."""
    before = ""
    if not is_new:
        before = str(writer.facts.get("git", ""))
    dates = commit_dates(root, plan.changed, plan.unchanged, writer.dates, before)
    if dates.moved:
        changed = list(plan.changed)
        unchanged: list[Entry] = []
        for entry in plan.unchanged:
            kind = changed if entry.path in dates.moved else unchanged
            kind.append(entry)
        plan = replace(plan, changed=tuple(changed), unchanged=tuple(unchanged))
    if dates.warning:
        plan = replace(plan, warnings=(*plan.warnings, dates.warning))
    return plan, dates


def _loader(
    index: Index,
    writer: Writing,
    root: Path,
    load: Load,
) -> Load:
    """Load the model when something is to be embedded, and record it as the model of the index."""

    @cache
    def embedder() -> Embedder | None:
        loaded = load()
        name, fingerprint, dimension = model_facts(loaded)
        check_model(index.place, writer.facts, name, fingerprint)
        facts = {"model": name, "fingerprint": fingerprint, "dimension": dimension}
        writer.describe(facts | {"root": index.owner_of(root)})
        return loaded

    return embedder


def _batches(prepared: Iterator[Prepared], room: float) -> Iterator[list[Prepared]]:
    """Group documents by passages, by memory and by time."""
    batch: list[Prepared] = []
    chunks = 0
    size = 0
    started = time.monotonic()
    patience = FIRST_SECONDS
    for item in prepared:
        batch.append(item)
        document = item.document
        chunks += len(document.chunks)
        size += _PER_CHUNK * len(document.chunks) + 4 * item.vectors.nbytes
        characters = sum(len(chunk.content) for chunk in document.chunks)
        characters += sum(len(parent.content) for parent in document.parents)
        size += _PER_CHARACTER * characters
        is_full = chunks >= BATCH_CHUNKS or size >= room
        if is_full or time.monotonic() - started > patience:
            yield batch
            batch = []
            chunks = 0
            size = 0
            started = time.monotonic()
            patience = min(2 * patience, BATCH_SECONDS)
    if batch:
        yield batch
