"""The query language and the filter algebra behind it."""
