"""A minute of benchmarks/soak.py: mostly waiting, with one watcher killed and four readers asking."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).resolve().parents[2] / "benchmarks" / "soak.py"


@pytest.mark.slow
def test_a_minute_of_work_with_a_watcher_that_is_killed(tmp_path):
    """No error, and in the end what a rebuild says."""
    command = [
        sys.executable,
        str(SOAK),
        "--minutes",
        "0.6",
        "--files",
        "40",
        "--edits",
        "2",
        "--json",
    ]
    kept = {
        name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ
    }
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=kept | {"HOME": str(tmp_path)},
        timeout=600,
    )
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert done.returncode == 0, told
    assert (
        told["errors"],
        told["differences_to_rebuild"],
        told["answers_that_differ"],
    ) == (0, 0, 0)
    assert told["doctor"] == "healthy"
    assert told["restarts"] == 1
    assert told["endings"] == {"SIGKILL: -9": 1, "SIGTERM: 0": 1}
    assert min(told["generations_seen"]) > 1, "every reader saw the index move"
