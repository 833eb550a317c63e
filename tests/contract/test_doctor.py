"""The doctor: each check is shown exactly what it is there for, and a repair gives a rebuild's answers."""

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.corpora import (
    open_corpus,
    open_in_steps,
    test_settings,
    words_first,
    write_files,
)
from tamis.cli.main import main
from tamis.corpus import Corpus, index_directory
from tamis.errors import IndexDamaged, ModelFault, StorageFault
from tamis.index.doctor.checks import Health
from tamis.index.embed_pending import wanted_first
from tamis.index.embedded import database
from tamis.index.embedded.arrays import map_arrays, write_arrays
from tamis.index.embedded.concepts import vocabulary_of
from tamis.index.embedded.vectors import encode

PARTS = (
    "alpha",
    "beta",
    "gamma",
    "delta",
    "retry",
    "cache",
    "token",
    "queue",
    "zebra",
    "naïve",
    "東京都",
)
HEAD = "---\ntags: [draft]\nkeywords: [kiwi, fig]\ndescription: what {0} is\naliases: [The {0}]\n---\n"
FILES = {
    f"docs/{word}.md": HEAD.format(word)
    + f"# {word}\n\nAll about {word} and `{word}_call()`. See [[{PARTS[at - 1]}]].\n\n## More\n\n"
    + f"{' '.join(PARTS[at:])} once more.\n\n```python\ndef {'f' * (at + 1)}(): pass\n```\n"
    for at, word in enumerate(PARTS)
} | {
    "src/retry.py": "import cache\n\n\ndef retry_token(count):\n    return count\n\n\nclass Q:\n    ...\n",
    "src/cache.py": "LIMIT = 3\n\n\ndef cache_token(name):\n    return name\n",
    "notes.txt": "plain words without any structure, alpha and omega",
}
SMALL = {
    "chunking__parents": True, "chunking__parent_min_chars": 0, "chunking__parent_max_chars": 400,
    "chunking__parent_overlap_chars": 50, "chunking__child_min_chars": 0, "chunking__child_max_chars": 150,
    "chunking__child_overlap_chars": 30,
}  # fmt: skip
QUESTIONS = (
    "alpha",
    "retry_token",
    "all about zebra",
    "kiwi cache",
    "queue once more -tag:draft",
    "東京",
)


@dataclass(frozen=True)
class Made:
    root: Path
    kept: Path  # a copy of it
    answers: list[Any]  # of a new index


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Made:
    """A root whose index has several segments, with dead rows in some of them."""
    home = tmp_path_factory.mktemp("doctor").resolve()
    with open_in_steps(home / "root", FILES, **SMALL) as corpus:
        assert corpus.status().segments > 1
        wanted = rebuilt(corpus, home / "aside")
        assert answers(corpus) == wanted
    sql(corpus, "PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copytree(home / "root", home / "kept")
    return Made(home / "root", home / "kept", wanted)


@pytest.fixture
def corpus(made) -> Iterator[Corpus]:
    """As it was made, whatever the test before has done."""
    shutil.rmtree(made.root, ignore_errors=True)
    shutil.copytree(made.kept, made.root)
    with Corpus(
        made.root, made.root / ".tamis", test_settings(made.root, **SMALL)
    ) as opened:
        yield opened


def problems(health: Health) -> list[tuple[str, str]]:
    """What was found, without what is in order and what could not be looked at."""
    return [
        (each.check, each.severity)
        for each in health.findings
        if each.severity in ("warning", "fault")
    ]


def answers(corpus: Corpus) -> list[Any]:
    found = [
        corpus.search(question, limit=30, include_graph_context=True)
        for question in QUESTIONS
    ]
    return [
        [[result.to_dict() for result in each.results], each.stats, each.graph_context]
        for each in found
    ]


def rebuilt(corpus: Corpus, aside: Path) -> list[Any]:
    shutil.rmtree(aside, ignore_errors=True)
    with Corpus(corpus.root, aside, corpus.settings) as anew:
        anew.refresh()
        return answers(anew)


def sql(corpus: Corpus, statement: str, *values: object) -> list[Any]:
    with closing(
        sqlite3.connect(corpus.directory / "index.db", isolation_level=None)
    ) as connection:
        return connection.execute(statement, values).fetchall()


def segment(corpus: Corpus) -> Path:
    """The folder of the largest segment, which has living rows."""
    with corpus.snapshot() as snapshot:
        records = [each.record for each in snapshot.view.segments]
    return (
        corpus.directory / "segments" / max(records, key=lambda each: each.rows).folder
    )


def flip(file: Path, share: float) -> None:
    data = bytearray(file.read_bytes())
    data[int(share * (len(data) - 1))] ^= 0x10
    file.write_bytes(data)


def rewrite(file: Path, change: Callable[[dict[str, np.ndarray]], None]) -> None:
    """Change arrays, with checksums that are right: as a fault of ours would."""
    arrays = {name: array.copy() for name, array in map_arrays(file).items()}
    change(arrays)
    write_arrays(file, arrays)


def living_row(corpus: Corpus, folder: Path) -> int:
    with corpus.snapshot() as snapshot:
        (own,) = [
            each for each in snapshot.view.segments if each.record.folder == folder.name
        ]
        living = own.living()
        return 0 if living is None else int(np.flatnonzero(living)[0])


# --- Nothing is wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("full", [False, True])
def test_a_healthy_index_has_no_finding(corpus, full):
    health = corpus.check(full=full)
    assert {finding.severity for finding in health.findings} == {"ok"}, problems(health)
    assert (health.verdict, health.exit_code, health.repairs) == ("healthy", 0, [])
    assert (
        len({finding.check for finding in health.findings})
        == len(health.findings)
        == 15
    )


def test_files_that_the_index_does_not_know_as_they_are(tmp_path):
    root = write_files(tmp_path / "root", FILES)
    with open_corpus(root) as corpus:
        assert corpus.check().verdict == "healthy"
        write_files(root, {"brand-new.md": "alpha anew"})
        health = corpus.check()
        assert problems(health) == [("files", "warning")]
        (finding,) = [each for each in health.findings if each.check == "files"]
        assert finding.what == "1 file is new, changed or gone since the last run"
        assert finding.hint == f"run: tamis index {root}"
        assert (health.verdict, health.exit_code) == ("repairable", 1)
        corpus.refresh()
        assert corpus.check().verdict == "healthy"
        (root / "brand-new.md").unlink()
        assert problems(corpus.check()) == [("files", "warning")]
        assert corpus.repair().verdict == "healthy"


def test_there_is_nothing_to_repair_in_a_healthy_index(corpus):
    before = corpus.state()
    health = corpus.repair()
    assert (health.verdict, health.repaired) == ("healthy", ())
    assert corpus.state() == before


@pytest.mark.parametrize("model", ["none", "granite"])
def test_other_models_are_healthy_too(tmp_path, model):
    some = {name: FILES[name] for name in list(FILES)[:4]}
    with open_corpus(write_files(tmp_path / "root", some), model__name=model) as corpus:
        assert problems(corpus.check(full=True)) == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(
            (name, kind)
            for name in ("writer.lock", "watch.lock", "index.db")
            for kind in ("folder", "pipe")
        ),
        *((name, kind) for name in ("segments", ".") for kind in ("file", "pipe")),
    ],
)
def test_things_of_the_wrong_kind_in_its_place(name, kind, tmp_path):
    """A repository may bring anything: nobody waits for it, and it is said what is in the way."""
    corpus = open_corpus(
        write_files(tmp_path / "root", {"a.md": "alpha"}), model__name="none"
    )
    place = corpus.directory / name
    corpus.close()
    shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    {"file": place.touch, "folder": place.mkdir, "pipe": lambda: os.mkfifo(place)}[
        kind
    ]()
    with Corpus(corpus.root, corpus.directory, corpus.settings) as again:
        for health in (again.check(), again.repair()):
            assert health.exit_code == 2
            assert ("folder", "fault") in problems(health)
        with pytest.raises(StorageFault) as caught:
            again.refresh()
        assert caught.value.hint


