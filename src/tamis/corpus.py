"""An open corpus: a root, its index and its model, ready to be asked. What every door holds."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from tamis import response
from tamis.configuration import DEFAULT_MODEL, check_name, load
from tamis.errors import BadQuery, IndexDamaged, IndexMissing, UsageError
from tamis.index import dry_run
from tamis.index.build import build, check_model, model_facts, model_name
from tamis.index.doctor import checks
from tamis.index.doctor.checks import Health
from tamis.index.doctor.repair import repaired, with_model
from tamis.index.engines import open_index
from tamis.index.plan import Changes, count_changes, known_to, make_plan
from tamis.index.protocol import Capabilities, Index, IndexSnapshot, Layout
from tamis.index.vocabulary import make_if_used
from tamis.ingest.walk import checked_root
from tamis.model import (
    INDEX_FOLDER,
    NO_INDEX,
    Facts,
    Found,
    IndexState,
    Report,
    Skipped,
    WhyNot,
)
from tamis.models.embedders import Embedder, LoadedModels
from tamis.progress import Progress, Silent
from tamis.query import filters
from tamis.query.filters import Filter
from tamis.query.language import atom, parse_query
from tamis.request import SearchRequest, query_text, with_arguments_of
from tamis.search import explain
from tamis.search.boosts import ArchivePenalty
from tamis.search.calibrate import Logistic
from tamis.search.extras.synonyms import Synonyms
from tamis.search.pipeline import search
from tamis.search.question import Models, Question
from tamis.search.understand import applied, filter_of, hides_archived, names_for
from tamis.settings import Settings


@dataclass(frozen=True, slots=True)
class Status:
    """What an index holds, and how it compares with the files as they are now."""

    root: str
    directory: str
    index: IndexState
    model: str
    segments: int
    bytes_on_disk: int
    changed_files: (
        int  # new or changed since they were indexed, or indexed by other settings
    )
    touched_files: (
        int  # of the size and time that they had, and yet touched: reading tells
    )
    removed_files: int  # indexed, but gone or now kept out
    skipped: tuple[Skipped, ...]
    warnings: Mapping[str, str]  # what was odd about reading a document, by its path
    ignore_warnings: tuple[str, ...]  # what is wrong with ignore files
    sizes: Mapping[str, int]  # bytes on disk, by what they are
    fingerprint: str  # of the model
    dimension: int  # of its vectors
    tamis_version: str
    format: int  # of the index

    @property
    def skipped_by_reason(self) -> dict[str, int]:
        return dict(sorted(Counter(item.reason for item in self.skipped).items()))

    def to_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__}
        return plain | {
            "index": self.index.to_dict(),
            "skipped": [item.to_dict() for item in self.skipped],
            "skipped_by_reason": self.skipped_by_reason,
            "warnings": dict(self.warnings),
            "ignore_warnings": list(self.ignore_warnings),
            "sizes": dict(self.sizes),
        }


def status_of(root: Path, index: Index, settings: Settings) -> Status:
    """The status of a root's index."""
    with index.snapshot() as snapshot:
        known, warnings = known_to(snapshot, settings), snapshot.warnings()
        state, facts, segments = snapshot.state, snapshot.about, snapshot.segments
    if not index.capabilities.any_root_may_search:
        index.check_owner(root, facts)
    sizes = index.sizes()
    now = count_changes(root, settings, known)
    return Status(
        root=str(root),
        directory=str(index.place),
        index=state,
        model=str(facts.get("model", "")),
        segments=segments,
        bytes_on_disk=sum(sizes.values()),
        changed_files=now.changed + now.outdated,
        touched_files=now.touched,
        removed_files=now.gone,
        skipped=known.skipped,
        warnings=warnings,
        ignore_warnings=now.warnings,
        sizes=sizes,
        fingerprint=str(facts.get("fingerprint", "")),
        dimension=int(facts.get("dimension", 0)),
        tamis_version=version("tamis"),
        format=index.format,
    )


