"""Read a file: bytes to text, or the reason why not."""

import codecs
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from tamis.ingest.walk import Entry, shown, stamps
from tamis.model import Skipped
from tamis.text.words import content_hash

_SNIFFED = 8192  # bytes looked at for a NUL, as git does
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    # Before UTF-16: its mark begins with the other's.
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# A larger share of control characters is data, whatever its name says.
_MOST_CONTROLS = 0.1
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))
# Behind a mark it takes more to be data: the file says that it is text, and may be damaged.
_MOST_BROKEN = 0.5
_CONTROL_CHARACTERS = dict.fromkeys((*_CONTROLS, *range(0x7F, 0xA0)))


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text, with line ends as `\\n`."""

    path: str
    text: str
    hash: bytes
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    read_ns: int
    warning: str = ""


def read(entry: Entry, max_bytes: int) -> Source | Skipped:
    """Read a file that the walk found, or say why it is left out."""
    path = entry.path
    if entry.size > max_bytes:
        return _too_large(path, entry.size, max_bytes)
    root = entry.file.removesuffix(f"/{path}") or "/"
    read_ns = time.time_ns()
    try:
        loaded = load(root, path, max_bytes)
    except OSError as error:
        folder = os.path.dirname(entry.file)
        if os.path.realpath(folder) == folder:
            return Skipped(path, "unreadable", error.strerror or str(error))
        real = shown(os.path.realpath(entry.file))
        return Skipped(path, "outside the root", f"now a link to {real}")
    if isinstance(loaded, Skipped):
        return loaded
    data, status = loaded
    decoded = decode(data)
    if decoded is None:
        return Skipped(path, "binary")
    text, warning = decoded
    _, modified, changed, number = stamps(status)
    return Source(
        path=path,
        text=text,
        hash=content_hash(data),
        size=len(data),
        mtime_ns=modified,
        ctime_ns=changed,
        inode=number,
        read_ns=read_ns,
        warning=warning,
    )


def read_inside(root: Path, path: str, max_bytes: int) -> str | Skipped:
    """Read a file below a root as it is now; no part of the path may be a link."""
    try:
        loaded = load(str(root), path, max_bytes)
    except OSError as error:
        return Skipped(path, "unreadable", error.strerror or str(error))
    if isinstance(loaded, Skipped):
        return loaded
    decoded = decode(loaded[0])
    return decoded[0] if decoded else Skipped(path, "binary")


def load(
    root: str, path: str, max_bytes: int
) -> tuple[bytes, os.stat_result] | Skipped:
    """Read the bytes of a file, unless it or a folder above it has become a link or a pipe."""
    with os.fdopen(_opened(root, path), "rb") as source:
        status = os.fstat(source.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError("no longer a regular file")
        # No more than there is: a read sets aside what it is asked for, and the limit may be huge.
        data = source.read(min(status.st_size, max_bytes) + 1)
    if len(data) > max_bytes:
        return _too_large(path, max(status.st_size, len(data)), max_bytes)
    return data, status


def _opened(root: str, path: str) -> int:
    """Open a file folder by folder, so that swapping one for a link meanwhile does not help."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(root, flags | os.O_DIRECTORY)
    try:
        *parts, name = path.split("/")
        for part in parts:
            below = os.open(part, flags | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(name, flags | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)


def _too_large(path: str, size: int, max_bytes: int) -> Skipped:
    return Skipped(
        path, "too large", f"{size:,} bytes; index.max_file_bytes is {max_bytes:,}"
    )


def decode(data: bytes) -> tuple[str, str] | None:
    """Return the text and a warning (mostly empty), or None for binary data."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _decode_marked(data[len(mark) :], encoding)
    start = data[:_SNIFFED]
    controls = len(start) - len(start.translate(None, _CONTROLS))
    if b"\0" in start or controls > _MOST_CONTROLS * len(start):
        return None
    try:
        return with_newlines(data.decode("utf-8")), ""
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
    # Either UTF-8 with a broken spot or an old 8-bit encoding: the more frequent one wins.
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    good = sum(character > "\x7f" for character in text) - broken
    if good >= broken:
        warning = f"invalid UTF-8 in line {line}; {broken} places replaced"
        return with_newlines(text), warning
    text = data.decode("cp1252", "replace")
    return with_newlines(text), "not UTF-8; read as Windows-1252"


def _decode_marked(data: bytes, encoding: str) -> tuple[str, str] | None:
    """Decode data behind a byte order mark, which may also be the first bytes of binary data."""
    warning = ""
    broken = 0
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
        broken = text[:_SNIFFED].count("\ufffd")
        places = text.count("\ufffd")
        warning = f"invalid {encoding.upper()}; {places} places replaced"
    start = text[:_SNIFFED]
    noise = len(start) - len(start.translate(_CONTROL_CHARACTERS)) + broken
    if noise > _MOST_BROKEN * len(start):
        return None
    return with_newlines(text), warning


def with_newlines(text: str) -> str:
    """Return the text with line ends as `\\n`."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
