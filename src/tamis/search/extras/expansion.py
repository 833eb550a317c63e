"""A question in other words: terms of the vocabulary that are near to it (P1, C49), and synonyms (P5).

Terms come from the allowed rows alone and synonyms from the question alone, so the law holds. The terms
are added to what the model reads; the words lane gets them, and synonyms, as further terms that count
less. Without a whole vocabulary there is no expansion, and the answer says so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tamis.index.protocol import Allowed, Concept, Snapshot
from tamis.search.extras.synonyms import Synonyms
from tamis.settings import SearchSettings
from tamis.text.words import words
from tamis.weights import Weights

Vector = NDArray[np.float32]
Near = Callable[[int], Sequence[Concept] | None]  # the so many nearest terms

_FIRST: Final = (
    16  # terms looked at before more are asked for: some are in the question already
)


@dataclass(frozen=True, slots=True)
class Expansion:
    """The terms that were added to a question, nearest first."""

    terms: tuple[str, ...] = ()
    unready: bool = False  # there is no whole vocabulary to take any from


@dataclass(frozen=True, slots=True)
class Wording:
    """What the lanes are asked with."""

    vector: Vector | None
    # Terms for the words lane besides the question's own, with what each counts.
    further: Mapping[str, float] = field(default_factory=dict)
    expansion: Expansion = Expansion()
    synonyms: tuple[str, ...] = ()


def worded(
    snapshot: Snapshot,
    text: str,
    vector: Vector | None,
    embed: Callable[[str], Vector] | None,
    allowed: Allowed,
    settings: SearchSettings,
    weights: Weights,
    synonyms: Synonyms,
) -> Wording:
    """A question with what is added to it; just its vector where nothing is asked to be."""
    expansion = Expansion()
    if settings.query_expansion_enabled and vector is not None and embed is not None:
        floor, most, asked = (
            weights.query_expansion_min_frequency,
            weights.query_expansion_max_terms,
            vector,
        )
        expansion = expanded(
            text,
            weights,
            lambda depth: snapshot.concepts(asked, allowed, depth, floor, most),
        )
        if expansion.terms:
            vector = embed(" ".join((text, *expansion.terms)))
    also = synonyms.words(text)
    further = weighted(text, expansion.terms, weights.query_expansion_keywords)
    for term, weight in weighted(text, also, synonyms.weight).items():
        further[term] = max(weight, further.get(term, 0.0))
    return Wording(vector, further, expansion, also)


def expanded(text: str, weights: Weights, near: Near) -> Expansion:
    """The nearest terms that say something new: more than the question and the terms before them."""
    depth = _FIRST + weights.query_expansion_top_k
    while True:
        found = near(depth)
        if found is None:
            return Expansion(unready=True)
        close = [
            each for each in found if each.score >= weights.query_expansion_threshold
        ]
        chosen = _new(text, [each.term for each in close])[
            : weights.query_expansion_top_k
        ]
        if len(chosen) == weights.query_expansion_top_k or len(close) < depth:
            return Expansion(tuple(chosen))
        depth *= 4


def _new(text: str, terms: Sequence[str]) -> list[str]:
    said = set(words(text))
    chosen = []
    for term in terms:
        stems = set(words(term))
        if not stems <= said:
            chosen.append(term)
            said |= stems
    return chosen


def weighted(text: str, added: Sequence[str], weight: float) -> dict[str, float]:
    """Stems that the question does not have, with their weights; one of several words shares its weight."""
    if not weight:
        return {}
    terms: dict[str, float] = {}
    said = set(words(text))
    for phrase in added:
        stems = words(phrase)
        for stem in stems:
            if stem not in said:
                terms[stem] = max(weight / len(stems), terms.get(stem, 0.0))
    return terms
