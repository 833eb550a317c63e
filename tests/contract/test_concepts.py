"""The concept vocabulary: held to the oracle, made step by step, and never used in part."""

import os
import random
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from support.corpora import open_corpus, open_in_steps, test_settings, write_files
from support.lanes import by_meaning, by_terms
from support.naive import naive_snapshot
from tamis.corpus import Corpus
from tamis.index.embedded.concepts import vocabulary_of
from tamis.index.embedded.folder import writer_lock
from tamis.index.embedded.reader import Reader
from tamis.index.vocabulary import make_vocabulary
from tamis.models.embedders import Vectors
from tamis.models.hashing import HashingEmbedder
from tamis.query import filters as f

ON = {
    "search__query_expansion_enabled": True,
    "weights__query_expansion_threshold": -1.0,
}
SMALL = {
    "chunking__min_chars": 0,
    "chunking__max_chars": 120,
    "chunking__overlap_chars": 20,
}
embed = HashingEmbedder().embed_query
Near = list[tuple[str, float]]


class Counting(HashingEmbedder):
    """The hashing embedder, with a list of what it has embedded; may fail after some batches."""

    def __init__(self, batches: int = 1_000_000) -> None:
        self.seen: list[str] = []
        self.left = batches

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        self.seen += texts
        return super().embed_passages(texts)


class Notes:
    def __init__(self) -> None:
        self.said: list[str] = []

    def start(self, total: int, what: str = "files") -> None: ...
    def advance(self, path: str, by: int = 1) -> None: ...

    def note(self, message: str) -> None:
        self.said.append(message)


def some_files(seed: int, count: int = 30) -> dict[str, str]:
    dice = random.Random(seed)
    many = [
        f"{start}{end}"
        for start in ("re", "un", "de", "co")
        for end in ("try", "lock", "code", "mit", "ply")
    ]
    folders = ("", "docs/", "notes/", "archive/")
    return {
        f"{dice.choice(folders)}{number}.md": f"# {dice.choice(many)}\n\n"
        + " ".join(dice.choices(many, k=25))
        for number in range(count)
    }


def nearest(
    corpus: Corpus, query: str, filter: f.Filter = f.EVERYTHING, **limits: int
) -> Near | None:
    with Reader(corpus.directory).snapshot() as snapshot:
        return near(snapshot, query, filter, **limits)


def near(
    snapshot,
    query: str,
    filter: f.Filter,
    depth: int = 100,
    floor: int = 2,
    most: int = 10_000,
) -> Near | None:
    found = snapshot.concepts(embed(query), snapshot.allow(filter), depth, floor, most)
    return None if found is None else [(each.term, each.score) for each in found]


def make(
    corpus: Corpus,
    embedder: HashingEmbedder,
    progress: Notes | None = None,
    **flags: object,
) -> int:
    settings = test_settings(corpus.root, **ON, **flags)
    return make_vocabulary(
        corpus.directory, settings, lambda name: embedder, progress or Notes()
    )


FILTERS = (
    f.EVERYTHING, f.NOTHING, f.Under("docs"), ~f.Under("docs"), f.Path(("*1.md",)), f.DocumentIs("3.md"),
)  # fmt: skip


@pytest.mark.rows("R002-027", "R002-032", "R002-037")
@pytest.mark.parametrize("filter", FILTERS, ids=str)
def test_concepts_are_the_oracles(filter, tmp_path):
    """Of the allowed rows, the most frequent, nearest first."""
    files = some_files(1)
    oracle = naive_snapshot(
        write_files(tmp_path / "plain", files), test_settings(tmp_path, **SMALL)
    )
    with open_in_steps(tmp_path / "root", files, **ON, **SMALL) as corpus:
        for depth, floor, most in (
            (100, 2, 10_000),
            (3, 2, 10_000),
            (100, 5, 10_000),
            (100, 2, 4),
            (2, 3, 5),
        ):
            limits = {"depth": depth, "floor": floor, "most": most}
            found = nearest(corpus, "retry policy", filter, **limits)
            expected = near(oracle, "retry policy", filter, **limits)
            assert [term for term, _ in found] == [term for term, _ in expected]
            assert [score for _, score in found] == pytest.approx(
                [score for _, score in expected], abs=1e-12
            )


