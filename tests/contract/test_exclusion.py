"""Exclusion: however a file is named, in whatever lane and with whatever stage, it is not there.

The reference is never the filter itself: it is an index of a folder from which the files were
deleted, the table of names below, and git.
"""

import json
import os
import subprocess
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.corpora import open_corpus, write_files
from support.corpora import test_settings as settings_of
from tamis.corpus import Corpus
from tamis.errors import BadFilter, UsageError
from tamis.model import Found

NFC, NFD = "caf\u00e9.md", "docs/cafe\u0301.md"

# Every file with a word of its own.
ANIMALS = {
    "README.md": "aardvark",
    "README.txt": "badger",
    "readme.md": "camel",
    "docs/README.md": "dolphin",
    "docs/deep/README.md": "elephant",
    "api.md": "ferret",
    "api.txt": "giraffe",
    "docs/api.md": "hedgehog",
    "docs/api.markdown": "iguana",
    "docs/deep/api.md": "jaguar",
    "docs/my.api.md": "kangaroo",
    "release-1": "lemur",
    "release-1.2": "mongoose",
    "release-1.2.md": "narwhal",
    "v1.0.0.notes.md": "ocelot",
    "my notes.md": "penguin",
    "docs/with space/a b.md": "quokka",
    NFC: "raccoon",
    NFD: "salamander",
    "Makefile": "tapir",
    "src/api.py": "urchin",
    "archive/api.md": "vulture",
    "docs/plan.md.old": "walrus",
    "docs2/api.md": "yak",
}
ARCHIVED = {"archive/api.md", "docs/plan.md.old"}
SMALL = {"chunking__min_chars": 0}
LANES = {
    "both": {},
    "meaning": {"search__keyword_weight": 0},
    "words": {"search__semantic_weight": 0},
}
STAGES: dict[str, dict[str, Any]] = {
    "plain": {},
    "per document": {"max_chunks_per_doc": 1},
    "unique": {"unique": True},
    "threshold": {"min_score": 0.3},
    "archived shown": {"exclude_archived": False},
}


def text_of(path: str, animal: str) -> str:
    """Two passages in Markdown, one elsewhere; the first word is in all of them."""
    if path.endswith((".md", ".markdown")):
        return f"# Notes\n\nalpha {animal}\n\n## More\n\nalpha beta {animal}\n"
    return f"alpha notes {animal}\n"


def passages_in(path: str) -> int:
    return 2 if path.endswith((".md", ".markdown")) else 1


