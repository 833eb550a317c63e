"""Hostile texts end: each is read in a child process that must come to an end."""

import json
import subprocess
import sys

import pytest

HOSTILE = [
    ("a*" * 60 + "b", "a" * 4000),
    ("?*" * 300 + "z", "a" * 4000),
    ("[ab]*" * 300 + "c", "ab" * 2000),
    ("**/a/" * 40 + "b", "a/" * 2000 + "c"),
    ("**/" + "*/" * 50 + "x", "a/" * 2000 + "y"),
    ("x/" + "**/*a*a*b/" * 20 + "z", "x/" + "aaaaaaaaaaaaaaaa/" * 200 + "y"),
    ("*a" * 40 + "/" + "*b" * 40, "a" * 2000 + "/" + "b" * 2000 + "c"),
    ("**\\/a" * 50 + "z", "a/" * 2000 + "a"),
    ("/**" * 500 + "/b", "a/" * 2000 + "c"),
    ("*" * 5000 + "b", "a" * 4000),
    ("[[:" * 300_000 + "]", "a"),
]


MATCH = """
import json, sys
from tamis.gitignore.patterns import parse_line, regex_of
line, path = json.load(sys.stdin)
regex = regex_of(parse_line(line).glob)
print(bool(regex and regex.fullmatch(path)))
"""
NEVER_ENDS = 600  # seconds; each takes milliseconds, and a naive way takes years


@pytest.mark.parametrize(
    ("line", "path"), HOSTILE, ids=[line[:12] for line, _ in HOSTILE]
)
def test_matching_a_hostile_pattern_ends(line, path):
    """Plain regular expressions take years for the first of these."""
    matched = subprocess.run(
        [sys.executable, "-c", MATCH],
        input=json.dumps([line, path]),
        capture_output=True,
        text=True,
        timeout=NEVER_ENDS,
        check=True,
    )
    assert matched.stdout == "False\n"


@pytest.mark.parametrize(
    "nested",
    [
        pytest.param(
            "---\na: {}\n---\n".format("[" * 31_000 + "]" * 31_000), id="lists in YAML"
        ),
        pytest.param(
            "---\na: {}\n---\n".format("[" * 60_000), id="lists in YAML, unclosed"
        ),
        pytest.param(
            "---\na: {}\n---\n".format("{a: " * 10_000 + "}" * 10_000),
            id="tables in YAML",
        ),
        pytest.param("---\n{} x\n---\n".format("- " * 30_000), id="dashes"),
        pytest.param("---\n{} x\n---\n".format("? " * 30_000), id="question marks"),
        pytest.param(
            "---\nb: &x 1\nc: *x\na: {}\n---\n".format("[" * 30_000), id="with an alias"
        ),
        pytest.param("---\na: {}\n---\n".format("&a" * 30_000), id="anchors"),
        pytest.param(
            "+++\na = {}\n+++\n".format("[" * 31_000 + "]" * 31_000), id="lists in TOML"
        ),
        pytest.param("+++\na = {}\n+++\n".format("{a=" * 20_000), id="tables in TOML"),
        pytest.param(
            "---\ntitle: 0x{}\n---\n".format("f" * 60_000),
            id="a number too long to print",
        ),
        pytest.param(
            "+++\ntitle = 0x{}\n+++\n".format("f" * 60_000), id="the same in TOML"
        ),
        pytest.param(
            "---\ntitle: {}\n---\n".format("9" * 60_000), id="a long decimal number"
        ),
        pytest.param(
            "---\n0x{}: x\n---\n".format("f" * 60_000), id="a number as a key"
        ),
    ],
)
def test_blocks_that_once_ended_the_process(nested):
    """In a process of its own: a parser that runs out of stack takes everything down with it."""
    script = (
        "import sys; from tamis.ingest.documents.frontmatter import front_matter\n"
        "found, start, warning = front_matter(sys.stdin.read())\n"
        "assert found.title == ''\n"
        "print(start > 0 or 'not understood' in warning or warning == '')"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        input=nested,
        capture_output=True,
        text=True,
        timeout=NEVER_ENDS,
        check=False,
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, "True"), ran.stderr
