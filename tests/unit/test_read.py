"""Reading: every encoding people have, line ends, and files that are not what they were."""

import codecs
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tamis.gitignore.rules import IgnoreOptions, open_rules
from tamis.ingest.read import Source, decode, read
from tamis.ingest.walk import Entry, walk
from tamis.model import Skipped
from tamis.text.words import content_hash

LAW = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a noisy machine is no fault

LIMIT = 10_000


def entry_of(file: Path, size: int | None = None) -> Entry:
    status = file.lstat()
    return Entry(
        file.name,
        str(file),
        status.st_size if size is None else size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
    )


def file_with(folder: Path, data: bytes) -> Path:
    file = folder / "a.md"
    file.write_bytes(data)
    return file


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"", "", id="empty"),
        pytest.param(b"plain", "plain", id="ASCII"),
        pytest.param("Grüße 東京 🎉".encode(), "Grüße 東京 🎉", id="UTF-8"),
        pytest.param(codecs.BOM_UTF8 + "é".encode(), "é", id="UTF-8 with a mark"),
        pytest.param("é東🎉".encode("utf-16"), "é東🎉", id="UTF-16 as Python writes it"),
        pytest.param(codecs.BOM_UTF16_LE + "é東🎉".encode("utf-16-le"), "é東🎉", id="UTF-16 LE"),
        pytest.param(codecs.BOM_UTF16_BE + "é東🎉".encode("utf-16-be"), "é東🎉", id="UTF-16 BE"),
        pytest.param(codecs.BOM_UTF32_LE + "é東🎉".encode("utf-32-le"), "é東🎉", id="UTF-32 LE"),
        pytest.param(codecs.BOM_UTF32_BE + "é東🎉".encode("utf-32-be"), "é東🎉", id="UTF-32 BE"),
        pytest.param(codecs.BOM_UTF8, "", id="a mark alone"),
        pytest.param(b"a\r\nb\r\n", "a\nb\n", id="Windows lines"),
        pytest.param(b"a\rb\r", "a\nb\n", id="old Mac lines"),
        pytest.param(b"a\r\n\rb\n\r", "a\n\nb\n\n", id="all kinds of lines"),
        pytest.param("a\r\nb".encode("utf-16"), "a\nb", id="Windows lines in UTF-16"),
        pytest.param(b"tab\tpage\x0cbell\x1b[1m bold words", "tab\tpage\x0cbell\x1b[1m bold words", id="ESC"),
        pytest.param(b"some words and a \x07", "some words and a \x07", id="a stray control"),
    ],
)  # fmt: skip
def test_text(data, text):
    assert decode(data) == (text, "")


@pytest.mark.parametrize(
    ("data", "text", "said"),
    [
        pytest.param(b"caf\xe9 na\xefve", "café naïve", "Windows-1252", id="Latin 1"),
        pytest.param(b"\x93quoted\x94 \x80 5", "“quoted” € 5", "Windows-1252", id="Windows-1252"),
        pytest.param(b"\x81 undefined", "\ufffd undefined", "Windows-1252", id="a byte 1252 has not"),
        pytest.param("größer ß".encode() + b"\nx \xff\n", "größer ß\nx \ufffd\n", "line 2", id="a hole"),
        pytest.param("日本".encode()[:-1], "日\ufffd", "line 1", id="the last character cut off"),
        pytest.param(codecs.BOM_UTF8 + b"a\xffb", "a\ufffdb", "UTF-8", id="broken after a mark"),
        pytest.param(codecs.BOM_UTF16_LE + b"a\0b", "a\ufffd", "UTF-16", id="half a character of UTF-16"),
    ],
)  # fmt: skip
def test_damaged_text_is_read_with_a_warning(data, text, said):
    found = decode(data)
    assert found is not None
    assert found[0] == text
    assert said in found[1]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", id="an image"),
        pytest.param(b"text\0text", id="a NUL"),
        pytest.param("no mark".encode("utf-16-le"), id="UTF-16 without its mark"),
        pytest.param(b"x" * 8000 + b"\0", id="a NUL further on"),
        pytest.param(bytes(range(1, 32)) * 4, id="control noise"),
        pytest.param(b"abc\x01\x02" * 20, id="a fifth of controls"),
        pytest.param(
            codecs.BOM_UTF16_LE + b"\x01\0\x02\0\0\0a\0" * 20, id="numbers after a mark"
        ),
        pytest.param(
            codecs.BOM_UTF16_BE + b"\xdc\x01" * 20, id="no UTF-16 after its mark"
        ),
        pytest.param(
            codecs.BOM_UTF32_LE + b"\xff\xfe\xfd\xfc" * 20,
            id="no UTF-32 after its mark",
        ),
        pytest.param(codecs.BOM_UTF8 + b"\xff\0" * 20, id="no UTF-8 after its mark"),
    ],
)
def test_binary(data, tmp_path):
    assert decode(data) is None
    assert read(entry_of(file_with(tmp_path, data)), LIMIT) == Skipped("a.md", "binary")


