"""Compare tamis with qmd, semble, bm25s and ripgrep, as ratios measured in one alternating run.

    python benchmarks/peers.py [--work FOLDER] [--files FOLDER] [--rounds 5] [--json]

The peers are installed below `--work` (default: corpora/peers, which git ignores): qmd and Node 24
from npm, semble and bm25s from PyPI, ripgrep with apt if it is not there. `--files` is the folder
that all of them index (default: the 2,772 pages of GitHub's documentation in ../shared/data).

Each row runs its contenders in turn, `--rounds` times, and prints medians. CPU seconds count: they
are the system's figures for the whole process, children included. The line below a row says
how equal the work is.

No peer can load its model here: semble's and qmd's are downloaded. semble runs with a model of the
same kind and size whose vectors are random, so its answers mean nothing and its work is the same.
qmd cannot make vectors, and its row says so.
"""

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve()
TOP = HERE.parents[1]
PEERS = {
    "semble": "semble==0.7.0",
    "bm25s": "bm25s==0.3.16",
    "stemmer": "PyStemmer==3.1.0",
}
NODE = ("node@24", "@tobilu/qmd@2.8.3")
FEW = 100  # files that are indexed with real vectors: all of them take half an hour
QUESTIONS = (
    "rotate secret keys",
    "how do I configure a self-hosted runner",
    "merge queue",
    "who pays for copilot seats",
    "dismiss code scanning alerts",
    "required status checks before merging",
    "two factor authentication recovery codes",
    "webhook delivery failed",
)


@dataclass(frozen=True, slots=True)
class Cost:
    """The resources that one run took."""

    cpu: float  # seconds, of the process and its children
    wall: float  # seconds
    memory: float = 0.0  # megabytes, at most


@dataclass(slots=True)
class Row:
    """One comparison: its contenders, and how equal their work is."""

    name: str
    note: str
    costs: dict[str, list[Cost]] = field(default_factory=dict)


def run(command: Sequence[str], env: Mapping[str, str], folder: Path) -> Cost:
    """Run a command to its end and return its cost; nothing found is no failure."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [str(part) for part in command],
        env={**os.environ, **env},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise SystemExit(f"{command[0]} failed: {errors.decode()[-500:]}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


class Warm:
    """A process that holds an open index and answers questions, one a line."""

    def __init__(
        self, python: Path, kind: str, root: Path, env: Mapping[str, str]
    ) -> None:
        self._process = subprocess.Popen(
            [str(python), str(HERE), "--worker", kind, "--files", str(root)],
            env={**os.environ, **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._process.stdout.readline().strip() != "ready":
            raise SystemExit(f"the {kind} worker did not start")

    def ask(self, question: str) -> Cost:
        """Return the cost of one answer, as the process itself measured it."""
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        return Cost(*json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()
        self._process.wait()


# --- Workers: they run in the environment of the peer ---------------------------------------


def work(kind: str, root: Path) -> None:
    """Answer questions from standard input with [CPU seconds, wall seconds, megabytes]."""
    import resource

    search = WORKERS[kind](root)
    for question in QUESTIONS:
        search(question)
    print("ready", flush=True)
    for line in sys.stdin:
        cpu = time.process_time()
        wall = time.perf_counter()
        search(line.rstrip("\n"))
        cost = [time.process_time() - cpu, time.perf_counter() - wall]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps([*cost, memory]), flush=True)


def open_tamis(root: Path) -> Callable[[str], object]:
    """Search with the lanes of words, names and links, and of meaning if the index has it."""
    import tamis

    corpus = tamis.open(root, index_dir=os.environ["PEERS_INDEX"])
    return corpus.search


def open_semble(root: Path) -> Callable[[str], object]:
    """Search with semble's two lanes and its ranking rules."""
    from semble.index import SembleIndex
    from semble.types import ContentType

    return SembleIndex.from_path(root, content=[ContentType.DOCS]).search


def open_bm25s(root: Path) -> Callable[[str], object]:
    """Search whole documents with plain BM25: tokenise the question, score, take ten."""
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    texts = [file.read_text("utf-8") for file in sorted(root.rglob("*.md"))]
    retriever = bm25s.BM25()
    tokens = bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)
    retriever.index(tokens, show_progress=False)

    def search(question: str) -> object:
        asked = bm25s.tokenize(
            question, stopwords="en", stemmer=stemmer, show_progress=False
        )
        return retriever.retrieve(asked, k=10, show_progress=False)

    return search


