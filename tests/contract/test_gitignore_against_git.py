"""Ignore rules against real git: the same verdict on every path, by the same rule.

The oracle is `git check-ignore --verbose --non-matching --no-index`. Cases share a repository,
each in a directory of its own, because a `.gitignore` means the same in any directory and a
process for each case would take minutes.

`TAMIS_FUZZ_CASES=5000` raises the number of random cases from 150.
"""

import json
import os
import random
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from support.corpora import write_files
from support.patterns import matches
from tamis.gitignore.patterns import Pattern
from tamis.gitignore.repository import repository_files
from tamis.gitignore.rules import IgnoreOptions, Rules, Verdict, open_rules

CONFORMANCE = (
    Path(__file__).parents[3] / "shared" / "data" / "conformance" / "gitignore"
)
FUZZ_CASES = int(os.environ.get("TAMIS_FUZZ_CASES", "150"))
BATCH = 75
BARE = IgnoreOptions(default_exclusions=False, ignore_file="")

pytestmark = pytest.mark.skipif(
    shutil.which("git") is None, reason="git is not installed"
)


@dataclass
class Case:
    """Ignore files by directory, and the paths to judge: True for a directory."""

    gitignores: dict[str, str]
    paths: dict[str, bool]
    expected: dict[str, bool] = field(default_factory=dict)
    info_exclude: str = ""


# An answer: (ignored, source, line, pattern); the last three empty when no rule speaks.
Answer = tuple[bool, str, int, str]


@pytest.fixture(autouse=True)
def nobody(tmp_path, monkeypatch):
    """No configuration of the person who runs the tests."""
    home = tmp_path / "home"
    home.mkdir()
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))


@pytest.fixture
def repository(tmp_path):
    top = tmp_path / "repository"
    top.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=top, check=True)
    return top


def write(directory: Path, case: Case) -> None:
    """Only directories need to be there: git takes a missing path for a file."""
    directory.mkdir(parents=True, exist_ok=True)
    for path, is_dir in case.paths.items():
        (directory / path if is_dir else (directory / path).parent).mkdir(
            parents=True, exist_ok=True
        )
    for below, text in case.gitignores.items():
        (directory / below).mkdir(parents=True, exist_ok=True)
        (directory / below / ".gitignore").write_bytes(os.fsencode(text))


def git_answers(top: Path, paths: list[str]) -> dict[str, Answer]:
    run = subprocess.run(
        ["git", "check-ignore", "--verbose", "--non-matching", "--no-index", "--stdin", "-z"],
        cwd=top, input=b"\0".join(map(os.fsencode, paths)), capture_output=True,
    )  # fmt: skip
    assert run.returncode in (0, 1) and not run.stderr, run.stderr.decode()
    fields = list(map(os.fsdecode, run.stdout.split(b"\0")[:-1]))
    records = zip(fields[0::4], fields[1::4], fields[2::4], fields[3::4], strict=True)
    return {
        path: (
            bool(source) and not pattern.startswith("!"),
            source,
            int(line or 0),
            pattern,
        )
        for source, line, pattern, path in records
    }


def our_answers(
    root: Path, paths: dict[str, bool], options: IgnoreOptions = BARE
) -> dict[str, Answer]:
    chains: dict[str, Rules | Verdict] = {"": open_rules(root, options)}

    def chain(directory: str) -> Rules | Verdict:
        """The rules of a directory, or the verdict that ignores it."""
        if directory not in chains:
            parent, _, name = directory.rpartition("/")
            above = chain(parent)
            verdict = above.verdict(name, True) if isinstance(above, Rules) else above
            chains[directory] = verdict if verdict.ignored else above.enter(name)
        return chains[directory]

    def judge(path: str, is_dir: bool) -> Verdict:
        parent, _, name = path.rpartition("/")
        above = chain(parent)
        return above.verdict(name, is_dir) if isinstance(above, Rules) else above

    answers = {}
    for path, is_dir in paths.items():
        verdict = judge(path, is_dir)
        rule = verdict.rule
        answers[path] = (
            (verdict.ignored, rule.source, rule.line, rule.pattern)
            if rule
            else (False, "", 0, "")
        )
    return answers


