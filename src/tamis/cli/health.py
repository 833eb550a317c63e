"""`tamis status` and `doctor`: what an index holds, and whether it is what it should be."""

from typing import TYPE_CHECKING, Any

import click

from tamis.cli.options import (
    json_option,
    open_corpus,
    print_json,
    print_lines,
    quiet_option,
    root_argument,
    settings_of,
    shared_options,
)

if TYPE_CHECKING:
    from tamis.index.doctor.health import Health


@click.command()
@root_argument
@json_option
@shared_options
def status(root: str, *, as_json: bool, **options: Any) -> int:
    """Say what the index of ROOT holds, how fresh it is, and what was skipped."""
    from tamis.cli.render import status as lines
    from tamis.corpus import open_existing

    with open_existing(
        root, options["index_dir"], settings_of(root, options)
    ) as corpus:
        now = corpus.status()
    if as_json:
        print_json(now.to_dict())
    else:
        print_lines(lines(now))
    return 0


@click.command()
@root_argument
@click.option(
    "--repair", is_flag=True, help="Mend what can be mended; looks at everything first."
)
@click.option("--full", is_flag=True, help="Look at everything instead of a sample.")
@json_option
@quiet_option
@shared_options
def doctor(
    root: str, *, repair: bool, full: bool, as_json: bool, quiet: bool, **options: Any
) -> int:
    """Say whether the index of ROOT is what it should be; with --repair, mend it. Your files are only read.

    Looks at the folder, the database, checksums, counts, vectors, postings and the model, while others
    search and write. Exits with 0 when all is well, with 1 when there is something to look at or to
    repair, with 2 when there is a fault that --repair does not mend.
    """
    from tamis.cli.render import health as lines

    found = _examined(root, options, repair=repair, full=full, quiet=quiet)
    if as_json:
        print_json(found.to_dict())
    else:
        print_lines(lines(found, brief=quiet))
    return found.exit_code


def _examined(
    root: str, options: dict[str, Any], *, repair: bool, full: bool, quiet: bool
) -> "Health":
    from tamis.corpus import index_directory
    from tamis.errors import BadSetting, IndexMissing
    from tamis.index.doctor.health import check
    from tamis.ingest.walk import checked_root
    from tamis.models.embedders import load_embedder
    from tamis.settings import Settings

    try:
        with open_corpus(root, options, quiet=quiet) as corpus:
            if corpus.capabilities.examinable and not corpus.directory.exists():
                raise IndexMissing(corpus.root)
            return corpus.repair() if repair else corpus.check(full=full)
    except (
        BadSetting
    ) as error:  # as far as an index in its usual place can be looked at without them
        folder = checked_root(root)
        directory = index_directory(folder, Settings(), options["index_dir"])
        if not directory.exists():
            raise
        return check(folder, directory, error, load_embedder, full=full)
