"""Answers as text for people."""

from dataclasses import replace

import click
import pytest

from tamis.cli.render import answer, report, snippet, status
from tamis.model import (
    Evidence,
    Found,
    Hint,
    IndexState,
    Report,
    Result,
    Skipped,
    Status,
    Step,
    WhyNot,
)

STATE = IndexState(7, 826, 5210, 0, "2026-05-01T00:00:00Z")
STATS = {
    "original_count": 40, "after_threshold": 31, "after_content_dedup": 30, "after_ngram_dedup": 30,
    "after_dedup": 30, "after_doc_limit": 20, "clusters_merged": 0, "eligible_documents": 812,
    "excluded_documents": 14,
}  # fmt: skip


def result(**changes: object) -> Result:
    plain = {
        "chunk_id": "docs/api.md#3", "doc_id": "docs/api", "file_path": "/abs/docs/api.md",
        "path": "docs/api.md", "start_line": 12, "end_line": 30, "header_path": "API > Login",
        "content": "first\n\nsecond", "score": 0.871, "raw_score": 0.03, "chunk_type": "documentation",
        "language": None, "tags": (), "is_archived": False, "parent_chunk_id": None,
        "modified": "2026-05-01T00:00:00Z", "evidence": (Evidence("words", 1, 12.34),),
    }  # fmt: skip
    return Result(**(plain | changes))


def found(*results: Result, hints: tuple[Hint, ...] = ()) -> Found:
    return Found(
        "q", "-archived", "exploratory", results, STATS, {"total": 1.5}, STATE, hints
    )


def plain(lines: object) -> list[str]:
    return [click.unstyle(line) for line in lines]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("", []),
        ("\n \n", []),
        ("one", ["one"]),
        ("one\n\n\ntwo  ", ["one", "two"]),
        ("    indented\n\tdeeper", ["    indented", "\tdeeper"]),
        ("\n".join(str(n) for n in range(8)), [str(n) for n in range(8)]),
        (
            "\n".join(str(n) for n in range(9)),
            [*(str(n) for n in range(8)), "... 1 more lines"],
        ),
        ("x" * 160, ["x" * 160]),
        ("x" * 161, ["x" * 157 + "..."]),
    ],
)
def test_snippets(content, lines):
    assert snippet(content) == lines


def test_an_answer():
    assert plain(answer(found(result()), explain=False)) == [
        "1. docs/api.md:12-30  0.87",
        "   API > Login",
        "   first",
        "   second",
        "",
    ]


def test_results_are_numbered_and_archived_ones_marked():
    lines = plain(
        answer(
            found(result(), result(path="old.md", is_archived=True, header_path="")),
            explain=False,
        )
    )
    assert "2. old.md:12-30  0.87 archived" in lines
    assert lines.count("   API > Login") == 1


def test_nothing_found_says_so_and_why():
    lines = plain(
        answer(
            found(hints=(Hint("the filter lets no document through"),)), explain=False
        )
    )
    assert lines == ["nothing found", "note: the filter lets no document through"]


def test_an_explained_answer_shows_the_evidence_and_the_funnel():
    """What each lane's word counts, each boost, each move, and what each stage left and dropped."""
    shown = result(
        evidence=(Evidence("words", 1, 12.34, 0.8),),
        boosts={"coherence": 1.23456},
        places={"fused": 3, "coherence": 1},
    )
    steps = (
        Step("fused", 40, 0.0),
        Step("threshold", 31, 0.25),
        Step("limit", 31, 12.5),
    )
    told = replace(
        found(shown),
        funnel=steps,
        timings_ms={"lanes": 2.0, "threshold": 0.25, "total": 15.5},
    )
    lines = plain(answer(told, explain=True))
    for line in (
        "   words: rank 1, score 12.3400, counts 0.80",
        "   coherence: x 1.235",
        "   place: 3 after fused, 1 after coherence",
        "filter:   -archived",
        "eligible: 812 documents, 14 kept out",
        "funnel:   fused           40     0.00 ms",
        "          threshold       31     0.25 ms  -9",
        "          limit           31    12.50 ms",
        "time:     lanes 2 ms, total 15.5 ms",
        "index:    generation 7, 826 documents, built at 2026-05-01T00:00:00Z",
    ):
        assert line in lines


