"""Chapter 13, faster: one change at a time on three models with different bottlenecks, and what each change costs."""

import functools
from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import HTML

from traintime.book import page, stored
from traintime.book.chapters import measuring
from traintime.book.chapters.faster_costs import LEARNED, WHEN_READ, accuracy_cost
from traintime.book.chapters.faster_transfers import (
    EVERY,
    MODELS,
    SELDOM,
    SMALL,
    STACKS,
    chapter_machine,
    for_each,
    interleaved,
    saving_machine,
    times_as_fast,
)
from traintime.book.claims import Finding, above, below, claim, every_stack, judged_together, within
from traintime.book.page import Prose
from traintime.book.stored import Measurements
from traintime.errors import unknown
from traintime.explain.statistics import Interval
from traintime.measuring import stacks
from traintime.point import make_point

WORTH = 1.1  # times as fast, from which on a change is listed
# What limits a step, and how to recognise it, in the order of figure and table.
LIMITS = {
    "arithmetic": ("matmuls", "four times the batch takes about four times as long, or longer"),
    "table": ("update of a table", "four times the batch takes far less than that; most parameters are in a table"),
    "loop": ("loop over time steps", "a recurrent layer"),
    "data": ("waiting for data", "training on one batch again and again is faster"),
    "saving": ("saving", "a step that saves takes far longer than the others"),
    "starts": ("starting a step", "a step takes a few milliseconds"),
}


def models_table() -> HTML:
    """The three models: what a step of each has to do."""
    work = {name: make_point(**fields).work for name, fields in MODELS.items()}
    return page.columns(
        pd.DataFrame({"model": list(work)}),
        model="model",
        parameters=("parameters", lambda row: f"{work[row['model']].parameters:,}"),
        flops=("operations per step (10⁹)", lambda row: f"{work[row['model']].flops / 1e9:.2f}"),
        launches=("serial launches", lambda row: f"{work[row['model']].launches:,}"),
        limit=("limited by", lambda row: LIMITS[row["model"]][0]),
    )


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
OTHERWISE = (*LEARNED, "table frozen", "shared weights")  # changes after which something else may be learned


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
    number (Measurements.ratios), told (whether it is significant: the interval, as one of so many stacks, excludes 1),
    memory and disturbed (see `beside`).
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
            mine = stored.chosen(runs, stack=row["stack"], sweep=row["sweep"])
            both = (mine[mine[field] == value] for value in (usual, other))
            row["told"] = stored.interval(row).one_of(table["stack"].nunique()).excludes(1)
            rows.append(row | {"model": model, "change": change} | beside(*both))
    columns = ["model", "change", "stack", "ratio", "low", "high", "number", "told", "memory", "disturbed"]
    return pd.DataFrame(rows, columns=columns)


def beside(usual: pd.DataFrame, other: pd.DataFrame) -> dict[str, Any]:
    """In addition to the times of two sides: memory, the ratio of their peaks; whether one has disturbed runs alone."""
    # A disturbed run counts only where its point has no other (explain.points.counted).
    disturbed = any(bool(side["disturbed"].astype(bool).all()) for side in (usual, other))
    return {"memory": other["peak_bytes"].max() / usual["peak_bytes"].max(), "disturbed": disturbed}


def gains(book: Measurements, model: str, change: str, on: list[str] = STACKS) -> dict[str, Interval]:
    """Times as fast with a change, by stack. Raises KeyError where one was not measured."""
    rows = stored.chosen(changes(book), model=model, change=change)
    return {stack: stored.interval(stored.row(rows, stack=stack)) for stack in on}


def gains_of_models(book: Measurements, change: str, *models: str) -> dict[str, Interval]:
    """The same on all three stacks, by model and stack."""
    return {f"{model}, {stack}": one for model in models for stack, one in gains(book, model, change).items()}


def shared_parameters(model: str) -> float:
    """What is left of a model's parameters with shared weights, a share."""
    own, one = (make_point(**MODELS[model], shared=shared).work.parameters for shared in (False, True))
    return one / own


def change_table(book: Measurements, fold: str = "") -> HTML:
    """Times as fast, a row a model and change, a column a stack."""
    table, rows = changes(book), []
    if table.empty:
        return page.nothing()
    names = stored.stack_order(table["stack"])
    for (model, change), group in table.groupby(["model", "change"], sort=False):
        cells = {row["stack"]: _span(row) for _, row in group.iterrows()}
        rows.append([f"{model}: {change}", *(cells.get(name, "") for name in names)])
    return page.table(["times as fast", *names], rows, fold=fold)


