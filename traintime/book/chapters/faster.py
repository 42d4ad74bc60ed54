"""Chapter 13, faster: one change at a time on three models with different bottlenecks, its gain and its cost."""

import functools
from collections.abc import Callable, Mapping
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import claims, page, stored
from traintime.book.claims import Finding
from traintime.book.stored import Measurements, Sides
from traintime.book.values import Values, exact, quantity
from traintime.errors import unknown
from traintime.explain.statistics import difference, verdicts
from traintime.learning import results
from traintime.measuring import stacks
from traintime.point import make_point

STACKS = list(stored.TODAY)
# What limits a step of each: matmuls, the update of a table's rows, time steps that wait for one another.
MODELS: dict[str, dict[str, Any]] = {
    "arithmetic": {"workload": "blocks", "structure": "plain", "side": 32, "width": 32, "depth": 8, "batch": 32},
    "table": {"workload": "rnn", "vocabulary": 80_000, "batch": 100},
    "loop": {"workload": "lstm", "batch": 32, "length": 50},
}
NAMES = {"arithmetic": "convolutions", "table": "large table", "loop": "LSTM"}
# What limits a step, and how to recognise it, in the order in which to ask.
LIMITS = {
    "loop": ("loop over time steps", "a recurrent layer"),
    "arithmetic": ("matmuls", "no recurrent layer; four times the batch takes about four times as long, or longer"),
    "table": ("update of a table", "a large table; four times the batch takes up to about twice as long"),
    "data": ("waiting for data", "training on one batch again and again is faster"),
    "saving": ("saving", "a step that saves takes far longer than the others"),
    "starts": ("starting a step", "a step takes a few milliseconds"),
}
FEEDS = ["ready"] + [f"{kind}{how}" for kind in ("decoded", "fetched") for how in ("", "-ahead", "-parallel")]
WAIT_S = 0.002  # a fetched sample's (the worker's feeds)
EVERY = 10  # steps between two saves of the model with the table
SELDOM = 100  # steps between two saves, as the document has it
SMALL = {"vocabulary": 5000, "length": 10}  # of which two hundred steps can be waited for
WORTH = 1.1  # times as fast, from which on a change is listed
WITHOUT_HALF = "amd-epyc-family25-model1-2-cores-24-gib"  # a processor without instructions for bfloat16


def chapter_machine() -> Measurements:
    """The book's machine if it ran the chapter's sweeps, else the first that did."""
    return stored.having(stored.of(), feeds)


claim = functools.partial(claims.of_chapter("13"), on=chapter_machine)


def saving_machine() -> Measurements:
    """The same for the sweep that saves at each and at every hundredth step."""
    return stored.having(chapter_machine(), lambda book: gains(book, *RARELY))


# One change at a time, on each model

# What is said to make a training faster, as a reader sees it: a field of a point, its usual value, and the other. Of
# the batch they are factors, as each model has a batch of its own.
ACCELERATIONS: dict[str, tuple[str, Any, Any]] = {
    "bfloat16": ("precision", "float32", "mixed-bfloat16"),
    "float16": ("precision", "float32", "mixed-float16"),
    "tcmalloc": ("allocator", "glibc", "tcmalloc"),
    "batch × 4": ("batch", 1, 4),
    "SGD": ("optimizer", "adam", "sgd"),
    "table frozen": ("frozen", False, True),
    "shared weights": ("shared", False, True),
    "fused kernel": ("algorithm", "default", "native"),
    "without XLA": ("jit", "auto", "off"),
    "without oneDNN": ("onednn", "auto", "off"),
}


def settings(model: str, change: str) -> tuple[str, list[Any]]:
    """The field that a change changes, and its two values: the model's usual one, and the other."""
    field, *values = ACCELERATIONS[change]
    return field, [MODELS[model]["batch"] * factor for factor in values] if field == "batch" else values


def sweeps(model: str, names: list[str], on: list[str]) -> dict[str, dict[str, Any]]:
    """The sweeps of a run that tries these changes on a model, on these stacks: both sides of each, interleaved.

    Raises InputError for an unknown model or change.
    """
    if model not in MODELS:
        raise unknown("model", model, list(MODELS))
    for name in names:
        if name not in ACCELERATIONS:
            raise unknown("change", name, list(ACCELERATIONS))
    both = {name: settings(model, name) for name in names}
    return {name: MODELS[model] | {"stacks": on, field: values} for name, (field, values) in both.items()}


