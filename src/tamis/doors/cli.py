"""The command line. Exit codes: 0 found or done, 1 nothing found or something to look at, 2 fault.

Only click is imported before a command runs: everything else is loaded by the command that needs it.
"""

import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click

from tamis.doors.install import install

if TYPE_CHECKING:
    from pathlib import Path

    from tamis.corpus import Corpus
    from tamis.health import Health
    from tamis.progress import Progress
    from tamis.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])
Done = TypeVar("Done")

_FOLDER = click.Path(path_type=str, readable=False)  # not checked by click: our message says what to do


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command; turn every ending into its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a terminal cannot show, it shows as an escape
            stream.reconfigure(errors="backslashreplace")
    try:
        code = cli.main(args=arguments, prog_name="tamis", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as end:
        code = end.exit_code
    except click.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = 2
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:  # noqa: BLE001 - the last resort: a traceback's own exit code would say "nothing found"
        code = _show_fault(error)
    sys.exit(code or 0)


def _show_fault(error: Exception) -> int:
    from tamis.doors.plain import visible, visible_lines
    from tamis.errors import TamisError

    if isinstance(error, TamisError):
        said = click.style("error: ", fg="red", bold=True) + visible(error.message)
        click.echo(said, err=True, color=_colour())
        if error.hint:
            click.echo(f"hint: {visible(error.hint)}", err=True)
        return error.exit_code
    import traceback

    click.echo(visible_lines("".join(traceback.format_exception(error))), err=True, nl=False)
    click.echo("error: this is a fault in tamis itself; the index and your files are as they were", err=True)
    return 2


class _Group(click.Group):
    """Click would exit with 1 when the reader of our output goes away: that means "nothing found" here."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise click.exceptions.Exit(0) from None


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="tamis", prog_name="tamis")
def cli() -> None:
    """Search Markdown, notes and code on this machine, with filters that are exact."""


cli.add_command(install)


def shared_options(command: Command) -> Command:
    """Options that every command on an index has."""
    for option in (
        click.option(
            "--model", metavar="NAME", help="Embedder: granite, bge, hashing, or none for words only."
        ),
        click.option("--config", metavar="FILE", help="Read this instead of the root's tamis.toml."),
        click.option("--engine", metavar="URL", help="The index is on this Qdrant server (docs/cluster.md)."),
        click.option("--index-dir", metavar="DIR", help="Where the index is kept (default: .tamis in ROOT)."),
    ):
        command = option(command)
    return command


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress and no summary.")
yes_option = click.option("--yes", is_flag=True, help="Index however many files there are (index.max_files).")
root_argument = click.argument("root", default=".", type=_FOLDER)


@cli.command()
@click.argument("query")
@root_argument
@click.option("-n", "--limit", type=int, metavar="N", help="At most N results (default 5).")
@click.option(
    "--exclude-file", multiple=True, metavar="F", help="Leave a file out: name or path; repeatable."
)
@click.option(
    "--exclude", multiple=True, metavar="P", help="Leave out what a gitignore pattern matches; repeatable."
)
@click.option(
    "--include", multiple=True, metavar="P", help="Only what a gitignore pattern matches, archived too."
)
@click.option("--workspace", metavar="W", help="Only the folders of a configured workspace.")
@click.option("--under", multiple=True, metavar="D", help="Only below this folder; several are alternatives.")
@click.option(
    "--tag", multiple=True, metavar="T", help="Only documents with this tag; several must all be there."
)
@click.option(
    "--type", "types", multiple=True, metavar="T", help="Only chunks of this type; several are alternatives."
)
@click.option("--lang", multiple=True, metavar="L", help="Only this language; several are alternatives.")
@click.option("--author", metavar="A", help="Only documents by this author.")
@click.option("--category", metavar="C", help="Only documents of this category.")
@click.option("--after", metavar="D", help="Modified on this day or later (2026-05-01, 2026-05, 2026).")
@click.option("--before", metavar="D", help="Modified on this day or earlier.")
@click.option("--archived", is_flag=True, help="Show archived documents too.")
@click.option("--min-score", type=float, metavar="S", help="Only results scored S or more (0 to 1).")
@click.option("--unique", is_flag=True, help="One passage per document.")
@click.option(
    "--parents/--no-parents", default=None, help="Show the sections around what was found (chunking.parents)."
)
@click.option(
    "--rerank/--no-rerank", default=None, help="Put the best in a cross-encoder's order (search.rerank_*)."
)
@click.option("--preset", metavar="P", help="fast, balanced or best (search.preset).")
@click.option("--mmr/--no-mmr", default=None, help="Prefer passages that differ from those above them.")
@click.option("--hops", type=int, metavar="N", help="Follow links N documents far (0 to 3, default 1).")
@click.option(
    "--rrf/--no-rrf", default=True, help="Fuse all lanes, or keep the order of the meaning lane alone."
)
@click.option("--recency/--no-recency", default=None, help="Raise what is recent (search.recency_profile).")
@click.option("--related", is_flag=True, help="List what the best hits are linked with, and how.")
@click.option(
    "--filter", "filter_text", default="", metavar="F", help="A filter: path:docs/** -tag:draft (a | b)."
)
@click.option("--quick", is_flag=True, help="Ask no model: words, names and links answer.")
@click.option("--why-not", metavar="FILE", help="Say why FILE is not in the answer.")
@click.option("--explain", is_flag=True, help="Show why: lanes, ranks, the funnel, times.")
@yes_option
@json_option
@quiet_option
@shared_options
def search(query: str, root: str, *, as_json: bool, quiet: bool, **options: Any) -> int:
    """Find passages for QUERY in ROOT (default: this folder); builds the index first when there is none.

    QUERY may hold filters: tamis search "retry policy path:docs/** -tag:draft".
    """
    from tamis.doors.render import answer

    arguments = _search_arguments(options)
    found = _with_all_files(root, options, quiet, lambda corpus: corpus.search(query, **arguments))
    if as_json:
        _print_json(found.to_dict())
    else:
        _print_lines(answer(found, explain=options["explain"]))
    return 0 if found.results else 1


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


@cli.command()
@root_argument
@click.option(
    "--dry-run", is_flag=True, help="Only list what would be indexed and what skipped, with reasons."
)
@yes_option
@json_option
@quiet_option
@shared_options
def index(root: str, *, dry_run: bool, as_json: bool, quiet: bool, **options: Any) -> int:
    """Bring the index of ROOT up to date with its files.

    Exits with 1 when there is nothing to search afterwards or a file could not be read.
    """
    if dry_run:
        return _dry_run(root, options, as_json=as_json)
    return _build(root, options, as_json=as_json, quiet=quiet, anew=False)


@cli.command("rebuild-index")
@root_argument
@yes_option
@json_option
@quiet_option
@shared_options
def rebuild_index(root: str, *, as_json: bool, quiet: bool, **options: Any) -> int:
    """Make the index of ROOT anew: after damage, an upgrade, or with another --model.

    Searches see the old index until the new one is whole, unless the old one is damaged or of
    another format: that is replaced at once.
    """
    return _build(root, options, as_json=as_json, quiet=quiet, anew=True)


def _build(root: str, options: dict[str, Any], *, as_json: bool, quiet: bool, anew: bool) -> int:
    from tamis.doors.render import report

    done = _with_all_files(
        root, options, quiet, lambda corpus: corpus.rebuild() if anew else corpus.refresh()
    )
    if as_json:
        _print_json(done.to_dict())
    elif not quiet:
        _print_lines(report(done))
    unreadable = done.skipped_by_reason.get("unreadable", 0)
    if not done.indexed + done.unchanged and not quiet:
        click.echo("nothing to search: no text files were found", err=True)
    return 1 if unreadable or not done.indexed + done.unchanged else 0


def _dry_run(root: str, options: dict[str, Any], *, as_json: bool) -> int:
    from tamis.doors.plain import visible
    from tamis.ingest.walk import checked_root
    from tamis.survey import survey

    settings = _settings(root, options)
    indexed, skipped = survey(checked_root(root), settings)
    if as_json:
        reasons = [{"path": s.path, "reason": s.reason, "detail": s.detail} for s in skipped]
        _print_json({"seen": len(indexed) + len(skipped), "indexed": indexed, "skipped": reasons})
    else:
        left_out = [f"skipped: {s.path}: {s.reason}" + (f", {s.detail}" if s.detail else "") for s in skipped]
        _print_lines(map(visible, (*indexed, *left_out)))
    return 0 if indexed else 1


@cli.command()
@root_argument
@json_option
@shared_options
def status(root: str, *, as_json: bool, **options: Any) -> int:
    """Say what the index of ROOT holds, how fresh it is, and what was skipped."""
    from tamis.corpus import open_existing
    from tamis.doors.render import status as lines

    with open_existing(root, options["index_dir"], _settings(root, options)) as corpus:
        now = corpus.status()
    if as_json:
        _print_json(now.to_dict())
    else:
        _print_lines(lines(now))
    return 0


@cli.command()
@root_argument
@click.option("--repair", is_flag=True, help="Mend what can be mended; looks at everything first.")
@click.option("--full", is_flag=True, help="Look at everything instead of a sample.")
@json_option
@quiet_option
@shared_options
def doctor(root: str, *, repair: bool, full: bool, as_json: bool, quiet: bool, **options: Any) -> int:
    """Say whether the index of ROOT is what it should be; with --repair, mend it. Your files are only read.

    Looks at the folder, the database, checksums, counts, vectors, postings and the model, while others
    search and write. Exits with 0 when all is well, with 1 when there is something to look at or to
    repair, with 2 when there is a fault that --repair does not mend.
    """
    from tamis.doors.render import health as lines

    found = _examined(root, options, repair=repair, full=full, quiet=quiet)
    if as_json:
        _print_json(found.to_dict())
    else:
        _print_lines(lines(found, brief=quiet))
    return found.exit_code


def _examined(root: str, options: dict[str, Any], *, repair: bool, full: bool, quiet: bool) -> "Health":
    from tamis.corpus import index_directory
    from tamis.errors import BadSetting, IndexMissing
    from tamis.health import check
    from tamis.ingest.walk import checked_root
    from tamis.models.embed import load_embedder
    from tamis.settings import Settings

    try:
        with _corpus(root, options, quiet=quiet) as corpus:
            if not corpus.is_shared and not corpus.directory.exists():
                raise IndexMissing(corpus.root)
            return corpus.repair() if repair else corpus.check(full=full)
    except BadSetting as error:  # as far as an index in its usual place can be looked at without them
        folder = checked_root(root)
        directory = index_directory(folder, Settings(), options["index_dir"])
        if not directory.exists():
            raise
        return check(folder, directory, error, load_embedder, full=full)


@cli.command()
@root_argument
@click.option("--to", metavar="URL", help="Copy the index on this machine to this Qdrant server.")
@click.option("--from", "source", metavar="URL", help="Copy from this Qdrant server to this machine.")
@click.option("--config", metavar="FILE", help="Read this instead of the root's tamis.toml.")
@click.option("--index-dir", metavar="DIR", help="Where the local index is kept (default: .tamis in ROOT).")
@json_option
@quiet_option
def migrate(
    root: str, *, to: str | None, source: str | None, as_json: bool, quiet: bool, **options: Any
) -> int:
    """Copy the index of ROOT to a Qdrant server, or from one, without embedding anything again.

    What is there for ROOT is replaced when the copy is whole, and stays until then (docs/cluster.md).
    """
    from tamis.corpus import index_directory
    from tamis.doors.render import report
    from tamis.ingest.walk import checked_root
    from tamis.migrate import migrate as copy

    if bool(to) == bool(source):
        raise click.UsageError("give either --to URL or --from URL")
    folder, settings = checked_root(root), _settings(root, options | {"engine": to or source})
    place = index_directory(folder, settings, options["index_dir"])
    with _watching(quiet) as progress:
        done = copy(folder, place, settings, progress, to_server=bool(to))
    if as_json:
        _print_json(done.to_dict())
    elif not quiet:
        _print_lines(report(done))
    return 0


@cli.command()
@root_argument
@click.option("--poll", is_flag=True, help="Look every watch.poll_ms: for network file systems and the like.")
@click.option(
    "--debounce", type=int, metavar="MS", help="Index after MS milliseconds of quiet (default 200)."
)
@yes_option
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each event.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@shared_options
def watch(root: str, *, poll: bool, debounce: int | None, as_json: bool, quiet: bool, **options: Any) -> int:
    """Keep the index of ROOT up to date while its files change, until Ctrl-C or SIGTERM (exit code 0).

    Exits with 1 when another process watches ROOT already. ROOT may go and come back meanwhile.
    """
    from pathlib import Path

    from tamis.doors.progress import progress_for
    from tamis.doors.watch import Commentary, keep_watch
    from tamis.ingest.roots import chosen_roots
    from tamis.live import LiveCorpus
    from tamis.settings import user_file

    (folder,) = chosen_roots((root,), "tamis watch ")
    if _asks():  # before it begins: nobody sits at a watch to be asked
        _with_all_files(str(folder), options, quiet, lambda corpus: corpus.exists() or corpus.count_files())
    flags = options | {"watch.poll": poll or None, "watch.debounce_ms": debounce}
    settings, config = _settings(str(folder), flags), options["config"]
    commentary = Commentary(None if quiet else progress_for(sys.stderr.isatty()), as_json=as_json)
    place = Path(options["index_dir"]) if options["index_dir"] else None
    live = LiveCorpus(folder, settings, place, commentary, commentary.tell)
    also = (*([Path(config)] if config else []), user_file(os.environ))
    return keep_watch(live, commentary, lambda: _settings(str(folder), flags), also)


@cli.command("explain-ignore")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--root", default=".", type=_FOLDER, help="The folder that is indexed (default: this one).")
@click.option("--config", metavar="FILE", help="Read this instead of the root's tamis.toml.")
@json_option
def explain_ignore(paths: Sequence[str], root: str, *, config: str | None, as_json: bool) -> int:
    """Say for each PATH whether it is ignored or archived, and which rule of which file decided."""
    from tamis.doors.plain import visible
    from tamis.ingest.walk import checked_root
    from tamis.survey import explain_paths

    verdicts = explain_paths(checked_root(root), _settings(root, {"config": config}), paths)
    if as_json:
        _print_json(verdicts)
        return 0
    for verdict in verdicts:
        state = "ignored" if verdict["ignored"] else "archived" if verdict["archived"] else "indexed"
        place = f"{verdict['source']}:{verdict['line']}" if verdict["line"] else verdict["source"]
        rule = f"  by {verdict['rule']} ({place})" if verdict["rule"] else ""
        if verdict["rule"] and not verdict["source"]:  # no file's rule: it lies outside the root
            state, rule = verdict["rule"], ""
        click.echo(visible(f"{verdict['path']}: {state}{rule}"))
    return 0


@cli.command()
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
    name = _settings(root, {"config": config}).ignore.file
    click.echo(visible(f"wrote {write_template(checked_root(root), kind, name, replace=force)}"))
    return 0


@cli.command("eval")
@click.argument("datasets", nargs=-1, required=True, metavar="DATASET...")
@click.option("--corpus", metavar="ROOT", help="The documents of sets that come without: ids are paths here.")
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="C",
    help="A way of asking: NAME=key=value,key=value; repeatable. Else the defaults alone, named default.",
)
@click.option(
    "--compare", nargs=2, metavar="A B", help="What B gains over A; each a NAME or an earlier --json output."
)
@click.option("--ablate", is_flag=True, help="Leave each stage and each lane of the first way out in turn.")
@click.option(
    "--queries", type=click.IntRange(min=1), metavar="N", help="At most N questions of a set, spread over it."
)
@click.option("--model", metavar="NAME", help="Embedder: granite, bge, hashing, or none for words only.")
@click.option("--work", metavar="DIR", help="Keep files and indexes here, so that the next run is quick.")
@click.option("--plot", metavar="FILE", help="Draw the comparison, or else the figures: out.svg or out.png.")
@json_option
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
def evaluate(datasets: Sequence[str], *, as_json: bool, quiet: bool, **options: Any) -> int:
    """Measure how good the answers are, on sets of questions that somebody has judged.

    A DATASET is a folder with queries.jsonl, qrels.tsv and a corpus (docs/evaluation.md), or
    FOLDER=ROOT where the documents are a tree. Only what is given here counts: no configuration
    file, no environment. Exits with 1 when a set has no question that can be asked.
    """
    from pathlib import Path

    from tamis.doors.tables import study as lines
    from tamis.measure.plot import check_plot, draw
    from tamis.measure.study import plan, study

    picture = Path(options["plot"]) if options["plot"] else None
    if picture:
        check_plot(picture)
    planned = plan(
        datasets,
        options["configs"],
        options["compare"],
        ablate=options["ablate"],
        tree=options["corpus"],
        model=options["model"],
        most=options["queries"] or 0,
    )
    with _working(options["work"]) as work, _watching(quiet) as progress:
        done = study(planned, work, progress)
    if picture:
        draw(done, picture)
    if as_json:
        _print_json(done.to_dict())
    else:
        _print_lines(lines(done))
    return 0 if all(one.outcomes for one in done.measured) else 1


@contextmanager
def _working(kept: str | None) -> Iterator["Path"]:
    """The folder that is named, or one that is gone afterwards."""
    import tempfile
    from pathlib import Path

    if kept:
        yield Path(kept).expanduser().resolve()
    else:
        with tempfile.TemporaryDirectory(prefix="tamis-eval-") as folder:
            yield Path(folder).resolve()


@cli.command()
@click.option(
    "--root", "roots", multiple=True, type=_FOLDER, help="A folder to serve (default: this one); repeatable."
)
@click.option(
    "--http", "address", metavar="HOST:PORT", help="Serve over HTTP at /mcp instead of stdin and stdout."
)
@click.option(
    "--token", metavar="T", envvar="TAMIS_TOKEN", help="Over HTTP: what clients must send (or TAMIS_TOKEN)."
)
@click.option(
    "--allow-host", multiple=True, metavar="NAME", help="Over HTTP: another name of this machine; repeatable."
)
@click.option("--log-file", metavar="FILE", help="Write the log here (default: standard error).")
@shared_options
def mcp(roots: Sequence[str], *, address: str | None, log_file: str | None, **options: Any) -> int:
    """Serve AI agents: the Model Context Protocol, over stdin and stdout or HTTP.

    A client starts this by itself; see docs/mcp.md. Nothing is indexed before the first question; from then
    on, files are watched (server.watch).
    """
    from tamis.folders import served

    given = {name: options[name] for name in ("model", "config", "index_dir", "engine")}
    folders = served(roots, **given)
    _log_to(log_file)
    from tamis.doors.serve import serve_http, serve_stdio

    if address is None:
        return serve_stdio(folders)
    return serve_http(folders, address, options["token"], options["allow_host"])


@cli.command()
@click.argument("roots", nargs=-1, type=_FOLDER, metavar="[ROOT]...")
@click.option("--host", default="127.0.0.1", metavar="H", help="Where to listen; elsewhere takes a token.")
@click.option(
    "--port", default=7171, type=click.IntRange(0, 65_535), metavar="P", help="0 is any that is free."
)
@click.option("--open", "shown", is_flag=True, help="Open the page in a browser.")
@click.option(
    "--token", metavar="T", envvar="TAMIS_TOKEN", help="What clients must send (better: TAMIS_TOKEN)."
)
@click.option("--allow-host", multiple=True, metavar="NAME", help="Another name of this machine; repeatable.")
@click.option("--log-file", metavar="FILE", help="Write the log here (default: standard error).")
@shared_options
def serve(
    roots: Sequence[str], *, host: str, port: int, shown: bool, log_file: str | None, **options: Any
) -> int:
    """Serve a page to search ROOT with (default: this folder), a JSON API, and AI agents at /mcp.

    Files are indexed as they change. See docs/web.md and docs/http.md.
    """
    from tamis.folders import served

    folders = served(roots, **{name: options[name] for name in ("model", "config", "index_dir")})
    _log_to(log_file)
    from tamis.doors.listen import Address
    from tamis.doors.serve import serve_pages

    return serve_pages(folders, Address(host, port), options["token"], options["allow_host"], shown=shown)


def _log_to(file: str | None) -> None:
    import logging

    from tamis.doors.plain import LogLines

    lines: logging.Handler
    try:
        if file:  # questions may be in it
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600))
        lines = logging.FileHandler(file, encoding="utf-8") if file else logging.StreamHandler(sys.stderr)
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint="--log-file") from error
    lines.setFormatter(LogLines())
    logging.basicConfig(level=logging.WARNING, handlers=[lines])


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> int:
    """Print the completion script of a shell: eval "$(tamis completion bash)"."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    click.echo(kind(cli, {}, "tamis", "_TAMIS_COMPLETE").source())
    return 0


def _settings(root: str, options: dict[str, Any]) -> "Settings":
    from pathlib import Path

    from tamis.ingest.walk import checked_root
    from tamis.settings import load

    given = {"model.name": options.get("model") or None, "search.preset": options.get("preset") or None}
    given["index.max_files"] = "0" if options.get("yes") else None
    given["engine.url"] = options.get("engine") or None
    given |= {name: value for name, value in options.items() if "." in name}
    flags = {name: value for name, value in given.items() if value is not None}
    return load(checked_root(root), flags, config=Path(options["config"]) if options.get("config") else None)


@contextmanager
def _corpus(root: str, options: dict[str, Any], *, quiet: bool) -> Iterator["Corpus"]:
    from tamis.corpus import Corpus, index_directory
    from tamis.ingest.walk import checked_root

    folder, settings = checked_root(root), _settings(root, options)
    place = index_directory(folder, settings, options["index_dir"])
    with _watching(quiet) as progress, Corpus(folder, place, settings, progress) as corpus:
        yield corpus


def _with_all_files(
    root: str, options: dict[str, Any], quiet: bool, work: "Callable[[Corpus], Done]"
) -> "Done":
    """Work on a corpus. Where there are too many files, whoever sits at a terminal is asked if all count."""
    from tamis.errors import TooManyFiles

    try:
        with _corpus(root, options, quiet=quiet) as corpus:
            return work(corpus)
    except TooManyFiles as fault:
        if not _asks() or not _agrees(fault.message):
            raise
    options["yes"] = True
    with _corpus(root, options, quiet=quiet) as corpus:
        return work(corpus)


def _asks() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _agrees(message: str) -> bool:
    from tamis.doors.plain import visible

    return click.confirm(f"{visible(message)}. Index all of them?", default=False, err=True)


@contextmanager
def _watching(quiet: bool) -> Iterator["Progress"]:
    from tamis.doors.progress import progress_for
    from tamis.progress import Silent

    if quiet:
        yield Silent()
    else:
        with progress_for(sys.stderr.isatty()) as watcher:
            yield watcher


def _speaks_utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"


def _print_json(value: Any) -> None:
    from tamis.doors.plain import escaped

    click.echo(escaped(json.dumps(value, ensure_ascii=not _speaks_utf8(), indent=2)))


def _colour() -> bool | None:
    """NO_COLOR is a promise to people who cannot use colours; click drops them by itself on a pipe."""
    return False if os.environ.get("NO_COLOR") else None


def _print_lines(lines: Iterator[str]) -> None:
    colour = _colour()
    for line in lines:
        click.echo(line, color=colour)
