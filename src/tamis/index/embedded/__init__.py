"""The engine on this machine: SQLite and memory-mapped segments."""
