"""An open corpus: a root, its index and its model, ready to be asked. What every door holds.

Raw arguments become a `Question` here, once; the pipeline's answer becomes a `Found`.
"""

import os
import threading
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from tamis import filters
from tamis.build import Progress, build, check_model, ignore_options, make_plan, model_facts, model_name
from tamis.engine.embedded import store
from tamis.engine.embedded.reader import EmbeddedSnapshot, Reader
from tamis.errors import BadFilter, BadQuery, BadSetting, IndexDamaged, IndexFault, IndexMissing, UsageError
from tamis.filters import Filter
from tamis.ingest.ignore import explain
from tamis.ingest.read import Source, read
from tamis.ingest.walk import INDEX_FOLDER, checked_root, describe
from tamis.model import (
    Candidate,
    Facts,
    Found,
    IndexState,
    Report,
    Result,
    Skipped,
    WhyNot,
    chunk_id,
    doc_id,
    iso_time,
)
from tamis.models.embed import Embedder, check_name, load_embedder
from tamis.query import Names, atom, directory, parse_filter, parse_query, path_atom
from tamis.search import why
from tamis.search.boost import ArchivePenalty
from tamis.search.pipeline import Answer, Embed, Question, search
from tamis.settings import Settings, load

_LONGEST_QUERY: Final = (
    20_000  # characters; models read some two thousand, words lanes gain nothing from more
)
_LARGEST_LIMIT: Final = 100
_MOST_VALUES: Final = 10_000  # in one list of files, patterns or tags


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
        skipped = [{"path": s.path, "reason": s.reason, "detail": s.detail} for s in self.skipped]
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
    corpus = Corpus(root, place, chosen)
    if not (place / "index.db").exists():
        corpus.refresh(progress)
    return corpus


def open_existing(
    path: str | os.PathLike[str], index_dir: str | os.PathLike[str] | None, settings: Settings
) -> "Corpus":
    """Open an index that must be there."""
    root = checked_root(path)
    place = index_directory(root, settings, index_dir)
    if not (place / "index.db").exists():
        raise IndexMissing(root)
    return Corpus(root, place, settings)


def index_directory(root: Path, settings: Settings, given: str | os.PathLike[str] | None) -> Path:
    chosen = given or settings.index.directory
    return Path(chosen).expanduser().absolute() if chosen else root / INDEX_FOLDER