@functools.cache
def changes(book: Measurements) -> pd.DataFrame:
    """How many times as fast a sample is trained with each change, alone: a row a model, change and stack of Keras 3.

    Only where both sides were measured in the same rounds. Columns: model, change, stack, ratio with low and high,
    number (Measurements.ratios), told (whether it is significant), memory and disturbed (see `beside`).
    """
    rows = []
    for model, change in product(MODELS, ACCELERATIONS):
        field, (usual, other) = settings(model, change)
        if field not in make_point(**MODELS[model]).fields:
            continue
        runs = book.invocations(**MODELS[model] | {field: [usual, other]})
        runs = runs.loc[[stacks.get(name).api == "keras3" for name in runs["stack"]]]
        if runs.empty:
            continue
        if field == "batch":  # by the sample: a step of more of them may take as much longer
            runs = runs.assign(median_s=runs["median_s"] * usual / runs["batch"])
        table = book.ratios(runs, [(usual, other)], of=field, against="stack")
        for row in stored.in_order(table[table["sweep"] != ""]).to_dict("records"):
            mine = stored.chosen(runs, stack=row["stack"])
            both = (mine[mine[field] == value] for value in (usual, other))
            row["told"] = row["reason"] == "significant"
            rows.append(row | {"model": model, "change": change} | beside(*both))
    columns = ["model", "change", "stack", "ratio", "low", "high", "told", "memory", "disturbed"]
    return pd.DataFrame(rows, columns=columns)


def beside(usual: pd.DataFrame, other: pd.DataFrame) -> dict[str, Any]:
    """In addition to the times of two sides: memory, the ratio of their peaks; whether one has disturbed runs alone."""
    # A disturbed run counts only where its point has no other (explain.points.counted).
    disturbed = any(bool(side["disturbed"].astype(bool).all()) for side in (usual, other))
    return {"memory": other["peak_bytes"].max() / usual["peak_bytes"].max(), "disturbed": disturbed}


# Two ways to run one thing

PROCESSES = "two processes of one thread"
WHEN_READ = "deferred rows (chapter 16), 200,000 rows"
RARELY = "saving", f"every {SELDOM} steps, not every step"
AT_EACH = SMALL | {"save_every": 1}
AT_ONCE = "starts", "16 steps per execution"
FIT = {"vocabulary": 1000, "length": 10, "loop": "fit"}  # a step of milliseconds
PAIRS = {  # by what limits the usual one, and the name of the other: the fields of the usual one, and what changes
    ("arithmetic", PROCESSES): (MODELS["arithmetic"], {"replicas": 2}),
    ("table", PROCESSES): (MODELS["table"], {"replicas": 2}),
    ("table", WHEN_READ): ({"vocabulary": 200_000}, {"optimizer": "adam-deferred"}),
    **{
        ("data", f"{name}: {word}"): (MODELS["arithmetic"] | {"feed": feed}, {"feed": f"{feed}-{how}"})
        for feed, name in (("fetched", "fetching"), ("decoded", "decoding"))
        for how, word in (("ahead", "ahead"), ("parallel", "in parallel"))
    },
    RARELY: (AT_EACH, {"save_every": SELDOM}),
    ("saving", "asynchronous, each step"): (AT_EACH, {"save_aside": True}),
    ("saving", f"asynchronous, every {EVERY} steps"): (MODELS["table"] | {"save_every": EVERY}, {"save_aside": True}),
    AT_ONCE: (FIT, {"steps_per_execution": 16}),
}


def interleaved(book: Measurements, *configurations: Mapping[str, Any]) -> dict[str, Sides]:
    """Invocations of these configurations (fields of a point) in common rounds, by stack that measured all of them."""
    frames = [book.invocations(**fields) for fields in configurations]
    common = {stack: stored.same_rounds(*(stored.chosen(frame, stack=stack) for frame in frames)) for stack in STACKS}
    return {stack: Sides(sides, book, sweep, rounds) for stack, (sides, sweep, rounds) in common.items() if rounds}