def test_a_pipe_for_a_segments_file_is_damage_like_any_other(tmp_path):
    with open_corpus(
        write_files(tmp_path / "root", {"a.md": "alpha"}), model__name="none"
    ) as corpus:
        file = segment(corpus) / "words.bin"
        file.unlink()
        os.mkfifo(file)
    with Corpus(corpus.root, corpus.directory, corpus.settings) as again:
        with pytest.raises(IndexDamaged):
            again.search("alpha")
        assert again.repair().verdict == "healthy"


def test_an_empty_folder_is_healthy(corpus_of):
    assert problems(corpus_of({}).check(full=True)) == []


def test_an_index_is_healthy_after_many_changes(tmp_path):
    """Three hundred files that come, change and go, in some forty runs, by words first or at once."""
    dice = random.Random(3)
    root = write_files(tmp_path / "root", FILES)
    with open_corpus(root) as corpus:
        for step in range(300):
            name = f"n{dice.randrange(40)}.md"
            if dice.random() < 0.25:
                (root / name).unlink(missing_ok=True)
            else:
                text = " ".join(dice.choices(PARTS, k=dice.randint(1, 300)))
                write_files(
                    root,
                    {
                        name: f"# {dice.choice(PARTS)}\n\n{text} [[n{dice.randrange(40)}]]\n"
                    },
                )
            if step % 8 == 0:
                with words_first():
                    corpus.refresh()
            if step % 80 == 0:
                assert problems(corpus.check()) == []
        corpus.refresh()
        assert problems(corpus.check(full=True)) == []


def test_while_vectors_are_made(tmp_path, monkeypatch):
    """What waits is a warning; while somebody is at it, not even that."""
    with monkeypatch.context() as patch, words_first():
        patch.setattr(
            "tamis.index.embed_pending.wanted_first",
            lambda waiting: wanted_first(waiting)[:5],
        )
        corpus = open_corpus(write_files(tmp_path / "root", FILES))
    with corpus:
        health = corpus.check(full=True)
        assert problems(health) == [("pending", "warning")]
        (waits,) = [
            finding for finding in health.findings if finding.check == "pending"
        ]
        assert "vectors" in waits.what and "tamis index" in waits.hint
        assert (health.verdict, health.exit_code) == ("repairable", 1)
        with held(corpus.directory) as process:
            health = corpus.check()
            assert problems(health) == []
            (waits,) = [
                finding for finding in health.findings if finding.check == "pending"
            ]
            assert f"process {process.pid} is at it" in waits.what
        assert corpus.repair().verdict == "healthy"
        assert answers(corpus) == rebuilt(corpus, tmp_path / "aside")


# --- Each check sees what it is there for ----------------------------------------------------------

Damage = Callable[[Corpus], object]


def poison(value: float) -> Damage:
    def damage(corpus: Corpus) -> None:
        folder = segment(corpus)
        row = living_row(corpus, folder)
        rewrite(
            folder / "vectors.bin",
            lambda arrays: arrays["full"].__setitem__((row, 3), value),
        )

    return damage


