"""Settings: where they come from, and what is refused. What each does is in test_setting_effects.py."""

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tamis.configuration import load, user_file
from tamis.corpus import Corpus
from tamis.errors import (
    BadSetting,
)
from tamis.settings import (
    ENVIRONMENT_NAMES,
    GONE,
    KEYS,
    PRESETS,
    Settings,
    environment_name,
)

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
