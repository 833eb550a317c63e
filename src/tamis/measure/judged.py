"""Judged sets: what is asked, of which documents, and which of them answer it.

A set is a folder with `queries.jsonl` (`_id`, `text`; a `kind`, `intent` or `category` labels it, a
`filter` narrows it), `qrels.tsv` (question, document, grade) and `corpus.jsonl`, packed or not
(`_id`, `title`, `text`, perhaps `path`). The corpus may also lie in the folder above (several sets of
questions over one corpus), be the folder `documents/`, or be a tree named by the caller; in a tree a
document's id is its path. A set may be named by its file of questions.

Whoever wrote the set is not trusted: ids and paths become file names below the working folder and
nowhere else. A line that is not what it should be is an error that names file and line. Judgements of
documents that are not there, and questions that are left without any, are dropped and counted.
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
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from tamis.errors import BadJudgedSet, storage_faults

_QUERIES: Final = "queries.jsonl"
_JUDGEMENTS: Final = "qrels.tsv"
_PACKED: Final = ("corpus.jsonl", "corpus.jsonl.gz")
_TREE: Final = "documents"
_LAYOUT: Final = 1  # raised when documents become other files, so that a kept folder is not taken for new
_LABELS: Final = ("kind", "intent", "category", "type")
_LONGEST_NAME: Final = 255  # bytes of a part of a path, as file systems have it
_LONGEST_OWN_NAME: Final = 80  # characters of a name that we make ourselves
_LONGEST_PATH: Final = (
    1_000  # bytes; systems allow 4096, the working folder's own included
)
_LARGEST_GRADE: Final = 1_000_000
_RESERVED: Final = frozenset(
    {"", ".", "..", ".git", ".svn", ".hg", ".jj", ".bzr", ".tamis"}
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the grades of the documents that were judged for it."""

    id: str
    text: str
    grades: Mapping[str, int]
    label: str = ""  # the set's own word for what kind of question it is
    filter: str = ""


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """The questions that can be measured, where their documents are, and what had to be left out."""

    name: str
    root: Path  # the documents as files
    ids: Mapping[str, str]  # from path to id; in a tree, a path is one
    questions: tuple[Asked, ...]
    unjudged: int = 0  # questions that nobody judged
    orphaned: int = 0  # questions whose relevant documents are not there
    missing: int = 0  # judgements of documents that are not there


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the parts of a set are."""

    name: str
    queries: Path
    judgements: Path
    packed: Path | None  # the corpus, as lines
    tree: Path = Path()  # or as files

    @property
    def corpus_name(self) -> str:
        """A name for what this corpus becomes in a working folder: another corpus has another one."""
        if self.packed is None:
            return f"{_cleaned(self.tree.name)}-{_digest(os.fsencode(self.tree))}"
        with self.packed.open("rb") as content:
            digest = hashlib.file_digest(
                content, lambda: hashlib.blake2b(digest_size=8)
            ).hexdigest()
        return f"{_cleaned(self.packed.parent.name)}-{digest}"


def open_judged(
    given: Path, work: Path, tree: Path | None = None, most: int = 0
) -> tuple[JudgedSet, Path]:
    """Read a set, and write its corpus into the working folder unless it is there from before.

    The second value is the folder that everything made from this corpus belongs in. `tree` stands in
    for a corpus that the set does not have; of more than `most` questions (0: all) a spread is taken.
    """
    source = _find(given, tree)
    names = file_names(_entries(source.packed)) if source.packed else {}
    place = work / source.corpus_name
    root = (
        _written(source.packed, place / f"files-{_LAYOUT}", names)
        if source.packed
        else source.tree
    )
    ids = {path: key for key, path in names.items()}
    judged = JudgedSet(source.name, root, ids, ())
    return _with_questions(judged, source, names, most), place


def _find(given: Path, tree: Path | None) -> _Source:
    given = Path(os.path.abspath(given))
    if not given.exists():
        raise BadJudgedSet(
            f"there is no judged set {given}",
            hint="give a folder with questions and judgements",
        )
    folder, queries = (
        (given, given / _QUERIES) if given.is_dir() else (given.parent, given)
    )
    for needed in (queries, folder / _JUDGEMENTS):
        if not needed.is_file():
            hint = f"a judged set has {_QUERIES}, {_JUDGEMENTS} and a corpus"
            raise BadJudgedSet(f"{folder} has no {needed.name}", hint=hint)
    name = folder.name if queries.name == _QUERIES else f"{folder.name}/{queries.stem}"
    if packed := _packed(folder):
        above = "" if packed.parent == folder else f"{packed.parent.name}/"
        return _Source(above + name, queries, folder / _JUDGEMENTS, packed)
    found = tree or folder / _TREE
    if not found.is_dir():
        what = f"{tree} is not a folder" if tree else f"{folder} has no corpus"
        raise BadJudgedSet(
            what, hint="--corpus names the folder that the judged paths are in"
        )
    return _Source(name, queries, folder / _JUDGEMENTS, None, found.resolve())


def _packed(folder: Path) -> Path | None:
    places = (place / name for place in (folder, folder.parent) for name in _PACKED)
    return next((place for place in places if place.is_file()), None)


# --- questions and judgements ---------------------------------------------------------------


def _with_questions(
    judged: JudgedSet, source: _Source, names: Mapping[str, str], most: int
) -> JudgedSet:
    """The questions that have a relevant document, and the counts of what is left out."""
    judgements, missing = _judgements(source.judgements), 0
    kept: list[Asked] = []
    unjudged = orphaned = 0
    for asked in _asked(source.queries):
        grades = judgements.get(asked.id, {})
        there = {
            one: g
            for one, g in grades.items()
            if one in names or _is_file(one, judged.root, names)
        }
        missing += len(grades) - len(there)
        if any(grade > 0 for grade in there.values()):
            kept.append(replace(asked, grades=there))
        elif any(grade > 0 for grade in grades.values()):
            orphaned += 1
        else:
            unjudged += 1
    return replace(
        judged,
        questions=_spread(kept, most),
        unjudged=unjudged,
        orphaned=orphaned,
        missing=missing,
    )


def _is_file(document: str, root: Path, names: Mapping[str, str]) -> bool:
    """Whether a document of a tree is there. A corpus that has names for its documents is no tree."""
    return not names and _is_safe(document) and (root / document).is_file()


def _asked(file: Path) -> Iterator[Asked]:
    seen: set[str] = set()
    for line, record in _records(file):
        key, text = _text(record, "_id", file, line), _text(record, "text", file, line)
        if key in seen:
            raise _bad_line(
                file,
                line,
                f"the question {key!r} is there twice",
                "give each an _id of its own",
            )
        seen.add(key)
        label = next((str(record[name]) for name in _LABELS if record.get(name)), "")
        yield Asked(key, text, {}, label, str(record.get("filter") or ""))


def _judgements(file: Path) -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = {}
    for line, text in _lines(file):
        parts = text.split("\t")
        if line == 1 and len(parts) == 3 and not _is_number(parts[2]):
            continue  # the heading
        if len(parts) != 3 or not _is_number(parts[2]):
            hint = "a line has question, document and grade (a whole number), separated by tabs"
            raise _bad_line(file, line, "this is no judgement", hint)
        grades, grade = judged.setdefault(parts[0], {}), int(parts[2])
        if grades.setdefault(parts[1], grade) != grade:
            what = f"{parts[1]!r} was judged {grades[parts[1]]} for {parts[0]!r} before"
            raise _bad_line(
                file, line, what, "give each document of a question one grade"
            )
    return judged


def _is_number(text: str) -> bool:
    return (
        bool(re.fullmatch(r"[+-]?[0-9]{1,7}", text))
        and abs(int(text)) <= _LARGEST_GRADE
    )


def _spread(questions: Sequence[Asked], most: int) -> tuple[Asked, ...]:
    """At most so many, from all over the set: sets are often sorted by topic."""
    if not most or most >= len(questions):
        return tuple(questions)
    return tuple(questions[at * len(questions) // most] for at in range(most))


# --- documents as files ---------------------------------------------------------------------


def file_names(documents: Sequence[tuple[str, str]]) -> dict[str, str]:
    """From a document's id to the file it becomes, for (id, path or "") each.

    A path is kept when it is safe and this document's alone; else the file is named after the id.
    """
    paths = [(key, path) for key, path in documents if _is_safe(path)]
    shared = Counter(path for _, path in paths)
    folders = {
        _folded(str(above))
        for _, path in paths
        for above in PurePosixPath(path).parents
    }
    kept: dict[str, tuple[str, str]] = {}
    for key, path in paths:
        if shared[path] == 1 and _folded(path) not in folders:
            kept.setdefault(_folded(path), (key, path))
    names = dict(kept.values())
    taken = kept.keys() | folders
    for key, _ in documents:
        if key not in names:
            names[key] = _named_after(key, taken)
            taken.add(_folded(names[key]))
    return names


def _named_after(key: str, taken: Set[str]) -> str:
    plain = f"{key}.md"
    if _cleaned(plain) == plain and _folded(plain) not in taken:
        return plain
    name = f"{_cleaned(key)}-{_digest(key.encode('utf-8', 'replace'))}.md"
    while _folded(name) in taken:  # somebody has guessed it
        name = f"_{name}"
    return name


def _folded(path: str) -> str:
    """Some file systems take names that differ in case for one."""
    return path.casefold()


def _is_safe(path: str) -> bool:
    """Whether a path names a file below the folder it is taken from, on any system we run on."""
    if not path.isprintable() or "\\" in path or len(os.fsencode(path)) > _LONGEST_PATH:
        return False
    parts = path.split("/")
    return all(
        part.casefold() not in _RESERVED and len(part.encode()) <= _LONGEST_NAME
        for part in parts
    )


def _cleaned(name: str) -> str:
    """A name made of letters, digits, dots and dashes, short, never hidden and never empty."""
    return (
        re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:_LONGEST_OWN_NAME].lstrip(".-")
        or "document"
    )


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _entries(file: Path) -> list[tuple[str, str]]:
    """Ids and paths; texts are read again when they are written, so that memory holds one at a time."""
    entries: dict[str, str] = {}
    for line, record in _records(file):
        key = _text(record, "_id", file, line)
        if key in entries:
            raise _bad_line(
                file,
                line,
                f"the document {key!r} is there twice",
                "give each an _id of its own",
            )
        path = record.get("path")
        entries[key] = path if isinstance(path, str) else ""
    return list(entries.items())


def _written(packed: Path, target: Path, names: Mapping[str, str]) -> Path:
    """The corpus as files. The folder gets its name when it is whole: half of one is never used."""
    if target.is_dir():
        return target
    with storage_faults(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=target.parent))
        try:
            _write(packed, unfinished, names)
            unfinished.rename(target)
        except OSError:
            if (
                not target.is_dir()
            ):  # else another process was first, with the same files
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return target


def _write(packed: Path, folder: Path, names: Mapping[str, str]) -> None:
    for line, record in _records(packed):
        key = _text(record, "_id", packed, line)
        file = folder / names[key]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_content(record, named=names[key] != record.get("path")))


def _content(record: Mapping[str, Any], *, named: bool) -> bytes:
    """A document's text; one that is named after its id has no title but the one that it is given."""
    title = " ".join(str(record.get("title") or "").split())
    text = str(record.get("text") or "")
    return (f"# {title}\n\n{text}" if named and title else text).encode(
        "utf-8", "replace"
    )


