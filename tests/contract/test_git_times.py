"""Commit times against git itself, and what a hostile or unusual repository makes of them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.corpora import open_corpus, test_settings, write_files
from tamis.corpus import Corpus, index_directory
from tamis.ingest import git_dates
from tamis.ingest.parse import parse
from tamis.model import iso_time

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None, reason="git is not installed"
)

DAY = 86_400
START = 1_700_000_000
WHO = {
    f"GIT_{role}_{what}": f"{role}@example.org"
    for role in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}


class Repository:
    """A repository whose commits are a day apart. Files are stamped long after all of them."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.day = 0
        top.mkdir(parents=True, exist_ok=True)
        self("init", "-q", "-b", "main")
        self("config", "core.autocrlf", "false")

    def __call__(self, *arguments: str) -> str:
        moment = f"{START + self.day * DAY} +0000"
        dates = {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}
        done = subprocess.run(
            ["git", *arguments], cwd=self.top, check=True, capture_output=True, text=True,
            env={**os.environ, **WHO, **dates},
        )  # fmt: skip
        return done.stdout

    def commit(self, **files: str) -> None:
        self.day += 1
        write_files(
            self.top,
            {name.replace("__", "/") + ".md": text for name, text in files.items()},
        )
        self("add", "-A")
        self("commit", "-q", "--allow-empty", "-m", "x")

    def said(self, path: str) -> str:
        """What git itself says about a file's last commit."""
        return iso_time(float(self("log", "-1", "--format=%ct", "--", path)))


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path / "root")


def dates(corpus: Corpus) -> dict[str, str]:
    return {
        result.path: result.modified
        for result in corpus.search("alpha", limit=50).results
    }


def own_date(file: Path) -> str:
    return iso_time(file.stat().st_mtime)


def rebuilt(root: Path, aside: Path, **flags: object) -> dict[str, str]:
    shutil.rmtree(aside, ignore_errors=True)
    settings = test_settings(root, index__directory=str(aside), **flags)
    with Corpus(root, index_directory(root, settings, None), settings) as corpus:
        corpus.refresh()
        return dates(corpus)


@pytest.mark.rows("C29")
def test_a_document_is_dated_by_its_last_commit(repository):
    """Front matter, then git, then the file's own time."""
    repository.commit(
        a="alpha one", b="alpha two", c="---\ndate: 2020-02-02\n---\nalpha three"
    )
    repository.commit(b="alpha two changed")
    write_files(repository.top, {"new.md": "alpha not tracked"})
    with open_corpus(repository.top) as corpus:
        found = dates(corpus)
    assert found == {
        "a.md": iso_time(START + DAY),
        "b.md": iso_time(START + 2 * DAY),
        "c.md": "2020-02-02T00:00:00Z",
        "new.md": own_date(repository.top / "new.md"),
    }
    assert found["a.md"] == repository.said("a.md") and found[
        "b.md"
    ] == repository.said("b.md")


def test_date_filters_mean_the_same_date(repository):
    repository.commit(a="alpha one")
    repository.day = 400
    repository.commit(b="alpha two")
    with open_corpus(repository.top) as corpus:
        early = corpus.search("alpha", modified_before="2024-06-01").results
        assert [result.path for result in early] == ["a.md"]


def test_what_is_changed_or_staged_has_its_own_time(repository):
    repository.commit(a="alpha one", b="alpha two", c="alpha three", d="alpha four")
    write_files(
        repository.top,
        {"a.md": "alpha one, edited", "b.md": "alpha two, staged", "e.md": "alpha new"},
    )
    repository("add", "b.md", "e.md")
    os.utime(
        repository.top / "c.md", (START + 99 * DAY, START + 99 * DAY)
    )  # touched: git has not looked yet
    with open_corpus(repository.top) as corpus:
        found = dates(corpus)
    for name in ("a.md", "b.md", "c.md", "e.md"):
        assert found[name] == own_date(repository.top / name), name
    assert found["d.md"] == repository.said("d.md")


def test_merges_and_contents_that_come_back(repository):
    """The newest commit that gave a file the content it has; a merge's own content is the merge's."""
    lines = [f"alpha {number}" for number in range(20)]
    repository.commit(a="\n".join(lines), b="alpha first")
    repository("checkout", "-q", "-b", "side")
    repository.commit(a="\n".join([*lines[:-1], "omega"]), c="alpha side")
    repository("checkout", "-q", "main")
    repository.commit(a="\n".join(["omega", *lines[1:]]), b="alpha second")
    repository.day += 1
    repository("merge", "-q", "side", "-m", "m")
    repository.commit(b="alpha first")  # as it was in the beginning
    with open_corpus(repository.top) as corpus:
        found = dates(corpus)
    assert found == {name: repository.said(name) for name in ("a.md", "b.md", "c.md")}
    assert found == {
        "a.md": iso_time(START + 4 * DAY),
        "b.md": iso_time(START + 5 * DAY),
        "c.md": iso_time(START + 2 * DAY),
    }


