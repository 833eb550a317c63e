"""Indexes that follow their files while a server or watcher runs."""
