"""Synonyms for the words lane (P5): from a table of the trade's words, the user's own, and WordNet.

They depend on the question alone, come in a fixed order, and count less than what was asked for. A table
is a text file with a group on each line, its words parted by commas; what follows a `#` is a remark. A
synonym of several words is taken only where each of them is a word to search for ("pull request", but
not "log in", which would be found by every log).
"""

import mmap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from tamis.errors import BadSetting
from tamis.text.words import words

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
_WORDNET: Final = Path("/usr/share/wordnet")
_HINT: Final = "install the package wordnet-base"


@dataclass(frozen=True, slots=True)
class WordNet:
    """A folder of dictionary files."""

    folder: Path
    _files: dict[str, mmap.mmap] = field(
        default_factory=dict, compare=False, repr=False
    )

    def senses(self, word: str) -> Iterator[tuple[str, ...]]:
        """The words of each sense, nouns before verbs before others, the most usual sense of each first."""
        written = word.lower().replace(" ", "_").encode("utf-8", "surrogatepass")
        for part in _ENDINGS:
            for place in self._places(part, written):
                yield self._words(part, place)

    def _places(self, part: str, word: bytes) -> list[int]:
        """Where a word's senses stand: as it is written, else by the first base form that there is."""
        bases = (
            word.removesuffix(old.encode()) + new.encode()
            for old, new in self._endings(part, word)
        )
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
            reason = (
                "is empty"
                if isinstance(error, ValueError)
                else f"cannot be read ({error.strerror})"
            )
            raise BadSetting(
                f"{self.folder} is no WordNet dictionary: {name} {reason}", hint=_HINT
            ) from error

    def _malformed(self, name: str, line: bytes) -> BadSetting:
        shown = line[:60].decode("utf-8", "replace")
        return BadSetting(
            f"{self.folder / name} is not in WordNet's form: {shown!r}", hint=_HINT
        )


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


Phrase = tuple[str, ...]  # by its stems
Groups = Mapping[Phrase, tuple[str, ...]]  # from a phrase to what else is said for it

_LONGEST: Final = 3  # words of a phrase
_MOST_OF_GROUPS: Final = 4  # synonyms of one phrase from tables
_SENSES: Final = 2  # of WordNet's, the first two (P5)
_MOST_OF_SENSES: Final = 2  # words of them (P5)
_LARGEST_FILE: Final = 10_000_000


@dataclass(frozen=True, slots=True)
class Synonyms:
    """Where synonyms come from, and what they count."""

    groups: Groups = field(default_factory=dict)
    dictionary: WordNet | None = None
    weight: float = 0.0

    @classmethod
    def of(cls, chosen: str, weight: float, root: Path) -> "Synonyms":
        """Open what the setting `search.synonyms` names: none, the own tables, or a file of the user."""
        if chosen == "off" or not weight:
            return NO_SYNONYMS
        if chosen not in ("software", "wordnet"):
            return cls(grouped(_read(root / Path(chosen).expanduser())), None, weight)
        dictionary = WordNet(_WORDNET) if chosen == "wordnet" else None
        return cls(grouped(_software()), dictionary, weight)

    def words(self, text: str) -> tuple[str, ...]:
        """The synonyms of what a text says, in the order of the text, each once."""
        asked = words(text)
        found: dict[Phrase, str] = {}
        for synonym in (*self._of_groups(asked), *self._of_dictionary(text)):
            stems = simple(synonym)
            if stems and not set(stems) <= set(asked):
                found.setdefault(stems, synonym)
        return tuple(found.values())

    def _of_groups(self, asked: list[str]) -> Iterator[str]:
        for at in range(len(asked)):
            for length in range(_LONGEST, 0, -1):
                yield from self.groups.get(tuple(asked[at : at + length]), ())[
                    :_MOST_OF_GROUPS
                ]

    def _of_dictionary(self, text: str) -> Iterator[str]:
        if self.dictionary is None:
            return
        for word in dict.fromkeys(text.lower().split()):
            plain = word.strip("\"'`.,;:!?()[]{}")
            if len(words(plain)) == 1:
                yield from _usual(self.dictionary, plain)


NO_SYNONYMS: Final = Synonyms()


def _usual(dictionary: WordNet, word: str) -> list[str]:
    """What stands beside a word in its first senses. The first two words of each, as in the design."""
    senses = [
        sense for sense, _ in zip(dictionary.senses(word), range(_SENSES), strict=False)
    ]
    others = (
        other
        for sense in senses
        for other in sense[:_MOST_OF_SENSES]
        if words(other) != words(word)
    )
    return list(dict.fromkeys(other for other in others if simple(other)))[
        :_MOST_OF_SENSES
    ]


def simple(synonym: str) -> Phrase:
    """A synonym by its stems; nothing for one that is long, or of which not every word is searched for."""
    stems = tuple(words(synonym))
    return stems if len(stems) == len(synonym.split()) <= _LONGEST else ()


def grouped(groups: Iterable[tuple[str, ...]]) -> Groups:
    """From each phrase to the others of its groups, in the order of the groups."""
    found: dict[Phrase, dict[str, None]] = {}
    for group in groups:
        for phrase in group:
            others = (other for other in group if other != phrase)
            found.setdefault(simple(phrase), {}).update(dict.fromkeys(others))
    found.pop((), None)
    return {phrase: tuple(others) for phrase, others in found.items()}


def parsed(text: str) -> list[tuple[str, ...]]:
    """The groups of a table."""
    lines = (line.partition("#")[0].lower().split(",") for line in text.splitlines())
    groups = [
        tuple(dict.fromkeys(" ".join(word.split()) for word in line if word.strip()))
        for line in lines
    ]
    return [group for group in groups if len(group) > 1]


@cache
def _software() -> tuple[tuple[str, ...], ...]:
    return tuple(
        parsed(files("tamis.search.extras").joinpath("software.txt").read_text("utf-8"))
    )


def _read(file: Path) -> list[tuple[str, ...]]:
    """The user's own table."""
    try:
        with file.open("rb") as source:
            data = source.read(_LARGEST_FILE + 1)
    except OSError as error:
        message = f"search.synonyms: cannot read {file}: {error.strerror}"
        hint = "allowed: off, software, wordnet, or the path of a file of your own"
        raise BadSetting(message, hint=hint) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"search.synonyms: {file} is not UTF-8 text"
        raise BadSetting(message, hint="save it as UTF-8") from error
    if len(data) > _LARGEST_FILE:
        raise BadSetting(
            f"search.synonyms: {file} is too large", hint="10 MB are the most"
        )
    return parsed(text)
