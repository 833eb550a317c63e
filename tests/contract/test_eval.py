"""`tamis eval`: ways of asking, what is measured, how it is compared, shown and drawn, and how it ends."""

import builtins
import json
import math
import re
import runpy
from pathlib import Path

import pytest

from support.corpora import SHARED, write_files, write_judged
from tamis.cli.main import main
from tamis.configuration import load
from tamis.errors import BadJudgedSet, BadSetting, UsageError
from tamis.measure.study import (
    Plan,
    Way,
    ablations,
    parse_way,
    plan,
    read_saved,
    study,
)
from tamis.progress import Silent
from tamis.search.question import STAGE_NAMES
from tamis.weights import Weights

METRICS = ["ndcg@5", "ndcg@10", "mrr@10", "recall@10"]
DOCUMENTS = [
    {
        "_id": "apple",
        "title": "Apples",
        "text": "An apple grows on a tree. See [pears](garden/pear.md).",
    },
    {
        "_id": "pear",
        "path": "garden/pear.md",
        "text": "# Pears\n\nA pear grows on a tree, too.",
    },
    {
        "_id": "beet",
        "path": "garden/archive/beet.md",
        "text": "# Beets\n\nA beet grows in the ground.",
    },
    {
        "_id": "hidden",
        "path": ".hidden/node_modules/fig.md",
        "text": "# Figs\n\nA fig is soft.",
    },
    {"_id": "rules", "path": ".gitignore", "text": "*.md\n"},
    {
        "_id": "tamis",
        "path": "tamis.toml",
        "text": "[search]\nlimit = 1\nkeyword_weight = 0\n",
    },
]
QUESTIONS = [
    {"_id": "q1", "text": "apple", "kind": "fruit"},
    {"_id": "q2", "text": "what grows in the ground?", "kind": "root"},
    {"_id": "q3", "text": "soft fig -apple path:nowhere (tag:x", "kind": "fruit"},
    {"_id": "q4", "text": "grows", "filter": "under:garden", "kind": "all"},
    {"_id": "q5", "text": "zebra", "kind": "fruit"},
]
JUDGEMENTS = [
    ("q1", "apple", 2),
    ("q2", "beet", 1),
    ("q3", "hidden", 1),
    ("q4", "apple", 1),
    ("q4", "pear", 1),
    ("q5", "pear", 1),
]
RESULT = {
    "set", "config", "documents", "skipped", "questions", "metrics", "by_type", "by_label", "latency_ms",
    "asked",
}  # fmt: skip
DIFFERENCE = {
    "set",
    "first",
    "second",
    "metric",
    "mean",
    "low",
    "high",
    "wins",
    "ties",
    "losses",
    "clear",
}


