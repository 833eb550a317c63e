"""Whatever is wrong with what tamis is given: a message, a hint, the exit code, and nothing is lost."""

import errno
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tamis.ingest.read
from support.corpora import test_settings, write_files
from tamis.cli.main import main
from tamis.corpus import Corpus
from tamis.errors import StorageFault
from tamis.index.embedded import database
from tamis.index.embedded.folder import writer_lock
from tamis.index.embedded.reader import Reader

FILES = {
    f"docs/f{number}.md": f"# File {number}\n\nalpha beta number{number}\n"
    for number in range(20)
}


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def answer(self) -> Any:
        return json.loads(self.out)

    @property
    def paths(self) -> list[str]:
        return [result["path"] for result in self.answer["results"]]

    @property
    def reasons(self) -> dict[str, str]:
        """Why files were skipped."""
        return {item["path"]: item["reason"] for item in self.answer["skipped"]}

    def is_fault(self, *words: str) -> "Outcome":
        """A fault that is understood: said in one line, with a hint, and no traceback."""
        assert self.code == 2, self
        assert [line[:7] for line in self.err.splitlines()].count("error: ") == 1, (
            self.err
        )
        assert "Traceback" not in self.err and "fault in tamis" not in self.err, (
            self.err
        )
        assert "\nhint: " in self.err, self.err
        for word in words:
            assert word in self.err, self.err
        return self


@pytest.fixture
def run(capsys, monkeypatch) -> Callable[..., Outcome]:
    """The command line, in this process: `run("index", root)`."""
    monkeypatch.setenv("TAMIS_MODEL_NAME", "hashing")

    def call(*arguments: str | Path) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        shown = capsys.readouterr()
        return Outcome(int(end.value.code or 0), shown.out, shown.err)

    return call


@pytest.fixture
def root(tmp_path) -> Path:
    return write_files(tmp_path / "root", FILES)


@pytest.fixture
def indexed(root, run) -> Path:
    assert run("index", root).code == 0
    return root


def answer_of(run: Callable[..., Outcome], root: Path) -> Any:
    found = run("search", "alpha number7", root, "--json", "-n", "30")
    assert found.code == 0, found
    return found.answer["results"], found.answer["stats"]


def tree(root: Path) -> dict[str, bytes]:
    """The user's own files, byte for byte."""
    return {
        str(file.relative_to(root)): file.read_bytes()
        for file in sorted(root.rglob("*"))
        if file.is_file() and ".tamis" not in file.parts
    }


# --- Where to look ---------------------------------------------------------------------------------

COMMANDS = (
    ("index",),
    ("rebuild-index",),
    ("search", "alpha"),
    ("status",),
    ("index", "--dry-run"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_such_path(run, tmp_path, command):
    run(*command, tmp_path / "nowhere").is_fault("nowhere", "does not exist")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_file_instead_of_a_folder(run, root, command):
    run(*command, root / "docs/f1.md").is_fault(
        "f1.md", "is a file", str(root / "docs")
    )
    assert tree(root) == {name: text.encode() for name, text in FILES.items()}


def test_status_without_an_index(run, root):
    run("status", root).is_fault("has no index", "tamis index")
    assert not (root / ".tamis").exists()


# What a run imports is imported while the process still may read it: nobody may not enter the
# folders where tests are often installed.
AS_NOBODY = """
import contextlib, io, os, sys, tempfile
from tamis.cli.main import main
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
    open(folder + "/a.md", "w").write("alpha")
    commands = (["index"], ["search", "alpha"], ["status"], ["doctor"])
    for warm in (*([*each, folder, "--json"] for each in commands), ["nonsense"], ["--help"]):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main(warm)
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
main(sys.argv[1:])
"""


def as_nobody(*arguments: str | Path) -> Outcome:
    """The command line without the rights of root; what it runs is imported while it still has them."""
    command = [sys.executable, "-c", AS_NOBODY, *map(str, arguments)]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "TAMIS_MODEL_NAME": "hashing",
    }
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd="/"
    )
    if "in <module>\n    os.set" in done.stderr:
        pytest.skip("the rights of root cannot be given up here")
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def public(tmp_path_factory) -> Iterator[Path]:
    """A folder that everybody may reach and write; pytest's own are private."""
    folder = tmp_path_factory.mktemp("public")
    for parent in (folder, *folder.parents):
        if parent.stat().st_uid == os.geteuid() and not parent.stat().st_mode & 0o005:
            parent.chmod(parent.stat().st_mode | 0o055)
    folder.chmod(0o777)
    yield folder
    for place, _, _ in os.walk(folder):
        os.chmod(place, 0o700)