WORKERS = {"tamis": open_tamis, "semble": open_semble, "bm25s": open_bm25s}


# --- Installing -----------------------------------------------------------------------------


class Peers:
    """The peers' programs below one folder, installed when they are missing."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.python = work / "python" / "bin" / "python"
        self.bin = work / "node" / "node_modules" / ".bin"
        self.model = work / "standin"

    def install(self) -> None:
        """Install what is missing."""
        self.work.mkdir(parents=True, exist_ok=True)
        if not self.python.exists():
            call(sys.executable, "-m", "venv", self.python.parents[1])
            call(self.python, "-m", "pip", "install", "-q", *PEERS.values())
        if not (self.bin / "qmd").exists():
            folder = self.work / "node"
            folder.mkdir(exist_ok=True)
            (folder / "package.json").write_text("{}\n")
            call("npm", "install", "--silent", "--prefix", folder, *NODE)
        if shutil.which("rg") is None:
            call("apt-get", "install", "-y", "-q", "ripgrep")
        if not self.model.exists():
            make_model(self.python, self.model)

    def semble(self) -> dict[str, str]:
        """Environment for semble: its own cache, the stand-in model, no network."""
        cache = str(self.work / "semble-cache")
        return {
            "SEMBLE_MODEL_NAME": str(self.model),
            "XDG_CACHE_HOME": cache,
            "HF_HUB_OFFLINE": "1",
        }

    def qmd(self) -> dict[str, str]:
        """Environment for qmd: its own home, and Node 24 before any other."""
        home = str(self.work / "qmd-home")
        return {
            "HOME": home,
            "XDG_CACHE_HOME": home,
            "XDG_CONFIG_HOME": home,
            "PATH": f"{self.bin}:{os.environ['PATH']}",
        }


def call(*command: object) -> None:
    """Run a command that must succeed."""
    subprocess.run([str(part) for part in command], check=True)


MODEL_SCRIPT = """
import sys
import numpy as np
from model2vec import StaticModel
from tokenizers import Tokenizer, models, pre_tokenizers
words = [line.strip() for line in open(sys.argv[1], encoding="utf-8")]
vocabulary = {"[UNK]": 0, "[PAD]": 1}
for word in words:
    vocabulary.setdefault(word, len(vocabulary))
tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
vectors = np.random.default_rng(0).standard_normal((len(vocabulary), 256))
StaticModel(vectors=vectors.astype(np.float32), tokenizer=tokenizer).save_pretrained(sys.argv[2])
"""


def make_model(python: Path, folder: Path) -> None:
    """Make a static model with random vectors of the width of semble's own."""
    words = folder.with_suffix(".words")
    text = " ".join(file.read_text("utf-8") for file in (TOP / "docs").glob("*.md"))
    words.write_text("\n".join(sorted(set(text.lower().split()))), "utf-8")
    call(python, "-c", MODEL_SCRIPT, words, folder)


# --- The comparison -------------------------------------------------------------------------


