"""The protocol's conformance suite, against `tamis mcp` and against a server with the suite's own tools."""

import sys
from pathlib import Path

import pytest

from support.installed import HERE, indexed, mcp, run, serving
from support.outcomes import (
    REVISIONS,
    Expected,
    Found,
    expected,
    read_results,
    surprises,
)

SERVERS = ("tamis", "fixture")


@pytest.mark.slow
def test_the_suite_finds_what_we_say_it_finds_in_tamis(tmp_path):
    root = indexed(
        tmp_path / "root",
        {"a.md": "# Alpha\n\nThe first letter.\n", "b.py": "def beta(): ...\n"},
    )
    with serving(*mcp(root), "--http", "127.0.0.1:0") as address:
        for revision in REVISIONS:
            found, _ = conformance(address, revision, tmp_path / revision)
            assert surprises(found, expected("tamis", revision)) == []


@pytest.mark.slow
def test_the_suite_finds_what_we_say_it_finds_in_its_own_tools(tmp_path):
    with serving(sys.executable, HERE / "fixture_server.py") as address:
        for revision in REVISIONS:
            found, code = conformance(address, revision, tmp_path / revision)
            assert surprises(found, expected("fixture", revision)) == []
            assert code == 0, (
                "the suite itself says that all passes that the revision requires"
            )


def conformance(
    address: str, revision: str, results: Path
) -> tuple[dict[str, Found], int]:
    """What the suite finds of a revision's requirements, and its exit code."""
    how = ("--url", address, "--requirements", revision, "--output-dir", str(results))
    said = run("conformance", "server", *how)
    found = read_results(results)
    assert found, said.stdout + said.stderr
    return found, said.returncode


PASSED = Found({"a": "SUCCESS", "wire-schema-valid": "SUCCESS"})
FAILED = Found(
    {"a": "SUCCESS", "b": "FAILURE", "c": "WARNING"}, {"b": "no b", "c": "no c"}
)
SKIPPED = Found({"a": "SKIPPED", "wire-schema-valid": "SUCCESS"})


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        (PASSED, Expected("passed"), []),
        (FAILED, Expected("failed", "because"), []),
        (FAILED, Expected("failed", "because", frozenset("bc")), []),
        (SKIPPED, Expected("skipped", "because"), []),
        (
            PASSED,
            Expected("failed", "because"),
            ["x: passed, but should have failed: because"],
        ),
        (SKIPPED, Expected("passed"), ["x: skipped, but should have passed: "]),
        (
            FAILED,
            Expected("passed"),
            ["x: failed, but should have passed: ", "  b: no b", "  c: no c"],
        ),
        (FAILED, Expected("failed", "because", frozenset("b")), ["x:c fails: no c"]),
        (FAILED, Expected("failed", "because", frozenset("abc")), ["x:a passes"]),
        (PASSED, None, ["x: passed, and outcomes.yaml does not know it"]),
        (None, Expected("passed"), ["x: expected, but the suite did not run it"]),
        (
            Found(
                {"b": "FAILURE", "wire-schema-valid": "FAILURE"},
                {"wire-schema-valid": "no result"},
            ),
            Expected("failed", "because"),
            ["x: no result"],
        ),
    ],
)
def test_any_difference_is_a_surprise(found, wanted, said):
    assert (
        surprises({"x": found} if found else {}, {"x": wanted} if wanted else {})
        == said
    )


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("server", SERVERS)
def test_what_does_not_pass_has_a_reason(server, revision):
    for scenario, wanted in expected(server, revision).items():
        assert wanted.outcome in ("passed", "failed", "skipped")
        assert (wanted.outcome == "passed") == (not wanted.why), scenario


def test_the_pins_say_nothing_of_a_registry():
    for name in ("package.json", "package-lock.json", ".npmrc"):
        text = (HERE / name).read_text("utf-8")
        assert "resolved" not in text.replace("omit-lockfile-registry-resolved", "")
        assert "registry=" not in text