def test_a_root_that_may_not_be_read(public):
    root = write_files(public / "root", {"a.md": "alpha"})
    root.chmod(0o000)
    as_nobody("index", root).is_fault("permission denied")


def test_a_root_that_may_not_be_written(public):
    root = write_files(public / "root", {"a.md": "alpha"})
    root.chmod(0o555)
    as_nobody("index", root).is_fault("permission denied", "--index-dir")
    elsewhere = as_nobody(
        "search", "alpha", root, "--json", "--index-dir", public / "index"
    )
    assert elsewhere.paths == ["a.md"]


def test_files_and_folders_that_may_not_be_read(public):
    """One bad file is counted and shown; the others are indexed."""
    root = write_files(
        public / "root", {"a.md": "alpha", "b.md": "alpha", "c/d.md": "alpha"}
    )
    root.chmod(0o777)
    (root / "b.md").chmod(0o000)
    (root / "c").chmod(0o000)
    done = as_nobody("index", root, "--json")
    assert done.code == 1
    assert {path.rstrip("/"): reason for path, reason in done.reasons.items()} == {
        "b.md": "unreadable",
        "c": "unreadable",
    }
    assert as_nobody("search", "alpha", root, "--json").paths == ["a.md"]


# --- What is in the folder -------------------------------------------------------------------------


def test_an_empty_folder(run, tmp_path):
    done = run("index", tmp_path)
    assert done.code == 1
    assert "nothing to search" in done.err
    found = run("search", "alpha", tmp_path, "--json")
    assert found.code == 1
    assert found.paths == []
    assert "empty" in found.answer["hints"][0]
    assert run("status", tmp_path).code == 0


def test_a_folder_of_binaries(run, tmp_path):
    noise = random.Random(1)
    write_files(
        tmp_path, {f"b{n}.md": b"\x7fELF\0" + noise.randbytes(5000) for n in range(5)}
    )
    done = run("index", tmp_path, "--json")
    assert done.code == 1
    assert done.answer["skipped_by_reason"] == {"binary": 5}
    assert (done.answer["seen"], done.answer["indexed"]) == (5, 0)
    assert run("search", "alpha", tmp_path, "--json").paths == []


def test_invalid_utf_8(run, tmp_path):
    """Read as well as can be, with a warning that says where."""
    write_files(
        tmp_path,
        {
            "broken.md": "Zürich größer\nalpha ".encode() + b"\xff\xfe broken\n",
            "old.txt": "alpha Größe".encode("cp1252"),
            "wide.txt": "\ufeffalpha wide".encode("utf-16-le"),
        },
    )
    done = run("index", tmp_path, "--json")
    assert done.code == 0
    assert done.answer["indexed"] == 3
    assert any(
        "broken.md" in warning and "line 2" in warning
        for warning in done.answer["warnings"]
    )
    assert any("old.txt" in warning for warning in done.answer["warnings"])
    assert run("search", "größe", tmp_path, "--json").paths[0] == "old.txt"
    assert run("search", "wide", tmp_path, "--json").paths[0] == "wide.txt"


def test_a_huge_file(run, root):
    with (root / "huge.txt").open("wb") as file:
        file.write(b"alpha huge\n" * 100)
        file.truncate(200_000_000)
    done = run("index", root, "--json")
    assert done.code == 0
    assert done.answer["skipped_by_reason"] == {"too large": 1}
    (huge,) = done.answer["skipped"]
    assert (
        huge["path"] == "huge.txt"
        and "200,000,000" in huge["detail"]
        and "max_file_bytes" in huge["detail"]
    )
    assert "huge.txt" not in run("search", "alpha huge", root, "--json").paths


def test_one_line_of_two_megabytes(run, tmp_path):
    write_files(tmp_path, {"long.md": "alpha " * 300_000, "one.md": "b" * 1_900_000})
    assert run("index", tmp_path).code == 0
    assert run("search", "alpha", tmp_path, "--json").paths[0] == "long.md"


