"""The filter algebra: its identities, what each atom means, and the forms of a file's name."""

import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tamis.errors import BadFilter
from tamis.model import Facts
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
    allows,
    any_of,
    none_of,
)
from tamis.query.language import Names, atom, parse_filter

LAW = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a noisy machine is no fault

A, B, C = Tag("a"), Tag("b"), Tag("c")
ROOT = "/home/user/project"
NAMES = Names(root=ROOT)


def facts(path: str = "docs/api.md", **more: object) -> Facts:
    return Facts(path, **more)


def passes(
    filter: Filter,
    path: str = "docs/api.md",
    kind: str = "documentation",
    language=None,
    **more,
):
    return allows(filter, facts(path, **more), kind, language)


# --- Identities ---------------------------------------------------------------------


def test_an_empty_and_is_everything_and_an_empty_or_is_nothing():
    assert passes(And(()))
    assert not passes(Or(()))
    assert (And(()), Or(())) == (EVERYTHING, NOTHING)


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (all_of(()), EVERYTHING),
        (any_of(()), NOTHING),
        (all_of((A,)), A),
        (any_of((A,)), A),
        (all_of((A, EVERYTHING)), A),
        (any_of((A, NOTHING)), A),
        (all_of((A, NOTHING)), NOTHING),
        (any_of((A, EVERYTHING)), EVERYTHING),
        (all_of((A, A)), A),
        (any_of((A, B, A)), Or((A, B))),
        (all_of((And((A, B)), C)), And((A, B, C))),
        (any_of((Or((A, B)), C)), Or((A, B, C))),
        (all_of((Or((A, B)), C)), And((Or((A, B)), C))),
        (none_of(none_of(A)), A),
        (none_of(EVERYTHING), NOTHING),
        (none_of(NOTHING), EVERYTHING),
        (none_of(A), Not(A)),
        (A & B, And((A, B))),
        (A | B, Or((A, B))),
        (~A, Not(A)),
        (~~A, A),
        (A & B & C, And((A, B, C))),
        (A | B | C, Or((A, B, C))),
    ],
    ids=lambda value: str(value) if isinstance(value, Filter) else "",
)
def test_identities(built, expected):
    assert built == expected


def test_what_is_no_filter_is_no_answer():
    with pytest.raises(TypeError):
        allows("tag:a", facts(), "documentation", None)  # type: ignore[arg-type]


TAGS = st.frozensets(st.sampled_from("abc"))
TREES = st.recursive(
    st.sampled_from([A, B, C, EVERYTHING, NOTHING]),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda terms: And(tuple(terms)))
        | st.lists(inner, max_size=3).map(lambda terms: Or(tuple(terms)))
        | inner.map(Not)
    ),
    max_leaves=8,
)


def truth(filter: Filter, tags: frozenset[str]) -> bool:
    """What logic says, written a second time: and is min, or is max, not turns over."""
    match filter:
        case And(terms):
            return bool(min((truth(term, tags) for term in terms), default=True))
        case Or(terms):
            return bool(max((truth(term, tags) for term in terms), default=False))
        case Not(term):
            return truth(term, tags) is False
        case Tag(name):
            return name in tags
    raise AssertionError(filter)


@LAW
@given(TREES, TAGS)
def test_a_filter_means_what_logic_says(tree, tags):
    assert passes(tree, tags=tags) is truth(tree, tags)


@LAW
@given(st.lists(TREES, max_size=4), TAGS)
def test_simplifying_keeps_the_meaning(terms, tags):
    assert passes(all_of(terms), tags=tags) is all(truth(term, tags) for term in terms)
    assert passes(any_of(terms), tags=tags) is any(truth(term, tags) for term in terms)
    for term in terms:
        assert passes(none_of(term), tags=tags) is not truth(term, tags)


# --- Atoms --------------------------------------------------------------------------

MAY = datetime(2026, 5, 1, tzinfo=UTC).timestamp()


