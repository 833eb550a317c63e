"""From text to terms: the one tokenizer that indexing and searching share, and the text hashes.

Words are Unicode letters and digits, case and accents folded, English-stemmed, without the stop
words; runs of Chinese and Japanese become overlapping pairs. Identifiers are split at
underscores only: taking them apart further is the business of a lane of its own.
"""

import hashlib
import re
import threading
import unicodedata
from itertools import pairwise
from typing import Final

import Stemmer

# Raise whenever the same text would give other terms: an index made before is then out of date.
TOKENIZER_VERSION: Final = 1

STOP_WORDS: Final = frozenset(  # the list of the design this grew from
    """
    a all also an and are as at be been both but by can could did do does each every few for from
    had has have he her here hers him his how i in is it its just may me might more most must my
    need no not now of on only or other our same shall she should so some such than that the their
    them then there these they this those to too us very was we were what when where which who why
    will with would you your
    """.split()  # noqa: SIM905
)

_WORD: Final = re.compile(r"[^\W_]+")
_ACCENTS: Final = re.compile("[\u0300-\u036f]+")
_HAN_OR_KANA: Final = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_CACHE_LIMIT: Final = 400_000  # distinct words; some 60 MB, more than any one corpus we measured needs
_LONGEST_TERM: Final = 64  # longer "words" are encoded data: nobody types them


class _Terms(threading.local):
    """A cache from words to their terms. One for each thread: a stemmer is not safe to share."""

    def __init__(self) -> None:
        self.stemmer = Stemmer.Stemmer("english")
        self.known: dict[str, tuple[str, ...]] = {}

    def of(self, word: str) -> tuple[str, ...]:
        if len(self.known) >= _CACHE_LIMIT:
            self.known.clear()
        terms = self.known[word] = self._make(word)
        return terms

    def _make(self, word: str) -> tuple[str, ...]:
        if word in STOP_WORDS or len(word) > _LONGEST_TERM:
            return ()
        if word.isascii():
            return (self.stemmer.stemWord(word),) if len(word) > 1 or word.isdigit() else ()
        return _pairs(word)


_terms = _Terms()


class WordCache:
    """Numbers the terms of many texts: each distinct word is taken apart once, then looked up."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._number: dict[str, int] = {}
        self._numbers: dict[str, tuple[int, ...]] = {}

    def numbers(self, text: str) -> list[int]:
        """The terms of a text by number, in order, with repetitions; `names` has what they stand for."""
        known = self._numbers
        found: list[int] = []
        for word in _WORD.findall(_fold(text)):
            numbers = known.get(word)
            found += self._add(word) if numbers is None else numbers
        return found

    def _add(self, word: str) -> tuple[int, ...]:
        numbers = self._numbers[word] = tuple(map(self._of_term, _terms.of(word)))
        return numbers

    def _of_term(self, term: str) -> int:
        number = self._number.setdefault(term, len(self.names))
        if number == len(self.names):
            self.names.append(term)
        return number


def words(text: str) -> list[str]:
    """The terms of a text, in order, with repetitions."""
    known, make = _terms.known, _terms.of
    found: list[str] = []
    for word in _WORD.findall(_fold(text)):
        terms = known.get(word)
        found += make(word) if terms is None else terms
    return found


def _fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    # Decompose, drop Latin/Greek/Cyrillic accents, compose again (else Hangul stays in pieces).
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", decomposed))


def _pairs(word: str) -> tuple[str, ...]:
    """`東京都` -> `東京 京都`; letters between such runs stay words."""
    terms: list[str] = []
    at = 0
    for run in _HAN_OR_KANA.finditer(word):
        terms += [word[at : run.start()]] if run.start() > at else []
        characters = run.group()
        terms += ["".join(pair) for pair in pairwise(characters)] or [characters]
        at = run.end()
    return (*terms, word[at:]) if at < len(word) else tuple(terms)


def tag_name(tag: str) -> str:
    """Tags compare without case and without the `#` that notes write before them (C102)."""
    return tag.strip().removeprefix("#").casefold()


def text_hash(text: str) -> bytes:
    """Equal for texts that differ in white space alone (C73)."""
    return hashlib.blake2b(" ".join(text.split()).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def content_hash(data: bytes) -> bytes:
    """Equal for equal bytes."""
    return hashlib.blake2b(data, digest_size=16).digest()
