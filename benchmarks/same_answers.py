"""Record what every door answers, and compare it with what another tree answers.

    python benchmarks/same_answers.py record OUT.json [ROOT...]
    python benchmarks/same_answers.py compare OUT.json

`record` copies three corpora beside OUT.json (docs, judged, code), unless they are there already.
ROOT... are folders to copy in their stead, in this order; by default those of the tree under test.
It asks 200 requests through each door: Python, the command line, MCP and HTTP.
`compare` asks the same again, of the same corpora, and exits with 1 for any difference.

The tree under test is the one that this Python has installed. It builds its own indexes, beside the
corpora, and they go when the run ends. Nothing of tamis is used but `tamis.open` and its command.

Differences come in three groups:
answers  what was found, exit codes and statuses: must be none
errors   what errors, hints and notes say
schemas  the list of MCP tools, and the OpenAPI document
"""

import argparse
import hashlib
import io
import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import anyio
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters

import tamis

Json = Any
Arguments = dict[str, Any]

SEED: Final = 20261118
COUNT: Final = 200  # requests through each door
SHOWN: Final = 4  # differing requests that are shown of each group
SHOWN_PLACES: Final = 6  # differing places that are shown of each of them
WIDTH: Final = 90  # characters of a value that is shown
GROUPS: Final = ("answers", "errors", "schemas")

# Fields that differ from one run to the next.
DROPPED: Final = frozenset(
    {
        "timings_ms",
        "ms",
        "built_at",
        "generation",
        "as_of",
        "age_seconds",
    }
)
# Fields whose values differ: that they are there counts.
HIDDEN: Final = frozenset({"next_cursor"})
# The same in texts.
MASKS: Final = (
    (re.compile(r" *[\d.e+-]+ ms\b"), " N ms"),
    (re.compile(r"\bgeneration \d+"), "generation N"),
    (re.compile(r"\bbuilt at \S+"), "built at T"),
    (re.compile(r"\bindexed at \S+ \(\d+ s ago\)"), "indexed at T"),
    (re.compile(r"\bwith cursor \S+"), "with cursor C"),
    (re.compile(r"\bindex-\d+\b"), "index-N"),
)
# Fields that speak to a reader, and how such lines begin in a text.
SPOKEN: Final = frozenset({"hints", "hint", "note", "notes"})
NOTES: Final = ("note:", "hint:", "error:", "not complete:")

# --- Corpora --------------------------------------------------------------------------------

SOURCES: Final = {
    "docs": "docs",
    "judged": "benchmarks/judged/documents",
    "code": "src/tamis",
}
LEFT_OUT: Final = shutil.ignore_patterns("__pycache__", "*.onnx", ".tamis")
FIRST_DAY: Final = 1_704_067_200  # 2024-01-01
STEP: Final = (
    5 * 86_400
)  # seconds between the times of two files: filters can tell them apart
ARCHIVED: Final = 9  # every ninth file has a copy in archive/

SETTINGS: Final = {
    "docs": """
[workspaces]
decisions = ["decisions"]
aside = ["archive", "nowhere"]
""",
    "judged": """
[chunking]
parents = true

[workspaces]
identity = ["auth"]
data = ["pipeline", "queue"]
""",
    "code": """
[workspaces]
doors = ["doors"]
data = ["engine", "ingest"]
""",
}

TAGS: Final = (
    "[draft]",
    "[guide, search]",
    "[reference, search/filters]",
    "[guide, ops]",
)
AUTHORS: Final = ("Ada Lovelace", "Grace Hopper", "ada lovelace")
CATEGORIES: Final = ("guide", "reference", "concept")
DATES: Final = ("2024-03-05", "2024-11-20", "2025-06-15", "2025-09-01")


def copy_corpora(folder: Path, sources: Sequence[Path]) -> list[Path]:
    """Copy each corpus that is not there yet; give all their roots."""
    roots = []
    for name, source in zip(SOURCES, sources, strict=False):
        root = folder / name / name  # its index lies beside it
        if not root.exists():
            shutil.copytree(source, root, ignore=LEFT_OUT)
            dress(root)
        roots.append(root)
    return roots


def dress(root: Path) -> None:
    """Give a corpus settings, front matter, an archive and fixed times."""
    files = files_of(root)
    plain = [file for file in files if is_plain(file)]
    for number, file in enumerate(plain[::2]):
        text = file.read_text("utf-8")
        file.write_text(front_matter(number) + text, "utf-8")
    archive = root / "archive"
    archive.mkdir(exist_ok=True)
    for file in files[::ARCHIVED]:
        shutil.copy(file, archive / file.name)
    (root / "tamis.toml").write_text(SETTINGS[root.name].lstrip(), "utf-8")
    for number, file in enumerate(files_of(root)):
        moment = FIRST_DAY + number * STEP
        os.utime(file, (moment, moment))


def is_plain(file: Path) -> bool:
    """Whether a file is Markdown without front matter."""
    return file.suffix == ".md" and not file.read_text("utf-8").startswith("---")


