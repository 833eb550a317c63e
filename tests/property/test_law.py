"""THE LAW: searching with a filter equals searching an index that never held what the filter keeps out.

Generated corpora (a small vocabulary, so that ties and repeated texts are common), filters and
questions. Which passages a filter allows is read row by row by the oracle; the reference is an index
of those passages alone. Files link to each other, define and import things, and may be cut on two
levels. Equal means equal: passages, order, scores to the last bit, evidence, counts.
"""

import math
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.corpora import open_corpus, open_in_steps, test_settings, write_files
from support.naive import kept_ordinals, lets_through, pruned, read_documents
from support.scripted import parsing
from tamis.corpus import Corpus
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.model import Document, Found, Result, chunk_id
from tamis.query import filters as f
from tamis.settings import ArchiveSettings, ChunkingSettings

SMALL_CHUNKS = {
    "chunking__min_chars": 0,
    "chunking__max_chars": 100,
    "chunking__overlap_chars": 20,
}
TWO_LEVELS = {
    "chunking__parents": True,
    **{
        f"chunking__parent_{name}": size
        for name, size in (("min_chars", 0), ("max_chars", 300))
    },
    **{
        f"chunking__child_{name}": size
        for name, size in (("min_chars", 0), ("max_chars", 100))
    },
    "chunking__parent_overlap_chars": 40,
    "chunking__child_overlap_chars": 20,
}
SIZES = (SMALL_CHUNKS, TWO_LEVELS)
WORDS = ("alpha", "beta", "gamma", "delta", "retry", "cache", "token")
FOLDERS = ("", "docs/", "docs/api/", "notes/", "archive/")
STEMS = ("a", "api", "read me", "ünï")
SUFFIXES = (".md", ".md", ".py", ".txt", ".yaml")
TAGS = ("draft", "api", "api/v2", "how to")
LINKS = (
    "[[a]]", "[[API|the api]]", "[[docs/a#alpha]]", "![[read me]]", "[[ünï]]", "[[Second Name]]",
    "[[nowhere]]",
    "[it](a.md)", "[it](../a.md)", "[it](/docs/api.md#beta)", "[it](read%20me.md)", "[[api/a]]", "[it](api/)",
)  # fmt: skip
CODE = (
    "def alpha_retry(token):\n    return token\n",
    "import api\nfrom docs import a\n\n\nclass Cache:\n    def retryToken(self):\n        return api.beta\n",
    "ALPHA = 1\n",
)
DAYS = {"2026-01-15": 1768435200, "2026-03-01": 1772323200, "2026-06-30": 1782777600}
DAY = 86_400
ARCHIVE = ArchiveSettings().patterns


def examples(count: int) -> settings:
    """So many, the same ones on every machine and in every run."""
    slow = [
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ]
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=slow,
    )


@dataclass(frozen=True)
class File:
    text: str
    day: str = "2026-03-01"


sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=30).map(" ".join)
linking = st.lists(st.sampled_from((*WORDS, *LINKS)), min_size=1, max_size=30).map(
    " ".join
)
front_matters = st.builds(
    lambda tags, author, category, more: (
        f"---\ntags: {sorted(tags)}\nauthor: {author}\ncategory: {category}\n{more}---\n"
    ),
    st.sets(st.sampled_from(TAGS)),
    st.sampled_from(("Ada", "Grace")),
    st.sampled_from(("guide", "note")),
    st.sampled_from(("", "related: [docs/a, read me]\n", "aliases: [Second Name]\n")),
)
paths = st.builds(
    lambda *parts: "".join(parts),
    st.sampled_from(FOLDERS),
    st.sampled_from(STEMS),
    st.sampled_from(SUFFIXES),
)


@st.composite
def corpora(draw: st.DrawFn) -> dict[str, File]:
    """Files of which some say the same, with front matter, in folders, of several kinds."""
    pool = draw(st.lists(sentences, min_size=1, max_size=4))
    files: dict[str, File] = {}
    for path in sorted(
        draw(
            st.sets(paths, min_size=1, max_size=14)
            | st.sets(paths, min_size=8, max_size=14)
        )
    ):
        body = draw(st.sampled_from(pool) | sentences | linking)
        if path.endswith(".md"):
            heading = draw(
                st.sampled_from(("", "# alpha\n\n", "# beta\n\n## retry\n\n"))
            )
            block = draw(
                st.sampled_from(
                    ("", "", *(f"\n\n```python\n{code}```\n\ngamma" for code in CODE))
                )
            )
            body = draw(st.just("") | front_matters) + heading + body + block
        if path.endswith(".py"):
            body = draw(st.just(body) | st.sampled_from(CODE))
        files[path] = File(body, draw(st.sampled_from(sorted(DAYS))))
    return files


