"""What must never be touched, mixed up or left behind: other people's files, other roots, dead handles."""

import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from pathlib import Path

import pytest

import tamis
from support.corpora import open_corpus, test_settings, write_files
from tamis.configuration import load
from tamis.corpus import Corpus
from tamis.errors import (
    BadSetting,
    IndexDamaged,
    IndexMismatch,
    IndexMissing,
    StorageFault,
    UsageError,
)
from tamis.index.embedded.segment import LANGUAGES_IN_ORDER, TYPES_IN_ORDER
from tamis.models.embedders import load_embedder
from tamis.text.languages import CHUNK_TYPES, LANGUAGES

FILES = {"a.md": "alpha one", "b.md": "beta two"}


def corpus_in(root: Path, directory: Path, **flags: object) -> Corpus:
    return Corpus(root.resolve(), directory, test_settings(root, **flags))


def test_a_shipped_link_for_the_segments_leads_nowhere(tmp_path):
    """A checkout may bring a `.tamis` of its own; what its links point at stays as it is."""
    root = write_files(tmp_path / "root", FILES)
    victim = write_files(
        tmp_path / "victim", {"0" * 32 + "/x.txt": "mine", "y.txt": "mine"}
    )
    (root / ".tamis").mkdir()
    (root / ".tamis" / "segments").symlink_to(victim)
    with pytest.raises(StorageFault, match="link"):
        open_corpus(root)
    assert sorted(p.name for p in victim.rglob("*.txt")) == ["x.txt", "y.txt"]


def test_a_shipped_link_for_the_index_leads_nowhere(tmp_path):
    root, victim = write_files(tmp_path / "root", FILES), tmp_path / "victim"
    victim.mkdir()
    (root / ".tamis").symlink_to(victim)
    with pytest.raises(StorageFault, match="link"):
        open_corpus(root)
    assert not list(victim.iterdir())


def test_a_folder_in_use_is_not_taken_for_an_index(tmp_path):
    """`--index-dir docs` by mistake must neither hide docs from git nor remove anything there."""
    root = write_files(tmp_path / "root", FILES)
    used = write_files(
        tmp_path / "data", {"segments/customers/list.txt": "mine", "notes.md": "mine"}
    )
    with pytest.raises(StorageFault, match="other things"):
        corpus_in(root, used).refresh()
    assert not (used / ".gitignore").exists()
    assert (used / "segments/customers/list.txt").read_text() == "mine"


def test_sweeping_knows_its_own(tmp_path):
    root = write_files(tmp_path / "root", FILES)
    open_corpus(root).close()
    write_files(
        root / ".tamis" / "segments",
        {"customers/list.txt": "mine", "f" * 32 + "/rows.bin": "left over"},
    )
    write_files(root, {"c.md": "gamma"})
    open_corpus(root).close()
    assert (root / ".tamis/segments/customers/list.txt").exists()
    assert not (root / ".tamis/segments" / ("f" * 32)).exists()


def test_a_shipped_database_cannot_name_folders_elsewhere(tmp_path):
    root = write_files(tmp_path / "root", FILES)
    open_corpus(root).close()
    victim = tmp_path / "victim"
    segment = next((root / ".tamis" / "segments").iterdir())
    shutil.copytree(segment, victim)
    with sqlite3.connect(root / ".tamis" / "index.db") as connection:
        connection.execute("UPDATE segments SET folder = ?", (str(victim),))
    connection.close()
    corpus = corpus_in(root, root / ".tamis")
    with pytest.raises(IndexDamaged, match="impossible name"):
        corpus.search("alpha")
    corpus.rebuild()
    assert sorted(p.name for p in victim.iterdir()) == [
        "code.bin",
        "rows.bin",
        "vectors.bin",
        "words.bin",
    ]
    assert corpus.search("alpha").results[0].path == "a.md"
    corpus.close()


def test_one_index_folder_serves_one_root(tmp_path):
    """A shared TAMIS_INDEX_DIR must not answer for one root with the text of another."""
    one, two = (
        write_files(tmp_path / "one", {"a.md": "alpha"}),
        write_files(tmp_path / "two", {"b.md": "beta"}),
    )
    with corpus_in(one, tmp_path / "index") as corpus:
        corpus.refresh()
    with corpus_in(two, tmp_path / "index") as corpus:
        for ask in (lambda: corpus.search("alpha"), corpus.status, corpus.refresh):
            with pytest.raises(IndexMismatch, match="belongs to"):
                ask()


def test_an_index_moves_with_its_folder(tmp_path):
    root = write_files(tmp_path / "before", FILES)
    open_corpus(root).close()
    root.rename(tmp_path / "after")
    with corpus_in(tmp_path / "after", tmp_path / "after" / ".tamis") as corpus:
        assert corpus.search("alpha").results[0].file_path == str(
            tmp_path / "after" / "a.md"
        )


def test_a_configured_place_is_relative_to_the_root(tmp_path, monkeypatch):
    root = write_files(
        tmp_path / "root",
        FILES | {"tamis.toml": '[index]\ndirectory = "cache"\n[model]\nname = "none"'},
    )
    for number in ("1", "2"):
        (tmp_path / number).mkdir()
        monkeypatch.chdir(tmp_path / number)
        tamis.open(root).close()
    assert (root / "cache" / "index.db").exists()


def test_a_closed_corpus_says_so(corpus_of):
    corpus = corpus_of(FILES)
    corpus.close()
    with pytest.raises(UsageError, match="closed"):
        corpus.search("alpha")