def front_matter(number: int) -> str:
    """Front matter that differs from one number to the next."""
    lines = (
        "---",
        f"tags: {TAGS[number % len(TAGS)]}",
        f"author: {AUTHORS[number % len(AUTHORS)]}",
        f"category: {CATEGORIES[number // 2 % len(CATEGORIES)]}",
        f"date: {DATES[number % len(DATES)]}",
        "---",
        "",
    )
    return "\n".join(lines)


def files_of(root: Path) -> list[Path]:
    """All files below a root, in order."""
    return sorted(file for file in root.rglob("*") if file.is_file())


def digest(roots: Sequence[Path]) -> str:
    """A checksum over the paths, times and contents of all files."""
    total = hashlib.sha256()
    for root in roots:
        for file in files_of(root):
            total.update(f"{file} {file.stat().st_mtime_ns}\n".encode())
            total.update(file.read_bytes())
    return total.hexdigest()


# --- What is asked --------------------------------------------------------------------------

QUESTIONS: Final = {
    "docs": (
        "how are archived documents hidden",
        "why is my file not in the answer",
        "how do I exclude a file by its name",
        "which models can be used for embedding",
        "what happens when the disk is full while indexing",
        "how does an AI agent find passages",
        "decision about the vector cache",
        "how is the quality of answers measured",
        "reciprocal rank fusion",
        "watching files for changes",
        "the section on workspaces in [[settings]]",
        "rerank_budget_ms",
        "TAMIS_INDEX_DIR",
        "`tamis doctor --repair`",
        '"next_cursor" of an answer',
        '"an index that never held the rest"',
        "qdrant clustr on severel nodes",
        "serach with filtres",
        "gitignore",
        "recency",
        "mmr",
        "best chocolate cake recipe",
        "filters path:decisions/** -tag:draft",
        "models type:documentation after:2025-01-01",
        "search tag:guide before:2025",
        'cache author:"ada lovelace"',
        "engine is:archived",
        "command line -file:cli.md category:guide",
        "settings workspace:decisions",
    ),
    "judged": (
        "how long is an access token valid",
        "my laptop was stolen, lock it out of everything",
        "how do I set up 2FA",
        "what does OOMKilled exit code 137 mean",
        "put yesterday's build back in front of customers",
        "how does a change get from a push to production",
        "when should tomatoes be watered",
        "who may take vegetables home",
        "what happens to a message that fails again and again",
        "how is personal data kept out of the warehouse",
        "difference between at least once and exactly once",
        "the section on revoking in [[tokens]]",
        "getAuthToken",
        "legacy_secret_env",
        "gatehousectl breakglass",
        '"dead letter" queue',
        "refesh tokn rotaton",
        "canery relase trafic share",
        "compost",
        "backfill",
        "password of the wireless network for visitors",
        "token lifetimes is:archived",
        "secrets after:2026-05-15 tag:deploy",
        "retries under:queue -tag:reference",
        'second factor category:guide author:"security group"',
        "watering path:garden/** -file:watering.md",
        "nightly batch workspace:data before:2026-03",
    ),
    "code": (
        "where is the cursor of an answer made",
        "how are passages with nearly the same text dropped",
        "parse a gitignore pattern",
        "read front matter of a Markdown file",
        "lock so that one process writes at a time",
        "merge the answers of several roots",
        "which exceptions have a hint",
        "BM25 scoring of words",
        "Corpus.search",
        "parse_query",
        "LiveCorpus",
        "hints_of_all",
        "src/tamis/settings.py",
        "wildmatch.py",
        "VectorCache._find",
        '"did you mean"',
        "recipricol rank fuson",
        "embeder threds",
        "snapshot",
        "Cursor",
        "settings type:definitions lang:python",
        "search type:symbols -under:doors",
        "style lang:css",
        "render path:doors/** -path:doors/web/**",
        "links file:links after:2024-06",
        "reader doc:engine/embedded/reader.py",
        "walk workspace:data tag:code",
    ),
}

# What an argument may be, whatever the corpus.
COMMON: Final = {
    "limit": (1, 2, 3, 7, 10, 25, 100),
    "exclude_archived": (True, False),
    "min_score": (0, 0.2, 0.3, 0.5, 0.8),
    "max_chunks_per_doc": (0, 1, 2, 3),
    "unique": (True,),
    # A rerank stops when its time is up, so its answer depends on the machine.
    "rerank": (False,),
    "mmr": (True, True, False),
    "expand_parents": (True, False),
    "max_hops": (0, 1, 2, 3),
    "include_graph_context": (True,),
    "use_rrf": (False, False, True),
    "rerank_with_recency": (True, False),
    "quick": (True,),
    "explain": (True,),
}