HOSTILE = {
    "a line of 5 MB": ("a.md", "'word ' * 1_000_000"),
    "100,000 headings": (
        "a.md",
        "''.join(f'{\"#\" * (1 + n % 6)} h{n}\\n' for n in range(100_000))",
    ),
    "lists, 2,000 deep": ("a.md", "''.join('  ' * n + '- a\\n' for n in range(2_000))"),
    "lists, 10,000 deep on one line": ("a.md", "'- ' * 10_000 + 'a'"),
    "quotations, 10,000 deep": ("a.md", "'>' * 10_000 + ' a'"),
    "brackets, 10,000 deep": ("a.md", "'[' * 10_000 + 'a' + ']' * 10_000"),
    "wiki links that never close": ("a.md", "'[[' * 1_000_000"),
    "embeds that never close": ("a.md", "'![[' * 500_000"),
    "100,000 links": ("a.md", "'[[a]] ' * 100_000"),
    "100,000 code blocks": ("a.md", "'```\\nx\\n```\\n' * 100_000"),
    "a table of 100,000 rows": ("a.md", "'|a|b|\\n|-|-|\\n' + '|c|d|\\n' * 100_000"),
    "a list before a million blank lines": ("a.md", "'- a\\n' + '\\n' * 1_000_000"),
    "tabs": ("a.md", "'\\t' * 1_000_000 + 'x\\n\\t- a\\n\\t\\t- b\\n'"),
    "NUL bytes": ("a.md", "'# a\\0b\\n\\n' + 'c\\0' * 100_000"),
    "halves of characters": (
        "a.md",
        "'# a\\udc80\\n\\n[[b\\ud800]] #c\\udfff\\n' * 1_000",
    ),
    "a YAML bomb": (
        "a.md",
        "'---\\na: &a [x]\\nb: &b [*a, *a]\\nc: [*b, *b]\\n---\\ntext'",
    ),
    "a TOML key of 25,000 parts": (
        "a.md",
        "'+++\\n' + 'a.' * 25_000 + 'a = 1\\n+++\\ntext'",
    ),
    "a TOML table 12,000 deep": (
        "a.md",
        "'+++\\n[' + '\"]\".' * 12_000 + 'a]\\nb.c = 1\\n+++\\ntext'",
    ),
    "a title of roles that never come": ("a.rst", "':a' * 500_000 + '\\n====\\n'"),
    "titles without end": ("a.rst", "'ab\\n==\\n\\n' * 100_000"),
    "blank lines after two colons": ("a.rst", "'a::\\n' + ' \\n' * 500_000"),
    "backquotes": ("a.rst", "'`' * 1_000_000 + ':doc:`' * 100_000"),
    "a notebook that is no JSON": ("a.ipynb", "'no JSON\\n' * 100_000"),
    "a notebook of brackets": ("a.ipynb", "'{\"cells\": ' + '[' * 500_000"),
    "a notebook with a huge number": (
        "a.ipynb",
        '\'{"cells": [{"source": "a"}], "x": \' + \'9\' * 500_000 + \'}\'',
    ),
    "a notebook of 10,000 cells": (
        "a.ipynb",
        "'{\"cells\": [' + ','.join(['{\"source\": \"# a\"}'] * 10_000) + ']}'",
    ),
}
REFUSED = {
    "a YAML bomb", "a TOML key of 25,000 parts", "a TOML table 12,000 deep", "a notebook that is no JSON",
    "a notebook of brackets",
}  # fmt: skip
PARSE_IN_LITTLE_MEMORY = """
import resource, sys
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.settings import ChunkingSettings
text = {text}
limit = 1_000_000_000
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for sizes in (ChunkingSettings(), ChunkingSettings(parents=True)):
    document, warning = parse(Source({path!r}, text, b"", len(text), 0, 0, 0, 0), sizes)
    assert document.chunks
    assert all(len(chunk.content) <= sizes.max_chars for chunk in document.chunks)
    assert max(chunk.end_line for chunk in document.chunks) <= text.count("\\n") + 1
print(warning)
"""


@pytest.mark.parametrize("name", HOSTILE)
def test_documents_made_to_break_a_parser(name):
    """In a process of its own with 1 GB of memory: it ends, with passages, whatever the text is."""
    path, text = HOSTILE[name]
    script = PARSE_IN_LITTLE_MEMORY.format(text=text, path=path)
    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    warned = "no notebook" in ran.stdout or "front matter" in ran.stdout
    assert warned == (name in REFUSED)


def test_bad_documents_are_indexed_with_a_warning(run, tmp_path):
    """The rest goes on; a line end may be any of the three."""
    files = {
        "bomb.md": "---\na: &a [x]\nb: [*a]\n---\nalpha bomb\n",
        "book.ipynb": "alpha, but no notebook",
        "mac.md": "# One\r\ralpha mac\r\r## Two\r\rbeta\r",
        "good.md": "alpha good",
    }
    write_files(tmp_path, files)
    done = run("index", tmp_path, "--json")
    assert (done.code, done.answer["indexed"]) == (0, 4)
    assert len(done.answer["warnings"]) == 2
    found = run("search", "alpha", tmp_path, "--json")
    assert sorted(found.paths) == sorted(files)
    (mac,) = [
        result for result in found.answer["results"] if result["path"] == "mac.md"
    ]
    assert (mac["header_path"], mac["start_line"], mac["end_line"]) == (
        "One > Two",
        1,
        7,
    )


