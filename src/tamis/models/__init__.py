"""Models that turn text into vectors, and rerankers."""
