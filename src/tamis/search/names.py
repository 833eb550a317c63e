"""What a question names, and how much that says.

A question that is nothing but names asks for what has them. In a sentence a name is one word of several,
and often that of a thing which is used where the answer is, not of the answer. What tells is how
many documents define it: a name that a few of them define points there. One that none does (`ValueError`)
or that many do (`__repr__`, `__init__.py`) points nowhere, and is found wherever somebody uses it.
`docs/ranking.md` has what that is worth.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from tamis.identifiers import in_sentence, names_in, plain_name, wanted_names
from tamis.model import Candidate, Lane, Passage
from tamis.search.boost import boosted
from tamis.search.fuse import REACH, Ranking, Sources, within

_MANY: Final = 8  # documents that define a name: with more it points nowhere
_POINTS_NOWHERE: Final = 1 / 3  # what is left of the code lane's worth


@dataclass(frozen=True, slots=True)
class Names:
    """Symbols, or files by the end of their paths."""

    symbols: frozenset[str]
    files: frozenset[str]

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        files = (name.casefold().removeprefix("./").lstrip("/") for name in names if "." in name)
        return cls(frozenset(map(plain_name, names)), frozenset(files))

    def fit(self, passage: Passage) -> bool:
        """Whether the passage defines one of the symbols, or is in one of the files."""
        if self.symbols and any(not self.symbols.isdisjoint(_ends(name, ".")) for name in passage.names):
            return True
        return bool(self.files) and not self.files.isdisjoint(_ends(passage.path.casefold(), "/"))

    def documents(self, passages: Iterable[Passage]) -> int:
        """How many documents the passages that fit are in."""
        return len({passage.path for passage in passages if self.fit(passage)})


def _ends(name: str, joint: str) -> Iterator[str]:
    """`a.b.c` -> `a.b.c`, `b.c`, `c`."""
    name = plain_name(name) if joint == "." else name
    yield name
    while joint in name:
        name = name.partition(joint)[2]
        yield name


def pointed(sources: Sources, rankings: Mapping[Lane, Ranking], text: str) -> Sources:
    """With what the code lane is worth for this question: less where names in a sentence point nowhere.

    Who writes `caplog.clear` may have an instance in mind, so the last part of a name is looked for as well.
    """
    if not sources.adaptive or not rankings.get("code") or not in_sentence(text):
        return sources
    written = names_in(text)
    names = Names.of([*written, *filter(None, (plain_name(name).rpartition(".")[2] for name in written))])
    if 0 < names.documents(passage for passage, _ in rankings["code"][:REACH]) <= _MANY:
        return sources
    code = sources.worth.get("code", 1.0) * _POINTS_NOWHERE
    return replace(sources, worth={**sources.worth, "code": code})


def with_named(
    candidates: Sequence[Candidate], text: str, factor: float, reach: int = REACH
) -> Sequence[Candidate]:
    """More for what defines or is what the question names; in a sentence, documents of one name share that.

    They are counted within reach of the lanes: how many others are seen depends on the limit.
    """
    wanted = [Names.of([name]) for name in wanted_names(text)]
    if not wanted:
        return candidates
    near = [each.passage for each in candidates if within(each, reach)] if in_sentence(text) else []
    shares = [(names, 1 / max(names.documents(near), 1)) for names in wanted]

    def of(candidate: Candidate) -> float:
        own = [part for names, part in shares if names.fit(candidate.passage)]
        return 1 + (factor - 1) * max(own, default=0.0)

    return boosted(candidates, "named", of)
