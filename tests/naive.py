"""The oracle: an engine without an index.

It answers the `Snapshot` protocol by looking at every row, one after the other, in plain Python: a
filter is read for each row by itself, a BM25F score is the formula written out, the nearest rows
are a full sort over exact sums. Nothing here calls the engine, the filter's own `matches`, or the
pattern matcher. What it takes from tamis is what the engine is handed, too: parsed documents, their
vectors, the tokenizer, and the constants of the formula.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tamis import filters as f
from tamis.engine import Allowed, Hit
from tamis.engine.embedded.words import FIELDS, K1, USUAL_LENGTH, B
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.languages import KNOWN_EXTENSIONS
from tamis.model import Chunk, Document, IndexState, Passage
from tamis.models.hashing import HashingEmbedder
from tamis.settings import Settings
from tamis.text import words


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
        self.terms = {row.key: _terms_by_field(row) for row in rows}

    @property
    def state(self) -> IndexState:
        documents = {row.document.path for row in self.rows}
        return IndexState(0, len(documents), len(self.rows), 0, "")

    def allow(self, filter: f.Filter) -> Allowed:
        rows = [row for row in self.rows if lets_through(filter, row.document, row.chunk)]
        documents = {row.document.path for row in rows}
        return Allowed(frozenset(row.key for row in rows), len(rows), len(documents))

    def meaning(self, query: NDArray[np.float32], allowed: Allowed, depth: int) -> Sequence[Hit]:
        asked = [float(number) for number in query]
        scores = {key: _dot(self.by_key[key].vector, asked) for key in allowed.rows}
        return self._best(scores, depth)

    def words(self, terms: Sequence[str], allowed: Allowed, depth: int) -> Sequence[Hit]:
        having = {
            term: [key for key in allowed.rows if any(term in field for field in self.terms[key].values())]
            for term in terms
        }
        scores: dict[int, float] = {}
        for term, keys in having.items():
            rarity = math.log(1 + (len(allowed.rows) - len(keys) + 0.5) / (len(keys) + 0.5))
            for key in keys:
                scores[key] = scores.get(key, 0.0) + self.posting(key, term) * rarity
        return self._best({key: score for key, score in scores.items() if score > 0}, depth)

    def posting(self, key: int, term: str) -> float:
        """What a term is worth in a row, before its rarity."""
        weight = 0.0
        for field, counts in self.terms[key].items():
            length = sum(counts.values())
            norm = 1 - B + B * length / USUAL_LENGTH[field]
            weight += self.boosts[field] * counts[term] / norm if length else 0.0
        return weight * (K1 + 1) / (weight + K1)

    def passages(self, keys: Sequence[int]) -> Mapping[int, Passage]:
        return {key: _passage(self.by_key[key]) for key in keys}

    def _best(self, scores: Mapping[int, float], depth: int) -> list[Hit]:
        order = sorted(scores, key=lambda key: (-scores[key], self.by_key[key].position))
        return [Hit(key, scores[key]) for key in order[:depth]]


def naive_snapshot(root: Path, settings: Settings) -> NaiveSnapshot:
    """The rows of all files below a root, hidden ones aside."""
    rows: list[Row] = []
    embedder = HashingEmbedder()
    for document in read_documents(root, settings):
        texts = [_embedded_text(chunk) for chunk in document.chunks]
        vectors = embedder.embed_passages(texts)
        for chunk, vector in zip(document.chunks, vectors, strict=True):
            rows.append(Row(3 * len(rows) + 5, document, chunk, tuple(float(x) for x in vector)))
    return NaiveSnapshot(rows, {field: getattr(settings.fields, field) for field in FIELDS})


def read_documents(root: Path, settings: Settings) -> list[Document]:
    inside = [(file.relative_to(root), file) for file in root.rglob("*") if file.is_file()]
    visible = [(path, file) for path, file in inside if not path.parts[0].startswith(".")]
    documents = []
    for path, file in sorted(visible, key=lambda item: item[0].as_posix()):
        status = file.stat()
        text = file.read_text(encoding="utf-8")
        source = Source(path.as_posix(), text, b"", status.st_size, status.st_mtime_ns, 0, 0, 0)
        documents.append(parse(source, settings.chunking)[0])
    return documents


def _embedded_text(chunk: Chunk) -> str:
    return chunk.header_path + "\n\n" + chunk.content if chunk.header_path else chunk.content


def _dot(row: Sequence[float], query: Sequence[float]) -> float:
    """A product of two float32 is exact in float64, and fsum rounds once: the true sum, to the last bit."""
    return math.fsum(a * b for a, b in zip(row, query, strict=True))


def _terms_by_field(row: Row) -> dict[str, Counter[str]]:
    front = row.document.front
    texts = {
        "title": row.document.title,
        "headers": row.chunk.header_path,
        "keywords": " ".join(front.keywords),
        "description": front.description,
        "tags": " ".join(front.tags),
        "aliases": " ".join(front.aliases),
        "author": front.author,
        "category": front.category,
        "body": row.chunk.content,
    }
    return {field: Counter(words(text)) for field, text in texts.items()}


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
            return name.lower() in [tag.lower() for tag in front.tags]
        case f.Under(folder):
            return folder == "" or folder in [
                "/".join(path.split("/")[:n]) for n in range(path.count("/") + 1)
            ]
        case f.Workspace(_, folders):
            return "" in folders or any(lets_through(f.Under(one), document, chunk) for one in folders)
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
            if _pattern_fits(pattern.removeprefix("!"), parts[:depth], is_folder=depth < len(parts)):
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
        return bool(parts) and fnmatchcase(parts[0], wanted[0]) and _parts_fit(wanted[1:], parts[1:])
    if len(wanted) == 1:
        return bool(parts)  # `docs/**` is what is inside docs, not docs itself
    return any(_parts_fit(wanted[1:], parts[at:]) for at in range(len(parts)))
