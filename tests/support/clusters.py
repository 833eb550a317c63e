"""Where the cluster engine's points can be in a test: the library's local mode, the server's own core in this
process (`qdrant-edge-py`), or a real server."""

import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import qdrant_edge as edge
from qdrant_client import QdrantClient

from tamis.index.protocol import AS_USUAL, Layout
from tamis.index.qdrant import points as p
from tamis.index.qdrant.client import Server, connect
from tamis.index.qdrant.reader import QdrantIndex
from tamis.model import Address
from tamis.settings import ArchiveSettings

# Read before tests hide them from the settings.
SERVER, KEY = (
    os.environ.get("TAMIS_TEST_QDRANT_URL", ""),
    os.environ.get("TAMIS_ENGINE_API_KEY"),
)
KINDS = ("qdrant-local", "qdrant-edge", "qdrant-server")
WHY_NOT = (
    "set TAMIS_TEST_QDRANT_URL to a Qdrant server that may be written (docs/cluster.md)"
)


def points_at(kind: str, folder: Path, *, indexed: bool = False) -> p.Points:
    """An empty collection. Indexes on the payload take the server's core a while to make on a slow disk."""
    name = f"test-{uuid.uuid4().hex}"
    if kind == "qdrant-edge":
        return EdgePoints(folder / name, indexed=indexed)
    if kind == "qdrant-server":
        return Disposable(connect(Address(SERVER, name, "-"), KEY, exact=True))
    return Server(QdrantClient(":memory:"), Address("http://local", name, "-"))


def index_on(
    points: p.Points, root: str = "root", *, exact: bool = True, **options: Any
) -> QdrantIndex:
    """The index of a root there; vectors are those of the hashing embedder unless said otherwise."""
    given: dict[str, Any] = {
        "archive": ArchiveSettings().globs,
        "dimension": lambda: 256,
    } | options
    return QdrantIndex(
        points, Address("http://local", "test", root), exact=exact, **given
    )


class Disposable:
    """A collection on a real server that is gone when it is closed."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)

    def close(self) -> None:
        self._server._client.delete_collection(self._server._name)
        self._server.close()


class EdgePoints:
    """One shard of the server's own core, in this process."""

    def __init__(self, folder: Path, *, indexed: bool) -> None:
        self._folder, self._indexed = folder, indexed
        self._shard: edge.EdgeShard | None = None
        self._dimension: int | None = None

    @property
    def shard(self) -> edge.EdgeShard:
        assert self._shard is not None
        return self._shard

    def dimension(self) -> int | None:
        return self._dimension

    def prepare(self, dimension: int, layout: Layout = AS_USUAL) -> None:
        if self._shard is not None:
            return
        self._folder.mkdir(parents=True)
        lane = edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)
        dense = edge.EdgeVectorParams(
            size=max(dimension, 1), distance=edge.Distance.Dot
        )
        config = edge.EdgeConfig(
            vectors={p.MEANING: dense} if dimension else None,
            sparse_vectors={p.WORDS: lane, p.CODE: lane},
            wal_enabled=False,  # nothing here is to outlive the test
        )
        self._shard = edge.EdgeShard.create(str(self._folder), config)
        kinds = edge.PayloadSchemaType
        schemas = {p.TENANT: kinds.Keyword} | dict.fromkeys(p.KEYWORDS, kinds.Keyword)
        schemas |= dict.fromkeys(p.NUMBERS, kinds.Integer) | dict.fromkeys(
            p.FLOATS, kinds.Float
        )
        for name, schema in (
            schemas.items() if self._indexed else [("filePath", kinds.Keyword)]
        ):
            self.shard.update(edge.UpdateOperation.create_field_index(name, schema))
        self._dimension = dimension

    def get(
        self,
        ids: Sequence[str],
        fields: Sequence[str] = (),
        vectors: tuple[str, ...] = (),
    ) -> list[p.Point]:
        if self._shard is None or not ids:
            return []
        found = self.shard.retrieve(
            list(ids), list(fields) or True, list(vectors) or False
        )
        return [_row(record) for record in found]

    def find(
        self,
        filter: p.Native,
        fields: Sequence[str] = (),
        vectors: tuple[str, ...] = (),
    ) -> Iterator[p.Point]:
        if self._shard is None:
            return
        offset = None
        while True:
            request = edge.ScrollRequest(
                offset=offset,
                limit=256,
                filter=_filter(filter),
                with_payload=list(fields) or True,
                with_vector=list(vectors) or False,
            )
            records, offset = self.shard.scroll(request)
            yield from map(_row, records)
            if offset is None:
                return

    def nearest(self, asks: Sequence[p.Ask]) -> list[list[p.Point]]:
        requests = [_request(ask) for ask in asks]
        if not requests:
            return []
        return [
            list(map(_row, rows))
            for rows in self.shard.query_batch(edge.QueryBatchRequest(requests))
        ]

    def count(self, filter: p.Native) -> int:
        return self.shard.count(edge.CountRequest(exact=True, filter=_filter(filter)))

    def distinct(self, name: str, filter: p.Native, most: int) -> list[str]:
        request = edge.FacetRequest(
            name, limit=most, exact=True, filter=_filter(filter)
        )
        return [str(hit.value) for hit in self.shard.facet(request).hits]

    def put(self, points: Sequence[p.Point], *, only_new: bool = False) -> None:
        mode = edge.UpdateMode.InsertOnly if only_new else None
        made = [edge.Point(each.id, _vectors(each), each.payload) for each in points]
        if made:
            self.shard.update(edge.UpdateOperation.upsert_points(made, None, mode))

    def change(self, filter: p.Native, values: p.Payload) -> None:
        self.shard.update(
            edge.UpdateOperation.set_payload_by_filter(_filter(filter), values)
        )

    def clear(self, filter: p.Native, names: Sequence[str]) -> None:
        self.shard.update(
            edge.UpdateOperation.delete_payload_by_filter(_filter(filter), list(names))
        )

    def delete(self, filter: p.Native) -> None:
        self.shard.update(edge.UpdateOperation.delete_points_by_filter(_filter(filter)))

    def close(self) -> None:
        if self._shard is not None:
            self._shard.close()
            self._shard = None