atoms: st.SearchStrategy[f.Filter] = st.one_of(
    st.builds(
        lambda *names: f.File(names),
        st.sampled_from(("a.md", "api", "/docs/a.md", "/docs/api")),
        st.sampled_from(("/a.py", "read me", "ünï", "/docs/api/a")),
    ),
    st.builds(
        lambda *patterns: f.Path(patterns),
        st.sampled_from(
            ("docs/**", "*.py", "/a.md", "docs/", "notes/*", "**/api/", "read me.*")
        ),
        st.sampled_from(("!docs/api/", "!*.md", "*.txt", "api*")),
    ),
    st.builds(
        lambda one: f.Path((one,)),
        st.sampled_from(("docs/**", "*.md", "**/a.*", "archive/", "/*")),
    ),
    st.builds(f.Under, st.sampled_from(("docs", "docs/api", "notes", "nowhere"))),
    st.builds(
        f.Tag,
        st.sampled_from(
            (*TAGS, "unknown", "code", "python", "documentation", "definitions")
        ),
    ),
    st.builds(
        f.Type,
        st.sampled_from(
            ("documentation", "definitions", "data", "symbols", "code_block")
        ),
    ),
    st.builds(f.Language, st.sampled_from(("python", "yaml", "rust"))),
    st.builds(f.Author, st.sampled_from(("ada", "Grace", "Nobody"))),
    st.builds(f.Category, st.sampled_from(("guide", "NOTE"))),
    st.builds(f.DocumentIs, st.sampled_from(("a.md", "docs/read me.md"))),
    st.builds(lambda day: f.After(day, DAYS[day]), st.sampled_from(sorted(DAYS))),
    st.builds(
        lambda day: f.Before(day, DAYS[day] + DAY), st.sampled_from(sorted(DAYS))
    ),
    st.just(f.Archived(ARCHIVE)),
)
filters = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda terms: f.And(tuple(terms))),
        st.lists(inner, min_size=2, max_size=3).map(lambda terms: f.Or(tuple(terms))),
        inner.map(f.Not),
        st.sampled_from((f.EVERYTHING, f.NOTHING)),
    ),
    max_leaves=8,
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, File], list[f.Filter]]:
    """A corpus, filters of any shape, two that are sure to cut it in two, and one that cuts through files."""
    files = draw(corpora())
    named = sorted(draw(st.sets(st.sampled_from(sorted(files)), min_size=1)))
    some = f.File(tuple(f"/{path}" for path in named))
    through = draw(
        st.sampled_from((f.Type("documentation"), f.Type("code_block"), f.Tag("code")))
    )
    sure = [
        f.Not(some),
        f.Or((some, draw(atoms))),
        draw(st.sampled_from((through, f.Not(through)))),
    ]
    return files, [*draw(st.lists(filters, min_size=1, max_size=1)), *sure]


questions = st.fixed_dictionaries(
    {
        "query": st.lists(
            st.sampled_from((*WORDS, "unheard", "retryToken", "alpha_retry", "a.md")),
            min_size=1,
            max_size=4,
        ).map(" ".join),
        "limit": st.sampled_from((1, 3, 5, 50)),
        "min_score": st.sampled_from((None, 0.0, 0.3, 0.9)),
        "max_chunks_per_doc": st.sampled_from((None, 1, 2)),
        "max_hops": st.sampled_from((None, 0, 1, 2, 3)),
        "include_graph_context": st.booleans(),
        "expand_parents": st.sampled_from((None, True, False)),
        "explain": st.booleans(),
    }
)


@contextmanager
def corpus_of(
    files: Mapping[str, File],
    *,
    in_steps: bool = False,
    sizes: Mapping[str, Any] = SMALL_CHUNKS,
    only: f.Filter = f.EVERYTHING,
) -> Iterator[Corpus]:
    """An index of the files as if they had been written on their days, of the allowed passages only."""
    with tempfile.TemporaryDirectory() as folder, parsing(_parse_what_passes(only)):
        root = Path(folder).resolve()
        texts = {path: file.text for path, file in files.items()}
        if in_steps:
            open_in_steps(root, texts, **sizes).close()
        with open_corpus(_written(root, files), **sizes) as corpus:
            yield corpus


