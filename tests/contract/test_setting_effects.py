"""Every setting does something: one test for each key, and its name is the key's."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import served
from support.corpora import RANKS_ALONE, write_files
from support.corpora import test_settings as settings_of
from support.fake_qdrant import FakeQdrant, fake_qdrant
from support.sites import Site
from tamis.corpus import Corpus, index_directory
from tamis.errors import BadSetting, IndexMismatch, TooManyFiles
from tamis.live.watcher import Said, Watcher
from tamis.model import Found
from tamis.models.cache import cache_folder
from tamis.settings import KEYS

ANIMALS = {
    f"{name}.md": f"The {name} eats grass and {name} hay.\n"
    for name in ("cow", "horse", "sheep")
}
CODE = {"src/a.py": "def getUserById(key):\n    return key\n"}
LINKED = {
    "start.md": "grass and [[middle]]\n",
    "middle.md": "something [[end]]\n",
    "end.md": "other things\n",
}
# Two lanes, so that scores can be worked out on paper.
TWO_LANES = {"search__code_search_enabled": False, **RANKS_ALONE}


def test_each_key_has_a_test():
    tests = {name for name in globals() if name.startswith("test_")}
    wanted = {f"test_{name.replace('.', '_')}" for name in KEYS}
    assert wanted <= tests


def paths(found: Found) -> list[str]:
    return [result.path for result in found.results]


def lanes(found: Found) -> set[str]:
    return {evidence.lane for result in found.results for evidence in result.evidence}


# --- search: lanes and fusion ---------------------------------------------------------------


def test_search_preset(corpus_of):
    """`fast` follows no links, and `best` looks deeper."""
    many = {f"{number}.md": f"grass {number}" for number in range(120)}
    for preset, has_links, depth in (
        ("fast", False, 50),
        ("balanced", True, 75),
        ("best", True, 100),
    ):
        found = corpus_of(LINKED, search__preset=preset).search("grass")
        assert ("links" in lanes(found)) is has_links
        by_meaning = {"search__preset": preset, "search__keyword_weight": 0}
        found = corpus_of(many, **by_meaning).search("grass")
        assert found.stats["original_count"] == depth


def test_search_limit(corpus_of):
    for limit in (2, 3):
        found = corpus_of(ANIMALS, search__limit=limit).search("grass")
        assert len(found.results) == limit


@pytest.mark.rows("R002-177")
def test_search_semantic_weight(corpus_of):
    found = corpus_of(ANIMALS, search__semantic_weight=0).search("grass")
    assert lanes(found) == {"words"}
    found = corpus_of(ANIMALS, search__semantic_weight=3, **TWO_LANES).search("cow")
    assert found.results[0].raw_score == pytest.approx(3 / 61 + 1 / 61)


@pytest.mark.rows("R002-178")
def test_search_keyword_weight(corpus_of):
    found = corpus_of(ANIMALS, search__keyword_weight=0).search("grass")
    assert lanes(found) == {"meaning"}
    found = corpus_of(ANIMALS, search__keyword_weight=3, **TWO_LANES).search("cow")
    assert found.results[0].raw_score == pytest.approx(1 / 61 + 3 / 61)


@pytest.mark.rows("C55")
def test_search_code_search_enabled(corpus_of):
    for switch in (True, False):
        corpus = corpus_of(CODE, search__code_search_enabled=switch)
        assert ("code" in lanes(corpus.search("getUserById"))) is switch


@pytest.mark.rows("R002-089")
def test_search_code_search_weight(corpus_of):
    scores = []
    for weight in (0, 1, 5):
        flags = {"search__code_search_weight": weight, "weights__named_boost": 1}
        found = corpus_of(CODE, **flags, **RANKS_ALONE).search("getUserById")
        assert ("code" in lanes(found)) is bool(weight)
        scores.append(found.results[0].raw_score)
    assert scores[2] - scores[1] == pytest.approx(4 / 61)


@pytest.mark.rows("R002-045", "R002-047")
def test_search_adaptive_weights_enabled(corpus_of):
    """Meaning counts 1.3 for an exploratory question, words 1.5 for a factual one."""
    for question, meaning, words in (("cow", 1.3, 1.0), ("cow()", 1.0, 1.5)):
        found = corpus_of(ANIMALS, **TWO_LANES).search(question)
        assert found.results[0].raw_score == pytest.approx(2 / 61)
        flags = {"search__adaptive_weights_enabled": True, **TWO_LANES}
        found = corpus_of(ANIMALS, **flags).search(question)
        assert found.results[0].raw_score == pytest.approx((meaning + words) / 61)


@pytest.mark.rows("C61")
def test_search_graph_weight(corpus_of):
    found = corpus_of(LINKED, search__graph_weight=0).search("grass")
    assert "links" not in lanes(found)
    words = {"search__semantic_weight": 0, **RANKS_ALONE}
    for weight, order in (
        (1, ["start.md", "middle.md"]),
        (7, ["middle.md", "start.md"]),
    ):
        found = corpus_of(LINKED, search__graph_weight=weight, **words).search("grass")
        assert paths(found) == order
        scores = {result.path: result.raw_score for result in found.results}
        assert scores["start.md"] == pytest.approx(1 / 61)
        # Half of the value goes along links, divided by the root of two links.
        assert scores["middle.md"] == pytest.approx(weight * 0.5 / 2**0.5 / 61)


@pytest.mark.rows("C31")
def test_search_max_hops(corpus_of):
    for hops, linked in ((0, set()), (1, {"middle.md"}), (2, {"middle.md", "end.md"})):
        flags = {"search__max_hops": hops, "search__semantic_weight": 0}
        found = corpus_of(LINKED, **flags).search("grass")
        assert set(paths(found)) == {"start.md"} | linked


@pytest.mark.rows("R002-180")
def test_search_rrf_k_constant(corpus_of):
    """The best is first in both lanes."""
    for k in (1, 60):
        found = corpus_of(ANIMALS, search__rrf_k_constant=k, **TWO_LANES).search("cow")
        assert found.results[0].raw_score == pytest.approx(2 / (k + 1))


# --- search: what is dropped ----------------------------------------------------------------


def test_search_min_confidence(corpus_of):
    every = corpus_of(ANIMALS, search__min_confidence=0.0).search("cow")
    assert len(every.results) == 3
    between = (every.results[0].score + every.results[1].score) / 2
    found = corpus_of(ANIMALS, search__min_confidence=between).search("cow")
    assert paths(found) == ["cow.md"]
    found = corpus_of(ANIMALS, search__min_confidence=1.0).search("cow")
    assert paths(found) == []


ALMOST_EQUAL = {
    "a.md": "The sheep eats grass on the meadow.",
    "b.md": "The sheep eats Gras on the meadow.",
}


@pytest.mark.rows("R002-106", "C45")
def test_search_ngram_dedup_enabled(corpus_of):
    for switch, shown in ((True, 1), (False, 2)):
        corpus = corpus_of(ALMOST_EQUAL, search__ngram_dedup_enabled=switch)
        assert len(corpus.search("sheep").results) == shown


@pytest.mark.rows("R002-107")
def test_search_ngram_dedup_threshold(corpus_of):
    for threshold, shown in ((0.7, 1), (0.95, 2)):
        flags = {"search__ngram_dedup_threshold": threshold}
        corpus = corpus_of(ALMOST_EQUAL, search__ngram_dedup_enabled=True, **flags)
        assert len(corpus.search("sheep").results) == shown


# The hashing embedder takes texts of the same words for the same.
SAME_WORDS = {
    "a.md": "grass sheep meadow",
    "b.md": "meadow grass sheep",
    "c.md": "grass in a zoo",
}


@pytest.mark.rows("R002-105", "C43")
def test_search_dedup_enabled(corpus_of):
    for switch, shown in ((True, 2), (False, 3)):
        found = corpus_of(SAME_WORDS, search__dedup_enabled=switch).search("grass")
        assert len(found.results) == shown
        assert found.stats["clusters_merged"] == 3 - shown


@pytest.mark.rows("R002-097", "C40")
def test_search_dedup_similarity_threshold(corpus_of):
    for threshold, shown in ((0.85, 2), (0.1, 1)):
        flags = {"search__dedup_similarity_threshold": threshold}
        corpus = corpus_of(SAME_WORDS, search__dedup_enabled=True, **flags)
        assert len(corpus.search("grass").results) == shown


@pytest.mark.rows("R002-148", "C63")
def test_search_mmr_enabled(corpus_of):
    """The text of the same words goes behind the text of others."""
    for switch, last in ((False, "c.md"), (True, "b.md")):
        flags = {"search__mmr_enabled": switch, "search__mmr_lambda": 0.1}
        found = corpus_of(SAME_WORDS, **flags).search("sheep grass meadow")
        assert paths(found)[-1] == last


@pytest.mark.rows("R002-149")
def test_search_mmr_lambda(corpus_of):
    for share, last in ((1.0, "c.md"), (0.1, "b.md")):
        flags = {"search__mmr_enabled": True, "search__mmr_lambda": share}
        found = corpus_of(SAME_WORDS, **flags).search("sheep grass meadow")
        assert paths(found)[-1] == last


@pytest.mark.rows("R002-104")
def test_search_max_chunks_per_doc(corpus_of):
    book = "".join(f"# Part {part}\n\n{'grass ' * 60}{part}\n" for part in range(4))
    for most, shown in ((0, 4), (1, 1), (3, 3)):
        corpus = corpus_of({"book.md": book}, search__max_chunks_per_doc=most)
        assert len(corpus.search("grass").results) == shown


@pytest.mark.rows("R001-033", "R001-057")
def test_search_exclude_archived(corpus_of):
    files = {"now.md": "grass", "archive/then.md": "grass too"}
    for switch, shown in ((True, {"now.md"}), (False, set(files))):
        found = corpus_of(files, search__exclude_archived=switch).search("grass")
        assert set(paths(found)) == shown


# --- search: workspaces ---------------------------------------------------------------------


def in_a_workspace(folder: Path, **flags: object) -> Found:
    """Search a root of three files, one of them in the workspace."""
    root = write_files(
        folder / "shop",
        {
            "tamis.toml": '[workspaces]\napi = ["docs/api"]\n',
            "docs/api/a.md": "grass",
            "docs/b.md": "grass",
            ".graphragignore": "tamis.toml",
        },
    )
    settings = settings_of(root, **flags)
    with Corpus(root, index_directory(root, settings, None), settings) as corpus:
        corpus.refresh()
        return corpus.search("grass", workspace="API")


def test_workspaces(tmp_path):
    assert paths(in_a_workspace(tmp_path)) == ["docs/api/a.md"]


@pytest.mark.rows("C82")
def test_search_workspace_filtering(tmp_path):
    """All ways give one answer, and look at different numbers of passages for it."""
    scanned = {}
    for way in ("native", "qdrant", "post", "hybrid"):
        found = in_a_workspace(tmp_path, search__workspace_filtering=way)
        assert paths(found) == ["docs/api/a.md"]
        scanned[way] = found.stats["scanned_chunks"]
    assert scanned == {"native": 1, "qdrant": 1, "post": 2, "hybrid": 3}


@pytest.mark.rows("C84")
def test_search_fallback_threshold(tmp_path):
    """One result of five is a fifth of the limit."""
    hybrid = {"search__workspace_filtering": "hybrid"}
    for share, scanned in ((1.0, 3), (0.2, 1)):
        flags = {"search__fallback_threshold": share, **hybrid}
        found = in_a_workspace(tmp_path, **flags)
        assert paths(found) == ["docs/api/a.md"]
        assert found.stats["scanned_chunks"] == scanned


# --- search: optional stages ----------------------------------------------------------------


@pytest.fixture
def rerankers(monkeypatch) -> list[str]:
    """Replace cross-encoders by one that likes late names best; return the names that are loaded."""
    loaded: list[str] = []

    class Backwards:
        name = "backwards"

        def scores(
            self, query: str, passages: Sequence[str], seconds: float = 0.0
        ) -> list[float]:
            return [float(number) for number in range(len(passages))]

    def load(name: str, *_: object) -> Backwards:
        loaded.append(name)
        return Backwards()

    monkeypatch.setattr("tamis.models.rerankers.load_reranker", load)
    return loaded


@pytest.mark.rows("R002-069")
def test_search_rerank_enabled(corpus_of, rerankers):
    plain = corpus_of(ANIMALS, search__rerank_enabled=False).search("cow")
    assert (plain.stats["reranked"], rerankers) == (0, [])
    found = corpus_of(ANIMALS, search__rerank_enabled=True).search("cow")
    assert found.stats["reranked"] == 3
    assert paths(found) == paths(plain)[::-1]


@pytest.mark.rows("R002-071", "C52", "C65")
def test_search_rerank_top_n(corpus_of, rerankers):
    """The others stay behind, in their order."""
    first, second, third = paths(corpus_of(ANIMALS).search("cow"))
    flags = {"search__rerank_enabled": True, "search__rerank_top_n": 2}
    found = corpus_of(ANIMALS, **flags).search("cow")
    assert found.stats["reranked"] == 2
    assert paths(found) == [second, first, third]


@pytest.mark.rows("R002-070")
def test_search_rerank_model(corpus_of, rerankers):
    corpus_of(ANIMALS, search__rerank_enabled=True).search("cow")
    assert set(rerankers) == {"minilm"}
    flags = {"search__rerank_enabled": True, "search__rerank_model": "./mine"}
    corpus_of(ANIMALS, **flags).search("cow")
    assert rerankers[-1] == "./mine"


@pytest.mark.rows("C29")
def test_search_recency_profile(corpus_of):
    """The files are new."""
    for profile, factor in (("off", None), ("docs", 1.2), ("code", 1.5)):
        found = corpus_of(ANIMALS, search__recency_profile=profile).search("grass")
        for result in found.results:
            assert result.boosts.get("recency") == (factor and pytest.approx(factor))


@pytest.mark.rows("R002-179", "C62")
def test_search_recency_bias(corpus_of):
    for bias, factor in ((0.0, None), (0.5, 1.5), (1.0, 2.0)):
        flags = {"search__recency_profile": "code", "search__recency_bias": bias}
        found = corpus_of(ANIMALS, **flags).search("grass")
        for result in found.results:
            assert result.boosts.get("recency") == (factor and pytest.approx(factor))


@pytest.mark.rows("R002-034")
def test_search_query_expansion_enabled(corpus_of):
    """Indexing makes the vocabulary only if it is on."""
    texts = {f"{n}.md": f"retry policy and backoff {n}\n" for n in range(5)}
    for switch in (True, False):
        flags = {"search__query_expansion_enabled": switch}
        corpus = corpus_of(texts, weights__query_expansion_threshold=-1.0, **flags)
        assert set(corpus.search("retry").expansion) == (
            {"policy", "backoff"} if switch else set()
        )
        assert (corpus.directory / "concepts").exists() is switch


@pytest.mark.rows("R002-061", "R002-064")
def test_search_synonyms(corpus_of):
    """None, those of a small table, or those of a file of one's own."""
    files = {"a.md": "the repository\n", "b.md": "grass\n"}
    by_words = {"search__semantic_weight": 0.0}
    assert paths(corpus_of(files, **by_words).search("repo")) == []
    found = corpus_of(files, search__synonyms="software", **by_words).search("repo")
    assert (paths(found), found.synonyms) == (["a.md"], ("repository",))
    files = {"a.md": "grass\n", "own.txt": "hay, grass\n", ".graphragignore": "own.txt"}
    found = corpus_of(files, search__synonyms="own.txt").search("hay")
    assert found.synonyms == ("grass",)
    with pytest.raises(BadSetting, match=r"search\.synonyms: cannot read"):
        corpus_of(files, search__synonyms="thesaurus").search("hay")


