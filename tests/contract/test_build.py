"""The indexing path: a report that adds up, files that are read again and files that are not."""

import os
from pathlib import Path

import numpy as np
import pytest

from support.corpora import open_corpus, words_first, write_files
from support.corpora import test_settings as settings_of
from tamis.corpus import Corpus
from tamis.errors import IndexMismatch
from tamis.index.build import check_model, model_name
from tamis.index.plan import dry_run, is_unchanged, recipe
from tamis.ingest.walk import Entry
from tamis.model import Chunk, Report, Skipped, embedding_text
from tamis.models.hashing import HashingEmbedder

LONG_AGO = 1_600_000_000


def age(root: Path) -> None:
    """Make every file old, so that its times can be trusted."""
    for file in root.rglob("*"):
        if file.is_file() and ".tamis" not in file.parts:
            os.utime(file, (LONG_AGO, LONG_AGO))


class Watcher:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []

    def start(self, total: int, what: str = "files") -> None:
        self.told.append(("start", total))

    def advance(self, path: str, by: int = 1) -> None:
        self.told.append(("advance", path))

    def note(self, message: str) -> None:
        self.told.append(("note", message))


def counts(report: Report) -> tuple[int, int, int, int]:
    return report.indexed, report.unchanged, len(report.skipped), report.removed


FILES = {
    "a.md": "# A\n\nalpha", "docs/b.md": "beta", "docs/c.py": "gamma = 1", "empty.md": "",
    "image.png": b"\x89PNG\0\0", "large.md": "x" * 3000, "node_modules/x/y.md": "no",
}  # fmt: skip
REASONS = {"image.png": "binary", "large.md": "too large", "node_modules/": "ignored"}


@pytest.mark.rows("R001-078")
def test_the_report_adds_up(corpus_of):
    """Seen is indexed, unchanged and skipped, and every skipped file has its reason."""
    corpus = corpus_of({}, index__max_file_bytes=2000)
    write_files(corpus.root, FILES)
    report = corpus.refresh()
    assert {item.path: item.reason for item in report.skipped} == REASONS
    assert report.skipped_by_reason == {"binary": 1, "ignored": 1, "too large": 1}
    assert counts(report) == (4, 0, 3, 0)
    assert report.seen == 7
    assert report.chunks == 3
    assert report.to_dict()["seen"] == 7
    assert corpus.status().index.documents == 3, (
        "an empty file is indexed but nothing can be found in it"
    )
    assert {item.path: item.reason for item in corpus.status().skipped} == REASONS


def test_a_second_run_finds_nothing_to_do(corpus_of):
    corpus = corpus_of(FILES, index__max_file_bytes=2000)
    again = corpus.refresh()
    assert counts(again) == (0, 4, 3, 0)
    assert again.chunks == 0
    assert again.seen == 7
    assert again.generation == corpus.status().index.generation


@pytest.mark.rows("R001-074")
def test_changes_of_every_kind(corpus_of):
    """What is new, changed, gone, or now kept out."""
    corpus = corpus_of(
        {"same.md": "same", "old.md": "old", "gone.md": "gone", "kept/out.md": "out"}
    )
    write_files(
        corpus.root,
        {"old.md": "old, but longer", "new.md": "new", ".graphragignore": "kept/\n"},
    )
    (corpus.root / "gone.md").unlink()
    report = corpus.refresh()
    assert counts(report) == (2, 1, 2, 2)
    assert {item.path: item.reason for item in report.skipped} == {
        ".graphragignore": "ignored",
        "kept/": "ignored",
    }
    assert {
        result.path
        for result in corpus.search("old new same gone out", limit=20).results
    } == {
        "same.md",
        "old.md",
        "new.md",
    }


def test_a_file_that_turns_binary_leaves_the_index(corpus_of):
    corpus = corpus_of({"a.md": "alpha", "b.md": "beta"})
    write_files(corpus.root, {"a.md": b"\0\0\0"})
    report = corpus.refresh()
    assert counts(report) == (0, 1, 1, 1)
    assert [result.path for result in corpus.search("alpha").results] == ["b.md"]


