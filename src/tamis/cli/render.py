"""Answers as text for people. Colours are dropped where the output is no terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from tamis.model import Found, Related, Report, Result, Status, iso_time
from tamis.text.printable import also_in, visible

if TYPE_CHECKING:
    from tamis.index.doctor.checks import Health

_SNIPPET_LINES = 8
_SNIPPET_WIDTH = 160
_SHOWN_WARNINGS = 10
_SHOWN_PLACES = 3
_EXPECTED = (
    "ignored",
    "link",
    "binary",
)  # reasons for skipping that need no warning
_COLOURS = {
    "ok": "green",
    "skipped": "yellow",
    "warning": "yellow",
    "fault": "red",
}
_VERDICTS = {
    "healthy": "the index is healthy",
    "repairable": "run: tamis doctor --repair (your files are only read)",
    "attention": "the index can be used; see above for what to do",
    "fault": "the index cannot be used as it is; see above for what to do",
}


def answer(found: Found, *, explain: bool) -> Iterator[str]:
    """Yield the lines of a search's answer."""
    for number, result in enumerate(found.results, start=1):
        yield from _result(number, result)
        if explain:
            yield from _evidence(result)
        yield ""
    if not found.results:
        yield "nothing found"
    if found.graph_context is not None:
        yield from _related(found.graph_context)
    for hint in found.hints:
        yield _yellow(f"note: {hint}")
    if found.why_not:
        reason = found.why_not.reason
        if found.why_not.detail:
            reason += f" ({found.why_not.detail})"
        yield visible(f"{found.why_not.path}: {reason}")
    if explain:
        yield from _funnel(found)


def _dim(text: str) -> str:
    return click.style(visible(text), dim=True)


def _yellow(text: str) -> str:
    return click.style(visible(text), fg="yellow")


def _result(number: int, result: Result) -> Iterator[str]:
    lines = f"{result.start_line}-{result.end_line}"
    place = click.style(f"{visible(result.path)}:{lines}", fg="cyan", bold=True)
    mark = ""
    if result.is_archived:
        mark = _yellow(" archived")
    yield f"{number}. {place}  {result.score:.2f}{mark}"
    if result.header_path:
        yield click.style(f"   {visible(result.header_path)}", fg="green")
    for line in snippet(result.content):
        yield f"   {line}"
    if result.matched_lines:
        first, last = result.matched_lines
        yield _dim(f"   found in lines {first}-{last} of it")
    if result.also_in:
        shown = result.also_in[:_SHOWN_PLACES]
        places = [f"{place.path}:{place.start_line}" for place in shown]
        yield _dim(f"   {also_in(places, len(result.also_in))}")


def _evidence(result: Result) -> Iterator[str]:
    for each in result.evidence:
        score = f"score {each.score:.4f}, counts {each.confidence:.2f}"
        yield _dim(f"   {each.lane}: rank {each.rank}, {score}")
    for name, factor in result.boosts.items():
        yield _dim(f"   {name}: x {factor:.4g}")
    if result.places:
        moves = [f"{place} after {stage}" for stage, place in result.places.items()]
        yield _dim(f"   place: {', '.join(moves)}")
    if result.score_source == "rerank":
        yield _dim(f"   rerank: score {result.score:.4f}")


def _related(context: Sequence[Related]) -> Iterator[str]:
    if not context:
        yield "nothing is linked with the best hits"
        return
    yield "linked with the best hits:"
    for each in context:
        place = each.path
        if each.header_path:
            place += f" ({each.header_path})"
        link = f"{each.link} to {each.target}"
        if each.path == each.target:
            link = f"{each.link} from {each.source}"
        if each.hops > 1:
            link += f", {each.hops} links away"
        yield f"   {visible(place)}" + _dim(f"  {link}")


def snippet(content: str) -> list[str]:
    """Return the first lines of a passage, without empty ones; long lines are cut."""
    lines = []
    for line in content.splitlines():
        text = visible(line.rstrip())
        if len(text) > _SNIPPET_WIDTH:
            text = f"{text[: _SNIPPET_WIDTH - 3]}..."
        if line.strip():
            lines.append(text)
    more = len(lines) - _SNIPPET_LINES
    if more > 0:
        lines[_SNIPPET_LINES:] = [f"... {more} more lines"]
    return lines


