"""Chapter 13, faster: one change at a time on three models, each limited by something else, and what each costs."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from traintime.book import stored
from traintime.book.stored import ANY, Measurements
from traintime.errors import unknown
from traintime.explain import formula
from traintime.explain.statistics import Interval, difference
from traintime.learning import results
from traintime.learning.trial import Trial
from traintime.measuring import stacks
from traintime.point import make_point
from traintime.workloads.base import FLOAT

STACKS = ["2026-tensorflow", "2026-jax", "2026-torch"]
# What limits a step of each: products, the update of a table's rows, positions that wait for one another.
MODELS: dict[str, dict[str, Any]] = {
    "arithmetic": {"workload": "blocks", "structure": "plain", "side": 32, "width": 32, "depth": 8, "batch": 32},
    "table": {"workload": "rnn", "vocabulary": 80_000, "batch": 100},
    "loop": {"workload": "lstm", "batch": 32, "length": 50},
}
LARGER = 4  # times the batch
EVERY = 10  # steps between two saves
TOGETHER = 16  # steps that the framework is handed at once
WAIT_S = 0.002  # a fetched sample's (the worker's feeds)
SEEDS = 20  # of a training, fewer than which give no verdict
ROWS = {"vocabulary": 200_000}  # chapter 16's table
WHEN_READ = f"each row when it is read, {ROWS['vocabulary']:,} rows (chapter 16)"
HALVES = ("mixed-bfloat16", "mixed-float16")
DRAWS = 1000


@dataclass(frozen=True)
class Change:
    """One thing that is said to make a training faster.

    name: as a reader sees it; field: what it changes of a point, from the usual value to another; None for the usual
    one stands for the model's own.
    """

    name: str
    field: str
    other: Any
    usual: Any = None


CHANGES = [
    Change("bfloat16", "precision", "mixed-bfloat16", "float32"),
    Change("float16", "precision", "mixed-float16", "float32"),
    Change("tcmalloc", "allocator", "tcmalloc", "glibc"),
    Change(f"batch × {LARGER}", "batch", LARGER),
    Change("SGD", "optimizer", "sgd", "adam"),
    Change("table frozen", "frozen", True, False),
    Change("shared weights", "shared", True, False),
    Change("one operation", "algorithm", "native", "default"),
    Change("without XLA", "jit", "off", "auto"),
    Change("without oneDNN", "onednn", "off", "auto"),
]


def sides(model: str, change: Change) -> list[Any]:
    """The two values of the field that the change changes: the model's usual one, and the other."""
    if change.field == "batch":
        return [MODELS[model]["batch"], MODELS[model]["batch"] * change.other]
    return [change.usual, change.other]


def asked(model: str, names: list[str], on: list[str]) -> dict[str, dict[str, Any]]:
    """The sweeps of a run that tries these changes on a model, on these stacks: both sides of each, interleaved.

    Raises InputError for an unknown model or change.
    """
    if model not in MODELS:
        raise unknown("model", model, list(MODELS))
    known = {change.name: change for change in CHANGES}
    for name in names:
        if name not in known:
            raise unknown("change", name, list(known))
    usual = MODELS[model] | {"stacks": on}
    return {name: usual | {known[name].field: sides(model, known[name])} for name in names}


def invocations(book: Measurements, model: str, **wanted: Any) -> pd.DataFrame:
    """The invocations of a model with these changes."""
    return book.invocations(**MODELS[model] | wanted)


@functools.cache
def changes(book: Measurements) -> pd.DataFrame:
    """How many times as fast a sample is trained with each change, alone: a row a model, change and stack.

    Of Keras 3 alone, and only where both sides were measured in the same rounds. Columns: model, change, stack, ratio
    with low and high, number, faster, reason (Measurements.ratios), memory (the peak's ratio), disturbed (whether a
    side has disturbed runs alone).
    """
    rows = []
    for model in MODELS:
        for change in CHANGES:
            usual, other = sides(model, change)
            if change.field not in make_point(**MODELS[model]).fields:
                continue
            found = invocations(book, model, **{change.field: [usual, other]})
            found = found[[stacks.get(name).api == "keras3" for name in found["stack"]]]
            if found.empty:
                continue
            if change.field == "batch":  # by the sample: a step of more of them may take as much longer
                found = found.assign(median_s=found["median_s"] * usual / found["batch"])
            table = book.ratios(found, [(usual, other)], of=change.field, against="stack")
            for row in table[table["sweep"] != ""].to_dict("records"):
                of_row = found[(found["stack"] == row["stack"]) & (found["sweep"] == row["sweep"])]
                both = [of_row[of_row[change.field] == value] for value in (usual, other)]
                rows.append(row | {"model": model, "change": change.name} | beside(*both))
    columns = ["model", "change", "stack", "ratio", "low", "high", "number", "faster", "reason", "memory", "disturbed"]
    table = pd.DataFrame(rows, columns=columns)
    order = {name: place for place, name in enumerate([*MODELS, *(each.name for each in CHANGES), *STACKS])}
    keys = ["model", "change", "stack"]
    return table.sort_values(keys, key=lambda of: of.map(order), kind="stable", ignore_index=True)


