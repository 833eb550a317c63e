"""Settings: where they come from, what is refused, and that every key does something."""

import itertools
import json
import math
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import served
from support.corpora import RANKS_ALONE, write_files
from support.corpora import test_settings as settings_of
from support.fake_qdrant import FakeQdrant, fake_qdrant
from support.sites import Site
from tamis.configuration import load, user_file
from tamis.corpus import Corpus, index_directory
from tamis.errors import (
    BadSetting,
    IndexMismatch,
    TooManyFiles,
)
from tamis.live.watcher import Said, Watcher
from tamis.model import Found
from tamis.models.cache import cache_folder
from tamis.server.state import ServerState
from tamis.settings import (
    ENVIRONMENT_NAMES,
    GONE,
    KEYS,
    PRESETS,
    Settings,
    environment_name,
)
from tamis.weights import FIELD_WEIGHTS, Weights

Make = Callable[..., Corpus]


def value_of(settings: Settings, name: str) -> Any:
    section, key = name.split(".")
    return getattr(getattr(settings, section), key)


GUARDS = (
    "index.max_files",
    "index.max_file_bytes",
    "index.memory_mb",
    "model.cache_mb",
)  # which a project may only lower


def two_values(name: str) -> tuple[Any, Any]:
    """Two legal values of a key, neither its default where there are enough."""
    default = value_of(Settings(), name)
    limits = KEYS[name].metadata
    if limits["choices"]:
        one, two, *_ = [each for each in limits["choices"] if each != default]
        return one, two
    if name in GUARDS:
        return default - 2, default - 1
    if name == "engine.url":
        return "http://127.0.0.1:1", "https://host:6333"
    if isinstance(default, bool):
        return not default, default
    if limits["high"] == 1:
        return 0.25, 0.75
    if isinstance(default, int | float):
        return type(default)(default + 1), type(default)(default + 2)
    return (
        ("one", "two") if isinstance(default, str) else (("one/",), ("two/", "three/"))
    )


def as_toml(name: str, value: Any) -> str:
    section, key = name.split(".")
    return f"[{section}]\n{key} = {json.dumps(list(value) if isinstance(value, tuple) else value)}\n"


def as_variable(value: Any) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value).lower()


class Sources:
    """A root and everything that settings are read from, weakest first."""

    def __init__(self, folder: Path, name: str, *, shared: bool = False) -> None:
        self.root = folder / "root"
        self.root.mkdir(exist_ok=shared)
        self.name = name
        self.environment = {
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        self.flags: dict[str, Any] = {}

    def user(self, value: Any) -> None:
        target = Path(self.environment["XDG_CONFIG_HOME"]) / "tamis" / "config.toml"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(as_toml(self.name, value), encoding="utf-8")

    def pyproject(self, value: Any) -> None:
        text = as_toml(self.name, value).replace("[", "[tool.tamis.", 1)
        (self.root / "pyproject.toml").write_text(
            f'[project]\nname = "x"\n{text}', encoding="utf-8"
        )

    def project(self, value: Any) -> None:
        (self.root / "tamis.toml").write_text(
            as_toml(self.name, value), encoding="utf-8"
        )

    def variable(self, value: Any) -> None:
        self.environment[environment_name(self.name)] = as_variable(value)

    def flag(self, value: Any) -> None:
        self.flags[self.name] = value

    def read(self) -> Any:
        return value_of(load(self.root, self.flags, self.environment), self.name)


ORDER = ("user", "pyproject", "project", "variable", "flag")
REFUSED_TO_PROJECTS = ("engine.url",)


@pytest.mark.parametrize("source", ["pyproject", "project"])
@pytest.mark.parametrize("consent", [None, "user", "variable", "flag"])
def test_a_project_cannot_say_where_documents_go(source, consent, tmp_path):
    """A checkout from a stranger must not send its reader's documents to a server of the stranger's."""
    sources = Sources(tmp_path, "engine.url")
    getattr(sources, source)("https://stranger:6333")
    if consent:
        getattr(sources, consent)("https://stranger:6333")
        assert sources.read() == "https://stranger:6333"
        getattr(sources, consent)("https://mine:6333")
    if consent in ("variable", "flag"):  # which win over the project's word
        assert sources.read() == "https://mine:6333"
        return
    with pytest.raises(BadSetting, match="may not say where your documents go"):
        sources.read()


@pytest.mark.parametrize(
    "url",
    [
        "host:6333",
        "ftp://host",
        "https://",
        "https://me:secret@host",
        "http://host:99999",
        "http://[",
    ],
)
def test_an_address_that_is_none(url, tmp_path):
    with pytest.raises(BadSetting, match=r"engine\.url is") as caught:
        load(tmp_path, {"engine.url": url}, {"HOME": "/nonexistent"})
    assert "TAMIS_ENGINE_API_KEY" in caught.value.hint


def test_query_expansion_is_for_an_index_on_this_machine(tmp_path):
    flags = {"engine.url": "https://host", "search.query_expansion_enabled": True}
    with pytest.raises(BadSetting, match="needs an index on this machine"):
        load(tmp_path, flags, {"HOME": "/nonexistent"})


@pytest.mark.parametrize("source", ORDER)
@pytest.mark.parametrize("name", KEYS)
def test_every_source_sets_every_key(name, source, tmp_path):
    if name in REFUSED_TO_PROJECTS and source in ("pyproject", "project"):
        return  # see below
    sources = Sources(tmp_path, name)
    assert sources.read() == value_of(Settings(), name)
    for value in two_values(name):
        getattr(sources, source)(value)
        assert sources.read() == value


@pytest.mark.rows("C35")
@pytest.mark.parametrize(("weaker", "stronger"), list(itertools.pairwise(ORDER)))
@pytest.mark.parametrize("name", KEYS)
def test_precedence(name, weaker, stronger, tmp_path):
    """The command line over the environment, over the project's file, over the user's."""
    if name in REFUSED_TO_PROJECTS and stronger in ("pyproject", "project"):
        return
    one, two = two_values(name)
    lowered_only = name in GUARDS and weaker == "user"
    for low, high in ((two, one),) if lowered_only else ((one, two), (two, one)):
        folder = tmp_path / f"{as_variable(low)}".replace("/", "_")
        folder.mkdir()
        sources = Sources(folder, name)
        getattr(sources, weaker)(low)
        getattr(sources, stronger)(high)
        assert sources.read() == high


@pytest.mark.rows("C35")
def test_sources_are_laid_over_each_other_key_by_key(tmp_path):
    """A stronger file replaces the keys it names, not the whole of a weaker one."""
    sources = Sources(tmp_path, "search.limit")
    sources.user(7)
    (sources.root / "tamis.toml").write_text(
        "[search]\nrrf_k_constant = 9\n", encoding="utf-8"
    )
    settings = load(sources.root, {}, sources.environment)
    assert (settings.search.limit, settings.search.rrf_k_constant) == (7, 9)


def test_a_given_file_stands_in_for_the_projects(tmp_path):
    sources = Sources(tmp_path, "search.limit")
    sources.project(7)
    other = tmp_path / "other.toml"
    other.write_text("[search]\nrrf_k_constant = 9\n", encoding="utf-8")
    settings = load(sources.root, {}, sources.environment, config=other)
    assert (settings.search.limit, settings.search.rrf_k_constant) == (5, 9)
    with pytest.raises(BadSetting, match="there is no configuration file"):
        load(sources.root, {}, sources.environment, config=tmp_path / "missing.toml")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        (
            {"TAMIS_USER_CONFIG": "/x/y.toml", "XDG_CONFIG_HOME": "/xdg", "HOME": "/h"},
            "/x/y.toml",
        ),
        ({"XDG_CONFIG_HOME": "/xdg", "HOME": "/h"}, "/xdg/tamis/config.toml"),
        ({"HOME": "/h"}, "/h/.config/tamis/config.toml"),
    ],
)
def test_where_the_users_file_is(environment, expected):
    assert user_file(environment) == Path(expected)