@quantity
def gains(book: Measurements, limit: str, change: str) -> Values:
    """How many times as fast a change makes a model, or a thing so limited, by stack that ran both in common rounds."""
    if (limit, change) not in PAIRS:
        rows = stored.chosen(changes(book), model=limit, change=change)
        return Values({row["stack"]: stored.interval(row) for _, row in rows.iterrows()})
    usual, other = PAIRS[limit, change]
    value = "fit_step_s" if (limit, change) == AT_ONCE else "step_s"
    sides = interleaved(book, usual, usual | other)
    return Values({stack: each.interval(lambda s: s[0] / s[1], value) for stack, each in sides.items()})


def with_batch(book: Measurements, model: str) -> Values:
    """How many times as long a step of a model takes with four times the batch, by stack."""
    return gains(book, model, "batch × 4").inverse(4).written(".1f")


# Batches that are made while the training runs, and saves


@functools.cache
def feeds(book: Measurements) -> pd.DataFrame:
    """A step on TensorFlow with each feed; empty unless all were measured in common rounds.

    Columns: feed, step_s with low_s and high_s, waited_s (of the step, for the batch), own_cores (processors that the
    process kept busy, on average).
    """
    configurations = [MODELS["arithmetic"] | {"feed": feed} for feed in FEEDS]
    sides, rows = interleaved(book, *configurations).get("2026-tensorflow"), []
    for place, frame in enumerate(sides.frames if sides else []):
        step = sides.interval(lambda s, place=place: s[place], "step_s")
        row = {"feed": FEEDS[place], "step_s": step.value, "low_s": step.low, "high_s": step.high}
        rows.append(row | frame[["waited_s", "own_cores"]].mean().to_dict())
    return pd.DataFrame(rows, columns=["feed", "step_s", "low_s", "high_s", "waited_s", "own_cores"])


@quantity
def recovered(book: Measurements) -> Values:
    """What decoding ahead or in parallel recovers of what decoding costs in turn, a share, on TensorFlow."""
    made = [MODELS["arithmetic"] | {"feed": feed} for feed in ("ready", "decoded", "decoded-ahead", "decoded-parallel")]
    sides = interleaved(book, *made)["2026-tensorflow"]
    cost_s = float(sides.frames[1]["waited_s"].mean())
    ways = {"ahead": 2, "in parallel": 3}
    return Values({how: sides.interval(lambda s, at=at: (s[1] - s[at]) / cost_s, "step_s") for how, at in ways.items()})


# What a change costs


def shared_parameters(model: str) -> float:
    """What is left of a model's parameters with shared weights, a share."""
    own, one = (make_point(**MODELS[model], shared=shared).work.parameters for shared in (False, True))
    return one / own


DIGITS, SENTENCES = {"task": "mnist1d"}, {"task": "moods", "units": 32, "epochs": 5}
# Of a change: the trials without it, with it (the best of several counts), and what they were.
LEARNED: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str]] = {
    "bfloat16": (DIGITS, [{"precision": "mixed-bfloat16"}], "digits"),
    "float16": (DIGITS, [{"precision": "mixed-float16"}], "digits"),
    "batch × 4": (DIGITS, [{"batch": 512}], "digits, batch 512 for 100, as many epochs"),
    "SGD": (SENTENCES, [{"optimizer": "sgd", "rate": rate} for rate in (0.1, 1.0)], "sentences, the better rate"),
    WHEN_READ: (SENTENCES, [{"table": "deferred"}], "sentences"),
}
OTHERWISE = (*LEARNED, "table frozen", "shared weights")  # changes after which something else may be learned
trials = functools.cache(results.table)  # every stored training, a row a seed


def learned() -> Values:
    """Accuracy with a change less that without, in points, by change that was trained more than once."""
    found = {}
    for change, (usual, ways, _) in LEARNED.items():
        tried = [stored.chosen(trials(), **results.settings(**usual | way))["accuracy"] for way in ({}, *ways)]
        changed = max(tried[1:], key=lambda each: each.mean() if len(each) else -1)
        if min(len(tried[0]), len(changed)) > 1:
            found[change] = difference(changed, tried[0])
    return Values(found, "+.1f", 100)


def epochs() -> Values:
    """Epochs to one training loss at each of Adam's rates: that which the smallest rate has reached at its end.

    By rate, the mean over the seeds; one that does not get there counts with all its epochs. Empty of a single rate.
    """
    usual = results.settings("mnist1d")
    tried = stored.chosen(trials(), **{name: value for name, value in usual.items() if name != "rate"})
    curves = {rate: np.array(group["training_loss"].tolist()) for rate, group in tried.groupby("rate")}
    found = {}
    for rate, losses in curves.items() if len(curves) > 1 else ():
        there = losses <= curves[min(curves)][:, -1].mean()
        found[f"{rate:g}"] = float(np.where(there.any(axis=1), there.argmax(axis=1) + 1, there.shape[1]).mean())
    return exact(found, ".1f")


