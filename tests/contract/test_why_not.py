"""Why is my file not there: every reason there is, said by Python and by the command line alike."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.corpora import open_corpus, write_files
from tamis.cli.main import main
from tamis.corpus import Corpus
from tamis.errors import BadFilter, UsageError
from tamis.model import WhyNot

TWIN = "alpha beta gamma said twice"
FILES: dict[str, str | bytes] = {
    "docs/api.md": "---\ntags: [Auth]\nauthor: Ada\ncategory: guide\nmodified: 2026-05-01\n---\nalpha api",
    "docs/twin.md": TWIN,
    "docs/twin2.md": TWIN.replace(" ", "\n"),
    "docs/far.md": "nothing that anybody would look for",
    "docs/caf\u00e9.md": "alpha coffee",
    "notes/api.md": "alpha notes",
    "src/tool.py": "alpha = 1\n",
    "archive/old.md": "alpha of old",
    "plan.md.old": "alpha plan",
    "debug.log": "alpha",
    "logs/deep/trace.log": "alpha",
    "node_modules/pkg/index.js": "alpha",
    ".secret.md": "alpha",
    "docs/private.md": "alpha",
    "docs/sub/hidden.md": "alpha",
    "gone/out.md": "alpha",
    "large.md": "alpha " * 400,
    "image.md": b"alpha\0\x01\x02" * 9,
    ".gitignore": "# logs\n\n*.log\n",
    ".graphragignore": "gone/\n!docs/\ndocs/private.md\n",
    "docs/sub/.ignore": "hidden.md\n",
    "tamis.toml": '[workspaces]\nnotes = ["notes"]\nempty = []\n',
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Iterator[Corpus]:
    place = tmp_path_factory.mktemp("why").resolve()
    root = write_files(place / "root", FILES)
    write_files(place, {"outside.md": "alpha", "root2/near.md": "alpha"})
    (root / "link.md").symlink_to("docs/api.md")
    (root / "leaving.md").symlink_to("../outside.md")
    (place / "way-in").symlink_to(root)
    with open_corpus(root, index__max_file_bytes=2000) as corpus:
        write_files(root, {"docs/new.md": "alpha new", "fresh.md": "alpha fresh"})
        yield corpus


def why(corpus: Corpus, file: str, query: str = "alpha", **arguments: Any) -> WhyNot:
    found = corpus.search(query, why_not=file, **arguments)
    assert found.why_not is not None
    assert found.to_dict()["why_not"] == {
        "path": found.why_not.path,
        "reason": found.why_not.reason,
        "detail": found.why_not.detail,
    }
    # What it says must be so: it is shown exactly when it is among the results.
    shown = {result.path for result in found.results}
    assert (found.why_not.path in shown) == (found.why_not.reason == "shown")
    # And asking why changes no answer.
    plain = corpus.search(query, **arguments)
    assert plain.why_not is None and "why_not" not in plain.to_dict()
    assert plain.results == found.results and plain.stats == found.stats
    return found.why_not


@pytest.fixture
def run(corpus, monkeypatch, capsys):
    """`tamis search alpha ROOT --why-not ...`: what it prints for people and as JSON."""
    monkeypatch.setenv("TAMIS_MODEL_NAME", "hashing")
    monkeypatch.setenv("TAMIS_INDEX_MAX_FILE_BYTES", "2000")

    def call(file: str, *options: str) -> tuple[str, dict[str, str]]:
        printed = []
        for form in ((), ("--json",)):
            capsys.readouterr()
            with pytest.raises(SystemExit) as end:
                main(
                    [
                        "search",
                        "alpha",
                        str(corpus.root),
                        "--why-not",
                        file,
                        *options,
                        *form,
                    ]
                )
            assert end.value.code in (0, 1)
            printed.append(capsys.readouterr().out)
        return printed[0], json.loads(printed[1])["why_not"]

    return call


# --- Not in the index ---------------------------------------------------------------------------------

NOT_INDEXED = [
    pytest.param("nowhere.md", "nowhere.md", "no such file", "", id="no such file"),
    pytest.param("docs/nowhere.md", "docs/nowhere.md", "no such file", "", id="no such file in a folder"),
    pytest.param("nowhere/at/all.md", "nowhere/at/all.md", "no such file", "", id="no such folder"),
    pytest.param("a\0b.md", "a\0b.md", "no such file", "", id="no name at all"),
    pytest.param("{root}/nowhere.md", "nowhere.md", "no such file", "", id="no such file, absolute"),
    pytest.param("../outside.md", "../outside.md", "outside the root", "{root}", id="above the root"),
    pytest.param("{root}/../outside.md", None, "outside the root", "{root}", id="outside, absolute"),
    pytest.param("{root}2/near.md", None, "outside the root", "{root}", id="a root that begins alike"),
    pytest.param("/etc/hosts", "/etc/hosts", "outside the root", "{root}", id="elsewhere"),
    pytest.param("debug.log", "debug.log", "ignored", "*.log (.gitignore:3)", id="ignored: rule and line"),
    pytest.param("./debug.log", "debug.log", "ignored", "*.log (.gitignore:3)", id="ignored, dot slash"),
    pytest.param("{root}/debug.log", "debug.log", "ignored", "*.log (.gitignore:3)", id="ignored, absolute"),
    pytest.param("{root}/../way-in/debug.log", "debug.log", "ignored", "*.log (.git", id="by a link"),
    pytest.param("trace.log", "logs/deep/trace.log", "ignored", "*.log (.gitignore:3)", id="ignored, bare"),
    pytest.param("logs\\deep\\trace.log", "logs/deep/trace.log", "ignored", "*.log", id="backslashes"),
    pytest.param("node_modules/pkg/index.js", None, "ignored", "node_modules/ (built-in)", id="by a default"),
    pytest.param(".secret.md", ".secret.md", "ignored", ".* (built-in)", id="hidden"),
    pytest.param("docs/private.md", None, "ignored", "docs/private.md (.graphragignore:3)", id="own file"),
    pytest.param("gone/out.md", "gone/out.md", "ignored", "gone/ (.graphragignore:1)", id="by its folder"),
    pytest.param("docs/sub/hidden.md", None, "ignored", "hidden.md (docs/sub/.ignore:1)", id="nested file"),
    pytest.param("debug.missing.log", None, "ignored", "*.log (.gitignore:3)", id="ignored before it exists"),
    pytest.param(".git/config", ".git/config", "ignored", ".git (built-in)", id="built in"),
    pytest.param("large.md", "large.md", "skipped", "too large", id="too large"),
    pytest.param("image.md", "image.md", "skipped", "binary", id="binary"),
    pytest.param("link.md", "link.md", "skipped", "link to docs/api.md", id="a link"),
    pytest.param("leaving.md", "leaving.md", "skipped", "outside the root", id="a link that leads out"),
    pytest.param("docs/new.md", "docs/new.md", "not indexed", "tamis index", id="not indexed yet"),
    pytest.param("docs\\new.md", "docs/new.md", "not indexed", "tamis index", id="not indexed, backslashes"),
    pytest.param("fresh.md", "fresh.md", "not indexed", "tamis index", id="not indexed, at the top"),
    pytest.param("{root}/docs/new.md", "docs/new.md", "not indexed", "tamis index", id="came later"),
]  # fmt: skip


@pytest.mark.rows("R001-020", "R001-025")
@pytest.mark.parametrize(("file", "path", "reason", "detail"), NOT_INDEXED)
def test_what_is_not_in_the_index(file, path, reason, detail, corpus, run):
    """Which rule of which file and line, what was wrong, or that it came later."""
    root = str(corpus.root)
    asked = file.format(root=root)
    said = why(corpus, asked)
    assert (said.path, said.reason) == (said.path if path is None else path, reason)
    assert detail.format(root=root) in said.detail
    if "\0" not in file:  # which no command line can carry
        text, same = run(asked)
        assert same == {"path": said.path, "reason": said.reason, "detail": said.detail}
        assert f"{said.path}: {said.reason}" in text
        assert said.detail in text


# --- In the index, and kept out ---------------------------------------------------------------------------


@pytest.mark.rows("C17")
@pytest.mark.parametrize(
    "file", ["archive/old.md", "old.md", "plan.md.old", "{root}/archive/old.md"]
)
def test_archived(file, corpus, run):
    """Hidden, and how to see it; asked for, it is there."""
    asked = file.format(root=corpus.root)
    said = why(corpus, asked)
    assert said.reason == "archived" and "--archived" in said.detail
    assert why(corpus, asked, limit=50, exclude_archived=False).reason == "shown"
    text, same = run(asked)
    assert same["reason"] == "archived" and "archived documents are hidden" in text
    assert run(asked, "--archived", "-n", "50")[1]["reason"] == "shown"
    # Archived comes before any other reason that would hold as well.
    assert why(corpus, asked, tags=["auth"], min_score=1.0).reason == "archived"


FILTERED: list[tuple[dict[str, Any], list[str], str]] = [
    (
        {"excluded_files": ["src/tool.py"]},
        ["--exclude-file", "src/tool.py"],
        "-file:./src/tool.py",
    ),
    ({"excluded_files": ["tool"]}, ["--exclude-file", "tool"], "-file:tool"),
    ({"exclude_patterns": ["*.py"]}, ["--exclude", "*.py"], "-path:*.py"),
    ({"include_patterns": ["docs/**"]}, ["--include", "docs/**"], "path:docs/**"),
    (
        {"under": ["docs", "notes"]},
        ["--under", "docs", "--under", "notes"],
        "under:docs | under:notes",
    ),
    ({"workspace": "notes"}, ["--workspace", "notes"], "workspace:notes"),
    ({"workspace": "empty"}, ["--workspace", "empty"], "workspace:empty"),
    ({"tags": ["Auth"]}, ["--tag", "Auth"], "tag:auth"),
    ({"tags": ["nowhere"]}, ["--tag", "nowhere"], "tag:nowhere"),
    ({"chunk_types": ["data"]}, ["--type", "data"], "type:data"),
    ({"languages": ["rust"]}, ["--lang", "rust"], "lang:rust"),
    ({"author": "Ada"}, ["--author", "Ada"], "author:Ada"),
    ({"category": "guide"}, ["--category", "guide"], "category:guide"),
    ({"modified_before": "2020"}, ["--before", "2020"], "before:2020"),
    ({"modified_after": "2999-01-01"}, ["--after", "2999-01-01"], "after:2999-01-01"),
    ({"filter": "-lang:python"}, ["--filter", "-lang:python"], "-lang:python"),
    ({"filter": "nothing"}, ["--filter", "nothing"], "nothing"),
]


@pytest.mark.parametrize(
    ("arguments", "options", "term"), FILTERED, ids=[term for _, _, term in FILTERED]
)
def test_filtered_by_which_term(arguments, options, term, corpus, run):
    """The term that keeps it out, and none of those that do not."""
    said = why(corpus, "src/tool.py", **arguments)
    assert (said.path, said.reason, said.detail) == ("src/tool.py", "filtered", term)
    text, same = run("src/tool.py", *options)
    assert same == {"path": "src/tool.py", "reason": "filtered", "detail": term}
    assert f"filtered ({term})" in text
    # Among terms that let it through, it is still this one that is named.
    more = {"excluded_files": ["nowhere.md"]} | arguments
    assert why(corpus, "src/tool.py", "alpha -tag:nowhere", **more).detail == term


def test_several_terms_that_each_keep_it_out(corpus):
    said = why(corpus, "src/tool.py", tags=["auth"], languages=["rust"], under=["src"])
    assert (said.reason, said.detail) == ("filtered", "tag:auth lang:rust")


def test_what_is_named_can_be_read_as_a_filter(corpus):
    """Alternatives beside another term keep their parentheses."""
    said = why(corpus, "src/tool.py", under=["docs", "notes"], tags=["auth"])
    assert said.detail == "(under:docs | under:notes) tag:auth"
    kept_out = corpus.search("alpha", limit=50, filter=f"-({said.detail})").results
    assert "src/tool.py" in {result.path for result in kept_out}


@pytest.mark.rows("R002-136")
def test_below_the_threshold(corpus, run):
    """Its best score, and the threshold."""
    shown = corpus.search("alpha api", limit=50)
    ranks = {result.path: result.score for result in shown.results}
    least = ranks["docs/api.md"]
    assert least > ranks["docs/far.md"]
    said = why(corpus, "docs/far.md", "alpha api", min_score=round(least, 3))
    assert said.reason == "below the threshold"
    assert (
        f"{ranks['docs/far.md']:.3f}" in said.detail
        and f"{round(least, 3):g}" in said.detail
    )
    _, same = run("docs/far.md", "--min-score", "0.99")
    assert same["reason"] == "below the threshold"


@pytest.mark.rows("R002-093")
def test_same_text(corpus, run):
    """Which file is shown in its place."""
    said = why(corpus, "docs/twin2.md", "gamma twice")
    assert said.reason == "same text" and "docs/twin.md" in said.detail
    assert why(corpus, "docs/twin.md", "gamma twice").reason == "shown"
    found = {result.path for result in corpus.search("alpha", limit=50).results}
    (hidden,) = {"docs/twin.md", "docs/twin2.md"} - found
    text, same = run(hidden, "-n", "50")
    assert same["reason"] == "same text" and "docs/twin" in text.replace(hidden, "")
    # Without its twin it is there itself.
    assert (
        why(
            corpus, "docs/twin2.md", "gamma twice", excluded_files=["docs/twin.md"]
        ).reason
        == "shown"
    )


def test_ranked_lower(corpus, run):
    """At which place, and what the limit was."""
    order = [result.path for result in corpus.search("alpha", limit=50).results]
    last = order[-1]
    said = why(corpus, last, limit=2)
    assert said.reason == "ranked lower"
    assert f"number {len(order)}," in said.detail and "the limit is 2" in said.detail
    assert why(corpus, order[2], limit=2).detail.startswith(
        "its best passage is number 3,"
    )
    assert why(corpus, order[1], limit=2).reason == "shown"
    assert run(last, "-n", "2")[1] == {
        "path": last,
        "reason": "ranked lower",
        "detail": said.detail,
    }


def test_ranked_nowhere(corpus_of):
    """With words alone, a file without any of them has no rank at all."""
    corpus = corpus_of(
        {"a.md": "alpha", "b.md": "something else"}, search__semantic_weight=0
    )
    said = why(corpus, "b.md")
    assert said.reason == "ranked lower" and "not among the best" in said.detail


def test_a_limit_per_document_keeps_passages_out_and_no_document(corpus_of):
    """The best passage of every document stays, so that limit is never why a file is missing."""
    parts = "".join(
        f"# Part {number}\n\nalpha beta {number}\n\n" for number in range(6)
    )
    corpus = corpus_of({"long.md": parts, "short.md": "alpha"}, chunking__min_chars=0)
    for most in (1, 2):
        for file in ("long.md", "short.md"):
            assert (
                why(corpus, file, limit=10, max_chunks_per_doc=most).reason == "shown"
            )
    found = corpus.search("alpha", limit=10, unique=True, why_not="long.md")
    assert [result.path for result in found.results].count("long.md") == 1
    # What the limit lets go of makes room: a file that was ranked lower before is shown now.
    assert why(corpus, "short.md", "part beta", limit=2).reason == "ranked lower"
    assert why(corpus, "short.md", "part beta", limit=2, unique=True).reason == "shown"


# --- Shown, and how it is asked ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file",
    [
        "docs/api.md", "./docs/api.md", "docs/api", "docs\\api.md", "{root}/docs/api.md",
        "{root}/../way-in/docs/api.md", "./link.md",
    ],
)  # fmt: skip
def test_shown_and_at_which_place(file, corpus, run):
    """Every form of a name that `excluded_files` takes."""
    asked = file.format(root=corpus.root)
    found = corpus.search("alpha api", limit=50)
    place = [result.path for result in found.results].index("docs/api.md") + 1
    assert why(corpus, asked, "alpha api", limit=50) == WhyNot(
        "docs/api.md", "shown", f"it is result {place}"
    )
    assert run(asked, "-n", "50")[1]["reason"] == "shown"


@pytest.mark.parametrize(
    "file", ["docs/caf\u00e9.md", "docs/cafe\u0301.md", "cafe\u0301"]
)
def test_accents(file, corpus):
    assert why(corpus, file, limit=50) == WhyNot(
        "docs/caf\u00e9.md", "shown", why(corpus, file, limit=50).detail
    )


def test_a_bare_name_of_several_files(corpus):
    """The one that is shown, if one is; else any of them, with its reason."""
    assert why(corpus, "api.md", limit=50).reason == "shown"
    assert why(corpus, "api.md", limit=50, under=["notes"]) == WhyNot(
        "notes/api.md", "shown", "it is result 1"
    )
    assert why(corpus, "api.md", limit=50, under=["src"]).reason == "filtered"


@pytest.mark.parametrize("wrong", ["", " ", ".", "/"])
def test_what_names_no_file(wrong, corpus):
    with pytest.raises(BadFilter, match="names no file"):
        corpus.search("alpha", why_not=wrong)


@pytest.mark.parametrize(
    "wrong", [3, ["docs/api.md"], b"docs/api.md", Path("docs/api.md")]
)
def test_what_is_no_name(wrong, corpus):
    with pytest.raises(UsageError, match="why_not"):
        corpus.search("alpha", why_not=wrong)


def test_a_reason_changes_with_what_it_is_about(tmp_path):
    """From missing to not indexed to shown, archived, ignored and gone: each after what happened."""
    root = write_files(tmp_path, {"a.md": "alpha"})
    with open_corpus(root) as corpus:
        assert why(corpus, "b.md").reason == "no such file"
        write_files(root, {"b.md": "alpha beta"})
        assert why(corpus, "b.md").reason == "not indexed"
        corpus.refresh()
        assert why(corpus, "b.md").reason == "shown"
        (root / "archive").mkdir()
        (root / "b.md").rename(root / "archive/b.md")
        corpus.refresh()
        assert why(corpus, "b.md").reason == "archived"
        assert why(corpus, "./b.md").reason == "no such file"
        write_files(root, {".gitignore": "b.md\n"})
        corpus.refresh()
        assert why(corpus, "archive/b.md") == WhyNot(
            "archive/b.md", "ignored", "b.md (.gitignore:1)"
        )
        (root / ".gitignore").unlink()
        write_files(root, {"archive/b.md": b"\0\0\0\0"})
        corpus.refresh()
        assert why(corpus, "archive/b.md").reason == "skipped"
        (root / "archive/b.md").unlink()
        corpus.refresh()
        assert why(corpus, "archive/b.md").reason == "no such file"