def test_links_pipes_and_strange_names(run, root, tmp_path):
    """Loops cannot happen, nothing outside the root is read, nothing waits for a pipe."""
    outside = write_files(tmp_path / "outside", {"secret.md": "alpha secret"})
    (root / "loop").symlink_to(root, target_is_directory=True)
    (root / "docs/loop").symlink_to("..", target_is_directory=True)
    (root / "self").symlink_to("self")
    (root / "out.md").symlink_to(outside / "secret.md")
    (root / "outdir").symlink_to(outside, target_is_directory=True)
    (root / "inside.md").symlink_to("docs/f1.md")
    (root / "nowhere.md").symlink_to("missing.md")
    os.mkfifo(root / "pipe.md")
    bad = os.fsencode(root) + b"/caf\xe9.md"
    with open(bad, "wb") as file:
        file.write(b"alpha cafe")
    (root / "new\nline.md").write_text("alpha newline")
    done = run("index", root, "--json")
    assert done.code == 1, (
        "a name that cannot be stored is a file that could not be read"
    )
    assert done.reasons == {
        "loop": "link",
        "docs/loop": "link",
        "self": "link",
        "inside.md": "link",
        "nowhere.md": "link",
        "out.md": "outside the root",
        "outdir": "outside the root",
        "pipe.md": "not a regular file",
        "caf\\udce9.md": "unreadable",
    }
    assert done.answer["indexed"] == len(FILES) + 1
    assert done.answer["seen"] == len(FILES) + 1 + len(done.reasons)
    found = run("search", "alpha secret", root, "--json", "-n", "50").answer["results"]
    assert not [result for result in found if "secret" in result["content"]]
    assert run("search", "newline", root, "--json").paths[0] == "new\nline.md"
    assert run("status", root).code == 0


def test_a_file_that_vanishes_between_walk_and_read(run, indexed, monkeypatch):
    real = tamis.ingest.read.read

    def read(entry, limit):
        if entry.path == "docs/f3.md":
            os.unlink(entry.file)
        return real(entry, limit)

    monkeypatch.setattr(tamis.ingest.read, "read", read)
    write_files(indexed, {"docs/f3.md": "alpha changed"})
    done = run("index", indexed, "--json")
    assert done.code == 1
    assert [(item["path"], item["reason"]) for item in done.answer["skipped"]] == [
        ("docs/f3.md", "unreadable")
    ]
    assert (
        "docs/f3.md"
        not in run("search", "alpha changed", indexed, "--json", "-n", "50").paths
    )
    assert run("index", indexed).code == 0, "the next run finds nothing wrong"


def test_a_file_that_becomes_a_pipe_between_walk_and_read(run, indexed, monkeypatch):
    real = tamis.ingest.read.read

    def read(entry, limit):
        if entry.path == "docs/f3.md":
            os.unlink(entry.file)
            os.mkfifo(entry.file)
        return real(entry, limit)

    monkeypatch.setattr(tamis.ingest.read, "read", read)
    write_files(indexed, {"docs/f3.md": "alpha changed"})
    done = run("index", indexed, "--json")
    assert done.code == 1
    assert [(item["path"], item["reason"]) for item in done.answer["skipped"]] == [
        ("docs/f3.md", "unreadable")
    ]


# --- What is asked ---------------------------------------------------------------------------------


def test_an_empty_query(run, indexed):
    for query in ("", "   \n\t", "path:docs/**"):
        run("search", query, indexed).is_fault()


def test_a_query_of_100_kilobytes(run, indexed):
    run("search", "alpha " * 17_000, indexed).is_fault("characters", "shorten")


@pytest.mark.parametrize(
    ("filter", "word"),
    [
        ("(tag:a", "parenthesis"),
        ("tag:a)", "unexpected"),
        ("tag:a |", "missing"),
        ("nonsense", "nonsense"),
        ("colour:red", "colour"),
        ("type:novel", "documentation"),
        ("lang:klingon", "klingon"),
        ("after:yesterday", "date"),
        ("after:2026-13-45", "date"),
        ("workspace:none", "workspace"),
        ("under:../..", "outside"),
        ("path:[unclosed", "path"),
        ("(" * 500 + "tag:a" + ")" * 500, "nested"),
        ("-" * 10_000, "missing"),
    ],
)
def test_a_broken_filter(run, indexed, filter, word):
    """An error that names what is wrong, never an empty answer and never everything."""
    run("search", "alpha", indexed, "--filter", filter).is_fault(word)


