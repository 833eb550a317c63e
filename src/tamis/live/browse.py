"""Read and list documents of an index: passages, lines, facets, links.

Lines come from the file as it is now, and only of documents that the index holds.
"""

import difflib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tamis.corpus import Corpus
from tamis.errors import NotIndexed, UsageError
from tamis.index.protocol import IndexSnapshot
from tamis.ingest.documents.frontmatter import front_matter
from tamis.ingest.documents.markdown import markdown_outline
from tamis.ingest.read import read_inside
from tamis.model import (
    Advice,
    Facts,
    Hint,
    LinkType,
    Parent,
    Passage,
    Plain,
    Skipped,
    chunk_id,
    iso_time,
)
from tamis.query import filters
from tamis.query.filters import EVERYTHING, DocumentIs, Filter
from tamis.query.language import atom, parse_query
from tamis.request import SearchRequest
from tamis.search.question import filter_of
from tamis.text.languages import MARKDOWN, PROSE, extension, language_of
from tamis.text.linking import Directory, named

MOST_NODES = 120  # of a picture: more cannot be read
_SHOWN = 5  # documents that an error names
_WHOLE = 1 << 30  # characters: no indexed document has as many
_TOO_LONG = (Hint("the text is cut", Advice.READ_ON),)
_MOVED = Hint("the file has changed since it was indexed: lines may have moved")


# --- Passages -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Wanted:
    """A passage to read: a chunk and so many neighbours on either side, or lines of a document."""

    chunk_id: str | None = None
    path: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    neighbours: int = 0

    def check(self) -> None:
        """Raise UsageError if the fields contradict each other."""
        first = self.start_line
        last = self.end_line
        has_chunk = self.chunk_id is not None
        has_path = self.path is not None
        has_lines = first is not None or last is not None
        if has_chunk and has_path:
            fault = "chunk_id and path are given"
            hint = "give chunk_id or path, not both"
        elif not has_chunk and not has_path:
            fault = "which passage?"
            hint = "give chunk_id, or path with start_line and end_line"
        elif has_chunk and has_lines:
            fault = "a chunk has its own lines"
            hint = "leave start_line and end_line out, or give path"
        elif has_path and self.neighbours:
            fault = "neighbours are those of a chunk"
            hint = "give chunk_id, or more lines"
        elif first and last and last < first:
            fault = f"end_line {last} is before start_line {first}"
            hint = "swap them"
        else:
            return
        raise UsageError(fault, hint=hint)


@dataclass(frozen=True, slots=True)
class Excerpt(Plain):
    """Lines of a document."""

    path: str
    start_line: int
    end_line: int
    content: str
    header_path: str = ""
    # Where to go on, if the text was too long or the document goes on.
    next_line: int | None = None
    hints: tuple[Hint, ...] = ()


def excerpt(corpus: Corpus, wanted: Wanted, most: int) -> Excerpt:
    """Return at most so many characters of a passage, in whole lines if one fits."""
    wanted.check()
    with corpus.snapshot() as snapshot:
        if wanted.chunk_id is not None:
            return _chunk(corpus, snapshot, wanted.chunk_id, wanted.neighbours, most)
        path = find_document(corpus, snapshot, wanted.path or "")
        passages = passages_of(snapshot, path)
    first = wanted.start_line or 1
    return _lines(corpus, path, first, wanted.end_line, most, passages)


def find_document(corpus: Corpus, snapshot: IndexSnapshot, path: str) -> str:
    """Return the one document of this path or name."""
    found = snapshot.documents(atom("file", (path,), corpus.names))
    if path in found:
        return path
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(found[:_SHOWN])
        if len(found) > _SHOWN:
            shown += ", ..."
        raise UsageError(
            f"{len(found)} documents are called {path}", hint=f"one of {shown}"
        )
    near = difflib.get_close_matches(path, snapshot.documents(EVERYTHING), n=_SHOWN)
    hint = "the status of the index tells what is skipped, and why"
    if near:
        hint = f"did you mean {', '.join(near)}?"
    raise NotIndexed(f"no document {path} is indexed", hint=hint)


def document_text(corpus: Corpus, path: str) -> str:
    """Return the whole text of an indexed document as it is now."""
    text = read_inside(corpus.root, path, corpus.settings.index.max_file_bytes)
    if isinstance(text, Skipped):
        why = f"{text.reason} {text.detail}".rstrip()
        raise UsageError(f"{path} cannot be read: {why}", hint="search again")
    return text


def passages_of(snapshot: IndexSnapshot, path: str) -> list[Passage]:
    """Return the passages of a document, in order."""
    keys = snapshot.keys([path], snapshot.allow(EVERYTHING)).get(path, ())
    found = snapshot.passages(keys)
    return [found[key] for key in keys]