def _written(root: Path, files: Mapping[str, File]) -> Path:
    write_files(root, {path: file.text for path, file in files.items()})
    for path, file in files.items():
        os.utime(root / path, (DAYS[file.day], DAYS[file.day]))
    return root


def _parse_what_passes(
    filter: f.Filter,
) -> Callable[[Source, ChunkingSettings], tuple[Document, str]]:
    def parse_some(source: Source, sizes: ChunkingSettings) -> tuple[Document, str]:
        document, warning = parse(source, sizes)
        return pruned(document, filter), warning

    return parse_some


def kept_by(
    filter: f.Filter, files: Mapping[str, File], sizes: Mapping[str, Any] = SMALL_CHUNKS
) -> dict[str, File]:
    """The files of which the oracle lets something through."""
    with tempfile.TemporaryDirectory() as folder:
        root = _written(Path(folder), files)
        return {
            document.path: files[document.path]
            for document in read_documents(root, test_settings(root, **sizes))
            if any(lets_through(filter, document, chunk) for chunk in document.chunks)
        }


def numbered_back(
    filter: f.Filter, files: Mapping[str, File], sizes: Mapping[str, Any] = SMALL_CHUNKS
) -> dict[str, str]:
    """A pruned index numbers its passages anew: by their names there, their names in the whole one."""
    with tempfile.TemporaryDirectory() as folder:
        root = _written(Path(folder), files)
        return {
            chunk_id(document.path, new): chunk_id(document.path, old)
            for document in read_documents(root, test_settings(root, **sizes))
            for new, old in enumerate(kept_ordinals(document, filter))
        }


def comparable(
    found: Found, names: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Any]:
    """Everything an answer says, without what names the index: where it lies and what it holds besides."""
    answer = found.to_dict()
    for item in (*answer["results"], *answer.get("graph_context", ())):
        item.pop("file_path", None)
        item["chunk_id"] = names.get(item["chunk_id"], item["chunk_id"])
    stats = {
        name: count
        for name, count in answer["stats"].items()
        if name != "excluded_documents"
    }
    said = {
        name: answer.get(name) for name in ("results", "query_type", "graph_context")
    }
    return said | {"stats": stats}


def check_invariants(found: Found, limit: int) -> None:
    """Scores are between 0 and 1 and do not increase; raw scores are sums of RRF."""
    scores = [result.score for result in found.results]
    assert len(scores) <= limit
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert scores == sorted(scores, reverse=True)
    for result in found.results:
        assert result.raw_score == pytest.approx(_fused(result), rel=1e-12)
    counts = [found.stats[name] for name in FUNNEL]
    assert counts == sorted(counts, reverse=True)
    assert len(scores) == min(limit, counts[-1])


def _fused(result: Result) -> float:
    """What the ranks give, each as far as the lane's word counts there."""
    most = {
        "words": 2.0
    }  # what they are worth beside the meaning lane depends on the question
    assert all(0.0 <= e.confidence <= most.get(e.lane, 1.0) for e in result.evidence)
    worth = (e.confidence / (60 + e.rank) for e in result.evidence)
    return math.prod(result.boosts.values()) * sum(worth)


FUNNEL = (
    "original_count", "after_threshold", "after_content_dedup", "after_ngram_dedup", "after_dedup",
    "after_doc_limit", "after_parent_expansion",
)  # fmt: skip


@dataclass(frozen=True)
class Pair:
    """An index under a filter, and one of what the filter keeps alone."""

    whole: Corpus
    part: Corpus
    filter: str
    kept: Mapping[str, File]
    names: Mapping[str, str]  # of the passages: there, and in the whole

    def asked(self, question: Mapping[str, Any]) -> tuple[Found, Found]:
        """Both answers, which are the same."""
        found = self.whole.search(
            **question, filter=self.filter, exclude_archived=False
        )
        alone = self.part.search(**question, exclude_archived=False)
        assert comparable(found) == comparable(alone, self.names), self.filter
        return found, alone


