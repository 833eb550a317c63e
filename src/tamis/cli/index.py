"""Commands that make, inspect and repair an index, and those about its ignore rules."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tamis.cli.terminal import (
    FOLDER,
    Command,
    config_option,
    index_dir_option,
    json_option,
    open_corpus,
    print_json,
    print_lines,
    quiet_option,
    root_argument,
    settings_of,
    shared_options,
    show,
    watching,
    with_all_files,
    yes_option,
)
from tamis.text.printable import visible

if TYPE_CHECKING:
    from tamis.corpus import Corpus
    from tamis.index.doctor.checks import Health
    from tamis.index.protocol import Layout
    from tamis.model import Report


_LAYOUT = (
    click.option(
        "--shards",
        type=click.IntRange(1),
        metavar="N",
        help="With --engine: shards of a new collection (docs/cluster.md).",
    ),
    click.option(
        "--copies",
        type=click.IntRange(1),
        metavar="N",
        help="Copies of each shard of a new collection.",
    ),
    click.option(
        "--quantization",
        type=click.Choice(["none", "scalar", "binary"]),
        metavar="KIND",
        help="Vectors of a new collection: none (as they are), scalar (8 bits) or binary.",
    ),
    click.option(
        "--on-disk",
        is_flag=True,
        default=None,
        help="Keep vectors and text of a new collection on disk, not in memory.",
    ),
)


def layout_options(command: Command) -> Command:
    """Add the options for the way a server stores a new index."""
    for option in reversed(_LAYOUT):
        command = option(command)
    return command


def _layout(options: dict[str, Any]) -> "Layout | None":
    """Return the layout that the options name, if they name any."""
    from tamis.index.protocol import AS_USUAL, Layout

    names = ("shards", "copies", "quantization", "on_disk")
    layout = Layout(*(options[name] for name in names))
    return None if layout == AS_USUAL else layout


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
@layout_options
@shared_options
def index(
    root: str,
    *,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> int:
    """Bring the index of ROOT up to date with its files.

    Exits with 1 if there is nothing to search afterwards or a file could not be read.
    """
    if dry_run:
        return _dry_run(root, options, as_json=as_json)

    def refresh(corpus: "Corpus") -> "Report":
        return corpus.refresh()

    return _build(root, options, refresh, as_json=as_json, quiet=quiet)


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
@layout_options
@shared_options
def rebuild_index(
    root: str,
    *,
    as_json: bool,
    quiet: bool,
    take_over: bool,
    **options: Any,
) -> int:
    """Make the index of ROOT anew: after damage, an upgrade, or with another --model.

    Searches see the old index until the new one is whole, unless the old one is damaged or of
    another format: that is replaced at once.
    """

    def rebuild(corpus: "Corpus") -> "Report":
        return corpus.rebuild(take_over=take_over)

    return _build(root, options, rebuild, as_json=as_json, quiet=quiet)


def _build(
    root: str,
    options: dict[str, Any],
    make: "Callable[[Corpus], Report]",
    *,
    as_json: bool,
    quiet: bool,
) -> int:
    layout = _layout(options)

    def work(corpus: "Corpus") -> "Report":
        if layout:
            corpus.create(layout)
        return make(corpus)

    done = with_all_files(root, options, quiet, work)
    _print_report(done, as_json=as_json, quiet=quiet)
    is_empty = not done.indexed + done.unchanged
    if is_empty and not quiet:
        why = "no text files were found"
        if set(done.skipped_by_reason) - {"ignored"}:
            why = "every file was skipped (why: tamis index --dry-run)"
        click.echo(f"nothing to search: {why}", err=True)
    return int(is_empty or "unreadable" in done.skipped_by_reason)


def _print_report(done: "Report", *, as_json: bool, quiet: bool) -> None:
    from tamis.cli.render import report

    if as_json or not quiet:
        show(done, report(done), as_json=as_json)


def _dry_run(root: str, options: dict[str, Any], *, as_json: bool) -> int:
    from tamis.index.plan import dry_run
    from tamis.ingest.walk import checked_root

    settings = settings_of(root, options)
    indexed, skipped, warnings = dry_run(checked_root(root), settings)
    if as_json:
        planned = {
            "seen": len(indexed) + len(skipped),
            "indexed": indexed,
            "skipped": [item.to_dict() for item in skipped],
            "warnings": list(warnings),
        }
        print_json(planned)
    else:
        lines = list(indexed)
        for item in skipped:
            why = ", ".join(filter(None, (item.reason, item.detail)))
            lines.append(f"skipped: {item.path}: {why}")
        lines += [f"warning: {warning}" for warning in warnings]
        print_lines(map(visible, lines))
    return int(not indexed)


@click.command()
@root_argument
@click.option(
    "--to",
    metavar="URL",
    help="Copy the index on this machine to this Qdrant server.",
)
@click.option(
    "--from",
    "source",
    metavar="URL",
    help="Copy from this Qdrant server to this machine.",
)
@config_option
@index_dir_option
@layout_options
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

    An index of ROOT that is there stays until the copy is whole, and is then replaced
    (docs/cluster.md).
    """
    from tamis.corpus import index_directory
    from tamis.index.engines import migrate as copy
    from tamis.ingest.walk import checked_root

    if bool(to) == bool(source):
        raise click.UsageError("give either --to URL or --from URL")
    folder = checked_root(root)
    settings = settings_of(root, options | {"engine": to or source})
    place = index_directory(folder, settings, options["index_dir"])
    with watching(quiet) as progress:
        done = copy(
            folder,
            place,
            settings,
            progress,
            to_server=bool(to),
            layout=_layout(options),
        )
    _print_report(done, as_json=as_json, quiet=quiet)
    return 0