def smaller_rates_take_longer() -> Finding:
    """Whether each rate up to 0.003 takes more epochs than the next larger one."""
    found = [each for rate, each in epochs().items() if float(rate) <= 0.003]
    falls = [one.value > other.value for one, other in pairwise(found)]
    return Finding(all(stored.measured(falls)), "; ".join(f"rate {one.name}: {one.alone} epochs" for one in found))


claim(
    6,
    "Where the training keeps all processors busy, decoding ahead or in parallel recovers less than half of what "
    "decoding costs in turn.",
    lambda book: recovered(book) < 0.5,
    says="inconclusive",
)
claim(
    14,
    "From a rate of 0.003 down to 0.0001 each smaller one needs more epochs to the same training loss.",
    claims.once(smaller_rates_take_longer, chapter_machine),
    source="S1",
)
claim(
    16,
    "Saved every 100 steps a training is at least 1.5 times as fast as saved after each, on all three stacks.",
    lambda book: gains(book, *RARELY).only(*STACKS) > 1.5,
    source="S1",
    on=saving_machine,
)
claim(
    19,
    "Where a batch has to be fetched, a step is faster if it is fetched ahead than in turn, on TensorFlow.",
    lambda book: gains(book, "data", "fetching: ahead") > 1,
    source="S1",
)
claim(
    20,
    "bfloat16 makes the convolutions at least 1.3 times as fast on torch.",
    lambda book: gains(book, "arithmetic", "bfloat16").only("2026-torch") > 1.3,
    source="S1",
)


# What to try first: all that was tried, by what limits the step, with its gain and its cost as measured


@functools.cache
def comparisons(book: Measurements, saved: Measurements) -> pd.DataFrame:
    """Every comparison of the chapter: a row a limit, change and stack, by limit; of a limit the largest gain first.

    saved: the machine that saved after every hundredth step. Columns: limit, change, stack, ratio with low and high,
    memory, disturbed, told (as in `changes`; never of disturbed runs), helps (whether the change is worth listing: a
    significant gain on some stack). One that nobody measured has a row without a stack.
    """
    rows = changes(book).assign(limit=changes(book)["model"]).to_dict("records")
    for (limit, change), (usual, other) in PAIRS.items():
        machine = saved if usual.items() >= SMALL.items() else book
        common, found = {"limit": limit, "change": change}, gains(machine, limit, change)
        sides = interleaved(machine, usual, usual | other)
        reasons = verdicts(list(found.by_name.values()), [True] * len(found))
        for (stack, gain), reason in zip(found.items(), reasons, strict=True):
            row = {"stack": stack, "ratio": gain.value, "low": gain.low, "high": gain.high}
            row["told"] = reason == "significant"
            rows.append(common | row | beside(*sides[stack].frames))
        if not found:
            rows.append(common | {"stack": None, "told": False, "disturbed": False})
    columns = ["limit", "change", "stack", "ratio", "low", "high", "memory", "disturbed", "told"]
    table = pd.DataFrame(rows, columns=columns)
    table["told"] &= ~table["disturbed"]
    told = table["ratio"].where(table["told"])
    best = told.groupby([table["limit"], table["change"]]).transform("max").fillna(0)
    table["helps"] = best >= WORTH
    if table["stack"].isna().all():
        return table.iloc[:0]
    return table.iloc[np.lexsort([-best, table["limit"].map(list(LIMITS).index)])].reset_index(drop=True)


def worth_trying(book: Measurements, saved: Measurements) -> pd.DataFrame:
    """The rows of `comparisons` of each change that helps on some stack, with the bottleneck as a reader reads it."""
    table = comparisons(book, saved)
    table = table[table["helps"]].dropna(subset="stack").drop(columns="helps")
    return table.assign(limit=table["limit"].map({name: words[0] for name, words in LIMITS.items()}))


# What the page shows


