"""The cluster engine end to end: by commands, over a network that fails, with others at work meanwhile."""

import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from click.testing import CliRunner, Result

from support import clusters
from support.corpora import open_corpus, test_settings, write_files
from support.fake_qdrant import FakeQdrant, Fault, Request, fake_qdrant
from support.installed import pages, serving
from tamis.cli.main import cli
from tamis.corpus import Corpus
from tamis.errors import (
    BadSetting,
    EngineFault,
    EngineRefused,
    EngineTooOld,
    EngineUnreachable,
    IndexLocked,
    IndexMismatch,
    UsageError,
)
from tamis.index.build import build
from tamis.index.qdrant import client
from tamis.index.qdrant import points as p
from tamis.index.qdrant.reader import QdrantIndex
from tamis.index.qdrant.writer import FREE, STALE, Sightings
from tamis.live.browse import Wanted, excerpt
from tamis.live.corpus import LiveCorpus
from tamis.live.folders import Folder, served
from tamis.live.roots import Roots
from tamis.models.hashing import HashingEmbedder
from tamis.progress import Silent
from tamis.query.filters import EVERYTHING
from tamis.request import SearchRequest

FILES = {
    "docs/api.md": "---\ntags: [api]\n---\n# API\n\nRetry by [[queue]].\n\n## Limits\n\nTen tokens.\n",
    "docs/queue.md": "# Queue\n\nA queue of jobs.\n\n## Retry\n\nJobs are tried again.\n",
    "src/app.py": "def retry_job(job):\n    return job.run()\n",
    "empty.md": "",
}
SMALL = {
    "chunking__min_chars": 0,
    "chunking__max_chars": 120,
    "chunking__overlap_chars": 20,
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeQdrant]:
    """A server on loopback; pauses between two tries are none."""
    monkeypatch.setattr(client, "sleep", lambda _: None)
    with fake_qdrant() as fake:
        yield fake


def run(*arguments: str, key: str = "") -> Result:
    environment = {"TAMIS_ENGINE_API_KEY": key} if key else {}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        return CliRunner().invoke(cli, list(arguments), standalone_mode=False)


def root_of(folder: Path, files: dict[str, str] = FILES) -> Path:
    return write_files(folder / "notes", files)


# --- Commands --------------------------------------------------------------------------------------


@pytest.mark.rows("R003-004", "R003-008", "R003-027")
def test_index_and_search_by_commands(server, tmp_path):
    """What the local index answers, the server's does, under filters too."""
    root = root_of(tmp_path)
    made = run(
        "index", str(root), "--engine", server.url, "--model", "hashing", "--json"
    )
    assert json.loads(made.stdout)["indexed"] == 4
    run("index", str(root), "--model", "hashing", "-q")
    for extra in ([], ["--under", "docs"], ["--tag", "api"], ["--exclude-file", "queue"],
                  ["--lang", "python"], ["--exclude", "*.md"], ["--after", "2020"]):  # fmt: skip
        asked = ["search", "retry jobs", str(root), "--json", *extra]
        there, here = (
            json.loads(run(*asked, *where).stdout)
            for where in (["--engine", server.url], [])
        )
        assert there["results"] == here["results"], extra
        assert [
            there["stats"][name]
            for name in ("eligible_documents", "excluded_documents")
        ] == [
            here["stats"][name] for name in ("eligible_documents", "excluded_documents")
        ]


def test_whoever_has_the_folder_by_that_name_may_search(server, tmp_path):
    """One indexer feeds it; others ask from checkouts of their own, and see their own paths."""
    one, two = (
        root_of(tmp_path / "one"),
        root_of(tmp_path / "two", {"unrelated.md": "nothing"}),
    )
    run("index", str(one), "--engine", server.url, "--model", "hashing", "-q")
    found = json.loads(
        run("search", "retry", str(two), "--engine", server.url, "--json").stdout
    )
    assert found["results"][0]["file_path"].startswith(str(two))
    refused = run("index", str(two), "--engine", server.url)
    assert isinstance(refused.exception, IndexMismatch)
    assert "engine.root" in refused.exception.hint
    for other in (
        ["rebuild-index", str(two), "--engine", server.url],
        ["migrate", str(two), "--to", server.url],
    ):
        run("index", str(two), "--model", "hashing", "-q")
        refused = run(*other)
        assert isinstance(refused.exception, IndexMismatch), other
        assert "--take-over" in refused.exception.hint
    taken = run(
        "rebuild-index", str(two), "--engine", server.url, "--take-over", "--json"
    )
    assert json.loads(taken.stdout)["indexed"] == 1


