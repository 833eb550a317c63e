"""Decide which files are left out of an index, and by which rule.

Rules come in layers (`Layer`); the highest layer with a pattern that matches
decides, negated or not, and an ignored directory ends it for everything below,
as in git. What one directory says in all its layers is one table. The tables are a
persistent chain: `Rules.enter` makes the chain of a child and leaves the parent's
as it is, so a walk can branch freely.

Promises: `.gitignore` files, `.git/info/exclude` and the user's global excludes
mean what they mean to git, also for a root below the top of its work tree; no
bad ignore file is an exception or a silence, it is a line in `Rules.warnings`;
no ignore file of the tree leads to reading outside it; git is not run. The
directories at and above the root are not judged: whoever names a root wants it.
What a pattern matches is left to `tamis.gitignore.patterns`, where git has its files to
`tamis.gitignore.repository`, walking to `tamis.ingest.walk`, and what is archived
instead of ignored to the filters.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Final

from tamis.gitignore.patterns import Pattern, PatternList, parse_line, parse_lines
from tamis.gitignore.repository import (
    Repository,
    find_repository,
    is_inside,
    read_text,
    users_excludes,
)

_BUILT_IN = (".tamis/", ".git", ".svn/", ".hg/", ".jj/", ".bzr/")

_HIDDEN = (".*",)

_DEFAULTS = (
    # Build and dependency directories
    "dist/",
    "build/",
    "node_modules/",
    "target/",
    "__pycache__/",
    "*.pyc",
    # Test fixtures and mocks
    "test/fixtures/",
    "test/mocks/",
    "**/__mocks__/",
    # Temporary and cache files
    "*.tmp",
    "*.temp",
    ".cache/",
    "tmp/",
    # IDE and editor files
    ".idea/",
    ".vscode/",
    "*.swp",
    "*.swo",
    "*~",
    # Large binary files
    "*.bin",
    "*.dat",
    "*.db",
    "*.sqlite",
    # Generated files
    "*.generated.*",
    "*_gen.go",
    "*.pb.go",
    # Version control metadata; built in as well, where no rule can undo it
    ".git/",
    ".svn/",
    ".hg/",
)


class Layer(IntEnum):
    """The origin of a rule, weakest first."""

    DEFAULTS = 0
    GLOBAL_EXCLUDES = 1
    INFO_EXCLUDE = 2
    GITIGNORE = 3  # one a directory, the deeper the stronger
    IGNORE = 4  # `.ignore`, likewise
    IGNORE_FILE = 5  # tamis's own, in the root
    SETTINGS = 6
    BUILT_IN = 7


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern and where it is written."""

    pattern: str  # as written
    source: (
        str  # a file relative to the root (absolute outside it), or the name of a layer
    )
    line: int
    negated: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a path, and the rule behind it; None if no rule matches."""

    ignored: bool
    rule: Rule | None


@dataclass(frozen=True, slots=True)
class IgnoreOptions:
    """The user's settings about ignoring."""

    default_exclusions: bool = True
    ignore_file: str = ".graphragignore"
    archive_patterns: tuple[
        str, ...
    ] = ()  # archive folders, which the hidden-file rule must not hide
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that hold in one directory."""

    directory: str  # absolute
    warnings: tuple[str, ...]  # of this directory and those above it, up to the root
    _root: str  # real path; ignore files must not lead out of it
    _inner: str  # this directory below the root: empty, or `docs/api/`
    _outer: str  # the root below the top of its work tree, likewise
    _tables: tuple[_Table, ...]  # one for each directory whose rules count here
    _folds: bool  # whether the case of names does not count

    def enter(self, name: str) -> Rules:
        """The rules of a child directory: these, and its own ignore files."""
        directory, inner = os.path.join(self.directory, name), f"{self._inner}{name}/"
        child = replace(self, directory=directory, _inner=inner)
        return _with_readings(child, _own_readings(child))

    @property
    def sources(self) -> frozenset[str]:
        """The files that the rules come from, relative to the root, or absolute outside it."""
        return frozenset(
            rule.source for table in self._tables for rule in table.rules if rule.line
        )

    def verdict(self, name: str, is_dir: bool) -> Verdict:
        """Decide if an entry of this directory is ignored."""
        place = self._outer + self._inner
        strongest, deciding = _SILENT, None
        for table in self._tables:
            position = table.patterns.decide_entry(place[table.base :], name, is_dir)
            if position is not None and table.strengths[position] > strongest:
                strongest, deciding = table.strengths[position], table.rules[position]
        return (
            _UNDECIDED if deciding is None else Verdict(not deciding.negated, deciding)
        )


def open_rules(root: Path, options: IgnoreOptions) -> Rules:
    """The rules that hold in the root."""
    real = os.path.realpath(root)
    repository = find_repository(real)
    outer = _slashed(os.path.relpath(real, repository.top)) if repository else ""
    folds = repository is not None and repository.ignores_case
    rules = Rules(os.path.abspath(root), (), real, "", outer, (), folds)
    readings = [
        *_fixed_readings(options, len(outer)),
        _global_excludes(repository.top if repository else real),
        *_repository_readings(repository, outer),
        _read_with_includes(real, options.ignore_file, len(outer)),
        *_own_readings(rules),
    ]
    return _with_readings(rules, readings)


def explain(root: Path, options: IgnoreOptions, path: str) -> Verdict:
    """Decide if a path (absolute, or relative to the root) is ignored: the first ignored ancestor counts.

    A path that ends in a slash is a directory, and so is one that is a directory on disk; it
    need not exist. A path outside the root is not ignored.
    """
    names = _names_below(root, path)
    if not names:
        return _UNDECIDED
    is_dir = path.endswith(("/", os.sep)) or _is_directory(os.path.join(root, *names))
    rules = open_rules(root, options)
    for name in names[:-1]:
        verdict = rules.verdict(name, is_dir=True)
        if verdict.ignored:
            return verdict
        rules = rules.enter(name)
    return rules.verdict(names[-1], is_dir)


_UNDECIDED = Verdict(False, None)


# --- The chain -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _RuleList:
    """The patterns of one source, and the rule each of them is."""

    layer: Layer
    base: int  # how much of a path (from the top of the work tree) is the source's own directory
    patterns: tuple[Pattern, ...]
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    """The patterns of all sources of one directory, weakest first: a name is looked up once for all."""

    base: int
    patterns: PatternList
    rules: tuple[Rule, ...]
    strengths: tuple[
        tuple[int, int], ...
    ]  # of each rule: its layer, then the deeper the stronger


_SILENT = (-1, -1)


@dataclass(frozen=True, slots=True)
class _Reading:
    """The content of one source: rules, warnings, or nothing."""

    rules: _RuleList | None = None
    warnings: tuple[str, ...] = ()


def _own_readings(rules: Rules) -> list[_Reading]:
    base = len(rules._outer) + len(rules._inner)
    return [
        _read_list(
            os.path.join(rules.directory, name),
            rules._root,
            layer,
            base,
            source=f"{rules._inner}{name}",
        )
        for name, layer in ((".gitignore", Layer.GITIGNORE), (".ignore", Layer.IGNORE))
    ]


def _with_readings(rules: Rules, readings: Sequence[_Reading]) -> Rules:
    lists = [reading.rules for reading in readings if reading.rules is not None]
    bases = sorted({each.base for each in lists})
    tables = (
        _table([each for each in lists if each.base == base], rules._folds)
        for base in bases
    )
    warnings = (warning for reading in readings for warning in reading.warnings)
    return replace(
        rules, _tables=(*rules._tables, *tables), warnings=(*rules.warnings, *warnings)
    )


def _table(lists: Sequence[_RuleList], folds: bool) -> _Table:
    """The table of one directory's lists."""
    weakest_first = sorted(lists, key=lambda each: each.layer)
    base = weakest_first[0].base
    return _Table(
        base,
        PatternList(
            tuple(pattern for each in weakest_first for pattern in each.patterns), folds
        ),
        tuple(rule for each in weakest_first for rule in each.rules),
        tuple((each.layer.value, base) for each in weakest_first for _ in each.rules),
    )


