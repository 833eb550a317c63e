"""An agent's run for docs/mcp.md, made by asking a server: search, read, search narrower."""

import os
import tempfile
import time
from pathlib import Path

import anyio
from mcp import Client

from tamis.configuration import load
from tamis.corpus import Corpus, index_directory
from tamis.live.folders import Folder
from tamis.server.mcp import make_server
from tamis.server.state import ServerState

_TRUSTED = 2.1  # seconds: the times of files that are older than this say whether they have changed
PAYMENTS = """\
# Payments

A card is charged when an order ships, never before. A refund goes back to the same card. Prices are
in the customer's currency, taxes included; the provider converts them, and we show what it charged.

## When a charge fails

The order waits. We try again as [retries](retries.md) says, then write to the customer.
"""
RETRIES = """\
---
tags: [operations]
---
# Retries

Calls to the payment provider are retried five times, with a pause that doubles from one second on.
Only timeouts and status 503 are retried: a card that was declined stays declined.

## Limits

No order is retried for longer than an hour in all. After that a person looks at it: the queue is on
the operations page, with the provider's last answer beside each order.
"""
CHARGE = '''\
ATTEMPTS = 5


def charge(card, amount, send):
    """Charge a card; again after a timeout, with longer and longer pauses."""
    for attempt in range(ATTEMPTS):
        answer = send(card, amount)
        if not answer.is_temporary:
            return answer
        pause(2**attempt)
    return answer
'''
FILES = {
    "README.md": "# Shop\n\nA shop. See [payments](docs/payments.md) and [retries](docs/retries.md).\n",
    "docs/payments.md": PAYMENTS,
    "docs/retries.md": RETRIES,
    "docs/archive/retries-2024.md": "# Retries\n\nThe payment provider is called three times.\n",
    "src/charge.py": CHARGE,
}
RUN = (
    (
        "query_documents",
        {
            "query": "how often is a failed payment tried again",
            "limit": 2,
            "max_tokens": 400,
        },
    ),
    ("get_passage", {"path": "docs/retries.md"}),
    (
        "query_documents",
        {
            "query": "number of attempts for a charge",
            "limit": 1,
            "languages": ["python"],
        },
    ),
    ("query_documents", {"query": "retries", "langauges": ["python"]}),
)


def agent_run() -> str:
    """What was asked and what was answered, as text."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "shop"
        for name, content in FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content, encoding="utf-8")
            os.utime(root / name, (1_700_000_000, 1_700_000_000))
        settings = load(root, {}, environment={"HOME": folder})
        time.sleep(_TRUSTED)
        with Corpus(root, index_directory(root, settings, None), settings) as corpus:
            corpus.refresh()
        state = ServerState([Folder("shop", root, settings)])
        try:
            return anyio.run(_ask, state)
        finally:
            state.close()


async def _ask(state: ServerState) -> str:
    async with Client(make_server(state)) as client:
        while not (await client.call_tool("index_status", {})).structured_content[
            "freshness"
        ]["complete"]:
            await anyio.sleep(_TRUSTED)
        told = [
            (name, given, await client.call_tool(name, given)) for name, given in RUN
        ]
    return "\n\n".join(
        f"> {_call(name, given)}\n\n{answer.content[0].text.rstrip()}"
        for name, given, answer in told
    )


def _call(name: str, given: dict[str, object]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in given.items())})".replace(
        "'", '"'
    )
