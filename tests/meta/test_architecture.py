"""The layers, the libraries and the names of the source: ARCHITECTURE.md, held true."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal

import pytest

When = Literal["early", "late", "types"]
SOURCE = Path(__file__).resolve().parents[2] / "src"

# From the bottom up. A module may import modules of its own layer and of those below, never above.
LAYERS = (
    {
        "model",
        "errors",
        "request",
        "text",
        "query",
        "gitignore",
        "settings",
        "weights",
        "progress",
        "failpoints",
    },
    {"ingest", "models", "configuration"},
    {"index", "search"},
    {"response", "corpus"},
    {"live", "clients"},
    {"measure"},
    {"cli", "server"},
)
ENTRANCES = {"__init__", "__main__"}  # lead to whatever they open

# Which library lives behind which file, so that it can be replaced. numpy is everywhere.
LIBRARIES = {
    "sqlite3": "tamis/index/embedded/database.py",
    "simsimd": "tamis/index/embedded/vectors.py",
    "fcntl": "tamis/index/embedded/folder.py",
    "onnxruntime": "tamis/models/encoder.py",
    "tokenizers": "tamis/models/encoder.py",
    "Stemmer": "tamis/text/words.py",
    "watchfiles": "tamis/live/notices.py",
    "yaml": "tamis/ingest/documents/frontmatter.py",
    "pyromark": "tamis/ingest/documents/markdown.py",
    "tree_sitter": "tamis/ingest/code/grammars.py",
    "rich": "tamis/cli/terminal.py",
    "matplotlib": "tamis/measure/plot.py",
    "mcp": "tamis/server/mcp.py",
    "mcp_types": "tamis/server/mcp.py",
    "uvicorn": "tamis/server/run.py",
    "qdrant_client": "tamis/index/qdrant/client.py",
    "starlette": "tamis/server/http.py",
    "nh3": "tamis/server/html.py",
    "tomlkit": "tamis/clients/install.py",
}
# A database of its own that an index does not need, and that the engine need not know.
APART = {"sqlite3": ("tamis/models/cache.py",)}
EMPTY_NAMES = (
    "Manager",
    "Service",
    "Handler",
    "Helper",
    "Factory",
    "Utils",
    "Util",
    "Orchestrator",
    "Coordinator",
)


@cache
def files() -> tuple[Path, ...]:
    found = tuple(sorted((SOURCE / "tamis").rglob("*.py")))
    assert len(found) > 30
    return found


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE).with_suffix("").parts)


@cache
def imports(file: Path) -> tuple[tuple[str, When], ...]:
    """Every module that a file imports, and when: with itself, later in a function, or for types alone."""
    return tuple(_imports(ast.parse(file.read_text("utf-8")), "early"))


def _imports(tree: ast.AST, when: When) -> Iterator[tuple[str, When]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, when) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from ((f"{node.module}.{alias.name}", when) for alias in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _imports(node, "types")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _imports(node, "late")
        else:
            yield from _imports(node, when)


def part_of(module: str) -> str:
    """`tamis.search.pipeline.search` -> `search`."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def layer_of(part: str) -> int:
    return next(level for level, parts in enumerate(LAYERS) if part in parts)


def own_imports(file: Path) -> set[str]:
    return {
        part_of(module)
        for module, _ in imports(file)
        if module.split(".")[0] == "tamis"
    }


def test_every_module_has_its_layer():
    for file in files():
        part = part_of(name_of(file))
        assert part in ENTRANCES or any(part in parts for parts in LAYERS), (
            f"{part}: give it a layer above"
        )
    known = {part_of(name_of(file)) for file in files()}
    assert set().union(*LAYERS) <= known, "a layer names a module that is gone"


@pytest.mark.parametrize("file", files(), ids=name_of)
def test_lower_never_imports_higher(file):
    part = part_of(name_of(file))
    if part in ENTRANCES:
        return
    for other in own_imports(file) - ENTRANCES:
        assert layer_of(other) <= layer_of(part), (
            f"{part} imports {other}, which is above it"
        )


def test_index_and_search_meet_in_the_protocol():
    """The query path knows an engine by its protocol; the indexing path knows nothing of searching."""
    for file in files():
        part = part_of(name_of(file))
        for module, _ in imports(file):
            if part == "index":
                assert not module.startswith("tamis.search"), name_of(file)
            if part == "search" and module.startswith("tamis.index"):
                assert module.startswith("tamis.index.protocol."), name_of(file)


def test_files_models_and_engines_do_not_know_each_other():
    """They meet in `index/build.py` and its neighbours, and in `search/`, only."""
    for file in files():
        name = name_of(file)
        others = own_imports(file)
        if name.startswith("tamis.ingest"):
            assert not others & {"models", "index"}, name
        if name.startswith("tamis.models"):
            assert not others & {"ingest", "index"}, name
        if name.startswith(
            ("tamis.index.embedded", "tamis.index.qdrant", "tamis.index.protocol")
        ):
            assert not others & {"ingest", "models"}, name


def test_nothing_imports_a_door():
    for file in files():
        part = part_of(name_of(file))
        if part not in {"cli", "server", "__main__"}:
            assert not own_imports(file) & {"cli", "server"}, name_of(file)


