"""Synonyms from WordNet's own dictionary files (`man 5 wndb`), as Debian's wordnet-base installs them.

A word is looked up by bisection in `index.noun` and its fellows, which are sorted by it; each of its
senses is a place in `data.noun`, and the words that stand there are its synonyms, the most usual sense
first. Files are mapped when first asked and only read. Nothing is guessed: a folder without a dictionary,
or a line of another form, is a fault that names it.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tamis.errors import BadSetting

# Endings of inflected forms, and what they stand for, for each part of speech in the order that is asked.
_ENDINGS: Final = {
    "noun": (
        ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("ies", "y"), ("s", ""),
    ),
    "verb": (
        ("ies", "y"), ("es", "e"), ("es", ""), ("s", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""),
    ),
    "adj": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "adv": (),
}  # fmt: skip
_HINT: Final = "install the package wordnet-base, or set search.wordnet_directory"


@dataclass(frozen=True, slots=True)
class WordNet:
    """A folder of dictionary files."""

    folder: Path
    _files: dict[str, mmap.mmap] = field(default_factory=dict, compare=False, repr=False)

    def senses(self, word: str) -> Iterator[tuple[str, ...]]:
        """The words of each sense, nouns before verbs before others, the most usual sense of each first."""
        written = word.lower().replace(" ", "_").encode("utf-8", "surrogatepass")
        for part in _ENDINGS:
            for place in self._places(part, written):
                yield self._words(part, place)

    def _places(self, part: str, word: bytes) -> list[int]:
        """Where a word's senses stand: as it is written, else by the first base form that there is."""
        bases = (word.removesuffix(old.encode()) + new.encode() for old, new in self._endings(part, word))
        for form in (word, *bases):
            line = bisected(self._file(f"index.{part}"), form)
            if line is not None:
                return self._offsets(part, line)
        return []

    def _endings(self, part: str, word: bytes) -> list[tuple[str, str]]:
        return [
            (old, new)
            for old, new in _ENDINGS[part]
            if word.endswith(old.encode()) and len(word) > len(old) + 1
        ]

    def _offsets(self, part: str, line: bytes) -> list[int]:
        """`lemma pos synset_cnt p_cnt [symbol...] sense_cnt tagsense_cnt offset...`"""
        try:
            fields = line.split()
            senses, pointers = int(fields[2]), int(fields[3])
            offsets = [int(each) for each in fields[6 + pointers :]]
        except (ValueError, IndexError):
            raise self._malformed(f"index.{part}", line) from None
        if senses != len(offsets):
            raise self._malformed(f"index.{part}", line)
        return offsets

    def _words(self, part: str, offset: int) -> tuple[str, ...]:
        """`offset lex_filenum ss_type w_cnt word lex_id [word lex_id...] ...`, w_cnt in base 16."""
        pages = self._file(f"data.{part}")
        end = pages.find(b"\n", offset)
        line = pages[offset : end if end >= 0 else len(pages)]
        try:
            fields = line.decode("utf-8").split()
            count = int(fields[3], 16)
            words = tuple(fields[4 : 4 + 2 * count : 2])
        except (ValueError, IndexError):
            raise self._malformed(f"data.{part}", line) from None
        if fields[0] != f"{offset:08}" or len(words) != count:
            raise self._malformed(f"data.{part}", line)
        return tuple(
            word.partition("(")[0].replace("_", " ").lower() for word in words
        )  # `dead(p)`: a marker

    def _file(self, name: str) -> mmap.mmap:
        if name not in self._files:
            self._files[name] = self._map(name)
        return self._files[name]

    def _map(self, name: str) -> mmap.mmap:
        try:
            with (self.folder / name).open("rb") as source:
                return mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            reason = "is empty" if isinstance(error, ValueError) else f"cannot be read ({error.strerror})"
            raise BadSetting(
                f"{self.folder} is no WordNet dictionary: {name} {reason}", hint=_HINT
            ) from error

    def _malformed(self, name: str, line: bytes) -> BadSetting:
        shown = line[:60].decode("utf-8", "replace")
        return BadSetting(f"{self.folder / name} is not in WordNet's form: {shown!r}", hint=_HINT)


def bisected(pages: mmap.mmap | bytes, word: bytes) -> bytes | None:
    """The line that begins with the word, in a file whose lines are sorted by what they begin with."""
    low, high = 0, len(pages)
    while low < high:
        middle = (low + high) // 2
        start = pages.rfind(b"\n", low, middle) + 1 or low
        end = pages.find(b"\n", middle, high)
        end = high if end < 0 else end
        line = pages[start:end]
        found = line.partition(b" ")[0]
        if found == word:
            return line
        low, high = (end + 1, high) if found < word else (low, start)
    return None
