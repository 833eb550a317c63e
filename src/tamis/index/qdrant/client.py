"""The server, through its official client: the one file that knows the library.

A request that may succeed when it is made again is: after a time-out, a broken connection, 429, or a fault of
the server. The pauses double and are shaken, so that many clients do not come back together. What stays wrong
becomes a fault of our own that says what to do.
"""

import json
import logging
import random
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import (
    ApiException,
    ResponseHandlingException,
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
    Row,
    Sparse,
)
from tamis.model import Address
from tamis.settings import EngineSettings

log = logging.getLogger("tamis.index.protocol")

Answer = TypeVar("Answer")

OLDEST: Final = (1, 19)  # the first server that counts rarity over a filter
_TRIES: Final = 6
_TOLD_AFTER: Final = 2  # tries that did not help, and were not worth a word
_FIRST_PAUSE: Final = 0.2  # seconds; the sixth try comes after some six
_LONGEST_PAUSE: Final = 30.0  # that a server may ask for
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_TIMEOUT: Final = 30  # seconds for one request
_POINTS: Final = 128  # in one request: a megabyte or two
_PAGE: Final = 512
_MOST_IDS: Final = 1_000


def connect(
    address: Address, settings: EngineSettings, api_key: str | None
) -> "Server":
    """A server that is spoken to over HTTP. Asks nothing yet."""
    with (
        warnings.catch_warnings()
    ):  # a key over plain HTTP was decided on by whoever gave the address
        warnings.simplefilter("ignore", UserWarning)
        client = QdrantClient(
            url=address.url,
            port=None if _has_port(address.url) else 6333,
            api_key=api_key,
            timeout=_TIMEOUT,
            check_compatibility=False,
        )
    return Server(client, address, settings, is_remote=True)


def _has_port(url: str) -> bool:
    return ":" in url.partition("://")[2].partition("/")[0]


