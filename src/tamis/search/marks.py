"""Where the words of a question are in a passage, and the sentence that has most of them, to be shown.

Nothing here takes part in ranking. Places are characters of the passage.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tamis.model import Plain
from tamis.text import words

Span = tuple[int, int]

_WORD: Final = re.compile(r"[^\W_]+")
_SENTENCE: Final = re.compile(r"[^\s][^\n]*?(?:[.!?](?=\s)|$)", re.MULTILINE)
_MOST: Final = 200  # marks in one passage: more would mark everything


@dataclass(frozen=True, slots=True)
class Marks(Plain):
    words: tuple[Span, ...]
    sentence: Span | None  # None: no sentence has more of the words than others would


def marks(question: str, content: str) -> Marks:
    """Words count as the words lane counts them: by their stems, without those that say nothing."""
    wanted = frozenset(words(question))
    found = list(_found(wanted, content))
    spans = tuple((start, end) for start, end, _ in found)[:_MOST]
    return Marks(spans, _best(content, found) if len(wanted) > 1 else None)


def _found(wanted: frozenset[str], content: str) -> Iterator[tuple[int, int, frozenset[str]]]:
    for word in _WORD.finditer(content):
        terms = wanted.intersection(words(word[0]))
        if terms:
            yield word.start(), word.end(), terms


def _best(content: str, found: list[tuple[int, int, frozenset[str]]]) -> Span | None:
    """The first of the sentences with the most different words of the question, if that is two or more."""
    most, best = 1, None
    for sentence in _SENTENCE.finditer(content):
        inside = [terms for start, _, terms in found if sentence.start() <= start < sentence.end()]
        count = len(frozenset().union(*inside))
        if count > most:
            most, best = count, sentence.span()
    return best
