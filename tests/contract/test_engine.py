"""What every engine must answer, and each of them held to the oracle in `naive.py`."""

import os
import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from support import clusters
from support.corpora import open_corpus, open_in_steps, test_settings, write_files
from support.lanes import by_meaning, by_terms
from support.naive import NaiveSnapshot, lets_through, naive_snapshot
from tamis.corpus import Corpus
from tamis.index.embedded import database, vectors, words
from tamis.index.embedded.arrays import map_arrays
from tamis.index.embedded.database import WRITTEN
from tamis.index.embedded.words import best
from tamis.index.protocol import Allowed, Snapshot
from tamis.index.qdrant.client import Server
from tamis.index.qdrant.points import (
    FLOATS,
    KEYWORDS,
    NUMBERS,
    PROPERTIES,
    Points,
    native,
)
from tamis.index.qdrant.reader import QdrantSnapshot
from tamis.model import Chunk, Document, Facts, FrontMatter
from tamis.models.hashing import HashingEmbedder
from tamis.query import filters as f
from tamis.text.languages import CHUNK_TYPES

VOCABULARY = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "retry",
    "cache",
    "token",
    "queue",
    "index",
    "filter",
]
SMALL_CHUNKS = {
    "chunking__min_chars": 0,
    "chunking__max_chars": 120,
    "chunking__overlap_chars": 20,
}
ALL = 1_000_000  # deeper than any corpus here
QUERIES = (
    ("alpha",),
    ("beta", "gamma"),
    ("retri", "cach", "token", "queue"),
    ("alpha", "absent", "filter"),
)
embed = HashingEmbedder().embed_query


def some_files(seed: int, count: int = 36) -> dict[str, str]:
    """Files of a small vocabulary, so that ties and repeated texts are common."""
    dice = random.Random(seed)
    folders = ("", "docs/", "docs/api/", "docs/apis/", "notes/", "archive/", "src/")
    files: dict[str, str] = {}
    texts = [
        " ".join(dice.choices(VOCABULARY, k=dice.randint(2, 40)))
        for _ in range(count // 2)
    ]
    for number in range(count):
        body = f"{dice.choice(texts)}\n\n## {dice.choice(VOCABULARY)}\n\n{dice.choice(texts)}\n"
        suffix = dice.choice((".md", ".md", ".md", ".py", ".txt", ".yaml"))
        front = _front_matter(dice) if suffix == ".md" and dice.random() < 0.7 else ""
        files[f"{dice.choice(folders)}{dice.choice('abcd')}{number}{suffix}"] = (
            front + body
        )
    return files


def _front_matter(dice: random.Random) -> str:
    tags = dice.sample(("draft", "api", "howto"), dice.randint(0, 2))
    lines = [
        f"title: {dice.choice(VOCABULARY)} {dice.choice(VOCABULARY)}",
        f"tags: [{', '.join(tags)}]",
        f"author: {dice.choice(('Ada', 'Grace'))}",
        f"category: {dice.choice(('guide', 'note'))}",
        f"keywords: [{dice.choice(VOCABULARY)}]",
        f"description: {' '.join(dice.choices(VOCABULARY, k=5))}",
        f"aliases: [{dice.choice(VOCABULARY)}]",
        f"date: 2026-0{dice.randint(1, 6)}-01",
    ]
    return "\n".join(
        ["---", *dice.sample(lines, dice.randint(1, len(lines))), "---", ""]
    )


def random_filter(dice: random.Random, depth: int = 3) -> f.Filter:
    """A filter of any shape, empty `And` and `Or` included."""
    if depth and dice.random() < 0.6:
        inner = tuple(random_filter(dice, depth - 1) for _ in range(dice.randint(0, 3)))
        kind = dice.randrange(3)
        return (
            f.Not(random_filter(dice, depth - 1))
            if kind == 0
            else f.And(inner)
            if kind == 1
            else f.Or(inner)
        )
    return dice.choice(ATOMS)


ATOMS: tuple[f.Filter, ...] = (
    f.File(("a0.md",)), f.File(("b1",)), f.File(("/docs/api/c2.md", "a3")), f.File(("/d3.md", "none")),
    f.File(("none.md",)), f.File(()), f.Path(("docs/**",)), f.Path(("*.py",)),
    f.Path(("docs/", "!docs/api/")), f.Path(("/notes/*", "a*")),
    f.Under("docs"), f.Under("docs/api"), f.Under("nowhere"),
    f.Workspace("both", ("notes", "src")), f.Workspace("all", ("",)),
    f.Tag("draft"), f.Tag("api"), f.Tag("unknown"),
    f.Archived(("archive/", "*.old")), f.Archived(()), f.Author("ada"), f.Category("NOTE"),
    f.After("2026-03-01", 1772323200.0), f.Before("2026-03-01", 1772409600.0),
    f.DocumentIs("docs/a0.md"), f.Type("documentation"), f.Type("definitions"), f.Type("data"),
    f.Type("symbols"), f.Language("python"), f.Language("yaml"), f.Language("rust"),
)  # fmt: skip


def kinds_of_terms() -> list[type[f.Term]]:
    """The classes of terms that a filter can have: those without a subclass."""
    kinds = [each for each in vars(f).values() if isinstance(each, type)]
    terms = [each for each in kinds if issubclass(each, f.Term)]
    bases = {base for each in terms for base in each.__mro__[1:]}
    return [each for each in terms if each not in bases]


def on_server(atom: f.Filter) -> dict[str, object]:
    """An atom as a server's condition."""
    listed = [Facts("docs/a0.md"), Facts("notes/a1.md"), Facts("b.py")]
    return native(atom, lambda: listed, ("archive/", "*.old"))


def keys_in(condition: object) -> Iterator[str]:
    """The fields that a server's condition looks at."""
    if isinstance(condition, list):
        for each in condition:
            yield from keys_in(each)
    elif isinstance(condition, dict):
        if "key" in condition:
            yield condition["key"]
        for each in condition.values():
            yield from keys_in(each)


@pytest.mark.parametrize("kind", kinds_of_terms(), ids=lambda kind: kind.__name__)
def test_every_term_is_held_to_the_oracle(kind):
    """It is among the atoms here, the oracle knows it, and it has a condition on a server."""
    atoms = [atom for atom in ATOMS if type(atom) is kind]
    assert atoms, f"{kind.__name__} is missing in ATOMS"
    chunk = Chunk(0, "alpha", "", 1, 1, "documentation")
    document = Document("docs/a0.md", "", FrontMatter(), 0.0, (chunk,))
    for atom in atoms:
        assert lets_through(atom, document, chunk) in (True, False)
        assert on_server(atom)


def test_every_field_of_a_condition_has_an_index():
    """Without one, the server reads every point."""
    asked = {key for atom in ATOMS for key in keys_in(on_server(atom))}
    assert {"author", "archived", "filePath", "modified", "language"} <= asked
    assert asked - {*KEYWORDS, *NUMBERS, *FLOATS} == set()


def test_every_property_is_a_field_of_facts_and_a_filter():
    """A property that is stored under one name and filtered by another would match nothing."""
    keys = {kind.key for kind in kinds_of_terms() if issubclass(kind, f.Property)}
    assert keys == set(PROPERTIES)
    assert keys <= set(Facts.__slots__) <= {"path", *WRITTEN}


Engine = Callable[[dict[str, str]], Snapshot]


@pytest.fixture(scope="module")
def on_cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str, dict[str, str]], Snapshot]]:
    """The same for the cluster engine, wherever its points are. What has been indexed once is kept."""
    kept: dict[object, Snapshot] = {}
    shared: dict[
        str, Points
    ] = {}  # several roots in one collection; local mode would read all for each
    with ExitStack() as stack:

        def make(kind: str, files: dict[str, str]) -> Snapshot:
            if kind == "qdrant-server" and not clusters.SERVER:
                pytest.skip(clusters.WHY_NOT)
            which = (kind, tuple(files.items()))
            if which not in kept:
                folder = tmp_path_factory.mktemp("cluster")
                points = shared.get(kind) or clusters.points_at(
                    kind, folder, indexed=True
                )
                if kind != "qdrant-local":
                    shared[kind] = points
                root = write_files(folder / "root", files)
                corpus = open_corpus(
                    root, index=clusters.index_on(points, folder.name), **SMALL_CHUNKS
                )
                kept[which] = stack.enter_context(
                    opened(corpus, close=kind == "qdrant-local")
                )
            return kept[which]

        yield make
        for points in shared.values():
            points.close()


