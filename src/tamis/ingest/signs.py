"""Which changed paths are a sign that an index may be behind, by the same rules that a walk follows."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tamis.ingest.ignore import Rules

_RULES: Final = frozenset({".gitignore", ".ignore"})  # hidden, and yet they matter
_PROJECT: Final = frozenset({"tamis.toml", "pyproject.toml"})


class Signs:
    """The rules as they are now: made anew for each portion of changes, since these may change them."""

    def __init__(self, root: Path, rules: Rules, index: Path, known: Iterable[str]) -> None:
        """`known` are files that count wherever they are, as do their folders: settings, git's own."""
        self._root = str(root)
        self._index = str(index)
        here = (os.path.join(root, source) for source in rules.sources)
        project = (os.path.join(root, name) for name in _PROJECT)
        files = frozenset((*known, *here, *project))
        self._known = files | frozenset(map(os.path.dirname, files))
        self._folders: dict[str, Rules | None] = {self._root: rules}  # None: ignored, with all below

    def among(self, paths: Iterable[str]) -> bool:
        return any(map(self._is_sign, paths))

    def _is_sign(self, path: str) -> bool:
        if path in self._known or path == self._root:
            return True
        if _is_below(path, self._index) or not _is_below(path, self._root):
            return False
        folder, name = os.path.split(path)
        rules = self._rules(folder)
        return rules is not None and (name in _RULES or _may_be_indexed(path, name, rules))

    def _rules(self, folder: str) -> Rules | None:
        if folder not in self._folders:
            above, name = os.path.split(folder)
            outer = self._rules(above)
            ignored = outer is None or outer.verdict(name, is_dir=True).ignored
            self._folders[folder] = None if ignored or outer is None else outer.enter(name)
        return self._folders[folder]


def _may_be_indexed(path: str, name: str, rules: Rules) -> bool:
    """Of what is gone it is not known what it was."""
    kinds = (os.path.isdir(path) and not os.path.islink(path),) if os.path.lexists(path) else (True, False)
    return any(not rules.verdict(name, is_dir).ignored for is_dir in kinds)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(os.path.join(folder, ""))
