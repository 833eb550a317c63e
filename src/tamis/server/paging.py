"""Addresses: of documents (`tamis://doc/docs/api.md`), and of places in an answer (cursors)."""

import base64
import binascii
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tamis.errors import UsageError

SCHEME: Final = "tamis://doc/"
_PLAIN: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"
)
_ENCODED: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_TYPES: Final = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".json": "application/json",
}


def document_address(path: str) -> str:
    return SCHEME + encoded(path)


def encoded(text: str) -> str:
    """As a part of an address."""
    return "".join(
        chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in text.encode()
    )


def document_path(address: str) -> str | None:
    """What an address names; None for one that is not ours."""
    if not address.startswith(SCHEME):
        return None
    return _ENCODED.sub(_decoded, address.removeprefix(SCHEME))


def _decoded(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace")


def media_type(path: str) -> str:
    return _TYPES.get(os.path.splitext(path)[1].lower(), "text/plain")


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where an answer goes on: from which result, of which question, in which generations of the indexes."""

    offset: int
    question: str = ""
    generations: tuple[int, ...] = ()

    def __str__(self) -> str:
        plain = json.dumps(
            [self.offset, self.question, self.generations], separators=(",", ":")
        )
        return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")


def read_cursor(text: str, question: str = "") -> Cursor:
    """A cursor that we gave, for the same question."""
    cursor = _parsed(text)
    if cursor is None:
        raise UsageError(
            "this is no cursor of ours", hint="give next_cursor of an answer, as it is"
        )
    if cursor.question != question:
        hint = "give the same arguments as before (limit and max_tokens may differ), or leave cursor out"
        raise UsageError("this cursor belongs to another question", hint=hint)
    return cursor


def _parsed(text: str) -> Cursor | None:
    try:
        offset, question, generations = json.loads(
            base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        )
    except (ValueError, TypeError, binascii.Error, RecursionError):
        return None
    whole = (
        all(type(each) is int for each in generations)
        if isinstance(generations, list)
        else False
    )
    if (
        type(offset) is not int
        or not 0 <= offset < 2**31
        or not isinstance(question, str)
        or not whole
    ):
        return None
    return Cursor(offset, question, tuple(generations))


def digest(question: Mapping[str, Any]) -> str:
    """The same for the same question."""
    return hashlib.blake2b(
        json.dumps(question, sort_keys=True).encode(), digest_size=8
    ).hexdigest()