class Server:
    """A collection on a server (or, without one, in the library's own local mode)."""

    def __init__(
        self,
        client: QdrantClient,
        address: Address,
        settings: EngineSettings,
        *,
        is_remote: bool = False,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._client = client
        self._address, self._name = address, address.collection
        self._settings = settings
        self._is_remote = is_remote
        self._is_known = not is_remote  # its version
        self._pause = pause
        self._dimension: int | None = None

    def dimension(self) -> int | None:
        if self._dimension is None and self._asked(
            lambda: self._client.collection_exists(self._name)
        ):
            vectors = self._asked(
                lambda: self._client.get_collection(self._name)
            ).config.params.vectors
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

        if layout != AS_USUAL:
            self._check_layout(layout)

    def _check_layout(self, layout: Layout) -> None:
        """Raise if the collection is not stored as asked."""
        config = self._asked(lambda: self._client.get_collection(self._name)).config
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

    def _create(self, dimension: int, layout: Layout) -> None:
        """Create the collection, with its indexes on the payload before there is any data.

        A graph that is built later takes them into account.
        """
        copies = layout.copies or 1
        dense = models.VectorParams(
            size=max(dimension, 1),
            distance=models.Distance.DOT,
            on_disk=bool(layout.on_disk),
        )
        lane = models.SparseVectorParams(
            modifier=models.Modifier.IDF,
            index=models.SparseIndexParams(on_disk=bool(layout.on_disk)),
        )
        self._asked(
            lambda: self._client.create_collection(
                self._name,
                vectors_config={MEANING: dense} if dimension else {},
                sparse_vectors_config={WORDS: lane, CODE: lane},
                shard_number=layout.shards or 1,
                replication_factor=copies,
                write_consistency_factor=copies,
                on_disk_payload=bool(layout.on_disk),
                # A graph for each root and none over all: every search names its root.
                hnsw_config=models.HnswConfigDiff(m=0, payload_m=16),
                quantization_config=_quantization(layout.quantization),
            )
        )
        tenant = models.KeywordIndexParams(
            type=models.KeywordIndexType.KEYWORD, is_tenant=True
        )
        schemas: dict[str, Any] = {TENANT: tenant}
        schemas |= dict.fromkeys(KEYWORDS, models.PayloadSchemaType.KEYWORD)
        schemas |= dict.fromkeys(NUMBERS, models.PayloadSchemaType.INTEGER)
        schemas |= dict.fromkeys(FLOATS, models.PayloadSchemaType.FLOAT)
        for name, schema in schemas.items():
            self._index(name, schema)

    def _index(self, name: str, schema: Any) -> None:
        with warnings.catch_warnings():  # local mode has no indexes, and says so
            warnings.simplefilter("ignore", UserWarning)
            self._asked(
                lambda: self._client.create_payload_index(self._name, name, schema)
            )

    def get(
        self,
        ids: Sequence[str],
        fields: Sequence[str] = (),
        vectors: tuple[str, ...] = (),
    ) -> list[Row]:
        if self.dimension() is None:
            return []
        found: list[Row] = []
        read = partial(
            self._client.retrieve,
            self._name,
            with_payload=list(fields) or True,
            with_vectors=list(vectors) or False,
        )
        for at in range(0, len(ids), _MOST_IDS):
            found += map(
                _row, self._asked(partial(read, ids=list(ids[at : at + _MOST_IDS])))
            )
        return found

    def find(
        self, filter: Native, fields: Sequence[str] = (), vectors: tuple[str, ...] = ()
    ) -> Iterator[Row]:
        if self.dimension() is None:
            return
        page = partial(
            self._client.scroll,
            self._name,
            scroll_filter=_filter(filter),
            limit=_PAGE,
            with_payload=list(fields) or True,
            with_vectors=list(vectors) or False,
        )
        offset: Any = None
        while True:
            records, offset = self._asked(partial(page, offset=offset))
            yield from map(_row, records)
            if offset is None:
                return

    def nearest(self, asks: Sequence[Ask]) -> list[list[Row]]:
        if not asks:
            return []
        requests = [self._request(ask) for ask in asks]
        answers = self._asked(
            lambda: self._client.query_batch_points(self._name, requests)
        )
        return [[_row(point) for point in answer.points] for answer in answers]

    def _request(self, ask: Ask) -> models.QueryRequest:
        exact = (
            self._settings.exact if self._is_remote else None
        )  # local mode knows no other way
        params = models.SearchParams(exact=exact)
        if ask.using != MEANING:
            params.idf = models.IdfCorpusParams(corpus=_filter(ask.corpus))
        return models.QueryRequest(
            query=_vector(ask.query),
            using=ask.using,
            filter=_filter(ask.filter),
            params=params,
            limit=ask.limit,
            with_payload=list(ask.fields) or False,
            with_vector=list(ask.vectors) or False,
        )

    def count(self, filter: Native) -> int:
        return self._asked(
            lambda: self._client.count(
                self._name, count_filter=_filter(filter), exact=True
            )
        ).count

    def distinct(self, name: str, filter: Native, most: int) -> list[str]:
        answer = self._asked(
            lambda: self._client.facet(
                self._name, name, facet_filter=_filter(filter), limit=most, exact=True
            )
        )
        return [str(hit.value) for hit in answer.hits]

    def put(self, points: Sequence[Point], *, only_new: bool = False) -> None:
        mode = models.UpdateMode.INSERT_ONLY if only_new else None
        for at in range(0, len(points), _POINTS):
            some = [_struct(point) for point in points[at : at + _POINTS]]
            self._asked(
                partial(
                    self._client.upsert, self._name, some, wait=True, update_mode=mode
                )
            )

    def change(self, filter: Native, values: Payload) -> None:
        """In the order in which changes come, on every copy: who writes, and what is current, hang on it."""
        self._asked(
            lambda: self._client.set_payload(
                self._name,
                values,
                _filter(filter),
                wait=True,
                ordering=models.WriteOrdering.STRONG,
            )
        )

    def clear(self, filter: Native, names: Sequence[str]) -> None:
        self._asked(
            lambda: self._client.delete_payload(
                self._name, list(names), _filter(filter), wait=True
            )
        )

    def delete(self, filter: Native) -> None:
        self._asked(lambda: self._client.delete(self._name, _filter(filter), wait=True))

    def close(self) -> None:
        self._client.close()

    def _asked(self, call: Callable[[], Answer]) -> Answer:
        """What the server answers; asked again as long as that may help."""
        if not self._is_known:
            self._is_known = True
            self._check_version()
        for number in range(_TRIES):
            try:
                return call()
            except (
                ApiException,
                ResourceExhaustedResponse,
                json.JSONDecodeError,
            ) as error:
                last = number == _TRIES - 1
                if last or not _may_pass(error):
                    raise self._fault(error) from error
                self._tell(number, error)
                self._pause(_pause_after(error, number))
        raise AssertionError("the loop returns or raises")

    def _tell(self, number: int, error: Exception) -> None:
        """Once, when a second is over: whoever waits wants to know for what."""
        if number == _TOLD_AFTER:
            log.warning("%s; asking again for some seconds", self._fault(error).message)

    def _check_version(self) -> None:
        told = self._asked(self._client.info).version
        numbers = tuple(int(part) for part in told.split(".")[:2] if part.isdigit())
        if numbers < OLDEST:
            raise EngineTooOld(self._address.url, told, ".".join(map(str, OLDEST)))

    def _fault(self, error: Exception) -> EngineFault:
        url = self._address.url
        if isinstance(error, UnexpectedResponse) and error.status_code in (401, 403):
            return EngineRefused(url)
        if isinstance(error, UnexpectedResponse):
            said = error.content[:200].decode("utf-8", "replace")
            return EngineFault(
                f"{url} answered {error.status_code}: {said}",
                hint="see the server's own log",
            )
        no_json = isinstance(error, json.JSONDecodeError)
        if no_json or (
            isinstance(error, ResponseHandlingException) and not _is_connection(error)
        ):
            return EngineFault(
                f"{url} does not answer as a Qdrant server",
                hint="check engine.url, and what listens there",
            )
        return EngineUnreachable(url, _first_line(error))


def _first_line(error: Exception) -> str:
    source = error.source if isinstance(error, ResponseHandlingException) else error
    return (str(source) or type(source).__name__).splitlines()[0]


def _is_connection(error: ResponseHandlingException) -> bool:
    """Whether the way there is what failed, not the reading of an answer. Named, as httpx is not ours."""
    return any(kind.__name__ == "TransportError" for kind in type(error.source).__mro__)


def _may_pass(error: Exception) -> bool:
    if isinstance(error, ResourceExhaustedResponse):
        return True
    if isinstance(error, UnexpectedResponse):
        return error.status_code in _PASSING
    return isinstance(error, ResponseHandlingException) and _is_connection(error)


def _pause_after(error: Exception, number: int) -> float:
    """What the server asks for, or else twice as long as before, shaken."""
    if isinstance(error, ResourceExhaustedResponse):
        return float(min(error.retry_after_s, _LONGEST_PAUSE))
    doubled: float = _FIRST_PAUSE * 2**number
    return doubled * random.uniform(0.5, 1.0)


def _filter(filter: Native) -> models.Filter:
    """A condition alone is a filter of one."""
    whole = (
        filter
        if filter.keys() <= {"must", "should", "must_not"}
        else {"must": [filter]}
    )
    return models.Filter.model_validate(whole)


def _vector(query: Any) -> Any:
    return query.tolist() if isinstance(query, np.ndarray) else _as_sparse(query)


def _as_sparse(weights: Sparse) -> models.SparseVector:
    return models.SparseVector(indices=list(weights), values=list(weights.values()))


def _struct(point: Point) -> models.PointStruct:
    vector: dict[str, Any] = (
        {} if point.meaning is None else {MEANING: point.meaning.tolist()}
    )
    lanes = {WORDS: point.words, CODE: point.code}
    vector |= {
        name: _as_sparse(weights)
        for name, weights in lanes.items()
        if weights is not None
    }
    return models.PointStruct(id=point.id, vector=vector, payload=point.payload)


def _row(record: models.Record | models.ScoredPoint) -> Row:
    vectors = record.vector if isinstance(record.vector, dict) else {}
    dense: Any = vectors.get(MEANING)
    return Row(
        str(record.id),
        record.payload or {},
        record.score if isinstance(record, models.ScoredPoint) else 0.0,
        None if dense is None else np.array(dense, np.float32),
        _read_sparse(vectors.get(WORDS)),
        _read_sparse(vectors.get(CODE)),
    )


def _read_sparse(vector: Any) -> Sparse | None:
    return (
        None
        if vector is None
        else dict(zip(vector.indices, vector.values, strict=True))
    )


def _quantization(name: str | None) -> Any:
    """Quantised vectors stay in memory, where the others may be on disk."""
    if name == "scalar":
        return models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(
                type=models.ScalarType.INT8, always_ram=True
            )
        )
    if name == "binary":
        return models.BinaryQuantization(
            binary=models.BinaryQuantizationConfig(always_ram=True)
        )
    return None