def _rule_list(
    layer: Layer, base: int, lines: Iterable[tuple[Pattern, str, int]]
) -> _RuleList | None:
    """A list from patterns, each with its source and line; None from none."""
    written = tuple(lines)
    if not written:
        return None
    rules = tuple(
        Rule(pattern.text, source, line, pattern.negated)
        for pattern, source, line in written
    )
    return _RuleList(layer, base, tuple(pattern for pattern, _, _ in written), rules)


# --- Rules that are in no file -----------------------------------------------------


def _fixed_readings(options: IgnoreOptions, base: int) -> Iterator[_Reading]:
    if options.default_exclusions:
        defaults = (*_HIDDEN, *_shown_archives(options.archive_patterns), *_DEFAULTS)
        yield _fixed(Layer.DEFAULTS, base, "defaults", defaults)
    yield _fixed(Layer.SETTINGS, base, "settings", options.extra)
    yield _fixed(Layer.BUILT_IN, base, "built in", _BUILT_IN, numbered=False)


@lru_cache(maxsize=64)  # the same few for every look at the same root
def _fixed(
    layer: Layer,
    base: int,
    source: str,
    lines: tuple[str, ...],
    *,
    numbered: bool = True,
) -> _Reading:
    parsed = [
        (parse_line(text), text, number * numbered)
        for number, text in enumerate(lines, start=1)
    ]
    blank = tuple(
        f"{source}: entry {line} is no pattern: {text!r}"
        for pattern, text, line in parsed
        if not pattern
    )
    rules = _rule_list(
        layer, base, ((pattern, source, line) for pattern, _, line in parsed if pattern)
    )
    return _Reading(rules, blank)


