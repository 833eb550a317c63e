"""Ignoring at scale and under bad input: folders that are never entered, long lists, includes that fail."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.corpora import open_corpus, write_files
from support.corpora import test_settings as settings_of
from tamis.cli.main import main
from tamis.corpus import Corpus
from tamis.index.plan import dry_run

KEPT = {
    f"src/m{number}/f{n}.md": f"alpha {number} {n}"
    for number in range(6)
    for n in range(5)
}
THOUSANDS = 3_000


def indexed(corpus: Corpus) -> set[str]:
    return {
        result.path
        for result in corpus.search("alpha", limit=100, exclude_archived=False).results
    }


@contextmanager
def watched(
    monkeypatch: pytest.MonkeyPatch, root: Path
) -> Iterator[dict[str, list[str]]]:
    """Which folders are listed, and which files below the root are opened, looked at or resolved."""
    touched: dict[str, list[str]] = {"listed": [], "seen": []}

    def note(kind: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(path: object = ".", *arguments: object, **named: object) -> object:
            if isinstance(path, str | os.PathLike):
                inside = os.path.relpath(os.fspath(path), root)
                if not inside.startswith(("..", ".tamis")):
                    touched[kind].append(inside)
            return real(path, *arguments, **named)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", note("listed", os.scandir))
        patch.setattr(os, "listdir", note("listed", os.listdir))
        for name in ("stat", "lstat", "open"):
            patch.setattr(os, name, note("seen", getattr(os, name)))
        patch.setattr("builtins.open", note("seen", open))
        yield touched


@pytest.fixture(scope="module")
def heavy(tmp_path_factory) -> Path:
    """A few files to find beside a few thousand that are ignored, in every place where one may say so."""
    root = write_files(tmp_path_factory.mktemp("heavy").resolve(), KEPT)
    per_folder = THOUSANDS // 6
    for package in range(6):
        write_files(
            root,
            {
                f"{place}/p{package}/d{n % 10}/{n}.js": "alpha"
                for n in range(per_folder // 2)
                for place in ("node_modules", "src/m1/generated")
            },
        )
    write_files(
        root,
        {
            ".gitignore": "generated/\n",
            "node_modules/.gitignore": b"\0 poison: whoever reads this has entered",
            "src/m1/generated/.ignore": b"\0 poison",
            "node_modules/.graphragignore": "!*\n",
        },
    )
    return root


FOLDERS = {".", "src", *(f"src/m{number}" for number in range(6))}


@pytest.mark.rows("C19", "R001-017", "R001-025")
def test_an_ignored_folder_is_never_entered(heavy, monkeypatch, tmp_path):
    """Not listed, nothing in it looked at, and one line in the report."""
    settings = settings_of(heavy, index__directory=str(tmp_path / "index"))
    with (
        Corpus(heavy, tmp_path / "index", settings) as corpus,
        watched(monkeypatch, heavy) as touched,
    ):
        report = corpus.refresh()
    assert sorted(touched["listed"]) == sorted(FOLDERS)  # each once, and no other
    for folder in ("node_modules", "src/m1/generated"):
        assert not [
            path for path in touched["seen"] if path.startswith(f"{folder}/")
        ], folder
    assert report.indexed == len(KEPT)
    assert report.warnings == ()
    details = {item.path: item.detail for item in report.skipped}
    assert set(details) == {"node_modules/", "src/m1/generated/", ".gitignore"}
    assert details["node_modules/"].startswith("node_modules/ (built-in)")
    assert details["src/m1/generated/"] == "generated/ (.gitignore:1)"
    assert report.seen == len(KEPT) + 3
    with Corpus(heavy, tmp_path / "index", settings) as corpus:
        assert indexed(corpus) == set(KEPT)


def test_what_it_costs_does_not_grow_with_what_is_ignored(heavy, monkeypatch, tmp_path):
    """As many folders listed and files looked at as in a tree without the thousands."""
    light = write_files(tmp_path / "light", KEPT | {".gitignore": "generated/\n"})
    (light / "node_modules").mkdir()
    (light / "src/m1/generated").mkdir()
    counts = []
    for root in (light, heavy):
        with watched(monkeypatch, root) as touched:
            taken, skipped, _ = dry_run(root, settings_of(root))
        assert taken == sorted(KEPT, key=lambda path: path.split("/"))
        counts.append(
            (len(taken), len(skipped), len(touched["listed"]), len(touched["seen"]))
        )
    assert counts[0] == counts[1]


def test_later_runs_do_not_enter_either(heavy, monkeypatch, tmp_path):
    """Nor does a status, a run with nothing to do, or a look at one path."""
    settings = settings_of(heavy, index__directory=str(tmp_path / "index"))
    with Corpus(heavy, tmp_path / "index", settings) as corpus:
        corpus.refresh()
        with watched(monkeypatch, heavy) as touched:
            assert corpus.refresh().indexed == 0
            assert corpus.status().changed_files == 0
            found = corpus.search("alpha", why_not="node_modules/p1/d1/1.js")
        assert set(touched["listed"]) == FOLDERS
        assert found.why_not is not None and found.why_not.reason == "ignored"


def test_a_folder_without_the_right_rule_is_entered(heavy, monkeypatch, tmp_path):
    """The watching works: with the rules off, the same folders are listed and the poison is found."""
    settings = settings_of(
        heavy, ignore__default_exclusions=False, ignore__patterns=("*.js",)
    )
    with watched(monkeypatch, heavy) as touched:
        dry_run(heavy, settings)
    assert "node_modules/p1/d1" in touched["listed"]
    assert "node_modules/.gitignore" in touched["seen"]


@pytest.mark.rows("C21")
@pytest.mark.parametrize(
    ("rule", "entered"),
    [
        ("node_modules/", False),
        ("node_modules", False),
        ("/node_modules/", False),
        ("**/node_modules/", False),
        ("node_modules/*", True),  # its content is ignored, the folder is not
        (
            "node_modules/\n!node_modules/keep.md",
            False,
        ),  # nothing below an ignored folder comes back
        ("node_modules/*\n!node_modules/keep.md", True),
    ],
)
def test_which_rules_close_a_folder(rule, entered, monkeypatch, tmp_path):
    """As git has it."""
    root = write_files(
        tmp_path,
        {
            "a.md": "alpha",
            "node_modules/keep.md": "alpha keep",
            "node_modules/x/b.md": "alpha",
        },
    )
    write_files(root, {".gitignore": rule})
    with watched(monkeypatch, root) as touched:
        taken, *_ = dry_run(root, settings_of(root, ignore__default_exclusions=False))
    assert ("node_modules" in touched["listed"]) == entered
    assert "node_modules/x" not in touched["listed"]
    assert set(taken) - {".gitignore"} == {"a.md"} | (
        {"node_modules/keep.md"} if "*\n!" in rule else set()
    )


# --- Long lists -------------------------------------------------------------------------------------------


def long_list() -> list[str]:
    """Ten thousand lines of every kind, and somewhere in them the few that matter."""
    lines = [f"name{n}.log" for n in range(3_000)]
    lines += [f"*.ext{n}" for n in range(2_000)]
    lines += [f"/lib/mod{n}/gen.py" for n in range(2_000)]
    lines += [f"build-{n}*/" for n in range(1_000)]
    lines += [f"**/deep{n}/**/x?.md" for n in range(500)]
    lines += [f"# a comment, number {n}" for n in range(990)] + [""] * 500
    lines.insert(4_000, "docs/*.md")
    lines.insert(6_000, "secret")
    lines += [
        "*.tmp.md",
        "!docs/keep.md",
        "!docs/name7.log",
        "/top.md",
        "!name8.log",
        "name8.log",
        "odd[0-9].md",
        "last.md",
    ]
    assert len(lines) == 10_000
    return lines


LONG = {
    "docs/a.md": False, "docs/keep.md": True, "docs/deeper/b.md": True, "name7.log": False,
    "docs/name7.log": True, "name8.log": False, "x/secret/c.md": False, "top.md": False, "x/top.md": True,
    "odd3.md": False, "oddx.md": True, "x/last.md": False, "y.ext1999": False, "y.ext2000": True,
    "lib/mod1999/gen.py": False, "lib/mod1999/gen2.py": True, "build-999x/d.md": False, "building/e.md": True,
    "q/deep7/r/s/x1.md": False, "q/deep7/r/s/x12.md": True, "z.tmp.md": False, "plain.md": True,
}  # fmt: skip


@pytest.mark.rows("R001-021")
@pytest.mark.parametrize("file", [".graphragignore", ".gitignore", ".ignore"])
def test_ten_thousand_lines(file, tmp_path):
    """Each line counts, and the last that matches decides."""
    root = write_files(tmp_path, {path: f"alpha {path}" for path in LONG})
    write_files(root, {file: "\n".join(long_list())})
    with open_corpus(root) as corpus:
        assert indexed(corpus) == {path for path, kept in LONG.items() if kept}
        report = corpus.refresh()
        assert report.warnings == ()
        rules = {item.path: item.detail for item in report.skipped}
        assert rules["x/last.md"] == f"last.md ({file}:10000)"
        assert rules["docs/a.md"] == f"docs/*.md ({file}:4001)"


def test_a_list_that_is_too_long_is_said(tmp_path):
    """An ignore file of megabytes is an accident: a warning, and the rest goes on."""
    root = write_files(
        tmp_path,
        {
            "a.md": "alpha",
            ".graphragignore": "a.md\n" * 250_000,
            ".gitignore": "b.md\n",
            "b.md": "x",
        },
    )
    with open_corpus(root) as corpus:
        assert indexed(corpus) == {"a.md"}
        (warning,) = corpus.refresh().warnings
        assert warning.startswith(".graphragignore is larger than")


# --- Includes that fail -----------------------------------------------------------------------------------

INCLUDES: dict[str, tuple[str, str]] = {
    "itself": (":include:.graphragignore", "it includes itself"),
    "itself by another way": (
        ":include:./docs/../.graphragignore",
        "it includes itself",
    ),
    "a circle": (":include:circle", "it includes itself"),
    "a folder": (":include:docs", "not a regular file"),
    "a binary": (":include:binary", "it is binary"),
    "a missing file": (":include:nowhere", "no such file"),
    "a file outside": (":include:../outside", "it leads out of the root"),
    "nothing": (":include:", "no such file"),
    "a pipe": (":include:pipe", "not a regular file"),
}


@pytest.fixture
def troubled(tmp_path) -> Path:
    root = write_files(
        tmp_path / "root",
        {
            "a.md": "alpha a",
            "b.md": "alpha b",
            "c.md": "alpha c",
            "docs/d.md": "alpha d",
            "binary": b"a.md\n\0",
            "circle": ":include:.graphragignore\n",
            "fine": "b.md\n",
        },
    )
    write_files(tmp_path, {"outside": "*\n"})
    os.mkfifo(root / "pipe")
    return root


@pytest.mark.rows("C32", "R001-005")
@pytest.mark.parametrize("kind", INCLUDES)
def test_an_include_that_fails_is_a_warning(kind, troubled, monkeypatch, capsys):
    """Said with its file and line, in the report and on the command line; the rest goes on."""
    line, reason = INCLUDES[kind]
    write_files(
        troubled,
        {
            ".graphragignore": f"# before\n/a.md\n{line}\n:include:fine\n/binary\n/circle\n/fine\n"
        },
    )
    with open_corpus(troubled) as corpus:
        assert indexed(corpus) == {"c.md", "docs/d.md"}
        (warning,) = corpus.refresh().warnings
        where = (
            "circle:1: :include:.graphragignore"
            if kind == "a circle"
            else f".graphragignore:3: {line}"
        )
        assert warning == f"{where} skipped: {reason}"
    monkeypatch.setenv("TAMIS_MODEL_NAME", "hashing")
    for form in (("--json",), ()):
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["index", str(troubled), *form])
        assert end.value.code == 0
        out = capsys.readouterr().out
        if form:
            assert json.loads(out)["warnings"] == [warning]
        else:
            assert f"warning: {warning}" in out


@pytest.mark.rows("C32")
def test_all_of_them_at_once(troubled):
    """Each is said, none stops the others, and what follows them counts."""
    lines = [line for line, _ in INCLUDES.values()]
    write_files(
        troubled,
        {
            ".graphragignore": "\n".join(
                (*lines, ":include:fine", "/c.md", "/circle", "/[!a-d]*")
            )
        },
    )
    with open_corpus(troubled) as corpus:
        assert indexed(corpus) == {"a.md", "docs/d.md"}
        said = corpus.refresh().warnings
    assert [warning.split(" skipped: ")[1] for warning in said] == [
        reason for _, reason in INCLUDES.values()
    ]


@pytest.mark.rows("C32", "R001-005")
def test_an_include_is_looked_for_beside_its_file_and_then_in_the_root(tmp_path):
    """Relative to the file that includes it first."""
    files = {
        ".graphragignore": ":include:rules/first\n",
        "rules/first": ":include:second\n:include:third\n/rules/\n/second\n/third\n",
        "rules/second": "a.md\n",
        "second": "b.md\n",
        "third": "c.md\n",
    }
    root = write_files(
        tmp_path, files | {f"{name}.md": f"alpha {name}" for name in "abcd"}
    )
    with open_corpus(root) as corpus:
        assert indexed(corpus) == {"b.md", "d.md"}
        assert corpus.refresh().warnings == ()
