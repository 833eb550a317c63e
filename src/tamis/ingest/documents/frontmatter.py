"""Front matter: a document's properties, in YAML, TOML or JSON at its top. PyYAML lives here.

The block is data from a stranger. YAML aliases are refused (they are how a small block becomes a
huge one) and so is deep nesting (which the parsers take onto the stack), values are taken only
where they are of a kind we know, keys of many parts in TOML are refused (its parser
takes the square of their number in memory), and a block that does not parse stays part of the text, with a
warning.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

from tamis.model import FrontMatter
from tamis.text.words import storable, tag_name

_YAML = re.compile(
    r"---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
_TOML = re.compile(
    r"\+\+\+[ \t]*\n(.*?)^\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
# Many texts begin with a brace: it takes a line of its own, a name below it, and a blank line after the end.
_JSON = re.compile(
    r"(\{[ \t]*\n\s*\".*?^\})[ \t]*(?:\n(?=[ \t]*(?:\n|\Z))|\Z)",
    re.DOTALL | re.MULTILINE,
)
_LONGEST = 64_000  # characters; a longer block is no front matter
# What PyYAML lets through where a tag and its value do not fit, as in `!!bool maybe`.
_UNFIT = (LookupError, AttributeError, TypeError, OverflowError)
_DEEPEST = 50  # lists in lists: front matter is flat, and libyaml ends the process at some 20,000
_MOST_DOTS = 200  # in a line of TOML, where a key of many parts would be


def front_matter(text: str) -> tuple[FrontMatter, int, str]:
    """Return the values, the place after the block, and a warning (mostly empty)."""
    form = _FORMS.get(text[:1])
    block = form and form[0].match(text, 0, _LONGEST)
    if not form or not block:
        return FrontMatter(), 0, ""
    try:
        values = form[1](block[1])
        if values is None:
            values = {}
        if not isinstance(values, dict):
            raise ValueError("it is no list of keys and values")
        named = {}
        for name, value in values.items():
            named[str(name).strip().lower()] = value
        return _fields(named), block.end(), ""
    except (ValueError, RecursionError) as error:
        return FrontMatter(), 0, f"front matter not understood: {error}"


def _load_yaml(block: str) -> Any:
    import yaml  # late: a corpus without front matter, and --help, need not pay for it

    loader = _loader()
    try:
        nesting = sum(map(block.count, "[{-?:"))
        if "*" in block or nesting > _DEEPEST:
            _refuse_bombs(yaml.parse(block, Loader=loader))
        return yaml.load(block, Loader=loader)
    except yaml.YAMLError as error:
        message = " ".join(str(error).split())
        raise ValueError(message[:120]) from error
    except _UNFIT as error:
        raise ValueError(f"a value is not what its tag says ({error!r:.80})") from error


def _refuse_bombs(events: Iterable[Any]) -> None:
    """Look at the block's events before anything is made of them."""
    depth = 0
    for event in events:
        kind = type(event).__name__
        depth += kind.endswith(("SequenceStartEvent", "MappingStartEvent"))
        depth -= kind.endswith(("SequenceEndEvent", "MappingEndEvent"))
        if kind == "AliasEvent":
            raise ValueError("YAML aliases are not supported")
        if depth > _DEEPEST:
            raise ValueError(f"it is nested more than {_DEEPEST} deep")


@cache
def _loader() -> Any:
    """Return the safe loader, but a date that no calendar has stays text: the other values still count."""
    import yaml

    def timestamp(loader: Any, node: Any) -> object:
        try:
            construct = yaml.constructor.SafeConstructor.construct_yaml_timestamp
            return construct(loader, node)
        except (ValueError, AttributeError, TypeError):
            return loader.construct_scalar(node)

    safe = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader: Any = type("Loader", (safe,), {})
    loader.add_constructor("tag:yaml.org,2002:timestamp", timestamp)
    return loader


def _load_toml(block: str) -> Any:
    most = max(line.count(".") for line in block.split("\n"))
    if most > _MOST_DOTS:
        raise ValueError(f"a line has more than {_MOST_DOTS} dots")
    return tomllib.loads(block)


_Load = Callable[[str], Any]
# By the first sign of the block.
_FORMS: dict[str, tuple[re.Pattern[str], _Load]] = {
    "-": (_YAML, _load_yaml),
    "+": (_TOML, _load_toml),
    "{": (_JSON, json.loads),
}


# --- Values -----------------------------------------------------------------------------


def _fields(values: Mapping[str, Any]) -> FrontMatter:
    def text(*names: str) -> str:
        """Return the first text among the values of these names."""
        texts = [_text(values.get(name)) for name in names]
        return next(filter(None, texts), "")

    def items(*names: str) -> tuple[str, ...]:
        """Return the first list among the values of these names."""
        lists = [_list(values.get(name)) for name in names]
        return next(filter(None, lists), ())

    modified = None
    for name in ("created", "date", "modified"):
        moment = _date(values.get(name))
        if moment is not None:
            modified = moment
    others = [value for name, value in values.items() if name != "related"]
    return FrontMatter(
        title=text("title"),
        description=text("description", "summary"),
        keywords=items("keywords"),
        tags=_tags(values),
        aliases=items("aliases", "alias"),
        author=", ".join(items("author", "authors")),
        category=text("category", "type"),
        modified=modified,
        related=tuple(_related(values.get("related"))),
        links=tuple(_linked(others)),
    )


def _tags(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Read the tags, also from one text with blanks, as Obsidian does; a draft says so by a tag."""
    written: list[str] = []
    for name in ("tags", "tag"):
        value = values.get(name)
        if isinstance(value, str) and "," not in value:
            value = value.split()
        written = written or list(_list(value))
    if _text(values.get("draft")).lower() == "true":
        written.append("draft")
    names = dict.fromkeys(map(tag_name, written))
    return tuple(filter(None, names))


def _related(value: object) -> Iterator[str]:
    """Yield texts, in whatever lists: `[[Note]]` without quotes is a list in a list to YAML."""
    if isinstance(value, list):
        for item in value:
            yield from _related(item)
    elif isinstance(value, str) and "[[" in value:
        yield storable(value.strip())
    else:
        yield from _list(value)


def _linked(value: object) -> Iterator[str]:
    """Yield the texts, in whatever lists and tables, that hold a wiki link."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _linked(item)
    elif isinstance(value, str) and "[[" in value:
        yield storable(value)


def _text(value: object) -> str:
    if not isinstance(value, str | int | float | date):
        return ""
    try:
        return storable(str(value).strip())
    except ValueError:  # a number of more digits than Python is willing to print
        return ""


def _list(value: object) -> tuple[str, ...]:
    """Return a list, or one text with commas. Numbers become text; nested values are left out."""
    if isinstance(value, str):
        value = value.split(",")
    items = value if isinstance(value, list) else [value]
    return tuple(filter(None, map(_text, items)))


def _date(value: object) -> float | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if not isinstance(value, date):
        return None
    moment = value
    if not isinstance(moment, datetime):
        moment = datetime(value.year, value.month, value.day)
    if not moment.tzinfo:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()
