"""The cross-encoder stage: its order, its scores, its windows and its time budget, without a real model."""

import itertools
import math
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from support.stages import lookups
from tamis.corpus import Corpus
from tamis.errors import ModelFault, UsageError
from tamis.model import Candidate, Evidence, Passage
from tamis.models.rerankers import OVERLAP, WINDOW, CrossEncoder
from tamis.search.extras.rerank import CURVE
from tamis.search.extras.rerank import rerank as rerank_stage
from tamis.search.pipeline import Clock as SearchClock
from tamis.search.pipeline import run_stages
from tamis.search.question import Question
from tamis.settings import SearchSettings
from tamis.text.words import text_hash
from tamis.weights import Weights

# --- The stage ---------------------------------------------------------------------------------


def candidate(name: str, score: float, content: str | None = None) -> Candidate:
    text = name if content is None else content
    passage = Passage(
        f"{name}.md", 0, text, text_hash(text), "", 1, 1, "documentation", None, 0.0, ()
    )
    return Candidate(
        passage, score / 30, score, (Evidence("words", 1, 2.0),), (("archive", 0.5),)
    )


FUSED = [
    candidate(name, score)
    for name, score in zip("abcdef", (0.9, 0.8, 0.5, 0.4, 0.2, 0.1), strict=True)
]


def of(**scores: float):
    """A reranker that knows a score for each text; it must be asked for no other."""
    return lambda query, passages, seconds: [scores[passage] for passage in passages]


def listed(*scores: float):
    """A reranker that gives these, whatever the texts."""
    return lambda query, passages, seconds: list(scores)


def names(candidates: Sequence[Candidate]) -> str:
    return "".join(each.passage.path[0] for each in candidates)


def stage(
    candidates: Sequence[Candidate],
    rerank,
    *,
    rerank_top_n: int = 10,
    rerank_budget_ms: int = 150,
) -> list[Candidate]:
    question = Question(
        "question",
        rerank=True,
        settings=SearchSettings(rerank_top_n=rerank_top_n),
        weights=Weights(rerank_budget_ms=rerank_budget_ms),
    )
    return list(rerank_stage(candidates, question, lookups(rerank=rerank)))


@pytest.mark.rows("R002-065", "R002-068", "C51", "C52")
def test_the_best_by_its_scores_then_the_rest():
    """By hand. `e` and `f` were not scored and follow, cut at the lowest."""
    found = stage(FUSED, of(a=-1.0, b=2.0, c=0.0, d=-2.0), rerank_top_n=4)
    assert names(found) == "bcadef"
    expected = [1 / (1 + math.exp(-x)) for x in (2.0, 0.0, -1.0, -2.0)]
    assert [each.score for each in found[:4]] == pytest.approx(expected)
    assert expected[3] == pytest.approx(0.1192, abs=1e-4)
    assert [each.score for each in found[4:]] == pytest.approx([0.1192, 0.1], abs=1e-4)
    assert [each.score_source for each in found] == ["rerank"] * 4 + ["fused"] * 2


@pytest.mark.rows("C51")
def test_everything_else_about_a_candidate_stays():
    """Raw_score is the fused one, evidence and boosts are kept."""
    before = {each.passage.path: each for each in FUSED}
    for each in stage(FUSED, listed(3, 1, 2), rerank_top_n=3):
        old = before[each.passage.path]
        assert (each.raw_score, each.evidence, each.boosts) == (
            old.raw_score,
            old.evidence,
            old.boosts,
        )
        assert each.passage is old.passage


@pytest.mark.rows("R002-071", "C52")
@pytest.mark.parametrize("most", [6, 7, 100])
def test_more_may_be_reranked_than_there_are(most):
    """`rerank_top_n` is how many are looked at, never how many there are in the answer."""
    found = stage(FUSED, listed(1, 2, 3, 4, 5, 6), rerank_top_n=most)
    assert names(found) == "fedcba"


