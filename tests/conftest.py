"""Options and fixtures of all tests; helpers are in tests/support."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from support.corpora import Files, open_corpus, write_files
from tamis import configuration
from tamis.corpus import Corpus
from tamis.settings import Settings

# A busy machine is no fault of an example.
settings.register_profile(
    "tamis", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tamis")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Here and not in golden/: a second module called conftest would hide this one from its importers."""
    parser.addoption(
        "--update", action="store_true", help="write the golden rankings anew"
    )


def pytest_configure() -> None:
    """A shell has what it starts in the background ignore Ctrl-C, and so would every child of ours."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def corpus_of(tmp_path: Path) -> Callable[..., Corpus]:
    """Write files below a fresh root and index them: `corpus_of({"a.md": "# A"}, search__limit=3)`."""
    opened: list[Corpus] = []

    def make(files: Files, **flags: object) -> Corpus:
        root = write_files(tmp_path / f"root{len(opened)}", files)
        root.mkdir(exist_ok=True)
        opened.append(open_corpus(root, **flags))
        return opened[-1]

    yield make
    for corpus in opened:
        corpus.close()


@pytest.fixture
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in this process do not wait for another writer."""
    load = configuration.load

    def impatient(*arguments: Any, **named: Any) -> Settings:
        settings = load(*arguments, **named)
        return replace(settings, index=replace(settings.index, lock_timeout=0))

    monkeypatch.setattr(configuration, "load", impatient)


# The unit test that runs in this thread, if one does.
_unit = threading.local()


def _refuse(event: str, _: object) -> None:
    if event in ("subprocess.Popen", "sqlite3.connect"):
        name = getattr(_unit, "name", "")
        assert not name, f"{name}: {event} in a unit test; move it to tests/contract"


sys.addaudithook(_refuse)


@pytest.fixture(autouse=True)
def unit_tests_are_units(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests in tests/unit open no index and start no process."""
    if request.path.parent.name == "unit":
        _unit.name = request.node.name
    yield
    _unit.name = ""


@pytest.fixture(autouse=True)
def no_outside_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The user's own configuration must not reach the tests."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    ours = ("TAMIS_INDEX_DIR", "TAMIS_TEST_QDRANT_URL", "TAMIS_ENGINE_API_KEY")
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", *ours):
        monkeypatch.delenv(name, raising=False)
