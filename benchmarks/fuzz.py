"""Files that nobody wrote, through the indexing path: nothing may fail, hang or grow.

python benchmarks/fuzz.py [--cases 100000] [--seed 1] [--kind KIND ...] [--keep FOLDER]
python benchmarks/fuzz.py --atheris 300 --kind markdown      # guided by coverage; pip install atheris==3.0.0

A case is a file: made by rules (Markdown, front matter, notebooks, data, ignore files, source of every
language), then mutated byte by byte, piece by piece, by repetition and by nesting. It is decoded, parsed,
cut, tokenized and its links are named, as indexing does, and what comes out is held against what the index
promises of its passages. One case in ten is also written to a folder that is indexed for real, a thousand
cases at a time, and `tamis doctor` looks at the result. A failure is an exception, a broken promise, or more
than a second of CPU time; each is kept as a file under `--keep`. A grammar that takes longer than its limit
is ended (`ingest/isolated.py`): these are counted.
"""

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tamis.configuration import load
from tamis.corpus import Corpus
from tamis.gitignore.patterns import PatternList, parse_lines
from tamis.index.embedded.segment import Lanes
from tamis.ingest.code.child import CHILD
from tamis.ingest.parse import parse
from tamis.ingest.read import Source, decode
from tamis.model import INDEX_FOLDER
from tamis.settings import ChunkingSettings
from tamis.text.languages import CODE_LANGUAGE, DATA_LANGUAGE
from tamis.text.linking import key_of, names_of
from tamis.text.words import content_hash
from tamis.weights import FIELD_WEIGHTS

Make = Callable[[random.Random], str]

