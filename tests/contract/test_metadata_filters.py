"""Tags, types, languages, authors, categories, dates and scores: each against a table read row by row."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.corpora import open_corpus, write_files
from tamis.corpus import Corpus
from tamis.errors import BadFilter, UsageError
from tamis.model import Found
from tamis.models.hashing import HashingEmbedder
from tamis.query.language import parse_filter
from tamis.text.languages import CHUNK_TYPES, LANGUAGES


@dataclass(frozen=True)
class Row:
    """What we know of a file because we wrote it."""

    path: str
    tags: tuple[str, ...] = ()  # as written
    author: str = ""
    category: str = ""
    day: str = "2026-03-01"  # its date, or the moment
    kind: str = "documentation"
    language: str | None = None
    category_key: str = "category"

    @property
    def moment(self) -> datetime:
        read = datetime.fromisoformat(self.day)
        return read if read.tzinfo else read.replace(tzinfo=UTC)

    @property
    def archived(self) -> bool:
        return self.path.startswith("archive/")

    @property
    def text(self) -> str:
        own = f"alpha {self.path.replace('/', ' ')}"
        if not self.path.endswith(".md"):
            return f"{own}\n"
        front = [f"tags: [{', '.join(self.tags)}]"] if self.tags else []
        front += [f"author: {self.author}"] if self.author else []
        front += [f"{self.category_key}: {self.category}"] if self.category else []
        return "\n".join(("---", *front, f"modified: {self.day}", "---", own, ""))


ROWS = (
    Row("docs/a.md", ("Go", "code", "error-handling"), "Ada Lovelace", "Guide", "2026-01-01"),
    Row("docs/b.md", ("code", "go"), "ada lovelace", "note", "2026-01-31"),
    Row("docs/c.md", ("error-handling", "GO"), "Grace Hopper", "guide", "2026-02-01"),
    Row("docs/d.md", ("architecture",), "Grace Hopper", "reference", "2026-02-28", category_key="type"),
    Row("docs/e.md", ("\"two words\"", "go"), "", "", "2026-12-31"),
    Row("notes/f.md", ("2026", "7", "1.5"), "Ada", "2026", "2025-12-31"),
    Row("notes/g.md", ("draft", "architecture", "code"), "Jos\u00e9", "\u00dcber", "2026-05-01T12:30:00Z"),
    Row("notes/h.md", ("draft",), "Ada", "Guide", "2026-05-01T23:30:00-02:00"),
    Row("notes/i.md", (), "", "", "2026-05-02T01:29:59+00:00"),
    Row("archive/j.md", ("go", "code"), "Ada Lovelace", "Guide", "2020-06-15"),
    Row("src/k.py", day="2026-04-01", kind="definitions", language="python"),
    Row("src/l.go", day="2026-04-30", kind="definitions", language="go"),
    Row("src/m.rs", day="2026-05-01", kind="definitions", language="rust"),
    Row("conf/n.yaml", day="2026-06-01", kind="data", language="yaml"),
    Row("conf/o.json", day="2027-01-01", kind="data", language="json"),
    Row("plain.txt", day="2024-02-29"),
)  # fmt: skip
SPACES = {"docs": ["docs"], "work": ["notes", "src"], "none": []}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Iterator[Corpus]:
    root = tmp_path_factory.mktemp("metadata").resolve()
    spaces = "\n".join(
        f"{name} = {json.dumps(folders)}" for name, folders in SPACES.items()
    )
    write_files(
        root,
        {row.path: row.text for row in ROWS}
        | {"tamis.toml": f"[workspaces]\n{spaces}\n"},
    )
    for row in ROWS:  # a file without front matter has its own time
        os.utime(
            root / row.path,
            (row.moment.timestamp(),) * 2 if not row.path.endswith(".md") else (0, 0),
        )
    with open_corpus(root, ignore__patterns=("tamis.toml",)) as corpus:
        yield corpus


def paths(found: Found) -> set[str]:
    return {result.path for result in found.results}


def ask(corpus: Corpus, **arguments: Any) -> set[str]:
    return paths(corpus.search("alpha", limit=100, **arguments))


def rows(keep=lambda row: True, *, archived: bool = False) -> set[str]:
    return {row.path for row in ROWS if keep(row) and (archived or not row.archived)}


def spoken(tag: str) -> str:
    return tag.strip('"').lower()


def tagged(*tags: str):
    return lambda row: (
        {spoken(tag) for tag in tags}
        <= {spoken(tag) for tag in row.tags} | implied(row)
    )


def implied(row: Row) -> set[str]:
    """Code is tagged with its type and language, and so are documents."""
    if row.kind == "documentation":
        return (
            {"documentation", "markdown"}
            if row.path.endswith(".md")
            else {"documentation"}
        )
    return {row.kind, row.language} | ({"code"} if row.kind == "definitions" else set())


# --- Tags -----------------------------------------------------------------------------------------


@pytest.mark.rows(
    "C96",
    "C101",
    "C102",
    "R004-003",
    "R004-005",
    "R004-018",
    "R004-019",
    "R004-029",
    "R004-034",
    "X3",
)
@pytest.mark.parametrize(
    "tags",
    [
        ["go"], ["GO"], ["#go"], [" go "], ["code"], ["go", "code"], ["code", "go"], ["Code", "GO"],
        ["error-handling", "code", "go"], ["go", "go"], ["go", "architecture"], ["draft", "code"],
        ["two words"], ["Two Words", "go"], ["architecture"], ["error"], ["2026"], ["7", "2026"], ["1.5"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_tags_must_all_be_there(tags, corpus):
    """Any order, any case, any position, numbers too; a part of a tag is no tag."""
    wanted = [tag.strip(" #") for tag in tags]
    expected = rows(tagged(*wanted))
    assert ask(corpus, tags=tags) == expected
    assert ask(corpus, tags=tuple(reversed(tags))) == expected
    assert ask(corpus, tags=set(tags), exclude_archived=False) == rows(
        tagged(*wanted), archived=True
    )
    assert ask(corpus, filter=" ".join(f'tag:"{tag}"' for tag in tags)) == expected
    assert (
        paths(
            corpus.search(
                "alpha " + " ".join(f'tag:"{tag}"' for tag in tags), limit=100
            )
        )
        == expected
    )


def test_one_tag_as_text(corpus):
    assert ask(corpus, tags="go") == ask(corpus, tags=["go"]) == rows(tagged("go"))


@pytest.mark.rows("R004-007")
@pytest.mark.parametrize(
    ("written", "tags"),
    [
        ("tags: [2026, 7]", ["2026", "7"]),
        ("tags: 2026", ["2026"]),
        ("tags: [1.5, -3]", ["1.5", "-3"]),
        ("tags: [true]", ["true"]),
        ("tags: [2026-05-01]", ["2026-05-01"]),
        ("tags: '2026, 7'", ["2026", "7"]),
        ("tags:\n  - 2026\n  - x", ["2026", "x"]),
    ],
)
def test_tags_that_are_no_text_in_yaml(written, tags, corpus_of):
    """A number, a truth or a date in the front matter is the tag that one reads there."""
    corpus = corpus_of(
        {
            "a.md": f"---\n{written}\n---\nalpha",
            "b.md": "---\ntags: [other]\n---\nalpha beta",
        }
    )
    for tag in tags:
        assert ask(corpus, tags=[tag]) == {"a.md"}, tag
    assert ask(corpus, tags=tags) == {"a.md"}
    with pytest.raises(UsageError):
        corpus.search("alpha", tags=[2026])


@pytest.mark.rows("C102")
def test_an_unknown_tag_is_legal_and_said(corpus):
    """Nothing, never everything, with a hint that names it."""
    for tags in (["nowhere"], ["go", "nowhere"], ["Nowhere"]):
        found = corpus.search("alpha", tags=tags)
        assert found.results == ()
        assert found.stats["eligible_documents"] == found.stats["original_count"] == 0
        assert [
            hint for hint in map(str, found.hints) if hint.endswith("the tag nowhere")
        ]
        assert not [
            hint for hint in map(str, found.hints) if hint.endswith("the tag go")
        ]
    assert ask(corpus, filter="-tag:nowhere") == rows()
    assert corpus.search("alpha", filter="-tag:nowhere").hints == ()


# --- Chunk types and languages --------------------------------------------------------------------


@pytest.mark.rows("C95", "X7", "R004-020", "R004-030", "R004-031")
@pytest.mark.parametrize(
    "types",
    [["documentation"], ["definitions"], ["data"], ["definitions", "data"], ["data", "definitions"],
     ["symbols", "definitions"], ["symbols"], ["code_block", "symbols"], list(CHUNK_TYPES)],
    ids=" ".join,
)  # fmt: skip
def test_chunk_types_are_alternatives(types, corpus):
    """One of them, in any order."""
    assert ask(corpus, chunk_types=types) == rows(lambda row: row.kind in types)
    assert ask(corpus, chunk_types=types[::-1]) == rows(lambda row: row.kind in types)
    assert ask(corpus, filter=" | ".join(f"type:{kind}" for kind in types)) == rows(
        lambda row: row.kind in types
    )
    assert {
        result.chunk_type
        for result in corpus.search("alpha", chunk_types=types, limit=100).results
    } == {row.kind for row in ROWS if row.kind in types}


@pytest.mark.rows("C102")
@pytest.mark.parametrize(
    "wrong", ["Documentation", "docs", "definition", "DATA", "", "nonsense"]
)
def test_an_unknown_type_lists_the_allowed(wrong, corpus):
    for types in ([wrong], ["data", wrong]):
        with pytest.raises(BadFilter) as caught:
            corpus.search("alpha", chunk_types=types)
        if wrong:
            assert repr(wrong) in caught.value.message
            assert all(kind in caught.value.hint for kind in CHUNK_TYPES)


@pytest.mark.parametrize(
    "languages", [["python"], ["Python"], ["python", "go"], ["rust", "yaml"], ["zig"]]
)
def test_languages_are_alternatives(languages, corpus):
    """One of them, in any case; a tag of the same name is another matter."""
    wanted = {language.lower() for language in languages}
    assert ask(corpus, languages=languages) == rows(lambda row: row.language in wanted)


@pytest.mark.parametrize("wrong", ["pyhton", "", "c+"])
def test_an_unknown_language_lists_the_allowed(wrong, corpus):
    with pytest.raises(BadFilter) as caught:
        corpus.search("alpha", languages=["python", wrong])
    if wrong:
        assert all(language in caught.value.hint for language in LANGUAGES)


@pytest.mark.rows("R004-001", "R004-002", "R004-021", "R004-028")
def test_type_tag_and_language_together(corpus):
    """Every term holds."""
    assert ask(corpus, chunk_types=["documentation"], tags=["architecture"]) == {
        "docs/d.md",
        "notes/g.md",
    }
    assert ask(corpus, chunk_types=["definitions"], languages=["go", "yaml"]) == {
        "src/l.go"
    }
    assert ask(corpus, chunk_types=["data"], tags=["go"]) == set()
    assert ask(corpus, languages=["go"], tags=["go"]) == {
        "src/l.go"
    }  # code has its language for a tag
    assert ask(corpus, languages=["go"], tags=["architecture"]) == set()


# --- Author and category --------------------------------------------------------------------------


@pytest.mark.rows("C48", "R002-125", "R002-126")
@pytest.mark.parametrize(
    "name",
    [
        "Ada",
        "ada lovelace",
        "ADA LOVELACE",
        "Grace Hopper",
        "Grace",
        "jos\u00c9",
        "Nobody",
    ],
)
def test_author(name, corpus):
    """The whole name, in any case."""
    expected = rows(lambda row: row.author.lower() == name.lower())
    assert ask(corpus, author=name) == expected
    assert ask(corpus, filter=f'author:"{name}"') == expected
    assert ask(corpus, filter=f'-author:"{name}"') == rows() - expected


@pytest.mark.rows("C48", "R002-117", "R002-122", "R002-126", "R002-127")
@pytest.mark.parametrize(
    "name",
    ["guide", "GUIDE", "note", "reference", "\u00fcber", "2026", "gui", "nothing"],
)
def test_category(name, corpus):
    """`type` stands in where there is no `category`."""
    expected = rows(lambda row: row.category.lower() == name.lower())
    assert ask(corpus, category=name) == expected
    assert ask(corpus, filter=f"category:{name}") == expected


def test_an_accent_in_either_spelling(corpus):
    assert (
        ask(corpus, author="jose\u0301")
        == ask(corpus, author="Jos\u00e9")
        == {"notes/g.md"}
    )
    assert (
        ask(corpus, category="U\u0308BER")
        == ask(corpus, category="\u00fcber")
        == {"notes/g.md"}
    )


@pytest.mark.rows("R002-117")
def test_a_category_comes_before_a_type(corpus_of):
    corpus = corpus_of(
        {
            "a.md": "---\ntype: one\ncategory: two\n---\nalpha",
            "b.md": "---\ntype: one\n---\nalpha beta",
            "c.md": "---\ncategory: ''\ntype: one\n---\nalpha gamma",
        }
    )
    assert ask(corpus, category="one") == {"b.md", "c.md"}
    assert ask(corpus, category="two") == {"a.md"}


# --- Dates ----------------------------------------------------------------------------------------


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


DATES = {  # what is written, when it begins, when it is over
    "2026-01-31": (utc(2026, 1, 31), utc(2026, 2, 1)),
    "2026-02-01": (utc(2026, 2, 1), utc(2026, 2, 2)),
    "2026-02": (utc(2026, 2, 1), utc(2026, 3, 1)),
    "2026-12": (utc(2026, 12, 1), utc(2027, 1, 1)),
    "2026": (utc(2026, 1, 1), utc(2027, 1, 1)),
    "2024-02-29": (utc(2024, 2, 29), utc(2024, 3, 1)),
    "20260501": (utc(2026, 5, 1), utc(2026, 5, 2)),
    "2026-05-01": (utc(2026, 5, 1), utc(2026, 5, 2)),
    " 2026-05-01 ": (utc(2026, 5, 1), utc(2026, 5, 2)),
    "2026-05-01T12:30:00Z": (utc(2026, 5, 1, 12, 30), utc(2026, 5, 1, 12, 30)),
    "2026-05-01T12:30:00": (utc(2026, 5, 1, 12, 30), utc(2026, 5, 1, 12, 30)),
    "2026-05-01 12:31": (utc(2026, 5, 1, 12, 31), utc(2026, 5, 1, 12, 31)),
    "2026-05-01T23:30:00-02:00": (utc(2026, 5, 2, 1, 30), utc(2026, 5, 2, 1, 30)),
    "2026-05-02T01:30:00+00:00": (utc(2026, 5, 2, 1, 30), utc(2026, 5, 2, 1, 30)),
    "2026-05-02T03:30:00+02:00": (utc(2026, 5, 2, 1, 30), utc(2026, 5, 2, 1, 30)),
    "1999": (utc(1999, 1, 1), utc(2000, 1, 1)),
    "2030-01-01": (utc(2030, 1, 1), utc(2030, 1, 2)),
    "2026-W05": (utc(2026, 1, 26), utc(2026, 2, 2)),
    "2026W18": (utc(2026, 4, 27), utc(2026, 5, 4)),
    "2026-W05-7": (utc(2026, 2, 1), utc(2026, 2, 2)),
}


@pytest.mark.rows("C48", "R002-118", "R002-125")
@pytest.mark.parametrize("written", DATES)
def test_dates(written, corpus):
    """Days, weeks, months and years count whole, ends included; moments do not."""
    begins, ends = DATES[written]
    later = rows(lambda row: row.moment >= begins)
    earlier = rows(lambda row: row.moment < ends)
    assert ask(corpus, modified_after=written) == later
    assert ask(corpus, modified_before=written) == earlier
    assert (
        ask(corpus, modified_after=written, modified_before=written) == later & earlier
    )
    assert later | earlier == rows()


def test_a_span(corpus):
    expected = rows(lambda row: utc(2026, 1, 31) <= row.moment < utc(2026, 5, 2))
    assert (
        ask(corpus, modified_after="2026-01-31", modified_before="2026-05-01")
        == expected
    )
    assert (
        ask(corpus, modified_after="2026-05-01", modified_before="2026-01-31") == set()
    )


@pytest.mark.parametrize(
    "wrong",
    [
        "2026-13-45",
        "2026-02-30",
        "2026-00-10",
        "2025-02-29",
        "yesterday",
        "1.5.2026",
        "",
        " ",
        "2026-5-1",
    ],
)
def test_what_is_no_date_is_an_error(wrong, corpus):
    for name in ("modified_after", "modified_before"):
        with pytest.raises(BadFilter) as caught:
            corpus.search("alpha", **{name: wrong})
        assert caught.value.hint
        if wrong.strip():
            assert (
                repr(wrong) in caught.value.message
                and "2026-05-01" in caught.value.hint
            )


# --- The score ------------------------------------------------------------------------------------


@pytest.mark.rows("C42", "C99", "X4", "R002-139", "R002-140", "R004-003", "R004-013")
def test_an_absent_score_is_not_zero(corpus_of):
    """Absent is as configured, 0 switches it off."""
    files = {f"{number}.md": f"alpha {'beta ' * number}" for number in range(8)}
    words = {
        "search__semantic_weight": 0
    }  # one lane, so that no two have the same score
    lenient = corpus_of(files, **words)
    scores = {
        result.path: result.score
        for result in lenient.search("alpha beta", limit=100).results
    }
    ranked = sorted(scores.values(), reverse=True)
    assert len(set(ranked)) == 8
    strict = corpus_of(files, search__min_confidence=ranked[2], **words)
    for least in (0, 0.0, 1, *ranked):
        expected = {path for path, score in scores.items() if score >= least}
        for corpus in (strict, lenient):
            found = corpus.search("alpha beta", limit=100, min_score=least)
            assert paths(found) == expected, least
            assert found.stats["after_threshold"] == len(expected)
            assert found.stats["original_count"] == 8
    few = {path for path, score in scores.items() if score >= ranked[2]}
    assert len(few) == 3
    assert paths(strict.search("alpha beta", limit=100)) == few
    assert paths(strict.search("alpha beta", limit=100, min_score=None)) == few
    assert paths(lenient.search("alpha beta", limit=100)) == set(files)


@pytest.mark.rows("C99")
@pytest.mark.parametrize(
    "wrong", [-0.01, 1.01, "0.5", True, [0.5], float("nan"), float("inf")]
)
def test_a_score_that_is_none(wrong, corpus):
    """The scale is that of `score`."""
    with pytest.raises(UsageError) as caught:
        corpus.search("alpha", min_score=wrong)
    assert "0 to 1" in caught.value.hint


@pytest.mark.rows("C95", "C96", "C99", "C100", "R004-012", "R004-022")
def test_types_tags_score_and_limit_at_once(corpus):
    """Any of the types, all of the tags, no less than the score, and no more than the limit.
    (Rows of chunks that nobody has are found and mended by the doctor.)"""
    asked = {"chunk_types": ["documentation", "definitions"], "tags": ["go", "code"]}
    full = corpus.search("alpha docs", limit=100, **asked)
    assert paths(full) == {"docs/a.md", "docs/b.md", "src/l.go"}
    assert {result.chunk_type for result in full.results} == {
        "documentation",
        "definitions",
    }
    scores = [result.score for result in full.results]
    for least in scores:
        found = corpus.search("alpha docs", limit=100, min_score=least, **asked)
        assert [result.score for result in found.results] == [
            score for score in scores if score >= least
        ]
    for limit in (1, 2, 3):
        found = corpus.search("alpha docs", limit=limit, **asked)
        assert [result.path for result in found.results] == [
            result.path for result in full.results
        ][:limit]


@pytest.mark.rows("R004-014", "X4")
def test_a_result_has_its_passage_and_how_near_it_is(corpus_of):
    """The text of the chunk; its similarity is the cosine, in the evidence of the meaning lane,
    and `score` is made of it."""
    files = {"a.md": "alpha beta gamma", "b.md": "alpha delta", "c.md": "omega"}
    found = corpus_of(files, search__keyword_weight=0, search__max_hops=0).search(
        "alpha beta"
    )
    embedder = HashingEmbedder()
    question = embedder.embed_query("alpha beta").astype(float)
    assert len(found.results) == 3
    for result in found.results:
        (evidence,) = result.evidence
        (vector,) = embedder.embed_passages([f"{result.doc_id}\n\n{result.content}"])
        assert result.content == files[result.path]
        assert evidence.score == pytest.approx(
            float(question @ vector.astype(float)), abs=1e-6
        )
    near = [result.evidence[0].score for result in found.results]
    assert near == sorted(near, reverse=True)


# --- Wrong kinds ----------------------------------------------------------------------------------

WRONG: dict[str, list[Any]] = {
    "tags": [3, [3], [None], {"go": 1}, [["go"]], True],
    "chunk_types": [3, [3], ["data", None], {"data": 1}],
    "languages": [3, [3], object()],
    "under": [3, [3], {"docs": 1}],
    "author": [3, ["Ada"], b"Ada", True],
    "category": [3, ["guide"]],
    "modified_after": [20260501, ["2026"], datetime(2026, 5, 1, tzinfo=UTC)],
    "modified_before": [20260501, 2026.0],
    "limit": ["5", 0, -1, 101, 2.0, True, [5]],
    "max_chunks_per_doc": ["1", -1, 1.0, True],
    "filter": [3, ["tag:go"]],
    "exclude_archived": ["false", 0, "no", []],
    "unique": ["false", 1, []],
}


@pytest.mark.rows("R004-015")
@pytest.mark.parametrize(
    ("name", "wrong"),
    [(name, value) for name, values in WRONG.items() for value in values],
)
def test_a_value_of_the_wrong_kind_is_an_error(name, wrong, corpus):
    """No guessing; a text `false` is not taken for true, a number not for a date."""
    with pytest.raises(UsageError) as caught:
        corpus.search("alpha", **{name: wrong})
    assert caught.value.hint
    assert caught.value.http_status == 400


@pytest.mark.parametrize(
    "name", ["author", "category", "workspace", "modified_after", "modified_before"]
)
def test_an_empty_text_is_an_error(name, corpus):
    for empty in ("", "  "):
        with pytest.raises(BadFilter):
            corpus.search("alpha", **{name: empty})


@pytest.mark.rows("R004-009", "R004-026")
@pytest.mark.parametrize("empty", [[], (), None], ids=repr)
def test_empty_lists_are_none(empty, corpus):
    """Byte for byte the answer without them."""
    plain = corpus.search("alpha go", limit=7).to_dict() | {"timings_ms": {}}
    for name in ("tags", "chunk_types", "languages", "under"):
        assert (
            corpus.search("alpha go", limit=7, **{name: empty}).to_dict()
            | {"timings_ms": {}}
            == plain
        )


# --- Everything together, row by row --------------------------------------------------------------


WRITTEN = sorted(DATES)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "workspace": st.sampled_from(["docs", "Work", "none"]),
        "tags": st.lists(
            st.sampled_from(["go", "Code", "draft", "architecture", "2026"]), max_size=2
        ),
        "chunk_types": st.lists(st.sampled_from(CHUNK_TYPES), max_size=3),
        "languages": st.lists(st.sampled_from(["python", "go", "yaml"]), max_size=2),
        "author": st.sampled_from(["ada", "ADA LOVELACE", "grace hopper"]),
        "category": st.sampled_from(["guide", "note", "Reference"]),
        "modified_after": st.sampled_from(WRITTEN),
        "modified_before": st.sampled_from(WRITTEN),
        "excluded_files": st.lists(
            st.sampled_from(["a.md", "docs/b.md", "k", "./plain.txt", "o.json"]),
            max_size=3,
        ),
        "exclude_patterns": st.lists(
            st.sampled_from(["notes/", "*.go", "docs/[a-c].md"]), max_size=2
        ),
        "include_patterns": st.lists(
            st.sampled_from(["*.md", "src/", "archive/"]), max_size=2
        ),
        "under": st.lists(st.sampled_from(["docs", "src", "conf"]), max_size=2),
        "exclude_archived": st.booleans(),
    },
)

EXCLUDES = {
    "a.md": "docs/a.md",
    "docs/b.md": "docs/b.md",
    "k": "src/k.py",
    "./plain.txt": "plain.txt",
    "o.json": "conf/o.json",
}
SELECTS = {
    "notes/": lambda path: path.startswith("notes/"),
    "*.go": lambda path: path.endswith(".go"),
    "docs/[a-c].md": lambda path: path in ("docs/a.md", "docs/b.md", "docs/c.md"),
    "*.md": lambda path: path.endswith(".md"),
    "src/": lambda path: path.startswith("src/"),
    "archive/": lambda path: path.startswith("archive/"),
}


def passes(row: Row, given: dict[str, Any]) -> bool:
    """What the arguments mean for one row, said once more in the plainest words."""
    folder = row.path.rpartition("/")[0]
    included = given.get("include_patterns") or []
    hidden = given.get("exclude_archived", not included)
    checks = [
        "workspace" not in given or folder in SPACES[given["workspace"].lower()],
        tagged(*given.get("tags", []))(row),
        not given.get("chunk_types") or row.kind in given["chunk_types"],
        not given.get("languages") or row.language in given["languages"],
        "author" not in given or row.author.lower() == given["author"].lower(),
        "category" not in given or row.category.lower() == given["category"].lower(),
        "modified_after" not in given
        or row.moment >= DATES[given["modified_after"]][0],
        "modified_before" not in given
        or row.moment < DATES[given["modified_before"]][1],
        not any(row.path == EXCLUDES[name] for name in given.get("excluded_files", [])),
        not any(
            SELECTS[pattern](row.path) for pattern in given.get("exclude_patterns", [])
        ),
        not included or any(SELECTS[pattern](row.path) for pattern in included),
        not given.get("under") or folder in given["under"],
        not (row.archived and hidden),
    ]
    return all(checks)


EXAMPLES = settings(
    max_examples=250,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.mark.rows(
    "C97", "R002-125", "R003-027", "R004-001", "R004-002", "R004-025", "R004-037"
)
@EXAMPLES
@given(arguments, st.sampled_from([1, 3, 5, 100]))
def test_all_of_it_together_row_by_row(corpus, given, limit):
    """Every term holds at once, and the answer is full: min(limit, eligible)."""
    expected = {row.path for row in ROWS if passes(row, given)}
    found = corpus.search("alpha", limit=limit, **given)
    assert paths(found) <= expected
    assert len(found.results) == min(limit, len(expected))  # one passage a file
    assert found.stats["eligible_documents"] == len(expected)
    assert found.stats["excluded_documents"] == len(ROWS) - len(expected)
    assert paths(corpus.search("alpha", limit=100, **given)) == expected


@EXAMPLES
@given(arguments)
def test_the_filter_that_an_answer_names_is_the_filter(corpus, given):
    """The text parses back to itself, and asked by it alone the answer is the same."""
    found = corpus.search("alpha", limit=100, **given)
    assert str(parse_filter(found.filter, corpus.names)) == (
        found.filter or "everything"
    )
    again = corpus.search(
        "alpha", limit=100, filter=found.filter, exclude_archived=False
    )
    assert again.filter == found.filter
    assert [(r.chunk_id, r.score) for r in again.results] == [
        (r.chunk_id, r.score) for r in found.results
    ]
    assert again.stats == found.stats


@pytest.mark.rows("C97", "R004-006", "R004-025", "R004-037")
@pytest.mark.parametrize("limit", [1, 4, 5, 6, 50])
def test_restrictive_filters_fill_the_answer(limit, tmp_path):
    """Five files in two hundred have the tags, five come, and none but these five are looked
    at."""
    common = {
        f"n{number}.md": f"---\ntags: [common]\n---\nalpha alpha {number}"
        for number in range(195)
    }
    rare = {
        f"z{number}.md": f"---\ntags: [x, common, rare]\n---\nalpha {'filler ' * 20}{number}"
        for number in range(5)
    }
    with open_corpus(write_files(tmp_path, common | rare)) as corpus:
        found = corpus.search("alpha", tags=["rare", "common"], limit=limit)
        assert len(found.results) == min(limit, 5)
        assert paths(found) <= set(rare)
        assert found.stats["scanned_chunks"] == 5


@pytest.mark.rows("X6")
def test_the_command_line_has_every_term(corpus, tmp_path: Path, monkeypatch, capsys):
    """Options of the same meaning; several of one kind as documented."""
    from tamis.cli.main import main

    monkeypatch.setenv("TAMIS_MODEL_NAME", "hashing")

    def run(*options: str) -> set[str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["search", "alpha", str(corpus.root), "--json", "-n", "100", *options])
        assert end.value.code in (0, 1)
        return {
            result["path"] for result in json.loads(capsys.readouterr().out)["results"]
        }

    assert (
        run("--tag", "CODE", "--tag", "go") == ask(corpus, tags=["code", "go"]) != set()
    )
    assert run("--type", "data", "--type", "definitions") == ask(
        corpus, chunk_types=["data", "definitions"]
    )
    assert run("--lang", "go", "--lang", "yaml") == {"src/l.go", "conf/n.yaml"}
    assert run("--author", "ada") == {"notes/f.md", "notes/h.md"}
    assert run("--category", "guide", "--after", "2026-02") == {
        "docs/c.md",
        "notes/h.md",
    }
    assert run("--before", "2025") == rows(lambda row: row.moment < utc(2026, 1, 1))
    assert run("--tag", "nowhere") == set()
