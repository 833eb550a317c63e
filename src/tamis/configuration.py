"""Reading the settings, once: files, environment and flags, laid over each other.

Precedence, strongest first (C35): flags, environment, `tamis.toml` (or `[tool.tamis]` in
`pyproject.toml`) in the root, the user's own file, the defaults in `settings.py`. A key nobody knows is
an error that names its neighbour. A project's file may neither lead out of its folder nor raise what
protects the machine.
"""

import difflib
import math
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Final

from tamis.errors import BadSetting
from tamis.settings import (
    API_KEY_VARIABLE,
    EDITORS,
    ENVIRONMENT_NAMES,
    OTHER_NAMES,
    PRESETS,
    RECENCY_PROFILES,
    TOKEN_VARIABLE,
    USER_FILE_VARIABLE,
    WORKSPACE_FILTERING,
    ChunkingSettings,
    Settings,
    all_keys,
    environment_name,
)

_MOST_BYTES: Final = 1_000_000  # of a configuration file
_FEW: Final = 12  # names that a message can list
_LARGEST: Final = 2**63 - 1  # of whole numbers: what the index can hold
_COLLECTION: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
# A host may be an IPv6 address in brackets; names and keys of a user have no place in it.
_ADDRESS: Final = re.compile(
    r"https?://(?:\[[0-9A-Fa-f:.]+\]|[^/:@\[\]\s]+)(?::(?P<port>\d{1,6}))?(?:/[^@\s]*)?"
)
_NO_SETTINGS: Final = (USER_FILE_VARIABLE, TOKEN_VARIABLE, API_KEY_VARIABLE)
_WORDS: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


