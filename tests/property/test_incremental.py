"""An index that grew step by step answers exactly as one made in one go over the same files."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from support.corpora import open_corpus, test_settings, write_files
from tamis.corpus import Corpus, index_directory
from tamis.index.protocol import Edge
from tamis.query.filters import EVERYTHING
from tamis.query.language import parse_filter

SMALL_CHUNKS = {
    "chunking__min_chars": 0,
    "chunking__max_chars": 150,
    "chunking__overlap_chars": 30,
}
TWO_LEVELS = {
    "chunking__parents": True, "chunking__parent_min_chars": 0, "chunking__parent_max_chars": 400,
    "chunking__parent_overlap_chars": 50, "chunking__child_min_chars": 0, "chunking__child_max_chars": 150,
    "chunking__child_overlap_chars": 30,
}  # fmt: skip
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
FOLDERS = ("", "docs/", "docs/api/", "notes/", "src/", "archive/")
SUFFIXES = (".md", ".md", ".md", ".py", ".txt")
FIRST_DAY, LAST_DAY = 1767225600, 1798761600  # the year 2026, in seconds
STEPS = 300
LINKS = (
    "[[{stem}]]", "[[docs/{stem}|text]]", "![[{stem}#alpha]]", "[text]({stem}.md)", "[text](../{stem}.md)",
    "[text](/notes/{stem}.md)", "[[The {stem}]]",
)  # fmt: skip
FILTERS = (
    "", "path:docs/**", "-file:a1.md", "tag:draft", "-tag:draft | lang:python", "type:definitions",
    "-type:code_block", "tag:code", "-file:[a b c1]",
    "after:2026-04-01", "before:2026-06", "after:2026-03 before:2026-09-15", "-after:2026-07-01 under:docs",
)  # fmt: skip


class Tree:
    """A folder that changes at random, the same way for the same seed."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.dice = random.Random(seed)
        self.done = {step.__name__: 0 for step in self.steps}

    @property
    def steps(self) -> tuple:
        return (self.add, self.edit, self.rename, self.delete, self.touch)

    def step(self) -> None:
        step = self.dice.choices(self.steps, weights=(5, 4, 2, 3, 3))[0]
        if step is self.add or not self.files():
            step = self.add
        step()
        self.done[step.__name__] += 1

    def files(self) -> list[Path]:
        inside = (file for file in self.root.rglob("*") if file.is_file())
        return sorted(file for file in inside if ".tamis" not in file.parts)

    def add(self) -> None:
        self.write(self.some_path())

    def edit(self) -> None:
        self.write(self.dice.choice(self.files()))

    def rename(self) -> None:
        target = self.some_path()
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(self.dice.choice(self.files()), target)

    def delete(self) -> None:
        self.dice.choice(self.files()).unlink()

    def touch(self) -> None:
        """Another date, the same content."""
        self.stamp(self.dice.choice(self.files()))

    def some_path(self) -> Path:
        return (
            self.root
            / self.dice.choice(FOLDERS)
            / f"{self.some_stem()}{self.dice.choice(SUFFIXES)}"
        )

    def some_stem(self) -> str:
        return f"{self.dice.choice('abc')}{self.dice.randrange(9)}"

    def write(self, file: Path) -> None:
        texts = {".md": self.some_page, ".py": self.some_code}
        text = texts.get(file.suffix, self.some_sentence)()
        write_files(self.root, {str(file.relative_to(self.root)): text})
        self.stamp(file)

    def some_sentence(self) -> str:
        return " ".join(self.dice.choices(WORDS, k=self.dice.randint(1, 50)))

    def some_page(self) -> str:
        tags = "tags: [draft]\n" if self.dice.random() < 0.3 else ""
        related = f"related: [{self.some_stem()}]\n" if self.dice.random() < 0.2 else ""
        aliases = (
            f"aliases: [The {self.some_stem()}]\n" if self.dice.random() < 0.2 else ""
        )
        heading = f"# {self.dice.choice(WORDS)}\n\n" if self.dice.random() < 0.6 else ""
        block = (
            f"\n\n```python\n{self.some_code()}```\n"
            if self.dice.random() < 0.2
            else ""
        )
        links = " ".join(
            self.dice.choice(LINKS).format(stem=self.some_stem())
            for _ in range(self.dice.randint(0, 8))
        )
        return f"---\n{tags}{related}{aliases}---\n{heading}{self.some_sentence()} {links}{block}"

    def some_code(self) -> str:
        name = "_".join(self.dice.choices(WORDS[:-1], k=2))
        return f"import {self.some_stem()}\n\n\ndef {name}():\n    return {self.dice.choice(WORDS[:-1])}\n"

    def stamp(self, file: Path) -> None:
        moment = self.dice.randint(FIRST_DAY, LAST_DAY)
        os.utime(file, (moment, moment))

    def question(self) -> dict[str, Any]:
        return {
            "query": " ".join(
                self.dice.choices(
                    (*WORDS, "unheard", "a1.md"), k=self.dice.randint(1, 4)
                )
            ),
            "filter": self.dice.choice(FILTERS),
            "limit": self.dice.choice((1, 5, 20, 100)),
            "max_chunks_per_doc": self.dice.choice((None, 1)),
            "max_hops": self.dice.choice((None, 0, 1, 2, 3)),
            "include_graph_context": self.dice.random() < 0.5,
            "expand_parents": self.dice.choice((None, False)),
        }


