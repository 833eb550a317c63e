"""The watcher inside `tamis mcp`: who watches, who follows, what is said, how it ends."""

import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from test_mcp_processes import (
    PATIENCE,
    READY,
    listen,
    none_left,
    query,
    request,
    say,
    start,
)

from support.corpora import test_settings, write_files
from support.served import FILES, HELLO, answer, state_of
from tamis.corpus import Corpus
from tamis.errors import StorageFault
from tamis.index.embedded.folder import holder

__all__ = ["none_left"]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write_files(tmp_path / "shop", FILES).resolve()


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def found(root: Path, question: str) -> list[str]:
    """What the index holds, by its words: asked without a look at the files, or at the root's settings."""
    with Corpus(root, root / ".tamis", test_settings(root / "docs")) as corpus:
        results = corpus.search(question, limit=50).results
    return [
        result.path
        for result in results
        if any(each.lane == "words" for each in result.evidence)
    ]


def asked(root: Path) -> subprocess.Popen[bytes]:
    """A server that has answered a question."""
    server = start("--root", root, "--model", "hashing")
    say(server, HELLO, READY, query(2))
    listen(server, 2)
    return server


def paths(server: subprocess.Popen[bytes], number: int, text: str) -> list[str]:
    say(server, query(number, text))
    results = listen(server, number)[-1]["result"]["structuredContent"]["results"]
    return [result["path"] for result in results]


def watcher(root: Path) -> str:
    return holder(root / ".tamis", "watch.lock")


def end(server: subprocess.Popen[bytes]) -> str:
    server.stdin.close()
    assert server.wait(PATIENCE) == 0
    return server.stderr.read().decode()


def test_changes_are_indexed_without_a_question(shop):
    server = start("--root", shop, "--model", "hashing")
    say(server, HELLO, READY, request(2, "tools/list"), request(3, "resources/list"))
    listen(server, 3)
    assert not (shop / ".tamis").exists(), (
        "nothing is opened, let alone watched, before the first question"
    )
    assert paths(server, 4, "refund")
    wait_until(lambda: watcher(shop) == f"process {server.pid}")
    write_files(shop, {"docs/new.md": "# New\n\nzebra\n"})
    wait_until(lambda: found(shop, "zebra") == ["docs/new.md"])
    assert paths(server, 5, "zebra")[0] == "docs/new.md"
    handles = (
        len(os.listdir(f"/proc/{server.pid}/fd"))
        if Path("/proc/self/fd").exists()
        else None
    )
    write_files(
        shop,
        {
            "tamis.toml": FILES["tamis.toml"]
            + '[archive]\nindex = false\npatterns = ["docs/new.md"]\n'
        },
    )
    wait_until(lambda: found(shop, "zebra") == [])
    write_files(shop, {"tamis.toml": "[serch]\n", "docs/other.md": "yak"})
    wait_until(lambda: found(shop, "yak") == ["docs/other.md"])
    for number in range(6, 30):
        paths(server, number, "grass")
    if handles is not None:
        assert len(os.listdir(f"/proc/{server.pid}/fd")) <= handles + 4
    said = end(server)
    assert said.count("unknown setting serch") == 1, (
        "it says so, and goes on with the settings it had"
    )


def test_one_server_watches_and_another_takes_over(shop):
    first = asked(shop)
    wait_until(lambda: watcher(shop) == f"process {first.pid}")
    second = asked(shop)
    write_files(shop, {"docs/one.md": "zebra"})
    wait_until(lambda: found(shop, "zebra") == ["docs/one.md"])
    assert watcher(shop) == f"process {first.pid}"
    assert paths(second, 3, "zebra")[0] == "docs/one.md", (
        "whoever follows sees what the other writes"
    )
    first.send_signal(signal.SIGKILL)
    first.wait(PATIENCE)
    wait_until(lambda: watcher(shop) == f"process {second.pid}")
    write_files(shop, {"docs/two.md": "yak"})
    wait_until(lambda: found(shop, "yak") == ["docs/two.md"])
    assert end(second) == ""


def test_where_the_system_does_not_tell_we_look_and_say_so(
    tmp_path, caplog, monkeypatch
):
    def refuse(*_: object) -> None:
        raise OSError("OS file watch limit reached. about [...]")

    monkeypatch.setattr("watchfiles._rust_notify.RustNotify", refuse)
    caplog.set_level(logging.INFO, "tamis.server")
    state = state_of(tmp_path / "shop", server__watch=True, watch__poll_ms=100)
    try:
        answer(state, query="grass")
        wait_until(lambda: "looking every 0.1 s instead" in caplog.text)
        write_files(tmp_path / "shop", {"docs/new.md": "zebra"})
        wait_until(
            lambda: found((tmp_path / "shop").resolve(), "zebra") == ["docs/new.md"]
        )
    finally:
        state.close()
    polling = [each for each in caplog.records if "instead" in each.getMessage()]
    assert [each.levelno for each in polling] == [logging.WARNING]


def test_a_fault_in_the_background_is_said_once(tmp_path, caplog, monkeypatch):
    state = state_of(tmp_path / "shop", server__watch=True)
    tries = []

    def fail(*_: object, **__: object) -> None:
        tries.append(1)
        raise StorageFault("the disk is full", hint="free some")

    monkeypatch.setattr("tamis.live.watcher.RETRY", 0.05)
    monkeypatch.setattr("tamis.index.build.build", fail)
    write_files(tmp_path / "shop", {"docs/new.md": "zebra"})
    try:
        assert "the disk is full" in answer(state, query="grass")["freshness"]["note"]
        wait_until(lambda: len(tries) > 3)
    finally:
        state.close()
    assert [each.getMessage() for each in caplog.records] == [
        "shop: the disk is full (free some)"
    ]
