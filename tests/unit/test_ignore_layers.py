"""The layers of ignore rules: which file counts, which layer wins, and what a bad file does."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tamis.gitignore.repository import Content, read_text
from tamis.gitignore.rules import IgnoreOptions, Rule, Verdict, explain, open_rules

PLAIN = IgnoreOptions(default_exclusions=False)
DEFAULTS = IgnoreOptions(
    archive_patterns=(".archive/", ".deprecated/", "*_backup/", "archive/", "*.old")
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home without git configuration; tests put files there."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    return root


def put(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def ignored(root: Path, *paths: str, options: IgnoreOptions = PLAIN) -> list[str]:
    return [path for path in paths if explain(root, options, path).ignored]


def deciding(
    root: Path, path: str, options: IgnoreOptions = PLAIN
) -> tuple[str, int, str]:
    rule = explain(root, options, path).rule
    assert rule is not None
    return rule.source, rule.line, rule.pattern


# --- Layers -----------------------------------------------------------------------


def test_no_rule_no_verdict(root):
    assert explain(root, PLAIN, "a.md") == Verdict(False, None)


def test_gitignore_counts_without_a_repository(root):
    put(
        root,
        {
            ".gitignore": "# generated\n*.log\n",
            "docs/.gitignore": "!keep.log\n/private/\n",
        },
    )
    assert explain(root, PLAIN, "a.log") == Verdict(
        True, Rule("*.log", ".gitignore", 2, False)
    )
    assert explain(root, PLAIN, "docs/keep.log") == Verdict(
        False, Rule("!keep.log", "docs/.gitignore", 1, True)
    )
    assert ignored(
        root, "private/", "docs/private/", "docs/x/private/", "docs/x/a.log"
    ) == [
        "docs/private/",
        "docs/x/a.log",
    ]


@pytest.mark.rows("C22", "R001-015", "R001-016")
def test_every_layer_beats_the_ones_below_it(root, home):
    """Defaults are the lowest layer, and a `!` of any other undoes them; a rule says which file
    it is from, and `defaults` where it is from none."""
    (root / ".git" / "info").mkdir(parents=True)
    steps = [
        (home, ".config/git/ignore", str(home / ".config/git/ignore")),
        (root, ".git/info/exclude", ".git/info/exclude"),
        (root, ".gitignore", ".gitignore"),
        (root, "sub/.gitignore", "sub/.gitignore"),
        (root, ".ignore", ".ignore"),
        (root, "sub/.ignore", "sub/.ignore"),
        (root, ".graphragignore", ".graphragignore"),
    ]
    assert deciding(root, "sub/x.tmp", IgnoreOptions())[0] == "defaults"
    for number, (directory, name, source) in enumerate(steps):
        negated = number % 2 == 0
        put(directory, {name: "!*.tmp\n" if negated else "*.tmp\n"})
        assert explain(root, IgnoreOptions(), "sub/x.tmp") == Verdict(
            not negated, Rule("!*.tmp" if negated else "*.tmp", source, 1, negated)
        )
    options = IgnoreOptions(extra=("nothing", "*.tmp"))
    assert explain(root, options, "sub/x.tmp") == Verdict(
        True, Rule("*.tmp", "settings", 2, False)
    )


@pytest.mark.rows("C19")
def test_an_ignored_directory_ends_it(root):
    """An ancestor decides, by its own rule; nothing below comes back."""
    put(root, {".gitignore": "docs/\n!docs/keep.md\n", "docs/.gitignore": "!*\n"})
    assert deciding(root, "docs/keep.md") == (".gitignore", 1, "docs/")
    assert deciding(root, "docs/a/b/c") == (".gitignore", 1, "docs/")


def test_what_is_built_in_cannot_be_undone(root):
    put(root, {".gitignore": "!*\n", ".graphragignore": "!.git\n!.tamis/\n"})
    options = IgnoreOptions(default_exclusions=False, extra=("!*",))
    for path in (
        ".tamis/",
        ".git/",
        ".git",
        ".svn/",
        ".hg/",
        ".jj/",
        ".bzr/",
        "a/.git/config",
        "a/.tamis/",
    ):
        verdict = explain(root, options, path)
        assert verdict.ignored and verdict.rule is not None
        assert (verdict.rule.source, verdict.rule.line) == ("built in", 0)
    assert not explain(root, options, "a/.gitignore").ignored


# --- Defaults ------------------------------------------------------


def test_defaults(root):
    taken = [
        ".env", ".github/workflows/a.yml", "dist/a.js", "a/node_modules/b.js", "x.pyc", "test/fixtures/a",
        "a/__mocks__/b", "a.tmp", "tmp/", "a.swp", "a~", "a.sqlite", "a.generated.ts", "a_gen.go", "a.pb.go",
    ]  # fmt: skip
    kept = ["a.md", "a/test/fixtures/b.md", "dist", "tmp", "src/a.go", "a.b/c.md"]
    assert ignored(root, *taken, *kept, options=DEFAULTS) == taken
    assert ignored(root, *taken, options=PLAIN) == []


def test_archives_are_not_ignored_by_default(root):
    kept = [
        ".archive/a.md",
        "x/.deprecated/a.md",
        "archive/a.md",
        "a_backup/b.md",
        "a.old",
        "docs/archive/a.md",
    ]
    assert ignored(root, *kept, options=DEFAULTS) == []
    hidden = [".archive/.env", ".archived/a.md", ".env.old", ".archive"]
    assert ignored(root, *hidden, options=DEFAULTS) == hidden
    assert ignored(root, ".archive/a.md", options=IgnoreOptions()) == [".archive/a.md"]


def test_a_user_can_undo_a_default(root):
    put(root, {".graphragignore": "!.github/\n!build/\n"})
    assert ignored(root, ".github/a.md", "build/a.md", ".env", options=DEFAULTS) == [
        ".env"
    ]


@pytest.mark.rows("C37")
def test_negations_of_what_nothing_ignores_do_nothing(root):
    put(root, {".graphragignore": "!src/\n!docs/\n"})
    assert ignored(root, "src/a.py", "docs/a.md", "a.tmp", options=DEFAULTS) == [
        "a.tmp"
    ]


def test_settings_that_are_no_patterns_are_a_warning(root):
    rules = open_rules(root, IgnoreOptions(extra=("", "*.md", "# no")))
    assert rules.verdict("a.md", False).ignored
    assert rules.warnings == (
        "settings: entry 1 is no pattern: ''",
        "settings: entry 3 is no pattern: '# no'",
    )


# --- Git's own files ----------------------------------------------------------------------


def test_a_root_below_the_top_of_its_work_tree(tmp_path):
    top = tmp_path / "top"
    root = top / "a" / "root"
    root.mkdir(parents=True)
    put(
        top,
        {
            ".git/info/exclude": "/a/root/x\n",
            ".gitignore": "a/root/*.log\n",
            "a/.gitignore": "/root/b/\n*.tmp\n!keep.tmp\n",
        },
    )
    put(root, {".gitignore": "!keep.log\n"})
    assert deciding(root, "x") == (".git/info/exclude", 1, "/a/root/x")
    assert deciding(root, "y.log") == (str(top / ".gitignore"), 1, "a/root/*.log")
    assert deciding(root, "b/") == (str(top / "a" / ".gitignore"), 1, "/root/b/")
    assert ignored(root, "keep.log", "c/y.log", "c/y.tmp", "c/keep.tmp", "c/b/") == [
        "c/y.tmp"
    ]


def test_the_root_itself_is_not_judged(tmp_path):
    top = tmp_path / "top"
    put(top, {".git/HEAD": "", ".gitignore": "/build/\n*.log\n", "build/docs/a.md": ""})
    assert ignored(top / "build" / "docs", "a.md", "a.log") == ["a.log"]


def test_worktrees_share_the_excludes_of_their_repository(tmp_path, root):
    put(
        tmp_path,
        {
            "main/.git/info/exclude": "shared\n",
            "main/.git/worktrees/w/commondir": "../..\n",
        },
    )
    put(root, {".git": "gitdir: ../main/.git/worktrees/w\n"})
    assert deciding(root, "shared") == (".git/info/exclude", 1, "shared")


def test_a_submodule_has_its_own_excludes(tmp_path):
    put(
        tmp_path,
        {
            "top/.git/modules/sub/info/exclude": "own\n",
            "top/.gitignore": "of-top\n",
            "top/sub/.git": "gitdir: ../.git/modules/sub\n",
        },
    )
    assert ignored(tmp_path / "top" / "sub", "own", "of-top") == ["own"]


@pytest.mark.parametrize("text", ["", "nonsense", "gitdir: nowhere"])
def test_a_git_file_that_leads_nowhere_is_no_repository(root, text):
    put(root, {".git": text, "info/exclude": "a\n", ".gitignore": "b\n"})
    assert ignored(root, "a", "b") == ["b"]


CONFIGURATIONS = [
    "[core]\n\texcludesFile = ~/mine\n",
    "[CORE]\nEXCLUDESFILE=~/mine ; a comment\n",
    '[core] excludesfile = "~/mine" # a comment\n',
    '; none\n[core "sub"]\nexcludesfile = ~/other\n[core]\n\tbare\n\texcludesfile = ~/mi\\\nne\n',
    '[core]\n\teditor = "vi \\"x\\" # "\n\texcludesfile = ~/"mi"ne  \n',
    "[core]\nexcludesfile = ~/other\nexcludesfile = ~/mine\n",
    "[include]\n\tpath = more\n",
    "garbage [[[\n= = =\n[core]\nexcludesfile = ~/mine",
    "\ufeff[core]\r\n\texcludesfile = ~/mine\r\n",
]


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
def test_the_user_says_where_the_global_excludes_are(root, home, configuration):
    put(
        home,
        {
            ".gitconfig": configuration,
            "more": "[core]\nexcludesfile=~/mine\n",
            "mine": "*.mine\n",
            "other": "*.other\n",
        },
    )
    put(home, {".config/git/ignore": "*.default\n"})
    assert deciding(root, "a.mine") == (str(home / "mine"), 1, "*.mine")
    assert ignored(root, "a.default", "a.other") == []


def test_the_order_of_git_configurations(root, home, tmp_path, monkeypatch):
    put(home, {name: f"*.{name}\n" for name in ("xdg", "user", "other", "repo")})
    put(home, {".config/git/config": "[core]\nexcludesfile=~/xdg\n"})
    candidates = [f"a.{name}" for name in ("xdg", "user", "other", "repo")]
    assert ignored(root, *candidates) == ["a.xdg"]
    put(home, {".gitconfig": "[core]\nexcludesfile=~/user\n"})
    assert ignored(root, *candidates) == ["a.user"]
    put(tmp_path, {"other": "[core]\nexcludesfile=~/other\n"})
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "other"))
    assert ignored(root, *candidates) == ["a.other"]
    put(root, {".git/config": "[core]\nexcludesfile=~/repo\n"})
    assert ignored(root, *candidates) == ["a.other"], (
        "a repository does not say which file to read"
    )


@pytest.mark.parametrize("kind", ["config", "include", "gitdir", "commondir"])
def test_no_repository_leads_to_reading_any_file_as_rules(kind, tmp_path, root, home):
    secret = "[core]\nexcludesfile=~/secret\n"
    put(home, {"secret": "a\n", "config": secret, "git/config": secret, "git/HEAD": ""})
    files = {
        "config": {".git/config": secret},
        "include": {".git/config": f"[include]\npath={home}/config\n"},
        "gitdir": {".git": f"gitdir: {home}/git\n"},
        "commondir": {".git/commondir": f"{home}/git\n"},
    }
    put(root, files[kind])
    rules = open_rules(root, PLAIN)
    assert rules.warnings == ()
    assert ignored(root, "a") == []


def test_a_relative_place_of_global_excludes(tmp_path, root, home, monkeypatch):
    """Relative to the top of the work tree, or to the root; not to where somebody happens to stand."""
    put(home, {".gitconfig": "[core]\nexcludesfile=conf/mine\n"})
    put(root, {"conf/mine": "a\n"})
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        assert ignored(root, "a", "b") == ["a"]
    finally:
        os.chdir(tmp_path)


def test_the_default_place_of_global_excludes(root, home, tmp_path, monkeypatch):
    put(home, {".config/git/ignore": "*.home\n"})
    put(tmp_path, {"xdg/git/ignore": "*.xdg\n"})
    assert ignored(root, "a.home", "a.xdg") == ["a.home"]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    assert ignored(root, "a.home", "a.xdg") == ["a.xdg"]
    put(home, {".gitconfig": "[core]\nexcludesfile =\n"})
    assert ignored(root, "a.home", "a.xdg") == []


def test_configurations_that_include_each_other_end(root, home):
    put(
        home,
        {
            ".gitconfig": "[include]\npath=.gitconfig\n[core]\nexcludesfile=~/mine\n",
            "mine": "a\n",
        },
    )
    assert ignored(root, "a") == ["a"]


@pytest.mark.parametrize("owner", ["user", "repository"])
def test_configurations_do_not_multiply(root, home, owner):
    bomb = "[include]\n" + "path = config\n" * 4
    put(
        home,
        {
            ".config/git/config": bomb if owner == "user" else "",
            ".config/git/ignore": "a\n",
        },
    )
    put(root, {".git/config": bomb})
    assert ignored(root, "a") == ["a"]


# --- Includes -----------------------------------------------------------------------


def test_includes_count_where_they_stand(root):
    put(root, {
        ".graphragignore": ":include:.gitignore\n!c.log\n:include: conf/more\n",
        ".gitignore": "# comment\n*.log\n",
        "conf/more": "*.more\n:include:beside\n:include:at-root\n",
        "conf/beside": "*.beside\n",
        "at-root": "*.at-root\n",
    })  # fmt: skip
    assert deciding(root, "a.log") == (".gitignore", 2, "*.log")
    assert ignored(root, "c.log", "x/a.more", "a.beside", "a.at-root") == [
        "x/a.more",
        "a.beside",
        "a.at-root",
    ]
    assert deciding(root, "a.beside") == ("conf/beside", 1, "*.beside")
    put(root, {"sub/.gitignore": "!*.log\n"})
    assert deciding(root, "sub/a.log") == (
        ".gitignore",
        2,
        "*.log",
    )  # included, it has the ignore file's rank
    assert open_rules(root, PLAIN).warnings == ()


def test_the_ignore_file_may_have_another_name(root):
    put(root, {".graphragignore": "a\n", "mine": "b\n"})
    assert ignored(
        root, "a", "b", options=IgnoreOptions(False, ignore_file="mine")
    ) == ["b"]
    assert ignored(root, "a", "b", options=IgnoreOptions(False, ignore_file="")) == []
    put(root, {"sub/.graphragignore": "c\n"})
    assert ignored(root, "sub/c") == []


def test_an_include_cycle_is_a_warning(root):
    put(
        root,
        {
            ".graphragignore": "a\n:include:one\n:include:.graphragignore\n",
            "one": ":include:two\nb\n",
            "two": ":include:./one\nc\n",
        },
    )
    assert ignored(root, "a", "b", "c") == ["a", "b", "c"]
    assert open_rules(root, PLAIN).warnings == (
        "two:1: :include:./one skipped: it includes itself",
        ".graphragignore:3: :include:.graphragignore skipped: it includes itself",
    )


def test_includes_have_a_depth(root):
    put(
        root,
        {
            ".graphragignore": ":include:1\n",
            **{str(n): f"a{n}\n:include:{n + 1}\n" for n in range(1, 30)},
        },
    )
    assert ignored(root, *(f"a{n}" for n in range(1, 30))) == [
        f"a{n}" for n in range(1, 17)
    ]
    assert open_rules(root, PLAIN).warnings == (
        "16:2: :include:17 skipped: deeper than 16 includes",
    )


def test_includes_do_not_multiply(root, monkeypatch):
    doubled = {str(n): f":include:{n + 1}\n" * 2 for n in range(1, 16)}
    put(root, {".graphragignore": ":include:1\n", **doubled, "16": "a\n"})
    read = []

    def counted(path: str, *arguments: Any, **options: Any) -> Content:
        read.append(path)
        return read_text(path, *arguments, **options)

    monkeypatch.setattr("tamis.gitignore.rules.read_text", counted)
    rules = open_rules(root, PLAIN)
    included = [path for path in read if os.path.basename(path).isdigit()]
    assert len(included) <= 256
    assert any("more than 256 includes" in warning for warning in rules.warnings)


def test_includes_that_are_skipped(root, tmp_path):
    put(tmp_path, {"secret": "s\n"})
    names = ("missing", "folder", "binary", "../secret", "", "link", "/etc")
    put(
        root,
        {".graphragignore": "".join(f":include:{name}\n" for name in names) + "last\n"},
    )
    (root / "folder").mkdir()
    (root / "binary").write_bytes(b"a\0b\n")
    (root / "link").symlink_to(tmp_path / "secret")
    assert ignored(root, "a", "s", "last") == ["last"]
    reasons = [
        warning.split(" skipped: ")[1] for warning in open_rules(root, PLAIN).warnings
    ]
    assert reasons == [
        "no such file", "not a regular file", "it is binary", "it leads out of the root", "no such file",
        "it leads out of the root", "it leads out of the root",
    ]  # fmt: skip


# --- Bad ignore files ------------------------------------------------------------------------


def test_bad_ignore_files_are_warnings(root, tmp_path):
    put(tmp_path, {"outside": "o\n"})
    for name in ("binary", "large", "link", "loop", "broken", "own", "good"):
        (root / name).mkdir()
    (root / "binary/.gitignore").write_bytes(b"x\n\0")
    (root / "large/.gitignore").write_bytes(b"x\n" * 500_001)
    (root / "link/.ignore").symlink_to(tmp_path / "outside")
    (root / "loop/.ignore").symlink_to(root / "loop/.ignore")
    (root / "broken/.ignore").symlink_to("nowhere")
    (root / "good/real").write_text("o\n")
    (root / "good/.ignore").symlink_to("real")
    (root / "own/.gitignore").symlink_to(root / "good/real")
    rules = open_rules(root, PLAIN)
    assert rules.warnings == ()
    assert rules.enter("binary").warnings == ("binary/.gitignore is binary",)
    assert rules.enter("large").warnings == (
        "large/.gitignore is larger than 1,000,000 bytes",
    )
    assert rules.enter("link").warnings == ("link/.ignore leads out of the root",)
    assert rules.enter("loop").warnings[0].startswith("loop/.ignore cannot be read: ")
    assert rules.enter("broken").warnings == ("broken/.ignore is a broken link",)
    assert rules.enter("good").warnings == ()
    assert rules.enter("own").warnings == (
        "own/.gitignore is a link, which git does not follow",
    )
    assert ignored(root, "binary/x", "large/x", "link/o", "own/o", "good/o") == [
        "good/o"
    ]


def test_warnings_accumulate_along_the_chain(root):
    put(root, {"a/b/c": ""})
    for name in (".gitignore", "a/.ignore", "a/b/.gitignore"):
        (root / name).write_bytes(b"\0")
    rules = open_rules(root, PLAIN)
    deepest = rules.enter("a").enter("b")
    assert deepest.warnings == (
        ".gitignore is binary",
        "a/.ignore is binary",
        "a/b/.gitignore is binary",
    )
    assert rules.warnings == (".gitignore is binary",)


def test_ignore_files_that_are_no_files_are_passed_over(root):
    (root / ".gitignore").mkdir()
    os.mkfifo(root / ".ignore")
    assert open_rules(root, PLAIN).warnings == ()


def test_a_directory_that_leads_out_of_the_root_gives_no_rules(root, tmp_path):
    put(tmp_path, {"outside/.gitignore": "x\n"})
    (root / "link").symlink_to(tmp_path / "outside")
    rules = open_rules(root, PLAIN).enter("link")
    assert not rules.verdict("x", False).ignored
    assert rules.warnings == ("link/.gitignore leads out of the root",)


def test_patterns_in_another_encoding_meet_their_files(root):
    (root / ".gitignore").write_bytes(b"caf\xe9*\n")
    assert open_rules(root, PLAIN).verdict(os.fsdecode(b"caf\xe9.md"), False).ignored
    assert not open_rules(root, PLAIN).verdict("café.md", False).ignored


# --- The chain and explain ----------------------------------------------------------------------


def test_a_chain_can_branch(root):
    put(
        root,
        {".gitignore": "*.a\n", "one/.gitignore": "*.b\n", "two/.gitignore": "!*.a\n"},
    )
    rules = open_rules(root, PLAIN)
    one, two = rules.enter("one"), rules.enter("two")
    assert [chain.verdict("x.a", False).ignored for chain in (rules, one, two)] == [
        True,
        True,
        False,
    ]
    assert [chain.verdict("x.b", False).ignored for chain in (rules, one, two)] == [
        False,
        True,
        False,
    ]


@pytest.mark.rows("C20", "C33")
def test_explain_takes_any_form_of_a_path(root, tmp_path):
    put(root, {".gitignore": "/docs/\n/file\n", "docs/a": "", "folder/x": ""})
    taken = [
        "docs/a",
        "./docs/a",
        "docs/",
        "docs",
        "x/../file",
        str(root / "docs"),
        str(root / "docs" / "nowhere"),
    ]
    assert ignored(root, *taken) == taken
    for path in (
        "",
        ".",
        "/",
        "..",
        "../root",
        str(root),
        "../docs/a",
        "/etc/passwd",
        str(tmp_path),
        "a\0b/c",
        "a//b",
    ):
        assert explain(root, PLAIN, path) == Verdict(False, None)
    alias = tmp_path / "alias"
    alias.symlink_to(root)
    assert explain(alias, PLAIN, str(root / "docs" / "a")).ignored
    assert explain(root, PLAIN, str(alias / "docs" / "a")).ignored


def test_explain_sees_directories_as_git_does(root):
    put(root, {".gitignore": "x/\n", "real/x/a": ""})
    (root / "x").symlink_to("real")
    assert ignored(root, "x", "x/", "real/x", "other/x") == ["x/", "real/x"]


def test_a_relative_root(root, monkeypatch):
    put(root, {".gitignore": "a\n"})
    monkeypatch.chdir(root.parent)
    assert ignored(Path("root"), "a", "sub/a") == ["a", "sub/a"]


def calls_of_verdicts(folder: Path, times: int) -> int:
    """Return the number of calls that judging files takes, with `times` as many ignore lines."""
    lines = [f"name{n}.log" for n in range(3000 * times)]
    lines += [f"*.ext{n}" for n in range(750 * times)]
    lines += [f"/src/mod{n}/gen.py" for n in range(750 * times)]
    lines += [f"build-{n}*/" for n in range(450 * times)]
    lines += [f"*t{n}*" for n in range(50 * times)]
    put(folder, {".gitignore": "\n".join(lines)})
    rules = open_rules(folder, PLAIN).enter("src")
    rules.verdict("warm.up", False)
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        ignored = [rules.verdict(f"file{n}.md", False).ignored for n in range(200)]
    finally:
        sys.setprofile(before)
    assert not any(ignored)
    return calls


def test_a_longer_ignore_file_takes_no_more_calls(root, tmp_path):
    """Names, paths and suffixes are looked up, and globs are matched only where they could fit."""
    assert calls_of_verdicts(tmp_path / "long", 2) == calls_of_verdicts(root, 1)
