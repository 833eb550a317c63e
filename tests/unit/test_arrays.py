"""Files of arrays: what was written comes back, and what is not as it was written is noticed."""

import json
import struct

import numpy as np
import pytest

from tamis.index.embedded.arrays import Truncated, map_arrays, spoiled, write_arrays

ARRAYS = {
    "rows": np.arange(1000, dtype=np.int64),
    "full": np.linspace(0, 1, 384 * 7, dtype=np.float32).reshape(7, 384),
    "none": np.empty((0, 5), np.int8),
}


@pytest.fixture
def file(tmp_path):
    write_arrays(tmp_path / "x.bin", ARRAYS)
    return tmp_path / "x.bin"


def flip(file, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def test_arrays_come_back(file):
    found = map_arrays(file)
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert spoiled(file) == []


def test_every_bit_of_the_arrays_counts(file):
    """Whichever one is flipped, the array it belongs to is named, and opening does not read that far."""
    whole = file.read_bytes()
    for name, array in ARRAYS.items():
        start = whole.find(array.tobytes()) if array.size else -1
        for at in (0, array.nbytes // 2, array.nbytes - 1) if array.size else ():
            flip(file, start + at)
            assert spoiled(file) == [name]
            map_arrays(file)
            file.write_bytes(whole)


@pytest.mark.parametrize("at", [0, 9, 17, 40, 100, 500])
def test_a_flipped_header_is_noticed_when_the_file_is_opened(file, at):
    flip(file, at)
    for read in (map_arrays, spoiled):
        with pytest.raises(Truncated, match=r"x\.bin"):
            read(file)


@pytest.mark.parametrize("left", [0, 10, 31, 200, -1])
def test_a_file_that_is_cut_off(file, left):
    file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(Truncated):
        map_arrays(file)
    with pytest.raises(Truncated):
        spoiled(file)


@pytest.mark.parametrize(
    "header",
    [
        [], {}, {"arrays": {"a": {}}}, {"arrays": 3},
        {"arrays": {"a": {"type": "<i8", "shape": [9], "at": 1e9}}},
        {"arrays": {"a": {"type": "nonsense", "shape": [9], "at": 64, "sum": ""}}},
        {"arrays": {"a": {"type": "<i8", "shape": [-9], "at": -64, "sum": ""}}},
    ],
    ids=str,
)  # fmt: skip
def test_a_stranger_may_write_any_header(file, header):
    import hashlib

    if isinstance(header, dict):
        header = header | {"size": 4096}
    data = json.dumps(header).encode()
    summed = hashlib.blake2b(data, digest_size=16).digest()
    file.write_bytes(
        (struct.pack("<8sQ16s", b"TAMISAR2", len(data), summed) + data).ljust(4096)
    )
    with pytest.raises(Truncated):
        map_arrays(file)
