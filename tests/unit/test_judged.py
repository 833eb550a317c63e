"""Judged sets: what is read, what becomes a file, and what is wrong with a line."""

import errno
import gzip
import json
import os
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.corpora import SHARED, as_lines, write_files, write_judged
from tamis.errors import BadJudgedSet, StorageFault
from tamis.measure.judged import file_names, open_judged

LAW = settings(derandomize=True, max_examples=200, deadline=None)
DOCUMENTS = [
    {"_id": "d1", "title": "First one", "text": "alpha"},
    {"_id": "d2", "title": "", "text": "beta"},
    {
        "_id": "d3",
        "title": "Third",
        "text": "---\ntags: [x]\n---\ngamma",
        "path": "notes/third.md",
    },
]
QUESTIONS = [
    {"_id": "q1", "text": "where is alpha", "intent": "lookup"},
    {"_id": "q2", "text": "beta and gamma", "filter": "path:notes/**"},
    {"_id": "q3", "text": "nobody judged this"},
]
JUDGEMENTS = [("q1", "d1", 2), ("q1", "d2", 0), ("q2", "d3", 1), ("q2", "gone", 3)]


@pytest.fixture
def work(tmp_path):
    return tmp_path / "work"


def files_below(root: Path) -> dict[str, str]:
    return {
        path.relative_to(root).as_posix(): path.read_text("utf-8")
        for path in root.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_a_set_becomes_a_folder_of_files(tmp_path, work, packed):
    given = write_judged(
        tmp_path / "set", DOCUMENTS, QUESTIONS, JUDGEMENTS, packed=packed
    )
    judged, place = open_judged(given, work)
    assert judged.name == "set"
    assert judged.root.is_relative_to(place)
    assert place.is_relative_to(work)
    assert files_below(judged.root) == {
        "d1.md": "# First one\n\nalpha",
        "d2.md": "beta",
        "notes/third.md": "---\ntags: [x]\n---\ngamma",
    }
    assert judged.ids == {"d1.md": "d1", "d2.md": "d2", "notes/third.md": "d3"}


def test_questions_with_what_was_judged(tmp_path, work):
    judged, _ = open_judged(
        write_judged(tmp_path / "set", DOCUMENTS, QUESTIONS, JUDGEMENTS), work
    )
    first, second = judged.questions
    assert (first.id, first.text, first.label, first.grades) == (
        "q1", "where is alpha", "lookup", {"d1": 2, "d2": 0}
    )  # fmt: skip
    assert (second.filter, second.grades) == ("path:notes/**", {"d3": 1})
    assert (judged.unjudged, judged.orphaned, judged.missing) == (1, 0, 1)


def test_a_question_whose_documents_are_all_gone_is_dropped(tmp_path, work):
    given = write_judged(
        tmp_path / "set", DOCUMENTS, QUESTIONS, [("q1", "gone", 1), ("q2", "d3", 1)]
    )
    judged, _ = open_judged(given, work)
    assert [asked.id for asked in judged.questions] == ["q2"]
    assert (judged.unjudged, judged.orphaned, judged.missing) == (1, 1, 1)


def test_a_tree_is_a_corpus(tmp_path, work):
    """Ids are paths; nothing is written into somebody's tree, and nothing outside of it is looked at."""
    root = write_files(tmp_path / "code", {"src/a.py": "a = 1", "b.py": "b = 2"})
    write_files(tmp_path, {"secret.py": "c = 3"})
    judgements = [
        ("q1", "src/a.py", 1),
        ("q1", "src/gone.py", 1),
        ("q2", "../secret.py", 1),
    ]
    given = write_judged(tmp_path / "set", None, QUESTIONS, judgements)
    judged, place = open_judged(given, work, root)
    assert judged.root == root.resolve()
    assert [asked.grades for asked in judged.questions] == [{"src/a.py": 1}]
    assert (judged.orphaned, judged.missing) == (1, 2)
    assert place.is_relative_to(work)
    assert set(files_below(root)) == {"src/a.py", "b.py"}


def test_documents_beside_the_questions_are_a_corpus(tmp_path, work):
    given = write_judged(tmp_path / "set", None, QUESTIONS, [("q1", "a.md", 1)])
    write_files(given / "documents", {"a.md": "alpha"})
    judged, _ = open_judged(given, work)
    assert judged.root == (given / "documents").resolve()
    assert len(judged.questions) == 1


def test_several_sets_of_questions_share_a_corpus(tmp_path, work):
    write_files(
        tmp_path / "all",
        {"corpus.jsonl.gz": gzip.compress(as_lines(DOCUMENTS).encode())},
    )
    opened = [
        open_judged(
            write_judged(tmp_path / "all" / name, None, QUESTIONS, JUDGEMENTS), work
        )
        for name in ("one", "two")
    ]
    assert [judged.name for judged, _ in opened] == ["all/one", "all/two"]
    assert opened[0][0].root == opened[1][0].root


def test_a_file_of_questions_names_a_set(tmp_path, work):
    given = write_judged(tmp_path / "set", DOCUMENTS, QUESTIONS, JUDGEMENTS)
    write_files(
        given, {"queries_full.jsonl": as_lines([{"_id": "q1", "text": "a whole page"}])}
    )
    judged, _ = open_judged(given / "queries_full.jsonl", work)
    assert judged.name == "set/queries_full"
    assert [asked.text for asked in judged.questions] == ["a whole page"]


def test_what_is_there_is_not_written_again(tmp_path, work):
    given = write_judged(tmp_path / "set", DOCUMENTS, QUESTIONS, JUDGEMENTS)
    judged, _ = open_judged(given, work)
    before = (judged.root / "d1.md").stat().st_mtime_ns
    os.utime(judged.root / "d1.md", ns=(before - 10**9, before - 10**9))
    assert open_judged(given, work)[0].root == judged.root
    assert (judged.root / "d1.md").stat().st_mtime_ns == before - 10**9


def test_another_corpus_has_another_place(tmp_path, work):
    given = write_judged(tmp_path / "set", DOCUMENTS, QUESTIONS, JUDGEMENTS)
    first, _ = open_judged(given, work)
    second, _ = open_judged(
        write_judged(given, DOCUMENTS[:2], QUESTIONS, JUDGEMENTS), work
    )
    assert first.root != second.root
    assert set(files_below(second.root)) == {"d1.md", "d2.md"}


def test_half_a_corpus_is_not_taken_for_one(tmp_path, work, monkeypatch):
    """The disk fails at the second document; the next run writes them all."""
    given = write_judged(tmp_path / "set", DOCUMENTS, QUESTIONS, JUDGEMENTS)
    whole, written = Path.write_bytes, []

    def fails(file, content):
        if written:
            raise OSError(errno.ENOSPC, "full")
        written.append(file)
        return whole(file, content)

    with monkeypatch.context() as broken:
        broken.setattr(Path, "write_bytes", fails)
        with pytest.raises(StorageFault):
            open_judged(given, work)
    judged, place = open_judged(given, work)
    assert len(files_below(judged.root)) == len(DOCUMENTS)
    assert list(place.iterdir()) == [judged.root]


def test_few_questions_are_spread_over_the_set(tmp_path, work):
    questions = [{"_id": f"q{at}", "text": f"number {at}"} for at in range(10)]
    judgements = [(f"q{at}", "d1", 1) for at in range(10)]
    given = write_judged(tmp_path / "set", DOCUMENTS, questions, judgements)
    for most, expected in (
        (3, [0, 3, 6]),
        (1, [0]),
        (10, list(range(10))),
        (99, list(range(10))),
    ):
        judged, _ = open_judged(given, work, most=most)
        assert [asked.id for asked in judged.questions] == [f"q{at}" for at in expected]


# --- what is wrong --------------------------------------------------------------------------


def test_a_set_that_is_not_there(tmp_path, work):
    with pytest.raises(BadJudgedSet, match="no judged set") as caught:
        open_judged(tmp_path / "nothing", work)
    assert caught.value.hint


@pytest.mark.parametrize("name", ["queries.jsonl", "qrels.tsv", "corpus.jsonl"])
def test_a_part_that_is_not_there(tmp_path, work, name):
    given = write_judged(tmp_path / "set", DOCUMENTS, QUESTIONS, JUDGEMENTS)
    (given / name).unlink()
    with pytest.raises(
        BadJudgedSet, match=f"has no {'corpus' if name == 'corpus.jsonl' else name}"
    ) as caught:
        open_judged(given, work)
    assert caught.value.hint


def test_a_corpus_that_is_no_folder(tmp_path, work):
    given = write_judged(tmp_path / "set", None, QUESTIONS, JUDGEMENTS)
    with pytest.raises(BadJudgedSet, match="is not a folder"):
        open_judged(given, work, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("queries.jsonl", '{"_id": "q1", "text": "a"}\n{"_id": \n', 2),
        ("queries.jsonl", '["q1"]\n', 1),
        ("queries.jsonl", '{"_id": "q1"}\n', 1),
        ("queries.jsonl", '{"_id": "q1", "text": "  "}\n', 1),
        ("queries.jsonl", '{"_id": "q1", "text": ["a"]}\n', 1),
        (
            "queries.jsonl",
            '{"_id": "q1", "text": "a"}\n\n{"_id": "q1", "text": "b"}\n',
            3,
        ),
        ("queries.jsonl", "[" * 200_000, 1),
        ("corpus.jsonl", '{"_id": "d1", "text": "a"}\n{"text": "b"}\n', 2),
        ("corpus.jsonl", '{"_id": "d1", "text": "a"}\n{"_id": "d1", "text": "b"}\n', 2),
        ("corpus.jsonl", b'{"_id": "d1", "text": "\xff"}\n', 1),
        ("qrels.tsv", "a\tb\tc\nq1\td1\n", 2),
        ("qrels.tsv", "q1\td1\t1\nq1\td2\thigh\n", 2),
        ("qrels.tsv", "q1\td1\t1\nq1\td2\t1.5\n", 2),
        ("qrels.tsv", "q1\td1\t1\nq1\td2\t" + "9" * 5000 + "\n", 2),
        ("qrels.tsv", "q1 d1 1\n", 1),
        ("qrels.tsv", "q1\td1\t1\nq2\td1\t0\nq1\td1\t0\n", 3),
    ],
)
def test_a_bad_line_is_named(tmp_path, work, name, text, line):
    given = write_judged(tmp_path / "set", DOCUMENTS, QUESTIONS, JUDGEMENTS)
    write_files(given, {name: text})
    with pytest.raises(BadJudgedSet) as caught:
        open_judged(given, work)
    assert f"{name}, line {line}: " in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-20],
        lambda data: b"no gzip",
        lambda data: data[:12] + b"\xff" * 40,
    ],
)
def test_a_damaged_archive(tmp_path, work, damage):
    given = write_judged(
        tmp_path / "set", DOCUMENTS * 1, QUESTIONS, JUDGEMENTS, packed=True
    )
    file = given / "corpus.jsonl.gz"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(
        BadJudgedSet, match=r"corpus.jsonl.gz, line \d+: it cannot be read"
    ):
        open_judged(given, work)