def test_a_root_inside_a_repository_and_odd_names(repository):
    names = {
        f"docs/{name}.md": f"alpha beta gamma delta {name}"
        for name in ("plain", "with blank", "ünï", "a\nb", ":x", "\x01y")
    }
    write_files(repository.top, {**names, "outside.md": "alpha outside"})
    repository.commit()
    with open_corpus(repository.top / "docs") as corpus:
        found = dates(corpus)
    assert found == {
        name.removeprefix("docs/"): iso_time(START + DAY) for name in names
    }


def test_a_shallow_clone_has_the_time_of_its_last_commit(repository, tmp_path):
    repository.commit(a="alpha one")
    repository.commit(b="alpha two")
    target = tmp_path / "clone"
    subprocess.run(
        ["git", "clone", "-q", "--depth", "1", f"file://{repository.top}", target],
        check=True,
    )
    with open_corpus(target) as corpus:
        assert dates(corpus) == dict.fromkeys(
            ("a.md", "b.md"), iso_time(START + 2 * DAY)
        )


@pytest.mark.rows("R000-036")
def test_an_incremental_index_has_the_dates_of_a_rebuilt_one(repository, tmp_path):
    """After commits, resets, checkouts, staging and edits; and nothing is embedded again."""
    top, do = repository.top, repository
    do.commit(a="alpha one", b="alpha two", own="---\ndate: 2020-02-02\n---\nalpha own")

    def commit_edit():
        do.commit(a="alpha one, edited and indexed before")

    steps = {
        "edit": lambda: write_files(
            top, {"a.md": "alpha one, edited and indexed before"}
        ),
        "commit what was edited": commit_edit,
        "another file": lambda: do.commit(d="alpha four"),
        "take it back, softly": lambda: do("reset", "-q", "--soft", "HEAD~1"),
        "commit again, later": lambda: do.commit(),
        "touch": lambda: os.utime(top / "b.md", (START + 77 * DAY, START + 77 * DAY)),
        "let git look": lambda: do("status"),
        "forget": lambda: do("rm", "-q", "--cached", "b.md"),
        "remember": lambda: do("reset", "-q"),
        "go back": lambda: do("checkout", "-q", "-b", "side", "HEAD~2"),
        "amend": lambda: (
            do.commit(a="alpha aside"),
            do("commit", "-q", "--amend", "-m", "y"),
        ),
        "and forth": lambda: do("checkout", "-q", "main"),
        "merge": lambda: do("merge", "-q", "-s", "ours", "side", "-m", "m"),
    }
    seen = []
    with open_corpus(top) as corpus:
        for name, step in steps.items():
            step()
            changed = {"edit", "another file", "go back", "amend", "and forth"}
            report = corpus.refresh()
            assert report.seen == report.indexed + report.unchanged + len(
                report.skipped
            )
            assert bool(report.indexed) == (name in changed), name
            assert dates(corpus) == rebuilt(top, tmp_path / "aside"), name
            seen.append(tuple(dates(corpus).items()))
            assert corpus.refresh().unchanged == len(dates(corpus)), name
    assert len(set(seen)) > 7, "the dates moved"


def test_documents_with_dates_of_their_own_are_not_read_again_after_each_commit(
    repository, monkeypatch
):
    own = {
        f"own{number}": f"---\ndate: 2020-02-02\n---\nalpha {number}"
        for number in range(5)
    }
    repository.commit(**own)
    monkeypatch.setattr(
        "tamis.index.plan.RACY_NS", 0
    )  # what was written just now is not read again for that
    with open_corpus(repository.top) as corpus:
        repository.commit(a="alpha")
        read = []

        def noticed(source, sizes):
            read.append(source.path)
            return parse(source, sizes)

        monkeypatch.setattr("tamis.index.build.parse", noticed)
        corpus.refresh()
        assert read == ["a.md"]


def test_a_folder_that_is_no_longer_a_repository(repository):
    repository.commit(a="alpha one")
    with open_corpus(repository.top) as corpus:
        shutil.rmtree(repository.top / ".git")
        corpus.refresh()
        assert dates(corpus) == {"a.md": own_date(repository.top / "a.md")}


