"""Markdown as HTML that a page may show. nh3, which takes out what is not on a list, lives behind this file.

Documents are written by strangers. What passes is text with structure: no script, no style, no form, no
frame, no attribute but the few below, no address but those of documents here and of pages elsewhere, which
nobody asks before somebody follows the link. Pictures are not loaded: their text stands for them, and nothing
for one without.
"""

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

import nh3

from tamis.ingest.documents.markdown import LINE_MARK, markdown_html
from tamis.live.browse import Reading

_TAGS: Final = {
    "a", "abbr", "b", "blockquote", "br", "caption", "cite", "code", "dd", "del", "details", "div", "dl",
    "dt", "em", "figcaption", "figure", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "ins", "kbd",
    "li", "mark", "ol", "p", "pre", "q", "s", "samp", "small", "span", "strong", "sub", "summary", "sup",
    "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u", "ul", "var",
}  # fmt: skip
_ATTRIBUTES: Final = {
    "a": {"href"},
    "code": {"class"},
    "hr": {"data-line"},
    "img": {"alt"},
    "ol": {"start"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan"},
}
_DROPPED: Final = {
    "script", "style", "template", "iframe", "object", "embed", "noscript", "svg", "math", "textarea",
    "select", "title", "xmp", "noembed", "noframes",
}  # fmt: skip
_NUMBER: Final = re.compile(r"\d{1,9}")
_CLASS: Final = re.compile(r"language-[\w+#.-]{1,40}")
_ELSEWHERE: Final = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_MARKED: Final = re.compile(LINE_MARK.format(r"(\d+)") + r"\s*<([a-z]\w*)")
_MUTE: Final = re.compile(
    r'<img(?: data-line="\d+")?>'
)  # a picture without a text; what is text has `&lt;`
_ALONE: Final = re.compile(LINE_MARK.format(r"\d+") + r"\s*")


def document_html(document: Reading, address: Callable[[str, str], str]) -> str:
    """Blocks have `data-line`, the line they begin in. `address` is where a document of ours is shown."""
    unsafe = markdown_html(document.text, document.start_line)
    clean = nh3.clean(
        unsafe,
        tags=_TAGS,
        clean_content_tags=_DROPPED,
        attributes=_ATTRIBUTES,
        attribute_filter=lambda _, name, value: _allowed(
            document, address, name, value
        ),
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer",
    )
    return _MUTE.sub("", _ALONE.sub("", _MARKED.sub(r'<\2 data-line="\1"', clean)))


def _allowed(
    document: Reading, address: Callable[[str, str], str], name: str, value: str
) -> str | None:
    if name == "href":
        return _href(document, address, value)
    if name == "class":
        return value if _CLASS.fullmatch(value) else None
    return value if name in ("alt", "rel") or _NUMBER.fullmatch(value) else None


def _href(
    document: Reading, address: Callable[[str, str], str], url: str
) -> str | None:
    if _ELSEWHERE.match(url):
        return url
    path = document.leads_to(url)
    return None if path is None else address(path, url.partition("#")[2])


def page_address(root: str | None) -> Callable[[str, str], str]:
    """Where the page shows a document: `/?doc=docs/api.md`."""
    of = f"&root={quote(root)}" if root is not None else ""
    return lambda path, anchor: (
        f"/?doc={quote(path)}{of}" + (f"#{quote(anchor)}" if anchor else "")
    )
