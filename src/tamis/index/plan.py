"""Compare the files of a root with its index: what a run would read, how many files changed, and why
a file is not indexed. Writes nothing, and only a dry run reads files.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tamis.errors import TooManyFiles
from tamis.gitignore.rules import IgnoreOptions, Rules, explain, open_rules
from tamis.index.embedded.words import CODE_FIELDS, K1, WORD_FIELDS, B
from tamis.index.protocol import IndexSnapshot
from tamis.ingest import PARSER_VERSION
from tamis.ingest.walk import Entry, describe, walk
from tamis.model import Facts, Skipped, Stamps, WhyNot
from tamis.query.filters import archived_by
from tamis.settings import Settings
from tamis.text.identifiers import IDENTIFIERS_VERSION
from tamis.text.linking import LINKS_VERSION
from tamis.text.words import TOKENIZER_VERSION

if TYPE_CHECKING:
    from tamis.ingest.read import Source

_FOR_FILE = 0.25  # share of index.memory_mb for the file that is being read
_PER_BYTE = 10  # bytes of memory for each byte of a file that is parsed
# A file that was changed this shortly before it was read may change again unnoticed.
RACY_NS = 2_000_000_000
_OUTSIDE = "outside the root"

Kind = Literal["changed", "touched", "outdated", "unsure", "skipped"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The files of a root: those that a run reads, and those that are unchanged for sure."""

    changed: tuple[Entry, ...]
    unchanged: tuple[Entry, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]

    def gone(self, known: Mapping[str, Stamps]) -> list[str]:
        """Indexed files that were deleted or are excluded now."""
        if len(self.unchanged) == len(known):  # so every indexed file is unchanged
            return []
        here = {entry.path for entry in (*self.changed, *self.unchanged)}
        return [path for path in known if path not in here]


@dataclass(frozen=True, slots=True)
class Known:
    """The state of the files as an index has it."""

    stamps: Mapping[str, Stamps]
    skipped: tuple[Skipped, ...]
    began: float  # start of the last run that wrote something


@dataclass(frozen=True, slots=True)
class Changes:
    """Numbers of files that differ from what the index has of them."""

    changed: int  # new, or of another size or time
    touched: int  # another inode or change time alone: copied, or its time was set back
    gone: int  # deleted, or excluded now
    outdated: int  # unchanged, but indexed by other settings or another version
    unsure: (
        int  # changed so shortly before they were read that only reading again tells
    )
    warnings: tuple[str, ...]  # about ignore files

    @property
    def sure(self) -> int:
        return self.changed + self.gone

    @property
    def possible(self) -> int:
        return self.sure + self.touched + self.outdated + self.unsure


def make_plan(
    root: Path,
    settings: Settings,
    known: Mapping[str, Stamps],
    most: int = 0,
) -> Plan:
    """Walk the root and compare; raise TooManyFiles for more than `most` files (0: any number)."""
    largest = largest_file(settings)
    changed: list[Entry] = []
    unchanged: list[Entry] = []
    skipped: list[Skipped] = []
    warnings: list[str] = []
    for item in walk(root, rules_of(root, settings), warnings.append):
        if isinstance(item, Skipped):
            skipped.append(item)
        elif item.size <= largest and is_unchanged(item, known.get(item.path)):
            unchanged.append(item)
        else:
            changed.append(item)
        if most and len(changed) + len(unchanged) > most:
            raise TooManyFiles(
                f"{root} has more than {most:,} files to index",
                hint="ignore some (.graphragignore); if all are meant, run: tamis index --yes, "
                "or raise index.max_files",
            )
    return Plan(
        tuple(changed),
        tuple(unchanged),
        tuple(skipped),
        tuple(warnings),
    )


def is_unchanged(entry: Entry, known: Stamps | None) -> bool:
    """Return True if times and size prove that a file is unchanged; else its content decides."""
    if known is None:
        return False
    _, size, mtime_ns, ctime_ns, inode, read_ns = known
    is_same = entry[2:] == (size, mtime_ns, ctime_ns, inode)
    return is_same and mtime_ns < read_ns - RACY_NS and ctime_ns < read_ns - RACY_NS


