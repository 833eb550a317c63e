"""`tamis index`, `rebuild-index`, `watch` and `migrate`: what writes an index."""

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tamis.cli.options import (
    asks,
    json_option,
    print_json,
    print_lines,
    quiet_option,
    root_argument,
    settings_of,
    shared_options,
    watching,
    with_all_files,
    yes_option,
)

if TYPE_CHECKING:
    from tamis.corpus import Corpus
    from tamis.model import Report
from collections.abc import Sequence

from tamis.cli.options import FOLDER


@click.command()
@root_argument
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only list what would be indexed and what skipped, with reasons.",
)
@yes_option
@json_option
@quiet_option
@shared_options
def index(
    root: str, *, dry_run: bool, as_json: bool, quiet: bool, **options: Any
) -> int:
    """Bring the index of ROOT up to date with its files.

    Exits with 1 when there is nothing to search afterwards or a file could not be read.
    """
    if dry_run:
        return _dry_run(root, options, as_json=as_json)
    return _build(
        root, options, lambda corpus: corpus.refresh(), as_json=as_json, quiet=quiet
    )


@click.command("rebuild-index")
@root_argument
@click.option(
    "--take-over",
    is_flag=True,
    help="With --engine: replace what another folder has under this name.",
)
@yes_option
@json_option
@quiet_option
@shared_options
def rebuild_index(
    root: str, *, as_json: bool, quiet: bool, take_over: bool, **options: Any
) -> int:
    """Make the index of ROOT anew: after damage, an upgrade, or with another --model.

    Searches see the old index until the new one is whole, unless the old one is damaged or of
    another format: that is replaced at once.
    """
    return _build(
        root,
        options,
        lambda corpus: corpus.rebuild(take_over=take_over),
        as_json=as_json,
        quiet=quiet,
    )


def _build(
    root: str,
    options: dict[str, Any],
    make: "Callable[[Corpus], Report]",
    *,
    as_json: bool,
    quiet: bool,
) -> int:
    from tamis.cli.render import report

    done = with_all_files(root, options, quiet, make)
    if as_json:
        print_json(done.to_dict())
    elif not quiet:
        print_lines(report(done))
    unreadable = done.skipped_by_reason.get("unreadable", 0)
    if not done.indexed + done.unchanged and not quiet:
        left = any(reason != "ignored" for reason in done.skipped_by_reason)
        why = (
            "every file was skipped, and tamis status says why"
            if left
            else "no text files were found"
        )
        click.echo(f"nothing to search: {why}", err=True)
    return 1 if unreadable or not done.indexed + done.unchanged else 0


def _dry_run(root: str, options: dict[str, Any], *, as_json: bool) -> int:
    from tamis.index.dry_run import dry_run
    from tamis.ingest.walk import checked_root
    from tamis.text.printable import visible

    settings = settings_of(root, options)
    indexed, skipped, warnings = dry_run(checked_root(root), settings)
    if as_json:
        reasons = [
            {"path": s.path, "reason": s.reason, "detail": s.detail} for s in skipped
        ]
        seen = {
            "seen": len(indexed) + len(skipped),
            "indexed": indexed,
            "skipped": reasons,
        }
        print_json(seen | {"warnings": list(warnings)})
    else:
        left_out = [
            f"skipped: {s.path}: {s.reason}" + (f", {s.detail}" if s.detail else "")
            for s in skipped
        ]
        print_lines(
            map(
                visible,
                (*indexed, *left_out, *(f"warning: {each}" for each in warnings)),
            )
        )
    return 0 if indexed else 1