@pytest.mark.parametrize(
    "arguments",
    [("-n", "0"), ("-n", "101"), ("--min-score", "2"), ("--min-score", "nan"), ("--type", "novel"),
     ("--lang", "klingon"), ("--after", "soon"), ("--workspace", "none"), ("--under", "/etc")],
    ids=" ".join,
)  # fmt: skip
def test_a_value_that_cannot_be(run, indexed, arguments):
    run("search", "alpha", indexed, *arguments).is_fault()


def test_an_unknown_option(run, indexed):
    done = run("search", "alpha", indexed, "--colour")
    assert done.code == 2
    assert "--colour" in done.err and "Traceback" not in done.err


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("[search]\nlimits = 3\n", ("search.limits", "search.limit")),
        ("[serach]\nlimit = 3\n", ("serach", "search")),
        ("[search]\nlimit = 'many'\n", ("search.limit", "whole number")),
        ("[search]\nlimit = 0\n", ("search.limit", "1")),
        ("[search]\nmin_confidence = nan\n", ("search.min_confidence",)),
        ("[chunking]\nmin_chars = 900\nmax_chars = 300\n", ("chunking",)),
        ("[search\n", ("TOML",)),
        ("[model]\nname = 'gpt'\n", ("gpt", "granite")),
        ("[workspaces]\napi = 3\n", ("workspaces",)),
        ("[workspaces]\napi = ['../../etc']\n", ("etc",)),
        ("search = 3\n", ("search",)),
    ],
)
def test_a_bad_setting_in_the_project(run, indexed, monkeypatch, toml, words):
    monkeypatch.delenv("TAMIS_MODEL_NAME")
    write_files(indexed, {"tamis.toml": toml})
    for command in (("index",), ("search", "alpha")):
        run(*command, indexed).is_fault(*words)
    (indexed / "tamis.toml").unlink()
    assert run("search", "alpha", indexed).code == 0


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("TAMIS_SEARCH_LIMITS", "3", ("TAMIS_SEARCH_LIMITS", "TAMIS_SEARCH_LIMIT")),
        ("TAMIS_SEARCH_LIMIT", "many", ("TAMIS_SEARCH_LIMIT", "whole number")),
        (
            "GRAPHRAG_EXCLUDE_ARCHIVED",
            "perhaps",
            ("GRAPHRAG_EXCLUDE_ARCHIVED", "true or false"),
        ),
        ("TAMIS_INDEX_MEMORY_MB", "-1", ("index.memory_mb", "64 or more")),
        ("TAMIS_INDEX_LOCK_TIMEOUT", "9", ("index.lock_timeout is gone", "30 seconds")),
        ("TAMIS_MODEL_NAME", "gpt", ("gpt", "granite")),
    ],
)
def test_a_bad_setting_in_the_environment(
    run, indexed, monkeypatch, variable, value, words
):
    monkeypatch.setenv(variable, value)
    for command in (("index",), ("search", "alpha")):
        run(*command, indexed).is_fault(*words)


def test_a_configuration_file_that_is_not_there(run, indexed):
    run("search", "alpha", indexed, "--config", "nowhere.toml").is_fault("nowhere.toml")


# --- What is wrong with the index ------------------------------------------------------------------


def database_file(root: Path) -> Path:
    return root / ".tamis" / "index.db"


def closed_database(root: Path) -> Path:
    """index.db with everything in it: nothing is left in SQLite's log beside it."""
    connection = sqlite3.connect(database_file(root))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    for end in ("-wal", "-shm"):
        database_file(root).with_name(f"index.db{end}").unlink(missing_ok=True)
    return database_file(root)


def overwrite(file: Path, at: int, data: bytes) -> None:
    with file.open("r+b") as target:
        target.seek(at)
        target.write(data)


def _header(root: Path) -> None:
    overwrite(closed_database(root), 0, b"not a database at all, I fear")


def _middle(root: Path) -> None:
    file = closed_database(root)
    size = file.stat().st_size
    overwrite(file, 4096, random.Random(2).randbytes(size - 2 * 4096))


def _schema(root: Path) -> None:
    overwrite(closed_database(root), 100, bytes(300))


