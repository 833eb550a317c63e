"""Make the answer that every door shows from the answer of the pipeline."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tamis.index.protocol import Snapshot
from tamis.model import (
    Advice,
    Candidate,
    Facts,
    Found,
    Hint,
    IndexState,
    Parent,
    Passage,
    Place,
    Related,
    Result,
    Step,
    chunk_id,
    doc_id,
    iso_time,
    parent_id,
)
from tamis.query import filters
from tamis.query.filters import Archived
from tamis.search.links import Reached
from tamis.search.question import Answer, Question

_LIKELY = 0.3  # most answers whose best score is below it are none


def found(
    query: str,
    question: Question,
    answer: Answer,
    snapshot: Snapshot,
    root: Path,
    archived: Archived,
) -> Found:
    """Return the answer as every door shows it."""
    context = funnel = None
    if question.graph_context:
        context = tuple(_related(each) for each in answer.neighbours)
    if question.explain:
        times = answer.timings_ms
        left = answer.funnel.items()
        funnel = tuple(Step(name, n, times.get(name, 0.0)) for name, n in left)
    filter_text = ""
    if question.filter != filters.EVERYTHING:
        filter_text = str(question.filter)
    results = []
    for candidate in answer.candidates:
        results.append(_result(candidate, question, answer, root, archived))
    return Found(
        query=query,
        filter=filter_text,
        query_type=answer.query_type,
        results=tuple(results),
        stats=_stats(answer, snapshot.state.documents),
        timings_ms=dict(answer.timings_ms),
        index=snapshot.state,
        hints=tuple(_hints(question, answer, snapshot, root)),
        graph_context=context,
        funnel=funnel,
        expansion=answer.wording.expansion,
        synonyms=answer.wording.synonyms,
    )


def _related(reached: Reached) -> Related:
    neighbour = reached.neighbour
    passage = reached.passage
    return Related(
        path=neighbour.path,
        chunk_id=chunk_id(passage.path, passage.ordinal),
        header_path=passage.header_path,
        hops=neighbour.hops,
        score=neighbour.score,
        link=neighbour.edge.type,
        source=neighbour.edge.source,
        target=neighbour.edge.target,
    )


def _result(
    candidate: Candidate,
    question: Question,
    answer: Answer,
    root: Path,
    archived: Archived,
) -> Result:
    """Return a candidate as it is shown: with parents, by the section around it."""
    passage = candidate.passage
    path = passage.path
    shown: Passage | Parent = passage
    shown_id = chunk_id(path, passage.ordinal)
    section_id = matched_lines = None
    if passage.parent is not None:
        section_id = parent_id(path, passage.parent)
        section = answer.parents.get((path, passage.parent))
        if section is not None:
            shown = section
            shown_id = section_id
            matched_lines = (passage.start_line, passage.end_line)
    also_in = []
    for each in candidate.duplicates:
        other = each.passage
        # Lines of the text that is shown are no other place.
        apart = other.end_line < shown.start_line or shown.end_line < other.start_line
        if apart or other.path != path:
            also_in.append(Place(other.path, other.start_line, other.end_line))
    return Result(
        chunk_id=shown_id,
        doc_id=doc_id(path),
        file_path=str(root / path),
        path=path,
        start_line=shown.start_line,
        end_line=shown.end_line,
        header_path=shown.header_path,
        content=shown.content,
        # Cut here only: a boost or a penalty must not change the order.
        score=min(candidate.score, 1.0),
        raw_score=candidate.raw_score,
        chunk_type=passage.chunk_type,
        language=passage.language,
        tags=_tags(passage),
        is_archived=archived.matches(Facts(path)),
        parent_chunk_id=section_id,
        modified=iso_time(passage.modified),
        evidence=candidate.evidence,
        boosts=dict(candidate.boosts),
        matched_lines=matched_lines,
        score_source=candidate.score_source if question.rerank else None,
        also_in=tuple(also_in),
        places=_places(passage, answer) if question.explain else None,
    )


def _tags(passage: Passage) -> tuple[str, ...]:
    """Return the tags of a passage: those of its document and, for code, its kind and language."""
    if passage.chunk_type == "documentation":
        return passage.tags
    implied = [passage.language, passage.chunk_type]
    if passage.chunk_type != "data":
        implied.insert(0, "code")
    own = [tag for tag in implied if tag and tag not in passage.tags]
    return (*passage.tags, *own)


def _places(passage: Passage, answer: Answer) -> dict[str, int]:
    """Return the rank of a passage after the fusion, and after every stage that moved it."""
    places: dict[str, int] = {}
    last = 0
    for stage, candidates in answer.trace.items():
        order = [candidate.passage.position for candidate in candidates]
        rank = order.index(passage.position) + 1
        if rank != last:
            places[stage] = rank
            last = rank
    return places


def _stats(answer: Answer, documents: int) -> dict[str, int]:
    """Return the counts under the names that scripts rely on; a missing stage changes none."""
    funnel = answer.funnel
    return {
        "original_count": funnel["fused"],
        "after_threshold": funnel["threshold"],
        "after_content_dedup": funnel["overlap"],
        "after_ngram_dedup": funnel["near text"],
        "after_dedup": funnel["same meaning"],
        "after_doc_limit": funnel["per document"],
        "after_rerank": funnel["rerank"],
        "after_parent_expansion": funnel["parents"],
        "reranked": answer.reranked[0],
        "clusters_merged": funnel["near text"] - funnel["same meaning"],
        "eligible_documents": answer.allowed.documents,
        "excluded_documents": documents - answer.allowed.documents,
        "scanned_chunks": answer.scanned,
    }


def _hints(
    question: Question, answer: Answer, snapshot: Snapshot, root: Path
) -> Iterator[Hint]:
    state = snapshot.state
    if not state.documents and state.built_at == iso_time(0.0):
        yield Hint("the first indexing run has not finished", Advice.INDEX)
    elif not state.documents:
        fact = "the index is empty: no text files were found"
        yield Hint(fact, Advice.STATUS)
    elif not answer.allowed.documents:
        yield Hint("the filter lets no document through", about="filter")
        for each in filters.atoms(question.filter):
            if isinstance(each, filters.Tag) and not snapshot.allow(each).documents:
                yield Hint(f"no document has the tag {each.name}", about="filter")
    if question.parents and answer.candidates and not answer.parents:
        yield Hint(_no_sections(question))
    if question.graph_context and not question.max_hops:
        yield Hint("links were not followed: max_hops is 0")
    done, wanted = answer.reranked
    if done < wanted:
        budget = f"{question.weights.rerank_budget_ms} ms"
        yield Hint(f"{done} of {wanted} candidates were reranked within {budget}")
    yield from _confidence(question, answer)
    if not answer.wording.has_vocabulary and answer.allowed.chunks:
        fact = "the question was not expanded: the concept vocabulary is not ready"
        yield Hint(fact, Advice.INDEX)
    for each in filters.atoms(question.filter):
        if isinstance(each, filters.Workspace):
            for folder in each.directories:
                # No fault: the folder may come later.
                if not (root / folder).is_dir():
                    yield Hint(f"the workspace {each.name} has no folder {folder} here")


def hints_of_all(found: Mapping[str, Found]) -> tuple[Hint, ...]:
    """Merge the hints of several roots: those that hold for some roots only name them."""
    answers = found.values()
    if len(answers) == 1:
        return next(iter(answers)).hints
    # A filter is to blame only if it holds back every root that has documents.
    holding = [one for one in answers if one.index.documents]
    # Nothing is likely only if no root has a likely answer; then the best score counts.
    unlikely = []
    for one in answers:
        unlikely += [hint for hint in one.hints if hint.about == "likelihood"]
    all_unlikely = len(unlikely) == sum(bool(one.results) for one in answers)
    hints: list[Hint] = []
    for name, one in found.items():
        for hint in one.hints:
            if all(hint in other.hints for other in answers):
                hints.append(hint)
            elif hint.about == "filter":
                if all(hint in other.hints for other in holding):
                    hints.append(hint)
            elif hint.about == "likelihood":
                if all_unlikely:
                    hints.append(max(unlikely, key=lambda each: each.fact))
            else:
                fact = f"{name}: {hint.fact}"
                hints.append(Hint(fact, hint.advice, hint.about))
    return tuple(dict.fromkeys(hints))


def unfinished(question: Question, state: IndexState) -> Iterator[Hint]:
    """Yield hints on the work that the last run left undone."""
    if state.pending_files:
        fact = f"indexing has not finished: {state.pending_files} files are missing"
        yield Hint(fact, Advice.INDEX)
    if state.pending_chunks and question.settings.semantic_weight:
        known = f"{state.chunks - state.pending_chunks} of {state.chunks} passages"
        fact = f"found by words more than by meaning: {known} have vectors so far"
        yield Hint(fact, Advice.INDEX)


def _confidence(question: Question, answer: Answer) -> Iterator[Hint]:
    """Yield hints if no result is likely an answer, or if the threshold dropped some.

    A cross-encoder's scores are its own: no threshold applies to them.
    """
    dropped = answer.funnel["fused"] - answer.funnel["threshold"]
    best = max((min(each.score, 1.0) for each in answer.candidates), default=1.0)
    by_rerank = any(each.score_source == "rerank" for each in answer.candidates)
    if dropped and len(answer.candidates) < question.limit:
        were = "passage was" if dropped == 1 else "passages were"
        fact = f"{dropped} {were} left out for a score below {question.min_score:g}"
        yield Hint(fact, Advice.SHOW_MORE)
    if not question.min_score and best < _LIKELY and not by_rerank:
        fact = f"nothing here is likely to answer this: the best score is {best:.2f}"
        yield Hint(fact, Advice.SHOW_LIKELY, about="likelihood")


def _no_sections(question: Question) -> str:
    for each in filters.atoms(question.filter):
        if isinstance(each, filters.CHUNK_ATOMS):
            return "sections are shown only of documents that the filter allows whole"
    return "this index has no sections to show: set chunking.parents = true, then run: tamis index"
