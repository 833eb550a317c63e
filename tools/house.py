"""Print the figures that say how a source tree reads: its size, its density and its structure.

    tools/house [--bounds] [FOLDER]

FOLDER is a package, `src/tamis` by default. With `--bounds`, print only the bounds that do not
hold, and exit with 1 if there are any. The source is parsed, never imported.

A token is what `tokenize` yields, without comments, line ends, indentation and docstrings.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "tamis"
DENSE = 20  # tokens in a line that holds too much
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTION)
Function = ast.FunctionDef | ast.AsyncFunctionDef
# Words that open a clause or a phrase that depends on something a reader has not seen yet.
QUESTION_WORDS = (
    "What Whatever Whether Who Whoever Whom Whose Which Whichever "
    "How Where Wherever When Whenever Why That Those"
)
CONJUNCTIONS = (
    "After Although As Because Before If Once Since So Though Unless Until While"
)
PREPOSITIONS = "At By For From In Of On To With Without"
OPENINGS = f"{QUESTION_WORDS} {CONJUNCTIONS} {PREPOSITIONS}".split()
DEPENDENT = re.compile(rf"(?:{'|'.join(OPENINGS)})\b")


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured property of a source tree, and how it is counted."""

    name: str
    value: float
    definition: str
    unit: str = ""

    def __str__(self) -> str:
        number = f"{self.value:,.1f}"
        if isinstance(self.value, int):
            number = f"{self.value:,}"
        return f"{number} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Bound:
    """The highest value that a figure may have."""

    name: str
    most: float


BOUNDS = (
    Bound("modules", 112),
    Bound("top-level modules", 12),
    Bound("functions", 1_700),
    Bound("tokens", 170_000),
    Bound("tokens per code line", 7.5),
    Bound("dense lines", 5),
    Bound("conditional expressions", 15),
    Bound("settings", 50),
    Bound("docstrings that open with a clause", 3),
)


