"""Files to documents: walk, read, parse."""
