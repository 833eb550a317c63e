"""Judged sets: questions, documents, and grades of the documents that answer each question.

A set is a folder with `queries.jsonl` (`_id`, `text`; a `kind`, `intent` or `category` labels it, a
`filter` narrows it), `qrels.tsv` (question, document, grade) and `corpus.jsonl`, packed or not
(`_id`, `title`, `text`, perhaps `path`). The corpus may also lie in the folder above (several sets of
questions over one corpus), be the folder `documents/`, or be a tree named by the caller; in a tree a
document's id is its path. A set may be named by its file of questions.

Sets are not trusted: ids and paths become file names below the working folder and nowhere else. A
wrong line is an error that names file and line. Judgements of missing documents, and questions that
are left without any, are dropped and counted.
"""

import gzip
import hashlib
import json
import os
import re
import shutil
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from tamis.errors import BadJudgedSet, storage_faults

_QUERIES = "queries.jsonl"
_JUDGEMENTS = "qrels.tsv"
_PACKED = ("corpus.jsonl", "corpus.jsonl.gz")
_TREE = "documents"
_LAYOUT = 1  # raised when documents become other files: old folders are not used
_LABELS = ("kind", "intent", "category", "type")
_GRADE = re.compile(r"[+-]?[0-9]{1,7}")
_LARGEST_GRADE = 1_000_000
_LONGEST_NAME = 255  # bytes of a part of a path, as file systems have it
_LONGEST_OWN_NAME = 80  # characters of a name that we make ourselves
# Bytes; systems allow 4096, with the working folder's own path.
_LONGEST_PATH = 1_000
_RESERVED = frozenset({"", ".", "..", ".git", ".svn", ".hg", ".jj", ".bzr", ".tamis"})

_hasher = partial(hashlib.blake2b, digest_size=8)