def test_a_moved_file(corpus_of):
    corpus = corpus_of({"a.md": "alpha"})
    (corpus.root / "a.md").rename(corpus.root / "b.md")
    assert counts(corpus.refresh()) == (1, 0, 0, 1)
    assert [result.path for result in corpus.search("alpha").results] == ["b.md"]


@pytest.mark.rows("R002-042", "R002-060", "R002-124")
def test_other_chunk_sizes_make_every_file_anew(corpus_of):
    """What decides about the written rows is remembered with them."""
    corpus = corpus_of({"a.md": "alpha", "b.md": "beta"})
    other = Corpus(
        corpus.root,
        corpus.directory,
        settings_of(corpus.root, chunking__max_chars=1000),
    )
    assert counts(other.refresh()) == (2, 0, 0, 0)
    assert counts(other.refresh()) == (0, 2, 0, 0)
    other.close()


def test_what_a_recipe_covers(tmp_path):
    plain = settings_of(tmp_path)
    assert recipe(plain) == recipe(settings_of(tmp_path))
    assert recipe(plain) == recipe(
        settings_of(tmp_path, search__limit=9, model__threads=3)
    )
    others = {
        "chunking__min_chars": 9,
        "chunking__overlap_chars": 9,
        "fields__body": 2.0,
        "fields__title": 1.0,
    }
    made = {
        recipe(settings_of(tmp_path, **{name: value})) for name, value in others.items()
    }
    assert len(made | {recipe(plain)}) == 5


# --- Which files are read again ---------------------------------------------------------

SECOND = 10**9
SEEN = ("a", 5, 100 * SECOND, 100 * SECOND, 7, 200 * SECOND)


@pytest.mark.parametrize(
    ("size", "mtime", "ctime", "inode", "unchanged"),
    [
        pytest.param(5, 100, 100, 7, True, id="all the same"),
        pytest.param(6, 100, 100, 7, False, id="another size"),
        pytest.param(5, 101, 100, 7, False, id="another time"),
        pytest.param(5, 99, 100, 7, False, id="an older time: a restored file"),
        pytest.param(5, 100, 101, 7, False, id="its time was set back"),
        pytest.param(5, 100, 100, 8, False, id="another file of that name"),
    ],
)
def test_times_and_size(size, mtime, ctime, inode, unchanged):
    entry = Entry("a", Path("a"), size, mtime * SECOND, ctime * SECOND, inode)
    assert is_unchanged(entry, SEEN) is unchanged
    assert is_unchanged(entry, None) is False


@pytest.mark.parametrize(
    ("stamped", "trusted"), [(190, True), (197, True), (199, False), (201, False)]
)
def test_a_file_stamped_just_before_it_was_read_is_not_trusted(stamped, trusted):
    """It may have been written again within the same tick of the file system's clock."""
    known = ("a", 5, stamped * SECOND, stamped * SECOND, 7, 200 * SECOND)
    entry = Entry("a", Path("a"), 5, stamped * SECOND, stamped * SECOND, 7)
    assert is_unchanged(entry, known) is trusted


def test_what_another_recipe_has_written_was_never_read(corpus_of):
    corpus = corpus_of({"a.md": "alpha", "b.md": "beta"})
    with corpus.snapshot() as snapshot:
        states = snapshot.file_states()
        own, others = (
            snapshot.stamps(made_by) for made_by in (recipe(corpus.settings), "another")
        )
    assert own == {path: (path, *state[:5]) for path, state in states.items()}
    assert others == {path: (path, *state[:4], 0) for path, state in states.items()}


def test_folders_that_change_places(corpus_of):
    """Files of equal size and times, their folders swapped: only the inode tells."""
    corpus = corpus_of({"a/x.md": "alpha one", "b/x.md": "gamma two"})
    for file in ("a/x.md", "b/x.md"):
        os.utime(corpus.root / file, (1_000_000_000, 1_000_000_000))
    known = corpus.refresh()
    for before, after in (("a", "c"), ("b", "a"), ("c", "b")):
        (corpus.root / before).rename(corpus.root / after)
    assert known.seen == 2
    corpus.refresh()
    assert corpus.search("gamma", limit=1).results[0].path == "a/x.md"


