"""Files to documents: walk, read, parse."""

# Raise whenever the same file would give other passages: older indexes are then out of date.
PARSER_VERSION = 5