def _shown_archives(patterns: Iterable[str]) -> Iterator[str]:
    """Archives are indexed (and hidden from searches by default), also those with a dot in front."""
    for pattern in patterns:
        folder = pattern.rstrip("/")
        if folder.rpartition("/")[2].startswith("."):
            yield f"!{folder}/"


# --- Ignore files ---------------------------------------------------------------------


def _read_list(
    path: str, within: str | None, layer: Layer, base: int, source: str
) -> _Reading:
    content = read_text(path, within, follow=layer is not Layer.GITIGNORE)
    if content.text is None:
        return _Reading(
            warnings=(f"{source} {content.problem}",) if content.problem else ()
        )
    return _Reading(
        _rule_list(
            layer,
            base,
            ((pattern, source, n) for n, pattern in parse_lines(content.text)),
        )
    )


def _read_with_includes(root: str, name: str, base: int) -> _Reading:
    """Tamis's own ignore file. What it includes counts as if written there, relative to the root."""
    if not name:
        return _Reading()
    path = os.path.join(root, name)
    content = read_text(path, root)
    if content.text is None:
        return _Reading(
            warnings=(f"{name} {content.problem}",) if content.problem else ()
        )
    lines, warnings = unfolded(root, path, content.text)
    return _Reading(_rule_list(Layer.IGNORE_FILE, base, lines), tuple(warnings))


def _repository_readings(
    repository: Repository | None, outer: str
) -> Iterator[_Reading]:
    """`info/exclude`, and the `.gitignore` of the directories above the root."""
    if repository is None:
        return
    exclude = os.path.join(repository.common, "info", "exclude")
    yield _read_list(exclude, None, Layer.INFO_EXCLUDE, 0, source=".git/info/exclude")
    base = 0
    while base < len(outer):
        path = os.path.join(repository.top, outer[:base], ".gitignore")
        yield _read_list(path, repository.top, Layer.GITIGNORE, base, source=path)
        base = outer.index("/", base) + 1


def _global_excludes(top: str) -> _Reading:
    """The user's own excludes, for all repositories; they hold outside of any as well."""
    path = users_excludes(top)
    if not path:  # set to nothing, which is how one switches them off
        return _Reading()
    return _read_list(path, None, Layer.GLOBAL_EXCLUDES, 0, source=path)


# --- Paths -------------------------------------------------------------------------


def _names_below(root: Path, path: str) -> list[str]:
    """The names that lead from the root to a path; none for the root itself and outside it."""
    if "\0" in path:  # no file has such a name, and the system will not hear it
        return []
    target = os.path.normpath(os.path.join(os.path.abspath(root), path))
    real_target = os.path.join(
        os.path.realpath(os.path.dirname(target)), os.path.basename(target)
    )
    for base, below in (
        (os.path.abspath(root), target),
        (os.path.realpath(root), real_target),
    ):
        if below != base and is_inside(below, base):
            return _posix(os.path.relpath(below, base)).split("/")
    return []


def _is_directory(path: str) -> bool:
    """Return True for a directory; as in git, a link to one is none."""
    return os.path.isdir(path) and not os.path.islink(path)


def _posix(path: str) -> str:
    return path.replace(os.sep, "/")


def _slashed(relative: str) -> str:
    return "" if relative == os.curdir else f"{_posix(relative)}/"


_INCLUDE: Final = ":include:"
# As deep as anybody means to go, and how many files in all: where each file includes the
# next one twice, they double with every floor.
_MAX_DEPTH: Final = 16
_MAX_FILES: Final = 256


Lines = Sequence[
    tuple[Pattern, str, int]
]  # each with its file, and the number of its line there


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
                self.warnings.append(
                    f"{source}:{line}: {pattern.text} skipped: {problem}"
                )

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
        candidates = (
            os.path.normpath(os.path.join(base, name))
            for base in (directory, self.root)
        )
        return next(filter(os.path.lexists, candidates), None) if name else None


def _same_file(path: str, other: str) -> bool:
    return os.path.realpath(path) == os.path.realpath(other)
