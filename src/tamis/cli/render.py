"""Answers as text for people. Colours only where somebody sees them."""

from collections.abc import Iterator, Sequence
from typing import Final

import click

from tamis.corpus import Status
from tamis.index.doctor.health import Health
from tamis.model import Found, Related, Report, Result, Skipped, Step, iso_time
from tamis.text.printable import also_in, visible

_SNIPPET_LINES = 8
_SNIPPET_WIDTH = 160
_SHOWN_WARNINGS = 10
_SHOWN_PLACES = 3
_EXPECTED = ("ignored", "link", "binary")  # nobody wonders where these are
_COLOURS: Final = {
    "ok": "green",
    "skipped": "yellow",
    "warning": "yellow",
    "fault": "red",
}
_VERDICTS: Final = {
    "healthy": "the index is healthy",
    "repairable": "run: tamis doctor --repair (your files are only read)",
    "attention": "the index can be used; see above for what to do",
    "fault": "the index cannot be used as it is; see above for what to do",
}


def answer(found: Found, *, explain: bool) -> Iterator[str]:
    for number, result in enumerate(found.results, start=1):
        yield from _result(number, result, explain=explain)
    if not found.results:
        yield "nothing found"
    if found.graph_context is not None:
        yield from _related(found.graph_context)
    for hint in found.hints:
        yield click.style(f"note: {visible(hint)}", fg="yellow")
    if found.why_not:
        why = found.why_not
        yield visible(
            f"{why.path}: {why.reason}" + (f" ({why.detail})" if why.detail else "")
        )
    if explain:
        yield from _funnel(found)


def _result(number: int, result: Result, *, explain: bool) -> Iterator[str]:
    lines = f"{result.start_line}-{result.end_line}"
    place = click.style(f"{visible(result.path)}:{lines}", fg="cyan", bold=True)
    mark = click.style(" archived", fg="yellow") if result.is_archived else ""
    yield f"{number}. {place}  {result.score:.2f}{mark}"
    if result.header_path:
        yield click.style(f"   {visible(result.header_path)}", fg="green")
    yield from (f"   {line}" for line in snippet(result.content))
    if result.matched_lines:
        yield click.style(
            "   found in lines {}-{} of it".format(*result.matched_lines), dim=True
        )
    if result.also_in:
        listed = [
            f"{place.path}:{place.start_line}"
            for place in result.also_in[:_SHOWN_PLACES]
        ]
        yield click.style(f"   {also_in(listed, len(result.also_in))}", dim=True)
    if explain:
        for evidence in result.evidence:
            sure = f", counts {evidence.confidence:.2f}"
            yield click.style(
                f"   {evidence.lane}: rank {evidence.rank}, score {evidence.score:.4f}{sure}",
                dim=True,
            )
        for name, factor in result.boosts.items():
            yield click.style(f"   {name}: x {factor:.4g}", dim=True)
        if result.places:
            moves = ", ".join(
                f"{place} after {stage}" for stage, place in result.places.items()
            )
            yield click.style(f"   place: {moves}", dim=True)
        if result.score_source == "rerank":
            yield click.style(f"   rerank: score {result.score:.4f}", dim=True)
    yield ""


def _related(context: Sequence[Related]) -> Iterator[str]:
    yield (
        "linked with the best hits:"
        if context
        else "nothing is linked with the best hits"
    )
    for each in context:
        hops = f", {each.hops} links away" if each.hops > 1 else ""
        way = f"from {each.source}" if each.path == each.target else f"to {each.target}"
        place = f"{each.path} ({each.header_path})" if each.header_path else each.path
        yield f"   {visible(place)}" + click.style(
            visible(f"  {each.link} {way}{hops}"), dim=True
        )


def snippet(content: str) -> list[str]:
    lines = [visible(line.rstrip()) for line in content.splitlines() if line.strip()]
    shown = [
        line if len(line) <= _SNIPPET_WIDTH else f"{line[: _SNIPPET_WIDTH - 3]}..."
        for line in lines
    ]
    more = len(lines) - _SNIPPET_LINES
    return [*shown[:_SNIPPET_LINES], f"... {more} more lines"] if more > 0 else shown