@click.command()
@root_argument
@json_option
@shared_options
def status(root: str, *, as_json: bool, **options: Any) -> int:
    """Say what the index of ROOT holds, how fresh it is, and what was skipped."""
    from tamis.cli.render import status as lines
    from tamis.corpus import open_existing

    settings = settings_of(root, options)
    with open_existing(root, options["index_dir"], settings) as corpus:
        now = corpus.status()
    show(now, lines(now), as_json=as_json)
    return 0


@click.command()
@root_argument
@click.option("--repair", is_flag=True, help="Repair damage; checks everything first.")
@click.option("--full", is_flag=True, help="Check everything instead of a sample.")
@json_option
@quiet_option
@shared_options
def doctor(root: str, *, as_json: bool, quiet: bool, **options: Any) -> int:
    """Check the index of ROOT; with --repair, repair it. Your files are only read.

    Checks the folder, the database, checksums, counts, vectors, postings and the model, while
    others search and write. Exits with 0 if all is well, with 1 if there is something to look at
    or to repair, with 2 if there is a fault that --repair does not mend.
    """
    from tamis.cli.render import health as lines

    found = _examine(root, options, quiet=quiet)
    show(found, lines(found, brief=quiet), as_json=as_json)
    return found.exit_code


def _examine(root: str, options: dict[str, Any], *, quiet: bool) -> "Health":
    from tamis.corpus import index_directory
    from tamis.errors import BadSetting, IndexMissing
    from tamis.index.doctor.checks import check
    from tamis.ingest.walk import checked_root
    from tamis.models.embedders import load_embedder
    from tamis.settings import Settings

    full = options["full"]
    try:
        with open_corpus(root, options, quiet=quiet) as corpus:
            if corpus.capabilities.examinable and not corpus.directory.exists():
                raise IndexMissing(corpus.root)
            if options["repair"]:
                return corpus.repair()
            return corpus.check(full=full)
    except BadSetting as error:
        # An index in its usual place can be checked without the settings.
        folder = checked_root(root)
        directory = index_directory(folder, Settings(), options["index_dir"])
        if not directory.exists():
            raise
        return check(folder, directory, error, load_embedder, full=full)


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
@config_option
def init(root: str, *, kind: str, force: bool, config: str | None) -> int:
    """Write an ignore file (.graphragignore) to start from into ROOT."""
    from tamis.gitignore.template import KINDS, write_template
    from tamis.ingest.walk import checked_root

    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise click.BadParameter(f"{kind!r} is not one of {known}.", param_hint="--for")
    name = settings_of(root, {"config": config}).ignore.file
    written = write_template(checked_root(root), kind, name, replace=force)
    click.echo(visible(f"wrote {written}"))
    return 0


@click.command("explain-ignore")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--root",
    default=".",
    type=FOLDER,
    help="The folder that is indexed (default: this one).",
)
@config_option
@json_option
def explain_ignore(
    paths: Sequence[str],
    root: str,
    *,
    config: str | None,
    as_json: bool,
) -> int:
    """Say whether each PATH is ignored or archived, and which rule of which file decided."""
    from tamis.index.plan import explain_paths, rules_of
    from tamis.ingest.walk import checked_root

    settings = settings_of(root, {"config": config})
    folder = checked_root(root)
    for warning in rules_of(folder, settings).warnings:
        click.echo(visible(f"warning: {warning}"), err=True)
    verdicts = explain_paths(folder, settings, paths)
    if as_json:
        print_json(verdicts)
    else:
        ignore_file = settings.ignore.file
        print_lines(
            visible(_explanation(verdict, folder, ignore_file)) for verdict in verdicts
        )
    return 0


def _explanation(verdict: dict[str, Any], root: Path, ignore_file: str) -> str:
    path = verdict["path"]
    rule = verdict["rule"]
    source = verdict["source"]
    if rule and not source:  # no rule of a file: the path is outside the root
        return f"{path}: {rule}"
    state = "not ignored"
    if verdict["ignored"]:
        state = "ignored"
    elif verdict["archived"]:
        state = "archived"
    if not rule:
        return f"{path}: {state}"
    decision = f"{path}: {state}  by {rule}"
    if verdict["line"]:
        return f"{decision} ({source}:{verdict['line']})"
    decision += " (built-in)"
    if not verdict["ignored"] or source != "defaults":
        return decision
    if rule == ".*":  # taken back as a whole, it would bring in every hidden file
        names = os.path.relpath(root / path, root).split(os.sep)
        hidden = [name for name in names if name.startswith(".") and name != ".."]
        rule = ", !".join(hidden)
    return f"{decision}; to take it back, write !{rule} into {ignore_file}"
