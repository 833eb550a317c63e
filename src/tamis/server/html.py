"""Markdown as HTML that a page may show. nh3, which removes everything that is not allowed, lives behind this file.

Documents are written by strangers. Text with structure passes: no script, no style, no form, no
frame, no attribute but the few below, and no address but those of documents here and of pages
elsewhere, which a browser requests only when somebody follows the link. Pictures are not loaded:
their text replaces them.
"""

import re
from urllib.parse import quote

import nh3

from tamis.ingest.documents.markdown import LINE_MARK, markdown_html
from tamis.live.browse import Reading
from tamis.model import Link, LinkType
from tamis.text.linking import Directory, document_target

_TAGS = (
    "a abbr b blockquote br caption cite code dd del details div dl dt em figcaption figure "
    "h1 h2 h3 h4 h5 h6 hr i img ins kbd li mark ol p pre q s samp small span strong sub summary "
    "sup table tbody td tfoot th thead tr u ul var"
)
# Tags that are removed with everything inside.
_DROPPED = (
    "script style template iframe object embed noscript svg math textarea select title xmp noembed "
    "noframes"
)
_ATTRIBUTES = {
    "a": {"href"},
    "code": {"class"},
    "hr": {"data-line"},
    "img": {"alt"},
    "ol": {"start"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan"},
}
# The values that attributes may have; the others are numbers.
_ANY = re.compile(r".*", re.DOTALL)
_VALUES = {
    "alt": _ANY,
    "rel": _ANY,
    "class": re.compile(r"language-[\w+#.-]{1,40}"),
}
_NUMBER = re.compile(r"\d{1,9}")
_ELSEWHERE = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
# Links of these types look the same in HTML.
_KINDS: tuple[LinkType, ...] = ("markdown", "wikilink")
_LINE = re.compile(LINE_MARK.format(r"(\d+)") + r"\s*<([a-z]\w*)")
_STRAY_LINE = re.compile(LINE_MARK.format(r"\d+") + r"\s*")
# A picture without a text. In a text, `<` is `&lt;`.
_EMPTY_PICTURE = re.compile(r'<img(?: data-line="\d+")?>')


def document_html(document: Reading, directory: Directory, root: str | None) -> str:
    """Return a document for the page; `root` is part of its links if there are several.

    Blocks have `data-line`, the line where they begin.
    """

    def href(url: str) -> str | None:
        """Return the address of a link on the page, such as `/?doc=docs/api.md`; None for an unknown one."""
        if _ELSEWHERE.match(url):
            return url
        target = document_target(url)
        path = None
        if target:
            for kind in _KINDS:
                link = Link(kind, *target)
                path = path or directory.resolve(link, document.path)
        if path is None:
            return None
        address = f"/?doc={quote(path)}"
        if root is not None:
            address += f"&root={quote(root)}"
        anchor = url.partition("#")[2]
        if anchor:
            address += f"#{quote(anchor)}"
        return address

    def allowed(_: str, name: str, value: str) -> str | None:
        if name == "href":
            return href(value)
        if _VALUES.get(name, _NUMBER).fullmatch(value):
            return value
        return None

    clean = nh3.clean(
        markdown_html(document.text, document.start_line),
        tags=set(_TAGS.split()),
        clean_content_tags=set(_DROPPED.split()),
        attributes=_ATTRIBUTES,
        attribute_filter=allowed,
        url_schemes={"http", "https", "mailto"},
        link_rel="noopener noreferrer",
    )
    html = _LINE.sub(r'<\2 data-line="\1"', clean)
    html = _STRAY_LINE.sub("", html)
    return _EMPTY_PICTURE.sub("", html)