def _one_page(root: Path) -> None:
    """The page that the chunks begin with: the first look at an index does not see it."""
    file = closed_database(root)
    connection = sqlite3.connect(file)
    page = connection.execute(
        "SELECT rootpage FROM sqlite_master WHERE name = 'chunks'"
    ).fetchone()[0]
    connection.close()
    overwrite(file, (page - 1) * 4096, b"\xa5" * 4096)


def _cut(root: Path) -> None:
    file = closed_database(root)
    os.truncate(file, file.stat().st_size // 2)


def _empty(root: Path) -> None:
    os.truncate(closed_database(root), 0)


def _is_a_folder(root: Path) -> None:
    closed_database(root).unlink()
    database_file(root).mkdir()


def _newer(root: Path) -> None:
    _set_version(root, 99)


def _older(root: Path) -> None:
    _set_version(root, 0)


def _set_version(root: Path, version: int) -> None:
    connection = sqlite3.connect(database_file(root))
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def _segments(root: Path) -> list[Path]:
    return sorted((root / ".tamis" / "segments").iterdir())


def _no_segment(root: Path) -> None:
    shutil.rmtree(_segments(root)[0])


def _no_segments(root: Path) -> None:
    shutil.rmtree(root / ".tamis" / "segments")


def _no_file(root: Path) -> None:
    (_segments(root)[0] / "words.bin").unlink()


def truncated(name: str, share: float) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        file = _segments(root)[0] / name
        os.truncate(file, int(file.stat().st_size * share))

    damage.__name__ = f"{name} cut to {share:.0%}"
    return damage


def scribbled(name: str) -> Callable[[Path], None]:
    def damage(root: Path) -> None:
        overwrite(_segments(root)[0] / name, 16, b"{]")

    damage.__name__ = f"{name} with a broken header"
    return damage


BROKEN = (
    _header, _middle, _schema, _one_page, _cut, _empty, _newer, _older, _no_segment, _no_segments,
    _no_file, *(truncated(f"{name}.bin", share) for name in ("rows", "words", "vectors")
                for share in (0.0, 0.01, 0.5, 0.99)),
    *(scribbled(f"{name}.bin") for name in ("rows", "words", "vectors")),
)  # fmt: skip


@pytest.mark.rows("R004-017")
@pytest.mark.parametrize(
    "damage", BROKEN, ids=lambda damage: damage.__name__.strip("_")
)
def test_a_damaged_index_is_noticed_and_healed(run, indexed, damage):
    """A search says what is wrong and what to do; doing it heals; the files are as they were.
    an index of another format is not read, and not converted: everything is indexed anew.
    """
    expected, files = answer_of(run, indexed), tree(indexed)
    damage(indexed)
    run("search", "alpha number7", indexed).is_fault("rebuild-index")
    done = run("rebuild-index", indexed, "--json")
    assert done.code == 0, done
    assert done.answer["indexed"] == len(FILES)
    assert answer_of(run, indexed) == expected
    assert run("index", indexed, "--json").answer["unchanged"] == len(FILES)
    assert run("status", indexed).code == 0
    assert tree(indexed) == files


@pytest.mark.parametrize(
    "damage",
    [_header, _schema, _newer, _older, _no_segment],
    ids=lambda d: d.__name__.strip("_"),
)
def test_a_damaged_index_is_not_written_to(run, indexed, damage):
    """`index` does not make it worse: it either goes on, or says what is wrong and leaves all as it is."""
    damage(indexed)
    before = database_file(indexed).read_bytes()
    write_files(indexed, {"new.md": "alpha new"})
    done = run("index", indexed)
    if done.code:
        done.is_fault("rebuild-index")
        assert database_file(indexed).read_bytes() == before
    else:
        assert damage is _no_segment, (
            "only what index.db does not show can go unnoticed here"
        )


def test_an_index_of_a_corpus_that_is_open_is_healed_under_it(root):
    """A server that meets damage answers again after a rebuild, without a new start."""
    corpus = Corpus(root, root / ".tamis", test_settings(root))
    corpus.refresh()
    expected = [
        result.chunk_id for result in corpus.search("alpha number7", limit=30).results
    ]
    corpus.close()
    _one_page(root)
    corpus = Corpus(root, root / ".tamis", test_settings(root))
    with pytest.raises(tamis.TamisError, match="damaged"):
        corpus.search("alpha number7", limit=30)
    corpus.rebuild()
    assert [
        result.chunk_id for result in corpus.search("alpha number7", limit=30).results
    ] == expected
    corpus.close()


def test_another_program_s_database_elsewhere_is_left_alone(run, root, tmp_path):
    """An index folder given by mistake: its index.db is not ours, and no command changes it."""
    other = tmp_path / "other"
    (other / ".tamis").mkdir(parents=True)
    connection = sqlite3.connect(other / ".tamis" / "index.db")
    connection.execute("CREATE TABLE bookmarks (address TEXT)")
    connection.close()
    before = database_file(other).read_bytes()
    run("index", root, "--index-dir", other / ".tamis").is_fault(
        "the database of another program"
    )
    run("search", "alpha", root, "--index-dir", other / ".tamis").is_fault(
        "the database of another program"
    )
    run("rebuild-index", root, "--index-dir", other / ".tamis").is_fault(
        "the database of another program"
    )
    assert database_file(other).read_bytes() == before


def test_another_model(run, indexed):
    expected = answer_of(run, indexed)
    run("search", "alpha", indexed, "--model", "none").is_fault(
        "hashing", f"rebuild-index {indexed} --model none"
    )
    write_files(indexed, {"new.md": "alpha new"})
    run("index", indexed, "--model", "none").is_fault(
        "hashing", f"rebuild-index {indexed} --model none"
    )
    (indexed / "new.md").unlink()
    assert answer_of(run, indexed) == expected
    assert run("rebuild-index", indexed, "--model", "none").code == 0
    found = run("search", "alpha", indexed, "--model", "none", "--json").answer[
        "results"
    ]
    assert {
        evidence["lane"] for result in found for evidence in result["evidence"]
    } == {"words"}


def test_another_edition_of_the_model(run, indexed):
    connection = sqlite3.connect(database_file(indexed))
    connection.execute(
        "UPDATE facts SET value = 'hashing:old' WHERE name = 'fingerprint'"
    )
    connection.commit()
    connection.close()
    run("search", "alpha", indexed).is_fault("another edition", "rebuild-index")
    assert run("rebuild-index", indexed).code == 0
    assert run("search", "alpha", indexed).code == 0


def test_an_index_of_another_root(run, root, tmp_path):
    other = write_files(tmp_path / "other", {"b.md": "beta"})
    shared = tmp_path / "index"
    assert run("index", root, "--index-dir", shared).code == 0
    run("index", other, "--index-dir", shared).is_fault(str(root))
    found = run("search", "alpha", root, "--index-dir", shared, "--json")
    assert found.paths and set(found.paths) <= FILES.keys()


def test_an_index_that_is_a_file(run, root):
    (root / ".tamis").write_text("mine")
    done = run("index", root)
    assert done.code == 2
    assert "Traceback" not in done.err and "hint: " in done.err
    assert (root / ".tamis").read_text() == "mine"


@pytest.mark.parametrize("name", [".git", ".hg"])
def test_an_index_where_version_control_keeps_its_own(name, run, root):
    """A project may name its own folder; git would take this one for a broken repository."""
    (root / "tamis.toml").write_text(f'[index]\ndirectory = "{name}"\n')
    run("index", root).is_fault("version control", "--index-dir")
    assert not (root / name).exists()


def test_a_lock_that_is_held(run, indexed, without_waiting):
    with writer_lock(indexed / ".tamis", 0, print):
        for command in ("index", "rebuild-index"):
            run(command, indexed).is_fault(f"process {os.getpid()}")
        assert run("search", "alpha", indexed).code == 0
        assert run("status", indexed).code == 0
    assert run("index", indexed).code == 0


# --- The disk --------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["index", "rebuild-index"])
@pytest.mark.parametrize(
    ("name", "after"), [("fsync", n) for n in range(4)] + [("pwrite", 0), ("mkdir", 0)]
)
def test_a_full_disk_keeps_the_previous_generation(
    run, indexed, monkeypatch, command, name, after
):
    expected = answer_of(run, indexed)
    write_files(indexed, {"docs/f1.md": "alpha changed", "new.md": "alpha new"})
    with monkeypatch.context() as patch:
        real, calls = getattr(os, name), [0]

        def call(*arguments: Any, **options: Any) -> Any:
            calls[0] += 1
            if calls[0] > after:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments, **options)

        patch.setattr(os, name, call)
        run(command, indexed).is_fault("the disk is full", "nothing was lost")
    assert answer_of(run, indexed) == expected
    done = run(command, indexed, "--json")
    assert done.code == 0
    assert "new.md" in run("search", "alpha new", indexed, "--json").paths
    known = sqlite3.connect(database_file(indexed))
    folders = {folder for (folder,) in known.execute("SELECT folder FROM segments")}
    known.close()
    assert {folder.name for folder in _segments(indexed)} == folders


