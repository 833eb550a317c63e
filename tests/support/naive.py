"""The oracle: an engine without an index.

It answers the `Snapshot` protocol by looking at every row, one after the other, in plain Python: a
filter is read for each row by itself, a BM25F score is the formula written out, the nearest rows
are a full sort over exact sums, and a link is held against every document (`naive_links.py`).
Nothing here calls the engine, the filter's own `matches`, or the pattern matcher. What it takes from
tamis is what the engine is handed, too: parsed documents, their vectors, the tokenizers, and the
constants of the formula.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.naive_links import Rank, fits
from tamis.index.embedded.words import K1, WORD_FIELDS, B
from tamis.index.protocol import EVENLY, Allowed, Concept, Edge, Hit, LaneAsk
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.model import Chunk, Document, IndexState, Lane, Link, Parent, Passage
from tamis.models.hashing import HashingEmbedder
from tamis.query import filters as f
from tamis.settings import ChunkingSettings, Settings
from tamis.text.identifiers import definitions, identifiers, spoken
from tamis.text.languages import (
    KNOWN_EXTENSIONS,
    MARKDOWN,
    extension,
    without_known_extension,
)
from tamis.text.words import concepts, tag_name, words

Parse = Callable[[Source, ChunkingSettings], tuple[Document, str]]
CODE_LENGTH = {"symbols": 4.0, "path": 12.0, "code": 150.0}


@dataclass(frozen=True)
class Row:
    """One chunk with its document and its vector."""

    key: int
    document: Document
    chunk: Chunk
    vector: tuple[float, ...]

    @property
    def position(self) -> tuple[str, int]:
        return (self.document.path, self.chunk.ordinal)


class NaiveSnapshot:
    """All rows in a list."""

    def __init__(self, rows: Sequence[Row], boosts: Mapping[str, float]) -> None:
        self.rows = list(rows)
        self.boosts = boosts
        self.by_key = {row.key: row for row in rows}
        self.documents = {row.document.path: row.document for row in rows}
        self.terms = {row.key: _word_terms(row) for row in rows}
        self.code_terms = {row.key: _code_terms(row) for row in rows}

    @property
    def state(self) -> IndexState:
        return IndexState(0, len(self.documents), len(self.rows), 0, "")

    def allow(self, filter: f.Filter) -> Allowed:
        return self._allowed(
            row for row in self.rows if lets_through(filter, row.document, row.chunk)
        )

    def within(self, paths: Sequence[str], allowed: Allowed) -> Allowed:
        rows = (self.by_key[key] for key in allowed.rows)
        return self._allowed(row for row in rows if row.document.path in paths)

    def _allowed(self, rows: Iterable[Row]) -> Allowed:
        kept = list(rows)
        documents = {row.document.path for row in kept}
        return Allowed(frozenset(row.key for row in kept), len(kept), len(documents))

    def lanes(
        self, asks: Sequence[LaneAsk], allowed: Allowed, depth: int
    ) -> Mapping[Lane, Sequence[Hit]]:
        found: dict[Lane, Sequence[Hit]] = {}
        for ask in asks:
            if ask.vector is not None:
                found[ask.lane] = self._meaning(ask.vector, allowed, depth)
            elif ask.lane == "words":
                found[ask.lane] = self._bm25f(
                    self.terms, WORD_FIELDS, ask.terms, allowed, depth, ask.weights
                )
            else:
                found[ask.lane] = self._bm25f(
                    self.code_terms, CODE_LENGTH, ask.terms, allowed, depth
                )
        return found

    def _meaning(
        self, query: NDArray[np.float32], allowed: Allowed, depth: int
    ) -> Sequence[Hit]:
        asked = [float(number) for number in query]
        scores = {key: _dot(self.by_key[key].vector, asked) for key in allowed.rows}
        return self._best(scores, depth)

    def concepts(
        self,
        query: NDArray[np.float32],
        allowed: Allowed,
        depth: int,
        floor: int,
        most: int,
    ) -> Sequence[Concept]:
        having = Counter(term for key in allowed.rows for term in self.concepts_in[key])
        often = sorted(
            (term for term in having if having[term] >= floor),
            key=lambda t: (-having[t], t),
        )
        asked = [float(number) for number in query]
        near = {term: _dot(_rounded(term), asked) for term in often[:most]}
        order = sorted(near, key=lambda term: (-near[term], term))
        return [Concept(term, near[term]) for term in order[:depth]]

    @cached_property
    def concepts_in(self) -> dict[int, set[str]]:
        return {row.key: concepts(row.chunk.content) for row in self.rows}

    def _bm25f(
        self,
        rows: "Terms",
        usual: Mapping[str, float],
        terms: Sequence[str],
        allowed: Allowed,
        depth: int,
        weights: Mapping[str, float] = EVENLY,
    ) -> Sequence[Hit]:
        having = {
            term: [
                key
                for key in allowed.rows
                if any(term in field for field in rows[key].values())
            ]
            for term in terms
        }
        scores: dict[int, float] = {}
        for term, keys in having.items():
            rarity = math.log(
                1 + (len(allowed.rows) - len(keys) + 0.5) / (len(keys) + 0.5)
            )
            for key in keys:
                worth = (
                    self.posting(rows[key], usual, term)
                    * rarity
                    * weights.get(term, 1.0)
                )
                scores[key] = scores.get(key, 0.0) + worth
        return self._best(
            {key: score for key, score in scores.items() if score > 0}, depth
        )

    def posting(
        self, fields: Mapping[str, Counter[str]], usual: Mapping[str, float], term: str
    ) -> float:
        """What a term is worth in a row, before its rarity."""
        weight = 0.0
        for field, counts in fields.items():
            length = sum(counts.values())
            norm = 1 - B + B * length / usual[field]
            weight += self.boosts[field] * counts[term] / norm if length else 0.0
        return weight * (K1 + 1) / (weight + K1)

    def vectors(self, positions: Sequence[tuple[str, int]]) -> NDArray[np.float32]:
        by_position = {row.position: row.vector for row in self.rows}
        return np.array([by_position[position] for position in positions], np.float32)

    def coverage(
        self,
        terms: Sequence[str],
        positions: Sequence[tuple[str, int]],
        allowed: Allowed,
    ) -> Sequence[float]:
        has = {row.position: self._searchable(row) for row in self.rows}
        within = [has[self.by_key[key].position] for key in allowed.rows]
        rarity = {}
        for term in terms:
            count = sum(term in words for words in within)
            rarity[term] = math.log(1 + (len(within) - count + 0.5) / (count + 0.5))
        whole = sum(rarity.values())
        return [
            sum(rarity[term] for term in terms if term in has[at]) / whole
            if whole
            else 0.0
            for at in positions
        ]

    def _searchable(self, row: Row) -> set[str]:
        """The terms of the fields that count for anything."""
        return {
            term
            for field, counts in self.terms[row.key].items()
            if self.boosts[field]
            for term in counts
        }

    def links(self, paths: Sequence[str], allowed: Allowed) -> Sequence[Edge]:
        kept = {self.by_key[key].position for key in allowed.rows}
        present = {path for path, _ in kept}
        edges = set()
        for source, link, ranks in self.references:
            if source not in present or (
                link.ordinal is not None and (source, link.ordinal) not in kept
            ):
                continue
            target = next((rank.path for rank in ranks if rank.path in present), source)
            if target != source and (source in paths or target in paths):
                edges.add(Edge(source, target, link.type, link.anchor, link.ordinal))
        return sorted(edges, key=repr)

    def degrees(self, paths: Sequence[str], allowed: Allowed) -> Mapping[str, int]:
        ends = [{edge.source, edge.target} for edge in self.links(paths, allowed)]
        return {
            path: len(set().union(*(pair for pair in ends if path in pair)) - {path})
            for path in paths
        }

    @cached_property
    def references(self) -> list[tuple[str, Link, list[Rank]]]:
        """Every link with the documents that fit it, best first. A filter only strikes some of them out."""
        documents = list(self.documents.values())
        return [
            (document.path, link, fits(link, document.path, documents))
            for document in documents
            for link in document.links
        ]

    def keys(
        self, paths: Sequence[str], allowed: Allowed
    ) -> Mapping[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        for row in sorted(self.rows, key=lambda row: row.position):
            if row.key in allowed.rows and row.document.path in paths:
                found[row.document.path] = (*found.get(row.document.path, ()), row.key)
        return found

    def parents(
        self, wanted: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], Parent]:
        return {
            (path, number): self.documents[path].parents[number]
            for path, number in wanted
        }

    def passages(self, keys: Sequence[int]) -> Mapping[int, Passage]:
        return {key: _passage(self.by_key[key]) for key in keys}

    def _best(self, scores: Mapping[int, float], depth: int) -> list[Hit]:
        order = sorted(
            scores, key=lambda key: (-scores[key], self.by_key[key].position)
        )
        return [Hit(key, scores[key]) for key in order[:depth]]


def naive_snapshot(
    root: Path, settings: Settings, parse: Parse = parse
) -> NaiveSnapshot:
    """The rows of all files below a root, hidden ones aside."""
    rows: list[Row] = []
    embedder = HashingEmbedder()
    for document in read_documents(root, settings, parse):
        texts = [_embedded_text(document.title, chunk) for chunk in document.chunks]
        vectors = embedder.embed_passages(texts)
        for chunk, vector in zip(document.chunks, vectors, strict=True):
            rows.append(
                Row(3 * len(rows) + 5, document, chunk, tuple(float(x) for x in vector))
            )
    return NaiveSnapshot(
        rows,
        {
            field: settings.weights.fields[field]
            for field in (*WORD_FIELDS, *CODE_LENGTH)
        },
    )


def read_documents(
    root: Path, settings: Settings, parse: Parse = parse
) -> list[Document]:
    inside = [
        (file.relative_to(root), file) for file in root.rglob("*") if file.is_file()
    ]
    visible = [
        (path, file) for path, file in inside if not path.parts[0].startswith(".")
    ]
    documents = []
    for path, file in sorted(visible, key=lambda item: item[0].as_posix()):
        status = file.stat()
        text = file.read_text(encoding="utf-8")
        source = Source(
            path.as_posix(), text, b"", status.st_size, status.st_mtime_ns, 0, 0, 0
        )
        documents.append(parse(source, settings.chunking)[0])
    return documents


def pruned(document: Document, filter: f.Filter) -> Document:
    """What a filter leaves of a document, numbered anew: the reference for filters that split files.

    A section holds what the filter keeps out, so a document that is cut has none.
    """
    kept = kept_ordinals(document, filter)
    if len(kept) < len(document.chunks):
        alone = tuple(replace(chunk, parent=None) for chunk in document.chunks)
        document = replace(document, chunks=alone, parents=())
    place: dict[int | None, int | None] = {
        None: None,
        **{old: new for new, old in enumerate(kept)},
    }
    chunks = [chunk for chunk in document.chunks if chunk.ordinal in kept]
    links = [link for link in document.links if kept and link.ordinal in place]
    return replace(
        document,
        chunks=tuple(replace(chunk, ordinal=new) for new, chunk in enumerate(chunks)),
        links=tuple(replace(link, ordinal=place[link.ordinal]) for link in links),
    )


def kept_ordinals(document: Document, filter: f.Filter) -> list[int]:
    """What the chunks of a pruned document were called before: their new number is their place here."""
    return [
        chunk.ordinal
        for chunk in document.chunks
        if lets_through(filter, document, chunk)
    ]


def _embedded_text(title: str, chunk: Chunk) -> str:
    trail = chunk.header_path.split(" > ") if chunk.header_path else []
    if " > ".join(trail[: title.count(" > ") + 1]) != title:
        trail = [title, *trail]
    return " > ".join(trail) + "\n\n" + chunk.content


def _rounded(term: str) -> list[float]:
    """A term's vector, in 16 bits a number."""
    return [
        float(number)
        for number in HashingEmbedder().embed_passages([term])[0].astype(np.float16)
    ]