def compare(top: Path, cases: dict[str, Case]) -> int:
    """Judge every path of every case by git and by us; answers how many there were."""
    for name, case in cases.items():
        write(top / name, case)
    asked = [f"{name}/{path}" for name, case in cases.items() for path in case.paths]
    theirs = git_answers(top, asked)
    wrong = []
    for name, case in cases.items():
        ours = our_answers(top / name, case.paths)
        for path, is_dir in case.paths.items():
            ignored, source, line, pattern = theirs[f"{name}/{path}"]
            expected = (ignored, source.removeprefix(f"{name}/"), line, pattern)
            if ours[path] != expected or case.expected.get(path, ignored) != ignored:
                wrong.append(
                    (
                        name,
                        path + "/" * is_dir,
                        "git",
                        expected,
                        "we",
                        ours[path],
                        case.gitignores,
                    )
                )
    assert not wrong, f"{len(wrong)} of {len(asked)} differ, such as:\n" + "\n".join(
        map(repr, wrong[:5])
    )
    return len(asked)


# --- Recorded cases ------------------------------------------------------------------


def recorded(name: str) -> Path:
    path = CONFORMANCE / name
    if not path.exists():
        pytest.skip(
            f"no recorded cases: {path.name} is not in ../shared/data/conformance/gitignore"
        )
    return path


def recorded_cases(name: str) -> dict[str, Case]:
    cases = {}
    for number, line in enumerate(
        recorded(name).read_text(encoding="utf-8").splitlines()
    ):
        case = json.loads(line)
        for variant, entries in enumerate(trees(case["paths"])):
            cases[f"case{number}-{variant}"] = Case(
                case["gitignores"],
                {entry["path"]: entry["is_dir"] for entry in entries},
                {entry["path"]: entry["ignored"] for entry in entries},
                case.get("info_exclude", ""),
            )
    return cases


def trees(entries: list[dict]) -> list[list[dict]]:
    """A case may have one path as a file and as a directory: that takes two trees."""
    found: list[list[dict]] = []
    for entry in entries:
        home = next(
            (tree for tree in found if all(fits(entry, other) for other in tree)), None
        )
        if home is None:
            found.append(home := [])
        home.append(entry)
    return found


def fits(one: dict, other: dict) -> bool:
    if one["path"] == other["path"]:
        return False
    return not any(
        not above["is_dir"] and below["path"].startswith(above["path"] + "/")
        for above, below in ((one, other), (other, one))
    )


@pytest.mark.parametrize("name", ["node_ignore.jsonl", "random_cases.jsonl"])
def test_recorded_cases(name, repository):
    assert compare(repository, recorded_cases(name)) > 100


def test_recorded_case_of_gits_own_suite(repository):
    (case,) = recorded_cases("git_t0008.jsonl").values()
    (repository / ".git" / "info" / "exclude").write_text(case.info_exclude)
    assert compare(repository, {"case": case}) > 50


def test_recorded_wildmatch_cases():
    cases = json.loads(recorded("git_t3070_wildmatch.json").read_text(encoding="utf-8"))
    wrong = [
        case
        for case in cases
        if wildmatch(case["pattern"], case["text"])
        != (case["wildmatch_pathname"] == "1")
    ]
    assert cases and not wrong


def wildmatch(glob: str, text: str) -> bool:
    """Git's matcher alone: a bracket round a literal first byte keeps its literal start empty."""
    if glob and glob[0] not in "*?[\\":
        glob = ("\\/" if glob[0] == "/" else f"[{glob[0]}]") + glob[1:]
    pattern = Pattern(glob, False, False, anchored=True, glob=glob)
    return matches(pattern, text, is_dir=False)


# --- All of a small world --------------------------------------------------------------

CLASSES = (
    "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "xdigit",
)  # fmt: skip


