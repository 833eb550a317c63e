"""One stage of a search by itself."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tamis.model import Candidate
from tamis.search.question import Lookups, Models, Question, Vector
from tamis.search.stages import Stage
from tamis.weights import Weights


def no_vectors(candidates: Sequence[Candidate]) -> Vector:
    return np.zeros((len(candidates), 0), np.float32)


def lookups(
    vectors: Callable[[Sequence[Candidate]], Vector] = no_vectors,
    coverage: Callable[[Sequence[Candidate]], Sequence[float]] | None = None,
    **models: Any,
) -> Lookups:
    """No vectors, and all words of the question in every candidate, unless said otherwise."""
    whole = coverage or (lambda candidates: [1.0] * len(candidates))
    return Lookups(vectors, whole, Models(**models))


def staged(
    stage: Stage, candidates: Sequence[Candidate], text: str = "x", **weights: Any
) -> Sequence[Candidate]:
    """Pass candidates through a stage, with these weights."""
    return stage(candidates, Question(text, weights=Weights(**weights)), lookups())