MAKING = ("index", "rebuild-index", "migrate")


def make(command: str, root: Path, server: FakeQdrant, *options: str) -> Result:
    """Make an index on the server by one of the commands that can create the collection."""
    run("index", str(root), "--model", "hashing", "-q")
    where = ["--to"] if command == "migrate" else ["--model", "hashing", "--engine"]
    return run(command, str(root), *where, server.url, *options)


@pytest.mark.parametrize("command", MAKING)
def test_the_layout_of_a_new_collection(server, tmp_path, command):
    chosen = ("--shards", "3", "--copies", "2", "--quantization", "scalar", "--on-disk")
    assert make(command, root_of(tmp_path), server, *chosen).return_value == 0
    asked = server.created()
    assert (asked["shard_number"], asked["replication_factor"]) == (3, 2)
    assert asked["write_consistency_factor"] == 2, "a write waits for every copy"
    assert list(asked["quantization_config"]) == ["scalar"]
    assert asked["on_disk_payload"] and asked["vectors"]["meaning"]["on_disk"]
    assert asked["sparse_vectors"]["words"]["index"]["on_disk"]


def test_the_usual_layout_of_a_collection(server, tmp_path):
    assert make("index", root_of(tmp_path), server).return_value == 0
    asked = server.created()
    assert (asked["shard_number"], asked["replication_factor"]) == (1, 1)
    assert "quantization_config" not in asked
    assert not asked["on_disk_payload"] and not asked["vectors"]["meaning"]["on_disk"]


@pytest.mark.parametrize("command", MAKING)
@pytest.mark.parametrize(
    "other",
    [
        ("--shards", "2"),
        ("--copies", "1"),
        ("--quantization", "binary"),
        ("--quantization", "none"),
    ],
)
def test_a_collection_that_exists_keeps_its_layout(server, tmp_path, command, other):
    """Asking for the same once more is fine; asking for something else changes nothing."""
    root, same = root_of(tmp_path), ("--copies", "2", "--quantization", "scalar")
    assert make(command, root, server, *same).return_value == 0
    assert make(command, root, server, *same).return_value == 0
    seen = len(server.writes())
    refused = make(command, root, server, *other).exception
    assert isinstance(refused, IndexMismatch)
    assert other[0] in refused.hint and f"not {other[1]}" in refused.message
    assert len(server.writes()) == seen
    assert make(command, root, server).return_value == 0


def test_an_index_on_this_machine_has_no_layout(tmp_path):
    root, url = str(root_of(tmp_path)), "http://127.0.0.1:1"
    for command in (["index"], ["rebuild-index"], ["migrate", "--from", url]):
        refused = run(*command, root, "--shards", "2").exception
        assert isinstance(refused, UsageError) and "--engine" in refused.hint
    assert not (tmp_path / "notes" / ".tamis" / "index.db").exists()


def test_status_and_a_second_run(server, tmp_path):
    root = root_of(tmp_path)
    run("index", str(root), "--engine", server.url, "--model", "hashing", "-q")
    write_files(root, {"new.md": "# New\n"})
    (root / "docs/queue.md").unlink()
    status = json.loads(
        run("status", str(root), "--engine", server.url, "--json").stdout
    )
    assert (status["changed_files"], status["removed_files"], status["model"]) == (
        1,
        1,
        "hashing",
    )
    assert status["directory"] == f"{server.url} (collection tamis, root notes)"
    again = json.loads(run("index", str(root), "--engine", server.url, "--json").stdout)
    assert (again["indexed"], again["removed"], again["unchanged"]) == (1, 1, 3)
    assert "only an index on this machine" in str(
        run("doctor", str(root), "--engine", server.url).exception
    )


def test_the_page_is_served_from_the_server(server, tmp_path):
    """Nothing is indexed on this machine, and the API answers all the same."""
    root = root_of(tmp_path)
    run("index", str(root), "--engine", server.url, "--model", "hashing", "-q")
    with (
        serving(*pages(root), "--engine", server.url) as address,
        urlopen(f"{address.rstrip('/')}/api/v1/search?q=retry", timeout=60) as response,
    ):
        found = json.load(response)
    assert found["results"]
    assert not (root / ".tamis").exists()


def test_a_search_does_not_index(server, tmp_path):
    """Whoever looks for something does not thereby send their documents anywhere."""
    refused = run("search", "retry", str(root_of(tmp_path)), "--engine", server.url)
    assert "has no index" in refused.exception.message
    assert f"tamis index ROOT --engine {server.url}" in refused.exception.hint
    assert not [
        each
        for each in server.requests
        if each.method != "GET" and "/exists" not in each.path
    ]