def test_judgements_without_a_heading(tmp_path, work):
    given = write_judged(tmp_path / "set", DOCUMENTS, QUESTIONS, [])
    write_files(given, {"qrels.tsv": "q1\td1\t1\r\nq2\td2\t2\r\n"})
    judged, _ = open_judged(given, work)
    assert [asked.grades for asked in judged.questions] == [{"d1": 1}, {"d2": 2}]


def test_numbers_as_ids(tmp_path, work):
    given = write_judged(
        tmp_path / "set",
        [{"_id": 7, "text": "x"}],
        [{"_id": 1, "text": "y"}],
        [("1", "7", 1)],
    )
    judged, _ = open_judged(given, work)
    assert judged.ids == {"7.md": "7"}
    assert judged.questions[0].grades == {"7": 1}


# --- names ----------------------------------------------------------------------------------


HOSTILE = [
    "..", ".", "", "../../etc/passwd", "/etc/passwd", "a/../../b", "a//b", "nul\0byte", "new\nline",
    "x" * 5000, "é" * 200, "a\\..\\b", "C:\\x", ".tamis/index.db", ".git/config", "sub/.GIT/hooks/x",
    "a/" * 400 + "b", "-rf", "~/x", "\ud800", "con/", "a/b::0", "https://example.org/page#part", " ",
    "d:0-930", "tab\there",
]  # fmt: skip