class Ended:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run `tamis eval` beside two small judged sets, with words alone unless said otherwise."""
    write_judged(tmp_path / "garden", DOCUMENTS, QUESTIONS, JUDGEMENTS)
    write_judged(
        tmp_path / "orchard", DOCUMENTS[:2], QUESTIONS[:1], JUDGEMENTS[:1], packed=True
    )
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, model: str = "none") -> Ended:
        with pytest.raises(SystemExit) as caught:
            main(["eval", "--model", model, *arguments])
        captured = capsys.readouterr()
        return Ended(caught.value.code, captured.out, captured.err)

    return run


# --- ways -----------------------------------------------------------------------------------


def test_a_way_is_settings_under_a_name():
    way = parse_way("flat=rrf_k_constant=10,search.max_hops=0, fields.title=1.5")
    assert way.name == "flat"
    settings = way.settings("none")
    assert (settings.search.rrf_k_constant, settings.search.max_hops) == (10, 0)
    assert (settings.weights.fields["title"], settings.model.name) == (1.5, "none")


def test_a_way_may_be_a_file_and_change_measured_constants(tmp_path):
    file = tmp_path / "trial.toml"
    file.write_text(
        "[search]\nlimit = 3\n[weights]\ncoherence = 1\n[weights.fields]\ntitle = 2\n"
    )
    way = parse_way(str(file))
    settings = way.settings("none")
    assert (way.name, settings.search.limit) == ("trial", 3)
    changed = {**Weights().fields, "title": 2.0}
    assert settings.weights == Weights(coherence=1.0, fields=changed)
    with pytest.raises(BadSetting, match=r"\[weights\] holds no settings") as caught:
        load(tmp_path, {}, {"HOME": "/nonexistent"}, file)
    assert "tamis eval --config FILE" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[weights]\ncoherance = 1", "did you mean coherence?"),
        ("[weights.fields]\ntitel = 1", "did you mean title?"),
        ("[weights]\ncoherence = 'much'", "it must be a number"),
        ("[weights]\nfields = 3", "it must be a table"),
        ("[search]\ncoherence = 1", "remove it"),
        (None, "check --config"),
    ],
)
def test_a_file_that_is_no_way(text, said, tmp_path):
    file = tmp_path / "trial.toml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(BadSetting) as caught:
        parse_way(str(file))
    assert said in caught.value.hint


def test_a_comma_may_belong_to_a_value():
    settings = parse_way("a=archive.patterns=old/,older/,max_hops=2").settings("none")
    assert settings.archive.patterns == ("old/", "older/")
    assert settings.search.max_hops == 2


def test_stages_can_be_left_out_by_name():
    assert parse_way("a=without=overlap+same text").without == {"overlap", "same text"}
    with pytest.raises(UsageError, match="no stage 'nonsense'") as caught:
        parse_way("a=without=nonsense")
    assert "overlap" in caught.value.hint


@pytest.mark.parametrize("text", ["", "=limit=1", "a=limit", " =max_hops=1"])
def test_what_is_no_way(text):
    with pytest.raises(UsageError) as caught:
        parse_way(text)
    assert caught.value.hint


def test_a_name_alone_is_the_defaults():
    assert parse_way("plain") == Way("plain")


def test_only_what_is_given_counts(monkeypatch, tmp_path):
    """Neither the environment nor the user's file: figures must be such that others can have them."""
    monkeypatch.setenv("TAMIS_SEARCH_MAX_HOPS", "3")
    write_files(tmp_path, {"config.toml": "[search]\nmax_hops = 3\n"})
    monkeypatch.setenv("TAMIS_USER_CONFIG", str(tmp_path / "config.toml"))
    assert Way("a").settings("none").search.max_hops == 1


def test_a_way_may_name_its_model():
    assert parse_way("a=model.name=hashing").settings("none").model.name == "hashing"
    assert Way("a").settings("").model.name == "granite"


@pytest.mark.rows("R002-198")
def test_ablations_leave_out_each_stage_and_each_lane():
    """One at a time."""
    base = parse_way("base=rrf_k_constant=20")
    found = {way.name: way for way in ablations(base, "hashing")}
    assert list(found) == [
        *(f"without {stage}" for stage in STAGE_NAMES),
        *(f"without the {lane} lane" for lane in ("meaning", "words", "code", "links")),
    ]
    for stage in STAGE_NAMES:
        assert found[f"without {stage}"].without == {stage}
    for way in found.values():
        assert way.settings("hashing").search.rrf_k_constant == 20
    search = found["without the links lane"].settings("hashing").search
    assert (search.max_hops, search.semantic_weight) == (0, 1)


def test_a_lane_that_is_not_there_or_the_last_is_not_left_out():
    lanes = [
        way.name
        for way in ablations(parse_way("a=max_hops=0"), "none")
        if "lane" in way.name
    ]
    assert lanes == ["without the code lane"]
    lanes = [
        way.name
        for way in ablations(parse_way("a=keyword_weight=0,max_hops=0"), "hashing")
    ]
    assert "without the meaning lane" not in lanes
    assert "without the words lane" not in lanes


# --- what is measured -----------------------------------------------------------------------


@pytest.mark.rows("R002-196", "R002-198")
def test_figures_by_hand(run):
    """Every document is found by its words; the filter keeps half of q4's out."""
    answer = run("garden", "--json")
    assert answer.code == 0
    (result,) = answer.json["results"]
    asked = {each["id"]: each for each in result["asked"]}
    assert asked["q1"]["ranked"][0] == "apple"
    assert asked["q1"]["scores"] == dict.fromkeys(METRICS, 1.0)
    assert asked["q2"]["ranked"][0] == "beet", "an archive folder is searched, too"
    assert asked["q3"]["ranked"][0] == "hidden", (
        "a filter's signs are words, and nothing is ignored"
    )
    assert asked["q4"]["ranked"] == ["pear", "beet"] or asked["q4"]["ranked"] == [
        "beet",
        "pear",
    ]
    best = 1 + 1 / math.log2(3)
    place = asked["q4"]["ranked"].index("pear") + 1
    assert asked["q4"]["scores"]["ndcg@10"] == pytest.approx(
        1 / math.log2(place + 1) / best
    )
    assert asked["q4"]["scores"]["recall@10"] == 0.5
    assert asked["q5"]["ranked"] == []
    scores = [each["scores"]["mrr@10"] for each in asked.values()]
    assert result["metrics"]["mrr@10"] == pytest.approx(sum(scores) / 5)
    assert result["by_label"]["fruit"]["questions"] == 3
    assert result["by_label"]["fruit"]["metrics"]["mrr@10"] == pytest.approx(2 / 3)
    assert sum(group["questions"] for group in result["by_type"].values()) == 5
    assert (result["documents"], result["skipped"]) == (6, 0)


