"""What an indexing run would take, what it would leave out, and why. Writes nothing."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tamis.gitignore.rules import explain
from tamis.index.build import read_within
from tamis.index.plan import ignore_options, make_plan
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.ingest.walk import describe
from tamis.model import Document, Facts, Skipped, WhyNot
from tamis.query.filters import Archived, archived_by
from tamis.settings import Settings

OUTSIDE: Final = "outside the root"


def survey(
    root: Path, settings: Settings
) -> tuple[list[str], list[Skipped], Sequence[str]]:
    """The paths that would be indexed, what would be skipped, and what is wrong with ignore files."""
    plan = make_plan(root, settings, {})
    outcomes = [read_within(entry, settings) for entry in plan.changed]
    taken = [outcome.path for outcome in outcomes if isinstance(outcome, Source)]
    left_out = [
        *plan.skipped,
        *(outcome for outcome in outcomes if isinstance(outcome, Skipped)),
    ]
    return taken, sorted(left_out, key=lambda item: item.path), plan.warnings


def documents(root: Path, settings: Settings) -> Iterator[Document]:
    """The documents that would be indexed, cut into chunks."""
    for entry in make_plan(root, settings, {}).changed:
        source = read_within(entry, settings)
        if isinstance(source, Source):
            yield parse(source, settings.chunking)[0]


def explain_paths(
    root: Path, settings: Settings, paths: Sequence[str]
) -> list[dict[str, Any]]:
    """For each path: is it ignored, is it archived, and which rule from which file and line decided.

    What lies outside the root is not indexed: it counts as ignored, by a rule that stands in no file.
    """
    archived = archived_by(settings)
    return [_explained(root, settings, archived, path) for path in paths]


def _explained(
    root: Path, settings: Settings, archived: Archived, path: str
) -> dict[str, Any]:
    if _is_outside(root, path):
        nobody = {"rule": OUTSIDE, "source": None, "line": None}
        return {"path": path, "ignored": True, "archived": False} | nobody
    verdict = explain(root, ignore_options(settings), path)
    inside = os.path.relpath(root / path, root).replace(os.sep, "/")
    is_folder = path.endswith("/") or os.path.isdir(
        root / path
    )  # archived if a file in it would be
    return {
        "path": path,
        "ignored": verdict.ignored,
        "archived": not verdict.ignored
        and archived.matches(Facts(f"{inside}/x" if is_folder else inside)),
        "rule": verdict.rule.pattern if verdict.rule else None,
        "source": verdict.rule.source if verdict.rule else None,
        "line": verdict.rule.line if verdict.rule else None,
    }


def _is_outside(root: Path, path: str) -> bool:
    """Whether it leads out of the root, by its own names or over a link."""
    try:
        return (
            os.path.relpath(os.path.realpath(root / path), root).split(os.sep)[0]
            == os.pardir
        )
    except ValueError:  # a character that no path can have
        return False


def why_not_indexed(
    root: Path, settings: Settings, path: str, skipped: Mapping[str, Skipped]
) -> WhyNot:
    """Why a file that no document stands for is not in the index. `skipped` is what the last run left out."""
    given = path if os.path.lexists(root / path) else path.strip().replace("\\", "/")
    if (
        given in skipped and skipped[given].reason != "ignored"
    ):  # a link, before we follow it
        return WhyNot(
            given, "skipped", f"{skipped[given].reason} {skipped[given].detail}".strip()
        )
    try:
        file = os.path.realpath(root / given)
    except ValueError:  # a character that no path can have
        return WhyNot(path, "no such file")
    inside = os.path.relpath(file, root)
    if inside.split("/")[0] == "..":
        return WhyNot(path, OUTSIDE, f"the root is {root}")
    verdict = explain(root, ignore_options(settings), inside)
    if verdict.ignored:
        return WhyNot(inside, "ignored", describe(verdict))
    if (
        inside in skipped and skipped[inside].reason != "ignored"
    ):  # by a rule that is gone
        return WhyNot(
            inside,
            "skipped",
            f"{skipped[inside].reason} {skipped[inside].detail}".strip(),
        )
    if os.path.exists(file):
        return WhyNot(
            inside, "not indexed", "it came after the last indexing (run: tamis index)"
        )
    return WhyNot(inside, "no such file")
