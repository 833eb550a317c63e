"""The code lane, links, parents and tags of the embedded engine, held to the oracle in `naive.py`.

Documents are made to order (`scripted.py`): links of every type, written in every way that people
write them, to targets that exist, existed, will exist or never do.
"""

import random
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from support.corpora import open_corpus, open_in_steps, test_settings, write_files
from support.lanes import by_terms
from support.naive import NaiveSnapshot, kept_ordinals, naive_snapshot, pruned
from support.naive_links import folded
from support.scripted import (
    LINK_TYPES,
    as_file,
    document,
    oracle_of,
    parsing,
    renamed,
    scripted,
)
from tamis.corpus import Corpus
from tamis.index.protocol import Allowed, Edge, Snapshot
from tamis.model import Chunk, Document, FrontMatter, Link, Parent
from tamis.query import filters as f
from tamis.text.identifiers import identifiers
from tamis.text.languages import chunk_type_of, language_of, without_known_extension

ALL = 1_000_000
DOCS = Path(__file__).parents[2] / "docs"
FOLDERS = (
    "",
    "",
    "docs",
    "docs/api",
    "Docs/Guide",
    "notes",
    "notes/daily",
    "src",
    "src/pkg",
    "src/pkg/sub",
    "cafe\u0301",
)
STEMS = (
    "index",
    "README",
    "__init__",
    "mod",
    "a",
    "a",
    "b",
    "Note One",
    "stra\u00dfe",
    "caf\u00e9",
    "cafe\u0301",
    "v1.2",
)
SUFFIXES = (
    ".md",
    ".md",
    ".md",
    ".MD",
    ".txt",
    ".py",
    ".py",
    ".pyi",
    ".go",
    ".rs",
    ".js",
    ".ts",
    ".java",
    ".kt",
    ".c",
    ".hpp",
    ".json",
    "",
)
ALIASES = (
    "The First",
    "Second/Name",
    "a",
    "STRASSE",
    "caf\u00e9",
    "back\\slash",
    "docs/",
)
NAMES = (
    "getUserById",
    "Client.retry",
    "parse_json_data",
    "HTTPResponse",
    "std::vector",
    "myVar123",
    "a",
    "Über.größe",
)
WORDS = ("alpha", "beta", "retry", "client", "parse", "json", "user")
TAGS = ("draft", "a", "a/b", "a/b/c", "ab", "code", "python", "Über/Größe")
TYPES = ("documentation", "code_block", "symbols", "definitions", "data")


# --- Generated documents ---------------------------------------------------------------------------


def some_documents(seed: int, count: int = 60) -> list[Document]:
    dice = random.Random(seed)
    paths = sorted({_some_path(dice) for _ in range(count)})
    return [_some_document(dice, path, paths) for path in paths]


def _some_path(dice: random.Random) -> str:
    return f"{dice.choice(FOLDERS)}/{dice.choice(STEMS)}{dice.choice(SUFFIXES)}".lstrip(
        "/"
    )


def _some_document(dice: random.Random, path: str, paths: Sequence[str]) -> Document:
    chunks = tuple(_some_chunk(dice, path, at) for at in range(dice.randint(1, 4)))
    links = tuple(
        _some_link(dice, path, paths, len(chunks)) for _ in range(dice.randint(0, 6))
    )
    front = FrontMatter(
        title=dice.choice(WORDS),
        tags=tuple(dice.sample(TAGS, dice.choice((0, 0, 1, 2)))),
        aliases=tuple(dice.sample(ALIASES, dice.choice((0, 0, 1, 2)))),
    )
    parents = tuple(
        Parent(f"around {path} {at}", "Top > Down", at + 1, at + 9) for at in range(2)
    )
    return Document(
        path, front.title, front, float(dice.randrange(1000)), chunks, links, parents
    )