def test_named_classes_hold_the_same_bytes(repository):
    names = {
        f"x{os.fsdecode(bytes([byte]))}": False
        for byte in range(1, 256)
        if byte != ord("/")
    }
    cases = {
        f"{name}{number}": Case({"": f"x[{mark}[:{name}:]]\n"}, names)
        for name in CLASSES
        for number, mark in enumerate(("", "!"))
    }
    assert compare(repository, cases) == len(CLASSES) * 2 * 254


# Where git departs from what its manual says or a reader expects. Seen with git 2.39.
ODDITIES = [
    # The literal start is compared alone and cut off, so the stars behind it open the pattern.
    (
        "lib/a**/b",
        {
            "lib/ab": False,
            "lib/a/b": False,
            "lib/ax/b": False,
            "lib/ax/y/b": False,
            "lib/x/b": False,
        },
    ),
    ("lib/a**", {"lib/a": False, "lib/ab": False, "lib/ab/c": False, "lib/b": False}),
    # An escaped slash is a slash, but `**` before it stands for one directory at least.
    ("a/**\\/b", {"a/b": False, "a/x/b": False, "a/x/y/b": False}),
    # `?` is a byte.
    ("?", {"é": False, "e": False}),
    ("??", {"é": False, "ee": False}),
    # An escaped final slash leaves a dangling backslash, which matches nothing.
    ("a\\/", {"a": True, "a\\": True}),
]


@pytest.mark.parametrize(
    ("pattern", "paths"), ODDITIES, ids=[pattern for pattern, _ in ODDITIES]
)
def test_oddities(pattern, paths, repository):
    compare(repository, {"case": Case({"": pattern}, paths)})


# --- Random cases ------------------------------------------------------------------------

WORDS = (
    "a", "b", "ab", "abc", "foo", "Foo", "bar.py", "x.tar.gz", ".env", ".a", "build", "docs", "src",
    "-", "a-b",
)  # fmt: skip
ODD_WORDS = (
    "a b", "a ", " ", "!a", "#a", "[a]", "a*b", "q?", "back\\slash", "\\", "]", "^", "é", "日本",
    "\udcff", "a\tb", ":",
)  # fmt: skip
NOISE = "ab*?[]!^-\\/. #:é"


def word(rng: random.Random) -> str:
    return rng.choice(WORDS if rng.random() < 0.8 else ODD_WORDS)


def random_tree(rng: random.Random) -> dict[str, bool]:
    tree: dict[str, bool] = {}
    directories = [""]
    for _ in range(rng.randint(8, 30)):
        path = rng.choice(directories) + word(rng)
        if path in tree or path.count("/") > 4:
            continue
        tree[path] = rng.random() < 0.5
        if tree[path]:
            directories.append(path + "/")
    return tree


def random_pattern(rng: random.Random, tree: dict[str, bool]) -> str:
    if rng.random() < 0.15:
        return "".join(rng.choice(NOISE) for _ in range(rng.randint(1, 9)))
    names = rng.choice(list(tree)).split("/")[-rng.randint(1, 4) :]
    body = "/".join(random_glob(rng, name) for name in names)
    start = rng.choice(
        ["", "", "", "/", "**/", "**", "*/", "!", "!", "!/", "!**/", "\\", " "]
    )
    end = rng.choice(
        [
            "",
            "",
            "",
            "",
            "/",
            "/",
            "/*",
            "/**",
            "**",
            "*",
            " ",
            "\\ ",
            "  ",
            "\\",
            "\t",
            "/ ",
            "\r",
        ]
    )
    return start + body + end


def random_glob(rng: random.Random, name: str) -> str:
    if rng.random() < 0.6:
        return "".join(random_piece(rng, character) for character in name)
    first, last = name[0], name[-1]
    return rng.choice(
        [
            name,
            name,
            "*",
            "**",
            "***",
            "?",
            f"*{last}",
            f"{first}*",
            f"{first}**",
            f"[{name}",
            f"\\{name}",
        ]
    )