# --- chunking -------------------------------------------------------------------------------


def test_chunking_min_chars(corpus_of):
    two = {"a.md": "# One\n\nshort\n\n# Two\n\nshort too\n"}
    for least, chunks in ((0, 2), (200, 1)):
        corpus = corpus_of(two, chunking__min_chars=least)
        assert corpus.status().index.chunks == chunks


def test_chunking_max_chars(corpus_of):
    long = {"a.md": "word " * 200}
    for most, chunks in ((1000, 1), (500, 3)):
        flags = {"chunking__max_chars": most, "chunking__overlap_chars": 50}
        corpus = corpus_of(long, **flags)
        assert corpus.status().index.chunks == chunks
        found = corpus.search("word")
        assert all(len(result.content) <= most for result in found.results)


def test_chunking_overlap_chars(corpus_of):
    text = " ".join(f"word{number}" for number in range(400))
    for overlap in (0, 100):
        corpus = corpus_of({"a.txt": text}, chunking__overlap_chars=overlap)
        found = corpus.search("word7", limit=100).results
        first, second, *_ = sorted(found, key=lambda result: result.chunk_id)
        shared = set(first.content.split()) & set(second.content.split())
        assert bool(shared) == bool(overlap)


@pytest.mark.rows("R002-157", "R002-164")
def test_chunking_parents(corpus_of):
    """Small passages are searched, and the sections around them are shown."""
    pages = "".join(
        f"# Part {part}\n\n{'grass and hay. ' * 60}\n\n" for part in range(6)
    )
    plain = corpus_of({"a.md": pages}).search("grass", limit=20).results
    assert {result.parent_chunk_id for result in plain} == {None}
    shown = []
    for name in ("chunking__parents", "search__parent_retrieval_enabled"):
        corpus = corpus_of({"a.md": pages}, **{name: True})
        results = corpus.search("grass", limit=20).results
        assert all(result.chunk_id == result.parent_chunk_id for result in results)
        assert max(len(result.content) for result in results) > 600
        shown.append([result.content for result in results])
    assert shown[0] == shown[1]


