"""The documents and links of index.db, as the links lane asks for them (`tamis.engine.graph`)."""

from collections.abc import Sequence
from dataclasses import dataclass

from tamis.engine.embedded import store, stored_links
from tamis.engine.embedded.stored_links import DocumentRecord
from tamis.engine.graph import Written


@dataclass(frozen=True, slots=True)
class StoredLinks:
    connection: store.Connection

    def documents_at(self, paths: Sequence[str]) -> list[DocumentRecord]:
        return stored_links.documents_at(self.connection, paths)

    def documents_named(self, names: Sequence[str]) -> list[DocumentRecord]:
        return stored_links.documents_named(self.connection, names)

    def names(self, documents: Sequence[DocumentRecord]) -> list[str]:
        return stored_links.names(self.connection, [document.id for document in documents])

    def links_from(self, documents: Sequence[DocumentRecord]) -> list[Written[DocumentRecord]]:
        return stored_links.links_from(self.connection, [document.id for document in documents])

    def links_to(self, names: Sequence[str]) -> list[Written[DocumentRecord]]:
        return stored_links.links_to(self.connection, names)