def pairs(case: Any, sizes: Mapping[str, Any]) -> Iterator[Pair]:
    """One for each filter of a case."""
    files, chosen = case
    with corpus_of(files, in_steps=True, sizes=sizes) as whole:
        for filter in chosen:  # noqa: A001
            kept = kept_by(filter, files, sizes)
            with corpus_of(kept, sizes=sizes, only=filter) as part:
                yield Pair(
                    whole, part, str(filter), kept, numbered_back(filter, kept, sizes)
                )


@pytest.mark.rows(
    "R000-035",
    "R000-036",
    "R000-037",
    "R000-053",
    "R000-056",
    "R000-057",
    "R000-058",
    "R000-066",
    "R000-076",
    "R002-183",
)
@pytest.mark.parametrize("sizes", SIZES, ids=["one level", "parents"])
def test_filtering_equals_never_having_indexed(sizes):
    shown: Counter[str] = Counter()

    @examples(60)
    @given(cases(), st.lists(questions, min_size=2, max_size=3))
    def check(case, asked):
        for pair in pairs(case, sizes):
            documents = pair.whole.search(
                "alpha", exclude_archived=False
            ).index.documents
            shown["split"] += any(new != old for new, old in pair.names.items())
            for question in asked:
                found, _ = pair.asked(question)
                check_invariants(found, question["limit"])
                assert found.stats["eligible_documents"] == len(pair.kept)
                assert found.stats["excluded_documents"] == documents - len(pair.kept)
                assert {result.path for result in found.results} <= pair.kept.keys()
                shown.update(_kinds_of(found))

    check()
    expected = {"meaning", "words", "code", "links", "split", "neighbours"}
    assert {kind for kind, count in shown.items() if count > 20} >= expected
    assert (shown["sections"] > 20) == (sizes is TWO_LEVELS)


OTHER_WORDS = {
    **SMALL_CHUNKS,
    "search__query_expansion_enabled": True,
    "weights__query_expansion_threshold": -1.0,  # the model of the tests knows no meaning: any term will do
    "weights__query_expansion_top_k": 2,
    "weights__query_expansion_max_terms": 5,
    "weights__query_expansion_keywords": 0.4,
    "search__synonyms": "software",
}


@pytest.mark.slow
@pytest.mark.rows("C49", "R002-033")
def test_the_law_holds_for_questions_in_other_words():
    """Only terms of allowed rows are added, and which are frequent is counted over them."""
    shown: Counter[str] = Counter()

    @examples(25)
    @given(cases(), st.lists(questions, min_size=2, max_size=2))
    def check(case, asked):
        for pair in pairs(case, OTHER_WORDS):
            for question in asked:
                found, alone = pair.asked(question)
                assert (found.expansion, found.synonyms) == (
                    alone.expansion,
                    alone.synonyms,
                )
                everywhere = pair.whole.search(**question, exclude_archived=False)
                shown["expanded"] += bool(found.expansion)
                shown["otherwise"] += found.expansion != everywhere.expansion
                shown["synonyms"] += bool(found.synonyms)

    check()
    assert all(shown[kind] > 20 for kind in ("expanded", "otherwise", "synonyms")), (
        shown
    )


NOW = DAYS["2026-06-30"] + 5 * DAY
STAGES_ON = {
    "search__adaptive_weights_enabled": True,
    "weights__coherence": 0.5,
    "weights__saturation": 0.7,
    "search__ngram_dedup_enabled": True,
    "search__ngram_dedup_threshold": 0.5,
    "search__dedup_enabled": True,
    "search__dedup_similarity_threshold": 0.7,
    "search__recency_profile": "code",
    "search__recency_bias": 0.8,
}


@pytest.mark.slow
@pytest.mark.rows("R000-035", "R000-036", "R002-154", "R002-168", "C46")
@pytest.mark.parametrize("mmr", [False, True], ids=["same meaning", "mmr"])
def test_the_law_holds_with_every_stage_on(mmr, monkeypatch):
    """What one stage does to a passage is not up to others."""
    monkeypatch.setattr("tamis.corpus.time.time", lambda: NOW)
    flags = {
        **SMALL_CHUNKS,
        **STAGES_ON,
        "search__mmr_enabled": mmr,
        "search__mmr_lambda": 0.4,
    }
    shown: Counter[str] = Counter()

    @examples(40)
    @given(cases(), st.lists(questions, min_size=2, max_size=3))
    def check(case, asked):
        for pair in pairs(case, flags):
            for question in asked:
                found, _ = pair.asked(question)
                elsewhere = {
                    place.path for result in found.results for place in result.also_in
                }
                assert elsewhere <= pair.kept.keys()
                counts = [found.stats[name] for name in FUNNEL]
                assert counts == sorted(counts, reverse=True)
                scores = [result.score for result in found.results]
                assert scores == sorted(scores, reverse=True)
                shown.update(_stages_of(found))

    check()
    expected = {"near text", "recency", "coherence", "saturation", "also in"}
    expected.add("out of order" if mmr else "same meaning")
    assert {kind for kind, count in shown.items() if count > 20} >= expected