def test_the_error_that_ended_a_transaction_is_the_one_that_is_seen(tmp_path):
    """SQLite rolls back by itself on some errors; that there is nothing left to roll back is not the news."""
    connection = sqlite3.connect(tmp_path / "some.db", isolation_level=None)
    with (
        pytest.raises(OSError, match="the disk is full"),
        database.transaction(connection),
    ):
        connection.execute("ROLLBACK")
        raise OSError("the disk is full")
    connection.close()


@pytest.fixture
def small_disk(tmp_path) -> Iterator[Callable[[int], Path]]:
    """A real disk of so many kilobytes, where the machine lets us mount one."""
    places: list[Path] = []

    def mount(kilobytes: int) -> Path:
        place = tmp_path / f"disk{len(places)}"
        place.mkdir()
        command = [
            "mount",
            "-t",
            "tmpfs",
            "-o",
            f"size={kilobytes}k",
            "tmpfs",
            str(place),
        ]
        if (
            shutil.which("mount") is None
            or subprocess.run(command, capture_output=True).returncode
        ):
            pytest.skip("no file system may be mounted here")
        places.append(place)
        return place

    yield mount
    for place in places:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("kilobytes", [8, 24, *range(40, 400, 20)])
def test_a_disk_that_really_is_full(run, root, small_disk, kilobytes):
    """Wherever the space runs out: a fault that says so, no damage, and the next run succeeds with space."""
    many = {
        f"more/m{n}.md": f"# M\n\nalpha more{n} " + "gamma delta " * 60
        for n in range(120)
    }
    disk = small_disk(kilobytes)
    place = disk / "index"
    arguments = (root, "--index-dir", place)
    first = run("index", *arguments)
    if first.code:
        first.is_fault("the disk is full")
    held = (
        len(run("search", "alpha", *arguments, "--json", "-n", "50").paths)
        if not first.code
        else 0
    )
    write_files(root, many)
    for command in ("index", "rebuild-index"):
        run(command, *arguments).is_fault("the disk is full", "nothing was lost")
        if held:
            found = run("search", "alpha", *arguments, "--json", "-n", "50")
            assert len(found.paths) >= held
    subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
    done = run("index", *arguments, "--json")
    assert done.code == 0, done
    found = run("search", "alpha", *arguments, "--json")
    assert found.answer["index"]["documents"] == len(FILES) + len(many)
    assert found.answer["index"]["pending_files"] == 0


