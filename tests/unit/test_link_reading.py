"""Links and tags as a document writes them, and where they stand."""

import pytest

from tamis.ingest.parse import parse
from tamis.ingest.read import Source
from tamis.model import Document, Link
from tamis.settings import ChunkingSettings
from tamis.text.linking import document_target, wiki_target


def document_of(text: str, sizes: ChunkingSettings | None = None) -> Document:
    return parse(
        Source("a.md", text, b"", len(text), 0, 0, 0, 0), sizes or ChunkingSettings()
    )[0]


def links_of(text: str) -> list[tuple[str, str, str]]:
    return [(link.type, link.target, link.anchor) for link in document_of(text).links]


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("a.md", ("a.md", "")),
        ("./a.md", ("./a.md", "")),
        ("../b/a.md#part", ("../b/a.md", "part")),
        ("/docs/a", ("/docs/a", "")),
        ("a%20b.md#c%20d", ("a b.md", "c d")),
        ("a.md?raw=1#x", ("a.md", "x")),
        ("%E6%97%A5.md", ("日.md", "")),
        ("100%.md", ("100%.md", "")),
        ("%ff.md", ("\ufffd.md", "")),
        ("a%23b.md", ("a#b.md", "")),
        ("#part", None),
        ("?query", None),
        ("", None),
        ("http://x/a.md", None),
        ("https://x", None),
        ("mailto:a@b.c", None),
        ("data:text/plain,x", None),
        ("//host/a.md", None),
        ("obsidian://open", None),
    ],
)
def test_where_an_address_leads(url, target):
    assert document_target(url) == target


@pytest.mark.parametrize(
    ("inside", "target"),
    [
        ("Note", ("Note", "")),
        (" Note | text ", ("Note", "")),
        ("Note#Heading", ("Note", "Heading")),
        ("Note#Heading#Lower|x", ("Note", "Heading#Lower")),
        ("Note#^block", ("Note", "^block")),
        ("folder/Note.md", ("folder/Note.md", "")),
        ("Note\\|text", ("Note", "")),
        ("Note\\", ("Note", "")),
        ("C# notes", ("C", "notes")),
        ("100%", ("100%", "")),
        ("#Heading", None),
        ("^block", ("^block", "")),
        ("", None),
        ("|x", None),
        ("https://x", None),
        ("git+ssh://x", None),
        ("//x", None),
        ("Mailto:a@b.c", None),
        ("Note: with colon", ("Note: with colon", "")),
        ("std::vector#Use", ("std::vector", "Use")),
    ],
)
def test_where_a_wiki_link_leads(inside, target):
    assert wiki_target(inside) == target


@pytest.mark.rows("R002-016", "R002-011")
@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("[[A]] and [[B|b]]", [("wikilink", "A", ""), ("wikilink", "B", "")]),
        (
            "[[A#h|x]] [[A#^b]] [[#own]]",
            [("wikilink", "A", "h"), ("wikilink", "A", "^b")],
        ),
        ("![[A]] ![[p.png|300]]", [("embed", "A", ""), ("embed", "p.png", "")]),
        (
            "| a |\n|---|\n| [[X\\|y]] ![[e.png\\|9]] |",
            [("wikilink", "X", ""), ("embed", "e.png", "")],
        ),
        (
            "[x](b.md) [y](<c d.md#e>)",
            [("markdown", "b.md", ""), ("markdown", "c d.md", "e")],
        ),
        ("[x][r] [r][] [r]\n\n[r]: b.md 'title'", [("markdown", "b.md", "")]),
        ("[x](http://a/b.md) <http://a> <a@b.c> [y](#z)", []),
        ("![](b.md) ![](p.png) ![](p)", [("markdown", "b.md", "")]),
        ("[![](p.png)](b.md)", [("markdown", "b.md", "")]),
        ("*[[A]]* **[x](b.md)**", [("wikilink", "A", ""), ("markdown", "b.md", "")]),
        (
            "# [[A]]\n\n> [[B]]\n\n- [[C]]",
            [("wikilink", "A", ""), ("wikilink", "B", ""), ("wikilink", "C", "")],
        ),
        ("[[Note: with colon|x]]", [("wikilink", "Note: with colon", "")]),
        (
            "---\nrelated: ['Note: one', 'https://x', 'mailto:a@b.c', '[[Note: two]]']\n---\n",
            [("related", "Note: one", ""), ("related", "Note: two", "")],
        ),
        ("`[[A]]` and\n\n```\n[[B]] [x](c.md)\n```\n\n    [[D]]\n", []),
        ("<!-- [[A]] -->\n\na <!--\n[[B]]\n-->\n\n<!--\n\n[x](c.md)\n-->", []),
        ("\\[\\[A\\]\\] \\[x](b.md)", []),
        ("[^1]\n\n[^1]: a note, [[A]]", [("wikilink", "A", "")]),
        ("[[A]] [[A]] [[A|a]]", [("wikilink", "A", "")]),
        ("[[ ]] [[]] [[a\nb]]", []),
    ],
)
def test_links_of_markdown(text, links):
    assert links_of(text) == links