def _some_chunk(dice: random.Random, path: str, ordinal: int) -> Chunk:
    kind = dice.choice((chunk_type_of(path), chunk_type_of(path), dice.choice(TYPES)))
    text = " ".join(dice.choices((*WORDS, *NAMES), k=dice.randint(1, 30)))
    names = (
        tuple(dice.sample(NAMES, dice.choice((0, 0, 1, 3))))
        if kind != "documentation"
        else ()
    )
    language = (
        language_of(path) or dice.choice((None, "python"))
        if kind != "documentation"
        else None
    )
    parent = dice.choice((None, 0, 1))
    return Chunk(
        ordinal, text, "", ordinal + 1, ordinal + 1, kind, language, names, parent
    )


def _some_link(
    dice: random.Random, source: str, paths: Sequence[str], chunks: int
) -> Link:
    kin = [
        path
        for path in paths
        if language_of(path) and language_of(path) == language_of(source)
    ]
    if (
        kin and dice.random() < 0.2
    ):  # most imports name a file of their own language, by the end of its path
        end = without_known_extension(dice.choice(kin)).split("/")[-2:]
        return Link("import", "/".join(end), "", dice.choice((None, 0)))
    types = (
        LINK_TYPES
        if language_of(source)
        else [kind for kind in LINK_TYPES if kind != "import"]
    )
    written = _written(dice, source, dice.choice(paths))
    ordinal = dice.choice((None, *range(chunks)))
    return Link(dice.choice(types), written, dice.choice(("", "", "Heading")), ordinal)


def _written(dice: random.Random, source: str, path: str) -> str:
    """A path as somebody might write it in a link; some of these lead nowhere."""
    folder, _, name = path.rpartition("/")
    up = "../" * source.count("/")
    plain = dice.choice(
        (
            path,
            without_known_extension(path),
            name,
            name,
            without_known_extension(name),
            folder,
        )
    )
    text = dice.choice(
        (
            plain, plain, plain, f"/{plain}", f"{up}{plain}", f"./{plain}", f"../{plain}", f"{up}../{plain}",
            f"x/../{plain}", "/".join(path.split("/")[-2:]), dice.choice(ALIASES), "nowhere", "", "/", "..",
        )
    )  # fmt: skip
    return _oddly_spelt(dice, text)


def _oddly_spelt(dice: random.Random, text: str) -> str:
    spellings = (
        str, str, str, str, str.upper, str.lower, lambda t: f"  {t} ", lambda t: f"{t}/",
        lambda t: t.replace("/", "\\"), lambda t: unicodedata.normalize("NFD", t),
        lambda t: unicodedata.normalize("NFC", t),
    )  # fmt: skip
    return dice.choice(spellings)(text)


ATOMS: tuple[f.Filter, ...] = (
    *map(f.Type, TYPES), *map(f.Language, ("python", "go", "json", "rust")),
    *map(f.Tag, (*TAGS, "documentation", "markdown", "data", "definitions", "symbols", "code_block", "go")),
    f.Tag("none"),
    f.Under("docs"), f.Under("src/pkg"), f.Path(("*.md",)), f.Path(("*.py", "*.go")), f.File(("index.md",)),
    f.File(("README",)), f.File(("a",)), f.Before("x", 500.0), f.After("x", 300.0),
)  # fmt: skip


def random_filter(dice: random.Random, depth: int = 2) -> f.Filter:
    kind = dice.randrange(5)
    if depth == 0 or kind < 2:
        return dice.choice(ATOMS)
    inner = tuple(random_filter(dice, depth - 1) for _ in range(2))
    return (f.Not(inner[0]), f.And(inner), f.Or(inner))[kind - 2]


def some_filters(seed: int, count: int) -> list[f.Filter]:
    dice = random.Random(seed)
    return [
        f.EVERYTHING,
        *(~f.File((stem,)) for stem in ("a", "index.md")),
        *(random_filter(dice) for _ in range(count)),
    ]


def as_files(documents: Sequence[Document]) -> dict[str, str]:
    return {document.path: as_file(document) for document in documents}


