"""An open corpus: a root, its index and its model, ready to be asked. What every door holds."""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from tamis import answers, filters, health, survey
from tamis import arguments as given
from tamis.build import (
    build,
    check_belongs,
    check_model,
    is_touched,
    make_plan,
    model_facts,
    model_name,
    recipe,
    waiting_for,
)
from tamis.configuration import load
from tamis.engine import Holding, Index
from tamis.engine.embedded import store
from tamis.engine.embedded.mend import made_aside, mend
from tamis.engine.embedded.reader import Reader
from tamis.errors import (
    BadQuery,
    IndexDamaged,
    IndexFault,
    IndexForeign,
    IndexMissing,
    TamisError,
    UsageError,
)
from tamis.filters import Filter
from tamis.health import Health
from tamis.ingest.walk import Entry, checked_root
from tamis.model import (
    INDEX_FOLDER,
    NO_INDEX,
    Address,
    Facts,
    FileState,
    Finding,
    Found,
    IndexState,
    Repair,
    Report,
    Skipped,
    WhyNot,
)
from tamis.models.cache import CachedEmbedder, VectorCache, cache_folder
from tamis.models.embed import (
    DEFAULT_MODEL,
    QUICK_MODEL,
    Embedder,
    check_name,
    load_embedder,
    worker_threads,
)
from tamis.models.rerank import Reranker, load_reranker
from tamis.progress import Progress, Silent
from tamis.query import atom, parse_filter, parse_query
from tamis.search import why
from tamis.search.boost import ArchivePenalty
from tamis.search.calibrate import Logistic
from tamis.search.pipeline import search
from tamis.search.question import Models, Question
from tamis.search.synonyms import Synonyms
from tamis.settings import Settings
from tamis.vocabulary import make_vocabulary


@dataclass(frozen=True, slots=True)
class Status:
    """What an index holds, and how it compares with the files as they are now."""

    root: str
    directory: str
    index: IndexState
    model: str
    segments: int
    bytes_on_disk: int
    changed_files: int  # new or perhaps changed since they were indexed
    removed_files: int  # indexed, but gone or now kept out
    skipped: tuple[Skipped, ...]
    warnings: Mapping[str, str]  # what was odd about reading a document, by its path
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
            "sizes": dict(self.sizes),
        }


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
    if not corpus.is_shared and not corpus.exists():
        corpus.refresh()
    return corpus


def open_existing(
    path: str | os.PathLike[str], index_dir: str | os.PathLike[str] | None, settings: Settings
) -> "Corpus":
    """Open an index that must be there."""
    root = checked_root(path)
    corpus = Corpus(root, index_directory(root, settings, index_dir), settings)
    if not corpus.is_shared and not corpus.exists():
        corpus.close()
        raise IndexMissing(root)
    return corpus


