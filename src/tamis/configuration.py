"""Settings read from files, environment and flags, once, each stronger than the one before.

Strongest first: flags, environment, `tamis.toml` in the root (or `[tool.tamis]` in its
`pyproject.toml`), the user's own file, the preset, the defaults in `settings.py`. An unknown key is
an error that names its neighbour. A project's file may neither lead out of its folder nor raise
what protects the machine.
"""

import math
import os
import re
import tomllib
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from tamis.errors import BadSetting, nearest
from tamis.settings import (
    API_KEY_VARIABLE,
    ENVIRONMENT_NAMES,
    GONE,
    KEYS,
    OTHER_NAMES,
    PRESETS,
    TOKEN_VARIABLE,
    USER_FILE_VARIABLE,
    Settings,
    environment_name,
)
from tamis.weights import Weights

_MOST_BYTES = 1_000_000  # of a configuration file
_LARGEST = 2**63 - 1  # of whole numbers: what the index can hold
_COLLECTION = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
# A host may be an IPv6 address in brackets; names and keys of a user have no place in it.
_ADDRESS = re.compile(
    r"https?://(?:\[[0-9A-Fa-f:.]+\]|[^/:@\[\]\s]+)(?::(?P<port>\d{1,6}))?(?:/[^@\s]*)?"
)
_SECTIONS = tuple(
    section.name for section in fields(Settings) if section.name != "weights"
)
_NO_SETTINGS = (USER_FILE_VARIABLE, TOKEN_VARIABLE, API_KEY_VARIABLE)
_SWITCH = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_KINDS = {
    int: "a whole number of at most 19 digits",
    float: "a number",
    bool: "true or false",
    str: "text",
    tuple: "a list of texts",
    dict: "a table",
}
# Settings that name files. A project's file may only name files of the project.
_PLACES = (
    "index.directory",
    "search.rerank_model",
    "search.synonyms",
)
# Settings that protect the machine. A project's file may lower them and not raise them.
_GUARDS = (
    "index.max_files",
    "index.max_file_bytes",
    "index.memory_mb",
    "model.cache_mb",
)
_OWN_CHOICE = (
    "if you mean it, say so in your own configuration file, the environment or a flag"
)

Values = Mapping[str, Any]  # by key, converted and in range


def load(
    root: Path,
    flags: Values | None = None,
    environment: Mapping[str, str] | None = None,
    config: Path | None = None,
) -> Settings:
    """Read all sources and return the settings.

    `config` replaces the project's file. Flags are `section.key` to value; they alone can change
    measured constants (`weights.key`).
    """
    if environment is None:
        environment = os.environ
    own = user_file(environment)
    user = read_config(own) if own.is_file() else {}
    if config is None:
        project = _from_project(root)
        _check_project(project, user, root)
    else:
        project = read_config(config)
    variables = _from_environment(environment)
    asked = dict(
        _checked(name, value, "the command line")
        for name, value in (flags or {}).items()
    )
    mine = {**user, **variables, **asked}
    given = {**user, **project, **variables, **asked}
    if config is None and given.get("engine.url", "") != mine.get("engine.url", ""):
        raise BadSetting(
            f"engine.url is {given['engine.url']!r} in the configuration of {root}, "
            "which may not say where your documents go",
            hint="if you mean it, say so in your own configuration file, the environment or with --engine",
        )
    settings = PRESETS[given.get("search.preset", "balanced")]
    for name, value in given.items():
        section, _, key = name.partition(".")
        if key:
            value = replace(getattr(settings, section), **{key: value})
        settings = replace(settings, **{section: value})
    _check(settings)
    return settings


def read_config(file: Path, *, measuring: bool = False) -> Values:
    """Read the values in a file; it may hold measured constants only if `measuring`."""
    if not file.is_file():
        raise BadSetting(
            f"there is no configuration file {file}", hint="check --config"
        )
    return _from_table(_read_toml(file), str(file), measuring=measuring)


def user_file(environment: Mapping[str, str]) -> Path:
    if chosen := environment.get(USER_FILE_VARIABLE):
        return Path(chosen)
    if base := environment.get("XDG_CONFIG_HOME"):
        return Path(base) / "tamis" / "config.toml"
    home = Path(environment.get("HOME", "~")).expanduser()
    return home / ".config" / "tamis" / "config.toml"