@pytest.mark.rows("C24", "C80", "C95", "C96", "C102")
@pytest.mark.parametrize(
    ("filter", "row", "passed"),
    [
        (Under("docs"), {"path": "docs/api.md"}, True),
        (Under("docs"), {"path": "docs/deep/er/api.md"}, True),
        (Under("docs"), {"path": "docs2/api.md"}, False),
        (Under("docs"), {"path": "docs"}, False),
        (Under("docs"), {"path": "a/docs/api.md"}, False),
        (Under("caf\u00e9"), {"path": "cafe\u0301/a.md"}, True),
        (Under("cafe\u0301"), {"path": "caf\u00e9/a.md"}, True),
        (Under(""), {"path": "docs/a.md"}, True),
        (Under(""), {"path": "a.md"}, True),
        (Workspace("w", ("docs", "src/a")), {"path": "src/a/x.py"}, True),
        (Workspace("w", ("docs", "src/a")), {"path": "src/b/x.py"}, False),
        (Workspace("w", ()), {"path": "docs/a.md"}, False),
        (Workspace("w", ("",)), {"path": "docs/a.md"}, True),
        (File(("api.md",)), {"path": "docs/api.md"}, True),
        (File(("b.md", "/docs/api.md")), {"path": "docs/api.md"}, True),
        (File(("/api.md",)), {"path": "docs/api.md"}, False),
        (File(("//docs/api.md",)), {"path": "docs/api.md"}, False),
        (File(("api.md",)), {"path": "api.md.txt"}, False),
        (File(()), {"path": "docs/api.md"}, False),
        (Tag("a"), {"tags": frozenset({"a", "b"})}, True),
        (Tag("a"), {"tags": frozenset({"ab"})}, False),
        (Tag("a"), {"tags": frozenset()}, False),
        (Path(("docs/**",)), {"path": "docs/x/y.md"}, True),
        (Path(("*.md",)), {"path": "docs/x.md"}, True),
        (Path(("/x.md",)), {"path": "docs/x.md"}, False),
        (
            Path(("docs/", "!docs/x.md")),
            {"path": "docs/x.md"},
            True,
        ),  # git: nothing below comes back
        (Path(("docs/*", "!docs/x.md")), {"path": "docs/x.md"}, False),
        (Path(("*.md", "!x.md")), {"path": "docs/x.md"}, False),
        (Path(("*.md", "!x.md")), {"path": "docs/y.md"}, True),
        (Archived(("archive/", "*.old")), {"path": "a/archive/b.md"}, True),
        (Archived(("archive/", "*.old")), {"path": "notes.old"}, True),
        (Archived(("archive/", "*.old")), {"path": "archived/b.md"}, False),
        (Archived(("archive/", "*.old")), {"path": "x.older.py"}, False),
        (Archived(()), {"path": "archive/b.md"}, False),
        (Path(("caf\u00e9.md",)), {"path": "docs/cafe\u0301.md"}, True),
        (Path(("cafe\u0301.md",)), {"path": "docs/caf\u00e9.md"}, True),
        (Path(("/\u00e9t\u00e9/",)), {"path": "e\u0301te\u0301/a.md"}, True),
        (Archived(("pass\u00e9/",)), {"path": "passe\u0301/a.md"}, True),
        (Archived(("passe\u0301/",)), {"path": "pass\u00e9/a.md"}, True),
        (File(("cafe\u0301.md",)), {"path": "caf\u00e9.md"}, True),
        (DocumentIs("caf\u00e9.md"), {"path": "cafe\u0301.md"}, True),
        (DocumentIs("cafe\u0301.md"), {"path": "caf\u00e9.md"}, True),
        (Tag("cafe\u0301"), {"tags": frozenset({"caf\u00e9"})}, True),
        (Author("Jos\u00e9"), {"author": "JOSE\u0301"}, True),
        (Author("Jose\u0301 "), {"author": "jos\u00e9"}, True),
        (Category("\u00dcber"), {"category": "u\u0308ber"}, True),
        (Category("U\u0308ber"), {"category": "\u00fcber"}, True),
        (Author("Anna Smith"), {"author": "anna smith"}, True),
        (Author("Anna"), {"author": "Anna Smith"}, False),
        (Author("STRASSE"), {"author": "straße"}, True),
        (Category("How-To"), {"category": "how-to"}, True),
        (Category("how"), {"category": "how-to"}, False),
        (After("2026-05-01", MAY), {"modified": MAY}, True),
        (After("2026-05-01", MAY), {"modified": MAY - 0.001}, False),
        (Before("2026-05-01", MAY), {"modified": MAY}, False),
        (Before("2026-05-01", MAY), {"modified": MAY - 0.001}, True),
        (DocumentIs("docs/api.md"), {"path": "docs/api.md"}, True),
        (DocumentIs("api.md"), {"path": "docs/api.md"}, False),
        (DocumentIs("docs/api"), {"path": "docs/api.md"}, False),
        (Type("definitions"), {"kind": "definitions"}, True),
        (Type("definitions"), {"kind": "documentation"}, False),
        (Language("python"), {"language": "python"}, True),
        (Language("python"), {"language": None}, False),
    ],
    ids=lambda value: str(value) if isinstance(value, Filter) else "",
)
def test_atoms(filter, row, passed):
    """Membership, segments and whole values, never parts of words."""
    assert passes(filter, **row) is passed