@claim(
    "13.1",
    "bfloat16 makes the convolutions at least 1.3 times as fast on torch, and neither the table nor the loop on "
    "any stack.",
    "S1",
    says="inconclusive",
    on=chapter_machine,
)
def bfloat16_needs_products_of_its_own(book: Measurements) -> Finding:
    return judged_together(
        every_stack(gains(book, "arithmetic", "bfloat16", ["2026-torch"]), above(1.3)),
        every_stack(gains_of_models(book, "bfloat16", "table", "loop"), below(1.3)),
    )


@claim("13.20", "bfloat16 makes the convolutions at least 1.3 times as fast on torch.", "S1", on=chapter_machine)
def bfloat16_helps_convolutions(book: Measurements) -> Finding:
    return every_stack(gains(book, "arithmetic", "bfloat16", ["2026-torch"]), above(1.3))


@claim(
    "13.2",
    "With float16 the convolutions are slower than in float32, on all three stacks.",
    "S1",
    on=chapter_machine,
    says="inconclusive",
)
def float16_is_slower(book: Measurements) -> Finding:
    return every_stack(gains(book, "arithmetic", "float16"), below(1), ".3f")


@claim(
    "13.4",
    "Sharing one set of weights among eight convolutions changes a step by less than 10 %, on all three stacks.",
    "S1",
    says="inconclusive",
    on=chapter_machine,
)
def shared_weights_change_little(book: Measurements) -> Finding:
    return every_stack(gains(book, "arithmetic", "shared weights"), within(1 / 1.1, 1 / 0.9))


@claim(
    "13.11",
    "tcmalloc makes the table at least 1.2 times as fast on torch, and neither the convolutions nor the loop on "
    "any stack.",
    says="inconclusive",
    on=chapter_machine,
)
def tcmalloc_is_for_tables(book: Measurements) -> Finding:
    return judged_together(
        every_stack(gains(book, "table", "tcmalloc", ["2026-torch"]), above(1.2)),
        every_stack(gains_of_models(book, "tcmalloc", "arithmetic", "loop"), below(1.2)),
    )


@claim(
    "13.12",
    "Four times the batch makes a sample of the loop at least 1.5 times as fast and one of the convolutions less "
    "than 1.2 times, on all three stacks.",
    says="does not hold",
    on=chapter_machine,
)
def a_larger_batch_is_for_loops(book: Measurements) -> Finding:
    loop, arithmetic = (gains_of_models(book, "batch × 4", model) for model in ("loop", "arithmetic"))
    return judged_together(every_stack(loop, above(1.5)), every_stack(arithmetic, below(1.2)))


# What to try first: all that was tried, by what limits the step, with its gain and its cost as measured