# What it may be in each of them.
VALUES: Final = {
    "docs": {
        "excluded_files": (
            ["search.md"],
            ["cli.md", "decisions/0002-models.md"],
            ["./mcp"],
            ["gone.md"],
        ),
        "exclude_patterns": (["decisions/"], ["*.yaml", "c*.md"], ["**", "!search.md"]),
        "include_patterns": (
            ["decisions/**"],
            ["archive/"],
            ["*.md", "!settings.md"],
            ["*.rst"],
        ),
        "workspace": ("decisions", "Aside"),
        "under": (["decisions"], ["archive", "decisions"], ["images"]),
        "tags": (["guide"], ["guide", "search"], ["Search"], ["nobody-has-it"]),
        "chunk_types": (["documentation"], ["code_block", "data"], ["symbols"]),
        "languages": (["yaml", "toml"], ["bash"], ["python", "json"]),
        "author": ("Ada Lovelace", "grace hopper", "nobody"),
        "category": ("guide", "Reference"),
        "modified_after": ("2024-06-01", "2025", "2025-W20"),
        "modified_before": ("2024-12", "2025-06-15", "2024-11-20T12:00"),
        "filter": (
            "(tag:guide | path:decisions/**) -file:mcp.md",
            "archived",
            "type:[data code_block]",
        ),
        "why_not": ("ranking.md", "archive/agents.md", "gone.md"),
    },
    "judged": {
        "excluded_files": (
            ["tokens.md"],
            ["README.md", "queue/retries.md"],
            ["auth/mfa"],
        ),
        "exclude_patterns": (
            ["garden/"],
            ["*/archive/", "*s.md"],
            ["auth/*", "!auth/tokens.md"],
        ),
        "include_patterns": (["auth/**", "deploy/**"], ["archive/"], ["**/re*.md"]),
        "workspace": ("identity", "data"),
        "under": (["auth"], ["queue", "pipeline"], ["deploy/archive"]),
        "tags": (["guide"], ["auth", "security"], ["outdated"], ["reference"]),
        "chunk_types": (["documentation"], ["code_block"], ["documentation", "data"]),
        "languages": (["python", "typescript"], ["yaml"], ["bash", "sql"]),
        "author": ("identity team", "Garden Group", "nobody"),
        "category": ("guide", "reference", "how-to"),
        "modified_after": ("2026-03-01", "2026", "2026-05"),
        "modified_before": ("2026-02", "2026-05-31", "2025"),
        "filter": (
            '(under:auth | tag:operations) -author:"security group"',
            "is:archived",
            "-tag:guide",
        ),
        "why_not": (
            "garden/pests.md",
            "auth/archive/tokens-2024.md",
            "queue/retries.md",
        ),
    },
    "code": {
        "excluded_files": (
            ["__init__.py"],
            ["corpus.py", "doors/mcp.py"],
            ["search/links"],
        ),
        "exclude_patterns": (
            ["doors/"],
            ["*.js", "*.css"],
            ["engine/**", "!engine/graph.py"],
        ),
        "include_patterns": (
            ["search/*.py"],
            ["archive/"],
            ["doors/**", "!doors/web/"],
        ),
        "workspace": ("doors", "data"),
        "under": (["search"], ["ingest", "models"], ["doors/web"]),
        "tags": (["python"], ["code", "definitions"], ["documentation"]),
        "chunk_types": (
            ["definitions"],
            ["symbols", "code_block"],
            ["data", "documentation"],
        ),
        "languages": (["python"], ["javascript", "css"], ["html"]),
        "author": ("Ada Lovelace", "nobody"),
        "category": ("guide",),
        "modified_after": ("2024-06-01", "2025"),
        "modified_before": ("2024-12", "2025-03-31"),
        "filter": (
            "lang:python -(under:doors | under:engine)",
            "type:definitions",
            "nothing",
        ),
        "why_not": ("filters.py", "doors/web/app.js", "archive/plan.py"),
    },
}
NAMES: Final = (*COMMON, *VALUES["docs"])

# What no door may take.
WRONG: Final[tuple[Arguments, ...]] = (
    {"limit": 0},
    {"limit": 101},
    {"limit": "many"},
    {"min_score": 1.5},
    {"min_score": "high"},
    {"max_hops": 4},
    {"max_chunks_per_doc": -1},
    {"workspace": "nowhere"},
    {"chunk_types": ["symbol"]},
    {"languages": ["pyhton"]},
    {"modified_after": "2026-13-45"},
    {"modified_before": "yesterday"},
    {"filter": "tag:"},
    {"filter": "(tag:guide"},
    {"filter": "colour:red"},
    {"tags": [5]},
    {"under": ["../.."]},
    {"limt": 3},
    {"langauges": ["python"]},
    {"query": ""},
    {"query": "tag:guide"},
    {"query": "x" * 20_001},
    {"query": "retry lang:pyhton"},
)
WRONG_KINDS: Final[tuple[Arguments, ...]] = (
    {"excluded_files": 7},
    {"unique": "yes"},
)
NARROWING: Final = (
    *(
        "excluded_files",
        "exclude_patterns",
        "include_patterns",
        "workspace",
        "under",
        "tags",
    ),
    *(
        "chunk_types",
        "languages",
        "author",
        "category",
        "modified_after",
        "modified_before",
    ),
    *("exclude_archived", "filter"),
)


