"""Grammars run in a process of their own, which may die.

A tree-sitter grammar is generated C that was never meant for hostile input: ten kilobytes of
punctuation put the one for TSX into an endless loop, two megabytes of `a<a<a<` take hours in Java's,
and a call into it cannot be stopped (a progress callback crashes in 0.25 and 0.26 alike). So a child does it,
one for this process, started with the first source file. The kernel ends it when a text takes too
much CPU time or memory; the text then counts as one that does not parse, and the next one gets a new
child. Time is CPU time, so a busy machine does not change what is found.

The child ends with this process, however that ends: when its input does, or, in the middle of a text,
when its time for that text is up. It also goes when it was not asked for a while: a server that has indexed
needs no grammars until files change.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from threading import Lock
from typing import IO

from tamis.ingest.code import grammars
from tamis.ingest.code.grammars import GRAMMARS, Capture

_PROGRAM = str(Path(grammars.__file__).resolve())
_PORTION = 1 << 20  # bytes read at once
PATIENCE = 20  # seconds: files are often saved several times in a row
# What a text does not do to its reader: that ends by SIGPROF, by a crash, or with a code of its own. 0 is
# a child that was about to go when it was asked.
_FROM_OUTSIDE = frozenset(
    {0, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGHUP, -signal.SIGINT}
)


class Child:
    """The process that reads source for this one. Safe to use from several threads; one at a time."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()
        os.register_at_fork(after_in_child=self._forget)

    def captures(self, text: str, language: str) -> list[Capture] | None:
        """Return the captures; None when there is no grammar or the child died of the text."""
        if language not in GRAMMARS:
            return None
        source = text.encode("utf-8", "surrogatepass")
        with self._lock:
            answer = self._ask(f"{language} {len(source)}\n".encode() + source)
        found = json.loads(answer or "null")
        return found and [Capture(*capture) for capture in found]

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._end()

    def _ask(self, request: bytes) -> bytes:
        """Return one line of JSON; nothing when the child died of the question."""
        for _ in range(2):  # a child that died of anything else is replaced once
            try:
                process = self._process = self._process or _start()
                assert process.stdin and process.stdout
                rest = memoryview(request)
                while rest:
                    rest = rest[process.stdin.write(rest) :]
                answer = _line(process.stdout)
            except OSError:
                self._end()
                continue
            except BaseException:
                # Interrupted: the answer to this would be taken for that to the next.
                self._end()
                raise
            if answer or self._end() not in _FROM_OUTSIDE:
                return answer
        return b""

    def _end(self) -> int:
        """End the child; return its exit code, or a signal as a negative number."""
        process = self._process
        if process is None:
            return 0
        process.kill()
        with process:  # closes the pipes and waits
            self._process = None
        return process.returncode

    def _forget(self) -> None:
        """Let go of the child after a fork: it and its pipes belong to the parent."""
        process = self._process
        if process and process.stdin and process.stdout:
            process.stdin.close()
            process.stdout.close()
            process.returncode = 0  # not ours to wait for
        self._process = None
        self._lock = Lock()


def _start() -> subprocess.Popen[bytes]:
    """Start a child with the packages of this process alone: no site, environment or current folder.

    Its own process group, so that Ctrl-C is for this process to answer. Pipes without a buffer, so
    that a fork never writes a second time what the parent began to write.
    """
    command = [sys.executable, "-I", "-S", _PROGRAM, str(PATIENCE), *_packages()]
    return subprocess.Popen(
        command,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )


def _packages() -> list[str]:
    """Return the folders of packages; the current folder only if no other has them."""
    try:
        here = os.getcwd()
    except OSError:  # it was removed
        here = ""
    places = [place for place in sys.path if os.path.isabs(place)]
    others = [place for place in places if place != here]
    return others if PathFinder.find_spec("tree_sitter", others) else places


def _line(pipe: IO[bytes]) -> bytes:
    """Read up to the end of a line; nothing when the pipe ends before."""
    portions: list[bytes] = []
    while portion := pipe.read(_PORTION):
        portions.append(portion)
        if portion.endswith(b"\n"):
            return b"".join(portions)
    return b""


CHILD = Child()
atexit.register(CHILD.close)
