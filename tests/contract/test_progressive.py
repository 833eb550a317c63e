"""Words first, vectors afterwards: what can be found when, and that the end is the same."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from support.corpora import open_corpus, test_settings, words_first, write_files
from tamis.corpus import Corpus, index_directory
from tamis.index.embed_pending import wanted_first
from tamis.index.protocol import PendingDocument
from tamis.models.hashing import HashingEmbedder

FILES = {
    "new.md": "---\ndate: 2026-06-01\n---\n# New\n\nThe queue retries a token twice.",
    "old.md": "---\ndate: 2020-01-01\n---\n# Old\n\nThe cache keeps a token. See [[hub]].",
    "hub.md": "---\ndate: 2019-01-01\n---\n# Hub\n\nEverything about the index. See [[new]].",
    "far.md": "---\ndate: 2018-01-01\n---\n# Far\n\nNobody links here, [[hub]] is what it links to.",
    "code.py": "def retry(token):\n    return token\n",
}


class Counting(HashingEmbedder):
    """Counts what it reads; may be told to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def embed_passages(self, texts: Sequence[str]) -> np.ndarray:
        self.read += texts
        return super().embed_passages(texts)


def closed_corpus(root: Path, **flags: object) -> Corpus:
    settings = test_settings(root, **flags)
    return Corpus(
        root.resolve(), index_directory(root.resolve(), settings, None), settings
    )


def only(*paths: str):
    """Embeds these and leaves the others waiting."""
    return lambda waiting: [
        each for each in wanted_first(waiting) if each.path in paths
    ]


def plain(found) -> list[tuple]:
    return [
        (result.chunk_id, result.score, result.raw_score, result.evidence)
        for result in found.results
    ]


@pytest.fixture
def partly(tmp_path, monkeypatch):
    """The corpus while it is being embedded: two documents have vectors."""
    monkeypatch.setattr(
        "tamis.index.embed_pending.wanted_first", only("new.md", "old.md")
    )
    with words_first():
        corpus = open_corpus(write_files(tmp_path / "root", FILES))
    yield corpus
    corpus.close()


def test_words_are_found_before_vectors_are_there(partly):
    state = partly.state()
    assert (
        state.documents,
        state.chunks,
        state.pending_files,
        state.pending_chunks,
    ) == (5, 5, 0, 3)
    found = partly.search("everything about the index")
    assert found.results[0].path == "hub.md"
    assert [each.lane for each in found.results[0].evidence] == ["words", "links"]
    assert any("2 of 5 passages have vectors" in hint for hint in map(str, found.hints))
    assert found.to_dict()["index"]["pending_chunks"] == 3
    assert {each.path for each in partly.search("zzz", max_hops=0).results} == {
        "new.md",
        "old.md",
    }


def test_whoever_asks_for_words_alone_is_told_nothing_of_vectors(tmp_path, monkeypatch):
    monkeypatch.setattr("tamis.index.embed_pending.wanted_first", only())
    with words_first():
        corpus = open_corpus(
            write_files(tmp_path / "root", FILES), search__semantic_weight=0
        )
    with corpus:
        assert not [
            hint for hint in map(str, corpus.search("token").hints) if "vectors" in hint
        ]


def test_the_next_run_fills_in_the_rest_and_nothing_tells_the_difference(
    partly, tmp_path, monkeypatch
):
    before = partly.state().generation
    monkeypatch.undo()
    report = partly.refresh()
    assert (report.indexed, report.unchanged) == (0, 5)
    assert partly.state().pending_chunks == 0
    assert report.generation == partly.state().generation > before
    with open_corpus(write_files(tmp_path / "at_once", FILES)) as anew:
        for question in (
            "token",
            "everything about the index",
            "retry",
            "cache type:definitions",
        ):
            assert plain(partly.search(question)) == plain(anew.search(question))


def test_the_law_holds_while_vectors_are_missing(tmp_path, monkeypatch):
    """A row has a vector or it has none: no filter changes that, and none may show."""
    monkeypatch.setattr(
        "tamis.index.embed_pending.wanted_first", only("new.md", "hub.md")
    )
    kept = {path: text for path, text in FILES.items() if path != "new.md"}
    with words_first():
        whole = open_corpus(
            write_files(tmp_path / "whole", FILES), search__mmr_enabled=True
        )
        never = open_corpus(
            write_files(tmp_path / "never", kept), search__mmr_enabled=True
        )
    with whole, never:
        for question in ("token cache", "what links where", "retry", "zzz"):
            filtered = whole.search(question, excluded_files=["new.md"], limit=10)
            assert plain(filtered) == plain(never.search(question, limit=10))


