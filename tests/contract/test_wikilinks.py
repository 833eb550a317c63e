"""Links and tags of whole vaults, held to what obsidiantools found in them."""

import json
from collections.abc import Iterable
from pathlib import PurePosixPath

import pytest

from support.corpora import SHARED
from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.model import Document
from tamis.settings import ChunkingSettings

CASES = SHARED / "data" / "conformance" / "wikilinks"
HELP = SHARED / "data" / "vault-obsidian-help" / "corpus.jsonl"

pytestmark = pytest.mark.skipif(
    not CASES.exists(), reason="the conformance cases are not on this machine"
)


def document_of(text: str, path: str = "a.md") -> Document:
    return parse(Source(path, text, b"", len(text), 0, 0, 0, 0), ChunkingSettings())[0]


def targets(document: Document, kind: str) -> list[str]:
    return [link.target for link in document.links if link.type == kind]


def load(name: str):
    return json.loads((CASES / f"obsidiantools_{name}.json").read_text("utf-8"))


def unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


INPUTS = load("inputs") if CASES.exists() else {}


@pytest.mark.rows("R002-016")
@pytest.mark.parametrize(
    ("name", "links", "embeds"),
    [
        # From obsidiantools' own tests; it counts a link as often as it stands, we once for a passage.
        ("wikilinks_extraction", ["A", "B", "C", "D", "E"], []),
        ("wikilinks_exclude-code", [], []),
        ("embedded-images_in-table", ["Strategy 1", "Strategy 2"],
         [f"test-image_{number}_{when}.png" for number in (1, 2) for when in ("before", "after")]),
        ("embedded-files_in-body", [], ["test-image.png", "test-audio.flac"]),
        ("md-links_extraction", [], []),
        ("latex", [], []),
    ],
)  # fmt: skip
def test_single_notes(name, links, embeds):
    """`[[T]]` and `![[T]]`; not in code."""
    document = document_of(INPUTS[f"general/{name}.md"])
    assert targets(document, "wikilink") == links
    assert targets(document, "embed") == embeds
    assert targets(document, "markdown") == []


def test_anchors_of_the_single_notes():
    document = document_of(INPUTS["general/wikilinks_extraction.md"])
    assert {link.target: link.anchor for link in document.links if link.anchor} == {
        "D": "one",
        "E": "one",
    }


def test_the_stub_vault():
    """The links of every note, as obsidiantools has them.

    The differences: it drops `.md` from a target and leaves links to `.canvas` files out (a target is kept
    as written here: resolving it is a later step); it knows no links in properties.
    """
    expected = load("graph_vault_stub")
    notes = {
        path: text
        for path, text in INPUTS.items()
        if path.startswith("vault-stub/") and path.endswith(".md")
    }
    assert len(notes) == len(expected["notes"])
    for path, text in notes.items():
        inside = str(PurePosixPath(path).relative_to("vault-stub").with_suffix(""))
        name = inside if inside in expected["wikilinks"] else inside.rsplit("/", 1)[-1]
        document = document_of(text, path)
        found = [
            link.target.removesuffix(".md")
            for link in document.links
            if link.type == "wikilink"
            and link.ordinal is not None
            and not link.target.endswith(".canvas")
        ]
        assert unique(found) == unique(expected["wikilinks"][name]), name
        assert unique(targets(document, "embed")) == unique(expected["embeds"][name]), (
            name
        )
        assert unique(tag.split("/")[0] for tag in document.front.tags) == unique(
            expected["tags"][name]
        ), name


def test_nested_tags_of_the_stub_vault():
    """obsidiantools' list with nested tags shown. Behind a bracket or a backslash there is no tag."""
    document = document_of(INPUTS["vault-stub/Sussudio.md"])
    assert document.front.tags == (
        "y1982",
        "y_1982",
        "y-1982",
        "y1982/sep",
        "y2000/party-over/oops/out-of-time",
    )


def test_a_link_in_a_property_that_is_no_text_is_none():
    """`references: [[[American Psycho (film)]], Polka Party!]` is a list in a list in a list to YAML."""
    document = document_of(INPUTS["vault-stub/Sussudio.md"])
    links = [
        (link.target, link.anchor) for link in document.links if link.type == "wikilink"
    ]
    assert links == [("American Psycho (film)", "Patrick Bateman")]


# Written `\[\[so\]\]`: shown as brackets by Obsidian and by CommonMark, a link only to obsidiantools.
ESCAPED = {
    "Link notes": {"Three laws of motion", "double bracket syntax"},
    "Internal links": {"Wikilinks"},
}


def help_notes() -> Iterable[tuple[str, Document]]:
    """The notes of the help vault by the names in the expected graph: the file's, or its path if shared."""
    names = load("graph_obsidian_help_en")["wikilinks"]
    for line in HELP.read_text("utf-8").strip().split("\n"):
        note = json.loads(line)
        inside = note["path"].removeprefix("en/").removesuffix(".md")
        name = inside if inside in names else inside.rsplit("/", 1)[-1]
        yield name, document_of(note["text"], note["path"])


@pytest.mark.skipif(not HELP.exists(), reason="the vault is not on this machine")
def test_the_help_vault():
    """Every link and embed of 173 notes. obsidiantools has '' for a link into the own note: we have none."""
    expected = load("graph_obsidian_help_en")
    notes = dict(help_notes())
    assert notes.keys() == expected["wikilinks"].keys()
    for name, document in notes.items():
        links = {target.removesuffix(".md") for target in targets(document, "wikilink")}
        assert links == set(expected["wikilinks"][name]) - {""} - ESCAPED.get(
            name, set()
        ), name
        assert set(targets(document, "embed")) == set(expected["embeds"][name]), name


@pytest.mark.skipif(not HELP.exists(), reason="the vault is not on this machine")
def test_the_tags_of_the_help_vault():
    """obsidiantools also takes the anchors of addresses for tags, and ends a tag at a hyphen."""
    expected = load("graph_obsidian_help_en")
    for name, document in help_notes():
        ours = {tag.split("/")[0] for tag in document.front.tags}
        theirs = {tag.casefold() for tag in expected["tags"][name]}
        assert {tag.partition("-")[0] for tag in ours} <= {
            tag.partition("-")[0] for tag in theirs
        }, name
        if name == "Tags":
            assert ours == theirs - {"kebab-"} | {"kebab-case"}
