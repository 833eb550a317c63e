"""The script that fetches code corpora: what it unpacks, where it puts it, and what it says. No network."""

import io
import json
import os
import stat
import sys
import tarfile
from pathlib import Path

import pytest

from support.corpora import SHARED, load_benchmark, write_files, write_judged

fetch_code = load_benchmark("fetch_code")
CODE = SHARED / "data" / "code"
LINKS = {
    "a symbolic link out": (tarfile.SYMTYPE, "/etc/passwd"),
    "a symbolic link up": (tarfile.SYMTYPE, "../../outside"),
    "a hard link out": (tarfile.LNKTYPE, "../outside"),
    "a device": (tarfile.CHRTYPE, ""),
    "a pipe": (tarfile.FIFOTYPE, ""),
}


def archive(files, links=()):
    """A tar in memory; links are (name, type, target)."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for name, kind, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            tar.addfile(member)
    packed.seek(0)
    return tarfile.open(fileobj=packed)


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(f.relative_to(root)): f.read_bytes()
        for f in sorted(root.rglob("*"))
        if f.is_file()
    }


def test_an_archive_becomes_its_files(tmp_path):
    packed = archive({"a/b.py": b"1", "./c.py": b"2", "a/empty": b""})
    assert (
        fetch_code.write_tree(fetch_code.in_tar(packed), tmp_path, lambda path: path)
        == 3
    )
    assert tree(tmp_path) == {"a/b.py": b"1", "a/empty": b"", "c.py": b"2"}


@pytest.mark.parametrize(
    "name", ["../evil", "a/../../evil", "/evil", "a\\..\\evil", "a/..", "..\\evil"]
)
def test_a_path_that_leads_out_refuses_the_archive(tmp_path, name):
    inner = tmp_path / "inner"
    inner.mkdir()
    packed = archive({"good.py": b"1", name: b"evil"})
    with pytest.raises(fetch_code.Refused, match="elsewhere"):
        fetch_code.write_tree(fetch_code.in_tar(packed), inner, lambda path: path)
    assert [path.name for path in tmp_path.iterdir()] == ["inner"]
    assert set(tree(inner)) <= {"good.py"}


@pytest.mark.parametrize("what", LINKS)
def test_links_and_devices_are_left_out(tmp_path, what):
    """Also as the folder of a later file: it becomes a real one, and nothing is written through a link."""
    outside = tmp_path / "outside"
    outside.mkdir()
    kind, target = LINKS[what]
    packed = archive(
        {"a.py": b"1"},
        [("d", kind, target), ("d/passwd", tarfile.SYMTYPE, str(outside))],
    )
    fetch_code.write_tree(
        fetch_code.in_tar(packed), tmp_path / "inner", lambda path: path
    )
    assert tree(tmp_path / "inner") == {"a.py": b"1"}
    assert not any(os.path.islink(path) for path in tmp_path.rglob("*"))
    assert not list(outside.iterdir())


def test_nothing_keeps_the_rights_that_an_archive_gives(tmp_path):
    member = tarfile.TarInfo("run.sh")
    member.mode, member.size = 0o6777, 1
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(member, io.BytesIO(b"1"))
    packed.seek(0)
    with tarfile.open(fileobj=packed) as tar:
        fetch_code.write_tree(fetch_code.in_tar(tar), tmp_path, lambda path: path)
    assert not (tmp_path / "run.sh").stat().st_mode & (stat.S_ISUID | stat.S_IXUSR)


@pytest.mark.parametrize(("bound", "value"), [("MAX_FILES", 2), ("MAX_BYTES", 5)])
def test_too_much_is_refused_before_it_is_read(monkeypatch, bound, value):
    monkeypatch.setattr(fetch_code, bound, value)
    packed = archive({"a": b"11", "b": b"22", "c": b"33"})
    monkeypatch.setattr(
        tarfile.TarFile, "extractfile", counted := Counted(packed.extractfile)
    )
    with pytest.raises(fetch_code.Refused, match="more than"):
        list(fetch_code.in_tar(packed))
    assert counted.calls == 2


class Counted:
    def __init__(self, real):
        self.real, self.calls = real, 0

    def __call__(self, member):
        self.calls += 1
        return self.real(member)


@pytest.mark.parametrize(
    ("name", "path", "place"),
    [
        ("requests", "requests-2.33.1/src/requests/api.py", "src/requests/api.py"),
        ("requests", "requests-2.33.1/tests/test_api.py", None),
        ("requests", "requests-2.33.1/src/requests.py", None),
        ("requests", "stray.py", None),
        ("zod", "package/src/v4/core/api.ts", "packages/zod/src/v4/core/api.ts"),
        ("zod", "package/v4/core/api.js", None),
        ("axum", "usr/share/cargo/registry/axum-0.9.1/src/json.rs", "axum/src/json.rs"),
        ("axum", "usr/share/cargo/registry/other-0.9.1/src/json.rs", None),
        (
            "cobra",
            "usr/share/gocode/src/github.com/spf13/cobra/doc/md_docs.go",
            "doc/md_docs.go",
        ),
        ("swe-requests", "requests/requests/models.py", "requests/models.py"),
        ("swe-requests", "requests/requests/packages/chardet/big5.py", None),
        ("swe-requests", "requests/requests/cacert.pem", None),
        ("swe-xarray", "xarray-0.12.3/xarray/tests/test_dtypes.py", None),
    ],
)
def test_files_get_the_places_that_the_repository_has(name, path, place):
    corpus = fetch_code.CORPORA[name]
    assert fetch_code.laid_out(path, corpus.releases[0], corpus, whole=False) == place


def test_whole_keeps_tests_and_documents():
    corpus = fetch_code.CORPORA["requests"]
    path = "requests-2.33.1/tests/test_api.py"
    assert (
        fetch_code.laid_out(path, corpus.releases[0], corpus, whole=True)
        == "tests/test_api.py"
    )


def scripted(monkeypatch, answers):
    """Releases answer from a table of version -> files or error; what was asked for is recorded."""
    asked = []

    def fetched(release, folder):
        asked.append(release.version)
        answer = answers[release.version]
        if isinstance(answer, Exception):
            raise answer
        return answer[0], iter(answer[1].items())

    monkeypatch.setattr(fetch_code, "fetched", fetched)
    return asked


def corpus_of(*versions):
    releases = tuple(
        fetch_code.Release("npm", "thing", version) for version in versions
    )
    return fetch_code.Corpus(releases, "lib")


def test_what_is_there_is_kept(monkeypatch, tmp_path):
    asked = scripted(
        monkeypatch, {"1": ("1", {"package/lib/a.js": b"a", "package/test/t.js": b"t"})}
    )
    monkeypatch.setitem(fetch_code.CORPORA, "thing", corpus_of("1"))
    assert fetch_code.fetch("thing", tmp_path, whole=False) == "thing 1, lib alone"
    assert tree(tmp_path / "thing") == {"lib/a.js": b"a"}
    assert (
        fetch_code.fetch("thing", tmp_path, whole=False)
        == "thing 1, lib alone, from before"
    )
    assert asked == ["1"]


def test_the_next_release_is_taken_and_another_version_is_said(monkeypatch, tmp_path):
    answers = {
        "2": fetch_code.Refused("it is gone"),
        "1": ("1.1", {"package/lib/a.js": b"a"}),
    }
    scripted(monkeypatch, answers)
    monkeypatch.setitem(fetch_code.CORPORA, "thing", corpus_of("2", "1"))
    assert (
        fetch_code.fetch("thing", tmp_path, whole=False)
        == "thing 1.1 (instead of 1), lib alone"
    )


@pytest.mark.parametrize(
    "answer",
    [
        fetch_code.Refused("the registry cannot be reached"),
        ("1", {"package/other/a.js": b"a"}),
        ("1", {"package/lib/a": b"a", "package/lib/a/b": b"a file is a folder"}),
    ],
    ids=["unreached", "nothing in it", "contradiction"],
)
def test_what_fails_leaves_nothing_behind(monkeypatch, tmp_path, answer):
    scripted(monkeypatch, {"1": answer})
    monkeypatch.setitem(fetch_code.CORPORA, "thing", corpus_of("1"))
    with pytest.raises(fetch_code.Refused, match="thing 1"):
        fetch_code.fetch("thing", tmp_path, whole=False)
    assert not list(tmp_path.iterdir())


def test_the_report_counts_paths_and_questions(monkeypatch, tmp_path, capsys):
    questions = [{"_id": "q1", "text": "one"}, {"_id": "q2", "text": "two"}]
    judgements = [("q1", "lib/a.js", 1), ("q2", "lib/gone.js", 1)]
    write_judged(tmp_path / "sets" / "semble" / "thing", None, questions, judgements)
    monkeypatch.setattr(
        fetch_code, "CORPORA", {"thing": corpus_of("1"), "other": corpus_of("2")}
    )
    files = {"package/lib/a.js": b"a", "package/lib/b.js": b"b"}
    scripted(monkeypatch, {"1": ("1", files), "2": fetch_code.Refused("it is gone")})
    options = ["--to", str(tmp_path / "to"), "--sets", str(tmp_path / "sets"), "--json"]
    monkeypatch.setattr(
        sys, "argv", ["fetch_code.py", *options, "thing", "other", "dapper"]
    )
    assert fetch_code.main() == 1
    first, second, third = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["files"], first["paths"], first["questions"]) == (2, "1/2", "1/2")
    assert "it is gone" in second["missing"]
    assert third == {"set": "dapper", "missing": fetch_code.REACHED}


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("npm error code ECONNREFUSED", "cannot be reached"),
        ("W: x\nE: Failed to fetch y  Could not resolve 'z'", "cannot be reached"),
        (
            "WARNING: old\nERROR: No matching distribution found for x",
            "ERROR: No matching",
        ),
        ("", "without a word"),
    ],
)
def test_a_client_that_fails_says_why(tmp_path, printed, said):
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.stderr.write({printed!r}); sys.exit(3)",
    ]
    with pytest.raises(fetch_code.Refused, match=said):
        fetch_code.run(command, tmp_path)
    with pytest.raises(fetch_code.Refused, match="not on this machine"):
        fetch_code.run(["no-such-package-client"], tmp_path)


def test_the_unpacked_folder_of_a_failed_setup_is_read_like_an_archive(tmp_path):
    write_files(tmp_path, {"setup.py": "x", "requests/api.py": "y"})
    (tmp_path / "link.py").symlink_to("/etc/passwd")
    assert dict(fetch_code.in_folder(tmp_path)) == {
        "setup.py": b"x",
        "requests/api.py": b"y",
    }


@pytest.mark.skipif(not CODE.is_dir(), reason="the shared judged sets are not here")
def test_every_code_set_is_accounted_for():
    sets = {folder.parent.name for folder in CODE.rglob("qrels.tsv")}
    assert fetch_code.CORPORA.keys() | fetch_code.NOT_TO_BE_HAD.keys() == sets
    assert not fetch_code.CORPORA.keys() & fetch_code.NOT_TO_BE_HAD.keys()


@pytest.mark.skipif(not CODE.is_dir(), reason="the shared judged sets are not here")
@pytest.mark.parametrize("name", fetch_code.CORPORA)
def test_judged_paths_are_in_the_judged_folder(name):
    lines = (
        (fetch_code.set_folder(name, CODE) / "qrels.tsv")
        .read_text("utf-8")
        .splitlines()[1:]
    )
    corpus = fetch_code.CORPORA[name]
    assert all(fetch_code._is_judged(line.split("\t")[1], corpus) for line in lines)