Names = Mapping[str, str]
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the grades of the documents that were judged for it."""

    id: str
    text: str
    grades: Mapping[str, int]
    label: str = ""  # the set's own name for this kind of question
    filter: str = ""


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """The questions that can be measured, their documents, and what had to be left out."""

    name: str
    root: Path  # the documents as files
    ids: Names  # from path to id; in a tree the path is the id
    questions: tuple[Asked, ...]
    unjudged: int = 0  # questions without a relevant document
    orphaned: int = 0  # questions whose relevant documents are missing
    missing: int = 0  # judgements of missing documents


def open_judged(
    given: Path,
    work: Path,
    tree: Path | None = None,
    most: int = 0,
) -> tuple[JudgedSet, Path]:
    """Read a set, and write its corpus into the working folder unless it is there already.

    The second value is the folder for everything made from this corpus. `tree` is the corpus of a
    set that has none; of more than `most` questions (0: all) a spread is taken.
    """
    queries, name = _find(given)
    folder = queries.parent
    packed = None  # the last one found: a corpus of the set's own counts more
    for above in (folder.parent, folder):
        for file in reversed(_PACKED):
            if (above / file).is_file():
                packed = above / file
    names: dict[str, str] | None = None
    if packed is None:
        root = tree or folder / _TREE
        if not root.is_dir():
            what = f"{tree} is not a folder" if tree else f"{folder} has no corpus"
            hint = "--corpus names the folder that the judged paths are in"
            raise BadJudgedSet(what, hint=hint)
        root = root.resolve()
        place = work / f"{_cleaned(root.name)}-{_digest(os.fsencode(root))}"
    else:
        corpus = packed.parent.name
        if packed.parent != folder:
            name = f"{corpus}/{name}"
        with packed.open("rb") as content:
            digest = hashlib.file_digest(content, _hasher).hexdigest()
        place = work / f"{_cleaned(corpus)}-{digest}"
        documents = []
        for _, key, record in _records(packed, "document"):
            path = record.get("path")
            if not isinstance(path, str):
                path = ""
            documents.append((key, path))
        names = file_names(documents)
        root = _written(packed, place / f"files-{_LAYOUT}", names)
    return _judged(
        queries,
        name,
        root,
        names,
        most,
    ), place


def _find(given: Path) -> tuple[Path, str]:
    """Return the file of questions and the name of a set."""
    given = Path(os.path.abspath(given))
    if not given.exists():
        raise BadJudgedSet(
            f"there is no judged set {given}",
            hint="give a folder with questions and judgements",
        )
    queries = given / _QUERIES if given.is_dir() else given
    folder = queries.parent
    for needed in (queries, folder / _JUDGEMENTS):
        if not needed.is_file():
            raise BadJudgedSet(
                f"{folder} has no {needed.name}",
                hint=f"a judged set has {_QUERIES}, {_JUDGEMENTS} and a corpus",
            )
    if queries.name == _QUERIES:
        return queries, folder.name
    return queries, f"{folder.name}/{queries.stem}"


# --- questions and judgements ---------------------------------------------------------------


def _judged(
    queries: Path,
    name: str,
    root: Path,
    names: Names | None,
    most: int,
) -> JudgedSet:
    """Return the questions that have a relevant document, and counts of the others."""
    judgements = _judgements(queries.with_name(_JUDGEMENTS))
    kept: list[Asked] = []
    unjudged = 0
    orphaned = 0
    missing = 0
    for line, key, record in _records(queries, "question"):
        text = _text(
            record,
            "text",
            queries,
            line,
        )
        grades = judgements.get(key, {})
        there = {}
        for document, grade in grades.items():
            if names is None:
                is_there = _is_safe(document) and (root / document).is_file()
            else:
                is_there = document in names
            if is_there:
                there[document] = grade
        missing += len(grades) - len(there)
        if max(there.values(), default=0) > 0:
            labels = filter(None, map(record.get, _LABELS))
            label = str(next(labels, ""))
            narrowed = str(record.get("filter") or "")
            kept.append(
                Asked(
                    key,
                    text,
                    there,
                    label,
                    narrowed,
                )
            )
        elif max(grades.values(), default=0) > 0:
            orphaned += 1
        else:
            unjudged += 1
    if 0 < most < len(kept):
        # From all over the set: sets are often sorted by topic.
        kept = [kept[at * len(kept) // most] for at in range(most)]
    ids = {path: key for key, path in (names or {}).items()}
    return JudgedSet(
        name,
        root,
        ids,
        tuple(kept),
        unjudged,
        orphaned,
        missing,
    )


def _judgements(file: Path) -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = {}
    for line, text in _lines(file):
        parts = text.split("\t")
        is_judgement = (
            len(parts) == 3
            and _GRADE.fullmatch(parts[2])
            and abs(int(parts[2])) <= _LARGEST_GRADE
        )
        if not is_judgement:
            if line == 1 and len(parts) == 3:
                continue  # the heading
            hint = "a line has question, document and grade (a whole number), separated by tabs"
            raise _bad_line(
                file,
                line,
                "this is no judgement",
                hint,
            )
        question, document, grade = parts
        grades = judged.setdefault(question, {})
        before = grades.setdefault(document, int(grade))
        if before != int(grade):
            what = f"{document!r} was judged {before} for {question!r} before"
            hint = "give each document of a question one grade"
            raise _bad_line(
                file,
                line,
                what,
                hint,
            )
    return judged


# --- documents as files ---------------------------------------------------------------------


def file_names(documents: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the file that each document becomes, by its id; given ids with a path or "".

    A path is kept if it is safe and no other document has it; else the file is named after the id.
    Names that differ in case alone count as one: some file systems take them for one.
    """
    paths = [(key, path) for key, path in documents if _is_safe(path)]
    shared = Counter(path for _, path in paths)
    taken = set()
    for _, path in paths:
        for above in PurePosixPath(path).parents:
            taken.add(str(above).casefold())
    names: dict[str, str] = {}
    for key, path in paths:
        if shared[path] == 1 and path.casefold() not in taken:
            names[key] = path
            taken.add(path.casefold())
    for key, _ in documents:
        if key in names:
            continue
        name = f"{key}.md"
        if _cleaned(name) != name or name.casefold() in taken:
            digest = _digest(key.encode("utf-8", "replace"))
            name = f"{_cleaned(key)}-{digest}.md"
        while name.casefold() in taken:  # somebody has guessed it
            name = f"_{name}"
        names[key] = name
        taken.add(name.casefold())
    return names


