"""Archived is not ignored: what each means from first to last, and how files change sides."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.corpora import open_corpus, write_files
from support.corpora import test_settings as settings_of
from tamis.cli.main import main
from tamis.configuration import load
from tamis.corpus import Corpus, index_directory
from tamis.gitignore.rules import explain, open_rules
from tamis.gitignore.template import KINDS
from tamis.index.plan import explain_paths, ignore_options
from tamis.model import Found, Result

# Every archived file with the factor it counts by.
PENALTIES = {
    ".archive/a.md": 0.5,
    ".archive/deep/er/b.md": 0.5,
    ".deprecated/c.md": 0.5,
    ".deprecated/x.old": 0.5,  # folder and file both say so: the smaller, once
    "src_backup/d.js": 0.5,
    "_backup/e.md": 0.5,
    "docs/archive/f.md": 0.5,
    "docs/deprecated/g.md": 0.5,
    "lib/backup/h.md": 0.5,
    "archive/i.md.backup": 0.5,
    "plan.md.old": 0.7,
    "docs/plan.md.backup": 0.7,
    "src/way.py.deprecated": 0.7,
}
CURRENT = [
    "now.md", "x.older.py", "old.md", "docs/archived/j.md", "docs/archives/k.md", "backup.md", "backups/l.md",
    "src/backup_tool.py", "archive.md", "my.deprecated.md", "deprecated-api/m.md", "a.old.md",
    "src/threshold.py",
]  # fmt: skip


def text_of(path: str) -> str:
    return f"alpha beta {path.replace('/', ' ').replace('.', ' ')} {len(path)}"


FILES = {path: text_of(path) for path in (*PENALTIES, *CURRENT)}


def by_path(found: Found) -> dict[str, Result]:
    return {result.path: result for result in found.results}


def paths(found: Found) -> set[str]:
    return {result.path for result in found.results}


def ask(corpus: Corpus, **arguments: Any) -> set[str]:
    return paths(corpus.search("alpha", limit=100, **arguments))


@pytest.fixture(scope="module")
def lifted(tmp_path_factory) -> Iterator[Corpus]:
    """The same files where being archived costs nothing: what scores would be without it."""
    root = write_files(tmp_path_factory.mktemp("lifted"), FILES)
    with open_corpus(
        root, weights__archive_folder_penalty=1, weights__archive_file_penalty=1
    ) as corpus:
        yield corpus


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Iterator[Corpus]:
    with open_corpus(write_files(tmp_path_factory.mktemp("archive"), FILES)) as corpus:
        yield corpus


# --- Hidden, and shown under one penalty ----------------------------------------------------------


@pytest.mark.rows("C17", "C23", "R001-001", "R001-027", "R001-033", "R001-061")
def test_hidden_by_default_and_shown_on_request(corpus):
    """Indexed with its mark, left out of answers unless they ask for it; names that only look
    alike are current."""
    assert corpus.status().index.documents == len(FILES)
    assert ask(corpus) == set(CURRENT)
    assert ask(corpus, exclude_archived=True) == set(CURRENT)
    shown = by_path(corpus.search("alpha", limit=100, exclude_archived=False))
    assert set(shown) == set(FILES)
    assert {path for path, result in shown.items() if result.is_archived} == set(
        PENALTIES
    )


@pytest.mark.rows("C17", "R001-026")
def test_an_archived_result_says_where_it_is(corpus):
    """`is_archived` on every result; an archived one's path is its `file_path`."""
    results = corpus.search("alpha", limit=100, exclude_archived=False).to_dict()[
        "results"
    ]
    assert {result["path"]: result["is_archived"] for result in results} == {
        path: path in PENALTIES for path in FILES
    }
    for result in results:
        assert result["file_path"] == str(corpus.root / result["path"])


