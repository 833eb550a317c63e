"""Looking round in an index: which documents a filter lets through, what one says, how they are linked.

The law holds here too: counts, lists and links are those of an index that never held the rest.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tamis import filters
from tamis.arguments import Narrowing
from tamis.corpus import Corpus
from tamis.engine import Edge, Holding
from tamis.filters import DocumentIs, Filter
from tamis.ingest.frontmatter import front_matter
from tamis.ingest.links import document_target
from tamis.ingest.markdown import markdown_outline
from tamis.languages import MARKDOWN, PROSE, extension, language_of
from tamis.links import Directory, named
from tamis.model import Facts, Link, LinkType, Passage, Plain, chunk_id, iso_time
from tamis.passages import Wanted, excerpt, find_document, passages_of
from tamis.query import parse_query

MOST_NODES: Final = 120  # of a picture: more is a hairball
_WHOLE: Final = 1 << 30  # characters: no document that is indexed has as many


@dataclass(frozen=True, slots=True)
class Facets:
    """How many documents a filter lets through, and how many of them have each value."""

    documents: int
    chunks: int
    counts: dict[str, dict[str, int]]  # by facet, then by value; the most frequent first

    def to_dict(self) -> dict[str, Any]:
        return {
            "documents": self.documents,
            "chunks": self.chunks,
            "facets": {
                name: [{"value": value, "documents": count} for value, count in counts.items()]
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
        found = (self.directory.resolve(Link(kind, *target), self.path) for kind in kinds) if target else ()
        return next((path for path in found if path is not None), None)

    def to_dict(self) -> dict[str, Any]:
        apart = ("outline", "passages", "links", "backlinks", "directory", "tags")
        plain = {name: getattr(self, name) for name in self.__slots__ if name not in apart}
        lists = {name: [each.to_dict() for each in getattr(self, name)] for name in apart[2:4]}
        outline = [each.to_dict() for each in self.outline]
        passages = [_place(each) for each in self.passages]
        return plain | lists | {"outline": outline, "passages": passages, "tags": list(self.tags)}


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
        edges = dict.fromkeys((each.source, each.target, each.type) for each in self.edges)
        return {
            "around": self.around,
            "nodes": [node.to_dict() for node in self.nodes],
            "edges": [dict(zip(("source", "target", "type"), each, strict=True)) for each in edges],
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
    workspaces = {name: filters.Workspace(name, of) for name, of in corpus.names.workspaces.items()}
    counts = {
        "tags": Counter(tag for facts in found for tag in facts.tags),
        "types": types,
        "languages": languages,
        "folders": _folders([facts.path for facts in found]),
        "workspaces": Counter(n for n, w in workspaces.items() for facts in found if w.matches(facts)),
        "years": Counter(_year(facts.modified) for facts in found),
        "authors": Counter(facts.author for facts in found if facts.author),
        "categories": Counter(facts.category for facts in found if facts.category),
    }
    return Facets(allowed.documents, allowed.chunks, {name: _ranked(each) for name, each in counts.items()})


def added(each: Sequence[Facets]) -> Facets:
    """Of several roots together."""
    counts: dict[str, Counter[str]] = {}
    for one in each:
        for name, values in one.counts.items():
            counts.setdefault(name, Counter()).update(values)
    ranked = {name: _ranked(values) for name, values in counts.items()}
    return Facets(sum(one.documents for one in each), sum(one.chunks for one in each), ranked)


def _ranked(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def _year(modified: float) -> str:
    return iso_time(modified)[:4]


def _folders(paths: Sequence[str]) -> Counter[str]:
    folders = [path.rpartition("/")[0] for path in paths]
    shared = os.path.commonpath(folders) if folders and all(folders) else ""
    start = len(shared) + 1 if shared else 0
    below = (folder[start:].split("/")[0] for folder in folders if len(folder) > len(shared))
    return Counter(f"{shared}/{name}" if shared else name for name in below)


def listed(corpus: Corpus, filter: Filter) -> list[Listed]:
    """The documents that a filter lets through, by path."""
    with corpus.snapshot() as snapshot:
        found = sorted(snapshot.facts_of(snapshot.allow(filter)), key=lambda facts: facts.path)
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
    front, start, _ = front_matter(text) if extension(path) in MARKDOWN else (None, 0, "")
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
    each = ((edge.source if back else edge.target, edge.type, edge.anchor) for edge in edges)
    return tuple(Linked(*end) for end in dict.fromkeys(each))


def _place(passage: Passage) -> dict[str, Any]:
    names = ("header_path", "start_line", "end_line", "chunk_type")
    plain = {name: getattr(passage, name) for name in names}
    return {"chunk_id": chunk_id(passage.path, passage.ordinal)} | plain


def _outline(path: str, text: str, start: int, passages: Sequence[Passage]) -> list[Heading]:
    if extension(path) in MARKDOWN:
        found = markdown_outline(text, start).headings
        return [Heading(each.level, each.name, text.count("\n", 0, each.place) + 1) for each in found]
    if extension(path) in PROSE:
        trails = {each.header_path: each.start_line for each in reversed(passages) if each.header_path}
        ordered = sorted(trails.items(), key=lambda each: each[1])
        return [Heading(trail.count(" > ") + 1, trail.rsplit(" > ")[-1], line) for trail, line in ordered]
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
            new = sorted({end for edge in edges for end in (edge.source, edge.target)} - set(reached))
            degrees = snapshot.degrees(new, allowed)
            new.sort(key=lambda path: (-degrees[path], path))
            front = new[: MOST_NODES - len(reached)]
            left_out += len(new) - len(front)
            reached |= dict.fromkeys(front, hop)
        paths = list(reached)
        degrees = snapshot.degrees(paths, allowed)
        edges = [e for e in snapshot.links(paths, allowed) if e.source in reached and e.target in reached]
    nodes = tuple(Node(path, hop, degrees[path]) for path, hop in reached.items())
    return Graph(around, nodes, tuple(edges), left_out)