@pytest.mark.rows("R001-057..060")
@pytest.mark.parametrize(
    ("variable", "value", "key", "expected"),
    [
        ("GRAPHRAG_EXCLUDE_ARCHIVED", "false", "search.exclude_archived", False),
        ("GRAPHRAG_EXCLUDE_ARCHIVED", "Yes", "search.exclude_archived", True),
        ("GRAPHRAG_IGNORE_FILE", ".myignore", "ignore.file", ".myignore"),
        ("GRAPHRAG_DEFAULT_EXCLUSIONS", "0", "ignore.default_exclusions", False),
        ("GRAPHRAG_ARCHIVE_PATTERNS", ".archive/, .deprecated/,_backup/,", "archive.patterns",
         (".archive/", ".deprecated/", "_backup/")),
        ("TAMIS_INDEX_DIR", "/elsewhere", "index.directory", "/elsewhere"),
    ],
)  # fmt: skip
def test_names_that_the_seeds_gave(variable, value, key, expected, tmp_path):
    """The variables keep their names."""
    assert variable in ENVIRONMENT_NAMES
    assert (
        value_of(load(tmp_path, {}, {"HOME": "/nonexistent", variable: value}), key)
        == expected
    )


@pytest.mark.parametrize("word", ["true", "TRUE", "yes", "on", "1", " true "])
def test_words_for_true(word, tmp_path):
    environment = {"HOME": "/nonexistent", "TAMIS_IGNORE_DEFAULT_EXCLUSIONS": word}
    assert load(tmp_path, {}, environment).ignore.default_exclusions is True


# --- Presets -------------------------------------------------------------------------

# What settings.py says of each, once more.
PRESET_KEYS = {
    "fast": {"candidate_depth": 50, "max_hops": 0, "ngram_dedup_enabled": False},
    "balanced": {},
    "best": {"candidate_depth": 100, "graph_trust": 1.5},
}


@pytest.mark.parametrize("preset", PRESET_KEYS)
def test_a_preset_differs_from_balanced_in_what_it_says(preset, tmp_path):
    chosen = load(tmp_path, {"search.preset": preset}, {"HOME": "/nonexistent"})
    usual = Settings()
    before = asdict(usual.search) | asdict(usual.weights)
    after = asdict(chosen.search) | asdict(chosen.weights)
    changed = {name: value for name, value in after.items() if value != before[name]}
    assert changed.pop("preset", "balanced") == preset
    assert changed == PRESET_KEYS[preset]
    assert replace(chosen, search=usual.search, weights=usual.weights) == usual
    assert set(PRESET_KEYS) == set(PRESETS)


# A project has one file; what is in the same file is in the next test.
PLACES = [
    (one, two)
    for one, two in itertools.product(ORDER, repeat=2)
    if {one, two} - {"pyproject", "project"}
    and (one != two or one in ("variable", "flag"))
]


@pytest.mark.parametrize(("of_preset", "of_key"), PLACES)
@pytest.mark.parametrize(
    ("preset", "name", "value", "other"),
    [
        ("fast", "search.max_hops", 1, "search.ngram_dedup_enabled"),
        ("best", "search.max_hops", 2, "weights.graph_trust"),
    ],
)
def test_a_key_that_is_set_wins_over_the_preset(
    of_preset, of_key, preset, name, value, other, tmp_path
):
    """Wherever either comes from, and even where it says the default; the preset's other keys stay."""
    sources, chosen = (
        Sources(tmp_path, name),
        Sources(tmp_path, "search.preset", shared=True),
    )
    chosen.environment = sources.environment
    chosen.flags = sources.flags
    getattr(sources, of_key)(value)
    getattr(chosen, of_preset)(preset)
    settings = load(sources.root, sources.flags, sources.environment)
    assert (settings.search.preset, value_of(settings, name)) == (preset, value)
    assert value_of(settings, other) == value_of(PRESETS[preset], other)


def test_a_preset_and_a_key_in_one_file(tmp_path):
    for text in ('preset = "fast"\nmax_hops = 2', 'max_hops = 2\npreset = "fast"'):
        (tmp_path / "tamis.toml").write_text(f"[search]\n{text}\n", encoding="utf-8")
        settings = load(tmp_path, {}, {"HOME": "/nonexistent"}).search
        assert (settings.preset, settings.max_hops, settings.ngram_dedup_enabled) == (
            "fast",
            2,
            False,
        )


@pytest.mark.parametrize("source", ORDER)
def test_a_preset_that_is_none(source, tmp_path):
    sources = Sources(tmp_path, "search.preset")
    getattr(sources, source)("quick")
    with pytest.raises(BadSetting, match=r"search\.preset is 'quick'") as caught:
        sources.read()
    assert caught.value.hint == "allowed: fast, balanced, best"


# --- Refusals ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[search]\nlimt = 3", "did you mean search.limit?"),
        ("[serch]\nlimit = 3", "did you mean search?"),
        ("[search]\nmin_confidance = 0.3", "did you mean search.min_confidence?"),
        ("[search]\nlimit = 'many'", "a whole number"),
        ("[search]\nlimit = 2.5", "a whole number"),
        ("[search]\nlimit = true", "a whole number"),
        ("[search]\nsemantic_weight = true", "a number"),
        ("[search]\nngram_dedup_enabled = 'maybe'", "true or false"),
        ("[search]\nngram_dedup_enabled = 1", "true or false"),
        ("[ignore]\nfile = 3", "text"),
        ("[archive]\npatterns = 3", "a list of texts"),
        ("[archive]\npatterns = ['a', 3]", "a list of texts"),
        ("[search]\nlimit = 0", "1 to 100"),
        ("[search]\nlimit = 101", "1 to 100"),
        ("[search]\nmin_confidence = -0.1", "0 to 1"),
        ("[search]\nmin_confidence = nan", "0 to 1"),
        ("[search]\nsemantic_weight = -1", "0 or more"),
        ("[search]\nsemantic_weight = inf", "0 or more"),
        ("[chunking]\nmax_chars = 50", "100 or more"),
        ("[chunking]\nmin_chars = 2000", "must not exceed"),
        ("[search]\nworkspace_filtering = 'never'", "native, post, hybrid, qdrant"),
        ("[search]\nrecency_profile = 'none'", "docs, code, off"),
        ("[search]\npreset = 'slow'", "fast, balanced, best"),
        ("[engine]\ncollection = '../other'", "letters, digits"),
        ("[search]\npreset = 3", "text"),
        ("[search]\nmmr_lambda = 1.1", "0 to 1"),
        ("[search]\ngraph_weight = -1", "0 or more"),
        ("[search]\nmmr_lambda = 1.5", "0 to 1"),
        ("[chunking]\noverlap_chars = 800", "half"),
        ("[weights]\ncoherence = 0.1", "only tamis eval"),
        ("search = 3", "[search]"),
        ("workspaces = 3", "[workspaces]"),
        ("[workspaces]\napi = 3", "a list of texts"),
        ("top = 3", "known: search"),
        ("[search\nlimit = 3", "mend the file"),
        ("a = " + "[" * 5000, "mend the file"),
    ],
    ids=lambda value: value[:40],
)
def test_a_bad_file_is_a_fault_that_says_what_to_do(toml, said, tmp_path):
    (tmp_path / "tamis.toml").write_text(toml, encoding="utf-8")
    with pytest.raises(BadSetting) as caught:
        load(tmp_path, {}, {"HOME": "/nonexistent"})
    assert said in caught.value.hint
    assert re.search(r"tamis\.toml|sizes|engine\.", caught.value.message)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"TAMIS_SEARCH_LIMT": "3"}, "did you mean TAMIS_SEARCH_LIMIT?"),
        ({"TAMIS_SEARCH_LIMIT": "many"}, "a whole number"),
        ({"TAMIS_SEARCH_LIMIT": "500"}, "1 to 100"),
        ({"TAMIS_SEARCH_SEMANTIC_WEIGHT": "inf"}, "0 or more"),
        ({"GRAPHRAG_EXCLUDE_ARCHIVED": "perhaps"}, "true or false"),
    ],
)
def test_a_bad_variable_is_a_fault_too(environment, said, tmp_path):
    with pytest.raises(BadSetting) as caught:
        load(tmp_path, {}, {"HOME": "/nonexistent"} | environment)
    assert said in caught.value.hint
    assert next(iter(environment)) in caught.value.message


