"""What a walk finds, held against what the index has. Reads no file, and writes nothing."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tamis.errors import TooManyFiles
from tamis.gitignore.rules import IgnoreOptions, Rules, open_rules
from tamis.index.embedded.words import CODE_FIELDS, K1, WORD_FIELDS, B
from tamis.ingest.parse import PARSER_VERSION
from tamis.ingest.walk import Entry, walk
from tamis.model import Skipped, Stamps
from tamis.settings import Settings
from tamis.text.identifiers import IDENTIFIERS_VERSION
from tamis.text.linking import LINKS_VERSION
from tamis.text.words import TOKENIZER_VERSION

_FOR_FILE: Final = 0.25  # of index.memory_mb, for the file that is being read
_PER_BYTE: Final = 10  # of a file, while it is parsed
_RACY_NS: Final = (
    2_000_000_000  # a file stamped this shortly before it was read may change unseen
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What the walk found, held against what the index has."""

    changed: tuple[Entry, ...]
    unchanged: tuple[Entry, ...]
    skipped: tuple[Skipped, ...]
    warnings: tuple[str, ...]

    def gone(self, known: Mapping[str, Stamps]) -> list[str]:
        """The files that are not there any more, or kept out now."""
        if len(self.unchanged) == len(known):  # each of them is known
            return []
        here = {entry.path for entry in (*self.changed, *self.unchanged)}
        return [path for path in known if path not in here]


def make_plan(
    root: Path, settings: Settings, known: Mapping[str, Stamps], most: int = 0
) -> Plan:
    """Walk the root and sort what is there. Reads no file. More than `most` files (0: any) are a fault."""
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
            raise TooManyFiles(root, most)
    return Plan(tuple(changed), tuple(unchanged), tuple(skipped), tuple(warnings))


def recipe(settings: Settings) -> str:
    """A fingerprint of everything that decides what is written for a given file, model aside."""
    versions = (
        PARSER_VERSION,
        TOKENIZER_VERSION,
        IDENTIFIERS_VERSION,
        LINKS_VERSION,
        K1,
        B,
    )
    parts = (
        versions,
        WORD_FIELDS,
        CODE_FIELDS,
        asdict(settings.chunking),
        asdict(settings.fields),
    )
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()


def rules_of(root: Path, settings: Settings) -> Rules:
    return open_rules(root, ignore_options(settings))


def ignore_options(settings: Settings) -> IgnoreOptions:
    return IgnoreOptions(
        default_exclusions=settings.ignore.default_exclusions,
        ignore_file=settings.ignore.file,
        archive_patterns=settings.archive.globs if settings.archive.index else (),
        extra=(
            *(() if settings.archive.index else settings.archive.globs),
            *settings.ignore.patterns,
        ),
    )


def is_unchanged(entry: Entry, known: Stamps | None) -> bool:
    """Whether times and size say for sure that the file is what it was. If not, its content decides."""
    if known is None:
        return False
    _, size, mtime_ns, ctime_ns, inode, read_ns = known
    same = entry[2:] == (size, mtime_ns, ctime_ns, inode)
    return same and mtime_ns < read_ns - _RACY_NS and ctime_ns < read_ns - _RACY_NS


def is_racy(stamped: int, read: float) -> bool:
    """Whether a file may have been written again after it was read, within the same tick of the clock."""
    return stamped >= read - _RACY_NS


def largest_file(settings: Settings) -> float:
    """Bytes that a file may have."""
    return min(
        settings.index.max_file_bytes,
        _FOR_FILE * settings.index.memory_mb * 1e6 / _PER_BYTE,
    )
