"""Checks of an index on disk, and repairs."""