@pytest.fixture(scope="module")
def oracle_of(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[dict[str, str]], NaiveSnapshot]:
    """The oracle over some files. Reading them takes longer than most tests."""
    kept: dict[object, NaiveSnapshot] = {}

    def make(files: dict[str, str]) -> NaiveSnapshot:
        which = tuple(files.items())
        if which not in kept:
            root = write_files(tmp_path_factory.mktemp("plain"), files)
            kept[which] = naive_snapshot(root, test_settings(root, **SMALL_CHUNKS))
        return kept[which]

    return make


@pytest.fixture(params=["embedded", "naive", *clusters.KINDS])
def engine(
    request: pytest.FixtureRequest, tmp_path: Path, on_cluster
) -> Iterator[Engine]:
    """Something that turns files into a snapshot, by each engine there is."""
    if request.param in clusters.KINDS:
        yield partial(on_cluster, request.param)
        return
    with ExitStack() as stack:

        def make(files: dict[str, str]) -> Snapshot:
            root = tmp_path / f"root{len(os.listdir(tmp_path))}"
            root.mkdir()
            if request.param == "naive":
                return naive_snapshot(
                    write_files(root, files), test_settings(root, **SMALL_CHUNKS)
                )
            return stack.enter_context(
                opened(open_in_steps(root, files, **SMALL_CHUNKS))
            )

        yield make


@contextmanager
def opened(corpus: Corpus, *, close: bool = True) -> Iterator[Snapshot]:
    with corpus if close else nullcontext(), corpus.snapshot() as snapshot:
        yield snapshot


Scored = dict[tuple[str, int], float]


def meaning(
    snapshot: Snapshot, query: str, allowed: Allowed, depth: int = ALL
) -> Scored:
    return _by_position(snapshot, by_meaning(snapshot, embed(query), allowed, depth))


def worded(
    snapshot: Snapshot, terms: Sequence[str], allowed: Allowed, depth: int = ALL
) -> Scored:
    return _by_position(snapshot, by_terms(snapshot, "words", terms, allowed, depth))


