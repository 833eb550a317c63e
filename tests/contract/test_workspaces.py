"""Workspaces: names for sets of folders, decided when one asks, and the same answer however it is found."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.corpora import open_corpus, open_in_steps, write_files
from support.corpora import test_settings as settings_of
from tamis.cli.main import main
from tamis.configuration import load
from tamis.corpus import Corpus
from tamis.errors import BadFilter, BadSetting, UsageError
from tamis.model import Found

PATHS = (
    "top.md", "docs/a.md", "docs/api/b.md", "docs/api/v1/c.md", "docs2/d.md", "docs2/api/e.md", "src/f.py",
    "src/docs/g.md", "Docs/h.md", "my notes/i.md", "caf\u00e9/j.md", "doc/k.md", "archive/docs/l.md",
)  # fmt: skip
ARCHIVED = {"archive/docs/l.md"}
TEXTS = {path: f"alpha beta {path.replace('/', ' ')}" for path in PATHS}


def toml(workspaces: Mapping[str, list[str]]) -> str:
    lines = (
        f"{json.dumps(name)} = {json.dumps(folders)}"
        for name, folders in workspaces.items()
    )
    return "[workspaces]\n" + "\n".join(lines) + "\n"


def under(*folders: str) -> set[str]:
    """Membership by ancestors: a file belongs to a folder that is one of those above it."""
    return {
        path
        for path in PATHS
        if any(
            folder
            in ["/".join(path.split("/")[:n]) for n in range(1, path.count("/") + 1)]
            for folder in folders
        )
    }


def paths(found: Found) -> set[str]:
    return {result.path for result in found.results}


def ask(corpus: Corpus, workspace: str, **arguments: Any) -> set[str]:
    return paths(corpus.search("alpha", workspace=workspace, limit=100, **arguments))


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A folder that is indexed once; workspaces are set by each test."""
    place = write_files(tmp_path_factory.mktemp("workspaces").resolve() / "root", TEXTS)
    (place / "link").symlink_to("docs/api")
    (place.parent / "outside").mkdir()
    (place.parent / "way-in").symlink_to(place / "docs")
    open_corpus(place, **OUTSIDE_CONFIG).close()
    return place


OUTSIDE_CONFIG = {
    "ignore__patterns": ("tamis.toml",)
}  # the settings are not what we look for


