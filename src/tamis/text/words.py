"""From text to terms: the one tokenizer that indexing and searching share, and the text hashes.

Words are Unicode letters and digits, case and accents folded, English-stemmed, without the stop
words; runs of Chinese and Japanese become overlapping pairs. Identifiers are split at
underscores only: taking them apart further is the business of a lane of its own.
"""

import hashlib
import re
import threading
import unicodedata
from collections.abc import Callable, Iterable
from itertools import chain, pairwise
from typing import Final

import Stemmer

# Raise whenever the same text would give other terms: an index made before is then out of date.
TOKENIZER_VERSION: Final = 2
CONCEPTS_VERSION: Final = 1  # the same for the terms of the concept vocabulary

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
_ASCII: Final = {
    code: chr(code).lower() if chr(code).isalnum() else " " for code in range(128)
}
_TRADE_MARKS: Final = dict.fromkeys(
    map(ord, "™℠®©"), " "
)  # else they come apart into letters of the word
_ACCENTS: Final = re.compile("[\u0300-\u036f]+")
_HAN_OR_KANA: Final = re.compile(
    "[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+"
)
_CONCEPT: Final = re.compile(r"\b[^\W\d_][\w-]*\b")
_SHORTEST_CONCEPT: Final = 3
_AROUND_TAG: Final = re.compile(r"^[#\s]+|\s+$")
_CACHE_LIMIT: Final = (
    400_000  # distinct words; some 60 MB, more than any one corpus we measured needs
)
_LONGEST_TERM: Final = 64  # longer "words" are encoded data: nobody types them


class _TermsOf(dict[str, tuple[str, ...]]):
    """From a word to its terms, made on first sight."""

    def __init__(self) -> None:
        super().__init__()
        self._stemmer = Stemmer.Stemmer("english")

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(self) >= _CACHE_LIMIT:
            self.clear()
        terms = self._make(word)
        if (
            len(word) <= _LONGEST_TERM
        ):  # longer ones do not come twice, and would fill the memory
            self[word] = terms
        return terms

    def _make(self, word: str) -> tuple[str, ...]:
        if (
            not word.isascii()
        ):  # a sentence without blanks is one "word" here: its pairs are what counts
            return tuple(term for term in _pairs(word) if len(term) <= _LONGEST_TERM)
        if word in STOP_WORDS or len(word) > _LONGEST_TERM:
            return ()
        return (
            (self._stemmer.stemWord(word),) if len(word) > 1 or word.isdigit() else ()
        )


class _ForThread(threading.local):
    """One cache for each thread: a stemmer is not safe to share."""

    def __init__(self) -> None:
        self.terms = _TermsOf()


_for_thread = _ForThread()


def words(text: str) -> list[str]:
    """The terms of a text, in order, with repetitions."""
    return list(chain.from_iterable(map(_for_thread.terms.__getitem__, _split(text))))


def concepts(text: str) -> set[str]:
    """The terms that a text can add to the concept vocabulary (P1): words as they are written, in lower case.

    Names with underscores and hyphens stay whole. No stems: these are for a model to read, and to be shown.
    """
    plain = text if text.isascii() else unicodedata.normalize("NFC", text)
    found = {
        word for word in set(_CONCEPT.findall(plain.lower())) if word not in STOP_WORDS
    }
    return {word for word in found if _SHORTEST_CONCEPT <= len(word) <= _LONGEST_TERM}


class TermNumbers(dict[str, tuple[int, ...]]):
    """Numbers the terms of many texts: from a token to its terms by number, made on first sight."""

    def __init__(
        self,
        split: Callable[[str], list[str]],
        terms_of: Callable[[str], tuple[str, ...]],
    ) -> None:
        super().__init__()
        self.names: list[str] = []  # what the numbers stand for
        self._number: dict[str, int] = {}
        self._split, self._terms_of = split, terms_of

    def __missing__(self, token: str) -> tuple[int, ...]:
        numbers = tuple(map(self._of_term, self._terms_of(token)))
        if len(token) <= _LONGEST_TERM:
            self[token] = numbers
        return numbers

    def of(self, text: str) -> list[int]:
        """The terms of a text by number."""
        return list(chain.from_iterable(map(self.__getitem__, self._split(text))))

    def of_terms(self, terms: Iterable[str]) -> list[int]:
        """Terms that are made already, by number."""
        return list(map(self._of_term, terms))

    def _of_term(self, term: str) -> int:
        number = self._number.setdefault(term, len(self.names))
        if number == len(self.names):
            self.names.append(term)
        return number


def word_numbers() -> TermNumbers:
    """Numbers for the terms that `words` gives."""
    return TermNumbers(_split, _for_thread.terms.__getitem__)


def _split(text: str) -> list[str]:
    """Folded words. Plain ASCII, most of all text, takes a way that is three times faster."""
    if text.isascii():
        return text.translate(_ASCII).split()
    # Decompose, drop Latin/Greek/Cyrillic accents, compose again (else Hangul stays in pieces).
    # Fold case once more: a sign such as ㎒ comes apart into letters of either case.
    decomposed = unicodedata.normalize(
        "NFKD", text.translate(_TRADE_MARKS).casefold()
    ).casefold()
    return _WORD.findall(unicodedata.normalize("NFC", _ACCENTS.sub("", decomposed)))


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
    return unicodedata.normalize("NFC", _AROUND_TAG.sub("", tag).casefold())


def storable(text: str) -> str:
    """The text without halves of characters, which JSON may spell (`"\\ud800"`) and no file can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def text_hash(text: str) -> bytes:
    """Equal for texts that differ in white space alone (C73)."""
    return hashlib.blake2b(
        " ".join(text.split()).encode("utf-8", "surrogatepass"), digest_size=16
    ).digest()


def content_hash(data: bytes) -> bytes:
    """Equal for equal bytes."""
    return hashlib.blake2b(data, digest_size=16).digest()
