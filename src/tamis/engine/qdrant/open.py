"""From settings to the index of a root on a server."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tamis.engine.qdrant.reader import QdrantIndex
from tamis.errors import BadSetting, EngineMissing
from tamis.model import Address
from tamis.settings import API_KEY_VARIABLE, Settings


def open_index(
    root: Path, settings: Settings, environment: Mapping[str, str], dimension: Callable[[], int]
) -> QdrantIndex:
    """The index that the settings name. Asks the server nothing yet."""
    address, key = address_of(root, settings), environment.get(API_KEY_VARIABLE) or None
    if key and not (key.isascii() and key.isprintable()):  # and none of it is shown
        raise BadSetting(
            f"{API_KEY_VARIABLE} has a character that no key can have",
            hint="set it again; one that was read from a file may end in a line end",
        )
    if key and not _is_safe(address.url):
        raise BadSetting(
            f"{API_KEY_VARIABLE} would go to {address.url} in the clear", hint="use an address with https://"
        )
    try:
        from tamis.engine.qdrant.client import connect
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "qdrant_client":
            raise
        raise EngineMissing from error
    points = connect(address, settings.engine, key)
    archive = settings.archive.globs
    return QdrantIndex(
        points, address, exact=settings.engine.exact, archive=archive, dimension=dimension
    )  # fmt: skip


def address_of(root: Path, settings: Settings) -> Address:
    engine = settings.engine
    return Address(engine.url.rstrip("/"), engine.collection, engine.root or root.name or "root")


def _is_safe(url: str) -> bool:
    """Encrypted, or on this machine."""
    scheme, _, rest = url.partition("://")
    host = rest.partition("/")[0]
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return scheme == "https" or name in ("localhost", "::1") or name.startswith("127.")