def random_piece(rng: random.Random, character: str) -> str:
    if rng.random() < 0.7:
        return (
            f"\\{character}"
            if character in "*?[\\ !#" and rng.random() < 0.7
            else character
        )
    c, d = character, rng.choice("abz-]\\!^.é")
    return rng.choice([
        "*", "?", "**", f"*{c}*", f"\\{c}", f"[{c}]", f"[{c}{d}]", f"[{d}{c}]", f"[!{d}]", f"[^{c}]",
        f"[{d}-{c}]", f"[{c}-{d}]", f"[]{c}]", f"[!]{d}]", f"[\\{c}]", f"[a-\\{c}]", f"[{c}-]", f"[-{c}]",
        f"[a-c-{c}]", f"[a/{c}]",
        f"[[:{rng.choice(CLASSES)}:]]", f"[[:{d}:]]", f"[[:{c}]", f"[[:alpha:]-{c}]",
    ])  # fmt: skip


def random_text(rng: random.Random, tree: dict[str, bool]) -> str:
    lines = [random_pattern(rng, tree) for _ in range(rng.choice([1, 2, 3, 5, 8]))]
    lines += rng.choices(
        ["", "# a comment", "   ", "!", "/", "*", "!*/", "!*"], k=rng.randint(0, 3)
    )
    rng.shuffle(lines)
    line_end = "\r\n" if rng.random() < 0.15 else "\n"
    text = line_end.join(lines) + rng.choice(["", line_end])
    return "\ufeff" + text if rng.random() < 0.05 else text


def below(directory: str, tree: dict[str, bool]) -> dict[str, bool]:
    start = f"{directory}/"
    return {
        path.removeprefix(start): is_dir
        for path, is_dir in tree.items()
        if path.startswith(start)
    }


def random_case(seed: int) -> Case:
    rng = random.Random(seed)
    tree = random_tree(rng)
    directories = [path for path, is_dir in tree.items() if is_dir]
    chosen = rng.sample(directories, k=min(len(directories), rng.randint(0, 3)))
    nested = {
        directory: random_text(rng, below(directory, tree) or {"a": False})
        for directory in chosen
    }
    return Case({"": random_text(rng, tree), **nested}, tree)


@pytest.mark.parametrize("first", range(0, FUZZ_CASES, BATCH))
def test_random_cases(first, repository):
    cases = {
        f"case{seed}": random_case(seed)
        for seed in range(first, min(first + BATCH, FUZZ_CASES))
    }
    compare(repository, cases)


def in_mixed_case(case: Case, seed: int) -> Case:
    rng = random.Random(f"case {seed}")

    def mixed(text: str) -> str:
        return "".join(
            each.swapcase() if each.isascii() and rng.random() < 0.3 else each
            for each in text
        )

    return replace(
        case,
        gitignores={folder: mixed(text) for folder, text in case.gitignores.items()},
    )


@pytest.mark.parametrize("first", range(0, FUZZ_CASES, BATCH))
def test_random_cases_where_case_does_not_count(first, repository):
    """As `git init` sets it on the usual disks of macOS."""
    subprocess.run(
        ["git", "config", "core.ignoreCase", "true"], cwd=repository, check=True
    )
    seeds = range(first, min(first + BATCH, FUZZ_CASES))
    cases = {f"case{seed}": in_mixed_case(random_case(seed), seed) for seed in seeds}
    compare(repository, cases)


