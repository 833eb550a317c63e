"""Mending an index on this machine: look at everything, mend what can be mended, and look again.

What is damaged is taken out (`engine/embedded/mend.py`), and a run writes it again from the files. What
nothing can be made of is replaced by an index that was made aside.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from tamis import health
from tamis.build import build, waiting_for
from tamis.engine.embedded import store
from tamis.engine.embedded.mend import made_aside, mend
from tamis.engine.embedded.reader import Reader
from tamis.errors import IndexFault, IndexForeign, TamisError
from tamis.health import Health
from tamis.model import Finding, Repair
from tamis.models.loaded import LoadedModels
from tamis.models.names import DEFAULT_MODEL
from tamis.progress import Progress
from tamis.settings import Settings
from tamis.vocabulary import make_if_used


def repaired(
    root: Path, directory: Path, settings: Settings, models: LoadedModels, progress: Progress
) -> Health:
    """How the index is after all that could be done for it."""

    def look() -> Health:
        return health.check(root, directory, settings, models.embedder_itself, full=True)

    before = look()
    if not before.repairs:
        return before
    done: list[str] = []
    faults: list[Finding] = []
    try:
        for each in _mend(root, directory, settings, models, progress, before.repairs):
            done.append(each)  # one by one: what was done before a fault was done
    except TamisError as error:
        faults.append(Finding("repair", "fault", error.message, error.hint))
    after = look()
    return replace(after, repaired=tuple(done), findings=(*after.findings, *faults))


def _mend(
    root: Path,
    directory: Path,
    settings: Settings,
    models: LoadedModels,
    progress: Progress,
    repairs: Sequence[Repair],
) -> Iterator[str]:
    """Do it, and say what was done."""
    kinds = {repair.kind for repair in repairs}
    timeout, waiting = settings.index.lock_timeout, waiting_for(progress)
    if "protect" in kinds:
        health.protect(directory)
        yield "made the folder of the index private"
    if "rebuild" in kinds:
        progress.note("the index is made anew from your files; the old one stays until that is whole")
        with made_aside(directory, timeout, waiting) as aside:
            chosen = with_model(settings, lambda: store.model_of(directory))
            build(root, aside, chosen, models.embedder, progress)
        make_if_used(directory, settings, models.embedder, progress)
        yield f"made the index anew, with {chosen.model.name or DEFAULT_MODEL}"
        return
    if kinds & {"rewrite", "reembed", "sweep"}:
        lost = mend(directory, timeout, waiting, repairs)
        yield f"took out {lost} damaged documents" if lost else "removed what belonged to nobody"
    if kinds - {"protect"}:
        load = models.embedder_afresh if "reembed" in kinds else models.embedder
        done = build(root, directory, settings, load, progress)
        make_if_used(directory, settings, models.embedder, progress)
        yield f"brought the index up to date: {done.indexed} documents written"


def with_model(settings: Settings, stored: Callable[[], str]) -> Settings:
    """The settings; where they name no model, with the one that even a damaged index tells."""
    return replace(settings, model=replace(settings.model, name=settings.model.name or stored()))


def is_usable(directory: Path) -> bool:
    """Whether the index can be opened, or is none yet."""
    if not store.exists(directory):
        return True
    try:
        with closing(Reader(directory)) as reader, reader.snapshot():
            return True
    except IndexForeign:
        raise
    except IndexFault:
        return False