# --- Comparing ------------------------------------------------------------------------------------


@contextmanager
def opened(corpus: Corpus) -> Iterator[Snapshot]:
    with corpus, corpus.snapshot() as snapshot:
        yield snapshot


@pytest.fixture(scope="module", params=[31, 32, 33])
def both(request, tmp_path_factory) -> Iterator[tuple[Snapshot, NaiveSnapshot]]:
    root = tmp_path_factory.mktemp("lanes")
    with (
        parsing(scripted),
        opened(
            open_in_steps(root, as_files(some_documents(request.param)))
        ) as snapshot,
    ):
        yield snapshot, oracle_of(root)


def edges(snapshot: Snapshot, paths: Sequence[str], allowed: Allowed) -> set[Edge]:
    found = snapshot.links(paths, allowed)
    others = {path: set() for path in paths}
    for edge in found:
        for here, there in ((edge.source, edge.target), (edge.target, edge.source)):
            others.get(here, set()).add(there)
    assert snapshot.degrees(paths, allowed) == {
        path: len(linked) for path, linked in others.items()
    }
    assert all(edge.source in paths or edge.target in paths for edge in found)
    return set(found)


def coded(
    snapshot: Snapshot, terms: Sequence[str], allowed: Allowed, depth: int = ALL
) -> dict:
    hits = by_terms(snapshot, "code", terms, allowed, depth)
    passages = snapshot.passages([hit.key for hit in hits])
    scored = {passages[hit.key].position: hit.score for hit in hits}
    assert len(scored) == len(hits), "the lane named a chunk twice"
    return scored


def positions(snapshot: Snapshot, keys: Sequence[int]) -> list[tuple[str, int]]:
    passages = snapshot.passages(list(keys))
    return [passages[key].position for key in keys]


def compare_links(
    snapshot: Snapshot, oracle: NaiveSnapshot, chosen: f.Filter, paths: Sequence[str]
) -> None:
    found = edges(snapshot, paths, snapshot.allow(chosen))
    expected = edges(oracle, paths, oracle.allow(chosen))
    assert found == expected, str(chosen)


# --- Links ----------------------------------------------------------------------------------------


def test_the_documents_show_every_case():
    """What the comparison below is worth: every class of fit, ties of every kind, and dead ends."""
    grades: Counter[tuple[str, int]] = Counter()
    several = none = 0
    for seed in (31, 32, 33):
        documents = some_documents(seed)
        oracle = NaiveSnapshot([], {})
        oracle.documents = {document.path: document for document in documents}
        for _, link, ranks in oracle.references:
            grades.update((link.type, rank.grade) for rank in ranks[:1])
            several += len(ranks) > 1
            none += not ranks
    expected = {
        (kind, grade) for kind in ("wikilink", "embed", "related") for grade in range(4)
    }
    expected |= {("markdown", grade) for grade in range(3)} | {
        ("import", grade) for grade in (0, 2, 3)
    }
    assert expected <= grades.keys()
    assert min(several, none) > 50


@pytest.mark.rows("R002-016", "R002-119", "R000-076", "R000-081")
def test_links_against_the_oracle(both):
    """Who a link leads to, under any filter."""
    snapshot, oracle = both
    everything = sorted(oracle.documents)
    for chosen in some_filters(1, 80):
        compare_links(snapshot, oracle, chosen, everything)


@pytest.mark.rows("R002-016")
def test_links_of_some_documents_are_those_that_touch_them(both):
    """Either way, and no others."""
    snapshot, oracle = both
    dice = random.Random(2)
    for chosen in some_filters(2, 20):
        for size in (0, 1, 1, 3, 10):
            some = dice.sample(sorted(oracle.documents), size)
            compare_links(snapshot, oracle, chosen, [*some, "no/such.md"])