@pytest.mark.rows("R001-002", "R001-076")
def test_six_layers_together(tmp_path):
    """An ignore file, a mark on what is archived, a filter when one asks, nothing indexed that
    is ignored, fusion of several lanes, and a boost for what is recent beside the archive's
    penalty."""
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    files = {
        ".graphragignore": "secret/\n",
        "secret/plan.md": "alpha plan",
        "new.md": f"---\nmodified: {today}\n---\nalpha plan of ours",
        "old.md": "---\nmodified: 2001-01-01\n---\nalpha plan of theirs",
        ".archive/plan.md": "---\nmodified: 2001-01-01\n---\nalpha plan of once",
    }
    with open_corpus(
        write_files(tmp_path, files), search__recency_profile="code"
    ) as corpus:
        assert corpus.status().skipped_by_reason["ignored"] >= 1
        assert paths(corpus.search("alpha plan")) == {"new.md", "old.md"}
        shown = by_path(corpus.search("alpha plan", exclude_archived=False))
    assert set(shown) == {"new.md", "old.md", ".archive/plan.md"}
    assert {path for path, result in shown.items() if result.is_archived} == {
        ".archive/plan.md"
    }
    for result in shown.values():
        assert {"meaning", "words"} <= {evidence.lane for evidence in result.evidence}
    assert [result.boosts for result in shown.values()] == [
        {"recency": 1.5}, {"recency": 0.5}, {"recency": 0.5, "archive": 0.5},
    ]  # fmt: skip


@pytest.mark.rows("R001-066")
def test_all_of_it_can_be_switched_off(tmp_path):
    """Then everything is indexed and nothing counts less. (What matching costs is measured:
    docs/benchmarks.md, Words first.)"""
    files = {
        path: f"alpha {path}"
        for path in ("a.md", "archive/b.md", "build/c.md", "node_modules/d.js")
    }
    root = write_files(tmp_path, files)
    with opened(root, {}) as corpus:
        assert ask(corpus) == {"a.md"}
        assert ask(corpus, exclude_archived=False) == {"a.md", "archive/b.md"}, (
            "with the flag"
        )
    off = {"GRAPHRAG_DEFAULT_EXCLUSIONS": "false", "GRAPHRAG_ARCHIVE_PATTERNS": ""}
    with opened(root, off) as corpus:
        found = corpus.search("alpha", limit=100)
        assert paths(found) == set(files)
        assert not any(
            result.is_archived or "archive" in result.boosts for result in found.results
        )


@pytest.mark.rows("C24", "C25", "R001-035", "R001-047..049", "R001-054")
@pytest.mark.parametrize(
    "query",
    ["alpha", "archive beta", "plan md old", "deprecated way py", "nothing of it"],
)
def test_one_penalty_the_smallest_that_applies(query, corpus, lifted):
    """Times 0.5 in a folder, 0.7 by the file's name, never both; the boosts say so, and the
    order follows."""
    without = by_path(lifted.search(query, limit=100, exclude_archived=False))
    found = corpus.search(query, limit=100, exclude_archived=False)
    assert len(found.results) == len(FILES)
    for result in found.results:
        factor = PENALTIES.get(result.path, 1.0)
        assert result.boosts == ({"archive": factor} if factor < 1 else {})
        assert result.evidence == without[result.path].evidence
        assert result.raw_score == pytest.approx(
            without[result.path].raw_score * factor, rel=1e-12
        )
    scores = [result.score for result in found.results]
    assert scores == sorted(scores, reverse=True)
    expected = sorted(
        without.values(),
        key=lambda result: (
            -result.raw_score * PENALTIES.get(result.path, 1.0),
            result.path,
        ),
    )
    assert [result.path for result in found.results] == [
        result.path for result in expected
    ]
    assert all(result.boosts == {} for result in without.values())


@pytest.mark.rows("R001-035")
def test_the_threshold_is_on_the_score_that_is_shown(corpus, lifted):
    """The penalty comes before the threshold."""
    everything = corpus.search("alpha", limit=100, exclude_archived=False)
    least = (
        max(
            result.score
            for result in everything.results
            if PENALTIES.get(result.path) == 0.5
        )
        + 1e-9
    )
    found = corpus.search("alpha", limit=100, exclude_archived=False, min_score=least)
    assert paths(found) == {
        result.path for result in everything.results if result.score >= least
    }
    assert paths(found)
    without = lifted.search("alpha", limit=100, exclude_archived=False, min_score=least)
    assert {path for path in paths(without) if PENALTIES.get(path) == 0.5}


