"""From code to terms: the tokenizer of the code lane, for indexing and searching alike.

Nothing is stemmed and no word is too common. An identifier gives itself and its parts
(`getUserById` -> getuserbyid get user by id), a chain of them (`os.path.join`, `my-button`,
`src/app.py`) gives itself and its identifiers; operators that people search for (`::`, `->`)
are terms of their own, and so are `c++`, `c#` and versions. All in lower case.
"""

import re
import unicodedata
from functools import lru_cache
from itertools import chain
from typing import Final

from tamis.text import TermNumbers

# Raise whenever the same text would give other terms: an index made before is then out of date.
IDENTIFIERS_VERSION: Final = 1

_TOKEN: Final = re.compile(
    r"\b[A-Za-z](?:\+\+|\#)(?!\w)"  # C++, C#, F#
    r"|\bv?\d+(?:\.\d+)+"  # a version
    r"|[^\W\d]\w*(?:[./-][^\W\d]\w*)*"  # an identifier, or several in a chain
    r"|\d\w*"
    r"|::|->|=>|:=|\+\+|--|==|!=|<=|>=|&&|\|\||\*\*|<<|>>|\.\.\."
)
_VERSION: Final = re.compile(r"v?\d+(?:\.\d+)+")
_JOINTS: Final = re.compile(r"[./-]")
_AROUND: Final = "`'\",;!?()[]{}<>.\u2026\u201c\u201d\u2018\u2019"
_NAME: Final = re.compile(
    r"[^\W\d_][^\W_]*_\w|_\w+_|\b_\w"  # snake_case, _private
    r"|[a-z\d][A-Z]|[A-Z]{2,}[a-z]"  # camelCase, HTTPResponse
    r"|\w[./]\w|\w::|->|\(\)"  # os.path, src/app, std::vector, a->b, call()
    r"|^[A-Za-z](?:\+\+|\#)$"  # C++
    r"|[^\W\d]\d+[^\W\d]|^v\d"  # sha256sum, v2
)
_LONGEST_TERM: Final = 80  # longer ones are encoded data: nobody types them


def identifiers(text: str) -> list[str]:
    """The terms of a piece of code, in order, with repetitions."""
    return list(chain.from_iterable(map(terms_of, _TOKEN.findall(text))))


def names_in(question: str) -> tuple[str, ...]:
    """The words of a question that can only be names: of symbols, files, versions, operators."""
    return tuple(word for word in words_of(question) if _NAME.search(word))


def words_of(question: str) -> list[str]:
    """The words of a question without the punctuation around them."""
    return [word for each in question.split() if (word := each.strip(_AROUND))]


def identifier_numbers() -> TermNumbers:
    """Numbers for the terms that `identifiers` gives."""
    return TermNumbers(_TOKEN.findall, terms_of)


@lru_cache(maxsize=1 << 17)
def terms_of(token: str) -> tuple[str, ...]:
    """A token and what it is made of, each once."""
    whole = _VERSION.fullmatch(token) or not (token[0].isalnum() or token[0] == "_")
    links = [] if whole else _JOINTS.split(token)
    made = [token, *links, *(part for link in links for part in parts(link))]
    lower = (unicodedata.normalize("NFC", term).lower() for term in made)
    return tuple(dict.fromkeys(term for term in lower if 0 < len(term) <= _LONGEST_TERM))


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
    return here.isupper() and (before.islower() or (before.isupper() and after.islower()))
