"""The server, through its official client: the one file that knows the library.

A request is retried after a time-out, a broken connection, 429, or a fault of the server. The
pauses double and are random within bounds, so that many clients do not come back together. A fault
that stays becomes an error of ours that says what to do.
"""

import json
import logging
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from time import sleep
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlsplit

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import (
    ApiException,
    UnexpectedResponse,
)

from tamis.errors import (
    EngineFault,
    EngineRefused,
    EngineTooOld,
    EngineUnreachable,
    IndexMismatch,
)
from tamis.index.protocol import AS_USUAL, Layout
from tamis.index.qdrant.points import (
    CODE,
    FLOATS,
    KEYWORDS,
    MEANING,
    NUMBERS,
    TENANT,
    WORDS,
    Ask,
    Native,
    Payload,
    Point,
    Sparse,
)
from tamis.model import Address

log = logging.getLogger("tamis.index.protocol")

Answer = TypeVar("Answer")
Options = ParamSpec("Options")

OLDEST = (1, 19)  # the first server that counts rarity over a filter
_PORT = 6333  # of a server whose address has none
# Quantised vectors stay in memory, where the others may be on disk.
_QUANTIZATION: dict[str | None, Any] = {
    None: None,
    "none": None,
    "scalar": {"scalar": {"type": "int8", "always_ram": True}},
    "binary": {"binary": {"always_ram": True}},
}
TIMEOUT = 30  # seconds for one request
TRIES = 6
_FIRST_PAUSE = 0.2  # seconds; the sixth try comes after some six
_LONGEST_PAUSE = 30.0  # that a server may ask for
_WARN_AFTER = 3  # failed tries: about a second
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_POINTS = 128  # in one request: a megabyte or two
_PAGE = 512
_MOST_IDS = 1_000


def connect(
    address: Address,
    api_key: str | None,
    *,
    exact: bool,
) -> "Server":
    """Return the collection on a server. Nothing is sent yet."""
    port = None
    if urlsplit(address.url).port is None:
        port = _PORT
    with warnings.catch_warnings():
        # The library warns of a key without TLS; `open_index` has refused that where it matters.
        warnings.simplefilter("ignore", UserWarning)
        client = QdrantClient(
            url=address.url,
            port=port,
            api_key=api_key,
            timeout=TIMEOUT,
            check_compatibility=False,
        )
    return Server(client, address, exact=exact, is_remote=True)