def _dot(row: Sequence[float], query: Sequence[float]) -> float:
    """A product of two float32 is exact in float64, and fsum rounds once: the true sum, to the last bit."""
    return math.fsum(a * b for a, b in zip(row, query, strict=True))


Terms = Mapping[int, Mapping[str, Counter[str]]]


def _word_terms(row: Row) -> dict[str, Counter[str]]:
    front = row.document.front
    texts = {
        "title": row.document.title,
        "headers": f"{row.chunk.header_path} {spoken(row.chunk.names)}",
        "keywords": " ".join(front.keywords),
        "description": front.description,
        "tags": " ".join(front.tags),
        "aliases": " ".join(front.aliases),
        "author": front.author,
        "category": front.category,
        "body": row.chunk.content,
    }
    return {field: Counter(words(text)) for field, text in texts.items()}


def _code_terms(row: Row) -> dict[str, Counter[str]]:
    path, chunk = row.document.path, row.chunk
    name = path.split("/")[-1]
    texts = {
        "symbols": " ".join(chunk.names),
        "path": f"{path} {name} {without_known_extension(name)}",
        "code": _code_of_prose(chunk.content)
        if chunk.chunk_type == "documentation"
        else chunk.content,
    }
    terms = {field: Counter(identifiers(text)) for field, text in texts.items()}
    terms["symbols"].update(definitions(chunk.names))
    return terms


