"""One value in a JSON file, changed without touching anything else: comments, order and layout stay.

Reads JSON and what editors make of it: comments, commas before a closing bracket, a byte order mark. All of
that is blanked to spaces of the same length, so that Python's own parser reads the rest, every
position is a position in the file, and an error has its line. Nothing here opens a file.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from tamis.clients import Unparsed

_STRING: Final = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT: Final = r"//[^\r\n]*|/\*.*?\*/"
_STRINGS_AND_COMMENTS: Final = re.compile(f"{_STRING}|{_COMMENT}", re.DOTALL)
_STRINGS_AND_LAST_COMMAS: Final = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.DOTALL)
_SPACE: Final = re.compile(r"\s*")
_REST_OF_LINE: Final = re.compile(rf"(?:[ \t]*(?:{_COMMENT}))*", re.DOTALL)
_INDENT: Final = re.compile(r"\n([ \t]+)\S")


@dataclass(frozen=True, slots=True)
class _Member:
    """`"key": value` in an object, by its places in the text."""

    key: str
    start: int
    value: int
    end: int  # of the value
    comma: int  # where the comma after it stands, or -1


def read(text: str) -> dict[str, Any]:
    """What a file says; one without any value says nothing."""
    plain = _plain(text)
    return _parse(plain) if plain.strip() else {}


def put(text: str, path: Sequence[str], value: object) -> str:
    """The text with this value at this path; objects on the way there are made where they are missing."""
    if not _plain(text).strip():
        between = (
            _newline(text) if text.strip("\ufeff") and not text.endswith("\n") else ""
        )
        return (
            f"{text}{between}{_dumped(_nested(path, value), text, '')}{_newline(text)}"
        )
    at, found = _deepest(text, path)
    if len(found) == len(path):
        if json.loads(_plain(text)[found[-1].value : found[-1].end]) == value:
            return text
        changed = _replaced(text, found[-1], value)
    else:
        name, *rest = path[len(found) :]
        changed = _inserted(text, at, name, _nested(rest, value))
    return _checked(text, changed, lambda data: _assign(data, path, value))


def remove(text: str, path: Sequence[str]) -> str:
    """The text without this path, and without the object around it where that has nothing else in it."""
    changed = _removed(text, path)
    *around, _ = path
    if around and changed != text and _at(changed, around) == {}:
        without = _removed(changed, around)
        return without if _comments(without) == _comments(changed) else changed
    return changed


def _plain(text: str) -> str:
    """The text as plain JSON of the same length."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0][0] == '"' else re.sub(r"[^\r\n]", " ", match[0])

    def last_comma(match: re.Match[str]) -> str:
        before = match.start() - 1
        while before >= 0 and bare[before].isspace():
            before -= 1
        return (
            " "
            if match[0] == "," and before >= 0 and bare[before] not in "{[,:"
            else match[0]
        )

    bare = _STRINGS_AND_COMMENTS.sub(
        blank, text.replace("\ufeff", " ", 1) if text[:1] == "\ufeff" else text
    )
    return _STRINGS_AND_LAST_COMMAS.sub(last_comma, bare)


def _parse(plain: str) -> dict[str, Any]:
    def constant(name: str) -> NoReturn:
        raise Unparsed(_line(plain, plain.index(name)), f"{name} is not JSON")

    try:
        data = json.loads(plain, parse_constant=constant)
    except json.JSONDecodeError as error:
        raise Unparsed(error.lineno, error.msg) from error
    except RecursionError as error:
        raise Unparsed(1, "nested too deeply") from error
    if not isinstance(data, dict):
        raise Unparsed(
            _line(plain, _space(plain, 0)), "there should be an object here: { }"
        )
    return data


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _space(plain: str, at: int) -> int:
    match = _SPACE.match(plain, at)
    return match.end() if match else at


def _members(plain: str, at: int) -> Iterator[_Member]:
    """The members of the object that opens here; the values are skipped by Python's own parser."""
    decoder = json.JSONDecoder()
    at = _space(plain, at + 1)
    while plain[at] != "}":
        start = at
        key, at = decoder.raw_decode(plain, at)
        value = _space(plain, _space(plain, at) + 1)
        _, end = decoder.raw_decode(plain, value)
        at = _space(plain, end)
        comma = at if plain[at] == "," else -1
        yield _Member(key, start, value, end, comma)
        at = _space(plain, at + 1) if comma >= 0 else at


def _deepest(text: str, path: Sequence[str]) -> tuple[int, list[_Member]]:
    """Where the last object on the way opens, and the members that lead to it or, all of them, to the value.

    The last of several members of one name counts, as it does for every reader of JSON.
    """
    plain = _plain(text)
    _parse(plain)
    at, found = _space(plain, 0), list[_Member]()
    for key in path:
        if plain[at] != "{":
            raise Unparsed(
                _line(plain, at), f'"{found[-1].key}" should be an object: {{ }}'
            )
        named = [member for member in _members(plain, at) if member.key == key]
        if not named:
            break
        found.append(named[-1])
        if len(found) < len(path):
            at = named[-1].value
    return at, found


