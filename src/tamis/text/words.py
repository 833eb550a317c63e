"""Terms of a text: the one tokenizer of indexing and searching; and hashes of texts.

Words are Unicode letters and digits, case and accents folded, English-stemmed, without the stop
words; runs of Chinese and Japanese become overlapping pairs. Identifiers are split at
underscores only; the code lane splits them further (`identifiers.py`).
"""

import hashlib
import re
import string
import threading
import unicodedata
from collections.abc import Callable, Iterable
from itertools import chain, pairwise

import Stemmer

# Raise it if the same text gives other terms: indexes made before are then out of date.
TOKENIZER_VERSION = 2
CONCEPTS_VERSION = 1  # the same for the terms of the concept vocabulary

STOP_WORDS = frozenset(  # the list of the first design
    """
    a all also an and are as at be been both but by can could did do does each every few for from
    had has have he her here hers him his how i in is it its just may me might more most must my
    need no not now of on only or other our same shall she should so some such than that the their
    them then there these they this those to too us very was we were what when where which who why
    will with would you your
    """.split()  # noqa: SIM905
)

_WORD = re.compile(r"[^\W_]+")
_ASCII = dict.fromkeys(range(128), " ") | {
    ord(letter): letter.lower() for letter in string.ascii_letters + string.digits
}
# Compatibility forms would make letters of the word of them.
_TRADE_MARKS = dict.fromkeys(map(ord, "™℠®©"), " ")
_ACCENTS = re.compile("[\u0300-\u036f]+")
_HAN_OR_KANA = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_CONCEPT = re.compile(r"\b[^\W\d_][\w-]*\b")
_SHORTEST_CONCEPT = 3
_AROUND_TAG = re.compile(r"^[#\s]+|\s+$")
# Distinct words; some 60 MB, more than any corpus we measured needs.
_CACHE_LIMIT = 400_000
_LONGEST_TERM = 64  # longer "words" are encoded data: nobody types them


class _TermsOf(dict[str, tuple[str, ...]]):
    """A map from a word to its terms, filled on demand."""

    def __init__(self) -> None:
        super().__init__()
        self._stemmer = Stemmer.Stemmer("english")

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(self) >= _CACHE_LIMIT:
            self.clear()
        is_long = len(word) > _LONGEST_TERM
        is_letter = len(word) == 1 and not word.isdigit()
        terms: tuple[str, ...] = ()
        if not word.isascii():
            # A Chinese sentence without blanks is one word here; its pairs are the terms.
            terms = tuple(term for term in _pairs(word) if len(term) <= _LONGEST_TERM)
        elif not (is_long or is_letter or word in STOP_WORDS):
            terms = (self._stemmer.stemWord(word),)
        if not is_long:
            # Long ones do not come twice, and would fill the memory.
            self[word] = terms
        return terms


class _ForThread(threading.local):
    """One cache for each thread: a stemmer is not safe to share."""

    def __init__(self) -> None:
        self.terms = _TermsOf()


for_thread = _ForThread()


def words(text: str) -> list[str]:
    """Return the terms of a text, in order, with repetitions."""
    terms = map(for_thread.terms.__getitem__, _split(text))
    return list(chain.from_iterable(terms))


def concepts(text: str) -> set[str]:
    """Return the terms that a text can add to the concept vocabulary: its words in lower case.

    Names with underscores and hyphens stay whole. Nothing is stemmed: a model reads these, and
    people do.
    """
    composed = unicodedata.normalize("NFC", text)
    found = set(_CONCEPT.findall(composed.lower())) - STOP_WORDS
    return {word for word in found if _SHORTEST_CONCEPT <= len(word) <= _LONGEST_TERM}


class TermNumbers(dict[str, tuple[int, ...]]):
    """Numbers for the terms of many texts: a map from a token to its terms by number."""

    def __init__(
        self,
        split: Callable[[str], list[str]],
        terms_of: Callable[[str], tuple[str, ...]],
    ) -> None:
        super().__init__()
        self.names: list[str] = []  # the term of each number
        self._number: dict[str, int] = {}
        self._split = split
        self._terms_of = terms_of

    def __missing__(self, token: str) -> tuple[int, ...]:
        numbers = tuple(self.of_terms(self._terms_of(token)))
        if len(token) <= _LONGEST_TERM:
            self[token] = numbers
        return numbers

    def of(self, text: str) -> list[int]:
        """Return the terms of a text by number."""
        numbers = map(self.__getitem__, self._split(text))
        return list(chain.from_iterable(numbers))

    def of_terms(self, terms: Iterable[str]) -> list[int]:
        """Return the numbers of terms."""
        numbers = []
        for term in terms:
            number = self._number.setdefault(term, len(self.names))
            if number == len(self.names):
                self.names.append(term)
            numbers.append(number)
        return numbers


def word_numbers() -> TermNumbers:
    """Return numbers for the terms that `words` gives."""
    return TermNumbers(_split, for_thread.terms.__getitem__)


def _split(text: str) -> list[str]:
    """Return the folded words. Plain ASCII, most of all text, takes a way three times faster."""
    if text.isascii():
        return text.translate(_ASCII).split()
    # Decompose, drop Latin/Greek/Cyrillic accents, compose again (else Hangul stays in pieces).
    # Fold case once more: a sign such as ㎒ comes apart into letters of either case.
    folded = text.translate(_TRADE_MARKS).casefold()
    decomposed = unicodedata.normalize("NFKD", folded).casefold()
    plain = _ACCENTS.sub("", decomposed)
    return _WORD.findall(unicodedata.normalize("NFC", plain))


def _pairs(word: str) -> list[str]:
    """Split runs of Chinese and Japanese: `東京都` -> `東京`, `京都`; other letters stay words."""
    terms: list[str] = []
    at = 0
    for run in _HAN_OR_KANA.finditer(word):
        terms.append(word[at : run.start()])
        pairs = map("".join, pairwise(run.group()))
        terms += list(pairs) or [run.group()]
        at = run.end()
    terms.append(word[at:])
    return list(filter(None, terms))


def tag_name(tag: str) -> str:
    """Return a tag as tags are compared: without case and without the `#` that notes write."""
    name = _AROUND_TAG.sub("", tag).casefold()
    return unicodedata.normalize("NFC", name)


def storable(text: str) -> str:
    """Replace halves of characters, which JSON may spell (`"\\ud800"`) and no file can hold."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")


def text_hash(text: str) -> bytes:
    """Return a hash that is equal for texts that differ in white space alone."""
    plain = " ".join(text.split())
    return content_hash(plain.encode("utf-8", "surrogatepass"))


def content_hash(data: bytes) -> bytes:
    """Return a hash of bytes."""
    return hashlib.blake2b(data, digest_size=16).digest()