def test_files_that_cannot_be_settings(tmp_path):
    (tmp_path / "tamis.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadSetting, match="not valid TOML"):
        load(tmp_path, {}, {"HOME": "/nonexistent"})


@pytest.mark.parametrize(
    "text", ["tool = 3", "[tool]\nother = 1", "[project]\nname = 'x'", ""]
)
def test_a_pyproject_of_others_is_nothing_to_us(text, tmp_path):
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    assert load(tmp_path, {}, {"HOME": "/nonexistent"}) == Settings()


def test_a_pyproject_whose_table_is_no_table(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool]\ntamis = 3", encoding="utf-8")
    with pytest.raises(BadSetting, match="must be a table"):
        load(tmp_path, {}, {"HOME": "/nonexistent"})


@pytest.mark.parametrize("name", GONE)
def test_a_key_that_is_gone_says_what_to_do(name, tmp_path):
    """In a file, in the environment and as a flag."""
    section, key = name.split(".")
    file = tmp_path / "tamis.toml"
    file.write_text(f"[{section}]\n{key} = 1\n", encoding="utf-8")
    away = {"HOME": "/nonexistent"}
    variable = environment_name(name)
    for flags, environment, config, source in (
        ({}, away, file, str(file)),
        ({}, away | {variable: "1"}, None, variable),
        ({name: 1}, away, None, "the command line"),
    ):
        with pytest.raises(BadSetting) as caught:
            load(tmp_path / "empty", flags, environment, config)
        assert caught.value.message == f"{name} is gone: {GONE[name]}"
        assert source in caught.value.hint
    assert name not in KEYS
    assert re.fullmatch(r"\S.*[^.\s]", GONE[name])


def test_other_variables_are_none_of_ours(tmp_path):
    environment = {
        "HOME": "/nonexistent",
        "TAMISX": "1",
        "GRAPHRAG_OTHER": "1",
        "_TAMIS_COMPLETE": "x",
    }
    assert load(tmp_path, {}, environment) == Settings()


def test_every_key_says_what_it_is():
    for name, key in KEYS.items():
        assert key.metadata["doc"].endswith("."), name


def test_there_are_fifty_keys_at_most():
    assert len(KEYS) <= 50


@pytest.mark.rows(
    "R002-097",
    "R002-105..107",
    "R002-148",
    "R002-149",
    "R002-177..182",
    "R002-192",
    "C40",
    "C41",
    "C43",
    "C49",
)
def test_the_seeds_defaults():
    """Every key of the seeds has their name and their value, where they agree on one."""
    defaults = asdict(Settings().search) | asdict(Settings().weights)
    seeds = {
        "semantic_weight": 1.0, "keyword_weight": 1.0, "recency_bias": 0.5, "rrf_k_constant": 60,
        "max_chunks_per_doc": 0, "dedup_enabled": False, "dedup_similarity_threshold": 0.85,
        "ngram_dedup_enabled": True, "ngram_dedup_threshold": 0.7, "mmr_enabled": False, "mmr_lambda": 0.7,
        "rerank_enabled": False, "rerank_model": "minilm", "rerank_top_n": 10,
        "query_expansion_enabled": False, "query_expansion_max_terms": 10_000, "query_expansion_top_k": 3,
        "query_expansion_min_frequency": 2, "query_expansion_threshold": 0.5,
        "adaptive_weights_enabled": False, "code_search_weight": 1.0,
    }  # fmt: skip
    assert {name: defaults[name] for name in seeds} == seeds


# --- No dead knobs ---------------------------------------------------------------------

WEIGHTS = [each.name for each in fields(Weights) if each.name != "fields"]
CHANGEABLE = [
    *KEYS,
    "workspaces",
    *(f"weights.{name}" for name in WEIGHTS),
    *(f"fields.{name}" for name in FIELD_WEIGHTS),
]
EXPERIMENTS: dict[str, Callable[[Make, Path], None]] = {}


def experiment(
    *names: str,
) -> Callable[[Callable[[Make, Path], None]], Callable[[Make, Path], None]]:
    def register(run: Callable[[Make, Path], None]) -> Callable[[Make, Path], None]:
        EXPERIMENTS.update(dict.fromkeys(names, run))
        return run

    return register


@pytest.mark.rows(
    "R001-033",
    "R001-047",
    "R001-048",
    "R001-057..060",
    "R002-104",
    "R002-130",
    "R002-177",
    "R002-178",
    "R002-180",
)
@pytest.mark.parametrize("name", CHANGEABLE)
def test_every_key_changes_an_outcome(name, corpus_of, tmp_path):
    """Requirements part 2, suite 6: no key without an experiment that shows what it does.

    ."""
    assert name in EXPERIMENTS, f"{name} has no experiment: add one, or drop the key"
    EXPERIMENTS[name](corpus_of, tmp_path)


def test_no_experiment_is_left_over():
    assert set(EXPERIMENTS) == set(CHANGEABLE)


ANIMALS = {
    f"{name}.md": f"The {name} eats grass and {name} hay.\n"
    for name in ("cow", "horse", "sheep")
}


NO_CODE = {"search__code_search_enabled": False}


def paths(found: Found) -> list[str]:
    return [result.path for result in found.results]


def lanes(found: Found) -> set[str]:
    return {evidence.lane for result in found.results for evidence in result.evidence}


@experiment("search.limit")
def _(make, _):
    assert len(make(ANIMALS, search__limit=2).search("grass").results) == 2
    assert len(make(ANIMALS, search__limit=3).search("grass").results) == 3


@experiment("search.semantic_weight")
def _(make, _):
    assert lanes(make(ANIMALS, search__semantic_weight=0).search("grass")) == {"words"}
    heavy = (
        make(ANIMALS, search__semantic_weight=3, **NO_CODE, **RANKS_ALONE)
        .search("cow")
        .results[0]
    )
    assert heavy.raw_score == pytest.approx(3 / 61 + 1 / 61)


@experiment("search.keyword_weight")
def _(make, _):
    assert lanes(make(ANIMALS, search__keyword_weight=0).search("grass")) == {"meaning"}
    heavy = (
        make(ANIMALS, search__keyword_weight=3, **NO_CODE, **RANKS_ALONE)
        .search("cow")
        .results[0]
    )
    assert heavy.raw_score == pytest.approx(3 / 61 + 1 / 61)


@experiment("search.code_search_enabled", "search.code_search_weight")
def _(make, _):
    """R002-088, R002-089, C55."""
    files = {"src/a.py": "def getUserById(key):\n    return key\n"}
    assert "code" not in lanes(
        make(files, search__code_search_enabled=False).search("user by id")
    )
    assert "code" not in lanes(
        make(files, search__code_search_weight=0).search("user by id")
    )
    light, heavy = (
        make(
            files,
            search__code_search_weight=weight,
            weights__named_boost=1,
            **RANKS_ALONE,
        )
        .search("getUserById")
        .results[0]
        for weight in (1, 5)
    )
    assert heavy.raw_score - light.raw_score == pytest.approx(4 / 61)


@experiment("weights.score_trust")
def _(make, _):
    """C28: behind the best of its lane, a passage's word counts for less."""
    for by_score, expected in ((False, {1.0}), (True, {1.0, 0.2})):
        found = make(ANIMALS, weights__score_trust=by_score, **NO_CODE).search("cow")
        of_meaning = {
            e.confidence
            for r in found.results
            for e in r.evidence
            if e.lane == "meaning"
        }
        assert {round(sure, 2) for sure in of_meaning} >= expected
        assert (min(of_meaning) < 1) == by_score


@experiment("weights.keyword_trust", "weights.code_trust", "weights.graph_trust")
def _(make, _):
    """C28, R001-055: what a lane's word is worth, for each lane."""
    files = {
        "a.py": "def getUserById(key):\n    return key\n",
        "b.md": "See [[a.py]] for getUserById.\n",
    }
    for name, lane in (("keyword", "words"), ("code", "code"), ("graph", "links")):
        half, once = (
            make(
                files,
                weights__adaptive_trust=False,
                **{f"weights__{name}_trust": worth},
            )
            .search("getUserById")
            .results
            for worth in (0.5, 1)
        )
        of_lane = {
            result.path: e for result in half for e in result.evidence if e.lane == lane
        }
        assert of_lane
        for result in once:
            for evidence in result.evidence:
                if evidence.lane == lane:
                    assert of_lane[result.path].confidence == pytest.approx(
                        evidence.confidence / 2
                    )


@experiment("weights.adaptive_trust")
def _(make, _):
    """C28: one passage has the word, and the meaning lane has it first, too: as much as there can be."""
    for adaptive, words, expected in (
        (False, 0.8, 0.8), (True, 0.8, 2.0), (True, 0.2, 0.2 * math.exp(1.6 * 0.6 + 0.8 * 0.5)),
    ):  # fmt: skip
        flags = {
            "weights__adaptive_trust": adaptive,
            "weights__keyword_trust": words,
        }
        best = make(ANIMALS, **flags, **NO_CODE).search("cow").results[0]
        (of_words,) = (each for each in best.evidence if each.lane == "words")
        assert of_words.confidence == pytest.approx(expected)


@experiment("search.adaptive_weights_enabled")
def _(make, _):
    """R002-045, R002-047."""
    for question, meaning, words in (("cow", 1.3, 1.0), ("cow()", 1.0, 1.5)):
        for switch in (False, True):
            corpus = make(
                ANIMALS,
                search__adaptive_weights_enabled=switch,
                **NO_CODE,
                **RANKS_ALONE,
            )
            expected = (meaning + words if switch else 2) / 61
            assert corpus.search(question).results[0].raw_score == pytest.approx(
                expected
            )


BOOK = {
    "book.md": "".join(f"# Part {n}\n\n{'grass ' * 60}{n}\n" for n in range(5)),
    "a.md": "grass",
}


@experiment("weights.coherence")
def _(make, _):
    plain, more = (
        [
            r
            for r in make(BOOK, **RANKS_ALONE | change).search("grass", limit=9).results
            if r.path == "book.md"
        ]
        for change in ({}, {"weights__coherence": 0.5})
    )
    raw = [result.raw_score for result in plain]
    assert len(raw) == 5
    assert more[0].boosts["coherence"] == pytest.approx(1 + 0.5 * sum(raw[2:]) / raw[0])
    assert (
        [result.boosts for result in more[1:]]
        == [result.boosts for result in plain[1:]]
        == [{}] * 4
    )


@experiment("weights.saturation")
def _(make, _):
    for factor, expected in ((1, [None] * 5), (0.5, [None, 0.5, 0.25, 0.125, 0.0625])):
        found = make(BOOK, **RANKS_ALONE | {"weights__saturation": factor}).search(
            "grass", limit=9
        )
        of_book = [result for result in found.results if result.path == "book.md"]
        assert [result.boosts.get("saturation") for result in of_book] == expected


@experiment("search.preset")
def _(make, _):
    """Faster follows no links; best looks deeper."""
    for preset, linked in (("fast", False), ("balanced", True), ("best", True)):
        assert (
            "links" in lanes(make(LINKED, search__preset=preset).search("grass"))
        ) == linked
    many = {f"{number}.md": f"grass {number}" for number in range(120)}
    for preset, depth in (("fast", 50), ("balanced", 75), ("best", 100)):
        found = make(many, search__preset=preset, search__keyword_weight=0).search(
            "grass"
        )
        assert found.stats["original_count"] == depth


@experiment("weights.similarity_trust")
def _(make, _):
    """C28, R001-055: where the cosine is above 0.9, and nowhere else."""
    for factor in (1.0, 1.5):
        found = make(ANIMALS, weights__similarity_trust=factor, **RANKS_ALONE).search(
            "The cow eats grass and cow hay."
        )
        (best, *others) = [
            e for r in found.results for e in r.evidence if e.lane == "meaning"
        ]
        assert best.score > 0.9 > others[0].score
        assert (best.confidence, others[0].confidence) == (factor, 1.0)


@experiment("weights.candidate_depth")
def _(make, _):
    many = {f"{number}.md": f"grass {number}" for number in range(120)}
    for depth in (50, 80):
        found = make(
            many, weights__candidate_depth=depth, search__keyword_weight=0
        ).search("grass")
        assert found.stats["original_count"] == depth


@experiment("weights.path_boost", "weights.test_code_penalty")
def _(make, _):
    """A file whose name is asked for counts more, a test less."""
    files = {
        "src/session.py": "def keep():\n    return 1\n",
        "tests/test_it.py": "def keep():\n    return 2\n",
    }
    for key, path, name, factor in (
        ("weights__path_boost", "src/session.py", "file name", 1.7),
        ("weights__test_code_penalty", "tests/test_it.py", "aside", 0.3),
    ):
        found = make(files, **{key: factor}).search("how does a session keep")
        assert {result.path: result.boosts.get(name, 1.0) for result in found.results}[
            path
        ] == factor
        found = make(files, **{key: 1}).search("how does a session keep")
        assert not any(name in result.boosts for result in found.results)


@experiment("weights.inner_trust")
def _(make, _):
    """What the meaning lane finds at a document's beginning counts more; in code that says nothing."""
    text = "# Grass\n\nAbout grass.\n\n## Cows\n\nCows eat grass.\n"
    files = {
        "a.md": text,
        "src/a.py": "import grass\n\n\ndef eat():\n    return grass\n",
    }
    for worth, less in ((0.3, {("a.md", 5): 0.3}), (1, {})):
        flags = {
            **RANKS_ALONE,
            "weights__inner_trust": worth,
            "chunking__min_chars": 0,
        }
        found = make(files, **flags).search("grass").results
        assert len(found) > 2
        told = {
            (r.path, r.start_line): e.confidence
            for r in found
            for e in r.evidence
            if e.lane == "meaning"
        }
        assert {place: each for place, each in told.items() if each != 1.0} == less
        assert all(
            e.confidence == 1.0 for r in found for e in r.evidence if e.lane == "words"
        )


@experiment("weights.named_boost")
def _(make, _):
    """C28, R001-055: what a question names counts more."""
    files = {"src/a.py": "def getUserById(key):\n    return key\n"}
    once, thrice = (
        make(files, weights__named_boost=factor).search("getUserById").results[0]
        for factor in (1, 3)
    )
    assert thrice.raw_score == pytest.approx(3 * once.raw_score)
    assert (once.boosts, thrice.boosts) == ({}, {"named": 3.0})


LINKED = {
    "start.md": "grass and [[middle]]\n",
    "middle.md": "something [[end]]\n",
    "end.md": "other things\n",
}


@experiment("search.graph_weight", "search.max_hops")
def _(make, _):
    """C31, C61: how far links lead, and how much they count."""
    for hops, expected in (
        (0, set()),
        (1, {"middle.md"}),
        (2, {"middle.md", "end.md"}),
    ):
        found = make(LINKED, search__max_hops=hops, search__semantic_weight=0).search(
            "grass"
        )
        assert {
            result.path for result in found.results if result.path != "start.md"
        } == expected
    assert "links" not in lanes(make(LINKED, search__graph_weight=0).search("grass"))
    for weight, order in (
        (1, ["start.md", "middle.md"]),
        (7, ["middle.md", "start.md"]),
    ):
        flags = {
            "search__semantic_weight": 0,
            "search__graph_weight": weight,
            **RANKS_ALONE,
        }
        found = make(LINKED, **flags).search("grass")
        raw = {result.path: result.raw_score for result in found.results}
        assert paths(found) == order
        assert raw == pytest.approx(
            {"start.md": 1 / 61, "middle.md": weight * 0.5 / math.sqrt(2) / 61}
        )


@experiment("search.rrf_k_constant")
def _(make, _):
    """R002-180: first in both lanes, so 2 / (k + 1)."""
    for k in (1, 60):
        best = (
            make(ANIMALS, search__rrf_k_constant=k, **NO_CODE, **RANKS_ALONE)
            .search("cow")
            .results[0]
        )
        assert best.raw_score == pytest.approx(2 / (k + 1))


@experiment("search.min_confidence")
def _(make, _):
    every = make(ANIMALS, search__min_confidence=0.0).search("cow")
    assert len(every.results) == 3
    first, second = (result.score for result in every.results[:2])
    assert paths(
        make(ANIMALS, search__min_confidence=(first + second) / 2).search("cow")
    ) == ["cow.md"]
    assert paths(make(ANIMALS, search__min_confidence=1.0).search("cow")) == []


@experiment("weights.content_dedup_enabled")
def _(make, _):
    twins = {"a.md": "the same text", "b.md": "the  same\ntext"}
    for flag, shown in ((True, ["a.md"]), (False, ["a.md", "b.md"])):
        assert (
            paths(make(twins, weights__content_dedup_enabled=flag).search("same"))
            == shown
        )


@experiment("search.ngram_dedup_enabled", "search.ngram_dedup_threshold")
def _(make, _):
    """R002-106, R002-107, C45: one letter of a sentence is no other text, unless nothing but all will do."""
    texts = {
        name: f"The sheep eats {grass} on the meadow."
        for name, grass in (("a.md", "grass"), ("b.md", "Gras"))
    }
    for flags, count in (
        ({"search__ngram_dedup_enabled": True}, 1),
        ({"search__ngram_dedup_enabled": False}, 2),
        (
            {
                "search__ngram_dedup_enabled": True,
                "search__ngram_dedup_threshold": 0.95,
            },
            2,
        ),
    ):
        assert len(make(texts, **flags).search("sheep").results) == count


SAME_WORDS = {
    "a.md": "grass sheep meadow",
    "b.md": "meadow grass sheep",
    "c.md": "grass in a zoo",
}


@experiment("search.dedup_enabled", "search.dedup_similarity_threshold")
def _(make, _):
    """R002-097, R002-105, C40, C43: the hashing embedder takes texts of the same words for the same."""
    for flags, count in (
        ({"search__dedup_enabled": True}, 2),
        ({"search__dedup_enabled": False}, 3),
        ({"search__dedup_enabled": True, "search__dedup_similarity_threshold": 0.1}, 1),
    ):
        found = make(SAME_WORDS, **flags).search("grass")
        assert len(found.results) == count
        assert found.stats["clusters_merged"] == 3 - count


@experiment("search.mmr_enabled", "search.mmr_lambda")
def _(make, _):
    """R002-148, R002-149, C63."""
    for flags, last in (
        ({"search__mmr_enabled": False}, "c.md"),
        ({"search__mmr_enabled": True, "search__mmr_lambda": 1.0}, "c.md"),
        ({"search__mmr_enabled": True, "search__mmr_lambda": 0.1}, "b.md"),
    ):
        found = make(SAME_WORDS, **flags).search("sheep grass meadow")
        assert paths(found)[-1] == last


@experiment("search.recency_profile", "search.recency_bias")
def _(make, _):
    """R002-179, C29, C62: a file of just now."""
    for profile, bias, factor in (
        ("off", 0.5, None), ("docs", 0.5, 1.2), ("code", 0.5, 1.5), ("code", 0.0, None), ("code", 1.0, 2.0),
    ):  # fmt: skip
        found = make(
            ANIMALS, search__recency_profile=profile, search__recency_bias=bias
        ).search("grass")
        for result in found.results:
            assert result.boosts.get("recency") == (factor and pytest.approx(factor))


@experiment("search.max_chunks_per_doc")
def _(make, _):
    """R002-104: 0 is no limit."""
    book = {"book.md": "".join(f"# Part {n}\n\n{'grass ' * 60}{n}\n" for n in range(4))}
    for most, expected in ((0, 4), (1, 1), (3, 3)):
        assert (
            len(make(book, search__max_chunks_per_doc=most).search("grass").results)
            == expected
        )


class Slow:
    """A reranker that takes ten milliseconds a passage by its own account, and likes late names best."""

    name = "slow"

    def scores(
        self, query: str, passages: Sequence[str], seconds: float = 0.0
    ) -> list[float]:
        fit = round(seconds * 100) if seconds else len(passages)
        return [float(ord(passage[0])) for passage in passages][:fit]


@experiment(
    "search.rerank_enabled",
    "search.rerank_top_n",
    "weights.rerank_budget_ms",
    "search.rerank_model",
)
def _(make, _):
    """R002-069, R002-070, R002-071, R002-181, C52, C65."""
    loaded: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "tamis.models.rerankers.load_reranker",
            lambda name, *_: loaded.append(name) or Slow(),
        )
        plain = make(ANIMALS).search("cow")
        assert (plain.stats["reranked"], paths(plain)[0], loaded) == (0, "cow.md", [])
        for change, reranked in (
            ({}, 3),
            ({"search__rerank_top_n": 2}, 2),
            ({"weights__rerank_budget_ms": 20}, 2),
            ({"weights__rerank_budget_ms": 10}, 0),
            ({"weights__rerank_budget_ms": 0}, 3),
        ):
            found = make(ANIMALS, search__rerank_enabled=True, **change).search("cow")
            assert found.stats["reranked"] == reranked
            before = paths(plain)
            assert (
                paths(found)
                == sorted(before[:reranked], reverse=True) + before[reranked:]
            )
        make(
            ANIMALS, search__rerank_enabled=True, search__rerank_model="./mine"
        ).search("cow")
    assert set(loaded[:-1]) == {"minilm"}
    assert loaded[-1] == "./mine"


