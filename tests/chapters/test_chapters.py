"""The chapters as the workflow ran them: every one to its end, with its parameters, without outputs in the source."""

import json
import re

import papermill
import pytest
import yaml

from traintime import paths
from traintime.book import appendix, chapters, execute, glue, markup, original, prose, verdicts
from traintime.book.claims import NOT_MEASURED
from traintime.measuring import sweep

pytestmark = pytest.mark.chapters
CHAPTERS = list(execute.chapters())


def test_the_sources_hold_no_outputs():
    assert prose.notebooks_with_outputs(list(execute.chapters().values())) == []


def test_every_notebook_is_in_the_contents():
    assert {path.stem for path in paths.CHAPTERS.glob("*.ipynb")} == set(CHAPTERS)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapters_title_has_its_number(chapter):
    first = json.loads((paths.CHAPTERS / f"{chapter}.ipynb").read_text())["cells"][0]["source"][0]
    assert first.startswith(f"# {int(chapter[:2])}. ")


def sources(chapter, kind):
    """Tags and source of the chapter's cells of a kind."""
    cells = json.loads((paths.CHAPTERS / f"{chapter}.ipynb").read_text())["cells"]
    return [
        (set(cell["metadata"].get("tags", [])), "".join(cell["source"])) for cell in cells if cell["cell_type"] == kind
    ]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_code_fits_a_page_and_little_of_it_is_hidden(chapter):
    """What a reader may open on purpose, an exercise's solution, is not counted."""
    code = [(tags, source.splitlines()) for tags, source in sources(chapter, "code") if "hide-cell" not in tags]
    assert max(len(line) for _, lines in code for line in lines) <= 79
    hidden = sum(len(lines) for tags, lines in code if tags & {"hide-input", "remove-input", "remove-cell"})
    assert hidden <= sum(len(lines) for _, lines in code) / 5


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_is_read_in_about_ten_minutes(chapter):
    """Its words without code, up to the exercises."""
    text = "\n".join(source for _, source in sources(chapter, "markdown")).split("## Exercises")[0]
    words = len(re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE).split())
    assert words <= 1700


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_has_its_boxes_and_exercises_with_solutions(chapter):
    text = "\n".join(source for _, source in sources(chapter, "markdown"))
    assert text.count(":::{admonition} Take away") == 1
    assert sum("hide-cell" in tags for tags, _ in sources(chapter, "code")) == 3
    assert sum("page.predictions(" in source for _, source in sources(chapter, "code")) == 1


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_each_parameter_has_a_comment_with_its_unit(chapter):
    cells = json.loads(execute.chapters()[chapter].read_text())["cells"]
    (cell,) = [cell for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    for line in "".join(cell["source"]).splitlines():
        assert "  # " in line and ", " in line.split("  # ")[1], line


@pytest.mark.parametrize("profile", ["quick", "full"])
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_profiles_name_only_declared_parameters(chapter, profile):
    assert set(execute.parameters(profile, chapter)) <= set(
        papermill.inspect_notebook(str(execute.chapters()[chapter]))
    )


@pytest.mark.parametrize("profile", sorted(path.stem for path in paths.PROFILES.glob("*.yaml")))
def test_the_sweeps_of_every_profile_are_well_formed(profile):
    assert sweep.plans(profile) or "sweeps" not in yaml.safe_load((paths.PROFILES / f"{profile}.yaml").read_text())


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_chapter_ran_to_its_end_under_quick(chapter, executed):
    notebook = json.loads((executed / f"{chapter}.ipynb").read_text())
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in code)
    outputs = [output for cell in code for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert not [output["text"] for output in outputs if output.get("name") == "stderr"], "a warning on the page"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_run_leaves_no_path_of_this_machine_in_the_page(chapter, executed):
    lines = (executed / f"{chapter}.ipynb").read_text().splitlines()
    assert [line for line in lines if str(paths.ROOT) in line] == []


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_number_that_the_prose_names_was_glued(chapter, executed):
    path = executed / f"{chapter}.ipynb"
    text = "".join("".join(cell["source"]) for cell in json.loads(path.read_text())["cells"])
    named = {part.split("`")[0] for part in text.split("{glue:text}`")[1:]}
    assert named <= set(glue.glued(path))
    assert not [name for name in named if "nan" in glue.glued(path)[name]]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_measured_number_is_typed_into_the_prose(chapter, executed):
    assert prose.typed_numbers(executed / f"{chapter}.ipynb") == []


def test_the_vocabulary_chapter_measured_on_this_machine(executed):
    results = executed.parent / "results" / "03-vocabulary"
    measured = json.loads(next(results.glob("**/numpy/*v5000-*-adam.json")).read_text())
    assert measured["invocations"][0]["status"] == "ok"


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_chapter_asserts_what_a_machine_measured(chapter):
    cells = json.loads(execute.chapters()[chapter].read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert not [source for source in code if any(line.startswith("assert") for line in source.splitlines())]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_each_claim_stands_on_the_page_with_a_verdict_for_each_machine(chapter, executed):
    text = (executed / f"{chapter}.ipynb").read_text()
    claims = list(chapters.of(chapter))
    assert claims
    sentences = {claim.label: json.dumps(markup.inline(claim.sentence), ensure_ascii=False)[1:-1] for claim in claims}
    assert [label for label, sentence in sentences.items() if sentence not in text] == []


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_claim_comes_out_as_the_prose_says_on_the_machine_that_it_shows(chapter):
    """Where the data cannot tell or do not hold, the sentence beside the claim must say so, and `says` with it."""
    claims = chapters.of(chapter)
    found = {claim.label: verdicts.on(claim, claim.on().machine).verdict for claim in claims}
    assert found == {claim.label: claim.says for claim in claims}


def test_every_claim_of_a_document_has_a_verdict_unless_it_needs_a_gpu(executed):
    entries = appendix.found(executed.glob("*.ipynb"))

    def decided(label: str) -> bool:
        return any(one["verdict"] != NOT_MEASURED for one in entries[label]["machines"])

    rows = original.read("claims").fillna("").itertuples()
    undecided = [f"{row.document} {row.id}" for row in rows if not any(map(decided, row.judged.split()))]
    assert undecided == ["S0 C6"]  # a pool of a GPU's memory


def test_a_failing_chapter_leaves_no_page(tmp_path, monkeypatch):
    source = tmp_path / "01-the-question.ipynb"
    notebook = json.loads(execute.chapters()["01-the-question"].read_text())
    code = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code" and not cell["metadata"].get("tags"))
    code["source"] = "raise ValueError('on purpose')"
    source.write_text(json.dumps(notebook))
    monkeypatch.setattr(execute, "chapters", lambda: {"01-the-question": source})
    monkeypatch.setattr(execute, "parameters", lambda profile, chapter: {})
    output = tmp_path / "executed" / source.name
    with pytest.raises(RuntimeError, match="on purpose"):
        execute.run_chapter("01-the-question", "quick", output, tmp_path / "results")
    assert not output.exists()