@pytest.mark.parametrize("as_path", [False, True], ids=["id", "path"])
def test_hostile_names_stay_inside(tmp_path, work, as_path):
    documents = [
        {
            "_id": f"d{at}" if as_path else name,
            "path": name if as_path else None,
            "text": f"text {at}",
        }
        for at, name in enumerate(HOSTILE)
        if as_path or name.strip()
    ]
    given = write_judged(tmp_path / "set", documents, QUESTIONS, JUDGEMENTS)
    judged, _ = open_judged(given, work)
    found = files_below(judged.root)
    assert sorted(found.values()) == sorted(document["text"] for document in documents)
    assert len(judged.ids) == len(documents)
    assert {judged.ids[path] for path in found} == {
        document["_id"] for document in documents
    }
    outside = {path for path in tmp_path.rglob("*") if path.is_file()} - set(
        judged.root.rglob("*")
    )
    assert {path.parent for path in outside} == {given}


def test_documents_that_share_a_path_are_kept_apart():
    """Passages of one file: each is a document of its own, named after its id."""
    names = file_names([("a:0-9", "a.md"), ("a:9-20", "a.md"), ("b", "b.md")])
    assert names["b"] == "b.md"
    assert len({names["a:0-9"], names["a:9-20"], "a.md", "b.md"}) == 4


