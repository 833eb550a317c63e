"""The documents and links of a root, as the links lane asks for them (`tamis.engine.graph`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tamis.engine.graph import Written
from tamis.engine.qdrant.points import Native, Payload, Points, any_of
from tamis.engine.qdrant.records import read_links

_FIELDS: Final = ("filePath", "aliases", "links", "linkKeys")


@dataclass(frozen=True, slots=True)
class LinkedDocument:
    path: str
    aliases: tuple[str, ...]
    payload: Payload = field(compare=False)


@dataclass(frozen=True, slots=True)
class PointLinks:
    """Documents by what they are called and by what their links look for.

    `look_ahead` hears of the documents that come up, so that their allowed chunks are asked for together.
    """

    points: Points
    conditions: Sequence[Native]  # for the documents of a generation
    look_ahead: Callable[[Sequence[str]], object]

    def documents_at(self, paths: Sequence[str]) -> list[LinkedDocument]:
        return self._documents("filePath", paths)

    def documents_named(self, names: Sequence[str]) -> list[LinkedDocument]:
        return self._documents("linkKeys", names)

    def names(self, documents: Sequence[LinkedDocument]) -> list[str]:
        return sorted({name for document in documents for name in document.payload["linkKeys"]})

    def links_from(self, documents: Sequence[LinkedDocument]) -> list[Written[LinkedDocument]]:
        return [(each, link, name) for each in documents for link, name in read_links(each.payload)]

    def links_to(self, names: Sequence[str]) -> list[Written[LinkedDocument]]:
        wanted = set(names)
        written = self.links_from(self._documents("looksFor", names))
        return [each for each in written if each[2] in wanted]

    def _documents(self, field: str, values: Sequence[str]) -> list[LinkedDocument]:
        if not values:
            return []
        rows = self.points.find({"must": [*self.conditions, any_of(field, values)]}, _FIELDS)
        found = [
            LinkedDocument(row.payload["filePath"], tuple(row.payload["aliases"]), row.payload)
            for row in rows
        ]
        self.look_ahead([document.path for document in found])
        return found
