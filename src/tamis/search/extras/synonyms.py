"""Synonyms for the words lane: from a table of software terms, a table of the user's, and WordNet.

They depend on the question alone, come in a fixed order, and count less than its own words. A table is a
text file with a group on each line, its words separated by commas; a `#` starts a comment. A synonym of
several words is taken only if each of them is a word to search for ("pull request", but not "log in",
which would be found by every log).
"""

import mmap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path

from tamis.errors import BadSetting
from tamis.text.words import words

Phrase = tuple[str, ...]  # by its stems
Groups = Mapping[Phrase, tuple[str, ...]]  # from a phrase to its synonyms

_LONGEST = 3  # words of a phrase
_MOST_OF_GROUPS = 4  # synonyms of one phrase from tables
_SENSES = 2  # the first two of WordNet's
_MOST_OF_SENSES = 2  # words of them
_LARGEST_FILE = 10_000_000
# Endings of inflected forms and of their base forms, by part of speech, in the order of asking.
_ENDINGS = {
    "noun": "ses>s xes>x zes>z ches>ch shes>sh ies>y s>",
    "verb": "ies>y es>e es> s> ed>e ed> ing>e ing>",
    "adj": "er> est> er>e est>e",
    "adv": "",
}


@dataclass(frozen=True, slots=True)
class WordNet:
    """A folder of WordNet's dictionary files."""

    folder: Path = Path("/usr/share/wordnet")
    _files: dict[str, mmap.mmap] = field(
        default_factory=dict, compare=False, repr=False
    )

    def senses(self, word: str) -> Iterator[tuple[str, ...]]:
        """Yield the words of each sense, nouns before verbs before others, the most usual sense first."""
        written = word.lower().replace(" ", "_")
        for part, endings in _ENDINGS.items():
            forms = [written]
            for ending in endings.split():
                old, _, new = ending.partition(">")
                if written.endswith(old) and len(written) > len(old) + 1:
                    forms.append(written.removesuffix(old) + new)
            index = self._file(f"index.{part}")
            for form in forms:
                line = bisected(index, form.encode("utf-8", "surrogatepass"))
                if line is not None:
                    yield from self._senses(part, line)
                    break

    def _senses(self, part: str, line: bytes) -> Iterator[tuple[str, ...]]:
        """`lemma pos synset_cnt p_cnt [symbol...] sense_cnt tagsense_cnt offset...`"""
        data = self._file(f"data.{part}")
        try:
            fields = line.split()
            for offset in map(int, fields[6 + int(fields[3]) :]):
                yield _sense(data, offset)
        except (ValueError, IndexError) as error:
            entry = line[:60].decode("utf-8", "replace")
            problem = f"{part} {entry!r} is not in WordNet's form"
            raise self._no_dictionary(problem) from error

    def _file(self, name: str) -> mmap.mmap:
        if name not in self._files:
            try:
                with (self.folder / name).open("rb") as source:
                    pages = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError) as error:
                problem = f"{name} cannot be read ({error})"
                raise self._no_dictionary(problem) from error
            self._files[name] = pages
        return self._files[name]

    def _no_dictionary(self, problem: str) -> BadSetting:
        message = f"{self.folder} is no WordNet dictionary: {problem}"
        return BadSetting(message, hint="install the package wordnet-base")


def _sense(data: mmap.mmap, offset: int) -> tuple[str, ...]:
    """`offset lex_filenum ss_type w_cnt word lex_id [word lex_id...] ...`, w_cnt in base 16."""
    end = data.find(b"\n", offset)
    if end < 0:
        end = len(data)
    fields = data[offset:end].decode("utf-8").split()
    count = int(fields[3], 16)
    listed = fields[4 : 4 + 2 * count : 2]
    if fields[0] != f"{offset:08}" or len(listed) != count:
        raise ValueError(offset)
    found = []
    for word in listed:
        plain = word.partition("(")[0]  # `dead(p)` has a marker
        found.append(plain.replace("_", " ").lower())
    return tuple(found)