@pytest.mark.rows("R002-073")
def test_nothing_to_rerank():
    """Then no model is asked."""
    assert stage([], None) == []


def test_ties_keep_the_fused_order():
    assert names(stage(FUSED, listed(1, 2, 1, 2, 1, 2))) == "bdface"


@pytest.mark.rows("C52")
def test_repeated_and_empty_texts_keep_their_own_scores():
    """A score belongs to its candidate, whatever the text; none is lost and none moves to
    another."""
    texts = ["same", "", "same", "", "other"]
    rows = [
        candidate(name, 1.0, text) for name, text in zip("abcde", texts, strict=True)
    ]
    asked: list[str] = []

    def rerank(query: str, passages: Sequence[str], seconds: float) -> list[float]:
        asked.extend(passages)
        return [{"same": 0.0, "": 5.0, "other": 9.0}[text] for text in passages]

    assert names(stage(rows, rerank)) == "ebdac"
    assert asked == texts


def test_what_is_no_number_comes_last():
    found = stage(FUSED, listed(math.nan, 1.0, -math.inf, math.inf, -700.0, 700.0))
    assert names(found) == "dfbeac"
    assert [each.score for each in found] == pytest.approx(
        [1, 1, 0.7311, 0, 0, 0], abs=1e-4
    )
    assert all(0.0 <= each.score <= 1.0 for each in found)


@pytest.mark.rows("P2")
def test_the_text_that_is_read_is_the_embedders():
    """Title, headings, text."""
    row = Passage(
        "a.md",
        0,
        "text",
        b"",
        "Setup > Linux",
        1,
        1,
        "documentation",
        None,
        0.0,
        (),
        title="Guide",
    )
    seen: list[tuple[str, str, float]] = []
    stage(
        [Candidate(row, 1, 1, ())],
        lambda q, p, s: seen.append((q, p[0], s)) or [0.0],
        rerank_budget_ms=250,
    )
    assert seen == [("question", "Guide > Setup > Linux\n\ntext", 0.25)]


@pytest.mark.parametrize(("given", "reached"), [(6, 6), (5, 5), (2, 2), (1, 0), (0, 0)])
def test_a_single_score_orders_nothing(given, reached):
    """If not even two fit, the fused order stays as it is, scores and all."""
    found = stage(FUSED, listed(*range(given)))
    assert sum(each.score_source == "rerank" for each in found) == reached
    if reached:
        assert names(found) == names(FUSED[:given][::-1] + FUSED[given:])
    else:
        assert found == FUSED


def test_a_candidate_alone_is_scored():
    found = stage(FUSED[:1], listed(0.0))
    assert [(each.score, each.score_source) for each in found] == [(0.5, "rerank")]


SCORES = st.floats(allow_nan=True, allow_infinity=True)


@pytest.mark.rows("R002-186..188")
@settings(derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.floats(0, 1.5), max_size=12),
    st.lists(SCORES, max_size=12),
    st.integers(1, 14),
)
def test_invariants_of_the_stage(fused, scores, most):
    """None lost, none doubled, scores in 0..1 and falling; the oracle sorts by hand."""
    rows = [
        candidate(chr(97 + at), score)
        for at, score in enumerate(sorted(fused, reverse=True))
    ]
    kept = scores[: min(most, len(rows))]
    found = stage(rows, lambda q, p, s: kept, rerank_top_n=most)
    usable = len(kept) if len(kept) >= min(2, most, len(rows)) else 0
    worth = [-math.inf if math.isnan(score) else score for score in kept[:usable]]
    order = sorted(range(usable), key=lambda at: (-worth[at], at)) + list(
        range(usable, len(rows))
    )
    assert names(found) == "".join(chr(97 + at) for at in order)
    shown = [min(each.score, 1.0) for each in found]
    assert all(0.0 <= score <= 1.0 for score in shown)
    assert all(one >= two for one, two in itertools.pairwise(shown))


