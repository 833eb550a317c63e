"""Say what an indexing run would index, what it would skip, and why. Writes nothing."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tamis.gitignore.rules import explain
from tamis.index.build import read_within
from tamis.index.plan import ignore_options, make_plan
from tamis.ingest.read import Source
from tamis.ingest.walk import describe
from tamis.model import Facts, Skipped, WhyNot
from tamis.query.filters import archived_by
from tamis.settings import Settings

OUTSIDE: Final = "outside the root"


def dry_run(
    root: Path, settings: Settings
) -> tuple[list[str], list[Skipped], Sequence[str]]:
    """Return the paths that would be indexed, the skipped files, and warnings about ignore files."""
    plan = make_plan(root, settings, {})
    indexed: list[str] = []
    skipped = list(plan.skipped)
    for entry in plan.changed:
        outcome = read_within(entry, settings)
        if isinstance(outcome, Source):
            indexed.append(outcome.path)
        else:
            skipped.append(outcome)
    skipped.sort(key=lambda item: item.path)
    return indexed, skipped, plan.warnings


def explain_paths(
    root: Path, settings: Settings, paths: Sequence[str]
) -> list[dict[str, Any]]:
    """Say of each path whether it is ignored or archived, and which rule of which file decided.

    A path outside the root is not indexed: it counts as ignored, by a rule of no file.
    """
    options = ignore_options(settings)
    archived = archived_by(settings)
    explained = []
    for path in paths:
        answer: dict[str, Any] = {
            "path": path,
            "ignored": True,
            "archived": False,
            "rule": OUTSIDE,
            "source": None,
            "line": None,
        }
        if not _is_outside(root, path):
            verdict = explain(root, options, path)
            inside = os.path.relpath(root / path, root).replace(os.sep, "/")
            if path.endswith("/") or os.path.isdir(root / path):
                inside += "/x"  # a folder is archived if a file in it would be
            answer["ignored"] = verdict.ignored
            answer["archived"] = not verdict.ignored and archived.matches(Facts(inside))
            answer["rule"] = None
            if verdict.rule:
                answer["rule"] = verdict.rule.pattern
                answer["source"] = verdict.rule.source
                answer["line"] = verdict.rule.line
        explained.append(answer)
    return explained


def _is_outside(root: Path, path: str) -> bool:
    """Return True for a path that leads out of the root, by its own names or over a link."""
    try:
        inside = os.path.relpath(os.path.realpath(root / path), root)
    except ValueError:  # a character that no path can have
        return False
    return inside.split(os.sep)[0] == os.pardir


def why_not_indexed(
    root: Path, settings: Settings, path: str, skipped: Mapping[str, Skipped]
) -> WhyNot:
    """Say why a file is no document of the index. `skipped` are the files that the last run skipped."""
    # The rule that ignored a file may be gone by now: only the other reasons are final.
    final = {name: item for name, item in skipped.items() if item.reason != "ignored"}
    given = path
    if not os.path.lexists(root / path):
        given = path.strip().replace("\\", "/")
    if given in final:  # perhaps a link, so before it is followed
        return _was_skipped(final[given])
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
    if inside in final:
        return _was_skipped(final[inside])
    if os.path.exists(file):
        late = "it came after the last indexing (run: tamis index)"
        return WhyNot(inside, "not indexed", late)
    return WhyNot(inside, "no such file")


def _was_skipped(item: Skipped) -> WhyNot:
    return WhyNot(item.path, "skipped", f"{item.reason} {item.detail}".strip())
