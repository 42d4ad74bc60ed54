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
from traintime.book.chapters import of_label
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
OURS = "our machines"
# What a claim of ours may say of a document's: it is so, it is not, it is in part.
WORDS = {
    original.ARITHMETIC: ("true by arithmetic", "false by arithmetic", "true in part by arithmetic"),
    original.FIGURES: ("agrees with {} figures", "contradicts {} figures", "agrees in part with {} figures"),
    OURS: ("confirmed", "not confirmed", "confirmed in part"),
}
FROM = "ours, from S"  # the source of a claim on a document's figures: whoever measured the same says nothing of those
SOME = "on at least one stack"  # what a claim that says so confirms, it confirms in part


@dataclass(frozen=True)
class DocumentClaim:
    """A row of data/original/claims.csv: a claim of a document, and our answer.

    judged: labels of our claims that decide it, one with "!" where ours says the contrary; none where we tested
    something else than it says. related: others worth reading; answer: sentences, without a measured number.
    """

    document: str
    id: str
    claim: str
    judged: str
    related: str
    answer: str

    def outcomes(self) -> Iterator[tuple[Judged, bool | None]]:
        """By each deciding claim and all that judged it: whether theirs was confirmed; None: inconclusive."""
        for label in self.judged.split():
            for one in found(label.lstrip("!")):
                undecided = one.verdict not in ("holds", "does not hold")
                confirmed = None if undecided else (one.verdict == "holds") != label.startswith("!")
                yield one, confirmed
                if confirmed and SOME in one.claim.sentence:
                    yield one, False

    @property
    def verdict(self) -> str:
        """The verdict on their sentence: by arithmetic, by published figures, and on our machines."""
        came: dict[str, set[bool | None]] = {}
        own = "its own"
        for one, confirmed in self.outcomes():
            came.setdefault(one.machine if one.machine in WORDS else OURS, set()).add(confirmed)
            if one.machine == original.FIGURES and self.document not in one.claim.source:
                own = "published"
        parts = []
        for by in filter(came.__contains__, WORDS):
            decided = came[by] - {None}
            word = WORDS[by][2 if len(decided) == 2 else decided == {False}] if decided else "inconclusive"
            parts.append(word.format(own))
        return f"{', '.join(parts)} on {OURS}" if len(parts) > 1 else "".join(parts) or NOT_MEASURED


def answers() -> list[DocumentClaim]:
    """Every claim of the documents, in their order."""
    return [DocumentClaim(**row) for row in original.read("claims").fillna("").astype(str).to_dict("records")]


def found(label: str) -> list[Judged]:
    """A claim of ours on every machine that measured it, or what it needs in their place (verdicts.everywhere)."""
    claim = verdicts.every_claim()[label]
    each = [judge(claim, original.document())] if FROM in claim.source else verdicts.everywhere(claim)
    return [one for one in each if one.verdict != NOT_MEASURED]


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
    return by_machine((one.machine, one.verdict, one.figure) for one in found(label))


def _link(label: str) -> str:
    return f'<a href="chapters/{of_label(label)}.html#claims-machine-by-machine">{label}</a>'


def every_verdict() -> str:
    """All our claims on all machines, as CSV: label, sentence, source, machine, verdict, figure."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["claim", "sentence", "source", "machine", "verdict", "figure"])
    for claim in verdicts.every_claim().values():
        for one in verdicts.everywhere(claim):
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
