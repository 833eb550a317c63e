r"""Targets of import statements, as paths that other files can be compared with.

A target that is known from the file's own place begins with `/` and counts from the root: `./x` in
`src/a.ts` is `/src/x`. Others are the end of a path, without an extension where the language writes
none: `import a.b` is `a/b`. Names of packages that no file of a corpus can have (`react`) are nothing.
Which file a target leads to is for those who know the files.

Statements come from a grammar (`tamis.ingest.code.grammars`), so comments and strings never look like one.
"""

import posixpath
import re
from collections.abc import Callable, Iterator
from typing import Final

# A statement that names more was made by a program; a longer name is none.
_MAX_TARGETS: Final = 500
_MAX_TARGET: Final = 300
_MAX_DEPTH: Final = 16

_LINE_COMMENT: Final = re.compile(r"#[^\n]*|\\\n")
_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_FROM: Final = re.compile(r"from\s*+(\.[\s.]*+)?+([\w.]*?)\s*+import\b(.*)", re.DOTALL)
_DOTTED: Final = re.compile(r"[\w$]+(?:\s*\.\s*[\w$]+)*")
_STRING: Final = re.compile(
    r"\"([^\"\n]*)\"|'([^'\n]*)'|`([^`\n]*)`|\[\[([^\]\n]*)\]\]"
)
_PHP_FILE: Final = re.compile(
    r"\w+\s*\(?\s*(?:(?P<here>__DIR__|dirname\s*\(\s*__FILE__\s*\))\s*\.\s*)?(?P<text>\"[^\"$\n]*\"|'[^'\n]*')\s*\)?$"
)
_EMITTED: Final = re.compile(r"(?<=[^/])\.[cm]?jsx?$")
_RUST_ROOTS: Final = frozenset({"mod.rs", "lib.rs", "main.rs"})
_TREE: Final = re.compile(r"\bas\s+\w+|=>\s*\w+|[{},]|[\w*]+")


def import_targets(path: str, statement: str, language: str) -> list[str]:
    """Return the targets of a statement of the file at `path`, in order, none twice."""
    found = _READERS[language](path, statement) if language in _READERS else iter(())
    targets: dict[str, None] = {}
    for target in found:
        if target.strip("/.") and len(target) <= _MAX_TARGET:
            targets[target] = None
        if len(targets) == _MAX_TARGETS:
            break
    return list(targets)


def _python(path: str, statement: str) -> Iterator[str]:
    plain = _LINE_COMMENT.sub(" ", statement)
    if (found := _FROM.match(plain)) is None:
        for name in plain.removeprefix("import").split(","):
            yield _slashed(name.split(" as ")[0])
        return
    dots = "".join((found[1] or "").split())
    base = _slashed(found[2])
    if dots:
        base = _beside(path, "../" * min(len(dots) - 1, _MAX_TARGET) + base)
        if not base:
            return
    for name in found[3].strip(" \t\n()").split(","):
        if member := name.split(" as ")[0].strip().strip("*"):
            yield f"{base.rstrip('/')}/{member}"
    yield base


def _script(path: str, statement: str) -> Iterator[str]:
    target = _string(statement).split("?")[0]
    if target.startswith("."):
        yield _beside(path, target)


def _typescript(path: str, statement: str) -> Iterator[str]:
    """Also what `./x.js` is made from, as TypeScript means by it: `x.ts`."""
    for target in _script(path, statement):
        yield target
        yield _EMITTED.sub("", target)


def _go(path: str, statement: str) -> Iterator[str]:
    target = _string(statement)
    yield _beside(path, target) if target.startswith(".") else target


def _include(path: str, statement: str) -> Iterator[str]:
    if statement.startswith("<"):
        yield statement.strip("<>")
        return
    target = _string(statement)
    yield _beside(path, target)
    if "/" in target and not target.startswith(
        "."
    ):  # from a folder that the compiler was told of
        yield target


def _ruby(path: str, statement: str) -> Iterator[str]:
    target = _string(statement)
    if "#{" not in target:
        is_beside = statement.startswith("require_relative") or target.startswith(".")
        yield _beside(path, target) if is_beside else target


def _lua(_: str, statement: str) -> Iterator[str]:
    yield _string(statement).replace(".", "/")


def _bash(path: str, statement: str) -> Iterator[str]:
    words = statement.split(None, 2)[1:]
    target = words[0].strip("\"'") if words else ""
    if target and not target.startswith("/") and not set(target) & set("$`~*?<>|(){}"):
        yield _beside(path, target)


def _php(path: str, statement: str) -> Iterator[str]:
    if statement.startswith("use"):
        plain = re.sub(
            r"\b(?:function|const)\b\s+",
            "",
            statement.removeprefix("use").strip(" \t\n;"),
        )
        yield from ("/".join(parts) for parts in _tree(plain))
    elif found := _PHP_FILE.match(statement):
        yield _beside(
            path, found["text"].strip("\"'").lstrip("/" if found["here"] else "")
        )


