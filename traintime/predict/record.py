"""What came of models that were predicted and then trained (`traintime bench-predict`), and what answers take from it.

Derived tables hold it, from data/predicted: how far off peaks of memory (peaks.csv) and times (times.csv) were, how
long `fit` slept before it returned (sleeps.csv), and how often intervals held, as they were given (record.csv). From
version CORRECTED on times and sleeps correct an answer. They are set on the newest version before that.
"""

import functools
import itertools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtri

from traintime import paths
from traintime.explain.least_squares import Array
from traintime.explain.statistics import Interval
from traintime.predict import costs, durations
from traintime.predict.answer import LEVEL, SURE, TIERS, around, digits
from traintime.store import derived

CORRECTED = 11  # the first version whose stored answers are corrected
FEWEST = 10  # trainings that a version of the predictor has a record of
OTHERS = "others"  # stacks that too few models were tried on: as far off as all that were
SLEEP = "sleep after epochs"  # the part of a training
ONCE = ("first step", "first epoch", "saving")  # what an epoch does not repeat
SLEPT_S = 0.1  # of a `fit` after its last step, more than any framework needs to come back
Errors = Sequence[tuple[float, float]]  # as `around` takes them
Z = float(ndtri(0.5 + LEVEL / 2))  # standard deviations to an interval's end


@functools.cache
def versions() -> pd.DataFrame:
    """Every version of the predictor, the index: columns since (the first moment, UTC), knows (in words)."""
    return pd.read_csv(paths.PREDICTED / "versions.csv", index_col="version")


def version(case: Mapping[str, Any]) -> int:
    """The version that predicted a model that was tried: its start tells, before models named it themselves."""
    return case.get("predictor_version") or int((versions()["since"] <= case["started"]).sum())


class TrackRecord(SimpleNamespace):
    """What came of one kind of answer on a stack: a row of record.csv (`derive`)."""

    @property
    def sentence(self) -> str:
        """It, as a reader is told."""
        short = f"; {self.shorter} were shorter than their probe" if self.shorter else ""
        return (
            f"{self.held} of {self.models} trainings predicted this way ({self.on}; version {self.version}) "
            f"ended inside their interval, with a mean error of {self.error:.0%}{short}"
        )

    @property
    def brief(self) -> str:
        """The same in few words."""
        where = "such intervals held" if self.asked in self.on else "held on other stacks"
        return f"{self.held} of {self.models} {where}"

    def beyond(self, seconds: float) -> tuple[str, ...]:
        """What is said of a training that is longer than any that was tried."""
        times, longest = digits(seconds / self.longest_s, 2), durations.text(self.longest_s)
        said = f"{times} times as long as any that such intervals were tried on ({longest}): no drift is covered"
        return (said,) if seconds > self.longest_s else ()


def tried(figure: Literal["time", "memory"], cases: Iterable[dict[str, Any]] = ()) -> pd.DataFrame:
    """A row for each answer of TIERS that was predicted and seen. cases: as bench.run gives them, by default all that
    are kept. Columns machine, stack, kind, started, version (of the predictor), tier, predicted with low and high, and
    seen: seconds of the first training, or bytes of its peak; held: whether the interval holds it; answer, spent_s and
    case, of which the others are. Memory that is withdrawn, which was not the model's, is left out; a time that is was
    answered, and counts.
    """
    name, of_training = {"time": ("total", "fit_s"), "memory": ("memory", "peaks")}[figure]
    gone, rows = set(), []
    if figure == "memory":
        withdrawn = pd.read_csv(paths.PREDICTED / "withdrawn.csv").query("figure == 'memory'")
        gone = set(zip(withdrawn["machine"], withdrawn["started"], strict=True))
    kept = (json.loads(path.read_text()) for path in sorted(paths.PREDICTED.glob("*.json")))
    for case in cases or itertools.chain.from_iterable(kept):
        about = {field: case[field] for field in ("machine", "stack", "kind", "started")}
        about |= {"version": version(case), "case": case}
        for tier, answer in case["predicted"].items():
            one, spent_s = answer[name], (case.get("spent_s") or {}).get(tier, math.nan)
            if tier in TIERS and one is not None and (case["machine"], case["started"]) not in gone:
                ends = {"predicted": one["value"], "low": one["low"], "high": one["high"]}
                rows.append(about | {"tier": tier, **ends, "seen": case[of_training][0]})
                rows[-1] |= {"answer": answer, "spent_s": spent_s}
    rows = pd.DataFrame(rows)
    return rows.assign(held=rows["seen"].between(rows["low"], rows["high"]))


