"""A Qdrant server for tests: its interface on loopback, over the library's local mode, with faults on demand.

What local mode cannot show is scripted here: a fault is chosen for a request by its number or its path, and
what it does to the connection is what a network or a busy server would do.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from pydantic import TypeAdapter
from qdrant_client import QdrantClient, models

# A status; a connection that breaks before a request is carried out, or after it; no answer at all; no JSON.
Fault = int | Literal["reset", "lost", "hang", "nonsense"]


@dataclass
class Request:
    number: int
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any

    def is_(self, method: str, end: str) -> bool:
        return self.method == method and self.path.endswith(end)


@dataclass
class FakeQdrant:
    """What the server has seen, and what it is to do about the next request."""

    version: str = "1.19.2"
    key: str = ""
    fault: Callable[[Request], Fault | None] = lambda _: None
    requests: list[Request] = field(default_factory=list)
    client: QdrantClient = field(default_factory=lambda: QdrantClient(":memory:"))
    lock: threading.RLock = field(default_factory=threading.RLock)
    resumed: threading.Event = field(default_factory=threading.Event)
    url: str = ""

    def writes(self) -> list[Request]:
        return [each for each in self.requests if each.is_("PUT", "/points")]

    def created(self, name: str = "tamis") -> Any:
        """What was asked for when a collection was created."""
        (made,) = [each for each in self.requests if each.is_("PUT", f"/{name}")]
        return made.body


@contextmanager
def fake_qdrant(**options: Any) -> Iterator[FakeQdrant]:
    fake = FakeQdrant(**options)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            with fake.lock:
                path = self.path.partition("?")[0]
                request = Request(
                    len(fake.requests),
                    self.command,
                    path,
                    dict(self.headers),
                    json.loads(body or "null"),
                )
                fake.requests.append(request)
                fault = fake.fault(request)
                status, answer = (
                    _answered(fake, request)
                    if fault in (None, "lost")
                    else (500, b"{}")
                )
            if fault in ("reset", "lost"):
                self.close_connection = True
                self.connection.close()
                return
            if fault == "hang":
                fake.resumed.wait(600)
                self.close_connection = True
                return
            if fault == "nonsense":
                status, answer = 200, b"<html>hello</html>"
            if isinstance(fault, int):
                status, answer = fault, b'{"status": {"error": "scripted"}}'
            self.send_response(status)
            if status == 429:
                self.send_header("Retry-After", "0")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_POST = do_DELETE = do_PATCH = do

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that has gone is what is tested."""

    server = Quiet(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}
    )
    thread.start()
    try:
        yield fake
    finally:
        fake.resumed.set()
        server.shutdown()
        server.server_close()
        thread.join()
        fake.client.close()


def _answered(fake: FakeQdrant, request: Request) -> tuple[int, bytes]:
    if (
        fake.key
        and request.headers.get("Api-Key", request.headers.get("api-key")) != fake.key
    ):
        return 401, b'{"status": {"error": "Unauthorized"}}'
    if request.path == "/":
        return 200, json.dumps({"title": "qdrant", "version": fake.version}).encode()
    _, _, name, *rest = request.path.split("/")
    done = _ROUTES[request.method, "/".join(rest)](fake.client, name, request.body)
    plain = TypeAdapter(Any).dump_python(done, mode="json", exclude_none=True)
    if request.is_("GET", f"/{name}"):
        _add_layout(plain["config"], fake.created(name))
    return 200, json.dumps({"result": plain, "status": "ok", "time": 0.0}).encode()


def _of(model: Any, body: Any) -> Any:
    return TypeAdapter(model).validate_python(body)


def _filter(body: Any) -> models.Filter:
    read: models.Filter = _of(models.Filter, body)
    return read


def _create(client: QdrantClient, name: str, body: Any) -> bool:
    given = _of(models.CreateCollection, body)
    return client.create_collection(name, given.vectors, given.sparse_vectors)


def _add_layout(config: Any, asked: Any) -> None:
    """Local mode forgets how a collection is stored."""
    for name in ("shard_number", "replication_factor", "on_disk_payload"):
        config["params"][name] = asked[name]
    config["quantization_config"] = asked.get("quantization_config")


def _upsert(client: QdrantClient, name: str, body: Any) -> Any:
    points = [_of(models.PointStruct, each) for each in body["points"]]
    mode = _of(models.UpdateMode | None, body.get("update_mode"))
    return client.upsert(name, points, update_mode=mode)


def _scroll(client: QdrantClient, name: str, body: Any) -> Any:
    given = _of(models.ScrollRequest, body)
    points, offset = client.scroll(
        name, given.filter, given.limit, offset=given.offset, with_payload=given.with_payload,
        with_vectors=given.with_vector or False,
    )  # fmt: skip
    return {"points": points, "next_page_offset": offset}


def _retrieve(client: QdrantClient, name: str, body: Any) -> Any:
    given = _of(models.PointRequest, body)
    return client.retrieve(
        name, given.ids, given.with_payload, given.with_vector or False
    )


def _query(client: QdrantClient, name: str, body: Any) -> Any:
    given = _of(models.QueryRequestBatch, body)
    for each in given.searches:
        if each.params is not None:
            each.params.exact = None  # local mode warns of it
    return client.query_batch_points(name, given.searches)


def _facet(client: QdrantClient, name: str, body: Any) -> Any:
    given = _of(models.FacetRequest, body)
    return client.facet(name, given.key, given.filter, given.limit, given.exact)


_ROUTES: dict[tuple[str, str], Callable[[QdrantClient, str, Any], Any]] = {
    ("GET", "exists"): lambda c, name, _: {"exists": c.collection_exists(name)},
    ("GET", ""): lambda c, name, _: c.get_collection(name),
    ("PUT", ""): _create,
    ("PUT", "index"): lambda *_: {"operation_id": 0, "status": "completed"},
    ("PUT", "points"): _upsert,
    ("POST", "points"): _retrieve,
    ("POST", "points/scroll"): _scroll,
    ("POST", "points/query/batch"): _query,
    ("POST", "points/count"): lambda c, name, body: c.count(
        name, _filter(body["filter"]), body["exact"]
    ),
    ("POST", "facet"): _facet,
    ("POST", "points/payload"): lambda c, name, body: c.set_payload(
        name, body["payload"], _filter(body["filter"])
    ),
    ("POST", "points/payload/delete"): lambda c, name, body: c.delete_payload(
        name, body["keys"], _filter(body["filter"])
    ),
    ("POST", "points/delete"): lambda c, name, body: c.delete(
        name, _filter(body["filter"])
    ),
}
