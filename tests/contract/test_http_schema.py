"""The API is what its OpenAPI document says: requests made from it, by somebody else's tool."""

import pytest

from support.corpora import load_benchmark


@pytest.mark.slow
def test_no_answer_is_a_fault_or_undocumented(tmp_path):
    """benchmarks/http_fuzz.py does thousands."""
    made = load_benchmark("http_fuzz")
    with made.serving(tmp_path) as address:
        statuses = made.fuzz(address, 100)
    assert statuses[200] and statuses[400]
    assert sum(statuses.values()) > 90