@experiment("search.exclude_archived")
def _(make, _):
    """R001-033, R001-057."""
    files = {"now.md": "grass", "archive/then.md": "grass too"}
    assert paths(make(files, search__exclude_archived=True).search("grass")) == [
        "now.md"
    ]
    assert len(make(files, search__exclude_archived=False).search("grass").results) == 2


@experiment("chunking.min_chars")
def _(make, _):
    two = {"a.md": "# One\n\nshort\n\n# Two\n\nshort too\n"}
    for least, chunks in ((0, 2), (200, 1)):
        assert make(two, chunking__min_chars=least).status().index.chunks == chunks


@experiment("chunking.max_chars")
def _(make, _):
    long = {"a.md": "word " * 200}
    for most, chunks in ((1000, 1), (500, 3)):
        corpus = make(long, chunking__max_chars=most, chunking__overlap_chars=50)
        assert corpus.status().index.chunks == chunks
        assert all(
            len(result.content) <= most for result in corpus.search("word").results
        )


@experiment("chunking.overlap_chars")
def _(make, _):
    text = " ".join(f"word{number}" for number in range(400))
    for overlap in (0, 100):
        corpus = make({"a.txt": text}, chunking__overlap_chars=overlap)
        parts = sorted(
            corpus.search("word7", limit=100).results,
            key=lambda result: result.chunk_id,
        )
        shared = set(parts[0].content.split()) & set(parts[1].content.split())
        assert bool(shared) == bool(overlap)