@pytest.mark.rows("R001-051")
def test_include_patterns_admit_what_is_archived(corpus):
    """What a pattern selects is shown, archived or not, with its penalty."""
    assert ask(corpus, include_patterns=["docs/"]) == {
        path for path in FILES if path.startswith("docs/")
    }
    assert ask(corpus, include_patterns=[".archive/"]) == {
        ".archive/a.md",
        ".archive/deep/er/b.md",
    }
    assert ask(corpus, include_patterns=["*.old"]) == {
        ".deprecated/x.old",
        "plan.md.old",
    }
    assert ask(corpus, include_patterns=["/*", "!*/"]) == {
        path for path in FILES if "/" not in path
    }
    shown = corpus.search("alpha", include_patterns=["/.deprecated/x.old", "/now.md"])
    assert {result.path: result.boosts for result in shown.results} == {
        ".deprecated/x.old": {"archive": 0.5},
        "now.md": {},
    }
    # Excluding goes on top; and an empty list admits nothing that was hidden.
    assert ask(
        corpus,
        include_patterns=["docs/"],
        exclude_patterns=["archive/", "deprecated/", "*.backup"],
    ) == {path for path in CURRENT if path.startswith("docs/")}
    assert ask(corpus, include_patterns=[]) == set(CURRENT)


@pytest.mark.rows("C26", "R001-036")
def test_hiding_is_never_having_indexed(corpus, tmp_path):
    """Hidden ones leave no trace in scores, order or counts, and answers are full."""
    with open_corpus(
        write_files(tmp_path, {path: FILES[path] for path in CURRENT})
    ) as alone:
        for query in ("alpha", "archive md", "beta old plan"):
            for limit in (1, 5, len(CURRENT), 100):
                found, expected = (
                    corpus.search(query, limit=limit),
                    alone.search(query, limit=limit),
                )
                assert [(r.path, r.score, r.evidence) for r in found.results] == [
                    (r.path, r.score, r.evidence) for r in expected.results
                ]
                assert len(found.results) == min(limit, len(CURRENT))
                assert found.stats["original_count"] == expected.stats["original_count"]
                assert found.stats["excluded_documents"] == len(PENALTIES)


# --- Changing sides ----------------------------------------------------------------------------------


def test_moving_in_and_out_of_an_archive(tmp_path):
    """Requirements part 2, suite 3: a file's side is where it lies at the last indexing."""
    root = write_files(tmp_path, {"docs/a.md": "alpha one", "b.md": "alpha two"})
    with open_corpus(root) as corpus:
        for there in (
            "docs/archive/a.md",
            ".archive/a.md",
            "old_backup/deep/a.md",
            "docs/a.md.old",
        ):
            target = root / there
            target.parent.mkdir(parents=True, exist_ok=True)
            (root / "docs/a.md").rename(target)
            report = corpus.refresh()
            assert (report.indexed, report.removed) == (1, 1)
            assert ask(corpus) == {"b.md"}
            shown = by_path(corpus.search("alpha", exclude_archived=False))
            assert set(shown) == {there, "b.md"} and shown[there].is_archived
            target.rename(root / "docs/a.md")
            report = corpus.refresh()
            assert (report.indexed, report.removed) == (1, 1)
            back = by_path(corpus.search("alpha", exclude_archived=False))
            assert set(back) == ask(corpus) == {"docs/a.md", "b.md"}
            assert not back["docs/a.md"].is_archived and back["docs/a.md"].boosts == {}


def test_a_whole_folder_changes_sides(tmp_path):
    files = {f"proj/n{number}.md": f"alpha {number}" for number in range(9)} | {
        "b.md": "alpha b"
    }
    root = write_files(tmp_path, files)
    with open_corpus(root) as corpus:
        (root / "proj").rename(root / "proj_backup")
        assert corpus.refresh().removed == 9
        assert ask(corpus) == {"b.md"}
        assert len(ask(corpus, exclude_archived=False)) == 10
        (root / "proj_backup").rename(root / "projx")
        corpus.refresh()
        assert len(ask(corpus)) == 10


@pytest.mark.rows("C88")
def test_other_archive_patterns_need_no_indexing(tmp_path):
    """In spirit: what is archived is decided when one asks, by the patterns of that moment."""
    root = write_files(
        tmp_path,
        {"attic/a.md": "alpha one", "archive/b.md": "alpha two", "c.md": "alpha three"},
    )
    with open_corpus(root) as corpus:
        assert ask(corpus) == {"attic/a.md", "c.md"}
        settings = settings_of(root, archive__patterns=["attic/"])
        with Corpus(corpus.root, corpus.directory, settings) as other:
            assert ask(other) == {"archive/b.md", "c.md"}
            assert (
                other.search("alpha").index.generation
                == corpus.search("alpha").index.generation
            )


