"""`tamis search`."""

import shlex
import threading
from typing import TYPE_CHECKING, Any, Final

import click

from tamis.cli.options import (
    json_option,
    print_json,
    print_lines,
    quiet_option,
    root_argument,
    search_options,
    shared_options,
    with_all_files,
    yes_option,
)
from tamis.request import ARGUMENTS, SearchRequest

if TYPE_CHECKING:
    from tamis.corpus import Corpus
    from tamis.index.plan import Changes
    from tamis.model import Found


_PATIENCE: Final = (
    2.0  # seconds that an answer waits for the look at the files: some 100,000 of them
)
_LOOKED_UP: Final = 20  # files to leave out whose names are checked


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
    found = with_all_files(
        root, options, quiet, lambda corpus: _answer(corpus, root, request)
    )
    if as_json:
        print_json(found.to_dict())
    else:
        print_lines(answer(found, explain=request.explain))
    return 0 if found.results else 1


def _answer(corpus: "Corpus", root: str, request: SearchRequest) -> "Found":
    """The answer, with a word on names that may be misspelt, and on files that the index does not know as
    they are; others keep it up to date where it is on a server."""
    from dataclasses import replace

    from tamis.model import Hint

    look = None
    if corpus.exists() and corpus.capabilities.updated_by_search:
        look = _Look(corpus)
    found = corpus.answer(request)
    nameless = corpus.nameless(request.excluded_files[:_LOOKED_UP])
    hints = [f"no document goes by {name}: that excludes nothing" for name in nameless]
    if (
        look is not None and not found.index.pending_files
    ):  # these are among the files that wait
        hints += look.told(root)
    return replace(found, hints=(*found.hints, *map(Hint, hints)))


class _Look:
    """A look at the files, beside the search."""

    def __init__(self, corpus: "Corpus") -> None:
        self._corpus = corpus
        self._seen: Changes | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        from tamis.errors import TamisError

        try:
            self._seen = self._corpus.changes()
        except (TamisError, OSError):
            return  # then it was not looked at; what is wrong with the index, the search says

    def told(self, root: str) -> list[str]:
        """What was seen; nothing when the index is up to date."""
        self._thread.join(_PATIENCE)
        if self._seen is None:
            return [
                f"whether files have changed was not looked at (run: tamis status {shlex.quote(root)})"
            ]
        said = []
        if count := self._seen.sure:
            files = "1 file is" if count == 1 else f"{count} files are"
            said.append(f"{files} new, changed or gone since the index was made")
        if count := self._seen.touched:
            files = "1 file" if count == 1 else f"{count} files"
            said.append(f"{files} may have changed since the index was made")
        if count := self._seen.outdated:
            files = "1 file was" if count == 1 else f"{count} files were"
            said.append(f"{files} indexed by other settings or another version")
        return (
            [f"{'; '.join(said)} (run: tamis index {shlex.quote(root)})"]
            if said
            else []
        )