@pytest.mark.rows("R000-036", "R000-076")
def test_a_filter_on_links_equals_never_having_indexed(tmp_path):
    """The law, chunk by chunk: nothing leads from or to what a filter keeps out."""
    documents = some_documents(34, 40)
    paths = [document.path for document in documents]
    with (
        parsing(scripted),
        opened(
            open_corpus(write_files(tmp_path / "whole", as_files(documents)))
        ) as whole,
    ):
        for number, chosen in enumerate(some_filters(3, 12)):
            left = [pruned(document, chosen) for document in documents]
            root = tmp_path / f"part{number}"
            root.mkdir()
            files = as_files([document for document in left if document.chunks])
            with opened(open_corpus(write_files(root, files))) as part:
                some, rest = whole.allow(chosen), part.allow(f.EVERYTHING)
                back = {
                    (document.path, new): old
                    for document in documents
                    for new, old in enumerate(kept_ordinals(document, chosen))
                }
                assert edges(whole, paths, some) == {
                    replace(edge, ordinal=back.get((edge.source, edge.ordinal)))
                    for edge in edges(part, paths, rest)
                }, str(chosen)
                for terms in QUERIES:
                    alone = coded(part, terms, rest)
                    scores = {
                        (path, back[path, new]): score
                        for (path, new), score in alone.items()
                    }
                    assert coded(whole, terms, some) == scores, str(chosen)


@pytest.mark.rows("C70", "R002-119")
def test_links_follow_files_that_come_go_and_move(tmp_path):
    """A link waits for its target; the index grows step by step, the oracle reads all anew."""
    dice = random.Random(35)
    waiting = {document.path: document for document in some_documents(35, 50)}
    here: dict[str, Document] = {}
    counts = []
    with (
        parsing(scripted),
        open_corpus(write_files(tmp_path, {"start.md": "alpha"})) as corpus,
    ):
        for _ in range(30):
            _take_a_step(dice, waiting, here, tmp_path)
            corpus.refresh()
            oracle = oracle_of(tmp_path)
            with corpus.snapshot() as snapshot:
                paths = sorted({*oracle.documents, *waiting})
                compare_links(snapshot, oracle, f.EVERYTHING, paths)
                compare_links(snapshot, oracle, random_filter(dice), paths)
                counts.append(len(edges(snapshot, paths, snapshot.allow(f.EVERYTHING))))
    assert max(counts) > 20
    assert any(after < before for before, after in pairwise(counts)), "links were lost"


