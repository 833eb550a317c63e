r"""Targets of import statements, as paths that other files can be compared with.

A target that is known from the file's own place begins with `/` and counts from the root: `./x` in
`src/a.ts` is `/src/x`. Others are the end of a path, without an extension where the language writes
none: `import a.b` is `a/b`. Names of packages that no file of a corpus can have (`react`) are nothing.
Which file a target leads to is for those who know the files.

Statements come from a grammar (`tamis.ingest.code.grammars`), so comments and strings never look like one.
"""

import posixpath
import re
from collections.abc import Iterator

# A statement that names more was made by a program; a longer name is none.
_MAX_TARGETS = 500
_MAX_TARGET = 300
_MAX_DEPTH = 16

_LINE_COMMENT = re.compile(r"#[^\n]*|\\\n")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_FROM = re.compile(r"from\s*+(\.[\s.]*+)?+([\w.]*?)\s*+import\b(.*)", re.DOTALL)
_DOTTED = re.compile(r"[\w$]+(?:\s*\.\s*[\w$]+)*")
_STRING = re.compile(
    r"\"([^\"\n]*)\""
    r"|'([^'\n]*)'"
    r"|`([^`\n]*)`"
    r"|\[\[([^\]\n]*)\]\]"
)
_PHP_FILE = re.compile(
    r"\w+\s*\(?\s*"  # `require_once(`
    r"(?:(?P<here>__DIR__|dirname\s*\(\s*__FILE__\s*\))\s*\.\s*)?"
    r"(?P<text>\"[^\"$\n]*\"|'[^'\n]*')"
    r"\s*\)?$"
)
_EMITTED = re.compile(r"(?<=[^/])\.[cm]?jsx?$")
_ALL = frozenset({"_", "*", "given"})  # of Scala
_RUST_ROOTS = frozenset({"mod.rs", "lib.rs", "main.rs"})
_WITHIN_NAMES = re.compile(r"\b(?:function|const)\b\s+")  # of PHP's `use`
_BEFORE_NAME = re.compile(r"\b(?:global|using|static|unsafe)\b")  # of C#
_EXPANDED = re.compile(r"[$`~*?<>|(){}]")  # by a shell
_VISIBLE = re.compile(r"^(?:pub\s*(?:\([^)]*\))?\s*)?")  # of Rust
_TREE = re.compile(r"(?:\bas\s+|=>\s*)\w+|([{},]|[\w*]+)")


def import_targets(
    path: str,
    statement: str,
    language: str,
) -> list[str]:
    """Return the targets of a statement of the file at `path`, in order, none twice."""
    targets: dict[str, None] = {}
    for target in _targets(path, statement, language):
        if target.strip("/.") and len(target) <= _MAX_TARGET:
            targets[target] = None
        if len(targets) == _MAX_TARGETS:
            break
    return list(targets)


def _targets(
    path: str,
    statement: str,
    language: str,
) -> Iterator[str]:
    found = _STRING.search(statement)
    target = found[found.lastindex or 0] if found else ""
    beside = _beside(path, target)
    is_relative = target.startswith(".")
    match language:
        case "python":
            yield from _python(path, statement)
        case "java" | "kotlin":
            yield from _java(statement)
        case "rust":
            yield from _rust(path, statement)
        case "php":
            yield from _php(path, statement)
        case "bash":
            for word in statement.split(None, 2)[1:2]:
                target = word.strip("\"'")
                if target and not _EXPANDED.search(target):
                    yield _beside(path, target)
        case "scala":
            plain = _COMMENT.sub(" ", statement)
            for parts in _tree(plain.removeprefix("import")):
                yield "/".join(part for part in parts if part not in _ALL)
        case "csharp":
            plain = _BEFORE_NAME.sub("", _COMMENT.sub(" ", statement))
            yield _slashed(plain.rpartition("=")[2])
        case "c" | "cpp" if statement.startswith("<"):
            yield statement.strip("<>")
        case "javascript" | "typescript" if is_relative:
            beside = _beside(path, target.split("?")[0])
            yield beside
            if language == "typescript":
                # What `./x.js` is made from, as TypeScript means by it: `x.ts`.
                yield _EMITTED.sub("", beside)
        case "go":
            yield beside if is_relative else target
        case "ruby" if "#{" not in target:
            is_relative = is_relative or statement.startswith("require_relative")
            yield beside if is_relative else target
        case "lua":
            yield target.replace(".", "/")
        case "c" | "cpp":
            yield beside
            if "/" in target and not is_relative:
                yield target  # from a folder that the compiler was told of


