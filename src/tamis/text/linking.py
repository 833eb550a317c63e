"""Targets of links: the document, of those that are allowed, that a reference means.

A link is stored as it is written. It leads to the document that fits it best, and how well a
document fits depends on the link and that document alone, not on other documents. So resolving
links among the documents that a filter allows gives the same as an index of those alone, and a
link whose target does not exist yet fits nothing.

The order is Obsidian's for notes: the exact path, then any document whose path ends so, the nearest
first, then aliases. Markdown links are paths first; imports stay within their language.
"""

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from tamis.model import Link
from tamis.query.filters import folded
from tamis.text.languages import (
    KNOWN_EXTENSIONS,
    PROSE,
    extension,
    file_name,
    language_of,
    without_known_extension,
)

# Raise it if the same link looks for another key: indexes made before are then out of date.
LINKS_VERSION: Final = 1

# Files that links may mean by the name of their folder.
_FOLDER_PAGES: Final = frozenset({"index", "_index", "readme", "__init__", "mod"})
# Languages whose files import each other.
_FAMILY: Final = {
    "typescript": "javascript",
    "vue": "javascript",
    "cpp": "c",
    "kotlin": "java",
    "scala": "java",
}

# How a text names a document: a whole path, the end of one, another name, or (in Go) a folder.
NameKind = Literal["form", "suffix", "alias", "package", "package suffix"]


