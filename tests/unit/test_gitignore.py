"""Gitignore patterns: the classic cases, hostile patterns, and lists read as filters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.patterns import matches
from tamis.gitignore.patterns import Pattern, PatternList, parse_line, parse_lines


def line_matches(line: str, path: str) -> bool:
    """A path that ends in a slash is a directory."""
    pattern = parse_line(line)
    assert pattern is not None
    return matches(pattern, path.rstrip("/"), is_dir=path.endswith("/"))


# pattern, paths it matches, paths it does not match
CLASSIC = [
    ("foo", ["foo", "foo/", "a/foo", "a/b/foo/"], ["foobar", "foo/bar", "Foo"]),
    ("foo/", ["foo/", "a/foo/"], ["foo", "a/foo"]),
    ("/foo", ["foo", "foo/"], ["a/foo"]),
    ("a/foo", ["a/foo"], ["x/a/foo", "foo"]),
    ("/a/foo/", ["a/foo/"], ["a/foo", "x/a/foo/"]),
    ("*.py", ["x.py", "a/x.py", ".py", "a.b.py"], ["x.pyc", "py"]),
    ("*", ["a", "a/b", ".a/"], []),
    ("a*b", ["ab", "axxb", "x/ab"], ["a/b", "abc"]),
    ("a/*", ["a/b", "a/b/"], ["a", "a/b/c"]),
    ("a/*/c", ["a/b/c"], ["a/c", "a/b/b/c"]),
    ("**/foo", ["foo", "a/foo", "a/b/foo"], ["foo/a", "afoo"]),
    ("**/a/foo", ["a/foo", "x/a/foo"], ["foo", "xa/foo"]),
    ("foo/**", ["foo/a", "foo/a/b"], ["foo", "foo/", "a/foo/b"]),
    ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["ab", "a/xb", "x/a/b", "a/b/c"]),
    ("**", ["a", "a/b"], []),
    ("**/", ["a/", "a/b/"], ["a", "a/b"]),
    ("a**b", ["ab", "axb"], ["a/b"]),
    ("a/x**y", ["a/xy", "a/xzy"], ["a/x/y"]),
    ("**foo", ["foo", "xfoo", "a/xfoo"], ["foo/a"]),
    ("a/**/**/b", ["a/b", "a/x/b"], ["a"]),
    ("?", ["a", "b/a"], ["ab"]),
    ("a?b", ["axb"], ["ab", "a/b"]),
    ("[a-c]x", ["ax", "cx"], ["dx", "x"]),
    ("[!a-c]x", ["dx", "-x"], ["ax", "x"]),
    ("[^a-c]x", ["dx", "^x"], ["bx"]),
    ("[]a]", ["]", "a"], ["[]a]", "b"]),
    ("[!]a]", ["b"], ["]", "a"]),
    ("[a-]", ["a", "-"], ["b"]),
    ("[-a]", ["a", "-"], ["b"]),
    ("[a-c-e]", ["a", "b", "c", "-", "e"], ["d"]),
    ("[\\]x]", ["]", "x"], ["\\"]),
    ("[a-\\c]", ["a", "b", "c"], ["\\", "d"]),
    ("[z-a]", ["z"], ["a", "m", "-"]),
    ("[[:alpha:]]1", ["a1", "Z1"], ["11", "é1"]),
    ("[[:digit:][:upper:]]", ["1", "A"], ["a"]),
    ("[![:space:]]", ["a"], [" ", "\t"]),
    ("[[:nope:]]", [], ["a", "n", "[[:nope:]]"]),
    ("[[:a]", ["[", ":", "a"], ["b"]),
    ("a[/]b", [], ["a/b"]),
    ("a[!x]b", ["ayb"], ["a/b"]),
    ("a[", [], ["a[", "a"]),
    ("[", [], ["["]),
    ("a[b", [], ["a[b", "ab"]),
    ("a\\", [], ["a\\", "a"]),
    ("\\a", ["a"], ["\\a"]),
    ("\\*", ["*"], ["a", "\\*"]),
    ("a\\\\b", ["a\\b"], ["ab"]),
    ("\\#a", ["#a"], ["a"]),
    ("\\!a", ["!a"], ["a"]),
    ("a#b", ["a#b"], ["a"]),
    ("a\\ ", ["a "], ["a"]),
    ("a b", ["a b"], ["a"]),
    (" a", [" a"], ["a"]),
    ("a\t", ["a\t"], ["a"]),
    ("//", [], ["a/", "a"]),
    ("été", ["été", "a/été"], ["ete"]),
    ("日*", ["日本"], ["月"]),
    ("\udcff*", ["\udcffx"], ["ÿx"]),
]


@pytest.mark.parametrize(
    ("line", "hits", "misses"), CLASSIC, ids=[repr(line) for line, _, _ in CLASSIC]
)
def test_classic(line, hits, misses):
    assert [path for path in hits if not line_matches(line, path)] == []
    assert [path for path in misses if line_matches(line, path)] == []


@pytest.mark.parametrize(
    ("line", "hits", "misses"), CLASSIC, ids=[repr(line) for line, _, _ in CLASSIC]
)
def test_a_list_of_one_decides_as_its_pattern(line, hits, misses):
    """The tables of a list are a second way to the same answer."""
    patterns = PatternList.of([line])
    assert [
        path
        for path in hits
        if patterns.decide(path.rstrip("/"), path.endswith("/")) != 0
    ] == []
    assert [
        path
        for path in misses
        if patterns.decide(path.rstrip("/"), path.endswith("/")) is not None
    ] == []


@pytest.mark.parametrize(
    "line", ["", " ", "   ", "# comment", "#", "!", "/", "!/", "\r", "\n", "! "]
)
def test_lines_without_a_pattern(line):
    assert parse_line(line) is None


@pytest.mark.rows("R001-015")
@pytest.mark.parametrize(
    ("line", "text", "negated", "directory_only"),
    [
        ("a", "a", False, False),
        ("!a", "!a", True, False),
        ("!a/", "!a/", True, True),
        ("!!a", "!!a", True, False),
        ("a  ", "a", False, False),
        ("a\\  ", "a\\ ", False, False),
        ("a\\\\  ", "a\\\\", False, False),
        ("a/ ", "a/", False, True),
        ("a \r\n", "a", False, False),
        ("a\r", "a", False, False),
        ("a\0b", "a", False, False),
    ],
)
def test_what_is_kept_of_a_line(line, text, negated, directory_only):
    """The pattern, whether it takes back, whether it is for folders alone."""
    pattern = parse_line(line)
    assert pattern is not None
    assert (pattern.text, pattern.negated, pattern.directory_only) == (
        text,
        negated,
        directory_only,
    )


def test_lines_are_numbered_and_the_byte_order_mark_is_dropped():
    numbered = [
        (line, pattern.text)
        for line, pattern in parse_lines("\ufeffa\r\n\n# no\n!b \nc\x0bd\u2028e")
    ]
    assert numbered == [(1, "a"), (4, "!b"), (5, "c\x0bd\u2028e")]


@pytest.mark.rows("R001-016", "C21")
def test_the_last_match_decides():
    """A `!` that is last takes back."""
    patterns = PatternList.of(["*.md", "!keep.md", "/docs/keep.md", "!b*.md", "b?.md"])
    assert patterns.decide("a.md", False) == 0
    assert patterns.decide("keep.md", False) == 1
    assert patterns.decide("docs/keep.md", False) == 2
    assert patterns.decide("bcd.md", False) == 3
    assert patterns.decide("bc.md", False) == 4
    assert patterns.decide("a.py", False) is None


lines = st.text(st.sampled_from("ab*?/![]\\."), min_size=1, max_size=6).filter(
    lambda line: parse_line(line) is not None
)
paths = st.lists(
    st.text(st.sampled_from("ab."), min_size=1, max_size=3), min_size=1, max_size=3
).map("/".join)


@given(st.lists(lines, max_size=8), paths, st.booleans())
def test_a_list_decides_as_trying_every_pattern(texts, path, is_dir):
    patterns = PatternList.of(texts)
    tried = [
        at
        for at, pattern in enumerate(patterns.patterns)
        if matches(pattern, path, is_dir)
    ]
    assert patterns.decide(path, is_dir) == (tried[-1] if tried else None)


SELECTED = [
    (["docs/"], ["docs/a.md", "docs/b/c.md", "x/docs/a.md"], ["docs", "adocs/a.md"]),
    (["/docs/"], ["docs/a.md"], ["x/docs/a.md"]),
    (["docs/**"], ["docs/a.md", "docs/b/c.md"], ["docs", "x/docs/a.md"]),
    (["docs"], ["docs", "docs/a.md", "x/docs/a.md"], ["docs.md"]),
    (["*.py"], ["a.py", "b/c.py", "pkg.py/readme"], ["a.pyc"]),
    (["/README.md"], ["README.md"], ["a/README.md"]),
    (["*.md", "!keep.md"], ["a.md", "b/a.md"], ["keep.md", "b/keep.md"]),
    (["docs/", "!docs/keep.md"], ["docs/keep.md", "docs/a.md"], ["keep.md"]),
    (["docs/*", "!docs/keep.md"], ["docs/a.md", "docs/b/c.md"], ["docs/keep.md"]),
    (["!keep.md"], [], ["keep.md", "a.md"]),
    (["!src/", "!docs/"], [], ["src/a.py", "docs/a.md"]),
    ([], [], ["a"]),
    (["*"], ["a", "a/b"], []),
]


@pytest.mark.parametrize(
    ("texts", "taken", "left"), SELECTED, ids=[str(texts) for texts, _, _ in SELECTED]
)
def test_selects(texts, taken, left):
    patterns = PatternList.of(texts)
    assert [path for path in taken if not patterns.selects(path)] == []
    assert [path for path in left if patterns.selects(path)] == []


def test_selects_decides_each_folder_once(monkeypatch):
    patterns = PatternList.of(
        ["docs/", "*.py", "/README.md", "!keep.md", "**/x/y/*.rs", "test_*"]
    )
    files = [f"d{n % 50}/e{n % 7}/f{n % 300}/file{n}.md" for n in range(10_000)]
    folders = {file.rpartition("/")[0] for file in files}
    decided = []
    decide_entry = PatternList.decide_entry

    def counted(self: PatternList, folder: str, name: str, is_dir: bool) -> int | None:
        decided.append(name)
        return decide_entry(self, folder, name, is_dir)

    monkeypatch.setattr(PatternList, "decide_entry", counted)
    assert not any(map(patterns.selects, files))
    assert len(decided) <= len(files) + 3 * len(folders)  # each folder is 3 deep


def test_a_path_may_be_deep():
    assert PatternList.of(["b/"]).selects("a/" * 3000 + "b/c")


@pytest.mark.parametrize("text", ["", "  ", "# comment", "!", "/", "a\nb"])
def test_a_user_is_told_what_is_no_pattern(text):
    with pytest.raises(ValueError, match="pattern"):
        PatternList.of(["*.md", text])


def test_values():
    assert parse_line("!a/b/") == Pattern(
        "!a/b/", negated=True, directory_only=True, anchored=True, glob="a/b"
    )
    assert PatternList.of(["a", "b"]) == PatternList.of(["a", "b"])
    assert len({PatternList.of(["a"]), PatternList.of(["a"])}) == 1
    assert (
        parse_line("\ud800") is not None
    )  # half a pair is no name, but no crash either


def test_a_list_compiles_each_of_its_globs_once(monkeypatch):
    """However many there are: a list that is asked again has nothing left to compile."""
    patterns = PatternList.of([f"*{n}?x" for n in range(3_000)])
    assert [patterns.decide(name, is_dir=False) for name in ("a7yx", "none")] == [
        7,
        None,
    ]
    compiled: list[str] = []
    monkeypatch.setattr("tamis.gitignore.patterns.regex_of", compiled.append)
    assert [patterns.decide(name, is_dir=False) for name in ("b7yx", "other")] == [
        7,
        None,
    ]
    assert compiled == []