# --- lines ----------------------------------------------------------------------------------


def _records(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for line, text in _lines(file):
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise _bad_line(
                file, line, f"not JSON: {error}", "each line is one JSON object"
            ) from error
        if not isinstance(record, dict):
            raise _bad_line(
                file, line, "not a JSON object", "each line is one JSON object"
            )
        yield line, record


def _text(record: Mapping[str, Any], key: str, file: Path, line: int) -> str:
    value = record.get(key)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise _bad_line(
            file,
            line,
            f"{key} is missing or empty",
            f'write it as text: {{"{key}": "..."}}',
        )
    return value


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, with their numbers. A damaged file is an error, not a traceback."""
    line = 0
    try:
        with _reading(file) as content:
            for line, text in enumerate(content, start=1):
                if text.strip():
                    yield line, text.rstrip("\r\n")
    except (UnicodeDecodeError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _bad_line(
            file, line + 1, f"it cannot be read: {error}", "it must be whole, in UTF-8"
        ) from error
    except OSError as error:
        raise BadJudgedSet(
            f"cannot read {file}: {error.strerror}", hint="check its permissions"
        ) from error


def _reading(file: Path) -> IO[str]:
    if file.suffix == ".gz":
        return gzip.open(file, "rt", encoding="utf-8", newline="\n")
    return file.open(encoding="utf-8", newline="\n")


def _bad_line(file: Path, line: int, what: str, hint: str) -> BadJudgedSet:
    return BadJudgedSet(f"{file}, line {line}: {what}", hint=hint)