@dataclass(frozen=True, slots=True)
class Named:
    """A document with the names that links may use for it."""

    path: str
    full: str  # the path, folded
    forms: tuple[str, ...]  # spellings of the path, folded
    folder: tuple[str, ...]
    aliases: frozenset[str]

    @property
    def package(self) -> str:
        """The folder as an import in Go names it; empty for other languages."""
        if extension(self.path) != ".go":
            return ""
        return "/".join(self.folder)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One reading of a link: the name that a document must have for it."""

    text: str
    kind: NameKind


@lru_cache(maxsize=1 << 16)
def named(path: str, aliases: tuple[str, ...] = ()) -> Named:
    """Return a document with its names."""
    full = folded(path)
    bare = folded(without_known_extension(path))
    forms = [full, bare]
    folder, _, stem = bare.rpartition("/")
    if folder and stem in _FOLDER_PAGES:
        forms.append(folder)
    folders = tuple(full.split("/")[:-1])
    return Named(path, full, tuple(forms), folders, frozenset(map(folded, aliases)))


def names_of(path: str, aliases: tuple[str, ...]) -> frozenset[str]:
    """Return the keys of a document: every link that fits it has one of them."""
    document = named(path, aliases)
    keys = set()
    for name in (*document.forms, document.package, *document.aliases):
        text = _slashed(name)
        keys.add(_last(text))
        keys.add(_key(text))
    return frozenset(keys - {""})


def key_of(link: Link, source: str) -> str:
    """Return the key that a link looks for: the last part of its path, in each of its readings."""
    texts = [_slashed(reading.text) for reading in _readings(link, source)]
    ends = [text for text in texts if text and _last(text) not in (".", "..")]
    if not ends:
        return ""
    keys = set(map(_key, ends))
    if len(keys) == 1:
        return keys.pop()
    return _last(ends[0])


def _key(text: str) -> str:
    """Return the last part; with its folder if every other folder has such a file."""
    key = _last(text)
    folder = file_name(text.rpartition("/")[0])
    if folder and key in _FOLDER_PAGES:
        return f"{folder}/{key}"
    return key


class Directory:
    """Documents by all of their names, so that a link finds its target among thousands."""

    def __init__(self, documents: Iterable[Named]) -> None:
        self._by_name: dict[tuple[NameKind, str], list[Named]] = defaultdict(list)
        self._nearest: dict[tuple[NameKind, str, str], _Nearest] = {}
        for document in documents:
            for kind, name in _names(document):
                self._by_name[kind, name].append(document)

    def resolve(self, link: Link, source: str) -> str | None:
        """Return the path of the document that a link of `source` leads to."""
        importer = ""
        if link.type == "import":
            importer = extension(source)
            if _family(source) is None:
                return None
        folder = named(source).folder
        for reading in _readings(link, source):
            if reading.text:
                found = self._table(reading, importer, source).best(folder)
                if found:
                    return found
        return None

    def _table(self, reading: _Reading, importer: str, source: str) -> "_Nearest":
        key = (reading.kind, reading.text, importer)
        if key not in self._nearest:
            documents = list(self._by_name.get((reading.kind, reading.text), ()))
            if importer == ".go" and reading.kind == "form":
                documents += self._by_name.get(("package", reading.text), ())
            if importer == ".go" and reading.kind == "suffix":
                documents += self._by_name.get(("package suffix", reading.text), ())
            if importer:
                family = _family(source)
                documents = [one for one in documents if _family(one.path) == family]
            self._nearest[key] = _Nearest(documents, reading, importer)
        return self._nearest[key]


def _names(document: Named) -> Iterator[tuple[NameKind, str]]:
    """Yield all names of a document."""
    suffixes: set[str] = set()
    for form in document.forms:
        yield "form", form
        suffixes.update(_endings(form))
    for suffix in suffixes:
        yield "suffix", suffix
    for alias in document.aliases:
        yield "alias", alias
    # An import in Go means a folder; the link leads to the first of its files.
    if document.package and document.package not in document.forms:
        yield "package", document.package
        for ending in _endings(document.package):
            yield "package suffix", ending


class _Nearest:
    """Documents of one name: the best below each folder, those of the right kind first."""

    def __init__(
        self, documents: Iterable[Named], reading: _Reading, importer: str
    ) -> None:
        # By mismatch of the kind and folder: steps down, depth and path.
        self._below: dict[tuple[bool, tuple[str, ...]], tuple[int, int, str]] = {}
        for document in documents:
            mismatch = not _is_meant(document, reading, importer)
            depth = len(document.folder)
            for above in range(depth + 1):
                key = (mismatch, document.folder[:above])
                here = (depth - above, depth, document.path)
                self._below[key] = min(here, self._below.get(key, here))

    def best(self, folder: tuple[str, ...]) -> str | None:
        """Choose by kind; then below the folder; then by steps away; then by depth and path."""
        for mismatch in (False, True):
            inside = self._below.get((mismatch, folder))
            if inside:
                return inside[-1]
            around = []
            for above in range(len(folder)):
                below = self._below.get((mismatch, folder[:above]))
                if below:
                    steps, depth, path = below
                    around.append((len(folder) - above + steps, depth, path))
            if around:
                return min(around)[-1]
        return None


def _is_meant(document: Named, reading: _Reading, importer: str) -> bool:
    """Return True for the kind of document that is meant, if several have the same name."""
    if reading.kind == "alias" or f"/{document.full}".endswith(f"/{reading.text}"):
        return True
    if importer:
        return importer == extension(document.path)
    return extension(document.path) in PROSE


def _readings(link: Link, source: str) -> Iterator[_Reading]:
    """Yield the readings of a link, best first."""
    written = folded(link.target)
    target = _slashed(written)
    rest = target.lstrip("/")
    if not rest:
        return
    if target.startswith("/"):
        yield _Reading(rest, "form")
        if link.type != "import":
            yield _Reading(rest, "suffix")
    elif link.type == "import":
        yield from _import_readings(target, source)
    elif link.type == "markdown" or _is_relative(target):
        # A path from the document's own folder; in Markdown, as in Obsidian, a name is enough.
        yield _Reading(_beside(source, target), "form")
        is_name = not _is_relative(target) and ".." not in target.split("/")
        is_page = _last(target) in _FOLDER_PAGES
        if link.type == "markdown" and is_name and not is_page:
            yield _Reading(target, "form")
            yield _Reading(target, "suffix")
    else:
        yield _Reading(target, "form")
        yield _Reading(_beside(source, target), "form")
        yield _Reading(target, "suffix")
        yield _Reading(written, "alias")


def _import_readings(target: str, source: str) -> Iterator[_Reading]:
    """Yield the readings of an import; a bare name is a module of this folder or one above it."""
    if "/" in target or extension(target) in KNOWN_EXTENSIONS:
        yield _Reading(target, "form")
        yield _Reading(target, "suffix")
    else:
        folder = named(source).folder
        for depth in range(len(folder), -1, -1):
            yield _Reading("/".join((*folder[:depth], target)), "form")
    if extension(source) == ".go":
        # The address of the module comes before its own folders.
        for ending in _endings(target):
            yield _Reading(ending, "package")


def _endings(form: str) -> Iterator[str]:
    """Yield the ends of a path: `a/b/c` -> `a/b/c`, `b/c`, `c`."""
    rest = form
    while rest:
        yield rest
        rest = rest.partition("/")[2]


def _slashed(text: str) -> str:
    if not text.strip("/\\"):
        return ""
    return text.replace("\\", "/").strip().rstrip("/")


def _is_relative(target: str) -> bool:
    return target.startswith(("./", "../")) or target in (".", "..")


def _beside(source: str, target: str) -> str:
    """Return the path that a target means from its document's folder; empty if it is outside."""
    folder = "/".join(named(source).folder)
    path = posixpath.normpath(posixpath.join(folder, target.lstrip("/")))
    if path in (".", "..") or path.startswith("../"):
        return ""
    return path


def _last(path: str) -> str:
    return without_known_extension(file_name(path))


def _family(path: str) -> str | None:
    language = language_of(path)
    return _FAMILY.get(language or "", language)
