"""Ways of asking: settings under a name, and what each is without one stage or one lane.

A way is written `NAME=key=value,key=value`. A key without a section is one of `search`; `without`
leaves stages out (`without=overlap+same text`). Measuring starts from the built-in defaults: the
user's own configuration and the environment would make figures that nobody else can have.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tamis.configuration import load
from tamis.errors import BadSetting, UsageError
from tamis.models.names import DEFAULT_MODEL, NO_MODEL
from tamis.search.pipeline import active_lanes
from tamis.search.question import Question
from tamis.search.stages import STAGES
from tamis.settings import USER_FILE_VARIABLE, Settings

DEFAULT_WAY: Final = "default"
_WITHOUT: Final = "without"
# Nothing is ignored and nothing archived: a judged document that is not indexed could not be found.
_OPEN: Final[Mapping[str, Any]] = {
    "ignore.default_exclusions": False,
    "ignore.patterns": ["!*"],
    "archive.patterns": [],
}
_LANES_OFF: Final[Mapping[str, Mapping[str, Any]]] = {
    "meaning": {"search.semantic_weight": 0},
    "words": {"search.keyword_weight": 0},
    "code": {"search.code_search_enabled": False},
    "links": {"search.max_hops": 0},
}


@dataclass(frozen=True, slots=True)
class Way:
    """How the questions are asked."""

    name: str
    flags: Mapping[str, Any] = field(default_factory=dict)
    without: frozenset[str] = frozenset()

    def settings(self, model: str) -> Settings:
        """Everything that is configured, with this model unless the way names one."""
        nobody = {USER_FILE_VARIABLE: os.devnull}
        flags = {**_OPEN, "model.name": model or DEFAULT_MODEL, **self.flags}
        return load(Path(os.devnull), flags, environment=nobody)


def parse_way(text: str) -> Way:
    """`NAME=key=value,key=value`; a comma without a key after it belongs to the value before."""
    name, _, rest = text.partition("=")
    if not name.strip():
        raise UsageError(f"{text!r} has no name", hint="write: --config NAME=key=value,key=value")
    values = _values(rest, text)
    without = _stages(values.pop(_WITHOUT, ""))
    flags = {key if "." in key else f"search.{key}": value for key, value in values.items()}
    return Way(name.strip(), flags, without)


def _values(rest: str, whole: str) -> dict[str, str]:
    values: dict[str, str] = {}
    last = ""
    for part in rest.split(",") if rest else []:
        key, equals, value = part.partition("=")
        if not equals and not last:
            raise UsageError(f"{part!r} sets nothing, in {whole!r}", hint="write: --config NAME=key=value")
        last = key.strip() if equals else last
        values[last] = value if equals else f"{values[last]},{part}"
    return values


def _stages(text: str) -> frozenset[str]:
    names = frozenset(name.strip() for name in text.split("+") if name.strip())
    for name in sorted(names - STAGES.keys()):
        raise UsageError(f"there is no stage {name!r}", hint=f"stages: {', '.join(STAGES)}")
    return names


def ablations(way: Way, model: str) -> Iterator[Way]:
    """The same way without each stage, then without each lane, in turn; none that changes nothing."""
    for stage in STAGES:
        if stage not in way.without:
            yield Way(f"without {stage}", way.flags, way.without | {stage})
    for lane, off in _LANES_OFF.items():
        less = Way(f"without the {lane} lane", {**way.flags, **off}, way.without)
        if _lanes(less, model) and _lanes(less, model) != _lanes(way, model):
            yield less


def _lanes(way: Way, model: str) -> frozenset[str]:
    """The lanes that may take part; none where nothing would be left to search."""
    try:
        settings = way.settings(model)
    except BadSetting:
        return frozenset()
    question = Question("name_of", max_hops=settings.search.max_hops, settings=settings.search)
    lanes = frozenset[str](active_lanes(question, float(settings.model.name != NO_MODEL)))
    return lanes if lanes & {"meaning", "words"} else frozenset()
