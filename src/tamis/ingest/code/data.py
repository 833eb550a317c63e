"""Configuration and data by their own parts: keys of JSON and YAML, tables of TOML, statements of SQL.

Nothing is parsed in full: one search over the text finds where its parts begin, so that hostile or broken
data costs no more than the rest. A part that is too large is cut in windows of lines that keep its name.
What has no parts that a line shows (minified JSON, CSV, XML) is one part without a name.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from tamis.ingest.code.chunks import Mark, Section, cut_sections
from tamis.ingest.documents.sections import Parsed
from tamis.settings import ChunkingSettings
from tamis.text.languages import DATA_LANGUAGE, extension

_MAX_NAME = 200
# What people write has fewer; the rest of what a program wrote is in the last.
_MAX_PARTS = 20_000

# Possessive wherever a run can be long: nothing here may look at a text more often than a few times.
_JSON_FIRST = re.compile(r"\s*+\{[ \t]*+\n+([ \t]+)\"")
_JSON_STRING = r'"((?:[^"\\\n]|\\.){0,200})"'
_YAML = re.compile(
    r"^(?:\"([^\"\n]{1,200})\"|'([^'\n]{1,200})'|([\w./$][^\n:#]{0,200}?))[ \t]{0,9}:(?=\s|\Z)",
    re.MULTILINE,
)
_TOML = re.compile(
    r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:[^\"\\\n]|\\.)*+\"|'[^'\n]*+'|#[^\n]*+"
    r"|^[ \t]*+\[\[?(?P<table>[^\[\]\n]{1,200})\]\]?[ \t]*+(?=#|\n|\Z)|^(?P<key>[\w.-]{1,200})[ \t]*+=",
    re.MULTILINE | re.DOTALL,
)
_INI = re.compile(r"^[ \t]*+\[([^\]\n]{1,200})\]", re.MULTILINE)
_SQL = re.compile(
    r"--[^\n]*+|/\*.*?(?:\*/|\Z)|'[^']*+(?:'|\Z)|\"[^\"]*+(?:\"|\Z)|(?P<dollar>\$\w{0,60}\$).*?(?:(?P=dollar)|\Z)"
    r"|\bEND\s+(?:IF|LOOP|WHILE|REPEAT|FOR)\b|\b(?P<open>BEGIN|CASE)\b|\b(?P<close>END)\b|(?P<stop>;)",
    re.IGNORECASE | re.DOTALL,
)
_SQL_SPACE = re.compile(r"(?:[\s;]++|--[^\n]*+|/\*.*?\*/)*+", re.DOTALL)
_SQL_WORD = r"(?:[\w$]++|\"[^\"\n]++\"|`[^`\n]++`|\[[^\]\n]++\])"
_SQL_NAME = rf"{_SQL_WORD}(?:\.{_SQL_WORD})*+"
_SQL_HEAD = re.compile(
    r"CREATE\s+(?:(?:OR\s+(?:REPLACE|ALTER)|GLOBAL|LOCAL|TEMP|TEMPORARY|UNLOGGED|UNIQUE|MATERIALIZED"
    r"|RECURSIVE|VIRTUAL|EXTERNAL|CONSTRAINT|DEFINER\s*=\s*\S+)\s+)*"
    r"(?P<kind>TABLE|VIEW|INDEX|FUNCTION|PROCEDURE|TRIGGER|TYPE|SCHEMA|SEQUENCE|DOMAIN|DATABASE|ROLE|EXTENSION"
    rf"|POLICY|AGGREGATE)\s+(?:CONCURRENTLY\s+)?(?:IF\s+NOT\s+EXISTS\s+)?(?P<made>{_SQL_NAME})"
    r"|(?:(?:ALTER|DROP|TRUNCATE)\s+(?:TABLE|VIEW|INDEX|SEQUENCE|FUNCTION|TYPE)\s+(?:ONLY\s+)?(?:IF\s+EXISTS\s+)?"
    rf"|(?:INSERT\s+(?:OR\s+\w+\s+)?INTO|UPDATE|DELETE\s+FROM|COPY)\s+)(?P<used>{_SQL_NAME})",
    re.IGNORECASE,
)
_ROUTINES = frozenset({"FUNCTION", "PROCEDURE", "TRIGGER"})


def parse_data(path: str, text: str, sizes: ChunkingSettings) -> Parsed:
    """Return the parts of a file that holds data of the kind that its extension names."""
    language = DATA_LANGUAGE[extension(path)]
    heads = islice(_heads(text, language), _MAX_PARTS)
    sections = _sections(text, heads)
    names = []
    if language == "sql":
        for start, head in _statements(text):
            if head and head["made"]:
                names.append((start, _name(head)))
    del names[_MAX_PARTS:]
    placed, parents = cut_sections(text, sections, sizes, language, names)
    chunks = [chunk for chunk, _ in placed]
    return Parsed(chunks, parents)


def _sections(text: str, heads: Iterable[Mark]) -> Iterator[Section]:
    """Yield the part from each head to the next; comments right above a head are its own."""
    place = 0
    names: tuple[str, ...] = ()
    for start, name in heads:
        begin = _with_comments(text, place, start)
        if begin > place:
            yield Section(place, begin, names=names, data=True)
        place = begin
        names = (name,) if name else ()
    if place < len(text):
        yield Section(place, len(text), names=names, data=True)


def _with_comments(text: str, lowest: int, place: int) -> int:
    """Return the start of the comment lines right above a place."""
    start = text.rfind("\n", lowest, place) + 1 or lowest
    while start > lowest:
        above = text.rfind("\n", lowest, start - 1) + 1 or lowest
        if not text.startswith(("#", "--", "//", ";"), above):
            break
        start = above
    return start


def _heads(text: str, language: str) -> Iterator[Mark]:
    """Yield the beginnings of parts, with their names."""
    match language:
        case "json":
            # The keys of the outermost object: lines that are as far in as the first one.
            if first := _JSON_FIRST.match(text):
                key = rf"^{first[1]}{_JSON_STRING}[ \t]*:"
                for found in re.finditer(key, text, re.MULTILINE):
                    yield found.start(), found[1]
        case "yaml" | "ini":
            pattern = _YAML if language == "yaml" else _INI
            for found in pattern.finditer(text):
                yield found.start(), found[found.lastindex or 0].strip()
        case "toml":
            # Tables, and the keys before the first one.
            within = False
            for found in _TOML.finditer(text):
                if found["table"]:
                    within = True
                    yield found.start(), found["table"].strip()
                elif found["key"] and not within:
                    yield found.start(), found["key"]
        case "sql":
            for start, head in _statements(text):
                yield start, _name(head) if head else ""


def _statements(
    text: str,
) -> Iterator[tuple[int, re.Match[str] | None]]:
    """Yield the start of each statement, with what it begins with."""
    place = 0
    while found := _SQL_SPACE.match(text, place):
        start = found.end()
        if start == len(text):
            break
        head = _SQL_HEAD.match(text, start)
        yield start, head
        place = _statement_end(text, start, head)


def _statement_end(
    text: str,
    start: int,
    head: re.Match[str] | None,
) -> int:
    """Return the end of a statement. One that makes a routine ends where its outermost block does."""
    kind = head["kind"] if head else None
    is_routine = kind is not None and kind.upper() in _ROUTINES
    depth = 0
    for found in _SQL.finditer(text, start):
        if is_routine and found["open"]:
            depth += 1
        elif is_routine and found["close"]:
            depth = max(0, depth - 1)
        elif found["stop"] and depth == 0:
            return found.end()
    return len(text)


def _name(head: re.Match[str]) -> str:
    """Return a name without its quotes: `"public".[users]` -> `public.users`."""
    name = head["made"] or head["used"]
    return re.sub(r"[\"`\[\]]", "", name)[:_MAX_NAME]