def newest(rows: pd.DataFrame) -> pd.DataFrame:
    """Those of the newest version with FEWEST trainings or more on all stacks together."""
    many = rows.groupby("version").filter(lambda its: len(its) >= FEWEST)
    return many[many["version"] == many["version"].max()]


def _by_stack(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Those of each stack with enough models, and of all stacks together (OTHERS)."""
    return [*((stack, its) for stack, its in rows.groupby("stack") if len(its) >= costs.FEWEST), (OTHERS, rows)]


def _of(table: str, tier: str, stack: str) -> dict[str, Any]:
    """The row of a derived table of a tier and a stack, or of the others."""
    rows = {row["stack"]: row for row in derived.read(table).query("tier == @tier").to_dict("records")}
    return rows.get(stack, rows[OTHERS])


def derive_peaks() -> pd.DataFrame:
    """By TIERS and stack (_by_stack): columns tier, stack, error (root mean square of the logarithm of the peak seen
    over the one predicted), models.
    """
    rows = []
    for tier, of_tier in tried("memory").groupby("tier"):
        for stack, its in _by_stack(of_tier):
            off = np.log(its["seen"] / its["predicted"]).to_numpy()
            rows.append({"tier": tier, "stack": stack, "error": costs.rms(off), "models": len(its)})
    return pd.DataFrame(rows)


def peak_error(tier: str, stack: str) -> float:
    """Root mean square of the logarithm of a peak over what this tier predicts on this stack, or on the others."""
    return float(_of("peaks", tier, stack)["error"])


def derive_times() -> pd.DataFrame:
    """The same of times, by the formula and the probe of the newest version before CORRECTED: columns tier, stack,
    version, factor (geometric mean of true over predicted, 1 of the probe), error (`spread` of what is left, until the
    last step of what was probed, after which `fit` may sleep), models.
    """
    rows, every = [], tried("time").query("version < @CORRECTED")
    for tier, of_training in (("formula", "fit_s"), ("probed", "done_s")):
        for stack, its in _by_stack(newest(every[every["tier"] == tier])):
            seen = [(case.get(of_training) or case["fit_s"])[0] for case in its["case"]]
            off = np.log(seen / its["answer"].map(lambda answer: sum(_awake(answer).values())))
            mean = off.mean() if tier == "formula" else 0.0
            about = {"tier": tier, "stack": stack, "version": its["version"].max(), "factor": np.exp(mean)}
            rows.append(about | {"error": spread(off - mean), "models": len(its)})
    return pd.DataFrame(rows)


def spread(off: ArrayLike) -> float:
    """The standard deviation of logarithms of which an interval of LEVEL would hold that share of further ones."""
    return float(np.quantile(np.abs(off), LEVEL, method="weibull")) / Z


def missed(tier: Literal["formula", "probed"], stack: str) -> tuple[float, float]:
    """A tier's factor of time on a stack, 1 of a probe, and its error beyond that, that of training again at least."""
    row = _of("times", tier, stack)
    return float(row["factor"]), max(float(row["error"]), costs.repeat(stack) if tier == "probed" else 0.0)


def tf_data_end(seconds: float) -> float:
    """Seconds after which Keras 3's `fit` over arrays returns on TensorFlow, given what its steps take together.

    The input pipeline may end only when the thread that tunes it wakes: after 10 ms, then after pauses that double, up
    to a minute each; by a race, as cancel() notifies it before it sets the flag that it reads. Source: TensorFlow 2.21,
    core/framework/model.h, kOptimizationPeriodMinMs and -MaxMs; model.cc, OptimizeLoop; cancellation.cc.
    """
    pause, end = 0.01, 0.0
    while end < seconds:
        end += pause
        pause = min(2 * pause, 60.0)
    return end


def pauses(epoch: Interval) -> Array:
    """Seconds from the end of an epoch until the thread wakes, for ends from the interval's lower to its upper one."""
    return np.array([tf_data_end(end) - end for end in np.geomspace(epoch.low, epoch.high, 101)])


def derive_sleeps() -> pd.DataFrame:
    """What short trainings on TensorFlow slept, of the newest version before CORRECTED whose last steps were timed, a
    row: columns version, slept (how many returned more than SLEPT_S after it), trainings, slept_s (of all together),
    pause_s (the mean of `pauses` where the probe puts their ends, likewise).
    """
    its = tried("time").query("tier == 'probed' and version < @CORRECTED and stack.str.endswith('-tensorflow')")
    its = newest(its[[bool(case.get("done_s")) and not case.get("epochs_s") for case in its["case"]]])
    waits, pause_s = [], 0.0
    for stack, answer, case in zip(its["stack"], its["answer"], its["case"], strict=True):
        waits += [fit - done for fit, done in zip(case["fit_s"], case["done_s"], strict=True)]
        epoch = training(_awake(answer), answer["epochs"], _errors(answer, stack))[1]
        pause_s += len(case["fit_s"]) * float(pauses(epoch).mean())
    about = {"version": its["version"].max(), "slept": sum(wait > SLEPT_S for wait in waits), "trainings": len(waits)}
    return pd.DataFrame([about | {"slept_s": sum(waits), "pause_s": pause_s}])


def slept() -> dict[str, Any]:
    """The row of sleeps.csv."""
    return derived.read("sleeps").to_dict("records")[0]


def training(
    parts: Mapping[str, float], epochs: int, errors: Errors, sleeps: bool = False, level: float = LEVEL
) -> tuple[dict[str, float], Interval, Interval, float]:
    """Parts of a training with the sleep, an epoch and the whole with their intervals, and the longest pause after an
    epoch, 0 where that is a trifle; all in seconds. errors: of the logarithm of all times; sleeps: whether `fit` may.
    The sleep that is expected is in the estimate, the rest in the upper end alone.
    """
    total_s, once_s = sum(parts.values()), sum(parts.get(name, 0.0) for name in ONCE)
    epoch, total = (around(each, *errors, level=level) for each in ((total_s - once_s) / epochs, total_s))
    if not sleeps or (met := pauses(epoch)).max() < 0.01 * epoch.value:
        return dict(parts), epoch, total, 0.0
    share, later_s = slept()["slept_s"] / slept()["pause_s"], float(met[-1])
    sleep_s = share * float(pauses(around(epoch.value, *errors)).mean())
    epoch = Interval(epoch.value + sleep_s, epoch.low, epoch.high + later_s)
    total = Interval(total_s + epochs * sleep_s, total.low, total.high + epochs * later_s)
    return {**parts, SLEEP: epochs * sleep_s}, epoch, total, float(met.max())


def _awake(answer: Mapping[str, Any]) -> dict[str, float]:
    """The parts of a stored answer without the sleep."""
    return {name: seconds for name, seconds in answer["parts"].items() if name != SLEEP}


def _errors(answer: Mapping[str, Any], stack: str) -> Errors:
    """Errors of a stored probe: what probes missed, for that of training again, and the rest of its step's interval."""
    stored = math.log(answer["step"]["high"] / answer["step"]["value"]) / Z
    rest = math.sqrt(max(stored**2 - costs.repeat(stack) ** 2, 0.0))
    return (missed("probed", stack)[1], SURE), (rest, SURE)


def derive() -> pd.DataFrame:
    """A row for each of TIERS and stack (_by_stack), of the newest version with FEWEST trainings or more, against the
    first training of each model. Columns tier, stack, version, models; on: the stacks of these; held: trainings inside
    their intervals; error: mean of |predicted / true - 1|; width: upper over lower end, the median; shorter: trainings
    shorter than their probe; others, others_held: other versions' models, and those inside; longest_s: the longest.
    """
    rows = []
    for tier, its in tried("time").groupby("tier"):
        for stack, models in _by_stack(newest(its)):
            version = models["version"].max()
            every = its[(its["stack"] == stack) | (stack == OTHERS)]
            others = every[every["version"] != version]
            on = ", ".join(sorted(models["stack"].unique()))
            about = {"tier": tier, "stack": stack, "on": on, "version": version} | _came(models)
            about |= {"longest_s": every["seen"].max(), "shorter": (models["seen"] < models["spent_s"]).sum()}
            rows.append(about | {"others": len(others), "others_held": others["held"].sum()})
    return pd.DataFrame(rows)


def _came(its: pd.DataFrame) -> dict[str, float]:
    error, width = (its["predicted"] / its["seen"] - 1).abs().mean(), (its["high"] / its["low"]).median()
    return {"models": len(its), "held": its["held"].sum(), "error": error, "width": width}


def summary(cases: list[dict[str, Any]]) -> pd.DataFrame:
    """A row for each stack and tier of these models: columns stack, tier, models, held, error, width, as `derive`."""
    by = tried("time", cases).groupby(["stack", "tier"])
    return pd.DataFrame([{"stack": stack, "tier": tier} | _came(its) for (stack, tier), its in by])


def of(tier: str, stack: str = OTHERS) -> TrackRecord:
    """What came of answers of this tier on a stack, or on all of them where it has too few."""
    return TrackRecord(**_of("record", tier, stack), asked=stack)