PAGES = {
    "a.md": "".join(
        f"# Part {n}\n\n" + "grass and hay. " * 60 + "\n\n" for n in range(6)
    )
}


@experiment("chunking.parents")
def _(make, _):
    """R002-157, R002-164: small passages are searched, their sections are shown."""
    plain = make(PAGES).search("grass", limit=20).results
    assert all(
        result.parent_chunk_id is None and len(result.content) <= 1500
        for result in plain
    )
    shown = make(PAGES, chunking__parents=True).search("grass", limit=20).results
    assert all(result.chunk_id == result.parent_chunk_id for result in shown)
    assert max(len(result.content) for result in shown) > 600
    also = (
        make(PAGES, search__parent_retrieval_enabled=True)
        .search("grass", limit=20)
        .results
    )
    assert [result.content for result in also] == [result.content for result in shown]


def words_score(found: Found, lane: str = "words") -> float:
    scores = [
        item.score
        for result in found.results
        for item in result.evidence
        if item.lane == lane
    ]
    return max(scores, default=0.0)


CODE_FIELD_FILES = {
    "symbols": {"a.py": "def zebra_skin():\n    pass\n"},
    "path": {"zebra_skin.md": "text\n"},
    "code": {"a.py": "print(zebra_skin)\n"},
}


def weigh_code_field(field: str) -> None:
    @experiment(f"fields.{field}")
    def _(make, _):
        """C55: symbols, paths and code have weights of their own."""
        others = {f"fields__{name}": 0 for name in CODE_FIELD_FILES if name != field}
        files = CODE_FIELD_FILES[field] | {"b.md": "something else"}
        none, some, much = (
            words_score(
                make(files, **others, **{f"fields__{field}": weight}).search(
                    "zebra_skin"
                ),
                "code",
            )
            for weight in (0, 1, 9)
        )
        assert none == 0 < some < much


