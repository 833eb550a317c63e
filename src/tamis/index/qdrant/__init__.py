"""The shared engine: the same pipeline on a Qdrant server."""
