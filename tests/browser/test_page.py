"""The page in a real browser: what somebody does with it, by mouse, by keys, on a phone."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Error, Page, expect

from support.chromium import (
    FILES,
    browser,
    opened,
    shop,
    started,
    started_over,
    violations,
)
from support.corpora import write_files

pytestmark = pytest.mark.slow


def paths(page: Page) -> list[str]:
    """Of the results, once the full answer is there."""
    page.wait_for_selector('.cards[data-quick="false"]', state="attached")
    return [
        card.get_attribute("data-path") or "" for card in page.locator(".card").all()
    ]


def type_in(page: Page, text: str) -> None:
    page.locator("#q").press_sequentially(text)


def test_typing_searches(opened, shop):
    page = opened(shop).go("/")
    expect(page.locator("#q")).to_be_focused()
    last = re.compile(
        r"/search\?q=late\+refund\+hay&.*explain=true"
    )  # older questions are answered before
    with page.expect_response(last):
        type_in(page, "late refund hay")
    assert paths(page)[0] == "docs/refunds.md"
    card = page.locator(".card").first
    expect(card.locator("mark").first).to_have_text(
        re.compile("refund|late|hay", re.IGNORECASE)
    )
    assert "gift of hay" in "".join(card.locator(".best").all_text_contents())
    expect(card.locator(".trail")).to_contain_text("Refunds")
    expect(card.locator(".tag", has_text="money")).to_be_visible()
    expect(card.locator("time")).to_have_text("2026-03-01")
    editor = card.locator("a", has_text="Open in editor")
    expect(editor).to_have_attribute(
        "href", re.compile("^vscode://file/.+/docs/refunds.md:[0-9]+$")
    )
    assert "q=late+refund+hay" in page.url
    expect(page.locator("#said")).to_have_text(re.compile("result"))


def test_words_come_first(opened, shop):
    """The full answer is held back: the words' answer is there meanwhile."""
    page = opened(shop).go("/")
    held = []
    page.route(re.compile("explain=true"), lambda route: held.append(route))
    page.locator("#q").fill("late refund hay")
    expect(page.locator('.cards[data-quick="true"] .card').first).to_have_attribute(
        "data-path", "docs/refunds.md"
    )
    for route in held:
        route.continue_()
    assert paths(page)[0] == "docs/refunds.md"


def test_an_answer_to_an_older_question_is_dropped(opened, shop):
    page = opened(shop).go("/")
    held = []
    page.route(re.compile("q=grass&"), lambda route: held.append(route))
    with page.expect_request(re.compile("q=grass&")):
        page.locator("#q").fill("grass")
    page.locator("#q").fill("invoices by mail")
    first = page.locator(".card").first
    expect(first).to_have_attribute("data-path", "docs/api/billing.md")
    paths(page)
    for route in held:
        with suppress(Error):  # the page has given it up
            route.continue_()
    assert (
        page.evaluate("fetch('/api/v1/health').then((said) => said.status)") == 200
    )  # and that came after
    expect(first).to_have_attribute("data-path", "docs/api/billing.md")


def test_facets_and_chips_are_one_filter(opened, shop):
    page = opened(shop).go("/?q=grass")
    before = set(paths(page))
    assert {"README.md", "docs/refunds.md", "src/refund.py"} <= before
    page.locator('[data-facet="Tags"][data-value="money"]').click()
    expect(page.locator("#q")).to_have_value("grass tag:money")
    expect(page.locator(".chip")).to_have_count(1)
    assert set(paths(page)) == {"docs/refunds.md", "docs/api/billing.md"}
    expect(page.locator('[data-facet="Tags"][data-value="draft"] .quiet')).to_have_text(
        "1"
    )
    page.locator('[data-facet="Years"][data-value="2025"]').click()
    expect(page.locator("#q")).to_have_value("grass tag:money after:2025 before:2025")
    expect(page.locator(".card")).to_have_count(1)
    page.locator(".chip", has_text="tag").click()
    expect(page.locator("#q")).to_have_value("grass after:2025 before:2025")
    page.locator("#q").fill("grass -under:docs")
    expect(page.locator(".chip", has_text="not under: docs")).to_be_visible()
    expect(page.locator(".chip")).to_have_count(1)
    expect(page.locator('.card[data-path="docs/refunds.md"]')).to_have_count(0)
    assert "docs/refunds.md" not in paths(page)