def _take_a_step(dice: random.Random, waiting: dict, here: dict, root: Path) -> None:
    """Some files come, one goes, one moves, one changes what it says."""
    for path in dice.sample(sorted(waiting), min(4, len(waiting))):
        here[path] = waiting.pop(path)
    for path in dice.sample(sorted(here), min(2, len(here) // 8)):
        waiting[path] = here.pop(path)
        (root / path).unlink(missing_ok=True)
    if len(here) > 10:
        old, like = dice.choice(sorted(here)), dice.choice(sorted({*here, *waiting}))
        new = f"{like.rpartition('/')[0]}/moved{dice.randrange(3)}.md".lstrip("/")
        here[new] = renamed(here.pop(old), new)
        (root / old).unlink(missing_ok=True)
        changed = dice.choice(sorted(here))
        here[changed] = _some_document(dice, changed, sorted({*here, *waiting}))
    write_files(root, as_files(list(here.values())))


# --- The code lane ---------------------------------------------------------------------------------


QUERIES = tuple(
    tuple(dict.fromkeys(identifiers(text)))
    for text in (
        "getUserById", "client retry", "parse_json_data json", "std::vector", "src/pkg/a.py", "index", "Über",
        "nobody has this", "alpha beta user",
    )
)  # fmt: skip


@pytest.mark.rows("R002-086")
def test_code_scores_against_the_formula(both):
    """BM25F over symbols, path and code; postings are stored in single precision."""
    snapshot, oracle = both
    for number, chosen in enumerate(some_filters(4, 40)):
        terms = QUERIES[number % len(QUERIES)]
        found = coded(snapshot, terms, snapshot.allow(chosen))
        expected = coded(oracle, terms, oracle.allow(chosen))
        assert found.keys() == expected.keys(), str(chosen)
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("depth", [1, 3, 20])
def test_the_code_lane_has_the_best_of_its_depth(both, depth):
    snapshot, _ = both
    for chosen in (f.EVERYTHING, ~f.Type("documentation"), f.Under("src")):
        for terms in QUERIES:
            allowed = snapshot.allow(chosen)
            whole, part = (
                coded(snapshot, terms, allowed),
                coded(snapshot, terms, allowed, depth),
            )
            order = sorted(whole, key=lambda place: (-whole[place], place))[:depth]
            assert (
                sorted(part, key=lambda place: (-part[place], place))[:depth] == order
            )
            assert part.items() <= whole.items()


@pytest.mark.rows("R002-086")
@pytest.mark.parametrize("field", ["symbols", "path", "code"])
def test_every_code_field_weight_counts_as_the_formula_says(field, tmp_path):
    """A knob that exists works; without its field a term leaves no posting."""
    chunk = Chunk(0, "retry = 1", "", 1, 1, "definitions", "python", ("Client.retry",))
    one = Document("src/retry.py", "x", FrontMatter(), 0.0, (chunk,))
    write_files(tmp_path, as_files([one, document("b.md", "retry")]))
    seen = []
    for boost in (0.0, 1.0, 7.5):
        flags = {
            "fields__symbols": 0.0,
            "fields__path": 0.0,
            "fields__code": 0.0,
            f"fields__{field}": boost,
        }
        with parsing(scripted), opened(open_corpus(tmp_path, **flags)) as snapshot:
            found = coded(snapshot, ("retry",), snapshot.allow(f.EVERYTHING))
        expected = oracle_of(tmp_path, **flags)
        assert found == pytest.approx(
            coded(expected, ("retry",), expected.allow(f.EVERYTHING)), rel=1e-5
        )
        assert ("b.md", 0) not in found, "prose is no code"
        seen.append(found.get(("src/retry.py", 0), 0.0))
    assert seen[0] == 0.0 < seen[1] < seen[2]


# --- Keys, within, parents, tags -------------------------------------------------------------------


@pytest.mark.rows("R004-007", "X7")
def test_filters_split_documents_row_by_row(both):
    """Types, languages, tags and what a row implies, alone and combined."""
    snapshot, oracle = both
    paths = sorted(oracle.documents)
    for chosen in [*ATOMS, *some_filters(5, 60)]:
        allowed, expected = snapshot.allow(chosen), oracle.allow(chosen)
        assert (allowed.chunks, allowed.documents) == (
            expected.chunks,
            expected.documents,
        ), str(chosen)
        found = {
            path: positions(snapshot, keys)
            for path, keys in snapshot.keys(paths, allowed).items()
        }
        assert found == {
            path: positions(oracle, keys)
            for path, keys in oracle.keys(paths, expected).items()
        }


def test_keys_of_some_documents(both):
    snapshot, oracle = both
    dice = random.Random(6)
    for chosen in some_filters(6, 20):
        some = [*dice.sample(sorted(oracle.documents), 5), "no/such.md"]
        found = snapshot.keys(some, snapshot.allow(chosen))
        expected = oracle.keys(some, oracle.allow(chosen))
        assert {path: positions(snapshot, keys) for path, keys in found.items()} == {
            path: positions(oracle, keys) for path, keys in expected.items()
        }


@pytest.mark.rows("R000-081")
def test_within_allows_what_is_allowed_of_some_documents(both):
    """A narrower search sees fewer rows, and its statistics are those of the rows it sees."""
    snapshot, oracle = both
    dice = random.Random(7)
    everything = sorted(oracle.documents)
    for chosen in some_filters(8, 20):
        named = [*dice.sample(everything, dice.choice((0, 1, 5, 30))), "no/such.md"]
        ours = snapshot.within(named, snapshot.allow(chosen))
        theirs = oracle.within(named, oracle.allow(chosen))
        assert (ours.chunks, ours.documents) == (theirs.chunks, theirs.documents), str(
            chosen
        )
        for terms in QUERIES[:3]:
            assert coded(snapshot, terms, ours) == pytest.approx(
                coded(oracle, terms, theirs), rel=1e-5
            )
        assert edges(snapshot, everything, ours) == edges(oracle, everything, theirs)


@pytest.mark.rows("R002-166")
def test_parents_are_stored_as_they_were(both):
    """The reference of a passage leads to the section around it."""
    snapshot, oracle = both
    wanted = [
        (row.document.path, row.chunk.parent)
        for row in oracle.rows
        if row.chunk.parent is not None
    ]
    assert wanted
    assert dict(snapshot.parents(wanted)) == oracle.parents(wanted)
    assert dict(snapshot.parents([])) == {}


@pytest.mark.rows("R002-158", "P13")
def test_parents_are_in_no_statistics(tmp_path):
    """A word that only a parent has is not found; the rows are the passages."""
    chunk = Chunk(0, "alpha", "", 1, 1, "documentation", parent=0)
    one = Document(
        "a.md",
        "A",
        FrontMatter(),
        0.0,
        (chunk,),
        (),
        (Parent("alpha omega", "", 1, 2),),
    )
    with (
        parsing(scripted),
        opened(open_corpus(write_files(tmp_path, as_files([one])))) as snapshot,
    ):
        allowed = snapshot.allow(f.EVERYTHING)
        assert (snapshot.state.chunks, allowed.chunks) == (1, 1)
        assert not by_terms(snapshot, "words", ["omega"], allowed, ALL)
        assert not by_terms(snapshot, "code", ["omega"], allowed, ALL)


def test_what_the_oracle_is_handed_is_what_was_written(tmp_path):
    """The tests' own parser gives back the documents that it was given."""
    documents = some_documents(36, 20)
    write_files(tmp_path, as_files(documents))
    rows = naive_snapshot(tmp_path, test_settings(tmp_path), scripted).documents
    assert {path: repr(document) for path, document in rows.items()} == {
        document.path: repr(document) for document in documents
    }
    assert folded("Stra\u00dfe") == folded("STRASSE")


def test_a_word_that_a_question_says_again_counts_more(tmp_path):
    """As BM25 has it with k3 = 1: n times count 2n / (1 + n), so never twice."""
    files = {
        "one.md": "alpha gamma\n",
        "two.md": "beta gamma\n",
        "three.md": "delta gamma\n",
    }
    with open_corpus(write_files(tmp_path, files), model__name="none") as corpus:

        def scores(question: str) -> dict[str, float]:
            found = corpus.search(question, max_hops=0).results
            return {
                result.path: sum(
                    item.score for item in result.evidence if item.lane == "words"
                )
                for result in found
            }

        once, often = scores("alpha beta"), scores("alpha beta beta betas")
        assert often["one.md"] == pytest.approx(once["one.md"])
        assert often["two.md"] == pytest.approx(1.5 * once["two.md"])


@pytest.mark.parametrize(
    "question",
    [
        "what happens if indexing is killed half way?",
        "min_confidence default",
        "how do I exclude archived files",
        "filters that leak",
        "settings environment variable",
        "why is a file not found",
    ],
)
def test_a_larger_limit_adds_results_and_moves_none(question, tmp_path):
    """However many are wanted, what the lanes say of the first is the same: our own pages, with links."""
    with Corpus(DOCS, tmp_path, test_settings(DOCS)) as corpus:
        corpus.refresh()
        most = corpus.search(question, limit=100).results
        for limit in (1, 10, 25, 60):
            assert corpus.search(question, limit=limit).results == most[:limit]