def test_weighted_words_are_the_oracles(tmp_path):
    files = some_files(2)
    oracle = naive_snapshot(
        write_files(tmp_path / "plain", files), test_settings(tmp_path, **SMALL)
    )
    with (
        open_in_steps(tmp_path / "root", files, **SMALL) as corpus,
        corpus.snapshot() as snapshot,
    ):
        for filter in FILTERS:  # noqa: A001
            found, expected = (
                {
                    engine.passages([hit.key])[hit.key].position: hit.score
                    for hit in by_terms(
                        engine,
                        "words",
                        ["retri", "unlock", "deni"],
                        engine.allow(filter),
                        1_000,
                        {"unlock": 0.3},
                    )
                }
                for engine in (snapshot, oracle)
            )
            assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.rows("C49", "R002-028")
def test_the_file_holds_sixteen_bits_a_number(tmp_path):
    """A binary file beside the index, no JSON."""
    with (
        open_corpus(write_files(tmp_path, some_files(3)), **ON) as corpus,
        corpus.snapshot() as snapshot,
    ):
        vocabulary = vocabulary_of(snapshot.view)
        assert vocabulary.arrays["full"].dtype == np.float16
        assert len(vocabulary) == len(near(snapshot, "retry", f.EVERYTHING)) == 20
        assert [path.suffix for path in (corpus.directory / "concepts").iterdir()] == [
            ".bin"
        ]


@pytest.mark.rows("R002-024", "R002-035")
def test_an_expanded_question_finds_what_its_words_do_not(tmp_path):
    """Test_expanded_query_finds_related_documents; "auth" finds "authentication"."""
    files = {
        "guide.md": "Authentication comes before a session opens. Authentication asks for a password.\n",
        "api.md": "Authentication by token; login happens at the gateway.\n",
        "garden.md": "Tomatoes want sun and water. Cucumbers want water.\n",
        "kitchen.md": "Bread wants flour and water. Cucumbers want salt.\n",
        "bicycle.md": "Wheels want air, chains want oil.\n",
    }
    root = write_files(tmp_path, files)
    alone = {
        "model__name": "granite",
        "search__max_hops": 0,
        "weights__query_expansion_keywords": 0.3,
    }
    with open_corpus(root, **alone) as plain:
        assert not [
            hit
            for hit in lanes_of(plain.search("auth"))
            if hit == ("guide.md", "words")
        ]
    with open_corpus(root, **alone, search__query_expansion_enabled=True) as corpus:
        found = corpus.search("auth")
        assert found.expansion[0] == "authentication"
        assert found.to_dict()["expanded_with"] == list(found.expansion)
        assert {("guide.md", "words"), ("api.md", "words")} <= set(lanes_of(found))
        assert {result.path for result in found.results[:2]} == {"guide.md", "api.md"}
        assert (
            corpus.search("auth", excluded_files=["guide.md"]).expansion
            != found.expansion
        )
        shown = corpus.search("auth", why_not="api.md", limit=2).why_not
        assert (shown.reason, shown.detail) in {
            ("shown", "it is result 1"),
            ("shown", "it is result 2"),
        }


def lanes_of(found) -> list[tuple[str, str]]:
    return [
        (result.path, evidence.lane)
        for result in found.results
        for evidence in result.evidence
    ]


