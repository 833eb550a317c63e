"""A real Chromium, and what it may not do in any test: log an error, or ask anybody but our server."""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from support.corpora import Files, write_files
from support.installed import package, pages, serving, unavailable

PATIENCE = 30_000  # milliseconds
expect.set_options(timeout=PATIENCE)
# Not as root in a sandbox of its own, and nothing asked for in the background.
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
CODE = {
    "python": "# a comment\nreturn f(3.5, 'a string', None)",
    "go": '// a comment\nreturn f(0x3f, "a string", nil)',
}
FILES: dict[str, str | bytes] = {
    "tamis.toml": '[workspaces]\napi = ["docs/api"]\n',
    ".graphragignore": "tamis.toml\n",
    "README.md": "# Shop\n\nA shop that sells grass. See [refunds](docs/refunds.md) and [[billing]].\n\n"
    "![a picture](http://pictures.example/grass.png) and [elsewhere](https://elsewhere.example/)\n",
    "docs/refunds.md": "---\ntags: [money, draft]\nauthor: Ann\nmodified: 2026-03-01\n---\n# Refunds\n\n"
    "A refund of grass takes three days. It goes to [billing](api/billing.md).\n\n## Late refunds\n\n"
    + "A refund that is late is paid with a gift of hay. " * 12
    + "\n\n```python\nfor each in orders:  # all of them\n    refund(each, 3)\n```\n",
    "docs/api/billing.md": "---\ntags: [money]\nmodified: 2025-02-01\n---\n# Billing\n\nBilling charges a "
    "card for grass.\n\n## Invoices\n\nInvoices are sent by mail.\n\n| what | when |\n|---|---|\n| a | b |\n",
    "src/refund.py": 'def refund_order(order):\n    """Give the money for grass back."""\n    return order\n',
    "docs/all.md": "# All\n\n<img src=grass.png> and [![](badge.png)](https://elsewhere.example/) and "
    "<blockquote>a <mark>mark</mark></blockquote>\n\n| a | b |\n|---|---|\n| c | `d` |\n\n"
    "| e | f |\n|---|---|\n| g | h |\n\n"
    + "".join(f"```{name}\n{text}\n```\n\n" for name, text in CODE.items()),
    "docs/signs.md": "---\ntags: [to do]\n---\n# Signs\n\nA zebra writes `[[#` and `a ]] _b_`, \N{OX} "
    "[see wiki](https://x.example/Pudding_(food)) for more, [[money|the bills]], _anchor links_, x[y[0]], "
    "__bold__ my_own_name and ``a ` tick``.\n",
    "archive/old.md": "# Old\n\nRefunds of grass used to take a month.\n",
    "picture.png": b"\x89PNG\r\n\x1a\n" + b"\0" * 64,
}


def started(files: Files, token: str = "") -> Iterator[str]:
    """The address of a server over files that are all indexed."""
    with tempfile.TemporaryDirectory(prefix="tamis-page-") as folder:
        yield from started_over(
            write_files(Path(folder).resolve() / "shop", files), token=token
        )


def started_over(*roots: Path, token: str = "") -> Iterator[str]:
    with serving(*pages(*roots), *(["--token", token] if token else [])) as address:
        while not _is_complete(address, token):
            time.sleep(0.1)
        yield address.rstrip("/")


def _is_complete(address: str, token: str) -> bool:
    asked = Request(
        f"{address}api/v1/status", headers={"Authorization": f"Bearer {token}"}
    )
    with urlopen(asked) as said:
        complete: bool = json.load(said)["freshness"]["complete"]
    return complete


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for the tests of a file: where it is at work, nothing else can run an event loop in its thread."""
    program = shutil.which("chromium")
    if program is None:
        unavailable("there is no Chromium here (tools/check installs it)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    yield from started(FILES)


class Watched:
    """A page, and everything that it should not have done."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.address = address
        self.faults: list[str] = []
        self.expected: tuple[str, ...] = ()
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)

    def _dialog(self, dialog: Any) -> None:
        self.faults.append("a dialog")
        dialog.dismiss()

    def _console(self, message: Any) -> None:
        known = any(
            each in f"{message.text} {message.location}" for each in self.expected
        )
        if message.type in ("error", "warning") and not known:
            self.faults.append(f"console: {message.text} {message.location}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.faults.append(f"asked elsewhere: {request.url}")

    def go(self, path: str) -> Page:
        self.page.goto(f"{self.address}{path}")
        self.settle()
        return self.page

    def settle(self) -> None:
        """Until what the address says is shown; of a search, the full answer."""
        self.page.wait_for_selector("main:not([aria-busy]) > *")


Open = Callable[..., Watched]


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Open a page on a server; what it should not have done fails the test at its end."""
    contexts: list[BrowserContext] = []
    watched: list[Watched] = []

    def make(address: str, **how: Any) -> Watched:
        contexts.append(browser.new_context(**how))
        watched.append(Watched(contexts[-1], address))
        return watched[-1]

    yield make
    for context in contexts:
        context.close()
    assert [fault for each in watched for fault in each.faults] == []


def axe() -> str:
    return (package("axe-core") / "axe.min.js").read_text("utf-8")


def violations(page: Page) -> list[str]:
    """What axe finds on the page as it is, minor things too."""
    page.evaluate(axe())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['html'][:200]} {node['failureSummary'][:200]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]
