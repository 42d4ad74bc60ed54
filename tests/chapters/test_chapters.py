"""The chapters as the workflow ran them: every one to its end, with its parameters, without outputs in the source."""

import ast
import json
import re

import nbformat
import pytest

from traintime import paths
from traintime.book import appendix, contents, execute, markup, numbers, verdicts
from traintime.book.verdicts import NOT_MEASURED

CHAPTERS = list(contents.chapters())


def test_every_notebook_is_in_the_contents():
    assert {path.stem for path in paths.CHAPTERS.glob("*.ipynb")} == set(CHAPTERS)


def sources(chapter, kind):
    """Tags and source of the chapter's cells of a kind."""
    cells = json.loads(contents.chapters()[chapter].read_text())["cells"]
    chosen = [cell for cell in cells if cell["cell_type"] == kind]
    return [(set(cell["metadata"].get("tags", [])), "".join(cell["source"])) for cell in chosen]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_code_fits_a_page_and_only_what_a_reader_learns_from_is_shown(chapter):
    """A cell that calls the book's own functions and nothing else draws or tabulates: the page shows what it makes,
    and folds the call.
    """
    code = [(tags, source) for tags, source in sources(chapter, "code") if "hide-cell" not in tags]
    assert max(len(line) for _, source in code for line in source.splitlines()) <= 79
    shown = [source for tags, source in code if not tags & {"remove-input", "remove-cell", "hide-input"}]
    plumbing = [source for source in shown if all(map(_is_plumbing, ast.parse(source).body))]
    assert plumbing == []


def _is_plumbing(statement):
    ours = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    return ours and ast.unparse(statement.value.func).split(".")[0] in ("page", "plots")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_other_chapter_runs_beside_a_cell_that_times_something(chapter):
    timing = re.compile(r"\btime_step\(|\bperf_counter\(|\bsubprocess\.|\btraintime\.estimate\(")
    for tags, source in sources(chapter, "code"):
        if timing.search(source) and not all(isinstance(each, ast.FunctionDef) for each in ast.parse(source).body):
            assert tags >= {"here", "alone"}, source


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_is_read_in_about_ten_minutes(chapter):
    """Its words without code, up to the exercises."""
    text = "\n".join(source for _, source in sources(chapter, "markdown")).split("## Exercises")[0]
    text = numbers.EVAL.sub("1", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE))
    text = re.sub(r"\$\$.*?\$\$|\$[^$\n]*\$", "1", text, flags=re.DOTALL)  # a formula counts as one word
    words = sum(bool(re.search(r"\w", word)) for word in text.split())
    assert words <= 1600


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_has_its_parts(chapter):
    """A title with its number, a box, exercises with solutions, claims, and a comment with a unit at each parameter;
    and it asserts nothing that a machine measured.
    """
    text, code = "\n".join(source for _, source in sources(chapter, "markdown")), sources(chapter, "code")
    assert text.startswith(f"# {int(chapter[:2])}. ")
    assert text.count(":::{admonition} Take away") == 1
    assert sum("hide-cell" in tags for tags, _ in code) + text.count(":::{dropdown} ") >= 3
    assert sum(f'page.evidence("{chapter[3:]}")' in source for _, source in code) == 1
    (parameters,) = [source for tags, source in code if "parameters" in tags]
    for line in parameters.splitlines():
        assert "  # " in line and ", " in line.split("  # ")[1], line
    assert [source for _, source in code if re.search(r"^assert\b", source, flags=re.MULTILINE)] == []


@pytest.mark.parametrize("profile", ["quick", "full"])
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_profiles_name_only_declared_parameters(chapter, profile):
    execute.parameters(profile, chapter)  # refuses another name


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_chapter_ran_to_its_end_and_left_no_path_of_this_machine(chapter, executed):
    text = (executed / f"{chapter}.ipynb").read_text()
    assert [line for line in text.splitlines() if str(paths.ROOT) in line] == []
    notebook = json.loads(text)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code)
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert not [output["text"] for output in outputs if output.get("name") == "stderr"], "a warning on the page"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_number_of_the_text_was_measured(chapter, executed):
    """The stored machine that a page shows has measured all that the page says of it."""
    ran = nbformat.read(executed / f"{chapter}.ipynb", as_version=4)
    given = numbers.given(ran)
    assert not [name for name, text in given.items() if numbers.NOT_MEASURED in text]
    source = nbformat.read(contents.chapters()[chapter], as_version=4)
    assert set(numbers.named(source)) == set(given)
    assert not numbers.named(numbers.page(source, ran)), "each is filled in"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_each_claim_stands_on_the_page_with_a_verdict_for_each_machine(chapter, executed):
    text = (executed / f"{chapter}.ipynb").read_text()
    claims = [claim for claim in verdicts.claims().values() if claim.chapter == chapter]
    assert claims
    sentences = {claim.label: json.dumps(markup.inline(claim.sentence), ensure_ascii=False)[1:-1] for claim in claims}
    assert [label for label, sentence in sentences.items() if sentence not in text] == []


def test_every_claim_of_a_document_has_a_verdict_unless_we_tested_something_else_than_it_says():
    undecided = {f"{one.document} {one.id}" for one in appendix.answers() if one.verdict == NOT_MEASURED}
    needs_a_gpu = {"S0 C6", "S1 16", "S1 17", "S1 18", "S2 2"}
    # A batch of millions, the latency of memory, inference, and an experiment that does not say of what it is.
    assert undecided == needs_a_gpu | {"S1 3", "S1 5", "S1 15", "S2 4"}


def test_a_failing_chapter_leaves_no_page(tmp_path, monkeypatch):
    source = tmp_path / "01-the-question.ipynb"
    notebook = json.loads(contents.chapters()["01-the-question"].read_text())
    code = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code" and not cell["metadata"].get("tags"))
    code["source"] = "raise ValueError('on purpose')"
    source.write_text(json.dumps(notebook))
    monkeypatch.setattr(execute, "chapters", lambda: {"01-the-question": source})
    monkeypatch.setattr(execute, "parameters", lambda profile, chapter: {})
    output = tmp_path / "executed" / source.name
    with pytest.raises(RuntimeError, match="on purpose"):
        execute.run_chapter("01-the-question", "quick", output)
    assert not output.exists()
