"""`tamis install`: put tamis into the configuration of an agent."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from tamis.cli.terminal import json_option, print_json
from tamis.clients.table import CLIENTS
from tamis.text.printable import visible

if TYPE_CHECKING:
    from pathlib import Path

    from tamis.clients.install import Found, Step
    from tamis.clients.table import Client, Machine

    # Steps, each with the backup that it made.
    Done = Sequence[tuple[Step, Path | None]]


_DONE = {
    "added": "added",
    "updated": "updated",
    "unchanged": "nothing to do",
    "removed": "removed",
    "absent": "nothing to remove",
    "manual": "to be done by hand",
}
_PLANNED = _DONE | {
    "added": "would add",
    "updated": "would update",
    "removed": "would remove",
}


@click.command()
@click.argument("client", type=click.Choice(tuple(CLIENTS)), required=False)
@click.option(
    "--list",
    "listing",
    is_flag=True,
    help="Only list each client's files, and which of them have tamis in them.",
)
@click.option(
    "--root",
    "roots",
    multiple=True,
    metavar="ROOT",
    help="The folder to search; repeatable (default: this one, unless it is a home or /).",
)
@click.option(
    "--scope",
    type=click.Choice(["project", "user"]),
    help="For this folder or for all of them (default: project, if the client has projects).",
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
    help="Also write a skill, which tells agents when and how to search.",
)
@click.option(
    "--remove",
    is_flag=True,
    help="Remove the entry; with --skill, the skill too.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Write nothing; print the file and the entry.",
)
@json_option
def install(
    client: str | None,
    *,
    listing: bool,
    name: str,
    as_json: bool,
    **options: Any,
) -> int:
    """Let CLIENT, an agent, search ROOT with tamis as its MCP server.

    Writes the entry that starts `tamis mcp` into the client's own configuration file, after
    making a backup beside it. Everything else in the file stays. A JSON file with comments is not
    changed: its entry is printed, to be pasted (exit code 1). Without CLIENT, lists all files.
    """
    import os
    from pathlib import Path

    from tamis.clients.install import carry_out, checked_name, look
    from tamis.clients.table import Machine

    machine = Machine(Path.home(), sys.platform, os.environ)
    project = Path.cwd()
    checked_name(name)
    if client is None or listing:
        _print_found(list(look(machine, project, name)), as_json=as_json)
        return 0
    chosen = CLIENTS[client]
    steps = _plan(chosen, machine, project, name, options)
    dry_run = options["dry_run"]
    done = [(step, None if dry_run else carry_out(step)) for step in steps]
    if as_json:
        _print_json(chosen, done, dry_run=dry_run)
    else:
        _print_steps(chosen, name, done, dry_run=dry_run)
    return int(any(step.action == "manual" for step in steps))


def _plan(
    client: "Client",
    machine: "Machine",
    project: "Path",
    name: str,
    options: dict[str, Any],
) -> "list[Step]":
    """Plan all steps before the first is carried out, so that a fault changes nothing."""
    from tamis.clients.install import (
        checked_scope,
        plan_install,
        plan_removal,
        plan_skill,
        running_command,
        server_entry,
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
        steps = [plan_removal(client, file, name)]
    else:
        command = running_command(sys.argv[0], sys.executable)
        entry = server_entry(client, command, chosen_roots(options["roots"]))
        steps = [plan_install(client, file, name, entry)]
    if options["skill"]:
        skill = client.skill_file(scope, machine, project)
        steps.append(plan_skill(client, skill, remove=options["remove"]))
    return steps


def _print_json(
    client: "Client",
    done: "Done",
    *,
    dry_run: bool,
) -> None:
    files = []
    for step, backup in done:
        file = {"kind": step.kind, "action": step.action, "path": str(step.path)}
        saved = str(backup) if backup else None
        files.append({**file, "backup": saved, "entry": step.entry})
    report = {
        "client": client.name,
        "dry_run": dry_run,
        "files": files,
        "next": client.next,
    }
    print_json(report)


def _print_steps(
    client: "Client",
    name: str,
    done: "Done",
    *,
    dry_run: bool,
) -> None:
    from pathlib import Path

    from tamis.clients.install import edit_entry

    words = _PLANNED if dry_run else _DONE
    for step, backup in done:
        what = f"the server {name}"
        if step.kind == "skill":
            what = "the skill"
        _print(f"{client.title}: {words[step.action]}: {what}, {step.path}")
        if step.action == "manual":
            _print("not changed: its comments or its layout would be lost;")
            if step.entry is None:
                _print(f"remove {name} from {client.group} there")
            else:
                _print(f"put this into it, {name} into {client.group} if it has that:")
        if step.entry is not None:
            file = Path(client.user)
            _print(edit_entry(file, "", client.group, name, step.entry) or "")
        if backup:
            _print(f"as it was: {backup}")
    if not dry_run and any(step.action in ("added", "updated") for step, _ in done):
        _print(f"next: {client.next}")


def _print_found(found: "Sequence[Found]", *, as_json: bool) -> None:
    if as_json:
        rows = []
        for each in found:
            row = {"client": each.client.name, "scope": each.scope}
            row |= {"path": str(each.path), "state": each.state, "detail": each.detail}
            rows.append(row)
        print_json(rows)
        return
    widest = max(len(each.client.name) for each in found)
    for each in found:
        client = f"{each.client.name:{widest}}"
        _print(f"{client}  {each.scope:7}  {each.state:13}  {each.path}")
        if each.detail:
            _print(f"{'':{widest + 26}}{each.detail}")


def _print(text: str) -> None:
    for line in text.splitlines():
        click.echo(visible(line))
