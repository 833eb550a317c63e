"""An open corpus: a root with its index and its model, which every door searches.

Only what a search needs is imported at once; indexing and the doctor are imported when they run.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tamis import response
from tamis.configuration import load
from tamis.errors import BadQuery, IndexDamaged, IndexMissing, UsageError
from tamis.index.engines import open_index
from tamis.index.protocol import Capabilities, Index, IndexSnapshot, Layout
from tamis.ingest.walk import checked_root
from tamis.model import (
    INDEX_FOLDER,
    NO_INDEX,
    Facts,
    Found,
    IndexState,
    Report,
    Status,
    WhyNot,
)
from tamis.models.embedders import (
    LoadedModels,
    check_model,
    model_facts,
    model_name,
)
from tamis.progress import Progress, Silent
from tamis.query import filters
from tamis.query.filters import EVERYTHING, Filter
from tamis.query.language import atom, parse_query
from tamis.request import SearchRequest, query_text, with_arguments_of
from tamis.search.pipeline import search
from tamis.search.question import (
    Models,
    Question,
    applied,
    filter_of,
    hides_archived,
    names_for,
)
from tamis.search.scores import Logistic, archive_factor
from tamis.settings import DEFAULT_MODEL, Settings

if TYPE_CHECKING:
    from tamis.index.doctor.checks import Health
    from tamis.index.plan import Changes
    from tamis.search.extras.synonyms import Synonyms


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
    if settings is None:
        settings = load(root, {}, config=Path(config) if config else None)
    place = index_directory(root, settings, index_dir)
    corpus = Corpus(root, place, settings, progress)
    if corpus.is_missing:
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
    if corpus.is_missing:
        corpus.close()
        raise IndexMissing(root)
    return corpus


def index_directory(
    root: Path, settings: Settings, given: str | os.PathLike[str] | None
) -> Path:
    """Return the index folder: as given (in the current folder), else as configured (in the root)."""
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
        """Prepare a corpus; nothing is opened yet. `progress` follows the making of the index.

        `index` replaces the one that the settings name, on a server or in the directory. The holder
        of a live corpus keeps it up to date and says how fresh it is.
        """
        self._is_live = is_live
        self._progress = progress or Silent()
        self.root = root
        self.directory = directory
        self._models = LoadedModels(root, settings)
        if index is None:
            index = open_index(root, directory, settings, self._dimension)
        self._reader = index
        self._lock = threading.Lock()
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Search and index by these settings from now on. The index stays in its place."""
        names = names_for(self.root, settings)
        penalty = archive_factor(settings.archive, settings.weights)
        with self._lock:
            self._models.configure(settings)
            self.settings = settings
            self.names = names
            self._penalty = penalty
            self.__dict__.pop("_synonyms", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the index and the cache of vectors."""
        self._reader.close()
        self._models.close()

    # --- searching ------------------------------------------------------------------------------

    @with_arguments_of(SearchRequest)
    def search(self, request: SearchRequest) -> Found:
        """Search. `None` means "as configured"; an empty list is the same as none."""
        return self.answer(request)

    def answer(self, request: SearchRequest) -> Found:
        """Answer a request; make the index first if there is none."""
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

    def question(self, text: str, stated: Filter = EVERYTHING) -> Question:
        """Return a question as configured. Text that looks like a filter is words here."""
        usual = self.settings.search
        if hides_archived(stated, self.names, self.settings):
            stated &= ~self.names.archived
        return Question(
            text=text,
            filter=stated,
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
    def _synonyms(self) -> "Synonyms | None":
        chosen = self.settings.search.synonyms
        if chosen == "off":
            return None
        from tamis.search.extras.synonyms import Synonyms

        return Synonyms.of(chosen, self.root)

    def ask(self, query: str, question: Question, why_not: str | None = None) -> Found:
        """Answer a complete question; make the index first if there is none."""
        if self.is_missing:
            self.refresh()
        with self._reader.snapshot() as snapshot:
            models = self._models_for(question, snapshot)
            answer = search(snapshot, question, models)
            archived = self.names.archived
            found = response.found(
                query, question, answer, snapshot, self.root, archived
            )
            if not self._is_live:
                unfinished = response.unfinished(question, snapshot.state)
                found = replace(found, hints=(*found.hints, *unfinished))
            if why_not is not None:
                reason = self._why_not(
                    snapshot, question, models, why_not, answer.depth
                )
                found = replace(found, why_not=reason)
            return found

    def _models_for(self, question: Question, snapshot: IndexSnapshot) -> Models:
        """Return the models that may answer: those that the index was made with."""
        facts = snapshot.about
        self._check_belongs(snapshot)
        embedder = None
        if "model" in facts:  # otherwise nothing was ever written
            place = self._reader.place
            name = model_name(self.settings, facts)
            check_model(place, facts, name)
            if question.settings.semantic_weight > 0:
                embedder = self._models.embedder(name)
                check_model(place, facts, name, model_facts(embedder)[1])
        if embedder is not None:
            related = Logistic(*embedder.related)
            return Models(embedder.embed_query, related, self._models.rerank)
        if question.settings.keyword_weight == 0:
            hint = "raise search.keyword_weight (and leave use_rrf on), or use a model"
            raise UsageError("no lane is left to search", hint=hint)
        return Models(rerank=self._models.rerank)

    def _why_not(
        self,
        snapshot: IndexSnapshot,
        question: Question,
        models: Models,
        file: str,
        depth: int,
    ) -> WhyNot:
        from tamis.index.plan import why_not_indexed
        from tamis.search.explain import why_not

        wanted = atom("file", (file,), self.names)
        reasons = []
        for path in snapshot.documents(wanted):
            reasons.append(why_not(snapshot, question, models, path, depth))
        if reasons:
            shown = [reason for reason in reasons if reason.reason == "shown"]
            return (*shown, *reasons)[0]
        skipped = {item.path: item for item in snapshot.skipped()}
        for path in skipped:
            if filters.allows(wanted, Facts(path), "", None):
                file = path
                break
        return why_not_indexed(self.root, self.settings, file, skipped)

    # --- indexing -------------------------------------------------------------------------------

    def create(self, layout: Layout) -> None:
        """Create the collection of an index on a server, before it is first indexed."""
        self._reader.create(layout)

    def refresh(
        self,
        progress: Progress | None = None,
        yields: Callable[[], bool] = lambda: False,
    ) -> Report:
        """Bring the index up to date with the files.

        `yields` is called between two portions of embedding; if it returns True, the run ends there
        and the next one continues.
        """
        from tamis.index.build import build

        progress = progress or self._progress
        load = self._models.embedder
        done = build(
            self.root, self._reader, self.settings, load, progress, yields=yields
        )
        return self._finished(done, progress)

    def rebuild(
        self, progress: Progress | None = None, *, take_over: bool = False
    ) -> Report:
        """Make the index anew: from a damaged one, with another model, or for a newer format.

        An index of another folder with the same name on a server is replaced only with `take_over`.
        """
        from tamis.index.build import build
        from tamis.index.doctor.repair import with_model

        progress = progress or self._progress
        index = self._reader
        if self.capabilities.any_root_may_search and not take_over:
            index.check_owner(self.root, index.stored_facts())
        settings = with_model(self.settings, index.stored_facts())
        is_unknown = self.exists() and not settings.model.name
        load = self._models.embedder
        done = None
        if index.is_usable():
            # Damage that shows only now: then the old index is thrown away.
            with suppress(IndexDamaged):
                done = build(self.root, index, settings, load, progress, rebuild=True)
        if done is None:
            done = build(self.root, index, settings, load, progress, discard=True)
        if is_unknown:
            warning = f"the model of the old index is unknown: the new one uses {DEFAULT_MODEL}"
            done = replace(done, warnings=(*done.warnings, warning))
        return self._finished(done, progress)

    def _finished(self, done: Report, progress: Progress) -> Report:
        """Make the concept vocabulary where it is used, and report a fault of the vector cache."""
        from tamis.index.vocabulary import make_if_used

        make_if_used(self.directory, self.settings, self._models.embedder, progress)
        fault = self._models.fault
        if fault:
            done = replace(done, warnings=(*done.warnings, fault))
        return done

    def _dimension(self) -> int:
        name = self.settings.model.name or DEFAULT_MODEL
        return model_facts(self._models.embedder(name))[2]

    # --- the state of the index -----------------------------------------------------------------

    @property
    def capabilities(self) -> Capabilities:
        """The abilities of the engine that holds this index."""
        return self._reader.capabilities

    def exists(self) -> bool:
        """Return True if there is an index, even an unfinished one."""
        return self._reader.exists()

    @property
    def is_missing(self) -> bool:
        """True if there is no index and a search may make one."""
        return self.capabilities.updated_by_search and not self.exists()

    @contextmanager
    def snapshot(self) -> Iterator[IndexSnapshot]:
        """Hold the index as it is now until the block ends."""
        if not self.exists():
            raise self._reader.missing(self.root)
        with self._reader.snapshot() as snapshot:
            self._check_belongs(snapshot)
            yield snapshot

    def _check_belongs(self, snapshot: IndexSnapshot) -> None:
        if not self.capabilities.any_root_may_search:
            self._reader.check_owner(self.root, snapshot.about)

    def state(self) -> IndexState:
        """Return the state that a search would see now."""
        if not self.exists():
            return NO_INDEX
        with self._reader.snapshot() as snapshot:
            return snapshot.state

    def changes(self) -> "Changes":
        """Count the files that differ from the index, without reading them."""
        from tamis.index.plan import count_changes, known_to

        with self._reader.snapshot() as snapshot:
            known = known_to(snapshot, self.settings)
        return count_changes(self.root, self.settings, known)

    def count_files(self) -> int:
        """Count the files to index; too many are a fault (`index.max_files`)."""
        from tamis.index.plan import make_plan

        most = self.settings.index.max_files
        return len(make_plan(self.root, self.settings, {}, most).changed)

    def status(self) -> Status:
        """Return what the index holds, and how it compares with the files as they are now."""
        from importlib.metadata import version

        from tamis.index.plan import count_changes, known_to

        index = self._reader
        with index.snapshot() as snapshot:
            self._check_belongs(snapshot)
            known = known_to(snapshot, self.settings)
            warnings = snapshot.warnings()
            state = snapshot.state
            facts = snapshot.about
            segments = snapshot.segments
        sizes = index.sizes()
        now = count_changes(self.root, self.settings, known)
        return Status(
            root=str(self.root),
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

    # --- the doctor -----------------------------------------------------------------------------

    def check(self, *, full: bool = False) -> "Health":
        """Check the index by checksums, counts and a sample, or (`full`) check everything."""
        from tamis.index.doctor.checks import check

        self._check_is_here()
        load = self._models.embedder_itself
        return check(self.root, self.directory, self.settings, load, full=full)

    def repair(self, progress: Progress | None = None) -> "Health":
        """Check everything, repair what can be repaired, and check again."""
        from tamis.index.doctor.repair import repaired

        self._check_is_here()
        progress = progress or self._progress
        return repaired(
            self.root, self.directory, self.settings, self._models, progress
        )

    def _check_is_here(self) -> None:
        if not self.capabilities.examinable:
            hint = "the server keeps its own; tamis index writes what is missing, rebuild-index everything"
            raise UsageError("only an index on this machine can be examined", hint=hint)
