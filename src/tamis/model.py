"""The values that travel through tamis: frozen, without behaviour beyond small properties, without I/O."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Literal, NamedTuple, Self

from tamis.text.languages import ChunkType, without_known_extension

INDEX_FOLDER = ".tamis"  # in the root, unless another place is chosen
# Duplicates of a result that JSON lists: there may be thousands.
MOST_PLACES = 20

Lane = Literal["meaning", "words", "code", "links"]
ScoreSource = Literal["fused", "rerank"]
LinkType = Literal["wikilink", "embed", "markdown", "related", "import"]
SkipReason = Literal[
    "ignored",
    "binary",
    "too large",
    "unreadable",
    "outside the root",
    "link",
    "not a regular file",
]

Severity = Literal[
    "ok", "skipped", "warning", "fault"
]  # of a check; skipped: an earlier fault is in the way


class Plain:
    """A value that JSON can hold: an object of its fields."""

    __slots__: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {name: _plain(getattr(self, name)) for name in self.__slots__}


def _plain(value: object) -> object:
    if isinstance(value, Plain):
        return value.to_dict()
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return dict(value)
    return value


@dataclass(frozen=True, slots=True)
class Skipped(Plain):
    """A file or folder that was seen and left out, and why."""

    path: str
    reason: SkipReason
    detail: str = ""  # the rule that ignored it, the error that stopped it


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a document: an exact run of its text with its lines."""

    ordinal: int
    content: str
    header_path: str
    start_line: int
    end_line: int
    chunk_type: ChunkType
    language: str | None = None
    names: tuple[
        str, ...
    ] = ()  # of what it defines, as a qualified name: `Client.retry`
    parent: int | None = None  # which of the document's parents it lies in


@dataclass(frozen=True, slots=True)
class Parent:
    """The section around small chunks: shown in their place, never searched itself."""

    content: str
    header_path: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Link:
    """A reference as its document writes it. What it leads to depends on which documents there are."""

    type: LinkType
    target: str  # a path or a name, decoded, without its anchor
    anchor: str = ""  # the heading it points at, where it names one
    ordinal: int | None = None  # of its chunk; None for a link of the whole document


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMatter:
    """The properties that a document states about itself."""

    title: str = ""
    description: str = ""
    keywords: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    author: str = ""
    category: str = ""
    modified: float | None = None  # seconds since the epoch
    related: tuple[str, ...] = ()
    links: tuple[str, ...] = ()  # its values that hold wiki links, as written


@dataclass(frozen=True, slots=True)
class Document:
    """A file as it is indexed."""

    path: str  # posix, relative to the root
    title: str
    front: FrontMatter
    modified: float
    chunks: tuple[Chunk, ...]
    links: tuple[Link, ...] = ()
    parents: tuple[Parent, ...] = ()
    warning: str = ""  # what was odd about reading it


class FileState(NamedTuple):
    """The stamps of a file that show if it has changed since it was read."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int  # swapping two folders leaves times as they are
    read_ns: int  # when it was read, by the clock that stamps files
    hash: bytes
    # A fingerprint of everything besides the file that decides what is written for it.
    recipe: str


# What a look compares, as plain as the store gives it, since each look takes thousands: path, size, mtime_ns,
# ctime_ns, inode, read_ns. The last is 0, which is never, where the file was written by another recipe.
Stamps = tuple[str, int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Address:
    """The place of a root's index on a server."""

    url: str
    collection: str
    root: str  # its name there

    def __str__(self) -> str:
        return f"{self.url} (collection {self.collection}, root {self.root})"


@dataclass(frozen=True, slots=True)
class Facts:
    """The properties of a document that a filter can test."""

    path: str
    _: KW_ONLY
    tags: frozenset[str] = frozenset()
    author: str = ""
    category: str = ""
    modified: float = 0.0


@dataclass(frozen=True, slots=True)
class Evidence(Plain):
    """One lane found it, at this rank, with this score on the lane's own scale."""

    lane: Lane
    rank: int
    score: float
    confidence: float = 1.0  # trust in the lane for this passage; multiplies its weight