class Comparison:
    """All rows over one folder of files."""

    def __init__(self, peers: Peers, files: Path, rounds: int) -> None:
        self.peers = peers
        self.files = files
        self.rounds = rounds
        self.few = peers.work / "few"
        self.indexes = peers.work / "tamis"
        self.tamis = Path(sys.executable).parent / "tamis"

    def rows(self) -> Iterator[Row]:
        """Measure and yield row after row."""
        yield self.index_words()
        yield self.index_vectors()
        yield self.search_once()
        yield self.search_once_with_model()
        yield self.search_warm("words", "none")
        yield self.search_warm("words and vectors", "hashing")
        yield self.update()
        yield self.disk()

    def measure(self, row: Row, contenders: Mapping[str, Callable[[], Cost]]) -> Row:
        """Run the contenders in turn."""
        for _ in range(self.rounds):
            for name, contender in contenders.items():
                row.costs.setdefault(name, []).append(contender())
        return row

    def index_words(self) -> Row:
        """Compare indexing by words, from nothing."""
        note = (
            "tamis and qmd index words only; semble has no such mode and adds static vectors. "
            "tamis and semble cut documents into passages, qmd indexes whole documents."
        )
        contenders = {
            "tamis": lambda: self.tamis_index("none", self.files),
            "qmd": self.qmd_index,
            "semble": lambda: self.semble_index(self.files),
        }
        return self.measure(Row("index, words only", note), contenders)

    def index_vectors(self) -> Row:
        """Compare indexing with vectors, on a few files."""
        if not self.few.exists():
            self.few.mkdir(parents=True)
            for file in sorted(self.files.rglob("*.md"))[::27][:FEW]:
                shutil.copy(file, self.few / f"{len(list(self.few.iterdir()))}.md")
        note = (
            f"{FEW} files. Not equal work: tamis runs a transformer of 30 million weights, semble adds up "
            "static vectors. qmd cannot run offline: its models are downloaded."
        )
        contenders = {
            "tamis": lambda: self.tamis_index("granite", self.few),
            "semble": lambda: self.semble_index(self.few),
        }
        row = Row("index, with vectors", note)
        self.rounds, rounds = 1, self.rounds
        self.measure(row, contenders)
        self.rounds = rounds
        return row

    def search_once(self) -> Row:
        """Compare one search on the command line, by words."""
        note = "A new process answers one question by words. ripgrep reads all files for one literal word."
        question = iter(QUESTIONS * self.rounds)

        def tamis() -> Cost:
            words = next(question)
            return self.run_tamis("search", words, self.files, model="none")

        contenders = {
            "tamis": tamis,
            "qmd": lambda: self.run_qmd("search", next(question)),
            "ripgrep": lambda: run(["rg", "-n", "secret"], {}, self.files),
        }
        return self.measure(Row("one search, words only", note), contenders)

    def search_once_with_model(self) -> Row:
        """Compare one search on the command line, with a model."""
        note = f"{FEW} files; a new process loads its model, embeds the question and answers."
        semble = [self.peers.python.parent / "semble", "search", QUESTIONS[0]]
        semble += [self.few, "--content", "docs"]
        contenders = {
            "tamis": lambda: self.run_tamis(
                "search", QUESTIONS[0], self.few, model="granite"
            ),
            "semble": lambda: run(semble, self.peers.semble(), self.few),
            "import numpy": lambda: run(
                [sys.executable, "-c", "import numpy"], {}, self.few
            ),
        }
        return self.measure(Row("one search, with the model", note), contenders)

    def search_warm(self, name: str, model: str) -> Row:
        """Compare searches in a process that has its index open."""
        note = (
            "Milliseconds of CPU for one question, in process. tamis uses hashed vectors, so the question's "
            "own embedding costs nothing; semble always uses words and vectors; bm25s ranks whole documents."
        )
        self.tamis_index(model, self.files)
        index = {"PEERS_INDEX": str(self.index_of(model, self.files))}
        workers = {
            "tamis": Warm(Path(sys.executable), "tamis", self.files, index),
            "semble": Warm(
                self.peers.python, "semble", self.files, self.peers.semble()
            ),
            "bm25s": Warm(self.peers.python, "bm25s", self.files, {}),
        }
        row = Row(f"warm search, {name}", note)
        for _ in range(self.rounds):
            for question in QUESTIONS:
                for peer, worker in workers.items():
                    row.costs.setdefault(peer, []).append(worker.ask(question))
        for worker in workers.values():
            worker.close()
        return row

    def update(self) -> Row:
        """Compare bringing an index up to date after one edit."""
        note = "One line is added to one of the files; each peer then brings its index up to date."
        victim = next(iter(sorted(self.files.rglob("*.md"))))

        def edited(action: Callable[[], Cost]) -> Cost:
            with victim.open("a", encoding="utf-8") as file:
                file.write(f"\nEdited at {time.time()}.\n")
            return action()

        semble = [self.peers.python.parent / "semble", "search", QUESTIONS[0]]
        semble += [self.files, "--content", "docs"]
        contenders = {
            "tamis": lambda: edited(
                lambda: self.run_tamis("index", self.files, model="none")
            ),
            "qmd": lambda: edited(lambda: self.run_qmd("update")),
            "semble": lambda: edited(
                lambda: run(semble, self.peers.semble(), self.files)
            ),
        }
        return self.measure(Row("update after one edit", note), contenders)

    def disk(self) -> Row:
        """Compare the sizes of the indexes, in megabytes (in the column of memory)."""
        note = "Megabytes on disk (as memory). tamis: words only, then with 384 numbers a passage; semble: 256."
        row = Row("disk", note)
        folders = {
            "tamis": self.index_of("none", self.files),
            "tamis, vectors": self.index_of("hashing", self.files),
            "qmd": self.peers.work / "qmd-home",
            "semble": self.peers.work / "semble-cache",
        }
        for name, folder in folders.items():
            files = [file for file in folder.rglob("*") if file.is_file()]
            size = sum(file.stat().st_size for file in files)
            row.costs[name] = [Cost(0.0, 0.0, size / 1e6)]
        return row

    def index_of(self, model: str, root: Path) -> Path:
        """Return the folder of one of our indexes."""
        return self.indexes / f"{root.name}-{model}"

    def run_tamis(self, command: str, *words: object, model: str) -> Cost:
        """Run one of our commands over an index of its own."""
        root = Path(words[-1])
        options = ["--model", model, "--index-dir", self.index_of(model, root), "-q"]
        return run([self.tamis, command, *words, *options], {}, root)

    def tamis_index(self, model: str, root: Path) -> Cost:
        """Build an index of ours from nothing, without cached vectors."""
        shutil.rmtree(self.index_of(model, root), ignore_errors=True)
        cache = self.peers.work / "tamis-cache"
        shutil.rmtree(cache, ignore_errors=True)
        self.index_of(model, root).parent.mkdir(parents=True, exist_ok=True)
        command = [self.tamis, "index", root, "-q", "--model", model]
        command += ["--index-dir", self.index_of(model, root)]
        return run(command, {"XDG_CACHE_HOME": str(cache)}, root)

    def run_qmd(self, *words: str) -> Cost:
        """Run a qmd command over its index."""
        return run([self.peers.bin / "qmd", *words], self.peers.qmd(), self.files)

    def qmd_index(self) -> Cost:
        """Build qmd's index from nothing."""
        home = self.peers.work / "qmd-home"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        return self.run_qmd("collection", "add", ".", "--name", "files")

    def semble_index(self, root: Path) -> Cost:
        """Build semble's index from nothing, by a first search."""
        shutil.rmtree(self.peers.work / "semble-cache", ignore_errors=True)
        command = [self.peers.python.parent / "semble", "search", QUESTIONS[0]]
        return run([*command, root, "--content", "docs"], self.peers.semble(), root)


