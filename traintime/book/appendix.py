"""The appendices: the claims of the five documents with a verdict each, every prediction, as first written, and what
was tried against measuring and building.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from traintime import paths
from traintime.book import execute, markup, original, stored, verdicts
from traintime.book import predictions as registered
from traintime.book.chapters import of_label, question
from traintime.book.claims import NOT_MEASURED, Judged, by_machine, judge

# The documents' titles, in English (data/original/README.md).
TITLES = {
    "S0": "Estimating the training time of a deep model",
    "S1": "What decides training speed, and how to raise it",
    "S2": "Predicting the CPU and GPU memory a DNN needs for training",
    "S3": "How does training time differ between batch sizes?",
    "S4": "Why is a Keras LSTM three times faster on the CPU than on the GPU?",
}
CLAIMS = "<!-- every claim -->"  # in claims.md: where the tables go
WITNESSES = "<!-- decided -->"  # and where it says on how many machines
PREDICTIONS = "<!-- every prediction -->"  # in predictions.md: where they go
FAULTS = "<!-- every fault -->"  # in faults.md: where the table goes
CSV = "verdicts.csv"  # what claims.md links to
ARITHMETIC = "the documents' own figures"


@dataclass(frozen=True)
class DocumentClaim:
    """A row of data/original/claims.csv: a claim of a document, and our answer.

    judged: labels of our claims that decide it, one with "!" where ours says the contrary; related: others worth
    reading; answer: a sentence, without a measured number.
    """

    document: str
    id: str
    claim: str
    judged: str
    related: str
    answer: str

    def outcomes(self) -> Iterator[tuple[str, bool | None]]:
        """By each deciding claim: a machine that measured it, and whether it was confirmed; None: inconclusive."""
        for label in self.judged.split():
            for one in found(label.lstrip("!")):
                undecided = one.verdict not in ("holds", "does not hold")
                yield one.machine, None if undecided else (one.verdict == "holds") != label.startswith("!")

    @property
    def verdict(self) -> str:
        """The verdict on their sentence."""
        by_machine = list(self.outcomes())
        came = {confirmed for _, confirmed in by_machine}
        if {True, False} <= came:
            return "confirmed in part"
        if decided := came - {None}:
            if {machine for machine, _ in by_machine} == {original.FIGURES}:
                return "agrees with its own figures" if decided == {True} else "contradicts its own figures"
            return "confirmed" if decided == {True} else "not confirmed"
        return "inconclusive" if came else NOT_MEASURED


def answers() -> list[DocumentClaim]:
    """Every claim of the documents, in their order."""
    return [DocumentClaim(**row) for row in original.read("claims").fillna("").astype(str).to_dict("records")]


def found(label: str) -> list[Judged]:
    """A claim of ours on every machine that measured it; where none did, on the documents' own figures."""
    claim = verdicts.every_claim()[label]
    each = [verdicts.on(claim, machine) for machine in stored.named()]
    measured = [one for one in each if one.verdict != NOT_MEASURED]
    figures = [judge(claim, question.document())]
    return measured or [one for one in figures if one.verdict != NOT_MEASURED]


def claims(template: str) -> str:
    """The appendix of the documents' claims: the template with a table for each document."""
    parts = []
    for document, title in TITLES.items():
        rows = [_row(one) for one in answers() if one.document == document]
        heads = ["", "it claims", "verdict", "what we found"]
        parts += [
            f"## {document}: {title}\n",
            f"From {{cite}}`{document.lower()}`:\n",
            markup.table(heads, rows, right=False),
            "",
        ]
    return template.replace(WITNESSES, witnesses()).replace(CLAIMS, "\n".join(parts))