def _chunk(
    corpus: Corpus,
    snapshot: IndexSnapshot,
    chunk_id: str,
    neighbours: int,
    most: int,
) -> Excerpt:
    path, _, number = chunk_id.rpartition("#")
    if not path:
        hint = "one looks like docs/api.md#3; or give path"
        raise UsageError(f"{chunk_id} is no chunk_id", hint=hint)
    path = find_document(corpus, snapshot, path)
    passages = passages_of(snapshot, path)
    found: Passage | Parent | None = None
    digits = number.removeprefix("parent-")
    if digits.isascii() and digits.isdigit() and len(digits) < 10:
        place = (path, int(digits))
        if digits == number:
            here = (each for each in passages if each.ordinal == place[1])
            found = next(here, None)
        else:
            found = snapshot.parents([place]).get(place)
    if found is None:
        hint = "its document has changed: search again, or give path and lines"
        raise NotIndexed(f"there is no passage {chunk_id}", hint=hint)
    start = found.start_line
    end = found.end_line
    header = found.header_path
    if not neighbours:  # as the index holds it, to the letter
        text, count, hints = _cut(found.content.split("\n"), most)
        following = None
        if hints and start + count <= end:
            following = start + count
            end = following - 1
        return Excerpt(path, start, end, text, header, following, hints)
    starts = sorted(each.start_line for each in passages if each.start_line < start)
    ends = sorted(each.end_line for each in passages if each.end_line > end)
    first = min(starts[-neighbours:], default=start)
    last = max(ends[:neighbours], default=end)
    made = _lines(corpus, path, first, last, most, passages)
    hints = made.hints
    first_line = found.content.strip().partition("\n")[0].strip()
    if first_line not in made.content and made.next_line is None:
        hints = (*hints, _MOVED)
    return replace(made, header_path=header, hints=hints)


def _lines(
    corpus: Corpus,
    path: str,
    first: int,
    last: int | None,
    most: int,
    passages: Sequence[Passage],
) -> Excerpt:
    """Return lines of a document; of a notebook its cells, since its own lines are JSON."""
    if path.endswith(".ipynb"):
        return _cells(path, passages, first, last, most)
    lines = document_text(corpus, path).removesuffix("\n").split("\n")
    if first > len(lines):
        hint = f"give a start_line from 1 to {len(lines)}"
        raise UsageError(f"{path} has {len(lines)} lines, not {first}", hint=hint)
    text, count, hints = _cut(lines[first - 1 : last], most)
    following = first + count
    header = ""
    for passage in passages:
        if passage.start_line <= first <= passage.end_line:
            header = passage.header_path
            break
    more = following if following <= len(lines) else None
    return Excerpt(path, first, following - 1, text, header, more, hints)


def _cells(
    path: str,
    passages: Sequence[Passage],
    first: int,
    last: int | None,
    most: int,
) -> Excerpt:
    inside = []
    for passage in passages:
        if passage.end_line >= first and (last is None or passage.start_line <= last):
            inside.append(passage)
    if not inside:
        hint = "give chunk_id, or other lines"
        raise UsageError(f"{path} has nothing to read in these lines", hint=hint)
    text, count, hints = _cut([each.content for each in inside], most, "\n\n")
    start, end = inside[0].start_line, inside[count - 1].end_line
    later = [each.start_line for each in passages if each.start_line > end]
    header = inside[0].header_path
    return Excerpt(path, start, end, text, header, min(later, default=None), hints)


def _cut(
    texts: Sequence[str], most: int, between: str = "\n"
) -> tuple[str, int, tuple[Hint, ...]]:
    """Return as many texts as fit, at least one, their number, and a hint if something is cut."""
    size = count = 0
    for text in texts:
        size += len(text)
        if size > most:
            break
        count += 1
        size += len(between)
    count = max(1, count)
    shown = between.join(texts[:count])
    is_whole = count == len(texts) and len(shown) <= most
    return shown[:most], count, () if is_whole else _TOO_LONG