@dataclass(frozen=True)
class Pair:
    """Two ways to run one thing. name: of the second one; usual: fields of the first; change: what the second has
    instead; value: the seconds that are meant.
    """

    limit: str
    name: str
    usual: dict[str, Any]
    change: dict[str, Any]
    value: str = "step_s"

    @property
    def both(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return self.usual, self.usual | self.change


FIT = {"vocabulary": 1000, "length": 10, "loop": "fit"}  # a step of milliseconds
AT_ONCE = Pair("starts", "16 steps per execution", FIT, {"steps_per_execution": 16}, "fit_step_s")
AS_READ = Pair("table", WHEN_READ, {"vocabulary": 200_000}, {"optimizer": "adam-deferred"})
PAIRS = [
    Pair("arithmetic", "two processes of one thread", MODELS["arithmetic"], {"replicas": 2}),
    Pair("table", "two processes of one thread", MODELS["table"], {"replicas": 2}),
    AS_READ,
    *(
        Pair("data", f"{name}: {word}", MODELS["arithmetic"] | {"feed": feed}, {"feed": f"{feed}-{how}"})
        for feed, name in (("fetched", "fetching"), ("decoded", "decoding"))
        for how, word in (("ahead", "ahead"), ("parallel", "in parallel"))
    ),
    Pair("saving", f"every {SELDOM} steps, not every step", SMALL | {"save_every": 1}, {"save_every": SELDOM}),
    Pair("saving", "asynchronous, each step", SMALL | {"save_every": 1}, {"save_aside": True}),
    Pair("saving", f"asynchronous, every {EVERY} steps", MODELS["table"] | {"save_every": EVERY}, {"save_aside": True}),
    AT_ONCE,
]


def pair_gains(book: Measurements, pair: Pair) -> dict[str, Interval]:
    """How many times as fast the second way is, by stack that ran both in common rounds."""
    return times_as_fast(book, *pair.both, pair.value)


@claim(
    "13.13",
    "`steps_per_execution=16` makes a step of `fit` at least 1.1 times as fast on TensorFlow and JAX.",
    says="inconclusive",
    on=chapter_machine,
)
def several_steps_at_once_help(book: Measurements) -> Finding:
    by_stack = pair_gains(book, AT_ONCE)
    return every_stack({stack: by_stack[stack] for stack in ("2026-tensorflow", "2026-jax")}, above(1.1))


@functools.cache
def comparisons(book: Measurements, saved: Measurements) -> pd.DataFrame:
    """Every comparison of the chapter: a row a limit, change and stack, by limit; of a limit the largest gain first.

    saved: the machine that saved after every hundredth step. Columns: limit, change, stack, ratio with low and high,
    memory, disturbed, told (as in `changes`). A comparison of disturbed runs alone is among them; one
    that nobody measured has a row without a stack.
    """
    counted = _compared(book, saved)
    # Of a point's runs the disturbed ones are left out; where nothing is left to compare with, they are shown as such.
    every = _compared(_undisturbed(book), _undisturbed(saved)).assign(disturbed=True, told=False)
    table = pd.concat([counted, every]).drop_duplicates(["limit", "change", "stack"])
    if table["stack"].isna().all():
        return table.iloc[:0]
    change = ["limit", "change"]
    table = table[table["stack"].notna() | ~table.duplicated(change, keep=False)]
    best = table["ratio"].where(table["told"]).groupby([table[name] for name in change]).transform("max").fillna(0)
    place = table["limit"].map(list(LIMITS).index)
    return table.iloc[np.lexsort([-best, place])].reset_index(drop=True)


@functools.cache
def _undisturbed(book: Measurements) -> Measurements:
    """The same measurements, as if no run had been disturbed."""
    return Measurements(book.rows.assign(disturbed=False), book.machine, book.root, book.usual)


def _compared(book: Measurements, saved: Measurements) -> pd.DataFrame:
    alone = changes(book)
    rows = alone.assign(limit=alone["model"]).to_dict("records")
    for pair in PAIRS:
        machine = saved if pair.usual.items() >= SMALL.items() else book
        common, sides = {"limit": pair.limit, "change": pair.name}, interleaved(machine, *pair.both)
        gains = pair_gains(machine, pair)
        for stack, gain in gains.items():
            row = {"stack": stack, "ratio": gain.value, "low": gain.low, "high": gain.high}
            row["told"] = gain.one_of(len(gains)).excludes(1)
            rows.append(common | row | beside(*sides[stack].frames))
        if not sides:
            rows.append(common | {"stack": None, "told": False, "disturbed": False})
    columns = ["limit", "change", "stack", "ratio", "low", "high", "memory", "disturbed", "told"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(told=table["told"] & ~table["disturbed"])


def _cost(limit: str, change: str, rows: pd.DataFrame) -> str:
    """What a change costs, as far as it was measured. rows: of the change, as `comparisons` gives them."""
    memory = dict.fromkeys(f"{end:.2f}" for end in (rows["memory"].min(), rows["memory"].max()) if pd.notna(end))
    parts = [f"peak memory × {' to '.join(memory)}" if memory else "memory: not measured"]
    if change == "shared weights":
        parts.append(f"parameters × {shared_parameters(limit):.2f}")
    if change in OTHERWISE:
        parts.append(accuracy_cost(change))
    if limit == "saving" and str(SELDOM) in change:
        parts.append(f"up to {SELDOM - 1} steps lost in a crash")
    return "; ".join(parts)


def _helps(rows: pd.DataFrame) -> bool:
    """Whether a change is worth listing: a significant gain on some stack. rows: of one change."""
    return bool((rows["told"] & (rows["ratio"] >= WORTH)).any())


def worth_trying(book: Measurements, saved: Measurements) -> pd.DataFrame:
    """The rows of `comparisons` of each change that helps on some stack, with the bottleneck as a reader reads it."""
    table = comparisons(book, saved).dropna(subset="stack")
    table = table.groupby(["limit", "change"], sort=False).filter(_helps)
    return table.assign(limit=table["limit"].map({name: words[0] for name, words in LIMITS.items()}))


def first_table(book: Measurements, saved: Measurements) -> HTML:
    """What to try first for each limit: the changes that are worth it on some stack, and those not measured yet."""
    return _comparison_table(comparisons(book, saved), True, "Every change that helps, with intervals and costs")


def rest_table(book: Measurements, saved: Measurements) -> HTML:
    """What was tried and helped nowhere, or was inconclusive, behind a line that opens it."""
    return _comparison_table(comparisons(book, saved), False, "Changes that did not help, or are inconclusive")


def _comparison_table(table: pd.DataFrame, worth: bool, fold: str) -> HTML:
    rows = []
    for limit, of_limit in table.groupby("limit", sort=False):
        first = "<br>".join(LIMITS[limit])
        for change, each in of_limit.groupby("change", sort=False):
            if worth != (_helps(each) or bool(each["stack"].isna().any())):
                continue
            cells = {row["stack"]: _times(row) for _, row in each.iterrows() if pd.notna(row["stack"])}
            empty = "" if cells else "not measured yet"
            rows.append([first, change, *(cells.get(name, empty) for name in STACKS), _cost(limit, change, each)])
            first = ""
    names = [stack.removeprefix("2026-") for stack in STACKS]
    heads = ["bottleneck, how to see it", "change", *names, "cost"]
    return page.table(heads, rows, fold=fold) if rows else page.nothing()


def _span(row: pd.Series) -> str:
    """Times as fast, its interval below, with digits enough that none is 0.00."""
    return page.span(row, spec=".3f" if row["ratio"] < 0.1 else ".2f", below=True)


def _times(row: pd.Series) -> str:
    """The same, in bold where it is significant."""
    value, *interval = _span(row).split("<br>")
    marks = ["*all disturbed*"] if row["disturbed"] else []
    return "<br>".join([f"**{value}**" if row["told"] else value, *interval, *marks])


# The numbers of the sentences


def _by_stack(model: str, change: str, end: str, say: Callable[[Interval], str]) -> dict[str, Callable[..., str]]:
    """A number of the prose about a change for each stack: "table-SGD-jax", and "table-SGD-slower-jax" of `end`."""
    name = f"{model}-{change.replace(' ', '-').replace('×', 'x')}{end}"
    return for_each(STACKS, name, lambda book, stack: say(gains(book, model, change, [stack])[stack]))


def _slower(gain: Interval) -> str:
    """Times as slow, of times as fast: without digits where that is many times."""
    return Interval(1 / gain.value, 1 / gain.high, 1 / gain.low).text(",.0f" if gain.value < 0.1 else ".1f")


def _about(gain: Interval) -> str:
    return f"{gain.value:.2f}" if gain.value > 0.1 else f"{1 / gain.value:,.0f} times slower"


WITHOUT_HALF = "amd-epyc-family25-model1-2-cores-24-gib"  # a processor without instructions for bfloat16


def _there(change: str, stack: str) -> Interval:
    """Times as fast the convolutions are trained there with a change."""
    return gains(stored.of(WITHOUT_HALF), "arithmetic", change, [stack])[stack]


def _feed_there(name: str) -> str:
    """Times as fast a step is there with one of PAIRS for batches."""
    (pair,) = (each for each in PAIRS if each.name == name)
    return pair_gains(stored.of(WITHOUT_HALF), pair)["2026-tensorflow"].text()


ANSWER = [("arithmetic", "bfloat16"), ("arithmetic", "float16"), ("loop", "fused kernel"), ("table", "batch × 4")]
SLOWER = [("arithmetic", "float16"), *product(("arithmetic", "table"), ["without oneDNN"]), ("loop", "bfloat16")]
PROSE = Prose(
    "fst",
    there=lambda book: page.title(book, changes(book)),
    compared=lambda book: f"{comparisons(book, saving_machine())['stack'].count()}",
    shared=lambda book: f"{1 / shared_parameters('arithmetic'):.1f}",
    **dict(ChainMap(*(_by_stack(*each, "", Interval.text) for each in product(MODELS, ACCELERATIONS)))),
    **dict(ChainMap(*(_by_stack(*each, "-about", _about) for each in ANSWER))),
    **dict(ChainMap(*(_by_stack(*each, "-slower", _slower) for each in SLOWER))),
    slept=lambda _: measuring.slept_of("arrays", "dataset"),
    slept_untuned=lambda _: measuring.slept_of("untuned"),
    waited=lambda _: measuring.waited().text(".0%"),
    without_half=lambda _: stored.of(WITHOUT_HALF).title,
    **for_each(STACKS, "emulated", lambda _, stack: _there("bfloat16", stack).text(".2f")),
    emulated_slower=lambda _: f"{1 / _there('bfloat16', '2026-torch').value:.1f}",
    batch_slower=lambda _: _slower(_there("batch × 4", "2026-jax")),
    fetched_there=lambda _: _feed_there("fetching: ahead"),
    fetched_parallel_there=lambda _: _feed_there("fetching: in parallel"),
    decoded_there=lambda _: _feed_there("decoding: ahead"),
    **for_each(STACKS, "when-read", lambda book, stack: pair_gains(book, AS_READ)[stack].text()),
)
