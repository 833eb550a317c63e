"""An open corpus: a root, its index and its model, ready to be asked. What every door holds."""

import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

from tamis import answers, filters, survey
from tamis import arguments as given
from tamis.build import (
    Progress,
    build,
    check_belongs,
    check_model,
    make_plan,
    model_facts,
    model_name,
    recipe,
)
from tamis.engine.embedded import store
from tamis.engine.embedded.reader import EmbeddedSnapshot, Reader
from tamis.errors import BadQuery, IndexDamaged, IndexFault, IndexForeign, IndexMissing, UsageError
from tamis.filters import Filter
from tamis.ingest.walk import Entry, checked_root
from tamis.model import INDEX_FOLDER, Facts, Found, IndexState, Report, Skipped, WhyNot
from tamis.models.embed import Embedder, check_name, load_embedder
from tamis.models.rerank import Reranker, load_reranker
from tamis.query import atom, parse_filter, parse_query
from tamis.search import why
from tamis.search.boost import ArchivePenalty
from tamis.search.calibrate import Logistic
from tamis.search.pipeline import search
from tamis.search.question import Models, Question
from tamis.search.synonyms import Synonyms
from tamis.settings import Settings, load
from tamis.vocabulary import make_vocabulary


class Silent:
    """Nobody watches."""

    def start(self, total: int) -> None: ...
    def advance(self, path: str) -> None: ...
    def note(self, message: str) -> None: ...


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

    def to_dict(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__}
        skipped = [item.to_dict() for item in self.skipped]
        return plain | {"index": self.index.to_dict(), "skipped": skipped}


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
    if not store.exists(place):
        corpus.refresh()
    return corpus


def open_existing(
    path: str | os.PathLike[str], index_dir: str | os.PathLike[str] | None, settings: Settings
) -> "Corpus":
    """Open an index that must be there."""
    root = checked_root(path)
    place = index_directory(root, settings, index_dir)
    if not store.exists(place):
        raise IndexMissing(root)
    return Corpus(root, place, settings)


def index_directory(root: Path, settings: Settings, given: str | os.PathLike[str] | None) -> Path:
    """Where the index is: as given (relative to where we are), as configured (relative to the root)."""
    if given:
        return Path(given).expanduser().absolute()
    return root / Path(settings.index.directory or INDEX_FOLDER).expanduser()


