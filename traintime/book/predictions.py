"""Every prediction as it was first written, and what came of it: judged by claims, on the machine it was made for."""

import csv
import functools
from dataclasses import dataclass

from traintime import paths
from traintime.book import verdicts
from traintime.book.verdicts import DECIDED, NOT_MEASURED, Row


@dataclass(frozen=True)
class Prediction:
    """A row of data/predictions.csv.

    chapter: the number that its chapter had then; registered: when it was committed; dated_by: what that rests on, the
    "commit" in this history, or its "own word" where that commit is not in it; sweep: what was to decide it;
    measured_from: when that sweep's first invocation started, "" where it has not been read off; claims: labels of the
    claims that decide, one with "!" where its claim says the contrary; once: the same by their old labels; note: what
    the claims do not tell, without figures.
    """

    machine: str
    chapter: str
    number: str
    prediction: str
    registered: str
    commit: str
    dated_by: str
    sweep: str
    measured_from: str
    later_wording: str
    claims: str
    once: str
    note: str

    @property
    def how_dated(self) -> str:
        """How its date is known: registered is what was committed before its first run."""
        if self.measured_from and self.measured_from[:16] < self.registered[:16]:
            return "written after its first runs"
        return "registered" if self.dated_by == "commit" else "by its own word"

    @functools.cached_property
    def judged(self) -> list[tuple[Row, bool]]:
        """Each deciding claim on the prediction's machine, with whether the claim says the contrary."""
        return [(_on(each.lstrip("!"), self.machine), each[0] == "!") for each in self.claims.split()]

    @property
    def outcome(self) -> str:
        """ "held", "failed", "held in part", "inconclusive" or "not judged yet"."""
        came = {(one.verdict == "holds") != contrary for one, contrary in self.judged if one.verdict in DECIDED}
        if len(came) == 2:
            return "held in part"
        undecided = {one.verdict for one, _ in self.judged} - set(DECIDED)
        if undecided and came != {False}:
            return "inconclusive" if "inconclusive" in undecided else "not measured"
        return {True: "held", False: "failed"}[came.pop()] if came else "not judged yet"


def _on(label: str, machine: str) -> Row:
    nothing = Row(label, machine, NOT_MEASURED, "")
    return next((row for row in verdicts.deciding(label) if row.machine == machine), nothing)


def read(chapter: str | None = None) -> list[Prediction]:
    """All predictions, or those of a chapter ("06"), in the order of the file."""
    with (paths.DATA / "predictions.csv").open(newline="") as file:
        rows = [Prediction(**row) for row in csv.DictReader(file)]
    return [row for row in rows if chapter in (None, row.chapter)]


# Outcomes as the end of a sentence: "that prediction is inconclusive".
TOLD = {
    "inconclusive": "is inconclusive",
    "not measured": "has not been measured",
    "not judged yet": "has not been judged",
}


def told(chapter: str, number: str) -> str:
    """What came of one prediction of a chapter ("06", "2"), as the end of a sentence about it: "held".

    Of a number that several machines have the first. Raises KeyError for one that nobody wrote.
    """
    for one in read(chapter):
        if one.number == number:
            return TOLD.get(one.outcome, one.outcome)
    raise KeyError(number)
