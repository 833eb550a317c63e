"""Transformer encoders on onnxruntime, with the tokenizers library: both live behind this file.

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
from tamis.models.embedders import Vectors

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import onnxruntime

Array = NDArray[Any]

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


def open_session(graph: bytes, weights: Mapping[str, Array] | None = None) -> Any:
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


def carried_file(package: str, path: str, sha256: str, hint: str = _INSTALL) -> bytes:
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
