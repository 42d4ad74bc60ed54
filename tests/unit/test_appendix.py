"""The appendices: each claim of the documents has one verdict, and every prediction stands as it was written."""

import ast
import csv
import io
import re

import pandas as pd
import pytest

from traintime import paths
from traintime.book import appendix, original, predictions, verdicts
from traintime.book.appendix import DocumentClaim
from traintime.book.verdicts import ARITHMETIC, FIGURES, NOT_MEASURED, Claim, Row

OURS = verdicts.claims()


def test_what_the_documents_claim_names_claims_of_ours():
    judged, related = (" ".join(getattr(one, kind) for one in appendix.answers()) for kind in ("judged", "related"))
    assert set(judged.replace("!", "").split()) <= set(OURS)
    assert set(related.split()) <= OURS.keys() | verdicts.closed().keys()


def test_every_claim_of_ours_that_has_a_document_stands_beside_it():
    beside = {}
    for one in appendix.answers():
        beside.setdefault(one.document, set()).update(f"{one.judged} {one.related}".replace("!", "").split())
    sources = {label: re.match(r"S\d", claim.source) for label, claim in OURS.items()}
    missing = [label for label, source in sources.items() if source and label not in beside[source[0]]]
    assert missing == []


def test_the_ids_of_a_document_are_given_once():
    rows = original.read("claims")
    assert not rows.duplicated(["document", "id"]).any()
    assert set(rows["document"]) == {f"S{number}" for number in range(5)}
    stated = original.read("s0-claims").drop_duplicates("id").set_index("id")["claim"]
    assert rows[rows["document"] == "S0"].set_index("id")["claim"].to_dict() == stated.to_dict()


@pytest.mark.parametrize(
    "document, judged, verdict",
    [
        ("S0", "m:holds/inconclusive", "confirmed on 1 of our machines"),
        ("S0", "!m:holds", "not confirmed on 1 of our machines"),
        ("S0", "m:holds m:no", "confirmed in part on 1 of our machines"),
        ("S0", "m:inconclusive", "inconclusive"),
        ("S0", "", NOT_MEASURED),
        ("S0", "some:holds", "confirmed in part on 1 of our machines"),
        ("S0", "some:no", "not confirmed on 1 of our machines"),
        # Figures and arithmetic confirm nothing on our machines.
        ("S0", "1:holds", "agrees with its own figures"),
        ("S1", "1:holds 1:no", "agrees in part with published figures"),
        ("S0", "+:holds", "true by arithmetic"),
        ("S0", "m:no +:holds", "true by arithmetic, not confirmed on 1 of our machines"),
        ("S0", "m:inconclusive 1:holds", "agrees with its own figures, inconclusive on our machines"),
    ],
)
def test_a_verdict_is_on_the_documents_own_sentence(document, judged, verdict, monkeypatch):
    """By every claim of ours that decides it, wherever it was judged; one with "!" says the contrary, and one of some
    stack says a part.
    """
    by = {"1": FIGURES, "+": ARITHMETIC, "m": "machine B", "some": "machine B"}
    sentences = dict.fromkeys(by, "") | {"some": "It is so on at least one stack."}
    claims = {where: Claim(where, "", said, "ours, from S0's tables", "") for where, said in sentences.items()}
    came = {"no": "does not hold"}

    def found(label):
        where, said = label.split(":")
        return [Row(where, by[where], came.get(each, each), "") for each in said.split("/")]

    monkeypatch.setattr(appendix, "found", found)
    monkeypatch.setattr(verdicts, "claims", lambda: claims)
    assert DocumentClaim(document, "C1", "", judged, "", "").verdict == verdict


def test_a_claim_of_a_documents_tables_is_judged_on_those_whoever_measured_the_same():
    assert [one.machine for one in appendix.found("the-question.2")] == [FIGURES]
    assert FIGURES not in [one.machine for one in appendix.found("sentence-length.1")]


def test_each_document_has_a_table_with_a_verdict_for_each_claim():
    text = appendix.claims(f"# Claims\n\n{appendix.CLAIMS}\n")
    assert appendix.CLAIMS not in text
    assert re.findall(r"^## (S\d)", text, re.M) == list(appendix.TITLES)
    assert text.count("<tr>") == len(appendix.answers()) + len(appendix.TITLES)
    assert '<a href="chapters/13-memory.html#claims-machine-by-machine">memory.1</a>' in text


def test_it_says_how_many_claims_two_machines_decide():
    said = appendix.claims(f"{appendix.WITNESSES} {appendix.CLAIMS}")
    every, once, twice = (int(number) for number in re.findall(r"\d+", said.partition(".")[0]))
    assert every == len(OURS) > once > twice > 30


def test_no_answer_to_a_document_has_a_measured_number_in_it():
    """Those come from the claims that decide; sizes of what was measured may stand there."""
    sizes = r"280,000|1,024|b?float16|Keras [23]|TensorFlow 1\.15|than 1\.1;|batch 1(00)?\b|(16 to|of) (256|16)|20\d\d"
    sizes += r"|(of|at) 16|chapter 5|bias starts at 0|is below 1\b"
    assert [one.answer for one in appendix.answers() if re.search(r"\d", re.sub(sizes, "", one.answer))] == []


def test_every_verdict_can_be_saved():
    rows = list(csv.DictReader(io.StringIO(appendix.every_verdict())))
    assert {row["claim"] for row in rows} == set(OURS)
    needs_none = [row["machine"] for row in rows if row["claim"] in ("numpy-batches.1", "memory.1")]
    assert needs_none == [FIGURES, ARITHMETIC]
    assert {row["verdict"] for row in rows} >= {"holds", "does not hold"}


def test_every_prediction_can_be_saved_as_it_was_written():
    rows = list(csv.DictReader(io.StringIO(appendix.every_prediction())))
    assert [row["prediction"] for row in rows] == [one.prediction for one in predictions.read()]
    assert {"written after its first runs", "by its own word"} < {row["how dated"] for row in rows}


def test_a_fault_that_is_listed_is_one_that_a_test_tries_and_held():
    """`make faults` tries them all and writes the file; one that did not hold is mended, not listed."""
    tried = set()
    for path in (paths.ROOT / "tests").rglob("test_*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.fault":
                tried.add(tuple(map(ast.literal_eval, call.args)))
    rows = pd.read_csv(paths.DATA / "faults.csv")
    assert set(rows[["fault", "holds"]].itertuples(index=False, name=None)) <= tried
    assert (rows["failed"] == 0).all()