for each in CODE_FIELD_FILES:
    weigh_code_field(each)


FIELD_TEXTS = {
    "title": "---\ntitle: zebra\n---\ntext\n",
    "headers": "# Zebra\n\ntext\n",
    "keywords": "---\nkeywords: [zebra]\n---\ntext\n",
    "description": "---\ndescription: zebra\n---\ntext\n",
    "tags": "---\ntags: [zebra]\n---\ntext\n",
    "aliases": "---\naliases: [zebra]\n---\ntext\n",
    "author": "---\nauthor: zebra\n---\ntext\n",
    "category": "---\ncategory: zebra\n---\ntext\n",
    "body": "zebra\n",
}


def weigh_field(field: str) -> None:
    @experiment(f"fields.{field}")
    def _(make, _):
        """R002-130, C47: the weights are configurable; none gives nothing, more gives more."""
        files = {"a.md": FIELD_TEXTS[field], "b.md": "something else"}
        none, some, much = (
            words_score(make(files, **{f"fields__{field}": weight}).search("zebra"))
            for weight in (0, 1, 9)
        )
        assert none < some < much
        if field not in ("headers",):  # a heading's words are in the passage as well
            assert none == 0


for each in FIELD_TEXTS:
    weigh_field(each)


@experiment("index.directory")
def _(make, folder):
    corpus = make(ANIMALS, index__directory=str(folder / "elsewhere"))
    assert (folder / "elsewhere" / "index.db").exists()
    assert not (corpus.root / ".tamis").exists()
    assert (make(ANIMALS).root / ".tamis" / "index.db").exists()


@experiment("index.max_file_bytes")
def _(make, _):
    files = {"small.md": "grass", "large.md": "grass " * 100}
    for most, expected in ((10**18, 2), (100, 1)):
        assert (
            len(make(files, index__max_file_bytes=most).search("grass").results)
            == expected
        )


@contextmanager
def watchers(make: Make, *flags: dict[str, Any]) -> Iterator[list["Listening"]]:
    """One for each set of flags, at the same time, so that what one does not do can be told by another."""
    listening = [Listening(make(ANIMALS, **each)) for each in flags]
    try:
        for each in listening:
            each.watcher.start()
            wait_until(lambda each=each: each.calls)
        yield listening
    finally:
        for each in listening:
            each.watcher.close()


class Listening:
    """A watcher, how often it called, and what it said."""

    def __init__(self, corpus: Corpus) -> None:
        self.root = corpus.root
        self.calls: list[bool] = []
        self.said: list[Said] = []
        settings, called = corpus.settings, lambda sure: self.calls.append(sure) or 0.0
        self.watcher = Watcher(
            corpus.root,
            corpus.directory,
            lambda: settings,
            called,
            say=self.said.append,
        )


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@experiment("index.max_files")
def _(make, _):
    """In full in tests/contract/test_limits.py."""
    assert make(ANIMALS, index__max_files=len(ANIMALS)).search("grass").results
    with pytest.raises(TooManyFiles):
        make(ANIMALS, index__max_files=1)