@pytest.mark.rows("R002-119")
def test_links_of_front_matter():
    """What is related is an edge of its own kind; other properties may link too."""
    text = (
        "---\nrelated: ['[[A#h|x]]', docs/b.md, 'https://x']\nup: '[[C]]'\n---\n[[A]]\n"
    )
    assert document_of(text).links == (
        Link("related", "A", "h"),
        Link("related", "docs/b.md"),
        Link("wikilink", "C"),
        Link("wikilink", "A", ordinal=0),
    )


def test_related_without_quotes():
    assert links_of("---\nrelated: [[A b]]\n---\n") == [("related", "A b", "")]
    assert links_of("---\nrelated:\n- [[A|x]]\n- b.md#c\n---\n") == [
        ("related", "A", ""),
        ("related", "b.md", "c"),
    ]


@pytest.mark.parametrize(
    "sizes",
    [ChunkingSettings(0, 100, 30), ChunkingSettings(parents=True)],
    ids=["one", "two"],
)
def test_where_links_stand(sizes):
    """Each in the first passage that holds it, once for each passage."""
    text = "".join(
        f"# H{n}\n\n" + "some words [[A]] and more words [[B]] " * 9 + f"[[C{n}]]\n\n"
        for n in range(12)
    )
    document = document_of(text, sizes)
    assert len(document.chunks) >= 12
    for link in document.links:
        assert link.ordinal is not None
        assert f"[[{link.target}]]" in document.chunks[link.ordinal].content
    assert len(set(document.links)) == len(document.links)
    only = [link for link in document.links if link.target == "C7"]
    assert [link.ordinal for link in only] == [
        min(chunk.ordinal for chunk in document.chunks if "[[C7]]" in chunk.content)
    ]


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#one and #two-three #a/b #x_y", ("one", "two-three", "a/b", "x_y")),
        ("#One #ONE", ("one",)),
        ("#123 #1a #12-3 #-", ("1a", "12-3", "-")),
        ("# heading #tag\n\n(#no) a#no \\#no", ("tag",)),
        ("#tag, #tog. #tig! *#tug*", ("tag", "tog", "tig")),
        (
            "- #item\n\n> #quote\n\n| #cell |\n|---|\n| #row |",
            ("item", "quote", "cell", "row"),
        ),
        ("`#no` [#no](x) [[a #no]] https://x/#no <#no> [x](#no)", ()),
        ("```\n #no\n```\n\n    #no\n\n<div> #no </div>\n", ()),
        ("[a]: b.md '#no'\n[c]: #no\n", ()),
        ("#日本 #é", ("日本", "é")),
        ("é #tag `é #no` #tog", ("tag", "tog")),
        ("#a/", ("a",)),
        ("color: #fff;", ("fff",)),
    ],
)
def test_tags_in_the_text(text, tags):
    """As Obsidian has them; what looks like a colour counts unless it is code, as there."""
    assert document_of(text).front.tags == tags


def test_tags_in_the_text_come_after_the_written_ones():
    text = "---\ntags: [Work, area/x]\ndraft: true\n---\n#idea #work\n"
    assert document_of(text).front.tags == ("work", "area/x", "draft", "idea")
