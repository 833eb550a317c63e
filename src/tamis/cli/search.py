"""`tamis search`."""

import shlex
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tamis.cli.terminal import (
    json_option,
    quiet_option,
    root_argument,
    search_options,
    shared_options,
    show,
    with_all_files,
    yes_option,
)
from tamis.request import ARGUMENTS, SearchRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tamis.corpus import Corpus
    from tamis.index.plan import Changes
    from tamis.model import Found


# Seconds that an answer waits for the look at the files: enough for some 100,000.
PATIENCE = 2.0
_LOOKED_UP = 20  # excluded files whose names are looked up


@click.command()
@click.argument("query")
@root_argument
@search_options(ARGUMENTS)
@click.option("--preset", metavar="P", help="fast, balanced or best (search.preset).")
@yes_option
@json_option
@quiet_option
@shared_options
def search(query: str, root: str, *, as_json: bool, quiet: bool, **options: Any) -> int:
    """Find passages for QUERY in ROOT (default: this folder); builds the index first when there is none.

    QUERY may hold filters: tamis search "retry policy path:docs/** -tag:draft".
    """
    from tamis.cli.render import answer

    given = {each.name: options.pop(each.name) for each in ARGUMENTS[1:]}
    request = SearchRequest(query, **given)
    if request.quick and not request.use_rrf:
        raise click.UsageError(
            "--quick asks no model, and --no-rrf the model alone: leave one out"
        )
    work = partial(_answer, root=root, request=request)
    found = with_all_files(root, options, quiet, work)
    show(found, answer(found, explain=request.explain), as_json=as_json)
    return 0 if found.results else 1


def _answer(corpus: "Corpus", root: str, request: SearchRequest) -> "Found":
    """Answer, with hints on names that no document has and on files that the index does not know yet.

    The program that writes an index on a server keeps it up to date.
    """
    from dataclasses import replace

    from tamis.errors import TamisError
    from tamis.model import Hint

    seen: list[Changes] = []

    def look() -> None:
        with suppress(TamisError, OSError):  # the search reports a broken index
            seen.append(corpus.changes())

    looking = None
    if corpus.exists() and corpus.capabilities.updated_by_search:
        looking = threading.Thread(target=look, daemon=True)
        looking.start()
    found = corpus.answer(request)
    facts = []
    if request.excluded_files:
        facts += _unknown(corpus, request.excluded_files[:_LOOKED_UP])
    # Pending files are among those that a look would find.
    if looking is not None and not found.index.pending_files:
        looking.join(PATIENCE)
        facts += _changes(seen, root)
    return replace(found, hints=(*found.hints, *map(Hint, facts)))


def _unknown(corpus: "Corpus", names: "Sequence[str]") -> list[str]:
    """Return a note for each name that no document has."""
    from tamis.query.language import atom

    notes = []
    with corpus.snapshot() as snapshot:
        for name in names:
            if not snapshot.documents(atom("file", (name,), corpus.names)):
                notes.append(f"no document is called {name}: it excludes nothing")
    return notes


def _changes(seen: "Sequence[Changes]", root: str) -> list[str]:
    """Return a note on files that differ from the index, or on a look that took too long."""
    folder = shlex.quote(root)
    if not seen:
        return [f"changed files were not checked in time (run: tamis status {folder})"]
    (changes,) = seen
    parts = []
    if count := changes.sure:
        files = "1 file is" if count == 1 else f"{count} files are"
        parts.append(f"{files} new, changed or gone since the index was made")
    if count := changes.touched:
        files = "1 file" if count == 1 else f"{count} files"
        parts.append(f"{files} may have changed since the index was made")
    if count := changes.outdated:
        files = "1 file was" if count == 1 else f"{count} files were"
        parts.append(f"{files} indexed by other settings or another version")
    if not parts:
        return []
    return [f"{'; '.join(parts)} (run: tamis index {folder})"]
