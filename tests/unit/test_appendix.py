"""The appendix of all claims: every claim of the documents has its place, and what a chapter found is on it."""

import json
import re

import pytest

from traintime.book import appendix, chapters, claims, original, page, stored
from traintime.book.claims import Claim, Finding
from traintime.book.stored import Measurements

OURS = {claim.label: claim for chapter in chapters.MODULES for claim in chapters.of(chapter)}


def entry(label, verdict="holds", shown="1.3 (1.2 to 1.4)"):
    machine = {"machine": "machine A", "verdict": verdict, "figure": shown}
    return {"label": label, "sentence": f"Sentence of {label}.", "source": "ours", "machines": [machine]}


@pytest.fixture
def executed(tmp_path):
    """An executed chapter for each of ours, with a claim's entry as `page.claims` leaves it."""

    def write(labels, **changes):
        paths = []
        for chapter in chapters.MODULES:
            entries = [entry(label, **changes) for label in labels if label.startswith(chapter[:2])]
            cells = [
                {"outputs": [{"data": {"text/html": "..."}, "metadata": {claims.KEPT: entries}}]},
                {"source": "text"},
            ]
            path = tmp_path / f"{chapter}.ipynb"
            path.write_text(json.dumps({"cells": cells}))
            paths.append(path)
        return paths

    return write


def test_what_the_documents_claim_names_claims_of_ours():
    named = " ".join(original.read("claims")["judged"].fillna("")).split()
    assert [label for label in named if label not in OURS] == []


def test_every_claim_of_ours_that_has_a_document_stands_beside_it():
    rows = original.read("claims").fillna("")
    beside = {document: set(" ".join(of_it["judged"]).split()) for document, of_it in rows.groupby("document")}
    missing = [
        label
        for label, claim in OURS.items()
        if (source := re.match(r"S\d", claim.source)) and label not in beside[source[0]]
    ]
    # A claim of arithmetic with a document's own figures is no claim of the document's.
    assert missing == ["10.1"]


def test_the_ids_of_a_document_are_given_once():
    rows = original.read("claims")
    assert not rows.duplicated(["document", "id"]).any()
    assert set(rows["document"]) == {f"S{number}" for number in range(5)}
    stated = original.read("s0-claims").drop_duplicates("id").set_index("id")["claim"]
    assert rows[rows["document"] == "S0"].set_index("id")["claim"].to_dict() == stated.to_dict()


def test_each_document_claim_is_judged_by_one_of_ours():
    rows = original.read("claims").fillna("")
    assert rows[rows["judged"] == ""].empty


def test_each_document_has_a_table_and_what_nobody_judged_says_so(executed, monkeypatch):
    rows = original.read("claims")
    rows.loc[0, "judged"] = None
    monkeypatch.setattr(original, "read", lambda name: rows)
    text = appendix.page(f"# All claims\n\n{appendix.PLACE}\n", executed(OURS))
    assert re.findall(r"^## (.*)$", text, re.M) == [
        *(f"{document}: {title}" for document, title in appendix.TITLES.items()),
        "What we claim beside them",
    ]
    assert appendix.PLACE not in text
    assert "not measured yet" in text
    assert '<a href="chapters/11-memory.html#claims-machine-by-machine">11.1</a> Sentence of 11.1.' in text
    assert "machine A: <strong>holds</strong>, 1.3 (1.2 to 1.4)" in text
    assert text.count("Sentence of 02.1.") == 1


def test_a_machine_that_decides_nothing_is_left_out(executed):
    text = appendix.page(appendix.PLACE, executed(OURS, verdict="not measured", shown=""))
    assert "machine A" not in text
    assert "11.1: not measured yet" in text


def test_what_the_documents_own_figures_say_stands_beside_the_machines_and_is_named(executed):
    paths = executed(OURS)
    path = next(path for path in paths if path.stem.startswith("09"))
    notebook = json.loads(path.read_text())
    for each in notebook["cells"][0]["outputs"][0]["metadata"][claims.KEPT]:
        if each["label"] == "09.5":
            each["machines"][0]["verdict"] = "not measured"
        figures = {"machine": original.FIGURES, "verdict": "does not hold", "figure": "0.3"}
        each["machines"] = [figures, *each["machines"]]
    path.write_text(json.dumps(notebook))
    text = appendix.page(appendix.PLACE, paths)
    assert "09.5, no machine, the documents' own figures: <strong>does not hold</strong>, 0.3</td>" in text
    assert "09.8, machine A: <strong>holds</strong>" in text and "09.8, no machine, the documents'" in text


def test_a_claim_that_no_chapter_shows_is_an_error_that_names_it(executed):
    with pytest.raises(ValueError, match=r"claims\.csv names 11\.1, which no chapter shows"):
        appendix.page(appendix.PLACE, executed([label for label in OURS if label != "11.1"]))


def test_a_chapters_table_carries_its_claims_without_this_runs_column(made_up, monkeypatch):
    book = made_up(("numpy", {}, 0.1))
    monkeypatch.setattr(stored, "of", lambda name="": book)
    monkeypatch.setattr(stored, "named", lambda: {"made-up": {"title": "machine A"}})
    monkeypatch.setattr(stored, "listed", lambda: ["made-up"])
    claim = Claim("99.1", "Two *is* two.", "S1", lambda measurements: Finding(True, "2"))
    figures = Measurements(book.rows, original.FIGURES)
    (kept,) = page.claims([claim], figures)._repr_mimebundle_()[1][claims.KEPT]
    assert [one["machine"] for one in kept["machines"]] == ["machine A", original.FIGURES]
    shown = page.claims([claim], made_up(("numpy", {}, 0.1), machine="this run"))
    bundle, metadata = shown._repr_mimebundle_()
    assert "this run" in bundle["text/html"]
    (kept,) = metadata[claims.KEPT]
    assert kept == {
        "label": "99.1",
        "sentence": "Two *is* two.",
        "source": "S1",
        "machines": [{"machine": "machine A", "verdict": "holds", "figure": "2"}],
    }
