"""Documents whose authors mean harm: whatever they write, into whatever place, nothing of it runs."""

from urllib.parse import quote

import pytest

from support.chromium import browser, opened, started

pytestmark = pytest.mark.slow

# Each would set `window.harm`, ask another host, or change the page itself.
PAYLOADS = [
    "<script>window.harm=1</script>",
    "<img src=x onerror=window.harm=1>",
    "<img src=http://evil.example/a.png>",
    "<svg onload=window.harm=1><script>window.harm=1</script></svg>",
    "<svg><a xlink:href=javascript:window.harm=1><text>x</text></a></svg>",
    "<iframe src=javascript:window.harm=1 srcdoc='<script>parent.harm=1</script>'></iframe>",
    "<a href=javascript:window.harm=1 id=follow>follow</a>",
    "<a href='JaVa&#x0A;ScRiPt:window.harm=1'>follow</a>",
    "[follow](javascript:window.harm=1)",
    "[follow](data:text/html;base64,PHNjcmlwdD5wYXJlbnQuaGFybT0xPC9zY3JpcHQ+)",
    "[follow](vbscript:harm)",
    "![x](javascript:window.harm=1)",
    "![x](http://evil.example/b.png)",
    "<form action=http://evil.example><input autofocus onfocus=window.harm=1><button>x</button></form>",
    "<style>@import url(http://evil.example/c.css); * { display: none }</style>",
    "<link rel=stylesheet href=http://evil.example/d.css>",
    "<meta http-equiv=refresh content='0;url=http://evil.example/'>",
    "<base href=http://evil.example/>",
    "<object data=http://evil.example/></object><embed src=http://evil.example/>",
    "<video><source onerror=window.harm=1></video><audio src=http://evil.example/e.mp3 autoplay></audio>",
    "<details open ontoggle=window.harm=1>x</details>",
    "<math><mtext><table><mglyph><style><img src=x onerror=window.harm=1>",
    "<noscript><p title='</noscript><img src=x onerror=window.harm=1>'>",
    "<div style='background:url(http://evil.example/f.png);position:fixed;inset:0'>x</div>",
    "<p id=main>x</p><p name=harm>y</p><hr data-line='9 onclick=harm'>",
    "<template><script>window.harm=1</script></template>",
    "<xmp><script>window.harm=1</script></xmp><plaintext>",
    "\"><script>window.harm=1</script>",
    "'-window.harm=1-'",
    "{{constructor.constructor('window.harm=1')()}}",
    "${window.harm=1}",
    "<a href=https://evil.example/g ping=http://evil.example/h target=_blank>elsewhere</a>",
    "```html\n<script>window.harm=1</script>\n```",
    "`<script>window.harm=1</script>`",
    "<!--><script>window.harm=1</script>-->",
    "\u2028<script>window.harm=1</script>",
]  # fmt: skip
NAMES = [
    "<img src=x onerror=window.harm=1>.md",
    "\"><svg onload=window.harm=1>.md",
    "javascript:window.harm=1.md",
    "'-alert(1)-'.py",
    "a&b<c>d.md",
    "%3Cscript%3Ewindow.harm=1%3C%2Fscript%3E.md",
    "x..%2F..%2Fetc%2Fpasswd.md",
    "#?q=x&doc=y.md",
]  # fmt: skip


def hostile() -> dict[str, str]:
    whole = "\n\n".join(PAYLOADS)
    files = {
        f"body{n:02}.md": f"# Zebra {n}\n\nzebra {text}\n\nzebra after\n"
        for n, text in enumerate(PAYLOADS)
    }
    files |= {
        f"titles/{n:02}.md": f"# {text.splitlines()[0]} zebra\n\nzebra\n"
        for n, text in enumerate(PAYLOADS)
    }
    files |= {
        f"front/{n:02}.md": f"---\ntitle: {text!r}\ntags: [{text[:20]!r}]\nauthor: {text[:30]!r}\n"
        f"description: {text!r}\n---\n\nzebra\n"
        for n, text in enumerate(each for each in PAYLOADS if "\n" not in each)
    }
    files |= {name: f"# zebra\n\nzebra [self](<{name}>) [[{name}]]\n" for name in NAMES}
    files |= {
        "code.py": f'ZEBRA = """{whole}"""\n',
        "code.js": f"// zebra\nconst zebra = `{whole}`\n",
    }
    files |= {
        "all.md": f"# All zebra\n\n{whole}\n\n"
        + "".join(f"[x](<{name}>)\n" for name in files if "/" not in name)
    }
    return files


@pytest.fixture(scope="module")
def zoo():
    yield from started(hostile())


def check(page):
    assert page.evaluate("window.harm") is None
    assert page.url.startswith("http://127.0.0.1:")
    assert (
        page.locator(
            "main script, main iframe, main object, main embed, main form:not(.why-not), main style"
        ).count()
        == 0
    )
    attributes = "e => [...e.attributes].some(a => /^on|^style$|^srcdoc$|^ping$/.test(a.name) && !e.closest('.score'))"
    assert (
        page.evaluate(
            f"[...document.querySelectorAll('main *')].filter({attributes}).map(e => e.outerHTML)"
        )
        == []
    )
    schemes = page.evaluate(
        "[...document.querySelectorAll('main a[href]')]"
        ".map(e => new URL(e.getAttribute('href'), location).protocol)"
    )
    assert set(schemes) <= {"http:", "https:", "mailto:", "vscode:"}


def test_nothing_runs_in_results(opened, zoo):
    page = opened(zoo).go("/?q=zebra&n=100&why=1")
    page.wait_for_selector('.cards[data-quick="false"] .card')
    page.evaluate(
        "document.querySelectorAll('.card .small').forEach((more) => more.click())"
    )
    check(page)


@pytest.mark.parametrize("part", ["body", "titles", "front", "others"])
def test_nothing_runs_in_documents(part, opened, zoo):
    """Every one of them, in one page after the other as somebody would click through."""
    files = hostile()
    apart = ("body", "titles", "front")
    wanted = (
        [f for f in files if f.startswith(part)]
        if part in apart
        else [f for f in files if not f.startswith(apart)]
    )
    page = opened(zoo).go("/")
    for name in wanted:
        page.evaluate(
            "(to) => { history.pushState({}, '', to); dispatchEvent(new PopStateEvent('popstate')); }",
            f"/?doc={quote(name, safe='')}",
        )
        page.wait_for_function(
            "(name) => document.querySelector('main .path')?.textContent === name",
            arg=name,
        )
        page.wait_for_selector("main:not([aria-busy])")
        check(page)


def test_nothing_runs_in_the_picture_or_the_status(opened, zoo):
    page = opened(zoo).go("/?doc=all.md&view=graph")
    page.wait_for_selector(".node")
    check(page)
    assert (
        page.locator(".node title", has_text="a&b<c>d.md").count()
        + page.locator(".node").count()
        > 10
    )
    page.locator("#state").click()
    page.wait_for_selector(".facts")
    check(page)


def test_nothing_runs_in_the_address(opened, zoo):
    watched = opened(zoo)
    watched.expected = ("400", "404")
    for name in ("q", "doc", "lines", "view", "n", "root", "why"):
        text = quote("<img src=x onerror=window.harm=1><script>window.harm=1</script>")
        page = watched.go(f"/?{name}={text}" + ("&q=zebra" if name != "q" else ""))
        check(page)