@pytest.mark.rows("R002-198")
def test_the_contract_of_the_json(run):
    """Every figure by set and way, with the times of every stage."""
    told = run(
        "garden",
        "orchard",
        "--json",
        "--config",
        "a",
        "--config",
        "b=max_hops=0",
        "--compare",
        "a",
        "b",
    ).json
    assert set(told) == {"sets", "results", "mean", "comparison", "ablation"}
    assert [(one["set"], one["config"]) for one in told["results"]] == [
        ("garden", "a"), ("garden", "b"), ("orchard", "a"), ("orchard", "b"),
    ]  # fmt: skip
    for one in told["results"]:
        assert set(one) == RESULT
        assert list(one["metrics"]) == METRICS
        assert set(one["latency_ms"]) == {
            "total",
            "filter",
            "embed",
            "expand",
            "lanes",
            "stages",
            *STAGE_NAMES,
        }
        assert all(times["p50"] <= times["p95"] for times in one["latency_ms"].values())
        for each in one["asked"]:
            assert set(each) == {"id", "type", "label", "ranked", "scores"}
    assert told["sets"][0] == {
        "name": "garden", "questions": 5, "unjudged": 0, "orphaned": 0, "missing_judgements": 0,
    }  # fmt: skip
    garden, orchard = (
        next(r for r in told["results"] if r["set"] == name and r["config"] == "a")
        for name in ("garden", "orchard")
    )
    for name in METRICS:
        mean = (garden["metrics"][name] + orchard["metrics"][name]) / 2
        assert told["mean"]["a"][name] == pytest.approx(mean)
    assert [row["set"] for row in told["comparison"]] == [
        "garden",
        "orchard",
        "all sets",
    ]
    for row in told["comparison"]:
        assert set(row) == DIFFERENCE
        assert (row["first"], row["second"], row["metric"]) == ("a", "b", "ndcg@10")


def test_equal_runs_give_equal_figures(run):
    def figures(*more: str) -> object:
        told = run("garden", "--json", "--ablate", *more, model="hashing").json
        for one in told["results"]:
            del one["latency_ms"]
        return told

    first = figures("--work", "kept")
    assert figures("--work", "kept") == first
    assert figures() == first


@pytest.mark.rows("R002-198")
def test_ablation_says_what_each_is_worth(run):
    """The difference that leaving it out makes, on the same questions."""
    told = run("garden", "--json", "--ablate").json
    rows = {row["second"]: row for row in told["ablation"]}
    assert set(rows) == {f"without {stage}" for stage in STAGE_NAMES} | {
        "without the code lane", "without the links lane"
    }  # fmt: skip
    by_way = {one["config"]: one["metrics"]["ndcg@10"] for one in told["results"]}
    for name, row in rows.items():
        assert row["first"] == "default"
        assert row["mean"] == pytest.approx(by_way[name] - by_way["default"])
        assert row["wins"] + row["ties"] + row["losses"] == 5


def test_the_first_way_is_taken_apart(run):
    told = run(
        "garden", "--json", "--ablate", "--config", "a=max_hops=0", "--config", "b"
    ).json
    assert {row["first"] for row in told["ablation"]} == {"a"}
    assert "without the links lane" not in {row["second"] for row in told["ablation"]}


def test_a_way_changes_what_is_found(run):
    """A stage left out and a setting changed reach the search: no score is ever 1."""
    ways = (
        "--config",
        "high=min_confidence=1",
        "--config",
        "open=min_confidence=1,without=threshold",
    )
    told = run("garden", "--json", *ways).json
    found = {
        one["config"]: {each["id"]: each["ranked"] for each in one["asked"]}
        for one in told["results"]
    }
    assert len(found["high"]["q4"]) == 0
    assert len(found["open"]["q4"]) == 2


