"""What `tamis install` does to a client's files: planned as values first, so that a dry run is the same plan.

An entry is ours when its command is tamis and its first argument `mcp`. Of an entry that is ours, the command
and its arguments are written; whatever else stands in it stays. One that is not ours is never touched.
"""

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal

from tamis.clients import Unparsed, jsonc, toml
from tamis.clients.files import Change, apply, read_text
from tamis.clients.table import CLIENTS, Client, Machine, Scope
from tamis.errors import BadClientFile, UsageError

Action = Literal["added", "updated", "unchanged", "removed", "absent"]
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what every client takes


@dataclass(frozen=True, slots=True)
class Server:
    """How a client starts us."""

    name: str
    command: tuple[str, ...]  # the program, and what comes before `mcp`
    roots: tuple[Path, ...]

    def entry(self, client: Client) -> dict[str, Any]:
        program, *before = self.command
        where = [word for root in self.roots for word in ("--root", str(root))]
        return dict(client.extra) | {
            "command": program,
            "args": [*before, "mcp", *where],
        }


@dataclass(frozen=True, slots=True)
class Step:
    """One file, what happens to our part of it, and what we write there."""

    kind: Literal["server", "skill"]
    action: Action
    change: Change
    entry: Mapping[str, Any] | None = (
        None  # without what a user added to it, which may be a secret
    )


@dataclass(frozen=True, slots=True)
class Found:
    """A file that a client reads, and whether we are in it."""

    client: Client
    scope: Scope
    path: Path
    state: Literal[
        "installed", "not installed", "no file", "something else", "unreadable"
    ]
    detail: str = ""


def running_command(argument: str, python: str) -> tuple[str, ...]:
    """How to start the tamis that is running, from anywhere: clients have a PATH of their own.

    Links are not followed: what is behind ~/.local/bin/tamis may move with the next upgrade.
    """
    beside = os.path.join(os.path.dirname(python), "tamis")
    given = argument if os.sep in argument else shutil.which(argument) or ""
    for script in (beside, given if os.path.basename(given) == "tamis" else ""):
        if script and os.path.isfile(script) and os.access(script, os.X_OK):
            return (os.path.abspath(script),)
    return (os.path.abspath(python), "-m", "tamis")


def checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a server",
            hint="use letters, digits, - and _, at most 64 of them",
        )
    return name


def checked_scope(client: Client, scope: str | None) -> Scope:
    for each in client.scopes:
        if scope in (None, each):
            return each
    raise UsageError(
        f"{client.title} has no file for a project",
        hint="leave --scope out, or say --scope user",
    )


def installed(client: Client, path: Path, server: Server) -> Step:
    """With the server's entry, new or brought up to date."""
    before, entry = _entry(client, path, server.name)
    wanted = server.entry(client)
    if entry is not None and not _is_ours(entry):
        raise _not_ours(path, before, server.name)
    if entry is not None and all(
        entry.get(key) == value for key, value in wanted.items()
    ):
        return Step("server", "unchanged", Change(path, before, before), wanted)
    with _named(path):
        after = _put(
            path,
            before or "",
            (client.group, server.name),
            wanted,
            known=entry is not None,
        )
    action: Action = "added" if entry is None else "updated"
    return Step("server", action, Change(path, before, after), wanted)


def removed(client: Client, path: Path, name: str) -> Step:
    """Without our entry; a file that then says nothing goes too, unless it is a link to somewhere."""
    before, entry = _entry(client, path, name)
    if before is None or entry is None:
        return Step("server", "absent", Change(path, before, before))
    if not _is_ours(entry):
        raise _not_ours(path, before, name)
    place = (client.group, name)
    with _named(path):
        after = (
            toml.remove(before, *place)
            if _is_toml(path)
            else jsonc.remove(before, place)
        )
    empty = after.strip() in ("", "{}") and not path.is_symlink()
    return Step("server", "removed", Change(path, before, None if empty else after))


