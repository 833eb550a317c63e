"""Documents made to order: a file holds a document as JSON, and a parser of the tests' own reads it back.

So an engine can be asked about links, names, types and parents of any kind, whatever the real parsers
make of real files. A file that holds anything else goes the usual way.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args
from zlib import crc32

import pytest

from support.corpora import test_settings
from support.naive import NaiveSnapshot, Parse, naive_snapshot
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.model import Chunk, Document, FrontMatter, Link, LinkType, Parent
from tamis.settings import ChunkingSettings

LINK_TYPES: tuple[LinkType, ...] = get_args(LinkType)
_MARK = '{"scripted":'


def as_file(document: Document) -> str:
    return json.dumps({"scripted": asdict(document)})


def scripted(source: Source, sizes: ChunkingSettings) -> tuple[Document, str]:
    """`parse` for the tests."""
    if not source.text.startswith(_MARK):
        return parse(source, sizes)
    values = json.loads(source.text)["scripted"]
    parts: dict[str, Any] = {
        name: tuple(_made(kind, part) for part in values[name])
        for name, kind in _PARTS.items()
    }
    front = _made(FrontMatter, values["front"])
    return Document(
        source.path, values["title"], front, values["modified"], **parts
    ), ""


_PARTS = {"chunks": Chunk, "links": Link, "parents": Parent}


def _made(kind: type, values: dict[str, Any]) -> Any:
    return kind(
        **{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
    )


def document(
    path: str,
    *texts: str,
    links: Sequence[Link] = (),
    tags: Sequence[str] = (),
    aliases: Sequence[str] = (),
) -> Document:
    """A document of prose, a chunk for each text."""
    chunks = tuple(
        Chunk(at, text, "", at + 1, at + 1, "documentation")
        for at, text in enumerate(texts or (f"in {path}",))
    )
    front = FrontMatter(tags=tuple(tags), aliases=tuple(aliases))
    return Document(path, path, front, 0.0, chunks, tuple(links))


@contextmanager
def parsing(by: Parse) -> Iterator[None]:
    """Index with another parser."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tamis.index.build.parse", by)
        yield


def oracle_of(root: Path, **flags: Any) -> NaiveSnapshot:
    return naive_snapshot(root, test_settings(root, **flags), scripted)


def renamed(document: Document, path: str) -> Document:
    return replace(document, path=path)


class Noise:
    """A number of its own for each question and text; some texts share one."""

    name = "noise"

    def scores(
        self, query: str, passages: Sequence[str], seconds: float = 0.0
    ) -> list[float]:
        assert seconds == 0.0
        return [crc32(f"{query}\0{passage}".encode()) % 7 - 3.0 for passage in passages]
