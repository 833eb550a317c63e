"""Real processes: killed writers, two writers, many readers."""

import json
import os
import random
import re
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.corpora import test_settings, write_files
from tamis.cli.main import main
from tamis.corpus import Corpus, index_directory
from tamis.index.embedded import database
from tamis.index.embedded.arrays import map_arrays

WORDS = ("alpha", "beta", "gamma", "delta", "retry", "cache", "token", "queue")
KILLS = 100
FILES = 45

# Runs a command line for each line it reads, in a process of its own that shares nothing but the
# imports: a start of milliseconds, so that a hundred kills fit into a test. Batches are made small so
# that one run is many commits and some merges, and words often come before vectors.
STARTER = """
import json, os, sys
import tamis.index.build, tamis.index.embed_pending
from tamis.cli.main import main
import tamis.corpus, tamis.cli.render, tamis.models.hashing
tamis.index.build.BATCH_CHUNKS = 8
tamis.index.embed_pending.PORTION = 4
tamis.index.build.AT_ONCE = 500
tamis.index.embed_pending._SECONDS = 0
for line in sys.stdin:
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        main(json.loads(line))
    print(child, flush=True)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""

CLI = "import sys; from tamis.cli.main import main; main(sys.argv[1:])"


def environment(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]} | more


def tamis(*arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CLI, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment(**more), timeout=120
    )


def started(*arguments: str | Path, **more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CLI, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=environment(**more)
    )


class Starter:
    """Starts command lines, and kills them."""

    def __init__(self) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", STARTER]
        # Without buffers of ours: a line that has come is one that `select` sees.
        self.process = subprocess.Popen(
            command, bufsize=0, stdin=pipe, stdout=pipe, env=environment()
        )

    def run(
        self, *arguments: str | Path, kill_after: float | None = None
    ) -> tuple[int, float]:
        """The exit code (that of a killed process is -9), and how long it took."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(
            json.dumps([str(argument) for argument in arguments]).encode() + b"\n"
        )
        child = int(self.process.stdout.readline())
        began = time.monotonic()
        if (
            kill_after is not None
            and not select.select([self.process.stdout], [], [], kill_after)[0]
        ):
            # If it ends just now, its number is nobody's yet: the starter starts nothing before we ask.
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        return int(self.process.stdout.readline()), time.monotonic() - began

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


@pytest.fixture
def starter() -> Iterator[Starter]:
    made = Starter()
    yield made
    made.close()


def write_tree(root: Path, dice: random.Random, version: int) -> None:
    """Most files change, some come and some go; every text names the version that wrote it."""
    for number in range(FILES):
        file = root / f"d{number % 4}" / f"f{number}.md"
        if dice.random() < 0.1:
            file.unlink(missing_ok=True)
        elif dice.random() < 0.9:
            sentence = " ".join(dice.choices(WORDS, k=60))
            text = f"# {dice.choice(WORDS)}\n\nversion{version} {sentence}\n\n## More\n\n{sentence[::-1]}\n"
            write_files(root, {str(file.relative_to(root)): text})


def open_here(root: Path, directory: Path | None = None) -> Corpus:
    settings = test_settings(root)
    return Corpus(root, directory or index_directory(root, settings, None), settings)


def check_whole(directory: Path) -> dict[str, int]:
    """A generation is whole: index.db is sound, and it and the segments say the same of every row."""
    connection = sqlite3.connect(
        f"{(directory / 'index.db').as_uri()}?mode=ro", uri=True
    )
    try:
        connection.execute("BEGIN")
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        wrong = connection.execute(
            """SELECT d.path, d.chunks, count(c.id), group_concat(c.ordinal) FROM documents d
               LEFT JOIN chunks c ON c.document = d.id GROUP BY d.id HAVING d.chunks != count(c.id)
               OR count(DISTINCT c.ordinal) != count(c.id)"""
        ).fetchall()
        assert wrong == [], "documents without exactly their chunks"
        homeless = "SELECT count(*) FROM chunks WHERE document NOT IN (SELECT id FROM documents)"
        assert connection.execute(homeless).fetchone() == (0,)
        segments = connection.execute(
            "SELECT id, folder, rows, documents, dead FROM segments"
        ).fetchall()
        for segment in segments:
            _check_segment(connection, directory, *segment)
        unplaced = "SELECT count(*) FROM documents WHERE segment NOT IN (SELECT id FROM segments)"
        assert connection.execute(unplaced).fetchone() == (0,)
        facts = dict(connection.execute("SELECT name, value FROM facts"))
        counts = connection.execute(
            "SELECT count(*), total(chunks) FROM documents"
        ).fetchone()
    finally:
        connection.close()
    return {
        "generation": facts["generation"],
        "documents": counts[0],
        "chunks": int(counts[1]),
    }


