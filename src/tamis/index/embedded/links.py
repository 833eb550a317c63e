"""The documents and links of index.db, as the links lane asks for them (`tamis.index.links`)."""

from collections.abc import Sequence
from dataclasses import dataclass

from tamis.index.embedded import database
from tamis.index.embedded.database import DocumentRecord
from tamis.index.links import Written


@dataclass(frozen=True, slots=True)
class StoredLinks:
    connection: database.Connection

    def documents_at(self, paths: Sequence[str]) -> list[DocumentRecord]:
        return database.documents_at(self.connection, paths)

    def documents_named(self, names: Sequence[str]) -> list[DocumentRecord]:
        return database.documents_named(self.connection, names)

    def names(self, documents: Sequence[DocumentRecord]) -> list[str]:
        return database.names(self.connection, [document.id for document in documents])

    def links_from(
        self, documents: Sequence[DocumentRecord]
    ) -> list[Written[DocumentRecord]]:
        return database.links_from(
            self.connection, [document.id for document in documents]
        )

    def links_to(self, names: Sequence[str]) -> list[Written[DocumentRecord]]:
        return database.links_to(self.connection, names)
