"""The book's workflow where it needs no kernel: parameters, pages, sources, the address of the repository."""

import os

import nbformat
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from notebooks import write_notebook

from traintime import paths
from traintime.book import RESULTS, execute, workflow
from traintime.errors import InputError

# The parameters cell


values = st.one_of(
    st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.text(), st.lists(st.text())
)
comments = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]))


@given(values, comments)
def test_what_a_rewritten_cell_sets_is_what_was_given(value, comment):
    rewritten = execute.with_values(f"one = 1\ntwo = [1, 2]  # {comment}\nthree = 3", {"two": value})
    variables = {}
    exec(rewritten, variables)
    assert (variables["one"], variables["two"], variables["three"]) == (1, value, 3)
    assert rewritten.splitlines()[1].endswith(f"  # {comment}")


# What a profile may set


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
def test_an_unknown_name_is_refused_and_the_known_ones_are_named(
    shelf, chapters, profile, chapter, field, value, known
):
    shelf(chapters)
    with pytest.raises(InputError) as caught:
        execute.parameters(profile, chapter)
    assert (caught.value.field, caught.value.value) == (field, value)
    assert known in caught.value.remedy


# Pages


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
    assert [cell.metadata.get("tags") for cell in executed.cells] == [
        ["parameters"],
        ["injected-parameters", "remove-cell"],
        None,
    ]


# What is measured, and what is only drawn


@pytest.fixture
def chapter(shelf):
    """Write a chapter's cells of code after its parameters, `rounds` and `steps`."""

    def write(*cells):
        path = paths.ROOT / "chapters" / "one.ipynb"
        notebook = nbformat.read(path, as_version=4)
        notebook.cells = notebook.cells[:1] + [nbformat.v4.new_code_cell(cell) for cell in cells]
        nbformat.write(notebook, path)

    return write


def part():
    return workflow.measuring_part("one").splitlines()


def test_what_measures_is_found_by_the_names_that_it_needs(chapter):
    chapter(
        "%config x = 1\nfrom traintime.book import plots, run\nimport os, json",
        "sizes = {'steps': steps}\nfigure = plots.steps(sizes)",
        "live = run.run('one', sizes, rounds)",
        "raise ValueError('a figure')",
    )
    assert part() == [
        "rounds = 3",
        "steps = 10",
        "from traintime.book import plots, run",
        "sizes = {'steps': steps}",
        "live = run.run('one', sizes, rounds)",
    ]


@pytest.mark.parametrize(
    "cell",
    [
        "sizes = {}\nfor name in 'ab':\n    sizes[name] = steps",
        "sizes = {}\nsizes |= {'a': steps}",
        "def made(n):\n    return {'a': n}\n\nsizes = made(steps)",
        "sizes: dict = {'a': steps}",
        "from json import loads as sizes",
    ],
)
def test_however_a_name_is_set_it_is_found(chapter, cell):
    chapter("from traintime.book import run", cell, "live = run.run('one', sizes, rounds)")
    assert all(line in part() for line in cell.splitlines() if line)


def test_the_part_that_measures_runs_with_the_profiles_values(chapter, tmp_path, monkeypatch):
    chapter("from traintime.book import run", "print('on the page')", "live = run.run('one', rounds, steps)")
    seen = []
    monkeypatch.setattr(workflow.run, "run", lambda *given: seen.append((given, os.environ[RESULTS])))
    workflow.measure_chapter("one", "mine", tmp_path / "results", seen.append)
    assert seen == [(("one", 1, 10), str(tmp_path / "results"))]
    assert RESULTS not in os.environ


def test_what_goes_wrong_while_measuring_names_the_chapter(chapter, tmp_path, monkeypatch):
    chapter("from traintime.book import run", "live = run.run('one', steps / 0)")
    with pytest.raises(RuntimeError, match=r"^one failed while measuring: ZeroDivisionError"):
        workflow.measure_chapter("one", "mine", tmp_path / "results", print)


@pytest.mark.parametrize("name", list(execute.chapters()))
def test_of_every_chapter_the_part_that_measures_is_a_few_plain_lines(name):
    """Nothing of it opens a stored measurement or draws: it is planned in no time."""
    found = workflow.measuring_part(name)
    assert "run.run(" in found or "run.run(" not in execute.chapters()[name].read_text()
    assert "plots." not in found.replace("from traintime.book.plots", "")
    assert "stored.of" not in found