# How a file is written, and which files that is. {root} and {link} are the folder, itself and by a link.
FORMS: dict[str, tuple[str, set[str]]] = {
    "bare": ("README.md", {"README.md", "docs/README.md", "docs/deep/README.md"}),
    "bare, one place": ("my.api.md", {"docs/my.api.md"}),
    "bare, no extension": (
        "README", {"README.md", "README.txt", "docs/README.md", "docs/deep/README.md"}
    ),
    "bare, an extension binds": ("api.txt", {"api.txt"}),
    "bare, several places": (
        "api.md", {"api.md", "docs/api.md", "docs/deep/api.md", "archive/api.md", "docs2/api.md"}
    ),
    "bare, several dots": ("v1.0.0.notes.md", {"v1.0.0.notes.md"}),
    "bare, several dots, no extension": ("v1.0.0.notes", {"v1.0.0.notes.md"}),
    "bare, a dot that is no extension": ("release-1.2", {"release-1.2", "release-1.2.md"}),
    "bare, no extension at all": ("Makefile", {"Makefile"}),
    "bare, a blank": ("my notes.md", {"my notes.md"}),
    "bare, composed": (unicodedata.normalize("NFC", "caf\u00e9.md"), {NFC, NFD}),
    "bare, decomposed": (unicodedata.normalize("NFD", "caf\u00e9.md"), {NFC, NFD}),
    "bare, case": ("readme.md", {"readme.md"}),
    "bare, an archived file": ("plan.md.old", {"docs/plan.md.old"}),
    "relative": ("docs/api.md", {"docs/api.md"}),
    "relative, no extension": ("docs/api", {"docs/api.md", "docs/api.markdown"}),
    "relative, deep": ("docs/deep/api.md", {"docs/deep/api.md"}),
    "relative, archived": ("archive/api.md", {"archive/api.md"}),
    "relative, blanks": ("docs/with space/a b.md", {"docs/with space/a b.md"}),
    "relative, composed": (unicodedata.normalize("NFC", NFD), {NFD}),
    "relative, decomposed": (NFD, {NFD}),
    "relative, dots inside": ("docs/deep/../api.md", {"docs/api.md"}),
    "relative, doubled slash": ("docs//api.md", {"docs/api.md"}),
    "relative, blanks around": ("  docs/api.md ", {"docs/api.md"}),
    "dot slash": ("./README.md", {"README.md"}),
    "dot slash, folder": ("./docs/README.md", {"docs/README.md"}),
    "dot slash, composed": (f"./{NFC}", {NFC}),
    "dot slash, no extension": ("./README", {"README.md", "README.txt"}),
    "absolute": ("{root}/docs/api.md", {"docs/api.md"}),
    "absolute, top": ("{root}/README.md", {"README.md"}),
    "absolute, no extension": ("{root}/docs/api", {"docs/api.md", "docs/api.markdown"}),
    "absolute, blanks": ("{root}/docs/with space/a b.md", {"docs/with space/a b.md"}),
    "absolute, decomposed": ("{root}/docs/cafe\u0301.md", {NFD}),
    "absolute, composed": ("{root}/docs/caf\u00e9.md", {NFD}),
    "absolute, with dots": ("{root}/docs/deep/../api.md", {"docs/api.md"}),
    "absolute, through a link to the root": ("{link}/docs/api.md", {"docs/api.md"}),
    "absolute, through a link to a folder": ("{link}-docs/api.md", {"docs/api.md"}),
    "absolute, a link to the file": ("{link}-api.md", {"docs/api.md"}),
    "absolute, through a link, no extension": ("{link}/docs/api", {"docs/api.md", "docs/api.markdown"}),
    "relative, through a link to a folder": ("docs-link/api.md", {"docs/api.md"}),
    "relative, a link to the file": ("./deep-link.md", {"docs/deep/api.md"}),
    "backslashes": ("docs\\api.md", {"docs/api.md"}),
    "backslashes, deep": ("docs\\deep\\README.md", {"docs/deep/README.md"}),
    "backslashes, dot": (".\\README.md", {"README.md"}),
    "backslashes and slashes": ("docs\\deep/api.md", {"docs/deep/api.md"}),
}  # fmt: skip

# Forms that name no file of this folder.
FOREIGN = {
    "case matters": "Readme.md",
    "case of the extension matters": "README.MD",
    "case of the folder matters": "DOCS/api.md",
    "a folder": "docs",
    "a folder with its slash": "docs/",
    "a missing file": "nowhere.md",
    "a pattern": "*.md",
    "another machine's drive": "C:\\project\\docs\\api.md",
    "another machine's drive with slashes": "C:/project/docs/api.md",
    "another machine's share": "\\\\server\\share\\README.md",
    "outside the root": "/etc/docs/api.md",
    "a root that only begins alike": "{root}2/docs/api.md",
    "above the root": "../docs/api.md",
    "part of a name": "EADME.md",
    "part of a path": "eep/api.md",
}