def bisected(pages: mmap.mmap | bytes, word: bytes) -> bytes | None:
    """Find the line that begins with the word, in a file whose lines are sorted by their first words."""
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
        if found < word:
            low = end + 1
        else:
            high = start
    return None


@dataclass(frozen=True, slots=True)
class Synonyms:
    """The sources of synonyms."""

    groups: Groups
    dictionary: WordNet | None = None

    @classmethod
    def of(cls, chosen: str, root: Path) -> "Synonyms":
        """Open what `search.synonyms` names: the table of software terms, WordNet too, or a file."""
        if chosen == "software":
            return cls(grouped(software()))
        if chosen == "wordnet":
            return cls(grouped(software()), WordNet())
        own = root / Path(chosen).expanduser()
        return cls(grouped(_read(own)))

    def words(self, text: str) -> tuple[str, ...]:
        """Return the synonyms of the words of a text, in their order, each once."""
        asked = words(text)
        synonyms: list[str] = []
        for at in range(len(asked)):
            for length in range(_LONGEST, 0, -1):
                phrase = tuple(asked[at : at + length])
                synonyms += self.groups.get(phrase, ())[:_MOST_OF_GROUPS]
        synonyms += self._of_dictionary(text)
        found: dict[Phrase, str] = {}
        for synonym in synonyms:
            stems = simple(synonym)
            if stems and not set(stems) <= set(asked):
                found.setdefault(stems, synonym)
        return tuple(found.values())

    def _of_dictionary(self, text: str) -> Iterator[str]:
        """Yield the first words of each word's first senses, as the first design has it."""
        if self.dictionary is None:
            return
        for written in dict.fromkeys(text.lower().split()):
            word = written.strip("\"'`.,;:!?()[]{}")
            stems = words(word)
            if len(stems) != 1:
                continue
            others: dict[str, None] = {}
            for sense in islice(self.dictionary.senses(word), _SENSES):
                for other in sense[:_MOST_OF_SENSES]:
                    if words(other) != stems and simple(other):
                        others[other] = None
            yield from islice(others, _MOST_OF_SENSES)


def simple(synonym: str) -> Phrase:
    """Return a synonym's stems; none if it is long, or if one of its words is not searched for."""
    stems = tuple(words(synonym))
    return stems if len(stems) == len(synonym.split()) <= _LONGEST else ()


def grouped(groups: Iterable[tuple[str, ...]]) -> Groups:
    """Map each phrase to the others of its groups, in the order of the groups."""
    found: dict[Phrase, dict[str, None]] = {}
    for group in groups:
        for phrase in group:
            others = (other for other in group if other != phrase)
            found.setdefault(simple(phrase), {}).update(dict.fromkeys(others))
    found.pop((), None)
    return {phrase: tuple(others) for phrase, others in found.items()}


def parsed(text: str) -> list[tuple[str, ...]]:
    """Return the groups of a table."""
    groups = []
    for line in text.lower().splitlines():
        written = line.partition("#")[0].split(",")
        phrases = (" ".join(each.split()) for each in written)
        group = tuple(dict.fromkeys(filter(None, phrases)))
        if len(group) > 1:
            groups.append(group)
    return groups


@cache
def software() -> list[tuple[str, ...]]:
    return parsed(
        files("tamis.search.extras").joinpath("software.txt").read_text("utf-8")
    )


def _read(file: Path) -> list[tuple[str, ...]]:
    """Read the user's own table."""
    setting = "search.synonyms"
    try:
        with file.open("rb") as source:
            data = source.read(_LARGEST_FILE + 1)
    except OSError as error:
        message = f"{setting}: cannot read {file}: {error.strerror}"
        hint = "allowed: off, software, wordnet, or the path of a file of your own"
        raise BadSetting(message, hint=hint) from error
    if len(data) > _LARGEST_FILE:
        message = f"{setting}: {file} is too large"
        raise BadSetting(message, hint="10 MB are the most")
    try:
        return parsed(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        message = f"{setting}: {file} is not UTF-8 text"
        raise BadSetting(message, hint="save it as UTF-8") from error
