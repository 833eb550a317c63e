"""The process that grammars run in: what it withstands, and that it ends."""

import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.sources import symbols
from tamis.ingest.code import child
from tamis.ingest.code.child import CHILD, Child
from tamis.ingest.code.grammars import GRAMMARS

SOURCE = Path(child.__file__).parents[2]
CODE = "def f(): pass\n"
PUNCTUATION = "".join(random.Random(7).choices("<>{}()[]/=;:,.'\"`?!&|*+-@#", k=10_000))
JAVA = "class A { int f() { return 1; } }\n"


def names(text: str = CODE, language: str = "python") -> list[str]:
    return [each.name for each in symbols(text, language)]


def python(script: str, folder: Path, **more: object) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    pipe = subprocess.PIPE
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", script]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=pipe,
        stderr=pipe,
        text=True,
        **more,
    )


def is_gone(pid: int) -> bool:
    """Not there, or dead and only waited for by whoever started it."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
        )
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(pid: int) -> None:
    """Fails by the runner's own limit, not by the speed of the machine."""
    while not is_gone(pid):
        time.sleep(0.02)


# Text that means harm


@pytest.mark.parametrize(
    ("text", "language"),
    [
        pytest.param("a<" * 200_000, "java", id="quadratic"),
        pytest.param(PUNCTUATION, "tsx", id="endless"),
    ],
)
def test_text_that_takes_for_ever_is_given_up(text, language):
    """The next file is read all the same."""
    assert symbols(text, language) is None
    assert names(JAVA, "java") == ["A", "f"]


@pytest.mark.parametrize("language", sorted(GRAMMARS))
def test_every_grammar_answers_after_harm(language):
    """Whatever a grammar makes of it: it returns, and the child is there for the next."""
    for text in (
        "a<" * 5_000,
        "<a " * 5_000,
        "([{" * 5_000,
        "\0" * 100,
        "`${" * 3_000,
        "<<A\n" * 2_000,
    ):
        symbols(text, language)
    assert names() == ["f"]


def test_a_line_of_five_million_characters():
    assert names("x = '" + "a" * 5_000_000 + "'\ndef f(): pass\n") == ["f"]
    assert names("x = [" + "1, " * 200_000 + "]\ndef f(): pass\n") == ["f"]


def test_a_hundred_thousand_functions():
    text = "".join(f"def f{number}(): pass\n" for number in range(100_000))
    assert len(symbols(text, "python")) == 100_000


def test_lone_surrogates_and_nul():
    assert names("def f(): '\ud800'\n") == ["f"]
    assert symbols("def f(): '\0'\n\0", "python") in (
        None,
        symbols("def f(): pass", "python"),
    )


# The child