def skill(client: Client, path: Path | None, *, remove: bool) -> Step:
    """With our instructions for agents, or without."""
    if path is None:
        raise UsageError(
            f"{client.title} reads no skills from a folder",
            hint=f"add this file in its settings: {files('tamis.clients') / 'SKILL.md'}",
        )
    before = read_text(path)
    after = None if remove else skill_text()
    if before == after:
        return Step(
            "skill", "absent" if remove else "unchanged", Change(path, before, after)
        )
    if before is None:
        return Step("skill", "added", Change(path, before, after))
    return Step(
        "skill", "removed" if remove else "updated", Change(path, before, after)
    )


def skill_text() -> str:
    return (files("tamis.clients") / "SKILL.md").read_text("utf-8")


def carry_out(step: Step) -> Path | None:
    """Change the file; says where the backup is, if one was needed."""
    ours = step.kind == "skill" and step.change.before == skill_text()
    saved = apply(step.change, backup=not ours)
    if step.kind == "skill" and step.change.after is None:
        with suppress(OSError):  # the folder has something else in it, and stays
            step.change.path.parent.rmdir()
    return saved


def as_text(client: Client, name: str, entry: Mapping[str, Any]) -> str:
    """An entry as it would stand in a file of its own: what one would write by hand."""
    written = _put(Path(client.project), "", (client.group, name), entry, known=False)
    return written.removesuffix("\n")


def look(machine: Machine, project: Path, name: str) -> list[Found]:
    """Every client's files, and whether we are in them."""
    return [
        _look(client, scope, client.file(scope, machine, project), name)
        for client in CLIENTS.values()
        for scope in client.scopes
    ]


def _look(client: Client, scope: Scope, path: Path, name: str) -> Found:
    try:
        text, entry = _entry(client, path, name)
    except (BadClientFile, OSError) as error:
        return Found(client, scope, path, "unreadable", str(error))
    if text is None:
        return Found(client, scope, path, "no file")
    if entry is None:
        return Found(client, scope, path, "not installed")
    if not _is_ours(entry):
        return Found(
            client, scope, path, "something else", f"{name} is another server there"
        )
    return Found(
        client, scope, path, "installed", " ".join((entry["command"], *entry["args"]))
    )


def _entry(client: Client, path: Path, name: str) -> tuple[str | None, Any]:
    """What a file says, and what it says about the server of this name."""
    text = read_text(path)
    if text is None:
        return None, None
    with _named(path):
        data = toml.read(text) if _is_toml(path) else jsonc.read(text)
        servers = data.get(client.group, {})
        if not isinstance(servers, dict):
            raise Unparsed(
                _line_of(text, client.group),
                f"{client.group} should be a table of servers",
            )
    return text, servers.get(name)


def _put(
    path: Path,
    text: str,
    place: tuple[str, str],
    wanted: Mapping[str, Any],
    *,
    known: bool,
) -> str:
    if _is_toml(path):
        return toml.put(text, *place, wanted)
    if not known:
        return jsonc.put(text, place, wanted)
    for key, value in wanted.items():
        text = jsonc.put(text, (*place, key), value)
    return text


def _is_toml(path: Path) -> bool:
    return path.suffix == ".toml"


def _is_ours(entry: object) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("command"), str):
        return False
    args: object = entry.get("args")
    if not isinstance(args, list) or not all(isinstance(word, str) for word in args):
        return False
    return _starts_us(entry["command"], args)


def _starts_us(command: str, args: Sequence[str]) -> bool:
    plain = os.path.basename(command) == "tamis" and list(args[:1]) == ["mcp"]
    return plain or list(args[:3]) == ["-m", "tamis", "mcp"]


def _not_ours(path: Path, text: str | None, name: str) -> BadClientFile:
    return BadClientFile(
        path,
        _line_of(text or "", name),
        f"there is another server called {name}",
        hint="nothing was changed; choose another name with --name, or take that entry out",
    )


def _line_of(text: str, word: str) -> int:
    return next((at for at, line in enumerate(text.splitlines(), 1) if word in line), 1)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Faults of a text become faults of its file."""
    try:
        yield
    except Unparsed as error:
        raise BadClientFile(path, error.line, error.why) from error
