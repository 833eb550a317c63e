"""Configuration and data by their own parts: keys of JSON and YAML, tables of TOML, statements of SQL.

Nothing is parsed in full: one search over the text finds where its parts begin, so that hostile or broken
data costs no more than the rest. A part that is too large is cut in windows of lines that keep its name.
What has no parts that a line shows (minified JSON, CSV, XML) is one part without a name.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from tamis.ingest.code.chunks import Mark, Section, cut_sections
from tamis.ingest.documents.sections import Passages
from tamis.settings import ChunkingSettings
from tamis.text.languages import DATA_LANGUAGE, extension

_MAX_NAME: Final = 200
# What people write has fewer; the rest of what a program wrote is in the last.
_MAX_PARTS: Final = 20_000

# Possessive wherever a run can be long: nothing here may look at a text more often than a few times.
_JSON_FIRST: Final = re.compile(r"\s*+\{[ \t]*+\n+([ \t]+)\"")
_JSON_STRING: Final = r'"((?:[^"\\\n]|\\.){0,200})"'
_YAML: Final = re.compile(
    r"^(?:\"([^\"\n]{1,200})\"|'([^'\n]{1,200})'|([\w./$][^\n:#]{0,200}?))[ \t]{0,9}:(?=\s|\Z)",
    re.MULTILINE,
)
_TOML: Final = re.compile(
    r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:[^\"\\\n]|\\.)*+\"|'[^'\n]*+'|#[^\n]*+"
    r"|^[ \t]*+\[\[?(?P<table>[^\[\]\n]{1,200})\]\]?[ \t]*+(?=#|\n|\Z)|^(?P<key>[\w.-]{1,200})[ \t]*+=",
    re.MULTILINE | re.DOTALL,
)
_INI: Final = re.compile(r"^[ \t]*+\[([^\]\n]{1,200})\]", re.MULTILINE)
_SQL: Final = re.compile(
    r"--[^\n]*+|/\*.*?(?:\*/|\Z)|'[^']*+(?:'|\Z)|\"[^\"]*+(?:\"|\Z)|(?P<dollar>\$\w{0,60}\$).*?(?:(?P=dollar)|\Z)"
    r"|\bEND\s+(?:IF|LOOP|WHILE|REPEAT|FOR)\b|\b(?P<open>BEGIN|CASE)\b|\b(?P<close>END)\b|(?P<stop>;)",
    re.IGNORECASE | re.DOTALL,
)
_SQL_SPACE: Final = re.compile(r"(?:[\s;]++|--[^\n]*+|/\*.*?\*/)*+", re.DOTALL)
_SQL_WORD: Final = r"(?:[\w$]++|\"[^\"\n]++\"|`[^`\n]++`|\[[^\]\n]++\])"
_SQL_NAME: Final = rf"{_SQL_WORD}(?:\.{_SQL_WORD})*+"
_SQL_HEAD: Final = re.compile(
    r"CREATE\s+(?:(?:OR\s+(?:REPLACE|ALTER)|GLOBAL|LOCAL|TEMP|TEMPORARY|UNLOGGED|UNIQUE|MATERIALIZED"
    r"|RECURSIVE|VIRTUAL|EXTERNAL|CONSTRAINT|DEFINER\s*=\s*\S+)\s+)*"
    r"(?P<kind>TABLE|VIEW|INDEX|FUNCTION|PROCEDURE|TRIGGER|TYPE|SCHEMA|SEQUENCE|DOMAIN|DATABASE|ROLE|EXTENSION"
    rf"|POLICY|AGGREGATE)\s+(?:CONCURRENTLY\s+)?(?:IF\s+NOT\s+EXISTS\s+)?(?P<made>{_SQL_NAME})"
    r"|(?:(?:ALTER|DROP|TRUNCATE)\s+(?:TABLE|VIEW|INDEX|SEQUENCE|FUNCTION|TYPE)\s+(?:ONLY\s+)?(?:IF\s+EXISTS\s+)?"
    rf"|(?:INSERT\s+(?:OR\s+\w+\s+)?INTO|UPDATE|DELETE\s+FROM|COPY)\s+)(?P<used>{_SQL_NAME})",
    re.IGNORECASE,
)
_ROUTINES: Final = frozenset({"FUNCTION", "PROCEDURE", "TRIGGER"})


def data_parts(path: str, text: str, sizes: ChunkingSettings) -> Passages:
    """The parts of a file that holds data, by what its extension says it is."""
    language = DATA_LANGUAGE[extension(path)]
    heads = islice(_HEADS[language](text), _MAX_PARTS) if language in _HEADS else ()
    sections = _sections(text, heads)
    names = islice(_sql_names(text), _MAX_PARTS) if language == "sql" else ()
    placed, parents = cut_sections(text, sections, sizes, language, names)
    return Passages([chunk for chunk, _ in placed], parents, [])


def _sections(text: str, heads: Iterable[Mark]) -> Iterator[Section]:
    """Yield the part from each head to the next; comments right above a head are its own."""
    place, about = 0, Section(0, 0, data=True)
    for start, name in heads:
        begin = max(place, _with_comments(text, place, start))
        if begin > place:
            yield replace(about, start=place, end=begin)
        place, about = begin, Section(0, 0, (), (name,) if name else (), data=True)
    if place < len(text):
        yield replace(about, start=place, end=len(text))


def _with_comments(text: str, lowest: int, place: int) -> int:
    """Return the start of the comment lines right above a place."""
    start = text.rfind("\n", lowest, place) + 1 or lowest
    while start > lowest:
        above = text.rfind("\n", lowest, start - 1) + 1 or lowest
        if not text.startswith(("#", "--", "//", ";"), above):
            break
        start = above
    return start


def _json(text: str) -> Iterator[Mark]:
    """The keys of the outermost object: lines that are as far in as the first one."""
    first = _JSON_FIRST.match(text)
    if first is not None:
        key = re.compile(rf"^{first[1]}{_JSON_STRING}[ \t]*:", re.MULTILINE)
        yield from ((found.start(), found[1]) for found in key.finditer(text))


def _yaml(text: str) -> Iterator[Mark]:
    for found in _YAML.finditer(text):
        yield found.start(), (found[1] or found[2] or found[3]).strip()


def _toml(text: str) -> Iterator[Mark]:
    """Tables, and the keys before the first one."""
    within = False
    for found in _TOML.finditer(text):
        if found["table"]:
            within = True
            yield found.start(), found["table"].strip()
        elif found["key"] and not within:
            yield found.start(), found["key"]


def _ini(text: str) -> Iterator[Mark]:
    return ((found.start(), found[1].strip()) for found in _INI.finditer(text))


def _sql(text: str) -> Iterator[Mark]:
    for start in _statements(text):
        yield start, _plain(_SQL_HEAD.match(text, start))


def _sql_names(text: str) -> Iterator[Mark]:
    for start in _statements(text):
        found = _SQL_HEAD.match(text, start)
        if found and found["made"]:
            yield start, _plain(found)


def _statements(text: str) -> Iterator[int]:
    """Yield the start of each statement. One that makes a routine ends where its outermost block does."""
    start, depth = _SQL_SPACE.match(text).end(), 0  # type: ignore[union-attr]
    routine = _is_routine(text, start)
    if start < len(text):
        yield start
    for found in _SQL.finditer(text, start):
        if routine and found["open"]:
            depth += 1
        elif routine and found["close"]:
            depth = max(0, depth - 1)
        elif found["stop"] and depth == 0 and found.end() > start:
            start = _SQL_SPACE.match(text, found.end()).end()  # type: ignore[union-attr]
            routine = _is_routine(text, start)
            if start < len(text):
                yield start


def _is_routine(text: str, start: int) -> bool:
    found = _SQL_HEAD.match(text, start)
    return bool(found and found["kind"] and found["kind"].upper() in _ROUTINES)


def _plain(found: re.Match[str] | None) -> str:
    """A name without its quotes: `"public".[users]` -> `public.users`."""
    name = (found["made"] or found["used"]) if found else ""
    return re.sub(r"[\"`\[\]]", "", name)[:_MAX_NAME]


_HEADS: Final[dict[str, Callable[[str], Iterator[Mark]]]] = {
    "ini": _ini,
    "json": _json,
    "sql": _sql,
    "toml": _toml,
    "yaml": _yaml,
}