@pytest.mark.rows("C51")
@pytest.mark.parametrize("score", [-1e308, -50.0, -3.0, -1e-9, 0.0, 0.5, 30.0, 1e308])
def test_the_logistic_curve(score):
    """Against the other way to write it, tanh."""
    assert CURVE(score) == pytest.approx(
        (1 + math.tanh(score / 2)) / 2, rel=1e-12, abs=1e-12
    )
    assert CURVE(score) + CURVE(-score) == pytest.approx(1.0)


def test_asking_for_it_without_a_model_is_a_fault():
    """Never a silent skip."""
    question = Question("x", rerank=True)
    with pytest.raises(UsageError, match="no reranker"):
        run_stages(FUSED, question, lookups(), SearchClock())


@pytest.mark.rows("C53", "R002-069", "R002-075")
def test_it_can_be_left_out_by_name():
    """Off by default, and each stage can be left out."""
    assert not Question("x").rerank
    assert not SearchSettings().rerank_enabled
    for question in (
        Question("x"),
        Question("x", rerank=True, without=frozenset({"rerank"})),
    ):
        trace = run_stages(FUSED, question, lookups(), SearchClock())
        assert names(trace["limit"]) == "abcde"


# --- Through a corpus -----------------------------------------------------------------------------


class Toy:
    """A reranker that prefers a passage the more often it says `good`. It notes what it was asked."""

    name = "toy"

    def __init__(self, most: int = 1000) -> None:
        self.calls: list[tuple[str, list[str], float]] = []
        self.most = most

    def scores(
        self, query: str, passages: Sequence[str], seconds: float = 0.0
    ) -> list[float]:
        self.calls.append((query, list(passages), seconds))
        return [float(passage.count("good")) for passage in passages][: self.most]


class Loading:
    """What stands in for loading: gives the toy, and remembers the names that were asked for."""

    def __init__(self, toy: Toy) -> None:
        self.toy = toy
        self.names: list[str] = []

    def __call__(self, name: str, threads: int, root: object) -> Toy:
        self.names.append(name)
        return self.toy


@pytest.fixture
def loading(monkeypatch) -> Loading:
    loading = Loading(Toy())
    monkeypatch.setattr("tamis.models.rerankers.load_reranker", loading)
    return loading


# Alike for the lanes; the last paths are the reranker's favourites.
FILES = {f"f{number:02}.md": f"alpha {'good ' * number}" for number in range(30)}


def ranked(corpus: Corpus, **arguments: object) -> list[str]:
    return [result.path for result in corpus.search("alpha", **arguments).results]


@pytest.mark.rows("R002-072")
def test_the_model_is_loaded_by_the_first_search_that_reranks(corpus_of, loading):
    """Once, and not before."""
    corpus = corpus_of(FILES)
    assert loading.names == []
    corpus.search("alpha")
    corpus.search("alpha", rerank=False)
    corpus.search("alpha", rerank=True, tags=["nowhere"])
    assert loading.names == []
    for _ in range(2):
        corpus.search("alpha", rerank=True)
    assert loading.names == ["minilm"]


@pytest.mark.rows("R002-065", "R002-071", "C51")
def test_an_answer_that_is_reranked(corpus_of, loading):
    """The first ten, best first; and the answer says so."""
    corpus = corpus_of(FILES)
    plain = corpus.search("alpha", limit=20)
    found = corpus.search("alpha", limit=20, rerank=True)
    head = [result.path for result in plain.results[:10]]
    expected = sorted(head, key=lambda path: -FILES[path].count("good"))
    assert [result.path for result in found.results[:10]] == expected
    assert [result.path for result in found.results[10:]] == [
        result.path for result in plain.results[10:]
    ]
    assert [result.score_source for result in found.results] == ["rerank"] * 10 + [
        "fused"
    ] * 10
    assert found.results[0].to_dict()["score_source"] == "rerank"
    assert "score_source" not in plain.results[0].to_dict()
    assert (found.stats["reranked"], plain.stats["reranked"]) == (10, 0)
    assert found.stats["after_rerank"] == found.stats["after_doc_limit"]
    scores = [result.score for result in found.results]
    assert scores == sorted(scores, reverse=True)
    raw = {result.path: result.raw_score for result in plain.results}
    assert {result.path: result.raw_score for result in found.results} == raw
    assert found.hints == ()


