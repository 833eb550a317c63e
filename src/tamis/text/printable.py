"""Text of others as one line that does nothing but be read. Light: it is imported to say what went wrong.

File names, titles, tags and contents come from whoever wrote the files. A terminal obeys control characters
(C0, DEL, C1: colours, titles, the clipboard, other lines), and bidirectional overrides show text in another
order than it has. Each of these is shown as one replacement character, a line end in a name as well: it
would begin a line that looks like ours.
"""

import logging
import re
from collections.abc import Sequence
from typing import Final

_COMMANDS: Final = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_BETWEEN_LINES: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_INSTEAD: Final = "\N{REPLACEMENT CHARACTER}"


def visible(text: str) -> str:
    """A line without what would command the terminal."""
    return _COMMANDS.sub(_INSTEAD, text)


def visible_lines(text: str) -> str:
    """The same for text of several lines that are all ours: a traceback."""
    return _BETWEEN_LINES.sub(_INSTEAD, text)


def escaped(json: str) -> str:
    """JSON that says the same without these characters; the writer of JSON has seen to C0 already."""
    return _BETWEEN_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", json)


def also_in(listed: Sequence[str], count: int) -> str:
    """Where else a text stands, of so many places in all: `also in 9 places: a.md:3, b.md:7, ...`."""
    places = "1 place" if count == 1 else f"{count} places"
    return visible(
        f"also in {places}: {', '.join(listed)}{', ...' if count > len(listed) else ''}"
    )


class LogLines(logging.Formatter):
    """The log's form. A traceback has several lines, and keeps them; a message is one."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        return visible(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return visible_lines(super().format(record))
