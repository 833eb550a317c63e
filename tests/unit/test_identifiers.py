"""The code lane's tokenizer: the seed's table is the test, and what the table is silent about."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tamis.text.identifiers import (
    asked,
    definitions,
    identifier_numbers,
    identifiers,
    in_sentence,
    names_in,
)


@pytest.mark.rows("R002-079", "R002-080..085")
@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("getUserById", "getuserbyid get user by id"),
        ("parse_json_data", "parse_json_data parse json data"),
        ("HTTPResponse", "httpresponse http response"),
        ("std::vector", "std :: vector"),
        ("C++", "c++"),
        ("myVar123", "myvar123 my var 123"),
    ],
)
def test_the_seeds_table(text, terms):
    assert identifiers(text) == terms.split()


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("os.path.join", "os.path.join os path join"),
        ("src/app.py", "src/app.py src app py"),
        ("my-button", "my-button my button"),
        ("snake_CASE", "snake_case snake case"),
        ("SCREAMING_SNAKE", "screaming_snake screaming snake"),
        ("_private", "_private private"),
        ("__init__", "__init__ init"),
        ("XMLHttpRequest", "xmlhttprequest xml http request"),
        ("sha256sum", "sha256sum sha 256 sum"),
        ("v1.2.3", "v1.2.3"),
        ("2.0", "2.0"),
        ("p->next", "p -> next"),
        ("a => b", "a => b"),
        ("x := 1", "x := 1"),
        ("i++", "i++"),
        ("c#", "c#"),
        ("F#", "f#"),
        ("größeÄndern", "größeändern größe ändern"),
        ("имяФайла", "имяфайла имя файла"),
        ("変数", "変数"),
        ("plain", "plain"),
        ("", ""),
        ("() {} ;", ""),
    ],
)
def test_what_the_table_is_silent_about(text, terms):
    assert identifiers(text) == terms.split()


def test_a_query_finds_what_it_names():
    """Whatever way a name is written, a query for it or for its words shares terms with it."""
    for written in (
        "getUserById",
        "get_user_by_id",
        "GET_USER_BY_ID",
        "get-user-by-id",
        "user.getById",
    ):
        assert {"get", "user", "by", "id"} <= set(identifiers(written))


def test_encoded_data_is_no_term():
    assert identifiers("A" * 200) == []
    assert all(len(term) <= 80 for term in identifiers("deadbeef" * 40 + " name"))


@given(st.text(max_size=200))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_indexing_and_asking_agree(text):
    """An index writes with numbers and a search asks with names."""
    numbers = identifier_numbers()
    assert [numbers.names[number] for number in numbers.of(text)] == identifiers(text)


@given(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,30}", fullmatch=True))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_an_identifier_gives_itself_and_parts_that_make_it_up(name):
    whole, *parts = identifiers(name)
    assert whole == name.lower()
    assert all(part in whole for part in parts)
    if parts:
        assert set("".join(parts)) == set(whole) - {"_"}


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("getAuthToken", "getAuthToken"),
        ("where is getAuthToken used?", "getAuthToken"),
        ("retry", ""),
        ("how to retry a request", ""),
        ("what does parse_json_data() return", "parse_json_data()"),
        ("where is retry() called?", "retry()"),
        ("what does -> mean", "->"),
        ("a -- b ... c", ""),
        ("why foo_bar: fails", "foo_bar"),
        ("std::vector push", "std::vector"),
        ("open src/app.py please", "src/app.py"),
        ("README.md", "README.md"),
        ("the `HTTPResponse` class", "HTTPResponse"),
        ("a C++ compiler", "C++"),
        ("upgrade to v2 of the API.", "v2"),
        ("numpy.linalg norm", "numpy.linalg"),
        ("end of sentence. Next one", ""),
        ("GitHub", "GitHub"),
        ("sha256sum of a file", "sha256sum"),
        ("read/write access", ""),
        ("any/all calls in src/app.py", "src/app.py"),
        ("look in a/b/c", "a/b/c"),
        ("some of them, e.g. files (i.e. names) at 5 p.m.", ""),
        ("what is np.T", "np.T"),
        ("", ""),
    ],
)
def test_names_in_a_question(question, names):
    assert list(names_in(question)) == names.split()


@pytest.mark.parametrize(
    ("question", "whether"),
    [
        ("getUser", False),
        ("getUser getGroup", False),
        ("a getUser", True),
        ("how to retry", False),
        ("", False),
    ],
)
def test_names_in_a_sentence(question, whether):
    assert in_sentence(question) is whether


@pytest.mark.parametrize(
    ("question", "terms"),
    [
        ("how to retry a request", ""),
        ("retry", "=retry"),
        ("Client::retry()", "client :: retry =client.retry"),
        ("where is getUser", "getuser get user =getuser"),
    ],
)
def test_what_the_code_lane_is_asked(question, terms):
    """Names, and their definitions; of one plain word, the definition alone."""
    assert list(asked(question)) == terms.split()


def test_what_only_a_definition_has():
    assert definitions(["Client.retry", "main"]) == ["=client.retry", "=retry", "=main"]
    assert not {"=retry"} & set(identifiers("= retry =retry"))