@pytest.mark.rows("C46", "C52")
@pytest.mark.parametrize("limit", [1, 3, 10, 25])
def test_candidates_are_there_however_few_are_shown(corpus_of, loading, limit):
    """With a limit of one, ten are looked at, and the best of them is shown."""
    corpus = corpus_of(FILES)
    best = ranked(corpus, limit=10)
    found = corpus.search("alpha", limit=limit, rerank=True)
    assert len(found.results) == limit
    assert len(loading.toy.calls[-1][1]) == 10
    assert found.results[0].path == max(
        best, key=lambda path: FILES[path].count("good")
    )


def test_the_model_is_asked_once_however_deep_the_lanes_are(corpus_of, loading):
    """Copies make the lanes be asked again and again; the cross-encoder is not."""
    copies = {f"copy{number:03}.md": "alpha alpha alpha" for number in range(150)}
    others = {
        f"other{number}.md": f"alpha good number{number} and words of its own"
        for number in range(4)
    }
    found = corpus_of(copies | others).search("alpha", limit=3, rerank=True)
    assert len(loading.toy.calls) == 1
    assert all(result.path.startswith("other") for result in found.results)
    assert len(loading.toy.calls[0][1]) == found.stats["reranked"] == 5


@pytest.mark.rows("R002-189")
def test_what_fitted_into_the_time_is_said(corpus_of, loading):
    """Ten at most, in 150 ms unless told otherwise; what did not fit is told, at every door."""
    loading.toy.most = 4
    found = corpus_of(FILES, weights__rerank_budget_ms=70).search("alpha", rerank=True)
    assert loading.toy.calls[0][2] == 0.07
    assert found.stats["reranked"] == 4
    assert tuple(map(str, found.hints)) == (
        "4 of 10 candidates were reranked within 70 ms",
    )
    loading.toy.most = 1
    corpus = corpus_of(FILES)
    found, plain = corpus.search("alpha", rerank=True), corpus.search("alpha")
    assert tuple(map(str, found.hints)) == (
        "0 of 10 candidates were reranked within 150 ms",
    )
    assert [(r.path, r.score) for r in found.results] == [
        (r.path, r.score) for r in plain.results
    ]
    assert {result.score_source for result in found.results} == {"fused"}


@pytest.mark.rows("R002-159", "R002-160", "C46")
def test_sections_come_after_reranking(corpus_of, loading):
    """The section of the best passage first, and the limit filled all the same."""
    page = "".join(
        f"# Part {n}\n\n" + f"alpha {'good ' * n}. " * 40 + "\n\n" for n in range(6)
    )
    corpus = corpus_of({"a.md": page}, chunking__parents=True, search__rerank_top_n=100)
    found = corpus.search("alpha", limit=3, rerank=True)
    assert len(found.results) == 3
    assert all(result.chunk_id == result.parent_chunk_id for result in found.results)
    assert "Part 5" in found.results[0].content


def test_why_not_follows_the_reranked_order(corpus_of, loading):
    corpus = corpus_of(FILES)
    plain = ranked(corpus, limit=10)
    shown = ranked(corpus, limit=3, rerank=True)
    for path in plain:
        why = corpus.search("alpha", limit=3, rerank=True, why_not=path).why_not
        assert (why.reason == "shown") == (path in shown)


def test_only_true_and_false(corpus_of):
    with pytest.raises(UsageError, match="rerank is 'yes'"):
        corpus_of(FILES).search("alpha", rerank="yes")


