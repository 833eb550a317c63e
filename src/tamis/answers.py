"""From the pipeline's answer to what a door shows."""

from collections.abc import Iterator
from pathlib import Path

from tamis import filters
from tamis.engine import Snapshot
from tamis.filters import Archived
from tamis.model import Candidate, Facts, Found, Result, chunk_id, doc_id, iso_time
from tamis.search.pipeline import Answer, Question


def found(
    query: str, question: Question, answer: Answer, snapshot: Snapshot, root: Path, archived: Archived
) -> Found:
    return Found(
        query=query,
        filter="" if question.filter == filters.EVERYTHING else str(question.filter),
        query_type=answer.query_type,
        results=tuple(_result(candidate, root, archived) for candidate in answer.candidates),
        stats=_stats(answer, snapshot.state.documents),
        timings_ms=dict(answer.timings_ms),
        index=snapshot.state,
        hints=(*_hints(question, answer, snapshot), *_missing_folders(question, root)),
    )


def _result(candidate: Candidate, root: Path, archived: Archived) -> Result:
    passage = candidate.passage
    return Result(
        chunk_id=chunk_id(passage.path, passage.ordinal),
        doc_id=doc_id(passage.path),
        file_path=str(root / passage.path),
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
        is_archived=archived.matches(Facts(passage.path)),
        parent_chunk_id=None,
        modified=iso_time(passage.modified),
        evidence=candidate.evidence,
        boosts=dict(candidate.boosts),
    )


def _stats(answer: Answer, documents: int) -> dict[str, int]:
    """The counts under the names that the contract has; a stage that is not there changes none."""
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


def _hints(question: Question, answer: Answer, snapshot: Snapshot) -> tuple[str, ...]:
    state = snapshot.state
    hints = []
    if not state.documents and state.built_at == iso_time(0.0):
        hints.append("the first indexing run has not finished (run: tamis index)")
    elif not state.documents:
        hints.append("the index is empty: no text files were found (see: tamis status)")
    elif not answer.allowed.documents:
        hints.append("the filter lets no document through")
        tags = [each for each in filters.atoms(question.filter) if isinstance(each, filters.Tag)]
        unused = [tag.name for tag in tags if not snapshot.allow(tag).documents]
        hints += [f"no document has the tag {name}" for name in unused]
    if state.pending_files:
        hints.append(f"indexing has not finished: {state.pending_files} files are missing (run: tamis index)")
    return tuple(hints)


def _missing_folders(question: Question, root: Path) -> Iterator[str]:
    """A workspace may name folders that are not there (yet): no fault, but worth knowing."""
    for each in filters.atoms(question.filter):
        if isinstance(each, filters.Workspace):
            missing = [folder for folder in each.directories if not (root / folder).is_dir()]
            yield from (f"the workspace {each.name} has no folder {folder} here" for folder in missing)