@contextmanager
def opened(
    root: Path, workspaces: Mapping[str, list[str]], **flags: object
) -> Iterator[Corpus]:
    """The indexed folder under other workspaces. Nothing is indexed here: none of it needs to be."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "settings.toml"
        file.write_text(toml(workspaces), encoding="utf-8")
        usual = {"model.name": "hashing", "search.ngram_dedup_enabled": False}
        given = usual | {
            name.replace("__", "."): value for name, value in flags.items()
        }
        chosen = load(root, given, {"HOME": "/nonexistent"}, config=file)
    with Corpus(root, root / ".tamis", chosen) as corpus:
        yield corpus


# --- Which folders ------------------------------------------------------------------------------------


@pytest.mark.rows(
    "C80",
    "C81",
    "C87",
    "R003-004..007",
    "R003-010",
    "R003-019",
    "R003-026",
    "R003-027",
    "R003-029",
    "R003-033",
)
@pytest.mark.parametrize(
    ("folders", "expected"),
    [
        pytest.param(["docs"], under("docs"), id="a folder and all below"),
        pytest.param(["docs/"], under("docs"), id="with a slash"),
        pytest.param(["./docs"], under("docs"), id="with a dot"),
        pytest.param(["docs/api/.."], under("docs"), id="with dots"),
        pytest.param(["docs//api/"], under("docs/api"), id="with slashes"),
        pytest.param(["docs\\api"], under("docs/api"), id="with a backslash"),
        pytest.param(["docs/api"], under("docs/api"), id="a folder below another"),
        pytest.param(["docs/api/v1"], under("docs/api/v1"), id="deeper"),
        pytest.param(["{root}/docs"], under("docs"), id="absolute"),
        pytest.param(
            ["{root}/docs/api/"], under("docs/api"), id="absolute with a slash"
        ),
        pytest.param(["{root}/../way-in"], under("docs"), id="absolute through a link"),
        pytest.param(["link"], under("docs/api"), id="a link to a folder"),
        pytest.param(["docs", "src"], under("docs", "src"), id="several"),
        pytest.param(["docs", "docs/api"], under("docs"), id="nested"),
        pytest.param(["docs/api", "docs"], under("docs"), id="nested, the other way"),
        pytest.param(
            ["docs", "docs", "{root}/docs"], under("docs"), id="the same again"
        ),
        pytest.param(
            ["docs/api", "src/docs"], under("docs/api", "src/docs"), id="apart"
        ),
        pytest.param(["."], set(PATHS) - ARCHIVED, id="the root"),
        pytest.param(["{root}"], set(PATHS) - ARCHIVED, id="the root, absolute"),
        pytest.param(["my notes"], under("my notes"), id="a blank"),
        pytest.param(["caf\u00e9"], under("caf\u00e9"), id="composed"),
        pytest.param(["cafe\u0301"], under("caf\u00e9"), id="decomposed"),
        pytest.param(["Docs"], {"Docs/h.md"}, id="paths have a case"),
        pytest.param(["doc"], {"doc/k.md"}, id="not what begins alike"),
        pytest.param(["api"], set(), id="not at any depth"),
        pytest.param(["docs/a.md"], set(), id="a file"),
        pytest.param(["top.md"], set(), id="a file at the top"),
        pytest.param(["nowhere"], set(), id="nothing"),
        pytest.param(
            ["nowhere", "docs/api"], under("docs/api"), id="nothing and something"
        ),
        pytest.param(["docs/*"], set(), id="no patterns"),
        pytest.param([], set(), id="no folders"),
    ],
)
def test_a_workspace_is_what_lies_below_its_folders(folders, expected, root):
    """Relative, absolute, nested, overlapping, one floor down; canonical ancestors, never a
    prefix of a name."""
    given = [folder.format(root=root) for folder in folders]
    with opened(root, {"some": given}) as corpus:
        found = corpus.search("alpha", workspace="some", limit=100)
        assert paths(found) == expected
        assert found.stats["eligible_documents"] == len(expected)
        assert found.stats["original_count"] == len(expected)
        assert found.filter == "workspace:some -archived"
        for limit in (1, 3):
            assert len(
                corpus.search("alpha", workspace="some", limit=limit).results
            ) == min(limit, len(expected))
        assert paths(corpus.search("alpha workspace:some", limit=100)) == expected
        assert (
            paths(corpus.search("alpha", filter="workspace:some", limit=100))
            == expected
        )
        rest = paths(corpus.search("alpha -workspace:some", limit=100))
        assert rest == set(PATHS) - expected - ARCHIVED


def test_a_workspace_and_archived_files(root):
    with opened(root, {"all": ["."], "old": ["archive"]}) as corpus:
        assert ask(corpus, "all") == set(PATHS) - ARCHIVED
        assert ask(corpus, "all", exclude_archived=False) == set(PATHS)
        assert ask(corpus, "old") == set()
        assert ask(corpus, "old", exclude_archived=False) == ARCHIVED


@pytest.mark.rows("C87", "R003-029")
def test_missing_folders_are_said(root):
    """No fault, no results from there, and a hint that names the folder."""
    with opened(
        root, {"some": ["docs/api", "nowhere", "docs/a.md"], "good": ["docs"]}
    ) as corpus:
        found = corpus.search("alpha", workspace="some")
        assert paths(found) == under("docs/api")
        assert [
            hint
            for hint in map(str, found.hints)
            if "nowhere" in hint and "some" in hint
        ]
        assert [hint for hint in map(str, found.hints) if "docs/a.md" in hint]
        assert corpus.search("alpha", workspace="good").hints == ()
        assert corpus.search("alpha").hints == ()


def test_a_folder_that_comes_later(tmp_path):
    root = write_files(
        tmp_path, {"a.md": "alpha", "tamis.toml": toml({"later": ["new"]})}
    )
    with open_corpus(root) as corpus:
        assert ask(corpus, "later") == set()
        write_files(root, {"new/b.md": "alpha beta"})
        corpus.refresh()
        assert ask(corpus, "later") == {"new/b.md"}


# --- Which names ----------------------------------------------------------------------------------------


@pytest.mark.rows("X3")
def test_names_have_no_case(root):
    with opened(root, {"Docs API": ["docs/api"], "sources": ["src"]}) as corpus:
        for name in ("Docs API", "docs api", "DOCS API"):
            found = corpus.search("alpha", workspace=name, limit=100)
            assert paths(found) == under("docs/api")
            assert found.filter == 'workspace:"Docs API" -archived'
        assert paths(corpus.search('alpha workspace:"docs api"', limit=100)) == under(
            "docs/api"
        )


@pytest.mark.rows("C87", "R003-029")
@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("dosc", "docs"),
        ("source", "sources"),
        ("docs/api", "docs"),
        ("zzz", None),
        ("*", None),
    ],
)
def test_an_unknown_name_is_an_error_that_lists_the_names(name, near, root):
    """Never everything, never silence."""
    with opened(root, {"docs": ["docs"], "sources": ["src"]}) as corpus:
        with pytest.raises(BadFilter) as caught:
            corpus.search("alpha", workspace=name)
        assert repr(name) in caught.value.message
        assert "docs, sources" in caught.value.hint
        assert ("did you mean" in caught.value.hint) == (near is not None)
        if near:
            assert f"did you mean {near}?" in caught.value.hint


def test_no_names_at_all(root):
    with opened(root, {}) as corpus, pytest.raises(BadFilter) as caught:
        corpus.search("alpha", workspace="docs")
    assert "none are configured" in caught.value.hint


@pytest.mark.parametrize("wrong", ["", " "])
def test_an_empty_name_is_an_error(wrong, root):
    with opened(root, {"docs": ["docs"]}) as corpus, pytest.raises(BadFilter):
        corpus.search("alpha", workspace=wrong)


@pytest.mark.parametrize("wrong", [3, ["docs"], b"docs", True])
def test_a_name_is_text(wrong, root):
    with opened(root, {"docs": ["docs"]}) as corpus, pytest.raises(UsageError):
        corpus.search("alpha", workspace=wrong)


@pytest.mark.parametrize(
    "folder",
    ["..", "../outside", "/elsewhere", "{root}/../outside", "docs/../../outside"],
)
def test_a_folder_outside_the_root_is_a_bad_setting(folder, root):
    """A workspace that could never hold a file is a mistake in the settings, and said with its reason."""
    with (
        pytest.raises(BadSetting) as caught,
        opened(root, {"out": [folder.format(root=root)]}),
    ):
        pass
    assert "workspaces" in caught.value.message and "outside" in caught.value.message
    assert caught.value.hint


@pytest.mark.rows("R003-033")
def test_the_command_line_says_the_same(root, tmp_path, monkeypatch, capsys):
    """The option, its error, and its answer."""
    monkeypatch.setenv("TAMIS_MODEL_NAME", "hashing")
    config = tmp_path / "settings.toml"
    config.write_text(toml({"docs": ["docs"], "empty": []}), encoding="utf-8")

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(
                [
                    "search",
                    "alpha",
                    str(root),
                    "--config",
                    str(config),
                    "--json",
                    *arguments,
                ]
            )
        shown = capsys.readouterr()
        return int(end.value.code or 0), shown.out, shown.err

    code, out, _ = run("--workspace", "DOCS", "-n", "50")
    assert code == 0
    assert {result["path"] for result in json.loads(out)["results"]} == under("docs")
    code, out, _ = run("--workspace", "empty")
    assert code == 1 and json.loads(out)["results"] == []
    code, out, err = run("--workspace", "dosc")
    assert (code, out) == (2, "")
    assert "did you mean docs?" in err and "docs, empty" in err


# --- When -------------------------------------------------------------------------------------------------


@pytest.mark.rows("C88", "R003-009")
def test_a_changed_workspace_needs_no_indexing(root):
    """The same generation, and an answer by today's names."""
    seen = []
    for folders in (["docs"], ["docs2", "src"], ["docs/api", "doc"], []):
        with opened(root, {"some": folders}) as corpus:
            found = corpus.search("alpha", workspace="some", limit=100)
            assert paths(found) == under(*folders)
            seen.append(found.index)
    assert len({(state.generation, state.built_at) for state in seen}) == 1