class Asker:
    """Requests by chance, the same whenever they are made."""

    def __init__(self, door: str, roots: Sequence[Path]) -> None:
        self.chance = random.Random(f"{SEED} {door}")
        self.roots = {root.name: root for root in roots}
        self.turn = 0

    def root(self) -> str:
        """Choose a corpus."""
        return self.chance.choice(list(self.roots))

    def root_or_none(self) -> str | None:
        """Choose a corpus, or all of them."""
        return self.chance.choice((*self.roots, None))

    def question(self, root: str | None) -> str:
        """Choose a question about a corpus."""
        return self.chance.choice(QUESTIONS[root or self.root()])

    def arguments(self, root: str | None, names: Sequence[str]) -> Arguments:
        """Choose some arguments: each of the names has its turn, others may join it."""
        first = names[self.turn % len(names)]
        self.turn += 1
        more = self.chance.sample(list(names), self.chance.choice((0, 0, 1, 1, 2, 3)))
        about = root or self.root()
        chosen = dict.fromkeys((first, *more))
        return {name: self.value(about, name) for name in chosen}

    def value(self, root: str, name: str) -> Json:
        """Choose a value for an argument."""
        if name == "rerank_with_recency" and root == "judged":
            return False  # its documents are young: their ages matter from day to day
        choices = COMMON.get(name) or VALUES[root][name]
        return self.chance.choice(choices)

    def document(self, root: str) -> str:
        """Choose the path of a document."""
        files = [
            file for file in files_of(self.roots[root]) if file.suffix in {".md", ".py"}
        ]
        return self.chance.choice(files).relative_to(self.roots[root]).as_posix()


def filled(good: Callable[[], Json], wrong: Sequence[Json]) -> list[Json]:
    """As many good requests as there is room for, and the wrong ones."""
    return [*(good() for _ in range(COUNT - len(wrong))), *wrong]


# --- Python ---------------------------------------------------------------------------------


def requests_of_python(roots: Sequence[Path]) -> list[Json]:
    """Searches with every argument there is."""
    asker = Asker("python", roots)

    def good() -> Json:
        root = asker.root()
        query = asker.question(root)
        return {
            "root": root,
            "arguments": {"query": query} | asker.arguments(root, NAMES),
        }

    usual = {"query": "how are retries limited"}
    wrong = (*WRONG, *WRONG_KINDS)
    return filled(
        good, [{"root": asker.root(), "arguments": usual | each} for each in wrong]
    )


def answers_of_python(
    roots: Sequence[Path], requests: Sequence[Json]
) -> Iterator[Json]:
    """What `Corpus.search` gives or raises."""
    corpora = {root.name: tamis.open(root) for root in roots}
    for request in requests:
        corpus = corpora[request["root"]]
        try:
            found = corpus.search(**request["arguments"])
        except Exception as error:  # noqa: BLE001 - every fault is an answer here
            said = {"message": str(error), "hint": getattr(error, "hint", None)}
            yield {"failed": True, "code": type(error).__name__, "body": said}
        else:
            yield {"failed": False, "code": 0, "body": found.to_dict()}
    for corpus in corpora.values():
        corpus.close()


# --- The command line -----------------------------------------------------------------------

OPTIONS: Final = {
    "limit": "--limit",
    "excluded_files": "--exclude-file",
    "exclude_patterns": "--exclude",
    "include_patterns": "--include",
    "workspace": "--workspace",
    "under": "--under",
    "tags": "--tag",
    "chunk_types": "--type",
    "languages": "--lang",
    "author": "--author",
    "category": "--category",
    "modified_after": "--after",
    "modified_before": "--before",
    "min_score": "--min-score",
    "max_hops": "--hops",
    "filter": "--filter",
    "why_not": "--why-not",
}
FLAGS: Final = {
    "exclude_archived": ("", "--archived"),
    "unique": ("--unique", ""),
    "rerank": ("--rerank", "--no-rerank"),
    "mmr": ("--mmr", "--no-mmr"),
    "expand_parents": ("--parents", "--no-parents"),
    "include_graph_context": ("--related", ""),
    "use_rrf": ("--rrf", "--no-rrf"),
    "rerank_with_recency": ("--recency", "--no-recency"),
    "quick": ("--quick", ""),
    "explain": ("--explain", ""),
}
PRESETS: Final = ("fast", "balanced", "best")


def requests_of_cli(roots: Sequence[Path]) -> list[Json]:
    """Searches with every option there is; most print JSON, some text."""
    asker = Asker("cli", roots)
    names = (*OPTIONS, *FLAGS)

    def good() -> Json:
        root = asker.root()
        query = asker.question(root)
        words = ["search", query, str(asker.roots[root])]
        words += options(asker.arguments(root, names))
        if asker.turn % 25 == 0:
            words += ["--preset", asker.chance.choice(PRESETS)]
        if asker.turn % 6:
            words.append("--json")
        return words

    def wrong(arguments: Arguments) -> Json:
        given = {"query": "how are retries limited"} | arguments
        query = given.pop("query")
        return ["search", query, str(roots[0]), "--json", *options(given)]

    others = (
        ["search", "retries", "/nowhere/at/all"],
        ["search", "retries", str(roots[0]), "--preset", "bets"],
        ["search", "retries", str(roots[0]), "--quick", "--no-rrf"],
        ["serach", "retries"],
        ["search"],
    )
    return filled(good, [*map(wrong, WRONG), *others])


