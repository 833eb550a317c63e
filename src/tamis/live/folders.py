"""The folders that a server serves. Light: nothing here reads an index."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tamis.configuration import load, user_file
from tamis.errors import RootTooWide, UsageError
from tamis.ingest.walk import checked_root
from tamis.settings import Settings


@dataclass(frozen=True, slots=True)
class Folder:
    """A root to be served: its name, place and settings."""

    name: str
    path: Path
    settings: Settings
    index_dir: Path | None = None
    # Reads the settings again; None if they never change.
    reload: Callable[[], Settings] | None = None
    settings_files: tuple[Path, ...] = ()  # outside the root


def served(
    roots: Sequence[str],
    flags: Mapping[str, Any] | None = None,
    *,
    config: str | None = None,
    index_dir: str | None = None,
    option: str = "--root ",
) -> tuple[Folder, ...]:
    """Return the given folders, or the current one; `option` is how the command takes one.

    An unknown model is a fault at once: a server would report it only to the first question.
    """
    if index_dir and len(roots) > 1:
        raise UsageError(
            "one --index-dir for several roots",
            hint="leave it out, or serve one root",
        )
    settings_files = [user_file(os.environ)]
    config_file = Path(config) if config else None
    if config_file is not None:
        settings_files.append(config_file)
    place = Path(index_dir) if index_dir else None
    paths = chosen_roots(roots, option)
    folders = []
    for name, path in zip(names_of(paths), paths, strict=True):
        reload = partial(load, path, flags, config=config_file)
        settings = reload()
        folder = Folder(name, path, settings, place, reload, tuple(settings_files))
        folders.append(folder)
    return tuple(folders)


def names_of(paths: Sequence[Path]) -> list[str]:
    """Return the last parts of the paths, with a number if two are the same.

    No name is empty or has a slash in it.
    """
    plain = [path.name or "root" for path in paths]
    names: list[str] = []
    for name in plain:
        chosen = name
        number = 1
        while chosen in names or (chosen != name and chosen in plain):
            number += 1
            chosen = f"{name}-{number}"
        names.append(chosen)
    return names


def chosen_roots(given: Sequence[str], option: str = "--root ") -> tuple[Path, ...]:
    """Return the given folders, or the current one: checked, without symbolic links, each once.

    `/`, a home folder and folders around homes must be spelt out (`--root /home/ada`, `--root ~`):
    a relative path, and the current folder most of all, may lead there by accident. `option` is
    how the command takes a folder.
    """
    roots = []
    for path in given or (".",):
        root = checked_root(path)
        if holds_a_home(root) and not path.startswith(("/", "~")):
            raise RootTooWide(
                f"{root} would be searched with everything in it, and nobody asked for that",
                hint=f"say which folder with {option}FOLDER; if all of it is meant: {option}{root}",
            )
        roots.append(root)
    return tuple(dict.fromkeys(roots))


def holds_a_home(root: Path) -> bool:
    """Return True for `/`, the user's home, and the folders around it."""
    home = Path(os.path.realpath(os.path.expanduser("~")))
    return root == home or root in home.parents or root.parent == root
