"""tamis: exact, filtered search over Markdown, notes and code, on your own machine.

    import tamis

    with tamis.open("docs") as corpus:
        found = corpus.search("how do retries work?", excluded_files=["CHANGELOG.md"])

Names are loaded when they are first used, so that `tamis --help` stays instant.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tamis.corpus import Corpus, open
    from tamis.errors import TamisError
    from tamis.index.doctor.checks import Health
    from tamis.model import Finding, Found, Report, Result, Skipped, Status

__all__ = [
    "Corpus", "Finding", "Found", "Health", "Report", "Result", "Skipped", "Status", "TamisError", "open",
]  # fmt: skip
__version__ = "0.1.0"

_HOME = {
    "Corpus": "corpus", "open": "corpus", "TamisError": "errors",
    "Health": "index.doctor.checks",
    "Finding": "model", "Found": "model", "Report": "model", "Result": "model", "Skipped": "model",
    "Status": "model",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tamis' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"tamis.{_HOME[name]}"), name)