# --- The environment, through the real loader -----------------------------------------------------------


def opened(root: Path, environment: Mapping[str, str]) -> Corpus:
    settings = load(
        root, {"model.name": "hashing"}, {"HOME": "/nonexistent"} | environment
    )
    corpus = Corpus(
        root.resolve(), index_directory(root.resolve(), settings, None), settings
    )
    corpus.refresh()
    return corpus


@pytest.mark.rows("R001-057", "C35")
@pytest.mark.parametrize(
    ("value", "hidden"), [("true", True), ("false", False), ("0", False), ("ON", True)]
)
def test_graphrag_exclude_archived(value, hidden, tmp_path):
    """The default of every question, which a question may overrule."""
    files = {"a.md": "alpha one", "archive/b.md": "alpha two"}
    with opened(
        write_files(tmp_path, files), {"GRAPHRAG_EXCLUDE_ARCHIVED": value}
    ) as corpus:
        assert ask(corpus) == ({"a.md"} if hidden else set(files))
        assert ask(corpus, exclude_archived=True) == {"a.md"}
        assert ask(corpus, exclude_archived=False) == set(files)


@pytest.mark.rows("R001-060", "X8")
def test_graphrag_archive_patterns(tmp_path):
    """These and no others; a folder with a dot that is an archive is not hidden for its dot."""
    files = dict.fromkeys(
        (
            ".archive/a.md",
            ".attic/b.md",
            "archive/c.md",
            "d_backup/e.md",
            "x.bak",
            "f.md",
        ),
        "",
    )
    files = {path: f"alpha {path}" for path in files}
    root = write_files(tmp_path, files)
    with opened(
        root, {"GRAPHRAG_ARCHIVE_PATTERNS": " .attic/ ,*_backup/,, *.bak"}
    ) as corpus:
        assert ask(corpus) == {"archive/c.md", "f.md"}
        assert ask(corpus, exclude_archived=False) == {
            ".attic/b.md", "d_backup/e.md", "x.bak", "archive/c.md", "f.md"
        }  # fmt: skip
        shown = by_path(corpus.search("alpha", exclude_archived=False, limit=100))
        assert shown[".attic/b.md"].boosts == {"archive": 0.5}
        assert shown["x.bak"].boosts == {"archive": 0.7}
        assert shown["archive/c.md"].boosts == {}
    with opened(
        root, {"GRAPHRAG_ARCHIVE_PATTERNS": ".archive/,.deprecated/,_backup/"}
    ) as corpus:
        assert ask(corpus, exclude_archived=False) - ask(corpus) == {
            ".archive/a.md",
            "d_backup/e.md",
        }
    with opened(root, {"GRAPHRAG_ARCHIVE_PATTERNS": ""}) as corpus:
        assert ask(corpus) == {"archive/c.md", "d_backup/e.md", "x.bak", "f.md"}


@pytest.mark.rows("R001-058")
def test_graphrag_ignore_file(tmp_path):
    """Another name; the usual one then means nothing."""
    files = {
        "a.md": "alpha one",
        "b.md": "alpha two",
        ".graphragignore": "a.md\n",
        ".other": "b.md\n",
    }
    root = write_files(tmp_path, files)
    with opened(root, {}) as corpus:
        assert ask(corpus) == {"b.md"}
    with opened(root, {"GRAPHRAG_IGNORE_FILE": ".other"}) as corpus:
        assert ask(corpus) == {"a.md"}
    with opened(root, {"GRAPHRAG_IGNORE_FILE": ".missing"}) as corpus:
        assert ask(corpus) == {"a.md", "b.md"}


@pytest.mark.rows("R001-059", "C22")
def test_graphrag_default_exclusions(tmp_path):
    """The lowest layer, on unless switched off; a user's `!` undoes single ones."""
    files = {
        path: f"alpha {path}"
        for path in ("a.md", "node_modules/b.js", "build/c.md", ".github/d.md", "e.tmp")
    }
    root = write_files(tmp_path, files)
    with opened(root, {"GRAPHRAG_DEFAULT_EXCLUSIONS": "true"}) as corpus:
        assert ask(corpus) == {"a.md"}
    with opened(root, {"GRAPHRAG_DEFAULT_EXCLUSIONS": "false"}) as corpus:
        assert ask(corpus) == set(files)
    write_files(root, {".graphragignore": "!build/\n!.github/\n"})
    with opened(root, {}) as corpus:
        assert ask(corpus) == {"a.md", "build/c.md", ".github/d.md"}


