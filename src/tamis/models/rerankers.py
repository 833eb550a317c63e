"""The reranker protocol, and the one place that turns a configured name into a reranker.

A reranker reads a question and a passage together and says how well they fit. Like an embedder it
gives equal input an equal score, whatever is scored beside it. Nothing is ever fetched: a name is a
model that a package carries, a folder, or what is already in the Hugging Face cache of this machine.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from tamis.errors import BadSetting, ModelFault

DEFAULT_RERANKER: Final = "minilm"
_FOLDER_STARTS: Final = ("/", ".", "~")
_MODEL_FILES: Final = ("model.onnx", "onnx/model.onnx")  # as exporters lay them out
_TOKENIZER_FILE: Final = "tokenizer.json"


class Reranker(Protocol):
    """Scores passages for a question: any number, larger is better."""

    @property
    def name(self) -> str: ...
    def scores(
        self, query: str, passages: Sequence[str], seconds: float = 0.0
    ) -> Sequence[float]:
        """The scores in the passages' order; with a time limit, of as many from the front as fit in it."""
        ...


def load_reranker(name: str, threads: int = 0, root: Path | None = None) -> Reranker:
    """The reranker of that name. A folder that is not absolute is meant from `root`."""
    from tamis.models.cross_encoder import load_folder, load_minilm

    if name == DEFAULT_RERANKER:
        return load_minilm(threads)
    if name.startswith(_FOLDER_STARTS) or Path(name).is_absolute():
        folder = (root or Path()) / Path(name).expanduser()
        return load_folder(name, *model_files(folder), threads)
    if name.count("/") == 1:
        return load_folder(name, *cached_files(name, os.environ), threads)
    raise BadSetting(
        f"there is no reranker {name!r}",
        hint=f"allowed: {DEFAULT_RERANKER}, a folder (./reranker), a name in the local hub cache (org/name)",
    )


def model_files(folder: Path) -> tuple[Path, Path]:
    """The model and the tokenizer in a folder."""
    for name in _MODEL_FILES:
        if (folder / name).is_file() and (folder / _TOKENIZER_FILE).is_file():
            return folder / name, folder / _TOKENIZER_FILE
    needed = f"{_MODEL_FILES[0]} (or {_MODEL_FILES[1]}) and {_TOKENIZER_FILE}"
    raise ModelFault(
        f"{folder} is not a reranker: it needs {needed}",
        hint=f"put them there, or set search.rerank_model to {DEFAULT_RERANKER}",
    )


def cached_files(name: str, environment: Mapping[str, str]) -> tuple[Path, Path]:
    """The files of a model in the Hugging Face cache: of its main revision, else of any that has them."""
    cache = hub_cache(environment) / f"models--{name.replace('/', '--')}"
    for snapshot in _snapshots(cache):
        try:
            return model_files(snapshot)
        except ModelFault:
            continue
    raise ModelFault(
        f"the reranker {name} is not in {cache}, or not as {_MODEL_FILES[0]} with {_TOKENIZER_FILE}",
        hint=f"tamis downloads nothing; where there is a network, run: huggingface-cli download {name} "
        f"--include '*.json' '*model.onnx'; or set search.rerank_model to {DEFAULT_RERANKER} or a folder",
    )


def hub_cache(environment: Mapping[str, str]) -> Path:
    """Where the hub's own tools keep what they have downloaded."""
    if given := environment.get("HF_HUB_CACHE"):
        return Path(given).expanduser()
    home = (
        environment.get("HF_HOME")
        or Path(environment.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    )
    return Path(home).expanduser() / "hub"


def _snapshots(cache: Path) -> Iterator[Path]:
    main = cache / "refs" / "main"
    if main.is_file():
        yield cache / "snapshots" / main.read_text(encoding="utf-8").strip()
    yield from sorted((cache / "snapshots").glob("*"))
