"""Lines that are no messages: who sent them still waits for an answer, if there is a way to tell who.

The SDK drops them. Its JSON reader is strict (no half characters, nesting of some two hundred levels), so a
request that any other reader understands may be among them.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

_NOTHING: Final[Mapping[str, Any]] = {}


def is_blank(error: Exception) -> bool:
    return all(isinstance(sent, str) and not sent.strip() for sent in _sent(error))


def request_id(error: Exception) -> int | str | None:
    """The id of the request that could not be read; None when it has none."""
    for sent in _sent(error):
        found = _parsed(sent).get("id")
        if (
            isinstance(found, int)
            and not isinstance(found, bool)
            and abs(found) < 2**53
        ):
            return found
        if isinstance(found, str) and found.isprintable():
            return found
    return None


def _sent(error: Exception) -> Iterator[object]:
    """What the reader was given: the line itself, or parts of what it had made of it."""
    errors = getattr(error, "errors", None)
    for each in errors(include_url=False) if callable(errors) else ():
        yield each.get("input")


def _parsed(sent: object) -> Mapping[str, Any]:
    if isinstance(sent, str):
        try:
            sent = json.loads(sent)
        except (ValueError, RecursionError):
            return _NOTHING
    return sent if isinstance(sent, dict) else _NOTHING
