"""Is an index healthy, and what would mend it? What `tamis doctor` says.

The engine looks at its own rows (`engine/embedded/check.py`); here is what lies around it: the settings,
the folder, the disk, whoever is writing, the root, the model. Nothing here changes anything but `protect`.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from tamis.errors import BadSetting, IndexMismatch, TamisError, rebuild_command
from tamis.index.build import check_model, model_facts, model_name
from tamis.index.doctor import checks
from tamis.index.doctor.checks import Check, Exam, Settled, examine, problem
from tamis.index.embedded import database
from tamis.index.embedded.folder import misshapen, unfit, write_ignore_file
from tamis.index.embedded.lock import holder
from tamis.index.embedded.reader import Reader, check_owner
from tamis.index.plan import Known, count_changes, recipe
from tamis.model import INDEX_FOLDER, Finding, Repair, under_trail
from tamis.models.embedders import Embedder
from tamis.settings import Settings

Load = Callable[[str], Embedder | None]

_EMBEDDED: Final = 8  # passages embedded again; a tenth of a second or two
_EMBEDDED_FULL: Final = 32
_ALIKE: Final = 0.98  # the cosine below which a vector is not its text's: another machine rounds otherwise
_OTHERS: Final = 0o077  # what a group and everybody else may do
_MINE: Final = 0o700
_FIRST: Final = (
    "root",
    "settings",
    "folder",
)  # a fault in one of these comes before any repair


@dataclass(frozen=True, slots=True)
class Health:
    """What every check of an index found, in order."""

    root: str
    directory: str
    full: bool  # everything was looked at, not a sample
    findings: tuple[Finding, ...]
    repaired: tuple[str, ...] = ()  # what was done about earlier findings

    @property
    def verdict(self) -> str:
        """healthy; repairable, by `tamis doctor --repair`; attention, which is for people; fault."""
        found = [
            finding
            for finding in self.findings
            if finding.severity in ("warning", "fault")
        ]
        if any(finding.severity == "fault" and not finding.repair for finding in found):
            return "fault"
        if any(not finding.repair for finding in found):
            return "attention"
        return "repairable" if found else "healthy"

    @property
    def exit_code(self) -> int:
        return {"healthy": 0, "repairable": 1, "attention": 1, "fault": 2}[self.verdict]

    @property
    def repairs(self) -> list[Repair]:
        """What would mend it; nothing while something else has to be put right first."""
        faults = [
            finding
            for finding in self.findings
            if finding.severity == "fault" and not finding.repair
        ]
        if any(finding.check in _FIRST for finding in faults):
            return []
        return [finding.repair for finding in self.findings if finding.repair]

    def to_dict(self) -> dict[str, Any]:
        return {
            "root": self.root,
            "directory": self.directory,
            "full": self.full,
            "verdict": self.verdict,
            "findings": [finding.to_dict() for finding in self.findings],
            "repaired": list(self.repaired),
        }


def check(
    root: Path,
    directory: Path,
    settings: Settings | BadSetting,
    load: Load,
    *,
    full: bool,
) -> Health:
    """Look at an index from all sides. Takes no lock, and whoever writes meanwhile is not in the way."""
    settled = _settled(settings)
    around = {
        "settings": _settings(settings),
        "folder": _folder(directory),
        "disk": _disk(directory),
    }
    above = {
        "root": Check(partial(_root, root), "the index is this root's"),
        "model": Check(
            partial(_model, settings, load),
            "the index has no vectors, and wants none",
            settled=True,
        ),
        "files": Check(
            partial(_files, root, settings),
            "no file is new, changed or gone since then",
            settled=True,
        ),
    }
    found = [_named(name, look, _SOUND[name]) for name, look in around.items()]
    if not misshapen(directory):  # else nothing in it can be opened
        found += [
            _named("lock", _lock(directory), ""),
            examine(directory, settled, full=full, more=above),
        ]
    return Health(
        str(root),
        str(directory),
        full,
        tuple(finding for part in found for finding in part),
    )


_SOUND: Final = {
    "settings": "the settings can be read",
    "folder": "the folder of the index is as it should be",
    "disk": "there is room for the index to be written once more",
}


def _named(name: str, found: Iterator[Finding], sound: str) -> list[Finding]:
    return [replace(finding, check=name) for finding in found] or [
        Finding(name, "ok", sound)
    ]


def _settled(settings: Settings | BadSetting) -> Settled | None:
    if isinstance(settings, BadSetting):
        return None
    return Settled(recipe(settings), asdict(settings.fields))


def _settings(settings: Settings | BadSetting) -> Iterator[Finding]:
    if isinstance(settings, BadSetting):
        yield problem(settings.message, settings.hint)


def _folder(directory: Path) -> Iterator[Finding]:
    """It is ours alone, and may be read and written."""
    if wrong := misshapen(directory):
        yield problem(
            f"{directory} {wrong}", f"remove it, and run: {rebuild_command(directory)}"
        )
        return
    if not os.access(directory, os.R_OK | os.X_OK):
        yield problem(
            f"{directory} may not be read", "check its permissions and its owner"
        )
        return
    strange = unfit(directory)
    if strange:
        yield problem(
            f"{directory} {strange}",
            "move it away, or choose another place with --index-dir",
        )
    places = [directory, directory / "segments", directory / "index.db"]
    closed = [
        place for place in places if place.exists() and not os.access(place, os.W_OK)
    ]
    if closed:
        what = f"{closed[0]} may not be written: it can be searched, but not brought up to date"
        yield problem(what, "check its permissions and its owner", severity="warning")
    if directory.name == INDEX_FOLDER and directory.stat().st_mode & _OTHERS:
        yield problem(
            f"{directory} may be read by others, and holds the text of your files",
            f"run: chmod 700 {directory}",
            Repair("protect"),
            "warning",
        )
    if not (directory / ".gitignore").exists():
        what = f"{directory} has no .gitignore of its own: git would take the index in"
        yield problem(what, "", Repair("protect"), "warning")


def protect(directory: Path) -> None:
    """Make the folder of an index private again."""
    if directory.name == INDEX_FOLDER:
        directory.chmod(_MINE)
    if not (directory / ".gitignore").exists():
        write_ignore_file(directory)


def _disk(directory: Path) -> Iterator[Finding]:
    """A merge or a rebuild writes up to as much as there is, before the old goes."""
    free, needed = (
        shutil.disk_usage(directory).free,
        sum(Reader(directory).sizes().values()),
    )
    if free < needed:
        what = f"{free / 1e6:.0f} MB are free, and the index has {needed / 1e6:.0f} MB"
        yield problem(
            what,
            "free some space: bringing it up to date may need as much again",
            severity="warning",
        )


def _lock(directory: Path) -> Iterator[Finding]:
    """A lock file is always left behind; the lock itself goes with its process, however that ends."""
    try:
        writing, watching = holder(directory), holder(directory, "watch.lock")
    except PermissionError:
        yield problem(
            "writer.lock may not be read",
            "check its permissions and its owner",
            severity="warning",
        )
        return
    told = f"{writing} is writing now" if writing else "nobody is writing"
    yield problem(
        f"{told}, {watching} watches the files" if watching else told, severity="ok"
    )


def _root(root: Path, exam: Exam) -> Iterator[Finding]:
    try:
        check_owner(root, exam.directory, exam.facts)
    except IndexMismatch as error:
        yield problem(error.message, error.hint)


def _files(
    root: Path, settings: Settings | BadSetting, exam: Exam
) -> Iterator[Finding]:
    """The index knows every file as it is. What a run has found and left is told already (`pending`)."""
    assert not isinstance(settings, BadSetting)
    if exam.facts["pending"] or not exam.facts["built_at"] or any(_root(root, exam)):
        return
    known = Known(
        database.stamps(exam.connection, recipe(settings)),
        database.skipped(exam.connection),
        float(exam.facts.get("began", 0.0)),
    )
    now = count_changes(root, settings, known)
    yield from (
        problem(warning, "mend that file, or remove it", severity="warning")
        for warning in now.warnings
    )
    count = now.sure
    files = "1 file is" if count == 1 else f"{count} files are"
    what, writing = (
        f"{files} new, changed or gone since the last run",
        holder(exam.directory),
    )
    if count and writing:
        yield problem(f"{what}; {writing} is at it", severity="ok")
    elif count:
        yield problem(what, f"run: tamis index {root}", Repair("refresh"), "warning")
    elif now.touched:
        yield problem(
            "files have been touched or copied since the last run; the next one reads them",
            severity="ok",
        )


def _model(
    settings: Settings | BadSetting, load: Load, exam: Exam
) -> Iterator[Finding]:
    """It can be loaded, it is the one that made the vectors, and it would make them again."""
    assert not isinstance(settings, BadSetting)
    if "model" not in exam.facts:  # nothing was ever written
        return
    name = model_name(settings, exam.facts)
    try:
        check_model(exam.directory, exam.facts, name)
        embedder = load(name)
        check_model(exam.directory, exam.facts, name, model_facts(embedder)[1])
    except TamisError as error:
        yield problem(error.message, error.hint)
        return
    if embedder is None:
        return
    some = checks.embedded(exam, _EMBEDDED_FULL if exam.full else _EMBEDDED)
    wrong = _unlike(some, embedder)
    if wrong:
        where = f"{len(wrong)} of {len(some)} passages ({wrong[0].path})"
        what = f"{where} have vectors that the model {name} does not give"
        yield problem(
            what,
            repair=Repair(
                "reembed", segments=frozenset(each.segment for each in wrong)
            ),
        )
    else:
        yield problem(f"{name} is the model that made the vectors", severity="ok")


def _unlike(
    some: Sequence[checks.Embedded], embedder: Embedder
) -> list[checks.Embedded]:
    made = embedder.embed_passages([under_trail(*each.read) for each in some])
    cosines = [
        float(np.dot(vector, each.vector))
        for vector, each in zip(made, some, strict=True)
    ]
    return [
        each for each, cosine in zip(some, cosines, strict=True) if not cosine >= _ALIKE
    ]
