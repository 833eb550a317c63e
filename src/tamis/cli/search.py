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
    shared_options,
    with_all_files,
    yes_option,
)

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
@click.option(
    "-n", "--limit", type=int, metavar="N", help="At most N results (default 5)."
)
@click.option(
    "--exclude-file",
    multiple=True,
    metavar="F",
    help="Leave a file out: name or path; repeatable.",
)
@click.option(
    "--exclude",
    multiple=True,
    metavar="P",
    help="Leave out what a gitignore pattern matches; repeatable.",
)
@click.option(
    "--include",
    multiple=True,
    metavar="P",
    help="Only what a gitignore pattern matches, archived too.",
)
@click.option(
    "--workspace", metavar="W", help="Only the folders of a configured workspace."
)
@click.option(
    "--under",
    multiple=True,
    metavar="D",
    help="Only below this folder; several are alternatives.",
)
@click.option(
    "--tag",
    multiple=True,
    metavar="T",
    help="Only documents with this tag; several must all be there.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="T",
    help="Only chunks of this type; several are alternatives.",
)
@click.option(
    "--lang",
    multiple=True,
    metavar="L",
    help="Only this language; several are alternatives.",
)
@click.option("--author", metavar="A", help="Only documents by this author.")
@click.option("--category", metavar="C", help="Only documents of this category.")
@click.option(
    "--after",
    metavar="D",
    help="Modified on this day or later (2026-05-01, 2026-05, 2026).",
)
@click.option("--before", metavar="D", help="Modified on this day or earlier.")
@click.option("--archived", is_flag=True, help="Show archived documents too.")
@click.option(
    "--min-score",
    type=float,
    metavar="S",
    help="Only results scored S or more (0 to 1).",
)
@click.option("--unique", is_flag=True, help="One passage per document.")
@click.option(
    "--parents/--no-parents",
    default=None,
    help="Show the sections around what was found (chunking.parents).",
)
@click.option(
    "--rerank/--no-rerank",
    default=None,
    help="Put the best in a cross-encoder's order (search.rerank_*).",
)
@click.option("--preset", metavar="P", help="fast, balanced or best (search.preset).")
@click.option(
    "--mmr/--no-mmr",
    default=None,
    help="Prefer passages that differ from those above them.",
)
@click.option(
    "--hops",
    type=int,
    metavar="N",
    help="Follow links N documents far (0 to 3, default 1).",
)
@click.option(
    "--rrf/--no-rrf",
    default=True,
    help="Fuse all lanes, or keep the order of the meaning lane alone.",
)
@click.option(
    "--recency/--no-recency",
    default=None,
    help="Raise what is recent (search.recency_profile).",
)
@click.option(
    "--related", is_flag=True, help="List what the best hits are linked with, and how."
)
@click.option(
    "--filter",
    "filter_text",
    default="",
    metavar="F",
    help="A filter: path:docs/** -tag:draft (a | b).",
)
@click.option(
    "--quick", is_flag=True, help="Ask no model: words, names and links answer."
)
@click.option("--why-not", metavar="FILE", help="Say why FILE is not in the answer.")
@click.option(
    "--explain", is_flag=True, help="Show why: lanes, ranks, the funnel, times."
)
@yes_option
@json_option
@quiet_option
@shared_options
def search(query: str, root: str, *, as_json: bool, quiet: bool, **options: Any) -> int:
    """Find passages for QUERY in ROOT (default: this folder); builds the index first when there is none.

    QUERY may hold filters: tamis search "retry policy path:docs/** -tag:draft".
    """
    from tamis.cli.render import answer

    if options["quick"] and not options["rrf"]:
        raise click.UsageError(
            "--quick asks no model, and --no-rrf the model alone: leave one out"
        )
    arguments = _search_arguments(options)
    found = with_all_files(
        root, options, quiet, lambda corpus: _asked(corpus, root, query, arguments)
    )
    if as_json:
        print_json(found.to_dict())
    else:
        print_lines(answer(found, explain=options["explain"]))
    return 0 if found.results else 1


def _asked(
    corpus: "Corpus", root: str, query: str, arguments: dict[str, Any]
) -> "Found":
    """The answer, with a word on names that may be misspelt, and on files that the index does not know as
    they are; others keep it up to date where it is on a server."""
    from dataclasses import replace

    from tamis.model import Hint

    look = None
    if corpus.exists() and corpus.capabilities.updated_by_search:
        look = _Look(corpus)
    found = corpus.search(query, **arguments)
    nameless = corpus.nameless(arguments["excluded_files"][:_LOOKED_UP])
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


def _search_arguments(options: dict[str, Any]) -> dict[str, Any]:
    return {
        "limit": options["limit"],
        "excluded_files": options["exclude_file"],
        "exclude_patterns": options["exclude"],
        "include_patterns": options["include"],
        "workspace": options["workspace"],
        "under": options["under"],
        "tags": options["tag"],
        "chunk_types": options["types"],
        "languages": options["lang"],
        "author": options["author"],
        "category": options["category"],
        "modified_after": options["after"],
        "modified_before": options["before"],
        "exclude_archived": False if options["archived"] else None,
        "min_score": options["min_score"],
        "unique": options["unique"],
        "expand_parents": options["parents"],
        "rerank": options["rerank"],
        "mmr": options["mmr"],
        "max_hops": options["hops"],
        "include_graph_context": options["related"],
        "use_rrf": options["rrf"],
        "rerank_with_recency": options["recency"],
        "quick": options["quick"],
        "filter": options["filter_text"],
        "why_not": options["why_not"],
        "explain": options["explain"],
    }
