"""From code to terms: the tokenizer of the code lane, for indexing and searching alike.

Nothing is stemmed and no word is too common. An identifier gives itself and its parts
(`getUserById` -> getuserbyid get user by id), a chain of them (`os.path.join`, `my-button`,
`src/app.py`) gives itself and its identifiers; operators that people search for (`::`, `->`)
are terms of their own, and so are `c++`, `c#` and versions. All in lower case.
"""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import Final

from tamis.model import Chunk
from tamis.text.words import TermNumbers

# Raise whenever the same text would give other terms: an index made before is then out of date.
IDENTIFIERS_VERSION: Final = 1

_OPERATORS: Final = r"::|->|=>|:=|\+\+|==|!=|<=|>=|&&|\|\||\*\*|<<|>>"
_TOKEN: Final = re.compile(
    r"\b[A-Za-z](?:\+\+|\#)(?!\w)"  # C++, C#, F#
    r"|\bv?\d+(?:\.\d+)+"  # a version
    r"|[^\W\d]\w*(?:[./-][^\W\d]\w*)*"  # an identifier, or several in a chain
    r"|\d\w*"
    rf"|{_OPERATORS}|--|\.\.\."
)
_VERSION: Final = re.compile(r"v?\d+(?:\.\d+)+")
_JOINTS: Final = re.compile(r"[./-]")
_BEFORE: Final = "`'\"([{<.,;:\u2026\u201c\u201d\u2018\u2019"
_AFTER: Final = "`'\",;:!?()[]{}<>.\u2026\u201c\u201d\u2018\u2019"
_OPERATOR: Final = re.compile(_OPERATORS)  # in prose, dashes and dots are none
_QUALIFIERS: Final = re.compile(r"::|->|#")
_NAME: Final = re.compile(
    r"[^\W\d_][^\W_]*_\w|_\w+_|\b_\w"  # snake_case, _private
    r"|[a-z\d][A-Z]|[A-Z]{2,}[a-z]"  # camelCase, HTTPResponse
    r"|\w[./]\w|\w::|->|\(\)"  # os.path, src/app.py, std::vector, a->b, call()
    r"|^[A-Za-z](?:\+\+|\#)$"  # C++
    rf"|^(?:{_OPERATORS})$"
    r"|[^\W\d]\d+[^\W\d]|^v\d"  # sha256sum, v2
)
_PROSE: Final = re.compile(
    r"[^\W\d_]+/[^\W\d_]+|(?:[^\W\d_]\.)+[^\W\d_]"
)  # read/write, i.e
_IN_BACKTICKS: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_SIGNED: Final = re.compile(r"(?<![\w`])[A-Za-z](?:\+\+|\#)(?![\w`])")
_LONGEST_TERM: Final = 80  # longer ones are encoded data: nobody types them


def identifiers(text: str) -> list[str]:
    """The terms of a piece of code, in order, with repetitions."""
    return list(chain.from_iterable(map(terms_of, _TOKEN.findall(text))))


def code_in(chunk: Chunk) -> str:
    """The code of a passage: all of it, or of prose what stands in backticks, and `C++` and its like."""
    if chunk.chunk_type != "documentation":
        return chunk.content
    text = chunk.content
    quoted = _IN_BACKTICKS.findall(text) if "`" in text else []
    signed = _SIGNED.findall(text) if "+" in text or "#" in text else []
    return " ".join((*quoted, *signed))


def spoken(names: Iterable[str]) -> str:
    """The words in names that have several: `Client.getUserById` -> `get User By Id`."""
    links = [link for name in names for link in _JOINTS.split(name)]
    return " ".join(
        " ".join(own) for link in dict.fromkeys(links) if len(own := parts(link)) > 1
    )


def definitions(names: Iterable[str]) -> list[str]:
    """The terms that only a definition has: `Client.retry` -> `=client.retry`, `=retry`."""
    plain = [plain_name(name) for name in names]
    return [
        f"={end}"
        for name in plain
        for end in dict.fromkeys((name, name.rpartition(".")[2]))
        if end
    ]


def asked(question: str) -> tuple[str, ...]:
    """What the code lane is asked: the names in a question, and that they be defined. One word alone may
    be the name of something, so its definition is asked for; what merely has the word is the words lane's.
    """
    names = names_in(question)
    defined = (f"={name}" for name in map(plain_name, wanted_names(question)) if name)
    return tuple(dict.fromkeys((*identifiers(" ".join(names)), *defined)))


def wanted_names(question: str) -> tuple[str, ...]:
    """The names in a question; one word alone is a name, too."""
    words = words_of(question)
    return tuple(words) if len(words) == 1 else names_in(question)


def names_in(question: str) -> tuple[str, ...]:
    """The words of a question that can only be names: of symbols, files, versions, operators."""
    return tuple(
        word
        for word in words_of(question)
        if _NAME.search(word) and not _PROSE.fullmatch(word)
    )


def in_sentence(question: str) -> bool:
    """Whether a question has names, and other words."""
    return 0 < len(names_in(question)) < len(words_of(question))


def words_of(question: str) -> list[str]:
    """The words of a question without the punctuation around them; operators stay what they are."""
    stripped = (
        each if _OPERATOR.fullmatch(each) else _stripped(each)
        for each in question.split()
    )
    return [word for word in stripped if word]


def _stripped(word: str) -> str:
    bare = word.rstrip(_AFTER).lstrip(_BEFORE)
    return f"{bare}()" if re.search(r"[^\W\d]\w*\(\)[^\w]*$", word) else bare


def plain_name(name: str) -> str:
    """`Client::retry()` and `Client#retry` as `client.retry`."""
    return _QUALIFIERS.sub(".", name.removesuffix("()")).lower().strip(".")


def identifier_numbers() -> TermNumbers:
    """Numbers for the terms that `identifiers` gives."""
    return TermNumbers(_TOKEN.findall, terms_of)


def terms_of(token: str) -> tuple[str, ...]:
    """A token and what it is made of, each once."""
    # Long ones do not come twice, and would fill the memory.
    return _remembered(token) if len(token) <= _LONGEST_TERM else _terms_of(token)


def _terms_of(token: str) -> tuple[str, ...]:
    whole = _VERSION.fullmatch(token) or not (token[0].isalnum() or token[0] == "_")
    links = [] if whole else _JOINTS.split(token)
    made = [token, *links, *(part for link in links for part in parts(link))]
    lower = (unicodedata.normalize("NFC", term).lower() for term in made)
    return tuple(
        dict.fromkeys(term for term in lower if 0 < len(term) <= _LONGEST_TERM)
    )


_remembered: Final = lru_cache(maxsize=1 << 17)(_terms_of)


def parts(identifier: str) -> list[str]:
    """`HTTPResponse` -> HTTP Response; `snake_CASE2` -> snake CASE 2. Operators have no parts."""
    found: list[str] = []
    for word in identifier.split("_"):
        start = 0
        for at in range(1, len(word)):
            if _begins_part(word, at):
                found.append(word[start:at])
                start = at
        found.append(word[start:])
    return [part for part in found if part.isalnum()]


def _begins_part(word: str, at: int) -> bool:
    before, here = word[at - 1], word[at]
    if before.isdigit() != here.isdigit():
        return True
    after = word[at + 1 : at + 2]
    return here.isupper() and (
        before.islower() or (before.isupper() and after.islower())
    )