class Module:
    """A parsed Python file."""

    def __init__(self, package: Path, file: Path) -> None:
        path = file.relative_to(package.parent).with_suffix("")
        self.name = ".".join(path.parts).removesuffix(".__init__")
        self.at_top = file.parent == package
        self.is_package = file.name == "__init__.py"
        self.source = file.read_text("utf-8")
        self.tree = ast.parse(self.source)
        self.nodes = list(ast.walk(self.tree))

    @property
    def is_bare_package(self) -> bool:
        """True for an `__init__.py` that holds nothing but a docstring."""
        return self.is_package and not self.tokens

    @cached_property
    def functions(self) -> list[Function]:
        """All functions, including methods and nested ones."""
        return [node for node in self.nodes if isinstance(node, FUNCTION)]

    @cached_property
    def docstrings(self) -> list[ast.stmt]:
        """Docstrings of the module, its classes and its functions, as statements."""
        documented = [node for node in self.nodes if isinstance(node, DOCUMENTED)]
        return [node.body[0] for node in documented if ast.get_docstring(node)]

    @cached_property
    def tokens(self) -> list[tokenize.TokenInfo]:
        """Tokens of the code, without layout and docstrings."""
        ignored = set()
        for docstring in self.docstrings:
            ignored.update(lines_of(docstring))
        tokens = tokenize.generate_tokens(io.StringIO(self.source).readline)
        code = [token for token in tokens if token.type not in LAYOUT]
        return [token for token in code if token.start[0] not in ignored]

    @cached_property
    def tokens_by_line(self) -> Counter[int]:
        """Number of tokens that start on each line; lines without any are left out."""
        return Counter(token.start[0] for token in self.tokens)

    @cached_property
    def code_lines(self) -> set[int]:
        """Lines that tokens cover; a string of several lines covers all of them."""
        covered = set()
        for token in self.tokens:
            covered.update(range(token.start[0], token.end[0] + 1))
        return covered

    @property
    def filled_lines(self) -> int:
        """Number of lines that are not blank."""
        lines = self.source.splitlines()
        return sum(bool(line.strip()) for line in lines)

    def body_tokens(self, function: Function) -> list[int]:
        """Return the number of tokens on each code line of a function's body."""
        first = function.body[0].lineno
        last = function.end_lineno or first
        lines = range(first, last + 1)
        counts = self.tokens_by_line
        return [counts[line] for line in lines if line in counts]

    def imports(self, node: ast.AST, *, late: bool) -> Iterator[str]:
        """Yield the names that are imported below a node; `late` adds those in functions.

        Imports for type checking alone are left out.
        """
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from (alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                origin = self._origin(child)
                yield from (f"{origin}.{alias.name}" for alias in child.names)
            elif not self._is_left_out(child, late):
                yield from self.imports(child, late=late)

    def _origin(self, node: ast.ImportFrom) -> str:
        if node.level:
            raise ValueError(
                f"{self.name}:{node.lineno}: relative imports are not understood"
            )
        return node.module or ""

    def _is_left_out(self, node: ast.AST, late: bool) -> bool:
        if isinstance(node, FUNCTION):
            return not late
        return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def lines_of(statement: ast.stmt) -> range:
    """Return the line numbers of a statement."""
    last = statement.end_lineno or statement.lineno
    return range(statement.lineno, last + 1)


def read_modules(package: Path) -> list[Module]:
    """Parse all Python files below a package."""
    files = sorted(package.rglob("*.py"))
    if not files:
        raise FileNotFoundError(f"no Python file below {package}")
    return [Module(package, file) for file in files]


def percentiles(numbers: Sequence[int]) -> tuple[int, int]:
    """Return the median and the ninetieth percentile."""
    ordered = sorted(numbers)
    if not ordered:
        return 0, 0
    count = len(ordered)
    return ordered[count // 2], ordered[count * 9 // 10]


def share(part: int, whole: int) -> float:
    """Return a part of a whole in percent."""
    return 100 * part / max(whole, 1)


def import_edges(modules: Sequence[Module], *, late: bool) -> dict[str, set[str]]:
    """Map each module to those of our modules that it imports."""
    ours = {module.name for module in modules}
    edges = {}
    for module in modules:
        targets = set()
        for name in module.imports(module.tree, late=late):
            parent = name.rpartition(".")[0]
            targets.add(name if name in ours else parent)
        edges[module.name] = (targets & ours) - {module.name}
    return edges


def single_importers(edges: Mapping[str, set[str]]) -> list[str]:
    """Return the modules that exactly one other module imports."""
    importers = Counter()
    for targets in edges.values():
        importers.update(targets)
    return [name for name, count in importers.items() if count == 1]


def import_depth(edges: Mapping[str, set[str]]) -> int:
    """Return the number of modules in the longest chain of imports."""
    depths: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in depths:
            depths[name] = 0  # an import cycle ends here
            below = [depth(target) for target in edges[name]]
            depths[name] = 1 + max(below, default=0)
        return depths[name]

    return max(depth(name) for name in edges)


def used_once(modules: Sequence[Module]) -> list[str]:
    """Return the private functions whose name the whole tree uses exactly once."""
    uses = Counter()
    private = []
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.Name):
                uses[node.id] += 1
            elif isinstance(node, ast.Attribute):
                uses[node.attr] += 1
        for function in module.functions:
            if re.match(r"_(?!_)", function.name):
                private.append(function.name)
    return [name for name in private if uses[name] == 1]


def clause_openings(modules: Sequence[Module]) -> list[str]:
    """Return `module:line first line` for each docstring that opens with a clause."""
    found = []
    for module in modules:
        for statement in module.docstrings:
            text = ast.literal_eval(statement.value).strip()
            if DEPENDENT.match(text):
                found.append(f"{module.name}:{statement.lineno} {text.splitlines()[0]}")
    return found


def setting_keys(modules: Sequence[Module]) -> list[str]:
    """Return the names of all settings: class fields of `settings` that are declared by `key()`."""
    found = []
    for module in modules:
        if "settings" not in module.name.split("."):
            continue
        for node in module.nodes:
            if isinstance(node, ast.AnnAssign) and is_key(node.value):
                found.append(ast.unparse(node.target))
    return found


def is_key(value: ast.expr | None) -> bool:
    """Return True for a call of `key`, as `key(5, "...")` or `module.key(5, "...")`."""
    if not isinstance(value, ast.Call):
        return False
    return ast.unparse(value.func).rpartition(".")[2] == "key"


def measure(package: Path = SOURCE) -> tuple[Figure, ...]:
    """Measure a package; each figure states how it is counted."""
    modules = read_modules(package)
    return (
        *measure_size(modules),
        *measure_bodies(modules),
        *measure_structure(modules),
    )


def measure_size(modules: Sequence[Module]) -> Iterator[Figure]:
    """Yield the figures about files, lines and tokens."""
    files = [module for module in modules if not module.is_bare_package]
    top = sum(module.at_top for module in files)
    functions = sum(len(module.functions) for module in modules)
    tokens = sum(len(module.tokens) for module in modules)
    code_lines = sum(len(module.code_lines) for module in modules)
    filled_lines = sum(module.filled_lines for module in modules)
    starts = [count for module in modules for count in module.tokens_by_line.values()]
    dense = sum(count >= DENSE for count in starts)
    nodes = [node for module in modules for node in module.nodes]
    conditionals = sum(isinstance(node, ast.IfExp) for node in nodes)

    yield Figure(
        "modules",
        len(files),
        "Python files, without a package's that has a docstring alone",
    )
    yield Figure("top-level modules", top, "of them in the package's own folder")
    yield Figure("code lines", code_lines, "lines that a token covers")
    yield Figure(
        "functions", functions, "def and async def, with methods and nested ones"
    )
    yield Figure("tokens", tokens, "without comments, layout and docstrings")
    yield Figure("tokens per code line", tokens / code_lines, "tokens / code lines")
    yield Figure(
        "tokens per starting line",
        tokens / len(starts),
        "tokens / lines where a token starts (as the before-stop hook counts)",
    )
    yield Figure(
        "dense lines",
        share(dense, len(starts)),
        f"lines with {DENSE} or more tokens, of the lines where a token starts",
        unit="%",
    )
    yield Figure(
        "conditional expressions",
        1_000 * conditionals / filled_lines,
        "`a if b else c` per 1,000 lines that are not blank",
    )
    yield Figure(
        "conditionals in code lines",
        1_000 * conditionals / code_lines,
        "the same per 1,000 code lines",
    )


def measure_bodies(modules: Sequence[Module]) -> Iterator[Figure]:
    """Yield the figures about the length of functions."""
    lines = []
    tokens = []
    for module in modules:
        for function in module.functions:
            counts = module.body_tokens(function)
            lines.append(len(counts))
            tokens.append(sum(counts))
    half, most = percentiles(lines)
    yield Figure(
        "body length p50", half, "code lines of a function, without signature", "lines"
    )
    yield Figure("body length p90", most, "the same, ninetieth percentile", "lines")
    half, most = percentiles(tokens)
    yield Figure(
        "body tokens p50", half, "tokens of a function, without signature", "tokens"
    )
    yield Figure("body tokens p90", most, "the same, ninetieth percentile", "tokens")


def measure_structure(modules: Sequence[Module]) -> Iterator[Figure]:
    """Yield the figures about imports, names, docstrings and settings."""
    single = single_importers(import_edges(modules, late=True))
    private = used_once(modules)
    docstrings = sum(len(module.docstrings) for module in modules)
    clauses = clause_openings(modules)
    settings = setting_keys(modules)
    depth = import_depth(import_edges(modules, late=False))

    yield Figure(
        "modules with a single importer",
        len(single),
        "imported by one of our modules, at the top or in a function; not for types",
    )
    yield Figure(
        "private functions used once",
        len(private),
        "functions and methods with `_` whose name the tree uses once",
    )
    yield Figure(
        "docstrings that open with a clause",
        share(len(clauses), docstrings),
        "first word is a question word, conjunction or preposition",
        unit="%",
    )
    yield Figure("settings", len(settings), "fields declared by key() in `settings`")
    yield Figure(
        "import depth", depth, "modules in the longest chain of top-level imports"
    )


def broken_bounds(package: Path = SOURCE) -> list[str]:
    """Return one sentence for each bound that does not hold."""
    figures = {figure.name: figure for figure in measure(package)}
    broken = []
    for bound in BOUNDS:
        figure = figures[bound.name]
        if figure.value > bound.most:
            broken.append(f"{bound.name}: {figure}, at most {bound.most:,}")
    return broken


def main() -> int:
    """Print the figures, or the bounds that do not hold."""
    parser = argparse.ArgumentParser(description="Print the figures of a source tree.")
    parser.add_argument(
        "package", nargs="?", type=Path, default=SOURCE, metavar="FOLDER"
    )
    parser.add_argument(
        "--bounds", action="store_true", help="print the bounds that do not hold"
    )
    options = parser.parse_args()
    package = options.package.resolve()
    if options.bounds:
        broken = broken_bounds(package)
        print("\n".join(broken) or "all bounds hold")
        return int(bool(broken))
    for figure in measure(package):
        print(f"{figure.name:36}{figure!s:>14}  {figure.definition}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
