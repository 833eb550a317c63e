"""The walk: everything below the root exactly once, nothing outside it, whatever stands in the way."""

import os
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from support.corpora import write_files
from tamis.errors import BadFolder
from tamis.gitignore.rules import IgnoreOptions, open_rules
from tamis.ingest.walk import Entry, checked_root, stamps, walk
from tamis.model import Skipped

UNPRIVILEGED = pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")


def walked(root: Path, options: IgnoreOptions | None = None) -> list[Entry | Skipped]:
    return list(
        walk(root, open_rules(root, options or IgnoreOptions()), lambda warning: None)
    )


def files(root: Path) -> list[str]:
    return [item.path for item in walked(root) if isinstance(item, Entry)]


def skipped(root: Path) -> dict[str, str]:
    return {
        item.path: item.reason for item in walked(root) if isinstance(item, Skipped)
    }


def test_every_file_once_with_what_the_system_says_of_it(tmp_path):
    write_files(
        tmp_path, {"b.md": "12345", "a/c.md": "1", "a/b/d.py": "", "empty.md": ""}
    )
    (tmp_path / "no files here").mkdir()
    found = {item.path: item for item in walked(tmp_path)}
    assert set(found) == {"b.md", "a/c.md", "a/b/d.py", "empty.md"}
    for path, item in found.items():
        status = (tmp_path / path).stat()
        assert item == Entry(
            path,
            str(tmp_path / path),
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_ino,
        )


def test_order_is_by_name_folder_by_folder(tmp_path):
    """The same on every machine: names compare by code point, a folder's content stands in its place."""
    write_files(
        tmp_path,
        dict.fromkeys(
            ["b.md", "B.md", "a/z.md", "a/a.md", "a.md", "é.md", "a-b.md", "10", "9"],
            "x",
        ),
    )
    assert files(tmp_path) == [
        "10",
        "9",
        "B.md",
        "a/a.md",
        "a/z.md",
        "a-b.md",
        "a.md",
        "b.md",
        "é.md",
    ]


@pytest.mark.rows("R001-023", "C19")
def test_an_ignored_folder_is_one_entry(tmp_path):
    """Pruned, not visited."""
    write_files(
        tmp_path, {"node_modules/a/b.md": "x", "node_modules/c.md": "x", "keep.md": "x"}
    )
    write_files(
        tmp_path,
        {"docs/.gitignore": "*.log\nout/\n", "docs/x.log": "x", "docs/out/y.md": "x"},
    )
    items = [item for item in walked(tmp_path) if isinstance(item, Skipped)]
    assert [(item.path, item.reason) for item in items] == [
        ("docs/.gitignore", "ignored"),
        ("docs/out/", "ignored"),
        ("docs/x.log", "ignored"),
        ("node_modules/", "ignored"),
    ]
    details = {item.path: item.detail for item in items}
    assert details["docs/x.log"] == "*.log (docs/.gitignore:1)"
    assert details["docs/out/"] == "out/ (docs/.gitignore:2)"
    assert details["node_modules/"].startswith("node_modules/ (built-in)")


@pytest.mark.rows("R001-014")
@pytest.mark.parametrize("name", [".git", ".svn", ".hg", ".jj", ".bzr"])
def test_version_control_is_never_walked(name, tmp_path):
    """Not even when every rule is switched off or asks for it."""
    write_files(
        tmp_path,
        {
            f"{name}/config.md": "x",
            f"sub/{name}/config.md": "x",
            ".gitignore": f"!{name}\n",
        },
    )
    options = IgnoreOptions(default_exclusions=False, extra=(f"!{name}/", f"!{name}"))
    found = [item.path for item in walked(tmp_path, options) if isinstance(item, Entry)]
    assert found == [".gitignore"]


def test_our_own_folder_is_never_walked_and_never_mentioned(tmp_path):
    write_files(
        tmp_path, {".tamis/index.md": "x", "sub/.tamis/index.md": "x", "a.md": "x"}
    )
    items = walked(
        tmp_path, IgnoreOptions(default_exclusions=False, extra=("!.tamis/",))
    )
    assert [item.path for item in items] == ["a.md"]