def _by_position(snapshot: Snapshot, hits: Sequence) -> Scored:
    passages = snapshot.passages([hit.key for hit in hits])
    scored = {passages[hit.key].position: hit.score for hit in hits}
    assert len(scored) == len(hits), "a lane named a chunk twice"
    return scored


def in_order(scored: Scored) -> list[tuple[str, int]]:
    return sorted(scored, key=lambda position: (-scored[position], position))


# --- The contract ----------------------------------------------------------------------------------


def test_vectors_are_those_that_the_meaning_lane_compares(engine):
    snapshot = engine(
        {
            "a.md": "# A\n\nalpha beta",
            "b.md": "# B\n\nbeta\n\n# C\n\ngamma",
            "c.py": "beta = 1\n",
        }
    )
    scored = meaning(snapshot, "beta", snapshot.allow(f.EVERYTHING))
    wanted = in_order(scored)
    found = snapshot.vectors(wanted).astype(np.float64) @ embed("beta").astype(
        np.float64
    )
    assert found == pytest.approx([scored[position] for position in wanted], rel=1e-6)
    assert len(snapshot.vectors([])) == 0


def test_state_counts_what_can_be_searched(engine):
    snapshot = engine(
        {
            "a.md": "# A\n\nalpha",
            "b/c.py": "beta = 1\n",
            "empty.md": "",
            "blank.txt": " \n\n",
        }
    )
    assert (snapshot.state.documents, snapshot.state.chunks) == (2, 2)


@pytest.mark.rows("R000-055")
def test_everything_and_nothing(engine):
    """No filter keeps everything; an empty alternative lets nothing through."""
    snapshot = engine(some_files(1))
    whole, none = snapshot.allow(f.EVERYTHING), snapshot.allow(f.NOTHING)
    assert (whole.documents, whole.chunks) == (
        snapshot.state.documents,
        snapshot.state.chunks,
    )
    assert len(meaning(snapshot, "alpha", whole)) == whole.chunks
    assert (none.documents, none.chunks) == (0, 0)
    assert meaning(snapshot, "alpha", none) == {} == worded(snapshot, ["alpha"], none)


@pytest.mark.rows(
    "R000-023", "R000-031", "R000-032", "R000-053", "R000-056", "R000-062", "R000-063"
)
@pytest.mark.parametrize("filter", [*ATOMS, *(~atom for atom in ATOMS)], ids=str)
def test_lanes_see_the_allowed_rows_and_no_others(engine, filter, oracle_of):
    files = some_files(2)
    snapshot, oracle = engine(files), oracle_of(files)
    expected = {
        row.position
        for row in oracle.rows
        if lets_through(filter, row.document, row.chunk)
    }
    allowed = snapshot.allow(filter)
    assert set(meaning(snapshot, "alpha beta", allowed)) == expected
    assert (allowed.chunks, allowed.documents) == (
        len(expected),
        len({path for path, _ in expected}),
    )
    assert (
        set(
            worded(
                snapshot, VOCABULARY[:2] if _is_slow(snapshot) else VOCABULARY, allowed
            )
        )
        <= expected
    )


@pytest.mark.rows("R000-024", "R000-054")
@pytest.mark.parametrize("depth", [1, 2, 5, 17, ALL])
@pytest.mark.parametrize(
    "filter", [f.EVERYTHING, f.Under("docs"), ~f.Type("documentation")], ids=str
)
def test_a_lane_has_the_best_of_its_depth(engine, filter, depth):
    """The best allowed ones, as many as asked, with the scores they always have."""
    snapshot = engine(some_files(3))
    allowed = snapshot.allow(filter)
    for scored in (
        lambda deep: meaning(snapshot, "retry cache", allowed, deep),
        lambda deep: worded(snapshot, ["retri", "alpha"], allowed, deep),
    ):
        whole, part = scored(ALL), scored(depth)
        assert in_order(part)[:depth] == in_order(whole)[:depth]
        assert part.items() <= whole.items()


@pytest.mark.rows("R000-036")
@pytest.mark.parametrize(
    "filter",
    [f.Under("docs"), ~f.Tag("draft"), f.Path(("*.md",)), f.Type("data")],
    ids=str,
)
def test_lane_scores_are_those_of_an_index_without_the_rest(engine, filter, oracle_of):
    """As if the files never existed, to the last bit, statistics included."""
    files = some_files(4)
    oracle = oracle_of(files)
    kept = {
        row.document.path
        for row in oracle.rows
        if lets_through(filter, row.document, row.chunk)
    }
    whole, part = engine(files), engine({name: files[name] for name in kept})
    some, all_of_part = whole.allow(filter), part.allow(f.EVERYTHING)
    assert some.chunks
    assert (some.chunks, some.documents) == (all_of_part.chunks, all_of_part.documents)
    assert meaning(whole, "gamma delta", some) == meaning(
        part, "gamma delta", all_of_part
    )
    for terms in QUERIES:
        assert worded(whole, terms, some) == worded(part, terms, all_of_part)


def test_a_word_nobody_has_and_no_word_at_all(engine):
    snapshot = engine(some_files(5))
    everything = snapshot.allow(f.EVERYTHING)
    assert worded(snapshot, ["zzz"], everything) == {}
    assert worded(snapshot, [], everything) == {}
    assert worded(snapshot, ["zzz", "alpha"], everything) == worded(
        snapshot, ["alpha"], everything
    )


