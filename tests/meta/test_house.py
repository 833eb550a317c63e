"""The bounds of the source: its size, its density and its language, as `tools/house` counts them."""

import pytest

from support.corpora import load_script, write_files

house = load_script("tools/house.py")
SMALL = {
    "small/__init__.py": '"""A package."""\n',
    "small/settings.py": '"""Of settings: two."""\n\nlimit = key(5, "...")\nroot: str = key("")\n',
    "small/deep/__init__.py": "",
    "small/deep/code.py": """
def one(a):
    # a comment
    return a if a else _two()


def _two():
    \"\"\"Return a list.\"\"\"
    return [1, 2, 3, 4, 5, 6, 7, 8, 9]
""",
}


@pytest.fixture(scope="module")
def figures():
    return {figure.name: figure for figure in house.measure()}


@pytest.mark.parametrize("bound", house.BOUNDS, ids=lambda bound: bound.name)
def test_the_source_keeps_the_bounds(bound, figures):
    figure = figures[bound.name]
    assert figure.value <= bound.most, (
        f"{bound.name}: {figure}, at most {bound.most:,} ({figure.definition})"
    )


def test_what_is_counted(tmp_path):
    write_files(tmp_path, SMALL)
    found = {figure.name: figure.value for figure in house.measure(tmp_path / "small")}
    assert found["modules"] == 2, "packages with a docstring alone do not count"
    assert found["top-level modules"] == 1
    assert found["functions"] == 2
    assert found["settings"] == 1
    assert found["private functions used once"] == 1
    assert found["dense lines"] == pytest.approx(100 / 6)
    assert found["conditional expressions"] == pytest.approx(1_000 / 10)
    assert found["docstrings that open with a clause"] == pytest.approx(100 / 3)


def test_a_broken_bound_is_a_sentence(tmp_path):
    lines = [f"number{n} = [{', '.join(map(str, range(30)))}]" for n in range(9)]
    write_files(tmp_path, {"dense/a.py": "\n".join(lines) + "\n"})
    assert house.broken_bounds(tmp_path / "dense") == [
        "tokens per code line: 63.0, at most 7.5",
        "dense lines: 100.0 %, at most 5",
    ]
