"""`tamis install`: the command line's way into the configuration of agents."""

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pathlib import Path

    from tamis.clients.install import Found, Step
    from tamis.clients.table import Client, Machine


# As in `tamis.clients.table`, which `tamis --help` need not load.
NAMES = ("claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini", "zed")
_DONE = {
    "added": "added",
    "updated": "updated",
    "unchanged": "nothing to do",
    "removed": "removed",
    "absent": "nothing to remove",
}
_WOULD = _DONE | {
    "added": "would add",
    "updated": "would update",
    "removed": "would remove",
}


@click.command()
@click.argument("client", type=click.Choice(NAMES), required=False)
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="Only list each client's files, and where tamis is in.",
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="ROOT",
    help="The folder to search; repeatable. Else this folder, unless it is a home or /.",
)
@click.option(
    "--scope",
    type=click.Choice(["project", "user"]),
    help="For this folder alone, or for all you do (default: project, where the client knows projects).",
)
@click.option(
    "--name",
    default="tamis",
    metavar="NAME",
    help="The name of the entry (default: tamis).",
)
@click.option(
    "--skill",
    is_flag=True,
    help="Write a skill too, which tells agents when and how to search.",
)
@click.option(
    "--remove",
    is_flag=True,
    help="Take the entry out again; with --skill, the skill too.",
)
@click.option(
    "--dry-run", is_flag=True, help="Write nothing; print the file and the entry."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def install(
    client: str | None, *, listing: bool, name: str, as_json: bool, **options: Any
) -> int:
    """Make tamis a server of CLIENT, an agent: one that can then search ROOT by itself.

    Writes the entry that starts `tamis mcp` into the client's own configuration file. Everything else in that
    file stays as it is, comments too, and a backup is made beside it. Without CLIENT, lists what is there.
    """
    import os
    from pathlib import Path

    from tamis.clients.install import carry_out, checked_name, look
    from tamis.clients.table import CLIENTS, Machine

    machine, project = Machine(Path.home(), sys.platform, os.environ), Path.cwd()
    if client is None or listing:
        _print_found(look(machine, project, checked_name(name)), as_json=as_json)
        return 0
    chosen = CLIENTS[client]
    steps = _plan(chosen, machine, project, checked_name(name), options)
    saved = [None if options["dry_run"] else carry_out(step) for step in steps]
    if as_json:
        _print_json(_report(chosen, steps, saved, dry_run=options["dry_run"]))
    else:
        _print(_lines(chosen, name, steps, saved, dry_run=options["dry_run"]))
    return 0


def _plan(
    client: "Client",
    machine: "Machine",
    project: "Path",
    name: str,
    options: dict[str, Any],
) -> "list[Step]":
    from tamis.clients.install import (
        Server,
        checked_scope,
        installed,
        removed,
        running_command,
        skill,
    )
    from tamis.errors import UsageError
    from tamis.live.folders import chosen_roots, holds_a_home

    scope = checked_scope(client, options["scope"])
    if scope == "project" and holds_a_home(project.resolve()):
        raise UsageError(
            f"{project} is no project",
            hint="go to the project's folder, or say --scope user",
        )
    file = client.file(scope, machine, project)
    if options["remove"]:
        steps = [removed(client, file, name)]
    else:
        command = running_command(sys.argv[0], sys.executable)
        steps = [
            installed(
                client, file, Server(name, command, chosen_roots(options["roots"]))
            )
        ]
    if options["skill"]:
        steps.append(
            skill(
                client,
                client.skill_file(scope, machine, project),
                remove=options["remove"],
            )
        )
    return steps


def _report(
    client: "Client",
    steps: "Sequence[Step]",
    saved: "Sequence[Path | None]",
    *,
    dry_run: bool,
) -> dict[str, Any]:
    return {
        "client": client.name,
        "dry_run": dry_run,
        "files": [
            {
                "kind": step.kind,
                "action": step.action,
                "path": str(step.change.path),
                "backup": str(backup) if backup else None,
                "entry": step.entry,
            }
            for step, backup in zip(steps, saved, strict=True)
        ],
        "next": client.next,
    }


def _lines(
    client: "Client",
    name: str,
    steps: "Sequence[Step]",
    saved: "Sequence[Path | None]",
    *,
    dry_run: bool,
) -> Iterator[str]:
    from tamis.clients.install import as_text

    for step, backup in zip(steps, saved, strict=True):
        what = f"the server {name}" if step.kind == "server" else "the skill"
        yield f"{client.title}: {(_WOULD if dry_run else _DONE)[step.action]}: {what}, {step.change.path}"
        if step.entry is not None:
            yield as_text(client, name, step.entry)
        if backup:
            yield f"as it was: {backup}"
    if not dry_run and any(step.action in ("added", "updated") for step in steps):
        yield f"next: {client.next}"


def _print_found(found: "Sequence[Found]", *, as_json: bool) -> None:
    if as_json:
        _print_json(
            [
                {
                    "client": each.client.name,
                    "scope": each.scope,
                    "path": str(each.path),
                    "state": each.state,
                    "detail": each.detail,
                }
                for each in found
            ]
        )
        return
    widest = max(len(each.client.name) for each in found)
    _print(
        f"{each.client.name:{widest}}  {each.scope:7}  {each.state:13}  {each.path}"
        + (f"\n{'':{widest + 26}}{each.detail}" if each.detail else "")
        for each in found
    )


def _print(lines: Iterator[str]) -> None:
    from tamis.text.printable import visible

    for line in chain.from_iterable(map(str.splitlines, lines)):
        click.echo(visible(line))


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2))