def swap_vectors(corpus: Corpus) -> None:
    """Whole, with their codes: only the model can tell."""

    def swap(arrays: dict[str, np.ndarray]) -> None:
        for name in arrays:
            arrays[name] = np.roll(arrays[name], 1, axis=0)

    rewrite(segment(corpus) / "vectors.bin", swap)


def swap_full_vectors(corpus: Corpus) -> None:
    """Without their codes."""
    rewrite(
        segment(corpus) / "vectors.bin",
        lambda arrays: arrays.update(full=np.roll(arrays["full"], 1, axis=0)),
    )


def make_all_alike(corpus: Corpus) -> None:
    for file in corpus.directory.glob("segments/*/vectors.bin"):
        rewrite(file, lambda arrays: arrays.update(encode(_same(arrays["full"]))))


def _same(full: np.ndarray) -> np.ndarray:
    same = np.zeros_like(full)
    same[:, :1] = 1
    return same


def change_weight(lane: str) -> Damage:
    def damage(corpus: Corpus) -> None:
        rewrite(
            segment(corpus) / f"{lane}.bin",
            lambda arrays: arrays["weights"].__imul__(1.01),
        )

    return damage


def rename_term(corpus: Corpus) -> None:
    """The first letter of the last term: terms stay in order."""

    def rename(arrays: dict[str, np.ndarray]) -> None:
        arrays["names"][arrays["name_ends"][-2]] += 1

    rewrite(segment(corpus) / "words.bin", rename)


def shuffle_keys(corpus: Corpus) -> None:
    rewrite(
        segment(corpus) / "rows.bin",
        lambda arrays: arrays.update(chunk=np.ascontiguousarray(arrays["chunk"][::-1])),
    )


def change_types(corpus: Corpus) -> None:
    rewrite(segment(corpus) / "rows.bin", lambda arrays: arrays["type"].__iadd__(1))


def set_dead(value: int) -> Damage:
    def damage(corpus: Corpus) -> None:
        (key, dead), *_ = sql(
            corpus, "SELECT id, dead FROM segments ORDER BY rows DESC"
        )
        sql(
            corpus,
            "UPDATE segments SET dead = ? WHERE id = ?",
            bytes([value]) * len(dead),
            key,
        )

    return damage


def remove_document(corpus: Corpus) -> None:
    ((key,),) = sql(corpus, "SELECT id FROM documents WHERE path = 'docs/zebra.md'")
    for table in ("chunks", "links", "names", "parents"):
        sql(corpus, f"DELETE FROM {table} WHERE document = ?", key)
    sql(corpus, "DELETE FROM documents WHERE id = ?", key)


ZEBRA = "WHERE document = (SELECT id FROM documents WHERE path = 'docs/zebra.md')"


def stored(table: str, change: str) -> Damage:
    return lambda corpus: sql(corpus, f"UPDATE {table} SET {change} {ZEBRA}")


def resummed(statement: str) -> Damage:
    """With checksums that are right: as a fault of ours would."""

    def damage(corpus: Corpus) -> None:
        with closing(
            sqlite3.connect(corpus.directory / "index.db", isolation_level=None)
        ) as connection:
            connection.execute(statement)
            paths = connection.execute("SELECT path FROM documents").fetchall()
            database.set_sums(connection, [path for (path,) in paths])

    return damage


def leave_behind(*names: str) -> Damage:
    return lambda corpus: write_files(
        corpus.directory, dict.fromkeys(names, "left over")
    )