def beside(usual: pd.DataFrame, other: pd.DataFrame) -> dict[str, Any]:
    """Beside the times of two sides: memory, the ratio of their peaks; whether one has disturbed runs alone."""
    # A disturbed run counts only where its point has no other (explain.points.counted).
    disturbed = any(bool(side["disturbed"].astype(bool).all()) for side in (usual, other))
    return {"memory": other["peak_bytes"].max() / usual["peak_bytes"].max(), "disturbed": disturbed}


def ran(book: Measurements) -> pd.DataFrame:
    """Of `changes` those that no other chapter's sweeps measure: what a machine has where it ran this chapter's."""
    table = changes(book)
    return table[table["change"] == "bfloat16"]


def gain(table: pd.DataFrame, model: str, change: str, stack: str) -> Interval:
    """Times as fast, of a row of `changes`. Raises KeyError where there is none."""
    rows = table[(table["model"] == model) & (table["change"] == change) & (table["stack"] == stack)]
    if rows.empty:
        raise KeyError(f"{change} of {model} on {stack}")
    return stored.interval(rows.iloc[0])


@functools.cache
def peaks(book: Measurements) -> pd.DataFrame:
    """Peak memory in float32 and in half precision: model, stack, precision, full and half (bytes), share."""
    rows = []
    for model in MODELS:
        found = book.points(**MODELS[model], precision=ANY).dropna(subset="peak_bytes")
        for stack, of_stack in found.groupby("stack", sort=False):
            by = of_stack.set_index("precision")["peak_bytes"]
            if "float32" not in by.index:
                continue
            for precision in by.index.drop("float32"):
                full, half = float(by["float32"]), float(by[precision])
                row = {"model": model, "stack": stack, "precision": precision, "full": full, "half": half}
                rows.append(row | {"share": half / full})
    return pd.DataFrame(rows, columns=["model", "stack", "precision", "full", "half", "share"])


def in_one_sweep(found: pd.DataFrame, *wanted: dict[str, Any]) -> list[pd.DataFrame]:
    """The invocations of each of several sides, in the rounds of one sweep that measured all of them.

    found: invocations of one stack; wanted: the fields of each side (None: a field without a value). Of several
    sweeps the one with the most such rounds. Raises KeyError where no sweep has them all.
    """
    sides = []
    for fields in wanted:
        side = found
        for name, value in fields.items():
            side = side[side[name].isna() if value is None else side[name] == value]
        sides.append(side)
    rounds = [set(zip(side["sweep"], side["round"], strict=True)) for side in sides]
    common = set.intersection(*rounds)
    if not common:
        raise KeyError(str(wanted))
    sweeps = [sweep for sweep, _ in common]
    most = max(sorted(set(sweeps)), key=sweeps.count)
    chosen = {number for sweep, number in common if sweep == most}
    return [side[(side["sweep"] == most) & side["round"].isin(chosen)] for side in sides]


class Drawn:
    """Quantities worked out from the times of several sides of one stack, each with its interval.

    sides: as `in_one_sweep` gives them; value: the column that is meant (a mean step by default), s.
    """

    def __init__(self, book: Measurements, sides: list[pd.DataFrame], value: str = "step_s") -> None:
        values = [side[value].to_numpy(float) for side in sides]
        values = [each[each > 0] for each in values]
        if min(map(len, values)) == 0:
            raise KeyError("not measured")
        self.seconds = np.array([each.mean() for each in values])
        self.rounds = min(map(len, values))
        redraw = formula.repeated(
            self.seconds, np.array([len(each) for each in values]), book.spread(sides[0]["stack"].iloc[0], value)
        )
        random = np.random.default_rng(0)
        self.draws = np.array([redraw(random) for _ in range(DRAWS)])

    def interval(self, of: Callable[[Any], Any]) -> Interval:
        """A quantity: `of` gets seconds with the sides as their first axis, and gives one number for each draw."""
        return formula.interval(pd.Series(of(self.draws.T)), float(of(self.seconds)))