@pytest.mark.rows("R003-033")
def test_two_roots_in_one_collection_do_not_see_each_other(server, tmp_path):
    """The root is the tenant, in every condition of every request."""
    one, two = (
        write_files(tmp_path / "one", {"a.md": "alpha"}),
        write_files(tmp_path / "two", {"b.md": "alpha"}),
    )
    for root in (one, two):
        run("index", str(root), "--engine", server.url, "--model", "hashing", "-q")
    for root, path in ((one, "a.md"), (two, "b.md")):
        found = json.loads(
            run("search", "alpha", str(root), "--engine", server.url, "--json").stdout
        )
        assert [result["path"] for result in found["results"]] == [path]
        assert (found["index"]["documents"], found["index"]["chunks"]) == (1, 1)


@pytest.mark.rows("R003-003", "R003-004", "R003-009", "R004-007")
def test_what_a_point_holds(server, tmp_path):
    """The fields of the design, under their names."""
    root = root_of(tmp_path)
    with remote(server, root) as corpus:
        corpus.refresh()
    points = [each.payload for each in server.client.scroll("tamis", limit=99)[0]]
    (chunk,) = (
        each
        for each in points
        if each["kind"] == "chunk"
        and each["filePath"] == "docs/api.md"
        and each["chunkId"] == "0"
    )
    assert chunk["parentDirectories"] == ["/docs/"]
    assert chunk["content"] == "# API\n\nRetry by [[queue]]."
    assert (chunk["chunk_type"], chunk["tags"], chunk["tagTree"]) == (
        "documentation",
        ["api"],
        ["api"],
    )
    assert (chunk["archived"], chunk["root"]) == (0, "notes")
    assert len(bytes.fromhex(chunk["fileHash"])) >= 16
    indexed = {
        each.body["field_name"] for each in server.requests if each.is_("PUT", "/index")
    }
    assert {
        "root",
        "filePath",
        "parentDirectories",
        "tagTree",
        "chunk_type",
        "modified",
    } <= indexed
    first = next(each.number for each in server.requests if each.is_("PUT", "/points"))
    assert all(
        each.number < first for each in server.requests if each.is_("PUT", "/index")
    ), "before any data"
    (tenant,) = (
        each.body
        for each in server.requests
        if each.is_("PUT", "/index") and each.body["field_name"] == "root"
    )
    assert tenant["field_schema"]["is_tenant"] is True


@pytest.mark.rows("R004-010")
def test_lanes_go_in_one_request(server, tmp_path):
    """Meaning, words and code together; showing what they found needs no other."""
    root = root_of(tmp_path, {"a.py": "def alpha_beta():\n    pass\n"})
    with remote(server, root) as corpus:
        corpus.refresh()
        server.requests.clear()
        assert corpus.search("alpha_beta", max_hops=0).results
    batches = [each for each in server.requests if each.path.endswith("/query/batch")]
    lanes = [[search["using"] for search in each.body["searches"]] for each in batches]
    assert [set(each) for each in lanes] == [{"meaning", "words", "code"}]
    assert len(server.requests) <= 8


def test_a_live_corpus_leaves_the_server_to_its_indexer(server, tmp_path):
    root = root_of(tmp_path)
    settings = test_settings(root, engine__url=server.url)
    with remote(server, root) as corpus:
        corpus.refresh()
    write_files(root, {"new.md": "# Newest\n"})
    with closing(LiveCorpus(Folder("root", root, settings))) as live:
        assert live.fresh(5).complete
        assert live.corpus.search("newest").index.documents == 3
        live._bring_up_to_date()  # as `tamis watch` does
        assert live.corpus.search("newest").results[0].path == "new.md"


def test_an_agent_asks_a_server(server, tmp_path):
    """What `tamis mcp --engine` holds: search, passages, documents, status."""
    root = root_of(tmp_path)
    with remote(server, root) as corpus:
        corpus.refresh()
    with closing(
        Roots(served([str(root)], {"model.name": "hashing", "engine.url": server.url}))
    ) as roots:
        page = roots.search(SearchRequest("retry jobs", limit=5), None)
        assert {each.result.path for each in page.results} == {
            "docs/api.md",
            "docs/queue.md",
            "src/app.py",
        }
        assert page.freshness.complete
        wanted = Wanted(chunk_id="docs/queue.md#1")
        _, passage = roots.first(None, lambda corpus: excerpt(corpus, wanted, 2_000))
        assert "Jobs are tried again." in passage.content
        assert [path for _, path in roots.documents()] == sorted(FILES)
        assert roots.values("tag") == ["api"]
        (status,), _ = roots.status(None)
        assert (status.documents, status.model) == (3, "hashing")
        assert all(live._watcher is None for live in roots._live.values()), (
            "whoever asks does not index"
        )


