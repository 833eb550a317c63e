"""A file of named arrays: written once, synced, then mapped into memory and never changed.

Layout: a magic, the length of a JSON header and its checksum, the header (name, type, shape, place and
checksum of each array, and the size of the whole file), then the arrays, aligned for vector instructions.

Opening a file checks its header and its size, which takes microseconds. Whether every byte is as it was
written takes reading them all: `spoiled` does that, for `tamis doctor` and before a merge copies rows on.
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
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from tamis.failpoints import reached

Array = NDArray[Any]

_MAGIC: Final = b"TAMISAR2"
_ALIGNMENT: Final = 64
_SUM: Final = 16  # bytes of a checksum
_PREFIX: Final = struct.Struct(f"<8sQ{_SUM}s")
_AT_A_TIME: Final = 1 << 20  # bytes read for a checksum


class Truncated(Exception):
    """The file is not as long, or not of the form, that it was written with."""


def write_arrays(file: Path, arrays: Mapping[str, Array]) -> None:
    """Write and sync. The caller syncs the folder and gives the file its final name."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header, places = _lay_out(contiguous)
    with open(file, "wb", opener=private) as out:
        out.write(_PREFIX.pack(_MAGIC, len(header), _sum(header)) + header)
        reached("arrays.begun")
        for name, array in contiguous.items():
            out.write(b"\0" * (places[name] - out.tell()))
            out.write(_bytes(array))
        out.flush()
        reached("arrays.written")
        os.fsync(out.fileno())


def private(file: str, flags: int) -> int:
    """Opens a file that only its owner may read, whatever new files are like elsewhere."""
    return os.open(file, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _bytes(array: Array) -> memoryview | bytes:
    return array.data.cast("B") if array.size else b""


def _sum(data: memoryview | bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_SUM).digest()


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last, as `fsync` does for the bytes of a file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _lay_out(arrays: Mapping[str, Array]) -> tuple[bytes, dict[str, int]]:
    """The header, padded so that places can be fixed before it is written."""
    room = 512 + 200 * len(arrays)
    places: dict[str, int] = {}
    at = _PREFIX.size + room
    for name, array in arrays.items():
        at = -(-at // _ALIGNMENT) * _ALIGNMENT
        places[name] = at
        at += array.nbytes
    described = {
        name: {
            "type": array.dtype.str,
            "shape": array.shape,
            "at": places[name],
            "sum": _sum(_bytes(array)).hex(),
        }
        for name, array in arrays.items()
    }
    return json.dumps({"size": at, "arrays": described}).encode().ljust(room), places


def map_arrays(file: Path) -> dict[str, Array]:
    """The arrays of a file, as views of its pages."""
    with _opened(file) as source, _form(file.name):
        described = _described(source, file.name)
        pages = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
        return {name: _view(pages, **place) for name, place in described.items()}


def spoiled(file: Path) -> list[str]:
    """The arrays of a file that are not what was written. Reads all of it, and maps nothing."""
    with _opened(file) as source, _form(file.name):
        described = _described(source, file.name)
        return [
            name
            for name, place in described.items()
            if _sum_of(source, **place) != place["sum"]
        ]


def _opened(file: Path) -> BinaryIO:
    """Without waiting: what stands in its place may be a pipe that nobody writes to."""
    source = os.fdopen(os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
        source.close()
        raise Truncated(f"{file.name} is no file")
    return source


def _sum_of(source: BinaryIO, type: str, shape: list[int], at: int, **_: str) -> str:
    left = int(np.prod(shape)) * np.dtype(type).itemsize
    summed = hashlib.blake2b(digest_size=_SUM)
    source.seek(at)
    while left > 0 and (data := source.read(min(left, _AT_A_TIME))):
        summed.update(data)
        left -= len(data)
    return summed.hexdigest()


@contextmanager
def _form(name: str) -> Iterator[None]:
    """A header may say anything: a stranger's file can have checksums that are right."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Truncated(f"{name} has a broken header") from error


def _described(source: BinaryIO, name: str) -> dict[str, Any]:
    """What the header says of each array, if the file has the form and the size that it was written with."""
    size = os.fstat(source.fileno()).st_size
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


def _view(pages: mmap.mmap, type: str, shape: list[int], at: int, **_: str) -> Array:
    count = int(np.prod(shape))
    if not count:
        return np.empty(shape, np.dtype(type))
    return np.frombuffer(pages, np.dtype(type), count, at).reshape(shape)
