"""The cache of vectors: the same vectors, never a fault, never more than it may take."""

import multiprocessing
import os
import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from support.corpora import test_settings, write_files
from tamis.corpus import Corpus, index_directory
from tamis.models.cache import CachedEmbedder, VectorCache, cache_folder, key_of
from tamis.models.hashing import HashingEmbedder

MEGABYTE = 1_000_000


class Model(HashingEmbedder):
    """A model worth a cache, which counts what it reads."""

    name = "granite"

    def __init__(self, fingerprint: str = "one") -> None:
        self.fingerprint = fingerprint
        self.read: list[str] = []

    def embed_passages(self, texts: Sequence[str]) -> np.ndarray:
        self.read += texts
        return super().embed_passages(texts)


@pytest.fixture
def cache(tmp_path):
    made = VectorCache(tmp_path / "cache", MEGABYTE)
    yield made
    made.close()


def test_what_was_embedded_is_not_embedded_again(cache):
    model = Model()
    first = CachedEmbedder(model, cache).embed_passages(["a", "b", "a"])
    again = CachedEmbedder(model, cache).embed_passages(["b", "c", "a"])
    assert model.read == ["a", "b", "c"]
    plain = HashingEmbedder().embed_passages(["a", "b", "c"])
    assert first.tobytes() == plain[[0, 1, 0]].tobytes()
    assert again.tobytes() == plain[[1, 2, 0]].tobytes()
    assert again.dtype == np.float32
    assert cache.fault == ""


def test_questions_and_nothing_are_not_looked_up(cache, tmp_path):
    cached = CachedEmbedder(Model(), cache)
    assert (
        cached.embed_query("a").tobytes()
        == HashingEmbedder().embed_query("a").tobytes()
    )
    assert cached.embed_passages([]).shape == (0, 256)
    assert not (tmp_path / "cache").exists(), "nothing is opened until it is needed"


def test_another_model_is_another_vector(cache):
    one, two = Model("one"), Model("two")
    CachedEmbedder(one, cache).embed_passages(["a"])
    CachedEmbedder(two, cache).embed_passages(["a"])
    assert two.read == ["a"]
    assert key_of("a", "bc") != key_of("ab", "c")
    assert key_of("one", "\ud800") != key_of("one", "?"), (
        "half a character is a text, too"
    )


def test_a_vector_of_another_length_is_none(cache):
    key = key_of("one", "a")
    cache.keep({key: np.ones(3, np.float32)})
    assert cache.find([key], 256) == {}
    model = Model()
    assert CachedEmbedder(model, cache).embed_passages(["a"]).shape == (1, 256)
    assert model.read == ["a"]


def test_it_is_private(cache, tmp_path):
    CachedEmbedder(Model(), cache).embed_passages(["a"])
    for place in (tmp_path / "cache", *(tmp_path / "cache").iterdir()):
        assert stat.S_IMODE(place.stat().st_mode) & 0o077 == 0, place


def test_it_takes_no_more_than_it_may(cache, tmp_path, monkeypatch):
    model = Model()
    cached = CachedEmbedder(model, cache)
    days = iter(range(20_000, 30_000))
    for start in range(0, 3_000, 100):
        day = next(days)
        monkeypatch.setattr("tamis.models.cache.today", lambda day=day: day)
        cached.embed_passages(
            [f"text {number}" for number in range(start, start + 100)]
        )
        cached.embed_passages(["text 0"])  # used every day
    cache.close()
    assert (tmp_path / "cache" / "vectors.db").stat().st_size < 1.2 * MEGABYTE
    model.read.clear()
    cached.embed_passages(["text 0", "text 2999", "text 5"])
    assert model.read == ["text 5"], "what was not used for the longest time has gone"