# --- sources --------------------------------------------------------------------------------


def _from_project(root: Path) -> Values:
    own = root / "tamis.toml"
    shared = root / "pyproject.toml"
    if own.is_file():
        if _leads_out(own.name, root):
            raise BadSetting(
                f"{own} is a link that leads out of its folder",
                hint="name the file: --config",
            )
        return read_config(own)
    if not shared.is_file() or _leads_out(shared.name, root):
        return {}
    tools = _read_toml(shared).get("tool")
    if not isinstance(tools, dict):
        return {}
    table = tools.get("tamis", {})
    if not isinstance(table, dict):
        raise BadSetting(
            f"tool.tamis must be a table, in {shared}",
            hint="write: [tool.tamis.search]",
        )
    return _from_table(table, f"[tool.tamis] in {shared}")


def _check_project(project: Values, user: Values, root: Path) -> None:
    for name in (*_GUARDS, *_PLACES):
        if name not in project:
            continue
        value = project[name]
        before = user.get(name, KEYS[name].default)
        if name in _GUARDS and _limit(name, value) > _limit(name, before):
            raise BadSetting(
                f"{name} is {value} in the configuration of {root}, which may not raise it",
                hint=_OWN_CHOICE,
            )
        if name in _PLACES and value != before and _leads_out(value, root):
            raise BadSetting(
                f"{name} is {value!r} in the configuration of {root}, which may not lead out of that folder",
                hint=_OWN_CHOICE,
            )


def _limit(name: str, value: float) -> float:
    if name == "index.max_files" and value == 0:
        return math.inf
    return value


def _leads_out(place: str, root: Path) -> bool:
    home = os.path.realpath(root)
    target = os.path.realpath(root / Path(place).expanduser())
    return os.path.commonpath((target, home)) != home


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


def _from_table(
    table: Mapping[str, Any], source: str, *, measuring: bool = False
) -> Values:
    found: dict[str, Any] = {}
    gone = {name.partition(".")[0] for name in GONE}
    for section, values in table.items():
        if section == "weights" and not measuring:
            raise BadSetting(
                f"[weights] holds no settings, in {source}",
                hint="only tamis eval --config FILE reads it",
            )
        if section not in {*_SECTIONS, *gone, "weights"}:
            raise _unknown(section, _SECTIONS, source)
        if not isinstance(values, dict):
            raise BadSetting(
                f"{section} must be a table, in {source}", hint=f"write: [{section}]"
            )
        if section == "workspaces":
            found[section] = _workspaces(values, source)
            continue
        for name, value in values.items():
            key, converted = _checked(f"{section}.{name}", value, source)
            found[key] = converted
    return found


def _from_environment(environment: Mapping[str, str]) -> Values:
    names = {environment_name(name): name for name in (*KEYS, *OTHER_NAMES)}
    names |= ENVIRONMENT_NAMES
    gone = {environment_name(name): name for name in GONE}
    found: dict[str, Any] = {}
    for variable in sorted(environment):
        name = names.get(variable) or gone.get(variable)
        source = f"the environment variable {variable}"
        if name is not None:
            key, value = _checked(name, environment[variable], source)
            found[key] = value
        elif variable.startswith("TAMIS_") and variable not in _NO_SETTINGS:
            raise _unknown(variable, names, "the environment")
    return found


# --- values ---------------------------------------------------------------------------------


def _checked(name: str, value: object, source: str) -> tuple[str, Any]:
    """Return the key and its value, converted; raise BadSetting unless both are allowed."""
    name = OTHER_NAMES.get(name, name)
    if name in GONE:
        raise BadSetting(
            f"{name} is gone: {GONE[name]}", hint=f"remove it: it is set by {source}"
        )
    section, _, key = name.partition(".")
    if section == "workspaces":
        return name, _workspaces(value, source)
    if section == "weights":
        return name, _weights({key: value}, asdict(Weights()), source)[key]
    if name not in KEYS:
        near = [key for key in KEYS if key.startswith(f"{section}.")]
        raise _unknown(name, near or KEYS, source)
    declared = KEYS[name]
    kind = type(declared.default)
    value = _converted(value, kind)
    if type(value) is not kind:
        raise _wrong_type(name, value, kind, source)
    limits = declared.metadata
    low = limits["low"]
    high = limits["high"]
    is_allowed = True
    if limits["choices"]:
        is_allowed = value in limits["choices"]
        wanted = ", ".join(filter(None, limits["choices"]))
    elif isinstance(value, int | float):
        is_allowed = low <= value <= high and not math.isinf(value)
        wanted = f"{low} or more" if math.isinf(high) else f"{low} to {high}"
    if not is_allowed:
        raise BadSetting(f"{name} is {value!r} in {source}", hint=f"allowed: {wanted}")
    return name, value


