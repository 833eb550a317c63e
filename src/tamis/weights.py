"""The measured constants of ranking, each with its reason and what it gains.

Figures are mean nDCG@10 from docs/ranking.md: 17 sets of documents, notes and snippets unless a comment
names others ("code" is fifteen repositories). They are no settings: presets change some of them, and
`tamis eval --config` any, to measure again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

# How much a word counts by the field it is in, from the first design: a title says most about a document.
FIELD_WEIGHTS: Mapping[str, float] = {
    "title": 3.0,
    "headers": 2.5,
    "keywords": 2.5,
    "description": 2.0,
    "tags": 2.0,
    "aliases": 1.5,
    "author": 1.0,
    "category": 1.0,
    "body": 1.0,
    # The code lane: names that a passage defines, the file's path, identifiers in the passage.
    "symbols": 5.0,
    "path": 2.0,
    "code": 1.0,
}


@dataclass(frozen=True, slots=True)
class Weights:
    """Everything that counts in a ranking and that a user has no reason to set."""

    # A hit counts less the farther its score is behind the lane's best. Ranks alone, for all lanes alike
    # and without `coherence` and `saturation`: 0.637 instead of 0.675.
    score_trust: bool = True
    # Adapt the trust in the words lane and the code lane to each question. Off: 0.668 instead of 0.675.
    adaptive_trust: bool = True
    # Trust in each lane beside the meaning lane, chosen on all public sets together.
    keyword_trust: float = 0.72
    code_trust: float = 0.67
    # 1.5 in `best`.
    graph_trust: float = 1.0
    # Factor for the meaning lane where the cosine is above 0.9, from the first design. 1 has no effect; no
    # other value was measured.
    similarity_trust: float = 1.0
    # Trust in the meaning lane for passages after a document's first, code aside: a document says at its
    # beginning what it is about. At 1: GitHub introductions 0.819 instead of 0.835, vite 0.712 instead of
    # 0.758, our own set 0.849 instead of 0.860.
    inner_trust: float = 0.75
    # Passages that each lane is asked for at least; ranks within it decide a candidate's score. 50 in
    # `fast` and 100 in `best`: with their other differences 0.754 and 0.759, against 0.757 over 33 sets.
    candidate_depth: int = 75
    # Factor for what defines the symbol, or is in the file, that a question names. Code 0.869 -> 0.871.
    named_boost: float = 2.0
    # Factor for code in a file whose whole name is in the question. Code 0.861 -> 0.871.
    path_boost: float = 1.2
    # Factor for tests, examples and vendored code. requests with its tests: 0.914 -> 0.935.
    test_code_penalty: float = 0.8
    # Share of its third to ninth passage that a document's best one gets. 0.664 -> 0.675, code
    # 0.848 -> 0.871; questions about one section of many lose (anthropic-docs 0.840 -> 0.822).
    coherence: float = 0.2
    # Factor for each passage of the same document above, so that none fills the page: three documents or
    # more among the first five.
    saturation: float = 0.9
    # Factors for archived documents where they are shown, from the first design.
    archive_folder_penalty: float = 0.5
    archive_file_penalty: float = 0.7
    # Keep the best of passages with the same text. A repeated passage helps nobody.
    content_dedup_enabled: bool = True
    # Milliseconds for reranking (0: no limit). A search that reranks ten takes 134 ms instead of 18.
    rerank_budget_ms: int = 150
    # Expansion, from the first design: at this threshold 0.764 -> 0.751, at 0.7 0.755, so it is off.
    query_expansion_top_k: int = 3
    query_expansion_threshold: float = 0.5
    query_expansion_min_frequency: int = 2
    query_expansion_max_terms: int = 10_000
    # Weight of the added terms in the words lane. 0.2 there: 0.755 -> 0.753.
    query_expansion_keywords: float = 0.0
    # Weight of a synonym beside a word of the question. `software` 0.675 -> 0.674, `wordnet` 0.764 -> 0.766.
    synonym_weight: float = 0.3
    fields: Mapping[str, float] = field(default_factory=lambda: dict(FIELD_WEIGHTS))