def test_a_file_is_no_folder():
    names = file_names([("one", "a"), ("two", "a/b.md"), ("three", "a/b.md/c.md")])
    assert names == {"one": "one.md", "two": "two.md", "three": "a/b.md/c.md"}


def test_an_id_never_takes_the_place_of_a_path():
    names = file_names([("x", ""), ("y", "x.md"), ("z", "X.MD")])
    assert names["y"] == "x.md"
    assert len({name.casefold() for name in names.values()}) == 3


PARTS = st.text(st.sampled_from("abA./-\\ é\0"), max_size=6)


@LAW
@given(st.lists(st.tuples(PARTS, PARTS), unique_by=lambda each: each[0], max_size=12))
def test_every_document_has_a_file_of_its_own(documents):
    names = file_names(documents)
    assert set(names) == {key for key, _ in documents}
    folded = [name.casefold() for name in names.values()]
    assert len(set(folded)) == len(folded)
    folders = {
        str(above).casefold()
        for name in names.values()
        for above in PurePosixPath(name).parents
    }
    assert not folders & set(folded), "no file where another needs a folder"
    for name in names.values():
        assert not os.path.isabs(name)
        assert os.path.normpath(name) == name
        assert ".." not in name.split("/")


@pytest.mark.parametrize(
    "name", ["docsmcp-vite", "chroma-chunks-a", "anthropic-codebase", "code/swe-pytest"]
)
def test_real_sets(tmp_path, work, name):
    """Counted here with nothing but the json module."""
    given = SHARED / "data" / name
    if not given.exists():
        pytest.skip("the judged sets of ../shared/data are not here")
    judged, _ = open_judged(given, work, tmp_path)
    questions = [
        json.loads(line)
        for line in (given / "queries.jsonl").read_text("utf-8").splitlines()
    ]
    if not (given / "corpus.jsonl").exists():
        assert (judged.questions, judged.orphaned) == ((), len(questions))
        return
    documents = [
        json.loads(line)
        for line in (given / "corpus.jsonl").read_text("utf-8").splitlines()
    ]
    assert len(files_below(judged.root)) == len(documents)
    assert set(judged.ids.values()) == {document["_id"] for document in documents}
    assert len(judged.questions) + judged.unjudged + judged.orphaned == len(questions)
    assert judged.missing == 0