# --- Windows and time, with a toy for a model -------------------------------------------------------


def tokenizer() -> Tokenizer:
    """One token for each word: `0` .. `9999`, and the two that BERT puts round a pair."""
    words = {
        "[UNK]": 0,
        "[CLS]": 1,
        "[SEP]": 2,
        **{str(n): n + 10 for n in range(10_000)},
    }
    made = Tokenizer(WordLevel(words, "[UNK]"))
    made.pre_tokenizer = WhitespaceSplit()
    made.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)],
    )
    return made


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Session:
    """Gives the largest number in the window as its score, and takes as long as it is told."""

    def __init__(self, clock: Clock, seconds: float = 0.0) -> None:
        self.clock, self.seconds = clock, seconds
        self.fed: list[dict[str, np.ndarray]] = []

    def run(self, _, feeds, stop):
        self.fed.append(feeds)
        self.clock.now += self.seconds * (feeds["input_ids"].size + 16)
        return [np.array([[feeds["input_ids"].max()]], np.float32)]


ALL_INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})


def toy_encoder(seconds: float = 0.0, threads: int = 1, **changes) -> CrossEncoder:
    clock = Clock()
    parts = {"session": Session(clock, seconds), "inputs": ALL_INPUTS} | changes
    return CrossEncoder(
        "toy", tokenizer=tokenizer(), threads=threads, clock=clock, **parts
    )


def numbers(start: int, stop: int) -> str:
    return " ".join(map(str, range(start, stop)))


def windows(question: str, passage: str) -> list[tuple[list[int], list[int]]]:
    found = toy_encoder().windows(question, [passage])
    return [(ids[0].tolist(), types[0].tolist()) for _, ids, types in found]


def test_a_short_passage_is_one_window():
    assert windows("1 2", "7 8 9") == [
        ([1, 11, 12, 2, 17, 18, 19, 2], [0, 0, 0, 0, 1, 1, 1, 1])
    ]
    assert windows("1 2", "") == [([1, 11, 12, 2, 2], [0, 0, 0, 0, 1])]
    assert windows("", "7") == [([1, 2, 17, 2], [0, 0, 1, 1])]


@pytest.mark.parametrize("length", [250, 251, 252, 300, 500, 1000, 2500])
def test_windows_of_a_long_passage(length):
    """Each begins with the whole question, all words are read, neighbours share what they should."""
    found = windows("1 2", numbers(100, 100 + length))
    read = []
    for ids, types in found:
        assert ids[:4] == [1, 11, 12, 2]
        assert ids[-1] == 2
        assert types == [0] * 4 + [1] * (len(ids) - 4)
        assert len(ids) <= WINDOW
        read.append(ids[4:-1])
    for one, two in itertools.pairwise(read):
        assert one[-OVERLAP:] == two[:OVERLAP]
        assert len(one) == WINDOW - 5
    joined = read[0] + [token for piece in read[1:] for token in piece[OVERLAP:]]
    assert joined == list(range(110, 110 + length))


def test_a_long_question_is_cut():
    """It is read with every window; what is left of it leaves room for the passage."""
    (ids, _), *_ = windows(numbers(0, 5000), numbers(6000, 6300))
    assert ids[1:65] == list(range(10, 74))
    assert ids[65] == 2
    assert ids[66:-1] == list(range(6010, 6010 + WINDOW - 67))


def test_the_best_window_counts():
    """A passage is worth what its best part is, wherever that stands."""
    inside = numbers(0, 600)
    passages = [
        f"{inside} 9000",
        f"9000 {inside}",
        inside,
        f"{numbers(0, 300)} 8000 {numbers(300, 600)}",
    ]
    assert toy_encoder().scores("1", passages) == [9010.0, 9010.0, 609.0, 8010.0]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_any_number_of_threads_gives_the_same(threads):
    passages = [numbers(at, at + 30 * at) for at in range(1, 40)]
    assert toy_encoder(threads=threads).scores("1", passages) == toy_encoder().scores(
        "1", passages
    )
    assert toy_encoder(threads=threads).scores("1", []) == []


