"""The appendix: the claims of the five documents with a verdict each, and files of all verdicts and predictions."""

from dataclasses import dataclass

import pandas as pd

from traintime.book import markup, original, verdicts
from traintime.book import predictions as registered
from traintime.book.verdicts import ARITHMETIC, DECIDED, FIGURES, NOT_MEASURED, Row
from traintime.store import machines

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
OURS = "our machines"
# What a claim of ours may say of a document's: it is so, it is not, it is in part.
WORDS = {
    ARITHMETIC: ("true by arithmetic", "false by arithmetic", "true in part by arithmetic"),
    FIGURES: ("agrees with {} figures", "contradicts {} figures", "agrees in part with {} figures"),
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

    @property
    def verdict(self) -> str:
        """The verdict on their sentence: by arithmetic, by published figures, and on our machines."""
        came: dict[str, set[bool]] = {}
        own, ours = "its own", set()
        for label in self.judged.split():
            for one in found(label.lstrip("!")):
                decided = came.setdefault(one.machine if one.machine in WORDS else OURS, set())
                if one.verdict in DECIDED:
                    confirmed = (one.verdict == "holds") != label.startswith("!")
                    ours |= {one.machine} - set(WORDS)
                    claim = verdicts.claims()[one.claim]
                    decided |= {True, False} if confirmed and SOME in claim.sentence else {confirmed}
                if one.machine == FIGURES and self.document not in verdicts.claims()[one.claim].source:
                    own = "published"
        parts = []
        for by in filter(came.__contains__, WORDS):
            word = WORDS[by][2 if len(came[by]) == 2 else came[by] == {False}] if came[by] else "inconclusive"
            parts.append(word.format(own))
        # One machine or several: a result about a processor is one until another agrees.
        if OURS in came and (ours or len(parts) > 1):
            parts[-1] += f" on {len(ours)} of our machines" if ours else f" on {OURS}"
        return ", ".join(parts) or NOT_MEASURED


def answers() -> list[DocumentClaim]:
    """Every claim of the documents, in their order."""
    return [DocumentClaim(**row) for row in original.read("claims").fillna("").astype(str).to_dict("records")]


def found(label: str) -> list[Row]:
    """A claim of ours on every machine that measured it, or what it needs in their place."""
    rows = verdicts.deciding(label)
    return [one for one in rows if one.machine == FIGURES] if FROM in verdicts.claims()[label].source else rows


def claims(template: str) -> str:
    """The appendix of the documents' claims: the template with a table for each document."""
    heads, parts = ["", "it claims", "verdict", "what we found"], []
    for document, title in TITLES.items():
        rows = [_row(one) for one in answers() if one.document == document]
        parts += [f"## {document}: {title}\n", f"From {{cite}}`{document.lower()}`:\n"]
        parts += [markup.table(heads, rows, right=False), ""]
    return template.replace(WITNESSES, witnesses()).replace(CLAIMS, "\n".join(parts))


def witnesses() -> str:
    """How many of our claims are decided, on how many machines or by what else."""
    rows = [verdicts.deciding(label) for label in verdicts.claims()]
    decided = [{one.machine for one in its if one.verdict in DECIDED} for its in rows]
    on = [len(by.intersection(machines.titles())) for by in decided]
    measured, judged = sum(map(bool, rows)), sum(map(bool, decided))
    return (
        f"Of our {len(on)} claims, {sum(number > 0 for number in on)} are decided on at least one machine and "
        f"{sum(number > 1 for number in on)} on two or more; trainings, which depend on no machine, count as one. "
        f"Arithmetic or published figures decide another {judged - sum(number > 0 for number in on)}. Another "
        f"{measured - judged} were measured and stay inconclusive, mostly because equal runs differ by as much as the "
        f"claim is about; not measured: {len(rows) - measured}."
    )


def _row(one: DocumentClaim) -> list[str]:
    judged, related = one.judged.replace("!", "").split(), one.related.split()
    links = ", ".join(dict.fromkeys(_link(label) for label in judged + related if label in verdicts.claims()))
    figures = ""
    for label in dict.fromkeys(judged):
        said = "; ".join(verdicts.said(label))
        figures += f"<p>{_link(label)}: <em>{verdicts.claims()[label].sentence}</em> {said}</p>"
    evidence = f"<details><summary>evidence</summary>{figures}</details>" if figures else ""
    return [one.id, one.claim, f"**{one.verdict}**", f"{one.answer}{links and f' ({links})'}{evidence}"]


def _link(label: str) -> str:
    return f'<a href="chapters/{verdicts.claims()[label].chapter}.html#claims-machine-by-machine">{label}</a>'


def every_verdict() -> str:
    """All our claims on all machines, as CSV: label, the label that it once had, sentence, source, machine, verdict,
    figure.
    """
    heads, once = ["claim", "once", "sentence", "source", "machine", "verdict", "figure"], verdicts.once()
    rows = [
        [claim.label, once.get(claim.label, ""), claim.sentence, claim.source, one.title, one.verdict, one.figure]
        for claim in verdicts.claims().values()
        for one in verdicts.every(claim.label)
    ]
    return pd.DataFrame(rows, columns=heads).to_csv(index=False)


def every_prediction() -> str:
    """Every prediction as it was first written, with its outcome, as CSV."""
    heads = ["chapter then", "number", "machine", "prediction", "dated", "how dated", "outcome", "decided by", "note"]
    rows = []
    for one in registered.read():
        decided = [
            f"{by.claim}{', which says the contrary,' * contrary} {by.verdict}: {by.figure}".rstrip(": ")
            for by, contrary in one.judged
        ]
        dated = [one.registered[:16].replace("T", " "), one.how_dated, one.outcome, "; ".join(decided)]
        title = machines.titles()[one.machine]
        rows.append([one.chapter, one.number, title, one.prediction, *dated, one.note, one.later_wording])
    return pd.DataFrame(rows, columns=[*heads, "reworded later"]).to_csv(index=False)


# Files next to the pages that claims.md links, and what writes them.
FILES = {"verdicts.csv": every_verdict, "predictions.csv": every_prediction, "closed.csv": verdicts.CLOSED.read_text}