# --- Files, as people and agents write them -------------------------------------------

TREE = (
    "README.md", "README.txt", "readme.md", "api.md", "api.txt", "docs/README.md", "docs/api.md",
    "docs/api.markdown", "docs/api.notes", "docs/deep/api.md", "release-1.2", "release-1.2.md",
    "release-1.md", "my notes.md", "docs/with space/a b.md", "caf\u00e9.md", "docs/cafe\u0301.md",
    "Makefile", "etc/hosts.md", "archive.tar.md",
)  # fmt: skip


def excluded(written: str, names: Names = NAMES) -> set[str]:
    wanted = atom("file", (written,), names)
    return {unicodedata.normalize("NFC", path) for path in TREE if passes(wanted, path)}


@pytest.mark.rows(
    "C07",
    "C09",
    "C10",
    "C12",
    "C33",
    "R000-005",
    "R000-007",
    "R000-010",
    "R000-039..052",
    "R000-061",
    "R000-080",
)
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("README.md", {"README.md", "docs/README.md"}, id="bare name: any depth"),
        pytest.param("README", {"README.md", "README.txt", "docs/README.md"}, id="bare name, no extension"),
        pytest.param("./README.md", {"README.md"}, id="dot slash: that one"),
        pytest.param(f"{ROOT}/README.md", {"README.md"}, id="absolute in the root: that one"),
        pytest.param(f"{ROOT}/README", {"README.md", "README.txt"}, id="absolute, no extension"),
        pytest.param("docs/api.md", {"docs/api.md"}, id="a path: that one"),
        pytest.param("docs/api", {"docs/api.md", "docs/api.markdown"}, id="a path without extension"),
        pytest.param(f"{ROOT}/docs/api.md", {"docs/api.md"}, id="absolute"),
        pytest.param("./docs/api.md", {"docs/api.md"}, id="dot slash and folder"),
        pytest.param("docs//api.md", {"docs/api.md"}, id="double slash"),
        pytest.param("docs/./api.md", {"docs/api.md"}, id="dot inside"),
        pytest.param("docs/deep/../api.md", {"docs/api.md"}, id="dot dot inside"),
        pytest.param("docs\\api.md", {"docs/api.md"}, id="backslashes"),
        pytest.param(".\\README.md", {"README.md"}, id="dot backslash"),
        pytest.param("  docs/api.md ", {"docs/api.md"}, id="blanks around"),
        pytest.param("api", {"api.md", "api.txt", "docs/api.md", "docs/api.markdown", "docs/deep/api.md"},
                     id="a name without extension, any depth, known kinds only"),
        pytest.param("release-1.2", {"release-1.2", "release-1.2.md"}, id="a dot that is no extension"),
        pytest.param("archive.tar", {"archive.tar.md"}, id="several dots"),
        pytest.param("my notes.md", {"my notes.md"}, id="a blank in the name"),
        pytest.param("docs/with space/a b.md", {"docs/with space/a b.md"}, id="blanks in the path"),
        pytest.param("caf\u00e9.md", {"caf\u00e9.md", "docs/caf\u00e9.md"}, id="composed letters"),
        pytest.param("cafe\u0301.md", {"caf\u00e9.md", "docs/caf\u00e9.md"}, id="decomposed letters"),
        pytest.param("readme.md", {"readme.md"}, id="case matters"),
        pytest.param("README.MD", set(), id="case matters in the extension too"),
        pytest.param("Makefile", {"Makefile"}, id="a name without any extension"),
        pytest.param("docs", set(), id="a folder is no file"),
        pytest.param("docs/", set(), id="a folder with its slash"),
        pytest.param("missing.md", set(), id="a file that is not there"),
        pytest.param("/etc/hosts.md", set(), id="absolute, outside the root"),
        pytest.param("/home/user/project2/README.md", set(), id="a root that only begins alike"),
        pytest.param("../README.md", set(), id="above the root"),
        pytest.param("C:\\project\\docs\\api.md", set(), id="another machine's drive"),
        pytest.param("\\\\server\\share\\README.md", set(), id="another machine's share"),
        pytest.param("*.md", set(), id="no pattern"),
    ],
)  # fmt: skip
def test_forms_of_a_file(written, expected):
    """A bare name is meant at any depth, anything with a slash is one place; a known extension
    binds, a missing one does not."""
    assert excluded(written) == expected