@pytest.mark.rows("R003-009", "C88")
def test_changed_settings_are_no_reason_to_index(tmp_path):
    root = write_files(tmp_path, TEXTS | {"tamis.toml": toml({"some": ["docs"]})})
    with open_corpus(root, **OUTSIDE_CONFIG) as corpus:
        assert ask(corpus, "some") == under("docs")
    (root / "tamis.toml").write_text(
        toml({"some": ["src"], "more": ["docs2"]}), encoding="utf-8"
    )
    chosen = settings_of(root, **OUTSIDE_CONFIG)
    with Corpus(root, root / ".tamis", chosen) as corpus:
        assert ask(corpus, "some") == under("src")
        assert ask(corpus, "more") == under("docs2")
        assert (corpus.refresh().indexed, corpus.status().changed_files) == (0, 0)


@pytest.mark.rows("R003-008")
def test_no_workspace_is_no_filter(root):
    """Without a name everything is looked at, and the answer names no workspace."""
    with opened(root, {"docs": ["docs"]}) as corpus:
        plain = corpus.search("alpha", limit=100)
        assert paths(plain) == set(PATHS) - ARCHIVED
        assert plain.filter == "-archived"
        named = corpus.search("alpha", limit=100, workspace=None)
        assert named.to_dict() | {"timings_ms": 0} == plain.to_dict() | {
            "timings_ms": 0
        }