def known_to(snapshot: IndexSnapshot, settings: Settings) -> Known:
    began = float(snapshot.about.get("began", 0.0))
    stamps = snapshot.stamps(recipe(settings))
    return Known(stamps, snapshot.skipped(), began)


def count_changes(
    root: Path,
    settings: Settings,
    known: Known,
) -> Changes:
    """Walk the root and count the files that differ from the index."""
    plan = make_plan(root, settings, known.stamps)
    largest = largest_file(settings)
    skipped = {item.path: item for item in known.skipped}
    kinds: Counter[Kind] = Counter()
    for entry in plan.changed:
        before = known.stamps.get(entry.path)
        if before is not None:
            kind = _indexed_kind(entry, before, largest)
        else:
            kind = _new_kind(entry, skipped.get(entry.path), largest, known.began)
        kinds[kind] += 1
    return Changes(
        changed=kinds["changed"],
        touched=kinds["touched"],
        gone=len(plan.gone(known.stamps)),
        outdated=kinds["outdated"],
        unsure=kinds["unsure"],
        warnings=plan.warnings,
    )


def _indexed_kind(
    entry: Entry,
    before: Stamps,
    largest: float,
) -> Kind:
    """Say how a file differs from its indexed state."""
    _, size, mtime_ns, ctime_ns, inode, read_ns = before
    is_same = (entry.size, entry.mtime_ns) == (size, mtime_ns)
    if entry.size > largest or not is_same:
        return "changed"
    if not read_ns:
        return "outdated"
    if (entry.ctime_ns, entry.inode) == (ctime_ns, inode):
        return "unsure"
    return "touched"


def _new_kind(
    entry: Entry,
    before: Skipped | None,
    largest: float,
    began: float,
) -> Kind:
    """Say whether a file that is not indexed is new, or was skipped and would be again.

    The walk leaves out files that rules or links exclude; one that could not be read may be readable now.
    """
    is_skipped = False
    if before is not None:
        match before.reason:
            case "binary":
                is_skipped = True
            case "too large":
                is_skipped = entry.size > largest
            case "unreadable":
                is_skipped = not os.access(entry.file, os.R_OK)
    read_ns = began * 1e9
    # The change time decides: the other one may be set to any year.
    if not is_skipped or entry.ctime_ns > read_ns:
        return "changed"
    if entry.ctime_ns >= read_ns - RACY_NS:
        return "unsure"
    return "skipped"


def recipe(settings: Settings) -> str:
    """Return a fingerprint of all that decides what is written for a file, except the model."""
    versions = (
        PARSER_VERSION,
        TOKENIZER_VERSION,
        IDENTIFIERS_VERSION,
        LINKS_VERSION,
        K1,
        B,
    )
    chunking = asdict(settings.chunking)
    fields = dict(settings.weights.fields)
    parts = (versions, WORD_FIELDS, CODE_FIELDS, chunking, fields)
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def rules_of(root: Path, settings: Settings) -> Rules:
    return open_rules(root, ignore_options(settings))


def ignore_options(settings: Settings) -> IgnoreOptions:
    archive, excluded = settings.archive.globs, settings.ignore.patterns
    if not settings.archive.index:
        archive, excluded = (), (*archive, *excluded)
    return IgnoreOptions(
        default_exclusions=settings.ignore.default_exclusions,
        ignore_file=settings.ignore.file,
        archive_patterns=archive,
        extra=excluded,
    )


def largest_file(settings: Settings) -> float:
    """The most bytes that a file may have to be indexed."""
    by_memory = _FOR_FILE * settings.index.memory_mb * 1e6 / _PER_BYTE
    return min(settings.index.max_file_bytes, by_memory)


