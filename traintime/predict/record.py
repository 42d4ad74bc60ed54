"""How often answers of each kind were right: of models that were predicted, then trained (`traintime bench-predict`).

`python -m traintime.predict.record` derives it from data/predicted (data/derived/record.csv), and how often `fit`
slept before it returned (data/derived/sleeps.csv); a test holds that the files are what they give.
"""

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from traintime import paths
from traintime.predict import durations, versions
from traintime.predict.answer import TIERS, digits
from traintime.predict.prices import FEWEST

OTHERS = "others"  # stacks that too few models were tried on: as far off as all that were
MOSTLY = 0.75  # share of trainings that took longer than predicted above which an answer says so
SLEPT_S = 0.1  # of a `fit` after its last step, more than any framework needs to come back


@dataclass(frozen=True)
class TrackRecord:
    """What came of one kind of answer: models that were predicted so and trained, how many of the trainings ended
    inside their intervals and how many took longer than predicted, the share that half of them were missed by at most,
    and the longest training, seconds.
    """

    models: int
    held: int
    longer: int
    half: float
    longest_s: float

    @property
    def sentence(self) -> str:
        """It, as a reader is told."""
        bias = f"; {self.longer} took longer than predicted" if self.longer >= MOSTLY * self.models else ""
        return (
            f"{self.held} of {self.models} models predicted this way ended inside their interval, half of them within "
            f"{self.half:.0%} of the prediction{bias}"
        )

    def beyond(self, seconds: float) -> str:
        """What is said of a training that is longer than any that was tried; "" of another."""
        if seconds <= self.longest_s:
            return ""
        return (
            f"the longest training that was predicted this way took {durations.text(self.longest_s)}; this one is "
            f"{digits(seconds / self.longest_s, 2)} times as long, and a later drift is not covered"
        )


def tried(figure: Literal["time", "memory"]) -> pd.DataFrame:
    """A row for each answer that was predicted, seen, and not withdrawn: columns machine, stack, tier, started, version
    (of the predictor), predicted with low and high, and seen: seconds of the first training, or bytes of its peak.
    """
    name, of_training = {"time": ("total", "fit_s"), "memory": ("memory", "peaks")}[figure]
    rows = []
    for path in sorted(paths.PREDICTED.glob("*.json")):
        for case in json.loads(path.read_text()):
            about = {field: case[field] for field in ("machine", "stack", "started")}
            about["version"] = case.get("predictor_version") or versions.at(case["started"])
            for tier, answer in case["predicted"].items():
                if (one := answer[name]) is not None:
                    ends = {"predicted": one["value"], "low": one["low"], "high": one["high"]}
                    rows.append(about | {"tier": tier, **ends, "seen": case[of_training][0]})
    gone = pd.read_csv(paths.PREDICTED / "withdrawn.csv").query("figure == @figure")
    found = pd.DataFrame(rows)
    keys = pd.MultiIndex.from_frame(gone[["machine", "started"]])
    return found[~pd.MultiIndex.from_frame(found[["machine", "started"]]).isin(keys)].reset_index(drop=True)


def by_stack(answers: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Tier, stack and the answers: of each of TIERS and stack with FEWEST models or more, and of all others."""
    for tier, of_tier in answers[answers["tier"].isin(TIERS)].groupby("tier"):
        stacks = [(str(stack), its) for stack, its in of_tier.groupby("stack") if len(its) >= FEWEST]
        for stack, its in [*stacks, (OTHERS, of_tier)]:
            yield str(tier), stack, its


def derive() -> pd.DataFrame:
    """A row for each tier and stack, as by_stack has them: columns tier, stack, and TrackRecord's."""
    rows = []
    for tier, stack, its in by_stack(tried("time")):
        held = int(its["seen"].between(its["low"], its["high"]).sum())
        missed = (its["predicted"] / its["seen"] - 1).abs().median()
        longer = int((its["seen"] > its["predicted"]).sum())
        about = {"tier": tier, "stack": stack, "models": len(its), "held": held, "longer": longer}
        rows.append(about | {"half": missed, "longest_s": its["seen"].max()})
    return pd.DataFrame(rows)


@functools.cache
def _stored() -> pd.DataFrame:
    return pd.read_csv(paths.DERIVED / "record.csv").set_index(["tier", "stack"])


def of(tier: str, stack: str) -> TrackRecord:
    """What came of answers of this tier on this stack, or on all where too few models were tried on it."""
    rows = _stored()
    row = rows.loc[(tier, stack if (tier, stack) in rows.index else OTHERS)]
    counts = (int(row[name]) for name in ("models", "held", "longer"))
    return TrackRecord(*counts, float(row["half"]), float(row["longest_s"]))


def derive_sleeps() -> pd.DataFrame:
    """How many of the trainings on TensorFlow whose last step was timed returned more than SLEPT_S after it, a row:
    columns slept, trainings. (What else follows a last step takes milliseconds.)
    """
    waits = []
    for path in sorted(paths.PREDICTED.glob("*.json")):
        for case in json.loads(path.read_text()):
            if case["stack"].endswith("-tensorflow") and case.get("done_s"):
                waits += [fit - done for fit, done in zip(case["fit_s"], case["done_s"], strict=True)]
    return pd.DataFrame([{"slept": sum(wait > SLEPT_S for wait in waits), "trainings": len(waits)}])


@functools.cache
def slept() -> tuple[int, int]:
    """How many trainings on TensorFlow slept before `fit` returned, and of how many."""
    row = pd.read_csv(paths.DERIVED / "sleeps.csv").iloc[0]
    return int(row["slept"]), int(row["trainings"])


if __name__ == "__main__":
    derive_sleeps().to_csv(paths.DERIVED / "sleeps.csv", index=False)
    derive().to_csv(paths.DERIVED / "record.csv", index=False, float_format="%.6g")
