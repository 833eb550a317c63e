"""From files to documents: walk, read, parse."""