def shown(row: Row) -> Iterator[str]:
    """Yield the lines of a row: each peer's medians, and tamis as a multiple of the peer."""
    yield f"{row.name}"
    ours = median(row.costs["tamis"])
    for name, costs in row.costs.items():
        cost = median(costs)
        figures = f"cpu {cost.cpu:8.4f} s   wall {cost.wall:8.4f} s   memory {cost.memory:7.1f} MB"
        ratio = ""
        if name != "tamis" and cost.cpu:
            ratio = f"   tamis / {name}: {ours.cpu / cost.cpu:.2f} cpu, {ours.wall / cost.wall:.2f} wall"
        yield f"  {name:16}{figures}{ratio}"
    yield f"  {row.note}"
    yield ""


def median(costs: Sequence[Cost]) -> Cost:
    """Return the median of each figure."""
    return Cost(
        statistics.median(cost.cpu for cost in costs),
        statistics.median(cost.wall for cost in costs),
        statistics.median(cost.memory for cost in costs),
    )


def default_files(work: Path) -> Path:
    """Return GitHub's documentation as files, written once."""
    files = work / "ghdocs"
    if not files.exists():
        from material import SHARED, write_out

        if not (SHARED / "ghdocs").exists():
            raise SystemExit("../shared/data is not here: name a folder with --files")
        write_out(SHARED / "ghdocs", files)
    return files


def main() -> None:
    """Compare, or answer questions as a worker."""
    parser = argparse.ArgumentParser(description="Compare tamis with its peers.")
    parser.add_argument("--work", type=Path, default=TOP / "corpora" / "peers")
    parser.add_argument("--files", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--worker", choices=sorted(WORKERS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.worker, given.files)
        return
    if importlib.util.find_spec("tamis") is None:
        raise SystemExit("run it with the Python that has tamis (.venv/bin/python)")
    peers = Peers(given.work.resolve())
    peers.install()
    files = (given.files or default_files(peers.work)).resolve()
    comparison = Comparison(peers, files, given.rounds)
    for row in comparison.rows():
        if given.json:
            medians = {name: median(costs) for name, costs in row.costs.items()}
            figures = {name: [c.cpu, c.wall, c.memory] for name, c in medians.items()}
            print(json.dumps({"row": row.name, "note": row.note, **figures}))
        else:
            print("\n".join(shown(row)), flush=True)


if __name__ == "__main__":
    main()
