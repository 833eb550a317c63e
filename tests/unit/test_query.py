"""The query language: printing and parsing are inverse, and bad text is a clear fault."""

import os
import re
from datetime import UTC, datetime
from importlib.resources import files

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tamis.errors import BadFilter
from tamis.query.filters import (
    EVERYTHING,
    NOTHING,
    After,
    And,
    Archived,
    Author,
    Before,
    Category,
    DocumentIs,
    File,
    Filter,
    Language,
    Not,
    Or,
    Path,
    Tag,
    Type,
    Under,
    Workspace,
    all_of,
    any_of,
    none_of,
)
from tamis.query.language import Names, atom, directory, parse_filter, parse_query
from tamis.text.languages import CHUNK_TYPES, LANGUAGES
from tamis.text.words import tag_name

LAW = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a noisy machine is no fault

NAMES = Names(
    root="/proj",
    workspaces={"api": ("docs/api",), "Big Team": ("src", "lib"), "empty": ()},
    archived=Archived(("archive/", "*.old")),
)


def read(text: str) -> Filter:
    return parse_filter(text, NAMES)


# --- The keys --------------------------------------------------------------------------


def test_the_page_knows_the_same_keys():
    """The box of the page splits a query as `parse_query` does, in JavaScript."""
    with pytest.raises(BadFilter) as caught:
        read("nokeyislikethis:x")
    allowed = caught.value.hint.removeprefix("allowed: ").split(", ")
    script = (files("tamis.server.web") / "terms.js").read_text("utf-8")
    keys = re.search(r'const KEYS = "(.*)";', script)
    alone = re.search(r"const ALONE = new Set\(\[(.*)\]\);", script)
    assert keys and alone
    assert sorted([*keys[1].split("|"), "is"]) == sorted(allowed)
    assert set(re.findall(r"\w+", alone[1])) < set(allowed)


# --- Printing and parsing -----------------------------------------------------------

TEXT = st.text(min_size=1, max_size=12) | st.text(
    alphabet='ab :"\\()[]|-#*!/.,\n\té', min_size=1, max_size=12
)
NAMED = TEXT.filter(lambda text: text.strip())


def legal(key: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[Filter]:
    """Atoms as a door makes them: from a value, when it is one that can exist."""

    def make(value: str) -> Filter | None:
        try:
            return atom(key, (value,), NAMES)
        except BadFilter:
            return None

    return values.map(make).filter(lambda made: made is not None)


DATES = st.dates().map(str) | st.datetimes(timezones=st.just(UTC)).map(
    datetime.isoformat
)
ATOMS = st.one_of(
    legal("file", NAMED),
    st.lists(st.sampled_from(["a.md", "/b.md", "//c d.md"]), min_size=2).map(
        lambda names: File(tuple(names))
    ),
    legal("under", NAMED | st.just(".")),
    legal("workspace", st.sampled_from(["api", "Big Team", "empty"])),
    legal("tag", NAMED),
    legal("author", NAMED),
    legal("category", NAMED),
    legal("doc", NAMED),
    legal("path", NAMED),
    legal("after", DATES),
    legal("before", DATES),
    legal("type", st.sampled_from(CHUNK_TYPES)),
    legal("lang", st.sampled_from(LANGUAGES)),
    st.lists(
        st.sampled_from(["*.md", "!x", "a b/", "docs/**"]), min_size=2, max_size=3
    ).map(lambda patterns: Path(tuple(patterns))),
    st.just(NAMES.archived),
    st.sampled_from([EVERYTHING, NOTHING]),
)
FILTERS = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, max_size=4).map(all_of)
        | st.lists(inner, max_size=4).map(any_of)
        | inner.map(none_of)
    ),
    max_leaves=10,
)


@LAW
@given(FILTERS)
@example(File(("/README.md", "docs", "//etc/outside.md")))
def test_reading_what_was_printed_gives_the_same_filter(filter):
    assert read(str(filter)) == filter