def models_table(book: Measurements) -> HTML:
    """The three models: what a step of each has to do, and what it takes with four times the batch."""
    work = {name: make_point(**fields).work for name, fields in MODELS.items()}
    longer = {name: with_batch(book, name) for name in MODELS}
    if not all(longer.values()):
        return page.nothing()
    return page.columns(
        pd.DataFrame({"model": list(work)}),
        model=("model", lambda row: NAMES[row["model"]]),
        parameters=("parameters", lambda row: f"{work[row['model']].parameters:,}"),
        flops=("operations per step (10⁹)", lambda row: f"{work[row['model']].flops / 1e9:.1f}"),
        length=("time steps in a row", lambda row: str(MODELS[row["model"]].get("length", ""))),
        batch=("times as long with four times the batch", lambda row: longer[row["model"]].range),
    )


def change_table(book: Measurements) -> HTML:
    """Times as fast, a row a model and change, a column a stack."""
    table, rows = changes(book), []
    names = stored.stack_order(table["stack"])
    for (model, change), group in table.groupby(["model", "change"], sort=False):
        cells = {row["stack"]: _span(row) for _, row in group.iterrows()}
        rows.append([f"{NAMES[model]}: {change}", *(cells.get(name, "") for name in names)])
    return page.table(["times as fast", *names], rows) if rows else page.nothing()


def bottleneck_table(book: Measurements, saved: Measurements) -> HTML:
    """What limits a step, how to see it, which changes help then, and how many times as fast they make training."""
    table, rows, known = comparisons(book, saved), [], learned()
    for limit, of_limit in table[table["helps"]].groupby("limit", sort=False):
        rows.append(["**{}: {}**".format(*LIMITS[limit]), *[""] * len(STACKS)])
        for change, each in of_limit.groupby("change", sort=False):
            name = f"{change} †" if change in known and known[change].high < 0 else change
            rows.append([name, *_by_stack(each, _gain)])
    heads = ["what limits a step, and what helps", *stored.TODAY.values()]
    return page.table(heads, rows) if rows else page.nothing()


def tried_table(book: Measurements, saved: Measurements) -> HTML:
    """Every comparison with its interval, and what the change costs; folded."""
    rows = []
    for (limit, change), each in comparisons(book, saved).groupby(["limit", "change"], sort=False):
        rows.append([LIMITS[limit][0], change, *_by_stack(each, _times), _cost(limit, change, each)])
    heads = ["what limits a step", "change", *stored.TODAY.values(), "cost"]
    fold = "Every change that we tried, with intervals and costs"
    return page.table(heads, rows, right=False, fold=fold) if rows else page.nothing()


def _by_stack(rows: pd.DataFrame, written: Callable[[pd.Series], str]) -> list[str]:
    """A cell for each stack, of a change's rows of `comparisons`."""
    cells = {row["stack"]: written(row) for _, row in rows.dropna(subset="stack").iterrows()}
    return [cells.get(name, "" if cells else "not measured yet") for name in STACKS]


def _cost(limit: str, change: str, rows: pd.DataFrame) -> str:
    """What a change costs, as far as it was measured. rows: of the change, as `comparisons` gives them."""
    memory = dict.fromkeys(f"{end:.2f}" for end in (rows["memory"].min(), rows["memory"].max()) if pd.notna(end))
    parts = [f"peak memory × {' to '.join(memory)}" if memory else "memory: not measured"]
    if change == "shared weights":
        parts.append(f"parameters × {shared_parameters(limit):.2f}")
    if change in (known := learned()):
        parts.append(f"accuracy {known[change]} points, {LEARNED[change][2]}")
    elif change in OTHERWISE:
        parts.append("accuracy: not measured")
    if limit == "saving" and str(SELDOM) in change:
        parts.append(f"up to {SELDOM - 1} steps lost in a crash")
    return "; ".join(parts)


def _span(row: pd.Series) -> str:
    """Times as fast, its interval below, with digits enough that none is 0.00."""
    return page.span(row, spec=".3f" if row["ratio"] < 0.1 else ".2f", below=True)


def _gain(row: pd.Series) -> str:
    """Times as fast without its interval, in bold where it is significant."""
    return f"**{row['ratio']:.1f}**" if row["told"] else f"{row['ratio']:.1f}"


def _times(row: pd.Series) -> str:
    """The same with its interval."""
    value, *interval = _span(row).split("<br>")
    marks = ["*all disturbed*"] if row["disturbed"] else []
    return "<br>".join([f"**{value}**" if row["told"] else value, *interval, *marks])
