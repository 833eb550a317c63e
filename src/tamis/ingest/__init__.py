"""Files to documents: walk, read, parse."""

from typing import Final

# Raise whenever the same file would give other passages: older indexes are then out of date.
PARSER_VERSION: Final = 5