LONGEST = 1.0  # seconds of CPU time for one file
LARGEST = 10_000  # bytes of a case; of one in a hundred four times that
WARM = 500  # cases before memory is measured
TOGETHER = 1_000  # cases, of which every tenth is indexed for real
SIZES = (ChunkingSettings(), ChunkingSettings(parents=True))
WORDS = (
    "alpha", "beta", "the", "a", "retry policy", "caf\u00e9", "\u4f60\u597d",
    "x" * 300, "\u202etxt", "\x1b[31m",
    "\u200b", "\ufeff", "\U0001f600", "e\u0301\u0301\u0301", "\udc80", "ﬁ", "İ", "ß",
)  # fmt: skip
BITS = (
    "#", "##", "---", "+++", "```", "~~~", "[[", "]]", "![[", "](", "[", "]", "(", ")", "<", ">",
    "|", "|-|-|", "- ", "1. ",
    "> ", "\t", "    ", "\n", "\n\n", "\r\n", "\r", ":", "::", ": |\n  ", "&a", "*a",
    "!!python/object:os.system", "{", "}",
    "\"", "'", "\\", "\\u", "\\ud800", "//", "/*", "*/", "<!--", "-->", "<![CDATA[", "${", "#{",
    "=>", "->", "**", "_", "$$",
    "{%", "%}", "{{", "}}", "null", "true", "1e999", "9" * 400, "2026-13-45", "!", "/", "**/", "*",
    "?", "[a-", "[!", ".gitignore",
    ":include:", "\x00", "\x0c", "\x1c", "\x85", "\u2028", "\x7f", "\x9b", "#tag", "@", "`", "``", "=====",
    "-----", "..", "../", ";",
)  # fmt: skip
SOURCE = {
    "bash": "f() {\n  echo \"$1\" <<EOF\nx\nEOF\n}\n",
    "c": "#include <a.h>\nstruct s { int a; };\nint main(void) { return f(\"x\"); }\n",
    "cpp": "namespace n { template <class T> class A : B<T> { T f() const; }; }\n",
    "csharp": "namespace N { public class A { public int F(string s) => 1; } }\n",
    "css": "@media x { .a > #b:hover { color: red; } }\n",
    "elixir": "defmodule A do\n  def f(x), do: x |> g()\nend\n",
    "go": "package a\n\nimport \"fmt\"\n\nfunc (t *T) F(a int) error { return nil }\n",
    "haskell": "module A where\nf :: Int -> Int\nf x = case x of { 1 -> 2; _ -> x }\n",
    "html": "<!doctype html><p id=a>x<script>let a = 1</script></p>\n",
    "java": "package a;\nclass A<T extends B> implements C { @X int f(List<? super T> a) { return 1; } }\n",
    "javascript": "import {a} from './b.js'\nexport class A extends B { #x = `t${1}`; async f() {} }\n",
    "kotlin": "package a\ndata class A(val x: Int) { fun f() = x }\n",
    "lua": "local M = {}\nfunction M.f(a) return [[x]] end\nreturn M\n",
    "perl": "package A;\nsub f { my ($x) = @_; return $x =~ m/a/; }\n1;\n",
    "php": "<?php\nnamespace A;\nclass B { function f(int $x): int { return $x; } }\n",
    "python": "import os\n\nclass A(B):\n    '''Doc.'''\n    async def f(self, *a: int): return f'{a!r}'\n",
    "r": "f <- function(x, ...) { x %>% g() }\n",
    "ruby": "module A\n  class B < C\n    def f(x) = x&.y\n  end\nend\n",
    "rust": "use a::b;\nimpl<'a, T: X> A<'a> for B { fn f(&self) -> Option<T> { r#\"x\"#; None } }\n",
    "scala": "package a\nobject A extends B { def f[T](x: T) = x match { case _ => 1 } }\n",
    "swift": "import A\nclass B: C { func f(_ x: Int) -> Int? { return x } }\n",
    "typescript": "export interface A<T> { f(x: T): Promise<void> }\nconst x = <T,>(y: T) => y\n",
    "vue": "<template><p v-if='a'>x</p></template>\n<script>\nexport default {}\n</script>\n",
    "zig": "const std = @import(\"std\");\npub fn f(a: i32) !i32 { return a; }\n",
    "csv": "a,b\n1,\"x\ny\"\n",
    "ini": "[a]\nb = 1\n; c\n",
    "json": '{"a": [1, {"b": "c"}], "d": null}\n',
    "sql": "CREATE TABLE a (b INT);\nSELECT 'x' FROM a;\n",
    "toml": 'a.b = 1\n[c."d"]\ne = """x"""\n[[f]]\n',
    "xml": "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY x 'y'>]><a b='&x;'><c/></a>\n",
    "yaml": "a: &x\n  - b\n  - {c: d}\ne: *x\n",
}  # fmt: skip


# --- Making files ----------------------------------------------------------------------------------


def words(chance: random.Random) -> str:
    return " ".join(
        chance.choice((*WORDS, *BITS) if chance.random() < 0.2 else WORDS)
        for _ in range(chance.randint(1, 12))
    )


def markdown(chance: random.Random) -> str:
    return (front_matter(chance) if chance.random() < 0.4 else "") + "".join(
        block(chance, 0) for _ in range(chance.randint(1, 12))
    )


def block(chance: random.Random, depth: int) -> str:
    kind = chance.randrange(9)
    if kind == 0:
        return f"{'#' * chance.randint(1, 7)} {words(chance)}\n\n"
    if kind == 1:
        fence = chance.choice(("```", "~~~", "````"))
        return f"{fence}{chance.choice((*SOURCE, ''))}\n{chance.choice(tuple(SOURCE.values()))}{fence}\n\n"
    if kind == 2 and depth < 6:
        inner = block(chance, depth + 1)
        mark = chance.choice(("> ", "- ", "  ", "1. ", "    "))
        return "".join(f"{mark}{line}\n" for line in inner.split("\n"))
    if kind == 3:
        one, two = words(chance), words(chance)
        return f"[[{one}#{two}|{words(chance)}]] ![[{words(chance)}]] [a]({words(chance)} 'b')\n\n"
    if kind == 4:
        return f"| a | b |\n|---|:-:|\n| {words(chance)} | {words(chance)} |\n\n"
    if kind == 5:
        return f"<div>\n{words(chance)}\n</div>\n<!-- {words(chance)}\n\n"
    if kind == 6:
        return f"{words(chance)}\n{chance.choice('=-')}{chance.choice('=- ') * chance.randint(0, 5)}\n\n"
    return f"{words(chance)} #{words(chance)}\n{words(chance)}\n\n"