@pytest.mark.rows("C50")
def test_coverage_by_hand(engine):
    """Each term by its rarity; a term that nobody has counts, and most of all."""
    snapshot = engine({"a.txt": "alpha beta", "b.txt": "beta", "c.txt": "gamma"})
    everything, places = (
        snapshot.allow(f.EVERYTHING),
        [("a.txt", 0), ("b.txt", 0), ("c.txt", 0)],
    )
    one, two, none = (
        np.log(1 + (3 - count + 0.5) / (count + 0.5)) for count in (1, 2, 0)
    )
    found = snapshot.coverage(["alpha", "beta"], places, everything)
    assert found == pytest.approx([1.0, two / (one + two), 0.0])
    assert found[0] == 1.0, "all there is, to the last bit"
    whole = one + two + none
    missing = snapshot.coverage(["alpha", "beta", "zzz"], places, everything)
    assert missing == pytest.approx([(one + two) / whole, two / whole, 0.0])
    assert list(snapshot.coverage(["zzz"], places, everything)) == [0.0] * 3
    assert list(snapshot.coverage([], places, everything)) == [0.0] * 3
    assert list(snapshot.coverage(["alpha"], [], everything)) == []


@pytest.mark.rows("R000-036")
def test_coverage_counts_among_the_allowed_rows(engine):
    """Rarity is that of an index without the rest, to the last bit."""
    files = some_files(14)
    whole, part = (
        engine(files),
        engine({name: text for name, text in files.items() if "docs/" in name}),
    )
    some, rest = whole.allow(f.Under("docs")), part.allow(f.EVERYTHING)
    places = sorted(meaning(part, "alpha", rest))
    assert places
    for terms in QUERIES:
        assert list(whole.coverage(terms, places, some)) == list(
            part.coverage(terms, places, rest)
        )
    assert any(
        list(whole.coverage(terms, places, some))
        != list(whole.coverage(terms, places, whole.allow(f.EVERYTHING)))
        for terms in QUERIES
    )


@pytest.mark.rows("R000-016", "R002-011")
def test_passages_are_what_the_files_say(engine):
    """A passage is an exact run of its file's lines, with its place and its tags."""
    text = (
        "---\ntags: [API, draft]\ndate: 2026-05-01\n---\n# One\n\nalpha\n\n## Two\n\nbeta "
        + "gamma " * 20
    )
    snapshot = engine({"docs/a.md": text, "b.py": "alpha = 1\n"})
    everything = snapshot.allow(f.EVERYTHING)
    hits = by_meaning(snapshot, embed("alpha"), everything, ALL)
    passages = {
        passage.position: passage
        for passage in snapshot.passages([hit.key for hit in hits]).values()
    }
    lines = text.split("\n")
    for passage in passages.values():
        if passage.path == "docs/a.md":
            shown = "\n".join(lines[passage.start_line - 1 : passage.end_line])
            assert passage.content in shown
            assert passage.tags == ("api", "draft")
            assert passage.modified == 1777593600.0
    assert {passage.header_path for passage in passages.values()} == {
        "One",
        "One > Two",
        "",
    }
    assert (passages["b.py", 0].chunk_type, passages["b.py", 0].language) == (
        "definitions",
        "python",
    )
    assert passages["b.py", 0].content == "alpha = 1"


@pytest.mark.rows("R000-022")
def test_same_texts_have_the_same_hash_and_others_have_not(engine):
    """Texts that differ in white space alone are one text."""
    snapshot = engine(
        {"a.md": "alpha  beta", "b/a.md": "alpha\nbeta\n", "c.md": "alpha beta gamma"}
    )
    hits = by_meaning(snapshot, embed("alpha"), snapshot.allow(f.EVERYTHING), ALL)
    hashes = {
        p.path: p.content_hash
        for p in snapshot.passages([hit.key for hit in hits]).values()
    }
    assert hashes["a.md"] == hashes["b/a.md"] != hashes["c.md"]


# --- Engines against the oracle --------------------------------------------------------------------

COMPARED = [
    *(("embedded", seed) for seed in (11, 12, 13)),
    *((kind, 11) for kind in clusters.KINDS),
]


@pytest.fixture(scope="module", params=COMPARED, ids=str)
def both(request, tmp_path_factory) -> Iterator[tuple[Snapshot, NaiveSnapshot]]:
    root, (kind, seed) = tmp_path_factory.mktemp("both"), request.param
    if kind == "qdrant-server" and not clusters.SERVER:
        pytest.skip(clusters.WHY_NOT)
    points = (
        clusters.points_at(kind, tmp_path_factory.mktemp("points"), indexed=True)
        if kind != "embedded"
        else None
    )
    index = clusters.index_on(points) if points else None
    files = some_files(seed, 40 if kind == "qdrant-local" else 80)
    corpus = open_in_steps(root, files, index=index, **SMALL_CHUNKS)
    with opened(corpus) as snapshot:
        if points:
            dead = {"must": [{"key": "gone", "range": {"gte": 0}}]}
            assert points.count(dead), (
                "the comparison is meant for points that are gone"
            )
        else:
            assert len(snapshot.view.segments) > 1, (
                "the comparison is meant for several segments"
            )
            assert any(
                segment.living() is not None for segment in snapshot.view.segments
            ), "and for dead rows"
        yield snapshot, naive_snapshot(root, corpus.settings)