# --- Lists and counts -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Facets:
    """Number of documents that a filter lets through, and of those that have each value."""

    documents: int
    chunks: int
    counts: Mapping[str, Mapping[str, int]]  # by facet, then by value

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON has them."""
        facets: dict[str, list[dict[str, Any]]] = {}
        for name, counts in self.counts.items():
            facets[name] = []
            for value, count in counts.items():
                facets[name].append({"value": value, "documents": count})
        return {"documents": self.documents, "chunks": self.chunks, "facets": facets}


@dataclass(frozen=True, slots=True)
class Listed(Plain):
    """A document in a list."""

    path: str
    modified: str
    tags: list[str]
    author: str
    category: str
    language: str | None
    is_archived: bool


def _filter(corpus: Corpus, request: SearchRequest) -> Filter:
    """Return the filter of a request; the words of its query do not matter here."""
    typed = parse_query(request.query, corpus.names)[1]
    return filter_of(request, typed, corpus.names, corpus.settings)


def facets(corpus: Corpus, request: SearchRequest) -> Facets:
    """Count documents by tag, type, language, folder, workspace, year, author and category.

    Folders are those just below the deepest one that all documents share.
    """
    with corpus.snapshot() as snapshot:
        allowed = snapshot.allow(_filter(corpus, request))
        types, languages = snapshot.kinds(allowed)
        found = list(snapshot.facts_of(allowed))
    counts: dict[str, Counter[str]] = {
        "tags": Counter(),
        "types": types,
        "languages": languages,
        "folders": _folders([facts.path for facts in found]),
        "workspaces": Counter(),
        "years": Counter(iso_time(facts.modified)[:4] for facts in found),
        "authors": Counter(facts.author for facts in found if facts.author),
        "categories": Counter(facts.category for facts in found if facts.category),
    }
    for facts in found:
        counts["tags"].update(facts.tags)
    for name, folders in corpus.names.workspaces.items():
        workspace = filters.Workspace(name, folders)
        inside = sum(workspace.matches(facts) for facts in found)
        if inside:
            counts["workspaces"][name] = inside
    return Facets(allowed.documents, allowed.chunks, counts)


def added(each: Iterable[Facets]) -> Facets:
    """Add up the facets of some roots; the most frequent value of each comes first."""
    documents = 0
    chunks = 0
    counts: dict[str, Counter[str]] = {}
    for one in each:
        documents += one.documents
        chunks += one.chunks
        for name, values in one.counts.items():
            counts.setdefault(name, Counter()).update(values)
    ranked = {}
    for name, total in counts.items():
        # Of equally frequent values, the first in the alphabet comes first.
        ranked[name] = dict(Counter(dict(sorted(total.items()))).most_common())
    return Facets(documents, chunks, ranked)


def _folders(paths: Sequence[str]) -> Counter[str]:
    folders = [os.path.dirname(path) for path in paths]
    shared = os.path.commonpath(folders or [""])
    counts: Counter[str] = Counter()
    for folder in folders:
        below = folder.removeprefix(shared).lstrip("/")
        if below:
            counts[os.path.join(shared, below.partition("/")[0])] += 1
    return counts


def listed(corpus: Corpus, request: SearchRequest) -> list[Listed]:
    """Return the documents that the filters of a request let through, by path."""
    with corpus.snapshot() as snapshot:
        allowed = snapshot.allow(_filter(corpus, request))
        found = list(snapshot.facts_of(allowed))
    found.sort(key=lambda facts: facts.path)
    documents = []
    for facts in found:
        document = Listed(
            path=facts.path,
            modified=iso_time(facts.modified),
            tags=sorted(facts.tags),
            author=facts.author,
            category=facts.category,
            language=language_of(facts.path),
            is_archived=corpus.names.archived.matches(facts),
        )
        documents.append(document)
    return documents


# --- One document ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Heading(Plain):
    """A line of a document's outline: a heading, or a definition of code."""

    level: int
    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Linked(Plain):
    """The other end of a document's link."""

    path: str
    type: LinkType
    anchor: str


@dataclass(frozen=True, slots=True)
class Part(Plain):
    """The place of a passage in its document."""

    chunk_id: str
    header_path: str
    start_line: int
    end_line: int
    chunk_type: str


@dataclass(frozen=True, slots=True)
class Reading(Plain):
    """A document and everything to know about it."""

    path: str
    title: str
    text: str
    start_line: int  # of the text, which is without the front matter
    language: str | None
    modified: str
    tags: tuple[str, ...]
    author: str
    category: str
    description: str
    is_archived: bool
    outline: tuple[Heading, ...]
    passages: tuple[Part, ...]
    links: tuple[Linked, ...]
    backlinks: tuple[Linked, ...]

    @property
    def is_markdown(self) -> bool:
        """True if the text is Markdown."""
        return extension(self.path) in MARKDOWN