def options(arguments: Arguments) -> list[str]:
    """Write arguments as options; one that has none is written by its name."""
    words = []
    for name, value in arguments.items():
        if name in FLAGS:
            yes, no = FLAGS[name]
            words += [yes] if value else [no]
            continue
        option = OPTIONS.get(name, f"--{name}")
        values = value if isinstance(value, list) else [value]
        for each in values:
            words += [option, str(each)]
    return [word for word in words if word]


def answers_of_cli(_: Sequence[Path], requests: Sequence[Json]) -> Iterator[Json]:
    """What the command prints, and its exit code."""
    (command,) = entry_points(group="console_scripts", name="tamis")
    main = command.load()
    for words in requests:
        code, out, err = ran(main, words)
        is_json = "--json" in words and out.startswith("{")
        body = json.loads(out) if is_json else told(out)
        yield {
            "failed": code not in (0, 1),
            "code": code,
            "body": body,
            "notes": told(err),
        }


def ran(main: Callable[[], object], words: Sequence[str]) -> tuple[Json, str, str]:
    """Call a command in this process; give its exit code and what it printed."""
    out, err = (
        io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)
    )
    before = sys.argv
    sys.argv = ["tamis", *words]
    code = None
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv = before
    return code, printed(out), printed(err)


def printed(stream: io.TextIOWrapper) -> str:
    """All that was written to a stream."""
    return stream.buffer.getvalue().decode("utf-8")


# --- MCP ------------------------------------------------------------------------------------

PAGE: Final = ("limit", "max_tokens", "min_score")
GRAPH: Final = ("include_graph_context", "max_hops", "use_rrf")
TOOLS: Final = {
    "query_documents": (*PAGE, *NARROWING),
    "query_unique_documents": (*PAGE, *NARROWING),
    "graphrag_hybrid_search": (*PAGE, *NARROWING, *GRAPH),
}
TOKENS: Final = (300, 1000, 2500, 20_000)


def requests_of_mcp(roots: Sequence[Path]) -> list[Json]:
    """Calls of every tool; some ask for a second page."""
    asker = Asker("mcp", roots)
    kinds = (*TOOLS, *TOOLS, "query_documents", "get_passage")

    def good() -> Json:
        kind = kinds[asker.turn % len(kinds)]
        if kind == "get_passage":
            return passage_call(asker)
        return search_call(asker, kind)

    def wrong(number: int, arguments: Arguments) -> Json:
        tool = list(TOOLS)[number % len(TOOLS)]
        given = {"query": "how are retries limited"} | arguments
        return {"tool": tool, "arguments": given, "pages": 1}

    bad = [wrong(number, each) for number, each in enumerate((*WRONG, *WRONG_KINDS))]
    others = (
        {"tool": "query_documents", "arguments": {"limit": 3}, "pages": 1},
        {
            "tool": "query_documents",
            "arguments": {"query": "x", "root": "attic"},
            "pages": 1,
        },
        {
            "tool": "query_documents",
            "arguments": {"query": "x", "cursor": "W10"},
            "pages": 1,
        },
        {"tool": "get_passage", "arguments": {}, "pages": 1},
        {"tool": "get_passage", "arguments": {"path": "gone.md"}, "pages": 1},
        {"tool": "no_such_tool", "arguments": {}, "pages": 1},
        {"tool": "index_status", "arguments": {}, "pages": 1},
        {"tool": "index_status", "arguments": {"root": "code"}, "pages": 1},
    )
    return filled(good, [*bad, *others])


def search_call(asker: Asker, tool: str) -> Json:
    """A search in one root or in all."""
    root = asker.root_or_none()
    given = {"query": asker.question(root)}
    names = [name for name in TOOLS[tool] if name != "max_tokens"]
    given |= asker.arguments(root, names)
    if asker.turn % 5 == 0:
        given["max_tokens"] = asker.chance.choice(TOKENS)
    if tool == "graphrag_hybrid_search":
        is_old = root in ("docs", "code")
        given["rerank_with_recency"] = is_old and asker.chance.choice((True, False))
    if root:
        given["root"] = root
    return {"tool": tool, "arguments": given, "pages": asker.chance.choice((1, 1, 2))}


def passage_call(asker: Asker) -> Json:
    """A look at lines, or at a passage with its neighbours."""
    asker.turn += 1
    root = asker.root()
    path = asker.document(root)
    chance = asker.chance
    line = chance.randrange(1, 40)
    given = chance.choice(
        (
            {"path": path},
            {"path": path, "start_line": line, "end_line": line + 15},
            {"chunk_id": f"{path}#{chance.randrange(3)}"},
            {"chunk_id": f"{path}#0", "neighbours": chance.randrange(1, 4)},
        )
    )
    return {"tool": "get_passage", "arguments": given | {"root": root}, "pages": 1}


def answers_of_mcp(roots: Sequence[Path], requests: Sequence[Json]) -> list[Json]:
    """What the tools answer, as text and as values."""

    async def ask_all() -> list[Json]:
        async with Client(mcp_server(roots)) as client:
            return [await called(client, request) for request in requests]

    return anyio.run(ask_all)


