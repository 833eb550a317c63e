"""Plan and make the changes of `tamis install` in the configuration files of agents.

A change is planned as a `Step` first, so that a dry run prints the same plan. An entry is ours if
its command is tamis and its first argument is `mcp`. Only the command and its arguments are
written in such an entry; entries of other servers are never touched. Each file is edited with the
library of its format. A file that the library would not give back unharmed (JSON with comments,
TOML tables out of order) is left alone, and the user gets the entry to paste.
"""

import json
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, NoReturn

from tamis.clients.table import CLIENTS, Client, Machine, Scope
from tamis.errors import BadClientFile, StorageFault, UsageError

Action = Literal["added", "updated", "unchanged", "removed", "absent", "manual"]
State = Literal["installed", "not installed", "no file", "something else", "unreadable"]
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what every client accepts
_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENTS = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMAS = re.compile(rf"{_STRING}|(?<![{{\[,:]),(?=\s*[}}\]])", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Step:
    """A planned change: the text of one file before and after, None where there is no file."""

    action: Action
    path: Path
    before: str | None
    after: str | None
    # What we write, without what a user has added to it: that may be a secret.
    entry: Mapping[str, Any] | None = None
    kind: Literal["server", "skill"] = "server"


@dataclass(frozen=True, slots=True)
class Found:
    """A file that a client reads, and the state of our entry in it."""

    client: Client
    scope: Scope
    path: Path
    state: State
    detail: str = ""


def running_command(argument: str, python: str) -> tuple[str, ...]:
    """Return how to start the running tamis from anywhere: clients have their own PATH.

    Links are not followed: the target of ~/.local/bin/tamis may move with the next upgrade.
    """
    candidates = [os.path.join(os.path.dirname(python), "tamis")]
    given = argument
    if os.sep not in argument:
        given = shutil.which(argument) or ""
    if os.path.basename(given) == "tamis":
        candidates.append(given)
    for script in candidates:
        if os.path.isfile(script) and os.access(script, os.X_OK):
            return (os.path.abspath(script),)
    return (os.path.abspath(python), "-m", "tamis")


def server_entry(
    client: Client,
    command: Sequence[str],
    roots: Sequence[Path],
) -> dict[str, Any]:
    """Return the entry with which a client starts us."""
    program, *args = command
    args.append("mcp")
    for root in roots:
        args += ["--root", str(root)]
    return dict(client.extra) | {"command": program, "args": args}


def checked_name(name: str) -> str:
    """Return the name of a server, if every client accepts it."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a server",
            hint="use letters, digits, - and _, at most 64 of them",
        )
    return name


def checked_scope(client: Client, scope: str | None) -> Scope:
    """Return the scope, or the client's default for None."""
    for each in client.scopes:
        if scope in (None, each):
            return each
    raise UsageError(
        f"{client.title} has no file for a project",
        hint="leave --scope out, or say --scope user",
    )


def plan_install(
    client: Client,
    path: Path,
    name: str,
    wanted: Mapping[str, Any],
) -> Step:
    """Plan to add the entry of a server, or to bring it up to date."""
    before, entry = _read_entry(client, path, name)
    action: Action = "added"
    if entry is not None:
        _require_ours(path, before, name, entry)
        if entry | wanted == entry:
            return Step("unchanged", path, before, before, wanted)
        action = "updated"
    after = edit_entry(path, before or "", client.group, name, wanted)
    if after is None:
        return Step("manual", path, before, before, wanted)
    return Step(action, path, before, after, wanted)


def plan_removal(client: Client, path: Path, name: str) -> Step:
    """Plan to remove our entry, and the file if nothing else is in it and it is no link."""
    before, entry = _read_entry(client, path, name)
    if before is None or entry is None:
        return Step("absent", path, before, before)
    _require_ours(path, before, name, entry)
    after = edit_entry(path, before, client.group, name, None)
    if after is None:
        return Step("manual", path, before, before)
    if after.strip() in ("", "{}") and not path.is_symlink():
        after = None
    return Step("removed", path, before, after)


def plan_skill(
    client: Client,
    path: Path | None,
    *,
    remove: bool,
) -> Step:
    """Plan to write our instructions for agents, or to remove them."""
    if path is None:
        raise UsageError(
            f"{client.title} reads no skills from a folder",
            hint=f"add this file in its settings: {files('tamis.clients') / 'SKILL.md'}",
        )
    before = _read_text(path)
    after = None
    action: Action = "removed"
    if not remove:
        after = skill_text()
        action = "updated"
    if before is None:
        action = "added"
    if before == after:
        action = "absent" if remove else "unchanged"
    return Step(action, path, before, after, kind="skill")


def skill_text() -> str:
    """Return our instructions for agents."""
    return (files("tamis.clients") / "SKILL.md").read_text("utf-8")


def look(machine: Machine, project: Path, name: str) -> Iterator[Found]:
    """Yield the files of all clients, each with the state of our entry."""
    for client in CLIENTS.values():
        for scope in client.scopes:
            path = client.file(scope, machine, project)
            state: State = "installed"
            detail = ""
            try:
                text, entry = _read_entry(client, path, name)
            except (BadClientFile, StorageFault) as error:
                state = "unreadable"
                detail = str(error)
            else:
                if text is None:
                    state = "no file"
                elif entry is None:
                    state = "not installed"
                elif _is_ours(entry):
                    detail = " ".join([entry["command"], *entry["args"]])
                else:
                    state = "something else"
                    detail = f"{name} is another server there"
            yield Found(client, scope, path, state, detail)


# --- entries ------------------------------------------------------------------------------------


def _read_entry(
    client: Client,
    path: Path,
    name: str,
) -> tuple[str | None, Any]:
    """Return the text of a file and the entry of this name, None where there is none."""
    text = _read_text(path)
    if text is None:
        return None, None
    servers = parse(path, text).get(client.group, {})
    if not isinstance(servers, dict):
        line = _line_of(text, client.group)
        raise BadClientFile(path, line, f"{client.group} should be a table of servers")
    return text, servers.get(name)


def _is_ours(entry: object) -> bool:
    match entry:
        case {"command": str(command), "args": ["mcp", *rest]}:
            if os.path.basename(command) != "tamis":
                return False
        case {"command": str(), "args": ["-m", "tamis", "mcp", *rest]}:
            pass
        case _:
            return False
    return all(isinstance(word, str) for word in rest)


def _require_ours(
    path: Path,
    text: str | None,
    name: str,
    entry: object,
) -> None:
    if _is_ours(entry):
        return
    raise BadClientFile(
        path,
        _line_of(text or "", name),
        f"there is another server called {name}",
        hint="nothing was changed; choose another name with --name, or remove that entry",
    )


def _line_of(text: str, word: str) -> int:
    before, found, _ = text.partition(word)
    if not found:
        return 1
    return before.count("\n") + 1


# --- formats ------------------------------------------------------------------------------------


def parse(path: Path, text: str) -> dict[str, Any]:
    """Return the data of a configuration file, in the format that its name says."""
    if path.suffix != ".toml":
        return _parse_json(path, text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        why, _, place = str(error).partition(" (at ")
        line = text.count("\n") + 1
        if number := re.match(r"line (\d+)", place):
            line = int(number[1])
        raise BadClientFile(path, line, why) from error


def _parse_json(path: Path, text: str) -> dict[str, Any]:
    """Read JSON, also with comments and with commas before a closing bracket."""
    plain = _without_comments(text)
    if not plain.strip():
        return {}

    def refuse(constant: str) -> NoReturn:
        line = _line_of(plain, constant)
        raise BadClientFile(path, line, f"{constant} is not JSON")

    try:
        data = json.loads(plain, parse_constant=refuse)
    except json.JSONDecodeError as error:
        raise BadClientFile(path, error.lineno, error.msg) from error
    except RecursionError as error:
        raise BadClientFile(path, 1, "nested too deeply") from error
    if not isinstance(data, dict):
        line = _line_of(plain, plain.strip())
        raise BadClientFile(path, line, "there should be an object here: { }")
    return data


def _without_comments(text: str) -> str:
    """Replace comments and last commas by spaces, so that the lines of errors stay right."""

    def blank(match: re.Match[str]) -> str:
        if match[0].startswith('"'):
            return match[0]
        return re.sub(r"[^\r\n]", " ", match[0])

    return _LAST_COMMAS.sub(blank, _COMMENTS.sub(blank, text))


def edit_entry(
    path: Path,
    text: str,
    group: str,
    name: str,
    wanted: Mapping[str, Any] | None,
) -> str | None:
    """Return the text with these values in an entry, or without the entry if `wanted` is None.

    The result is read again. It is None if it would not be the old data with this change alone:
    then the user has to make the change.
    """
    data = parse(path, text)
    servers = data.setdefault(group, {})
    if wanted is None:
        del servers[name]
    else:
        servers[name] = servers.get(name, {}) | wanted
    try:
        if path.suffix == ".toml":
            after = _edit_toml(text, group, name, wanted)
        else:
            after = _edit_json(text, group, data)
        after.encode()
        written = parse(path, after)
    except (ValueError, BadClientFile):
        return None
    written.setdefault(group, {})
    if written != data:
        return None
    return after


def _edit_json(
    text: str,
    group: str,
    data: dict[str, Any],
) -> str:
    """Write the data with the indentation and line ends of the text it comes from."""
    if _without_comments(text) != text:
        raise ValueError("the comments would be lost")
    indent: str | int | None = None
    if text.strip() in ("", "{}"):
        indent = 2
    else:
        json.loads(text, object_pairs_hook=_refuse_repeated)
    if indented := re.search(r"\n([ \t]+)\S", text):
        indent = indented[1]
    kept = {key: value for key, value in data.items() if key != group or value}
    dumped = json.dumps(kept, indent=indent, ensure_ascii=False, allow_nan=False)
    end = text[len(text.rstrip()) :]
    if not text.strip():
        end = "\n"
    return dumped.replace("\n", _newline(text)) + end


def _refuse_repeated(members: list[tuple[str, Any]]) -> None:
    """Refuse an object that has a key twice: writing it would lose one of them."""
    keys = [key for key, _ in members]
    if len(set(keys)) < len(keys):
        raise ValueError("a repeated key would be lost")


def _edit_toml(
    text: str,
    group: str,
    name: str,
    wanted: Mapping[str, Any] | None,
) -> str:
    import tomlkit
    from tomlkit.items import AbstractTable

    document = tomlkit.parse(text)
    if wanted is not None and name not in document.get(group, {}):
        # Appended as text: tomlkit may put it between a comment and the table it is about.
        table = tomlkit.dumps({group: {name: dict(wanted)}})
        gap = "\n"
        if not text:
            gap = ""
        elif not text.endswith("\n"):
            gap = "\n\n"
        return text + f"{gap}{table}".replace("\n", _newline(text))
    if document.as_string() != text:
        raise ValueError("tables would change places")
    servers = document[group]
    if not isinstance(servers, AbstractTable):
        raise ValueError("the tables of servers are not together")
    entry = servers[name]
    if wanted is not None:
        for key, value in wanted.items():
            if entry.get(key) != value:
                entry[key] = value
        return document.as_string()
    last_line = entry.as_string().rstrip().rpartition("\n")[2]
    if last_line.startswith("#"):
        raise ValueError("a comment about the next table would be lost")
    del servers[name]
    return document.as_string()


def _newline(text: str) -> str:
    if "\r\n" in text:
        return "\r\n"
    return "\n"


# --- files --------------------------------------------------------------------------------------


def _read_text(path: Path) -> str | None:
    """Return the text of a file with its own line ends, or None if there is no file."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise BadClientFile(path, line, "this is no UTF-8 text") from error
    except OSError as error:
        raise StorageFault(
            f"cannot read {path}: {error.strerror}",
            hint="check what it is, and its permissions",
        ) from error


def carry_out(step: Step) -> Path | None:
    """Change a file and return its backup, None if none was needed.

    A symbolic link is followed and stays: people keep such files in a repository.
    """
    if step.before == step.after:
        return None
    target = Path(os.path.realpath(step.path))
    backup = None
    try:
        if _read_text(target) != step.before:
            raise StorageFault(
                f"{target} was changed by another program meanwhile",
                hint="it was left as it is; quit the agent that writes it, and run this again",
            )
        is_our_skill = step.kind == "skill" and step.before == skill_text()
        if step.before is not None and not is_our_skill:
            backup = _back_up(target)
        if step.after is None:
            step.path.unlink()
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            _replace(target, step.after.encode(), like=target)
    except OSError as error:
        raise StorageFault(
            f"cannot write {target}: {error.strerror or error}",
            hint="the file is as it was; check the permissions of its folder, and the free space",
        ) from error
    if step.kind == "skill" and step.after is None:
        with suppress(OSError):  # the folder has other files in it, and stays
            step.path.parent.rmdir()
    return backup


def _back_up(target: Path) -> Path:
    """Copy a file beside itself. Earlier copies are kept; an equal one is not made again."""
    content = target.read_bytes()
    copy = target.with_name(f"{target.name}.tamis-backup")
    number = 1
    while copy.exists():
        if copy.read_bytes() == content:
            return copy
        number += 1
        copy = target.with_name(f"{target.name}.tamis-backup{number}")
    _replace(copy, content, like=target)
    return copy


def _replace(target: Path, content: bytes, like: Path) -> None:
    """Write aside and rename: a reader, or a crash, finds the old file or the new one.

    The new file gets the permissions of `like`, and its owner when root runs this (sudo).
    """
    handle, aside = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            # Permissions first: there is nothing yet that others might read.
            if like.exists():
                status = like.stat()
                if os.geteuid() == 0:
                    os.fchown(handle, status.st_uid, status.st_gid)
                os.fchmod(handle, status.st_mode & 0o7777)
            else:
                mask = os.umask(0)
                os.umask(mask)
                os.fchmod(handle, 0o666 & ~mask)
            file.write(content)
            file.flush()
            os.fsync(handle)
        os.replace(aside, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(aside)
        raise
