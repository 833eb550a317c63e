"""Links: the targets that texts write, and the documents that they mean.

Links that leave the corpus are dropped when they are read: those to another scheme or host, and
those that are only an anchor in their own document. The others are stored as they are written.

A link leads to the document that fits it best, of those that are allowed, and how well a document
fits depends on the link and that document alone, not on other documents. So resolving links among
the documents that a filter allows gives the same as an index of those alone, and a link whose target
does not exist yet fits nothing.

The order is Obsidian's for notes: the exact path, then any document whose path ends so, the nearest
first, then aliases. Markdown links are paths first; imports stay within their language.
"""

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple

from tamis.model import FrontMatter, Link
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
LINKS_VERSION = 1

# One letter is no scheme: `c:` is a disk.
_ELSEWHERE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:|//")
# The name of a note may contain a colon.
_NO_NAME = re.compile(r"[\w+.-]+://|//|mailto:", re.IGNORECASE)
_ENCODED = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_WIKI = re.compile(r"\[\[([^\[\]\n]+)\]\]")
# Files that links may mean by the name of their folder.
_FOLDER_PAGES = frozenset({"index", "_index", "readme", "__init__", "mod"})
# Languages whose files import each other.
_FAMILY = {
    "typescript": "javascript",
    "vue": "javascript",
    "cpp": "c",
    "kotlin": "java",
    "scala": "java",
}

Target = tuple[str, str]  # a path or name, and the anchor behind it
# How a text names a document: a whole path, the end of one, another name, or (in Go) a folder.
NameKind = Literal["form", "suffix", "alias", "package", "package suffix"]
Name = tuple[NameKind, str]
# An import in Go means a folder.
_PACKAGE: Mapping[NameKind, NameKind] = {
    "form": "package",
    "suffix": "package suffix",
}
_Place = tuple[int, int, str]  # steps down from a folder, depth and path


# --- Targets as they are written --------------------------------------------------------


def document_target(url: str) -> Target | None:
    """Decode a Markdown URL and drop its query; `./`, `../` and `/` stay as written."""
    if _ELSEWHERE.match(url):
        return None
    return _path_target(url)


def _path_target(url: str) -> Target | None:
    path, _, anchor = url.partition("#")
    path = path.partition("?")[0]
    path = _ENCODED.sub(_decoded, path).strip()
    if not path:
        return None
    return path, _ENCODED.sub(_decoded, anchor).strip()


def _decoded(found: re.Match[str]) -> str:
    """Decode `%20`; bytes that are no UTF-8 become the replacement character."""
    hexadecimal = found[0].replace("%", "")
    return bytes.fromhex(hexadecimal).decode("utf-8", "replace")


def wiki_target(inside: str) -> Target | None:
    """Read the text between `[[` and `]]`: `Note#Heading|text`. A table writes the bar as `\\|`."""
    name = inside.partition("|")[0]
    name = name.rstrip().removesuffix("\\")
    name, _, anchor = name.partition("#")
    name = name.strip()
    if not name or "\n" in inside or _NO_NAME.match(name):
        return None
    return name, anchor.strip()


def front_links(front: FrontMatter) -> list[Link]:
    """Return the links of the whole document: `related`, and wiki links in other properties."""
    links = [Link("related", *target) for target in _targets(front.related)]
    links += [Link("wikilink", *target) for target in _targets(front.links)]
    return list(dict.fromkeys(links))


def _targets(texts: Iterable[str]) -> Iterator[Target]:
    for text in texts:
        targets = [wiki_target(inside) for inside in _WIKI.findall(text)]
        if not targets:  # a path, or the name of a note
            name = text.partition("|")[0].strip()
            if not _NO_NAME.match(name):
                targets = [_path_target(name)]
        yield from filter(None, targets)


# --- Keys -------------------------------------------------------------------------------


class Named(NamedTuple):
    """A document with the names that links may use for it."""

    path: str
    full: str  # the path, folded
    forms: tuple[str, ...]  # spellings of the path, folded
    folder: tuple[str, ...]
    aliases: frozenset[str]
    package: str  # the folder as an import in Go names it; empty for other languages