@pytest.mark.rows("C12")
def test_links_are_never_followed(tmp_path):
    """What a link inside shows is there already; what one outside shows is not ours."""
    root = write_files(tmp_path / "root", {"a.md": "x", "folder/b.md": "x"})
    outside = write_files(tmp_path / "outside", {"secret.md": "secret"})
    beside = write_files(tmp_path / "root2", {"near.md": "x"})
    links = {
        "to-file": root / "a.md",
        "to-folder": root / "folder",
        "folder/up": root,
        "folder/self": root / "folder" / "self",
        "out-file": outside / "secret.md",
        "out-folder": outside,
        "out-beside": beside,
        "nowhere": tmp_path / "missing",
        "nowhere-inside": root / "missing",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    assert files(root) == ["a.md", "folder/b.md"]
    assert skipped(root) == {
        "to-file": "link",
        "to-folder": "link",
        "folder/up": "link",
        "folder/self": "link",
        "out-file": "outside the root",
        "out-folder": "outside the root",
        "out-beside": "outside the root",
        "nowhere": "outside the root",
        "nowhere-inside": "link",
    }


def test_what_is_no_regular_file_is_never_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.md")
    address = socket.socket(socket.AF_UNIX)
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(tmp_path)  # a socket's address is short
        address.bind("socket.md")
    finally:
        os.fchdir(here)
        os.close(here)
        address.close()
    assert skipped(tmp_path) == {
        "pipe.md": "not a regular file",
        "socket.md": "not a regular file",
    }


@pytest.mark.rows("R000-074")
def test_names_that_are_no_text(tmp_path):
    """Shown so that somebody finds them, not indexed, no crash."""
    raw = os.fsencode(tmp_path)
    try:
        Path(os.fsdecode(raw + b"/bad\xff.md")).write_text("x")
    except OSError:
        pytest.skip("this file system has no such names")
    os.mkdir(raw + b"/dir\xfe")
    Path(os.fsdecode(raw + b"/dir\xfe/a.md")).write_text("x")
    write_files(tmp_path, {"good.md": "x"})
    assert files(tmp_path) == ["good.md"]
    found = [item for item in walked(tmp_path) if isinstance(item, Skipped)]
    assert [item.reason for item in found] == ["unreadable", "unreadable"]
    for item in found:
        item.path.encode("utf-8")
        assert "not valid UTF-8" in item.detail


@pytest.mark.parametrize(
    "name",
    [
        "new\nline.md",
        "tab\t.md",
        " blank .md",
        "back\\slash.md",
        "-dash.md",
        "e\u0301.md",
    ],
)
def test_odd_names_are_names(name, tmp_path):
    write_files(tmp_path, {name: "x"})
    assert files(tmp_path) == [name]


def test_deep_folders(tmp_path):
    deep = "/".join(["d"] * 150)
    write_files(tmp_path, {f"{deep}/a.md": "x"})
    assert files(tmp_path) == [f"{deep}/a.md"]


def test_folders_deeper_than_python_calls(tmp_path):
    root = tmp_path / "root"
    folders = [root, *(root / "/".join(["d"] * depth) for depth in range(1, 701))]
    for folder in folders:
        folder.mkdir()
    write_files(root, {"a.md": "x", "e.md": "x"})
    (folders[-1] / "deep.md").write_text("x")
    try:
        assert files(root) == ["a.md", "/".join(["d"] * 700) + "/deep.md", "e.md"]
    finally:
        (folders[-1] / "deep.md").unlink()
        for folder in reversed(folders[1:]):  # pytest would remove them call by call
            folder.rmdir()


@pytest.mark.parametrize(
    ("nanoseconds", "stored"),
    [
        (0, 0),
        (-1, -1),
        (2**63 - 1, 2**63 - 1),
        (2**63, 2**63 - 1),
        (-(2**63), -(2**63 - 1)),
        (10**30, 2**63 - 1),
        (-(10**30), -(2**63 - 1)),
    ],
)
def test_a_time_fits_the_store(nanoseconds, stored):
    for modified, changed in (
        (nanoseconds, 5),
        (5, nanoseconds),
        (nanoseconds, nanoseconds),
    ):
        status = SimpleNamespace(
            st_size=7, st_mtime_ns=modified, st_ctime_ns=changed, st_ino=8
        )
        kept = {nanoseconds: stored, 5: 5}
        assert stamps(status) == (7, kept[modified], kept[changed], 8)


def test_a_files_number_fits_the_store():
    status = SimpleNamespace(st_size=7, st_mtime_ns=1, st_ctime_ns=2, st_ino=2**64 - 1)
    assert stamps(status) == (7, 1, 2, 2**63 - 1)


@UNPRIVILEGED
def test_a_folder_that_may_not_be_read(tmp_path):
    write_files(tmp_path, {"closed/a.md": "x", "open.md": "x"})
    (tmp_path / "closed").chmod(0)
    try:
        assert files(tmp_path) == ["open.md"]
        assert skipped(tmp_path) == {"closed/": "unreadable"}
    finally:
        (tmp_path / "closed").chmod(0o700)


def test_a_folder_that_vanishes_under_way(tmp_path):
    write_files(tmp_path, {"a/x.md": "x", "b/y.md": "x", "c.md": "x"})
    items = walk(tmp_path, open_rules(tmp_path, IgnoreOptions()), lambda warning: None)
    first = next(items)
    (tmp_path / "b" / "y.md").unlink()
    (tmp_path / "b").rmdir()
    rest = list(items)
    assert [item.path for item in (first, *rest) if isinstance(item, Entry)] == [
        "a/x.md",
        "c.md",
    ]
    assert [(item.path, item.reason) for item in rest if isinstance(item, Skipped)] == [
        ("b/", "unreadable")
    ]


@pytest.mark.rows("R001-020")
def test_an_ignore_file_that_cannot_be_used_is_said_once(tmp_path):
    """No bad ignore file is a silence, wherever in the tree it stands."""
    root = write_files(
        tmp_path / "root", {"docs/a.md": "x", "docs/deep/b.md": "x", "c.md": "x"}
    )
    secret = write_files(tmp_path, {"secret": "*.md\n"}) / "secret"
    (root / "docs" / ".gitignore").symlink_to(secret)
    warnings: list[str] = []
    found = list(walk(root, open_rules(root, IgnoreOptions()), warnings.append))
    assert [item.path for item in found if isinstance(item, Entry)] == [
        "c.md",
        "docs/a.md",
        "docs/deep/b.md",
    ]
    assert len(warnings) == 1
    assert "docs/.gitignore" in warnings[0]


# --- The root ---------------------------------------------------------------------------


def test_a_root_is_a_folder_without_links(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert checked_root(tmp_path / "link") == (tmp_path / "real").resolve()
    assert (
        checked_root(str(tmp_path / "real" / ".." / "real"))
        == (tmp_path / "real").resolve()
    )


def test_what_is_no_root(tmp_path):
    (tmp_path / "file.md").write_text("x")
    for path, said in (("missing", "does not exist"), ("file.md", "is a file")):
        with pytest.raises(BadFolder, match=said) as caught:
            checked_root(tmp_path / path)
        assert caught.value.hint


@UNPRIVILEGED
def test_a_root_that_may_not_be_read(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    with pytest.raises(BadFolder, match="permission denied"):
        checked_root(closed)


@UNPRIVILEGED
def test_a_root_below_a_folder_that_may_not_be_entered(tmp_path):
    closed = tmp_path / "closed"
    (closed / "docs").mkdir(parents=True)
    closed.chmod(0)
    try:
        with pytest.raises(BadFolder, match="permission denied") as caught:
            checked_root(closed / "docs")
    finally:
        closed.chmod(0o700)
    assert "above" in caught.value.hint


@pytest.mark.parametrize(
    "error",
    [PermissionError(13, "Permission denied"), OSError(5, "Input/output error")],
)
def test_whatever_the_system_says_of_a_root_is_a_fault_of_ours(
    error, tmp_path, monkeypatch
):
    """As above, for whoever may enter every folder: the system's answer is put in its mouth."""

    def refuse(*_, **__):
        raise error

    monkeypatch.setattr("os.stat", refuse)
    with pytest.raises(
        BadFolder, match=f"(?i)cannot be reached: {error.strerror}"
    ) as caught:
        checked_root(tmp_path)
    assert caught.value.hint
    assert caught.value.__cause__ is error


def test_a_root_that_no_system_can_look_for(tmp_path):
    """A name that is too long, and the home of nobody."""
    with pytest.raises(BadFolder, match="cannot be reached"):
        checked_root(tmp_path / ("x" * 5000))
    with pytest.raises(BadFolder, match="does not exist"):
        checked_root("~nobody-of-that-name/docs")