def _is_safe(path: str) -> bool:
    """Return True if a path names a file below its folder, on any system we run on."""
    if not path.isprintable() or "\\" in path:
        return False
    if len(os.fsencode(path)) > _LONGEST_PATH:
        return False
    return all(
        part.casefold() not in _RESERVED and len(part.encode()) <= _LONGEST_NAME
        for part in path.split("/")
    )


def _cleaned(name: str) -> str:
    """Return a short name of letters, digits, dots and dashes, never hidden and never empty."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)
    return plain[:_LONGEST_OWN_NAME].lstrip(".-") or "document"


def _digest(content: bytes) -> str:
    return _hasher(content).hexdigest()


def _written(
    packed: Path,
    target: Path,
    names: Names,
) -> Path:
    """Write the corpus as files. The folder gets its name when it is whole."""
    if target.is_dir():
        return target
    with storage_faults(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=target.parent))
        try:
            for _, key, record in _records(packed, "document"):
                file = unfinished / names[key]
                file.parent.mkdir(parents=True, exist_ok=True)
                text = str(record.get("text") or "")
                title = " ".join(str(record.get("title") or "").split())
                # A file with a path of its own has no title but the one in its text.
                if title and names[key] != record.get("path"):
                    text = f"# {title}\n\n{text}"
                file.write_bytes(text.encode("utf-8", "replace"))
            unfinished.rename(target)
        except OSError:
            # Another process may have been first, with the same files.
            if not target.is_dir():
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return target


# --- lines ----------------------------------------------------------------------------------


def _records(file: Path, kind: str) -> Iterator[tuple[int, str, Record]]:
    """Yield line, id and record of each line of JSON; ids must differ."""
    seen: set[str] = set()
    hint = "each line is one JSON object"
    for line, text in _lines(file):
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _bad_line(
                file,
                line,
                f"not JSON: {error}",
                hint,
            ) from error
        if not isinstance(record, dict):
            raise _bad_line(
                file,
                line,
                "not a JSON object",
                hint,
            )
        key = _text(
            record,
            "_id",
            file,
            line,
        )
        if key in seen:
            what = f"the {kind} {key!r} is there twice"
            raise _bad_line(
                file,
                line,
                what,
                "give each an _id of its own",
            )
        seen.add(key)
        yield line, key, record


def _text(
    record: Record,
    key: str,
    file: Path,
    line: int,
) -> str:
    value = record.get(key)
    if type(value) is int:
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        hint = f'write it as text: {{"{key}": "..."}}'
        raise _bad_line(
            file,
            line,
            f"{key} is missing or empty",
            hint,
        )
    return value


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not empty, with their numbers."""
    line = 0
    read = gzip.open if file.suffix == ".gz" else open
    try:
        with read(
            file,
            "rt",
            encoding="utf-8",
            newline="\n",
        ) as content:
            for line, text in enumerate(content, start=1):
                if text.strip():
                    yield line, text.rstrip("\r\n")
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        what = f"it cannot be read: {error}"
        raise _bad_line(
            file,
            line + 1,
            what,
            "it must be whole, in UTF-8",
        ) from error
    except OSError as error:
        raise BadJudgedSet(
            f"cannot read {file}: {error.strerror}", hint="check its permissions"
        ) from error


def _bad_line(
    file: Path,
    line: int,
    what: str,
    hint: str,
) -> BadJudgedSet:
    return BadJudgedSet(f"{file}, line {line}: {what}", hint=hint)