def _backticked(text: str) -> str:
    """What stands between single backticks on one line of prose, sign by sign."""
    found, place = [], 0
    while (start := text.find("`", place)) >= 0:
        end = text.find("`", start + 1)
        inside = text[start + 1 : end] if end > 0 else ""
        single = text[start - 1 : start] != "`" and text[end + 1 : end + 2] != "`"
        is_code = inside and "\n" not in inside and single
        found += [inside] if is_code else []
        place = end + 1 if is_code else start + 1
    return " ".join(found)


def _code_of_prose(text: str) -> str:
    """Backticks, and single letters with two pluses or a hash behind that stand by themselves."""
    signed = [
        text[at : at + size]
        for at in range(len(text))
        for size, sign in ((3, "++"), (2, "#"))
        if text[at].isascii()
        and text[at].isalpha()
        and text[at + 1 : at + size] == sign
        if not (
            text[at - 1 : at] == "_"
            or text[at - 1 : at] == "`"
            or text[at - 1 : at].isalnum()
        )
        if not (
            text[at + size : at + size + 1] in ("_", "`")
            or text[at + size : at + size + 1].isalnum()
        )
    ]
    return " ".join([_backticked(text), *signed])


def _passage(row: Row) -> Passage:
    document, chunk = row.document, row.chunk
    return Passage(
        path=document.path,
        ordinal=chunk.ordinal,
        content=chunk.content,
        content_hash=sha256(" ".join(chunk.content.split()).encode()).digest(),
        header_path=chunk.header_path,
        start_line=chunk.start_line,
        end_line=chunk.end_line,
        chunk_type=chunk.chunk_type,
        language=chunk.language,
        modified=document.modified,
        tags=document.front.tags,
        names=chunk.names,
        parent=chunk.parent,
        title=document.title,
    )


