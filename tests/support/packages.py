"""Packages that carry models: whether they are installed, and how to make them missing or altered."""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import NoReturn


def installed(package: str) -> bool:
    try:
        return bool(distribution(package))
    except PackageNotFoundError:
        return False


def not_installed(package: str) -> NoReturn:
    """Stands in for `distribution`."""
    raise PackageNotFoundError(package)


def altered(ending: str) -> Callable[[Path], bytes]:
    """Return a stand-in for `Path.read_bytes` that adds a byte to files whose path ends like this."""
    read_bytes = Path.read_bytes

    def read(path: Path) -> bytes:
        data = read_bytes(path)
        if str(path).endswith(ending):
            data += b"x"
        return data

    return read