def _funnel(found: Found) -> Iterator[str]:
    stats = found.stats
    if found.expansion:
        yield visible(f"expanded: {', '.join(found.expansion)}")
    if found.synonyms:
        yield visible(f"synonyms: {', '.join(found.synonyms)}")
    yield f"filter:   {visible(found.filter) or 'none'}"
    excluded = f"{stats['excluded_documents']} kept out"
    yield f"eligible: {stats['eligible_documents']} documents, {excluded}"
    timings = dict(found.timings_ms)
    head, before = "funnel:  ", 0
    for step in found.funnel or ():
        fewer = before - step.left
        line = f"{head} {step.stage:<13}{step.left:>5}{step.ms:>9.2f} ms"
        if before and fewer:
            line += f"  -{fewer}"
        yield line
        head, before = "         ", step.left
        timings.pop(step.stage, None)
    spent = [f"{name} {ms:g} ms" for name, ms in timings.items()]
    yield f"time:     {', '.join(spent)}"
    index = found.index
    built = f"{index.documents} documents, built at {index.built_at}"
    yield f"index:    generation {index.generation}, {built}"


def report(done: Report) -> Iterator[str]:
    """Yield the lines of an indexing run's report."""
    skipped = f"{len(done.skipped)} skipped"
    if done.skipped_by_reason:
        skipped += f" ({_reasons(done.skipped_by_reason)})"
    read = f"{done.indexed} indexed + {done.unchanged} unchanged"
    yield f"{done.seen} seen = {read} + {skipped}"
    written = f"{done.removed} removed, {done.chunks} passages written"
    yield f"{written}, generation {done.generation}, {done.seconds:.1f} s"
    failed = [item for item in done.skipped if item.reason == "unreadable"]
    for item in failed[:_SHOWN_WARNINGS]:
        yield _yellow(f"could not read {item.path or '.'}: {item.detail}")
    for warning in done.warnings[:_SHOWN_WARNINGS]:
        yield _yellow(f"warning: {warning}")
    more = len(failed[_SHOWN_WARNINGS:]) + len(done.warnings[_SHOWN_WARNINGS:])
    if more:
        yield f"... and {more} more (--json lists all)"


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts.items())


def status(now: Status) -> Iterator[str]:
    """Yield the lines of `tamis status`."""
    index = now.index
    size = f"{now.bytes_on_disk / 1e6:.1f} MB, {now.segments} segments"
    yield f"root:     {visible(now.root)}"
    yield f"index:    {visible(now.directory)} ({size})"
    large = {name: size for name, size in now.sizes.items() if size >= 5e4}
    if large:
        sizes = [f"{name} {size / 1e6:.1f}" for name, size in large.items()]
        yield f"sizes:    {', '.join(sizes)} (MB)"
    holds = f"{index.documents} documents, {index.chunks} passages"
    yield f"holds:    {holds}, generation {index.generation}"
    built = index.built_at
    if built == iso_time(0):
        built = "not whole yet"
    yield f"built at: {built}; the model: {now.model or 'not chosen yet'}"
    yield f"versions: tamis {now.tamis_version}, index format {now.format}"
    yield f"fresh:    {_freshness(now)}"
    yield f"skipped:  {_reasons(now.skipped_by_reason) or 'none'}"
    warnings = []
    for item in now.skipped:
        if item.reason not in _EXPECTED:
            why = ", ".join(filter(None, (item.reason, item.detail)))
            warnings.append(f"skipped {item.path or '.'}: {why}")
    warnings += [f"{path}: {warning}" for path, warning in now.warnings.items()]
    warnings += now.ignore_warnings
    for line in warnings[:_SHOWN_WARNINGS]:
        yield _yellow(f"  {line}")
    if len(warnings) > _SHOWN_WARNINGS:
        yield f"  ... and {len(warnings) - _SHOWN_WARNINGS} more (--json lists all)"


def _freshness(now: Status) -> str:
    parts = []
    if now.index.pending_files:
        pending = _files(now.index.pending_files)
        parts.append(f"the last run did not finish, {pending} pending")
    if now.index.pending_chunks:
        parts.append(f"{now.index.pending_chunks} passages have no vectors yet")
    if now.changed_files:
        parts.append(f"{_files(now.changed_files)} new or changed")
    if now.touched_files:
        parts.append(f"{_files(now.touched_files)} may have changed")
    if now.removed_files:
        parts.append(f"{_files(now.removed_files)} gone")
    if not parts:
        return "up to date"
    return f"{'; '.join(parts)} (run: tamis index)"


def _files(count: int) -> str:
    if count == 1:
        return "1 file"
    return f"{count} files"


def health(found: "Health", *, brief: bool = False) -> Iterator[str]:
    """Yield one line for each finding of the doctor; `brief` leaves out what is in order."""
    widest = max(len(finding.check) for finding in found.findings)
    for done in found.repaired:
        yield visible(f"repair: {done}")
    for finding in found.findings:
        if brief and finding.severity in ("ok", "skipped"):
            continue
        mark = click.style(f"{finding.severity:8}", fg=_COLOURS[finding.severity])
        yield f"{mark}{finding.check:{widest}}  {visible(finding.what)}"
        if finding.hint and finding.severity != "ok":
            yield visible(f"{'':{widest + 10}}{finding.hint}")
    if found.verdict != "healthy" or not brief:
        yield _VERDICTS[found.verdict]
