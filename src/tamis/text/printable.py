"""Untrusted text made safe to print. This module is light: error messages need it.

File names, titles, tags and contents come from other people. A terminal obeys control characters
(C0, DEL, C1: colours, titles, the clipboard, other lines), and bidirectional overrides show text
in another order. Each of these becomes a replacement character; so does a line end in a name,
because it would begin a line that looks like ours.
"""

import logging
import re
from collections.abc import Sequence

_BIDIRECTIONAL = "\u2028\u2029\u202a-\u202e\u2066-\u2069"
_CONTROL = re.compile(f"[\x00-\x08\x0a-\x1f\x7f-\x9f{_BIDIRECTIONAL}]")
_CONTROL_IN_LINES = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f{_BIDIRECTIONAL}]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def visible(text: str) -> str:
    """Replace the control characters of a line."""
    return _CONTROL.sub(_REPLACEMENT, text)


def visible_lines(text: str) -> str:
    """Replace the control characters of several lines that are ours, such as a traceback."""
    return _CONTROL_IN_LINES.sub(_REPLACEMENT, text)


def escaped(json: str) -> str:
    """Escape the control characters in JSON; its writer has escaped C0 already."""
    return _CONTROL_IN_LINES.sub(lambda found: f"\\u{ord(found[0]):04x}", json)


def also_in(listed: Sequence[str], count: int) -> str:
    """List other places of a text, of `count` in all: `also in 9 places: a.md:3, b.md:7, ...`."""
    places = "1 place" if count == 1 else f"{count} places"
    shown = list(listed)
    if count > len(shown):
        shown.append("...")
    return visible(f"also in {places}: {', '.join(shown)}")


class LogLines(logging.Formatter):
    """Format of the log: a message is one line, while a traceback keeps its lines."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's own name
        return visible(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        return visible_lines(super().format(record))
