"""What a link says it leads to, as written. Which document that is, is not decided here.

A link counts when it could lead to a document of the corpus: no other scheme or host, and not only
an anchor in its own document.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tamis.model import FrontMatter, Link

Target = tuple[str, str]  # a path or name, and the anchor behind it

_ELSEWHERE: Final = re.compile(
    r"[a-zA-Z][a-zA-Z0-9+.-]+:|//"
)  # one letter is no scheme: `c:` is a disk
_NO_NAME: Final = re.compile(
    r"[\w+.-]+://|//|mailto:", re.IGNORECASE
)  # a note may have a colon in its name
_ENCODED: Final = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_WIKI: Final = re.compile(r"\[\[([^\[\]\n]+)\]\]")


def document_target(url: str) -> Target | None:
    """Of a URL as Markdown has it: decoded, without its query; `./`, `../` and `/` stay as written."""
    return None if _ELSEWHERE.match(url) else _path_target(url)


def _path_target(url: str) -> Target | None:
    path, _, anchor = url.partition("#")
    path = _decoded(path.partition("?")[0]).strip()
    return (path, _decoded(anchor).strip()) if path else None


def _decoded(part: str) -> str:
    """`a%20b` -> `a b`; bytes that are no UTF-8 become the sign for that."""
    if "%" not in part:
        return part
    return _ENCODED.sub(
        lambda found: bytes.fromhex(found[0].replace("%", "")).decode(
            "utf-8", "replace"
        ),
        part,
    )


def wiki_target(inside: str) -> Target | None:
    """Of what stands between `[[` and `]]`: `Note#Heading|text`. In a table the bar is written `\\|`."""
    name, _, anchor = (
        inside.partition("|")[0].rstrip().removesuffix("\\").partition("#")
    )
    name = name.strip()
    return (
        (name, anchor.strip())
        if name and "\n" not in inside and not _NO_NAME.match(name)
        else None
    )


def wiki_texts(text: str) -> list[str]:
    """What stands between double brackets."""
    return _WIKI.findall(text) if "[[" in text else []


def front_links(front: FrontMatter) -> list[Link]:
    """The links of the whole document: what it says it is related to, and those in its other properties."""
    related = [Link("related", *target) for target in _targets(front.related)]
    others = [Link("wikilink", *target) for target in _targets(front.links)]
    return list(dict.fromkeys(related + others))


def _targets(texts: Iterable[str]) -> Iterator[Target]:
    for text in texts:
        found = wiki_texts(text)
        targets = (
            map(wiki_target, found)
            if found
            else [_related_target(text.partition("|")[0].strip())]
        )
        yield from (target for target in targets if target)


def _related_target(text: str) -> Target | None:
    """Of a path or the name of a note."""
    return None if _NO_NAME.match(text) else _path_target(text)