@click.command()
@root_argument
@click.option(
    "--poll",
    is_flag=True,
    help="Look every watch.poll_ms: for network file systems and the like.",
)
@click.option(
    "--debounce",
    type=int,
    metavar="MS",
    help="Index after MS milliseconds of quiet (default 200).",
)
@yes_option
@click.option(
    "--json", "as_json", is_flag=True, help="Print a line of JSON for each event."
)
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@shared_options
def watch(
    root: str,
    *,
    poll: bool,
    debounce: int | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Keep the index of ROOT up to date while its files change, until Ctrl-C or SIGTERM (exit code 0).

    Exits with 1 when another process watches ROOT already. ROOT may go and come back meanwhile.
    """
    from pathlib import Path

    from tamis.cli.terminal import progress_for
    from tamis.cli.watch import Commentary, keep_watch
    from tamis.configuration import user_file
    from tamis.live.corpus import LiveCorpus
    from tamis.live.folders import chosen_roots

    (folder,) = chosen_roots((root,), "tamis watch ")
    if asks():  # before it begins: nobody sits at a watch to be asked
        with_all_files(
            str(folder),
            options,
            quiet,
            lambda corpus: corpus.exists() or corpus.count_files(),
        )
    flags = options | {"watch.poll": poll or None, "watch.debounce_ms": debounce}
    settings, config = settings_of(str(folder), flags), options["config"]
    commentary = Commentary(
        None if quiet else progress_for(sys.stderr.isatty()), as_json=as_json
    )
    place = Path(options["index_dir"]) if options["index_dir"] else None
    live = LiveCorpus(folder, settings, place, commentary, commentary.tell)
    also = (*([Path(config)] if config else []), user_file(os.environ))
    return keep_watch(live, commentary, lambda: settings_of(str(folder), flags), also)


@click.command()
@root_argument
@click.option(
    "--to", metavar="URL", help="Copy the index on this machine to this Qdrant server."
)
@click.option(
    "--from",
    "source",
    metavar="URL",
    help="Copy from this Qdrant server to this machine.",
)
@click.option(
    "--config", metavar="FILE", help="Read this instead of the root's tamis.toml."
)
@click.option(
    "--index-dir",
    metavar="DIR",
    help="Where the local index is kept (default: .tamis in ROOT).",
)
@json_option
@quiet_option
def migrate(
    root: str,
    *,
    to: str | None,
    source: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Copy the index of ROOT to a Qdrant server, or from one, without embedding anything again.

    What is there for ROOT is replaced when the copy is whole, and stays until then (docs/cluster.md).
    """
    from tamis.cli.render import report
    from tamis.corpus import index_directory
    from tamis.index.engines import migrate as copy
    from tamis.ingest.walk import checked_root

    if bool(to) == bool(source):
        raise click.UsageError("give either --to URL or --from URL")
    folder, settings = (
        checked_root(root),
        settings_of(root, options | {"engine": to or source}),
    )
    place = index_directory(folder, settings, options["index_dir"])
    with watching(quiet) as progress:
        done = copy(folder, place, settings, progress, to_server=bool(to))
    if as_json:
        print_json(done.to_dict())
    elif not quiet:
        print_lines(report(done))
    return 0


@click.command()
@root_argument
@click.option(
    "--for",
    "kind",
    default="general",
    metavar="KIND",
    help="general, react, python, go or rust.",
)
@click.option("--force", is_flag=True, help="Replace the file that is there.")
@click.option(
    "--config", metavar="FILE", help="Read this instead of the root's tamis.toml."
)
def init(root: str, *, kind: str, force: bool, config: str | None) -> int:
    """Write an ignore file (.graphragignore) to start from into ROOT."""
    from tamis.gitignore.template import KINDS, write_template
    from tamis.ingest.walk import checked_root
    from tamis.text.printable import visible

    if kind not in KINDS:
        raise click.BadParameter(
            f"{kind!r} is not one of {', '.join(KINDS)}.", param_hint="--for"
        )
    name = settings_of(root, {"config": config}).ignore.file
    click.echo(
        visible(
            f"wrote {write_template(checked_root(root), kind, name, replace=force)}"
        )
    )
    return 0


@click.command("explain-ignore")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--root",
    default=".",
    type=FOLDER,
    help="The folder that is indexed (default: this one).",
)
@click.option(
    "--config", metavar="FILE", help="Read this instead of the root's tamis.toml."
)
@json_option
def explain_ignore(
    paths: Sequence[str], root: str, *, config: str | None, as_json: bool
) -> int:
    """Say for each PATH whether it is ignored or archived, and which rule of which file decided."""
    from tamis.index.dry_run import explain_paths
    from tamis.index.plan import rules_of
    from tamis.ingest.walk import checked_root
    from tamis.text.printable import visible

    settings, folder = settings_of(root, {"config": config}), checked_root(root)
    for warning in rules_of(folder, settings).warnings:
        click.echo(visible(f"warning: {warning}"), err=True)
    verdicts = explain_paths(folder, settings, paths)
    if as_json:
        print_json(verdicts)
        return 0
    for verdict in verdicts:
        state = (
            "ignored"
            if verdict["ignored"]
            else "archived"
            if verdict["archived"]
            else "indexed"
        )
        place = (
            f"{verdict['source']}:{verdict['line']}"
            if verdict["line"]
            else verdict["source"]
        )
        rule = f"  by {verdict['rule']} ({place})" if verdict["rule"] else ""
        if (
            verdict["rule"] and not verdict["source"]
        ):  # no file's rule: it lies outside the root
            state, rule = verdict["rule"], ""
        click.echo(visible(f"{verdict['path']}: {state}{rule}"))
    return 0