def index_directory(root: Path, settings: Settings, given: str | os.PathLike[str] | None) -> Path:
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
        self._reader: Index = index or opened(root, directory, settings, self._load)
        self.settings = settings
        self._embedders: dict[str, Embedder | None] = {}
        self._vectors: VectorCache | None = None
        self._reranker: Reranker | None = None  # loaded by the first search that reranks
        self._lock = threading.Lock()
        self.configure(settings)

    def configure(self, settings: Settings) -> None:
        """Ask and index by these settings from now on. The index stays where it is."""
        names, penalty = given.names_for(self.root, settings), ArchivePenalty.of(settings.archive)
        if settings.model.name:
            check_name(settings.model.name)
        with self._lock:
            if settings.model != self.settings.model:
                self._embedders = {}
            self.settings, self.names, self._penalty, self._reranker = settings, names, penalty, None
            self.__dict__.pop("_synonyms", None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()
        if self._vectors is not None:
            self._vectors.close()

    def search(
        self,
        query: str,
        *,
        limit: int | None = None,
        excluded_files: Sequence[str] = (),
        exclude_patterns: Sequence[str] = (),
        include_patterns: Sequence[str] = (),
        workspace: str | None = None,
        under: Sequence[str] = (),
        tags: Sequence[str] = (),
        chunk_types: Sequence[str] = (),
        languages: Sequence[str] = (),
        author: str | None = None,
        category: str | None = None,
        modified_after: str | None = None,
        modified_before: str | None = None,
        exclude_archived: bool | None = None,
        min_score: float | None = None,
        max_chunks_per_doc: int | None = None,
        unique: bool = False,
        rerank: bool | None = None,
        mmr: bool | None = None,
        expand_parents: bool | None = None,
        max_hops: int | None = None,
        include_graph_context: bool = False,
        use_rrf: bool = True,
        rerank_with_recency: bool | None = None,
        quick: bool = False,
        filter: str = "",
        why_not: str | None = None,
        explain: bool = False,
    ) -> Found:
        """Search. `None` means "as configured"; an empty list is the same as none.

        `mmr` prefers passages that differ from those above them.
        `max_hops` is how far links are followed from the best hits; `include_graph_context` lists in
        `Found.graph_context` where they led. `expand_parents` shows the section around each passage.
        `use_rrf=False` asks the meaning lane alone and keeps its order. `rerank_with_recency` raises what is
        recent as `search.recency_profile` says, or as its `code` profile does where that is off.
        `rerank` puts the best in the order of a cross-encoder (`search.rerank_budget_ms` bounds its time).
        `quick` asks no model: words, names and links answer, in a few milliseconds.
        `explain` tells of each result where it stood after each stage, and of each stage what it left.
        `why_not` names a file that you expect in the answer; `Found.why_not` then says why it is not.
        """
        text, typed = parse_query(given.query_text(query), self.names)
        if not text.strip():
            raise BadQuery("there is nothing to search for", hint="give some words besides the filter")
        narrowing = given.Narrowing(
            excluded_files, exclude_patterns, include_patterns, workspace, under, tags, chunk_types,
            languages, author, category, modified_after, modified_before, exclude_archived, filter,
        )  # fmt: skip
        allowed = self.allowed(narrowing, typed)
        usual = self.question(text)
        if not given.of_kind(use_rrf, "use_rrf", bool):
            usual = usual.by_meaning_alone
        if given.of_kind(quick, "quick", bool):
            usual, rerank = usual.without_meaning, False
        if rerank_with_recency is not None:
            usual = usual.with_recency(given.of_kind(rerank_with_recency, "rerank_with_recency", bool))
        per_document = usual.max_chunks_per_doc if max_chunks_per_doc is None else max_chunks_per_doc
        question = replace(
            usual,
            filter=allowed,
            limit=given.result_limit(usual.limit if limit is None else limit),
            min_score=given.score(usual.min_score if min_score is None else min_score),
            max_chunks_per_doc=1
            if given.of_kind(unique, "unique", bool)
            else given.per_document(per_document),
            max_hops=given.hops(usual.max_hops if max_hops is None else max_hops),
            graph_context=given.of_kind(include_graph_context, "include_graph_context", bool),
            parents=given.of_kind(
                usual.parents if expand_parents is None else expand_parents, "expand_parents", bool
            ),
            rerank=given.of_kind(usual.rerank if rerank is None else rerank, "rerank", bool),
            explain=given.of_kind(explain, "explain", bool),
            mmr=given.of_kind(usual.mmr if mmr is None else mmr, "mmr", bool),
        )
        return self.ask(query, question, why_not)

    def allowed(self, narrowing: given.Narrowing, typed: Filter = filters.EVERYTHING) -> Filter:
        """What these filters let through, with those that were typed; archived documents as configured."""
        stated = typed & parse_filter(given.of_kind(narrowing.filter, "filter", str), self.names)
        named = bool(narrowing.include_patterns)  # a pattern may name archived documents
        by_default = self._hides_archived(stated) and not named
        chosen = narrowing.exclude_archived
        hidden = given.of_kind(by_default if chosen is None else chosen, "exclude_archived", bool)
        shown = ~self.names.archived if hidden else filters.EVERYTHING
        return filters.all_of((stated, narrowing.terms(self.names), shown))

    def question(self, text: str, stated: Filter = filters.EVERYTHING) -> Question:
        """Plain words, asked as configured. What looks like a filter in them is words, too."""
        usual = self.settings.search
        shown = ~self.names.archived if self._hides_archived(stated) else filters.EVERYTHING
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
            archive=self._penalty,
            synonyms=self._synonyms,
        )

    @cached_property
    def _synonyms(self) -> Synonyms:
        return Synonyms.of(self.settings.search, self.root)

    def _hides_archived(self, stated: Filter) -> bool:
        """Whoever names archived documents in a filter means to see them."""
        return self.settings.search.exclude_archived and self.names.archived not in filters.atoms(stated)

    def ask(self, query: str, question: Question, why_not: str | None = None) -> Found:
        """Answer a complete question; where there is no index, it is made first."""
        if not self.exists() and not self.is_shared:
            self.refresh()
        with self._reader.snapshot() as snapshot:
            embedder = self._embedder(snapshot, is_asked=question.settings.semantic_weight > 0)
            models = self._models(embedder)
            if embedder is None and question.settings.keyword_weight == 0:
                hint = "raise search.keyword_weight (and leave use_rrf on), or use a model"
                raise UsageError("no lane is left to search", hint=hint)
            answer = search(snapshot, question, models)
            found = answers.found(query, question, answer, snapshot, self.root, self.names.archived)
            if not self._is_live:
                found = replace(found, hints=(*found.hints, *answers.unfinished(question, snapshot.state)))
            if why_not is None:
                return found
            return replace(found, why_not=self._why_not(snapshot, question, models, why_not, answer.depth))

    def _why_not(
        self, snapshot: Holding, question: Question, models: Models, file: str, depth: int
    ) -> WhyNot:
        wanted = atom("file", (given.of_kind(file, "why_not", str),), self.names)
        indexed = snapshot.documents(wanted)
        if not indexed:
            skipped = {item.path: item for item in snapshot.skipped()}
            named = (path for path in skipped if filters.allows(wanted, Facts(path), "", None))
            return survey.why_not_indexed(self.root, self.settings, next(named, file), skipped)
        reasons = [why.why_not(snapshot, question, models, path, depth) for path in indexed]
        return next((reason for reason in reasons if reason.reason == "shown"), reasons[0])

    @contextmanager
    def snapshot(self) -> Iterator[Holding]:
        """What the index holds now, held still until the block ends."""
        if not self.exists():
            raise IndexMissing(self._reader.place if self.is_shared else self.root)
        with self._reader.snapshot() as snapshot:
            self._check_belongs(snapshot.about)
            yield snapshot

    @property
    def is_shared(self) -> bool:
        """Whether the index is on a server. Whoever searches it need not be who keeps it up to date."""
        return isinstance(self._reader.place, Address)

    def _check_belongs(self, facts: Mapping[str, Any]) -> None:
        if not self.is_shared:  # else anybody's folder of that name may ask
            check_belongs(self.root, self.directory, facts)

    def refresh(self, progress: Progress | None = None, yields: Callable[[], bool] = lambda: False) -> Report:
        """Bring the index up to date with the files, and then the concept vocabulary where it is used.

        `yields` is asked between two portions of embedding; True ends the run there, for the next to go on.
        """
        watched = progress or self._progress
        done = build(self.root, self._reader, self.settings, self._load, watched, yields=yields)
        self._make_vocabulary(progress)
        return self._with_faults(done)

    def _with_faults(self, done: Report) -> Report:
        fault = self._vectors.fault if self._vectors else ""
        return replace(done, warnings=(*done.warnings, fault)) if fault else done

    def rebuild(self, progress: Progress | None = None) -> Report:
        """Make the index anew: from a damaged one, with another model, or for a newer format."""
        settings = self._with_its_model()
        make = partial(build, self.root, self._reader, settings, self._load, progress or self._progress)
        done: Report | None = None
        if self._is_usable():
            with suppress(IndexDamaged):  # deeper than a look shows: then what is there is thrown away
                done = make(rebuild=True)
        done = done or make(discard=True)
        self._make_vocabulary(progress)
        return self._with_faults(done)

    def _with_its_model(self) -> Settings:
        """The settings, with the model that even a damaged index tells where they name none."""
        name = self.settings.model.name or self._stored_model()
        return replace(self.settings, model=replace(self.settings.model, name=name))

    def _stored_model(self) -> str:
        if not self.is_shared:
            return store.model_of(self.directory)
        if not self.exists():
            return ""
        with self._reader.snapshot() as snapshot:
            return str(snapshot.about.get("model", ""))

    def _make_vocabulary(self, progress: Progress | None) -> None:
        if self.settings.search.query_expansion_enabled:
            make_vocabulary(self.directory, self.settings, self._load, progress or self._progress)

    def count_files(self) -> int:
        """How many files there are to index; too many are a fault (`index.max_files`)."""
        return len(make_plan(self.root, self.settings, {}, self.settings.index.max_files).changed)

    def exists(self) -> bool:
        """Whether there is an index, however much of it."""
        return self._reader.exists()

    def state(self) -> IndexState:
        """Which generation a search would see now."""
        if not self.exists():
            return NO_INDEX
        with self._reader.snapshot() as snapshot:
            return snapshot.state

    def changes(self) -> int:
        """How many files are new, perhaps changed or gone since they were indexed. Reads none."""
        with self._reader.snapshot() as snapshot:
            known = snapshot.file_states()
            passed_over = {item.path for item in snapshot.skipped()}
            since = float(snapshot.about.get("began", 0.0))
        plan = make_plan(self.root, self.settings, known)
        here = {entry.path for entry in (*plan.changed, *plan.unchanged)}
        new = sum(entry.path not in passed_over or is_touched(entry, since) for entry in plan.changed)
        return new + sum(path not in here for path in known)

    def status(self) -> Status:
        with self._reader.snapshot() as snapshot:
            known, skipped, warnings = snapshot.file_states(), snapshot.skipped(), snapshot.warnings()
            state, facts, segments = snapshot.state, snapshot.about, snapshot.segments
        self._check_belongs(facts)
        plan = make_plan(self.root, self.settings, known)
        here = {entry.path for entry in (*plan.changed, *plan.unchanged)}
        unreadable = {item.path for item in skipped}
        sizes = {} if self.is_shared else health.sizes(self.directory)
        return Status(
            root=str(self.root),
            directory=str(self._reader.place),
            index=state,
            model=str(facts.get("model", "")),
            segments=segments,
            bytes_on_disk=sum(sizes.values()),
            changed_files=sum(
                entry.path not in unreadable and _differs(entry, known, recipe(self.settings))
                for entry in plan.changed
            ),
            removed_files=sum(path not in here for path in known),
            skipped=skipped,
            warnings=warnings,
            sizes=sizes,
            fingerprint=str(facts.get("fingerprint", "")),
            dimension=int(facts.get("dimension", 0)),
            tamis_version=version("tamis"),
            format=store.SCHEMA_VERSION,
        )

    def check(self, *, full: bool = False) -> Health:
        """Whether the index is what it should be: by checksums, counts and a sample, or by everything."""
        if self.is_shared:
            hint = "the server keeps its own; tamis index writes what is missing, rebuild-index everything"
            raise UsageError("only an index on this machine can be examined", hint=hint)
        return health.check(self.root, self.directory, self.settings, self._load_itself, full=full)

    def repair(self, progress: Progress | None = None) -> Health:
        """Look at everything, mend what can be mended, bring the rest up to date, and look again."""
        watched = progress or self._progress
        before = self.check(full=True)
        if not before.repairs:
            return before
        done: list[str] = []
        faults: list[Finding] = []
        try:
            for each in self._mend(before.repairs, watched):
                done.append(each)  # one by one: what was done before a fault was done
        except TamisError as error:
            faults.append(Finding("repair", "fault", error.message, error.hint))
        after = self.check(full=True)
        return replace(after, repaired=tuple(done), findings=(*after.findings, *faults))

    def _mend(self, repairs: Sequence[Repair], progress: Progress) -> Iterator[str]:
        """Do it, and say what was done."""
        kinds = {repair.kind for repair in repairs}
        timeout, waiting = self.settings.index.lock_timeout, waiting_for(progress)
        if "protect" in kinds:
            health.protect(self.directory)
            yield "made the folder of the index private"
        if "rebuild" in kinds:
            progress.note("the index is made anew from your files; the old one stays until that is whole")
            with made_aside(self.directory, timeout, waiting) as aside:
                build(self.root, aside, self._with_its_model(), self._load, progress)
            self._make_vocabulary(progress)
            yield "made the index anew"
            return
        if kinds & {"rewrite", "reembed", "sweep"}:
            lost = mend(self.directory, timeout, waiting, repairs)
            yield f"took out {lost} damaged documents" if lost else "removed what belonged to nobody"
        if kinds - {"protect"}:
            load = self._load_afresh if "reembed" in kinds else self._load
            done = build(self.root, self.directory, self.settings, load, progress)
            self._make_vocabulary(progress)
            yield f"brought the index up to date: {done.indexed} documents written"

    def _load(self, name: str) -> Embedder | None:
        with self._lock:
            if name not in self._embedders:
                self._embedders[name] = self._cached(load_embedder(name, self.settings.model.threads))
            return self._embedders[name]

    def _load_itself(self, name: str) -> Embedder | None:
        """The model without its cache, to hold what is there against what it gives."""
        loaded = self._load(name)
        return loaded.embedder if isinstance(loaded, CachedEmbedder) else loaded

    def _load_afresh(self, name: str) -> Embedder | None:
        """The model with a cache that is written and not asked: what it holds may be what is wrong."""
        loaded = self._load(name)
        if not isinstance(loaded, CachedEmbedder):
            return loaded
        return CachedEmbedder(loaded.embedder, loaded.cache, loaded.threads, afresh=True)

    def _cached(self, embedder: Embedder | None) -> Embedder | None:
        """With the cache before it, if there is one and the model takes longer than looking there."""
        if embedder is None or embedder.name == QUICK_MODEL or not self.settings.model.cache_mb:
            return embedder
        if self._vectors is not None:  # of a model that the settings named before
            self._vectors.close()
        self._vectors = VectorCache(cache_folder(os.environ), self.settings.model.cache_mb * 1_000_000)
        return CachedEmbedder(embedder, self._vectors, worker_threads(self.settings.model.threads))

    def _models(self, embedder: Embedder | None) -> Models:
        if embedder is None:
            return Models(rerank=self._rerank)
        return Models(embedder.embed_query, Logistic(*embedder.related), self._rerank)

    def _rerank(self, query: str, passages: Sequence[str], seconds: float) -> Sequence[float]:
        with self._lock:
            if self._reranker is None:
                name, threads = self.settings.search.rerank_model, self.settings.model.threads
                self._reranker = load_reranker(name, threads, self.root)
            reranker = self._reranker
        return reranker.scores(query, passages, seconds)

    def _embedder(self, snapshot: Holding, *, is_asked: bool) -> Embedder | None:
        facts, place = snapshot.about, self._reader.place
        self._check_belongs(facts)
        if "model" not in facts:  # nothing was ever written: there is nothing to search with a model
            return None
        name = model_name(self.settings, facts)
        check_model(place, facts, name)
        if not is_asked:
            return None
        embedder = self._load(name)
        check_model(place, facts, name, model_facts(embedder)[1])
        return embedder

    def _is_usable(self) -> bool:
        if self.is_shared or not store.exists(self.directory):
            return True
        try:
            with closing(Reader(self.directory)) as reader, reader.snapshot():
                return True
        except IndexForeign:
            raise
        except IndexFault:
            return False


def opened(root: Path, directory: Path, settings: Settings, load: Callable[[str], Embedder | None]) -> Index:
    """The index that the settings name. Asks nobody yet."""
    if not settings.engine.url:
        return Reader(directory)
    from tamis.engine.qdrant.open import open_index  # who has no server needs no library for one

    name = settings.model.name or DEFAULT_MODEL
    return open_index(root, settings, os.environ, lambda: model_facts(load(name))[2])


def _differs(entry: Entry, known: Mapping[str, FileState], wanted: str) -> bool:
    before = known.get(entry.path)
    now = (entry.size, entry.mtime_ns, wanted)
    return before is None or now != (before.size, before.mtime_ns, before.recipe)