def schemas_of_mcp(roots: Sequence[Path]) -> Json:
    """The tools as they are listed."""

    async def ask() -> Json:
        async with Client(mcp_server(roots)) as client:
            listed = await client.list_tools()
            return [
                tool.model_dump(mode="json", exclude_none=True) for tool in listed.tools
            ]

    return anyio.run(ask)


def mcp_server(roots: Sequence[Path]) -> StdioServerParameters:
    """How a client starts the server."""
    words = ["-m", "tamis", "mcp"]
    for root in roots:
        words += ["--root", str(root)]
    place = str(roots[0].parent)
    known = dict(os.environ)
    return StdioServerParameters(
        command=sys.executable, args=words, env=known, cwd=place
    )


async def called(client: Client, request: Json) -> Json:
    """Call a tool, page by page."""
    pages = []
    given = dict(request["arguments"])
    failed = False
    for _ in range(request["pages"]):
        try:
            answer = await client.call_tool(request["tool"], given)
        except MCPError as error:
            pages.append({"message": str(error)})
            failed = True
            break
        failed = failed or bool(answer.is_error)
        found = answer.structured_content or {}
        texts = [told(each.text) for each in answer.content if each.type == "text"]
        links = [
            str(each.uri) for each in answer.content if each.type == "resource_link"
        ]
        pages.append({"found": found, "texts": texts, "links": links})
        if "next_cursor" not in found:
            break
        given["cursor"] = found["next_cursor"]
    return {"failed": failed, "code": int(failed), "body": pages}


# --- HTTP -----------------------------------------------------------------------------------

API: Final = "/api/v1"
PATIENCE: Final = 60.0  # seconds until the server must listen
LISTS: Final = ("/facets", "/documents")


