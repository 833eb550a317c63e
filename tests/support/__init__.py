"""Helpers that tests share: corpora on disk, oracles, servers and clients."""
