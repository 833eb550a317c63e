"""Decide which files are left out of an index, and by which rule.

Rules come in layers (`Layer`). The highest layer with a matching pattern decides, negated or not,
and an ignored folder ends it for everything below, as in git. The rules of one folder in all its
layers are one table. The tables are a persistent chain: `Rules.enter` makes the chain of a child
and leaves the parent's as it is, so a walk can branch freely.

`.gitignore` files, `.git/info/exclude` and the user's global excludes have the meaning that git
gives them, also for a root below the top of its work tree. A bad ignore file is neither an
exception nor a silence but a line in `Rules.warnings`. No ignore file of the tree leads to reading
outside it, and git is not run. The root and the folders above it are not judged: who names a root
wants it. Archived files are not ignored; filters hide them.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tamis.gitignore.patterns import Pattern, PatternList, parse_line, parse_lines
from tamis.gitignore.repository import (
    Content,
    Repository,
    find_repository,
    is_inside,
    read_text,
    users_excludes,
)

_BUILT_IN = (".tamis/", ".git", ".svn/", ".hg/", ".jj/", ".bzr/")

# Build and dependency folders, test data, temporary files, editors' files, large binary
# files, generated files, and the metadata of version control, which is
# built in as well, where no rule can undo it.
_DEFAULTS = """
dist/ build/ node_modules/ target/ __pycache__/ *.pyc
test/fixtures/ test/mocks/ **/__mocks__/
*.tmp *.temp .cache/ tmp/
.idea/ .vscode/ *.swp *.swo *~
*.bin *.dat *.db *.sqlite
*.generated.* *_gen.go *.pb.go
.git/ .svn/ .hg/
"""


_INCLUDE = ":include:"
_MOST_NESTED = 16
# Files in all: where each file includes the next one twice, they double with every level.
_MOST_INCLUDES = 256


class Layer(IntEnum):
    """The origin of a rule, weakest first."""

    DEFAULTS = 0
    GLOBAL_EXCLUDES = 1
    INFO_EXCLUDE = 2
    GITIGNORE = 3  # one for each folder, the deeper the stronger
    IGNORE = 4  # `.ignore`, likewise
    IGNORE_FILE = 5  # our own, in the root
    SETTINGS = 6
    BUILT_IN = 7


class Rule(NamedTuple):
    """A pattern and where it is written."""

    pattern: str  # as written
    # A file relative to the root (absolute if it is outside), or the name of a layer.
    source: str
    line: int  # 0 for a built-in rule
    negated: bool


class Verdict(NamedTuple):
    """The decision about a path, and the rule behind it; None if no rule matches."""

    ignored: bool
    rule: Rule | None


_UNDECIDED = Verdict(False, None)


@dataclass(frozen=True, slots=True)
class IgnoreOptions:
    """The user's settings about ignoring."""

    default_exclusions: bool = True
    ignore_file: str = ".graphragignore"
    # Archive folders, which the rule for hidden files must not hide.
    archive_patterns: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()


_Line = tuple[Pattern, Rule]


class _Source(NamedTuple):
    """The rules of one file or list, and the reasons why some could not be read."""

    layer: Layer
    base: int  # length of the folder that its patterns start from, below the work tree's top
    lines: tuple[_Line, ...] = ()
    warnings: tuple[str, ...] = ()


