"""Prose formats: Markdown, reStructuredText, notebooks."""