def test_there_is_no_circle():
    """Module by module, of what is imported early: a registry may load what it names late."""
    modules = {name_of(file).removesuffix(".__init__"): file for file in files()}
    edges: dict[str, set[str]] = {}
    for name, file in modules.items():
        targets = set()
        for imported, when in imports(file):
            if when == "early" and imported.startswith("tamis"):
                targets.add(
                    imported if imported in modules else imported.rpartition(".")[0]
                )
        edges[name] = {
            target for target in targets if target in modules and target != name
        }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail, name))
        if name not in done:
            for target in sorted(edges[name]):
                visit(target, (*trail, name))
            done.add(name)

    for name in sorted(modules):
        visit(name, ())


def users_of(library: str) -> list[str]:
    return [
        file.relative_to(SOURCE).as_posix()
        for file in files()
        if any(
            module.split(".")[0] == library and when != "types"
            for module, when in imports(file)
        )
    ]


@pytest.mark.parametrize("library", sorted(LIBRARIES))
def test_one_library_lives_behind_one_file(library):
    assert [
        file for file in users_of(library) if file not in APART.get(library, ())
    ] == [LIBRARIES[library]]


def test_click_lives_in_the_command_line():
    assert users_of("click")
    assert all(file.startswith("tamis/cli/") for file in users_of("click"))


def test_anyio_lives_in_the_server():
    """It comes with starlette and with the protocol's SDK."""
    assert users_of("anyio")
    assert all(file.startswith("tamis/server/") for file in users_of("anyio"))


def test_doors_do_not_know_each_other():
    """The protocol for agents and the HTTP API meet in the state of the server only."""
    for one, other in (("mcp", "http"), ("http", "mcp")):
        for module, _ in imports(SOURCE / f"tamis/server/{one}.py"):
            assert not module.startswith(f"tamis.server.{other}"), module


def test_every_library_is_accounted_for():
    outside = {
        module.split(".")[0] for file in files() for module, _ in imports(file)
    } - sys.stdlib_module_names  # fmt: skip
    assert outside == {"tamis", "numpy", "click", "anyio"} | (
        set(LIBRARIES) - sys.stdlib_module_names
    )


@pytest.mark.rows("R002-001", "R002-005", "C54")
def test_nothing_asks_a_network():
    """Not even by accident; of urllib, only the part that reads and writes addresses."""
    for library in (
        "socket",
        "ssl",
        "http",
        "requests",
        "httpx",
        "asyncio",
        "huggingface_hub",
    ):
        assert users_of(library) == [], library
    for file in files():
        for module, _ in imports(file):
            if module.split(".")[0] == "urllib":
                assert module.startswith("urllib.parse."), name_of(file)


def test_names_say_something():
    for file in files():
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                assert not any(word in node.name for word in EMPTY_NAMES), (
                    f"{name_of(file)}.{node.name}"
                )
        assert file.stem not in {
            "utils",
            "helpers",
            "common",
            "base",
            "core",
            "misc",
        }, name_of(file)


def test_values_are_frozen():
    """A dataclass is frozen and has slots, unless it is private state of one function."""
    for file in files():
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                continue
            for decorator in node.decorator_list:
                text = ast.unparse(decorator)
                if text.startswith("dataclass"):
                    assert "frozen=True" in text, f"{name_of(file)}.{node.name}"
                    assert "slots=True" in text, f"{name_of(file)}.{node.name}"


def test_no_error_is_swallowed():
    """`except Exception: pass` and its like; the last resort of the command line says why it is one."""
    for file in files():
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ExceptHandler):
                kind = ast.unparse(node.type) if node.type else ""
                assert kind, f"{name_of(file)}: a bare except"
                silent = all(isinstance(each, ast.Pass) for each in node.body)
                assert not (silent and kind in ("Exception", "BaseException")), name_of(
                    file
                )


def test_only_the_index_knows_its_engines():
    """An engine states its capabilities; nobody else asks which one there is."""
    places = {"Address", "Reader", "QdrantIndex", "EmbeddedSnapshot", "QdrantSnapshot"}
    for file in files():
        name = name_of(file)
        if part_of(name) == "index":
            continue
        for module, _ in imports(file):
            engines = ("tamis.index.embedded", "tamis.index.qdrant")
            assert not module.startswith(engines), f"{name} imports {module}"
        if name == "tamis.errors":  # where messages say how a place is written
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                kinds = {each.strip() for each in ast.unparse(node.args[1]).split("|")}
                assert not kinds & places, f"{name}: {ast.unparse(node)}"


def test_the_indexing_path_reads_top_to_bottom():
    """`build` asks no engine what it is, and no generator of it commits."""
    tree = ast.parse((SOURCE / "tamis/index/build.py").read_text("utf-8"))
    commits = {"put", "remove", "touch", "finish", "clear", "describe", "embed"}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        inside = list(ast.walk(function))
        calls = [node for node in inside if isinstance(node, ast.Call)]
        if function.name == "build":
            assert not any(ast.unparse(call.func) == "isinstance" for call in calls)
        if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in inside):
            methods = {
                call.func.attr
                for call in calls
                if isinstance(call.func, ast.Attribute)
                and ast.unparse(call.func.value) == "writer"
            }
            assert not methods & commits, f"{function.name} commits while it yields"