def requests_of_http(roots: Sequence[Path]) -> list[Json]:
    """Searches by GET and POST, and what else can be looked at."""
    asker = Asker("http", roots)
    others = (facets_get, document_get, passage_get, graph_get)

    def good() -> Json:
        number = asker.turn
        if number % 3 == 2:
            asker.turn += 1
            return others[number // 3 % len(others)](asker)
        return search_request(asker, is_get=number % 2 == 0)

    def wrong(number: int, arguments: Arguments) -> Json:
        given = {"query": "how are retries limited"} | arguments
        return get("/search", given) if number % 2 else post("/search", given)

    bad = [wrong(number, each) for number, each in enumerate((*WRONG, *WRONG_KINDS))]
    bad += (
        get("/search", {}),
        get("/search", {"query": "x", "root": "attic"}),
        get("/search", {"query": "x", "cursor": "W10"}),
        get("/documents/gone.md", {}),
        get("/passages/gone.md%231", {}),
        get("/graph", {}),
        get("/nothing", {}),
        post("/facets", {}),
        get("/status", {}),
        get("/health", {}),
    )
    return filled(good, bad)


def search_request(asker: Asker, *, is_get: bool) -> Json:
    """A search in one root or in all."""
    root = asker.root_or_none()
    given = {"query": asker.question(root)} | asker.arguments(root, NAMES)
    if root:
        given["root"] = root
    elif "rerank_with_recency" in given:
        given["rerank_with_recency"] = False
    if asker.turn % 7 == 0:
        given["marks"] = True
    pages = asker.chance.choice((1, 1, 2))
    return get("/search", given, pages) if is_get else post("/search", given, pages)


def facets_get(asker: Asker) -> Json:
    """Counts, or a list of documents, under a filter."""
    root = asker.root_or_none()
    given = asker.arguments(root, NARROWING)
    if root:
        given["root"] = root
    path = asker.chance.choice(LISTS)
    if path == "/documents":
        given["limit"] = asker.chance.choice((3, 20, 100))
    return get(path, given, 2)


def document_get(asker: Asker) -> Json:
    """A document with its links."""
    root = asker.root()
    given = {"root": root, "html": asker.chance.choice((True, False))}
    return get(f"/documents/{quote(asker.document(root))}", given)


def passage_get(asker: Asker) -> Json:
    """A passage, perhaps with its neighbours."""
    root = asker.root()
    chunk = f"{asker.document(root)}#{asker.chance.randrange(3)}"
    given = {"root": root, "neighbours": asker.chance.randrange(3)}
    return get(f"/passages/{quote(chunk)}", given)


def graph_get(asker: Asker) -> Json:
    """The links round a document."""
    root = asker.root()
    hops = asker.chance.randrange(1, 4)
    return get("/graph", {"root": root, "around": asker.document(root), "hops": hops})


def get(path: str, given: Arguments, pages: int = 1) -> Json:
    """A request with its arguments in the address."""
    fields = []
    for name, value in given.items():
        values = value if isinstance(value, list) else [value]
        fields += [[name, in_address(each)] for each in values]
    return {"method": "GET", "path": path, "fields": fields, "pages": pages}


def in_address(value: Json) -> str:
    """Write a value as addresses have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def post(path: str, given: Arguments, pages: int = 1) -> Json:
    """A request with its arguments in the body."""
    return {"method": "POST", "path": path, "body": given, "pages": pages}


def answers_of_http(roots: Sequence[Path], requests: Sequence[Json]) -> Iterator[Json]:
    """What the API answers, and its status."""
    with serving(roots) as address:
        for request in requests:
            yield requested(address, request)


def schemas_of_http(roots: Sequence[Path]) -> Json:
    """The OpenAPI document."""
    with serving(roots) as address:
        return sent(address, get("/openapi.json", {}), None)[1]


@contextmanager
def serving(roots: Sequence[Path]) -> Iterator[str]:
    """A server over all roots; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    words = [
        sys.executable,
        "-m",
        "tamis",
        "serve",
        *map(str, roots),
        "--port",
        str(port),
    ]
    address = f"http://127.0.0.1:{port}{API}"
    quiet = subprocess.DEVNULL
    with subprocess.Popen(
        words, cwd=roots[0].parent, stdout=quiet, stderr=quiet
    ) as server:
        try:
            wait_for(server, address)
            yield address
        finally:
            server.terminate()


def wait_for(server: subprocess.Popen[bytes], address: str) -> None:
    """Wait until the server answers."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if server.poll() is not None:
            break
        try:
            urlopen(f"{address}/health").close()
        except URLError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("the HTTP server does not answer")


def requested(address: str, request: Json) -> Json:
    """Ask, page by page."""
    pages = []
    cursor = None
    for _ in range(request["pages"]):
        status, body = sent(address, request, cursor)
        pages.append(body)
        cursor = body.get("next_cursor")
        if cursor is None:
            break
    return {"failed": status >= 400, "code": status, "body": pages}


def sent(address: str, request: Json, cursor: str | None) -> tuple[int, Json]:
    """Send a request; give the status and the body."""
    more = {} if cursor is None else {"cursor": cursor}
    where = address + request["path"]
    data = None
    if request["method"] == "POST":
        data = json.dumps(request["body"] | more).encode()
    else:
        fields = [(name, value) for name, value in request["fields"]]
        where += "?" + urlencode([*fields, *more.items()])
    made = Request(
        where, data, {"Content-Type": "application/json"}, method=request["method"]
    )
    try:
        with urlopen(made) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


# --- What counts of an answer ---------------------------------------------------------------


def told(text: str) -> Json:
    """A text by lines, without what differs from run to run; notes apart."""
    for pattern, instead in MASKS:
        text = pattern.sub(instead, text)
    lines = text.split("\n")
    notes = [line for line in lines if line.startswith(NOTES)]
    rest = [line for line in lines if not line.startswith(NOTES)]
    return {"lines": rest, "notes": notes}


def clean(value: Json) -> Json:
    """An answer as it is in JSON, without what differs from run to run."""
    if isinstance(value, Mapping):
        kept = {name: each for name, each in value.items() if name not in DROPPED}
        return {
            name: "..." if name in HIDDEN else clean(each)
            for name, each in kept.items()
        }
    if isinstance(value, list | tuple):
        return [clean(each) for each in value]
    return value


# --- Asking all doors -----------------------------------------------------------------------

DOORS: Final = {
    "python": (requests_of_python, answers_of_python),  # first: it builds the indexes
    "cli": (requests_of_cli, answers_of_cli),
    "mcp": (requests_of_mcp, answers_of_mcp),
    "http": (requests_of_http, answers_of_http),
}
SCHEMAS: Final = {
    "mcp": schemas_of_mcp,
    "http": schemas_of_http,
}


@contextmanager
def own_indexes(roots: Sequence[Path]) -> Iterator[None]:
    """Indexes of this run alone, and no settings of the user's."""
    for name in list(os.environ):
        if name.startswith(("TAMIS_", "GRAPHRAG_")):
            del os.environ[name]
    index = f"index-{os.getpid()}"
    os.environ["TAMIS_INDEX_DIR"] = f"../{index}"  # seen from each root
    os.environ["TAMIS_USER_CONFIG"] = os.devnull
    os.environ["NO_COLOR"] = "1"
    os.environ["COLUMNS"] = "100"
    try:
        yield
    finally:
        for root in roots:
            shutil.rmtree(root.parent / index, ignore_errors=True)


def ask_all(
    roots: Sequence[Path], requests: Mapping[str, Sequence[Json]]
) -> dict[str, list[Json]]:
    """All answers, by door."""
    answers = {}
    for door, (_, ask) in DOORS.items():
        began = time.monotonic()
        found = [clean(each) for each in ask(roots, requests[door])]
        answers[door] = found
        say(f"{door}: {summary(found)}, {time.monotonic() - began:.0f} s")
    answers["schemas"] = [clean(ask(roots)) for ask in SCHEMAS.values()]
    return answers


def summary(answers: Sequence[Json]) -> str:
    """How many answers there are, and how many of them are errors."""
    failed = sum(answer["failed"] for answer in answers)
    return f"{len(answers)} answers, {failed} of them errors"


def say(line: str) -> None:
    """Tell how far it is."""
    print(line, file=sys.stderr, flush=True)


# --- Comparing ------------------------------------------------------------------------------

Difference = tuple[str, Json, Json]  # where, what was recorded, what is answered now
NOTHING: Final = "(nothing)"


def leaves(value: Json, place: str = "") -> Iterator[tuple[str, Json]]:
    """Every single value in an answer, with its place."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from leaves(each, f"{place}/{name}")
    elif isinstance(value, list) and value:
        for number, each in enumerate(value):
            yield from leaves(each, f"{place}/{number}")
    else:
        yield place, value


def differences(old: Json, new: Json) -> list[Difference]:
    """The places where two answers differ."""
    before, now = dict(leaves(old)), dict(leaves(new))
    places = dict.fromkeys((*before, *now))
    pairs = [
        (place, before.get(place, NOTHING), now.get(place, NOTHING)) for place in places
    ]
    return [pair for pair in pairs if is_other(pair[1], pair[2])]


def is_other(old: Json, new: Json) -> bool:
    """Whether two values differ; 1, 1.0 and true do."""
    return type(old) is not type(new) or old != new


def by_group(door: str, old: Json, new: Json) -> dict[str, list[Difference]]:
    """The differences of two answers, each in its group."""
    found = differences(old, new)
    if door == "schemas":
        return {"schemas": found}
    if old["failed"] != new["failed"] or old["code"] != new["code"]:
        return {"answers": found}
    if old["failed"]:
        return {"errors": found}
    spoken = [each for each in found if is_spoken(each[0])]
    others = [each for each in found if not is_spoken(each[0])]
    return {"answers": others, "errors": spoken}


def is_spoken(place: str) -> bool:
    """Whether a place holds a text for a reader, such as a hint."""
    return not SPOKEN.isdisjoint(place.split("/"))


def report(recorded: Json, answers: Mapping[str, Sequence[Json]]) -> int:
    """Print how many answers differ, and some of them; give how many."""
    found: dict[str, list[tuple[str, Json, list[Difference]]]] = {
        group: [] for group in GROUPS
    }
    for door, now in answers.items():
        asked, before = recorded["requests"][door], recorded["answers"][door]
        for request, old, new in zip(asked, before, now, strict=True):
            for group, different in by_group(door, old, new).items():
                if different:
                    found[group].append((door, request, different))
    for group, each in found.items():
        show(group, each)
    counts = {group: len(each) for group, each in found.items()}
    total = sum(map(len, answers.values()))
    print(f"{total} answers compared; that differ: {told_counts(counts)}")
    return sum(counts.values())


def told_counts(counts: Mapping[str, int]) -> str:
    """Write counts by name."""
    return ", ".join(f"{count} in {name}" for name, count in counts.items())


def show(group: str, found: Sequence[tuple[str, Json, list[Difference]]]) -> None:
    """Print the first differing answers of a group."""
    for door, request, different in found[:SHOWN]:
        print(f"{group}: {door} {json.dumps(request, ensure_ascii=False)[: 3 * WIDTH]}")
        for place, old, new in different[:SHOWN_PLACES]:
            print(f"  {place}")
            print(f"    - {short(old)}")
            print(f"    + {short(new)}")
        if len(different) > SHOWN_PLACES:
            print(f"  ... {len(different)} places in all")
    if len(found) > SHOWN:
        print(f"{group}: ... {len(found)} answers in all")


def short(value: Json) -> str:
    """A value that fits a line."""
    text = repr(value)
    return text if len(text) <= WIDTH else f"{text[:WIDTH]}..."


# --- The command ----------------------------------------------------------------------------


def record(out: Path, sources: Sequence[Path]) -> int:
    """Ask, and write down requests and answers."""
    tree = Path(tamis.__file__).parents[2]
    usual = [tree / place for place in SOURCES.values()]
    roots = copy_corpora(out.resolve().parent, sources or usual)
    requests = {door: make(roots) for door, (make, _) in DOORS.items()}
    with own_indexes(roots):
        answers = ask_all(roots, requests)
    requests["schemas"] = list(SCHEMAS)
    written = {
        "roots": list(map(str, roots)),
        "digest": digest(roots),
        "requests": requests,
        "answers": answers,
    }
    out.write_text(json.dumps(written, indent=1, ensure_ascii=False), "utf-8")
    print(f"{sum(map(len, answers.values()))} answers of {tree} in {out}")
    return 0


def compare(out: Path) -> int:
    """Ask again what was recorded."""
    recorded = json.loads(out.read_text("utf-8"))
    roots = list(map(Path, recorded["roots"]))
    if digest(roots) != recorded["digest"]:
        raise SystemExit("the corpora are not what they were: record again")
    say(f"asking {Path(tamis.__file__).parent}")
    with own_indexes(roots):
        answers = ask_all(roots, recorded["requests"])
    answers = json.loads(json.dumps(answers))
    return 1 if report(recorded, answers) else 0


def main() -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("out", type=Path, metavar="OUT.json")
    parser.add_argument("roots", type=Path, nargs="*", metavar="ROOT")
    given = parser.parse_args()
    if given.action == "record":
        return record(given.out, given.roots)
    return compare(given.out)


if __name__ == "__main__":
    sys.exit(main())