def _is_slow(snapshot: Snapshot) -> bool:
    """The library's local mode reads every filter for every point, in Python."""
    return isinstance(snapshot, QdrantSnapshot) and isinstance(snapshot._points, Server)


@pytest.mark.rows("R000-026", "R000-029", "R000-034")
def test_filters_against_a_reading_row_by_row(both):
    """Two hundred filters of any shape select exactly the rows they say."""
    snapshot, oracle = both
    dice = random.Random(7)
    for _ in range(25 if _is_slow(snapshot) else 200):
        chosen = random_filter(dice)
        expected = oracle.allow(chosen)
        allowed = snapshot.allow(chosen)
        assert (allowed.chunks, allowed.documents) == (
            expected.chunks,
            expected.documents,
        ), str(chosen)
        positions = {oracle.by_key[key].position for key in expected.rows}
        assert set(meaning(snapshot, "alpha", allowed)) == positions, str(chosen)


def test_what_is_counted_under_a_filter_against_a_reading_row_by_row(both):
    """Facets: documents with an allowed chunk, and how many have one of each type and language."""
    snapshot, oracle = both
    dice = random.Random(11)
    for _ in range(8 if _is_slow(snapshot) else 60):
        chosen = random_filter(dice)
        rows = [oracle.by_key[key] for key in oracle.allow(chosen).rows]
        allowed = snapshot.allow(chosen)
        assert {facts.path for facts in snapshot.facts_of(allowed)} == {
            row.document.path for row in rows
        }
        types = Counter(
            kind
            for kind, _ in {(row.chunk.chunk_type, row.document.path) for row in rows}
        )
        spoken = {
            (row.chunk.language, row.document.path)
            for row in rows
            if row.chunk.language
        }
        assert snapshot.kinds(allowed) == (
            types,
            Counter(name for name, _ in spoken),
        ), str(chosen)
    aliases = {
        path: document.front.aliases for path, document in oracle.documents.items()
    }
    assert snapshot.aliases(sorted(aliases)) == aliases


@pytest.mark.rows("R002-012", "R000-063")
def test_word_scores_against_the_formula(both):
    """BM25F as written in the docstring; weights are stored in single precision."""
    snapshot, oracle = both
    dice = random.Random(8)
    single = () if _is_slow(snapshot) else [(term,) for term in VOCABULARY]
    for terms in [*QUERIES, *single, ("ada",), ("draft",), ("note", "guid")]:
        chosen = random_filter(dice)
        found = worded(snapshot, terms, snapshot.allow(chosen))
        expected = worded(oracle, terms, oracle.allow(chosen))
        assert found.keys() == expected.keys()
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.rows("C50")
def test_coverage_against_the_formula(both):
    """Under any filter, of rows in any order, twice the same included."""
    snapshot, oracle = both
    dice = random.Random(9)
    for terms in [*QUERIES, ("ada",), ("note", "guid", "absent"), ("zzz",), ()]:
        chosen = random_filter(dice)
        expected = oracle.allow(chosen)
        places = [oracle.by_key[key].position for key in sorted(expected.rows)]
        wanted = dice.choices(places, k=25) if places else []
        found = list(snapshot.coverage(terms, wanted, snapshot.allow(chosen)))
        assert found == pytest.approx(
            list(oracle.coverage(terms, wanted, expected)), rel=1e-12
        )


def test_a_field_that_counts_for_nothing_covers_nothing(tmp_path):
    """A term that is searched nowhere is not there."""
    write_files(tmp_path, {"a.md": "---\nauthor: zebra\n---\nalpha", "b.md": "zebra"})
    for boost, expected in ((0.0, [0.0, 1.0]), (1.0, [1.0, 1.0])):
        flags = {"fields__author": boost}
        places = [("a.md", 0), ("b.md", 0)]
        oracle = naive_snapshot(tmp_path, test_settings(tmp_path, **flags))
        with opened(open_corpus(tmp_path, **flags)) as snapshot:
            for each in (snapshot, oracle):
                assert (
                    list(each.coverage(["zebra"], places, each.allow(f.EVERYTHING)))
                    == expected
                )


def test_meaning_against_a_full_sort(both):
    snapshot, oracle = both
    for seed, query in enumerate(
        ("alpha", "retry cache token", "unheard of", "docs api draft")
    ):
        chosen = random_filter(random.Random(seed))
        expected = meaning(oracle, query, oracle.allow(chosen))
        for depth in (1, 7, ALL):
            found = meaning(snapshot, query, snapshot.allow(chosen), depth)
            assert found == pytest.approx(
                {place: expected[place] for place in found}, abs=1e-12
            )
            nearest = sorted(found.values(), reverse=True)[:depth]
            assert nearest == pytest.approx(
                sorted(expected.values(), reverse=True)[:depth], abs=1e-12
            )


@pytest.mark.rows("R002-012")
def test_a_score_by_hand(tmp_path):
    """One small corpus, its scores worked out on paper."""
    files = {
        "a.txt": "alpha alpha beta",
        "b.txt": "beta gamma",
        "c.txt": "delta delta delta delta",
    }
    with opened(open_corpus(write_files(tmp_path, files))) as snapshot:
        found = worded(snapshot, ["alpha"], snapshot.allow(f.EVERYTHING))
    # "alpha" stands twice in a body of three terms; a title ("a.txt" is "txt" alone) has no part in it.
    weight = 2 / (1 - 0.75 + 0.75 * 3 / 80)
    expected = weight * 2.5 / (weight + 1.5) * np.log(1 + (3 - 1 + 0.5) / (1 + 0.5))
    assert found == pytest.approx({("a.txt", 0): expected}, rel=1e-6)