@pytest.mark.rows("C72")
def test_a_result_counts_for_every_place_that_it_stands_for(run, tmp_path):
    """Of the same text twice one is shown; who judged the other did not judge wrongly."""
    same = "# Figs\n\nA fig grows on a wall."
    twins = [
        {"_id": name, "text": same, "path": f"{name}.md"} for name in ("one", "two")
    ]
    last = {
        "_id": "last",
        "text": "A fig, and many other words about something else.",
        "path": "z.md",
    }
    asked = [{"_id": "q1", "text": "fig wall"}]
    write_judged(tmp_path / "twins", [*twins, last], asked, [("q1", "two", 1)])
    (result,) = run("twins", "--json").json["results"]
    assert result["asked"][0]["ranked"] == ["one", "two", "last"]
    assert result["metrics"]["mrr@10"] == 0.5
    ways = ("--config", "all=content_dedup_enabled=false,ngram_dedup_enabled=false")
    assert run("twins", "--json", *ways).json["results"][0]["asked"] == result["asked"]


def test_archived_documents_are_hidden_where_a_way_says_so(run, tmp_path):
    """Unless the question's own filter names them, as in any search."""
    questions = [QUESTIONS[1], {"_id": "q6", "text": "ground", "filter": "is:archived"}]
    write_judged(
        tmp_path / "old", DOCUMENTS, questions, [("q2", "beet", 1), ("q6", "beet", 1)]
    )
    told = run("old", "--json", "--config", "a=archive.patterns=archive/").json
    asked = {each["id"]: each["ranked"] for each in told["results"][0]["asked"]}
    assert "beet" not in asked["q2"]
    assert asked["q6"] == ["beet"]


def test_a_tree_with_a_set_of_questions(run, tmp_path):
    write_files(
        tmp_path / "code",
        {"src/api.py": "def get_user(): ...\n", ".gitignore": "src\n"},
    )
    write_judged(tmp_path / "asked", None, [*QUESTIONS[:2], {"_id": "q9", "text": "get_user"}],
                 [("q9", "src/api.py", 1), ("q9", "src/gone.py", 1), ("q1", "gone.py", 1)])  # fmt: skip
    answer = run("asked", "--corpus", "code", "--json")
    assert answer.json["sets"] == [
        {
            "name": "asked",
            "questions": 1,
            "unjudged": 1,
            "orphaned": 1,
            "missing_judgements": 2,
        }
    ]
    assert answer.json["results"][0]["metrics"]["recall@10"] == 1.0
    assert sorted(path.name for path in (tmp_path / "code").iterdir()) == [
        ".gitignore",
        "src",
    ]
    told = run("garden", "asked=code", "--json").json
    assert told["results"][1]["asked"] == answer.json["results"][0]["asked"], (
        "each set with its own tree"
    )
    shown = run("asked", "--corpus", "code").out
    assert "asked: 2 judgements are of documents that are not there" in shown
    assert "asked: 1 questions were dropped with them" in shown


def test_few_questions(run):
    assert (
        run("garden", "--queries", "2", "--json").json["results"][0]["questions"] == 2
    )


def test_a_very_long_question_is_cut(run, tmp_path):
    long = [{"_id": "q1", "text": "apple " + "x" * 30_000}]
    write_judged(tmp_path / "long", DOCUMENTS, long, JUDGEMENTS[:1])
    assert run("long", "--json").json["results"][0]["metrics"]["ndcg@10"] == 1.0


def test_embedding_is_not_repeated(tmp_path):
    """With the same working folder no segment is written again, unless another recipe asks for it."""
    given = write_judged(tmp_path / "garden", DOCUMENTS, QUESTIONS, JUDGEMENTS)

    def segments(*ways: str) -> dict[Path, int]:
        asked = tuple(map(parse_way, ways))
        planned = Plan(((given, None),), asked, model="hashing")
        study(planned, tmp_path / "work", Silent())
        return {
            file: file.stat().st_mtime_ns
            for file in tmp_path.glob("work/*/index-*/segments/*/*")
        }

    first = segments("a")
    assert first
    assert segments("a", "b=max_hops=0") == first
    both = segments("a", "c=chunking.max_chars=400")
    assert both.items() > first.items(), "the other recipe has an index of its own"


