"""Text as search sees it: words, identifiers, languages, links by name."""
