"""Filters as a Qdrant server knows them. What each selects is held by tests/contract/test_engine.py."""

import numpy as np
import pytest

from tamis.index.protocol import Prepared
from tamis.index.qdrant.points import (
    NOTHING,
    native,
    point_id,
    points_of,
    searchable,
    sparse,
    term_number,
    visible,
)
from tamis.model import Chunk, Document, Facts, FileState, FrontMatter
from tamis.query import filters as f
from tamis.weights import FIELD_WEIGHTS

ARCHIVE = ("archive/", "*.old")
LISTED = [
    Facts("docs/a.md"),
    Facts("docs/b.md"),
    Facts("archive/c.md"),
    Facts("d.py"),
    Facts("e.old"),
]


def compiled(filter: f.Filter) -> dict[str, object]:
    return native(filter, lambda: LISTED, ARCHIVE)


def unlisted(filter: f.Filter) -> dict[str, object]:
    """Compiled by somebody who must not ask for the list of documents."""

    def listed() -> list[Facts]:
        raise AssertionError("the server can say this itself")

    return native(filter, listed, ARCHIVE)


@pytest.mark.rows(
    "R003-005",
    "R003-006",
    "R003-008",
    "R003-019",
    "R003-026",
    "R004-018",
    "R004-020",
    "R004-023",
    "R004-034",
)
@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (f.Workspace("work", ("docs", "notes/day")),
         {"key": "parentDirectories", "match": {"any": ["/docs/", "/notes/day/"]}}),
        (f.Under("docs/"), {"key": "parentDirectories", "match": {"any": ["/docs/"]}}),
        (f.Under("./docs//api"), {"key": "parentDirectories", "match": {"any": ["/docs/api/"]}}),
        (f.Under(""), {"must": []}),
        (f.Workspace("all", ("", "docs")), {"must": []}),
        (f.Workspace("none", ()), NOTHING),
        (f.File(("a.md", "/docs/b")), {"key": "fileNames", "match": {"any": ["a.md", "/docs/b"]}}),
        (f.File(()), NOTHING),
        (f.Tag("draft"), {"key": "tagTree", "match": {"value": "draft"}}),
        (f.Type("symbols"), {"key": "chunk_type", "match": {"value": "symbols"}}),
        (f.Language("go"), {"key": "language", "match": {"value": "go"}}),
        (f.Author(" ADA "), {"key": "author", "match": {"value": "ada"}}),
        (f.Category("Guide"), {"key": "category", "match": {"value": "guide"}}),
        (f.After("2026", 1.5), {"key": "modified", "range": {"gte": 1.5}}),
        (f.Before("2026", 1.5), {"key": "modified", "range": {"lt": 1.5}}),
        (f.DocumentIs("docs/a.md"), {"key": "document", "match": {"value": "docs/a.md"}}),
        (f.Archived(ARCHIVE), {"key": "archived", "match": {"value": 1}}),
        (f.EVERYTHING, {"must": []}),
        (f.NOTHING, NOTHING),
        (~f.Type("data"), {"must_not": [{"key": "chunk_type", "match": {"value": "data"}}]}),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_an_atom_is_one_condition_on_an_indexed_field(filter, expected):
    """One tag is one condition of the server's, and nothing is left to be done afterwards."""
    assert unlisted(filter) == expected


@pytest.mark.rows(
    "R004-001..003", "R004-009", "R004-019", "R004-021", "R004-024", "R004-028..030"
)
def test_tags_and_types_together_are_all_native():
    """Every tag and every type, and not the first of each alone; nothing is left to be done
    afterwards."""
    tags = f.all_of((f.Tag("go"), f.Tag("error-handling")))
    types = f.any_of((f.Type("symbols"), f.Type("definitions")))
    go = {
        "should": [
            {"key": "tagTree", "match": {"value": "go"}},
            {"key": "language", "match": {"value": "go"}},
        ]
    }
    assert unlisted(tags & types) == {
        "must": [
            go,
            {"key": "tagTree", "match": {"value": "error-handling"}},
            {
                "should": [
                    {"key": "chunk_type", "match": {"value": name}}
                    for name in ("symbols", "definitions")
                ]
            },
        ]
    }


@pytest.mark.rows("R003-007")
@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (f.Path(("*.py",)), {"key": "filePath", "match": {"any": ["d.py"]}}),
        (
            f.Path(("*.md", "*.py")),
            {"must_not": [{"key": "filePath", "match": {"any": ["e.old"]}}]},
        ),
        (f.Path(("*.rs",)), NOTHING),
        (f.Path(("*",)), {"must": []}),
        (
            f.Archived(("archive/",)),
            {"key": "filePath", "match": {"any": ["archive/c.md"]}},
        ),
    ],
    ids=str,
)
def test_patterns_become_sets_of_documents(filter, expected):
    """The shorter of the two lists; other archive patterns than the indexer's are patterns,
    too."""
    assert compiled(filter) == expected


@pytest.mark.rows("R003-002", "R004-005", "R004-007")
def test_what_is_stored_for_filters():
    """Ancestors as the conditions write them, tags with those above."""
    front = FrontMatter(tags=("area/web", "draft"), author=" Ada ", category="GUIDE")
    document = Document("docs/api/Guide.md", "", front, 2.5, ())
    assert searchable(document, f.Archived(ARCHIVE)) == {
        "filePath": "docs/api/Guide.md",
        "document": "docs/api/Guide.md",
        "fileNames": ["Guide.md", "/docs/api/Guide.md", "Guide", "/docs/api/Guide"],
        "parentDirectories": ["/docs/", "/docs/api/"],
        "tagTree": ["area", "area/web", "draft"],
        "author": "ada",
        "category": "guide",
        "modified": 2.5,
        "archived": 0,
    }
    old = Document("a.old", "", FrontMatter(), 0.0, ())
    archived = searchable(old, f.Archived(ARCHIVE))["archived"]
    assert archived is not True, "0 and 1, never true and false"
    assert archived == 1


def test_a_point_has_one_id_and_another_generation_another():
    assert point_id("root", "a.md", 0, 1) == point_id("root", "a.md", 0, 1)
    others = [
        ("root", "a.md", 0, 2),
        ("root", "a.md", 1, 1),
        ("other", "a.md", 0, 1),
        ("root", "a.md", "0", "11"),
    ]
    assert point_id("root", "a.md", 0, 1) not in {point_id(*parts) for parts in others}


@pytest.mark.rows("R003-033")
def test_every_condition_names_its_root():
    """The tenant comes first."""
    assert visible("notes", 7, "chunk")["must"][0] == {
        "key": "root",
        "match": {"value": "notes"},
    }


def test_a_passage_without_a_word_counts_all_the_same():
    texts = ["...", "alpha"]
    chunks = []
    for ordinal, text in enumerate(texts):
        chunks.append(Chunk(ordinal, text, "", ordinal + 1, ordinal + 1, "data"))
    document = Document("...", "", FrontMatter(), 0.0, tuple(chunks))
    state = FileState(0, 0, 0, 0, 0, b"", "")
    prepared = Prepared(document, state, np.zeros((2, 0), np.float32))
    wordless, worded, _ = points_of(
        "root", 1, [prepared], FIELD_WEIGHTS, f.Archived(ARCHIVE)
    )
    assert wordless.terms["words"] == {0: 1.0}
    assert list(worded.terms["words"]) == [term_number("alpha")]
    assert sparse([("alpha", 2.0)]) == {term_number("alpha"): 2.0}
    assert term_number("\ud800") != 0
