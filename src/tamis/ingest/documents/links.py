"""Read the targets of links as they are written.

Links that leave the corpus are dropped: those to another scheme or host, and those that are only
an anchor in their own document. Which document a target leads to is decided at query time.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tamis.model import FrontMatter, Link

Target = tuple[str, str]  # a path or name, and the anchor behind it

# One letter is no scheme: `c:` is a disk.
_ELSEWHERE: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:|//")
# The name of a note may contain a colon.
_NO_NAME: Final = re.compile(r"[\w+.-]+://|//|mailto:", re.IGNORECASE)
_ENCODED: Final = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_WIKI: Final = re.compile(r"\[\[([^\[\]\n]+)\]\]")


def document_target(url: str) -> Target | None:
    """Decode a Markdown URL and drop its query; `./`, `../` and `/` stay as written."""
    if _ELSEWHERE.match(url):
        return None
    return _path_target(url)


def _path_target(url: str) -> Target | None:
    path, _, anchor = url.partition("#")
    path = path.partition("?")[0]
    if "%" in url:
        path = _ENCODED.sub(_decoded, path)
        anchor = _ENCODED.sub(_decoded, anchor)
    path = path.strip()
    if not path:
        return None
    return path, anchor.strip()


def _decoded(found: re.Match[str]) -> str:
    """Decode `%20`; bytes that are no UTF-8 become the replacement character."""
    hexadecimal = found[0].replace("%", "")
    return bytes.fromhex(hexadecimal).decode("utf-8", "replace")


def wiki_target(inside: str) -> Target | None:
    """Read the text between `[[` and `]]`: `Note#Heading|text`. A table writes the bar as `\\|`."""
    name = inside.partition("|")[0].rstrip().removesuffix("\\")
    name, _, anchor = name.partition("#")
    name = name.strip()
    if not name or "\n" in inside or _NO_NAME.match(name):
        return None
    return name, anchor.strip()


def wiki_texts(text: str) -> list[str]:
    """Return the texts between double brackets."""
    return _WIKI.findall(text)


def front_links(front: FrontMatter) -> list[Link]:
    """Return the links of the whole document: `related`, and wiki links in other properties."""
    related = [Link("related", *target) for target in _targets(front.related)]
    others = [Link("wikilink", *target) for target in _targets(front.links)]
    return list(dict.fromkeys(related + others))


def _targets(texts: Iterable[str]) -> Iterator[Target]:
    for text in texts:
        targets = [wiki_target(inside) for inside in wiki_texts(text)]
        if not targets:  # a path, or the name of a note
            name = text.partition("|")[0].strip()
            if not _NO_NAME.match(name):
                targets = [_path_target(name)]
        yield from filter(None, targets)
