"""A file of named arrays: written once, synced, then mapped into memory and never changed.

Layout: a magic, the length of a JSON header, the header (name, type, shape and place of each
array, and the size of the whole file), then the arrays, aligned for vector instructions.
"""

import json
import mmap
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_MAGIC: Final = b"TAMISAR1"
_ALIGNMENT: Final = 64
_PREFIX: Final = struct.Struct("<8sQ")


class Truncated(Exception):
    """The file is not as long, or not of the form, that it was written with."""


def write_arrays(file: Path, arrays: Mapping[str, Array]) -> None:
    """Write and sync. The caller syncs the folder and gives the file its final name."""
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header, places = _lay_out(contiguous)
    with file.open("wb") as out:
        out.write(_PREFIX.pack(_MAGIC, len(header)) + header)
        for name, array in contiguous.items():
            out.write(b"\0" * (places[name] - out.tell()))
            out.write(array.data.cast("B") if array.size else b"")
        out.flush()
        os.fsync(out.fileno())


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last, as `fsync` does for the bytes of a file."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _lay_out(arrays: Mapping[str, Array]) -> tuple[bytes, dict[str, int]]:
    """The header, padded so that places can be fixed before it is written."""
    room = 512 + 160 * len(arrays)
    places: dict[str, int] = {}
    at = _PREFIX.size + room
    for name, array in arrays.items():
        at = -(-at // _ALIGNMENT) * _ALIGNMENT
        places[name] = at
        at += array.nbytes
    described = {
        name: {"type": array.dtype.str, "shape": array.shape, "at": places[name]}
        for name, array in arrays.items()
    }
    return json.dumps({"size": at, "arrays": described}).encode().ljust(room), places


def map_arrays(file: Path) -> dict[str, Array]:
    """The arrays of a file, as views of its pages."""
    with file.open("rb") as source:
        size = os.fstat(source.fileno()).st_size
        prefix = source.read(_PREFIX.size)
        if len(prefix) < _PREFIX.size:
            raise Truncated(f"{file.name} is cut off")
        magic, length = _PREFIX.unpack(prefix)
        if magic != _MAGIC or length > size:
            raise Truncated(f"{file.name} has no valid header")
        header = _header(source.read(length), file)
        if header.get("size") != size:
            raise Truncated(f"{file.name} has {size} bytes instead of {header.get('size')}")
        pages = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        return {name: _view(pages, **place) for name, place in header["arrays"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Truncated(f"{file.name} has a broken header") from error


def _header(data: bytes, file: Path) -> dict[str, Any]:
    try:
        header = json.loads(data)
    except ValueError as error:
        raise Truncated(f"{file.name} has a broken header") from error
    return header if isinstance(header, dict) else {}


def _view(pages: mmap.mmap, type: str, shape: list[int], at: int) -> Array:
    count = int(np.prod(shape))
    if not count:
        return np.empty(shape, np.dtype(type))
    return np.frombuffer(pages, np.dtype(type), count, at).reshape(shape)