def test_what_is_not_there_is_not_explained():
    """An answer from elsewhere may come without its funnel."""
    lines = plain(answer(found(result()), explain=True))
    assert not any(line.startswith(("funnel:", "   place:")) for line in lines)


def test_a_report():
    skipped = (
        Skipped("a", "binary"),
        Skipped("b", "binary"),
        Skipped("c", "unreadable", "it broke"),
    )
    done = Report(3, 4, 1, 9, skipped, ("w",), 2, 0.25)
    assert plain(report(done)) == [
        "10 seen = 3 indexed + 4 unchanged + 3 skipped (2 binary, 1 unreadable)",
        "1 removed, 9 passages written, generation 2, 0.2 s",
        "could not read c: it broke",
        "warning: w",
    ]


def test_a_long_report_is_cut_and_says_so():
    done = Report(warnings=tuple(f"w{n}" for n in range(25)))
    lines = plain(report(done))
    assert lines[-2] == "warning: w9"
    assert lines[-1] == "... and 15 more (--json lists all)"


@pytest.mark.parametrize(
    ("changed", "touched", "removed", "pending", "said"),
    [
        (0, 0, 0, 0, "up to date"),
        (2, 0, 0, 0, "2 files new or changed (run: tamis index)"),
        (0, 0, 3, 0, "3 files gone (run: tamis index)"),
        (0, 0, 0, 4, "the last run did not finish, 4 files pending (run: tamis index)"),
        (1, 0, 1, 0, "1 file new or changed; 1 file gone (run: tamis index)"),
        (0, 5, 0, 0, "5 files may have changed (run: tamis index)"),
    ],
)
def test_a_status(changed, touched, removed, pending, said):
    state = IndexState(7, 826, 5210, pending, "2026-05-01T00:00:00Z")
    told = (Skipped("a", "binary"), Skipped("b", "unreadable", "why"))
    sizes = {"database": 500_000, "segments": 2_000_000, "concepts": 0}
    about = ("granite:1", 384, "1.2.3", 9)
    seen = (changed, touched, removed, told, {"c": "odd"}, ("d/.ignore is binary",))
    now = Status(
        "/r", "/r/.tamis", state, "granite", 3, 2_500_000, *seen, sizes, *about
    )
    lines = plain(status(now))
    assert f"fresh:    {said}" in lines
    assert "skipped:  1 binary, 1 unreadable" in lines
    odd = {"  skipped b: unreadable, why", "  c: odd", "  d/.ignore is binary"}
    assert odd | {"sizes:    database 0.5, segments 2.0 (MB)"} <= set(lines)
    assert "versions: tamis 1.2.3, index format 9" in lines
    assert "index:    /r/.tamis (2.5 MB, 3 segments)" in lines


ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b2J\x7f\x00"
SHOWN = "\ufffd]0;owned\ufffd\ufffd[2J\ufffd2J\ufffd\ufffd"


def test_documents_do_not_command_the_terminal():
    hostile = result(
        path=f"{ESCAPE}.md", header_path=f"A > {ESCAPE}", content=f"one\t{ESCAPE}\ntwo"
    )
    why = WhyNot(f"{ESCAPE}.md", "filtered", ESCAPE)
    lines = list(
        answer(
            replace(found(hostile, hints=(Hint(ESCAPE),)), why_not=why, filter=ESCAPE),
            explain=True,
        )
    )
    assert f"1. {SHOWN}.md:12-30  0.87" in plain(lines)
    assert f"   A > {SHOWN}" in plain(lines)
    assert f"   one\t{SHOWN}" in lines
    assert f"{SHOWN}.md: filtered ({SHOWN})" in lines
    assert not any(
        raw in line
        for line in lines
        for raw in ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\x00")
    )


def test_names_of_files_do_not_command_the_terminal():
    done = Report(
        0, 0, 0, 0, (Skipped(ESCAPE, "unreadable", ESCAPE),), (ESCAPE,), 1, 0.1
    )
    lines = plain(report(done))
    assert f"could not read {SHOWN}: {SHOWN}" in lines
    assert f"warning: {SHOWN}" in lines
