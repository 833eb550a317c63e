"""Which changes are a sign, and which folders are watched: the same rules that a walk follows."""

import os
from pathlib import Path

import pytest

from support.corpora import write_files
from tamis.gitignore.rules import IgnoreOptions, open_rules
from tamis.ingest.walk import folders
from tamis.live.notices import Signs

FILES = {
    "docs/a.md": "x",
    "docs/deep/b.md": "x",
    "out/x/c.md": "x",
    "node_modules/p/d.md": "x",
    ".gitignore": "out/\n*.log\n",
    ".graphragignore": ":include:rules.hidden\n",
    "rules.hidden": "secret/\nrules.hidden\n",
    "secret/e.md": "x",
    "docs/.gitignore": "deep/\n!kept.log\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_files(tmp_path / "root", FILES).resolve()


def is_sign(root: Path, path: str, known: tuple[str, ...] = ()) -> bool:
    rules = open_rules(root, IgnoreOptions())
    ignoring = str(root / ".graphragignore")
    return Signs(root, rules, root / "idx", (ignoring, *known)).matters(
        os.path.join(root, path)
    )


@pytest.mark.parametrize(
    "path",
    [
        "docs/a.md",
        "docs/new.md",
        "docs/gone/below.md",
        "docs",
        "new-folder",
        "docs/kept.log",
        ".gitignore",
        "docs/.ignore",
        ".graphragignore",
        "rules.hidden",  # it ignores itself, and rules come from it
        "tamis.toml",
        "pyproject.toml",
        "",
    ],
)
def test_signs(root, path):
    assert is_sign(root, path)


@pytest.mark.parametrize(
    "path",
    [
        "docs/a.log",
        "docs/.a.md.swp",
        "docs/a.md~",
        "docs/deep/b.md",
        "docs/deep/.gitignore",
        "out",
        "out/x/c.md",
        "node_modules",
        "node_modules/p/d.md",
        "node_modules/p/.gitignore",
        "secret/e.md",
        ".git",
        ".git/index",
        ".git/HEAD",  # of no repository
        ".tamis/index.db",
        "idx/index.db",
        "../elsewhere.md",
        "../root-beside/a.md",
    ],
)
def test_no_signs(root, path):
    (root / ".git").mkdir()
    assert not is_sign(root, path)


def test_of_what_is_gone_it_is_not_known_what_it_was(root):
    assert is_sign(root, "docs/build"), (
        "a file of that name is not ignored; a folder would be"
    )
    (root / "docs/build").mkdir()
    assert not is_sign(root, "docs/build")


def test_files_elsewhere_that_matter(root, tmp_path):
    config = str(tmp_path / "other" / "my.toml")
    assert not is_sign(root, config)
    assert is_sign(root, config, (config,))
    assert is_sign(root, str(tmp_path / "other"), (config,))
    assert not is_sign(root, str(tmp_path / "other" / "else.toml"), (config,))


def test_watched_folders_are_those_that_a_walk_enters(root):
    places = sorted(
        os.path.relpath(place, root)
        for place in folders(root, open_rules(root, IgnoreOptions()))
    )
    assert places == [".", "docs"]


def test_folders_that_cannot_be_named_or_followed(root, tmp_path):
    (root / "link").symlink_to(tmp_path)
    try:
        os.mkdir(os.fsencode(root) + b"/dir\xfe")
    except OSError:
        pytest.skip("this file system has no such names")
    places = {
        os.path.relpath(place, root)
        for place in folders(root, open_rules(root, IgnoreOptions()))
    }
    assert places == {".", "docs"}
