"""What the conformance suite found, what we expect it to find, and where the two differ."""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

REVISIONS: Final = ("2025-11-25", "2026-07-28")
_SERIOUSNESS: Final = ("INFO", "SKIPPED", "SUCCESS", "WARNING", "FAILURE")
_WIRE: Final = "wire-schema-valid"  # of every scenario: what the server sent is as the specification says


@dataclass(frozen=True, slots=True)
class Found:
    """One scenario: each of its checks with its worst status, and what was said about those that failed."""

    checks: Mapping[str, str]
    messages: Mapping[str, str] = field(default_factory=dict)

    @property
    def failing(self) -> set[str]:
        return {
            check
            for check, status in self.checks.items()
            if status in ("WARNING", "FAILURE")
        }

    @property
    def outcome(self) -> str:
        if self.failing:
            return "failed"
        tried = any(
            status == "SUCCESS"
            for check, status in self.checks.items()
            if check != _WIRE
        )
        return "passed" if tried else "skipped"


@dataclass(frozen=True, slots=True)
class Expected:
    outcome: str
    why: str = ""
    checks: frozenset[str] = (
        frozenset()
    )  # those that fail; empty: any but the one about the wire


def read_results(folder: Path) -> dict[str, Found]:
    """What `conformance server --output-dir` wrote: for each scenario a folder with its name and the time."""
    found = {}
    for file in folder.glob("*/checks.json"):
        scenario = re.sub(
            r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name
        ).removeprefix("server-")
        found[scenario] = _found(json.loads(file.read_text("utf-8")))
    return found


def _found(checks: list[dict[str, Any]]) -> Found:
    worst: dict[str, str] = {}
    messages: dict[str, str] = {}
    for check in checks:
        name, status = check["id"], check["status"]
        worst[name] = max(worst.get(name, "INFO"), status, key=_SERIOUSNESS.index)
        if status in ("WARNING", "FAILURE"):
            messages[name] = check.get("errorMessage") or check["description"]
    return Found(worst, messages)


@cache
def outcomes() -> dict[str, Any]:
    """outcomes.yaml: server, outcome, groups of scenarios with one reason."""
    text = (Path(__file__).parents[1] / "clients" / "outcomes.yaml").read_text("utf-8")
    loaded: dict[str, Any] = yaml.load(text, yaml.BaseLoader)
    return loaded


def expected(server: str, revision: str) -> dict[str, Expected]:
    scenarios: dict[str, Expected] = {}
    for outcome, groups in outcomes()[server].items():
        for group in groups:
            checks: dict[str, set[str]] = defaultdict(set)
            for entry in group.get(revision, ()):
                scenario, _, check = entry.partition(":")
                checks[scenario] |= {check} if check else set()
            for scenario, named in checks.items():
                assert scenario not in scenarios, (
                    f"{scenario} is twice in outcomes.yaml"
                )
                scenarios[scenario] = Expected(
                    outcome, group.get("why", ""), frozenset(named)
                )
    return scenarios


def surprises(
    found: Mapping[str, Found], expected: Mapping[str, Expected]
) -> list[str]:
    """Every difference, in words: what fails or passes and should not, what is new, what is gone."""
    return [
        line
        for scenario in sorted({*found, *expected})
        for line in _differences(scenario, found.get(scenario), expected.get(scenario))
    ]


def _differences(
    scenario: str, found: Found | None, expected: Expected | None
) -> Iterator[str]:
    if found is None:
        yield f"{scenario}: expected, but the suite did not run it"
        return
    if found.checks.get(_WIRE) == "FAILURE":
        yield f"{scenario}: {found.messages[_WIRE]}"
    if expected is None:
        yield f"{scenario}: {found.outcome}, and outcomes.yaml does not know it"
    elif found.outcome != expected.outcome:
        yield f"{scenario}: {found.outcome}, but should have {expected.outcome}: {expected.why}"
        yield from (
            f"  {check}: {message}" for check, message in sorted(found.messages.items())
        )
    elif expected.checks and found.failing != expected.checks:
        yield from (
            f"{scenario}:{check} passes"
            for check in sorted(expected.checks - found.failing)
        )
        unexpected = sorted(found.failing - expected.checks)
        yield from (
            f"{scenario}:{check} fails: {found.messages[check]}" for check in unexpected
        )