def load(
    root: Path,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> Settings:
    """Read all sources and lay them over each other, weakest first.

    `config` stands in for the project's file. Flags are `section.key` to value.
    """
    env = os.environ if environment is None else environment

    def laid_over(settings: Settings, *, project: bool = True) -> Settings:
        settings = _lay_file(settings, user_file(env))
        if config:
            settings = _lay_file(settings, config, must_exist=True)
        elif project:
            settings = _lay_project(settings, root)
        settings = _lay_environment(settings, env)
        for name, value in (flags or {}).items():
            settings = _set(settings, name, value, "the command line")
        return settings

    first = laid_over(Settings())
    if first.engine.url != laid_over(Settings(), project=False).engine.url:
        raise BadSetting(
            f"engine.url is {first.engine.url!r} in the configuration of {root}, "
            "which may not say where your documents go",
            hint="if you mean it, say so in your own configuration file, the environment or with --engine",
        )
    return _check(laid_over(_preset(first.search.preset)))


def _preset(name: str) -> Settings:
    if name not in PRESETS:
        raise BadSetting(
            f"search.preset is {name!r}", hint=f"allowed: {', '.join(PRESETS)}"
        )
    return PRESETS[name]


def user_file(environment: Mapping[str, str]) -> Path:
    if chosen := environment.get(USER_FILE_VARIABLE):
        return Path(chosen)
    base = environment.get("XDG_CONFIG_HOME") or str(
        Path(environment.get("HOME", "~")).expanduser() / ".config"
    )
    return Path(base) / "tamis" / "config.toml"


# Settings that name files. A checkout brings its own configuration: it may name what it brings, no more.
_PLACES: Final = ("index.directory", "search.rerank_model", "search.synonyms")


def _lay_project(settings: Settings, root: Path) -> Settings:
    laid = _lay_project_file(settings, root)
    _check_guards(settings, laid, root)
    for name in _PLACES:
        value = _value_of(laid, name)
        if value != _value_of(settings, name) and _leads_out(value, root):
            raise BadSetting(
                f"{name} is {value!r} in the configuration of {root}, which may not lead out of that folder",
                hint="if you mean it, say so in your own configuration file, the environment or a flag",
            )
    return laid


# What protects the machine. A checkout may ask for less of it, not for more.
_GUARDS: Final = (
    "index.max_files",
    "index.max_file_bytes",
    "index.memory_mb",
    "model.cache_mb",
)


def _check_guards(settings: Settings, laid: Settings, root: Path) -> None:
    for name in _GUARDS:
        before, now = (
            _value_of(each, name) or _UNBOUNDED.get(name, 0)
            for each in (settings, laid)
        )
        if now > before:
            raise BadSetting(
                f"{name} is {_value_of(laid, name)} in the configuration of {root}, which may not raise it",
                hint="if you mean it, say so in your own configuration file, the environment or a flag",
            )


_UNBOUNDED: Final = {"index.max_files": math.inf}  # where 0 is no limit


def _value_of(settings: Settings, name: str) -> Any:
    section, _, last = name.partition(".")
    return getattr(getattr(settings, section), last)


def _leads_out(place: str, root: Path) -> bool:
    inside, home = (
        os.path.realpath(root / Path(place).expanduser()),
        os.path.realpath(root),
    )
    return os.path.commonpath((inside, home)) != home


def _lay_project_file(settings: Settings, root: Path) -> Settings:
    own, shared = root / "tamis.toml", root / "pyproject.toml"
    if own.is_file():
        if _leads_out(own.name, root):
            raise BadSetting(
                f"{own} is a link that leads out of its folder",
                hint="name the file: --config",
            )
        return _lay_file(settings, own)
    if shared.is_file() and not _leads_out(shared.name, root):
        tools = _read_toml(shared).get("tool", {})
        table = tools.get("tamis", {}) if isinstance(tools, dict) else {}
        if not isinstance(table, dict):
            raise BadSetting(
                f"tool.tamis must be a table, in {shared}",
                hint="write: [tool.tamis.search]",
            )
        return _lay_table(settings, table, f"[tool.tamis] in {shared}")
    return settings


def _lay_file(settings: Settings, file: Path, *, must_exist: bool = False) -> Settings:
    if not file.is_file():
        if must_exist:
            raise BadSetting(
                f"there is no configuration file {file}", hint="check --config"
            )
        return settings
    return _lay_table(settings, _read_toml(file), str(file))


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise BadSetting(
                f"{file} is larger than {_MOST_BYTES:,} bytes",
                hint="is this a configuration?",
            )
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise BadSetting(
            f"{file} is not valid TOML: {error}", hint="mend the file"
        ) from error
    except OSError as error:
        raise BadSetting(
            f"cannot read {file}: {error.strerror}", hint="check its permissions"
        ) from error


def _lay_table(settings: Settings, table: Mapping[str, Any], source: str) -> Settings:
    for section, values in table.items():
        if section == "workspaces":
            settings = replace(settings, workspaces=_workspaces(values, source))
            continue
        if section not in _section_names():
            raise _unknown(section, _section_names(), source)
        if not isinstance(values, dict):
            raise BadSetting(
                f"{section} must be a table, in {source}", hint=f"write: [{section}]"
            )
        for name, value in values.items():
            settings = _set(settings, f"{section}.{name}", value, source)
    return settings


def _lay_environment(settings: Settings, environment: Mapping[str, str]) -> Settings:
    names = {environment_name(name): name for name in all_keys()} | ENVIRONMENT_NAMES
    for variable in sorted(environment):
        if variable in names:
            source = f"the environment variable {variable}"
            settings = _set(settings, names[variable], environment[variable], source)
        elif variable.startswith("TAMIS_") and variable not in _NO_SETTINGS:
            raise _unknown(variable, tuple(names), "the environment")
    return settings


def _set(settings: Settings, name: str, value: object, source: str) -> Settings:
    name = OTHER_NAMES.get(name, name)
    section, _, last = name.partition(".")
    if section in ("weights", "fields"):
        return _set_weight(settings, name, value, source)
    known = [k for k in all_keys() if k.startswith(f"{section}.")]
    if name not in known:
        raise _unknown(name, tuple(known) or all_keys(), source)
    current = getattr(settings, section)
    declared = next(k for k in fields(current) if k.name == last)
    converted = _convert(value, type(declared.default), name, source)
    _check_range(converted, declared.metadata, name, source)
    return replace(settings, **{section: replace(current, **{last: converted})})


def _set_weight(settings: Settings, name: str, value: object, source: str) -> Settings:
    """Change a measured constant. Only an evaluation does so: files and variables cannot name one."""
    section, _, last = name.partition(".")
    weights = settings.weights
    known = weights.fields if section == "fields" else asdict(weights)
    if last not in known:
        raise _unknown(name, tuple(f"{section}.{each}" for each in known), source)
    changed: Any = {last: _convert(value, type(known[last]), name, source)}
    if section == "fields":
        changed = {"fields": {**weights.fields, **changed}}
    return replace(settings, weights=replace(weights, **changed))


def _convert(value: object, kind: type, name: str, source: str) -> object:
    if kind is tuple:
        return _strings(value, name, source)
    if isinstance(value, str) and kind is bool and value.strip().lower() in _WORDS:
        return _WORDS[value.strip().lower()]
    if isinstance(value, str) and kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            raise _wrong_type(value, kind, name, source) from None
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return _as_float(value, name, source)
    if type(value) is not kind:
        raise _wrong_type(value, kind, name, source)
    return value


def _as_float(value: int, name: str, source: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise _too_large(name, source) from None


def _strings(value: object, name: str, source: str) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise _wrong_type(value, tuple, name, source)


def _workspaces(table: object, source: str) -> Mapping[str, tuple[str, ...]]:
    if not isinstance(table, dict):
        raise BadSetting(
            f"workspaces must be a table, in {source}",
            hint='write: [workspaces], and below it: api = ["docs/api"]',
        )
    return {
        name: _strings(folders, f"workspaces.{name}", source)
        for name, folders in table.items()
    }


def _check_range(
    value: object, limits: Mapping[str, Any], name: str, source: str
) -> None:
    if not isinstance(value, int | float):
        return
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise _too_large(name, source)
    low, high = limits["low"], limits["high"]
    low = -math.inf if low is None else low
    high = math.inf if high is None else high
    if not low <= value <= high or abs(value) == math.inf:
        raise BadSetting(
            f"{name} is {value} in {source}",
            hint=f"allowed: {low} to {high}"
            if high < math.inf
            else f"allowed: {low} or more",
        )


def _check(settings: Settings) -> Settings:
    if settings.server.editor not in EDITORS:
        raise BadSetting(
            f"server.editor is {settings.server.editor!r}",
            hint=f"allowed: {', '.join(EDITORS)}",
        )
    way = settings.search.workspace_filtering
    if way not in WORKSPACE_FILTERING:
        raise BadSetting(
            f"search.workspace_filtering is {way!r}",
            hint=f"allowed: {', '.join(WORKSPACE_FILTERING)}",
        )
    profile = settings.search.recency_profile
    if profile not in RECENCY_PROFILES:
        raise BadSetting(
            f"search.recency_profile is {profile!r}",
            hint=f"allowed: {', '.join(RECENCY_PROFILES)}",
        )
    if not settings.search.semantic_weight and not settings.search.keyword_weight:
        raise BadSetting(
            "search.semantic_weight and search.keyword_weight are both 0: nothing would be searched",
            hint="give one of them a weight",
        )
    _check_engine(settings)
    chunking = settings.chunking
    for sizes in (chunking, chunking.of_parents(), chunking.of_children()):
        _check_sizes(sizes)
    return settings


def _check_engine(settings: Settings) -> None:
    engine = settings.engine
    if engine.url and not _is_address(engine.url):
        raise BadSetting(
            f"engine.url is {engine.url!r}",
            hint="write it as https://host:6333; a key goes into TAMIS_ENGINE_API_KEY, never into an address",
        )
    if not _COLLECTION.fullmatch(engine.collection):
        raise BadSetting(
            f"engine.collection is {engine.collection!r}",
            hint="use letters, digits, dots, hyphens and underscores",
        )
    if engine.url and settings.search.query_expansion_enabled:
        raise BadSetting(
            "search.query_expansion_enabled needs an index on this machine, and engine.url is set",
            hint="turn one of them off",
        )


def _is_address(url: str) -> bool:
    found = _ADDRESS.fullmatch(url)
    return found is not None and 0 < int(found["port"] or 1) < 2**16


def _check_sizes(sizes: ChunkingSettings) -> None:
    if sizes.min_chars > sizes.max_chars or sizes.overlap_chars * 2 > sizes.max_chars:
        raise BadSetting(
            f"chunking sizes {sizes.min_chars}, {sizes.max_chars}, {sizes.overlap_chars} do not fit together",
            hint="the smallest must not exceed the largest, and the overlap not half of it",
        )


def _section_names() -> tuple[str, ...]:
    return tuple(
        section.name for section in fields(Settings) if section.name != "weights"
    )


def _unknown(name: str, known: tuple[str, ...], source: str) -> BadSetting:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    guess = f"did you mean {near[0]}? " if near else ""
    # Dozens of names hide the one that was meant.
    others = "" if near and len(known) > _FEW else f"known: {', '.join(known)}"
    return BadSetting(
        f"unknown setting {name} in {source}", hint=f"{guess}{others}".strip()
    )


def _too_large(name: str, source: str) -> BadSetting:
    """Without the number: Python refuses to write out very long ones."""
    return BadSetting(
        f"{name} is too large a number in {source}", hint="give a smaller one"
    )


def _wrong_type(value: object, kind: type, name: str, source: str) -> BadSetting:
    wanted = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
    }
    return BadSetting(
        f"{name} is {value!r} in {source}",
        hint=f"it must be {wanted.get(kind, 'a list of texts')}",
    )


DEFAULT_MODEL: Final = "granite"
QUICK_MODEL: Final = "hashing"  # takes no longer than looking a vector up
NO_MODEL: Final = "none"  # words only: no vectors are made or searched
MODEL_NAMES: Final = (DEFAULT_MODEL, "bge", QUICK_MODEL, NO_MODEL)


def check_name(name: str) -> str:
    if name not in MODEL_NAMES:
        raise BadSetting(
            f"there is no model {name!r}", hint=f"allowed: {', '.join(MODEL_NAMES)}"
        )
    return name
