"""Reading what a search has found: a passage by its id, or lines of a document, with what stands around.

Lines come from the file as it is now, of documents that the index holds and of no others.
"""

import difflib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final

from tamis.corpus import Corpus
from tamis.errors import NotIndexed, UsageError
from tamis.index.protocol import Edge, Holding
from tamis.ingest.documents.frontmatter import front_matter
from tamis.ingest.documents.links import document_target
from tamis.ingest.documents.markdown import markdown_outline
from tamis.ingest.read import read_inside
from tamis.model import (
    Facts,
    Link,
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
from tamis.request import Narrowing
from tamis.text.languages import MARKDOWN, PROSE, extension, language_of
from tamis.text.linking import Directory, named

_SHOWN: Final = 5  # documents that an error names
_PARENT: Final = "parent-"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which passage: a chunk with so many neighbours on either side, or lines of a document."""

    chunk_id: str | None = None
    path: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    neighbours: int = 0


@dataclass(frozen=True, slots=True)
class Excerpt(Plain):
    path: str
    start_line: int
    end_line: int
    content: str
    header_path: str = ""
    next_line: int | None = (
        None  # where to go on: the text was too long, or the document goes on
    )
    hints: tuple[str, ...] = ()


def excerpt(corpus: Corpus, wanted: Wanted, most: int) -> Excerpt:
    """At most so many characters of it, whole lines where one fits."""
    _check(wanted)
    with corpus.snapshot() as snapshot:
        if wanted.chunk_id is not None:
            return _chunk(corpus, snapshot, wanted.chunk_id, wanted.neighbours, most)
        path = find_document(corpus, snapshot, wanted.path or "")
        passages = passages_of(snapshot, path)
    return _between(
        corpus, path, wanted.start_line or 1, wanted.end_line, most, passages
    )


def _check(wanted: Wanted) -> None:
    if wanted.chunk_id is not None and wanted.path is not None:
        raise UsageError(
            "chunk_id and path are given", hint="give chunk_id or path, not both"
        )
    if wanted.chunk_id is None and wanted.path is None:
        raise UsageError(
            "which passage?", hint="give chunk_id, or path with start_line and end_line"
        )
    lines = (wanted.start_line, wanted.end_line)
    if wanted.chunk_id is not None and lines != (None, None):
        raise UsageError(
            "a chunk has its own lines",
            hint="leave start_line and end_line out, or give path",
        )
    if wanted.path is not None and wanted.neighbours:
        raise UsageError(
            "neighbours are those of a chunk", hint="give chunk_id, or more lines"
        )
    if wanted.start_line and wanted.end_line and wanted.end_line < wanted.start_line:
        raise UsageError(
            f"end_line {wanted.end_line} is before start_line {wanted.start_line}",
            hint="swap them",
        )


def find_document(corpus: Corpus, snapshot: Holding, path: str) -> str:
    """The one document that a path or a name stands for."""
    found = snapshot.documents(atom("file", (path,), corpus.names))
    if path in found:
        return path
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{len(found)} documents are called {path}", hint=f"one of {_some(found)}"
        )
    near = difflib.get_close_matches(path, snapshot.documents(EVERYTHING), n=_SHOWN)
    hint = (
        f"did you mean {_some(near)}?"
        if near
        else "index_status tells what is skipped, and why"
    )
    raise NotIndexed(f"no document {path} is indexed", hint=hint)


def _some(paths: list[str]) -> str:
    return ", ".join(paths[:_SHOWN]) + (", ..." if len(paths) > _SHOWN else "")


def document_text(corpus: Corpus, path: str) -> str:
    """The whole text of a document that the index holds, as it is now."""
    text = read_inside(corpus.root, path, corpus.settings.index.max_file_bytes)
    if isinstance(text, Skipped):
        raise UsageError(
            f"{path} cannot be read: {text.reason} {text.detail}".rstrip(),
            hint="search again",
        )
    return text


def passages_of(snapshot: Holding, path: str) -> dict[int, Passage]:
    """Of a document, in order."""
    keys = snapshot.keys([path], snapshot.allow(EVERYTHING)).get(path, ())
    found = snapshot.passages(keys)
    return {found[key].ordinal: found[key] for key in keys}


def _chunk(
    corpus: Corpus, snapshot: Holding, chunk_id: str, neighbours: int, most: int
) -> Excerpt:
    path, _, number = chunk_id.rpartition("#")
    if not path:
        raise UsageError(
            f"{chunk_id} is no chunk_id",
            hint="one looks like docs/api.md#3; or give path",
        )
    path = find_document(corpus, snapshot, path)
    passages = passages_of(snapshot, path)
    found = _numbered(snapshot, path, number, passages)
    if found is None:
        hint = "its document has changed: search again, or give path and lines"
        raise NotIndexed(f"there is no passage {chunk_id}", hint=hint)
    if not neighbours:
        return _alone(path, found, most)
    made = _between(corpus, path, *_around(found, passages, neighbours), most, passages)
    moved = _first_line(found.content) not in made.content and made.next_line is None
    hints = (*made.hints, *((_MOVED,) if moved else ()))
    return replace(made, header_path=found.header_path, hints=hints)


_MOVED: Final = "the file has changed since it was indexed: lines may have moved"


def _first_line(content: str) -> str:
    return content.strip().split("\n", 1)[0].strip()


def _numbered(
    snapshot: Holding, path: str, number: str, passages: Mapping[int, Passage]
) -> Passage | Parent | None:
    digits = number.removeprefix(_PARENT)
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        return None
    if number.startswith(_PARENT):
        return snapshot.parents([(path, int(digits))]).get((path, int(digits)))
    return passages.get(int(digits))


def _around(
    found: Passage | Parent, passages: Mapping[int, Passage], neighbours: int
) -> tuple[int, int]:
    before = [
        each.start_line
        for each in passages.values()
        if each.start_line < found.start_line
    ]
    after = [
        each.end_line for each in passages.values() if each.end_line > found.end_line
    ]
    first = sorted(before)[-neighbours:]
    last = sorted(after)[:neighbours]
    return (first or [found.start_line])[0], (last or [found.end_line])[-1]


def _alone(path: str, found: Passage | Parent, most: int) -> Excerpt:
    """As it is in the index, to the letter."""
    if len(found.content) <= most:
        return Excerpt(
            path, found.start_line, found.end_line, found.content, found.header_path
        )
    lines = found.content.split("\n")
    count = _fitting(lines, most)
    last = min(found.start_line + count - 1, found.end_line)
    following = last + 1 if last < found.end_line else None
    return Excerpt(
        path,
        found.start_line,
        last,
        "\n".join(lines[:count])[:most],
        found.header_path,
        following,
        _TOO_LONG,
    )


_TOO_LONG: Final = ("cut: raise max_tokens, or go on with path and start_line",)


def _between(
    corpus: Corpus,
    path: str,
    first: int,
    last: int | None,
    most: int,
    passages: Mapping[int, Passage],
) -> Excerpt:
    """These lines of a document; of a notebook the cells in them, since its own lines are JSON."""
    if path.endswith(".ipynb"):
        return _cells(path, [*passages.values()], first, last, most)
    lines = document_text(corpus, path).removesuffix("\n").split("\n")
    if first > len(lines):
        hint = f"give a start_line from 1 to {len(lines)}"
        raise UsageError(f"{path} has {len(lines)} lines, not {first}", hint=hint)
    wanted = lines[first - 1 : last]
    count = _fitting(wanted, most)
    text, end = "\n".join(wanted[:count]), first + count - 1
    header = next(
        (
            p.header_path
            for p in passages.values()
            if p.start_line <= first <= p.end_line
        ),
        "",
    )
    is_cut = count < len(wanted) or len(text) > most
    following = end + 1 if end < len(lines) else None
    return Excerpt(
        path, first, end, text[:most], header, following, _TOO_LONG if is_cut else ()
    )


def _cells(
    path: str, passages: list[Passage], first: int, last: int | None, most: int
) -> Excerpt:
    inside = [
        p
        for p in passages
        if p.end_line >= first and (last is None or p.start_line <= last)
    ]
    if not inside:
        raise UsageError(
            f"{path} has nothing to read in these lines",
            hint="give chunk_id, or other lines",
        )
    count = _fitting([f"{each.content}\n" for each in inside], most)
    shown = inside[:count]
    text = "\n\n".join(each.content for each in shown)
    is_cut = count < len(inside) or len(text) > most
    after = [
        each.start_line for each in passages if each.start_line > shown[-1].end_line
    ]
    lines = shown[0].start_line, shown[-1].end_line
    following, hints = min(after, default=None), _TOO_LONG if is_cut else ()
    return Excerpt(path, *lines, text[:most], shown[0].header_path, following, hints)


def _fitting(texts: Sequence[str], most: int) -> int:
    """How many of them fit, a line each; the first does always, if only with its beginning."""
    sizes = accumulate(len(text) + 1 for text in texts)
    return max(1, sum(size <= most + 1 for size in sizes))


MOST_NODES: Final = 120  # of a picture: more is a hairball
_WHOLE: Final = 1 << 30  # characters: no document that is indexed has as many


@dataclass(frozen=True, slots=True)
class Facets:
    """How many documents a filter lets through, and how many of them have each value."""

    documents: int
    chunks: int
    counts: dict[
        str, dict[str, int]
    ]  # by facet, then by value; the most frequent first

    def to_dict(self) -> dict[str, Any]:
        return {
            "documents": self.documents,
            "chunks": self.chunks,
            "facets": {
                name: [
                    {"value": value, "documents": count}
                    for value, count in counts.items()
                ]
                for name, counts in self.counts.items()
            },
        }


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


@dataclass(frozen=True, slots=True)
class Heading(Plain):
    """A line of a document's outline: a heading, or what code defines."""

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
class Reading:
    """A document, and what there is to know about it."""

    path: str
    title: str
    text: str
    start_line: int  # of the text: front matter is told apart from it
    language: str | None
    modified: str
    tags: tuple[str, ...]
    author: str
    category: str
    description: str
    is_archived: bool
    outline: tuple[Heading, ...]
    passages: tuple[Passage, ...]
    links: tuple[Linked, ...]
    backlinks: tuple[Linked, ...]
    directory: Directory  # of what its links lead to

    @property
    def is_markdown(self) -> bool:
        return extension(self.path) in MARKDOWN

    def leads_to(self, url: str) -> str | None:
        """What document a link of this one means, as rendered HTML has it; wiki links look like others."""
        target = document_target(url)
        kinds: tuple[LinkType, ...] = ("markdown", "wikilink")
        found = (
            (self.directory.resolve(Link(kind, *target), self.path) for kind in kinds)
            if target
            else ()
        )
        return next((path for path in found if path is not None), None)

    def to_dict(self) -> dict[str, Any]:
        apart = ("outline", "passages", "links", "backlinks", "directory", "tags")
        plain = {
            name: getattr(self, name) for name in self.__slots__ if name not in apart
        }
        lists = {
            name: [each.to_dict() for each in getattr(self, name)]
            for name in apart[2:4]
        }
        outline = [each.to_dict() for each in self.outline]
        passages = [_place(each) for each in self.passages]
        return (
            plain
            | lists
            | {"outline": outline, "passages": passages, "tags": list(self.tags)}
        )


@dataclass(frozen=True, slots=True)
class Node(Plain):
    """A document in a picture of links."""

    path: str
    hops: int  # from the middle
    links: int  # with how many documents it is linked, shown or not


@dataclass(frozen=True, slots=True)
class Graph:
    """What is linked with a document, as far as was asked."""

    around: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    left_out: int  # documents that are as near and not shown: there were too many

    def to_dict(self) -> dict[str, Any]:
        edges = dict.fromkeys(
            (each.source, each.target, each.type) for each in self.edges
        )
        return {
            "around": self.around,
            "nodes": [node.to_dict() for node in self.nodes],
            "edges": [
                dict(zip(("source", "target", "type"), each, strict=True))
                for each in edges
            ],
            "left_out": self.left_out,
        }


def filter_for(corpus: Corpus, narrowing: Narrowing, query: str = "") -> Filter:
    """The filter of a question, whose words do not matter here."""
    return corpus.allowed(narrowing, parse_query(query, corpus.names)[1])


def facets(corpus: Corpus, filter: Filter) -> Facets:
    """Counts by tag, type, language, folder, workspace, year, author and category. Each counts documents.

    Folders are those just below the deepest one that all the documents share.
    """
    with corpus.snapshot() as snapshot:
        allowed = snapshot.allow(filter)
        types, languages = snapshot.kinds(allowed)
        found = list(snapshot.facts_of(allowed))
    workspaces = {
        name: filters.Workspace(name, of)
        for name, of in corpus.names.workspaces.items()
    }
    counts = {
        "tags": Counter(tag for facts in found for tag in facts.tags),
        "types": types,
        "languages": languages,
        "folders": _folders([facts.path for facts in found]),
        "workspaces": Counter(
            n for n, w in workspaces.items() for facts in found if w.matches(facts)
        ),
        "years": Counter(_year(facts.modified) for facts in found),
        "authors": Counter(facts.author for facts in found if facts.author),
        "categories": Counter(facts.category for facts in found if facts.category),
    }
    return Facets(
        allowed.documents,
        allowed.chunks,
        {name: _ranked(each) for name, each in counts.items()},
    )


def added(each: Sequence[Facets]) -> Facets:
    """Of several roots together."""
    counts: dict[str, Counter[str]] = {}
    for one in each:
        for name, values in one.counts.items():
            counts.setdefault(name, Counter()).update(values)
    ranked = {name: _ranked(values) for name, values in counts.items()}
    return Facets(
        sum(one.documents for one in each), sum(one.chunks for one in each), ranked
    )


def _ranked(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def _year(modified: float) -> str:
    return iso_time(modified)[:4]


def _folders(paths: Sequence[str]) -> Counter[str]:
    folders = [path.rpartition("/")[0] for path in paths]
    shared = os.path.commonpath(folders) if folders and all(folders) else ""
    start = len(shared) + 1 if shared else 0
    below = (
        folder[start:].split("/")[0] for folder in folders if len(folder) > len(shared)
    )
    return Counter(f"{shared}/{name}" if shared else name for name in below)


def listed(corpus: Corpus, filter: Filter) -> list[Listed]:
    """The documents that a filter lets through, by path."""
    with corpus.snapshot() as snapshot:
        found = sorted(
            snapshot.facts_of(snapshot.allow(filter)), key=lambda facts: facts.path
        )
    return [_listed(facts, corpus) for facts in found]


def _listed(facts: Facts, corpus: Corpus) -> Listed:
    return Listed(
        path=facts.path,
        modified=iso_time(facts.modified),
        tags=sorted(facts.tags),
        author=facts.author,
        category=facts.category,
        language=language_of(facts.path),
        is_archived=corpus.names.archived.matches(facts),
    )


# --- One document ---------------------------------------------------------------------------


def reading(corpus: Corpus, name: str, filter: Filter) -> Reading:
    """A document as it is now, with its links among those that the filter lets through."""
    with corpus.snapshot() as snapshot:
        path = find_document(corpus, snapshot, name)
        facts = next(snapshot.facts_of(snapshot.allow(DocumentIs(path))), Facts(path))
        passages = tuple(passages_of(snapshot, path).values())
        edges = snapshot.links([path], snapshot.allow(filter | DocumentIs(path)))
        directory = _directory(snapshot, edges)
    text = excerpt(corpus, Wanted(path=path), _WHOLE).content if passages else ""
    front, start, _ = (
        front_matter(text) if extension(path) in MARKDOWN else (None, 0, "")
    )
    return Reading(
        path=path,
        title=passages[0].title if passages else path,
        text=text[start:],
        start_line=text.count("\n", 0, start) + 1,
        language=language_of(path),
        modified=iso_time(facts.modified),
        tags=tuple(sorted(facts.tags)),
        author=facts.author,
        category=facts.category,
        description=front.description if front else "",
        is_archived=corpus.names.archived.matches(facts),
        outline=tuple(_outline(path, text, start, passages)),
        passages=passages,
        links=_ends(edge for edge in edges if edge.source == path),
        backlinks=_ends((edge for edge in edges if edge.target == path), back=True),
        directory=directory,
    )


def _directory(snapshot: Holding, edges: Sequence[Edge]) -> Directory:
    """Of a document's links, what each leads to is the best of these: it is the best of all."""
    found = snapshot.aliases(sorted({edge.target for edge in edges}))
    return Directory(named(path, aliases) for path, aliases in found.items())


def _ends(edges: Iterable[Edge], *, back: bool = False) -> tuple[Linked, ...]:
    each = (
        (edge.source if back else edge.target, edge.type, edge.anchor) for edge in edges
    )
    return tuple(Linked(*end) for end in dict.fromkeys(each))


def _place(passage: Passage) -> dict[str, Any]:
    names = ("header_path", "start_line", "end_line", "chunk_type")
    plain = {name: getattr(passage, name) for name in names}
    return {"chunk_id": chunk_id(passage.path, passage.ordinal)} | plain


def _outline(
    path: str, text: str, start: int, passages: Sequence[Passage]
) -> list[Heading]:
    if extension(path) in MARKDOWN:
        found = markdown_outline(text, start).headings
        return [
            Heading(each.level, each.name, text.count("\n", 0, each.place) + 1)
            for each in found
        ]
    if extension(path) in PROSE:
        trails = {
            each.header_path: each.start_line
            for each in reversed(passages)
            if each.header_path
        }
        ordered = sorted(trails.items(), key=lambda each: each[1])
        return [
            Heading(trail.count(" > ") + 1, trail.rsplit(" > ")[-1], line)
            for trail, line in ordered
        ]
    return [
        Heading(1 + name.count("."), name, each.start_line)
        for each in passages
        if each.chunk_type == "definitions"
        for name in each.names[:1]
    ]


# --- Links ----------------------------------------------------------------------------------


def graph(corpus: Corpus, name: str, hops: int, filter: Filter) -> Graph:
    """The documents that links lead to from one, either way, among those that the filter lets through."""
    with corpus.snapshot() as snapshot:
        around = find_document(corpus, snapshot, name)
        allowed = snapshot.allow(filter | DocumentIs(around))
        reached, front, left_out = {around: 0}, [around], 0
        for hop in range(1, hops + 1):
            edges = snapshot.links(front, allowed)
            new = sorted(
                {end for edge in edges for end in (edge.source, edge.target)}
                - set(reached)
            )
            degrees = snapshot.degrees(new, allowed)
            new.sort(key=lambda path: (-degrees[path], path))
            front = new[: MOST_NODES - len(reached)]
            left_out += len(new) - len(front)
            reached |= dict.fromkeys(front, hop)
        paths = list(reached)
        degrees = snapshot.degrees(paths, allowed)
        edges = [
            e
            for e in snapshot.links(paths, allowed)
            if e.source in reached and e.target in reached
        ]
    nodes = tuple(Node(path, hop, degrees[path]) for path, hop in reached.items())
    return Graph(around, nodes, tuple(edges), left_out)
