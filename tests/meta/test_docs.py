"""The documentation says what there is, and no more."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

import tamis
from support.corpora import load_script, open_corpus, write_files
from tamis.cli.main import cli
from tamis.settings import ENVIRONMENT_NAMES, KEYS, environment_name

CONTEXT = click.Context(cli)
COMMANDS = {name: cli.get_command(CONTEXT, name) for name in cli.list_commands(CONTEXT)}

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REQUIREMENTS = load_script("tools/write_requirements.py")
PROOFS = REQUIREMENTS.proofs()


def text_of(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@pytest.mark.parametrize("name", KEYS)
def test_every_setting_is_documented(name):
    text = text_of("docs/settings.md")
    assert environment_name(name) in text or name in text, name
    assert name.split(".")[1] in text


@pytest.mark.rows("R001-057..060")
@pytest.mark.parametrize("variable", sorted(ENVIRONMENT_NAMES))
def test_every_variable_is_documented(variable):
    assert variable in text_of("docs/settings.md")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name):
    text = text_of("docs/cli.md")
    match = re.search(
        rf"^## `?tamis {re.escape(name)}`?$(.*?)(?=^## |\Z)",
        text,
        re.DOTALL | re.MULTILINE,
    )
    assert match, f"docs/cli.md has no section on tamis {name}"
    for parameter in COMMANDS[name].params:
        if isinstance(parameter, click.Option):
            for option in parameter.opts:
                assert option in match[1], f"tamis {name} {option}"


def test_no_command_is_documented_that_is_not_there():
    documented = set(
        re.findall(r"^## `?tamis ([\w-]+)`?$", text_of("docs/cli.md"), re.MULTILINE)
    )
    assert documented == set(COMMANDS)


@pytest.mark.parametrize("name", tamis.__all__)
def test_every_public_name_is_there_and_documented(name):
    assert getattr(tamis, name) is not None
    text = text_of("docs/python.md") + text_of("README.md")
    assert re.search(rf"\b{name}\b", text), name


def test_no_other_name_is_public():
    with pytest.raises(AttributeError, match="nonsense"):
        tamis.nonsense  # noqa: B018
    from tamis import _HOME

    assert set(_HOME) == set(tamis.__all__)


def test_every_keyword_of_a_search_is_documented():
    import inspect

    text = text_of("docs/python.md")
    for parameter in inspect.signature(tamis.Corpus.search).parameters:
        assert parameter == "self" or parameter in text, parameter


@pytest.mark.parametrize(
    "file", sorted((ROOT / "src").rglob("*.py")), ids=lambda file: file.stem
)
def test_every_module_says_what_it_is(file):
    assert ast.get_docstring(ast.parse(file.read_text("utf-8"))), file


PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])


@pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:|#", target):
            assert (page.parent / target.split("#")[0]).exists(), (
                f"{page.name}: {target}"
            )


def test_the_requirements_are_what_the_tests_say():
    """docs/requirements.md is generated: python tools/write_requirements.py > docs/requirements.md."""
    printed = subprocess.run(
        [sys.executable, ROOT / "tools" / "write_requirements.py"],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert printed.stdout == text_of("docs/requirements.md")


def headings_of(page: str) -> set[str]:
    text = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    return {
        line.lstrip("#").strip().replace("`", "")
        for line in text.splitlines()
        if line.startswith("#")
    }


@pytest.mark.parametrize(
    "line", REQUIREMENTS.table("settled.tsv"), ids=lambda line: line["row"]
)
def test_what_settles_a_row_is_there(line):
    """A row that exists and that no test holds, one way, places that exist, and words about it."""
    assert line["row"] in {row["row"] for row in REQUIREMENTS.table("rows.tsv")}
    assert line["row"] not in PROOFS, (
        "a test holds it: take the line out of tools/settled.tsv"
    )
    assert line["how"] in {"benchmark", "decision", "docs"}
    assert line["what"].endswith((".", ")"))
    places = REQUIREMENTS.places(line)
    for path, heading in places:
        assert (ROOT / path).is_file(), path
        text = text_of(path)
        assert not heading or heading in (
            headings_of(text) if path.endswith(".md") else text
        ), heading
    if line["how"] == "benchmark":
        pages = [
            text_of(path)
            for path, heading in places
            if heading and path.startswith("docs/")
        ]
        scripts = [
            path
            for path, _ in places
            if path.startswith(("benchmarks/", "src/tamis/measure/"))
        ]
        assert pages and scripts
        assert all(
            path.startswith("src/") or any(path in page for page in pages)
            for path in scripts
        )


def test_a_row_is_settled_once_and_every_row_a_test_carries_exists():
    settled = [line["row"] for line in REQUIREMENTS.table("settled.tsv")]
    assert settled == sorted(set(settled))
    assert set(PROOFS) <= {row["row"] for row in REQUIREMENTS.table("rows.tsv")}


@pytest.mark.rows("R000-060", "R000-084")
def test_leaving_files_out_is_documented(tmp_path):
    """The filter in the picture of the search, examples of every form of a path that do what
    they say, and the argument wherever there are arguments."""
    assert re.search(
        r"search: +text \+ filter ─ allowed passages ─┬", text_of("ARCHITECTURE.md")
    )
    for page in (
        "README.md",
        "docs/search.md",
        "docs/mcp.md",
        "docs/http.md",
        "docs/python.md",
    ):
        assert "excluded_files" in text_of(page), page
    assert "--exclude-file" in text_of("docs/cli.md")
    shown = re.findall(
        r"^tamis search .* --exclude-file (\S+)  +#",
        text_of("docs/search.md"),
        re.MULTILINE,
    )
    files = (
        "README.md",
        "docs/README.md",
        "docs/api.md",
        "docs/api.rst",
        "docs/guide/api.md",
    )
    left_out = {
        "README.md": {"README.md", "docs/README.md"},
        "docs/api.md": {"docs/api.md"},
        "./README.md": {"README.md"},
        "~/project/docs/api.md": {"docs/api.md"},
        "docs/api": {"docs/api.md", "docs/api.rst"},
    }
    assert shown == list(left_out)
    root = write_files(
        tmp_path / "project", {path: f"refunds of {path}" for path in files}
    )
    with open_corpus(root, model__name="none") as corpus:
        for written, gone in left_out.items():
            given = written.replace("~/project", str(root))  # as a shell does it
            found = corpus.search("refunds", limit=50, excluded_files=[given])
            assert {result.path for result in found.results} == set(files) - gone, (
                written
            )


def test_the_reference_is_what_the_code_says():
    """docs/settings.md and docs/cli.md are generated: python tools/write_reference.py."""
    checked = subprocess.run(
        [sys.executable, ROOT / "tools" / "write_reference.py", "--check"],
        capture_output=True,
        check=False,
        encoding="utf-8",
    )
    assert checked.returncode == 0, checked.stderr + checked.stdout


def test_there_is_one_version():
    from importlib.metadata import version

    assert tamis.__version__ == version("tamis")


@pytest.mark.rows("R002-199")
@pytest.mark.parametrize(
    "word",
    [
        "RRF", "MMR", "nDCG", "MRR", "Concept vocabulary", "Semantic deduplication", "Compression stats",
        "Front matter",
    ],
)  # fmt: skip
def test_the_words_of_ranking_are_explained(word):
    words = text_of("docs/ranking.md").partition("\n## Words\n")[2]
    assert re.search(rf"\*\*{word}\*\*[,:] [`\w]", words)