def _request(ask: p.Ask) -> edge.QueryRequest:
    query = (
        ask.query.tolist() if isinstance(ask.query, np.ndarray) else _sparse(ask.query)
    )
    idf = None if ask.using == p.MEANING else edge.IdfParams(_filter(ask.filter))
    return edge.QueryRequest(
        limit=ask.limit,
        query=edge.Query.Nearest(query, ask.using),
        with_vector=list(ask.vectors) or False,
        with_payload=list(ask.fields) or False,
        filter=_filter(ask.filter),
        params=edge.SearchParams(exact=True, idf=idf),
    )


def _vectors(point: p.Point) -> dict[str, Any]:
    lanes = {name: _sparse(weights) for name, weights in point.terms.items()}
    if point.meaning is None:
        return lanes
    return {p.MEANING: point.meaning.tolist(), **lanes}


def _sparse(weights: p.Sparse) -> edge.SparseVector:
    return edge.SparseVector(list(weights), list(weights.values()))


def _row(record: Any) -> p.Point:
    vectors = record.vector if isinstance(record.vector, dict) else {}
    dense = vectors.get(p.MEANING)
    terms = {}
    for name in (p.WORDS, p.CODE):
        if name in vectors:
            own = vectors[name]
            terms[name] = dict(zip(own.indices, own.values, strict=True))
    return p.Point(
        str(record.id),
        record.payload or {},
        None if dense is None else np.array(dense, np.float32),
        terms,
        getattr(record, "score", 0.0),
    )


def _filter(native: p.Native) -> edge.Filter:
    if not native.keys() <= {"must", "should", "must_not"}:
        native = {"must": [native]}
    parts: dict[str, Any] = {}
    for name, each in native.items():
        parts[name] = list(map(_condition, each))
    return edge.Filter(**parts)


def _condition(native: p.Native) -> Any:
    if "has_id" in native:
        return edge.HasIdCondition(set(native["has_id"]))
    if "key" not in native:
        return _filter(native)
    if "range" in native:
        return edge.FieldCondition(
            native["key"], range=edge.RangeFloat(**native["range"])
        )
    match = native["match"]
    wanted = (
        edge.MatchAny(match["any"])
        if "any" in match
        else edge.MatchValue(match["value"])
    )
    return edge.FieldCondition(native["key"], match=wanted)