def test_inputs_are_given_by_name_and_only_those_that_are_wanted():
    encoder = toy_encoder(inputs=frozenset({"input_ids", "attention_mask"}))
    encoder.scores("1", ["7"])
    fed = encoder.session.fed[0]
    assert set(fed) == {"input_ids", "attention_mask"}
    assert fed["attention_mask"].tolist() == [[1] * 5]


# A window of the toy has 1 + 1 + 1 + 9 + 1 tokens; with the overhead of a pass, 29 units of work.
NINE = numbers(0, 9)
UNIT = 13 + 16


@pytest.mark.parametrize(
    ("pieces", "done"),
    [
        pytest.param(0.0, 0, id="no time at all"),
        pytest.param(1.01, 1, id="one"),
        pytest.param(1.99, 1, id="not quite two"),
        pytest.param(2.5, 2, id="two and no third"),
        pytest.param(9.99, 9, id="nine"),
        pytest.param(10.01, 10, id="all"),
        pytest.param(50.0, 10, id="more than enough"),
    ],
)
def test_as_many_as_fit_are_scored(pieces, done):
    """The next one is begun only if it will be done in time, by the pace of those before it."""
    each = 10.0 / UNIT  # ten seconds a passage, so that the real clock never matters
    encoder = toy_encoder(each)
    began = encoder.clock()
    limit = 10.0 * pieces + 0.01
    assert encoder.scores("1", [NINE] * 10, limit) == [18.0] * done
    assert len(encoder.session.fed) == done
    assert encoder.clock() - began <= limit


def test_no_limit_is_no_limit():
    assert len(toy_encoder(1e6).scores("1", [NINE] * 10)) == 10


def test_a_passage_counts_only_when_all_of_it_was_read():
    """Three windows, of which two fit: the passage has no score, those before it have."""
    each = 10.0 / UNIT
    long = numbers(0, 600)
    encoder = toy_encoder(each)
    three = sum(ids.size + 16 for _, ids, _ in encoder.windows("1", [long])) * each
    assert len(encoder.scores("1", [NINE, long, NINE], 10.0 + three - 1)) == 1
    assert len(toy_encoder(each).scores("1", [NINE, long, NINE], 10.0 + three + 1)) == 2


class Stuck:
    """A session whose second run lasts until it is broken off, as onnxruntime's does."""

    def __init__(self) -> None:
        self.runs = 0

    def run(self, _, feeds, stop):
        self.runs += 1
        if self.runs > 1:
            while not stop.terminate:
                threading.Event().wait(0.001)
            raise RuntimeError("Exiting due to terminate flag being set to true.")
        return [np.array([[1.0]], np.float32)]


def test_what_still_runs_when_the_time_is_up_is_broken_off():
    encoder = toy_encoder(session=Stuck())
    assert encoder.scores("1", [NINE] * 5, 1.0) == [1.0]
    assert encoder.session.runs == 2


class Failing:
    def run(self, *_):
        raise RuntimeError("bad shape")


class Several:
    def run(self, *_):
        return [np.zeros((1, 2), np.float32)]


class NoNumber:
    def run(self, *_):
        return [np.array([np.nan], np.float32)]


def test_a_model_that_fails_is_a_fault():
    with pytest.raises(ModelFault, match="toy failed: bad shape"):
        toy_encoder(session=Failing()).scores("1", ["2"])
    with pytest.raises(ModelFault, match="gives 2 numbers for a pair"):
        toy_encoder(session=Several()).scores("1", ["2"])


def test_a_model_that_gives_no_number():
    assert toy_encoder(session=NoNumber()).scores("1", ["2"]) == [-math.inf]
