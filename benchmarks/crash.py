"""Kill -9 at every named point of writing and at random moments, with readers running: is anything ever lost?

    python benchmarks/crash.py [--kills 1000] [--seed 1] [--every-point | --each-point] [--json]

Each attempt starts from a whole index of a few dozen pages and runs one operation in a child process that is
killed: `index` (from nothing), `refresh` (after edits), `compact` (small edits until segments are merged),
`rebuild`, `mend` and `replace` (a repair of damaged documents, and of a damaged index.db), `discard` (a
rebuild of an index that cannot be read). Half of the kills are at a failpoint, in turns; half come from
outside at a random moment. Batches are small, so that a run is many commits and some merges. After each kill:

- the index opens, and what it holds is whole: every document is what its page was before or after the edits,
  none whose page did not change is missing, a rebuild shows all of the new or none of it, and a generation
  that was told to anybody is there;
- the doctor has read everything and is content. What it may find is what an interrupted run leaves and the
  next one sees to: files that wait to be indexed or embedded, and leftovers. Of an operation on a damaged
  index, it may still find the damage;
- the next run, with nothing in its way, leaves an index without any finding that says the same as a new one:
  documents, passages, links, postings and vectors, to the last bit, and (one time in four) answers.

A reader asks all the while, and complains of any error and of anything but one whole generation; only where
there is no index yet, or a damaged one, may it be told so. Exit code 1 if anything was lost.

A killed process is not a power cut: what was written is there, synced or not. So all is kept in memory, where
the system has a place for that.
"""

import argparse
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tamis.index.build
import tamis.index.embed_pending
import tamis.index.embedded.writer
import tamis.models.embedders
from tamis.configuration import load
from tamis.corpus import Corpus
from tamis.errors import IndexDamaged, IndexMissing
from tamis.failpoints import POINTS, arm
from tamis.index.doctor.checks import Health
from tamis.index.embedded.arrays import Truncated
from tamis.models.hashing import HashingEmbedder  # noqa: F401 - before the first fork
from tamis.text.words import content_hash
from wholeness import WORDS, Pages, answers, complaints, content_of, differences

FILES = 12
READERS = 1
ASKED = 0.25  # how often questions are asked as well: they cost more than all the rest
PAUSE = 0.15  # seconds between two looks of a reader
LONGEST = 60.0  # seconds; an operation that takes longer hangs
_LATER = {
    "pending",
    "files",
    "orphans",
    "concepts",
}  # checks whose warnings are for the next run
DAMAGED = {"mend", "replace", "discard"}


def make_small() -> None:
    """Small batches: a run over a few pages is many commits and some merges. And vectors are kept."""
    tamis.index.build.BATCH_CHUNKS = 12
    tamis.index.build.FIRST_SECONDS = tamis.index.build.BATCH_SECONDS = LONGEST
    tamis.index.embed_pending.PORTION = 6
    tamis.index.build.AT_ONCE = 1_500
    tamis.index.embed_pending._SECONDS = 0.0
    tamis.index.embedded.writer._MOST_SEGMENTS = 5
    tamis.index.embedded.writer._MOST_AFTER_RUN = 3
    tamis.models.embedders.QUICK_MODEL = ""


def corpus_over(root: Path, directory: Path) -> Corpus:
    flags = {"model.name": "hashing", "search.query_expansion_enabled": True}
    flags |= {"weights.query_expansion_min_frequency": 3}
    return Corpus(
        root, directory, load(root, flags, environment={"HOME": "/nonexistent"})
    )


# --- One operation ----------------------------------------------------------------------------------