class Corpus:
    """A root with its index. Safe to use from several threads."""

    def __init__(self, root: Path, directory: Path, settings: Settings) -> None:
        self.root = root
        self.directory = directory
        self.settings = settings
        self._reader = Reader(directory)
        self._embedders: dict[str, Embedder | None] = {}
        self._lock = threading.Lock()
        self.names = Names(
            root=str(root),
            workspaces=_workspace_folders(root, settings),
            archived=_archived(settings),
            resolve=os.path.realpath,
        )
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
        filter: str = "",
        why_not: str | None = None,
    ) -> Found:
        """Search. `None` means "as configured"; an empty list is the same as none.

        `why_not` names a file that you expect in the answer; `Found.why_not` then says why it is not.
        """
        _refuse({"rerank": rerank, "mmr": mmr, "expand_parents": expand_parents, "max_hops": max_hops})
        text, typed = parse_query(_checked_text(query), self.names)
        if not text.strip():
            raise BadQuery("there is nothing to search for", hint="give some words besides the filter")
        stated = typed & parse_filter(_checked(filter, "filter", str), self.names)
        defaults = self.settings.search
        hidden = defaults.exclude_archived if exclude_archived is None else exclude_archived
        # A filter that speaks of archived documents itself decides about them itself.
        hidden = hidden and not include_patterns and self.names.archived not in filters.atoms(stated)
        allowed = filters.all_of(
            (
                stated,
                *self._without_files(excluded_files),
                *_pattern_terms(include_patterns, exclude_patterns),
                *self._any("under", under, "under"),
                *self._each("tag", tags, "tags"),
                *self._any("type", chunk_types, "chunk_types"),
                *self._any("lang", languages, "languages"),
                *self._single("workspace", workspace),
                *self._single("author", author),
                *self._single("category", category),
                *self._single("after", modified_after),
                *self._single("before", modified_before),
                *([~self.names.archived] if hidden else []),
            )
        )
        per_document = defaults.max_chunks_per_doc if max_chunks_per_doc is None else max_chunks_per_doc
        question = Question(
            text=text,
            filter=allowed,
            limit=_checked_limit(defaults.limit if limit is None else limit),
            min_score=_checked_score(defaults.min_confidence if min_score is None else min_score),
            max_chunks_per_doc=1 if unique else per_document,
            settings=defaults,
            archive=self._penalty,
        )
        return self.ask(query, question, why_not)

    def ask(self, query: str, question: Question, why_not: str | None = None) -> Found:
        """Answer a complete question."""
        with self._reader.snapshot() as snapshot:
            embedder = self._embedder(snapshot)
            embed = embedder.embed_query if embedder else None
            found = self._found(query, question, search(snapshot, question, embed), snapshot)
            if why_not is None:
                return found
            return replace(found, why_not=self._why_not(snapshot, question, embed, why_not))

    def _why_not(
        self, snapshot: EmbeddedSnapshot, question: Question, embed: Embed | None, given: str
    ) -> WhyNot:
        wanted = atom("file", (_checked(given, "why_not", str),), self.names)
        indexed = snapshot.documents(wanted)
        if not indexed:
            return self._why_not_indexed(snapshot, given)
        reasons = [why.why_not(snapshot, question, embed, path) for path in indexed]
        return next((reason for reason in reasons if reason.reason == "shown"), reasons[0])

    def _why_not_indexed(self, snapshot: EmbeddedSnapshot, given: str) -> WhyNot:
        file = os.path.realpath(self.root / given)
        inside = os.path.relpath(file, self.root)
        if inside.startswith(".."):
            return WhyNot(given, "outside the root", f"the root is {self.root}")
        verdict = explain(self.root, ignore_options(self.settings), inside)
        if verdict.ignored:
            return WhyNot(inside, "ignored", describe(verdict))
        skipped = {item.path: item for item in store.skipped(snapshot.connection)}
        if inside in skipped:
            return WhyNot(inside, "skipped", f"{skipped[inside].reason} {skipped[inside].detail}".strip())
        if os.path.exists(file):
            return WhyNot(inside, "not indexed", "it came after the last indexing (run: tamis index)")
        return WhyNot(inside, "no such file")

    def refresh(self, progress: Progress | None = None) -> Report:
        """Bring the index up to date with the files."""
        return build(self.root, self.directory, self.settings, self._load, progress or Silent())

    def rebuild(self, progress: Progress | None = None) -> Report:
        """Make the index anew: from a damaged one, with another model, or for a newer format."""
        make = partial(build, self.root, self.directory, self.settings, self._load, progress or Silent())
        if self._is_usable():
            with suppress(IndexDamaged):  # deeper than a look shows: then what is there is thrown away
                return make(rebuild=True)
        return make(discard=True)

    def status(self) -> Status:
        with self._reader.snapshot() as snapshot:
            known = store.file_states(snapshot.connection)
            skipped = store.skipped(snapshot.connection)
            state, facts, segments = snapshot.state, snapshot.view.facts, len(snapshot.view.segments)
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
                entry.path not in unreadable and _differs(entry, known) for entry in plan.changed
            ),
            removed_files=sum(path not in here for path in known),
            skipped=skipped,
        )

    def _load(self, name: str) -> Embedder | None:
        with self._lock:
            if name not in self._embedders:
                self._embedders[name] = load_embedder(name, self.settings.model.threads)
            return self._embedders[name]

    def _embedder(self, snapshot: EmbeddedSnapshot) -> Embedder | None:
        facts = dict(snapshot.view.facts)
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
        if not (self.directory / "index.db").exists():
            return True
        try:
            with closing(Reader(self.directory)) as reader, reader.snapshot():
                return True
        except IndexFault:
            return False

    def _found(self, query: str, question: Question, answer: Answer, snapshot: EmbeddedSnapshot) -> Found:
        documents = snapshot.state.documents
        return Found(
            query=query,
            filter="" if question.filter == filters.EVERYTHING else str(question.filter),
            query_type=answer.query_type,
            results=tuple(self._result(candidate) for candidate in answer.candidates),
            stats=_stats(answer, documents),
            timings_ms=dict(answer.timings_ms),
            index=snapshot.state,
            hints=_hints(question, answer, snapshot),
        )

    def _result(self, candidate: Candidate) -> Result:
        passage = candidate.passage
        return Result(
            chunk_id=chunk_id(passage.path, passage.ordinal),
            doc_id=doc_id(passage.path),
            file_path=str(self.root / passage.path),
            path=passage.path,
            start_line=passage.start_line,
            end_line=passage.end_line,
            header_path=passage.header_path,
            content=passage.content,
            score=candidate.score,
            raw_score=candidate.raw_score,
            chunk_type=passage.chunk_type,
            language=passage.language,
            tags=passage.tags,
            is_archived=self.names.archived.matches(Facts(passage.path)),
            parent_chunk_id=None,
            modified=iso_time(passage.modified),
            evidence=candidate.evidence,
            boosts=dict(candidate.boosts),
        )

    def _single(self, key: str, value: str | None) -> list[Filter]:
        return [] if value is None else [atom(key, (_checked(value, key, str),), self.names)]

    def _any(self, key: str, values: Sequence[str], name: str) -> list[Filter]:
        alternatives = self._each(key, values, name)
        return [filters.any_of(alternatives)] if alternatives else []

    def _each(self, key: str, values: Sequence[str], name: str) -> list[Filter]:
        return [atom(key, (value,), self.names) for value in _checked_list(values, name)]

    def _without_files(self, values: Sequence[str]) -> list[Filter]:
        names = _checked_list(values, "excluded_files")
        return [~atom("file", names, self.names)] if names else []