def _stages_of(found: Found) -> Iterator[str]:
    stats, results = found.stats, found.results
    if stats["after_ngram_dedup"] < stats["after_content_dedup"]:
        yield "near text"
    if stats["clusters_merged"]:
        yield "same meaning"
    yield from {boost for result in results for boost in result.boosts}
    if any(result.also_in for result in results):
        yield "also in"
    if any(one.raw_score < two.raw_score for one, two in pairwise(results)):
        yield "out of order"


def _kinds_of(found: Found) -> Iterator[str]:
    """What an answer is worth as an example: which lanes had a part in it, neighbours, sections."""
    yield from {
        evidence.lane for result in found.results for evidence in result.evidence
    }
    if found.graph_context:
        yield "neighbours"
    if any("#parent-" in result.chunk_id for result in found.results):
        yield "sections"


@dataclass(frozen=True)
class Arguments:
    """Arguments of a search, and the filter that they are meant to be."""

    given: dict[str, Any] = field(default_factory=dict)
    meant: f.Filter = f.EVERYTHING


def as_asked(name: str) -> str:
    """A name with a slash is a path below the root; one that begins with a slash is outside, so no file's."""
    if name.startswith("/"):
        return f"/{name}"
    return f"/{name.removeprefix('./')}" if "/" in name else name


def _arguments(**lists: list[str]) -> Arguments:
    any_of, all_of = f.Or, f.And
    meant = all_of(
        (
            *(f.Not(f.File((as_asked(name),))) for name in lists["excluded_files"]),
            *(
                [f.Not(f.Path(tuple(lists["exclude_patterns"])))]
                if lists["exclude_patterns"]
                else []
            ),
            *(
                [f.Path(tuple(lists["include_patterns"]))]
                if lists["include_patterns"]
                else []
            ),
            *([any_of(tuple(map(f.Under, lists["under"])))] if lists["under"] else []),
            *map(f.Tag, lists["tags"]),
            *(
                [any_of(tuple(map(f.Type, lists["chunk_types"])))]
                if lists["chunk_types"]
                else []
            ),
            *(
                [any_of(tuple(map(f.Language, lists["languages"])))]
                if lists["languages"]
                else []
            ),
            # Archived documents are hidden, unless patterns say what to include.
            *([f.Not(f.Archived(ARCHIVE))] if not lists["include_patterns"] else []),
        )
    )
    return Arguments(lists, meant)


def _lists(*values: str) -> st.SearchStrategy[list[str]]:
    return st.just([]) | st.lists(st.sampled_from(values), max_size=2, unique=True)


arguments = st.builds(
    _arguments,
    excluded_files=st.lists(
        st.sampled_from(("a.md", "api", "docs/a.md", "./a.py", "/a.txt")), max_size=3
    ),
    exclude_patterns=_lists("docs/api/", "*.txt", "!a*"),
    include_patterns=_lists("docs/**", "*.md", "archive/", "nothing/here"),
    under=_lists("docs", "notes", "docs/api"),
    tags=_lists("draft", "api"),
    chunk_types=_lists("documentation", "data"),
    languages=_lists("python", "yaml"),
)


@pytest.mark.slow
@pytest.mark.rows("R000-027", "R000-028", "R000-029", "R000-030")
@examples(90)
@given(corpora(), st.lists(arguments, min_size=2, max_size=3), questions)
def test_arguments_obey_the_law(files, chosen, question):
    """Every list of a search, alone and together."""
    with corpus_of(files, in_steps=True) as whole:
        for argument in chosen:
            kept = kept_by(argument.meant, files)
            names = numbered_back(argument.meant, kept)
            with corpus_of(kept, only=argument.meant) as part:
                found = whole.search(**question, **argument.given)
                alone = part.search(**question, exclude_archived=False)
                assert comparable(found) == comparable(alone, names), str(
                    argument.meant
                )
                check_invariants(found, question["limit"])


