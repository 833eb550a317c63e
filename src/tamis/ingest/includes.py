"""An ignore file of ours as it unfolds: what it includes counts as if it were written there."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from tamis.gitignore import Pattern, parse_lines
from tamis.ingest.text_file import read_text

_INCLUDE: Final = ":include:"
# As deep as anybody means to go, and how many files in all: where each file includes the
# next one twice, they double with every floor.
_MAX_DEPTH: Final = 16
_MAX_FILES: Final = 256


Lines = Sequence[tuple[Pattern, str, int]]  # each with its file, and the number of its line there


def unfolded(root: str, file: str, text: str) -> tuple[Lines, Sequence[str]]:
    """The lines of an ignore file with those of what it includes, and what is wrong with it."""
    inclusion = _Inclusion(root)
    inclusion.take(text, (file,))
    return inclusion.lines, inclusion.warnings


@dataclass(slots=True)
class _Inclusion:
    """An ignore file as it unfolds."""

    root: str
    lines: list[tuple[Pattern, str, int]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    files: int = 0

    def take(self, text: str, trail: tuple[str, ...]) -> None:
        """Take the lines of the last file of the trail, which leads there from the ignore file."""
        source = os.path.relpath(trail[-1], self.root).replace(os.sep, "/")
        for line, pattern in parse_lines(text):
            if not pattern.text.startswith(_INCLUDE):
                self.lines.append((pattern, source, line))
                continue
            problem = self._include(pattern.text.removeprefix(_INCLUDE).strip(), trail)
            if problem:
                self.warnings.append(f"{source}:{line}: {pattern.text} skipped: {problem}")

    def _include(self, name: str, trail: tuple[str, ...]) -> str:
        """Unfold an included file; answers why not, if not."""
        path = self._find(name, os.path.dirname(trail[-1]))
        if path is None:
            return "no such file"
        if any(_same_file(path, above) for above in trail):
            return "it includes itself"
        if len(trail) > _MAX_DEPTH:
            return f"deeper than {_MAX_DEPTH} includes"
        self.files += 1
        if self.files > _MAX_FILES:
            return f"more than {_MAX_FILES} includes"
        content = read_text(path, self.root)
        if content.text is None:
            return f"it {content.problem}" if content.problem else "not a regular file"
        self.take(content.text, (*trail, path))
        return ""

    def _find(self, name: str, directory: str) -> str | None:
        candidates = (os.path.normpath(os.path.join(base, name)) for base in (directory, self.root))
        return next(filter(os.path.lexists, candidates), None) if name else None


def _same_file(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)
