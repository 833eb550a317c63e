"""Who a link leads to: which document, of those there are, a reference means.

A link is kept as it was written. It leads to the document that fits it best, and how well one fits
depends on the link and that document alone, never on who else is there. So resolving among the
documents that a filter allows gives what an index of those alone would give, and a link whose target
is not there yet simply fits nothing.

The order is Obsidian's for notes: the exact path, then any document whose path ends so, the nearest
first, then aliases. Markdown links are paths first; imports stay within their language.
"""

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from tamis.model import Link
from tamis.query.filters import folded
from tamis.text.languages import (
    KNOWN_EXTENSIONS,
    PROSE,
    extension,
    language_of,
    without_known_extension,
)

# Raise whenever the same link would look for another key: an index made before is then out of date.
LINKS_VERSION: Final = 1

# Files that stand for their folder.
_FOR_FOLDER: Final = frozenset({"index", "_index", "readme", "__init__", "mod"})
_FAMILY: Final = {
    "typescript": "javascript", "vue": "javascript", "cpp": "c", "kotlin": "java", "scala": "java",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Named:
    """A document as links see it: by its path, by what stands for it, and by its other names."""

    path: str
    full: str  # the path, folded
    forms: tuple[str, ...]  # what the path may be written as, folded
    folder: tuple[str, ...]
    aliases: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Way:
    """One of the readings of a link: what a document must be called for it."""

    text: str
    by: str  # form, suffix, alias or package


@lru_cache(maxsize=1 << 16)
def named(path: str, aliases: tuple[str, ...] = ()) -> Named:
    full = folded(path)
    bare = folded(without_known_extension(path))
    folder, _, stem = bare.rpartition("/")
    stands = (folder,) if stem in _FOR_FOLDER and folder else ()
    parts = tuple(full.split("/")[:-1])
    return Named(
        path, full, (full, bare, *stands), parts, frozenset(map(folded, aliases))
    )


def names_of(path: str, aliases: tuple[str, ...]) -> frozenset[str]:
    """The keys that a document is found by: every link that fits it has one of them."""
    document = named(path, aliases)
    package = ("/".join(document.folder),) if extension(path) == ".go" else ()
    texts = [_slashed(text) for text in (*document.forms, *package, *document.aliases)]
    return frozenset(key for text in texts for key in (_last(text), _key(text)) if key)


def key_of(link: Link, source: str) -> str:
    """The key that a link looks for: the last part of the path it means, in each of its readings."""
    texts = [_slashed(way.text) for way in _ways(link, source)]
    ends = [text for text in texts if text and _last(text) not in (".", "..")]
    keys = {_key(text) for text in ends}
    return keys.pop() if len(keys) == 1 else _last(ends[0]) if ends else ""


def _key(text: str) -> str:
    """The last part; with the folder where that is a name that every other folder has."""
    key = _last(text)
    folder = text.rpartition("/")[0].rpartition("/")[2]
    return f"{folder}/{key}" if key in _FOR_FOLDER and folder else key


class Directory:
    """Documents by all that they are called, so that a link finds its own among thousands of one name."""

    def __init__(self, documents: Iterable[Named]) -> None:
        self._called: dict[tuple[str, str], list[Named]] = defaultdict(
            list
        )  # by way and text
        self._nearest: dict[tuple[str, str, str], _Nearest] = {}
        for document in documents:
            for form in document.forms:
                self._called["form", form].append(document)
            for ending in {
                ending for form in document.forms for ending in _endings(form)
            }:
                self._called["suffix", ending].append(document)
            for alias in document.aliases:
                self._called["alias", alias].append(document)
            if extension(document.path) == ".go":
                self._packages(document)

    def _packages(self, document: Named) -> None:
        """An import in Go means a folder; the link leads to the first of its files."""
        folder = "/".join(document.folder)
        if folder and folder not in document.forms:
            self._called["package", folder].append(document)
            for ending in _endings(folder):
                self._called["package suffix", ending].append(document)

    def resolve(self, link: Link, source: str) -> str | None:
        """The path of the document that a link of `source` leads to."""
        importer = extension(source) if link.type == "import" else ""
        if link.type == "import" and _family(source) is None:
            return None
        folder = named(source).folder
        for way in _ways(link, source):
            if way.text and (found := self._table(way, importer, source).best(folder)):
                return found
        return None

    def _table(self, way: _Way, importer: str, source: str) -> "_Nearest":
        key = (way.by, way.text, importer)
        if key not in self._nearest:
            documents = list(self._called.get((way.by, way.text), ()))
            if importer == ".go" and way.by != "package":
                also = {"form": "package", "suffix": "package suffix"}[way.by]
                documents += self._called.get((also, way.text), ())
            if importer:
                documents = [
                    each for each in documents if _family(each.path) == _family(source)
                ]
            self._nearest[key] = _Nearest(
                (_kind(way, importer, each), each) for each in documents
            )
        return self._nearest[key]


class _Nearest:
    """Documents of one name by the folders above them: the best below each, for each kind."""

    def __init__(self, documents: Iterable[tuple[int, Named]]) -> None:
        self._below: dict[tuple[int, tuple[str, ...]], tuple[int, int, str]] = {}
        for kind, document in documents:
            depth = len(document.folder)
            for above in range(depth + 1):
                key = (kind, document.folder[:above])
                here = (depth - above, depth, document.path)
                self._below[key] = min(here, self._below.get(key, here))

    def best(self, folder: tuple[str, ...]) -> str | None:
        """Kind first; then below the folder; then the fewest steps away; then depth and path."""
        for kind in (0, 1):
            if inside := self._below.get((kind, folder)):
                return inside[-1]
            around = (
                (len(folder) - above + below[0], *below[1:])
                for above in range(len(folder))
                if (below := self._below.get((kind, folder[:above])))
            )
            if nearest := min(around, default=None):
                return nearest[-1]
        return None


def _ways(link: Link, source: str) -> Iterator[_Way]:
    """The readings of a link, best first."""
    written = folded(link.target)
    target = _slashed(written)
    rest = target.lstrip("/")
    if not rest:
        return
    if target.startswith("/"):
        yield _Way(rest, "form")
        if link.type != "import":
            yield _Way(rest, "suffix")
    elif link.type == "import":
        yield from _import_ways(target, source)
    elif link.type == "markdown" or _is_relative(target):
        yield from _path_ways(target, source, link.type == "markdown")
    else:
        yield _Way(target, "form")
        yield _Way(_beside(source, target), "form")
        yield _Way(target, "suffix")
        yield _Way(written, "alias")


def _import_ways(target: str, source: str) -> Iterator[_Way]:
    """A bare name is a module of the same folder or of one above it, or somebody else's altogether."""
    if "/" in target or extension(target) in KNOWN_EXTENSIONS:
        yield _Way(target, "form")
        yield _Way(target, "suffix")
    else:
        folder = named(source).folder
        for depth in range(len(folder), -1, -1):
            yield _Way("/".join((*folder[:depth], target)), "form")
    if (
        extension(source) == ".go"
    ):  # what stands before the module's own folders is its address
        yield from (_Way(ending, "package") for ending in _endings(target))


def _path_ways(target: str, source: str, is_markdown: bool) -> Iterator[_Way]:
    """A path from the document's own folder; in Markdown, as in Obsidian, a name may stand for a path."""
    yield _Way(_beside(source, target), "form")
    is_plain = not _is_relative(target) and ".." not in target.split("/")
    if is_markdown and is_plain and _last(target) not in _FOR_FOLDER:
        yield _Way(target, "form")
        yield _Way(target, "suffix")


def _kind(way: _Way, importer: str, document: Named) -> int:
    """0 for the kind of document that is meant, where others are called the same."""
    if way.by == "alias" or _ends(document.full, way.text):
        return 0
    if importer:
        return int(importer != extension(document.path))
    return int(extension(document.path) not in PROSE)


def _endings(form: str) -> Iterator[str]:
    """`a/b/c` -> `a/b/c`, `b/c`, `c`."""
    yield form
    while (slash := form.find("/")) >= 0:
        form = form[slash + 1 :]
        yield form


def _ends(form: str, text: str) -> bool:
    return f"/{form}".endswith(f"/{text}")


def _slashed(text: str) -> str:
    return text.replace("\\", "/").strip().rstrip("/") if text.strip("/\\") else ""


def _is_relative(target: str) -> bool:
    return target.startswith(("./", "../")) or target in (".", "..")


def _beside(source: str, target: str) -> str:
    """The path that a target means from its document's folder; nothing where that is outside."""
    path = posixpath.normpath(
        posixpath.join("/".join(named(source).folder), target.lstrip("/"))
    )
    return "" if path == ".." or path.startswith("../") or path == "." else path


def _last(path: str) -> str:
    return without_known_extension(path.rsplit("/", 1)[-1])


def _family(path: str) -> str | None:
    language = language_of(path)
    return _FAMILY.get(language or "", language)
