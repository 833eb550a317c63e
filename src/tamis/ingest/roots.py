"""Which folders a server searches: never a whole home by accident.

An agent starts its servers wherever it was started itself, which is often `/` or the user's home.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from tamis.errors import RootTooWide
from tamis.ingest.walk import checked_root


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