def _check_segment(
    connection,
    directory: Path,
    key: int,
    folder: str,
    rows: int,
    documents: int,
    dead: bytes,
):
    arrays = {
        name: map_arrays(directory / "segments" / folder / f"{name}.bin")
        for name in ("rows", "words", "vectors")
    }
    table = arrays["rows"]
    assert len(table["chunk"]) == rows == len(arrays["vectors"]["full"])
    living = dict(
        connection.execute("SELECT place, id FROM documents WHERE segment = ?", (key,))
    )
    gone = np.unpackbits(
        np.frombuffer(dead, np.uint8), count=documents, bitorder="little"
    )
    assert sorted(living) == [place for place in range(documents) if not gone[place]]
    stored: dict[int, list[int]] = {place: [] for place in living}
    for chunk, place in zip(
        table["chunk"].tolist(), table["document"].tolist(), strict=True
    ):
        if place in living:
            stored[place].append(chunk)
    for place, document in living.items():
        chunks = connection.execute(
            "SELECT id FROM chunks WHERE document = ? ORDER BY ordinal", (document,)
        )
        assert stored[place] == [chunk for (chunk,) in chunks]


def answers(corpus: Corpus) -> list[Any]:
    queries = [f"{first} {second}" for first in WORDS[:4] for second in WORDS[4:]]
    return [
        [result.to_dict() for result in corpus.search(query, limit=50, **extra).results]
        for query in queries
        for extra in ({}, {"exclude_patterns": ["d1/"]}, {"under": ["d2"]})
    ]


@pytest.mark.rows("R000-036", "R002-001")
@pytest.mark.slow
def test_a_killed_writer_leaves_a_whole_generation(tmp_path, starter):
    """Kill -9 a hundred times at any moment; nothing is lost, mixed or in the way."""
    dice = random.Random(1)
    root = tmp_path / "root"
    write_tree(root, dice, 0)
    code, usual = starter.run("index", root, "--model", "hashing", "-q")
    assert code == 0
    directory = root / ".tamis"
    generations, killed, finished = [], 0, 0
    for attempt in range(1, 3 * KILLS):
        if killed == KILLS:
            break
        write_tree(root, dice, attempt)
        if attempt % 25 == 0:
            for name in ("index.db", "index.db-wal", "index.db-shm"):
                (directory / name).unlink(missing_ok=True)
        command = "rebuild-index" if attempt % 6 == 0 else "index"
        before = check_whole(directory) if (directory / "index.db").exists() else None
        # Up to half as long again: some must be seen to finish, or the measure could only shrink.
        moment = dice.random() * usual * 1.5
        code, took = starter.run(
            command, root, "--model", "hashing", "-q", kill_after=moment
        )
        usual = took if code == 0 else usual  # other work on the machine comes and goes
        killed += code == -signal.SIGKILL
        finished += code == 0
        assert code in (0, -signal.SIGKILL)
        if not (
            directory / "index.db"
        ).exists():  # killed before the first file had its name
            assert before is None
            continue
        after = check_whole(directory)
        if before:
            assert after["generation"] >= before["generation"]
        if (
            code
            and command == "rebuild-index"
            and before
            and after["generation"] == before["generation"]
        ):
            assert after == before, "a rebuild shows when it is whole, or not at all"
        generations.append(after["generation"])
        with open_here(root) as corpus:
            found = corpus.search("alpha retry", limit=20)
            assert (found.index.documents, found.index.chunks) == (
                after["documents"],
                after["chunks"],
            )
            assert len(found.results) == min(20, found.stats["after_content_dedup"])
            assert corpus.status().index.generation == after["generation"]
    assert killed == KILLS, (
        f"only {killed} of the runs lived long enough to be killed, {finished} finished"
    )
    assert len(set(generations)) > KILLS / 2, "the kills came at many different moments"
    assert starter.run("index", root, "--model", "hashing", "-q")[0] == 0
    check_whole(directory)
    folders = {folder.name for folder in (directory / "segments").iterdir()}
    connection = sqlite3.connect(directory / "index.db")
    known = {folder for (folder,) in connection.execute("SELECT folder FROM segments")}
    connection.close()
    assert folders == known, "what the dead writers left behind is gone"
    with open_here(root) as corpus, open_here(root, tmp_path / "aside") as anew:
        anew.refresh()
        assert answers(corpus) == answers(anew)
        assert corpus.search("alpha").index.pending_files == 0