class Shelf:
    """The folder, indexed; the folder without some of its files, indexed; each with any lanes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = self.write("whole", ANIMALS)
        self.link = folder / "link"
        self.link.symlink_to(self.root)
        (folder / "link-docs").symlink_to(self.root / "docs")
        (folder / "link-api.md").symlink_to(self.root / "docs/api.md")
        (self.root / "docs-link").symlink_to("docs")
        (self.root / "deep-link.md").symlink_to("docs/deep/api.md")
        self.opened: dict[tuple[frozenset[str], str], Corpus] = {}

    def write(self, name: str, files: dict[str, str]) -> Path:
        root = write_files(
            self.folder / name,
            {path: text_of(path, own) for path, own in files.items()},
        )
        root.mkdir(exist_ok=True)
        for file in root.rglob("*"):
            os.utime(file, (1_770_000_000, 1_770_000_000))
        return root

    def typed(self, form: str) -> str:
        return form.format(root=self.root, link=self.link)

    def without(self, gone: set[str], lanes: str) -> Corpus:
        """An index that never held these files."""
        key = (frozenset(gone), lanes)
        if key not in self.opened:
            name = f"part{len(self.opened)}"
            left = {path: own for path, own in ANIMALS.items() if path not in gone}
            root = self.write(name, left) if gone else self.root
            self.opened[key] = open_corpus(root, **SMALL, **LANES[lanes])
        return self.opened[key]

    def close(self) -> None:
        for corpus in self.opened.values():
            corpus.close()


@pytest.fixture(scope="module")
def shelf(tmp_path_factory) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path_factory.mktemp("shelf").resolve())
    yield shelf
    shelf.close()


def comparable(found: Found) -> dict[str, Any]:
    """All that an answer says, without where the index lies and what it holds besides."""
    answer = found.to_dict()
    results = [
        {k: v for k, v in result.items() if k != "file_path"}
        for result in answer["results"]
    ]
    stats = {
        name: count
        for name, count in answer["stats"].items()
        if name != "excluded_documents"
    }
    return {"results": results, "stats": stats, "query_type": answer["query_type"]}


def paths(found: Found) -> set[str]:
    return {result.path for result in found.results}


def in_bytes(found: Found) -> str:
    """The whole answer, times aside."""
    return json.dumps(found.to_dict() | {"timings_ms": {}}, ensure_ascii=False)


# --- The matrix ---------------------------------------------------------------------------------


@pytest.mark.rows(
    "R000-002",
    "R000-005..007",
    "R000-023",
    "R000-031",
    "R000-032",
    "R000-035..037",
    "R000-040..043",
    "R000-045..048",
    "R000-050..053",
    "R000-056..058",
    "R000-061..063",
    "R000-066",
    "R000-074",
    "R000-080",
)
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("form", FORMS)
def test_an_excluded_file_is_not_there(form, lanes, shelf):
    """Every form of a name, every lane, every stage; answers, scores, order and counts are
    those of a folder without the files."""
    written, files = FORMS[form]
    whole, part = shelf.without(set(), lanes), shelf.without(files, lanes)
    # A question that these files answer best, so that without the exclusion they come first.
    best = "alpha " + " ".join(ANIMALS[path] for path in sorted(files))
    for stage, arguments in STAGES.items():
        # No file has every animal, so none is a good answer to that; one has the first.
        question = (
            best
            if stage != "threshold"
            else f"alpha {ANIMALS[min(files - ARCHIVED or files)]}"
        )
        # Archived ones come later, by their penalty, but they come.
        shown = paths(
            whole.search(question, limit=100 if files <= ARCHIVED else 5, **arguments)
        )
        assert shown & files or (files <= ARCHIVED and stage != "archived shown"), stage
        for limit in (1, 5, 100):
            found = whole.search(
                question,
                limit=limit,
                excluded_files=[shelf.typed(written)],
                **arguments,
            )
            assert not paths(found) & files, stage
            assert comparable(found) == comparable(
                part.search(question, limit=limit, **arguments)
            ), stage


@pytest.mark.rows("R000-025", "R000-038", "R000-054", "R000-073")
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("form", FORMS)
def test_answers_are_full_while_enough_is_left(form, lanes, shelf):
    """As many results as asked for, or all that are left."""
    written, files = FORMS[form]
    whole = shelf.without(set(), lanes)
    left = [path for path in ANIMALS if path not in files | ARCHIVED]
    eligible = {"plain": sum(map(passages_in, left)), "unique": len(left)}
    for stage, most in eligible.items():
        for limit in (1, 5, most - 1, most, most + 1):
            found = whole.search(
                "alpha",
                limit=limit,
                excluded_files=[shelf.typed(written)],
                **STAGES[stage],
            )
            assert len(found.results) == min(limit, most)
            assert found.stats["eligible_documents"] == len(left)
            assert found.stats["excluded_documents"] == len(ANIMALS) - len(left)


@pytest.mark.rows("R000-010", "R000-041", "R000-044", "C33")
@pytest.mark.parametrize("form", FOREIGN)
def test_what_names_no_file_here_excludes_nothing(form, shelf):
    """Exact, case-sensitive, and no error for a path elsewhere."""
    whole = shelf.without(set(), "both")
    plain = whole.search("alpha", limit=100)
    found = whole.search(
        "alpha", limit=100, excluded_files=[shelf.typed(FOREIGN[form])]
    )
    assert comparable(found) == comparable(plain)
    assert found.stats["excluded_documents"] == len(ARCHIVED)


@pytest.mark.rows("R000-029")
@pytest.mark.parametrize("lanes", LANES)
def test_several_forms_together(lanes, shelf):
    """Each entry counts, whatever the others are."""
    forms = [written for written, _ in FORMS.values()]
    gone = set().union(*(files for _, files in FORMS.values()))
    mixed = [shelf.typed(form) for form in (*forms, *FOREIGN.values())]
    left = set(ANIMALS) - gone
    assert left
    found = shelf.without(set(), lanes).search(
        "alpha", limit=100, excluded_files=mixed, exclude_archived=False
    )
    assert paths(found) == left
    part = shelf.without(gone, lanes)
    assert comparable(found) == comparable(
        part.search("alpha", limit=100, exclude_archived=False)
    )


# --- Lists ---------------------------------------------------------------------------------------


@pytest.mark.rows("C03", "R000-004", "R000-008", "R000-028", "R000-055", "R000-079")
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("empty", [[], (), set(), None], ids=repr)
def test_an_empty_list_is_none(empty, stage, lanes, shelf):
    """Byte for byte, times aside."""
    whole = shelf.without(set(), lanes)
    plain = whole.search("alpha hedgehog", **STAGES[stage])
    lists = ("excluded_files", "exclude_patterns", "include_patterns", "under", "tags", "chunk_types",
             "languages")  # fmt: skip
    for name in lists:
        assert in_bytes(
            whole.search("alpha hedgehog", **STAGES[stage], **{name: empty})
        ) == in_bytes(plain)
    every = dict.fromkeys(lists, empty)
    assert in_bytes(
        whole.search("alpha hedgehog", **STAGES[stage], **every)
    ) == in_bytes(plain)


@pytest.mark.rows("C16")
@pytest.mark.parametrize(
    "entry", ["", " ", ".", "./", "/", "..", "\\", "{root}", "{root}/docs/.."]
)
def test_an_entry_that_names_nothing_is_an_error(entry, shelf):
    """Alone or among others; never a crash, never silence."""
    whole = shelf.without(set(), "both")
    for entries in (
        [shelf.typed(entry)],
        ["README.md", shelf.typed(entry)],
        shelf.typed(entry),
    ):
        with pytest.raises(BadFilter, match="names no file") as caught:
            whole.search("alpha", excluded_files=entries)
        assert caught.value.hint


@pytest.mark.rows("R000-027")
@pytest.mark.parametrize(
    "wrong",
    [3, True, {"README.md": 1}, [None], ["README.md", 3], [["README.md"]], b"x"],
)
def test_what_is_no_list_of_texts_is_an_error(wrong, shelf):
    """A list of strings."""
    for name in ("excluded_files", "exclude_patterns", "include_patterns"):
        with pytest.raises(UsageError, match=name):
            shelf.without(set(), "both").search("alpha", **{name: wrong})


def test_one_text_is_a_list_of_one(shelf):
    whole = shelf.without(set(), "both")
    listed = whole.search("alpha", excluded_files=["docs/api.md"])
    assert in_bytes(whole.search("alpha", excluded_files="docs/api.md")) == in_bytes(
        listed
    )


@pytest.mark.rows("C16")
@pytest.mark.parametrize("lanes", LANES)
def test_ten_thousand_entries(lanes, shelf):
    """A long list works and still keeps out what it names, wherever in it that stands."""
    whole = shelf.without(set(), lanes)
    names = [f"nowhere/{number}.md" for number in range(9_998)]
    names.insert(5_000, "docs/api.md")
    names.append(str(shelf.root / "README.md"))
    found = whole.search("alpha hedgehog aardvark", limit=100, excluded_files=names)
    part = shelf.without({"docs/api.md", "README.md"}, lanes)
    assert comparable(found) == comparable(
        part.search("alpha hedgehog aardvark", limit=100)
    )
    with pytest.raises(UsageError, match="10,001") as caught:
        whole.search("alpha", excluded_files=[*names, "one more.md"])
    assert "10,000" in caught.value.hint


def test_ten_thousand_patterns(shelf):
    whole = shelf.without(set(), "both")
    patterns = [f"/nowhere/{number}-*.md" for number in range(9_998)] + [
        "docs/**",
        "!docs/api.md",
    ]
    found = whole.search("alpha", limit=100, exclude_patterns=patterns)
    assert (
        paths(found)
        == {
            path
            for path in ANIMALS
            if not path.startswith("docs/") or path == "docs/api.md"
        }
        - ARCHIVED
    )


@pytest.mark.rows("R000-082")
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("stage", STAGES)
def test_all_relevant_documents_excluded(stage, lanes, shelf):
    """Everything excluded, or all that has the word: an empty answer and no error."""
    whole = shelf.without(set(), lanes)
    for excluded in (sorted(ANIMALS), [str(shelf.root / path) for path in ANIMALS]):
        found = whole.search("alpha", limit=5, excluded_files=excluded, **STAGES[stage])
        assert found.results == ()
        assert (found.stats["original_count"], found.stats["eligible_documents"]) == (
            0,
            0,
        )
        assert found.stats["excluded_documents"] == len(ANIMALS)
        assert any("lets no document through" in hint for hint in map(str, found.hints))
    found = whole.search("hedgehog", excluded_files=["docs/api.md"], **STAGES[stage])
    assert "docs/api.md" not in paths(found)
    if lanes == "words":
        assert found.results == ()


# --- Answers name files in a form that excludes them ------------------------------------------------

ODD_NAMES = [
    "plain.md", "two words.md", " leading.md", "trailing.md ", "trailing blank /in folder.md", "quo\"te.md",
    "sla\\sh.md", "[list].md", "a|b.md", "(paren).md", "-dash.md", "colon:s.md", "#hash.md", "!bang.md",
    "star*.md", "que?.md", "tab\tbed.md", "new\nline.md", "caf\u00e9.md", "cafe\u0301.txt", "\u65e5\u672c.md",
    "e\u0301/composed.md", "UPPER.MD", "upper.md", "noext", "a.tar.gz", "a.md.txt", "a.md", "x..md",
    "dots/...md", "file:a.md", "deep/er/and/er.md", "C:/drive.md", "%20.md", "~tilde.md", "$HOME.md",
]  # fmt: skip


@pytest.fixture(scope="module")
def odd(tmp_path_factory) -> Iterator[Corpus]:
    root = tmp_path_factory.mktemp("odd").resolve() / "e\u0301t\u00e9 odd"
    files = {name: f"alpha number {at}" for at, name in enumerate(ODD_NAMES)}
    with open_corpus(
        write_files(root, files), ignore__default_exclusions=False
    ) as corpus:
        yield corpus


@pytest.mark.rows("R000-016..018")
@pytest.mark.parametrize("name", ODD_NAMES)
def test_the_path_of_a_result_excludes_it(name, odd):
    """What an answer calls a file, given back, keeps that file out."""
    shown = {result.path: result for result in odd.search("alpha", limit=100).results}
    assert set(shown) == set(ODD_NAMES)
    result = shown[name]
    assert result.file_path == f"{odd.root}/{name}"
    for form in (result.path, result.file_path, f"./{result.path}"):
        left = paths(odd.search("alpha", limit=100, excluded_files=[form]))
        assert name not in left, form
        if (
            "/" in form
        ):  # a path, so that file alone (or its double but for blanks and accents)
            assert len(left) == len(ODD_NAMES) - 1, form


@pytest.mark.parametrize("name", ODD_NAMES)
def test_the_filter_of_an_exclusion_reads_back(name, odd):
    """What the answer says was filtered is a filter that filters the same."""
    first = odd.search("alpha", limit=100, excluded_files=[f"{odd.root}/{name}"])
    again = odd.search("alpha", limit=100, filter=first.filter)
    assert again.filter == first.filter
    assert paths(again) == paths(first) == set(ODD_NAMES) - {name}


# --- Patterns, as git reads them ----------------------------------------------------------------------

PATTERNS: dict[str, list[str]] = {
    "a suffix": ["*.md"],
    "a name at any depth": ["api.md"],
    "a name at the top": ["/api.md"],
    "a folder": ["docs/"],
    "a folder without its slash": ["docs"],
    "what is inside": ["docs/**"],
    "one floor": ["docs/*"],
    "any floor": ["**/deep/*.md"],
    "in the middle": ["docs/**/api.md"],
    "a file that is no folder": ["api.md/"],
    "taken back": ["*.md", "!README.md"],
    "taken back at the top alone": ["*.md", "!/README.md"],
    "taken back too early": ["!README.md", "*.md"],
    "not taken back from a folder": ["docs/", "!docs/api.md"],
    "taken back from its content": ["docs/*", "!docs/api.md"],
    "taken back with its folder": ["docs/*", "!docs/deep/"],
    "everything but": ["*", "!*/", "!*.txt"],
    "a class": ["[Rr]eadme.md", "release-[0-9]"],
    "a negated class": ["docs/[!a]*"],
    "a question mark": ["api.??"],
    "a blank": ["my\\ notes.md"],
    "a bare blank": ["my notes.md"],
    "a comment and a pattern": ["\\#none", "Makefile"],
    "accents in both spellings": [
        "caf\u00e9.md",
        "cafe\u0301.md",
    ],  # to git they are two names
    "case": ["readme.MD"],
    "the archive": ["archive/"],
    "nothing at all": ["nowhere/**"],
    "all": ["*"],
    "all at the top": ["/*"],
}


def taken_by_git(root: Path, patterns: list[str]) -> set[str]:
    """The files that git would ignore under a .gitignore of these lines."""
    (root / ".gitignore").write_text("\n".join(patterns) + "\n", encoding="utf-8")
    environment = {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "PATH": os.environ["PATH"],
    }
    command = [
        "git",
        "-c",
        "core.quotepath=false",
        "check-ignore",
        "--no-index",
        "--stdin",
        "-z",
    ]
    asked = "\0".join(ANIMALS).encode()
    ended = subprocess.run(
        command,
        cwd=root,
        input=asked,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert ended.returncode in (0, 1), ended.stderr
    return set(filter(None, ended.stdout.decode().split("\0")))


@pytest.fixture(scope="module")
def ask_git(tmp_path_factory) -> Callable[[list[str]], set[str]]:
    root = write_files(tmp_path_factory.mktemp("git"), dict.fromkeys(ANIMALS, ""))
    environment = {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "PATH": os.environ["PATH"],
    }
    subprocess.run(["git", "init", "-q"], cwd=root, env=environment, check=True)
    return lambda patterns: taken_by_git(root, patterns)


@pytest.mark.rows("C13", "R000-083", "R001-051")
@pytest.mark.parametrize("kind", PATTERNS)
def test_patterns_select_what_git_would_ignore(kind, shelf, ask_git):
    """Excluded are the files git would ignore, included are those and no others, archived ones
    too; together, both hold."""
    patterns = PATTERNS[kind]
    taken = ask_git(patterns)
    whole = shelf.without(set(), "both")
    excluded = whole.search("alpha", limit=100, exclude_patterns=patterns)
    assert paths(excluded) == set(ANIMALS) - taken - ARCHIVED
    shown = whole.search(
        "alpha", limit=100, exclude_patterns=patterns, exclude_archived=False
    )
    assert paths(shown) == set(ANIMALS) - taken
    included = whole.search("alpha", limit=100, include_patterns=patterns)
    assert paths(included) == taken
    both = whole.search(
        "alpha",
        limit=100,
        include_patterns=patterns,
        exclude_patterns=["docs/", "*.txt"],
    )
    assert paths(both) == taken - ask_git(["docs/", "*.txt"])


@pytest.mark.rows("C13")
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    "kind", ["a suffix", "taken back", "not taken back from a folder", "everything but"]
)
def test_excluding_by_pattern_is_never_having_indexed(kind, lanes, shelf, ask_git):
    """Patterns obey the same law as names, in every lane and with every stage."""
    taken = ask_git(PATTERNS[kind])
    whole, part = shelf.without(set(), lanes), shelf.without(taken, lanes)
    for stage, arguments in STAGES.items():
        found = whole.search(
            "alpha hedgehog", exclude_patterns=PATTERNS[kind], **arguments
        )
        assert comparable(found) == comparable(
            part.search("alpha hedgehog", **arguments)
        ), stage


@pytest.mark.parametrize("entry", ["", "  ", "!", "/", "# a comment"])
def test_a_pattern_that_is_none_is_an_error(entry, shelf):
    for name in ("exclude_patterns", "include_patterns"):
        with pytest.raises(BadFilter) as caught:
            shelf.without(set(), "both").search("alpha", **{name: ["*.md", entry]})
        assert ".gitignore" in caught.value.hint


@pytest.mark.rows("X6")
@pytest.mark.parametrize("lanes", LANES)
def test_names_and_patterns_together(lanes, shelf):
    """Each keeps out its own; what either names is not there."""
    whole = shelf.without(set(), lanes)
    found = whole.search(
        "alpha",
        limit=100,
        excluded_files=["README.md", "./api.txt"],
        exclude_patterns=["docs/", "!docs/api.md"],
    )
    gone = {path for path in ANIMALS if path.startswith("docs/")} | {
        "README.md",
        "api.txt",
    }
    assert comparable(found) == comparable(
        shelf.without(gone, lanes).search("alpha", limit=100)
    )
    assert paths(found) == set(ANIMALS) - gone - ARCHIVED


@pytest.mark.rows("R000-012")
def test_the_index_is_the_one_that_was_opened(shelf):
    """An exclusion belongs to its question alone."""
    whole = shelf.without(set(), "both")
    before = in_bytes(whole.search("alpha", limit=100))
    whole.search("alpha", excluded_files=["README.md"])
    assert in_bytes(whole.search("alpha", limit=100)) == before
    settings = settings_of(shelf.root, **SMALL)
    with Corpus(whole.root, whole.directory, settings) as another:
        assert in_bytes(another.search("alpha", limit=100)) == before


@pytest.mark.rows("R000-025", "R000-054", "R000-066")
@pytest.mark.parametrize("lanes", LANES)
def test_answers_are_full_where_one_file_has_all_the_best_passages(lanes, corpus_of):
    """What a limit per document lets go of is made up for by other files."""
    long = "".join(
        f"# Part {number}\n\nalpha alpha beta {number}\n\n" for number in range(150)
    )
    short = {
        f"s{number}.md": f"alpha and much else besides, {number}" for number in range(8)
    }
    corpus = corpus_of(
        {"long.md": long, "longer.md": long + "# End\n\nalpha\n"} | short,
        **SMALL,
        **LANES[lanes],
    )
    for limit in (1, 5, 8, 9):
        found = corpus.search(
            "alpha beta",
            limit=limit,
            unique=True,
            excluded_files=["longer.md", "s0.md"],
        )
        assert len(found.results) == min(limit, 8)
        assert len(paths(found)) == len(found.results)
        assert not paths(found) & {"longer.md", "s0.md"}
        assert "long.md" in paths(found)


@pytest.mark.rows("C12")
@pytest.mark.parametrize(
    "written", ["caf\u00e9.*", "cafe\u0301.*", "/caf\u00e9.txt", "/cafe\u0301.txt"]
)
def test_a_pattern_means_either_spelling_of_an_accent(written, odd):
    """A name that the disk has decomposed does not slip through a pattern typed composed."""
    left = paths(odd.search("alpha", limit=100, exclude_patterns=[written]))
    assert "cafe\u0301.txt" not in left
    assert (
        paths(odd.search("alpha", limit=100, include_patterns=[written]))
        == set(ODD_NAMES) - left
    )
