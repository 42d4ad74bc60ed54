"""The book's workflow where it needs no kernel: parameters, pages, sources, the address of the repository."""

import nbformat
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from notebooks import write_notebook

from traintime import paths
from traintime.book import execute
from traintime.errors import InputError

numbers = st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
comments = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]))


@given(numbers | st.text() | st.lists(st.text()), comments)
def test_what_a_rewritten_cell_sets_is_what_was_given(value, comment):
    rewritten = execute.with_values(f"one = 1\ntwo = [1, 2]  # {comment}\nthree = 3", {"two": value})
    variables = {}
    exec(rewritten, variables)
    assert (variables["one"], variables["two"], variables["three"]) == (1, value, 3)
    assert rewritten.splitlines()[1].endswith(f"  # {comment}")


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A book of one chapter, with a profile that can be changed."""
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "PROFILES", tmp_path / "profiles")
    paths.PROFILES.mkdir()
    contents = {"parts": [{"chapters": [{"file": "chapters/one"}, {"file": "bibliography"}]}]}
    (tmp_path / "_toc.yml").write_text(yaml.safe_dump(contents))
    write_notebook(tmp_path / "chapters" / "one.ipynb", parameters="rounds = 3  # rounds\nsteps = 10  # steps")

    def set_profile(chapters):
        (paths.PROFILES / "mine.yaml").write_text(yaml.safe_dump({"chapters": chapters}))

    set_profile({"one": {"rounds": 1}})
    return set_profile


@pytest.mark.parametrize(
    ("chapters", "profile", "chapter", "field", "value", "known"),
    [
        ({}, "mine", "two", "chapter", "two", "one"),
        ({}, "yours", "one", "profile", "yours", "mine"),
        ({"one": {}, "too": {"rounds": 1}}, "mine", "one", "chapter in a profile", "too", "one"),
        ({"one": {"rouds": 1}}, "mine", "one", "parameter of one", "rouds", "rounds, steps"),
    ],
)
def test_an_unknown_name_is_refused_and_others_are_named(shelf, chapters, profile, chapter, field, value, known):
    shelf(chapters)
    with pytest.raises(InputError) as caught:
        execute.parameters(profile, chapter)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert known in caught.value.remedy


def test_of_what_libraries_log_a_page_shows_warnings_alone():
    logged = "WARNING: All log messages before\nI0000 00:00:1.2  14 compiler.h:208] on\nTo enable the following: AVX2\n"
    cells = [nbformat.v4.new_code_cell("f()") for _ in range(2)]
    for cell, text in zip(cells, (logged, f"{logged}UserWarning: odd\n"), strict=True):
        cell.outputs = [nbformat.v4.new_output("stream", name="stderr", text=text)]
    execute.prepare_page(nbformat.v4.new_notebook(cells=cells), {})
    assert [[output.text for output in cell.outputs] for cell in cells] == [[], ["UserWarning: odd\n"]]


def test_a_page_shows_what_it_ran_with_in_one_place():
    cells = [  # as papermill leaves them
        nbformat.v4.new_code_cell("rounds = 3  # rounds", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("rounds = 1", metadata={"tags": ["injected-parameters"]}),
        nbformat.v4.new_code_cell("print(rounds)"),
    ]
    papermill = {"input_path": "a/b.ipynb", "output_path": "c/d.ipynb", "parameters": {"rounds": 1}, "duration": 2.0}
    executed = nbformat.v4.new_notebook(cells=cells, metadata={"papermill": papermill})
    execute.prepare_page(executed, {"rounds": 1})
    assert [cell.source for cell in executed.cells] == ["rounds = 1  # rounds", "rounds = 1", "print(rounds)"]
    tags = [cell.metadata.get("tags") for cell in executed.cells]
    assert tags == [["parameters"], ["injected-parameters", "remove-cell"], None]
