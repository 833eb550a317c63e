"""Our own judged set is what its README says: numbers, formats, no link that is broken by accident."""

import posixpath
import re
from collections import Counter

import pytest

from support.corpora import open_corpus, write_files
from support.judged import SET, TOPICS, documents, judgements, questions, topic_of

DOCUMENTS = documents()
QUESTIONS = questions()
JUDGED = judgements()
KINDS = {
    "factual", "navigational", "exploratory", "identifier", "typo", "paraphrase", "abbreviation",
    "unanswerable", "filter",
}  # fmt: skip
BROKEN = {  # on purpose: real folders have such links
    ("auth/overview.md", "threat-model.md"),
    ("auth/mfa.md", "../security/recovery-procedure.md"),
    ("deploy/getting-started.md", "workshop/day-one.md"),
    ("deploy/incidents.md", "reviews/index.md"),
    ("garden/minutes-2026-04.md", "herb-spiral.md"),
    ("pipeline/cost-notes.md", "forecast-2027"),
}


def plain(text):
    """Without code, where brackets mean something else."""
    return re.sub(
        r"`[^`\n]*`",
        "",
        re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE),
    )


def links(text):
    """Targets with their anchors, as written."""
    wiki = re.findall(r"\[\[([^\]|]+)", plain(text))
    markdown = re.findall(r"(?<!\])\]\(([^)\s]+)\)", plain(text))
    related = re.search(r"^related: \[([^\[\]]+)\]$", text, re.MULTILINE)
    return wiki + markdown + (related[1].split(", ") if related else [])


def meant(source, target):
    """The document that a link means, by its path from here, or by its name if only one has it."""
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if beside in DOCUMENTS:
        return beside
    named = [path for path in DOCUMENTS if posixpath.basename(path) == f"{target}.md"]
    return named[0] if len(named) == 1 else None


def headings(path):
    return re.findall(r"^#+ (.+)$", plain(DOCUMENTS[path]), re.MULTILINE)


def slug(heading):
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))


@pytest.mark.rows("R002-196")
def test_fifty_documents_in_five_topics():
    assert Counter(path.partition("/")[0] for path in DOCUMENTS) == dict.fromkeys(
        TOPICS, 10
    )
    assert all(300 <= len(text.split()) <= 1200 for text in DOCUMENTS.values())


def test_no_document_is_a_copy_of_another():
    assert len(set(DOCUMENTS.values())) == len(DOCUMENTS)


def test_every_topic_has_an_archive():
    assert {path.split("/")[0] for path in DOCUMENTS if "/archive/" in path} == set(
        TOPICS
    )


@pytest.mark.rows("R002-196")
def test_a_hundred_questions_of_every_kind():
    assert len({question["_id"] for question in QUESTIONS}) == len(QUESTIONS) == 100
    assert (
        len({(question["text"], question.get("filter")) for question in QUESTIONS})
        == 100
    )
    assert {question["kind"] for question in QUESTIONS} == KINDS
    assert Counter(map(topic_of, QUESTIONS)) == dict.fromkeys(TOPICS, 20)
    assert all(
        ("filter" in question) == (question["kind"] == "filter")
        for question in QUESTIONS
    )


def test_the_readme_counts_right():
    text = (SET / "README.md").read_text("utf-8")
    counted = Counter(question["kind"] for question in QUESTIONS)
    stated = {
        kind: int(number)
        for kind, number in re.findall(r"^\| (\w+) \| (\d+) \|", text, re.MULTILINE)
    }
    assert stated == counted


def test_judgements_are_of_documents_that_exist():
    assert (
        (SET / "qrels.tsv")
        .read_text("utf-8")
        .startswith("query-id\tcorpus-id\tscore\n")
    )
    assert {path for _, path, _ in JUDGED} <= DOCUMENTS.keys()
    assert {grade for _, _, grade in JUDGED} == {1, 2, 3}
    assert len({(question, path) for question, path, _ in JUDGED}) == len(JUDGED)


def test_a_question_is_judged_exactly_if_it_has_an_answer():
    answerable = {
        question["_id"] for question in QUESTIONS if question["kind"] != "unanswerable"
    }
    assert {question for question, _, _ in JUDGED} == answerable
    assert {question for question, _, grade in JUDGED if grade == 3} == answerable
    assert max(Counter(question for question, _, _ in JUDGED).values()) <= 6


def test_an_archived_page_counts_only_where_the_archive_is_asked_for():
    asking = {
        question["_id"]
        for question in QUESTIONS
        if "archived" in question.get("filter", "")
    }
    assert {question for question, path, _ in JUDGED if "/archive/" in path} == asking


@pytest.mark.parametrize("path", DOCUMENTS)
def test_links_lead_where_they_should(path):
    for link in links(DOCUMENTS[path]):
        target, _, anchor = link.partition("#")
        found = meant(path, target)
        assert (found is None) == ((path, target) in BROKEN), link
        if found and anchor:
            assert anchor in headings(found) or anchor in map(slug, headings(found)), (
                link
            )


def test_every_broken_link_is_still_there():
    assert all(target in links(DOCUMENTS[path]) for path, target in BROKEN)


def test_sections_that_stand_twice_are_the_same_to_the_letter():
    def section(path, heading):
        return (
            DOCUMENTS[path]
            .partition(f"\n## {heading}\n")[2]
            .partition("\n## ")[0]
            .strip()
        )

    assert section("auth/tokens.md", "Clock skew").startswith("Machines disagree")
    assert section("auth/tokens.md", "Clock skew") == section(
        "auth/client-library.md", "Clock skew"
    )
    assert section("deploy/environments.md", "Who to ask") == section(
        "deploy/secrets.md", "Who to ask"
    )


def test_every_filter_allows_what_is_judged_under_it(tmp_path):
    with open_corpus(write_files(tmp_path, DOCUMENTS), model__name="none") as corpus:
        for question in QUESTIONS:
            if "filter" in question:
                wanted = {path for one, path, _ in JUDGED if one == question["_id"]}
                found = corpus.search(
                    "the " + question["text"], filter=question["filter"], limit=100
                )
                assert wanted <= {result.path for result in found.results}, question