@pytest.fixture
def started(monkeypatch) -> list[subprocess.Popen[bytes]]:
    """The children that this test starts, in order."""
    processes: list[subprocess.Popen[bytes]] = []

    class Kept(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            processes.append(self)

    CHILD.close()
    monkeypatch.setattr(subprocess, "Popen", Kept)
    return processes


class Deadly:
    """The output of a process that is killed when somebody reads it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.output = process.stdout

    def read(self, size: int) -> bytes:
        self.process.kill()
        return self.output.read(size)

    def close(self) -> None:
        self.output.close()


def test_a_child_that_died_is_replaced(started):
    assert names() == ["f"]
    (process,) = started
    os.kill(process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert names() == ["f"]
    assert len(started) == 2
    CHILD.close()
    assert names() == ["f"]


def test_a_child_killed_from_outside_while_it_reads_does_not_cost_the_file_its_structure(
    started,
):
    CHILD.captures(CODE, "python")
    (first,) = started
    os.kill(first.pid, signal.SIGSTOP)  # it answers no sooner than it is killed
    first.stdout = Deadly(first)
    assert names() == ["f"]
    assert len(started) == 2


def test_a_text_that_its_reader_dies_of_is_not_read_again(started):
    assert symbols("a<" * 20_000, "java") is None
    (process,) = started
    # Out of time, or of stack.
    assert process.returncode in (-signal.SIGPROF, -signal.SIGSEGV)


def test_a_child_that_cannot_be_started_is_no_fault(monkeypatch):
    """Then nothing parses; the files are text."""
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    child = Child()
    assert child.captures(CODE, "python") is None
    child.close()


def test_threads_take_turns():
    texts = [f"def f{number}(): pass\n" * 50 for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: symbols(text, "python"), texts))
    assert [{each.name for each in several} for several in found] == [
        {f"f{n}"} for n in range(40)
    ]


def test_no_grammar_is_loaded_here():
    assert names("function f() end", "lua") == ["f"]
    assert not [name for name in sys.modules if name.startswith("tree_sitter")]


def test_the_child_loads_little(started):
    """Nothing of ours and nothing of the environment: no numpy, no site."""
    script = (
        "import sys, runpy; sys.path.extend(sys.argv[2:])\n"
        "made = runpy.run_path(sys.argv[1]); made['captures'](b'def f(): pass', 'python')\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} - sys.stdlib_module_names))"
    )
    assert names() == ["f"]
    python, isolated, no_site, source, _, *packages = started[0].args
    assert (isolated, no_site) == ("-I", "-S")
    program = [python, isolated, no_site, "-c", script, source, *packages]
    ran = subprocess.run(program, capture_output=True, text=True, check=True)
    loaded = set(eval(ran.stdout)) - {"__main__", "__mp_main__"}
    assert loaded == {"tree_sitter", "tree_sitter_python"}


def test_what_lies_in_the_current_folder_is_not_run(tmp_path, monkeypatch):
    for name in ("json", "tree_sitter", "tree_sitter_python"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    CHILD.close()
    assert names() == ["f"]


def test_the_current_folder_may_be_the_one_that_has_the_grammars(monkeypatch):
    (place,) = {
        str(Path(find_spec(name).origin).parents[1])
        for name in ("tree_sitter", "tree_sitter_python")
    }
    monkeypatch.chdir(place)
    CHILD.close()
    assert names() == ["f"]


def test_a_current_folder_that_is_gone(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    CHILD.close()
    assert names() == ["f"]


# How it ends


def test_it_goes_when_it_is_not_asked_and_comes_back_when_it_is(monkeypatch, started):
    monkeypatch.setattr(child, "PATIENCE", 0.01)
    assert names() == ["f"]
    wait_until_gone(started[0].pid)
    assert names() == ["f"]
    assert len(started) == 2
    CHILD.close()


def test_it_may_be_about_to_go_when_it_is_asked(monkeypatch):
    """Whenever that is: each question is answered."""
    CHILD.close()
    monkeypatch.setattr(child, "PATIENCE", 0)
    assert [names() for _ in range(10)] == [["f"]] * 10
    CHILD.close()


ASK = "from tamis.ingest.code.child import CHILD; CHILD.captures('def f(): pass', 'python')\n"
TELL = "print(CHILD._process.pid, flush=True)\n"


def test_no_child_is_left_at_the_end(tmp_path):
    """And nothing is said about it, under -X dev -W error."""
    ran = python(ASK + TELL, tmp_path)
    out, err = ran.communicate()
    assert (ran.returncode, err) == (0, "")
    assert is_gone(int(out))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_process_takes_its_child_along(how, tmp_path):
    with python(f"{ASK}{TELL}import time; time.sleep(1000)", tmp_path) as ran:
        pid = int(ran.stdout.readline())
        ran.send_signal(how)
        ran.communicate()
        wait_until_gone(pid)


def test_a_process_killed_while_its_child_works_takes_it_along(tmp_path):
    """Nobody reads the answer then; the limit on CPU time ends it."""
    busy = "import threading, time\nargs = ('a<' * 9000, 'java')\n"
    busy += "threading.Thread(target=CHILD.captures, args=args).start()\n"
    with python(f"{ASK}{TELL}{busy}time.sleep(1000)", tmp_path) as ran:
        pid = int(ran.stdout.readline())
        ran.kill()
        ran.communicate()
        wait_until_gone(pid)


def test_ctrl_c_is_for_the_parent_alone(tmp_path):
    """It goes to the whole group of the terminal; the child is in another and goes on."""
    script = (
        f"import os, signal\n{ASK}"
        "signal.signal(signal.SIGINT, lambda *_: print('asked to stop', flush=True))\n"
        "pid = CHILD._process.pid\nos.killpg(0, signal.SIGINT)\n"
        "print(len(CHILD.captures('def f(): pass', 'python')), CHILD._process.pid == pid)\n"
    )
    ran = python(script, tmp_path, process_group=0)
    out, err = ran.communicate()
    assert (out, err) == ("asked to stop\n1 True\n", "")


def test_after_a_fork_each_has_a_child_of_its_own(tmp_path):
    script = (
        f"import os\n{ASK}first = CHILD._process.pid\n"
        "made = os.fork()\n"
        "assert len(CHILD.captures('def f(): pass', 'python')) == 1\n"
        "own = CHILD._process.pid\n"
        "if made == 0:\n"
        "    CHILD.close()\n"
        "    os._exit(0 if own != first else 1)\n"
        "_, status = os.waitpid(made, 0)\n"
        "print(status, own == first, len(CHILD.captures('def g(): pass', 'python')))\n"
    )
    out, err = python(script, tmp_path).communicate()
    assert (out, err) == ("0 True 1\n", "")


def test_a_fork_that_never_asks_leaves_the_child_alone(tmp_path):
    """It ends without a word about a child that is not its own."""
    script = (
        f"import os, sys\n{ASK}made = os.fork()\n"
        "if made == 0:\n    sys.exit(0)\n"
        "_, status = os.waitpid(made, 0)\n"
        "print(status, len(CHILD.captures('def g(): pass', 'python')))\n"
    )
    out, err = python(script, tmp_path).communicate()
    assert (out, err) == ("0 1\n", "")


def test_an_interrupted_question_is_not_answered_later(tmp_path):
    """The next text gets its own answer, not that of the one before."""
    script = (
        f"import signal\n{ASK}"
        "def stop(*_): raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGALRM, stop)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.3)\n"
        "try:\n    CHILD.captures('a<' * 200_000, 'java')\nexcept KeyboardInterrupt:\n    print('stopped')\n"
        "print([capture.kind for capture in CHILD.captures('def f(): pass', 'python')])\n"
    )
    out, err = python(script, tmp_path).communicate()
    assert (out, err) == ("stopped\n['function']\n", "")