def test_a_read_only_disk(run, root, small_disk):
    disk = small_disk(4000)
    write_files(disk, FILES)
    assert run("index", disk).code == 0
    expected = answer_of(run, disk)
    (disk / "docs/f1.md").write_text("alpha changed")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    run("index", disk).is_fault("read-only")
    run("rebuild-index", disk).is_fault("read-only")
    found = run("search", "alpha number7", disk, "--json", "-n", "30")
    assert (found.answer["results"], found.answer["stats"]) == expected


def test_an_index_that_was_finished_before_its_disk_became_read_only(
    run, root, small_disk
):
    """Nobody has read it yet, so that what SQLite's readers share is not there, and cannot be made."""
    disk = small_disk(4000)
    write_files(disk, FILES)
    assert run("index", disk).code == 0
    assert not list((disk / ".tamis").glob("index.db-*"))
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    assert run("search", "alpha number7", disk, "--json").answer["results"]
    assert run("status", disk).code == 0


def test_an_index_in_a_folder_that_may_only_be_read(run, public):
    """Somebody else's: SQLite cannot make there what its readers share."""
    root = write_files(public / "root", {"a.md": "alpha"})
    assert run("index", root).code == 0
    root.chmod(0o755)
    for place in (root / ".tamis", *(root / ".tamis").rglob("*")):
        place.chmod(0o555 if place.is_dir() else 0o444)
    assert as_nobody("search", "alpha", root, "--json").paths
    assert as_nobody("status", root).code == 0
    examined = as_nobody("doctor", root, "--json")
    assert examined.out, examined.err
    found = json.loads(examined.out)["findings"]
    assert {each["check"] for each in found if each["severity"] != "ok"} == {"folder"}
    as_nobody("index", root).is_fault("permission denied")


def test_what_is_read_without_locks_is_not_written_meanwhile(indexed, monkeypatch):
    """Half of one generation and half of the next would be no answer."""
    monkeypatch.setattr("tamis.index.embedded.database.os.access", lambda *_: False)
    reader = Reader(indexed / ".tamis")
    with reader.snapshot():
        pass
    with (
        pytest.raises(StorageFault, match="written while it was read"),
        reader.snapshot(),
    ):
        os.utime(database_file(indexed), (1, 1))
    reader.close()