class Server:
    """A collection on a server (or, without one, in the library's own local mode)."""

    def __init__(
        self,
        client: QdrantClient,
        address: Address,
        *,
        exact: bool = True,
        is_remote: bool = False,
    ) -> None:
        self._client = client
        self._address = address
        self._name = address.collection
        # Local mode is exact in any case, and warns of being asked to be.
        self._exact = exact if is_remote else None
        self._is_version_checked = not is_remote
        self._dimension: int | None = None

    def dimension(self) -> int | None:
        if self._dimension is None and self._asked(
            self._client.collection_exists, self._name
        ):
            vectors = self._config().params.vectors
            params = vectors.get(MEANING) if isinstance(vectors, dict) else None
            if vectors and params is None:
                raise IndexMismatch(
                    f"the collection {self._name} on {self._address.url} was not made by tamis",
                    hint="it was left as it is; choose another name with engine.collection",
                )
            self._dimension = params.size if params else 0
        return self._dimension

    def prepare(self, dimension: int, layout: Layout = AS_USUAL) -> None:
        known = self.dimension()
        if known is None:
            self._create(dimension, layout)
            return
        if dimension not in (0, known):
            raise IndexMismatch(
                f"the collection {self._name} on {self._address.url} has vectors of {known} numbers, "
                f"and this model makes {dimension}",
                hint="use the model it was made with, or choose another name with engine.collection",
            )
        if layout == AS_USUAL:
            return
        config = self._config()
        quantization = "none"
        if config.quantization_config is not None:
            (quantization,) = config.quantization_config.model_dump()
        stored = {
            "shards": config.params.shard_number,
            "copies": config.params.replication_factor,
            "quantization": quantization,
            "on_disk": config.params.on_disk_payload,
        }
        for name, wanted in asdict(layout).items():
            if wanted is not None and wanted != stored[name]:
                option = name.replace("_", "-")
                raise IndexMismatch(
                    f"the collection {self._name} on {self._address.url} was created with "
                    f"{option} {stored[name]}, not {wanted}",
                    hint=f"leave out --{option}, or choose another name with engine.collection",
                )

    def _config(self) -> models.CollectionConfig:
        return self._asked(self._client.get_collection, self._name).config

    def _create(self, dimension: int, layout: Layout) -> None:
        """Create the collection, with its indexes on the payload before there is any data.

        A graph that is built later takes them into account.
        """
        copies = layout.copies or 1
        on_disk = bool(layout.on_disk)
        vectors = {}
        if dimension:
            vectors[MEANING] = models.VectorParams(
                size=dimension, distance=models.Distance.DOT, on_disk=on_disk
            )
        lane = models.SparseVectorParams(
            modifier=models.Modifier.IDF,
            index=models.SparseIndexParams(on_disk=on_disk),
        )
        self._asked(
            self._client.create_collection,
            self._name,
            vectors_config=vectors,
            sparse_vectors_config={WORDS: lane, CODE: lane},
            shard_number=layout.shards or 1,
            replication_factor=copies,
            write_consistency_factor=copies,
            on_disk_payload=on_disk,
            # A graph for each root and none over all: every search names its root.
            hnsw_config=models.HnswConfigDiff(m=0, payload_m=16),
            quantization_config=_QUANTIZATION[layout.quantization],
        )
        tenant = models.KeywordIndexParams(
            type=models.KeywordIndexType.KEYWORD, is_tenant=True
        )
        kinds = models.PayloadSchemaType
        schemas: dict[str, Any] = {TENANT: tenant}
        schemas |= dict.fromkeys(KEYWORDS, kinds.KEYWORD)
        schemas |= dict.fromkeys(NUMBERS, kinds.INTEGER)
        schemas |= dict.fromkeys(FLOATS, kinds.FLOAT)
        with warnings.catch_warnings():  # local mode has no indexes, and warns of that
            warnings.simplefilter("ignore", UserWarning)
            for name, schema in schemas.items():
                self._asked(self._client.create_payload_index, self._name, name, schema)

    def get(
        self,
        ids: Sequence[str],
        fields: Sequence[str] = (),
        vectors: tuple[str, ...] = (),
    ) -> list[Point]:
        if self.dimension() is None:
            return []
        found: list[Point] = []
        for start in range(0, len(ids), _MOST_IDS):
            records = self._asked(
                self._client.retrieve,
                self._name,
                ids[start : start + _MOST_IDS],
                with_payload=list(fields) or True,
                with_vectors=list(vectors) or False,
            )
            found += map(_point, records)
        return found

    def find(
        self,
        filter: Native,
        fields: Sequence[str] = (),
        vectors: tuple[str, ...] = (),
    ) -> Iterator[Point]:
        if self.dimension() is None:
            return
        offset: Any = None
        while True:
            records, offset = self._asked(
                self._client.scroll,
                self._name,
                scroll_filter=_filter(filter),
                limit=_PAGE,
                offset=offset,
                with_payload=list(fields) or True,
                with_vectors=list(vectors) or False,
            )
            yield from map(_point, records)
            if offset is None:
                return

    def nearest(self, asks: Sequence[Ask]) -> list[list[Point]]:
        if not asks:
            return []
        requests = [self._request(ask) for ask in asks]
        answers = self._asked(self._client.query_batch_points, self._name, requests)
        return [list(map(_point, answer.points)) for answer in answers]

    def _request(self, ask: Ask) -> models.QueryRequest:
        wanted = _filter(ask.filter)
        params = models.SearchParams(exact=self._exact)
        if ask.using != MEANING:
            params.idf = models.IdfCorpusParams(corpus=wanted)
        query: Any
        if isinstance(ask.query, np.ndarray):
            query = ask.query.tolist()
        else:
            query = _sparse_vector(ask.query)
        return models.QueryRequest(
            query=query,
            using=ask.using,
            filter=wanted,
            params=params,
            limit=ask.limit,
            with_payload=list(ask.fields) or False,
            with_vector=list(ask.vectors) or False,
        )

    def count(self, filter: Native) -> int:
        wanted = _filter(filter)
        return self._asked(
            self._client.count, self._name, count_filter=wanted, exact=True
        ).count

    def distinct(
        self,
        name: str,
        filter: Native,
        most: int,
    ) -> list[str]:
        answer = self._asked(
            self._client.facet,
            self._name,
            name,
            facet_filter=_filter(filter),
            limit=most,
            exact=True,
        )
        return [str(hit.value) for hit in answer.hits]

    def put(self, points: Sequence[Point], *, only_new: bool = False) -> None:
        mode = models.UpdateMode.INSERT_ONLY if only_new else None
        for start in range(0, len(points), _POINTS):
            some = []
            for point in points[start : start + _POINTS]:
                vectors: dict[str, Any] = {}
                if point.meaning is not None:
                    vectors[MEANING] = point.meaning.tolist()
                for name, weights in point.terms.items():
                    vectors[name] = _sparse_vector(weights)
                made = models.PointStruct(
                    id=point.id, vector=vectors, payload=point.payload
                )
                some.append(made)
            self._asked(
                self._client.upsert,
                self._name,
                some,
                wait=True,
                update_mode=mode,
            )

    def change(self, filter: Native, values: Payload) -> None:
        """Set fields, in the same order on every copy: the lease and the commit rely on it."""
        self._asked(
            self._client.set_payload,
            self._name,
            values,
            _filter(filter),
            wait=True,
            ordering=models.WriteOrdering.STRONG,
        )

    def clear(self, filter: Native, names: Sequence[str]) -> None:
        wanted = _filter(filter)
        self._asked(
            self._client.delete_payload,
            self._name,
            list(names),
            wanted,
            wait=True,
        )

    def delete(self, filter: Native) -> None:
        self._asked(self._client.delete, self._name, _filter(filter), wait=True)

    def close(self) -> None:
        self._client.close()

    def _asked(
        self,
        method: Callable[Options, Answer],
        *options: Options.args,
        **named: Options.kwargs,
    ) -> Answer:
        """Call a method of the client, and repeat that as long as it may help."""
        if not self._is_version_checked:
            self._is_version_checked = True
            self._check_version()
        failed = 0
        while True:
            try:
                return method(*options, **named)
            except (
                ApiException,
                ResourceExhaustedResponse,
                json.JSONDecodeError,
            ) as error:
                failed += 1
                fault = self._fault(error)
                may_pass = isinstance(fault, EngineUnreachable)
                if isinstance(error, UnexpectedResponse):
                    may_pass = error.status_code in _PASSING
                if failed == TRIES or not may_pass:
                    raise fault from error
                if failed == _WARN_AFTER:
                    log.warning("%s; asking again for some seconds", fault.message)
                pause = random.uniform(0.5, 1.0) * _FIRST_PAUSE * 2 ** (failed - 1)
                if isinstance(error, ResourceExhaustedResponse):
                    pause = min(error.retry_after_s, _LONGEST_PAUSE)
                sleep(pause)

    def _check_version(self) -> None:
        version = self._asked(self._client.info).version
        parts = version.split(".")[:2]
        numbers = [int(part) for part in parts if part.isdigit()]
        if tuple(numbers) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise EngineTooOld(
                f"{self._address.url} runs Qdrant {version}, and {oldest} is the oldest that can be used",
                hint="upgrade the server, one minor version at a time (docs/cluster.md)",
            )

    def _fault(self, error: Exception) -> EngineFault:
        url = self._address.url
        if isinstance(error, UnexpectedResponse):
            if error.status_code in (401, 403):
                return EngineRefused(
                    f"{url} refuses our key",
                    hint="set TAMIS_ENGINE_API_KEY to one that may read, or write, there",
                )
            text = error.content[:200].decode("utf-8", "replace")
            return EngineFault(
                f"{url} answered {error.status_code}: {text}",
                hint="see the server's own log",
            )
        source = getattr(error, "source", error)
        # The library's HTTP client is not a dependency of ours, so its class is known by name.
        kinds = [kind.__name__ for kind in type(source).__mro__]
        if isinstance(error, ResourceExhaustedResponse) or "TransportError" in kinds:
            why = str(source) or type(source).__name__
            return EngineUnreachable(
                f"{url} cannot be reached: {why.splitlines()[0]}",
                hint="check engine.url and that the server runs; nothing was lost, run it again",
            )
        return EngineFault(
            f"{url} does not answer as a Qdrant server",
            hint="check engine.url, and what listens there",
        )


def _filter(filter: Native) -> models.Filter:
    """A condition alone is a filter of one."""
    if filter.keys() <= {"must", "should", "must_not"}:
        return models.Filter.model_validate(filter)
    return models.Filter.model_validate({"must": [filter]})


def _sparse_vector(weights: Sparse) -> models.SparseVector:
    values = list(weights.values())
    return models.SparseVector(indices=list(weights), values=values)


def _point(record: models.Record | models.ScoredPoint) -> Point:
    vectors: Any = record.vector if isinstance(record.vector, dict) else {}
    meaning = None
    terms = {}
    for name, vector in vectors.items():
        if name == MEANING:
            meaning = np.array(vector, np.float32)
        else:
            terms[name] = dict(zip(vector.indices, vector.values, strict=True))
    score = record.score if isinstance(record, models.ScoredPoint) else 0.0
    return Point(
        str(record.id),
        record.payload or {},
        meaning,
        terms,
        score,
    )
