"""Markdown as the page shows it: what passes, what does not, and where links lead."""

import pytest

from support.sites import site_of

PAGES = {
    "a.md": "---\naliases: [First Letter]\n---\n# A\n\nText.\n",
    "deep/b.md": "# B\n\n[a](../a.md) [[a]] [[First Letter|the first]] [gone](gone.md) "
    "[out](https://x.example/y) [mail](mailto:a@b.example) [self](#top) ![pic](p.png)\n\n- one\n- two\n\n"
    "```py\nx = 1 < 2\n```\n\n~~old~~\n",
}


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    site = site_of(tmp_path_factory.mktemp("html") / "r", PAGES)
    yield site.get("/documents/deep/b.md", html=True)["html"]
    site.close()


def test_links_lead_to_documents(html):
    """By path, by name and by alias; what is not here leads nowhere."""
    assert html.count('<a href="/?doc=a.md"') == 3
    assert ">gone</a>" in html and "gone.md" not in html
    assert "#top" not in html


def test_links_to_elsewhere_stay_and_say_nothing(html):
    assert '<a href="https://x.example/y" rel="noopener noreferrer">' in html
    assert "mailto:a@b.example" in html


def test_pictures_are_their_text(html):
    assert '<img alt="pic">' in html


def test_blocks_know_their_lines(html):
    assert '<h1 data-line="1">B</h1>' in html
    assert '<ul data-line="5">' in html
    assert '<pre data-line="8"><code class="language-py">x = 1 &lt; 2' in html
    assert "<del>old</del>" in html
    assert "<hr" not in html


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("<b onclick=x()>bold</b>", "<b>bold</b>"),
        ("<span class='language-x' id=y>s</span>", "<span>s</span>"),
        ("<code class='language-py evil'>c</code>", "<code>c</code>"),
        ("<td colspan=x>t", ""),
        ("<img src=x.png>\n\nmute", '<p data-line="5">mute'),
        ("<p><img src=x.png></p>", '<p data-line="3"></p>'),
        ("<img src=x.png alt='a <img> b'>", ' alt="a &lt;img&gt; b">'),
        ("a <hr data-line=7> b", "<p"),
    ],
)
def test_what_is_left_of_raw_html(written, left, tmp_path):
    site = site_of(tmp_path / "r", {"a.md": f"x\n\n{written}\n"})
    found = site.get("/documents/a.md", html=True)["html"]
    assert left in found
    assert not any(
        word in found
        for word in ("onclick", "evil", "id=", 'colspan="x', "<img>", "<hr")
    )
    site.close()