DAMAGE: dict[str, tuple[Damage, str, str]] = {
    "a flipped bit in the rows": (lambda c: flip(segment(c) / "rows.bin", 0.9), "segments", "fault"),
    "a flipped bit in the words": (lambda c: flip(segment(c) / "words.bin", 0.7), "segments", "fault"),
    "a flipped bit in the code": (lambda c: flip(segment(c) / "code.bin", 0.7), "segments", "fault"),
    "a flipped bit in the vectors": (lambda c: flip(segment(c) / "vectors.bin", 0.6), "segments", "fault"),
    "a flipped bit in a header": (lambda c: flip(segment(c) / "words.bin", 0.001), "segments", "fault"),
    "a file cut short": (lambda c: os.truncate(segment(c) / "words.bin", 900), "segments", "fault"),
    "a file that is gone": (lambda c: (segment(c) / "code.bin").unlink(), "segments", "fault"),
    "a folder that is gone": (lambda c: shutil.rmtree(segment(c)), "segments", "fault"),
    "all folders gone": (lambda c: shutil.rmtree(c.directory / "segments"), "segments", "fault"),
    "a file of another segment": (
        lambda c: shutil.copy(min(c.directory.glob("segments/*/rows.bin"), key=lambda f: f.stat().st_size),
                              segment(c) / "rows.bin"),
        "segments", "fault",
    ),
    "vectors of another width": (
        lambda c: rewrite(segment(c) / "vectors.bin", lambda a: a.update(encode(a["full"][:, :9].copy()))),
        "segments", "fault",
    ),
    "a document without a passage": (
        lambda c: sql(c, "DELETE FROM chunks WHERE id = (SELECT max(id) FROM chunks)"), "segments", "fault"
    ),
    "a passage too many": (
        lambda c: sql(c, "INSERT INTO chunks SELECT id + 1, document, ordinal + 1, type, language,"
                         " start_line, end_line, header_path, content, text_hash, names, parent FROM chunks"
                         " WHERE id = (SELECT max(id) FROM chunks)"), "segments", "fault",
    ),
    "passages out of order": (
        stored("chunks", "ordinal = ordinal + 1"), "texts", "fault"
    ),
    "a wrong count": (
        lambda c: sql(c, "UPDATE documents SET chunks = 99 WHERE path = 'docs/zebra.md'"), "texts", "fault"
    ),
    "a section that is gone": (
        lambda c: sql(c, f"DELETE FROM parents {ZEBRA}"), "texts", "fault"
    ),
    "a document in the wrong place": (
        lambda c: sql(c, "UPDATE documents SET place = 99 WHERE path = 'notes.txt'"), "segments", "fault"
    ),
    "two documents in one place": (
        lambda c: sql(c, "UPDATE documents SET place = (SELECT place FROM documents WHERE id = d.id) FROM"
                         " (SELECT min(id) AS id, segment FROM documents GROUP BY segment"
                         "  HAVING count(*) > 1) d WHERE documents.segment = d.segment"), "segments", "fault",
    ),
    "documents that are marked dead": (set_dead(255), "segments", "fault"),
    "keys in another order": (shuffle_keys, "segments", "fault"),
    "rows of another type": (change_types, "segments", "fault"),
    "a document that was removed and not marked": (remove_document, "segments", "fault"),
    "a document in a segment that is gone": (
        lambda c: sql(c, "DELETE FROM segments WHERE id = (SELECT max(id) FROM segments)"), "orphans", "fault"
    ),
    "passages of nobody": (
        lambda c: sql(c, "INSERT INTO chunks SELECT id + 1000, 999, ordinal, type, language, start_line,"
                         " end_line, header_path, content, text_hash, names, NULL FROM chunks"),
        "orphans", "fault",
    ),
    "links of nobody": (
        lambda c: sql(c, "INSERT INTO links VALUES (999, NULL, 'wikilink', 'a', '', 'a')"), "orphans", "fault"
    ),
    "names of nobody": (lambda c: sql(c, "INSERT INTO names VALUES ('a', 999)"), "orphans", "fault"),
    "sections of nobody": (
        lambda c: sql(c, "INSERT INTO parents VALUES (999, 0, '', 1, 1, 'a')"), "orphans", "fault"
    ),
    "a folder of nobody": (leave_behind("segments/" + "f" * 32 + "/rows.bin"), "orphans", "warning"),
    "a folder that was never completed": (
        leave_behind("segments/partial-" + "f" * 32 + "/rows.bin"), "orphans", "warning"
    ),
    "a database that was never completed": (leave_behind("index.db.partial"), "orphans", "warning"),
    "a rebuild that was never completed": (leave_behind("anew/index.db"), "orphans", "warning"),
    "terms that were never completed": (
        lambda c: (segment(c) / ("partial-" + "f" * 32)).write_text("left over"), "concepts", "warning"
    ),
    "a text that was changed": (stored("chunks", "content = replace(content, 'a', 'e')"), "texts", "fault"),
    "a text that is none": (stored("chunks", "content = CAST(x'61ff62' AS TEXT)"), "texts", "fault"),
    "a line that was changed": (stored("chunks", "start_line = 77"), "texts", "fault"),
    "a section that was changed": (stored("parents", "content = 'something else'"), "texts", "fault"),
    "a link that was changed": (stored("links", "target = 'alpha'"), "texts", "fault"),
    "a date that was changed": (
        lambda c: sql(c, "UPDATE documents SET modified = 0 WHERE path = 'docs/zebra.md'"), "texts", "fault"
    ),
    "a title that is none": (
        lambda c: sql(c, "UPDATE documents SET title = CAST(x'61ff62' AS TEXT)"), "texts", "fault"
    ),
    "a number for a list": (lambda c: sql(c, "UPDATE documents SET tags = 7"), "texts", "fault"),
    "aliases that are no list": (
        lambda c: sql(c, "UPDATE documents SET aliases = '[bro' WHERE path = 'notes.txt'"), "texts", "fault"
    ),
    "a vector with NaN": (poison(np.nan), "lanes", "fault"),
    "a vector with infinity": (poison(np.inf), "lanes", "fault"),
    "a vector that is too long": (poison(2.0), "lanes", "fault"),
    "vectors without their codes": (swap_full_vectors, "lanes", "fault"),
    "vectors that are all alike": (make_all_alike, "model", "fault"),
    "vectors of other texts": (swap_vectors, "model", "fault"),
    "weights of words": (change_weight("words"), "lanes", "fault"),
    "weights of code": (change_weight("code"), "lanes", "fault"),
    "a term by another name": (rename_term, "lanes", "fault"),
    "a title": (
        resummed("UPDATE documents SET title = 'other' WHERE path = 'notes.txt'"), "lanes", "fault"
    ),
    "a name of a document": (
        resummed("UPDATE names SET name = 'nonsense' WHERE name = 'zebra'"), "links", "fault"
    ),
    "what a link looks for": (
        resummed("UPDATE links SET name = 'nonsense' WHERE name = 'zebra'"), "links", "fault"
    ),
    "a link in a passage that is not there": (
        resummed("UPDATE links SET ordinal = 99 WHERE name = 'zebra'"), "links", "fault"
    ),
    "a document of another recipe": (
        resummed("UPDATE documents SET recipe = 'old' WHERE path = 'notes.txt'"), "pending", "warning"
    ),
    "files that were not indexed": (lambda c: sql(c, "UPDATE facts SET value = 3 WHERE name = 'pending'"),
                                    "pending", "warning"),
    "a run that never finished": (lambda c: sql(c, "UPDATE facts SET value = 0.0 WHERE name = 'built_at'"),
                                  "pending", "warning"),
    "a fact that is gone": (
        lambda c: sql(c, "DELETE FROM facts WHERE name = 'generation'"), "database", "fault"
    ),
    "a table that is gone": (lambda c: sql(c, "DROP TABLE links"), "database", "fault"),
    "an older format": (lambda c: sql(c, "PRAGMA user_version = 3"), "database", "fault"),
    "an empty database": (lambda c: (c.directory / "index.db").write_bytes(b""), "database", "fault"),
    "no database": (lambda c: (c.directory / "index.db").unlink(), "database", "warning"),
    "a database of noise": (
        lambda c: (c.directory / "index.db").write_bytes(random.Random(1).randbytes(50_000)),
        "database", "fault",
    ),
    "a segment by an impossible name": (
        lambda c: sql(c, "UPDATE segments SET folder = '../../x' WHERE id = (SELECT max(id) FROM segments)"),
        "database", "fault",
    ),
    "a folder that others may read": (lambda c: c.directory.chmod(0o755), "folder", "warning"),
    "a folder that git would take in": (lambda c: (c.directory / ".gitignore").unlink(), "folder", "warning"),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_found_named_and_mended(corpus, made, name):
    """Exactly that check sees it; without --repair nothing changes; with it, answers are a rebuild's."""
    damage, check, severity = DAMAGE[name]
    with Corpus(corpus.root, corpus.directory, corpus.settings) as opened:
        damage(opened)
    state = {
        file: file.stat().st_mtime_ns
        for file in corpus.root.rglob("*")
        if file.is_file()
    }
    with Corpus(corpus.root, corpus.directory, corpus.settings) as again:
        for full in (False, True):
            health = again.check(full=full)
            also = (
                {"files"} if damage is remove_document else set()
            )  # whose file nobody has indexed then
            assert {each for each, _ in problems(health)} == {check} | also
            assert (check, severity) in problems(health)
            assert (health.verdict, health.exit_code) == ("repairable", 1)
        kept = {
            file: time
            for file, time in state.items()
            if not file.name.endswith(("-shm", "-wal"))
        }
        assert {file: file.stat().st_mtime_ns for file in kept} == kept, (
            "looking changes nothing"
        )
        health = again.repair()
        assert (problems(health), health.verdict) == ([], "healthy")
        assert health.repaired
        assert answers(again) == made.answers
        assert again.repair().repaired == (), "a second time, there is nothing to do"


@pytest.mark.parametrize("name", ["words", "code", "rows", "vectors"])
def test_a_search_over_noise_answers_or_says_that_there_is_damage(corpus, name):
    """Files of a segment are not read through for each search: a bit that has turned may lead anywhere."""
    file = segment(corpus) / f"{name}.bin"
    whole = file.read_bytes()
    told = 0
    for at in range(120):
        noise = bytearray(whole)
        noise[len(whole) - 1 - at * len(whole) // 150] ^= 0x90
        file.write_bytes(noise)
        with Corpus(corpus.root, corpus.directory, corpus.settings) as again:
            try:
                again.search("retry token cache", filter="type:documentation")
            except IndexDamaged:
                told += 1
    assert told or name == "vectors"


def test_noise_anywhere_in_the_database(corpus, made):
    """Findings, never a fault; what is called healthy, and what is repaired, gives a rebuild's answers."""
    kept = made.kept / ".tamis"
    assert not (kept / "index.db-wal").exists(), "all of it is in the one file"
    whole = (kept / "index.db").read_bytes()
    dice, seen = random.Random(5), []
    used = [at for at in range(100, len(whole)) if any(whole[at : at + 16])]
    for number, at in enumerate(dice.sample(used, 32)):
        shutil.rmtree(corpus.directory)
        shutil.copytree(kept, corpus.directory)
        noise = dice.randbytes(16)
        (corpus.directory / "index.db").write_bytes(
            whole[:at] + noise + whole[at + 16 :]
        )
        with Corpus(corpus.root, corpus.directory, corpus.settings) as again:
            seen.append(again.check(full=True).verdict)
            if seen[-1] != "healthy" and number % 4 == 0:
                assert again.repair().verdict == "healthy"
            if seen[-1] == "healthy" or number % 4 == 0:
                assert answers(again) == made.answers
    assert set(seen) <= {"healthy", "repairable"}
    assert seen.count("repairable") > len(seen) / 2, "the damage shows"


def test_a_corrupted_page(corpus, made):
    sql(corpus, "PRAGMA wal_checkpoint(TRUNCATE)")
    file = corpus.directory / "index.db"
    data = bytearray(file.read_bytes())
    (root_page,) = sql(
        corpus, "SELECT rootpage FROM sqlite_master WHERE name = 'chunks'"
    )[0]
    data[(root_page - 1) * 4096 : root_page * 4096] = random.Random(2).randbytes(4096)
    file.write_bytes(data)
    with Corpus(corpus.root, corpus.directory, corpus.settings) as again:
        health = again.check()
        assert problems(health) == [("database", "fault")]
        skipped = {each.check for each in health.findings if each.severity == "skipped"}
        assert {"segments", "texts", "lanes", "root", "model"} <= skipped
        assert again.repair().repaired == ("made the index anew, with hashing",)
        assert answers(again) == made.answers
        assert not (corpus.directory / "anew").exists()


def test_damage_of_many_kinds_at_once(corpus, made):
    with Corpus(corpus.root, corpus.directory, corpus.settings) as opened:
        for name in (
            "a name of a document", "a document of another recipe", "links of nobody", "a folder of nobody",
            "a text that was changed", "a flipped bit in the words", "a folder that others may read",
        ):  # fmt: skip
            DAMAGE[name][0](opened)
        health = opened.check(full=True)
        found = {check for check, _ in problems(health)}
        assert {"folder", "segments", "orphans"} <= found
        assert opened.repair().verdict == "healthy"
        assert answers(opened) == made.answers


def test_the_concept_vocabulary_is_made_again(tmp_path):
    flags = {
        "search__query_expansion_enabled": True,
        "weights__query_expansion_min_frequency": 2,
    }
    with open_corpus(write_files(tmp_path / "root", FILES), **flags) as corpus:
        assert problems(corpus.check()) == []
        (vocabulary,) = (corpus.directory / "concepts").glob("*.bin")
        for file in (vocabulary, segment(corpus) / "terms.bin"):
            flip(file, 0.8)
            assert problems(corpus.check()) == [("concepts", "warning")]
            assert corpus.repair().verdict == "healthy"
            with corpus.snapshot() as snapshot:
                assert vocabulary_of(snapshot.view) is not None


def test_vectors_that_were_kept_wrongly_are_not_taken_again(tmp_path, monkeypatch):
    """The cache gives what it holds: a repair of vectors does not ask it, and mends it as well."""
    monkeypatch.setattr(
        "tamis.models.embedders.QUICK_MODEL", ""
    )  # have the quick model's vectors kept, too
    root, cache = write_files(tmp_path / "root", FILES), tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    with open_corpus(root) as corpus:
        wanted = answers(corpus)
        assert problems(corpus.check()) == []
    with closing(
        sqlite3.connect(cache / "tamis" / "vectors.db", isolation_level=None)
    ) as connection:
        kept = connection.execute(
            "SELECT key, vector FROM vectors ORDER BY key"
        ).fetchall()
        moved = [(kept[at - 1][1], key) for at, (key, _) in enumerate(kept)]
        connection.executemany("UPDATE vectors SET vector = ? WHERE key = ?", moved)
    with open_corpus(root) as corpus:
        corpus.rebuild()
        assert problems(corpus.check()) == [("model", "fault")]
        assert corpus.repair().verdict == "healthy"
        assert answers(corpus) == wanted
        corpus.rebuild()
        assert problems(corpus.check(full=True)) == []


# --- What cannot be mended -------------------------------------------------------------------------


def test_a_model_that_is_not_installed(corpus, monkeypatch):
    def missing(*_: object) -> None:
        raise ModelFault("the model is not there", hint="install it")

    monkeypatch.setattr("tamis.models.embedders.load_embedder", missing)
    with Corpus(corpus.root, corpus.directory, corpus.settings) as again:
        health = again.check()
        assert problems(health) == [("model", "fault")]
        assert (health.verdict, health.exit_code) == ("fault", 2)
        assert again.repair().findings == again.check(full=True).findings
        sql(corpus, "DELETE FROM chunks WHERE id = (SELECT max(id) FROM chunks)")
        health = again.repair()
        assert [check for check, _ in problems(health)][-1] == "repair", (
            "and the repair says why it stopped"
        )


def test_another_edition_of_the_model(corpus):
    sql(corpus, "UPDATE facts SET value = 'hashing:old' WHERE name = 'fingerprint'")
    health = corpus.check()
    assert problems(health) == [("model", "fault")]
    (finding,) = [each for each in health.findings if each.check == "model"]
    assert "another edition" in finding.what and "rebuild-index" in finding.hint


def test_another_model_in_the_settings(corpus):
    other = replace(corpus.settings, model=replace(corpus.settings.model, name="none"))
    with Corpus(corpus.root, corpus.directory, other) as again:
        assert problems(again.check()) == [("model", "fault")]


def test_another_root(corpus, tmp_path):
    aside = write_files(tmp_path / "other", FILES)
    shutil.move(corpus.directory, tmp_path / "index")
    with Corpus(aside, tmp_path / "index", corpus.settings) as again:
        sql(again, "DELETE FROM chunks WHERE id = (SELECT max(id) FROM chunks)")
        health = again.repair()
        assert set(problems(health)) == {("segments", "fault"), ("root", "fault")}
        assert health.repaired == (), "it is somebody else's"


def test_an_index_that_moved_with_its_root(corpus, tmp_path):
    corpus.close()
    moved = corpus.root.rename(tmp_path / "moved")
    with Corpus(moved, moved / ".tamis", corpus.settings) as again:
        assert problems(again.check()) == []


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("PRAGMA user_version = 99", "newer"),
        ("PRAGMA application_id = 7", "other program"),
    ],
)
def test_an_index_that_is_not_for_us(corpus, statement, words):
    """Neither a newer version's nor another program's database is replaced."""
    sql(corpus, statement)
    health = corpus.repair()
    assert (problems(health), health.repaired, health.exit_code) == (
        [("database", "fault")],
        (),
        2,
    )
    assert words in next(
        each.what for each in health.findings if each.check == "database"
    )