@pytest.mark.rows("R002-063")
def test_synonyms_improve_recall(corpus_of):
    """The words lane alone finds what is called otherwise."""
    files = {
        "a.md": "How to remove a repository.\n",
        "b.md": "Kubernetes clusters.\n",
        "c.md": "Other text.\n",
    }
    alone = {"search__semantic_weight": 0.0, "search__max_hops": 0}
    for query, expected in (("delete repo", {"a.md"}), ("k8s", {"b.md"})):
        assert corpus_of(files, **alone).search(query).results == ()
        found = corpus_of(files, **alone, search__synonyms="software").search(query)
        assert {result.path for result in found.results} == expected
        assert found.to_dict()["synonyms"] == list(found.synonyms) != []


# --- Never in part -----------------------------------------------------------------------


def hint(corpus: Corpus) -> bool:
    return any(
        "concept vocabulary is not ready" in each
        for each in map(str, corpus.search("retry").hints)
    )


def later(root: Path, files: dict[str, str]) -> Corpus:
    """An index without a vocabulary, opened by somebody who wants one."""
    open_corpus(write_files(root, files)).close()
    settings = test_settings(root, **ON)
    return Corpus(root.resolve(), root.resolve() / ".tamis", settings)


def test_without_a_vocabulary_the_answer_is_the_plain_one_and_says_so(tmp_path):
    with later(tmp_path, some_files(4)) as corpus, open_corpus(tmp_path) as plain:
        found = corpus.search("retry policy")
        assert (found.expansion, found.results) == (
            (),
            plain.search("retry policy").results,
        )
        assert hint(corpus)
        assert "expanded_with" not in found.to_dict()
        corpus.refresh()
        assert not hint(corpus), (
            "an open corpus notices the vocabulary, though no document changed"
        )
        assert corpus.search("retry policy").expansion


@pytest.mark.rows("R002-029", "C49")
def test_indexing_does_not_wait_for_it_and_an_interrupted_run_goes_on(
    tmp_path, monkeypatch
):
    """After the commit; batch by batch; a term is embedded once."""
    monkeypatch.setattr("tamis.index.vocabulary.BATCH", 4)
    with later(tmp_path, some_files(5)) as corpus:
        first, seen = Counting(batches=2), set()
        with pytest.raises(KeyboardInterrupt):
            make(corpus, first)
        seen |= set(first.seen)
        assert len(seen) == 8
        assert hint(corpus)
        second, notes = Counting(), Notes()
        assert make(corpus, second, notes) == 20
        assert len(second.seen) == 12
        assert not seen & set(second.seen)
        assert notes.said == ["the concept vocabulary has 20 terms"]
        assert not hint(corpus)
        assert files_in(corpus) == 1
        whole = nearest(corpus, "retry")
        shutil.rmtree(corpus.directory / "concepts")
        make(corpus, HashingEmbedder())
        assert nearest(corpus, "retry") == whole


def files_in(corpus: Corpus) -> int:
    return len(list((corpus.directory / "concepts").iterdir()))


def test_a_run_that_died_between_segments_goes_on(tmp_path, monkeypatch):
    from tamis.index.embedded import concepts

    with open_in_steps(tmp_path, some_files(6)) as plain:
        corpus = Corpus(plain.root, plain.directory, test_settings(plain.root, **ON))
        write, written = concepts.write_terms, []

        def dies(segment, texts) -> None:
            if written:
                raise KeyboardInterrupt
            written.append(segment.record.folder)
            write(segment, texts)

        monkeypatch.setattr(concepts, "write_terms", dies)
        with pytest.raises(KeyboardInterrupt):
            make(corpus, HashingEmbedder())
        monkeypatch.setattr(
            concepts, "write_terms", lambda segment, texts: again(segment, texts)
        )

        def again(segment, texts) -> None:
            written.append(segment.record.folder)
            write(segment, texts)

        assert make(corpus, HashingEmbedder()) > 0
        assert len(set(written)) == len(written) > 1
        assert not hint(corpus)


