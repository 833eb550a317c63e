"""Small corpora on disk, opened with the deterministic embedder, and scripts loaded as modules."""

import gzip
import importlib.util
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tamis.configuration import load
from tamis.corpus import Corpus, index_directory
from tamis.index.protocol import Index
from tamis.settings import KEYS, Settings

Files = Mapping[str, str | bytes]
SHARED = Path(__file__).resolve().parents[3] / "shared"

# Scores that can be worked out on paper: the sum of weight / (k + rank), and nothing after it.
RANKS_ALONE = {
    "weights__score_trust": False,
    "weights__adaptive_trust": False,
    "weights__keyword_trust": 1,
    "weights__code_trust": 1,
    "weights__inner_trust": 1,
    "weights__coherence": 0,
    "weights__saturation": 1,
}


# What travels with the settings and cannot be configured: tests take smaller ones.
CONSTANTS = {
    f"{section.name}.{each.name}"
    for section in fields(Settings)
    if section.name not in ("workspaces", "weights")
    for each in fields(getattr(Settings(), section.name))
} - KEYS.keys()


def load_benchmark(name: str) -> ModuleType:
    return load_script(f"benchmarks/{name}.py")


def load_script(path: str) -> ModuleType:
    """A script of this project as a module, without its folder on the path: names there are plain words."""
    file = Path(__file__).resolve().parents[2] / path
    spec = importlib.util.spec_from_file_location(
        path.removesuffix(".py").replace("/", "_"), file
    )
    assert spec and spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_files(root: Path, files: Files) -> Path:
    for name, content in files.items():
        target = root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def write_judged(
    folder: Path,
    documents: Sequence[Mapping[str, object]] | None,
    questions: Sequence[Mapping[str, object]],
    judgements: Sequence[tuple[str, str, int]],
    *,
    packed: bool = False,
) -> Path:
    """A judged set as a folder; without documents, one that comes without its corpus."""
    lines = [
        "query-id\tcorpus-id\tscore",
        *("\t".join(map(str, each)) for each in judgements),
    ]
    write_files(
        folder,
        {
            "queries.jsonl": as_lines(questions),
            "qrels.tsv": "".join(f"{each}\n" for each in lines),
        },
    )
    if documents is not None and packed:
        write_files(
            folder, {"corpus.jsonl.gz": gzip.compress(as_lines(documents).encode())}
        )
    elif documents is not None:
        write_files(folder, {"corpus.jsonl": as_lines(documents)})
    return folder


def as_lines(records: Sequence[object]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def test_settings(root: Path, **flags: Any) -> Settings:
    """Settings that depend on nothing but the arguments; the hashing embedder unless said otherwise.

    Near texts are kept: the texts of most tests differ in a word or two, and that is their point.
    """
    given = {name.replace("__", "."): value for name, value in flags.items()}
    usual = {"model.name": "hashing", "search.ngram_dedup_enabled": False}
    of_fields = {name for name in given if name.startswith("fields.")}
    if of_fields:
        given["weights.fields"] = {
            name.removeprefix("fields."): given.pop(name) for name in of_fields
        }
    constants = {name: given.pop(name) for name in CONSTANTS & given.keys()}
    settings = load(root, usual | given, environment={"HOME": "/nonexistent"})
    for name, value in constants.items():
        section, _, key = name.partition(".")
        changed = replace(getattr(settings, section), **{key: value})
        settings = replace(settings, **{section: changed})
    return settings


test_settings.__test__ = False  # type: ignore[attr-defined]


def open_corpus(root: Path, *, index: Index | None = None, **flags: Any) -> Corpus:
    """An indexed corpus over a folder."""
    settings = test_settings(root, **flags)
    corpus = Corpus(
        root.resolve(),
        index_directory(root.resolve(), settings, None),
        settings,
        index=index,
    )
    corpus.refresh()
    return corpus


def open_in_steps(
    root: Path, files: Files, *, index: Index | None = None, **flags: Any
) -> Corpus:
    """The same corpus by a longer way: in portions, with files that change and files that come and go.

    Its index has several segments with dead rows in them, and it answers like any other.
    """
    settings = test_settings(root, **flags)
    corpus = Corpus(
        root.resolve(),
        index_directory(root.resolve(), settings, None),
        settings,
        index=index,
    )
    names = sorted(files, reverse=True)
    for step in range(3):
        early = dict.fromkeys(names[step + 1 :: 9], "soon to be something else alpha")
        write_files(
            root,
            early
            | {name: files[name] for name in names[: len(names) * (step + 1) // 3]},
        )
        write_files(root, {f"gone-{step}.md": "# Gone\n\nalpha beta\n"})
        with words_first() if step else nullcontext():
            corpus.refresh()
    for step in range(3):
        (root / f"gone-{step}.md").unlink()
    write_files(root, files)
    corpus.refresh()
    return corpus


@contextmanager
def words_first() -> Iterator[None]:
    """Index as a large folder is: words in a first step, vectors in a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tamis.index.build.AT_ONCE", -1)
        yield