@LAW
@given(FILTERS, FILTERS)
def test_two_filters_side_by_side_must_both_hold(first, second):
    assert read(f"({first}) ({second})") == all_of((first, second))
    assert read(f"({first}) | ({second})") == any_of((first, second))
    assert read(f"-({first})") == none_of(first)


@pytest.mark.parametrize(
    ("text", "filter"),
    [
        ("", EVERYTHING),
        ("   \n", EVERYTHING),
        ("everything", EVERYTHING),
        ("nothing", NOTHING),
        ("archived", Archived(("archive/", "*.old"))),
        ("is:archived", Archived(("archive/", "*.old"))),
        ("-archived", Not(Archived(("archive/", "*.old")))),
        ("path:docs/**", Path(("docs/**",))),
        ("path:[docs/** !docs/x]", Path(("docs/**", "!docs/x"))),
        ('path:["a b" c]', Path(("a b", "c"))),
        ("file:README.md", File(("README.md",))),
        ("file:./README.md", File(("/README.md",))),
        ("file:/proj/README.md", File(("/README.md",))),
        ("file:/proj/docs/a.md", File(("/docs/a.md",))),
        ("file:[a.md docs/b.md /out/c.md]", File(("a.md", "/docs/b.md", "//out/c.md"))),
        ("under:docs/api/", Under("docs/api")),
        ("under:/proj/docs", Under("docs")),
        ("under:.", EVERYTHING),
        ("under:docs\\api", Under("docs/api")),
        ("workspace:API", Workspace("api", ("docs/api",))),
        ('workspace:"big team"', Workspace("Big Team", ("src", "lib"))),
        ("tag:#Draft", Tag("draft")),
        ("tag:a:b", Tag("a:b")),
        ('tag:"two words"', Tag("two words")),
        (r'tag:"say \"hi\" \\"', Tag('say "hi" \\')),
        ("type:code_block", Type("code_block")),
        ("lang:Python", Language("python")),
        ('author:"Anna Smith"', Author("Anna Smith")),
        ("category:guide", Category("guide")),
        ("doc:docs/api.md", DocumentIs("docs/api.md")),
        ("tag:a tag:b", And((Tag("a"), Tag("b")))),
        ("tag:a | tag:b", Or((Tag("a"), Tag("b")))),
        ("tag:a|tag:b", Or((Tag("a"), Tag("b")))),
        ("tag:a tag:b | tag:c", Or((And((Tag("a"), Tag("b"))), Tag("c")))),
        ("tag:a (tag:b | tag:c)", And((Tag("a"), Or((Tag("b"), Tag("c")))))),
        ("-(tag:a tag:b)", Not(And((Tag("a"), Tag("b"))))),
        ("--tag:a", Tag("a")),
        ("- tag:a", Not(Tag("a"))),
        ("((tag:a))", Tag("a")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_reading_a_filter(text, filter):
    assert read(text) == filter


@LAW
@given(TEXT)
def test_any_value_survives_its_quotes(value):
    if tag_name(value):
        assert read(str(Tag(tag_name(value)))) == Tag(tag_name(value))
    if value.strip():
        assert read(str(Author(value))) == Author(value)


# --- Dates ---------------------------------------------------------------------------


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "begins", "ends"),
    [
        pytest.param("2026-05-01", at(2026, 5, 1), at(2026, 5, 2), id="a day is whole"),
        pytest.param(
            "2026-02-28", at(2026, 2, 28), at(2026, 3, 1), id="the end of February"
        ),
        pytest.param(
            "2024-02-28", at(2024, 2, 28), at(2024, 2, 29), id="a leap year's"
        ),
        pytest.param("2026-05", at(2026, 5, 1), at(2026, 6, 1), id="a month is whole"),
        pytest.param("2026-12", at(2026, 12, 1), at(2027, 1, 1), id="December"),
        pytest.param("2026", at(2026, 1, 1), at(2027, 1, 1), id="a year is whole"),
        pytest.param("20260501", at(2026, 5, 1), at(2026, 5, 2), id="without dashes"),
        pytest.param(
            "2026-05-01T12:30:00Z",
            at(2026, 5, 1, 12, 30),
            at(2026, 5, 1, 12, 30),
            id="a moment",
        ),
        pytest.param(
            "2026-05-01T12:30:00+02:00",
            at(2026, 5, 1, 10, 30),
            at(2026, 5, 1, 10, 30),
            id="zone",
        ),
        pytest.param(
            "2026-05-01T12:30:00",
            at(2026, 5, 1, 12, 30),
            at(2026, 5, 1, 12, 30),
            id="no zone",
        ),
        pytest.param(
            "9999-12-31", at(9999, 12, 31), at(9999, 12, 31) + 86400, id="the last day"
        ),
        pytest.param(
            "9999-12", at(9999, 12, 1), at(9999, 12, 31) + 86400, id="the last month"
        ),
        pytest.param(
            "9999", at(9999, 1, 1), at(9999, 12, 31) + 86400, id="the last year"
        ),
        pytest.param("0001-01-01", at(1, 1, 1), at(1, 1, 2), id="the first day"),
    ],
)
def test_dates(text, begins, ends):
    """A date without a time counts whole: `after` from its begin, `before` to its end, in UTC."""
    assert read(f"after:{text}") == After(text, begins)
    assert read(f"before:{text}") == Before(text, ends)


@pytest.mark.parametrize(
    "text",
    [
        "2026-13-45",
        "2026-02-30",
        "2026-00",
        "2026-13",
        "0000",
        "yesterday",
        "01.05.2026",
        "5/1/2026",
        "26",
    ],
)
def test_what_is_no_date_is_refused_with_an_example(text):
    with pytest.raises(BadFilter, match="no date") as caught:
        read(f"after:{text}")
    assert "2026-05-01" in caught.value.hint
    with pytest.raises(BadFilter):
        read(f"before:{text}")


# --- Queries: words and terms ----------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "text", "filter"),
    [
        ("retry policy", "retry policy", EVERYTHING),
        ("retry path:docs/** policy", "retry policy", Path(("docs/**",))),
        ("retry -tag:draft", "retry", Not(Tag("draft"))),
        ("tag:a retry tag:b", "retry", And((Tag("a"), Tag("b")))),
        ('by author:"Anna Smith" only', "by only", Author("Anna Smith")),
        ("is:archived old notes", "old notes", Archived(("archive/", "*.old"))),
        ("-is:archived notes", "notes", Not(Archived(("archive/", "*.old")))),
        ("std::path join", "std::path join", EVERYTHING),
        ("path::join", "path::join", EVERYTHING),
        ("error: no such file", "error: no such file", EVERYTHING),
        ("type: int", "type: int", EVERYTHING),
        ('what is "type:int" here', "what is type:int here", EVERYTHING),
        ('"exact phrase" search', '"exact phrase" search', EVERYTHING),
        ("foo:bar", "foo:bar", EVERYTHING),
        ("http://localhost:80/x", "http://localhost:80/x", EVERYTHING),
        ("archived notes", "archived notes", EVERYTHING),
        ("everything about nothing", "everything about nothing", EVERYTHING),
        ("a | b (c)", "a | b (c)", EVERYTHING),
        ("-v --verbose -x", "-v --verbose -x", EVERYTHING),
        ("mid-tag:x", "mid-tag:x", EVERYTHING),
        ('say "unclosed', 'say "unclosed', EVERYTHING),
        ("  spaced   words  ", "spaced   words", EVERYTHING),
        ("tag:only", "", Tag("only")),
    ],
)
def test_a_query_is_words_and_terms(typed, text, filter):
    assert parse_query(typed, NAMES) == (text, filter)