def test_things_of_others_in_the_folder(corpus):
    write_files(corpus.directory, {"mine.txt": "keep"})
    sql(corpus, "DELETE FROM chunks WHERE id = (SELECT max(id) FROM chunks)")
    health = corpus.repair()
    assert set(problems(health)) == {("folder", "fault"), ("segments", "fault")}
    assert health.repaired == ()
    assert (corpus.directory / "mine.txt").read_text() == "keep"


def test_a_full_disk(corpus, monkeypatch):
    usage = shutil.disk_usage(corpus.directory)
    monkeypatch.setattr(
        "tamis.index.doctor.checks.shutil.disk_usage",
        lambda _: usage._replace(free=1000),
    )
    health = corpus.check()
    assert problems(health) == [("disk", "warning")]
    assert (health.verdict, health.exit_code) == ("attention", 1)


def test_a_rebuild_that_fails_leaves_the_old_index(corpus, monkeypatch):
    """What can be read of a damaged index is searched until the new one is whole."""
    sql(corpus, "DROP TABLE names")
    before = {file.name for file in (corpus.directory / "segments").iterdir()}

    def full(*_: object, **__: object) -> None:
        raise StorageFault("the disk is full", hint="free some space")

    monkeypatch.setattr("tamis.index.embedded.writer.Writer.finish", full)
    health = corpus.repair()
    assert ("repair", "fault") in problems(health)
    assert {file.name for file in (corpus.directory / "segments").iterdir()} == before
    assert not (corpus.directory / "anew").exists()
    assert corpus.search("alpha", max_hops=0).results
    monkeypatch.undo()
    assert corpus.repair().verdict == "healthy"