def _inserted(text: str, at: int, key: str, value: object) -> str:
    """With a new last member in the object that opens at `at`."""
    plain = _plain(text)
    members = list(_members(plain, at))
    close = _space(plain, members[-1].end if members else at + 1)
    last_comma = _last_comma(text, plain, members[-1]) if members else -1
    place = _after(text, max(members[-1].end, last_comma + 1) if members else at + 1)
    inline = bool(members) and "\n" not in text[at:close]
    indent = _line_indent(text, members[-1].start if members else at)
    inner = indent if members else indent + _unit(text)
    written = f"{json.dumps(key, ensure_ascii=False)}: {_dumped(value, text, None if inline else inner)}"
    new = f" {written}" if inline else f"{_newline(text)}{inner}{written}"
    if last_comma >= 0:
        new += ","
    elif members:
        text, place = f"{text[: members[-1].end]},{text[members[-1].end :]}", place + 1
    elif not text[place:].lstrip(" \t").startswith(("\n", "\r")):
        new += f"{_newline(text)}{indent}"
    return text[:place] + new + text[place:]


def _replaced(text: str, member: _Member, value: object) -> str:
    first_on_line = not text[
        text.rfind("\n", 0, member.start) + 1 : member.start
    ].strip()
    indent = _line_indent(text, member.start) if first_on_line else None
    return text[: member.value] + _dumped(value, text, indent) + text[member.end :]


def _removed(text: str, path: Sequence[str]) -> str:
    at, found = _deepest(text, path)
    if len(found) < len(path):
        return text
    plain, gone = _plain(text), found[-1]
    members = list(_members(plain, at))
    place = members.index(gone)
    comma = gone.comma if gone.comma >= 0 else _last_comma(text, plain, gone)
    end = max(gone.end, comma + 1)
    before = members[place - 1].comma if place and comma < 0 else -1
    start = len(text[: gone.start].rstrip())
    if _ends_in_line_comment(text[:start]) and not re.match(r"[ \t]*\r?\n", text[end:]):
        start = gone.start  # such a comment must keep the end of its line
    kept = text[:start] if before < 0 else text[:before] + text[before + 1 : start]
    rest = text[end:]
    if len(members) == 1 and kept.endswith("{"):
        rest = re.sub(r"^\s+(?=\})", "", rest)
    return _checked(text, kept + rest, lambda data: _unassign(data, path))


def _ends_in_line_comment(text: str) -> bool:
    comments = _comments(text)
    return (
        bool(comments) and comments[-1].startswith("//") and text.endswith(comments[-1])
    )


def _comments(text: str) -> list[str]:
    return [
        found[0] for found in _STRINGS_AND_COMMENTS.finditer(text) if found[0][0] == "/"
    ]


def _at(text: str, path: Sequence[str]) -> object:
    value: Any = read(text)
    for key in path:
        value = value[key]
    return value


def _last_comma(text: str, plain: str, member: _Member) -> int:
    """Where the comma after a last member stands, or -1; `plain` has a space there."""
    closing = _space(plain, member.end)
    outside = _STRINGS_AND_COMMENTS.sub(
        lambda found: " " * len(found[0]), text[member.end : closing]
    )
    comma = outside.find(",")
    return member.end + comma if comma >= 0 else -1


def _after(text: str, at: int) -> int:
    """Past the comments that follow on the same line."""
    match = _REST_OF_LINE.match(text, at)
    return match.end() if match else at


def _line_indent(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    match = _INDENT.search(text)
    return match[1] if match else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _dumped(value: object, text: str, indent: str | None) -> str:
    """A value as text: on one line, or with its lines set in as those around it."""
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, indent=_unit(text), ensure_ascii=False).split("\n")
    return f"{_newline(text)}{indent}".join(lines)


def _nested(path: Sequence[str], value: object) -> object:
    for key in reversed(path):
        value = {key: value}
    return value


def _assign(data: dict[str, Any], path: Sequence[str], value: object) -> None:
    for key in path[:-1]:
        data = data.setdefault(key, {})
    data[path[-1]] = value


def _unassign(data: dict[str, Any], path: Sequence[str]) -> None:
    for key in path[:-1]:
        data = data[key]
    del data[path[-1]]


def _checked(before: str, after: str, change: Callable[[dict[str, Any]], None]) -> str:
    """The new text, if it says what the old one said with this change, and nothing else."""
    expected = read(before)
    change(expected)
    if read(after) != expected:
        raise Unparsed(1, "the change would harm what is there; please make it by hand")
    return after
