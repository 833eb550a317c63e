"""The cluster engine: the same pipeline on a Qdrant server (docs/cluster.md).

What a reader sees, and how a run is committed, is in `writer.py`; how a question is asked, in `reader.py`;
how a filter becomes one that the server knows, in `native.py`. Only `client.py` knows the library.
"""