# --- Others at work --------------------------------------------------------------------------------

HOLDER = """
import sys, pathlib
from tamis.index.embedded.folder import writer_lock
with writer_lock(pathlib.Path(sys.argv[1]), 0, print):
    print("locked", flush=True)
    sys.stdin.readline()
"""


class held:
    """Another process that holds the lock."""

    def __init__(self, directory: Path) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", HOLDER, str(directory)]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def __enter__(self) -> subprocess.Popen[str]:
        assert self.process.stdout and self.process.stdout.readline() == "locked\n"
        return self.process

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


def lock_of(health: Health) -> str:
    return next(finding.what for finding in health.findings if finding.check == "lock")


def test_who_is_writing(corpus):
    """A lock file that is left over says nothing; a lock that is held does, and nobody waits for it."""
    assert (corpus.directory / "writer.lock").read_text().startswith("process ")
    assert lock_of(corpus.check()) == "nobody is writing"
    with held(corpus.directory) as process:
        write_files(
            corpus.directory,
            {"segments/" + "f" * 32 + "/rows.bin": "about to be committed"},
        )
        health = corpus.check()
        assert problems(health) == [], (
            "what a writer has not committed yet is no leftover"
        )
        assert lock_of(health) == f"process {process.pid} is writing now"
        process.kill()
        process.wait(30)
        health = corpus.check()
        assert (lock_of(health), problems(health)) == (
            "nobody is writing",
            [("orphans", "warning")],
        )