@pytest.mark.parametrize("damage", ["HEAD", "index", "objects", "config"])
def test_a_damaged_repository_is_none(repository, damage):
    repository.commit(a="alpha one")
    place = repository.top / ".git" / damage
    if place.is_dir():
        shutil.rmtree(place)
        place.mkdir()
    else:
        place.write_bytes(b"\0garbage")
    with open_corpus(repository.top) as corpus:
        assert dates(corpus) == {"a.md": own_date(repository.top / "a.md")}


def test_no_commit_yet_and_no_git(repository, monkeypatch):
    write_files(repository.top, {"a.md": "alpha"})
    repository("add", "-A")
    with open_corpus(repository.top) as corpus:
        assert dates(corpus) == {"a.md": own_date(repository.top / "a.md")}
    repository.commit()
    monkeypatch.setenv("PATH", "/nonexistent")
    with open_corpus(repository.top) as corpus:
        assert dates(corpus) == {"a.md": own_date(repository.top / "a.md")}


def test_a_history_that_takes_too_long_is_given_up_with_a_warning(
    repository, monkeypatch
):
    repository.commit(a="alpha one")
    asked = []

    def late(root, wanted):
        asked.append(wanted)

    monkeypatch.setattr(git_dates, "commit_times", late)
    expected = {"a.md": own_date(repository.top / "a.md")}
    with open_corpus(repository.top) as corpus:
        assert dates(corpus) == expected
        assert len(asked) == 1
        assert corpus.refresh().warnings == () and len(asked) == 1, (
            "not asked again while nothing moves"
        )
        repository.commit(b="alpha two")
        (warning,) = corpus.refresh().warnings
        assert "took too long" in warning
        assert len(corpus.rebuild().warnings) == 1, "made anew, it is asked again"


def test_the_time_limit_ends_it(repository, tmp_path, monkeypatch):
    repository.commit(a="alpha one")
    assert git_dates.commit_times(repository.top, {"a.md": "0" * 40}) == {}
    write_files(
        tmp_path / "bin", {"git": "#!/bin/sh\nprintf '\\0011\\000'\nexec sleep 600\n"}
    )
    (tmp_path / "bin" / "git").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert (
        git_dates.commit_times(repository.top, {"a.md": "0" * 40}, seconds=0.1) is None
    )


def test_variables_that_would_lead_elsewhere(repository, tmp_path, monkeypatch):
    repository.commit(a="alpha one")
    other = Repository(tmp_path / "other")
    other.commit(a="alpha one")
    monkeypatch.setenv("GIT_DIR", str(other.top / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.top / ".git/index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.top))
    with open_corpus(repository.top) as corpus:
        assert dates(corpus) == {"a.md": iso_time(START + DAY)}


def test_a_hostile_repository_runs_nothing(repository, tmp_path):
    """Whatever in `.git/config` names a program names one that leaves a trace."""
    repository.commit(a="alpha one", b="alpha two")
    trace = tmp_path / "trace"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {trace}\nexit 1\n", encoding="utf-8")
    trap.chmod(0o700)
    for key in (
        "core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass", "core.gitProxy",
        "core.alternateRefsCommand", "gpg.program", "gpg.ssh.program", "diff.external", "diff.x.command",
        "diff.x.textconv", "filter.x.clean", "filter.x.smudge", "filter.x.process", "pager.log",
        "pager.ls-files", "credential.helper", "merge.x.driver",
    ):  # fmt: skip
        repository("config", key, str(trap))
    repository("config", "log.showSignature", "true")
    repository("config", "core.hooksPath", str(tmp_path / "hooks"))
    for hook in (
        "post-index-change",
        "fsmonitor-watchman",
        "pre-auto-gc",
        "reference-transaction",
    ):
        write_files(tmp_path / "hooks", {hook: f"#!/bin/sh\ntouch {trace}\n"})
        (tmp_path / "hooks" / hook).chmod(0o700)
    write_files(repository.top, {".gitattributes": "* filter=x diff=x merge=x\n"})
    os.utime(
        repository.top / "a.md"
    )  # what git would compare by content, through the filter
    trace.unlink(missing_ok=True)  # setting the traps may have sprung one
    with open_corpus(repository.top) as corpus:
        assert dates(corpus)["b.md"] == iso_time(START + DAY)
        corpus.refresh()
    assert not trace.exists()
    subprocess.run(
        ["git", "status"], cwd=repository.top, capture_output=True, check=False
    )
    assert trace.exists(), "the traps work"