# --- index, ignore and archive --------------------------------------------------------------


def test_index_directory(corpus_of, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    corpus = corpus_of(ANIMALS, index__directory=str(elsewhere))
    assert (elsewhere / "index.db").exists()
    assert not (corpus.root / ".tamis").exists()
    assert (corpus_of(ANIMALS).root / ".tamis" / "index.db").exists()


def test_index_max_file_bytes(corpus_of):
    files = {"small.md": "grass", "large.md": "grass " * 100}
    for most, shown in ((10**18, 2), (100, 1)):
        corpus = corpus_of(files, index__max_file_bytes=most)
        assert len(corpus.search("grass").results) == shown


def test_index_max_files(corpus_of):
    """In full in test_limits.py."""
    assert corpus_of(ANIMALS, index__max_files=3).search("grass").results
    with pytest.raises(TooManyFiles):
        corpus_of(ANIMALS, index__max_files=2)


def test_index_memory_mb(corpus_of):
    """A file that needs more is skipped; in full in test_limits.py."""
    large = {"a.md": "# A" + "\n" * 1_700_000}
    for megabytes, skipped in ((64, 1), (200, 0)):
        corpus = corpus_of(large, index__memory_mb=megabytes)
        assert len(corpus.status().skipped) == skipped


@pytest.mark.rows("R001-059", "C22")
def test_ignore_default_exclusions(corpus_of):
    files = ANIMALS | {"build/out.md": "grass", ".hidden.md": "grass"}
    for switch, documents in ((True, 3), (False, 5)):
        corpus = corpus_of(files, ignore__default_exclusions=switch)
        assert corpus.status().index.documents == documents


@pytest.mark.rows("R001-058")
def test_ignore_file(corpus_of):
    files = ANIMALS | {
        ".graphragignore": "cow.md\n",
        "my.ignore": "horse.md\nsheep.md\nmy.ignore\n",
    }
    assert "cow.md" not in paths(corpus_of(files).search("grass"))
    found = corpus_of(files, ignore__file="my.ignore").search("grass")
    assert paths(found) == ["cow.md"]


@pytest.mark.rows("R001-060", "C23")
def test_archive_patterns(corpus_of):
    files = {"now.md": "grass", "attic/a.md": "grass too", "archive/b.md": "grass 3"}
    shown = set(paths(corpus_of(files).search("grass")))
    assert shown == {"now.md", "attic/a.md"}
    found = corpus_of(files, archive__patterns=["attic/"]).search("grass")
    assert set(paths(found)) == {"now.md", "archive/b.md"}


@pytest.mark.rows("C17")
def test_archive_index(corpus_of):
    files = {"now.md": "grass", "archive/a.md": "grass too", ".archive/b.md": "grass 3"}
    for switch, documents in ((True, set(files)), (False, {"now.md"})):
        corpus = corpus_of(files, archive__index=switch)
        found = corpus.search("grass", exclude_archived=False)
        assert set(paths(found)) == documents


# --- watch ----------------------------------------------------------------------------------


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_watch_poll(corpus_of):
    """With it, the watcher looks; without it, the system reports changes."""
    for switch, state in ((False, "watching"), (True, "polling")):
        corpus = corpus_of(ANIMALS, watch__poll=switch, watch__poll_ms=100)
        said: list[Said] = []
        calls: list[bool] = []

        def called(is_sure: bool, calls: list[bool] = calls) -> float:
            calls.append(is_sure)
            return 0.0

        watcher = Watcher(
            corpus,
            called,
            behind=lambda: False,
            say=said.append,
        )
        watcher.start()
        wait_until(lambda calls=calls: calls)
        if switch:
            wait_until(lambda calls=calls: calls[1:2] == [False])
        watcher.close()
        assert [each.state for each in said] == [state]


# --- model ----------------------------------------------------------------------------------


def test_model_name(corpus_of):
    found = corpus_of(ANIMALS, model__name="hashing").search("grass")
    assert lanes(found) == {"meaning", "words"}
    by_words = corpus_of(ANIMALS, model__name="none")
    assert lanes(by_words.search("grass")) == {"words"}
    other = settings_of(by_words.root, model__name="hashing")
    with (
        Corpus(by_words.root, by_words.directory, other) as corpus,
        pytest.raises(IndexMismatch),
    ):
        corpus.search("grass")


@pytest.mark.parametrize("kept", [0, 500])
@pytest.mark.parametrize("threads", [1, 3])
def test_model_threads(corpus_of, monkeypatch, threads, kept):
    """As many texts are embedded at the same time, and no more."""
    from tamis.models import encoder
    from tamis.models.embedders import worker_threads

    seen: set[str] = set()

    class Tokens:
        ids = (1,)

    class Tokenizer:
        def encode(self, text: str) -> Tokens:
            return Tokens()

    def load(asked: int) -> encoder.Encoder:
        barrier = threading.Barrier(asked, timeout=60)

        def forward(session: object, ids: object) -> np.ndarray:
            seen.add(threading.current_thread().name)
            barrier.wait()
            return np.array([1.0, 0.0], np.float32)

        return encoder.Encoder(
            "granite",
            "toy",
            None,
            Tokenizer(),
            forward,
            worker_threads(asked),
            dimension=2,
            related=(0.5, 1.0),
        )

    monkeypatch.setattr(encoder, "load_granite", load)
    shutil.rmtree(cache_folder(os.environ), ignore_errors=True)
    flags = {"model__threads": threads, "model__cache_mb": kept}
    corpus_of(ANIMALS, model__name="granite", **flags)
    assert len(seen) == threads


@pytest.mark.parametrize(("megabytes", "times"), [(0, 2), (100, 1)])
def test_model_cache_mb(corpus_of, monkeypatch, megabytes, times):
    """A text of one root is not embedded again in another, if vectors are kept."""
    from tamis.models import encoder
    from tamis.models.hashing import HashingEmbedder

    read: list[str] = []

    class Model(HashingEmbedder):
        name = "granite"

        def embed_passages(self, texts: Sequence[str]) -> np.ndarray:
            read.extend(texts)
            return super().embed_passages(texts)

    monkeypatch.setattr(encoder, "load_granite", lambda _: Model())
    for _ in range(2):
        corpus_of(ANIMALS, model__name="granite", model__cache_mb=megabytes)
    assert len(read) == times * len(ANIMALS)


# --- server ---------------------------------------------------------------------------------

LONG = {"a.md": "# A\n\n" + "grass grows\n" * 100}


def test_server_max_tokens(tmp_path):
    sizes = []
    for most in (200, 2000):
        state = served.state_of(tmp_path / "root", LONG, server__max_tokens=most)
        sizes.append(len(served.text(state, query="grass")))
    assert sizes[0] <= 800 < sizes[1]


def test_server_editor(tmp_path):
    """The page opens files by the address of the editor; a project can name no other address."""
    for editor, scheme in (("vscode", "vscode:"), ("zed", "zed:"), ("none", "")):
        site = Site(served.state_of(tmp_path / "root", LONG, server__editor=editor))
        address = site.get("/status")["server"]["editor"]
        assert (address.startswith(scheme), bool(address)) == (True, bool(scheme))
        site.close()
    with pytest.raises(BadSetting, match=r"server\.editor"):
        settings_of(tmp_path, server__editor="javascript:alert(1)")


# --- engine ---------------------------------------------------------------------------------


@contextmanager
def on_a_server(folder: Path, **flags: Any) -> Iterator[tuple[FakeQdrant, Corpus]]:
    """Index a root on a server that remembers its requests."""
    root = write_files(folder / "root", ANIMALS)
    with fake_qdrant() as server:
        settings = settings_of(root, engine__url=server.url, **flags)
        with Corpus(root, root / ".tamis", settings) as corpus:
            corpus.refresh()
            yield server, corpus


def test_engine_url(corpus_of, tmp_path):
    with on_a_server(tmp_path) as (_, corpus):
        here = corpus_of(ANIMALS).search("cow")
        assert paths(corpus.search("cow")) == paths(here)
        assert not (corpus.root / ".tamis").exists()


def test_engine_collection(tmp_path):
    with on_a_server(tmp_path, engine__collection="ours") as (server, _):
        (collection,) = server.client.get_collections().collections
        assert collection.name == "ours"


def test_engine_root(tmp_path):
    with on_a_server(tmp_path, engine__root="herd") as (server, _):
        points, _ = server.client.scroll("tamis")
        assert {each.payload["root"] for each in points} == {"herd"}


@pytest.mark.parametrize("exact", [True, False])
def test_engine_exact(tmp_path, exact):
    with on_a_server(tmp_path, engine__exact=exact) as (server, corpus):
        corpus.search("cow")
        asked = [each for each in server.requests if each.path.endswith("/query/batch")]
        searches = asked[0].body["searches"]
        assert {each["params"]["exact"] for each in searches} == {exact}
        assert (searches[0]["with_vector"] == ["meaning"]) is exact


# --- constants that travel with the settings ------------------------------------------------

MANY = {f"{number}.md": f"# {number}\n\ngrass {number}\n" * 50 for number in range(400)}


def test_a_call_that_is_out_of_time_is_an_error(tmp_path):
    """At once; its thread ends by itself."""
    late = {"server__deadline": 0.1, "server__budget_ms": 60_000}
    state = served.state_of(tmp_path / "many", MANY, indexed=False, **late)
    said = served.fault(state, "query_documents", {"query": "grass"})
    assert "no answer within 0.1 s" in said
    state.close()


@pytest.mark.parametrize(("budget", "is_whole"), [(0, False), (60_000, True)])
def test_a_first_call_waits_for_the_words_of_all_files(tmp_path, budget, is_whole):
    state = served.state_of(
        tmp_path / "many", MANY, indexed=False, server__budget_ms=budget
    )
    freshness = served.answer(state, query="grass")["freshness"]
    assert (freshness["as_of"] is not None) is is_whole
    state.close()


@pytest.mark.parametrize("watches", [True, False])
def test_a_server_watches_from_the_first_question_on(tmp_path, watches):
    state = served.state_of(tmp_path / "root", ANIMALS, server__watch=watches)
    served.answer(state, query="grass")
    lock = tmp_path / "root" / ".tamis" / "watch.lock"
    if watches:
        wait_until(lock.exists)
    state.close()
    assert lock.exists() is watches