HOLDER = """
import sys, pathlib
from tamis.index.embedded.folder import writer_lock
with writer_lock(pathlib.Path(sys.argv[1]), 0, print):
    print("locked", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def locked(tmp_path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    """A folder whose index another process is writing."""
    root = write_files(tmp_path / "root", {"a.md": "# A\n\nalpha"})
    assert tamis("index", root, "--model", "hashing").returncode == 0
    pipe = subprocess.PIPE
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, root / ".tamis"],
        stdin=pipe,
        stdout=pipe,
        text=True,
        env=environment(),
    )
    assert holder.stdout and holder.stdin
    assert holder.stdout.readline() == "locked\n"
    yield root, holder
    holder.stdin.close()
    holder.wait(30)
    holder.stdout.close()


@pytest.mark.parametrize("command", ["index", "rebuild-index"])
def test_a_second_writer_says_who_is_writing(locked, command, without_waiting, capsys):
    root, holder = locked
    write_files(root, {"b.md": "# B\n\nalpha"})
    with pytest.raises(SystemExit, match="2"):
        main([command, str(root), "--model", "hashing"])
    said = capsys.readouterr().err
    assert f"process {holder.pid}" in said
    assert "hint:" in said
    found = json.loads(
        tamis("search", "alpha", root, "--json", "--model", "hashing").stdout
    )
    assert [result["path"] for result in found["results"]] == ["a.md"], (
        "readers do not wait for writers"
    )


def test_a_second_writer_waits_and_says_for_whom(locked):
    root, holder = locked
    write_files(root, {"b.md": "# B\n\nalpha"})
    waiting = started("index", root, "--model", "hashing")
    assert waiting.stderr and holder.stdin
    assert (
        waiting.stderr.readline()
        == f"waiting for process {holder.pid}, which is writing this index\n"
    )
    assert waiting.poll() is None
    holder.stdin.write("\n")
    holder.stdin.flush()
    waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    found = json.loads(
        tamis("search", "alpha", root, "--json", "--model", "hashing").stdout
    )
    assert {result["path"] for result in found["results"]} == {"a.md", "b.md"}


def test_a_lock_dies_with_its_holder(locked):
    root, holder = locked
    holder.kill()
    holder.wait(30)
    assert tamis("index", root, "--model", "hashing").returncode == 0


def test_four_start_at_once_where_there_is_no_index(tmp_path):
    """Several clients open the same folder for the first time: each gets the answer."""
    root = write_files(
        tmp_path, {f"f{number}.md": f"# F\n\nalpha {number}" for number in range(30)}
    )
    asked = ("search", "alpha", root, "--json", "-n", "50", "--model", "hashing")
    alike = {
        "TAMIS_SEARCH_NGRAM_DEDUP_ENABLED": "false"
    }  # the files differ in a number
    running = [started(*asked, **alike) for _ in range(4)]
    outcomes = [
        (process.communicate(timeout=120), process.returncode) for process in running
    ]
    for (out, err), code in outcomes:
        assert code in (0, 1), err
        found = json.loads(out)
        # Who comes while the first is at work may see a part, and is told so.
        assert len(found["results"]) == 30 or found["hints"]
    found = json.loads(tamis(*asked, **alike).stdout)
    assert len(found["results"]) == 30
    check_whole(root / ".tamis")


def test_an_index_that_was_never_finished_says_so(tmp_path):
    """A writer killed before its first commit leaves an empty index: not the same as an empty folder."""
    root = write_files(tmp_path, {"a.md": "# A\n\nalpha"})
    (root / ".tamis").mkdir()
    database.open_writer(root / ".tamis").close()
    found = json.loads(
        tamis("search", "alpha", root, "--json", "--model", "hashing").stdout
    )
    assert found["results"] == []
    assert any(
        "not finished" in hint and "tamis index" in hint for hint in found["hints"]
    )
    assert tamis("index", root, "--model", "hashing").returncode == 0
    found = json.loads(
        tamis("search", "alpha", root, "--json", "--model", "hashing").stdout
    )
    assert [result["path"] for result in found["results"]] == ["a.md"]


READER = """
import json, pathlib, re, sys
sys.path.insert(0, sys.argv[3])
from support.corpora import test_settings
from tamis.cli.main import main
from tamis.corpus import Corpus
root, stop = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
corpus = Corpus(root, root / ".tamis", test_settings(root))
answers, generations, versions, mixed = 0, set(), set(), []
while not stop.exists():
    found = corpus.search("alpha", limit=100, exclude_patterns=["extra/"])
    seen = {re.search("version[0-9]+", result.content)[0] for result in found.results}
    if len(seen) != 1 or len(found.results) != 12:
        mixed.append([sorted(seen), len(found.results), found.index.generation])
    corpus.status()
    answers += 1
    generations.add(found.index.generation)
    versions |= seen
