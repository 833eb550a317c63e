"""Failpoints: each is in the source and in the list, and none does anything by itself."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tamis.failpoints import POINTS, arm, reached

SOURCE = Path(__file__).resolve().parents[2] / "src" / "tamis"


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm(None)


def called() -> Iterator[str]:
    """What `reached` is called with, in all of the source."""
    for file in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "reached"
            ):
                (argument,) = node.args
                assert isinstance(argument, ast.Constant), (
                    f"{file}: a point is named where it is"
                )
                yield argument.value


def test_the_list_and_the_source_have_the_same_points():
    """That each is reached by some run is shown in tests/contract/test_crash.py."""
    assert set(called()) == set(POINTS)
    assert len(set(POINTS)) == len(POINTS)


def test_nothing_arms_them_but_a_harness():
    """No setting, no variable, no command: what could crash a user's process is not there."""
    for file in SOURCE.rglob("*.py"):
        if file.name != "failpoints.py":
            assert not re.search(r"\barm\(", file.read_text("utf-8")), file


def test_they_do_nothing_until_armed_and_again_afterwards():
    heard: list[str] = []
    reached("commit.before")
    arm(heard.append)
    reached("commit.before")
    reached("commit.after")
    arm(None)
    reached("commit.after")
    assert heard == ["commit.before", "commit.after"]