@LAW
@given(st.text(max_size=60))
def test_text_without_a_colon_is_all_words(typed):
    text = typed.replace(":", " ")
    assert parse_query(text, NAMES) == (text.strip(), EVERYTHING)


# --- Faults ---------------------------------------------------------------------------


@pytest.mark.rows("C87", "C102")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tagg:x", "did you mean tag?"),
        ("pth:x", "did you mean path?"),
        ("zzz:x", "allowed: path, file"),
        ("type:Documentation", "did you mean documentation?"),
        ("type:nonsense", "documentation, code_block, symbols, definitions, data"),
        ("lang:pyhton", "did you mean python?"),
        ("workspace:apl", "did you mean api?"),
        ("workspace:other", "api, Big Team, empty"),
        ("is:new", "is:archived"),
        ('tag:""', "tag:VALUE"),
        ('tag:" "', "tag:VALUE"),
        ("tag:#", "tag:NAME"),
        ("tag:[a b]", "tag:VALUE"),
        ("under:../elsewhere", "below the root"),
        ("under:/elsewhere", "below the root"),
        ("under:..", "below the root"),
        ("file:/", "a file name or a path"),
        ('path:""', ".gitignore"),
        ("word", "key:value"),
        ("tag:a |", "key:value"),
        ("| tag:a", "key:value"),
        ("()", "key:value"),
        ("(tag:a", "key:value"),
        ("tag:a)", "key:value"),
        ("-", "key:value"),
        ('tag:"open', "key:value"),
        ("path:[a b", "key:value"),
        ("tag:", "key:value"),
    ],
)
def test_a_fault_says_what_is_allowed(text, said):
    """A value that cannot exist is an error that names what can, or the nearest."""
    with pytest.raises(BadFilter) as caught:
        read(text)
    assert said in caught.value.hint
    assert caught.value.message
    assert caught.value.exit_code == 2
    assert caught.value.http_status == 400