def front_matter(chance: random.Random) -> str:
    names = (
        "title",
        "tags",
        "aliases",
        "author",
        "modified",
        "keywords",
        "related",
        "category",
        "date",
        words(chance),
    )
    if chance.random() < 0.3:
        lines = (
            f"{chance.choice(names)} = {json.dumps(value(chance, 2))}"
            for _ in range(chance.randint(0, 6))
        )
        return "+++\n" + "\n".join(lines) + "\n+++\n"
    lines = (
        f"{chance.choice(names)}: {chance.choice((as_yaml, plain_yaml))(chance)}"
        for _ in range(chance.randint(0, 8))
    )
    return "---\n" + "\n".join(lines) + chance.choice(("\n---\n", "\n...\n", "\n", ""))


def as_yaml(chance: random.Random) -> str:
    return json.dumps(value(chance, 0))


def plain_yaml(chance: random.Random) -> str:
    return chance.choice(
        (
            words(chance),
            f"\n  - {words(chance)}\n  - {words(chance)}",
            f"|\n  {words(chance)}",
            "*a",
            "&a [*a]",
            "!!binary x",
            "2026-05-01",
            "0x1f",
            "1_000",
            "~",
        )
    )


def value(chance: random.Random, depth: int) -> object:
    if depth > 5 or chance.random() < 0.5:
        return chance.choice(
            (words(chance), 1, -1.5, True, None, 10**30, "2026-05-01", "")
        )
    if chance.random() < 0.5:
        return [value(chance, depth + 1) for _ in range(chance.randint(0, 4))]
    return {
        words(chance): value(chance, depth + 1) for _ in range(chance.randint(0, 4))
    }


def notebook(chance: random.Random) -> str:
    cells = [
        {
            "cell_type": chance.choice(("markdown", "code", "raw", "?")),
            "source": chance.choice(
                (
                    markdown(chance),
                    markdown(chance).splitlines(keepends=True),
                    value(chance, 3),
                )
            ),
            "outputs": value(chance, 2),
            "metadata": value(chance, 3),
        }
        for _ in range(chance.randint(0, 6))
    ]
    book = {
        "cells": cells,
        "metadata": chance.choice(
            ({"kernelspec": {"language": "python"}}, value(chance, 2))
        ),
        "nbformat": 4,
    }
    return json.dumps(
        book if chance.random() < 0.9 else value(chance, 0),
        ensure_ascii=chance.random() < 0.5,
    )


def ignore_file(chance: random.Random) -> str:
    parts = (
        "*",
        "**",
        "/",
        "!",
        "a",
        "docs",
        "?",
        "[a-z]",
        "[!b]",
        "[[:alpha:]]",
        "\\",
        "#",
        " ",
        ".md",
        "**/",
        "/**",
        "[",
        "]",
        "{a,b}",
        "-",
    )
    lines = (
        "".join(chance.choice(parts) for _ in range(chance.randint(1, 14)))
        for _ in range(chance.randint(1, 30))
    )
    return "\n".join(lines)


def source(language: str, chance: random.Random) -> str:
    return "".join(
        chance.choice((SOURCE[language], SOURCE[language], words(chance)))
        for _ in range(chance.randint(1, 5))
    )


def rst(chance: random.Random) -> str:
    pieces = (
        f"{words(chance)}\n{chance.choice('=-~^') * chance.randint(1, 20)}\n\n",
        f".. {words(chance)}:: {words(chance)}\n   :a: b\n\n   x\n\n",
        f":doc:`{words(chance)} <{words(chance)}>`\n\n",
        f"{words(chance)}::\n\n   {words(chance)}\n\n",
    )
    return "".join(chance.choice(pieces) for _ in range(chance.randint(1, 10)))


