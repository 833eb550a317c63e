"""`tamis watch` as a process: what it prints, how it ends, who watches."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.corpora import test_settings, write_files
from tamis.corpus import Corpus, index_directory

CLI = "import sys; from tamis.cli.main import main; main(sys.argv[1:])"
FILES = {
    f"docs/note{number}.md": f"# Note {number}\n\nabout the token number{number}"
    for number in range(5)
}
LONG = 120.0


class Command:
    """`tamis watch --json`, and the events that it has printed so far."""

    def __init__(self, *arguments: str | Path, before: tuple[str, ...] = ()) -> None:
        command = [
            *before,
            sys.executable,
            "-c",
            CLI,
            "watch",
            *map(str, arguments),
            "--model",
            "hashing",
        ]
        environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [*command, "--json"], stdout=pipe, stderr=pipe, env=environment
        )
        self.events: list[dict[str, Any]] = []
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + LONG
        while not condition():
            assert self.process.poll() is None, self.ended()
            assert time.monotonic() < deadline, self.events
            time.sleep(0.02)

    def until_indexed(self, count: int = 1) -> None:
        self.until(lambda: len(self.named("indexed")) >= count)

    def named(self, event: str) -> list[dict[str, Any]]:
        return [each for each in list(self.events) if each["event"] == event]

    def stop(self, number: int = signal.SIGINT) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.ended()[0]

    def ended(self) -> tuple[int, str]:
        code = self.process.wait(LONG)
        self.reader.join(LONG)
        assert self.process.stderr and self.process.stdout
        said = "" if self.process.stderr.closed else self.process.stderr.read().decode()
        self.process.stderr.close()
        self.process.stdout.close()
        return code, said


@pytest.fixture
def watch() -> Iterator[Callable[..., Command]]:
    started: list[Command] = []

    def start(*arguments: str | Path, **options: Any) -> Command:
        started.append(Command(*arguments, **options))
        return started[-1]

    yield start
    for command in started:
        command.stop(signal.SIGKILL)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_files(tmp_path / "root", FILES).resolve()


def found(root: Path, question: str) -> list[str]:
    settings = test_settings(root)
    with Corpus(root, index_directory(root, settings, None), settings) as corpus:
        results = corpus.search(question, limit=50).results
    return [
        result.path
        for result in results
        if any(each.lane == "words" for each in result.evidence)
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_what_it_does_and_ends_when_told(watch, root, number):
    command = watch(root)
    command.until_indexed()
    assert [event["event"] for event in command.events] == ["watching", "indexed"]
    assert command.events[1]["indexed"] == 5
    write_files(root, {"new.md": "# New\n\nzebra"})
    command.until_indexed(2)
    assert found(root, "zebra") == ["new.md"], "what it says is there"
    last = command.events[-1]
    assert (last["indexed"], last["removed"]) == (1, 0)
    assert {
        "unchanged",
        "chunks",
        "generation",
        "seconds",
        "skipped",
        "warnings",
        "time",
    } <= set(last)
    (root / "new.md").unlink()
    command.until_indexed(3)
    assert (command.events[-1]["indexed"], command.events[-1]["removed"]) == (0, 1)
    code = command.stop(number)
    assert code == 0
    assert command.process.stderr.closed


def test_it_ends_in_the_middle_of_a_run_and_loses_nothing(watch, root):
    write_files(
        root, {f"many/n{n}.md": f"# N{n}\n\nword{n} zebra\n" * 20 for n in range(800)}
    )
    command = watch(root)
    command.until(lambda: (root / ".tamis" / "index.db").exists())
    assert command.stop() == 0
    again = watch(root)
    again.until_indexed()
    assert found(root, "word799") == ["many/n799.md"]
    assert again.stop() == 0


def test_a_second_watch_says_who_watches_and_ends(watch, root):
    first = watch(root)
    first.until_indexed()
    second = watch(root)
    code, _ = second.ended()
    assert code == 1
    assert [event["event"] for event in second.events] == ["following"]
    assert f"process {first.process.pid} watches" in second.events[0]["message"]
    assert first.stop() == 0


def test_a_killed_watcher_is_followed_by_the_next(watch, root):
    first = watch(root)
    first.until_indexed()
    assert first.stop(signal.SIGKILL) == -signal.SIGKILL
    write_files(root, {"meanwhile.md": "# Meanwhile\n\nzebra"})
    second = watch(root)
    second.until_indexed()
    assert found(root, "zebra") == ["meanwhile.md"]
    write_files(root, {"later.md": "# Later\n\nokapi"})
    second.until_indexed(2)
    assert found(root, "okapi") == ["later.md"]


def test_other_processes_index_at_the_same_time(watch, root):
    """Another writer is no fault: we come after it."""
    command = watch(root)
    command.until_indexed()
    settings = test_settings(root)
    with Corpus(root, index_directory(root, settings, None), settings) as corpus:
        for turn in range(10):
            write_files(root, {f"new{turn}.md": f"# New {turn}\n\nzebra{turn}"})
            corpus.refresh()
    command.until(lambda: found(root, "zebra9") == ["new9.md"])
    assert command.named("fault") == []


def test_a_root_that_goes_and_comes_back(watch, root):
    command = watch(root)
    command.until_indexed()
    root.rename(root.with_name("away"))
    command.until(lambda: command.named("waiting"))
    shutil.rmtree(root.with_name("away"))
    write_files(root, {"other.md": "# Other\n\nzebra"})
    command.until(
        lambda: (
            command.events[-1]["event"] == "indexed"
            and command.events[-1]["indexed"] == 1
        )
    )
    assert found(root, "zebra") == ["other.md"]
    assert command.named("fault") == []
    assert command.stop() == 0


def test_polling_by_choice(watch, root):
    command = watch(root, "--poll")
    command.until_indexed()
    assert command.named("polling")
    write_files(root, {"new.md": "# New\n\nzebra"})
    command.until_indexed(2)
    assert found(root, "zebra") == ["new.md"]


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify's queue")
def test_a_real_overflow_while_the_process_stands_still(watch, root):
    """The queue fills with files that are ignored, and the one that counts no longer fits."""
    queue = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text("ascii"))
    if queue > 100_000:
        pytest.skip("this system's queue is long")
    command = watch(root)
    command.until_indexed()
    command.process.send_signal(signal.SIGSTOP)
    noise = [root / "docs" / "a.tmp", root / "docs" / "b.tmp"]
    for turn in range(
        queue + 100
    ):  # in turns: the system joins notices that are the same
        noise[turn % 2].touch()
    write_files(root, {"docs/new.md": "# New\n\nzebra"})
    time.sleep(
        6
    )  # longer than a busy machine makes anybody wait: that is how it is noticed
    command.process.send_signal(signal.SIGCONT)
    command.until_indexed(2)
    assert found(root, "zebra") == ["docs/new.md"]


def _may_be_alone() -> bool:
    try:
        return (
            subprocess.run(["unshare", "-Ur", "true"], capture_output=True).returncode
            == 0
        )
    except OSError:
        return False


@pytest.mark.parametrize(
    ("limit", "names"),
    [
        ("max_inotify_watches", "max_user_watches"),
        ("max_inotify_instances", "max_user_instances"),
    ],
)
def test_the_systems_limit_of_watches(watch, root, limit, names):
    """In a user namespace with a limit of its own: we look instead, and say why."""
    if not _may_be_alone():
        pytest.skip("no user namespaces here")
    script = f'echo 0 > /proc/sys/user/{limit} && exec "$@"'
    command = watch(root, before=("unshare", "-Ur", "sh", "-c", script, "sh"))
    command.until_indexed()
    said = command.named("polling")[0]["message"]
    assert names in said
    assert "every 2 s instead" in said
    write_files(root, {"new.md": "# New\n\nzebra"})
    command.until_indexed(2)
    assert found(root, "zebra") == ["new.md"]


def tamis(
    *arguments: str | Path, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CLI, *map(str, arguments)]
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=environment,
        cwd=folder,
        timeout=LONG,
    )


def test_what_cannot_begin_is_a_fault(root, tmp_path):
    assert tamis("index", root, "--model", "none", "-q").returncode == 0
    other_model = tamis("watch", root, "--model", "hashing")
    assert (other_model.returncode, "not hashing" in other_model.stderr) == (2, True)
    nowhere = tamis("watch", tmp_path / "nowhere")
    assert (nowhere.returncode, "does not exist" in nowhere.stderr) == (2, True)
    write_files(tmp_path, {"full/.tamis": "a file where the index should be"})
    no_place = tamis("watch", tmp_path / "full")
    assert (no_place.returncode, "is a file" in no_place.stderr) == (2, True)
    for ended in (other_model, nowhere, no_place):
        assert "Traceback" not in ended.stderr
        assert ended.stdout.count("\n") <= 1, "that it watches, at most"


def test_a_home_is_not_watched_by_accident():
    home = tamis("watch", folder=Path(os.environ["HOME"]))
    assert home.returncode == 2
    assert "tamis watch FOLDER" in home.stderr


def test_lines_for_people(root):
    command = [
        sys.executable,
        "-c",
        CLI,
        "watch",
        str(root),
        "--model",
        "hashing",
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout
    assert process.stdout.readline()[9:] == f"watching {root}\n"
    assert process.stdout.readline()[9:].startswith(
        "indexed 5, removed 0, unchanged 0 in "
    )
    process.send_signal(signal.SIGTERM)
    assert process.stdout.read() == ""
    assert process.wait(LONG) == 0
    process.stdout.close()


def test_a_reader_that_has_seen_enough(root):
    command = [sys.executable, "-c", CLI, "watch", str(root), "--model", "hashing"]
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, env=environment
    )
    assert process.stdout and process.stderr
    process.stdout.readline()
    process.stdout.close()
    deadline, turn = time.monotonic() + LONG, 0
    while process.poll() is None and time.monotonic() < deadline:
        turn += 1
        write_files(root, {"new.md": f"# New\n\nzebra{turn}"})
        time.sleep(0.2)
    assert process.wait(LONG) == 0
    assert process.stderr.read() == ""
    process.stderr.close()