def answers(corpus: Corpus, questions: list[dict[str, Any]]) -> list[Any]:
    """Everything that an answer says of the files: ids, texts, scores, evidence, dates, counts."""
    found = [corpus.search(**question).to_dict() for question in questions]
    return [
        [
            answer["results"],
            answer["stats"],
            answer.get("graph_context"),
            answer["index"]["documents"],
            answer["index"]["chunks"],
        ]
        for answer in found
    ]


def graph(corpus: Corpus, **flags: Any) -> set[Edge]:
    """Every link that leads somewhere, under a filter or none."""
    with corpus.snapshot() as snapshot:
        allowed = snapshot.allow(parse_filter(flags.get("filter", ""), corpus.names))
        return set(snapshot.links(snapshot.documents(EVERYTHING), allowed))


def fresh(root: Path, aside: Path, **flags: Any) -> Corpus:
    """An index of the same root, made now, in another place."""
    shutil.rmtree(aside, ignore_errors=True)
    settings = test_settings(root, index__directory=str(aside), **flags)
    corpus = Corpus(root, index_directory(root, settings, None), settings)
    corpus.refresh()
    return corpus


@pytest.mark.rows("R000-036", "R002-001", "C70")
@pytest.mark.parametrize(
    ("seed", "sizes"), [(1, SMALL_CHUNKS), (2, SMALL_CHUNKS), (3, TWO_LEVELS)]
)
def test_incremental_equals_rebuild(tmp_path, seed, sizes):
    """After 300 steps, and on the way, 50 questions are answered alike."""
    root = tmp_path / "root"
    tree = Tree(root, seed)
    for _ in range(12):
        tree.add()
    written = most_segments = most_links = 0
    with open_corpus(root, **sizes) as corpus:
        for number in range(1, STEPS + 1):
            tree.step()
            if tree.dice.random() < 0.4:
                written += bool(corpus.refresh().indexed)
                corpus.search(
                    **tree.question()
                )  # keep the reader warm: what it holds must not go stale
                most_segments = max(most_segments, corpus.status().segments)
            if number % 60 == 0:
                corpus.refresh()
                questions = [
                    tree.question() for _ in range(50 if number == STEPS else 10)
                ]
                with fresh(root, tmp_path / "aside", **sizes) as anew:
                    assert answers(corpus, questions) == answers(anew, questions)
                    for filter in FILTERS:  # noqa: A001
                        assert graph(corpus, filter=filter) == graph(
                            anew, filter=filter
                        )
                most_links = max(most_links, len(graph(corpus)))
        assert min(tree.done.values()) > 10, "every kind of step was taken"
        assert written > 3 * most_segments, (
            "there were merges: far more segments were written than stayed"
        )
        assert most_segments > 4, "and several segments at once"
        assert most_links > 20, "and links"
        corpus.rebuild()
        questions = [tree.question() for _ in range(10)]
        with fresh(root, tmp_path / "aside", **sizes) as anew:
            assert answers(corpus, questions) == answers(anew, questions)
            assert graph(corpus) == graph(anew)


