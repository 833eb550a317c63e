"""What the HTTP API answers: each operation's reply, as JSON has it, with its tag. No HTTP in here.

A tag stands for all that an answer depends on besides its question: the generations of the indexes, and how
much of the files they know. Whoever has it and asks again is told so, without a search.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import tamis
from tamis.model import Advice
from tamis.request import SearchRequest
from tamis.server.api import LARGEST_PASSAGE
from tamis.server.mcp import Desk
from tamis.server.paging import Cursor, digest, read_cursor
from tamis.settings import EDITORS

if TYPE_CHECKING:
    from tamis.live.corpus import Freshness
    from tamis.live.roots import Page


Given = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered; without a body, that it is as it was."""

    body: Any
    tag: str = ""


class Replies:
    """From the roots of a desk, which agents are served from as well. Called in threads."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._several = len(desk.folders) > 1
        self._seconds = desk.settings.budget_ms / 1000
        self._of_operation: dict[str, Callable[[Given, str], Reply]] = {
            "search": self._search,
            "search_by_body": self._search,
            "documents": self._documents,
            "document": self._document,
            "passage": self._passage,
            "facets": self._facets,
            "graph": self._graph,
            "status": self._status,
            "refresh": self._refresh,
            "health": lambda _, __: Reply({"status": "ok"}),
        }

    def to(self, operation: str, given: Given, unless: str) -> Reply:
        """To these arguments, unless the answer still is what has this tag."""
        return self._of_operation[operation](given, unless)

    def _search(self, given: Given, unless: str) -> Reply:
        from tamis.live.roots import as_one

        if tag := self._as_it_was(given, unless):
            return Reply(None, tag)
        root, cursor, marked = (
            given.pop("root", None),
            given.pop("cursor", None),
            given.pop("marks", False),
        )
        limit = given.pop("limit", None)
        question = digest(given | {"root": root})
        place = read_cursor(cursor, question) if cursor is not None else Cursor(0)
        page = self._desk.opened().search(
            SearchRequest(**given, limit=limit), root, place.offset, self._seconds, None
        )
        body = as_one(page.found).to_dict() | {
            "results": self._results(
                page, self._desk.opened().words(given["query"]) if marked else ""
            ),
            "freshness": page.freshness.to_dict(),
            "hints": [hint.worded(_ADVICE) for hint in page.hints],
        }
        if place.generations and place.generations != page.generations:
            body["hints"] = [*body["hints"], _CHANGED]
        if page.has_more:
            body["next_cursor"] = str(
                Cursor(place.offset + len(page.results), question, page.generations)
            )
        return Reply(body, _tag(page.freshness, page.generations))

    def _results(self, page: "Page", marked: str) -> list[dict[str, Any]]:
        from tamis.search.explain import marks

        shown = []
        for each in page.results:
            plain = each.result.to_dict() | (
                {"root": each.root} if self._several else {}
            )
            if marked:
                plain["marks"] = marks(marked, each.result.content).to_dict()
            shown.append(plain)
        return shown

    def _documents(self, given: Given, unless: str) -> Reply:
        if tag := self._as_it_was(given, unless):
            return Reply(None, tag)
        root, cursor, limit = (
            given.pop("root", None),
            given.pop("cursor", None),
            given.pop("limit", 100),
        )
        question = digest(given | {"root": root})
        place = read_cursor(cursor, question) if cursor is not None else Cursor(0)
        freshness, generations = self._fresh(root)
        found = self._desk.opened().listed(_narrowing(given), root)
        shown = found[place.offset : place.offset + limit]
        body: dict[str, Any] = {
            "documents": [each.to_dict() | self._of(name) for name, each in shown],
            "total": len(found),
            "freshness": freshness.to_dict(),
        }
        if place.offset + limit < len(found):
            body["next_cursor"] = str(
                Cursor(place.offset + limit, question, generations)
            )
        return Reply(body, _tag(freshness, generations))

    def _of(self, root: str) -> dict[str, str]:
        return {"root": root} if self._several else {}

    def _document(self, given: Given, unless: str) -> Reply:
        """Its text is that of the file, which may be newer than the index: the tag is made of both."""
        from tamis.server.html import document_html, page_address

        root, path, html = (
            given.pop("root", None),
            given.pop("path"),
            given.pop("html", False),
        )
        freshness, generations = self._fresh(root)
        name, document = self._desk.opened().reading(path, _narrowing(given), root)
        tag = _tag(freshness, generations, document.text)
        if unless and unless == tag:
            return Reply(None, tag)
        folder = next(each.path for each in self._desk.folders if each.name == name)
        body = document.to_dict() | {
            "root": name,
            "file_path": str(folder / document.path),
        }
        if html and document.is_markdown:
            body["html"] = document_html(
                document, page_address(name if self._several else None)
            )
        return Reply(body, tag)

    def _passage(self, given: Given, unless: str) -> Reply:
        from tamis.live.browse import Wanted

        if tag := self._as_it_was(given, unless):
            return Reply(None, tag)
        root, roots = given.pop("root", None), self._desk.opened()
        _, generations = self._fresh(root)
        name, found, freshness = roots.passage(
            Wanted(**given), root, LARGEST_PASSAGE, self._seconds, None
        )
        body = found.to_dict() | {
            "root": name,
            "hints": [hint.worded(_ADVICE) for hint in found.hints],
            "freshness": freshness.to_dict(),
        }
        return Reply(body, _tag(freshness, generations))

    def _facets(self, given: Given, unless: str) -> Reply:
        if tag := self._as_it_was(given, unless):
            return Reply(None, tag)
        root = given.pop("root", None)
        freshness, generations = self._fresh(root)
        found = self._desk.opened().facets(_narrowing(given), root)
        return Reply(
            found.to_dict() | {"freshness": freshness.to_dict()},
            _tag(freshness, generations),
        )

    def _graph(self, given: Given, unless: str) -> Reply:
        if tag := self._as_it_was(given, unless):
            return Reply(None, tag)
        root, around, hops = (
            given.pop("root", None),
            given.pop("around"),
            given.pop("hops", 2),
        )
        freshness, generations = self._fresh(root)
        name, found = self._desk.opened().graph(around, hops, _narrowing(given), root)
        return Reply(found.to_dict() | {"root": name}, _tag(freshness, generations))

    def _status(self, given: Given, _: str) -> Reply:
        roots = self._desk.opened()
        found, freshness = roots.status(given.get("root"), self._seconds, None)
        each = [one.to_dict() | {"workspaces": list(one.workspaces)} for one in found]
        now = [one.to_dict() for one in roots.now()]
        server = {
            "version": tamis.__version__,
            "editor": EDITORS[self._desk.settings.editor],
        }
        return Reply(
            {
                "roots": each,
                "freshness": freshness.to_dict(),
                "now": now,
                "server": server,
            }
        )

    def _refresh(self, _: Given, __: str) -> Reply:
        freshness, _generations = self._fresh(None)
        return Reply(freshness.to_dict())

    def _fresh(self, root: str | None) -> "tuple[Freshness, tuple[int, ...]]":
        return self._desk.opened().fresh(root, self._seconds)

    def _as_it_was(self, given: Given, unless: str) -> str:
        """The tag that a client has, if it still is what would be answered with."""
        return (
            unless if unless and unless == _tag(*self._fresh(given.get("root"))) else ""
        )


_ADVICE: Final = {
    Advice.STATUS: "see: /api/v1/status",
    Advice.SHOW_MORE: "min_score=0 shows more",
    Advice.SHOW_LIKELY: "min_score=0.3 leaves such results out",
    Advice.READ_ON: "ask for fewer neighbours",
}
_CHANGED: Final = (
    "the index has changed since the page before: results may be missing or come twice"
)


def _narrowing(given: Given) -> SearchRequest:
    """Return a request of filters alone, and of those that were typed with a query."""
    query = given.pop("query", "")
    return SearchRequest(query, **given)


def _tag(freshness: "Freshness", generations: Sequence[int], text: str = "") -> str:
    """Of an answer: what it depends on besides the question, which is the address."""
    parts = (generations, replace(freshness, as_of=None), tamis.__version__, text)
    return f'W/"{blake2b(repr(parts).encode("utf-8", "replace"), digest_size=12).hexdigest()}"'