@pytest.mark.rows("C87")
def test_without_workspaces_none_can_be_named():
    with pytest.raises(BadFilter) as caught:
        parse_filter("workspace:x", Names())
    assert "none are configured" in caught.value.hint


def test_nesting_is_deep_enough_and_has_an_end():
    assert read("(" * 60 + "tag:a" + ")" * 60) == Tag("a")
    for open_, close in (("(", ")"), ("-(", ")"), ("( ", "")):
        with pytest.raises(BadFilter, match="nested parentheses"):
            read(open_ * 5000 + "tag:a" + close * 5000)


def test_an_open_list_of_many_letters_is_refused_at_once():
    """A list that is never closed once took time that doubled with every letter."""
    with pytest.raises(BadFilter):
        read("path:[" + "a" * 5000)
    with pytest.raises(BadFilter):
        read("path:[" + "a " * 5000)


HOSTILE = 20_000  # characters: the longest query


@pytest.mark.parametrize(
    "unit",
    [
        '"', '"\\', '\\"', '"a', '"a ', '" ', '["', '[" ', '"[', "[", "[a ", '["a" ', '"["', "]", "(", "-",
        "a ", ":", "a:", '"a:', '"a: ', '"::', '"\\\n', "\\\n", "std::", "[[", "-(", "\t",
    ],
)  # fmt: skip
@pytest.mark.parametrize("before", ["", '"', "[", '"a:', '["'])
def test_a_hostile_query_is_all_words(before, unit):
    """Parsing once took time with the square of the length."""
    typed = (before + unit * HOSTILE)[:HOSTILE]
    text, found = parse_query(typed, NAMES)
    assert found == EVERYTHING
    assert text.replace('"', "") == typed.strip().replace('"', "")