@pytest.mark.rows("R001-057..060")
def test_the_command_line_hears_the_same_variables(tmp_path, monkeypatch, capsys):
    """The environment of the process, not only a mapping."""
    files = {
        "a.md": "alpha one",
        "attic/b.md": "alpha two",
        "build/c.md": "alpha three",
        "d.md": "alpha four",
    }
    root = write_files(tmp_path, files | {".mine": "d.md\n"})
    for name, value in {
        "TAMIS_MODEL_NAME": "hashing",
        "GRAPHRAG_ARCHIVE_PATTERNS": "attic/",
        "GRAPHRAG_DEFAULT_EXCLUSIONS": "false",
        "GRAPHRAG_IGNORE_FILE": ".mine",
    }.items():
        monkeypatch.setenv(name, value)

    def shown() -> set[str]:
        capsys.readouterr()
        with pytest.raises(SystemExit):
            main(["search", "alpha", str(root), "--json", "-q"])
        return {
            result["path"] for result in json.loads(capsys.readouterr().out)["results"]
        } - {".mine"}

    assert shown() == {"a.md", "build/c.md"}
    monkeypatch.setenv("GRAPHRAG_EXCLUDE_ARCHIVED", "false")
    assert shown() == {"a.md", "build/c.md", "attic/b.md"}


# --- Ignore files change ---------------------------------------------------------------------------------

DOCS = {
    path: f"alpha {path}"
    for path in ("a.md", "b.md", "docs/c.md", "docs/d.log", "docs/deep/e.md", "f.log")
}


@pytest.mark.rows("R001-018", "R001-025", "R001-063", "R001-074")
@pytest.mark.parametrize(
    ("file", "text", "left"),
    [
        (".graphragignore", "docs/\n", {"a.md", "b.md", "f.log"}),
        (".graphragignore", "*.md\n!a.md\n", {"a.md", "docs/d.log", "f.log"}),
        (".gitignore", "*.log\n", {"a.md", "b.md", "docs/c.md", "docs/deep/e.md"}),
        (".ignore", "/b.md\n", set(DOCS) - {"b.md"}),
        ("docs/.gitignore", "*\n", {"a.md", "b.md", "f.log"}),
        ("docs/deep/.ignore", "e.md\n", set(DOCS) - {"docs/deep/e.md"}),
        (".graphragignore", "*\n", set()),
    ],
)
def test_an_edited_ignore_file_is_obeyed_at_the_next_run(file, text, left, tmp_path):
    """What is now ignored leaves the index, what no longer is comes back, and everything else
    is left alone."""
    root = write_files(tmp_path, DOCS)
    with open_corpus(root) as corpus:
        assert ask(corpus) == set(DOCS)
        write_files(root, {file: text})
        report = corpus.refresh()
        assert report.removed == len(DOCS) - len(left)
        assert report.indexed == 0
        assert ask(corpus, exclude_archived=False) == left
        assert corpus.status().index.documents == len(left)
        (root / file).write_text("# nothing\n", encoding="utf-8")
        report = corpus.refresh()
        assert (report.indexed, report.removed) == (len(DOCS) - len(left), 0)
        assert ask(corpus) == set(DOCS)
        (root / file).unlink()
        assert corpus.refresh().removed == 0


@pytest.mark.rows("C17")
def test_an_ignored_archive_is_gone_and_comes_back_archived(tmp_path):
    """Ignoring is stronger than archiving."""
    root = write_files(tmp_path, {"a.md": "alpha one", ".archive/b.md": "alpha two"})
    with open_corpus(root) as corpus:
        assert ask(corpus, exclude_archived=False) == {"a.md", ".archive/b.md"}
        write_files(root, {".graphragignore": ".archive/\n"})
        assert corpus.refresh().removed == 1
        assert ask(corpus, exclude_archived=False) == {"a.md"}
        (root / ".graphragignore").unlink()
        corpus.refresh()
        assert ask(corpus) == {"a.md"}
        assert ask(corpus, exclude_archived=False) == {"a.md", ".archive/b.md"}


# --- The seed's own examples ------------------------------------------------------------------------------

SEED_OUT = (
    ".archive/old_code.py",
    "src_backup/file.js",
    "node_modules/package/index.js",
)
SEED_IN = ("src/main.py", "neural-tools/server.py")


