"""What commands print on standard output: lines, or JSON."""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import click


def print_json(value: Any) -> None:
    from tamis.doors.plain import escaped

    click.echo(escaped(json.dumps(value, ensure_ascii=not _speaks_utf8(), indent=2)))


def _speaks_utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"


def print_lines(lines: Iterator[str]) -> None:
    wanted = colour()
    for line in lines:
        click.echo(line, color=wanted)


def colour() -> bool | None:
    """NO_COLOR is a promise to people who cannot use colours; click drops them by itself on a pipe."""
    return False if os.environ.get("NO_COLOR") else None