def test_real_figures_are_those_of_another_scorer(tmp_path):
    """What is ranked, scored once more: with the kit that came with the sets."""
    given = SHARED / "data" / "docsmcp-vite"
    if not given.exists():
        pytest.skip("the judged sets of ../shared/data are not here")
    done = study(plan([str(given)], [], model="none"), tmp_path, Silent())
    (one,) = done.to_dict()["results"]
    grades: dict[str, dict[str, int]] = {}
    for line in (given / "qrels.tsv").read_text("utf-8").splitlines()[1:]:
        question, document, grade = line.split("\t")
        grades.setdefault(question, {})[document] = int(grade)
    kit = runpy.run_path(str(SHARED / "data" / "evalkit.py"))
    theirs = kit["evaluate"](
        {each["id"]: each["ranked"] for each in one["asked"]}, grades
    )
    assert one["questions"] == theirs["queries"]
    for name in ("nDCG@10", "MRR@10", "Recall@10"):
        assert one["metrics"][name.lower()] == pytest.approx(theirs[name])


# --- comparing with an earlier run ----------------------------------------------------------


def test_an_earlier_run_is_one_side(run, tmp_path):
    (tmp_path / "before.json").write_text(
        run("garden", "--json", "--config", "a=min_confidence=1").out
    )
    told = run("garden", "--json", "--compare", "before.json", "default").json
    (row,) = told["comparison"]
    assert (row["first"], row["second"]) == ("before.json", "default")
    assert row["wins"] + row["ties"] + row["losses"] == 5


def test_one_of_several_ways_of_an_earlier_run(run, tmp_path):
    (tmp_path / "before.json").write_text(
        run("garden", "--json", "--config", "a", "--config", "b").out
    )
    assert run("garden", "--compare", "before.json:b", "default").code == 0
    unclear = run("garden", "--compare", "before.json", "default")
    assert unclear.code == 2
    assert "before.json:NAME" in unclear.err


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", '{"results": [{}]}', '{"results": 3}', "\xff", "[" * 99_999],
)
def test_what_is_no_earlier_run(tmp_path, text):
    (tmp_path / "before.json").write_text(text, "latin-1")
    with pytest.raises(BadJudgedSet, match="holds no results"):
        read_saved(str(tmp_path / "before.json"))


def test_earlier_runs_of_other_sets(run, tmp_path):
    (tmp_path / "before.json").write_text(run("orchard", "--json").out)
    ended = run("garden", "--compare", "before.json", "default")
    assert ended.code == 2
    assert "no set in common" in ended.err


# --- what is shown, and how it ends ---------------------------------------------------------


def test_the_tables(run):
    shown = run(
        "garden",
        "orchard",
        "--config",
        "a",
        "--config",
        "b=max_hops=0",
        "--compare",
        "a",
        "b",
        "--ablate",
    ).out
    assert re.search(
        r"^\| set +\| config +\| questions +\| nDCG@5 +\| nDCG@10 ", shown, re.MULTILINE
    )
    assert re.search(r"^\| mean of sets \| a ", shown, re.MULTILINE)
    assert re.search(r"^\| garden +\| a +\| fruit +\| +3 \|", shown, re.MULTILINE)
    assert re.search(r"^\| same text +\| +[\d.]+ / [\d.]+ \|", shown, re.MULTILINE)
    assert "b against a, nDCG@10:" in shown
    assert re.search(r"^\| all sets +\| +[+-]\d\.\d{3}", shown, re.MULTILINE)
    assert re.search(r"^\| without overlap +\| +[+-]0", shown, re.MULTILINE)
    for table in re.split(r"\n(?!\|)", shown):
        rows = [line for line in table.splitlines() if line.startswith("|")]
        assert len({len(row) for row in rows}) <= 1, "columns are even"


def test_hostile_names_do_not_reach_the_terminal(run, tmp_path):
    write_judged(tmp_path / "a\x1b[31mb", DOCUMENTS, [{"_id": "q1", "text": "apple", "kind": "x|\x1b[0m"}],
                 JUDGEMENTS[:1])  # fmt: skip
    shown = run("a\x1b[31mb").out
    assert "\x1b" not in shown
    assert "x/" in shown