def _weights(
    changed: Mapping[str, Any], usual: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """Return the measured constants with some of them changed."""
    weights = dict(usual)
    for name, value in changed.items():
        if name not in usual:
            raise _unknown(name, usual, source)
        kind = type(usual[name])
        if kind is dict and isinstance(value, Mapping):
            weights[name] = _weights(value, usual[name], source)
            continue
        weights[name] = _converted(value, kind)
        if type(weights[name]) is not kind:
            raise _wrong_type(name, value, kind, source)
        if kind is float and not math.isfinite(weights[name]):
            raise BadSetting(f"{name} is {value!r} in {source}", hint="give a number")
    return weights


def _converted(value: Any, kind: type) -> Any:
    """Return the value as this kind, or as it is where it cannot be that."""
    if isinstance(value, str) and kind is tuple:
        return tuple(filter(None, map(str.strip, value.split(","))))
    if isinstance(value, str) and kind is bool:
        return _SWITCH.get(value.strip().lower(), value)
    if isinstance(value, str):
        with suppress(ValueError):
            value = kind(value)
    if isinstance(value, int) and abs(value) > _LARGEST:
        return math.inf  # Python refuses to print very long numbers
    if kind is float and type(value) is int:
        return float(value)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    return value


def _workspaces(table: Any, source: str) -> Mapping[str, tuple[str, ...]]:
    found = {name: _converted(folders, tuple) for name, folders in table.items()}
    for name, folders in found.items():
        if not isinstance(folders, tuple):
            raise _wrong_type(f"workspaces.{name}", folders, tuple, source)
    return found


def _check(settings: Settings) -> None:
    """Refuse values that do not fit together, and those whose form a type cannot say."""
    search = settings.search
    engine = settings.engine
    chunking = settings.chunking
    if not search.semantic_weight and not search.keyword_weight:
        raise BadSetting(
            "search.semantic_weight and search.keyword_weight are both 0: nothing would be searched",
            hint="give one of them a weight",
        )
    address = _ADDRESS.fullmatch(engine.url)
    is_address = address is not None and 0 < int(address["port"] or 1) < 2**16
    if engine.url and not is_address:
        raise BadSetting(
            f"engine.url is {engine.url!r}",
            hint="write it as https://host:6333; a key goes into TAMIS_ENGINE_API_KEY, never into an address",
        )
    if not _COLLECTION.fullmatch(engine.collection):
        raise BadSetting(
            f"engine.collection is {engine.collection!r}",
            hint="use letters, digits, dots, hyphens and underscores",
        )
    if engine.url and search.query_expansion_enabled:
        raise BadSetting(
            "search.query_expansion_enabled needs an index on this machine, and engine.url is set",
            hint="turn one of them off",
        )
    least = chunking.min_chars
    most = chunking.max_chars
    overlap = chunking.overlap_chars
    if least > most or overlap * 2 > most:
        raise BadSetting(
            f"chunking sizes {least}, {most}, {overlap} do not fit together",
            hint="the smallest must not exceed the largest, and the overlap not half of it",
        )


def _unknown(name: str, known: Collection[str], source: str) -> BadSetting:
    hint = nearest(name, known, 0.4) or f"known: {', '.join(known)}"
    return BadSetting(f"unknown setting {name} in {source}", hint=hint)


def _wrong_type(name: str, value: object, kind: type, source: str) -> BadSetting:
    return BadSetting(
        f"{name} is {value!r} in {source}", hint=f"it must be {_KINDS[kind]}"
    )