# --- What a filter means, for one row --------------------------------------------------------------


def lets_through(filter: f.Filter, document: Document, chunk: Chunk) -> bool:
    front, path = document.front, document.path
    match filter:
        case f.And(terms):
            return all(lets_through(term, document, chunk) for term in terms)
        case f.Or(terms):
            return any(lets_through(term, document, chunk) for term in terms)
        case f.Not(term):
            return not lets_through(term, document, chunk)
        case f.Type(name):
            return chunk.chunk_type == name
        case f.Language(name):
            return chunk.language == name
        case f.Tag(name):
            return any(
                _is_or_lies_below(tag, name)
                for tag in (*front.tags, *implied_tags(document, chunk))
            )
        case f.Under(folder):
            return folder == "" or folder in [
                "/".join(path.split("/")[:n]) for n in range(path.count("/") + 1)
            ]
        case f.Workspace(_, folders):
            return "" in folders or any(
                lets_through(f.Under(one), document, chunk) for one in folders
            )
        case f.DocumentIs(exact):
            return path == exact
        case f.Author(name):
            return front.author.lower() == name.lower()
        case f.Category(name):
            return front.category.lower() == name.lower()
        case f.After(_, moment):
            return not document.modified < moment
        case f.Before(_, moment):
            return not document.modified >= moment
        case f.File(names):
            return any(is_file(name, path) for name in names)
        case f.Path(patterns) | f.Archived(patterns):
            return selects(patterns, path)
    raise AssertionError(f"the oracle does not know {filter!r}")