# Batches that are made while the training runs

FEEDS = ["ready"] + [f"{kind}{how}" for kind in ("decoded", "fetched") for how in ("", "-ahead", "-parallel")]


@functools.cache
def feeds(book: Measurements) -> pd.DataFrame:
    """A step with each feed: feed, step_s with low_s and high_s, waited_s (of it, for the batch), own_cores.

    own_cores: processors that the process kept busy, on average. Empty unless all were measured in one sweep.
    """
    found = book.invocations(**MODELS["arithmetic"], stack="2026-tensorflow", feed=ANY)
    columns = ["feed", "step_s", "low_s", "high_s", "waited_s", "own_cores"]
    try:
        sides = in_one_sweep(found, *({"feed": feed} for feed in FEEDS))
    except KeyError:
        return pd.DataFrame(columns=columns)
    drawn, rows = Drawn(book, sides), []
    for place, (feed, side) in enumerate(zip(FEEDS, sides, strict=True)):
        step = drawn.interval(lambda t, n=place: t[n])
        row = {"feed": feed, "step_s": step.value, "low_s": step.low, "high_s": step.high}
        rows.append(row | side[["waited_s", "own_cores"]].mean().to_dict())
    return pd.DataFrame(rows, columns=columns)


def fed(table: pd.DataFrame, feed: str) -> pd.Series:
    """A feed's row of `feeds`. Raises KeyError where it was not measured."""
    return table.set_index("feed").loc[feed]


# Saving


@functools.cache
def saves(book: Measurements) -> dict[str, dict[str, Interval]]:
    """What one save takes from the training, s: stack -> "in turn" and "aside"."""
    found = book.invocations(**MODELS["table"], save_every=[None, EVERY], save_aside=ANY)
    sides: list[dict[str, Any]] = [
        {"save_every": None},
        {"save_every": EVERY, "save_aside": False},
        {"save_every": EVERY, "save_aside": True},
    ]
    costs = {}
    for stack in stored.stack_order(found["stack"]):
        try:
            drawn = Drawn(book, in_one_sweep(found[found["stack"] == stack], *sides))
        except KeyError:
            continue
        costs[stack] = {
            "in turn": drawn.interval(lambda t: EVERY * (t[1] - t[0])),
            "aside": drawn.interval(lambda t: EVERY * (t[2] - t[0])),
            "share": drawn.interval(lambda t: (t[2] - t[0]) / (t[1] - t[0])),
            "step": drawn.interval(lambda t: t[0]),
        }
    return costs


SELDOM = 100  # steps between two saves, as the document has it
SMALL = {"vocabulary": 5000, "length": 10}  # of which two hundred steps can be waited for


@functools.cache
def seldom(book: Measurements) -> dict[str, dict[str, Interval]]:
    """Saved after each step and after every hundredth: stack -> "never" (s a step), and ratios of mean steps.

    "each" and "hundredth": times as long as never; "gain": of the hundredth over each, times as fast; "aside": of each
    aside over each in turn, times as fast.
    """
    found, costs = book.invocations(**SMALL, save_every=[None, 1, SELDOM], save_aside=ANY), {}
    sides: list[dict[str, Any]] = [
        {"save_every": None},
        {"save_every": 1, "save_aside": False},
        {"save_every": SELDOM},
        {"save_every": 1, "save_aside": True},
    ]
    for stack in stored.stack_order(found["stack"]):
        try:
            drawn = Drawn(book, in_one_sweep(found[found["stack"] == stack], *sides))
        except KeyError:
            continue
        costs[stack] = {
            "never": drawn.interval(lambda t: t[0]),
            "each": drawn.interval(lambda t: t[1] / t[0]),
            "hundredth": drawn.interval(lambda t: t[2] / t[0]),
            "gain": drawn.interval(lambda t: t[1] / t[2]),
            "aside": drawn.interval(lambda t: t[1] / t[3]),
        }
    return costs


# Several processes


@dataclass(frozen=True)
class Shared:
    """One model trained by two processes of one thread each.

    one, half, two: s a step of one process with both threads, of one thread with half of the batch, and of two such
    processes; gain: one / two; efficiency: half / two; exchange: two - half, s; gradient_bytes: what one exchanges.
    """

    one: Interval
    half: Interval
    two: Interval
    gain: Interval
    efficiency: Interval
    exchange: Interval
    gradient_bytes: int


