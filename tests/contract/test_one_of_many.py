"""What a run writes when one file of ten thousand has changed: that file's rows, and no others.

The tables are read with `sqlite3` before and after, keys included. A row belongs to the document that
it names; whatever the tables are, none may have changed but those of the one file. Left out are where
rows lie (small segments are merged now and then), when a file was last read (one that was written a
moment before is looked at again), and the checksum over that.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.corpora import open_corpus, write_files
from tamis.corpus import Corpus
from tamis.query import filters as f

FILES = 10_000
ABOUT_THE_INDEX = {"facts", "segments", "skipped"}  # no row of these is a document's
NOT_CONTENT = {"segment", "place", "read_ns", "sum"}

Row = tuple[tuple[str, Any], ...]
Tables = dict[str, set[Row]]


def name(number: int) -> str:
    return f"part{number % 100:02}/{'note' if number % 10 else 'code'}{number}{'.md' if number % 10 else '.py'}"


def text(number: int) -> str:
    if number % 10 == 0:
        return f"import code{(number + 10) % FILES}\n\n\ndef work_{number}():\n    return {number}\n"
    others = " ".join(f"[[note{(number * step) % FILES}]]" for step in (7, 11, 13))
    return f"---\naliases: [The {number}th]\ntags: [t{number % 5}]\n---\n# Note {number}\n\nalpha {others}\n"


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Iterator[Corpus]:
    root = write_files(
        tmp_path_factory.mktemp("many"), {name(n): text(n) for n in range(FILES)}
    )
    with open_corpus(root, model__name="none") as corpus:
        yield corpus


def tables(corpus: Corpus) -> Tables:
    with closing(sqlite3.connect(corpus.directory / "index.db")) as connection:
        names = {
            row[0]
            for row in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            )
        }
        return {
            table: set(_rows(connection, table))
            for table in sorted(names - ABOUT_THE_INDEX)
        }


def _rows(connection: sqlite3.Connection, table: str) -> Iterator[Row]:
    cursor = connection.execute(f'SELECT * FROM "{table}"')
    columns = [column[0] for column in cursor.description]
    for row in cursor:
        named = zip(columns, row, strict=True)
        yield tuple(
            (column, value) for column, value in named if column not in NOT_CONTENT
        )


def owners(before: Tables, after: Tables) -> dict[str, set[str]]:
    """By table, the paths of the documents whose rows are not what they were."""
    documents = (dict(row) for row in before["documents"] | after["documents"])
    path_of = {row["id"]: row["path"] for row in documents}
    return {
        table: {_owner(dict(row), path_of) for row in before[table] ^ after[table]}
        for table in before
        if before[table] != after[table]
    }


def _owner(row: dict[str, Any], path_of: dict[int, str]) -> str:
    return row["path"] if "path" in row else path_of[row["document"]]


def links_of(corpus: Corpus, path: str) -> set[tuple[str, str]]:
    with corpus.snapshot() as snapshot:
        found = snapshot.links([path], snapshot.allow(f.EVERYTHING))
        return {(edge.source, edge.target) for edge in found}


def change(corpus: Corpus, path: str, content: str | None) -> dict[str, set[str]]:
    """Write or remove a file, bring the index up to date, and say whose rows are not what they were."""
    before = tables(corpus)
    if content is None:
        (Path(corpus.root) / path).unlink()
    else:
        write_files(Path(corpus.root), {path: content})
    corpus.refresh()
    return owners(before, tables(corpus))


@pytest.mark.rows("C70")
@pytest.mark.slow
def test_one_file_of_ten_thousand_touches_its_own_rows_alone(many):
    """Changed, removed, added again, or new and waited for: its rows and its links, no others."""
    note = name(1234)
    assert len(tables(many)["documents"]) == FILES
    touched = change(
        many, note, "# Changed\n\nomega [[note1]] [[note4711]] [[not yet]]\n"
    )
    assert {"documents", "chunks", "links"} <= touched.keys()
    assert set().union(*touched.values()) == {note}
    assert {(note, name(1)), (note, name(4711))} <= links_of(many, note)
    for path, content in (
        (note, None),
        (note, text(1234)),
        (name(500), "import code90\n\nVALUE = 1\n"),
    ):
        assert set().union(*change(many, path, content).values()) == {path}
    waited_for = "part00/not yet.md"
    change(many, note, "omega [[not yet]]")
    assert set().union(*change(many, waited_for, "alpha").values()) == {waited_for}
    assert (note, waited_for) in links_of(many, waited_for)
    assert set().union(*change(many, waited_for, None).values()) == {waited_for}
    assert (note, waited_for) not in links_of(many, note)