# --- Faults ----------------------------------------------------------------------------------------


def test_unreachable(tmp_path):
    with fake_qdrant() as gone:
        url = gone.url
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tamis.index.qdrant.client.TRIES", 1)
        said = run("search", "retry", str(root_of(tmp_path)), "--engine", url).exception
    assert isinstance(said, EngineUnreachable)
    assert url in said.message


def test_whoever_waits_is_told_once_for_what(server, tmp_path, caplog):
    """The pauses between the six tries add up to some seconds."""
    with fake_qdrant() as gone:
        url = gone.url
    said = run("search", "retry", str(root_of(tmp_path)), "--engine", url).exception
    assert isinstance(said, EngineUnreachable)
    assert [each.getMessage() for each in caplog.records] == [
        f"{said.message}; asking again for some seconds"
    ]


@pytest.mark.parametrize("key", ["sup3rsecret\r", "sup3rsecr\u00e9t"])
def test_a_key_that_cannot_be_sent_is_not_shown(server, tmp_path, key):
    said = run(
        "status", str(root_of(tmp_path)), "--engine", server.url, key=key
    ).exception
    assert isinstance(said, BadSetting)
    assert "sup3r" not in f"{said.message} {said.hint}"
    assert not server.requests


def test_a_wrong_key_is_not_tried_again(server, tmp_path):
    server.key = "right"
    root = str(root_of(tmp_path))
    for key in ("wrong", ""):
        server.requests.clear()
        said = run(
            "index", root, "--engine", server.url, "--model", "hashing", key=key
        ).exception
        assert isinstance(said, EngineRefused)
        assert "TAMIS_ENGINE_API_KEY" in said.hint
        assert len(server.requests) == 1
    assert (
        run(
            "index",
            root,
            "--engine",
            server.url,
            "--model",
            "hashing",
            "-q",
            key="right",
        ).exception
        is None
    )


def test_a_key_does_not_go_over_an_open_line(tmp_path):
    said = run(
        "search",
        "x",
        str(root_of(tmp_path)),
        "--engine",
        "http://qdrant.example:6333",
        key="secret",
    ).exception
    assert "in the clear" in said.message
    assert "secret" not in said.message + said.hint


def test_a_server_that_is_too_old(server, tmp_path):
    server.version = "1.18.3"
    said = run("search", "x", str(root_of(tmp_path)), "--engine", server.url).exception
    assert isinstance(said, EngineTooOld)
    assert "1.19" in said.message


def test_something_else_that_listens_there(server, tmp_path):
    server.fault = lambda _: "nonsense"
    said = run("search", "x", str(root_of(tmp_path)), "--engine", server.url).exception
    assert isinstance(said, EngineFault)
    assert "does not answer as a Qdrant server" in said.message


