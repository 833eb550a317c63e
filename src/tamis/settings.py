"""Settings: typed, frozen, each with its default and its meaning. `configuration.py` reads them.

A field declared with `key` can be configured, and is a row of `docs/settings.md`. The others are
constants that travel with the settings: only code sets them.
"""

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

from tamis.weights import FIELD_WEIGHTS, Weights

# Addresses that editors open files by. A project's own file chooses among these, no more.
EDITORS: Mapping[str, str] = {
    "vscode": "vscode://file{path}:{line}",
    "vscodium": "vscodium://file{path}:{line}",
    "cursor": "cursor://file{path}:{line}",
    "windsurf": "windsurf://file{path}:{line}",
    "zed": "zed://file{path}:{line}",
    "idea": "idea://open?file={path}&line={line}",
    "none": "",
}


DEFAULT_MODEL = "granite"
QUICK_MODEL = "hashing"  # takes no longer than looking a vector up
NO_MODEL = "none"  # words only: no vectors are made or searched
MODELS = (DEFAULT_MODEL, "bge", QUICK_MODEL, NO_MODEL)


def key(
    default: Any,
    doc: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a setting: its default, its meaning, and the values that are allowed."""
    metadata = {"doc": doc, "low": low, "high": high, "choices": choices}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class SearchSettings:
    preset: str = key(
        "balanced",
        "Values of the other keys of this section unless they are set: `fast`, `balanced` or `best` "
        "(docs/ranking.md).",
        choices=("fast", "balanced", "best"),
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
        choices=("native", "post", "hybrid", "qdrant"),
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
        choices=("docs", "code", "off"),
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
    # With parents, the sizes of sections and of the passages that are searched.
    parent_min_chars: int = 1500
    parent_max_chars: int = 2000
    parent_overlap_chars: int = 200
    child_min_chars: int = 400
    child_max_chars: int = 600
    child_overlap_chars: int = 100

    @property
    def smallest(self) -> int:
        """The size below which nothing is split, on either level."""
        if not self.parents:
            return self.max_chars
        return min(self.parent_max_chars, self.child_max_chars)

    def of_parents(self) -> "ChunkingSettings":
        """Return the sizes that sections are cut to, with parents."""
        return replace(
            self,
            min_chars=self.parent_min_chars,
            max_chars=self.parent_max_chars,
            overlap_chars=self.parent_overlap_chars,
        )

    def of_children(self) -> "ChunkingSettings":
        """Return the sizes that passages are cut to within a section, with parents."""
        return replace(
            self,
            min_chars=self.child_min_chars,
            max_chars=self.child_max_chars,
            overlap_chars=self.child_overlap_chars,
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
    # Seconds to wait while another process writes. A server does not wait.
    lock_timeout: float = 30.0


@dataclass(frozen=True, slots=True)
class WatchSettings:
    poll: bool = key(
        False,
        "Look for changes every 2 seconds: for file systems that do not report them.",
    )
    debounce_ms: int = 200  # without a change, before changes are indexed together
    poll_ms: int = 2_000  # between two looks where changes are not reported
    # Between two full looks while changes are reported, in case one was lost; 0: none.
    sweep_seconds: int = 300


@dataclass(frozen=True, slots=True)
class ModelSettings:
    name: str = key(
        "",
        "The embedder: granite, bge, hashing or none; empty is what the index has, else granite.",
        choices=("", *MODELS),
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
    # Patterns stronger than every file: `tamis eval` includes all judged documents.
    patterns: tuple[str, ...] = ()


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
    max_tokens: int = key(
        2_500,
        "Size of an answer unless the call says otherwise; a token is four characters.",
        low=200,
        high=100_000,
    )
    editor: str = key(
        "vscode",
        "The editor that the page opens files in: `vscode`, `vscodium`, `cursor`, `windsurf`, `zed`, `idea` "
        "or `none`.",
        choices=tuple(EDITORS),
    )
    # Index files as they change, from the first question of a root on.
    watch: bool = True
    # A call waits so long for files to be indexed, then answers from what is there.
    budget_ms: int = 2_000
    deadline: float = 60.0  # seconds, after which a call without an answer is an error
    max_body_bytes: int = 1_000_000  # larger HTTP requests are refused


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
    weights: Weights = Weights()  # no settings: presets and `tamis eval` change them


# What each is worth, and what it costs, is measured in docs/ranking.md.
PRESETS: Mapping[str, Settings] = {
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
KEYS: Mapping[str, Field[Any]] = {
    f"{section.name}.{each.name}": each
    for section in fields(Settings)
    if section.name not in ("workspaces", "weights")
    for each in fields(getattr(Settings(), section.name))
    if each.metadata
}
ENVIRONMENT_NAMES = {
    "TAMIS_INDEX_DIR": "index.directory",
    "GRAPHRAG_EXCLUDE_ARCHIVED": "search.exclude_archived",
    "GRAPHRAG_IGNORE_FILE": "ignore.file",
    "GRAPHRAG_DEFAULT_EXCLUSIONS": "ignore.default_exclusions",
    "GRAPHRAG_ARCHIVE_PATTERNS": "archive.patterns",
}
OTHER_NAMES = {"search.parent_retrieval_enabled": "chunking.parents"}
# Keys that there were before, with what to do now.
_SAME_NAME = """
    candidate_depth path_boost coherence saturation named_boost content_dedup_enabled
    rerank_budget_ms query_expansion_top_k query_expansion_threshold query_expansion_min_frequency
    query_expansion_max_terms query_expansion_keywords synonym_weight
    """.split()  # noqa: SIM905
_WEIGHTS = {
    **{f"search.{name}": name for name in _SAME_NAME},
    "search.score_confidence": "score_trust",
    "search.adaptive_confidence": "adaptive_trust",
    "search.keyword_confidence": "keyword_trust",
    "search.code_confidence": "code_trust",
    "search.graph_confidence": "graph_trust",
    "search.similarity_confidence": "similarity_trust",
    "search.inner_confidence": "inner_trust",
    "search.aside_penalty": "test_code_penalty",
    "archive.folder_penalty": "archive_folder_penalty",
    "archive.file_penalty": "archive_file_penalty",
}
_NO_SIZES = "the sizes that chunking.parents cuts to are fixed"
_AT_CREATION = (
    "it is asked when a collection is created (tamis index --engine URL {option})"
)
GONE: Mapping[str, str] = {
    **{
        old: f"it is measured; try another value with tamis eval --config NAME={new}=VALUE"
        for old, new in _WEIGHTS.items()
    },
    **{
        f"fields.{name}": f"it is measured; try another value with tamis eval --config NAME=fields.{name}=VALUE"
        for name in FIELD_WEIGHTS
    },
    "search.synonyms_file": "name the file in search.synonyms",
    "search.wordnet_directory": "WordNet is read from /usr/share/wordnet",
    "chunking.parent_min_chars": _NO_SIZES,
    "chunking.parent_max_chars": _NO_SIZES,
    "chunking.parent_overlap_chars": _NO_SIZES,
    "chunking.child_min_chars": _NO_SIZES,
    "chunking.child_max_chars": _NO_SIZES,
    "chunking.child_overlap_chars": _NO_SIZES,
    "index.lock_timeout": "tamis waits 30 seconds while another process writes",
    "index.git_times": "git is always asked for dates; a date in the front matter comes first",
    "ignore.patterns": "write the patterns into .graphragignore, one on each line",
    "watch.debounce_ms": "changes are indexed after 200 milliseconds without another",
    "watch.poll_ms": "where changes are not reported, tamis looks every 2 seconds",
    "watch.sweep_seconds": "tamis looks at all files every 5 minutes while it watches",
    "server.budget_ms": "a call waits 2 seconds at most for files to be indexed",
    "server.deadline": "a call that takes longer than 60 seconds is an error",
    "server.max_body_bytes": "HTTP requests of more than a megabyte are refused",
    "server.watch": "a server indexes files as they change, from the first question on",
    "engine.timeout": "a request to the server may take 30 seconds",
    "engine.shards": _AT_CREATION.format(option="--shards"),
    "engine.replication": _AT_CREATION.format(option="--copies"),
    "engine.quantisation": _AT_CREATION.format(option="--quantization"),
    "engine.on_disk": _AT_CREATION.format(option="--on-disk"),
}
USER_FILE_VARIABLE = "TAMIS_USER_CONFIG"
# Secrets are no settings: they belong in no file that is shared.
TOKEN_VARIABLE = "TAMIS_TOKEN"
API_KEY_VARIABLE = "TAMIS_ENGINE_API_KEY"


def environment_name(name: str) -> str:
    """Return the variable that sets a key: `search.limit` is `TAMIS_SEARCH_LIMIT`."""
    return "TAMIS_" + name.replace(".", "_").upper()