def test_a_filter_without_words_lists_documents(opened, shop):
    """In the order of their paths, with the way to each; words then search in them."""
    page = opened(shop).go("/")
    page.locator('[data-facet="Tags"][data-value="money"]').click()
    expect(page.locator(".count")).to_have_text("2 documents")
    assert paths(page) == ["docs/api/billing.md", "docs/refunds.md"]
    expect(page.locator(".card").last).to_contain_text("draft")
    page.keyboard.press("/")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".doc-title")).to_have_text("Billing")
    page.go_back()
    page.locator("#q").fill("tag:money hay")
    expect(page.locator(".card .passage mark").first).to_have_text("hay")
    assert paths(page)[0] == "docs/refunds.md"
    page.locator("#q").fill("tag:nonsense")
    expect(page.locator(".bar")).to_contain_text("the filter lets no document through")


def test_many_documents_are_listed_by_and_by(opened):
    for address in started({f"{n:02}.md": f"# {n}\n" for n in range(60)}):
        page = opened(address).go("/?q=path:*.md")
        expect(page.locator(".count")).to_have_text("60 documents")
        assert len(paths(page)) == 50
        page.locator(".more").click()
        expect(page.locator(".card")).to_have_count(60)
        expect(page.locator(".more")).to_have_count(0)


def test_a_tag_of_two_words(opened, shop):
    """Is quoted, wherever it is clicked."""
    page = opened(shop).go("/?doc=docs/signs.md")
    page.locator(".foot a.tag", has_text="to do").click()
    expect(page.locator("#q")).to_have_value('tag:"to do" ')
    expect(page.locator(".chip")).to_have_text(re.compile("tag: to do"))
    assert paths(page) == ["docs/signs.md"]
    expect(page.locator('[data-facet="Tags"][data-value="to do"]')).to_have_attribute(
        "aria-pressed", "true"
    )


def test_signs_of_markdown_are_left_out_and_nothing_else(opened, shop):
    page = opened(shop).go("/?q=zebra")
    assert paths(page)[0] == "docs/signs.md"
    card = page.locator(".card").first
    expect(card.locator(".passage .line").last).to_have_text(
        "A zebra writes [[# and a ]] _b_, \N{OX} see wiki for more, the bills, anchor links, x[y[0]], "
        "bold my_own_name and a ` tick."
    )
    assert card.locator("code").all_text_contents() == ["[[#", "a ]] _b_", "a ` tick"]


def test_many_copies_are_one_card(opened):
    """All places are counted, the first twenty are listed, and that there are more is said."""
    for address in started(
        {f"{n:02}.md": "# Hay\n\nA gift of hay.\n" for n in range(30)}
    ):
        page = opened(address).go("/?q=gift+of+hay")
        assert paths(page) == ["00.md"]
        also = page.locator(".card .foot span", has_text="also in 29 places")
        listed = (also.get_attribute("title") or "").split("\n")
        assert listed == [
            *(f"{n:02}.md:1" for n in range(1, 21)),
            "\N{HORIZONTAL ELLIPSIS}",
        ]


def test_archived_documents_on_demand(opened, shop):
    page = opened(shop).go("/?q=refunds+month")
    assert "archive/old.md" not in paths(page)
    page.locator("#archived").check()
    expect(page.locator('.card[data-path="archive/old.md"] .warn')).to_have_text(
        "archived"
    )