def flip(file: Path, dice: random.Random) -> None:
    """One bit, in place: a file that is emptied first is a fault in whoever has it mapped."""
    with file.open("r+b") as data:
        size = file.stat().st_size
        data.seek(dice.randrange(size // 2, size))
        (byte,) = data.read(1)
        data.seek(-1, os.SEEK_CUR)
        data.write(bytes([byte ^ 0x10]))


def damage_a_document(directory: Path, dice: random.Random) -> None:
    """A text that is not what was stored, or a segment with a flipped bit."""
    if dice.random() < 0.5:
        flip(dice.choice(sorted((directory / "segments").glob("*/words.bin"))), dice)
        return
    with closing(
        sqlite3.connect(directory / "index.db", isolation_level=None)
    ) as connection:
        connection.execute(
            "UPDATE chunks SET content = content || ' more' WHERE id = (SELECT min(id) FROM chunks)"
        )


def damage_the_database(directory: Path, dice: random.Random) -> None:
    """A page of index.db that is noise."""
    with closing(
        sqlite3.connect(directory / "index.db", isolation_level=None)
    ) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'chunks'"
        ).fetchone()
    with (directory / "index.db").open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(dice.randbytes(4096))


def _repaired(corpus: Corpus) -> None:
    """What one does about a damaged index: the doctor mends it, and the next run goes on from there."""
    corpus.repair()
    corpus.refresh()


@dataclass(frozen=True)
class Operation:
    """What is done to the pages or the index before, and then what is killed."""

    run: Callable[[Corpus], object]
    edits: float = 0.0  # share of the pages that change before
    small_steps: int = 0  # runs before, over one changed page each: many small segments
    damage: Callable[[Path, random.Random], None] | None = None


OPERATIONS = {
    "index": Operation(Corpus.refresh),
    "refresh": Operation(Corpus.refresh, edits=0.6),
    "compact": Operation(Corpus.refresh, edits=0.1, small_steps=2),
    "rebuild": Operation(Corpus.rebuild, edits=0.4),
    "mend": Operation(Corpus.repair, damage=damage_a_document),
    "replace": Operation(Corpus.repair, edits=0.2, damage=damage_the_database),
    "discard": Operation(Corpus.rebuild, edits=0.2, damage=damage_the_database),
}


@dataclass(frozen=True)
class Kill:
    """Either at the n-th time that a point is reached, or after some seconds."""

    point: str = ""
    times: int = 1
    after: float = LONGEST


@dataclass(frozen=True)
class Ended:
    killed: bool
    seconds: float
    generations: list[
        tuple[str, int]
    ]  # identity and generation of what was committed, as the child saw them
    reached: Counter[str]
    fault: str


def run_and_kill(
    corpus_of: Callable[[], Corpus], run: Callable[[Corpus], object], kill: Kill
) -> Ended:
    """Run an operation in a child that shares nothing but the imports."""
    told, telling = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if not child:
        os.close(told)
        os._exit(_child(telling, corpus_of, run, kill))
    os.close(telling)
    code = _wait(child, began + kill.after)
    took = time.monotonic() - began
    with os.fdopen(told, "r", encoding="utf-8") as pipe:
        lines = [json.loads(line) for line in pipe if line.endswith("\n")]
    return Ended(
        code == -signal.SIGKILL,
        took,
        [tuple(line["generation"]) for line in lines if "generation" in line],
        Counter(line["point"] for line in lines if "point" in line),
        next((line["fault"] for line in lines if "fault" in line), ""),
    )


def _child(
    telling: int,
    corpus_of: Callable[[], Corpus],
    run: Callable[[Corpus], object],
    kill: Kill,
) -> int:
    def tell(**what: Any) -> None:
        os.write(telling, json.dumps(what).encode() + b"\n")

    try:
        with corpus_of() as corpus:
            arm(_acting(corpus.directory, tell, kill))
            run(corpus)
            arm(None)
    except BaseException:  # noqa: BLE001 - told to the parent, whatever it is
        tell(fault=traceback.format_exc())
        return 1
    return 0


def _acting(
    directory: Path, tell: Callable[..., None], kill: Kill
) -> Callable[[str], None]:
    seen: Counter[str] = Counter()

    def act(point: str) -> None:
        seen[point] += 1
        tell(point=point)
        if point == "commit.after" and (directory / "index.db").exists():
            facts = facts_of(directory)
            if facts:
                tell(generation=(facts["identity"], facts["generation"]))
        if (point, seen[point]) == (kill.point, kill.times):
            os.kill(os.getpid(), signal.SIGKILL)

    return act


def _wait(child: int, deadline: float) -> int:
    """The child's code; past the deadline it is killed."""
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            os.kill(child, signal.SIGKILL)
            deadline = float("inf")
        time.sleep(0.002)


def facts_of(directory: Path) -> dict[str, Any]:
    """What index.db says of itself; nothing where it cannot be read."""
    with suppress(sqlite3.Error):
        address = f"{(directory / 'index.db').as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            return dict(connection.execute("SELECT name, value FROM facts"))
    return {}


# --- Readers ----------------------------------------------------------------------------------------


class Readers:
    """Processes that ask all the time. `place` tells them which index, and what may be wrong with it."""

    def __init__(self, home: Path, count: int) -> None:
        self.place = home / "place"
        self.outcomes = [home / f"reader{number}" for number in range(count)]
        self.children = []
        for number, outcome in enumerate(self.outcomes):
            child = os.fork()
            if not child:
                os._exit(_read(self.place, outcome, random.Random(number)))
            self.children.append(child)

    def point_at(self, root: Path, directory: Path, state: str) -> None:
        aside = self.place.with_suffix(".new")
        aside.write_text(
            json.dumps([str(root), str(directory), state]), encoding="utf-8"
        )
        aside.replace(self.place)

    def end(self) -> tuple[Counter[str], list[str]]:
        self.place.unlink(missing_ok=True)
        codes = [_wait(child, time.monotonic() + LONGEST) for child in self.children]
        told = [
            json.loads(outcome.read_text("utf-8"))
            for outcome in self.outcomes
            if outcome.exists()
        ]
        counts: Counter[str] = sum((Counter(counts) for counts, _ in told), Counter())
        wrong = [each for _, complaints in told for each in complaints]
        return counts, wrong + [f"a reader ended with {code}" for code in codes if code]


def _read(place: Path, outcome: Path, dice: random.Random) -> int:
    """A reader's life: until the place is gone."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    opened: tuple[list[str], Corpus] | None = None
    seen: set[tuple[str, int]] = set()
    parent = os.getppid()
    while not place.exists():
        time.sleep(0.01)
    with suppress(FileNotFoundError):
        while os.getppid() == parent:
            asked = json.loads(place.read_text("utf-8"))
            if opened is None or opened[0][:2] != asked[:2]:
                if opened is not None:
                    opened[1].close()
                opened = (asked, corpus_over(Path(asked[0]), Path(asked[1])))
            try:
                found = _look(opened[1], asked[2], dice)
                seen.add((asked[1], opened[1].state().generation))
                counts["looks"] += 1
            except (IndexMissing, IndexDamaged) as error:
                found = (
                    []
                    if _may(place, asked, error)
                    else [f"{type(error).__name__}: {error}"]
                )
                counts["told so"] += not found
            except Exception:  # noqa: BLE001 - every fault is what this looks for
                found = [traceback.format_exc()]
            wrong += [f"{asked[2]}: {each}" for each in found]
            time.sleep(PAUSE)
    counts["generations"] = len(seen)
    outcome.write_text(json.dumps([counts, wrong[:20]]), encoding="utf-8")
    return 0


def _look(corpus: Corpus, state: str, dice: random.Random) -> list[str]:
    if state == "damaged":  # whatever it holds; but no fault of our own
        with corpus.snapshot():
            return []
    found = complaints(corpus)
    corpus.search(" ".join(dice.choices(WORDS, k=2)), limit=20)
    return found


def _may(place: Path, asked: list[str], error: Exception) -> bool:
    """Whether there may be no index, or a damaged one: now, or when we were asked to look."""
    wanted = {"new"} if isinstance(error, IndexMissing) else set()
    wanted |= {"damaged"}
    with suppress(FileNotFoundError):
        return asked[2] in wanted or json.loads(place.read_text("utf-8"))[2] in wanted
    return True


# --- The campaign -----------------------------------------------------------------------------------


@dataclass
class Outcome:
    """What a campaign has seen."""

    kills: Counter[str] = field(default_factory=Counter)  # by operation and point
    attempts: int = 0
    findings: Counter[str] = field(
        default_factory=Counter
    )  # of the doctor right after a kill
    losses: list[str] = field(default_factory=list)
    reached: dict[str, Counter[str]] = field(default_factory=dict)


class World:
    """A root of pages with a whole index, and a new index of the same pages to compare with."""

    def __init__(self, place: Path, dice: random.Random, readers: Readers) -> None:
        self.dice, self.readers, self.place = dice, readers, place
        self.pages = Pages(place / "root", dice, FILES)
        self.number = 0
        self.compared: list[
            tuple[str, int]
        ] = []  # the pages that the index to compare with was made of
        self.directory = self._next()
        self.fill()

    @property
    def root(self) -> Path:
        return self.pages.root

    def open(self) -> Corpus:
        return corpus_over(self.root, self.directory)

    def fill(self) -> None:
        with self.open() as corpus:
            corpus.refresh()

    def _next(self) -> Path:
        self.number += 1
        return self.place / f"index{self.number}"

    def prepare(self, name: str) -> None:
        """Bring pages and index to where the operation begins."""
        operation = OPERATIONS[name]
        if name == "index":
            old, self.directory = self.directory, self._next()
            self.readers.point_at(self.root, self.directory, "new")
            shutil.rmtree(old)
        for _ in range(operation.small_steps):
            self.pages.edit(0.01)
            self.fill()
        if operation.edits:
            self.pages.edit(operation.edits)
        if operation.damage:
            self.readers.point_at(self.root, self.directory, "damaged")
            operation.damage(self.directory, self.dice)
        elif name != "index":
            self.readers.point_at(self.root, self.directory, "whole")

    def held(self) -> dict[str, Any] | None:
        """What the index says; None where there is none, or it cannot be read."""
        try:
            return content_of(self.directory)
        except (sqlite3.Error, OSError, LookupError, ValueError, Truncated):
            return None

    @contextmanager
    def anew(self) -> Iterator[Corpus]:
        """A new index of the pages as they are; where none has changed, the one that was new before."""
        now = [(str(file), file.stat().st_mtime_ns) for file in self.pages.there()]
        with corpus_over(self.root, self.place / "aside") as corpus:
            if now != self.compared:
                shutil.rmtree(self.place / "aside", ignore_errors=True)
                corpus.refresh()
                self.compared = now
            yield corpus


def problems(health: Health) -> list[str]:
    return [
        f"{each.check}: {each.what}"
        for each in health.findings
        if each.severity in ("warning", "fault")
    ]


def attempt(world: World, name: str, kill: Kill, outcome: Outcome) -> bool:
    """Run an operation, have it killed, and hold what is left to what was promised. False if it finished."""
    world.prepare(name)
    before, facts = world.held(), facts_of(world.directory)
    there = (file for file in world.root.rglob("*") if file.is_file())
    hashes = {
        file.relative_to(world.root).as_posix(): content_hash(file.read_bytes())
        for file in there
    }
    ended = run_and_kill(world.open, OPERATIONS[name].run, kill)
    outcome.attempts += 1
    outcome.reached.setdefault(name, Counter()).update(ended.reached)
    told = (
        [(facts["identity"], facts["generation"])]
        if facts and name not in DAMAGED
        else []
    )
    wrong = [ended.fault] if ended.fault else []
    if ended.killed:
        outcome.kills[f"{name} at {kill.point or 'a random moment'}"] += 1
        wrong += _after(world, name, before, hashes, told + ended.generations, outcome)
    if ended.killed or ended.fault:
        wrong += _next_run(world, name)
    outcome.losses += [f"{name}, {kill}: {each}" for each in wrong]
    for each in wrong:
        print(f"LOST, {name}, {kill}: {each}", file=sys.stderr, flush=True)
    return ended.killed


def _after(
    world: World,
    name: str,
    before: Any,
    pages: dict[str, bytes],
    told: list[Any],
    outcome: Outcome,
) -> list[str]:
    """What is wrong right after a kill."""
    damaged, wrong = name in DAMAGED, []
    facts, now = facts_of(world.directory), world.held()
    if now is None:
        return (
            []
            if damaged or (name == "index" and not told)
            else ["there is no index that opens"]
        )
    same = [
        generation for identity, generation in told if identity == facts["identity"]
    ]
    if same and facts["generation"] < max(same):
        wrong.append(
            f"generation {max(same)} was told, and there is {facts['generation']}"
        )
    if told and not same and not damaged:
        wrong.append("the index is another one")
    with world.open() as corpus:
        found = corpus.check(full=True)
        if not damaged:
            wrong += complaints(corpus)
            wrong += _strange(before or {}, now, pages)
    outcome.findings.update(
        each.check for each in found.findings if each.severity in ("warning", "fault")
    )
    bad = [
        each
        for each in found.findings
        if each.severity == "fault" or each.severity == "warning"
    ]
    bad = [each for each in bad if each.check not in _LATER or each.severity == "fault"]
    wrong += [
        f"the doctor says {each.check}: {each.what}" for each in bad if not damaged
    ]
    if name == "rebuild" and now != before:
        with world.anew() as anew:
            other = differences(now, content_of(anew.directory))
        wrong += [
            f"a rebuild that is neither old nor new: {each}" for each in other[:3]
        ]
    return wrong


def _strange(
    before: dict[str, Any], now: dict[str, Any], pages: dict[str, bytes]
) -> list[str]:
    """Documents that are gone though their pages are as they were, or that are what no page has been."""
    old, new = (
        {path: own["document"][4] for path, own in held.items()}
        for held in (before, now)
    )
    lost = [
        path
        for path, known in old.items()
        if pages.get(path) == known and path not in new
    ]
    never = [
        path
        for path, known in new.items()
        if known not in (old.get(path), pages.get(path))
    ]
    return [f"{path} is lost" for path in lost] + [
        f"{path} was never so" for path in never
    ]


def _next_run(world: World, name: str) -> list[str]:
    """What is wrong after a run that nothing stops."""
    ended = run_and_kill(
        world.open, _repaired if name in DAMAGED else Corpus.refresh, Kill()
    )
    if ended.fault or ended.killed:
        return [f"the next run failed: {ended.fault or 'it hangs'}"]
    with world.open() as corpus, world.anew() as anew:
        if name in DAMAGED:
            world.readers.point_at(world.root, world.directory, "whole")
        wrong = [
            f"after the next run, {each}" for each in problems(corpus.check(full=True))
        ]
        other = differences(content_of(corpus.directory), content_of(anew.directory))
        wrong += [f"after the next run, {each}" for each in other[:3]]
        asked = world.dice.sample(WORDS, 1) if world.dice.random() < ASKED else []
        if answers(corpus, asked) != answers(anew, asked):
            wrong.append("after the next run, other answers than a new index gives")
    return wrong


def profile(world: World, name: str) -> tuple[Counter[str], float]:
    """How often an operation reaches which point, and how long it takes."""
    world.prepare(name)
    ended = run_and_kill(world.open, OPERATIONS[name].run, Kill())
    assert not ended.fault and not ended.killed, ended
    wrong = _next_run(world, name)
    assert not wrong, wrong
    return ended.reached, ended.seconds


def campaign(home: Path, kills: int, seed: int, first: str = "") -> dict[str, Any]:
    """`first` says what is killed before the kills by lot: each operation at "every" point that it reaches
    once, or one operation for "each" point."""
    make_small()
    os.environ["XDG_CACHE_HOME"] = str(home / "cache")
    dice, outcome, began = random.Random(seed), Outcome(), time.monotonic()
    readers = Readers(home, READERS)
    try:
        world = World(home, dice, readers)
        usual = {name: profile(world, name) for name in OPERATIONS}
        turns = [
            (name, point)
            for name, (reached, _) in usual.items()
            for point in POINTS
            if reached[point]
        ]
        due = {"every": list(turns), "each": _one_each(turns, dice), "": []}[first]
        kills += len(due)
        while sum(outcome.kills.values()) < kills:
            _attempt_next(world, usual, turns, due, outcome)
            if outcome.attempts % 50 == 0:
                print(
                    f"{sum(outcome.kills.values())} kills", file=sys.stderr, flush=True
                )
    finally:
        counts, wrong = readers.end()
    reached = sum(
        (each for each, _ in usual.values()), sum(outcome.reached.values(), Counter())
    )
    return {
        "seed": seed, "kills": sum(outcome.kills.values()), "attempts": outcome.attempts,
        "at_points": sum(count for what, count in outcome.kills.items() if "random" not in what),
        "by_operation": {
            name: sum(count for what, count in outcome.kills.items() if what.startswith(f"{name} "))
            for name in OPERATIONS
        },
        "by_point": {
            point: sum(count for what, count in outcome.kills.items() if what.endswith(f" {point}"))
            for point in POINTS
        },
        "points_never_reached": [point for point in POINTS if not reached[point]],
        "found_by_the_doctor": dict(outcome.findings), "losses": len(outcome.losses),
        "loss_examples": outcome.losses[:10], "readers": dict(counts), "reader_errors": len(wrong),
        "reader_examples": wrong[:10], "seconds": round(time.monotonic() - began, 1),
    }  # fmt: skip


def _one_each(
    turns: list[tuple[str, str]], dice: random.Random
) -> list[tuple[str, str]]:
    """An operation for each point, by lot."""
    names = {point: [name for name, own in turns if own == point] for _, point in turns}
    return [(dice.choice(own), point) for point, own in names.items()]


def _attempt_next(
    world: World,
    usual: dict[str, tuple[Counter[str], float]],
    turns: list[tuple[str, str]],
    due: list[tuple[str, str]],
    outcome: Outcome,
) -> None:
    """One attempt: a point that is due, or in turns a point by lot and a random moment."""
    dice = world.dice
    if due:
        name, point = due.pop()
        if not attempt(world, name, Kill(point), outcome):
            due.insert(0, (name, point))  # this once it had nothing to do there
    elif dice.random() < 0.5:
        name, point = dice.choice(turns)
        attempt(
            world, name, Kill(point, dice.randint(1, usual[name][0][point])), outcome
        )
    else:
        name = dice.choice(tuple(OPERATIONS))
        attempt(world, name, Kill(after=dice.random() * usual[name][1]), outcome)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--every-point",
        dest="first",
        action="store_const",
        const="every",
        default="",
        help="before that, each operation once at each point that it reaches",
    )
    parser.add_argument(
        "--each-point",
        dest="first",
        action="store_const",
        const="each",
        help="before that, one operation at each point",
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="tamis-crash-", dir=memory) as folder:
        home = Path(folder).resolve()
        figures = campaign(home, options.kills, options.seed, options.first)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        for name, value in figures.items():
            print(f"{name:22} {value}")
    return int(bool(figures["losses"] or figures["reader_errors"]))


if __name__ == "__main__":
    sys.exit(main())