print(json.dumps([answers, len(generations), len(versions), mixed]))
"""


@pytest.mark.rows("R000-036")
@pytest.mark.slow
def test_readers_never_see_two_generations_at_once(tmp_path):
    """Four processes search without pause while files change, segments merge and are rebuilt."""
    root, stop = tmp_path / "root", tmp_path / "stop"

    def write_version(version: int) -> None:
        texts = {
            f"v{n}.md": f"# V{n}\n\nalpha version{version} end{n}\n" for n in range(12)
        }
        write_files(root, texts | {f"extra/e{version}.md": f"# E\n\nalpha {version}\n"})

    write_version(0)
    here = Path(__file__).resolve().parents[1]
    with open_here(root) as corpus:
        corpus.refresh()
        command = [sys.executable, "-c", READER, str(root), str(stop), str(here)]
        pipe = subprocess.PIPE
        readers = [
            subprocess.Popen(
                command, stdout=pipe, stderr=pipe, text=True, env=environment()
            )
            for _ in range(4)
        ]
        try:
            for version in range(1, 90):
                write_version(version)
                assert corpus.refresh().indexed == 13
                if version % 20 == 0:
                    corpus.rebuild()
        finally:
            stop.touch()
            outcomes = [
                (reader.communicate(timeout=120), reader.returncode)
                for reader in readers
            ]
    for (out, err), code in outcomes:
        assert code == 0, err
        answered, generations, versions, mixed = json.loads(out)
        assert mixed == []
        assert answered > 20
        assert generations > 3 and versions > 3, "the reader saw the index move"


@pytest.mark.rows("R002-001")
@pytest.mark.parametrize("command", ["index", "rebuild-index"])
def test_the_same_in_every_process(tmp_path, command):
    """Deterministic. Other hash seeds, other processes, other runs: the same answer."""
    dice = random.Random(3)
    write_tree(tmp_path / "root", dice, 0)
    seen = []
    for seed in ("1", "2"):
        place = tmp_path / f"index{seed}"
        common = ("--model", "hashing", "--index-dir", place)
        assert (
            tamis(command, tmp_path / "root", *common, PYTHONHASHSEED=seed).returncode
            == 0
        )
        for words in ("alpha beta", "queue -path:d1/**"):
            out = tamis(
                "search",
                words,
                tmp_path / "root",
                "--json",
                "-n",
                "30",
                *common,
                PYTHONHASHSEED=seed,
            ).stdout
            found = json.loads(out)
            assert found["results"]
            seen.append((words, found["results"], found["stats"], found["filter"]))
    assert seen[:2] == seen[2:]


def test_a_broken_pipe_is_no_fault(tmp_path):
    root = write_files(
        tmp_path,
        {f"f{n}.md": "# F\n\n" + f"alpha {n} beta gamma\n" * 400 for n in range(5)},
    )
    assert tamis("index", root, "--model", "hashing").returncode == 0
    process = started(
        "search", "alpha", root, "--json", "-n", "100", "--model", "hashing"
    )
    assert process.stdout and process.stderr
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) in (0, -signal.SIGPIPE)
    assert not re.search("Traceback|Exception", err)