def _pattern_terms(include: Sequence[str], exclude: Sequence[str]) -> list[Filter]:
    included = _checked_list(include, "include_patterns")
    excluded = _checked_list(exclude, "exclude_patterns")
    return [
        *([path_atom(included)] if included else []),
        *([~path_atom(excluded)] if excluded else []),
    ]


def _archived(settings: Settings) -> filters.Archived:
    try:
        return filters.Archived(settings.archive.patterns)
    except ValueError as error:
        raise BadSetting(f"archive.patterns: {error}", hint="write them as in a .gitignore file") from error


def _workspace_folders(root: Path, settings: Settings) -> dict[str, tuple[str, ...]]:
    names = Names(root=str(root), resolve=os.path.realpath)
    try:
        return {
            name: tuple(directory(folder, names) for folder in folders)
            for name, folders in settings.workspaces.items()
        }
    except BadFilter as error:
        raise BadSetting(f"workspaces: {error.message}", hint=error.hint) from error


def _size(folder: Path) -> int:
    """Bytes below a folder. A writer may be at work: what goes while we count does not count."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.stat(os.path.join(place, name)).st_size
    return total


def _differs(entry: Any, known: dict[str, store.FileState]) -> bool:
    before = known.get(entry.path)
    return before is None or (entry.size, entry.mtime_ns) != (before.size, before.mtime_ns)


def _stats(answer: Answer, documents: int) -> dict[str, int]:
    funnel = answer.funnel
    return {
        "original_count": funnel["fused"],
        "after_threshold": funnel["threshold"],
        "after_content_dedup": funnel["same text"],
        "after_ngram_dedup": funnel["same text"],
        "after_dedup": funnel["same text"],
        "after_doc_limit": funnel["per document"],
        "clusters_merged": 0,
        "eligible_documents": answer.allowed.documents,
        "excluded_documents": documents - answer.allowed.documents,
        "scanned_chunks": answer.scanned,
    }


def _hints(question: Question, answer: Answer, snapshot: EmbeddedSnapshot) -> tuple[str, ...]:
    state = snapshot.state
    hints = []
    if not state.documents:
        hints.append("the index is empty: no text files were found (see: tamis status)")
    elif not answer.allowed.documents:
        hints.append("the filter lets no document through")
        tags = [each for each in filters.atoms(question.filter) if isinstance(each, filters.Tag)]
        unused = [tag.name for tag in tags if not snapshot.allow(tag).documents]
        hints += [f"no document has the tag {name}" for name in unused]
    if state.pending_files:
        hints.append(f"indexing has not finished: {state.pending_files} files are missing (run: tamis index)")
    return tuple(hints)


def _checked(value: object, name: str, kind: type) -> Any:
    if not isinstance(value, kind):
        raise UsageError(
            f"{name} must be {kind.__name__}, not {type(value).__name__}", hint="check the argument"
        )
    return value


def _checked_text(query: object) -> str:
    text: str = _checked(query, "query", str)
    if len(text) > _LONGEST_QUERY:
        raise BadQuery(
            f"the query has {len(text):,} characters, at most {_LONGEST_QUERY:,} are allowed",
            hint="shorten it to what you are looking for",
        )
    if not text.strip():
        raise BadQuery("the query is empty", hint="give some words to search for")
    return text.encode("utf-8", "replace").decode("utf-8")


def _checked_list(values: object, name: str) -> tuple[str, ...]:
    """A list of texts. One text alone is taken for a list of one: agents send both."""
    if values is None:
        return ()
    items = (values,) if isinstance(values, str) else values
    if not isinstance(items, list | tuple | set | frozenset) or not all(
        isinstance(item, str) for item in items
    ):
        raise UsageError(f"{name} must be a list of texts", hint=f'for example: {name}=["docs/api.md"]')
    if len(items) > _MOST_VALUES:
        raise UsageError(f"{name} has {len(items):,} entries", hint=f"at most {_MOST_VALUES:,} are allowed")
    return tuple(items)


def _checked_limit(limit: object) -> int:
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= _LARGEST_LIMIT:
        raise UsageError(f"limit is {limit!r}", hint=f"allowed: 1 to {_LARGEST_LIMIT}")
    return limit


def _checked_score(score: object) -> float:
    if not isinstance(score, int | float) or isinstance(score, bool) or not 0 <= score <= 1:
        raise UsageError(f"min_score is {score!r}", hint="allowed: 0 to 1")
    return float(score)


def _refuse(asked: dict[str, bool | int | None]) -> None:
    """These belong to the contract; until they are built, saying so beats ignoring them."""
    for name, value in asked.items():
        if value:
            raise UsageError(f"{name} is not part of this version", hint=f"leave {name} out")


def survey(root: Path, settings: Settings) -> tuple[list[str], list[Skipped]]:
    """What an indexing run would take and what it would leave out. Writes nothing."""
    plan = make_plan(root, settings, {})
    outcomes = [read(entry, settings.index.max_file_bytes) for entry in plan.changed]
    taken = [outcome.path for outcome in outcomes if isinstance(outcome, Source)]
    left_out = [*plan.skipped, *(outcome for outcome in outcomes if isinstance(outcome, Skipped))]
    return taken, sorted(left_out, key=lambda item: item.path)


def explain_paths(
    root: str | os.PathLike[str], settings: Settings, paths: Sequence[str]
) -> list[dict[str, Any]]:
    """For each path: is it ignored, is it archived, and which rule from which file and line decided."""
    folder = checked_root(root)
    archived = _archived(settings)
    return [_explained(folder, settings, archived, path) for path in paths]


def _explained(root: Path, settings: Settings, archived: filters.Archived, path: str) -> dict[str, Any]:
    verdict = explain(root, ignore_options(settings), path)
    inside = os.path.relpath(root / path, root).replace(os.sep, "/")
    return {
        "path": path,
        "ignored": verdict.ignored,
        "archived": not verdict.ignored and archived.matches(Facts(inside)),
        "rule": verdict.rule.pattern if verdict.rule else None,
        "source": verdict.rule.source if verdict.rule else None,
        "line": verdict.rule.line if verdict.rule else None,
    }