def test_stages_that_compare_vectors_leave_those_without_alone(partly):
    for flags in ({"mmr": True}, {"unique": True}, {"max_hops": 2}):
        assert {
            each.path
            for each in partly.search(
                "token index retry links", limit=10, **flags
            ).results
        }
    settings = test_settings(
        partly.root, search__dedup_enabled=True, search__dedup_similarity_threshold=0.1
    )
    with Corpus(partly.root, partly.directory, settings) as same_meaning:
        paths = {
            each.path
            for each in same_meaning.search("everything links", limit=10).results
        }
    assert {"hub.md", "far.md"} <= paths, "what has no vector is like nothing"


def test_a_file_that_changes_before_it_is_embedded(partly, monkeypatch):
    write_files(
        partly.root, {"hub.md": "# Hub\n\nSomething else entirely, called zebra."}
    )
    (partly.root / "far.md").unlink()
    monkeypatch.undo()
    partly.refresh()
    assert partly.state().pending_chunks == 0
    assert partly.search("zebra").results[0].path == "hub.md"
    assert "far.md" not in {
        each.path for each in partly.search("nobody links", limit=10).results
    }


def test_nothing_is_embedded_twice(tmp_path, monkeypatch):
    """An interruption keeps what was made, and the next run embeds the rest alone."""
    monkeypatch.setattr("tamis.index.embed_pending.PORTION", 1)
    model = Counting()
    monkeypatch.setattr("tamis.models.embedders.load_embedder", lambda *_: model)
    corpus = closed_corpus(write_files(tmp_path / "root", FILES))
    with words_first(), corpus:
        for interrupted in (2, 4):
            corpus.refresh(yields=lambda most=interrupted: len(model.read) >= most)
            assert corpus.state().pending_chunks == 5 - interrupted

        class Impatient:
            def start(self, total: int, what: str = "files") -> None: ...
            def note(self, message: str) -> None: ...
            def advance(self, path: str, by: int = 1) -> None:
                raise KeyboardInterrupt

        write_files(corpus.root, {"more.md": "# More\n\nof the same"})
        with pytest.raises(KeyboardInterrupt):  # while it reads
            corpus.refresh(Impatient())
        corpus.refresh()
        assert corpus.state().pending_chunks == 0
        assert len(model.read) == len(set(model.read)) == 6


def test_an_interrupted_portion_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("tamis.index.embed_pending.PORTION", 1)
    corpus = closed_corpus(write_files(tmp_path / "root", FILES))

    class Impatient:
        embedding = False

        def start(self, total: int, what: str = "files") -> None:
            self.embedding = what == "passages"

        def note(self, message: str) -> None: ...
        def advance(self, path: str, by: int = 1) -> None:
            if self.embedding:
                raise KeyboardInterrupt

    with words_first(), corpus:
        with pytest.raises(KeyboardInterrupt):
            corpus.refresh(Impatient())
        assert corpus.state().pending_chunks == 4
        assert corpus.state().pending_files == 0


def test_a_model_that_cannot_be_loaded_leaves_the_words(tmp_path, monkeypatch):
    from tamis.errors import ModelFault

    def broken(*_: object) -> None:
        raise ModelFault("the model is not installed", hint="install it")

    corpus = closed_corpus(write_files(tmp_path / "root", FILES))
    with words_first(), corpus, monkeypatch.context() as patch:
        patch.setattr("tamis.models.embedders.load_embedder", broken)
        with pytest.raises(ModelFault):
            corpus.refresh()
        assert corpus.search("zebra index").results[0].path == "hub.md"
        assert corpus.state().pending_chunks == 5
    with closed_corpus(tmp_path / "root") as again:
        again.refresh()
        assert again.state().pending_chunks == 0


def test_an_index_without_a_model_waits_for_nothing(tmp_path):
    with (
        words_first(),
        open_corpus(
            write_files(tmp_path / "root", FILES), model__name="none"
        ) as corpus,
    ):
        assert corpus.state().pending_chunks == 0
        assert not [
            hint for hint in map(str, corpus.search("token").hints) if "vectors" in hint
        ]


def test_status_says_what_waits(partly):
    from tamis.cli.render import status

    assert any(
        "3 passages have no vectors yet" in line for line in status(partly.status())
    )


def test_the_newest_and_the_most_linked_come_first():
    waiting = [
        PendingDocument("a", 1, modified=1.0, linked=0),
        PendingDocument("b", 1, modified=9.0, linked=0),
        PendingDocument("c", 1, modified=2.0, linked=7),
        PendingDocument("d", 1, modified=8.0, linked=1),
    ]
    assert [each.path for each in wanted_first(waiting)] == ["b", "c", "d", "a"]
    assert wanted_first([]) == []


def test_links_are_counted_for_the_order(tmp_path, monkeypatch):
    seen: list[PendingDocument] = []
    monkeypatch.setattr(
        "tamis.index.embed_pending.wanted_first",
        lambda waiting: seen.extend(waiting) or [],
    )
    with words_first(), open_corpus(write_files(tmp_path / "root", FILES)):
        assert {each.path: each.linked for each in seen} == {
            "new.md": 1, "old.md": 0, "hub.md": 2, "far.md": 0, "code.py": 0,
        }  # fmt: skip