def _java(_: str, statement: str) -> Iterator[str]:
    """The class, and those around it: `com.x.Y.Z` is in `Y`, as is what `static com.x.Y.z` names.

    `com.x.Y.*` is about `Y`; `com.x.*` names a package, of which no file is called so.
    """
    plain = _COMMENT.sub(" ", statement).removeprefix("import").strip(" \t\n;")
    is_static = plain.startswith("static ")
    target = _slashed(plain.removeprefix("static ").split(" as ")[0])
    yield target
    outer = target.rpartition("/")[0]
    if is_static and not plain.endswith("*"):
        yield outer
    while outer.rpartition("/")[2][:1].isupper():
        yield outer
        outer = outer.rpartition("/")[0]


def _csharp(_: str, statement: str) -> Iterator[str]:
    plain = re.sub(
        r"\b(?:global|using|static|unsafe)\b", "", _COMMENT.sub(" ", statement)
    )
    yield _slashed(plain.rpartition("=")[2])


def _scala(_: str, statement: str) -> Iterator[str]:
    plain = _COMMENT.sub(" ", statement).removeprefix("import")
    yield from (
        "/".join(part for part in parts if part not in {"_", "*", "given"})
        for parts in _tree(plain)
    )


def _rust(path: str, statement: str) -> Iterator[str]:
    plain = re.sub(
        r"^(?:pub\s*(?:\([^)]*\))?\s*)?", "", _COMMENT.sub(" ", statement)
    ).rstrip(" \t\n;")
    own = path.rsplit("/", 1)[-1] in _RUST_ROOTS
    folder = posixpath.dirname(path) if own else path.removesuffix(".rs")
    if plain.startswith("mod"):
        yield _from_root(posixpath.join(folder, plain.removeprefix("mod").strip()))
        return
    for parts in _tree(plain.removeprefix("use")):
        yield from _rust_use(folder, [part for part in parts if part != "*"])


def _rust_use(folder: str, parts: list[str]) -> Iterator[str]:
    """The item, and the module that it may be an item of."""
    if parts and parts[-1] == "self" and len(parts) > 1:
        parts = parts[:-1]
    start = ""
    if parts[:1] == ["crate"]:
        parts = parts[1:]
    elif parts[:1] in (["self"], ["super"]):
        parts = parts[1:] if parts[0] == "self" else parts
        while parts[:1] == ["super"]:
            folder, parts = posixpath.dirname(folder), parts[1:]
        start = f"/{folder}/" if folder else "/"
    if parts:
        yield start + "/".join(parts)
    if len(parts) > 1:
        yield start + "/".join(parts[:-1])


def _tree(text: str) -> Iterator[list[str]]:
    r"""Paths with groups in them: `a::{b, c::d as e}` -> `a b`, `a c d`. Also `A\{B, C}` and `a.{b => c}`."""
    outer: list[list[str]] = []
    path: list[str] = []
    is_new = False  # something was added since the last comma or brace
    base: list[str] = []
    for token in _TREE.findall(text):
        if token == "{":
            outer.append(base)
            base, is_new = list(path[:_MAX_DEPTH]), False
            if len(outer) > _MAX_DEPTH:
                return
        elif token in {",", "}"}:
            if is_new:
                yield path
            path, is_new = list(base), False
            if token == "}" and outer:
                base = outer.pop()
        elif not token.startswith(("as ", "as\t", "as\n", "=>")):
            path.append(token)
            is_new = True
    if is_new:
        yield path


def _slashed(name: str) -> str:
    """`a . b . c` -> `a/b/c`."""
    found = _DOTTED.search(name)
    return "/".join(part.strip() for part in found[0].split(".")) if found else ""


def _string(text: str) -> str:
    found = _STRING.search(text)
    return (
        next((part for part in found.groups() if part is not None), "") if found else ""
    )


def _beside(path: str, target: str) -> str:
    """A path from the file's folder, as one from the root; nothing if it leads out of it."""
    return (
        _from_root(posixpath.join(posixpath.dirname(path), target))
        if not target.startswith("/")
        else ""
    )


def _from_root(path: str) -> str:
    plain = posixpath.normpath(path)
    return (
        ""
        if plain == ".." or plain.startswith("../")
        else f"/{'' if plain == '.' else plain}"
    )


_READERS: Final[dict[str, Callable[[str, str], Iterator[str]]]] = {
    "bash": _bash,
    "c": _include,
    "cpp": _include,
    "csharp": _csharp,
    "go": _go,
    "java": _java,
    "javascript": _script,
    "kotlin": _java,
    "lua": _lua,
    "php": _php,
    "python": _python,
    "ruby": _ruby,
    "rust": _rust,
    "scala": _scala,
    "typescript": _typescript,
}