@pytest.mark.rows("R002-030", "R002-197")
def test_what_is_there_already_needs_no_model(tmp_path):
    """Only terms that are new are embedded; nothing at all where nothing changed."""
    files = some_files(7)
    with later(tmp_path, files) as corpus:
        make(corpus, HashingEmbedder())
        name = next((corpus.directory / "concepts").iterdir()).name
        make(corpus, Counting(batches=0))
        assert next((corpus.directory / "concepts").iterdir()).name == name
        write_files(tmp_path, {"new.md": "retry zigzag", "new2.md": "decode zigzag"})
        open_corpus(tmp_path).close()
        assert hint(corpus), "a part is not enough"
        counting = Counting()
        assert make(corpus, counting) == 21
        assert counting.seen == ["zigzag"]
        for gone in ("new.md", "new2.md"):
            os.unlink(tmp_path / gone)
        open_corpus(tmp_path).close()
        assert "zigzag" not in dict(nearest(corpus, "retry"))


@pytest.mark.rows("R002-030", "R002-031")
def test_in_steps_is_as_anew(tmp_path):
    """Incremental equals rebuilt, for every filter."""
    files = some_files(8)
    with (
        open_in_steps(tmp_path / "steps", files, **ON) as steps,
        open_corpus(write_files(tmp_path / "once", files), **ON) as once,
    ):
        for filter in FILTERS:  # noqa: A001
            assert nearest(steps, "unlock retry", filter) == nearest(
                once, "unlock retry", filter
            )
        expected = nearest(steps, "unlock retry")
        notes = Notes()
        steps.rebuild(notes)
        assert nearest(steps, "unlock retry") == expected
        assert notes.said[-1] == "the concept vocabulary has 20 terms"


def test_a_lower_floor_needs_another_run(tmp_path):
    root = write_files(tmp_path, some_files(9) | {"rare.md": "zigzag"})
    with open_corpus(root, **ON) as corpus:
        assert nearest(corpus, "retry", floor=1) is None
        assert (
            make(corpus, HashingEmbedder(), weights__query_expansion_min_frequency=1)
            == 21
        )
        assert "zigzag" in dict(nearest(corpus, "retry", floor=1))
        assert "zigzag" not in dict(nearest(corpus, "retry", floor=2))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def scribble(file: Path) -> None:
    file.write_bytes(b"nonsense" * 100)


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize(
    "damage", [cut, scribble, empty, os.unlink], ids=lambda each: each.__name__
)
@pytest.mark.parametrize("which", ["concepts/*.bin", "segments/*/terms.bin"])
def test_what_is_damaged_is_made_again(
    which: str, damage: Callable[[Path], None], tmp_path
):
    files = some_files(10)
    with open_corpus(write_files(tmp_path, files), **ON) as corpus:
        expected = nearest(corpus, "retry")
        for file in list(corpus.directory.glob(which)):
            damage(file)
        with Corpus(corpus.root, corpus.directory, corpus.settings) as fresh:
            assert hint(fresh)
            assert fresh.search("retry").results, "searching goes on"
            fresh.refresh()
            assert not hint(fresh)
        assert nearest(corpus, "retry") == expected


def test_a_strangers_name_for_a_vocabulary_leads_nowhere(tmp_path):
    from tamis.index.embedded import database

    with open_corpus(write_files(tmp_path, some_files(11)), **ON) as corpus:
        connection = database.open_writer(corpus.directory)
        database.set_facts(connection, {"concepts": "../../elsewhere"})
        connection.close()
        assert hint(corpus)
        corpus.refresh()
        assert not hint(corpus)


# --- Several at once ---------------------------------------------------------------------


def test_one_does_it_and_others_leave_it_at_that(tmp_path):
    with later(tmp_path, some_files(12)) as corpus:
        notes = Notes()
        with writer_lock(corpus.directory, 0, lambda _: None, "concepts.lock"):
            assert make(corpus, Counting(batches=0), notes) == 0
        assert "not ready" in notes.said[-1]
        assert make(corpus, HashingEmbedder()) == 20


