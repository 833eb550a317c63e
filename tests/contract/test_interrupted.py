"""Interrupting an index at 30, 60 and 90 %, in every way, and starting again embeds no passage twice.

The toy model writes down each text when its vector is made: every embedding counts, whatever becomes of it.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.corpora import test_settings, write_files
from tamis.corpus import Corpus

PAGES = 20
# Runs a command line in a child for each line it reads: [arguments, number of the text to stop at, threads].
STARTER = """
import json, os, sys, threading, time
import tamis.index.build, tamis.corpus, tamis.index.embed_pending, tamis.models.embedders
from tamis.cli.main import main
from tamis.models.hashing import HashingEmbedder
tamis.index.build.AT_ONCE = -1  # words first, as in a large folder
tamis.index.embed_pending.PORTION = 8
lock = threading.Lock()

class Counting(HashingEmbedder):
    name, fingerprint = "granite", "counting"

    def __init__(self, log, stop, threads):
        self.log, self.stop, self.begun, self.threads = log, stop, 0, threads

    def embed_passages(self, texts):
        for text in texts:
            with lock:
                self.begun += 1
                here = self.begun == self.stop
            if here:
                os.write(1, b"here\\n")
                time.sleep(60 if self.threads == 1 else 1)  # whoever is waited for must come to an end
            vector = super().embed_passages([text])
            os.write(self.log, json.dumps(text).encode() + b"\\n")
        return vector if len(texts) == 1 else super().embed_passages(texts)

for line in sys.stdin:
    arguments, log, stop, threads = json.loads(line)
    child = os.fork()
    if not child:
        model = Counting(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), stop, threads)
        tamis.models.embedders.load_embedder = lambda *_: model
        os.environ["TAMIS_MODEL_THREADS"] = str(threads)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        main(arguments)
    os.write(1, b"%d\\n" % child)
    status = os.waitpid(child, 0)[1]
    os.write(1, b"ended %d\\n" % os.waitstatus_to_exitcode(status))
"""


class Starter:
    def __init__(self, home: Path) -> None:
        pipe = subprocess.PIPE
        kept = {
            name: os.environ[name]
            for name in ("PATH", "PYTHONPATH")
            if name in os.environ
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", STARTER],
            bufsize=0,
            stdin=pipe,
            stdout=pipe,
            env=kept | {"HOME": str(home)},
        )

    def run(
        self, arguments: list[str], log: Path, stop: int, threads: int, number: int = 0
    ) -> int:
        """Send the signal when the model has begun text `stop`; returns how the run ended."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(
            json.dumps([arguments, str(log), stop, threads]).encode() + b"\n"
        )
        child = 0
        for line in self.process.stdout:
            if line == b"here\n":
                os.kill(child, number)
            elif line.startswith(b"ended"):
                return int(line.split()[1])
            else:
                child = int(line)
        raise AssertionError("the starter has ended")

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(120)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def starter(tmp_path_factory) -> Iterator[Starter]:
    made = Starter(tmp_path_factory.mktemp("interrupted"))
    yield made
    made.close()


def pages(name: str) -> dict[str, str]:
    """Three passages each, no two alike, in this test or another: the cache is shared."""
    part = (
        "## Part {1}\n\npassage {1} of page {0} in {2}, "
        + "and so on until it is long enough " * 30
    )
    return {
        f"p{number}.md": f"# Page {number}\n\n"
        + "\n\n".join(part.format(number, at, name) for at in range(3))
        for number in range(PAGES)
    }


def embedded(log: Path) -> list[str]:
    return log.read_text("utf-8").splitlines() if log.exists() else []


WAYS = {
    signal.SIGINT: 130,
    signal.SIGTERM: -signal.SIGTERM,
    signal.SIGKILL: -signal.SIGKILL,
}


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
@pytest.mark.parametrize(
    ("number", "code"), WAYS.items(), ids=[each.name for each in WAYS]
)
@pytest.mark.parametrize("command", ["index", "rebuild-index"])
def test_no_passage_is_embedded_twice(tmp_path, starter, command, share, number, code):
    root, log = (
        write_files(tmp_path / "root", pages(f"{tmp_path.name}{command}")),
        tmp_path / "log",
    )
    arguments = [command, str(root), "--model", "granite", "-q"]
    total = 3 * PAGES
    stop = int(share * total) + 1
    assert starter.run(arguments, log, stop, 1, number) == code
    assert len(embedded(log)) == stop - 1, "it was interrupted where it should be"
    assert starter.run(arguments, log, 0, 1) == 0
    made = embedded(log)
    assert len(made) == len(set(made)) == total
    with Corpus(
        root, root / ".tamis", test_settings(root, model__name="granite")
    ) as corpus:
        state = corpus.state()
    assert (state.documents, state.chunks, state.pending_chunks) == (PAGES, total, 0)


def test_ctrl_c_while_several_threads_embed(tmp_path, starter):
    """Whatever is under way is brought to its end, and kept."""
    root, log = write_files(tmp_path / "root", pages(tmp_path.name)), tmp_path / "log"
    arguments = ["index", str(root), "--model", "granite", "-q"]
    assert starter.run(arguments, log, 30, 2, signal.SIGINT) == 130
    first = embedded(log)
    assert 29 <= len(first) < 3 * PAGES
    assert starter.run(arguments, log, 0, 2) == 0
    made = embedded(log)
    assert len(made) == len(set(made)) > len(first)
