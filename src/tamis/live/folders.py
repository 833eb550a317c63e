"""Which folders a server serves. Light: nothing here reads an index."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tamis.configuration import check_name, load, user_file
from tamis.errors import RootTooWide, UsageError
from tamis.ingest.walk import checked_root
from tamis.settings import Settings


@dataclass(frozen=True, slots=True)
class Folder:
    """A root to be served: what it is called, where it is, how it is read."""

    name: str
    path: Path
    settings: Settings
    index_dir: Path | None = None
    reload: Callable[[], Settings] | None = (
        None  # reads the settings again; None: they stay what they are
    )
    settings_files: tuple[Path, ...] = ()  # elsewhere, that the settings are read from


def served(
    roots: Sequence[str],
    *,
    model: str | None = None,
    config: str | None = None,
    index_dir: str | None = None,
    engine: str | None = None,
    option: str = "--root ",
) -> tuple[Folder, ...]:
    """The folders that were given, or the current one where none was; `option` is how a command takes one.

    A model that nobody knows is a fault at once: a server would tell only whoever asks first.
    """
    if index_dir and len(roots) > 1:
        raise UsageError(
            "one --index-dir for several roots", hint="leave it out, or serve one root"
        )
    paths = chosen_roots(roots, option)
    given = {"model.name": model, "engine.url": engine}
    flags = {name: value for name, value in given.items() if value}
    file, place = (
        Path(config) if config else None,
        Path(index_dir) if index_dir else None,
    )
    elsewhere = (*([file] if file else []), user_file(os.environ))
    folders = tuple(
        Folder(name, path, reload(), place, reload, elsewhere)
        for name, path in zip(names_of(paths), paths, strict=True)
        for reload in (partial(load, path, flags, config=file),)
    )
    for folder in folders:
        if folder.settings.model.name:
            check_name(folder.settings.model.name)
    return folders


def names_of(paths: Sequence[Path]) -> list[str]:
    """Their last parts; with a number where two are the same. No name is empty or has a slash in it."""
    plain = [path.name or "root" for path in paths]
    seen: Counter[str] = Counter()
    names: list[str] = []
    for name in plain:
        while True:
            seen[name] += 1
            chosen = name if seen[name] == 1 else f"{name}-{seen[name]}"
            if chosen not in names and (chosen == name or chosen not in plain):
                break
        names.append(chosen)
    return names


def chosen_roots(given: Sequence[str], option: str = "--root ") -> tuple[Path, ...]:
    """The folders that were given, or the current one: checked, without symbolic links, each once.

    `/`, a home folder and what homes are in count only where they are spelt out (`--root /home/ada`, `--root
    ~`): a relative path, and the current folder most of all, may lead there without anybody meaning it.
    `option` is how a command takes a folder.
    """
    roots = []
    for path in given or (".",):
        root = checked_root(path)
        if holds_a_home(root) and not path.startswith(("/", "~")):
            raise RootTooWide(root, option)
        roots.append(root)
    return tuple(dict.fromkeys(roots))


def holds_a_home(root: Path) -> bool:
    """Whether this is `/`, the user's home, or a folder around it."""
    home = Path(os.path.realpath(os.path.expanduser("~")))
    return root == home or root in home.parents or root.parent == root
