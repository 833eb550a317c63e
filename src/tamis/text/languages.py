"""Kinds of files: one table from extensions to languages and chunk types."""

from typing import Literal, get_args

ChunkType = Literal["documentation", "code_block", "symbols", "definitions", "data"]
CHUNK_TYPES: tuple[str, ...] = get_args(ChunkType)

MARKDOWN = frozenset({".md", ".markdown", ".mdx"})
PROSE = MARKDOWN | {".txt", ".rst", ".ipynb", ".adoc", ".org", ".tex"}

_CODE = {
    "bash": ".sh .bash .zsh",
    "c": ".c .h",
    "cpp": ".cc .cpp .cxx .hpp .hh",
    "csharp": ".cs",
    "css": ".css .scss .less",
    "elixir": ".ex .exs",
    "go": ".go",
    "haskell": ".hs",
    "html": ".html .htm",
    "java": ".java",
    "javascript": ".js .jsx .mjs .cjs",
    "kotlin": ".kt .kts",
    "lua": ".lua",
    "perl": ".pl .pm",
    "php": ".php",
    "python": ".py .pyi",
    "r": ".r",
    "ruby": ".rb",
    "rust": ".rs",
    "scala": ".scala",
    "swift": ".swift",
    "typescript": ".ts .tsx .mts .cts",
    "vue": ".vue",
    "zig": ".zig",
}
_DATA = {
    "csv": ".csv .tsv",
    "ini": ".ini .cfg .conf .properties",
    "json": ".json .jsonl",
    "sql": ".sql",
    "toml": ".toml",
    "xml": ".xml",
    "yaml": ".yaml .yml",
}
# Names after the fence of a code block that are neither a language's name nor an extension.
_OTHER_NAMES = {
    "bash": "shell console shell-session shellsession terminal ksh posix-sh",
    "cpp": "c++",
    "csharp": "c#",
    "css": "sass",
    "go": "golang",
    "html": "xhtml html5",
    "ini": "dosini editorconfig",
    "javascript": "node ecmascript",
    "json": "json5 jsonc ndjson",
    "python": "python2 python3 py3 ipython ipython2 ipython3 pycon",
    "r": "rlang rscript ir",
    "ruby": "irb",
    "sql": "mysql plsql postgres postgresql psql sqlite tsql",
    "xml": "svg xsd xslt",
}


def _by_word(table: dict[str, str]) -> dict[str, str]:
    """Map each word of a table's values to its key."""
    languages: dict[str, str] = {}
    for language, listed in table.items():
        languages |= dict.fromkeys(listed.split(), language)
    return languages


CODE_LANGUAGE = _by_word(_CODE)
DATA_LANGUAGE = _by_word(_DATA)
_LANGUAGE = CODE_LANGUAGE | DATA_LANGUAGE  # by extension
LANGUAGES = tuple(sorted({*_CODE, *_DATA}))
_BY_NAME = {
    **{suffix[1:]: language for suffix, language in _LANGUAGE.items()},
    **_by_word(_OTHER_NAMES),
    **dict(zip(LANGUAGES, LANGUAGES, strict=True)),
}
KNOWN_EXTENSIONS = frozenset({*PROSE, *_LANGUAGE})


def file_name(path: str) -> str:
    """Return the last part of a posix path."""
    return path.rsplit("/", 1)[-1]


def extension(path: str) -> str:
    """Return the lower-case extension of a posix path, with its dot; '' without one."""
    stem, dot, suffix = file_name(path).rpartition(".")
    if not (stem and dot):
        return ""
    return f".{suffix.lower()}"


def without_known_extension(path: str) -> str:
    """Drop a known extension: `docs/api.md` -> `docs/api`, while `release-1.2` stays."""
    suffix = extension(path)
    if suffix not in KNOWN_EXTENSIONS:
        return path
    return path[: -len(suffix)]


def language_of(path: str) -> str | None:
    """Return the programming or data language of a file."""
    return _LANGUAGE.get(extension(path))


def language_named(name: str) -> str | None:
    """Return the language of a name as after a code fence: `py`, `Shell`, `c++`, `.rb`."""
    return _BY_NAME.get(name.lower().lstrip("."))


def chunk_type_of(path: str) -> ChunkType:
    """Return the type of passages that a file usually has."""
    suffix = extension(path)
    if suffix in CODE_LANGUAGE:
        return "definitions"
    if suffix in DATA_LANGUAGE:
        return "data"
    return "documentation"