def test_who_is_watching(corpus):
    from tamis.index.engines import sole_watcher

    with sole_watcher(corpus.directory):
        health = corpus.check()
        assert (
            lock_of(health)
            == f"nobody is writing, process {os.getpid()} watches the files"
        )
        assert health.verdict == "healthy"


def test_a_repair_waits_for_the_lock_and_says_so(corpus):
    sql(corpus, "DELETE FROM chunks WHERE id = (SELECT max(id) FROM chunks)")
    hurried = replace(
        corpus.settings, index=replace(corpus.settings.index, lock_timeout=0)
    )
    with (
        held(corpus.directory) as process,
        Corpus(corpus.root, corpus.directory, hurried) as again,
    ):
        health = again.repair()
        assert problems(health) == [("segments", "fault"), ("repair", "fault")]
        assert f"process {process.pid}" in health.findings[-1].what


def test_a_glance_at_the_lock_keeps_no_writer_out(corpus):
    """Even one that does not wait."""
    import threading

    from tamis.index.embedded.folder import holder, writer_lock

    done = threading.Event()

    def glance() -> None:
        while not done.is_set():
            holder(corpus.directory)

    thread = threading.Thread(target=glance)
    thread.start()
    try:
        for _ in range(200):
            with writer_lock(corpus.directory, 0.5, print):
                pass
    finally:
        done.set()
        thread.join()


BUSY = """
import sys, random, pathlib
sys.path.insert(0, sys.argv[2])
from support.corpora import open_corpus, write_files, words_first
root = pathlib.Path(sys.argv[1])
dice = random.Random(1)
print("writing", flush=True)
for step in range(30):
    text = f"# {step}\\n\\nalpha {step} " * dice.randint(1, 30)
    write_files(root, {f"busy/f{dice.randrange(20)}.md": text})
    with words_first():
        open_corpus(root).close()
"""


def test_a_writer_at_work_is_no_finding(tmp_path):
    """Segments come, are merged and go while the doctor looks: on its snapshot, all is well."""
    root = write_files(tmp_path / "root", FILES)
    with open_corpus(root) as corpus:
        command = [
            sys.executable,
            "-c",
            BUSY,
            str(root),
            str(Path(__file__).parents[1]),
        ]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert writer.stdout and writer.stdout.readline() == "writing\n"
        looks, generations = 0, set()
        while writer.poll() is None:
            assert [
                each
                for each in problems(corpus.check())
                if each[0] not in ("pending", "files")
            ] == []
            looks += 1
            generations.add(corpus.state().generation)
        writer.stdout.close()
        assert writer.returncode == 0
        assert looks > 3 and len(generations) > 3
        assert problems(corpus.check(full=True)) == []


# --- The command line ------------------------------------------------------------------------------


@pytest.fixture
def run(capsys, monkeypatch) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.setenv("TAMIS_MODEL_NAME", "hashing")

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        shown = capsys.readouterr()
        return int(end.value.code or 0), shown.out, shown.err

    return call