@pytest.mark.rows("C49")
def test_searches_and_writers_go_on_while_it_is_made(tmp_path):
    """Outside the writer's lock; what others write meanwhile is in the vocabulary at the end."""
    root = tmp_path.resolve()
    with later(root, some_files(13)) as corpus:
        began, go_on = threading.Event(), threading.Event()

        class Slow(HashingEmbedder):
            def embed_passages(self, texts: Sequence[str]) -> Vectors:
                began.set()
                assert go_on.wait(60)
                return super().embed_passages(texts)

        made: list[int] = []
        run = threading.Thread(target=lambda: made.append(make(corpus, Slow())))
        run.start()
        assert began.wait(60)
        try:
            assert hint(corpus)
            write_files(root, {"new.md": "retry zigzag", "new2.md": "decode zigzag"})
            open_corpus(root, index__lock_timeout=0).close()
            assert corpus.search("zigzag").results
        finally:
            go_on.set()
            run.join()
        assert made == [21]
        assert "zigzag" in dict(nearest(corpus, "retry"))


def test_without_a_model_there_is_nothing_to_make(tmp_path):
    with open_corpus(
        write_files(tmp_path, some_files(14)), model__name="none", **ON
    ) as corpus:
        assert not (corpus.directory / "concepts").exists()
        found = corpus.search("retry")
        assert found.results
        assert (found.expansion, hint(corpus)) == ((), False)


def test_an_empty_index_has_an_empty_vocabulary(tmp_path):
    with open_corpus(tmp_path, **ON) as corpus:
        assert corpus.search("retry").results == ()
        write_files(tmp_path, {"a.md": "once"})
        corpus.refresh()
        assert corpus.search("once").expansion == ()
        assert not hint(corpus)


@pytest.mark.rows("R002-176")
def test_what_is_read_off_a_document_and_where_it_is_kept(tmp_path):
    """Passages, code blocks, front matter and links; found by vectors, words, names, links and
    by the vocabulary, each of them kept by itself."""
    page = (
        "---\ntitle: Billing\nkeywords: [invoice]\n---\n# Billing\n\nRetries of a charge, see [[other]].\n\n"
        "```python\ndef charge_card():\n    return 1\n```\n"
    )
    root = write_files(
        tmp_path, {"billing.md": page, "other.md": "Retries of an invoice.\n"}
    )
    with (
        open_corpus(root, **ON) as corpus,
        Reader(corpus.directory).snapshot() as snapshot,
    ):
        everything = snapshot.allow(f.EVERYTHING)

        def found(hits) -> set[tuple[str, str]]:
            passages = snapshot.passages([hit.key for hit in hits]).values()
            return {(each.path, each.chunk_type) for each in passages}

        text, block, other = (
            ("billing.md", "documentation"),
            ("billing.md", "code_block"),
            "other.md",
        )
        assert found(by_meaning(snapshot, embed("retries"), everything, 9)) >= {
            text,
            block,
        }
        assert found(by_terms(snapshot, "words", ["retri"], everything, 9)) == {
            text,
            (other, "documentation"),
        }
        assert text in found(by_terms(snapshot, "words", ["invoic"], everything, 9)), (
            "by its front matter"
        )
        assert block in found(
            by_terms(snapshot, "code", ["charge_card"], everything, 9)
        )
        assert [
            (edge.source, edge.target)
            for edge in snapshot.links(["billing.md"], everything)
        ] == [("billing.md", other)]
        assert "retries" in {
            each.term
            for each in snapshot.concepts(embed("retry"), everything, 9, 2, 99) or ()
        }
        kept = {file.name for file in (corpus.directory / "segments").rglob("*.bin")}
        assert {"vectors.bin", "words.bin", "code.bin"} <= kept
        assert any((corpus.directory / "concepts").iterdir())