@pytest.mark.rows("R001-006", "R001-019", "R001-022", "R001-067..069")
def test_the_seeds_own_examples(corpus_of):
    """The first three are in no ordinary answer (one is not even indexed), the other two are;
    asked for, the archived ones come, and never the ignored."""
    corpus = corpus_of({path: f"alpha {path}" for path in (*SEED_OUT, *SEED_IN)})
    assert ask(corpus) == set(SEED_IN)
    assert ask(corpus, exclude_archived=False) == {*SEED_IN, *SEED_OUT[:2]}
    assert ask(corpus, include_patterns=["*"]) == {*SEED_IN, *SEED_OUT[:2]}
    verdicts = {
        item["path"]: item
        for item in explain_paths(corpus.root, corpus.settings, (*SEED_OUT, *SEED_IN))
    }
    assert [(verdicts[path]["ignored"], verdicts[path]["archived"]) for path in (*SEED_OUT, *SEED_IN)] == [
        (False, True), (False, True), (True, False), (False, False), (False, False)
    ]  # fmt: skip
    # Absolute paths come to the same, and a path elsewhere is nobody's.
    for path in (*SEED_OUT, *SEED_IN):
        given = str(corpus.root / path)
        assert (
            explain_paths(corpus.root, corpus.settings, [given])[0]["ignored"]
            == verdicts[path]["ignored"]
        )
    elsewhere = explain_paths(
        corpus.root, corpus.settings, ["/elsewhere/.archive/x.py"]
    )[0]
    assert (elsewhere["archived"], elsewhere["rule"], elsewhere["source"]) == (
        False,
        "outside the root",
        None,
    )
    # Three results, one of them archived: two are kept, none of them from the archive.
    three = [".archive/old_code.py", *SEED_IN]
    kept = ask(
        corpus, include_patterns=[f"/{path}" for path in three], filter="-archived"
    )
    assert kept == set(SEED_IN)


@pytest.mark.rows("R001-025", "R001-063", "R001-070", "R001-078")
def test_the_report_counts_what_it_left_out(corpus_of):
    """How many of how many, each with its reason and rule."""
    ignored = {f"node_modules/p{number}/index.js": "alpha" for number in range(5)} | {
        "a.tmp": "alpha", "dist/b.md": "alpha", "notes/c.md": "alpha"
    }  # fmt: skip
    kept = {"d.md": "alpha one", ".archive/e.md": "alpha two"}
    corpus = corpus_of(ignored | kept | {".graphragignore": "# mine\n\n/notes/\n"})
    report = corpus.refresh()
    assert report.skipped_by_reason == {"ignored": 5}
    details = {item.path: item.detail for item in report.skipped}
    assert set(details) == {
        ".graphragignore",
        "a.tmp",
        "dist/",
        "node_modules/",
        "notes/",
    }
    assert details["notes/"] == "/notes/ (.graphragignore:3)"
    for path, rule in (
        ("a.tmp", "*.tmp"),
        ("dist/", "dist/"),
        ("node_modules/", "node_modules/"),
    ):
        assert details[path].startswith(f"{rule} (built-in)")
    assert report.seen == report.indexed + report.unchanged + len(report.skipped) == 7
    assert corpus.status().skipped == report.skipped


@pytest.mark.rows("R001-061", "R001-073")
def test_no_vector_is_made_for_what_is_ignored(corpus_of):
    """An index with ignored files beside it is the index without them, row for row."""
    kept = {f"docs/{number}.md": f"alpha {number}" for number in range(6)}
    ignored = {f"node_modules/{number}.md": f"alpha {number}" for number in range(40)}
    corpus, alone = corpus_of(kept | ignored), corpus_of(kept)
    assert corpus.status().index.chunks == alone.status().index.chunks == 6
    everything = corpus_of(kept | ignored, ignore__default_exclusions=False)
    assert everything.status().index.chunks == 46