@pytest.mark.rows("C16")
@pytest.mark.parametrize(
    "written",
    ["", " ", ".", "/", "./", "..", "../..", "\\", "//", "docs/..", ROOT, f"{ROOT}/"],
)
def test_what_names_no_file_is_refused(written):
    """An entry that names nothing must not crash, nor silently keep nothing out."""
    with pytest.raises(BadFilter) as caught:
        atom("file", (written,), NAMES)
    assert caught.value.hint


@pytest.mark.rows("C12")
def test_an_absolute_path_through_a_link_is_the_file_it_leads_to():
    """Real paths on both sides."""
    linked = Names(
        root=ROOT, resolve=lambda path: path.replace("/link/", f"{ROOT}/docs/")
    )
    assert excluded("/link/api.md", linked) == {"docs/api.md"}


def test_the_root_may_be_the_whole_disk():
    whole = Names(root="/")
    assert excluded("/docs/api.md", whole) == {"docs/api.md"}
    assert excluded("/README.md", whole) == {"README.md"}


@pytest.mark.rows("C12")
@pytest.mark.parametrize("root", ["/proj/caf\u00e9", "/proj/cafe\u0301"])
@pytest.mark.parametrize(
    "typed", ["/proj/caf\u00e9/docs/api.md", "/proj/cafe\u0301/docs/api.md"]
)
def test_accents_in_the_root_itself(root, typed):
    assert excluded(typed, Names(root=root)) == {"docs/api.md"}


@pytest.mark.rows("R000-042")
@LAW
@given(st.sampled_from(TREE))
def test_every_file_is_named_by_its_own_path(path):
    """Exactly one file, or files that share all but the spelling of an accent."""
    for written in (f"{ROOT}/{path}", f"./{path}"):
        wanted = atom("file", (written,), NAMES)
        assert isinstance(wanted, File)
        assert passes(wanted, path)
        if path.endswith(".md"):
            assert excluded(written) == {unicodedata.normalize("NFC", path)}


def test_under_the_root_is_what_it_prints():
    """`under:.` reads as everything, so the atom that prints so lets everything through."""
    assert str(Under("")) == "under:."
    assert parse_filter(str(Under("")), NAMES) == EVERYTHING
    assert passes(Under(""), "a.md")