@dataclass(frozen=True, slots=True)
class Passage:
    """A stored chunk with the part of its document that an answer shows."""

    path: str
    ordinal: int
    content: str
    content_hash: bytes
    header_path: str
    start_line: int
    end_line: int
    chunk_type: ChunkType
    language: str | None
    modified: float
    tags: tuple[str, ...]
    names: tuple[str, ...] = ()
    parent: int | None = None
    title: str = ""  # of its document

    @property
    def is_code(self) -> bool:
        """True for source code; False for prose and code blocks inside prose."""
        return self.chunk_type in ("definitions", "symbols")

    @property
    def position(self) -> tuple[str, int]:
        """Path and ordinal, which decide between equal scores."""
        return (self.path, self.ordinal)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A passage on its way through the stages, with the evidence that brought it here."""

    passage: Passage
    raw_score: float
    score: float
    evidence: tuple[Evidence, ...]
    boosts: tuple[tuple[str, float], ...] = ()  # by which stage, by how much
    score_source: ScoreSource = "fused"  # of `score`; `raw_score` is always fused
    duplicates: tuple["Candidate", ...] = ()  # that were dropped for it, best first

    # Every stage makes hundreds of these, and `dataclasses.replace` takes several times as long.

    def boosted(self, stage: str, factor: float) -> "Candidate":
        return Candidate(
            self.passage,
            self.raw_score * factor,
            self.score * factor,
            self.evidence,
            (*self.boosts, (stage, factor)),
            self.score_source,
            self.duplicates,
        )

    def scored(self, score: float) -> "Candidate":
        own = (self.evidence, self.boosts, self.score_source, self.duplicates)
        return Candidate(self.passage, self.raw_score, score, *own)

    def with_duplicates(self, duplicates: tuple["Candidate", ...]) -> "Candidate":
        own = (self.evidence, self.boosts, self.score_source, duplicates)
        return Candidate(self.passage, self.raw_score, self.score, *own)


@dataclass(frozen=True, slots=True)
class Place(Plain):
    """Another place with the same text as a result, or nearly the same."""

    path: str
    start_line: int
    end_line: int


@dataclass(frozen=True, slots=True)
class Result(Plain):
    """One passage of an answer."""

    chunk_id: str
    doc_id: str
    file_path: str
    path: str
    start_line: int
    end_line: int
    header_path: str
    content: str
    score: float
    raw_score: float
    chunk_type: ChunkType
    language: str | None
    tags: tuple[str, ...]
    is_archived: bool
    parent_chunk_id: str | None
    modified: str
    evidence: tuple[Evidence, ...]
    boosts: dict[str, float] = field(default_factory=dict)
    matched_lines: tuple[int, int] | None = None  # in a section: where the passage is
    score_source: ScoreSource | None = None  # where reranking was asked for
    also_in: tuple[Place, ...] = ()  # its duplicates, best first
    # Its rank after fusion and after each stage that moved it.
    places: dict[str, int] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that say something; of many duplicates, the best."""
        plain = Plain.to_dict(self)
        for name in ("matched_lines", "score_source", "places"):
            value = plain.pop(name)
            if value is not None:
                plain[name] = value
        duplicates = plain.pop("also_in")
        if duplicates:
            plain["also_in"] = duplicates[:MOST_PLACES]
            plain["also_in_count"] = len(duplicates)
        return plain


@dataclass(frozen=True, slots=True)
class IndexState(Plain):
    """The index that answered."""

    generation: int
    documents: int
    chunks: int
    pending_files: int
    built_at: str
    pending_chunks: int = 0  # that the meaning lane does not know yet


NO_INDEX = IndexState(0, 0, 0, 0, "1970-01-01T00:00:00Z")


@dataclass(frozen=True, slots=True)
class WhyNot(Plain):
    """The reason why an expected file is not in an answer (or that it is)."""

    path: str
    reason: str  # shown, no such file, outside the root, ignored, skipped, not indexed, archived, filtered...
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Related(Plain):
    """A document that is linked with what was found, and the link that led there."""

    path: str
    chunk_id: str  # its passage that is nearest to the question, or under the heading that the link names
    header_path: str
    hops: int
    score: float
    link: LinkType
    source: str  # the link's own ends: one of them is `path` or on the way to it
    target: str


@dataclass(frozen=True, slots=True)
class Step(Plain):
    """A stage of the search: how many candidates it left, and the milliseconds it took."""

    stage: str
    left: int
    ms: float


Subject = Literal["root", "filter", "likelihood"]


class Advice(Enum):
    """A way to another answer, in the words of the command line; other doors have their own."""

    INDEX = "run: tamis index"
    STATUS = "see: tamis status"
    SHOW_MORE = "--min-score 0 shows more"
    SHOW_LIKELY = "--min-score 0.3 leaves such results out"
    READ_ON = "read on from the next line"


class Hint(str):
    """A note on an answer: a text in the words of the command line, and what it is made of."""

    fact: str
    advice: Advice | None
    about: Subject

    def __new__(
        cls, fact: str, advice: Advice | None = None, about: Subject = "root"
    ) -> Self:
        """Make the text of a fact and of the advice that goes with it."""
        text = fact
        if advice:
            text = f"{fact} ({advice.value})"
        hint = super().__new__(cls, text)
        hint.fact = fact
        hint.advice = advice
        hint.about = about
        return hint

    def worded(self, words: Mapping[Advice, str]) -> str:
        """Return the note in the words of a door; advice that it has no word for is left out."""
        if self.advice is None or self.advice not in words:
            return self.fact
        return f"{self.fact} ({words[self.advice]})"