def read_within(entry: Entry, settings: Settings) -> "Source | Skipped":
    """Read a file, unless it is larger than the settings or the memory allow."""
    from tamis.ingest.read import read  # a search counts changes and reads no file

    largest = largest_file(settings)
    if largest < entry.size <= settings.index.max_file_bytes:
        limit = f"index.memory_mb is {settings.index.memory_mb}, for {largest:,.0f}"
        return Skipped(entry.path, "too large", f"{entry.size:,} bytes; {limit}")
    return read(entry, settings.index.max_file_bytes)


# --- Dry run ------------------------------------------------------------------


def dry_run(
    root: Path, settings: Settings
) -> tuple[list[str], list[Skipped], Sequence[str]]:
    """Return the paths that would be indexed, the skipped files, and warnings about ignore files."""
    plan = make_plan(root, settings, {})
    indexed: list[str] = []
    skipped = list(plan.skipped)
    for entry in plan.changed:
        source = read_within(entry, settings)
        if isinstance(source, Skipped):
            skipped.append(source)
        else:
            indexed.append(source.path)
    skipped.sort(key=lambda item: item.path)
    return indexed, skipped, plan.warnings


def explain_paths(
    root: Path, settings: Settings, paths: Sequence[str]
) -> list[dict[str, Any]]:
    """Say of each path whether it is ignored or archived, and which rule of which file decided.

    A path outside the root is not indexed: it counts as ignored, by a rule of no file.
    """
    options = ignore_options(settings)
    archived = archived_by(settings)
    explained = []
    for path in paths:
        answer: dict[str, Any] = {
            "path": path,
            "ignored": True,
            "archived": False,
            "rule": _OUTSIDE,
            "source": None,
            "line": None,
        }
        if _leads_outside(root, path):
            explained.append(answer)
            continue
        verdict = explain(root, options, path)
        inside = os.path.relpath(root / path, root).replace(os.sep, "/")
        if path.endswith("/") or os.path.isdir(root / path):
            inside += "/x"  # a folder is archived if a file in it would be
        answer["ignored"] = verdict.ignored
        answer["archived"] = not verdict.ignored and archived.matches(Facts(inside))
        answer["rule"] = None
        if verdict.rule:
            answer["rule"] = verdict.rule.pattern
            answer["source"] = verdict.rule.source
            answer["line"] = verdict.rule.line or None
        explained.append(answer)
    return explained


def _leads_outside(root: Path, path: str) -> bool:
    """Return True for a path that leads out of the root, by its own names or over a link."""
    try:
        inside = os.path.relpath(os.path.realpath(root / path), root)
    except ValueError:  # a character that no path can have
        return False
    return inside.split(os.sep)[0] == os.pardir


def why_not_indexed(
    root: Path,
    settings: Settings,
    path: str,
    skipped: Mapping[str, Skipped],
) -> WhyNot:
    """Say why a file is no document of the index. `skipped` are the files that the last run skipped."""
    # The rule that ignored a file may be gone by now: only the other reasons are final.
    final = {name: item for name, item in skipped.items() if item.reason != "ignored"}
    given = path
    if not os.path.lexists(root / path):
        given = path.strip().replace("\\", "/")
    if given in final:  # perhaps a link, so before it is followed
        return _was_skipped(final[given])
    try:
        file = os.path.realpath(root / given)
    except ValueError:  # a character that no path can have
        return WhyNot(path, "no such file")
    inside = os.path.relpath(file, root)
    if inside.split("/")[0] == "..":
        return WhyNot(path, _OUTSIDE, f"the root is {root}")
    verdict = explain(root, ignore_options(settings), inside)
    if verdict.ignored:
        return WhyNot(inside, "ignored", describe(verdict))
    if inside in final:
        return _was_skipped(final[inside])
    if os.path.exists(file):
        late = "it came after the last indexing (run: tamis index)"
        return WhyNot(inside, "not indexed", late)
    return WhyNot(inside, "no such file")


def _was_skipped(item: Skipped) -> WhyNot:
    return WhyNot(item.path, "skipped", f"{item.reason} {item.detail}".strip())
