"""The stages between fusion and answer, in their order.

A stage takes the candidates, best first, the question, and what it may look up, and returns candidates.
The loop that runs the stages counts and times them, so a stage knows nothing of either, and any can be
left out by name.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final, Literal

from tamis.search.boosts import (
    archive,
    aside,
    coherence,
    file_name,
    named,
    saturation,
)
from tamis.search.calibrate import calibrate
from tamis.search.dedup import (
    limit,
    near_text,
    overlap,
    parents,
    per_document,
    same_text,
    threshold,
)
from tamis.search.question import (
    STAGE_NAMES,
    Candidates,
    Lookups,
    Question,
    StageName,
    Trace,
)

Stage = Callable[[Candidates, Question, Lookups], Candidates]

STAGES: Final[Mapping[StageName, Stage]] = {
    "named": named,
    "file name": file_name,
    "aside": aside,
    "coherence": coherence,
    "archive": archive,
    "saturation": saturation,
    "calibrate": calibrate,
    "threshold": threshold,
    "same text": same_text,
    "overlap": overlap,
    "near text": near_text,
    "per document": per_document,
    "parents": parents,
    "limit": limit,
}


def optional_stages(question: Question) -> dict[StageName, Stage]:
    """Import the stages that are off by default and that a question asks for."""
    stages: dict[StageName, Stage] = {}
    if question.counts_age:
        from tamis.search.extras.recency import recency

        stages["recency"] = recency
    if question.mmr:
        from tamis.search.extras.diversity import mmr

        stages["mmr"] = mmr
    elif question.settings.dedup_enabled:
        from tamis.search.extras.diversity import same_meaning

        stages["same meaning"] = same_meaning
    if question.rerank:
        from tamis.search.extras.rerank import rerank

        stages["rerank"] = rerank
    return stages


class Clock:
    """The time that a search has spent, by name; times of the same name add up."""

    def __init__(self) -> None:
        self.began = self._last = time.perf_counter()
        self._spent: defaultdict[str, float] = defaultdict(float)

    def lap(self, name: str, since: float | None = None) -> None:
        """Count the time since the last lap, or since a moment."""
        now = time.perf_counter()
        self._spent[name] += now - (self._last if since is None else since)
        self._last = now

    def milliseconds(self) -> dict[str, float]:
        self.lap("total", self.began)
        return {name: round(spent * 1000, 3) for name, spent in self._spent.items()}


def run_stages(
    fused: Candidates, question: Question, lookups: Lookups, clock: Clock
) -> Trace:
    """Pass candidates through the stages; return what each left."""
    stages = {**STAGES, **optional_stages(question)}
    trace: dict[StageName | Literal["fused"], Candidates] = {"fused": fused}
    candidates = fused
    began = time.perf_counter()
    for name in STAGE_NAMES:
        if name in stages and name not in question.without:
            candidates = stages[name](candidates, question, lookups)
        trace[name] = candidates
        clock.lap(name)
    clock.lap("stages", began)
    return trace
