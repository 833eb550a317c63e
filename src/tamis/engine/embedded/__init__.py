"""The embedded engine: SQLite as the one commit point, immutable memory-mapped segments beside it."""