SUFFIX = {
    language: suffix
    for suffix, language in reversed((CODE_LANGUAGE | DATA_LANGUAGE).items())
}
KINDS: dict[str, tuple[str, Make]] = {
    "markdown": ("a.md", markdown),
    "front matter": ("a.md", front_matter),
    "notebook": ("a.ipynb", notebook),
    "rst": ("a.rst", rst),
    "text": ("a.txt", words),
    "ignore": (".gitignore", ignore_file),
    **{
        language: (f"a{SUFFIX[language]}", partial(source, language))
        for language in SOURCE
    },
    "tsx": ("a.tsx", partial(source, "typescript")),
}
# Documents are read more often than any one language.
WEIGHTS = {
    "markdown": 12,
    "front matter": 8,
    "notebook": 8,
    "ignore": 6,
    "rst": 3,
    "json": 2,
    "yaml": 2,
}


def mutated(data: bytes, chance: random.Random) -> bytes:
    most = LARGEST * (4 if chance.random() < 0.01 else 1)
    for _ in range(chance.choice((0, 1, 1, 2, 3, 5, 8))):
        data = chance.choice(MUTATIONS)(data, chance)[:most]
    return data


def piece(data: bytes, chance: random.Random) -> tuple[int, int]:
    start = chance.randint(0, len(data))
    return start, min(len(data), start + chance.choice((0, 1, 2, 5, 20, 100, 1000)))


def a_bit(chance: random.Random) -> bytes:
    return chance.choice((*BITS, *WORDS)).encode("utf-8", "surrogatepass")


def flipped(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) or 1)
    return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]


def inserted(data: bytes, chance: random.Random) -> bytes:
    at = chance.randint(0, len(data))
    return data[:at] + a_bit(chance) + data[at:]


def deleted(data: bytes, chance: random.Random) -> bytes:
    start, end = piece(data, chance)
    return data[:start] + data[end:]


def repeated(data: bytes, chance: random.Random) -> bytes:
    start, end = piece(data, chance)
    times = chance.choice((2, 10, 100, 1000, 10_000))
    return data[:end] + (data[start:end] * times)[: 4 * LARGEST] + data[end:]


def many(data: bytes, chance: random.Random) -> bytes:
    at, bit = chance.randint(0, len(data)), a_bit(chance)
    return (
        data[:at] + (bit * chance.choice((10, 300, 5_000)))[: 4 * LARGEST] + data[at:]
    )


def nested(data: bytes, chance: random.Random) -> bytes:
    before, after = chance.choice(
        (
            (b"[", b"]"),
            (b"(", b")"),
            (b"{", b"}"),
            (b"<a>", b"</a>"),
            (b"> ", b""),
            (b"- ", b""),
            (b"a<", b">"),
            (b"'", b"'"),
            (b'{"a":', b"}"),
        )
    )
    depth = chance.choice((2, 30, 500, 3_000))
    start, end = piece(data, chance)
    return data[:start] + before * depth + data[start:end] + after * depth + data[end:]


def moved(data: bytes, chance: random.Random) -> bytes:
    start, end = piece(data, chance)
    rest = data[:start] + data[end:]
    at = chance.randint(0, len(rest))
    return rest[:at] + data[start:end] + rest[at:]


def otherwise_encoded(data: bytes, chance: random.Random) -> bytes:
    text = data.decode("utf-8", "replace")
    return chance.choice(
        (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"")
    ) + text.encode(
        chance.choice(("utf-16-le", "utf-16-be", "latin-1", "utf-8")), "replace"
    )


MUTATIONS = (
    flipped,
    flipped,
    inserted,
    inserted,
    inserted,
    deleted,
    repeated,
    many,
    nested,
    moved,
    otherwise_encoded,
)


# --- Reading them ------------------------------------------------------------------------------------