def test_a_result_a_link_and_the_way_back(opened, shop):
    watched = opened(shop)
    page = watched.go("/?q=late+refund+hay")
    assert paths(page)[0] == "docs/refunds.md"
    page.locator(".card a.title").first.click()
    expect(page.locator(".doc-title")).to_have_text("Refunds")
    marked = page.locator(".passage-mark", has_text="gift of hay")
    expect(marked).to_be_in_viewport()
    expect(page.locator(".outline a")).to_have_text(["Refunds", "Late refunds"])
    expect(page.locator(".code-keyword").first).to_have_text("for")
    page.locator(".prose a", has_text="billing").click()
    expect(page.locator(".doc-title")).to_have_text("Billing")
    expect(page.locator(".links a", has_text="docs/refunds.md")).to_be_visible()
    page.go_back()
    expect(page.locator(".doc-title")).to_have_text("Refunds")
    page.go_back()
    assert paths(page)[0] == "docs/refunds.md"
    expect(page.locator("#q")).to_have_value("late refund hay")
    page.go_forward()
    expect(page.locator(".doc-title")).to_have_text("Refunds")


def test_an_address_says_everything(opened, shop, browser):
    """Somebody else opens it, and sees the same."""
    page = opened(shop).go("/?q=grass")
    paths(page)
    page.locator('[data-facet="Folders"][data-value="docs"]').click()
    expect(page.locator(".chip")).to_have_count(1)
    page.locator("#archived").check()
    page.locator("#why").click()
    expect(page.locator(".funnel")).to_be_visible()
    mine = paths(page)
    other = opened(shop).go(page.url.removeprefix(shop))
    assert paths(other) == mine
    expect(other.locator("#q")).to_have_value("grass under:docs")
    expect(other.locator("#archived")).to_be_checked()
    expect(other.locator(".funnel")).to_be_visible()


def test_code_is_shown_with_its_lines(opened, shop):
    page = opened(shop).go("/?doc=src/refund.py&lines=2-3")
    expect(page.locator(".row")).to_have_count(3)
    expect(page.locator(".row.passage-mark")).to_have_count(2)
    expect(page.locator(".code-keyword").first).to_have_text("def")
    expect(page.locator(".row .at").first).to_have_text("1")


def test_why(opened, shop):
    page = opened(shop).go("/?q=late+refund+hay&why=1")
    paths(page)
    expect(page.locator(".funnel text.left").first).to_have_text(re.compile(r"^\d+$"))
    expect(page.locator(".funnel figcaption")).to_contain_text("eligible")
    page.locator("#file").fill("archive/old.md")
    page.locator("#file").press("Enter")
    expect(page.locator(".answer")).to_contain_text("archived")
    page.locator("#file").fill(" ")
    page.locator("#file").press("Enter")
    expect(page.locator(".answer")).to_have_text("")
    page.locator(".because summary").first.click()
    expect(page.locator(".evidence").first).to_contain_text("rank 1")


def test_the_links_as_a_picture(opened, shop):
    page = opened(shop).go("/?doc=README.md&view=graph")
    expect(page.locator(".node")).to_have_count(3)
    page.locator('.node[data-path="docs/api/billing.md"] circle').click()
    expect(page.locator(".doc-title")).to_have_text("Billing")
    expect(page.locator(".node.hops-0")).to_have_attribute(
        "data-path", "docs/api/billing.md"
    )
    page.locator(".tabs a", has_text="Document").click()
    expect(page.locator(".prose table")).to_be_visible()


def test_keys_alone(opened, shop):
    page = opened(shop).go("/?view=status")
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("grass")
    found = paths(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".card a.title").nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".path").first).to_have_text(found[0])
    page.keyboard.press("Escape")
    assert paths(page) == found
    page.locator("#q").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".path").first).to_have_text(found[0])
    page.keyboard.press("Escape")
    paths(page)
    page.keyboard.press("Escape")
    expect(page.locator("#q")).to_have_value("")
    expect(page.locator(".welcome")).to_be_visible()