def test_a_collection_of_another_model(server, tmp_path):
    """By its name where the root is known; by the width of its vectors where the collection is another's."""
    one = root_of(tmp_path)
    run("index", str(one), "--engine", server.url, "--model", "hashing", "-q")
    said = run(
        "search", "x", str(one), "--engine", server.url, "--model", "none"
    ).exception
    assert "made with the model hashing, not none" in said.message
    other = write_files(tmp_path / "other", {"a.md": "alpha"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HashingEmbedder, "dimension", 64)
        said = run(
            "index", str(other), "--engine", server.url, "--model", "hashing"
        ).exception
    assert isinstance(said, IndexMismatch)
    assert "vectors of 256 numbers" in said.message
    assert "engine.collection" in said.hint


class Script:
    """Faults for the first requests of a kind."""

    def __init__(
        self, faults: Sequence[Fault], method: str, end: str, skip: int = 0
    ) -> None:
        self.faults, self.method, self.end, self.skip = list(faults), method, end, skip

    def __call__(self, request: Request) -> Fault | None:
        if not request.is_(self.method, self.end):
            return None
        if self.skip:
            self.skip -= 1
            return None
        return self.faults.pop(0) if self.faults else None


PASSING: list[Sequence[Fault]] = [
    [429, 429],
    [500],
    [503, 502],
    ["reset"],
    ["lost", 500, "reset"],
]
IN_BATCH, AT_COMMIT = ("PUT", "/points", 2), ("POST", "/points/payload", 1)


@pytest.mark.parametrize(
    ("faults", "method", "end", "skip"),
    [
        *((faults, *IN_BATCH) for faults in PASSING),
        ([500], *AT_COMMIT),
        (["lost", 429], *AT_COMMIT),
    ],
    ids=str,
)
def test_what_passes_is_tried_again(server, tmp_path, faults, method, end, skip):
    """In mid-batch and at the commit; one that was carried out though its answer was lost does no harm."""
    root = root_of(tmp_path)
    server.fault = script = Script(faults, method, end, skip)
    with remote(server, root) as corpus:
        assert corpus.refresh().indexed == 4
        assert not script.faults, "the faults came"
        assert answers(corpus) == answers_of_a_fresh_index(root)


def test_a_server_that_does_not_answer_in_time(server, tmp_path):
    root = root_of(tmp_path)
    with remote(server, root) as corpus:
        corpus.refresh()
    server.fault = Script(["hang"] * 99, "POST", "/points")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tamis.index.qdrant.client.TRIES", 1)
        patch.setattr("tamis.index.qdrant.client.TIMEOUT", 1)
        with remote(server, root) as corpus, pytest.raises(EngineUnreachable):
            corpus.search("retry")


@pytest.mark.parametrize("fault", [500, "lost"])
def test_what_stays_is_reported_and_a_rerun_heals(server, tmp_path, fault, monkeypatch):
    """No half-indexed document is ever seen, whichever request it ends at."""
    root = root_of(tmp_path)
    with remote(server, root) as corpus:
        corpus.refresh()
        before = answers(corpus)
    write_files(
        root,
        {"docs/api.md": "# API\n\nAll is new.\n\n## More\n\nAnd longer than before.\n"},
    )
    monkeypatch.setattr("tamis.index.qdrant.client.TRIES", 2)
    for kind, skip in ((("PUT", "/points"), 0), (("POST", "/points/payload"), 4)):
        server.fault = Script([fault] * 99, *kind, skip)
        with remote(server, root) as corpus:
            with pytest.raises(EngineFault):
                corpus.refresh()
            server.fault = lambda _: None
            assert answers(corpus) == before
    with taken_over(server, root) as corpus:
        corpus.refresh()
        assert answers(corpus) == answers_of_a_fresh_index(root)


def remote(server: FakeQdrant, root: Path, **flags: Any) -> Corpus:
    settings = test_settings(root, engine__url=server.url, **SMALL | flags)
    return Corpus(root, root / ".tamis", settings)


def taken_over(server: FakeQdrant, root: Path) -> Corpus:
    """The same, by somebody who does not wait for an owner's heart to beat."""
    corpus = remote(server, root)
    hasty(corpus._reader)
    return corpus


class Hasty(Sightings):
    """Takes every owner for dead at first sight."""

    def still_for(self, record: p.Payload) -> float:
        return STALE


def hasty(index: QdrantIndex) -> QdrantIndex:
    index.sightings = Hasty(lambda: 0.0)
    return index


QUESTIONS = ("retry", "new longer", "queue jobs", "retry_job")


def answers(corpus: Corpus) -> list[list[tuple[str, int, str, float]]]:
    return [
        [
            (each.path, each.start_line, each.content, each.score)
            for each in corpus.search(text, limit=50).results
        ]
        for text in QUESTIONS
    ]


def answers_of_a_fresh_index(root: Path) -> Any:
    with open_corpus(
        root, index=None, index__directory=".tamis/fresh", **SMALL
    ) as local:
        return answers(local)


# --- What a reader sees while an indexer runs --------------------------------------------------------


class Watched:
    """Points that call somebody before each change; and that end, as if the process had, when they say so."""

    def __init__(self, points: p.Points, before: Callable[[int], None]) -> None:
        self.points, self.before, self.changes = points, before, 0

    def __getattr__(self, name: str) -> Any:
        known = getattr(self.points, name)
        if name not in ("put", "change", "clear", "delete"):
            return known

        def changed(*arguments: Any, **options: Any) -> None:
            self.before(self.changes)
            self.changes += 1
            known(*arguments, **options)

        return changed


class Dead(EngineFault):
    """The process is gone: nothing it does reaches the server."""


OLD = {
    "a.md": "# A\n\nold one\n\n## Two\n\nold two\n",
    "b.md": "# B\n\nold\n",
    "gone.md": "# Gone\n\nold\n",
}
NEW = {"a.md": "# A\n\nnew one\n\n## Two\n\nnew two\n\n## Three\n\nnew three\n", "b.md": "# B\n\nnew\n",
       "more.md": "# More\n\nnew\n"}  # fmt: skip


def seen(points: p.Points) -> dict[str, list[str]]:
    with clusters.index_on(points).snapshot() as snapshot:
        everything = snapshot.allow(EVERYTHING)
        keys = snapshot.keys(snapshot.documents(EVERYTHING), everything)
        texts = {
            path: [each.content for each in snapshot.passages(own).values()]
            for path, own in keys.items()
        }
        assert (
            sum(map(len, texts.values())) == snapshot.state.chunks == everything.chunks
        )
        assert len(texts) == snapshot.state.documents
        return texts


def written(
    points: p.Points,
    root: Path,
    files: dict[str, str],
    *,
    rebuild: bool = False,
    by: Callable[[QdrantIndex], QdrantIndex] = lambda index: index,
) -> None:
    for name in set(OLD) - set(files):
        (root / name).unlink(missing_ok=True)
    write_files(root, files)
    index = by(clusters.index_on(points))
    build(
        root,
        index,
        test_settings(root, **SMALL),
        lambda _: HashingEmbedder(),
        Silent(),
        rebuild=rebuild,
    )


@pytest.mark.parametrize("kind", ["qdrant-local", "qdrant-edge"])
@pytest.mark.parametrize("rebuild", [False, True], ids=["update", "rebuild"])
def test_a_reader_sees_whole_documents_at_every_moment(tmp_path, kind, rebuild):
    """Before each change that a run makes: each document as it was or as it will be, never a mixture; and in
    a rebuild, all as they were until all are as they will be."""
    root = tmp_path / "root"
    root.mkdir()
    with closing(clusters.points_at(kind, tmp_path)) as points:
        written(points, root, OLD)
        old, moments = seen(points), []
        written(
            Watched(points, lambda _: moments.append(seen(points))),
            root,
            NEW,
            rebuild=rebuild,
        )
        new = seen(points)
    assert set(new) == set(NEW)
    assert len(moments) > 8
    for moment in moments:
        assert not rebuild or moment in (old, new)
        for path, texts in moment.items():
            assert texts in (old.get(path), new.get(path)), path


@pytest.mark.rows("R000-036")
def test_a_held_snapshot_stays_as_it_is(tmp_path):
    """A search that began before a commit ends on what it began with."""
    root = tmp_path / "root"
    root.mkdir()
    with closing(clusters.points_at("qdrant-edge", tmp_path)) as points:
        written(points, root, OLD)
        before = seen(points)
        with clusters.index_on(points).snapshot() as held:
            written(points, root, NEW)
            keys = held.keys(held.documents(EVERYTHING), held.allow(EVERYTHING))
            texts = {
                path: [each.content for each in held.passages(own).values()]
                for path, own in keys.items()
            }
        assert texts == before != seen(points)


def test_a_run_that_dies_at_any_change_is_taken_back_and_a_rerun_heals(tmp_path):
    """What no commit made current is seen by nobody, then or later."""
    root = tmp_path / "root"
    root.mkdir()
    with closing(clusters.points_at("qdrant-edge", tmp_path)) as points:
        written(points, root, NEW)
        healed, number, died = seen(points), 0, True
        while died:
            written(points, root, OLD, by=hasty)
            old = seen(points)

            def dies(change: int, after: int = number) -> None:
                if change >= after:
                    raise Dead("gone")

            try:
                written(Watched(points, dies), root, NEW)
                died = False
            except Dead:
                between = seen(points)
                assert all(
                    texts in (old.get(path), healed.get(path))
                    for path, texts in between.items()
                )
            written(points, root, NEW, by=hasty)
            assert seen(points) == healed
            left = {"must": [{"key": "born", "range": {"gt": _generation(points)}}]}
            assert not points.count(left)
            number += 2
    assert number > 8


def _generation(points: p.Points) -> int:
    with clusters.index_on(points).snapshot() as snapshot:
        return snapshot.state.generation


def test_what_is_gone_is_deleted_when_nobody_looks_any_more(tmp_path, monkeypatch):
    root = tmp_path / "root"
    root.mkdir()
    gone = {"must": [{"key": "gone", "range": {"gte": 0}}]}
    with closing(clusters.points_at("qdrant-edge", tmp_path)) as points:
        written(points, root, OLD)
        written(points, root, NEW)
        assert points.count(gone)
        monkeypatch.setattr("tamis.index.qdrant.writer.LINGER", -1.0)
        written(points, root, NEW)
        assert not points.count(gone)


def test_dates_that_move_alone_are_written_whole(tmp_path):
    """A document's date is on each of its chunks: they move together, and nothing is embedded for it."""
    root = write_files(tmp_path / "root", OLD)
    with closing(clusters.points_at("qdrant-edge", tmp_path)) as points:
        written(points, root, OLD)
        before = seen(points)
        os.utime(root / "a.md", (1_000_000_000, 1_000_000_000))
        calls: list[Any] = []

        class Counting(HashingEmbedder):
            def embed_passages(self, texts):
                calls.append(texts)
                return super().embed_passages(texts)

        index = clusters.index_on(points)
        build(root, index, test_settings(root, **SMALL), lambda _: Counting(), Silent())
        assert seen(points) == before
        assert not calls
        with index.snapshot() as snapshot:
            dates = {facts.path: facts.modified for facts in snapshot.facts()}
            keys = snapshot.keys(["a.md"], snapshot.allow(EVERYTHING))["a.md"]
            assert {each.modified for each in snapshot.passages(keys).values()} == {
                1_000_000_000.0
            }
            assert dates["a.md"] == 1_000_000_000.0
            assert snapshot.vectors([("a.md", 0)]).any()


# --- Who writes --------------------------------------------------------------------------------------


def test_a_second_indexer_is_told_who_writes(tmp_path):
    root = write_files(tmp_path / "root", OLD)
    with closing(clusters.points_at("qdrant-edge", tmp_path)) as points:
        with clusters.index_on(points).open_for_writing(0, lambda _: None, {}):
            said: list[str] = []
            second = clusters.index_on(points).open_for_writing(0.3, said.append, {})
            with pytest.raises(IndexLocked) as caught, second:
                pass
            assert said == [caught.value.holder]
            assert f"process {os.getpid()}" in caught.value.holder
        written(points, root, OLD)


def test_an_owner_that_was_taken_for_dead_cannot_commit(tmp_path):
    """The change of the record names its owner: a late commit changes nothing and says so."""
    with (
        closing(clusters.points_at("qdrant-edge", tmp_path)) as points,
        ExitStack() as stack,
    ):
        late = stack.enter_context(
            clusters.index_on(points).open_for_writing(0, lambda _: None, {})
        )
        late.describe({"built_at": 1.0})
        new = stack.enter_context(
            hasty(clusters.index_on(points)).open_for_writing(0, lambda _: None, {})
        )
        new.describe({"pending": 7})
        with pytest.raises(IndexLocked):
            late.describe({"pending": 9})
        with clusters.index_on(points).snapshot() as snapshot:
            assert snapshot.about["pending"] == 7


def test_whoever_never_waits_takes_over_in_the_end(tmp_path):
    """`tamis watch` asks again and again, and waits for nobody: what it saw before counts."""
    now = [0.0]
    with (
        closing(clusters.points_at("qdrant-edge", tmp_path)) as points,
        ExitStack() as stack,
    ):
        stack.enter_context(
            clusters.index_on(points).open_for_writing(0, lambda _: None, {})
        )
        watching = clusters.index_on(points, clock=lambda: now[0])
        for seconds in (0.0, STALE / 2, STALE - 1):
            now[0] = seconds
            with (
                pytest.raises(IndexLocked),
                watching.open_for_writing(0, lambda _: None, {}),
            ):
                pass
        now[0] = STALE
        with watching.open_for_writing(0, lambda _: None, {}) as writer:
            assert writer.generation == 0


def test_the_process_of_an_owner_on_this_machine_is_looked_at(tmp_path):
    """After a crash here, nobody waits."""
    with closing(clusters.points_at("qdrant-edge", tmp_path)) as points:
        index = clusters.index_on(points)
        with index.open_for_writing(0, lambda _: None, {}):
            pass
        dead = FREE | {
            "owner": "x",
            "host": platform.node(),
            "pid": 2**22 + 1,
            "holder": "it",
        }
        points.change({"must": [{"key": "kind", "match": {"value": "root"}}]}, dead)
        with index.open_for_writing(0, lambda _: None, {}) as writer:
            assert writer.generation == 0


# --- Copies ------------------------------------------------------------------------------------------


@pytest.mark.rows("R003-021")
def test_migrate_there_and_back(server, tmp_path, monkeypatch):
    """No file is read and nothing embedded; both ways, every answer stays what it was."""
    root = root_of(tmp_path)
    run("index", str(root), "--model", "hashing", "-q")
    asked = ["search", "retry jobs", str(root), "--json"]
    before = json.loads(run(*asked).stdout)["results"]
    elsewhere = ["--index-dir", str(tmp_path / "back")]
    made: list[Any] = []
    real = HashingEmbedder.embed_passages
    monkeypatch.setattr(
        HashingEmbedder,
        "embed_passages",
        lambda *given: made.append(given) or real(*given),
    )
    there = json.loads(run("migrate", str(root), "--to", server.url, "--json").stdout)
    assert (there["indexed"], there["chunks"]) == (4, 3)
    back = run("migrate", str(root), "--from", server.url, *elsewhere, "--json")
    assert json.loads(back.stdout)["indexed"] == 4
    for where in (["--engine", server.url], elsewhere):
        again = json.loads(run("index", str(root), "--json", *where).stdout)
        assert (again["indexed"], again["unchanged"]) == (0, 4)
    assert not made
    for where in (["--engine", server.url], elsewhere):
        assert json.loads(run(*asked, *where).stdout)["results"] == before


def test_what_cannot_be_migrated(server, tmp_path):
    root = root_of(tmp_path)
    assert (
        "has no index"
        in run("migrate", str(root), "--to", server.url).exception.message
    )
    assert (
        "has no index"
        in run("migrate", str(root), "--from", server.url).exception.message
    )
    assert "either --to URL or --from URL" in str(run("migrate", str(root)).exception)
    run("index", str(root), "--model", "hashing", "-q")
    write_files(root, {"tamis.toml": "[chunking]\nmax_chars = 900\n"})
    assert (
        "other settings"
        in run("migrate", str(root), "--to", server.url).exception.message
    )


# --- Many documents, few of them allowed -------------------------------------------------------------


@pytest.mark.rows("R004-025", "R004-037", "R003-024")
def test_however_few_are_allowed_the_answer_is_full(tmp_path):
    """`min(limit, eligible)`, without asking for more than that."""
    shares = {"tenth": 10, "few": 50, "one": 200}
    files = {
        f"{number}.md": "---\ntags: ["
        + ", ".join(name for name, of in shares.items() if not number % of)
        + "]\n---\n"
        f"# Note {number}\n\nretry number {number}\n"
        for number in range(200)
    }
    root = write_files(tmp_path / "root", files)
    points = clusters.points_at("qdrant-edge", tmp_path)
    with open_corpus(root, index=clusters.index_on(points)) as corpus:
        for name, of in shares.items():
            found = corpus.search("retry", tags=[name], limit=15)
            assert len(found.results) == min(15, 200 // of), name
            assert found.stats["eligible_documents"] == 200 // of
            assert all(name in result.tags for result in found.results)


def test_approximate_mode_keeps_filters_and_counts(tmp_path):
    """What `engine.exact = false` gives up is exactness of scores, never a filter."""
    root = write_files(
        tmp_path / "root", OLD | {f"x/{n}.md": f"# N\n\nold {n}\n" for n in range(20)}
    )
    with closing(clusters.points_at("qdrant-edge", tmp_path)) as points:
        exact = clusters.index_on(points)
        with open_corpus(root, index=exact) as corpus:
            wanted = corpus.search("old", under=["x"], limit=10)
            loose = Corpus(
                root,
                root / ".tamis",
                corpus.settings,
                index=clusters.index_on(points, exact=False),
            )
            found = loose.search("old", under=["x"], limit=10)
    assert [each.path for each in found.results] == [
        each.path for each in wanted.results
    ]
    for one, two in zip(found.results, wanted.results, strict=True):
        assert one.score == pytest.approx(two.score, rel=1e-4)
    assert replace(found.index, built_at="") == replace(wanted.index, built_at="")


# --- The compose file of docs/cluster.md --------------------------------------------------------------


def test_the_compose_file_is_a_cluster_of_three():
    """As far as that can be read without an engine: nodes that find each other, data that stays."""
    file = Path(__file__).resolve().parents[2] / "docs" / "qdrant-compose.yaml"
    compose = yaml.safe_load(file.read_text("utf-8"))
    services = compose["services"]
    assert len(services) == 3
    first, *others = services
    for name, service in services.items():
        image, _, version = service["image"].rpartition(":v")
        assert image == "qdrant/qdrant"
        assert tuple(map(int, version.split(".")[:2])) >= client.OLDEST
        assert service["environment"]["QDRANT__CLUSTER__ENABLED"] == "true"
        assert service["environment"]["QDRANT__SERVICE__API_KEY"].startswith(
            "${QDRANT_API_KEY:?"
        )
        assert service["command"][-2:] == ["--uri", f"http://{name}:6335"]
        assert set(service["networks"]) <= set(compose["networks"])
        (volume,) = service["volumes"]
        assert volume == f"{name}:/qdrant/storage"
        assert name in compose["volumes"]
    for name in others:
        assert services[name]["command"][1:3] == ["--bootstrap", f"http://{first}:6335"]
        assert services[name]["depends_on"] == [first]
        assert "ports" not in services[name]
    assert services[first]["ports"] == ["127.0.0.1:6333:6333"], "this machine alone"