@LAW
@given(st.binary(max_size=300))
def test_no_bytes_raise(data):
    found = decode(data)
    assert found is None or ("\r" not in found[0] and isinstance(found[1], str))


@LAW
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=100))
@example("a replacement character that was \ufffd there")
def test_what_was_written_is_read(text):
    """In every encoding that says what it is."""
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        if encoding != "utf-8" or not text.startswith("\ufeff"):
            assert decode(text.encode(encoding)) == (text, "")


def test_a_file(tmp_path):
    data = "é\r\nb\r\n".encode()
    file = file_with(tmp_path, data)
    status = file.stat()
    source = read(entry_of(file), LIMIT)
    assert isinstance(source, Source)
    assert (source.path, source.text, source.warning) == ("a.md", "é\nb\n", "")
    assert source.hash == content_hash(data)
    assert (source.size, source.mtime_ns, source.ctime_ns) == (
        7,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
    assert source.inode == status.st_ino
    assert source.read_ns >= status.st_ctime_ns


def test_a_file_of_the_far_future_is_the_one_the_walk_saw(tmp_path, monkeypatch):
    """Few file systems have times that far away: here the end of time is in 1970."""
    monkeypatch.setattr("tamis.ingest.walk.FARTHEST", 10)
    file_with(tmp_path, b"x")
    (entry,) = walk(
        tmp_path, open_rules(tmp_path, IgnoreOptions()), lambda warning: None
    )
    assert isinstance(entry, Entry)
    source = read(entry, LIMIT)
    assert isinstance(source, Source)
    assert (
        (source.mtime_ns, source.ctime_ns)
        == (entry.mtime_ns, entry.ctime_ns)
        == (10, 10)
    )
    assert source.inode == entry.inode


def test_a_folder_that_became_a_link_since_it_was_seen(tmp_path):
    """The last name is not followed by the system, the names before it are."""
    root = tmp_path / "root"
    (root / "docs").mkdir(parents=True)
    entry = entry_of(file_with(root / "docs", b"ours"))._replace(path="docs/a.md")
    outside = tmp_path / "outside"
    outside.mkdir()
    secret = file_with(outside, b"secret")
    (root / "docs").rename(root / "moved")
    (root / "docs").symlink_to(outside)
    assert read(entry, LIMIT) == Skipped(
        "docs/a.md", "outside the root", f"now a link to {secret}"
    )


@pytest.mark.parametrize(("size", "taken"), [(99, True), (100, True), (101, False)])
def test_too_large(size, taken, tmp_path):
    outcome = read(entry_of(file_with(tmp_path, b"x" * size)), 100)
    assert isinstance(outcome, Source) is taken
    if not taken:
        assert outcome == Skipped(
            "a.md", "too large", "101 bytes; index.max_file_bytes is 100"
        )


def test_a_huge_limit_sets_no_memory_aside(tmp_path):
    """A limit is no promise: a read must not ask for as much as the limit allows."""
    source = read(entry_of(file_with(tmp_path, b"small")), 10**19)
    assert isinstance(source, Source)
    assert source.text == "small"


def test_it_grew_beyond_the_limit_since_it_was_seen(tmp_path):
    file = file_with(tmp_path, b"x" * 50)
    entry = entry_of(file)
    file.write_bytes(b"x" * 500)
    outcome = read(entry, 100)
    assert isinstance(outcome, Skipped)
    assert outcome.reason == "too large"


def test_it_changed_since_it_was_seen(tmp_path):
    """What is recorded belongs to the bytes that were read, not to what the walk saw."""
    file = file_with(tmp_path, b"before")
    entry = entry_of(file)
    file.write_bytes(b"afterwards")
    os.utime(file, ns=(1, 1))
    source = read(entry, LIMIT)
    assert isinstance(source, Source)
    assert (source.text, source.size, source.mtime_ns) == ("afterwards", 10, 1)


def vanish(file: Path) -> None:
    file.unlink()


def become_a_link(file: Path) -> None:
    secret = file.with_name("secret")
    secret.write_text("secret")
    file.unlink()
    file.symlink_to(secret)


def become_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def become_a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize(
    "change", [vanish, become_a_link, become_a_pipe, become_a_folder]
)
def test_it_became_something_else_since_it_was_seen(change, tmp_path):
    """Never a crash, never a read through a link, never a wait for somebody to write into a pipe."""
    file = file_with(tmp_path, b"before")
    entry = entry_of(file)
    change(file)
    outcome = read(entry, LIMIT)
    assert isinstance(outcome, Skipped)
    assert outcome.reason == "unreadable"
    assert outcome.detail


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission(tmp_path):
    file = file_with(tmp_path, b"before")
    file.chmod(0)
    assert read(entry_of(file), LIMIT) == Skipped(
        "a.md", "unreadable", "Permission denied"
    )
