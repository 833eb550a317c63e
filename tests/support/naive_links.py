"""Who a link leads to, by holding it against every document: the oracle of link resolution.

A link is read as an ordered list of attempts (a text, and how it must fit); a document fits by the
first attempt that holds. Of the documents that fit, the one with the smallest rank is meant. Nothing
here calls the engine; what it takes from tamis is the table of extensions.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from tamis.model import Document, Link
from tamis.text.languages import (
    KNOWN_EXTENSIONS,
    PROSE,
    extension,
    language_of,
    without_known_extension,
)

INDEX_NAMES = ("index", "_index", "readme", "__init__", "mod")
FAMILIES = (
    ("javascript", "typescript", "vue"),
    ("c", "cpp"),
    ("java", "kotlin", "scala"),
)


@dataclass(frozen=True)
class Attempt:
    """A text that a document may fit: as one of its forms, as the end of one, or as an alias."""

    grade: int
    text: str
    how: Literal["is", "ends", "alias", "package"]


@dataclass(frozen=True, order=True)
class Rank:
    """How well a document fits a link; smaller is better."""

    grade: int
    kind: int
    away: int
    steps: int
    depth: int
    path: str


def fits(link: Link, source: str, documents: Sequence[Document]) -> list[Rank]:
    """The documents that a link could mean, the one it does mean first."""
    attempts = list(_attempts(link, folded(source)))
    ranks = (_rank(link, source, document, attempts) for document in documents)
    return sorted(rank for rank in ranks if rank is not None)


def folded(text: str) -> str:
    return _nfc(_nfc(text).casefold())


def _nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _attempts(link: Link, source: str) -> Iterator[Attempt]:
    written = folded(link.target.strip())
    target = written.replace("\\", "/").removesuffix("/")
    if not target:
        return
    beside = beneath(_folder(source), target)
    if target.startswith("/"):
        yield Attempt(0, target[1:], "is")
        if link.type != "import":
            yield Attempt(2, target[1:], "ends")
    elif link.type == "import":
        if "/" in target or extension(target) in KNOWN_EXTENSIONS:
            yield Attempt(0, target, "is")
            yield Attempt(2, target, "ends")
        else:
            folder = _folder(source)
            for up in range(folder.count("/") + 2 if folder else 1):
                yield Attempt(3 + up, beneath(folder, "../" * up + target), "is")
        if source.endswith(".go"):
            parts = target.split("/")
            for at in range(len(parts)):
                yield Attempt(100 + at, "/".join(parts[at:]), "package")
    elif link.type == "markdown":
        yield Attempt(0, beside, "is")
        if _stem(target) not in INDEX_NAMES:
            yield Attempt(1, target, "is")
            yield Attempt(2, target, "ends")
    elif target.startswith(("./", "../")):
        yield Attempt(0, beside, "is")
    else:
        yield Attempt(0, target, "is")
        yield Attempt(1, beside, "is")
        yield Attempt(2, target, "ends")
        yield Attempt(3, written, "alias")


def beneath(folder: str, target: str) -> str:
    """A path read from a folder; empty, which is nobody's form, for one that leaves the root."""
    parts = folder.split("/") if folder else []
    for part in target.split("/"):
        if part == "..":
            if not parts:
                return ""
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def forms(path: str, *, to_go: bool) -> set[str]:
    """What a document may be called, `path` being folded."""
    named = {path, without_known_extension(path)}
    if _stem(path) in INDEX_NAMES or (to_go and path.endswith(".go")):
        named.add(_folder(path))
    return named - {""}


def _rank(
    link: Link, source: str, document: Document, attempts: Sequence[Attempt]
) -> Rank | None:
    path = folded(document.path)
    if link.type == "import" and not _are_family(source, document.path):
        return None
    named = forms(path, to_go=link.type == "import" and folded(source).endswith(".go"))
    aliases = {folded(alias.strip()) for alias in document.front.aliases}
    for attempt in attempts:
        is_package = (
            attempt.how == "package"
            and path.endswith(".go")
            and _folder(path) == attempt.text
        )
        if is_package or _holds(attempt, named, aliases):
            kind = 0 if _of_a_kind(link, source, path, attempt) else 1
            away, steps = _distance(_folder(folded(source)), _folder(path))
            return Rank(
                attempt.grade, kind, away, steps, path.count("/"), document.path
            )
    return None


def _holds(attempt: Attempt, named: set[str], aliases: set[str]) -> bool:
    if attempt.how == "alias":
        return attempt.text in aliases
    if attempt.how == "package":
        return False
    if not attempt.text:
        return False
    if attempt.how == "is":
        return attempt.text in named
    return any(name.endswith(f"/{attempt.text}") for name in named)


def _of_a_kind(link: Link, source: str, path: str, attempt: Attempt) -> bool:
    if attempt.how == "alias" or path == attempt.text:
        return True
    if attempt.how == "ends" and path.endswith(f"/{attempt.text}"):
        return True
    if link.type == "import":
        return extension(source) == extension(path)
    return extension(path) in PROSE | {".ipynb"}


def _are_family(source: str, path: str) -> bool:
    """Whether two files are in languages that import each other; prose imports nothing."""
    ours, theirs = language_of(source), language_of(path)
    alike = ours == theirs or any(
        ours in family and theirs in family for family in FAMILIES
    )
    return ours is not None and alike


def _distance(here: str, there: str) -> tuple[int, int]:
    """Whether a folder lies outside another one, and how many steps lead from one to the other."""
    up, down = (folder.split("/") if folder else [] for folder in (here, there))
    while up and down and up[0] == down[0]:
        up, down = up[1:], down[1:]
    return (1 if up else 0), len(up) + len(down)


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _stem(path: str) -> str:
    return without_known_extension(path.rpartition("/")[2])