# --- How: before or after scoring ------------------------------------------------------------------------

WAYS = ("native", "qdrant", "post", "hybrid")
WORDS = ("alpha", "beta", "gamma", "delta", "retry", "cache")
FOLDERS = ("", "in/", "in/deep/", "out/", "inner/")
files = st.dictionaries(
    st.builds(
        lambda folder, stem: f"{folder}{stem}.md",
        st.sampled_from(FOLDERS),
        st.sampled_from("abcdef"),
    ),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join),
    min_size=1,
    max_size=16,
)
questions = st.fixed_dictionaries(
    {
        "query": st.lists(
            st.sampled_from((*WORDS, "unheard")), min_size=1, max_size=3
        ).map(" ".join),
        "limit": st.sampled_from((1, 2, 5, 40)),
        "min_score": st.sampled_from((None, 0.5, 0.9)),
        "max_chunks_per_doc": st.sampled_from((None, 1)),
        "excluded_files": st.sampled_from(([], ["a.md"], ["in/deep/b.md", "c"])),
        "tags": st.sampled_from(([], [], ["nowhere"])),
    }
)


def essence(found: Found) -> dict[str, Any]:
    """The answer but for the work that went into it."""
    answer = found.to_dict()
    stats = {
        name: count
        for name, count in answer["stats"].items()
        if name != "scanned_chunks"
    }
    return answer | {"stats": stats, "timings_ms": {}}


