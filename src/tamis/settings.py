"""Settings: typed, frozen, each with its default. How they are read is `configuration.py`.

Every key's meaning stands beside it in its `doc`, from which `docs/settings.md` is made; a test holds
the two together.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from tamis.weights import Weights


def key(
    default: Any, doc: str, *, low: float | None = None, high: float | None = None
) -> Any:
    """A setting: its default, its meaning, and for numbers the range that makes sense."""
    return field(default=default, metadata={"doc": doc, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class SearchSettings:
    preset: str = key(
        "balanced",
        "What the other keys of this section are unless they are set: `fast`, `balanced` or `best` "
        "(docs/ranking.md).",
    )
    limit: int = key(5, "How many results an answer has at most.", low=1, high=100)
    semantic_weight: float = key(
        1.0, "Weight of the meaning lane in the fusion; 0 turns it off.", low=0
    )
    keyword_weight: float = key(
        1.0, "Weight of the words lane in the fusion; 0 turns it off.", low=0
    )
    code_search_enabled: bool = key(
        True, "Search identifiers, symbols and paths too (the code lane)."
    )
    code_search_weight: float = key(
        1.0, "Weight of the code lane in the fusion; 0 turns it off.", low=0
    )
    adaptive_weights_enabled: bool = key(
        False,
        "Weigh lanes by the type of a question: words x 1.5 when factual, links x 1.5 when navigational, "
        "meaning x 1.3 when exploratory.",
    )
    graph_weight: float = key(
        1.0, "Weight of the links lane in the fusion; 0 turns it off.", low=0
    )
    max_hops: int = key(
        1,
        "How far the links lane goes from the best hits; 0 turns it off.",
        low=0,
        high=3,
    )
    rrf_k_constant: int = key(
        60, "The k of reciprocal rank fusion: larger flattens the ranks.", low=1
    )
    min_confidence: float = key(
        0.0, "Results scored lower than this are dropped; 0 keeps all.", low=0, high=1
    )
    ngram_dedup_enabled: bool = key(
        True, "Keep only the best of passages with nearly the same text."
    )
    ngram_dedup_threshold: float = key(
        0.7,
        "Texts that share this part of their character trigrams are nearly the same.",
        low=0,
        high=1,
    )
    dedup_enabled: bool = key(
        False, "Keep only the best of passages that mean the same (needs a model)."
    )
    dedup_similarity_threshold: float = key(
        0.85,
        "Passages whose vectors have at least this cosine mean the same.",
        low=0,
        high=1,
    )
    mmr_enabled: bool = key(
        False,
        "Prefer passages that differ from those above them (MMR), instead of `dedup_enabled`.",
    )
    mmr_lambda: float = key(
        0.7,
        "How much of MMR is relevance; the rest is difference from those above.",
        low=0,
        high=1,
    )
    max_chunks_per_doc: int = key(
        0, "Passages one document may have in an answer; 0 is no limit.", low=0
    )
    workspace_filtering: str = key(
        "native",
        "When a workspace filter applies: `native` before scoring, `post` after it (to measure the gain), "
        "`hybrid` before and again after when few results came; `qdrant` is `native`. All answer the same.",
    )
    fallback_threshold: float = key(
        0.5,
        "`hybrid` asks again when fewer than this share of the limit came.",
        low=0,
        high=1,
    )
    rerank_enabled: bool = key(
        False,
        "Put the best candidates in the order of a cross-encoder, which reads question and passage.",
    )
    rerank_top_n: int = key(
        10, "How many candidates are reranked at most.", low=1, high=100
    )
    rerank_model: str = key(
        "minilm",
        "The cross-encoder: minilm (`tamis[rerank]`), a folder with `model.onnx` and `tokenizer.json` "
        "(`./reranker`), or a name in the local Hugging Face cache (`org/name`).",
    )
    recency_profile: str = key(
        "off",
        "What the age of a document does to its score: `docs` raises what is younger than a month, `code` "
        "also lowers what is older, `off` nothing.",
    )
    recency_bias: float = key(
        0.5,
        "How strong the profile is: 0.5 as it stands, 0 not at all, 1 doubled.",
        low=0,
        high=1,
    )
    exclude_archived: bool = key(
        True, "Leave archived documents out unless a search asks for them."
    )
    query_expansion_enabled: bool = key(
        False,
        "Add terms of the index that mean something similar to the question (needs a model).",
    )
    synonyms: str = key(
        "off",
        "Add synonyms to the words lane: `software` from a small table of the trade's words, "
        "`wordnet` from WordNet as well, `off` none; or from your own file, by its path from the root: "
        "a group on each line, its words separated by commas.",
    )


@dataclass(frozen=True, slots=True)
class ChunkingSettings:
    min_chars: int = key(200, "Sections shorter than this join the next one.", low=0)
    max_chars: int = key(1500, "Longer sections are split.", low=100)
    overlap_chars: int = key(
        100, "How much of its end a split piece shares with the next.", low=0
    )
    parents: bool = key(
        False,
        "Index on two levels: small passages are searched, the section around them is shown. "
        "Also known as `search.parent_retrieval_enabled`.",
    )
    parent_min_chars: int = key(
        1500, "With parents: shorter sections join the next one.", low=0
    )
    parent_max_chars: int = key(
        2000, "With parents: longer sections are split.", low=200
    )
    parent_overlap_chars: int = key(
        200, "With parents: what two pieces of a section share.", low=0
    )
    child_min_chars: int = key(
        400, "With parents: shorter passages join the next one.", low=0
    )
    child_max_chars: int = key(600, "With parents: longer passages are split.", low=100)
    child_overlap_chars: int = key(100, "With parents: what two passages share.", low=0)

    @property
    def smallest(self) -> int:
        """The size that anything fits which fits at all, on either level."""
        return (
            min(self.parent_max_chars, self.child_max_chars)
            if self.parents
            else self.max_chars
        )

    def of_parents(self) -> "ChunkingSettings":
        """The sizes that sections are cut to, with parents."""
        low, high = self.parent_min_chars, self.parent_max_chars
        return replace(
            self, min_chars=low, max_chars=high, overlap_chars=self.parent_overlap_chars
        )

    def of_children(self) -> "ChunkingSettings":
        """The sizes that passages are cut to within a section, with parents."""
        low, high = self.child_min_chars, self.child_max_chars
        return replace(
            self, min_chars=low, max_chars=high, overlap_chars=self.child_overlap_chars
        )


@dataclass(frozen=True, slots=True)
class IndexSettings:
    directory: str = key(
        "", "Where the index is kept, from the root; empty is `.tamis` there."
    )
    max_file_bytes: int = key(2_000_000, "Larger files are skipped.", low=1)
    max_files: int = key(
        100_000,
        "More files than this are indexed only after a question, or with `--yes`; 0: any number.",
        low=0,
    )
    memory_mb: int = key(
        1_000,
        "Megabytes that indexing may take, besides tamis itself, its model and the list of files.",
        low=64,
    )
    lock_timeout: float = key(
        30.0, "Seconds to wait while another process writes.", low=0
    )
    git_times: bool = key(
        True,
        "Date documents without a date of their own by their last commit, where git tracks them.",
    )


@dataclass(frozen=True, slots=True)
class WatchSettings:
    debounce_ms: int = key(
        200,
        "Milliseconds without a change before changes are indexed, together.",
        low=0,
        high=60_000,
    )
    poll: bool = key(
        False,
        "Look for changes at intervals: for file systems that do not tell of them.",
    )
    poll_ms: int = key(
        2_000, "Milliseconds between two looks where changes are not told.", low=100
    )
    sweep_seconds: int = key(
        300,
        "Seconds between two full looks while changes are told, should one have been missed; 0: none.",
        low=0,
    )


@dataclass(frozen=True, slots=True)
class ModelSettings:
    name: str = key(
        "",
        "The embedder: granite, bge, hashing or none; empty is what the index has, else granite.",
    )
    threads: int = key(
        0, "Threads that embed; 0 is one for each core.", low=0, high=256
    )
    cache_mb: int = key(
        500,
        "Megabytes of vectors kept for all your roots, so that no text is embedded twice; 0 is none.",
        low=0,
    )


@dataclass(frozen=True, slots=True)
class IgnoreSettings:
    default_exclusions: bool = key(
        True, "Ignore what the built-in list names (build output, hidden files...)."
    )
    file: str = key(
        ".graphragignore", "The name of tamis's own ignore file in the root."
    )
    patterns: tuple[str, ...] = key(
        (), "Further patterns to ignore, stronger than every file."
    )


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    patterns: tuple[str, ...] = key(
        (
            ".archive/", ".deprecated/", "*_backup/", "archive/", "deprecated/", "backup/",
            "*.backup", "*.old", "*.deprecated",
        ),
        "What counts as archived: indexed, but hidden from answers unless asked for.",
    )  # fmt: skip
    index: bool = key(
        True, "Index archived files (hidden); false leaves them out of the index."
    )

    @property
    def globs(self) -> tuple[str, ...]:
        """The patterns as gitignore reads them; `_backup/` means every folder whose name ends so."""
        return tuple(
            f"*{pattern}" if pattern.startswith("_") else pattern
            for pattern in self.patterns
        )


@dataclass(frozen=True, slots=True)
class ServerSettings:
    budget_ms: int = key(
        2_000,
        "Milliseconds that a call may wait for files to be indexed before it answers with what is there.",
        low=0,
    )
    deadline: float = key(
        60.0,
        "Seconds after which a call that has not been answered is an error.",
        low=0.1,
    )
    max_tokens: int = key(
        2_500,
        "Size of an answer unless the call says otherwise; a token is four characters.",
        low=200,
        high=100_000,
    )
    max_body_bytes: int = key(1_000_000, "Larger HTTP requests are refused.", low=1_000)
    watch: bool = key(
        True,
        "Index changed files as they change, from the first question on; else questions look for them.",
    )
    editor: str = key(
        "vscode",
        "What the page opens files in: `vscode`, `vscodium`, `cursor`, `windsurf`, `zed`, `idea` or `none`.",
    )


@dataclass(frozen=True, slots=True)
class EngineSettings:
    url: str = key(
        "",
        "The Qdrant server that holds the index (`https://host:6333`); empty is the index on this machine. "
        "A project's own file cannot set it. The key comes from `TAMIS_ENGINE_API_KEY` alone.",
    )
    collection: str = key(
        "tamis", "The collection on the server; several roots may share one."
    )
    root: str = key(
        "", "The name of this root on the server; empty is the name of its folder."
    )
    exact: bool = key(
        True,
        "Have the server look at every allowed passage, and score in double precision; false uses its graph, "
        "which is faster on large collections and may miss some.",
    )


@dataclass(frozen=True, slots=True)
class Settings:
    search: SearchSettings = SearchSettings()
    chunking: ChunkingSettings = ChunkingSettings()
    index: IndexSettings = IndexSettings()
    watch: WatchSettings = WatchSettings()
    model: ModelSettings = ModelSettings()
    ignore: IgnoreSettings = IgnoreSettings()
    archive: ArchiveSettings = ArchiveSettings()
    server: ServerSettings = ServerSettings()
    engine: EngineSettings = EngineSettings()
    workspaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    weights: Weights = Weights()  # no settings: only `tamis eval` changes them


# What each is worth, and what it costs, is measured in docs/ranking.md.
PRESETS: Final[Mapping[str, Settings]] = {
    "fast": Settings(
        SearchSettings(preset="fast", max_hops=0, ngram_dedup_enabled=False),
        weights=Weights(candidate_depth=50),
    ),
    "balanced": Settings(),
    "best": Settings(
        SearchSettings(preset="best"),
        weights=Weights(candidate_depth=100, graph_trust=1.5),
    ),
}
ENVIRONMENT_NAMES: Final = {
    "TAMIS_INDEX_DIR": "index.directory",
    "GRAPHRAG_EXCLUDE_ARCHIVED": "search.exclude_archived",
    "GRAPHRAG_IGNORE_FILE": "ignore.file",
    "GRAPHRAG_DEFAULT_EXCLUSIONS": "ignore.default_exclusions",
    "GRAPHRAG_ARCHIVE_PATTERNS": "archive.patterns",
}
# Other names of keys: the seeds' own, where a better place was found for them (C57).
OTHER_NAMES: Final = {"search.parent_retrieval_enabled": "chunking.parents"}
USER_FILE_VARIABLE: Final = "TAMIS_USER_CONFIG"
TOKEN_VARIABLE: Final = (
    "TAMIS_TOKEN"  # no setting: a secret belongs in no file that is shared
)
API_KEY_VARIABLE: Final = "TAMIS_ENGINE_API_KEY"  # nor is this one
# Addresses that editors listen for. A checkout brings its own settings: it chooses among these, no more.
EDITORS: Final[Mapping[str, str]] = {
    "vscode": "vscode://file{path}:{line}",
    "vscodium": "vscodium://file{path}:{line}",
    "cursor": "cursor://file{path}:{line}",
    "windsurf": "windsurf://file{path}:{line}",
    "zed": "zed://file{path}:{line}",
    "idea": "idea://open?file={path}&line={line}",
    "none": "",
}
WORKSPACE_FILTERING: Final = ("native", "post", "hybrid", "qdrant")
RECENCY_PROFILES: Final = ("docs", "code", "off")


def all_keys() -> tuple[str, ...]:
    """Every setting as `section.key`."""
    sections = [
        (section.name, getattr(Settings(), section.name))
        for section in fields(Settings)
    ]
    return tuple(
        f"{name}.{k.name}"
        for name, value in sections
        if name not in ("workspaces", "weights")
        for k in fields(value)
    )


def environment_name(name: str) -> str:
    """The variable that sets a key: `search.limit` is `TAMIS_SEARCH_LIMIT`."""
    return "TAMIS_" + name.replace(".", "_").upper()
