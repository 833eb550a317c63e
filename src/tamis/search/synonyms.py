"""Synonyms for the words lane (P5): from a table of the trade's words, the user's own, and WordNet.

They depend on the question alone, come in a fixed order, and count less than what was asked for. A table
is a text file with a group on each line, its words parted by commas; what follows a `#` is a remark. A
synonym of several words is taken only where each of them is a word to search for ("pull request", but
not "log in", which would be found by every log).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from tamis.errors import BadSetting
from tamis.search.wordnet import WordNet
from tamis.settings import SearchSettings
from tamis.text import words

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
    def of(cls, settings: SearchSettings, root: Path) -> "Synonyms":
        ours = settings.synonyms != "off"
        if not (ours or settings.synonyms_file) or not settings.synonym_weight:
            return NO_SYNONYMS
        own = _read(root / Path(settings.synonyms_file).expanduser()) if settings.synonyms_file else []
        groups = grouped([*own, *(_software() if ours else ())])
        use_wordnet = settings.synonyms == "wordnet"
        dictionary = WordNet(root / Path(settings.wordnet_directory).expanduser()) if use_wordnet else None
        return cls(groups, dictionary, settings.synonym_weight)

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
                yield from self.groups.get(tuple(asked[at : at + length]), ())[:_MOST_OF_GROUPS]

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
    senses = [sense for sense, _ in zip(dictionary.senses(word), range(_SENSES), strict=False)]
    others = (other for sense in senses for other in sense[:_MOST_OF_SENSES] if words(other) != words(word))
    return list(dict.fromkeys(other for other in others if simple(other)))[:_MOST_OF_SENSES]


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
    groups = [tuple(dict.fromkeys(" ".join(word.split()) for word in line if word.strip())) for line in lines]
    return [group for group in groups if len(group) > 1]


@cache
def _software() -> tuple[tuple[str, ...], ...]:
    return tuple(parsed(files("tamis.search").joinpath("software.txt").read_text("utf-8")))


def _read(file: Path) -> list[tuple[str, ...]]:
    """The user's own table."""
    try:
        with file.open("rb") as source:
            data = source.read(_LARGEST_FILE + 1)
    except OSError as error:
        message = f"search.synonyms_file: cannot read {file}: {error.strerror}"
        raise BadSetting(message, hint="check the path") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"search.synonyms_file: {file} is not UTF-8 text"
        raise BadSetting(message, hint="save it as UTF-8") from error
    if len(data) > _LARGEST_FILE:
        raise BadSetting(f"search.synonyms_file: {file} is too large", hint="10 MB are the most")
    return parsed(text)