PATHS = (
    "a",
    "a/b.md",
    "docs/api/x.py",
    "a" * 100,
    "/".join("ab" * 20),
    ".hidden/x",
    "x y",
    "[a]",
    "a\\b",
    "\u00e9.md",
)


class Broken(Exception):
    """What came out is not what the index promises."""


def read_case(path: str, data: bytes) -> bool:
    """What indexing does with a file, up to what is written; False for one that it takes for binary."""
    decoded = decode(data)
    if decoded is None:
        return False
    text, warning = decoded
    if path == ".gitignore":
        ignore(text)
        return True
    sizes = SIZES[len(data) % 2]
    document, _ = parse(
        Source(path, text, content_hash(data), len(data), 0, 0, 0, 0, warning), sizes
    )
    lanes = Lanes(FIELD_WEIGHTS)
    lanes.begin(document)
    last = text.count("\n") + 1
    for row, chunk in enumerate(document.chunks):
        lanes.add(row, chunk)
        lines = f"lines {chunk.start_line}-{chunk.end_line} of {last}"
        if (
            len(chunk.content) > sizes.max_chars
            or not 1 <= chunk.start_line <= chunk.end_line <= last
        ):
            raise Broken(f"a passage of {len(chunk.content)} characters, {lines}")
    lanes.files()
    for link in document.links:
        key_of(link, path)
    names_of(path, document.front.aliases)
    return True


def ignore(text: str) -> None:
    patterns = PatternList(tuple(pattern for _, pattern in parse_lines(text)))
    for path in PATHS:
        for is_dir in (False, True):
            patterns.decide(path, is_dir)


@dataclass(slots=True)
class Outcome:
    cases: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    slowest: list[tuple[float, str]] = field(default_factory=list)
    given_up: Counter[str] = field(
        default_factory=Counter
    )  # texts that a grammar was ended for
    binary: int = 0
    indexed: int = 0
    memory: dict[str, int] = field(default_factory=dict)  # kilobytes