def _is_or_lies_below(tag: str, wanted: str) -> bool:
    parts, outer = tag_name(tag).split("/"), tag_name(wanted).split("/")
    return parts[: len(outer)] == outer


def implied_tags(document: Document, chunk: Chunk) -> Iterator[str]:
    """What a row says of itself without being tagged: its type, its language, code or prose."""
    yield chunk.chunk_type
    if chunk.chunk_type == "documentation":
        if extension(document.path) in MARKDOWN:
            yield "markdown"
        return
    if chunk.language:
        yield chunk.language
    if chunk.chunk_type != "data":
        yield "code"


def is_file(name: str, path: str) -> bool:
    """A bare name fits at any depth, one with a slash is a path; without an extension, any one fits."""
    compared = path if name.startswith("/") else path.split("/")[-1]
    wanted = name[1:] if name.startswith("/") else name
    stem, dot, suffix = compared.rpartition(".")
    return compared == wanted or (
        bool(dot)
        and stem == wanted
        and f".{suffix.lower()}" in KNOWN_EXTENSIONS
        and not any(wanted.lower().endswith(known) for known in KNOWN_EXTENSIONS)
    )


def selects(patterns: Iterable[str], path: str) -> bool:
    """Gitignore patterns of the simple kind (no escapes, no classes with slashes), last match wins."""
    parts = path.split("/")
    for depth in range(1, len(parts) + 1):
        verdict = False
        for pattern in patterns:
            if _pattern_fits(
                pattern.removeprefix("!"), parts[:depth], is_folder=depth < len(parts)
            ):
                verdict = not pattern.startswith("!")
        if verdict:  # a folder that is selected takes everything below with it
            return True
    return False


def _pattern_fits(pattern: str, parts: Sequence[str], *, is_folder: bool) -> bool:
    if pattern.endswith("/") and not is_folder:
        return False
    body = pattern.rstrip("/")
    if "/" not in body:
        return fnmatchcase(parts[-1], body)
    return _parts_fit(body.lstrip("/").split("/"), parts)


def _parts_fit(wanted: Sequence[str], parts: Sequence[str]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] != "**":
        return (
            bool(parts)
            and fnmatchcase(parts[0], wanted[0])
            and _parts_fit(wanted[1:], parts[1:])
        )
    if len(wanted) == 1:
        return bool(parts)  # `docs/**` is what is inside docs, not docs itself
    return any(_parts_fit(wanted[1:], parts[at:]) for at in range(len(parts)))