@pytest.mark.parametrize(
    ("value", "ignored"),
    [("true", True), ("Yes", True), ("1", True), ("false", False), ("", False)],
)
def test_whose_word_on_case_counts(value, ignored, repository, tmp_path, monkeypatch):
    """The repository's own, and else the user's."""
    (repository / ".gitignore").write_text("*.LOG\n")
    configuration = tmp_path / "configuration"
    subprocess.run(
        ["git", "config", "-f", configuration, "core.ignoreCase", "true"], check=True
    )
    subprocess.run(
        ["git", "config", "core.ignoreCase", value], cwd=repository, check=True
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    assert git_answers(repository, ["a.log"])["a.log"][0] is ignored
    assert our_answers(repository, {"a.log": False})["a.log"][0] is ignored
    subprocess.run(
        ["git", "config", "--unset", "core.ignoreCase"], cwd=repository, check=True
    )
    assert our_answers(repository, {"a.log": False})["a.log"][0] is True


@pytest.mark.parametrize("seed", range(max(12, FUZZ_CASES // 12)))
def test_random_layers(seed, repository, tmp_path, monkeypatch):
    """Global excludes, info/exclude, and a root below the top of the work tree."""
    rng = random.Random(f"layers {seed}")
    case = random_case(rng.randrange(10**9))
    write(repository / "outer" / "root", case)
    excludes = tmp_path / "excludes"
    excludes.write_bytes(os.fsencode(random_text(rng, case.paths)))
    configuration = tmp_path / "configuration"
    subprocess.run(
        ["git", "config", "-f", configuration, "core.excludesFile", excludes],
        check=True,
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(configuration))
    info = repository / ".git" / "info" / "exclude"
    info.write_bytes(os.fsencode(random_text(rng, case.paths)))
    above = {
        f"{prefix}{path}": is_dir
        for path, is_dir in case.paths.items()
        for prefix in ("", "root/", "outer/root/")
    }
    upper = [repository / ".gitignore", repository / "outer" / ".gitignore"]
    # We do not judge the root, so git must not ignore it either.
    for path, shown in zip(upper, ("\n!/outer/\n", "\n!/root/\n"), strict=True):
        path.write_bytes(os.fsencode(random_text(rng, above) + shown))

    theirs = git_answers(repository, [f"outer/root/{path}" for path in case.paths])
    ours = our_answers(repository / "outer" / "root", case.paths)
    names = {".gitignore": str(upper[0]), "outer/.gitignore": str(upper[1])}
    for path in case.paths:
        ignored, source, line, pattern = theirs[f"outer/root/{path}"]
        source = names.get(source, source.removeprefix("outer/root/"))
        assert ours[path] == (ignored, source, line, pattern), path


@pytest.mark.rows("R001-003", "C18", "C19", "C21")
@pytest.mark.parametrize("seed", range(12))
def test_the_ignore_file_of_our_own_is_read_as_git_reads_its(
    seed, repository, tmp_path
):
    """The lines of a `.gitignore`, as a `.graphragignore` where there is no git."""
    case = random_case(seed)
    lines = case.gitignores[""]
    write(repository, replace(case, gitignores={"": lines}))
    root = tmp_path / "root"
    write(root, replace(case, gitignores={}))
    (root / ".graphragignore").write_bytes(os.fsencode(lines))
    theirs = git_answers(repository, list(case.paths))
    ours = our_answers(root, case.paths, replace(BARE, ignore_file=".graphragignore"))
    for path in case.paths:
        ignored, source, line, pattern = theirs[path]
        assert ours[path] == (
            ignored,
            source.replace(".gitignore", ".graphragignore"),
            line,
            pattern,
        ), path


def test_a_linked_file_is_not_followed(repository):
    """Git has not followed one since 2.32; what it says of it is left out of the comparison."""
    (repository / "patterns").write_text("*.log\n")
    (repository / ".gitignore").symlink_to("patterns")
    run = subprocess.run(
        ["git", "check-ignore", "--no-index", "a.log"],
        cwd=repository,
        capture_output=True,
    )
    assert (run.returncode, run.stdout) == (1, b"")
    assert our_answers(repository, {"a.log": False}) == {"a.log": (False, "", 0, "")}


def test_gits_own_files_also_of_a_worktree(tmp_path):
    top = write_files(tmp_path / "top", {"a.md": "x", "sub/b.md": "x"}).resolve()
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "x"]):
        _git(top, *arguments)
    _git(top, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert repository_files(tmp_path / "nowhere") == ()
    own = [top / ".git" / name for name in ("HEAD", "logs/HEAD", "info/exclude")]
    assert repository_files(top / "sub") == tuple(map(str, own))
    assert all(file.exists() for file in own)
    files = [Path(file) for file in repository_files(tmp_path / "tree")]
    assert [file.exists() for file in files] == [True, True, True]
    assert "worktrees" in str(files[0])
    assert os.path.samefile(files[2], own[2])


def _git(root: Path, *arguments: str) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    subprocess.run(["git", "-C", str(root), *arguments], check=True, env=environment)