def test_no_index_is_no_damage(tmp_path):
    root = write_files(tmp_path / "root", FILES)
    with corpus_in(root, root / ".tamis") as corpus, pytest.raises(IndexMissing):
        corpus.status()


def test_short_lived_threads_leave_no_handles(corpus_of):
    corpus = corpus_of(FILES)
    corpus.search("alpha")
    before = (
        len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else None
    )
    for _ in range(40):
        thread = threading.Thread(target=corpus.search, args=("alpha",))
        thread.start()
        thread.join()
    if before is None:
        pytest.skip("this system does not list a process's open files")
    assert len(os.listdir("/proc/self/fd")) <= before + 4


def test_a_child_process_searches_too(corpus_of):
    """Threads do not survive a fork: a search before it must not make one after it wait forever."""
    root = corpus_of(FILES).root
    script = textwrap.dedent(
        f"""
        import os, sys, tamis
        corpus = tamis.open({str(root)!r})
        corpus.search("alpha")
        child = os.fork()
        if not child:
            os._exit(0 if corpus.search("alpha").results else 1)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert (
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", script], timeout=60, check=False
        ).returncode
        == 0
    )


def test_a_deleted_lock_keeps_nobody_in(corpus_of):
    corpus = corpus_of(FILES)
    (corpus.directory / "writer.lock").unlink()
    write_files(corpus.root, {"c.md": "gamma"})
    assert corpus.refresh().indexed == 1
    assert (corpus.directory / "writer.lock").exists()


def test_a_model_is_loaded_only_for_something_to_embed(tmp_path, monkeypatch):
    """A root with one binary file must not load the model at every refresh."""
    root = write_files(tmp_path / "root", FILES | {"x.bin2": b"\0\1\2"})
    loaded = []

    def load(name, threads):
        loaded.append(name)
        return load_embedder(name, threads)

    monkeypatch.setattr("tamis.models.embedders.load_embedder", load)
    for _ in range(3):
        with closing(corpus_in(root, root.resolve() / ".tamis")) as corpus:
            corpus.refresh()
    assert loaded == ["hashing"]


def test_a_damaged_index_keeps_its_model(tmp_path):
    root = write_files(tmp_path / "root", FILES)
    open_corpus(root, model__name="none").close()
    next((root / ".tamis" / "segments").rglob("rows.bin")).write_bytes(b"broken")
    settings = test_settings(root, model__name="")
    with Corpus(root.resolve(), root.resolve() / ".tamis", settings) as corpus:
        corpus.rebuild()
        assert corpus.status().model == "none"


def test_status_knows_of_changed_settings(corpus_of):
    corpus = corpus_of(FILES)
    assert corpus.status().changed_files == 0
    with corpus_in(corpus.root, corpus.directory, chunking__min_chars=10) as other:
        assert other.status().changed_files == 2


def test_whoever_says_so_hides_archived_files(corpus_of):
    """An explicit `exclude_archived=True` wins over patterns that would let them in."""
    corpus = corpus_of({"archive/a.md": "alpha", "b.md": "alpha too"})
    assert {
        r.path for r in corpus.search("alpha", include_patterns=["*.md"]).results
    } == {
        "archive/a.md",
        "b.md",
    }
    hidden = corpus.search("alpha", include_patterns=["*.md"], exclude_archived=True)
    assert [result.path for result in hidden.results] == ["b.md"]


def test_codes_in_files_cover_every_name():
    """They are append-only; a new type or language needs a place at the end."""
    assert set(TYPES_IN_ORDER) == set(CHUNK_TYPES)
    assert set(LANGUAGES_IN_ORDER) == set(LANGUAGES)
    assert TYPES_IN_ORDER[:2] == ("documentation", "code_block")
    assert LANGUAGES_IN_ORDER[:3] == ("bash", "c", "cpp")


@pytest.mark.parametrize(
    "name", ["index.directory", "search.rerank_model", "search.synonyms"]
)
@pytest.mark.parametrize(
    "place", ["/etc", "../outside", "docs/../../outside", "~/outside", "link/outside"]
)
@pytest.mark.parametrize("file", ["tamis.toml", "pyproject.toml"])
def test_a_projects_configuration_cannot_lead_out_of_it(tmp_path, name, place, file):
    """A hostile checkout: it must neither have an index written nor a file read elsewhere."""
    section, key = name.split(".")
    table = f"[{'tool.tamis.' if file == 'pyproject.toml' else ''}{section}]"
    root = write_files(
        tmp_path / "root", {file: f'{table}\n{key} = "{place}"\n', "docs/a.md": "alpha"}
    )
    (root / "link").symlink_to(tmp_path)
    environment = {"HOME": str(tmp_path)}
    with pytest.raises(BadSetting) as caught:
        load(root, environment=environment)
    assert name in caught.value.message
    assert "flag" in caught.value.hint
    assert load(root / "docs", {name: place}, environment=environment), (
        "who starts it may say so"
    )


def test_a_projects_configuration_may_name_what_it_brings(tmp_path):
    inside = '[index]\ndirectory = "cache/index"\n[search]\nrerank_model = "org/name"\n'
    root = write_files(tmp_path / "root", {"tamis.toml": inside})
    settings = load(root, environment={"HOME": str(tmp_path)})
    assert settings.index.directory == "cache/index"
    assert settings.search.rerank_model == "org/name"
