"""A question in other words: terms of the vocabulary that are near to it, and synonyms.

Terms come from the allowed rows alone and synonyms from the question alone, so the law holds. The terms
are added to what the model reads; the words lane gets them, and synonyms, as further terms that count
less. Without a complete vocabulary there is no expansion, and the answer says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tamis.index.protocol import Concept
from tamis.search.question import Inquiry, Wording
from tamis.text.words import words
from tamis.weights import Weights

# From a number to that many nearest terms; None if there is no complete vocabulary.
Near = Callable[[int], Sequence[Concept] | None]

_FIRST = 16  # terms looked at before more are asked for: the question has some


def reworded(inquiry: Inquiry) -> Inquiry:
    """Add terms and synonyms to what the lanes are asked."""
    question = inquiry.question
    weights = question.weights
    vector = inquiry.vector
    embed = inquiry.lookups.models.embed
    terms: tuple[str, ...] | None = ()
    if question.settings.query_expansion_enabled and vector is not None and embed:
        asked = vector

        def near(depth: int) -> Sequence[Concept] | None:
            return inquiry.snapshot.concepts(
                asked,
                inquiry.allowed,
                depth,
                weights.query_expansion_min_frequency,
                weights.query_expansion_max_terms,
            )

        terms = expansion(question.text, weights, near)
        if terms:
            vector = embed(" ".join((question.text, *terms)))
    synonyms: tuple[str, ...] = ()
    further = weighted(question.text, terms or (), weights.query_expansion_keywords)
    weight = weights.synonym_weight
    if question.synonyms and weight:
        synonyms = question.synonyms.words(question.text)
        for stem, counts in weighted(question.text, synonyms, weight).items():
            further[stem] = max(counts, further.get(stem, 0.0))
    wording = Wording(further, terms or (), synonyms, has_vocabulary=terms is not None)
    return replace(inquiry, vector=vector, wording=wording)


def expansion(text: str, weights: Weights, near: Near) -> tuple[str, ...] | None:
    """Return the nearest terms that say more than the question and the terms before them.

    None if there is no complete vocabulary.
    """
    most = weights.query_expansion_top_k
    depth = _FIRST + most
    while True:
        found = near(depth)
        if found is None:
            return None
        close = []
        for each in found:
            if each.score >= weights.query_expansion_threshold:
                close.append(each.term)
        said = set(words(text))
        chosen = []
        for term in close:
            stems = set(words(term))
            if not stems <= said:
                chosen.append(term)
                said |= stems
        if len(chosen) >= most or len(close) < depth:
            return tuple(chosen[:most])
        depth *= 4


def weighted(text: str, added: Sequence[str], weight: float) -> dict[str, float]:
    """Return stems that the question does not have, with weights; those of one phrase share its weight."""
    terms: dict[str, float] = {}
    said = set(words(text))
    for phrase in added if weight else ():
        stems = words(phrase)
        for stem in stems:
            if stem not in said:
                terms[stem] = max(weight / len(stems), terms.get(stem, 0.0))
    return terms