class Corpus:
    """A root with its index. Safe to use from several threads."""

    def __init__(
        self, root: Path, directory: Path, settings: Settings, progress: Progress | None = None
    ) -> None:
        """Opens nothing yet. `progress` watches the index being made, should the first question need it."""
        self._progress = progress or Silent()
        self.root = root
        self.directory = directory
        self.settings = settings
        self._reader = Reader(directory)
        self._embedders: dict[str, Embedder | None] = {}
        self._reranker: Reranker | None = None  # loaded by the first search that reranks
        self._lock = threading.Lock()
        self.names = given.names_for(root, settings)
        self._penalty = ArchivePenalty.of(settings.archive)
        if settings.model.name:
            check_name(settings.model.name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()

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
        filter: str = "",
        why_not: str | None = None,
        explain: bool = False,
    ) -> Found:
        """Search. `None` means "as configured"; an empty list is the same as none.

        `mmr` prefers passages that differ from those above them.
        `max_hops` is how far links are followed from the best hits; `include_graph_context` lists in
        `Found.graph_context` where they led. `expand_parents` shows the section around each passage.
        `rerank` puts the best in the order of a cross-encoder (`search.rerank_budget_ms` bounds its time).
        `explain` tells of each result where it stood after each stage, and of each stage what it left.
        `why_not` names a file that you expect in the answer; `Found.why_not` then says why it is not.
        """
        names = self.names
        text, typed = parse_query(given.query_text(query), names)
        if not text.strip():
            raise BadQuery("there is nothing to search for", hint="give some words besides the filter")
        stated = typed & parse_filter(given.of_kind(filter, "filter", str), names)
        by_default = self._hides_archived(stated) and not include_patterns  # whose pattern may name them
        hidden = by_default if exclude_archived is None else exclude_archived
        hidden = given.of_kind(hidden, "exclude_archived", bool)
        allowed = filters.all_of(
            (
                stated,
                given.files_filter(names, excluded_files),
                given.patterns_filter(include_patterns, exclude_patterns),
                given.any_value(names, "under", under, "under"),
                given.all_values(names, "tag", tags, "tags"),
                given.any_value(names, "type", chunk_types, "chunk_types"),
                given.any_value(names, "lang", languages, "languages"),
                given.one_value(names, "workspace", workspace),
                given.one_value(names, "author", author),
                given.one_value(names, "category", category),
                given.one_value(names, "after", modified_after),
                given.one_value(names, "before", modified_before),
                ~names.archived if hidden else filters.EVERYTHING,
            )
        )
        usual = self.question(text)
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
        if not store.exists(self.directory):
            self.refresh()
        with self._reader.snapshot() as snapshot:
            embedder = self._embedder(snapshot)
            models = self._models(embedder)
            if embedder is None and question.settings.keyword_weight == 0:
                hint = "raise search.keyword_weight, or use a model"
                raise UsageError("no lane is left to search", hint=hint)
            answer = search(snapshot, question, models)
            found = answers.found(query, question, answer, snapshot, self.root, self.names.archived)
            if why_not is None:
                return found
            return replace(found, why_not=self._why_not(snapshot, question, models, why_not, answer.depth))

    def _why_not(
        self, snapshot: EmbeddedSnapshot, question: Question, models: Models, file: str, depth: int
    ) -> WhyNot:
        wanted = atom("file", (given.of_kind(file, "why_not", str),), self.names)
        indexed = snapshot.documents(wanted)
        if not indexed:
            skipped = {item.path: item for item in store.skipped(snapshot.connection)}
            named = (path for path in skipped if filters.allows(wanted, Facts(path), "", None))
            return survey.why_not_indexed(self.root, self.settings, next(named, file), skipped)
        reasons = [why.why_not(snapshot, question, models, path, depth) for path in indexed]
        return next((reason for reason in reasons if reason.reason == "shown"), reasons[0])

    def refresh(self, progress: Progress | None = None) -> Report:
        """Bring the index up to date with the files, and then the concept vocabulary where it is used."""
        done = build(self.root, self.directory, self.settings, self._load, progress or self._progress)
        self._make_vocabulary(progress)
        return done

    def rebuild(self, progress: Progress | None = None) -> Report:
        """Make the index anew: from a damaged one, with another model, or for a newer format."""
        name = self.settings.model.name or store.model_of(self.directory)
        settings = replace(self.settings, model=replace(self.settings.model, name=name))
        make = partial(build, self.root, self.directory, settings, self._load, progress or self._progress)
        done: Report | None = None
        if self._is_usable():
            with suppress(IndexDamaged):  # deeper than a look shows: then what is there is thrown away
                done = make(rebuild=True)
        done = done or make(discard=True)
        self._make_vocabulary(progress)
        return done

    def _make_vocabulary(self, progress: Progress | None) -> None:
        if self.settings.search.query_expansion_enabled:
            make_vocabulary(self.directory, self.settings, self._load, progress or self._progress)

    def status(self) -> Status:
        with self._reader.snapshot() as snapshot:
            known = store.file_states(snapshot.connection)
            skipped = store.skipped(snapshot.connection)
            state, facts, segments = snapshot.state, snapshot.view.facts, len(snapshot.view.segments)
        check_belongs(self.root, self.directory, facts)
        plan = make_plan(self.root, self.settings, known)
        here = {entry.path for entry in (*plan.changed, *plan.unchanged)}
        unreadable = {item.path for item in skipped}
        return Status(
            root=str(self.root),
            directory=str(self.directory),
            index=state,
            model=str(facts.get("model", "")),
            segments=segments,
            bytes_on_disk=_size(self.directory),
            changed_files=sum(
                entry.path not in unreadable and _differs(entry, known, recipe(self.settings))
                for entry in plan.changed
            ),
            removed_files=sum(path not in here for path in known),
            skipped=skipped,
        )

    def _load(self, name: str) -> Embedder | None:
        with self._lock:
            if name not in self._embedders:
                self._embedders[name] = load_embedder(name, self.settings.model.threads)
            return self._embedders[name]

    def _models(self, embedder: Embedder | None) -> Models:
        if embedder is None:
            return Models(rerank=self._rerank)
        return Models(embedder.embed_query, Logistic(*embedder.related), self._rerank)

    def _rerank(self, query: str, passages: Sequence[str], seconds: float) -> Sequence[float]:
        with self._lock:
            if self._reranker is None:
                name, threads = self.settings.search.rerank_model, self.settings.model.threads
                self._reranker = load_reranker(name, threads, self.root)
        return self._reranker.scores(query, passages, seconds)

    def _embedder(self, snapshot: EmbeddedSnapshot) -> Embedder | None:
        facts = snapshot.view.facts
        check_belongs(self.root, self.directory, facts)
        if "model" not in facts:  # nothing was ever written: there is nothing to search with a model
            return None
        name = model_name(self.settings, facts)
        check_model(self.directory, facts, name)
        if self.settings.search.semantic_weight == 0:
            return None
        embedder = self._load(name)
        check_model(self.directory, facts, name, model_facts(embedder)[1])
        return embedder

    def _is_usable(self) -> bool:
        if not store.exists(self.directory):
            return True
        try:
            with closing(Reader(self.directory)) as reader, reader.snapshot():
                return True
        except IndexForeign:
            raise
        except IndexFault:
            return False


def _size(folder: Path) -> int:
    """Bytes below a folder. A writer may be at work: what goes while we count does not count."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.stat(os.path.join(place, name)).st_size
    return total


def _differs(entry: Entry, known: Mapping[str, store.FileState], wanted: str) -> bool:
    before = known.get(entry.path)
    now = (entry.size, entry.mtime_ns, wanted)
    return before is None or now != (before.size, before.mtime_ns, before.recipe)