def _python(path: str, statement: str) -> Iterator[str]:
    plain = _LINE_COMMENT.sub(" ", statement)
    found = _FROM.match(plain)
    if found is None:
        for name in plain.removeprefix("import").split(","):
            yield _slashed(name.split(" as ")[0])
        return
    dots = "".join((found[1] or "").split())
    base = _slashed(found[2])
    if dots:
        above = min(len(dots) - 1, _MAX_TARGET)
        base = _beside(path, "../" * above + base)
        if not base:
            return
    for name in found[3].strip(" \t\n()").split(","):
        member = name.split(" as ")[0]
        member = member.strip().strip("*")
        if member:
            yield f"{base.rstrip('/')}/{member}"
    yield base


def _php(path: str, statement: str) -> Iterator[str]:
    found = _PHP_FILE.match(statement)
    if statement.startswith("use"):
        names = statement.removeprefix("use").strip(" \t\n;")
        for parts in _tree(_WITHIN_NAMES.sub("", names)):
            yield "/".join(parts)
    elif found:
        target = found["text"].strip("\"'")
        if found["here"]:
            target = target.lstrip("/")
        yield _beside(path, target)


def _java(statement: str) -> Iterator[str]:
    """Yield the class, and those around it: `com.x.Y.Z` is in `Y`, as is what `static com.x.Y.z` names.

    `com.x.Y.*` is about `Y`; `com.x.*` names a package, of which no file is called so.
    """
    plain = _COMMENT.sub(" ", statement)
    plain = plain.removeprefix("import").strip(" \t\n;")
    is_static = plain.startswith("static ")
    target = _slashed(plain.removeprefix("static ").split(" as ")[0])
    yield target
    outer = target.rpartition("/")[0]
    if is_static and not plain.endswith("*"):
        yield outer
    while outer.rpartition("/")[2][:1].isupper():
        yield outer
        outer = outer.rpartition("/")[0]


def _rust(path: str, statement: str) -> Iterator[str]:
    plain = _COMMENT.sub(" ", statement)
    plain = _VISIBLE.sub("", plain).rstrip(" \t\n;")
    module = path.removesuffix(".rs")
    if posixpath.basename(path) in _RUST_ROOTS:
        module = posixpath.dirname(path)
    if plain.startswith("mod"):
        name = plain.removeprefix("mod").strip()
        yield _from_root(posixpath.join(module, name))
        return
    for parts in _tree(plain.removeprefix("use")):
        named = [part for part in parts if part != "*"]
        yield from _rust_use(module, named)


def _rust_use(module: str, parts: list[str]) -> Iterator[str]:
    """Yield the item, and the module that it may be an item of."""
    if parts[1:] and parts[-1] == "self":
        parts = parts[:-1]
    start = ""
    root = parts[0] if parts else ""
    if root in ("crate", "self"):
        parts = parts[1:]
    if root in ("self", "super"):
        while parts[:1] == ["super"]:
            module = posixpath.dirname(module)
            parts = parts[1:]
        start = f"/{module}/" if module else "/"
    if parts:
        yield start + "/".join(parts)
    if parts[1:]:
        yield start + "/".join(parts[:-1])


def _tree(text: str) -> Iterator[list[str]]:
    r"""Yield paths with groups in them: `a::{b, c::d as e}` -> `a b`, `a c d`. Also `A\{B, C}` and `a.{b => c}`."""
    outer: list[list[str]] = []
    path: list[str] = []
    base: list[str] = []
    is_new = False  # something was added since the last comma or brace
    for token in _TREE.findall(text):
        if token == "{":
            outer.append(base)
            base = path[:_MAX_DEPTH]
            is_new = False
            if len(outer) > _MAX_DEPTH:
                return
        elif token in {",", "}"}:
            if is_new:
                yield path
            path = list(base)
            is_new = False
            if token == "}" and outer:
                base = outer.pop()
        elif token:  # empty for another name
            path.append(token)
            is_new = True
    if is_new:
        yield path


def _slashed(name: str) -> str:
    """`a . b . c` -> `a/b/c`."""
    found = _DOTTED.search(name)
    if not found:
        return ""
    names = found[0].split(".")
    return "/".join(map(str.strip, names))


def _beside(path: str, target: str) -> str:
    """Return a path from the file's folder as one from the root; nothing if it leads out of it."""
    if target.startswith("/"):
        return ""
    return _from_root(posixpath.join(posixpath.dirname(path), target))


def _from_root(path: str) -> str:
    plain = posixpath.normpath(path)
    if plain == ".." or plain.startswith("../"):
        return ""
    return "/" if plain == "." else f"/{plain}"
