"""One stage of a search by itself."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tamis.index.protocol import Positions
from tamis.model import Candidate
from tamis.search.pipeline import Stage
from tamis.search.question import Lookups, Models, Question, Vector
from tamis.weights import Weights


def no_vectors(positions: Positions) -> Vector:
    return np.zeros((len(positions), 0), np.float32)


def lookups(
    vectors: Callable[[Positions], Vector] = no_vectors,
    coverage: Callable[[Positions], Sequence[float]] | None = None,
    **models: Any,
) -> Lookups:
    """No vectors, and all words of the question in every candidate, unless said otherwise."""
    whole = coverage or (lambda positions: [1.0] * len(positions))
    return Lookups(vectors, whole, Models(**models))


def staged(
    stage: Stage, candidates: Sequence[Candidate], text: str = "x", **weights: Any
) -> Sequence[Candidate]:
    """Pass candidates through a stage, with these weights."""
    return stage(candidates, Question(text, weights=Weights(**weights)), lookups())
