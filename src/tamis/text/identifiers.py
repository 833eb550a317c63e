"""Terms of code: the tokenizer of the code lane, for indexing and searching.

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

from tamis.model import Chunk
from tamis.text.words import TermNumbers

# Raise it if the same text gives other terms: indexes made before are then out of date.
IDENTIFIERS_VERSION = 1

_OPERATORS = r"::|->|=>|:=|\+\+|==|!=|<=|>=|&&|\|\||\*\*|<<|>>"
_TOKEN = re.compile(
    r"\b[A-Za-z](?:\+\+|\#)(?!\w)"  # C++, C#, F#
    r"|\bv?\d+(?:\.\d+)+"  # a version
    r"|[^\W\d]\w*(?:[./-][^\W\d]\w*)*"  # an identifier, or several in a chain
    r"|\d\w*"
    rf"|{_OPERATORS}|--|\.\.\."
)
_VERSION = re.compile(r"v?\d+(?:\.\d+)+")
_JOINTS = re.compile(r"[./-]")
_BEFORE = "`'\"([{<.,;:\u2026\u201c\u201d\u2018\u2019"
_AFTER = "`'\",;:!?()[]{}<>.\u2026\u201c\u201d\u2018\u2019"
_OPERATOR = re.compile(_OPERATORS)  # in prose, dashes and dots are none
_QUALIFIERS = re.compile(r"::|->|#")
_NAME = re.compile(
    r"[^\W\d_][^\W_]*_\w|_\w+_|\b_\w"  # snake_case, _private
    r"|[a-z\d][A-Z]|[A-Z]{2,}[a-z]"  # camelCase, HTTPResponse
    r"|\w[./]\w|\w::|->|\(\)"  # os.path, src/app.py, std::vector, a->b, call()
    r"|^[A-Za-z](?:\+\+|\#)$"  # C++
    rf"|^(?:{_OPERATORS})$"
    r"|[^\W\d]\d+[^\W\d]|^v\d"  # sha256sum, v2
)
# read/write, i.e
_PROSE = re.compile(r"[^\W\d_]+/[^\W\d_]+|(?:[^\W\d_]\.)+[^\W\d_]")
_CALL = re.compile(r"[^\W\d]\w*\(\)[^\w]*$")
_IN_BACKTICKS = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_SIGNED = re.compile(r"(?<![\w`])[A-Za-z](?:\+\+|\#)(?![\w`])")
_LONGEST_TERM = 80  # longer ones are encoded data: nobody types them


def identifiers(text: str) -> list[str]:
    """Return the terms of a piece of code, in order, with repetitions."""
    tokens = _TOKEN.findall(text)
    return list(chain.from_iterable(map(terms_of, tokens)))


def code_in(chunk: Chunk) -> str:
    """Return the code of a passage: all of it, or of prose the text in backticks, and `C++`."""
    text = chunk.content
    if chunk.chunk_type != "documentation":
        return text
    found: list[str] = []
    if "`" in text:
        found += _IN_BACKTICKS.findall(text)
    if "+" in text or "#" in text:
        found += _SIGNED.findall(text)
    return " ".join(found)


def spoken(names: Iterable[str]) -> str:
    """Return the words of names that have several: `Client.getUserById` -> `get User By Id`."""
    links = chain.from_iterable(map(_JOINTS.split, names))
    found: list[str] = []
    for link in dict.fromkeys(links):
        own = parts(link)
        if len(own) > 1:
            found += own
    return " ".join(found)


def definitions(names: Iterable[str]) -> list[str]:
    """Return the terms that only a definition has: `Client.retry` -> `=client.retry`, `=retry`."""
    found = []
    for name in map(plain_name, names):
        last = name.rpartition(".")[2]
        for end in dict.fromkeys((name, last)):
            if end:
                found.append(f"={end}")
    return found


def asked(question: str) -> tuple[str, ...]:
    """Return the terms for the code lane: the names in a question, and their definitions.

    One word alone may be a name, so its definition is asked for; its other uses are the words
    lane's.
    """
    terms = identifiers(" ".join(names_in(question)))
    for name in map(plain_name, wanted_names(question)):
        if name:
            terms.append(f"={name}")
    return tuple(dict.fromkeys(terms))


def wanted_names(question: str) -> tuple[str, ...]:
    """Return the names in a question; one word alone is a name, too."""
    words = words_of(question)
    if len(words) == 1:
        return tuple(words)
    return names_in(question)


def names_in(question: str) -> tuple[str, ...]:
    """Return the words that can only be names: of symbols, files, versions, operators."""
    named = filter(_NAME.search, words_of(question))
    return tuple(word for word in named if not _PROSE.fullmatch(word))


def in_sentence(question: str) -> bool:
    """Return True if a question has names and other words."""
    names = names_in(question)
    return 0 < len(names) < len(words_of(question))


def words_of(question: str) -> list[str]:
    """Return the words of a question without punctuation around them, but with operators."""
    found = []
    for word in question.split():
        bare = word
        if not _OPERATOR.fullmatch(word):
            bare = word.rstrip(_AFTER).lstrip(_BEFORE)
            if _CALL.search(word):
                bare += "()"
        if bare:
            found.append(bare)
    return found


def plain_name(name: str) -> str:
    """Return the form in which names are compared: `Client::retry()` -> `client.retry`."""
    dotted = _QUALIFIERS.sub(".", name.removesuffix("()"))
    return dotted.lower().strip(".")


def identifier_numbers() -> TermNumbers:
    """Return numbers for the terms that `identifiers` gives."""
    return TermNumbers(_TOKEN.findall, terms_of)


def terms_of(token: str) -> tuple[str, ...]:
    """Return a token and its parts, each once."""
    if len(token) > _LONGEST_TERM:
        # Long ones do not come twice, and would fill the memory.
        return _remembered.__wrapped__(token)
    return _remembered(token)


@lru_cache(maxsize=1 << 17)
def _remembered(token: str) -> tuple[str, ...]:
    made = [token]
    is_name = token[0].isalnum() or token[0] == "_"
    if is_name and not _VERSION.fullmatch(token):
        links = _JOINTS.split(token)
        made += links
        made += chain.from_iterable(map(parts, links))
    terms: dict[str, None] = {}
    for name in made:
        term = unicodedata.normalize("NFC", name).lower()
        if 0 < len(term) <= _LONGEST_TERM:
            terms[term] = None
    return tuple(terms)


def parts(identifier: str) -> list[str]:
    """Split an identifier: `HTTPResponse` -> HTTP Response; `snake_CASE2` -> snake CASE 2."""
    found: list[str] = []
    for word in identifier.split("_"):
        start = 0
        for at in range(1, len(word)):
            if _begins_part(word, at):
                found.append(word[start:at])
                start = at
        found.append(word[start:])
    return list(filter(str.isalnum, found))


def _begins_part(word: str, at: int) -> bool:
    before = word[at - 1]
    here = word[at]
    if before.isdigit() != here.isdigit():
        return True
    if not here.isupper():
        return False
    after = word[at + 1 : at + 2]
    return before.islower() or (before.isupper() and after.islower())
