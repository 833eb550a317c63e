"""Synonyms: the tables, WordNet's files, and which words come out of them."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from support.corpora import write_files
from tamis.errors import BadSetting
from tamis.search.extras.synonyms import (
    Synonyms,
    WordNet,
    bisected,
    grouped,
    parsed,
    simple,
    software,
)

INSTALLED = Path("/usr/share/wordnet")


def of(chosen: str, root: Path = Path("/")) -> Synonyms:
    return Synonyms.of(chosen, root)


# --- Tables ------------------------------------------------------------------------------


@pytest.mark.rows("R002-062", "R002-063")
def test_synonym_expansion_basic():
    """'authenticate user' gets synonyms."""
    assert of("software").words("authenticate user") == (
        "auth",
        "login",
        "signin",
        "account",
    )
    assert "authentication" in of("software").words("auth")


@pytest.mark.rows("R002-063")
def test_synonym_expansion_no_matches():
    assert of("software").words("zebra of the savannah") == ()
    assert of("software").words("") == ()


def test_a_phrase_is_found_by_its_words_and_stands_for_them():
    software = of("software")
    assert software.words("Pull Requests")[:3] == ("pr", "merge request", "mr")
    assert "pull request" in software.words("pr")


def test_what_is_asked_for_is_no_synonym_of_itself():
    assert of("software").words("Compressed with zip or gzip") == ()
    assert "configurations" not in of("software").words("configuration")


def test_every_word_of_the_table_can_be_searched_for():
    groups = software()
    assert len(groups) >= 120
    assert [phrase for group in groups for phrase in group if not simple(phrase)] == []
    assert len(set(groups)) == len(groups)


@pytest.mark.parametrize(("phrase", "fit"), [("log in", False), ("two-factor", False), ("pull request", True),
                                              ("the", False), ("a b c d e", False), ("", False)])  # fmt: skip
def test_what_is_simple(phrase, fit):
    assert bool(simple(phrase)) is fit


def test_a_table_is_read_line_by_line():
    text = "# remark\nDB, database ,, data  base # more\n\nalone\ndb, datastore\n"
    assert parsed(text) == [("db", "database", "data base"), ("db", "datastore")]
    groups = grouped(parsed(text))
    assert groups[("db",)] == ("database", "data base", "datastore")
    assert groups[("databas",)] == ("db", "data base")


@pytest.mark.rows("R002-064")
def test_a_users_own_table(tmp_path):
    """A file of one's own, without any network."""
    write_files(tmp_path, {"own.txt": "db, ledger\nzebra, quagga\n"})
    own = of("own.txt", tmp_path)
    assert own.words("db") == ("ledger",)
    assert own.words("zebras") == ("quagga",)


@pytest.mark.parametrize(
    ("content", "said"), [(None, "cannot read"), (b"\xff\xfe", "not UTF-8")]
)
def test_a_table_that_cannot_be_read_is_a_fault(content, said, tmp_path):
    if content is not None:
        write_files(tmp_path, {"own.txt": content})
    with pytest.raises(BadSetting, match=said):
        of("own.txt", tmp_path)


# --- WordNet -----------------------------------------------------------------------------

NOTICE = "  1 This is a notice, with the number of its line before it.  \n  2 It may say anything.  \n"
SENSES = {
    "noun": [
        ["beast", "animal", "creature"],
        ["beast", "brute"],
        ["car", "motor_car"],
        ["walk", "stroll"],
    ],
    "verb": [["walk", "go_on_foot"], ["drive", "motor"], ["be", "exist"]],
    "adj": [["dead(p)", "lifeless"]],
    "adv": [],
}


def write_dictionary(folder: Path) -> Path:
    """A dictionary in the documented form (wndb(5)), written from the senses above."""
    files: dict[str, str] = {}
    for part, senses in SENSES.items():
        data, places = NOTICE, {}
        for words in senses:
            for word in words:
                places.setdefault(word.partition("(")[0], []).append(len(data))
            listed = " ".join(f"{word} 0" for word in words)
            data += f"{len(data):08} 03 {part[0]} {len(words):02x} {listed} 001 @ 00000000 n 0000 | a gloss  \n"
        lines = [
            f"{word} {part[0]} {len(at)} 2 @ ~ {len(at)} 1 {' '.join(f'{place:08}' for place in at)}  \n"
            for word, at in sorted(places.items())
        ]
        files |= {f"data.{part}": data, f"index.{part}": NOTICE + "".join(lines)}
    return write_files(folder, files)