def witnesses() -> str:
    """How many of our claims are decided, and on how many machines; one figure on several is one machine's."""
    on = []
    for claim in verdicts.every_claim().values():
        each = [verdicts.on(claim, machine) for machine in stored.named()]
        on.append(len({one.figure for one in each if one.verdict in ("holds", "does not hold")}))
    return (
        f"Of our {len(on)} claims, {sum(number > 0 for number in on)} are decided on at least one machine and "
        f"{sum(number > 1 for number in on)} on two or more."
    )


def _row(one: DocumentClaim) -> list[str]:
    judged, related = one.judged.replace("!", "").split(), one.related.split()
    links = ", ".join(dict.fromkeys(map(_link, judged + related)))
    figures = "".join(f"<p>{_link(label)}: {'; '.join(_figures(label))}</p>" for label in dict.fromkeys(judged))
    evidence = f"<details><summary>evidence</summary>{figures}</details>" if figures else ""
    return [one.id, one.claim, f"**{one.verdict}**", f"{one.answer} ({links}){evidence}"]


def _figures(label: str) -> list[str]:
    names = {original.FIGURES: ARITHMETIC}
    return by_machine((names.get(one.machine, one.machine), one.verdict, one.figure) for one in found(label))


def _link(label: str) -> str:
    return f'<a href="chapters/{of_label(label)}.html#claims-machine-by-machine">{label}</a>'


def every_verdict() -> str:
    """All our claims on all machines, as CSV: label, sentence, source, machine, verdict, figure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["claim", "sentence", "source", "machine", "verdict", "figure"])
    for claim in verdicts.every_claim().values():
        for one in (verdicts.on(claim, machine) for machine in stored.named()):
            writer.writerow([claim.label, claim.sentence, claim.source, one.machine, one.verdict, one.figure])
    return text.getvalue()


def predictions(template: str) -> str:
    """The appendix of predictions: the template with a table of outcomes and a folded table for each chapter."""
    every = registered.read()
    counts = pd.crosstab([one.outcome for one in every], [one.how_dated for one in every], margins=True)
    counts = counts.rename(index={"All": "all"}, columns={"All": "all"})
    heads = ["outcome", *counts.columns]
    parts = [markup.table(heads, [[name, *map(str, row)] for name, row in counts.T.items()])]
    for chapter in execute.chapters():
        rows = [_prediction(one) for one in every if one.chapter == chapter[:2]]
        if rows:
            table = markup.table(["", "prediction, as first written", "dated", "outcome"], rows, right=False)
            summary = f"{len(rows)} prediction{'s' * (len(rows) != 1)}"
            parts += [f"\n## Chapter {int(chapter[:2])}\n", markup.fold(summary, table)]
    return template.replace(PREDICTIONS, "\n".join(parts))


def _prediction(one: registered.Prediction) -> list[str]:
    decided = [
        f"{claim.claim.label}{', which says the contrary,' * contrary} {claim.verdict}: {claim.figure}".rstrip(": ")
        for claim, contrary in one.judged
    ]
    said = ["; ".join(decided), one.note]
    if one.later_wording:
        said.append(f"Reworded later: *{one.later_wording.split(' [')[0]}*")
    outcome = "<br>".join([f"**{one.outcome}** on {stored.of(one.machine).title}", *filter(None, said)])
    return [one.number, one.prediction, f"{one.registered[:16].replace('T', ' ')}, {one.how_dated}", outcome]


def faults(template: str) -> str:
    """The appendix of faults: the template with a row for each of data/faults.csv, which the tests of them write."""
    found = pd.read_csv(paths.DATA / "faults.csv")
    heads = ["", "what happens", "what should come of it", "tried", "did", "last tried"]
    held, numbers = found["tried"] - found["failed"], (found.index + 1).map(str)
    rows = zip(
        numbers, found["fault"], found["holds"], found["tried"].map(str), held.map(str), found["on"], strict=True
    )
    return template.replace(FAULTS, markup.table(heads, rows, right=False))


# What writes each of them into its page.
PAGES = {"claims.md": claims, "predictions.md": predictions, "faults.md": faults}