def test_a_slash_goes_to_the_box_and_is_typed_into_a_question(opened, shop):
    page = opened(shop).go("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.type("/docs/api")
    expect(page.locator("#q")).to_have_value("docs/api")


def test_escape_clears_the_address_too(opened, shop):
    page = opened(shop).go("/?q=grass&n=20&why=1")
    paths(page)
    page.keyboard.press("Escape")
    expect(page.locator(".welcome")).to_be_visible()
    assert page.url == f"{shop}/"


def two_roots(folder: Path) -> list[Path]:
    return [
        write_files(folder / name, {"a.md": f"# A\n\nzebra of {name}\n"})
        for name in ("one", "two")
    ]


def test_of_several_roots_a_document_says_its_own(opened, tmp_path):
    for address in started_over(*two_roots(tmp_path)):
        watched = opened(address)
        page = watched.go("/?q=path:a.md")
        expect(page.locator(".card")).to_have_count(2)
        page.locator(".card a.title", has_text="two").click()
        expect(page.locator(".path").first).to_have_text("two: a.md")
        expect(page.locator(".prose")).to_contain_text("zebra of two")
        watched.page.goto("about:blank")


def test_of_several_roots_one_is_chosen(opened, tmp_path):
    for address in started_over(*two_roots(tmp_path)):
        watched = opened(address)
        page = watched.go("/?q=zebra")
        expect(page.locator('.cards[data-quick="false"] .card')).to_have_count(2)
        two = page.locator('button[data-facet="Roots"][data-value="two"]')
        two.click()
        expect(page.locator('.cards[data-quick="false"] .card')).to_have_count(1)
        expect(page.locator(".card a.title")).to_contain_text("two: a.md")
        expect(two).to_have_attribute("aria-pressed", "true")
        assert "in=two" in page.url
        page.locator(".card a.title").click()
        expect(page.locator(".prose")).to_contain_text("zebra of two")
        page.go_back()
        page.get_by_role("button", name="Remove root: two").click()
        expect(page.locator('.cards[data-quick="false"] .card')).to_have_count(2)
        assert "in=" not in page.url
        watched.page.goto("about:blank")


def test_light_and_dark(opened, shop):
    page = opened(shop, color_scheme="dark").go("/?q=grass")
    paths(page)

    def ground() -> int:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    assert ground() < 200
    page.locator("#theme").click()
    expect(page.locator("#theme")).to_have_text("Light")
    assert ground() > 600
    page.reload()
    expect(page.locator("#theme")).to_have_text("Light")
    assert ground() > 600


@pytest.mark.parametrize(
    "path",
    ["/", "/?q=grass&why=1", "/?doc=docs/api/billing.md", "/?doc=README.md&view=graph", "/?view=status",
     "/?doc=src/refund.py"],
)  # fmt: skip
def test_on_a_phone(path, opened, shop):
    page = opened(shop, viewport={"width": 390, "height": 844}, has_touch=True).go(path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    expect(page.locator("#q")).to_be_in_viewport()
    if path.startswith("/?q"):
        assert paths(page)
        page.locator(".all summary").tap()
        page.locator('[data-facet="Tags"][data-value="money"]').tap()
        expect(page.locator(".chip")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "path",
    ["/", "/?q=late+refund+tag:money&why=1", "/?doc=docs/refunds.md&lines=9-12",
     "/?q=tag:money", "/?doc=docs/all.md", "/?doc=docs/all.md&lines=1-40",
     "/?doc=src/refund.py&lines=1-2", "/?doc=README.md&view=graph", "/?view=status", "/?q=x+type:nonsense"],
)  # fmt: skip
def test_everybody_can_use_it(path, scheme, opened, shop):
    watched = opened(shop, color_scheme=scheme)
    watched.expected = ("400",)
    page = watched.go(path)
    if "q=late" in path:
        paths(page)
        page.locator(".because summary").first.click()
    assert violations(page) == []


def test_an_error_says_what_to_do(opened, shop):
    watched = opened(shop)
    watched.expected = ("400",)
    page = watched.go("/?q=refund+type:definition")
    expect(page.locator(".problem h1")).to_contain_text("definition")
    expect(page.locator(".problem p")).to_contain_text("did you mean definitions?")
    page.locator("#q").fill("refund type:definitions")
    expect(page.locator(".card").first).to_be_visible()
    watched.go("/?q=tag:(((")
    expect(page.locator(".problem h1")).to_contain_text("(((")


def test_a_document_that_is_not_there(opened, shop):
    watched = opened(shop)
    watched.expected = ("404",)
    expect(watched.go("/?doc=docs/refund.md").locator(".problem p")).to_contain_text(
        "docs/refunds.md"
    )


def test_nothing_found_is_said(opened, shop):
    page = opened(shop).go("/?q=grass+tag:nonsense")
    assert paths(page) == []
    expect(page.locator(".count")).to_have_text("Nothing found")
    expect(page.locator(".note").first).to_contain_text(
        "filter lets no document through"
    )


def test_the_server_is_gone(opened):
    watched = opened("http://127.0.0.1:9")
    for address in started({"a.md": "grass"}):
        watched.address = address
        watched.expected = (
            "ERR_CONNECTION",
            "ERR_INCOMPLETE",
            "ERR_EMPTY",
            "EventSource",
        )
        page = watched.go("/")
    page.locator("#q").fill("grass")
    expect(page.locator(".problem h1")).to_contain_text("cannot be reached")


def test_indexing_is_shown_and_what_is_new_appears(opened, tmp_path):
    """Files that come while the page is open: a bar, and then the answer, without a click."""
    from support.installed import pages, serving

    root = write_files(tmp_path / "notes", {"a.md": "# A\n\nfirst zebra\n"})
    with serving(*pages(root)) as address:
        watched = opened(address.rstrip("/"))
        page = watched.go("/?q=zebra")
        expect(page.locator(".card")).to_have_count(1)
        page.evaluate(
            "window.seen = 0; const bar = document.getElementById('progress');"
            "new MutationObserver(() => { seen += !bar.hidden }).observe(bar, {attributes: true})"
        )
        many = {
            f"n{n}.md": f"# {n}\n\n" + f"zebra number {n} eats grass.\n\n" * 40
            for n in range(300)
        }
        write_files(root, many)
        expect(page.locator(".card")).to_have_count(10)
        page.wait_for_function("window.seen > 0")
        page.wait_for_selector("#progress", state="hidden")
        page.locator("#state").click()
        expect(page.locator(".fact", has_text="documents").locator("dd")).to_have_text(
            "301"
        )
        expect(page.locator(".verdict.good")).to_be_visible()
        watched.page.goto("about:blank")


def test_status_tells_what_was_left_out(opened, shop):
    page = opened(shop).go("/?view=status")
    expect(page.locator(".status table")).to_contain_text("ignored")
    expect(page.locator(".status")).to_contain_text("Workspaces: api")
    page.locator("button", has_text="Look for changed files").click()
    expect(page.locator("#said")).to_have_text("Looked for changed files.")


def test_a_token_is_asked_for_once(opened):
    for address in started(FILES, "a-token-of-some-length"):
        watched = opened(address)
        watched.expected = ("401",)
        page = watched.go("/?q=grass")
        assert violations(page) == []
        page.locator("#token").fill("not the token")
        page.locator("#token").press("Enter")
        expect(page.locator(".wrong")).to_be_visible()
        page.locator("#token").fill("a-token-of-some-length")
        page.locator("#token").press("Enter")
        assert paths(page)
        page.reload()
        assert paths(page)
        cookie = page.context.cookies()[0]
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
        kept = page.evaluate(
            "location.href + document.cookie + JSON.stringify(localStorage)"
        )
        assert "a-token" not in kept
        watched.page.goto("about:blank")


def test_no_line_of_the_page_is_inline():
    """The policy would stop it; it shall not be there at all."""
    web = Path(__file__).resolve().parents[2] / "src/tamis/server/web"
    assert {file.suffix for file in web.iterdir()} == {".html", ".css", ".js", ".svg"}
    for file in web.iterdir():
        text = file.read_text("utf-8")
        assert not re.search(
            r"(?:inner|outer|Adjacent)HTML|document\.write|\beval\(", text
        ), file.name
        assert not re.search(r"https?://(?!www\.w3\.org)", text), (
            f"{file.name} names another place"
        )
    page = (web / "index.html").read_text("utf-8")
    assert not re.search(
        r"\son\w+=|style=|<style|<script(?! type=\"module\" src=)", page
    )
