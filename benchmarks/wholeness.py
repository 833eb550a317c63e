"""Is an index whole, and does it say the same as another? What the crash campaign and the soak are held to.

Every page of a `Pages` says on each of its parts which edition it is and how many parts there are, so whoever
reads an index can tell half a document from a whole one without asking the index.
"""

import os
import random
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from tamis.corpus import Corpus
from tamis.index.embedded.arrays import map_arrays
from tamis.index.embedded.database import WRITTEN
from tamis.index.protocol import LaneAsk
from tamis.model import Found
from tamis.query.filters import EVERYTHING
from tamis.text.words import words

WORDS = (
    "alpha",
    "beta",
    "gamma",
    "delta",
    "retry",
    "cache",
    "token",
    "queue",
    "index",
    "naïve",
)
MARK = re.compile(r"edition (\d+) part (\d+) of (\d+)")
SMALL = "[chunking]\nmin_chars = 0\nmax_chars = 300\noverlap_chars = 0\n"
IGNORE_FILE = ".graphragignore"
# Of what index.db holds: all but numbers that only count, and when a file was read.
_DOCUMENT = f"path, chunks, size, mtime_ns, hash, {', '.join(WRITTEN)}, recipe"
_OF_DOCUMENTS = {
    "chunks": "ordinal, type, language, start_line, end_line, header_path, content, text_hash, names, parent",
    "parents": "number, header_path, start_line, end_line, content",
    "links": "ordinal, type, target, anchor, name",
    "names": "name",
}


class Pages:
    """A folder of Markdown pages that change at random, the same way for the same dice."""

    def __init__(
        self, root: Path, dice: random.Random, files: int, folders: int = 4
    ) -> None:
        self.root, self.dice, self.files, self.folders = root, dice, files, folders
        self.edition = 0
        root.mkdir(parents=True, exist_ok=True)
        (root / "tamis.toml").write_text(SMALL, encoding="utf-8")
        for number in range(files):
            self.write(self.place(number))

    def place(self, number: int) -> Path:
        return self.root / f"d{number % self.folders}" / f"f{number}.md"

    def some_place(self) -> Path:
        return self.place(self.dice.randrange(2 * self.files))

    def there(self) -> list[Path]:
        return sorted(
            file for file in self.root.glob("[dm]*/*.md") if file.name[0] != "."
        )

    def write(self, file: Path, *, atomic: bool = False) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        target = file.with_name(f".{file.name}.new") if atomic else file
        target.write_text(self.page(file.stem), encoding="utf-8")
        if atomic:
            os.replace(target, file)

    def page(self, name: str) -> str:
        self.edition += 1
        parts = self.dice.randint(1, 4)
        tags = "tags: [draft]\n" if self.dice.random() < 0.3 else ""
        return f"---\n{tags}aliases: [The {name}]\n---\n# {name}\n\n" + "".join(
            f"## {self.dice.choice(WORDS)} {part}\n\nedition {self.edition} part {part} of {parts} "
            f"{' '.join(self.dice.choices(WORDS, k=12))} [[f{self.dice.randrange(2 * self.files)}]]\n\n"
            for part in range(parts)
        )

    def edit(self, share: float) -> None:
        """Change a share of the pages; some go, some come."""
        there = self.there()
        for file in self.dice.sample(there, max(1, int(share * len(there)))):
            if self.dice.random() < 0.15:
                file.unlink()
            else:
                self.write(file)
        while len(self.there()) < self.files:
            self.write(self.some_place())

    def steps(self) -> dict[str, Callable[[], None]]:
        """The ways in which a folder changes while people work in it."""
        return {
            "create": lambda: self.write(self.some_place()),
            "change": lambda: self.write(self.some_page()),
            "save": lambda: self.write(self.some_page(), atomic=True),
            "rename": self.rename,
            "delete": lambda: self.some_page().unlink(),
            "move": self.move_folder,
            "ignore": self.ignore,
        }

    def step(self) -> str:
        """One change; returns its name. The folder stays about as large as it was."""
        name = self.dice.choices(tuple(self.steps()), weights=(4, 8, 8, 3, 4, 1, 1))[0]
        count = len(self.there())
        name = (
            "create"
            if count < self.files // 2
            else "delete"
            if count > 2 * self.files
            else name
        )
        self.steps()[name]()
        return name

    def some_page(self) -> Path:
        return self.dice.choice(self.there())

    def rename(self) -> None:
        target = self.some_place()
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(self.some_page(), target)

    def move_folder(self) -> None:
        """A folder goes elsewhere with all that is in it, or comes back."""
        here = sorted(
            folder
            for folder in self.root.iterdir()
            if folder.is_dir() and folder.name[0] in "dm"
        )
        folder = self.dice.choice(here)
        name = f"m{folder.name}" if folder.name[0] == "d" else folder.name[1:]
        if (self.root / name).exists():
            shutil.rmtree(self.root / name)
        folder.rename(self.root / name)

    def ignore(self) -> None:
        """Other files are kept out from now on."""
        patterns = self.dice.sample(
            ("d1/", "f1*.md", "md2/", "f?3.md", "*.new"), self.dice.randint(0, 3)
        )
        (self.root / IGNORE_FILE).write_text(
            "".join(f"{each}\n" for each in patterns), encoding="utf-8"
        )