@pytest.mark.rows("R000-036")
def test_a_touched_file_moves_in_time_and_nothing_else(tmp_path):
    """A date filter sees the new date; the text is not indexed again."""
    root = write_files(
        tmp_path / "root", {"a.md": "# A\n\nalpha", "b.md": "# B\n\nalpha"}
    )
    for name in ("a.md", "b.md"):
        os.utime(root / name, (FIRST_DAY, FIRST_DAY))
    with open_corpus(root) as corpus:
        recent = {"query": "alpha", "modified_after": "2026-06-01"}
        assert corpus.search(**recent).results == ()
        os.utime(root / "b.md", (LAST_DAY, LAST_DAY))
        report = corpus.refresh()
        assert (report.indexed, report.unchanged, report.chunks) == (0, 2, 0)
        assert [result.path for result in corpus.search(**recent).results] == ["b.md"]
        assert [
            r.path for r in corpus.search("alpha", modified_before="2026-06-01").results
        ] == ["a.md"]
        with fresh(root, tmp_path / "aside") as anew:
            assert answers(corpus, [recent]) == answers(anew, [recent])


def test_a_date_in_the_front_matter_outlives_a_touch(tmp_path):
    root = write_files(
        tmp_path / "root", {"a.md": "---\ndate: 2026-02-03\n---\n# A\n\nalpha"}
    )
    with open_corpus(root) as corpus:
        os.utime(root / "a.md", (LAST_DAY, LAST_DAY))
        corpus.refresh()
        assert [r.modified for r in corpus.search("alpha").results] == [
            "2026-02-03T00:00:00Z"
        ]


def test_a_change_that_keeps_size_and_time_is_seen(tmp_path):
    """A file written within the clock's grain, or with its time set back, is read again."""
    root = write_files(tmp_path / "root", {"a.md": "# A\n\nalpha"})
    status = (root / "a.md").stat()
    with open_corpus(root) as corpus:
        write_files(root, {"a.md": "# A\n\nomega"})
        os.utime(root / "a.md", ns=(status.st_atime_ns, status.st_mtime_ns))
        assert corpus.refresh().indexed == 1
        assert "omega" in corpus.search("omega").results[0].content


def test_files_that_become_ignored_leave_and_come_back(tmp_path):
    """Ignore files are read on every run: newly ignored files leave, un-ignored ones return."""
    files = {
        "a.md": "alpha one",
        "docs/b.md": "alpha two",
        "docs/c.txt": "alpha three",
        "d.py": "alpha = 4",
    }
    root = write_files(tmp_path / "root", files)
    question = {"query": "alpha", "limit": 20}

    def paths(corpus: Corpus) -> set[str]:
        return {result.path for result in corpus.search(**question).results}

    with open_corpus(root) as corpus:
        assert paths(corpus) == set(files)
        for name, rules, kept in (
            (".gitignore", "docs/\n", {"a.md", "d.py"}),
            (".gitignore", "docs/*\n!docs/c.txt\n", {"a.md", "d.py", "docs/c.txt"}),
            (".graphragignore", "*.py\n", {"a.md", "docs/c.txt"}),
            ("docs/.ignore", "c.txt\n", {"a.md"}),
            (".graphragignore", "!*.md\n!*.py\n!*.txt\n", set(files)),
        ):
            write_files(root, {name: rules})
            corpus.refresh()
            assert paths(corpus) == kept, (name, rules)
            with fresh(root, tmp_path / "aside") as anew:
                assert answers(corpus, [question]) == answers(anew, [question])
        for name in (".gitignore", ".graphragignore", "docs/.ignore"):
            (root / name).unlink()
        report = corpus.refresh()
        assert paths(corpus) == set(files)
        assert report.removed == 0


