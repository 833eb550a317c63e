"""One table in a TOML file, changed without touching anything else: comments, order and layout stay.

The standard library's parser reads, and has the last word on what was written; this file only knows where
a statement begins and ends. A new table goes to the end, where it cannot come between a comment
and what the comment is about. Nothing here opens a file.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tamis.clients import Unparsed

_TOKEN: Final = re.compile(
    r'''"""(?:\\.|[^\\])*?""""{0,2}|\'\'\'.*?\'\'\''{0,2}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*|\n|.''',
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Statement:
    """A table's header or a key with its value, by its places in the text."""

    start: int
    end: int
    after: int  # where the next line begins
    header: bool
    path: tuple[str, ...]  # from the top, as far as there is only one way to go


def read(text: str) -> dict[str, Any]:
    """What a file says."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r" \(at (?:line (\d+)|end)[^)]*\)$", str(error))
        line = int(place[1]) if place and place[1] else text.count("\n") + 1
        raise Unparsed(
            line, str(error)[: place.start()] if place else str(error)
        ) from error


def put(text: str, group: str, name: str, values: Mapping[str, Any]) -> str:
    """The text with these values in `[group.name]`; whatever else stands there stays."""
    expected = read(text)
    known = name in expected.get(group, {})
    expected.setdefault(group, {}).setdefault(name, {}).update(values)
    changed = (
        _updated(text, (group, name), values)
        if known
        else _appended(text, (group, name), values)
    )
    return _checked(text, changed, group, expected)


def remove(text: str, group: str, name: str) -> str:
    """The text without `[group.name]` and what is below it."""
    expected = read(text)
    if name not in expected.get(group, {}):
        return text
    del expected[group][name]
    ours = [each for each in _statements(text) if each.path[:2] == (group, name)]
    changed = text
    for start, end in reversed(_runs(text, ours)):
        before, after = changed[:start], changed[end:]
        if re.search(r"\n\r?\n\Z", before) and re.match(r"\s*\Z|\r?\n", after):
            before = re.sub(
                r"\r?\n\Z", "", before
            )  # the empty line that set the table off
        changed = before + after
    return _checked(text, changed, group, expected)


def _statements(text: str) -> Iterator[_Statement]:
    table: tuple[str, ...] = ()
    start, end, depth = -1, -1, 0
    for token in _TOKEN.finditer(text + "\n"):
        word = token[0]
        if word == "\n" and depth == 0 and start >= 0:
            header = text[start] == "["
            path = _path(tomllib.loads(text[start:end]))
            yield _Statement(
                start,
                end,
                min(token.end(), len(text)),
                header,
                path if header else table + path,
            )
            start, table = -1, path if header else table
        elif not word.isspace() and word[0] != "#":
            start, end = token.start() if start < 0 else start, token.end()
            depth += (word in "[{") - (word in "]}")


def _path(value: object) -> tuple[str, ...]:
    path: tuple[str, ...] = ()
    while (
        isinstance(value := value[0] if isinstance(value, list) else value, dict)
        and len(value) == 1
    ):
        key, value = next(iter(value.items()))
        path += (key,)
    return path


def _runs(text: str, statements: list[_Statement]) -> list[tuple[int, int]]:
    """The lines of these statements, with comments between those that follow each other."""
    runs: list[tuple[int, int]] = []
    for each in statements:
        line = text.rfind("\n", 0, each.start) + 1
        if runs and not each.header and not _statement_between(text, runs[-1][1], line):
            runs[-1] = (runs[-1][0], each.after)
        else:
            runs.append((line, each.after))
    return runs


def _statement_between(text: str, start: int, end: int) -> bool:
    return any(
        line.strip() and not line.lstrip().startswith("#")
        for line in text[start:end].splitlines()
    )


def _appended(text: str, place: tuple[str, str], values: Mapping[str, Any]) -> str:
    newline = _newline(text)
    gap = "" if not text else newline if text.endswith("\n") else newline * 2
    lines = (f"{key} = {_written(value)}" for key, value in values.items())
    return text + gap + newline.join((f"[{'.'.join(map(_key, place))}]", *lines, ""))


def _updated(text: str, place: tuple[str, str], values: Mapping[str, Any]) -> str:
    for key, value in values.items():
        statements = list(_statements(text))
        found = next(
            (
                each
                for each in statements
                if not each.header and each.path == (*place, key)
            ),
            None,
        )
        header = next(
            (each for each in statements if each.header and each.path == place), None
        )
        if found:
            old = text[found.start : found.end]
            if tomllib.loads(old).get(key) != value:
                new = f"{old[: old.index('=') + 1]} {_written(value)}"
                text = text[: found.start] + new + text[found.end :]
        elif header:
            line = text.find("\n", header.end) + 1 or len(text)
            gap = "" if text[:line].endswith("\n") else _newline(text)
            text = f"{text[:line]}{gap}{key} = {_written(value)}{_newline(text)}{text[line:]}"
    return text


def _key(name: str) -> str:
    return (
        name
        if re.fullmatch(r"[A-Za-z0-9_-]+", name)
        else json.dumps(name, ensure_ascii=False)
    )


def _written(value: object) -> str:
    """A JSON text, or a list of texts, is a TOML one too, but for a character that TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _checked(before: str, after: str, group: str, expected: dict[str, Any]) -> str:
    """The new text, if it says what it should and nothing else; an empty group is as good as none."""
    try:
        said = tomllib.loads(after)
    except tomllib.TOMLDecodeError:
        said = {}
    for each in (said, expected):
        if each.get(group) == {}:
            del each[group]
    if said != expected:
        line = next(
            (at for at, line in enumerate(before.splitlines(), 1) if group in line), 1
        )
        raise Unparsed(
            line,
            f"{group} is written in a way that is not understood; please change it by hand",
        )
    return after