def test_a_write_within_the_same_tick_is_found(corpus_of):
    """Same size, same times, other content: as a fast editor or a coarse clock leaves it."""
    corpus = corpus_of({"a.md": "alpha one"})
    file = corpus.root / "a.md"
    before = file.stat()
    file.write_text("gamma two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert counts(corpus.refresh()) == (1, 0, 0, 0)
    assert corpus.search("gamma").results[0].content == "gamma two"


def test_a_touched_file_is_read_but_not_written(corpus_of):
    """Its content decides; its new date is taken all the same."""
    corpus = corpus_of({"a.md": "alpha"})
    os.utime(corpus.root / "a.md", (LONG_AGO, LONG_AGO))
    report = corpus.refresh()
    assert counts(report) == (0, 1, 0, 0)
    assert report.chunks == 0
    assert corpus.search("alpha").results[0].modified == "2020-09-13T12:26:40Z"


# --- Who watches ---------------------------------------------------------------------------


def test_progress_is_told_the_total_and_then_every_file(corpus_of):
    corpus = corpus_of({})
    write_files(corpus.root, FILES)
    watcher = Watcher()
    corpus.refresh(watcher)
    paths = ["a.md", "docs/b.md", "docs/c.py", "empty.md", "image.png", "large.md"]
    assert watcher.told == [("start", 6), *(("advance", path) for path in paths)]


def test_nothing_to_do_is_nothing_to_tell(corpus_of):
    corpus = corpus_of({})
    watcher = Watcher()
    corpus.refresh(watcher)
    assert watcher.told == []


def test_warnings_name_their_file(corpus_of):
    corpus = corpus_of({})
    write_files(
        corpus.root,
        {"bad.md": "---\ntitle: [\n---\n", "old.md": b"caf\xe9", "fine.md": "fine"},
    )
    warnings = sorted(corpus.refresh().warnings)
    assert [warning.split(":")[0] for warning in warnings] == ["bad.md", "old.md"]


def test_a_dry_run_says_what_a_run_does_and_writes_nothing(tmp_path):
    root = write_files(tmp_path / "root", FILES)
    settings = settings_of(root, index__max_file_bytes=2000)
    taken, left_out, _ = dry_run(root, settings)
    assert not (root / ".tamis").exists()
    assert taken == ["a.md", "docs/b.md", "docs/c.py", "empty.md"]
    assert {item.path: item.reason for item in left_out} == REASONS
    with Corpus(root, root / ".tamis", settings) as corpus:
        report = corpus.refresh()
        assert report.indexed == len(taken)
        assert report.skipped == tuple(left_out)


# --- What the embedder reads -----------------------------------------------------------------


@pytest.mark.rows("R002-038..041")
def test_the_embedder_reads_the_breadcrumb_above_the_passage():
    """Header path, two newlines, content; the content alone where there is none.

    The title comes first where the headings do not begin with it: measured, see docs/benchmarks.md.
    """
    chunk = Chunk(
        0,
        "Configuration options...",
        "Search > Fusion Algorithm",
        1,
        1,
        "documentation",
    )
    for title in ("", "Search"):
        assert (
            embedding_text(title, chunk)
            == "Search > Fusion Algorithm\n\nConfiguration options..."
        )
    assert embedding_text("Manual", chunk).startswith(
        "Manual > Search > Fusion Algorithm\n\n"
    )
    bare = Chunk(0, "text", "", 1, 1, "documentation")
    assert (embedding_text("", bare), embedding_text("Note", bare)) == (
        "text",
        "Note\n\ntext",
    )


@pytest.mark.rows("R002-038", "R002-041")
def test_what_is_handed_to_the_embedder(corpus_of, monkeypatch):
    """All of a build, not only the property."""
    read: list[str] = []
    embed = HashingEmbedder.embed_passages

    def listen(self: HashingEmbedder, texts: list[str]) -> np.ndarray:
        read.extend(texts)
        return embed(self, texts)

    monkeypatch.setattr(HashingEmbedder, "embed_passages", listen)
    corpus_of({"a.md": "# Top\n\n## Sub\n\ntext", "b.txt": "plain"})
    assert read == ["Top > Sub\n\n# Top\n\n## Sub\n\ntext", "b.txt\n\nplain"]


@pytest.mark.rows("R002-041", "R002-043")
def test_the_same_text_below_other_headings_means_something_else():
    """Equal passages in two places have two vectors, each nearer to its place."""
    model = HashingEmbedder()
    texts = ["Configuration options"] * 2
    trails = ("Search > Fusion", "Printing > Paper")
    chunks = [
        Chunk(0, text, trail, 1, 1, "documentation")
        for text, trail in zip(texts, trails, strict=True)
    ]
    search, printing = model.embed_passages(
        [embedding_text("", chunk) for chunk in chunks]
    )
    assert not np.array_equal(search, printing)
    question = model.embed_query("configuration of paper")
    assert printing @ question > search @ question


# --- Whose index it is -----------------------------------------------------------------------


def test_which_model(tmp_path):
    plain, named = (
        settings_of(tmp_path, model__name=""),
        settings_of(tmp_path, model__name="none"),
    )
    assert model_name(plain, {}) == "granite"
    assert model_name(plain, {"model": "bge"}) == "bge"
    assert model_name(named, {"model": "bge"}) == "none"
    assert model_name(plain, {"chosen": "bge"}) == "bge"
    assert model_name(plain, {"model": "none", "chosen": "bge"}) == "none"


def test_a_model_that_was_chosen_is_remembered_before_it_is_loaded(
    tmp_path, monkeypatch
):
    """Words are committed first; a kill between the two must not change the model."""
    root = write_files(tmp_path / "root", {"a.md": "alpha"})

    def killed(*_):
        raise KeyboardInterrupt

    with (
        words_first(),
        pytest.raises(KeyboardInterrupt),
        monkeypatch.context() as patch,
    ):
        patch.setattr("tamis.index.build.embed_pending", killed)
        open_corpus(root, model__name="hashing")
    with Corpus(root, root / ".tamis", settings_of(root, model__name="")) as corpus:
        assert corpus.search("alpha").results
        assert corpus.status().index.pending_chunks == 1
        corpus.refresh()
        assert (corpus.status().model, corpus.status().index.pending_chunks) == (
            "hashing",
            0,
        )


@pytest.mark.rows("X5", "R002-008")
def test_an_index_of_another_model_is_refused_with_a_way_out(tmp_path):
    """Dimension and model are stored; a mismatch says how to rebuild."""
    facts = {"model": "bge", "fingerprint": "one"}
    check_model(tmp_path, {}, "granite", "x")
    check_model(tmp_path, facts, "bge")
    check_model(tmp_path, facts, "bge", "one")
    for name, fingerprint in (("granite", None), ("bge", "two")):
        with pytest.raises(IndexMismatch) as caught:
            check_model(tmp_path, facts, name, fingerprint)
        assert f"tamis rebuild-index --model {name}" in caught.value.hint


def test_an_index_elsewhere_belongs_to_one_root(tmp_path):
    place = tmp_path / "index"
    for name in ("one", "two"):
        write_files(tmp_path / name, {"a.md": name})
    one, two = (
        Corpus(root, place, settings_of(root, index__directory=str(place)))
        for root in (tmp_path / "one", tmp_path / "two")
    )
    one.refresh()
    with pytest.raises(IndexMismatch, match="belongs to"):
        two.refresh()
    two.rebuild()
    assert two.search("two").results[0].content == "two"
    one.close()
    two.close()


def test_an_index_inside_its_root_moves_along(corpus_of, tmp_path):
    corpus = corpus_of({"a.md": "alpha"})
    age(corpus.root)
    corpus.refresh()
    corpus.close()
    moved = corpus.root.rename(tmp_path / "moved")
    with Corpus(moved, moved / ".tamis", settings_of(moved)) as again:
        assert again.search("alpha").results[0].file_path == str(moved / "a.md")
        assert again.refresh().indexed == 0


@pytest.mark.rows("R002-169")
def test_a_rebuild_gives_what_a_build_gave(corpus_of):
    corpus = corpus_of({"a.md": "alpha beta", "b.md": "alpha"})
    before = corpus.search("alpha").to_dict()["results"]
    assert counts(corpus.rebuild()) == (2, 0, 0, 0)
    assert corpus.search("alpha").to_dict()["results"] == before


def test_a_skipped_value_is_plain():
    assert Skipped("a", "binary") == Skipped("a", "binary", "")