def _funnel(found: Found) -> Iterator[str]:
    stats = found.stats
    if found.expansion:
        yield visible(f"expanded: {', '.join(found.expansion)}")
    if found.synonyms:
        yield visible(f"synonyms: {', '.join(found.synonyms)}")
    yield f"filter:   {visible(found.filter) or 'none'}"
    yield f"eligible: {stats['eligible_documents']} documents, {stats['excluded_documents']} kept out"
    steps = found.funnel or ()
    yield from (
        line
        for at, step in enumerate(steps)
        for line in _step(step, steps[at - 1] if at else None)
    )
    stages = {step.stage for step in steps}
    spent = ((name, ms) for name, ms in found.timings_ms.items() if name not in stages)
    yield "time:     " + ", ".join(f"{name} {ms:g} ms" for name, ms in spent)
    index = found.index
    yield f"index:    generation {index.generation}, {index.documents} documents, built at {index.built_at}"


def _step(step: Step, before: Step | None) -> Iterator[str]:
    head = "funnel:  " if before is None else "         "
    fewer = before.left - step.left if before else 0
    lost = f"  -{fewer}" if fewer else ""
    yield f"{head} {step.stage:<13}{step.left:>5}{step.ms:>9.2f} ms{lost}"


def report(done: Report) -> Iterator[str]:
    reasons = ", ".join(
        f"{count} {reason}" for reason, count in done.skipped_by_reason.items()
    )
    skipped = f"{len(done.skipped)} skipped" + (f" ({reasons})" if reasons else "")
    yield f"{done.seen} seen = {done.indexed} indexed + {done.unchanged} unchanged + {skipped}"
    written = f"{done.removed} removed, {done.chunks} passages written"
    yield f"{written}, generation {done.generation}, {done.seconds:.1f} s"
    failed = [item for item in done.skipped if item.reason == "unreadable"]
    for item in failed[:_SHOWN_WARNINGS]:
        yield click.style(
            visible(f"could not read {item.path or '.'}: {item.detail}"), fg="yellow"
        )
    for warning in done.warnings[:_SHOWN_WARNINGS]:
        yield click.style(f"warning: {visible(warning)}", fg="yellow")
    more = max(0, len(failed) - _SHOWN_WARNINGS) + max(
        0, len(done.warnings) - _SHOWN_WARNINGS
    )
    if more:
        yield f"... and {more} more (--json lists all)"


def status(now: Status) -> Iterator[str]:
    index = now.index
    sizes = ", ".join(
        f"{name} {size / 1e6:.1f}" for name, size in now.sizes.items() if size >= 5e4
    )
    yield f"root:     {visible(now.root)}"
    yield f"index:    {visible(now.directory)} ({now.bytes_on_disk / 1e6:.1f} MB, {now.segments} segments)"
    if sizes:
        yield f"sizes:    {sizes} (MB)"
    yield f"holds:    {index.documents} documents, {index.chunks} passages, generation {index.generation}"
    whole = (
        f"built at: {index.built_at}"
        if index.built_at != iso_time(0)
        else "built at: not whole yet"
    )
    yield f"{whole}; the model: {now.model or 'not chosen yet'}"
    yield f"versions: tamis {now.tamis_version}, index format {now.format}"
    yield f"fresh:    {_freshness(now)}"
    yield "skipped:  " + (
        ", ".join(
            f"{count} {reason}" for reason, count in now.skipped_by_reason.items()
        )
        or "none"
    )
    told = [
        f"skipped {_why(item)}" for item in now.skipped if item.reason not in _EXPECTED
    ]
    told += [f"{path}: {warning}" for path, warning in now.warnings.items()]
    told += now.ignore_warnings
    for line in told[:_SHOWN_WARNINGS]:
        yield click.style(f"  {visible(line)}", fg="yellow")
    if len(told) > _SHOWN_WARNINGS:
        yield f"  ... and {len(told) - _SHOWN_WARNINGS} more (--json lists all)"


def _why(item: Skipped) -> str:
    return f"{item.path or '.'}: {item.reason}" + (
        f", {item.detail}" if item.detail else ""
    )


def health(found: Health, *, brief: bool = False) -> Iterator[str]:
    """One line for each finding; `brief` leaves out what is in order."""
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


def _files(count: int) -> str:
    return "1 file" if count == 1 else f"{count} files"


def _freshness(now: Status) -> str:
    parts = []
    if now.index.pending_files:
        parts.append(
            f"the last run did not finish, {_files(now.index.pending_files)} pending"
        )
    if now.index.pending_chunks:
        parts.append(f"{now.index.pending_chunks} passages have no vectors yet")
    if now.changed_files:
        parts.append(f"{_files(now.changed_files)} new or changed")
    if now.touched_files:
        parts.append(f"{_files(now.touched_files)} may have changed")
    if now.removed_files:
        parts.append(f"{_files(now.removed_files)} gone")
    return "; ".join(parts) + " (run: tamis index)" if parts else "up to date"