@pytest.fixture
def dictionary(tmp_path: Path) -> WordNet:
    return WordNet(write_dictionary(tmp_path / "dict"))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("beast", [("beast", "animal", "creature"), ("beast", "brute")]),
        ("Beasts", [("beast", "animal", "creature"), ("beast", "brute")]),
        ("walk", [("walk", "stroll"), ("walk", "go on foot")]),
        ("walking", [("walk", "go on foot")]),
        ("driving", [("drive", "motor")]),
        ("dead", [("dead", "lifeless")]),
        ("motor car", [("car", "motor car")]),
        ("absent", []),
        ("s", []),
        ("größe", []),
    ],
)
def test_senses_come_in_order(dictionary, word, expected):
    assert list(dictionary.senses(word)) == expected


@pytest.mark.rows("R002-061", "R002-064")
def test_of_wordnet_two_words_of_the_first_two_senses(tmp_path):
    """At most two, of the first two senses, in their order; underscores are blanks."""
    write_dictionary(tmp_path / "dict")
    both = replace(of("software"), dictionary=WordNet(tmp_path / "dict"))
    assert both.words("the beast!") == ("animal", "brute")
    assert both.words("car") == ("motor car",)
    assert both.words("walking") == (), (
        "`go on foot` has a word that nobody searches for"
    )
    assert both.words("beast cars") == ("animal", "brute", "motor car")
    assert "authentication" in both.words("auth"), (
        "the table of the trade is part of it"
    )


def test_every_line_of_an_index_is_found(dictionary):
    for part, senses in SENSES.items():
        pages = (dictionary.folder / f"index.{part}").read_bytes()
        words = {word.partition("(")[0].encode() for sense in senses for word in sense}
        for word in words:
            assert bisected(pages, word).startswith(word + b" ")
            assert bisected(pages, word + b"x") is None
            assert bisected(pages, word[:-1] + b"\x01") is None
    assert bisected(b"", b"a") is None
    assert bisected(b"a 1", b"a") == b"a 1"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("index.noun", None, "index.noun cannot be read"),
        ("index.verb", "", "index.verb cannot be read"),
        ("index.noun", "beast n x\n", "not in WordNet's form"),
        ("index.noun", "beast n 2 0 2 1 00000007\n", "not in WordNet's form"),
        ("index.noun", "beast n 1 0 1 1 99999999\n", "not in WordNet's form"),
        ("data.noun", "something else entirely\n" * 9, "not in WordNet's form"),
    ],
)
def test_files_that_are_no_dictionary_are_a_fault_that_names_them(
    file, content, said, tmp_path
):
    folder = write_dictionary(tmp_path)
    (folder / file).unlink()
    if content is not None:
        write_files(folder, {file: content})
    with pytest.raises(BadSetting, match=said) as caught:
        list(WordNet(folder).senses("beast"))
    assert "wordnet-base" in caught.value.hint


@pytest.mark.skipif(
    not (INSTALLED / "index.noun").exists(), reason="WordNet is not installed"
)
def test_the_installed_dictionary_says_what_wordnets_own_program_says():
    """The oracle is `wn`, which comes with the same package."""
    program = shutil.which("wn")
    if program is None:
        pytest.skip("WordNet's own program is not installed")
    for word in ("car", "user", "error", "request", "zymurgy", "a", "network"):
        said = subprocess.run(
            [program, word, "-synsn"], capture_output=True, text=True
        ).stdout.split("\n")
        after = [
            said[at + 1] for at, line in enumerate(said) if line.startswith("Sense ")
        ]
        expected = [
            tuple(name.strip().lower() for name in line.split(", ")) for line in after
        ]
        assert list(WordNet(INSTALLED).senses(word))[: len(expected)] == expected
