"""The arguments of a search: declared once, checked in one place, and the same in every door."""

import inspect
from dataclasses import dataclass, fields
from pathlib import Path

import click
import pytest

import tamis
from support.corpora import load_script
from tamis.cli.terminal import search_options
from tamis.corpus import Corpus
from tamis.errors import UsageError
from tamis.request import (
    ARGUMENTS,
    Argument,
    SearchRequest,
    argument,
    arguments_of,
    input_schema,
    read,
    with_arguments_of,
)
from tamis.server.schema import from_query, openapi, operations_of, tools_of

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@dataclass(frozen=True, slots=True, kw_only=True)
class Louder(SearchRequest):
    """A search with one more argument."""

    loudness: int | None = argument(None, "How loud the answer is.", low=0, high=11)


LOUDER = arguments_of(Louder)


# --- One declaration, all doors -------------------------------------------------------------


def test_an_argument_is_an_option_of_the_command_line():
    @click.command()
    @search_options(LOUDER)
    def command(**_):
        pass

    (option,) = [each for each in command.params if each.name == "loudness"]
    assert option.opts == ["--loudness"]
    assert option.type is click.INT
    assert option.help == "How loud the answer is."
    with click.Context(command) as context:
        assert "--loudness N" in command.get_help(context)


def test_an_argument_is_one_of_the_tools_for_agents():
    for tool in tools_of(LOUDER)[:3]:
        assert tool.input_schema()["properties"]["loudness"]["type"] == "integer"
        assert read(tool.arguments, {"query": "x", "loudness": 3}, tool.name) == {
            "query": "x",
            "loudness": 3,
        }
    schema = tools_of(LOUDER)[0].input_schema()["properties"]["loudness"]
    assert (schema["minimum"], schema["maximum"]) == (0, 11)


def test_an_argument_is_a_parameter_over_http():
    operations = operations_of(LOUDER)
    search = operations[0]
    given = from_query(search, [("q", "x"), ("loudness", "3")])
    assert read(search.arguments, given, "search") == {"query": "x", "loudness": 3}
    page = openapi(operations, secured=False)["paths"]["/api/v1/search"]
    (parameter,) = [
        each for each in page["get"]["parameters"] if each["name"] == "loudness"
    ]
    assert parameter["schema"] == {"type": "integer", "minimum": 0, "maximum": 11}
    assert parameter["description"] == "How loud the answer is."
    body = page["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "loudness" in body["properties"]


def test_an_argument_is_a_keyword_in_python():
    class Doubled:
        @with_arguments_of(Louder)
        def search(self, request: Louder) -> Louder:
            """Search."""
            return request

    assert Doubled().search("x", loudness=3) == Louder("x", loudness=3)
    parameter = inspect.signature(Doubled.search).parameters["loudness"]
    assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
    assert parameter.default is None
    with pytest.raises(TypeError, match="loudnes"):
        Doubled().search("x", loudnes=3)
    with pytest.raises(UsageError, match="loudness is 12"):
        Doubled().search("x", loudness=12)


def test_an_argument_is_documented(monkeypatch):
    monkeypatch.syspath_prepend(TOOLS)
    lines = load_script("tools/write_reference.py").argument_lines(LOUDER)
    (line,) = [line for line in lines if "`loudness`" in line]
    assert "How loud the answer is" in line
    assert "0 to 11" in line


# --- The signature of Corpus.search -----------------------------------------------------------


def test_the_signature_is_that_of_the_request():
    parameters = inspect.signature(tamis.Corpus.search).parameters
    assert list(parameters) == ["self", *(each.name for each in ARGUMENTS)]
    for each in fields(SearchRequest):
        assert parameters[each.name].annotation == each.type
    assert parameters["query"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert all(
        each.kind is inspect.Parameter.KEYWORD_ONLY
        for each in list(parameters.values())[2:]
    )


# --- Checking -------------------------------------------------------------------------------


def test_none_is_the_default():
    given = {each.name: None for each in ARGUMENTS if not each.required}
    assert SearchRequest("x", **given) == SearchRequest("x")


@pytest.mark.parametrize("value", [["a"], ("a",), {"a"}, frozenset("a"), "a"])
def test_lists_are_kept_as_tuples(value):
    assert SearchRequest("x", tags=value).tags == ("a",)


def test_python_does_not_guess_as_json_does():
    with pytest.raises(UsageError, match=r"limit is 2\.0"):
        SearchRequest("x", limit=2.0)
    limit = ARGUMENTS[1]
    assert limit.from_json(2.0) == 2
    tags = Argument("tags", "texts")
    assert tags.from_json('["a", "b"]') == ("a", "b")
    assert tags.check('["a", "b"]') == ('["a", "b"]',)


def test_a_name_that_is_unknown_or_given_twice():
    with pytest.raises(UsageError, match="search has no argument 'limt'") as caught:
        read(ARGUMENTS, {"query": "x", "limt": 1}, "search")
    assert caught.value.hint.startswith("did you mean limit? allowed: query, limit,")
    with pytest.raises(UsageError, match="given twice, as limit and as top_n"):
        read(ARGUMENTS, {"query": "x", "limit": 1, "top_n": 1}, "search")
    with pytest.raises(UsageError, match="query is missing"):
        read(ARGUMENTS, {"limit": 1}, "search")


def test_a_schema_allows_nothing_else():
    schema = input_schema(ARGUMENTS)
    assert schema["required"] == ["query"]
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == {each.name for each in ARGUMENTS}


def test_a_wrong_name_in_python_is_a_type_error_of_the_method():
    with pytest.raises(TypeError, match=r"^got an unexpected keyword argument 'limt'$"):
        Corpus.search(None, "x", limt=3)