@pytest.mark.parametrize(
    "content", [b"no database at all" * 100, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_damaged_file_is_thrown_away(tmp_path, content):
    write_files(tmp_path, {"cache/vectors.db": content})
    broken = VectorCache(tmp_path / "cache", MEGABYTE)
    assert CachedEmbedder(Model(), broken).embed_passages(["a"]).shape == (1, 256)
    assert "vectors are not kept" in broken.fault
    broken.close()
    whole, model = VectorCache(tmp_path / "cache", MEGABYTE), Model()
    CachedEmbedder(model, whole).embed_passages(["a"])
    CachedEmbedder(model, whole).embed_passages(["a"])
    assert (model.read, whole.fault) == (["a"], "")
    whole.close()


def test_a_folder_that_cannot_be_is_said_and_nothing_more(tmp_path):
    write_files(tmp_path, {"cache": "a file"})
    cache, model = VectorCache(tmp_path / "cache", MEGABYTE), Model()
    for _ in range(2):
        CachedEmbedder(model, cache).embed_passages(["a"])
    assert model.read == ["a", "a"]
    assert "vectors are not kept" in cache.fault


def test_a_link_is_not_followed(tmp_path):
    write_files(tmp_path, {"elsewhere": "something of somebody"})
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "vectors.db").symlink_to(tmp_path / "elsewhere")
    cache = VectorCache(tmp_path / "cache", MEGABYTE)
    CachedEmbedder(Model(), cache).embed_passages(["a"])
    assert cache.fault
    assert (tmp_path / "elsewhere").read_text() == "something of somebody"


def test_another_process_that_writes_for_long(cache, tmp_path, monkeypatch):
    monkeypatch.setattr("tamis.models.cache.BUSY_MS", 50)
    model, cached = Model(), CachedEmbedder(Model(), cache)
    cached.embed_passages(["a"])
    cache.close()
    other = sqlite3.connect(tmp_path / "cache" / "vectors.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    CachedEmbedder(model, cache).embed_passages(["a"])
    assert (model.read, cache.fault) == (["a"], ""), "this once it is computed"
    other.execute("ROLLBACK")
    other.close()
    CachedEmbedder(model, cache).embed_passages(["a"])
    assert model.read == ["a"]


def embed(folder: Path, number: int) -> None:
    cache = VectorCache(folder, MEGABYTE)
    cached = CachedEmbedder(Model(), cache)
    for start in range(0, 40, 4):
        cached.embed_passages(
            [f"text {(number * 10 + start + at) % 50}" for at in range(4)]
        )
    cache.close()
    os._exit(1 if cache.fault else 0)


def test_several_processes_at_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=embed, args=(tmp_path / "cache", number))
        for number in range(4)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    cache, model = VectorCache(tmp_path / "cache", MEGABYTE), Model()
    texts = [f"text {number}" for number in range(50)]
    vectors = CachedEmbedder(model, cache).embed_passages(texts)
    assert vectors.tobytes() == HashingEmbedder().embed_passages(texts).tobytes()
    assert len(model.read) < 25
    cache.close()


def corpus_over(root: Path, model: Model, monkeypatch, **flags: object) -> Corpus:
    monkeypatch.setattr("tamis.models.embedders.load_embedder", lambda *_: model)
    settings = test_settings(root, model__name="granite", **flags)
    return Corpus(
        root.resolve(), index_directory(root.resolve(), settings, None), settings
    )


FILES = {"a.md": "# A\n\nalpha", "b.md": "# B\n\nbeta"}


def test_two_roots_share_it_and_a_rebuild_embeds_nothing(tmp_path, monkeypatch):
    model = Model()
    for name in ("one", "two"):
        with corpus_over(
            write_files(tmp_path / name, FILES), model, monkeypatch
        ) as corpus:
            corpus.refresh()
            assert corpus.rebuild().warnings == ()
            assert corpus.search("alpha").results[0].path == "a.md"
    assert [text for text in model.read if text != "alpha"] == [
        "A\n\n# A\n\nalpha",
        "B\n\n# B\n\nbeta",
    ]


def test_it_can_be_turned_off(tmp_path, monkeypatch):
    """model.cache_mb"""
    model = Model()
    for name in ("one", "two"):
        root = write_files(tmp_path / name, FILES)
        with corpus_over(root, model, monkeypatch, model__cache_mb=0) as corpus:
            corpus.refresh()
    assert len(model.read) == 4
    assert not cache_folder(os.environ).exists()


def test_what_is_wrong_with_it_is_said_with_the_report(tmp_path, monkeypatch):
    monkeypatch.setenv(
        "XDG_CACHE_HOME",
        str(write_files(tmp_path, {"no/folder": ""}) / "no" / "folder"),
    )
    with corpus_over(
        write_files(tmp_path / "root", FILES), Model(), monkeypatch
    ) as corpus:
        report = corpus.refresh()
    assert report.indexed == 2
    assert any("vectors are not kept" in warning for warning in report.warnings)


def test_where_it_is():
    assert cache_folder({"XDG_CACHE_HOME": "/cache"}) == Path("/cache/tamis")
    assert cache_folder({}) == Path(os.environ["HOME"]) / ".cache" / "tamis"