def test_progress_goes_to_standard_error(run):
    loud, quiet = run("garden", "--json"), run("garden", "--json", "-q")
    assert "garden: default, 5 questions" in loud.err
    assert quiet.err == ""
    assert quiet.json["sets"] == loud.json["sets"]


def test_a_set_without_a_question_is_something_to_look_at(run, tmp_path):
    write_judged(tmp_path / "empty", DOCUMENTS, QUESTIONS, [])
    ended = run("empty")
    assert ended.code == 1
    assert "empty: no question is left to ask" in ended.out
    assert (
        run("empty", "--json", "--ablate", "--compare", "default", "default").code == 1
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "no judged set"),
        ([], "Missing argument"),
        (["garden", "--config", "a=nonsense=1"], "unknown setting search.nonsense"),
        (["garden", "--config", "a=max_hops=9"], "max_hops"),
        (["garden", "--config", "a", "--config", "a=max_hops=0"], "same name"),
        (["garden", "--compare", "default", "b"], "no configuration or file b"),
        (["garden", "--compare", "default"], "requires 2 arguments"),
        (["garden", "--queries", "0"], "--queries"),
        (["garden=nowhere", "nothing=code"], "no judged set"),
        (["garden", "garden"], "2 sets are called garden"),
        (["garden", "--plot", "out.pdf"], "neither SVG nor PNG"),
        (["garden", "--plot", "nowhere/out.svg"], "no folder"),
        (
            ["garden", "--config", "a=semantic_weight=0,keyword_weight=0"],
            "nothing would be searched",
        ),
    ],
)
def test_faults(run, arguments, message):
    ended = run(*arguments)
    assert ended.code == 2
    assert message in ended.err
    assert ended.out == ""
    assert "Traceback" not in ended.err


def test_a_filter_that_cannot_be_read_is_told_with_its_question(run, tmp_path):
    questions = [{"_id": "q1", "text": "apple", "filter": "nonsense:1"}]
    write_judged(tmp_path / "wrong", DOCUMENTS, questions, JUDGEMENTS[:1])
    ended = run("wrong", "--work", "kept")
    assert ended.code == 2
    assert "wrong, question q1: " in ended.err
    assert not list(tmp_path.glob("kept/*/index-*")), "nothing was indexed for it"


def test_an_unknown_model(run):
    ended = run("garden", model="nonsense")
    assert (ended.code, ended.out) == (2, "")
    assert "nonsense" in ended.err


def test_wrong_settings_come_to_light_before_anything_is_written(tmp_path):
    given = write_judged(tmp_path / "garden", DOCUMENTS, QUESTIONS, JUDGEMENTS)
    ways = (Way("a"), Way("b", {"search.max_hops": 9}))
    planned = Plan(((given, None),), ways, model="none")
    with pytest.raises(BadSetting):
        study(planned, tmp_path / "work", Silent())
    assert not (tmp_path / "work").exists()


def test_nothing_is_left_behind(run, tmp_path, monkeypatch):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert run("garden").code == 0
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in tmp_path.glob("garden/*")) == [
        "corpus.jsonl", "qrels.tsv", "queries.jsonl"
    ]  # fmt: skip


# --- pictures -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more", [[], ["--ablate"], ["--config", "$a_b", "--compare", "default", "$a_b"]]
)
def test_a_picture(run, tmp_path, more):
    """The names and nothing but what a browser needs; equal figures, equal file."""
    pytest.importorskip("matplotlib")
    assert run("garden", "orchard", "--plot", "out.svg", *more).code == 0
    first = Path("out.svg").read_text("utf-8")
    assert first.startswith("<?xml")
    assert "ndcg@10" in first
    assert ("without overlap" if "--ablate" in more else "orchard") in first
    run("garden", "orchard", "--plot", "out.svg", *more)
    assert Path("out.svg").read_text("utf-8") == first


def test_a_picture_in_dots(run):
    pytest.importorskip("matplotlib")
    assert run("garden", "--plot", "out.png").code == 0
    assert Path("out.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_without_its_library(run, monkeypatch):
    """Said before anything is measured, with what to do."""
    real = builtins.__import__

    def missing(name, *rest):
        if name.split(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    ended = run("garden", "--plot", "out.svg")
    assert ended.code == 2
    assert 'pip install "tamis[plot]"' in ended.err
    assert "questions" not in ended.err
