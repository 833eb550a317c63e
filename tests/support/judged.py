"""Our own judged set as tests read it: its questions, their grades, and its documents."""

import json
from collections.abc import Mapping
from pathlib import Path

SET = Path(__file__).resolve().parents[2] / "benchmarks" / "judged"
DOCUMENTS = SET / "documents"
TOPICS = ("auth", "deploy", "garden", "pipeline", "queue")


def questions() -> list[dict[str, str]]:
    return [
        json.loads(line)
        for line in (SET / "queries.jsonl").read_text("utf-8").splitlines()
    ]


def judgements() -> list[tuple[str, str, int]]:
    """Question, path and grade, in the order of the file."""
    lines = (SET / "qrels.tsv").read_text("utf-8").splitlines()[1:]
    return [
        (question, path, int(grade))
        for question, path, grade in (line.split("\t") for line in lines)
    ]


def documents() -> Mapping[str, str]:
    """Text by path."""
    files = sorted(DOCUMENTS.rglob("*.md"))
    return {
        file.relative_to(DOCUMENTS).as_posix(): file.read_text("utf-8")
        for file in files
    }


def topic_of(question: Mapping[str, str]) -> str:
    return question["_id"].partition("-")[0]
