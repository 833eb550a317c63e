"""Several servers over one index, as several clients start them; at length in benchmarks/mcp_together.py."""

from support.corpora import load_benchmark


def test_servers_share_an_index_while_files_change_and_one_is_killed(tmp_path):
    """No error, no word of a lock, and no answer that is older than it says."""
    root = (tmp_path / "root").resolve()
    root.mkdir()
    counts = load_benchmark("mcp_together").together(
        root, servers=3, calls=40, files=60, model="hashing"
    )
    assert counts["calls"] == 40 + 40 + 20
    assert counts["killed servers"] == 1
    assert counts["complete"] > 0
    assert not [what for what in counts if what[:4].isupper()], counts


def test_what_is_older_than_it_says_would_be_noticed(tmp_path):
    """The measure can fail: version 0 is an answer of before version 1, and too old for any time after it."""
    benchmark = load_benchmark("mcp_together")
    writer = benchmark.Writer(tmp_path, 1, 0)
    writer.written[0] = [100.0, 200.0]
    assert writer.age(0, 0, "1970-01-01T00:03:19Z") is None
    assert writer.age(0, 0, "1970-01-01T00:03:25Z") == 5.0
    assert writer.age(0, 1, "1970-01-01T00:03:25Z") is None
