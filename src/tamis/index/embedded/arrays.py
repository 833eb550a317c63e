"""A file of named arrays: written once, synced, then mapped into memory and never changed.

Layout: a magic, the length of a JSON header and its checksum, the header (name, type, shape, place and
checksum of each array, and the size of the whole file), then the arrays, aligned for vector instructions.

Opening a file checks its header and its size, which takes microseconds. `spoiled` reads every byte and
compares the checksums, for `tamis doctor` and before a merge copies rows.
"""

import hashlib
import json
import mmap
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tamis.failpoints import reached

Array = NDArray[Any]
Arrays = Mapping[str, Array]  # by name

_MAGIC = b"TAMISAR2"
_ALIGNMENT = 64
_SUM = 16  # bytes of a checksum
_PREFIX = struct.Struct(f"<8sQ{_SUM}s")
_AT_A_TIME = 1 << 20  # bytes read for a checksum


class Truncated(Exception):
    """The file does not have the length or the form that it was written with."""


def write_arrays(file: Path, arrays: Arrays) -> None:
    """Write and sync. The caller syncs the folder and gives the file its final name."""
    # Padding fixes the length of the header before it is made.
    room = 512 + 200 * len(arrays)
    end = _PREFIX.size + room
    described = {}
    blocks: list[tuple[int, memoryview | bytes]] = []
    for name, array in arrays.items():
        block: memoryview | bytes = b""
        if array.size:
            block = np.ascontiguousarray(array).data.cast("B")
        start = -(-end // _ALIGNMENT) * _ALIGNMENT
        end = start + array.nbytes
        blocks.append((start, block))
        described[name] = {
            "type": array.dtype.str,
            "shape": array.shape,
            "at": start,
            "sum": _sum(block).hex(),
        }
    header = json.dumps({"size": end, "arrays": described}).encode().ljust(room)
    with open(file, "wb", opener=private) as out:
        out.write(_PREFIX.pack(_MAGIC, len(header), _sum(header)))
        out.write(header)
        reached("arrays.begun")
        for start, block in blocks:
            out.write(b"\0" * (start - out.tell()))
            out.write(block)
        out.flush()
        reached("arrays.written")
        os.fsync(out.fileno())


def private(file: str, flags: int) -> int:
    """Open a file that only its owner may read, whatever the umask says."""
    return os.open(file, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _sum(data: memoryview | bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_SUM).digest()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, as `fsync` does for the bytes of a file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def map_arrays(file: Path) -> Arrays:
    """Return the arrays of a file, as views of its pages."""
    with _opened(file) as (source, described):
        pages = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
        arrays = {}
        for name, place in described.items():
            kind = np.dtype(place["type"])
            shape = place["shape"]
            count = int(np.prod(shape))
            if count:
                numbers = np.frombuffer(pages, kind, count, place["at"])
                arrays[name] = numbers.reshape(shape)
            else:
                arrays[name] = np.empty(shape, kind)
        return arrays


def spoiled(file: Path) -> list[str]:
    """Return the arrays of a file that are not as written. Reads all of it, and maps nothing."""
    with _opened(file) as (source, described):
        found = []
        for name, place in described.items():
            count = int(np.prod(place["shape"]))
            left = count * np.dtype(place["type"]).itemsize
            summed = hashlib.blake2b(digest_size=_SUM)
            source.seek(place["at"])
            while left > 0 and (data := source.read(min(left, _AT_A_TIME))):
                summed.update(data)
                left -= len(data)
            if summed.hexdigest() != place["sum"]:
                found.append(name)
        return found


@contextmanager
def _opened(file: Path) -> Iterator[tuple[BinaryIO, dict[str, Any]]]:
    """Open a file and read its header, which may say anything: its checksum proves nothing about its author."""
    # Without waiting: a pipe of this name may have no writer.
    handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as source:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Truncated(f"{file.name} is no file")
        try:
            yield source, _described(source, file.name, status.st_size)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Truncated(f"{file.name} has a broken header") from error


def _described(
    source: BinaryIO,
    name: str,
    size: int,
) -> dict[str, Any]:
    """Read the description of each array; the file must have the form and size of its header."""
    prefix = source.read(_PREFIX.size)
    if len(prefix) < _PREFIX.size:
        raise Truncated(f"{name} is cut off")
    magic, length, summed = _PREFIX.unpack(prefix)
    if magic != _MAGIC or length > size:
        raise Truncated(f"{name} has no valid header")
    data = source.read(length)
    if len(data) < length:
        raise Truncated(f"{name} is cut off")
    if _sum(data) != summed:
        raise Truncated(f"{name} has a broken header")
    header = json.loads(data)
    if header.get("size") != size:
        raise Truncated(f"{name} has {size} bytes instead of {header.get('size')}")
    described: dict[str, Any] = header["arrays"]
    return described