@functools.cache
def shared(book: Measurements) -> dict[str, Shared]:
    """The models that were trained by two processes."""
    found = {}
    for model in ("arithmetic", "table"):
        fields = MODELS[model]
        batch = fields["batch"]
        wanted = {"stack": "2026-torch", "batch": [batch, batch // 2], "replicas": ANY, "threads": [None, 1]}
        ran = book.invocations(**fields | wanted)
        sides = [
            {"batch": batch, "replicas": 1, "threads_asked": None},
            {"batch": batch // 2, "replicas": 1, "threads_asked": 1},
            {"batch": batch, "replicas": 2, "threads_asked": None},
        ]
        try:
            drawn = Drawn(book, in_one_sweep(ran, *sides))
        except KeyError:
            continue
        found[model] = Shared(
            *(drawn.interval(lambda t, n=n: t[n]) for n in range(3)),
            gain=drawn.interval(lambda t: t[0] / t[2]),
            efficiency=drawn.interval(lambda t: t[1] / t[2]),
            exchange=drawn.interval(lambda t: t[2] - t[1]),
            gradient_bytes=FLOAT * make_point(**fields).work.trained,
        )
    return found


def ring(gradient_bytes: float, bytes_per_s: float, processes: int) -> float:
    """Seconds in which `processes` exchange gradients: each sends and receives 2 (n - 1) / n of their bytes.

    That is a ring's (Patarasuk & Yuan 2009), the least that an exchange can do with.
    """
    return 2 * (processes - 1) / processes * gradient_bytes / bytes_per_s


def scaled(one_s: float, gradient_bytes: float, bytes_per_s: float, processes: int) -> float:
    """Seconds of a step of `processes` machines that each train on a batch of their own, one_s alone."""
    return one_s + ring(gradient_bytes, bytes_per_s, processes)


@dataclass(frozen=True)
class Exchange:
    """What two processes take longer than one of them alone, beside what a ring's exchange of the gradients would.

    seen: s; at_memory: over the memory's measured rate, s (NaN where nobody measured it); as_largest: at the rate that
    the exchange of the model with the most gradients comes to, s (of that model itself, what was seen).
    """

    seen: Interval
    at_memory: float
    as_largest: Interval


def exchanges(book: Measurements) -> dict[str, Exchange]:
    """The exchange of each model that was trained by two processes."""
    both = shared(book)
    if not both:
        return {}
    try:
        rate = book.rates["bandwidth_bytes_per_s"]
    except KeyError:
        rate = np.nan
    most = max(both.values(), key=lambda each: each.gradient_bytes)
    return {
        model: Exchange(
            each.exchange,
            ring(each.gradient_bytes, rate, 2),
            most.exchange.scaled(each.gradient_bytes / most.gradient_bytes),
        )
        for model, each in both.items()
    }


# Two settings of one field, each pair in the same rounds


@dataclass(frozen=True)
class Pair:
    """Two ways to run one thing. name: of the second one; fields: of both; value: the seconds that are meant."""

    name: str
    fields: dict[str, Any]
    usual: dict[str, Any]
    other: dict[str, Any]
    value: str = "step_s"


FIT = {"vocabulary": 1000, "length": 10, "loop": "fit"}  # a step of milliseconds
AT_ONCE = Pair(
    f"{TOGETHER} steps at once", FIT, {"steps_per_execution": 1}, {"steps_per_execution": TOGETHER}, "fit_step_s"
)
AS_READ = Pair(WHEN_READ, ROWS, {"optimizer": "adam"}, {"optimizer": "adam-deferred"})


def paired(book: Measurements, pair: Pair) -> pd.DataFrame:
    """How many times as fast the second way is: a row a stack that ran both in the same rounds.

    Columns: change, stack, ratio with low and high, memory, disturbed (as in `changes`).
    """
    lists = {name: [pair.usual[name], pair.other[name]] for name in pair.usual}
    found, rows = book.invocations(**pair.fields | lists), []
    for stack in stored.stack_order(found["stack"]):
        try:
            sides = in_one_sweep(found[found["stack"] == stack], pair.usual, pair.other)
            ratio = Drawn(book, sides, pair.value).interval(lambda t: t[0] / t[1])
        except KeyError:
            continue
        row = {"change": pair.name, "stack": stack, "ratio": ratio.value, "low": ratio.low, "high": ratio.high}
        rows.append(row | beside(*sides))
    return pd.DataFrame(rows, columns=["change", "stack", "ratio", "low", "high", "memory", "disturbed"])


def together(book: Measurements) -> dict[str, Interval]:
    """Times as fast a step of `fit` is where the framework is handed sixteen at once: stack -> gain."""
    return {row["stack"]: stored.interval(row) for _, row in paired(book, AT_ONCE).iterrows()}


# The learning rate


def rates(found: pd.DataFrame | None = None) -> pd.DataFrame:
    """Epochs to one training loss at each of Adam's rates: that which the smallest rate has reached at its end.

    found: a row a seed (results.table). One row a rate: rate, epochs (mean over the seeds that get there), low, high
    (their range), reached (share of the seeds), seeds, accuracy (at the end, mean), loss (the one to be reached).
    """
    found = results.table() if found is None else found
    usual = {name: field.default for name, field in Trial.model_fields.items() if name != "rate"}
    for name, value in usual.items():
        found = found[found[name].isna() if value is None else found[name] == value]
    columns = ["rate", "epochs", "low", "high", "reached", "seeds", "accuracy", "loss"]
    if found["rate"].nunique() < 2:
        return pd.DataFrame(columns=columns)
    curves = {rate: np.array(group["training_loss"].tolist()) for rate, group in found.groupby("rate")}
    loss = float(curves[min(curves)][:, -1].mean())
    rows = []
    for rate, losses in curves.items():
        there = losses <= loss
        epochs = there.argmax(axis=1)[there.any(axis=1)] + 1
        row = {"rate": rate, "reached": there.any(axis=1).mean(), "seeds": len(losses), "loss": loss}
        row |= {"accuracy": found[found["rate"] == rate]["accuracy"].mean()}
        ends = {"epochs": epochs.mean(), "low": epochs.min(), "high": epochs.max()} if len(epochs) else {}
        rows.append(row | ends)
    return pd.DataFrame(rows, columns=columns).sort_values("rate", ignore_index=True)


# Half of the bits, and what is learned


def halves(found: pd.DataFrame | None = None) -> pd.DataFrame:
    """What half precision does to the accuracy: a row a precision that was trained more than once.

    found: a row a seed (results.table). Columns: precision, accuracy, difference with low and high (to float32's,
    shares), full (float32's accuracy), seeds (of the smaller side).
    """
    found = results.table() if found is None else found
    rows, full = [], stored.chosen(found, **results.settings("mnist1d"))["accuracy"]
    for precision in HALVES:
        half = stored.chosen(found, **results.settings("mnist1d", precision=precision))["accuracy"]
        if min(len(half), len(full)) > 1:
            one = difference(half, full)
            row = {"precision": precision, "accuracy": half.mean(), "difference": one.value}
            row |= {"low": one.low, "high": one.high, "full": full.mean()}
            rows.append(row | {"seeds": min(len(half), len(full))})
    return pd.DataFrame(rows, columns=["precision", "accuracy", "difference", "low", "high", "full", "seeds"])


# What a change does to what is learned: trials without it, with it (the best of several), and what they were

_DIGITS, _SENTENCES = {"task": "mnist1d"}, {"task": "moods", "units": 32, "epochs": 5}
LEARNED: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str]] = {
    "bfloat16": (_DIGITS, [{"precision": "mixed-bfloat16"}], "digits"),
    "float16": (_DIGITS, [{"precision": "mixed-float16"}], "digits"),
    f"batch × {LARGER}": (_DIGITS, [{"batch": 512}], "digits, batch 512 for 100, as many epochs"),
    "SGD": (_SENTENCES, [{"optimizer": "sgd", "rate": rate} for rate in (0.1, 1.0)], "sentences, the better rate"),
    WHEN_READ: (_SENTENCES, [{"table": "deferred"}], "sentences"),
}
OTHERWISE = (*LEARNED, "table frozen", "shared weights")  # changes after which something else may be learned


def learned(change: str, found: pd.DataFrame | None = None) -> Interval:
    """Accuracy with a change less that without, a share. found: a row a seed (results.table).

    Raises KeyError where it was not trained, or once only.
    """
    found = results.table() if found is None else found
    usual, ways, _ = LEARNED[change]
    before, *after = (stored.chosen(found, **results.settings(**usual | way))["accuracy"] for way in ({}, *ways))
    return difference(max(after, key=lambda each: each.mean() if len(each) else -1), before)