def content_of(directory: Path) -> dict[str, dict[str, Any]]:
    """All that an index says, by document: columns, passages, links, names, each row's postings and vector.

    Read with nothing but SQLite and the arrays' own reader, so that no fault of the engine's readers hides
    one of its writers.
    """
    with closing(
        sqlite3.connect(f"{(directory / 'index.db').as_uri()}?mode=ro", uri=True)
    ) as connection:
        connection.execute("BEGIN")
        documents = {
            key: {"document": columns, "segment": segment, "place": place}
            for key, segment, place, *columns in connection.execute(
                f"SELECT id, segment, place, {_DOCUMENT} FROM documents"
            )
        }
        for table, columns in _OF_DOCUMENTS.items():
            for own in documents.values():
                own[table] = []
            for key, *row in connection.execute(
                f"SELECT document, {columns} FROM {table}"
            ):
                documents[key][table].append(tuple(row))
        rows = {
            segment: list(_rows(directory / "segments" / folder))
            for segment, folder in connection.execute("SELECT id, folder FROM segments")
        }
    for own in documents.values():
        segment, place = own.pop("segment"), own.pop("place")
        own |= {table: sorted(own[table], key=repr) for table in _OF_DOCUMENTS}
        own["rows"] = [row[1:] for row in rows[segment] if row[0] == place]
    return {str(own["document"][0]): own for own in documents.values()}


def _rows(folder: Path) -> Iterator[tuple[Any, ...]]:
    """Of each row: the place of its document, its codes, its postings in both lanes, its vector."""
    arrays = {
        name: map_arrays(folder / f"{name}.bin")
        for name in ("rows", "words", "code", "vectors")
    }
    table, full = arrays["rows"], arrays["vectors"]["full"]
    lanes = [_postings(arrays[name], len(table["chunk"])) for name in ("words", "code")]
    for at, place in enumerate(table["document"].tolist()):
        codes = (int(table["type"][at]), int(table["language"][at]))
        yield place, codes, lanes[0][at], lanes[1][at], full[at].tobytes()


def _postings(
    arrays: dict[str, np.ndarray], size: int
) -> list[list[tuple[bytes, float]]]:
    found: list[list[tuple[bytes, float]]] = [[] for _ in range(size)]
    block, start, before = arrays["names"].tobytes(), 0, 0
    for name_end, end in zip(
        arrays["name_ends"].tolist(), arrays["ends"].tolist(), strict=True
    ):
        name = block[before:name_end]
        for row, weight in zip(
            arrays["rows"][start:end], arrays["weights"][start:end], strict=True
        ):
            found[row].append((name, float(weight)))
        start, before = end, name_end
    return found


def differences(
    one: dict[str, dict[str, Any]], other: dict[str, dict[str, Any]]
) -> list[str]:
    """Where two indexes do not say the same, in words."""
    only = [f"{path} is in one alone" for path in sorted(one.keys() ^ other.keys())]
    parts = [
        f"{path}: other {part}"
        for path in sorted(one.keys() & other.keys())
        for part in one[path]
        if one[path][part] != other[path][part]
    ]
    return only + parts


def complaints(corpus: Corpus) -> list[str]:
    """What is wrong with what a reader sees at this moment; nothing, if it is one whole generation."""
    parts: dict[str, list[tuple[int, int, int]]] = {}
    with corpus.snapshot() as snapshot:
        allowed = snapshot.allow(EVERYTHING)
        ask = LaneAsk("words", terms=tuple(words("edition")))
        hits = snapshot.lanes([ask], allowed, 1_000_000)["words"]
        for passage in snapshot.passages([hit.key for hit in hits]).values():
            found = MARK.search(passage.content)
            if found is None:
                return [
                    f"{passage.path} holds what was never written: {passage.content[:80]!r}"
                ]
            parts.setdefault(passage.path, []).append(
                (int(found[1]), int(found[2]), int(found[3]))
            )
        counted = snapshot.state.chunks
    wrong = [path for path, own in parts.items() if not _is_whole(own)]
    short = (
        []
        if allowed.chunks == counted
        else [f"{allowed.chunks} rows for {counted} passages"]
    )
    return short + [
        f"{path} is not one whole edition: {sorted(parts[path])}" for path in wrong
    ]


def _is_whole(own: list[tuple[int, int, int]]) -> bool:
    editions = {(edition, parts) for edition, _, parts in own}
    return len(editions) == 1 and sorted(part for _, part, _ in own) == list(
        range(own[0][2])
    )


def answers(corpus: Corpus, some: Sequence[str] = WORDS) -> list[Any]:
    """Results with all that is said of them, and the funnel's counts, for questions of two words each."""
    ways: tuple[dict[str, Any], ...] = (
        {},
        {"exclude_patterns": ["d1/"]},
        {"tags": ["draft"], "max_hops": 2},
        {"under": ["d2"], "unique": True},
    )
    questions = [f"{word} {some[at - 1]}" for at, word in enumerate(some)]
    return [
        _plain(corpus.search(question, limit=50, **way))
        for question in questions
        for way in ways
    ]


def _plain(found: Found) -> Any:
    return [[result.to_dict() for result in found.results], found.stats]