@pytest.mark.rows("R002-042")
@pytest.mark.parametrize(
    "flags",
    [
        {
            "chunking__min_chars": 0,
            "chunking__max_chars": 120,
            "chunking__overlap_chars": 0,
        },
        {"chunking__max_chars": 220},
        {"fields__title": 9.0, "fields__body": 0.5},
        {"fields__symbols": 0.5, "fields__path": 9.0},
        TWO_LEVELS,
    ],
)
def test_other_settings_index_anew(tmp_path, flags):
    """What decides what is written, besides the files, is part of what makes a file unchanged."""
    tree = Tree(tmp_path / "root", 9)
    for _ in range(25):
        tree.add()
    count = len(tree.files())
    questions = [tree.question() for _ in range(20)]
    with open_corpus(tree.root) as before:
        old = answers(before, questions)
    with (
        open_corpus(tree.root, **flags) as corpus,
        fresh(tree.root, tmp_path / "aside", **flags) as anew,
    ):
        assert answers(corpus, questions) == answers(anew, questions)
        assert answers(corpus, questions) != old, (
            "the settings make no difference: the test shows nothing"
        )
        assert corpus.refresh().unchanged == count
    with open_corpus(tree.root) as back:
        assert answers(back, questions) == old


def test_a_file_that_becomes_binary_or_too_large_leaves(tmp_path):
    root = write_files(
        tmp_path / "root",
        {"a.md": "alpha one", "b.md": "alpha two", "c.md": "alpha three"},
    )
    with open_corpus(root, index__max_file_bytes=1000) as corpus:
        write_files(root, {"a.md": b"alpha\0\0\0", "b.md": "alpha " * 1000})
        report = corpus.refresh()
        assert report.removed == 2
        assert report.skipped_by_reason == {"binary": 1, "too large": 1}
        assert [result.path for result in corpus.search("alpha").results] == ["c.md"]


def test_an_interrupted_run_goes_on_where_it_was(tmp_path, monkeypatch):
    """Work is committed in batches; the rest is pending and says so, and the next run completes it."""
    monkeypatch.setattr("tamis.index.build.BATCH_CHUNKS", 4)
    monkeypatch.setattr("tamis.index.embed_pending.PORTION", 2)
    tree = Tree(tmp_path / "root", 5)
    for _ in range(40):
        tree.add()
    count = len(tree.files())
    settings = test_settings(tree.root, **SMALL_CHUNKS)
    corpus = Corpus(tree.root, index_directory(tree.root, settings, None), settings)

    class Impatient:
        seen = 0

        def start(self, total: int, what: str = "files") -> None: ...
        def note(self, message: str) -> None: ...
        def advance(self, path: str, by: int = 1) -> None:
            self.seen += 1
            if self.seen == count // 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        corpus.refresh(Impatient())
    found = corpus.search("alpha")
    assert 0 < found.index.documents < count
    assert found.index.pending_files > 0
    assert any("not finished" in hint for hint in map(str, found.hints))
    report = corpus.refresh()
    assert 0 < report.indexed < count
    questions = [tree.question() for _ in range(20)]
    with corpus, fresh(tree.root, tmp_path / "aside", **SMALL_CHUNKS) as anew:
        assert corpus.search("alpha").index.pending_files == 0
        assert answers(corpus, questions) == answers(anew, questions)