@pytest.mark.parametrize(
    ("typed", "text", "filter"),
    [
        ('"\\' * 9_000 + " tag:a", '"\\' * 9_000, Tag("a")),
        ('"a" ' * 4_000 + '5" disk tag:a', '"a" ' * 4_000 + '5" disk', Tag("a")),
        ('tag:"a b" 5" ["x tag:c y]', '5" ["x y]', And((Tag("a b"), Tag("c")))),
        ('path:["a b" c] "open', '"open', Path(("a b", "c"))),
        ('"' + "a:" * 9_000, '"' + "a:" * 9_000, EVERYTHING),
        ('"::path" and "a b:c"', '::path and "a b:c"', EVERYTHING),
    ],
    ids=str,
)
def test_terms_beside_open_quotes(typed, text, filter):
    assert parse_query(typed, NAMES) == (text, filter)


def test_a_backslash_may_stand_before_a_line_break():
    assert read('tag:"a\\\nb"') == Tag("a\nb")


NOISE = st.text(max_size=40) | st.lists(
    st.sampled_from(
        ["tag:", "path:", "file:", "after:", "before:", "under:", "is:", "type:", "-", "(", ")", "|", "[",
         "]", '"', "\\", " ", "a", "*", "9999-12-31", "2026", "archived", "nothing", "/", "..", "!", "\x00",
         "é", "\ud800"]
    ),
    max_size=14,
).map("".join)  # fmt: skip


@LAW
@given(NOISE)
@example("after:9999-12")
@example("after:0000-00")
@example("before:9999-W53")
@example("tag:\x00")
@example('file:"a.md /"')
@example('file:"./a /"')
@example('under:"0 /"')
@example('under:"0/ /"')
@example('under:"./ a/.. "')
@example("file:a/../..")
def test_no_text_raises_anything_but_a_bad_filter(text):
    try:
        found = read(text)
    except BadFilter:
        return
    assert read(str(found)) == found


@LAW
@given(NOISE)
def test_no_query_raises_anything_but_a_bad_filter(text):
    try:
        words, found = parse_query(text, NAMES)
    except BadFilter:
        return
    assert isinstance(words, str)
    assert read(str(found)) == found


@pytest.mark.rows("C80")
@LAW
@given(NOISE)
def test_a_directory_never_leads_out_of_the_root(text):
    """One canonical form, whatever was typed."""
    try:
        path = directory(text, NAMES)
    except BadFilter:
        return
    assert not path.startswith(("/", "../"))
    assert not path.endswith("/")
    assert ".." not in path.split("/")
    assert directory(path or ".", NAMES) == path


@pytest.mark.parametrize("odd", ["/a\x00b", "/proj/\x00", "/\ud800", "/proj/\udcff.md"])
def test_characters_that_no_path_can_have(odd):
    """The operating system refuses to look at some of these: then they are nowhere."""
    names = Names(root="/proj", resolve=os.path.realpath)
    assert str(atom("file", (odd,), names))
    if "\udcff" not in odd:
        with pytest.raises(BadFilter):
            directory(odd, names)


@pytest.mark.parametrize("written", ["2026-W10", "2026W10", " 2026-W10 "])
def test_a_week_counts_whole(written):
    monday = datetime(2026, 3, 2, tzinfo=UTC).timestamp()
    assert atom("after", (written,), NAMES).moment == monday
    assert atom("before", (written,), NAMES).moment == monday + 7 * 86_400


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("2026-W10-1", 86_400), ("2026W101", 86_400), ("2026W10T00", 0)],
)
def test_a_day_or_a_moment_of_a_week_is_that(written, seconds):
    monday = datetime(2026, 3, 2, tzinfo=UTC).timestamp()
    assert atom("after", (written,), NAMES).moment == monday
    assert atom("before", (written,), NAMES).moment == monday + seconds


def test_a_workspace_is_found_in_either_spelling_of_an_accent():
    names = Names(root="/proj", workspaces={"Caf\u00e9": ("docs",)})
    assert parse_filter("workspace:cafe\u0301", names) == Workspace(
        "Caf\u00e9", ("docs",)
    )
