"""Which files are what: one table from extensions to languages and chunk types."""

from typing import Final, Literal, get_args

ChunkType = Literal["documentation", "code_block", "symbols", "definitions", "data"]
CHUNK_TYPES: Final[tuple[str, ...]] = get_args(ChunkType)

MARKDOWN: Final = frozenset({".md", ".markdown", ".mdx"})
PROSE: Final = MARKDOWN | {".txt", ".rst", ".ipynb", ".adoc", ".org", ".tex"}

_CODE: Final[dict[str, tuple[str, ...]]] = {
    "bash": (".sh", ".bash", ".zsh"),
    "c": (".c", ".h"),
    "cpp": (".cc", ".cpp", ".cxx", ".hpp", ".hh"),
    "csharp": (".cs",),
    "css": (".css", ".scss", ".less"),
    "elixir": (".ex", ".exs"),
    "go": (".go",),
    "haskell": (".hs",),
    "html": (".html", ".htm"),
    "java": (".java",),
    "javascript": (".js", ".jsx", ".mjs", ".cjs"),
    "kotlin": (".kt", ".kts"),
    "lua": (".lua",),
    "perl": (".pl", ".pm"),
    "php": (".php",),
    "python": (".py", ".pyi"),
    "r": (".r",),
    "ruby": (".rb",),
    "rust": (".rs",),
    "scala": (".scala",),
    "swift": (".swift",),
    "typescript": (".ts", ".tsx", ".mts", ".cts"),
    "vue": (".vue",),
    "zig": (".zig",),
}
_DATA: Final[dict[str, tuple[str, ...]]] = {
    "csv": (".csv", ".tsv"),
    "ini": (".ini", ".cfg", ".conf", ".properties"),
    "json": (".json", ".jsonl"),
    "sql": (".sql",),
    "toml": (".toml",),
    "xml": (".xml",),
    "yaml": (".yaml", ".yml"),
}
# What people write after the fence of a code block, where it is neither the name nor an extension.
_OTHER_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "bash": (
        "shell",
        "console",
        "shell-session",
        "shellsession",
        "terminal",
        "ksh",
        "posix-sh",
    ),
    "cpp": ("c++",),
    "csharp": ("c#",),
    "css": ("sass",),
    "go": ("golang",),
    "html": ("xhtml", "html5"),
    "ini": ("dosini", "editorconfig"),
    "javascript": ("node", "ecmascript"),
    "json": ("json5", "jsonc", "ndjson"),
    "python": ("python2", "python3", "py3", "ipython", "ipython2", "ipython3", "pycon"),
    "r": ("rlang", "rscript", "ir"),
    "ruby": ("irb",),
    "sql": ("mysql", "plsql", "postgres", "postgresql", "psql", "sqlite", "tsql"),
    "xml": ("svg", "xsd", "xslt"),
}


def _by_extension(table: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {
        extension: language
        for language, extensions in table.items()
        for extension in extensions
    }


CODE_LANGUAGE: Final = _by_extension(_CODE)
DATA_LANGUAGE: Final = _by_extension(_DATA)
LANGUAGES: Final = tuple(sorted({*_CODE, *_DATA}))
_BY_NAME: Final[dict[str, str]] = {
    **{
        suffix[1:]: language
        for suffix, language in (CODE_LANGUAGE | DATA_LANGUAGE).items()
    },
    **{name: language for language, names in _OTHER_NAMES.items() for name in names},
    **{language: language for language in LANGUAGES},
}
KNOWN_EXTENSIONS: Final = frozenset({*PROSE, *CODE_LANGUAGE, *DATA_LANGUAGE})


def file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def extension(path: str) -> str:
    """The lower-case extension of a posix path, with its dot; '' for none and for dot files."""
    name = file_name(path)
    stem, dot, suffix = name.rpartition(".")
    return f".{suffix.lower()}" if dot and stem else ""


def without_known_extension(path: str) -> str:
    """`docs/api.md` -> `docs/api`; `release-1.2` stays, because `.2` is no kind of file we know."""
    suffix = extension(path)
    return path[: -len(suffix)] if suffix in KNOWN_EXTENSIONS else path


def language_of(path: str) -> str | None:
    suffix = extension(path)
    return CODE_LANGUAGE.get(suffix) or DATA_LANGUAGE.get(suffix)


def language_named(name: str) -> str | None:
    """The language that people mean by a name, as after a code fence: `py`, `Shell`, `c++`, `.rb`."""
    return _BY_NAME.get(name.lower().lstrip("."))


def chunk_type_of(path: str) -> ChunkType:
    suffix = extension(path)
    if suffix in CODE_LANGUAGE:
        return "definitions"
    return "data" if suffix in DATA_LANGUAGE else "documentation"
