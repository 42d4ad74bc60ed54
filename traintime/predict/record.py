"""How often answers of each kind were right: of models that were predicted, then trained (`traintime bench-predict`).

Three derived tables hold it, from data/predicted: record.csv, how far off the peaks of memory were (peaks.csv), and how
often `fit` slept before it returned (sleeps.csv).
"""

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from traintime import paths
from traintime.predict import durations, prices
from traintime.predict.answer import TIERS, digits
from traintime.store import derived

FEWEST = 10  # trainings that a version of the predictor has a record of
MOSTLY = 0.75  # share of trainings that took longer than predicted above which an answer says so
OTHERS = "others"  # stacks that too few models were tried on: as far off as all that were
SLEPT_S = 0.1  # of a `fit` after its last step, more than any framework needs to come back


@functools.cache
def versions() -> pd.DataFrame:
    """Every version of the predictor, the index: columns since (the first moment, UTC), knows (in words)."""
    return pd.read_csv(paths.PREDICTED / "versions.csv", index_col="version")


def version_at(started: str) -> int:
    """The version that predicted a model which was tried at this moment (UTC), before models named it themselves."""
    return int((versions()["since"] <= started).sum())


@dataclass(frozen=True)
class TrackRecord:
    """What came of one kind of answer, by a version of the predictor: models that were predicted so and trained, how
    many of the trainings ended inside their intervals and how many took longer than predicted, the share that half of
    them were missed by at most, and the longest training, seconds.
    """

    version: int
    models: int
    held: int
    longer: int
    half: float
    longest_s: float

    @property
    def sentence(self) -> str:
        """It, as a reader is told."""
        bias = f"; {self.longer} took longer than predicted" if self.longer >= MOSTLY * self.models else ""
        which = f"trainings predicted this way (by version {self.version}, its stacks together)"
        return (
            f"{self.held} of {self.models} {which} ended inside their interval, half of them within {self.half:.0%} of "
            f"the prediction{bias}"
        )

    @property
    def brief(self) -> str:
        """The same in few words."""
        return f"{self.held} of {self.models} such intervals held"

    def beyond(self, seconds: float) -> tuple[str, ...]:
        """What is said of a training that is longer than any that was tried."""
        times, longest = digits(seconds / self.longest_s, 2), durations.text(self.longest_s)
        said = f"{times} times as long as any that such intervals were tried on ({longest}): no drift is covered"
        return (said,) if seconds > self.longest_s else ()


def _cases() -> Iterator[dict[str, Any]]:
    """Every model that was predicted and trained, as it is kept (bench.Case)."""
    for path in sorted(paths.PREDICTED.glob("*.json")):
        yield from json.loads(path.read_text())


def tried(figure: Literal["time", "memory"]) -> pd.DataFrame:
    """A row for each answer of TIERS that was predicted and seen: columns machine, stack, tier, started, version (of
    the predictor), predicted with low and high, and seen: seconds of the first training, or bytes of its peak.

    Memory that is withdrawn is left out: it was not the model's. A time that is withdrawn was answered, and counts.
    """
    name, of_training = {"time": ("total", "fit_s"), "memory": ("memory", "peaks")}[figure]
    withdrawn = pd.read_csv(paths.PREDICTED / "withdrawn.csv").query("figure == 'memory'")
    gone = set(zip(withdrawn["machine"], withdrawn["started"], strict=True)) if figure == "memory" else set()
    rows = []
    for case in _cases():
        about = {field: case[field] for field in ("machine", "stack", "started")}
        about["version"] = case.get("predictor_version") or version_at(case["started"])
        for tier, answer in case["predicted"].items():
            one = answer[name]
            if tier in TIERS and one is not None and (case["machine"], case["started"]) not in gone:
                ends = {"predicted": one["value"], "low": one["low"], "high": one["high"]}
                rows.append(about | {"tier": tier, **ends, "seen": case[of_training][0]})
    return pd.DataFrame(rows)


def derive() -> pd.DataFrame:
    """A row for each of TIERS, of the newest version with FEWEST trainings or more on all stacks together: columns
    tier, and TrackRecord's in their order.
    """
    rows = []
    many = tried("time").groupby(["tier", "version"]).filter(lambda its: len(its) >= FEWEST)
    for tier, of_tier in many.groupby("tier"):
        version = of_tier["version"].max()
        its = of_tier[of_tier["version"] == version]
        held = int(its["seen"].between(its["low"], its["high"]).sum())
        missed = (its["predicted"] / its["seen"] - 1).abs().median()
        longer = int((its["seen"] > its["predicted"]).sum())
        about = {"tier": tier, "version": version, "models": len(its), "held": held, "longer": longer}
        rows.append(about | {"half": missed, "longest_s": its["seen"].max()})
    return pd.DataFrame(rows)


def of(tier: str) -> TrackRecord:
    """What came of answers of this tier."""
    return TrackRecord(**derived.read("record", "tier").to_dict("index")[tier])


def derive_peaks() -> pd.DataFrame:
    """A row for each of TIERS and each stack with enough models, and for all stacks together (OTHERS): columns tier,
    stack, error (root mean square of the logarithm of the peak seen over the one predicted), models.
    """
    rows = []
    for tier, of_tier in tried("memory").groupby("tier"):
        stacks = [(stack, its) for stack, its in of_tier.groupby("stack") if len(its) >= prices.FEWEST]
        for stack, its in [*stacks, (OTHERS, of_tier)]:
            missed = np.log(its["seen"] / its["predicted"]).to_numpy()
            rows.append({"tier": tier, "stack": stack, "error": prices.rms(missed), "models": len(its)})
    return pd.DataFrame(rows)


def peak_error(tier: str, stack: str) -> float:
    """Root mean square of the logarithm of a peak over what this tier predicts on this stack, or on the others."""
    rows = derived.read("peaks", "tier", "stack")
    return float(rows.loc[(tier, stack if (tier, stack) in rows.index else OTHERS), "error"])


def derive_sleeps() -> pd.DataFrame:
    """How many of the trainings on TensorFlow whose last step was timed returned more than SLEPT_S after it, a row:
    columns slept, trainings. (What else follows a last step takes milliseconds.)
    """
    timed = [case for case in _cases() if case["stack"].endswith("-tensorflow") and case.get("done_s")]
    waits = [fit - done for case in timed for fit, done in zip(case["fit_s"], case["done_s"], strict=True)]
    return pd.DataFrame([{"slept": sum(wait > SLEPT_S for wait in waits), "trainings": len(waits)}])


def slept() -> tuple[int, int]:
    """How many trainings on TensorFlow slept before `fit` returned, and of how many."""
    row = derived.read("sleeps").iloc[0]
    return int(row["slept"]), int(row["trainings"])
