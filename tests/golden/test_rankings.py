"""What our own judged set is answered with, as text: a change of ranking is a diff that somebody reads.

By words alone (no model), so that it is the same on every machine and takes a second. Each line has the
rank, the judged grade (`-` for none), where the passage stands, its headings and the lanes that found it.
There are no scores: a change that moves nothing changes nothing here. `pytest tests/golden --update` writes
the files anew.
"""

import difflib
import os
from collections import defaultdict
from pathlib import Path

import pytest

from support.corpora import open_corpus, write_files
from support.judged import TOPICS, documents, judgements, questions, topic_of
from tamis.settings import SearchSettings

RANKINGS = Path(__file__).parent / "rankings"
LONG_AGO = 1_767_225_600  # 2026-01-01: documents without a date of their own have that of their file
HEAD = "# {topic}: the first five for each question, by words alone. Rewrite: pytest tests/golden --update\n"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    root = write_files(tmp_path_factory.mktemp("judged"), documents())
    for file in root.rglob("*.md"):
        os.utime(file, (LONG_AGO, LONG_AGO))
    near = SearchSettings().ngram_dedup_enabled  # as everybody has it
    with open_corpus(
        root, model__name="none", search__ngram_dedup_enabled=near
    ) as opened:
        yield opened


@pytest.fixture(scope="module")
def grades():
    found = defaultdict(dict)
    for question, path, grade in judgements():
        found[question][path] = grade
    return found


def line(rank, result, grade):
    lanes = ", ".join(sorted(evidence.lane for evidence in result.evidence))
    where = f"{result.path}:{result.start_line}-{result.end_line}"
    return f"  {rank} ({grade}) {where} | {result.header_path or '(no heading)'} | {lanes}\n"


def answer(corpus, question, grades):
    found = corpus.search(
        question["text"], filter=question.get("filter", ""), limit=5
    ).results
    asked = f"\n{question['_id']} {question['kind']}: {question['text']}"
    asked += f" [{question['filter']}]\n" if "filter" in question else "\n"
    lines = [
        line(rank, one, grades.get(one.path, "-")) for rank, one in enumerate(found, 1)
    ]
    return asked + ("".join(lines) or "  nothing\n")


@pytest.mark.parametrize("topic", TOPICS)
def test_rankings_are_as_written_down(topic, corpus, grades, request):
    asked = [question for question in questions() if topic_of(question) == topic]
    now = HEAD.format(topic=topic) + "".join(
        answer(corpus, one, grades[one["_id"]]) for one in asked
    )
    file = RANKINGS / f"{topic}.txt"
    if request.config.getoption("--update"):
        file.write_text(now, "utf-8")
    before = file.read_text("utf-8")
    if before != now:
        changes = difflib.unified_diff(
            before.splitlines(), now.splitlines(), "before", "now", n=1
        )
        pytest.fail(
            "\n".join([f"rankings for {topic} differ", *map(str.rstrip, changes)]),
            pytrace=False,
        )


def test_there_is_a_file_for_each_topic_and_no_other(request):
    if request.config.getoption("--update"):
        pytest.skip("they are being written")
    assert {file.stem for file in RANKINGS.iterdir()} == set(TOPICS)
