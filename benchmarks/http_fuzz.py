"""Requests made from the API's OpenAPI document, good and bad: no answer is a 500, none is undocumented.

    python benchmarks/http_fuzz.py --cases 5000

The suite runs a few hundred of them (tests/contract/test_http_schema.py).
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tamis.server.schema import PREFIX

CHECKS: Final = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)
ENDLESS: Final = "/events"
FILES: Final = {
    "README.md": "# Shop\n\nIt sells grass. See [refunds](docs/refunds.md) and [[notes]].\n",
    "docs/refunds.md": "---\ntags: [money]\nauthor: Ann\n---\n# Refunds\n\nThree days. <b>bold</b>\n",
    "notes.md": "# Notes\n\n- a\n- b\n",
    "src/refund.py": 'def refund_order(order):\n    """Back."""\n    return order\n',
}


@contextmanager
def serving(root: Path) -> Iterator[str]:
    """A server over a few files, indexed with the hashing embedder; gives its address."""
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "tamis",
        "serve",
        str(root),
        "--model",
        "hashing",
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, encoding="utf-8") as server:
        assert server.stderr
        try:
            while not (
                said := re.search(
                    r"listening on (\S+)/$", server.stderr.readline().rstrip("\n")
                )
            ):
                assert server.poll() is None, "the server has ended"
            yield said[1]
        finally:
            server.terminate()


def fuzz(address: str, cases: int, *, seed: int = 0) -> Counter[int]:
    """How often each status was answered; the first answer that should not be is raised."""
    statuses: Counter[int] = Counter()
    with requests.Session() as session:
        document = session.get(f"{address}{PREFIX}/openapi.json").json()
        schema = schemathesis.openapi.from_dict(document)
        found = [
            each.ok()
            for each in schema.get_all_operations()
            if not each.ok().path.endswith(ENDLESS)
        ]
        ask = partial(_ask, session, address, statuses)
        while (
            statuses.total() < cases
        ):  # some operations have few cases: the others make up for them
            count = max(2, (cases - statuses.total()) // (2 * len(found)))
            for operation in found:
                for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
                    _run(operation, mode, ask, count, seed)
            seed += 1
    return statuses


def _ask(
    session: requests.Session, address: str, statuses: Counter[int], case: Any
) -> None:
    response = case.call(session=session, base_url=address)
    statuses[response.status_code] += 1
    case.validate_response(response, checks=CHECKS)


def _run(
    operation: Any,
    mode: GenerationMode,
    ask: Callable[[Any], None],
    most: int,
    seed: int,
) -> None:
    how = settings(
        max_examples=most,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    cases = operation.as_strategy(generation_mode=mode)
    # Where nothing is taken, nothing wrong can be made.
    with suppress(Unsatisfiable):
        seeded(seed)(how(given(case=cases)(lambda case: ask(case))))()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="tamis-fuzz-") as folder,
        serving(Path(folder)) as address,
    ):
        statuses = fuzz(address, options.cases, seed=options.seed)
    counts = ", ".join(
        f"{count} x {status}" for status, count in sorted(statuses.items())
    )
    print(
        f"{sum(statuses.values())} cases in {time.monotonic() - began:.0f} s: {counts}"
    )


if __name__ == "__main__":
    main()