@pytest.mark.rows("R002-012")
@pytest.mark.parametrize("field", words.WORD_FIELDS)
def test_every_field_weight_changes_scores_as_the_formula_says(field, tmp_path):
    """A knob that exists works; without its field a term leaves no posting."""
    files = {
        "a.md": "---\ntitle: alpha\ndescription: alpha\nkeywords: [alpha]\ntags: [alpha]\naliases: [alpha]\n"
        "author: alpha\ncategory: alpha\n---\n# alpha\n\nalpha\n",
        "b.md": "# beta\n\nbeta\n",
    }
    write_files(tmp_path, files)
    seen = []
    for boost in (0.0, 1.0, 7.5):
        flags = {f"fields__{name}": 0.0 for name in words.WORD_FIELDS} | {
            f"fields__{field}": boost
        }
        with opened(open_corpus(tmp_path, **flags)) as snapshot:
            oracle = naive_snapshot(tmp_path, test_settings(tmp_path, **flags))
            found = worded(snapshot, ["alpha"], snapshot.allow(f.EVERYTHING))
            expected = worded(oracle, ["alpha"], oracle.allow(f.EVERYTHING))
            assert found == pytest.approx(expected, rel=1e-5)
            seen.append(found.get(("a.md", 0), 0.0))
    assert seen[0] == 0.0 < seen[1] < seen[2]


# --- Vectors ---------------------------------------------------------------------------------------