@pytest.mark.rows("R000-028", "R000-055")
@examples(50)
@given(corpora(), questions)
def test_an_empty_list_is_no_filter(files, question):
    """An empty exclusion list preserves behaviour."""
    with corpus_of(files) as corpus:
        plain = corpus.search(**question)
        names = (
            "excluded_files",
            "exclude_patterns",
            "include_patterns",
            "under",
            "tags",
            "chunk_types",
        )
        for empty in ([], ()):
            assert comparable(
                corpus.search(**question, **dict.fromkeys(names, empty))
            ) == comparable(plain)
        assert plain == corpus.search(**question) or comparable(plain) == comparable(
            corpus.search(**question)
        )


@pytest.mark.rows("R002-001")
@examples(50)
@given(corpora(), questions)
def test_the_way_to_an_index_does_not_show(files, question):
    """Deterministic. One run or many, the same files give the same answers."""
    with corpus_of(files) as straight, corpus_of(files, in_steps=True) as roundabout:
        assert comparable(straight.search(**question)) == comparable(
            roundabout.search(**question)
        )


def _large_corpus() -> dict[str, File]:
    """Three hundred files; every other one has the same text, which is the best for most questions here.

    So lanes that are asked for a few times the limit bring one text alone, and have to be asked again.
    """
    files = {}
    for number in range(300):
        own = f"alpha {WORDS[number % 7]} own{number // 12 * 12} {number}"
        files[f"d{number % 5}/f{number}.md"] = File(
            "alpha beta own0" if number % 2 else own
        )
    return files


@pytest.fixture(scope="module")
def large() -> Iterator[tuple[Corpus, dict[str, File]]]:
    files = _large_corpus()
    with corpus_of(files, in_steps=True) as corpus:
        yield corpus, files


@pytest.mark.rows("R000-025", "R000-038", "R000-054")
@pytest.mark.parametrize("limit", [1, 20, 100])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99, 1.0])
def test_results_are_never_short(large, share, limit):
    """`min(limit, eligible)` results, whatever share is kept out."""
    corpus, files = large
    # What is kept out is what would have come first: the worst case for fetching some and sifting.
    first_to_last = [
        result.path for result in corpus.search("alpha beta own0", limit=100).results
    ]
    order = first_to_last + sorted(set(files) - set(first_to_last))
    excluded = order[: round(len(order) * share)]
    allowed = [path for path in files if path not in excluded]
    eligible = {" ".join(files[path].text.split()) for path in allowed}
    found = corpus.search("alpha beta own0", limit=limit, excluded_files=excluded)
    assert len(found.results) == min(limit, len(eligible))
    assert not {result.path for result in found.results} & set(excluded)
    assert found.stats["eligible_documents"] == len(allowed)
    assert found.stats["excluded_documents"] == len(excluded)
    assert len({" ".join(result.content.split()) for result in found.results}) == len(
        found.results
    )


@pytest.mark.rows("R000-036", "R000-037")
@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_a_large_exclusion_obeys_the_law(large, share):
    """The same with three hundred files and half, a tenth, a hundredth of them left."""
    corpus, files = large
    names = sorted(files)
    kept = names[:: round(1 / (1 - share))]
    excluded = [name for name in names if name not in kept]
    with corpus_of({name: files[name] for name in kept}) as part:
        for query in ("alpha", "beta own0", "own12 token gamma", "unheard of"):
            for limit in (1, 5, 100):
                found = corpus.search(query, limit=limit, excluded_files=excluded)
                assert comparable(found) == comparable(part.search(query, limit=limit))


@pytest.mark.rows("R000-082")
def test_all_relevant_documents_excluded(large):
    """An empty result, a hint, and no error."""
    corpus, files = large
    found = corpus.search("alpha", excluded_files=sorted(files))
    assert found.results == ()
    assert found.stats["original_count"] == 0
    assert any("filter" in hint for hint in map(str, found.hints))


@pytest.mark.rows("R000-055")
def test_an_exclusion_that_matches_nothing_changes_nothing(large):
    """One whose values match nothing, asked the other way, lets nothing through."""
    corpus, _ = large
    plain = corpus.search("alpha beta", limit=20)
    assert comparable(
        corpus.search("alpha beta", limit=20, excluded_files=["nowhere.md"])
    ) == comparable(plain)
    assert corpus.search("alpha beta", tags=["nowhere"]).results == ()


