"""What is written of documents: their rows, and the postings of the words lane and of the code lane."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tamis.engine import Prepared
from tamis.engine.embedded import vectors, words
from tamis.engine.embedded.segment import row_codes
from tamis.identifiers import code_in, definitions, identifier_numbers, spoken
from tamis.languages import without_known_extension
from tamis.model import Chunk, Document
from tamis.text import word_numbers


def segment_files(
    batch: Sequence[Prepared], first: int, boosts: Mapping[str, float]
) -> dict[str, dict[str, Any]]:
    """The arrays of a new segment; `batch` is in the order of paths."""
    lanes = Lanes(boosts)
    place_of_row: list[int] = []
    codes: list[tuple[int, int]] = []
    for place, prepared in enumerate(batch):
        lanes.begin(prepared.document)
        for chunk in prepared.document.chunks:
            lanes.add(len(place_of_row), chunk)
            place_of_row.append(place)
            codes.append(row_codes(chunk.chunk_type, chunk.language))
    kinds = np.array(codes, np.uint16).reshape(-1, 2)
    rows = {
        "chunk": np.arange(first, first + len(place_of_row), dtype=np.int64),
        "document": np.array(place_of_row, np.int32),
        "type": kinds[:, 0],
        "language": kinds[:, 1],
    }
    together = np.concatenate([prepared.vectors for prepared in batch])
    return {"rows": rows, **lanes.files(), "vectors": vectors.encode(together)}


class Lanes:
    """The postings of the words lane and of the code lane, filled row by row."""

    def __init__(self, boosts: Mapping[str, float]) -> None:
        self.words = words.Postings(words.WORD_FIELDS, boosts, word_numbers())
        self.code = words.Postings(words.CODE_FIELDS, boosts, identifier_numbers())
        self._last = ("", self.words.read("headers", ""))

    def begin(self, document: Document) -> None:
        """Read what every chunk of a document has: its title, what its front matter says, its path."""
        front, path = document.front, document.path
        texts = {
            "title": document.title,
            "keywords": " ".join(front.keywords),
            "description": front.description,
            "tags": " ".join(front.tags),
            "aliases": " ".join(front.aliases),
            "author": front.author,
            "category": front.category,
        }
        self._words = [self.words.read(field, text) for field, text in texts.items() if text]
        name = path.rsplit("/", 1)[-1]
        self._code = [self.code.read("path", f"{path} {name} {without_known_extension(name)}")]

    def add(self, row: int, chunk: Chunk) -> None:
        for field, terms in (*self._words, self._headers(chunk), self.words.read("body", chunk.content)):
            self.words.add(row, field, terms)
        for field, terms in self._code:
            self.code.add(row, field, terms)
        if chunk.names:
            field, terms = self.code.read("symbols", " ".join(chunk.names))
            self.code.add(row, field, terms + self.code.numbers.of_terms(definitions(chunk.names)))
        if code := code_in(chunk):
            self.code.add(row, *self.code.read("code", code))

    def _headers(self, chunk: Chunk) -> tuple[int, list[int]]:
        """Neighbours have the same headings above them. What is defined counts by the words in its name."""
        if chunk.names:
            return self.words.read("headers", f"{chunk.header_path} {spoken(chunk.names)}")
        if chunk.header_path != self._last[0]:
            self._last = (chunk.header_path, self.words.read("headers", chunk.header_path))
        return self._last[1]

    def files(self) -> dict[str, dict[str, Any]]:
        return {"words": self.words.arrays(), "code": self.code.arrays()}