class _Table(NamedTuple):
    """The rules of all sources of one folder, weakest first: a name is looked up once for all."""

    base: int
    patterns: PatternList
    rules: tuple[tuple[Layer, Rule], ...]


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that hold in one folder."""

    directory: str  # absolute
    warnings: tuple[str, ...]  # of this folder and those above it, up to the root
    _root: str  # real path; ignore files must not lead out of it
    _inner: str  # this folder below the root: empty, or `docs/api/`
    _outer: str  # the root below the top of its work tree, likewise
    _tables: tuple[_Table, ...]  # one for each folder whose rules count here
    _folds: bool  # True if the case of names does not count

    def enter(self, name: str) -> "Rules":
        """Return the rules of a child folder: these, and its own ignore files."""
        directory = os.path.join(self.directory, name)
        child = replace(self, directory=directory, _inner=f"{self._inner}{name}/")
        return child._with_files(())

    @property
    def sources(self) -> frozenset[str]:
        """The files that the rules come from, relative to the root, or absolute outside it."""
        rules = [rule for table in self._tables for _, rule in table.rules]
        return frozenset(rule.source for rule in rules if rule.line)

    def verdict(self, name: str, is_dir: bool) -> Verdict:
        """Decide if an entry of this folder is ignored."""
        place = self._outer + self._inner
        strongest = (-1, 0)
        deciding = None
        for table in self._tables:
            position = table.patterns.decide_entry(place[table.base :], name, is_dir)
            if position is None:
                continue
            layer, rule = table.rules[position]
            if (layer, table.base) > strongest:
                strongest = (layer, table.base)
                deciding = rule
        if deciding is None:
            return _UNDECIDED
        return Verdict(not deciding.negated, deciding)

    def _with_files(self, others: Iterable[_Source]) -> "Rules":
        """Return these rules with the ignore files of this folder, and other sources."""
        sources = list(others)
        base = len(self._outer) + len(self._inner)
        own = {".gitignore": Layer.GITIGNORE, ".ignore": Layer.IGNORE}
        for name, layer in own.items():
            path = os.path.join(self.directory, name)
            shown = f"{self._inner}{name}"
            sources.append(_read_source(path, self._root, layer, base, shown))
        warnings = list(self.warnings)
        for source in sources:
            warnings += source.warnings
        sources.sort(key=lambda source: source.layer)
        tables = list(self._tables)
        for base in sorted({source.base for source in sources if source.lines}):
            patterns = []
            rules = []
            for source in sources:
                if source.base != base:
                    continue
                for pattern, rule in source.lines:
                    patterns.append(pattern)
                    rules.append((source.layer, rule))
            in_order = PatternList(tuple(patterns), self._folds)
            tables.append(_Table(base, in_order, tuple(rules)))
        return replace(self, _tables=tuple(tables), warnings=tuple(warnings))


def open_rules(root: Path, options: IgnoreOptions) -> Rules:
    """Return the rules that hold in the root."""
    real = os.path.realpath(root)
    top = real
    folds = False
    repository = find_repository(real)
    if repository is not None:
        top = repository.top
        folds = repository.ignores_case
    outer = ""
    if top != real:
        outer = f"{os.path.relpath(real, top)}/"
    base = len(outer)
    own = os.path.join(real, options.ignore_file)
    excludes = users_excludes(top)  # they hold outside of repositories as well
    sources = [
        *_fixed_sources(options, base),
        _read_source(excludes, None, Layer.GLOBAL_EXCLUDES, 0, excludes),
        *_repository_sources(repository, outer),
        _read_source(own, real, Layer.IGNORE_FILE, base, options.ignore_file),
    ]
    rules = Rules(os.path.abspath(root), (), real, "", outer, (), folds)
    return rules._with_files(sources)


def explain(root: Path, options: IgnoreOptions, path: str) -> Verdict:
    """Decide if a path (absolute, or relative to the root) is ignored: its first ignored part counts.

    A path that ends in a slash is a folder, and so is one that is a folder on disk; it need not
    exist. A path outside the root is not ignored.
    """
    names = _names_below(root, path)
    if not names:
        return _UNDECIDED
    target = os.path.join(root, *names)
    is_folder = path.endswith("/")
    if os.path.isdir(target) and not os.path.islink(target):  # as git sees folders
        is_folder = True
    rules = open_rules(root, options)
    for name in names[:-1]:
        verdict = rules.verdict(name, is_dir=True)
        if verdict.ignored:
            return verdict
        rules = rules.enter(name)
    return rules.verdict(names[-1], is_folder)


def _names_below(root: Path, path: str) -> list[str]:
    """Return the names that lead from the root to a path; none for the root and paths outside."""
    if "\0" in path:  # no file has such a name, and the system refuses it
        return []
    top = os.path.abspath(root)
    target = os.path.normpath(os.path.join(top, path))
    folder, name = os.path.split(target)
    real_target = os.path.join(os.path.realpath(folder), name)
    pairs = ((top, target), (os.path.realpath(root), real_target))
    for base, below in pairs:
        if below != base and is_inside(below, base):
            return os.path.relpath(below, base).split("/")
    return []


def _line(pattern: Pattern, source: str, number: int) -> _Line:
    return pattern, Rule(pattern.text, source, number, pattern.negated)


# --- sources -----------------------------------------------------------------------------------


def _fixed_sources(options: IgnoreOptions, base: int) -> Iterator[_Source]:
    """Yield the rules that are in no file."""
    if options.default_exclusions:
        # Archives are hidden from searches but indexed, also those with a dot in front.
        shown = []
        for pattern in options.archive_patterns:
            folder = pattern.rstrip("/")
            if folder.rpartition("/")[2].startswith("."):
                shown.append(f"!{folder}/")
        defaults = (".*", *shown, *_DEFAULTS.split())
        yield _fixed(Layer.DEFAULTS, base, "defaults", defaults)
    yield _fixed(Layer.SETTINGS, base, "settings", options.extra)
    yield _fixed(Layer.BUILT_IN, base, "built in", _BUILT_IN)


@lru_cache(maxsize=64)  # the same few whenever the same root is opened
def _fixed(
    layer: Layer,
    base: int,
    name: str,
    texts: tuple[str, ...],
) -> _Source:
    lines = []
    warnings = []
    for number, text in enumerate(texts, start=1):
        pattern = parse_line(text)
        if pattern is None:
            warnings.append(f"{name}: entry {number} is no pattern: {text!r}")
        elif layer is Layer.SETTINGS:
            lines.append(_line(pattern, name, number))
        else:
            lines.append(_line(pattern, name, 0))
    return _Source(layer, base, tuple(lines), tuple(warnings))


def _read_source(
    path: str, within: str | None, layer: Layer, base: int, name: str
) -> _Source:
    """Read an ignore file; `name` is how rules and warnings call it.

    Lines that our own one includes count as if written there.
    """
    content = read_text(path, within, follow=layer is not Layer.GITIGNORE)
    if content.problem:
        return _Source(layer, base, warnings=(f"{name} {content.problem}",))
    text = content.text or ""
    lines: list[_Line] = []
    warnings = []
    if layer is Layer.IGNORE_FILE and within:
        allowance = iter(range(_MOST_INCLUDES))
        for item in _unfolded(within, (path,), text, allowance):
            if isinstance(item, str):
                warnings.append(item)
            else:
                lines.append(item)
    else:
        for number, pattern in parse_lines(text):
            lines.append(_line(pattern, name, number))
    return _Source(layer, base, tuple(lines), tuple(warnings))


def _repository_sources(repository: Repository | None, outer: str) -> Iterator[_Source]:
    """Yield `info/exclude`, and the `.gitignore` of the folders above the root."""
    if repository is None:
        return
    exclude = os.path.join(repository.common, "info", "exclude")
    yield _read_source(exclude, None, Layer.INFO_EXCLUDE, 0, ".git/info/exclude")
    base = 0
    while base < len(outer):
        path = os.path.join(repository.top, outer[:base], ".gitignore")
        yield _read_source(path, repository.top, Layer.GITIGNORE, base, path)
        base = outer.index("/", base) + 1


def _unfolded(
    root: str, trail: tuple[str, ...], text: str, allowance: Iterator[int]
) -> Iterator[_Line | str]:
    """Yield the lines of a file with those of the files that it includes, and warnings.

    The trail leads from the ignore file to this one. Each included file takes one from the
    allowance.
    """
    source = os.path.relpath(trail[-1], root)
    for number, pattern in parse_lines(text):
        if not pattern.text.startswith(_INCLUDE):
            yield _line(pattern, source, number)
            continue
        included = pattern.text.removeprefix(_INCLUDE).strip()
        path, content = _included(root, trail, included, allowance)
        if content.text is None:
            problem = content.problem or "not a regular file"
            yield f"{source}:{number}: {pattern.text} skipped: {problem}"
        else:
            yield from _unfolded(root, (*trail, path), content.text, allowance)


def _included(
    root: str, trail: tuple[str, ...], name: str, allowance: Iterator[int]
) -> tuple[str, Content]:
    """Find and read an included file, beside the including one or in the root."""
    folders = (os.path.dirname(trail[-1]), root)
    paths = [os.path.normpath(os.path.join(folder, name)) for folder in folders]
    path = next((path for path in paths if name and os.path.lexists(path)), "")
    if not path:
        problem = "no such file"
    elif os.path.realpath(path) in map(os.path.realpath, trail):
        problem = "it includes itself"
    elif len(trail) > _MOST_NESTED:
        problem = f"deeper than {_MOST_NESTED} includes"
    elif next(allowance, None) is None:
        problem = f"more than {_MOST_INCLUDES} includes"
    else:
        content = read_text(path, root)
        if not content.problem:
            return path, content
        problem = f"it {content.problem}"
    return path, Content(problem=problem)
