"""`tamis init` and `explain-ignore`: the ignore file, and what the rules say of a path."""

from collections.abc import Sequence

import click

from tamis.doors.commands.opening import settings_of
from tamis.doors.commands.options import FOLDER, json_option, root_argument
from tamis.doors.commands.output import print_json


@click.command()
@root_argument
@click.option("--for", "kind", default="general", metavar="KIND", help="general, react, python, go or rust.")
@click.option("--force", is_flag=True, help="Replace the file that is there.")
@click.option("--config", metavar="FILE", help="Read this instead of the root's tamis.toml.")
def init(root: str, *, kind: str, force: bool, config: str | None) -> int:
    """Write an ignore file (.graphragignore) to start from into ROOT."""
    from tamis.doors.plain import visible
    from tamis.ingest.template import KINDS, write_template
    from tamis.ingest.walk import checked_root

    if kind not in KINDS:
        raise click.BadParameter(f"{kind!r} is not one of {', '.join(KINDS)}.", param_hint="--for")
    name = settings_of(root, {"config": config}).ignore.file
    click.echo(visible(f"wrote {write_template(checked_root(root), kind, name, replace=force)}"))
    return 0


@click.command("explain-ignore")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--root", default=".", type=FOLDER, help="The folder that is indexed (default: this one).")
@click.option("--config", metavar="FILE", help="Read this instead of the root's tamis.toml.")
@json_option
def explain_ignore(paths: Sequence[str], root: str, *, config: str | None, as_json: bool) -> int:
    """Say for each PATH whether it is ignored or archived, and which rule of which file decided."""
    from tamis.doors.plain import visible
    from tamis.ingest.walk import checked_root
    from tamis.plan import rules_of
    from tamis.survey import explain_paths

    settings, folder = settings_of(root, {"config": config}), checked_root(root)
    for warning in rules_of(folder, settings).warnings:
        click.echo(visible(f"warning: {warning}"), err=True)
    verdicts = explain_paths(folder, settings, paths)
    if as_json:
        print_json(verdicts)
        return 0
    for verdict in verdicts:
        state = "ignored" if verdict["ignored"] else "archived" if verdict["archived"] else "indexed"
        place = f"{verdict['source']}:{verdict['line']}" if verdict["line"] else verdict["source"]
        rule = f"  by {verdict['rule']} ({place})" if verdict["rule"] else ""
        if verdict["rule"] and not verdict["source"]:  # no file's rule: it lies outside the root
            state, rule = verdict["rule"], ""
        click.echo(visible(f"{verdict['path']}: {state}{rule}"))
    return 0