def test_the_command(tmp_path, run):
    root = write_files(tmp_path / "root", FILES)
    code, _, err = run("doctor", root)
    assert (code, "has no index" in err) == (2, True)
    assert run("index", root, "-q")[0] == 0
    code, out, _ = run("doctor", root)
    assert (code, out.splitlines()[-1]) == (0, "the index is healthy")
    assert run("doctor", root, "-q")[1] == ""
    found = json.loads(run("doctor", root, "--json", "--full")[1])
    assert list(found) == [
        "root",
        "directory",
        "full",
        "verdict",
        "findings",
        "repaired",
    ]
    assert list(found["findings"][0]) == [
        "check",
        "severity",
        "what",
        "hint",
        "repairable",
    ]
    flip(next((root / ".tamis").glob("segments/*/words.bin")), 0.7)
    code, out, _ = run("doctor", root, "-q")
    assert (
        code,
        "words.bin is not as it was written" in out,
        "tamis doctor --repair" in out,
    ) == (
        1,
        True,
        True,
    )
    code, out, err = run("doctor", root, "--repair")
    assert (code, "repair: " in out, out.splitlines()[-1]) == (
        0,
        True,
        "the index is healthy",
    )
    (root / ".tamis/index.db").write_bytes(b"no database" * 1000)
    code, out, err = run("doctor", root, "--repair", "--json")
    assert (code, json.loads(out)["repaired"]) == (
        0,
        ["made the index anew, with hashing"],
    )
    assert "the old one stays" in err, "it says so first"
    assert run("search", "alpha", root)[0] == 0


@pytest.mark.parametrize(
    "text", ["[search\nlimit", "[search]\nlimmit = 3", '[model]\nname = "nonsense"']
)
def test_settings_that_cannot_be_read(tmp_path, run, monkeypatch, text):
    monkeypatch.delenv("TAMIS_MODEL_NAME")
    root = write_files(tmp_path / "root", FILES)
    assert run("index", root, "-q", "--model", "hashing")[0] == 0
    write_files(root, {"tamis.toml": text})
    for more in ((), ("--repair",)):
        code, out, _ = run("doctor", root, "--json", *more)
        found = json.loads(out)["findings"]
        assert code == 2
        assert [each["check"] for each in found if each["severity"] == "fault"] == [
            "settings"
        ]
        skipped = {each["check"] for each in found if each["severity"] == "skipped"}
        assert skipped == {"lanes", "links", "model", "files"}


def test_the_folder_of_another(tmp_path, run):
    root = write_files(tmp_path / "root", FILES)
    (tmp_path / "index").mkdir(mode=0o755)
    assert run("index", root, "-q", "--index-dir", tmp_path / "index")[0] == 0
    code, out, _ = run("doctor", root, "-q", "--index-dir", tmp_path / "index")
    assert (code, out) == (0, ""), "who chose the place chose who may read it"


# --- Status ----------------------------------------------------------------------------------------


def test_status_says_it_all(tmp_path, run):
    files = FILES | {
        "odd.md": "---\na: [x\n---\nalpha odd\n",
        "big.md": "alpha " * 500_000,
        "x.md": b"a\0b",
    }
    root = write_files(tmp_path / "root", files)
    assert run("index", root, "-q")[0] == 0
    told = json.loads(run("status", root, "--json")[1])
    assert told["skipped_by_reason"] == {"binary": 1, "too large": 1}
    assert {each["path"] for each in told["skipped"]} == {"big.md", "x.md"}
    assert (
        list(told["warnings"]) == ["odd.md"]
        and "front matter" in told["warnings"]["odd.md"]
    )
    assert sum(told["sizes"].values()) == told["bytes_on_disk"] > 50_000
    assert min(told["sizes"]["database"], told["sizes"]["segments"]) > 0
    assert (told["model"], told["fingerprint"], told["dimension"]) == (
        "hashing",
        "hashing:256:1",
        256,
    )
    assert (told["tamis_version"], told["format"]) == ("0.1.0", database.SCHEMA_VERSION)
    assert told["index"]["pending_chunks"] == 0
    out = run("status", root)[1]
    assert (
        "odd.md: " in out
        and "skipped big.md: too large" in out
        and "index format" in out
    )
    write_files(root, {"odd.md": "alpha, no longer odd"})
    assert run("index", root, "-q")[0] == 0
    assert json.loads(run("status", root, "--json")[1])["warnings"] == {}


def test_a_warning_lasts_until_the_file_changes(tmp_path):
    """The run that read the file gave it; runs that leave the file alone say nothing of it."""
    root = write_files(tmp_path / "root", {"odd.md": "---\na: [x\n---\nalpha odd\n"})
    with open_corpus(root) as corpus:
        os.utime(root / "odd.md", (1_600_000_000, 1_600_000_000))
        corpus.refresh()
        write_files(root, {"b.md": "beta"})
        corpus.refresh()
        assert list(corpus.status().warnings) == ["odd.md"]


def test_a_merge_copies_no_damage_on(tmp_path):
    """Its copy would have checksums that are right."""
    from tamis.errors import IndexDamaged

    root = write_files(tmp_path / "root", {"a.md": "alpha", "b.md": "beta"})
    settings = test_settings(root)
    with Corpus(root, index_directory(root, settings, None), settings) as corpus:
        corpus.refresh()
        flip(segment(corpus) / "words.bin", 0.9)
        with pytest.raises(IndexDamaged, match="not as it was written"):
            for step in range(30):
                write_files(root, {f"f{step}.md": f"gamma {step}"})
                corpus.refresh()
        assert corpus.repair().verdict == "healthy"
        assert {f"f{n}.md" for n in range(step)} < {
            each.path for each in corpus.search("gamma", limit=50).results
        }
