"""The appendix of all claims: what the executed chapters found, sorted by the source that claims it."""

import json
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from traintime.book import claims, markup, original

# The documents' titles, in English (data/original/README.md).
TITLES = {
    "S0": "Estimating the training time of a deep model",
    "S1": "What decides training speed, and how to raise it",
    "S2": "Predicting the CPU and GPU memory a DNN needs for training",
    "S3": "How does training time differ between batch sizes?",
    "S4": "Why is a Keras LSTM three times faster on the CPU than on the GPU?",
}
PLACE = "<!-- every claim -->"  # in claims.md: where the tables go
NOT_YET = "not measured yet"
ARITHMETIC = "no machine, the documents' own figures"


def found(executed: Iterable[Path]) -> dict[str, dict]:
    """Every claim that an executed chapter shows: label -> claims.as_data's entry, with its `chapter`."""
    entries = {}
    for path in executed:
        for cell in json.loads(path.read_text())["cells"]:
            for output in cell.get("outputs", []):
                for entry in output.get("metadata", {}).get(claims.KEPT, []):
                    entries[entry["label"]] = entry | {"chapter": path.stem}
    return dict(sorted(entries.items()))


def page(template: str, executed: Iterable[Path]) -> str:
    """The appendix: the template with a table a document and one of our own claims.

    Raises ValueError where data/original/claims.csv names a claim that no chapter shows.
    """
    entries, rows = found(executed), original.read("claims").fillna("")
    labels = {label for judged in rows["judged"] for label in judged.split()}
    if unknown := sorted(labels - set(entries)):
        raise ValueError(f"data/original/claims.csv names {', '.join(unknown)}, which no chapter shows")
    parts = []
    for document, of_it in rows.groupby("document", sort=True):
        heading = f"## {document}: {TITLES[document]}\n"
        parts += [heading, f"What the document claims {{cite}}`{document.lower()}`:\n", _documents(of_it, entries)]
    ours = {label: entry for label, entry in entries.items() if label not in labels}
    parts += ["## What we claim beside them\n", markup.fold(f"All {len(ours)} of them", _ours(ours))]
    return template.replace(PLACE, "\n".join(parts))


def _documents(rows: pd.DataFrame, entries: dict[str, dict]) -> str:
    lines = []
    for row in rows.itertuples():
        judged = [entries[label] for label in row.judged.split()]
        ours = "<br>".join(f"{_link(entry)} {entry['sentence']}" for entry in judged)
        lines.append([row.id, row.claim, ours or "", "<br>".join(map(_verdicts, judged)) or NOT_YET])
    heads = ["", "the document", "what we asked", "measured"]
    return markup.table(heads, lines, right=False) + "\n"


def _ours(entries: dict[str, dict]) -> str:
    lines = [[_link(entry), entry["sentence"], _verdicts(entry)] for entry in entries.values()]
    return markup.table(["", "claim", "measured"], lines, right=False)


def _link(entry: dict) -> str:
    return f'<a href="chapters/{entry["chapter"]}.html#claims-machine-by-machine">{entry["label"]}</a>'


def _verdicts(entry: dict) -> str:
    """One line per deciding machine: its verdict and the figure that decides; last what the sources' figures say."""
    decided = [
        (ARITHMETIC if one["machine"] == original.FIGURES else one["machine"], one["verdict"], one["figure"])
        for one in entry["machines"]
        if one["verdict"] != claims.NOT_MEASURED
    ]
    lines = [f"{entry['label']}, {line}" for line in claims.by_machine(decided)]
    return "<br>".join(lines) or f"{entry['label']}: {NOT_YET}"