@lru_cache(maxsize=1 << 16)
def named(path: str, aliases: tuple[str, ...] = ()) -> Named:
    """Return a document with its names."""
    full = folded(path)
    bare = folded(without_known_extension(path))
    forms = [full, bare]
    folder, _, stem = bare.rpartition("/")
    if folder and stem in _FOLDER_PAGES:
        forms.append(folder)
    *above, _ = full.split("/")
    package = ""
    if extension(path) == ".go":
        package = "/".join(above)
    return Named(
        path=path,
        full=full,
        forms=tuple(forms),
        folder=tuple(above),
        aliases=frozenset(map(folded, aliases)),
        package=package,
    )


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
    ends = []
    for _, reading in _readings(link, source):
        text = _slashed(reading)
        if text and _last(text) not in (".", ".."):
            ends.append(text)
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


# --- Documents that links mean ----------------------------------------------------------


class Directory:
    """Documents by all of their names, so that a link finds its target among thousands."""

    def __init__(self, documents: Iterable[Named]) -> None:
        self._by_name: dict[Name, list[Named]] = defaultdict(list)
        self._nearest: dict[tuple[Name, str], _Nearest] = {}
        for document in documents:
            for name in _names(document):
                self._by_name[name].append(document)

    def resolve(self, link: Link, source: str) -> str | None:
        """Return the path of the document that a link of `source` leads to."""
        importer = ""
        if link.type == "import":
            importer = extension(source)
            if _family(source) is None:
                return None
        folder = named(source).folder
        for reading in _readings(link, source):
            found = self._table(reading, importer, source).best(folder)
            if found:
                return found
        return None

    def _table(
        self,
        reading: Name,
        importer: str,
        source: str,
    ) -> "_Nearest":
        if (reading, importer) not in self._nearest:
            kind, text = reading
            documents = list(self._by_name.get(reading, ()))
            if importer == ".go" and kind in _PACKAGE:
                package = (_PACKAGE[kind], text)
                documents += self._by_name.get(package, ())
            if importer:
                family = _family(source)
                documents = [one for one in documents if _family(one.path) == family]
            self._nearest[reading, importer] = _Nearest(documents, reading, importer)
        return self._nearest[reading, importer]


def _names(document: Named) -> Iterator[Name]:
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
        self,
        documents: Iterable[Named],
        reading: Name,
        importer: str,
    ) -> None:
        # By mismatch of the kind and folder.
        self._below: dict[tuple[bool, tuple[str, ...]], _Place] = {}
        kind, text = reading
        meant = {importer} if importer else PROSE
        for document in documents:
            is_whole = kind == "alias" or f"/{document.full}".endswith(f"/{text}")
            mismatch = not is_whole and extension(document.path) not in meant
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
                    steps += len(folder) - above
                    around.append((steps, depth, path))
            if around:
                return min(around)[-1]
        return None


def _readings(link: Link, source: str) -> Iterator[Name]:
    """Yield the names that a document may have for a link to mean it, best first."""
    written = folded(link.target)
    target = _slashed(written)
    rest = target.lstrip("/")
    if not rest:
        return
    is_import = link.type == "import"
    is_relative = target.startswith(("./", "../")) or target in (".", "..")
    if target.startswith("/"):
        yield "form", rest
        if not is_import:
            yield "suffix", rest
    elif is_import:
        yield from _import_readings(target, source)
    elif link.type == "markdown" or is_relative:
        # A path from the document's own folder; in Markdown, as in Obsidian, a name is enough.
        yield from _beside(source, target)
        is_name = not is_relative and ".." not in target.split("/")
        if is_name and _last(target) not in _FOLDER_PAGES:
            yield "form", target
            yield "suffix", target
    else:
        yield "form", target
        yield from _beside(source, target)
        yield "suffix", target
        yield "alias", written


def _import_readings(target: str, source: str) -> Iterator[Name]:
    """Yield the readings of an import; a bare name is a module of this folder or one above it."""
    if "/" in target or extension(target) in KNOWN_EXTENSIONS:
        yield "form", target
        yield "suffix", target
    else:
        folder = named(source).folder
        for depth in range(len(folder), -1, -1):
            above = folder[:depth]
            yield "form", "/".join((*above, target))
    if extension(source) == ".go":
        # The address of the module comes before its own folders.
        for ending in _endings(target):
            yield "package", ending


def _beside(source: str, target: str) -> Iterator[Name]:
    """Yield the path that a target means from its document's folder, unless it is outside."""
    folder = "/".join(named(source).folder)
    path = posixpath.normpath(posixpath.join(folder, target))
    if path not in (".", "..") and not path.startswith("../"):
        yield "form", path


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


def _last(path: str) -> str:
    return without_known_extension(file_name(path))


def _family(path: str) -> str | None:
    language = language_of(path)
    return _FAMILY.get(language or "", language)