@experiment("index.memory_mb")
def _(make, _):
    """What has no room in it is skipped; in full in tests/contract/test_limits.py."""
    large = {"a.md": "# A" + "\n" * 1_700_000}
    skipped = [
        make(large, index__memory_mb=size).status().skipped for size in (64, 200)
    ]
    assert [len(each) for each in skipped] == [1, 0]


@experiment("watch.poll")
def _(make, _):
    with watchers(make, {"watch__poll": False}, {"watch__poll": True}) as (
        told,
        looking,
    ):
        assert [said.state for said in told.said] == ["watching"]
        assert [said.state for said in looking.said] == ["polling"]
        wait_until(lambda: looking.calls[1:] == [False])
        assert told.calls == [True]


@experiment("model.name")
def _(make, _):
    assert lanes(make(ANIMALS, model__name="hashing").search("grass")) == {
        "meaning",
        "words",
    }
    wordy = make(ANIMALS, model__name="none")
    assert lanes(wordy.search("grass")) == {"words"}
    with (
        pytest.raises(IndexMismatch),
        Corpus(wordy.root, wordy.directory, settings_of(wordy.root)) as other,
    ):
        other.search("grass")


@experiment("model.threads")
def _(make, _):
    """As many texts are embedded at the same time as there are threads, and no more."""
    from tamis.models import granite
    from tamis.models.embedders import worker_threads
    from tamis.models.encoder import Encoder

    class Tokens:
        ids = (1,)

    class Toy:
        def encode(self, text: str) -> Tokens:
            return Tokens()

    def embedder(threads: int, together: int, seen: set[str]) -> Encoder:
        barrier = threading.Barrier(together, timeout=60)

        def forward(session: object, ids: object) -> np.ndarray:
            seen.add(threading.current_thread().name)
            barrier.wait()
            return np.array([1.0, 0.0], np.float32)

        return Encoder(
            "granite",
            "toy",
            2,
            (0.5, 1.0),
            None,
            Toy(),
            forward,
            worker_threads(threads),
        )

    for threads, kept in ((1, 0), (3, 0), (1, 500), (3, 500)):
        seen: set[str] = set()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                granite, "load", lambda asked, seen=seen: embedder(asked, asked, seen)
            )
            make(
                ANIMALS,
                model__name="granite",
                model__threads=threads,
                model__cache_mb=kept,
            )
            shutil.rmtree(cache_folder(os.environ), ignore_errors=True)
        assert len(seen) == threads


@experiment("model.cache_mb")
def _(make, _):
    """What was embedded in one root is not embedded again in another, unless nothing is kept."""
    from tamis.models import granite
    from tamis.models.hashing import HashingEmbedder

    class Model(HashingEmbedder):
        name = "granite"
        read = 0

        def embed_passages(self, texts: Sequence[str]) -> np.ndarray:
            self.read += len(texts)
            return super().embed_passages(texts)

    for megabytes, times in ((0, 2), (100, 1)):
        model = Model()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(granite, "load", lambda _, model=model: model)
            for _ in range(2):
                make(ANIMALS, model__name="granite", model__cache_mb=megabytes)
        assert model.read == times * len(ANIMALS)


@experiment("ignore.default_exclusions")
def _(make, _):
    """R001-059, C22."""
    files = ANIMALS | {"build/out.md": "grass", ".hidden.md": "grass"}
    for switch, expected in ((True, 3), (False, 5)):
        assert (
            make(files, ignore__default_exclusions=switch).status().index.documents
            == expected
        )


@experiment("ignore.file")
def _(make, _):
    """R001-058."""
    files = ANIMALS | {
        ".graphragignore": "cow.md\n",
        "my.ignore": "horse.md\nsheep.md\nmy.ignore\n",
    }
    assert "cow.md" not in paths(make(files).search("grass"))
    assert paths(make(files, ignore__file="my.ignore").search("grass")) == ["cow.md"]


@experiment("archive.index")
def _(make, _):
    """C17: archived files are indexed and hidden, or, when told so, not indexed at all."""
    files = {
        "archive/a.md": "grass",
        ".archive/b.md": "grass too",
        "c.md": "grass three",
    }
    shown = make(files).search("grass", exclude_archived=False)
    assert {result.path for result in shown.results} == set(files)
    without = make(files, archive__index=False).search("grass", exclude_archived=False)
    assert {result.path for result in without.results} == {"c.md"}


@experiment("weights.archive_folder_penalty", "weights.archive_file_penalty")
def _(make, _):
    """R001-047, R001-048: each factor on its own kind of archived file, the smaller where both apply."""
    files = {
        "archive/a.md": "grass",
        "b.md.old": "grass too",
        "archive/c.old": "grass three",
    }
    corpus = make(
        files, weights__archive_folder_penalty=0.25, weights__archive_file_penalty=0.75
    )
    found = corpus.search("grass", exclude_archived=False)
    assert {result.path: result.boosts for result in found.results} == {
        "archive/a.md": {"archive": 0.25},
        "b.md.old": {"archive": 0.75},
        "archive/c.old": {"archive": 0.25},
    }
    plain = make(
        files, weights__archive_folder_penalty=1, weights__archive_file_penalty=1
    )
    full = {
        result.path: result
        for result in plain.search("grass", exclude_archived=False).results
    }
    for result in found.results:
        assert full[result.path].boosts == {}
        assert result.raw_score == pytest.approx(
            full[result.path].raw_score * result.boosts["archive"]
        )


@experiment("archive.patterns")
def _(make, _):
    """R001-060, C23."""
    files = {
        "now.md": "grass",
        "attic/then.md": "grass too",
        "archive/old.md": "grass three",
    }
    assert set(paths(make(files).search("grass"))) == {"now.md", "attic/then.md"}
    assert set(paths(make(files, archive__patterns=["attic/"]).search("grass"))) == {
        "now.md",
        "archive/old.md",
    }


def in_a_workspace(folder: Path, **flags: object) -> Found:
    """One file of three is in the workspace."""
    root = write_files(
        folder / "shop",
        {
            "tamis.toml": '[workspaces]\napi = ["docs/api"]\n',
            "docs/api/a.md": "grass",
            "docs/b.md": "grass",
            ".graphragignore": "tamis.toml",
        },
    )
    settings = settings_of(root, **flags)
    with Corpus(root, index_directory(root, settings, None), settings) as corpus:
        corpus.refresh()
        return corpus.search("grass", workspace="API")


@experiment("workspaces")
def _(_, folder):
    """X9, C81: a workspace is a name for folders, subfolders included."""
    assert paths(in_a_workspace(folder)) == ["docs/api/a.md"]


@experiment("search.workspace_filtering", "search.fallback_threshold")
def _(_, folder):
    """C82, C84: the same answer every way; what differs is how many rows were looked at for it."""
    ways = {
        ("native", 1.0): 1,
        ("qdrant", 1.0): 1,
        ("post", 1.0): 2,
        ("hybrid", 1.0): 3,
        ("hybrid", 0.2): 1,
    }
    for (way, share), scanned in ways.items():
        found = in_a_workspace(
            folder, search__workspace_filtering=way, search__fallback_threshold=share
        )
        assert paths(found) == ["docs/api/a.md"]
        assert found.stats["scanned_chunks"] == scanned


EXPANDING = {
    "search__query_expansion_enabled": True,
    "weights__query_expansion_threshold": -1.0,
}
COMMON = {
    **{
        f"{n}.md": f"retry policy and backoff {'jitter' if n < 3 else 'delays'} {n}\n"
        for n in range(5)
    },
    "once.md": "retried zigzag\n",
}


