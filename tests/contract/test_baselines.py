"""The plain baselines: each ranking against arithmetic by hand, and the file that `tamis eval` reads."""

import json
import math
import sys

import numpy as np
import pytest

from support.corpora import load_benchmark, write_files, write_judged
from tamis.measure.study import read_saved

pytest.importorskip("bm25s", reason='bm25s is not installed: pip install -e ".[dev]"')
baselines = load_benchmark("baselines")

DOCUMENTS = [
    {"_id": "apple", "title": "Apples", "text": "the apple grows"},
    {"_id": "pear", "title": "", "text": "pear tree pear tree bark"},
    {
        "_id": "beet",
        "title": "Beets",
        "text": "beet in ground",
        "path": "garden/beet.md",
    },
]
QUESTIONS = [{"_id": "q1", "text": "growing apples"}, {"_id": "q2", "text": "zebra"}]
JUDGEMENTS = [("q1", "apple", 2), ("q1", "beet", 1), ("q2", "pear", 1)]


def documents(*texts, is_code=False):
    return baselines.Documents(tuple(map(str, range(len(texts)))), texts, is_code)


def test_words_are_ranked_as_bm25_ranks_them(monkeypatch):
    """The Lucene variant by hand: idf ln(1 + (n - df + .5) / (df + .5)), no factor k1 + 1 above."""
    texts = ("apples apple tree", "tree house tree garden pond bridge", "stone")
    points = []
    monkeypatch.setattr(
        baselines, "_best", lambda each: points.append(each.tolist()) or []
    )
    baselines.by_words(documents(*texts), ["the tree with an apple"])
    lengths, average = (3, 6, 1), 10 / 3

    def weight(often, documents_with, length):
        rare = math.log(1 + (3 - documents_with + 0.5) / (documents_with + 0.5))
        return rare * often / (often + 1.5 * (1 - 0.75 + 0.75 * length / average))

    expected = [
        weight(1, 2, lengths[0]) + weight(2, 1, lengths[0]),
        weight(2, 2, lengths[1]),
        0,
    ]
    assert points == [pytest.approx(expected, abs=1e-5)]


def test_what_shares_no_word_is_not_ranked():
    assert baselines.by_words(
        documents("alpha beta", "gamma"), ["gammas", "delta", "the of"]
    ) == [
        [1],
        [],
        [],
    ]


def test_code_is_found_by_the_parts_of_its_names():
    texts = ("def parseHTTPHeader(): pass", "max_bytes = 1", "other = 2")
    asked = ["header", "bytes", "parseHTTPHeader", "max_bytes"]
    assert baselines.by_words(documents(*texts, is_code=True), asked) == [
        [0],
        [1],
        [0],
        [1],
    ]
    assert baselines.by_words(documents(*texts), asked[:2]) == [[], []]


def test_abstracts_have_one_vector_and_pages_two():
    short, page = "a" * 1500, "b" * 1000 + "c" * 1000 + "d" * 9000
    assert baselines.pieces(documents(short, "x")) == [[short], ["x"]]
    assert baselines.pieces(documents(page, "x", "")) == [
        ["b" * 1000, "c" * 1000],
        ["x"],
        [""],
    ]


def test_a_document_counts_by_its_best_piece():
    parts = [["a1", "a2"], ["b"], ["c1", "c2"]]
    vectors = np.array([[1, 0], [0, 1], [0.6, 0.8], [-1, 0], [0.8, 0.6]], np.float32)
    asked = np.array([[1, 0], [0, 1]], np.float32)
    assert baselines.by_meaning(parts, asked, vectors) == [[0, 2, 1], [0, 1, 2]]


def test_fusion_adds_reciprocal_ranks():
    """7: 1/61 + 1/63; 8: 1/62 + 1/61; 9: 1/62; 3 and 5 alone at the third place: the earlier goes first."""
    assert baselines.fused([7, 8, 5], [8, 9, 7]) == [8, 7, 9, 5]
    assert baselines.fused([5], [3]) == [3, 5]
    assert baselines.fused([], [4, 2]) == [4, 2]


def test_vectors_are_kept_and_work_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(baselines, "AT_ONCE", 2)
    made = []

    def embed(texts):
        if "stop" in texts:
            raise KeyboardInterrupt
        made.extend(texts)
        return np.array([[len(text), 1] for text in texts], np.float32)

    kept = tmp_path / "kept.npz"
    with pytest.raises(KeyboardInterrupt):
        baselines.embedded(["a", "bb", "stop"], embed, kept)
    vectors = baselines.embedded(["bb", "ccc", "a", "bb"], embed, kept)
    assert made == ["a", "bb", "ccc"]
    assert vectors.tolist() == [[2, 1], [3, 1], [1, 1], [2, 1]]


def run(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(
        sys, "argv", ["baselines.py", "--model", "hashing", *map(str, arguments)]
    )
    assert baselines.main() == 0
    return capsys.readouterr().out


def test_a_tiny_set_by_hand(tmp_path, monkeypatch, capsys):
    """q1: the apple (grade 2) alone is found, the beet (1) shares no word. q2: nothing is found."""
    folder = write_judged(
        tmp_path / "tiny", DOCUMENTS, QUESTIONS, JUDGEMENTS, packed=True
    )
    answer = json.loads(
        run(monkeypatch, capsys, folder, "--json", "--work", tmp_path / "work")
    )
    by_way = {one["config"]: one for one in answer["results"]}
    first, second = by_way["bm25"]["asked"]
    assert (first["ranked"], second["ranked"]) == (["apple"], [])
    found = 2 / (2 + 1 / math.log2(3))
    assert first["scores"]["ndcg@10"] == pytest.approx(found)
    assert by_way["bm25"]["scores"]["ndcg@10"] == pytest.approx(found / 2)
    assert sorted(by_way["dense"]["asked"][1]["ranked"]) == ["apple", "beet", "pear"]
    assert by_way["rrf"]["asked"][1]["ranked"] == by_way["dense"]["asked"][1]["ranked"]


def test_tamis_eval_reads_what_is_written(tmp_path, monkeypatch, capsys):
    folder = write_judged(tmp_path / "tiny", DOCUMENTS, QUESTIONS, JUDGEMENTS)
    saved = tmp_path / "baselines.json"
    saved.write_text(run(monkeypatch, capsys, folder, "--json"))
    assert read_saved(f"{saved}:bm25") == {
        "tiny": {"q1": pytest.approx(2 / (2 + 1 / math.log2(3))), "q2": 0}
    }


def test_a_tree_is_asked_by_its_paths(tmp_path, monkeypatch, capsys):
    folder = write_judged(
        tmp_path / "code",
        None,
        [{"_id": "q", "text": "retry"}],
        [("q", "lib/retry_policy.py", 1)],
    )
    root = write_files(
        tmp_path / "tree", {"lib/retry_policy.py": "x = 1\n", "lib/other.py": "y = 2\n"}
    )
    assert "bm25 1.000" in run(monkeypatch, capsys, f"{folder}={root}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "there is no judged set"),
        (["orphans"], "no question left"),
        (["tiny"], "needs a model"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    write_judged(tmp_path / "tiny", DOCUMENTS, QUESTIONS, JUDGEMENTS)
    write_judged(tmp_path / "orphans", DOCUMENTS, QUESTIONS, [("q1", "gone", 1)])
    model = "none" if said == "needs a model" else "hashing"
    monkeypatch.setattr(sys, "argv", ["baselines.py", "--model", model, *arguments])
    with pytest.raises(SystemExit, match="2"):
        baselines.main()
    assert said in capsys.readouterr().err