def open(  # noqa: A001
    path: str | os.PathLike[str],
    index_dir: str | os.PathLike[str] | None = None,
    config: str | os.PathLike[str] | None = None,
    *,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> "Corpus":
    """Open the index of a root, building it first when there is none."""
    root = checked_root(path)
    chosen = settings or load(root, {}, config=Path(config) if config else None)
    place = index_directory(root, chosen, index_dir)
    corpus = Corpus(root, place, chosen, progress)
    if corpus.capabilities.updated_by_search and not corpus.exists():
        corpus.refresh()
    return corpus


def open_existing(
    path: str | os.PathLike[str],
    index_dir: str | os.PathLike[str] | None,
    settings: Settings,
) -> "Corpus":
    """Open an index that must be there."""
    root = checked_root(path)
    corpus = Corpus(root, index_directory(root, settings, index_dir), settings)
    if corpus.capabilities.updated_by_search and not corpus.exists():
        corpus.close()
        raise IndexMissing(root)
    return corpus


def index_directory(
    root: Path, settings: Settings, given: str | os.PathLike[str] | None
) -> Path:
    """Where the index is: as given (relative to where we are), as configured (relative to the root)."""
    if given:
        return Path(given).expanduser().absolute()
    return root / Path(settings.index.directory or INDEX_FOLDER).expanduser()


class Corpus:
    """A root with its index. Safe to use from several threads."""

    def __init__(
        self,
        root: Path,
        directory: Path,
        settings: Settings,
        progress: Progress | None = None,
        *,
        is_live: bool = False,
        index: Index | None = None,
    ) -> None:
        """Opens nothing yet. `progress` watches the index being made, should the first question need it.

        `index` stands in for the one that the settings name: on a server, or in the directory.

        One that is live is brought up to date by whoever holds it, who also says how far that is.
        """
        self._is_live = is_live
        self._progress = progress or Silent()
        self.root = root
        self.directory = directory
        self._models = LoadedModels(root, settings)
        self._reader: Index = index or open_index(
            root, directory, settings, self._dimension
        )
        self._lock = threading.Lock()
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Ask and index by these settings from now on. The index stays where it is."""
        names, penalty = (
            names_for(self.root, settings),
            ArchivePenalty.of(settings.archive, settings.weights),
        )
        if settings.model.name:
            check_name(settings.model.name)
        with self._lock:
            self._models.configure(settings)
            self.settings, self.names, self._penalty = settings, names, penalty
            self.__dict__.pop("_synonyms", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()
        self._models.close()

    @with_arguments_of(SearchRequest)
    def search(self, request: SearchRequest) -> Found:
        """Search. `None` means "as configured"; an empty list is the same as none."""
        return self.answer(request)

    def answer(self, request: SearchRequest) -> Found:
        """Answer a request."""
        text, typed = parse_query(query_text(request.query), self.names)
        if not text.strip():
            raise BadQuery(
                "there is nothing to search for",
                hint="give some words besides the filter",
            )
        question = applied(request, self.question(text))
        allowed = filter_of(request, typed, self.names, self.settings)
        question = replace(question, filter=allowed)
        return self.ask(request.query, question, request.why_not)

    def question(self, text: str, stated: Filter = filters.EVERYTHING) -> Question:
        """Plain words, asked as configured. What looks like a filter in them is words, too."""
        usual = self.settings.search
        shown = (
            ~self.names.archived
            if hides_archived(stated, self.names, self.settings)
            else filters.EVERYTHING
        )
        return Question(
            text=text,
            filter=stated & shown,
            limit=usual.limit,
            min_score=usual.min_confidence,
            max_chunks_per_doc=usual.max_chunks_per_doc,
            max_hops=usual.max_hops,
            parents=self.settings.chunking.parents,
            rerank=usual.rerank_enabled,
            mmr=usual.mmr_enabled,
            now=time.time(),
            settings=usual,
            weights=self.settings.weights,
            archive=self._penalty,
            synonyms=self._synonyms,
        )

    @cached_property
    def _synonyms(self) -> Synonyms:
        return Synonyms.of(
            self.settings.search.synonyms,
            self.settings.weights.synonym_weight,
            self.root,
        )

    def ask(self, query: str, question: Question, why_not: str | None = None) -> Found:
        """Answer a complete question; where there is no index, it is made first."""
        if not self.exists() and self.capabilities.updated_by_search:
            self.refresh()
        with self._reader.snapshot() as snapshot:
            embedder = self._embedder(
                snapshot, is_asked=question.settings.semantic_weight > 0
            )
            models = self._called_on(embedder)
            if embedder is None and question.settings.keyword_weight == 0:
                hint = (
                    "raise search.keyword_weight (and leave use_rrf on), or use a model"
                )
                raise UsageError("no lane is left to search", hint=hint)
            answer = search(snapshot, question, models)
            found = response.found(
                query, question, answer, snapshot, self.root, self.names.archived
            )
            if not self._is_live:
                found = replace(
                    found,
                    hints=(
                        *found.hints,
                        *response.unfinished(question, snapshot.state),
                    ),
                )
            if why_not is None:
                return found
            return replace(
                found,
                why_not=self._why_not(
                    snapshot, question, models, why_not, answer.depth
                ),
            )

    def _why_not(
        self,
        snapshot: IndexSnapshot,
        question: Question,
        models: Models,
        file: str,
        depth: int,
    ) -> WhyNot:
        wanted = atom("file", (file,), self.names)
        indexed = snapshot.documents(wanted)
        if not indexed:
            skipped = {item.path: item for item in snapshot.skipped()}
            named = (
                path
                for path in skipped
                if filters.allows(wanted, Facts(path), "", None)
            )
            return dry_run.why_not_indexed(
                self.root, self.settings, next(named, file), skipped
            )
        reasons = [
            explain.why_not(snapshot, question, models, path, depth) for path in indexed
        ]
        return next(
            (reason for reason in reasons if reason.reason == "shown"), reasons[0]
        )

    def nameless(self, files: Sequence[str]) -> list[str]:
        """Those of some files' names that no document goes by."""
        if not files:
            return []
        with self.snapshot() as snapshot:
            return [
                name
                for name in files
                if not snapshot.documents(atom("file", (name,), self.names))
            ]

    @contextmanager
    def snapshot(self) -> Iterator[IndexSnapshot]:
        """What the index holds now, held still until the block ends."""
        if not self.exists():
            raise self._reader.missing(self.root)
        with self._reader.snapshot() as snapshot:
            self._check_belongs(snapshot.about)
            yield snapshot

    @property
    def capabilities(self) -> Capabilities:
        """What the engine of this index can do."""
        return self._reader.capabilities

    def _check_belongs(self, facts: Mapping[str, Any]) -> None:
        if not self.capabilities.any_root_may_search:
            self._reader.check_owner(self.root, facts)

    def create(self, layout: Layout) -> None:
        """Create the collection of an index on a server, before it is first indexed."""
        self._reader.create(layout)

    def refresh(
        self,
        progress: Progress | None = None,
        yields: Callable[[], bool] = lambda: False,
    ) -> Report:
        """Bring the index up to date with the files, and then the concept vocabulary where it is used.

        `yields` is asked between two portions of embedding; True ends the run there, for the next to go on.
        """
        watched = progress or self._progress
        load = self._models.embedder
        done = build(
            self.root, self._reader, self.settings, load, watched, yields=yields
        )
        self._make_vocabulary(watched)
        return self._with_faults(done)

    def _with_faults(self, done: Report) -> Report:
        fault = self._models.fault
        return replace(done, warnings=(*done.warnings, fault)) if fault else done

    def rebuild(
        self, progress: Progress | None = None, *, take_over: bool = False
    ) -> Report:
        """Make the index anew: from a damaged one, with another model, or for a newer format.

        What another folder has indexed under the same name on a server is replaced only to `take_over`.
        """
        watched = progress or self._progress
        if self.capabilities.any_root_may_search and not take_over:
            self._reader.check_owner(self.root, self._reader.stored_facts())
        settings = with_model(self.settings, self._stored_model)
        untold = self.exists() and not settings.model.name
        make = partial(
            build, self.root, self._reader, settings, self._models.embedder, watched
        )
        done: Report | None = None
        if self._reader.is_usable():
            with suppress(
                IndexDamaged
            ):  # deeper than a look shows: then what is there is thrown away
                done = make(rebuild=True)
        done = done or make(discard=True)
        self._make_vocabulary(watched)
        if untold:
            said = f"the old index did not tell its model: the new one is made with {DEFAULT_MODEL}"
            done = replace(done, warnings=(*done.warnings, said))
        return self._with_faults(done)

    def _stored_model(self) -> str:
        facts = self._reader.stored_facts()
        return str(facts.get("model", facts.get("chosen", "")))

    def _make_vocabulary(self, progress: Progress) -> None:
        make_if_used(self.directory, self.settings, self._models.embedder, progress)

    def count_files(self) -> int:
        """How many files there are to index; too many are a fault (`index.max_files`)."""
        return len(
            make_plan(
                self.root, self.settings, {}, self.settings.index.max_files
            ).changed
        )

    def exists(self) -> bool:
        """Whether there is an index, however much of it."""
        return self._reader.exists()

    def state(self) -> IndexState:
        """Which generation a search would see now."""
        if not self.exists():
            return NO_INDEX
        with self._reader.snapshot() as snapshot:
            return snapshot.state

    def changes(self) -> Changes:
        """Count the files that differ from what the index has of them. Reads none."""
        with self._reader.snapshot() as snapshot:
            known = known_to(snapshot, self.settings)
        return count_changes(self.root, self.settings, known)

    def status(self) -> Status:
        """What the index holds, and how it compares with the files as they are now."""
        return status_of(self.root, self._reader, self.settings)

    def check(self, *, full: bool = False) -> Health:
        """Whether the index is what it should be: by checksums, counts and a sample, or by everything."""
        self._check_is_here()
        return checks.check(
            self.root,
            self.directory,
            self.settings,
            self._models.embedder_itself,
            full=full,
        )

    def repair(self, progress: Progress | None = None) -> Health:
        """Look at everything, mend what can be mended, bring the rest up to date, and look again."""
        self._check_is_here()
        return repaired(
            self.root,
            self.directory,
            self.settings,
            self._models,
            progress or self._progress,
        )

    def _check_is_here(self) -> None:
        if not self.capabilities.examinable:
            hint = "the server keeps its own; tamis index writes what is missing, rebuild-index everything"
            raise UsageError("only an index on this machine can be examined", hint=hint)

    def _dimension(self) -> int:
        name = self.settings.model.name or DEFAULT_MODEL
        return model_facts(self._models.embedder(name))[2]

    def _called_on(self, embedder: Embedder | None) -> Models:
        if embedder is None:
            return Models(rerank=self._models.rerank)
        return Models(
            embedder.embed_query, Logistic(*embedder.related), self._models.rerank
        )

    def _embedder(self, snapshot: IndexSnapshot, *, is_asked: bool) -> Embedder | None:
        facts, place = snapshot.about, self._reader.place
        self._check_belongs(facts)
        if (
            "model" not in facts
        ):  # nothing was ever written: there is nothing to search with a model
            return None
        name = model_name(self.settings, facts)
        check_model(place, facts, name)
        if not is_asked:
            return None
        embedder = self._models.embedder(name)
        check_model(place, facts, name, model_facts(embedder)[1])
        return embedder