@experiment("search.query_expansion_enabled")
def _(make, _):
    """R002-034: a switch, off unless turned on, that indexing looks at, too."""
    plain, wide = make(COMMON), make(COMMON, **EXPANDING)
    assert plain.search("retry").expansion == ()
    assert not (plain.directory / "concepts").exists()
    assert len(wide.search("retry").expansion) == 3
    assert (wide.directory / "concepts").exists()


@experiment("weights.query_expansion_top_k", "weights.query_expansion_threshold")
def _(make, _):
    """R002-036."""
    for most in (1, 2):
        few = make(COMMON, **EXPANDING, weights__query_expansion_top_k=most).search(
            "retry"
        )
        assert len(few.expansion) == most
    near = make(
        COMMON, **EXPANDING | {"weights__query_expansion_threshold": 0.999}
    ).search("retry")
    assert near.expansion == ()


@experiment(
    "weights.query_expansion_min_frequency", "weights.query_expansion_max_terms"
)
def _(make, _):
    """R002-027, R002-037: what is rare is not added; the most frequent are."""
    ten = EXPANDING | {"weights__query_expansion_top_k": 10}
    for floor, expected in (
        (1, {"policy", "backoff", "jitter", "delays", "zigzag"}),
        (2, {"policy", "backoff", "jitter", "delays"}),
        (3, {"policy", "backoff", "jitter"}),
    ):
        found = make(
            COMMON, **ten, weights__query_expansion_min_frequency=floor
        ).search("retry")
        assert set(found.expansion) == expected
    found = make(COMMON, **ten, weights__query_expansion_max_terms=3).search("retry")
    assert set(found.expansion) == {
        "policy",
        "backoff",
    }  # and retry, which is there already


@experiment("weights.query_expansion_keywords")
def _(make, _):
    """R002-033: the words lane may have the terms, too, for less."""
    files = COMMON | {"other.md": "backoff alone, backoff again\n"}
    for weight in (0, 0.5):
        found = make(
            files, **EXPANDING, weights__query_expansion_keywords=weight
        ).search("retry", limit=20)
        assert "backoff" in found.expansion
        other = next(result for result in found.results if result.path == "other.md")
        assert ("words" in {evidence.lane for evidence in other.evidence}) is bool(
            weight
        )


@experiment("search.synonyms", "weights.synonym_weight")
def _(make, _):
    """R002-061, R002-064."""
    files = {"a.md": "the repository\n", "b.md": "grass\n"}
    alone = {"search__semantic_weight": 0.0}
    assert paths(make(files, **alone).search("repo")) == []
    some, more = (
        make(
            files, **alone, search__synonyms="software", weights__synonym_weight=weight
        ).search("repo")
        for weight in (0.3, 0.6)
    )
    assert (paths(some), some.synonyms) == (["a.md"], ("repository",))
    assert words_score(more) == pytest.approx(2 * words_score(some))
    files = {"a.md": "grass\n", "own.txt": "hay, grass\n", ".graphragignore": "own.txt"}
    own = make(files, search__synonyms="own.txt")
    assert own.search("hay").synonyms == ("grass",)
    with pytest.raises(BadSetting, match=r"search\.synonyms: cannot read"):
        make(files, search__synonyms="thesaurus").search("hay")


@experiment("server.max_tokens")
def _(_, folder):
    sizes = [
        len(served.text(over(folder, server__max_tokens=most), query="grass"))
        for most in (200, 2000)
    ]
    assert sizes[0] <= 800 < sizes[1]


MANY = {f"{n}.md": f"# {n}\n\ngrass {n}\n" * 50 for n in range(400)}


@experiment("server.editor")
def _(_, folder):
    """Which address the page opens a file with; a checkout chooses among those that editors listen for."""
    opened = {
        name: Site(over(folder, server__editor=name))
        for name in ("vscode", "zed", "none")
    }
    told = {
        name: site.get("/status")["server"]["editor"] for name, site in opened.items()
    }
    assert [told[name].partition(":")[0] for name in told] == ["vscode", "zed", ""]
    for site in opened.values():
        site.close()
    with pytest.raises(BadSetting, match=r"server\.editor"):
        over(folder, server__editor="javascript:alert(1)")


def over(folder: Path, **flags: object) -> ServerState:
    """A server over a folder with long passages."""
    return served.state_of(
        folder / "served", {"a.md": "# A\n\n" + "grass grows\n" * 100}, **flags
    )


@pytest.mark.parametrize(
    "number", ["9" * 401, "-" + "9" * 401, "9" * 5_000, "0x" + "f" * 5_000]
)
@pytest.mark.parametrize(
    "name", ["search.semantic_weight", "search.rrf_k_constant", "index.max_file_bytes"]
)
def test_a_number_beyond_all_measure_is_refused(name, number, tmp_path):
    section, key = name.split(".")
    (tmp_path / "tamis.toml").write_text(
        f"[{section}]\n{key} = {number}\n", encoding="utf-8"
    )
    with pytest.raises(BadSetting) as caught:
        load(tmp_path, {}, {"HOME": str(tmp_path)})
    assert "tamis.toml" in caught.value.message
    assert caught.value.hint


def test_without_any_lane_nothing_would_be_searched(tmp_path):
    off = {"search.semantic_weight": 0.0, "search.keyword_weight": 0.0}
    with pytest.raises(BadSetting, match="nothing would be searched"):
        load(tmp_path, off, {"HOME": str(tmp_path)})
    for name in off:
        assert value_of(load(tmp_path, {name: 0.0}, {"HOME": str(tmp_path)}), name) == 0


# --- A server ----------------------------------------------------------------------------


@contextmanager
def indexed_there(tmp_path: Path, **flags: Any) -> Iterator[tuple[FakeQdrant, Corpus]]:
    """A corpus that is indexed on a server that remembers what it was told."""
    root = write_files(tmp_path / "root", ANIMALS)
    with fake_qdrant() as server:
        settings = settings_of(root, engine__url=server.url, **flags)
        with Corpus(root, root / ".tamis", settings) as corpus:
            corpus.refresh()
            yield server, corpus


@experiment("engine.url")
def _(make, tmp_path):
    with indexed_there(tmp_path) as (_, corpus):
        assert paths(corpus.search("cow")) == paths(make(ANIMALS).search("cow"))
        assert not (corpus.root / ".tamis").exists()


@experiment("engine.collection")
def _(_, tmp_path):
    with indexed_there(tmp_path, engine__collection="ours") as (server, _):
        assert [each.name for each in server.client.get_collections().collections] == [
            "ours"
        ]


@experiment("engine.root")
def _(_, tmp_path):
    with indexed_there(tmp_path, engine__root="herd") as (server, _):
        assert {each.payload["root"] for each in server.client.scroll("tamis")[0]} == {
            "herd"
        }


@experiment("engine.exact")
def _(_, tmp_path):
    for exact in (True, False):
        with indexed_there(tmp_path, engine__exact=exact) as (server, corpus):
            corpus.search("cow")
            (asked, *_) = [
                each for each in server.requests if each.path.endswith("/query/batch")
            ]
            assert {each["params"]["exact"] for each in asked.body["searches"]} == {
                exact
            }
            assert (asked.body["searches"][0]["with_vector"] == ["meaning"]) == exact