# --- Templates ------------------------------------------------------------------------------------------

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys, monkeypatch) -> Run:
    monkeypatch.setenv("TAMIS_MODEL_NAME", "hashing")

    def call(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        shown = capsys.readouterr()
        return int(end.value.code or 0), shown.out, shown.err

    return call


def patterns_in(text: str) -> list[str]:
    return [
        line
        for line in text.splitlines()
        if line.strip() and not line.startswith(("#", ":include:"))
    ]


@pytest.mark.rows("R001-062")
@pytest.mark.parametrize("has_gitignore", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_template_can_be_read(kind, has_gitignore, tmp_path, run):
    """No warning, every line a rule, and indexing goes on from there."""
    root = write_files(
        tmp_path,
        {"keep.md": "alpha"} | ({".gitignore": "secret.md\n"} if has_gitignore else {}),
    )
    code, out, _ = run("init", root, "--for", kind)
    target = root / ".graphragignore"
    assert code == 0 and str(target) in out
    text = target.read_text(encoding="utf-8")
    patterns = patterns_in(text)
    assert len(patterns) == len(set(patterns)) >= 5
    assert (":include:.gitignore" in text) == has_gitignore
    settings = load(root, {"model.name": "hashing"}, {"HOME": "/nonexistent"})
    options = ignore_options(settings)
    rules = open_rules(root, options)
    assert rules.warnings == ()
    for line, pattern in enumerate(text.splitlines(), start=1):
        if pattern not in patterns:
            continue
        name = (
            pattern.removeprefix("!")
            .removeprefix("**/")
            .replace("*", "x")
            .replace("[cod]", "c")
        )
        verdict = explain(root, options, name)
        assert verdict.ignored is not pattern.startswith("!"), pattern
        assert verdict.rule is not None and verdict.rule.source == ".graphragignore", (
            pattern
        )
        assert verdict.rule.line >= line, pattern
    assert explain(root, options, "secret.md").ignored is has_gitignore
    code, out, _ = run("index", root, "--json")
    report = json.loads(out)
    assert (code, report["indexed"], report["warnings"]) == (0, 1, [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_replaces_nothing_unasked(kind, tmp_path, run):
    """What is there is kept; with --force it is written anew, each time the same."""
    root = write_files(tmp_path, {".graphragignore": "mine\n"})
    target = root / ".graphragignore"
    code, out, err = run("init", root, "--for", kind)
    assert (code, out) == (2, "")
    assert "there already" in err and "--force" in err
    assert target.read_text(encoding="utf-8") == "mine\n"
    assert run("init", root, "--for", kind, "--force")[0] == 0
    first = target.read_bytes()
    assert first != b"mine\n"
    assert run("init", root, "--for", kind)[0] == 2
    assert run("init", root, "--for", kind, "--force")[0] == 0
    assert target.read_bytes() == first
    assert sorted(os.listdir(root)) == [".graphragignore"]


def test_templates_differ(tmp_path, run):
    texts = set()
    for kind in KINDS:
        (tmp_path / kind).mkdir()
        run("init", tmp_path / kind, "--for", kind)
        texts.add((tmp_path / kind / ".graphragignore").read_text(encoding="utf-8"))
    assert len(texts) == len(KINDS) == 5
    assert run("init", tmp_path / "go", "--for", "cobol")[0] == 2


@pytest.mark.rows("R001-058")
def test_the_template_goes_where_the_ignore_file_is_looked_for(
    tmp_path, run, monkeypatch
):
    monkeypatch.setenv("GRAPHRAG_IGNORE_FILE", ".mine")
    assert run("init", tmp_path)[0] == 0
    assert os.listdir(tmp_path) == [".mine"]
    assert ".mine" in (tmp_path / ".mine").read_text(encoding="utf-8").splitlines()[0]


# What each line of the seed's template is about: ignored by the built-in defaults as well as by the
# template by itself; what it lists of archives is archived instead.
SEED_TEMPLATE = {
    "dist/a.md": "ignored", "sub/build/a.md": "ignored", "node_modules/a/b.md": "ignored",
    "target/a.md": "ignored", "__pycache__/a.md": "ignored", "a.pyc": "ignored",
    "test/fixtures/a.md": "ignored", "test/mocks/a.md": "ignored", "src/__mocks__/a.md": "ignored",
    "a.tmp": "ignored", "a.temp": "ignored", ".cache/a.md": "ignored", "tmp/a.md": "ignored",
    ".idea/a.md": "ignored", ".vscode/a.md": "ignored", "a.swp": "ignored", "a.swo": "ignored",
    "a~": "ignored", "a.bin": "ignored", "a.dat": "ignored", "a.db": "ignored", "a.sqlite": "ignored",
    "a.generated.ts": "ignored", "a_gen.go": "ignored", "a.pb.go": "ignored", ".git/a.md": "ignored",
    ".svn/a.md": "ignored", ".hg/a.md": "ignored",
    ".archive/a.md": "archived", ".deprecated/a.md": "archived", "a_backup/a.md": "archived",
    "a.backup": "archived", "a.old": "archived", "a.deprecated": "archived",
    "docs/archive/a.md": "archived", "docs/deprecated/a.md": "archived",
    "a.md": "indexed", "src/a.py": "indexed", "distance/a.md": "indexed", "lib/fixtures/a.md": "indexed",
    "a.pycx": "indexed", "generated.ts": "indexed",
}  # fmt: skip


@pytest.mark.rows("R001-004", "R001-006..014", "R001-019", "C22", "C23")
@pytest.mark.parametrize("defaults", ["true", "false"])
def test_the_seeds_template(defaults, tmp_path, run, monkeypatch):
    """With the defaults alone, and with the template alone."""
    root = write_files(tmp_path, dict.fromkeys(SEED_TEMPLATE, "alpha"))
    monkeypatch.setenv("GRAPHRAG_DEFAULT_EXCLUSIONS", defaults)
    if defaults == "false":
        assert run("init", root)[0] == 0
    code, out, _ = run("explain-ignore", "--json", "--root", root, *SEED_TEMPLATE)
    assert code == 0
    verdicts = {
        item["path"]: "ignored"
        if item["ignored"]
        else "archived"
        if item["archived"]
        else "indexed"
        for item in json.loads(out)
    }
    assert verdicts == SEED_TEMPLATE
    assert run("index", root)[0] == 0
    shown = json.loads(
        run("search", "alpha", root, "--archived", "--json", "-n", "100")[1]
    )["results"]
    indexed = {path for path, state in SEED_TEMPLATE.items() if state != "ignored"}
    report = json.loads(run("status", root, "--json")[1])
    assert report["index"]["documents"] == len(indexed) + (
        defaults == "false"
    )  # the template itself
    assert {result["path"] for result in shown} <= indexed | {".graphragignore"}


@pytest.mark.rows("R001-075", "C37")
def test_the_seeds_template_for_react(tmp_path, run):
    """Its lines, and negations that undo nothing because nothing excluded them."""
    lines = {
        "build/", "dist/", ".next/", "out/", "node_modules/", ".pnp/", ".pnp.js", "coverage/", ".nyc_output/",
        "storybook-static/", ".storybook-out/", ".DS_Store", "Thumbs.db", "!src/", "!components/", "!pages/",
        "!public/",
    }  # fmt: skip
    assert run("init", tmp_path, "--for", "react")[0] == 0
    assert lines <= set(
        patterns_in((tmp_path / ".graphragignore").read_text(encoding="utf-8"))
    )
    kept = ("src/App.js", "components/B.js", "pages/c.md", "public/d.md")
    out = ("src/node_modules/e.js", "src/out/f.js", ".next/g.js", "coverage/h.md")
    write_files(tmp_path, {path: f"alpha {path}" for path in (*kept, *out)})
    shown = json.loads(run("search", "alpha", tmp_path, "--json", "-n", "50")[1])[
        "results"
    ]
    assert {result["path"] for result in shown} == set(kept)


@pytest.mark.rows("R001-060")
def test_a_name_that_begins_with_an_underscore_is_an_ending(corpus_of):
    """The variable's own example, `_backup/`, means `src_backup/` too."""
    files = {
        "src_backup/a.md": "grass one",
        "_backup/b.md": "grass two",
        "backup_src/c.md": "grass three",
    }
    corpus = corpus_of(files, archive__patterns=(".archive/", "_backup/"))
    assert [result.path for result in corpus.search("grass").results] == [
        "backup_src/c.md"
    ]


def test_archived_passages_do_not_crowd_out_current_ones(corpus_of):
    """Many archived ones are better by their words; with a penalty to match, the current ones come first."""
    files = {f"archive/{n}.md": f"grass grass grass number{n}" for n in range(60)}
    files |= {
        f"now/{n}.md": f"grass and many other words besides, number{n} among them"
        for n in range(3)
    }
    corpus = corpus_of(files, weights__archive_folder_penalty=0.05, model__name="none")
    found = corpus.search("grass", limit=5, exclude_archived=False)
    assert [result.is_archived for result in found.results] == [
        False,
        False,
        False,
        True,
        True,
    ]