@dataclass(frozen=True, slots=True)
class Found(Plain):
    """The answer: results, how they came about, and which index they come from."""

    query: str
    filter: str
    query_type: str
    results: tuple[Result, ...]
    stats: dict[str, int]
    timings_ms: dict[str, float]
    index: IndexState
    hints: tuple[Hint, ...] = ()
    why_not: WhyNot | None = None
    graph_context: tuple[Related, ...] | None = None  # None: not asked for
    funnel: tuple[Step, ...] | None = None  # None: not asked for
    expansion: tuple[str, ...] = ()  # terms that were added to the question
    synonyms: tuple[str, ...] = ()  # and words, for the words lane

    def to_dict(self) -> dict[str, Any]:
        """Return the fields; those that were not asked for are left out."""
        plain = Plain.to_dict(self)
        plain["hints"] = [str(hint) for hint in self.hints]
        plain["expanded_with"] = plain.pop("expansion")
        for name in ("why_not", "graph_context", "funnel"):
            if plain[name] is None:
                del plain[name]
        for name in ("expanded_with", "synonyms"):
            if not plain[name]:
                del plain[name]
        return plain


@dataclass(frozen=True, slots=True)
class Report(Plain):
    """The outcome of an indexing run. `seen` is `indexed + unchanged + skipped`, always."""

    indexed: int = 0
    unchanged: int = 0
    removed: int = 0
    chunks: int = 0  # written by this run
    skipped: tuple[Skipped, ...] = ()
    warnings: tuple[str, ...] = ()
    generation: int = 0
    seconds: float = 0.0

    @property
    def seen(self) -> int:
        return self.indexed + self.unchanged + len(self.skipped)

    @property
    def skipped_by_reason(self) -> dict[str, int]:
        return _by_reason(self.skipped)

    def to_dict(self) -> dict[str, Any]:
        by_reason = {"skipped_by_reason": self.skipped_by_reason}
        return {"seen": self.seen} | Plain.to_dict(self) | by_reason


@dataclass(frozen=True, slots=True)
class Status(Plain):
    """The contents of an index, and how it compares with the files as they are now."""

    root: str
    directory: str
    index: IndexState
    model: str
    segments: int
    bytes_on_disk: int
    changed_files: int  # new, changed, or indexed by other settings
    touched_files: int  # touched, with the same size and time: perhaps changed
    removed_files: int  # indexed, but gone or excluded now
    skipped: tuple[Skipped, ...]
    warnings: Mapping[str, str]  # what was odd about reading a document, by its path
    ignore_warnings: tuple[str, ...]  # faults of ignore files
    sizes: Mapping[str, int]  # bytes on disk, by kind
    fingerprint: str  # of the model
    dimension: int  # of its vectors
    tamis_version: str
    format: int  # of the index

    @property
    def skipped_by_reason(self) -> dict[str, int]:
        return _by_reason(self.skipped)

    def to_dict(self) -> dict[str, Any]:
        return Plain.to_dict(self) | {"skipped_by_reason": self.skipped_by_reason}


def _by_reason(skipped: Sequence[Skipped]) -> dict[str, int]:
    return dict(sorted(Counter(item.reason for item in skipped).items()))


@dataclass(frozen=True, slots=True)
class Repair:
    """The repair of a finding: rebuild, write some documents again, remove orphans..."""

    kind: Literal["rebuild", "rewrite", "reembed", "sweep", "refresh", "protect"]
    documents: frozenset[str] = frozenset()  # to be written again, by path
    # Segments with documents to be written again, by the engine's key.
    segments: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check of an index."""

    check: str
    severity: Severity
    what: str
    hint: str = ""  # what to do about it
    repair: Repair | None = None  # what `tamis doctor --repair` does about it

    @property
    def repairable(self) -> bool:
        return self.repair is not None

    def to_dict(self) -> dict[str, Any]:
        names = ("check", "severity", "what", "hint", "repairable")
        return {name: getattr(self, name) for name in names}


def embedding_text(title: str, chunk: Chunk | Passage) -> str:
    """Return the text that a model embeds."""
    return under_trail(title, chunk.header_path, chunk.content)


def under_trail(title: str, header_path: str, content: str) -> str:
    """Put a passage below its breadcrumb, which gives it its context.

    It begins with the document's title, unless the headings do: half of all notes have no heading of
    their own, and code has only the name of its file.
    """
    trail = header_path
    if title and trail != title and not trail.startswith(f"{title} > "):
        trail = f"{title} > {trail}" if trail else title
    return f"{trail}\n\n{content}" if trail else content


def chunk_id(path: str, ordinal: int) -> str:
    return f"{path}#{ordinal}"


def parent_id(path: str, number: int) -> str:
    return f"{path}#parent-{number}"


def doc_id(path: str) -> str:
    """The path without its extension. For people: two files may share one, so nothing is looked up by it."""
    return without_known_extension(path)


def iso_time(seconds: float) -> str:
    """Seconds since the epoch as `2026-05-01T00:00:00Z`; a time no calendar has becomes the epoch's."""
    try:
        moment = datetime.fromtimestamp(int(seconds), UTC)
    except (OverflowError, ValueError, OSError):
        moment = datetime.fromtimestamp(0, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
