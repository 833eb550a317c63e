"""A deterministic embedder without weights: words and their letter triples, hashed into a vector.

It knows no meaning, only spelling: passages that share words or parts of words are near. It is
for tests, and for machines where a model is too much but misspelt words should still find
something.
"""

from collections.abc import Iterator, Sequence
from zlib import crc32

import numpy as np

from tamis.models.embedders import Vectors
from tamis.text.words import words

_DIMENSION = 256
_WORD_WEIGHT = 1.0
# A word of eight letters has eight triples: together they outweigh it a little.
_TRIPLE_WEIGHT = 0.3


class HashingEmbedder:
    """An embedder whose vectors count hashed words and letter triples."""

    name = "hashing"
    fingerprint = "hashing:256:1"
    dimension = _DIMENSION
    related = (0.42, 20.0)

    def embed_query(self, text: str) -> Vectors:
        vector: Vectors = self.embed_passages([text])[0]
        return vector

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), _DIMENSION), np.float64)
        for vector, text in zip(vectors, texts, strict=True):
            for feature, weight in _features(text):
                code = crc32(feature)
                if not code & 0x80000000:
                    weight = -weight
                vector[code % _DIMENSION] += weight
            length = np.sqrt((vector * vector).sum())
            if length:
                vector /= length
            else:
                vector[0] = 1.0  # a text without words has a unit vector, too
        return vectors.astype(np.float32)


def _features(text: str) -> Iterator[tuple[bytes, float]]:
    for word in words(text):
        yield word.encode(), _WORD_WEIGHT
        marked = f"^{word}$"
        for at in range(len(marked) - 2):
            triple = marked[at : at + 3]
            yield b"3" + triple.encode(), _TRIPLE_WEIGHT