def campaign(
    cases: int, seed: int, kinds: Sequence[str] = (), keep: Path | None = None
) -> Outcome:
    """Every case depends on the seed and its number alone."""
    outcome = Outcome()
    chosen = list(kinds or KINDS)
    weights = [WEIGHTS.get(kind, 1) for kind in chosen]
    waiting: dict[str, bytes] = {}
    try:
        for number in range(cases):
            chance = random.Random(f"{seed}-{number}")
            kind = chance.choices(chosen, weights)[0]
            path, make = KINDS[kind]
            data = mutated(make(chance).encode("utf-8", "surrogatepass"), chance)
            run_case(outcome, kind, number, path, data, keep)
            if number % 10 == 0:
                waiting[f"{number}/{path}"] = data
            if number == min(WARM, cases // 2):
                outcome.memory["after warming up"] = memory()
            if number % 10_000 == 9_999:
                print(
                    f"{number + 1} cases, {len(outcome.failures)} failures",
                    file=sys.stderr,
                    flush=True,
                )
            if waiting and (number % TOGETHER == TOGETHER - 1 or number == cases - 1):
                index_for_real(outcome, waiting)
                waiting = {}
    except KeyboardInterrupt:  # what was done counts
        pass
    outcome.memory["at the end"] = memory()
    outcome.memory["largest"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    CHILD.close()
    return outcome


def run_case(
    outcome: Outcome, kind: str, number: int, path: str, data: bytes, keep: Path | None
) -> None:
    outcome.cases[kind] += 1
    child, began = child_of(), time.process_time()
    failed = ""
    try:
        outcome.binary += not read_case(path, data)
    except Exception:  # noqa: BLE001 - whatever it is, it is what we look for
        failed = traceback.format_exc(limit=-3)
    took = time.process_time() - began
    outcome.given_up[kind] += bool(child) and child_of() != child
    outcome.slowest = sorted(
        [*outcome.slowest, (took, f"{kind} {number}, {len(data)} bytes")], reverse=True
    )[:5]
    if took > LONGEST:
        failed += f"took {took:.2f} s"
    if failed:
        outcome.failures.append(f"{kind} {number}: {failed}")
        if keep:
            (keep / str(number)).mkdir(parents=True, exist_ok=True)
            (keep / str(number) / path).write_bytes(data)


def child_of() -> int:
    return CHILD._process.pid if CHILD._process else 0


def index_for_real(outcome: Outcome, files: dict[str, bytes]) -> None:
    with tempfile.TemporaryDirectory(prefix="tamis-fuzz-") as folder:
        root = Path(folder).resolve() / "root"
        for name, data in files.items():
            (root / name).parent.mkdir(parents=True)
            (root / name).write_bytes(data)
        settings = load(root, {"model.name": "none"}, environment={"HOME": folder})
        with Corpus(root, root / INDEX_FOLDER, settings) as corpus:
            done = corpus.refresh()
            outcome.indexed += done.indexed
            health = corpus.check(full=True)
            odd = set(corpus.changes().warnings)  # of ignore files that cannot be used
            wrong = [
                each
                for each in health.findings
                if each.severity != "ok" and each.what not in odd
            ]
            if wrong:
                outcome.failures.append(
                    f"index of {next(iter(files))}...: {health.verdict}: {wrong}"
                )


def memory() -> int:
    """Kilobytes of this process now."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


# --- With atheris ------------------------------------------------------------------------------------


def guided(seconds: int, kind: str) -> None:
    """Let atheris look for inputs that reach code which no other did. Ends the process."""
    import atheris

    path, make = KINDS[kind]
    with atheris.instrument_imports(
        include=[
            "tamis.ingest",
            "tamis.text.linking",
            "tamis.text.words",
            "tamis.gitignore.patterns",
        ]
    ):
        for name in [
            name
            for name in sys.modules
            if name.startswith(("tamis.ingest", "tamis.gitignore.patterns"))
        ]:
            del sys.modules[name]
        import tamis.gitignore.patterns as ignoring
        import tamis.ingest.parse as parsing

    globals().update(
        parse=parsing.parse,
        parse_lines=ignoring.parse_lines,
        PatternList=ignoring.PatternList,
    )
    corpus = Path(tempfile.mkdtemp(prefix="tamis-atheris-"))
    for number in range(200):
        chance = random.Random(number)
        (corpus / str(number)).write_bytes(
            make(chance).encode("utf-8", "surrogatepass")
        )
    limits = [
        f"-max_total_time={seconds}",
        f"-max_len={LARGEST}",
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
    ]
    atheris.Setup(
        [sys.argv[0], *limits, f"-artifact_prefix={corpus}/", str(corpus)],
        partial(read_case, path),
    )
    atheris.Fuzz()


def report(outcome: Outcome, seconds: float) -> Iterator[str]:
    total = sum(outcome.cases.values())
    failed = f"{len(outcome.failures)} failures"
    yield f"{total} cases in {seconds:.0f} s, {outcome.indexed} of them in an index: {failed}"
    yield "kinds: " + ", ".join(
        f"{kind} {count}" for kind, count in outcome.cases.most_common()
    )
    yield "slowest: " + "; ".join(
        f"{took:.3f} s ({what})" for took, what in outcome.slowest
    )
    yield f"taken for binary: {outcome.binary}"
    yield "ended grammars: " + (
        ", ".join(f"{kind} {n}" for kind, n in outcome.given_up.items() if n) or "none"
    )
    yield "memory: " + ", ".join(
        f"{size / 1024:.0f} MB {when}" for when, size in outcome.memory.items()
    )
    yield from outcome.failures[:20]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=list(KINDS), default=[])
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--atheris", type=int, metavar="SECONDS")
    given = parser.parse_args()
    if given.atheris:
        guided(given.atheris, (given.kind or ["markdown"])[0])
    began = time.monotonic()
    outcome = campaign(given.cases, given.seed, given.kind, given.keep)
    print("\n".join(report(outcome, time.monotonic() - began)))
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    os.environ.pop("TAMIS_MODEL_NAME", None)
    sys.exit(main())