@pytest.mark.rows("R000-036")
def test_a_workspace_is_its_folders(tmp_path):
    """A configured name stands for its folders, and nothing else is there."""
    files = {path: file.text for path, file in _large_corpus().items()}
    whole = write_files(
        tmp_path / "whole",
        files | {"tamis.toml": '[workspaces]\nboth = ["d1", "d3"]\n'},
    )
    part = write_files(
        tmp_path / "part",
        {path: text for path, text in files.items() if path[1] in "13"},
    )
    for file in (*whole.rglob("*.md"), *part.rglob("*.md")):
        os.utime(file, (DAY, DAY))
    with open_corpus(whole) as corpus, open_corpus(part) as alone:
        found = corpus.search("alpha token", workspace="both", limit=30)
        assert comparable(found) == comparable(alone.search("alpha token", limit=30))
        assert len(found.results) == 30


ARCHIVED = {
    "a.md": "alpha new",
    "archive/a.md": "alpha old",
    "archived-notes/b.md": "alpha notes",
    "c.md.old": "alpha c",
}


@pytest.mark.rows("R000-036")
@pytest.mark.parametrize(
    ("query", "arguments", "expected"),
    [
        ("alpha", {}, {"a.md", "archived-notes/b.md"}),
        ("alpha", {"exclude_archived": False}, set(ARCHIVED)),
        ("alpha is:archived", {}, {"archive/a.md", "c.md.old"}),
        ("alpha -is:archived", {}, {"a.md", "archived-notes/b.md"}),
        ("alpha", {"filter": "archived"}, {"archive/a.md", "c.md.old"}),
        (
            "alpha",
            {"filter": "archived | file:a.md"},
            {"a.md", "archive/a.md", "c.md.old"},
        ),
        ("alpha path:archived-notes/**", {}, {"archived-notes/b.md"}),
        ("alpha -path:archived-notes/**", {}, {"a.md"}),
        ("alpha", {"include_patterns": ["archive/**"]}, {"archive/a.md"}),
    ],
)
def test_archived_documents_are_hidden_unless_asked_for(
    tmp_path, query, arguments, expected
):
    """Hidden by a filter like any other; one that speaks of the archive decides itself."""
    with open_corpus(write_files(tmp_path, ARCHIVED)) as corpus:
        assert {
            result.path for result in corpus.search(query, **arguments).results
        } == expected


@pytest.mark.rows("R002-017", "R002-018", "R002-177", "R002-178", "R002-180")
def test_weights_and_k_change_the_fusion(tmp_path):
    """The defaults, and that each of them counts."""
    files = {path: file.text for path, file in _large_corpus().items()}
    root = write_files(tmp_path, files)
    defaults = test_settings(root).search
    assert (
        defaults.semantic_weight,
        defaults.keyword_weight,
        defaults.rrf_k_constant,
    ) == (1.0, 1.0, 60)
    raw = {}
    for name, flags in {
        "plain": {},
        "more words": {"search__keyword_weight": 3.0},
        "words only": {
            "search__semantic_weight": 0.0,
            "search__code_search_weight": 0.0,
        },
        "more code": {"search__code_search_weight": 4.0},
        "flat": {"search__rrf_k_constant": 600},
    }.items():
        with open_corpus(root, **flags) as corpus:
            found = corpus.search("alpha token f105.md", limit=100)
        weights = {
            "meaning": flags.get("search__semantic_weight", 1.0),
            "words": flags.get("search__keyword_weight", 1.0),
            "code": flags.get("search__code_search_weight", 1.0),
        }
        k = flags.get("search__rrf_k_constant", 60)
        for result in found.results:
            fused = sum(
                weights[e.lane] * e.confidence / (k + e.rank) for e in result.evidence
            )
            assert result.raw_score == pytest.approx(
                fused * math.prod(result.boosts.values()), rel=1e-12
            )
        raw[name] = {result.chunk_id: result.raw_score for result in found.results}
        if name == "words only":
            assert {e.lane for result in found.results for e in result.evidence} == {
                "words"
            }
    assert len({tuple(scores.items()) for scores in raw.values()}) == 5