def unit(rows: np.ndarray) -> np.ndarray:
    lengths = np.sqrt((rows.astype(np.float64) ** 2).sum(axis=1, keepdims=True))
    return (rows / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def vectors_of(kind: str, count: int, width: int, seed: int) -> np.ndarray:
    dice = np.random.default_rng(seed)
    plain = dice.standard_normal((count, width))
    match kind:
        case "random":
            return unit(plain)
        case "clustered":
            return unit(plain[:5][dice.integers(0, 5, count)] + 1e-3 * plain)
        case "near ties":
            return unit(plain[:1] + 1e-7 * plain)
        case "duplicates":
            return unit(plain[dice.integers(0, max(count // 10, 1), count)])
        case "one large number":
            plain[:, 0] = 100.0
            return unit(plain)
        case "equal numbers":
            return unit(np.sign(plain))
        case "one-hot":
            return unit(np.eye(width)[dice.integers(0, width, count)])
        case "opposites":
            return unit(np.concatenate([plain[: count // 2], -plain[: count // 2]]))
        case "next to nothing":
            rows = unit(plain)
            rows[::3] *= np.float32(1e-30)
            rows[1::7] = 0.0
            return rows
    raise AssertionError(kind)


KINDS = (
    "random", "clustered", "near ties", "duplicates", "one large number", "equal numbers", "one-hot",
    "opposites", "next to nothing",
)  # fmt: skip


@pytest.mark.parametrize("width", [2, 7, 64, 256, 384])
@pytest.mark.parametrize("kind", KINDS)
def test_nearest_is_a_full_sort(kind, width):
    """The scan over 8-bit codes loses nothing, whatever the vectors and whatever is allowed."""
    dice = np.random.default_rng(width)
    rows = vectors_of(kind, 600, width, seed=width)
    arrays = vectors.encode(rows)
    queries = [
        rows[3],
        -rows[5],
        unit(dice.standard_normal((1, width)))[0],
        unit(np.ones((1, width)))[0],
    ]
    for query in queries:
        exact = rows.astype(np.float64) @ query.astype(np.float64)
        for share in (None, 0.9, 0.3, 0.01, 0.0):
            mask = None if share is None else dice.random(len(rows)) < share
            for depth in (1, 10, 100, 1000):
                _check_nearest(arrays, query, mask, depth, exact)


def _check_nearest(arrays, query, mask, depth, exact):
    found, scores = vectors.nearest(arrays, query, mask, depth)
    eligible = np.arange(len(exact)) if mask is None else np.flatnonzero(mask)
    assert len(found) == min(depth, len(eligible))
    assert set(found) <= set(eligible)
    assert (np.diff(found) > 0).all(), "rows ascend"
    np.testing.assert_allclose(scores, exact[found], rtol=0, atol=1e-12)
    if len(found) < len(eligible):
        edge = np.sort(exact[eligible])[-depth]
        surely = eligible[exact[eligible] > edge + 1e-12]
        assert set(surely) <= set(found), "one of the best is missing"
        assert exact[found].min() >= edge - 1e-12, (
            "one that is not among the best is here"
        )


@pytest.mark.rows("R000-036")
@pytest.mark.parametrize(
    "width", [1, 2, 3, 7, 8, 9, 16, 127, 128, 129, 255, 256, 384, 1000]
)
def test_a_row_scores_the_same_whatever_is_scored_beside_it(width):
    """To the last bit, alone, in any company, in any order, from any part of memory."""
    dice = np.random.default_rng(width)
    rows = vectors_of("random", 500, width, seed=width)
    query = unit(dice.standard_normal((1, width)))[0]
    whole = vectors.score(rows, np.arange(500), query)
    for size in (1, 2, 3, 4, 5, 8, 63, 200, 499):
        some = np.sort(dice.choice(500, size, replace=False))
        assert vectors.score(rows, some, query).tobytes() == whole[some].tobytes()
    shuffled = dice.permutation(500)
    moved = vectors.score(np.ascontiguousarray(rows[shuffled]), np.arange(500), query)
    assert moved.tobytes() == whole[shuffled].tobytes()
    odd = np.frombuffer(b"1234" + rows.tobytes(), np.float32, offset=4).reshape(
        rows.shape
    )
    assert vectors.score(odd, np.arange(500), query).tobytes() == whole.tobytes()


def test_nearest_scores_do_not_depend_on_mask_or_depth():
    rows = vectors_of("clustered", 900, 256, seed=1)
    arrays, query = vectors.encode(rows), rows[0]
    everything = dict(zip(*vectors.nearest(arrays, query, None, 900), strict=True))
    dice = np.random.default_rng(2)
    for share in (0.9, 0.5, 0.2, 0.01):
        mask = dice.random(900) < share
        for depth in (1, 5, 50, 900):
            found, scores = vectors.nearest(arrays, query, mask, depth)
            assert [everything[row] for row in found] == scores.tolist()


def test_of_equal_rows_the_earlier_stay():
    """Equal scores at the edge go by path and position, which is the order of rows."""
    rows = np.repeat(
        unit(np.random.default_rng(3).standard_normal((1, 64))), 50, axis=0
    )
    mask = np.arange(50) % 2 == 1
    assert vectors.nearest(vectors.encode(rows), rows[0], None, 7)[0].tolist() == list(
        range(7)
    )
    assert vectors.nearest(vectors.encode(rows), rows[0], mask, 4)[0].tolist() == [
        1,
        3,
        5,
        7,
    ]


def test_best_against_a_full_sort():
    dice = np.random.default_rng(4)
    for _ in range(300):
        count, depth = int(dice.integers(0, 30)), int(dice.integers(1, 35))
        rows = np.sort(dice.choice(1000, count, replace=False))
        scores = dice.choice([0.5, 1.0, 2.0, 3.0], count)
        kept, kept_scores = best(rows, scores, depth)
        expected = sorted(zip(-scores, rows, strict=True))[:depth]
        assert sorted(zip(-kept_scores, kept, strict=True)) == expected


# --- Many generations ------------------------------------------------------------------------------


def test_a_reader_that_stays_open_follows_merges(tmp_path):
    """Segments come, go and are merged under a reader; it answers as one that has just come."""
    root = write_files(tmp_path, some_files(21, 6))
    corpus = open_corpus(root, **SMALL_CHUNKS)
    counts = []
    for number in range(45):
        write_files(root, {f"n{number % 30}.md": f"# Note\n\nalpha marker{number}\n"})
        corpus.refresh()
        with corpus.snapshot() as snapshot:
            counts.append(len(snapshot.view.segments))
            oracle = naive_snapshot(root, corpus.settings)
            for chosen in (f.EVERYTHING, ~f.File(("n3.md",)), f.Path(("n*",))):
                found = worded(
                    snapshot, [f"marker{number}", "alpha"], snapshot.allow(chosen)
                )
                expected = worded(
                    oracle, [f"marker{number}", "alpha"], oracle.allow(chosen)
                )
                assert found == pytest.approx(expected, rel=1e-5), number
    corpus.close()
    assert min(counts[10:]) < max(counts), "there were merges"


@pytest.mark.rows("R000-036")
def test_a_snapshot_does_not_change_while_it_is_held(tmp_path):
    """Neither its rows, nor its texts, nor what its filters mean."""
    files = some_files(22, 30)
    root = write_files(tmp_path, files)
    corpus = open_corpus(root, **SMALL_CHUNKS)
    filters = [f.EVERYTHING, ~f.Under("docs"), f.Tag("draft"), f.Path(("*.md",))]
    with corpus.snapshot() as held:
        before = [meaning(held, "alpha", held.allow(chosen)) for chosen in filters]
        for name in sorted(files)[::2]:
            (root / name).unlink()
        write_files(root, {"new.md": "# New\n\nalpha"})
        corpus.refresh()
        held.view.allowed.clear()
        assert [
            meaning(held, "alpha", held.allow(chosen)) for chosen in filters
        ] == before
        assert held.state.documents == len(files)
    with corpus.snapshot() as after:
        oracle = naive_snapshot(root, corpus.settings)
        assert set(meaning(after, "alpha", after.allow(filters[1]))) == {
            oracle.by_key[key].position for key in oracle.allow(filters[1]).rows
        }
    corpus.close()


@pytest.mark.rows("R000-053")
def test_what_a_later_generation_learnt_does_not_reach_an_earlier_one(tmp_path):
    """A thread on an older snapshot must not see an excluded file because it is deleted since."""
    root = write_files(
        tmp_path,
        {"a.md": "# A\n\nalpha", "b.md": "# B\n\nbeta", "c.md": "# C\n\ngamma"},
    )
    corpus = open_corpus(root)
    unwanted = ~f.File(("a.md",))

    def later() -> None:
        (root / "a.md").unlink()
        corpus.refresh()
        with corpus.snapshot() as snapshot:
            assert set(meaning(snapshot, "alpha", snapshot.allow(unwanted))) == {
                ("b.md", 0),
                ("c.md", 0),
            }

    with corpus.snapshot() as earlier:
        _in_a_thread(later)
        assert set(meaning(earlier, "alpha", earlier.allow(unwanted))) == {
            ("b.md", 0),
            ("c.md", 0),
        }
        assert ("a.md", 0) in meaning(earlier, "alpha", earlier.allow(f.EVERYTHING))
    corpus.close()


def test_a_thread_that_is_late_opens_its_own_generation(tmp_path, monkeypatch):
    """A transaction begun before a deletion, whose segments are opened after a later one's."""
    root = write_files(
        tmp_path,
        {"a.md": "# A\n\nalpha", "b.md": "# B\n\nbeta", "c.md": "# C\n\ngamma"},
    )
    corpus = open_corpus(root)
    unwanted = ~f.File(("a.md",))
    real = database.facts
    late = [True]

    def facts(connection):
        found = real(connection)  # from here on it sees the generation of now
        if late:
            late.clear()
            _in_a_thread(later)
        return found

    def later() -> None:
        (root / "a.md").unlink()
        corpus.refresh()
        with corpus.snapshot() as snapshot:
            snapshot.allow(unwanted)

    monkeypatch.setattr(database, "facts", facts)
    with corpus.snapshot() as earlier:
        assert earlier.state.documents == 3
        assert set(meaning(earlier, "alpha", earlier.allow(unwanted))) == {
            ("b.md", 0),
            ("c.md", 0),
        }
    corpus.close()


def test_a_reader_notices_an_index_that_was_deleted_and_made_anew(tmp_path):
    root = write_files(tmp_path, {"a.md": "# A\n\nalpha"})
    corpus = open_corpus(root)
    assert [result.path for result in corpus.search("alpha").results] == ["a.md"]
    shutil.rmtree(root / ".tamis")
    write_files(root, {"b.md": "# B\n\nalpha"})
    (root / "a.md").unlink()
    open_corpus(root).close()
    assert [result.path for result in corpus.search("alpha").results] == ["b.md"]
    corpus.close()


def test_what_is_pending_is_read_anew(tmp_path):
    """Facts that are no generation of their own reach a reader all the same."""
    root = write_files(tmp_path, {"a.md": "# A\n\nalpha"})
    corpus = open_corpus(root)
    before = corpus.search("alpha").index
    corpus.refresh()
    after = corpus.search("alpha").index
    connection = database.open_writer(corpus.directory)
    database.set_facts(connection, {"pending": 3})
    connection.close()
    assert corpus.search("alpha").index.pending_files == 3
    assert (before.generation, before.pending_files, after.pending_files) == (
        after.generation,
        0,
        0,
    )
    corpus.close()


def _in_a_thread(work: Callable[[], None]) -> None:
    faults: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - handed over to the test's own thread
            faults.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if faults:
        raise faults[0]


# --- What is embedded -------------------------------------------------------------------------


class Recording(HashingEmbedder):
    """Remembers what it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_passages(self, texts: Sequence[str]) -> np.ndarray:
        self.texts += texts
        return super().embed_passages(texts)


def _indexed_with(recording: Recording, root: Path) -> Corpus:
    settings = test_settings(root, chunking__min_chars=0)
    corpus = Corpus(root, root / ".tamis", settings)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tamis.models.embedders.load_embedder", lambda *_: recording)
        corpus.refresh()
    return corpus


@pytest.mark.rows("R002-038", "R002-039", "R002-040", "R002-041")
def test_embedding_includes_header_path(tmp_path):
    """Breadcrumb, exactly two newlines, text."""
    recording = Recording()
    body = "# Search\n\n## Fusion Algorithm\n\nConfiguration options..."
    root = write_files(tmp_path, {"a.md": body, "b.txt": "No heading here."})
    _indexed_with(recording, root).close()
    passage = (
        "Search > Fusion Algorithm\n\n## Fusion Algorithm\n\nConfiguration options..."
    )
    assert passage in recording.texts
    assert (
        "b.txt\n\nNo heading here." in recording.texts
    )  # its title stands in for headings


@pytest.mark.rows("R002-041", "R002-043")
def test_the_same_text_under_two_headings_has_two_vectors(tmp_path):
    """The heading is what tells them apart, in the vectors and in the answer."""
    same = "Options are set in the configuration file."
    root = write_files(
        tmp_path,
        {
            "a.md": f"# Cache\n\n### Options\n\n{same}",
            "b.md": f"# Retry\n\n### Options\n\n{same}",
        },
    )
    with _indexed_with(Recording(), root) as corpus:
        found = corpus.search("cache options").results
        with corpus.snapshot() as snapshot:
            folder = snapshot.view.segments[0].record.folder
            stored = map_arrays(corpus.directory / "segments" / folder / "vectors.bin")[
                "full"
            ]
    assert found[0].header_path.startswith("Cache")
    assert len({row.tobytes() for row in stored}) == len(stored)


@pytest.mark.rows("R002-011")
def test_chunk_types_are_known_to_the_row_codes():
    """Every chunk type can be stored and asked for."""
    from tamis.index.embedded.segment import row_codes

    assert len({row_codes(kind, None) for kind in CHUNK_TYPES}) == len(CHUNK_TYPES)