@pytest.mark.rows(
    "C82",
    "C84",
    "C86",
    "R003-001",
    "R003-002",
    "R003-014",
    "R003-017",
    "R003-020",
    "R003-024",
    "R003-030",
    "R003-031",
)
@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    files,
    st.lists(st.sampled_from(["in", "in/deep", "nowhere"]), max_size=2),
    st.lists(questions, min_size=3, max_size=5),
)
def test_every_way_gives_the_same_answer(texts, folders, asked):
    """.; passages, scores to the last bit, order and counts; they differ in the rows they look
    at."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        small = {
            "chunking__min_chars": 0,
            "chunking__max_chars": 100,
            "chunking__overlap_chars": 20,
        }
        with open_in_steps(root, texts, **small) as corpus:
            chunks = corpus.status().index.chunks
        for question in asked:
            found = {}
            for way in WAYS:
                with opened(
                    root, {"w": folders}, search__workspace_filtering=way, **small
                ) as corpus:
                    found[way] = corpus.search(**question, workspace="w")
            first = essence(found["native"])
            for way in WAYS[1:]:
                assert essence(found[way]) == first, way
            scanned = {
                way: answer.stats["scanned_chunks"] for way, answer in found.items()
            }
            rounds = (
                scanned["post"] // chunks
            )  # lanes are asked again, deeper, when much was dropped
            inside = found["native"].stats["eligible_documents"]
            assert scanned["post"] == rounds * chunks and rounds >= 1
            assert scanned["native"] == scanned["qdrant"] <= scanned["post"]
            assert scanned["native"] < scanned["post"] or inside == len(texts)
            assert (
                scanned["native"]
                <= scanned["hybrid"]
                <= scanned["native"] + scanned["post"]
            )


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    """A hundred files of one passage: ten in `in`, and twelve in `twelve`."""
    names = [f"in/{n}.md" for n in range(10)] + [f"twelve/{n}.md" for n in range(12)]
    names += [f"out/{n}.md" for n in range(78)]
    root = write_files(
        tmp_path_factory.mktemp("many").resolve(),
        {name: f"alpha {name}" for name in names},
    )
    open_corpus(root).close()
    return root


SPACES = {"in": ["in"], "twelve": ["twelve"], "all": ["."], "none": []}


@pytest.mark.rows("C89", "R003-002", "R003-023")
@pytest.mark.parametrize(
    ("space", "inside"), [("in", 10), ("twelve", 12), ("all", 100), ("none", 0)]
)
def test_native_looks_at_the_workspace_alone(space, inside, many):
    """A workspace of a tenth is a tenth of the work, of all it is all."""
    for way, rows in (("native", inside), ("qdrant", inside), ("post", 100)):
        with opened(many, SPACES, search__workspace_filtering=way) as corpus:
            found = corpus.search("alpha", workspace=space, limit=5)
            assert found.stats["scanned_chunks"] == rows
            assert len(found.results) == min(5, inside)
            # A question without a workspace is none of its business.
            assert corpus.search("alpha", limit=5).stats["scanned_chunks"] == 100
            assert (
                corpus.search("alpha", limit=5, under=["in"]).stats["scanned_chunks"]
                == 10
            )


@pytest.mark.rows("C82", "C84", "R003-017", "R003-018", "R003-032")
@pytest.mark.parametrize(
    ("threshold", "limit", "again"),
    [
        (0.5, 5, False),
        (0.5, 20, False),  # ten of twenty is half: enough
        (0.5, 21, True),
        (0.0, 100, False),
        (1.0, 10, False),
        (1.0, 11, True),
        (0.25, 40, False),
        (0.25, 41, True),
    ],
)
def test_when_hybrid_asks_again(threshold, limit, again, many, caplog):
    """Fewer than this share of the limit, and it looks at all rows too, with a line in the log;
    that finds nothing new, because nothing was missed."""
    caplog.set_level("DEBUG", "tamis.search")
    flags = {
        "search__workspace_filtering": "hybrid",
        "search__fallback_threshold": threshold,
    }
    with opened(many, SPACES, **flags) as corpus, opened(many, SPACES) as native:
        found = corpus.search("alpha", workspace="in", limit=limit)
        assert found.stats["scanned_chunks"] == 10 + 100 * again
        said = f"10 results of {limit} wanted: asked again, filtered after"
        assert caplog.messages == ([said] if again else [])
        assert essence(found) == essence(
            native.search("alpha", workspace="in", limit=limit)
        )
        assert len(found.results) == min(limit, 10)


@pytest.mark.rows("R003-031", "R003-032")
def test_the_defaults_of_workspace_filtering(tmp_path):
    """Native, and half."""
    search = load(tmp_path, {}, {"HOME": os.devnull}).search
    assert (search.workspace_filtering, search.fallback_threshold) == ("native", 0.5)


@pytest.mark.rows("R003-031", "C84")
@pytest.mark.parametrize("wrong", ["Native", "pre", "", "none", "quadrant"])
def test_a_way_that_there_is_not(wrong, tmp_path):
    """An error that names the ways."""
    for source in ({"search.workspace_filtering": wrong}, {}):
        variable = {} if source else {"TAMIS_SEARCH_WORKSPACE_FILTERING": wrong}
        with pytest.raises(BadSetting) as caught:
            load(tmp_path, source, {"HOME": "/nonexistent"} | variable)
        assert "native, post, hybrid, qdrant" in caught.value.hint


@pytest.mark.rows("R003-032")
@pytest.mark.parametrize("wrong", [-0.1, 1.1, "half", float("nan")])
def test_a_share_that_is_none(wrong, tmp_path):
    with pytest.raises(BadSetting):
        load(tmp_path, {"search.fallback_threshold": wrong}, {"HOME": "/nonexistent"})