def reading(
    corpus: Corpus, name: str, request: SearchRequest
) -> tuple[Reading, Directory]:
    """Return a document as it is now, and the directory that its links lead to.

    Links are those among the documents that the filters of the request let through.
    """
    narrowing = _filter(corpus, request)
    with corpus.snapshot() as snapshot:
        path = find_document(corpus, snapshot, name)
        facts = next(snapshot.facts_of(snapshot.allow(DocumentIs(path))), Facts(path))
        passages = passages_of(snapshot, path)
        edges = snapshot.links([path], snapshot.allow(narrowing | DocumentIs(path)))
        # The best target of a link among these is the best of all.
        aliases = snapshot.aliases(sorted({edge.target for edge in edges}))
    title, text, description, start = path, "", "", 0
    if passages:
        title = passages[0].title
        text = excerpt(corpus, Wanted(path=path), _WHOLE).content
    if extension(path) in MARKDOWN:
        front, start, _ = front_matter(text)
        if front:
            description = front.description
    links = []
    backlinks = []
    for edge in edges:
        if edge.source == path:
            links.append(Linked(edge.target, edge.type, edge.anchor))
        if edge.target == path:
            backlinks.append(Linked(edge.source, edge.type, edge.anchor))
    parts = []
    for passage in passages:
        part = Part(
            chunk_id(path, passage.ordinal),
            passage.header_path,
            passage.start_line,
            passage.end_line,
            passage.chunk_type,
        )
        parts.append(part)
    document = Reading(
        path=path,
        title=title,
        text=text[start:],
        start_line=text.count("\n", 0, start) + 1,
        language=language_of(path),
        modified=iso_time(facts.modified),
        tags=tuple(sorted(facts.tags)),
        author=facts.author,
        category=facts.category,
        description=description,
        is_archived=corpus.names.archived.matches(facts),
        outline=tuple(_outline(path, text, start, passages)),
        passages=tuple(parts),
        links=tuple(dict.fromkeys(links)),
        backlinks=tuple(dict.fromkeys(backlinks)),
    )
    return document, Directory(named(*each) for each in aliases.items())


def _outline(
    path: str,
    text: str,
    start: int,
    passages: Sequence[Passage],
) -> list[Heading]:
    outline = []
    if extension(path) in MARKDOWN:
        for heading in markdown_outline(text, start).headings:
            line = text.count("\n", 0, heading.place) + 1
            outline.append(Heading(heading.level, heading.name, line))
    elif extension(path) in PROSE:
        lines: dict[str, int] = {}  # where each section begins
        for passage in passages:
            if passage.header_path:
                lines.setdefault(passage.header_path, passage.start_line)
        for trail, line in sorted(lines.items(), key=lambda each: each[1]):
            names = trail.split(" > ")
            outline.append(Heading(len(names), names[-1], line))
    else:
        for passage in passages:
            if passage.chunk_type == "definitions" and passage.names:
                name = passage.names[0]
                outline.append(Heading(1 + name.count("."), name, passage.start_line))
    return outline


# --- Links ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Node(Plain):
    """A document in a picture of links."""

    path: str
    hops: int  # from the middle
    links: int  # number of documents it is linked with, shown or not


@dataclass(frozen=True, slots=True)
class Line(Plain):
    """A line in a picture of links: all links of one type from a document to another."""

    source: str
    target: str
    type: LinkType


@dataclass(frozen=True, slots=True)
class Graph(Plain):
    """The documents that are linked with one, up to a number of hops."""

    around: str
    nodes: tuple[Node, ...]
    edges: tuple[Line, ...]
    left_out: int  # documents as near that are not shown: there were too many


def graph(corpus: Corpus, name: str, hops: int, request: SearchRequest) -> Graph:
    """Return the documents that links lead to or from, among those that the filters let through."""
    narrowing = _filter(corpus, request)
    with corpus.snapshot() as snapshot:
        around = find_document(corpus, snapshot, name)
        allowed = snapshot.allow(narrowing | DocumentIs(around))
        reached = {around: 0}
        front = [around]
        left_out = 0
        for hop in range(1, hops + 1):
            new: set[str] = set()
            for edge in snapshot.links(front, allowed):
                new.update((edge.source, edge.target))
            new -= set(reached)
            degrees = snapshot.degrees(sorted(new), allowed)
            ranked = sorted(new, key=lambda path: (-degrees[path], path))
            front = ranked[: MOST_NODES - len(reached)]
            left_out += len(ranked) - len(front)
            reached |= dict.fromkeys(front, hop)
        degrees = snapshot.degrees(list(reached), allowed)
        lines = []
        for edge in snapshot.links(list(reached), allowed):
            if edge.source in reached and edge.target in reached:
                lines.append(Line(edge.source, edge.target, edge.type))
    nodes = tuple(Node(path, hop, degrees[path]) for path, hop in reached.items())
    return Graph(around, nodes, tuple(dict.fromkeys(lines)), left_out)
